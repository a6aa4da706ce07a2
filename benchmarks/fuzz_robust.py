"""A fuzz of budgets over a hull of priors: `python benchmarks/fuzz_robust.py --cases 2000 --seed 0`.

Random problems from many families, with corners near and far, are solved, and each answer is looked at another way
(`tests/robust_cases.py`): the kernel, the budget at odds drawn from the hull and in 50 digits at the worst of them, and
the cost against the ordinary problem there. Ends with status 1 if anything is wrong, or if fewer than 99 percent are
proven optimal.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import numpy as np  # noqa: E402 - found by the line above
from robust_cases import look, robust_cases  # noqa: E402 - as above

ENOUGH = 0.99


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzz and print a line for each family."""
    parser = argparse.ArgumentParser(description="Fuzz of budgets over a hull of priors.")
    parser.add_argument("--cases", type=int, default=2000, help="how many problems")
    parser.add_argument("--seed", type=int, default=0, help="of the generators")
    options = parser.parse_args(arguments)
    rng, start = np.random.default_rng(options.seed), time.perf_counter()
    count: Counter[str] = Counter()
    optimal: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    wrong, gap = 0, 0.0
    for k, case in enumerate(robust_cases(options.seed, options.cases)):
        verdict = look(case, rng, digits=1)
        count[case.family] += 1
        optimal[case.family] += verdict.optimal
        refused[case.family] += verdict.refused
        if verdict.optimal:
            gap = max(gap, verdict.gap)
        if verdict.wrong:
            wrong += 1
            print(f"case {k} of seed {options.seed} ({case.family}, {case.cost.shape}): {', '.join(verdict.wrong)}")
    print(f"{'family':14}{'cases':>7}{'optimal':>9}{'refused':>9}")
    for name, cases in count.items():
        print(f"{name:14}{cases:7}{100.0 * optimal[name] / cases:8.2f}%{refused[name]:9}")
    share = sum(optimal.values()) / options.cases
    print(f"all {options.cases}: {100.0 * share:.2f}% optimal, {wrong} wrong, largest gap {gap:.1e}")
    print(f"{time.perf_counter() - start:.0f} s")
    return int(wrong > 0 or share < ENOUGH)


if __name__ == "__main__":
    sys.exit(main())
