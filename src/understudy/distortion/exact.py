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

Once the gains have settled, all steps are equal. Squared errors over K of them are summed by doubling (`_squares`),
absolute ones many readings at a time until means and covariances rest (`_absolutes`). The stationary limit solves for
the rest directly.

The same recursion in complex numbers gives the derivatives of the distortion in the pseudo parameter (`gradients`):
a matrix X with the derivative X' enters as X + i 1e-30 X', and all that follows is analytic, so that the imaginary
part of the result is the derivative, to the last digits. The derivatives of a user's matrices are differences of
fourth order, exact for polynomials of degree four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product as combinations
from typing import NamedTuple, Protocol

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

_BLOCK = 32  # readings measured at a time; a power of 2
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
    """The matrices of one step, the model last; or of many steps, with time before everything."""

    A: Array  # (n, n, models)
    b: Array  # (n, 1, models)
    M: Array  # (n, d, models)
    H: Array  # (c, n, models)
    g: Array  # (c, 1, models)
    L: Array  # (c, d, models)


class Recursions(Protocol):
    """Several linear models of a common number of states, step by step."""

    states: int
    settled: int | None  # the step, counted from 0, from which on all are equal; None if there is none

    def __len__(self) -> int: ...

    def start(self) -> Array:
        """The means before the first step, (n, 1, models)."""
        ...

    def steps(self, count: int) -> Iterator[Coefficients]:
        """The first steps, one after the other."""
        ...

    def steady(self) -> Coefficients:
        """The step that constant, stable models settle to."""
        ...


