"""The distortion of a pair of linear models, by recursion: no simulation.

Source and target are driven by the same scores, so the difference D_k = Y_k - ~Y_k is linear in them, and
Gaussian if they are; its mean and variance follow from those of the two predictors (`moments.py`).

All pairs go through the recursion together, on the last two axes, in tiles that fit the cache, step by step
until their gains have settled. From there on all steps are alike: squared errors are summed by
doubling (`doubling.py`), absolute ones need the mean and variance of every reading, many readings at a
time, until these have come to rest.

Matrices of many pairs of models at once: rows and columns on the first two axes, sources and targets on the last.

What belongs to sources alone has one target, what belongs to targets alone one source: numpy spreads it
out where the two meet. None is a matrix of zeros, and costs nothing.

Models as linear filters of independent noise: what colouring is for most models.

Colouring turns scores z into readings. Where a model is Gauss-Markov, or an autoregression, or has
readings that do not depend on each other, that is a linear recursion driven by noise e_k::

    y_k = H x_{k-1} + g + L e_k,      x_k = A x_{k-1} + b + M e_k

with e_k = z_k, or with e_k = law.value(z_k) component by component where the noise is not Gaussian.
The matrices are those of the gain rows of the Kalman predictor (`transform/_kernels.py`), so L L' is
the innovation covariance and M = K L. A `Filters` holds several models at once, the model on the
last axis, padded with zeros to a common number of states: a state that is zero for ever changes
nothing.

Means and covariances of a pair of linear models driven by the same scores, and the step that moves them.

With delta = x - ~x the difference of the two predictor means, and Delta for differences of matrices::

    D_k     = H delta + (Delta H) ~x + Delta g + (Delta L) e
    delta+  = A delta + (Delta A) ~x + Delta b + (Delta M) e
    ~x+     =                 ~A ~x +       ~b +       ~M  e

Writing the recursion for delta rather than for x costs nothing and cancels nothing: two equal models
have a distortion of exactly zero, two nearly equal ones keep their digits, and so do models with a
large common offset. (One law written in two coordinates has a squared error of 1e-16 times its
variance, which is rounding, and so an absolute error of 1e-8 times its standard deviation.)

Noise that is not Gaussian has the same first two moments, up to one number for each pair and
channel: kappa = 1 - correlation(eps, ~eps) of the two noises made from one score, and the squared
error needs no more than that.

The mean and variance of each of the next readings, when gains have settled and all steps are equal.

Seen from a state s = (delta, ~x) with drift r and covariance P, the difference read j steps later has ::

    mean       m + h (1 + F + .. + F^(j-1)) r
    variance   h F^j P F^j' h' + h (N + F N F' + .. + F^(j-1) N F^(j-1)') h' + noise of the reading

where all but m, r and P are the same whenever one looks.

The squared error over K equal steps, in log K of them.

Once gains have settled, every step is the same: s = (delta, ~x) moves to F s + f + noise of covariance N,
and the difference read is D = h s + g + noise. Two sequences of K steps are one of 2K, so whatever K
steps do is found by doubling. The variances over K steps from a covariance P add up to ::

    sum_k tr(h' h P_k) = tr(W_K P) + c_K,     W_2K = W_K + F^K' W_K F^K,     c_2K = 2 c_K + tr(W_K N_K)

with W_K = sum_{k<K} F^k' h' h F^k what the K steps see of the state at their start, N_K the
covariance of the noise that they add to it, and c_K what they see of their own noise: the second half
sees the N_K of the first. Nothing is subtracted. A root of modulus 1 makes these sums grow like powers
of K, and nothing else.

The means have a square too, and there digits could be lost: m = h s + g is often the small rest of large
numbers. But its changes are h r, with r the drift of s, which moves by itself, r -> F r. So (m, r) is a
system without constants, and the squares of its m add up to (m, r)' V_K (m, r), with V_K found like W_K.
Where s is at rest r is zero, and nothing large is squared.

K is the sum of 1, 2, 4, .., each taken once or twice. The long stretches thus come last, when s is close to
its rest if it has one, and each starts from an m and r of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from understudy._types import Array, Progress
from understudy.distortion.measures import Measure
from understudy.errors import DesignError, NumericalError
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.laws.multivariate import Independent
from understudy.laws.scalar import Scalar
from understudy.models.gauss_markov import GaussMarkov, spectral_radius
from understudy.models.model import Model
from understudy.transform.core import gauss_markov, innovations
from understudy.transform.kalman_pair import Side, gains, white

# Matrices of many pairs of models at once: rows and columns on the first two axes, sources and target ---


class Triangle(NamedTuple):
    """F = [A, D; 0, B]: a step of (delta, ~x), or many steps; the source's, between the two, the target's."""

    A: Array  # (p, p, sources, 1)
    D: Array | None  # (p, q, sources, targets)
    B: Array  # (q, q, 1, targets)

    def squared(self) -> Triangle:
        """F F."""
        A, D, B = self
        return Triangle(product(A, A), plus(times(A, D), times(D, B)), product(B, B))

    def of(self, delta: Array, x: Array) -> tuple[Array, Array]:
        """F (delta, ~x), of vectors."""
        return total(product(self.A, delta), times(self.D, x)), product(self.B, x)

    def around(self, P: Form) -> Form:
        """F P F'."""
        A, D, B = self
        Pxd = None if P.dx is None else P.dx.swapaxes(0, 1)
        U, W = plus(times(A, P.dd), times(D, Pxd)), plus(times(A, P.dx), times(D, P.xx))
        dd = plus(times_turned(U, A), times_turned(W, D))
        if dd is not None and len(dd) > 1:
            dd = (dd + dd.swapaxes(0, 1)) / 2.0
        return Form(dd, times_turned(W, B), times_turned(times(B, P.xx), B))

    def within(self, W: Form) -> Form:
        """F' W F."""
        A, D, B = self
        At, Bt = A.swapaxes(0, 1), B.swapaxes(0, 1)
        Dt, Wxd = (None if X is None else X.swapaxes(0, 1) for X in (D, W.dx))
        U, V = plus(times(W.dd, D), times(W.dx, B)), plus(times(Wxd, D), times(W.xx, B))
        return Form(times(At, times(W.dd, A)), times(At, U), plus(times(Dt, U), times(Bt, V)))


