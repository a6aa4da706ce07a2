"""Long work in a child process: one piece at a time, with progress, cancelling, and a cache by content.

A job is a task of `understudy.studio.worker`. Its key is a digest of the task, of its options and of the digests of
the files that it reads; a result that is known for the key is given again without a process. What a job makes stays in
the folder of the session, which is removed at the end. A job that is cancelled is killed with all of its processes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from understudy import __version__
from understudy._types import Plain
from understudy.errors import ConfigurationError, UnderstudyError

REMEMBERED = 24
"""Results that are kept; the oldest are forgotten."""
_LINE = 1 << 16


class JobError(UnderstudyError):
    """A job ended with an error, which this says."""


class CancelledError(UnderstudyError):
    """A job was cancelled."""


@dataclass
class Job:
    """A job that runs: what it does, how far it is, and since when."""

    task: str
    fraction: float = 0.0
    remark: str = ""
    began: float = 0.0
    cancelled: bool = False

    def plain(self) -> Plain:
        """For the page."""
        return {
            "task": self.task, "fraction": self.fraction, "remark": self.remark,
            "seconds": round(time.monotonic() - self.began, 1),
        }  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a job made: plain data, the folder with its files, and whether it was known before."""

    found: Plain
    folder: Path
    cached: bool


class Jobs:
    """The one child process of a session, and the results that are known."""

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        self._folder, self._changed = folder, changed
        self._known: OrderedDict[str, Result] = OrderedDict()
        self._process: asyncio.subprocess.Process | None = None
        self.running: Job | None = None
        self.started = 0

    async def run(self, task: str, options: Plain, files: dict[str, tuple[Path, str]], out: str = "") -> Result:
        """The result of a task; `files` are read, by name with path and digest, and `out` is written.

        Raises `ConfigurationError` while another job runs, `JobError` with the words of one that failed, and
        `CancelledError`.
        """
        if self.running is not None:
            raise ConfigurationError(f"a job is running ({self.running.task}); cancel it, or wait for its end")
        key = self.key(task, options, {name: digest for name, (_, digest) in files.items()})
        if key in self._known:
            self._known.move_to_end(key)
            known = self._known[key]
            return Result(known.found, known.folder, True)
        folder = self._folder / f"job-{key[:24]}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        asked: Plain = {**options, **{name: str(path) for name, (path, _) in files.items()}}
        asked |= {"task": task, "result": str(folder / "result.json")}
        if out:
            asked["out"] = str(folder / out)
        self.running = Job(task, began=time.monotonic())
        self._changed()
        try:
            await self._child(asked, self.running)
            found = orjson.loads((folder / "result.json").read_bytes())
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            self.running = None
            self._changed()
        result = Result(found, folder, False)
        self._known[key] = result
        while len(self._known) > REMEMBERED:
            _, old = self._known.popitem(last=False)
            shutil.rmtree(old.folder, ignore_errors=True)
        return result

    @staticmethod
    def key(task: str, options: Plain, digests: dict[str, str]) -> str:
        """The digest of a task, its options and what it reads."""
        whole = orjson.dumps([__version__, task, options, digests], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(whole).hexdigest()

    def knows(self, task: str, options: Plain, digests: dict[str, str]) -> bool:
        """Whether the result is there without a process."""
        return self.key(task, options, digests) in self._known

    async def _child(self, asked: Plain, job: Job) -> None:
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "understudy.studio.worker",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True, env=env, limit=_LINE,
        )  # fmt: skip
        self._process, self.started = process, self.started + 1
        failure, done = "", False
        try:
            if process.stdin is None or process.stdout is None:
                raise JobError("the child process has no pipes")
            process.stdin.write(orjson.dumps(asked) + b"\n")
            await process.stdin.drain()
            while line := await process.stdout.readline():
                told = orjson.loads(line)
                failure, done = told.get("error", failure), done or "done" in told
                if "progress" in told:
                    job.fraction, job.remark = told["progress"], told["remark"] or job.remark
                    self._changed()
            await process.wait()
        finally:
            await self._end(process)
        if job.cancelled:
            raise CancelledError("cancelled")
        if failure:
            raise JobError(failure)
        if not done:
            raise JobError("the job ended early: its process was killed, perhaps for want of memory")

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        self._process = None
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    def cancel(self) -> bool:
        """Kill the job that runs; whether there was one."""
        process, job = self._process, self.running
        if process is None or job is None or process.returncode is not None:
            return False
        job.cancelled = True
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return True
