"""One walk through all views with real clicks, small enough for every change; `make test-browser` has the rest."""

from __future__ import annotations

import pytest
from studio_cases import ask, click, download, fit_models, go, history, numbers, read_history, studio, to_design

import understudy as us
from understudy.report.pages import privacy_report


def test_from_a_history_to_a_report(tmp_path, visit):
    """Load, fit, slide, look, take away: what is shown is what the library says of the design that is taken away."""
    path = history(tmp_path / "room.csv", days=14)
    with studio(tmp_path) as running:
        page = visit(running)
        read_history(page, path, "co2", "occupancy", "time")
        assert numbers(page, "rows") == [14 * 96]
        fit_models(page, "grey-box")
        to_design(page)
        ask(page, "nats", "0.2")
        shown = {name: numbers(page, name)[0] for name in ("nats", "distortion", "wrong_after", "lower_bound")}
        fingerprint = page.locator("main code[data-name=fingerprint]:visible").inner_text()
        go(page, "looks")
        page.locator("[data-name=likelihood]").first.wait_for()
        go(page, "take")
        design = us.load_design(download(page, "design.json", tmp_path))
        report = download(page, "report.html", tmp_path).read_bytes()
        assert report == privacy_report(design).encode()
        family = us.load_family(download(page, "family.json", tmp_path))
    made = us.design(family, leakage=0.2, horizon=design.costs.horizon, distortion="mae")
    assert made.fingerprint == design.fingerprint == fingerprint
    assert shown["nats"] == made.total_leakage
    assert shown["distortion"] == pytest.approx(made.distortion, rel=1e-12)
    assert shown["wrong_after"] == pytest.approx(made.guarantee.bayes_error, rel=1e-12)
    assert shown["lower_bound"] == pytest.approx(made.lower_bound, rel=1e-9)
    assert running.process.returncode == 0


@pytest.mark.browser
def test_the_paper_s_room_by_the_keyboard_alone(tmp_path, visit):
    """Skip link, tabs, slider and downloads are reached without a mouse."""
    with studio(tmp_path) as running:
        page = visit(running)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.locator("[data-do=room]").focus()
        page.keyboard.press("Enter")
        page.locator("nav a[href='#design']").focus()
        page.keyboard.press("Enter")
        page.locator("[data-name=fingerprint]").wait_for()
        before = numbers(page, "nats")
        page.locator("#slider").focus()
        page.keyboard.press("End")
        page.locator("[data-solved='1']").wait_for()
        assert numbers(page, "nats") != before
        assert numbers(page, "distortion") == [0.0]
        page.locator("#tab-draw").focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == "tab-causal"
        click(page, "next")
        page.locator("body[data-view=looks]").wait_for()
