"""`understudy report` and `understudy guarantee`, for designs of both kinds."""

from __future__ import annotations

import json

import pytest
from cli_cases import WARNING, refused

import understudy as us
from understudy.report.pages import privacy_report


@pytest.mark.parametrize(
    "name",
    ["design.json", pytest.param("causal.json", marks=pytest.mark.long(seconds=4, reason="simulates days, twice"))],
)
def test_the_page_is_that_of_the_design(files, tmp_path, understudy, name):
    """The same as from Python; JSON tells what is on its first page."""
    out = tmp_path / "report.html"
    told = understudy("report", files / name, "-o", out, "--json")
    assert told.status == 0, told.err
    assert told.err == ""
    design = us.load_design(files / name)
    assert out.read_text(encoding="utf-8") == privacy_report(design)
    found = json.loads(told.out)
    assert found["private"] == "occupancy"
    assert found["readings"] == ["co2"]
    assert found["per"] == ("run" if name == "design.json" else "day")
    assert found["warnings"] == []
    assert found["distortion"]["value"] == pytest.approx(design.distortion)


def test_a_misfit_is_on_the_page_and_on_the_error_stream(files, tmp_path, understudy):
    """The report is written all the same: it is there to say so."""
    told = understudy("report", files / "bad.json", "-o", tmp_path / "report.html")
    assert told.status == 0
    assert WARNING in told.err
    assert WARNING in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_report_needs_a_place(files, tmp_path, understudy):
    """A file, or JSON; a folder that is there."""
    refused(understudy("report", files / "design.json"), "-o report.html")
    refused(understudy("report", files / "design.json", "-o", tmp_path / "none" / "r.html"), "there is no folder")
    refused(understudy("report", files / "family.json", "-o", tmp_path / "r.html"), "family.json")
    assert json.loads(understudy("report", files / "design.json", "--json").out)["report"] is None


@pytest.mark.sample(default=1, seconds=2, reason="two pages")
@pytest.mark.parametrize("name", ["design.json", "causal.json"])
def test_the_card_of_either_kind(files, tmp_path, understudy, name):
    """As text, as JSON and as a page."""
    assert understudy("guarantee", files / name).out.startswith("PRIVACY CARD")
    headline = json.loads(understudy("guarantee", files / name, "--json").out)["headline"]
    assert understudy("guarantee", files / name, "--html", tmp_path / "card.html").status == 0
    assert headline in (tmp_path / "card.html").read_text(encoding="utf-8")


def test_a_card_without_a_fit_says_so(files, tmp_path, understudy):
    """On the error stream, and above the card on its page."""
    told = understudy("guarantee", files / "bad.json")
    assert told.status == 0
    assert WARNING in told.err
    understudy("guarantee", files / "bad.json", "--html", tmp_path / "card.html")
    page = (tmp_path / "card.html").read_text(encoding="utf-8")
    assert page.index(WARNING) < page.index("Privacy card</h2>")
    assert understudy("guarantee", files / "design.json").err == ""
