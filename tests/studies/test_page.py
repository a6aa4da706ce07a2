"""The rule of choice, the page and its figure, on made-up figures of the same shape."""

import json

import numpy as np
import pytest

import understudy as us
from studies.real_data import __main__ as command
from studies.real_data import page, study
from studies.real_data.study import pick, picks


def row(fresh, distortion, accuracy, model="adaptive", output="least-change"):
    """A setting as it was measured on training days."""
    return {
        "model": model, "period": None, "clock": False, "budget": 0.0, "output": output, "fresh": fresh,
        "distortion": distortion, "accuracy": accuracy, "adversary": "boosting",
    }  # fmt: skip


def test_a_walk_ends_at_its_first_failure():
    """A lucky figure beyond a failure is not chosen; a path that stays within the margin is."""
    lucky = [row(1.0, 0.30, 0.50), row(0.9, 0.28, 0.70), row(0.5, 0.10, 0.50)]
    sound = [row(1.0, 0.30, 0.50, "AR(1)"), row(0.9, 0.27, 0.52, "AR(1)"), row(0.5, 0.20, 0.60, "AR(1)")]
    assert pick(lucky)["fresh"] == 1.0
    assert pick(lucky + sound)["distortion"] == 0.27
    assert pick(lucky + sound, limit=0.7)["distortion"] == 0.10


def test_failures_are_not_chosen_from():
    """A room in which no class could be fitted has no choice, and one whose control alone is too high neither."""
    failure = {"model": "adaptive", "period": None, "failure": "too few readings"}
    assert pick([failure]) is None
    assert picks([failure, row(1.0, 0.3, 0.5, "AR(1)")])["older classes"]["model"] == "AR(1)"
    assert pick([row(1.0, 0.3, 0.8)], limit=0.7) is None


def judged(outsider, distortion, fresh):
    """A pick as it is judged on a test recording."""
    figures = {
        "outsider": [outsider, outsider - 0.01, outsider + 0.01], "insider": [0.6, 0.55, 0.65],
        "distortion": [distortion, distortion, distortion], "interval": [outsider - 0.1, outsider + 0.1],
    }  # fmt: skip
    rivals = {
        "raw": 0.95, "raw insider": 0.9, "constant": 0.25, "raw over clock": None, "white noise": 0.8,
        "slow noise": 0.75, "coin": 0.6,
    }  # fmt: skip
    setting = {key: value for key, value in row(fresh, 0.2, 0.5).items() if key in study.Setting._fields}
    return {**setting, **figures, "control": figures, "rivals": rivals, "limit": {"0.5": 12.0, "0.7": 6.0, "0.9": 1.0}}


def room(tests, outsider=0.55):
    """A record as a room gives it."""
    scores = [{"window": 15, "excess": 0.04, "interval": [-0.1, 0.2]}]
    test = {
        "chosen": judged(outsider, 0.2, 0.9), "older classes": judged(0.6, 0.19, 0.8), "0.70": judged(0.68, 0.15, 0.5),
        "days": 7,
        "models": {
            "adaptive": {"log-likelihood": -2.0, "scores": scores},
            "AR(1), Student-t": {"log-likelihood": -2.2, "scores": []},
            "AR(2), free noise by class": {"failure": "too few readings"},
        },
    }  # fmt: skip
    return {"choice": "ab" * 32, "picks": {}, "tests": dict.fromkeys(tests, test), "seconds": 1.0}


@pytest.fixture
def results():
    found = {name: room(["held-out days"]) for name in study.HEADLINE[1:]} | {"candanedo": room(["test", "test2"])}
    clock = {key: [0.1, 0.0, 0.2] for key in ("percent", "clock alone", "gain", "raw gain")}
    coin = {"q": 0.0, "coins": 9, "adversary": "boosting", "balanced": 0.97, "interval": [0.9, 1.0], "percent": 0.0}
    return found | {"clock": {"candanedo test": clock}, "coin": [coin, {**coin, "q": 0.5, "balanced": 0.8}]}


def test_the_page_states_what_came_out(results, tmp_path):
    """Every test recording has its row, the figure is there, and the line of the coin is computed."""
    written = page.write(results, {"sdu 1": [row(1.0, 0.3, 0.5), row(0.5, 0.1, 0.7)]}, tmp_path)
    assert [path.name for path in written] == ["real-data.md", "real-data-tables.md", "real-data.svg"]
    text = written[0].read_text()
    assert "$" not in text
    for case in page.cases(results):
        assert f"| {case.name} |" in text
    assert "| 0.5 | 0.800 (boosting) | [0.90, 1.00] | 0.735 |" in text
    assert "30.0, 0.50" in written[1].read_text()
    assert written[2].stat().st_size > 1000


