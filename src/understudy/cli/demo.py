"""``understudy demo``: the paper's room, disguised, and the adversary who averages."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import understudy as us
from understudy.errors import ConfigurationError, MissingExtraError
from understudy.laws.base import Array
from understudy.transform.backend import compiled
from understudy.transform.whiteness import whiteness

A, B = 0.95, 10.0


def room(people: float) -> us.GaussMarkov:
    """CO2 in a room with this many people (paper, Section V)."""
    return us.GaussMarkov(A=A, C=1.0, Q=0.1, R=0.1, b=B * people, mean0=100.0, cov0=1.0)


def estimates(Y: Array) -> Array:
    """Occupancy from running averages: (mean of y_2..y_k - A mean of y_1..y_{k-1}) / B."""
    k = np.arange(1, len(Y))
    return np.asarray((np.cumsum(Y[1:]) - A * np.cumsum(Y[:-1])) / (B * k))


def run(theta: float, pseudo: float, steps: int, seed: int, plot: Path | None) -> None:
    """Simulate, disguise, attack, and say what came out."""
    if plot is not None:
        check_plot(plot)
    console = Console()
    rng = np.random.default_rng(seed)
    source, target = room(theta), room(pseudo)
    Y = us.sample(source, steps, rng=rng)
    transform = us.Transform(source, target)
    state, released = transform.start(), []
    began = time.perf_counter()
    for y in Y.tolist():
        state, y_out = transform.step(state, y)
        released.append(y_out)
    spent = time.perf_counter() - began
    out = np.array(released)
    size = float(np.abs(out - Y).mean())
    noisy = Y + rng.normal(0.0, size * np.sqrt(np.pi / 2.0), steps)

    console.print(
        f"\nA room with occupancy [bold]{theta:g}[/]; its CO2 readings follow the paper's model. Each reading is "
        f"turned, as it comes, into one of a room with occupancy [bold]{pseudo:g}[/]: the understudy (which need not "
        "be a whole number).\n"
    )
    table = Table("reading", "true", "disguised", title="What the sensor says and what leaves the building")
    for k in (0, 1, 2, 9, 49, steps - 1):
        table.add_row(str(k + 1), f"{Y[k]:.2f}", f"{out[k]:.2f}")
    console.print(table)

    table = Table("what the adversary sees", "mean |change|", "estimated occupancy", title="An adversary who averages")
    for name, seen in (("raw readings", Y), ("raw + noise of equal size", noisy), ("disguised readings", out)):
        table.add_row(name, f"{np.abs(seen - Y).mean():.2f}", f"{estimates(seen)[-1]:.3f}")
    console.print(table)

    p_value = whiteness(us.whiten(out, target)).p_value
    back = float(np.abs(us.disguise(out, source=target, target=source) - Y).max())
    console.print(
        "Averaging removes noise, given time; behind the disguise it finds the understudy, however long it goes on.\n\n"
        f"Law of the output: its scores under the understudy's model are white and normal "
        f"(p = {p_value:.2g}; near 0 would be bad).\n"
        f"Exact: disguising back returns the input to {back:.1e}.\n"
        f"Speed: {1e6 * spent / steps:.2f} microseconds a reading, one at a time, "
        f"{'compiled' if compiled else 'plain Python'} loops.\n\n"
        "[dim]Here the understudy was chosen by hand. The guarantee comes from drawing it at random with a bounded "
        "leakage, which is the randomizer's part and not in this version. A disguised reading is not a true one: "
        "never drive ventilation or alarms from it.[/]"
    )
    if plot is not None:
        draw(plot, Y, noisy, out, theta, pseudo)
        console.print(f"Picture written to {plot}")


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be written, before any work is done."""
    if path.suffix not in {".png", ".svg", ".pdf"}:
        raise ConfigurationError(f"--plot {path}: the name of a picture must end in .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise ConfigurationError(f"--plot {path}: there is no folder {path.parent}")
    try:
        import matplotlib  # noqa: F401  # only to know that it is there
    except ImportError:
        raise MissingExtraError("a picture needs matplotlib (the extra `plot`): pip install matplotlib") from None


def draw(path: Path, Y: Array, noisy: Array, out: Array, theta: float, pseudo: float) -> None:
    """True and disguised readings, and what averaging makes of each."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure: Any
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    number = np.arange(1, min(len(Y), 200) + 1)
    left.plot(number, Y[: len(number)], color="#4477aa", lw=1.2, label=f"true (occupancy {theta:g})")
    left.plot(number, out[: len(number)], color="#cc6677", lw=1.2, label=f"disguised (as {pseudo:g})")
    left.set(xlabel="reading", ylabel="CO2", title=f"The first {len(number)} readings")
    for seen, colour, name in ((noisy, "#999999", "raw + noise"), (Y, "#4477aa", "raw"), (out, "#cc6677", "disguised")):
        right.plot(estimates(seen), color=colour, lw=1.2, label=name)
    right.set(xlabel="readings seen", ylabel="estimated occupancy", title="An adversary who averages")
    right.set_ylim(min(0.0, pseudo, theta) - 0.5, max(theta, pseudo) + 0.5)
    for axis in (left, right):
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
