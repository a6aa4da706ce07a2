"""``understudy demo``: the paper's room, disguised, and the adversary who averages.

The understudy is drawn by a randomizer that is designed on the spot, and the demonstration ends with what the
guarantee promises and what an adversary got from many simulated rooms. With ``--pseudo`` it is chosen by
hand instead, and nothing is promised.

All data are simulated, so true and pseudo occupancy are shown. Outside a demonstration both are secrets.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

import understudy as us
from understudy._paths import check_paths
from understudy._types import Array
from understudy.checks import whiteness
from understudy.cli.options import Part, budget
from understudy.cli.terminal import check_plot, print_json, save_figure, side_by_side
from understudy.errors import ConfigurationError
from understudy.paper.setting import HORIZON, A, B, make_design, room
from understudy.stream.release import default_lattice
from understudy.transform.backend import compiled

ROOMS, WATCHED = 40_000, HORIZON
WORDS = "Averaging removes noise, given time; behind the disguise it finds the understudy, however long it goes on.\n"


def run(part: Part, steps: int, seed: int, plot: Path | None, as_json: bool = False) -> None:
    """Simulate, disguise, attack, and say what came out."""
    if plot is not None:
        check_plot(plot)
    check_paths({}, {"--plot": plot})
    theta = part.theta
    design = design_for(part)
    # for a program the same is computed, and the words go nowhere
    console = Console(highlight=False, quiet=as_json)
    rng = np.random.default_rng(seed)
    pseudo = float(part.pseudo or 0.0) if design is None else float(design.randomizer.draw(int(theta), rng))
    source, target = room(theta), room(pseudo)
    Y = us.sample(source, steps, rng=rng)
    lattice = default_lattice([target]).steps if design is None else design.resolution
    out, spent = disguise(Y, us.Transform(source, target, resolution=lattice))
    streams = {f"true: {theta:g}": Y, f"disguised as {pseudo:g}": out}

    if design is None:
        console.print(
            f"\nA room with occupancy [bold]{theta:g}[/]; its CO2 readings follow the paper's model. Each reading is "
            f"turned, as it comes, into one of a room with occupancy [bold]{pseudo:g}[/]: the understudy (which need "
            "not be a whole number).\n"
        )
    else:
        introduce(console, design, theta, pseudo)
        for other in in_use(design):
            if other != pseudo:
                streams[f"had it drawn {other:g}"] = us.disguise(
                    Y, source=source, target=room(other), resolution=lattice
                )
    if not as_json:
        side_by_side(console, streams, WATCHED)
    console.print()
    size = float(np.abs(out - Y).mean()) if design is None else design.distortion
    seen = {"raw readings": Y, "raw + noise": Y + noise(size, Y.shape, rng), "disguised": out}
    found = attack(console, seen) if design is None else promise(console, design, seen, rng)

    p_value = whiteness(us.whiten(out, target)).p_value
    exact = us.disguise(Y, source=source, target=target)
    back = float(np.abs(us.disguise(exact, source=target, target=source) - Y).max())
    console.print(
        f"Law of the output: its scores under the understudy's model are white and normal "
        f"(p = {p_value:.2g}; near 0 would be bad).\n"
        f"Exact: before it is rounded to multiples of {lattice[0]:g}, disguising back returns the input to "
        f"{back:.1e}.\n"
        f"Speed: {1e6 * spent / steps:.2f} microseconds a reading, one at a time, "
        f"{'compiled' if compiled else 'plain Python'} loops.\n"
    )
    by_hand = (
        "Here the understudy was chosen by hand, so nothing is guaranteed; leave --pseudo out and it is drawn. "
        if design is None
        else ""
    )
    console.print(f"{by_hand}A disguised reading is not a true one: never drive ventilation or alarms from it.\n")
    go_on(console)
    if as_json:
        wrong = None if design is None else design.guarantee.bayes_error
        print_json({"theta": theta, "pseudo": pseudo, "adversary": found, "wrong_guesses_at_least": wrong})
    if plot is not None:
        draw(plot, (Y, seen["raw + noise"], out), theta, pseudo)
        typer.echo(f"\nPicture written to {plot}", err=as_json)


def in_use(design: us.Design) -> list[float]:
    """The pseudo values that are ever drawn."""
    return [float(value) for value in np.asarray(design.pseudo)[design.randomizer.kernel.max(axis=0) > 0.0]]


def attack(console: Console, seen: dict[str, Array]) -> dict[str, Any]:
    """What averaging finds in this room, for an understudy chosen by hand."""
    Y = seen["raw readings"]
    table = Table("what the adversary averages", "mean change", "occupancy found")
    found = {}
    for name, readings in seen.items():
        change, occupancy = float(np.abs(readings - Y).mean()), float(estimates(readings)[-1])
        table.add_row(name, f"{change:.2f}", f"{occupancy:.3f}")
        found[name] = {"mean_change": change, "occupancy_found": occupancy}
    console.print(table)
    console.print(WORDS)
    return found


def go_on(console: Console) -> None:
    """Where to go from here."""
    table = Table.grid(padding=(0, 2))
    for command, words in (
        ("understudy paper", "every figure and claim of the paper, recomputed (a minute; --quick: half)"),
        ("understudy design", "another budget, other occupancies; --save room.json keeps the design"),
        ("understudy guarantee room.json", "its whole card: nine measures in words, with their conditions"),
        ("docs/designing.md", "a family of your own, in Python; docs/guarantee.md says what is promised"),
    ):
        table.add_row(f"[bold]{command}[/]", words)
    console.print("[bold]Where to go next[/]")
    console.print(table)


def design_for(part: Part) -> us.Design | None:
    """The randomizer, if the understudy is to be drawn."""
    if part.pseudo is not None:
        if part.leakage is not None:
            raise ConfigurationError("--pseudo and --leakage are given; the understudy is chosen or drawn, not both")
        return None
    if part.theta not in (0.0, 1.0):
        raise ConfigurationError(
            f"--theta {part.theta:g}: the randomizer is for a room with 0 or 1 people; "
            "with --pseudo you choose the understudy yourself"
        )
    leakage = budget(part.leakage)
    return make_design(0.3 if leakage is None else leakage)


def disguise(Y: Array, transform: us.Transform) -> tuple[Array, float]:
    """The output, one reading at a time, and the seconds it took."""
    state, released = transform.start(), []
    began = time.perf_counter()
    for y in Y.tolist():
        state, y_out = transform.step(state, y)
        released.append(y_out)
    return np.array(released), time.perf_counter() - began


def estimates(Y: Array) -> Array:
    """Occupancy from running averages: (mean of y_2..y_k - A mean of y_1..y_{k-1}) / B."""
    k = np.arange(1, len(Y)).reshape(-1, *[1] * (Y.ndim - 1))
    return np.asarray((np.cumsum(Y[1:], axis=0) - A * np.cumsum(Y[:-1], axis=0)) / (B * k))


def noise(size: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Gaussian noise of a mean absolute size: E |N| = sd sqrt(2 / pi)."""
    return rng.normal(0.0, size * np.sqrt(np.pi / 2.0), shape)


