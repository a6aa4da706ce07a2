"""The command line, as a user types it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest
import typer
from cli_cases import one_line

from understudy.text import CONDITIONS, PRIORS

ROOT = Path(__file__).parent.parent


def understudy(*arguments, **environment):
    """The command, as a process of its own where the environment matters, else in this one, which is quicker."""
    if environment:
        return subprocess.run(
            [sys.executable, "-m", "understudy", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "COLUMNS": "120", **environment},
        )
    from understudy.cli import main

    out, err = io.StringIO(), io.StringIO()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {"COLUMNS": "120"}))
        stack.enter_context(mock.patch.object(sys, "argv", ["understudy", *arguments]))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        left = stack.enter_context(pytest.raises(SystemExit))
        main()
    return subprocess.CompletedProcess(arguments, left.value.code or 0, out.getvalue(), err.getvalue())


def test_info_says_whether_the_compiled_loops_run():
    """With the plain ones asked for, it says so."""
    told = json.loads(understudy("info", "--json", UNDERSTUDY_PURE="1").stdout)
    assert told["compiled"] is False
    assert told["kernels"].startswith("plain")
    usual = understudy("info")
    assert usual.returncode == 0
    assert "kernels" in usual.stdout


def test_info_agrees_with_the_package():
    """Compiled or not, the same as the module says."""
    from understudy.transform.backend import compiled

    assert json.loads(understudy("info", "--json").stdout)["compiled"] is compiled


def attacked(told):
    """The table of the adversary who averages: the rest of each row by what is averaged."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in told.stdout.splitlines() if "│" in line]
    return {row[0]: row[1:] for row in rows if row[0] in {"raw readings", "raw + noise", "disguised"}}


def test_demo_finds_the_person_in_the_raw_readings_and_the_understudy_in_the_disguised():
    """The story that the demo tells is true, for an understudy chosen by hand."""
    told = understudy("demo", "--pseudo", "0.6")
    assert told.returncode == 0, told.stderr
    found = {name: float(row[-1]) for name, row in attacked(told).items()}
    assert found["raw readings"] == pytest.approx(1.0, abs=0.02)
    assert found["raw + noise"] == pytest.approx(1.0, abs=0.05)
    assert found["disguised"] == pytest.approx(0.6, abs=0.02)
    assert "nothing is guaranteed" in one_line(told.stdout)
    assert "at least 13.35 percent" not in one_line(told.stdout)


@pytest.mark.sample(default=1, seconds=5, reason="two processes")
@pytest.mark.parametrize(("seed", "columns"), [("0", "80"), ("3", "120")])
def test_demo_draws_the_understudy_and_quotes_the_guarantee(seed, columns):
    """By default; the conditions come with the number, and the shown draw with the reason why it may be shown."""
    told = understudy("demo", "--seed", seed, COLUMNS=columns)
    assert told.returncode == 0, told.stderr
    text = one_line(told.stdout.replace("│", " "))
    assert "at least 13.35 percent, however long it watches" in text
    assert f"{PRIORS['stated']}, {CONDITIONS['constant']}" in text
    assert "a blind guess is wrong with 50 percent" in text
    assert "The draw is shown because all of this is simulated" in text
    drawn = re.search(r"This time it drew ([0-9.]+)\.", text)[1]
    assert float(attacked(told)["disguised"][-1]) == pytest.approx(float(drawn), abs=0.02)
    assert f"disguised as {drawn}" in text
    assert f"had it drawn {1 - int(drawn)}" in text
    assert re.search("[▁▂▃▄▅▆▇█]{12}", told.stdout)
    for place in ("understudy paper", "understudy guarantee room.json", "docs/designing.md"):
        assert place in text
    assert max(map(len, told.stdout.splitlines())) <= int(columns)


def test_the_default_of_the_demo_is_a_room_that_is_played_by_another():
    """So that there is something to be seen; the text says how rare that is."""
    text = one_line(understudy("demo").stdout)
    assert "This time it drew 0." in text
    assert "plays its own part in 86.6 percent of all draws" in text


