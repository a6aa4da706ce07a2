"""A room with up to four people, and how often a stranger may know how many.

    python examples/occupancy.py               prints the card and writes occupancy.svg
    python examples/occupancy.py curve.png     writes the figure there

The occupancy, 0 to 4, is the private parameter. Each person raises the CO2 level and makes it less steady, so
the noise grows with the occupancy too, and averaging is not the only way to find it out. The design may
give away 40 percent of what there is to know. Needs matplotlib (the extra `plot`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

import understudy as us

mpl.use("Agg")  # files only, no window
from matplotlib import pyplot as plt

PEOPLE = range(5)
ODDS = [0.35, 0.25, 0.20, 0.12, 0.08]  # how often the room has 0, 1, ... 4 people
BETWEEN = [k / 2 for k in range(9)]  # understudies: whole people, and halves
DAY = 96  # readings a quarter of an hour apart


def room(people: float) -> us.GaussMarkov:
    """CO2 in ppm: it rests at 400 and 60 a person above; both noises grow with the people."""
    return us.GaussMarkov(
        A=0.9, C=1.0, Q=9.0 * (1.0 + people), R=4.0 * (1.0 + people), b=40.0 + 6.0 * people, mean0=400.0, cov0=100.0
    )


def main(path: Path) -> None:
    """Design, print, draw."""
    family = us.Family(room, values=PEOPLE, prior=ODDS)
    choices = {"pseudo": BETWEEN, "horizon": DAY, "distortion": "mae"}
    design = us.design(family, leakage="40%", **choices)
    print(f"{design}\n\n{design.guarantee}")

    curve = us.frontier(family, **choices)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.2), layout="constrained")
    us.report.plot_frontier(curve, left)
    left.plot(design.leakage, design.distortion, "o", color="black", ms=6, zorder=4)
    left.annotate("this design", (design.leakage, design.distortion), (8, 8), textcoords="offset points")
    us.report.plot_kernel(design, right)
    figure.savefig(path, dpi=150)
    print(f"Figure written to {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "occupancy.svg"))
