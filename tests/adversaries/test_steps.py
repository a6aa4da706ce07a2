"""Log-densities of outputs under every model at once, against the models' own methods, one reading at a time."""

import itertools

import numpy as np
import pytest
import scipy.stats
from helpers import random_system

import understudy as us
from understudy.adversaries.learners.bayes import gaussian_logs, refusal, sequence_logs, step_logs
from understudy.models.quantised import OnGrid, Quantised

HEAVY = us.Scalar(scipy.stats.t(4.0, 0.0, 2.0))


def heavy(v):
    return us.AutoRegressive([0.6, 0.2 + 0.1 * v], intercept=5.0 + v, noise=HEAVY, past=[24.0, 25.0])


def hidden(v):
    laws = [us.Gaussian(v, 1.0), us.Gaussian(4.0 + v, 2.0)]
    return us.HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], laws)


KINDS = {
    "independent": lambda v: us.IID(us.Gaussian(v, 1.0 + v)),
    "heavy tails": heavy,
    "heavy tails on a grid": lambda v: OnGrid(heavy(v), step=0.5),
    "normal autoregression": lambda v: us.AutoRegressive([0.5, 0.2], v, us.Gaussian(0.0, 1.0 + v), [1.0, 0.0]),
    "Gauss-Markov": lambda v: us.GaussMarkov(0.9, 1.0, 0.5, 0.3 + v, b=v, mean0=0.0, cov0=1.0),
    "Gauss-Markov on a grid": lambda v: OnGrid(us.GaussMarkov(0.9, 1.0, 0.5, 0.3, b=v, mean0=0.0, cov0=1.0), step=0.5),
    "hidden Markov": hidden,
    "Markov": lambda v: us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(0.5 * y + v, 1.0)),
    "two channels": lambda v: us.GaussMarkov(**random_system(np.random.default_rng(int(10 * v)), 2, 2)),
    "two channels, independent": lambda v: us.IID(us.Gaussian(np.array([v, 1.0]), np.array([[2.0, v], [v, 1.0]]))),
}  # fmt: skip


def by_methods(model, Y):
    """One sequence (T, d), as the four methods have it."""
    state, found = model.start(), []
    for row in Y:
        y = row.item() if model.dim == 1 else row
        if np.isnan(row).any():
            found.append(0.0)
            state = model.skip(state)
        else:
            found.append(float(model.predict(state).logpdf(y)))
            state = model.update(state, y)
    return found


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_log_densities_are_those_of_the_models(kind, count):
    """For few and for many sequences, to 1e-9."""
    models = [KINDS[kind](v) for v in (0.0, 0.5)]
    Y = us.sample(models[0], 12, count, rng=1)
    logs = step_logs(models, Y)
    for j, s in itertools.product(range(2), range(0, count, 7)):
        np.testing.assert_allclose(logs[j, :, s], by_methods(models[j], Y[:, :, s]), atol=1e-9)
    np.testing.assert_allclose(sequence_logs(models, Y), logs.sum(axis=1))


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize(
    "kind", ["independent", "normal autoregression", "Gauss-Markov", "hidden Markov", "two channels"]
)
def test_missing_readings_tell_nothing_and_laws_go_on_across_them(kind, count):
    """Where a model has a law across a gap; gaps differ from sequence to sequence."""
    models = [KINDS[kind](v) for v in (0.0, 0.5)]
    Y = us.sample(models[0], 12, count, rng=1)
    gone = np.random.default_rng(3).random((12, count)) < 0.3
    Y[np.broadcast_to(gone[:, None], Y.shape)] = np.nan
    logs = step_logs(models, Y)
    for j, s in itertools.product(range(2), range(0, count, 7)):
        np.testing.assert_allclose(logs[j, :, s], by_methods(models[j], Y[:, :, s]), atol=1e-9)


def test_heavy_tails_say_nothing_after_a_gap_until_the_past_is_whole():
    """Two readings after the one that is missing; all others as they are."""
    models = [heavy(0.0), heavy(0.5)]
    Y = us.sample(models[0], 12, 3, rng=1)
    logs = step_logs(models, Y)
    Y[5, :, 1] = np.nan
    after = step_logs(models, Y)
    changed = after != logs
    assert changed.any(axis=0).sum() == 3
    assert changed[:, 5:8, 1].all()
    assert not after[:, 5:8, 1].any()


def test_readings_off_the_grid_are_taken_for_the_nearest_on_it():
    """Noise that was added, or a map that forgot the grid, stops no adversary."""
    model = KINDS["heavy tails on a grid"](0.0)
    Y = us.sample(model, 12, 3, rng=1)
    np.testing.assert_array_equal(step_logs([model], Y + 0.1), step_logs([model], Y))


