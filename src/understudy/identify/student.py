"""Regression with Student-t noise in groups: heavy tails are part of the law, not bad samples.

::

    y_k = c_g + B_g' x_k + e_k,    e_k ~ s_g t(nu_g),    g = group of row k

One channel. All parameters are climbed at once, by the gradient in closed form (degrees of freedom included), from
robust least squares.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from understudy.identify.labelled import Indices
from understudy.identify.regression import normal_regression
from understudy.laws.base import Array

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
    X: Array, y: Array, group: Indices, G: int, *, shared: bool, floor: float = 0.0, fixed: Array | None = None
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
    group: Indices
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
