"""What somebody who sees every pseudo value believes, and the kernel that fits the belief.

The private parameter moves: theta_1 has the prior, and theta_k+1 follows theta_k by a transition matrix. Before
decision k the belief is b = Pr(theta_k given ~theta_1 .. ~theta_k-1), which the randomizer knows, for it made the
draws. Its kernel is the one that is optimal for this belief at a fixed slope s::

    P(b) = argmin over P of  I_b(P) + s sum_ij b_i P_ij L_ij

so that everywhere a unit of distortion is worth s nats. With draw j the belief moves by Bayes' rule, then by
the chain: b+ = u T with u_i = b_i P_ij / sum_l b_l P_lj. The draw tells I_b(P) nats about theta_k that were not told
before. Draws depend on theta_k and on the pseudo past alone, so these charges add up to all that the sequence tells.

**Kernels are shared.** A belief is rounded to 2^-30 to find its kernel, which is kept for the next time. Charge and
belief are those of the belief itself under the kernel that is drawn from: rounding touches optimality (by its
square), never the account.
"""

from __future__ import annotations

import bisect
import math
import secrets
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import DesignError, NumericalError, StateError
from understudy.laws.base import Array, Frozen
from understudy.randomizer.backend import kernels, view
from understudy.randomizer.interior import at_slope
from understudy.randomizer.problem import as_cost, as_prior
from understudy.randomizer.sampler import BITS

Belief = tuple[float, ...]

_GRID = 2.0**30  # kernels are found for beliefs in whole numbers of 1 / _GRID
_KEPT = 1 << 16  # kernels that are kept at a time
_GAP = 1e-9  # nats by which a kernel may miss the optimum, and does so by far less


class BeliefState(NamedTuple):
    """What a causal randomizer remembers: the belief before the next decision, and how many were made.

    It follows from the pseudo path alone and tells as much as that does, so its repr tells the count only.

    >>> BeliefState((0.25, 0.75), 3)
    BeliefState(decisions=3)
    """

    belief: Belief
    k: int

    def __repr__(self) -> str:
        return f"BeliefState(decisions={self.k})"


class Draw(NamedTuple):
    """A decision: the state after it, the position of the pseudo value, and the nats that it told."""

    state: BeliefState
    pseudo: int
    charge: float

    def __repr__(self) -> str:
        return f"Draw(decision={self.state.k})"


