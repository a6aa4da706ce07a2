"""Any continuous law, reported on a grid: the law of round(y) for y of that law, channel by channel.

The probability of a grid point is that of its cell. A law already knows how to turn the ends of a cell into scores, on
the side of the smaller tail; between the two, the randomised score is that of a standard normal known to lie there. In
a vector, channel l is conditioned on the *reported* values of the channels before it, as if they were exact: the law
of a process that lives on the grid (not of a rounded one, which `Quantised` is for).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from understudy.errors import LawError
from understudy.laws.atoms import checked_uniforms
from understudy.laws.base import Array, Frozen, Law, is_law
from understudy.laws.cells import scores, truncated
from understudy.laws.rounding import Rounding
from understudy.laws.shapes import channels

_ROOM = 1e-7  # of a cell, at either end: what an inverse of a law may be off by


class Rounded(Frozen):
    """What is reported of a law on a grid that has a step in every channel; `shift` is added to it before rounding.

    A shift may be an array, one entry (or one vector) for each of many readings.

    >>> import scipy.stats
    >>> from understudy.laws.scalar import Scalar
    >>> law = Rounded(Scalar(scipy.stats.t(4.0, 20.2, 2.0)), Rounding(1, step=1.0))
    >>> law.value(1.0)
    22.0
    >>> law.value(law.score(22.0, v=0.3))
    22.0
    >>> round(float(np.exp(law.logpdf(np.arange(-500.0, 600.0))).sum()), 6)
    1.0
    """

    __slots__ = ("_grid", "_law", "_shift", "dim")

    atoms = True

    def __init__(self, law: Law, grid: Rounding, shift: Any = 0.0) -> None:
        if not is_law(law) or getattr(law, "atoms", False):
            raise LawError(f"the law is of type {type(law).__name__}; only a continuous law can be rounded")
        if getattr(law, "dim", 1) != grid.dim or not grid.everywhere:
            raise LawError(f"the law has {getattr(law, 'dim', 1)} channels; each must have a step of the grid")
        self.dim: int = grid.dim
        self._law, self._grid, self._shift = law, grid, shift

    def __repr__(self) -> str:
        # the parameters of a conditional law hold the past readings
        return f"Rounded(dim={self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Rounded, (self._law, self._grid, self._shift)

    def score(self, y: Any, v: Any = None) -> Any:
        """Randomised scores; `v` are uniforms in (0, 1), one for each reading."""
        uniforms = checked_uniforms(y, v)
        if self.dim == 1:
            return cell_scores(*self._cell(y, 0), uniforms.item() if uniforms.ndim == 0 else uniforms)
        rows = channels(y, self.dim, "reading").reshape(np.shape(y))
        return np.array([cell_scores(*self._cell(rows, i), uniforms[i]) for i in range(self.dim)])

    def value(self, z: Any) -> Any:
        """What is reported; the inverse of `score`."""
        if self.dim == 1:
            found = self._law.value(z) + self._shift
            return self._grid.channels[0].rounded(float(found) if np.ndim(found) == 0 else np.asarray(found))
        w = channels(z, self.dim, "score").reshape(np.shape(z)).copy()
        y = np.array(w)
        for i, channel in enumerate(self._grid.channels):
            now = np.asarray(self._law.value(w)) + self._shift
            now[:i] = y[:i]
            y[i] = now[i] = channel.rounded(now[i])
            w[i] = self._law.score(now - self._shift)[i]  # so that the next channel follows what was reported
        return y

    def logpdf(self, y: Any) -> Any:
        """Logarithm of the probability of what is reported."""
        if self.dim == 1:
            return _log_probability(*self._cell(y, 0))
        rows = channels(y, self.dim, "reading").reshape(np.shape(y))
        return sum(_log_probability(*self._cell(rows, i)) for i in range(self.dim))

    def _cell(self, y: Any, i: int) -> tuple[Any, Any]:
        """The scores of the ends of the cell of channel i, given the channels before it as they are reported."""
        channel = self._grid.channels[i]
        at = y if self.dim == 1 else y[i]
        at = float(at) if np.ndim(at) == 0 else np.asarray(at, dtype=float)
        cell = channel.cells(at, i)
        ends = []
        for end, beyond in ((cell.lower, -math.inf), (cell.upper, math.inf)):
            finite = np.where(np.isfinite(end), end, cell.at)
            z = self._ask(y, finite if np.ndim(at) else float(finite), i)
            ends.append(np.where(np.isfinite(end), z, beyond) if np.ndim(at) else z if math.isfinite(end) else beyond)
        return ends[0], ends[1]

    def _ask(self, y: Any, end: Any, i: int) -> Any:
        if self.dim == 1:
            z = self._law.score(end - self._shift)
            return float(z) if np.ndim(z) == 0 else np.asarray(z, dtype=float)
        moved = np.array(y, dtype=float)
        moved[i] = end
        z = np.asarray(self._law.score(moved - self._shift), dtype=float)[i]
        return float(z) if np.ndim(z) == 0 else z


def _log_probability(a: Any, b: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return truncated(a, b, 0.5 * (b - a)).log_probability


def cell_scores(a: Any, b: Any, v: Any) -> Any:
    """Scores between those of the ends of cells, at the uniforms v.

    >>> round(cell_scores(-1.0, 1.0, 0.5), 12)
    0.0
    """
    z = scores(a, b, _log_probability(a, b), float(v) if isinstance(a, float) else v)
    room = np.minimum(_ROOM * np.minimum(b - a, 1.0), 0.25 * (b - a))
    if isinstance(a, float):
        return float(min(max(z, a + room), b - room))
    found: Array = np.minimum(np.maximum(z, a + room), b - room)
    return found
