"""What the page is made of: files of others, its weight, its words."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import understudy.studio

ROOT = Path(understudy.studio.__file__).parent
PAGE = ROOT / "page"


def test_files_of_others_are_what_they_are_said_to_be():
    """Name, version, licence and digest of each; no file in the folder is left out."""
    told = json.loads((PAGE / "vendor" / "vendor.json").read_text())
    named = {"vendor.json"}
    for each in told:
        assert {"name", "version", "licence", "licence_file", "source"} <= each.keys()
        assert "MIT License" in (PAGE / "vendor" / each["licence_file"]).read_text()
        assert f"v{each['version']}" in (PAGE / "vendor" / "uPlot.iife.min.js").read_text()[:200]
        for name, digest in each["files"].items():
            assert hashlib.sha256((PAGE / "vendor" / name).read_bytes()).hexdigest() == digest
            named.add(name)
    assert {path.name for path in (PAGE / "vendor").iterdir()} == named


def test_the_page_weighs_at_most_200_kilobytes():
    """All that a browser loads, uncompressed."""
    loaded = [path for path in PAGE.rglob("*") if path.suffix in (".html", ".css", ".js", ".svg")]
    assert len(loaded) > 8
    assert sum(path.stat().st_size for path in [*loaded, ROOT / "words.toml"]) <= 200_000


def test_nothing_is_loaded_from_elsewhere():
    """Our own files name no other address, and no style or script stands in the page."""
    for path in PAGE.iterdir():
        if path.is_file():
            words = path.read_text()
            assert not re.findall(r"(?:https?:)?//[\w.-]+\.\w+", words.replace("http://www.w3.org/2000/svg", ""))
    page = (PAGE / "index.html").read_text()
    assert not re.search(r"<style|style=|<script(?![^>]*src=)|\son\w+=", page)


def test_every_word_that_the_page_asks_for_is_there():
    """`w.name` in a view is an entry of its table."""
    words = tomllib.loads((ROOT / "words.toml").read_text())
    count = 0
    for view in ("data", "fit", "design", "looks", "take"):
        for name in re.findall(r"\bw\.(\w+)", (PAGE / f"{view}.js").read_text()):
            assert name in words[view], (view, name)
            count += 1
        for other, name in re.findall(r"page\.words\.(\w+)\.(\w+)", (PAGE / f"{view}.js").read_text()):
            assert name in words[other], (view, other, name)
    assert count > 150


def test_importing_understudy_loads_no_studio():
    """The package knows nothing of it, and the help of the command line does without the server."""
    for module, known in (("understudy", []), ("understudy.cli", ["understudy.studio", "understudy.studio.command"])):
        code = (
            f"import sys, {module}\n"
            "print(sorted(name for name in sys.modules if 'studio' in name or name in ('starlette', 'uvicorn')))"
        )
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == str(known)


def test_without_the_extra_the_error_says_how_to_install_it():
    """A missing server is told in a sentence."""
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from understudy.errors import MissingExtraError\n"
        "try:\n    import understudy.studio.server\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "understudy[studio]" in found.stdout
