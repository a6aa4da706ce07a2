"""Adversaries who know the design: Bayes' rule through the models and the randomizer.

`Exact` is for a constant theta. By Bayes' rule Pr(theta_i given ~y) is proportional to p_i sum_j P_ij p_j(~y), with the
likelihood of the whole output under every pseudo model. If the models are right, nobody who sees the output does
better. On raw readings P is the identity. `Oracle` sees the pseudo values: a reference, for that is what the guarantee
grants.

`Smoother` is for a theta that moves. The output tells which pseudo value was played when, and that tells of theta,
through the kernel of the randomizer and the way theta moves. A randomizer with memory draws by the belief that its past
draws have left: a *place* that everybody could tell who saw the draws. So the hidden state is theta and the place, and
forward and backward over both is exact, as far as the log-densities are and as far as the places are few. On real data
the models are never quite right: how much a reading may say (a cap), and how much what it says is worth (a
temperature), is learned from training cases.

`Redraws` looks for draws that should not have been made, as after a restart or for every sensor. A window w has the
likelihoods L_w(j) of its readings under each pseudo value and speaks for theta_i by log sum_j P_ij L_w(j), as if it had
been drawn for alone. A logistic regression says which widths of windows are worth something.

All begin with log-densities p_j(~y_k given ~y_1 .. ~y_k-1) under every pseudo model j (`step_logs`). Where the past
that counts is what was observed (independent readings, autoregressions, either of them on a grid), this is the law
under any path of pseudo values, and all readings are done at once. Where a state is hidden, there is a bank of filters,
one for each model; for a pseudo value that moves their states are mixed whenever it may have moved (interacting
multiple models): exact for hidden Markov models, close for others. A missing reading tells nothing: its log-density is
0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from understudy._types import Array, Frozen, Ints, Mask, Numbers
from understudy.adversaries.knowledge import Attack, Cases, Knowledge, normalise
from understudy.adversaries.learners.calibration import (
    AlongChain,
    Chain,
    EvidenceAttack,
    Plan,
    chain_of,
    fit_scores,
    pieces_of,
    powers,
    settle,
    smoothed_logits,
)
from understudy.errors import UnderstudyError
from understudy.laws.atoms import Rounded, Rounding, Truncated, truncate
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.models.autoregressive import AutoRegressive
from understudy.models.gauss_markov import GaussMarkov, gauss_markov
from understudy.models.general import General
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.iid_markov import IID, Markov
from understudy.models.model import Model
from understudy.models.quantised import OnGrid, Quantised
from understudy.models.quantised_residual import innovation_sds
from understudy.randomizer.causal_guarantee import Beliefs, round_belief
from understudy.transform.core import loglik
from understudy.transform.kalman_pair import Pair, white

# The models that outputs follow --------------------------------------------------------------------------------------


def output_models(known: Knowledge) -> list[Model]:
    """One model for each pseudo value."""
    if known.noise is None or not np.any(known.noise):
        return known.targets
    variance = np.square(np.atleast_1d(np.asarray(known.noise, dtype=float)))
    return [add_variance(model, variance) for model in known.targets]


def add_variance(model: Model, variance: Array) -> Model:
    """The model of readings to which independent noise of this variance (d,) was added; as it is if none is known.

    >>> import understudy as us
    >>> wide = add_variance(us.AutoRegressive(0.5, noise=us.Gaussian(1.0, 3.0)), np.array([4.0]))
    >>> wide.R.item(), round(wide.Q.item(), 9), wide.b.item()
    (4.0, 3.0, 1.0)
    """
    extra = np.diag(variance)
    if isinstance(model, (OnGrid, Quantised)):
        steps = np.array([channel.step for channel in model.grid.channels])
        inside: Model = model.model if isinstance(model, OnGrid) else model.linear
        return add_variance(inside, variance + steps**2 / 12.0)
    if type(model) is IID:
        return IID(_normal_law(model.law, model.dim, extra))
    if type(model) is HiddenMarkov:
        return HiddenMarkov(model.transition, model.initial, [_normal_law(law, model.dim, extra) for law in model.laws])
    if type(model) is AutoRegressive and model.gauss_markov is None:
        model = AutoRegressive(
            model.coefficients, model.intercept, _normal_law(model.noise, model.dim, 0.0 * extra), model.past,
            allow_unstable=True,
        )  # fmt: skip
    linear = gauss_markov(model)
    if linear is None:
        return model
    return with_noise(linear, variance)


def _normal_law(law: Law, dim: int, extra: Array) -> Gaussian:
    """The normal law with the centre and the spread of another, and more variance."""
    if isinstance(law, Gaussian):
        mean, cov = law.arguments
        return Gaussian(mean, np.asarray(cov) + (extra.item() if dim == 1 and np.ndim(cov) == 0 else extra))
    if dim == 1:
        low, middle, high = (float(law.value(z)) for z in (-1.0, 0.0, 1.0))
        return Gaussian(middle, (0.5 * (high - low)) ** 2 + extra.item())
    centre = np.asarray(law.value(np.zeros(dim)), dtype=float)
    # columns of a factor: how far each score moves the reading
    ends = [[np.asarray(law.value(s * np.eye(dim)[c]), dtype=float) for s in (-1.0, 1.0)] for c in range(dim)]
    L = np.stack([0.5 * (high - low) for low, high in ends], axis=1)
    return Gaussian(centre, L @ L.T + extra)


# Banks of filters ----------------------------------------------------------------------------------------------------


_LOG_2PI = math.log(2.0 * math.pi)
_FINE = 0.1  # innovation standard deviations that a step may be for its cell not to matter


def gaussian_logs(
    models: Sequence[GaussMarkov], Y: Array, mixing: Array | None, every: int, grid: tuple[Rounding, bool] | None = None
) -> Array:
    """Log-densities (n, T, N) of readings (T, d, N) under Gauss-Markov models of one size.

    `grid` holds the grid of readings that are rounded, and whether the process goes on from them. Then one channel is
    judged by the probabilities of its cells, and if it does not go on from them, the state takes in what the cell says
    of the reading, by its mean and variance. With several channels, and where steps are fine, the readings' noise has
    step^2/12 more variance instead.
    """
    T, d, N = Y.shape
    if grid is not None and _fine(models, grid[0]):
        extra = np.zeros(d) if grid[1] else np.array([channel.step**2 / 12.0 for channel in grid[0].channels])
        logs = gaussian_logs([with_noise(m, extra) for m in models], Y, mixing, every)
        return logs + sum(math.log(channel.step) for channel in grid[0].channels)
    extra = np.zeros((d, d))
    if grid is not None:
        rounding, on = grid
        Y = np.stack([channel.round(Y[:, c]) for c, channel in enumerate(rounding.channels)], axis=1)
        extra = np.diag([0.0 if on or d == 1 else channel.step**2 / 12.0 for channel in rounding.channels])
    matched = grid is not None and d == 1 and not grid[1]
    bank = FilterBank(models, N, shared=mixing is None and not matched and not np.isnan(Y).any())
    result = np.zeros((len(models), T, N))
    for k in range(T):
        if mixing is not None and k > 0 and k % every == 0:
            bank.mix(mixing)
        gone = np.isnan(Y[k]).any(axis=0)
        mean, S = bank.predict(k + 1)
        e, spread = np.where(gone, 0.0, Y[k]).T - mean, None  # (n, N, d)
        if grid is not None and d == 1:
            sd = np.sqrt(S[..., 0, 0])
            cell = _cell(rounding, Y[k, 0], mean[:, :, 0], sd, gone)
            logs = np.asarray(cell.log_probability)
            if matched:
                e, spread = (sd * cell.mean)[..., None], np.asarray(cell.variance)
        else:
            logs = _normal(e, S + extra)
        result[:, k] = np.where(gone, 0.0, logs)
        bank.update(e, S + extra, gone, result[:, k], spread)
    return result


def _fine(models: Sequence[GaussMarkov], grid: Rounding) -> bool:
    """Whether all steps are so small that the probability of a cell is its width times the density at its middle."""
    if not grid.everywhere or not all(m.constant for m in models):
        return False
    ends = any(math.isfinite(end) for channel in grid.channels for end in (channel.low, channel.high))
    steps = np.array([channel.step for channel in grid.channels])
    return not ends and all(bool((steps <= _FINE * innovation_sds(m)).all()) for m in models)


def with_noise(model: GaussMarkov, variance: Array) -> GaussMarkov:
    """The model with more noise, of variance (d,), in its readings."""
    extra = np.diag(variance)
    R = model.R + extra if model.constant else (lambda k: model.at(k).R + extra)
    return GaussMarkov(**{**model.arguments, "R": R, "allow_unstable": True})


def _normal(e: Array, S: Array) -> Array:
    d = e.shape[-1]
    if d == 1:
        s = S[..., 0, 0]
        return np.asarray(-0.5 * (np.square(e[..., 0]) / s + np.log(s) + _LOG_2PI))
    L = np.linalg.cholesky(S)
    z = np.linalg.solve(np.broadcast_to(L, (*e.shape, d)), e[..., None])[..., 0]
    return np.asarray(
        -0.5 * (np.square(z).sum(axis=-1) + d * _LOG_2PI) - np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(-1)
    )


def _cell(grid: Rounding, y: Array, mean: Array, sd: Array, gone: Mask) -> Truncated:
    """Standard scores of normal laws (n, N), given that they lie in the cells of readings (N,)."""
    cell = grid.channels[0].cells(np.where(gone, grid.channels[0].round(mean[0]), y), 0)
    low, high = ((end - mean) / sd for end in (cell.lower, cell.upper))
    return truncate(low, high, np.broadcast_to(cell.half / sd, low.shape))


class FilterBank:
    """Means (n, N, s) and covariances (n, N or 1, s, s) of the states of n models."""

    def __init__(self, models: Sequence[GaussMarkov], N: int, shared: bool) -> None:
        self.models, n, s = models, len(models), models[0].states
        self.x = np.repeat(np.stack([m.mean0 for m in models])[:, None], N, axis=1)
        self.P: Array = np.repeat(np.stack([m.cov0 for m in models])[:, None], 1 if shared else N, axis=1)
        self.odds = np.full((n, N), -math.log(n))
        self._constant = self._systems(1) if all(m.constant for m in models) else None
        self._R: Array = np.zeros((n, 1, models[0].dim, models[0].dim))
        self._C: Array = np.zeros((n, 1, models[0].dim, s))

    def _systems(self, k: int) -> list[Array]:
        return [np.stack(parts)[:, None] for parts in zip(*(m.at(k) for m in self.models), strict=True)]

    def mix(self, mixing: Array) -> None:
        """States as they are where the value may have moved."""
        with np.errstate(divide="ignore"):
            joint = np.log(mixing)[:, :, None] + self.odds[:, None, :]  # (from, to, N)
        odds = np.logaddexp.reduce(joint, axis=0)
        w = np.exp(joint - odds)
        x = np.einsum("ijN,iNs->jNs", w, self.x)
        apart = self.x[:, None] - x[None]  # (from, to, N, s)
        spread = self.P[:, None] + apart[..., :, None] * apart[..., None, :]
        self.P = np.asarray((w[..., None, None] * spread).sum(axis=0))
        self.x, self.odds = x, odds

    def predict(self, k: int) -> tuple[Array, Array]:
        """Mean (n, N, d) and covariance (n, N or 1, d, d) of reading k."""
        A, b, Q, C, d, R = self._constant or self._systems(k)
        # xhat_{k|k-1} = A xhat_{k-1|k-1} + b, Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q, S = C Sigma C' + R
        self.x = self.x @ np.swapaxes(A[:, 0], 1, 2) + b
        self.P = A @ self.P @ np.swapaxes(A, 2, 3) + Q
        self._C, self._R = C, R
        return self.x @ np.swapaxes(C[:, 0], 1, 2) + d, C @ self.P @ np.swapaxes(C, 2, 3) + R

    def update(self, e: Array, S: Array, gone: Mask, logs: Array, spread: Array | None = None) -> None:
        """Take in readings, given as distances from the means; S is their covariance as the filter sees it.

        `spread` (n, N) is what remains of the variance of a reading of which only the cell is known.
        """
        across = self._C @ self.P  # (n, N, d, s)
        # K = Sigma C' S^-1
        K = np.swapaxes(across / S if S.shape[-1] == 1 else np.linalg.solve(S, across), 2, 3)
        x = self.x + (K @ e[..., None])[..., 0]
        P = self.P - (K @ across if spread is None else (1.0 - spread)[..., None, None] * (K @ across))
        P = 0.5 * (P + np.swapaxes(P, 2, 3))
        if gone.any():
            x = np.where(gone[None, :, None], self.x, x)
            P = np.where(gone[None, :, None, None], self.P, P)
        self.x, self.P = x, P
        odds = self.odds + logs
        self.odds = odds - np.logaddexp.reduce(odds, axis=0)


def hidden_logs(
    models: Sequence[HiddenMarkov], Y: Array, mixing: Array | None, every: int, asked: Callable[[Law, Array], Array]
) -> Array:
    """The same under hidden Markov models with as many hidden states; `asked` gives log-densities of a law."""
    T, d, N = Y.shape
    n, S = len(models), models[0].states
    there = np.asarray(~np.isnan(Y).any(axis=1))
    rows = np.moveaxis(Y, 1, 0)[:, there]
    emissions = np.zeros((n, S, T, N))
    for j, model in enumerate(models):
        for s, law in enumerate(model.emissions):
            emissions[j, s][there] = asked(law, rows[0] if d == 1 else rows) if rows.size else 0.0
    A = np.stack([m.transition for m in models])
    pi = np.repeat(np.stack([m.initial for m in models])[:, :, None], N, axis=2)  # (n, S, N), before the next reading
    odds, result = np.full((n, N), -math.log(n)), np.zeros((n, T, N))
    for k in range(T):
        if k > 0:
            if mixing is not None and k % every == 0:
                joint = mixing[:, :, None] * np.exp(odds)[:, None, :]
                total = np.maximum(joint.sum(axis=0), 1e-300)
                pi, odds = np.einsum("ijN,isN->jsN", joint / total, pi), np.log(total)
            pi = np.einsum("jsN,jst->jtN", pi, A)
        logs = emissions[:, :, k]
        top = logs.max(axis=1)
        top = np.where(np.isfinite(top), top, 0.0)
        p = pi * np.exp(logs - top[:, None])
        total = p.sum(axis=1)
        with np.errstate(divide="ignore"):
            found = np.log(total) + top
        result[:, k] = np.where(there[k], found, 0.0)
        pi = np.where(total[:, None] > 0.0, p / np.where(total > 0.0, total, 1.0)[:, None], pi)
        odds = odds + np.maximum(result[:, k], -2000.0)
        odds = odds - np.logaddexp.reduce(odds, axis=0)
    return result


# Log-densities of outputs under every model --------------------------------------------------------------------------


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
            found = np.stack([_observe(model, part) for model in models])
        elif kind == "gaussian":
            found = gaussian_logs(
                [linear for m in models if (linear := _linear(m)) is not None],
                part,
                mixing,
                every,
                grid=_grid(models[0]),
            )
        elif kind == "hidden":
            found = hidden_logs(models, part, mixing, every, _log_densities)  # type: ignore[arg-type]  # hidden Markov, by kind
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
    hidden = [m for m in models if type(m) is HiddenMarkov]
    if len(hidden) == len(models) and len({m.states for m in hidden}) == 1:
        return "hidden"
    return ""


def _inside(model: Model) -> tuple[AutoRegressive | None, Law, Rounding | None] | None:
    """Recursion, noise and grid of a model whose past is what was observed; None for others."""
    if type(model) is OnGrid:
        parts = _inside(model.model)
        return None if parts is None else (parts[0], parts[1], model.grid)
    if type(model) is AutoRegressive:
        return model, model.noise, None
    return (None, model.law, None) if type(model) is IID else None


def _linear(model: Model) -> GaussMarkov | None:
    """The Gauss-Markov model of unrounded readings, where there is one."""
    if type(model) is Quantised:
        return model.linear
    return gauss_markov(model.model if type(model) is OnGrid else model)


def _grid(model: Model) -> tuple[Rounding, bool] | None:
    """The grid, and whether the process goes on from what was reported (or from what was there before rounding)."""
    return (model.grid, isinstance(model, OnGrid)) if isinstance(model, (Quantised, OnGrid)) else None


def _observe(model: Model, Y: Array) -> Array:
    recursion, noise, grid = _inside(model)  # type: ignore[misc]  # its kind says so
    T, d, N = Y.shape
    if grid is not None:
        Y = np.stack([channel.round(Y[:, c]) for c, channel in enumerate(grid.channels)], axis=1)
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
            result[there] = _log_densities(law, y[0] if d == 1 else y)
        else:
            result[there] = _log_densities(noise, y[0] - at[0] if d == 1 else y - at)
    return result


def _log_densities(law: Law, y: Array) -> Array:
    """Log-densities of many readings, (count,) or (d, count); minus infinity for those that a law refuses."""
    try:
        return np.asarray(law.logpdf(y), dtype=float)
    except UnderstudyError:
        if type(law) is Rounded:
            raise
        return np.array([_log_density(law, row) for row in (y.tolist() if y.ndim == 1 else y.T)])


def _log_density(law: Law, y: Numbers) -> float:
    try:
        return float(law.logpdf(y))
    except UnderstudyError:
        return -np.inf


def _one_by_one(model: Model, Y: Array) -> Array:
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
                result[k, s] = _log_density(model.predict(state), y)
                state = model.update(state, y)
            except UnderstudyError:
                state = model.start()
    return result


# A constant theta, and the oracle ------------------------------------------------------------------------------------


_CHECKED = 4000  # training sequences that may show a model to be wrong
_CLEARLY = 5.0  # nats by which they must speak against a model that is known to be right


class Exact(Frozen):
    """Bayes' rule through the randomizer, for a theta that is constant.

    The likelihoods count as they are, unless training cases clearly show that the models are not right; then a
    temperature takes off what is too much.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> known = Knowledge(family, (0, 1), np.array([[0.9, 0.1], [0.1, 0.9]]), family.prior, None, None, None, None)
    >>> one = np.zeros((1, 2), dtype=int)
    >>> cases = Cases(np.array([[[9.0, 0.5]]]), one, one, m=2, once=True)
    >>> np.exp(Exact().learn(cases, known, np.random.default_rng(1)).logits(cases)).round(3).tolist()
    [[0.1, 0.5], [0.9, 0.5]]
    """

    __slots__ = ()

    name = "exact Bayes"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """Theta must be constant, and the models quick enough."""
        if not cases.once:
            return "theta moves; the smoother is the one for that"
        return refusal(output_models(known), cases.T * cases.N, moving=False)

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """There is nothing to learn but a temperature."""
        few = cases.sequences(slice(0, _CHECKED))
        reader = SequenceLikelihoods(tuple(output_models(known)))
        rule = ThroughKernel(known.prior, known.kernel)
        found = settle(reader.evidence(few), few, [rule], _CLEARLY / max(few.guesses, 1))
        return found.attack(reader, cases, rng)


class SequenceLikelihoods(NamedTuple):
    """Log-likelihoods (n, N) of whole sequences under each model."""

    models: tuple[Model, ...]

    def evidence(self, cases: Cases) -> Array:
        """One model for all readings of a sequence."""
        return sequence_logs(self.models, cases.outputs)


class ThroughKernel(NamedTuple):
    """Bayes' rule for one draw: Pr(theta_i given ~y) is proportional to p_i sum_j P_ij p_j(~y)."""

    prior: Array
    kernel: Array

    def posterior(self, evidence: Array, cases: Cases, temperature: float | Array) -> Array:
        """Log-probabilities (m, N) from log-likelihoods (n, N)."""
        scaled = temperature * evidence
        weights = (self.prior[:, None] * self.kernel) @ np.exp(scaled - scaled.max(axis=0))
        with np.errstate(divide="ignore"):
            return normalise(np.log(weights))


