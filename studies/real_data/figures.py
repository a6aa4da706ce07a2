"""The pictures of the page: frontiers, and what the scores still know. Drawn from the figures that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from studies.real_data.attacking import best

# A middle tone for words and axes: it has a contrast of 3 or more on white and on near-black.
INK = "#7d7d7d"
BLUE, ROSE, GREEN, SAND, GREY = "#4477aa", "#cc6677", "#228833", "#bb8800", "#777777"
STYLE = {
    "font.size": 9, "axes.titlesize": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
    "axes.titlecolor": INK, "xtick.color": INK, "ytick.color": INK, "svg.hashsalt": "understudy",
}  # fmt: skip
Axes = Any


def save(figure: Any, path: Path) -> Path:
    """Write a picture that is the same to the byte every time."""
    svg = path.suffix == ".svg"
    figure.savefig(path, transparent=svg, dpi=150, metadata={"Date": None} if svg else None)
    return path


def line(record: dict[str, Any], test: str, kind: str, minutes: float) -> list[tuple[float, list[float]]]:
    """(percent of the mean reading, balanced accuracy with interval) of one kind of design, by distortion."""
    found = []
    for point in record["points"]:
        if point["kind"] == kind and abs(point["minutes"] - minutes) < 1e-6:
            row = best(point["rows"][test])
            if row is not None:
                found.append((_percent(point, test), row["balanced"]))
    return sorted(found, key=lambda pair: pair[0])


def noise_line(record: dict[str, Any], test: str, how: str) -> list[tuple[float, list[float]]]:
    """The same for noise of equal distortion."""
    found = []
    for point in record["points"]:
        rows = point.get("noise", {}).get(how, {}).get(test)
        row = best(rows) if rows else None
        if row is not None:
            found.append((_percent(point, test), row["balanced"]))
    return sorted(found, key=lambda pair: pair[0])


def _percent(point: dict[str, Any], test: str) -> float:
    percent = point["percent"][test]
    return float(sum(percent) / len(percent))


def _draw(ax: Axes, points: list[tuple[float, list[float]]], colour: str, mark: str, dashes: str, label: str) -> None:
    if not points:
        return
    x = [p for p, _ in points]
    y, low, high = ([b[k] for _, b in points] for k in range(3))
    ax.plot(x, y, dashes, color=colour, marker=mark, markersize=4, lw=1.4, label=label)
    if dashes == "-" and mark == "o":  # one band is enough: intervals are as wide everywhere
        ax.fill_between(x, low, high, color=colour, alpha=0.12, lw=0)


def draw_frontier(
    ax: Axes,
    record: dict[str, Any],
    test: str,
    minutes: tuple[float, ...] = (15.0, 60.0),
    floors: dict[str, list[dict[str, float]]] | None = None,
) -> None:
    """Best adversary's balanced accuracy by distortion, for one recording."""
    if floors and test in floors:
        least = [(row["percent"], row["accuracy"]) for row in floors[test]]
        ax.plot(*zip(*least, strict=True), color=GREY, lw=1.2, ls=(0, (1, 1)),
                label="no method goes below (single outputs)")  # fmt: skip
    for every, colour, mark in zip(minutes, (BLUE, GREEN), ("o", "s"), strict=False):
        _draw(ax, line(record, test, "causal", every), colour, mark, "-", f"understudy, a decision every {every:g} min")
    for every, mark in ((60.0, "^"), (1440.0, "v")):
        name = "hour" if every == 60.0 else "day"
        _draw(ax, line(record, test, "epoch", every), SAND, mark, ":", f"understudy, drawn anew every {name}")
    _draw(ax, noise_line(record, test, "white"), ROSE, "x", "--", "white noise of equal distortion")
    _draw(ax, noise_line(record, test, "slow"), ROSE, "+", ":", "slow noise of equal distortion")
    raw = best(record["raw"][test])
    if raw is not None:
        ax.axhline(raw["balanced"][0], color=GREY, lw=1.0, ls="-")
        ax.annotate(
            "raw", (1.0, raw["balanced"][0]), xycoords=("axes fraction", "data"), va="bottom", ha="right", size=8,
            xytext=(-3, 1), textcoords="offset points",
        )  # fmt: skip
    control = _control(record, test)
    if control is not None:
        ax.axhline(control, color=GREY, lw=1.0, ls=":")
        ax.annotate(
            "zero budget, model right", (1.0, control), xycoords=("axes fraction", "data"), va="top", ha="right",
            size=8, xytext=(-3, -3), textcoords="offset points",
        )  # fmt: skip
    ax.set_xlim(0.0, 1.03 * ax.get_xlim()[1])
    ax.grid(alpha=0.25, lw=0.5)


def _control(record: dict[str, Any], test: str) -> float | None:
    for control in record.get("controls", ()):
        row = best(control["rows"][test]) if not control["nats_a_day"] else None
        if row is not None:
            return float(row["balanced"][0])
    return None


def frontiers(panels: list[tuple[str, dict[str, Any], str]], path: Path, columns: int = 2, **given: Any) -> Path:
    """A panel for each (title, record, recording), with one legend below."""
    from matplotlib import pyplot as plt

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with plt.rc_context(STYLE):
        size = (max(10.0, 3.6 * columns), 3.3 * rows + 0.7)
        figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, sharey=True)
        flat = grid.ravel().tolist()
        for ax, (title, record, test) in zip(flat, panels, strict=False):
            draw_frontier(ax, record, test, **given)
            ax.set_title(title)
            ax.set_xlabel("distortion, percent of the mean reading")
        least = min(1.0 / len(record["values"]) for _, record, _ in panels)
        flat[0].set_ylim(min(least, 0.45) - 0.05, 1.02)
        for ax in flat[len(panels) :]:
            ax.set_visible(False)
        for row in grid:
            row[0].set_ylabel("best adversary, balanced accuracy")
        handles: dict[str, Any] = {}
        for ax in flat:
            handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        saved = save(figure, path)
        plt.close(figure)
    return saved


def told(rows: list[tuple[str, float, float, float]], path: Path) -> Path:
    """What scores tell of theta: (room, by a classifier, chance, best adversary at zero budget), one line each."""
    from matplotlib import pyplot as plt

    with plt.rc_context(STYLE):
        figure, ax = plt.subplots(figsize=(8.0, 0.32 * len(rows) + 1.3), layout="constrained")
        for k, (_, classifier, chance, adversary) in enumerate(reversed(rows)):
            ax.plot([chance, max(classifier, adversary)], [k, k], color=GREY, lw=0.8, alpha=0.6)
            ax.plot(chance, k, "|", color=GREY, markersize=11, label="chance" if k == 0 else None)
            ax.plot(classifier, k, "o", color=BLUE, label="a classifier, from the scores" if k == 0 else None)
            ax.plot(adversary, k, "s", color=ROSE, mfc="none", label="best adversary, zero budget" if k == 0 else None)
        ax.set_yticks(range(len(rows)), [name for name, *_ in reversed(rows)])
        ax.set_xlim(0.2, 1.0)
        ax.set_xlabel("balanced accuracy on recordings that the family has not seen")
        ax.grid(axis="x", alpha=0.25, lw=0.5)
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
        saved = save(figure, path)
        plt.close(figure)
    return saved
