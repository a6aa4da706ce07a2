"""The same rows in CSV, gzipped CSV, Parquet and JSON lines become the same rows."""

import datetime as dt
import decimal
import gzip
import io
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.apply.apply_file import apply_file
from understudy.errors import ConfigurationError, MissingExtraError, ReadingError, UnderstudyWarning
from understudy.tables import columns as arrow
from understudy.tables.table import format_of


@pytest.fixture(scope="module")
def content(lab):
    """Times, readings of all digits with a few missing, labels."""
    times, y, labels = lab.rows(500)
    y[[7, 8, 300]] = np.nan
    return times, y, labels


def written(folder, content):
    """The same rows in every format."""
    times, y, labels = content
    texts = ["" if np.isnan(v) else repr(v) for v in y.tolist()]
    lines = "".join(f"{t},{v},{p}\n" for t, v, p in zip(times, texts, labels, strict=True))
    (folder / "in.csv").write_text("time,co2,people\n" + lines)
    (folder / "in.csv.gz").write_bytes(gzip.compress(("time,co2,people\n" + lines).encode()))
    objects = [
        f'{{"time": "{t}", "co2": {v or "null"}, "people": "{p}"}}\n'
        for t, v, p in zip(times, texts, labels, strict=True)
    ]
    (folder / "in.jsonl").write_text("".join(objects))
    table = pa.table(
        {
            "time": pa.array(np.array(times, dtype="datetime64[s]")),
            "co2": pa.array([None if np.isnan(v) else decimal.Decimal(repr(v)) for v in y.tolist()]),
            "people": labels,
        }
    )
    pq.write_table(table, folder / "in.parquet")


def test_all_formats_give_the_same_rows(lab, tools, tmp_path, content):
    """With the same draw, each format gives the same readings to the digit, in its own form."""
    written(tmp_path, content)
    for ending in ("csv", "csv.gz", "jsonl", "parquet"):
        summary = apply_file(lab.design, tmp_path / f"in.{ending}", tmp_path / f"out.{ending}", rng=5, **tools.NAMES)
        assert (summary.rows, summary.missing, summary.columns) == (500, 3, ("time", "co2"))
    first = tools.read_csv(tmp_path / "out.csv")
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == (tmp_path / "out.csv").read_bytes()
    assert list(first) == ["time", "co2"]
    assert first["time"] == content[0]
    assert all(text == "" or text == f"{float(text):.4f}" for text in first["co2"])
    assert any(text.endswith("0") for text in first["co2"])
    objects = tools.read_jsonl(tmp_path / "out.jsonl")
    assert [o["time"] for o in objects] == content[0]
    assert [o["co2"] for o in objects] == [float(text) if text else None for text in first["co2"]]
    table = pq.read_table(tmp_path / "out.parquet")
    wanted = [float(text) if text else None for text in first["co2"]]
    assert table["co2"].to_pylist() == wanted
    assert table.schema.field("co2").type == pa.float64()
    assert table["time"].to_numpy().astype("datetime64[s]").astype(str).tolist() == content[0]
    # and they are what the filter makes of the readings
    found = lab.played(tools.floats(first["co2"]), content[1], content[2])
    assert len(found) == 1


def test_without_pyarrow_csv_is_the_same_to_the_byte(lab, tools, tmp_path, content, monkeypatch):
    """Python's csv module alone gives the same file; Parquet then says what to install."""
    written(tmp_path, content)
    apply_file(lab.design, tmp_path / "in.csv", tmp_path / "quick.csv", rng=5, **tools.NAMES)
    monkeypatch.setattr(arrow, "find_pyarrow", lambda: None)
    apply_file(lab.design, tmp_path / "in.csv", tmp_path / "slow.csv", rng=5, **tools.NAMES)
    assert (tmp_path / "slow.csv").read_bytes() == (tmp_path / "quick.csv").read_bytes()
    with pytest.raises(MissingExtraError, match=r"understudy\[arrow\]"):
        apply_file(lab.design, tmp_path / "in.parquet", tmp_path / "x.csv", **tools.NAMES)


def test_from_one_format_into_another(lab, tools, tmp_path, content):
    """The target may have another format than the source; numbers and times stay what they are."""
    written(tmp_path, content)
    names = dict(tools.NAMES, rng=5)
    apply_file(lab.design, tmp_path / "in.csv", tmp_path / "a.csv", **names)
    wanted = tools.floats(tools.read_csv(tmp_path / "a.csv")["co2"])
    for source in ("csv", "jsonl", "parquet"):
        for target in ("csv", "jsonl", "parquet"):
            out = tmp_path / f"{source}.{target}"
            apply_file(lab.design, tmp_path / f"in.{source}", out, **names)
            if target == "csv":
                found = tools.read_csv(out)
                y, times = tools.floats(found["co2"]), found["time"]
            elif target == "jsonl":
                rows = tools.read_jsonl(out)
                y, times = np.array([np.nan if r["co2"] is None else r["co2"] for r in rows]), [r["time"] for r in rows]
            else:
                table = pq.read_table(out)
                y = np.array([np.nan if v is None else float(v) for v in table["co2"].to_pylist()])
                times = [str(t).replace(" ", "T") for t in table["time"].to_pylist()]
            np.testing.assert_array_equal(y, wanted)
            assert times == content[0], out.name