@pytest.mark.parametrize(("step", "near"), [(0.25, 1e-4), (1.0, 0.01), (4.0, 0.05)])
def test_a_rounded_sensor_is_nearly_exact(step, near):
    """Against the sensor's own filters: moment matching to rounding, and the point-mass filter nearly."""
    linear = us.GaussMarkov(0.9, 1.0, 0.5, 0.3, mean0=0.0, cov0=1.0)
    Y = us.sample(Quantised(linear, step=step), 50, 3, rng=1)
    for method, within in (("moments", 1e-8), ("point-mass", near)):
        model = Quantised(linear, step=step, method=method)
        exact = np.array([by_methods(model, Y[:, :, s]) for s in range(3)]).T
        np.testing.assert_allclose(step_logs([model], Y)[0], exact, atol=within)


def test_fine_steps_go_the_quick_way_to_the_same_numbers():
    """A twentieth of an innovation standard deviation: to 1e-3 nats a reading, sums over 50 to 2e-3."""
    linear = us.GaussMarkov(0.9, 1.0, 0.5, 0.3, mean0=0.0, cov0=1.0)
    for model in (Quantised(linear, step=0.05, method="moments"), OnGrid(linear, step=0.05)):
        Y = us.sample(model, 50, 3, rng=1)
        exact = np.array([by_methods(model, Y[:, :, s]) for s in range(3)]).T
        found = step_logs([model], Y)[0]
        np.testing.assert_allclose(found, exact, atol=1e-3)
        np.testing.assert_allclose(found.sum(axis=0), exact.sum(axis=0), atol=2e-3)


def by_paths(models, Y, mixing):
    """Predictive log-densities of the last reading under each last model, summed over all paths before: exact."""
    n, T = len(models), len(Y)
    total = np.full(n, -np.inf)
    before = np.full(n, -np.inf)
    for path in itertools.product(range(n), repeat=T):
        odds = -np.log(n) + sum(np.log(mixing[i, j]) for i, j in itertools.pairwise(path))
        family = us.Family(dict(enumerate(models)))
        total[path[-1]] = np.logaddexp(total[path[-1]], odds + us.loglik(Y, family.along(path)))
        early = us.loglik(Y[:-1], family.along(path[:-1])) if T > 1 else 0.0
        before[path[-1]] = np.logaddexp(before[path[-1]], odds + early)
    return total - before


def test_mixed_filters_of_hidden_markov_models_are_exact():
    """Against the sum over all paths of five readings."""
    models, mixing = [hidden(0.0), hidden(1.0)], np.array([[0.8, 0.2], [0.3, 0.7]])
    Y = us.sample(models[0], 5, rng=1)
    logs = step_logs(models, Y[:, None, None], mixing)[:, :, 0]
    for k in range(5):
        np.testing.assert_allclose(logs[:, k], by_paths(models, Y[: k + 1], mixing), atol=1e-9)


def test_mixed_kalman_filters_are_nearly_so():
    """Within 0.05 nats of the sum over all paths, and nearer by far than constant models are."""
    models = [KINDS["Gauss-Markov"](v) for v in (0.0, 1.0)]
    mixing = np.array([[0.8, 0.2], [0.3, 0.7]])
    Y = us.sample(us.Family(dict(enumerate(models))).along([0, 0, 1, 1, 0, 0]), 6, rng=1)
    mixed, constant = (step_logs(models, Y[:, None, None], M)[:, :, 0] for M in (mixing, None))
    exact = np.array([by_paths(models, Y[: k + 1], mixing) for k in range(6)]).T
    assert np.abs(mixed - exact).max() < 0.05
    assert np.abs(constant - exact).max() > 0.2


def test_both_ways_through_gauss_markov_models_agree():
    """The compiled loop for few sequences, and the bank for many."""
    models = [us.GaussMarkov(**random_system(np.random.default_rng(s), 3, 2)) for s in (1, 2)]
    Y = us.sample(models[0], 30, 20, rng=1)
    Y[7:9, :, ::2] = np.nan
    few = np.concatenate([gaussian_logs(models, Y[:, :, s : s + 5], None, 1) for s in range(0, 20, 5)], axis=2)
    there = ~np.isnan(few)
    np.testing.assert_allclose(gaussian_logs(models, Y, None, 1)[there], few[there], atol=1e-8)


def test_what_cannot_be_had_is_refused_with_the_reason():
    """Models that are asked one reading at a time, too many of them; or without a filter for a value that moves."""

    class Own:
        dim = 1

    assert "no filter for a value that moves" in refusal([Own()], 10, moving=True)
    assert "too many" in refusal([Own()], 10**7, moving=False)
    assert refusal([Own()], 10, moving=False) == ""
    assert refusal([KINDS["Markov"](0.0)], 10, moving=True) == ""
