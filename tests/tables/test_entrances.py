"""Every entrance reads a table in the same way: the same values, the same missing cells, or the same refusal.

Entrances are dataframes (pandas, polars, pyarrow, a mapping), and files (CSV by pyarrow and by the csv module, gzipped
CSV, JSON lines, Parquet, standard input). A column is given as its texts, as CSV has them, and as values where a format
has types. What is compared are columns of the kind that `fit`, `apply` and `audit` all take their numbers from.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import sys
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from identify_frames import intake

import understudy as us
from understudy.apply.apply_file import apply_file
from understudy.errors import ConfigurationError, ReadingError
from understudy.tables import columns as arrow
from understudy.tables.table import Table, read_table

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
SECRET = "telling-7654321"  # noqa: S105  # what must not be shown


# Entrances -------------------------------------------------------------------------------------------


def csv_text(columns):
    """A CSV file of texts; nothing is an empty field."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*([as_field(cell) for cell in column] for column in columns.values()), strict=True))
    return text.getvalue()


def as_field(cell):
    if cell is None:
        return ""
    if isinstance(cell, (dt.datetime, dt.date, dt.time)):
        return cell.isoformat()
    return str(cell)


def of_csv(columns, folder, monkeypatch, plain=False):
    path = folder / "in.csv"
    path.write_text(csv_text(columns), encoding="utf-8", newline="")
    if plain:
        monkeypatch.setattr(arrow, "find_pyarrow", lambda: None)
    return read_table(path, list(columns))


def of_gzip(columns, folder, monkeypatch):
    path = folder / "in.csv.gz"
    path.write_bytes(gzip.compress(csv_text(columns).encode()))
    return read_table(path, list(columns))


def of_standard_input(columns, folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(csv_text(columns).encode())))
    return read_table("-", list(columns))


def of_json(columns, folder, monkeypatch):
    path = folder / "in.jsonl"
    rows = zip(*columns.values(), strict=True)
    lines = [json.dumps(dict(zip(columns, row, strict=True)), default=as_field) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return read_table(path, list(columns))


def of_parquet(columns, folder, monkeypatch):
    path = folder / "in.parquet"
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), path)
    return read_table(path, list(columns))


ENTRANCES = {
    "CSV": of_csv,
    "CSV, without pyarrow": lambda c, f, m: of_csv(c, f, m, plain=True),
    "gzip": of_gzip,
    "standard input": of_standard_input,
    "JSON lines": of_json,
    "Parquet": of_parquet,
    "mapping": lambda c, f, m: Table(c),
    "arrays": lambda c, f, m: Table({name: np.array(column, dtype=object) for name, column in c.items()}),
    "pandas": lambda c, f, m: Table(pd.DataFrame(c)),
    "pandas, categories": lambda c, f, m: Table(pd.DataFrame(c).astype("category")),
    "polars": lambda c, f, m: Table(pl.DataFrame(c, strict=False)),
    "polars, lazy": lambda c, f, m: Table(pl.LazyFrame(c, strict=False)),
    "pyarrow": lambda c, f, m: Table(pa.table({name: pa.array(column) for name, column in c.items()})),
    "pyarrow, codes": lambda c, f, m: Table(
        pa.table({name: pa.array(column).dictionary_encode() for name, column in c.items()})
    ),
}
MIXED = {name: ENTRANCES[name] for name in ("CSV", "CSV, without pyarrow", "JSON lines", "mapping", "arrays", "pandas")}
"""Those that can hold numbers and texts in one column."""


def outcome(ask):
    """What comes out, as plain values; or the kind of the refusal, and which row it names, from 0."""
    try:
        return ask()
    except (ReadingError, ConfigurationError) as error:
        told = str(error)
        assert SECRET not in told
        line, row = told.partition(" line ")[2], told.partition(" row ")[2]
        header = 0 if ".jsonl" in told or ".parquet" in told else 1
        at = int(line.split(",")[0].split(":")[0]) - 1 - header if line else int(row.split()[0]) if row else None
        return type(error).__name__, at


