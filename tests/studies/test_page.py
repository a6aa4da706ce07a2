"""The page and its pictures, on made-up results of the same shape."""

import re

import pytest

from studies.real_data import figures, page, results, tables
from studies.real_data.page_office import hope


def row(adversary, balanced, clock=False, gain=0.0):
    """A row of figures as an attack gives it."""
    figure = [balanced, balanced - 0.05, balanced + 0.05]
    return {
        "adversary": adversary,
        "clock": clock,
        "reference": adversary in ("blind", "clock"),
        "balanced": figure,
        "gain": [gain, gain - 0.05, gain + 0.05],
        "nats": figure,
        "error": figure,
        "blocks": 10,
        "guesses": 100,
        "seconds": 1.0,
    }


def rows(best):
    """Two adversaries without the clock, one with it, and both references."""
    return [
        row("blind", 0.5),
        row("windowed", best - 0.1),
        row("logistic", best),
        row("clock", 0.9, True),
        row("logistic", 0.92, True, 0.02),
    ]


def room(tests=("test", "test2"), units=("ppm",), raw=0.95):
    """A record as a room gives it: three causal budgets and an epoch."""

    def point(kind, every, asked, best, percent):
        noise = (
            {how: {t: rows(best + 0.1) for t in tests} for how in ("white", "slow")}
            if kind == "causal" and percent
            else {}
        )
        return {
            "kind": kind,
            "minutes": every,
            "asked": asked,
            "nats_a_day": asked if asked is not None else 12.0,
            "charged_a_day": dict.fromkeys(tests, 1.0),
            "told_true": dict.fromkeys(tests, 0.8),
            "distortion": {t: [5.0 * percent] * len(units) for t in tests},
            "percent": {t: [percent] * len(units) for t in tests},
            "noise": noise,
            "rows": {t: rows(best) for t in tests},
        }

    told = {"window": 15.0, "accuracy": 0.7, "chance": 0.52, "chance_error": 0.02, "p": 1e-4}
    gate = {"passed": False, "failed": 6, "tests": 13, "told": [told]}
    fresh = [{"share": s, **point("causal", 15.0, 0.0, 0.6 - 0.1 * s, 32.0)} for s in (0.5, 1.0)]
    return {
        "name": "x",
        "fresh": fresh,
        "readings": ["co2"] * len(units),
        "units": list(units),
        "private": "people",
        "values": ["0", "1"],
        "period": 300.0,
        "model": "AR(2)",
        "reason": "",
        "table": [],
        "notes": [],
        "prior": [0.7, 0.3],
        "transition": [[0.9, 0.1], [0.1, 0.9]],
        "gate": gate,
        "recordings": {
            name: {"rows": 100, "segments": 1, "mean": [600.0], "shares": [0.7, 0.3]} for name in ("train", *tests)
        },
        "premise": {
            t: {
                "gate": {**gate, "scores": 100, "untested": [], "by_value": []},
                "shortfall": 0.3,
                "excess": 0.1,
                "readings": 100,
            }
            for t in tests
        },
        "raw": {t: rows(raw) for t in tests},
        "points": [
            point("causal", 15.0, 0.0, 0.6, 30.0),
            point("causal", 15.0, 3.0, 0.7, 9.0),
            point("causal", 15.0, None, 0.95, 0.0),
            point("epoch", 60.0, 0.1, 0.65, 20.0),
        ],
        "controls": [
            {"kind": "causal", "minutes": 15.0, "asked": 0.0, "nats_a_day": 0.0, "rows": {t: rows(0.52) for t in tests}}
        ],
        "estimated": [
            {
                "asked": 0.0,
                "nats_a_day": 0.0,
                "rows": {t: rows(0.66) for t in tests},
                "right": dict.fromkeys(tests, 0.9),
            }
        ],
    }


