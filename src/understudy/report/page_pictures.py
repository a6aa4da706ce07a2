"""Small pictures inside a page: a map of probabilities, and curves. Plain SVG in the colours of the page.

They follow the light or the dark set of colours, print, and need no package that draws. What they show stands in a
table beside them as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WRITTEN = 12  # beyond so many rows or columns numbers would not be readable
_CELL, _ROW, _NAMES = 74, 34, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 78, 34, 52

# What the pictures add to the style of the page.
STYLE = """
svg .cell{fill:var(--accent)}svg .axis{stroke:var(--faint);stroke-width:1;fill:none}
svg .grid{stroke:var(--line);stroke-width:1}svg .one{stroke:var(--accent);stroke-width:2.2;fill:none}
svg .two{stroke:var(--second);stroke-width:2;fill:none;stroke-dasharray:7 4}
svg .here{fill:var(--ground);stroke:var(--ink);stroke-width:2.5}
svg text.here{fill:var(--ink);font-weight:600;stroke:var(--ground);stroke-width:5;paint-order:stroke}
svg text.faint{fill:var(--faint)}
svg .thin{stroke-width:1.6}svg .band{fill:var(--line)}svg text.title{font-weight:600}
svg .guide{stroke:var(--ink);stroke-width:1.3;stroke-dasharray:4 4}
svg .disguised{--own:var(--accent)}svg .noise,svg .held{--own:var(--faint)}svg .raw{--own:var(--second)}
svg .interval{stroke:var(--own);stroke-width:2}svg .disk{fill:var(--own)}
svg .open{fill:var(--ground);stroke:var(--own);stroke-width:2}
svg text.one{fill:var(--accent);stroke:none}svg text.two{fill:var(--second);stroke:none}
"""


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
    parts = [f'<text class="faint" x="{_NAMES}" y="14">played instead</text>']
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
            told = f"{rows[i]} plays {columns[j]}: {_probability(p)}"
            parts.append(
                f'<rect class="cell" x="{x + 1}" y="{y + 1}" width="{wide - 2}" height="{high - 2}" '
                f'fill-opacity="{0.04 + 0.5 * p:.3f}"><title>{escape(told)}</title></rect>'
            )
            if written:
                faint = ' class="faint"' if p == 0.0 else ""
                at = f'x="{x + wide / 2:.1f}" y="{y + high / 2 + 4:.1f}" text-anchor="middle"'
                parts.append(f"<text {at}{faint}>{escape(_probability(p))}</text>")
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


def _probability(x: float) -> str:
    """Three decimals, nothing rounded to certainty or to never."""
    if x in (0.0, 1.0):
        return f"{x:g}"
    return "<0.001" if x < 0.0005 else ">0.999" if x >= 0.9995 else f"{x:.3f}"
