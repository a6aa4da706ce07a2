"""The belief of an observer of all pseudo values, and the kernel that is optimal for it.

The private parameter is a Markov chain: theta_1 has the prior, and theta_k+1 follows theta_k by a transition matrix.
Before decision k the belief is the posterior b = Pr(theta_k given ~theta_1 .. ~theta_k-1). The randomizer knows it,
because it made the draws. Its kernel is the one that is optimal for this belief at a fixed slope s::

    P(b) = argmin over P of  I_b(P) + s sum_ij b_i P_ij L_ij

so that a unit of distortion is worth s nats everywhere. After draw j the belief follows Bayes' rule, then the chain:
b+ = u T with u_i = b_i P_ij / sum_l b_l P_lj. The draw leaks I_b(P) nats about theta_k. Draws depend on theta_k and on
the pseudo past alone, so by the chain rule these charges add up to the leakage of the sequence.

- `Beliefs` is this recursion. A belief is rounded to 2^-30 to find its kernel, which is cached. Charge and posterior
  are those of the belief itself under the kernel that is drawn from: rounding affects optimality (by its square), never
  the account of the leakage.
- `play` simulates private paths and their draws. `posteriors` and `errors` are the exact adversaries: the filter, who
  sees ~theta_1 .. ~theta_k, and the smoother, who sees the whole path (the forward-backward recursion). No observer of
  disguised readings does better. The smoother is never worse than the filter, and better where the chain is persistent.
- `long_run` is the leakage rate and the distortion a decision. Under the pseudo draws the belief is a Markov chain.
  Where it visits few states these are enumerated, and both are means over its stationary law, exact to rounding;
  otherwise two values have a grid of beliefs, and more values a simulation with its standard error.
"""

from __future__ import annotations

import bisect
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Frozen, Seed
from understudy.errors import DesignError, NumericalError, StateError
from understudy.randomizer.design import BITS, Randomizer
from understudy.randomizer.solver import as_cost, as_prior, at_slope, kernels, view

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# The belief recursion -----------------------------------------------------------------------------------


Belief = tuple[float, ...]

_GRID = 2.0**30  # kernels are found for beliefs in whole numbers of 1 / _GRID
_KEPT = 1 << 16  # kernels that are kept at a time
_GAP = 1e-9  # nats by which a kernel may miss the optimum, and does so by far less


class BeliefState(NamedTuple):
    """What a causal randomizer remembers: the belief before the next decision, and how many were made.

    It follows from the pseudo path alone and discloses as much as that does, so its repr shows the count only.

    >>> BeliefState((0.25, 0.75), 3)
    BeliefState(decisions=3)
    """

    belief: Belief
    k: int

    def __repr__(self) -> str:
        return f"BeliefState(decisions={self.k})"


class Draw(NamedTuple):
    """A decision: the state after it, the position of the pseudo value, and its leakage in nats."""

    state: BeliefState
    pseudo: int
    charge: float

    def __repr__(self) -> str:
        return f"Draw(decision={self.state.k})"