def made_up():
    """Results of all data sets."""
    baselines = {
        "rows": [
            {"model": "LDA", "test": "test", "accuracy": 0.862, "published": 0.862, "balanced": 0.83, "majority": 0.64}
        ]
    }
    least = {
        name: [{"accuracy": a, "distortion": 100.0, "percent": 12.0} for a in (0.5, 0.65)]
        for name in ("train", "test", "test2")
    }
    candidates = [
        {
            "minutes": 5,
            "model": "hidden Markov",
            "chosen": "hidden Markov",
            "best": "hmm",
            "accuracy": 0.75,
            "percent": [12.0],
            "gate": [11, 13],
            "told": 0.6,
            "score": -5.0,
        },
        {"minutes": 5, "model": "x", "failure": "too few"},
    ]
    audit = {
        "asked": 0.0,
        "test": "test",
        "rows": [{**r, "data": "disguised", "p": 0.5, "found": False} for r in rows(0.6)],
        "skipped": {"exact": "theta moves"},
        "distortion": [60.0],
        "mean": [600.0],
        "guesses": 100,
        "seconds": 9.0,
        "notes": [],
    }
    return {
        "candanedo": {
            "baselines": baselines,
            "least distortion": least,
            "choice on train": {"candidates": candidates},
            "CO2, 5 min": room(),
            "three channels, 5 min": room(units=("ppm", "degrees C", "percent")),
            "audit, 5 min": {"audits": [audit], "model": "AR(2)", "period": 300.0},
        },
        "sdu_ou44": {"room 1, presence": room(("held-out days",)), "room 1, counts": room(("held-out days",))},
        "iotsec": {"location A, node 1": room(("held-out files",), ("degrees C", "percent"))},
        "robod": {"room 1": room(("last third",))},
    }


@pytest.mark.long(seconds=3, reason="draws all pictures of the study")
def test_the_page_has_every_section_and_picture(tmp_path):
    """Page and pictures are written with every data set; no picture is named that is not there."""
    pytest.importorskip("matplotlib").use("Agg")
    written = page.write(made_up(), tmp_path)
    text = "\n".join((tmp_path / name).read_text() for name in ("real-data.md", "real-data-tables.md"))
    assert {p.name for p in written} == {p.name for p in tmp_path.iterdir()}
    for words in (
        "0.862",
        "CC BY 4.0",
        "The hope is not met",
        "There is little to protect",
        "## The premise, over all rooms",
        "from 0.60 to 0.55 on test, where the distortion goes from 30 to 32 percent",
    ):
        assert words in " ".join(text.split())
    for name in ("frontier", "office", "sdu", "iotsec", "scores"):
        assert f"real-data-{name}.svg" in text
        assert (tmp_path / f"real-data-{name}.svg").stat().st_size > 1000
    assert ">>>" not in text
    assert not re.search(r"\bnan\b", text)


def test_pictures_are_the_same_every_time(tmp_path):
    """Drawn twice, a picture agrees to the byte."""
    pytest.importorskip("matplotlib").use("Agg")
    panels = [("a", room(), "test")]
    one, other = (figures.frontiers(panels, tmp_path / f"{name}.svg", columns=1).read_bytes() for name in "ab")
    assert one == other


def test_a_page_of_part_of_the_data_says_what_is_missing(tmp_path):
    """Data sets that were not run are named, and the rest is written all the same."""
    text = page.page({"robod": made_up()["robod"]}, set())
    assert "Not run for this page: `candanedo`, `sdu_ou44`, `iotsec`" in text
    assert "negative control" in text


def test_the_hope_is_judged_by_the_worst_adversary_under_ten_percent():
    """Of the points under ten percent, the one with the lowest best adversary counts."""
    name, point, accuracy = hope(made_up()["candanedo"])
    assert (name, accuracy, point["percent"]["test"]) == ("CO2, 5 min", 0.7, [9.0])


def test_results_are_merged_by_data_set_and_task(tmp_path):
    """A record takes the place of an older one of its name; others stay, and what is not finite becomes null."""
    path = tmp_path / "results.json"
    results.merge(path, "robod", "room 1", {"x": 1.0})
    results.merge(path, "robod", "room 2", {"x": float("inf")})
    assert results.merge(path, "robod", "room 1", {"x": 2.0}) == {
        "robod": {"room 1": {"x": 2.0}, "room 2": {"x": None}}
    }
    assert results.load(path)["robod"]["room 2"] == {"x": None}
    assert results.load(tmp_path / "none.json") == {}


def test_tables_are_markdown():
    """Words stand left, figures right."""
    assert tables.table(["a", "b"], [["x", 1]]).splitlines()[1] == "|---|---:|"
    assert tables.interval(None) == "-"
