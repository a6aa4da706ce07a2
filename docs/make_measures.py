"""Draw the picture of the page on measures: what a limit on each of them costs, and what it buys.

    python docs/make_measures.py                 writes docs/measures.svg
    python docs/make_measures.py out.svg out.png writes the files named

Above: the least distortion against the limit, for the paper's room with 0 or 1 people and for a room with 0 to 4 whose
noise grows with them, each in percent of the distortion at which nothing is told. Below: how often the best guess is
wrong in the same designs of the second room, and what their maximal leakage is, whichever measure was limited. (Of
the first all lines would be one.) Needs matplotlib (the extra `plot`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from make_frontier import INK, office, room

import understudy as us
from understudy.randomizer.constraints import ErrorAtLeast, LocalDP, MaximalLeakage, PointwiseLeakage, TotalVariation

POINTS = 41


class Limited(NamedTuple):
    """A measure: its name, its unit, what to ask for at a limit, and the range of limits for m values."""

    name: str
    unit: str
    ask: Callable[[float], dict[str, Any]]
    top: Callable[[np.ndarray], float]
    colour: str


MEASURES = (
    Limited("mutual information", "nats", lambda x: {"leakage": x}, lambda p: float(-(p * np.log(p)).sum()), "#3b78c4"),
    Limited("local-DP epsilon", "nats", lambda x: {"constraints": [LocalDP(x)]}, lambda p: 6.0, "#c4463b"),
    Limited(
        "maximal leakage", "nats", lambda x: {"constraints": [MaximalLeakage(x)]},
        lambda p: float(np.log(len(p))), "#2f9e6e",
    ),
    Limited(
        "pointwise leakage", "nats", lambda x: {"constraints": [PointwiseLeakage(x)]},
        lambda p: float(-np.log(p.min())), "#9a57b8",
    ),
    Limited("total variation", "", lambda x: {"constraints": [TotalVariation(x)]}, lambda p: 1.0, "#b8860b"),
    Limited(
        "error at least", "", lambda x: {"constraints": [ErrorAtLeast(x)]}, lambda p: float(1.0 - p.max()), "#6d7f8c"
    ),
)  # fmt: skip


class Curve(NamedTuple):
    """Limits, and at each the distortion in percent of the largest, wrong guesses in percent, and maximal leakage."""

    limits: np.ndarray
    distortions: np.ndarray
    errors: np.ndarray
    leakages: np.ndarray


def curve(costs: us.Costs, prior: np.ndarray, measure: Limited) -> Curve:
    """The designs at limits from nothing to no limit."""
    limits = measure.top(prior) * np.linspace(0.0, 1.0, POINTS) ** (1.0 if measure.name == "error at least" else 1.5)
    made = [us.solve(costs.matrix, prior=prior, **measure.ask(float(x) * (1 - 1e-12))) for x in limits]
    silent = us.solve(costs.matrix, prior=prior, leakage=0.0).distortion
    return Curve(
        limits,
        100.0 * np.array([design.distortion for design in made]) / silent,
        100.0 * np.array([design.guarantee.bayes_error for design in made]),
        np.array([design.guarantee.maximal_leakage for design in made]),
    )


def cases() -> list[tuple[str, us.Costs, np.ndarray]]:
    """The paper's room and the one with 0 to 4 people, with the costs of their pairs."""
    two = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    five = us.Family(office, values=range(5), prior=[0.35, 0.25, 0.20, 0.12, 0.08])
    return [
        ("the paper's room, 0 or 1", us.costs(two, [0, 0.2, 0.4, 0.6, 0.8, 1], 50, "mae"), np.array(two.prior)),
        ("0 to 4 people", us.costs(five, [k / 2 for k in range(9)], 96, "mae"), np.array(five.prior)),
    ]


def main(paths: list[Path]) -> None:
    """Draw, and write every file named."""
    found = [(name, {measure.name: curve(costs, p, measure) for measure in MEASURES}) for name, costs, p in cases()]
    style = {
        "font.size": 9, "axes.titlesize": 9.5, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
        "axes.titlecolor": INK, "xtick.color": INK, "ytick.color": INK, "svg.hashsalt": "understudy",
        "axes.spines.top": False, "axes.spines.right": False,
    }  # fmt: skip
    with plt.rc_context(style):
        figure = plt.figure(figsize=(10.5, 8.2), layout="constrained")
        upper, lower = figure.subfigures(2, 1, height_ratios=(1.25, 1.0))
        small = upper.subplots(2, 3, sharey=True).ravel()
        for axes, measure in zip(small, MEASURES, strict=True):
            for (name, curves), dashes in zip(found, ("-", (0, (4, 2))), strict=True):
                c = curves[measure.name]
                axes.plot(c.limits, c.distortions, color=measure.colour, ls=dashes, lw=1.8, label=name)
            unit = f", {measure.unit}" if measure.unit else ""
            axes.set_title(f"{measure.name}{unit}", loc="left", color=measure.colour)
            axes.set_xlim(left=0.0)
            axes.set_ylim(0.0, 104.0)
        for axes in small[::3]:
            axes.set_ylabel("distortion, % of most")
        legend = small[0].legend(frameon=False, fontsize=8.5)
        for handle in legend.legend_handles:
            handle.set_color(INK)
        wide = lower.subplots(1, 2)
        for measure in MEASURES:
            c = found[1][1][measure.name]
            width = 3.2 if measure.name in ("error at least", "maximal leakage") else 1.5
            wide[0].plot(c.distortions, c.errors, color=measure.colour, lw=width, label=measure.name)
            wide[1].plot(c.distortions, c.leakages, color=measure.colour, lw=width, label=measure.name)
        wide[0].set_title("What it buys, 0 to 4 people: best guess wrong, %", loc="left")
        wide[1].set_title("What it buys, 0 to 4 people: maximal leakage, nats", loc="left")
        for axes in wide:
            axes.set_xlabel("distortion, % of most")
            axes.set_xlim(0.0, 102.0)
            axes.set_ylim(bottom=0.0)
        wide[1].legend(frameon=False, fontsize=8.5, loc="upper right", title="limited")
        for path in paths:
            svg = path.suffix == ".svg"
            figure.savefig(path, transparent=svg, dpi=130, metadata={"Date": None} if svg else None)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [Path(__file__).with_name("measures.svg")])
