"""Models that live on a grid, quickly: many readings at once, to the bits of one after the other.

`OnGrid` says: each reading is the rounded draw of the model inside, which goes on from what was reported. Its own
methods serve one reading at a time, at a millisecond each. But the state before a reading is known as soon as the
readings are, so that all scores of a chunk can be computed side by side; and so can those of many sensors.

**Rows.** `rows_of(model)` gives a `Rows`: the model for R rows at once. A row is one sensor at one moment; rows do not
know of each other. The state of R rows is a float64 array (F, R), one column a row, with F = `size` entries:

==================  ==================================================================================================
model inside        entries of a column
==================  ==================================================================================================
AutoRegressive      p d numbers: the last p readings, the latest first, each with its d channels
GaussMarkov         1 + n + n^2 numbers: how many readings there were, the filtered mean, its covariance row by row (a
                    constant model; an AutoRegressive one with normal noise is one too)
IID                 none
==================  ==================================================================================================

`column` and `state` turn the state of the model into a column and back. `score(S, Y, v)` gives the scores (d, R) of
readings (d, R) under uniforms (d, R), `value(S, z)` the readings of scores, and `move(S, Y)` the states after readings;
a missing one is NaN in all channels (where `skips` says that the model knows a law across it). So one step of N sensors
is::

    z = source.score(S, Y, v);  S = source.move(S, Y);  out = target.value(St, z);  St = target.move(St, out)

and T steps of one sensor are `whiten(state, Y, v)` and `colour(state, z)`. Every number has the bits that the methods
of the model give it one at a time: sums are added in their order, functions of the C library stand where they call
these, and arrays where they call scipy (which has the same bits for one number and for many, but for sums: see
`Singles`). Where a reading is refused, or too far out for this arithmetic, there is no answer (None): then the methods
of the model are asked, one reading at a time, and say what they have to say.

**Guess and proof.** On the way out each reading needs those before it. For one channel the innovation does not: it is
the quantile of the score, and what is left is a short loop (`run_regression`). With several channels the rounding of
one moves the scores of the next, and quantiles are costly. There the readings of a block are first guessed, by a loop
that interpolates in tables of quantiles; then all rows are computed side by side from what was guessed before them. Up
to the first row that comes out otherwise the guess was right, to the bit, by induction; from there on it is made anew.

The means of a Kalman filter are found in the same way. Its matrix products have the bits of the machine's library, so
that a loop of our own finds them but for the last digits. All steps are then computed side by side, by that library,
each from the mean before it as it was guessed. Steps that come out otherwise change those that follow them; after a few
rounds, each for fewer steps, every mean is the one that follows from the mean before it. Covariances depend on no
reading: each is computed once (`Gain`), and settles to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

from understudy._types import Array, Index, Mask, Numbers
from understudy.errors import UnderstudyError
from understudy.laws.atoms import NARROW_PAIRS, ROOM, Rounded, Rounding, tail_log_probability
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.laws.mixture import LOOKS, Laws, Mixture, Normals, mixture_score, mixture_value
from understudy.laws.multivariate import GaussianCopula, GaussianMixture, Independent
from understudy.laws.scalar import Scalar
from understudy.laws.uniforms import Uniforms
from understudy.models.autoregressive import AutoRegressive
from understudy.models.gauss_markov import Filtered, GaussMarkov, gauss_markov
from understudy.models.iid_markov import IID
from understudy.models.quantised import OnGrid
from understudy.transform.backend import integers, kernels_rounded, view
from understudy.transform.core import Emit, RandomisedScore, split_count
from understudy.transform.readings import Reading, State, deliver, finite_or_missing, one_reading

_PAIRS = np.array(NARROW_PAIRS).ravel()
_BLOCK, _GUESS = 8192, 4096  # readings worked on, and guessed, at a time
_DEEP = 1e-290  # tails below this are left to logarithms
_HALF_LOG_2PI = 0.9189385332046727

# Laws of one number: many readings, to the bits of one -----------------------------------------------------


class Singles(Protocol):
    """A law of one number for arrays (R,), which gives each entry the bits that the law gives a single number.

    Most laws add up nothing over their readings, and an array has the same bits. The exceptions: an integral of a tail
    (`Scalar.alone`), and mixtures, which take other ways for one number than for many.
    """

    def score(self, y: Array) -> Any:
        """Scores (R,)."""
        ...

    def value(self, z: Array) -> Any:
        """Readings (R,)."""
        ...


class NormalsSingly:
    """A mixture of normals: what it does for one number in plain floats, compiled."""

    def __init__(self, law: Mixture) -> None:
        self._law = law
        self._weights = np.array(law.normals)[:, :1]
        self._parts = np.array(law.normals).ravel()

    def score(self, y: Array) -> Array:
        """Phi^-1 of the smaller tail; the law's own way where that is tiny."""
        from scipy.special import ndtri

        below, above = np.empty(y.size), np.empty(y.size)
        kernels_rounded.mixture_tails(
            view(y), view(below), view(above), y.size, view(self._parts), len(self._weights)
        )  # fmt: skip
        lower = below <= above
        tail = np.where(lower, below, above)
        z = np.asarray(ndtri(tail))
        z = np.where(lower, z, -z)
        for i in np.flatnonzero(~(tail > _DEEP)).tolist():
            z[i] = self._law.score(float(y[i]))
        return z

    def value(self, z: Array) -> Array:
        """Halley's method, all searches side by side; the law's own way where one fails."""
        from scipy.special import ndtri

        count, parts, K = z.size, view(self._parts), len(self._weights)
        q, work, out = np.empty(count), np.empty(5 * count), np.full(count, np.nan)
        kernels_rounded.upper_tails(view(z), view(q), count)
        beyond = np.where(q < self._weights, ndtri(q / self._weights), np.nan)
        kernels_rounded.mixture_begin(view(z), view(beyond.ravel()), view(work), count, parts, K)
        todo = integers(np.flatnonzero(q > _DEEP))
        left, tail, sums = todo.size, np.empty(count), np.empty(3 * count)
        for _ in range(LOOKS):
            if not left:
                break
            kernels_rounded.mixture_look(view(todo), view(tail), view(sums), left, view(work), parts, K)
            left = kernels_rounded.mixture_move(
                view(todo), view(tail), view(ndtri(tail[:left])), view(sums), view(out), left, view(work), Normals.small
            )  # fmt: skip
        out[todo[:left]] = np.nan
        for i in np.flatnonzero(np.isnan(out)).tolist():
            out[i] = self._law.value(float(z[i]))
        return out


