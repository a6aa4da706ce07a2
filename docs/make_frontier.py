"""Draw the picture of the page on designs: a trade-off, and a randomizer.

    python docs/make_frontier.py                 writes docs/frontier.svg
    python docs/make_frontier.py out.svg out.png writes the files named

Left the paper's room with 0 or 1 people, right a room with 0 to 4 people whose noise grows with them, that of
examples/occupancy.py, at 40 percent of the entropy. Needs matplotlib (the extra `plot`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import understudy as us

# A middle tone: it has a contrast of 3 or more on white and on near-black.
INK = "#7d7d7d"


def room(occupants: float) -> us.GaussMarkov:
    """The paper's room."""
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)


def office(people: float) -> us.GaussMarkov:
    """A room that rests at 400 ppm and 60 a person above; both noises grow with the people."""
    return us.GaussMarkov(
        A=0.9, C=1.0, Q=9.0 * (1.0 + people), R=4.0 * (1.0 + people), b=40.0 + 6.0 * people, mean0=400.0, cov0=100.0
    )


def main(paths: list[Path]) -> None:
    """Draw, and write every file named."""
    family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    # more points where the curve is steep
    leakages = np.log(2.0) * np.linspace(0.0, 1.0, 60) ** 2
    curve = us.frontier(family, [0, 0.2, 0.4, 0.6, 0.8, 1], leakages=leakages, horizon=50, distortion="mae")
    people = us.Family(office, values=range(5), prior=[0.35, 0.25, 0.20, 0.12, 0.08])
    design = us.design(people, [k / 2 for k in range(9)], leakage="40%", horizon=96, distortion="mae")
    style = {
        "font.size": 10, "axes.titlesize": 11, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
        "axes.titlecolor": INK, "xtick.color": INK, "ytick.color": INK, "svg.hashsalt": "understudy",
    }  # fmt: skip
    with plt.rc_context(style):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
        us.report.plot_frontier(curve, left, relative=True)
        for axes in figure.axes:
            if axes.get_legend():
                axes.get_legend().set_frame_on(False)
        left.set_title("The paper's room: what a leakage costs", loc="left")
        us.report.plot_kernel(design, right)
        right.set_title("0 to 4 people, 40% of the entropy", loc="left")
        for path in paths:
            svg = path.suffix == ".svg"
            figure.savefig(path, transparent=True, dpi=150, metadata={"Date": None} if svg else None)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [Path(__file__).with_name("frontier.svg")])
