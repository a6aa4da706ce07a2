"""The step of a grid: an approximate greatest common divisor, and the chance that there is none.

Differences of readings on a grid are whole multiples of one step, up to the noise of their float or text form. Euclid's
algorithm on three differences of near neighbours finds a common divisor; many triples vote, so readings off the grid
do no harm. A candidate is made precise over longer and longer differences and judged on all readings.

The chance. Two readings fix a grid up to the number of steps between them; each further distinct value falls within
the noise of it with probability 2 noise / step, were the readings continuous; any few may be the exceptions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array

FALSE_ALARM = 1e-6
OUTLIERS = 0.01  # share of readings that may lie off the grid
_PARTIAL = 0.5  # a grid of at least so many is worth telling of
_BLUR = 0.25  # noise beyond this part of a step, on either side, is no grid
_TYPICAL = 0.18  # of a step: median distance of differences from whole multiples; chance gives a quarter
_TRIPLES = 64
_SAMPLE = 1500
_ENOUGH = 50_000
_TEXT = 5.5e-15  # text of 15 digits, and a few roundings of a conversion of units
_SINGLE = 2.0**-24  # 32-bit floats


class Visits(NamedTuple):
    """Runs of equal readings. A value that is held for long is visited once."""

    values: Array  # distinct, increasing
    visits: NDArray[np.int64]  # runs at each value
    readings: NDArray[np.int64]  # readings at each value
    order: NDArray[np.int64]  # index of the value of each run, in time
    runs: NDArray[np.int64]  # length of each run, in time


class Lattice(NamedTuple):
    """origin + step times whole numbers, and how well the readings lie on it."""

    step: float
    origin: float  # a grid value among the readings
    limit: float  # distance from a grid value that counts as on it
    share: float = 1.0  # of the readings that are on it
    log_chance: float = 0.0  # that continuous readings would look so

    def nearest(self, values: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Which grid value is nearest, counted from the origin, and whether it is near enough."""
        place = (values - self.origin) / self.step
        nearest = np.rint(place)
        return nearest, np.abs(place - nearest) * self.step <= self.limit


def visited(y: Array) -> Visits:
    """The runs of a channel without gaps."""
    starts = np.flatnonzero(np.concatenate(([True], y[1:] != y[:-1])))
    runs = np.diff(starts, append=y.size)
    values, order, visits = np.unique(y[starts], return_inverse=True, return_counts=True)
    return Visits(values, visits, np.bincount(order, weights=runs).astype(np.int64), order, runs)


def lattices(seen: Visits) -> tuple[list[Lattice], Lattice | None]:
    """The grids that hold nearly all readings, finest first, each within the rounding of the one before.

    The second result is a coarser one (any, where there is no first) that holds most readings, if there is one.
    """
    rng = np.random.default_rng(0)  # which differences vote; the answer for given readings is always the same
    some = _some(seen, rng)
    scale = float(np.abs(seen.values).max())
    found: list[Lattice] = []
    partial: list[Lattice] = []
    tolerance, single = _TEXT * scale, _SINGLE * scale
    while True:
        lattice = _coarsest(some, tolerance, rng, partial)
        if lattice is not None:
            found.append(_shared(lattice, seen))
            tolerance = 0.5 * lattice.step
        elif tolerance < single:  # 32-bit floats are coarser where they are larger, which is not one grid
            tolerance = single
        else:
            break
    finest = found[-1].step if found else 0.0
    coarser = [lattice for lattice in partial if lattice.step > 1.5 * finest]
    most = max((lattice.share for lattice in coarser), default=0.0)
    # its divisors hold as many and a few more by chance: the coarsest that does nearly as well
    return found, max((c for c in coarser if c.share > 0.8 * most), key=lambda c: c.step, default=None)


def _some(seen: Visits, rng: np.random.Generator) -> Visits:
    """Values enough to judge candidates by, both ends among them."""
    if seen.values.size <= _ENOUGH:
        return seen
    inner = 1 + rng.choice(seen.values.size - 2, _ENOUGH - 2, replace=False)
    chosen = np.sort(np.concatenate(([0, seen.values.size - 1], inner)))
    visits = seen.visits[chosen]
    return Visits(seen.values[chosen], visits, seen.readings[chosen], np.repeat(np.arange(_ENOUGH), visits), seen.runs)


