"""Monte Carlo of mean squared distortion, for every pair of a family at once.

Two ways, both with understudy's own compiled transformations on many sequences at a time. The first is the plain one
and serves any distortion: readings of each source, disguised as each target. The second uses that a disguise depends
on the scores alone: the same scores for all models, each model coloured once, all pairs by one matrix product; it
serves squared error only, and is the quickest way found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import understudy as us

Array = NDArray[np.float64]


def each_pair(models: Sequence[Any], T: int, N: int, sources: Sequence[int], rng: np.random.Generator) -> Array:
    """Mean over T of (Y - ~Y)^2 from N sequences of each of `sources`, sampled once and disguised as every model."""
    out = np.empty((len(sources), len(models)))
    for row, i in enumerate(sources):
        Y = us.sample(models[i], T, n=N, rng=rng)
        for j, target in enumerate(models):
            apart = us.disguise(Y, source=models[i], target=target)
            apart -= Y
            out[row, j] = np.vdot(apart, apart) / apart.size
    return out


def _coloured(models: Sequence[Any], T: int, N: int, rng: np.random.Generator) -> Array:
    """Readings (model, time x sequence) of all models from the same scores, less the first model's."""
    z = rng.standard_normal((T, 1, N))
    readings = np.empty((len(models), T * N))
    for i, model in enumerate(models):
        readings[i] = us.colour(z, model).ravel()
    readings -= readings[0].copy()  # differences are all that counts, and cancel less so
    return readings


def _pairs(products: Array) -> Array:
    """|a - b|^2 = |a|^2 + |b|^2 - 2 a.b, in the last two axes."""
    squares = np.diagonal(products, axis1=-2, axis2=-1)
    return squares[..., :, None] + squares[..., None, :] - 2 * products


def shared_scores(models: Sequence[Any], T: int, N: int, rng: np.random.Generator) -> Array:
    """The whole matrix from N sequences of scores, 32 at a time (the quickest of 2 to 64)."""
    total = np.zeros((len(models), len(models)))
    block = 32
    for start in range(0, N, block):
        readings = _coloured(models, T, min(block, N - start), rng)
        total += readings @ readings.T
    return _pairs(total) / (T * N)


def spread(models: Sequence[Any], T: int, N: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Mean and standard deviation, over N sequences, of one sequence's distortion, for every pair."""
    readings = _coloured(models, T, N, rng).reshape(len(models), T, N).transpose(2, 0, 1)
    each = _pairs(readings @ readings.transpose(0, 2, 1)) / T
    return each.mean(axis=0), each.std(axis=0, ddof=1)
