"""Does a channel live on a grid? Whole ppm, multiples of 5, two decimals, counts of a converter.

A float map of a grid gives the private parameter away from one reading, so a grid is sought in the data, never assumed.
The answer is the coarsest grid that holds all but 1 percent of the readings, where continuous readings would look so
with a chance of at most 1e-6 (`understudy.identify.lattice` finds it). Under text of three decimals there may be the
coarser grid of a converter: then that is the answer, and `written` is the finer one. Between nested grids the rule is
the same: whole numbers that are mostly, not nearly always, multiples of 5 have the step 1, and `mostly` tells of 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ModelError, ReadingError
from understudy.identify.lattice import FALSE_ALARM, Lattice, Visits, lattices, neat, visited
from understudy.laws.base import Array
from understudy.transform.readings import as_readings, finite_or_missing

if TYPE_CHECKING:
    from understudy.models.base import Model

FEWEST_CHANGES = 10  # all of them are even multiples of the true step once in 2^10


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
        return _sentence(self)

    def __repr__(self) -> str:
        return f"<Grid: {_sentence(self)}>"

    def snap(self, y: Any) -> Array:
        """Readings moved to the nearest value of the grid, which outliers and text forms need."""
        if self.step is None:
            raise ModelError(f"there is no grid to move readings to ({self})")
        near = self.offset + self.step * np.rint((np.asarray(y, dtype=float) - self.offset) / self.step)
        return np.asarray(near, dtype=float)

    def quantised(self, model: Model) -> Model:
        """The model of a scalar sensor that is read on this grid: ``Quantised(model, step, offset, low, high)``."""
        return quantised(model, self)


def quantised(model: Model, grids: Grid | tuple[Grid, ...]) -> Model:
    """The model of a sensor whose channels are read on these grids, clipped where readings pile up.

    A channel in which no grid was found is not rounded; one that nothing can be told of is refused.
    """
    from understudy.models.quantised import Quantised

    grids = (grids,) if isinstance(grids, Grid) else tuple(grids)
    if len(grids) != model.dim:
        raise ModelError(f"{len(grids)} grids for a model of {model.dim} channels; each channel has one")
    for channel, grid in enumerate(grids):
        if grid.step is None and (grid.changes < FEWEST_CHANGES or len(grids) == 1):
            raise ModelError(f"channel {channel}: {grid}; there is no step to round it by")
    rows = [
        (g.step, g.offset, *(None if g.step is None or end is None else float(g.snap(end)) for end in g.ends))
        for g in grids
    ]
    step, offset, low, high = rows[0] if len(grids) == 1 else (list(column) for column in zip(*rows, strict=True))
    return Quantised(model, step, offset=offset, low=low, high=high)


def detect_grid(y: Any) -> Grid | tuple[Grid, ...]:
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
    seen = visited(y)
    if seen.runs.size <= FEWEST_CHANGES:
        return _summary(seen, [], None)
    if seen.values.size == 2:  # any grid that holds both would do; this is the coarsest
        step, largest = float(np.ptp(seen.values)), float(np.abs(seen.values).max())
        return _summary(seen, [Lattice(step, float(seen.values[0]), 4e-16 * largest)], None)
    return _summary(seen, *lattices(seen))


def _summary(seen: Visits, found: list[Lattice], partial: Lattice | None) -> Grid:
    span = float(np.ptp(seen.values))
    ends = _piled(seen)
    step, offset, share, noise, chance = None, 0.0, 0.0, 0.0, 1.0
    place, coarser = None, []
    if partial is not None:
        near = float(seen.visits[partial.nearest(seen.values)[1]].sum() / seen.runs.size)
        coarser.append((neat(partial, span)[0], near))
    if found:
        lattice = found[-1]
        step, offset = neat(lattice, span)
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
        written=neat(found[0], span)[0] if len(found) > 1 else None,
        mostly=mostly,
        **_holding(seen, place, ends),
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


def _piled(seen: Visits) -> tuple[float | None, float | None]:
    """The ends on which readings pile up: more than on each of the next ten values, thrice as many as on five."""
    ends: list[float | None] = []
    for end, inward in ((0, 1), (-1, -1)):
        beside = seen.readings[::inward][1:11]
        piled = seen.values.size > 3 and seen.visits[end] >= 5 and seen.readings[end] > beside.max()
        ends.append(float(seen.values[end]) if piled and seen.readings[end] >= 3.0 * beside[:5].mean() else None)
    return ends[0], ends[1]


def _holding(seen: Visits, place: Array | None, ends: tuple[float | None, float | None]) -> dict[str, Any]:
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


def _sentence(grid: Grid) -> str:
    if grid.values == 1 and grid.readings > FEWEST_CHANGES:
        return f"constant: all {grid.readings} readings are equal"
    if grid.changes < FEWEST_CHANGES:
        return f"too few readings to tell ({grid.readings} readings, {grid.changes} changes)"
    if grid.step is None:
        said = ["no grid found"]
        if grid.mostly is not None:
            said = [f"no grid holds nearly all readings, but {100.0 * grid.mostly[1]:.0f} percent have the step "]
            said[0] += f"{grid.mostly[0]:.6g}"
    elif grid.values == 2:
        said = [f"two values only, {grid.step:.6g} apart"]
    else:
        said = [f"on a grid of step {grid.step:.6g}" + (f", offset {grid.offset:.6g}" if grid.offset else "")]
        if grid.share < 1.0:
            said.append(f"{100.0 * (1.0 - grid.share):.2g} percent of readings off it")
        if grid.written is not None:
            said.append(f"written to {grid.written:.3g}")
        if grid.mostly is not None:
            said.append(f"{100.0 * grid.mostly[1]:.0f} percent near the coarser step {grid.mostly[0]:.6g}")
    if grid.sample_and_hold:
        every = f"every {grid.hold} readings" if grid.hold else f"typically {grid.run} in a row"
        source = "" if grid.step is not None or grid.hold else ", or made from rounded readings"
        said.append(f"held{source}: {100.0 * grid.held:.0f} percent repeat the reading before, {every}")
    ends = [name for name, end in (("smallest", grid.low), ("largest", grid.high)) if end is not None]
    if ends:
        said.append(f"readings pile up at the {' and the '.join(ends)} value: clipped?")
    return "; ".join(said)
