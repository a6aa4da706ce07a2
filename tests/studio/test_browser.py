"""The studio in a real browser: numbers, commands, real data, other pages, accessibility, and ends of all sorts."""

from __future__ import annotations

import http.server
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page
from studio_cases import (
    act,
    ask,
    click,
    download,
    fit_models,
    go,
    history,
    idle,
    numbers,
    read_history,
    solved,
    state_of,
    studio,
    to_design,
)  # fmt: skip

import understudy as us
from understudy.adversaries.datasets import from_history
from understudy.adversaries.statistics import score_readings
from understudy.identify.fit import read_again
from understudy.report.facts import frontier_of
from understudy.report.pages import privacy_report
from understudy.tables.table import read_table

pytestmark = pytest.mark.browser

DATA = Path(os.environ.get("UNDERSTUDY_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
VIEWS = ("data", "fit", "design", "looks", "take")


@pytest.fixture(scope="module")
def room_file(tmp_path_factory):
    return history(tmp_path_factory.mktemp("room") / "room.csv", days=40)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A studio for tests that read the same history: what was fitted once is known to it."""
    with studio(tmp_path_factory.mktemp("shared")) as running:
        yield running.enter()


def close(x: float, y: float, rel: float = 1e-12) -> bool:
    return math.isclose(x, y, rel_tol=rel, abs_tol=1e-12)


def run(folder: Path, *lines: str) -> None:
    """Commands as they are shown, in a folder."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for line in lines:
        subprocess.run(line, shell=True, cwd=folder, env=env, check=True, capture_output=True, timeout=300)  # noqa: S602  # as shown


# Every number is the library's ----------------------------------------------------------------------------------------


def test_every_number_is_that_of_the_library(tmp_path, visit, shared, room_file):
    """Data, fit, design and looks hold what the library says, worked out again from what was taken away."""
    running = shared
    page = visit(running)
    read_history(page, room_file, "co2", "occupancy", "time")
    of_data = {
        name: numbers(page, name)
        for name in ("rows", "used", "missing", "gaps", "period", "count", "prior", "stays", "held")
    }
    by_hour = numbers(page, "by_hour")
    fit_models(page, "grey-box")
    of_fit = {name: numbers(page, name) for name in ("prior", "excess", "memory")}
    to_design(page)
    ask(page, "bits", "0.15")
    names = [
        "nats",
        "bits",
        "distortion",
        "lower_bound",
        "wrong_before",
        "wrong_after",
        "share",
        "relative",
        "kernel",
    ]
    of_design = {name: numbers(page, name) for name in names}
    measures = {
        name: numbers(page, f"measure-{name}")
        for name in page.locator("main [data-name^=measure-]").evaluate_all(
            "all => all.map(each => each.dataset.name.slice(8))"
        )
    }
    line = {name: numbers(page, f"frontier-{name}") for name in ("nats", "distortion", "lower", "error")}
    click(page, "next")
    page.locator("[data-name=likelihood]").first.wait_for()
    of_looks = {name: numbers(page, name) for name in ("share", "likelihood", "bayes")}
    looks = state_of(page)["looks"]
    go(page, "take")
    design = us.load_design(download(page, "design.json", tmp_path))
    report = download(page, "report.html", tmp_path)
    family = us.load_family(download(page, "family.json", tmp_path))
    commands = page.locator("[data-name=commands]").inner_text().splitlines()
    script = download(page, "script.py", tmp_path).read_text()
    page.context.close()

    # (1) data
    table = read_table(room_file, ["co2", "occupancy"], time="time")
    told = read_again(table, family)
    assert of_data["rows"] == [len(table)]
    assert of_data["used"] == [int(told.counts.sum())]
    assert of_data["count"] == told.counts.tolist()
    assert of_data["period"] == [told.period]
    assert of_data["held"] == told.split(0.25)[1].counts.tolist()
    assert (of_data["missing"], of_data["gaps"]) == ([0.0], [0.0])
    assert of_data["prior"] == family.about["chain"]["prior"]
    assert of_data["stays"] == family.about["chain"]["durations"]
    entries = [float(value) for value in table.numbers("occupancy")]
    assert by_hour[2 * 12 + 1] == pytest.approx(np.mean([v for k, v in enumerate(entries) if k % 96 // 4 == 12]))
    # (2) fit
    assert of_fit["prior"] == family.prior.tolist()
    assert of_fit["excess"] == [each["excess"] for each in family.about["gate"]["attack"]["windows"]]
    rows = from_history(told, family)
    scores = score_readings(family, rows.Y, rows.theta, rows.segments, 0)
    assert of_fit["memory"] == [x for row in scores.rows for x in row.memory]
    # (3) design: that of `us.design` with the same arguments
    made = us.design(family, leakage="0.15 bit", horizon=design.costs.horizon, distortion="mae")
    assert made.fingerprint == design.fingerprint
    card = made.guarantee
    expected = {
        "nats": made.total_leakage, "bits": made.total_leakage / math.log(2), "distortion": made.distortion,
        "lower_bound": made.lower_bound, "wrong_before": card.prior_error, "wrong_after": card.bayes_error,
        "share": card.share, "relative": made.relative_distortion,
    }  # fmt: skip
    for name, value in expected.items():
        assert close(of_design[name][0], value, 1e-9 if name == "lower_bound" else 1e-12), name
    assert of_design["kernel"] == made.randomizer.kernel.ravel().tolist()
    assert len(measures) == len(card.measures)
    for each in card.measures:
        shown = measures[each.name][0]
        assert (shown is None) == (not math.isfinite(each.value))
        assert shown is None or close(shown, each.value), each.name
    curve = frontier_of(made)
    for name, values in (
        ("nats", curve.leakages),
        ("distortion", curve.distortions),
        ("lower", curve.lower_bounds),
        ("error", curve.errors),
    ):
        np.testing.assert_allclose(line[name], values, rtol=1e-7, atol=1e-9)
    # (4) looks
    kernel, prior = made.randomizer.kernel, made.prior
    assert of_looks["share"] == kernel[looks["row"]].tolist()
    joint = prior[:, None] * kernel
    assert of_looks["bayes"] == pytest.approx((joint / joint.sum(axis=0)).max(axis=0).tolist())
    for trace, shown in zip(looks["traces"], of_looks["likelihood"], strict=True):
        logs = np.array([us.loglik(np.array(trace["y"])[:, None], family.model(v)) for v in family.values]) + np.log(
            prior
        )
        assert shown == pytest.approx(1.0 / np.exp(logs - logs.max()).sum(), rel=1e-9)
    # (5) what makes it again
    assert report.read_bytes() == privacy_report(design).encode()
    for kind in ("commands", "script"):
        empty = tmp_path / kind
        empty.mkdir()
        (empty / "room.csv").write_bytes(room_file.read_bytes())
        if kind == "script":
            (empty / "make.py").write_text(script)
            run(empty, "python make.py")
        else:
            run(empty, *commands)
            assert (empty / "report.html").read_bytes() == report.read_bytes()
        assert us.load_design(empty / "design.json").fingerprint == design.fingerprint


@pytest.mark.parametrize("kind", ["causal", "clock", "least change", "coin", "errors"])
def test_other_designs_are_made_again_by_their_commands(tmp_path, visit, shared, room_file, kind):
    """A value that moves, the public clock, a coin, and a demand on errors with other choices."""
    running = shared
    page = visit(running)
    read_history(page, room_file, "co2", "occupancy", "time")
    fit_models(page, "grey-box")
    to_design(page)
    if kind == "errors":
        page.locator("summary", has_text="Costs").first.click()
        page.select_option("#draw-measure", "mse")
        page.fill("#draw-horizon", "48")
        page.fill("#draw-fresh", "0.25")
        act(page, "base")
        ask(page, "error_at_least", "0.3")
    else:
        page.locator(f"[data-tab={'coin' if kind == 'coin' else 'causal'}]").click()
        if kind == "clock":
            page.locator("#clock").check()
        if kind == "least change":
            page.select_option("#output", "least-change")
        act(page, "coin" if kind == "coin" else "causal")
    shown = numbers(page, "distortion")[0]
    go(page, "take")
    design = us.load_design(download(page, "design.json", tmp_path))
    family = download(page, "family.json", tmp_path)
    report = download(page, "report.html", tmp_path).read_bytes()
    script = download(page, "script.py", tmp_path).read_text()
    commands = page.locator("[data-name=commands]").inner_text().splitlines()
    page.context.close()
    distortion = design.distortion[0] if kind == "coin" else design.distortion
    assert close(shown, distortion, 1e-9)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "room.csv").write_bytes(room_file.read_bytes())
    (empty / "family.json").write_bytes(family.read_bytes())  # the fit itself is made again by the test above
    run(empty, *(line for line in commands if not line.startswith("understudy fit")))
    assert us.load_design(empty / "design.json").fingerprint == design.fingerprint
    assert (empty / "report.html").read_bytes() == report
    fits = re.compile(r"^family = us\.fit\(.*\)$", re.MULTILINE)
    assert len(fits.findall(script)) == (kind != "coin")
    (empty / "make.py").write_text(fits.sub("family = us.load_family('family.json')", script))
    run(empty, "python make.py")
    assert us.load_design(empty / "design.json").fingerprint == design.fingerprint


# A recording whose models are wrong, and its twin ---------------------------------------------------------------------


def misfit(path: Path) -> Path:
    """A history that no class here has: the noise of a reading depends on the value, and grows with its past."""
    rng = np.random.default_rng(8)
    y, level, rows = 400.0, 0.0, ["time,co2,occupancy"]
    for k in range(16 * 96):
        people = int(30 <= k % 96 < 67)
        level = 0.98 * level + (0.2 + 2.0 * people) * rng.standard_normal() * (1.0 + 0.1 * abs(level))
        y = 400.0 + 12.0 * math.sin(level) * (1 + 4 * people) + rng.standard_normal()
        rows.append(f"2026-02-{1 + k // 96:02d} {k % 96 // 4:02d}:{15 * (k % 4):02d}:00,{y:.3f},{people}")
    path.write_text("\n".join(rows) + "\n")
    return path


CANDANEDO = DATA / "candanedo" / "datatraining.txt"
RECORDINGS = ["made", *(["candanedo"] if CANDANEDO.exists() else [])]
"""Real data are not part of the project: with DATA=folder `make test-browser` walks through one of them too."""


@pytest.mark.parametrize("which", RECORDINGS)
def test_a_recording_whose_models_are_wrong(tmp_path, visit, which):
    """Load, fit, red gate, tune, design, report: the warning is on every later view and in every download."""
    path = misfit(tmp_path / "made.csv") if which == "made" else CANDANEDO
    columns = ("co2", "occupancy", "time") if which == "made" else ("CO2", "Occupancy", "date")
    with studio(tmp_path) as running:
        page = visit(running)
        read_history(page, path, *columns)
        fit_models(page, "autoregressive")
        assert page.locator("[data-gate=false]").count() == 1
        to_design(page)
        family = None
        for view in VIEWS[1:]:
            go(page, view)
            page.locator("[data-standing=red]").wait_for()
        for name in ("design.json", "report.html", "decision.md", "script.py", "commands.sh", "family.json"):
            found = download(page, name, tmp_path)
            if name == "family.json":
                family = us.load_family(found)
            words = " ".join(found.read_text().replace("#", "").split())
            assert "reveal the private value" in words or "do not hide" in words, name
        assert family.about["gate"]["passed"] is False
        if which == RECORDINGS[-1]:  # minutes of search: on the real recording where there is one
            go(page, "fit")
            act(page, "tune")
            steps = numbers(page, "step-accuracy")
            assert steps
            state = state_of(page)
            assert steps == [step["accuracy"] for step in state["tuning"]["steps"]]
            if state["tuned"]:
                go(page, "design")
                page.locator("[data-standing=amber]").wait_for()
                go(page, "take")
                design = us.load_design(download(page, "design.json", tmp_path))
                assert design.family.about["tuning"] is not None
                assert download(page, "report.html", tmp_path).read_bytes() == privacy_report(design).encode()
        assert page.locator("[data-failure]").count() == 0
        page.context.close()


def test_simulated_data_that_fit_show_no_red(tmp_path, visit, room_file):
    """The twin: no warning in any view, and none in a download."""
    with studio(tmp_path) as running:
        page = visit(running)
        read_history(page, room_file, "co2", "occupancy", "time")
        fit_models(page, "auto")
        to_design(page)
        for view in VIEWS:
            go(page, view)
            idle(page)
            assert page.locator("[data-standing=red], [data-standing=amber], .bar.red, .bar.amber").count() == 0, view
        for name in ("decision.md", "script.py", "commands.sh"):
            assert "reveal" not in download(page, name, tmp_path).read_text()
        page.context.close()


# Other pages, and what may be read of the data ------------------------------------------------------------------------


FOREIGN = (Path(__file__).parents[1] / "support" / "foreign_page.html").read_text()
"""A page that tries to read and to change what another port serves."""


def test_a_page_on_another_port_reads_and_changes_nothing(tmp_path, visit):
    """Fetch, image, form, WebSocket and frame from a page of the same site; the studio's own page does all it needs."""
    with studio(tmp_path) as running:
        page = visit(running, quiet=False)

        class Foreign(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(FOREIGN.replace("ORIGIN", running.origin).encode())

            def log_message(self, *_: object) -> None:
                pass

        other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
        threading.Thread(target=other.serve_forever, daemon=True).start()
        try:
            before = state_of(page)
            visitor = page.context.new_page()  # the same cookies
            visitor.goto(f"http://127.0.0.1:{other.server_port}/")
            visitor.locator("body[data-told]").wait_for()
            told = json.loads(visitor.locator("body").get_attribute("data-told"))
            after = state_of(page)
        finally:
            other.shutdown()
            other.server_close()
        assert len(told) == 9
        for line in told:
            name, words = line.split(": ", 1)
            assert words in ("refused", "opaque", "sent"), line
            assert (
                name not in ("read", "with cookies", "preflight", "image", "socket", "frame") or words == "refused"
            ), line
        assert after == before
        click(page, "room")  # the twin
        page.locator("[role=status]", has_text=re.compile("room is open")).wait_for()
        assert state_of(page)["recipe"] == "room"
        page.context.close()


@pytest.mark.parametrize("traces", [True, False])
def test_no_raw_row_but_the_drawn_traces(tmp_path, visit, room_file, traces):
    """Whatever the studio answers or prints holds no reading beyond the traces; with --no-traces it holds none."""
    raw = {row.split(",")[1].rstrip("0") for row in room_file.read_text().splitlines()[1:]}
    answers: list[tuple[str, str]] = []
    with studio(tmp_path, *([] if traces else ["--no-traces"])) as running:
        page = visit(running)
        page.on(
            "response",
            lambda found: answers.append((found.url, text_of(found))) if "/api/events" not in found.url else None,
        )
        read_history(page, room_file, "co2", "occupancy", "time")
        fit_models(page, "grey-box")
        to_design(page)
        go(page, "looks")
        page.locator("[data-name=likelihood]").first.wait_for()
        go(page, "take")
        files = [
            download(page, name, tmp_path).read_text()
            for name in ("report.html", "decision.md", "script.py", "family.json", "design.json")
        ]
        drawn = {str(y).rstrip("0") for y in state_of(page)["looks"]["traces"][0]["y"] or []}
        page.context.close()
    assert len(answers) > 10
    seen = {number for _, words in answers for number in re.findall(r"\d+\.\d+", words)} & raw
    assert seen == (raw & drawn if traces else set())
    assert bool(seen) == traces
    for words in [*files, *running.printed]:
        assert not set(re.findall(r"\d+\.\d+", words)) & raw


def text_of(found) -> str:
    """The body of an answer; a redirect and a download have none."""
    try:
        return found.text()
    except Exception:
        return ""


# Accessibility --------------------------------------------------------------------------------------------------------


def violations(page: Page) -> list[str]:
    """What axe finds wrong, a line each."""
    found = Axe().run(page)
    return [f"{each['id']}: {[node['target'] for node in each['nodes']]}" for each in found.response["violations"]]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
def test_every_view_is_accessible_and_fits(tmp_path, visit, shared, room_file, scheme, width):
    """No violation of axe's rules, in light and dark; nothing wider than the window; controls are not printed."""
    running = shared
    page = visit(running, viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce")
    read_history(page, room_file, "co2", "occupancy", "time")
    fit_models(page, "grey-box")
    to_design(page)
    click(page, "pin-a")
    page.locator("[data-name=pin-bits]").wait_for()
    for view in VIEWS:
        go(page, view)
        page.wait_for_timeout(300)
        idle(page)
        for each in page.locator("main details:visible").all():
            each.evaluate("each => { each.open = true; }")
        assert violations(page) == [], view
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        for picture in page.locator("main [role=img]:visible").all():
            assert len(picture.get_attribute("aria-label")) > 20
        assert page.locator("main table").evaluate_all("all => all.every(each => each.caption && each.tHead)")
    page.emulate_media(media="print")
    assert page.locator("header.top").is_hidden()
    assert page.locator("main h1").is_visible()
    page.emulate_media(media="screen")
    page.context.close()


def test_axe_would_find_a_fault(tmp_path, visit):
    """The twin: a field without a name is a violation."""
    with studio(tmp_path) as running:
        page = visit(running)
        page.evaluate("document.querySelector('main').append(document.createElement('select'))")
        assert any(line.startswith("select-name") for line in violations(page))
        page.context.close()


# Moves, reloads, tabs, ends -------------------------------------------------------------------------------------------


def test_two_hundred_quick_moves(tmp_path, visit):
    """The last value is shown, and at most twenty were worked out."""
    with studio(tmp_path) as running:
        page = visit(running)
        click(page, "room")
        to_design(page)
        before = state_of(page)["solved"]
        page.evaluate("""async () => {
            const slider = document.querySelector("#slider");
            for (let k = 1; k <= 200; k++) {
                slider.value = String(4 * k);
                slider.dispatchEvent(new Event("input", { bubbles: true }));
                await new Promise((done) => setTimeout(done, 5));
            }
        }""")
        amount = float(page.input_value("#amount"))
        page.locator(f"main code:has-text('leakage={amount}')").wait_for()
        after = state_of(page)["solved"]
        assert 1 <= after - before <= 20
        assert numbers(page, "nats") == [pytest.approx(amount, abs=1e-9)]
        page.context.close()


def test_an_amount_in_the_address(tmp_path, visit):
    """NaN is refused in the library's words, and the design stays; a good one is taken, and reloads."""
    with studio(tmp_path) as running:
        page = visit(running)
        click(page, "room")
        to_design(page)
        page.evaluate("location.hash = '#data'")
        page.locator("body[data-view=data]").wait_for()
        page.goto(running.origin + "/#design?leakage=0.25")
        page.reload()
        page.locator("[data-name=fingerprint]").wait_for()
        page.locator("main code:has-text('leakage=0.25')").wait_for()
        assert numbers(page, "nats") == [pytest.approx(0.25, abs=1e-9)]
        page.context.close()
    with studio(tmp_path) as running:
        page = visit(running, quiet=False)
        click(page, "room")
        to_design(page)
        before = numbers(page, "nats")
        page.goto(running.origin + "/#design?leakage=NaN")
        page.reload()
        page.locator(".wrong", has_text="it must be 0 or more").wait_for()
        assert numbers(page, "nats") == before
        assert page.get_attribute("#amount", "aria-invalid") == "true"
        page.context.close()


def test_two_tabs_and_a_reload_in_the_middle_of_a_fit(tmp_path, visit, room_file):
    """Both tabs see the job and its end; who reloads finds it running."""
    with studio(tmp_path, room_file) as running:
        page = visit(running)
        click(page, "data")
        page.locator("[data-name=rows]").wait_for()
        second = page.context.new_page()
        second.goto(running.origin + "/#fit")
        second.locator("body[data-ready=yes]").wait_for()
        go(page, "fit")
        click(page, "fit")
        second.locator("div[data-job=fit]").wait_for()
        page.reload()
        page.locator("body[data-ready=yes]").wait_for()
        for tab in (page, second):
            tab.locator("[data-model]").wait_for()
        assert page.locator("[data-model]").get_attribute("data-model") == second.locator("[data-model]").get_attribute(
            "data-model"
        )
        page.context.close()


def test_a_job_is_cancelled_from_the_page(tmp_path, visit, room_file):
    """The button ends it, the page says so, and no process is left."""
    with studio(tmp_path, room_file) as running:
        page = visit(running)
        click(page, "data")
        page.locator("[data-name=rows]").wait_for()
        go(page, "fit")
        click(page, "fit")
        page.locator("[data-do=cancel]").click()
        page.locator("[data-failure=fit]").wait_for()
        assert page.locator("[data-model]").count() == 0
        assert running.children() == []
        page.context.close()


def test_the_page_says_when_the_studio_has_ended(tmp_path, visit):
    """Within three seconds, and what was typed is still there."""
    with studio(tmp_path) as running:
        page = visit(running, quiet=False)
        click(page, "room")
        go(page, "take")
        page.fill("#why", "because of the policy of May")
        page.locator("#why").blur()
        running.process.kill()
        began = time.monotonic()
        page.locator("[data-failure=gone]").wait_for(timeout=3000)
        assert time.monotonic() - began < 3.5
        assert page.input_value("#why") == "because of the policy of May"
        page.context.close()


def test_nothing_on_the_page_draws(tmp_path, visit):
    """No button draws or draws again; the traps stand where the choice is made."""
    with studio(tmp_path) as running:
        page = visit(running)
        click(page, "room")
        to_design(page)
        assert page.locator("main", has_text="labelled history in sight").count() == 1
        names = page.locator("button").all_inner_texts()
        assert names
        assert not [name for name in names if re.search("draw again|reroll|sample|toss", name, re.IGNORECASE)]
        page.context.close()


def test_pins_are_the_figures_of_two_designs(tmp_path, visit):
    """Side by side, each as it was when it was pinned."""
    with studio(tmp_path) as running:
        page = visit(running)
        click(page, "room")
        to_design(page)
        ask(page, "nats", "0.1")
        first = (numbers(page, "bits")[0], numbers(page, "distortion")[0])
        click(page, "pin-a")
        page.locator("[data-name=pin-bits]").wait_for()
        solved(page, lambda: (page.locator("#slider").focus(), page.keyboard.press("Home")))
        second = (numbers(page, "bits")[0], numbers(page, "distortion")[0])
        click(page, "pin-b")
        page.locator("[data-name=pin-bits]").nth(1).wait_for()
        assert numbers(page, "pin-bits") == [first[0], second[0]]
        assert numbers(page, "pin-distortion") == [first[1], second[1]]
        assert first != second
        page.context.close()
