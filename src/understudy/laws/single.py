"""One reading under a mixture of normal laws, in plain floats: what a stream asks for, a reading at a time.

The same formulas as in `normal_mixture`, which works on arrays, where one call costs as much as a
thousand readings do. Both agree up to rounding. Whatever is out of the ordinary here (tails below 1e-290,
stretches where the score does not change, NaN) is answered by None and left to the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, exp, isfinite, log, pi, sqrt

_DEEP = 1e-290
_FLAT = 1e-12
_SMALL = 1e-5
_LOOKS = 30
_ROOT_HALF = sqrt(0.5)
_HALF_LOG_2PI = 0.5 * log(2.0 * pi)

Part = tuple[float, float, float]
"""Weight, mean and scale of a component."""


def one_score(y: float, parts: Sequence[Part]) -> float | None:
    """Z = Phi^-1(sum_i w_i Phi((y - m_i) / s_i)), or None.

    >>> round(one_score(5.0, [(0.5, -5.0, 1.0), (0.5, 5.0, 1.0)]), 6)
    0.67449
    """
    from scipy.special import ndtri

    below = above = 0.0
    for w, mean, scale in parts:
        z = (y - mean) / scale
        small = 0.5 * erfc(abs(z) * _ROOT_HALF)
        if z < 0.0:
            below += w * small
            above += w * (1.0 - small)
        else:
            below += w * (1.0 - small)
            above += w * small
    if below <= above:
        return float(ndtri(below)) if below > _DEEP else None
    return -float(ndtri(above)) if above > _DEEP else None


def one_logpdf(y: float, parts: Sequence[Part]) -> float | None:
    """Log-density, or None.

    >>> round(one_logpdf(0.0, [(0.5, 0.0, 1.0), (0.5, 0.0, 1.0)]), 6)
    -0.918939
    """
    logs = [-0.5 * ((y - mean) / scale) ** 2 for _, mean, scale in parts]
    top = max(logs)
    if not isfinite(top):
        return None
    total = sum(w / scale * exp(height - top) for (w, _, scale), height in zip(parts, logs, strict=True))
    return top + log(total) - _HALF_LOG_2PI if total > _DEEP else None


def one_value(z: float, parts: Sequence[Part]) -> float | None:
    """The reading with score `z`, or None: Halley's method as in `blend.assess`, inside a bracket.

    >>> round(one_value(0.67449, [(0.5, -5.0, 1.0), (0.5, 4.0, 1.0)]), 3)
    4.0
    """
    from scipy.special import ndtri

    side, goal = (-1.0, -z) if z < 0.0 else (1.0, z)
    q = 0.5 * erfc(goal * _ROOT_HALF)
    if not q > _DEEP:
        return None
    # everything below is mirrored for z < 0, so that the target is above the middle: u = side y
    quantiles = [side * mean + scale * goal for _, mean, scale in parts]
    low, high = min(quantiles), max(quantiles)
    beyond = [side * mean - scale * float(ndtri(q / w)) for w, mean, scale in parts if q < w]
    u = max(beyond) if beyond else sum(part[0] * quantile for part, quantile in zip(parts, quantiles, strict=True))
    u = min(max(u, low), high)
    for _ in range(_LOOKS):
        tail = total = bend = rate = 0.0
        for w, mean, scale in parts:
            x = (u - side * mean) / scale
            density = w * exp(-0.5 * x * x) / scale
            change = density / scale
            tail += 0.5 * w * erfc(x * _ROOT_HALF)
            total += density
            bend -= change * x
            rate += change * (1.0 + abs(x))
        if not (_DEEP < tail < 1.0 and total > 0.0):
            return None
        score = -float(ndtri(tail))
        slope = total * exp(0.5 * score * score)
        if not slope * total > _FLAT * rate:
            return None
        miss = score - goal
        move = -miss / slope
        move /= min(max(1.0 + 0.5 * move * (score * slope + bend / total), 0.5), 2.0)
        if miss < 0.0:
            low = u
        else:
            high = u
        if abs(move) * (rate / total + (1.0 + abs(score)) * slope) < _SMALL:
            return side * min(max(u + move, low), high)
        u = u + move if low < u + move < high else 0.5 * low + 0.5 * high
    return None
