"""The optimal randomizer for a budget: against conic solvers through CVXPY, and against Blahut-Arimoto."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from time import process_time
from typing import Any, NamedTuple

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, Timing, duration, race, row
from benchmarks.peers import blahut, conic
from understudy.randomizer.solver import bounds_of, minimise_at

SOLVERS = {"Clarabel": "clarabel", "ECOS": "ecos"}  # name -> package
GAP = Required(1e-9, at_most=True)  # relative to D - D_min
APART = 1e-3  # a peer that calls its answer optimal and is further off than this did another job
LIMIT = 300.0  # seconds that Clarabel is given at n = 512
BA_GAP = 1e-6  # of Blahut-Arimoto, relative to D
LOOSE = 3e-7  # how far Blahut-Arimoto's slope may be off before it is corrected; the quickest of those tried


class Case(NamedTuple):
    """A problem: costs, prior and budget."""

    name: str
    cost: np.ndarray
    prior: np.ndarray
    leakage: float

    @property
    def least(self) -> float:
        """D_min, the distortion without any budget."""
        return float(self.prior @ self.cost.min(axis=1))


def room() -> Case:
    """The paper's room, T = 50: |theta - ~theta| times the mean over k of 10 (1 - .95^k) / .05."""
    theta, pseudo = np.array([0.0, 1.0]), np.linspace(0, 1, 6)
    scale = np.mean(10 * (1 - 0.95 ** np.arange(1, 51)) / 0.05)
    return Case("2 x 6, the paper's room", scale * np.abs(theta[:, None] - pseudo), np.full(2, 0.5), 0.3)


def squared(n: int) -> Case:
    """Squared error on a grid of the unit interval, uniform prior, one nat."""
    x = np.linspace(0, 1, n)
    return Case(f"{n} x {n}, squared error", (x[:, None] - x) ** 2, np.full(n, 1 / n), 1.0)


def scattered(n: int) -> Case:
    """Independent uniform costs and no structure at all, uniform prior, one nat."""
    cost = np.random.default_rng(n).uniform(size=(n, n))
    return Case(f"{n} x {n}, random costs", cost, np.full(n, 1 / n), 1.0)


def run(quick: bool) -> Section:
    """A quick run leaves out what takes the peers more than a few seconds."""
    rows: list[Row] = []
    rows += _against_conic(room(), Required(300), quick)
    for n in (16, 64) if quick else (16, 64, 128, 256):
        for family in (squared, scattered):
            rows += _against_conic(family(n), Required(100), quick)
    for family in (squared, scattered):
        rows += _large(family(512), quick)
    rows += _largest(squared(1024 if quick else 4096), quick)
    rows += _against_blahut(squared(64), quick)
    return Section(
        "The optimal randomizer for a budget",
        "speed: peer's time / understudy's time; in a row of understudy's own, its proven gap relative to D - D_min "
        "(D_min: the distortion without a budget) or what the row says",
        rows,
        [
            "CPU time of a whole call; samples are calls a round. All contenders get the same matrix, a uniform prior "
            "and a budget of 1 nat (the room: 0.3). understudy is called without any tolerance throughout.",
            "CVXPY with the joint law and the output marginal as variables, solvers at their default tolerances. "
            "*Whole call*: building the problem, CVXPY's compilation, the solver, reading the answer back; the "
            "required ratio is held against this one, for the faster of the two solvers, as it is what a user of CVXPY "
            "waits for. *Solver alone*: the CPU time inside the solver, for readers who would compile once.",
            "*Outputs apart* of a conic solver, after clipping negatives and normalising: its distortion less "
            "understudy's, relative to D - D_min, and its leakage over the budget, I / I_0 - 1. A kernel that "
            "overspends may have a distortion below the optimum. The status in brackets is the solver's own word.",
            f"Blahut-Arimoto runs until its gap is proven to be at most {BA_GAP:g} of D, looking every "
            f"{blahut.CHECK} sweeps; its outputs apart are its distortion less understudy's, relative, and that gap. "
            "*Slope found each sweep*: Newton until KL_q(beta) is within 1e-8 of the budget. *Slope corrected when "
            f"off* lets it be off by {LOOSE:g}, which saves most exponentials.",
            "Given the slope means given the optimal one, which the peers do not look for: they have no budget. Their "
            "ratio is to understudy's own solver for a given slope (`minimise_at`; the randomizer for a parameter "
            "that moves has the same). *x understudy.solve* tells how many times as long they take as the call that "
            "looks for the slope too. qif is given the loosest tolerance that reaches the gap, found beforehand and "
            "not timed (its default, 1e-7, stops at a gap of 2.4e-6). dit's own stopping rule ends it early, with the "
            "gap that its row shows; for the required row it is kept going (a constant is added to all costs in every "
            "other sweep, which changes no kernel) for the number of sweeps that numpy needs from the same start.",
        ],
    )


