"""How fast the released readings move, beside the true ones: power by frequency, after Welch.

Both are cut into windows that overlap by half; a window that has a missing reading, or two segments, is left out. The
*log-spectral distance* is the root mean square, over frequencies, of 10 log10 (released / true), in decibels. It is
the distance of two estimates, so it is not nothing even where the law is the same: about 6 dB over the root of the
number of windows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.audited import Figure
from understudy.adversaries.utility.intervals import without_each
from understudy.laws.base import Array

LONGEST, SHORTEST, WINDOWS = 512, 16, 4
"""Readings of a window at most and at least, and the windows that there must be at least."""
_HOUR = 3600.0
_PERIODS = (("slower than 6 h", 6.0 * _HOUR, math.inf), ("1 h to 6 h", _HOUR, 6.0 * _HOUR),
            ("10 min to 1 h", _HOUR / 6.0, _HOUR), ("faster than 10 min", 0.0, _HOUR / 6.0))  # fmt: skip
_READINGS = (("slower than 64 readings", 64.0, math.inf), ("16 to 64 readings", 16.0, 64.0),
             ("4 to 16 readings", 4.0, 16.0), ("faster than 4 readings", 0.0, 4.0))  # fmt: skip
_COVERED = 0.5  # share of the readings that windows should cover
_SEQUENCES = 200  # independent sequences that are looked at


class Band(NamedTuple):
    """A band of frequencies: the distance there in decibels, and by how much more (or less) the output moves."""

    name: str
    distance: float
    level: float
    """10 log10 of the power of the output over that of the readings: positive where the output moves more."""


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Log-spectral distance in decibels, over all frequencies and by bands."""

    distance: Figure
    bands: tuple[Band, ...]
    windows: int
    window: int
    """Readings in a window."""


def spectrum(
    raw: Array, released: Array, stretch: NDArray[np.int64], joined: NDArray[np.bool_], period: float | None,
    confidence: float = 0.99,
) -> Spectrum | None:  # fmt: skip
    """The spectra of one channel, true and released (T, N), compared; None where there are too few readings.

    `stretch` (T, N) numbers the stretches of time, `joined` (T,) says whether a reading follows the one before it.

    >>> rng = np.random.default_rng(1)
    >>> y = rng.standard_normal((4096, 1))
    >>> found = spectrum(y, 2.0 * y, np.arange(4096)[:, None] // 512, np.arange(4096) > 0, 60.0)
    >>> round(found.distance.value, 3), [band.name for band in found.bands][-1], found.window
    (6.021, 'faster than 10 min', 512)
    """
    raw, released, stretch = raw[:, :_SEQUENCES], released[:, :_SEQUENCES], stretch[:, :_SEQUENCES]
    starts, length = _windows(np.isfinite(raw) & np.isfinite(released), joined)
    if len(starts) < WINDOWS:
        return None
    frequencies, true = _powers(raw, starts, length)
    shown = _powers(released, starts, length)[1]
    block = stretch[starts[:, 0], starts[:, 1]]

    def distance(keep: NDArray[np.bool_]) -> float:
        return _distance(true[keep].mean(axis=0), shown[keep].mean(axis=0)) if keep.any() else math.nan

    # whatever power a channel that stands still has, its logarithm says nothing
    if not (true.mean(axis=0) > 0.0).all() or not (shown.mean(axis=0) > 0.0).all():
        return None
    found = without_each(distance, block, confidence, (0.0, math.inf))
    bands = _bands(frequencies, true.mean(axis=0), shown.mean(axis=0), period)
    return Spectrum(found, bands, len(starts), length)


def _windows(there: NDArray[np.bool_], joined: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """Where windows begin, (W, 2) rows and sequences, and how long they are.

    The longest that leave enough of them and cover half of the readings; where gaps are many, those that cover most.
    """
    whole, count = there & joined[:, None], int(there.sum())
    best, most, length = (np.empty((0, 2), dtype=np.int64), SHORTEST), -1, LONGEST
    while length >= SHORTEST:
        found = _fitting(there, whole, length)
        covered = _covered(found, length)
        if len(found) >= 2 * WINDOWS and covered >= _COVERED * count:
            return found, length
        if len(found) >= WINDOWS and covered > most:
            best, most = (found, length), covered
        length //= 2
    return best


def _covered(starts: NDArray[np.int64], length: int) -> int:
    """Readings that are in some window; windows stand in their order, sequence by sequence."""
    if not len(starts):
        return 0
    apart = np.where(np.diff(starts[:, 1]) == 0, np.diff(starts[:, 0]), length)
    return int(np.minimum(apart, length).sum()) + length


def _fitting(there: NDArray[np.bool_], whole: NDArray[np.bool_], length: int) -> NDArray[np.int64]:
    T, N = there.shape
    if length > T:
        return np.empty((0, 2), dtype=np.int64)
    sums = np.concatenate([np.zeros((1, N), dtype=np.int64), whole.cumsum(axis=0)])
    # the first reading of a window must be there, the others must also follow the one before
    full = there[: T - length + 1] & (sums[length:] - sums[1 : T - length + 2] == length - 1)
    found: list[tuple[int, int]] = []
    for n in range(N):
        free = 0
        for k in np.flatnonzero(full[:, n]).tolist():
            if k >= free:
                found.append((k, n))
                free = k + length // 2
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _powers(y: Array, starts: NDArray[np.int64], length: int) -> tuple[Array, Array]:
    """Frequencies (a reading is 1), without that of the mean, and the power of each window at them."""
    from scipy.signal import periodogram

    rows = starts[:, :1] + np.arange(length)
    frequencies, power = periodogram(y[rows, starts[:, 1:]], window="hann", detrend="constant", axis=1)
    return np.asarray(frequencies[1:]), np.asarray(power[:, 1:])


def _distance(true: Array, shown: Array) -> float:
    return math.sqrt(float(np.square(10.0 * np.log10(shown / true)).mean()))


def _bands(frequencies: Array, true: Array, shown: Array, period: float | None) -> tuple[Band, ...]:
    lengths: Any = (1.0 if period is None else period) / frequencies
    found = []
    for name, fast, slow in _READINGS if period is None else _PERIODS:
        inside = (lengths >= fast) & (lengths < slow)
        if inside.any():
            level = 10.0 * math.log10(float(shown[inside].sum()) / float(true[inside].sum()))
            found.append(Band(name, _distance(true[inside], shown[inside]), level))
    return tuple(found)
