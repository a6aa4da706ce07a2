"""`understudy pipe`: lines in on standard input, disguised lines out on standard output.

What one read gives is a group, of at most 1,000 lines. A group is disguised in one commit of the ledger, and only then
are its lines written. So a line that was written is recorded, and the same line again, after whatever was killed, gets
the same bytes. The end of the input and SIGTERM finish the group that is under way.

A line has a room, a time, a reading and perhaps the private value (`understudy.gateway.formats`). Without the private
value the one of before holds. Lines that cannot be read are told on standard error, by number and rule; what stood
there is never shown. Lines that get no output are counted, and the counts are the last thing that is said.

Nothing here knows of filters: a `Plant` steps the fleet, as it does for the gateway.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import select
import signal
import stat
import sys
import time as clock
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from understudy._paths import check_paths
from understudy.apply.apply_file import open_ledger
from understudy.apply.binding import FileDesign, family_of, forms_of
from understudy.errors import ConfigurationError, ReadingError, StoredFileError, UnderstudyWarning
from understudy.gateway.formats import FORMATS, UNITS, LineFormat, Names, Row
from understudy.gateway.pipe_options import PipeOptions
from understudy.gateway.plant import Arrival, Output, Plant, Terms
from understudy.gateway.terms import Preparation, terms_of
from understudy.randomizer.design import load_design
from understudy.stream.fleet import Rule
from understudy.stream.ledger import Ledger
from understudy.stream.randomness import MasterKey
from understudy.tables.times import seconds
from understudy.text import refused_rows

GROUP: Final = 1000
"""Lines of a group, at most."""
_READ = 1 << 16  # bytes
_LONGEST = 1 << 20  # bytes of a line
_DAY = 86_400 * UNITS["s"]
_OBJECTS = 50_000  # a group is some thousand without cycles, which are not to be looked through several times
FORGETFUL: Final = (
    "no --ledger: draws and outputs are not remembered. When this process starts again it draws again, and each draw "
    "leaks again. Use --ledger for anything that is released."
)
_DISGUISED, _AGAIN, _EMPTY, _NO_READING, _UNREADABLE = "disguised", "again", "empty", "no reading", "unreadable"
_COUNTED: Final = {
    _DISGUISED: "disguised",
    _AGAIN: "had their output before and got it again",
    _EMPTY: "are missing readings, without an output",
    _NO_READING: "without a reading",
    _UNREADABLE: "not readable",
}


# Lines to lines -----------------------------------------------------------------------------------------


class LinePipe:
    """Lines of one format through one fleet of a plant.

    `tell` gets what is wrong with a line: its number and the rule. A time more than `ahead` nanoseconds ahead of the
    clock is wrong: all readings of its room would be late until then.
    """

    def __init__(
        self,
        lines: LineFormat,
        plant: Plant,
        preparation: Preparation,
        room: str | None = None,
        admit: int = 0,
        tell: Callable[[str], None] = lambda _: None,
        ahead: int = _DAY,
    ) -> None:
        (self._fleet,) = plant.fleets
        self._lines, self._plant, self._preparation = lines, plant, preparation
        self._room, self._admit, self._tell, self._ahead = room, admit, tell, ahead
        self._rooms = set(plant.fleets[self._fleet].rooms)
        self.counts: Counter[str] = Counter()
        """What became of lines and readings."""
        self.refusals: Counter[str] = Counter()
        """Readings without an output, by the name of the `Rule`."""
        self.lines = 0
        """Lines so far."""

    def __repr__(self) -> str:
        return f"LinePipe({self.lines} lines)"

    def disguise(self, group: Sequence[str | None]) -> bytes:
        """What leaves for some lines; it is recorded when this returns. None is a line that is no UTF-8."""
        rows: list[Row] = []
        read, number, latest = self._lines.read, self.lines, clock.time_ns() + self._ahead
        for line in group:
            number += 1
            try:
                if line is None:
                    raise ReadingError("it is no UTF-8, or longer than a megabyte")
                found = read(line)
                for row in found:
                    if row.time > latest:
                        raise ReadingError("the time is too far ahead of the clock")
            except ReadingError as error:
                self.counts[_UNREADABLE] += 1
                self._tell(f"line {number}: {error}")
                continue
            if found:
                rows += found
            else:
                self.counts[_NO_READING] += 1
        self.lines = number
        if not rows:
            return b""
        self._let_in(rows)
        left, again = [], 0
        for record in self._plant.disguise(self._arrivals(rows)):
            if record.content is not None:
                left.append(record.content)
                again += record.replayed
            elif record.rule is Rule.TAKEN:
                self.counts[_EMPTY] += 1
            else:
                self.refusals[record.rule.name.lower()] += 1
        self.counts[_AGAIN] += again
        self.counts[_DISGUISED] += len(left) - again
        return b"".join(left)

    def _let_in(self, rows: Sequence[Row]) -> None:
        """Admit the rooms that are new, as long as there is room for them."""
        new = {row.room: None for row in rows} if self._room is None else {self._room: None}
        names = [name for name in new if name not in self._rooms and name and name.isprintable()]
        names = names[: max(0, self._admit - len(self._rooms))]
        if names:
            self._plant.admit(self._fleet, names)
            self._rooms |= set(names)

    def _arrivals(self, rows: Sequence[Row]) -> list[Arrival]:
        fleet, theta, single = self._fleet, self._preparation.theta, self._room
        scalar = len(rows[0].values) == 1  # numbers are quicker than tuples of one
        values: Sequence[Any] = [row.values[0] if scalar else row.values for row in rows]
        if self._preparation.changes:
            times = np.array([row.time for row in rows], dtype=np.int64)
            values = self._preparation.readings(np.array(values, dtype=float).reshape(len(rows), -1), times).tolist()
        return [
            Arrival(fleet, single or row.room or "", row.time, value, theta(row.private), row.frame)
            for row, value in zip(rows, values, strict=True)
        ]


def renderer(
    lines: LineFormat, design: FileDesign, preparation: Preparation, decimals: int | None = None
) -> Callable[[Output], bytes]:
    """Writes an output as a line, with the decimals of the design."""
    forms = [f"%.{form.decimals}f" for form in forms_of(design, decimals)]
    nothing = {form % -0.0: form % 0.0 for form in forms}
    (form, *others), write = forms, lines.write

    def render(output: Output) -> bytes:
        if others or preparation.changes:
            return render_all(output)
        text = form % output.values[0]
        return (write(output.tag, output.key, (nothing.get(text, text),)) + "\n").encode()

    def render_all(output: Output) -> bytes:
        values: Sequence[float] = output.values
        if preparation.changes:
            values = preparation.outputs(np.array([values]), np.array([output.key]))[0].tolist()
        texts = [form % value for form, value in zip(forms, values, strict=True)]
        texts = [nothing.get(text, text) for text in texts]
        return (write(output.tag, output.key, texts) + "\n").encode()

    return render


# Standard input and output ------------------------------------------------------------------------------


class Stop:
    """Whether SIGTERM or SIGINT came; while it is entered they set this, and nothing else."""

    def __init__(self) -> None:
        self.asked = False
        self.reader, self._writer = os.pipe()

    def __enter__(self) -> Stop:
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._before = {each: signal.signal(each, self._ask) for each in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self.reader)
        os.close(self._writer)

    def _ask(self, *_: object) -> None:
        self.asked = True


def groups(source: int, stop: Stop) -> Iterator[list[str | None]]:
    """Lines of a descriptor as they come, at most `GROUP` of them at a time; ends with the input, or when asked to."""
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    waiting.register(stop.reader, select.POLLIN)
    rest, skip = b"", False  # the beginning of a line, and whether it is longer than can be
    while not stop.asked:
        waiting.poll()
        if stop.asked:
            return  # the beginning of a line is none
        try:
            chunk = os.read(source, _READ)
        except BlockingIOError:  # whoever writes has made it so, and has written nothing
            continue
        if not chunk:
            break
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            rest, skip = (b"", True) if skip or len(rest) + len(tail) > _LONGEST else (rest + tail, False)
            continue
        lines = _texts(rest + head)
        if skip:
            lines[0] = None
        rest, skip = tail, False
        for start in range(0, len(lines), GROUP):
            yield lines[start : start + GROUP]
    if (rest or skip) and not stop.asked:  # at the end of the input it is a line, otherwise the beginning of one
        yield [None] if skip else _texts(rest)


def _texts(content: bytes) -> list[str | None]:
    """Lines as texts; None for one that is no UTF-8."""
    try:
        lines: list[str | None] = list(content.decode().split("\n"))
    except UnicodeDecodeError:
        lines = [_text(line) for line in content.split(b"\n")]
    if b"\r" in content:
        lines = [None if line is None else line.removesuffix("\r") for line in lines]
    return lines


def _text(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


class Target:
    """The descriptor that lines leave by, whole groups only where it is a file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._regular = stat.S_ISREG(os.fstat(descriptor).st_mode)

    def write(self, content: bytes) -> None:
        """Write everything, or raise; of a file, nothing of it stays then."""
        begun = os.fstat(self._descriptor).st_size if self._regular else 0
        rest = memoryview(content)
        try:
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:  # whoever reads has made it so
                    select.select((), (self._descriptor,), ())
        except OSError as error:
            if self._regular and len(rest) < len(content):
                os.ftruncate(self._descriptor, begun)  # no half line, which the next one would be glued to
            why = "its reader has closed it" if isinstance(error, BrokenPipeError) else os.strerror(error.errno or 0)
            raise StoredFileError(
                f"standard output cannot be written: {why}. Nothing is lost: lines that have no output yet get theirs "
                "when they are given again"
            ) from None