# Cells -----------------------------------------------------------------------------------------------

NAN = float("nan")
NUMBERS = {
    "plain": (["431.5", "7", "-4", "+5", ".5", "5."], [431.5, 7.0, -4.0, 5.0, 0.5, 5.0]),
    "blanks": ([" 7", "8 ", "\t9", "1"], [7.0, 8.0, 9.0, 1.0]),
    "missing": (["1", "", "-", "NA", "n/a", "NaN", "nat", "<NA>", "NULL", "None"], [1.0, *[NAN] * 9]),
    "exponent": (["1e3", "2E-1", "1"], [1000.0, 0.2, 1.0]),
    "comma": (["1", "1,5"], 1),
    "hexadecimal": (["0x10", "1"], 0),
    "underscore": (["1", "2", "1_000"], 2),
    "other digits": (["1", "\u0661\u0662"], 1),
    "wide digits": (["\uff11", "1"], 0),
    "no-break space": (["1", "1\u00a0"], 1),
    "infinite": (["1", "inf"], 1),
    "minus infinity": (["-Infinity", "1"], 0),
    "too large": (["1", "1e999"], 1),
    "words": (["1", SECRET], 1),
    "truth": (["true", "1"], 0),
    "dashes": (["1", "--"], 1),
    "quotes": (["1", '"2"'], 1),
    "line break": (["1", "2\n3"], 1),
    "huge field": (["1", "9" * 300_000], 1),
    "all missing": (["-", "-"], [NAN, NAN]),
}


@pytest.mark.sample(default=140, seconds=1, reason="many tables")
@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_in_texts(case, entrance, tmp_path, monkeypatch):
    """The same numbers and the same missing cells, or the refusal of the same row."""
    texts, wanted = NUMBERS[case]
    table = ENTRANCES[entrance]({"co2": texts, "other": ["x"] * len(texts)}, tmp_path, monkeypatch)
    found = outcome(lambda: table.numbers("co2").tolist())
    if isinstance(wanted, int):
        assert found == ("ReadingError", wanted)
    else:
        np.testing.assert_array_equal(found, wanted)


VALUES = {
    "numbers": ([431.5, 7.0, None, -4.25], [431.5, 7.0, NAN, -4.25], ENTRANCES),
    "whole numbers": ([431, 7, None], [431.0, 7.0, NAN], ENTRANCES),
    "an infinity": ([1.0, float("inf")], 1, ENTRANCES),
    "truth": ([True, False], 0, ENTRANCES),
    "truth, some missing": ([None, True], 1, ENTRANCES),
    "dates": ([dt.date(2026, 3, 1), None], 0, ENTRANCES),
    "mixed": ([400.0, "401", None, "-", 402], [400.0, 401.0, NAN, NAN, 402.0], MIXED),
    "mixed, one wrong": ([400.0, 401, SECRET], 2, MIXED),
    "mixed with truth": ([400.0, True], 1, MIXED),
}


@pytest.mark.parametrize(("case", "entrance"), [(case, each) for case in VALUES for each in VALUES[case][2]])
def test_numbers_in_values(case, entrance, tmp_path, monkeypatch):
    """The same for cells that have a type where the entrance has types."""
    cells, wanted, _ = VALUES[case]
    table = ENTRANCES[entrance]({"co2": cells, "other": ["x"] * len(cells)}, tmp_path, monkeypatch)
    found = outcome(lambda: table.numbers("co2").tolist())
    if isinstance(wanted, int):
        assert found == ("ReadingError", wanted)
    else:
        np.testing.assert_array_equal(found, wanted)


