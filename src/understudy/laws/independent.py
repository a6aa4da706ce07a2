"""A reading whose channels are independent, each with a law of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.errors import LawError
from understudy.laws.base import Array, Law, is_law
from understudy.laws.shapes import vectors


class Independent:
    """The joint law of independent channels: one law of one number for each.

    >>> from understudy.laws.gaussian import Gaussian
    >>> import scipy.stats
    >>> from understudy.laws.scalar import Scalar
    >>> law = Independent(Gaussian(20.0, 4.0), Scalar(scipy.stats.laplace()))
    >>> law
    Independent(dim=2)
    >>> law.score([24.0, 0.0]).tolist()
    [2.0, 0.0]
    >>> law.value([2.0, 0.0]).tolist()
    [24.0, 0.0]
    """

    __slots__ = ("_laws", "dim")

    dim: int

    def __init__(self, *laws: Law) -> None:
        if not laws:
            raise LawError("no law given; a vector needs one law for each channel")
        for i, law in enumerate(laws):
            if not is_law(law):
                raise LawError(f"channel {i} is of type {type(law).__name__}; it must be a law")
            dim = getattr(law, "dim", 1)
            if dim != 1:
                raise LawError(f"channel {i} has dim = {dim}; each channel must be a law of one number")
        self._laws = laws
        self.dim = len(laws)

    @property
    def laws(self) -> tuple[Law, ...]:
        """The laws of the channels."""
        return self._laws

    @property
    def atoms(self) -> bool:
        """Whether a channel has atoms, so that scores need auxiliary uniforms."""
        return any(getattr(law, "atoms", False) for law in self._laws)

    def __repr__(self) -> str:
        return f"Independent(dim={self.dim})"

    def score(self, y: Any, v: Any = None) -> Array:
        """The scores of the channels, each by its own law; `v` has the shape of `y`."""
        rows = self._rows(y)
        aux = [None] * self.dim if v is None else self._rows(v)
        return np.stack([law.score(row, u) for law, row, u in zip(self._laws, rows, aux, strict=True)])

    def value(self, z: Any) -> Array:
        """The reading that has these scores."""
        return np.stack([law.value(row) for law, row in zip(self._laws, self._rows(z), strict=True)])

    def logpdf(self, y: Any) -> Any:
        """Log-density: the sum over the channels."""
        return sum(law.logpdf(row) for law, row in zip(self._laws, self._rows(y), strict=True))

    def _rows(self, y: Any) -> list[Any]:
        array = vectors(y, self.dim)
        return array.tolist() if array.ndim == 1 else list(array)