def introduce(console: Console, design: us.Design, theta: float, pseudo: float) -> None:
    """The design, and what was drawn."""
    row = design.randomizer.kernel[design.randomizer.row(int(theta))]
    stays = (
        f"plays its own part in {100.0 * row[design.pseudo.index(int(theta))]:.1f} percent of all draws, and then the "
        "readings leave as they are"
    )
    mostly = f"That is the occupancy itself: the room {stays}." if pseudo == theta else f"The room {stays}."
    console.print(
        f"\nA room with 0 or 1 people, equally likely; here with occupancy [bold]{theta:g}[/]. Its CO2 readings follow "
        "the paper's model. A randomizer draws an understudy, and each reading is turned, as it comes, into one "
        "of a room with that occupancy.\n\n"
        f"The randomizer gives away at most [bold]{design.leakage:.4g} nats[/] and changes a reading by "
        f"{design.distortion:.2f} on average over {WATCHED} readings; "
        + ("no randomizer does better" if design.status == "optimal" else f"none goes below {design.lower_bound:.2f}")
        + f". This time it drew [bold]{pseudo:g}[/]. {mostly} Nobody outside can tell.\n\n"
        "[dim]The draw is shown because all of this is simulated, from --seed. A draw for a real room comes from the "
        "operating system's random source and is a secret.[/]\n"
    )


