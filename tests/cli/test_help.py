"""What holds of every command: an example, --json, a documented status, and no bar without a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from cli_cases import family

from understudy.cli import app


def commands(command=None, name=()):
    """Every command that does something, with the words that call it."""
    command = command or typer.main.get_command(app)
    for child, found in command.commands.items():
        if hasattr(found, "commands"):
            yield from commands(found, (*name, child))
        else:
            yield (*name, child), found


IN_JSON = {("gateway", "run"): "its log is JSON", ("gateway", "schema"): "it prints JSON"}
"""Commands whose output is JSON anyway."""


@pytest.mark.parametrize("name", [name for name, _ in commands()], ids=" ".join)
def test_every_command_has_an_example_and_json(name):
    """The example calls the command itself, with options that it has."""
    command = dict(commands())[name]
    options = {option for parameter in command.params for option in parameter.opts}
    assert "--json" in options or name in IN_JSON
    assert command.help
    lines = command.epilog.split("\n\n")
    assert lines[0] in ("Example:", "Examples:")
    for line in lines[1:]:
        words = line.split()
        assert words[: len(name) + 1] == ["understudy", *name]
        assert {word for word in words if word.startswith("--")} <= options
    for parameter in command.params:
        assert parameter.help, f"{parameter.name} of {name} has no help"


@pytest.mark.parametrize("name", [name for name, _ in commands()], ids=" ".join)
def test_help_is_printed_without_a_terminal(name, understudy):
    """Status 0, with the example."""
    told = understudy(*name, "--help")
    assert told.status == 0
    assert "Example" in told.out
    assert " ".join(("understudy", *name)) in " ".join(told.out.split())


def test_usage_errors_have_status_2(understudy):
    """An unknown command, an unknown option, an argument that is missing."""
    for arguments in (("fits",), ("design", "--leak", "1"), ("report",), ("apply", "d.json"), ("demo", "--steps", "3")):
        told = understudy(*arguments)
        assert told.status == 2, arguments
        assert told.out == ""
        assert "Traceback" not in told.err


HEAVY = {"numpy", "scipy", "matplotlib", "pyarrow", "sklearn", "pandas", "polars", "sqlite3"}


def test_help_loads_no_heavy_package():
    """Nor any part of the program but the declarations; `benchmarks` measures the time."""
    code = (
        "import sys; sys.argv[1:] = ['--help']; from understudy.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    )
    code += "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(told.stderr.split())
    assert "Usage" in told.stdout
    assert "typer" in loaded
    assert not HEAVY & loaded


def test_the_same_look_finds_a_heavy_package():
    """The twin: a process that makes a model has loaded numpy."""
    code = "import sys, understudy as us; us.Gaussian(0.0, 1.0); print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


def test_a_bar_is_drawn_on_a_terminal_and_nowhere_else(files):
    """On the error stream alone: the standard output stays one JSON document."""
    command = [sys.executable, "-m", "understudy", "design", str(files / "family.json"), "--leakage", "0.1", "--json"]
    for environment, drawn in (({"FORCE_COLOR": "1"}, True), ({"NO_COLOR": "1"}, False)):
        plain = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
        told = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**plain, **environment})
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["private"] == "occupancy"
        assert ("distortion of each pair" in told.stderr) is drawn


def test_a_log_has_a_line_of_progress_every_ten_seconds(monkeypatch, capsys):
    """The first one after ten seconds, with the share that is done and the time that is left."""
    from understudy.cli import terminal

    seconds = iter([0.0, 4.0, 10.0, 15.0, 21.0])
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(seconds))
    with terminal.progress("fitting the models") as told:
        for share in (0.1, 0.25, 0.3, 0.5):
            told(share, "AR(1)" if share == 0.5 else "")
    assert capsys.readouterr().err.splitlines() == [
        "fitting the models: 25%, about 30 s to go",
        "fitting the models: 50%, about 21 s to go (AR(1))",
    ]


def test_work_that_is_silent_is_in_the_log_too(monkeypatch, capsys):
    """A fit may say nothing for minutes; a second more than ten seconds is waited for it. Quiet work has no line."""
    from understudy.cli import terminal

    monkeypatch.setattr(terminal, "LINE_EVERY", 0.0)
    with terminal.progress("fitting the models") as told:
        told(0.5)
        before = capsys.readouterr().err
        for _ in range(600):
            time.sleep(0.05)
            found = capsys.readouterr().err
            if found:
                break
    assert before == "fitting the models: 50%, about 0 s to go\n"
    assert found.startswith("fitting the models: 50%, ")
    assert found.endswith(" so far\n")
    terminal.quiet.set(True)
    try:
        with terminal.progress("fitting the models") as told:
            told(0.5)
    finally:
        terminal.quiet.set(False)
    assert capsys.readouterr().err == ""


def test_quiet_leaves_warnings_and_errors(files, tmp_path, understudy, monkeypatch):
    """No progress and no notes; the results are the same."""
    from understudy.cli import terminal

    monkeypatch.setattr(terminal, "LINE_EVERY", 0.0)
    call = ("design", files / "family.json", "--leakage", "0.1", "--json")
    loud, quiet = understudy(*call), understudy("--quiet", *call)
    assert "distortion of each pair: 100%" in loud.err
    assert (quiet.err, quiet.out) == ("", loud.out)
    call = ("apply", files / "design.json", files / "today.csv", "-o", "-", "--private", "occupancy")
    loud, quiet = understudy(*call), understudy("--quiet", *call)
    assert "300 rows" in loud.err
    assert "300 rows" not in quiet.err
    assert quiet.err.startswith("understudy: warning: no --ledger")
    assert "does not exist" in understudy("--quiet", "report", tmp_path / "none.json", "--json").err


def test_a_fault_of_the_program_is_one_line(files, understudy, monkeypatch):
    """Without what it says, which may hold a reading; on request the whole traceback."""
    from understudy.cli import design_commands as reporting

    def broken(*_):
        raise ZeroDivisionError("431.5")

    monkeypatch.setattr(reporting, "report", broken)
    told = understudy("report", files / "design.json", "-o", "r.html")
    assert told.status == 1
    assert told.err.startswith("understudy: a fault of the program (ZeroDivisionError)")
    assert "431.5" not in told.err
    assert told.err.count("\n") == 1
    monkeypatch.setenv("UNDERSTUDY_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        understudy("report", files / "design.json", "-o", "r.html")


def test_ctrl_c_is_told_in_a_line(files, understudy, monkeypatch):
    """Status 130, no traceback."""
    from understudy.cli import design_commands as reporting

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(reporting, "report", stopped)
    told = understudy("report", files / "design.json", "-o", "r.html")
    assert told.status == 130
    assert "Traceback" not in told.err


def test_the_four_exit_codes(files, tmp_path, understudy, monkeypatch):
    """0 done or released, 1 an error, 2 wrong usage, 3 do not release; help and the page say so."""
    from understudy.cli import file_commands

    columns = ("--reading", "co2", "--private", "occupancy", "--time", "date", "--no-audit")
    assert understudy("guarantee", files / "design.json").status == 0
    assert understudy("guarantee", tmp_path / "none.json").status == 1
    assert understudy("guarantee", "--leakage", "1").status == 2
    for passed, status in ((True, 0), (False, 3)):
        monkeypatch.setattr(file_commands, "fit_table", lambda *_, passed=passed: family(passed))
        told = understudy("quickstart", files / "history.csv", *columns, "-o", tmp_path / str(status))
        assert told.status == status, told.err
    said = " ".join(understudy("--help").out.split())
    assert "Exit status: 0 done or released, 1 an error, 2 wrong usage, 3 do not release." in said
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    for row in ("| 0 | done, or released", "| 1 | an error", "| 2 | wrong usage", "| 3 | do not release"):
        assert row in page


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_completes_commands(shell, understudy):
    """The one that --install-completion writes; a shell that reads it asks the program for words."""
    told = understudy("completion", shell)
    assert told.status == 0
    assert f"_UNDERSTUDY_COMPLETE=complete_{shell}" in told.out
    assert json.loads(understudy("completion", shell, "--json").out)["script"] == told.out.rstrip("\n")
    assert understudy("completion", "csh").status == 2
    words = {"bash": {"COMP_WORDS": "understudy qui", "COMP_CWORD": "1"}}
    asked = {
        "_TYPER_COMPLETE_ARGS": "understudy qui",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        **words.get(shell, {}),
    }
    environment = {**os.environ, **asked, "_UNDERSTUDY_COMPLETE": f"complete_{shell}"}
    code = "import sys; sys.argv = ['understudy']; from understudy.cli import main; main()"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "quickstart" in answer.stdout
    assert "design" not in answer.stdout.split()


# A file of defaults ---------------------------------------------------------------------------------------------------


def test_defaults_come_from_a_file_and_typed_options_win(files, tmp_path, understudy):
    """By command; those of [common] where a command has the option, and no table of its own says otherwise."""
    config = tmp_path / "house.toml"
    config.write_text(
        '[common]\nprivate = "none"\nreading = "co2"\nseed = 7\ntime = "date"\n[design]\nleakage = 0.1\nhorizon = 50\n'
        f'[apply]\nprivate = "occupancy"\nledger = "{(tmp_path / "room.db").as_posix()}"\ndecimals = 2\n'
        "[key.show-id]\njson = true\n"
    )
    design = ("design", files / "family.json", "--per", "run", "--json")
    found = understudy("--config", config, *design)
    assert found.status == 0, found.err
    assert json.loads(found.out) == json.loads(understudy(*design, "--leakage", "0.1", "--horizon", "50").out)
    typed = json.loads(understudy("--config", config, *design, "--leakage", "0.2").out)
    assert typed["leakage"]["nats"] == pytest.approx(0.2, abs=1e-6)
    out = tmp_path / "out.csv"
    told = understudy("--config", config, "apply", files / "design.json", files / "today.csv", "-o", out)
    assert told.status == 0, told.err
    assert (tmp_path / "room.db").exists()
    understudy("key", "new", tmp_path / "k")
    assert "id" in json.loads(understudy("--config", config, "key", "show-id", tmp_path / "k").out)
    # columns of [common] do not make an audit of simulated readings one of a file
    told = understudy("--config", config, "audit", files / "design.json", "--n", "200", "--adversaries", "exact")
    assert told.status == 0, told.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[fits]\nreading = 'co2'", ["[fits]", "the name of a command"]),
        ("reading = 'co2'", ["[reading]", "a table is wanted"]),
        ("common = 1", ["common", "a table is wanted"]),
        ("[ledger.shows]\njson = true", ["[ledger.shows]", "the name of a command"]),
        ("[fit]\nreadings = 'co2'", ["[fit], readings", "no option --readings"]),
        ("[common]\ncolour = 'red'", ["[common], colour", "no command has the option --colour"]),
        ("[fit]\nstrict = 'yes'", ["[fit], strict", "true or false is wanted, not 'yes'"]),
        ("[fit]\nprivate = true", ["[fit], private", "a text or a number is wanted"]),
        ("[fit]\nprivate = ['a', 'b']", ["[fit], private", "a text or a number is wanted"]),
        ("[design]\nhorizon = 'long'", ["[design], horizon", "'long' is not accepted"]),
        ("[design]\nhorizon = 0", ["[design], horizon", "0 is not accepted"]),
        ("[common]\nseed = 1.5", ["[common], seed", "1.5 is not accepted"]),
        ("[fit\n", ["--config", "cannot be read as TOML"]),
    ],
)
def test_what_is_wrong_with_a_file_of_defaults_is_named(text, words, tmp_path, understudy):
    """The file, the table and the key, in one line; whichever command is called."""
    config = tmp_path / "house.toml"
    config.write_text(text)
    told = understudy("--config", config, "info")
    assert (told.status, told.out, told.err.count("\n")) == (1, "", 1)
    for part in ("house.toml", *words):
        assert part in told.err


def test_a_key_itself_is_not_accepted_in_a_file_of_defaults(tmp_path, understudy):
    """Nor shown; where the key is may be said."""
    config = tmp_path / "house.toml"
    config.write_text(f"[apply]\nkey = 'understudy-key {'ab' * 32}'")
    told = understudy("--config", config, "info")
    assert told.status == 1
    assert "[apply], key: a key is a secret" in told.err
    assert "abab" not in told.err
    config.write_text("[apply]\nkey = 'env:HOUSE_KEY'")
    assert understudy("--config", config, "info").status == 0
    assert "cannot be read" in understudy("--config", tmp_path / "none.toml", "info").err
