"""Rows of a file and readings of a live stream with the same times are the same readings, gaps and all."""

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats

import understudy as us
from understudy.apply.apply_file import apply_file
from understudy.apply.segments import origin_of_slots
from understudy.errors import ConfigurationError, ReadingError
from understudy.tables import columns as rows_module

PERIOD = 60
START = np.datetime64("2026-03-01T00:00:00", "ns")
NAMES = {"reading": "co2", "private": "people", "time": "time"}
VALUES = (0, 1)


def room(people):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)


def heavy(people):
    noise = us.Scalar(scipy.stats.laplace(0.0, 2.0))
    return us.AutoRegressive([0.5, 0.3], intercept=20.0 + 4.0 * people, noise=noise, past=[100.0 + 20.0 * people] * 2)


@pytest.fixture(scope="module")
def designs():
    """Models with an exact law across gaps, on a grid too, and models that withhold outputs after one."""
    options = {"pseudo": [0.1, 0.5, 0.9], "leakage": 0.3, "horizon": 8, "distortion": "mse", "accuracy": 0.3, "rng": 1}
    families = {
        "exact": us.Family(room, values=VALUES),
        "grid": us.Family(lambda people: us.Quantised(room(people), step=0.5), values=VALUES),
        "withhold": us.Family(heavy, values=VALUES),
    }
    return {kind: us.design(family, **options) for kind, family in families.items()}


def slots(shape, count=150):
    """Which slots have a row, how far each is from its slot (ns), and which rows come twice into theirs."""
    rng = np.random.default_rng(7)
    there = np.ones(count, dtype=bool)
    jitter, twice = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    if shape in ("gaps", "all"):
        there[[5, 50, 51, 52]] = False
        there[rng.integers(60, count, 20)] = False
    if shape in ("jitter", "all"):
        jitter[1:] = rng.integers(-12_000_000_000, 12_000_000_000, count - 1)
    if shape in ("late", "all"):
        twice[[3, 4, 49, 100]] = True
    places = np.arange(count)
    if shape in ("long gap", "all"):
        places[80:] += 1_500  # a day
    there[0] = True
    return places[there], jitter[there], (twice & there)[there]