class Form(NamedTuple):
    """A symmetric matrix [dd, dx; dx', xx] of (delta, ~x): a covariance, or the weights of a squared error."""

    dd: Array | None
    dx: Array | None
    xx: Array | None

    def plus(self, other: Form) -> Form:
        """The sum of both."""
        return Form(*(plus(X, Y) for X, Y in zip(self, other, strict=True)))

    def dot(self, P: Form) -> Array | None:
        """tr(W P); None is zero. Further axes of W may stand between the matrix and the pairs."""
        twice = None if P.dx is None else 2.0 * P.dx
        out = entries(self.dd, P.dd)
        for part in (entries(self.dx, twice), entries(self.xx, P.xx)):
            out = plus(out, part) if out is None or part is None else np.add(out, part, out=out)
        return out


def entries(X: Array | None, Y: Array | None) -> Array | None:
    """The sum over rows and columns of X times Y."""
    if X is None or Y is None:
        return None
    out: Array = X[0, 0] * Y[0, 0]
    for at in range(1, X.shape[0] * X.shape[1]):
        i, j = divmod(at, X.shape[1])
        out += X[i, j] * Y[i, j]
    return out


def product(X: Array, Y: Array) -> Array:
    """X Y."""
    if X.shape[1] == 1:
        return np.asarray(X * Y)
    return np.asarray(np.einsum("ik...,kj...->ij...", X, Y))


def square(X: Array, Y: Array) -> Array:
    """X Y'."""
    if X.shape[1] == 1:
        return np.asarray(X * Y.swapaxes(0, 1))
    return np.asarray(np.einsum("ik...,jk...->ij...", X, Y))


def times(X: Array | None, Y: Array | None) -> Array | None:
    """X Y, where None is zero."""
    return None if X is None or Y is None else product(X, Y)


