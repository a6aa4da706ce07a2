"""Fig. "relative distortion versus leakage" (Section V): what a leakage costs, for absolute and for squared distortion.

The curves are exact: the distortion of each pair of values is known in closed form, and each point is the least
sum p_i P_ij L_ij under I(Theta; ~Theta) <= I_0, with a proof. On top of them is the definition itself, simulated:
draw theta, draw ~theta, sample a room, disguise it, take the mean of d(Y_k, ~Y_k).

The paper divides the average distortion by the average CO2. For the absolute distortion that gives percent. For the
squared one it would not (ppm squared over ppm), so its square root is divided: root mean square over mean reading.

`compute_levels` makes the whole card and the whole trade-off for occupancies 0 to 4, which the motivating example
(II-B) allows. With two values Theorem 3 says nothing: (H - I_0 - ln 2) / ln m is never positive. With five it does,
as long as I_0 is below ln 5 - ln 2 = 0.916 nats, 57 percent of the entropy. The room is that of Section V with b
Theta for up to four people, all five numbers of people are equally likely, and the filter may play any of 0, 0.5, ..,
4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import understudy as us
from understudy._types import Array
from understudy.paper import setting as room
from understudy.paper.setting import Outcome, Settings, Table, tell
from understudy.report.figures import (
    Line,
    add_root_axis,
    panels,
    plot_bounds,
    plot_checked_frontier,
    plot_frontier,
    plot_kernel,
)

# Two values: absolute and squared distortion --------------------------------------------------------------------------

# Every hundredth, and closer where the curve is steep: near 0 it falls like the root of the leakage.
LEAKAGES = (0.0, 0.0005, 0.001, 0.002, 0.005, *(round(0.01 * k, 2) for k in range(1, 70)), math.log(2.0))
CHECKED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, math.log(2.0))
MEASURES = {"absolute": "mae", "squared": "mse"}


@dataclass(frozen=True)
class Simulation:
    """Distortions by simulation at some leakages, with their standard errors, beside the exact ones."""

    leakages: Array
    exact: Array
    mean: Array
    error: Array
    sequences: int


def compute(settings: Settings) -> Outcome:
    """The whole trade-off, exact, with simulated points."""
    rng, family = settings.rng("tradeoff"), room.family()
    curves, checks = {}, {}
    for step, (name, distortion) in enumerate(MEASURES.items()):
        curves[name] = us.frontier(family, room.PSEUDO, horizon=room.HORIZON, distortion=distortion, leakages=LEAKAGES)
        checks[name] = check(curves[name], rng, settings.quick)
        settings.progress((step + 1) / len(MEASURES))
    mean = _mean_reading(curves["absolute"])
    numbers: dict[str, float] = {"points": len(LEAKAGES), "mean_reading_ppm": mean}
    for name, curve in curves.items():
        what = "percent" if name == "absolute" else "rms_percent"
        shares = _percent(name, curve.distortions, mean)
        numbers |= {f"{name}_{what}_at_{_word(x)}": float(y) for x, y in zip(LEAKAGES, shares, strict=True)}
    for name, found in checks.items():
        numbers[f"{name}_check_p"] = agreement(found.exact, found.mean, found.error)
    pictures = {"tradeoff": lambda: draw(curves, checks)}
    sequences = checks["absolute"].sequences
    return tell("tradeoff", numbers, (_table(curves, checks, mean),), pictures, sequences=sequences)


def simulate(design: us.Design, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """The distortion of a design from its definition, over n sequences, and its standard error."""
    squared = design.costs is not None and design.costs.distortion == "mse"
    # Pr(theta_i, ~theta_j) = p_i P_ij; the draws of all sequences at once: how many fall on each pair
    joint = design.prior[:, None] * design.randomizer.kernel
    counts = rng.multinomial(n, joint.ravel() / joint.sum()).reshape(joint.shape)
    distances = []
    for i, j in zip(*np.nonzero(counts), strict=True):
        source, target = room.room(design.values[i]), room.room(design.pseudo[j])
        Y = us.sample(source, room.HORIZON, n=int(counts[i, j]), rng=rng).reshape(room.HORIZON, 1, -1)
        difference = Y - us.disguise(Y, source, target)
        distances.append((np.square(difference) if squared else np.abs(difference)).mean(axis=(0, 1)))
    every = np.concatenate(distances)
    return float(every.mean()), float(every.std(ddof=1)) / math.sqrt(n)


def check(curve: us.Frontier, rng: np.random.Generator, quick: bool = False) -> Simulation:
    """Simulated points of a frontier."""
    n, leakages = (20_000, CHECKED[::2]) if quick else (100_000, CHECKED)
    designs = [curve[LEAKAGES.index(x)] for x in leakages]
    mean, error = np.array([simulate(design, n, rng) for design in designs]).T
    return Simulation(np.array(leakages), np.array([design.distortion for design in designs]), mean, error, n)


def agreement(exact: Array, mean: Array, error: Array) -> float:
    """The probability that chance alone puts independent estimates at least this far from their exact values.

    The squared deviations, in standard errors, are chi-square with one degree of freedom a point. A point without
    spread is no matter of chance: it must be right to rounding (1e-9).

    >>> round(agreement(np.array([1.0, 2.0, 0.0]), np.array([1.1, 1.9, 0.0]), np.array([0.1, 0.1, 0.0])), 4)
    0.3679
    """
    from scipy.special import gammaincc

    sure = error <= 1e-9
    if (np.abs(mean - exact)[sure] > 1e-9).any():
        return 0.0
    z = (mean - exact)[~sure] / error[~sure]
    return float(gammaincc(0.5 * z.size, 0.5 * (z @ z)))


def draw(curves: Mapping[str, us.Frontier], checks: Mapping[str, Simulation]) -> Any:
    """The figure: absolute distortion on the left, squared on the right."""
    figure, (left, right) = panels(2)
    for name, ax in (("absolute", left), ("squared", right)):
        found = checks[name]
        label = f"simulated, {found.sequences:,} sequences\neach, two standard errors"
        points = Line(label, found.leakages, found.mean, found.error)
        plot_checked_frontier(curves[name], points, ax, relative=name == "absolute")
    right.set_ylabel("mean squared distortion (ppm²)")
    add_root_axis(right, _mean_reading(curves["squared"]))
    return figure


def _mean_reading(curve: us.Frontier) -> float:
    costs = curve[0].costs
    return float("nan") if costs is None else costs.mean_reading


def _percent(name: str, distortions: Array, mean: float) -> Array:
    """Absolute distortion, or the root of the squared one, in percent of the mean reading."""
    return 100.0 / mean * (distortions if name == "absolute" else np.sqrt(distortions))


def _word(leakage: float) -> str:
    x = leakage
    return "ln2" if x == math.log(2.0) else f"{x:.2f}" if round(x, 2) == x else f"{x:g}"


def _table(curves: Mapping[str, us.Frontier], checks: Mapping[str, Simulation], mean: float) -> Table:
    rows = []
    absolute, squared = checks["absolute"], checks["squared"]
    for k, x in enumerate(absolute.leakages.tolist()):
        root = _percent("squared", squared.exact[k : k + 1], mean)[0]
        error = curves["absolute"][LEAKAGES.index(x)].guarantee.bayes_error
        rows.append((
            "ln 2" if _word(x) == "ln2" else _word(x),
            f"{absolute.exact[k]:.3f}", f"{absolute.mean[k]:.3f} ± {absolute.error[k]:.3f}",
            f"{100.0 * absolute.exact[k] / mean:.2f}",
            f"{squared.exact[k]:.1f}", f"{squared.mean[k]:.1f} ± {squared.error[k]:.1f}", f"{root:.2f}",
            f"{100.0 * error:.2f}",
        ))  # fmt: skip
    heads = (
        "I_0 (nats)", "absolute (ppm)", "simulated", "% of mean", "squared (ppm²)", "simulated", "rms, % of mean",
        "wrong guesses at least (%), absolute",
    )  # fmt: skip
    return Table("Distortion of the optimal filter; simulated with one standard error", heads, tuple(rows))


# Five values ----------------------------------------------------------------------------------------------------------

VALUES = (0, 1, 2, 3, 4)
PSEUDO = (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4)
SHARES = (20, 40)  # percent of the entropy

_BOUNDS = {"bayes_error": "best adversary", "fano": "sharp Fano", "fano_paper": "the paper's Fano"}


def compute_levels(settings: Settings) -> Outcome:
    """Designs, cards and frontier for five occupancies."""
    family = room.family(VALUES)
    T, d = room.HORIZON, "mae"
    designs = {share: us.design(family, PSEUDO, leakage=f"{share}%", horizon=T, distortion=d) for share in SHARES}
    settings.progress(0.3)
    budgets = _budgets(31 if settings.quick else 101)
    curve = us.frontier(family, PSEUDO, leakages=budgets, horizon=T, distortion=d)
    settings.progress(1.0)
    numbers = _level_numbers(designs, curve)
    used = np.any([design.randomizer.kernel.any(axis=0) for design in designs.values()], axis=0)
    unused = ", ".join(f"{value:g}" for value, plays in zip(PSEUDO, used, strict=True) if not plays)
    facts = {f"headline_{share}": design.guarantee.headline for share, design in designs.items()}
    facts["never"] = f"{unused} are never played" if unused else "every value is played"
    pictures = {"levels": lambda: draw_levels(curve), "levels_randomizer": lambda: draw_randomizers(designs)}
    return tell("levels", numbers, (_level_points(curve), *card_tables(designs)), pictures, **facts)


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


def draw_levels(curve: us.Frontier) -> Any:
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


def _level_numbers(designs: Mapping[int, us.Design], curve: us.Frontier) -> dict[str, float]:
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


def _level_points(curve: us.Frontier) -> Table:
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
