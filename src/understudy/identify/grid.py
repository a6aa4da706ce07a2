"""Grids: whole ppm, multiples of 5, two decimals, counts of an analogue-to-digital converter.

A continuous map of readings on a grid gives the private parameter away from one reading. So `detect_grid` looks for a
grid in the data and assumes none.

The step is an approximate greatest common divisor. Differences of readings on a grid are whole multiples of one step,
up to rounding of their float or text form. Euclid's algorithm on three differences of near neighbours finds a common
divisor. Many triples vote, so a few readings off the grid do no harm. Each candidate is refined over longer and longer
differences and judged on all readings.

The answer is the coarsest grid that holds all but 1 percent of the readings, if continuous readings would lie so with
probability at most 1e-6. Two readings fix a grid up to the number of steps between them. Each further distinct value of
a continuous reading lies within the tolerance with probability 2 tolerance / step. Of nested grids the coarser one is
the answer only if it too holds all but 1 percent; `written` is the finer grid of the text form, and `mostly` a coarser
one that holds most readings.

Models are put on the grid (`OnGrid`), or behind it (`Quantised`) where only some channels have one. A model class that
cannot be is not chosen (`obstacle`). A `Grid` also says whether the sensor is a sample-and-hold one, and `hold_period`
gives its true period.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy import text
from understudy._types import Array, Value
from understudy.errors import ConfigurationError, ModelError, ReadingError
from understudy.identify.history import History
from understudy.identify.resample import phase_of
from understudy.stream.release import COARSE, as_form
from understudy.transform.readings import as_readings, finite_or_missing

if TYPE_CHECKING:
    from understudy.identify.candidates import Candidate
    from understudy.models.model import Model


# The step: an approximate greatest common divisor -------------------------------------------------


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


def visits_of(y: Array) -> Visits:
    """The runs of a channel without gaps."""
    starts = np.flatnonzero(np.concatenate(([True], y[1:] != y[:-1])))
    runs = np.diff(starts, append=y.size)
    values, order, visits = np.unique(y[starts], return_inverse=True, return_counts=True)
    return Visits(values, visits, np.bincount(order, weights=runs).astype(np.int64), order, runs)


def find_lattices(seen: Visits) -> tuple[list[Lattice], Lattice | None]:
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
            found.append(_with_share(lattice, seen))
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


def _with_share(lattice: Lattice, seen: Visits) -> Lattice:
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
        lattice = _judge(seen, near, step, tolerance)
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


def _refine_step(near: Array, step: float, tolerance: float) -> float | None:
    """The step fitted over longer and longer differences; from the smallest ones up if it is known but roughly."""
    gaps = np.sort(np.diff(near))
    longer = [near[1 << h :] - near[: -(1 << h)] for h in range((near.size - 1).bit_length())]
    shorter = [gaps[: 8 << h] for h in range((near.size >> 3).bit_length())]
    for ladder in (longer, shorter + longer):
        fitted = step
        for d in ladder:
            better = _fit_step(d, fitted, tolerance)
            if better is None:
                break
            fitted = better
        else:
            return fitted
    return None


def _fit_step(d: Array, step: float, tolerance: float) -> float | None:
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


def _judge(seen: Visits, near: Array, candidate: float, tolerance: float) -> Lattice | None:
    """A candidate made precise, if it holds most readings and chance would hardly ever do so."""
    step, limit = _refine_step(near, candidate, tolerance), 1.25 * tolerance
    if step is None or limit > _BLUR * step:
        return None
    middle = float(near[near.size // 2])
    phase = phase_of((near - middle) / step)
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
    return _with_share(lattice._replace(log_chance=log_chance), seen)


def neat_lattice(lattice: Lattice, span: float) -> tuple[float, float]:
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


# The grid of a channel ----------------------------------------------------------------------------


FEWEST_CHANGES = 10  # all of them are even multiples of the true step once in 2^10


class Cells(NamedTuple):
    """The grid of one channel: offset + step times whole numbers, from low to high."""

    step: float
    offset: float = 0.0
    low: float | None = None
    high: float | None = None

    def snap(self, y: Array) -> Array:
        """The nearest value of the grid; what lies beyond an end is read as the end."""
        point = self.offset + self.step * np.rint((y - self.offset) / self.step)
        low, high = (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)
        return np.asarray(np.clip(point, low, high), dtype=float)


@dataclass(frozen=True, slots=True, repr=False)
class Grid:
    """What `detect_grid` found in one channel. Its text shows the grid, never a reading.

    >>> grid = detect_grid([20.5, 21.0, 20.0, 19.5, 21.5, 22.0, 21.0, 20.0, 19.0, 18.5, 20.5, 21.5])
    >>> grid
    <Grid: on a grid of step 0.5>
    >>> grid.snap([20.2, 21.4]).tolist()
    [20.0, 21.5]
    """

    step: float | None
    """Distance of neighbouring grid values; None where there is no grid, or none can be told."""
    offset: float
    """The grid is offset + step times whole numbers; 0 <= offset < step."""
    low: float | None
    """The smallest reading, where readings pile up on it as if clipped. A reading: not in the text."""
    high: float | None
    """The largest reading, likewise."""
    share: float
    """Share of the readings that lie on the grid."""
    noise: float
    """Distance from the grid, in steps, that still counts as on it (float or text form)."""
    written: float | None
    """The step of a finer grid that readings were written on, such as their last decimal."""
    mostly: tuple[float, float] | None
    """A coarser step (any step, where no grid holds nearly all readings) and the share of visits that are on it."""
    held: float
    """Share of the readings that repeat the one before."""
    run: int
    """Typical number of equal readings in a row (median)."""
    hold: int | None
    """Period of a regular sample-and-hold, in readings."""
    sample_and_hold: bool
    """Whether readings stay longer than a rounded process that moves so far would."""
    readings: int
    """Number of readings that are there."""
    values: int
    """Number of distinct ones."""
    changes: int
    """Number of times that the reading changed; each supports the step."""
    chance: float
    """Chance that continuous readings would look so; 1 where there is no grid."""

    @property
    def doubt(self) -> float:
        """Chance that the true step is half of this one, or less, and every change happened to be a multiple."""
        return 1.0 if self.step is None else 2.0**-self.changes

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """`low` and `high`."""
        return self.low, self.high

    def __str__(self) -> str:
        return text.grid_words(asdict(self), FEWEST_CHANGES)

    def __repr__(self) -> str:
        return f"<Grid: {self}>"

    @property
    def cells(self) -> Cells:
        """The grid alone, from one end at which readings pile up to the other."""
        if self.step is None:
            raise ModelError(f"there is no grid to move readings to ({self})")
        bare = Cells(self.step, self.offset)
        low, high = (None if end is None else float(bare.snap(np.array(end))) for end in self.ends)
        return bare._replace(low=low, high=high)

    def snap(self, y: ArrayLike) -> Array:
        """Readings moved to the nearest value of the grid, which outliers and text forms need."""
        return self.cells.snap(np.asarray(y, dtype=float))

    def quantise(self, model: Model) -> Model:
        """The model of a scalar sensor that is read on this grid: ``Quantised(model, step, offset, low, high)``."""
        from understudy.models.quantised import Quantised

        if model.dim != 1 or self.step is None:
            raise ModelError(
                f"a model of {model.dim} channels and one channel: {self}; there is no step to round it by"
            )
        return Quantised(model, **self.cells._asdict())

    quantised = quantise  # the name of version 0.1


def detect_grid(y: ArrayLike) -> Grid | tuple[Grid, ...]:
    """The grid of a channel (T,), or of each channel of (T, d); NaN is a missing reading.

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> readings = rng.normal(600.0, 40.0, size=(500, 2))
    >>> readings[:, 0] = 5.0 * np.round(readings[:, 0] / 5.0)
    >>> detect_grid(readings)
    (<Grid: on a grid of step 5>, <Grid: no grid found>)
    """
    shape = np.shape(y)
    if len(shape) not in (1, 2):
        raise ReadingError(f"y has shape {shape}; the grid of one channel is sought in (T,), of several in (T, d)")
    columns = as_readings(y, 1 if len(shape) == 1 else shape[1], "y")
    finite_or_missing(columns)
    found = tuple(_channel(column[~np.isnan(column)]) for column in columns.T)
    return found[0] if len(shape) == 1 else found


def _channel(y: Array) -> Grid:
    if y.size == 0:
        return Grid(None, 0.0, None, None, 0.0, 0.0, None, None, 0.0, 0, None, False, 0, 0, 0, 1.0)
    seen = visits_of(y)
    if seen.runs.size <= FEWEST_CHANGES:
        return _summary(seen, [], None)
    if seen.values.size == 2:  # any grid that holds both would do; this is the coarsest
        step, largest = float(np.ptp(seen.values)), float(np.abs(seen.values).max())
        return _summary(seen, [Lattice(step, float(seen.values[0]), 4e-16 * largest)], None)
    return _summary(seen, *find_lattices(seen))


def _summary(seen: Visits, found: list[Lattice], partial: Lattice | None) -> Grid:
    span = float(np.ptp(seen.values))
    ends = _pile_ends(seen)
    step, offset, share, noise, chance = None, 0.0, 0.0, 0.0, 1.0
    place, coarser = None, []
    if partial is not None:
        near = float(seen.visits[partial.nearest(seen.values)[1]].sum() / seen.runs.size)
        coarser.append((neat_lattice(partial, span)[0], near))
    if found:
        lattice = found[-1]
        step, offset = neat_lattice(lattice, span)
        place, on = lattice.nearest(seen.values)
        share, noise, chance = lattice.share, lattice.limit / lattice.step, math.exp(lattice.log_chance)
        coarser += _coarser(place[on], seen.visits[on], step)
    # of two coarser grids, the one that says more about where readings lie
    mostly = max(coarser, key=lambda c: c[1] * math.log(c[0] / (step or 0.5 * c[0])), default=None)
    return Grid(
        step=step,
        offset=offset,
        low=ends[0],
        high=ends[1],
        share=share,
        noise=noise,
        written=neat_lattice(found[0], span)[0] if len(found) > 1 else None,
        mostly=mostly,
        **_hold_facts(seen, place, ends),
        readings=int(seen.readings.sum()),
        values=seen.values.size,
        changes=seen.runs.size - 1,
        chance=chance,
    )


def _coarser(index: Array, visits: NDArray[np.int64], step: float) -> list[tuple[float, float]]:
    """Among the multiples of the step, the one on which the readings lie most surprisingly often."""
    places, which = np.unique(index.astype(np.int64), return_inverse=True)
    count = np.bincount(which, weights=visits).astype(float)
    beside = np.zeros(count.size)
    for shift in (-1, 1):
        other = np.minimum(np.searchsorted(places, places + shift), places.size - 1)
        beside += np.where(places[other] == places + shift, count[other], 0.0)
    counted = np.arange(count.size) != count.argmax()  # one favourite value, such as zero, is no grid
    total, best = float(count[counted].sum()), (0.0, 0, 0.0)
    for k in range(2, 101):
        rest = places % k
        chosen = (rest == np.bincount(rest, weights=count * counted, minlength=k).argmax()) & counted
        on, off = float(count[chosen].sum()), float(beside[chosen].sum())
        share = on / max(total, 1.0)
        if share < 0.5 or on < 1.5 * off or chosen.sum() < 5:
            continue
        # where the law is smooth, a place is visited as often as the mean of its neighbours, and 1 visit in k is on
        if 100.0 * max(_at_least(on, on + off, 1.0 / 3.0), _at_least(on, total, 1.0 / k)) <= FALSE_ALARM:
            # surprise in nats a visit: the divergence of the share from 1/k
            gain = share * math.log(share * k) + (1.0 - share) * math.log(max(1.0 - share, 1e-12) / (1.0 - 1.0 / k))
            best = max(best, (gain, k, share))
    return [(best[1] * step, best[2])] if best[1] else []


def _at_least(k: float, n: float, p: float) -> float:
    """Pr(X >= k) for X binomial (n, p), k > 0."""
    from scipy.special import betainc

    return float(betainc(k, n - k + 1.0, p))


def _pile_ends(seen: Visits) -> tuple[float | None, float | None]:
    """The ends on which readings pile up: more than on each of the next ten values, thrice as many as on five."""
    ends: list[float | None] = []
    for end, inward in ((0, 1), (-1, -1)):
        beside = seen.readings[::inward][1:11]
        piled = seen.values.size > 3 and seen.visits[end] >= 5 and seen.readings[end] > beside.max()
        ends.append(float(seen.values[end]) if piled and seen.readings[end] >= 3.0 * beside[:5].mean() else None)
    return ends[0], ends[1]


def _hold_facts(seen: Visits, place: Array | None, ends: tuple[float | None, float | None]) -> dict[str, Any]:
    """How long readings stay, and whether that is longer than rounding explains.

    A rounded process that has just moved by three steps or more stays where it is with a chance below one half; one
    that is held stays. Off a grid every repetition counts, unless there are only a few levels.
    """
    runs = seen.runs
    inner = runs[1:-1]  # the first and the last may be cut off
    period = None
    for h in range(min(500, int(inner.max(initial=0))), 1, -1):
        kept = int((inner % h == 0).sum())
        if kept >= 0.95 * inner.size and 500.0 * _at_least(kept, inner.size, 1.0 / h) <= FALSE_ALARM:
            period = h
            break
    free = ~np.isin(seen.values[seen.order[1:-1]], [end for end in ends if end is not None])
    if place is not None:
        free &= np.abs(np.diff(place[seen.order]))[: inner.size] >= 3.0
    stayed, chances = int((inner[free] > 1).sum()), int(free.sum())
    levels = place is None and 2 * seen.values.size < runs.size
    stays = stayed > 0 and _at_least(stayed, chances, 0.01 if place is None else 0.5) <= FALSE_ALARM
    return {
        "held": 1.0 - runs.size / float(runs.sum()),
        "run": int(np.median(runs)),
        "hold": period,
        "sample_and_hold": period is not None or bool(stays and not levels),
    }


# Grids of a history, and models on them -----------------------------------------------------------


_MOST_DECIMALS = 9
_FEWEST = 64  # different readings, to tell how they are written
_FINE = 0.1  # of the typical change from one reading to the next


POSSIBLE_MARGIN = 0.25
"""How far beyond the training readings outputs may go, in spans of these; never beyond 0 where no reading is."""
MARGIN = 1.0
"""How far beyond readings that pile up the range of a grid goes, in spans of the training readings."""
Channels = tuple[Cells | None, ...]
Limits = tuple[float | None, float | None]
"""The ends of a range; None where there is none."""
ManyLimits: TypeAlias = "Limits | Sequence[Limits]"
"""One range for all channels, or one for each."""
Steps: TypeAlias = "str | float | Sequence[float | None] | Array | None"
"""What a user says of the grid: "auto", None, one step, or one for each channel."""


def grids_of(history: History) -> tuple[Grid, ...]:
    """What `detect_grid` finds in each channel."""
    found = detect_grid(history.stack())
    return found if isinstance(found, tuple) else (found,)


def channels(
    history: History, given: Steps, notes: text.Notes, ends: bool = True, limits: ManyLimits | None = None
) -> Channels:
    """The grid of each channel, found or stated.

    `given` is "auto", None (no grid), a step, or one step for each channel (None where there is none). `limits` are
    the public ends of the sensor's range, (low, high), None where there is none. Without them an end at which readings
    pile up counts as one unless `ends` is false, but `MARGIN` times the span of the readings further out: the smallest
    reading of a history is no floor of later ones. Only a pile at 0 is an end where it stands.
    """
    made = _found_or_stated(history, given, notes, ends)
    if limits is None:
        return made
    return tuple(
        None if cell is None else _limited(cell, *ends)
        for cell, ends in zip(made, _as_limits(limits, history.dim), strict=True)
    )


def possible_ranges(history: History, limits: ManyLimits | None = None) -> list[Limits]:
    """The range of each channel within which outputs leave: as given, or that of the readings and a margin."""
    found: list[Limits] = []
    for y, (low, high) in zip(history.stack().T, _as_limits(limits or (None, None), history.dim), strict=True):
        least, most = float(np.nanmin(y)), float(np.nanmax(y))
        margin = POSSIBLE_MARGIN * (most - least)
        ends = (max(least - margin, 0.0) if least >= 0.0 else least - margin,
                min(most + margin, 0.0) if most <= 0.0 else most + margin)  # fmt: skip
        free = limits is None and margin > 0.0
        found.append((ends[0] if free else low, ends[1] if free else high))
    return found


def _limited(cell: Cells, low: float | None, high: float | None) -> Cells:
    """The grid within limits, which are moved inwards to values of it."""
    ends = [
        None if end is None else cell.offset + cell.step * inwards((end - cell.offset) / cell.step)
        for end, inwards in ((low, math.ceil), (high, math.floor))
    ]
    return cell._replace(low=ends[0], high=ends[1])


def _as_limits(limits: ManyLimits, dim: int) -> list[Limits]:
    try:
        several = bool(limits) and all(isinstance(ends, (tuple, list)) for ends in limits)
        each: list[Any] = list(limits) if several else [limits] * dim
        pairs = [(None if low is None else float(low), None if high is None else float(high)) for low, high in each]
        good = len(pairs) == dim and all(end is None or math.isfinite(end) for pair in pairs for end in pair)
    except (TypeError, ValueError):
        pairs, good = [], False
    if not good or any(low is not None and high is not None and low >= high for low, high in pairs):
        raise ConfigurationError(
            f"limits = {limits!r}; it must be (low, high), numbers or None, low below high, or such a pair a channel"
        )
    return pairs


def _with_margin(cell: Cells, y: Array) -> Cells:
    """Ends found in readings, further out by a margin; an end at 0 stays."""
    steps = math.ceil(MARGIN * float(np.nanmax(y) - np.nanmin(y)) / cell.step)
    low = cell.low if not cell.low else cell.low - steps * cell.step
    high = cell.high if not cell.high else cell.high + steps * cell.step
    return cell._replace(low=low, high=high)


def _found_or_stated(history: History, given: Steps, notes: text.Notes, ends: bool) -> Channels:
    if given is None or given is False:
        return (None,) * history.dim
    if not (isinstance(given, str) and given == "auto"):
        return _from_user(given, history.dim)
    cells: list[Cells | None] = []
    for k, (name, grid) in enumerate(zip(history.readings, grids_of(history), strict=True)):
        notes.add("grid", name=name, grid=str(grid))
        if grid.step is not None:
            cell = _with_margin(grid.cells, history.stack()[:, k]) if ends else Cells(grid.step, grid.offset)
            if (cell.low, cell.high) != (None, None):
                notes.add("range", name=name)
            cells.append(cell)
            continue
        step = None if grid.mostly is None else _rounding_step(history, k)
        cells.append(None if step is None else Cells(step))
        if step is not None:
            notes.add("rounded first", name=name, step=step)
    return tuple(cells)


def _rounding_step(history: History, channel: int) -> float | None:
    """A neat step that is small against what happens from one reading to the next."""
    changes = np.concatenate([np.abs(np.diff(s.Y[:, channel])) for s in history.segments])
    typical = changes[changes > 0.0]  # drops what is missing too
    if not typical.size:
        return None
    return neat_step(_FINE * float(np.median(typical)))


def neat_step(largest: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above `largest`.

    >>> neat_step(0.13), neat_step(0.07), neat_step(3.0)
    (0.1, 0.05, 2.0)
    """
    power = math.floor(math.log10(largest))
    return max(float(f"{m}e{p}") for m in (1, 2, 5) for p in (power - 1, power) if float(f"{m}e{p}") <= largest)


