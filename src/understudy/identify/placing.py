"""Rows into stretches on one period: with their times, or in the order they stand in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError, ReadingError
from understudy.identify.clock import DAY, SECOND, as_instants, in_words, seconds
from understudy.identify.columns import Column
from understudy.identify.periods import COARSER, Rows, place, resample, spacing, stretched

_MOST_PLACES = 100_000_000

Groups = list[tuple[str, NDArray[np.intp]]]
"""The name of each segment and its rows."""


def counted(n: int, what: str, several: str | None = None) -> str:
    """A number and a noun.

    >>> counted(1, "row"), counted(2, "stretch", "stretches")
    ('1 row', '2 stretches')
    """
    return f"{n} {what if n == 1 else several or what + 's'}"


def in_order(rows: Rows, groups: Groups, period: Any) -> tuple[list[tuple[str, Rows]], float | None]:
    """Without times: rows as they stand, one period apart."""
    step = None if period is None else seconds(period)
    stretches = []
    for name, which in groups:
        numbered = rows.take(which)._replace(ns=np.arange(which.size) * SECOND)
        stretches += [(name, part) for part in stretched(numbered, 1.0)]
    return [(name, part._replace(ns=np.empty(0, dtype=np.int64))) for name, part in stretches], step


def times(column: Column, groups: Groups, notes: list[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_], str | None]:
    """Nanoseconds of each row, which rows have no time, and the zone; times of day are counted on past midnight."""
    found = as_instants(column)
    notes += found.notes
    if found.missing.all():
        raise ReadingError(f"column {column.name!r} has no time in any row")
    if found.missing.any():
        notes.append(f"{counted(int(found.missing.sum()), 'row')} without a time in {column.name!r} dropped")
    ns = found.ns.copy()
    if found.of_day:
        nights = 0
        for _, which in groups:
            there = which[~found.missing[which]]
            back = np.diff(ns[there]) < 0
            # a clock that goes back by half a day or more has passed midnight, unless rows are in no order at all
            if back.any() and (np.diff(ns[there])[back] < -DAY // 2).all():
                ns[there[1:]] += np.cumsum(back) * DAY
                nights += int(back.sum())
        if nights:
            notes.append(f"the times of day pass midnight {counted(nights, 'time')}; days were counted on from there")
    return ns, found.missing, found.zone


def in_time(
    rows: Rows,
    missing: NDArray[np.bool_],
    groups: Groups,
    period: Any,
    last: bool,
    notes: list[str],
) -> tuple[list[tuple[str, Rows]], float]:
    """Stretches on one period, in seconds: sorted, without doubles, placed or resampled."""
    sorted_rows, unsorted, doubled = [], False, 0
    for name, which in groups:
        which = which[~missing[which]]
        if not which.size:
            continue
        order = which[np.argsort(rows.ns[which], kind="stable")]
        unsorted |= bool((order != which).any())
        first = np.concatenate([[True], np.diff(rows.ns[order]) > 0])
        doubled += int((~first).sum())
        sorted_rows.append((name, rows.take(order[first])))
    if unsorted:
        notes.append("the rows were not in the order of time, and were sorted")
    if doubled:
        was = "was" if doubled == 1 else "were"
        notes.append(f"{counted(doubled, 'row')} with the time of an earlier one {was} dropped: the first was kept")
    native = spacing([part.ns for _, part in sorted_rows])
    step = native if period is None else seconds(period)
    if sum(float(part.ns[-1] - part.ns[0]) for _, part in sorted_rows) / (step * SECOND) > _MOST_PLACES:
        raise ConfigurationError(f"period = {step:g} s gives more than {_MOST_PLACES} rows; state a longer one")
    if step >= COARSER * native:
        return _resampled(sorted_rows, native, step, last, notes), step
    if period is None:
        notes.append(f"the period is {in_words(step)}, the spacing of the rows")
    met, jitter, stretches = 0, 0.0, []
    for name, part in sorted_rows:
        placed, together, stray = place(part, step)
        met, jitter = met + together, max(jitter, stray)
        stretches += [(name, piece) for piece in stretched(placed, step)]
    if jitter > 0.05:
        notes.append(
            f"time stamps stray by up to {jitter * step:.3g} s from a period of {in_words(step)} (99 in 100 by less); "
            "each row was moved to the nearest place"
        )
    if met:
        notes.append(f"{counted(met, 'row')} on the place of an earlier one dropped")
    return stretches, step


def _resampled(
    parts: list[tuple[str, Rows]], native: float, step: float, last: bool, notes: list[str]
) -> list[tuple[str, Rows]]:
    how = "the last reading" if last else "the mean of the readings"
    notes.append(
        f"rows of {in_words(native)} were resampled to {in_words(step)}: {how} in each stretch, the label that most "
        "of its rows have (of equals the later), stamped with its beginning"
    )
    few, stretches = 0, []
    for name, part in parts:
        coarse, thin = resample(part, step, last)
        few += thin
        stretches += [(name, piece) for piece in stretched(coarse, step)]
    if few:
        notes.append(
            f"{counted(few, 'stretch', 'stretches')} with less than half of the usual readings count as missing"
        )
    return stretches
