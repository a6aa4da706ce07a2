"""docs/real-data.md, its appendix and its figures, from the figures that are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np

from studies.real_data.study import ADAPTIVE, HEADLINE, MARGIN, SEEDS

Record = dict[str, Any]
WORDS = Path(__file__).with_name("page.md")
BEFORE = (0.77, 23.2)
"""Mean best adversary and distortion in percent of version 0.2 on the same six recordings, without a fresh share."""


class Case(NamedTuple):
    """A test recording of a room."""

    room: str
    test: str
    figures: Record

    @property
    def name(self) -> str:
        """The room and the recording."""
        return f"{self.room}, {self.test}"


def cases(results: Record, rooms: Iterable[str] | None = None) -> list[Case]:
    """The test recordings of these rooms, or of all."""
    names = [name for name in results if "tests" in results[name]] if rooms is None else rooms
    return [Case(name, t, f) for name in names if name in results for t, f in results[name]["tests"].items()]


def write(results: Record, choices: Record, docs: Path) -> list[Path]:
    """Write the page, the appendix and the figure; returns their paths."""
    words = Template(WORDS.read_text(encoding="utf-8"))
    page, appendix = docs / "real-data.md", docs / "real-data-tables.md"
    page.write_text(words.substitute(parts(results)), encoding="utf-8")
    appendix.write_text("\n".join(choice_tables(results, choices)), encoding="utf-8")
    return [page, appendix, draw(cases(results), docs / "real-data.svg")]


def parts(results: Record) -> dict[str, str]:
    """What the words of the page leave open."""
    six = cases(results, HEADLINE)
    others = [case for case in cases(results) if case.room not in HEADLINE]
    return {
        "summary": "\n".join(f"- {line}" for line in summary(results, six)),
        "headline": protection(six, "chosen"),
        "older": protection(six, "older classes"),
        "seventy": seventy(six),
        "others": protection(others, "chosen"),
        "little": little_to_protect(cases(results)),
        "models": model_table(cases(results)),
        "clock": clock_table(results.get("clock", {})),
        "coin": coin_table(results.get("coin", [])),
        "seeds": str(SEEDS),
        "margin": f"{MARGIN:.2f}",
    }


# Facts ---------------------------------------------------------------------------------------------------------------


def mean_of(those: Sequence[Case], pick: str, *path: Any) -> float:
    """The mean over recordings of one figure of a pick."""
    found = []
    for case in those:
        value = case.figures[pick]
        for key in path:
            value = value[key]
        found.append(value)
    return float(np.mean(found))


def limit_at(figures: Record, accuracy: float) -> float:
    """The limit in percent at the accuracy nearest to this one."""
    return float(figures["limit"][min(figures["limit"], key=lambda a: abs(float(a) - accuracy))])


def excess(row: Record) -> Record | None:
    """The window of the attack on scores with the largest excess."""
    return max(row.get("scores", []), key=lambda w: w["excess"], default=None)


def above_coin(those: Sequence[Case], pick: str) -> list[Case]:
    """Recordings in which a coin by epoch hides more at the same distortion."""
    return [c for c in those if c.figures[pick]["outsider"][0] > c.figures[pick]["rivals"]["coin"] + 1e-9]


def better_than(those: Sequence[Case], pick: str, rival: str) -> int:
    """In how many recordings outsiders find less than in a rival of equal distortion."""
    return sum(c.figures[pick]["outsider"][0] < c.figures[pick]["rivals"][rival] for c in those)


def summary(results: Record, six: list[Case]) -> Iterator[str]:
    """The figures that matter, each with what was wanted."""
    a, control = mean_of(six, "chosen", "outsider", 0), mean_of(six, "chosen", "control", "outsider", 0)
    inside, control_in = mean_of(six, "chosen", "insider", 0), mean_of(six, "chosen", "control", "insider", 0)
    size, constant = 100 * mean_of(six, "chosen", "distortion", 0), 100 * mean_of(six, "chosen", "rivals", "constant")
    raw = mean_of(six, "chosen", "rivals", "raw")
    yield (
        f"**Six recordings at zero budget** (office: test and test2; four classrooms). The best "
        f"adversary has {a:.2f} on "
        f"average, where it has {control:.2f} if the output does not depend on the readings at "
        f"all, and {raw:.2f} on the "
        f"raw readings; at a distortion of {size:.1f} percent of the mean reading. Before there "
        f"was a fresh share it was "
        f"{BEFORE[0]:.2f} at {BEFORE[1]:.1f} percent. Wanted: at most the control and 0.03, at most 21.5 percent: "
        f"**{met(a <= control + 0.03 and size <= 21.5)}**."
    )
    yield from chance_alone(results.get("controls", {}), six)
    constants = [case for case in six if case.figures["chosen"]["fresh"] == 1.0]
    yield (
        f"**A constant costs {constant:.1f} percent.** So the protection is bought almost at the price of showing "
        f"nothing. In {len(constants)} of {len(six)} recordings the training days left no other "
        f"choice than a fresh share "
        "of 1, an output without the readings."
    )
    yield (
        f"**Insiders**, who have labels of other days of the same recording, reach {inside:.2f} (control "
        f"{control_in:.2f}). Wanted: at most the control and 0.08: **{met(inside <= control_in + 0.08)}**."
    )
    b, size_b = mean_of(six, "older classes", "outsider", 0), 100 * mean_of(six, "older classes", "distortion", 0)
    yield (
        f"**Without `us.Adaptive`**, by fresh share and least change alone: {b:.2f} at "
        f"{size_b:.1f} percent. Wanted: 0.67 "
        f"at 19.5 percent: **{met(b <= 0.67 and size_b <= 19.5)}**."
    )
    over = above_coin(six, "chosen")
    yield (
        f"**The coin.** Tossing a coin for each day, at the same distortion, would hide more in "
        f"{len(over)} of {len(six)} "
        "recordings" + (f" ({', '.join(c.name for c in over)})." if over else ".")
    )
    yield (
        f"**Noise of equal distortion** leaves the best adversary more in {better_than(six, 'chosen', 'white noise')} "
        f"(white) and {better_than(six, 'chosen', 'slow noise')} (slow) of {len(six)} recordings."
    )
    louder = [c.name for c in six if "0.70" in c.figures and _told_more(c.figures["0.70"])]
    if louder:
        yield (
            "**A wrong model can tell more than no disguise.** The settings for 0.70, which keep more of the scores, "
            f"left the best adversary more than the raw readings do in {', '.join(louder)}: "
            "readings are whitened by the model of their label, and where that is wrong the label is in the scores."
        )
    yield from model_summary(six)
    test = next(c for c in six if c.name == "candanedo, test")
    if "0.70" in test.figures:
        row = test.figures["0.70"]
        least = limit_at(row, 0.7)
        ratio = 100 * row["distortion"][0] / least
        yield (
            f"**0.70 on the office's test file**: the setting for it has {row['outsider'][0]:.2f} at "
            f"{100 * row['distortion'][0]:.1f} percent, {ratio:.1f} times the least that any method needs for 0.70 "
            f"({least:.1f} percent). Wanted: below the coin, 3.2 times: "
            f"**{met(row['outsider'][0] <= 0.7 and ratio < 3.2)}**."
        )


def chance_alone(controls: Record, six: list[Case]) -> Iterator[str]:
    """What adversaries find in the same outputs where fresh scores drive them, and what the chosen settings add."""
    known = [case for case in six if case.name in controls]
    if not known:
        return
    found = {
        who: (mean_of(known, "chosen", who, 0), float(np.mean([controls[case.name][who][0] for case in known])))
        for who in ("outsider", "insider")
    }
    (a, chance), (b, inside) = found["outsider"], found["insider"]
    yield (
        "**What chance alone gives.** A least-change output with a fresh share of 1 is a constant, in which nobody "
        "finds anything. Where the very outputs of the chosen settings are driven by fresh scores instead, so that no "
        f"reading enters, the best of three adversaries still has {chance:.2f} (insiders {inside:.2f}): days are few, "
        "and an output that begins anew with each block of readings shows the time. Above that control the settings "
        f"leave {a - chance:+.2f} (insiders {b - inside:+.2f}). Wanted: 0.03 (0.08): "
        f"**{met(a - chance <= 0.03)}** (**{met(b - inside <= 0.08)}**)."
    )


def _told_more(row: Record) -> bool:
    return bool(row["outsider"][0] > row["rivals"]["raw"])


def model_summary(those: list[Case]) -> Iterator[str]:
    """The likelihood of adaptive models against the best other class, and the attack on scores."""
    gains, leaks = [], []
    for case in those:
        rows = {name: row for name, row in case.figures["models"].items() if "failure" not in row}
        older = [row["log-likelihood"] for name, row in rows.items() if name != ADAPTIVE]
        if ADAPTIVE in rows and older:
            gains.append(rows[ADAPTIVE]["log-likelihood"] - max(older))
        found = [w["excess"] for row in rows.values() if (w := excess(row)) is not None]
        if found:
            leaks.append(min(found))
    if gains:
        yield (
            f"**`us.Adaptive`** has a held-out log-likelihood {np.mean(gains):+.2f} nats a reading "
            f"from that of the best "
            f"other class, {min(gains):+.2f} to {max(gains):+.2f} by recording. Wanted: never worse, "
            f"at least 0.1 better "
            f"on average: **{met(min(gains) >= 0.0 and np.mean(gains) >= 0.1)}**."
        )
    if leaks:
        yield (
            f"**Scores attacked with boosting**, the class whose scores tell least: {min(leaks):+.2f} "
            f"to {max(leaks):+.2f} "
            f"above fresh scores. Wanted: at most 0.05 in each: **{met(max(leaks) <= 0.05)}**."
        )


def met(good: Any) -> str:
    """Whether something wanted came out."""
    return "met" if good else "not met"


# Tables --------------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table in Markdown; all but the first columns are aligned to the right.

    >>> print(table(["a", "b"], [["x", "1"]]))
    | a | b |
    |---|---:|
    | x | 1 |
    """
    marks = ["---"] * left + ["---:"] * (len(head) - left)
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join(marks)}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def figure(x: float | None, places: int = 2) -> str:
    """A number, or a dash."""
    return "-" if x is None or math.isnan(x) else f"{x:.{places}f}"