def _from_user(given: Steps, d: int) -> Channels:
    steps = list(given) if isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, str) else [given] * d
    good = [
        step is None or (isinstance(step, (int, float)) and not isinstance(step, bool) and 0.0 < step < math.inf)
        for step in steps
    ]
    if len(steps) != d or not all(good):
        raise ConfigurationError(
            f"grid = {given!r}; it is 'auto', None, a step above 0, or one step for each of the {d} channels"
        )
    return tuple(None if step is None else Cells(float(step)) for step in steps)


def snap_to_grid(history: History, cells: Channels, notes: text.Notes) -> History:
    """Readings moved to the nearest value of the grid, where there is one; a note says how many were off it."""
    segments, off = [], np.zeros(history.dim, dtype=int)
    for s in history.segments:
        Y = s.Y.copy()
        for k, cell in enumerate(cells):
            if cell is not None:
                Y[:, k] = cell.snap(Y[:, k])
                off[k] += int((np.abs(Y[:, k] - s.Y[:, k]) > 1e-6 * cell.step).sum())
        segments.append(replace(s, Y=Y))
    for name, count in zip(history.readings, off.tolist(), strict=True):
        notes.tally("moved to the grid", count, "reading", name=name)
    return replace(history, segments=tuple(segments))


def hold_period(history: History, notes: text.Notes) -> float | None:
    """The true period of sensors that hold their reading, in seconds, if it is regular."""
    periods = []
    for name, grid in zip(history.readings, grids_of(history), strict=True):
        if not grid.sample_and_hold:
            continue
        held = 100.0 * grid.held
        if history.period is None:
            notes.add("holds without times", name=name, held=held)
        elif grid.hold is not None:
            periods.append(grid.hold * history.period)
            notes.add("holds", name=name, held=held, hold=grid.hold, period=text.span(periods[-1]))
        else:
            coarse = 3.0 * max(grid.run, 2) * history.period
            facts = {"run": grid.run, "period": text.span(coarse), "seconds": coarse}
            notes.add("holds irregularly", name=name, held=held, **facts)
    return max(periods, default=None)