class LawsSingly:
    """A mixture of any laws: one number has no table to start its search from."""

    def __init__(self, parts: Laws, laws: list[Any]) -> None:
        self._parts = Laws(parts.log_w, laws)

    def score(self, y: Array) -> Array:
        """By the core of all mixtures."""
        return mixture_score(y, self._parts)

    def value(self, z: Array) -> Array:
        """By the core of all mixtures."""
        return mixture_value(z, self._parts)


def singles_of(law: Law) -> Singles | None:
    """The law for many numbers, to the bits of one; None for a law that is not known here.

    >>> import scipy.stats
    >>> law = Mixture([0.5, 0.5], [Gaussian(0.0, 1.0), Gaussian(3.0, 4.0)])
    >>> y = np.linspace(-9.0, 9.0, 50)
    >>> singles_of(law).score(y).tolist() == [law.score(each) for each in y.tolist()]
    True
    """
    if type(law) is Gaussian and law.dim == 1:
        return law
    if type(law) is Scalar and law.dim == 1:
        return law.alone
    if type(law) is not Mixture:
        return None
    if law.normals:
        return NormalsSingly(law)
    parts = law.components
    inner = [singles_of(part) for part in parts.laws] if isinstance(parts, Laws) else []
    return LawsSingly(parts, inner) if isinstance(parts, Laws) and None not in inner else None


# Laws of all channels --------------------------------------------------------------------------------------


