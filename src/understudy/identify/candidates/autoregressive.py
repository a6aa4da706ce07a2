"""Autoregressive candidates: AR(p) of one channel, VAR(p) of several.

::

    y_k = c_theta + sum_i Phi_i y_{k-i} + e_k,    e_k ~ N(0, S_theta)  or  s_theta t(nu_theta)

The intercept and the noise depend on theta_k. The coefficients are shared, or with `by_class` depend on it too. The
likelihood is the conditional one: rows whose p predecessors are not all there have no term.

*Normal noise.* The models are Gauss-Markov ones in companion form, whose start has the law of p readings in a row. So
they are exact across gaps.

*Student-t noise.* The models are `AutoRegressive` ones, which start from a fixed past: the mean of the readings. The
first p readings of a stream have no fitted law. Several channels have each its own t law, joined by a Gaussian copula.

*Noise without an assumed shape* (`fit_semiparametric`), for where parametric noise fails the gate. The dynamics are
those of the Student-t autoregression, for each value its own. The innovations of each value and channel get a mixture
of normals, fitted by EM, perhaps with a Student-t part. The number of parts is the one that predicts held-out blocks
best. Innovations that depend on each other, or on more than theta and the last readings, still fail the gate, as they
should.

All of these rest on regression in groups, where each group has its own intercept and noise, and coefficients are shared
or separate:

- `normal_regression` maximises the likelihood by turns: coefficients given the covariances (generalised least squares),
  then covariances given the residuals. `robust` leaves out rows further than five standard deviations from their
  prediction, which a normal law does once in 1.7 million, and at most one row in a hundred (five, in small groups).
- `student_regression` optimises all parameters of one channel at once, degrees of freedom included, by the gradient in
  closed form, from robust least squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from understudy import text
from understudy._types import Array, Index, Mask, Value
from understudy.errors import ConfigurationError, ModelError
from understudy.identify.candidates import Candidate, Rows, cell_deviations, groups, lags, rows_of, start_law
from understudy.laws.gaussian import Gaussian
from understudy.laws.mixture import Mixture
from understudy.laws.multivariate import GaussianCopula
from understudy.laws.scalar import Scalar
from understudy.models.autoregressive import AutoRegressive
from understudy.models.gauss_markov import GaussMarkov, spectral_radius
from understudy.models.model import Model

if TYPE_CHECKING:
    from understudy.identify.history import History


# Least squares in groups --------------------------------------------------------------------------


FAR = 5.0
"""Standard deviations beyond which a row is left out."""
MOST = 0.01
"""Share of the rows of a group that may be left out."""
_CENTRAL, _CENTRAL_VARIANCE = 0.95, 0.7576  # variance of a standard normal between its 2.5 and 97.5 percent points


class Normal(NamedTuple):
    """A fit with normal noise: B (G, k, d), c (G, d), S (G, d, d), and the rows that were kept."""

    B: Array
    c: Array
    S: Array
    kept: Mask


def normal_regression(X: Array, Y: Array, group: Index, G: int, *, shared: bool, robust: bool) -> Normal:
    """Least squares within groups, weighted between them."""
    kept = np.ones(len(Y), dtype=bool)
    fit = _normal_regression(X, Y, group, G, shared, kept)
    if not robust:
        return fit
    E = Y - fit.c[group] - predict(X, fit.B, group)
    # a start that bad samples do not decide: the variance of the central 95 percent
    S = np.stack([np.diag(np.square(_central_scale(E[group == g]))) for g in range(G)])
    kept = within(E, S, group, G)
    for _ in range(20):
        fit = _normal_regression(X, Y, group, G, shared, kept)
        again = within(Y - fit.c[group] - predict(X, fit.B, group), fit.S, group, G)
        if np.array_equal(again, kept):
            break
        kept = again
    return fit


def predict(X: Array, B: Array, group: Index) -> Array:
    """(n, d): each row times the coefficients of its group."""
    found = np.empty((len(X), B.shape[2]))
    for g in range(len(B)):
        found[group == g] = X[group == g] @ B[g]
    return found


def within(E: Array, S: Array, group: Index, G: int) -> Mask:
    """Rows that are no further out than five standard deviations, or not among the one in a hundred furthest."""
    limit = distance_limit(E.shape[1])
    kept = np.ones(len(E), dtype=bool)
    for g in range(G):
        at = np.flatnonzero(group == g)
        if at.size:
            distance = np.einsum("ki,ki->k", E[at], np.linalg.solve(S[g], E[at].T).T)
            kept[at[furthest(distance, limit, allowance(at.size))]] = False
    return kept


def furthest(distance: Array, limit: float, most: int) -> Index:
    """Positions of the distances above the limit, of at most so many: the largest."""
    far = np.flatnonzero(distance > limit)
    return far[np.argsort(-distance[far], kind="stable")[: max(most, 0)]]


def heavy_tails(theta: Index, gone: Mask, values: Sequence[Value]) -> tuple[str, ...]:
    """A note where as many readings of a value were left out as may be: then these are no single bad samples.

    >>> heavy_tails(np.repeat([0, 1], 1000), np.arange(2000) < 10, ["empty", "full"])
    ("noise with heavy tails, which a normal law does not have, at 'empty'",)
    """
    left, counts = (np.bincount(labels, minlength=len(values)).tolist() for labels in (theta[gone], theta))
    full = [repr(v) for v, n, of in zip(values, left, counts, strict=True) if n and n >= allowance(of)]
    return (text.fit_note("heavy tails", values=", ".join(full)),) if full else ()


def allowance(count: int) -> int:
    """How many of so many readings may be left out."""
    return max(5, int(MOST * count)) if count >= 100 else count // 20


def distance_limit(d: int) -> float:
    """The squared distance (chi-squared of d degrees) that is as unlikely as five standard deviations of one number."""
    from scipy.stats import chi2, norm

    return float(chi2.isf(2.0 * norm.sf(FAR), d))


def _central_scale(E: Array) -> Array:
    """Standard deviations of the channels from their central 95 percent."""
    if len(E) < 2:
        return np.ones(E.shape[1])
    tail = 0.5 * (1.0 - _CENTRAL)
    low, high = np.quantile(E, [tail, 1.0 - tail], axis=0)
    inside = np.where((E - low >= 0.0) & (E - high <= 0.0), E, np.nan)
    scale = np.nanstd(inside, axis=0) / math.sqrt(_CENTRAL_VARIANCE)
    whole = E.std(axis=0)
    return np.where(scale > 0.0, scale, np.where(whole > 0.0, whole, 1.0))


def _normal_regression(X: Array, Y: Array, group: Index, G: int, shared: bool, kept: Mask) -> Normal:
    k, d = X.shape[1], Y.shape[1]
    rows = [np.flatnonzero(kept & (group == g)) for g in range(G)]
    mx = np.stack([X[at].mean(axis=0) for at in rows])
    my = np.stack([Y[at].mean(axis=0) for at in rows])
    XX = [(X[at] - mx[g]).T @ (X[at] - mx[g]) for g, at in enumerate(rows)]
    XY = [(X[at] - mx[g]).T @ (Y[at] - my[g]) for g, at in enumerate(rows)]
    B = np.stack([_least_squares(XX[g], XY[g]) for g in range(G)])
    S = np.empty((G, d, d))
    for _ in range(50):
        before = B
        for g, at in enumerate(rows):
            E = (Y[at] - my[g]) - (X[at] - mx[g]) @ B[g]
            S[g] = _floor_covariance(E.T @ E / len(at), Y[at])
        if not shared:
            break
        # sum_g S_g^-1 (x) X_g'X_g  vec B = sum_g vec(X_g'Y_g S_g^-1)
        left, right = np.zeros((k * d, k * d)), np.zeros((k, d))
        for g in range(G):
            inverse = np.linalg.solve(S[g], np.eye(d))
            left += np.kron(inverse, XX[g])
            right += XY[g] @ inverse
        one = _least_squares(left, right.T.reshape(-1, 1)).reshape(d, k).T
        B = np.tile(one, (G, 1, 1))
        if np.abs(B - before).max() <= 1e-12 * (1.0 + np.abs(B).max()):
            break
    c = my - np.einsum("gkd,gk->gd", B, mx)
    return Normal(B, c, S, kept)


def _least_squares(left: Array, right: Array) -> Array:
    """Least squares, since a channel may never move within a group."""
    if left.size == 0:
        return np.zeros((0, right.shape[1]))
    scale = np.sqrt(np.maximum(np.diag(left), np.finfo(float).tiny))
    found = np.linalg.lstsq(left / np.outer(scale, scale), right / scale[:, None], rcond=1e-13)[0]
    return np.asarray(found / scale[:, None])


def _floor_covariance(S: Array, Y: Array) -> Array:
    """A covariance that is positive definite, whatever rounding left of a channel that hardly moves."""
    floor = 1e-9 * np.maximum(Y.var(axis=0), 1e-12 * np.maximum(np.square(Y).mean(axis=0), 1e-300))
    return np.asarray(S + np.diag(floor))


# Regression with Student-t noise in groups --------------------------------------------------------


# Degrees of freedom: with less the mean does not exist, with more nothing is told from a normal law.
LEAST_FREEDOM, MOST_FREEDOM = 1.1, 200.0


class Student(NamedTuple):
    """A fit with Student-t noise in each channel: B (G, k, d); c, scale and freedom (G, d); the log-likelihood."""

    B: Array
    c: Array
    scale: Array
    freedom: Array
    loglik: float


def student_regression(X: Array, Y: Array, group: Index, G: int, *, shared: bool, floors: Array) -> Student:
    """Maximum likelihood with Student-t noise, each channel by itself.

    Scales are at least `floors`: a grid puts many residuals on one number, and a t law would become a spike there.
    """
    fits = [_student_channel(X, y, group, G, shared, float(low)) for y, low in zip(Y.T, floors, strict=True)]
    *arrays, loglik = zip(*fits, strict=True)
    B, c, scale, freedom = (np.stack(part, axis=-1) for part in arrays)
    return Student(B, c, scale, freedom, sum(loglik))


def _student_channel(
    X: Array, y: Array, group: Index, G: int, shared: bool, floor: float
) -> tuple[Array, Array, Array, Array, float]:
    from scipy.optimize import minimize

    start = normal_regression(X, y[:, None], group, G, shared=shared, robust=True)
    scale0 = np.sqrt(start.S[:, 0, 0])
    size = float(np.exp(np.log(scale0).mean()))
    # coordinates in which the likelihood bends about equally in all directions: X less its mean in the group, times T
    location = np.stack([X[group == g].mean(axis=0) for g in range(G)])
    X = X - location[group]
    weights = (size / scale0)[group, None]
    T = _whitening([(weights * X)[mine] for mine in ([slice(None)] if shared else [group == g for g in range(G)])])
    T = np.tile(T, (G, 1, 1)) if shared else T
    problem = Likelihood(predict(X, T, group), y / size, group, G, shared, floor / size)
    B0 = np.asarray(np.linalg.solve(T, start.B / size)[:, :, 0], dtype=float)
    c0 = (start.c[:, 0] + np.einsum("gk,gk->g", start.B[:, :, 0], location)) / size
    # a few steps from each start, then the best one to the top
    tried = []
    for freedom, narrower in ((3.0, 0.7), (10.0, 0.9)):
        scale = np.maximum(scale0 / size * narrower, 1.5 * problem.floor)
        x = problem.pack(B0, c0, scale, np.full(G, freedom))
        tried.append(minimize(problem.value, x, jac=True, method="L-BFGS-B", options={**_OPTIONS, "maxiter": 25}))
    best = min(tried, key=lambda found: float(found.fun))
    if not best.success:
        best = minimize(problem.value, best.x, jac=True, method="L-BFGS-B", options=_OPTIONS)
    B, c, scale, nu = problem.unpack(np.asarray(best.x))
    B = np.einsum("gij,gj->gi", T, B) * size
    c = c * size - np.einsum("gk,gk->g", B, location)
    return B, c, scale * size, nu, -len(y) * (float(best.fun) + math.log(size))


_OPTIONS = {"maxiter": 500, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-7}


def _whitening(parts: list[Array]) -> Array:
    """For each part (n, k) the matrix T (k, k) that makes X T uncorrelated with variance one; still columns stay."""
    found = []
    for X in parts:
        M = X.T @ X / max(1, len(X))
        unit = np.sqrt(np.where(np.diag(M) > 0.0, np.diag(M), 1.0))
        values, V = np.linalg.eigh(M / np.outer(unit, unit))
        values = np.where(values > 1e-12, values, 1.0)
        found.append(V / np.sqrt(values) / unit[:, None])
    return np.stack(found)


class Likelihood:
    """Minus the mean log-likelihood of a regression with Student-t noise, and its gradient."""

    def __init__(self, X: Array, y: Array, group: Index, G: int, shared: bool, floor: float) -> None:
        self.rows = [(np.ascontiguousarray(X[group == g]), y[group == g]) for g in range(G)]
        self.n, self.k = X.shape
        self.G, self.shared, self.floor = G, shared, floor

    def pack(self, B: Array, c: Array, scale: Array, nu: Array) -> Array:
        """Parameters as one free vector."""
        share = np.clip((nu - LEAST_FREEDOM) / (MOST_FREEDOM - LEAST_FREEDOM), 1e-6, 1.0 - 1e-6)
        free = (B[:1] if self.shared else B).ravel()
        return np.concatenate([free, c, np.log(scale - self.floor), np.log(share / (1.0 - share))])

    def unpack(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """The free vector as parameters."""
        from scipy.special import expit

        G, k = self.G, self.k
        c, log_scale, logit = x[len(x) - 3 * G :].reshape(3, G)
        B = np.tile(x[:k], (G, 1)) if self.shared else x[: G * k].reshape(G, k)
        nu = LEAST_FREEDOM + (MOST_FREEDOM - LEAST_FREEDOM) * expit(logit)
        return B, c, self.floor + np.exp(log_scale), nu

    def value(self, x: Array) -> tuple[float, Array]:
        """Value and gradient."""
        from scipy.special import digamma, gammaln

        B, c, scale, nu = self.unpack(x)
        # log p = lnGamma((v+1)/2) - lnGamma(v/2) - log(v pi)/2 - log s - (v+1)/2 log(1 + r/v),  r = (e / s)^2
        height = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * math.pi) - np.log(scale)
        slope = 0.5 * (digamma(0.5 * (nu + 1.0)) - digamma(0.5 * nu) - 1.0 / nu)
        total, grad_c, grad_scale, grad_nu, grad_B = 0.0, np.zeros(self.G), np.zeros(self.G), np.zeros(self.G), B.copy()
        for g, (X, y) in enumerate(self.rows):
            v, s = nu[g], scale[g]
            e = y - c[g] - X @ B[g]
            q = e * e
            q *= 1.0 / (v * s * s)  # r / v
            more = 1.0 + q
            logs, e, q = float(np.log(more).sum()), e / more, float((q / more).sum())
            total += len(y) * height[g] - 0.5 * (v + 1.0) * logs
            factor = (v + 1.0) / (v * s * s)  # d log p / d prediction = (v+1) / (v + r) e / s^2
            grad_B[g], grad_c[g] = factor * (e @ X), factor * e.sum()
            grad_scale[g] = ((v + 1.0) * q - len(y)) / s
            grad_nu[g] = len(y) * slope[g] - 0.5 * logs + 0.5 * (v + 1.0) / v * q
        share = (nu - LEAST_FREEDOM) / (MOST_FREEDOM - LEAST_FREEDOM)
        grad_logit = grad_nu * (MOST_FREEDOM - LEAST_FREEDOM) * share * (1.0 - share)
        free = grad_B.sum(axis=0) if self.shared else grad_B.ravel()
        gradient = np.concatenate([free, grad_c, grad_scale * (scale - self.floor), grad_logit])
        return -float(total) / self.n, -gradient / self.n


# Autoregression with normal or Student-t noise ----------------------------------------------------


LARGEST_RADIUS = 1.0 - 1e-4
"""Modulus of the roots that a fitted model may have."""


def fit_autoregression(
    history: History, *, order: int = 1, student: bool = False, by_class: bool = False, robust: bool = True
) -> Candidate:
    """An autoregressive model for each value of the private parameter.

    The noise is normal, or Student-t if `student`; `robust` (normal noise only) leaves out single bad samples, at most
    one reading in a hundred. A value with few readings has the law of the nearest value in the order of values.
    Coefficients with a root outside the unit circle are shrunk to radius 0.9999, and a note says so.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> rng, theta = np.random.default_rng(1), np.repeat([0, 1, 0, 1], 500)
    >>> noise = us.Gaussian(0.0, 1.0)
    >>> family = us.Family({v: us.AutoRegressive(0.9, 2.0 * v, noise) for v in (0, 1)})
    >>> y = us.sample(family.along(theta.tolist()), 2000, rng=rng)
    >>> history = History(("y",), "theta", None, (), (0, 1), None, (Segment("1", None, y[:, None], theta),), ())
    >>> fit = fit_autoregression(history)
    >>> fit, round(fit.parameters["coefficients"][0], 1)
    (Candidate('AR(1), normal', 2 values, 5 free parameters), 0.9)
    """
    rows, at, X, which, notes = _regressors(history, order)
    Y, group = rows.Y[at], which[rows.theta[at]]
    d, G = rows.dim, int(which.max()) + 1

    def regress(X: Array, Y: Array, shared: bool) -> Normal | Student:
        if student:
            return student_regression(X, Y, group, G, shared=shared, floors=cell_deviations(rows))
        return normal_regression(X, Y, group, G, shared=shared, robust=robust)

    fit = regress(X, Y, not by_class)
    B, moved = _stable(fit.B, order)
    if moved:  # intercepts and noise again, for coefficients that stay as they are
        fit = regress(X[:, :0], Y - predict(X, B, group), False)
        notes += moved
    # row i of Phi_l predicts channel i
    Phi = B.reshape(G, order, d, d).transpose(0, 1, 3, 2)
    parameters = {
        "values": list(history.values),
        "coefficients": (Phi[..., 0, 0] if d == 1 else Phi)[which if by_class else 0].tolist(),
        "intercept": by_value(fit.c[which]),
    }
    count = (G if by_class else 1) * order * d * d
    made: list[Model]
    if isinstance(fit, Student):
        laws = [student_laws(fit.freedom[g], np.zeros(d), fit.scale[g]) for g in range(G)]
        E = Y - fit.c[group] - predict(X, B, group)
        noises = [join(laws[g], E[group == g]) for g in range(G)]
        past = np.tile(rows.Y[rows.used].mean(axis=0), (order, 1))
        made = [AutoRegressive(Phi[g], fit.c[g], noises[g], past) for g in range(G)]
        parameters |= {"scale": by_value(fit.scale[which]), "freedom": by_value(fit.freedom[which])}
        if d > 1:
            parameters["correlation"] = np.stack([noise.correlation for noise in noises])[which].tolist()
        count += G * (3 * d + d * (d - 1) // 2)
        notes += (text.fit_note("no law at the start", order=order),)
    else:
        start = start_law(rows, order)
        made = [companion(Phi[g], fit.c[g], fit.S[g], *start) for g in range(G)]
        parameters["covariance"] = by_value(fit.S[which])
        count += G * (d + d * (d + 1) // 2)
        if not fit.kept.all():
            notes += (text.fit_note("readings left out", left=int((~fit.kept).sum()), of=len(at)),)
            notes += heavy_tails(rows.theta[at], ~fit.kept, history.values)
    name = autoregression_name(order, d, "Student-t" if student else "normal", by_class)
    return Candidate(name, dict(zip(history.values, (made[g] for g in which), strict=True)), parameters, count, notes)


def autoregression_name(order: int, d: int, noise: str, by_class: bool) -> str:
    """The name of an autoregressive class.

    >>> autoregression_name(2, 1, "Student-t", True)
    'AR(2), Student-t by class'
    """
    return f"{'AR' if d == 1 else 'VAR'}({order}), {noise}{' by class' if by_class else ''}"


def _regressors(history: History, order: int) -> tuple[Rows, Index, Array, Index, tuple[str, ...]]:
    """The rows, those with all predecessors, these predecessors, the group of each value, and notes."""
    if not isinstance(order, int) or isinstance(order, bool) or order < 1:
        raise ConfigurationError(f"order = {order!r}; it must be a whole number of at least 1")
    rows = rows_of(history)
    at, X = lags(rows, order)
    least = 10 * (order * rows.dim + 2)
    if len(at) < least:
        raise ModelError(
            f"{len(at)} readings have their {order} predecessors; a model of order {order} needs at least {least}"
        )
    counts = np.bincount(rows.theta[at], minlength=len(history.values)).tolist()
    return rows, at, X, *groups(counts, history.values, max(30, least))


def companion(Phi: Array, c: Array, S: Array, mean0: Array, cov0: Array) -> GaussMarkov:
    """A Gaussian autoregression as a Gauss-Markov model whose state is the last p readings, with a law at the start."""
    p, d, _ = Phi.shape
    n = p * d
    b, Q = np.zeros(n), np.zeros((n, n))
    b[:d], Q[:d, :d] = c, S
    return GaussMarkov(_companion_matrix(Phi), np.eye(d, n), Q, np.zeros((d, d)), b, 0.0, mean0, cov0)


def _companion_matrix(Phi: Array) -> Array:
    p, d, _ = Phi.shape
    A = np.eye(p * d, k=-d)
    A[:d] = Phi.transpose(1, 0, 2).reshape(d, p * d)
    return A


def _stable(B: Array, order: int) -> tuple[Array, tuple[str, ...]]:
    """Coefficients with roots inside the unit circle: those of lag i times r^i moves every root by r."""
    G, _, d = B.shape
    B, notes = B.reshape(G, order, d, d).copy(), []
    for g in range(G):
        radius = spectral_radius(_companion_matrix(B[g].transpose(0, 2, 1)))
        if radius > LARGEST_RADIUS:
            B[g] *= ((LARGEST_RADIUS / radius) ** np.arange(1, order + 1))[:, None, None]
            notes.append(text.fit_note("root moved", radius=radius, to=LARGEST_RADIUS))
    return B.reshape(G, order * d, d), tuple(dict.fromkeys(notes))


def student_laws(freedom: Array, location: Array, scale: Array) -> list[Scalar]:
    """The Student-t law of each channel."""
    from scipy import stats

    numbers = zip(freedom.tolist(), location.tolist(), scale.tolist(), strict=True)
    return [Scalar(stats.t(nu, loc=centre, scale=width)) for nu, centre, width in numbers]


def join(laws: Sequence[Any], E: Array) -> Any:
    """The law of a reading from those of its channels: by a Gaussian copula with the correlation of the scores of E."""
    if len(laws) == 1:
        return laws[0]
    Z = np.stack([law.score(e) for law, e in zip(laws, E.T, strict=True)])
    Z = Z - Z.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.square(Z).mean(axis=1, keepdims=True))
    Z = Z / np.where(spread > 0.0, spread, 1.0)  # a channel that stands still tells of no other
    R = Z @ Z.T / Z.shape[1]
    R = np.clip((R + R.T) / 2.0, -0.999, 0.999)
    np.fill_diagonal(R, 1.0)
    smallest = float(np.linalg.eigvalsh(R)[0])
    if smallest < 1e-3:  # kept away from singular
        share = (1e-3 - smallest) / (1.0 - smallest)
        R = (1.0 - share) * R + share * np.eye(len(R))
    return GaussianCopula(R, laws)


def by_value(array: Array) -> Any:
    """Plain lists, one entry for each value; numbers for one channel."""
    return (array.reshape(len(array)) if array[0].size == 1 else array).tolist()


# Autoregression whose noise has no assumed shape --------------------------------------------------


_MOST_PARTS = 6
_BLOCKS = 10
_ROUNDS, _SETTLED = 70, 1e-6
_NARROWEST = 1e-3  # of the spread of the innovations: a part that is narrower is a spike
_FREEDOM = 3.0  # of the Student-t part for what is far out
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_LOG_T3 = math.log(2.0 / (math.pi * math.sqrt(3.0)))  # log-density of Student-t with 3 degrees of freedom at 0


def fit_semiparametric(history: History, *, order: int = 1, base: Candidate | None = None) -> Candidate:
    """An autoregression whose innovations have a mixture of normals for a law, one for each value and channel.

    `base` is the autoregression with Student-t noise by class, where it was fitted to this history already.

    >>> import scipy.stats
    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> theta = np.repeat([0, 1] * 4, 100)
    >>> skewed = us.Scalar(scipy.stats.gamma(2.0, loc=-2.0))
    >>> family = us.Family({v: us.AutoRegressive(0.5, float(v), skewed, past=0.0) for v in (0, 1)})
    >>> y = us.sample(family.along(theta.tolist()), 800, rng=1)
    >>> history = History(("y",), "theta", None, (), (0, 1), None, (Segment("1", None, y[:, None], theta),), ())
    >>> fit_semiparametric(history).name
    'AR(1), free noise by class'
    """
    base = base or fit_autoregression(history, order=order, student=True, by_class=True)
    members: list[Any] = [base.models[value] for value in history.values]
    # values with few readings have the law of a neighbour, as in the dynamics
    rows, at, X, which, _ = _regressors(history, order)
    d, theta = rows.dim, rows.theta[at]
    Phi, c = np.stack([m.coefficients for m in members])[theta], np.stack([m.intercept for m in members])[theta]
    E = rows.Y[at] - c - np.einsum("kpj,kpij->ki", X.reshape(-1, order, d), Phi)
    innovations = [E[which[theta] == group] for group in range(int(which.max()) + 1)]
    floors = cell_deviations(rows)
    shapes = [[shape_of(e, float(low)) for e, low in zip(mine.T, floors, strict=True)] for mine in innovations]
    # all values have the same kind of model: plain normals only if none has more than one part
    plain = all(len(shape.weights) == 1 for channels in shapes for shape in channels)
    laws = [join([shape.law(plain) for shape in channels], E) for channels, E in zip(shapes, innovations, strict=True)]
    models: dict[Value, Model] = {
        value: AutoRegressive(member.coefficients, member.intercept, laws[group], member.past)
        for value, member, group in zip(history.values, members, which.tolist(), strict=True)
    }
    found = [shapes[group] for group in which.tolist()]
    parameters = {
        "values": list(history.values),
        "coefficients": base.parameters["coefficients"],
        "intercept": base.parameters["intercept"],
        "weights": [[shape.weights.tolist() for shape in channels] for channels in found],
        "means": [[shape.means.tolist() for shape in channels] for channels in found],
        "deviations": [[shape.deviations.tolist() for shape in channels] for channels in found],
        "tail": [[shape.tail for shape in channels] for channels in found],
    }
    free = sum(shape.count for channels in shapes for shape in channels) + len(shapes) * d * (d - 1) // 2
    count = free + len(shapes) * (order * d * d + d)
    notes = (*base.notes, text.fit_note("free noise"))
    return Candidate(autoregression_name(order, d, "free noise", True), models, parameters, count, notes)


@dataclass(frozen=True, slots=True)
class Shape:
    """A mixture of normals, and perhaps a Student-t part for what is far out: its weight comes last."""

    weights: Array
    means: Array
    deviations: Array
    tail: tuple[float, float] | None = None
    """Centre and scale of the Student-t part."""

    @property
    def count(self) -> int:
        """Free parameters."""
        return 3 * len(self.means) - 1 + (self.tail is not None)

    def law(self, plain: bool = False) -> Any:
        """As a law of one number; a mixture unless `plain`."""
        from scipy.stats import t

        normals: list[Any] = [
            Gaussian(m, s * s) for m, s in zip(self.means.tolist(), self.deviations.tolist(), strict=True)
        ]
        if plain:
            return normals[0]
        if self.tail is not None:
            normals.append(Scalar(t(_FREEDOM, loc=self.tail[0], scale=self.tail[1])))
        return Mixture(self.weights.tolist(), normals)

    def log_parts(self, e: Array) -> Array:
        """(n, parts) log of weight times density."""
        logs = -np.log(self.deviations) - _HALF_LOG_2PI
        logs = logs - 0.5 * np.square((e[:, None] - self.means) / self.deviations)
        if self.tail is not None:
            centre, scale = self.tail
            far = _LOG_T3 - math.log(scale) - 2.0 * np.log1p(np.square((e - centre) / scale) / _FREEDOM)
            logs = np.column_stack([logs, far])
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights) + logs)

    def log_density(self, e: Array) -> Array:
        """Log-density of each number."""
        return np.asarray(np.logaddexp.reduce(self.log_parts(e), axis=1))


def shape_of(e: Array, floor: float = 0.0) -> Shape:
    """A shape for numbers in the order of time, with as many parts as predict held-out blocks of it best.

    >>> rng = np.random.default_rng(1)
    >>> e = np.where(rng.random(4000) < 0.1, 10.0, 1.0) * rng.standard_normal(4000)
    >>> found = shape_of(e)
    >>> bool(8.0 < found.deviations.max() / found.deviations.min() < 12.0)
    True
    """
    floor = max(floor, _NARROWEST * float(np.std(e)), 1e-300)
    block = np.arange(len(e)) * _BLOCKS // max(1, len(e))
    best, chosen = -np.inf, (1, False)
    for k, tail in ((k, tail) for k in range(1, _MOST_PARTS + 1) for tail in (False, True)):
        if len(e) < 20 * k:
            break
        gained = 0.0
        for side in (0, 1):
            train, test = e[block % 2 == side], e[block % 2 != side]
            gained += float(_em(train, k, tail, floor).log_density(test).sum())
        # a part must earn its numbers
        if gained > best + 3.0:
            best, chosen = gained, (k, tail)
        elif k > chosen[0] + 1:
            break
    return _em(e, *chosen, floor)


def _em(e: Array, k: int, tail: bool, floor: float) -> Shape:
    """Expectation and maximisation, from parts of one place and widths in a row: tails are what must be found."""
    centre = float(np.median(e))
    scale = max(float(np.median(np.abs(e - centre))) / 0.6745, floor)
    widest = max(float(np.abs(e - centre).max()) / 2.0, 2.0 * scale)
    w, mu, sd = np.ones(1), np.array([float(e.mean())]), np.array([max(float(e.std()), floor)])
    if k > 1 or tail:
        w, mu, sd = np.full(k, 1.0 / k), centre + scale * np.linspace(-0.5, 0.5, k), np.full(k, scale)
        sd = np.geomspace(scale / 2.0, widest, k) if k > 1 else sd
    if tail:  # its place and width stay
        w = np.append(0.95 * w, 0.05)
    step = _Step(e - centre, 2.0 * scale if tail else None, floor)
    # A round makes two steps and goes on along their direction (Varadhan and Roland 2008), or where that is no gain
    # from the second step. It ends where a round gains no more than three steps that settle.
    here, last = np.concatenate([np.log(w), mu - centre, np.log(sd)]), -np.inf
    for _ in range(_ROUNDS):
        one, now = step(here)
        if now - last < 3.0 * _SETTLED:
            break
        last = now
        two, height = step(one)
        r, v = one - here, two - 2.0 * one + here
        length = math.sqrt(float(r @ r) / max(float(v @ v), 1e-300))
        here, ahead = two, here + 2.0 * length * r + length * length * v
        if length > 1.0:
            ahead[: len(w)] = np.maximum(ahead[: len(w)] - ahead[: len(w)].max(), -50.0)
            ahead[-k:] = np.clip(ahead[-k:], math.log(floor), math.log(10.0 * widest))
            after, beyond = step(ahead)
            here = after if beyond > height else two
    w, mu, sd = np.exp(here[: len(w)]), here[len(w) : -k] + centre, np.exp(here[-k:])
    return Shape(w / w.sum(), mu, sd, (centre, 2.0 * scale) if tail else None)


class _Step:
    """A step of expectation and maximisation for numbers about zero; parameters are log-weights, means, log-widths."""

    def __init__(self, e: Array, tail: float | None, floor: float) -> None:
        self.e, self.squares, self.floor = e, e * e, floor
        self.far = None
        if tail is not None:
            self.far = _LOG_T3 - math.log(tail) - 2.0 * np.log1p(self.squares / (tail * tail * _FREEDOM))

    def __call__(self, x: Array) -> tuple[Array, float]:
        """The parameters after the step, and the mean log-density before it."""
        e, k = self.e, len(x) // 3
        parts = len(x) - 2 * k
        log_w, mu, log_sd = x[:parts], x[parts:-k], x[-k:]
        log_w = log_w - np.log(np.exp(log_w).sum())
        r = np.empty((parts, len(e)))
        width = math.sqrt(0.5) * np.exp(-log_sd)[:, None]
        np.multiply(width, e, out=r[:k])
        r[:k] -= width * mu[:, None]
        np.square(r[:k], out=r[:k])
        np.subtract((log_w[:k] - log_sd - _HALF_LOG_2PI)[:, None], r[:k], out=r[:k])
        if self.far is not None:
            np.add(self.far, log_w[k], out=r[k])
        top = r.max(axis=0)
        r -= top
        np.exp(r, out=r)
        total = r.sum(axis=0)
        height = float((np.log(total) + top).mean())
        r /= total
        n = np.maximum(r.sum(axis=1), 1e-12)
        mu = r[:k] @ e / n[:k]
        variance = np.maximum(r[:k] @ self.squares / n[:k] - mu * mu, self.floor**2)
        return np.concatenate([np.log(n / n.sum()), mu, 0.5 * np.log(variance)]), height
