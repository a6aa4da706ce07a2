"""What the child process of a job does: one request on its standard input, lines of progress on its standard output.

A request names a task, its options and the files that it reads and writes, all in JSON. The result is a file too, so
that no line is long. An error of the library is told in its own words. Of any other only the kind is told, for its
message may hold a reading. The child ends when its standard input does, which is when the studio ends.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import understudy as us
from understudy import text
from understudy._types import Array, Plain, Value
from understudy.adversaries.datasets import Recording, from_history
from understudy.adversaries.statistics import Scores, score_readings
from understudy.errors import ConfigurationError, HorizonMissingError, UnderstudyError
from understudy.identify.fit import fit, read_again, resample_held_readings, save_family
from understudy.identify.history import History, chain_of
from understudy.identify.public_inputs import CLOCK, clock_names
from understudy.identify.resample import Columns
from understudy.randomizer.residual import Approximate
from understudy.report.facts import card_of
from understudy.tables.columns import Column
from understudy.tables.table import Source, Table, format_of, read_table
from understudy.tables.times import SECOND, hours

Tell = Callable[[float, str], None]
"""Hears the share of the work that is done, and a remark."""

_LOOK = 400
"""Rows that are looked at to guess what a column holds."""
_FEW = 12
"""A column with at most so many different entries may be a private value."""
_TRACE = 160
"""Readings of a drawn trace."""
_DAY = 86_400.0
_SHORTEST, _LONGEST, _UNKNOWN = 96, 1440, 480  # readings, as `understudy design` takes them
AUDITORS = ("logistic", "boosting", "smoother", "hmm")
"""Who attacks: the strongest of each kind, so that it ends soon; `understudy audit` has all."""


# A history: its columns, and what is known of it before anything is fitted --------------------------------------------


def columns(asked: Plain, tell: Tell) -> Plain:
    """The names of the columns, and what each seems to hold; nothing that stands in them."""
    path, name = asked["history"], asked["name"]
    with Source(path, format_of(name), asked.get("delimiter") or ",") as file:
        names = [each for each in file.reader.names if each]
        if any(_is_number(each) for each in names):
            count = len(file.reader.names)
            raise ConfigurationError(
                f"{name}: its first line has {count} field{'s' * (count != 1)}, and some are numbers: it must hold the "
                "names of the columns"
            )
        if len(set(names)) < len(names):
            raise ConfigurationError(f"{name} has two columns of one name; names must be distinct")
        delimiter = getattr(file.reader, "delimiter", None)
        first = next(iter(file.reader.rows(names)), None)
    kinds = {} if first is None else {each: _kind_of(first.columns[each].cut(0, _LOOK)) for each in names}
    return {"names": names, "kinds": kinds, "delimiter": delimiter, "guess": _guess(names, kinds)}


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name.replace(",", ".")))
    except ValueError:
        return False


def _kind_of(column: Column) -> str:
    """Whether a column holds numbers, times or few labels; "text" otherwise."""
    entries = column.entries().distinct
    if 2 <= len(entries) <= _FEW:
        return "labels"
    values, faults = column.numbers()
    if not faults and np.isfinite(values).any():
        return "numbers"
    try:
        times = column.times()
    except UnderstudyError:
        return "text"
    return "text" if times.faults else "times"


_PRIVATE = ("occup", "people", "person", "presen", "private", "label", "count", "theta", "home")
_READING = ("co2", "reading", "ppm", "temp", "power", "humid")


def _guess(names: list[str], kinds: dict[str, str]) -> Plain:
    """The columns that are probably meant; the page offers them, and people decide."""

    def first(wanted: tuple[str, ...], kind: tuple[str, ...], other: set[str | None]) -> str | None:
        fitting = [name for name in names if kinds.get(name) in kind and name not in other]
        named = [name for part in wanted for name in fitting if part in name.casefold()]
        return next(iter([*named, *fitting]), None)

    time = first(("time", "date"), ("times",), set())
    private = first(_PRIVATE, ("labels", "numbers"), {time})
    return {"time": time, "private": private, "reading": first(_READING, ("numbers",), {time, private})}


def _table(asked: Plain, tell: Tell) -> Table:
    """The rows of the history, of the columns that are needed."""
    chosen = asked["columns"]
    clock = (CLOCK, *clock_names())
    named = [chosen.get("segment"), *chosen["reading"], *(chosen.get("public") or ()), chosen["private"]]
    wanted = list(dict.fromkeys(name for name in named if name and name not in clock))
    table = read_table(
        asked["history"], wanted, format_of(asked["name"]), chosen.get("delimiter") or ",",
        lambda share: tell(0.1 * share, ""), chosen.get("time"),
    )  # fmt: skip
    table.name = asked["name"]
    return table


def _fit_options(asked: Plain) -> Plain:
    """What was typed about a fit, as `us.fit` takes it."""
    chosen = asked["columns"]
    found: Plain = {"reading": chosen["reading"][0] if len(chosen["reading"]) == 1 else list(chosen["reading"])}
    found["private"] = chosen["private"]
    for name in ("time", "day_first", "segment", "public", "period", "bins"):
        if chosen.get(name):
            found[name] = chosen[name]
    return found


def data(asked: Plain, tell: Tell) -> Plain:
    """Rows, gaps, cadence, grid, labels by time of day and what a fit holds out, as counts and shares."""
    table = _table(asked, tell)
    given = _fit_options(asked)
    chosen = Columns(**given)
    history, _ = resample_held_readings(table, chosen)
    tell(0.6, "")
    counts = history.counts
    train, held = history.split(0.25)
    times = [segment.times for segment in history.segments if segment.times is not None]
    gaps: list[float] = []
    days = None
    if times and len(times) == len(history.segments):
        gaps = [
            float(after[0] - before[-1]) / SECOND for before, after in pairwise(times)
            if len(before) and len(after) and after[0] > before[-1]
        ]  # fmt: skip
        days = _days(history)
    chain = chain_of(history)
    return {
        "rows": len(table),
        "slots": history.rows,
        "used": int(counts.sum()),
        "missing": int(sum((~segment.complete).sum() for segment in history.segments)),
        "unlabelled": int(sum((segment.theta < 0).sum() for segment in history.segments)),
        "segments": len(history.segments),
        "gaps": len(gaps),
        "longest_gap": max(gaps, default=0.0),
        "period": history.period,
        "days": days,
        "values": [_plain(value) for value in history.values],
        "counts": counts.tolist(),
        "prior": chain.prior.tolist(),
        "stays": chain.durations.tolist(),
        "stays_words": [_stay(x, chain.period) for x in chain.durations.tolist()],
        "by_hour": None if chain.by_hour is None else _by_hour(history),
        "grids": {name: str(grid) for name, grid in zip(history.readings, _grids(history), strict=True)},
        "held": {
            "rows": held.rows, "of": history.rows, "counts": held.counts.tolist(), "train": train.counts.tolist(),
            "share": 0.25, "days": None if days is None else _days(held),
        },
        "notes": list(history.notes),
    }  # fmt: skip


def _stay(length: float, period: float | None) -> str:
    """How long a value stays: seconds where there is a period, otherwise readings."""
    return text.span(length) if period is not None and math.isfinite(length) else f"{length:.3g} readings"


def _grids(history: History) -> tuple[Any, ...]:
    found = us.detect_grid(history.stack())
    return found if isinstance(found, tuple) else (found,)


def _days(history: History) -> int:
    times = [segment.times for segment in history.segments if segment.times is not None and len(segment)]
    return len({int(day) for part in times for day in np.unique(part // (24 * 3600 * SECOND))})


def _by_hour(history: History) -> list[list[float] | None]:
    """The share of each value at each hour of the day; None where there is no row."""
    m = len(history.values)
    counts = np.zeros((24, m))
    for segment in history.segments:
        known = segment.theta >= 0
        if segment.times is not None:
            np.add.at(counts, (hours(segment.times[known], history.zone), segment.theta[known]), 1.0)
    totals = counts.sum(axis=1)
    return [None if not n else (row / n).tolist() for row, n in zip(counts, totals, strict=True)]


def _plain(value: Value) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str)) else str(value)


# Fit, tune, coin ------------------------------------------------------------------------------------------------------


def fit_family(asked: Plain, tell: Tell) -> Plain:
    """`us.fit`, and aggregates of the scores of the readings."""
    table = _table(asked, tell)
    given = _fit_options(asked)
    if asked.get("model", "auto") != "auto":
        given["model"] = asked["model"]
    if asked.get("limits"):
        given["limits"] = [tuple(ends) for ends in asked["limits"]]
    family = fit(table, **given, progress=lambda share: tell(0.1 + 0.8 * share, ""))
    mark = save_family(family, asked["out"])
    tell(0.92, "")
    found = _scores(family, _whole(table, family))
    return {"fingerprint": mark, "scores": None if found is None else found.plain()}


def _whole(table: Table, family: us.Family) -> Recording:
    return from_history(read_again(table, family), family)


def _scores(family: us.Family, rows: Recording) -> Scores | None:
    return score_readings(family, rows.Y, rows.theta, rows.segments, 0)


def tune(asked: Plain, tell: Tell) -> Plain:
    """`us.tune` with few model classes, one period and no budget, as `understudy quickstart` does."""
    table = _table(asked, tell)
    given = _fit_options(asked)
    family = us.load_family(asked["family"])
    known = family.about or {}
    name, period = str((known.get("model") or {}).get("name")), known.get("period")
    if isinstance(given["reading"], str):
        given["reading"] = [given["reading"]]
    given.pop("public", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = us.tune(
            table,
            at_most=float(asked["at_most"]),
            models=tuple(dict.fromkeys(("adaptive", name, "AR(1), Student-t"))),
            periods=[900.0 if given.get("time") and period is not None and period < 300.0 else None],
            budgets=(0.0,),
            adversaries=("boosting", "logistic"),
            limits=known.get("limits"),
            progress=lambda share, words: tell(0.1 + 0.9 * share, words),
            **given,
        )
    if found.design is not None:
        found.design.save(asked["out"])
    return {"tuning": found.to_dict(), "sentences": list(found.sentences), "made": found.design is not None}


def coin(asked: Plain, tell: Tell) -> Plain:
    """`us.design_coin` on the readings of the history."""
    table = _table(asked, tell)
    chosen = asked["columns"]
    Y = np.column_stack([table.column(name).numbers()[0] for name in chosen["reading"]])
    family = us.load_family(asked["family"]) if asked.get("family") else None
    about = {"readings": list(chosen["reading"]), "time": chosen.get("time")}
    values = 2 if family is None else list(family.values)
    made = us.design_coin(
        Y, q=float(asked["q"]), epoch=int(asked["epoch"]), values=values,
        about={name: value for name, value in about.items() if value} or None,
    )  # fmt: skip
    made.save(asked["out"])
    return {"fingerprint": made.fingerprint}


# Designs whose costs take time ----------------------------------------------------------------------------------------


def with_per(family: us.Family, per: str) -> us.Family:
    """The same family, which says what the leakage is per, as `understudy design` marks it."""
    models = {value: family.model(value) for value in family.values}
    return us.Family(models, family.values, family.prior, about={**(family.about or {}), "per": per})


def default_horizon(family: us.Family) -> int:
    """The readings that a distortion is of where long sequences have none: a day of them, within limits."""
    if any(isinstance(family.model(value), Approximate) for value in family.values):
        return _SHORTEST  # approximate models are charged reading by reading, which takes long
    period = (family.about or {}).get("period")
    return _UNKNOWN if period is None else min(_LONGEST, max(_SHORTEST, round(_DAY / float(period))))


def base(asked: Plain, tell: Tell) -> Plain:
    """`us.design` at the whole entropy: its costs serve every other demand."""
    family = with_per(us.load_family(asked["family"]), "run")

    def make(horizon: int | None) -> us.Design:
        return us.design(
            family, asked["pseudo"], leakage="100%", horizon=horizon, distortion=asked["distortion"],
            fresh=asked["fresh"], progress=lambda share: tell(share, ""),
        )  # fmt: skip

    horizon = asked["horizon"]
    try:
        made = make(horizon)
    except HorizonMissingError:
        if horizon is not None:
            raise
        horizon = default_horizon(family)
        made = make(horizon)
    made.save(asked["out"])
    return {"horizon": horizon}


def causal(asked: Plain, tell: Tell) -> Plain:
    """`us.design_causal`, and its card."""
    family = with_per(us.load_family(asked["family"]), "day")
    known = family.about or {}
    period, every = known.get("period"), int(asked["decision_every"])
    if not period:
        raise ConfigurationError(
            "a leakage per day needs the period of the readings, and the family has none; fit with a time column"
        )
    chain = (known.get("chain") or {}).get("transition")
    given: Plain = {}
    if asked["output"] == "least-change":
        given = {"output": "least-change", "history": read_again(_table(asked, tell), family)}
    step = None if asked["clock"] else np.linalg.matrix_power(np.array(chain, dtype=float), every)
    rate = us.at_most(asked["leakage"], _DAY / (float(period) * every))

    def make(horizon: int | None) -> us.CausalDesign:
        return us.design_causal(
            family, step, asked["pseudo"], clock=asked["clock"] or None, rate=rate, decision_every=every,
            horizon=horizon, distortion=asked["distortion"], fresh=asked["fresh"],
            progress=lambda share: tell(0.8 * share, ""), **given,
        )  # fmt: skip

    horizon = asked["horizon"]
    try:
        made = make(horizon)
    except HorizonMissingError:
        if horizon is not None:
            raise
        horizon = default_horizon(family)
        made = make(horizon)
    made.save(asked["out"])
    tell(0.9, "")
    _ = card_of(made)
    return {"horizon": horizon, "fingerprint": made.fingerprint}


# Looks and audits -----------------------------------------------------------------------------------------------------


def looks(asked: Plain, tell: Tell) -> Plain:
    """One trace, what each pseudo value would make of it, and what adversaries conclude. Nothing is drawn."""
    design = us.load_design(asked["design"])
    if design.family is None or design.blind:
        raise ConfigurationError("the design has no models; there is nothing to be looked at")
    row = int(asked["row"])
    readings, real = _trace(design, asked, row, tell)
    tell(0.5, "")
    family, source = design.family, design.source(row)
    traces: list[tuple[str, Any, Array]] = [("true", None, readings)]
    for column, value in enumerate(design.pseudo):
        told = us.disguise(
            readings, source, design.target(column), rng=column, resolution=design.resolution, fresh=design.fresh
        )
        traces.append(("pseudo", value, told))
        tell(0.5 + 0.3 * (column + 1) / len(design.pseudo), "")
    kernel, prior = _first_kernel(design), np.asarray(design.prior if hasattr(design, "prior") else family.prior)
    levels = _levels(family, len(readings))
    found = []
    for kind, value, y in traces:
        j = None if kind == "true" else design.column(value)
        found.append(
            {
                "kind": kind,
                "value": None if value is None else _plain(value),
                "y": np.asarray(y).reshape(len(readings), -1)[:, 0].tolist() if asked["traces"] or not real else None,
                "averaging": _averaging(family, levels, y),
                "likelihood": _likelihood(family, y),
                "bayes": None if j is None else _posterior(prior, kernel[:, j]),
                "share": None if j is None else float(kernel[row, j]),
            }
        )
    return {
        "real": real, "row": row, "true": _plain(design.values[row]), "values": [_plain(v) for v in design.values],
        "period": (family.about or {}).get("period"), "traces": found, "clock": _clock_alone(family),
        "prior": prior.tolist(),
    }  # fmt: skip


def _first_kernel(design: Any) -> Array:
    kernel = design.randomizer.kernel if isinstance(design, us.Design) else design.kernel(design.prior.tolist())
    return np.asarray(kernel, dtype=float)


def _trace(design: Any, asked: Plain, row: int, tell: Tell) -> tuple[Array, bool]:
    """A stretch of the history under this private value, or a simulated one; and whether it is real."""
    if asked.get("history") and asked["traces"]:
        table = _table(asked, tell)
        history = read_again(table, design.family)
        longest: Array | None = None
        for segment in history.segments:
            fits = segment.complete & (segment.theta == row)
            edges = np.flatnonzero(np.diff(np.concatenate([[False], fits, [False]]).astype(int)))
            for start, stop in zip(edges[::2], edges[1::2], strict=True):
                if longest is None or stop - start > len(longest):
                    longest = segment.Y[start:stop]
        if longest is not None and len(longest) >= 20:
            return np.array(longest[-_TRACE:]), True
    made = us.sample(design.source(row), _TRACE, rng=7)
    return np.asarray(made, dtype=float).reshape(_TRACE, -1), False


def _levels(family: us.Family, T: int) -> Array:
    """The mean of each value's readings over so many readings, by simulation."""
    means = []
    for value in family.values:
        y = np.asarray(us.sample(family.model(value), T, n=64, rng=11), dtype=float)
        means.append(float(y.reshape(T, family.dim, 64)[:, 0, :].mean()))
    return np.array(means)


