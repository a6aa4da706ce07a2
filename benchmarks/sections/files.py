"""Files: a Parquet file disguised, against reading and writing the same file with pyarrow alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, duration, race, row
from benchmarks.systems import SOURCE
from understudy.apply.apply_file import apply_file

ROWS, QUICK = 10_000_000, 1_000_000
STAY, OFTEN = 3600, 100  # rows between two changes of the label, on average: an hour, and more often than usual
MOST_MEMORY = 500  # MB
NAMES = {"reading": "co2", "private": "people", "time": "time"}
_VALUES = ("empty", "full")
_COMPARED = 100_000
_SEED = 7


def run(quick: bool) -> Section:
    """One race: all contenders read the same file and write one of their own."""
    try:
        import pyarrow  # noqa: F401  # is it there?
    except ImportError:
        missing = Row("pyarrow", "", "", "", failure="not installed")
        return Section("Files", "-", [missing])
    count, rounds = (QUICK, 2) if quick else (ROWS, 5)
    folder = Path(tempfile.mkdtemp(prefix="understudy-bench-"))
    try:
        return _race(folder, count, rounds)
    finally:
        shutil.rmtree(folder)


def design() -> us.Design:
    """A room that is empty or full."""
    models = {"empty": SOURCE.model(), "full": SOURCE._replace(b=SOURCE.b * 0.6).model()}
    return us.design(us.Family(models), leakage=0.3, horizon=50, distortion="mae")


def _race(folder: Path, count: int, rounds: int) -> Section:
    source, busy = folder / "in.parquet", folder / "busy.parquet"
    write(source, count)
    write(busy, count // 10, OFTEN)
    made, ours = design(), folder / "ours.parquet"
    ledgers = iter(range(1000))

    def with_ledger() -> None:
        path = folder / f"{next(ledgers)}.ledger"
        with us.Ledger(path, rollback_guard=folder / "guard") as ledger:
            apply_file(made, source, folder / "ledger.parquet", ledger=ledger, rng=_SEED, **NAMES)

    found = race(
        [
            Contender("understudy, apply", partial(apply_file, made, source, ours, rng=_SEED, **NAMES), count),
            Contender("understudy, apply with a ledger", with_ledger, count),
            Contender(
                f"understudy, apply, labels change every {OFTEN} rows",
                partial(apply_file, made, busy, folder / "e.parquet", rng=_SEED, **NAMES),
                count // 10,
            ),
            Contender(
                "pyarrow alone, a million rows at a time", partial(in_pieces, source, folder / "b.parquet"), count
            ),
            Contender("pyarrow alone, the whole file at once", partial(at_once, source, folder / "c.parquet"), count),
        ],
        rounds,
    )
    mine, ledgered, often, *peers = found.values()
    quickest = min(peer.best for peer in peers)
    required = Required(1.5, at_most=True)
    rows = [
        row(mine, mine.best / quickest, required=required, failure=_failure(made, source, ours, count)),
        row(ledgered, ledgered.best / quickest, required=required),
        row(often, often.best / quickest),
    ]
    rows += [row(peer) for peer in peers]
    rows.append(_memory(folder, source, count))
    return Section(
        "Files: Parquet",
        "understudy's time / the quicker of pyarrow's two, per row; of the last line, megabytes",
        rows,
        [
            f"{count:,} rows of a time (one a second), a reading and a private label that changes once an hour, on "
            "average. Understudy reads all three columns and writes the two that leave, flushed to the disk; pyarrow "
            "alone writes all three back with its default settings, and does not wait for the disk.",
            "What a change of the label costs, some 0.1 ms, is the work of the filters, which go on with other models; "
            "the third line shows it where labels change often.",
            f"The first {_COMPARED:,} outputs are compared with those of a stream in memory under the same draw, and "
            "all times with those of the source. Memory is the largest resident set of a process of its own.",
        ],
    )


def labels(count: int, stay: int) -> np.ndarray:
    """Which value each row has: it changes with the same chance at every row."""
    changes = np.random.default_rng(3).random(count) < 1.0 / stay
    return np.cumsum(changes) % 2


def write(path: Path, count: int, stay: int = STAY) -> None:
    """The file, a million rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    codes, rng, writer = labels(count, stay), np.random.default_rng(4), None
    for at in range(0, count, 1 << 20):
        part = codes[at : at + (1 << 20)]
        table = pa.table(
            {
                "time": np.datetime64("2026-01-01", "ns") + (at + np.arange(len(part))) * np.timedelta64(1, "s"),
                "co2": 100.0 + rng.normal(size=len(part)),
                "people": pa.DictionaryArray.from_arrays(part, list(_VALUES)).cast("string"),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def in_pieces(source: Path, target: Path) -> None:
    """Read and write, a million rows at a time."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(source)
    with pq.ParquetWriter(target, file.schema_arrow) as writer:
        for batch in file.iter_batches(1 << 20):
            writer.write_batch(batch)


def at_once(source: Path, target: Path) -> None:
    """Read and write, all in memory."""
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(source), target)


def _failure(made: us.Design, source: Path, target: Path, count: int) -> str:
    import pyarrow.parquet as pq

    given, out = pq.read_table(source), pq.read_table(target)
    if not out["time"].equals(given["time"]) or out.column_names != ["time", "co2"]:
        return "rows are not those of the source"
    some = min(count, _COMPARED)
    theta = given["people"].slice(0, some).to_pylist()
    stream = made.stream(theta[0], rng=_SEED)
    wanted = stream.apply(given["co2"].slice(0, some).to_numpy(), theta=theta)
    return "" if np.array_equal(wanted, out["co2"].slice(0, some).to_numpy()) else "outputs differ"


def _memory(folder: Path, source: Path, count: int) -> Row:
    """The same in a process of its own, which says how much memory it took."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sections.files", str(source), str(folder / "d.parquet")],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    told = json.loads(done.stdout)
    limit = Required(MOST_MEMORY, at_most=True)
    return Row(
        "understudy, apply: memory in MB", f"{count:,}", duration(told["seconds"] / count), "", told["memory"], limit
    )


def main(source: str, target: str) -> None:
    """Disguise a file; print time and memory."""
    import re

    summary = apply_file(design(), source, target, **NAMES)
    # of this process alone: getrusage also counts the one that it was forked from
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    memory = int(found[1]) / 1024 if found else float("nan")
    print(json.dumps({"memory": memory, "seconds": summary.seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
