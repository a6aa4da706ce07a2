"""``understudy info``."""

from __future__ import annotations

import importlib.metadata
import json
import platform

import typer

from understudy import __version__
from understudy.transform.backend import compiled

_PACKAGES = {
    "numpy": "",
    "scipy": "",
    "typer": "",
    "narwhals": "",
    "matplotlib": " (extra: plot)",
    "pyarrow": " (extra: arrow)",
}


def show(as_json: bool) -> None:
    """Print versions and which kernels run."""
    facts = {
        "understudy": __version__,
        "kernels": "compiled" if compiled else "plain Python (slower, same results)",
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for name, note in _PACKAGES.items():
        facts[name] = _installed(name) + note
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


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
