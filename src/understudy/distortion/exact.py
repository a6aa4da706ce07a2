"""The distortion of pairs of linear models in closed form: one recursion for all pairs, no simulation.

Colouring turns scores z into readings. Where a model is Gauss-Markov, or an autoregression, or has independent
readings, that is a linear recursion driven by noise e_k, with the gains of the Kalman predictor as its matrices::

    y_k = H x_{k-1} + g + L e_k,      x_k = A x_{k-1} + b + M e_k,      L L' = innovation covariance,  M = K L

with e_k = z_k, or e_k = law.value(z_k) channel by channel where the noise is not Gaussian (`Filters`). Source and
target are driven by the same scores. With delta = x - ~x and Delta for differences of matrices, the pair moves as ::

    D_k     = H delta + (Delta H) ~x + Delta g + (Delta L) e
    delta+  = A delta + (Delta A) ~x + Delta b + (Delta M) e
    ~x+     =                 ~A ~x +       ~b +       ~M  e

so that s = (delta, ~x) moves by s+ = F s + f + noise of covariance N, and D = h s + g + noise of variance v (`Step`).
The recursion for delta cancels nothing: two equal models have a distortion of exactly zero, and nearly equal ones keep
their digits. Noise that is not Gaussian has the same first two moments, up to one number for each pair and channel:
kappa = 1 - correlation(eps, ~eps). The squared error needs no more than that.

Until the gains have settled, moments move step by step, and a block of readings is measured at once. From then on all
steps are equal. Squared errors over K of them are summed by doubling (`_squares`). Absolute ones are measured 32 steps
at once, until means and covariances rest (`_absolutes`). The stationary limit solves for the rest directly.

The derivatives of the distortion in the pseudo parameter (`gradients`) are differences of fourth order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product as combinations
from typing import NamedTuple

import numpy as np

from understudy._types import Array, Progress
from understudy.distortion.measures import Measure
from understudy.errors import HorizonMissingError, NumericalError
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.laws.multivariate import Independent
from understudy.laws.scalar import Scalar
from understudy.models.gauss_markov import GaussMarkov, gauss_markov, innovations, spectral_radius
from understudy.models.model import Model
from understudy.transform.kalman_pair import Side, gains, white

_BLOCK = 32  # readings measured at a time
_TILE = 16384  # numbers of a covariance over the pairs of a tile
_EPS = float(np.finfo(float).eps)
_NEGLIGIBLE = 1e-20  # beside the largest value so far, for a number that decays
_UNIT_ROOT = 1e-7  # the same distance from a unit root as in the models

# Models as linear filters of independent noise -------------------------------------------------------


class Linear(NamedTuple):
    """A recursion driven by standard normal noise, and the law that the noise has instead (None: just that)."""

    recursion: GaussMarkov
    law: Law | None


def linear_form(model: Model) -> Linear | None:
    """The linear form of a model whose noise has independent channels, if it has one.

    >>> import understudy as us
    >>> linear_form(us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0)))
    Linear(recursion=GaussMarkov(states=1, dim=1, constant), law=None)
    >>> linear_form(us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(0.5 * y, 1.0 + y * y))) is None
    True
    """
    recursion = gauss_markov(model)
    if recursion is not None:
        return Linear(recursion, None)
    parts = innovations(model)
    if parts is None:
        return None
    given, law = parts
    if given is None and isinstance(law, Gaussian):
        d = law.dim
        cov = np.reshape(law.cov, (d, d))
        return Linear(GaussMarkov(0.0, np.zeros((d, 1)), 0.0, cov, 0.0, np.reshape(law.mean, d), 0.0, 0.0), None)
    if not (separate(law) and continuous(law)):
        return None
    return Linear(white(model.dim) if given is None else given, law)


def separate(law: Law) -> bool:
    """Whether channel l of a reading depends on score l alone."""
    return getattr(law, "dim", 1) == 1 or isinstance(law, (Independent, Scalar))


def continuous(law: Law) -> bool:
    """Whether a reading is a continuous function of its scores: what quadrature takes for granted."""
    return not getattr(law, "atoms", False)


class Coefficients(NamedTuple):
    """The matrices of some steps of several models; one matrix for all models where they have the same."""

    A: Array  # (n, n, steps, models)
    b: Array  # (n, 1, steps, models)
    M: Array  # (n, d, steps, models)
    H: Array  # (c, n, steps, models)
    g: Array  # (c, 1, steps, models)
    L: Array  # (c, d, steps, models)


class Filters:
    """Several linear models; `read` turns d channels into the c that are measured.

    `level` and `scale` (models, d) are the means and standard deviations of the noise, which has units of its own:
    e = level + scale eps, with eps of mean 0 and variance 1. Models of fewer states are padded with zeros: a
    state that is zero for ever changes nothing.
    """

    def __init__(self, models: list[Linear], level: Array, scale: Array, read: Array | None = None) -> None:
        self.forms, self.level, self.scale = models, level, scale
        self.models = [model.recursion for model in models]
        self.dim = self.models[0].dim
        self.read = np.eye(self.dim) if read is None else read
        self.states = max(model.states for model in self.models)
        self._sides = [Side(model, None) for model in self.models]
        self._covariances: list[Array] = []
        ends = [None if side.gains is None or not side.gains.frozen else side.gains.rows - 1 for side in self._sides]
        self.settled = None if None in ends else max(end for end in ends if end is not None)
        """The step, counted from 0, from which on all are equal; None if there is none."""

    @classmethod
    def of_gaussian(cls, models: list[Linear], read: Array | None) -> Filters:
        """Models with standard normal noise."""
        shape = (len(models), models[0].recursion.dim)
        return cls(models, np.zeros(shape), np.ones(shape), read)

    def __len__(self) -> int:
        return len(self.models)

    def some(self, chosen: slice) -> Filters:
        """Some of the models."""
        if chosen.start == 0 and chosen.stop >= len(self):
            return self
        return Filters(self.forms[chosen], self.level[chosen], self.scale[chosen], self.read)

    def start(self, states: int) -> Array:
        """The means before the first step, with zeros for further states, (states, 1, models)."""
        x = np.zeros((states, 1, len(self)))
        for i, model in enumerate(self.models):
            x[: model.states, 0, i] = model.mean0
        return x

    def steps(self, first: int, stop: int, states: int) -> Coefficients:
        """Some steps, with zeros for further states; blocks are asked for in order, from the first step on."""
        if first == 0:
            # filtered covariances where the gain tables end, or where there is none, at the start: they move along
            self._covariances = [
                np.array(side.model.cov0.ravel() if side.gains is None else side.gains.covariance(side.gains.rows))
                for side in self._sides
            ]
        sides = zip(self._sides, self._covariances, strict=True)
        return self._matrices([_rows(side, first, stop, P) for side, P in sides], states)

    def steady(self, states: int) -> Coefficients:
        """The step that constant, stable models settle to."""
        rows = []
        for model in self.models:
            if not model.constant or spectral_radius(model.A) >= 1.0 - _UNIT_ROOT:
                raise HorizonMissingError(
                    "horizon is missing: a model that changes with time or has a root of modulus 1 or more "
                    "has no stationary limit, and the mean distortion may grow for ever"
                )
            table = gains(model)
            row = table.flat[-table.width :] if table.frozen else _riccati_row(model)
            rows.append(row[None, :])
        return self._matrices(rows, states)

    def _matrices(self, tables: list[Array], N: int) -> Coefficients:
        """Gain rows (steps, width) of all models as matrices: [G K] | H | [A M] | g | h | b | L | .. (see kernels)."""
        steps, d, G = len(tables[0]), self.dim, self.read
        shapes = [(N, N), (N, 1), (N, d), (len(G), N), (len(G), 1), (len(G), d)]
        out = Coefficients(*(np.zeros((*shape, steps, len(self))) for shape in shapes))
        sizes = np.array([model.states for model in self.models])
        for n in np.unique(sizes):  # models of n states together
            of = np.flatnonzero(sizes == n)
            at = np.cumsum([0, n * (n + d), d * n, n * (n + d), d, n, n, d * d])
            rows = np.stack([tables[i][:, : at[-1]] for i in of], axis=1)
            H = rows[..., at[1] : at[2]].reshape(steps, len(of), d, n)
            both = rows[..., at[2] : at[3]].reshape(steps, len(of), n, n + d)
            A, M = both[..., :n], both[..., n:]
            g, b = rows[..., at[3] : at[4], None], rows[..., at[5] : at[6], None]
            L = np.tril(rows[..., at[6] : at[7]].reshape(steps, len(of), d, d))
            # e = level + scale eps
            level, scale = self.level[of][..., None], self.scale[of][:, None, :]
            parts = (A, b + M @ level, M * scale, G @ H, G @ (g + L @ level), G @ (L * scale))
            for whole, part in zip(out, parts, strict=True):
                whole[: part.shape[2], : part.shape[3], :, of] = part.transpose(2, 3, 0, 1)
        return Coefficients(*(_common(part) for part in out))


def _common(part: Array) -> Array:
    """One matrix for all models, if they have the same."""
    first = part[..., :1]
    return first if (part == first).all() else part


def _rows(side: Side, first: int, stop: int, covariance: Array) -> Array:
    """Gain rows (steps, width) of a model; past the end of its table `covariance` is carried along."""
    table = side.gains
    if table is None:
        return side.table(first, stop, covariance).reshape(stop - first, -1)
    rows = table.flat.reshape(table.rows, table.width)
    if stop <= table.rows:
        return rows[first:stop]
    if table.frozen:
        return rows[np.minimum(np.arange(first, stop), table.rows - 1)]
    begin = max(first, table.rows)
    return np.concatenate((rows[first:], side.table(begin, stop, covariance).reshape(stop - begin, -1)))


def _riccati_row(model: GaussMarkov) -> Array:
    """The gain row at the end of a Riccati recursion that is too slow to be followed."""
    from scipy.linalg import solve_discrete_are

    A, b, Q, C, d, R = model.at(1)
    n, channels = model.states, model.dim
    unit = float(max(np.abs(Q).max(), np.abs(R).max()))  # the solver's accuracy depends on units
    try:
        S = unit * solve_discrete_are(A.T, C.T, Q / unit, R / unit)
        L = np.linalg.cholesky(C @ S @ C.T + R)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise HorizonMissingError(f"horizon is missing: the gains of a model do not settle ({error})") from None
    # M = K L = Sigma C' L^-T
    M = np.linalg.solve(L, C @ S).T
    both, unused = np.concatenate((A, M), axis=1), np.zeros(n * (n + channels))
    return np.concatenate([unused, (C @ A).ravel(), both.ravel(), C @ b + d, np.zeros(n), b, L.ravel()])


# A step of all pairs ---------------------------------------------------------------------------------


def _product(X: Array, Y: Array) -> Array:
    """X Y of many pairs, rows and columns on the first two axes."""
    if X.shape[1] == 1:
        return np.asarray(X * Y)
    return np.asarray(np.einsum("ik...,kj...->ij...", X, Y))


def _turn(X: Array) -> Array:
    """X'."""
    return X.swapaxes(0, 1)


