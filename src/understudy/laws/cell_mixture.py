"""The law of a rounded reading whose mean is only known to be one of many points, each with a weight.

What a point-mass filter predicts: given point i the channels are independent, channel i normal with mean
centres[i, i] and a standard deviation of its own. Everything is summed in logarithms, on the smaller tail.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.errors import NumericalError
from understudy.laws.atoms import checked_uniforms
from understudy.laws.base import Array, Frozen
from understudy.laws.cells import from_tails, log_probability
from understudy.laws.rounding import Cells, Channel, Rounding
from understudy.laws.shapes import channels, shaped

_NOTHING = -1e300  # a logarithm that stands for no probability at all
_ROUNDING = 8.0 * float(np.finfo(float).eps)


class CellMixture(Frozen):
    """Law of what is reported of sum_i weights_i prod_l N(centres[i, i], sds[i]^2) by a sensor with this grid.

    >>> law = CellMixture(np.array([0.5, 0.5]), np.array([[19.0, 21.0]]), np.array([1.0]), Rounding(1, step=1.0))
    >>> law
    CellMixture(2 points, dim=1)
    >>> law.value([-1.0, 0.0, 1.0]).tolist()
    [19.0, 20.0, 21.0]
    >>> law.value(law.score(17.0, v=0.1))
    17.0
    """

    __slots__ = ("_centres", "_grid", "_log_weights", "_sds", "_weights", "dim")

    atoms = True

    def __init__(self, weights: Array, centres: Array, sds: Array, grid: Rounding) -> None:
        self.dim: int = grid.dim
        self._weights, self._centres, self._sds, self._grid = weights, centres, sds, grid
        with np.errstate(divide="ignore"):
            self._log_weights: Array = np.log(weights)

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"CellMixture({self._weights.size} points, dim={self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return CellMixture, (self._weights, self._centres, self._sds, self._grid)

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """Weights (points,), centres (channels, points) and standard deviations (channels,)."""
        return self._weights, self._centres, self._sds

    def score(self, y: Any, v: Any = None) -> Any:
        """Randomised scores; `v` are uniforms in (0, 1), one for each reading."""
        aux = checked_uniforms(y, v).reshape(self.dim, -1)
        rows = channels(y, self.dim, "reading")
        z = np.empty(rows.shape)
        logs = self._start(rows.shape[1])
        for i, channel in enumerate(self._grid.channels):
            cell = channel.cells(rows[i], i)
            each = logs + self._cells(i, cell)
            inside = _sum(each)
            if not (inside > _NOTHING).all():
                raise NumericalError(f"channel {i} is too far out for double precision")
            below, above = self._tails(i, logs, cell.lower)[0], self._tails(i, logs, cell.upper)[1]
            tail = np.minimum(np.maximum(below, inside), np.maximum(above, inside))
            # logarithms are right to their size times this, and the score stays inside its cell by as much
            lost = _ROUNDING * (20.0 - tail) * np.exp(np.minimum(tail - inside, 600.0))
            z[i] = from_tails(
                below, above, inside, np.clip(aux[i], np.minimum(lost, 0.25), 1.0 - np.minimum(lost, 0.25))
            )
            logs = each - inside[:, None]
        return shaped(z, np.shape(y))

    def value(self, z: Any) -> Any:
        """What is reported; the inverse of `score`."""
        rows = channels(z, self.dim, "score")
        y = np.empty(rows.shape)
        logs = self._start(rows.shape[1])
        for i, channel in enumerate(self._grid.channels):
            y[i] = self._find(i, channel, logs, rows[i])
            if i + 1 < self.dim:
                each = logs + self._cells(i, channel.cells(y[i], i))
                logs = each - _sum(each)[:, None]
        return shaped(y, np.shape(z))

    def logpdf(self, y: Any) -> Any:
        """Logarithm of the probability of the cell."""
        rows = channels(y, self.dim, "reading")
        logs = self._start(rows.shape[1])
        for i, channel in enumerate(self._grid.channels):
            logs = logs + self._cells(i, channel.cells(rows[i], i))
        return shaped(_sum(logs), np.shape(y)[1:] if self.dim > 1 else np.shape(y))

    def _start(self, count: int) -> Array:
        return np.repeat(self._log_weights[None, :], count, axis=0)

    def _cells(self, i: int, cell: Cells) -> Any:
        """Logarithm of the probability of each cell given each point, (readings, points)."""
        q, s = self._centres[i], self._sds[i]
        lower, upper, half = (np.asarray(end)[:, None] for end in (cell.lower, cell.upper, cell.half))
        wide = np.broadcast_to(half / s, (half.size, q.size))
        return log_probability((lower - q) / s, (upper - q) / s, wide)

    def _tails(self, i: int, logs: Array, y: Any) -> tuple[Array, Array]:
        """Logarithms of F(y) and 1 - F(y)."""
        from scipy.special import log_ndtr

        t = (np.asarray(y)[:, None] - self._centres[i]) / self._sds[i]
        return _sum(logs + log_ndtr(t)), _sum(logs + log_ndtr(-t))

    def _find(self, i: int, channel: Channel, logs: Array, z: Array) -> Array:
        """The first cell whose upper end has at least the score z, by bisection of whole numbers."""
        from scipy.special import ndtri_exp

        step, offset, low, high = channel
        q, s = self._centres[i], self._sds[i]
        # no component has its quantile outside of these
        first = np.rint((channel.rounded(q.min() + s * z) - offset) / step)
        last = np.rint((channel.rounded(q.max() + s * z) - offset) / step)
        while (first < last).any():
            middle = np.floor(0.5 * (first + last))
            below, above = self._tails(i, logs, offset + step * (middle + 0.5))
            edge = np.where(below < above, ndtri_exp(np.minimum(below, 0.0)), -ndtri_exp(np.minimum(above, 0.0)))
            reached = (edge >= z) & (first < last)
            last = np.where(reached, middle, last)
            first = np.where(~reached & (first < last), middle + 1.0, first)
        return np.asarray(np.clip(offset + step * first, low, high))


def _sum(logs: Any) -> Array:
    """Logarithm of the sum over the last axis of what is given as logarithms."""
    top = np.maximum(logs.max(axis=-1), _NOTHING)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(logs - top[..., None]).sum(axis=-1)))
