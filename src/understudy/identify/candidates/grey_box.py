"""The grey-box candidate: a level that decays, a source that depends on theta, and a noisy sensor.

::

    x_k = A x_{k-1} + b(theta_k) + w_k,    w_k ~ N(0, Q(theta_k)),    x_0 ~ N(mean0, cov0) in every segment
    y_k = x_k + v_k,                       v_k ~ N(0, R(theta_k)),    R diagonal, no y_k where a reading is missing

There is one state for each channel. The dynamics A are shared, so the state goes on when theta moves. This is the
balance of a room: A is what ventilation leaves, b what people add. The offset b is free for each value, or with
``offset="linear"`` it is c + beta theta for values that are numbers.

*Likelihood.* Given the readings, the states are jointly normal, and their precision L is block tridiagonal. A banded
Cholesky factor of L gives everything at once, for all segments together:

* the smoothed states xhat, L xhat = r;
* log p(y) = log p(xhat, y) - log p(xhat given y), where the second term is a determinant;
* the covariances of neighbouring states, the entries of L^-1 inside the band. With G_k = L_{k+1,k} L_kk^-1 of the
  factor, Sigma_kk = (L_kk L_kk')^-1 + G_k' Sigma_{k+1,k+1} G_k, linear in the unknown Sigma: a second banded system.

The gradient is the mean of the gradient of log p(x, y) under the smoothed law (Fisher's identity):
d/dA = sum Q^-1 E[w_k x_{k-1}'], d/db = sum Q^-1 E[w_k], d/dQ = (sum Q^-1 E[w w'] Q^-1 - Q^-1) / 2. A test holds the
likelihood against `us.loglik` of the switched Gauss-Markov model.

*Optimisation.* L-BFGS from several starts. Covariances are parametrised by the logarithms of their Cholesky factors
above a small floor, so every step stays among covariances. Directions are scaled so that the likelihood has about the
same curvature along each: first by least squares, then by second derivatives.

*Outliers.* `robust` trims. The filter of the present fit goes through the readings. A reading further than five
standard deviations from its prediction counts as missing. If more than four in a row would, the level has jumped: they
stay, and the segment is cut before the first of them. The fit is repeated until the same readings are left out, up to
one in a thousand. At most one reading in a hundred of a value (five, for values with few) is left out or cut at. A
normal law passes five standard deviations once in 1.7 million, so clean data lose nothing. Where more readings lie out
there, the noise has heavy tails, and the normal law describes the other 99 percent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from understudy._types import Array, Index, Mask
from understudy.errors import ConfigurationError
from understudy.identify.candidates import Candidate
from understudy.identify.candidates.autoregressive import (
    LARGEST_RADIUS,
    allowance,
    distance_limit,
    heavy_tails,
    normal_regression,
)
from understudy.identify.prediction import Rows, groups, kalman_filter, lags, rows_of, start_law
from understudy.models.gauss_markov import GaussMarkov, spectral_radius
from understudy.models.model import Model

if TYPE_CHECKING:
    from understudy.identify.history import History


# The likelihood and its gradient ------------------------------------------------------------------


class Layout(NamedTuple):
    """Where things stand: one node for each row and one before each segment; which rows have a reading."""

    node: Index
    """(N,) the node of each row's state; the node before it is the state before the row."""
    zero: Index
    """The node of x_0 of each segment."""
    seen: Index
    """Rows with a reading."""
    Y: Array
    """Their readings (d, n)."""
    mean0: Array
    cov0: Array

    @property
    def nodes(self) -> int:
        """Number of states."""
        return len(self.node) + len(self.zero)


class Moments(NamedTuple):
    """The log-likelihood, and what the gradient is made of, row by row; rows come last."""

    loglik: float
    w: Array
    """(d, N) E[w_k]"""
    ww: Array
    """(d, d, N) E[w_k w_k']"""
    wx: Array
    """(d, d, N) E[w_k x_{k-1}']"""
    vv: Array
    """(d, n) E[v_k^2] of the rows with a reading"""