def promise(console: Console, design: us.Design, seen: dict[str, Array], rng: np.random.Generator) -> dict[str, Any]:
    """What an adversary who averages got from many rooms, and what the card says."""
    theta, raw, out = many_rooms(design, rng)
    rooms = {"raw readings": raw, "raw + noise": raw + noise(design.distortion, raw.shape, rng), "disguised": out}
    table = Table("what the adversary averages", "mean change", "wrong guesses", "found here")
    found = {}
    for name, Y in rooms.items():
        wrong = float(((estimates(Y)[-1] > 0.5) != theta).mean())
        error = 200.0 * np.sqrt(wrong * (1.0 - wrong) / ROOMS)
        rate = f"{100.0 * wrong:.2f}% ± {error:.2f}"
        change, occupancy = float(np.abs(Y - raw).mean()), float(estimates(seen[name])[-1])
        table.add_row(name, f"{change:.2f}", rate, f"{occupancy:.3f}")
        found[name] = {"mean_change": change, "wrong_guesses": wrong, "occupancy_found": occupancy}
    console.print(table)
    console.print(
        f"One guess for each of {ROOMS:,} simulated rooms, from {WATCHED} readings (± is two standard errors); and the "
        f"occupancy found in the room above. {WORDS}"
    )
    blind = design.guarantee.prior_error
    console.print(
        Panel(
            f"[bold]{design.guarantee.headline}[/]\n\n"
            f"Here the odds are even, and a blind guess is wrong with {100.0 * blind:.4g} percent.",
            title="The guarantee",
            title_align="left",
            padding=(1, 2),
            width=min(console.width, 100),
        )
    )
    return found


def many_rooms(design: us.Design, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Occupancies of many rooms, their readings (time, room), and what leaves the building."""
    theta = rng.integers(2, size=ROOMS).astype(float)
    raw, out = np.empty((2, WATCHED, ROOMS))
    for value in design.values:
        at = np.flatnonzero(theta == value)
        raw[:, at] = us.sample(room(value), WATCHED, n=len(at), rng=rng)[:, 0]
        drawn = np.array([design.randomizer.draw(value, rng) for _ in at])
        for pseudo in np.unique(drawn):
            these = at[drawn == pseudo]
            Y = raw[:, None, these]
            out[:, these] = us.disguise(Y, source=room(value), target=room(float(pseudo)))[:, 0]
    return theta, raw, out


def draw(path: Path, readings: tuple[Array, Array, Array], theta: float, pseudo: float) -> None:
    """True and disguised readings, and what averaging makes of each."""
    from matplotlib import pyplot as plt

    Y, noisy, out = readings
    figure: Any
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    number = np.arange(1, min(len(Y), 200) + 1)
    # dashes on top: the two are one line where the occupancy plays itself
    left.plot(number, Y[: len(number)], color="#4477aa", lw=1.8, label=f"true (occupancy {theta:g})")
    left.plot(number, out[: len(number)], color="#cc6677", lw=1.2, ls="--", label=f"disguised (as {pseudo:g})")
    left.set(xlabel="reading", ylabel="CO2", title=f"The first {len(number)} readings")
    for seen, style, name in ((noisy, "#999999", "raw + noise"), (Y, "#4477aa", "raw"), (out, "#cc6677", "disguised")):
        dashes = "--" if name == "disguised" else "-"
        right.plot(estimates(seen), color=style, lw=1.2, ls=dashes, label=name)
    right.set(xlabel="readings seen", ylabel="estimated occupancy", title="An adversary who averages")
    right.set_ylim(min(0.0, pseudo, theta) - 0.5, max(theta, pseudo) + 0.5)
    for axis in (left, right):
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
