"""The special cases: outputs have the law of the target; averaging gives away raw and noisy readings alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

import understudy as us
from understudy.checks import whiteness
from understudy.paper.examples import averages, compute, gaussian, office
from understudy.paper.examples import make_example as disguised
from understudy.paper.examples import simulate as simulated
from understudy.paper.examples import simulate_fan as simulated_fan
from understudy.paper.examples import ventilated_room as ventilated
from understudy.paper.setting import FALSE_ALARM, Settings

# Two sides of a normal law at the false-alarm rate of 1e-6.
SIGMAS = 4.892


@pytest.fixture(scope="module")
def outcome():
    return compute(Settings(quick=True))


@pytest.mark.parametrize("name", ["iid", "markov", "gauss_markov"])
def test_the_output_has_the_law_of_the_target_and_not_of_the_source(outcome, name):
    """Scores under the target are white standard normals (false alarm 1e-6); the twin, under the source, are not."""
    assert outcome.numbers[f"{name}_p_value"] > FALSE_ALARM
    assert outcome.numbers[f"{name}_twin_p_value"] < FALSE_ALARM


def test_each_example_has_a_hundred_thousand_readings_unless_quick():
    """The size that the report states, on the quickest of them."""
    rng = Settings().rng("test")
    example = disguised("", "", "", (office(True), office(False)), simulated(office(True), 500, 200, rng))
    assert example.out.size >= 100_000
    assert example.law.p_value > FALSE_ALARM
    assert example.twin.p_value < FALSE_ALARM


@pytest.mark.parametrize("name", ["markov", "gauss_markov"])
def test_readings_of_a_slightly_different_source_come_out_wrong(name):
    """The other twin: 5 percent more people than the source model has, or 5 percent more spread."""
    rng = Settings().rng("test")
    if name == "markov":
        source, target, Y = ventilated(2), ventilated(1), simulated_fan(2.1, 200, 25, rng)
    else:
        source, target = office(True), office(False)
        level = us.sample(source, 200, n=200, rng=1).mean(axis=2, keepdims=True)
        Y = level + 1.05 * (simulated(source, 200, 100, rng) - level)
    out = us.disguise(Y, source=source, target=target)
    assert whiteness(us.whiten(out, target)).p_value < FALSE_ALARM


def test_the_iid_filter_is_a_shift():
    """With unit variances ~y = y - theta + ~theta."""
    Y = np.random.default_rng(0).normal(1.0, 1.0, 100)
    assert us.disguise(Y, source=gaussian(1), target=gaussian(0.4)) == pytest.approx(Y - 0.6, abs=1e-12)


def test_simulation_and_model_agree():
    """Readings simulated from the definitions are white under their own models (false alarm 1e-6)."""
    rng = Settings().rng("test")
    assert whiteness(us.whiten(simulated_fan(2, 200, 25, rng), ventilated(2))).p_value > FALSE_ALARM
    assert whiteness(us.whiten(simulated(office(True), 200, 100, rng), office(True))).p_value > FALSE_ALARM


def test_disguised_readings_keep_their_secret_however_long_they_are_averaged():
    """Errors settle at the bound, and nowhere go below it (false alarm 1e-6 each)."""
    seen = averages(Settings(quick=True))
    sd = math.sqrt(seen.bound * (1.0 - seen.bound) / seen.sequences)
    assert seen.bound == pytest.approx(0.1336, abs=1e-4)
    assert (seen.errors["disguised"] > seen.bound - SIGMAS * sd).all()
    assert seen.errors["disguised"][-1] < seen.bound + SIGMAS * sd
    # the twin: raw readings, and those with unit noise, break the bound
    for stream in ("raw", "raw + noise, sd 1"):
        assert seen.errors[stream][-1] < seen.bound - SIGMAS * sd


@pytest.mark.parametrize(
    ("stream", "variance"), [("raw", 1.0), ("raw + noise, sd 1", 2.0), ("raw + noise, sd 10", 101.0)]
)
def test_noise_only_delays_the_law_of_large_numbers(stream, variance):
    """A mean of T readings errs with probability Phi(-sqrt(T / variance) / 2): exact, at three lengths."""
    seen = averages(Settings(quick=True))
    for i in (0, len(seen.T) // 2, -1):
        due = 0.5 * math.erfc(0.5 * math.sqrt(seen.T[i] / variance) / math.sqrt(2.0))
        sd = math.sqrt(due * (1.0 - due) / seen.sequences)
        assert abs(seen.errors[stream][i] - due) < SIGMAS * sd + 2.0 / seen.sequences


def test_running_means_go_where_they_should():
    """One sequence: raw to Theta, disguised to ~Theta, within 5 standard deviations of the last mean."""
    seen = averages(Settings(quick=True))
    near = 5.0 / math.sqrt(seen.T[-1])
    assert abs(seen.means["raw"][-1] - seen.theta) < near
    assert abs(seen.means["disguised"][-1] - seen.pseudo) < near


def test_figures_and_table(outcome):
    """A row an example with units on the axes; every row of the table has all its columns."""
    figure = outcome.pictures["examples"]()
    assert len(figure.axes) == 9
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)
    left, right = outcome.pictures["averages"]().axes
    assert (left.get_xscale(), right.get_ylabel()) == ("log", "wrong guesses (%)")
    (table,) = outcome.tables
    assert all(len(row) == len(table.columns) for row in table.rows)
