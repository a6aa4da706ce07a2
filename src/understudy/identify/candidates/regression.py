"""Regression in groups: least squares with normal noise, and likelihood with Student-t noise.

::

    y_k = c_g + B_g' x_k + e_k,    e_k ~ N(0, S_g) or s_g t(nu_g),    g = group of row k

Coefficients are shared by the groups or separate; each group has its own intercept and noise.

Normal noise: the likelihood is maximised by turns, coefficients given the covariances (generalised least squares), then
covariances given the residuals. Single bad samples must not decide a variance. `robust` leaves out rows that are
further from their prediction than five standard deviations, which a normal law does once in 1.7 million, and at most
one row in a hundred (five, in small groups): where more lie there, the tails are heavy, and a law with heavy tails must
say so.

Student-t noise: heavy tails are part of the law. All parameters of one channel are optimised at once, by the gradient
in closed form (degrees of freedom included), from robust least squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from understudy._types import Array, Index, Ints, Mask, Value

if TYPE_CHECKING:
    pass


# Least squares in groups: shared or separate coefficients, and in each group its own intercept and no ---


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


def normal_regression(
    X: Array, Y: Array, group: Index, G: int, *, shared: bool, robust: bool, fixed: Array | None = None
) -> Normal:
    """Least squares within groups, weighted between them; `fixed` are coefficients (G, k, d) that stay as they are."""
    kept = np.ones(len(Y), dtype=bool)
    fit = _normal(X, Y, group, G, shared, kept, fixed)
    if not robust:
        return fit
    E = residuals(X, Y, group, fit)
    # a start that bad samples do not decide: the variance of the central 95 percent
    S = np.stack([np.diag(np.square(_central_scale(E[group == g]))) for g in range(G)])
    kept = within(E, S, group, G)
    for _ in range(20):
        fit = _normal(X, Y, group, G, shared, kept, fixed)
        again = within(residuals(X, Y, group, fit), fit.S, group, G)
        if np.array_equal(again, kept):
            break
        kept = again
    return fit


def residuals(X: Array, Y: Array, group: Index, fit: Normal) -> Array:
    """What the prediction leaves."""
    E = Y - fit.c[group]
    for g in range(len(fit.c)):
        at = group == g
        E[at] -= X[at] @ fit.B[g]
    return E


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


def heavy_tails(gone: Ints, counts: Ints, values: Sequence[Value]) -> tuple[str, ...]:
    """A note where as many readings of a value were left out as may be: then these are no single bad samples.

    >>> heavy_tails(np.array([10, 3]), np.array([1000, 1000]), ["empty", "full"])
    ("noise with heavy tails, which a normal law does not have, at 'empty'.",)
    """
    full = [repr(v) for v, left, n in zip(values, gone, counts, strict=True) if left and left >= allowance(int(n))]
    return (f"noise with heavy tails, which a normal law does not have, at {', '.join(full)}.",) if full else ()


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


def _normal(X: Array, Y: Array, group: Index, G: int, shared: bool, kept: Mask, fixed: Array | None) -> Normal:
    k, d = X.shape[1], Y.shape[1]
    rows = [np.flatnonzero(kept & (group == g)) for g in range(G)]
    mx = np.stack([X[at].mean(axis=0) for at in rows])
    my = np.stack([Y[at].mean(axis=0) for at in rows])
    XX = [(X[at] - mx[g]).T @ (X[at] - mx[g]) for g, at in enumerate(rows)]
    XY = [(X[at] - mx[g]).T @ (Y[at] - my[g]) for g, at in enumerate(rows)]
    B = np.stack([_solved(XX[g], XY[g]) for g in range(G)]) if fixed is None else np.array(fixed)
    S = np.empty((G, d, d))
    for _ in range(50 if shared and fixed is None else 1):
        before = B
        for g, at in enumerate(rows):
            E = (Y[at] - my[g]) - (X[at] - mx[g]) @ B[g]
            S[g] = _floored(E.T @ E / len(at), Y[at])
        if not shared or fixed is not None:
            break
        # sum_g S_g^-1 (x) X_g'X_g  vec B = sum_g vec(X_g'Y_g S_g^-1)
        left, right = np.zeros((k * d, k * d)), np.zeros((k, d))
        for g in range(G):
            inverse = np.linalg.solve(S[g], np.eye(d))
            left += np.kron(inverse, XX[g])
            right += XY[g] @ inverse
        one = _solved(left, right.T.reshape(-1, 1)).reshape(d, k).T
        B = np.tile(one, (G, 1, 1))
        if np.abs(B - before).max() <= 1e-12 * (1.0 + np.abs(B).max()):
            break
    c = my - np.einsum("gkd,gk->gd", B, mx)
    return Normal(B, c, S, kept)


def _solved(left: Array, right: Array) -> Array:
    """Least squares, since a channel may never move within a group."""
    if left.size == 0:
        return np.zeros((0, right.shape[1]))
    scale = np.sqrt(np.maximum(np.diag(left), np.finfo(float).tiny))
    found = np.linalg.lstsq(left / np.outer(scale, scale), right / scale[:, None], rcond=1e-13)[0]
    return np.asarray(found / scale[:, None])


def _floored(S: Array, Y: Array) -> Array:
    """A covariance that is positive definite, whatever rounding left of a channel that hardly moves."""
    floor = 1e-9 * np.maximum(Y.var(axis=0), 1e-12 * np.maximum(np.square(Y).mean(axis=0), 1e-300))
    return np.asarray(S + np.diag(floor))


# Regression with Student-t noise in groups: heavy tails are part of the law, not bad samples ---------


# Degrees of freedom: with less the mean does not exist, with more nothing is told from a normal law.
LEAST_FREEDOM, MOST_FREEDOM = 1.1, 200.0


class Student(NamedTuple):
    """A fit of one channel with Student-t noise: B (G, k), c, scale and freedom (G,), and the log-likelihood."""

    B: Array
    c: Array
    scale: Array
    freedom: Array
    loglik: float


def student_regression(
    X: Array, y: Array, group: Index, G: int, *, shared: bool, floor: float = 0.0, fixed: Array | None = None
) -> Student:
    """Maximum likelihood with Student-t noise; scales are at least `floor`, which keeps held readings from a spike."""
    from scipy.optimize import minimize

    start = normal_regression(
        X, y[:, None], group, G, shared=shared, robust=True, fixed=None if fixed is None else fixed[:, :, None]
    )
    k = X.shape[1]
    # in units of the data, so that all parameters are of size one
    location, unit = X.mean(axis=0), np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    scale0 = np.sqrt(start.S[:, 0, 0])
    size = float(np.exp(np.log(scale0).mean()))
    XS = (X - location) / unit
    problem = Likelihood(XS, y / size, group, G, shared and fixed is None, floor / size, None)
    B0 = start.B[:, :, 0] * unit / size
    if fixed is not None:
        problem = problem._replace(fixed=fixed * unit / size)
    c0 = (start.c[:, 0] + start.B[:, :, 0] @ location) / size
    best = None
    for freedom in (3.0, 10.0):
        scale = np.maximum(scale0 / size * (0.7 if freedom < 5.0 else 0.9), 1.5 * problem.floor)
        x = problem.packed(B0, c0, scale, np.full(G, freedom))
        found = minimize(problem.value, x, jac=True, method="L-BFGS-B", options={"maxiter": 500, "maxcor": 20})
        if best is None or found.fun < best.fun:
            best = found
    B, c, scale, nu = problem.unpacked(np.asarray(best.x))  # type: ignore[union-attr]  # two starts
    B = B * size / unit
    loglik = -float(best.fun) * len(y) - len(y) * math.log(size)  # type: ignore[union-attr]  # as above
    return Student(B, c * size - B @ location if k else c * size, scale * size, nu, loglik)


class Likelihood(NamedTuple):
    """Minus the mean log-likelihood of a regression with Student-t noise, and its gradient."""

    X: Array
    y: Array
    group: Index
    G: int
    shared: bool
    floor: float
    fixed: Array | None

    def packed(self, B: Array, c: Array, scale: Array, nu: Array) -> Array:
        """Parameters as one free vector."""
        share = (nu - LEAST_FREEDOM) / (MOST_FREEDOM - LEAST_FREEDOM)
        share = np.clip(share, 1e-6, 1.0 - 1e-6)
        free = [] if self.fixed is not None else [(B[:1] if self.shared else B).ravel()]
        return np.concatenate([*free, c, np.log(scale - self.floor), np.log(share / (1.0 - share))])

    def unpacked(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """The free vector as parameters."""
        from scipy.special import expit

        G, k = self.G, self.X.shape[1]
        c, log_scale, logit = x[len(x) - 3 * G :].reshape(3, G)
        B = self.fixed
        if B is None:
            B = np.tile(x[:k], (G, 1)) if self.shared else x[: G * k].reshape(G, k)
        nu = LEAST_FREEDOM + (MOST_FREEDOM - LEAST_FREEDOM) * expit(logit)
        return B, c, self.floor + np.exp(log_scale), nu

    def value(self, x: Array) -> tuple[float, Array]:
        """Value and gradient."""
        from scipy.special import digamma, gammaln

        n, G, g = len(self.y), self.G, self.group
        B, c, scale, nu = self.unpacked(x)
        e = self.y - c[g] - np.einsum("ki,ki->k", self.X, B[g])
        s, v = scale[g], nu[g]
        r = np.square(e / s)
        log1p = np.log1p(r / v)
        # log p = lnGamma((v+1)/2) - lnGamma(v/2) - log(v pi)/2 - log s - (v+1)/2 log(1 + r/v)
        height = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * math.pi) - np.log(scale)
        total = float(height[g].sum() - (0.5 * (v + 1.0) * log1p).sum())
        weight = (v + 1.0) / (v + r)
        de = weight * e / np.square(s)  # d log p / d prediction
        ds = (weight * r - 1.0) / s
        slope = 0.5 * (digamma(0.5 * (nu + 1.0)) - digamma(0.5 * nu) - 1.0 / nu)
        dv = slope[g] - 0.5 * log1p + 0.5 * weight * r / v
        sums: Any = [np.bincount(g, weights=part, minlength=G) for part in (de, ds, dv)]
        grad = []
        if self.fixed is None and self.X.shape[1]:
            XB = np.stack([np.bincount(g, weights=de * column, minlength=G) for column in self.X.T], axis=1)
            grad.append(XB.sum(axis=0) if self.shared else XB.ravel())
        share = (nu - LEAST_FREEDOM) / (MOST_FREEDOM - LEAST_FREEDOM)
        grad += [sums[0], sums[1] * (scale - self.floor)]
        grad += [sums[2] * (MOST_FREEDOM - LEAST_FREEDOM) * share * (1.0 - share)]
        return -total / n, -np.concatenate(grad) / n
