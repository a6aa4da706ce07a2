"""`apply_file`: a file of readings in, a file of disguised readings out.

Rows are read, disguised and written some ten thousands at a time, in the order of the file, so that a file of any
length takes the same memory. Only the time and the disguised readings leave, and what is named to be kept.

**Bad rows** (a text that is no number, an infinity, a time that does not grow) stop the run at the first, or are
skipped. A skipped row is written, with an empty reading: rows out are rows in, in the same order, and the reading
counts as missing. The filters move on through it as through any gap. A row without a usable time has no place in the
sequence; the filters do not see it, unless there is a period by which the gap that it leaves is filled. Whatever could
not be read does not leave. A row whose private value is not known always stops the run: an empty reading there
would show it.

**Gaps** that the models have no exact law across (autoregressions with other than Gaussian noise) cost some outputs:
at the beginning of a sequence and after each gap as many are withheld as the models need readings in a row, and are
written as empty readings. The summary counts them.

**Interrupted runs.** With a ledger, the same file again gives the same file: draws are recorded before anything is
written, and a run that was interrupted is replayed from its beginning.
"""

from __future__ import annotations

import os
import time as clock
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from understudy.errors import ConfigurationError, ReadingError, UnderstudyWarning
from understudy.files.batch import understood
from understudy.files.binding import Binding, bind, family_of
from understudy.files.json_lines import MARK
from understudy.files.labels import labels_of
from understudy.files.layout import Layout, forms_of
from understudy.files.numbers import NumberFormat
from understudy.files.players import Terms
from understudy.files.preparing import aligned
from understudy.files.rows import batches
from understudy.files.sequence import LONGEST_GAP
from understudy.files.summary import Summary
from understudy.files.tables import Path, Source, Writer, format_of, make_writer, title
from understudy.files.targets import Target, check_target
from understudy.files.working import Work
from understudy.identify.clock import SECOND, in_words
from understudy.stream.ledger import Ledger

Progress = Callable[[int, float | None], None]
"""Is told how many rows are done, and which share of the file, where that is known."""


def apply_file(
    design: Any,
    source: Path,
    target: Path,
    *,
    reading: str | Sequence[str] | None = None,
    private: str | None = None,
    time: str | None = None,
    segment: str | Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    period: Any = None,
    ledger: Any = None,
    name: str = "stream",
    room: str | None = None,
    epoch: Any = None,
    run: str | None = None,
    abandon: bool = False,
    on_error: str = "stop",
    longest_gap: int = LONGEST_GAP,
    format: str | None = None,  # noqa: A002  # what users call it
    target_format: str | None = None,
    delimiter: str = ",",
    decimals: int | None = None,
    accept_misfit: bool = False,
    rng: Any = None,
    progress: Progress | None = None,
) -> Summary:
    r"""Disguise the readings of a file.

    Columns are those that the family was fitted to, or as named: `reading` (one for each channel), `private`, `time`,
    and `segment`, a column that separates days or rooms ("" for none, whatever the family says). `keep` names further
    columns that leave as they are. `period` is the distance of rows, by which gaps are noticed. Formats are told by the
    endings of names or by `format` and `target_format`: "csv", "csv.gz", "parquet", "jsonl"; "-" is standard input and
    output.

    `ledger`, `name`, `room`, `epoch` and `rng` are as in `Design.stream` (for a `CausalDesign` the epoch is the time
    between decisions). Without a ledger the draw is forgotten, and the same file again would be another draw.
    `run` names the run in the ledger, else its first rows do; `abandon` gives up another one that was interrupted.
    Each segment is a sequence of its own that begins anew, with a draw that is charged; its rows stand together.

    Outputs lie on the lattice of the design, and are written with as many decimals as tell its values apart, or with
    `decimals`; nothing about their form is learned from the file.

    `on_error` is "stop" or "skip". A family that failed its gate is refused unless `accept_misfit`.

    >>> import os, tempfile
    >>> from pathlib import Path
    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> design = us.design(family, leakage=0.1, horizon=50, distortion="mae")
    >>> folder = tempfile.TemporaryDirectory()
    >>> source, target = (os.path.join(folder.name, name) for name in ("room.csv", "disguised.csv"))
    >>> _ = Path(source).write_text("time,co2,people\n2026-03-01 12:00,4.31,0\n2026-03-01 12:01,4.35,1\n")
    >>> columns = {"reading": "co2", "private": "people", "time": "time"}
    >>> summary = apply_file(design, source, target, period="1 min", **columns)
    >>> summary.rows, summary.draws, summary.columns
    (2, 1, ('time', 'co2'))
    >>> Path(target).read_text().splitlines()[0]
    'time,co2'
    >>> folder.cleanup()
    """
    if on_error not in ("stop", "skip"):
        raise ConfigurationError(f"on_error = {on_error!r}; it must be 'stop' or 'skip'")
    notes = _gate(design, accept_misfit)
    bound = bind(design, reading, private, time, segment, keep, period)
    forms = forms_of(design, decimals)
    kinds = format_of(source, format), format_of(target, target_format or (format if _plain(target) else None))
    check_target(source, target, kinds[1], ledger)
    if bound.keep:
        warnings.warn(
            f"the columns {', '.join(map(repr, bound.keep))} leave as they are. Only readings are disguised: whatever "
            "else leaves may give the private parameter away",
            UnderstudyWarning,
            stacklevel=2,
        )
    start = clock.perf_counter()
    opened = ledger if ledger is None or isinstance(ledger, Ledger) else Ledger(ledger)
    try:
        # one generator for all, or each segment of a seeded run would have the same draw
        source_of_draws = None if rng is None else np.random.default_rng(rng)
        terms = Terms(design, opened, name, room, epoch, run, abandon, source_of_draws)
        terms.clock(bound)
        with Source(source, kinds[0], delimiter) as file, Target(target, kinds[1]) as made:
            bound.check(file.reader.names, file.name)
            work = Work(bound, terms, longest_gap, on_error == "skip", file.name)
            layout = _layout(bound, forms, file, kinds[1], notes)
            _through(work, file, made, layout, delimiter, progress, notes)
    finally:
        if opened is not ledger and opened is not None:
            opened.close()
    return Summary(
        source=file.name, target="standard output" if made.standard else title(target), columns=layout.names,
        seconds=clock.perf_counter() - start, notes=tuple(notes), **work.told,
    )  # fmt: skip