def obstacle(candidate: Candidate, cells: Channels) -> str | None:
    """Why the candidate cannot be on the grid; None if it can, or there is no grid."""
    if all(cells) or not any(cells) or _linear(candidate):
        return None
    return "cannot be put on a grid that only some channels have, which would give the private parameter away"


def _linear(candidate: Candidate) -> bool:
    """Whether all models are Gauss-Markov, in one form or another."""
    from understudy.models.gauss_markov import GaussMarkov

    return all(
        isinstance(model, GaussMarkov) or isinstance(getattr(model, "gauss_markov", None), GaussMarkov)
        for model in candidate.models.values()
    )


def put_on_grid(candidate: Candidate, cells: Channels) -> Candidate:
    """The candidate with its models on the grid; as it is where there is none.

    They live on it (`OnGrid`): an exact model of readings that are all on a grid, and for steps that are small against
    what happens from one reading to the next hardly another than that of a rounded process. Where only some
    channels have a grid, Gauss-Markov models are put behind it (`Quantised`), which is approximate and charged.
    """
    if not any(cells):
        return candidate
    why = obstacle(candidate, cells)
    if why is not None:
        raise ConfigurationError(f"{candidate.name} {why}")
    from understudy.models.quantised import OnGrid, Quantised

    rows = [(None, 0.0, None, None) if cell is None else tuple(cell) for cell in cells]
    numbers = rows[0] if len(rows) == 1 else [list(column) for column in zip(*rows, strict=True)]
    grid: dict[str, Any] = dict(zip(Cells._fields, numbers, strict=True))
    steps = ", ".join("none" if cell is None else f"{cell.step:.6g}" for cell in cells)
    unrounded = {value: _without_rounding(model, cells) for value, model in candidate.models.items()}
    made: dict[Value, Model]
    if all(cells):
        made = {value: OnGrid(model, **grid) for value, model in unrounded.items()}
        note = text.fit_note("models on a grid", steps=steps)
    else:
        # one filter for all values, so that the parameter can move among them
        auto = {Quantised(model, **grid).method for model in unrounded.values()}
        method = auto.pop() if len(auto) == 1 else "moments"
        made = {value: Quantised(model, **grid, method=method) for value, model in unrounded.items()}
        note = text.fit_note("models behind a grid", steps=steps, method=method)
    return replace(candidate, models=made, notes=(*candidate.notes, note))


