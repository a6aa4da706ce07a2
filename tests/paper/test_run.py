"""The whole command: golden values of every result that has some, the files, the page, and what interrupts it."""

import csv
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from paper_golden import GOLDEN

from understudy.errors import ConfigurationError
from understudy.paper import run as running
from understudy.paper.run import CATALOGUE, choose, glance, page, run, table_html
from understudy.paper.setting import Outcome, Settings, Table, words

WRITTEN = ("claims", "tradeoff", "disguised", "levels")

# What the report leads with: result, number, value, tolerance. Exact ones to their digits; simulated ones (with the
# seed fixed) to what they may be off by.
HEADLINES = (
    ("claims", "distortion_at_0.3", 17.346, 5e-4),
    ("claims", "distortion_at_0", 64.924, 5e-4),
    ("claims", "bound_factor", 74.39, 0.01),
    ("claims", "consistent_error_at_0.3", 0.1336, 5e-5),
    ("claims", "consistent_error_at_0.68", 0.001796, 5e-7),
    ("claims", "printed_error_at_ln2", 0.1719, 5e-5),
    ("claims", "does_not_hold", 1, 0),
    ("tradeoff", "absolute_percent_at_0.30", 17.346, 5e-4),
    ("adversary", "exact_at_0.3", 0.1336, 5e-5),
    ("adversary", "consistent_error_at_0.3", 0.1336, 0.0167),  # five standard errors of 10,000 sequences
    ("disguised", "mean_change_exact", 51.939, 5e-4),
    ("structure", "distortion", 17.346, 5e-4),
    ("noise", "gaussian_ppm_50", 353.17, 0.01),
    ("noise", "gaussian_ppm_1000", 2240.99, 0.01),
    ("noise", "filter_ppm_1000", 26.21, 0.01),
    ("schedule", "bound", 0.29574, 1e-5),
)


@pytest.fixture(scope="module")
def outcomes():
    """Every result, quickly, not drawn."""
    return {name: running.compute(name, Settings(quick=True)) for name in CATALOGUE}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Some results with their files."""
    out = tmp_path_factory.mktemp("paper") / "new" / "folder"
    run(out, Settings(quick=True), WRITTEN)
    return out


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_result_has_its_golden_values(outcomes, name):
    """Each is a number of its outcome, within its tolerance."""
    for number, (value, tolerance) in GOLDEN.get(name, {}).items():
        assert outcomes[name].numbers[number] == pytest.approx(value, abs=tolerance), number


@pytest.mark.parametrize(("name", "number", "value", "tolerance"), HEADLINES)
def test_headlines(outcomes, name, number, value, tolerance):
    assert outcomes[name].numbers[number] == pytest.approx(value, abs=tolerance)


def test_outcomes_are_named_as_the_catalogue_says(outcomes):
    """Title and words each; numbers are plain; rows have as many cells as their table has columns."""
    for name, outcome in outcomes.items():
        assert outcome.name == name
        assert outcome.title
        assert outcome.paragraphs
        assert all(isinstance(float(x), float) for x in outcome.numbers.values())
        for table in outcome.tables:
            assert all(len(row) == len(table.columns) for row in table.rows), table.caption


def test_no_two_pictures_share_a_file_and_each_is_described(outcomes):
    stems = [stem for outcome in outcomes.values() for stem in outcome.pictures]
    assert len(set(stems)) == len(stems)
    assert set(stems) == set(words()["pictures"])


def test_the_glance_has_our_figures_beside_the_paper_s(outcomes):
    table = glance(list(outcomes.values()))
    cells = {row[0]: row[1:] for row in table.rows}
    assert cells["distortion at I_0 = 0.3, of mean CO2"] == ("about 0.8 %", "17.35 %")
    assert cells["errors from I_0 = 0.68 to 0.3 grow"][1].startswith("74 times")
    # a promise is rounded down
    assert cells["any guess at I_0 = 0.3 is wrong"][1] == "in 13.35 % at least"
    assert glance([outcomes["levels"]]).rows == ()


def test_the_files_are_there(folder):
    """And no part of one is left behind."""
    stems = {"tradeoff", "true-and-disguised", "estimator-output", "levels", "levels_randomizer"}
    pictures = {f"{stem}.{kind}" for stem in stems for kind in ("svg", "png")}
    assert {path.name for path in folder.iterdir()} == pictures | {"report.html", "results.json", "results.csv"}
    assert all(path.stat().st_size > 1000 for path in folder.iterdir())
    assert (folder / "tradeoff.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "tradeoff.svg").read_text(encoding="utf-8")


def test_json_and_csv_hold_the_same_numbers(folder, outcomes):
    """And are those of the results computed one by one: their random numbers do not depend on the company."""
    told = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert (told["seed"], told["quick"], tuple(told["results"])) == (0, True, WRITTEN)
    rows = list(csv.reader((folder / "results.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["result", "number", "value"]
    found = {(name, number): value for name, number, value in rows[1:]}
    for name in WRITTEN:
        numbers = told["results"][name]["numbers"]
        assert numbers.keys() == outcomes[name].numbers.keys()
        for number, value in numbers.items():
            assert value == pytest.approx(outcomes[name].numbers[number])
            assert float(found.pop((name, number))) == value
    assert not found
    claims = told["results"]["claims"]["tables"][0]
    assert claims["columns"] == ["where", "the paper says", "we get", "verdict", "why"]
    assert {row[3] for row in claims["rows"]} == {"holds", "holds with correction", "does not hold"}


class Parsed(HTMLParser):
    """What a browser would load, and what the page has."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loaded, self.alts, self.links, self.names = [], [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.names.add(given.get("id"))
        self.loaded += [given[name] for name in ("src", "srcset", "data", "poster") if name in given]
        if tag == "a":
            self.links.append(given["href"])
        elif "href" in given:
            self.loaded.append(given["href"])
        if tag == "img":
            self.alts.append(given.get("alt", ""))


