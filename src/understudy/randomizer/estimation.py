"""The private value estimated from the readings by the Bayes filter of the family.

A randomizer must know theta. Where theta is not given, it can be estimated at the edge, from the same raw readings that
are to be disguised. **Then no theorem holds.** Readings that are whitened under a wrong value keep information on the
right one, and a value that was estimated from the readings can be found again by running the recursion backwards
(`understudy.adversaries.learners.inversion`). So a user asks for it by name, and the card then says "no guarantee,
audit only".

`Estimator` is the filter of a Markov chain theta observed through the readings. With b the belief before a reading,
moved by the transition matrix at every decision, and p_i(y) the density of the reading under value i, given the past::

    b_i  <-  b_i p_i(y_k) / sum_l b_l p_l(y_k)         theta_k is taken to be argmax_i b_i

All values share one predictor (`Predictors`), which continues under the estimated value (decision-directed), as the
whitening does. Its state is that of `Family.along`: filtered moments for Gauss-Markov members, filtered probabilities
for hidden Markov ones, the state of the model for others, and None before the first reading. Where the past does not
matter, as with `IID` members, the filter is exact; otherwise it is exact up to the first wrong estimate.

One exception: a `Markov` member gives the law across a gap after its end (`defers_gaps`) and knows nothing of the other
members. After missing readings the law under each value is the one in which that value held throughout the gap. A path
or a stream refuses another value there; the filter continues with what is then an approximation.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Numbers
from understudy.errors import DesignError, ReadingError
from understudy.laws.law import Law
from understudy.laws.multivariate import reweight
from understudy.models.family import Family
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.hidden_markov import HiddenMarkov, HiddenState
from understudy.models.model import Model, State
from understudy.models.quantised import Quantised
from understudy.randomizer.causal_guarantee import as_transitions
from understudy.transform.readings import one_reading

# One predictor for all values ---------------------------------------------------------------------------


Moments: TypeAlias = tuple[int, float, float]
"""The step, and mean and variance of a state that is one number."""
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Predictors(Protocol[State]):
    """Next readings under each value, by position, from one state."""

    @property
    def dim(self) -> int:
        """Channels of a reading."""
        ...

    def logpdfs(self, state: State | None, y: Numbers) -> list[float]:
        """Log-density of the next reading under each value."""
        ...

    def value(self, state: State | None, i: int, z: Numbers) -> Numbers:
        """The next reading that has these scores under value i."""
        ...

    def update(self, state: State | None, i: int, y: Numbers) -> State:
        """The state after a reading that is taken to be of value i."""
        ...

    def skip(self, state: State | None, i: int) -> State:
        """The state after a missing reading."""
        ...


def predictors(family: Family) -> Predictors:
    """The shared predictor of the values of a family; refuses members that cannot follow each other, saying why.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v, mean0=0.0, cov0=0.1), values=[0, 1])
    >>> both = predictors(family)
    >>> after = both.update(None, 1, 1.2)
    >>> round(both.value(after, 0, 0.0), 6), round(both.value(after, 1, 0.0), 6)
    (1.015943, 2.015943)
    """
    whole = family.along(family.values)
    members = [family.model(value) for value in family.values]
    first = members[0]
    if isinstance(whole, GaussMarkov):
        # a path is linear only if every member is Gauss-Markov, or has that form: mypy does not see it
        linear = [m if isinstance(m, GaussMarkov) else m.gauss_markov for m in members]  # type: ignore[attr-defined]  # all are
        return _Scalars(linear) if first.dim == linear[0].states == 1 else _Members(linear)
    if isinstance(first, HiddenMarkov):
        return _Hidden(members)
    if isinstance(whole, Quantised):
        # a path is quantised only if every member is, which mypy does not see; all have the filter of the path
        members = [Quantised(m.linear, **whole.grid.arguments, method=whole.method) for m in members]  # type: ignore[attr-defined]  # all are
    return _Members(members)


class _Members(Frozen, Generic[State]):
    """Members that go on from each other's states as they are."""

    __slots__ = ("dim", "members")

    def __init__(self, members: Sequence[Model[State]]) -> None:
        self.members: tuple[Model[State], ...] = tuple(members)
        self.dim: int = self.members[0].dim

    def law(self, state: State | None, i: int) -> Law:
        """Law of the next reading under value i."""
        model = self.members[i]
        return model.predict(model.start() if state is None else state)

    def logpdfs(self, state: State | None, y: Numbers) -> list[float]:
        return [float(self.law(state, i).logpdf(y)) for i in range(len(self.members))]

    def value(self, state: State | None, i: int, z: Numbers) -> Numbers:
        y = self.law(state, i).value(z)
        return float(y) if self.dim == 1 else np.asarray(y, dtype=float)

    def update(self, state: State | None, i: int, y: Numbers) -> State:
        model = self.members[i]
        return _read_only(model.update(model.start() if state is None else state, y))

    def skip(self, state: State | None, i: int) -> State:
        model = self.members[i]
        return _read_only(model.skip(model.start() if state is None else state))