class System(NamedTuple):
    """A (d, d); for each row the offset b (d, N), and which of the noises Q (G, d, d), R (G, d) it has."""

    A: Array
    b: Array
    Q: Array
    R: Array
    noise: Index


def layout(rows: Rows, mean0: Array, cov0: Array) -> Layout:
    """The layout of these rows."""
    opening = rows.opening
    node = np.arange(len(rows.Y)) + np.cumsum(opening)
    seen = np.flatnonzero(rows.used)
    return Layout(node, node[opening] - 1, seen, np.ascontiguousarray(rows.Y[seen].T), mean0, cov0)


def moments(system: System, lay: Layout) -> Moments:
    """Log-likelihood and smoothed moments.

    >>> rows = Rows(np.array([[1.0]]), np.array([0]), np.array([0]), np.array([True]))
    >>> one = np.ones((1, 1))
    >>> system = System(0.5 * one, 0.0 * one, one[None], one, np.array([0]))
    >>> round(moments(system, layout(rows, np.zeros(1), 4.0 * one)).loglik, 9)  # y_1 ~ N(0, 0.25 * 4 + 1 + 1)
    -1.634911344
    """
    from scipy.linalg import cho_solve_banded, cholesky_banded

    A, b, Q, R, noise = system
    d, n = len(A), lay.nodes
    node, before, zero = lay.node, lay.node - 1, lay.zero
    seen, at = node[lay.seen], noise[lay.seen]
    Qi: Array = np.asarray(np.linalg.solve(Q, np.broadcast_to(np.eye(d), Q.shape)), dtype=float)
    start = np.linalg.solve(lay.cov0, np.eye(d))
    precision = (1.0 / R).T[:, at]
    # the precision of the states: blocks D on the diagonal, F below it; r the right-hand side
    D, F, r = np.zeros((d, d, n)), np.zeros((d, d, n)), np.zeros((d, n))
    D[:, :, node] = _spread(Qi, noise)
    D[:, :, before] += _spread(A.T @ Qi @ A, noise)
    F[:, :, before] = _spread(-Qi @ A, noise)
    D[:, :, zero] += start[:, :, None]
    for i in range(d):
        D[i, i, seen] += precision[i]
    Qb = np.einsum("ijk,jk->ik", _spread(Qi, noise), b)
    r[:, node] = Qb
    r[:, before] -= A.T @ Qb
    r[:, zero] += (start @ lay.mean0)[:, None]
    r[:, seen] += precision * lay.Y
    factor = cholesky_banded(_band(D, F), overwrite_ab=True, lower=True, check_finite=False)
    x = cho_solve_banded((factor, True), r.T.ravel(), check_finite=False).reshape(n, d).T
    S, C = _covariances(factor, n, d)

    w = x[:, node] - A @ x[:, before] - b
    v = lay.Y - x[:, seen]
    u = x[:, zero] - lay.mean0[:, None]
    squares = np.einsum("ik,ijk,jk->", w, _spread(Qi, noise), w) + np.sum(precision * v * v)
    squares += np.einsum("ik,ij,jk->", u, start, u)
    counts = np.bincount(noise, minlength=len(Q))
    logs = counts @ np.linalg.slogdet(Q)[1] + np.bincount(at, minlength=len(Q)) @ np.log(R).sum(axis=1)
    logs += len(zero) * np.linalg.slogdet(lay.cov0)[1] + 2.0 * np.log(factor[0]).sum()
    loglik = -0.5 * float(squares + logs + lay.Y.size * math.log(2.0 * math.pi))

    # cov(w_k, x_{k-1}) = cov(x_k, x_{k-1}) - A cov(x_{k-1})
    cross = C[:, :, before]
    cwx = cross - np.einsum("ij,jlk->ilk", A, S[:, :, before])
    # cov(w_k) = cov(x_k) - A cov(x_{k-1}, x_k) - cov(w_k, x_{k-1}) A'
    cww = S[:, :, node] - np.einsum("ij,ljk->ilk", A, cross) - np.einsum("ijk,lj->ilk", cwx, A)
    ww = w[:, None] * w[None, :] + cww
    wx = w[:, None] * x[None, :, before] + cwx
    vv = v * v + np.einsum("iik->ik", S)[:, seen]
    return Moments(loglik, w, ww, wx, vv)


