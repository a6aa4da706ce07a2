"""Dataframes: the kind that came in goes out, with the outputs of the file of the same rows."""

import datetime as dt
import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.errors import ConfigurationError, ReadingError

COLUMNS = {"reading": "co2", "private": "people", "time": "time"}


@pytest.fixture(scope="module")
def design():
    family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    return us.design(family, leakage=0.1, horizon=50, distortion="mae")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    start = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    readings = 4.0 + rng.normal(size=200)
    readings[[5, 77]] = np.nan
    return pd.DataFrame(
        {
            "time": [start + dt.timedelta(minutes=i) for i in range(200)],
            "co2": readings,
            "people": np.arange(200) // 100,
            "floor": ["a", "b"] * 100,
        }
    )


def file_outputs(design, rows, folder, **options):
    """What `apply_file` writes for the rows."""
    source, target = folder / "rows.parquet", folder / "out.parquet"
    rows.to_parquet(source)
    us.apply_file(design, source, target, **COLUMNS, period="1 min", rng=4, **options)
    return pq.read_table(target)


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "pyarrow"])
def test_the_outputs_are_those_of_the_file(design, rows, tmp_path, kind):
    """Bit for bit, time included, in a frame of the kind that was given; the private column does not leave."""
    make = {
        "pandas": lambda: rows,
        "polars": lambda: pl.from_pandas(rows),
        "lazy": lambda: pl.from_pandas(rows).lazy(),
        "pyarrow": lambda: pa.Table.from_pandas(rows),
    }[kind]
    made = design.apply(make(), **COLUMNS, period="1 min", rng=4)
    assert type(made) is {"lazy": pl.DataFrame, "pyarrow": pa.Table}.get(kind, type(make()))
    wanted = file_outputs(design, rows, tmp_path)
    found = pa.Table.from_pandas(made, preserve_index=False) if kind == "pandas" else made
    found = found.to_arrow() if isinstance(found, pl.DataFrame) else found
    assert found.column_names == ["time", "co2", "disguised"]
    outputs = np.array(found["co2"].to_numpy(), dtype=float)
    assert outputs.tobytes() == np.array(wanted["co2"].to_numpy(), dtype=float).tobytes()
    assert found["time"].cast(pa.int64()).to_pylist() == wanted["time"].cast(pa.int64()).to_pylist()
    assert all(found["disguised"].to_pylist())
    assert np.isnan(outputs).sum() == 2


def test_a_disguise_that_is_none_is_noticed(design, rows, tmp_path):
    """The twin: another draw, or the readings themselves, are not the outputs of the file."""
    wanted = np.array(file_outputs(design, rows, tmp_path)["co2"].to_numpy(), dtype=float)
    others = {design.apply(rows, **COLUMNS, period="1 min", rng=seed)["co2"].to_numpy().tobytes() for seed in range(9)}
    assert len(others) == 2  # one for each pseudo value
    assert wanted.tobytes() in others
    assert rows["co2"].to_numpy().tobytes() != wanted.tobytes()


def test_an_index_of_times_stays_the_index(design, rows):
    """A pandas frame keeps its index, whether it is the time or not."""
    timed = rows.set_index("time")
    plain = design.apply(rows, **COLUMNS, period="1 min", rng=4)
    made = design.apply(timed, **COLUMNS, period="1 min", rng=4)
    assert made.index.name == "time"
    assert made.index.to_list() == timed.index.to_list()
    assert made["co2"].to_numpy().tobytes() == plain["co2"].to_numpy().tobytes()
    named = design.apply(rows.set_axis([f"r{i}" for i in range(200)]), **COLUMNS, period="1 min", rng=4)
    assert named.index.to_list() == [f"r{i}" for i in range(200)]


def test_rooms_go_through_a_fleet(design, rows, tmp_path):
    """A column of rooms: the same rows again give the same outputs and cost nothing."""
    key = us.MasterKey.new()
    with us.Ledger(tmp_path / "plant.ledger", rollback_guard=tmp_path / "guard") as ledger:
        options = {**COLUMNS, "room": "floor", "period": "1 min", "ledger": ledger, "key": key}
        first = design.apply(pl.from_pandas(rows), **options)
        spent = us.Fleet(design, ledger, "fleet", key=key, admit=10_000, period=60).spent("a")
        again = design.apply(pl.from_pandas(rows), **options)
        assert first.equals(again, null_equal=True)
        assert us.Fleet(design, ledger, "fleet", key=key, admit=10_000, period=60).spent("a") == spent > 0.0
    assert first.columns == ["time", "co2", "floor", "disguised"]


def test_kept_columns_leave_with_a_warning(design, rows):
    """As in files: what is kept may tell."""
    with pytest.warns(UserWarning, match="leave as they are"):
        made = design.apply(rows, **COLUMNS, period="1 min", rng=4, keep="floor")
    assert made["floor"].tolist() == rows["floor"].tolist()


def test_wrong_frames_are_refused_without_a_value(design, rows):
    """Frames of other kinds, formats, taken names, and readings that are none."""
    with pytest.raises(ConfigurationError, match="of type list"):
        design.apply([1, 2], **COLUMNS)
    with pytest.raises(ConfigurationError, match="has no format"):
        design.apply(rows, **COLUMNS, format="csv")
    with pytest.raises(ConfigurationError, match="no column 'co3'"):
        design.apply(rows, reading="co3", private="people", time="time", period="1 min")
    bad = rows.astype({"co2": object})
    bad["co2"] = bad["co2"].astype(str)
    bad.loc[7, "co2"] = "secret 1234"
    with pytest.raises(ReadingError, match="line 8, column 'co2'") as caught:
        design.apply(bad, **COLUMNS, period="1 min", rng=4)
    assert "1234" not in str(caught.value)
    with pytest.warns(UserWarning, match="leave as they are"), pytest.raises(ConfigurationError, match="'disguised'"):
        design.apply(rows.assign(disguised=1), **COLUMNS, period="1 min", rng=4, keep="disguised")


def test_bytes_in_memory_need_a_format(design):
    """They have no name that tells it."""
    with pytest.raises(ConfigurationError, match="format is missing"):
        us.apply_file(design, io.BytesIO(b""), io.BytesIO(), reading="co2", private="people")