class _Hidden(_Members[HiddenState]):
    """Hidden Markov members: probabilities of the hidden state at the last reading, moved by whoever is next."""

    __slots__ = ()

    members: tuple[HiddenMarkov, ...]

    def _move(self, state: HiddenState | None, i: int) -> HiddenState:
        model = self.members[i]
        return model.start() if state is None else model.skip(state)

    def law(self, state: HiddenState | None, i: int) -> Law:
        return self.members[i].predict(self._move(state, i))

    def update(self, state: HiddenState | None, i: int, y: Numbers) -> HiddenState:
        logs = [float(law.logpdf(y)) for law in self.members[i].emissions]
        return tuple(reweight(self._move(state, i), logs))

    def skip(self, state: HiddenState | None, i: int) -> HiddenState:
        return self._move(state, i)


class _Scalars(Frozen):
    """Gauss-Markov members of one state and one channel, in plain numbers: state = (step, mean, variance)."""

    __slots__ = ("_constant", "_starts", "dim", "members")

    def __init__(self, members: list[GaussMarkov]) -> None:
        self.members = tuple(members)
        self.dim = 1
        self._starts = tuple((0, float(m.mean0.item()), float(m.cov0.item())) for m in members)
        self._constant = tuple(_floats(m, 1) if m.constant else None for m in members)

    def _law(self, state: Moments | None, i: int) -> tuple[float, float, float, float, tuple[float, ...]]:
        """Mean and variance of the state and of the reading, and the matrices."""
        k, x, P = self._starts[i] if state is None else state
        system = self._constant[i] or _floats(self.members[i], k + 1)
        A, b, Q, C, d, R = system
        # xhat_{k|k-1} = A xhat_{k-1|k-1} + b, Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q, S = C Sigma C' + R
        x, P = A * x + b, A * P * A + Q
        return x, P, C * x + d, C * P * C + R, system

    def logpdfs(self, state: Moments | None, y: Numbers) -> list[float]:
        found, reading = [], float(y)
        for i in range(len(self.members)):
            _, _, mean, S, _ = self._law(state, i)
            e = reading - mean
            found.append(-0.5 * (e * e / S + math.log(S)) - _HALF_LOG_2PI)
        return found

    def value(self, state: Moments | None, i: int, z: Numbers) -> Numbers:
        _, _, mean, S, _ = self._law(state, i)
        return mean + math.sqrt(S) * float(z)

    def update(self, state: Moments | None, i: int, y: Numbers) -> Moments:
        x, P, mean, S, (_, _, _, C, _, R) = self._law(state, i)
        K = P * C / S
        J = 1.0 - K * C
        return (0 if state is None else state[0]) + 1, x + K * (float(y) - mean), J * P * J + K * R * K

    def skip(self, state: Moments | None, i: int) -> Moments:
        x, P, _, _, _ = self._law(state, i)
        return (0 if state is None else state[0]) + 1, x, P


def _floats(model: GaussMarkov, k: int) -> tuple[float, ...]:
    return tuple(float(matrix.item()) for matrix in model.at(k))


def _read_only(state: State) -> State:
    if isinstance(state, tuple):
        for part in state:
            if isinstance(part, np.ndarray):
                part.flags.writeable = False
    return state


# The Bayes filter -------------------------------------------------------------------------------------------


LogBelief = tuple[float, ...]


class EstimatorState(NamedTuple):
    """What the filter remembers: plain numbers, tuples and arrays. Its repr shows the counts only.

    `belief` holds logarithms. `decision` is the number of the decision that is in force, `row` the value that was
    taken last (-1 before the first reading) and `predictor` the state of the models, None before the first reading.
    """

    belief: LogBelief
    readings: int
    decision: int
    row: int
    predictor: Any

    def __repr__(self) -> str:
        return f"EstimatorState(readings={self.readings})"


