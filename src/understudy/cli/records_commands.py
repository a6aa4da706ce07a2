"""The commands that look into what is there: info, ledger, key and paper.

``understudy info`` says what is installed. ``understudy ledger`` shows what a ledger says of itself: streams, rooms,
charges and releases, but no draw, no key and no state. ``understudy paper`` recomputes every result of the paper into a
folder. Each result is written as soon as it is there, so Ctrl-C keeps those that are done.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import time
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from understudy._paths import NewFile, check_paths
from understudy._version import __version__
from understudy.cli.terminal import print_json, progress
from understudy.errors import LedgerError
from understudy.paper.run import CATALOGUE, choose, glance
from understudy.paper.run import run as compute
from understudy.paper.setting import Outcome, Settings
from understudy.stream.inspection import backup_ledger as private_copy
from understudy.stream.inspection import released_outputs, summary
from understudy.stream.inspection import verify as findings
from understudy.stream.ledger import Ledger
from understudy.stream.randomness import MasterKey
from understudy.transform.backend import compiled

# Info -----------------------------------------------------------------------------------------------------------------


_PACKAGES = {
    "numpy": "",
    "scipy": "",
    "typer": "",
    "narwhals": "",
    "matplotlib": " (extra: plot)",
    "pyarrow": " (extra: arrow)",
    "uvicorn": " (extra: studio)",
}


def show_info(as_json: bool) -> None:
    """Print versions and which kernels run."""
    facts = {
        "understudy": __version__,
        "kernels": "compiled" if compiled else "plain Python (slower, same results)",
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for name, note in _PACKAGES.items():
        facts[name] = _installed_version(name) + note
    if as_json:
        typer.echo(json.dumps({**facts, "compiled": compiled}, indent=2))
        return
    width = max(map(len, facts))
    for name, fact in facts.items():
        typer.echo(f"{name:<{width}}  {fact}")
    if not compiled:
        typer.echo(
            "\nThe compiled loops are not in use: they were not built (no working C compiler at install time), "
            "or UNDERSTUDY_PURE=1 is set."
        )


def _installed_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


# Master keys ----------------------------------------------------------------------------------------------------------


def new_key(path: Path, as_json: bool) -> None:
    """Make a master key and print its id."""
    key = MasterKey.new()
    key.save(path)
    _print_id(key, as_json)


def show_key_id(source: str, as_json: bool) -> None:
    """Print the id of a master key."""
    _print_id(MasterKey.read(source), as_json)


def rewrap_ledger(path: Path, old: str | None, new: str, as_json: bool) -> None:
    """Wrap the keys of the streams of a ledger with another master key."""
    if not path.is_file():
        raise LedgerError(f"{path.name} does not exist")
    before, after = None if old is None else MasterKey.read(old), MasterKey.read(new)
    with Ledger(path, rollback_guard=False, key=before) as ledger:
        ledger.rewrap(after)
        count = len(ledger.names())
    told = f"{count} keys in {path.name} are wrapped with the master key {after.id}"
    typer.echo(json.dumps({"id": after.id, "keys": count}) if as_json else told)


def _print_id(key: MasterKey, as_json: bool) -> None:
    typer.echo(json.dumps({"id": key.id}) if as_json else key.id)


# Ledger ---------------------------------------------------------------------------------------------------------------


def show_ledger(path: Path, as_json: bool) -> None:
    """Print streams and rooms."""
    found = summary(path)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    console = Console()
    streams = Table(title=f"Streams of {found['ledger']}", title_justify="left")
    for name in ("stream", "room", "readings", "epochs", "outputs kept", "charged (nats)", "design"):
        streams.add_column(name, justify="right" if name not in ("stream", "room", "design") else "left")
    for s in found["streams"]:
        name = escape(_visible(s["name"])) + (" [red](insecure: seeded)[/red]" if s["insecure"] else "")
        name += " (untold)" if s["untold"] else ""
        numbers = (str(s["readings"]), str(s["epochs"]), str(s["outputs_kept"]), f"{s['charged_nats']:.6f}")
        streams.add_row(name, escape(_visible(s["room"])), *numbers, s["design"][:19])
    console.print(streams)
    rooms = Table(title="Rooms", title_justify="left")
    for name in ("room", "charged (nats)", "budget", "when spent"):
        rooms.add_column(name, justify="right" if "nats" in name else "left")
    for r in found["rooms"]:
        rooms.add_row(
            escape(_visible(r["room"])),
            f"{r['charged_nats']:.6f}",
            _budget(r["budget"]),
            (r["budget"] or {}).get("when_spent"),
        )
    console.print(rooms)
    if "fleets" in found:
        fleets = Table(title="Fleets", title_justify="left")
        for name in ("fleet", "rooms", "draws", "charged for draws (nats)", "master key", "design"):
            fleets.add_column(name, justify="left" if name in ("fleet", "master key", "design") else "right")
        for f in found["fleets"]:
            counts = (str(f["rooms"]), str(f["draws"]), f"{f['charged_nats']:.6f}")
            fleets.add_row(escape(_visible(f["name"])), *counts, f["key"], f["design"][:19])
        console.print(fleets)


def _visible(name: str) -> str:
    """A name as a terminal may see it: ledgers of 0.1 took escape sequences too."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in name)