class Beliefs(Frozen):
    """The belief recursion of one source, one cost matrix and one slope.

    `transitions` is one matrix (m, m), or several that are used in turn: number k mod their count takes theta from
    decision k to the next. The slope is in nats a unit of cost; 0 leaks nothing, infinity plays the cheapest pairs.

    >>> flip = [[0.9, 0.1], [0.1, 0.9]]
    >>> beliefs = Beliefs([0.5, 0.5], flip, [[0, 1], [1, 0]], slope=2.0)
    >>> beliefs.kernel(beliefs.start().belief).round(4).tolist()
    [[0.8808, 0.1192], [0.1192, 0.8808]]
    >>> beliefs.draw(beliefs.start(), 0)
    Draw(decision=1)
    """

    __slots__ = ("_L", "_base", "_cache", "_scale", "cost", "prior", "slope", "transitions")

    def __init__(self, prior: ArrayLike | None, transitions: ArrayLike, cost: ArrayLike, slope: float) -> None:
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
        self._cache: dict[tuple[int, ...], Array] = {}
        for array in (self.cost, self.prior, self.transitions, L, self._base):
            array.flags.writeable = False

    def __reduce__(self) -> tuple[type[Beliefs], tuple[Array, Array, Array, Array | float]]:
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
        return state if self.period == 1 else self.advance(state, tick % self.period)

    def advance(self, state: BeliefState, decisions: int) -> BeliefState:
        """The state after so many decisions that were not made: the parameter has moved, and nothing has leaked.

        >>> beliefs = Beliefs([1.0, 0.0], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0)
        >>> [round(p, 4) for p in beliefs.advance(beliefs.start(), 3).belief], beliefs.advance(beliefs.start(), 10**9).k
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
        key = round_belief(belief)
        found = self._cache.get(key)
        return self._keep(key, self._solve(_belief_of_key(key))) if found is None else found

    def _keep(self, key: tuple[int, ...], kernel: Array) -> Array:
        if len(self._cache) >= _KEPT:
            self._cache.clear()
        kernel.flags.writeable = False
        self._cache[key] = kernel
        return kernel

    def charge(self, belief: Sequence[float], kernel: Array) -> float:
        """I_b(P), the leakage of a draw from this kernel at this belief, in nats."""
        m, n = kernel.shape
        r = np.empty(2)
        kernels.information(view(kernel.reshape(-1)), m, n, view(np.array(belief)), view(r))
        # for the belief normalised and as it is; a constant kernel leaks nothing at either
        normalised, given = r.tolist()
        return max(normalised, given) if normalised > 0.0 else 0.0

    def draw(
        self, state: BeliefState, row: int, rng: np.random.Generator | None = None, left: float = math.inf
    ) -> Draw:
        """One decision for the private value of this row, from the random source of the operating system.

        A decision that would leak more than `left` nats is made by the best column for the belief, whatever theta is,
        and leaks nothing. That it would is seen before the draw and follows from the pseudo past, so a budget is kept
        on every path.

        A private value that is impossible by the prior and the transitions is outside of the model. A refusal would
        tell that it is there; so the draw is then one of those that were to be expected, whatever theta is.
        """
        belief = self._check(state)
        kernel = self.kernel(belief)
        charge = self.charge(belief, kernel)
        if not charge <= left:
            return Draw(self.after(state, None, None), self.quiet(belief), 0.0)
        bits = secrets.randbits(BITS) if rng is None else int(rng.integers(1 << BITS))
        if belief[row] > 0.0:
            # whole numbers of 2^-53 up to 1 are added without rounding
            j = bisect.bisect_right(list(accumulate(kernel[row].tolist())), bits * 2.0**-BITS)
        else:
            j = self._draw_by_belief(belief, kernel, bits * 2.0**-BITS)
        return Draw(self.after(state, kernel, j), j, charge)

    @staticmethod
    def _draw_by_belief(belief: Sequence[float], kernel: Array, u: float) -> int:
        """A draw with the probabilities given the pseudo past alone."""
        r = np.asarray(belief) @ kernel
        ends = np.cumsum(r / r.sum())
        return int(np.flatnonzero(r > 0.0)[np.searchsorted(ends[r > 0.0][:-1], u, side="right")])

    def _check(self, state: BeliefState) -> Belief:
        if not isinstance(state, tuple) or len(state) != 2 or not isinstance(state[0], tuple):
            raise StateError(f"a state is of type {type(state).__name__}; it must be one that start or draw gave")
        if len(state[0]) != len(self.prior) or not abs(math.fsum(state[0]) - 1.0) < 1e-9:
            raise StateError(f"the belief of a state must hold {len(self.prior)} probabilities that sum to 1")
        return state[0]

    def after(self, state: BeliefState, kernel: Array | None, j: int | None) -> BeliefState:
        """The state after draw j from a kernel; without one, after a decision that leaked nothing."""
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
        """The column of least expected cost at a belief, for decisions that must leak nothing."""
        b = np.asarray(belief)
        expected = b[b > 0.0] @ self.cost[b > 0.0]
        best = int(expected.argmin())
        if not math.isfinite(expected[best]):
            raise DesignError("no column is allowed to all values, so every decision must leak something")
        return best

    def _solve(self, p: Array) -> Array:
        """The kernel that is optimal for the probabilities p at the slope, to rounding."""
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


class FixedKernel(Beliefs):
    """The same account for one kernel that is drawn from whatever the belief is: draws without memory.

    >>> twice = FixedKernel([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], [[0.7, 0.3], [0.3, 0.7]])
    >>> twice.kernel((0.2, 0.8)).tolist() == twice.kernel((0.5, 0.5)).tolist()
    True
    """

    __slots__ = ("_same",)

    def __init__(self, prior: ArrayLike | None, transitions: ArrayLike, cost: ArrayLike, kernel: ArrayLike) -> None:
        super().__init__(prior, transitions, cost, 0.0)
        self._same: Array = Randomizer(kernel).kernel
        if self._same.shape != self.cost.shape:
            raise DesignError(f"kernel has shape {self._same.shape} and the costs {self.cost.shape}; they must agree")

    def __reduce__(self) -> tuple[type[Beliefs], tuple[Array, Array, Array, Array | float]]:
        return type(self), (self.prior, self.transitions, self.cost, self._same)

    def kernel(self, belief: Sequence[float]) -> Array:
        """The one kernel."""
        return self._same


def round_belief(belief: Sequence[float], grid: float = _GRID) -> tuple[int, ...]:
    """A belief in whole numbers of 2^-30; what can occur stays possible, however rare.

    >>> round_belief((0.25, 0.75, 1e-30, 0.0))
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


