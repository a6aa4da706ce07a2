"""Who looks for draws that should not have been made: the output in windows, each with a draw of its own.

A pseudo value that is drawn again after a restart, for every sensor or on replay tells of theta again, and draws add
up. Here a window w has the likelihoods L_w(j) of its readings under each pseudo value, and speaks for theta_i by
log sum_j P_ij L_w(j), as if it had been drawn for alone. Windows of several widths give several scores, and a
logistic regression on training cases says which of them are worth something. If there was one draw, only the widest is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.adversaries.cases import Cases
from understudy.adversaries.known import Known
from understudy.adversaries.learners.calibration import Calibration, calibrated
from understudy.adversaries.learners.chains import Clock
from understudy.adversaries.learners.steps import refusal, step_logs
from understudy.adversaries.learners.widened import output_models
from understudy.laws.base import Array, Frozen
from understudy.models.base import Model

_FEWEST = 2  # readings of a window
_WIDTHS = (3, 9, 27, 81, 243, 729)
_LEARNED = 20_000  # sequences that are learned from
_CHUNK = 4_000_000
_MIXED = 3_000_000  # readings times models for which filters of hidden states are mixed, which takes its time
_SWITCH = 0.05  # odds that the value of a bank of filters has changed since the last reading


class Redrawn(Frozen):
    """Windows of several widths, each with a draw of its own.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(4.0 * v, 1.0)), values=[0, 1])
    >>> kernel = np.array([[0.7, 0.3], [0.3, 0.7]])
    >>> known = Known(family, (0, 1), kernel, family.prior, None, None, None, None)
    >>> rng = np.random.default_rng(1)
    >>> theta = rng.integers(2, size=800)
    >>> drawn = (rng.random((32, 800)) < kernel[theta, 1]).repeat(2, axis=0)         # 32 draws where one is allowed
    >>> labels = np.tile(theta, (64, 1))
    >>> cases = Cases(rng.normal(4.0 * drawn)[:, None], labels, np.tile(np.arange(800), (64, 1)), 2, once=True)
    >>> attack = Redrawn().learn(cases.sequences(slice(0, 400)), known, rng)
    >>> bool((attack.logits(cases.sequences(slice(400, 800))).argmax(axis=0) == theta[400:]).mean() > 0.95)
    True
    """

    __slots__ = ()

    name = "a draw for each window"

    def objection(self, cases: Cases, known: Known) -> str:
        """The models must be quick enough."""
        return refusal(output_models(known), cases.T * cases.N, moving=not cases.once)

    def learn(self, cases: Cases, known: Known, rng: np.random.Generator) -> RedrawnAttack:
        """What each width is worth."""
        models = tuple(output_models(known))
        few = cases.sequences(slice(0, max(1, min(_LEARNED, 40 * _CHUNK // (cases.T * len(models))))))
        clock, mixed = Clock.learned(cases), cases.T * cases.N * len(models) <= _MIXED
        empty = Calibration(np.zeros(0), np.zeros(0), np.zeros((cases.m, 1)))
        scores = RedrawnAttack(models, known.kernel, clock, mixed, cases.T, empty).scores(few)
        worth = calibrated(scores, few.truth, cases.m, ridge=10.0, rng=rng)
        return RedrawnAttack(models, known.kernel, clock, mixed, cases.T, worth)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RedrawnAttack:
    """Pseudo models, kernel, what the clock says, whether filters are mixed, and what the scores are worth.

    `length` is that of the sequences that were learned from: it decides which windows there are, here and there.
    """

    models: tuple[Model, ...]
    kernel: Array
    clock: Clock
    mixed: bool
    length: int
    calibration: Calibration

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities (m, T, N), or (m, N) where theta is constant in a sequence."""
        return self.calibration.logits(self.scores(cases))

    def scores(self, cases: Cases) -> Array:
        """Scores of all widths and values but the first, and the clock: (F, N) or (F, T, N)."""
        n = len(self.models)
        mixing = (1.0 - _SWITCH) * np.eye(n) + _SWITCH * self.kernel.mean(axis=0) if self.mixed else None
        size = max(1, _CHUNK // max(cases.T * n, 1))
        parts = []
        for first in range(0, cases.N, size):
            logs = step_logs(self.models, cases.outputs[:, :, first : first + size], mixing)
            parts.append(self._whole(logs) if cases.once else self._each(logs))
        return np.concatenate([np.concatenate(parts, axis=-1), self.clock.scores(cases)])

    def _whole(self, logs: Array) -> Array:
        """Sums over the windows of a sequence, for windows of a half, a quarter, .. of it."""
        n, T, N = logs.shape
        total = np.concatenate([np.zeros((n, 1, N)), np.cumsum(logs, axis=1)], axis=1)
        found, count = [], 1
        while count == 1 or self.length // count >= _FEWEST:
            ends = np.linspace(0, T, count + 1).astype(np.int64)
            found.append(self._spoken(total[:, ends[1:]] - total[:, ends[:-1]]).sum(axis=1))
            count *= 2
        return np.concatenate(found)

    def _each(self, logs: Array) -> Array:
        """Windows around each reading."""
        n, T, N = logs.shape
        total = np.concatenate([np.zeros((n, 1, N)), np.cumsum(logs, axis=1)], axis=1)
        k, found = np.arange(T), []
        for width in _WIDTHS:
            if width == _WIDTHS[0] or width <= self.length:
                high, low = np.minimum(k + width // 2 + 1, T), np.maximum(k - width // 2, 0)
                found.append(self._spoken(total[:, high] - total[:, low]))
        return np.concatenate(found)

    def _spoken(self, logs: Array) -> Array:
        """What windows say, log sum_j P_ij L(j), for each value beside the first: (m - 1, ..) from (n, ..)."""
        L = np.exp(logs - logs.max(axis=0))
        weights = np.log(np.tensordot(np.maximum(self.kernel, 1e-9), L, axes=1))
        return np.asarray(weights[1:] - weights[:1])
