"""A parameter that moves: the belief of an observer of all pseudo values, and what is guaranteed against the best one.

**The belief.** The private parameter is a Markov chain: theta_1 has the prior, and theta_k+1 follows theta_k by a
transition matrix. Before decision k the belief is the posterior b = Pr(theta_k given ~theta_1 .. ~theta_k-1). The
randomizer knows it, because it made the draws. Its kernel is the one that is optimal for this belief at a fixed slope
s::

    P(b) = argmin over P of  I_b(P) + s sum_ij b_i P_ij L_ij

so that a unit of distortion is worth s nats everywhere. After draw j the belief follows Bayes' rule, then the chain:
b+ = u T with u_i = b_i P_ij / sum_l b_l P_lj. The draw leaks I_b(P) nats about theta_k. Draws depend on theta_k and on
the pseudo past alone, so by the chain rule these charges add up to the leakage of the sequence. `Beliefs` is this
recursion; `long_run` is its leakage rate and its distortion a decision; `play` simulates it.

**The best adversary** sees the pseudo path itself: at the time (filtering, ~theta_1 .. ~theta_k for theta_k) or
afterwards (smoothing, the whole path, by the forward-backward recursion). No observer of disguised readings does
better. Both are exact given the path (`posteriors`) and are averaged over simulated paths. A simulation ends somewhere
and has finitely many sequences; neither may make a bound too good.

*The end.* Later draws leak about earlier values too. So the simulated adversary is *told the true value* at the last
decision N that is simulated. Given that value and the pseudo values up to N, the pseudo values after N are independent
of theta_k for k <= N. Hence seeing all of them, without being told, is worth no more, and the bound holds however long
the sequence goes on. How far away N must be follows from the mixing of the chain.

*The number of sequences.* Where changes are rare nearly all simulated sequences look alike, and a standard error
says nothing. With x_1 .. x_n independent and not negative, of mean at most m, and 0 <= c <= 1, the expectation of ::

    E(m) = prod_s (1 + c (x_s / m - 1))

is at most 1, so that E(m) >= 10^6 occurs once in a million at most; the same is true of a mean over several c. The
least mean that is not refuted so is a lower bound, whatever the law of x, for any n.

**The card** (`causal_card`) says for every figure whether it is about a sequence, a day or a decision. Where theta is
estimated from the readings no theorem holds, and no figure is a guarantee. One thing can still be said. Let eps bound
the probability that the estimated path differs anywhere from the true one. *Any guess that the theorem says errs with
probability at least e, errs with probability at least e - eps.* Proof: run two systems on the same readings with the
same random numbers, one that knows theta (output ~Y) and one that estimates it (output ~Y'). Where the paths agree, the
draws, the scores and the outputs are the same. So for any guess g, from outputs, pseudo path and randomness of its own,
the two guesses agree but for an event of probability eps at most::

    Pr(g(~Y') != theta_k)  >=  Pr(g(~Y) != theta_k) - Pr(paths differ)  >=  e - eps

The path is all of it, up to the last reading that the adversary sees: eps grows with the length of the sequence, and
with eps >= e nothing is left.
"""

from __future__ import annotations

import bisect
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy import text
from understudy._types import Array, Frozen, Plain, Seed, Value
from understudy.distortion.costs import Costs
from understudy.errors import DesignError, NumericalError, StateError
from understudy.randomizer import measures
from understudy.randomizer.design import BITS
from understudy.randomizer.guarantee import (
    PrivacyCard,
    fresh_to_dict,
    json_number,
    measure_to_dict,
    named_values,
    output_to_dict,
)
from understudy.randomizer.solver import as_cost, as_prior, at_slope, kernels, minimise, view
from understudy.text import Card, Measure, MovingSetting, Scope, number, percent

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# The belief recursion -----------------------------------------------------------------------------------


Belief = tuple[float, ...]

