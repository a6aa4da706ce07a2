"""Readings of hidden Markov families along many paths at once: what `us.colour` does one by one (a test compares)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array
from understudy.laws.gaussian import Gaussian
from understudy.models.hidden_markov import HiddenMarkov

_HALVINGS = 60


def is_hidden(models: list[Any]) -> bool:
    """Whether all are hidden Markov models of one channel with normal emissions and as many states."""
    return all(
        type(m) is HiddenMarkov
        and m.dim == 1
        and m.states == models[0].states
        and all(type(law) is Gaussian for law in m.emissions)
        for m in models
    )


def hidden(z: Array, models: list[Any], grids: list[Any], which: NDArray[np.intp]) -> Array:
    """Scores (T, 1, N) to readings along paths (T, N) of positions; `grids` holds the cells of each model, or None."""
    means, deviations = (
        np.array([[_moments(law)[k] for law in m.emissions] for m in models]) for k in (0, 1)
    )  # (values, states)
    moves = np.array([m.transition for m in models])
    weights = np.array([models[i].initial for i in which[0]]).T
    Y = np.empty(z.shape)
    for k in range(len(z)):
        mean, sd = means[which[k]].T, deviations[which[k]].T  # (states, N)
        y = _quantile(z[k, 0], weights, mean, sd)
        for i, grid in enumerate(grids):
            at = which[k] == i
            if grid is not None and at.any():
                y[at] = grid.channels[0].round(y[at])
        Y[k, 0] = y
        # Bayes' rule, then one step of the chain of the value that was played
        logs = np.log(np.maximum(weights, 1e-300)) - np.log(sd) - 0.5 * np.square((y - mean) / sd)
        p = np.exp(logs - logs.max(axis=0))
        weights = np.einsum("sn,nst->tn", p / p.sum(axis=0), moves[which[k]])
        weights /= weights.sum(axis=0)
    return Y


def _moments(law: Any) -> tuple[float, float]:
    return float(np.ravel(law.mean)[0]), float(np.sqrt(np.ravel(law.cov)[0]))


def _quantile(z: Array, weights: Array, mean: Array, sd: Array) -> Array:
    """Where a mixture of normals has the score z: between the quantiles of its components, by halving."""
    from scipy.special import ndtr

    ends = mean + sd * z
    low, high = ends.min(axis=0), ends.max(axis=0)
    sign = np.where(z > 0.0, -1.0, 1.0)  # on the side of the smaller tail
    wanted = ndtr(sign * z)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = (weights * ndtr(sign * (middle - mean) / sd)).sum(axis=0) < wanted
        up = below == (sign > 0.0)
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    return np.asarray(0.5 * (low + high))
