"""The reference page has the whole public interface."""

import re
from collections import Counter
from pathlib import Path

import understudy as us

PATH = Path(__file__).parents[1] / "docs" / "api.md"
PAGE = PATH.read_text(encoding="utf-8")
DIRECTIVE = re.compile(r"^\.\. auto(?:function|class):: (\w+)$", re.MULTILINE)


def _section(module: str) -> str:
    """The part of the page whose names are those of a module."""
    parts = re.split(r"^\.\. currentmodule:: (\S+)$", PAGE, flags=re.MULTILINE)
    return "".join(text for name, text in zip(parts[1::2], parts[2::2], strict=True) if name == module)


def test_each_public_name_stands_on_the_page_once():
    """Every name of `us.__all__` has one entry, and every entry is a public name."""
    entries = Counter(DIRECTIVE.findall(_section("understudy")))
    assert entries == Counter(name for name in us.__all__ if name != "__version__")
    assert "__version__" in PAGE


def test_each_figure_stands_on_the_page_once():
    """So has every name of `us.report`; the pages of an audit stand with the audits."""
    entries = Counter(DIRECTIVE.findall(_section("understudy.report")))
    pages = [f"understudy.report.{name}" for name in ("audit_html", "audit_report")]
    assert entries == Counter(name for name in us.report.__all__ if f"understudy.report.{name}" not in pages)
    assert all(name in PAGE for name in pages)


def test_examples_import_the_public_names_only():
    """Pages for users write `us.name`; they import nothing from inside of the package."""
    pages = [*PATH.parent.glob("*.md"), PATH.parents[1] / "README.md"]
    inside = re.compile(r"^(?:>>>|\.\.\.)\s+(?:from|import) understudy\.", re.MULTILINE)
    assert [page.name for page in pages if inside.search(page.read_text(encoding="utf-8"))] == []
