"""What commands say and where: results on the standard output, progress and warnings on the error stream.

A bar is drawn only on a terminal. Elsewhere long work writes a plain line now and then, and short work none. With
`quiet` there is neither, nor a note on the error stream; warnings and errors stay. `side_by_side` shows true and
disguised readings as a table with a small curve in each row: on a terminal it fills as the readings come, elsewhere it
is printed once, full. `save_figure` writes the pictures that commands draw.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from understudy import text
from understudy._paths import write_whole
from understudy.errors import ConfigurationError, MissingExtraError, UnderstudyWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from understudy._types import Array, Plain

quiet: ContextVar[bool] = ContextVar("quiet", default=False)
"""Whether progress and notes stay off the error stream."""
LINE_EVERY = 10.0
"""Seconds between lines of progress, and before the first, where there is no terminal."""


# Text -----------------------------------------------------------------------------------------------------------------


def say(words: str = "", err: bool = False) -> None:
    """A line; as a note to the error stream where the output itself goes to the standard one."""
    if not (err and quiet.get()):
        typer.echo(words, err=err)


def warn(words: str) -> None:
    """A warning, on the error stream."""
    typer.secho(f"understudy: warning: {words}", fg=typer.colors.YELLOW, err=True)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings of this package as a line each, every text once; those of others as Python shows them."""
    seen: set[str] = set()
    with warnings.catch_warnings():
        before = warnings.showwarning

        def write_line(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            words = " ".join(str(message).split())
            if not issubclass(category, UnderstudyWarning):
                before(message, category, filename, lineno, file, line)
            elif words not in seen:
                seen.add(words)
                warn(words)

        warnings.showwarning = write_line
        yield


def print_json(found: Plain) -> None:
    """Plain data as JSON; what is not defined or infinite is null or a word."""
    typer.echo(json.dumps(_finite(found), indent=2, ensure_ascii=False, default=str, allow_nan=False))


def _finite(found: Any) -> Any:
    if isinstance(found, dict):
        return {str(name): _finite(value) for name, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [_finite(value) for value in found]
    if isinstance(found, float):
        return found if abs(found) < float("inf") else None if found != found else "infinite"
    return found


class Advance(Protocol):
    """Hears the share of the work that is done, from 0 to 1, and what was found on the way."""

    def __call__(self, fraction: float, remark: str = "", /) -> None:
        """Show it."""


@contextmanager
def progress(words: str, steps: bool = True) -> Iterator[Advance]:
    """A bar on the error stream while something long runs, or lines in a log; the function that it yields moves it.

    Without `steps` nothing is known of how far it is, and the bar only shows that it runs.
    """
    console = Console(stderr=True, highlight=False)
    if quiet.get():
        yield lambda _share, _remark="", /: None
        return
    if not console.is_terminal:
        with _log_lines(words) as move_line:
            yield move_line
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<28}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(words, total=1.0 if steps else None)

        def move(fraction: float, remark: str = "", /) -> None:
            bar.update(task, total=1.0, completed=min(max(float(fraction), 0.0), 1.0))
            if remark:
                bar.console.print(escape(remark))

        yield move


@contextmanager
def _log_lines(words: str) -> Iterator[Advance]:
    """A line every so many seconds, also where the work says nothing for longer; each remark once."""
    began = last = heard = time.monotonic()
    share, news, over, turn = 0.0, "", threading.Event(), threading.Lock()

    def write_line(moved: bool) -> None:
        nonlocal last, news, heard
        with turn:
            now = time.monotonic()
            heard = now if moved else heard
            if now - last >= LINE_EVERY:
                last = now
                say(text.progress_line(words, share, now - began, news, now - heard), err=True)
                news = ""

    def move(fraction: float, remark: str = "", /) -> None:
        nonlocal share, news
        share, news = fraction, remark
        write_line(moved=True)

    def write_on() -> None:
        while not over.wait(1.0):
            if time.monotonic() - last >= LINE_EVERY + 1.0:
                write_line(moved=False)

    writer = threading.Thread(target=write_on, daemon=True)
    writer.start()
    try:
        yield move
    finally:
        over.set()
        writer.join()


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """A table, as wide as the terminal allows."""
    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for k, name in enumerate(head):
        table.add_column(escape(name), justify="right" if k in right else "left")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    Console(highlight=False, file=sys.stdout).print(table)


def wrap(words: str, lead: str = "") -> str:
    """A paragraph of at most 80 columns, later lines under the first."""
    import textwrap

    return textwrap.fill(words, 80, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False)


# True and disguised readings side by side -----------------------------------------------------------------------------

_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.-:=+*#"
_PAUSE = 0.06  # seconds between readings on a terminal


def spark(values: Array, low: float, high: float, width: int, blocks: str = _BLOCKS) -> str:
    """A curve of at most `width` letters, whose heights go from `low` to `high`.

    >>> import numpy as np
    >>> spark(np.array([0.0, 1.0, 2.0, 3.0]), 0.0, 3.0, 4), spark(np.arange(100.0), 0.0, 99.0, 5)
    ('▁▃▆█', '▂▃▅▆▇')
    """
    import numpy as np

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
    import numpy as np

    first = np.concatenate([values[:shown] for values in streams.values()])
    blocks = _BLOCKS if console.encoding.lower().startswith("utf") else _ASCII
    for name, values in streams.items():
        curve = spark(values[:seen], float(first.min()), float(first.max()), max(1, wide * seen // shown), blocks)
        # the last readings come long after those of the curve
        table.add_row(name, curve, *(f"{values[k - 1]:.2f}" if k <= seen or seen == shown else "" for k in at))
    return table


# Pictures -------------------------------------------------------------------------------------------------------------


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be written, before any work is done."""
    if path.suffix not in {".png", ".svg", ".pdf"}:
        raise ConfigurationError(f"--plot {path}: the name of a picture must end in .png, .svg or .pdf")
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("a picture needs matplotlib (the extra `plot`): pip install matplotlib") from None
    mpl.use("Agg")  # a file, no window


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure of matplotlib, whole or not at all, and close it."""
    from matplotlib import pyplot as plt

    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], dpi=150)
    plt.close(figure)
    write_whole(path, drawn.getvalue())
