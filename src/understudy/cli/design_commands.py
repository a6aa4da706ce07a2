"""The commands about designs: design, report and guarantee.

``understudy design family.json`` finds the randomizer for a family that was fitted. Per run there is one draw for the
whole run (`us.design`). Per day or per decision the parameter moves, draws are made by the clock and remember each
other (`us.design_causal`), with the transitions that were seen in the data. Without a file it works on the paper's room
(Section V).

``understudy report`` writes the page of a stored design, and ``understudy guarantee`` shows its card.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import typer

import understudy as us
from understudy import text
from understudy._paths import check_paths, write_whole
from understudy._types import Array, Value
from understudy.adversaries.results import load_audit
from understudy.adversaries.statistics import Scores
from understudy.cli.options import (
    CoinOptions,
    ConstraintOptions,
    DesignOptions,
    DesignOutputs,
    ReleaseOptions,
    RoomOptions,
    budget,
    numbers,
    quantity,
    readings,
    span,
    values_named,
)
from understudy.cli.terminal import check_plot, print_json, progress, save_figure, say, warn, wrap
from understudy.errors import ConfigurationError, DesignError, HorizonMissingError
from understudy.paper.setting import HORIZON, room
from understudy.randomizer import constraints
from understudy.randomizer.constraints import Constraint, Floor
from understudy.randomizer.solver import nats
from understudy.report.facts import (
    Advice,
    AnyDesign,
    DrawDesign,
    about,
    advise,
    card_of,
    doubts,
    facts,
    frontier_of,
    nothing_hidden,
    warnings,
)
from understudy.report.pages import sentences
from understudy.serialize import read_plain
from understudy.tables.table import Table, read_table
from understudy.tables.times import seconds
from understudy.text import label

if TYPE_CHECKING:
    from understudy.identify.history import History

AnyDesignT = TypeVar("AnyDesignT", us.Design, us.CausalDesign)


# Constraints as typed: other measures, a floor, pairs and groups ------------------------------------------------------

_LIMITS: dict[str, Callable[[float], Constraint]] = {
    "local_dp": constraints.LocalDP,
    "maximal_leakage": constraints.MaximalLeakage,
    "pointwise_leakage": constraints.PointwiseLeakage,
    "total_variation": constraints.TotalVariation,
    "floor": constraints.Floor,
}


def constraints_of(
    typed: ConstraintOptions, values: Sequence[Value], pseudo: Sequence[Value]
) -> tuple[Constraint, ...]:
    """The constraints; values and pseudo values are known by their names.

    >>> constraints_of(ConstraintOptions(local_dp=1.0, forbid=["1:0.2"], same=["0,1"]), (0, 1), (0, 0.2, 1))
    (LocalDP(epsilon=1.0), Forbidden(pairs=((1, 0.2),), positions=False), Same(groups=((0, 1),), positions=False))
    """
    found: list[Constraint] = []
    for name, kind in _LIMITS.items():
        limit = getattr(typed, name)
        if limit is not None:
            found.append(_constraint("--" + name.replace("_", "-"), kind, limit))
    if typed.forbid is not None:
        pairs = [pair for text in typed.forbid for pair in _pairs(text, values, pseudo)]
        found.append(constraints.Forbidden(tuple(dict.fromkeys(pairs))))
    if typed.same is not None:
        groups = [group for text in typed.same for group in text.split(";")]
        found.append(
            constraints.Same(tuple(tuple(_value_of("--same", x, values) for x in group.split(",")) for group in groups))
        )
    return tuple(found)


def _constraint(option: str, kind: Callable[[float], Constraint], typed: float | str) -> Constraint:
    limit = _nats(option, typed) if isinstance(typed, str) else typed
    try:
        return kind(limit)
    except DesignError as error:
        raise ConfigurationError(f"{option} {limit}: {error}") from None


def _nats(option: str, text: str) -> float:
    wanted = f"{option} {text}: nats or bits are wanted, as in 0.3 or '0.4 bit'"
    if "%" in text or "percent" in text:
        raise ConfigurationError(wanted)
    try:
        return nats(budget(text), 0.0)
    except DesignError:
        raise ConfigurationError(wanted) from None


def _pairs(text: str, values: Sequence[Value], pseudo: Sequence[Value]) -> tuple[tuple[Value, Value], ...]:
    found = []
    for part in text.split(","):
        value, colon, drawn = part.rpartition(":")
        if not colon:
            raise ConfigurationError(f"--forbid {text}: pairs are wanted, true value and played one, as in 0:1,2:0")
        found.append((_value_of("--forbid", value, values), _value_of("--forbid", drawn, pseudo)))
    return tuple(found)


def _value_of(option: str, name: str, known: Sequence[Value]) -> Value:
    name = name.strip()
    for value in known:
        if str(value) == name or (isinstance(value, (int, float)) and _number(name) == value):
            return value
    raise ConfigurationError(f"{option}: {name!r} is none of {', '.join(map(str, known))}")


def _number(name: str) -> float | None:
    try:
        return float(name)
    except ValueError:
        return None


# The design of a fitted family, and what its leakage is per -----------------------------------------------------------

PER = ("run", "day", "decision")
_DAY = 86_400.0
_USUAL = "0.1 bit"  # of a day, unless told
_DECISION = 900.0  # seconds between decisions, unless told
# readings that the distortion is of where there is no formula for long sequences: a day of them, within these
_SHORTEST, _LONGEST, _UNKNOWN = 96, 1440, 480


def release_arguments(typed: ReleaseOptions, family: us.Family | None = None) -> dict[str, Any]:
    """How readings leave and come in, as arguments of a design; a history is read as that of the family.

    >>> release_arguments(ReleaseOptions("1/4096", None, "0,2000"))
    {'resolution': 0.000244140625, 'valid': (0, 2000)}
    """
    found: dict[str, Any] = {}
    if typed.resolution is not None:
        steps = [_step(part) for part in typed.resolution.split(",")]
        found["resolution"] = steps[0] if len(steps) == 1 else steps
    if typed.form is not None:
        found["readings"] = typed.form
    if typed.valid is not None:
        ends = numbers("--valid", typed.valid)
        if len(ends) != 2:
            raise ConfigurationError(f"--valid {typed.valid}: two numbers are wanted, the lowest and the highest")
        found["valid"] = tuple(ends)
    if typed.fresh is not None:
        found["fresh"] = typed.fresh
    if typed.output is not None:
        found["output"] = typed.output
    if typed.history is not None and family is not None:
        found["history"] = _history(typed.history, family)
    return found


def _history(path: Path, family: us.Family) -> History:
    """The labelled readings of a file, as those that the family was fitted to."""
    from understudy.identify.fit import read_again

    return read_again(_table(path, family), family)


def _table(path: Path, family: us.Family) -> Table:
    """The columns of a file that the family was fitted to."""
    from understudy.identify.public_inputs import clock_names

    about = family.about or {}
    public = (about.get("public") or {}).get("columns") or ()
    segment = about.get("segment") or ()
    named = [*(about.get("readings") or ()), about.get("private")]
    named += [*([segment] if isinstance(segment, str) else segment), *(set(public) - set(clock_names()))]
    return read_table(path, [name for name in dict.fromkeys(named) if name], time=about.get("time"))


def _step(text: str) -> float:
    top, slash, bottom = text.partition("/")
    try:
        return float(top) / float(bottom) if slash else float(top)
    except (ValueError, ZeroDivisionError):
        raise ConfigurationError(f"--resolution {text}: a number is wanted, as in 0.01 or 1/4096") from None


def load(path: Path) -> us.Family:
    """A family from its file."""
    from understudy.identify.fit import load_family

    found: us.Family = load_family(path)
    if not isinstance(found, us.Family):
        raise ConfigurationError(f"{path} holds no family; `understudy fit` writes one")
    return found


def make_design(family: us.Family, wanted: DesignOptions) -> tuple[us.Design | us.CausalDesign, list[str]]:
    """The design for a family: by one draw a run, by draws that remember, or by what was measured."""
    if wanted.measured_at_most is not None:
        return _measured(family, wanted, wanted.measured_at_most)
    if wanted.over != "chance":
        raise ConfigurationError(f"--over {wanted.over} is for --measured-at-most")
    per, notes = which(family, wanted)
    about = {**(family.about or {}), "per": per}
    models = {value: family.model(value) for value in family.members}
    marked = us.Family(models, family.values, family.prior, about=about)
    pseudo = None if wanted.pseudo is None else values_named("--pseudo", wanted.pseudo, family.members)
    if per == "run":
        return _one_draw(marked, pseudo, wanted, notes), notes
    return _causal(marked, pseudo, wanted, per, notes), notes


def _measured(family: us.Family, wanted: DesignOptions, at_most: float) -> tuple[us.CausalDesign, list[str]]:
    """The design of least distortion that keeps adversaries on held-out days of a history to this accuracy."""
    demands = (wanted.leakage, wanted.error_at_least, wanted.distortion_at_most, wanted.rate)
    if any(demand is not None for demand in demands):
        raise ConfigurationError("--measured-at-most stands alone: budgets are among what is tried")
    if wanted.release.history is None:
        raise ConfigurationError("--measured-at-most is measured on labelled history: name the file, --history FILE")
    table = _table(wanted.release.history, family)
    with progress("tuning") as told:
        found = us.tune(table, family=family, at_most=at_most, over=wanted.over, progress=told)
    if found.design is None:
        raise ConfigurationError(" ".join(found.sentences))
    return found.design, list(found.notes)


def which(family: us.Family, wanted: DesignOptions) -> tuple[str, list[str]]:
    """What the leakage is per: as typed, or a day where the parameter moves and the clock is known, or a run."""
    if wanted.per is not None and wanted.per not in PER:
        raise ConfigurationError(f"--per {wanted.per}: it must be one of {', '.join(PER)}")
    memory = wanted.causal or wanted.clock or wanted.rate is not None or wanted.decision_every is not None
    if wanted.per == "run" and memory:
        raise ConfigurationError(
            "--per run is one draw for the whole run; --causal, --clock, --rate and --decision-every are for draws "
            "that follow a parameter that moves: --per day or --per decision"
        )
    if wanted.per is not None:
        return wanted.per, []
    if memory:
        return ("decision" if wanted.rate is not None else "day" if _clock(family) else "decision"), []
    if not moves(family):
        return "run", []
    # a share is one of the entropy of one value: of a draw, then
    others = wanted.error_at_least is not None or wanted.distortion_at_most is not None
    asks = others or wanted.leakage is None or wanted.leakage.strip().endswith("%")
    if not (asks or approximate(family) or wanted.constraints.typed):
        per = "day" if _clock(family) else "decision"
        return per, [
            f"The value moves within a run, so draws follow it by the clock: --per {per}; --per run for one draw."
        ]
    how = "--leakage and --per day" if asks else "--per day or --per decision"
    follow = "" if approximate(family) else f" With {how} draws follow it by the clock."
    return "run", [
        "The leakage is per run: one value is drawn at its first reading and played throughout, whatever the true one "
        f"does. The distortion is for a value that stays; in this data it moves, and readings will change more.{follow}"
    ]


def approximate(family: us.Family) -> bool:
    """Whether some model gives away a little itself, as one of rounded readings does."""
    from understudy.randomizer.residual import Approximate

    return any(isinstance(family.model(value), Approximate) for value in family.values)


def moves(family: us.Family) -> bool:
    """Whether the parameter was seen to change within a segment, and not only thought able to."""
    T, chain = transition(family), (family.about or {}).get("chain") or {}
    if T is None:
        return False
    seen = float(chain.get("transitions") or 0.0)
    return bool(((1.0 - np.diag(T)) * np.asarray(family.prior) * seen).sum() > len(T))


def transition(family: us.Family) -> Array | None:
    """The transition matrix from one reading to the next; None if it is not known."""
    found = ((family.about or {}).get("chain") or {}).get("transition")
    if found is None:
        return None
    T = np.array(found, dtype=float)
    return T if T.shape == (len(family.values),) * 2 else None


def _clock(family: us.Family) -> float | None:
    period = (family.about or {}).get("period")
    return float(period) if period else None


def _one_draw(
    family: us.Family,
    pseudo: Sequence[Value] | None,
    wanted: DesignOptions,
    notes: list[str],
    units: Sequence[str] | None = None,
) -> us.Design:
    demands: dict[str, Any] = {
        "leakage": budget(wanted.leakage),
        "error_at_least": wanted.error_at_least,
        "distortion_at_most": _most(units or (family.about or {}).get("units"), wanted, notes),
    }
    given = {name: value for name, value in demands.items() if value is not None}
    also = constraints_of(wanted.constraints, family.values, family.values if pseudo is None else pseudo)
    if len(given) != 1 and not (also and not given):
        options = " and ".join("--" + name.replace("_", "-") for name in given) or "no demand"
        raise ConfigurationError(
            f"{options} given; a design meets one demand: --leakage, --error-at-least or --distortion-at-most"
        )

    def make(horizon: int | None) -> us.Design:
        with progress("distortion of each pair") as told:
            how: dict[str, Any] = {"horizon": horizon, "distortion": wanted.distortion, "progress": told}
            how |= release_arguments(wanted.release, family)
            return us.design(family, pseudo, **given, constraints=also, **how)

    made = _with_horizon(make, family, wanted.horizon, notes)
    if approximate(family) and wanted.horizon is None:
        notes.append(
            "The models are approximate (rounded readings): what they give away themselves is charged for as many "
            "readings."
        )
    return made


def _with_horizon(
    make: Callable[[int | None], AnyDesignT], family: us.Family, horizon: int | None, notes: list[str]
) -> AnyDesignT:
    """For long sequences where there is a formula for them; else for so many readings, which is said."""
    try:
        return make(horizon)
    except HorizonMissingError:
        if horizon is not None:
            raise
    # approximate models are charged reading by reading, which takes long
    period = _clock(family)
    count = _UNKNOWN if period is None else min(_LONGEST, max(_SHORTEST, round(_DAY / period)))
    count = _SHORTEST if approximate(family) else count
    notes.append(f"The distortion is that of the first {count} readings; --horizon says of how many.")
    return make(count)


def _most(units: Sequence[str] | None, wanted: DesignOptions, notes: list[str]) -> float | None:
    if wanted.distortion_at_most is None:
        return None
    value, unit = quantity("--distortion-at-most", wanted.distortion_at_most, units)
    if unit and not units:
        notes.append(f"{unit} is taken for the unit of the readings; the family does not name one.")
    return value


def _causal(
    family: us.Family, pseudo: list[Value] | None, wanted: DesignOptions, per: str, notes: list[str]
) -> us.CausalDesign:
    if wanted.error_at_least is not None or wanted.distortion_at_most is not None:
        option = "--error-at-least" if wanted.error_at_least is not None else "--distortion-at-most"
        raise ConfigurationError(f"{option} goes with --per run; for draws that remember give --leakage or --rate")
    if wanted.constraints.typed:
        raise ConfigurationError(
            f"{wanted.constraints.typed[0]} goes with --per run; draws that remember have no such limit"
        )
    T = transition(family)
    if T is None and not wanted.clock:
        raise ConfigurationError(
            f"--per {per} needs to know how the parameter moves, and the family does not say; fit it from a file with "
            "times, or use --per run"
        )
    if approximate(family) and wanted.release.fresh != 1.0:
        raise ConfigurationError(
            f"--per {per}: the models are approximate (rounded readings), and what a path of such models gives away is "
            "not known. With --per run there is one draw, and what they give away is charged"
        )
    every = _decision(family, wanted, notes)
    rate = _rate(family, wanted, per, every, notes)

    def make(horizon: int | None) -> us.CausalDesign:
        with progress("distortion of each pair") as told:
            return us.design_causal(
                family,
                None if wanted.clock or T is None else np.linalg.matrix_power(T, every),
                pseudo,
                clock=wanted.clock or None,
                rate=rate,
                decision_every=every,
                horizon=horizon,
                distortion=wanted.distortion,
                progress=told,
                **release_arguments(wanted.release, family),
            )

    return _with_horizon(make, family, wanted.horizon, notes)


def _decision(family: us.Family, wanted: DesignOptions, notes: list[str]) -> int:
    period = _clock(family)
    if wanted.decision_every is not None:
        return readings("--decision-every", wanted.decision_every, period, notes)
    count = max(1, round(_DECISION / period)) if period else 1
    when = "at every reading" if count == 1 else f"every {count} readings"
    notes.append(f"A value is drawn {when}; --decision-every says otherwise.")
    return count


def _rate(family: us.Family, wanted: DesignOptions, per: str, every: int, notes: list[str]) -> Any:
    leakage = wanted.leakage
    if per == "day":
        notes.append(
            "The leakage of a day is a mean over days and no cap: some days leak more. A cap for a live stream is "
            "Ledger.limit, in Python."
        )
        if leakage is None and wanted.rate is None:
            leakage = _USUAL
            notes.append(f"No --leakage is given; it is {_USUAL} a day.")
    if (leakage is None) == (wanted.rate is None):
        both = "both given" if wanted.rate is not None else "missing"
        raise ConfigurationError(f"--leakage and --rate: {both}; one is needed, the rate is that of a decision")
    if wanted.rate is not None:
        return budget(wanted.rate)
    if per == "decision":
        return budget(leakage)
    period = _clock(family)
    if period is None:
        raise ConfigurationError(
            "--per day needs the period of the readings, and the family has none; fit with --period"
        )
    from understudy.randomizer.causal import at_most

    return at_most(budget(leakage), _DAY / (period * every))


# Report ---------------------------------------------------------------------------------------------------------------


def report(path: Path, out: Path | None, as_json: bool, audit: Path | None = None) -> None:
    """Write the page, with an audit on it if there is one, or print what is on it as JSON, or both."""
    if audit is not None and out is None:
        raise ConfigurationError("--audit is given and no --out; an audit goes on the page, as in -o report.html")
    if out is None and not as_json:
        raise ConfigurationError("neither --out nor --json is given; say where the page goes, as in -o report.html")
    check_paths({"DESIGN": path, "--audit": audit}, {"--out": out})
    design = us.load_design(path)
    if out is not None:
        write_report(design, out, "" if audit is None else audit_part(audit))
    if as_json:
        print_json({"design": str(path), "report": None if out is None else str(out), **facts(design)})
    else:
        advice = advise(design)
        if advice is not None:
            tell_advice(*advice)
        say(f"Report written to {out}")
    for words in warnings(design):
        warn(words)


def audit_part(path: Path) -> str:
    """A stored audit as a part of a report."""
    from understudy.report.pages import audit_html

    try:
        audit = load_audit(path)
    except ConfigurationError as error:
        raise ConfigurationError(f"--audit {path}: {error}") from None
    told = read_plain(path).get("scores")
    try:
        return audit_html(audit, None if told is None else Scores.from_plain(told))
    except (KeyError, TypeError, ValueError):
        raise ConfigurationError(f"--audit {path}: its scores are damaged") from None


def write_report(design: AnyDesign, out: Path, audit: str = "") -> None:
    """The page as a file; `audit` is the HTML of one."""
    from understudy.report.pages import privacy_report

    with progress("report", steps=False):
        page = privacy_report(design, audit)
    write_whole(out, page)


def tell_advice(advice: Advice, reasons: list[str]) -> None:
    """The verdict, and its reasons below."""
    say(text.ADVICE[advice].upper() if advice is Advice.WITHHOLD else text.ADVICE[advice])
    for words in reasons:
        say(wrap(words, "  - "))
    say()


def in_words(design: DrawDesign) -> str:
    """What a design hides, tells and costs, in paragraphs for a terminal."""
    return "\n".join(wrap(words) for words in sentences(design))


# Design ---------------------------------------------------------------------------------------------------------------


def design(path: Path | None, wanted: DesignOptions, room_options: RoomOptions, outputs: DesignOutputs) -> None:
    """Design, say what came out, and write what is to be written."""
    if outputs.plot is not None:
        check_plot(outputs.plot)
    check_paths({"FAMILY": path}, {"--out": outputs.save, "--plot": outputs.plot})
    if path is None:
        found: DrawDesign = of_the_room(wanted, room_options)
        notes: list[str] = []
    else:
        for option, given in (("--values", room_options.values), ("--prior", room_options.prior)):
            if given is not None:
                raise ConfigurationError(f"{option} {given}: it is for the paper's room; a family has its own")
        found, notes = make_design(load(path), wanted)
    picture = outputs.plot
    if picture is not None and not isinstance(found, us.Design):
        raise ConfigurationError(
            f"--plot {picture}: a causal design is drawn in its report, `understudy report`; --per run has a picture"
        )
    if outputs.save is not None:
        found.save(outputs.save)
    if outputs.as_json:
        print_json({"design": None if outputs.save is None else str(outputs.save), **facts_of(found), "remarks": notes})
    else:
        advice = advise(found)
        if advice is not None:
            tell_advice(*advice)
        tell(found, notes, fitted=path is not None)
        if outputs.save is not None:
            say(f"\nDesign written to {outputs.save} (design {found.fingerprint})")
    if picture is not None and isinstance(found, us.Design):
        draw(picture, frontier_of(found), found)
        say(f"Picture written to {picture}", err=outputs.as_json)
    for words in nothing_hidden(found) if path is None else warnings(found):
        warn(words)


def design_coin(source: str | None, wanted: CoinOptions, save: Path | None, as_json: bool) -> None:
    """Make the coin, say what it promises, and write it."""
    check_paths({"HISTORY": source, "--model": wanted.model}, {"--out": save})
    about: dict[str, Any] = {}
    model = None
    if wanted.model is not None:
        family = load(wanted.model)
        model = family.model(family.values[int(np.argmax(family.prior))])
        about = {name: (family.about or {}).get(name) for name in ("readings", "time", "day_first", "period")}
    typed = {
        "readings": wanted.readings, "time": wanted.time, "day_first": wanted.day_first,
        "period": wanted.period and seconds(wanted.period),
    }  # fmt: skip
    about |= {name: value for name, value in typed.items() if value}
    Y = None
    if source is not None:
        if not about.get("readings"):
            raise ConfigurationError("no --reading: the columns of the readings must be named")
        table = read_table(source, about["readings"], wanted.table.file_format, wanted.table.delimiter)
        Y = np.column_stack([table.column(name).numbers()[0] for name in about["readings"]])
    made = us.design_coin(
        Y,
        q=wanted.q,
        leakage=budget(wanted.leakage),
        epoch=span("--epoch", wanted.epoch),
        hide="constant" if model is None else "lifelike",
        constant=None if wanted.constant is None else numbers("--constant", wanted.constant),
        model=model,
        values=2 if wanted.values is None else [named(part) for part in wanted.values.split(",")],
        entropy=budget(wanted.entropy),
        carry=wanted.carry,
        phase=None if wanted.phase is None else span("--phase", wanted.phase),
        resolution=release_arguments(ReleaseOptions(wanted.resolution)).get("resolution"),
        about={name: value for name, value in about.items() if value} or None,
    )
    if save is not None:
        made.save(save)
    if as_json:
        print_json({"design": None if save is None else str(save), **facts(made)})
    else:
        say(made.guarantee.text())
        if save is not None:
            say(f"Design written to {save} (design {made.fingerprint})")
    for words in warnings(made):
        warn(words)


def named(text: str) -> Value:
    """A private value as typed: a number, if it is one.

    >>> named(" 3"), named("home")
    (3, 'home')
    """
    number = _number(text.strip())
    return text.strip() if number is None else int(number) if number.is_integer() else number


def of_the_room(wanted: DesignOptions, room_options: RoomOptions) -> us.Design:
    """The paper's room, at a budget or a demand of your own."""
    for option, given in (
        ("--per", wanted.per), ("--rate", wanted.rate), ("--decision-every", wanted.decision_every),
        ("--causal", "" if wanted.causal else None),
    ):  # fmt: skip
        if given is not None:
            raise ConfigurationError(
                f"{f'{option} {given}'.strip()}: it is for a family that was fitted; give its file"
            )
    prior = None if room_options.prior is None else numbers("--prior", room_options.prior)
    family = us.Family(room, values=numbers("--values", room_options.values or "0,1"), prior=prior)
    pseudo = numbers("--pseudo", wanted.pseudo or "0,.2,.4,.6,.8,1")
    asked = (wanted.leakage, wanted.error_at_least, wanted.distortion_at_most) != (None, None, None)
    usual = replace(wanted, horizon=wanted.horizon or HORIZON)
    if not asked and not wanted.constraints.typed:
        usual = replace(usual, leakage="0.3")
    return _one_draw(family, pseudo, usual, [], ["ppm"])


