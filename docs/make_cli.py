"""Write docs/cli.md: what each command takes, from the program itself, and the notes in cli_notes.txt.

    python docs/make_cli.py            writes the page
    python docs/make_cli.py --check    says whether it is up to date; status 1 if not

The notes are Markdown, a section for each command under the heading that it has on the page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import typer

from understudy.cli import app

HERE = Path(__file__).parent
PAGE, NOTES = HERE / "cli.md", HERE / "cli_notes.txt"
NAME = "understudy"


def page() -> str:
    """The whole page."""
    notes = sections(NOTES.read_text(encoding="utf-8"))
    root = typer.main.get_command(app)
    parts = [notes.pop("").strip(), option_table([each for each in root.params if each.name != "help"])]
    commands = dict(walk(root, NAME))
    parts.append(
        "\n".join(["| command | |", "|---|---|", *(line(name, command) for name, command in commands.items())])
    )
    for name, command in commands.items():
        parts += described(name, command, notes.pop(name, ""))
    parts += [f"## {title}\n\n{bare(text)}" for title, text in notes.items()]
    return "\n\n".join(part for part in parts if part) + "\n"


def walk(command: Any, name: str) -> Any:
    """Commands and their groups, in the order of `--help`."""
    for child, found in getattr(command, "commands", {}).items():
        yield f"{name} {child}", found
        yield from walk(found, f"{name} {child}")


def sections(text: str) -> dict[str, str]:
    """What stands below each heading; before the first one, under an empty name."""
    found, title = {"": ""}, ""
    for row in text.splitlines():
        if row.startswith("## "):
            title = row[3:].strip()
            found[title] = ""
        else:
            found[title] += row + "\n"
    return found


def bare(text: str) -> str:
    """A text without blank lines around it; the indent of its first line makes it code, and stays."""
    return text.strip("\n")


def line(name: str, command: Any) -> str:
    """One command in the list at the top."""
    return f"| [`{name}`](#{name.replace(' ', '-')}) | {first(command)} |"


def first(command: Any) -> str:
    """What a command does, in a sentence or two."""
    return options_in(command.help or "")


def options_in(text: str) -> str:
    """A text in one line, its options as code, so that no dash of theirs is made a longer one."""
    return re.sub(r"(?<![`\w])(--[a-z][a-z-]*)", r"`\1`", " ".join(text.split()))


def described(name: str, command: Any, note: str) -> list[str]:
    """A command: what it does, how it is called, examples, notes, and every option."""
    if getattr(command, "commands", None):
        return [f"## {name}", first(command), bare(note)]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    level = "##" if name.count(" ") == 1 else "###"
    parts = [f"{level} {name}", first(command), usage(name, arguments, options), bare(note)]
    return [*parts, option_table([*arguments, *options])]


def option_table(parameters: list[Any]) -> str:
    """Arguments and options, a row each."""
    rows = [f"| `{shown(p)}` | {told(p)} | {default(p)} |" for p in parameters]
    return "\n".join(["| option | | default |", "|---|---|---|", *rows])


def usage(name: str, arguments: list[Any], options: list[Any]) -> str:
    """The examples of a command, as its help has them."""
    command = next(found for path, found in walk(typer.main.get_command(app), NAME) if path == name)
    lines = [row.strip() for row in (command.epilog or "").split("\n\n")[1:]]
    return "\n".join(f"    {row}" for row in lines)


def shown(parameter: Any) -> str:
    """An argument by its name, an option by its letters."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar)
    metavar = "" if parameter.is_flag else f" {parameter.metavar}"
    return ", ".join(parameter.opts) + metavar


def told(parameter: Any) -> str:
    """Its help, with what is needed said."""
    several = " May be given several times." if getattr(parameter, "multiple", False) else ""
    needed = " Needed." if parameter.required else ""
    return options_in(str(parameter.help or "")).replace("|", "\\|") + several + needed


def default(parameter: Any) -> str:
    """What holds if it is left out; nothing where that is not a value."""
    value = parameter.default
    if parameter.required or value is None or value is False or callable(value) or value == []:
        return ""
    return f"`{value}`"


def main() -> int:
    """Write the page, or check it."""
    made = page()
    if "--check" in sys.argv[1:]:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == made
        print("docs/cli.md is up to date" if same else "docs/cli.md is not up to date: run python docs/make_cli.py")
        return 0 if same else 1
    PAGE.write_text(made, encoding="utf-8")
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
