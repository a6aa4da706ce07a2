"""What Spark costs: CPU time a row, of all processes of a job, for disguises, for copies, and for one plain process.

    .venv-spark/bin/python benchmarks/spark_jobs.py --rooms 1000 10000 --rows 300 --rounds 2

Each case is a job in a process of its own on local[2]; the CPU time is that of the driver, its JVM and all Python
workers, from the first row read to the last one written, without the start of the engine. The least of the rounds
counts.

    disguise      us.spark.disguise, new marks, written to Parquet
    same, copy    the same job, whose fleets copy (nothing is drawn)
    plain copy    read, repartition by bucket, sort, copy in mapInArrow, write: no marks, nothing pinned
    by room       read, applyInPandas a room, copy, write
    process       one process: read, sort, one us.Fleet, write; no Spark
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = ("disguise", "same, copy", "plain copy", "by room", "process")
SCHEMA = "room string, time timestamp, co2 double"


def make_input(path: str, rooms: int, rows: int) -> None:
    """A table of rooms, a reading a minute, in the order of time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    names = pa.array([f"room {i:06d}" for i in range(rooms)])
    people = rng.integers(0, 2, rooms)
    writer = None
    for k in range(rows):
        time = np.full(rooms, np.datetime64("2026-03-01T00:00", "us") + k * np.timedelta64(60, "s"))
        table = pa.table({
            "room": names, "time": pa.array(time, pa.timestamp("us", tz="UTC")),
            "co2": 100.0 + 10.0 * people + rng.normal(size=rooms), "people": people,
        })  # fmt: skip
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def make_design():
    """The README's room."""
    import understudy as us

    def room(occupants: float) -> us.GaussMarkov:
        return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)

    return us.design(us.Family(room, values=[0, 1]), leakage=0.3, horizon=50, distortion="mae")


def cpu() -> float:
    """Seconds of this process and of all below it, those that ended and were waited for too."""
    ticks, parents, used = os.sysconf("SC_CLK_TCK"), {}, {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(name)] = int(fields[1])
            used[int(name)] = sum(int(field) for field in fields[11:15]) / ticks
    mine, total = {os.getpid()}, 0.0
    while True:
        more = {process for process, parent in parents.items() if parent in mine} - mine
        if not more:
            break
        mine |= more
    for process in mine:
        total += used.get(process, 0.0)
    return total


def run(case: str, folder: str) -> float:
    """One job: its CPU seconds."""
    source, out = f"{folder}/input.parquet", f"{folder}/out"
    design = make_design()
    if case == "process":
        return in_process(design, source, out, folder)
    from pyspark.sql import SparkSession, functions

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.range(4).mapInArrow(lambda batches: batches, "id bigint").collect()  # the engine and its workers are up
    frame = spark.read.parquet(source)
    begin = cpu()
    if case in ("disguise", "same, copy"):
        import understudy as us

        result = us.spark.disguise(
            frame, design, key=f"{folder}/key", room="room", time="time", reading="co2", private="people",
            marks=f"{folder}/marks", options=us.spark.Options(period=60, buckets=16),
        )  # fmt: skip
    elif case == "plain copy":
        bucket = functions.pmod(functions.xxhash64("room"), functions.lit(16))
        parts = frame.select("room", "time", "co2").withColumn("bucket", bucket).repartition(8, "bucket")
        parts = parts.sortWithinPartitions("bucket", "room", "time").drop("bucket")
        result = parts.mapInArrow(lambda batches: batches, SCHEMA)
    else:
        result = frame.select("room", "time", "co2").groupBy("room").applyInPandas(lambda part: part, SCHEMA)
    result.write.mode("overwrite").parquet(out)
    seconds = cpu() - begin
    spark.stop()
    return seconds


def in_process(design, source: str, out: str, folder: str) -> float:
    """All rows in one fleet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import understudy as us

    class Nowhere:
        def decide(self, proposed: us.Decisions) -> us.Decisions:
            return proposed

    begin = cpu()
    table = pq.read_table(source).sort_by([("room", "ascending"), ("time", "ascending")])
    names = table.column("room").combine_chunks().dictionary_encode()
    fleet = us.Fleet(design, Nowhere(), "one", key=us.MasterKey.read(f"{folder}/key"), period=60)
    fleet.admit(names.dictionary.to_pylist())
    number = names.indices.to_numpy().astype("int64")
    time = table.column("time").to_numpy().astype("datetime64[ns]")
    outputs = fleet.apply(number, time, table.column("co2").to_numpy(), table.column("people").to_numpy())
    result = table.drop_columns(["people", "co2"]).append_column("co2", pa.array(outputs))
    pq.write_table(result, f"{out}.parquet")
    return cpu() - begin


def measure(case: str, folder: str) -> float:
    """A case in a process of its own."""
    for name in ("marks", "out"):
        shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
    here = Path(__file__).resolve().parent
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "OPENBLAS_NUM_THREADS": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
    if case == "same, copy":
        env |= {"UNDERSTUDY_COPY": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(here / "spark_copy"), env.get("PYTHONPATH", "")])
    command = [sys.executable, str(here / "spark_jobs.py"), "--case", case, "--folder", folder]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return float(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--case")
    parser.add_argument("--folder")
    asked = parser.parse_args()
    if asked.case:
        print(json.dumps(run(asked.case, asked.folder)))
        return
    import understudy as us

    print(f"{'rooms':>9} {'case':12} {'CPU s':>8} {'us a row':>9}")
    for rooms in asked.rooms:
        with tempfile.TemporaryDirectory() as folder:
            make_input(f"{folder}/input.parquet", rooms, asked.rows)
            us.MasterKey.new().save(f"{folder}/key")
            for case in asked.cases:
                best = min(measure(case, folder) for _ in range(asked.rounds))
                print(f"{rooms:9,} {case:12} {best:8.2f} {best / rooms / asked.rows * 1e6:9.2f}", flush=True)


if __name__ == "__main__":
    main()