def _spread(matrices: Array, which: Index) -> Array:
    """The matrix of each row, rows last."""
    return np.ascontiguousarray(matrices.transpose(1, 2, 0))[:, :, which]


def _band(D: Array, F: Array) -> Array:
    """The band below the diagonal, as LAPACK wants it: entry (i, j) of the matrix stands at (i - j, j)."""
    d, _, n = D.shape
    band = np.zeros((n, d, 2 * d))
    for i in range(d):
        for j in range(d):
            if i >= j:
                band[:, j, i - j] += D[i, j]
            band[:, j, d + i - j] += F[i, j]
    return band.reshape(n * d, 2 * d).T


def _covariances(factor: Array, n: int, d: int) -> tuple[Array, Array]:
    """Sigma_kk and Sigma_{k+1,k} of every node, nodes last, from the banded factor."""
    from scipy.linalg.lapack import dtbtrs

    band = factor.T.reshape(n, d, 2 * d)
    K, B = np.zeros((d, d, n)), np.zeros((d, d, n))
    for i in range(d):
        for j in range(d):
            if i >= j:
                K[i, j] = band[:, j, i - j]
            B[i, j, :-1] = band[:-1, j, d + i - j]
    inverse = _inverse(K)
    G = np.einsum("ijk,jlk->ilk", B, inverse)
    # vec Sigma_k - (G_k' (x) G_k') vec Sigma_{k+1} = vec (L_k L_k')^-1, an upper triangular band
    m = d * d
    M = np.einsum("cak,ebk->abcek", G, G).reshape(m, m, n)
    kd = 2 * m - 1
    upper = np.zeros((n, m, kd + 1))
    for p in range(m):
        for q in range(m):
            upper[1:, q, kd - (m + q - p)] = -M[p, q, :-1]
    right = np.einsum("jik,jlk->kil", inverse, inverse).reshape(-1, 1)
    solved = dtbtrs(upper.reshape(n * m, kd + 1).T, right, uplo="U", diag="U", overwrite_b=1)[0]
    S = np.ascontiguousarray(solved.reshape(n, d, d).transpose(1, 2, 0))
    S = (S + S.transpose(1, 0, 2)) / 2.0
    C = np.zeros((d, d, n))
    C[:, :, :-1] = -np.einsum("ijk,jlk->ilk", S[:, :, 1:], G[:, :, :-1])
    return S, C


def _inverse(K: Array) -> Array:
    """Inverses of lower triangular matrices (d, d, n), by forward substitution."""
    X = np.zeros_like(K)
    for i in range(len(K)):
        X[i, i] = 1.0 / K[i, i]
        for j in range(i):
            X[i, j] = -np.einsum("lk,lk->k", K[i, j:i], X[j:i, j]) / K[i, i]
    return X


# Optimisation of the likelihood -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """What is free: the design of the offsets, the noise of each value, the pattern of A, the smallest variances."""

    design: Array
    """(m, q): b of value i is design[i] @ beta, beta (q, d)."""
    noise: Index
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


def pack(parts: Parts, shape: Shape) -> Array:
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


def unpack(x: Array, shape: Shape) -> tuple[Parts, Array]:
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


def objective(x: Array, lay: Layout, theta: Index, shape: Shape) -> tuple[float, Array]:
    """Minus the mean log-likelihood of a reading, and its gradient."""
    parts, L = unpack(x, shape)
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


def _sums(rows: Array, group: Index, G: int) -> Array:
    """Sums within groups of rows that come last; groups come first."""
    flat = rows.reshape(-1, rows.shape[-1])
    out = np.stack([np.bincount(group, weights=row, minlength=G) for row in flat], axis=1)
    return np.asarray(out.reshape(G, *rows.shape[:-1]), dtype=float)


