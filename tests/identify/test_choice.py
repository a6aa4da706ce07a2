"""Model choice by held-out blocks: the true class wins, classes are compared on the same readings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from identify_frames import intake, room, simulated
from scipy import stats

import understudy as us
from understudy.errors import ConfigurationError, ModelError
from understudy.identify.candidates import Candidate
from understudy.identify.selection import choose, log_densities

NAMES = {"reading": "co2", "private": "people", "time": "time"}


def fixed(name, models):
    """A class with nothing to fit, so that its held-out score is known."""
    return lambda _: Candidate(name, models, {}, 0)


TRUE = {v: room(v) for v in (0, 1)}
FLAT = {v: us.IID(us.Gaussian(450.0 + 50.0 * v, 900.0)) for v in (0, 1)}
SWAPPED = {v: room(1 - v) for v in (0, 1)}


@pytest.fixture(scope="module")
def history():
    return intake(simulated(1200, seed=5), **NAMES)


def test_the_true_class_wins(history):
    """Against one without dynamics and one with the labels swapped; by how much stands in the table."""
    made = {"flat": fixed("flat", FLAT), "true": fixed("true", TRUE), "swapped": fixed("swapped", SWAPPED)}
    choice = choose(history, made)
    assert choice.chosen == choice.key == "true"
    assert choice.rows[0].name == "true"
    assert choice.rows[0].behind == 0.0
    assert all(row.behind > 4.0 * row.behind_error for row in choice.rows[1:])
    assert "clearly better" in choice.reason


def test_the_score_is_the_mean_log_density_of_the_held_out_rows(history):
    """An oracle: with nothing to fit, the mean over all blocks of what each gives to its own rows."""
    choice = choose(history, {"true": fixed("true", TRUE)}, blocks=5)
    held = [np.concatenate(log_densities(TRUE, part)) for _, part in history.blocks(5)]
    assert choice.rows[0].score == pytest.approx(float(np.concatenate(held).mean()), rel=1e-12)
    means = np.array([x.mean() for x in held])
    assert choice.rows[0].error == pytest.approx(means.std(ddof=1) / math.sqrt(5), rel=1e-9)
    assert choice.readings == 1200


def test_each_class_is_fitted_without_the_block_it_is_judged_on(history):
    """No fit sees a row of its held-out block."""
    seen = []

    def spy(rest):
        seen.append(np.concatenate([s.Y.ravel() for s in rest.segments]))
        return Candidate("spy", TRUE, {}, 0)

    choose(history, {"spy": spy}, blocks=4)
    for rest, (_, held) in zip(seen, history.blocks(4), strict=True):
        assert not np.isin(np.concatenate([s.Y.ravel() for s in held.segments]), rest).any()


def test_classes_are_compared_on_the_same_readings(history):
    """A class without a law for first readings does not gain by it: they count for none."""
    student = us.Scalar(stats.t(300.0, 0.0, 2.2))  # nearly normal
    late = {v: us.AutoRegressive(0.9, 40.0 + 10.0 * v, student, past=[400.0]) for v in (0, 1)}
    choice = choose(history, {"true": fixed("true", TRUE), "late": fixed("late", late)})
    assert choice.readings == 1200 - 4  # the first of each of four blocks


def test_one_that_cannot_be_fitted_stands_in_the_table(history):
    """With the reason; the others are compared without it."""

    def broken(_):
        raise ModelError("no such luck")

    choice = choose(history, {"broken": broken, "true": fixed("true", TRUE)})
    assert choice.chosen == "true"
    assert "no such luck" in choice.rows[-1].note
    assert choice.rows[-1].score is None
    assert "no such luck" in str(choice)
    with pytest.raises(ConfigurationError, match="no model class could be fitted"):
        choose(history, {"broken": broken})


def test_one_that_cannot_be_used_is_shown_and_not_chosen(history):
    """The best of the rest is, and it is said."""
    made = {"true": fixed("true", TRUE), "flat": fixed("flat", FLAT)}
    choice = choose(history, made, unusable=lambda c: "has no grid" if c.name == "true" else None)
    assert choice.chosen == "flat"
    assert choice.rows[0].name == "true"
    assert choice.rows[0].behind < 0.0
    assert "of those that can be used" in choice.reason
    with pytest.raises(ConfigurationError, match="cannot be used: has no grid"):
        choose(history, made, unusable=lambda c: "has no grid" if c.name == "true" else None, wanted="true")


def test_classes_that_do_equally_well_are_called_so(history):
    """The same models under two names."""
    choice = choose(history, {"true": fixed("true", TRUE), "again": fixed("again", dict(TRUE))})
    assert "by next to nothing" in choice.reason


def test_the_user_can_override(history):
    """By name; a name that is not there is refused."""
    made = {"true": fixed("true", TRUE), "flat": fixed("flat", FLAT)}
    choice = choose(history, made, wanted="flat")
    assert (choice.chosen, choice.reason) == ("flat", "flat, as asked for")
    with pytest.raises(ConfigurationError, match="it is none of"):
        choose(history, made, wanted="round")


def test_a_reading_without_a_chance_is_no_number(history):
    """A class that gives some held-out reading density zero has no score, and says why."""
    narrow = {v: us.IID(us.Scalar(stats.uniform(0.0, 1.0))) for v in (0, 1)}
    choice = choose(history, {"true": fixed("true", TRUE), "narrow": fixed("narrow", narrow)})
    assert choice.chosen == "true"
    assert choice.rows[-1].score is None
    assert "outside the support" in choice.rows[-1].note


def test_the_table_as_text_and_as_plain_values(history):
    """One line a class, the chosen one marked; JSON has no NaN."""
    import json

    choice = choose(history, {"flat": fixed("flat", FLAT), "true": fixed("true", TRUE)})
    lines = str(choice).splitlines()
    assert lines[1].startswith("* true")
    assert lines[2].startswith("  flat")
    assert json.loads(json.dumps(choice.to_plain(), allow_nan=False))[0]["name"] == "true"
    assert repr(choice) == "Choice('true' of 2 models, 1200 held-out readings)"


def test_progress_goes_from_nought_to_one(history):
    """In steps that never go back."""
    shares: list[float] = []
    choose(history, {"true": fixed("true", TRUE), "flat": fixed("flat", FLAT)}, progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) == 8
    assert shares[-1] == 1.0
