"""``understudy quickstart``: fit, design, report, apply and audit in one go, in a folder of their own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from understudy._paths import check_paths
from understudy.adversaries.results import Audit, strongest
from understudy.apply.apply_file import SIDECAR
from understudy.cli import design_commands, file_commands
from understudy.cli.design_commands import tell as tell_design
from understudy.cli.file_commands import Columns, Roles, rows_of
from understudy.cli.terminal import print_json, say, show, warn
from understudy.errors import ConfigurationError, UnderstudyError
from understudy.report.facts import AnyDesign, facts, fits, warnings
from understudy.tables.table import Table

LEDGER, FAMILY, DESIGN, REPORT, HELD, OUT, AUDIT = (
    "room.db", "family.json", "design.json", "report.html", "heldout.csv", "disguised.csv", "audit.html",
)  # fmt: skip


def quickstart(
    source: str,
    columns: Columns,
    wanted: design_commands.DesignOptions,
    on: str | None,
    accept: bool,
    audit: bool,
    out: Path,
    as_json: bool,
) -> bool:
    """All steps; whether the last one was taken, which a misfit stops unless it was accepted."""
    folder(out)
    made = (FAMILY, DESIGN, REPORT, HELD, OUT, OUT + SIDECAR, AUDIT)
    check_paths(
        {"HISTORY": source, "--on": on},
        {f"--out {name}": out / name for name in made},
        (f"--out {LEDGER}", out / LEDGER),
    )
    began, steps = time.perf_counter(), []

    def step(name: str, result: str) -> None:
        steps.append((name, f"{time.perf_counter() - began:.1f}", result))
        if not as_json:
            say(f"{steps[-1][1]:>6} s  {name}: {result}", err=True)

    roles = file_commands.roles(columns)
    found = file_commands.read(source, roles)
    step("read", f"{len(found)} rows of {found.name}")
    before, after = found, None
    if on is None:
        before, after = (found.take(rows) for rows in file_commands.split_rows(found, roles))
    family = file_commands.fit_table(before, columns)
    file_commands.store(family, out / FAMILY)
    about = family.about or {}
    model = (about.get("model") or {}).get("name") or "as given"
    gate = {None: "not tested", True: "fits", False: "does NOT fit"}[fits(about)]
    step("fit", f"{model}; on held-out data it {gate}")
    design, notes = design_commands.make_design(family, wanted)
    design.save(out / DESIGN)
    step("design", line(design))
    design_commands.write_report(design, out / REPORT)
    step("report", str(out / REPORT))
    why, applied = obstacle(about, accept, out), None
    if not why:
        if after is not None:
            file_commands.write_rows(after, out / HELD)
        between = "," if on is None else columns.delimiter
        how = file_commands.How(columns.private, columns.time, out / LEDGER, accept_misfit=accept, delimiter=between)
        try:
            result, told = file_commands.disguise_file(
                design, str(out / HELD) if on is None else on, str(out / OUT), how
            )
            applied = {**result.to_plain(), "warnings": told}
            step("apply", f"{out / OUT}, from {'the last part of the history' if on is None else on}")
        except UnderstudyError as error:  # what was made before is of use all the same
            why = f"nothing was disguised: {error}"
    found_out = None
    if audit and not why:
        judged = file_commands.read(on or source, roles) if after is None else after
        try:
            found_out = run_audit(design, roles, before, judged, out)
            step("audit", f"{out / AUDIT}; {outcome(found_out)}")
        except UnderstudyError as error:
            why = f"no audit was made: {error}"
    if as_json:
        print_json({"folder": str(out), "family": about, "design": facts(design), "applied": applied, "remarks": notes,
                    "audit": None if found_out is None else found_out.plain()})  # fmt: skip
    else:
        say()
        file_commands.tell_fit(family)
        tell_design(design, notes, fitted=True)
        files(out)
    for words in [*warnings(design), *([why] if why else [])]:
        warn(words)
    return not why


def run_audit(design: AnyDesign, roles: Roles, learned: Table, judged: Table, out: Path) -> Audit:
    """Attack the design on rows that it has not seen, by adversaries who know those that it was made from."""
    train, rows = (rows_of(design, table, roles).recording for table in (learned, judged))
    made = file_commands.run_audit(design, rows, {"train": train}, file_commands.AuditOptions())
    file_commands.write_audit(made.audit, design, file_commands.Outputs(page=out / AUDIT), made.scores)
    return made.audit


def outcome(audit: Audit) -> str:
    """An audit in a few words."""
    best, raw = (strongest(audit, data, False) for data in ("disguised", "raw"))
    if best is None:
        return "no adversary could be tried without the clock"
    before = "" if raw is None else f", {raw.balanced.value:.3f} without disguise"
    if not audit.testable:
        before += "; too few stretches of time to tell"
    return f"the best adversary's balanced accuracy is {best.balanced.value:.3f}{before}"


def obstacle(about: dict[str, Any], accept: bool, out: Path) -> str:
    """Why the last step is not taken; nothing if it is."""
    if fits(about) is not False or accept:
        return ""
    return (
        "nothing was disguised, because the models do not fit. --accept-misfit does it all the same; first read "
        f"{out / REPORT}"
    )


def folder(out: Path) -> None:
    """A folder to write to, without a ledger: another run with it would draw again for the same readings."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out {out}: it must be a folder ({error.strerror})") from None
    if (out / LEDGER).exists():
        raise ConfigurationError(
            f"--out {out}: there is a ledger {LEDGER} already, and drawing again for the same readings leaks again; "
            "name another folder, or go on with `understudy apply`"
        )


def line(design: AnyDesign) -> str:
    """A design in a few words."""
    told = facts(design)
    leakage = told["leakage"]
    bits = leakage.get("bits", leakage.get("bits_a_decision"))
    per = told["per"]
    if per == "day" and leakage.get("bits_a_day") is not None:
        bits = leakage["bits_a_day"]
    size = told["distortion"]
    share = size["share_of_mean_reading"]
    relative = "" if share is None else f" ({100.0 * share:.3g}% of the mean reading)"
    return f"{bits:.4g} bit a {per}, {size['measure']} {size['value']:.4g}{relative}"


def files(out: Path) -> None:
    """Where everything is."""
    say()
    known = (
        (FAMILY, "the models, their fit and the gate"),
        (DESIGN, "the randomizer with its proof; no secret"),
        (REPORT, "one page, opens offline"),
        (OUT, "disguised readings"),
        (AUDIT, "what adversaries learned from rows like these; opens offline"),
        (LEDGER, "draws and leakage spent; SECRET, keep it"),
        (HELD, "the rows that were held out, with labels; SECRET"),
    )
    show("Written", ("file", "what it is"), [(str(out / name), what) for name, what in known if (out / name).exists()])
