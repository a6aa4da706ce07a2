"""Occupancy 0 to 4 (the motivating example, II-B, allows it): the whole card and the whole trade-off for five values.

With two values Theorem 3 says nothing: (H - I_0 - ln 2) / ln m is never positive. With five it does, as long as I_0 is
below ln 5 - ln 2 = 0.916 nats, 57 percent of the entropy. The room is that of Section V with b Theta for up to four
people, all five numbers of people are equally likely, and the filter may play any of 0, 0.5, .., 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import understudy as us
from understudy.paper import setting as room
from understudy.paper.setting import Outcome, Settings, Table
from understudy.report.figures import panels, plot_bounds, plot_frontier, plot_kernel

VALUES = (0, 1, 2, 3, 4)
PSEUDO = (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4)
SHARES = (20, 40)  # percent of the entropy

# What the numbers must be, and how near.
GOLDEN: Mapping[str, tuple[float, float]] = {
    "distortion_ppm_20": (91.370, 1e-3),
    "distortion_ppm_40": (53.394, 1e-3),
    "bayes_error_20": (0.51893, 1e-5),
    "bayes_error_40": (0.33639, 1e-5),
    "fano_20": (0.43490, 1e-5),
    "fano_40": (0.27342, 1e-5),
    "fano_paper_20": (0.36932, 1e-5),
    "fano_paper_40": (0.16932, 1e-5),
}

_BOUNDS = {"bayes_error": "best adversary", "fano": "sharp Fano", "fano_paper": "the paper's Fano"}


def compute(settings: Settings) -> Outcome:
    """Designs, cards and frontier for five occupancies."""
    family = room.family(VALUES)
    T, d = room.HORIZON, "mae"
    designs = {share: us.design(family, PSEUDO, leakage=f"{share}%", horizon=T, distortion=d) for share in SHARES}
    settings.progress(0.3)
    budgets = _budgets(31 if settings.quick else 101)
    curve = us.frontier(family, PSEUDO, leakages=budgets, horizon=T, distortion=d)
    settings.progress(1.0)
    numbers = _numbers(designs, curve)
    return Outcome(
        "levels",
        "Five levels of occupancy",
        _paragraphs(designs, numbers),
        numbers,
        (_points(curve), *card_tables(designs)),
        {"levels": lambda: draw(curve), "levels_randomizer": lambda: draw_randomizers(designs)},
    )


def _budgets(points: int) -> list[str]:
    """Shares of the entropy from nothing to all, every fifth percent among them."""
    return [f"{share:.12g}%" for share in np.union1d(np.linspace(0.0, 100.0, points), np.arange(0.0, 101.0, 5.0))]


def card_tables(designs: Mapping[int, us.Design]) -> tuple[Table, ...]:
    """The whole cards: a table of every measure for each design, and one of what all of them need and do not cover."""
    heads = ("measure", "bound", "prior", "in words")
    cards = {share: design.guarantee for share, design in designs.items()}
    measures = tuple(
        Table(
            f"The card at {share} % of the entropy",
            heads,
            tuple((m.title, m.shown, m.prior, f"{m.sentence} {m.note}".rstrip()) for m in g.measures),
        )
        for share, g in cards.items()
    )
    g = cards[SHARES[0]]
    sections = (("holds if", g.conditions), ("against", (g.against,)), ("not protected", g.not_protected))
    fine = tuple((title, line) for title, lines in sections for line in lines)
    return (*measures, Table("What every card above holds under, and what it does not cover", ("", "in words"), fine))


def draw(curve: us.Frontier) -> Any:
    """The figure: the trade-off on the left, what each bound says on the right."""
    figure, (left, right) = panels(2)
    plot_frontier(curve, left)
    left.set_ylabel("mean absolute distortion (ppm)")
    plot_bounds(curve, right)
    return figure


def draw_randomizers(designs: Mapping[int, us.Design]) -> Any:
    """The figure: which number of people is played how often, for each share of the entropy."""
    figure, axes = panels(len(designs), height=3.4)
    for ax, (share, design) in zip(axes, designs.items(), strict=True):
        plot_kernel(design, ax)
        ax.set_xlabel("occupancy played")
        ax.set_ylabel("occupancy (odds)")
        ax.set_title(f"leakage {share} % of the entropy, {design.budget:.3f} nats", fontsize="medium")
    return figure


def _numbers(designs: Mapping[int, us.Design], curve: us.Frontier) -> dict[str, float]:
    numbers: dict[str, float] = {
        "entropy": math.log(len(VALUES)),
        "fano_paper_until": math.log(len(VALUES) / 2.0),
        "points": len(curve),
        "distortion_ppm_0": float(curve.distortions[0]),
    }
    for share, design in designs.items():
        g = design.guarantee
        numbers |= {
            f"leakage_{share}": design.leakage,
            f"distortion_ppm_{share}": design.distortion,
            f"distortion_percent_{share}": 100.0 * (design.relative_distortion or math.nan),
            **{f"{name}_{share}": getattr(g, name) for name in _BOUNDS},
            f"capacity_{share}": g.capacity.upper,
            f"pointwise_{share}": g.pointwise.worst,
            f"local_dp_{share}": g.local_dp,
        }
    return numbers


def _points(curve: us.Frontier) -> Table:
    """Every tenth percent of the entropy."""
    rows = []
    for design in curve.designs:
        g = design.guarantee
        share = 100.0 * (design.budget or 0.0) / g.entropy
        if abs(share / 10.0 - round(share / 10.0)) < 1e-9:
            bounds = (100.0 * getattr(g, name) for name in _BOUNDS)
            rows.append((
                f"{share:.0f}", f"{design.budget:.3f}", f"{design.distortion:.2f}",
                *("nothing" if x < 0.0 else f"{x:.2f}" for x in bounds),
            ))  # fmt: skip
    heads = ("% of the entropy", "I_0 (nats)", "distortion (ppm)", *(f"wrong (%), {name}" for name in _BOUNDS.values()))
    return Table("The trade-off for five values; how often every guess is wrong, at least", heads, tuple(rows))


def _paragraphs(designs: Mapping[int, us.Design], numbers: Mapping[str, float]) -> tuple[str, ...]:
    unused = [
        pseudo
        for j, pseudo in enumerate(PSEUDO)
        if not any(design.randomizer.kernel[:, j].any() for design in designs.values())
    ]
    compared = " ".join(
        f"At {share} percent of the entropy ({numbers[f'leakage_{share}']:.3f} nats) every guess is wrong with "
        f"probability {100 * numbers[f'bayes_error_{share}']:.1f} percent at least; the sharp Fano bound says "
        f"{100 * numbers[f'fano_{share}']:.1f}, the paper's {100 * numbers[f'fano_paper_{share}']:.1f}. The filter "
        f"costs {numbers[f'distortion_ppm_{share}']:.1f} ppm, {numbers[f'distortion_percent_{share}']:.1f} percent "
        "of the mean reading."
        for share in designs
    )
    never = f"{', '.join(f'{value:g}' for value in unused)} are never played" if unused else "every value is played"
    return (
        f"Five equally likely occupancies; blind, a guess is wrong in 80 percent of cases. {compared}",
        "The paper's Theorem 3, with its one bit written as ln 2 nats, is positive below "
        f"{numbers['fano_paper_until']:.3f} nats, and the weakest of the three throughout. The exact bound is the one "
        "to quote. Its line has a kink near 0.14 nats: from there on the filter plays 0 and 4 too.",
        f"Of the nine values offered, {never} in these two designs. Under absolute distortion a value halfway between "
        "two private ones costs, whoever is in the room, what its neighbours cost on average. Tossing a coin between "
        "the neighbours is as cheap and gives away no more.",
        *(f"{share} percent: {design.guarantee.headline}" for share, design in designs.items()),
    )
