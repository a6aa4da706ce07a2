"""Tuning by measurement: what is valid by construction, and a twin that looks at the days it is judged on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import understudy as us
from understudy.adversaries import tuning
from understudy.adversaries.tuning import Outcome, Setting, count_by_day, limits
from understudy.errors import ConfigurationError
from understudy.identify.fit import Identifier
from understudy.identify.history import History, Segment
from understudy.identify.resample import Columns
from understudy.tables.table import Table

DAYS, ROWS = 12, 48
PERIOD = 1800
TRY = {"models": ["AR(1), normal"], "outputs": ["lifelike"], "budgets": [0.0], "adversaries": ["windowed"]}


def recording(days: int = DAYS, seed: int = 3) -> dict[str, np.ndarray]:
    """Days of a room whose models are autoregressions; people come and go at random times of the day."""
    rng = np.random.default_rng(seed)

    def room(people: int) -> us.GaussMarkov:
        return us.GaussMarkov(A=0.8, C=1.0, Q=4.0, R=0.0, b=84.0 + 4.0 * people, mean0=420.0, cov0=9.0)

    theta = []
    for _ in range(days):
        edges = [0, *np.sort(rng.choice(np.arange(6, ROWS - 6), 4, replace=False)), ROWS]
        theta.append(np.repeat([0, 1, 0, 1, 0], np.diff(edges)))
    path = np.concatenate(theta)
    y = us.sample(us.Family(room, [0, 1]).along(path.tolist()), path.size, rng=seed)
    return {"co2": y, "people": path, "time": 1_700_006_400.0 + PERIOD * np.arange(path.size)}


def tune(frame: dict[str, np.ndarray], **given: object) -> us.Tuning:
    columns = {"reading": "co2", "private": "people", "time": "time", "period": PERIOD}
    return us.tune(frame, **{**columns, **TRY, **given})  # type: ignore[arg-type]  # options by name


# The limits ----------------------------------------------------------------------------------------------------------


def test_limits_are_those_of_a_mean_where_every_day_has_the_same_counts() -> None:
    """Equal counts by day: the accuracy is a mean of independent days, and Student's interval is exact."""
    rng = np.random.default_rng(1)
    right = rng.integers(0, 20, size=(9, 2)).astype(float)
    made = tuning.Counts(right, np.full((9, 2), 20.0))
    value, upper, lower = limits(made, None, 0.025)
    from scipy.stats import t

    days = right.mean(axis=1) / 20.0
    half = t.isf(0.025, 8) * days.std(ddof=1) / 3.0
    np.testing.assert_allclose([value, upper, lower], [days.mean(), days.mean() + half, days.mean() - half], rtol=1e-12)


def test_limits_cover_and_a_twin_that_counts_readings_does_not() -> None:
    """Days that agree within themselves: 400 trials at level 0.05; at most 44 misses (false alarm below 1e-6)."""
    rng = np.random.default_rng(2)
    miss = twin = 0
    for _ in range(400):
        p = rng.beta(2.0, 2.0, size=(10, 2))  # mean 1/2, the same for all readings of a day
        total = np.full((10, 2), 24.0)
        right = np.where(rng.random((10, 2)) < p, total, 0.0)
        made = tuning.Counts(right, total)
        miss += limits(made, None, 0.05)[1] < 0.5
        each = tuning.Counts(np.repeat(right / 24.0, 24, axis=0), np.ones((240, 2)))
        twin += limits(each, None, 0.05)[1] < 0.5
    assert miss <= 44
    assert twin > 44


def test_gain_over_a_reference_is_zero_for_the_reference() -> None:
    made = count_by_day(np.array([0, 1, 1, 0]), np.array([1, 1, 2, 2]), np.array([True, False, True, True]), 2)
    assert limits(made, made, 0.05) == (0.0, 0.0, 0.0)


# The search ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found() -> us.Tuning:
    return tune(recording(), at_most=0.75, fresh=[1.0, 0.5, 0.0])


def test_a_right_model_passes_and_the_result_says_what_was_measured(found: us.Tuning) -> None:
    assert found.outcome is Outcome.FOUND
    assert found.final is not None
    assert found.chosen is not None
    assert found.design is not None
    assert found.final.raw > 0.85 > found.final.accuracy
    assert found.days == 9
    assert found.final.days == 3
    assert found.design.fresh == found.chosen.setting.fresh
    assert found.design.rate == 0.0
    assert len(found.sentences) == 4
    assert "not promised" in str(found)


def test_the_walk_begins_with_fresh_scores_and_ends_at_the_first_failure(found: us.Tuning) -> None:
    assert found.steps[0].setting.fresh == 1.0
    shares = [step.setting.fresh for step in found.steps]
    assert shares == sorted(shares, reverse=True)
    assert all(step.passed for step in found.steps[:-1])
    assert found.chosen == min((s for s in found.steps if s.passed), key=lambda s: s.distortion)