def _solve(case: Case, calls: int = 1) -> Any:
    for _ in range(calls):
        found = us.solve(case.cost, prior=case.prior, leakage=case.leakage)
    return found


def _given(case: Case, slope: float, calls: int = 1) -> Any:
    for _ in range(calls):
        found = minimise_at(case.cost, case.prior, slope)
    return found


def _relative(case: Case, found: Any, value: float) -> float:
    """A difference of distortions, relative to D - D_min."""
    return value / (found.distortion - case.least)


def _ours(case: Case, rounds: int | None = None) -> Contender:
    """understudy, called often enough to fill about 10 ms a round, as long as the smallest call of a conic solver."""
    _solve(case)
    start = process_time()
    _solve(case)
    calls = int(min(1000, max(1, 0.01 / max(process_time() - start, 1e-6))))
    return Contender(f"{case.name}: understudy.solve", partial(_solve, case, calls), 1, rounds, calls)


def _own(case: Case, timing: Timing, gap: Required = GAP) -> Row:
    """The line of understudy: its time, and its gap as the ratio."""
    found = timing.output
    return Row(
        f"{timing.contender.name} ({found.status}, {found.iterations} steps), gap",
        f"{timing.contender.calls:,}",
        duration(timing.best),
        duration(timing.median),
        _relative(case, found, found.gap),
        gap,
        compared=_over(found.leakage, case),
        failure="budget overspent" if found.leakage > case.leakage else "",
    )


def _own_given(case: Case, timing: Timing) -> Row:
    """The same for a given slope; the proof is one for the leakage that its kernel has."""
    found = timing.output
    upper, lower = bounds_of(found)
    return Row(
        f"{timing.contender.name} ({'optimal' if found.optimal else 'inexact'}, {found.iterations} steps), gap",
        f"{timing.contender.calls:,}",
        duration(timing.best),
        duration(timing.median),
        (upper - lower) / (upper - case.least),
        GAP,
        compared=_over(found.leakage, case),
    )


def _over(leakage: float, case: Case) -> str:
    return f"I {leakage / case.leakage - 1:+.0e}"


def _keeping(work: Callable[[], conic.Answer], answers: list[conic.Answer]) -> conic.Answer:
    answers.append(work())
    return answers[-1]


def _against_conic(case: Case, required: Required, quick: bool) -> list[Row]:
    entries = case.cost.size
    rounds = 2 if quick else 3 if entries >= 128**2 else 10
    ours = _ours(case)
    contenders, answers, missing = [ours], {}, []
    for name, package in SOLVERS.items():
        if find_spec("cvxpy") is None or find_spec(package) is None:
            missing.append(Row(f"{case.name}: {name} through CVXPY", "", "not installed", ""))
            continue
        conic.solve(1 - np.eye(2), np.full(2, 0.5), 0.2, name.upper())  # imports are not the peer's speed
        answers[name] = []
        work = partial(conic.solve, case.cost, case.prior, case.leakage, name.upper())
        peer_rounds = 2 if entries >= 256**2 else None
        contenders.append(Contender(name, partial(_keeping, work, answers[name]), 1, peer_rounds))
    timings = race(contenders, rounds, process_time)
    best = timings[ours.name].best
    answered = [name for name, kept in answers.items() if np.isfinite(kept[-1].distortion)]
    faster = min(answered, key=lambda name: timings[name].best, default=None)
    rows = [_own(case, timings[ours.name])]
    for name, kept in answers.items():
        rows += _conic_rows(case, name, kept, timings[ours.name].output, best, required if name == faster else None)
    return rows + missing


def _conic_rows(
    case: Case, name: str, answers: list[conic.Answer], found: Any, best: float, required: Required | None
) -> list[Row]:
    """The whole call, held against the requirement, and the solver alone."""
    last = answers[-1]
    off = _relative(case, found, last.distortion - found.distortion)
    compared = {
        "compared": f"D {off:+.0e}, {_over(last.leakage, case)}" if np.isfinite(off) else "no answer",
        "failure": "outputs differ" if last.status == "optimal" and not abs(off) <= APART else "",
    }
    rows = []
    for part, times, asked in (
        ("whole call", [a.whole_seconds for a in answers], required),
        ("solver alone", [a.solver_seconds for a in answers], None),
    ):
        contender = f"{case.name}: {name}, {part} ({last.status})"
        times_text = duration(min(times)), duration(statistics.median(times))
        rows.append(Row(contender, "1", *times_text, min(times) / best, asked, **compared))
    return rows


