"""Columns of every kind in every role: what cannot be used is refused by line, column and rule, never by a crash."""

import datetime as dt
import decimal
import gc
import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.apply.apply_file import apply_file
from understudy.cli.file_commands import fit_table as fitted
from understudy.cli.file_commands import read
from understudy.cli.options import Columns
from understudy.errors import UnderstudyError

COUNT = 30
SECRET = "telling-7654321"  # noqa: S105  # what must not be shown
NOON = dt.datetime(2026, 3, 1, 12)


def column(kind):
    """A column of pyarrow of this kind, with something telling in it where it can hold text."""
    k = range(COUNT)
    return {
        "struct": lambda: pa.array([{"a": SECRET, "b": i} for i in k]),
        "list": lambda: pa.array([[SECRET, str(i)] for i in k]),
        "large_list": lambda: pa.array([[i, 1] for i in k], pa.large_list(pa.int64())),
        "fixed_list": lambda: pa.array([[1.0, 2.0]] * COUNT, pa.list_(pa.float64(), 2)),
        "map": lambda: pa.array([[(SECRET, i)] for i in k], pa.map_(pa.string(), pa.int64())),
        "list of struct": lambda: pa.array([[{"a": SECRET}] for _ in k]),
        "decimal": lambda: pa.array([decimal.Decimal(f"{400 + i}.25") for i in k]),
        "decimal256": lambda: pa.array([decimal.Decimal(i) for i in k], pa.decimal256(60, 3)),
        "binary": lambda: pa.array([SECRET.encode() + b"\xff" for _ in k], pa.binary()),
        "fixed binary": lambda: pa.array([b"1234"] * COUNT, pa.binary(4)),
        "large_binary": lambda: pa.array([b"\xff\xfe"] * COUNT, pa.large_binary()),
        "dictionary": lambda: pa.array(["empty", "full"] * (COUNT // 2)).dictionary_encode(),
        "dictionary of numbers": lambda: pa.array([400.0, 401.0] * (COUNT // 2)).dictionary_encode(),
        "null": lambda: pa.nulls(COUNT),
        "bool": lambda: pa.array([True, False] * (COUNT // 2)),
        "date32": lambda: pa.array([NOON.date() + dt.timedelta(days=i) for i in k]),
        "date64": lambda: pa.array([NOON.date() + dt.timedelta(days=i) for i in k], pa.date64()),
        "duration": lambda: pa.array([dt.timedelta(seconds=i) for i in k]),
        "time32": lambda: pa.array([dt.time(0, i) for i in k], pa.time32("s")),
        "time64": lambda: pa.array([dt.time(0, i) for i in k]),
        "timestamp s": lambda: pa.array([NOON + dt.timedelta(minutes=i) for i in k], pa.timestamp("s")),
        "timestamp zone": lambda: pa.array([NOON + dt.timedelta(minutes=i) for i in k], pa.timestamp("us", "UTC")),
        "timestamp far": lambda: pa.array([2**52 + i for i in k], pa.timestamp("s")),
        "date far": lambda: pa.array([2**31 - 40 + i for i in k], pa.int32()).view(pa.date32()),
        "duration far": lambda: pa.array([2**62 + i for i in k], pa.int64()).view(pa.duration("s")),
        "large_string": lambda: pa.array([str(400.5 + i) for i in k], pa.large_string()),
        "string_view": lambda: pa.array([str(400.5 + i) for i in k], pa.string_view()),
        "text": lambda: pa.array([SECRET] * COUNT),
        "odd text": lambda: pa.array(["\0", "\r", '"', "\n", "\u202e"] * (COUNT // 5)),
        "int8": lambda: pa.array(list(k), pa.int8()),
        "uint64": lambda: pa.array([2**64 - 1 - i for i in k], pa.uint64()),
        "float16": lambda: pa.array([float(i) for i in k], pa.float16()),
        "float32": lambda: pa.array([float(i) for i in k], pa.float32()),
        "nan": lambda: pa.array([float("nan")] * COUNT),
        "inf": lambda: pa.array([float("inf")] * COUNT),
        "some null": lambda: pa.array([None if i % 2 else float(i) for i in k]),
    }[kind]()


KINDS = [
    "struct", "list", "large_list", "fixed_list", "map", "list of struct", "decimal", "decimal256", "binary",
    "fixed binary", "large_binary", "dictionary", "dictionary of numbers", "null", "bool", "date32", "date64",
    "duration", "time32", "time64", "timestamp s", "timestamp zone", "timestamp far", "date far",
    "duration far", "large_string", "string_view",
    "text", "odd text", "int8", "uint64", "float16", "float32", "nan", "inf", "some null",
]  # fmt: skip
ROLES = ["reading", "private", "time", "keep", "segment", "unused"]
OUTPUTS = ["csv", "jsonl", "parquet"]
JSON = {
    "lone surrogate": '"\\ud800"',
    "lone low surrogate": '"a\\udfffb"',
    "nested": '{"a": {"b": ["telling-7654321"]}}',
    "nested surrogate": '{"a": ["\\ud800"]}',
    "surrogate key": '{"\\ud800": 1}',
    "list": '["telling-7654321", 1]',
    "null": "null",
    "true": "true",
    "huge": "1" + "0" * 400,
    "too many digits": "1" * 5000,
    "huge exponent": "1e999",
    "negative zero": "-0.0",
    "nan": "NaN",
    "infinity": "-Infinity",
    "empty": '""',
    "null character": '"\\u0000"',
    "number as text": '"400.5"',
}


def frame(kind, role):
    """A table with a column of this kind in this role, and usual ones for the others."""
    columns = {
        "time": pa.array([(NOON + dt.timedelta(minutes=i)).isoformat() for i in range(COUNT)]),
        "co2": pa.array([400.0 + i % 7 for i in range(COUNT)]),
        "people": pa.array(["empty", "full"] * (COUNT // 2)),
        "note": pa.array(["a"] * COUNT),
        "day": pa.array([str(i // 10) for i in range(COUNT)]),
    }
    name = {"reading": "co2", "private": "people", "time": "time", "segment": "day"}.get(role, "note")
    return pa.table({**columns, name: column(kind)})


def applied(lab, source, target, role):
    """Disguise; what is refused is returned as its words."""
    more = {"keep": "note"} if role == "keep" else {"segment": "day"} if role == "segment" else {}
    try:
        apply_file(lab.design, source, target, reading="co2", private="people", time="time", period=60, **more)
    except UnderstudyError as error:
        return str(error)
    return ""


def every_output(kinds):
    """Every kind in every role, the formats of the output in turn; the long suite has the other two as well."""
    chosen = []
    one_of_many = pytest.mark.long(seconds=0.1, reason="one of 636 cases")
    for (i, kind), (j, role), (k, target) in itertools.product(*map(enumerate, (kinds, ROLES, OUTPUTS))):
        chosen.append(pytest.param(kind, role, target, marks=[] if (i + j) % 3 == k else [one_of_many]))
    return chosen


@pytest.mark.sample(default=60, seconds=2, reason="216 kinds of columns")
@pytest.mark.filterwarnings("ignore::understudy.errors.UnderstudyWarning")
@pytest.mark.parametrize(("kind", "role", "target"), every_output(KINDS))
def test_parquet_of_any_kind_is_applied_or_refused(lab, tmp_path, kind, role, target):
    """No other error than ours, and none that shows what stands in the column."""
    pq.write_table(frame(kind, role), tmp_path / "in.parquet")
    told = applied(lab, tmp_path / "in.parquet", tmp_path / f"out.{target}", role)
    assert SECRET not in told
    assert (tmp_path / f"out.{target}").exists() == (not told)
    if role == "unused":
        assert not told


@pytest.mark.filterwarnings("ignore::understudy.errors.UnderstudyWarning")
@pytest.mark.parametrize(("kind", "role", "target"), every_output(JSON))
def test_json_of_any_kind_is_applied_or_refused(lab, tmp_path, kind, role, target):
    """The same for whatever JSON can hold, lone surrogates among them."""
    name = {"reading": "co2", "private": "people", "time": "time", "segment": "day"}.get(role, "note")
    lines = []
    for i, row in enumerate(frame("text", "unused").to_pylist()):
        parts = {key: json.dumps("a" if key == "note" else value) for key, value in row.items()}
        if i >= 5:
            parts[name] = JSON[kind]
        lines.append("{" + ", ".join(f"{json.dumps(key)}: {text}" for key, text in parts.items()) + "}\n")
    (tmp_path / "in.jsonl").write_text("".join(lines))
    told = applied(lab, tmp_path / "in.jsonl", tmp_path / f"out.{target}", role)
    assert SECRET not in told
    assert (tmp_path / f"out.{target}").exists() == (not told)


@pytest.mark.sample(default=40, seconds=5, reason="144 kinds of columns")
@pytest.mark.parametrize("role", ["reading", "private", "time", "segment"])
@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_any_kind_are_fitted_or_refused(kind, role):
    """`us.fit` on a table of pyarrow: an error of ours at most."""
    try:
        us.fit(frame(kind, role), reading="co2", private="people", time="time", segment="day", model="independent")
    except UnderstudyError as error:
        assert SECRET not in str(error)  # noqa: PT017  # either outcome is right, a crash is not


@pytest.mark.sample(default=40, seconds=5, reason="144 kinds of columns")
@pytest.mark.parametrize("role", ["reading", "private", "time", "segment"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_any_kind_are_fitted_or_refused(tmp_path, kind, role):
    """The same as `understudy fit` reads them from a file."""
    pq.write_table(frame(kind, role), tmp_path / "in.parquet")
    columns = Columns(["co2"], "people", "time", "day", model="independent")
    try:
        fitted(read(str(tmp_path / "in.parquet"), columns), columns)
    except UnderstudyError as error:
        assert SECRET not in str(error)  # noqa: PT017  # either outcome is right, a crash is not


def test_a_run_that_stops_late_leaves_no_complaint_of_the_writer(lab, tmp_path, monkeypatch):
    """A bad row in the second batch, with a Parquet file open: our error, and nothing on the error stream."""
    monkeypatch.setattr("understudy.tables.parquet.WIDE", 10)
    table = frame("text", "unused")
    bad = table.set_column(1, "co2", pa.array([400.0] * 20 + [float("inf")] + [400.0] * (COUNT - 21)))
    pq.write_table(bad, tmp_path / "in.parquet")
    told = applied(lab, tmp_path / "in.parquet", tmp_path / "out.parquet", "unused")
    gc.collect()  # an error in a finaliser is an error of the test
    assert "line 21, column 'co2': is infinite" in told
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


@pytest.mark.parametrize("target", OUTPUTS)
def test_half_a_surrogate_pair_is_told_by_its_line(lab, tmp_path, target):
    """A whole pair, escaped, is a character like any other."""
    line = '{"time": 1, "co2": 400.0, "people": "empty", "note": "\\ud83d\\ude00"}\n'
    (tmp_path / "in.jsonl").write_text(line + line.replace("1,", "61,", 1))
    with pytest.warns(us.errors.UnderstudyWarning):
        assert not applied(lab, tmp_path / "in.jsonl", tmp_path / f"out.{target}", "keep")
    (tmp_path / "in.jsonl").write_text(line + line.replace("1,", "61,", 1).replace("\\ude00", ""))
    with pytest.warns(us.errors.UnderstudyWarning):
        told = applied(lab, tmp_path / "in.jsonl", tmp_path / f"out.{target}", "keep")
    assert told == "in.jsonl, line 2: the line has one half of a surrogate pair, which is no character"