_GRID = 2.0**30  # kernels are found for beliefs in whole numbers of 1 / _GRID
_MOST_KERNELS = 1 << 16  # in the cache at a time
_LONG_TURN = 96  # matrices in turn beyond which the long run is simulated, unless nothing leaks or all does
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
            minimise(self.cost, everyone, math.inf)  # says what is wrong
            least = self.cost[self.cost > 0.0].min()
            raise DesignError(f"the costs are as small as {least:.3g}; give them in larger units")
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

        Fewer than none: the clock was put back. The belief stays, and the place in the cycle of transitions goes back.

        >>> beliefs = Beliefs([1.0, 0.0], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0)
        >>> [round(p, 4) for p in beliefs.advance(beliefs.start(), 3).belief], beliefs.advance(beliefs.start(), 10**9).k
        ([0.756, 0.244], 1000000000)
        """
        if decisions <= 0:
            return state._replace(k=state.k + decisions)
        cycles, rest = divmod(decisions, self.period)
        b, k = np.array(state.belief), state.k
        if cycles:
            turn = [self.transitions[(k + i) % self.period] for i in range(self.period)]
            b = b @ _power(_product(turn), cycles)
        for i in range(rest):
            b = b @ self.transitions[(k + i) % self.period]
        return BeliefState(tuple((b / b.sum()).tolist()), k + decisions)

    def kernel(self, belief: Sequence[float]) -> Array:
        """The kernel that is drawn from at a belief, in whole numbers of 2^-53."""
        key = round_belief(belief)
        found = self._cache.get(key)
        if found is None:
            if len(self._cache) >= _MOST_KERNELS:
                self._cache.clear()
            found = self._cache[key] = self._solve(np.array(key) / sum(key))
            found.flags.writeable = False
        return found

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


def round_belief(belief: Sequence[float], grid: float = _GRID) -> tuple[int, ...]:
    """A belief in whole numbers of 2^-30; what can occur stays possible, however rare.

    >>> round_belief((0.25, 0.75, 1e-30, 0.0))
    (268435456, 805306368, 1, 0)
    """
    return tuple([int(x * grid + 0.5) or 1 if x > 0.0 else 0 for x in belief])


def _product(matrices: list[Array]) -> Array:
    """The product of matrices; the best order of a long turn takes longer to find than it saves."""
    if len(matrices) > _LONG_TURN:
        return reduce(np.matmul, matrices)
    return matrices[0] if len(matrices) == 1 else np.linalg.multi_dot(matrices)


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
            P = np.array([beliefs.kernel(b) for b in belief.tolist()])
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


# The long run --------------------------------------------------------------------------------------------


_SEED = 20230203  # a design that is computed twice is the same design
_PLACES = 1000  # beliefs that are enumerated at most, for each transition matrix
_GRID_PLACES = 2000  # places of a grid, over all transition matrices
_PATHS, _LONG = 3, 300
_SEQUENCES, _DECISIONS, _FEWEST = 64, 240, 16


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
    if beliefs.period > _LONG_TURN and 0.0 < beliefs.slope < math.inf:
        return _simulate(beliefs, rng)
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
    sequences = max(_FEWEST, min(_SEQUENCES, 4 * _SEQUENCES * _DECISIONS // T))
    played = play(beliefs, T, sequences, np.random.default_rng(_SEED if rng is None else rng))
    (rate, rate_error), (cost, cost_error) = (mean(x[T // 3 :]) for x in (played.charges, played.costs))
    return LongRun(rate, cost, rate_error, cost_error, "simulation", 0)


# Wrong guesses of the best adversary: lower bounds from simulation ----------------------------------------------------

ONCE = 1e-6  # that a simulated bound is too good
_FORGOTTEN = 1e-3  # what may be left of the second eigenvalue over a margin
_NEAREST = 24  # decisions of a margin at least
_FEW, _MANY = 64, 512  # sequences
_BETS = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.97])


class Plan(NamedTuple):
    """What is simulated: guesses of decisions `first` to `last` are counted, of `decisions`, in so many sequences.

    `settled` says whether the chain forgets its start before the first of them, and its end after the last.
    """

    first: int
    last: int
    decisions: int
    sequences: int
    settled: bool


class Wrong(NamedTuple):
    """The least share of wrong guesses at the time, and of those afterwards."""

    filtering: float
    smoothing: float


def make_plan(beliefs: Beliefs, how: str) -> Plan:
    """Whole turns of the matrices, after and before margins that follow the mixing of the chain as far as they may.

    >>> make_plan(Beliefs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0), "exact")
    Plan(first=32, last=79, decisions=110, sequences=512, settled=True)
    """
    few = how in ("exact", "merged")  # few beliefs occur, so that kernels are at hand
    work, inside = (200_000, 48) if few else (20_000, 24)
    turn = beliefs.period
    inside = -(-inside // turn) * turn
    wanted = mixing_time(beliefs.transitions)
    longest = max(_NEAREST, (work // (2 * _FEW) - inside) // 2)
    margin = -(-int(min(max(wanted, _NEAREST), longest)) // turn) * turn
    decisions = 2 * margin + inside
    sequences = int(min(_MANY, max(_FEW, work // decisions)))
    return Plan(margin + 1, margin + inside, decisions, sequences, wanted <= margin)


def mixing_time(transitions: Array) -> float:
    """Decisions over which the second eigenvalue of the chain falls to a thousandth; infinite if it never does.

    >>> mixing_time(np.array([[[0.95, 0.05], [0.05, 0.95]]])), mixing_time(np.eye(2)[None])
    (66, inf)
    """
    turn = _product(list(transitions))
    moduli = np.sort(abs(np.linalg.eigvals(turn)))
    second = float(moduli[-2]) if len(moduli) > 1 else 0.0
    if second >= 1.0 - 1e-12:
        return math.inf
    return len(transitions) * (1 if second <= _FORGOTTEN else math.ceil(math.log(_FORGOTTEN) / math.log(second)))


def wrong(beliefs: Beliefs, plan: Plan) -> Wrong:
    """The least shares of wrong guesses of the exact adversaries, each too good once in a million at most.

    >>> beliefs = Beliefs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0)
    >>> [round(share, 3) for share in wrong(beliefs, make_plan(beliefs, "exact"))]
    [0.115, 0.109]
    """
    if beliefs.slope == 0.0:  # the draws leak nothing, and nothing is random
        share = blind(beliefs, plan)
        return Wrong(share, share)
    played = play(beliefs, plan.decisions, plan.sequences, _SEED)
    inside = slice(plan.first - 1, plan.last)
    at_the_time = posteriors(played.likelihoods, beliefs.prior, beliefs.transitions).filtering[inside]
    afterwards = told_the_end(played.likelihoods, played.theta[-1], beliefs)[inside]
    filtering, smoothing = (
        least_mean(np.maximum(1.0 - seen.max(axis=2), 0.0).mean(axis=0)) for seen in (at_the_time, afterwards)
    )
    return Wrong(filtering, min(filtering, smoothing))


def told_the_end(likelihoods: Array, last: Array, beliefs: Beliefs) -> Array:
    """What is believed of each theta_k by who sees the pseudo path and is told theta at its end, (T, N, m)."""
    told = likelihoods.copy()
    told[-1] = np.eye(likelihoods.shape[2])[last]
    return posteriors(told, beliefs.prior, beliefs.transitions).smoothing


def blind(beliefs: Beliefs, plan: Plan) -> float:
    """How often the best guess is wrong that knows the chain alone, over the same decisions."""
    belief, shares = beliefs.prior, []
    for k in range(plan.last):
        shares.append(1.0 - float(belief.max()))
        belief = belief @ beliefs.transitions[k % beliefs.period]
    return max(0.0, math.fsum(shares[plan.first - 1 :]) / (plan.last - plan.first + 1))


def least_mean(x: Array, once: float = ONCE) -> float:
    """A lower bound on the mean of independent numbers that are not negative, wrong with probability `once` at most.

    >>> round(least_mean(np.full(512, 0.2)), 4), round(least_mean(np.array([0.2] * 500 + [0.0] * 12)), 4)
    (0.1938, 0.1837)
    """
    low, high = 0.0, float(x.mean())
    if not high > 0.0:
        return 0.0
    enough = math.log(len(_BETS)) - math.log(once)
    for _ in range(60):
        m = 0.5 * (low + high)
        logs = np.log1p(_BETS[:, None] * (x[None, :] / m - 1.0)).sum(axis=1)
        if float(np.logaddexp.reduce(logs)) >= enough:
            low = m
        else:
            high = m
    return low


# The card -------------------------------------------------------------------------------------------------------------

SCHEMA, VERSION = "understudy.causal_guarantee", 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CausalCard(PrivacyCard):
    """Everything that is guaranteed of a causal design, with its conditions. Make it with `causal_card`.

    Leakages are in nats, errors are probabilities. `filtering` and `smoothing` are the least shares of wrong guesses of
    theta_k at the time and afterwards, on average over the decisions k of `window`, first and last; `first_error` is
    that of theta_1 from the first draw alone. Sequences start at the stated prior, and `decisions` of them were
    simulated. Where `settled`, the chain has forgotten its start before the window and its end after it. `str`, `text`,
    `html` and `json` render it.
    """

    values: tuple[str | int | float, ...]
    prior: tuple[float, ...]
    draws: int
    decision_every: int
    decisions_per_day: float | None
    estimated: bool
    wrong_path: float | None
    rate: float
    rate_error: float
    first_charge: float
    distortion: float
    distortion_error: float
    measure: str
    prior_error: float
    blind: float
    first_error: float
    filtering: float
    smoothing: float
    window: tuple[int, int]
    decisions: int
    settled: bool
    fresh: float = 0.0
    """The fresh share."""
    output: tuple[text.OutputFacts, ...] = ()
    """Least-change outputs, by pseudo value; none where outputs are lifelike."""
    clock: bool = False
    """Whether all figures are given the public clock, and count what is learned beyond it."""

    @property
    def holds(self) -> bool:
        """Whether a theorem stands behind the numbers; not if the parameter is estimated from the readings."""
        return not self.estimated

    @property
    def bits(self) -> float:
        """The leakage rate in bits a decision."""
        return self.rate / math.log(2.0)

    @property
    def per_day(self) -> float | None:
        """Nats a day, expected in the long run; None if decisions a day are not known."""
        return None if self.decisions_per_day is None else self.decisions_per_day * self.rate

    @property
    def first_day(self) -> float | None:
        """Nats expected on the first day, whose first decision is apart."""
        if self.decisions_per_day is None:
            return None
        return self.first_charge + max(0.0, self.decisions_per_day - 1.0) * self.rate

    @property
    def headline(self) -> str:
        """What is guaranteed, in one sentence, conditions included; or that nothing is."""
        if self.clock and self.holds:
            return text.clock_claim(self.rate, self.per_day)
        return text.moving_claim(self.measures[0], self.holds)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Every figure with its sentence, the one to quote first: wrong guesses, then leakages."""
        say = self._setting
        found = [
            say.error("filtering", self.filtering, say.filtering_note(self.blind)),
            say.error("smoothing", self.smoothing, say.smoothing_note(self.decisions)),
            say.error("first_error", self.first_error, text.first_error_note(self.prior_error)),
            say.leakage("rate", self.rate, text.rate_note(self.rate_error)),
            say.leakage("first_charge", self.first_charge, text.FIRST_CHARGE_NOTE),
        ]
        if self.decisions_per_day is not None and self.per_day is not None and self.first_day is not None:
            note = text.per_day_note(self.first_day)
            found.append(say.leakage("per_day", self.per_day, note, self.decisions_per_day))
        return (*self._estimation_measures, *found)

    @property
    def _estimation_measures(self) -> tuple[Measure, ...]:
        """What a bound on the probability of a wrong path leaves: e - eps."""
        if self.holds or self.wrong_path is None:
            return ()
        guesses = (("filtering", self.filtering), ("smoothing", self.smoothing))
        return tuple(self._setting.error_of_estimated(name, value, self.wrong_path) for name, value in guesses)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What is guaranteed of a sequence, of a day and of a decision."""
        left = self._estimation_measures
        return self._setting.scopes(self.rate, self.first_charge, self.per_day, left[0].shown if left else "")

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that must be true for the figures to hold."""
        return self._setting.conditions

    @property
    def card(self) -> Card:
        """The whole card in words."""
        heading, caption = self._setting.headings
        facts = text.moving_facts(self.values, self.prior, self.draws, self.decision_every, self.decisions_per_day)
        if math.isfinite(self.distortion):
            facts.append(text.moving_distortion_fact(self.distortion, self.measure, measured=bool(self.output)))
        if self.fresh:
            facts.append(("Fresh share", text.fresh_words(self.fresh, path=True, holds=self.holds)))
        if self.output:
            facts.append(("Output", text.output_words(self.output)))
        return Card(
            title="Privacy card of a moving parameter",
            claim=self.headline,
            holds=self.holds,
            facts=facts,
            heading=heading,
            caption=caption,
            measures=self.measures,
            conditions=self.conditions,
            against=self.against,
            not_protected=self.not_protected,
            scopes=self.scopes,
        )

    @property
    def _setting(self) -> MovingSetting:
        return MovingSetting(self.holds, self.wrong_path, *self.window, self.settled, self.fresh, self.clock)

    def __repr__(self) -> str:
        size = f"{len(self.values)} values, {self.draws} draws"
        if self.estimated:
            return f"CausalCard(no guarantee, audit only; {size})"
        error, rate = percent(self.filtering, "down"), number(self.rate, "up")
        return f"CausalCard({size}, error >= {error}, {rate} nats a decision)"

    def to_dict(self) -> Plain:
        """The card as plain data: infinities are the word ``"infinite"``, what is not defined is None."""
        held = self.holds
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "guaranteed": held,
            "condition": "path" if held else "estimated",
            "headline": self.headline,
            "values": list(self.values),
            "odds": list(self.prior),
            "draws": self.draws,
            "decision_every": self.decision_every,
            "decisions_per_day": self.decisions_per_day,
            "wrong_path": self.wrong_path,
            **fresh_to_dict(self.fresh),
            **output_to_dict(self.output),
            **({"clock": True} if self.clock else {}),
            "leakage": {
                "nats_per_decision": self.rate,
                "bits_per_decision": self.bits,
                "standard_error": self.rate_error,
                "first_decision_nats": self.first_charge,
                "nats_per_day": self.per_day,
                "nats_first_day": self.first_day,
            },
            "wrong_guesses": {
                "blind": self.blind,
                "at_the_time_at_least": self._least(self.filtering),
                "afterwards_at_least": self._least(self.smoothing),
                "of_decisions": list(self.window),
                "decisions_simulated": self.decisions,
                "settled": self.settled,
            },
            "distortion": {
                "surrogate": json_number(self.distortion),
                "standard_error": json_number(self.distortion_error),
            },
            "measures": [measure_to_dict(m) for m in self.measures],
            "guaranteed_for": [scope._asdict() for scope in self.scopes],
            "conditions": list(self.conditions),
            "against": self.against,
            "not_protected": list(self.not_protected),
        }

    def _least(self, error: float) -> float:
        """What is left of a bound on wrong guesses where the path may be wrong: e - eps, or nothing."""
        if self.holds:
            return error
        return 0.0 if self.wrong_path is None else max(0.0, error - self.wrong_path)


