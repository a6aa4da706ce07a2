"""Running the disguise backwards: what scores, lattices and the states of both filters give away.

*Recovering readings* (`recover_readings`). The filter is public, and the theorem grants an adversary the pseudo path.
Then the scores z are known: they are the output, whitened along that path. If theta came from outside, z tells nothing
about it. If it was *estimated* from the readings, it is a function of what is sought, and that is enough to go on step
by step. With the past recovered, each value i has one candidate reading, the one whose scores under i are z_k; the
estimator, run on past and candidate, must say i again. Often one is left, and then the reading is known exactly. Where
several are, paths fork, weighed by the probability of what they say: with b- and b+ the belief of the estimator in i
before and after the reading, the density of the scores under a fork is that of a normal times b-_i / b+_i, and a draw
of the randomizer adds the logarithm of its probability under i. What decides is how much the estimated value owes to
the *past*: a value that is kept until the next decision owes it nearly all, and everything is recovered.

*Counting readings* (`Machine`, `count_readings`). A disguise maps doubles to doubles. Between two neighbours of the one
side there may be none, one or many of the other, so an output can be *impossible* under a pair of parameters although
its law is right to fifteen digits. Whoever knows the pair runs the transformation again, bit for bit, on every number
near the one that he gets by undoing it, and counts how many give the output that was released:

    Pr(output | pair) / (what a continuous law says) = count * spacing(y) / (cell * dy/d~y)

Where outputs are rounded to a step, a cell is that step; otherwise it is the spacing of doubles at the output. If
readings come in another form than doubles (float32, a decimal step), that form's numbers are counted.

*Tracing a stream* (`trace`) whose theta moves. At the beginning the states of both filters are known. With them, each
pair (theta_i, pseudo value j) makes of an output one candidate for the raw reading, mean_i + sd_i z_j. If raw readings
have a grid and the map was one of floats, the right pair lands on it and others nearly never do. So the reading is
known, both filters go on, and the next one is followed in the same way. Doubles are such a grid too, one that grows
coarser with their magnitude, and what lies on it are the innovations. If both values change within a gap, and not at
its ends, the trace is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Index, Ints, Numbers, Value
from understudy.adversaries.knowledge import Attack, Cases, Knowledge
from understudy.adversaries.learners.calibration import AlongChain, EvidenceAttack, chain_of, with_clock
from understudy.errors import ConfigurationError, UnderstudyError
from understudy.laws.law import Law
from understudy.models.gauss_markov import GaussMarkov, gauss_markov
from understudy.models.iid_markov import Markov
from understudy.models.model import Model
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.causal_guarantee import Beliefs, BeliefState
from understudy.randomizer.estimation import Estimator, EstimatorState
from understudy.transform.backend import kernels_many, view
from understudy.transform.core import (
    Chain,
    Emit,
    NothingMissing,
    ScoreEach,
    ValueEach,
    has_atoms,
    transformation,
    whiten,
)
from understudy.transform.kalman_pair import Pair
from understudy.transform.readings import CausalMap, as_readings

# Recovering readings -------------------------------------------------------------------------------------------------


_CONTRADICTION = -14.0  # log-weight of a step that no value explains: once in a million, for what we do not know
_FAINT = -35.0  # branches that are less likely than the best one by this much are dropped


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Inversion:
    """What was recovered from an output. Its repr tells counts only, for the rest is secret.

    `rows` are the positions of the values along which the readings were whitened and `readings` the raw readings, both
    of the likeliest path; `share` is the probability of that path among those that were kept to the end. `belief`
    (T, m) is what a Bayes filter makes of the recovered readings, averaged over the paths. `forks` counts the
    readings at which the likeliest path left more than one value open, `contradictions` those at which none was.
    """

    rows: NDArray[np.int64]
    readings: Array
    belief: Array
    share: float
    forks: int
    contradictions: int

    def __repr__(self) -> str:
        return f"Inversion({len(self.rows)} readings, {self.forks} forks, {self.contradictions} contradictions)"

    @property
    def guess(self) -> NDArray[np.int64]:
        """The likeliest position of theta at each reading."""
        return np.asarray(self.belief.argmax(axis=1), dtype=np.int64)


class _Node(NamedTuple):
    """A step of a path, linked to the one before."""

    before: Any
    row: int
    y: Any
    belief: tuple[float, ...]
    fork: int
    contradiction: int


class _Branch(NamedTuple):
    weight: float
    state: EstimatorState
    node: _Node | None


def recover_readings(
    design: CausalDesign, Y_out: ArrayLike, pseudo: Sequence[Value], *, hold: bool = False, beam: int = 64
) -> Inversion:
    """Recover the raw readings, and the path of theta that was estimated from them, from an output (T,) or (T, d).

    `pseudo` is the pseudo path, one value for each decision. `hold` says whether the edge keeps the value that it takes
    at the first reading of a decision, as in `Estimator`. At most `beam` paths are followed at a time.

    Here the values cannot be told apart by one reading, nor by a few, and nothing at all was to be told: the rate
    is zero, so the same pseudo value is played for ever. All is recovered.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 0.5], prior=[0.9, 0.1])
    >>> stay = [[0.9, 0.1], [0.1, 0.9]]
    >>> design = us.design_causal(family, stay, rate=0.0, decision_every=40, distortion=[[0, 1], [1, 0]])
    >>> theta = [0] * 80 + [0.5] * 80
    >>> Y = us.sample(family.along(theta), 160, rng=1)
    >>> rows = Estimator(family, stay, 40, hold=True).rows(Y)
    >>> Y_out = us.disguise(Y, family.along([family.values[i] for i in rows]), family.along([0] * 160))
    >>> found = recover_readings(design, Y_out, [0, 0, 0, 0], hold=True)
    >>> bool(abs(found.readings - Y).max() < 1e-9), found.rows.tolist() == rows
    (True, True)
    """
    estimator = Estimator(design.family, design.beliefs.transitions, design.decision_every, hold=hold)
    if any(has_atoms(model) for model in (*map(design.family.model, design.values), *design.targets)):
        raise ConfigurationError("readings with atoms are not recovered from their scores; this attack needs densities")
    if isinstance(beam, bool) or not isinstance(beam, (int, np.integer)) or beam < 1:
        raise ConfigurationError(f"beam = {beam!r}; it must be a whole number of paths, 1 or more")
    out = as_readings(Y_out, design.family.dim)
    if out.ndim == 3:
        raise ConfigurationError(
            f"the output has shape {out.shape}; one sequence is attacked at a time, (T,) or (T, d)"
        )
    T, every = len(out), design.decision_every
    if len(pseudo) != -(-T // every):
        raise ConfigurationError(
            f"the pseudo path has {len(pseudo)} decisions; {T} readings with {every} a decision have {-(-T // every)}"
        )
    z = whiten(out, design.target_along([pseudo[k // every] for k in range(T)]))
    drawn = _log_likelihoods(design, pseudo)
    branches = [_Branch(0.0, estimator.start(), None)]
    for k in range(T):
        told = drawn[k // every] if k % every == 0 else None
        branches = _step(estimator, branches, z[k] if len(z[k]) > 1 else float(z[k, 0]), told, int(beam))
    return _collect(branches, z[:, 0] if np.ndim(Y_out) == 1 else z)


def _step(
    estimator: Estimator, branches: list[_Branch], z: Numbers, told: Sequence[float] | None, beam: int
) -> list[_Branch]:
    """All branches one reading further, the likeliest first; where no value explains it, with a contradiction."""
    found = [after for branch in branches for after in _extend(estimator, branch, z, told, False)]
    if not found:
        found = [after for branch in branches for after in _extend(estimator, branch, z, told, True)]
    found.sort(key=lambda branch: -branch.weight)
    faint = found[0].weight + _FAINT
    return [branch for branch in found[:beam] if branch.weight >= faint]


def _extend(
    estimator: Estimator, branch: _Branch, z: Numbers, told: Sequence[float] | None, forced: bool
) -> list[_Branch]:
    """What a branch goes on to: every value whose candidate reading is taken for that value again.

    If it is forced, theta was not estimated in this way, or not from this past: any value will do, at a price.
    """
    state, found = branch.state, []
    price = _CONTRADICTION if forced else 0.0
    draws = [0.0] * len(state.belief) if told is None else [max(x, _CONTRADICTION if forced else x) for x in told]
    if bool(np.isnan(z).any()):
        after, row = estimator.step(state, None)
        weight = branch.weight + (price if forced else draws[row])
        node = _Node(branch.node, row, None, after.belief, 0, int(forced))
        return [_Branch(weight, after, node)] if weight > -math.inf else []
    before = estimator.log_prior(state)
    known = estimator.hold and told is None and not forced  # no decision begins
    for i in (state.row,) if known else range(len(before)):
        if not before[i] > -math.inf or not draws[i] > -math.inf:
            continue
        y = estimator.value(state, i, z)
        after, row = estimator.step_with(state, y, i) if forced else estimator.step(state, y)
        if forced or row == i:
            found.append((branch.weight + before[i] - after.belief[i] + draws[i] + price, after, row, y))
    fork = int(len(found) > 1 and not forced)
    return [
        _Branch(w, after, _Node(branch.node, row, y, after.belief, fork, int(forced))) for w, after, row, y in found
    ]


def _log_likelihoods(design: CausalDesign, pseudo: Sequence[Value]) -> list[list[float]]:
    """For each decision the logarithm of the probability of its draw, by value: the kernels follow from the draws."""
    beliefs: Beliefs = design.beliefs
    state: BeliefState = beliefs.start()
    found = []
    for value in pseudo:
        j = _column(design, value)
        kernel = beliefs.kernel(state.belief)
        found.append([math.log(p) if p > 0.0 else -math.inf for p in kernel[:, j].tolist()])
        possible = float(np.asarray(state.belief) @ kernel[:, j]) > 0.0
        state = beliefs.after(state, kernel if possible else None, j)
    return found


def _column(design: CausalDesign, value: ArrayLike | Value) -> int:
    for j, known in enumerate(design.pseudo):
        if np.array_equal(np.asarray(known), np.asarray(value)):
            return j
    raise ConfigurationError(f"the pseudo path holds a {type(value).__name__} that is none of the pseudo values")


def _collect(branches: list[_Branch], z: Array) -> Inversion:
    weights = np.array([branch.weight for branch in branches])
    shares = np.exp(weights - weights.max())
    shares /= shares.sum()
    T, m = len(z), len(branches[0].state.belief)
    belief = np.zeros((T, m))
    for share, branch in zip(shares.tolist(), branches, strict=True):
        belief += share * np.exp([node.belief for node in _nodes(branch)])
    path = _nodes(branches[0])
    readings = np.full(z.shape, np.nan)
    for k, node in enumerate(path):
        if node.y is not None:
            readings[k] = node.y
    rows = np.array([node.row for node in path], dtype=np.int64)
    for array in (rows, readings, belief):
        array.flags.writeable = False
    return Inversion(
        rows, readings, belief, float(shares[0]),
        sum(node.fork for node in path), sum(node.contradiction for node in path),
    )  # fmt: skip


def _nodes(branch: _Branch) -> list[_Node]:
    found, node = [], branch.node
    while node is not None:
        found.append(node)
        node = node.before
    return found[::-1]


# Counting readings ---------------------------------------------------------------------------------------------------


State = tuple[Any, ...]
"""Arrays whose last axis are the sequences."""

MOST = 4096.0
"""Readings behind an output beyond which they are not counted: their number tells too little."""

SLACK = 1.0
"""Cells by which an output may be missed where the state before it is not known exactly."""

_BELOW = np.int64(-(2**63))
_FAR = 2.0**20  # spacings of the output over which the slope is taken
_SIGNIFICANT = {"double": 53, "float32": 24}


# The forms that readings have ------------------------------------------------------------------------


class Form(NamedTuple):
    """The numbers that a reading can be: doubles, float32, or multiples of a decimal step.

    >>> Form("double").spacing(np.array([1.0, 200.0])).tolist() == [2.0**-52, 2.0**-45]
    True
    >>> Form("float32").nearest(np.array([0.1])).item() == float(np.float32(0.1))
    True
    >>> Form("decimal", 100.0).nearest(np.array([0.123])).tolist()
    [0.12]
    """

    name: str
    scale: float = 1.0
    """Steps in a unit, of decimals."""

    def spacing(self, y: Array) -> Array:
        """Distance from a number of this form to the next one."""
        if self.name == "decimal":
            return np.full(np.shape(y), 1.0 / self.scale)
        return np.ldexp(np.spacing(np.abs(y)), 53 - _SIGNIFICANT[self.name])

    def nearest(self, y: Array) -> Array:
        """The number of this form that is nearest."""
        return self.number(self.ordinal(y))

    def ordinal(self, y: Array) -> Ints:
        """Numbers of this form, counted: those of neighbours differ by one."""
        if self.name == "decimal":
            return np.asarray(np.rint(y * self.scale), dtype=np.int64)
        if self.name == "float32":
            with np.errstate(over="ignore"):
                return _in_order(np.asarray(y, dtype=np.float32).view(np.int32).astype(np.int64), np.int64(-(2**31)))
        return _in_order(np.ascontiguousarray(y).view(np.int64), _BELOW)

    def number(self, ordinal: Ints) -> Array:
        """The number with this ordinal."""
        if self.name == "decimal":
            return np.asarray(ordinal / self.scale)
        if self.name == "float32":
            bits = _in_order(ordinal, np.int64(-(2**31)))
            return np.asarray(bits.astype(np.int32).view(np.float32), dtype=float)
        return _in_order(ordinal, _BELOW).view(np.float64)


def _in_order(bits: Ints, sign: np.int64) -> Ints:
    """Bits of floats as integers in the order of the floats, and back: those below zero are counted downwards."""
    return np.where(bits < 0, sign - bits, bits)


DOUBLE = Form("double")


def spacing(y: Array) -> Array:
    """Spacing of doubles at a number; without bound at zero, which is a multiple of everything.

    >>> spacing(np.array([0.0, 1.0])).tolist() == [np.inf, 2.0**-52]
    True
    """
    return np.where(y == 0.0, np.inf, np.spacing(np.abs(y)))


# The transformation of many sequences ----------------------------------------------------------------


class Link(Protocol):
    """A causal map of many sequences: states in arrays."""

    cost: float

    def start(self, N: int) -> State:
        """States before the first reading."""
        ...

    def step(self, k: int, state: State, Y: Array) -> tuple[State, Array]:
        """Readings (d, N), the k-th ones; NaN for what is impossible."""
        ...

    def back(self, k: int, state: State, out: Array) -> Array:
        """The readings that give this, but for rounding."""
        ...


class Machine:
    """The transformation from readings of one model to readings of another, forwards bit for bit and backwards.

    >>> import understudy as us
    >>> room = lambda people: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * people, mean0=100.0, cov0=1.0)
    >>> machine = Machine(room(1), room(0), 2)
    >>> state, out = machine.step(0, machine.start(3), np.array([[105.0, 104.0, 106.0]]))
    >>> out.tolist() == us.disguise([[[105.0, 104.0, 106.0]]], room(1), room(0)).tolist()[0]
    True
    """

    def __init__(self, source: Model, target: Model, T: int) -> None:
        causal = transformation(source, target, False, None)
        parts = causal.maps if isinstance(causal, Chain) else (causal,)
        self.links: list[Link] = [link for part in parts for link in _links(part, T)]
        self.dim = causal.dim
        self.cost = max(link.cost for link in self.links)
        """Of a reading, in units of one that goes through two compiled Kalman predictors with many others."""
        self.linear = isinstance(causal, Pair)

    def start(self, N: int) -> State:
        """States of N sequences before the first reading."""
        return tuple(link.start(N) for link in self.links)

    def step(self, k: int, state: State, Y: Array) -> tuple[State, Array]:
        """Readings (d, N), the k-th ones."""
        after = []
        for link, part in zip(self.links, state, strict=True):
            part, Y = link.step(k, part, Y)
            after.append(part)
        return tuple(after), Y

    def back(self, k: int, state: State, out: Array) -> Array:
        """The readings that give this output, but for rounding."""
        for link, part in zip(self.links[::-1], state[::-1], strict=True):
            out = link.back(k, part, out)
        return out

    def root(self, k: int) -> Array:
        """Cholesky factor (d, d) of the source's innovation covariance at reading k; Gauss-Markov pairs only."""
        (link,) = self.links
        return np.asarray(link.root(k))  # type: ignore[attr-defined]  # a pair's


