"""The command line, as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


def understudy(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "understudy", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "120", **environment},
    )


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


def test_demo_finds_the_person_in_the_raw_readings_and_the_understudy_in_the_disguised():
    """The story that the demo tells is true at its defaults."""
    told = understudy("demo")
    assert told.returncode == 0, told.stderr
    rows = [line for line in told.stdout.splitlines() if "readings" in line and "│" in line]
    estimates = {row.split("│")[1].strip(): float(row.split("│")[3]) for row in rows}
    assert estimates["raw readings"] == pytest.approx(1.0, abs=0.02)
    assert estimates["disguised readings"] == pytest.approx(0.6, abs=0.02)


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


def test_version_and_help():
    """Both answer, and help names every command."""
    assert understudy("--version").stdout.startswith("understudy 0.")
    told = understudy("--help").stdout
    assert "info" in told
    assert "demo" in told


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
