"""One reading under a mixture of any laws of one number, in plain floats.

As `single` is to normal laws, so is this to others: the formulas of `components` and `blend`, with None for
whatever is out of the ordinary.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, exp, inf, isfinite, isinf, log, pi, sqrt
from typing import Any

from understudy.errors import NumericalError, ReadingError

_DEEP, _FLAT, _SMALL, _LOOKS = 1e-290, 1e-12, 1e-8, 30
_FAR = 2.5  # the score from which the arrays take better care of the start
_ROOT_HALF = sqrt(0.5)
_LOG_SQRT_2PI = 0.5 * log(2.0 * pi)

Share = tuple[float, Any]
"""Weight and law of a component."""


def one_score_of(y: float, shares: Sequence[Share]) -> float | None:
    """The score of one reading, or None.

    >>> from understudy.laws.gaussian import Gaussian
    >>> round(one_score_of(5.0, [(0.5, Gaussian(-5.0, 1.0)), (0.5, Gaussian(5.0, 1.0))]), 6)
    0.67449
    """
    from scipy.special import ndtri

    below = above = 0.0
    try:
        for w, law in shares:
            z = _score(law, y)
            below += 0.5 * w * erfc(-z * _ROOT_HALF)
            above += 0.5 * w * erfc(z * _ROOT_HALF)
    except (NumericalError, ReadingError):
        return None
    if below <= above:
        return float(ndtri(below)) if below > _DEEP else None
    return -float(ndtri(above)) if above > _DEEP else None


def one_value_of(z: float, shares: Sequence[Share]) -> float | None:
    """The reading with score `z`, or None: Newton's method inside a bracket, until two moves in a row are small.

    >>> from understudy.laws.gaussian import Gaussian
    >>> round(one_value_of(0.67449, [(0.5, Gaussian(-5.0, 1.0)), (0.5, Gaussian(4.0, 1.0))]), 3)
    4.0
    """
    if not abs(z) < _FAR:
        return None
    try:
        quantiles = [float(law.value(z)) for _, law in shares]
        y = sum(w * quantile for (w, _), quantile in zip(shares, quantiles, strict=True))
        return _search(z, shares, y, (min(quantiles), max(quantiles)))
    except (NumericalError, ReadingError):
        return None


def _search(z: float, shares: Sequence[Share], y: float, bracket: tuple[float, float]) -> float | None:
    from scipy.special import ndtri

    low, high = bracket
    side, calm, bounded = (-1.0 if z < 0.0 else 1.0), 0, False
    if not low < high:
        return low if isfinite(low) else None
    y = min(max(y, low), high)
    for _ in range(_LOOKS):
        tail = total = rate = 0.0
        for w, law in shares:
            x = side * _score(law, y)
            tail += 0.5 * w * erfc(x * _ROOT_HALF)
            if isinf(x):
                bounded = True
                continue
            height = float(law.logpdf(y))
            density = w * exp(height)
            total += density
            # dz_i/dy = f_i / phi(z_i)
            rate += density * exp(height + 0.5 * x * x + _LOG_SQRT_2PI) * (1.0 + abs(x))
        if not _DEEP < tail < 1.0:
            return None
        score = -float(ndtri(tail))
        slope = total * exp(0.5 * score * score + _LOG_SQRT_2PI)
        flat = not slope * total > _FLAT * rate
        miss = side * score - z
        if flat and miss == 0.0:
            return None
        if miss < 0.0:
            low = y
        else:
            high = y
        move = inf if flat else -miss / slope
        small = not flat and abs(move) * (rate / total + (1.0 + abs(score)) * slope) < _SMALL
        calm = calm + 1 if small else 0
        if calm == 2 or y + move == y:
            y = min(max(y + move, low), high)
            return y if not bounded or _possible(y, shares) else None
        y = y + move if low < y + move < high else 0.5 * low + 0.5 * high
    return None


def _score(law: Any, y: float) -> float:
    return float(getattr(law, "score_or_end", law.score)(y))


def _possible(y: float, shares: Sequence[Share]) -> bool:
    return any(float(law.logpdf(y)) > -inf for _, law in shares)