def maximise(
    lay: Layout, theta: Index, shape: Shape, starts: list[Parts], steps: Array | None = None
) -> tuple[Parts, Array]:
    """The best optimum from the starts, and the directions in which the likelihood bends equally there.

    A few steps from each start, then the best one to the top. With `steps`, such directions from a fit nearby,
    it is there soon.
    """
    from scipy.optimize import minimize

    def value(x: Array) -> tuple[float, Array]:
        try:
            return objective(x, lay, theta, shape)
        except (np.linalg.LinAlgError, FloatingPointError):
            return 1e10, np.zeros_like(x)

    def optimise(x: Array, T: Array, most: int) -> tuple[float, Array]:
        def along(s: Array) -> tuple[float, Array]:
            found, gradient = value(x + T @ s)
            return found, gradient @ T

        options = {"maxiter": most, "maxcor": 30, "ftol": 1e-10, "gtol": 1e-6}
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            found = minimize(along, np.zeros_like(x), jac=True, method="L-BFGS-B", options=options)
        return float(found.fun), x + T @ found.x

    if steps is not None:
        _, x = optimise(pack(starts[0], shape), steps, 60)
        return unpack(x, shape)[0], steps
    tried = [optimise(pack(parts, shape), _steps(parts, lay, theta, shape), 25) for parts in starts]
    best, x = min(tried, key=lambda one: one[0])
    for _ in range(8):
        before = best
        steps = _curvature_directions(lambda x: value(x)[1], x)
        best, x = optimise(x, steps, 40)
        if before - best < 1e-8:
            break
    return unpack(x, shape)[0], np.asarray(steps)


def _curvature_directions(gradient: Callable[[Array], Array], x: Array) -> Array:
    """Directions in which the likelihood bends equally here, from its second derivatives; flat ones are left short."""
    h, here = 1e-5, gradient(x)
    H = np.stack([(gradient(x + h * e) - here) / h for e in np.eye(len(x))])
    curvature, directions = np.linalg.eigh((H + H.T) / 2.0)
    curvature = np.maximum(np.abs(curvature), max(1e-9 * np.abs(curvature).max(), 1e-4))
    return np.asarray(directions / np.sqrt(curvature))


