"""Whatever dies and is tried again: outputs undisturbed, one mark a room, and the charges right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import spark_cases as cases

import understudy as us
from understudy.spark.marks import ROOMS, Marks

SUPPORT = Path(cases.__file__).parent
PATH = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])


class Job:
    """An input, a key and marks on the disk, for jobs in processes of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.key, self.key_path = cases.new_key(folder)
        self.frame = cases.history(rooms=36, rows=80, days=3)
        given = self.frame.copy()
        given["time"] = given["time"].dt.tz_localize("UTC").astype("datetime64[us, UTC]")
        given.to_parquet(folder / "input.parquet")
        self.theirs, self.spent = cases.expected(self.frame, self.key, epoch=cases.DAY)

    def run(self, master="local[2,6]", twin=None, **task):
        task = {"days": 1, "key": self.key_path, "marks": str(self.folder / "marks"), **task}
        task |= {"master": master, "input": str(self.folder / "input.parquet"), "out": str(self.folder / "out")}
        env = {**os.environ, "PYTHONPATH": PATH, "SPARK_LOCAL_IP": "127.0.0.1"}
        if twin is not None:
            env |= {"PYTHONPATH": f"{SUPPORT / 'spark_twins'}:{PATH}", "UNDERSTUDY_TWIN": twin}
        return subprocess.run(
            [sys.executable, str(SUPPORT / "spark_job.py"), json.dumps(task)],
            env=env, capture_output=True, text=True, timeout=600, cwd=self.folder,
        )  # fmt: skip

    def found(self):
        frame = pd.read_parquet(self.folder / "out")
        frame["time"] = frame["time"].dt.tz_localize(None).astype("datetime64[ns]")
        return frame.sort_values(["room", "time"], ignore_index=True)

    def check(self, done):
        assert done.returncode == 0, done.stderr[-3000:]
        assert cases.same_bits(self.found(), self.theirs)
        marks = str(self.folder / "marks")
        rooms = [room for _, table in Marks(marks).tables(ROOMS) for room in table.column("room").to_pylist()]
        assert sorted(rooms) == sorted(set(self.frame["room"]))
        assert cases.spent_by_group(marks) == pytest.approx(self.spent, abs=1e-9)


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def test_tasks_that_fail_on_their_way_out(job):
    """Ten tasks raise, ten end their process, ten are killed, each after a part of their output was given."""
    conf = {"spark.sql.execution.arrow.maxRecordsPerBatch": "50", "spark.task.maxFailures": "6"}
    job.check(job.run(faults={"raise": 10}, conf=conf))
    job.check(job.run(faults={"exit": 10}, conf=conf))
    job.check(job.run(faults={"worker": 10}, conf=conf))
    assert us.spark.runs(job.folder / "marks")[-1].draws == 0


def test_workers_killed_in_either_stage(job):
    """Every third call for the key kills the worker that asked, ten times."""
    script = job.folder / "key.sh"
    script.write_text(
        f"#!/bin/sh\ncd {job.folder}\nmkdir -p shots\nn=$(ls shots | wc -l)\n: > shots/$$\n"
        f"if [ $((n % 3)) = 1 ] && [ $n -lt 30 ]; then kill -9 $PPID; fi\ncat {job.key_path}\n"
    )
    script.chmod(0o700)
    job.check(job.run("local[2,12]", key=f"command:{script}"))
    assert len(os.listdir(job.folder / "shots")) >= 30


def test_executors_killed(job):
    """Executors of a cluster are killed by their ids, in the middle of outputs."""
    conf = {"spark.deploy.maxExecutorRetries": "-1", "spark.executor.memory": "512m", "spark.task.maxFailures": "12",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "50"}  # fmt: skip
    job.check(job.run("local-cluster[2,1,1024]", faults={"executor": 2}, conf=conf))


def test_drivers_killed(job):
    """Before a run is committed, after it, and while outputs are written; the next driver ends with the same."""
    assert job.run(die="before").returncode == -9
    assert us.spark.runs(job.folder / "marks") == []
    assert job.run(die="after").returncode == -9
    assert len(us.spark.runs(job.folder / "marks")) == 1
    assert job.run(faults={"driver": 1}).returncode == -9
    done = job.run()
    job.check(done)
    assert [run.draws > 0 for run in us.spark.runs(job.folder / "marks")] == [True, False, False]
    assert not any((job.folder / "marks" / "inputs").iterdir())  # pinned inputs of dead drivers are gone


@pytest.mark.parametrize("twin", ["random", "readings"])
def test_draws_from_elsewhere_are_noticed(job, twin):
    """The twins: bits of the operating system, or readings in the index of a draw, give other outputs."""
    assert job.run(twin=twin).returncode == 0
    assert not cases.same_bits(job.found(), job.theirs)


def test_budgets_whatever_is_tried_again(job):
    """Two draws a room, whatever fails, with clocks of processes a day apart."""
    price = 0.3
    options = {"limit": 2 * price + 0.35 * price}
    conf = {"spark.sql.execution.arrow.maxRecordsPerBatch": "50", "spark.task.maxFailures": "8"}
    done = job.run(twin="clock", options=options, faults={"raise": 12}, conf=conf)
    assert done.returncode == 0, done.stderr[-3000:]
    first = job.found()
    runs = us.spark.runs(job.folder / "marks")
    assert runs[0].draws == 2 * 36
    assert job.run(options=options).returncode == 0
    assert cases.same_bits(job.found(), first)
    assert [run.draws for run in us.spark.runs(job.folder / "marks")] == [2 * 36, 0]


def test_no_key_is_left_anywhere(job):
    """Event log, plan, logs and exceptions hold no key; a job that puts it into its configuration is found."""
    logs = job.folder / "logs"
    logs.mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": logs.as_uri(), "spark.eventLog.compress": "false",
            "spark.local.dir": str(job.folder / "local"), "spark.task.maxFailures": "6"}  # fmt: skip
    (job.folder / "local").mkdir()
    needles = cases.key_texts(job.key, job.frame, cases.design())
    done = job.run(conf=conf, plan=str(logs / "plan"), faults={"raise": 3})
    job.check(done)
    (logs / "streams").write_text(done.stdout + done.stderr)
    assert any(path.stat().st_size > 10_000 for path in logs.rglob("*"))
    assert cases.search(logs, needles) == []
    assert cases.search(job.folder / "local", needles) == []
    assert cases.search(job.folder / "marks", needles) == []
    done = job.run(conf={**conf, "spark.executorEnv.MASTER": job.key._secret.hex()}, plan=str(logs / "plan"))
    assert done.returncode == 0
    assert cases.search(logs, needles) != []
