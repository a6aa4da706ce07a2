"""Hidden Markov models, whole chunks at a time.

To whiten, the likelihoods of all readings under all hidden states come first, by the laws' own functions; then a
compiled loop runs the forward recursion; then every reading is scored under its own mixture. With z_s the score under
state s and pi_s its probability given the past, a mixture needs no more than that::

    z = Phi^-1(sum_s pi_s Phi(z_s))

To colour is sequential. For Gaussian laws, vectors included, and for atoms of one channel the loop with the inverse in
it is compiled; other laws go through the four methods of the model.

A `GaussianBank` or a `LawBank` holds the laws of all states side by side, ready to be asked about many readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from understudy._types import Array, Index, Mask, Numbers
from understudy.errors import NumericalError, ReadingError, StateError
from understudy.laws.atoms import Atoms, intervals, positions, randomise_scores
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.laws.multivariate import Independent, impossible, mix_probabilities
from understudy.laws.uniforms import Uniforms
from understudy.models.hidden_markov import HiddenMarkov
from understudy.transform.backend import kernels_hidden, view
from understudy.transform.core import split_count
from understudy.transform.readings import CausalMap, State, deliver, finite_or_missing

# Laws of all states -----------------------------------------------------------------------------------

_HALF_LOG_2PI = 0.9189385332046727


class GaussianBank:
    """Gaussian laws of all states side by side: means (d, S) and lower Cholesky factors (d, d, S)."""

    def __init__(self, laws: tuple[Law, ...]) -> None:
        parts = [_factors(law) for law in laws]
        self.means: Array = np.stack([mean for mean, _ in parts], axis=-1)
        self.factors: Array = np.stack([factor for _, factor in parts], axis=-1)
        self.logs: Array = np.log(np.stack([np.diag(factor) for _, factor in parts], axis=-1))

    def under(self, Y: Array) -> tuple[Array, Array]:
        """Scores and log-densities (N, d, S) of readings (N, d), each channel given the channels before it."""
        L, Z = self.factors, Y[:, :, None] - self.means
        # sums written out: a matrix product may round one reading and many readings differently
        for i in range(Y.shape[1]):
            for j in range(i):
                Z[:, i] -= L[i, j] * Z[:, j]
            Z[:, i] /= L[i, i]
        with np.errstate(over="ignore"):
            return Z, -0.5 * Z * Z - (self.logs + _HALF_LOG_2PI)


class LawBank:
    """Laws of all states that are laws of one number, independent channels or Gaussian vectors."""

    def __init__(self, laws: tuple[Law, ...]) -> None:
        self._laws = [GaussianBank((law,)) if type(law) is Gaussian else law for law in laws]

    def under(self, Y: Array) -> tuple[Array, Array]:
        """The same; outside a support a score is infinite, and for atoms, scored elsewhere, zero."""
        Z, G = np.empty((*Y.shape, len(self._laws))), np.empty((*Y.shape, len(self._laws)))
        for s, law in enumerate(self._laws):
            if isinstance(law, GaussianBank):
                Z[:, :, s : s + 1], G[:, :, s : s + 1] = law.under(Y)
                continue
            for i, channel in enumerate(law.laws if isinstance(law, Independent) else [law]):
                y = Y[:, i]
                Z[:, i, s] = 0.0 if isinstance(channel, Atoms) else _scores(channel, y)
                G[:, i, s] = channel.logpdf(y)
        return Z, G


def _scores(law: Law, y: Array) -> Array:
    """Scores of one number; infinite outside the support, NaN where they cannot be computed."""
    score = getattr(law, "score_or_end", law.score)
    try:
        return np.asarray(score(y), dtype=float)
    except (ReadingError, NumericalError):
        return np.array([_score(law, score, reading) for reading in y.tolist()])


def _score(law: Law, score: Callable[[float], Numbers], y: float) -> float:
    try:
        return float(score(y))
    except ReadingError:
        return -np.inf if y < law.value(0.0) else np.inf
    except NumericalError:
        return np.nan


def bank(laws: tuple[Law, ...]) -> GaussianBank | LawBank:
    """The laws of all states, ready to be asked about many readings."""
    return GaussianBank(laws) if all(is_gaussian(law) for law in laws) else LawBank(laws)


def is_known(law: Law, dim: int) -> bool:
    """Whether a bank can hold a law: any of one number, else independent channels and Gaussian vectors."""
    return dim == 1 or type(law) in (Gaussian, Independent)


def is_gaussian(law: Law) -> bool:
    """Whether a law is Gaussian, or made of independent Gaussian channels."""
    if type(law) is Independent:
        return all(type(channel) is Gaussian for channel in law.laws)
    return type(law) is Gaussian


def _factors(law: Law) -> tuple[Array, Array]:
    if isinstance(law, Independent):
        normals = [channel for channel in law.laws if isinstance(channel, Gaussian)]
        return np.array([law.mean for law in normals]), np.diag([law.root.item() for law in normals])
    if not isinstance(law, Gaussian):
        raise TypeError("a bank of Gaussian laws holds Gaussian laws only")
    return np.atleast_1d(law.mean), law.root


class AtomTables:
    """A channel with atoms: the values, and their probabilities under each state."""

    def __init__(self, laws: list[Atoms]) -> None:
        self.values: Array = laws[0].values
        self.probabilities: list[Array] = [law.probabilities for law in laws]

    def scores(self, W: Array, y: Array, v: Array) -> Array:
        """Each reading under its own mixture, with weights (N, S)."""
        p = mix_probabilities(W.T[:, :, None], self.probabilities)
        below, above, edges = intervals(p)
        n, i = np.arange(y.size), positions(self.values, y)
        return randomise_scores(p[n, i], below[n, i], above[n, i + 1], edges[n, i], edges[n, i + 1], v)


def atom_channels(emissions: tuple[Law, ...], dim: int) -> Iterator[tuple[int, AtomTables]]:
    """The channels that have atoms."""
    for i in range(dim):
        laws = [law.laws[i] if isinstance(law, Independent) else law for law in emissions]
        if isinstance(laws[0], Atoms):
            yield i, AtomTables([law for law in laws if isinstance(law, Atoms)])


# The maps ---------------------------------------------------------------------------------------------

_NUMBERS = 1 << 16  # worked on at a time, which bounds the memory and stays in the processor's cache
_DEEP = 600.0  # minus the logarithm of a tail beyond which weights that have underflowed may decide


def whitening(model: HiddenMarkov, uniforms: Uniforms | None = None) -> HiddenScores | None:
    """The map y -> z; None where it must go through the four methods (atoms without uniforms, copulas)."""
    if type(model) is not HiddenMarkov or (model.atoms and uniforms is None):
        return None
    return HiddenScores(model, uniforms) if all(is_known(law, model.dim) for law in model.emissions) else None


def colouring(model: HiddenMarkov) -> HiddenValues | HiddenAtoms | None:
    """The map z -> y; None where it must go through the four methods (laws neither Gaussian nor scalar atoms)."""
    if type(model) is not HiddenMarkov:
        return None
    if all(is_gaussian(law) for law in model.emissions):
        return HiddenValues(model)
    return HiddenAtoms(model) if model.dim == 1 and model.atoms else None


class _Hidden(CausalMap):
    """What all maps share: one reading is a chunk of one, so both give the same bits."""

    def __init__(self, model: HiddenMarkov) -> None:
        self.model, self.dim, self.states = model, model.dim, model.states
        self._laws = bank(model.emissions)
        self._transition = view(model.transition.reshape(-1))

    def start(self) -> State:
        """The model's own."""
        return self.model.start()

    def _probabilities(self, state: State) -> Array:
        if not isinstance(state, (tuple, list)) or len(state) != self.states:
            raise StateError(f"a state of this model is a tuple of {self.states} probabilities")
        try:
            p = np.array(state, dtype=float)
        except (TypeError, ValueError):
            p = np.full(self.states, np.nan)
        # it may have been through a file
        if not (p.shape == (self.states,) and (p >= 0.0).all() and abs(p.sum() - 1.0) <= 1e-6):
            raise StateError("the entries of a state are probabilities: not negative, and their sum is 1")
        return p

    def _filtered(self, pi: Array, Y: Array, there: Mask, first: int) -> tuple[Array, Array, Array]:
        """Scores and log-densities under each state, and probabilities before each channel: (T, d, S)."""
        if there.all():
            Z, G = self._laws.under(Y)
        else:
            Z, G = np.full((2, *Y.shape, self.states), np.nan)
            Z[there], G[there] = self._laws.under(Y[there])
        broken = there & np.isnan(G).any(axis=(1, 2))
        if broken.any():
            raise NumericalError("a law gave a log-density that is not a number", first + int(broken.argmax()))
        W, work = np.empty(Z.shape), view(np.empty(2 * self.states))
        done = kernels_hidden.forward(
            _flat(G), len(Y), self.dim, self.states, self._transition, view(pi), _flat(W), work
        )
        if done < len(Y):
            raise impossible(first + done)
        return Z, G, W