def test_types_and_compression_of_kept_columns_stay(lab, tools, tmp_path):
    """Times keep unit, zone and compression; readings are doubles, packed in one way, however the raw ones were."""
    times, Y, labels = lab.rows(60)
    seen = set()
    zoned = pa.array(np.array(times, dtype="datetime64[ms]")).cast(pa.timestamp("ms", "Europe/Berlin"))
    for kind in (pa.int16(), pa.uint8(), pa.float32(), pa.float64(), pa.int64()):
        y = pa.array(np.clip(np.rint(Y), 0, 255 if kind == pa.uint8() else 1000)).cast(kind)
        table = pa.table({"people": pa.array(labels).dictionary_encode(), "co2": y, "time": zoned})
        pq.write_table(table, tmp_path / "in.parquet", compression={"people": "none", "co2": "zstd", "time": "gzip"})
        apply_file(lab.design, tmp_path / "in.parquet", tmp_path / "out.parquet", **tools.NAMES)
        out = pq.ParquetFile(tmp_path / "out.parquet")
        assert out.schema_arrow.names == ["co2", "time"]
        assert [out.schema_arrow.field(name).type for name in ("co2", "time")] == [pa.float64(), zoned.type]
        group = out.metadata.row_group(0)
        assert [group.column(i).compression for i in (0, 1)] == ["SNAPPY", "GZIP"]
        seen.add((group.column(0).encodings, group.column(0).has_dictionary_page, group.column(0).physical_type))
        assert out.read()["time"].to_pylist() == zoned.to_pylist()
        assert out.read()["co2"].null_count == 0
    assert len(seen) == 1
    apply_file(lab.design, tmp_path / "in.parquet", tmp_path / "whole.parquet", decimals=0, **tools.NAMES)
    assert pq.read_schema(tmp_path / "whole.parquet").field("co2").type == pa.int64()


def test_whatever_is_missing_is_null(lab, tools, tmp_path):
    """Parquet tells NaN from nothing in the readings; the output does not: which of them it was is the data's form."""
    times, Y, labels = lab.rows(6)
    y = pa.array([1.0, None, float("nan"), *Y[3:]], from_pandas=False)
    pq.write_table(pa.table({"time": times, "co2": y, "people": labels}), tmp_path / "in.parquet")
    summary = apply_file(lab.design, tmp_path / "in.parquet", tmp_path / "out.parquet", **tools.NAMES)
    out = pq.read_table(tmp_path / "out.parquet")["co2"].to_pylist()
    assert out[1] is None
    assert out[2] is None
    assert all(value is not None for value in out[3:])
    assert summary.missing == 2


def test_each_format_has_its_mark(lab, tools, tmp_path, content):
    """CSV has a file beside it, JSON a name in every line, Parquet metadata of file and column."""
    written(tmp_path, content)
    for ending in ("csv", "jsonl", "parquet"):
        apply_file(lab.design, tmp_path / f"in.{ending}", tmp_path / f"out.{ending}", **tools.NAMES)
    beside = json.loads((tmp_path / "out.csv.meta.json").read_text())
    assert beside == {
        "disguised": True, "design": lab.design.fingerprint, "resolution": [2.0**-11], "columns": ["co2"], "rows": 500,
    }  # fmt: skip
    assert all(row["disguised"] is True for row in tools.read_jsonl(tmp_path / "out.jsonl"))
    schema = pq.read_schema(tmp_path / "out.parquet")
    assert json.loads(schema.metadata[b"understudy"])["disguised"] is True
    assert json.loads(schema.field("co2").metadata[b"understudy"])["design"] == lab.design.fingerprint
    assert not (tmp_path / "out.parquet.meta.json").exists()
    apply_file(lab.design, tmp_path / "in.csv", tmp_path / "seeded.csv", rng=1, **tools.NAMES)
    assert json.loads((tmp_path / "seeded.csv.meta.json").read_text())["insecure"] is True


def test_only_what_is_named_leaves(lab, tools, tmp_path, content):
    """Other columns leave when they are named, letter by letter and with a warning; the private one never."""
    times, y, labels = content
    notes = [f'00{i}, "x"\r\né' if i % 3 else "NA" for i in range(500)]
    source = tools.write_csv(
        tmp_path / "in.csv",
        ["note", "people", "co2", "more", "time"],
        notes,
        labels,
        np.nan_to_num(y, nan=400.0),
        labels,
        times,
    )
    apply_file(lab.design, source, tmp_path / "out.csv", **tools.NAMES)
    assert list(tools.read_csv(tmp_path / "out.csv")) == ["co2", "time"]
    with pytest.warns(UnderstudyWarning, match="'note' leave as they are"):
        apply_file(lab.design, source, tmp_path / "out.csv", keep="note", **tools.NAMES)
    found = tools.read_csv(tmp_path / "out.csv")
    assert list(found) == ["note", "co2", "time"]
    assert found["note"] == notes
    with pytest.raises(ConfigurationError, match="never leaves"):
        apply_file(lab.design, source, tmp_path / "no.csv", keep=["people"], **tools.NAMES)
    with pytest.raises(ConfigurationError, match="disguised only"):
        apply_file(lab.design, source, tmp_path / "no.csv", keep=["co2"], **tools.NAMES)
    with pytest.raises(ConfigurationError, match="never leaves"):
        apply_file(lab.design, source, tmp_path / "no.csv", reading="co2", private="people", time="people")
    assert not (tmp_path / "no.csv").exists()


