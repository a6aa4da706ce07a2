"""Gain tables: what the Kalman predictor of a constant system needs at each step, computed once.

Gains depend on the model and on which readings are missing, never on the readings themselves. For a
constant system without gaps they form a sequence that settles: the table ends with the settled
row, which serves for ever after. Should it not settle within the cap, the filter goes on from the
end of the table with the covariance carried along.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.errors import ModelError
from understudy.laws.base import Array
from understudy.models.gauss_markov import GaussMarkov
from understudy.transform.backend import kernels, view

# The covariance counts as settled when a step moves it by less than the rounding of its entries.
SETTLED = 2.3e-16
_FIRST_ROWS = 32
_MOST_ROWS = 65_536
_MOST_ENTRIES = 8_000_000


class Gains(NamedTuple):
    """A gain table of `rows` rows, flat; `frozen` if its last row serves for ever after."""

    states: int
    dim: int
    width: int
    table: Array
    rows: int
    frozen: bool
    system: Array

    def covariance(self, index: int) -> Array:
        """Filtered covariance before the step with this index; past the end, after the last row."""
        stop = min((index + 1) * self.width, self.table.size)
        return self.table[stop - self.states**2 : stop]

    @property
    def flat(self) -> Array:
        """The rows that a run may use."""
        return self.table[: self.rows * self.width]

    def settled(self) -> Array:
        """The covariance of the last row, and behind it the one predicted from it, for comparison."""
        n = self.states
        P = self.table[-n * n :].reshape(n, n)
        A, Q = self.system[: n * n].reshape(n, n), self.system[n * n + n : 2 * n * n + n].reshape(n, n)
        return np.concatenate((P.ravel(), (A @ P @ A.T + Q).ravel()))

    def log_scale(self, steps: int) -> float:
        """Sum over the first `steps` readings of log(1 / det L): the log-Jacobian of the scores."""
        stop = self.width - self.states**2  # in either kind of row, 1 / diag L stands before the covariance
        r = self.flat.reshape(self.rows, self.width)[:, stop - self.dim : stop]
        per_step = np.log(r).sum(axis=1)
        used = min(steps, self.rows)
        return float(per_step[:used].sum() + (steps - used) * per_step[-1])


def gains(model: GaussMarkov) -> Gains:
    """The table of a constant model, computed on first use and remembered with the model."""
    return _remembered(model, "gains")


def scalar_gains(model: GaussMarkov) -> Gains:
    """The same for a model of one state and one channel, in the rows of the scalar loops."""
    return _remembered(model, "scalar gains")


def _remembered(model: GaussMarkov, which: str) -> Gains:
    found: Gains | None = model.memo.get(which)
    if found is None:
        found = model.memo[which] = _tabulate(model, scalar=which == "scalar gains")
    return found


def _tabulate(model: GaussMarkov, scalar: bool) -> Gains:
    n, d = model.states, model.dim
    width = 9 if scalar else kernels.gain_width(n, d)
    system = model.row(1)
    P = model.cov0.ravel().tolist()
    table = np.empty(_FIRST_ROWS * width)
    rows = 0
    while True:
        rows, frozen, bad, P = _fill(table, rows, system, P, (n, d), scalar)
        if bad and rows == 0:
            raise bad_innovation(1)
        # bad later on: a covariance that outgrows float64, but the readings up to there still have a law
        if frozen or bad or rows >= min(_MOST_ROWS, _MOST_ENTRIES // width):
            break
        most = max(rows + 1, min(_MOST_ROWS, _MOST_ENTRIES // width))
        table = np.concatenate((table, np.empty(min(3 * rows, most - rows) * width)))
    table = table[: rows * width]
    if not frozen:
        # one more row, of which only the covariance is read: where the carried one starts
        table = np.concatenate((table, np.zeros(width - n * n), P))
    table.flags.writeable = False
    return Gains(n, d, width, table, rows, frozen, system)


def _fill(
    table: Array, rows: int, system: Array, P: list[float], size: tuple[int, int], scalar: bool
) -> tuple[int, bool, int, list[float]]:
    """Fill the table from row `rows` to its end; rows filled, whether settled, a bad pivot, the last covariance."""
    if scalar:
        rows, frozen, bad, p = kernels.fill_scalar(view(system), P[0], view(table), rows, table.size // 9, SETTLED)
        return rows, frozen, bad, [p]
    n, d = size
    cov, work = np.array(P), view(np.empty(kernels.workspace(n, d)))
    stop = table.size // kernels.gain_width(n, d)
    rows, frozen, bad = kernels.fill_table(view(system), False, n, d, view(cov), view(table), rows, stop, SETTLED, work)
    return rows, frozen, bad, cov.tolist()


def bad_innovation(k: int) -> ModelError:
    """The error for a reading that the model leaves no room to vary."""
    return ModelError(f"the innovation covariance of reading {k} is not positive definite, or not finite")