def minutes(period: float | None) -> str:
    """A period in words."""
    return "" if period is None else f", {period / 60:.0f} min"


def setting(row: Record) -> str:
    """Model, period, output and share in a few words."""
    return f"{row['model']}{minutes(row['period'])}, {row['output']}, {row['fresh']:g}"


def protection(those: Sequence[Case], pick: str) -> str:
    """One row a recording: what was chosen, what adversaries reach, beside rivals and the limit."""
    head = [
        "recording", "setting (class, output, share)", "raw", "outsider", "[95 percent]", "insider", "control",
        "change, %", "constant, %", "white", "slow", "coin", "limit, %",
    ]  # fmt: skip
    rows = []
    for case in those:
        row = case.figures.get(pick)
        if row is None:
            rows.append([case.name, "no setting stays within the control", *["-"] * (len(head) - 2)])
            continue
        rivals = row["rivals"]
        low, high = row["interval"]
        rows.append(
            [
                case.name, setting(row), figure(rivals["raw"]), figure(row["outsider"][0]),
                f"[{low:.2f}, {high:.2f}]", figure(row["insider"][0]),
                f"{row['control']['outsider'][0]:.2f} / {row['control']['insider'][0]:.2f}",
                figure(100 * row["distortion"][0], 1), figure(100 * rivals["constant"], 1),
                figure(rivals["white noise"]), figure(rivals["slow noise"]), figure(rivals["coin"]),
                figure(limit_at(row, row["outsider"][0]), 1),
            ]
        )  # fmt: skip
    return table(head, rows, 2)


