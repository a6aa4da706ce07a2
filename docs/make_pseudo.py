"""Draw the picture of the page on pseudo values: what choosing them gains, and where they go.

    python docs/make_pseudo.py                 writes docs/pseudo.svg
    python docs/make_pseudo.py out.svg out.png writes the files named

Left and middle the paper's room and a room with 0 to 4 people, squared error; right the values found for the latter.
Needs matplotlib (the extra `plot`); takes about a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import understudy as us
from understudy.randomizer.pseudo import PseudoSearch, optimise_pseudo

# A middle tone: it has a contrast of 3 or more on white and on near-black.
INK = "#7d7d7d"
BLUE, ORANGE = "#4477aa", "#cc7733"


def room(occupants: float) -> us.GaussMarkov:
    """The paper's room."""
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)


def office(people: float) -> us.GaussMarkov:
    """A room that rests at 400 ppm and 60 a person above; both noises grow with the people."""
    return us.GaussMarkov(
        A=0.9, C=1.0, Q=9.0 * (1.0 + people), R=4.0 * (1.0 + people), b=40.0 + 6.0 * people, mean0=400.0, cov0=100.0
    )


def gains(
    family: us.Family, others: list[list[float]], shares: list[float], horizon: int
) -> tuple[list[PseudoSearch], np.ndarray]:
    """Searches along the curve, and by how many percent each costs less than designs on other values."""
    found, saved = [], []
    for share in shares:
        leakage = f"{share}%"
        search = optimise_pseudo(family, leakage=leakage, horizon=horizon, distortion="mse", starts=2)
        beside = [us.design(family, values, leakage=leakage, horizon=horizon, distortion="mse") for values in others]
        found.append(search)
        saved.append([100.0 * (1.0 - search.distortion / design.distortion) for design in beside])
    return found, np.array(saved)


def main(paths: list[Path]) -> None:
    """Draw, and write every file named."""
    shares = [2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 97.0]
    paper = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    people = us.Family(office, values=range(5), prior=[0.35, 0.25, 0.20, 0.12, 0.08])
    _, one = gains(paper, [[0, 1], [0, 0.2, 0.4, 0.6, 0.8, 1]], shares, 50)
    found, many = gains(people, [list(range(5)), [k / 2 for k in range(9)]], shares, 96)
    style = {
        "font.size": 10, "axes.titlesize": 11, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
        "axes.titlecolor": INK, "xtick.color": INK, "ytick.color": INK, "svg.hashsalt": "understudy",
    }  # fmt: skip
    with plt.rc_context(style):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11.4, 3.8), layout="constrained")
        for axes, saved, names, title in (
            (left, one, ("0, 1", "0, 0.2, .., 1"), "The paper's room"),
            (middle, many, ("0, 1, .., 4", "0, 0.5, .., 4"), "0 to 4 people"),
        ):
            for column, (name, colour) in enumerate(zip(names, (BLUE, ORANGE), strict=True)):
                axes.plot(shares, saved[:, column], color=colour, marker="o", markersize=3, label=f"than {name}")
            axes.set_xlabel("leakage, % of the entropy")
            axes.set_ylim(0.0, 1.3 * float(saved.max()))  # room for the legend
            axes.set_title(f"{title}: % less squared error", loc="left")
            axes.legend(frameon=False)
        for share, search in zip(shares, found, strict=True):
            law = search.design.prior @ search.design.randomizer.kernel
            right.scatter(np.full(len(law), share), search.positions, s=4.0 + 80.0 * law, color=BLUE, linewidths=0)
        right.set_xlabel("leakage, % of the entropy")
        right.set_ylabel("people played")
        right.set_yticks(range(5))
        right.grid(axis="y", color=INK, alpha=0.25)
        right.set_title("Values found; area: how often", loc="left")
        for path in paths:
            svg = path.suffix == ".svg"
            figure.savefig(path, transparent=True, dpi=150, metadata={"Date": None} if svg else None)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [Path(__file__).with_name("pseudo.svg")])