def _trace(W: Array, P: Array) -> Array:
    """tr(W P) of symmetric matrices."""
    return np.asarray(np.einsum("ij...,ij...->...", W, P))


def _around(F: Array, P: Array) -> Array:
    """F P F'."""
    return _product(_product(F, P), _turn(F))


class Moments(NamedTuple):
    """Mean (2n, 1, ..) and covariance (2n, 2n, ..) of s = (delta, ~x)."""

    s: Array
    P: Array


class Step(NamedTuple):
    """One step, or some, of all pairs: s+ = F s + f + noise of covariance N, D = h s + g + noise of variances v.

    What all sources, or all targets, have in common stands there once, with an axis of length 1.
    """

    F: Array  # (2n, 2n, steps, sources, targets)
    f: Array  # (2n, 1, steps, sources, targets)
    N: Array  # (2n, 2n, steps, sources, targets)
    h: Array  # (c, 2n, steps, sources, targets)
    g: Array  # (c, 1, steps, sources, targets)
    v: Array  # (c, steps, sources, targets)

    def at(self, k: int) -> Step:
        """One of the steps, without an axis for them."""
        return Step(*(part[..., k, :, :] for part in self))

    def move(self, now: Moments) -> Moments:
        """The moments after the step."""
        return Moments(_product(self.F, now.s) + self.f, _around(self.F, now.P) + self.N)

    def twice(self) -> Step:
        """The same move two times over; D is that of its start."""
        F, f, N = self.F, self.f, self.N
        return self._replace(F=_product(F, F), f=f + _product(F, f), N=N + _around(F, N))

    def doubled(self) -> Step:
        """Twice as many equal steps as one: their move, and all of their readings as seen from the first."""
        h, g, v = self.h, self.g, self.v
        later = _product(h, self.F), g + _product(h, self.f), v + (_product(h, self.N) * h).sum(axis=1)
        both = (np.broadcast_arrays(*parts) for parts in zip((h, g, v), later, strict=True))
        return Step(*self.twice()[:3], *(np.concatenate(parts, axis=-3) for parts in both))

    def mean(self, now: Moments) -> Array:
        """The mean of D, (c, 1, .., sources, targets)."""
        return _product(self.h, now.s) + self.g

    def expectation(self, now: Moments, measure: Measure) -> Array:
        """E d of the readings, (.., sources, targets)."""
        variance = (_product(self.h, now.P) * self.h).sum(axis=1)
        return measure.of_normal(self.mean(now)[:, 0], np.maximum(variance + self.v, 0.0))