# The command --------------------------------------------------------------------------------------------


class _Opened(NamedTuple):
    """Where everything is recorded, and the key of the draws."""

    ledger: Ledger | None
    key: MasterKey


def run(path: Path, how: PipeOptions, quiet: bool = False) -> None:
    """Disguise standard input until it ends, or until SIGTERM."""
    check_paths({"DESIGN": path}, {}, ("--ledger", how.ledger))
    if sys.stdin is None or sys.stdout is None:  # the ledger would be opened in its place
        raise ConfigurationError("standard input or standard output is closed; the pipe needs both")
    design = load_design(path)
    names = _names(design, how)
    lines = FORMATS[how.line_format](names)
    terms = _terms(design, names, how)
    preparation = Preparation(design, names.readings)
    render = renderer(lines, design, preparation, how.decimals)
    with ExitStack() as stack:
        opened = _open(how, stack, quiet)
        keep = _span("--retain", how.retain)
        plant = Plant(opened.ledger, opened.key, [terms], render, retain=keep, confirm=False, sort=False)
        room = None if names.room is not None else how.name
        ahead = _span("--ahead", how.ahead) // dt.timedelta(microseconds=1) * 1000
        pipe = LinePipe(lines, plant, preparation, room, 1 if room else how.admit, _tell, ahead)
        stop = stack.enter_context(Stop())
        target = Target(sys.stdout.fileno())
        gc.freeze()
        gc.set_threshold(_OBJECTS)
        with _summary(pipe, how.as_json, quiet):
            for group in groups(sys.stdin.fileno(), stop):
                target.write(pipe.disguise(group))


