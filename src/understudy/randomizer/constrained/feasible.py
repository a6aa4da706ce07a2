"""From a matrix of floats that nearly keeps all constraints to a kernel that keeps every one exactly.

The matrix is mixed with another that keeps them with room to spare, as little as will do, and rounded to whole numbers
of 2^-53; whether it will do is decided in whole numbers. All constraints are convex, so a mixture keeps what both
keep. First it is tried with the part of the other that leaves zeros what they are: a pair that is never drawn should
not come once in a billion years for the sake of a rounding error.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from understudy.laws.base import Array

_UNIT = 2.0**53
# a little more than asked where there is room, so that measures in floating point say the same
_SPARE = Fraction(1, 2**48)
_LITTLE = -36  # the power of two up to which a part of the other kernel is mixed in

Kept = Callable[[Array, Fraction], bool]


def whole(P: Array, floor: float) -> Array:
    """Rows in whole numbers of 2^-53 that sum to one, none below the floor; the largest takes what is left.

    >>> whole(np.array([[0.1, 0.2, 0.7]]), 0.125).round(6).tolist()
    [[0.125, 0.2, 0.675]]
    """
    counts = np.rint(np.maximum(P, floor) * _UNIT).astype(np.int64)
    rows = np.arange(len(P))
    largest = P.argmax(axis=1)
    counts[rows, largest] += (1 << 53) - counts.sum(axis=1)
    return counts / _UNIT


def exactly(P: Array, inner: Array, floor: float, kept: Kept, room: bool = True) -> Array | None:
    """The least mixture of P with `inner` that is kept, rounded; None where not even `inner` itself is.

    Without `room` nothing is left to spare: less is mixed in.
    """
    zeros = (P == 0.0) & (inner > 0.0)
    part = np.where(P > 0.0, inner, 0.0)
    sums = part.sum(axis=1, keepdims=True)
    for spare in (_SPARE, Fraction(0)) if room else (Fraction(0),):
        found = None
        if zeros.any() and (sums > 0.0).all() and floor == 0.0:
            found = _least_mixture(P, part / sums, floor, kept, spare, _LITTLE)
        if found is None:
            found = _least_mixture(P, inner, floor, kept, spare)
        if found is not None:
            return found
    return None


def _least_mixture(P: Array, inner: Array, floor: float, holds: Kept, spare: Fraction, most: int = 0) -> Array | None:
    def kept(Q: Array) -> bool:
        return holds(Q, spare)

    def mixed(share: float) -> Array:
        return whole((1.0 - share) * P + share * inner, floor)

    first = mixed(0.0)
    if kept(first):
        return first
    low, high = -54, 0
    for power in range(-52, most + 1, 4):
        if kept(mixed(2.0**power)):
            high = power
            break
        low = power
    else:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(mixed(2.0**middle)) else (middle, high)
    return mixed(2.0**high)
