"""The commands of the gateway; what they do is loaded when one is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

_EXTRA = ("paho.mqtt", "orjson", "yaml", "pydantic", "prometheus_client")


class _RunByDefault(TyperGroup):
    """A group whose first command is meant where a file is named instead."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` before the name of a file."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)


gateway = typer.Typer(
    cls=_RunByDefault,
    help="Stand between two MQTT brokers: readings in, disguised readings out.",
    no_args_is_help=True,
    epilog="Example:\n\nunderstudy gateway gateway.yaml",
)

Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration, in YAML or TOML.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@gateway.command("run", epilog="Example:\n\nunderstudy gateway run gateway.yaml")
def run(path: Config) -> None:
    """Serve until SIGTERM. `run` may be left out. The log is on standard error, a JSON object a line."""
    need_extra()
    from understudy.gateway.service import serve

    serve(str(path))


@gateway.command("check", epilog="Example:\n\nunderstudy gateway check gateway.yaml")
def check(
    path: Config,
    offline: Annotated[bool, typer.Option("--offline", help="Do not connect to the brokers.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a gateway would do: check the configuration, connect and subscribe; nothing is published or recorded."""
    need_extra()
    from understudy.gateway.check import check as run

    found = run(str(path), offline)
    typer.echo(_json(found.facts) if as_json else "\n".join(found.sentences))


@gateway.command("init", epilog="Example:\n\nunderstudy gateway init gateway.yaml")
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The new file; one that is there stays.")] = Path(
        "gateway.yaml"
    ),
    as_json: AsJson = False,
) -> None:
    """Write an example of a configuration, with comments."""
    from understudy.errors import ConfigurationError

    example = (Path(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(example)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists; it is not written over") from None
    typer.echo(
        _json({"written": str(path)})
        if as_json
        else f"{path} is written: edit it, then understudy gateway check {path}"
    )


@gateway.command("schema", epilog="Example:\n\nunderstudy gateway schema > gateway.schema.json")
def schema() -> None:
    """Print the JSON Schema of the configuration, for editors."""
    need_extra()
    from understudy.gateway.config import Config as Model

    typer.echo(_json(Model.model_json_schema(by_alias=True)))


def _json(value: Any) -> str:
    import json

    return json.dumps(value, indent=2)


def need_extra() -> None:
    """Say how to install what the gateway needs, where something is missing."""
    from importlib.util import find_spec

    from understudy.errors import MissingExtraError

    for name in _EXTRA:
        try:
            found = find_spec(name)
        except ImportError:
            found = None
        if found is None:
            raise MissingExtraError(
                f'the gateway needs {name} (the extra `gateway`): pip install "understudy[gateway]"'
            )