def times_turned(X: Array | None, Y: Array | None) -> Array | None:
    """X Y', where None is zero."""
    return None if X is None or Y is None else square(X, Y)


def plus(X: Array | None, Y: Array | None) -> Array | None:
    """X + Y, where None is zero."""
    if X is None or Y is None:
        return Y if X is None else X
    return np.asarray(X + Y)


def total(X: Array, Y: Array | None, Z: Array | None = None) -> Array:
    """X + Y + Z, where None is zero."""
    X = X if Y is None else X + Y
    return X if Z is None else X + Z


def or_none(X: Array) -> Array | None:
    """X, or None if it is zero throughout."""
    return X if X.any() else None


def last(X: Array) -> Array:
    """The matrix axes moved to the end."""
    return np.moveaxis(X, (0, 1), (-2, -1))


def tall(X: Array, n: int) -> Array:
    """X with rows of zeros added, n in all."""
    return X if len(X) == n else np.pad(X, ((0, n - len(X)), *((0, 0),) * (X.ndim - 1)))


# Models as linear filters of independent noise: what colouring is for most models --------------------


# The same distance from a unit root as in the models.
_UNIT_ROOT = 1e-7


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


class Filters:
    """Several linear models, step by step; `read` turns d channels into the c that are looked at.

    `level` and `scale` (models, d) are the means and standard deviations of the noise, which is
    reckoned in units of its own: e = level + scale eps, with eps of mean 0 and variance 1.
    """

    def __init__(self, models: list[Linear], level: Array, scale: Array, read: Array | None = None) -> None:
        self.models = [model.recursion for model in models]
        self.level, self.scale = level, scale
        self.dim = self.models[0].dim
        self.read = np.eye(self.dim) if read is None else read
        self.states = max(model.states for model in self.models)
        self._sides = [Side(model, None) for model in self.models]
        # the step, counted from 0, from which on the rows do not change any more; None if there is no such step
        ends = [None if side.gains is None or not side.gains.frozen else side.gains.rows - 1 for side in self._sides]
        self.settled = None if None in ends else max(end for end in ends if end is not None)

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
        self._covariances = self._first_covariances()
        for first in range(0, count, _BLOCK):
            stop = min(first + _BLOCK, count)
            block = self._cut([self._rows(i, first, stop) for i in range(len(self))])
            for index in range(stop - first):
                yield Coefficients(*(part[index] for part in block))

    def steady(self) -> Coefficients:
        """The step that constant, stable models settle to."""
        rows = []
        for model in self.models:
            if not model.constant or spectral_radius(model.A) >= 1.0 - _UNIT_ROOT:
                raise DesignError(
                    "horizon is missing: a model that changes with time or has a root of modulus 1 or more "
                    "has no stationary limit, and the mean distortion may grow for ever"
                )
            table = gains(model)
            row = table.flat[-table.width :] if table.frozen else _settled_row(model)
            rows.append(row[None, :])
        return Coefficients(*(part[0] for part in self._cut(rows)))

    def _first_covariances(self) -> list[Array]:
        """Filtered covariances where the gain tables end, or where there is none, at the start."""
        return [
            np.array(model.cov0.ravel() if side.gains is None else side.gains.covariance(side.gains.rows))
            for model, side in zip(self.models, self._sides, strict=True)
        ]

    def _rows(self, i: int, first: int, stop: int) -> Array:
        """Gain rows (steps, width) of model i."""
        table = self._sides[i].gains
        if table is None:
            return self._carried(i, first, stop)
        rows = table.flat.reshape(table.rows, table.width)
        if table.frozen and stop > table.rows:
            return rows[np.minimum(np.arange(first, stop), table.rows - 1)]
        known = rows[first : min(stop, table.rows)]
        if stop <= table.rows:
            return known
        return np.concatenate((known, self._carried(i, max(first, table.rows), stop)))

    def _carried(self, i: int, first: int, stop: int) -> Array:
        rows = self._sides[i].table(first, stop, self._covariances[i])
        return rows.reshape(stop - first, -1)

    def _cut(self, tables: list[Array]) -> Coefficients:
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
            moved = rows[..., at[2] : at[3]].reshape(*rows.shape[:2], n, n + d)
            A, M = moved[..., :n], moved[..., n:]
            g, b = rows[..., at[3] : at[4], None], rows[..., at[5] : at[6], None]
            L = np.tril(rows[..., at[6] : at[7]].reshape(*rows.shape[:2], d, d))
            # e = level + scale eps
            level, scale = self.level[of][:, None, :, None], self.scale[of][:, None, None, :]
            found = (A, b + M @ level, M * scale, G @ H, G @ (g + L @ level), G @ (L * scale))
            for whole, part in zip(out, found, strict=True):
                whole[:, : part.shape[2], : part.shape[3], of] = np.moveaxis(part, 0, -1)
        return out


