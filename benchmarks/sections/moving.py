"""A decision of the causal randomizer: what it costs at beliefs met before, at new ones, and along a path."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from time import process_time
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Required, Row, Section, duration, race, row
from benchmarks.peers.conic import mutual_information
from understudy.randomizer.causal_guarantee import Beliefs, BeliefState

LIMIT = Required(200, at_most=True)  # microseconds
GAP = 1e-9  # nats by which the kernel of a peer may miss the least I + slope * D
APART = 1e-6  # nats beyond which a peer did another job
SWEEPS = 1_000_000
ROUNDS = 5
STAY = 0.97
SLOPES = {2: 2.0, 8: 20.0}  # nats a unit of distortion: some 0.1 nats a decision, and half the columns in use


def source(m: int) -> Beliefs:
    """A value among m places on a line, mostly kept, squared error; nothing kept in mind yet."""
    x = np.linspace(0.0, 1.0, m)
    T = np.full((m, m), (1.0 - STAY) / (m - 1))
    np.fill_diagonal(T, STAY)
    return Beliefs(np.full(m, 1.0 / m), T, (x[:, None] - x) ** 2, SLOPES[m])


def met(m: int, count: int) -> list[BeliefState]:
    """Beliefs of all kinds, from nearly even to nearly sure."""
    rng = np.random.default_rng(m)
    widths = rng.choice([0.3, 1.0, 5.0], size=count)
    return [BeliefState(tuple(rng.dirichlet(np.full(m, w)).tolist()), 1) for w in widths]


def run(quick: bool) -> Section:
    """Each decision is timed by itself, in CPU time, over several rounds."""
    count = 1_100 if quick else 5_500
    rows: list[Row] = []
    for m in (8, 2):
        name = f"m = n = {m}: a decision at"
        states = met(m, count)
        rows.append(_spread(f"{name} a new belief", lambda m=m, states=states: _at(source(m), states)))
        beliefs = source(m)
        _at(beliefs, states)
        rows.append(_spread(f"{name} a belief met before", partial(_at, beliefs, states)))
        rows.append(_spread(f"{name} the next place of a path", lambda m=m: _along(source(m), count)))
        rows += _peers(m, 3 if quick else 10)
    return Section(
        "A parameter that moves: one decision",
        "99th percentile of a decision in microseconds; in the rows of kernels, peer's time / understudy's time",
        rows,
        [
            "A decision finds the kernel that is optimal for the belief, charges for it, draws from the random source "
            "of the operating system and moves the belief on. CPU time, each decision by itself, the reading of the "
            "clock included and garbage collection left on. Samples are decisions; the first tenth is not counted.",
            f"The same decisions are made in {ROUNDS} rounds and the quickest time of each is kept, or the percentile "
            "would be one of the neighbours on the machine; *all rounds* tells the median over rounds of the 99th "
            "percentile without that.",
            "A new belief needs a kernel to be found; one met before has its kernel kept. The path is that of a value "
            f"which stays with probability {STAY:g} (drawn from a seeded source here), with nothing kept at first.",
            "*The kernel alone* is what can be compared: beliefs that are new, the same for all, at the same slope. "
            f"Blahut-Arimoto in numpy runs until a gap of {GAP:g} nats is proven, the rule for understudy's kernels "
            "too (they reach 1e-13 or so). CVXPY with Clarabel at its default tolerances, joint law and output "
            "marginal as variables. *Outputs apart*: the largest I + slope D less understudy's, in nats.",
        ],
    )


def _at(beliefs: Beliefs, states: list[BeliefState]) -> list[float]:
    """Seconds of one decision at each state, for the likeliest value."""
    seconds = []
    for state in states:
        i = max(range(len(state.belief)), key=state.belief.__getitem__)
        start = process_time()
        beliefs.draw(state, i)
        seconds.append(process_time() - start)
    return seconds


def _along(beliefs: Beliefs, count: int) -> list[float]:
    """Seconds of each decision of a path."""
    rng = np.random.default_rng(7)
    m = len(beliefs.prior)
    state, i, seconds = beliefs.start(), 0, []
    for _ in range(count):
        i = int(rng.choice(m, p=beliefs.transitions[0, i]))
        start = process_time()
        state = beliefs.draw(state, i, rng).state
        seconds.append(process_time() - start)
    return seconds


def _spread(name: str, decisions: Callable[[], list[float]]) -> Row:
    rounds = np.array([decisions() for _ in range(ROUNDS)])
    rounds = 1e6 * rounds[:, rounds.shape[1] // 11 :]
    each = rounds.min(axis=0)
    return Row(
        name,
        f"{each.size:,}",
        duration(1e-6 * float(each.min())),
        duration(1e-6 * float(np.median(each))),
        float(np.percentile(each, 99)),
        LIMIT,
        compared=f"all rounds {np.median(np.percentile(rounds, 99, axis=1)):.0f} us",
    )


def _peers(m: int, rounds: int) -> list[Row]:
    """The kernels of a few new beliefs, by understudy and by the peers in turns."""
    beliefs = source(m)
    odds = np.random.default_rng([m, 1]).dirichlet(np.ones(m), size=10)
    ours = f"m = n = {m}: the kernel alone, understudy"
    ways: dict[str, Callable[..., np.ndarray]] = {"Blahut-Arimoto in numpy": blahut}
    if find_spec("cvxpy") and find_spec("clarabel"):
        ways["Clarabel through CVXPY"] = clarabel
        clarabel(beliefs.cost, odds[0], beliefs.slope)  # imports are not the peer's speed
    contenders = [Contender(ours, partial(_fresh, beliefs, odds.tolist(), 20), len(odds), None, 20)]
    for name, way in ways.items():
        work = partial(_each, way, beliefs.cost, odds, beliefs.slope)
        contenders.append(Contender(f"m = n = {m}: the kernel alone, {name}", work, len(odds), 2))
    timings = race(contenders, rounds, process_time)
    mine = timings.pop(ours)
    least = [_value(beliefs, b, P) for b, P in zip(odds, mine.output, strict=True)]
    rows = [row(mine)]
    for timing in timings.values():
        values = [_value(beliefs, b, P) for b, P in zip(odds, timing.output, strict=True)]
        apart = max((a - b for a, b in zip(values, least, strict=True)), key=abs)
        failure = "" if abs(apart) <= APART else "outputs differ"
        rows.append(row(timing, timing.best / mine.best, compared=f"{apart:+.0e}", failure=failure))
    if "Clarabel through CVXPY" not in ways:
        rows.append(Row(f"m = n = {m}: the kernel alone, Clarabel through CVXPY", "", "not installed", ""))
    return rows


def _fresh(beliefs: Beliefs, odds: list[list[float]], calls: int) -> list[np.ndarray]:
    """Kernels of beliefs as if they had not been met before."""
    for _ in range(calls):
        beliefs._kept.clear()
        found = [beliefs.kernel(b) for b in odds]
    return found


def _each(way: Callable[..., np.ndarray], cost: np.ndarray, odds: np.ndarray, slope: float) -> list[np.ndarray]:
    return [way(cost, b, slope) for b in odds]


def _value(beliefs: Beliefs, b: np.ndarray, P: np.ndarray) -> float:
    return mutual_information(P, b) + beliefs.slope * float((b[:, None] * P * beliefs.cost).sum())


def blahut(cost: np.ndarray, p: np.ndarray, slope: float) -> np.ndarray:
    """Sweeps q_j <- q_j c_j until ln max c, by which the kernel misses the optimum at most, is proven small."""
    E = np.exp(-slope * cost)
    q = np.full(cost.shape[1], 1.0 / cost.shape[1])
    for _ in range(SWEEPS):
        z = E @ q
        c = (p / z) @ E
        if c.max() <= 1.0 + GAP:
            return np.asarray(q * E / z[:, None])
        q = q * c
    raise RuntimeError(f"gap {GAP:g} not reached in {SWEEPS:,} sweeps")


def clarabel(cost: np.ndarray, p: np.ndarray, slope: float) -> np.ndarray:
    """The least sum rel_entr(J_ij, p_i r_j) + slope sum J L: built, compiled and solved."""
    import cvxpy as cp

    J, r = cp.Variable(cost.shape), cp.Variable(cost.shape[1])
    told: Any = cp.sum(cp.rel_entr(J, cp.outer(p, r)))
    cp.Problem(
        cp.Minimize(told + slope * cp.sum(cp.multiply(cost, J))),
        [cp.sum(J, axis=1) == p, cp.sum(J, axis=0) == r],
    ).solve(solver="CLARABEL")
    kernel = np.clip(J.value, 0.0, None)
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))
