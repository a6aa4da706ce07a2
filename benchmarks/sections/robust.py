"""Budgets over a hull of priors and over a clock, and pseudo values from an interval: against solvers and grids."""

from __future__ import annotations

import statistics
from functools import partial
from importlib.util import find_spec
from time import process_time
from typing import Any, NamedTuple

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, duration, race
from benchmarks.peers import conic_hull
from understudy.randomizer.priors import solve_conditional, solve_robust, worst_prior
from understudy.randomizer.pseudo import optimise_pseudo

SOLVERS = {"Clarabel": "clarabel", "ECOS": "ecos"}  # name -> package
APART = 1e-3  # a peer that calls its answer optimal and is further off than this did another job
GAP = Required(1e-9, at_most=True)


class Case(NamedTuple):
    """A problem: costs, corners of the odds, a budget."""

    name: str
    cost: np.ndarray
    priors: np.ndarray
    leakage: float


def cases(quick: bool) -> list[Case]:
    """The paper's room between two odds, a line with three, random costs with four."""
    theta, pseudo = np.array([0.0, 1.0]), np.linspace(0, 1, 6)
    room = Case(
        "2 x 6, the paper's room, 2 priors",
        129.848 * np.abs(theta[:, None] - pseudo),
        np.array([[0.9, 0.1], [0.2, 0.8]]),
        0.2,
    )
    found = [room]
    for n, K in ((8, 3), (16, 4)) if quick else ((8, 3), (16, 4), (32, 4)):
        rng = np.random.default_rng([n, K])
        x = np.linspace(0, 1, n)
        odds = rng.dirichlet(np.ones(n), size=K)
        found.append(Case(f"{n} x {n}, squared error, {K} priors", (x[:, None] - x) ** 2, odds, 0.5))
        found.append(Case(f"{n} x {n}, random costs, {K} priors", rng.random((n, n)), odds, 0.5))
    return found


def run(quick: bool) -> Section:
    """A quick run leaves out the largest."""
    rows: list[Row] = []
    for case in cases(quick):
        rows += _hull(case, quick)
    rows += _clock(quick)
    rows += _values(quick)
    return Section(
        "Odds that are not known, a public clock, and pseudo values from an interval",
        "speed: peer's time / understudy's time; in a row of understudy's own, its proven gap relative to D - D_min, "
        "or what the row says",
        rows,
        [
            "CPU time of a whole call; understudy is called without any tolerance. *Hull*: the least cost at the mean "
            "of the priors with the leakage within the budget at every mixture of them. CVXPY solves it by cutting "
            "planes: the budget at the corners, then at the worst odds of the kernel found, round after round, until "
            "it is within 1e-6 of the budget. Finding those odds is not counted against the peer. *Given the worst "
            "odds*: it is told them beforehand, and solves one problem of finitely many priors.",
            "*Outputs apart* of a peer: its distortion less understudy's, relative to D - D_min, and its leakage at "
            "the worst odds over the budget, I / I_0 - 1. A kernel that overspends may cost less than the optimum.",
            "*Clock*: 24 hours, a kernel each, one budget for the mean; the proof is the sum of tangents at one slope.",
            "*Pseudo values*: the paper's room, squared error, 0.3 nats. The ratio is the distortion over that of the "
            "best kernel on 201 values at equal distances; required is that it is no larger.",
        ],
    )


def _hull(case: Case, quick: bool) -> list[Row]:
    ours = _ours(f"hull, {case.name}: understudy", partial(solve_robust, case.cost, case.priors, leakage=case.leakage))
    timing = race([ours], 3, process_time)[ours.name]
    found = timing.output
    least = float(case.priors.mean(axis=0) @ case.cost.min(axis=1))
    excess = found.distortion - least
    rows = [
        Row(
            f"{ours.name} ({found.status}, {found.iterations} steps), gap",
            f"{ours.calls:,}",
            duration(timing.best),
            duration(timing.median),
            found.gap / excess,
            GAP,
            compared=f"I {found.worst_leakage / case.leakage - 1:+.0e}",
            failure="budget overspent" if found.worst_leakage > case.leakage else "",
        )
    ]
    for name, package in SOLVERS.items():
        if find_spec("cvxpy") is None or find_spec(package) is None:
            rows.append(Row(f"hull, {case.name}: {name} through CVXPY", "", "not installed", ""))
            continue
        conic_hull.finite(1 - np.eye(2), np.full(2, 0.5), np.full((1, 2), 0.5), 0.2, name.upper())  # imports
        rows.append(_given(case, name, found, excess, timing.best))
        if len(case.cost) > 16:
            continue
        turns = 1 if quick or case.cost.size > 100 else 3
        answers = [conic_hull.cutting(case.cost, case.priors, case.leakage, name.upper()) for _ in range(turns)]
        last, times = answers[-1], [answer.seconds for answer in answers]
        off = (last.distortion - found.distortion) / excess
        rows.append(
            Row(
                f"hull, {case.name}: {name} through CVXPY, {last.rounds} rounds ({last.status})",
                "1",
                duration(min(times)),
                duration(statistics.median(times)),
                min(times) / timing.best,
                None,
                compared=f"D {off:+.0e}, I {last.leakage / case.leakage - 1:+.0e}" if np.isfinite(off) else "no answer",
                failure="outputs differ" if last.status == "optimal" and not abs(off) <= APART else "",
            )
        )
    return rows