class Oracle(Frozen):
    """Sees the pseudo values: what the guarantee bounds, by enumeration."""

    __slots__ = ()

    name = "sees the pseudo values"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """It needs pseudo values."""
        return "" if cases.pseudo is not None else "the pseudo values are not known here"

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> EvidenceAttack:
        """How theta moves, if it does."""
        every = known.decision_every or cases.T
        chain = None if cases.once else chain_of(cases, known, every)
        return EvidenceAttack(DrawLikelihoods(known, every), AlongChain(known.prior, chain, every))


class DrawLikelihoods(NamedTuple):
    """Log-probabilities of the draws given theta, at the first reading of each decision."""

    known: Knowledge
    every: int

    def evidence(self, cases: Cases) -> Array:
        """(m, T, N), or (m, N) where theta is constant in a sequence; 0 where a draw is not known."""
        m, T, N = cases.m, cases.T, cases.N
        if cases.pseudo is None:
            return np.zeros((m, *cases.truth.shape))
        draws = cases.pseudo[:1] if cases.once else cases.pseudo[:: self.every]
        likelihoods = np.stack([draw_likelihoods(self.known, draws[:, s], m) for s in range(N)], axis=2)  # (K, m, N)
        logs = np.log(np.maximum(likelihoods, 1e-90))
        if cases.once:
            return np.asarray(logs[0])
        evidence = np.zeros((m, T, N))
        evidence[:, :: self.every] = logs.transpose(1, 0, 2)
        return evidence