def _steps(parts: Parts, lay: Layout, theta: Index, shape: Shape) -> Array:
    """Directions in which the likelihood bends about equally, as columns: the optimisation goes along them.

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


# Outliers and jumps -------------------------------------------------------------------------------


LONGEST = 4
"""Bad samples in a row; more are a jump of the level."""
_APART = 3  # a bad sample disturbs the predictions of those after it, which are judged once it is gone


def set_aside(models: list[GaussMarkov], rows: Rows) -> Rows:
    """The rows without bad samples, cut at jumps; `models` has one for each label.

    >>> models = [GaussMarkov(0.5, 1.0, 1.0, 0.1, mean0=0.0, cov0=1.0)]
    >>> y, zeros = np.zeros((200, 1)), np.zeros(200, dtype=np.intp)
    >>> y[50:54] = 700.0
    >>> rows = set_aside(models, Rows(y, zeros, np.array([0]), np.ones(200, dtype=bool)))
    >>> np.flatnonzero(~rows.used).tolist()
    [50, 51, 52, 53]
    """
    limit = distance_limit(rows.dim)
    m = len(models)
    most = np.array([allowance(int(n)) for n in np.bincount(rows.theta[rows.used], minlength=m)])
    whole, aside, cuts = rows, np.zeros(len(rows.Y), dtype=bool), rows.opening
    for _ in range(200):
        left = most - np.bincount(rows.theta[aside | (cuts & ~whole.opening)], minlength=m)
        distance = _distances(models, rows)
        marked = _first_of_each(np.nan_to_num(distance, nan=0.0), limit, left[rows.theta] > 0)
        marked = _within_allowance(marked, distance, rows.theta, left)
        if not marked.size:
            break
        aside[marked] = True
        for first, last in _runs(aside, whole.used, cuts):
            aside[first : last + 1] = False
            cuts = cuts.copy()
            cuts[first] = True
        Y = np.where(aside[:, None], np.nan, whole.Y)
        rows = Rows(Y, whole.theta, np.flatnonzero(cuts), whole.used & ~aside)
    return replace(rows)


def _distances(models: list[GaussMarkov], rows: Rows) -> np.ndarray:
    """Squared lengths of the scores; NaN where no reading counts."""
    return np.concatenate(
        [np.square(kalman_filter(models, rows.Y[s], rows.theta[s])[1]).sum(axis=1) for s in rows.pieces]
    )


def _first_of_each(distance: np.ndarray, limit: float, open_: Mask) -> Index:
    """The far ones that have no other far one close before them."""
    far = np.flatnonzero((distance > limit) & open_)
    return far[np.diff(far, prepend=-_APART - 1) > _APART]


def _within_allowance(marked: Index, distance: np.ndarray, theta: Index, left: np.ndarray) -> Index:
    """Of each value no more than may still be set aside: the furthest."""
    kept = []
    for i, most in enumerate(left):
        mine = marked[theta[marked] == i]
        kept.append(mine[np.argsort(-distance[mine], kind="stable")[: max(int(most), 0)]])
    return np.sort(np.concatenate(kept))


def _runs(aside: Mask, used: Mask, cuts: Mask) -> list[tuple[int, int]]:
    """Blocks of more than LONGEST readings set aside with none kept between them, within a segment."""
    at = np.flatnonzero(used)
    flags, edge = aside[at], cuts[at]
    found = []
    start = None
    for position in np.flatnonzero(flags):
        if start is None or not flags[position - 1] or edge[position]:
            start = position
        if position - start == LONGEST:
            stop = position
            while stop + 1 < len(at) and flags[stop + 1] and not edge[stop + 1]:
                stop += 1
            found.append((int(at[start]), int(at[stop])))
    return found


# The candidate ------------------------------------------------------------------------------------


_FLOOR = 1e-6  # smallest variance beside that of the one-step prediction: the likelihood may ask for none at all
_SHARES = (0.05, 0.3, 0.8)  # of the one-step prediction error that a start gives to the sensor
_ROUNDS = 6
_CHOICES = {"noise": ("by class", "shared"), "offset": ("by class", "linear"), "dynamics": ("full", "diagonal")}


def fit_greybox(
    history: History,
    *,
    robust: bool = True,
    noise: str = "by class",
    offset: str = "by class",
    dynamics: str = "full",
) -> Candidate:
    """The grey-box model, one Gauss-Markov model for each value of the private parameter.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> def room(v):
    ...     return us.GaussMarkov(A=0.9, C=1.0, Q=1.0 + 3.0 * v, R=0.5, b=40.0 + 10.0 * v, mean0=400.0, cov0=1.0)
    >>> theta = np.repeat([0, 1, 0, 1], 500)
    >>> y = us.sample(us.Family(room, [0, 1]).along(theta.tolist()), 2000, rng=2)
    >>> history = History(("y",), "theta", None, (), (0, 1), None, (Segment("1", None, y[:, None], theta),), ())
    >>> fit = fit_greybox(history)
    >>> fit, round(fit.parameters["A"], 2)
    (Candidate('grey-box', 2 values, 7 free parameters), 0.9)
    """
    chosen = {"noise": noise, "offset": offset, "dynamics": dynamics}
    for name, given in chosen.items():
        if given not in _CHOICES[name]:
            raise ConfigurationError(f"{name} = {given!r}; it must be one of {', '.join(map(repr, _CHOICES[name]))}")
    rows = rows_of(history)
    d, m = rows.dim, len(history.values)
    which, notes = groups(np.bincount(rows.theta[rows.used], minlength=m).tolist(), history.values)
    # channels in units of their own, so that all parameters are of moderate size
    location, unit = np.nanmean(rows.Y, axis=0), np.nanstd(rows.Y, axis=0)
    scaled = Rows((rows.Y - location) / unit, rows.theta, rows.starts, rows.used)
    mean0, cov0 = start_law(scaled, 1)
    design = _design(history, offset, which)
    pattern = np.ones((d, d)) if dynamics == "full" else np.eye(d)
    first, variance = _start(scaled, design, which, robust)
    shape = Shape(design, which if noise == "by class" else np.zeros(m, dtype=np.intp), pattern, _FLOOR * variance)
    starts = [_split(first, shape, variance, share) for share in _SHARES]
    parts, kept, rounds = _optimise(scaled, shape, starts, (mean0, cov0), robust)
    radius = spectral_radius(parts.A)
    if radius > LARGEST_RADIUS:
        notes = (
            *notes,
            f"a root of modulus {radius:.6g} was moved to {LARGEST_RADIUS:.6g}: the level must come to rest.",
        )
        A = parts.A * (LARGEST_RADIUS / radius)
        held = Shape(shape.design, shape.noise, shape.pattern, shape.floor, A)
        lay = layout(kept, mean0, cov0)
        parts, _ = maximise(lay, kept.theta, held, [Parts(A, parts.beta, parts.Q, parts.R)])
    notes = (*notes, *_remarks(history, rows, kept, rounds))
    told = {"noise": "shared noise", "offset": "linear offset", "dynamics": "diagonal"}
    name = ", ".join(["grey-box", *(told[key] for key, given in chosen.items() if given != _CHOICES[key][0])])
    return _candidate(name, history, parts, shape, (location, unit, mean0, cov0), notes)


# Starts, rounds, results ---------------------------------------------------------------------------------


def _design(history: History, offset: str, which: Index) -> Array:
    if offset == "by class":
        return np.eye(int(which.max()) + 1)[which]
    numbers = [v for v in history.values if isinstance(v, (int, float))]
    if len(numbers) < len(history.values):
        raise ConfigurationError("offset = 'linear' needs values that are numbers; these are names or bins")
    values = np.array(numbers, dtype=float)
    return np.stack([np.ones(len(values)), values], axis=1)


def _start(rows: Rows, design: Array, which: Index, robust: bool) -> tuple[tuple[Array, Array], Array]:
    """A and beta by least squares on the reading before, corrected for sensor noise, and the one-step variance."""
    at, X = lags(rows, 1)
    group = which[rows.theta[at]]
    fit = normal_regression(X, rows.Y[at], group, int(which.max()) + 1, shared=True, robust=robust)
    A = fit.B[0].T
    A = A * min(1.0, 0.999 / max(spectral_radius(A), 1e-12))
    weights = np.bincount(rows.theta[rows.used], minlength=len(design)).astype(float)
    root = np.sqrt(weights + 1e-9)[:, None]
    beta: Array = np.asarray(np.linalg.lstsq(root * design, root * fit.c[which], rcond=None)[0], dtype=float)
    share = np.bincount(group, minlength=len(fit.S)) / len(group)
    return (A, beta), np.einsum("g,gii->i", share, fit.S)


def _split(first: tuple[Array, Array], shape: Shape, variance: Array, share: float) -> Parts:
    """A start with this share of the one-step variance given to the sensor.

    Sensor noise makes the least-squares A too small, so it is moved towards one by as much.
    """
    A, beta = first
    G = int(shape.noise.max()) + 1
    closer = A + (np.eye(len(A)) - A) * share * 0.5 if share > 0.1 else A
    Q = np.tile(np.diag(np.maximum((1.0 - share) * variance, 2.0 * shape.floor)), (G, 1, 1))
    R = np.tile(np.maximum(0.5 * share * variance, 2.0 * shape.floor), (G, 1))
    return Parts(closer * shape.pattern, beta * (1.0 - 0.5 * share if share > 0.1 else 1.0), Q, R)


def _optimise(
    rows: Rows, shape: Shape, starts: list[Parts], initial: tuple[Array, Array], robust: bool
) -> tuple[Parts, Rows, int]:
    """Fits and settings aside by turns, until (nearly) the same readings are set aside; and the rows that counted."""
    kept = set_aside(models_of(starts[0], shape, initial), rows) if robust else rows
    steps, met = None, {kept.used.tobytes()}
    for number in range(1, _ROUNDS + 1):
        parts, steps = maximise(layout(kept, *initial), kept.theta, shape, starts, steps)
        if not robust:
            return parts, kept, number
        again = set_aside(models_of(parts, shape, initial), rows)
        if int((again.used != kept.used).sum()) <= 1e-3 * int(rows.used.sum()) and len(again.starts) == len(
            kept.starts
        ):
            return parts, kept, number
        if again.used.tobytes() in met:
            break
        met.add(again.used.tobytes())
        kept, starts = again, [parts]
    return parts, kept, _ROUNDS + 1


def models_of(parts: Parts, shape: Shape, initial: tuple[Array, Array]) -> list[GaussMarkov]:
    """One model for each value, in the units of the fit."""
    b, C = shape.design @ parts.beta, np.eye(len(parts.A))
    return [
        GaussMarkov(parts.A, C, parts.Q[g], np.diag(parts.R[g]), b[i], 0.0, *initial, allow_unstable=True)
        for i, g in enumerate(shape.noise)
    ]


def _remarks(history: History, rows: Rows, kept: Rows, rounds: int) -> tuple[str, ...]:
    aside = int((rows.used & ~kept.used).sum())
    cuts = len(kept.starts) - len(rows.starts)
    notes = []
    if aside or cuts:
        notes.append(
            f"{aside} of {int(rows.used.sum())} readings were set aside as bad samples, "
            f"and the level was taken to jump at {cuts}."
        )
        m = len(history.values)
        gone, all_ = (np.bincount(rows.theta[mask], minlength=m) for mask in (rows.used & ~kept.used, rows.used))
        notes += heavy_tails(gone, all_, history.values)
    if rounds > _ROUNDS:
        notes.append("each fit set other readings aside than the one before; the last one stands.")
    return tuple(notes)


def _candidate(
    name: str,
    history: History,
    parts: Parts,
    shape: Shape,
    frame: tuple[Array, Array, Array, Array],
    notes: tuple[str, ...],
) -> Candidate:
    """Back in the units of the readings: y = location + unit y'."""
    location, unit, mean0, cov0 = frame
    d = len(location)
    A = parts.A * unit[:, None] / unit[None, :]
    Q = parts.Q * np.outer(unit, unit)
    R = parts.R * np.square(unit)
    # x' = A' x' + b'  ->  x = A x + unit b' + (I - A) location
    b = (shape.design @ parts.beta) * unit + location - A @ location
    start = location + unit * mean0, cov0 * np.outer(unit, unit)
    made = [GaussMarkov(A, np.eye(d), Q[g], np.diag(R[g]), b[i], 0.0, *start) for i, g in enumerate(shape.noise)]
    parameters: dict[str, Any] = {
        "values": list(history.values),
        "A": A.item() if d == 1 else A.tolist(),
        "b": b[:, 0].tolist() if d == 1 else b.tolist(),
        "Q": (Q[shape.noise, 0, 0] if d == 1 else Q[shape.noise]).tolist(),
        "R": (R[shape.noise, 0] if d == 1 else R[shape.noise]).tolist(),
        "mean0": start[0].tolist(),
        "cov0": start[1].tolist(),
    }
    low = np.argwhere((parts.R - 3.0 * shape.floor) < 0.0)
    if low.size:
        notes = (*notes, "the likelihood asks for no sensor noise at all in some channel: the state is seen as it is.")
    models: dict[Any, Model] = {value: made[i] for i, value in enumerate(history.values)}
    return Candidate(name, models, parameters, sum(shape.sizes), notes)