def _averaging(family: us.Family, levels: Array, y: Array) -> Any:
    """The value whose mean reading is nearest to that of the trace."""
    mean = float(np.nanmean(np.asarray(y).reshape(len(y), -1)[:, 0]))
    return _plain(family.values[int(np.argmin(np.abs(levels - mean)))])


def _likelihood(family: us.Family, y: Array) -> list[float] | None:
    """The probability of each value given the trace, by its model and the prior; None where a model gives none."""
    try:
        logs = np.array([float(us.loglik(y, family.model(value))) for value in family.values])
    except UnderstudyError:
        return None
    with np.errstate(divide="ignore"):
        logs = logs + np.log(family.prior)
    if not np.isfinite(logs).any():
        return None
    odds = np.exp(logs - logs[np.isfinite(logs)].max())
    return [float(p) for p in odds / odds.sum()]


def _posterior(prior: Array, column: Array) -> list[float] | None:
    joint = prior * column
    return [float(p) for p in joint / joint.sum()] if joint.sum() > 0.0 else None


def _clock_alone(family: us.Family) -> Plain | None:
    """How often a guess from the hour alone is right, on the labels of the fit."""
    by_hour = ((family.about or {}).get("chain") or {}).get("by_hour")
    if by_hour is None:
        return None
    shares = np.array(by_hour, dtype=float)
    return {
        "by_hour": shares.tolist(),
        "right": float(shares.max(axis=1).mean()),
        "without": float(np.max(family.prior)),
    }


