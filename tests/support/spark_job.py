"""A job as a user submits it, in a process of its own, with the faults that a test asks for.

python spark_job.py '{"master": ..., "input": ..., "out": ..., "marks": ..., "key": ...}'
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import os
import signal
import sys

import spark_cases as cases

import understudy as us
from understudy.spark.marks import Marks


def trip(kind, times, driver, batches):
    """Pass batches on; the first attempts of so many tasks fail after their first batch."""
    from pyspark import TaskContext

    at = TaskContext.get()
    for batch in batches:
        yield batch
        if at.attemptNumber() == 0 and at.partitionId() < times:
            fail(kind, driver)


def fail(kind, driver):
    if kind == "raise":
        raise RuntimeError("planted")
    if kind == "exit":
        os._exit(7)
    if kind == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "executor":
        os.kill(parent(parent(os.getpid())), signal.SIGKILL)  # worker, daemon, executor
    if kind == "driver":
        os.kill(driver, signal.SIGKILL)


def parent(process):
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def die_at_commit(when):
    """The driver is killed right before, or right after, a run is committed."""
    commit = Marks.commit

    def commit_and_die(self, run):
        if when == "after":
            commit(self, run)
        os.kill(os.getpid(), signal.SIGKILL)

    Marks.commit = commit_and_die


def main(task):
    spark = cases.session(task["master"], **task.get("conf", {}))
    options = {"period": 60, "buckets": 12, **task.get("options", {})}
    if "days" in task:
        options["epoch"] = dt.timedelta(days=task["days"])
    if task.get("die"):
        die_at_commit(task["die"])
    frame = spark.read.parquet(task["input"])
    out = us.spark.disguise(
        frame, cases.design(), key=task["key"], room="room", time="time", reading="co2", private="people",
        marks=task["marks"], options=us.spark.Options(**options),
    )  # fmt: skip
    for kind, times in task.get("faults", {}).items():
        out = out.mapInArrow(functools.partial(trip, kind, times, os.getpid()), out.schema)
    if "plan" in task:
        with open(task["plan"], "w") as file:
            file.write(out._jdf.queryExecution().toString() + json.dumps(dict(spark.sparkContext.getConf().getAll())))
    out.write.mode("overwrite").parquet(task["out"])
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