def table(design, shape, seed=2):
    """Times, readings and labels; a late row has another reading, at a later time of the same slot."""
    places, jitter, twice = slots(shape)
    labels = [VALUES[(k // 25) % 2] for k in range(len(places))]
    Y = np.ravel(us.sample(design.family.along(labels), len(places), rng=seed))
    times = START + places * np.timedelta64(PERIOD, "s") + jitter.astype("timedelta64[ns]")
    again = np.flatnonzero(twice)
    order = np.argsort(np.concatenate([np.arange(len(places)), again + 0.5]), kind="stable")
    times = np.concatenate([times, times[again] + np.timedelta64(4, "s")])[order]
    Y = np.concatenate([Y, Y[again] + 1.5])[order]
    labels = np.concatenate([labels, np.array(labels)[again]])[order]
    late = np.concatenate([np.zeros(len(places), dtype=bool), np.ones(len(again), dtype=bool)])[order]
    return times, Y, labels.tolist(), late


def written(tools, path, times, Y, labels):
    return tools.write_csv(path, ["time", "co2", "people"], times.astype(str), map(repr, Y.tolist()), labels)


def as_file(tools, design, folder, rows, **options):
    """What a file becomes; as numbers."""
    times, Y, labels, _ = rows
    source = written(tools, folder / "in.csv", times, Y, labels)
    summary = apply_file(design, source, folder / "out.csv", period=PERIOD, decimals=12, **NAMES, **options)
    return tools.floats(tools.read_csv(folder / "out.csv")["co2"]), summary


@pytest.mark.sample(default=5, seconds=9, reason="eighteen files")
@pytest.mark.parametrize("shape", ["plain", "gaps", "jitter", "late", "long gap", "all"])
@pytest.mark.parametrize("kind", ["exact", "grid", "withhold"])
def test_a_file_is_the_stream_with_the_same_times(designs, tools, tmp_path, kind, shape):
    """Value for value, one by one and in a batch; late rows have no output; the twin without times is another."""
    design = designs[kind]
    rows = times, Y, labels, late = table(design, shape)
    out, summary = as_file(tools, design, tmp_path, rows, rng=9)
    live = design.stream(theta=labels[0], period=PERIOD, rng=9)
    one = [live.step(y, key=t, theta=v) for t, y, v in zip(times, Y.tolist(), labels, strict=True)]
    np.testing.assert_array_equal(np.round(np.array(one, dtype=float), 12), out)
    live = design.stream(theta=labels[0], period=dt.timedelta(seconds=PERIOD), rng=9)
    np.testing.assert_array_equal(np.round(np.ravel(live.apply(Y, times, labels)), 12), out)
    assert np.isnan(out[late]).all()
    if kind != "withhold":
        assert np.isfinite(out[~late]).all()
    places = slots(shape)[0]
    assert summary.filled == places[-1] + 1 - len(places)
    assert live.count == places[-1] + 1
    said = [note for note in summary.notes if "came late" in note]
    assert len(said) == bool(late.any())
    assert all(f": {late.sum()};" in note for note in said)
    assert summary.withheld == int(np.isnan(out[~late]).sum())
    if shape in ("gaps", "long gap", "all"):
        source = tmp_path / "in.csv"
        apply_file(design, source, tmp_path / "twin.csv", decimals=12, rng=9, **{**NAMES, "time": ""})
        twin = tools.floats(tools.read_csv(tmp_path / "twin.csv")["co2"])
        assert not np.array_equal(twin, out, equal_nan=True)


@pytest.mark.sample(default=3, seconds=5, reason="nine files")
@pytest.mark.parametrize("kind", ["exact", "grid", "withhold"])
@pytest.mark.parametrize("batch", [1, 3, 64])
def test_batches_do_not_show_in_files_with_gaps(designs, tools, tmp_path, monkeypatch, kind, batch):
    """Cut anywhere, between a row and its late twin too, the file is the same."""
    rows = table(designs[kind], "all")
    whole, summary = as_file(tools, designs[kind], tmp_path, rows, rng=9)
    monkeypatch.setattr(rows_module, "BATCH", batch)
    parts, again = as_file(tools, designs[kind], tmp_path, rows, rng=9)
    np.testing.assert_array_equal(parts, whole)
    assert (again.filled, again.withheld, again.notes) == (summary.filled, summary.withheld, summary.notes)


@pytest.mark.sample(default=4, seconds=6, reason="fifteen files")
@pytest.mark.parametrize("kind", ["exact", "grid", "withhold"])
@pytest.mark.parametrize("cut", [1, 47, 50, 51, 90])
def test_files_one_after_the_other_are_one_sequence(designs, tools, tmp_path, kind, cut):
    """With a ledger, two files are what one would be, wherever it was cut; and what one live stream gives."""
    design, rows = designs[kind], table(designs[kind], "all")
    whole, _ = as_file(tools, design, tmp_path, rows, rng=9)
    parts = []
    with us.Ledger(tmp_path / "l", rollback_guard=tmp_path / "w") as ledger:
        for part in (slice(0, cut), slice(cut, None)):
            some = tuple(column[part] for column in rows)
            parts.append(as_file(tools, design, tmp_path, some, rng=9, ledger=ledger)[0])
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_times_without_a_period_are_refused(designs, tools, tmp_path):
    """The message says what is missing; a file whose rows stand one after the other says so with time=''."""
    times, Y, labels, _ = table(designs["exact"], "plain")
    source = written(tools, tmp_path / "in.csv", times, Y, labels)
    with pytest.raises(ConfigurationError, match="period is missing: rows have times") as caught:
        apply_file(designs["exact"], source, tmp_path / "out.csv", **NAMES)
    assert "period='1 min'" in str(caught.value)
    assert not (tmp_path / "out.csv").exists()
    summary = apply_file(designs["exact"], source, tmp_path / "out.csv", **{**NAMES, "time": ""})
    assert (summary.columns, summary.filled) == (("co2",), 0)
    known = us.Family(room, values=VALUES, about={"period": 60.0})
    design = us.design(known, leakage=0.3, horizon=8, distortion="mse")
    assert apply_file(design, source, tmp_path / "out.csv", **NAMES).columns == ("time", "co2")


def test_slots_are_those_of_the_first_rows_however_many_are_read_at_once():
    """A batch of CSV is shorter than one of Parquet; where the slots begin does not follow."""
    rng = np.random.default_rng(5)
    times = np.arange(5000) * 60 * 10**9 + rng.integers(-20 * 10**9, 20 * 10**9, 5000)
    found = {origin_of_slots(times[:many], 60 * 10**9, "x") for many in (1024, 2000, 5000)}
    assert len(found) == 1
    (origin,) = found
    assert abs((origin + 30 * 10**9) % (60 * 10**9) - 30 * 10**9) < 2 * 10**9


def test_the_first_row_of_a_slot_wins_even_if_it_is_empty(designs, tools, tmp_path):
    """A rule of the times alone: which rows have no output does not depend on the reading of another row."""
    times, Y, labels, late = table(designs["exact"], "late")
    first = int(np.flatnonzero(late)[0]) - 1
    texts = ["" if k == first else repr(y) for k, y in enumerate(Y.tolist())]
    source = tools.write_csv(tmp_path / "in.csv", ["time", "co2", "people"], times.astype(str), texts, labels)
    summary = apply_file(designs["exact"], source, tmp_path / "out.csv", period=PERIOD, **NAMES)
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    assert np.flatnonzero(np.isnan(out)).tolist() == sorted({first, *np.flatnonzero(late).tolist()})
    assert summary.missing == 1


def test_a_long_gap_is_refused_by_its_line_before_it_is_walked(designs, tools, tmp_path):
    """The limit is that of the run, and the error names line and counts, no time."""
    rows = table(designs["exact"], "long gap")
    with pytest.raises(ReadingError, match=r"in\.csv, line 82: 1500 readings are missing before it") as caught:
        as_file(tools, designs["exact"], tmp_path, rows, longest_gap=1_499)
    assert "2026" not in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2026-03-01T12:00:00Z", "2026-03-01T12:01:04Z", "2026-03-01T12:04:57Z"], ["00:00Z", "01:00Z", "05:00Z"]),
        (["2026-03-01 12:00:00", "2026-03-01 12:00:58", "2026-03-01 12:02:00"], ["12:00:00", "12:01:00", "12:02:00"]),
        (["1772366400", "1772366463", "1772366517"], ["1772366400", "1772366460", "1772366520"]),
    ],
    ids=["zone", "space", "seconds"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_outputs_carry_the_times_of_their_slots(lab, tmp_path, texts, expected, kind):
    """In the form in which the times of the rows stand: how late a reading was does not leave."""
    source, target = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    Y, _ = lab.rows(3)[1:]
    numbers = texts[0].isdigit()
    times = [int(text) for text in texts] if numbers and kind != "csv" else texts
    rows = [{"time": time, "co2": float(y), "people": "empty"} for time, y in zip(times, Y, strict=True)]
    if kind == "csv":
        lines = ["time,co2,people", *(f"{row['time']},{row['co2']!r},empty" for row in rows)]
        source.write_text("\n".join(lines) + "\n")
    elif kind == "jsonl":
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), source)
    apply_file(lab.design, source, target, reading="co2", private="people", time="time", period="1 min")
    if kind == "csv":
        found = [line.split(",")[0] for line in target.read_text().splitlines()[1:]]
    elif kind == "jsonl":
        found = [str(json.loads(line)["time"]) for line in target.read_text().splitlines()]
    else:
        found = [str(time) for time in pq.read_table(target)["time"].to_pylist()]
    assert [text.endswith(end) for text, end in zip(found, expected, strict=True)] == [True] * 3
    assert [len(text) for text in found] == [len(text) for text in texts]


def test_typed_times_are_moved_too(lab, tmp_path):
    """Time stamps of Parquet keep their type and their unit."""
    times = np.array(["2026-03-01T12:00:00", "2026-03-01T12:01:07", "2026-03-01T12:03:00"], dtype="datetime64[ms]")
    table = pa.table({"time": times, "co2": lab.rows(3)[1], "people": ["empty"] * 3})
    pq.write_table(table, tmp_path / "in.parquet")
    columns = {"reading": "co2", "private": "people", "time": "time", "period": "1 min"}
    apply_file(lab.design, tmp_path / "in.parquet", tmp_path / "out.parquet", **columns)
    found = pq.read_table(tmp_path / "out.parquet")["time"]
    assert found.type == table["time"].type
    assert found.to_numpy().astype("datetime64[s]")[1] == np.datetime64("2026-03-01T12:01:00")


@pytest.mark.parametrize("begun", [False, True], ids=["new", "begun"])
def test_output_times_of_a_stream_that_was_begun_before_its_first_reading(designs, tools, tmp_path, begun):
    """Slots of a stream that stands in the ledger without any reading begin with the first row, not in 1970."""
    design, (_, Y, labels, _) = designs["exact"], table(designs["exact"], "gaps")
    slot_times = np.datetime64("2026-03-01T00:00:17", "ns") + slots("gaps")[0] * np.timedelta64(PERIOD, "s")
    times = slot_times.copy()
    times[1:] += np.timedelta64(3, "s")  # late in their slots
    source = written(tools, tmp_path / "in.csv", times, Y, labels)
    with us.Ledger(tmp_path / "l", rollback_guard=tmp_path / "w") as ledger:
        if begun:
            design.stream(labels[0], ledger, "room", period=PERIOD)
        apply_file(design, source, tmp_path / "out.csv", period=PERIOD, ledger=ledger, name="room", **NAMES)
    found = np.array(tools.read_csv(tmp_path / "out.csv")["time"], dtype="datetime64[ns]")
    np.testing.assert_array_equal(found, slot_times)
