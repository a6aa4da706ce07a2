"""How the distortion changes with the model that plays the part: exact derivatives of the recursion.

A value x of the pseudo parameter gives a Gauss-Markov model, so its matrices are functions of x, of the user's making.
Their derivatives are found by differences of fourth order, exact where they are polynomials of degree four or less.
From there on nothing is approximated: the Kalman recursion, the moments of the difference D_k and E d(D_k) are
differentiated as they stand, step by step, with ::

    Sigma = A P A' + Q,   S = C Sigma C' + R = L L',   M = Sigma C' L^-T,   P+ = Sigma - M M'
    dL = L phi(L^-1 dS L^-T)          phi: lower triangle, half of the diagonal
    (delta, ~x)+ = F (delta, ~x) + f + N z,      D = h (delta, ~x) + g + (L - ~L) z          as in `moments`
    d E D^2 = 2 m dm + dV,            d E |D| = erf(m / (s sqrt 2)) dm + exp(-m^2 / 2 s^2) / (s sqrt(2 pi)) dV

All targets go through the recursion together. Where E |D| has a kink (s = 0 and m = 0) the slope is taken as zero.

Matrices of many targets with their derivatives: forward-mode differentiation of what the recursion needs.

A `Tangent` holds a matrix of each target (J, ...) and its derivatives in k coordinates, (J, k, ...). Products follow
the product rule; a Cholesky factor follows dL = L phi(L^-1 dS L^-T), phi the lower triangle with half of its diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from understudy._types import Array
from understudy.distortion.exact import Filters, linear_form
from understudy.distortion.measures import Measure
from understudy.models.gauss_markov import GaussMarkov, spectral_radius
from understudy.models.model import Model

# Matrices of many targets with their derivatives: forward-mode differentiation of what the recursion  ---


class Tangent(NamedTuple):
    """A matrix of each target (J, ...) and its derivatives (J, k, ...)."""

    value: Array
    slope: Array


def times(X: Tangent, Y: Tangent) -> Tangent:
    """X Y."""
    x, y = X.value[:, None], Y.value[:, None]
    return Tangent(X.value @ Y.value, X.slope @ y + x @ Y.slope)


def plus(X: Tangent, Y: Tangent) -> Tangent:
    """X + Y."""
    return Tangent(X.value + Y.value, X.slope + Y.slope)


def turned(X: Tangent) -> Tangent:
    """X'."""
    return Tangent(X.value.swapaxes(-1, -2), X.slope.swapaxes(-1, -2))


def column(X: Tangent) -> Tangent:
    """Vectors as matrices of one column."""
    return Tangent(X.value[..., None], X.slope[..., None])


def exact(value: Any, slope: Any) -> Tangent:
    """A tangent of what linear algebra gives, which is float64, though its types do not say so."""
    return Tangent(value, slope)


def factor(S: Tangent) -> Tangent:
    """The lower Cholesky factor: dL = L phi(L^-1 dS L^-T)."""
    L = np.linalg.cholesky(S.value)
    inner = np.linalg.solve(L[:, None], np.linalg.solve(L[:, None], S.slope).swapaxes(-1, -2))
    half = np.tril(inner)
    at = np.arange(L.shape[-1])
    half[..., at, at] *= 0.5
    return exact(L, L[:, None] @ half)


def lowered(Y: Tangent, L: Tangent) -> Tangent:
    """Y L^-T: M = Sigma C' L^-T, and dM = (dY - M dL') L^-T."""
    M = np.linalg.solve(L.value, Y.value.swapaxes(-1, -2)).swapaxes(-1, -2)
    rest = Y.slope - M[:, None] @ L.slope.swapaxes(-1, -2)
    return exact(M, np.linalg.solve(L.value[:, None], rest.swapaxes(-1, -2)).swapaxes(-1, -2))


# How the distortion changes with the model that plays the part: exact derivatives of the recursion ---


_STEP = 2e-3  # of the width of the set, between two points of a difference
# weights of the five points of a difference of fourth order, in the middle or at the edge of them
_CENTRAL = (1.0 / 12.0, -2.0 / 3.0, 0.0, 2.0 / 3.0, -1.0 / 12.0)
_FORWARD = (-25.0 / 12.0, 4.0, -3.0, 4.0 / 3.0, -0.25)
_REST = 1e-15
_LOOK = 16  # steps between looks whether all is at rest
_MOST = 20_000  # steps that gains are given to settle
_NAMES = ("A", "b", "Q", "C", "d", "R", "mean0", "cov0")