class HiddenScores(_Hidden):
    """y -> z; with atoms, the state counts the readings too, which tells their uniforms.

    >>> import understudy as us
    >>> laws = [us.Gaussian(0.0, 1.0), us.Gaussian(5.0, 1.0)]
    >>> scores = HiddenScores(HiddenMarkov([[0.9, 0.1], [0.1, 0.9]], [0.5, 0.5], laws))
    >>> state, z = scores.apply(scores.start(), np.array([[2.5], [5.0]]))
    >>> z.round(3).tolist()
    [[0.0], [0.674]]
    """

    def __init__(self, model: HiddenMarkov, uniforms: Uniforms | None = None) -> None:
        super().__init__(model)
        if model.atoms and uniforms is None:
            raise ReadingError("this model has atoms; its scores need auxiliary uniforms")
        self.uniforms = uniforms if model.atoms else None
        self._atoms = list(atom_channels(model.emissions, self.dim))
        width = 2 * self.dim * self.states + sum(tables.values.size for _, tables in self._atoms)
        self._block = max(1, _NUMBERS // width)

    def sensor(self, j: int) -> HiddenScores:
        """For sensor j of several, with uniforms of its own."""
        return self if self.uniforms is None else HiddenScores(self.model, self.uniforms.sensor(j))

    def start(self) -> State:
        """The model's own, after the number of readings so far where that is needed."""
        return self.model.start() if self.uniforms is None else (0, self.model.start())

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d)."""
        k, inner = (0, state) if self.uniforms is None else split_count(state)
        pi, missing, made = self._probabilities(inner), finite_or_missing(Y), np.full(Y.shape, np.nan)
        for first in range(0, len(Y), self._block):
            rows = slice(first, first + self._block)
            V = None if self.uniforms is None else self.uniforms.block(k + first, len(Y[rows]), self.dim)
            made[rows] = self._scored(pi, Y[rows], ~missing[rows], V, first)
        after = tuple(pi.tolist())
        return (after if self.uniforms is None else (k + len(Y), after)), deliver(made, out)

    def rooms(self, P: Array, Y: Array, V: Array | None) -> tuple[Array, Mask]:
        """Scores (R, d) of one reading of each of R rooms, and whose is for the law itself; rows of P move on."""
        there, bad = np.asarray(~np.isnan(Y).any(axis=1)), np.zeros(len(Y), dtype=np.intp)
        Z, G = np.full((2, *Y.shape, self.states), np.nan)
        Z[there], G[there] = self._laws.under(Y[there])
        W, work = np.empty(Z.shape), view(np.empty(2 * self.states))
        kernels_hidden.forward_rooms(
            _flat(G), len(Y), self.dim, self.states, self._transition, _flat(P), _flat(W), view(bad), work
        )
        z, lost, deep = self._under_mixtures(Z, W, Y, there, V)
        return z, (bad != 0) | lost | deep | (there & np.isnan(G).any(axis=(1, 2)))

    def _scored(self, pi: Array, Y: Array, there: Mask, V: Array | None, first: int) -> Array:
        Z, _, W = self._filtered(pi, Y, there, first)
        z, lost, deep = self._under_mixtures(Z, W, Y, there, V)
        for k in np.flatnonzero(deep).tolist():
            law = self.model.predict(tuple(W[k, 0].tolist()))
            z[k] = law.score(Y[k]) if V is None else law.score(Y[k], V[k])
            lost[k] = not np.isfinite(z[k]).all()
        if lost.any():
            raise NumericalError("the reading is too far out for double precision", first + int(lost.argmax()))
        return z

    def _under_mixtures(self, Z: Array, W: Array, Y: Array, there: Mask, V: Array | None) -> tuple[Array, Mask, Mask]:
        """Each reading under its own mixture; which scores are not finite, and which are for the law itself."""
        from scipy.special import ndtri_exp

        codes = np.empty(Y.shape)
        kernels_hidden.tails(_flat(W), _flat(Z), Y.size, self.states, _flat(codes))
        with np.errstate(invalid="ignore"):
            z = np.where(codes < 0.0, ndtri_exp(-np.abs(codes)), -ndtri_exp(-np.abs(codes)))
        if V is not None:
            for i, tables in self._atoms:
                z[there, i] = tables.scores(W[there, i], Y[there, i], V[there, i])
                codes[:, i] = 0.0
        deep = (np.abs(codes) > _DEEP).any(axis=1) & (self.dim > 1)
        return np.asarray(z), np.asarray(there & ~np.isfinite(z).all(axis=1)), np.asarray(deep)


class _Values(_Hidden):
    """z -> y by a compiled loop, which stops at the rows that are not for it: the law itself takes those."""

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk of scores (T, d)."""
        pi, made = self._probabilities(state), np.empty(Y.shape)
        z = np.where(finite_or_missing(Y)[:, None], np.nan, Y)
        k = 0
        while True:
            k += self._run(z[k:], made[k:], pi)
            if k == len(z):
                return tuple(pi.tolist()), deliver(made, out)
            made[k] = self._plain(k, z[k], pi)
            k += 1

    def _run(self, z: Array, out: Array, pi: Array) -> int:
        raise NotImplementedError  # each subclass has its own

    def rooms(self, P: Array, z: Array) -> tuple[Array, Mask]:
        """Readings (R, d) of one score of each of R rooms, and whose is for the law itself; rows of P move on."""
        out, bad = np.empty(z.shape), np.zeros(len(z), dtype=np.intp)
        self._run_rooms(np.where(np.isnan(z).any(axis=1, keepdims=True), np.nan, z), out, P, bad)
        return out, bad != 0

    def _run_rooms(self, z: Array, out: Array, P: Array, bad: Index) -> None:
        raise NotImplementedError  # each subclass has its own

    def _plain(self, row: int, z: Array, pi: Array) -> Array:
        """One reading by the law itself; pi moves on by the recursion that whitening has, bit for bit."""
        law = self.model.predict(tuple(pi.tolist()))
        y = np.reshape(law.value(z.item() if self.dim == 1 else z), (1, self.dim))
        try:
            self._filtered(pi, y, np.array([True]), row)
        except ReadingError:
            raise NumericalError("the score is too far out for double precision", row) from None
        return np.asarray(y[0])