def _settled_row(model: GaussMarkov) -> Array:
    """The gain row at the end of a Riccati recursion that is too slow to be followed."""
    from scipy.linalg import solve_discrete_are

    A, b, Q, C, d, R = model.at(1)
    n, channels = model.states, model.dim
    unit = float(max(np.abs(Q).max(), np.abs(R).max()))  # the solver's accuracy depends on units
    try:
        S = unit * solve_discrete_are(A.T, C.T, Q / unit, R / unit)
        L = np.linalg.cholesky(C @ S @ C.T + R)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise DesignError(f"horizon is missing: the gains of a model do not settle ({error})") from None
    # M = K L = Sigma C' L^-T
    M = np.linalg.solve(L, C @ S).T
    moved, unused = np.concatenate((A, M), axis=1), np.zeros(n * (n + channels))
    return np.concatenate([unused, (C @ A).ravel(), moved.ravel(), C @ b + d, np.zeros(n), b, L.ravel()])


# Means and covariances of a pair of linear models driven by the same scores, and the step that moves  ---


class Moments(NamedTuple):
    """Means and covariance of (delta, ~x) over all pairs.

    None is zero: where models differ in their offsets alone, delta does not vary.
    """

    delta: Array  # (n, 1, sources, targets)
    x: Array  # (n, 1, 1, targets)
    P: Form


class Move(NamedTuple):
    """(delta, ~x) -> F (delta, ~x) + f + noise of covariance N: one step, or many."""

    F: Triangle
    f: tuple[Array, Array]
    N: Form

    def of(self, state: Moments) -> Moments:
        """The moments after the move."""
        delta, x = self.F.of(state.delta, state.x)
        return Moments(delta + self.f[0], x + self.f[1], self.F.around(state.P).plus(self.N))

    def twice(self) -> Move:
        """The same move two times over."""
        delta, x = self.F.of(*self.f)
        return Move(self.F.squared(), (self.f[0] + delta, self.f[1] + x), self.N.plus(self.F.around(self.N)))


class Step(NamedTuple):
    """One step over all pairs: how (delta, ~x) moves, and D = H delta + E ~x + g + noise, with E = Delta H."""

    move: Move
    H: Array  # (c, n, sources, 1)
    E: Array | None  # (c, n, sources, targets)
    g: Array  # (c, 1, sources, targets)
    noise: Array | None  # variances of the noise of D, (c, 1, sources, targets)

    def mean(self, state: Moments) -> Array:
        """The mean of D, (c, 1, sources, targets)."""
        return total(product(self.H, state.delta), times(self.E, state.x), self.g)

    def variance(self, state: Moments) -> Array | None:
        """The variances of D, (c, 1, sources, targets)."""
        H, E, P = self.H, self.E, state.P
        U = plus(times(H, P.dd), None if P.dx is None else times(E, P.dx.swapaxes(0, 1)))
        W = plus(times(H, P.dx), times(E, P.xx))
        return plus(plus(_row_sums(U, H), _row_sums(W, E)), self.noise)

    def measured(self, state: Moments, measure: Measure) -> Array:
        """E d of the reading, (sources, targets)."""
        means, variances = self.mean(state)[:, 0], self.variance(state)
        if variances is None:
            return measure.of_normal(means, np.zeros(means.shape))
        return measure.of_normal(means, np.maximum(variances[:, 0], 0.0))

    def drift(self, state: Moments) -> tuple[Array, Array]:
        """What the step adds to the means, (F - 1)(delta, ~x) + f, of which a unit root takes no digits."""
        (A, D, B), one = self.move.F, np.eye(len(state.x))[:, :, None, None]
        delta, x = Triangle(A - one, D, B - one).of(state.delta, state.x)
        return delta + self.move.f[0], x + self.move.f[1]


