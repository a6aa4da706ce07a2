"""A law moved by a constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.laws.base import Law


class Shifted:
    """The law of `law` plus `shift`: what an innovation becomes once it is added to a prediction.

    >>> from understudy.laws.gaussian import Gaussian
    >>> Shifted(Gaussian(0.0, 1.0), 10.0).value(2.0)
    12.0
    """

    __slots__ = ("dim", "law", "shift")

    def __init__(self, law: Law, shift: Any) -> None:
        self.dim = int(getattr(law, "dim", 1))
        self.law = law
        self.shift = shift

    @property
    def atoms(self) -> bool:
        """Whether the law that is moved has atoms."""
        return bool(getattr(self.law, "atoms", False))

    def __repr__(self) -> str:
        return f"Shifted({self.law!r})"

    def score(self, y: Any, v: Any = None) -> Any:
        """Score of the innovation."""
        innovation = _move(y, self.shift, -1.0)
        return self.law.score(innovation) if v is None else self.law.score(innovation, v)

    def value(self, z: Any) -> Any:
        """Innovation of the score, moved."""
        return _move(self.law.value(z), self.shift, 1.0)

    def logpdf(self, y: Any) -> Any:
        """Density of the innovation."""
        return self.law.logpdf(_move(y, self.shift, -1.0))


def _move(y: Any, shift: Any, sign: float) -> Any:
    if np.ndim(shift) == 0:
        return y + sign * shift
    return (np.asarray(y).T + sign * np.asarray(shift)).T
