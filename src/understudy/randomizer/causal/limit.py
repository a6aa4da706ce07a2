"""A causal randomizer in the long run: what it tells and costs a decision.

Under the pseudo draws the belief is a Markov chain of its own. Where it visits few places these are enumerated, and
leakage rate and distortion are means over its stationary law, exact to rounding. That happens more often than one
would think: while all columns are in use the posterior after draw j does not depend on the belief before it.
Elsewhere two values have a grid of beliefs, and more values a simulation with its standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.laws.base import Array
from understudy.randomizer.causal.analysis import mean, play
from understudy.randomizer.causal.beliefs import Beliefs, BeliefState, expected_cost, rounded

_SEED = 20230203  # a design that is computed twice is the same design
_PLACES = 1000  # beliefs that are enumerated at most, for each transition matrix
_GRID = 2000  # places of a grid, over all transition matrices
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


def long_run(beliefs: Beliefs, rng: Any = None) -> LongRun:
    """The leakage rate and the distortion that a causal randomizer settles to.

    >>> beliefs = Beliefs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0)
    >>> found = long_run(beliefs)
    >>> round(found.rate, 6), round(found.distortion, 6), found.how
    (0.128572, 0.119203, 'exact')
    """
    found = _enumerated(beliefs, beliefs.start()) or _from_afar(beliefs)
    if found is None and len(beliefs.prior) == 2:
        found = _on_a_grid(beliefs)
    return _simulated(beliefs, rng) if found is None else found


class _Chain:
    """A Markov chain of beliefs as it is being built: entries, and what a decision tells and costs in each place."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.chances: list[float] = []
        self.told: list[float] = []
        self.costs: list[float] = []

    def visit(self, beliefs: Beliefs, state: BeliefState) -> list[tuple[float, BeliefState]]:
        """Note a place; the draws that may come, each with its probability and the state after it."""
        kernel = beliefs.kernel(state.belief)
        self.told.append(beliefs.charge(state.belief, kernel))
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

        size = len(self.told)
        P = coo_array((self.chances, (self.rows, self.columns)), shape=(size, size)).tocsr()
        law = _settled(P, start)
        return LongRun(float(law @ self.told), float(law @ self.costs), 0.0, 0.0, how, size)


def _settled(P: Any, start: Array) -> Array:
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


def _enumerated(beliefs: Beliefs, first: BeliefState) -> LongRun | None:
    """All beliefs that can come after one, if they are few."""
    return _reached(beliefs, first, 2.0**30, "exact") or _reached(beliefs, first, 2.0**20, "merged")


def _reached(beliefs: Beliefs, first: BeliefState, grid: float, how: str) -> LongRun | None:
    chain = _Chain()
    known = {(first.k % beliefs.period, rounded(first.belief, grid)): 0}
    waiting = [first]
    for at, state in enumerate(waiting):  # which grows
        for chance, after in chain.visit(beliefs, state):
            phase = after.k % beliefs.period
            key = (phase, rounded(after.belief, grid))
            if key not in known:
                if len(known) >= _PLACES * beliefs.period:
                    return None
                known[key] = len(known)
                waiting.append(after._replace(k=phase))
            chain.lead(at, known[key], chance)
    start = np.zeros(len(known))
    start[0] = 1.0
    return chain.means(start, how)


def _from_afar(beliefs: Beliefs) -> LongRun | None:
    """Many beliefs may come at first and few later on: enumerated from the ends of random paths, if these agree."""
    rng = np.random.default_rng(_SEED)
    found: list[LongRun] = []
    for _ in range(_PATHS):
        state = beliefs.start()
        for _ in range(_LONG):
            kernel = beliefs.kernel(state.belief)
            r = np.asarray(state.belief) @ kernel
            state = beliefs.after(state, kernel, int(rng.choice(len(r), p=r / r.sum())))
        later = _enumerated(beliefs, state)
        if later is None:
            return None
        found.append(later)
    rates, costs = ([getattr(x, name) for x in found] for name in ("rate", "distortion"))
    agree = max(rates) - min(rates) <= 1e-6 and max(costs) - min(costs) <= 1e-6 * max(costs)
    return found[0] if agree else None


def _on_a_grid(beliefs: Beliefs) -> LongRun:
    """Two values: the beliefs on a grid for each matrix, what falls between two places shared by both."""
    period = beliefs.period
    size = max(200, _GRID // period)
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


def _simulated(beliefs: Beliefs, rng: Any) -> LongRun:
    """Means over simulated sequences without their first third, over whole turns of the matrices."""
    turn = 3 * beliefs.period
    T = -(-_DECISIONS // turn) * turn
    played = play(beliefs, T, _SEQUENCES, np.random.default_rng(_SEED if rng is None else rng))
    (rate, rate_error), (cost, cost_error) = (mean(x[T // 3 :]) for x in (played.charges, played.costs))
    return LongRun(rate, cost, rate_error, cost_error, "simulation", 0)
