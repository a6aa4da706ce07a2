"""Install what is shipped, each file of a folder into an environment of its own, and run the README there.

    python tools/wheels.py dist

The folder holds one sdist, one pure wheel and one compiled wheel, as `make dist` leaves them. In each environment the
example of README.md is run as a doctest, a design is made, described and applied to a file by the command line, and
`understudy info` must name the kernels that this file brings: plain for the pure wheel, compiled for the others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def kinds(folder: Path) -> dict[str, Path]:
    """The three files by kind; it is an error if one is missing or there are two of a kind."""
    found = {
        "sdist": sorted(folder.glob("*.tar.gz")),
        "pure wheel": sorted(folder.glob("*-none-any.whl")),
        "compiled wheel": sorted(path for path in folder.glob("*.whl") if not path.name.endswith("-none-any.whl")),
    }
    for kind, paths in found.items():
        if len(paths) != 1:
            raise SystemExit(f"{folder} holds {len(paths)} files of the kind {kind}; there must be one")
    if "manylinux" not in found["compiled wheel"][0].name:
        raise SystemExit(f"{found['compiled wheel'][0].name} was not repaired by auditwheel")
    return {kind: paths[0] for kind, paths in found.items()}


def try_out(kind: str, path: Path, folder: Path) -> None:
    """Install one file and use it as the README says, in a folder that has no checkout."""
    home = folder / kind.replace(" ", "-")
    venv.create(home, with_pip=True)
    python, command = str(home / "bin" / "python"), str(home / "bin" / "understudy")

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{kind}: {' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(path))
    compiled = json.loads(run(command, "info", "--json"))["compiled"]
    if compiled is not (kind != "pure wheel"):
        raise SystemExit(f"{kind}: compiled kernels: {compiled}; the pure wheel has none, the others must")
    run(python, "-m", "doctest", str(README))
    run(command, "design", "--leakage", "0.3", "-o", f"{home}/room.json")
    run(command, "guarantee", f"{home}/room.json")
    run(command, "report", f"{home}/room.json", "-o", f"{home}/room.html")
    run(command, "demo")
    kernels = "compiled" if compiled else "plain"
    print(f"{kind:15} {path.name}: {kernels} kernels; README, design, guarantee, report and demo run")


def main() -> None:
    """Every file of the folder that is named on the command line."""
    files = kinds(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in files.items():
            try_out(kind, path, Path(folder))
    print(f"{len(files)} passed, 0 failed")


if __name__ == "__main__":
    main()
