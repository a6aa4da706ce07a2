"""Figures as JSON, kept by data set and task as they come, so that the page can be made again without a run."""

from __future__ import annotations

import fcntl
import json
import math
import os
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.json")


def load(path: Path = RESULTS) -> dict[str, Any]:
    """What is there; nothing if there is no file yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def merge(path: Path, dataset: str, task: str, record: Any) -> dict[str, Any]:
    """Put one record in its place and write the file; returns all of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # runs of different data sets may go on side by side
        found = load(path)
        found.setdefault(dataset, {})[task] = plain(record)
        found = {name: dict(sorted(found[name].items())) for name in sorted(found)}
        beside = path.with_suffix(".partial")
        beside.write_text(json.dumps(found, separators=(",", ":"), allow_nan=False) + "\n", encoding="utf-8")
        os.replace(beside, path)
    finally:
        os.close(folder)
    return found


def plain(x: Any) -> Any:
    """Numbers, words, lists and mappings that JSON can hold; what is not finite becomes None.

    >>> plain({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if isinstance(x, dict):
        return {str(key): plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(value) for value in x]
    if hasattr(x, "tolist"):
        return plain(x.tolist())
    if isinstance(x, float) and not math.isfinite(x):
        return None
    return x
