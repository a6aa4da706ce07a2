"""The counts of tools/house.py, on small trees whose counts are known."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parent.parent / "tools" / "house.py"


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", HOUSE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["house"]


def made(house, name, text, stem=None):
    return house.Module(name, Path(f"{stem or name.split('.')[-1]}.py"), ast.parse(text), text.splitlines())


def test_code_is_what_is_no_docstring_comment_blank_or_import(house):
    """A call over three lines counts three, a docstring none."""
    text = '"""Doc."""\nimport os\n\n# why\nx = max(\n    1,\n    2,\n)\n\n\n'
    text += 'def f(y: int) -> int:\n    """Doc."""\n    return y\n'
    assert house.code_lines(made(house, "understudy.a", text)) == 6


def test_cycles_are_found_through_functions_too(house):
    """A imports b at the top, b imports a inside of a function; c stands outside."""
    found = {
        "understudy": made(house, "understudy", ""),
        "understudy.a": made(house, "understudy.a", "from understudy.b import g\n"),
        "understudy.b": made(house, "understudy.b", "def g():\n    from understudy.a import f\n    return f\n"),
        "understudy.c": made(house, "understudy.c", "from understudy.a import f\n"),
    }
    assert house.cycles(house.imports(found)) == [["understudy.a", "understudy.b"]]
    del found["understudy.b"]
    assert house.cycles(house.imports(found)) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(a: Any, b: int | Any, *, c: object = None, **d: Any): ...", 4),
        ("def f(a: dict[str, Any], b: float) -> Any: ...", 0),
        ("x = cast(int, y)", 1),
    ],
)
def test_untyped_parameters(house, text, count):
    """Any and object as a type or in a union, and casts."""
    assert house.untyped(made(house, "understudy.a", text)) == count


def test_file_names_that_occur_twice(house):
    """`columns` twice is found, `hidden_markov` twice is the same noun for the same idea."""
    found = {
        f"understudy.{package}.{name}": made(house, f"understudy.{package}.{name}", "")
        for package in ("a", "b")
        for name in ("columns", "hidden_markov")
    }
    assert house.twice(found) == ["columns"]


def test_a_short_private_module_with_one_importer(house):
    """Found where one other module imports it, and not where two do."""
    found = {
        "understudy": made(house, "understudy", "", "__init__"),
        "understudy.report": made(house, "understudy.report", "", "__init__"),
        "understudy.a": made(house, "understudy.a", "x = 1\n"),
        "understudy.b": made(house, "understudy.b", "from understudy.a import x\n" + "y = 1\n" * 200),
    }
    assert house.lonely(found, house.imports(found)) == ["understudy.a"]
    found["understudy.c"] = made(house, "understudy.c", "from understudy.a import x\n" + "y = 1\n" * 200)
    assert house.lonely(found, house.imports(found)) == []


def test_modules_passed_by_a_call(house):
    """Those of which a function runs; a call that runs none passes none."""
    import understudy as us

    law = us.Gaussian(0.0, 1.0)
    names = {Path(path).name for path in house.passed(lambda: law.score(1.0))}
    assert "gaussian.py" in names
    assert house.passed(lambda: max(1, 2)) == set()