def _names(design: FileDesign, how: PipeOptions) -> Names:
    """What is what in a line: as it was typed, otherwise as the family knows it."""
    if how.line_format not in FORMATS:
        raise ConfigurationError(f"--format {how.line_format}: it must be one of {', '.join(FORMATS)}")
    about = family_of(design).about or {}
    readings = tuple(how.readings or about.get("readings") or ())
    private = how.private or about.get("private")
    if not readings:
        raise ConfigurationError("--reading is missing: the name of the reading in a line, one for each channel")
    if private is None:
        raise ConfigurationError("--private is missing: the name of the private value in a line; it does not leave")
    keep = tuple(how.keep or ())
    for name in (*readings, *keep, how.room, how.time):
        if name == private:
            raise ConfigurationError(f"--private {private}: that name has another role too, and would leave")
    for name in keep:
        if name in readings:
            raise ConfigurationError(f"--keep {name}: that is a reading, and leaves disguised only")
    if how.line_format != "jsonl" and how.time is not None:
        raise ConfigurationError(f"--time {how.time}: times of {how.line_format} have their place; it is for jsonl")
    if how.line_format != "influx" and how.measurement:
        raise ConfigurationError("--measurement is for influx: other formats have no measurements")
    if how.precision not in (None, *UNITS):
        raise ConfigurationError(f"--precision {how.precision}: it must be one of {', '.join(UNITS)}")
    unit = None if how.precision is None else UNITS[how.precision]
    return Names(readings, private, how.room, keep, how.time, unit, tuple(how.measurement or ()))


