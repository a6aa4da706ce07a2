"""The climb to the maximum of the grey-box likelihood: free parameters, objective, gradient, directions.

Covariances are free through the logarithms of their Cholesky factors, above a small floor, so that no step leaves the
set of covariances. The climb is quasi-Newton (L-BFGS), along directions in which the likelihood bends about equally:
first guessed from least squares, then from its second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from understudy.identify.labelled import Indices
from understudy.identify.likelihood import Layout, System, moments
from understudy.laws.base import Array


@dataclass(frozen=True, slots=True)
class Shape:
    """What is free: the design of the offsets, the noise of each value, the pattern of A, the smallest variances."""

    design: Array
    """(m, q): b of value i is design[i] @ beta, beta (q, d)."""
    noise: Indices
    """(m,) which noise each value has."""
    pattern: Array
    """(d, d) of 0 and 1: entries of A that are free."""
    floor: Array
    """(d,) added to every variance."""
    A: Array | None = None
    """Dynamics that stay as they are."""

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Number of free entries of A, beta, Q and R."""
        d, G = len(self.floor), int(self.noise.max()) + 1
        free = 0 if self.A is not None else int(self.pattern.sum())
        return free, self.design.shape[1] * d, G * d * (d + 1) // 2, G * d


@dataclass(frozen=True, slots=True)
class Parts:
    """The parameters: A (d, d), beta (q, d), Q (G, d, d), R (G, d)."""

    A: Array
    beta: Array
    Q: Array
    R: Array


def packed(parts: Parts, shape: Shape) -> Array:
    """The parameters as one free vector: Q less its floor by its Cholesky factor, with logarithms on the diagonal."""
    d = len(shape.floor)
    lower = np.tril_indices(d)
    # a variance that is all floor comes back from far out, not from infinity
    low = 1e-3 * shape.floor
    L = np.linalg.cholesky(parts.Q - np.diag(shape.floor - low))
    L[:, np.arange(d), np.arange(d)] = np.log(L[:, np.arange(d), np.arange(d)])
    free = [] if shape.A is not None else [parts.A[shape.pattern > 0.0]]
    return np.concatenate(
        [*free, parts.beta.ravel(), L[:, *lower].ravel(), np.log(np.maximum(parts.R - shape.floor, low)).ravel()]
    )


