"""The page about Spark runs as it is written, but for the paths."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import spark_cases as cases

import understudy as us

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_page_runs(spark, tmp_path, monkeypatch):
    """Its blocks in their order: the history, its counts and charges, then the feed."""
    _, key = cases.new_key(tmp_path)
    frame = cases.to_spark(spark, cases.history(rooms=4, rows=20))
    frame.write.parquet(str(tmp_path / "rows"))
    names = {"datetime": datetime, "us": us, "frame": frame, "design": cases.design()}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        text = block.replace("/etc/understudy/master.key", key).replace("/srv", str(tmp_path))
        if "query" in text:
            names["frame"] = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "rows"))
            text = text.replace(".start()", ".trigger(availableNow=True).start()")
        exec(text, names)  # noqa: S102  # the page is ours
    names["query"].awaitTermination()
    assert spark.read.parquet(str(tmp_path / "released")).count() == frame.count()
    assert spark.read.parquet(str(tmp_path / "feed")).count() == frame.count()
    assert us.spark.spent(tmp_path / "marks").num_rows == 4
