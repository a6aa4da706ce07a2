"""``python -m studies.real_data``: choose, judge, keep the figures, write the page."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHOICES = Path(__file__).with_name("choices")
RESULTS = Path(__file__).with_name("results.json")


def main(arguments: list[str] | None = None) -> int:
    """Run and report; 0 if every task came to its end."""
    from studies.real_data.data import DataError

    parser = argparse.ArgumentParser(prog="python -m studies.real_data", description="The study on real data.")
    parser.add_argument("--data", type=Path, help="folder that holds candanedo, sdu_ou44, iotsec and robod")
    parser.add_argument("--only", action="append", help="this task alone, such as 'sdu 1', 'clock' or 'coin'")
    parser.add_argument(
        "--again", action="store_true", help="choose again, instead of reading the choices that are kept"
    )
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes (two by default)")
    parser.add_argument("--page", action="store_true", help="only write the page again, from the figures that are kept")
    options = parser.parse_args(arguments)
    # two processes whose matrix products each take all cores wait for one another
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    failures = 0
    if not options.page:
        if options.data is None:
            parser.error("--data is missing: the folder that holds candanedo, sdu_ou44, iotsec and robod")
        every = tasks(options.data)
        wanted = options.only or list(every)
        if unknown := sorted(set(wanted) - set(every)):
            parser.error(f"--only {unknown[0]!r}: it must be one of {', '.join(every)}")
        if options.again:
            for name in wanted:
                (CHOICES / f"{name.replace(' ', '_')}.json").unlink(missing_ok=True)
        try:
            failures = run({name: every[name] for name in wanted}, options.jobs)
        except DataError as error:
            print(f"studies.real_data: {error}", file=sys.stderr)
            return 2
    from studies.real_data.page import write

    for path in write(load(), load_choices(), ROOT / "docs"):
        print(f"written: {path.relative_to(ROOT)}")
    return 1 if failures else 0


def tasks(root: Path) -> dict[str, Callable[[], Any]]:
    """Everything that is measured, by name."""
    from studies.real_data.study import subjects

    found: dict[str, Callable[[], Any]] = {name: partial(_room, root, name) for name in subjects(root)}
    return found | {"clock": partial(_clock, root), "coin": partial(_coin, root), "controls": partial(_controls, root)}


def _room(root: Path, name: str) -> Any:
    from studies.real_data.study import run as study
    from studies.real_data.study import subjects

    return study(name, subjects(root)[name](), CHOICES)


def _clock(root: Path) -> Any:
    from studies.real_data.designs import by_the_clock

    return by_the_clock(root)


def _coin(root: Path) -> Any:
    from studies.real_data.designs import by_a_coin
    from studies.real_data.study import subjects

    return by_a_coin(subjects(root)["candanedo"](), "test")


def _controls(root: Path) -> Any:
    from studies.real_data.study import controls

    return controls(root, CHOICES)


def run(wanted: dict[str, Callable[[], Any]], jobs: int) -> int:
    """Run tasks in processes of their own, and keep each record as it comes; returns how many failed."""
    from concurrent.futures import as_completed

    failures = 0
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(_quietly, call): name for name, call in wanted.items()}
        for future in as_completed(waiting):
            name = waiting[future]
            record, error = future.result()
            if error:
                failures += 1
                print(f"FAILED {name}\n{error}", file=sys.stderr, flush=True)
                continue
            keep(name, record)
            print(f"{name}: measured", flush=True)
    return failures


def _quietly(call: Callable[[], Any]) -> tuple[Any, str]:
    from studies.real_data.data import DataError

    warnings.simplefilter("ignore")
    try:
        return call(), ""
    except DataError:
        raise
    except Exception:  # one room that fails must not take the others with it
        return None, traceback.format_exc()


def load() -> dict[str, Any]:
    """The figures that are kept; none if there is no file yet."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}


def load_choices() -> dict[str, Any]:
    """What was measured on training days, by room."""
    return {p.stem.replace("_", " "): json.loads(p.read_text(encoding="utf-8"))["rows"] for p in CHOICES.glob("*.json")}


def keep(name: str, record: Any) -> None:
    """Put one record in its place, and write the file."""
    found = {**load(), name: plain(record)}
    beside = RESULTS.with_suffix(".partial")
    beside.write_text(json.dumps(dict(sorted(found.items())), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    beside.replace(RESULTS)


def plain(x: Any) -> Any:
    """Numbers, words, lists and mappings that JSON can hold; what is not finite becomes None.

    >>> plain({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if isinstance(x, dict):
        return {str(key): plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(value) for value in x]
    if isinstance(x, float) and not math.isfinite(x):
        return None
    return x


if __name__ == "__main__":
    sys.exit(main())
