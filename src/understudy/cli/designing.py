"""``understudy design``: the randomizer for a fitted family, or for the paper's room where no file is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import understudy as us
from understudy.cli.family_designs import Wanted, designed
from understudy.cli.keeping import kept
from understudy.cli.pictures import check_plot, save_figure
from understudy.cli.reporting import in_words
from understudy.cli.room import room
from understudy.cli.terminal import filled, print_json, say, warn
from understudy.cli.typed import budget, numbers, quantity
from understudy.errors import ConfigurationError
from understudy.paths import check_paths
from understudy.randomizer.card import label
from understudy.randomizer.constrained.constraints import Floor
from understudy.report.page_facts import AnyDesign, facts, nothing_hidden, warnings
from understudy.report.page_frontier import frontier_of


class Outputs(NamedTuple):
    """The files to write, and whether a program reads what is printed."""

    save: Path | None
    plot: Path | None
    as_json: bool = False


class Room(NamedTuple):
    """What can be said of the paper's room alone."""

    values: str | None
    prior: str | None


def run(path: Path | None, wanted: Wanted, room_: Room, outputs: Outputs) -> None:
    """Design, say what came out, and write what is to be written."""
    if outputs.plot is not None:
        check_plot(outputs.plot)
    check_paths({"FAMILY": path}, {"--out": outputs.save, "--plot": outputs.plot})
    if path is None:
        found: AnyDesign = of_the_room(wanted, room_)
        notes: list[str] = []
    else:
        for option, given in (("--values", room_.values), ("--prior", room_.prior)):
            if given is not None:
                raise ConfigurationError(f"{option} {given}: it is for the paper's room; a family has its own")
        found, notes = designed(path, wanted)
    picture = outputs.plot
    if picture is not None and not isinstance(found, us.Design):
        raise ConfigurationError(f"--plot {picture}: a causal design is drawn in its report, `understudy report`")
    if outputs.save is not None:
        found.save(outputs.save)
    if outputs.as_json:
        print_json({"design": None if outputs.save is None else str(outputs.save), **told(found), "remarks": notes})
    else:
        tell(found, notes, fitted=path is not None)
        if outputs.save is not None:
            say(f"\nDesign written to {outputs.save} (design {found.fingerprint})")
    if picture is not None and isinstance(found, us.Design):
        draw(picture, frontier_of(found), found)
        say(f"Picture written to {picture}", err=outputs.as_json)
    for words in nothing_hidden(found) if path is None else warnings(found):
        warn(words)


def of_the_room(wanted: Wanted, room_: Room) -> us.Design:
    """The paper's room, at a budget or a demand of your own."""
    for option, given in (
        ("--per", wanted.per), ("--rate", wanted.rate), ("--decision-every", wanted.decision_every),
        ("--causal", "" if wanted.causal else None),
    ):  # fmt: skip
        if given is not None:
            raise ConfigurationError(
                f"{f'{option} {given}'.strip()}: it is for a family that was fitted; give its file"
            )
    demands: dict[str, Any] = {
        "leakage": budget(wanted.leakage),
        "error_at_least": wanted.error_at_least,
        "distortion_at_most": None
        if wanted.distortion_at_most is None
        else quantity("--distortion-at-most", wanted.distortion_at_most, ["ppm"])[0],
    }
    also = bool(wanted.also.options)
    asked = {name: value for name, value in demands.items() if value is not None}
    asked = asked or ({} if also else {"leakage": 0.3})
    if len(asked) > 1:
        options = " and ".join("--" + name.replace("_", "-") for name in asked)
        raise ConfigurationError(f"{options} are given; a design meets one demand")
    prior = None if room_.prior is None else numbers("--prior", room_.prior)
    family = us.Family(room, values=numbers("--values", room_.values or "0,1"), prior=prior)
    pseudo = numbers("--pseudo", wanted.pseudo or "0,.2,.4,.6,.8,1")
    rest: dict[str, Any] = {"horizon": wanted.horizon or 50, "distortion": wanted.distortion}
    rest |= wanted.asked.arguments()
    return us.design(family, pseudo, **asked, constraints=kept(wanted.also, family.values, pseudo), **rest)


def told(design: AnyDesign) -> dict[str, Any]:
    """A design for a program: its facts, and its kernel and the price of a floor where it has one."""
    kernel = design.randomizer.kernel.tolist() if isinstance(design, us.Design) else None
    prices = [price for _, price in _prices(design)]
    return {**facts(design), "kernel": kernel, "price_of_floor": prices[0] if prices else None}


def tell(design: AnyDesign, notes: list[str], fitted: bool) -> None:
    """A design for people."""
    if isinstance(design, us.Design):
        say(f"{design}\n\n{table(design)}")
    else:
        say(in_words(design))
    if fitted and isinstance(design, us.Design):
        say()
        say(in_words(design))
    dearer = [
        f"The floor of {one.at_least:g} costs {price:.4g}: the distortion is {design.distortion:.6g} with it and "
        f"{design.distortion - price:.6g} without."
        for one, price in _prices(design)
    ]
    for note in [*notes, *dearer]:
        say(filled(note, "Note: "))


def _prices(design: AnyDesign) -> list[tuple[Floor, float]]:
    """What a floor costs, if there is one."""
    if not isinstance(design, us.Design) or design.demand[0] == "distortion_at_most":
        return []
    return [(one, design.price_of(one).price) for one in design.constraints if isinstance(one, Floor)]


def table(design: us.Design) -> str:
    """The randomizer, a row for each private value."""
    head = [label(value) for value in design.pseudo]
    rows = [
        ["0" if x == 0.0 else "<.0001" if x < 1e-4 else f"{x:.4f}" for x in row]
        for row in design.randomizer.kernel.tolist()
    ]
    wide = max(map(len, [*head, "0.0000"]))
    lines = ["Probability that the room plays the value above, a line for each true one", ""]
    names = ["true", *(label(value) for value in design.values)]
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
    save_figure(figure, path)