def test_no_family_has_seen_the_days_that_are_attacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fit of a fold leaves out the days of the fold, and all fits leave out the last quarter."""
    frame, fits = recording(), []
    real = Identifier.fit_history

    def record(self: Identifier, history: History, resampling: dict[str, object] | None = None) -> Identifier:
        fits.append({int(t) // (86_400 * 10**9) for s in history.segments for t in np.asarray(s.times)})
        return real(self, history, resampling)

    monkeypatch.setattr(Identifier, "fit_history", record)
    tune(frame, at_most=0.9, fresh=[1.0])
    every = sorted({int(t) // 86_400 for t in frame["time"]})
    assert len(fits) == tuning.FOLDS + 1
    held = [set(every[:9]) - days for days in fits[:-1]]
    assert set().union(*held) == set(every[:9])
    assert sum(map(len, held)) == 9
    assert all(not days & set(every[9:]) for days in fits)


def test_a_wrong_model_fails_where_fresh_scores_pass() -> None:
    """An occupied room swings with a period of six readings, which an AR(1) model does not: a twin of the above."""
    frame = recording()
    swing = 30.0 * np.sin(np.arange(DAYS * ROWS) * np.pi / 3.0)
    frame["co2"] = frame["co2"] + np.where(frame["people"] == 1, swing, 0.0)
    found = tune(frame, at_most=0.7, fresh=[1.0, 0.0], adversaries=["logistic"])
    assert [step.passed for step in found.steps] == [True, False]
    assert found.chosen is not None
    assert found.chosen.setting.fresh == 1.0


def test_no_measurement_decides_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distortions turned upside down: the same settings are tried, in the same order."""
    real, turned = tuning.distortion_of, []

    def record(outputs: list[tuning.Piece]) -> float:
        turned.append(real(outputs))
        return 1.0 / turned[-1]

    given = {"at_most": 0.99, "fresh": [0.0, 1.0, 0.5]}
    plain = [step.setting for step in tune(recording(), **given).steps]
    monkeypatch.setattr(tuning, "distortion_of", record)
    assert [step.setting for step in tune(recording(), **given).steps] == plain
    assert [setting.fresh for setting in plain] == [1.0, 0.5, 0.0]
    assert turned[0] > turned[2]  # an order by distortion would be the other one


def test_the_limit_of_the_best_adversary_covers_without_a_correction() -> None:
    """Four adversaries, each right with 0.6 on days that agree within themselves: 400 trials at level 0.05.

    The largest limit lies below the largest truth at most as often as one limit does: 44 misses at most (false alarm
    below 1e-6). The twin takes the limit of the worst of them.
    """
    rng = np.random.default_rng(5)
    total, miss, twin = np.full((10, 2), 24.0), 0, 0
    for _ in range(400):
        uppers = []
        for _ in range(4):
            right = np.where(rng.random((10, 2)) < rng.beta(3.0, 2.0, size=(10, 2)), total, 0.0)
            uppers.append(limits(tuning.Counts(right, total), None, 0.05)[1])
        miss += max(uppers) < 0.6
        twin += min(uppers) < 0.6
    assert miss <= 44
    assert twin > 44


