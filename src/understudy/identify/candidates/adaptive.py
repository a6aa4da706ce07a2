"""The adaptive candidate: priors of Bayesian regressions from the training days (empirical Bayes).

For each value of the private parameter the increments are regressed on the regressors of `models.adaptive`, with
weights of Student's t with three degrees of freedom, so that single bad samples decide nothing. The coefficients are
the mean of the prior, and their information, scaled to that of `STRENGTH` readings, its precision. The variance of the
noise is the geometric mean of the squared residuals, brought to the scale of a normal law.

The histograms of the second stage come from scores that are cross-fitted: blocks of time are scored by a prior that was
fitted without them.

A value that the parameter takes in fewer than `FEWEST_BLOCKS` blocks of time is refused: its prior would rest on one or
two occasions, and what is peculiar to them would tell the value. A constant output, or a coin by epoch, needs no model.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from understudy import text
from understudy._types import Array, Index
from understudy.errors import ConfigurationError, ModelError
from understudy.identify.candidates import Candidate, Rows, cell_deviations, rows_of
from understudy.identify.candidates.autoregressive import fit_autoregression
from understudy.laws.scalar import Scalar
from understudy.models.adaptive import CELLS, EXPERTS, WINDOW, Adaptive, AdaptivePrior
from understudy.models.autoregressive import AutoRegressive
from understudy.models.gauss_markov import spectral_radius
from understudy.transform.adaptive import count_scores

if TYPE_CHECKING:
    from understudy.identify.history import History

NAME = "adaptive"
STRENGTH = 100.0
"""Readings that a prior of coefficients is worth."""
FEWEST_BLOCKS = 3
"""Blocks of time in which a value must occur."""
MINUTES = (15.0, 60.0)
"""Time constants of the two exponentials of the time since a change."""
READINGS = (3.0, 12.0)
"""The same in readings, where the period is not known."""
CALM = 0.99
"""Modulus of the roots that a target may have."""
BINS, FOLDS = 8, 3
_BASE = 8.0  # counts that each bin of the second stage has beforehand
_COARSE = 1e-3  # of the unit of increments: cells that are narrower are treated as points
_ROUNDS = 15
_GEOMETRIC = math.exp(0.5772156649015329 + math.log(2.0))  # E exp(-ln z^2) of a standard normal: e^gamma 2


def fit_adaptive(history: History, *, order: int = 2, second_stage: bool = True) -> Candidate:
    """Adaptive models of one channel, one for each value of the private parameter.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> theta = np.repeat([0, 1] * 4, 100)
    >>> family = us.Family({v: us.AutoRegressive(0.8, 2.0 * v, us.Gaussian(0.0, 1.0)) for v in (0, 1)})
    >>> y = us.sample(family.along(theta.tolist()), 800, rng=1)
    >>> history = History(("y",), "theta", None, (), (0, 1), None, (Segment("1", None, y[:, None], theta),), ())
    >>> fit_adaptive(history).models[1]
    Adaptive(value 1 of 2, experts=3, order=2)
    """
    if not isinstance(order, int) or isinstance(order, bool) or not 1 <= order <= WINDOW:
        raise ConfigurationError(f"order = {order!r}; an adaptive model has 1 to {WINDOW} increments for regressors")
    if history.dim != 1:
        raise ModelError(f"the history has {history.dim} channels; an adaptive model has one")
    prior = _prior(history, order)
    if second_stage:
        counts = np.full((len(history.values), CELLS, BINS), _BASE)
        for rest, held in history.blocks(FOLDS):
            try:
                blind = _prior(rest, order)
            except ModelError:
                continue  # a value that the rest hardly has
            for segment in held.segments:
                counts += (
                    count_scores(replace(blind, counts=np.full(counts.shape, _BASE)), segment.Y, segment.theta) - _BASE
                )
        prior = replace(prior, counts=counts)
    prior = replace(prior, targets=_targets(history, order + 1))
    models = {value: Adaptive(prior, i) for i, value in enumerate(history.values)}
    n = prior.mean.shape[1]
    parameters = {
        "values": list(history.values),
        "coefficients": prior.mean.tolist(),
        "deviation": (prior.unit * np.sqrt(prior.variance)).tolist(),
        "experts": [list(pair) for pair in EXPERTS],
        "share": prior.share,
    }
    return Candidate(
        NAME, models, parameters, len(history.values) * (n + 1), (text.fit_note("adaptive", order=order + 1),)
    )


def _targets(history: History, order: int) -> tuple[AutoRegressive, ...]:
    """For each value the fixed autoregression that is a target in its place, calm enough to be one.

    Its noise has four degrees of freedom at least, its roots are within `CALM`, and the level that it returns to is
    within one standard deviation of the mean of the readings of the value.
    """
    from scipy.stats import t

    rows, found = rows_of(history), fit_autoregression(history, order=order, student=True, by_class=True)
    made = []
    for i, model in enumerate(found.models.values()):
        if not isinstance(model, AutoRegressive):
            raise ModelError("the autoregression with Student-t noise has another kind of model")
        y = rows.Y[rows.used & (rows.theta == i), 0]
        shrink = min(1.0, CALM / spectral_radius(model.companion())) ** np.arange(1, order + 1)
        rest = float(model.intercept[0]) / (1.0 - float(model.coefficients.sum()))
        rest = min(max(rest, float(y.mean() - y.std())), float(y.mean() + y.std()))
        Phi = model.coefficients[:, 0, 0] * shrink
        nu, width = found.parameters["freedom"][i], found.parameters["scale"][i]
        noise = Scalar(t(max(nu, 4.0), loc=0.0, scale=width))
        made.append(AutoRegressive(Phi, rest * (1.0 - float(Phi.sum())), noise, np.full(order, rest)))
    return tuple(made)


class _Regressors(NamedTuple):
    """Regressors (N, n), increments (N,) and values (N,) of the readings that have all their predecessors."""

    X: Array
    d: Array
    theta: Index


def _prior(history: History, order: int) -> AdaptivePrior:
    rows = rows_of(history)
    _check_blocks(history, rows)
    period = history.period
    rates = tuple(
        math.exp(-(1.0 / t if period is None else period / (60.0 * m))) for t, m in zip(READINGS, MINUTES, strict=True)
    )
    y = rows.Y[rows.used, 0]
    centre, spread = float(y.mean()), float(y.std())
    found = _regressors(rows, order, rates)
    unit = float(np.sqrt(np.mean(np.square(found.d))))
    if not unit > 0.0:
        raise ModelError("consecutive readings never differ; there is no increment to learn from")
    X, r = found.X.copy(), found.d / unit
    X[:, 1] = (X[:, 1] - centre) / spread
    X[:, 2 : 3 + order] /= unit
    X[:, 1 : 3 + order] = np.clip(X[:, 1 : 3 + order], -8.0, 8.0)
    means, covs, variances = [], [], []
    for i, value in enumerate(history.values):
        mine = found.theta == i
        if mine.sum() < 10 * X.shape[1]:
            raise ModelError(
                f"the value {value!r} has {int(mine.sum())} readings with all their predecessors; an adaptive model "
                f"needs {10 * X.shape[1]}"
            )
        b, P, s = _regression(X[mine], r[mine])
        means.append(b)
        covs.append(P)
        variances.append(s)
    step = float(cell_deviations(rows)[0]) * math.sqrt(12.0)
    firsts = rows.Y[rows.starts, 0]
    start = float(np.nanmean(firsts)) if np.isfinite(firsts).any() else centre
    return AdaptivePrior(
        mean=np.array(means),
        cov=np.array(covs),
        variance=np.array(variances),
        centre=centre,
        spread=spread,
        unit=unit,
        rates=(rates[0], rates[1]),
        start=(start, spread),
        floor=(step / unit) ** 2 / 12.0,
        cell=step if step > _COARSE * unit else 0.0,
    )


def _check_blocks(history: History, rows: Rows) -> None:
    """Refuse values that occur in too few blocks of time."""
    changes = rows.opening.copy()
    changes[1:] |= rows.theta[1:] != rows.theta[:-1]
    counts = np.bincount(rows.theta[changes], minlength=len(history.values)).tolist()
    for value, count in zip(history.values, counts, strict=True):
        if count < FEWEST_BLOCKS:
            raise ModelError(
                f"the value {value!r} occurs in {text.with_count(count, 'block')} of time; an adaptive model needs "
                f"{FEWEST_BLOCKS}. A constant output, or a coin by epoch (us.design_coin), needs no model"
            )


def _regressors(rows: Rows, order: int, rates: tuple[float, ...]) -> _Regressors:
    """The regressors of `models.adaptive`, in the units of the readings, for all rows at once."""
    parts = []
    for piece in rows.pieces:
        y, theta, used = rows.Y[piece, 0], rows.theta[piece], rows.used[piece]
        at = np.arange(len(y))
        gap = np.maximum.accumulate(np.where(used, -1, at))  # the last missing row
        change = np.zeros(len(y), dtype=bool)
        change[1:] = theta[1:] != theta[:-1]
        last = np.maximum.accumulate(np.where(change, at, -1))
        run = at - gap - 1  # readings in a row before this one
        since = np.where(last > gap + 1, at - last, 10**6)
        good = np.flatnonzero(used & (run >= order + 1))
        steps = np.concatenate([[np.nan], np.diff(y)])
        lags = np.stack(
            [np.where(good - i > gap[good] + 1, steps[np.maximum(good - i, 0)], np.nan) for i in range(1, WINDOW + 1)],
            axis=1,
        )
        decays = [np.power(rate, since[good].astype(float)) for rate in rates]
        level = np.stack([np.ones(good.size), y[good - 1]], axis=1)
        X = np.column_stack([level, lags[:, :order], np.nanmean(lags, axis=1) if good.size else np.empty(0), *decays])
        parts.append(_Regressors(X, steps[good], theta[good]))
    X, d, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Regressors(X, d, labels)


def _regression(X: Array, r: Array) -> tuple[Array, Array, float]:
    """Coefficients, their covariance beforehand, and the variance of the noise, by weights of Student's t."""
    n = X.shape[1]
    w, e = np.ones(len(r)), r
    G = b = np.zeros(n)
    for _ in range(_ROUNDS):
        G = (X * w[:, None]).T @ X
        b = np.linalg.solve(G + w.mean() * np.eye(n), (X * w[:, None]).T @ r)
        e = r - X @ b
        scale = float(np.median(np.abs(e))) / 0.6745 + 1e-3
        w = 1.0 / (1.0 + np.square(e / scale) / 3.0)
    P = np.linalg.inv(STRENGTH * G / w.sum() + 0.2 * np.eye(n))
    return b, 0.5 * (P + P.T), float(np.exp(np.mean(np.log(np.square(e) + 1e-6)))) * _GEOMETRIC