class Filters:
    """Several linear models; `read` turns d channels into the c that are measured.

    `level` and `scale` (models, d) are the means and standard deviations of the noise, which has units of its own:
    e = level + scale eps, with eps of mean 0 and variance 1. Models of fewer states are padded with zeros: a
    state that is zero for ever changes nothing.
    """

    def __init__(self, models: list[Linear], level: Array, scale: Array, read: Array | None = None) -> None:
        self.models = [model.recursion for model in models]
        self.level, self.scale = level, scale
        self.dim = self.models[0].dim
        self.read = np.eye(self.dim) if read is None else read
        self.states = max(model.states for model in self.models)
        self._sides = [Side(model, None) for model in self.models]
        ends = [None if side.gains is None or not side.gains.frozen else side.gains.rows - 1 for side in self._sides]
        self.settled = None if None in ends else max(end for end in ends if end is not None)

    @classmethod
    def of_gaussian(cls, models: list[Linear], read: Array | None) -> Filters:
        """Models with standard normal noise."""
        shape = (len(models), models[0].recursion.dim)
        return cls(models, np.zeros(shape), np.ones(shape), read)

    def __len__(self) -> int:
        return len(self.models)

    def start(self) -> Array:
        """The means before the first step, (n, 1, models)."""
        x = np.zeros((self.states, 1, len(self)))
        for i, model in enumerate(self.models):
            x[: model.states, 0, i] = model.mean0
        return x

    def steps(self, count: int) -> Iterator[Coefficients]:
        """The first steps, one after the other."""
        # filtered covariances where the gain tables end, or where there is none, at the start
        covariances = [
            np.array(side.model.cov0.ravel() if side.gains is None else side.gains.covariance(side.gains.rows))
            for side in self._sides
        ]
        for first in range(0, count, _BLOCK):
            stop = min(first + _BLOCK, count)
            rows = [_rows(side, first, stop, P) for side, P in zip(self._sides, covariances, strict=True)]
            block = self._matrices(rows)
            for index in range(stop - first):
                yield Coefficients(*(part[index] for part in block))

    def steady(self) -> Coefficients:
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
        return Coefficients(*(part[0] for part in self._matrices(rows)))

    def _matrices(self, tables: list[Array]) -> Coefficients:
        """Gain rows (steps, width) of all models as matrices: [G K] | H | [A M] | g | h | b | L | .. (see kernels)."""
        steps, N, d, G = len(tables[0]), self.states, self.dim, self.read
        shapes = [(N, N), (N, 1), (N, d), (len(G), N), (len(G), 1), (len(G), d)]
        out = Coefficients(*(np.zeros((steps, *shape, len(self))) for shape in shapes))
        sizes = np.array([model.states for model in self.models])
        for n in np.unique(sizes):  # models of n states together
            of = np.flatnonzero(sizes == n)
            at = np.cumsum([0, n * (n + d), d * n, n * (n + d), d, n, n, d * d])
            rows = np.stack([tables[i][:, : at[-1]] for i in of])
            H = rows[..., at[1] : at[2]].reshape(*rows.shape[:2], d, n)
            both = rows[..., at[2] : at[3]].reshape(*rows.shape[:2], n, n + d)
            A, M = both[..., :n], both[..., n:]
            g, b = rows[..., at[3] : at[4], None], rows[..., at[5] : at[6], None]
            L = np.tril(rows[..., at[6] : at[7]].reshape(*rows.shape[:2], d, d))
            # e = level + scale eps
            level, scale = self.level[of][:, None, :, None], self.scale[of][:, None, None, :]
            parts = (A, b + M @ level, M * scale, G @ H, G @ (g + L @ level), G @ (L * scale))
            for whole, part in zip(out, parts, strict=True):
                whole[:, : part.shape[2], : part.shape[3], of] = np.moveaxis(part, 0, -1)
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
    """One step, or many, of all pairs: s+ = F s + f + noise of covariance N, D = h s + g + noise of variances v.

    What all sources, or all targets, have in common stands there once, with an axis of length 1.
    """

    F: Array  # (2n, 2n, sources, targets)
    f: Array  # (2n, 1, sources, targets)
    N: Array  # (2n, 2n, sources, targets)
    h: Array  # (c, 2n, sources, targets)
    g: Array  # (c, 1, sources, targets)
    v: Array  # (c, sources, targets)

    def move(self, now: Moments) -> Moments:
        """The moments after the step."""
        return Moments(_product(self.F, now.s) + self.f, _around(self.F, now.P) + self.N)

    def twice(self) -> Step:
        """The same move two times over; D is that of its start."""
        F, f, N = self.F, self.f, self.N
        return self._replace(F=_product(F, F), f=f + _product(F, f), N=N + _around(F, N))

    def mean(self, now: Moments) -> Array:
        """The mean of D, (c, 1, sources, targets)."""
        return _product(self.h, now.s) + self.g

    def drift(self, now: Moments) -> Array:
        """What the step adds to the mean, (F - 1) s + f, of which a unit root takes no digits."""
        one = np.eye(len(self.F))[:, :, None, None]
        return _product(self.F - one, now.s) + self.f

    def expectation(self, now: Moments, measure: Measure) -> Array:
        """E d of the reading, (sources, targets)."""
        variance = (_product(self.h, now.P) * self.h).sum(axis=1)
        return measure.of_normal(self.mean(now)[:, 0], np.maximum(variance + self.v, 0.0))


class _Tile(NamedTuple):
    """Some pairs of sources and targets."""

    rows: slice
    columns: slice

    def start(self, sources: Recursions, targets: Recursions) -> Moments:
        """The moments before the first step."""
        n = max(sources.states, targets.states)
        x = _tall(sources.start()[..., self.rows, None], n)
        x_out = _tall(targets.start()[..., None, self.columns], n)
        shape = np.broadcast_shapes(x.shape, x_out.shape)
        s = np.concatenate((x - x_out, np.broadcast_to(x_out, shape)))
        return Moments(s, np.zeros((2 * n, 2 * n, 1, 1), dtype=s.dtype))

    def step(self, source: Coefficients, target: Coefficients, kappa: Array | None) -> Step:
        """One step of these pairs, with the covariance of its noise."""
        n = max(len(source.A), len(target.A))
        a = Coefficients(*(_some(part, self.rows)[..., :, None] for part in _pad(source, n)))
        t = Coefficients(*(_some(part, self.columns)[..., None, :] for part in _pad(target, n)))
        A, b, M, H, g, L = (p - q for p, q in zip(a, t, strict=True))
        F = np.zeros((2 * n, 2 * n, *A.shape[2:]), dtype=A.dtype)
        F[:n, :n], F[:n, n:], F[n:, n:] = a.A, A, t.A
        f, noise, h = _above(b, t.b), _above(M, t.M), _turn(_above(_turn(a.H), _turn(H)))
        N, v = _product(noise, _turn(noise)), (L * L).sum(axis=1)
        if kappa is not None:
            k = kappa[:, self.rows, self.columns]
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
    n, shape = len(X), X.shape if X.size >= Y.size else Y.shape
    out = np.empty((2 * n, *shape[1:]), dtype=np.result_type(X, Y))
    out[:n], out[n:] = X, Y
    return out


