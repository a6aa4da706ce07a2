"""What a law is: the conditional law of one reading given the past.

A law turns a reading into *scores*, independent standard normals, and back. In the paper the
reading passes through its conditional c.d.f., u = F(y), and then through an inverse one. Here
z = Phi^-1(u) takes the place of u: the same map, but it does not saturate in the tails.

Shapes. A law of dimension 1 acts on numbers, element by element, on arrays of any shape. A law of
dimension d > 1 acts on arrays whose first axis is the channel, ``(d,)`` or ``(d, N)``. The map is
triangular: score ``l`` depends on channels ``1..l`` alone, and increases with channel ``l``.

A class of your own needs the three methods of `Law`. It may also have an attribute `dim` (1 if it is
missing), an attribute `atoms` (True where readings have probabilities, and scores need auxiliary uniforms),
and a method ``score_or_end(y)``: the score, or -inf and inf outside the support, where `score` refuses.

The helpers below make arrays of readings and of scores, and refuse those that cannot be used. Messages name a
position, a type and a rule, never a value: a reading must not reach a log.
"""

from __future__ import annotations

from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Mask, Numbers
from understudy.errors import NumericalError, ReadingError


@runtime_checkable
class Law(Protocol):
    """The law of one reading given the past: three methods."""

    def score(self, y: Numbers, v: Numbers | None = None) -> Numbers:
        """Reading to scores, y -> z ~ N(0, I); `v` are auxiliary uniforms, used by atoms only."""
        ...

    def value(self, z: Numbers) -> Numbers:
        """Scores to reading, the inverse of `score`."""
        ...

    def logpdf(self, y: Numbers) -> Numbers:
        """Logarithm of the joint density of the channels, in nats."""
        ...


def is_law(thing: object) -> TypeGuard[Law]:
    """Whether something has the three methods of a law."""
    return all(callable(getattr(thing, name, None)) for name in ("score", "value", "logpdf"))


def dimension(law: Law) -> int:
    """Number of channels of a law; 1 for a law that does not say."""
    return int(getattr(law, "dim", 1))


def has_atoms(law: Law) -> bool:
    """Whether a law has atoms, so that its scores need auxiliary uniforms."""
    return bool(getattr(law, "atoms", False))


# Readings and scores as arrays ------------------------------------------------------------------------


def numbers(y: ArrayLike, what: str = "reading") -> Array:
    """Readings or scores as an array of any shape."""
    try:
        return np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        raise ReadingError(f"a {what} of type {type(y).__name__}; it must be a number or an array") from None


def channels(y: ArrayLike, dim: int, what: str) -> Array:
    """Readings or scores as (dim, N).

    >>> channels([1, 2], 2, "reading").tolist()
    [[1.0], [2.0]]
    """
    array = numbers(y, what)
    if dim > 1 and not (array.ndim in (1, 2) and array.shape[0] == dim):
        raise ReadingError(f"a {what} of shape {array.shape}; {dim} channels need ({dim},) or ({dim}, N)")
    return array.reshape(dim, -1)


def to_shape(result: Array, shape: tuple[int, ...]) -> Numbers:
    """A result in the shape that was asked for; a plain number for the shape ()."""
    return float(result.item()) if shape == () else result.reshape(shape)


def position(bad: Mask, shape: tuple[int, ...]) -> str:
    """Where the first bad entry is, as the end of a phrase."""
    where = np.argwhere(bad.reshape(shape))[0].tolist()
    return f" at position {where[0] if len(where) == 1 else tuple(where)}" if where else ""


def check_inside(z: Array, shape: tuple[int, ...]) -> None:
    """Refuses readings whose score is infinite."""
    outside = np.isinf(z)
    if outside.any():
        at = position(outside, shape)
        raise ReadingError(f"the reading{at} is outside the support of the law; it must lie inside")


def check_reached(result: Array, given: Array, shape: tuple[int, ...], what: str) -> None:
    """Refuses a reading or score for which nothing finite was found."""
    lost = ~np.isfinite(result) & ~np.isnan(given)
    if lost.any():
        raise NumericalError(
            f"the {what}{position(lost, shape)} is too far in a tail: beyond double precision, or beyond "
            "what the log-density can be integrated from"
        )


def until_missing(rows: Array) -> Array:
    """NaN from the first NaN of each column on: a channel after a missing one has no score."""
    return np.where(np.logical_or.accumulate(np.isnan(rows), axis=0), np.nan, rows)
