"""How the outputs of a file are written, and whether its readings have a grid that the models do not know of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.files.binding import family_of
from understudy.files.numbers import NumberFormat
from understudy.files.rows import Rows

_MANY = 9  # decimals that a fit counts to: so many or more
_DIGITS = 12  # of a value on a grid; what comes after them is noise of the arithmetic
_COARSE = 1e-3  # of the typical change from one reading to the next; a finer grid says next to nothing


def forms_and_notes(design: Any, readings: Sequence[str], rows: Rows) -> tuple[tuple[NumberFormat, ...], list[str]]:
    """The form of each column of readings, as its first rows and the family tell, and what is to be said about it."""
    family = family_of(design)
    decimals = (family.about or {}).get("decimals") or [None] * family.dim
    forms, notes = [], []
    for channel, name in enumerate(readings):
        form = rows.columns[name].form()
        known = decimals[channel]
        if known is not None and known < _MANY and form.most is not None:
            form = NumberFormat(min(form.least, known), known)
        on_grid = _on_grid(family, channel)
        # a few decimals are rounded to anyhow, and that is quicker
        noisy = form.most is None or form.most >= _MANY
        forms.append(form._replace(digits=_DIGITS) if on_grid and noisy else form)
        if form.step is not None and not on_grid and _coarse(form.step, rows, name):
            notes.append(
                f"the readings of {name!r} are written to {form.step:g}, and the models of this design do not know of "
                "a grid: what the rounding gives away is not counted (us.detect_grid and us.Quantised make models that "
                "do)"
            )
    return tuple(forms), notes


def _on_grid(family: Any, channel: int) -> bool:
    """Whether the models have readings on a grid in this channel."""
    model = family.model(family.values[0])
    grid = getattr(model, "grid", None)
    channels = getattr(grid, "channels", None)
    if channels is not None:
        return bool(channels[channel].step > 0.0)
    return bool(getattr(model, "atoms", False))


def _coarse(step: float, rows: Rows, name: str) -> bool:
    y, _ = rows.columns[name].numbers()
    there = y[np.isfinite(y)]
    if there.size < 3:
        return False
    return step > _COARSE * float(np.std(np.diff(there)))
