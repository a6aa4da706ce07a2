"""Recompute the table of the page on grids: `python docs/make_grids.py` rewrites it (half a minute)."""

from __future__ import annotations

import re
from pathlib import Path

import understudy as us
from understudy.models.quantised_residual import residual_table

PAGE = Path(__file__).with_name("grids.md")
RULES = {"moments": "moments", "kalman": "R + step²/12", "jitter": "jitter", "point-mass": "point mass"}


def table() -> str:
    """The divergence a reading, a row for each step."""
    room = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0, mean0=100.0, cov0=1.0)
    found = {(row.ratio, row.rule): row for row in residual_table(room, rules=tuple(RULES))}
    lines = [f"| step / sd | {' | '.join(RULES.values())} |", "|---:|" + "---:|" * len(RULES)]
    for ratio in sorted({ratio for ratio, _ in found}):
        cells = [f"{found[ratio, rule].kl:.1e}" for rule in RULES]
        lines.append(f"| {ratio:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Put the table between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    inside = re.compile(r"(<!-- table -->\n).*?(<!-- end of table -->)", re.DOTALL)
    PAGE.write_text(inside.sub(lambda m: f"{m[1]}{table()}\n{m[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