def _terms(design: FileDesign, names: Names, how: PipeOptions) -> Terms:
    known = (family_of(design).about or {}).get("period")
    if how.period is None and known is None:
        raise ConfigurationError(
            "--period is missing: the design does not know how far apart readings are, so that gaps would not be "
            "noticed. Say so, --period 1min, or --period none for readings that follow one another whatever their times"
        )
    paced = how.period != "none"
    epoch: dt.timedelta | int | None = None
    if how.epoch is not None:
        epoch = int(how.epoch) if how.epoch.isdecimal() else _span("--epoch", how.epoch)
        if not paced and isinstance(epoch, dt.timedelta):
            epoch = int(epoch / dt.timedelta(microseconds=1)) * 1000  # keys are nanoseconds then
    budget: dict[str, Any] = {"total": how.total, "amount": how.amount, "when_spent": how.when_spent}
    if how.per is not None:
        budget["per"] = _span("--per", how.per)
    return terms_of(
        design, how.name, readings=names.readings, period=how.period if paced else None, paced=paced, epoch=epoch,
        accept_misfit=how.accept_misfit, **budget,
    )  # fmt: skip


def _open(how: PipeOptions, stack: ExitStack, quiet: bool) -> _Opened:
    """The ledger, and the master key: as it is named, otherwise beside the ledger."""
    if how.ledger is None:
        warnings.warn(FORGETFUL, UnderstudyWarning, stacklevel=1)
        return _Opened(None, MasterKey.new() if how.key is None else MasterKey.read(how.key))
    beside = how.ledger.with_name(how.ledger.name + ".key")
    given = how.key if how.key is not None else str(beside) if beside.exists() else None
    ledger = stack.enter_context(closing(open_ledger(how.ledger, given, how.ledger_key, True)))
    if given is not None:
        return _Opened(ledger, MasterKey.read(given))
    if ledger.rows("SELECT count(*) FROM fleets")[0][0]:
        raise ConfigurationError(
            f"--key is missing: {how.ledger.name} has rooms whose draws follow from a master key, and there is no "
            f"{beside.name} beside it"
        )
    key = MasterKey.new()
    key.save(beside)
    if not quiet:
        _tell(f"made a master key, {beside.name}: keep a copy in a safe place, without it nothing goes on")
    return _Opened(ledger, key)


def _span(option: str, typed: str) -> dt.timedelta:
    try:
        return dt.timedelta(seconds=seconds(typed))
    except ConfigurationError:
        raise ConfigurationError(f"{option} {typed}: a time is wanted, as in 1d, 15min or 30s") from None


def _tell(words: str) -> None:
    sys.stderr.write(f"understudy: {words}\n")
    sys.stderr.flush()


@contextmanager
def _summary(pipe: LinePipe, as_json: bool, quiet: bool) -> Iterator[None]:
    """Say at the end what became of the lines, also where it is an error."""
    try:
        yield
    finally:
        if as_json:
            counts = {name.replace(" ", "_"): pipe.counts[name] for name in _COUNTED}
            sys.stderr.write(json.dumps({"lines": pipe.lines, **counts, "refused": pipe.refusals}) + "\n")
        elif not quiet:
            for words in summary(pipe):
                _tell(words)


def summary(pipe: LinePipe) -> list[str]:
    """What became of the lines, in words."""
    counts = pipe.counts
    parts = [f"{counts[name]} {words}" for name, words in _COUNTED.items() if counts[name] or name == _DISGUISED]
    found = [f"{pipe.lines} line{'s' * (pipe.lines != 1)}: {', '.join(parts)}"]
    return found + ([refused_rows(dict(pipe.refusals))] if pipe.refusals else [])