NOON = 1_772_366_400 * 10**9  # 2026-03-01T12:00:00Z
TIMES = {
    "extended": ["2026-03-01T12:00:00", "2026-03-01 12:01", "2026-03-01T12:02:00.000000000"],
    "basic": ["20260301T120000", "20260301T1201", "20260301T120200.5"],
    "with a zone": ["2026-03-01T12:00:00Z", "2026-03-01T13:01:00+01:00", "2026-03-01T04:32:00-0730"],
    "basic with a zone": ["20260301T120000Z", "20260301T130100+01", "20260301T120200+0000"],
    "seconds": ["1772366400", "1772366460", "1772366520"],
    "milliseconds": ["1772366400000", "1772366460000", "1772366520000"],
    "missing": ["2026-03-01T12:00:00", "-", "2026-03-01T12:02:00"],
}
REFUSED_TIMES = {
    "word": (["2026-03-01T12:00:00", SECRET], 1),
    "leap day": (["2026-02-29", "2026-03-01"], 0),
    "hour": (["2026-03-01T24:00:00", "2026-03-02"], 0),
    "naive, then aware": (["2026-03-01T12:00:00", "2026-03-01T12:01:00Z"], 1),
    "aware, then naive": (["2026-03-01T12:00:00Z", "2026-03-01T12:01:00"], 1),
    "date, then clock": (["2026-03-01T12:00:00", "12:01"], 1),
    "number, then date": (["1772366400", "2026-03-01T12:01:00"], 1),
    "far": (["2026-03-01", "9999-12-31"], 1),
    "half marked": (["2026-0301", "2026-03-02"], 0),
    "zone": (["2026-03-01T12:00:00+99:00", "2026-03-01T12:00:00Z"], 0),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("case", TIMES)
def test_times_in_texts(case, entrance, tmp_path, monkeypatch):
    """Extended or basic, with a zone, as a number: the same nanoseconds."""
    table = ENTRANCES[entrance]({"time": TIMES[case], "other": ["x"] * 3}, tmp_path, monkeypatch)
    found = table.times("time")
    step = 60 * 10**9
    wanted = [NOON, NOON + step, NOON + 2 * step + (5 * 10**8 if case == "basic" else 0)]
    gone = [case == "missing" and k == 1 for k in range(3)]
    assert found.missing.tolist() == gone
    assert [ns for ns, missing in zip(found.ns.tolist(), gone, strict=True) if not missing] == [
        ns for ns, missing in zip(wanted, gone, strict=True) if not missing
    ]


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("case", REFUSED_TIMES)
def test_what_is_no_time(case, entrance, tmp_path, monkeypatch):
    """The refusal of the same row."""
    texts, row = REFUSED_TIMES[case]
    table = ENTRANCES[entrance]({"time": texts, "other": ["x"] * 2}, tmp_path, monkeypatch)
    assert outcome(lambda: table.times("time").ns.tolist()) == ("ReadingError", row)


TYPED_TIMES = {
    "datetimes": [dt.datetime(2026, 3, 1, 12), dt.datetime(2026, 3, 1, 12, 1), None],
    "aware": [dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC), dt.datetime(2026, 3, 1, 12, 1, tzinfo=dt.UTC), None],
    "daylight saving": [dt.datetime(2026, 10, 25, 2, 30, fold=k, tzinfo=BERLIN) for k in (0, 1)],
    "dates": [dt.date(2026, 3, 1), dt.date(2026, 3, 2)],
    "numbers": [1_772_366_400, 1_772_366_460],
    "decimals": [1_772_366_400.25, 1_772_366_460.5],
    "dates as numbers": [20_260_301, 20_260_302],
    "seconds from the beginning": [20_260_301, 20_260_361],
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("case", TYPED_TIMES)
def test_times_in_values(case, entrance, tmp_path, monkeypatch):
    """Typed where the entrance has types, ISO texts or digits where it has not: the same nanoseconds."""
    cells = TYPED_TIMES[case]
    table = ENTRANCES[entrance]({"time": cells, "other": ["x"] * len(cells)}, tmp_path, monkeypatch)
    found = table.times("time")
    wanted = Table({"time": cells}).times("time")
    assert found.missing.tolist() == [cell is None for cell in cells]
    assert found.ns.tolist() == wanted.ns.tolist()
    if case == "daylight saving":  # an hour apart, although the clock shows the same
        assert np.diff(found.ns).tolist() == [3600 * 10**9]
    if case == "dates as numbers":
        assert np.diff(found.ns).tolist() == [86_400 * 10**9]
    if case == "seconds from the beginning":
        assert found.ns.tolist() == [20_260_301 * 10**9, 20_260_361 * 10**9]


# Labels, as they are learned and as they are known ---------------------------------------------------

LABELS = {
    "numbers": (["0", "1", "1", "-"], (0, 1), [0, 1, 1, -1], ENTRANCES),
    "decimals": (["0.5", "1e0", "1", None], (0.5, 1), [0, 1, 1, -1], ENTRANCES),
    "names": (["away", " home", "home", "NA"], ("away", "home"), [0, 1, 1, -1], ENTRANCES),
    "names and numbers": (["away", "1", "away", ""], ("1", "away"), [1, 0, 1, -1], ENTRANCES),
    "truth in words": (["true", "False", "TRUE", None], (False, True), [1, 0, 1, -1], ENTRANCES),
    "truth": ([True, False, True, None], (False, True), [1, 0, 1, -1], ENTRANCES),
    "typed numbers": ([0, 2, 2, None], (0, 2), [0, 1, 1, -1], ENTRANCES),
    "other digits": (["\u0661", "0", "0", "0"], ("0", "\u0661"), [1, 0, 0, 0], ENTRANCES),
    "mixed": ([0, "away", "away", None], ("0", "away"), [0, 1, 1, -1], MIXED),
}


@pytest.mark.parametrize(("case", "entrance"), [(case, each) for case in LABELS for each in LABELS[case][3]])
def test_labels(case, entrance, tmp_path, monkeypatch):
    """The same values and positions, whether they are learned or known beforehand."""
    from understudy.identify.history import as_labels, known_positions

    cells, values, positions, _ = LABELS[case]
    table = ENTRANCES[entrance]({"people": cells, "other": ["x"] * len(cells)}, tmp_path, monkeypatch)
    found = as_labels(table, "people")
    assert found.values == values
    assert [type(value) for value in found.values] == [type(value) for value in values]
    assert found.positions.tolist() == positions
    assert known_positions(table.entries("people"), values).tolist() == positions


# Names of columns, and rows --------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "pandas", "pyarrow"])
def test_a_name_that_comes_twice_is_refused(form, tmp_path):
    """Which is meant cannot be told."""
    path = tmp_path / f"in.{form}"
    twice = pa.table([pa.array([1.0]), pa.array([2.0])], names=["co2", "co2"])
    if form == "csv":
        path.write_text("co2,co2\n1,2\n")
    elif form == "jsonl":
        path.write_text('{"co2": 1, "co2": 2}\n')
    elif form == "parquet":
        pq.write_table(twice, path)
    frames = {"pandas": lambda: pd.DataFrame([[1.0, 2.0]], columns=["co2", "co2"]), "pyarrow": lambda: twice}
    with pytest.raises(ConfigurationError, match=r"twice|two columns of one name"):
        Table(frames[form]()) if form in frames else read_table(path, ["co2"])


@pytest.mark.parametrize("text", ["a,b\n1,2\n3\n", "a,b\n1,2\n3,4,5\n"])
def test_ragged_rows_are_refused_by_line(text, tmp_path):
    """By fit, and by apply."""
    (tmp_path / "in.csv").write_text(text)
    with pytest.raises(ReadingError, match=r"line 3: the row has [13] fields and the header has 2"):
        read_table(tmp_path / "in.csv", ["a"])


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    """In CSV and in JSON lines."""
    (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbfco2,b\n400,1\n")
    (tmp_path / "in.jsonl").write_bytes(b'\xef\xbb\xbf{"co2": 400}\n')
    for name in ("in.csv", "in.jsonl"):
        assert read_table(tmp_path / name, ["co2"]).numbers("co2").tolist() == [400.0]


# The five ways in, from end to end -------------------------------------------------------------------


def history(co2, time=None, people=None):
    """Rows of a file, with one cell that is out of the ordinary."""
    count = 40
    start = dt.datetime(2026, 3, 1, 12)
    columns = {
        "time": [(start + k * dt.timedelta(minutes=1)).isoformat() for k in range(count)],
        "co2": [f"{400.0 + k % 7}" for k in range(count)],
        "people": [str(k // 5 % 2) for k in range(count)],
    }
    for name, cell in {"co2": co2, "time": time, "people": people}.items():
        if cell is not None:
            columns[name][17] = cell
    return columns


HOSTILE = {
    "dash": ({"co2": "-"}, True),
    "blank": ({"co2": " "}, True),
    "exponent": ({"co2": "4e2"}, True),
    "basic time": ({"co2": None, "time": "20260301T121700"}, True),
    "comma": ({"co2": "1,5"}, False),
    "hexadecimal": ({"co2": "0x10"}, False),
    "other digits": ({"co2": "\u0661\u0662"}, False),
    "infinite": ({"co2": "inf"}, False),
    "word": ({"co2": SECRET}, False),
    "time": ({"co2": None, "time": SECRET}, False),
    "zone": ({"co2": None, "time": "2026-03-01T12:17:00Z"}, False),
    "label": ({"co2": None, "people": SECRET}, False),
}


def room(people):
    return us.GaussMarkov(A=0.9, C=1.0, Q=4.0, R=1.0, b=40.0 + 10.0 * people, mean0=400.0, cov0=9.0)


@pytest.fixture(scope="module")
def design():
    about = {"readings": ["co2"], "private": "people", "time": "time", "segment": None, "period": 60.0,
             "bins": None, "public": None, "grid": None, "resampling": None, "zone": None}  # fmt: skip
    return us.design(us.Family(room, [0, 1], about=about), leakage=0.1, horizon=20, distortion="mae")


@pytest.mark.parametrize("case", HOSTILE)
def test_fit_apply_and_audit_take_the_same_rows(case, design, tmp_path):
    """`us.fit`, `understudy fit`, `apply_file` and `understudy audit` accept the same cell, or refuse its row."""
    from understudy.cli.file_commands import audit_columns, read
    from understudy.cli.file_commands import read_recording as recorded
    from understudy.cli.options import AuditFiles, Columns, TableFormat

    cell, accepted = HOSTILE[case]
    columns = history(**cell)
    path = tmp_path / "in.csv"
    path.write_text(csv_text(columns), encoding="utf-8")
    names = {"reading": "co2", "private": "people", "time": "time"}

    def frame():
        return intake(columns, values=(0, 1), **names).segments[0].Y.ravel().tolist()

    def file():
        table = read(str(path), Columns(["co2"], "people", "time"))
        return intake(table, values=(0, 1), **names).segments[0].Y.ravel().tolist()

    def audited():
        return (
            recorded(design, str(path), audit_columns(design, AuditFiles(), TableFormat())).recording.Y.ravel().tolist()
        )

    def applied():
        apply_file(design, path, tmp_path / "out.csv", rng=1)
        return table_of_output()

    def table_of_output():
        return read_table(tmp_path / "out.csv", ["co2"]).numbers("co2").tolist()

    ways = [outcome(way) for way in (frame, file, audited)]
    through = outcome(applied)
    if accepted:
        for way in ways[1:]:
            np.testing.assert_array_equal(way, ways[0])
        assert np.isnan(through).tolist() == np.isnan(ways[0]).tolist()
    else:
        assert ways == [("ReadingError", 17)] * 3
        assert through == ("ReadingError", 17)