def seventy(those: Sequence[Case]) -> str:
    """What keeps the best adversary to 0.70 on training days, and what it does elsewhere."""
    head = ["recording", "setting", "outsider", "insider", "change, %", "coin for it, %", "limit at 0.70, %", "ratio"]
    rows = []
    for case in those:
        row = case.figures.get("0.70")
        if row is None:
            rows.append([case.name, "none", *["-"] * 6])
            continue
        rivals, least = row["rivals"], limit_at(row, 0.7)
        share = (rivals["raw"] - 0.7) / (rivals["raw"] - 0.5)
        coin = 100 * rivals["constant"] * min(1.0, max(0.0, share))
        size = 100 * row["distortion"][0]
        rows.append(
            [
                case.name, setting(row), figure(row["outsider"][0]), figure(row["insider"][0]), figure(size, 1),
                figure(coin, 1), figure(least, 1), "-" if least < 0.05 else figure(size / least, 1),
            ]
        )  # fmt: skip
    return table(head, rows, 2)


def little_to_protect(those: Sequence[Case]) -> str:
    """What raw readings add to the clock."""
    rows = []
    for case in those:
        gain = case.figures["chosen"]["rivals"]["raw over clock"] if "chosen" in case.figures else None
        verdict = "" if gain is None else "little to protect" if gain < 0.05 else "something to protect"
        rows.append([case.name, str(case.figures["days"]), "-" if gain is None else f"{gain:+.2f}", verdict])
    return table(["recording", "days", "raw readings over the clock", ""], rows)