@runtime_checkable
class MovingDesign(Protocol):
    """What a card needs of a causal design."""

    beliefs: Beliefs
    long_run: LongRun
    costs: Costs | None
    decision_every: int
    estimated: bool
    first_charge: float

    @property
    def own_epochs(self) -> Plain:
        """Length and phase of decisions by the public clock; empty without one."""
        ...

    @property
    def values(self) -> tuple[Value, ...]:
        """The values of the private parameter."""
        ...

    @property
    def fresh(self) -> float:
        """The fresh share."""
        ...

    @property
    def output_facts(self) -> tuple[text.OutputFacts, ...]:
        """What was measured of least-change outputs."""
        ...

    @property
    def distortion_error(self) -> float:
        """The standard error of the distortion."""
        ...


def causal_card(
    design: MovingDesign,
    *,
    decisions_per_day: float | None = None,
    estimated: bool = False,
    wrong_path: float | None = None,
) -> CausalCard:
    """The card of a causal design.

    `decisions_per_day` adds the leakage of a day. With `estimated`, or if the design says so, theta is estimated from
    the readings, and the card says "no guarantee, audit only"; `wrong_path` then bounds the probability that the
    estimated path differs anywhere from the true one, and the card has the line that still holds.

    >>> import textwrap
    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> made = us.design_causal(family, [[0.98, 0.02], [0.02, 0.98]], rate=0.02, distortion="mae")
    >>> causal_card(made, decisions_per_day=96)
    CausalCard(2 values, 2 draws, error >= 16.68 percent, 0.02 nats a decision)
    >>> print(textwrap.fill(causal_card(made, estimated=True).headline, 80))
    No guarantee, audit only: the parameter is estimated from the readings, and then
    no theorem holds. Figures that say 'if known' are those of a known parameter,
    and bound nothing here.
    >>> causal_card(made, estimated=True, wrong_path=0.05).measures[0].shown
    'at least 11.68 percent'
    """
    if not isinstance(design, MovingDesign):
        raise DesignError(f"design is a {type(design).__name__}; it must be a CausalDesign")
    estimated = bool(estimated) or design.estimated
    if decisions_per_day is not None:
        if not 0.0 < _plain(decisions_per_day) < math.inf:
            raise DesignError(f"decisions_per_day = {decisions_per_day!r}; it must be a positive number")
        decisions_per_day = _plain(decisions_per_day)
    if wrong_path is not None:
        if not estimated:
            raise DesignError("wrong_path is about a path that is estimated; give it with estimated=True")
        if not 0.0 <= _plain(wrong_path) <= 1.0:
            raise DesignError(f"wrong_path = {wrong_path!r}; it must be a probability, from 0 to 1")
        wrong_path = float(wrong_path)
    b = design.beliefs
    plan = make_plan(b, design.long_run.how)
    found = wrong(b, plan)
    kernel = b.kernel(b.prior.tolist())
    return CausalCard(
        values=named_values(design.values, len(design.values)),
        prior=tuple(b.prior.tolist()),
        draws=b.cost.shape[1],
        decision_every=design.decision_every,
        decisions_per_day=decisions_per_day,
        estimated=estimated,
        wrong_path=wrong_path,
        rate=design.long_run.rate,
        rate_error=design.long_run.rate_error,
        first_charge=design.first_charge,
        distortion=design.long_run.distortion,
        distortion_error=design.distortion_error,
        measure="" if design.costs is None else design.costs.distortion or "",
        prior_error=measures.prior_error(b.prior),
        blind=blind(b, plan),
        first_error=measures.bayes_error(b.prior, kernel),
        filtering=found.filtering,
        smoothing=found.smoothing,
        window=(plan.first, plan.last),
        decisions=plan.decisions,
        settled=plan.settled,
        fresh=design.fresh,
        output=design.output_facts,
        clock=bool(design.own_epochs),
    )


def _plain(number: float) -> float:
    """A number of Python, from one of numpy too; NaN if it is none."""
    if isinstance(number, (np.integer, np.floating)):
        number = number.item()
    return number if isinstance(number, (int, float)) and not isinstance(number, bool) else math.nan