def _step(source: Coefficients, target: Coefficients, kappa: Array | None) -> Step:
    """The steps of all pairs, with the covariance of their noise."""
    a = Coefficients(*(part[..., :, None] for part in source))
    t = Coefficients(*(part[..., None, :] for part in target))
    A, b, M, H, g, L = (p - q for p, q in zip(a, t, strict=True))
    n = len(A)
    F = np.zeros((2 * n, 2 * n, *A.shape[2:]))
    F[:n, :n], F[:n, n:], F[n:, n:] = a.A, A, t.A
    f, noise, h = _above(b, t.b), _above(M, t.M), _turn(_above(_turn(a.H), _turn(H)))
    N, v = _product(noise, _turn(noise)), (L * L).sum(axis=1)
    if kappa is not None:
        k = kappa[:, None]
        # cov(M eps - ~M ~eps) = (Delta M)(Delta M)' + sum_l kappa_l (M_l ~M_l' + ~M_l M_l')
        both = _product(a.M * k, _turn(t.M))
        N = np.array(np.broadcast_to(N, (*N.shape[:2], *both.shape[2:])))
        N[:n, :n] += both + _turn(both)
        # cov(M eps - ~M ~eps, ~M ~eps) = (Delta M) ~M' - sum_l kappa_l M_l ~M_l'
        N[:n, n:] -= both
        N[n:, :n] -= _turn(both)
        v = v + 2.0 * (a.L * k * t.L).sum(axis=1)
    return Step(F, f, N, h, g, v)