def draw_likelihoods(known: Knowledge, draws: Ints, m: int) -> Array:
    """Pr(draw k given theta_i and the draws before), (K, m), for one path of pseudo values; ones where unknown."""
    beliefs = known.beliefs
    found = np.ones((len(draws), m))
    if known.raw or beliefs is None:
        there = draws >= 0
        found[there] = known.kernel[:, draws[there]].T
        return found
    state = beliefs.start()
    for k, j in enumerate(draws.tolist()):
        if j < 0:
            state = beliefs.after(state, None, None)
            continue
        kernel = beliefs.kernel(state.belief)
        found[k] = kernel[:, j]
        possible = float(np.asarray(state.belief) @ kernel[:, j]) > 0.0
        state = beliefs.after(state, kernel if possible else None, j)
    return found


# A theta that moves --------------------------------------------------------------------------------------------------


_PLACES = 256
_CAPS = (np.inf, 6.0, 2.0)
_WORTH = 0.002  # nats a reading that must be gained before a model is taken for wrong


class Smoother(Frozen):
    """Forward and backward over theta and the randomizer's memory.

    >>> import understudy as us
    >>> from understudy.randomizer.causal_guarantee import play
    >>> stay = np.array([[0.95, 0.05], [0.05, 0.95]])
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 0.25)), values=[0, 1])
    >>> design = us.design_causal(family, stay, slope=2.0, distortion=[[0, 1], [1, 0]])
    >>> kernel = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> known = Knowledge(family, (0, 1), kernel, family.prior, stay, 1, None, design)
    >>> played = play(design.beliefs, 300, 20, rng=1)
    >>> outputs = np.random.default_rng(2).normal(played.pseudo, 0.5)[:, None, :]
    >>> cases = Cases(outputs, played.theta, np.zeros((300, 20), dtype=int), 2, False)
    >>> attack = Smoother().learn(cases, known, np.random.default_rng(3))
    >>> bool((attack.logits(cases).argmax(axis=0) == played.theta).mean() > 0.87)
    True
    """

    __slots__ = ()

    name = "smoother that knows the design"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """Theta must move, and the models have filters."""
        if cases.once:
            return "theta is constant; exact Bayes is the one for that"
        return refusal(output_models(known), cases.T * cases.N, moving=True)

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """How theta moves, and what the evidence of a reading is worth: a temperature and a cap."""
        every = 1 if known.raw else known.decision_every or cases.T
        chain, plan = chain_of(cases, known, every), plan_of(known)
        reader = ReadingLikelihoods(tuple(output_models(known)), pseudo_moves(known, chain, every), every)
        pieces = pieces_of(cases, every)
        rules = [ThroughDraws(chain, plan, every, cap) for cap in _CAPS]
        return settle(reader.evidence(pieces), pieces, rules, _WORTH).attack(reader, cases, rng)


