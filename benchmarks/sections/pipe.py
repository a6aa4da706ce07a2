"""`understudy pipe`: processor time a line, against the same parser and writer without a filter, and its first line."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, duration, race, row
from benchmarks.systems import SOURCE
from understudy.gateway.formats import FORMATS, LineFormat, Names
from understudy.gateway.pipe import LinePipe, Stop, Target, groups, renderer
from understudy.gateway.plant import Plant
from understudy.gateway.terms import Preparation, terms_of

ROOMS, LINES = 20, 20_000
MINUTE, BEGIN = 60 * 10**9, 1_700_000_040 * 10**9
NAMES = {
    "influx": Names(("co2",), "people", "room", ("host",)),
    "jsonl": Names(("co2",), "people", "room", ("host",)),
    "senml": Names(("co2",), "people", "bn"),
}
FORMS = {
    "influx": "air,host=pi,room=lab{room} co2={y!r},people={people}i,temp=20.5 {ns}",
    "jsonl": '{{"time":{ns},"host":"pi","room":"lab{room}","co2":{y!r},"people":{people},"temp":20.5}}',
    "senml": '[{{"bn":"lab{room}:","bt":{s},"n":"co2","u":"ppm","v":{y!r}}},{{"n":"people","v":{people}}}]',
}


def run(quick: bool) -> Section:
    """Each way has a file of its own for each round, and writes to a file."""
    family = us.Family({0: SOURCE.model(), 1: SOURCE._replace(b=SOURCE.b * 0.6).model()}, values=[0, 1])
    design = us.design(family, leakage=0.3, horizon=50, distortion="mae")
    rows = [one for form in FORMS for one in _format(design, form, 3 if quick else 9)]
    return Section(
        "Pipe: lines in, disguised lines out",
        "processor time / the same parser and writer without a filter",
        [*rows, *_first_line(design, 3 if quick else 15)],
        [
            f"{LINES:,} lines of {ROOMS} rooms from a file to a file, in groups of 1,000 at most, as the command reads "
            "and writes them. Without a filter: the lines are read, and written again with the reading itself.",
            "With a ledger every group is one commit (WAL, synchronous=FULL), with the bytes of each line that leaves.",
            "The first line: wall time of the whole command over one line, and over `understudy --version`.",
        ],
    )


def _lines(form: str) -> Iterator[str]:
    noise = np.random.default_rng(5)
    slot = 0
    while True:
        for room in range(ROOMS):
            people = (slot // 60 + room) % 2
            ns = BEGIN + slot * MINUTE
            yield FORMS[form].format(room=room, y=104.0 + noise.normal(), people=people, ns=ns, s=ns // 10**9)
        slot += 1


def _format(design: us.Design, form: str, rounds: int) -> list[Row]:
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        source = _lines(form)
        ledger = stack.enter_context(us.Ledger(Path(folder, "a"), rollback_guard=folder))
        preparation = Preparation(design)
        stop = stack.enter_context(Stop())

        def files() -> Iterator[Path]:
            for turn in range(rounds + 1):
                path = Path(folder, f"in{turn}")
                path.write_text("\n".join(islice(source, LINES)) + "\n")
                yield path

        inputs = list(files())

        def contender(name: str, disguise: Callable[[Sequence[str | None]], bytes]) -> Contender:
            turns = iter(inputs)

            def copy() -> None:
                _copy(next(turns), Path(folder, "out"), stop, disguise)

            copy()  # designs are worked out, heads are known
            return Contender(f"{form}: {name}", copy, LINES)

        def pipe(store: us.Ledger | None) -> Callable[[Sequence[str | None]], bytes]:
            lines = FORMATS[form](NAMES[form])
            terms = terms_of(design, "pipe", readings=("co2",), period=60)
            render = renderer(lines, design, preparation)
            plant = Plant(store, us.MasterKey.new(), [terms], render, confirm=False, sort=False)
            return LinePipe(lines, plant, preparation, None, ROOMS).disguise

        bare, quick, durable = race(
            [
                contender("without a filter", _without_filter(FORMATS[form](NAMES[form]))),
                contender("without a ledger", pipe(None)),
                contender("with a ledger", pipe(ledger)),
            ],
            rounds,
            process_time,
        ).values()
    return [
        row(bare),
        row(quick, quick.best / bare.best, required=Required(2.0, at_most=True)),
        row(durable, durable.best / bare.best, required=Required(3.0, at_most=True)),
    ]


def _without_filter(lines: LineFormat) -> Callable[[Sequence[str | None]], bytes]:
    def copy(group: Sequence[str | None]) -> bytes:
        found = [
            lines.write(each.frame, each.time, (f"{each.values[0]:.4f}",)) + "\n"
            for line in group
            if line is not None
            for each in lines.read(line)
        ]
        return "".join(found).encode()

    return copy


def _copy(source: Path, out: Path, stop: Stop, disguise: Callable[[Sequence[str | None]], bytes]) -> None:
    with source.open("rb") as given, out.open("wb") as made:
        target = Target(made.fileno())
        for group in groups(given.fileno(), stop):
            target.write(disguise(group))


def _first_line(design: us.Design, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "design.json")
        design.save(path)
        line = next(_lines("influx")).encode()
        names = ["--format", "influx", "--reading", "co2", "--private", "people", "--room", "room", "--period", "60"]
        command = [sys.executable, "-m", "understudy", "--quiet", "pipe", str(path), *names, "--ledger", "a.db"]
        seconds: dict[str, list[float]] = {"version": [], "line": []}
        environment = dict(os.environ, XDG_STATE_HOME=folder, PYTHONDONTWRITEBYTECODE="")
        for turn in range(rounds + 1):
            for name, each in (("version", [sys.executable, "-m", "understudy", "--version"]), ("line", command)):
                start = perf_counter()
                subprocess.run(each, input=line, capture_output=True, check=True, cwd=folder, env=environment)
                if turn:
                    seconds[name].append(perf_counter() - start)
    bare, ours = (min(seconds[name]) for name in ("version", "line"))
    middle = sorted(seconds["line"])[len(seconds["line"]) // 2]
    return [Row("the first line of the command", "1", duration(ours), duration(middle), ours / bare)]