def select(state: State, which: Index) -> State:
    """The states of some sequences, with repetitions if asked for."""
    return tuple(select(part, which) if isinstance(part, tuple) else part[..., which] for part in state)


def _links(causal: CausalMap, T: int) -> list[Link]:
    if isinstance(causal, Chain):
        return [link for part in causal.maps for link in _links(part, T)]
    if isinstance(causal, NothingMissing):
        return []
    if isinstance(causal, Pair):
        return [_Filters(causal, T)]
    if isinstance(causal, ScoreEach):
        return [_Each(causal.law, causal.law.score, causal.law.value)]
    if isinstance(causal, ValueEach):
        return [_Each(causal.law, causal.law.value, causal.law.score)]
    return [_Steps(causal)]


class _Filters:
    """Two Kalman predictors back to back."""

    cost = 1.0

    def __init__(self, pair: Pair, T: int) -> None:
        if 0 < pair.limit < T:
            raise ConfigurationError("the gains of a model do not settle; it is not run again")
        self.pair = pair
        self.tables: tuple[Any, ...] = pair.tables
        if pair.limit == 0:
            sides = (pair.source, pair.target)
            self.tables = tuple(view(side.table(0, T, side.model.cov0.ravel().copy())) for side in sides)

    def start(self, N: int) -> State:
        pair = self.pair
        first = pair.start()[1 : 1 + pair.n + pair.m]
        x, xt = np.zeros((pair.n + pair.dim, N)), np.zeros((pair.m + pair.dim, N))
        x[: pair.n], xt[: pair.m] = np.array(first[: pair.n])[:, None], np.array(first[pair.n :])[:, None]
        return x, xt

    def step(self, k: int, state: State, Y: Array) -> tuple[State, Array]:
        x, xt = state
        after = x.copy(), xt.copy()
        return after, self._run(k, Y, (self.tables[0], self.pair.n, after[0]), (self.tables[1], self.pair.m, after[1]))

    def back(self, k: int, state: State, out: Array) -> Array:
        x, xt = state[0].copy(), state[1].copy()
        return self._run(k, out, (self.tables[1], self.pair.m, xt), (self.tables[0], self.pair.n, x))

    def _run(self, k: int, Y: Array, source: tuple[Any, int, Array], target: tuple[Any, int, Array]) -> Array:
        (a, n, x), (b, m, xt) = source, target
        d, N = Y.shape
        out = np.empty((d, N))
        y, made = view(np.ascontiguousarray(Y).reshape(-1)), view(out.reshape(-1))
        flat, flat_out = view(x.reshape(-1)), view(xt.reshape(-1))
        if self.pair.scalar:
            kernels_many.run_scalar_many(y, made, 1, N, a, flat, b, flat_out, k)
        else:
            work = view(np.empty(N * (d + 1 + max(n, m))))
            kernels_many.run_many(y, made, 1, N, d, a, n, flat, b, m, flat_out, k, work)
        return out

    def root(self, k: int) -> Array:
        """Cholesky factor of the source's innovation covariance."""
        n, d, flat = self.pair.n, self.pair.dim, np.asarray(self.tables[0])
        width = 9 if self.pair.scalar else 3 * n * n + 3 * n * d + 2 * n + d * d + 2 * d
        row = flat.reshape(-1, width)[min(k, flat.size // width - 1)]
        if self.pair.scalar:
            return np.asarray(row[6:7].reshape(1, 1))
        first = 2 * n * (n + d) + d * n + d + 2 * n
        return np.asarray(row[first : first + d * d].reshape(d, d))


class _Each:
    """One law for all readings."""

    cost = 20.0

    def __init__(self, law: Law, there: Callable[[Array], Numbers], back: Callable[[Array], Numbers]) -> None:
        self.law, self._there, self._back = law, there, back

    def start(self, N: int) -> State:
        return ()

    def step(self, k: int, state: State, Y: Array) -> tuple[State, Array]:
        return state, _apply_law(self._there, Y)

    def back(self, k: int, state: State, out: Array) -> Array:
        return _apply_law(self._back, out)


def _apply_law(function: Callable[[Array], Numbers], Y: Array) -> Array:
    """A law's function of values (d, N), NaN where it refuses one."""
    d, N = Y.shape
    result = np.full((d, N), np.nan)
    there = np.isfinite(Y).all(axis=0)
    if not there.any():
        return result
    values = Y[0, there] if d == 1 else np.ascontiguousarray(Y[:, there].T).T
    try:
        with np.errstate(all="ignore"):
            result[:, there] = np.reshape(function(values), (d, -1))
    except UnderstudyError:
        for s in np.flatnonzero(there).tolist():
            try:
                result[:, s] = np.reshape(function(Y[0, s] if d == 1 else Y[:, s].copy()), d)
            except UnderstudyError:
                continue
    return result


class _Steps:
    """A map that takes one reading of one sequence at a time."""

    def __init__(self, causal: Any) -> None:
        self.causal, self.model = causal, causal.model
        name = type(causal).__name__
        self.emits = isinstance(causal, Emit) or name == "HiddenValues"
        if not self.emits and name not in ("Score", "HiddenScores"):
            raise ConfigurationError(f"a map of type {name} is not run again")
        # what finds a quantile by searching for it takes milliseconds
        self.cost = 400.0 if isinstance(self.model, Markov) or name.startswith("Hidden") else 10_000.0

    def start(self, N: int) -> State:
        states = np.empty(N, dtype=object)
        states[:] = [self.causal.start()] * N if N else []
        return (states,)

    def step(self, k: int, state: State, Y: Array) -> tuple[State, Array]:
        after, out = state[0].copy(), np.full(Y.shape, np.nan)
        for s in np.flatnonzero(np.isfinite(Y).all(axis=0)).tolist():
            try:
                after[s], out[:, s] = self.causal.step(after[s], Y[0, s].item() if len(Y) == 1 else Y[:, s].copy())
            except UnderstudyError:
                continue
        return (after,), out

    def back(self, k: int, state: State, out: Array) -> Array:
        result = np.full(out.shape, np.nan)
        for s in np.flatnonzero(np.isfinite(out).all(axis=0)).tolist():
            value = out[0, s].item() if len(out) == 1 else out[:, s].copy()
            try:
                law = self.model.predict(state[0][s])
                result[:, s] = np.reshape(law.score(value) if self.emits else law.value(value), len(out))
            except UnderstudyError:
                continue
        return result


# Counting --------------------------------------------------------------------------------------------


class Release(NamedTuple):
    """How outputs leave: rounded to a step in each channel, or as doubles where the step is 0."""

    steps: tuple[float, ...]

    def round(self, out: Array, channel: int) -> Array:
        """What leaves of an output."""
        step = self.steps[channel]
        if step == 0.0:
            return out
        scale = float(np.rint(1.0 / step))
        # a decimal step as decimals are rounded; + 0.0, as there is no -0.0 among what leaves
        return np.asarray((np.rint(out * scale) / scale if scale * step == 1.0 else np.rint(out / step) * step) + 0.0)

    def cell(self, out: Array, channel: int) -> Array:
        """Width of what leaves as the same output."""
        return np.maximum(np.spacing(np.abs(out)), self.steps[channel])

    def share(self, out: Array, channel: int) -> Array:
        """How many doubles leave as this output, against a continuous law: 1 but for ties, where steps are fine."""
        step = self.steps[channel]
        if step == 0.0:
            return np.ones(out.shape)
        ends = [out + sign * 0.5 * step for sign in (-1.0, 1.0)]
        within = [(self.round(end, channel) == out).astype(float) for end in ends]
        doubles = DOUBLE.ordinal(ends[1]) - DOUBLE.ordinal(ends[0]) - 1 + within[0] + within[1]
        spacing = np.spacing(np.abs(out))
        fine = (step > spacing) & (step <= MOST * spacing) & (doubles > 0)
        return np.where(fine, doubles * spacing / step, 1.0)


def count_readings(
    machine: Machine, k: int, state: State, out: Array, release: Release, form: Form = DOUBLE, reach: int = 2
) -> tuple[State, Array]:
    """One reading of outputs (d, N): states after it, and likelihoods of each against a continuous law, (2, d, N).

    The first counts readings that give exactly this output, the second those that miss it by `SLACK` cells at most: the
    state from which a reading started is known to a few cells only, if several readings gave an output before. They are
    1 where nothing can be told: where there are more than `MOST` readings behind an output, where undoing fails or an
    output is missing. `reach` is how many neighbours are tried on either side, for what undoing gets wrong.

    >>> import understudy as us
    >>> low, high = us.IID(us.Gaussian(0.0, 1.0)), us.IID(us.Gaussian(64.0, 1.0))
    >>> machine, rng = Machine(high, low, 1), np.random.default_rng(1)
    >>> honest, other = us.disguise(64.0 + rng.standard_normal((1, 1, 50)), high, low)[0], rng.standard_normal((1, 50))
    >>> for out in (honest, other):
    ...     _, found = count_readings(machine, 0, machine.start(50), out, Release((0.0,)))
    ...     print((found[0] > 10.0).mean() > 0.9, (found[0] == 0.0).mean() > 0.9)
    True False
    False True
    """
    with np.errstate(all="ignore"):  # zero has no neighbours to speak of, and some readings are impossible
        return _count(machine, k, state, out, release, form, reach)


def _count(
    machine: Machine, k: int, state: State, out: Array, release: Release, form: Form, reach: int
) -> tuple[State, Array]:
    d, N = out.shape
    found = np.ones((2, d, N))
    Y = machine.back(k, state, out)
    for c in range(d):
        # dy/d~y, over a distance that rounding does not show in
        far = np.zeros((d, 1))
        far[c] = 1.0
        delta = _FAR * np.spacing(np.abs(out[c]))
        ends = [machine.back(k, state, out + sign * far * delta)[c] for sign in (-1.0, 1.0)]
        slope = (ends[1] - ends[0]) / (2.0 * delta)
        made = machine.step(k, state, Y)[1][c]
        y = Y[c] - (made - out[c]) * slope
        cell = release.cell(out[c], c)
        behind = cell * slope / form.spacing(y)
        told = np.flatnonzero(np.isfinite(y) & (behind > 0.0) & (behind <= MOST))
        Y[c] = np.where(np.isfinite(y), y, Y[c])
        if told.size:
            some = select(state, told)
            goal = out[c, told], cell[told] * slope[told]
            Y[c, told], hits = _around(machine, k, some, Y[:, told], c, goal, release, form, reach)
            found[0, c, told] = hits[0] / (behind[told] * release.share(out[c, told], c))
            wide = (2.0 * SLACK + 1.0) * behind[told]
            found[1, c, told] = np.where(wide < 1.0, hits[1] / wide, 1.0)
    there = np.isfinite(Y).all(axis=0)
    after, _ = machine.step(k, state, Y)
    return after, np.where(there, found, 1.0)


def _around(
    machine: Machine, k: int, state: State, Y: Array, c: int, goal: tuple[Array, Array], release: Release, form: Form,
    reach: int,
) -> tuple[Array, Array]:  # fmt: skip
    """The reading nearest to the middle of those that give the output in channel c, and how many do, (2, N)."""
    out, width = goal
    N = out.size
    middle = form.ordinal(Y[c])
    low, high = form.ordinal(Y[c] - 0.5 * width), form.ordinal(Y[c] + 0.5 * width)
    window = np.arange(-reach, reach + 1)[:, None]
    ordinals = np.concatenate([low + window, high + window])
    tried = np.ones(ordinals.shape, dtype=bool)
    tried[len(window) :] = ordinals[len(window) :] > low + reach  # what both windows hold is tried once
    inside = np.maximum(high - low - 2 * reach - 1, 0)
    at = np.nonzero(tried)
    candidates = Y[:, at[1]]
    candidates[c] = form.number(ordinals[at])
    made = machine.step(k, select(state, at[1]), candidates)[1][c]
    missed = np.full(ordinals.shape, np.inf)
    missed[at] = np.abs(made - out[at[1]])
    hit = np.zeros(ordinals.shape, dtype=bool)
    hit[at] = release.round(made, c) == out[at[1]]
    hits = hit.sum(axis=0) + np.where(hit.any(axis=0), inside, 0)
    close = (missed <= SLACK * release.cell(out, c)).sum(axis=0)
    # of the hits the one in the middle, otherwise the one that comes nearest to the output
    far = np.where(hit, np.abs(ordinals - middle).astype(float), np.inf)
    best = np.where(hit.any(axis=0), far.argmin(axis=0), np.where(np.isnan(missed), np.inf, missed).argmin(axis=0))
    centre = (inside > 0) & hit.any(axis=0)
    each = np.arange(N)
    return np.where(centre, form.number(middle), form.number(ordinals[best, each])), np.stack([hits, close]).astype(
        float
    )


# Tracing a stream ----------------------------------------------------------------------------------------------------


_STRAY = 0.01  # share of readings that may miss the grid although the pair is right
_NEAR = 1e-9  # of a step: what counts as on the grid, besides the rounding of the readings
MOST_NATS = 20.0
"""That one reading may say."""
_SPACINGS = 1.0  # of doubles by which an innovation of the output may be wrong
_ROUGH = 0.3  # of a spacing of raw readings: an innovation that is not known better tells nothing
_ULPS = 64.0 * float(np.finfo(float).eps)


def trace(
    Y: Array,
    sources: Sequence[GaussMarkov],
    targets: Sequence[GaussMarkov],
    grid: tuple[float, float] | float,
    every: int,
    kernel: Array | None = None,
) -> Array:
    """Evidence in nats (m, T, N) for each value at each reading of outputs (T, N), up to a common constant.

    The models are constant, of one channel and of one size each side; `grid` is step and offset. Where the trace is
    lost, because nothing lands on the grid, there is no evidence any more. If `grid` is a number, raw readings are
    taken for doubles, whose innovations are multiples of their spacing, and outputs for multiples of that number
    (0: for doubles as well). With a `kernel` (m, n) a draw counts as evidence too.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 2.0 + v, 0.5, b=5.3 * v, mean0=50.0, cov0=1.0), [0, 1])
    >>> theta, pseudo = [0] * 20 + [1] * 20, [1] * 10 + [0] * 30
    >>> raw = np.round(us.sample(family.along(theta), 40, rng=1))
    >>> out = us.disguise(raw, family.along(theta), family.along(pseudo))
    >>> models = [family.model(v) for v in (0, 1)]
    >>> trace(out[:, None], models, models, (1.0, 0.0), 10)[:, :, 0].argmax(axis=0).tolist() == theta
    True
    """
    T, N = Y.shape
    m, n = len(sources), len(targets)
    source, target = _Shared(sources, N), _Shared(targets, N)
    each = np.arange(N)
    played = np.zeros(N, dtype=np.int64)
    free = np.ones(N, dtype=bool)  # whether there was a draw since the last reading that is there
    result = np.zeros((m, T, N))
    with np.errstate(divide="ignore"):
        drawn = np.log(np.tile(np.ones((m, n)) if kernel is None else kernel, (2, 2)))[:, :, None]
    for k in range(T):
        free |= k % every == 0
        gone = np.isnan(Y[k])
        y = np.where(gone, 0.0, Y[k])
        mean, sd = source.predict(gone)  # (2 m, N): twice, for what may have been in a gap
        mean_out, sd_out = target.predict(gone)
        z = (y - mean_out) / sd_out  # (2 n, N)
        e = sd[:, None] * z[None]  # (2 m, 2 n, N)
        back = mean[:, None] + e
        if isinstance(grid, tuple):
            step, offset = np.asarray(grid[0]), np.asarray(grid[1])
            place = (back - offset) / step
            width = _NEAR + _ULPS * np.abs(back) / step
        else:
            step, offset = np.minimum(spacing(back), spacing(mean)[:, None]), mean[:, None]
            place = e / step
            error = grid + _SPACINGS * np.spacing(np.maximum(np.abs(y), np.abs(mean_out)))
            width = error * (sd[:, None] / sd_out) / step + _ULPS * np.abs(place)
        r = np.abs(place - np.rint(place))
        density = np.exp(-r / width) / (2.0 * width)
        if not isinstance(grid, tuple):
            density = np.where(width < _ROUGH, density, 1.0)
        near = np.log((1.0 - _STRAY) * density + _STRAY)
        weight = near - 0.5 * np.square(z) - np.log(sd_out)
        if kernel is not None:
            weight = weight + np.where(free, drawn, 0.0)
        open_ = free | (np.arange(2 * n)[:, None] % n == played)
        weight = np.where(open_[None], weight, -np.inf)
        top = weight.max(axis=(0, 1))
        total = np.exp(weight - top).sum(axis=1).reshape(2, m, N).sum(axis=0)
        logs = np.log(total + 1e-300)
        result[:, k] = np.where(gone, 0.0, logs - logs.max(axis=0))
        best = weight.reshape(4 * m * n, N).argmax(axis=0)
        i, j = best // (2 * n), best % (2 * n)
        raw = np.where(r < 0.01, offset + step * np.rint(place), back)[i, j, each]
        source.update(i, raw - mean[i, each], gone)
        target.update(j, y - mean_out[j, each], gone)
        played, free = np.where(gone, played, j % n), free & gone
    return result


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TraceReader:
    """What is known, and the grid of raw readings or the step of the output.

    `draws` says whether draws count as evidence, beside what the grid says.
    """

    known: Knowledge
    grid: tuple[float, float] | float
    every: int
    draws: bool = False

    def evidence(self, cases: Cases) -> Array:
        """What speaks for each value at each reading, (m, T, N), in nats."""
        sources, targets = _linear(self.known.sources), _linear(self.known.targets)
        kernel = self.known.kernel if self.draws else None
        found = trace(cases.outputs[:, 0], sources, targets, self.grid, self.every, kernel)
        return np.maximum(found, -MOST_NATS)


def trace_attack(reader: TraceReader, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
    """The attack that traces a theta that moves, weighed against the clock on two of the training sequences."""
    attack = EvidenceAttack(reader, AlongChain(known.prior, chain_of(cases, known)))
    if cases.hours is None:
        return attack
    few = cases.sequences(slice(0, 2))
    return with_clock(attack, attack.logits(few), few, cases, rng)


class _Shared:
    """One state for each sequence, from which any of the models may go on: moments of one channel's filters.

    Across a gap nobody sees whether the value has changed in it. So each model is there twice: once with the last value
    before the gap held throughout, and once with its own.
    """

    def __init__(self, models: Sequence[GaussMarkov], N: int) -> None:
        self.M = len(models)
        systems = [np.stack(parts) for parts in zip(*(m.at(1) for m in models), strict=True)]
        self.A, self.b, self.Q, self.C, self.d, self.R = systems
        # before the first reading each model has its own
        self.x: Array = np.repeat(np.stack([m.mean0 for m in models] * 2)[:, None], N, axis=1)  # (2 M, N, s)
        self.P: Array = np.repeat(np.stack([m.cov0 for m in models] * 2)[:, None], N, axis=1)
        self.own = np.repeat((np.arange(2 * self.M) % self.M)[:, None], N, axis=1)
        self.row = np.full(N, -1)
        self.across: Array = np.empty(0)
        self.S: Array = np.empty(0)

    def predict(self, gone: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Mean and standard deviation (2 M, N) of the next reading under each model."""
        held = (np.arange(2 * self.M) < self.M)[:, None] & (gone & (self.row >= 0))
        which = np.where(held, self.row, self.own)
        A, C = self.A[which], self.C[which][..., 0, :]
        # xhat_{k|k-1} = A xhat_{k-1|k-1} + b, Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q, S = C Sigma C' + R
        self.x = (A @ self.x[..., None])[..., 0] + self.b[which]
        self.P = A @ self.P @ np.swapaxes(A, 2, 3) + self.Q[which]
        self.across = (self.P @ C[..., None])[..., 0]
        self.S = (self.across * C).sum(axis=2) + self.R[which][..., 0, 0]
        return (self.x * C).sum(axis=2) + self.d[which][..., 0], np.sqrt(self.S)

    def update(self, chosen: NDArray[np.int64], e: Array, gone: NDArray[np.bool_]) -> None:
        """Go on under the model that is chosen for each sequence, with its innovation; not where nothing was read."""
        each = np.arange(len(chosen))
        x, P, across, S = (part[chosen, each] for part in (self.x, self.P, self.across, self.S))
        # K = Sigma C' S^-1
        K = across / S[:, None]
        x, P = x + K * e[:, None], P - K[:, :, None] * across[:, None, :]
        self.x = np.where(gone[:, None], self.x, x)
        self.P = np.where(gone[:, None, None], self.P, 0.5 * (P + np.swapaxes(P, 1, 2)))
        self.row = np.where(gone, self.row, chosen % self.M)


def _linear(models: Sequence[Model]) -> list[GaussMarkov]:
    return [linear for model in models if (linear := gauss_markov(model)) is not None]


def obstacle(models: Sequence[GaussMarkov | None]) -> str:
    """Why a stream of these models cannot be followed; nothing if it can.

    >>> obstacle([None])
    'models without a Gauss-Markov form are not followed'
    """
    linear = [m for m in models if m is not None]
    if len(linear) < len(models):
        return "models without a Gauss-Markov form are not followed"
    if any(m.dim != 1 or not m.constant for m in linear) or len({m.states for m in linear}) > 1:
        return "only constant models of one channel and of one size are followed"
    return ""
