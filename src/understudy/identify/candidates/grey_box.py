"""The grey-box candidate: a level that decays, a source that depends on theta, and a noisy sensor.

::

    x_k = A x_{k-1} + b(theta_k) + w_k,    w_k ~ N(0, Q(theta_k)),    x_0 ~ N(mean0, cov0) in every segment
    y_k = x_k + v_k,                       v_k ~ N(0, R(theta_k)),    R diagonal, no y_k where a reading is missing

There is one state for each channel. The dynamics A are shared, so the state goes on when theta moves. This is the
balance of a room: A is what ventilation leaves, b what people add. The offset b and the noise are free for each value;
values with few readings share those of a neighbour, so rows are in groups.

*Likelihood.* Given the readings, the states are jointly normal, and their precision is block tridiagonal. Elimination
and substitution (`_kernels.smooth`) give everything at once, for all segments together:

* the smoothed states xhat;
* log p(y) = log p(xhat, y) - log p(xhat given y), where the second term is a determinant;
* the covariances of neighbouring states, summed over the rows of a group.

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
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from understudy import text
from understudy._types import Array, Index, Mask, Value
from understudy.identify.candidates import Candidate, Rows, groups, kalman_filter, lags, rows_of, start_law
from understudy.identify.candidates.autoregressive import (
    LARGEST_RADIUS,
    allowance,
    by_value,
    distance_limit,
    furthest,
    heavy_tails,
    normal_regression,
)
from understudy.models.gauss_markov import GaussMarkov, spectral_radius
from understudy.models.model import Model
from understudy.transform.backend import integers, load_kernels

if TYPE_CHECKING:
    from understudy.identify.history import History


compiled, (kernels,) = load_kernels("understudy.identify", os.path.dirname(os.path.dirname(__file__)), ["_kernels"])
view: Any = np.asarray if compiled else memoryview


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
    """Their readings (n, d)."""
    group: Index
    """(N,) which offset and noise each row has."""
    mean0: Array
    cov0: Array
    nodes: tuple[Index, Index, Array]
    """Of each node: its group (-1 before a segment), whether it has a reading, and the reading (0 without)."""
    rows: list[Index]
    """The rows of each group."""
    read: list[Index]
    """Their readings, by position among all readings."""


class Parts(NamedTuple):
    """The parameters: A (d, d), b (G, d), Q (G, d, d), R (G, d)."""

    A: Array
    b: Array
    Q: Array
    R: Array


class Moments(NamedTuple):
    """The log-likelihood, and what the gradient is made of, summed over the rows of each group."""

    loglik: float
    w: Array
    """(G, d) E[w_k]"""
    ww: Array
    """(G, d, d) E[w_k w_k']"""
    wx: Array
    """(G, d, d) E[w_k x_{k-1}']"""
    vv: Array
    """(G, d) E[v_k^2] of the rows with a reading"""


def layout(rows: Rows, which: Index, mean0: Array, cov0: Array) -> Layout:
    """The layout of these rows; `which` is the group of each value."""
    opening, group = rows.opening, which[rows.theta]
    node = np.arange(len(rows.Y)) + np.cumsum(opening)
    seen = np.flatnonzero(rows.used)
    n = len(node) + len(rows.starts)
    groups_of, there, Y = np.full(n, -1), np.zeros(n, dtype=np.intp), np.zeros((n, rows.dim))
    groups_of[node], there[node[seen]], Y[node[seen]] = group, 1, rows.Y[seen]
    nodes = integers(groups_of), there, Y
    of_group = [np.flatnonzero(group == g) for g in range(int(which.max()) + 1)]
    read = [np.flatnonzero(group[seen] == g) for g in range(len(of_group))]
    return Layout(node, node[opening] - 1, seen, rows.Y[seen], group, mean0, cov0, nodes, of_group, read)


def moments(parts: Parts, lay: Layout) -> Moments:
    """Log-likelihood and smoothed moments.

    >>> rows = Rows(np.array([[1.0]]), np.array([0]), np.array([0]), np.array([True]))
    >>> one = np.ones((1, 1))
    >>> parts = Parts(0.5 * one, 0.0 * one, one[None], one)
    >>> round(moments(parts, layout(rows, np.array([0]), np.zeros(1), 4.0 * one)).loglik, 9)  # N(0, 0.25 * 4 + 1 + 1)
    -1.634911344
    """
    A, b, Q, R = parts
    (G, d), n = b.shape, len(lay.nodes[0])
    group, zero = lay.group, lay.zero
    Qi, start = _inverses(Q), np.linalg.solve(lay.cov0, np.eye(d))
    Qb = np.einsum("gij,gj->gi", Qi, b)
    x, (own, before, cross), vv = np.empty((n, d)), np.zeros((3, G, d, d)), np.zeros((G, d))
    given = (1.0 / R, Qi, A.T @ Qi @ A, Qi @ A, Qb, Qb @ A, start, start @ lay.mean0)
    work = np.empty(2 * n * d * d + 3 * d * d)
    which, there, Y = lay.nodes
    log_det = kernels.smooth(
        n, d, view(which), view(there), *(view(np.ascontiguousarray(part).reshape(-1)) for part in (Y, *given)),
        *(view(part.reshape(-1)) for part in (x, own, before, cross, vv, work)),
    )  # fmt: skip
    if not math.isfinite(log_det):
        raise np.linalg.LinAlgError("the precision of the states is not positive definite")
    past = x[lay.node - 1]
    w = x[lay.node] - past @ A.T - b[group]
    v = lay.Y - x[lay.node[lay.seen]]
    u = x[zero] - lay.mean0
    W = [w[mine] for mine in lay.rows]
    ww, wx = np.stack([e.T @ e for e in W]), np.stack([e.T @ past[mine] for e, mine in zip(W, lay.rows, strict=True)])
    errors = np.stack([np.einsum("ki,ki->i", v[mine], v[mine]) for mine in lay.read])
    squares = float(np.einsum("gij,gji->", Qi, ww) + (errors / R).sum())
    squares += float(np.einsum("ki,ij,kj->", u, start, u))
    logs = float(np.array([len(mine) for mine in lay.rows]) @ np.linalg.slogdet(Q)[1])
    logs += float(np.array([len(mine) for mine in lay.read]) @ np.log(R).sum(axis=1))
    logs += len(zero) * float(np.linalg.slogdet(lay.cov0)[1]) + log_det
    loglik = -0.5 * (squares + logs + lay.Y.size * math.log(2.0 * math.pi))
    # cov(w_k, x_{k-1}) = cov(x_k, x_{k-1}) - A cov(x_{k-1})
    cwx = cross - A @ before
    # cov(w_k) = cov(x_k) - A cov(x_{k-1}, x_k) - cov(w_k, x_{k-1}) A'
    cww = own - A @ cross.transpose(0, 2, 1) - cwx @ A.T
    return Moments(loglik, np.stack([e.sum(axis=0) for e in W]), ww + cww, wx + cwx, vv + errors)


def _inverses(Q: Array) -> Array:
    return np.asarray(np.linalg.solve(Q, np.broadcast_to(np.eye(Q.shape[1]), Q.shape)), dtype=float)


# Optimisation of the likelihood -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """What is free: the group of each value (m,), the smallest variances (d,), and A unless it stays as it is."""

    which: Index
    floor: Array
    A: Array | None = None

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Number of free entries of A, b, Q and R."""
        d, G = len(self.floor), int(self.which.max()) + 1
        return d * d if self.A is None else 0, G * d, G * d * (d + 1) // 2, G * d


def pack(parts: Parts, shape: Shape) -> Array:
    """The parameters as one free vector: Q less its floor by its Cholesky factor, with logarithms on the diagonal."""
    d = len(shape.floor)
    diagonal = np.arange(d)
    # a variance that is all floor comes back from far out, not from infinity
    low = 1e-3 * shape.floor
    L = np.asarray(np.linalg.cholesky(parts.Q - np.diag(shape.floor - low)), dtype=float)
    L[:, diagonal, diagonal] = np.log(L[:, diagonal, diagonal])
    log_R = np.log(np.maximum(parts.R - shape.floor, low))
    return _vector(shape, parts.A, parts.b, L, log_R)


def _vector(shape: Shape, A: Array, b: Array, L: Array, R: Array) -> Array:
    """What is free of these, one after the other."""
    free = [] if shape.A is not None else [A.ravel()]
    return np.concatenate([*free, b.ravel(), L[:, *np.tril_indices(L.shape[1])].ravel(), R.ravel()])


def unpack(x: Array, shape: Shape) -> tuple[Parts, Array]:
    """The parameters of a free vector, and the Cholesky factors of Q less its floor."""
    d = len(shape.floor)
    diagonal = np.arange(d)
    A, b, lower, log_R = np.split(x, np.cumsum(shape.sizes)[:-1])
    b = b.reshape(-1, d)
    L = np.zeros((len(b), d, d))
    L[:, *np.tril_indices(d)] = lower.reshape(len(b), -1)
    L[:, diagonal, diagonal] = np.exp(L[:, diagonal, diagonal])
    Q = L @ L.transpose(0, 2, 1) + np.diag(shape.floor)
    R = np.exp(log_R.reshape(-1, d)) + shape.floor
    return Parts(A.reshape(d, d) if shape.A is None else shape.A, b, Q, R), L


def objective(x: Array, lay: Layout, shape: Shape) -> tuple[float, Array]:
    """Minus the mean log-likelihood of a reading, and its gradient."""
    parts, L = unpack(x, shape)
    Q, R, n = parts.Q, parts.R, len(lay.seen)
    d = len(parts.A)
    found = moments(parts, lay)
    Qi = _inverses(Q)
    dA = np.einsum("gij,gjk->ik", Qi, found.wx)
    db = np.einsum("gij,gj->gi", Qi, found.w)
    counts = np.array([len(mine) for mine in lay.rows])[:, None, None]
    dQ = 0.5 * (Qi @ found.ww @ Qi - counts * Qi)
    # Q = L L' + floor: d/dL = 2 dQ L, and the diagonal of L is an exponential
    dL = 2.0 * dQ @ L
    diagonal = np.arange(d)
    dL[:, diagonal, diagonal] *= L[:, diagonal, diagonal]
    seen = np.array([len(mine) for mine in lay.read])[:, None]
    dR = 0.5 * (found.vv / np.square(R) - seen / R) * (R - shape.floor)
    return -found.loglik / n, -_vector(shape, dA, db, dL, dR) / n


_SETTLED = 1e-4  # nats of all readings together: a hundredth of a standard error


def maximise(lay: Layout, shape: Shape, starts: list[Parts], steps: Array | None = None) -> tuple[Parts, Array]:
    """The best optimum from the starts, and the directions in which the likelihood bends equally there.

    A few steps from each start, then the best one to the top. With `steps`, such directions from a fit nearby,
    it is there soon.
    """
    from scipy.optimize import minimize

    def value(x: Array) -> tuple[float, Array]:
        try:
            return objective(x, lay, shape)
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
    tried = [optimise(pack(parts, shape), _steps(parts, lay, shape), 10) for parts in starts]
    best, x = min(tried, key=lambda one: one[0])
    for _ in range(8):
        before = best
        steps = _curvature_directions(lambda x: value(x)[1], x)
        best, x = optimise(x, steps, 40)
        if (before - best) * len(lay.seen) < _SETTLED:
            break
    return unpack(x, shape)[0], np.asarray(steps)


def _curvature_directions(gradient: Callable[[Array], Array], x: Array) -> Array:
    """Directions in which the likelihood bends equally here, from its second derivatives; flat ones are left short."""
    h, here = 1e-5, gradient(x)
    H = np.stack([(gradient(x + h * e) - here) / h for e in np.eye(len(x))])
    curvature, directions = np.linalg.eigh((H + H.T) / 2.0)
    curvature = np.maximum(np.abs(curvature), max(1e-9 * np.abs(curvature).max(), 1e-4))
    return np.asarray(directions / np.sqrt(curvature))


def _steps(parts: Parts, lay: Layout, shape: Shape) -> Array:
    """Directions in which the likelihood bends about equally, as columns: the optimisation goes along them.

    If the states were seen, row i of (A, b) would have the information M / Q_ii a reading, with M the mean of
    (x, u)(x, u)' for the state before and the group u, one-hot. So M^-1/2 sqrt(Q_ii) makes it the identity.
    """
    G, d = parts.b.shape
    nA = shape.sizes[0]
    T = np.eye(sum(shape.sizes))
    u = np.concatenate([lay.Y, np.eye(G)[lay.group[lay.seen]]], axis=1)
    M = u.T @ u / len(u) + 1e-8 * np.eye(d + G)
    sd = np.sqrt(np.einsum("gii->gi", parts.Q).mean(axis=0))
    part = np.arange(0 if nA else d, d + G)
    turn = np.linalg.solve(np.linalg.cholesky(M[np.ix_(part, part)]), np.eye(len(part))).T
    for i in range(d):
        row = i * d + np.arange(d) if nA else np.arange(0)
        place = np.concatenate([row, nA + np.arange(G) * d + i])
        T[np.ix_(place, place)] = sd[i] * turn
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
        # squared lengths of the scores; NaN where no reading counts
        parts = [np.square(kalman_filter(models, rows.Y[s], rows.theta[s])[1]).sum(axis=1) for s in rows.pieces]
        distance = np.nan_to_num(np.concatenate(parts), nan=0.0)
        far = np.flatnonzero((distance > limit) & (left[rows.theta] > 0))
        far = far[np.diff(far, prepend=-_APART - 1) > _APART]
        if not far.size:
            break
        for i in range(m):
            mine = far[rows.theta[far] == i]
            aside[mine[furthest(distance[mine], limit, int(left[i]))]] = True
        for first, last in _long_runs(aside, whole.used, cuts):
            aside[first : last + 1] = False
            cuts[first] = True
        Y = np.where(aside[:, None], np.nan, whole.Y)
        rows = Rows(Y, whole.theta, np.flatnonzero(cuts), whole.used & ~aside)
    return rows


def _long_runs(aside: Mask, used: Mask, cuts: Mask) -> list[tuple[int, int]]:
    """Blocks of more than LONGEST readings set aside with none kept between them, within a segment."""
    at = np.flatnonzero(used)
    flags = aside[at]
    firsts = np.flatnonzero(cuts[at] | np.concatenate([[True], flags[1:] != flags[:-1]]))
    lasts = np.append(firsts[1:], len(at)) - 1
    long = flags[firsts] & (lasts - firsts >= LONGEST)
    return list(zip(at[firsts[long]].tolist(), at[lasts[long]].tolist(), strict=True))


# The candidate ------------------------------------------------------------------------------------


_FLOOR = 1e-6  # smallest variance beside that of the one-step prediction: the likelihood may ask for none at all
_SHARES = (0.05, 0.3, 0.8)  # of the one-step prediction error that a start gives to the sensor
_ROUNDS = 6


def fit_greybox(history: History, *, robust: bool = True) -> Candidate:
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
    rows = rows_of(history)
    which, notes = groups(rows.counts(len(history.values)), history.values)
    # channels in units of their own, so that all parameters are of moderate size
    location, unit = np.nanmean(rows.Y, axis=0), np.nanstd(rows.Y, axis=0)
    scaled = replace(rows, Y=(rows.Y - location) / unit)
    initial = start_law(scaled, 1)
    starts, floor = _starts(scaled, which, robust)
    shape = Shape(which, floor)
    parts, kept, settled = _optimise(scaled, shape, starts, initial, robust)
    radius = spectral_radius(parts.A)
    if radius > LARGEST_RADIUS:
        notes += (text.fit_note("root moved", radius=radius, to=LARGEST_RADIUS),)
        parts = parts._replace(A=parts.A * (LARGEST_RADIUS / radius))
        parts, _ = maximise(layout(kept, which, *initial), replace(shape, A=parts.A), [parts])
    gone, cuts = rows.used & ~kept.used, len(kept.starts) - len(rows.starts)
    if gone.any() or cuts:
        notes += (text.fit_note("readings set aside", aside=int(gone.sum()), of=int(rows.used.sum()), cuts=cuts),)
        notes += heavy_tails(rows.theta[rows.used], gone[rows.used], history.values)
    if not settled:
        notes += (text.fit_note("set aside unsettled"),)
    if (parts.R - 3.0 * floor < 0.0).any():
        notes += (text.fit_note("no sensor noise"),)
    return _candidate(history, parts, shape, (location, unit, *initial), notes)


def _starts(rows: Rows, which: Index, robust: bool) -> tuple[list[Parts], Array]:
    """Starts from least squares on the reading before, and the smallest variances.

    Each start gives another share of the one-step variance to the sensor. Sensor noise makes the least-squares A too
    small, so it is moved towards one by as much.
    """
    at, X = lags(rows, 1)
    group, G = which[rows.theta[at]], int(which.max()) + 1
    fit = normal_regression(X, rows.Y[at], group, G, shared=True, robust=robust)
    A = fit.B[0].T
    A = A * min(1.0, 0.999 / max(spectral_radius(A), 1e-12))
    variance = np.einsum("g,gii->i", np.bincount(group, minlength=G) / len(group), fit.S)
    floor = _FLOOR * variance
    starts = []
    for share in _SHARES:
        closer = 0.5 * share if share > 0.1 else 0.0
        Q = np.tile(np.diag(np.maximum((1.0 - share) * variance, 2.0 * floor)), (G, 1, 1))
        R = np.tile(np.maximum(0.5 * share * variance, 2.0 * floor), (G, 1))
        starts.append(Parts(A + closer * (np.eye(len(A)) - A), fit.c * (1.0 - closer), Q, R))
    return starts, floor


def _optimise(
    rows: Rows, shape: Shape, starts: list[Parts], initial: tuple[Array, Array], robust: bool
) -> tuple[Parts, Rows, bool]:
    """Fits and settings aside by turns, until (nearly) the same readings are set aside.

    Returns the parameters, the rows that counted, and whether the same readings were set aside in the end.
    """
    kept = set_aside(models_of(starts[0], shape, initial), rows) if robust else rows
    steps, met = None, {kept.used.tobytes()}
    for _ in range(_ROUNDS):
        parts, steps = maximise(layout(kept, shape.which, *initial), shape, starts, steps)
        if not robust:
            return parts, kept, True
        again = set_aside(models_of(parts, shape, initial), rows)
        changed = int((again.used != kept.used).sum())
        if changed <= 1e-3 * int(rows.used.sum()) and len(again.starts) == len(kept.starts):
            return parts, kept, True
        if again.used.tobytes() in met:
            break
        met.add(again.used.tobytes())
        kept, starts = again, [parts]
    return parts, kept, False


def models_of(parts: Parts, shape: Shape, initial: tuple[Array, Array]) -> list[GaussMarkov]:
    """One model for each value, in the units of the fit."""
    A, b, Q, R = parts
    C = np.eye(len(A))
    return [GaussMarkov(A, C, Q[g], np.diag(R[g]), b[g], 0.0, *initial, allow_unstable=True) for g in shape.which]


def _candidate(
    history: History, parts: Parts, shape: Shape, frame: tuple[Array, Array, Array, Array], notes: tuple[str, ...]
) -> Candidate:
    """Back in the units of the readings: y = location + unit y'."""
    location, unit, mean0, cov0 = frame
    A = parts.A * unit[:, None] / unit[None, :]
    # x' = A' x' + b'  ->  x = A x + unit b' + (I - A) location
    b = parts.b * unit + location - A @ location
    found = Parts(A, b, parts.Q * np.outer(unit, unit), parts.R * np.square(unit))
    start = location + unit * mean0, cov0 * np.outer(unit, unit)
    made = models_of(found, shape, start)
    parameters = {
        "values": list(history.values),
        "A": A.item() if A.size == 1 else A.tolist(),
        "b": by_value(b[shape.which]),
        "Q": by_value(found.Q[shape.which]),
        "R": by_value(found.R[shape.which]),
        "mean0": start[0].tolist(),
        "cov0": start[1].tolist(),
    }
    models: dict[Value, Model] = dict(zip(history.values, made, strict=True))
    return Candidate("grey-box", models, parameters, sum(shape.sizes), notes)