def _above(X: Array, Y: Array) -> Array:
    """X above Y, as many rows each."""
    return np.concatenate(np.broadcast_arrays(X, Y))


# The sum over the horizon ----------------------------------------------------------------------------


def distances(
    sources: Filters,
    targets: Filters,
    measure: Measure,
    horizon: int | None,
    kappa: Array | None = None,
    progress: Progress | None = None,
) -> Array:
    """The mean distortion of every source under every target, (sources, targets).

    `kappa` (d, sources, targets) belongs to noise that is not Gaussian; `horizon` None is the stationary limit.
    """
    n = max(sources.states, targets.states)
    side = max(1, int(_TILE**0.5 / (2 * n)))
    shape = len(sources), len(targets)
    tiles = list(combinations(*([slice(i, i + side) for i in range(0, count, side)] for count in shape)))
    found = np.empty(shape)
    for number, (rows, columns) in enumerate(tiles):
        one, other = sources.some(rows), targets.some(columns)
        k = None if kappa is None else kappa[:, rows, columns]
        with np.errstate(over="ignore", invalid="ignore"):
            if horizon is None:
                found[rows, columns] = _limit(_step(one.steady(n), other.steady(n), k).at(0), measure)
            else:
                found[rows, columns] = _sum(one, other, measure, horizon, k) / horizon
        if progress is not None:
            progress((number + 1.0) / len(tiles))
    if not np.isfinite(found).all():
        raise NumericalError(
            f"the distortion over {horizon} readings leaves the range of double precision; a model is unstable"
        )
    return found