class Beliefs(Frozen):
    """The belief recursion of one source, one cost matrix and one slope.

    `transitions` is one matrix (m, m), or several that are used in turn: number k mod their count takes theta from
    decision k to the next. The slope is in nats a unit of cost; 0 tells nothing, infinity plays the cheapest pairs.

    >>> flip = [[0.9, 0.1], [0.1, 0.9]]
    >>> beliefs = Beliefs([0.5, 0.5], flip, [[0, 1], [1, 0]], slope=2.0)
    >>> beliefs.kernel(beliefs.start().belief).round(4).tolist()
    [[0.8808, 0.1192], [0.1192, 0.8808]]
    >>> beliefs.draw(beliefs.start(), 0)
    Draw(decision=1)
    """

    __slots__ = ("_L", "_base", "_kept", "_scale", "cost", "prior", "slope", "transitions")

    def __init__(self, prior: Any, transitions: Any, cost: Any, slope: float) -> None:
        self.cost: Array = as_cost(cost)
        m, n = self.cost.shape
        self.prior: Array = as_prior(prior, m)
        self.transitions: Array = as_transitions(transitions, m)
        self.slope: float = as_slope(slope)
        everyone, r = np.full(m, 1.0 / m), np.zeros(5)
        L = np.empty(m * n)
        code = kernels.prepare(view(self.cost.reshape(-1)), m, n, view(everyone), view(L), view(np.empty(n)), view(r))
        if code:
            raise DesignError(_wrong_cost(code, self.cost, int(r[4])))
        self._L: Array = L
        self._scale: float = float(r[1])
        # each value its cheapest column: for rows that no used column is allowed to, and where cost is all that counts
        self._base: Array = np.empty(m * n)
        kernels.saturated(view(L), m, n, view(self._base))
        self._kept: dict[tuple[int, ...], Array] = {}
        for array in (self.cost, self.prior, self.transitions, L, self._base):
            array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.prior, self.transitions, self.cost, self.slope)

    def __repr__(self) -> str:
        m, n = self.cost.shape
        cycle = "" if self.period == 1 else f", period={self.period}"
        return f"{type(self).__name__}({m} x {n}, slope={self.slope:.6g}{cycle})"

    @property
    def scale(self) -> float:
        """The cost of the best constant column with all values equally likely: slopes are judged beside it."""
        return self._scale

    @property
    def period(self) -> int:
        """How many transition matrices take turns."""
        return len(self.transitions)

    @property
    def _common(self) -> bool:
        """Whether some column is allowed to all values."""
        return bool(np.isfinite(self.cost).all(axis=0).any())

    def start(self, tick: int = 0) -> BeliefState:
        """Before the first decision: the prior, which is that of the first place in the cycle of transitions.

        `tick` is the number of the decision by the clock. Where several matrices take turns, it is counted in.
        """
        state = BeliefState(tuple(self.prior.tolist()), 0)
        return state if self.period == 1 else self.passed(state, tick % self.period)

    def passed(self, state: BeliefState, decisions: int) -> BeliefState:
        """The state after so many decisions that were not made: the parameter has moved, and nothing was told.

        >>> beliefs = Beliefs([1.0, 0.0], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0)
        >>> [round(p, 4) for p in beliefs.passed(beliefs.start(), 3).belief], beliefs.passed(beliefs.start(), 10**9).k
        ([0.756, 0.244], 1000000000)
        """
        if decisions <= 0:
            return state
        cycles, rest = divmod(decisions, self.period)
        b, k = np.array(state.belief), state.k
        if cycles:
            turn = [self.transitions[(k + i) % self.period] for i in range(self.period)]
            whole = turn[0] if len(turn) == 1 else np.linalg.multi_dot(turn)
            b = b @ _power(whole, cycles)
        for i in range(rest):
            b = b @ self.transitions[(k + i) % self.period]
        return BeliefState(tuple((b / b.sum()).tolist()), k + decisions)

    def kernel(self, belief: Sequence[float]) -> Array:
        """The kernel that is drawn from at a belief, in whole numbers of 2^-53."""
        key = rounded(belief)
        found = self._kept.get(key)
        return self._keep(key, self._solve(_odds(key))) if found is None else found

    def _keep(self, key: tuple[int, ...], kernel: Array) -> Array:
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        kernel.flags.writeable = False
        self._kept[key] = kernel
        return kernel

    def charge(self, belief: Sequence[float], kernel: Array) -> float:
        """I_b(P), the nats that a draw from this kernel tells at this belief."""
        m, n = kernel.shape
        r = np.empty(2)
        kernels.information(view(kernel.reshape(-1)), m, n, view(np.array(belief)), view(r))
        # for the belief normalised and as it is; a constant kernel tells nothing at either
        normalised, given = r.tolist()
        return max(normalised, given) if normalised > 0.0 else 0.0

    def draw(
        self, state: BeliefState, row: int, rng: np.random.Generator | None = None, left: float = math.inf
    ) -> Draw:
        """One decision for the private value of this row, from the random source of the operating system.

        A decision that would tell more than `left` nats is made by the best column for the belief, whatever theta is,
        and tells nothing. That it would is seen before the draw and follows from the pseudo past, so a budget is kept
        on every path.

        A private value that is impossible by the prior and the transitions is outside of the model. A refusal would
        tell that it is there; so the draw is then one of those that were to be expected, whatever theta is.
        """
        belief = self._checked(state)
        kernel = self.kernel(belief)
        charge = self.charge(belief, kernel)
        if not charge <= left:
            return Draw(self.after(state, None, None), self.quiet(belief), 0.0)
        bits = secrets.randbits(BITS) if rng is None else int(rng.integers(1 << BITS))
        if belief[row] > 0.0:
            # whole numbers of 2^-53 up to 1 are added without rounding
            j = bisect.bisect_right(list(accumulate(kernel[row].tolist())), bits * 2.0**-BITS)
        else:
            j = self._as_believed(belief, kernel, bits * 2.0**-BITS)
        return Draw(self.after(state, kernel, j), j, charge)

    @staticmethod
    def _as_believed(belief: Sequence[float], kernel: Array, u: float) -> int:
        """A draw that has the odds that somebody expects who knows the pseudo past alone."""
        r = np.asarray(belief) @ kernel
        ends = np.cumsum(r / r.sum())
        return int(np.flatnonzero(r > 0.0)[np.searchsorted(ends[r > 0.0][:-1], u, side="right")])

    def _checked(self, state: BeliefState) -> Belief:
        if not isinstance(state, tuple) or len(state) != 2 or not isinstance(state[0], tuple):
            raise StateError(f"a state is of type {type(state).__name__}; it must be one that start or draw gave")
        if len(state[0]) != len(self.prior) or not abs(math.fsum(state[0]) - 1.0) < 1e-9:
            raise StateError(f"the belief of a state must hold {len(self.prior)} probabilities that sum to 1")
        return state[0]

    def after(self, state: BeliefState, kernel: Array | None, j: int | None) -> BeliefState:
        """The state after draw j from a kernel; without one, after a decision that told nothing."""
        belief, k = state
        m, n = self.cost.shape
        r = np.empty(2 * m)
        P, column = (r, -1) if kernel is None or j is None else (kernel.reshape(-1), j)
        T, place = self.transitions.reshape(-1), k % len(self.transitions) * m * m
        # only + - * / in a fixed order: a path that is played again gives the same bits everywhere
        if not kernels.follow(view(np.array(belief)), m, n, view(P), column, view(T), place, view(r)):
            raise StateError(f"decision {k + 1}: the draw has probability zero at the belief of this state")
        return BeliefState(tuple(r.tolist()[:m]), k + 1)

    def quiet(self, belief: Sequence[float]) -> int:
        """The column of least expected cost at a belief, for decisions that must tell nothing."""
        b = np.asarray(belief)
        expected = b[b > 0.0] @ self.cost[b > 0.0]
        best = int(expected.argmin())
        if not math.isfinite(expected[best]):
            raise DesignError("no column is allowed to all values, so every decision must tell something")
        return best

    def _solve(self, p: Array) -> Array:
        """The kernel that is optimal for the odds p at the slope, to rounding."""
        m, n = self.cost.shape
        slope = self.slope * self._scale
        if n == 1 or slope == math.inf or (self._scale == 0.0 < self.slope and not self._common):
            return self._base.reshape(m, n).copy()
        if slope == 0.0 or self._scale == 0.0:
            P = np.zeros((m, n))
            P[:, self.quiet(p.tolist())] = 1.0
            return P
        found = at_slope(self._L, p, slope, self._base)
        if not found.gap <= _GAP:
            raise NumericalError(
                f"the kernel of a belief was found to {found.gap:.2g} nats of the optimum only; the rule is {_GAP:g}"
            )
        return found.kernel.reshape(m, n)


