"""Other data of the same sensor, read as the family's own history was: for tests on held-out files."""

from __future__ import annotations

from typing import Any

from understudy.errors import ConfigurationError
from understudy.identify.columns import Table
from understudy.identify.history import History
from understudy.identify.intake import intake
from understudy.identify.labels import Bins
from understudy.identify.public import CLOCK, Offset, clock_names, without_offset
from understudy.identify.rounding import Cells, snapped
from understudy.models.family import Family


def reread(frame: Any, family: Family) -> History:
    """A frame as a history for this family: its columns, period, bins and grid, the public offset taken off.

    What differs is refused: columns that are missing, labels that the family does not have, rows of a coarser period.
    """
    about = family.about
    if about is None or "readings" not in about:
        raise ConfigurationError("the family does not say which columns it was made of; only one from us.fit does")
    table = frame if isinstance(frame, Table) else Table(frame)
    resampling = about["resampling"] or {}
    public = () if about["public"] is None else tuple(about["public"]["columns"])
    history = intake(
        table,
        reading=about["readings"],
        private=about["private"],
        time=about["time"],
        segment=about["segment"],
        period=about["period"],
        bins=None if about["bins"] is None else Bins.from_plain(about["bins"]),
        public=tuple(dict.fromkeys(CLOCK if name in clock_names() else name for name in public)),
        last=resampling.get("how") == "last",
        values=family.values,
    )
    if about["grid"] is not None:
        cells = tuple(None if cell is None else Cells(**cell) for cell in about["grid"])
        history, moved = snapped(history, cells)
        history = history.having(history.segments, *moved)
    return history if not public else without_offset(history, Offset.from_plain(about["public"]))
