"""`understudy ledger`: what a ledger says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from understudy.paths import NewFile, check_paths
from understudy.stream.inspection import backup as private_copy
from understudy.stream.inspection import released, summary
from understudy.stream.inspection import verify as findings


def show(path: Path, as_json: bool) -> None:
    """Print streams and rooms."""
    found = summary(path)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    streams = Table(title=f"Streams of {found['ledger']}", title_justify="left")
    for name in ("stream", "room", "readings", "epochs", "outputs kept", "charged (nats)", "design"):
        streams.add_column(name, justify="right" if name not in ("stream", "room", "design") else "left")
    for s in found["streams"]:
        name = escape(_visible(s["name"])) + (" [red](insecure: seeded)[/red]" if s["insecure"] else "")
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
    lines = (json.dumps(record) for record in released(path, stream))
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
        "The witness is not part of it. Leave the witness where it is: it tells when a copy is older than what was"
    )
    typer.echo("released. Without it nothing does.")