def model_table(those: Sequence[Case]) -> str:
    """Held-out log-likelihood and the attack on scores, for every class."""
    rows = []
    for case in those:
        for name, row in case.figures["models"].items():
            if "failure" in row:
                rows.append([case.name, name, "-", "-", "-"])
                continue
            w = excess(row)
            span = "-" if w is None else f"[{w['interval'][0]:+.2f}, {w['interval'][1]:+.2f}]"
            size = "not tested" if w is None else f"{w['excess']:+.2f}"
            rows.append([case.name, name, figure(row["log-likelihood"], 3), size, span])
    return table(["recording", "class", "log-likelihood, nats a reading", "scores above fresh scores", ""], rows, 2)


def clock_table(found: Record) -> str:
    """Designs by the clock."""
    head = ["recording", "change, %", "clock alone", "gain over it", "least and greatest", "raw: gain"]
    rows = [
        [
            name, figure(row["percent"][0], 1), figure(row["clock alone"][0]), f"{row['gain'][0]:+.3f}",
            f"{row['gain'][1]:+.3f} to {row['gain'][2]:+.3f}", f"{row['raw gain'][0]:+.3f}",
        ]
        for name, row in found.items()
    ]  # fmt: skip
    return table(head, rows)


def coin_table(rows: Sequence[Record]) -> str:
    """Coins by day, beside the line from raw readings to a constant."""
    if not rows:
        return "Not measured."
    raw = rows[0]["balanced"]
    head = ["q", "best adversary", "[95 percent]", "the line", "change, %"]
    made = [
        [
            f"{row['q']:g}", f"{row['balanced']:.3f} ({row['adversary']})",
            f"[{row['interval'][0]:.2f}, {row['interval'][1]:.2f}]", f"{raw - (raw - 0.5) * row['q']:.3f}",
            figure(row["percent"], 1),
        ]
        for row in rows
    ]  # fmt: skip
    return table(head, made)