class HiddenValues(_Values):
    """z -> y for Gaussian laws.

    >>> import understudy as us
    >>> laws = [us.Gaussian(0.0, 1.0), us.Gaussian(5.0, 1.0)]
    >>> values = HiddenValues(HiddenMarkov([[0.9, 0.1], [0.1, 0.9]], [0.5, 0.5], laws))
    >>> state, y = values.apply(values.start(), np.array([[0.0], [0.67449]]))
    >>> y.round(3).tolist()
    [[2.5], [5.0]]
    """

    def __init__(self, model: HiddenMarkov) -> None:
        super().__init__(model)
        laws = GaussianBank(model.emissions)
        tables = (laws.means, laws.factors, laws.logs)
        self._tables = tuple(_flat(np.ascontiguousarray(np.moveaxis(table, -1, 0))) for table in tables)

    def _run(self, z: Array, out: Array, pi: Array) -> int:
        work = view(np.empty(self.states * (4 + self.dim)))
        done: int = kernels_hidden.gaussian_values(
            _flat(z), _flat(out), len(z), self.dim, self.states, self._transition, view(pi), *self._tables, work
        )
        return done

    def _run_rooms(self, z: Array, out: Array, P: Array, bad: Index) -> None:
        sizes = len(z), self.dim, self.states
        work = view(np.empty(self.states * (4 + self.dim)))
        kernels_hidden.gaussian_rooms(
            _flat(z), _flat(out), *sizes, self._transition, _flat(P), *self._tables, view(bad), work
        )


