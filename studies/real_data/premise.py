"""Where the theorem's premise fails, and by how much: the scores of recordings that the family has not seen.

Under a right model scores are independent standard normals, whatever theta is. Then zero budget hides everything. What
the scores still know of theta is what no randomizer can hide. Three figures tell how far a recording is from that:

* the gate: how well a classifier tells theta from the scores, and diagnostics of the scores by value;
* the shortfall: how much less log-density the readings have than readings of the model itself would, nats a reading;
* the excess: how much better a small model of the scores (by value: level, spread, memory), fitted on other
  stretches of time, predicts them than the standard normal law does: a lower bound on KL(truth || model) a reading,
  which the theorem adds to the leakage, summed over all readings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy._types import Array
from understudy.identify.gate import Gate, gate
from understudy.identify.history import History
from understudy.models.family import Family

_FOLDS = 4
_MEMORY = 2
_CLIP = 6.0


def premise(family: Family, history: History, z: list[Array], simulated: list[Array]) -> dict[str, Any]:
    """All three on one recording; `z` are its scores, `simulated` log-densities of the model's own readings."""
    from understudy.identify.selection import log_densities

    models = {value: family.model(value) for value in family.values}
    verdict = gate(models, history)
    density = np.concatenate(log_densities(models, history))
    own = np.concatenate(simulated)
    finite = density[np.isfinite(density)]
    names = ("mean", "spread", "memory")
    by_value = [
        {"test": v.name, "value": v.value, "channel": v.channel, "found": round(v.found, 4), "sentence": v.sentence}
        for v in verdict.verdicts
        if v.name in names
    ]
    return {
        "gate": {
            "passed": verdict.passed,
            "failed": len(verdict.failed),
            "tests": len(verdict.verdicts),
            "scores": verdict.scores,
            "untested": [str(value) for value in verdict.untested],
            "outcome": verdict.outcome,
            "told": score_attack(verdict),
            "by_value": by_value,
        },
        "shortfall": round(float(np.nanmean(own) - finite.mean()), 4),
        "excess": round(excess(z, [s.theta for s in history.segments], len(family.values)), 4),
        "readings": int(history.counts.sum()),
    }


def score_attack(verdict: Gate) -> list[dict[str, float]]:
    """What the gate's classifier told from the scores, window by window; chance is what it told from fresh ones."""
    return [
        {"chance" if k == "control" else k: round(float(x), 4) for k, x in each._asdict().items()}
        for each in verdict.attack.windows
    ]


def excess(z: list[Array], thetas: list[Any], m: int) -> float:
    """Nats a reading that a cross-fitted model of the scores gains over the standard normal law; 0 if they are right.

    For each value and channel: level, spread, and regression on the scores before. Fitted on all but one of four
    stretches of each segment and judged on it. Scores are cut at 6, which only lowers it; so does overfitting.

    >>> rng = np.random.default_rng(1)
    >>> theta = [np.repeat([0, 1, 0, 1], 500)]
    >>> abs(excess([rng.standard_normal((2000, 1))], theta, 2)) < 0.02
    True
    >>> excess([rng.standard_normal((2000, 1)) * (1.0 + theta[0][:, None])], theta, 2) > 0.3
    True
    """
    total, count = 0.0, 0
    rows = [_design(np.clip(part, -_CLIP, _CLIP)) for part in z]
    for c in range(z[0].shape[1]):
        X = np.concatenate([x for x, _ in rows])
        y = np.concatenate([part[:, c] for _, part in rows])
        theta = np.concatenate([t[_MEMORY:] for t in thetas])
        n = len(y)
        fold = np.arange(n) * (2 * _FOLDS) // n % _FOLDS
        for i in range(m):
            for held in range(_FOLDS):
                fit, judge = (theta == i) & (fold != held), (theta == i) & (fold == held)
                if fit.sum() < 10 * X.shape[1] or not judge.any():
                    continue
                gram = X[fit].T @ X[fit] + np.eye(X.shape[1])  # drawn to zero by one score
                beta = np.linalg.solve(gram, X[fit].T @ y[fit])
                variance = float((np.square(y[fit] - X[fit] @ beta).sum() + 1.0) / (fit.sum() + 1.0))
                e = y[judge] - X[judge] @ beta
                total += float((-0.5 * np.log(variance) - 0.5 * e * e / variance + 0.5 * y[judge] ** 2).sum())
                count += int(judge.sum()) if c == 0 else 0
    return max(0.0, total / max(count, 1))


def _design(z: Array) -> tuple[Array, Array]:
    """Regressors (a level, and the scores of all channels before) and the scores they are for."""
    lags = [z[_MEMORY - lag : len(z) - lag] for lag in range(1, _MEMORY + 1)]
    return np.concatenate([np.ones((len(z) - _MEMORY, 1)), *lags], axis=1), z[_MEMORY:]
