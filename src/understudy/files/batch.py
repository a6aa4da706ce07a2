"""A batch of rows as numbers: readings, times, private values, public inputs, and what is wrong with which row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError
from understudy.files.binding import Binding
from understudy.files.columns import Column, Labels, Positions
from understudy.files.rows import Rows
from understudy.files.times import Whole
from understudy.laws.base import Array

Fault = tuple[str | None, str]


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """Rows as numbers: readings, times, private values by position, segments, and what is wrong, by row."""

    columns: dict[str, Column]
    lines: NDArray[np.int64]
    Y: Array
    inputs: Array | None  # public ones
    times: Whole | None
    theta: Positions | None
    segments: list[str] | None
    faults: dict[int, Fault]
    unplaced: NDArray[np.bool_] | None  # rows without a time

    def __len__(self) -> int:
        return len(self.lines)

    def __repr__(self) -> str:
        return f"Batch({len(self)} rows, {len(self.faults)} bad)"

    @property
    def unlabelled(self) -> list[int]:
        """Rows of which the private value is not known: no value of the design, missing, or in a row not understood."""
        return [] if self.theta is None or not self.theta.size else np.flatnonzero(self.theta < 0).tolist()


def understood(rows: Rows, bound: Binding, labels: Labels | None) -> Batch:
    """What the columns of some rows say."""
    faults: dict[int, Fault] = {i: (None, rule) for i, rule in rows.faults.items()}
    columns = dict(rows.columns)

    def add(name: str, found: dict[int, str]) -> None:
        for i, rule in found.items():
            faults.setdefault(i, (name, rule))

    times, unplaced = None, None
    if bound.time is not None:
        times, wrong = columns[bound.time].times()
        if wrong:
            unplaced = np.zeros(len(rows), dtype=bool)
            unplaced[list(wrong)] = True
            # what cannot be read may be anything, the private value in the wrong column too
            columns[bound.time] = columns[bound.time].without(sorted(wrong))
        add(bound.time, wrong)
    parts = []
    for name in bound.readings:
        y, wrong = columns[name].numbers()
        add(name, wrong)
        parts.append(y)
    Y = parts[0][:, None] if len(parts) == 1 else np.column_stack(parts)
    theta = None
    if labels is not None and bound.private is not None:
        theta = columns[bound.private].positions(labels)
        if theta.size and theta.min() < 0:
            add(bound.private, dict.fromkeys(np.flatnonzero(theta < 0).tolist(), "holds no value of the design"))
    inputs = _inputs(bound, columns, add)
    segments = _segments(bound, columns, add)
    return Batch(columns, rows.lines, Y, inputs, times, theta, segments, faults, unplaced)


Add = Callable[[str, dict[int, str]], None]


def _inputs(bound: Binding, columns: dict[str, Column], add: Add) -> Array | None:
    """Public inputs, a column each."""
    if bound.offset is None:
        return None
    parts = []
    for name in bound.inputs:
        u, wrong = columns[name].numbers()
        add(name, wrong)
        add(name, dict.fromkeys(np.flatnonzero(np.isnan(u)).tolist(), "is missing, and the offset needs it"))
        parts.append(u)
    return np.column_stack(parts) if parts else None


def _segments(bound: Binding, columns: dict[str, Column], add: Add) -> list[str] | None:
    """The segment of each row, "" where it has none; several columns make one name."""
    if not bound.segment:
        return None
    parts = [columns[name].texts() for name in bound.segment]
    for name, texts in zip(bound.segment, parts, strict=True):
        if "" in texts:
            add(name, dict.fromkeys([i for i, text in enumerate(texts) if not text], "is missing"))
    if len(parts) == 1:
        return parts[0]
    return ["/".join(texts) if all(texts) else "" for texts in zip(*parts, strict=True)]


def check_segments(batch: Batch, bound: Binding) -> None:
    """Refuse a segment that begins where the private value changes: each draw anew would show when that was.

    The rows are the first of a file. Refused is a segment of which each beginning is a change to (or from) some private
    values, where each change to (or from) these is a beginning. Three beginnings may be chance; and where times go back
    at one, the rows are of several rooms one after the other, and their ends are no news.
    """
    if batch.segments is None or batch.theta is None or len(batch) < 2:
        return
    names, theta = np.array(batch.segments, dtype=object), batch.theta
    begins = np.flatnonzero(names[1:] != names[:-1])
    if begins.size < _CHANCE or (batch.times is not None and (batch.times[begins + 1] <= batch.times[begins]).any()):
        return
    before, after = theta[:-1], theta[1:]
    changes = before != after
    if not changes[begins].all():
        return
    for side in (before, after):
        if np.array_equal(np.flatnonzero(changes & np.isin(side, side[begins])), begins):
            raise ConfigurationError(
                f"segment = {', '.join(bound.segment)}; it begins anew exactly where the private column "
                f"{bound.private!r} changes, so that the draws at its beginnings would show when that is. A segment "
                "must not depend on the private column"
            )


_CHANCE = 3  # beginnings that must be there to tell


def carried(segments: list[str], before: str | None) -> list[str]:
    """Rows without a segment belong to the one before, or else to the next."""
    last = before or next((text for text in segments if text), "")
    out = []
    for text in segments:
        last = text or last
        out.append(last)
    return out
