"""Rooms, sessions and oracles for the tests of Spark: one `Stream` a room says what must come out."""

from __future__ import annotations

import datetime as dt
import functools
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import understudy as us
from understudy.stream.engine import Clock
from understudy.stream.ledger_file import StreamRow

MINUTE = 60 * 10**9
START = np.datetime64("2026-03-01T00:00", "ns")


def room(occupants):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)


@functools.cache
def design():
    return us.design(us.Family(room, values=[0, 1]), leakage=0.3, horizon=50, distortion="mae")


def new_key(folder):
    """A master key in a file, and the path of it."""
    key = us.MasterKey(os.urandom(32))
    key.save(os.path.join(folder, "master.key"))
    return key, os.path.join(folder, "master.key")


def session(master="local[2,4]", memory="1g", **conf):
    """A session as a user would make it, quiet and on the loopback."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("understudy")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        **conf,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def history(rooms=20, rows=60, seed=1, missing=0.05, days=0):
    """Rows of many rooms, a minute apart, ragged; theta changes, some readings are missing; over so many days."""
    rng = np.random.default_rng(seed)
    frames = []
    for i in range(rooms):
        count = int(rng.integers(rows // 2, rows + 1))
        steps = np.cumsum(rng.choice([1, 1, 1, 1, 2, 7], count))
        if days:
            steps = np.sort(rng.choice(days * 1440, count, replace=False))
        people = (np.cumsum(rng.random(count) < 0.02) + rng.integers(0, 2)) % 2
        co2 = 100.0 + 10.0 * people + rng.normal(size=count)
        co2[rng.random(count) < missing] = np.nan
        time = START + steps * np.timedelta64(60, "s")
        frames.append(pd.DataFrame({"room": f"room {i}", "time": time, "co2": co2, "people": people}))
    return pd.concat(frames, ignore_index=True)


def to_spark(spark, frame):
    """The rows as Spark has them, in another order."""
    given = frame.sample(frac=1.0, random_state=1).copy()
    given["time"] = given["time"].dt.tz_localize("UTC")
    return spark.createDataFrame(given)


def collected(frame):
    """What came out, sorted."""
    found = frame.toPandas()
    if found["time"].dt.tz is not None:
        found["time"] = found["time"].dt.tz_localize(None)
    found["time"] = found["time"].astype("datetime64[ns]")
    return found.sort_values(["room", "time"], ignore_index=True)


def stream_of(key, name, epoch=None, period=60, namespace="spark", made=None):
    """A stream of a room, begun untold, under the key of the room."""
    made = design() if made is None else made
    options = {"index": "clock", "draws": "released", **Clock.checked(epoch)}
    options["cadence"] = [period * 10**9, period * 10**9 // 2, 0]
    secret = key.room_key(namespace, made.fingerprint, name)
    return us.Stream.begin(made, None, None, StreamRow(0, name, name, made.fingerprint, secret, False, options))


def expected(frame, key, epoch=None):
    """What one stream a room gives, sorted like `collected`; and what each has spent."""
    rows, spent = [], {}
    for name, part in frame.sort_values(["room", "time"]).groupby("room", sort=True):
        stream = stream_of(key, name, epoch)
        times = part["time"].to_numpy().astype("datetime64[ns]")
        given = zip(part["co2"].tolist(), times, part["people"].tolist(), strict=True)
        out = [stream.step(y, at, theta=int(theta)) for y, at, theta in given]
        rows.append(pd.DataFrame({"room": name, "time": times, "co2": np.array(out, dtype=float)}))
        spent[name] = stream.spent
    return pd.concat(rows, ignore_index=True), spent


def same_bits(one, other):
    """Whether two frames hold the same rows, bit for bit."""
    return (
        len(one) == len(other)
        and one["room"].tolist() == other["room"].tolist()
        and one["time"].to_numpy().tobytes() == other["time"].to_numpy().astype(one["time"].dtype).tobytes()
        and np.isnan(one["co2"]).tolist() == np.isnan(other["co2"]).tolist()
        and one["co2"].dropna().to_numpy().tobytes() == other["co2"].dropna().to_numpy().tobytes()
    )


def spent_by_group(marks):
    table = us.spark.spent(marks)
    return dict(zip(table.column("group").to_pylist(), table.column("nats").to_pylist(), strict=True))


DAY = dt.timedelta(days=1)


def key_texts(key, frame, design):
    """What must not be found: the master key and the keys of rooms, as bytes and as digits."""
    secret = key._secret
    rooms = [key.room_key("spark", design.fingerprint, name) for name in sorted(set(frame["room"]))]
    found = []
    for one in [secret, *rooms]:
        found += [one, one.hex().encode(), one.hex().upper().encode()]
    return found


def search(folder, needles):
    """Files below a folder in which any of these stands."""
    hits = []
    for path in Path(folder).rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            hits += [path.name] * any(needle in content for needle in needles)
    return hits
