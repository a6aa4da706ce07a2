"""Designs with constraints: against CVXPY on the same problem, and against the linear programs of qif."""

from __future__ import annotations

import math
from functools import partial
from importlib.util import find_spec
from time import process_time
from typing import Any, NamedTuple

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, Timing, duration, race
from benchmarks.peers import constrained
from benchmarks.sections.randomizer import room, scattered, squared
from understudy.randomizer.constraints import (
    Constraint,
    ErrorAtLeast,
    Floor,
    LocalDP,
    MaximalLeakage,
    PointwiseLeakage,
    TotalVariation,
)

GAP = Required(1e-6, at_most=True)  # relative to the distortion
APART = 1e-4  # a peer whose distortion is further off than this did another job
SOLVERS = {"Clarabel": "clarabel", "HiGHS": "highspy"}  # name -> package
NATS = 0.1


class Case(NamedTuple):
    """A problem: costs, prior, one constraint, and a leakage if there is one."""

    name: str
    cost: np.ndarray
    prior: np.ndarray
    one: Constraint
    leakage: float = math.inf

    @property
    def asked(self) -> dict[str, Any]:
        """The keywords of `us.solve`."""
        budget = {} if self.leakage == math.inf else {"leakage": self.leakage}
        return {"constraints": [self.one], **budget}


def run(quick: bool) -> Section:
    """A quick run leaves out the larger sizes."""
    rows: list[Row] = []
    for case in _cases(quick):
        rows += _against(case, quick)
    return Section(
        "Designs with constraints",
        "speed: peer's time / understudy's time; in a row of understudy's own, its proven gap relative to D",
        rows,
        [
            "CPU time of a whole call. Uniform priors; costs as in the table of randomizers. Where a leakage is given "
            f"({NATS} nats), the problem is no linear program, and only Clarabel is left of the peers.",
            "understudy's answer keeps the constraint exactly, in whole numbers, and carries a proven bound; where "
            "several kernels cost the same, it is the one that tells least (peers give any of them). All of that is "
            "part of its time. *Outputs apart*: the peer's distortion over understudy's, less one, and by how much its "
            "kernel, as returned, breaks the constraint (epsilon, nats, or a probability).",
            "CVXPY with each rule as its documentation would have it written, solvers at their default tolerances; "
            "building the problem and compiling it included, as that is what a user waits for.",
            "qif has the Bayes vulnerability (the error), the same at equal odds (the maximal leakage) and local "
            "differential privacy with m (m - 1) n rows, each as a linear program for GLOP, without a proof.",
        ],
    )


def _cases(quick: bool) -> list[Case]:
    found = []
    paper = room()
    for one in (LocalDP(1.0), MaximalLeakage(0.3), ErrorAtLeast(0.3)):
        found.append(Case(f"{paper.name}: {_title(one)}", paper.cost, paper.prior, one))
    sizes = (16,) if quick else (16, 32)
    measures = (LocalDP(1.0), MaximalLeakage(0.5), PointwiseLeakage(0.5), ErrorAtLeast(0.5), Floor(0.01))
    for n in sizes:
        for family in (squared, scattered):
            base = family(n)
            for one in measures if family is squared else measures[:2]:
                found.append(Case(f"{base.name}: {_title(one)}", base.cost, base.prior, one))
            for one in measures[:3] if n == 16 else measures[:1]:
                title = f"{base.name}: {_title(one)}, {NATS} nats"
                found.append(Case(title, base.cost, base.prior, one, NATS))
    base = squared(16)
    one = TotalVariation(0.5)
    found.append(Case(f"{base.name}: {_title(one)}", base.cost, base.prior, one))
    if not quick:
        found.append(Case(f"{base.name}: {_title(one)}, {NATS} nats", base.cost, base.prior, one, NATS))
    return found


def _title(one: Constraint) -> str:
    return one.name.replace("_", " ").replace("dp", "DP")


def _solve(case: Case, calls: int = 1) -> us.Design:
    for _ in range(calls):
        found = us.solve(case.cost, prior=case.prior, **case.asked)
    return found


def _against(case: Case, quick: bool) -> list[Row]:
    _solve(case)
    start = process_time()
    _solve(case)
    calls = int(min(100, max(1, 0.02 / max(process_time() - start, 1e-6))))
    ours = Contender(f"{case.name}: understudy.solve", partial(_solve, case, calls), 1, None, calls)
    contenders, missing = [ours], []
    for name, package in SOLVERS.items():
        if name == "HiGHS" and case.leakage < math.inf:
            continue
        title = f"{case.name}: {name} through CVXPY"
        if find_spec("cvxpy") is None or find_spec(package) is None:
            missing.append(Row(title, "", "not installed", ""))
            continue
        work = partial(constrained.cvxpy, case.cost, case.prior, case.one, case.leakage, name.upper())
        work()  # imports are not the peer's speed
        slow = case.leakage < math.inf and case.cost.size > 16**2
        contenders.append(Contender(title, work, 1, 2 if slow else None))
    if case.one.name in constrained.QIF and case.leakage == math.inf:
        title = f"{case.name}: qif"
        if find_spec("qif") is None:
            missing.append(Row(title, "", "not installed", ""))
        else:
            work = partial(constrained.qif, case.cost, case.prior, case.one)
            work()
            contenders.append(Contender(title, work, 1))
    timings = race(contenders, 3 if quick else 7, process_time)
    mine = timings.pop(ours.name)
    return [_own(case, mine), *(_peer(case, timing, mine) for timing in timings.values()), *missing]


def _own(case: Case, timing: Timing) -> Row:
    found = timing.output
    kernel = found.randomizer.kernel
    kept = case.one.holds(case.prior, kernel) and found.leakage <= case.leakage
    return Row(
        f"{timing.contender.name} ({found.status}), gap",
        f"{timing.contender.calls:,}",
        duration(timing.best),
        duration(timing.median),
        found.gap / found.distortion,
        GAP,
        compared="kept exactly" if kept else "",
        failure="" if kept else "constraint broken",
    )


def _peer(case: Case, timing: Timing, mine: Timing) -> Row:
    P = np.asarray(timing.output)
    off = float(np.sum(case.prior[:, None] * P * case.cost)) / mine.output.distortion - 1.0
    return Row(
        timing.contender.name,
        "1",
        duration(timing.best),
        duration(timing.median),
        timing.best / mine.best,
        compared=f"D {off:+.0e}, {_broken(case, P):+.0e}" if np.isfinite(off) else "no optimal answer",
        failure="outputs differ" if abs(off) > APART else "",
    )


def _broken(case: Case, P: np.ndarray) -> float:
    """By how much a kernel is over the limit, in the units of the constraint."""
    one: Any = case.one
    with np.errstate(divide="ignore", invalid="ignore"):
        if one.name == "local_dp":
            drawn = P[:, P.max(axis=0) > 1e-6]  # columns that are noise of the solver are not held against it
            return float(np.log(drawn.max(axis=0) / drawn.min(axis=0)).max() - one.epsilon)
        if one.name == "maximal_leakage":
            return float(np.log(P.max(axis=0).sum()) - one.nats)
        if one.name == "pointwise_leakage":
            drawn = P[:, P.max(axis=0) > 1e-6]
            return float(np.log(drawn.max(axis=0) / (case.prior @ drawn)).max() - one.nats)
        if one.name == "total_variation":
            return max(0.5 * float(np.abs(P[i] - P[k]).sum()) for i in range(len(P)) for k in range(i)) - one.at_most
        if one.name == "error_at_least":
            return float(one.error - 1.0 + (case.prior[:, None] * P).max(axis=0).sum())
    return float(one.at_least - P.min())
