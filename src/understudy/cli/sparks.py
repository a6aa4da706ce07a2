"""True and disguised readings side by side, as a table with a small curve in each row.

On a terminal the table fills as the readings come; elsewhere it is printed once, full.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from understudy.laws.base import Array

_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.-:=+*#"
_PAUSE = 0.06  # seconds between readings on a terminal


def spark(values: Array, low: float, high: float, width: int, blocks: str = _BLOCKS) -> str:
    """A curve of at most `width` letters, whose heights go from `low` to `high`.

    >>> spark(np.array([0.0, 1.0, 2.0, 3.0]), 0.0, 3.0, 4), spark(np.arange(100.0), 0.0, 99.0, 5)
    ('▁▃▆█', '▂▃▅▆▇')
    """
    means = [float(part.mean()) for part in np.array_split(values, min(width, len(values)))]
    top = len(blocks) - 1
    scale = top / (high - low) if high > low else 0.0
    return "".join(blocks[min(top, max(0, round(scale * (mean - low))))] for mean in means)


def side_by_side(console: Console, streams: Mapping[str, Array], shown: int) -> None:
    """The first `shown` readings of each stream as a curve, and some of their values."""
    if not console.is_terminal:
        console.print(_table(console, streams, shown, shown))
        return
    with Live(_table(console, streams, shown, 1), console=console, auto_refresh=False) as live:
        for k in range(2, shown + 1):
            time.sleep(_PAUSE)
            live.update(_table(console, streams, shown, k), refresh=True)


def _table(console: Console, streams: Mapping[str, Array], shown: int, seen: int) -> Table:
    table = Table(title="What the sensor says, and what leaves the building", title_justify="left")
    last = {len(values) for values in streams.values()}
    at = sorted({1, 10, shown, *last})
    wide = max(12, min(shown, console.width - 28 - 9 * len(at)))
    table.add_column("CO2", no_wrap=True)
    table.add_column(f"readings 1 to {shown}", no_wrap=True, min_width=wide)
    for k in at:
        table.add_column(f"{k}", justify="right", min_width=6)
    first = np.concatenate([values[:shown] for values in streams.values()])
    blocks = _BLOCKS if console.encoding.lower().startswith("utf") else _ASCII
    for name, values in streams.items():
        curve = spark(values[:seen], float(first.min()), float(first.max()), max(1, wide * seen // shown), blocks)
        # the last readings come long after those of the curve
        table.add_row(name, curve, *(f"{values[k - 1]:.2f}" if k <= seen or seen == shown else "" for k in at))
    return table
