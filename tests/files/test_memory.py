"""A long file takes no more memory than a short one."""

import json
import subprocess
import sys
from pathlib import Path

import apply_worker
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

WORKER = Path(apply_worker.__file__)
NAMES = {"reading": "co2", "private": "people", "time": "time"}


def long_parquet(path, count, row_groups):
    """Rows in so many row groups."""
    rng = np.random.default_rng(0)
    writer = None
    size = count // row_groups
    for at in range(0, count, size):
        table = pa.table(
            {
                "time": np.datetime64("2026-01-01", "ns") + (at + np.arange(size)) * np.timedelta64(1, "s"),
                "co2": 400.0 + rng.normal(size=size),
                "people": np.where(np.arange(size) // 3600 % 2, "full", "empty"),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=size)
    writer.close()


def run(source, target, period):
    """What the worker says: its summary, and the most memory that it had, in MB."""
    done = subprocess.run(
        [sys.executable, str(WORKER), str(source), str(target), json.dumps({**NAMES, "period": period})],
        capture_output=True, text=True, timeout=90, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout.splitlines()[-1])
    return told["rows"], told["memory"] / 1024


@pytest.mark.long(seconds=3, reason="memory shows only in files of two million rows")
@pytest.mark.parametrize("row_groups", [1, 4])
def test_memory_does_not_grow_with_the_file(tmp_path, row_groups):
    """Two million rows of Parquet, in one row group or in several, near the 300 MB of ten million in the benchmarks."""
    long_parquet(tmp_path / "in.parquet", 2_000_000, row_groups)
    rows, memory = run(tmp_path / "in.parquet", tmp_path / "out.parquet", 1)
    assert rows == 2_000_000
    assert memory < 350, memory  # a busy machine gives memory back later
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.num_rows == 2_000_000


@pytest.mark.long(seconds=7, reason="memory shows only in files of 23 and 69 MB")
def test_csv_is_read_in_pieces(tmp_path):
    """Three times the rows take no more memory: of files of 23 and 69 MB, half of the difference would be too much."""
    line = "2026-01-01T%02d:%02d:%02d.%03d,%.12f,empty," + "x" * 80 + "\n"
    for name, count in (("small", 200_000), ("large", 600_000)):
        lines = (
            line % (i // 3_600_000, i // 60_000 % 60, i // 1000 % 60, i % 1000, 400 + i * 0.6180339887498949 % 1)
            for i in range(count)
        )
        (tmp_path / f"{name}.csv").write_text("time,co2,people,note\n" + "".join(lines))
    small, large = (run(tmp_path / f"{name}.csv", tmp_path / "out.csv", 0.001) for name in ("small", "large"))
    assert (small[0], large[0]) == (200_000, 600_000)
    assert large[1] < small[1] + 23