def _belief_of_key(key: tuple[int, ...]) -> Array:
    """The belief that a rounded one stands for."""
    total = sum(key)
    return np.array([x / total for x in key])


def as_transitions(transitions: ArrayLike, m: int) -> Array:
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


def as_slope(slope: float) -> float:
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


# Simulation ----------------------------------------------------------------------------------------------


class Simulation(NamedTuple):
    """Simulated sequences, time first: (T, N), and (T, N, m) for likelihoods.

    `theta` and `pseudo` are positions; `likelihoods[k, s, i]` is the probability of draw k had theta been value i;
    `charges` are the leakages of the decisions in nats; `costs` the expected surrogate distortion given the pseudo path
    so far.
    """

    theta: NDArray[np.int64]
    pseudo: NDArray[np.int64]
    likelihoods: Array
    charges: Array
    costs: Array


def play(beliefs: Beliefs, decisions: int, sequences: int, rng: Seed = None, every: int = 1) -> Simulation:
    """Simulate private paths and the draws made for them.

    With `every` a pseudo value is drawn at each so many-th step only and held in between: an epoch.

    >>> beliefs = Beliefs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0)
    >>> played = play(beliefs, 50, 10, rng=1)
    >>> played.pseudo.shape, played.likelihoods.shape
    ((50, 10), (50, 10, 2))
    """
    generator = np.random.default_rng(rng)
    N, m = sequences, len(beliefs.prior)
    each = np.arange(N)
    belief = np.tile(beliefs.prior, (N, 1))
    theta = _pick(np.cumsum(belief, axis=1), generator)
    column = np.zeros(N, dtype=np.int64)
    out = Simulation(
        np.empty((decisions, N), dtype=np.int64), np.empty((decisions, N), dtype=np.int64),
        np.ones((decisions, N, m)), np.zeros((decisions, N)), np.empty((decisions, N)),
    )  # fmt: skip
    finite = np.where(np.isfinite(beliefs.cost), beliefs.cost, 0.0)  # forbidden pairs are not drawn
    for k in range(decisions):
        if k % every == 0:
            P = _kernels_for(beliefs, belief)
            column = _pick(np.cumsum(P[each, theta], axis=1), generator)
            out.charges[k] = _leakages(belief, P)
            out.likelihoods[k] = P[each, :, column]
            belief = belief * out.likelihoods[k]
            belief /= belief.sum(axis=1, keepdims=True)
        out.theta[k], out.pseudo[k] = theta, column
        out.costs[k] = (belief * finite[:, column].T).sum(axis=1)
        T = beliefs.transitions[k % beliefs.period]
        theta = _pick(np.cumsum(T, axis=1)[theta], generator)
        belief = belief @ T
        belief /= belief.sum(axis=1, keepdims=True)
    return out