class _Step(NamedTuple):
    """The coefficients of one step of all targets, as in `linear`: each with its derivatives."""

    A: Tangent
    b: Tangent
    M: Tangent
    H: Tangent
    g: Tangent
    L: Tangent


def gradients(
    sources: Sequence[Model],
    model: Callable[[Array], Model],
    X: Array,
    box: tuple[Array, Array],
    measure: Measure,
    horizon: int | None,
) -> Array | None:
    """The derivatives (sources, targets, k) of the distortion in the positions X (targets, k); None if not exact.

    `model` gives the model of a position, `box` the lowest and the highest of the set, which no difference leaves.

    >>> import understudy as us
    >>> room = lambda x: us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=float(x[0]), mean0=0.0, cov0=1.0)
    >>> box = np.array([0.0]), np.array([1.0])
    >>> found = gradients([room([0.0])], room, np.array([[0.5]]), box, Measure("mse", 1), 1)
    >>> found.round(9).tolist()
    [[[1.0]]]
    """
    if not measure.power:
        return None
    forms = [linear_form(source) for source in sources]
    found = [_parameters(model, x, box) for x in X]
    if any(form is None or form.law is not None or not form.recursion.constant for form in forms):
        return None
    if any(one is None for one in found):
        return None
    read = measure.read
    shape = (len(sources), measure.dim)
    filters = Filters([form for form in forms if form is not None], np.zeros(shape), np.ones(shape), read)
    target = _stacked([one for one in found if one is not None])
    if target is None:
        return None
    G = np.eye(measure.dim) if read is None else read
    if horizon is None:
        return _stationary(filters, target, G, measure)
    return _over(filters, target, G, measure, horizon)


# The matrices of the targets -------------------------------------------------------------------------


def _parameters(
    model: Callable[[Array], Model], x: Array, box: tuple[Array, Array]
) -> list[tuple[Array, Array]] | None:
    """The matrices at x and their derivatives in each coordinate; None where the model is not Gauss-Markov."""
    here = _matrices(model(x))
    if here is None:
        return None
    slopes: list[list[Array]] = []
    for i, (low, high) in enumerate(zip(*box, strict=True)):
        h = _STEP * (high - low)
        if h <= 0.0:
            slopes.append([np.zeros_like(part) for part in here])
            continue
        sign, weights, first = 1.0, _CENTRAL, -2
        if x[i] - 2.0 * h < low or x[i] + 2.0 * h > high:
            sign, weights, first = (1.0 if x[i] + 4.0 * h <= high else -1.0), _FORWARD, 0
        sums = [np.zeros_like(part) for part in here]
        for step, weight in enumerate(weights, start=first):
            if weight == 0.0:
                continue
            y = x.copy()
            y[i] += sign * step * h
            there = here if step == 0 else _matrices(model(y))
            if there is None or any(a.shape != b.shape for a, b in zip(here, there, strict=True)):
                return None
            for total, part in zip(sums, there, strict=True):
                total += sign * weight / h * part
        slopes.append(sums)
    return [(part, np.stack([each[number] for each in slopes])) for number, part in enumerate(here)]


def _matrices(model: Model) -> list[Array] | None:
    form = linear_form(model)
    if form is None or form.law is not None or not form.recursion.constant:
        return None
    given: GaussMarkov = form.recursion
    return [np.asarray(getattr(given, name), dtype=float) for name in _NAMES]


def _stacked(found: list[list[tuple[Array, Array]]]) -> dict[str, Tangent] | None:
    """All targets in one array for each matrix, if they have the same sizes."""
    if any(a[0].shape != b[0].shape for one in found for a, b in zip(one, found[0], strict=True)):
        return None
    parts = zip(*found, strict=True)
    return {
        name: Tangent(np.stack([value for value, _ in part]), np.stack([slope for _, slope in part]))
        for name, part in zip(_NAMES, parts, strict=True)
    }


# The Kalman recursion ----------------------------------------------------------------------------------


def _step(t: dict[str, Tangent], P: Tangent, G: Array) -> tuple[_Step, Tangent]:
    """One Kalman step from the filtered covariance P: the coefficients, and the covariance after it."""
    A, C = t["A"], t["C"]
    Sigma = plus(times(times(A, P), turned(A)), t["Q"])
    Y = times(Sigma, turned(C))
    L = factor(plus(times(C, Y), t["R"]))
    M = lowered(Y, L)
    MM = times(M, turned(M))
    after = Tangent(Sigma.value - MM.value, Sigma.slope - MM.slope)
    b, d = column(t["b"]), column(t["d"])
    g = plus(times(C, b), d)
    H = times(C, A)
    return _Step(A, b, M, _read(G, H), _read(G, g), _read(G, L)), after