def _given(case: Case, name: str, found: Any, excess: float, best: float) -> Row:
    """One problem of finitely many priors: the peer is told the worst odds beforehand."""
    weights, odds = case.priors.mean(axis=0), np.concatenate((case.priors, found.worst_prior[None, :]))
    kernel, status, seconds = conic_hull.finite(case.cost, weights, odds, case.leakage, name.upper())
    distortion = float((weights[:, None] * kernel * case.cost).sum())
    off = (distortion - found.distortion) / excess
    told = worst_prior(kernel, case.priors).upper / case.leakage - 1 if np.isfinite(off) else np.nan
    return Row(
        f"hull, {case.name}: {name} through CVXPY, once, given the worst odds ({status})",
        "1",
        duration(seconds),
        duration(seconds),
        seconds / best,
        None,
        compared=f"D {off:+.0e}, I {told:+.0e}" if np.isfinite(off) else "no answer",
        failure="outputs differ" if status == "optimal" and not abs(off) <= APART else "",
    )


def _clock(quick: bool) -> list[Row]:
    """Sixteen values of a line, 24 hours."""
    rng, x = np.random.default_rng(24), np.linspace(0, 1, 16)
    priors = dict(enumerate(rng.dirichlet(np.full(16, 0.5), size=24)))
    cost = (x[:, None] - x) ** 2
    ours = _ours("clock, 24 hours, 16 x 16: understudy", partial(solve_conditional, cost, priors, leakage=0.5))
    timing = race([ours], 2 if quick else 3, process_time)[ours.name]
    found = timing.output
    return [
        Row(
            f"{ours.name} ({found.status}), gap",
            f"{ours.calls:,}",
            duration(timing.best),
            duration(timing.median),
            found.gap / found.distortion,
            GAP,
            compared=f"I {found.leakage / found.budget - 1:+.0e}",
        )
    ]


def _room(occupants: float) -> us.GaussMarkov:
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)


def _values(quick: bool) -> list[Row]:
    """The paper's room, squared error: two values found, against a fine grid and a coarse one."""
    family = us.Family(_room, values=[0, 1], prior=[0.5, 0.5])
    search = partial(optimise_pseudo, family, n=2, leakage=0.3, horizon=50, distortion="mse")
    grid = partial(us.design, family, np.linspace(0, 1, 201).tolist(), leakage=0.3, horizon=50, distortion="mse")
    ours = Contender("pseudo values, the paper's room: understudy, 2 values", search, 1)
    fine = Contender("pseudo values, the paper's room: a grid of 201", grid, 1)
    timings = race([ours, fine], 2 if quick else 3, process_time)
    found, reference = timings[ours.name].output, timings[fine.name].output
    rows = []
    for timing, value, asked in (
        (timings[ours.name], found.distortion / reference.distortion, Required(1.0, at_most=True)),
        (timings[fine.name], 1.0, None),
    ):
        name, beside = timing.contender.name, f"D {timing.output.distortion:.6g}"
        rows.append(Row(name, "1", duration(timing.best), duration(timing.median), value, asked, compared=beside))
    return rows


def _ours(name: str, work: Any) -> Contender:
    """understudy, called often enough to fill about 10 ms a round."""
    work()
    start = process_time()
    work()
    calls = int(min(1000, max(1, 0.01 / max(process_time() - start, 1e-6))))
    return Contender(name, partial(_several, work, calls), 1, None, calls)


def _several(work: Any, calls: int) -> Any:
    for _ in range(calls):
        found = work()
    return found