def facts_of(design: DrawDesign) -> dict[str, Any]:
    """A design for a program: its facts, and its kernel and the price of a floor where it has one."""
    kernel = design.randomizer.kernel.tolist() if isinstance(design, us.Design) else None
    prices = [price for _, price in _prices(design)]
    return {**facts(design), "kernel": kernel, "price_of_floor": prices[0] if prices else None}


def tell(design: DrawDesign, notes: list[str], fitted: bool) -> None:
    """A design for people."""
    if isinstance(design, us.Design):
        say(f"{design}\n\n{table(design)}")
    else:
        say(in_words(design))
    if fitted and isinstance(design, us.Design):
        say()
        say(in_words(design))
    dearer = [
        f"The floor of {one.at_least:g} costs {price:.4g}: the distortion is {design.distortion:.6g} with it and "
        f"{design.distortion - price:.6g} without."
        for one, price in _prices(design)
    ]
    for note in [*notes, *dearer]:
        say(wrap(note, "Note: "))


def _prices(design: DrawDesign) -> list[tuple[Floor, float]]:
    """What a floor costs, if there is one."""
    if not isinstance(design, us.Design) or design.demand[0] == "distortion_at_most":
        return []
    return [(one, design.price_of(one).price) for one in design.constraints if isinstance(one, Floor)]