@pytest.mark.long(seconds=3, reason="a process of its own")
def test_demo_does_without_letters_that_a_terminal_lacks():
    """Curves of plain letters, no traceback."""
    told = understudy("demo", PYTHONIOENCODING="ascii:replace")
    assert told.returncode == 0, told.stderr
    assert re.search(r"[_.:=+*#-]{12}", told.stdout)


def test_the_adversary_of_the_demo_errs_as_often_as_guaranteed():
    """Over all rooms: never on raw readings, with noise added or not; at the promised rate on disguised ones.

    5 standard errors, 1e-6, of 40,000 guesses at 13.36 percent.
    """
    rows = attacked(understudy("demo", "--seed", "5", "--theta", "0"))
    wrong = {name: float(row[1].split("%")[0]) for name, row in rows.items()}
    assert wrong["raw readings"] < 0.1
    assert wrong["raw + noise"] < 0.1
    assert wrong["disguised"] == pytest.approx(13.3586, abs=500.0 * (0.1336 * 0.8664 / 40_000) ** 0.5)
    # noise and disguise change the readings as much: 17.35 on average, give or take which rooms were drawn
    assert float(rows["raw + noise"][0]) == pytest.approx(17.346, abs=0.1)
    assert float(rows["disguised"][0]) == pytest.approx(17.346, abs=1.2)


@pytest.mark.long(seconds=2, reason="recomputes results of the paper")
def test_paper_tells_how_far_it_is_and_what_came_out(tmp_path, monkeypatch):
    """Progress on the error stream alone; then verdicts, figures beside the paper's, and where the report is."""
    from understudy.cli import terminal

    monkeypatch.setattr(terminal, "LINE_EVERY", 0.0)
    out = tmp_path / "results"
    told = understudy("paper", "--quick", "--out", str(out), "--figure", "levels", "--figure", "claims", "--seed", "2")
    assert told.returncode == 0, told.stderr
    text = one_line(told.stdout)
    assert "results of the paper: 50%, " in told.stderr
    assert told.stderr.endswith("results of the paper: 100%, about 0 s to go (levels)\n")
    assert "results of the paper: " not in text
    assert "14 claims of the paper checked: 6 hold, 7 hold with a correction, 1 does not hold." in text
    assert "about 0.8 % 17.35 %" in text
    assert "74 times" in text
    assert str(out / "report.html") in told.stdout
    assert re.search(r"2 of 11 results in \d+ s", text)
    assert json.loads((out / "results.json").read_text(encoding="utf-8"))["seed"] == 2
    assert (out / "levels.svg").exists()


def test_paper_refuses_before_the_work(tmp_path):
    """An unknown figure with those that there are; a folder that cannot be one."""
    out = tmp_path / "results"
    refused(understudy("paper", "--out", str(out), "--figure", "fig7"), "there are claims, estimates, tradeoff")
    assert not out.exists()
    (tmp_path / "file").write_text("")
    refused(understudy("paper", "--out", str(tmp_path / "file")), "it must be a folder")
    refused(understudy("paper", "--out", str(tmp_path / "file" / "results")), "cannot be written")


