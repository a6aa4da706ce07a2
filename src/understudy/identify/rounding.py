"""Grids and held readings of a history, and models behind the grid.

A float map of readings on a grid gives the private parameter away, so where a grid is found (`detect_grid`) the models
are put on it (`OnGrid`), or behind it (`Quantised`) if not all channels have one. A class that cannot be is not chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from understudy.errors import ConfigurationError
from understudy.identify.clock import in_words
from understudy.identify.grid import Grid, detect_grid
from understudy.identify.history import History, Segment
from understudy.laws.base import Array
from understudy.stream.release import COARSE, as_form

if TYPE_CHECKING:
    from understudy.identify.candidate import Candidate
    from understudy.models.base import Model

_MOST_DECIMALS = 9
_FEWEST = 64  # different readings, to tell how they are written
_FINE = 0.1  # of the typical change from one reading to the next


class Cells(NamedTuple):
    """The grid of one channel: offset + step times whole numbers, from low to high."""

    step: float
    offset: float = 0.0
    low: float | None = None
    high: float | None = None

    def snap(self, y: Array) -> Array:
        """The nearest value of the grid."""
        return np.asarray(self.offset + self.step * np.rint((y - self.offset) / self.step), dtype=float)


Channels = tuple[Cells | None, ...]


def grids_of(history: History) -> tuple[Grid, ...]:
    """What `detect_grid` finds in each channel."""
    found = detect_grid(history.stacked()[0])
    return found if isinstance(found, tuple) else (found,)


def channels(history: History, given: Any = "auto", ends: bool = True) -> tuple[Channels, tuple[str, ...]]:
    """The grid of each channel, found or stated, and notes.

    `given` is "auto", None (no grid), a step, or one step for each channel (None where there is none). Ends at which
    readings pile up count as the ends of the range unless `ends` is false.
    """
    d = history.dim
    if given is None or given is False:
        return (None,) * d, ()
    if not (isinstance(given, str) and given == "auto"):
        return _stated(given, d), ()
    cells: list[Cells | None] = []
    notes = []
    for k, (name, grid) in enumerate(zip(history.readings, grids_of(history), strict=True)):
        notes.append(f"{name!r}: {grid}")
        if grid.step is None:
            step = None if grid.mostly is None else _imposed(history, k)
            cells.append(None if step is None else Cells(step))
            if step is not None:
                notes.append(
                    f"readings of {name!r} are rounded to {step:g} before anything else, so that those on a grid "
                    "cannot be told from the others"
                )
            continue
        low, high = (None if end is None or not ends else float(grid.snap(end)) for end in grid.ends)
        cells.append(Cells(grid.step, grid.offset, low, high))
    return tuple(cells), tuple(notes)


def _imposed(history: History, channel: int) -> float | None:
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


def _stated(given: Any, d: int) -> Channels:
    steps = list(given) if isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, str) else [given] * d
    rule = f"it is 'auto', None, a step above 0, or one step for each of the {d} channels"
    if len(steps) != d:
        raise ConfigurationError(f"grid = {given!r}; {rule}")
    found: list[Cells | None] = []
    for step in steps:
        if step is None:
            found.append(None)
        elif isinstance(step, (int, float)) and not isinstance(step, bool) and 0.0 < step < float("inf"):
            found.append(Cells(float(step)))
        else:
            raise ConfigurationError(f"grid = {given!r}; {rule}")
    return tuple(found)


def snapped(history: History, cells: Channels) -> tuple[History, tuple[str, ...]]:
    """Readings moved to the nearest value of the grid, where there is one, and how many were off it."""
    segments, off = [], np.zeros(history.dim, dtype=int)
    for s in history.segments:
        Y = s.Y.copy()
        for k, cell in enumerate(cells):
            if cell is not None:
                Y[:, k] = cell.snap(Y[:, k])
                off[k] += int((np.abs(Y[:, k] - s.Y[:, k]) > 1e-6 * cell.step).sum())
        segments.append(Segment(s.name, s.times, Y, s.theta, s.public))
    notes = tuple(
        f"{count} readings of {name!r} off the grid were moved to its nearest value"
        for name, count in zip(history.readings, off.tolist(), strict=True)
        if count
    )
    return replace(history, segments=tuple(segments)), notes


def held_for(history: History) -> tuple[float | None, tuple[str, ...]]:
    """The true period of sensors that hold their reading, in seconds, if it is regular; and what is to be said."""
    periods, notes = [], []
    for name, grid in zip(history.readings, grids_of(history), strict=True):
        if not grid.sample_and_hold:
            continue
        share = f"{name!r} holds its reading: {100.0 * grid.held:.0f} percent repeat the one before"
        if grid.hold is not None and history.period is not None:
            periods.append(grid.hold * history.period)
            notes.append(f"{share}, every {grid.hold} rows; its true period is {in_words(periods[-1])}")
        elif history.period is not None:
            coarse = 3.0 * max(grid.run, 2) * history.period
            notes.append(
                f"{share}, typically {grid.run} in a row, at no regular period: no model of such rows fits; state a "
                f"period of about {in_words(coarse)} (period={coarse:g})"
            )
        else:
            notes.append(f"{share}; give times, or every row once, so that no reading comes twice")
    return (max(periods) if periods else None), tuple(notes)


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


def behind(candidate: Candidate, cells: Channels) -> Candidate:
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
    from understudy.models.on_grid import OnGrid
    from understudy.models.quantised import Quantised

    rows = [(None, 0.0, None, None) if cell is None else tuple(cell) for cell in cells]
    step, offset, low, high = rows[0] if len(rows) == 1 else (list(column) for column in zip(*rows, strict=True))
    steps = ", ".join("none" if cell is None else f"{cell.step:.6g}" for cell in cells)
    grid: dict[str, Any] = {"step": step, "offset": offset, "low": low, "high": high}
    unrounded = {value: _unrounded(model, cells) for value, model in candidate.models.items()}
    made: dict[Any, Model]
    if all(cells):
        made = {value: OnGrid(model, **grid) for value, model in unrounded.items()}
        note = f"the models live on a grid of step {steps} (OnGrid)"
    else:
        # one filter for all values, so that the parameter can move among them
        auto = {Quantised(model, **grid).method for model in unrounded.values()}
        method = auto.pop() if len(auto) == 1 else "moments"
        made = {value: Quantised(model, **grid, method=method) for value, model in unrounded.items()}
        note = f"the models are behind a grid of step {steps} (Quantised, {method})"
    return replace(candidate, models=made, notes=(*candidate.notes, note))


def _unrounded(model: Any, cells: Channels) -> Model:
    """The model without the rounding that its noise has in it: step^2 / 12 of each channel.

    A fit to rounded readings takes rounding for noise: of the sensor, or of the process where there is no other. It is
    taken off the one that has enough of it, four times as much in the case of the process. With noise that is not
    normal it stays.
    """
    from understudy.laws.gaussian import Gaussian
    from understudy.models.autoregressive import AutoRegressive
    from understudy.models.gauss_markov import GaussMarkov

    extra = np.diag([0.0 if cell is None else cell.step**2 / 12.0 for cell in cells]) * (1.0 - 1e-9)
    if type(model) is AutoRegressive and isinstance(model.noise, Gaussian):
        mean, cov = np.atleast_1d(model.noise.mean), np.atleast_2d(model.noise.cov)
        if (np.diag(cov) < 4.0 * np.diag(extra)).any():
            return model
        cov = cov - extra
        noise = Gaussian(float(mean[0]), float(cov[0, 0])) if model.dim == 1 else Gaussian(mean, cov)
        return AutoRegressive(model.coefficients, model.intercept, noise, model.past)
    if not isinstance(model, GaussMarkov):
        return model  # type: ignore[no-any-return]  # a model
    system, given = model.at(1), dict(model.given)
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


def coarser(history: History, cells: Channels, forms: Sequence[str | None]) -> tuple[Channels, tuple[str, ...]]:
    """The grids of channels whose readings are of single precision or of a few digits: coarse enough to hide that."""
    made: list[Cells | None] = []
    notes = []
    for name, column, cell, written in zip(history.readings, history.stacked()[0].T, cells, forms, strict=True):
        least = 0.0 if written is None else COARSE * as_form(written).unit(2.0 * float(np.nanmax(np.abs(column))))
        if written is None or (cell is not None and cell.step >= least):
            made.append(cell)
            continue
        step = neat_step(2.5 * least)  # the neat step at or above the least
        made.append(Cells(step))
        notes.append(
            f"readings of {name!r} are written as {written}, which is a grid of its own; they are rounded to {step:g} "
            "before anything else"
        )
    return tuple(made), tuple(notes)


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
