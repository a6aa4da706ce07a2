"""Rows as the family knows readings: taken together over its period, on its grid, without the public offset.

A family that was fitted to means (or to the last reading, for sensors that hold theirs) over a longer period than that
of the rows is applied to the same. Rows stay: each gets the disguised reading of the stretch that it lies in, as a
sensor with that period would show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from understudy.files.binding import Binding
from understudy.files.columns import Positions
from understudy.files.rows import Rows, joined
from understudy.files.times import SECOND, Whole
from understudy.identify import periods
from understudy.laws.base import Array
from understudy.stream.release import Release


class Prepared(NamedTuple):
    """Readings for the stream, their times and private values, the offset to add, and the reading of each row."""

    Y: Array
    times: Whole | None
    theta: Positions | None
    lines: Any
    offset: Array | None
    which: Any  # None where rows and readings are one and the same
    moved: int  # readings that were off the grid

    def __repr__(self) -> str:
        return f"Prepared({len(self.Y)} readings)"

    def back(self, out: Array, Y: Array, release: Release) -> Array:
        """Outputs of the rows, from those of the readings, on the lattice; nothing where the row had nothing."""
        found = out if self.offset is None else release.rounded(out + self.offset)
        if self.which is None:
            return found
        return np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, found[self.which])


def prepared(
    bound: Binding, Y: Array, times: Whole | None, theta: Positions | None, inputs: Array | None, lines: Any
) -> Prepared:
    """Readings of one segment, in order."""
    which: Any = None
    if bound.resampling is not None and times is not None and bound.period is not None:
        codes = np.zeros(len(Y), dtype=np.intp) if theta is None else theta
        public = np.empty((len(Y), 0)) if inputs is None else inputs
        fine = periods.Rows(times, Y, codes, public)
        coarse, _ = periods.resample(fine, bound.period / SECOND, bound.resampling == "last")
        which = np.searchsorted(coarse.ns, times, side="right") - 1
        lines = lines[np.searchsorted(times, coarse.ns)]
        Y, times, inputs = coarse.Y, coarse.ns, None if inputs is None else coarse.public
        theta = None if theta is None else coarse.theta
    Y, moved = _snapped(bound, Y)
    if bound.offset is None:
        return Prepared(Y, times, theta, lines, None, which, moved)
    named = {} if inputs is None else dict(zip(bound.inputs, inputs.T, strict=True))
    offset = bound.offset.of(named, times, bound.zone)
    return Prepared(Y - offset, times, theta, lines, offset, which, moved)


def _snapped(bound: Binding, Y: Array) -> tuple[Array, int]:
    """Readings on the grid of the family, and how many were not."""
    if not any(cell is not None for cell in bound.grid):
        return Y, 0
    near, moved = Y.copy(), 0
    for channel, cell in enumerate(bound.grid):
        if cell is not None:
            near[:, channel] = cell.snap(Y[:, channel])
            moved += int((np.abs(near[:, channel] - Y[:, channel]) > 1e-6 * cell.step).sum())
    return near, moved


def aligned(parts: Iterable[Rows], bound: Binding) -> Iterator[Rows]:
    """The same rows in batches that do not cut a period in two."""
    if bound.resampling is None or bound.time is None or bound.period is None:
        yield from parts
        return
    waiting: list[Rows] = []
    for part in parts:
        rows = joined([*waiting, part])
        times, wrong = rows.columns[bound.time].times()
        place = times // bound.period
        known = np.ones(len(rows), dtype=bool)
        known[list(wrong)] = False
        earlier = np.flatnonzero(known & (place != place[known][-1])) if known.any() else np.arange(0)
        cut = int(earlier[-1]) + 1 if earlier.size else 0
        if cut:
            yield rows.cut(0, cut)
        waiting = [rows.cut(cut, len(rows)) if cut else rows]
    yield from waiting