@pytest.mark.long(seconds=2, reason="recomputes results of the paper")
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_paper_keeps_what_is_done_when_it_is_interrupted(tmp_path):
    """Ctrl-C while the second result is made: the first is in the report, and that is said in one line."""
    command = [sys.executable, "-m", "understudy", "paper", "--quick", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while not (tmp_path / "results.json").exists() and running.poll() is None:
            time.sleep(0.05)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        _, complaint = running.communicate(timeout=60)
    assert running.returncode == 130
    assert complaint == f"understudy: stopped; 1 of 11 results are in {tmp_path / 'report.html'}\n"
    assert list(json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["results"]) == ["claims"]


@pytest.mark.long(seconds=1, reason="several demos")
def test_demo_takes_a_leakage_in_any_unit():
    """And refuses what does not go together, in one line."""
    assert "at least 14.61 percent" in one_line(understudy("demo", "--leakage", "40%").stdout)
    for arguments, words in (
        (("--leakage", "2 furlongs"), "it must be a number of nats"),
        (("--leakage", "0.3", "--pseudo", "1"), "chosen or drawn, not both"),
        (("--theta", "2"), "for a room with 0 or 1 people"),
    ):
        refused(understudy("demo", *arguments), words)


def test_design_prints_the_paper_s_design_with_its_proof():
    """Distortion, bound, guarantee and kernel of the room at 0.3 nats."""
    told = understudy("design")
    assert told.returncode == 0, told.stderr
    text = one_line(told.stdout)
    assert "distortion 17.3459 (17.35% of the mean reading)" in text
    assert "(optimal)" in text
    assert "at least 13.35 percent" in text
    assert "0 0.8664 0 0 0 0 0.1336 1 0.1336 0 0 0 0 0.8664" in text


def test_design_meets_each_kind_of_demand():
    """A share of the entropy, an error, a distortion; and other occupancies with odds of their own."""
    assert "leakage 0.277259 nats (0.4 bits)" in _rounded(understudy("design", "--leakage", "40%").stdout)
    assert "at least 30 percent" in one_line(understudy("design", "--error-at-least", "0.3").stdout)
    assert "distortion 25 " in one_line(understudy("design", "--distortion-at-most", "25").stdout)
    told = understudy("design", "--values", "0,1,2", "--prior", ".5,.3,.2", "--pseudo", "0,1,2")
    assert "Design for 3 private and 3 pseudo values" in told.stdout


def test_a_stored_design_gives_its_card_as_text_json_and_html(tmp_path):
    """The same guarantee three times."""
    path, page = tmp_path / "room.json", tmp_path / "card.html"
    assert understudy("design", "--save", str(path)).returncode == 0
    text = understudy("guarantee", str(path)).stdout
    assert text.startswith("PRIVACY CARD")
    card = json.loads(understudy("guarantee", str(path), "--json").stdout)
    assert card["headline"] in one_line(text)
    assert card["wrong_guesses"]["after_at_least"] == pytest.approx(0.133586, abs=1e-6)
    assert understudy("guarantee", str(path), "--html", str(page)).returncode == 0
    assert card["headline"] in page.read_text(encoding="utf-8")


def test_design_writes_a_picture(tmp_path):
    """The trade-off and the randomizer."""
    path = tmp_path / "curve.svg"
    told = understudy("design", "--plot", str(path))
    assert told.returncode == 0, told.stderr
    assert path.read_text().startswith("<?xml")


def test_what_cannot_be_designed_or_shown_is_refused_in_one_line(tmp_path):
    """Which option, and why."""
    for arguments, words in (
        (("--leakage", "-1"), "it must be 0 or more"),
        (("--leakage", "0.3", "--error-at-least", "0.3"), "a design meets one demand"),
        (("--error-at-least", "0.6"), "more cannot be asked"),
        (("--pseudo", "0,x"), "numbers with commas between them"),
        (("--prior", ".2,.2"), "probabilities must sum to 1"),
        (("--distortion", "far"), "it must be 'mse', 'mae'"),
        (("--save", "no/such/folder/room.json"), "there is no folder"),
        (("--plot", "curve.xyz"), "must end in .png, .svg or .pdf"),
    ):
        refused(understudy("design", *arguments), words)
    refused(understudy("guarantee", str(tmp_path / "none.json")), "does not exist")
    (tmp_path / "other.json").write_text("{}")
    refused(understudy("guarantee", str(tmp_path / "other.json")), "no understudy document")
    assert understudy("design", "--save", str(tmp_path / "room.json")).returncode == 0
    stored = str(tmp_path / "room.json")
    refused(understudy("guarantee", stored, "--html", str(tmp_path / "none" / "card.html")), "--html")
    refused(understudy("guarantee", stored, "--json", "--html", str(tmp_path / "card.html")), "one way at a time")


def refused(told, words):
    """One line on the error stream, status 1, nothing printed."""
    assert told.returncode == 1
    assert told.stderr.startswith("understudy: ")
    assert words in told.stderr
    assert told.stderr.count("\n") == 1
    assert told.stdout == ""


def _rounded(text):
    """Text on one line, its numbers to six digits."""
    return re.sub(r"[0-9]+\.[0-9]{6,}", lambda found: f"{float(found[0]):.6g}", one_line(text))


def test_every_command_and_option_is_documented():
    """docs/cli.md has a section for each command, which names each of its options."""
    from understudy.cli import app

    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, command in typer.main.get_command(app).commands.items():
        assert f"\n## understudy {name}\n" in page
        section = page.split(f"\n## understudy {name}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    assert re.search(rf"{option}\b(?!-)", section), f"{option} of {name} is not in docs/cli.md"


def test_the_page_of_the_command_line_is_up_to_date():
    """docs/cli.md is what docs/make_cli.py makes of the program and the notes, which name no command that is not."""
    check = [sys.executable, str(ROOT / "docs" / "make_cli.py"), "--check"]
    told = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stdout + told.stderr
    from understudy.cli import app

    notes = (ROOT / "docs" / "cli_notes.txt").read_text(encoding="utf-8")
    named = {title.split()[1] for title in re.findall("^## (understudy .*)$", notes, re.MULTILINE)}
    assert named <= set(typer.main.get_command(app).commands)


def test_json_is_one_document():
    """Of the commands that compute: the demo and the design of the room."""
    found = json.loads(understudy("demo", "--seed", "5", "--json").stdout)
    assert found["adversary"]["disguised"]["wrong_guesses"] == pytest.approx(found["wrong_guesses_at_least"], abs=0.01)
    assert json.loads(understudy("demo", "--pseudo", "0.6", "--json").stdout)["wrong_guesses_at_least"] is None
    room = json.loads(understudy("design", "--json").stdout)
    assert room["distortion"]["value"] == pytest.approx(17.3459, abs=1e-4)
    assert room["kernel"][0][0] == pytest.approx(0.8664, abs=1e-4)


@pytest.mark.long(seconds=2, reason="a process that draws")
def test_demo_writes_a_picture(tmp_path):
    """A PNG, on request."""
    path = tmp_path / "picture.png"
    told = understudy("demo", "--plot", str(path))
    assert told.returncode == 0, told.stderr
    assert path.read_bytes().startswith(b"\x89PNG")


def test_an_error_of_ours_is_one_line():
    """No traceback, a non-zero status, and where the picture cannot be written nothing half done."""
    for name in ("/nonexistent/folder/picture.png", "picture.xyz"):
        told = understudy("demo", "--plot", name)
        assert told.returncode == 1
        assert told.stderr.startswith(f"understudy: --plot {name}")
        assert "Traceback" not in told.stderr
        assert told.stdout == ""


def test_a_missing_extra_says_how_to_install_it(tmp_path):
    """Without matplotlib the picture is refused with the command that helps."""
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')\n")
    told = understudy(
        "demo", "--plot", str(tmp_path / "picture.png"), PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path])
    )
    assert told.returncode == 1
    assert "pip install matplotlib" in told.stderr
    told = understudy(
        "paper", "--out", str(tmp_path / "results"), PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path])
    )
    refused(told, "pip install matplotlib")


def test_version_and_help():
    """Both answer, and help names every command."""
    assert understudy("--version").stdout.startswith("understudy 0.")
    told = understudy("--help").stdout
    for command in ("info", "demo", "design", "guarantee", "paper", "fit", "report", "apply", "quickstart", "ledger"):
        assert command in told


def test_help_is_quick():
    """It loads neither numpy nor anything else that commands need."""
    code = "import sys, understudy.cli; print([m for m in ('numpy', 'scipy', 'matplotlib') if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_importing_the_package_is_light():
    """Neither scipy nor the command line's packages are loaded by an import and a first step."""
    code = (
        "import sys, understudy as us\n"
        "room = us.GaussMarkov(0.95, 1.0, 0.1, 0.1, mean0=0.0, cov0=1.0)\n"
        "t = us.Transform(room, room); t.step(t.start(), 1.0)\n"
        "print([m for m in ('scipy', 'typer', 'rich', 'matplotlib', 'pandas') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