class Fixed(Beliefs):
    """The same account for one kernel that is drawn from whatever the belief is: draws without memory.

    >>> twice = Fixed([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], [[0.7, 0.3], [0.3, 0.7]])
    >>> twice.kernel((0.2, 0.8)).tolist() == twice.kernel((0.5, 0.5)).tolist()
    True
    """

    __slots__ = ("_same",)

    def __init__(self, prior: Any, transitions: Any, cost: Any, kernel: Any) -> None:
        from understudy.randomizer.sampler import Randomizer

        super().__init__(prior, transitions, cost, 0.0)
        self._same: Array = Randomizer(kernel).kernel
        if self._same.shape != self.cost.shape:
            raise DesignError(f"kernel has shape {self._same.shape} and the costs {self.cost.shape}; they must agree")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.prior, self.transitions, self.cost, self._same)

    def kernel(self, belief: Sequence[float]) -> Array:
        """The one kernel."""
        return self._same


def rounded(belief: Sequence[float], grid: float = _GRID) -> tuple[int, ...]:
    """A belief in whole numbers of 2^-30; what can occur stays possible, however rare.

    >>> rounded((0.25, 0.75, 1e-30, 0.0))
    (268435456, 805306368, 1, 0)
    """
    return tuple([int(x * grid + 0.5) or 1 if x > 0.0 else 0 for x in belief])


