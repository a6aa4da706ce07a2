"""Draw the picture of the page on closed loops: a day, its occupancy as estimated, and what a nat buys.

    python docs/make_closed_loop.py                 writes docs/closed-loop.svg
    python docs/make_closed_loop.py out.svg out.png writes the files named

The rooms are those of examples/ventilation.py. Needs matplotlib (the extra `plot`); takes about half a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import ventilation as v

# Middle tones: they have a contrast of 3 or more on white and on near-black.
INK, TRUE, PLAYED, KNOWN = "#7d7d7d", "#2b83ba", "#d7702a", "#6a9a3a"
DAY, DAYS, SEED = 0, 30, 1
SLOPES = {False: (0.0, 0.12, 0.221, 0.4), True: (0.0, 0.07, 0.12, 0.25)}


def draw_people(ax: Any, played: dict[str, v.Days]) -> None:
    """The people of the day, those that are played, and those estimated from a public fan on raw readings."""
    hours = np.arange(v.DECISIONS) * v.EVERY / v.PER_HOUR
    people = np.array(v.PEOPLE)
    days = played[v.BY_RAW.name]
    read = v.attack(v.listen(v.BY_RAW, days), v.exposed()).paths[DAY, 0]
    ax.step(hours, people[days.theta[DAY]], where="post", color=TRUE, lw=2.0, label="in the room")
    ax.step(hours, people[played[v.BY_DISGUISED.name].pseudo[DAY]], where="post", color=PLAYED, lw=1.4, label="played")
    middle = hours + 0.5 * v.EVERY / v.PER_HOUR
    ax.plot(middle, people[read], ".", color=KNOWN, ms=6, label="read off a fan\nthat reacts to raw readings")
    ax.set(
        xlabel="hours",
        ylabel="people",
        ylim=(-0.6, 14.5),
        yticks=v.PEOPLE,
        title="The same day: true, played and estimated",
    )
    ax.legend(frameon=False, loc="upper left", fontsize=8)


def draw_trade(ax: Any, rows: list[v.Row]) -> None:
    """Time above the limit by the power of the fan, for two randomizers; numbers are leakages in nats."""
    for scheme, colour in ((v.BY_DISGUISED, PLAYED), (v.CAUTIOUS, TRUE)):
        points = []
        for slope in SLOPES[scheme.cautious]:
            made = v.design(scheme.cautious, slope)
            days, leakage = v.simulate(scheme, made, DAYS, SEED), made.expected_leakage(v.DECISIONS)
            points.append((100.0 * (days.fan**3).mean(), 100.0 * (days.co2 > v.LIMIT).mean(), leakage))
        power, above, _ = zip(*points, strict=True)
        ax.plot(power, above, "o-", color=colour, lw=1.4, ms=4, label=scheme.name)
        for x, y, leakage in points:
            ax.annotate(f"{leakage:.1f}", (x, y), (5, 5), textcoords="offset points", fontsize=8, color=colour)
    raw = {r.name: r for r in rows if r.name in (v.HIDDEN.name, v.BY_RAW.name)}
    label = "\n".join(f"{name}: {r.told:.1f}" for name, r in raw.items())
    hidden = raw[v.HIDDEN.name]
    ax.plot(100.0 * hidden.power, 100.0 * hidden.above, "s", color=KNOWN, ms=6, label=label)
    ax.set(xlabel="power of the fan, percent of full", ylabel="time above 1000 ppm, percent", ylim=(-0.7, 20.0))
    ax.set(xlim=(10.0, 75.0), title="Air and power, by the leakage a day (nats)")
    ax.legend(frameon=False, loc="upper right", fontsize=8)


def main(paths: list[Path]) -> None:
    """Draw, and write every file named."""
    rows, played = v.table(DAYS, SEED)
    style = {
        "font.size": 10, "axes.titlesize": 11, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
        "axes.titlecolor": INK, "xtick.color": INK, "ytick.color": INK, "svg.hashsalt": "understudy",
    }  # fmt: skip
    with plt.rc_context(style):
        figure, three = plt.subplots(1, 3, figsize=(12.6, 3.9), layout="constrained")
        v.draw_day(three[0], played, DAY)
        draw_people(three[1], played)
        draw_trade(three[2], rows)
        for path in paths:
            svg = path.suffix == ".svg"
            figure.savefig(path, transparent=True, dpi=150, metadata={"Date": None} if svg else None)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [Path(__file__).with_name("closed-loop.svg")])
