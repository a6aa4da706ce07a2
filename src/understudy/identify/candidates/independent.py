"""Candidates without memory: readings that are independent draws from the law of their value.

The law is normal, Student-t, or a kernel estimate: a mixture of normals around the readings, thinned to groups of
neighbours, with a bandwidth chosen by how well it predicts blocks of time that were held out. Readings of a room are
not independent, so these are here to be beaten; where they are not, as with slow polling, they are the simplest.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy._types import Array, Seed
from understudy.identify.candidates import Candidate, cell_deviations, gaussian, groups, rows_of
from understudy.identify.candidates.autoregressive import join, student_laws, student_regression
from understudy.laws.gaussian import Gaussian
from understudy.laws.mixture import Mixture
from understudy.laws.multivariate import GaussianMixture
from understudy.models.iid_markov import IID

if TYPE_CHECKING:
    from understudy.identify.history import History


MOST_COMPONENTS = 200
"""Of a kernel estimate of one channel; of several channels a quarter."""
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # bandwidths that are tried, in units of Silverman's rule
_BLOCKS = 5
_JUDGED = 2000  # readings that judge a bandwidth
_NAMES = {"normal": "normal", "student": "Student-t", "kernel": "kernel"}
# A broad normal for what was never seen: its weight, and its width in standard deviations.
_BROAD, _WIDTH = 0.01, 3.0
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def fit_independent(history: History, *, law: str = "normal", random_state: Seed = 0) -> Candidate:
    """Independent readings, one law for each value; `law` is "normal", "student" or "kernel".

    `random_state` starts the thinning of a kernel estimate of several channels.

    >>> from understudy.identify.history import History, Segment
    >>> rng, theta = np.random.default_rng(1), np.repeat([0, 1], 1000)
    >>> y = rng.normal(np.where(theta, 600.0, 400.0), 10.0)
    >>> history = History(("y",), "theta", None, (), (0, 1), None, (Segment("1", None, y[:, None], theta),), ())
    >>> fit = fit_independent(history)
    >>> fit, [round(mean, -1) for mean in fit.parameters["mean"]]
    (Candidate('independent, normal', 2 values, 4 free parameters), [400.0, 600.0])
    """
    rows = rows_of(history)
    which, notes = groups(rows.counts(len(history.values)), history.values)
    group, Y = which[rows.theta[rows.used]], rows.Y[rows.used]
    parts = [Y[group == g] for g in range(int(which.max()) + 1)]
    floor = cell_deviations(rows)
    if law == "normal":
        laws, found, count = _normals(parts)
    elif law == "student":
        laws, found, count = _students(parts, floor)
    else:
        laws, found, count = _kernels(parts, floor, random_state)
    parameters = {"values": list(history.values)}
    parameters |= {name: [entries[g] for g in which] for name, entries in found.items()}
    models = dict(zip(history.values, (IID(laws[g]) for g in which), strict=True))
    return Candidate(f"independent, {_NAMES[law]}", models, parameters, count, notes)


Found = tuple[list[Any], dict[str, list[Any]], int]


def _normals(parts: list[Array]) -> Found:
    d = parts[0].shape[1]
    means = [part.mean(axis=0) for part in parts]
    covs = [_covariance(part) for part in parts]
    laws = [gaussian(mean, cov) for mean, cov in zip(means, covs, strict=True)]
    found = {"mean": [_plain(mean) for mean in means], "covariance": [_plain(cov) for cov in covs]}
    return laws, found, len(parts) * (d + d * (d + 1) // 2)


def _students(parts: list[Array], floor: Array) -> Found:
    d = parts[0].shape[1]
    laws: list[Any] = []
    found: dict[str, list[Any]] = {"location": [], "scale": [], "freedom": []}
    for part in parts:
        nothing, group = np.empty((len(part), 0)), np.zeros(len(part), dtype=np.intp)
        fit = student_regression(nothing, part, group, 1, shared=False, floors=floor)
        laws.append(join(student_laws(fit.freedom[0], fit.c[0], fit.scale[0]), part))
        for name, numbers in (("location", fit.c), ("scale", fit.scale), ("freedom", fit.freedom)):
            found[name].append(_plain(numbers[0]))
    return laws, found, len(parts) * (3 * d + d * (d - 1) // 2)


# Kernel estimates ----------------------------------------------------------------------------------------


def _kernels(parts: list[Array], floor: Array, random_state: Seed) -> Found:
    factors = [_best_factor(part, floor, random_state) for part in parts]
    estimates = [kernel_estimate(part, h, floor, random_state) for part, h in zip(parts, factors, strict=True)]
    laws = [_law(*estimate) for estimate in estimates]
    # what is free is hard to say of a kernel estimate: the bandwidth was
    return laws, {"bandwidth factor": factors}, len(parts)


def kernel_estimate(Y: Array, factor: float, floor: Array, random_state: Seed = 0) -> tuple[Array, Array, Array]:
    """Weights (K,), means (K, d) and covariances (K, d, d): readings in groups of neighbours, widened by the bandwidth.

    The bandwidth is `factor` times Silverman's, and at least `floor`. A group has the covariance of its readings
    besides, so thinning widens nothing; a broad component of weight 0.01 covers what was never seen.

    >>> w, m, S = kernel_estimate(np.linspace(0.0, 1.0, 1000)[:, None], 1.0, np.zeros(1))
    >>> len(w), round(float(w.sum()), 9), round(float(w @ m[:, 0]), 6)
    (201, 1.0, 0.5)
    """
    n, d = Y.shape
    S = _covariance(Y)
    # Silverman: h = (4 / (d + 2))^(1 / (d + 4)) n^(-1 / (d + 4)) standard deviations
    h = factor * (4.0 / (d + 2.0)) ** (1.0 / (d + 4.0)) * n ** (-1.0 / (d + 4.0))
    label = _neighbours(Y, random_state)
    sizes = np.bincount(label).astype(float)
    means = np.stack([np.bincount(label, weights=column) for column in Y.T], axis=1) / sizes[:, None]
    E = Y - means[label]
    inner = np.stack([np.bincount(label, weights=E[:, i] * E[:, j]) for i in range(d) for j in range(d)], axis=1)
    covs = (inner / sizes[:, None]).reshape(-1, d, d) + h * h * S + np.diag(np.square(floor))
    weights = np.append((1.0 - _BROAD) * sizes / n, _BROAD)
    broad = np.square(_WIDTH) * S + np.diag(np.square(floor))
    return weights, np.concatenate([means, [Y.mean(axis=0)]]), np.concatenate([covs, [broad]])


def _neighbours(Y: Array, random_state: Seed) -> Any:
    """A label for each reading: equal shares in order for one channel, k-means for several."""
    n, d = Y.shape
    if d == 1:
        K = min(n, MOST_COMPONENTS)
        rank = np.empty(n, dtype=np.intp)
        rank[np.argsort(Y[:, 0], kind="stable")] = np.arange(n)
        return rank * K // n
    K = max(1, min(n // 10, MOST_COMPONENTS // 4))
    unit = np.where(Y.std(axis=0) > 0.0, Y.std(axis=0), 1.0)
    X = Y / unit
    centres = X[np.sort(np.random.default_rng(random_state).choice(n, size=K, replace=False))]
    for _ in range(10):
        # the nearest centre, by |x - c|^2 = |x|^2 - 2 x c + |c|^2
        label = np.argmin(np.square(centres).sum(axis=1) - 2.0 * X @ centres.T, axis=1)
        _, label = np.unique(label, return_inverse=True)
        sizes = np.bincount(label)
        centres = np.stack([np.bincount(label, weights=column) for column in X.T], axis=1) / sizes[:, None]
    return label


def _best_factor(Y: Array, floor: Array, random_state: Seed) -> float:
    """The factor that predicts held-out blocks best."""
    n = len(Y)
    if n < 10 * _BLOCKS:
        return 1.0
    edges = np.linspace(0, n, _BLOCKS + 1).astype(int)
    totals = np.zeros(len(_FACTORS))
    for start, stop in pairwise(edges.tolist()):
        held = Y[start : stop : max(1, (stop - start) * _BLOCKS // _JUDGED)]
        rest = np.concatenate([Y[:start], Y[stop:]])
        for j, factor in enumerate(_FACTORS):
            totals[j] += float(_log_density(held, *kernel_estimate(rest, factor, floor, random_state)).sum())
    return _FACTORS[int(totals.argmax())]


def _log_density(Y: Array, weights: Array, means: Array, covs: Array) -> Array:
    """Log-densities of readings (n, d) under a mixture of normals, without its law, which takes longer to make."""
    L = np.linalg.cholesky(covs)
    z = np.linalg.solve(L, (Y[None] - means[:, None]).transpose(0, 2, 1))
    heights = np.log(weights) - np.log(np.einsum("kii->ki", L)).sum(axis=1) - Y.shape[1] * _HALF_LOG_2PI
    logs = heights[:, None] - 0.5 * np.square(z).sum(axis=1)
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))


def _law(weights: Array, means: Array, covs: Array) -> Any:
    if means.shape[1] > 1:
        return GaussianMixture(weights, means, covs)
    return Mixture(weights, [Gaussian(float(m), float(v)) for m, v in zip(means[:, 0], covs[:, 0, 0], strict=True)])


def _covariance(Y: Array) -> Array:
    """The covariance, with a trace of the spread of everything where a channel stands still."""
    cov = np.atleast_2d(np.cov(Y, rowvar=False, bias=True))
    spread = np.maximum(np.diag(cov), 1e-12 * np.maximum(np.square(Y).mean(axis=0), 1e-300))
    return np.asarray(cov + 1e-9 * np.diag(spread))


def _plain(array: Array) -> Any:
    return array.item() if array.size == 1 else array.tolist()
