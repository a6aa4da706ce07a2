"""``understudy audit``: attack a design, or a release, with all that is at hand, and say what was learned."""

from __future__ import annotations

import json
import math
import warnings as _warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import understudy as us
from understudy.adversaries.audited import Audit, load_audit
from understudy.adversaries.judging.scored import Scores, scored
from understudy.adversaries.playing.recording import Recording
from understudy.cli.audit_files import Files, beside, recorded
from understudy.cli.terminal import filled, print_json, progress, say, show, warn
from understudy.cli.typed import quantity, readings
from understudy.errors import ConfigurationError, UnderstudyWarning
from understudy.paths import check_paths, write_whole
from understudy.randomizer.document import read_plain
from understudy.report import audit_words as words
from understudy.report.audit_verdict import failed, mark, verdict
from understudy.report.page_facts import AnyDesign, about, unit, warnings

_FILED = ("train", "released", "columns", "private", "time", "segment")


@dataclass(frozen=True, slots=True)
class Asked:
    """How to attack; None where nothing was typed."""

    adversaries: str | None = None
    n: int | None = None
    confidence: float = 0.99
    replicates: int | None = None
    epoch: str | None = None
    seed: int | None = None
    alarm: str | None = None


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the page and the figures go, and whether a finding is a failure."""

    page: Path | None = None
    save: Path | None = None
    as_json: bool = False
    strict: bool = False


def run(path: Path, files: Files | None, asked: Asked, outputs: Outputs) -> bool:
    """Attack, write, and say what came out; whether the exit status is to be 0."""
    read = (
        {"DESIGN": path}
        if files is None
        else {
            "DESIGN": path,
            "READINGS": files.labelled,
            "--train": files.train,
            "--released": files.released,
        }
    )
    check_paths(read, {"--out": outputs.page, "--save": outputs.save})
    design = us.load_design(path)
    audit, scores, notes, told = made(design, files, asked)
    written(audit, design, outputs, scores)
    if outputs.as_json:
        print_json(
            {
                "design": str(path), "readings": None if files is None else files.labelled,
                "report": _name(outputs.page), "saved": _name(outputs.save), "data": notes, "audit": audit.plain(),
            }
        )  # fmt: skip
    else:
        tell(audit, design, notes)
        for what, out in (("Page", outputs.page), ("Figures", outputs.save)):
            if out is not None:
                say(f"{what} written to {out}")
    for line in [*warnings(design), *told]:
        warn(line)
    return not (outputs.strict and failed(audit))


class Made(NamedTuple):
    """The audit, the scores of the raw readings, what was done to the rows, and warnings on the way."""

    audit: Audit
    scores: Scores | None
    notes: list[str]
    warnings: list[str]


def made(design: AnyDesign, files: Files | None, asked: Asked) -> Made:
    """Read, and attack."""
    notes: list[str] = []
    Y, given = (None, {}) if files is None else _attacked(design, files, notes)
    found = attacked(design, Y, given, asked, files is None)
    return found._replace(notes=notes)


def attacked(
    design: AnyDesign, Y: Recording | None, given: dict[str, Any], asked: Asked, simulated: bool = False
) -> Made:
    """The audit of a recording, or of simulated readings; `given` is what else `us.audit` takes."""
    from understudy.adversaries.auditing import audit

    given = options(design, asked, simulated) | given
    with _warnings.catch_warnings(record=True) as caught, progress("attacking") as told:
        _warnings.simplefilter("always")
        found = audit(design, Y, progress=lambda done, total, _: told(done / total), **given)
    # those of other packages (that a fit has not settled, say) are no matter of the reader's
    said = list(dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, UnderstudyWarning)))
    return Made(_offset_told(found, design, simulated), _scores(design, Y, found, asked), [], said)


def _scores(design: AnyDesign, raw: Recording | None, audit: Audit, asked: Asked) -> Scores | None:
    """Aggregates of the scores of the raw readings, where these are known."""
    known: Scores | None = getattr(audit, "scores", None)
    if known is not None or raw is None or design.family is None:
        return known
    return scored(design.family, raw.Y, raw.theta, raw.segments, asked.seed)


def _attacked(design: AnyDesign, files: Files, notes: list[str]) -> tuple[Recording | None, dict[str, Any]]:
    """The recording that is attacked, None where only a release is known, and what else `us.audit` takes."""
    given: dict[str, Any] = {}
    if files.train is not None:
        given["train"] = recorded(design, files.train, files).recording
    if files.released is None:
        rows = recorded(design, files.labelled, files)
        notes += rows.notes
        return rows.recording, given
    found = beside(design, files.labelled, files.released, files)
    notes += found.notes
    given["released"] = found.output
    if found.raw:
        return found.labelled, given
    notes.append("the labelled file has no readings: what the raw ones would tell is not known")
    r = found.labelled
    theta = [None if i < 0 else design.values[i] for i in r.theta.tolist()]
    return None, {**given, "theta": theta, "hours": r.hours, "days": r.days, "segments": r.segments}


def options(design: AnyDesign, asked: Asked, simulated: bool) -> dict[str, Any]:
    """What was typed, as `us.audit` takes it."""
    if not 0.5 <= asked.confidence < 1.0:
        raise ConfigurationError(f"--confidence {asked.confidence:g}: it must lie from 0.5 to below 1, as in 0.99")
    found: dict[str, Any] = {"confidence": asked.confidence}
    if asked.adversaries is not None and asked.adversaries != "all":
        found["adversaries"] = [name.strip() for name in asked.adversaries.split(",") if name.strip()]
    for name in ("n", "replicates"):
        if getattr(asked, name) is not None:
            found[name] = getattr(asked, name)
    if asked.seed is not None:
        found["rng"] = asked.seed
    if asked.epoch is not None:
        if simulated or isinstance(design, us.CausalDesign):
            raise ConfigurationError(
                f"--epoch {asked.epoch}: it is for a design of one draw on readings of a file; this draws by itself"
            )
        found["epoch"] = readings("--epoch", asked.epoch, about(design).get("period"))
    if asked.alarm is not None:
        found["alarm"] = levels(asked.alarm, 1 if design.family is None else design.family.dim)
    return found


def levels(text: str, channels: int) -> tuple[float | None, ...]:
    """The threshold of each channel, None where it has none; fewer than there are channels are those of the first.

    >>> levels("1000ppm,none", 2), levels("1000", 3)
    ((1000.0, None), (1000.0,))
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > channels:
        raise ConfigurationError(f"--alarm {text}: {len(parts)} levels are given and there are {channels} readings")
    return tuple(None if part == "none" else quantity("--alarm", part)[0] for part in parts)