def _large(case: Case, quick: bool) -> list[Row]:
    """At n = 512: understudy within half a second, and Clarabel, once, for as long as it is given."""
    timing = race([_ours(case)], 3, process_time)[f"{case.name}: understudy.solve"]
    rows = [
        _own(case, timing),
        Row(
            f"{case.name}: understudy.solve, seconds",
            f"{timing.contender.calls:,}",
            duration(timing.best),
            duration(timing.median),
            timing.best,
            Required(0.5, at_most=True),
        ),
    ]
    name = f"{case.name}: Clarabel, once"
    if find_spec("cvxpy") is None or find_spec("clarabel") is None:
        return [*rows, Row(name, "", "not installed", "")]
    if quick or "random" in case.name:
        return [*rows, Row(name, "", "not run", "")]
    answer = conic.solve(case.cost, case.prior, case.leakage, "CLARABEL", time_limit=LIMIT)
    return rows + _conic_rows(case, "Clarabel, once", [answer], timing.output, timing.best, None)


def _largest(case: Case, quick: bool) -> list[Row]:
    """At n = 4096: no peer; time and gap."""
    timing = race([Contender(f"{case.name}: understudy.solve", partial(_solve, case), 1)], 2, process_time)
    return [_own(case, *timing.values(), Required(1e-6, at_most=True))]


def _against_blahut(case: Case, quick: bool) -> list[Row]:
    L, p = case.cost, case.prior
    sweeping = blahut.constrained(L, p, case.leakage, BA_GAP)
    beta = sweeping.beta
    given = blahut.given_slope(L, p, beta, BA_GAP)
    ours = _ours(case)
    tuned = Contender(f"{case.name}: understudy, given the slope", partial(_given, case, beta, 100), 1, None, 100)
    each = f"{case.name}: Blahut-Arimoto in numpy, slope found each sweep ({sweeping.sweeps:,} sweeps)"
    loose = f"{case.name}: Blahut-Arimoto in numpy, slope corrected when off"
    plain = f"{case.name}: Blahut-Arimoto in numpy, given the slope ({given.sweeps:,} sweeps)"
    dit = f"{case.name}: dit, given the slope, {given.sweeps:,} sweeps"
    early = f"{case.name}: dit, given the slope, its own stopping rule"
    qif = f"{case.name}: qif, given the slope"
    required = {each: Required(1000), dit: Required(1000), qif: Required(1000)}
    rounds = 1 if quick else 3
    contenders = [
        ours,
        tuned,
        Contender(each, partial(blahut.constrained, L, p, case.leakage, BA_GAP), 1, rounds),
        Contender(loose, partial(blahut.constrained, L, p, case.leakage, BA_GAP, LOOSE), 1, rounds),
        Contender(plain, partial(blahut.given_slope, L, p, beta, BA_GAP), 1, rounds),
    ]
    missing = []
    if find_spec("dit"):
        blahut.dit_as_it_is(L, p, beta)  # imports
        contenders.append(Contender(dit, partial(blahut.dit, L, p, beta, given.sweeps), 1, rounds))
        contenders.append(Contender(early, partial(blahut.dit_as_it_is, L, p, beta), 1))
    else:
        missing.append(Row(dit, "", "not installed", ""))
    if find_spec("qif"):
        blahut.qif(L, p, beta, 1e-3)  # imports
        contenders.append(Contender(qif, partial(blahut.qif, L, p, beta, given.change), 1, rounds))
    else:
        missing.append(Row(qif, "", "not installed", ""))
    timings = race(contenders, 3 if quick else 10, process_time)
    mine, quick = timings.pop(ours.name), timings.pop(tuned.name)
    rows = [_own(case, mine), _own_given(case, quick)]
    for name, timing in timings.items():
        alike = name in (each, loose)  # these look for the slope, as understudy.solve does
        point = timing.output
        if not isinstance(point, blahut.Answer):
            point = blahut.certified(L, p, point, beta)
        off = point.distortion / mine.output.distortion - 1
        failure = ""
        if name != early and not (abs(off) <= 1e-4 and point.gap <= 1.01 * BA_GAP):
            failure = "outputs differ"
        beside = "" if alike else f", {timing.best / mine.best:,.3g} x understudy.solve"
        rows.append(
            row(
                timing,
                timing.best / (mine if alike else quick).best,
                required=required.get(name),
                compared=f"D {off:+.0e}, gap {point.gap:.1e}{beside}",
                failure=failure,
            )
        )
    return rows + missing
