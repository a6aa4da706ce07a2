"""Log-densities of outputs under every model at once, reading by reading: (n, T, N) for n models and N sequences.

What an adversary makes of an output begins with p_j(~y_k given ~y_1 .. ~y_k-1), for each pseudo model j. Where
the past that counts is what was observed (independent readings, autoregressions, either of them on a grid), this is the
law under any path of pseudo values, and all readings are done at once. Where a state is hidden (Gauss-Markov,
hidden Markov, rounded sensors) it is the law under a constant value; for a pseudo value that moves, a bank of filters
that are mixed whenever it may have moved (interacting multiple models): close, not exact.

A missing reading tells nothing: its log-density is 0. So is that of a reading after a gap where a model has no law.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.adversaries.learners.filters import gaussian_logs, hidden_logs
from understudy.errors import UnderstudyError
from understudy.laws.base import Array, Law
from understudy.laws.rounded import Rounded
from understudy.laws.rounding import Rounding
from understudy.models.autoregressive import AutoRegressive
from understudy.models.base import Model
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.general import General
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.iid import IID
from understudy.models.markov import Markov
from understudy.models.on_grid import OnGrid
from understudy.models.quantised import Quantised
from understudy.transform.maps import gauss_markov
from understudy.transform.pair import Pair, white
from understudy.transform.scores import loglik

LEAST = -2000.0
"""Log-density of a reading that is impossible."""

ASKED = 400_000
"""Readings, for all models together, that a model may be asked for one by one."""

_NUMBERS = 4_000_000  # worked on at a time


def refusal(models: Sequence[Model], readings: int, moving: bool) -> str:
    """Why log-densities cannot be had for these models and so many readings; nothing if they can.

    >>> import understudy as us
    >>> refusal([us.IID(us.Gaussian(0.0, 1.0))], 10**7, moving=True)
    ''
    >>> refusal([us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(y, 1.0))], 10**7, moving=False)
    'models of type Markov are asked for one reading after the other, and 10000000 are too many'
    """
    if _kind(models):
        return ""
    name = type(models[0]).__name__
    if moving and any(type(model) not in (Markov, General) for model in models):
        return f"models of type {name} have no filter for a value that moves"
    if readings * len(models) > ASKED:
        return f"models of type {name} are asked for one reading after the other, and {readings} are too many"
    return ""


def step_logs(models: Sequence[Model], Y: Array, mixing: Array | None = None, every: int = 1) -> Array:
    """Log-densities (n, T, N) of outputs (T, d, N), each reading given those before it.

    `mixing` (n, n) holds the odds of going from one model to another, at every so many-th reading; without it each
    model is constant.

    >>> import understudy as us
    >>> models = [us.AutoRegressive(0.5, noise=us.Gaussian(v, 1.0), past=[0.0]) for v in (0.0, 1.0)]
    >>> step_logs(models, np.array([[[0.0]], [[1.0]]])).round(3)[:, :, 0].tolist()
    [[-0.919, -1.419], [-1.419, -0.919]]
    """
    Y = np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, np.asarray(Y, dtype=float))
    T, _, N = Y.shape
    kind = _kind(models)
    if kind == "observed" and mixing is None and np.isnan(Y).any() and all(gauss_markov(m) for m in models):
        kind = "gaussian"  # exact across a gap, if the value is constant
    result = np.empty((len(models), T, N))
    size = max(1, _NUMBERS // max(T * len(models), 1))
    for first in range(0, N, size):
        part = Y[:, :, first : first + size]
        if kind == "observed":
            found = np.stack([_observed(model, part) for model in models])
        elif kind == "gaussian":
            found = gaussian_logs([_linear(m) for m in models], part, mixing, every, grid=_grid(models[0]))
        elif kind == "hidden":
            found = hidden_logs(models, part, mixing, every, _asked)  # type: ignore[arg-type]  # hidden Markov, by kind
        else:
            found = np.stack([_one_by_one(model, part) for model in models])
        result[:, :, first : first + size] = found
    there = ~np.isnan(Y[:, 0])
    return np.where(
        there & np.isfinite(result), np.maximum(result, LEAST), np.where(there & ~np.isnan(result), LEAST, 0.0)
    )


def sequence_logs(models: Sequence[Model], Y: Array) -> Array:
    """Log-likelihoods (n, N) of whole sequences (T, d, N), each model constant."""
    T, d, N = Y.shape
    linear = [gauss_markov(model) for model in models]
    tables = [None if m is None else Pair(m, white(d)).source.gains for m in linear]
    if all(table is not None and table.frozen for table in tables) and np.isfinite(Y).all():
        return np.stack([loglik(Y, model) for model in models])  # many sequences at once, compiled
    result = np.empty((len(models), N))
    size = max(1, _NUMBERS // max(T * len(models), 1))
    for first in range(0, N, size):
        result[:, first : first + size] = step_logs(models, Y[:, :, first : first + size]).sum(axis=1)
    return result


def _kind(models: Sequence[Model]) -> str:
    """How log-densities are found: the same way for all models, or "" where they must be asked for one by one."""
    if all(_inside(m) is not None for m in models):
        return "observed"
    linear = [_linear(m) for m in models]
    if all(m is not None for m in linear) and len({(m.states, m.dim) for m in linear if m is not None}) == 1:
        return "gaussian"
    # all are hidden Markov models by then, which mypy does not see
    if all(type(m) is HiddenMarkov for m in models) and len({m.states for m in models}) == 1:  # type: ignore[attr-defined]
        return "hidden"
    return ""


def _inside(model: Any) -> tuple[AutoRegressive | None, Law, Rounding | None] | None:
    """Recursion, noise and grid of a model whose past is what was observed; None for others."""
    if type(model) is OnGrid:
        parts = _inside(model.model)
        return None if parts is None else (parts[0], parts[1], model.grid)
    if type(model) is AutoRegressive:
        return model, model.noise, None
    return (None, model.law, None) if type(model) is IID else None


def _linear(model: Any) -> GaussMarkov | None:
    """The Gauss-Markov model of unrounded readings, where there is one."""
    if type(model) is Quantised:
        return model.linear
    return gauss_markov(model.model if type(model) is OnGrid else model)


def _grid(model: Any) -> tuple[Rounding, bool] | None:
    """The grid, and whether the process goes on from what was reported (or from what was there before rounding)."""
    return (model.grid, type(model) is OnGrid) if type(model) in (Quantised, OnGrid) else None


def _observed(model: Model, Y: Array) -> Array:
    recursion, noise, grid = _inside(model)  # type: ignore[misc]  # its kind says so
    T, d, N = Y.shape
    if grid is not None:
        Y = np.stack([channel.rounded(Y[:, c]) for c, channel in enumerate(grid.channels)], axis=1)
    mean = np.zeros(Y.shape)
    if recursion is not None:
        p = recursion.order
        past = np.repeat(recursion.past[::-1, :, None], N, axis=2)  # stored the latest first
        padded = np.concatenate([past, Y])
        mean += recursion.intercept[:, None]
        for lag in range(1, p + 1):
            # yhat_k = intercept + sum_i Phi_i y_{k-i}
            Phi, before = recursion.coefficients[lag - 1], padded[p - lag : p - lag + T]
            mean += Phi.item() * before if d == 1 else np.einsum("ij,tjn->tin", Phi, before)
    there = ~np.isnan(Y).any(axis=1) & ~np.isnan(mean).any(axis=1)
    y, at = (np.moveaxis(x, 1, 0)[:, there] for x in (Y, mean))  # (d, count)
    result = np.full((T, N), np.nan)
    if y.size:
        if grid is not None:
            law = Rounded(noise, grid, at[0] if d == 1 else at)
            result[there] = _asked(law, y[0] if d == 1 else y)
        else:
            result[there] = _asked(noise, y[0] - at[0] if d == 1 else y - at)
    return result


def _asked(law: Any, y: Array) -> Array:
    """Log-densities of many readings, (count,) or (d, count); minus infinity for those that a law refuses."""
    try:
        return np.asarray(law.logpdf(y), dtype=float)
    except UnderstudyError:
        if type(law) is Rounded:
            raise
        return np.array([_refused(law, row) for row in (y.tolist() if y.ndim == 1 else y.T)])


def _refused(law: Any, y: Any) -> float:
    try:
        return float(law.logpdf(y))
    except UnderstudyError:
        return -np.inf


def _one_by_one(model: Any, Y: Array) -> Array:
    """By the four methods; a model that has no law across a gap begins anew after it, without evidence for a while."""
    T, d, N = Y.shape
    result = np.full((T, N), np.nan)
    for s in range(N):
        state = model.start()
        for k in range(T):
            y = float(Y[k, 0, s]) if d == 1 else np.ascontiguousarray(Y[k, :, s])
            try:
                if np.isnan(y).any():
                    state = model.skip(state)
                    continue
                result[k, s] = _refused(model.predict(state), y)
                state = model.update(state, y)
            except UnderstudyError:
                state = model.start()
    return result