class HiddenAtoms(_Values):
    """z -> y where every state has atoms.

    >>> from understudy.laws.atoms import Atoms
    >>> laws = [Atoms([0.0, 1.0], [0.5, 0.5]), Atoms([1.0, 2.0], [0.5, 0.5])]
    >>> values = HiddenAtoms(HiddenMarkov([[0.9, 0.1], [0.1, 0.9]], [0.5, 0.5], laws))
    >>> state, y = values.apply(values.start(), np.array([[-1.0], [0.0], [2.0]]))
    >>> y.tolist()
    [[0.0], [1.0], [2.0]]
    """

    def __init__(self, model: HiddenMarkov) -> None:
        super().__init__(model)
        ((_, tables),) = atom_channels(model.emissions, 1)
        P = np.ascontiguousarray(np.stack(tables.probabilities, axis=1))
        with np.errstate(divide="ignore"):
            self._tables = (_flat(P), _flat(np.log(P)), view(tables.values))
        self._count = tables.values.size

    def _run(self, z: Array, out: Array, pi: Array) -> int:
        work = view(np.empty(self.states))
        done: int = kernels_hidden.atom_values(
            _flat(z), _flat(out), len(z), self.states, self._count, self._transition, view(pi), *self._tables, work
        )
        return done

    def _run_rooms(self, z: Array, out: Array, P: Array, bad: Index) -> None:
        sizes, work = (len(z), self.states, self._count), view(np.empty(self.states))
        kernels_hidden.atom_rooms(
            _flat(z), _flat(out), *sizes, self._transition, _flat(P), *self._tables, view(bad), work
        )


def _flat(array: Array) -> Any:
    return view(array.reshape(-1))
