"""A hidden Markov smoother that is learned from labelled outputs, without the models of the design.

What it looks at in each channel: the level, differences over a few lags to either side, and the logarithm of the local
variance of what is left of neighbours. For each value a mixture of normal laws with full covariances says how likely
these are; labels say how theta moves; forward and backward do the rest. Features of neighbouring readings are not
independent given theta, so a temperature takes off what is counted twice. It is found on stretches of time that the
mixtures have not seen, and so is the number of their components.

Mixtures of normal laws with full covariances, fitted by expectation and maximisation: densities of features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from understudy._types import Array, Frozen, Mask
from understudy.adversaries.knowledge import Attack, Cases, Knowledge
from understudy.adversaries.learners.calibration import AlongChain, chain_of, fit_reader, prior_of

# Mixtures of normal laws with full covariances, fitted by expectation and maximisation: densities of  ---


_STEPS = 40
_RIDGE = 1e-3  # of a unit variance, so that no component collapses
_AT_ONCE = 200_000  # scored at a time


class NormalMixture(NamedTuple):
    """Weights (K,), means (K, F) and lower factors (K, F, F) of the covariances."""

    weights: Array
    means: Array
    factors: Array

    def logs(self, X: Array) -> Array:
        """Log-densities (count,) of rows (count, F)."""
        parts = [_logs(self, X[first : first + _AT_ONCE]) for first in range(0, len(X), _AT_ONCE)]
        return np.concatenate([np.logaddexp.reduce(part, axis=1) for part in parts]) if parts else np.empty(0)


def fit_mixture(X: Array, K: int) -> NormalMixture:
    """The mixture of K normal laws that rows (count, F) of about unit variance speak for.

    >>> rng = np.random.default_rng(1)
    >>> X = np.concatenate([rng.normal(-4.0, 1.0, 500), rng.normal(4.0, 1.0, 500)])[:, None]
    >>> np.sort(fit_mixture(X, 2).means[:, 0]).round().tolist()
    [-4.0, 4.0]
    """
    count, F = X.shape
    K = max(1, min(K, count // (5 * (F + 1))))
    share = np.full((count, K), 1.0 / K)
    if K > 1:
        # begin apart along the direction of the greatest spread
        direction = np.linalg.eigh(np.cov(X.T).reshape(F, F))[1][:, -1]
        place = np.argsort(np.argsort(X @ direction, kind="stable"), kind="stable") * K // count
        share = 0.8 * np.eye(K)[place] + 0.2 / K
    made, last = _maximise(X, share), -np.inf
    for _ in range(_STEPS if K > 1 else 0):
        logs = _logs(made, X)
        total = np.logaddexp.reduce(logs, axis=1)
        value = float(total.mean())
        if value - last < 1e-5:
            break
        last, made = value, _maximise(X, np.exp(logs - total[:, None]))
    return made


def _maximise(X: Array, share: Array) -> NormalMixture:
    F = X.shape[1]
    size = share.sum(axis=0) + 1e-9
    means = share.T @ X / size[:, None]
    factors = np.empty((len(size), F, F))
    for k in range(len(size)):
        E = X - means[k]
        cov = (share[:, k, None] * E).T @ E / size[k]
        factors[k] = np.linalg.cholesky(cov + _RIDGE * np.eye(F))
    return NormalMixture(size / size.sum(), means, factors)


def _logs(made: NormalMixture, X: Array) -> Array:
    """Log-densities (count, K) of each component, with its weight."""
    from scipy.linalg import solve_triangular

    F = X.shape[1]
    result = np.empty((len(X), len(made.weights)))
    for k, (weight, mean, L) in enumerate(zip(*made, strict=True)):
        z = solve_triangular(L, (X - mean).T, lower=True, check_finite=False)
        scale = float(np.log(np.diag(L)).sum()) + 0.5 * F * float(np.log(2.0 * np.pi))
        result[:, k] = np.log(weight) - 0.5 * np.square(z).sum(axis=0) - scale
    return result


# A hidden Markov smoother that is learned from labelled outputs, without the models of the design ----


_LAGS = (1, 4, 16, 48)
_WINDOW = 8
_ROWS = 6000  # of each value that a mixture is fitted to
_COMPONENTS = (1, 2, 3)
_SEQUENCES = 8000  # of a constant theta that are learned from
_NUMBERS = 400_000  # readings at a time


class Look(NamedTuple):
    """Which features there are: that is settled when they are learned from, however long a later sequence is."""

    lags: tuple[int, ...]
    variance: bool

    @classmethod
    def at(cls, T: int) -> Look:
        """What can be looked at in sequences of T readings."""
        return cls(tuple(lag for lag in _LAGS if lag < T and (lag == 1 or 2 * lag < T)), T > 2)


class Hidden(Frozen):
    """A hidden Markov smoother on levels, differences and local variances.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> known = Knowledge(family, (0, 1), np.eye(2), family.prior, None, None, None, None, raw=True)
    >>> rng = np.random.default_rng(1)
    >>> theta = np.repeat(np.arange(40) % 2, 100).reshape(1000, 4)
    >>> cases = Cases(rng.normal(2.0 * theta)[:, None], theta, np.arange(40).repeat(100).reshape(1000, 4), 2, False)
    >>> attack = Hidden().learn(cases, known, rng)
    >>> bool((attack.logits(cases).argmax(axis=0) == theta).mean() > 0.97)
    True
    """

    __slots__ = ()

    name = "hidden Markov smoother"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """There is none: labelled outputs are all it needs."""
        return ""

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """Mixtures with several numbers of components, of which held-out blocks choose one."""
        cases = cases.sequences(slice(0, _SEQUENCES)) if cases.once else cases
        look = Look.at(cases.T)
        X = features(cases.outputs, look)  # (F, T, N)
        seeds = rng.integers(2**62, size=len(_COMPONENTS))
        candidates = [
            partial(_fit, cases, look, X, K, seed) for K, seed in zip(_COMPONENTS, seeds.tolist(), strict=True)
        ]
        rule = AlongChain(prior_of(cases), None if cases.once else chain_of(cases, known))
        return fit_reader(candidates, cases, rng, _WINDOW, [rule])


def _fit(cases: Cases, look: Look, X: Array, K: int, seed: int, where: Mask) -> MixtureReader:
    """A mixture of K normal laws for each value, learned where `where` says."""
    rng = np.random.default_rng(seed)
    judged = np.broadcast_to(where, cases.labels.shape) if cases.once else where
    there = judged & (cases.labels >= 0) & ~np.isnan(X[0])
    centre, scale = _standard(X[:, there])
    reader = MixtureReader(look, centre, scale, ())
    rows, y = reader.standardised(X, there), cases.labels[there]
    return replace(reader, mixtures=tuple(_fit_mixture(rows[y == i], K, rng) for i in range(cases.m)))


def _fit_mixture(rows: Array, K: int, rng: np.random.Generator) -> NormalMixture | None:
    if len(rows) < 2 or rows.shape[1] == 0:
        return None
    if len(rows) > _ROWS:
        rows = rows[rng.choice(len(rows), _ROWS, replace=False)]
    return fit_mixture(rows, K)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MixtureReader:
    """How features are standardised, and a mixture for each value; None for a value that was never seen."""

    look: Look
    centre: Array
    scale: Array
    mixtures: tuple[NormalMixture | None, ...]

    def evidence(self, cases: Cases) -> Array:
        """Log-densities (m, T, N) of the features of each reading, summed where theta is constant; 0 if missing."""
        size = max(1, _NUMBERS // cases.T)
        parts = [self._evidence(cases.outputs[:, :, first : first + size]) for first in range(0, cases.N, size)]
        logs = np.concatenate(parts, axis=2)
        return np.asarray(logs.sum(axis=1)) if cases.once else logs

    def _evidence(self, Y: Array) -> Array:
        X = features(Y, self.look)
        there = np.asarray(~np.isnan(X[0]))
        rows = self.standardised(X, there)
        logs = np.zeros((len(self.mixtures), *there.shape))
        if rows.size:
            logs[:, there] = [np.full(len(rows), -1e6) if mix is None else mix.logs(rows) for mix in self.mixtures]
            # a reading that is strange under every value is no evidence for the widest law
            logs[:, there] = np.maximum(logs[:, there], logs[:, there].max(axis=0) - 20.0)
        return logs

    def standardised(self, X: Array, there: Mask) -> Array:
        """Rows of features that vary, in units of their spread."""
        scaled = (X[:, there] - self.centre[:, None]) / self.scale[:, None]
        return np.asarray(scaled[np.isfinite(self.scale)].T.clip(-12.0, 12.0))


def features(Y: Array, look: Look | None = None) -> Array:
    """What is looked at, (F, T, N), in outputs (T, d, N); NaN where a reading is missing.

    >>> features(np.zeros((50, 2, 3))).shape
    (10, 50, 3)
    """
    T, d, N = Y.shape
    look = look or Look.at(T)
    missing = np.isnan(Y).any(axis=1)
    filled = _fill(Y)
    k = np.arange(T)
    columns = [filled[:, c] for c in range(d)]
    for lag in look.lags:
        ahead, behind = filled[np.minimum(k + lag, T - 1)], filled[np.maximum(k - lag, 0)]
        columns += [(ahead - behind)[:, c] for c in range(d)]
    if look.variance and T <= 2:
        columns += [np.zeros((T, N))] * d
    elif look.variance:
        # what neighbours do not explain, squared and averaged over a window; steps of a grid leave it above zero
        e = filled[2:] - 2.0 * filled[1:-1] + filled[:-2]
        e = np.concatenate([e[:1], e, e[-1:]])
        total = np.concatenate([np.zeros((1, d, N)), np.cumsum(np.square(e), axis=0)])
        low, high = np.maximum(k - _WINDOW, 0), np.minimum(k + _WINDOW + 1, T)
        local = (total[high] - total[low]) / (high - low)[:, None, None]
        floor = 1e-3 * np.mean(np.square(e), axis=(0, 2))[:, None] + 1e-300
        columns += [np.log(local + floor)[:, c] for c in range(d)]
    X = np.stack(columns)
    X[:, missing] = np.nan
    return X


def _fill(Y: Array) -> Array:
    """Missing readings replaced by the last one before, or the first after; by 0 where there is none."""
    T = len(Y)
    there = ~np.isnan(Y)
    if there.all():
        return Y
    index = np.where(there, np.arange(T)[:, None, None], -1)
    last = np.maximum.accumulate(index, axis=0)
    first = np.where(there.any(axis=0), there.argmax(axis=0), 0)
    found = np.take_along_axis(Y, np.where(last >= 0, last, first[None]), axis=0)
    return np.asarray(np.where(np.isnan(found), 0.0, found))


def _standard(X: Array) -> tuple[Array, Array]:
    """Centre and scale of features (F, count) by quantiles, which outliers leave alone; infinite where constant."""
    if X.shape[1] == 0:
        return np.zeros(len(X)), np.full(len(X), np.inf)
    low, centre, high = np.quantile(X, (0.1, 0.5, 0.9), axis=1)
    spread = np.where(high > low, (high - low) / 2.56, X.std(axis=1))
    return centre, np.where(spread > 1e-9 * (1.0 + np.abs(centre)), spread, np.inf)