class Estimator(Frozen):
    """The Bayes filter of a family, for a theta that is a Markov chain; theta_1 has the family's prior.

    `transitions` is one matrix (m, m), or several in turn: number k mod their count takes theta from decision k to
    the next. A decision is for `decision_every` readings. With `hold` the value that is taken at the first reading of
    a decision is kept until the next one; otherwise every reading may change it.

    Families are those that `Family.along` accepts. Everything is a pure function of an explicit state.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v, mean0=0.0, cov0=0.1), values=[0, 1])
    >>> estimator = Estimator(family, [[0.98, 0.02], [0.02, 0.98]])
    >>> state = estimator.start()
    >>> for y in (0.1, -0.2, 0.9, 1.7, None):
    ...     state, row = estimator.step(state, y)
    >>> state, row
    (EstimatorState(readings=5), 1)
    >>> [round(p, 4) for p in estimator.belief(state)]
    [0.1756, 0.8244]
    """

    __slots__ = ("_logs", "_models", "_prior", "decision_every", "family", "hold", "transitions")

    def __init__(self, family: Family, transitions: ArrayLike, decision_every: int = 1, *, hold: bool = False) -> None:
        if not isinstance(family, Family):
            raise DesignError(f"family is a {type(family).__name__}; it must be a Family")
        if isinstance(decision_every, bool) or not isinstance(decision_every, (int, np.integer)) or decision_every < 1:
            raise DesignError(f"decision_every = {decision_every!r}; it must be a whole number of readings, 1 or more")
        self.family = family
        self.transitions: Array = as_transitions(transitions, len(family.values))
        self.transitions.flags.writeable = False
        self.decision_every = int(decision_every)
        self.hold = bool(hold)
        self._models: Predictors = predictors(family)
        with np.errstate(divide="ignore"):
            self._prior: LogBelief = tuple(np.log(family.prior).tolist())
            self._logs: Array = np.log(self.transitions)

    def __reduce__(self) -> tuple[Callable[..., Estimator], tuple[Family, Array, int, bool]]:
        return _remake, (self.family, self.transitions, self.decision_every, self.hold)

    def __repr__(self) -> str:
        return f"Estimator({len(self.family.values)} values, decision_every={self.decision_every})"

    def start(self, tick: int = 0) -> EstimatorState:
        """Before the first reading, which belongs to the decision of this number by the clock.

        The prior is that of the first place in the cycle of transitions, as in `Beliefs.start`.
        """
        return EstimatorState(self._move(self._prior, 0, int(tick) % len(self._logs)), 0, int(tick), -1, None)

    def step(self, state: EstimatorState, y: ArrayLike | None, moved: int | None = None) -> tuple[EstimatorState, int]:
        """Take in a reading: the state after it, and the position of the value that it is taken to come from.

        A missing reading, None or NaN, moves the models on and leaves the belief as it is. `moved` says how many
        decisions have begun since the last reading (True is one), where a clock knows it; by default one begins every
        `decision_every` readings.
        """
        return self.step_with(state, y, None, moved)

    def step_with(
        self, state: EstimatorState, y: ArrayLike | None, row: int | None, moved: int | None = None
    ) -> tuple[EstimatorState, int]:
        """The same, with the value that is taken said from outside: the belief is the filter's, the models follow it.

        >>> import understudy as us
        >>> both = Estimator(us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1]), [[1, 0], [0, 1]])
        >>> both.step(both.start(), 3.0)[1], both.step_with(both.start(), 3.0, 0)[1]
        (1, 0)
        """
        belief, k, decision, last, predictor = state
        reading = _reading(y, self._models.dim, k)
        moves = int(k > 0 and k % self.decision_every == 0) if moved is None else int(moved)
        if moves > 0:
            belief, decision = self._move(belief, decision, moves), decision + moves
        models = self._models
        if reading is not None:
            belief = _normalise(list(map(operator.add, belief, models.logpdfs(predictor, reading))), k)
        if row is None:
            kept = self.hold and last >= 0 and moves <= 0
            row = last if kept else belief.index(max(belief))
        after = models.skip(predictor, row) if reading is None else models.update(predictor, row, reading)
        return EstimatorState(belief, k + 1, decision, row, after), row

    def log_prior(self, state: EstimatorState, moved: int | None = None) -> LogBelief:
        """Logarithms of the belief just before the next reading: what `step` starts from."""
        begins = int(state.readings > 0 and state.readings % self.decision_every == 0) if moved is None else int(moved)
        return self._move(state.belief, state.decision, begins)

    def belief(self, state: EstimatorState) -> tuple[float, ...]:
        """Pr(theta given the readings so far), as far as the shared predictor goes."""
        return tuple(map(math.exp, state.belief))

    def value(self, state: EstimatorState, row: int, z: Numbers) -> Numbers:
        """The next reading if it has the scores z under the value of this row: what whitening under it undoes.

        >>> import understudy as us
        >>> both = Estimator(us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1]), [[1, 0], [0, 1]])
        >>> both.value(both.start(), 1, 0.5)
        1.5
        """
        return self._models.value(state.predictor, row, z)

    def rows(self, Y: Iterable[ArrayLike | None]) -> list[int]:
        """The values that are taken along a whole sequence of readings, by position.

        >>> import understudy as us
        >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 4])
        >>> Estimator(family, [[0.9, 0.1], [0.1, 0.9]]).rows([0.1, 0.3, 4.4, None, 3.8])
        [0, 0, 1, 1, 1]
        """
        state, found = self.start(), []
        for y in Y:
            state, row = self.step(state, y)
            found.append(row)
        return found

    def _move(self, belief: LogBelief, decision: int, moves: int) -> LogBelief:
        """The belief so many decisions later. In logarithms, so that nothing that can occur is ever lost."""
        if moves <= 0:
            return belief
        period = len(self._logs)
        steps = [self._logs[(decision + k) % period] for k in range(min(moves, period))]
        turns, rest = divmod(moves, period)
        row = np.array([belief])
        if turns:
            # a long gap is as quick as a short one: the matrices of a whole turn, to its power
            row = _log_product(row, _log_power(functools.reduce(_log_product, steps), turns))
        for step in steps[:rest]:
            row = _log_product(row, step)
        return tuple(row[0].tolist())


