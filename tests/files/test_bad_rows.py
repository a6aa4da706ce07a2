"""Bad rows are told by line, column and rule, never by what stands in them; skipped ones are missing readings."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.apply.apply_file import apply_file
from understudy.errors import ConfigurationError, ReadingError
from understudy.tables import columns as arrow
from understudy.tables import columns as rows_module

TELLING = "7654321"  # what stands in bad rows, and must not be shown

# the text of row 5 (line 7), the column that is told, and the rule
ROWS = {
    "no number": (["2026-03-01T00:05:00", f"{TELLING}x", "empty"], "'co2'", "is not a number"),
    "infinite": (["2026-03-01T00:05:00", "-inf", "empty"], "'co2'", "is infinite"),
    "too large": (["2026-03-01T00:05:00", "1e999", "empty"], "'co2'", "is infinite"),
    "unknown label": (["2026-03-01T00:05:00", "400.0", TELLING], "'people'", "holds no value of the design"),
    "missing label": (["2026-03-01T00:05:00", "400.0", ""], "'people'", "holds no value of the design"),
    "too few fields": (["2026-03-01T00:05:00", TELLING], None, "the row has 2 fields and the header has 3"),
    "too many fields": (
        ["2026-03-01T00:05:00", TELLING, "empty", "empty"],
        None,
        "the row has 4 fields and the header",
    ),
    "no time": (["", "400.0", "empty"], "'time'", "has no time"),
    "bad time": ([TELLING + "-", "400.0", "empty"], "'time'", "is not a time"),
    "back in time": (["2026-03-01T00:04:00", "400.0", "empty"], "'time'", "does not come after"),
}
PLACED = {name for name, (_, column, _) in ROWS.items() if column == "'co2'"}
UNLABELLED = {name for name, (_, column, _) in ROWS.items() if column in (None, "'people'")}


def file_with(lab, folder, row):
    """Twelve rows, of which the sixth is bad."""
    times, Y, labels = lab.rows(12)
    rows = [[t, repr(y), p] for t, y, p in zip(times, Y.tolist(), labels, strict=True)]
    rows[5] = row
    path = folder / "in.csv"
    path.write_text("time,co2,people\n" + "".join(",".join(r) + "\n" for r in rows))
    return path, times, Y, labels


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", ROWS)
def test_the_first_bad_row_stops_the_run(lab, tools, tmp_path, name, quick, monkeypatch):
    """File, line, column and rule are told; nothing is written, and no value is shown."""
    if not quick:
        monkeypatch.setattr(arrow, "find_pyarrow", lambda: None)
    row, column, rule = ROWS[name]
    source, *_ = file_with(lab, tmp_path, row)
    with pytest.raises(ReadingError) as caught:
        apply_file(lab.design, source, tmp_path / "out.csv", **tools.NAMES)
    wanted = "in.csv, line 7" + ("" if column is None else f", column {column}") + f": {rule}"
    assert str(caught.value).startswith(wanted)
    assert caught.value.__cause__ is None
    _nothing_secret(caught)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.csv"]


def _nothing_secret(caught):
    """Not in the message, and not in what a log of the error would show."""
    import traceback

    shown = "".join(traceback.format_exception(caught.value))
    assert TELLING not in shown
    assert TELLING not in str(caught.value)


@pytest.mark.parametrize("name", sorted(ROWS.keys() - UNLABELLED))
def test_skipped_rows_are_missing_readings(lab, tools, tmp_path, name):
    """With "skip" the row is written without a reading, and the filter goes on as over any missing reading."""
    row, _, rule = ROWS[name]
    source, times, Y, labels = file_with(lab, tmp_path, row)
    summary = apply_file(lab.design, source, tmp_path / "out.csv", on_error="skip", **tools.NAMES)
    assert (summary.rows, summary.skipped, summary.missing) == (12, 1, 0)
    (bad,) = summary.bad_rows
    assert bad.line == 7
    assert bad.rule.startswith(rule)
    assert TELLING not in str(summary) + summary.to_json()
    text = (tmp_path / "out.csv").read_text()
    assert TELLING not in text
    found = tools.read_csv(tmp_path / "out.csv")
    out = tools.floats(found["co2"])
    assert np.flatnonzero(np.isnan(out)).tolist() == [5]
    if name in PLACED:
        assert found["time"] == times
        labels[5] = row[2]
    else:  # a row without a time has no place in the sequence, and the clock shows the gap that it leaves
        assert found["time"][5] in ("", "2026-03-01T00:04:00")
    assert summary.filled == (name not in PLACED)
    Y = Y.copy()
    Y[5] = np.nan
    assert len(lab.played(out, Y, labels)) == 1


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", sorted(UNLABELLED))
def test_a_row_without_a_private_value_is_never_skipped(lab, tools, tmp_path, name, quick, monkeypatch):
    """An empty reading would show where the private value is unknown; the run stops before anything is written."""
    if not quick:
        monkeypatch.setattr(arrow, "find_pyarrow", lambda: None)
    row, column, rule = ROWS[name]
    source, *_ = file_with(lab, tmp_path, row)
    with pytest.raises(ReadingError, match="Fill in the labels") as caught:
        apply_file(lab.design, source, tmp_path / "out.csv", on_error="skip", **tools.NAMES)
    where = "in.csv, line 7" + ("" if column is None else f", column {column}")
    assert str(caught.value).startswith(f"{where}: {rule}")
    _nothing_secret(caught)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.csv"]


def test_a_reading_and_a_label_that_are_both_bad_stop_too(lab, tools, tmp_path):
    """What is wrong first in a row does not hide that its label is unknown."""
    source, *_ = file_with(lab, tmp_path, ["2026-03-01T00:05:00", "broken", TELLING])
    with pytest.raises(ReadingError, match=r"line 7, column 'co2': is not a number.*Fill in the labels") as caught:
        apply_file(lab.design, source, tmp_path / "out.csv", on_error="skip", **tools.NAMES)
    _nothing_secret(caught)


@pytest.mark.parametrize("bad", ["unknown label", "missing label", "no number", "no time", "infinite"])
def test_which_rows_are_empty_does_not_depend_on_labels(lab, tools, tmp_path, bad):
    """Another label in the bad row gives the same empty rows, or no output at all: the twin is what skipping did."""
    row, _, _ = ROWS[bad]
    empty = []
    for label in (row[2], "full"):
        source, *_ = file_with(lab, tmp_path, [*row[:2], label])
        try:
            apply_file(lab.design, source, tmp_path / "out.csv", on_error="skip", rng=1, **tools.NAMES)
        except ReadingError:
            continue
        empty.append([k for k, text in enumerate(tools.read_csv(tmp_path / "out.csv")["co2"]) if not text])
    assert len(empty) == (1 if "label" in bad else 2)
    assert all(rows == empty[0] for rows in empty)


def test_with_a_period_the_gap_of_a_row_without_time_is_filled(lab, tools, tmp_path):
    """What the row leaves open is one missing reading, by the clock."""
    source, _, Y, labels = file_with(lab, tmp_path, ROWS["bad time"][0])
    summary = apply_file(lab.design, source, tmp_path / "out.csv", on_error="skip", **tools.NAMES)
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    Y = Y.copy()
    Y[5] = np.nan
    assert len(lab.played(out, Y, labels)) == 1
    assert summary.filled == 1


def test_lines_are_right_in_long_files(lab, tools, tmp_path, monkeypatch):
    """Over many batches and blocks, with blank lines and line breaks in quotes, the lines are those of the file."""
    monkeypatch.setattr(rows_module, "BATCH", 50)
    times, Y, labels = lab.rows(400)
    rows = [
        f'{t},{y},{p},"two\nlines"\n' if i % 100 == 3 else f"{t},{y},{p},\n"
        for i, (t, y, p) in enumerate(zip(times, Y, labels, strict=True))
    ]
    rows[120] = f"{times[120]},oops,{labels[120]},\n"
    rows[250] = "\n" + rows[250]
    rows[333] = f"{times[333]},nothing,{labels[333]},\n"
    text = "time,co2,people,note\n" + "".join(rows)
    (tmp_path / "in.csv").write_text(text)
    lines = [i + 1 for i, line in enumerate(text.split("\n")) if "oops" in line or "nothing" in line]
    for quick in (True, False):
        if not quick:
            monkeypatch.setattr(arrow, "find_pyarrow", lambda: None)
        summary = apply_file(lab.design, tmp_path / "in.csv", tmp_path / "out.csv", on_error="skip", **tools.NAMES)
        assert [row.line for row in summary.bad_rows] == lines
        assert summary.rows == 400


def test_json_lines_and_parquet_tell_their_rows(lab, tools, tmp_path):
    """A line that is no JSON, a text among numbers; a null label in Parquet: by line and by row."""
    names = {**tools.NAMES, "period": 1}
    good = '{"time": 1, "co2": 400.0, "people": "empty"}\n'
    for bad, rule in (
        (f'{{"time": 2, "co2": {TELLING}', "the line is not JSON"),
        ("[1, 2]", "the line is not a JSON object"),
        (f'{{"time": 2, "co2": "x{TELLING}", "people": "empty"}}', "column 'co2': is not a number"),
        ('{"time": 2, "co2": true, "people": "empty"}', "column 'co2': is a bool, not a number"),
        ('{"time": 2, "co2": Infinity, "people": "empty"}', "column 'co2': is infinite"),
        (f'{{"time": 2, "co2": 1, "people": {TELLING}}}', "column 'people': holds no value"),
        (f'{{"time": 2, "co2": 1, "people": ["{TELLING}"]}}', "column 'people': holds no value"),
        ('{"time": 2, "co2": 1}', "column 'people': holds no value"),
        ('{"co2": 1, "people": "empty"}', "column 'time': has no time"),
    ):
        (tmp_path / "in.jsonl").write_text(good + "\n" + bad + "\n" + good.replace("1,", "3,", 1))
        with pytest.raises(ReadingError, match=r"in\.jsonl, line 3") as caught:
            apply_file(lab.design, tmp_path / "in.jsonl", tmp_path / "out.jsonl", **names)
        assert rule in str(caught.value)
        _nothing_secret(caught)
        skip = {"on_error": "skip", **names}
        if "people" in rule or "the line" in rule:
            with pytest.raises(ReadingError, match=r"in\.jsonl, line 3.*Fill in the labels") as caught:
                apply_file(lab.design, tmp_path / "in.jsonl", tmp_path / "out.jsonl", **skip)
            _nothing_secret(caught)
            continue
        summary = apply_file(lab.design, tmp_path / "in.jsonl", tmp_path / "out.jsonl", **skip)
        assert (summary.rows, summary.skipped) == (3, 1)
        text = (tmp_path / "out.jsonl").read_text()
        assert TELLING not in text
        assert tools.read_jsonl(tmp_path / "out.jsonl")[1]["co2"] is None
    table = pa.table({"time": [1, 2, None], "co2": [1.0, np.inf, 3.0], "people": ["empty", "full", "full"]})
    pq.write_table(table, tmp_path / "in.parquet")
    summary = apply_file(lab.design, tmp_path / "in.parquet", tmp_path / "out.parquet", on_error="skip", **names)
    assert [(row.line, row.column) for row in summary.bad_rows] == [(2, "co2"), (3, "time")]
    assert pq.read_table(tmp_path / "out.parquet")["co2"].is_null().to_pylist() == [False, True, True]
    pq.write_table(pa.table({"co2": [True], "people": ["empty"]}), tmp_path / "in.parquet")
    with pytest.raises(ReadingError, match="line 1, column 'co2': is of type bool, not a number"):
        apply_file(lab.design, tmp_path / "in.parquet", tmp_path / "x.csv", reading="co2", private="people")


def test_many_bad_rows_are_counted_and_few_are_named(lab, tools, tmp_path):
    """Twenty lines are named; all are counted."""
    tools.write_csv(tmp_path / "in.csv", ["co2", "people"], ["400.0"] + ["bad"] * 50, ["empty"] * 51)
    names = {"reading": "co2", "private": "people"}
    summary = apply_file(lab.design, tmp_path / "in.csv", tmp_path / "out.csv", on_error="skip", **names)
    assert summary.skipped == 50
    assert [row.line for row in summary.bad_rows] == list(range(3, 23))
    assert "and 30 more" in str(summary)


def test_a_file_without_a_single_label_is_refused(lab, tools, tmp_path):
    """There is nobody to play when nothing is known."""
    tools.write_csv(tmp_path / "in.csv", ["co2", "people"], ["400.0"] * 3, ["who"] * 3)
    with pytest.raises(ReadingError, match="line 2, column 'people': holds no value of the design"):
        apply_file(
            lab.design, tmp_path / "in.csv", tmp_path / "out.csv", on_error="skip", reading="co2", private="people"
        )
    with pytest.raises(ConfigurationError, match="on_error = 'ignore'"):
        apply_file(lab.design, tmp_path / "in.csv", tmp_path / "out.csv", on_error="ignore", **tools.NAMES)


def test_bad_rows_within_a_segment_stay_in_it(lab, tools, tmp_path):
    """A row without a segment does not cut the one that it stands in."""
    rows = ["a,400.0,empty", ",401.0,empty", "a,402.0,full", ",403.0,full", "b,404.0,empty", "b,405.0,empty"]
    (tmp_path / "in.csv").write_text("day,co2,people\n" + "\n".join(rows) + "\n")
    ledger = us.Ledger(tmp_path / "l", rollback_guard=tmp_path / "w")
    summary = apply_file(
        lab.design, tmp_path / "in.csv", tmp_path / "out.csv", on_error="skip", segment="day", reading="co2",
        private="people", ledger=ledger,
    )  # fmt: skip
    ledger.close()
    assert (summary.segments, summary.skipped) == (2, 2)
    assert [(row.line, row.rule) for row in summary.bad_rows] == [
        (3, "is missing"),
        (5, "is missing"),
    ]
