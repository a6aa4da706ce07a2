"""A fuzz of the randomizer problem: `python benchmarks/fuzz.py --cases 20000 --seed 0`.

Random problems from many families are solved, and each answer is looked at another way than the solver's
(`tests/randomizer_cases.py`): the kernel, the budget in 50 digits, the proof done again, the status. A table by
family is printed. Ends with status 1 if anything is wrong with any answer, or if fewer than 99.5 percent are
proven optimal.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from randomizer_cases import FAMILIES, Verdict, cases, look  # noqa: E402 - found by the line above

ENOUGH = 0.995
COLUMNS = {
    "cases": 7,
    "optimal": 9,
    "invalid": 9,
    "overspent": 11,
    "other": 7,
    "worst gap": 11,
    "of allowed": 12,
    "steps": 9,
}
HEAD = f"{'family':14}" + "".join(f"{name:>{width}}" for name, width in COLUMNS.items())


@dataclass
class Row:
    """What one family came to."""

    cases: int = 0
    optimal: int = 0
    invalid: int = 0
    overspent: int = 0
    other: int = 0
    gap: float = 0.0
    of_allowed: float = 0.0
    steps: list[int] = field(default_factory=list)

    def count(self, verdict: Verdict) -> None:
        """Add one answer; gaps are those of answers that say they are optimal."""
        self.cases += 1
        self.optimal += verdict.optimal
        self.invalid += "invalid kernel" in verdict.wrong
        self.overspent += "overspent" in verdict.wrong
        self.other += bool({*verdict.wrong} - {"invalid kernel", "overspent"})
        if verdict.optimal:
            self.gap, self.of_allowed = max(self.gap, verdict.gap), max(self.of_allowed, verdict.of_allowed)
        self.steps.append(verdict.steps)

    def line(self, name: str) -> str:
        """A line of the table; steps are the median and the most."""
        steps = f"{sorted(self.steps)[len(self.steps) // 2]}/{max(self.steps)}"
        return (
            f"{name:14}{self.cases:7}{100.0 * self.optimal / self.cases:8.2f}%{self.invalid:9}{self.overspent:11}"
            f"{self.other:7}{self.gap:11.1e}{self.of_allowed:12.2f}{steps:>9}"
        )


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzz and print its table."""
    parser = argparse.ArgumentParser(description="Fuzz of the randomizer problem.")
    parser.add_argument("--cases", type=int, default=20_000, help="how many problems")
    parser.add_argument("--seed", type=int, default=0, help="of the generators")
    options = parser.parse_args(arguments)
    table: dict[str, Row] = {name: Row() for name in FAMILIES}
    whole = Row()
    start = time.perf_counter()
    for k, case in enumerate(cases(options.seed, options.cases)):
        verdict = look(case)
        table[case.family].count(verdict)
        whole.count(verdict)
        if verdict.wrong:
            print(f"case {k} of seed {options.seed} ({case.family}, {case.cost.shape}): {', '.join(verdict.wrong)}")
    print(HEAD)
    for name, row in table.items():
        if row.cases:
            print(row.line(name))
    print(whole.line("all"))
    print(f"{time.perf_counter() - start:.0f} s")
    wrong = whole.invalid + whole.overspent + whole.other
    return int(wrong > 0 or whole.optimal < ENOUGH * whole.cases)


if __name__ == "__main__":
    sys.exit(main())