def _shared(lattice: Lattice, seen: Visits) -> Lattice:
    """With the share of all readings."""
    on = lattice.nearest(seen.values)[1]
    return lattice._replace(share=float(seen.readings[on].sum() / seen.readings.sum()))


def _coarsest(seen: Visits, tolerance: float, rng: np.random.Generator, partial: list[Lattice]) -> Lattice | None:
    """The coarsest grid that holds nearly all readings within `tolerance`; those of most readings go to `partial`."""
    again = seen.visits > 1  # readings off a grid do not come again, and would be many among the distinct ones
    candidates: list[tuple[float, bool, Array]] = []
    for order in (seen.order, seen.order[again[seen.order]]):
        sample = np.sort(seen.values[rng.choice(order, min(_SAMPLE, order.size), replace=False)])
        near = sample[np.diff(sample, prepend=-math.inf) > 4.0 * tolerance]
        if near.size > 2 and order.size >= _PARTIAL * seen.order.size:
            candidates += _candidates(near, tolerance, rng)
    last = math.inf
    # between equals the usual step first
    for step, exact, near in sorted(candidates, key=lambda c: -c[0] * (1.02 if c[1] else 1.0)):
        if 1.25 * tolerance > _BLUR * step or not (exact or step < 0.999 * last):
            continue  # too fine, or the same again
        last = last if exact else step
        lattice = _judged(seen, near, step, tolerance)
        if lattice is not None:
            on = lattice.nearest(seen.values)[1]
            inner = seen.visits.copy()
            inner[[0, -1]] = 0  # a clipped end need not be on the grid
            if inner[on].sum() >= (1.0 - OUTLIERS) * inner.sum():
                return lattice
            partial.append(lattice)
    return None


