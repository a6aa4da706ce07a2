"""The command `understudy studio`: its options. What it serves is loaded when it is called, so that help is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def studio(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="A history, a stored family or a stored design; opened on the page if left out."
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(metavar="NUMBER", help="The port on the loopback interface (0: a free one).", min=0, max=65535),
    ] = 0,
    limit: Annotated[int, typer.Option(metavar="MB", help="Refuse files that are larger.", min=1)] = 512,
    idle: Annotated[
        float, typer.Option(metavar="MINUTES", help="Stop when nobody has asked for anything for so long.", min=0.01)
    ] = 60.0,
    traces: Annotated[
        bool, typer.Option("--traces/--no-traces", help="Draw a stretch of real readings on the page.")
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for a program instead of text for people.")
    ] = False,
) -> None:
    """Serve a local page where an officer and an engineer agree on a design: fit, slider, audit, report."""
    from understudy.studio.server import Options, run

    run(path, Options(port, traces, limit << 20, 60.0 * idle), as_json, typer.echo)