def _remake(family: Family, transitions: Array, decision_every: int, hold: bool) -> Estimator:
    return Estimator(family, transitions, decision_every, hold=hold)


def _reading(y: ArrayLike | None, dim: int, k: int) -> Numbers | None:
    """A number or an array (dim,); None if it is missing."""
    if dim == 1:
        if type(y) is float:
            number = y
        elif type(y) is np.ndarray and y.size == 1 and y.dtype == np.float64:
            number = y.item()
        else:
            number = float(one_reading(y, 1)[0, 0])
        if math.isinf(number):
            raise _infinite(k)
        return None if math.isnan(number) else number
    array = one_reading(y, dim)[0]
    if np.isinf(array).any():
        raise _infinite(k)
    return None if np.isnan(array).any() else array


def _infinite(k: int) -> ReadingError:
    return ReadingError(f"reading {k} is infinite; a reading is a finite number, or NaN if missing")


def _log_product(A: Array, B: Array) -> Array:
    """The product of two matrices of which logarithms are known, as logarithms."""
    return np.asarray(np.logaddexp.reduce(A[:, :, None] + B[None, :, :], axis=1))


def _log_power(matrix: Array, exponent: int) -> Array:
    """A power of a stochastic matrix in logarithms; rows are kept at 1, or rounding would grow with the exponent.

    `causal_guarantee._power` is the same for beliefs that may round to zero. Here they must not: readings may yet show
    that what was least likely is so.
    """
    result = None
    while exponent:
        if exponent & 1:
            result = matrix if result is None else _rows_at_one(_log_product(result, matrix))
        exponent >>= 1
        if exponent:
            matrix = _rows_at_one(_log_product(matrix, matrix))
    return matrix if result is None else result


def _rows_at_one(logs: Array) -> Array:
    return np.asarray(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))


def _normalise(terms: list[float], k: int) -> LogBelief:
    total = float(np.logaddexp.reduce(terms))
    if not math.isfinite(total):
        raise ReadingError(f"reading {k} has no density under any value that can occur; it cannot be taken for one")
    return tuple([x - total for x in terms])