def start(sources: Filters, targets: Filters, chosen: slice) -> Moments:
    """Before the first step; `chosen` sources."""
    n = max(sources.states, targets.states)
    x, x_target = tall(sources.start()[..., chosen], n)[..., :, None], tall(targets.start(), n)[..., None, :]
    return Moments(x - x_target, x_target, Form(None, None, None))


def step_between(source: Coefficients, target: Coefficients, kappa: Array | None, chosen: slice) -> Step:
    """One step of all pairs, with the covariance of its noise."""
    n = max(len(source.A), len(target.A))
    a = Coefficients(*(part[..., chosen, None] for part in _padded(source, n)))
    t = Coefficients(*(part[..., None, :] for part in _padded(target, n)))
    A, b, M, H, g, L = (p - q for p, q in zip(a, t, strict=True))
    dd, dx, xx = square(M, M), square(M, t.M), square(t.M, t.M)
    noise = (L * L).sum(axis=1, keepdims=True)
    if kappa is not None:
        # cov(M eps - ~M ~eps) = (Delta M)(Delta M)' + sum_l kappa_l (M_l ~M_l' + ~M_l M_l')
        both = square(a.M * kappa, t.M)
        dd = dd + (both + both.swapaxes(0, 1))
        # cov(M eps - ~M ~eps, ~M ~eps) = (Delta M) ~M' - sum_l kappa_l M_l ~M_l'
        dx = dx - both
        noise = noise + 2.0 * (a.L * kappa * t.L).sum(axis=1, keepdims=True)
    move = Move(Triangle(a.A, or_none(A), t.A), (b, t.b), Form(or_none(dd), or_none(dx), xx))
    return Step(move, a.H, or_none(H), g, or_none(noise))


def cut(part: Any, rows: slice, columns: slice) -> Any:
    """Moments or a step of some of the pairs."""
    if part is None:
        return None
    if isinstance(part, tuple):
        pieces = [cut(piece, rows, columns) for piece in part]
        return tuple(pieces) if type(part) is tuple else type(part)(*pieces)
    every = slice(None)
    return part[..., rows if part.shape[-2] > 1 else every, columns if part.shape[-1] > 1 else every]


def _row_sums(X: Array | None, Y: Array | None) -> Array | None:
    """The diagonal of X Y', where None is zero."""
    if X is None or Y is None:
        return None
    return np.asarray(X * Y if X.shape[1] == 1 else (X * Y).sum(axis=1, keepdims=True))


def _padded(step: Coefficients, n: int) -> Coefficients:
    """The same step with zeros for further states."""
    if len(step.A) == n:
        return step
    more = n - len(step.A)
    A = np.pad(step.A, ((0, more), (0, more), (0, 0)))
    H = np.pad(step.H, ((0, 0), (0, more), (0, 0)))
    return Coefficients(A, tall(step.b, n), tall(step.M, n), H, step.g, step.L)


# The mean and variance of each of the next readings, when gains have settled and all steps are equal ---