def test_standard_input_and_output(lab, tools, tmp_path, content, monkeypatch):
    """A dash reads and writes CSV, or what format= says."""
    written(tmp_path, content)
    apply_file(lab.design, tmp_path / "in.csv", tmp_path / "out.csv", rng=5, **tools.NAMES)

    class Standard:
        def __init__(self, raw):
            self.buffer = io.BytesIO(raw)

    for ending in ("csv", "jsonl", "parquet"):
        monkeypatch.setattr(sys, "stdin", Standard((tmp_path / f"in.{ending}").read_bytes()))
        monkeypatch.setattr(sys, "stdout", Standard(b""))
        summary = apply_file(
            lab.design, "-", "-", rng=5, format=None if ending == "csv" else ending, target_format="csv", **tools.NAMES
        )
        raw = sys.stdout.buffer.getvalue()
        monkeypatch.undo()
        found = [line.split(b",")[1] for line in raw.splitlines()]
        assert found == [line.split(b",")[1] for line in (tmp_path / "out.csv").read_bytes().splitlines()]
        assert "no mark" in summary.notes[-1]
        assert summary.source == "standard input"


def test_a_name_that_is_the_mark_is_refused(lab, tools, tmp_path):
    """In JSON lines no other column can have the name of the mark."""
    tools.write_csv(tmp_path / "in.csv", ["disguised", "people"], ["400.0"], ["empty"])
    with pytest.raises(ConfigurationError, match="under which each line of JSON says what it is"):
        apply_file(lab.design, tmp_path / "in.csv", tmp_path / "out.jsonl", reading="disguised", private="people")


def test_formats_are_told_by_endings():
    """A name that tells nothing is refused, with what would."""
    assert [format_of(name) for name in ("A.CSV", "b.ndjson", "c.pq", "d.csv.gz")] == [
        "csv",
        "jsonl",
        "parquet",
        "csv.gz",
    ]
    with pytest.raises(ConfigurationError, match="format="):
        format_of("readings.dat")
    with pytest.raises(ConfigurationError, match="format = 'xls'"):
        format_of("readings.dat", "xls")


def test_other_types_of_the_private_column(tools, tmp_path):
    """Labels that are 1, 1.0, "1" and true are the value 1; an array of nulls among them is missing."""
    family = us.Family({0: tools.room(0.0), 1: tools.room(1.0)})
    design = us.design(family, leakage=0.3, horizon=50, distortion="mae")
    y = [400.5, 401.0, 402.0, 403.0]
    outs = []
    for labels in ([0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0], ["0", " 1", "1.0", "0"], [False, True, True, False]):
        pq.write_table(pa.table({"co2": y, "people": pa.array(labels)}), tmp_path / "in.parquet")
        apply_file(design, tmp_path / "in.parquet", tmp_path / "out.csv", reading="co2", private="people", rng=2)
        lines = [json.dumps({"co2": v, "people": p}) for v, p in zip(y, labels, strict=True)]
        (tmp_path / "in.jsonl").write_text("\n".join(lines))
        apply_file(design, tmp_path / "in.jsonl", tmp_path / "json.csv", reading="co2", private="people", rng=2)
        outs.append((tmp_path / "out.csv").read_text())
        assert (tmp_path / "json.csv").read_text() == outs[-1]
    assert len(set(outs)) == 1
    pq.write_table(pa.table({"co2": y, "people": pa.array([0, None, 1, 1])}), tmp_path / "in.parquet")
    with pytest.raises(ReadingError, match="line 2, column 'people': holds no value of the design"):
        apply_file(design, tmp_path / "in.parquet", tmp_path / "out.csv", reading="co2", private="people")


def test_times_of_every_kind_leave_as_they_came(lab, tools, tmp_path):
    """A date, a number and a text of time leave unchanged."""
    _, Y, labels = lab.rows(4)
    days = [dt.date(2026, 3, day) for day in range(1, 5)]
    texts = ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"]
    for times, every in ((days, 86_400), ([1, 2, 3, 4], 1), ([1.5, 2.5, 3.5, 4.5], 1), (texts, "1 day")):
        table = pa.table({"time": times, "co2": Y, "people": labels})
        pq.write_table(table, tmp_path / "in.parquet")
        names = {**tools.NAMES, "period": every}
        summary = apply_file(lab.design, tmp_path / "in.parquet", tmp_path / "out.parquet", **names)
        found = pq.read_table(tmp_path / "out.parquet")
        assert found["time"].to_pylist() == times
        assert found["co2"].null_count == summary.filled == 0
