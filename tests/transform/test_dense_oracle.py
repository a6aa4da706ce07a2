"""Whitening under GaussMarkov equals whitening by the dense joint Gaussian (issue, "must be shown" 2)."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import dense, dense_scores, draw, positive, random_system, stable, with_gaps

import understudy as us

T = 30
SIZES = [(n, d) for n in range(1, 7) for d in range(1, 5)]


def check(system, Y, model, partial=False):
    """Scores and log-likelihood against the oracle, to 1e-9."""
    z, loglik = dense_scores(Y, *dense(system, len(Y)), partial=partial)
    ours = us.whiten(Y, model, partial=partial)
    assert np.array_equal(np.isnan(z), np.isnan(ours))
    assert np.nanmax(np.abs(z - ours)) < 1e-9
    assert us.loglik(Y, model, partial=partial) == pytest.approx(loglik, rel=1e-11, abs=1e-9)
    back = us.colour(ours, model, partial=partial)
    assert np.nanmax(np.abs(back - Y) / (1 + np.abs(Y))) < 1e-9


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_scores_of_a_constant_system(n, d):
    """Without gaps, for every size up to 6 states and 4 outputs."""
    rng = np.random.default_rng([1, n, d])
    system = random_system(rng, n, d)
    Y = draw(rng, *dense(system, T), T)
    check(system, Y, us.GaussMarkov(**system))


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_scores_with_gaps(n, d):
    """Missing readings are rows deleted from the joint Gaussian, the first and the last reading included."""
    rng = np.random.default_rng([2, n, d])
    system = random_system(rng, n, d)
    Y = with_gaps(rng, draw(rng, *dense(system, T), T))
    Y[[0, -1]] = np.nan
    check(system, Y, us.GaussMarkov(**system))


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("n", [1, 3, 6])
def test_scores_with_missing_channels(n, d):
    """With partial=True each missing channel is one row deleted from the joint Gaussian."""
    rng = np.random.default_rng([3, n, d])
    system = random_system(rng, n, d)
    Y = with_gaps(rng, draw(rng, *dense(system, T), T), share=0.25, partial=True)
    check(system, Y, us.GaussMarkov(**system), partial=True)


@pytest.mark.sample(default=2, seconds=1, reason="many systems, step by step")
@pytest.mark.parametrize(("n", "d"), [(2, 1), (3, 2), (5, 3), (6, 4)])
def test_scores_with_a_singular_state_noise(n, d):
    """Q of rank one and no measurement noise on a one-output system are positive semidefinite, and enough."""
    rng = np.random.default_rng([4, n, d])
    system = random_system(rng, n, d, rank=1)
    if d == 1:
        system["R"] = np.zeros((1, 1))
    Y = draw(rng, *dense(system, T), T)
    check(system, Y, us.GaussMarkov(**system))
    check(system, with_gaps(rng, Y), us.GaussMarkov(**system))


def test_scores_of_a_companion_form():
    """AR(3) in companion form: Q singular, R = 0, cov0 = 0, nonzero b, d and mean0, with and without gaps."""
    rng = np.random.default_rng(5)
    A = np.array([[0.5, -0.3, 0.2], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    system = {
        "A": A, "C": np.array([[1.0, 0.0, 0.0]]), "Q": np.diag([2.0, 0.0, 0.0]), "R": np.zeros((1, 1)),
        "b": np.array([1.5, 0.0, 0.0]), "d": np.array([-4.0]), "mean0": np.array([3.0, 1.0, -2.0]),
        "cov0": np.zeros((3, 3)),
    }  # fmt: skip
    Y = draw(rng, *dense(system, T), T)
    check(system, Y, us.GaussMarkov(**system))
    check(system, with_gaps(rng, Y), us.GaussMarkov(**system))


@pytest.mark.parametrize("radius", [1.0, 1.05])
def test_scores_of_a_system_that_is_not_stable(radius):
    """Spectral radius 1, and above it when allowed."""
    rng = np.random.default_rng(6)
    system = random_system(rng, 3, 2, radius=radius)
    Y = draw(rng, *dense(system, T), T)
    check(system, Y, us.GaussMarkov(**system, allow_unstable=True))


def test_a_reading_long_after_the_gains_settled():
    """Scores on the frozen part of the table agree with the dense joint Gaussian, across a gap too."""
    rng = np.random.default_rng(7)
    system = random_system(rng, 2, 2, radius=0.7)
    Y = draw(rng, *dense(system, 150), 150)
    check(system, Y, us.GaussMarkov(**system))
    Y[70:75] = np.nan
    check(system, Y, us.GaussMarkov(**system))


def varying(rng, n, d, count):
    """A random system whose every matrix changes at every step, as lists of `count` entries."""
    steps = [random_system(rng, n, d, rank=1 + k % n) for k in range(count)]
    system = {name: [step[name] for step in steps] for name in ("A", "C", "Q", "R", "b", "d")}
    return {**system, "mean0": rng.standard_normal(n), "cov0": positive(rng, n)}


def given_as(form, system):
    """The model of a varying system: PerStep, arrays with one axis more, or callables of k."""
    names = ("A", "C", "Q", "R", "b", "d")
    if form == "per step":
        parts = {name: us.PerStep(system[name]) for name in names}
    elif form == "array":
        parts = {name: np.array(system[name]) for name in names}
    else:
        parts = {name: (lambda k, values=system[name]: values[k - 1]) for name in names}
    return us.GaussMarkov(**parts, mean0=system["mean0"], cov0=system["cov0"])


@pytest.mark.parametrize("form", ["per step", "array", "callable"])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 1), (3, 2), (6, 4)])
def test_scores_of_a_time_varying_system(form, n, d):
    """Entry k governs the move into X_k and the reading Y_k; without gaps, with, and by channel."""
    rng = np.random.default_rng([8, n, d])
    system = varying(rng, n, d, T)
    model = given_as(form, system)
    Y = draw(rng, *dense(system, T), T)
    check(system, Y, model)
    check(system, with_gaps(rng, Y), model)
    check(system, with_gaps(rng, Y, partial=True), model, partial=True)


def test_the_oracle_tells_a_shifted_time_convention():
    """Twin: the same matrices one step late do not pass, so the test above fixes the convention."""
    rng = np.random.default_rng(9)
    system = varying(rng, 2, 1, T + 1)
    Y = draw(rng, *dense(system, T), T)
    late = {name: v[1:] if isinstance(v, list) else v for name, v in system.items()}
    z, _ = dense_scores(Y, *dense(system, T))
    assert np.max(np.abs(z - us.whiten(Y, given_as("per step", late)))) > 0.1


def test_one_parameter_may_vary_alone():
    """A single varying parameter (b as a plain list on a scalar model) leaves the others constant."""
    rng = np.random.default_rng(10)
    b = rng.standard_normal(T).tolist()
    system = {"A": 0.9, "C": 2.0, "Q": 0.3, "R": 0.2, "b": b, "d": 1.0, "mean0": 4.0, "cov0": 2.0}
    Y = draw(rng, *dense(system, T), T)[:, 0]
    check(system, Y, us.GaussMarkov(**system))


def test_many_sensors_against_the_oracle():
    """(T, d, N) with a gap pattern for each sensor: scores and log-likelihoods, sensor by sensor."""
    rng = np.random.default_rng(11)
    system = random_system(rng, 3, 2)
    mean, cov = dense(system, T)
    Y = np.stack([draw(rng, mean, cov, T) for _ in range(5)], axis=2)
    Y[3:6, :, 1] = Y[0, :, 2] = Y[::4, :, 4] = np.nan
    model = us.GaussMarkov(**system)
    z, loglik = us.whiten(Y, model), us.loglik(Y, model)
    whole = us.loglik(Y[:, :, [0, 3]], model)
    for j in range(5):
        zj, lj = dense_scores(Y[:, :, j], mean, cov)
        assert np.nanmax(np.abs(zj - z[:, :, j])) < 1e-9
        assert loglik[j] == pytest.approx(lj, rel=1e-11)
    assert whole == pytest.approx(loglik[[0, 3]], rel=1e-12)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (4, 3)])
def test_the_disguise_is_the_target_cholesky_times_the_source_scores(n, d):
    """~Y = ~mean + ~L z with the dense factors of both joint laws: Theorem 1 for Gaussian sequences."""
    rng = np.random.default_rng([12, n, d])
    source, target = random_system(rng, n, d), random_system(rng, 2, d)
    Y = draw(rng, *dense(source, T), T)
    z, _ = dense_scores(Y, *dense(source, T))
    mean, cov = dense(target, T)
    expected = (mean + np.linalg.cholesky(cov) @ z.ravel()).reshape(T, d)
    ours = us.disguise(Y, us.GaussMarkov(**source), us.GaussMarkov(**target))
    assert np.max(np.abs(ours - expected)) < 1e-9


def test_a_per_step_system_holds_when_one_side_is_constant():
    """Varying source, constant target, gaps: colouring whitened readings is the same as disguising."""
    rng = np.random.default_rng(13)
    system = varying(rng, 2, 2, T)
    constant = {**random_system(rng, 3, 2), "A": stable(rng, 3, 0.5)}
    Y = with_gaps(rng, draw(rng, *dense(system, T), T))
    source, target = given_as("array", system), us.GaussMarkov(**constant)
    both = us.disguise(Y, source, target)
    assert np.nanmax(np.abs(both - us.colour(us.whiten(Y, source), target))) < 1e-11