def _without_rounding(model: Model, cells: Channels) -> Model:
    """The model without the rounding that its noise has in it: step^2 / 12 of each channel.

    A fit to rounded readings takes rounding for noise: of the sensor, or of the process where there is no other. It is
    taken off the one that has enough of it, four times as much in the case of the process. With noise that is not
    normal it stays.
    """
    from understudy.identify.candidates import gaussian
    from understudy.laws.gaussian import Gaussian
    from understudy.models.autoregressive import AutoRegressive
    from understudy.models.gauss_markov import GaussMarkov

    extra = np.diag([0.0 if cell is None else cell.step**2 / 12.0 for cell in cells]) * (1.0 - 1e-9)
    if type(model) is AutoRegressive and isinstance(model.noise, Gaussian):
        mean, cov = np.atleast_1d(model.noise.mean), np.atleast_2d(model.noise.cov)
        if (np.diag(cov) < 4.0 * np.diag(extra)).any():
            return model
        return AutoRegressive(model.coefficients, model.intercept, gaussian(mean, cov - extra), model.past)
    if not isinstance(model, GaussMarkov):
        return model
    system, given = model.at(1), dict(model.arguments)
    if (np.diag(system.R) >= np.diag(extra)).all():
        given["R"] = system.R - extra
    else:
        observed = system.C.T @ extra @ system.C
        if (np.diag(system.Q) < 4.0 * np.diag(observed)).any() or np.linalg.eigvalsh(system.Q - observed).min() < -1e-9:
            return model
        given["Q"] = system.Q - observed
    return GaussMarkov(**given)