def test_what_is_wanted_is_judged_by_the_figures(results):
    """The same page says met or not met, as its figures are."""
    six = page.cases(results, study.HEADLINE)
    assert "**met**" in next(page.summary(results, six))
    worse = results | {"candanedo": room(["test", "test2"], outsider=0.9)}
    results["candanedo"]["tests"]["test"]["chosen"]["control"] = judged(0.5, 0.2, 1.0)
    for name in study.HEADLINE:
        for test in worse[name]["tests"].values():
            test["chosen"]["control"] = judged(0.5, 0.2, 1.0)
    assert "**not met**" in next(page.summary(worse, page.cases(worse, study.HEADLINE)))
    over = page.above_coin(page.cases(worse, study.HEADLINE), "chosen")
    assert [case.room for case in over] == ["candanedo", "candanedo"]


@pytest.mark.long(seconds=15, reason="one room, chosen and judged")
def test_a_small_room_is_chosen_and_judged(tmp_path, monkeypatch):
    """The whole way of a room, with one adversary and few settings; choices that are kept are not made again."""
    days, rows = 9, 48
    rng = np.random.default_rng(2)
    people = np.concatenate([np.roll(np.repeat([0, 1, 0, 1], 12), rng.integers(rows)) for _ in range(days)])
    steps = {v: us.AutoRegressive(0.8, 84.0 + 4.0 * v, us.Gaussian(0.0, 4.0)) for v in (0, 1)}
    co2 = us.sample(us.Family(steps).along(people.tolist()), days * rows, rng=1)
    frame = {"co2": co2, "people": people, "time": 1_700_006_400.0 + 1800.0 * np.arange(days * rows)}
    cut = 6 * rows
    train, test = ({name: column[part] for name, column in frame.items()} for part in (slice(cut), slice(cut, None)))
    monkeypatch.setattr(study, "ADVERSARIES", ("windowed",))
    monkeypatch.setattr(study, "OUTPUTS", ("lifelike",))
    monkeypatch.setattr(study, "SEEDS", 1)
    columns = study.Columns("co2", "people", "time", None, 1800)
    room = study.Subject(train, {"later": lambda: test}, columns, (None,), ("AR(1), normal",), (1.0, 0.5))
    assert study.run("small", room, tmp_path, only_choose=True) is None
    written = (tmp_path / "small.json").read_bytes()
    found = study.run("small", room, tmp_path)
    assert (tmp_path / "small.json").read_bytes() == written
    assert found["choice"] == study.hashlib.sha256(written).hexdigest()
    figures = found["tests"]["later"]["chosen"]
    assert 0.3 < figures["outsider"][0] < figures["rivals"]["raw"]
    assert figures["distortion"][0] > 0.0
    assert figures["limit"]["0.5"] > figures["limit"]["0.7"]
    assert set(found["tests"]["later"]["models"]) == {"AR(1), normal"}


def test_chance_alone_is_judged_beside_the_settings(results):
    """Settings at 0.55 and 0.6: met where fresh scores reach 0.53 and 0.53, not met where they reach 0.5."""
    six = page.cases(results, study.HEADLINE)
    assert not list(page.chance_alone({}, six))
    for chance, verdicts in ((0.53, ["met", "met"]), (0.5, ["not met", "not met"])):
        spread = [chance, chance, chance]
        controls = {case.name: {"outsider": spread, "insider": spread} for case in six}
        (words,) = page.chance_alone(controls, six)
        assert words.split("**")[3::2] == verdicts


def test_figures_are_kept_one_by_one(tmp_path, monkeypatch):
    """A record takes its place beside the others, and what is not finite becomes null."""
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results.json")
    command.keep("sdu 1", {"a": (1.0, float("nan"))})
    command.keep("coin", [])
    assert json.loads((tmp_path / "results.json").read_text()) == {"coin": [], "sdu 1": {"a": [1.0, None]}}


def test_missing_data_are_named(tmp_path, capsys):
    """Without the files the command says which one is missing, and what to do."""
    assert command.main(["--data", str(tmp_path), "--only", "robod 1", "--jobs", "1"]) == 2
    assert "combined_Room1.csv is not there" in capsys.readouterr().err


def test_unknown_tasks_are_refused(tmp_path):
    """A name that is none ends the command with the names that are."""
    with pytest.raises(SystemExit):
        command.main(["--data", str(tmp_path), "--only", "sdu 9"])