def _some(part: Array, chosen: slice) -> Array:
    return part if part.shape[-1] == 1 else part[..., chosen]


def _pad(step: Coefficients, n: int) -> Coefficients:
    """The same step with zeros for further states."""
    more = n - len(step.A)
    if not more:
        return step
    A = np.pad(step.A, ((0, more), (0, more), (0, 0)))
    H = np.pad(step.H, ((0, 0), (0, more), (0, 0)))
    return Coefficients(A, _tall(step.b, n), _tall(step.M, n), H, step.g, step.L)


def _tall(X: Array, n: int) -> Array:
    """X with rows of zeros added, n in all."""
    return np.pad(X, ((0, n - len(X)), *((0, 0),) * (X.ndim - 1)))


# The sum over the horizon ----------------------------------------------------------------------------


def distances(
    sources: Recursions,
    targets: Recursions,
    measure: Measure,
    horizon: int | None,
    kappa: Array | None = None,
    progress: Progress | None = None,
) -> Array:
    """The mean distortion of every source under every target, (sources, targets).

    `kappa` (d, sources, targets) belongs to noise that is not Gaussian; `horizon` None is the stationary limit.
    """
    n = 2 * max(sources.states, targets.states)
    side = max(1, int((_TILE / (n * n)) ** 0.5))
    m, count = len(sources), len(targets)
    rows = [slice(i, min(i + side, m)) for i in range(0, m, side)]
    columns = [slice(j, min(j + side, count)) for j in range(0, count, side)]
    tiles = [_Tile(*pair) for pair in combinations(rows, columns)]
    with np.errstate(over="ignore", invalid="ignore"):
        if horizon is None:
            limits = sources.steady(), targets.steady()
            parts = [_limit(tile.step(*limits, kappa), measure) for tile in tiles]
        else:
            parts = _sums(sources, targets, measure, horizon, kappa, tiles, progress)
    found = np.empty((m, count), dtype=parts[0].dtype)
    for tile, part in zip(tiles, parts, strict=True):
        found[tile.rows, tile.columns] = part / (horizon or 1)
    if not np.isfinite(found).all():
        raise NumericalError(
            f"the distortion over {horizon} readings leaves the range of double precision; a model is unstable"
        )
    return found


def _sums(
    sources: Recursions,
    targets: Recursions,
    measure: Measure,
    horizon: int,
    kappa: Array | None,
    tiles: list[_Tile],
    progress: Progress | None,
) -> list[Array]:
    """The sums over the horizon, tile by tile: step by step until the gains have settled, then the rest at once."""
    states = [tile.start(sources, targets) for tile in tiles]
    sums = [np.zeros(now.s.shape[2:], dtype=now.s.dtype) for now in states]
    ends = (sources.settled, targets.settled)
    settled = None if ends[0] is None or ends[1] is None else max(ends[0], ends[1])
    count = _steps_to(settled, horizon)
    rest = _squares if measure.power == 2 else _absolutes
    for k, pair in enumerate(zip(sources.steps(count), targets.steps(count), strict=True)):
        for number, tile in enumerate(tiles):
            step = tile.step(*pair, kappa)
            if k == settled:
                sums[number] += rest(step, states[number], horizon - k, measure)
            else:
                sums[number] += step.expectation(states[number], measure)
                states[number] = step.move(states[number])
            if progress is not None and k == count - 1:
                progress((number + 1.0) / len(tiles))
    return sums


def _steps_to(settled: int | None, horizon: int) -> int:
    """How many steps are laid out: the last one is the settled one, if there is one in time."""
    return horizon if settled is None else min(settled + 1, horizon)


