"""Least-change outputs: a filter of the scores, fitted to the readings, or a constant where no filter is better."""

from __future__ import annotations

import numpy as np
import pytest
from least_change_cases import FAMILY, room, simulated

import understudy as us
from understudy.distortion.measures import Measure
from understudy.errors import DesignError
from understudy.identify.history import History, Segment
from understudy.models.family import Family, along
from understudy.randomizer.least_change import (
    Filter,
    Run,
    exponential_means,
    fit_least_change,
    poles_of,
    runs_of,
)

MAE = Measure("mae", 1)


def stepwise(made: Filter, z: np.ndarray) -> np.ndarray:
    """The filter of the module's docstring, one reading after the other."""
    d = len(made.c)
    e, out = np.zeros((len(made.poles), d)), np.empty(z.shape)
    for k in range(len(z)):
        out[k] = made.c + made.C @ e.ravel() + made.L @ z[k]
        e = made.poles[:, None] * e + (1.0 - made.poles[:, None]) * z[k]
    return out


@pytest.mark.parametrize("d", [1, 2])
def test_the_filter_is_the_kalman_predictor_of_its_model(d: int) -> None:
    """Oracle: the recursion written out, the vectorised one and `us.colour` of the model agree to rounding."""
    rng = np.random.default_rng(d)
    poles, n = [0.37, 0.9, 0.999], 3 * d
    L = np.tril(rng.normal(size=(d, d))) * 0.1 + 4.0 * np.eye(d)
    made = Filter(poles, rng.normal(500.0, 10.0, d).tolist(), rng.uniform(0.0, 3.0, (d, n)).tolist(), L)
    z = rng.standard_normal((20_000, d))
    expected = stepwise(made, z)
    np.testing.assert_allclose(made.run(z), expected, rtol=1e-11)
    np.testing.assert_allclose(us.colour(z, made.model()), expected, rtol=1e-11)
    assert made.inverse_radius < 1.0
    np.testing.assert_allclose(us.whiten(us.colour(z, made.model()), made.model()), z, atol=1e-7)


def test_a_path_changes_the_coefficients_and_goes_on_with_the_means() -> None:
    """Columns share poles, so a path of pseudo values is one filter whose coefficients change."""
    one, other = (Filter([0.5, 0.9], [c], [[3.0, 2.0 * s]], [[s]]) for c, s in ((400.0, 1.0), (600.0, 3.0)))
    z = np.random.default_rng(1).standard_normal((60, 1))
    first = np.arange(60) // 10 % 2 == 0
    path = along([one.model() if here else other.model() for here in first])
    expected = np.where(first[:, None], one.run(z), other.run(z))
    np.testing.assert_allclose(us.colour(z, path), expected, rtol=1e-12)


def test_outputs_depend_on_scores_and_pseudo_value_alone() -> None:
    """Readings of two values with the same scores leave as the same numbers; twin: other scores do not."""
    target = Filter(poles_of(300.0).tolist(), [500.0], [[10.0] * len(poles_of(300.0))], [[3.0]]).model()
    rng = np.random.default_rng(2)
    z = rng.standard_normal(500)
    outputs = [us.disguise(us.colour(z, room(people)), room(people), target) for people in (0, 1)]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-10)
    other = us.disguise(us.colour(rng.standard_normal(500), room(0)), room(0), target)
    assert np.abs(other - outputs[0]).max() > 1.0


def test_a_filter_changes_readings_less_than_a_constant_and_than_another_value_does() -> None:
    """On days that nobody has seen; and the cost that was measured on training days is about right."""
    found = fit_least_change(runs_of(FAMILY, simulated(20, 1), 0), np.ones((2, 1)), MAE, 300.0)
    column = found.columns[0]
    assert not column.constant
    assert column.interval[0] < column.distortion < column.interval[1] < column.constant_distortion
    runs = runs_of(FAMILY, simulated(40, 2), 0)
    y, z = runs[0].Y[:, 0], runs[0].z[:, 0]
    change = np.abs(us.colour(z, column.target) - y).mean()
    assert change < 0.9 * np.abs(np.median(y) - y).mean()
    assert change < 0.9 * min(np.abs(us.colour(z, room(people)) - y).mean() for people in (0, 1))
    assert column.interval[0] - 1.0 < change < column.interval[1] + 1.0
    assert found.cost.shape == (2, 1)
    assert (found.error > 0.0).all()


def test_a_reading_counts_in_a_column_with_the_probability_of_the_draw() -> None:
    """A kernel that tells all fits each column to its own value; a kernel that tells nothing fits both alike."""
    runs = runs_of(FAMILY, simulated(12, 3), 0)
    telling = fit_least_change(runs, np.eye(2), MAE, 300.0).cost
    silent = fit_least_change(runs, np.full((2, 2), 0.5), MAE, 300.0).cost
    assert (np.diag(telling) < 0.5 * np.diag(telling[::-1])).all()
    assert np.allclose(silent[:, 0], silent[:, 1])


@pytest.mark.parametrize("why", ["fresh chance alone", "scores of another room", "two days"])
def test_a_constant_serves_where_no_filter_is_better(why: str) -> None:
    """With nothing in the scores about the readings, or too few days to tell."""
    runs = runs_of(FAMILY, simulated(2 if why == "two days" else 12, 4, times=False), 0)
    if why == "scores of another room":
        z = np.random.default_rng(9).standard_normal(runs[0].z.shape)
        runs = [runs[0]._replace(z=z)]
    found = fit_least_change(runs, np.ones((2, 1)), MAE, 300.0, fresh=1.0 if why == "fresh chance alone" else 0.0)
    column = found.columns[0]
    assert column.constant
    assert column.distortion == column.constant_distortion
    out = us.colour(np.random.default_rng(1).standard_normal(50), column.target)
    assert len(set(out.tolist())) == 1
    assert out[0] == pytest.approx(np.median(runs[0].Y), abs=0.1)