def one_source(source: str | None, on: str | None) -> str | None:
    """The file that is attacked, named in one way or the other."""
    if source is not None and on is not None:
        raise ConfigurationError(f"READINGS is {source} and --on is {on}; they are the same, name one")
    return source if on is None else on


def refuse_columns(files: dict[str, Any]) -> None:
    """Refuse options that are about a file where none is named."""
    typed = [name for name in _FILED if files.get(name)]
    if typed:
        option = {"columns": "reading"}.get(typed[0], typed[0])
        raise ConfigurationError(f"--{option} is given and no READINGS; without a file the readings are simulated")


def _offset_told(audit: Audit, design: AnyDesign, simulated: bool) -> Audit:
    if simulated or not about(design).get("public"):
        return audit
    note = (
        "the public offset was taken off the readings first, which anybody can do; distortion and alarms are without it"
    )
    return replace(audit, notes=(*audit.notes, note))


def written(audit: Audit, design: AnyDesign, outputs: Outputs, scores: Scores | None = None) -> None:
    """The page and the figures as files; those of a release for their owner only."""
    from understudy.report.audit_page import audit_report

    private = audit.how == "released"  # utility of one release tells about its draws
    if outputs.page is not None:
        write_whole(outputs.page, audit_report(audit, design, scores), private)
    if outputs.save is not None:
        found = {**audit.plain(), "scores": None if scores is None else scores.plain()}
        text = json.dumps(found, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
        write_whole(outputs.save, text, private)


def attached(path: Path) -> str:
    """A stored audit as a part of a report."""
    from understudy.report.audit_page import audit_html

    try:
        audit = load_audit(path)
    except ConfigurationError as error:
        raise ConfigurationError(f"--audit {path}: {error}") from None
    told = read_plain(path).get("scores")
    try:
        return audit_html(audit, None if told is None else Scores.from_plain(told))
    except (KeyError, TypeError, ValueError):
        raise ConfigurationError(f"--audit {path}: its scores are damaged") from None


def tell(audit: Audit, design: AnyDesign, notes: list[str]) -> None:
    """The outcome, the adversaries by strength, what they are compared with, utility and notes."""
    outcome, _ = verdict(audit)
    say(filled(outcome))
    say()
    alone = words.by_clock(audit)
    for clock, title in ((False, ""), (True, " with the clock")):
        rows = words.ordered(row for row in audit.of() if row.clock == clock)
        if rows:
            told = f", which alone has {alone.balanced}" if clock and alone is not None else ", the strongest first"
            head = ("adversary", "balanced accuracy", "wrong", "nats, at least", "p for all", "verdict")
            lines = [
                (row.title or row.adversary, *_figures(row), words.chance(row.corrected), mark(audit, row))
                for row in rows
            ]
            show(f"Adversaries on the disguised output{title}{told}", head, lines, right=(1, 2, 3, 4))
            say()
    _compared(audit)
    if audit.bound is not None:
        say(filled(f"By the theorem {words.bound(audit)}."))
    say(filled(words.judged(audit)))
    wide = f"In brackets: {100.0 * audit.confidence:g} percent intervals."
    nats = "Nats: learned beyond the odds with a guess, at least; the lower end of the interval."
    say(filled(f"{wide} {nats} {words.chosen(audit)}".rstrip()))
    if audit.utility is not None:
        from understudy.adversaries.utility.plain import lines as sentences

        say("\nWhat is left for honest use")
        for line in sentences(audit.utility, unit(about(design))):
            say(filled(line, "  - "))
    _listed("What must be known beside the figures", audit.notes)
    _listed("Not tried", [f"{name}: {reason}" for name, reason in audit.skipped.items()])
    _listed("What was done to the data", notes)
    say()


def _compared(audit: Audit) -> None:
    """References, and the best adversaries on readings that are not disguised."""
    lines = [(row.shown, *_figures(row)) for row in words.ordered(audit.of(references=True)) if row.reference]
    for clock in (False, True):
        for data in ("noise", "held", "raw"):
            best = words.strongest(audit, data, clock)
            if best is not None:
                lines.append((f"best on {words.DATA[data]}: {best.shown}", *_figures(best)))
    if lines:
        show("For comparison", ("who", "balanced accuracy", "wrong", "nats, at least"), lines, right=(1, 2, 3))
        say()


def _listed(title: str, items: Any) -> None:
    if items:
        say(f"\n{title}")
        for item in items:
            say(filled(str(item), "  - "))


def _figures(row: Any) -> tuple[str, str, str]:
    return str(row.balanced), _bare(row.error.value), words.at_least(row.nats)


def _bare(x: float) -> str:
    return "-" if math.isnan(x) else f"{x:.3f}"


def _name(path: Path | None) -> str | None:
    return None if path is None else str(path)