class Ahead:
    """The next `count` steps of all pairs."""

    def __init__(self, step: Step, count: int) -> None:
        self.step, self.count = step, count
        A, D, B = step.move.F
        one, other = step.H, step.E
        if other is None and D is not None:
            other = np.zeros((*one.shape[:2], *D.shape[2:]))
        own, cross = [one], [other]  # h F^j = [own, cross]
        while len(own) < count:
            one, other = product(one, A), plus(times(one, D), times(other, B))
            own.append(one)
            cross.append(other)
        H = np.stack(own)  # (steps, c, n, sources, 1)
        E = np.stack([part for part in cross if part is not None]) if other is not None else None
        self._own, self._cross = _earlier(H), None if E is None else _earlier(E)
        self._seen = Form(_outer(H, H), _outer(H, E), _outer(E, E))
        within = self._seen.dot(step.move.N)
        if within is not None:
            within = np.concatenate((np.zeros((1, *within.shape[1:])), np.cumsum(within[:-1], axis=0)))
        self._noise = plus(within, None if step.noise is None else step.noise[:, 0])

    def readings(self, state: Moments) -> tuple[Array, Array]:
        """Means and variances of the differences, (steps, c, sources, targets)."""
        delta, x = self.step.drift(state)
        means = total(self.step.mean(state)[:, 0], entries(self._own, delta), entries(self._cross, x))
        variances = plus(self._seen.dot(state.P), self._noise)
        return means, np.zeros(means.shape) if variances is None else np.maximum(variances, 0.0)


def _earlier(X: Array) -> Array:
    """The sums over all earlier steps of (steps, c, n, pairs), as (n, 1, steps, c, pairs)."""
    sums = np.concatenate((np.zeros((1, *X.shape[1:])), np.cumsum(X[:-1], axis=0)))
    return np.ascontiguousarray(sums.transpose(2, 0, 1, 3, 4))[:, None]


def _outer(X: Array | None, Y: Array | None) -> Array | None:
    """The products of rows with rows: (n, n, steps, c, pairs) from (steps, c, n, pairs)."""
    return None if X is None or Y is None else np.ascontiguousarray(np.einsum("kci...,kcj...->ijkc...", X, Y))


# The squared error over K equal steps, in log K of them ----------------------------------------------


def squares(step: Step, state: Moments, K: int, weights: Array) -> Array:
    """The sum over K steps of sum_c weights[c] E D_c^2, (sources, targets)."""
    root = np.sqrt(weights)[:, None, None, None]
    H, E = root * step.H, None if step.E is None else root * step.E
    Ht, Et = H.swapaxes(0, 1), None if E is None else E.swapaxes(0, 1)
    move, W = step.move, Form(times(Ht, H), times(Ht, E), times(Et, E))
    c = None if step.noise is None else (root * root * step.noise).sum(axis=(0, 1))
    change, V = _mean_system(step, H, E)
    found = np.zeros(state.delta.shape[2:])
    for stretches, longer in _lengths(K):
        for _ in range(stretches):
            (rd, rx), m = step.drift(state), root * step.mean(state)
            z = Form(*_outer_doubling(np.concatenate((m, rd)), rx))
            for part in (V.dot(z), W.dot(state.P), c):
                if part is not None:
                    found += part
            state = move.of(state)
        if longer:
            seen = W.dot(move.N)
            c = plus(None if c is None else 2.0 * c, seen)
            W, V = W.plus(move.F.within(W)), V.plus(change.within(V))
            move, change = move.twice(), change.squared()
    return found


def _mean_system(step: Step, H: Array, E: Array | None) -> tuple[Triangle, Form]:
    """(m, r) -> (m + h r, F r), where m counts among the source's; and the weights of m^2."""
    A, D, B = step.move.F
    c, n, pairs = len(H), len(A), A.shape[2:]
    own = np.zeros((c + n, c + n, *pairs))
    own[:c, :c], own[:c, c:], own[c:, c:] = np.eye(c)[..., None, None], H, A
    V = np.zeros((c + n, c + n, 1, 1))
    V[:c, :c, 0, 0] = np.eye(c)
    if D is None and E is None:
        return Triangle(own, None, B), Form(V, None, None)
    top, rest = (np.zeros(()) if X is None else X for X in (E, D))
    shape = np.broadcast_shapes(top.shape[2:], rest.shape[2:])
    between = np.empty((c + n, n, *shape))
    between[:c], between[c:] = top, rest
    return Triangle(own, between, B), Form(V, None, None)


def _outer_doubling(d: Array, x: Array) -> tuple[Array, Array, Array]:
    dt, xt = d.swapaxes(0, 1), x.swapaxes(0, 1)
    return d * dt, d * xt, x * xt