def _pick(ends: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One position for each row of cumulative probabilities; none of probability zero."""
    u = rng.random(len(ends))[:, None] * ends[:, -1:]
    return np.asarray((ends <= u).sum(axis=1), dtype=np.int64)


def _kernels_for(beliefs: Beliefs, belief: Array) -> Array:
    if isinstance(beliefs, FixedKernel):
        return np.broadcast_to(beliefs.kernel(()), (len(belief), *beliefs.cost.shape))
    return np.array([beliefs.kernel(b) for b in belief.tolist()])


def _leakages(belief: Array, P: Array) -> Array:
    """I_b(P) of many."""
    r = np.einsum("si,sij->sj", belief, P)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(P > 0.0, P * np.log(P / r[:, None, :]), 0.0)
    return np.asarray(np.maximum(np.einsum("si,sij->s", belief, np.where(belief[:, :, None] > 0.0, terms, 0.0)), 0.0))


def mean(x: Array) -> tuple[float, float]:
    """The mean of what stands in (T, N), and its standard error from the N independent sequences."""
    each = x.mean(axis=0)
    return float(each.mean()), float(each.std(ddof=1) / math.sqrt(len(each))) if len(each) > 1 else math.nan


# Adversaries ---------------------------------------------------------------------------------------------


class Posteriors(NamedTuple):
    """What the filtering and the smoothing adversary believe of each theta_k, (T, N, m)."""

    filtering: Array
    smoothing: Array


def posteriors(likelihoods: Array, prior: ArrayLike, transitions: Array) -> Posteriors:
    """Forward and backward over theta, along given likelihoods (T, N, m): exact.

    >>> T = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> seen = posteriors(np.array([[[0.8, 0.2]], [[0.8, 0.2]]]), [0.5, 0.5], T)
    >>> seen.filtering[:, 0, 0].round(4).tolist(), seen.smoothing[:, 0, 0].round(4).tolist()
    ([0.8, 0.9193], [0.9193, 0.9193])
    """
    steps, N, m = likelihoods.shape
    forward, smooth = np.empty((steps, N, m)), np.empty((steps, N, m))
    belief = np.tile(np.asarray(prior, dtype=float), (N, 1))
    for k in range(steps):
        belief = belief * likelihoods[k]
        belief /= belief.sum(axis=1, keepdims=True)
        forward[k] = belief
        belief = belief @ transitions[k % len(transitions)]
    message = np.ones((N, m))
    for k in range(steps - 1, -1, -1):
        smooth[k] = forward[k] * message
        smooth[k] /= smooth[k].sum(axis=1, keepdims=True)
        message = (message * likelihoods[k]) @ transitions[(k - 1) % len(transitions)].T
        message /= message.sum(axis=1, keepdims=True)
    return Posteriors(forward, smooth)


@dataclass(frozen=True, slots=True)
class Errors:
    """How often the exact adversaries are wrong about theta_k, the mean over a sequence, with standard errors."""

    filtering: float
    filtering_error: float
    smoothing: float
    smoothing_error: float
    rate: float
    rate_error: float
    distortion: float
    distortion_error: float


def errors(
    beliefs: Beliefs, decisions: int = 200, sequences: int = 500, rng: Seed = None, every: int = 1, margin: int = 0
) -> Errors:
    """The errors of the filtering and the smoothing adversary, with leakage and distortion of the same sequences.

    The chance of being wrong is known given the pseudo path, so nothing but the path is left to chance. `margin`
    decisions at each end are left out of the means: at the start an adversary knows less, at the end there is nothing
    to wait for.

    >>> beliefs = Beliefs([0.5, 0.5], [[0.98, 0.02], [0.02, 0.98]], [[0, 1], [1, 0]], slope=2.0)
    >>> found = errors(beliefs, 100, 50, rng=1)
    >>> round(found.filtering, 6), found.smoothing < found.filtering
    (0.119203, True)
    """
    if 2 * margin >= decisions:
        raise DesignError(f"margin = {margin} at both ends of {decisions} decisions; nothing is left between")
    played = play(beliefs, decisions, sequences, rng, every)
    seen = posteriors(played.likelihoods, beliefs.prior, beliefs.transitions)
    inside = slice(margin, decisions - margin)
    f, s, r, d = (
        mean(x[inside])
        for x in (1.0 - seen.filtering.max(axis=2), 1.0 - seen.smoothing.max(axis=2), played.charges, played.costs)
    )
    return Errors(*f, *s, *r, *d)


# The long run --------------------------------------------------------------------------------------------


_SEED = 20230203  # a design that is computed twice is the same design
_PLACES = 1000  # beliefs that are enumerated at most, for each transition matrix
_GRID_PLACES = 2000  # places of a grid, over all transition matrices
_PATHS, _LONG = 3, 300
_SEQUENCES, _DECISIONS = 64, 240


@dataclass(frozen=True, slots=True)
class LongRun:
    """Means over the stationary law of the belief: nats and distortion a decision, with their standard errors.

    `how` is "exact" (the beliefs were enumerated, `places` of them, those within 1e-9 counted as one), "merged" (the
    same with 1e-6), "grid" (for two values, 1e-6 or better) or "simulation".
    """

    rate: float
    distortion: float
    rate_error: float
    distortion_error: float
    how: str
    places: int


def long_run(beliefs: Beliefs, rng: Seed = None) -> LongRun:
    """The leakage rate and the distortion that a causal randomizer settles to.

    >>> beliefs = Beliefs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0)
    >>> found = long_run(beliefs)
    >>> round(found.rate, 6), round(found.distortion, 6), found.how
    (0.128572, 0.119203, 'exact')
    """
    found = _enumerate(beliefs, beliefs.start()) or _enumerate_late(beliefs)
    if found is None and len(beliefs.prior) == 2:
        found = _on_grid(beliefs)
    return _simulate(beliefs, rng) if found is None else found


class _Chain:
    """A Markov chain of beliefs as it is being built: entries, and leakage and cost of a decision in each place."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.chances: list[float] = []
        self.leakages: list[float] = []
        self.costs: list[float] = []

    def visit(self, beliefs: Beliefs, state: BeliefState) -> list[tuple[float, BeliefState]]:
        """Note a place; the draws that may come, each with its probability and the state after it."""
        kernel = beliefs.kernel(state.belief)
        self.leakages.append(beliefs.charge(state.belief, kernel))
        self.costs.append(expected_cost(state.belief, kernel, beliefs.cost))
        r = np.asarray(state.belief) @ kernel
        return [(float(r[j]), beliefs.after(state, kernel, j)) for j in np.flatnonzero(r > 0.0).tolist()]

    def lead(self, source: int, target: int, chance: float) -> None:
        self.rows.append(source)
        self.columns.append(target)
        self.chances.append(chance)

    def means(self, start: Array, how: str) -> LongRun:
        """Means over the law that the chain settles to from a start."""
        from scipy.sparse import coo_array

        size = len(self.leakages)
        P = coo_array((self.chances, (self.rows, self.columns)), shape=(size, size)).tocsr()
        law = _stationary_law(P, start)
        return LongRun(float(law @ self.leakages), float(law @ self.costs), 0.0, 0.0, how, size)