def _budget(budget: dict[str, float | None] | None) -> str:
    if budget is None:
        return "none set"
    parts = []
    if budget["total"] is not None:
        parts.append(f"{budget['total']:g} in total")
    if budget["amount"] is not None:
        parts.append(f"{budget['amount']:g} every {budget['period_seconds']:g} s")
    return ", ".join(parts) or "none set"


def verify(path: Path, as_json: bool) -> None:
    """Print what was checked; leave with status 1 if anything is wrong."""
    found = findings(path)
    if as_json:
        told = [{"name": f.name, "passed": bool(f.passed), "detail": f.detail} for f in found]
        typer.echo(json.dumps({"passed": all(f.passed for f in found), "findings": told}, indent=2))
    for finding in [] if as_json else found:
        colour = typer.colors.GREEN if finding.passed else typer.colors.RED
        typer.secho(f"{'ok  ' if finding.passed else 'FAIL'} {finding.name}: {finding.detail}", fg=colour)
    if not all(finding.passed for finding in found):
        raise typer.Exit(1)


def export(path: Path, stream: str, out: Path | None, as_json: bool) -> None:
    """Write the outputs, a line each."""
    check_paths({}, {"--out": out}, ("LEDGER", path))
    lines = (json.dumps(record) for record in released_outputs(path, stream))
    if out is None:
        for line in lines:
            typer.echo(line)
        return
    with NewFile(out) as new:
        count = 0
        for line in lines:
            new.file.write(line.encode("utf-8") + b"\n")
            count += 1
        new.keep()
    said = json.dumps({"outputs": count, "out": str(out)}) if as_json else f"{count} outputs written to {out}"
    typer.echo(said)


def backup(path: Path, copy: Path, as_json: bool) -> None:
    """Copy the ledger, and say what the copy is."""
    check_paths({}, {"COPY": copy}, ("LEDGER", path))
    private_copy(path, copy)
    streams = len(summary(copy)["streams"])
    if as_json:
        typer.echo(json.dumps({"ledger": str(path), "copy": str(copy), "streams": streams, "verified": True}))
        return
    typer.echo(f"{copy}: a copy of {path.name} with {streams} streams, whole and for your eyes only (mode 600).")
    typer.echo("Whoever reads it knows the draws: guard it as you guard the ledger.")
    typer.echo(
        "The rollback guard is not part of it. Leave it where it is: it tells when a copy is older than what was"
    )
    typer.echo("released. Without it nothing does.")


# Paper ----------------------------------------------------------------------------------------------------------------


def run(out: Path, quick: bool, figures: list[str], seed: int, as_json: bool = False) -> None:
    """Compute, showing how far it is, and say what came out and where it is."""
    names = choose(figures)
    began = time.perf_counter()
    finished: list[str] = []
    try:
        with progress("results of the paper") as told:

            def hear(name: str, fraction: float) -> None:
                told((names.index(name) + fraction) / len(names), name if fraction == 1.0 else "")
                if fraction == 1.0:
                    finished.append(name)

            outcomes = compute(out, Settings(seed=seed, quick=quick), names, hear)
    except KeyboardInterrupt:
        kept = f"{len(finished)} of {len(names)} results are in {out / 'report.html'}"
        typer.echo(f"understudy: stopped; {kept if finished else 'nothing was finished'}", err=True)
        raise typer.Exit(130) from None
    if as_json:
        numbers = {outcome.name: {k: float(v) for k, v in outcome.numbers.items()} for outcome in outcomes}
        print_json({"folder": str(out), "seed": seed, "quick": quick, "results": numbers})
        return
    tell(Console(highlight=False), outcomes)
    # not through the console, which would break a path in two
    typer.echo(
        f"{len(outcomes)} of {len(CATALOGUE)} results in {time.perf_counter() - began:.0f} s"
        + (" (without --quick: more points, narrower bands)" if quick else "")
        + f"\nReport, opens offline:  {out / 'report.html'}"
        f"\nNumbers and tables:     {out / 'results.json'}, results.csv"
        f"\nFigures:                {sum(len(outcome.pictures) for outcome in outcomes)}, each as .svg and .png"
    )


def tell(console: Console, outcomes: list[Outcome]) -> None:
    """The verdicts, and the figures that matter most beside the paper's."""
    console.print()
    for outcome in outcomes:
        if outcome.name == "claims":
            n = outcome.numbers
            total = n["holds"] + n["holds_with_correction"] + n["does_not_hold"]
            console.print(
                f"[bold]{total:.0f} claims of the paper checked:[/] {n['holds']:.0f} hold, "
                f"{n['holds_with_correction']:.0f} hold with a correction, {n['does_not_hold']:.0f} does not hold."
            )
    found = glance(outcomes)
    if found.rows:
        table = Table(*found.columns, box=SIMPLE_HEAD, pad_edge=False)
        for row in found.rows:
            table.add_row(*row)
        console.print(table)
        console.print()