def _sum(sources: Filters, targets: Filters, measure: Measure, horizon: int, kappa: Array | None) -> Array:
    """The sum over the horizon: step by step until the gains have settled, then the rest at once."""
    n = max(sources.states, targets.states)
    x, x_out = sources.start(n)[..., :, None], targets.start(n)[..., None, :]
    now = Moments(_above(x - x_out, x_out), np.zeros((2 * n, 2 * n, 1, 1)))
    found = np.zeros((len(sources), len(targets)))
    ends = (sources.settled, targets.settled)
    settled = None if ends[0] is None or ends[1] is None else max(ends[0], ends[1])
    count = horizon if settled is None else min(horizon, settled + 1)
    k = 0
    for pair in _blocks(sources, targets, count, n):
        steps, passed = _step(*pair, kappa), []
        for number in range(pair[0].A.shape[2]):
            if k == settled:
                rest = _squares if measure.power == 2 else _absolutes
                found += rest(steps.at(number), now, horizon - settled, measure)
                steps = Step(*(part[..., :number, :, :] for part in steps))
            else:
                passed.append(now)
                now = steps.at(number).move(now)
            k += 1
        if passed:
            before = Moments(*(np.stack(np.broadcast_arrays(*parts), axis=2) for parts in zip(*passed, strict=True)))
            found += steps.expectation(before, measure).sum(axis=0)
    return found


