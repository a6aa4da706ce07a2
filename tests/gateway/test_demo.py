"""`make gateway-demo` runs without a terminal, ends by itself, and leaves nothing behind."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "gateway_demo.py"


@pytest.mark.gateway(seconds=15, reason="two brokers, a simulation and a gateway, for some seconds")
def test_the_demonstration_ends_by_itself(tmp_path):
    """It counts guesses from raw readings and from what leaves, and deletes its ledger and its key."""
    command = [sys.executable, str(DEMO), "--seconds", "6"]
    where = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, env=where)
    assert done.returncode == 0, done.stderr
    guesses, raw, disguised = re.findall(r"(\d+) guesses, .*? (\d+) percent, .*? (\d+) percent", done.stdout)[-1]
    assert int(guesses) > 100
    assert int(raw) > 90  # the adversary knows its trade
    assert 0 <= int(disguised) <= 100
    assert "wrong in at least 28 percent" in done.stdout
    assert list(tmp_path.iterdir()) == []