def plain(cells: Channels) -> list[dict[str, Any] | None] | None:
    """As JSON can hold it; None where no channel has a grid."""
    return [None if cell is None else dict(cell._asdict()) for cell in cells] if any(cells) else None


def form(y: Array) -> str | None:
    """How readings are written, where that is a grid of its own: "float32", or significant digits; None otherwise.

    Readings of single precision, or of a few significant digits, have steps that change with their size.

    >>> y = np.linspace(80.0, 120.0, 101) ** 1.01
    >>> form(y), form(y.astype(np.float32).astype(float)), form(np.round(y, 2))
    (None, 'float32', None)
    >>> form(np.array([float(f"{v:.6g}") for v in y]))
    '6 digits'
    """
    there = np.unique(np.abs(y[~np.isnan(y) & (y != 0.0)]))
    if there.size < _FEWEST:
        return None
    places = decimals(there)
    if places is None and bool((there == there.astype(np.float32).astype(float)).all()):
        return "float32"
    if places is None or places >= _MOST_DECIMALS:
        return None
    above = there >= 10.0 ** np.floor(np.log10(there[-1]))
    finer = None if above.all() else decimals(there[~above])
    coarser = decimals(there[above])
    if finer is None or coarser is None or finer <= coarser:
        return None
    return f"{coarser + math.floor(math.log10(there[-1])) + 1} digits"


def coarsen(history: History, cells: Channels, forms: Sequence[str | None], notes: text.Notes) -> Channels:
    """The grids of channels whose readings are of single precision or of a few digits: coarse enough to hide that."""
    made: list[Cells | None] = []
    for name, column, cell, written in zip(history.readings, history.stack().T, cells, forms, strict=True):
        least = 0.0 if written is None else COARSE * as_form(written).unit(2.0 * float(np.nanmax(np.abs(column))))
        if written is None or (cell is not None and cell.step >= least):
            made.append(cell)
            continue
        step = neat_step(2.5 * least)  # the neat step at or above the least
        made.append(Cells(step))
        notes.add("rounded form", name=name, form=written, step=step)
    return tuple(made)


def decimals(y: Array) -> int | None:
    """How many decimals the readings are written with, if few; None where they are not.

    >>> decimals(np.array([20.5, 21.25, np.nan])), decimals(np.array([1.0 / 3.0]))
    (2, None)
    """
    there = y[~np.isnan(y)]
    for places in range(_MOST_DECIMALS + 1):
        if there.size and (np.abs(there - np.round(there, places)) <= 1e-12 * np.maximum(np.abs(there), 1.0)).all():
            return places
    return None
