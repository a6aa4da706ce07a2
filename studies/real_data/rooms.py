"""One room of a data set: what is fitted on, what is judged on, and how its rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from studies.real_data.data import Frame
from understudy.identify.history import History, Segment
from understudy.models.family import Family

SHORTEST = 20
"""Rows below which a stretch between two gaps is left out."""


@dataclass(frozen=True, slots=True)
class Room:
    """Frames to learn from and to be judged on, and the parts that their columns play."""

    name: str
    train: Frame
    tests: Mapping[str, Frame]
    reading: Any
    private: str
    units: tuple[str, ...]
    time: str | None = None
    segment: Any = None
    period: Any = None
    bins: Any = None
    model: Any = "auto"
    grid: Any = "auto"
    block: float = 4 * 3600.0
    """Seconds of a stretch of time that is resampled as one."""
    clock: bool = True
    """Whether there is a public clock."""
    pace: float = 1.0
    """Hours of that clock in an hour. Experiments of two hours have a clock that counts from their beginning,
    quicker."""
    weekdays: Mapping[str, int] = field(default_factory=dict)
    """Weekday of each segment, where its times do not tell."""

    @property
    def columns(self) -> dict[str, Any]:
        """What `us.fit` is told about the columns."""
        names = ("reading", "private", "time", "segment", "period", "bins", "model", "grid")
        return {name: getattr(self, name) for name in names}


def fitted(room: Room, progress: Any = None, holdout: float = 0.25) -> Any:
    """The identifier, fitted on the room's training frame."""
    from understudy.identify.fit import Identifier

    given = {name: value for name, value in room.columns.items() if value is not None}
    if room.grid is None:
        given["grid"] = None
    return Identifier(**given, holdout=holdout, progress=progress).fit(room.train)


def read(frame: Frame, family: Family) -> History:
    """A frame as the family reads it, cut at missing readings: most families have no law across them."""
    from understudy.identify.fit import read_again

    history = read_again(frame, family)
    return replace(history, segments=tuple(piece for s in history.segments for piece in pieces(s)))


def pieces(segment: Segment) -> list[Segment]:
    """The stretches of a segment in which no reading and no label is missing, the short ones left out.

    >>> y = np.array([[1.0]] * 30 + [[np.nan]] + [[2.0]] * 5)
    >>> [len(piece) for piece in pieces(Segment("1", None, y, np.zeros(36, dtype=int)))]
    [30]
    """
    there = np.concatenate([[False], segment.used, [False]]).astype(int)
    starts, stops = np.flatnonzero(np.diff(there) == 1), np.flatnonzero(np.diff(there) == -1)
    return [segment.cut(a, b) for a, b in zip(starts.tolist(), stops.tolist(), strict=True) if b - a >= SHORTEST]