class ReadingLikelihoods(NamedTuple):
    """Log-densities (n, T, N) of readings under each model, with the moves of the pseudo value at each decision."""

    models: tuple[Model, ...]
    mixing: Array
    every: int

    def evidence(self, cases: Cases) -> Array:
        """Each reading given those before it."""
        return step_logs(self.models, cases.outputs, self.mixing, self.every)


class ThroughDraws(NamedTuple):
    """Forward and backward over theta and the draws that were made for it. No reading counts for more than the cap."""

    chain: Chain
    plan: Plan
    every: int
    cap: float = np.inf

    def posterior(self, evidence: Array, cases: Cases, temperature: float | Array) -> Array:
        """Log-probabilities (m, T, N) from log-densities (n, T, N)."""
        ahead = np.maximum(evidence - evidence.max(axis=0), -self.cap)
        return smoothed_logits(temperature * ahead, self.plan, self.chain, cases, self.every)


def plan_of(known: Knowledge) -> Plan:
    """How draws depend on theta: the places of a randomizer with memory, or one kernel.

    >>> import understudy as us
    >>> stay = np.array([[0.95, 0.05], [0.05, 0.95]])
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> design = us.design_causal(family, stay, slope=2.0, distortion=[[0, 1], [1, 0]])
    >>> plan_of(Knowledge(family, (0, 1), np.eye(2), family.prior, stay, 1, None, design)).kernels.shape
    (3, 2, 2)
    """
    beliefs = known.beliefs
    if not known.raw and beliefs is not None:
        for grid in (2.0**20, 2.0**10, 2.0**6):
            plan = _places(beliefs, grid)
            if plan is not None:
                return plan
    n = known.kernel.shape[1]
    return Plan(known.kernel[None], np.zeros((1, n), dtype=np.int64), 0)