@pytest.mark.long(seconds=15, reason="a search of its own, with designs by the clock")
def test_a_design_by_the_clock_is_played_at_the_times_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured over the clock; each piece is played at the ticks of its own times, which go round in a week."""
    played = []
    real = tuning.ticks_of

    def record(design: us.CausalDesign, segment: Segment, zone: str | None) -> np.ndarray | None:
        ticks = real(design, segment, zone)
        assert ticks is not None
        week = np.asarray(segment.times) // 10**9 % (7 * 86_400)
        played.append(
            bool((ticks * design.clock.tick % (7 * 86_400) == week // design.clock.tick * design.clock.tick).all())
        )
        return ticks

    monkeypatch.setattr(tuning, "ticks_of", record)
    found = tune(recording(), at_most=0.5, over="clock", clocks=[True], fresh=[1.0])
    assert found.outcome is Outcome.FOUND, found.notes
    assert played
    assert all(played)


def test_a_constant_output_tells_nothing() -> None:
    """With a fresh share of 1 the output of least change is a constant, and passes with the accuracy of chance."""
    found = tune(recording(), at_most=0.55, fresh=[1.0], outputs=["least-change"])
    assert found.outcome is Outcome.FOUND
    assert [step.accuracy for step in found.steps] == [0.5]


def test_a_constant_output_tells_nothing_where_a_fold_lacks_a_value() -> None:
    """Two of ten tuning days, a fold by themselves, have nobody in them: guessing them right is no merit."""
    frame = recording()
    empty = np.arange(frame["people"].size) < 2 * ROWS
    frame = {**frame, "people": np.where(empty, 0, frame["people"])}
    found = tune(frame, at_most=0.55, fresh=[1.0], outputs=["least-change"])
    assert [step.accuracy for step in found.steps] == [0.5]


def test_too_few_days_are_refused() -> None:
    found = tune(recording(5), at_most=0.505, fresh=[1.0], adversaries=["windowed", "changes"])
    assert found.outcome is Outcome.TOO_FEW_DAYS
    assert found.design is None
    assert found.final is None
    with pytest.raises(ConfigurationError, match="tuning needs at least 4"):
        tune(recording(3), at_most=0.75, fresh=[1.0])


@pytest.mark.long(seconds=4, reason="a search of its own")
def test_a_class_that_cannot_be_fitted_is_left_out_and_named() -> None:
    heard: list[tuple[float, str]] = []
    models = ["AR(1), normal", "AR(90), normal"]
    found = tune(recording(), at_most=0.9, fresh=[1.0], models=models, progress=lambda *news: heard.append(news))
    shares = [share for share, _ in heard]
    assert shares == sorted(shares)
    assert 0.0 <= min(shares) <= max(shares) < 1.0
    assert any("fitted without block 1" in words for _, words in heard)
    assert found.outcome is Outcome.FOUND
    assert any("AR(90)" in note for note in found.notes)


def test_figures_hold_no_reading(found: us.Tuning) -> None:
    import json

    text = json.dumps(found.to_dict())
    assert "co2" not in text
    assert len(text) < 5000
    assert repr(found) == f"Tuning(found, {len(found.steps)} steps, 9 days)"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"at_most": 0.4}, "at_most"),
        ({"at_most": True}, "at_most"),
        ({"over": "luck"}, "over"),
        ({"confidence": 1.0}, "confidence"),
        ({"fresh": []}, "fresh is empty"),
        ({"adversaries": ["nobody"]}, "nobody"),
        ({"private": None}, "private"),
    ],
)
def test_bad_options_name_the_value_and_the_rule(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        tune(recording(5), **given)


def test_days_that_lie_beside_each_other_in_time_are_told_apart_by_their_names() -> None:
    """Segments that hold the time of day alone."""
    pieces = [Segment(str(k), np.arange(4) * 10**9, np.zeros((4, 1)), np.zeros(4, dtype=int)) for k in range(3)]
    history = History(("co2",), "people", "t", (), (0,), 1.0, tuple(pieces), ())
    days = tuning.Days.of(history)
    assert len({int(n) for numbers in days.each(history) for n in numbers}) == 3


def test_all_six_choices_are_tried_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Model classes and that of the family, periods, outputs, shares, budgets; the clock where it is compared with."""
    seen: list[Setting] = []

    def run(_: tuning.Search, settings: list[Setting]) -> None:
        seen[:] = settings

    monkeypatch.setattr(tuning.Search, "run", run)
    minutes = {**recording(), "time": 1_700_006_400.0 + 60.0 * np.arange(DAYS * ROWS)}
    family = us.fit(minutes, reading="co2", private="people", time="time", model="AR(3), normal")
    for over, clocks in (("chance", {False}), ("clock", {False, True})):
        us.tune(minutes, family=family, at_most=0.75, over=over)
        assert {s.model for s in seen} == {*tuning.MODELS, "AR(3), normal"}
        assert {s.period for s in seen} == {None, 900.0}
        assert {s.clock for s in seen} == clocks
        assert ({s.output for s in seen}, {s.fresh for s in seen}) == (set(tuning.OUTPUTS), set(tuning.SHARES))
        assert {s.budget for s in seen} == set(tuning.BUDGETS)
    both = {**minutes, "rh": minutes["co2"] / 10.0}
    us.tune(both, reading=["co2", "rh"], private="people", time="time", at_most=0.75)
    assert {s.model for s in seen} == set(tuning.VECTORS)


def test_outputs_of_fresh_scores_look_at_no_reading() -> None:
    """The same filters, driven by chance: readings that differ give the same outputs; those of the design do not."""
    frame = recording()
    part = tuning.Search(
        Table(frame), Columns("co2", "people", "time", None, PERIOD), "chance", ("windowed",), 0.9, 0.95,
        np.random.default_rng(1), lambda *_: None,
    )  # fmt: skip
    history = part.split(None)
    family, learn, judge = part.fit(history.tuned, history.final, "AR(1), normal", history.resampling)
    setting = Setting("AR(1), normal", None, False, 0.0, "lifelike", 0.5)
    moved = replace(judge, segments=tuple(replace(s, Y=s.Y + 9.0) for s in judge.segments))
    for chance in (False, True):
        outs = []
        for days in (judge, moved):
            search = replace(part, rng=np.random.default_rng(7))
            made = search.disguise(history, 0, tuning.Fold(family, learn, days), setting, chance)
            outs.append(np.concatenate([piece.output for piece in made if piece.fold == 0]))
        assert np.array_equal(*outs) is chance


def test_a_path_names_all_that_is_fitted_apart() -> None:
    one = Setting("AR(1), normal", None, False, 0.0, "lifelike", 1.0)
    assert one.path == one._replace(fresh=0.0).path
    assert one.path != one._replace(budget=1.0).path
    assert one.path != one._replace(output="least-change").path
