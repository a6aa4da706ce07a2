"""``understudy design``: the randomizer for the paper's room, at a budget or a demand of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import typer

import understudy as us
from understudy.cli.pictures import check_folder, check_plot
from understudy.cli.room import room
from understudy.errors import ConfigurationError


class Choices(NamedTuple):
    """What was typed; lists are still text."""

    values: str
    prior: str | None
    pseudo: str
    horizon: int
    distortion: str


class Outputs(NamedTuple):
    """The files to write."""

    save: Path | None
    plot: Path | None


def run(choices: Choices, demands: dict[str, Any], outputs: Outputs) -> None:
    """Design, say what came out, and write what is to be written."""
    if outputs.plot is not None:
        check_plot(outputs.plot)
    if outputs.save is not None:
        check_folder("--save", outputs.save)
    given = {name: value for name, value in demands.items() if value is not None} or {"leakage": 0.3}
    if len(given) > 1:
        options = " and ".join("--" + name.replace("_", "-") for name in given)
        raise ConfigurationError(f"{options} are given; a design meets one demand")
    prior = None if choices.prior is None else numbers("--prior", choices.prior)
    family = us.Family(room, values=numbers("--values", choices.values), prior=prior)
    rest: dict[str, Any] = {"horizon": choices.horizon, "distortion": choices.distortion}
    pseudo = numbers("--pseudo", choices.pseudo)
    design = us.design(family, pseudo, **given, **rest)
    typer.echo(f"{design}\n\n{table(design)}")
    if outputs.save is not None:
        mark = design.save(outputs.save)
        typer.echo(f"\nDesign written to {outputs.save} ({mark})")
    if outputs.plot is not None:
        draw(outputs.plot, us.frontier(family, pseudo, **rest), design)
        typer.echo(f"Picture written to {outputs.plot}")


def budget(leakage: str | None) -> str | float | None:
    """A leakage as typed: a bare number is one of nats."""
    try:
        return None if leakage is None else float(leakage)
    except ValueError:
        return leakage


def numbers(option: str, text: str) -> list[float | int]:
    """Numbers with commas between them; whole ones stay whole.

    >>> numbers("--pseudo", "0, .5,1")
    [0, 0.5, 1]
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(
            f"{option} {text}: numbers with commas between them are wanted, as in 0,.5,1"
        ) from None
    return [int(x) if x.is_integer() else x for x in found]


def table(design: us.Design) -> str:
    """The randomizer, a row for each private value."""
    head = [f"{value:g}" for value in design.pseudo]
    rows = [
        ["0" if x == 0.0 else "<.0001" if x < 1e-4 else f"{x:.4f}" for x in row]
        for row in design.randomizer.kernel.tolist()
    ]
    wide = max(map(len, [*head, "0.0000"]))
    lines = ["Probability that the room plays the occupancy above, a line for each true one", ""]
    names = ["true", *(f"{value:g}" for value in design.values)]
    first = max(map(len, names))
    for name, line in zip(names, [head, *rows], strict=True):
        lines.append(f"  {name:>{first}}  " + "  ".join(f"{cell:>{wide}}" for cell in line))
    return "\n".join(lines)


def draw(path: Path, frontier: us.Frontier, design: us.Design) -> None:
    """The trade-off with this design on it, and its randomizer."""
    from matplotlib import pyplot as plt

    figure: Any
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    us.report.plot_frontier(frontier, left)
    left.plot(design.total_leakage, design.distortion, "o", color="black", ms=6, zorder=4)
    left.annotate("this design", (design.total_leakage, design.distortion), (8, 8), textcoords="offset points")
    us.report.plot_kernel(design, right)
    figure.savefig(path, dpi=150)
    plt.close(figure)
