"""Noise of equal distortion: what adding Gaussian noise would hide at the same price.

The noise is independent from reading to reading, or held for some readings, and its mean absolute value is that of the
disguise, channel by channel. Where readings lie on a grid the noisy ones are rounded to it, and it is the rounded noise
that has the wanted size.
"""

from __future__ import annotations

import math

import numpy as np

from understudy.laws.base import Array

Grid = tuple[Array, Array]


def noise_scale(wanted: float, step: float = 0.0) -> float:
    """The standard deviation of Gaussian noise whose mean absolute value, rounded to the step, is as wanted.

    E abs(round(s Z)) in steps is 2 sum over k >= 1 of Pr(s Z > k - 1/2).

    >>> round(noise_scale(1.0), 6), round(noise_scale(0.5, step=1.0), 4)
    (1.253314, 0.6915)
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    if not wanted > 0.0:
        return 0.0
    plain = wanted * math.sqrt(0.5 * math.pi)
    if not step > 0.0 or plain > 8.0 * step:  # rounding is noise of its own, and does not show beside so much
        return plain

    def size(s: float) -> float:
        k = np.arange(1, 2 + math.ceil(10.0 * s / step))
        return float(2.0 * step * ndtr(-(k - 0.5) * step / s).sum()) - wanted

    low, high = 0.02 * step, 16.0 * step + 4.0 * plain
    return low if size(low) > 0.0 else float(brentq(size, low, high, xtol=1e-12 * step))


def noise_scales(wanted: Array, grid: Grid | None) -> Array:
    """The same for each channel, (d,)."""
    steps = np.zeros(len(wanted)) if grid is None else grid[0]
    return np.array([noise_scale(float(w), float(s)) for w, s in zip(wanted, steps, strict=True)])


def noised(Y: Array, scales: Array, grid: Grid | None, rng: np.random.Generator, every: int = 1) -> Array:
    """Readings (T, d, N) with noise of these standard deviations, by channel, drawn anew every so many readings.

    >>> found = noised(np.zeros((6, 1, 1)), np.ones(1), None, np.random.default_rng(0), every=4)
    >>> np.unique(found, return_counts=True)[1].tolist()
    [2, 4]
    """
    T, d, N = Y.shape
    drawn = rng.standard_normal((-(-T // every), d, N))
    noise = (drawn if every == 1 else np.repeat(drawn, every, axis=0)[:T]) * scales[:, None]
    if grid is not None:
        steps = grid[0]
        rough = np.where(steps > 0.0, steps, 1.0)[:, None]
        noise = np.where(steps[:, None] > 0.0, rough * np.rint(noise / rough), noise)
    return np.asarray(Y + noise)
