"""A live feed: one stream a room says what comes out, bit for bit, whatever is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import spark_cases as cases
import spark_feed

from understudy.errors import ConfigurationError

SUPPORT = Path(cases.__file__).parent
PATH = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])


class Feed:
    """Files of a feed in the order of their times, a key, a guard and a checkpoint."""

    def __init__(self, folder, files):
        self.folder = folder
        self.key, self.key_path = cases.new_key(folder)
        self.frame = cases.history(rooms=12, rows=80, days=3).sort_values("time", kind="stable")
        (folder / "input").mkdir()
        for i, part in enumerate(np.array_split(np.arange(len(self.frame)), files)):
            self.put(i, self.frame.iloc[part])
        self.task = {name: str(folder / name) for name in ("input", "out", "checkpoint", "marks")} | {
            "key": self.key_path
        }

    def put(self, i, rows):
        given = rows.copy()
        given["time"] = given["time"].dt.tz_localize("UTC").astype("datetime64[us, UTC]")
        path = self.folder / "input" / f"{i:04d}.parquet"
        given.to_parquet(path, index=False)
        os.utime(path, (1.7e9 + i, 1.7e9 + i))  # Spark takes files by their age

    def found(self):
        """What the sink has committed: a killed writer may leave a torn file, which its log does not name."""
        names = set()
        for path in (self.folder / "out" / "_spark_metadata").iterdir():
            if not path.name.startswith("."):
                names |= {Path(json.loads(line)["path"]).name for line in path.read_text().splitlines()[1:]}
        frame = pd.concat([pd.read_parquet(self.folder / "out" / name) for name in sorted(names)])
        frame["time"] = frame["time"].dt.tz_localize(None).astype("datetime64[ns]")
        return frame.sort_values(["room", "time"], ignore_index=True)

    def start(self):
        env = {**os.environ, "PYTHONPATH": PATH, "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [sys.executable, str(SUPPORT / "spark_feed.py"), json.dumps(self.task)]
        return subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def commits(self):
        folder = self.folder / "checkpoint" / "commits"
        return len([name for name in os.listdir(folder) if name.isdecimal()]) if folder.exists() else 0


def finish(query):
    query.awaitTermination()


def test_a_feed_is_one_stream_a_room(spark, tmp_path):
    """Micro-batches of any cut: bits and charges of the library; the next run goes on."""
    feed = Feed(tmp_path, files=3)
    last = feed.folder / "input" / "0002.parquet"
    shutil.move(last, tmp_path / "later.parquet")
    finish(spark_feed.begin(spark, feed.task))
    shutil.move(tmp_path / "later.parquet", last)
    finish(spark_feed.begin(spark, feed.task))
    theirs, spent = cases.expected(feed.frame, feed.key, epoch=cases.DAY)
    assert cases.same_bits(feed.found(), theirs)
    import understudy as us

    table = us.spark.spent_stream(spark, feed.task["checkpoint"])
    assert dict(zip(table.column("room").to_pylist(), table.column("nats").to_pylist(), strict=True)) == pytest.approx(
        spent
    )
    needles = cases.key_texts(feed.key, feed.frame, cases.design())
    assert cases.search(feed.folder / "checkpoint", needles) == []
    assert cases.search(feed.folder / "marks", needles) == []
    with pytest.raises(ConfigurationError, match="buckets = 3"):
        spark_feed.begin(spark, {**feed.task, "buckets": 3})


def test_rows_that_come_again_get_the_same_output(spark, tmp_path):
    """A producer that sends a file twice, within the watermark: the same bytes twice, nothing charged."""
    feed = Feed(tmp_path, files=2)
    feed.task["watermark"] = "30 days"
    feed.put(2, feed.frame)
    late = feed.frame.iloc[[0]].copy()
    late["co2"] += 1.0
    feed.put(3, late)  # another reading at a known time
    finish(spark_feed.begin(spark, feed.task))
    theirs, _ = cases.expected(feed.frame, feed.key, epoch=cases.DAY)
    found = feed.found()
    twice = found.groupby(["room", "time"])["co2"]
    assert (twice.nunique() <= 1).all()
    both = pd.concat([theirs, theirs]).sort_values(["room", "time"], kind="stable", ignore_index=True)
    extra = found.groupby(["room", "time"]).size()
    assert sorted(extra.unique().tolist()) == [2, 3]
    assert extra[extra == 3].index.tolist() == [(late["room"].iloc[0], late["time"].iloc[0])]
    assert int(found["co2"].notna().sum()) == int(both["co2"].notna().sum())


def test_an_older_checkpoint_with_other_rows_is_refused(spark, tmp_path):
    """With the same rows it gives the same bytes; with others it would be a second output."""
    feed = Feed(tmp_path, files=2)
    second = feed.folder / "input" / "0001.parquet"
    shutil.move(second, tmp_path / "later.parquet")
    finish(spark_feed.begin(spark, feed.task))
    shutil.copytree(feed.folder / "checkpoint", tmp_path / "older")
    shutil.copytree(feed.folder / "out", tmp_path / "out older")
    shutil.move(tmp_path / "later.parquet", second)
    finish(spark_feed.begin(spark, feed.task))
    first = feed.found()

    def go_back():
        for name, copy in (("checkpoint", "older"), ("out", "out older")):
            shutil.rmtree(feed.folder / name)
            shutil.copytree(tmp_path / copy, feed.folder / name)

    go_back()
    finish(spark_feed.begin(spark, feed.task))
    assert cases.same_bits(feed.found(), first)
    go_back()
    rows = feed.frame.iloc[len(feed.frame) // 2 :].copy()
    rows["co2"] += 0.5
    feed.put(1, rows)
    query = spark_feed.begin(spark, feed.task)
    with pytest.raises(Exception, match="disguised before with other rows"):
        query.awaitTermination()


def test_a_feed_that_breaks_a_rule_is_refused(spark, tmp_path):
    """No watermark, numbers as keys, groups, tables: each in the driver."""
    import understudy as us

    feed = Feed(tmp_path, files=1)
    frame = spark.readStream.schema(spark_feed.SCHEMA).parquet(feed.task["input"])
    given = {"key": feed.key_path, "room": "room", "time": "time", "reading": "co2", "private": "people"}
    given |= {"marks": feed.task["marks"], "options": us.spark.Options(period=60)}
    with pytest.raises(ConfigurationError, match="no watermark"):
        us.spark.disguise_stream(frame, cases.design(), **given)
    with pytest.raises(ConfigurationError, match="is a stream"):
        us.spark.disguise(frame, cases.design(), **given)
    table = cases.to_spark(spark, feed.frame)
    with pytest.raises(ConfigurationError, match="no stream"):
        us.spark.disguise_stream(table, cases.design(), **given)
    grouped = {**given, "options": us.spark.Options(period=60, group="room", limit=1.0)}
    with pytest.raises(ConfigurationError, match="histories"):
        us.spark.disguise_stream(frame.withWatermark("time", "1 minute"), cases.design(), **grouped)


def test_drivers_killed_in_the_middle_of_a_feed(tmp_path):
    """The driver and its JVM are killed again and again: every row once, bits and budgets of the library."""
    kills, files = int(os.environ.get("UNDERSTUDY_KILLS", "3")), int(os.environ.get("UNDERSTUDY_FILES", "10"))
    feed = Feed(tmp_path, files)
    rng = np.random.default_rng(5)
    done, text = 0, ""
    while True:
        process = feed.start()
        goal = feed.commits() + max(1, files // (kills + 1))
        while process.poll() is None and (done == kills or feed.commits() < goal):
            time.sleep(0.05)
        if process.poll() is None:
            time.sleep(float(rng.uniform(0.0, 1.0)))
            os.killpg(process.pid, signal.SIGKILL)  # the session that this test began: Python, JVM and workers
            process.communicate()
            done += 1
            continue
        text, errors = process.communicate()
        assert process.returncode == 0, errors[-3000:]
        break
    theirs, spent = cases.expected(feed.frame, feed.key, epoch=cases.DAY)
    assert done == kills
    assert cases.same_bits(feed.found(), theirs)
    assert json.loads(text.strip().splitlines()[-1])["spent"] == pytest.approx(spent)