def _candidates(near: Array, tolerance: float, rng: np.random.Generator) -> list[tuple[float, bool, Array]]:
    """Steps that divide most differences: common divisors of triples of them, and the usual ones, which are exact."""
    gaps = np.sort(np.diff(near))
    hop = rng.integers(1, min(4, near.size), size=(3, _TRIPLES))
    first = (rng.random((3, _TRIPLES)) * (near.size - hop)).astype(int)
    # differences anywhere, and small ones, which noise disturbs less
    a, b, c = np.hstack([near[first + hop] - near[first], rng.choice(gaps[: 1 + gaps.size // 4], size=(3, _TRIPLES))])
    # noise grows with the quotients, so what counts as zero is tried small and large
    zeros = [factor * tolerance for factor in (5.0, 20.0, 400.0, 8000.0)]
    divisors = np.unique(np.concatenate([_euclid(_euclid(a, b, zero), c, zero) for zero in zeros]))
    # decimals, and the last bits of 32-bit floats: sparse readings do not show them
    places, bits = math.floor(math.log10(np.ptp(near))), math.floor(math.log2(np.abs(near).max()))
    usual = [10.0**p for p in range(places, places - 16, -1)] + [2.0 ** (bits - b) for b in range(20, 28)]
    steps = np.concatenate([divisors, usual])
    kept = np.zeros(steps.size, dtype=bool)
    for d in (gaps[:64], rng.choice(gaps, min(64, gaps.size), replace=False)):
        place = d / steps[:, None]
        kept |= np.median(np.abs(place - np.rint(place)), axis=1) <= _TYPICAL
    return [(float(steps[k]), bool(k >= divisors.size), near) for k in np.flatnonzero(kept)]


def _euclid(a: Array, b: Array, zero: float) -> Array:
    """Greatest common divisors, where what is at most `zero` counts as zero."""
    a, b = np.maximum(a, b), np.minimum(a, b)
    for _ in range(64):
        going = b > zero
        if not going.any():
            break
        rest = np.where(going, np.abs(a - np.rint(a / np.where(going, b, 1.0)) * b), b)
        a, b = np.where(going, b, a), np.where(going, rest, b)
    return a


def _levered(near: Array, step: float, tolerance: float) -> float | None:
    """The step fitted over longer and longer differences; from the smallest ones up if it is known but roughly."""
    gaps = np.sort(np.diff(near))
    longer = [near[1 << h :] - near[: -(1 << h)] for h in range((near.size - 1).bit_length())]
    shorter = [gaps[: 8 << h] for h in range((near.size >> 3).bit_length())]
    for ladder in (longer, shorter + longer):
        fitted = step
        for d in ladder:
            better = _fitted(d, fitted, tolerance)
            if better is None:
                break
            fitted = better
        else:
            return fitted
    return None


def _fitted(d: Array, step: float, tolerance: float) -> float | None:
    """Least squares of d = k step + noise, without the outliers."""
    for _ in range(2):
        k = np.rint(d / step)
        rest = np.abs(d / step - k)
        typical = float(np.median(rest))
        good = (rest <= max(4.0 * typical, 2.5 * tolerance / step)) & (k > 0)
        if typical > _TYPICAL or not good.any():
            return None
        step = float(d[good] @ k[good] / (k[good] @ k[good]))
    return step


def _line(near: Array, step: float, origin: float, limit: float) -> tuple[float, float]:
    """Step and origin of the line value = origin + k step through the values that are near to one."""
    k = np.rint((near - origin) / step)
    rest = near - origin - k * step
    good = np.abs(rest) <= 2.0 * limit
    if not good.any() or np.ptp(k[good]) < 1.0:
        return step, origin
    k, rest = k[good], rest[good]
    slope = float((k - k.mean()) @ rest / np.square(k - k.mean()).sum())
    rest = rest - slope * k
    return step + slope, origin + 0.5 * float(rest.min() + rest.max())  # noise of rounding is bounded: its middle


def _judged(seen: Visits, near: Array, candidate: float, tolerance: float) -> Lattice | None:
    """A candidate made precise, if it holds most readings and chance would hardly ever do so."""
    step, limit = _levered(near, candidate, tolerance), 1.25 * tolerance
    if step is None or limit > _BLUR * step:
        return None
    middle = float(near[near.size // 2])
    place = (near - middle) / step
    phase = float(np.angle(np.exp(2j * np.pi * place).sum())) / (2.0 * np.pi)
    phase += float(np.median(place - phase - np.rint(place - phase)))  # outliers pull the mean direction
    lattice = Lattice(*_line(near, step, middle + phase * step, limit), limit)
    if lattice.nearest(near)[1].mean() < 0.9 * _PARTIAL:
        return None
    index, on = lattice.nearest(seen.values)
    if seen.visits[on].sum() < _PARTIAL * seen.visits.sum():
        return None
    cells = np.unique(index[on].astype(np.int64))
    step = lattice.step
    if cells.size > 1:  # all of them may be multiples of more than one step
        times = float(np.gcd.reduce(np.diff(cells)))
        lattice = lattice._replace(step=times * step, origin=lattice.origin + float(cells[0]) * step)
    m, off = cells.size, int((~on).sum())
    span = max(float(np.ptp(seen.values)) / lattice.step, 1.0)
    exceptions = math.lgamma(m + off + 1) - math.lgamma(m + 1) - math.lgamma(off + 1)
    log_chance = math.log(span) + exceptions + (m - 2) * math.log(2.0 * limit / lattice.step)
    if log_chance > math.log(FALSE_ALARM):
        return None
    return _shared(lattice._replace(log_chance=log_chance), seen)


def neat(lattice: Lattice, span: float) -> tuple[float, float]:
    """Step and offset, as short decimals or one part of a whole where the readings cannot tell the difference."""
    error = lattice.limit / span
    short = _short(lattice.step, error, lattice.step**2)
    step = lattice.step if short is None else short
    origin = _short(lattice.origin, lattice.limit)
    origin = lattice.origin if origin is None else origin
    # the error of the step, carried from the readings to zero
    slack = 2.0 * (lattice.limit + (error * abs(origin) if short is None else 0.0))
    whole = round(origin / step)
    if abs(origin - whole * step) <= min(slack, _BLUR * step):
        return (origin / whole if short is None and whole else step), 0.0
    offset = math.fmod(origin, step)
    offset += step if offset < 0.0 else 0.0
    return step, _short(offset, 4e-16 * max(abs(origin), step)) or offset


def _short(x: float, error: float, spacing: float = 0.0) -> float | None:
    """The shortest decimal within `error` of x if that is no coincidence, else 1 / whole number likewise."""
    if abs(x) <= error:
        return 0.0
    for digits in range(1, 16):
        short = float(f"{x:.{digits}g}")
        if abs(short - x) <= error:
            if 2.0 * error < 0.03 * 10.0 ** (math.floor(math.log10(abs(short))) - digits + 1):
                return short
            break
    if 0.0 < x < 1.0 and error < 0.03 * spacing and abs(1.0 / round(1.0 / x) - x) <= error:
        return 1.0 / round(1.0 / x)
    return None
