"""Small pictures inside a page, as plain SVG: a map of probabilities, curves, adversaries with their intervals, scores.

They follow the light or the dark set of colours of the page, print, and need no package that draws. What they show
stands in a table beside them as well.

What is attacked is told by form as well as by colour: a disk for the disguised output, a square for raw readings, a
triangle for readings with noise, one upside down for those with a constant offset, a smaller disk for the output as
insiders attack it, a diamond for scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from understudy.adversaries.rivals import Rivals
from understudy.adversaries.statistics import EDGE, Figure, ScoreRow
from understudy.adversaries.utility import Channel
from understudy.report.facts import AuditLine, Guide
from understudy.text import DATA_SHORT, RIVALS

_WRITTEN = 12  # beyond so many rows or columns numbers would not be readable
_CELL, _ROW, _NAMES = 74, 34, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 78, 34, 52


def heat_map(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], words: str) -> str:
    """Probabilities as a map, a row for each of `rows`; `words` describes it to who does not see it.

    >>> picture = heat_map(["0", "1"], ["0", "1"], [[0.9, 0.1], [0.1, 0.9]], "mostly the truth")
    >>> picture.count("<rect"), "0.900" in picture
    (4, True)
    """
    written = max(len(rows), len(columns)) <= _WRITTEN
    wide = _CELL if written else max(8, 720 // len(columns))
    high = _ROW if written else max(8, 480 // len(rows))
    width, height = _NAMES + wide * len(columns) + 8, 48 + high * len(rows)
    parts = [f'<text class="faint" x="{_NAMES}" y="14">pseudo value</text>']
    every = -(-len(columns) // (_WRITTEN if not written else len(columns) or 1))
    for j in range(0, len(columns), max(1, every)):
        x = _NAMES + wide * (j + 0.5)
        parts.append(f'<text x="{x:.1f}" y="36" text-anchor="middle">{escape(_short(columns[j], 10))}</text>')
    skip = max(1, -(-len(rows) // 24))
    for i, row in enumerate(values):
        y = 44 + high * i
        if i % skip == 0:
            name = escape(_short(rows[i], 22))
            parts.append(f'<text x="{_NAMES - 10}" y="{y + high / 2 + 4:.1f}" text-anchor="end">{name}</text>')
        for j, p in enumerate(row):
            x = _NAMES + wide * j
            told = f"{columns[j]} given {rows[i]}: {probability(p)}"
            parts.append(
                f'<rect class="cell" x="{x + 1}" y="{y + 1}" width="{wide - 2}" height="{high - 2}" '
                f'fill-opacity="{0.04 + 0.5 * p:.3f}"><title>{escape(told)}</title></rect>'
            )
            if written:
                faint = ' class="faint"' if p == 0.0 else ""
                at = f'x="{x + wide / 2:.1f}" y="{y + high / 2 + 4:.1f}" text-anchor="middle"'
                parts.append(f"<text {at}{faint}>{escape(probability(p))}</text>")
    return _svg(width, height, words, parts)


@dataclass(frozen=True, slots=True)
class Curves:
    """One curve on the left axis, perhaps one on the right, and a point on the first: what `curve` draws."""

    x: Sequence[float]
    y: Sequence[float]
    second: Sequence[float] | None
    here: tuple[float, float] | None
    names: tuple[str, str, str]  # of x, y and the second


def curve(given: Curves, words: str) -> str:
    """A trade-off: the first curve whole, the second dashed, the point of this design marked and named.

    >>> drawn = curve(Curves([0, 1], [2, 0], [50, 0], (0.5, 1.0), ("nats", "ppm", "%")), "falls")
    >>> drawn.count("<polyline"), "this design" in drawn
    (2, True)
    """
    width, height = 760, 380
    right, top = _top(given.x), _top(given.y)

    def px(x: float) -> float:
        return _LEFT + (width - _LEFT - _RIGHT) * x / right

    def py(y: float, most: float) -> float:
        return height - _BOTTOM - (height - _TOP - _BOTTOM) * y / most

    parts = []
    for tick in ticks(right):
        parts.append(f'<text x="{px(tick):.1f}" y="{height - _BOTTOM + 18}" text-anchor="middle">{tick:g}</text>')
    for tick in ticks(top):
        y = py(tick, top)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="one" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{height - _BOTTOM}H{width - _RIGHT}"/>')
    middle = (_LEFT + width - _RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{height - 12}" text-anchor="middle">{escape(given.names[0])}</text>')
    parts.append(f'<text class="one" x="8" y="16">{escape(given.names[1])}</text>')
    if given.second is not None:
        # its scale goes on above it: with two values both curves have one form, and would lie on each other
        most = 1.5 * _top(given.second)
        for tick in ticks(most):
            y = py(tick, most)
            parts.append(f'<text class="two" x="{width - _RIGHT + 8}" y="{y + 4:.1f}">{tick:g}</text>')
        parts.append(f'<text class="two" x="{width - 8}" y="16" text-anchor="end">{escape(given.names[2])}</text>')
        points = " ".join(f"{px(x):.1f},{py(y, most):.1f}" for x, y in zip(given.x, given.second, strict=True))
        parts.append(f'<polyline class="two" points="{points}"/>')
    points = " ".join(f"{px(x):.1f},{py(y, top):.1f}" for x, y in zip(given.x, given.y, strict=True))
    parts.append(f'<polyline class="one" points="{points}"/>')
    if given.here is not None:
        x, y = px(min(given.here[0], right)), py(min(given.here[1], top), top)
        parts.append(f'<circle class="here" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        left = x > width * 0.7
        parts.append(
            f'<text class="here" x="{x + (-12 if left else 12):.1f}" y="{y - 10:.1f}" '
            f'text-anchor="{"end" if left else "start"}">this design</text>'
        )
    return _svg(width, height, words, parts)


def ticks(top: float) -> list[float]:
    """Round numbers from 0 to at most `top`, four to eight of them.

    >>> ticks(0.7), ticks(130.0)
    ([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0])
    """
    if not (top > 0.0 and math.isfinite(top)):
        return [0.0]
    size = 10.0 ** math.floor(math.log10(top))
    step = next(m * size for m in (0.1, 0.2, 0.5, 1.0, 2.0) if top / (m * size) <= 8.0)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(k * step, digits) for k in range(int(top / step * (1.0 + 1e-9)) + 1)]


def _top(values: Sequence[float]) -> float:
    most = max((v for v in values if math.isfinite(v)), default=0.0)
    return 1.04 * most if most > 0.0 else 1.0


def _svg(width: float, height: float, words: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" aria-label="{escape(words)}">'
        f"{''.join(parts)}</svg>"
    )


def _short(word: str, most: int) -> str:
    return word if len(word) <= most else word[: most - 1] + "…"


def probability(x: float) -> str:
    """Three decimals, nothing rounded to certainty or to never.

    >>> [probability(x) for x in (0.0, 1e-5, 0.25, 0.99999, 1.0)]
    ['0', '<0.001', '0.250', '>0.999', '1']
    """
    if x in (0.0, 1.0):
        return f"{x:g}"
    return "<0.001" if x < 0.0005 else ">0.999" if x >= 0.9995 else f"{x:.3f}"


# Pictures of an audit -------------------------------------------------------------------------------------------------

KINDS = tuple(DATA_SHORT)
_WIDTH, _NAMES_AUDIT, _RIGHT_AUDIT, _ROW_AUDIT = 860, 236, 26, 40
_PANEL, _HIGH, _GAP = 270, 170, 20
_PER_ROW = 3


def dots(lines: Sequence[AuditLine], guides: Sequence[Guide], axis: str, words: str) -> str:
    """Adversaries one below the other, each with its figures and their intervals; `words` tells it by ear.

    >>> lines = [AuditLine("exact", {"disguised": Figure(0.6, 0.55, 0.65)})]
    >>> picture = dots(lines, [Guide(0.5, "chance")], "share", "one")
    >>> picture.count("<circle"), "chance" in picture
    (2, True)
    """
    kinds = [kind for kind in KINDS if any(kind in line.figures for line in lines)]
    low, high, step = _span(lines, guides)
    labels = _stagger(guides, low, high)
    top = 40 + 18 * (1 + max((level for _, level in labels), default=-1))
    high_row = max(_ROW_AUDIT, 9 * len(kinds) + 4)
    bottom = top + high_row * len(lines)

    def px(x: float) -> float:
        return _NAMES_AUDIT + (_WIDTH - _NAMES_AUDIT - _RIGHT_AUDIT) * (min(max(x, low), high) - low) / (high - low)

    parts = _legend(kinds)
    for k in range(round((high - low) / step) + 1):
        x = px(low + k * step)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{_tick(low + k * step)}</text>')
    for guide, level in labels:
        x, above = px(guide.at), top - 6 - 18 * level
        side = "end" if x > _WIDTH - 150 else "start" if x < _NAMES_AUDIT + 60 else "middle"
        parts.append(f'<line class="guide" x1="{x:.1f}" x2="{x:.1f}" y1="{above + 3}" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{above}" text-anchor="{side}">{escape(guide.name)}</text>')
    for i, line in enumerate(lines):
        y = top + high_row * (i + 0.5)
        parts.append(
            f'<text x="{_NAMES_AUDIT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(_short(line.name, 34))}</text>'
        )
        for place, kind in enumerate(kinds):
            if kind in line.figures and math.isfinite(line.figures[kind].value):
                at = y + 9.0 * (place - (len(kinds) - 1) / 2.0)
                parts += _whisker(kind, line.figures[kind], px, at, line.name)
    middle = (_NAMES_AUDIT + _WIDTH - _RIGHT_AUDIT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{bottom + 42}" text-anchor="middle">{escape(axis)}</text>')
    return _svg(_WIDTH, bottom + 52, words, parts)


def rival_plane(rivals: Rivals, channel: int, words: str) -> str:
    """Balanced accuracy against distortion, in percent of the mean reading of a channel.

    A dashed line leads from the raw readings to the constant output: a coin by epoch. The curve is the limit.
    """
    width, height = 760, 380
    mean = rivals.mean_reading[channel]
    shown = [row for row in rivals.rows if row.level != "equal accuracy"]
    points = [(100.0 * row.distortion[channel] / mean, row) for row in shown]
    limit = list(zip(rivals.limit.percent[channel], rivals.limit.accuracies, strict=True))
    limit = [(x, a) for x, a in limit if math.isfinite(x)]
    right = _top([x for x, _ in points if math.isfinite(x)])
    low = math.floor(10.0 * min(rivals.chance, *(row.balanced.value for row in shown)) - 1e-9) / 10.0

    def px(x: float) -> float:
        return _LEFT + (width - _LEFT - _RIGHT) * min(x, right) / right

    def py(a: float) -> float:
        return height - _BOTTOM - (height - _TOP - _BOTTOM) * (a - low) / (1.0 - low)

    parts = []
    for tick in ticks(right):
        parts.append(f'<text x="{px(tick):.1f}" y="{height - _BOTTOM + 18}" text-anchor="middle">{tick:g}</text>')
    for k in range(round(10 * (1.0 - low)) + 1):
        y = py(low + 0.1 * k)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{low + 0.1 * k:.1f}</text>')
    middle = (_LEFT + width - _RIGHT) / 2
    axis = "mean absolute distortion, percent of the mean reading"
    parts.append(f'<text x="{middle:.0f}" y="{height - 12}" text-anchor="middle">{axis}</text>')
    parts.append('<text x="8" y="16">balanced accuracy</text>')
    ends = [(x, row.balanced.value) for x, row in points if row.name in ("raw", "constant")]
    for style, line in (("two", ends), ("one", sorted(limit))):
        if len(line) > 1:
            path = " ".join(f"{px(x):.1f},{py(a):.1f}" for x, a in line)
            parts.append(f'<polyline class="{style}" points="{path}"/>')
    labels: list[tuple[float, float, float]] = []
    for x, row in points:
        if not math.isfinite(x):
            continue
        at, y, here = px(x), py(row.balanced.value), row.name == "design"
        told = escape(f"{RIVALS[row.name]}: {x:.3g} percent, {row.balanced}")
        parts.append(
            f'<circle class="{"here" if here else "open raw"}" cx="{at:.1f}" cy="{y:.1f}" r="{6 if here else 4}">'
            f"<title>{told}</title></circle>"
        )
        side = "end" if at > width * 0.7 else "start"
        off = -10 if side == "end" else 10
        name = escape(RIVALS[row.name].partition(",")[0])
        style, beside = ' class="here"' if here else "", y - 8.0
        start = at + off - (8.0 * len(name) if side == "end" else 0.0)
        while any(abs(beside - b) < 15.0 and start < to and start + 8.0 * len(name) > of for of, to, b in labels):
            beside -= 15.0  # above those that are there
        labels.append((start, start + 8.0 * len(name), beside))
        parts.append(f'<text{style} x="{at + off:.1f}" y="{beside:.1f}" text-anchor="{side}">{name}</text>')
    return _svg(width, height, words, parts)


def bells(rows: Sequence[ScoreRow], words: str) -> str:
    """Histograms of scores on the bell curve that they have under a right model, a panel for each value and channel.

    >>> row = ScoreRow("0", "co2", 100, 0.0, 1.0, (1 / 32,) * 32, 0.0, (0.0,) * 20)
    >>> bells([row], "even").count("<polyline")
    1
    """
    panels = []
    for row in rows:
        width = 2.0 * EDGE / len(row.shares)
        most = max(0.55, *(share / width for share in row.shares))

        def px(z: float) -> float:
            return 10 + (_PANEL - 20) * (z + EDGE) / (2.0 * EDGE)

        def py(density: float, most: float = most) -> float:
            return 134 - 104 * density / most

        steps = [-EDGE + 0.1 * k for k in range(round(20 * EDGE) + 1)]
        bell = " ".join(f"L{px(z):.1f} {py(math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)):.1f}" for z in steps)
        shape = f'<path class="band" d="M{px(-EDGE):.1f} {py(0.0):.1f} {bell} L{px(EDGE):.1f} {py(0.0):.1f}Z"/>'
        points = []
        for k, share in enumerate(row.shares):
            points += [f"{px(-EDGE + k * width):.1f},{py(share / width):.1f}",
                       f"{px(-EDGE + (k + 1) * width):.1f},{py(share / width):.1f}"]  # fmt: skip
        found = [shape, f'<polyline class="one thin" points="{" ".join(points)}"/>']
        found += [f'<path class="axis" d="M10 134H{_PANEL - 10}"/>']
        found += [f'<text x="{px(z):.1f}" y="150" text-anchor="middle">{z:g}</text>' for z in (-3.0, 0.0, 3.0)]
        told = f"mean {row.mean:.2f}, spread {row.spread:.2f}"
        found.append(f'<text class="faint" x="{_PANEL / 2}" y="167" text-anchor="middle">{told}</text>')
        panels.append((_title(row), found))
    return _panels(panels, words)


def distributions(channels: Sequence[Channel], words: str) -> str:
    """How often readings, filled, and outputs, a line, have each size, a panel for each channel.

    >>> unknown = Figure(0.0, 0.0, 0.0)
    >>> known = {"raw": (400.0, 900.0), "released": (450.0, 800.0), "shares": ((0.5, 0.5), (0.2, 0.8))}
    >>> distributions([Channel("co2", unknown, unknown, unknown, **known)], "two bars").count("<polyline")
    1
    """
    panels = []
    for channel in channels:
        low, high = min(channel.raw[0], channel.released[0]), max(channel.raw[-1], channel.released[-1])
        most, wide = max(map(max, channel.shares)), (_PANEL - 20) / len(channel.shares[0])
        outlines = []
        for shares in channel.shares:
            tops = [(k + side, share / most) for k, share in enumerate(shares) for side in (0, 1)]
            outlines.append(" ".join(f"{10 + wide * x:.1f},{134 - 104 * y:.1f}" for x, y in tops))
        found = [f'<polygon class="band" points="10,134 {outlines[0]} {_PANEL - 10},134"/>']
        found.append(f'<polyline class="one thin" points="{outlines[1]}"/>')
        found.append(f'<path class="axis" d="M10 134H{_PANEL - 10}"/>')
        ends = ((10, "start", low), (_PANEL / 2, "middle", (low + high) / 2.0), (_PANEL - 10, "end", high))
        found += [f'<text x="{x}" y="150" text-anchor="{anchor}">{value:.4g}</text>' for x, anchor, value in ends]
        panels.append((channel.name, found))
    return _panels(panels, words)


def memories(rows: Sequence[ScoreRow], words: str) -> str:
    """Correlations of scores by lag, with the band that holds a lag of white ones 95 percent of the time.

    >>> row = ScoreRow("0", "co2", 100, 0.0, 1.0, (1 / 32,) * 32, 0.0, (0.5, float("nan")))
    >>> memories([row], "two lags").count("<circle")
    1
    """
    panels = []
    for row in rows:
        band = 1.959964 / math.sqrt(row.count)
        most = max(0.1, 1.15 * max((abs(r) for r in row.memory if math.isfinite(r)), default=0.0), 2.0 * band)

        def py(r: float, most: float = most) -> float:
            return 84 - 50 * r / most

        count = len(row.memory)
        high = py(-band) - py(band)
        found = [
            f'<rect class="band" x="34" y="{py(band):.1f}" width="{_PANEL - 44}" height="{high:.1f}"/>',
            f'<path class="axis" d="M34 84H{_PANEL - 10}"/>',
        ]
        for mark in (-most, most):
            found.append(f'<text class="faint" x="30" y="{py(mark) + 4:.1f}" text-anchor="end">{mark:.1g}</text>')
        for k, r in enumerate(row.memory):
            if math.isfinite(r):
                x = 34 + (_PANEL - 44) * (k + 1) / (count + 1)
                found.append(f'<line class="one" x1="{x:.1f}" x2="{x:.1f}" y1="84" y2="{py(r):.1f}"/>')
                told = escape(f"{k + 1} readings apart: {r:.3f}")
                dot = f'<circle class="disk disguised" cx="{x:.1f}" cy="{py(r):.1f}" r="3">'
                found.append(f"{dot}<title>{told}</title></circle>")
        found.append(
            f'<text class="faint" x="{_PANEL / 2}" y="160" text-anchor="middle">1 to {count} readings apart</text>'
        )
        panels.append((_title(row), found))
    return _panels(panels, words)


def _title(row: ScoreRow) -> str:
    return f"{_short(row.channel, 18)}, {_short(row.value, 12)}"


def _panels(panels: Sequence[tuple[str, list[str]]], words: str) -> str:
    across = min(_PER_ROW, max(1, len(panels)))
    down = -(-len(panels) // across)
    parts = []
    for k, (title, found) in enumerate(panels):
        x, y = (k % across) * (_PANEL + _GAP), (k // across) * (_HIGH + _GAP)
        head = f'<text class="title" x="{_PANEL / 2}" y="16" text-anchor="middle">{escape(title)}</text>'
        parts.append(f'<g transform="translate({x} {y})">{head}{"".join(found)}</g>')
    return _svg(across * (_PANEL + _GAP) - _GAP, down * (_HIGH + _GAP), words, parts)


def _whisker(kind: str, figure: Figure, px: Callable[[float], float], y: float, name: str) -> list[str]:
    x = px(figure.value)
    ends = [px(e) if math.isfinite(e) else x for e in (figure.low, figure.high)]
    told = escape(f"{name}, {DATA_SHORT[kind]}: {figure}")
    place = f'x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y:.1f}" y2="{y:.1f}"'
    line = f'<line class="interval {kind}" {place}/>'
    return [line, _marker(kind, x, y, told)]


def _marker(kind: str, x: float, y: float, told: str = "") -> str:
    title = f"<title>{told}</title>" if told else ""
    if kind in ("disguised", "insider"):
        size = 5 if kind == "disguised" else 3.5
        return f'<circle class="disk {kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size}">{title}</circle>'
    if kind == "scores":
        return f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5Z" class="open {kind}">{title}</path>'
    style = f'class="open {kind}"'
    if kind == "raw":
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" {style}>{title}</rect>'
    tip, base = (y + 5, y - 4) if kind == "offset" else (y - 5, y + 4)
    return f'<path d="M{x:.1f} {tip:.1f}L{x + 5:.1f} {base:.1f}H{x - 5:.1f}Z" {style}>{title}</path>'


def _legend(kinds: Sequence[str]) -> list[str]:
    wide = [52 + 7.2 * len(DATA_SHORT[kind]) for kind in kinds]
    parts, x = [], max(0.0, min(float(_NAMES_AUDIT), _WIDTH - sum(wide)))
    for kind, step in zip(kinds, wide, strict=True):
        parts.append(_marker(kind, x + 6, 12))
        parts.append(f'<text x="{x + 18:.0f}" y="16">{DATA_SHORT[kind]}</text>')
        x += step
    return parts


def _span(lines: Sequence[AuditLine], guides: Sequence[Guide]) -> tuple[float, float, float]:
    """The ends of the axis and the distance of its ticks: round numbers around all that is drawn."""
    ends = [e for line in lines for figure in line.figures.values() for e in figure if math.isfinite(e)]
    ends += [guide.at for guide in guides if math.isfinite(guide.at)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    wide = max(high - low, 1e-3)
    size = 10.0 ** math.floor(math.log10(wide))
    step = next(m * size for m in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if wide / (m * size) <= 8.0)
    return (
        step * math.floor(low / step + 1e-9),
        step * max(math.ceil(high / step - 1e-9), math.floor(low / step) + 1),
        step,
    )


def _stagger(guides: Sequence[Guide], low: float, high: float) -> list[tuple[Guide, int]]:
    """Each guide with the line that its name is written on, counted from the axis upwards: none on another."""
    placed: list[tuple[Guide, int]] = []
    ends: list[float] = []
    for guide in sorted((g for g in guides if math.isfinite(g.at)), key=lambda g: g.at):
        centre = (_WIDTH - _NAMES_AUDIT - _RIGHT_AUDIT) * (guide.at - low) / (high - low)
        half = 4.0 * len(guide.name) + 8.0
        level = next((k for k, end in enumerate(ends) if centre - 2.0 * half > end), len(ends))
        if level == len(ends):
            ends.append(0.0)
        ends[level] = centre + 2.0 * half
        placed.append((guide, level))
    return placed


def _tick(x: float) -> str:
    return f"{0.0 if abs(x) < 1e-12 else x:.6g}"