def _read(G: Array, X: Tangent) -> Tangent:
    return Tangent(G @ X.value, G @ X.slope)


# Pairs -----------------------------------------------------------------------------------------------


class _Pairs(NamedTuple):
    """One step of all pairs on (delta, ~x): arrays (J, m, ...) and derivatives (J, k, m, ...)."""

    F: Tangent
    f: Tangent
    N: Tangent
    h: Tangent
    g: Tangent
    E: Tangent  # L - ~L


def _pairs(source: Any, step: _Step, n: int) -> _Pairs:
    """The step of every source beside every target."""
    a = [np.moveaxis(part, -1, 0) for part in source]  # (m, ...)
    As, bs, Ms, Hs, gs, Ls = (_tall(part, n, number) for number, part in enumerate(a))
    At, bt, Mt, Ht, gt, Lt = (_tall_tangent(part, n, number) for number, part in enumerate(step))
    J, k, m = At.value.shape[0], At.slope.shape[1], As.shape[0]
    c, d = Ls.shape[-2:]
    F, dF = np.zeros((J, m, 2 * n, 2 * n)), np.zeros((J, k, m, 2 * n, 2 * n))
    F[..., :n, :n] = As
    F[..., :n, n:] = As - At.value[:, None]
    F[..., n:, n:] = At.value[:, None]
    dF[..., :n, n:] = -At.slope[:, :, None]
    dF[..., n:, n:] = At.slope[:, :, None]
    f, df = np.zeros((J, m, 2 * n, 1)), np.zeros((J, k, m, 2 * n, 1))
    f[..., :n, :], f[..., n:, :] = bs - bt.value[:, None], bt.value[:, None]
    df[..., :n, :], df[..., n:, :] = -bt.slope[:, :, None], bt.slope[:, :, None]
    N, dN = np.zeros((J, m, 2 * n, d)), np.zeros((J, k, m, 2 * n, d))
    N[..., :n, :], N[..., n:, :] = Ms - Mt.value[:, None], Mt.value[:, None]
    dN[..., :n, :], dN[..., n:, :] = -Mt.slope[:, :, None], Mt.slope[:, :, None]
    h, dh = np.zeros((J, m, c, 2 * n)), np.zeros((J, k, m, c, 2 * n))
    h[..., :n], h[..., n:] = Hs, Hs - Ht.value[:, None]
    dh[..., n:] = -Ht.slope[:, :, None]
    every = np.ones((1, 1, m, 1, 1))
    g = Tangent(gs - gt.value[:, None], -gt.slope[:, :, None] * every)
    E = Tangent(Ls - Lt.value[:, None], -Lt.slope[:, :, None] * every)
    return _Pairs(Tangent(F, dF), Tangent(f, df), Tangent(N, dN), Tangent(h, dh), g, E)


def _tall(part: Array, n: int, number: int) -> Array:
    """Zeros for further states: rows of A, b and M, columns of A and H."""
    rows = n - part.shape[-2] if number in (0, 1, 2) else 0
    columns = n - part.shape[-1] if number in (0, 3) else 0
    if not (rows or columns):
        return part
    return np.pad(part, [(0, 0)] * (part.ndim - 2) + [(0, rows), (0, columns)])


def _tall_tangent(part: Tangent, n: int, number: int) -> Tangent:
    return Tangent(_tall(part.value, n, number), _tall(part.slope, n, number))


def _moved(p: _Pairs, mean: Tangent, cov: Tangent) -> tuple[Tangent, Tangent]:
    """Mean and covariance of (delta, ~x) after a step."""
    new = plus(times(p.F, mean), p.f)
    F, x = p.F.value, p.F.value[:, None]
    half = p.F.slope @ (cov.value @ F.swapaxes(-1, -2))[:, None] + p.N.slope @ p.N.value[:, None].swapaxes(-1, -2)
    slope = x @ cov.slope @ x.swapaxes(-1, -2) + half + half.swapaxes(-1, -2)
    value = F @ cov.value @ F.swapaxes(-1, -2) + p.N.value @ p.N.value.swapaxes(-1, -2)
    return new, Tangent(value, slope)


def _measured(p: _Pairs, mean: Tangent, cov: Tangent, measure: Measure) -> Array:
    """The derivative of E d of one reading, (J, k, m)."""
    m = plus(times(p.h, mean), p.g)
    level, slope = m.value[..., 0], m.slope[..., 0]
    h = p.h.value[:, None]
    cross = p.h.slope @ cov.value[:, None]
    dV = (2.0 * (cross * h) + (h @ cov.slope) * h).sum(axis=-1) + (2.0 * p.E.value[:, None] * p.E.slope).sum(axis=-1)
    if measure.power == 2:
        change = 2.0 * level[:, None] * slope + dV
    else:
        V = ((p.h.value @ cov.value) * p.h.value).sum(axis=-1) + (p.E.value**2).sum(axis=-1)
        one, two = _absolute(level, np.maximum(V, 0.0))
        change = one[:, None] * slope + two[:, None] * dV
    return np.asarray(change @ measure.weights)