def unpacked(x: Array, shape: Shape) -> tuple[Parts, Array]:
    """The parameters of a free vector, and the Cholesky factors of Q less its floor."""
    d = len(shape.floor)
    nA, nb, nQ, _ = shape.sizes
    if shape.A is not None:
        A = shape.A
    else:
        A = np.zeros((d, d))
        A[shape.pattern > 0.0] = x[:nA]
    L = np.zeros((nQ // (d * (d + 1) // 2), d, d))
    L[:, *np.tril_indices(d)] = x[nA + nb : nA + nb + nQ].reshape(len(L), -1)
    diagonal = np.arange(d)
    L[:, diagonal, diagonal] = np.exp(L[:, diagonal, diagonal])
    Q = L @ L.transpose(0, 2, 1) + np.diag(shape.floor)
    R = np.exp(x[nA + nb + nQ :].reshape(-1, d)) + shape.floor
    return Parts(A, x[nA : nA + nb].reshape(-1, d), Q, R), L


def objective(x: Array, lay: Layout, theta: Indices, shape: Shape) -> tuple[float, Array]:
    """Minus the mean log-likelihood of a reading, and its gradient."""
    parts, L = unpacked(x, shape)
    A, Q, R = parts.A, parts.Q, parts.R
    G, d, n = len(Q), len(A), len(lay.seen)
    noise = shape.noise[theta]
    found = moments(System(A, (shape.design @ parts.beta).T[:, theta], Q, R, noise), lay)
    Qi = np.linalg.solve(Q, np.broadcast_to(np.eye(d), Q.shape))
    dA = np.einsum("gij,gjk->ik", Qi, _sums(found.wx, noise, G))
    m = len(shape.design)
    # the sum over the rows of a value first: Q is the same for all of them
    by_value = np.einsum("mij,mj->mi", Qi[shape.noise], _sums(found.w, theta, m))
    dbeta = shape.design.T @ by_value
    counts = np.bincount(noise, minlength=G)[:, None, None]
    dQ = 0.5 * (Qi @ _sums(found.ww, noise, G) @ Qi - counts * Qi)
    # Q = L L' + floor: d/dL = 2 dQ L, and the diagonal of L is an exponential
    dL = 2.0 * dQ @ L
    diagonal = np.arange(d)
    dL[:, diagonal, diagonal] *= L[:, diagonal, diagonal]
    at = noise[lay.seen]
    seen = np.bincount(at, minlength=G)[:, None]
    dR = 0.5 * (_sums(found.vv, at, G) / np.square(R) - seen / R) * (R - shape.floor)
    free = [] if shape.A is not None else [dA[shape.pattern > 0.0]]
    gradient = np.concatenate([*free, dbeta.ravel(), dL[:, *np.tril_indices(d)].ravel(), dR.ravel()])
    return -found.loglik / n, -gradient / n


def _sums(rows: Array, group: Indices, G: int) -> Array:
    """Sums within groups of rows that come last; groups come first."""
    flat = rows.reshape(-1, rows.shape[-1])
    out = np.stack([np.bincount(group, weights=row, minlength=G) for row in flat], axis=1)
    return np.asarray(out.reshape(G, *rows.shape[:-1]), dtype=float)


def maximise(
    lay: Layout, theta: Indices, shape: Shape, starts: list[Parts], steps: Array | None = None
) -> tuple[Parts, Array]:
    """The best of the climbs from the starts, and the directions in which the likelihood bends equally there.

    A few steps from each start, then the best one to the top. With `steps`, such directions from a fit nearby,
    it is there soon.
    """
    from scipy.optimize import minimize

    def value(x: Array) -> tuple[float, Array]:
        try:
            return objective(x, lay, theta, shape)
        except (np.linalg.LinAlgError, FloatingPointError):
            return 1e10, np.zeros_like(x)

    def climb(x: Array, T: Array, most: int) -> tuple[float, Array]:
        def along(s: Array) -> tuple[float, Array]:
            found, gradient = value(x + T @ s)
            return found, gradient @ T

        options = {"maxiter": most, "maxcor": 30, "ftol": 1e-10, "gtol": 1e-6}
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            found = minimize(along, np.zeros_like(x), jac=True, method="L-BFGS-B", options=options)
        return float(found.fun), x + T @ found.x

    if steps is not None:
        _, x = climb(packed(starts[0], shape), steps, 60)
        return unpacked(x, shape)[0], steps
    tried = [climb(packed(parts, shape), _steps(parts, lay, theta, shape), 25) for parts in starts]
    best, x = min(tried, key=lambda one: one[0])
    for _ in range(8):
        before = best
        steps = _curved(lambda x: value(x)[1], x)
        best, x = climb(x, steps, 40)
        if before - best < 1e-8:
            break
    return unpacked(x, shape)[0], np.asarray(steps)


def _curved(gradient: Callable[[Array], Array], x: Array) -> Array:
    """Directions in which the likelihood bends equally here, from its second derivatives; flat ones are left short."""
    h, here = 1e-5, gradient(x)
    H = np.stack([(gradient(x + h * e) - here) / h for e in np.eye(len(x))])
    curvature, directions = np.linalg.eigh((H + H.T) / 2.0)
    curvature = np.maximum(np.abs(curvature), max(1e-9 * np.abs(curvature).max(), 1e-4))
    return np.asarray(directions / np.sqrt(curvature))


def _steps(parts: Parts, lay: Layout, theta: Indices, shape: Shape) -> Array:
    """Directions in which the likelihood bends about equally, as columns: the climb is made along them.

    If the states were seen, row i of (A, b) would have the information M / Q_ii a reading, with M the mean of
    (x, u)(x, u)' for the state before and the row u of the design. So M^-1/2 sqrt(Q_ii) makes it the identity.
    """
    d = len(shape.floor)
    nA, nb, nQ, nR = shape.sizes
    T = np.eye(nA + nb + nQ + nR)
    q = shape.design.shape[1]
    u = np.concatenate([lay.Y.T, shape.design[theta[lay.seen]]], axis=1)
    M = u.T @ u / len(u) + 1e-8 * np.eye(d + q)
    sd = np.sqrt(np.einsum("gii->gi", parts.Q).mean(axis=0))
    number = np.full((d, d), -1)
    if nA:
        number[shape.pattern > 0.0] = np.arange(nA)
    for i in range(d):
        own = number[i][number[i] >= 0]
        place = np.concatenate([own, nA + np.arange(q) * d + i]).astype(int)
        part = np.concatenate([np.flatnonzero(number[i] >= 0), d + np.arange(q)]).astype(int)
        K = np.linalg.cholesky(M[np.ix_(part, part)])
        T[np.ix_(place, place)] = sd[i] * np.linalg.solve(K, np.eye(len(part))).T
    return T
