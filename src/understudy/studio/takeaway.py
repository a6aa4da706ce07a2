"""What leaves the studio: the commands and the script that make a design again, and the record of the decision.

Each begins with the warnings that speak against the design, where there are any. The report is that of `understudy
report`, byte for byte, and the design is the file that `Design.save` writes.
"""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import understudy as us
from understudy._types import Plain
from understudy.report.facts import AnyDesign, advise, card_of, facts, warnings
from understudy.report.pages import sentences
from understudy.text import ADVICE

FAMILY, DESIGN, REPORT, AUDIT, SCRIPT = "family.json", "design.json", "report.html", "audit.json", "make_design.py"


@cache
def words() -> Plain:
    """All English of the studio."""
    return tomllib.loads(files("understudy.studio").joinpath("words.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Recipe:
    """How a design came about: the history with its columns, the family, and the arguments of the call.

    `kind` is "draw", "causal", "coin", "tuned", "room" (the paper's, without a history) or "opened" (from a file).
    """

    kind: str
    given: Plain = field(default_factory=dict)
    history: str | None = None
    columns: Plain = field(default_factory=dict)
    fitted: Plain = field(default_factory=dict)
    family: str | None = None
    """The path of a family that was opened; None where the studio fitted it."""


# Commands -------------------------------------------------------------------------------------------------------------


def commands(recipe: Recipe, design: AnyDesign, audited: bool) -> list[str]:
    """The commands that make the design and its report again."""
    q = shlex.quote
    found = []
    family = FAMILY if recipe.family is None else recipe.family
    if recipe.history and recipe.family is None and recipe.kind != "coin":
        found.append(f"understudy fit {q(recipe.history)}{_columns(recipe)} -o {FAMILY}")
    given = recipe.given
    if recipe.kind in ("draw", "room"):
        where = "" if recipe.kind == "room" else f" {q(family)} --per run"
        found.append(f"understudy design{where}{_demand(given)}{_shared(given)} -o {DESIGN}")
    elif recipe.kind == "causal":
        clock = " --clock" if given.get("clock") else ""
        found.append(
            f"understudy design {q(family)} --per day{_demand(given)} --decision-every {given['decision_every']}"
            f"{clock}{_output(recipe)}{_shared(given)} -o {DESIGN}"
        )
    elif recipe.kind == "coin":
        reading = "".join(f" --reading {q(name)}" for name in recipe.columns["reading"])
        time = f" --time {q(recipe.columns['time'])}" if recipe.columns.get("time") else ""
        found.append(
            f"understudy design-coin {q(recipe.history or '')}{reading}{time} --q {given['q']:g} "
            f"--epoch {given['epoch']} --values {q(','.join(map(str, design.values)))} -o {DESIGN}"
        )
    elif recipe.kind == "tuned":
        found.append(f"python {SCRIPT}")
    target = recipe.given["path"] if recipe.kind == "opened" else DESIGN
    if audited:
        on = f" {q(recipe.history)}" if recipe.history else ""
        found.append(f"understudy audit {q(target)}{on} --save {AUDIT}")
    found.append(f"understudy report {q(target)}{f' --audit {AUDIT}' if audited else ''} -o {REPORT}")
    return found


def _columns(recipe: Recipe) -> str:
    q, c = shlex.quote, recipe.columns
    found = "".join(f" --reading {q(name)}" for name in c["reading"]) + f" --private {q(c['private'])}"
    for option in ("time", "segment", "period", "bins"):
        if c.get(option):
            found += f" --{option} {q(c[option])}"
    found += "".join(f" --public {q(name)}" for name in c.get("public") or ())
    found += " --day-first" if c.get("day_first") else ""
    if c.get("delimiter") and c["delimiter"] != ",":
        found += f" --delimiter {q(c['delimiter'])}"
    if recipe.fitted.get("model", "auto") != "auto":
        found += f" --model {q(recipe.fitted['model'])}"
    return found


def _demand(given: Plain) -> str:
    for name in ("leakage", "error_at_least", "distortion_at_most"):
        if given.get(name) is not None:
            return f" --{name.replace('_', '-')} {shlex.quote(str(given[name]))}"
    return ""


def _output(recipe: Recipe) -> str:
    """Outputs that are filters of the scores, and the history that they are fitted to."""
    if recipe.given.get("output") != "least-change":
        return ""
    return f" --output least-change --history {shlex.quote(recipe.history or '')}"


def _shared(given: Plain) -> str:
    found = f" --distortion {given['distortion']}"
    if given.get("horizon"):
        found += f" --horizon {given['horizon']}"
    if given.get("pseudo"):
        found += f" --pseudo {shlex.quote(','.join(map(str, given['pseudo'])))}"
    return found + (f" --fresh {given['fresh']:g}" if given.get("fresh") else "")


# The script -----------------------------------------------------------------------------------------------------------


def script(recipe: Recipe, design: AnyDesign) -> str:
    """A Python script that makes the same design from the public library."""
    told = [f"# {line}" for text in _against(design) for line in _lines(text, 98)]
    body = ["import understudy as us"]
    c = recipe.columns
    if recipe.kind == "opened":
        body += ["", f"design = us.load_design({recipe.given['path']!r})"]
    elif recipe.kind == "room":
        body += [
            "", "",
            "def room(occupants):",
            "    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)",
            "", "",
            "family = us.Family(room, values=[0, 1])",
        ]  # fmt: skip
    elif recipe.family is not None:
        body += ["", f"family = us.load_family({recipe.family!r})"]
    if recipe.history:
        named = [c.get("segment"), *c["reading"], *(c.get("public") or ()), c["private"]]
        wanted = list(dict.fromkeys(name for name in named if name and not str(name).startswith("clock")))
        body.insert(1, "from understudy.tables.table import read_table")
        delimiter = f", delimiter={c['delimiter']!r}" if c.get("delimiter") not in (None, ",") else ""
        time = f", time={c['time']!r}" if c.get("time") else ""
        body += ["", f"history = read_table({recipe.history!r}, {wanted!r}{delimiter}{time})"]
        if recipe.kind != "coin" and recipe.family is None:
            body += [
                f"family = us.fit(history, {_arguments(_fit_arguments(recipe))})",
                f"us.save_family(family, {FAMILY!r})",
            ]
    body += _call(recipe, design)
    if recipe.kind != "opened":
        body += [f"design.save({DESIGN!r})"]
    body += ["print(design.fingerprint)"]
    return "\n".join([*told, *([""] if told else []), *body]) + "\n"


def _fit_arguments(recipe: Recipe) -> Plain:
    c = recipe.columns
    found: Plain = {
        "reading": c["reading"][0] if len(c["reading"]) == 1 else list(c["reading"]),
        "private": c["private"],
    }
    found |= {name: c[name] for name in ("time", "segment", "public", "period", "bins", "day_first") if c.get(name)}
    if recipe.fitted.get("model", "auto") != "auto":
        found["model"] = recipe.fitted["model"]
    return found


def _arguments(given: Plain) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)


def _call(recipe: Recipe, design: AnyDesign) -> list[str]:
    given = {name: value for name, value in recipe.given.items() if value not in (None, 0.0, False)}
    if recipe.kind in ("draw", "room"):
        return [f"design = us.design(family, {_arguments(given)})"]
    if recipe.kind == "causal":
        every, leakage = given.pop("decision_every"), given.pop("leakage", 0.0)
        given.pop("clock", None)
        least = given.pop("output", "") == "least-change"
        more = ", output='least-change', history=read_again(history, family)" if least else ""
        how = "clock=True" if recipe.given.get("clock") else f"np.linalg.matrix_power(T, {every})"
        top = [] if recipe.given.get("clock") else [
            "import numpy as np", "", 'T = np.array(family.about["chain"]["transition"])',
        ]  # fmt: skip
        if least:
            top = ["from understudy.identify.fit import read_again", *top]
        return [
            *top,
            f'rate = us.at_most({leakage!r}, 86400.0 / (family.about["period"] * {every}))',
            f"design = us.design_causal(family, {how}, rate=rate, decision_every={every}, {_arguments(given)}{more})",
        ]
    if recipe.kind == "coin":
        names, c = list(design.values), recipe.columns
        about = {"readings": c["reading"], "time": c.get("time")}
        about = {name: value for name, value in about.items() if value}
        return [
            "import numpy as np", "",
            f"Y = np.column_stack([history.numbers(name) for name in {c['reading']!r}])",
            f"given = {{'values': {names!r}, 'about': {about!r}}}",
            f"design = us.design_coin(Y, q={given['q']!r}, epoch={given['epoch']!r}, **given)",
        ]  # fmt: skip
    if recipe.kind == "tuned":
        return ["found = us.tune(history, " + _arguments(given) + ")", "design = found.design"]
    return []


# The record of the decision -------------------------------------------------------------------------------------------


def _against(design: AnyDesign) -> list[str]:
    """The verdict and what speaks against the design; empty if nothing does."""
    advice, found = advise(design), warnings(design)
    if advice is not None and advice[0].value != "release":
        found = [ADVICE[advice[0]], *dict.fromkeys([*found, *advice[1]])]
    return found


def _lines(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(" ".join(text.split()), width)


def comment(design: AnyDesign) -> list[str]:
    """The same as lines of comment."""
    return [f"# {line}" for text in _against(design) for line in _lines(text, 98)]


def record(recipe: Recipe, design: AnyDesign, notes: Plain, audited: bool) -> str:
    """What was decided and why, as Markdown."""
    say, told = words()["record"], facts(design)
    parts = [f"# {say['title']}"]
    against = _against(design)
    if against:
        parts.append("\n".join(f"> **{line}**" if k == 0 else f"> {line}" for k, line in enumerate(against)))
    parts += [f"## {say['decided']}"]
    for key in ("who", "what", "why"):
        given = str(notes.get(key) or "").strip()
        parts.append(f"**{say[key]}** {given or say['empty']}")
    parts += [f"## {say['promised']}", card_of(design).headline]
    if not isinstance(design, us.CoinDesign):
        parts += [*(line for line in sentences(design) if line != card_of(design).headline)]
    rows = [(say["kind"], told["kind"]), (say["per"], told["per"]), (say["fingerprint"], f"`{told['fingerprint']}`")]
    leakage = told["leakage"]
    for key in ("nats", "bits", "nats_a_day", "bits_a_day"):
        if leakage.get(key) is not None:
            rows.append((say["leakage"], f"{leakage[key]!r} {key.replace('_', ' ')}"))
    size = told.get("distortion")
    if size:
        rows.append((say["distortion"], f"{size['value']!r} ({size['measure']})"))
    parts.append("\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]))
    parts += [f"## {say['traps']}", "\n".join(f"- {line}" for line in say["trap_lines"])]
    shown = "\n".join(f"    {line}" for line in commands(recipe, design, audited))
    parts += [f"## {say['again']}", shown, say["library"].format(version=us.__version__)]
    return "\n\n".join(parts) + "\n"


def file_name(path: Path | str) -> str:
    """The name that a download has."""
    return Path(path).name


def arguments_of(given: dict[str, Any]) -> str:
    """Arguments as somebody would write them."""
    return _arguments({name: value for name, value in given.items() if value not in (None, 0.0, False)})
