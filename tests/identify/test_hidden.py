"""The hidden Markov fit: expectations against all paths enumerated, a climb that never falls, recovery."""

import itertools

import numpy as np
import pytest
from identify_cases import history_of, simulated, total, with_holes

import understudy as us
from understudy.identify.candidates import rows_of
from understudy.identify.candidates.hidden_markov import Chain, fit_hidden
from understudy.identify.candidates.hidden_markov import expectation_step as expected
from understudy.identify.candidates.hidden_markov import maximisation_step as maximised
from understudy.identify.selection import log_densities

MOVES = np.array([[0.95, 0.04, 0.01], [0.03, 0.95, 0.02], [0.01, 0.04, 0.95]])


def room(v):
    """Three levels that depend on the value, with their own spread."""
    laws = [us.Gaussian(10.0 * s + 2.0 * v, (1.0 + 0.5 * v) ** 2) for s in range(3)]
    return us.HiddenMarkov(MOVES, [0.5, 0.3, 0.2], laws)


def small_case():
    """Two segments of a few readings, one missing, and a chain that is not the truth."""
    rng = np.random.default_rng(1)
    segments = [(rng.normal(0.0, 2.0, T), rng.integers(0, 2, T)) for T in (6, 5)]
    segments[0][0][2] = np.nan
    segments[1][1][1] = -1
    rows = rows_of(history_of(segments, (0, 1)))
    means, covs = rng.standard_normal((2, 2, 1)), rng.uniform(0.5, 2.0, (2, 2, 1, 1))
    return rows, Chain(np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([0.6, 0.4]), means, covs)


def test_expectations_are_those_of_all_paths():
    """Log-likelihood, state probabilities, moves and starts, from the sum over every path of the hidden state."""
    rows, chain = small_case()
    found = expected(chain, rows, rows.theta)
    loglik, moves, starts = 0.0, np.zeros((2, 2)), np.zeros(2)
    for piece in rows.pieces:
        y, theta = rows.Y[piece, 0], rows.theta[piece]
        T = len(y)
        gamma = np.zeros((T, 2))
        inner, first, whole = np.zeros((2, 2)), np.zeros(2), 0.0
        for path in itertools.product(range(2), repeat=T):
            p = chain.initial[path[0]]
            for k in range(T):
                if k:
                    p *= chain.A[path[k - 1], path[k]]
                if not np.isnan(y[k]):
                    m, v = chain.means[theta[k], path[k], 0], chain.covs[theta[k], path[k], 0, 0]
                    p *= np.exp(-0.5 * (y[k] - m) ** 2 / v) / np.sqrt(2.0 * np.pi * v)
            whole += p
            first[path[0]] += p
            for k in range(T):
                gamma[k, path[k]] += p
                if k:
                    inner[path[k - 1], path[k]] += p
        np.testing.assert_allclose(found.gamma[piece], gamma / whole, rtol=1e-10)
        loglik += np.log(whole)
        moves += inner / whole
        starts += first / whole
    assert found.loglik == pytest.approx(loglik, rel=1e-12)
    np.testing.assert_allclose(found.moves, moves, rtol=1e-10)
    np.testing.assert_allclose(found.starts, starts, rtol=1e-10)


def test_the_climb_does_not_fall():
    """Each step raises the likelihood (but for what the small leanings cost)."""
    history = simulated({v: room(v) for v in (0, 1)}, [800], seed=2)
    rows = rows_of(history)
    rng = np.random.default_rng(3)
    chain = Chain(
        np.full((3, 3), 1.0 / 3.0), np.full(3, 1.0 / 3.0), rng.uniform(0, 20, (2, 3, 1)), np.full((2, 3, 1, 1), 50.0)
    )
    before = -np.inf
    for _ in range(25):
        found = expected(chain, rows, rows.theta)
        assert found.loglik > before - 0.05
        before = found.loglik
        chain = maximised(found, rows, rows.theta, 2, np.array([1e-6]))


@pytest.mark.long(seconds=1, reason="fits hidden states")
def test_known_parameters_come_back():
    """Means within 5 sd/sqrt(n), variances within 5 sqrt(2/n), moves within 5 binomial errors of each level."""
    models = {v: room(v) for v in (0, 1)}
    history = simulated(models, [4000, 4000], seed=4)
    fit = fit_hidden(history, states=3)
    found = fit.parameters
    n = history.counts[:, None] / 6.0  # at least: levels are visited a third of the time, give or take a half
    truth = np.array([[10.0 * s + 2.0 * v for s in range(3)] for v in (0, 1)])
    sd = np.array([[1.0], [1.5]])
    assert (np.abs(np.array(found["mean"]) - truth) < 5.0 * sd / np.sqrt(n)).all()
    assert (np.abs(np.array(found["covariance"]) / sd**2 - 1.0) < 5.0 * np.sqrt(2.0 / n)).all()
    np.testing.assert_allclose(found["transition"], MOVES, atol=5.0 * np.sqrt(0.05 / 1300.0))
    # a fit is at least as likely as the truth
    assert total(log_densities(fit.models, history)) > total(log_densities(models, history)) - 1.0
    assert fit.count == 6 + 2 + 2 * 3 * 2


def test_more_levels_than_one_predict_better():
    """The twin: one hidden state is independent readings, and held out it loses."""
    models = {v: room(v) for v in (0, 1)}
    train, test = simulated(models, [2000], seed=5), simulated(models, [2000], seed=6)
    one, three = (total(log_densities(fit_hidden(train, states=s).models, test)) for s in (1, 3))
    assert three > one + 1000.0


@pytest.mark.long(seconds=2, reason="fits hidden states")
def test_two_channels_gaps_and_unknown_labels():
    """Vectors with holes: the likelihood of the fit is that of its models along the path."""
    cov = [[1.0, 0.5], [0.5, 2.0]]
    models = {
        v: us.HiddenMarkov([[0.95, 0.05], [0.1, 0.9]], [0.5, 0.5], [us.Gaussian([8.0 * s, v], cov) for s in range(2)])
        for v in (0, 3)
    }
    history = with_holes(simulated(models, [900, 300], seed=7), seed=8)
    fit = fit_hidden(history, states=2)
    np.testing.assert_allclose(np.array(fit.parameters["mean"])[:, :, 0], [[0.0, 8.0], [0.0, 8.0]], atol=0.4)
    np.testing.assert_allclose(fit.parameters["covariance"], np.broadcast_to(cov, (2, 2, 2, 2)), atol=0.5)
    rows = rows_of(history)
    chain = Chain(*(np.array(fit.parameters[name]) for name in ("transition", "initial", "mean", "covariance")))
    assert expected(chain, rows, rows.theta).loglik == pytest.approx(
        total(log_densities(fit.models, history)), rel=1e-10
    )


def test_the_same_random_state_gives_the_same_fit():
    """Starts are drawn from `random_state` alone."""
    history = simulated({v: room(v) for v in (0, 1)}, [600], seed=9)
    one, other = (fit_hidden(history, random_state=5).parameters for _ in range(2))
    assert one == other