def _blocks(sources: Filters, targets: Filters, count: int, n: int) -> Iterator[tuple[Coefficients, Coefficients]]:
    """The first steps of both sides, as many at a time as make a tile of pairs."""
    size = max(1, _TILE // (4 * n * n * len(sources) * len(targets)))
    for first in range(0, count, _BLOCK):
        stop = min(first + _BLOCK, count)
        one, other = sources.steps(first, stop, n), targets.steps(first, stop, n)
        for low in range(0, stop - first, size):
            part = slice(low, low + size)
            yield Coefficients(*(p[:, :, part] for p in one)), Coefficients(*(p[:, :, part] for p in other))


def _squares(step: Step, now: Moments, K: int, measure: Measure) -> Array:
    """The sum of the squared error over K equal steps, by doubling: two sequences of K steps are one of 2K.

    With W_K = sum_{k<K} F^k' h' h F^k what K steps see of the state at their start, N_K the covariance of the noise
    that they add to it and c_K what they see of their own noise, the variances add up to ::

        tr(W_K P) + c_K,     W_2K = W_K + F^K' W_K F^K,     c_2K = 2 c_K + tr(W_K N_K)

    The mean m = h s + g is often the small rest of large numbers. Its changes are h r, with r = (F - 1) s + f the drift
    of s, which moves by itself, r -> F r: so (m, r) is a system without constants, and the squares of its m add up to
    (m, r)' V_K (m, r). K is the sum of 1, 2, 4, .., each taken once or twice, the long ones last, when s is near rest.
    """
    root = np.sqrt(measure.weights)[:, None, None, None]
    h, channels, n = root * step.h, len(step.h), len(step.F)
    one = np.eye(channels + n)[:, :, None, None]
    W, c = _product(_turn(h), h), np.tensordot(measure.weights, step.v, 1)
    # (m, r) -> (m + h r, F r)
    G = np.zeros((channels + n, channels + n, *np.broadcast_shapes(step.F.shape[2:], h.shape[2:])))
    G[:channels, :channels] = one[:channels, :channels]
    G[:channels, channels:], G[channels:, channels:] = h, step.F
    V = np.zeros_like(G)
    V[:channels, :channels] = one[:channels, :channels]
    found, many = np.zeros(now.s.shape[2:]), step
    while K:
        digit = 2 - K % 2
        K = (K - digit) // 2
        for _ in range(digit):
            drift = _product(step.F - one[:n, :n], now.s) + step.f
            u = np.concatenate((root * step.mean(now), drift))
            found += (u * _product(V, u)).sum(axis=(0, 1)) + _trace(W, now.P) + c
            now = many.move(now)
        if K:
            c = 2.0 * c + _trace(W, many.N)
            W, V = W + _around(_turn(many.F), W), V + _around(_turn(G), V)
            many, G = many.twice(), _product(G, G)
    return found


def _absolutes(step: Step, now: Moments, K: int, measure: Measure) -> Array:
    """The sum of a measure over K equal steps, many readings at a time, until means and covariances rest."""
    many = Step(*(part[..., None, :, :] for part in step))
    now = Moments(now.s[:, :, None], now.P[:, :, None])
    found = np.zeros(now.s.shape[3:])
    while many.v.shape[1] < min(K, _BLOCK):
        many = many.doubled()
    while K > 0:
        found += many.expectation(now, measure)[:K].sum(axis=0)
        K -= many.v.shape[1]
        before, now = now, many.move(now)
        if K > 0 and _at_rest(before, now):
            return np.asarray(found + K * many.expectation(now, measure)[0])
    return found


def _at_rest(before: Moments, after: Moments) -> bool:
    """Whether a move changed nothing by more than rounding."""
    spread = np.sqrt(np.abs(np.einsum("ii...->i...", after.P)))[:, None]
    scales = Moments(np.maximum(np.abs(after.s), spread), np.maximum(np.abs(after.P), spread * _turn(spread)))
    return all(
        bool((np.abs(new - old) <= np.maximum(2.0 * _EPS * scale, _NEGLIGIBLE * np.abs(old).max())).all())
        for new, old, scale in zip(after, before, scales, strict=True)
    )


def _limit(step: Step, measure: Measure) -> Array:
    """E d of a reading at rest: s = F s + f, and P = F P F' + N, the noise of ever more steps."""
    many = step
    while float(np.abs(many.F).max()) > 1e-200:
        many = many.twice()
    return step.expectation(Moments(_rest(step.F, step.f), many.N), measure)


def _rest(A: Array, b: Array) -> Array:
    """The x with x = A x + b."""
    left, right = (np.moveaxis(X, (0, 1), (-2, -1)) for X in (A, b))
    x = np.asarray(np.linalg.solve(np.eye(len(A)) - left, right))
    return np.moveaxis(x, (-2, -1), (0, 1))


def mean_readings(models: Filters, horizon: int | None) -> Array:
    """The mean of E Y_k over the horizon, (channels read, models)."""
    n, m = models.states, len(models)
    if horizon is None:
        limit = models.steady(n)
        return np.asarray((_product(limit.H, _rest(limit.A, limit.b)) + limit.g)[:, 0, 0])
    x, sums = models.start(n), np.zeros((len(models.read), 1, m))
    # without a level of the noise the gains do not matter, and all steps are equal
    settled = horizon if models.settled is None else min(horizon, models.settled if models.level.any() else 0)
    for first in range(0, settled, _BLOCK):
        stop = min(first + _BLOCK, settled)
        A, b, _, H, g, _ = models.steps(first, stop, n)
        for k in range(stop - first):
            sums += _product(H[:, :, k], x) + g[:, :, k]
            x = _product(A[:, :, k], x) + b[:, :, k]
    if settled < horizon:
        # the rest at once: (sums, x, 1) moves by a matrix, and over many steps by its power
        A, b, _, H, g, _ = (part[:, :, 0] for part in models.steps(settled, settled + 1, n))
        c = len(H)
        F = np.zeros((c + n + 1, c + n + 1, m))
        F[:c, :c], F[-1, -1] = np.eye(c)[:, :, None], 1.0
        F[:c, c:-1], F[:c, -1:], F[c:-1, c:-1], F[c:-1, -1:] = H, g, A, b
        state = np.concatenate((sums, x, np.ones((1, 1, m))))
        power = np.linalg.matrix_power(np.moveaxis(F, -1, 0), horizon - settled)
        sums = np.moveaxis(power @ np.moveaxis(state, -1, 0), 0, -1)[:c]
    return np.asarray(sums[:, 0] / horizon)


# Derivatives in the pseudo parameter -----------------------------------------------------------------

_STEP = 2e-3  # of the width of the set, between two points of a difference
# weights of the five points of a difference of fourth order, in the middle or at the edge of them
_CENTRAL: tuple[tuple[int, float], ...] = ((-2, 1.0 / 12.0), (-1, -2.0 / 3.0), (1, 2.0 / 3.0), (2, -1.0 / 12.0))
_ONE_SIDED: tuple[tuple[int, float], ...] = ((0, -25.0 / 12.0), (1, 4.0), (2, -3.0), (3, 4.0 / 3.0), (4, -0.25))


def mixed(dim: int, sources: int, targets: int, fresh: float) -> Array | None:
    """1 - E z z' = 1 - sqrt(1 - s^2) of scores with a fresh share, for every channel and pair; None without one."""
    return np.full((dim, sources, targets), 1.0 - math.sqrt(1.0 - fresh**2)) if fresh else None


def gradients(
    sources: Sequence[Model],
    model: Callable[[Array], Model],
    X: Array,
    box: tuple[Array, Array],
    measure: Measure,
    horizon: int | None,
    fresh: float = 0.0,
) -> Array | None:
    """The derivatives (sources, targets, k) of the distortion in the positions X (targets, k); None if not exact.

    `model` gives the model of a position, `box` the lowest and the highest of the set, which no difference leaves.
    `fresh` is the fresh share of the scores.

    >>> import understudy as us
    >>> room = lambda x: us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=float(x[0]), mean0=0.0, cov0=1.0)
    >>> box = np.array([0.0]), np.array([1.0])
    >>> found = gradients([room([0.0])], room, np.array([[0.5]]), box, Measure("mse", 1), 1)
    >>> found.round(9).tolist()
    [[[1.0]]]
    """
    forms = [_constant_gaussian(source) for source in sources]
    points: list[tuple[int, int, float]] = []  # target, coordinate, weight
    for j, x in enumerate(X):
        for i, (low, high) in enumerate(zip(*box, strict=True)):
            h, stencil = _STEP * (high - low), _CENTRAL
            if h <= 0.0:
                continue
            if x[i] - 2.0 * h < low or x[i] + 2.0 * h > high:
                stencil = _ONE_SIDED
                h = h if x[i] + 4.0 * h <= high else -h
            for step, weight in stencil:
                y = x.copy()
                y[i] += step * h
                forms.append(_constant_gaussian(model(y)))
                points.append((j, i, weight / h))
    known = [form for form in forms if form is not None]
    if not measure.power or len(known) < len(forms):
        return None
    found = np.zeros((len(sources), *X.shape))
    if points:
        one, other = (
            Filters.of_gaussian(part, measure.read) for part in (known[: len(sources)], known[len(sources) :])
        )
        apart = distances(one, other, measure, horizon, mixed(measure.dim, len(one), len(other), fresh))
        for (j, i, weight), column in zip(points, apart.T, strict=True):
            found[:, j, i] += weight * column
    return found


def _constant_gaussian(model: Model) -> Linear | None:
    form = linear_form(model)
    return form if form is not None and form.law is None and form.recursion.constant else None