def test_squared_change_goes_back_to_the_mean() -> None:
    runs = runs_of(FAMILY, simulated(12, 4), 0)
    found = fit_least_change(runs, np.ones((2, 1)), Measure("mse", 1), 300.0, fresh=1.0)
    assert us.colour([0.3], found.targets[0])[0] == pytest.approx(runs[0].Y.mean(), abs=0.05)


def test_a_column_that_falls_back_beside_a_filter_is_a_filter_with_next_to_no_gain() -> None:
    """So that a path of pseudo values can change between the two."""
    runs = runs_of(FAMILY, simulated(12, 5), 0)
    noise = np.random.default_rng(3)
    split = [
        run._replace(z=np.where(run.theta[:, None] == 1, noise.standard_normal(run.z.shape), run.z)) for run in runs
    ]
    found = fit_least_change(split, np.eye(2), MAE, 300.0)
    assert [column.constant for column in found.columns] == [False, True]
    z = np.random.default_rng(1).standard_normal(500)
    assert us.colour(z, found.targets[1]).std() < 1.0
    us.colour(z, along([found.targets[k // 50 % 2] for k in range(500)]))


@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_the_filter_stays_near_what_was_seen_even_if_scores_go_wrong(bias: float) -> None:
    """Stable, mean-reverting, of bounded range: a score that is off by one for ever moves it by the range at most."""
    history = simulated(12, 6)
    runs = runs_of(FAMILY, history, 0)
    drift = bias * np.sin(np.arange(len(runs[0].z)) / 700.0)[:, None]
    found = fit_least_change([runs[0]._replace(z=runs[0].z + drift)], np.ones((2, 1)), MAE, 300.0)
    model = found.targets[0]
    if found.columns[0].constant:
        return
    span = float(np.ptp(history.stack()))
    assert max(abs(np.linalg.eigvals(model.A))) <= 0.999
    far = us.colour(np.full(20_000, 1.0), model) - model.d[0]
    assert np.abs(far).max() <= span
    later = us.colour(np.concatenate([np.full(1000, 5.0), np.zeros(20_000)]), model)
    assert abs(later[-1] - model.d[0]) < 1e-3 * span
    z = np.random.default_rng(5).uniform(-8.0, 8.0, 5000)
    assert np.abs(us.colour(z, model) - model.d[0]).max() <= 8.0 * span


def test_several_channels() -> None:
    """Channel by channel, each from the scores of all; a triangular gain with a positive diagonal."""
    rng = np.random.default_rng(7)

    def two(people: int) -> us.GaussMarkov:
        b = [12.0 + people, 0.6 + 0.02 * people]
        return us.GaussMarkov(np.diag([0.97, 0.97]), np.eye(2), [[9.0, 0.5], [0.5, 0.1]], np.eye(2) * 0.01, b=b)

    family = Family(two, values=[0, 1])
    theta = np.arange(3000) // 100 % 2
    Y = us.sample(family.along(theta.tolist()), 3000, rng=rng)
    history = History(("co2", "t"), "people", None, (), (0, 1), 300.0, (Segment("1", None, Y, theta),), ())
    found = fit_least_change(runs_of(family, history, 0), np.ones((2, 1)), Measure("mae", 2, [0.5, 10.0]), 300.0)
    assert not found.columns[0].constant
    assert found.columns[0].distortion < 0.8 * found.columns[0].constant_distortion
    assert us.colour(rng.standard_normal((50, 2)), found.targets[0]).shape == (50, 2)


def test_missing_readings_and_labels_cut_runs_and_models_without_a_law_of_the_beginning_wait() -> None:
    heavy = us.AutoRegressive([0.5, 0.2], noise=us.Gaussian(0.0, 1.0))
    family = Family({0: heavy, 1: us.AutoRegressive([0.4, 0.3], noise=us.Gaussian(0.0, 1.0))})
    Y = np.random.default_rng(1).standard_normal((40, 1))
    Y[10] = np.nan
    theta = np.zeros(40, dtype=int)
    theta[20:] = 1
    theta[30] = -1
    history = History(("y",), "p", None, (), (0, 1), None, (Segment("1", None, Y, theta),), ())
    runs = runs_of(family, history, 0)
    assert [len(run.Y) for run in runs] == [10, 19, 9]
    assert all(isinstance(run, Run) for run in runs)
    with pytest.raises(DesignError, match="no labelled readings"):
        runs_of(family, History(("y",), "p", None, (), (0, 1), None, (Segment("1", None, Y, theta * 0 - 1),), ()), 0)


def test_days_are_those_of_the_clock_or_of_the_period() -> None:
    timed = runs_of(FAMILY, simulated(5, 1), 0)
    assert len(np.unique(np.concatenate([run.day for run in timed]))) in (5, 6)
    plain = runs_of(FAMILY, simulated(5, 1, times=False), 0)
    assert np.unique(plain[0].day).tolist() == [0, 1, 2, 3, 4]


def test_a_function_of_ones_own_is_refused() -> None:
    runs = runs_of(FAMILY, simulated(4, 1), 0)
    with pytest.raises(DesignError, match="'mae' or 'mse'"):
        fit_least_change(runs, np.ones((2, 1)), Measure(lambda y, out: np.abs(y - out), 1), 300.0)


def test_exponential_means_begin_with_nothing() -> None:
    assert exponential_means(np.ones((3, 1)), np.array([0.5])).ravel().tolist() == [0.0, 0.5, 0.75]
