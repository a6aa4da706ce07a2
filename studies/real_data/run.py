"""The command: run the tasks that are asked for, keep their figures, and write the page."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from studies.real_data import results
from studies.real_data.data import SOURCES, DataError

ROOT = Path(__file__).resolve().parents[2]
_told: Any = None


def tasks(names: list[str]) -> dict[tuple[str, str], Any]:
    """(data set, task) -> function and arguments."""
    from studies.real_data import candanedo, iotsec, robod, sdu

    found: dict[tuple[str, str], Any] = {("candanedo", "baselines"): (_baselines, {})}
    for name, module in (("candanedo", candanedo), ("sdu_ou44", sdu), ("iotsec", iotsec), ("robod", robod)):
        found |= {(name, task): call for task, call in module.TASKS.items()}
    return {key: call for key, call in found.items() if key[0] in names}


def _baselines(root: Path, quick: bool, told: Any) -> Any:
    from studies.real_data.baselines import baselines

    return baselines(root)


def main(arguments: list[str] | None = None) -> int:
    """Run and report; 0 if every task came to its end."""
    parser = argparse.ArgumentParser(prog="python -m studies.real_data", description="The study on real data.")
    parser.add_argument("--data", type=Path, help="folder that holds the data sets (see studies/real_data/data.py)")
    parser.add_argument("--only", action="append", choices=sorted(SOURCES), help="this data set alone (repeatable)")
    parser.add_argument(
        "--task", action="append", help="the task of this name alone, such as 'CO2, 5 min' (repeatable)"
    )
    parser.add_argument("--quick", action="store_true", help="fewer budgets; figures go to build/, no page is written")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes (two by default)")
    parser.add_argument("--page", action="store_true", help="only write the page again, from the figures that are kept")
    options = parser.parse_args(arguments)
    kept = results.RESULTS if not options.quick else ROOT / "build" / "real-data-quick.json"
    failed = 0
    if not options.page:
        if options.data is None:
            parser.error("--data is missing: the folder that holds candanedo, sdu_ou44, iotsec and robod")
        chosen = tasks(options.only or sorted(SOURCES))
        if options.task:
            chosen = {key: call for key, call in chosen.items() if key[1] in options.task}
        try:
            failed = run(chosen, options.data, options.quick, options.jobs, kept)
        except DataError as error:
            print(f"studies.real_data: {error}", file=sys.stderr)
            return 2
    if not options.quick:
        from studies.real_data.page import write

        for path in write(results.load(kept), ROOT / "docs"):
            print(f"written: {path.relative_to(ROOT)}")
    return 1 if failed else 0


def run(chosen: dict[tuple[str, str], Any], root: Path, quick: bool, jobs: int, kept: Path) -> int:
    """Run the tasks in processes of their own, and keep each record as it comes; returns how many failed."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    _single_threaded()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    console = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description:<40}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    failed, tenth = 0, dict[tuple[str, str], int]()
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as bars,
        ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(queue,)) as pool,
    ):
        shown = {key: bars.add_task(": ".join(key), total=1.0) for key in chosen}
        waiting = {pool.submit(_one, key, call, root, quick): key for key, call in chosen.items()}
        while waiting:
            while not queue.empty():
                key, share = queue.get()
                bars.update(shown[key], completed=share)
                if not console.is_terminal and int(10.0 * share) > tenth.get(key, 0):
                    tenth[key] = int(10.0 * share)
                    console.print(f"{': '.join(key)}: {10 * tenth[key]} percent", markup=False)
            done = [future for future in waiting if future.done()]
            for future in as_completed(done):
                key = waiting.pop(future)
                bars.update(shown[key], completed=1.0)
                if isinstance(future.exception(), DataError):
                    raise future.exception()  # type: ignore[misc]  # not None, by the line above
                record, seconds, error = future.result()
                if error:
                    failed += 1
                    console.print(f"FAILED {': '.join(key)} after {seconds:.0f} s\n{error}", markup=False)
                    continue
                results.merge(kept, *key, record | {"seconds": round(seconds, 1)})
                console.print(f"{': '.join(key)} in {seconds:.0f} s", markup=False)
            time.sleep(0.2)
    return failed


def _single_threaded() -> None:
    """Two processes whose matrix products each take all cores wait for one another."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def _begin(queue: Any) -> None:
    global _told
    _told = queue


def _one(key: tuple[str, str], call: Any, root: Path, quick: bool) -> tuple[Any, float, str]:
    start = time.perf_counter()
    function, given = call
    try:
        record = function(root, quick, lambda share: _told.put((key, share)), **given)
    except DataError:
        raise
    except Exception:  # one room that fails must not take the others with it
        return None, time.perf_counter() - start, traceback.format_exc()
    return record, time.perf_counter() - start, ""