class Joint(Protocol):
    """The law of the innovations (d, R) of R rows, whose channels are reported one after the other."""

    def ends(self, E: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Scores of the ends of cells: channel i at its end, those before it as they were reported, E."""
        ...

    def reported(self, z: Array, mean: Array, grid: Rounding) -> Array:
        """What is reported for scores, around the mean."""
        ...


class Marginals:
    """Channels with laws of their own, joined by a root of the correlation of their scores, or independent."""

    def __init__(self, laws: list[Singles], root: Array | None) -> None:
        self.laws, self.root = laws, root

    def ends(self, E: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
        """One call of each law for all that is asked of it."""
        R, a, b, z = E.shape[1], np.empty(E.shape), np.empty(E.shape), np.empty(E.shape)
        for i, law in enumerate(self.laws):
            asked = [lower[i], upper[i]] if self.root is None else [lower[i], upper[i], E[i]]
            s = np.asarray(law.score(np.concatenate(asked)))
            a[i], b[i] = self._whitened(i, s[:R], z), self._whitened(i, s[R : 2 * R], z)
            if self.root is not None:
                z[i] = self._whitened(i, s[2 * R :], z)
        return a, b

    def reported(self, z: Array, mean: Array, grid: Rounding) -> Array:
        """Each channel rounded, and scored again, before the next."""
        y, w = np.empty(z.shape), z.copy()
        for i, (law, channel) in enumerate(zip(self.laws, grid.channels, strict=True)):
            s = w[i]
            if self.root is not None:
                # s = L w, as `multiply_lower` adds it up
                s = self.root[i, 0] * w[0]
                for j in range(1, i + 1):
                    s = s + self.root[i, j] * w[j]
                s = 0.0 + s
            y[i] = channel.round((np.asarray(law.value(s)) + mean[i]) + 0.0)
            if self.root is not None and i + 1 < len(y):
                w[i] = self._whitened(i, np.asarray(law.score(y[i] + -mean[i])), w)
        return y

    def _whitened(self, i: int, s: Array, z: Array) -> Array:
        """Channel i of L^-1 s, as `solve_lower` has it."""
        if self.root is None:
            return s
        for j in range(i):
            s = s - self.root[i, j] * z[j]
        return np.asarray(s / self.root[i, i])


class Whole:
    """A law of all channels that has the bits of one reading for many."""

    def __init__(self, law: GaussianMixture) -> None:
        self._law = law

    def ends(self, E: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
        """The law is triangular: only the channels before count."""
        found = []
        for ends in (lower, upper):
            z = np.empty(E.shape)
            for i, end in enumerate(ends):
                moved = E.copy()
                moved[i] = end
                z[i] = np.asarray(self._law.score(moved))[i]
            found.append(z)
        return found[0], found[1]

    def reported(self, z: Array, mean: Array, grid: Rounding) -> Array:
        """As it is written for one."""
        return np.asarray(Rounded(self._law, grid, mean).value(z))


def joint_of(law: Law) -> Joint | None:
    """The law of all channels for many rows, to the bits of one; None for a law that is not known here."""
    if type(law) is GaussianMixture:
        return Whole(law)
    several = isinstance(law, (GaussianCopula, Independent))
    laws = [singles_of(part) for part in (law.laws if isinstance(law, (GaussianCopula, Independent)) else (law,))]
    if any(part is None for part in laws):
        return None
    root = law.root if several and isinstance(law, GaussianCopula) and law.dim > 1 else None
    return Marginals([part for part in laws if part is not None], root)


def cell_scores(a: Array, b: Array, v: Array) -> Array:
    """Scores between those of the ends of cells, at the uniforms v: `laws.atoms.cell_scores` one at a time, or NaN.

    >>> from understudy.laws import atoms
    >>> cell_scores(np.array([-1.0]), np.array([0.5]), np.array([0.3]))[0] == atoms.cell_scores(-1.0, 0.5, 0.3)
    np.True_
    """
    from scipy.special import log_ndtr, ndtri_exp

    logs, log_v, log_w = np.empty(a.size), np.empty(a.size), np.empty(a.size)
    kernels_rounded.log_cells(view(a), view(b), view(v), view(logs), view(log_v), view(log_w), view(_PAIRS), a.size)
    with np.errstate(all="ignore"):
        left = np.flatnonzero(np.isnan(logs))
        if left.size:
            low, half = np.where(a + b < 0.0, -b, a)[left], 0.5 * (b - a)[left]
            tail = (low >= 1.0) & (half > 0.0)
            logs[left[tail]] = tail_log_probability(low[tail], half[tail])
        under, over = np.logaddexp(log_ndtr(a), log_v + logs), np.logaddexp(log_ndtr(-b), log_w + logs)
        lower = under < over
        z = ndtri_exp(np.minimum(np.where(lower, under, over), 0.0))
        z = np.where(lower, z, -z)
        z = np.where(a > z, a, z)
        z = np.where(b < z, b, z)
        room = np.minimum(ROOM * np.minimum(b - a, 1.0), 0.25 * (b - a))
        return np.asarray(np.minimum(np.maximum(z, a + room), b - room))


def _missing(Y: Array, axis: int) -> Mask:
    """Whether some channel, along this axis, is missing."""
    return np.asarray(np.isnan(Y).any(axis=axis))


# Many rows of one model ------------------------------------------------------------------------------------


_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def _or_none(function: Callable[_Given, _Found | None]) -> Callable[_Given, _Found | None]:
    """None in place of an error: the methods of the model have the words for it."""

    @wraps(function)
    def quick(*args: _Given.args, **kwargs: _Given.kwargs) -> _Found | None:
        try:
            return function(*args, **kwargs)
        except (UnderstudyError, np.linalg.LinAlgError):
            return None

    return quick


class Rows:
    """A model on a grid for many rows at once; this one has nothing to remember (`IID`)."""

    size = 0
    """Entries of a state."""
    skips = True
    """Whether it goes on after a missing reading."""
    single = False
    """Whether even one reading is quicker this way."""

    def __init__(self, model: OnGrid, joint: Joint) -> None:
        self.model, self.grid, self.dim, self.joint = model, model.grid, model.dim, joint

    def column(self, state: Any) -> Array:
        """A state of the model, as a column (F,)."""
        return np.empty(0)

    def state(self, column: Array) -> Any:
        """The state of the model that a column holds."""
        return self.model.start()

    def move(self, S: Array, Y: Array) -> Array:
        """States (F, R) after readings (d, R); NaN where one is missing."""
        return S

    def law(self, S: Array) -> tuple[Array, Joint]:
        """Where the innovations are around, (d, R), and their law."""
        return np.zeros((self.dim, S.shape[1])), self.joint

    @_or_none
    def score(self, S: Array, Y: Array, v: Array) -> Array | None:
        """Scores (d, R) of readings (d, R) with uniforms v; None where a reading must be treated alone."""
        return self._score(self.law(S), Y, v)

    def _score(self, law: tuple[Array, Joint], Y: Array, v: Array) -> Array | None:
        mean, joint = law
        gone = _missing(Y, 0)
        if gone.any():  # in their place something near, of which nothing is kept
            Y = np.where(gone, self.grid.round(mean.T).T, Y)
        cells = [channel.cells(y, i) for i, (channel, y) in enumerate(zip(self.grid.channels, Y, strict=True))]
        at, lower, upper = (np.array([cell[n] for cell in cells]) for n in range(3))
        first, last = np.isneginf(lower), np.isposinf(upper)
        ends = np.where(first, at, lower) + -mean, np.where(last, at, upper) + -mean
        a, b = joint.ends(Y + -mean, *ends)
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return None
        a, b = np.where(first, -np.inf, a), np.where(last, np.inf, b)
        z = cell_scores(a.ravel(), b.ravel(), np.ascontiguousarray(v).ravel()).reshape(Y.shape)
        return np.where(gone, np.nan, z) if np.isfinite(z).all() else None

    @_or_none
    def value(self, S: Array, z: Array) -> Array | None:
        """Readings (d, R) of scores (d, R); None where one must be treated alone."""
        return self._value(self.law(S), z)

    def _value(self, law: tuple[Array, Joint], z: Array) -> Array | None:
        mean, joint = law
        gone = _missing(z, 0)
        y = joint.reported(np.where(gone, 0.0, z), mean, self.grid)
        return np.where(gone, np.nan, y) if np.isfinite(y).all() else None

    def laws(self, state: Any, Y: Array) -> tuple[tuple[Array, Joint], Any]:
        """The law of each of the readings (T, d) of one sensor, and its state after them."""
        return self.law(np.empty((0, len(Y)))), state

    @_or_none
    def whiten(self, state: Any, Y: Array, v: Array) -> tuple[Any, Array] | None:
        """Scores (T, d) of the readings (T, d) of one sensor, and its state after them."""
        law, after = self.laws(state, Y)
        z = self._score(law, Y.T, v.T)
        return None if z is None else (after, z.T)

    @_or_none
    def colour(self, state: Any, z: Array) -> tuple[Any, Array] | None:
        """Readings (T, d) of the scores (T, d) of one sensor, and its state after them."""
        y = self.value(np.empty((0, len(z))), z.T)
        return None if y is None else (state, y.T)

    def prove(self, state: Any, z: Array) -> tuple[Any, Array] | None:
        """The same by guess and proof, block by block."""
        out, at = np.empty(z.shape), 0
        while at < len(z):
            block, guess = np.ascontiguousarray(z[at : at + _GUESS]), out[at : at + _GUESS]
            self.guess(state, block, guess)
            law, after = self.laws(state, guess)
            y = self._value(law, block.T)
            if y is None:
                return None
            wrong = np.flatnonzero(((guess != y.T) & ~np.isnan(block)).any(axis=1))
            good = int(wrong[0]) + 1 if wrong.size else len(block)
            if wrong.size:
                guess[good - 1] = y.T[good - 1]
                after = self.laws(state, guess[:good])[1]
            state, at = after, at + good
        return state, out

    def guess(self, state: Any, z: Array, out: Array) -> None:
        """Readings that are nearly always those of the scores z, into `out`; NaN where these are."""
        raise NotImplementedError  # each subclass has its own


class RegressionRows(Rows):
    """An autoregression on a grid. A state holds its last p readings, the latest first."""

    skips = False

    def __init__(self, model: OnGrid, inside: AutoRegressive, joint: Marginals) -> None:
        super().__init__(model, joint)
        self._inside, self._laws = inside, joint
        self.order, self.size = inside.order, inside.order * inside.dim
        self.single = inside.dim > 1 or isinstance(joint.laws[0], LawsSingly)
        self._system = np.concatenate([inside.intercept, inside.coefficients.ravel()])
        self._channels = np.array(self.grid.channels).ravel()
        self._tables: tuple[Array, Any] | None = None
        # numpy may add up many products in another order than one; whether it does depends on shapes alone
        some = np.random.default_rng(0).standard_normal((67, self.order, self.dim))
        self._at_once = np.array_equal(_products(inside, some), _each_product(inside, some))

    def column(self, state: Any) -> Array:
        """The readings one after the other."""
        return np.asarray(state, dtype=float).reshape(self.size)

    def state(self, column: Array) -> Array:
        """An array (p, d)."""
        return np.array(column, dtype=float).reshape(self.order, self.dim)

    def move(self, S: Array, Y: Array) -> Array:
        """The new reading comes first, the oldest is dropped."""
        return np.concatenate([Y, S[: -self.dim]])

    def law(self, S: Array) -> tuple[Array, Joint]:
        """yhat_k = intercept + sum_i Phi_i y_{k-i}, added up as the model does it."""
        inside, (p, d) = self._inside, (self.order, self.dim)
        if d == 1 and p <= 2:
            total = self._system[1] * S[:1]
            if p == 2:
                total = total + self._system[2] * S[1:]
            return inside.intercept[0] + (total + 0.0), self.joint
        past = np.ascontiguousarray(S.T).reshape(-1, p, d)
        return (inside.intercept + (_products if self._at_once else _each_product)(inside, past)).T, self.joint

    def laws(self, state: Any, Y: Array) -> tuple[tuple[Array, Joint], Any]:
        """The state before each is the last p readings, wherever one stands."""
        p, T = self.order, len(Y)
        readings = np.concatenate([np.asarray(state, dtype=float)[::-1], Y])
        S = np.stack([readings[p - lag : p - lag + T].T for lag in range(1, p + 1)])
        return self.law(S.reshape(self.size, T)), np.ascontiguousarray(readings[T:][::-1])

    @_or_none
    def colour(self, state: Any, z: Array) -> tuple[Any, Array] | None:
        """Innovations side by side and a short loop, or a guess that is proved."""
        if self.dim > 1 or self.order > 2:
            self._tables = self._tables or _quantile_tables(self._inside.noise)
            return None if self._tables is None else self.prove(state, z)
        e = np.asarray(self._laws.laws[0].value(np.ascontiguousarray(z[:, 0])))
        out, past = np.empty(len(z)), np.array(state, dtype=float).ravel()
        kernels_rounded.run_regression(
            view(e), view(out), len(z), self.order, view(self._system), view(self._channels), view(past)
        )
        return (past.reshape(self.order, 1), out[:, None]) if np.isfinite(out).all() else None

    def guess(self, state: Any, z: Array, out: Array) -> None:
        """By tables of the quantiles."""
        tables, sizes = self._tables or (np.empty(0), integers([]))
        root = np.eye(self.dim) if self._laws.root is None else self._laws.root
        kernels_rounded.guess_regression(
            view(z.reshape(-1)), view(out.reshape(-1)), len(z), self.order, self.dim, view(self._system),
            view(root.reshape(-1)), view(self._channels), view(tables), view(sizes),
            view(np.array(state, dtype=float).reshape(-1)), view(np.empty(self.dim)),
        )  # fmt: skip


def _each_product(inside: AutoRegressive, past: Array) -> Array:
    """sum_i Phi_i y_{k-i} for rows (R, p, d), one after the other, as the model does it."""
    return np.array([np.einsum("pij,pj->i", inside.coefficients, each) for each in past]).reshape(-1, inside.dim)


def _products(inside: AutoRegressive, past: Array) -> Array:
    """The same at once."""
    return np.asarray(np.einsum("pij,npj->ni", inside.coefficients, past))


_FAR = np.linspace(3.03125, 7.0, 128)
_KNOTS = np.concatenate([-_FAR[::-1], np.linspace(-3.0, 3.0, 1537), _FAR])


def _quantile_tables(law: Law) -> tuple[Array, Any] | None:
    """For each channel: scores, innovations, and the slopes of either over the other; and the number of scores."""
    laws = law.laws if isinstance(law, (GaussianCopula, Independent)) else (law,)
    tables, sizes = [], []
    for one in laws:
        try:
            e = np.asarray(one.value(_KNOTS), dtype=float)
            slope = np.exp(-0.5 * _KNOTS * _KNOTS - _HALF_LOG_2PI - np.asarray(one.logpdf(e)))
        except UnderstudyError:
            return None
        keep = np.flatnonzero(np.concatenate([[True], np.diff(e) > 0.0]) & np.isfinite(slope) & (slope > 0.0))
        tables += [_KNOTS[keep], e[keep], slope[keep], 1.0 / slope[keep]]
        sizes.append(keep.size)
    return np.concatenate(tables), integers(sizes)


_GAINS = 4096  # that are kept


class Gain:
    """What a Kalman filter does at a covariance: root of the innovation covariance, gain, and the gains after it."""

    __slots__ = ("_given", "_owner", "_skipped", "_updated", "cov", "root", "transposed")

    def __init__(self, owner: Gains, cov: Array) -> None:
        linear = owner.linear
        law = linear.predict(Filtered(0, linear.mean0, cov))
        K, after = linear.gain(linear.skip(Filtered(0, linear.mean0, cov)).cov, linear.at(1))
        self.cov, self.root = np.array(cov), law.root
        # in the order that it has in memory, on which its products depend
        self.transposed = np.ascontiguousarray(K.T)
        self._owner, self._given = owner, after
        self._updated: Gain | None = None
        self._skipped: Gain | None = None

    @property
    def updated(self) -> Gain:
        """The gain after a reading."""
        if self._updated is None:
            self._updated = self._owner.at(self._given)
        return self._updated

    @property
    def skipped(self) -> Gain:
        """The gain after a missing reading."""
        if self._skipped is None:
            linear = self._owner.linear
            self._skipped = self._owner.at(linear.skip(Filtered(0, linear.mean0, self.cov)).cov)
        return self._skipped


class Gains:
    """The gains of a constant model, by covariance, each computed once."""

    def __init__(self, linear: GaussMarkov) -> None:
        self.linear, self._known = linear, dict[bytes, Gain]()

    def at(self, cov: Array) -> Gain:
        """The gain at a filtered covariance (n, n)."""
        key = cov.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _GAINS:
                self._known = {}
            found = self._known[key] = Gain(self, cov)
        return found


class _Normal:
    """A standard normal channel."""

    def score(self, y: Array) -> Array:
        return y

    def value(self, z: Array) -> Array:
        return z


class NormalRows(Rows):
    """A constant Gauss-Markov model on a grid. A state: number of readings, filtered mean and covariance."""

    def __init__(self, model: OnGrid, linear: GaussMarkov) -> None:
        super().__init__(model, Marginals([_Normal()] * linear.dim, None))
        self._linear, self._system, self._gains = linear, linear.at(1), Gains(linear)
        self._n, self.size = linear.states, 1 + linear.states + linear.states**2
        self._channels = np.array(self.grid.channels).ravel()

    def column(self, state: Any) -> Array:
        """The three parts one after the other."""
        return np.concatenate([[float(state[0])], state[1], np.ravel(state[2])])

    def state(self, column: Array) -> Filtered:
        """The three parts again."""
        n = self._n
        return Filtered(int(column[0]), np.array(column[1 : 1 + n]), np.array(column[1 + n :]).reshape(n, n))

    def _moved(self, X: Array) -> Array:
        """xhat_{k|k-1} for filtered means (R, n)."""
        return np.asarray(np.matmul(self._system.A, X[:, :, None])[:, :, 0] + self._system.b)

    def _seen(self, x: Array) -> Array:
        """C xhat_{k|k-1}, (R, d)."""
        return np.asarray(np.matmul(self._system.C, x[:, :, None])[:, :, 0])

    def _after(self, X: Array, Y: Array, gains: list[Gain], index: Index) -> Array:
        """Filtered means (R, n) after readings (R, d), NaN where one is missing."""
        transposed = gains[0].transposed if len(gains) == 1 else np.array([g.transposed for g in gains])[index]
        x = self._moved(X)
        e = Y - self._seen(x) - self._system.d
        after = x + np.matmul(np.swapaxes(transposed, -1, -2), e[:, :, None])[:, :, 0]
        gone = _missing(Y, 1)
        after[gone] = x[gone]
        return np.asarray(after)

    def law(self, S: Array) -> tuple[Array, Joint]:
        """C xhat_{k|k-1} + d, and normal innovations."""
        return self._law(np.ascontiguousarray(S[1 : 1 + self._n].T), *_numbered(self._kept(S)))

    def _law(self, X: Array, gains: list[Gain], index: Index) -> tuple[Array, Joint]:
        """The same from filtered means (R, n) before each reading."""
        mean = (self._seen(self._moved(X)) + self._system.d).T
        root = gains[0].root if len(gains) == 1 else np.array([g.root for g in gains])[index].transpose(1, 2, 0)
        return mean, Marginals([_Normal()] * self.dim, root)

    def _kept(self, S: Array) -> list[Gain]:
        """The gain of each column."""
        n = self._n
        return [self._gains.at(cov.reshape(n, n)) for cov in np.ascontiguousarray(S[1 + n :].T)]

    def move(self, S: Array, Y: Array) -> Array:
        """One step of the filter."""
        kept, gone = self._kept(S), _missing(Y, 0).tolist()
        gains, index = _numbered(kept)
        X = self._after(np.ascontiguousarray(S[1 : 1 + self._n].T), np.ascontiguousarray(Y.T), gains, index)
        after = [gain.skipped if g else gain.updated for gain, g in zip(kept, gone, strict=True)]
        return np.concatenate([S[:1] + 1.0, X.T, np.array([gain.cov.ravel() for gain in after]).T])

    def laws(self, state: Any, Y: Array) -> tuple[tuple[Array, Joint], Any]:
        """Means are guessed, and computed until each follows from the one before it."""
        k, mean, cov = state
        gone = _missing(Y, 1)
        gains, index, after = self._path(cov, gone)
        X = self._run(mean, gains, np.where(gone, -1, index), Y, None)
        todo = np.arange(len(Y))
        while todo.size:
            found = self._after(X[todo], Y[todo], gains, index[todo])
            other = ((found != X[todo + 1]) & ~np.isnan(found)).any(axis=1)
            X[todo + 1] = found
            todo = todo[other] + 1
            todo = todo[todo < len(Y)]
        return self._law(X[:-1], gains, index), Filtered(k + len(Y), X[-1].copy(), after)

    def _path(self, cov: Array, gone: Mask) -> tuple[list[Gain], Index, Array]:
        """The gains that are used, which one at each step, and the covariance after all."""
        gain, path = self._gains.at(cov), []
        for missing in gone.tolist():
            path.append(gain)
            gain = gain.skipped if missing else gain.updated
        return *_numbered(path), gain.cov

    def _run(self, mean: Array, gains: list[Gain], index: Index, given: Array, out: Array | None) -> Array:
        """Filtered means (T + 1, n), nearly; with `out`, which receives the readings, `given` are scores."""
        rows = np.concatenate([np.concatenate([g.root.ravel(), g.transposed.T.ravel()]) for g in gains])
        X, d = np.empty((len(given) + 1, self._n)), self.dim
        X[0] = mean
        kernels_rounded.guess_filter(
            view(np.ascontiguousarray(given).reshape(-1)), view(integers(index)),
            view(np.empty(0) if out is None else out.reshape(-1)), view(X.reshape(-1)), len(given), self._n, d,
            view(self._linear.row(1)), view(rows), view(self._channels), out is not None, view(np.empty(2 * d)),
        )  # fmt: skip
        return X

    def guess(self, state: Any, z: Array, out: Array) -> None:
        """By a loop of our own."""
        gone = _missing(z, 1)
        gains, index, _ = self._path(state[2], gone)
        out[gone] = np.nan
        self._run(state[1], gains, np.where(gone, -1, index), z, out)

    @_or_none
    def whiten(self, state: Any, Y: Array, v: Array) -> tuple[Any, Array] | None:
        """Long gaps in one leap, and what is between them."""
        return self._in_pieces(state, Y, lambda state, at: super(NormalRows, self).whiten(state, Y[at], v[at]))

    @_or_none
    def colour(self, state: Any, z: Array) -> tuple[Any, Array] | None:
        """Long gaps in one leap, and guesses that are proved between them."""
        return self._in_pieces(state, z, lambda state, at: self.prove(state, z[at]))

    def _in_pieces(
        self, state: Any, given: Array, piece: Callable[[Any, slice], tuple[Any, Array] | None]
    ) -> tuple[Any, Array] | None:
        out = np.full(given.shape, np.nan)
        for at, gap in _spans(_missing(given, 1)):
            if gap:
                state = self._linear.skip_many(state, at.stop - at.start)
                continue
            found = piece(state, at)
            if found is None:
                return None
            state, out[at] = found
        return state, out


def _numbered(path: list[Gain]) -> tuple[list[Gain], Index]:
    """Gains, each once, and which one stands where."""
    numbers: dict[int, int] = {}
    index = np.array([numbers.setdefault(id(gain), len(numbers)) for gain in path], dtype=np.intp)
    first = {number: gain for gain, number in zip(reversed(path), reversed(index.tolist()), strict=True)}
    return [first[number] for number in range(len(numbers))], index


_LONG = 64  # missing readings in a row that are passed in one leap


def _spans(gone: Mask) -> Iterator[tuple[slice, bool]]:
    """Slices of readings, and of long gaps between them (True).

    >>> [(at.start, at.stop, gap) for at, gap in _spans(np.repeat([False, True, False, True], [2, 64, 3, 1]))]
    [(0, 2, False), (2, 66, True), (66, 70, False)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], gone, [False]]).astype(np.int8)))
    at = 0
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if stop - start >= _LONG:
            if start > at:
                yield slice(at, start), False
            yield slice(start, stop), True
            at = stop
    if at < len(gone):
        yield slice(at, len(gone)), False