def _places(beliefs: Beliefs, grid: float) -> Plan | None:
    """All beliefs that draws can lead to, those that agree on the grid counted as one; None if they are too many."""
    first = beliefs.start()
    known = {(0, round_belief(first.belief, grid)): 0}
    waiting, kernels, after = [first], [], []
    for at, state in enumerate(waiting):  # which grows
        kernel = beliefs.kernel(state.belief)
        kernels.append(kernel)
        leads = np.full(kernel.shape[1], at, dtype=np.int64)
        for j in np.flatnonzero(np.asarray(state.belief) @ kernel > 0.0).tolist():
            then = beliefs.after(state, kernel, j)
            key = (then.k % beliefs.period, round_belief(then.belief, grid))
            if key not in known:
                if len(known) >= _PLACES:
                    return None
                known[key] = len(known)
                waiting.append(then._replace(k=then.k % beliefs.period))
            leads[j] = known[key]
        after.append(leads)
    return Plan(np.stack(kernels), np.stack(after), 0)


def pseudo_moves(known: Knowledge, chain: Chain, every: int) -> Array:
    """Odds (n, n) of going from one pseudo value to another at a decision, for a bank of filters: an approximation.

    Theta given the pseudo value, then where theta moves, then what is drawn for it.
    """
    P = np.maximum(known.kernel, 1e-6)
    P = P / P.sum(axis=1, keepdims=True)
    back = known.prior[:, None] * P
    back = back / back.sum(axis=0)
    moves = powers(chain, every)[every, -1]
    return np.asarray(back.T @ moves @ P)


