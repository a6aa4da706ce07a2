"""Interrupted and started again with the same ledger, the result is the same file; half a file never has the name."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import apply_worker
import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.apply.apply_file import apply_file
from understudy.errors import LedgerError, ReadingError
from understudy.tables import columns as rows_module

WORKER = Path(apply_worker.__file__)
NAMES = {"reading": "co2", "private": "people", "time": "time", "period": 60}


def started(source, target, **options):
    """The worker, running."""
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(source), str(target), json.dumps({**NAMES, **options})],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def told(process):
    """What a worker says at its end."""
    out, _ = process.communicate(timeout=60)
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def long_file(lab, tools, tmp_path_factory):
    """Four batches of rows."""
    folder = tmp_path_factory.mktemp("long")
    times, Y, labels = lab.rows(200_000, stay=200_000)
    return tools.write_csv(folder / "in.csv", ["time", "co2", "people"], times, map(repr, Y.tolist()), labels)


@pytest.mark.long(seconds=8, reason="interpreters that are killed, one by one")
@pytest.mark.parametrize(
    "kills", [1, pytest.param(3, marks=pytest.mark.long(seconds=12, reason="five processes, 200,000 rows each"))]
)
def test_killed_and_started_again_it_is_the_same_file(lab, tools, tmp_path, long_file, kills):
    """Killed at random moments (kill -9), with no file under the name until it is whole: one draw, one charge."""
    options = {"ledger": str(tmp_path / "room.ledger"), "guard": str(tmp_path / "guard"), "progress": True}
    random_moments = np.random.default_rng(4)
    target, killed, whole = tmp_path / "out.csv", [], []
    for _ in range(kills):
        process = started(long_file, target, **options)
        wait = int(random_moments.integers(1, 4))
        for line in process.stdout:
            if line.startswith("{") or (line[0].isdigit() and int(line) >= wait * 65_536):
                break
        time.sleep(0.05 * random_moments.random())
        process.send_signal(signal.SIGKILL)
        killed.append(process.wait(timeout=60) == -signal.SIGKILL)
        process.stdout.close()
        if target.exists():  # it was killed after its work: what stands there is whole
            whole.append(target.read_bytes())
            target.unlink()
    assert any(killed)
    last = told(started(long_file, target, **options))
    assert last["rows"] == 200_000
    assert last["replayed"] > 0
    # what floating point leaves over grows with the rows, and is no draw
    assert last["draws"] == 0
    assert 0.0 <= last["nats"] <= lab.design.floating.nats(200_000) + 1e-6
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith(("out.csv.", "."))} - {"out.csv.meta.json"}
    assert all(name.startswith(".understudy-") and name.endswith(".tmp") for name in left)
    # the same as a run that nobody disturbed, by the same understudy
    out = tools.floats(tools.read_csv(target)["co2"])
    rows = tools.read_csv(long_file)
    assert len(lab.played(out, tools.floats(rows["co2"]), rows["people"])) == 1
    first = target.read_bytes()
    assert all(content == first for content in whole)
    again = told(started(long_file, tmp_path / "again.csv", **options))
    assert (tmp_path / "again.csv").read_bytes() == first
    assert (again["draws"], again["replayed"]) == (0, 200_000)


@pytest.mark.long(seconds=5, reason="three processes that each write a file of 200,000 rows")
def test_a_full_disk_leaves_nothing_under_the_name(tmp_path, long_file):
    """When the file cannot be written to its end, the error says so, and neither name nor part of it is left."""
    (tmp_path / "old.csv").write_text("what was there\n")
    for name in ("out.csv", "old.csv", "out.parquet"):
        last = told(started(long_file, tmp_path / name, limit=1_000_000))
        assert last["error"] == "StoredFileError"
        assert "cannot be written: File too large" in last["message"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.csv"]
    assert (tmp_path / "old.csv").read_text() == "what was there\n"


@pytest.fixture
def small(lab, tools, tmp_path, monkeypatch):
    """A ledger, and a file of ten small batches."""
    monkeypatch.setattr(rows_module, "BATCH", 20)
    times, Y, labels = lab.rows(400)
    texts = list(map(repr, Y.tolist()))

    def write(name, start, stop, changed=None):
        some = list(texts)
        if changed is not None:
            some[changed] = "123.0"
        part = slice(start, stop)
        return tools.write_csv(tmp_path / name, ["time", "co2", "people"], times[part], some[part], labels[part])

    with us.Ledger(tmp_path / "l", rollback_guard=tmp_path / "w") as ledger:
        yield ledger, write, (Y, labels)


def stopping(rows):
    """Progress that stops a run after so many rows."""

    def progress(done, share):
        if done >= rows:
            raise KeyboardInterrupt

    return progress


def test_an_interrupted_run_goes_on_where_it_stood(lab, tools, tmp_path, small):
    """What was disguised before is replayed and not charged; the whole is one sequence under one draw."""
    ledger, write, (Y, labels) = small
    source = write("a.csv", 0, 200)
    with pytest.raises(KeyboardInterrupt):
        apply_file(lab.design, source, tmp_path / "out.csv", ledger=ledger, progress=stopping(100), **NAMES)
    assert not list(tmp_path.glob("out*"))
    summary = apply_file(lab.design, source, tmp_path / "out.csv", ledger=ledger, **NAMES)
    assert (summary.replayed, summary.draws, summary.nats) == (100, 0, 0.0)
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    assert len(lab.played(out, Y[:200], labels[:200])) == 1


def test_the_next_file_goes_on_with_the_stream(lab, tools, tmp_path, small):
    """Today's file continues yesterday's sequence, with the same understudy and no new charge."""
    ledger, write, (Y, labels) = small
    outs = []
    for k, source in enumerate((write("a.csv", 0, 200), write("b.csv", 200, 400))):
        summary = apply_file(lab.design, source, tmp_path / "out.csv", ledger=ledger, **NAMES)
        assert (summary.draws, summary.replayed) == (1 - k, 0)
        outs.append(tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"]))
    assert len(lab.played(np.concatenate(outs), Y, labels)) == 1
    again = apply_file(lab.design, tmp_path / "a.csv", tmp_path / "out.csv", ledger=ledger, **NAMES)
    assert again.replayed == 200
    np.testing.assert_array_equal(tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"]), outs[0])


def test_the_gap_between_two_files_is_filled(lab, tools, tmp_path, small):
    """With a period, what is missing between yesterday's last row and today's first is missing to the filter."""
    ledger, write, (Y, labels) = small
    outs, filled = [], []
    for source in (write("a.csv", 0, 200), write("b.csv", 230, 400), tmp_path / "b.csv"):
        summary = apply_file(lab.design, source, tmp_path / "out.csv", ledger=ledger, **NAMES)
        outs.append(tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"]))
        filled.append(summary.filled)
    assert filled == [0, 30, 30]
    np.testing.assert_array_equal(outs[1], outs[2])
    Y, labels = Y.copy(), list(labels)
    Y[200:230] = np.nan
    labels[200:230] = [labels[199]] * 30  # within a gap the parameter is what it was before
    out = np.concatenate([outs[0], np.full(30, np.nan), outs[1]])
    assert len(lab.played(out, Y, labels)) == 1


def test_other_rows_under_the_same_times_are_refused(lab, tmp_path, small):
    """A second output for the same times, from other readings, would be a second look: changed files are refused."""
    ledger, write, _ = small
    apply_file(lab.design, write("a.csv", 0, 200), tmp_path / "out.csv", ledger=ledger, **NAMES)
    first = (tmp_path / "out.csv").read_bytes()
    with pytest.raises(ReadingError, match="not those that were disguised before"):
        apply_file(lab.design, write("b.csv", 0, 200, changed=150), tmp_path / "out.csv", ledger=ledger, **NAMES)
    with pytest.raises(ReadingError, match="does not come after the last one"):
        apply_file(lab.design, write("b.csv", 0, 200, changed=3), tmp_path / "out.csv", ledger=ledger, **NAMES)
    assert (tmp_path / "out.csv").read_bytes() == first


def test_an_interrupted_run_is_finished_or_abandoned(lab, tmp_path, small):
    """Another file waits until the interrupted one is finished, unless it is given up."""
    ledger, write, _ = small
    with pytest.raises(KeyboardInterrupt):
        apply_file(
            lab.design, write("a.csv", 0, 200), tmp_path / "a.out.csv", ledger=ledger, progress=stopping(40), **NAMES
        )
    with pytest.raises(LedgerError, match="interrupted; run it again first, or abandon it"):
        apply_file(lab.design, write("b.csv", 200, 400), tmp_path / "b.out.csv", ledger=ledger, **NAMES)
    summary = apply_file(lab.design, tmp_path / "b.csv", tmp_path / "b.out.csv", ledger=ledger, abandon=True, **NAMES)
    assert summary.rows == 200


def test_a_bad_row_can_be_mended_and_the_run_goes_on(lab, tools, tmp_path, small):
    """A run that stopped at a bad row goes on with the mended file, without a new draw."""
    ledger, write, (Y, labels) = small
    source = write("a.csv", 0, 200)
    good = source.read_text()
    rows = good.splitlines(keepends=True)
    source.write_text("".join([*rows[:150], rows[150].replace(".", "x"), *rows[151:]]))
    with pytest.raises(ReadingError, match=r"a\.csv, line 151, column 'co2'"):
        apply_file(lab.design, source, tmp_path / "out.csv", ledger=ledger, **NAMES)
    source.write_text(good)
    summary = apply_file(lab.design, source, tmp_path / "out.csv", ledger=ledger, **NAMES)
    assert (summary.replayed, summary.draws) == (140, 0)
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    assert len(lab.played(out, Y[:200], labels[:200])) == 1


def test_the_same_rows_in_another_format_are_the_same_run(lab, tools, tmp_path, small, monkeypatch):
    """A run is known by its rows, not by its file: as Parquet they are replayed, with the same outputs."""
    ledger, write, _ = small
    monkeypatch.setattr(rows_module, "BATCH", 65_536)
    source = write("a.csv", 0, 200)
    apply_file(lab.design, source, tmp_path / "a.out.csv", ledger=ledger, **NAMES)
    pq.write_table(pc.read_csv(source), tmp_path / "a.parquet")
    summary = apply_file(lab.design, tmp_path / "a.parquet", tmp_path / "b.out.csv", ledger=ledger, **NAMES)
    assert (summary.replayed, summary.draws) == (200, 0)
    outs = [tools.floats(tools.read_csv(tmp_path / f"{name}.out.csv")["co2"]) for name in "ab"]
    np.testing.assert_allclose(*outs, rtol=0.0, atol=1e-9)