def _squares(step: Step, now: Moments, K: int, measure: Measure) -> Array:
    """The sum of the squared error over K equal steps, by doubling: two sequences of K steps are one of 2K.

    With W_K = sum_{k<K} F^k' h' h F^k what K steps see of the state at their start, N_K the covariance of the noise
    that they add to it and c_K what they see of their own noise, the variances add up to ::

        tr(W_K P) + c_K,     W_2K = W_K + F^K' W_K F^K,     c_2K = 2 c_K + tr(W_K N_K)

    The mean m = h s + g is often the small rest of large numbers. Its changes are h r, with r the drift of s, which
    moves by itself, r -> F r: so (m, r) is a system without constants, and the squares of its m add up to
    (m, r)' V_K (m, r). K is the sum of 1, 2, 4, .., each taken once or twice, the long ones last, when s is near rest.
    """
    root = np.sqrt(measure.weights)[:, None, None, None]
    h, channels, n = root * step.h, len(step.h), len(step.F)
    W, c = _product(_turn(h), h), np.tensordot(measure.weights, step.v, 1)
    # (m, r) -> (m + h r, F r)
    pairs = np.broadcast_shapes(step.F.shape[2:], h.shape[2:])
    G = np.zeros((channels + n, channels + n, *pairs), dtype=step.F.dtype)
    G[:channels, :channels] = np.eye(channels)[:, :, None, None]
    G[:channels, channels:], G[channels:, channels:] = h, step.F
    V = np.zeros_like(G)
    V[:channels, :channels] = np.eye(channels)[:, :, None, None]
    found, many = np.zeros(now.s.shape[2:], dtype=now.s.dtype), step
    while K:
        digit = 2 - K % 2
        K = (K - digit) // 2
        for _ in range(digit):
            u = np.concatenate((root * step.mean(now), step.drift(now)))
            found += (u * _product(V, u)).sum(axis=(0, 1)) + _trace(W, now.P) + c
            now = many.move(now)
        if K:
            c = 2.0 * c + _trace(W, many.N)
            W, V = W + _around(_turn(many.F), W), V + _around(_turn(G), V)
            many, G = many.twice(), _product(G, G)
    return found


def _absolutes(step: Step, now: Moments, K: int, measure: Measure) -> Array:
    """The sum of a measure over K equal steps, many readings at a time, until means and covariances rest.

    Seen from a state of mean s, drift r and covariance P, the difference read j steps later has ::

        mean       m + h (1 + F + .. + F^(j-1)) r
        variance   h F^j P F^j' h' + h (N + F N F' + .. + F^(j-1) N F^(j-1)') h' + v
    """
    count = min(_BLOCK, K)
    rows, sums = [step.h], [np.zeros_like(step.h)]
    while len(rows) < count:
        sums.append(sums[-1] + rows[-1])
        rows.append(_product(rows[-1], step.F))
    # (c, 2n, steps, sources, targets)
    h, earlier = (np.stack(np.broadcast_arrays(*parts), axis=2) for parts in (rows, sums))
    hh = np.einsum("ci...,cj...->ijc...", h, h)
    noise = np.zeros((len(step.h), count, *np.broadcast_shapes(h.shape[3:], step.N.shape[2:])), dtype=h.dtype)
    np.cumsum(_trace(hh, step.N[:, :, None, None])[:, :-1], axis=1, out=noise[:, 1:])
    noise = noise + step.v[:, None]

    def measured(now: Moments, count: int) -> Array:
        means = step.mean(now) + _product(earlier, step.drift(now)[:, :, None])[:, 0]
        variances = np.maximum(_trace(hh, now.P[:, :, None, None]) + noise, 0.0)
        return measure.of_normal(means[:, :count], variances[:, :count])

    many = step
    for _ in range(_BLOCK.bit_length() - 1 if K > _BLOCK else 0):
        many = many.twice()
    found = np.zeros(now.s.shape[2:], dtype=now.s.dtype)
    peaks = Moments(np.abs(now.s), np.abs(now.P))
    for k in range(0, K, _BLOCK):
        found += measured(now, K - k).sum(axis=0)
        if k + _BLOCK >= K:
            break
        before, now = now, many.move(now)
        peaks = Moments(np.maximum(peaks.s, np.abs(now.s)), np.maximum(peaks.P, np.abs(now.P)))
        if _at_rest(now, before, peaks):
            found += (K - k - _BLOCK) * measured(now, 1)[0]
            break
    return found


