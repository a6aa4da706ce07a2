"""The distortion by simulation, for what has no formula: any model, any measure.

Scores are drawn once and coloured under every model, once each: m + n sequences serve m x n pairs.
All pairs thus see the same random numbers, so that their differences, which are what a design
weighs, are known better than they are themselves. Replications go into a fixed number of groups,
whose means are kept: they tell the standard error of any weighted sum of the pairs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.distortion.measure import Measure
from understudy.errors import UnderstudyWarning
from understudy.laws.base import Array
from understudy.models.base import Model
from understudy.transform.maps import gauss_markov, innovations
from understudy.transform.scores import colour

GROUPS = 64
"""Groups that replications are averaged in."""

MOST_REPLICATIONS = 200_000
"""Where the simulation stops, with a warning, if the accuracy is not reached before."""

_FIRST = 256
_MEMORY = 1 << 21  # readings held at a time
_LARGEST_BATCH = 4096


class Simulated(NamedTuple):
    """Means and standard errors (sources, targets), the means of the groups, and those of the source readings."""

    mean: Array
    error: Array
    groups: Array  # (GROUPS, sources, targets)
    readings: Array  # (GROUPS, sources)
    replications: int


class Plan(NamedTuple):
    """What to simulate: models, which pairs of them, the measure, the horizon, and how well."""

    sources: list[Model]
    targets: list[Model]
    wanted: NDArray[np.bool_]
    measure: Measure
    horizon: int
    accuracy: float


def simulate(plan: Plan, rng: np.random.Generator, progress: Callable[[float], None] | None = None) -> Simulated:
    """Replications until every standard error is at most `accuracy` times the mean of the wanted entries."""
    shape = plan.wanted.shape
    most = _batch(plan)
    count, mean, squares = 0, np.zeros(shape), np.zeros(shape)
    groups, readings = np.zeros((GROUPS, *shape)), np.zeros((GROUPS, shape[0]))
    goal = min(_FIRST, MOST_REPLICATIONS)
    while True:
        while count < goal:
            batch = min(most, 1 << (goal - count).bit_length() - 1)
            values, means = _replications(plan, rng, batch)
            # mean and sum of squares of two samples together
            step = values.mean(axis=2) - mean
            squares += ((values - values.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
            squares += step**2 * (count * batch / (count + batch))
            mean += step * (batch / (count + batch))
            at = (count + np.arange(batch)) % GROUPS
            np.add.at(groups, at, values.transpose(2, 0, 1))
            np.add.at(readings, at, means.T)
            count += batch
            if progress is not None:
                progress(min(1.0, count / goal))
        error = np.sqrt(squares / (count * (count - 1.0)))
        allowed = plan.accuracy * float(mean[plan.wanted].mean())
        worst = float(error[plan.wanted].max())
        if worst <= allowed:
            break
        if count >= MOST_REPLICATIONS:
            warnings.warn(
                f"after {count} replications the largest standard error of a distortion is {worst:.3g}, above "
                f"{allowed:.3g}, which accuracy = {plan.accuracy:g} asks for; the error is reported as it is",
                UnderstudyWarning,
                stacklevel=4,
            )
            break
        needed = 1.1 * count * (worst / allowed) ** 2 if allowed > 0.0 else math.inf
        goal = int(min(MOST_REPLICATIONS, 4 * count, math.ceil(needed / GROUPS) * GROUPS))
    size = count / GROUPS
    return Simulated(mean, error, groups / size, readings / size, count)


def _batch(plan: Plan) -> int:
    """Replications at a time: a power of two, so that the groups fill evenly."""
    readings = plan.horizon * plan.measure.dim * (len(plan.targets) + 2)
    return 1 << int(np.clip(math.log2(max(1.0, _MEMORY / readings)), 0, math.log2(_LARGEST_BATCH)))


def _replications(plan: Plan, rng: np.random.Generator, batch: int) -> tuple[Array, Array]:
    """Distortions (sources, targets, batch) and mean readings (sources, batch) of fresh scores."""
    z = rng.standard_normal((plan.horizon, plan.measure.dim, batch))
    done: dict[int, Array] = {}

    def coloured(model: Model) -> Array:
        if id(model) not in done:
            done[id(model)] = colour_all(z, model)
        return done[id(model)]

    targets = {int(j): coloured(plan.targets[j]) for j in np.flatnonzero(plan.wanted.any(axis=0))}
    values = np.zeros((*plan.wanted.shape, batch))
    means = np.zeros((plan.wanted.shape[0], batch))
    kept = set(done)
    for i in np.flatnonzero(plan.wanted.any(axis=1)):
        Y = coloured(plan.sources[i])
        means[i] = Y.mean(axis=(0, 1))
        for j in np.flatnonzero(plan.wanted[i]):
            values[i, j] = _mean_distortion(plan.measure, Y, targets[int(j)])
        for key in set(done) - kept:
            del done[key]
    return values, means


def _mean_distortion(measure: Measure, Y: Array, Y_out: Array) -> Array:
    """The mean over time of d(y, ~y), for sequences (T, d, N)."""
    T, d, N = Y.shape
    rows, rows_out = (part.transpose(1, 0, 2).reshape(d, T * N) for part in (Y, Y_out))
    return np.asarray(measure.of(rows, rows_out).reshape(T, N).mean(axis=0))


def colour_all(z: Array, model: Model) -> Array:
    """Scores (T, d, N) to readings; a law of noise is asked for all of them at once."""
    parts = innovations(model) if gauss_markov(model) is None else None
    if parts is None:
        return colour(z, model)
    recursion, law = parts
    T, d, N = z.shape
    flat: Any = z.transpose(1, 0, 2).reshape(d, T * N)
    e = np.reshape(law.value(flat[0] if d == 1 else flat), (d, T, N)).transpose(1, 0, 2)
    return np.ascontiguousarray(e) if recursion is None else colour(e, recursion)