def _absolute(m: Array, V: Array) -> tuple[Array, Array]:
    """The derivatives of E |N(m, V)| in m and in V."""
    from scipy.special import erf

    s = np.sqrt(V)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r = np.where(s > 0.0, m / s, np.sign(m) * math.inf)
        one = np.where(s > 0.0, erf(r * math.sqrt(0.5)), np.sign(m))
        two = np.where(s > 0.0, np.exp(-0.5 * r * r) / (s * math.sqrt(2.0 * math.pi)), 0.0)
    return one, two


# The horizon, and the limit --------------------------------------------------------------------------


def _over(filters: Filters, t: dict[str, Tangent], G: Array, measure: Measure, horizon: int) -> Array:
    J, k, nt = *t["mean0"].slope.shape[:2], t["A"].value.shape[-1]
    n, m = max(filters.states, nt), len(filters)
    P: Tangent | None = t["cov0"]  # None once the gains of all sides have settled
    x = Tangent(_padded(t["mean0"].value, n), _padded(t["mean0"].slope, n))
    xs = _padded(np.moveaxis(filters.start()[:, 0], -1, 0), n)
    mean = np.zeros((J, m, 2 * n, 1))
    mean[..., :n, 0], mean[..., n:, 0] = xs - x.value[:, None], x.value[:, None]
    dmean = np.zeros((J, k, m, 2 * n, 1))
    dmean[..., :n, 0], dmean[..., n:, 0] = -x.slope[:, :, None], x.slope[:, :, None]
    mu, cov = Tangent(mean, dmean), Tangent(np.zeros((J, m, 2 * n, 2 * n)), np.zeros((J, k, m, 2 * n, 2 * n)))
    sums = np.zeros((J, k, m))
    for number, source in enumerate(filters.steps(horizon)):
        if P is not None:
            step, after = _step(t, P, G)
            p = _pairs(source, step, n)
            settled = filters.settled is not None and number > filters.settled
            P = None if settled and _at_rest((P,), (after,)) else after
        change = _measured(p, mu, cov, measure)
        sums += change
        new = _moved(p, mu, cov)
        if P is None and number % _LOOK == 0 and _at_rest((mu, cov), new):
            sums += (horizon - number - 1) * change
            break
        mu, cov = new
    return np.ascontiguousarray(np.moveaxis(sums / horizon, (2, 0, 1), (0, 1, 2)))


def _padded(x: Array, n: int) -> Array:
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n - x.shape[-1])])


def _at_rest(before: tuple[Tangent, ...], after: tuple[Tangent, ...]) -> bool:
    for one, other in zip(before, after, strict=True):
        for a, b in zip(one, other, strict=True):
            if float(np.abs(a - b).max(initial=0.0)) > _REST * (1e-3 + float(np.abs(b).max(initial=0.0))):
                return False
    return True


def _stationary(filters: Filters, t: dict[str, Tangent], G: Array, measure: Measure) -> Array | None:
    """The limit of long sequences, by the same recursion: gains first, then moments, each by doubling."""
    if any(spectral_radius(A) >= 1.0 - 1e-7 for A in t["A"].value):
        return None
    P = t["cov0"]
    for _ in range(_MOST):
        step, after = _step(t, P, G)
        if _at_rest((P,), (after,)):
            break
        P = after
    else:
        return None
    n = max(filters.states, t["A"].value.shape[-1])
    p = _pairs(filters.steady(), step, n)
    # mean = F mean + f: (1 - F) dmean = df + dF mean
    left = np.eye(2 * n) - p.F.value
    mean = np.linalg.solve(left, p.f.value)
    dmean = np.linalg.solve(left[:, None], p.f.slope + p.F.slope @ mean[:, None])
    F, N = p.F, times(p.N, turned(p.N))
    cov = N
    for _ in range(64):
        cov = plus(cov, times(times(F, cov), turned(F)))
        F = times(F, F)
        if float(np.abs(F.value).max()) < 1e-30 and float(np.abs(F.slope).max()) < 1e-30:
            break
    change = _measured(p, exact(mean, dmean), cov, measure)
    return np.ascontiguousarray(np.moveaxis(change, (2, 0, 1), (0, 1, 2)))
