"""Change detection: it marks changes where they are, and learns what their times have to do with theta."""

import numpy as np
import pytest
from learner_cases import ALPHA, chance, constant, mixed_up, moving

from understudy.adversaries.knowledge import Cases
from understudy.adversaries.learners.machine_learning import (
    Changes,
    Detector,
    Windowed,
    _scales,
    _statistics,
    mark_changes,
    recipe_for,
)


def one(outputs):
    """A sequence without labels."""
    outputs = outputs[:, None, None]
    return Cases(outputs, np.zeros((len(outputs), 1), dtype=np.int64), np.zeros((len(outputs), 1), dtype=int), 2, False)


def marks(outputs, window=15):
    cases = one(outputs)
    recipe = recipe_for(cases)
    thresholds = 3.5 * _scales(_statistics(cases.outputs, recipe, window))
    return mark_changes(cases.outputs, Detector(recipe, window, thresholds)).signs[:, :, 0]


def test_marks_a_jump_where_it_is_and_with_its_sign():
    """A level that rises at 100 and falls at 200 is marked there, within a reading or two, and nowhere else."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=300)
    y[100:200] += 8.0
    level = marks(y)[0]
    up, down = np.flatnonzero(level > 0), np.flatnonzero(level < 0)
    assert len(up) == len(down) == 1
    assert abs(up[0] - 100) <= 2
    assert abs(down[0] - 200) <= 2


def test_marks_a_change_of_trend_and_of_spread():
    """The trend turns at 150, in another sequence the spread doubles twice: each is marked by its own statistic."""
    rng = np.random.default_rng(2)
    k = np.arange(300)
    trend = marks(np.where(k < 150, 0.0, 3.0 * (k - 150)) + 0.3 * rng.normal(size=300), 25)[1]
    assert np.flatnonzero(trend > 0).size == 1
    assert abs(np.flatnonzero(trend > 0)[0] - 150) <= 4
    spread = marks(np.where(k < 150, 1.0, 12.0) * rng.normal(size=300), 41)[2]
    assert np.flatnonzero(spread > 0).size == 1
    assert abs(np.flatnonzero(spread > 0)[0] - 150) <= 8


@pytest.mark.long(seconds=2, reason="trains on long recordings")
def test_finds_theta_from_the_times_of_changes_alone():
    """Levels are drawn anew whenever theta changes and never depend on it; the times give it away (alarm 1e-6)."""
    rng = np.random.default_rng(3)
    attack = Changes().learn(moving("change times", 40, rng), None, rng)
    judged = moving("change times", 60, rng)
    assert chance(attack, judged) < ALPHA
    assert chance(attack, mixed_up(judged, rng)) > ALPHA


def test_who_looks_at_means_alone_does_not_see_the_times():
    """The twin: on the same data the windowed estimator finds nothing."""
    rng = np.random.default_rng(3)
    attack = Windowed().learn(moving("change times", 40, rng), None, rng)
    assert chance(attack, moving("change times", 60, rng)) > ALPHA


@pytest.mark.sample(default=1, seconds=3, reason="two kinds of changes")
@pytest.mark.parametrize("kind", ["mean", "variance"])
def test_finds_levels_and_spreads_that_change_with_theta(kind):
    """A mean or a variance that follows a moving theta is found by its changes (false alarm 1e-6), with a twin."""
    rng = np.random.default_rng(4)
    attack = Changes().learn(moving(kind, 60, rng), None, rng)
    judged = moving(kind, 80, rng)
    assert chance(attack, judged) < ALPHA
    assert chance(attack, mixed_up(judged, rng)) > ALPHA


def test_finds_a_jump_in_sequences_of_constant_theta():
    """Where theta is constant, how often the output jumps is what counts; independent outputs give no alarm."""
    rng = np.random.default_rng(5)
    attack = Changes().learn(constant("jump", 600, rng, T=40), None, rng)
    assert chance(attack, constant("jump", 400, rng, T=40)) < ALPHA
    assert chance(attack, constant("nothing", 400, rng, T=40)) > ALPHA


def test_objects_to_sequences_without_a_before_and_after():
    """A few readings have no changes in them."""
    rng = np.random.default_rng(6)
    assert "too short" in Changes().objection(constant("mean", 5, rng, T=3), None)
    assert Changes().objection(constant("mean", 5, rng, T=24), None) == ""
