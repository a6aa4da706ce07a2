"""Independent, identically distributed readings (paper, Section IV-A)."""

from __future__ import annotations

from typing import Any

from understudy.errors import ModelError
from understudy.laws.base import Frozen, Law, is_law


def law_dim(law: Any, what: str) -> int:
    """Dimension of a law; refuses what is not one."""
    if not is_law(law):
        raise ModelError(
            f"{what} is of type {type(law).__name__}; it must be a law, with score, value and logpdf "
            "(a frozen scipy.stats distribution becomes one with us.Scalar)"
        )
    return int(getattr(law, "dim", 1))


class IID(Frozen):
    """Readings that are independent draws from one law.

    >>> import understudy as us
    >>> model = us.IID(us.Gaussian(5.0, 4.0))
    >>> float(us.whiten([7.0, 3.0], model)[0])
    1.0
    """

    __slots__ = ("dim", "law")

    def __init__(self, law: Law) -> None:
        self.dim = law_dim(law, "law")
        self.law = law

    def __repr__(self) -> str:
        return f"IID(dim={self.dim})"

    @property
    def atoms(self) -> bool:
        """Whether the law has atoms, so that scores need auxiliary uniforms."""
        return bool(getattr(self.law, "atoms", False))

    @property
    def innovations(self) -> tuple[None, Law]:
        """Readings are innovations."""
        return None, self.law

    def start(self) -> None:
        """There is nothing to remember."""
        return

    def predict(self, state: None) -> Law:
        """The law, always."""
        return self.law

    def update(self, state: None, y: Any) -> None:
        """A reading changes nothing."""
        return

    def skip(self, state: None) -> None:
        """A missing reading changes nothing."""
        return