def choice_tables(results: Record, choices: Record) -> Iterator[str]:
    """The appendix: what every setting came to on the training days."""
    yield "# Real data: what was measured on training days\n"
    yield "Every setting of the [study](real-data.md), before a test recording was opened: mean"
    yield "absolute change in percent"
    yield "of the mean reading and balanced accuracy of the best adversary, by fresh share. Days"
    yield "are dealt into five folds."
    yield "The SHA-256 is that of the file in `studies/real_data/choices/`.\n"
    for room, rows in sorted(choices.items()):
        yield f"## {room}\n"
        if room in results:
            yield f"SHA-256 `{results[room]['choice']}`.\n"
        good = [row for row in rows if "failure" not in row]
        shares = sorted({row["fresh"] for row in good}, reverse=True)
        lines = []
        for path, those in groupby(good, key=lambda row: (row["model"], row["period"], row["output"])):
            by_share = {row["fresh"]: row for row in those}
            cells = [
                f"{100 * by_share[s]['distortion']:.1f}, {by_share[s]['accuracy']:.2f}" if s in by_share else "-"
                for s in shares
            ]
            lines.append([f"{path[0]}{minutes(path[1])}, {path[2]}", *cells])
        yield table(["class, output", *(f"share {s:g}" for s in shares)], lines) + "\n"
        for row in rows:
            if "failure" in row:
                yield f"{row['model']}{minutes(row['period'])}: {row['failure']}.\n"


# Figure --------------------------------------------------------------------------------------------------------------


def draw(those: Sequence[Case], path: Path) -> Path:
    """Accuracy against distortion for each recording: the settings, their rivals, the coin line and the limit."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    shown = [case for case in those if "chosen" in case.figures]
    columns = 3
    lines = max(1, math.ceil(len(shown) / columns))
    with mpl.rc_context({"svg.hashsalt": "understudy", "svg.fonttype": "none", "font.size": 8}):
        made, grid = plt.subplots(lines, columns, figsize=(9.0, 2.2 * lines + 0.9), squeeze=False, sharey=True)
        for ax in grid.ravel()[len(shown) :]:
            ax.set_axis_off()
        for ax, case in zip(grid.ravel(), shown, strict=False):
            _panel(ax, case)
        handles = {label: h for ax in grid.ravel() for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
        made.legend(handles.values(), handles.keys(), loc="lower center", ncols=4, frameon=False)
        made.supylabel("balanced accuracy of the best adversary")
        height = 2.2 * lines + 0.9
        made.supxlabel("change, percent of the mean reading", y=0.68 / height)
        made.tight_layout(rect=(0.0, 0.72 / height, 1.0, 1.0))
        made.savefig(path, metadata={"Date": None})
        plt.close(made)
    return path


def _panel(ax: Any, case: Case) -> None:
    chosen = case.figures["chosen"]
    rivals = chosen["rivals"]
    x, constant = 100 * chosen["distortion"][0], 100 * rivals["constant"]
    chance = min(*map(float, chosen["limit"]), rivals["coin"], chosen["control"]["insider"][0])
    ax.plot([0.0, constant], [rivals["raw"], chance], color="0.6", label="coin line: raw to constant")
    limit = sorted((float(a), y) for a, y in chosen["limit"].items())
    ax.plot([y for _, y in limit], [a for a, _ in limit], "k:", label="limit of any method")
    ax.plot([0.0], [rivals["raw"]], "ko", label="raw readings")
    ax.plot([constant], [chance], "k^", label="constant")
    ax.plot([x], [rivals["white noise"]], "x", color="tab:red", label="white noise")
    ax.plot([x], [rivals["slow noise"]], "+", color="tab:red", label="slow noise")
    low, high = chosen["interval"]
    ax.plot([x, x], [low, high], color="tab:blue", linewidth=1.0)
    ax.plot([x], [chosen["outsider"][0]], "o", color="tab:blue", label="chosen, outsiders")
    ax.plot([x], [chosen["insider"][0]], "o", color="tab:blue", fillstyle="none", label="chosen, insiders")
    other = case.figures.get("0.70")
    if other:
        ax.plot(
            [100 * other["distortion"][0]], [other["outsider"][0]], "s", color="tab:green", label="setting for 0.70"
        )
    ax.set_title(case.name)
    ax.set_xlim(left=0.0)
    ax.set_ylim(0.3, 1.02)