# Draws that should not have been made --------------------------------------------------------------------------------


_FEWEST = 2  # readings of a window
_WIDTHS = (3, 9, 27, 81, 243, 729)
_LEARNED = 20_000  # sequences that are learned from
_CHUNK = 4_000_000
_MIXED = 3_000_000  # readings times models for which filters of hidden states are mixed, which takes its time
_SWITCH = 0.05  # odds that the value of a bank of filters has changed since the last reading


class Redraws(Frozen):
    """Windows of several widths, each with a draw of its own.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(4.0 * v, 1.0)), values=[0, 1])
    >>> kernel = np.array([[0.7, 0.3], [0.3, 0.7]])
    >>> known = Knowledge(family, (0, 1), kernel, family.prior, None, None, None, None)
    >>> rng = np.random.default_rng(1)
    >>> theta = rng.integers(2, size=800)
    >>> drawn = (rng.random((32, 800)) < kernel[theta, 1]).repeat(2, axis=0)         # 32 draws where one is allowed
    >>> labels = np.tile(theta, (64, 1))
    >>> cases = Cases(rng.normal(4.0 * drawn)[:, None], labels, np.tile(np.arange(800), (64, 1)), 2, once=True)
    >>> attack = Redraws().learn(cases.sequences(slice(0, 400)), known, rng)
    >>> bool((attack.logits(cases.sequences(slice(400, 800))).argmax(axis=0) == theta[400:]).mean() > 0.95)
    True
    """

    __slots__ = ()

    name = "a draw for each window"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """The models must be quick enough."""
        return refusal(output_models(known), cases.T * cases.N, moving=not cases.once)

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """What each width is worth."""
        models = tuple(output_models(known))
        few = cases.sequences(slice(0, max(1, min(_LEARNED, 40 * _CHUNK // (cases.T * len(models))))))
        mixed = cases.T * cases.N * len(models) <= _MIXED
        return fit_scores(WindowScores(models, known.kernel, mixed, cases.T), few, cases, rng)


class WindowScores(NamedTuple):
    """Pseudo models, kernel, and whether filters are mixed.

    `length` is that of the sequences that were learned from: it decides which windows there are, here and there.
    """

    models: tuple[Model, ...]
    kernel: Array
    mixed: bool
    length: int

    def scores(self, cases: Cases) -> Array:
        """Scores of all widths and values but the first: (F, N) or (F, T, N)."""
        n = len(self.models)
        mixing = (1.0 - _SWITCH) * np.eye(n) + _SWITCH * self.kernel.mean(axis=0) if self.mixed else None
        size = max(1, _CHUNK // max(cases.T * n, 1))
        parts = []
        for first in range(0, cases.N, size):
            logs = step_logs(self.models, cases.outputs[:, :, first : first + size], mixing)
            parts.append(self._windows(logs, cases.once))
        return np.concatenate(parts, axis=-1)

    def _windows(self, logs: Array, once: bool) -> Array:
        """What windows say: of a half, a quarter, .. of a sequence, summed over it, or around each reading."""
        n, T, N = logs.shape
        total = np.concatenate([np.zeros((n, 1, N)), np.cumsum(logs, axis=1)], axis=1)
        k, found = np.arange(T), []
        if not once:
            for width in (w for w in _WIDTHS if w == _WIDTHS[0] or w <= self.length):
                high, low = np.minimum(k + width // 2 + 1, T), np.maximum(k - width // 2, 0)
                found.append(self._spoken(total[:, high] - total[:, low]))
            return np.concatenate(found)
        count = 1
        while count == 1 or self.length // count >= _FEWEST:
            ends = np.linspace(0, T, count + 1).astype(np.int64)
            found.append(self._spoken(total[:, ends[1:]] - total[:, ends[:-1]]).sum(axis=1))
            count *= 2
        return np.concatenate(found)

    def _spoken(self, logs: Array) -> Array:
        """What windows say, log sum_j P_ij L(j), for each value beside the first: (m - 1, ..) from (n, ..)."""
        L = np.exp(logs - logs.max(axis=0))
        weights = np.log(np.tensordot(np.maximum(self.kernel, 1e-9), L, axes=1))
        return np.asarray(weights[1:] - weights[:1])
