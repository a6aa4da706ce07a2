"""A fuzz of designs with constraints: `python benchmarks/fuzz_constraints.py --cases 2000 --seed 0`.

Random costs, priors, demands and combinations of constraints are solved, and each answer is looked at another way than
the solver's (`tests/constraint_cases.py`): the kernel, every constraint in whole fractions, the budget in 50 digits,
the figures, the status. Every tenth case is given to CVXPY too, which must agree with the bounds, and with refusals. A
table by the kind of the first constraint is printed. Ends with status 1 if anything is wrong with any answer, or if
fewer than 98 percent of those without `Multiples` are proven optimal.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from constraint_cases import Verdict, cases, disagreement, look  # noqa: E402 - found by the line above

from understudy.randomizer.constraints import KINDS  # noqa: E402 - as above

ENOUGH = 0.98
EVERY = 10  # cases, one of which CVXPY solves too
COLUMNS = {
    "cases": 7,
    "refused": 9,
    "optimal": 9,
    "invalid": 9,
    "broken": 8,
    "overspent": 11,
    "other": 7,
    "worst gap": 11,
    "CVXPY": 7,
    "median": 9,
    "most": 8,
}
HEAD = f"{'constraint':18}" + "".join(f"{name:>{width}}" for name, width in COLUMNS.items())


@dataclass
class Row:
    """What one kind of constraint came to."""

    cases: int = 0
    refused: int = 0
    optimal: int = 0
    invalid: int = 0
    broken: int = 0
    overspent: int = 0
    other: int = 0
    compared: int = 0
    gap: float = 0.0
    seconds: list[float] = field(default_factory=list)

    def count(self, verdict: Verdict, seconds: float) -> None:
        """Add one answer; the gap is the largest of those without `Multiples`."""
        self.cases += 1
        self.refused += verdict.refused
        self.optimal += verdict.optimal
        self.invalid += "invalid kernel" in verdict.wrong
        self.broken += any(word.endswith("broken") for word in verdict.wrong)
        self.overspent += "overspent" in verdict.wrong
        known = ("invalid kernel", "overspent")
        self.other += any(word not in known and not word.endswith("broken") for word in verdict.wrong)
        self.gap = max(self.gap, verdict.gap)
        self.seconds.append(seconds)

    def line(self, name: str) -> str:
        """A line of the table; the times are those of a whole call."""
        answered = max(1, self.cases - self.refused)
        times = sorted(self.seconds)
        return (
            f"{name:18}{self.cases:7}{self.refused:9}{100.0 * self.optimal / answered:8.2f}%{self.invalid:9}"
            f"{self.broken:8}{self.overspent:11}{self.other:7}{self.gap:11.1e}{self.compared:7}"
            f"{1e3 * times[len(times) // 2]:6.0f} ms{1e3 * times[-1]:5.0f} ms"
        )


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzz and print its table."""
    parser = argparse.ArgumentParser(description="Fuzz of designs with constraints.")
    parser.add_argument("--cases", type=int, default=2_000, help="how many problems")
    parser.add_argument("--seed", type=int, default=0, help="of the generators")
    parser.add_argument("--most", type=int, default=8, help="rows or columns")
    options = parser.parse_args(arguments)
    table: dict[str, Row] = {name: Row() for name in KINDS}
    whole = Row()
    start = time.perf_counter()
    for k, case in enumerate(cases(options.seed, options.cases, options.most)):
        before = time.process_time()
        verdict, design = look(case)
        spent = time.process_time() - before
        wrong = [*verdict.wrong]
        if k % EVERY == 0:
            wrong += _compared(case, verdict, design)
            for row in (table[case.family], whole):
                row.compared += 1
        verdict = verdict._replace(wrong=wrong)
        table[case.family].count(verdict, spent)
        if case.family != "multiples":
            whole.count(verdict, spent)
        if wrong:
            print(f"case {k} of seed {options.seed} ({case.family}, {case.cost.shape}): {', '.join(wrong)}")
    print(HEAD)
    for name, row in table.items():
        if row.cases:
            print(row.line(name))
    print(whole.line("all but multiples"))
    print(f"{time.perf_counter() - start:.0f} s")
    rows = table.values()
    bad = sum(row.invalid + row.broken + row.overspent + row.other for row in rows)
    return int(bad > 0 or whole.optimal < ENOUGH * (whole.cases - whole.refused))


def _compared(case: Any, verdict: Verdict, design: Any) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "solution may be inaccurate": such an answer is not used
        apart = disagreement(case, verdict, design)
    return [] if math.isnan(apart) or apart == 0.0 else ["CVXPY disagrees"]


if __name__ == "__main__":
    sys.exit(main())