def _stationary_law(P: csr_array, start: Array) -> Array:
    """The mean law of a finite chain over a long time: the stationary laws of its closed classes, by absorption."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import spsolve

    count, label = connected_components(P, directed=True, connection="strong")
    entries = P.tocoo()
    closed = np.ones(count, dtype=bool)
    closed[label[entries.row][label[entries.row] != label[entries.col]]] = False
    passing = np.flatnonzero(~closed[label])
    reached = start.copy()
    if passing.size and closed.sum() > 1:
        visits = np.atleast_1d(spsolve(csc_array(eye_array(passing.size) - P[passing][:, passing].T), start[passing]))
        reached = start + P[passing].T @ visits
    law = np.zeros(len(start))
    classes = np.flatnonzero(closed)
    for c in classes:
        inside = np.flatnonzero(label == c)
        weight = 1.0 if classes.size == 1 else float(reached[inside].sum())
        if inside.size == 1:
            law[inside] = weight
            continue
        # pi (P - I) = 0, and the sum in place of one of the equations
        A = (P[inside][:, inside].T - eye_array(inside.size)).tolil()
        A[-1, :] = 1.0
        right = np.zeros(inside.size)
        right[-1] = 1.0
        law[inside] = weight * spsolve(csc_array(A), right)
    return law


def _enumerate(beliefs: Beliefs, first: BeliefState) -> LongRun | None:
    """All beliefs that can come after one, if they are few."""
    return _enumerate_on(beliefs, first, 2.0**30, "exact") or _enumerate_on(beliefs, first, 2.0**20, "merged")


def _enumerate_on(beliefs: Beliefs, first: BeliefState, grid: float, how: str) -> LongRun | None:
    chain = _Chain()
    known = {(first.k % beliefs.period, round_belief(first.belief, grid)): 0}
    waiting = [first]
    for at, state in enumerate(waiting):  # which grows
        for chance, after in chain.visit(beliefs, state):
            phase = after.k % beliefs.period
            key = (phase, round_belief(after.belief, grid))
            if key not in known:
                if len(known) >= _PLACES * beliefs.period:
                    return None
                known[key] = len(known)
                waiting.append(after._replace(k=phase))
            chain.lead(at, known[key], chance)
    start = np.zeros(len(known))
    start[0] = 1.0
    return chain.means(start, how)


def _enumerate_late(beliefs: Beliefs) -> LongRun | None:
    """Many beliefs may come at first and few later on: enumerated from the ends of random paths, if these agree."""
    rng = np.random.default_rng(_SEED)
    found: list[LongRun] = []
    for _ in range(_PATHS):
        state = beliefs.start()
        for _ in range(_LONG):
            kernel = beliefs.kernel(state.belief)
            r = np.asarray(state.belief) @ kernel
            state = beliefs.after(state, kernel, int(rng.choice(len(r), p=r / r.sum())))
        later = _enumerate(beliefs, state)
        if later is None:
            return None
        found.append(later)
    rates, costs = ([getattr(x, name) for x in found] for name in ("rate", "distortion"))
    agree = max(rates) - min(rates) <= 1e-6 and max(costs) - min(costs) <= 1e-6 * max(costs)
    return found[0] if agree else None


def _on_grid(beliefs: Beliefs) -> LongRun:
    """Two values: the beliefs on a grid for each matrix, what falls between two places shared by both."""
    period = beliefs.period
    size = max(200, _GRID_PLACES // period)
    # a belief is a mixture of the rows of the matrix before it
    ends = [np.sort(beliefs.transitions[f - 1][:, 1]) for f in range(period)]
    grids = [np.linspace(low, high, size) for low, high in ends]
    chain = _Chain()

    def spread(after: BeliefState) -> tuple[int, int, float]:
        f = after.k % period
        x, grid = after.belief[1], grids[f]
        step = grid[1] - grid[0]
        place = (x - grid[0]) / step if step > 0.0 else 0.0
        i = min(max(int(place), 0), size - 2)
        return f * size + i, f * size + i + 1, min(max(place - i, 0.0), 1.0)

    for f, grid in enumerate(grids):
        for i, x in enumerate(grid.tolist()):
            for chance, after in chain.visit(beliefs, BeliefState((1.0 - x, x), f)):
                low, high, share = spread(after)
                chain.lead(f * size + i, low, chance * (1.0 - share))
                chain.lead(f * size + i, high, chance * share)
    start = np.zeros(period * size)
    for chance, after in _Chain().visit(beliefs, beliefs.start()):
        low, high, share = spread(after)
        start[low] += chance * (1.0 - share)
        start[high] += chance * share
    return chain.means(start, "grid")


def _simulate(beliefs: Beliefs, rng: Seed) -> LongRun:
    """Means over simulated sequences without their first third, over whole turns of the matrices."""
    turn = 3 * beliefs.period
    T = -(-_DECISIONS // turn) * turn
    played = play(beliefs, T, _SEQUENCES, np.random.default_rng(_SEED if rng is None else rng))
    (rate, rate_error), (cost, cost_error) = (mean(x[T // 3 :]) for x in (played.charges, played.costs))
    return LongRun(rate, cost, rate_error, cost_error, "simulation", 0)