def table(design: us.Design) -> str:
    """The randomizer, a row for each private value."""
    head = [label(value) for value in design.pseudo]
    rows = [
        ["0" if x == 0.0 else "<.0001" if x < 1e-4 else f"{x:.4f}" for x in row]
        for row in design.randomizer.kernel.tolist()
    ]
    wide = max(map(len, [*head, "0.0000"]))
    lines = ["Probability that the room plays the value above, a line for each true one", ""]
    names = ["true", *(label(value) for value in design.values)]
    first = max(map(len, names))
    for name, line in zip(names, [head, *rows], strict=True):
        lines.append(f"  {name:>{first}}  " + "  ".join(f"{cell:>{wide}}" for cell in line))
    return "\n".join(lines)


def draw(path: Path, frontier: us.Frontier, design: us.Design) -> None:
    """The trade-off with this design on it, and its randomizer."""
    from matplotlib import pyplot as plt

    figure: Any
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    us.report.plot_frontier(frontier, left)
    left.plot(design.total_leakage, design.distortion, "o", color="black", ms=6, zorder=4)
    left.annotate("this design", (design.total_leakage, design.distortion), (8, 8), textcoords="offset points")
    us.report.plot_kernel(design, right)
    save_figure(figure, path)


# Guarantee ------------------------------------------------------------------------------------------------------------