def _at_rest(now: Moments, before: Moments, peaks: Moments) -> bool:
    """Whether the last steps moved nothing by more than rounding."""
    if np.iscomplexobj(now.s):
        return all(_still(old, new) for old, new in zip(before, now, strict=True))
    spread = np.sqrt(np.abs(np.einsum("ii...->i...", now.P)))[:, None]
    scales = Moments(np.maximum(np.abs(now.s), spread), np.maximum(np.abs(now.P), spread * _turn(spread)))
    return all(
        bool((np.abs(new - old) <= np.maximum(2.0 * _EPS * scale, _NEGLIGIBLE * peak)).all())
        for new, old, scale, peak in zip(now, before, scales, peaks, strict=True)
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
    if horizon is None:
        limit = models.steady()
        return np.asarray((_product(limit.H, _rest(limit.A, limit.b)) + limit.g)[:, 0])
    x, sums = models.start(), np.zeros((len(models.read), 1, len(models)))
    for k, (A, b, _, H, g, _) in enumerate(models.steps(_steps_to(models.settled, horizon))):
        if k == models.settled:
            # the rest at once: (sums, x, 1) moves by a matrix, and over many steps by its power
            c, n = H.shape[:2]
            F = np.zeros((c + n + 1, c + n + 1, len(models)))
            F[:c, :c], F[-1, -1] = np.eye(c)[:, :, None], 1.0
            F[:c, c:-1], F[:c, -1:], F[c:-1, c:-1], F[c:-1, -1:] = H, g, A, b
            state = np.concatenate((sums, x, np.ones((1, 1, len(models)))))
            power = np.linalg.matrix_power(np.moveaxis(F, -1, 0), horizon - k)
            sums = np.moveaxis(power @ np.moveaxis(state, -1, 0), 0, -1)[:c]
            break
        sums += _product(H, x) + g
        x = _product(A, x) + b
    return np.asarray(sums[:, 0] / horizon)


# Derivatives in the pseudo parameter -----------------------------------------------------------------

_H = 1e-30  # the imaginary unit of a derivative: its square is nothing beside 1
_STEP = 2e-3  # of the width of the set, between two points of a difference
# weights of the five points of a difference of fourth order, in the middle or at the edge of them
_CENTRAL: tuple[tuple[int, float], ...] = ((-2, 1.0 / 12.0), (-1, -2.0 / 3.0), (1, 2.0 / 3.0), (2, -1.0 / 12.0))
_ONE_SIDED: tuple[tuple[int, float], ...] = ((0, -25.0 / 12.0), (1, 4.0), (2, -3.0), (3, 4.0 / 3.0), (4, -0.25))
_SETTLED = 1e-14
_MOST = 20_000  # steps that gains are given to settle
_NAMES = ("A", "b", "Q", "C", "d", "R", "mean0", "cov0")


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
    Where E |D| has a kink (no spread and no mean) the derivative is taken as zero.

    >>> import understudy as us
    >>> room = lambda x: us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=float(x[0]), mean0=0.0, cov0=1.0)
    >>> box = np.array([0.0]), np.array([1.0])
    >>> found = gradients([room([0.0])], room, np.array([[0.5]]), box, Measure("mse", 1), 1)
    >>> found.round(9).tolist()
    [[[1.0]]]
    """
    forms = [_constant_gaussian(source) for source in sources]
    if not measure.power or any(form is None for form in forms):
        return None
    matrices = [_tangents(model, x, box) for x in X]
    known = [one for one in matrices if one is not None]
    if len(known) < len(matrices) or any(
        p.shape != q.shape for one in known for p, q in zip(one, known[0], strict=True)
    ):
        return None
    stacked = [np.concatenate(part) for part in zip(*known, strict=True)]  # (targets k, ...)
    targets = _Tangents(dict(zip(_NAMES, stacked, strict=True)), measure.read, horizon)
    if horizon is None and (targets.settled is None or targets.unstable):
        return None
    filters = Filters.of_gaussian([form for form in forms if form is not None], measure.read)
    found = distances(filters, targets, measure, horizon).imag / _H
    return np.ascontiguousarray(found.reshape(len(sources), *X.shape))


def _constant_gaussian(model: Model) -> Linear | None:
    form = linear_form(model)
    return form if form is not None and form.law is None and form.recursion.constant else None


def _tangents(model: Callable[[Array], Model], x: Array, box: tuple[Array, Array]) -> list[Array] | None:
    """The matrices at x, (k, ...), each with i _H times its derivative in one of the k coordinates."""
    here = _matrices_of(model(x))
    if here is None:
        return None
    found = [_complex(np.repeat(part[None], x.size, axis=0)) for part in here]
    for i, (low, high) in enumerate(zip(*box, strict=True)):
        h, points = _STEP * (high - low), _CENTRAL
        if h <= 0.0:
            continue
        if x[i] - 2.0 * h < low or x[i] + 2.0 * h > high:
            points = _ONE_SIDED
            h = h if x[i] + 4.0 * h <= high else -h
        for step, weight in points:
            y = x.copy()
            y[i] += step * h
            there = _matrices_of(model(y))
            if there is None or any(p.shape != q.shape for p, q in zip(here, there, strict=True)):
                return None
            for total, part in zip(found, there, strict=True):
                total[i] += 1j * _H * weight / h * part
    return found


def _complex(part: Array) -> Array:
    return np.asarray(part, dtype=complex)


def _matrices_of(model: Model) -> list[Array] | None:
    form = _constant_gaussian(model)
    return None if form is None else [np.asarray(getattr(form.recursion, name), dtype=float) for name in _NAMES]


class _Tangents:
    """The recursions of constant models with complex matrices, models first; the gains are followed until they settle.

    ::

        Sigma = A P A' + Q,   S = C Sigma C' + R = L L',   M = Sigma C' L^-T,   P+ = Sigma - M M'
    """

    def __init__(self, parts: dict[str, Array], read: Array | None, horizon: int | None) -> None:
        self._mean0 = parts["mean0"]
        A, C, P = parts["A"], parts["C"], parts["cov0"]
        self.states = A.shape[-1]
        self.settled: int | None = None
        self.unstable = any(spectral_radius(one.real) >= 1.0 - _UNIT_ROOT for one in A)
        b, G = parts["b"][..., None], np.eye(C.shape[-2]) if read is None else read
        H, g = G @ C @ A, G @ (C @ b + parts["d"][..., None])
        self._steps: list[Coefficients] = []
        for k in range(_MOST if horizon is None else horizon):
            Sigma = A @ P @ A.swapaxes(-1, -2) + parts["Q"]
            Y = C @ Sigma
            L = _factor(Y @ C.swapaxes(-1, -2) + parts["R"])
            M = np.asarray(np.linalg.solve(L, Y), dtype=A.dtype).swapaxes(-1, -2)
            before, P = P, Sigma - M @ M.swapaxes(-1, -2)
            found = (A, b, M, H, g, G @ L)
            self._steps.append(Coefficients(*(np.moveaxis(part, 0, -1) for part in found)))
            if _still(before, P):
                self.settled = k
                break

    def __len__(self) -> int:
        return len(self._mean0)

    def start(self) -> Array:
        """The means before the first step, (n, 1, models)."""
        return self._mean0.T[:, None]

    def steps(self, count: int) -> Iterator[Coefficients]:
        """The first steps, one after the other."""
        return (self._steps[min(k, len(self._steps) - 1)] for k in range(count))

    def steady(self) -> Coefficients:
        """The step that stable models settle to."""
        return self._steps[-1]


def _factor(S: Array) -> Array:
    """The lower Cholesky factor of complex symmetric matrices, S = L L' without conjugates."""
    L = np.zeros_like(S)
    for j in range(S.shape[-1]):
        column = S[..., j:, j] - (L[..., j:, :j] @ L[..., j, :j, None])[..., 0]
        L[..., j:, j] = column / np.sqrt(column[..., :1])
    return L


def _still(before: Array, after: Array) -> bool:
    """Whether neither complex numbers nor the derivatives in them move."""
    pairs = (before.real, after.real), (before.imag / _H, after.imag / _H)
    return all(np.abs(new - old).max() <= _SETTLED * (1e-3 + np.abs(new).max()) for old, new in pairs)
