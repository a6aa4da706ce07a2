"""A schedule disguised as another: the law of the output, what adversaries see, and the bound that they keep to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from understudy.paper.examples import (
    DAYS,
    PLAYED,
    TRUE,
    along,
    best_guess,
    path,
    randomizer,
    redrawing_error,
    share,
)
from understudy.paper.examples import compute_schedule as compute
from understudy.paper.examples import disguise_days as disguised
from understudy.paper.setting import FALSE_ALARM, Settings

SIGMAS = 4.892  # two sides of a normal law at 1e-6


@pytest.fixture(scope="module")
def days():
    return disguised(Settings())


def test_the_output_has_the_law_of_the_schedule_that_is_played(days):
    """120,000 readings, white under the played path (false alarm 1e-6)."""
    assert days.out.size >= 100_000
    assert days.law.p_value > FALSE_ALARM, days.law.weakest


def test_the_same_test_catches_the_true_schedule_and_one_that_is_a_reading_late(days):
    """The twins: theta_k enters the step into x_k, not the one after."""
    assert days.twin.p_value < FALSE_ALARM
    assert days.late.p_value < FALSE_ALARM


def test_the_model_of_a_path_takes_the_value_of_its_own_reading():
    """Mean of X_k is a mean of X_{k-1} + b theta_k."""
    mean = 100.0
    model = along(path(TRUE))
    for k, theta in enumerate(path(TRUE), start=1):
        mean = 0.95 * mean + 10.0 * theta
        assert model.at(k).b.item() == 10.0 * theta
    assert mean == pytest.approx(
        sum(0.95 ** (240 - k) * 10.0 * t for k, t in enumerate(path(TRUE), 1)) + 100 * 0.95**240
    )


def test_an_adversary_reads_the_schedule_that_is_played(days):
    """Raw readings give the true schedule away; disguised ones show the other."""
    assert share(days.Y, path(TRUE)) > 0.999
    assert share(days.out, path(PLAYED)) > 0.999
    overlap = (np.array(path(TRUE)) == np.array(path(PLAYED)))[1:].mean()
    assert share(days.out, path(TRUE)) == pytest.approx(overlap, abs=1e-3)


def test_the_best_adversary_keeps_to_the_bound():
    """Wrong about the day as often as the design says (false alarm 1e-6), and less often than a blind guess."""
    design = randomizer()
    error, N = best_guess(design, Settings(quick=True))
    bound = design.guarantee.bayes_error
    sd = math.sqrt(bound * (1.0 - bound) / N)
    assert abs(error - bound) < SIGMAS * sd
    assert error < 1.0 - 1.0 / len(DAYS) - SIGMAS * sd  # not blind either: the leakage is there


def test_drawing_at_every_reading_gives_the_schedule_away():
    """The trap: the same leakage a draw, and nearly all of the day is read."""
    assert redrawing_error(Settings(quick=True)) > 0.9


def test_outcome():
    """Numbers, a table with whole rows, a figure with three panels over the same day."""
    outcome = compute(Settings(quick=True))
    assert outcome.numbers["p_value"] > FALSE_ALARM > outcome.numbers["twin_p_value"]
    (table,) = outcome.tables
    assert all(len(row) == len(table.columns) for row in table.rows)
    figure = outcome.pictures["schedule"]()
    assert [ax.get_ylabel() for ax in figure.axes] == [
        "CO2 (ppm above outdoors)",
        "occupancy (people)",
        "estimate (people)",
    ]
