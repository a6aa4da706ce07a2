"""The options of `understudy pipe`: declarations only, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer


def _option(metavar: str | None, words: str, *names: str, **rules: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=words, **rules)


@dataclass(frozen=True, slots=True)
class PipeOptions:
    """What is what in a line, and where it is recorded."""

    line_format: Annotated[str, _option("FORMAT", "influx (line protocol), jsonl or senml.", "--format")]
    readings: Annotated[
        list[str] | None, _option("NAME", "The reading: a field, a path, a name (default: the design's).", "--reading")
    ] = None
    private: Annotated[
        str | None,
        _option("NAME", "The private value on the same line: a field, tag, path or name. It does not leave."),
    ] = None
    room: Annotated[str | None, _option("NAME", "The tag or path with the room of a line; bn for senml.")] = None
    keep: Annotated[
        list[str] | None, _option("NAME", "Pass this tag, field or path through as it is; it may tell everything.")
    ] = None
    ledger: Annotated[Path | None, _option("FILE", "Where draws and outputs are recorded. Secret.")] = None
    key: Annotated[
        str | None,
        _option("KEY", "The master key: a file, env:NAME, credential:NAME, 'command:...' (default: LEDGER.key)."),
    ] = None
    ledger_key: Annotated[
        str | None, _option("KEY", "The master key that the ledger is wrapped with, where it is not that of --key.")
    ] = None
    name: Annotated[str, _option("NAME", "The name of these rooms in the ledger.")] = "pipe"
    admit: Annotated[int, _option("COUNT", "So many rooms are admitted with --room.", min=0)] = 10_000
    measurement: Annotated[list[str] | None, _option("NAME", "Read lines of this measurement alone (influx).")] = None
    time: Annotated[str | None, _option("PATH", "Where the time stands (jsonl; default: time).")] = None
    precision: Annotated[
        str | None, _option("UNIT", "What time stamps count: ns, us, ms or s (default: ns; jsonl: by their size).")
    ] = None
    period: Annotated[
        str | None, _option("TIME", "The time from reading to reading, where the design has none; or none.")
    ] = None
    epoch: Annotated[
        str | None, _option("TIME", "Draw again so often by the clock, such as 1d; each draw is charged.")
    ] = None
    total: Annotated[float | None, _option("NATS", "What a room may give away in all.")] = None
    amount: Annotated[float | None, _option("NATS", "What a room may give away in each --per.")] = None
    per: Annotated[str | None, _option("TIME", "The time that --amount is for, such as 1d.")] = None
    when_spent: Annotated[str, _option("WHAT", "Then: stop, or hold the last draw.")] = "stop"
    retain: Annotated[str, _option("TIME", "How long outputs are kept for lines that come again.")] = "1d"
    ahead: Annotated[str, _option("TIME", "Times further ahead of the clock are not taken, such as 1d.")] = "1d"
    decimals: Annotated[
        int | None, _option("COUNT", "Write so many decimals (default: as the design has it).", min=0)
    ] = None
    accept_misfit: Annotated[
        bool, _option(None, "Go on although the gate was not passed; the bounds do not hold then.", "--accept-misfit")
    ] = False
    as_json: Annotated[bool, _option(None, "Say the counts at the end as JSON, on standard error.", "--json")] = False