def _lengths(K: int) -> Iterator[tuple[int, bool]]:
    """How often 1, 2, 4, .. are taken, once or twice, to make K; and whether more come."""
    while K:
        digit = 2 - K % 2
        K = (K - digit) // 2
        yield digit, K > 0


# The distortion of a pair of linear models, by recursion: no simulation ------------------------------


_BLOCK = 32  # readings measured at a time; a power of 2
_TILE = 8192  # numbers of a covariance over the pairs of a tile
_READINGS = 16384  # numbers that a block of readings takes, over the pairs of a smaller tile
_EPS = float(np.finfo(float).eps)
_NOTHING = 1e-20  # beside what a number has been, when it dies out


def distances(
    sources: Filters,
    targets: Filters,
    measure: Measure,
    horizon: int | None,
    kappa: Array | None = None,
    progress: Progress | None = None,
) -> Array:
    """The mean distortion of every source under every target, (sources, targets).

    `kappa` (d, sources, targets) belongs to noise that is not Gaussian; `horizon` None is the
    stationary limit.
    """
    n = max(sources.states, targets.states)
    rows = max(1, _TILE // (n * n * len(targets)))
    parts = []
    for first in range(0, len(sources), rows):
        chosen = slice(first, min(first + rows, len(sources)))
        part_kappa = None if kappa is None else kappa[:, chosen]
        with np.errstate(over="ignore", invalid="ignore"):
            if horizon is None:
                parts.append(_stationary(sources, targets, measure, part_kappa, chosen))
            else:
                parts.append(_over(sources, targets, measure, part_kappa, chosen, horizon))
        if progress is not None:
            progress(chosen.stop / len(sources))
    found = np.concatenate(parts)
    if not np.isfinite(found).all():
        raise NumericalError(
            f"the distortion over {horizon} readings leaves the range of double precision; a model is unstable"
        )
    return found


def mean_readings(models: Filters, horizon: int | None) -> Array:
    """The mean of E Y_k over the horizon, (channels read, models)."""
    if horizon is None:
        limit = models.steady()
        return np.asarray((product(limit.H, _rest(limit.A, limit.b)) + limit.g)[:, 0])
    x, sums = models.start(), np.zeros((len(models.read), 1, len(models)))
    for k, (A, b, _, H, g, _) in enumerate(models.steps(_stepped(models.settled, horizon))):
        if k == models.settled:
            # the rest at once: (sums, x, 1) moves by a matrix, and over many steps by its power
            c, n = H.shape[:2]
            F = np.zeros((len(models), c + n + 1, c + n + 1))
            F[:, :c, :c], F[:, -1, -1] = np.eye(c), 1.0
            F[:, :c, c:-1], F[:, :c, -1:], F[:, c:-1, c:-1], F[:, c:-1, -1:] = last(H), last(g), last(A), last(b)
            state = np.concatenate((sums, x, np.ones((1, 1, len(models)))))
            sums = np.moveaxis(np.linalg.matrix_power(F, horizon - k) @ last(state), 0, -1)[:c]
            break
        sums += product(H, x) + g
        x = product(A, x) + b
    return np.asarray(sums[:, 0] / horizon)


# The horizon -----------------------------------------------------------------------------------------


def _over(
    sources: Filters, targets: Filters, measure: Measure, kappa: Array | None, chosen: slice, horizon: int
) -> Array:
    state = start(sources, targets, chosen)
    sums = np.zeros(state.delta.shape[2:])
    ends = (sources.settled, targets.settled)
    settled = None if ends[0] is None or ends[1] is None else max(ends[0], ends[1])
    sides = (side.steps(_stepped(settled, horizon)) for side in (sources, targets))
    for k, (source, target) in enumerate(zip(*sides, strict=True)):
        step = step_between(source, target, kappa, chosen)
        if k == settled:
            sums += _settled(step, state, horizon - k, measure)
            break
        sums += step.measured(state, measure)
        state = step.move.of(state)
    return np.asarray(sums / horizon)


def _stepped(settled: int | None, horizon: int) -> int:
    """How many steps are laid out: the last one is the settled one, if there is one in time."""
    return horizon if settled is None else min(settled + 1, horizon)


def _settled(step: Step, state: Moments, K: int, measure: Measure) -> Array:
    """The sum of a measure over K equal steps."""
    if measure.power == 2:
        return squares(step, state, K, measure.weights)
    sums = np.zeros(state.delta.shape[2:])
    side = max(1, int((_READINGS / (_BLOCK * step.H[..., 0, 0].size * len(state.x))) ** 0.5))
    m, n = step.g.shape[2:]
    for i, j in itertools.product(range(0, m, side), range(0, n, side)):
        at = slice(i, i + side), slice(j, j + side)
        sums[at] = _absolute(cut(step, *at), cut(state, *at), K, measure)
    return sums


def _absolute(step: Step, state: Moments, K: int, measure: Measure) -> Array:
    """The sum of a measure over K equal steps, many readings at a time, until means and covariances rest."""
    ahead, move = Ahead(step, _BLOCK), step.move
    for _ in range(_BLOCK.bit_length() - 1):
        move = move.twice()
    sums = np.zeros(state.delta.shape[2:])
    peaks = _peaks([np.zeros(())] * 5, state)
    for k in range(0, K, _BLOCK):
        means, variances = ahead.readings(state)
        sums += measure.of_normal(means[: K - k], variances[: K - k]).sum(axis=0)
        before, state = state, move.of(state)
        peaks = _peaks(peaks, state)
        if k + _BLOCK < K and _at_rest(state, before, peaks):
            means, variances = ahead.readings(state)
            sums += (K - k - _BLOCK) * measure.of_normal(means[:1], variances[:1])[0]
            break
    return sums


def _at_rest(state: Moments, before: Moments, peaks: list[Array]) -> bool:
    """Whether the last steps moved nothing by more than rounding."""
    sd, sx = (
        np.zeros(()) if P is None else np.sqrt(np.abs(np.einsum("ii...->i...", P)))[:, None]
        for P in (state.P.dd, state.P.xx)
    )
    spreads = (sd, sx, sd * sd.swapaxes(0, 1) if sd.ndim else sd, sd * sx.swapaxes(0, 1), sx * sx.swapaxes(0, 1))
    for now, then, peak, spread in zip(_numbers(state), _numbers(before), peaks, spreads, strict=True):
        if now is None:
            continue
        if then is None:
            return False
        allowed = np.maximum(2.0 * _EPS * np.maximum(np.abs(now), spread), _NOTHING * peak)
        if not (np.abs(now - then) <= allowed).all():
            return False
    return True


def _peaks(peaks: list[Array], state: Moments) -> list[Array]:
    """The largest that each number has been."""
    pairs = zip(peaks, _numbers(state), strict=True)
    return [peak if now is None else np.maximum(peak, np.abs(now)) for peak, now in pairs]


def _numbers(state: Moments) -> tuple[Array | None, ...]:
    return state.delta, state.x, *state.P


# The limit -------------------------------------------------------------------------------------------


def _stationary(sources: Filters, targets: Filters, measure: Measure, kappa: Array | None, chosen: slice) -> Array:
    step = step_between(sources.steady(), targets.steady(), kappa, chosen)
    (A, D, B), f, N = step.move
    x = _rest(B, f[1])
    delta = _rest(A, total(f[0], times(D, x)))
    # P = F P F' + N is the noise of ever more steps
    move = Move(step.move.F, (np.zeros(f[0].shape), np.zeros(f[1].shape)), N)
    while max(float(np.abs(part).max()) for part in move.F if part is not None) > 1e-200:
        move = move.twice()
    return step.measured(Moments(delta, x, move.N), measure)


def _rest(A: Array, b: Array) -> Array:
    """The x with x = A x + b."""
    x: Array = np.linalg.solve(np.eye(len(A)) - last(A), last(b))  # type: ignore[assignment]  # all are float64
    return np.moveaxis(x, (-2, -1), (0, 1))