def _power(matrix: Array, exponent: int) -> Array:
    """A power of a stochastic matrix; rows are kept at 1, or rounding would grow with the exponent."""
    result = np.eye(len(matrix))
    while exponent:
        if exponent & 1:
            result = result @ matrix
            result /= result.sum(axis=1, keepdims=True)
        matrix = matrix @ matrix
        matrix = matrix / matrix.sum(axis=1, keepdims=True)
        exponent >>= 1
    return result


def _odds(key: tuple[int, ...]) -> Array:
    """The belief that a rounded one stands for."""
    total = sum(key)
    return np.array([x / total for x in key])


def as_transitions(transitions: Any, m: int) -> Array:
    """One transition matrix or several in turn, (count, m, m), rows normalised.

    >>> as_transitions([[0.9, 0.1], [0.2, 0.8]], 2).shape
    (1, 2, 2)
    """
    try:
        array = np.asarray(transitions)
    except ValueError:
        array = np.empty(0)
    if array.dtype.kind not in "fiu" or array.ndim not in (2, 3) or array.shape[-2:] != (m, m) or not array.size:
        raise DesignError(
            f"transition has shape {array.shape} and type {array.dtype}; it must be ({m}, {m}), a row for each value, "
            f"or several of these, (count, {m}, {m})"
        )
    T = np.array(array, dtype=float).reshape(-1, m, m)
    if not np.isfinite(T).all() or (T < 0.0).any():
        raise DesignError("transition holds a number that is negative or not finite; it must hold probabilities")
    total = T.sum(axis=2)
    if (abs(total - 1.0) > 1e-9).any():
        k, i = np.unravel_index(int(abs(total - 1.0).argmax()), total.shape)
        which = "" if len(T) == 1 else f" of matrix {k}"
        raise DesignError(f"row {i}{which} of the transition sums to {total[k, i]:.12g}; each row must sum to 1")
    return np.asarray(T / total[:, :, None])


def as_slope(slope: Any) -> float:
    """A slope, in nats a unit of distortion: 0 or more, infinity included."""
    if isinstance(slope, bool) or not isinstance(slope, (int, float, np.integer, np.floating)) or not slope >= 0.0:
        raise DesignError(f"slope = {slope!r}; it must be a number of 0 or more, in nats a unit of distortion")
    return float(slope)


def _wrong_cost(code: int, cost: Array, position: int) -> str:
    i, j = divmod(position, cost.shape[1])
    if code == 3:
        return f"row {i} of the costs is infinite throughout; each value needs an allowed pair"
    if code == 5:
        return f"the costs are as small as {cost[cost > 0.0].min():.3g}; give them in larger units"
    what = "is not a number" if code == 1 else f"is {cost[i, j]:.6g}"
    return f"the cost in row {i}, column {j} {what}; costs must be 0 or more (infinite = forbidden)"


def expected_cost(belief: Sequence[float], kernel: Array, cost: Array) -> float:
    """Sum b_i P_ij L_ij; a pair that is not drawn costs nothing, forbidden or not.

    >>> expected_cost((0.5, 0.5), np.eye(2), np.array([[1.0, math.inf], [math.inf, 3.0]]))
    2.0
    """
    w = np.asarray(belief)[:, None] * kernel
    return float((w[w > 0.0] * cost[w > 0.0]).sum())
