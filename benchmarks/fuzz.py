"""The long fuzz of the randomizer's solvers: `python benchmarks/fuzz.py` (all), or `--only constraints --cases 2000`.

Random problems from many families are solved, and each answer is looked at another way than the solver's. A line for
each family is printed. Ends with status 1 if anything is wrong with any answer, or too few are proven optimal.

bare         `us.solve` with a leakage (`randomizer_cases`): the kernel, the budget in 50 digits, the proof
             done again, the status
constraints  `us.solve` with constraints and any demand (`constraint_cases`): the kernel, every constraint in
             whole fractions, the budget in 50 digits, the figures, the status; every tenth by CVXPY too, which must
             agree with the bounds and with refusals
robust       a budget over a hull of priors (`robust_cases`): the kernel, the budget at odds drawn from the
             hull and in 50 digits at the worst of them, the cost against the ordinary problem there
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "support")]

import constraint_cases  # noqa: E402 - found by the line above
import numpy as np  # noqa: E402 - as above
import randomizer_cases  # noqa: E402 - as above
import robust_cases  # noqa: E402 - as above
from rich.progress import Progress  # noqa: E402 - as above

COMPARED = 10  # cases with constraints, one of which CVXPY solves too
PORTION = 50  # cases that a process takes at once
COLUMNS = ("cases", "refused", "optimal", "wrong", "worst gap", "median", "most")


class Outcome(NamedTuple):
    """What became of one case."""

    number: int
    family: str
    wrong: list[str]
    optimal: bool
    refused: bool
    gap: float
    seconds: float


class Kind(NamedTuple):
    """A sort of problem: its cases from one number to another, how one is looked at, and how many must be optimal."""

    cases: Callable[..., Iterable[Any]]
    look: Callable[[Any, int, int], Any]
    enough: float
    count: int


def _bare(case: Any, seed: int, k: int) -> Any:
    return randomizer_cases.look(case)


def _constraints(case: Any, seed: int, k: int) -> Any:
    verdict, design = constraint_cases.look(case)
    if k % COMPARED:
        return verdict
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "solution may be inaccurate": such an answer is not used
        apart = constraint_cases.disagreement(case, verdict, design)
    return verdict if math.isnan(apart) or apart == 0.0 else verdict._replace(wrong=[*verdict.wrong, "CVXPY disagrees"])


def _robust(case: Any, seed: int, k: int) -> Any:
    return robust_cases.look(case, np.random.default_rng([seed, k]), digits=1)


KINDS = {
    "bare": Kind(randomizer_cases.cases, _bare, 0.995, 20_000),
    "constraints": Kind(constraint_cases.cases, _constraints, 0.98, 20_000),
    "robust": Kind(robust_cases.robust_cases, _robust, 0.99, 20_000),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzz and print its tables."""
    parser = argparse.ArgumentParser(description="Fuzz of the randomizer's solvers.")
    parser.add_argument("--only", action="append", choices=list(KINDS), help="this sort alone (repeatable)")
    parser.add_argument("--cases", type=int, help="how many problems of each sort (20,000 by default)")
    parser.add_argument("--seed", type=int, default=0, help="of the generators")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args(arguments)
    return max(
        _fuzzed(name, options.cases or KINDS[name].count, options.seed, options.jobs) for name in options.only or KINDS
    )


def _fuzzed(name: str, count: int, seed: int, jobs: int) -> int:
    """One sort of problem; 1 if anything is wrong."""
    start, kind = time.perf_counter(), KINDS[name]
    table: dict[str, list[Outcome]] = {}
    for outcome in _outcomes(name, count, seed, jobs):
        table.setdefault(outcome.family, []).append(outcome)
        if outcome.wrong:
            print(f"case {outcome.number} of seed {seed} ({name}, {outcome.family}): {', '.join(outcome.wrong)}")
    print(f"{name:18}" + "".join(f"{head:>11}" for head in COLUMNS))
    for family, outcomes in sorted(table.items()):
        print(f"{family:18}{_line(outcomes)}")
    counted = [outcome for outcomes in table.values() for outcome in outcomes]
    print(f"{'all':18}{_line(counted)}")
    print(f"{time.perf_counter() - start:.0f} s with {jobs} processes\n", flush=True)
    answered = [outcome for outcome in counted if not outcome.refused]
    wrong = any(outcome.wrong for outcome in counted)
    return int(wrong or sum(outcome.optimal for outcome in answered) < kind.enough * len(answered))


def _outcomes(name: str, count: int, seed: int, jobs: int) -> Iterator[Outcome]:
    """All cases, in portions, as they are done."""
    portions = [(name, first, min(first + PORTION, count), seed) for first in range(0, count, PORTION)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool, Progress(transient=True) as bar:
        task = bar.add_task(name, total=count)
        for found in pool.imap_unordered(_portion, portions):
            bar.advance(task, len(found))
            yield from found


def _portion(what: tuple[str, int, int, int]) -> list[Outcome]:
    name, first, last, seed = what
    kind, found = KINDS[name], []
    for k, case in enumerate(kind.cases(seed, last, first=first), first):
        before = time.process_time()
        verdict = kind.look(case, seed, k)
        refused = getattr(verdict, "refused", False)
        found.append(
            Outcome(k, case.family, verdict.wrong, verdict.optimal, refused, verdict.gap, time.process_time() - before)
        )
    return found


def _line(outcomes: list[Outcome]) -> str:
    """A line of a table; gaps are those of what is said to be optimal, times those of a case with all its looks."""
    answered = [outcome for outcome in outcomes if not outcome.refused]
    optimal = 100.0 * sum(outcome.optimal for outcome in answered) / max(len(answered), 1)
    gap = max((outcome.gap for outcome in answered if outcome.optimal), default=0.0)
    times = sorted(1e3 * outcome.seconds for outcome in outcomes)
    return (
        f"{len(outcomes):11}{len(outcomes) - len(answered):11}{optimal:10.2f}%{sum(bool(o.wrong) for o in outcomes):11}"
        f"{gap:11.1e}{times[len(times) // 2]:8.0f} ms{times[-1]:8.0f} ms"
    )


if __name__ == "__main__":
    sys.exit(main())