@lru_cache(maxsize=64)
def rows_of(model: OnGrid) -> Rows | None:
    """The model for many rows at once; None where only its own methods serve."""
    inside: Any = model.model
    if type(inside) is IID:
        joint = joint_of(inside.law)
        return None if joint is None else Rows(model, joint)
    linear = gauss_markov(inside)
    if type(linear) is GaussMarkov and linear.constant:
        return NormalRows(model, linear)
    if type(inside) is AutoRegressive:
        joint = joint_of(inside.noise)
        return RegressionRows(model, inside, joint) if isinstance(joint, Marginals) else None
    return None


# The maps --------------------------------------------------------------------------------------------------


def whitening(model: OnGrid, uniforms: Uniforms) -> GridScore:
    """The map from readings of the model to scores."""
    return GridScore(model, uniforms)


def colouring(model: OnGrid) -> GridEmit:
    """The map from scores to readings of the model."""
    return GridEmit(model)


class GridScore(RandomisedScore):
    """y -> z: a block of readings at a time."""

    def __init__(self, model: OnGrid, uniforms: Uniforms) -> None:
        super().__init__(model, uniforms)
        self._on_grid, self.rows = model, rows_of(model)

    def sensor(self, j: int) -> GridScore:
        """With uniforms of its own."""
        return GridScore(self._on_grid, self.uniforms.sensor(j))

    def step(self, state: State, y: Reading) -> tuple[State, Numbers]:
        """One reading."""
        single = self.rows is not None and self.rows.single
        return _first(self, state, y) if single else super().step(state, y)

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d)."""
        missing = finite_or_missing(Y)
        if self.rows is None or not _is_quicker(self.rows, missing):
            return super().apply(state, Y, out)
        k, after = split_count(state)
        made, given = np.empty(Y.shape), _all_or_none(Y, missing)
        for first in range(0, len(Y), _BLOCK):
            part = given[first : first + _BLOCK]
            found = self.rows.whiten(after, part, self.uniforms.block(k, len(part), self.dim))
            if found is None:
                return super().apply(state, Y, out)
            k, (after, made[first : first + _BLOCK]) = k + len(part), found
        return (k, after), deliver(made, out)


class GridEmit(Emit):
    """z -> y: a block of scores at a time."""

    def __init__(self, model: OnGrid) -> None:
        super().__init__(model)
        self.rows = rows_of(model)

    def step(self, state: State, y: Reading) -> tuple[State, Numbers]:
        """One score."""
        single = self.rows is not None and self.rows.single
        return _first(self, state, y) if single else super().step(state, y)

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d)."""
        missing = finite_or_missing(Y)
        found = None
        if self.rows is not None and _is_quicker(self.rows, missing):
            found = self.rows.colour(state, _all_or_none(Y, missing))
        if found is None:
            return super().apply(state, Y, out)
        return found[0], deliver(found[1], out)


def _is_quicker(rows: Rows, missing: Mask) -> bool:
    """Whether a block is worth its while, and the model goes on after what is missing of it."""
    return (rows.single or len(missing) > 2) and (rows.skips or not missing.any())


def _all_or_none(Y: Array, missing: Mask) -> Array:
    """Readings of which a channel is missing, missing altogether."""
    return np.where(missing[:, None], np.nan, Y) if missing.any() else Y


def _first(link: GridScore | GridEmit, state: State, y: Reading) -> tuple[State, Numbers]:
    state, out = link.apply(state, one_reading(y, link.dim))
    return state, float(out[0, 0]) if link.dim == 1 else np.asarray(out[0])