def test_the_page_needs_nothing_but_itself(folder):
    """No script, no style sheet, no font, no picture from elsewhere, on the page or inside its pictures."""
    text = (folder / "report.html").read_text(encoding="utf-8")
    seen = Parsed(text)
    assert not {"script", "link", "iframe", "object", "embed"} & set(seen.tags)
    assert seen.loaded
    assert all(source.startswith("data:image/svg+xml;base64,") for source in seen.loaded)
    assert "@import" not in text
    assert "url(" not in text
    for path in folder.glob("*.svg"):
        picture = path.read_text(encoding="utf-8")
        # its own parts, and maps of pixels as data
        assert all(link.startswith(("#", "data:")) for link in re.findall(r'(?:href|src)="([^"]*)"', picture))
        assert "<text" not in picture  # outlines: no font is wanted


def test_the_same_test_catches_a_page_that_loads_something():
    seen = Parsed('<link rel="stylesheet" href="https://example.org/style.css"><img src="picture.png">')
    assert seen.loaded == ["https://example.org/style.css", "picture.png"]
    assert seen.alts == [""]


def test_the_page_can_be_read(folder):
    """Claims first, a contents list whose links lead somewhere, words for each picture, heads for each column."""
    text = (folder / "report.html").read_text(encoding="utf-8")
    seen = Parsed(text)
    assert seen.links == [f"#{name}" for name in WRITTEN]
    assert set(WRITTEN) <= seen.names
    assert len(seen.alts) == 5
    assert all(len(alt) > 40 for alt in seen.alts)
    assert text.index("At a glance") < text.index("<nav") < text.index('id="claims"') < text.index('id="levels"')
    assert "✗ does not hold" in text
    assert "@media print" in text
    assert 'lang="en"' in text
    assert "quick look" in text


def test_text_is_escaped(tmp_path):
    outcome = Outcome("x", "a < b", ("<script>",), {}, (Table("&", ("<",), (("<i>",),)),))
    text = page(tmp_path, Settings(), [outcome])
    assert "<script>" not in text
    assert "<i>" not in text
    assert "a &lt; b" in text


def test_a_table_may_be_empty():
    assert "<tbody></tbody>" in table_html(Table("none", (), ()))


@pytest.mark.long(seconds=3, reason="recomputes results of the paper twice")
def test_the_same_seed_gives_the_same_bytes(tmp_path):
    """Numbers, page and pictures; another seed gives other ones."""
    for name, seed in (("one", 7), ("two", 7), ("other", 8)):
        run(tmp_path / name, Settings(seed=seed, quick=True), ["disguised"])
    one, two, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two", "other")
    )
    assert one == two
    assert one["results.json"] != other["results.json"]
    assert one["true-and-disguised.svg"] != other["true-and-disguised.svg"]


def fake(name, settings):
    """A result that costs nothing; `noise` breaks, and `levels` is interrupted."""
    settings.progress(0.5)
    if name == "noise":
        raise RuntimeError("broken")
    if name == "levels":
        raise KeyboardInterrupt
    return Outcome(name, name.title(), (), {"x": 1.0, "none": float("nan")})


@pytest.mark.parametrize(("third", "error"), [("noise", RuntimeError), ("levels", KeyboardInterrupt)])
def test_what_is_done_stays_when_the_third_result_fails(tmp_path, monkeypatch, third, error):
    monkeypatch.setattr(running, "compute", fake)
    with pytest.raises(error):
        run(tmp_path, Settings(), ["estimates", "tradeoff", third])
    assert list(json.loads((tmp_path / "results.json").read_text())["results"]) == ["estimates", "tradeoff"]
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 5
    assert "Tradeoff</h2>" in (tmp_path / "report.html").read_text()


def test_a_number_that_is_none_is_null(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "compute", fake)
    run(tmp_path, Settings(), ["tradeoff"])
    assert json.loads((tmp_path / "results.json").read_text())["results"]["tradeoff"]["numbers"] == {
        "x": 1.0,
        "none": None,
    }


def test_progress_rises_and_is_full_once(tmp_path, monkeypatch):
    """1.0 is told when the result is in its folder, not before."""
    monkeypatch.setattr(running, "compute", fake)
    heard = []

    def told(name, fraction):
        heard.append((name, fraction))
        if fraction == 1.0:
            assert name in json.loads((tmp_path / "results.json").read_text())["results"]

    run(tmp_path, Settings(), ["examples", "tradeoff"], told)
    assert [name for name, fraction in heard if fraction == 1.0] == ["tradeoff", "examples"]
    for name in ("tradeoff", "examples"):
        fractions = [fraction for heard_name, fraction in heard if heard_name == name]
        assert fractions[0] == 0.0
        assert np.all(np.diff(fractions) > 0.0)


def test_results_are_chosen_by_name():
    """In the order of the report, none twice; unknown ones are refused with the names that there are."""
    assert choose([]) == tuple(CATALOGUE)
    assert choose(["levels", "claims", "levels"]) == ("claims", "levels")
    with pytest.raises(ConfigurationError, match=r"'fig7' is unknown; there are claims, .*levels"):
        choose(["fig7"])


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "compute", lambda *_: pytest.fail("worked"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="it must be a folder"):
        run(tmp_path / "file", Settings())
    with pytest.raises(ConfigurationError, match="cannot be written"):
        run(tmp_path / "file" / "folder", Settings())
