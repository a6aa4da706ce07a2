"""Installing where no compiler works: the plain kernels serve, and the answers are the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import understudy as us

ROOT = Path(__file__).parents[1]

SCRIPT = """
import numpy as np, understudy as us
from understudy.transform.backend import compiled
room = lambda p: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * p, mean0=100.0, cov0=1.0)
out = us.disguise(us.sample(room(1), 50, rng=3), source=room(1), target=room(0.6))
print(us.__file__, compiled, out.tobytes().hex())
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of what is needed to build, without anything that was built."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    return copy


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(
            "a compiler that fails",
            marks=pytest.mark.long(seconds=10, reason="the kernels are translated to C before the compiler fails"),
        ),
        "UNDERSTUDY_PURE=1",
    ],
)
def test_an_install_without_a_compiler_works(source, tmp_path, how):
    """Pip succeeds, no extension is there, and the output has the same bits."""
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\nexit 1\n")
    failing.chmod(0o755)
    extra = {"CC": str(failing)} if how.startswith("a") else {"UNDERSTUDY_PURE": "1"}
    site = tmp_path / "site"
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps",
        "--no-build-isolation", "--no-index", "--target", str(site), str(source),
    ]  # fmt: skip
    done = subprocess.run(command, env={**os.environ, **extra}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not list(site.rglob("*.so"))
    assert list(site.rglob("_kernels.pxd"))
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout.split()
    assert told[0].startswith(str(site))
    assert told[1] == "False"

    def room(people):
        return us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * people, mean0=100.0, cov0=1.0)

    here = us.disguise(us.sample(room(1), 50, rng=3), source=room(1), target=room(0.6))
    assert np.frombuffer(bytes.fromhex(told[2])).tolist() == here.tolist()
