"""``understudy apply``: disguise a file by a stored design, row by row, with a ledger that remembers the draws."""

from __future__ import annotations

import datetime as dt
import re
import warnings as _warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import understudy as us
from understudy.cli.terminal import print_json, progress, say, warn
from understudy.errors import ConfigurationError, ReadingError
from understudy.paths import check_paths
from understudy.report.page_facts import AnyDesign, about, misfit, warnings

if TYPE_CHECKING:
    from understudy.files.summary import Summary

ESTIMATED = (
    "--estimate-private: the private parameter is estimated from the readings. NO THEOREM HOLDS THEN: a wrong estimate "
    "leaves the true value in what is released, and nothing bounds what an adversary learns. No guarantee, audit only."
)
FORGETFUL = (
    "no --ledger: the draw is not remembered. Applying the design to these readings again draws again, and each draw "
    "leaks again. Use --ledger for anything that is released."
)


@dataclass(frozen=True, slots=True)
class How:
    """How a file is to be disguised; None and empty where nothing was typed."""

    private: str | None = None
    time: str | None = None
    ledger: Path | None = None
    name: str | None = None
    keep: list[str] | None = None
    on_error: str = "stop"
    accept_misfit: bool = False
    estimate: bool = False
    readings: list[str] | None = None
    segment: str | None = None
    epoch: str | None = None
    format: str | None = None
    delimiter: str = ","
    abandon: bool = False
    period: str | None = None
    decimals: int | None = None


def run(path: Path, source: str, target: str, how: How, as_json: bool) -> None:
    """Check, disguise, and say how many rows left."""
    aside = target == "-"
    if aside and as_json:
        raise ConfigurationError("--json and -o - are given; both go to the standard output, name a file for one")
    from understudy.files.tables import format_of
    from understudy.files.targets import written

    kind = format_of(target, how.format if aside else None)
    check_paths({"DESIGN": path, "READINGS": source}, written(target, kind, "--out"), ("--ledger", how.ledger))
    design = us.load_design(path)
    refuse(design, path, how)
    said = loudly(design, how)
    for words in said:
        warn(words)
    found, more = disguised(design, source, target, how)
    for words in more:
        warn(words)
    if as_json:
        print_json({"design": str(path), **found.to_plain(), "target": target, "warnings": [*said, *more]})
    else:
        say(str(found), err=aside)


def refuse(design: AnyDesign, path: Path, how: How) -> None:
    """What must be in order before the first row is read."""
    if how.on_error not in ("stop", "skip"):
        raise ConfigurationError(f"--on-error {how.on_error}: it must be stop or skip")
    known = about(design)
    column = known.get("private")
    if how.private is None and not how.estimate:
        fitted = f" (the design was made with the column {column!r})" if column else ""
        raise ConfigurationError(
            f"no --private: the column that holds the private parameter must be named{fitted}. Where there is none, "
            "--estimate-private estimates it from the readings, and then nothing is guaranteed"
        )
    if how.private is not None and how.estimate:
        raise ConfigurationError("--private and --estimate-private are given; the parameter is known or estimated")
    if how.estimate and not isinstance(design, us.CausalDesign):
        raise ConfigurationError(
            f"--estimate-private: {path} draws once a run; only a design for a value that moves can follow one, "
            "`understudy design FAMILY --per day`"
        )
    if known.get("gate") is not None and misfit(known) and not how.accept_misfit:
        raise ConfigurationError(
            f"{path}: the models do not fit the data. {misfit(known)[0]} Nothing was written; "
            "--accept-misfit applies the design all the same, without that guarantee"
        )


def check_ledger(design: AnyDesign, how: How) -> None:
    """Refuse a stream that was begun with another design, saying what to do; the ledger would refuse it anyhow."""
    if how.ledger is None or not how.ledger.exists():
        return
    from understudy.stream.inspection import summary

    name = how.name or "stream"
    for stream in summary(how.ledger)["streams"]:
        if stream["name"] == name and stream["design"] not in (design.fingerprint, design.former_fingerprint):
            raise ConfigurationError(
                f"--ledger {how.ledger}: its stream {name!r} was begun with another design ({stream['design'][:19]}); "
                "name another stream by --name, or another ledger"
            )


def loudly(design: AnyDesign, how: How) -> list[str]:
    """The warnings that go with what is written."""
    found = list(warnings(design))
    if how.estimate:
        found.insert(0, ESTIMATED)
    if how.ledger is None:
        found.append(FORGETFUL)
    return found


def disguised(design: AnyDesign, source: str, target: str, how: How) -> tuple[Summary, list[str]]:
    """The file, disguised: what came of it, and warnings on the way."""
    from understudy.files.applying import apply_file
    from understudy.files.tables import title

    if how.estimate and isinstance(design, us.CausalDesign):
        design = estimating(design)
    check_ledger(design, how)
    given: dict[str, Any] = {
        "reading": how.readings,
        "private": how.private,
        "time": how.time,
        "segment": how.segment,
        "keep": tuple(how.keep or ()),
        "ledger": how.ledger,
        "name": how.name,
        "epoch": None if how.epoch is None else span("--epoch", how.epoch),
        "format": how.format,
        "delimiter": how.delimiter,
        "abandon": how.abandon,
        "accept_misfit": how.accept_misfit,
        "period": how.period,
    }
    rest = {name: value for name, value in given.items() if value}
    if how.decimals is not None:
        rest["decimals"] = how.decimals
    with _warnings.catch_warnings(record=True) as caught, progress("disguising") as told:
        _warnings.simplefilter("always")
        try:
            found = apply_file(
                design, source, target, on_error=how.on_error, progress=lambda _, share: told(share or 0.0), **rest
            )
        except ReadingError as error:  # filters know positions, not files
            named = title(source) in str(error)
            raise error if named else type(error)(f"{title(source)}: {error}") from None
    return found, list(dict.fromkeys(str(each.message) for each in caught))


def estimating(design: us.CausalDesign) -> us.CausalDesign:
    """The same design, for streams that estimate the private value; it says so wherever it is shown."""
    made, (family, beliefs, pseudo, settled, choices) = design.__reduce__()
    found: us.CausalDesign = made(family, beliefs, pseudo, settled, {**choices, "estimated": True})
    return found


def span(option: str, text: str) -> Any:
    """A time, or a number of readings.

    >>> span("--epoch", "1d"), span("--epoch", "96")
    (datetime.timedelta(days=1), 96)
    """
    if re.fullmatch(r"[0-9]+", text):
        return int(text)
    from understudy.identify.clock import seconds

    try:
        return dt.timedelta(seconds=seconds(text))
    except ConfigurationError:
        raise ConfigurationError(
            f"{option} {text}: a time or a number of readings is wanted, as in 1d, 15min or 96"
        ) from None