def _through(
    work: Work,
    file: Source,
    target: Target,
    layout: Layout,
    delimiter: str,
    progress: Progress | None,
    notes: list[str],
) -> None:
    """All rows from one file to the other."""
    bound, design = work.bound, work.terms.design
    about = family_of(design).about or {}
    labels = None if bound.private is None else labels_of(design.values, about.get("bins"))
    writer: Writer | None = None
    for rows in aligned(batches(file.reader.rows(bound.wanted, bound.private), file.reader.batch), bound):
        batch = work.checked(understood(rows, bound, labels))
        out = work.disguised(batch)
        if writer is None:  # now there is a draw, and with it the mark
            writer = make_writer(target.file, target.kind, layout, file, rows, work.mark, delimiter)
        with target.faults():
            writer.write(work.on_time(batch), out)
        if progress is not None:
            progress(work.rows, file.share(work.rows))
    if writer is None:
        raise ReadingError(f"{file.name} has no rows; there is nothing to disguise")
    work.finish()
    notes += _said(work)
    with target.faults():
        writer.close()
    meta = None
    if target.kind in ("csv", "csv.gz"):
        meta = {**work.mark, "columns": list(layout.readings), "rows": work.rows}
        if target.standard:
            notes.append("standard output carries no mark that the readings are disguised; say so where it goes")
    target.finish(meta)


def _said(work: Work) -> list[str]:
    """What was done to the readings."""
    notes = []
    if work.bound.resampling is not None and work.bound.period is not None:
        what = "the mean" if work.bound.resampling == "mean" else "the last"
        notes.append(
            f"the family is of {what} of the readings in each {in_words(work.bound.period / SECOND)}: each row has the "
            "disguised reading of the stretch that it lies in"
        )
    if work.withheld:
        needed = f"{work.refill} reading{'s' * (work.refill != 1)}"
        notes.append(
            f"outputs that were withheld, and are empty: {work.withheld}; the law of a reading is known only after "
            f"{needed} in a row, so that nothing leaves for the first {needed} of a sequence and after each gap"
        )
    if work.late:
        notes.append(f"rows that came late into a slot that another row had filled: {work.late}; they have no output")
    if work.moved:
        notes.append(f"{work.moved} readings off the grid of the family were moved to its nearest value")
    return notes


def _layout(bound: Binding, forms: tuple[NumberFormat, ...], file: Source, kind: str, notes: list[str]) -> Layout:
    layout = Layout(bound.leaving(file.reader.names), bound.readings, forms)
    notes += [
        f"the column {name!r}, which separates segments, did not leave; --keep {name} keeps it"
        for name in bound.segment
        if name not in layout.names
    ]
    if kind == "jsonl" and MARK in layout.names:
        raise ConfigurationError(f"a column has the name {MARK!r}, under which each line of JSON says what it is")
    return layout


def _gate(design: Any, accept_misfit: bool) -> list[str]:
    """Refuse a family that failed its gate, unless that is accepted; then it is said."""
    gate = (family_of(design).about or {}).get("gate") or {}
    if gate.get("passed", True):
        return []
    told = gate.get("warning") or "the readings do not follow the model of this family"
    if not accept_misfit:
        raise ConfigurationError(
            f"the family failed its gate: {told}. What a wrong model leaves of the private parameter in the readings "
            "is not bounded; accept_misfit=True goes on nevertheless"
        )
    return [f"the family failed its gate, which was accepted: {told}"]


def _plain(path: Path) -> bool:
    """Whether the name of a file does not tell its format."""
    return os.fspath(path) == "-"