def audit(asked: Plain, tell: Tell) -> Plain:
    """`us.audit`: on the last part of the history where there is one, otherwise on simulated readings."""
    design = us.load_design(asked["design"])
    given: Plain = {"adversaries": list(AUDITORS), "rng": 0}
    rows: Recording | None = None
    if asked.get("history") and design.family is not None:
        table = _table(asked, tell)
        history = read_again(table, design.family)
        learned, judged = history.split(0.25)
        rows = from_history(judged, design.family)
        given |= {"train": from_history(learned, design.family), "replicates": 2, "rivals": True}
    else:
        given |= {"n": 4000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = us.audit(design, rows, progress=lambda done, total, what: tell(done / total, what), **given)
    told = None
    if rows is not None and not design.blind:
        told = _scores(design.family, rows)
    plain = {**found.plain(), "scores": None if told is None else told.plain()}
    Path(asked["out"]).write_text(
        json.dumps(plain, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return {}


# The process ----------------------------------------------------------------------------------------------------------


TASKS: dict[str, Callable[[Plain, Tell], Plain]] = {
    "columns": columns, "data": data, "fit": fit_family, "tune": tune, "coin": coin, "base": base, "causal": causal,
    "looks": looks, "audit": audit,
}  # fmt: skip


def _end_with_the_studio() -> None:
    """Wait for the end of the standard input, in a thread of its own; nothing is left to do then."""
    while os.read(0, 1):  # not by sys.stdin, whose lock would outlive the program
        pass
    os._exit(1)


def finite(found: Any) -> Any:
    """Plain data that JSON can hold: what is not finite becomes None."""
    if isinstance(found, dict):
        return {str(name): finite(value) for name, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [finite(value) for value in found]
    if isinstance(found, np.generic):
        found = found.item()
    if isinstance(found, float) and not math.isfinite(found):
        return None
    return found if isinstance(found, (bool, int, float, str)) or found is None else str(found)


def main() -> int:
    """Do what the first line of the input asks, and say what came of it."""
    asked = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_studio, daemon=True).start()

    def write(**found: Any) -> None:
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()

    last = -1.0

    def tell(fraction: float, remark: str) -> None:
        nonlocal last
        if remark or fraction - last >= 0.01:
            last = fraction
            write(progress=min(max(float(fraction), 0.0), 1.0), remark=remark)

    caught: list[str] = []
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            found = TASKS[asked["task"]](asked, tell)
        caught = [str(each.message) for each in heard if issubclass(each.category, us.errors.UnderstudyWarning)]
        text = json.dumps(finite({**found, "warnings": list(dict.fromkeys(caught))}), allow_nan=False)
        Path(asked["result"]).write_text(text, encoding="utf-8")
        write(done=True)
    except (UnderstudyError, OSError) as error:
        write(error=" ".join(str(error).split()) if isinstance(error, UnderstudyError) else str(error.strerror))
    except MemoryError:
        write(error="not enough memory for this history; `understudy fit` on a larger machine takes it")
    except Exception as error:  # its message may hold a reading
        write(error=f"a fault of the program ({type(error).__name__}); please report it")
    return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