def show(path: Path, as_json: bool, html: Path | None) -> None:
    """Print the card as text or JSON, or write it as a page."""
    if as_json and html is not None:
        raise ConfigurationError("--json and --html are given; the card is shown in one way at a time")
    check_paths({"DESIGN": path}, {"--html": html})
    design = us.load_design(path)
    card, found = card_of(design), doubts(about(design)) if about(design) and not design.blind else []
    if html is not None:
        write_whole(html, with_warnings(card.html(page=True), found))
        typer.echo(f"Card written to {html}")
    elif as_json:
        typer.echo(card.json())
    else:  # warnings above the card, which is copied and piped without the error stream
        for words in found:
            typer.echo(wrap(words, "WARNING: ") + "\n")
        typer.echo(card.text(), nl=False)
        if sys.stdout.isatty():
            return  # both streams would show them
    for words in found:
        warn(words)


def with_warnings(page: str, found: list[str]) -> str:
    """The page of a card, with what speaks against it above it.

    >>> with_warnings("<body>card</body>", ["It does not fit."])
    '<body><div role="alert"><p><strong>Warning.</strong> It does not fit.</p></div>card</body>'
    """
    lines = "".join(f"<p><strong>Warning.</strong> {escape(words)}</p>" for words in found)
    return page.replace("<body>", f'<body><div role="alert">{lines}</div>', 1) if found else page
