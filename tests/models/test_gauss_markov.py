"""The textbook recursion, the stationary start, and the continuous-time form."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
from helpers import OwnGaussMarkov, dense, draw, positive, random_system, stable, with_gaps

import understudy as us


def relative(a, b):
    """Largest difference relative to the size of b."""
    return np.nanmax(np.abs(a - b)) / max(1.0, np.nanmax(np.abs(b)))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 1), (3, 2), (6, 4)])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_textbook_path_agrees_with_the_kernels(n, d, gaps):
    """The four methods and the kernels give the same scores, readings and log-likelihood to 1e-12."""
    rng = np.random.default_rng([21, n, d])
    system = random_system(rng, n, d)
    Y = draw(rng, *dense(system, 80), 80)
    Y = with_gaps(rng, Y) if gaps else Y
    model = us.GaussMarkov(**system)
    own = OwnGaussMarkov(model)
    z = us.whiten(Y, model)
    assert relative(z, us.whiten(Y, own)) < 1e-12
    assert relative(us.colour(z, model), us.colour(z, own)) < 1e-12
    assert us.loglik(Y, model) == pytest.approx(us.loglik(Y, own), rel=1e-12)


def test_the_textbook_path_agrees_when_the_matrices_vary():
    """The same to 1e-12 for matrices that change at every step."""
    rng = np.random.default_rng(22)
    n, d, T = 3, 2, 60
    steps = [random_system(rng, n, d) for _ in range(T)]
    parts = {name: us.PerStep([step[name] for step in steps]) for name in ("A", "C", "Q", "R", "b", "d")}
    model = us.GaussMarkov(**parts, mean0=np.zeros(n), cov0=np.eye(n))
    Y = with_gaps(rng, rng.standard_normal((T, d)))
    assert relative(us.whiten(Y, model), us.whiten(Y, OwnGaussMarkov(model))) < 1e-12


def test_the_first_prediction_moves_the_start_by_one_step():
    """xhat_1|0 = A mean0 + b and S_1 = C (A cov0 A' + Q) C' + R (design 4.3)."""
    model = us.GaussMarkov(A=0.5, C=2.0, Q=0.3, R=0.7, b=1.0, d=4.0, mean0=10.0, cov0=2.0)
    law = model.predict(model.start())
    assert law.mean == pytest.approx(2.0 * (0.5 * 10.0 + 1.0) + 4.0, rel=1e-15)
    assert law.cov == pytest.approx(4.0 * (0.25 * 2.0 + 0.3) + 0.7, rel=1e-15)


def test_states_are_values():
    """Update and skip leave the state they are given alone."""
    model = us.GaussMarkov(**random_system(np.random.default_rng(23), 2, 2))
    state = model.start()
    before = (state.k, state.mean.copy(), state.cov.copy())
    model.update(state, np.ones(2))
    model.skip(state)
    assert state.k == before[0]
    assert np.array_equal(state.mean, before[1])
    assert np.array_equal(state.cov, before[2])


def test_the_arrays_of_a_model_are_read_only():
    """A model is a frozen value: it cannot be written to, and changing the input changes nothing."""
    A = np.array([[0.5, 0.1], [0.0, 0.4]])
    model = us.GaussMarkov(A, np.eye(2), np.eye(2), np.eye(2), mean0=[1.0, 2.0], cov0=np.eye(2))
    A[0, 0] = 99.0
    assert model.A[0, 0] == 0.5
    for array in (model.A, model.b, model.C, model.d, model.Q, model.R, model.mean0, model.cov0):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_default_start_is_the_stationary_law(n):
    """Without mean0 and cov0, X_0 has the law that one more step leaves as it is."""
    rng = np.random.default_rng([24, n])
    A, Q, b = stable(rng, n, 0.95), positive(rng, n), rng.standard_normal(n)
    model = us.GaussMarkov(A, np.ones((1, n)), Q, 1.0, b=b)
    expected = scipy.linalg.solve_discrete_lyapunov(A, Q)
    assert np.allclose(model.cov0, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
    assert np.allclose(A @ model.mean0 + b, model.mean0, rtol=1e-12, atol=1e-12)


def test_one_of_mean0_and_cov0_may_be_left_to_the_stationary_law():
    """A given mean0 keeps the stationary covariance, and the other way round."""
    assert us.GaussMarkov(0.5, 1.0, 3.0, 1.0, b=1.0, mean0=7.0).cov0[0, 0] == pytest.approx(4.0, rel=1e-14)
    assert us.GaussMarkov(0.5, 1.0, 3.0, 1.0, b=1.0, cov0=9.0).mean0[0] == pytest.approx(2.0, rel=1e-14)


def continuous_oracle(F, Q, b, period):
    """Transition, noise covariance and offset over a period, by numerical integration."""
    n = len(F)

    def slope(_, flat):
        Phi, P, u = flat[: n * n].reshape(n, n), flat[n * n : 2 * n * n].reshape(n, n), flat[2 * n * n :]
        return np.concatenate(((F @ Phi).ravel(), (F @ P + P @ F.T + Q).ravel(), F @ u + b))

    start = np.concatenate((np.eye(n).ravel(), np.zeros(n * n + n)))
    end = scipy.integrate.solve_ivp(slope, (0.0, period), start, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    return end[: n * n].reshape(n, n), end[n * n : 2 * n * n].reshape(n, n), end[2 * n * n :]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_continuous_system_is_sampled_exactly(n):
    """A, Q and b of a period solve Phi' = F Phi, P' = F P + P F' + Q, u' = F u + b."""
    rng = np.random.default_rng([25, n])
    F = rng.standard_normal((n, n)) - (n + 1) * np.eye(n)
    Q, b = positive(rng, n), rng.standard_normal(n)
    model = us.GaussMarkov.from_continuous(F, np.ones((1, n)), Q, 1.0, b=b, period=0.7)
    A, P, u = continuous_oracle(F, Q, b, 0.7)
    for ours, theirs in ((model.A, A), (model.Q, P), (model.b, u)):
        assert np.max(np.abs(ours - theirs)) < 1e-9


def test_small_euler_steps_lead_to_the_sampled_system():
    """Twenty thousand Euler steps of dX = (F X + b) dt + dW agree to the order of the step."""
    F, Q, b = np.array([[-0.5, 0.3], [0.1, -0.2]]), np.array([[0.4, 0.1], [0.1, 0.2]]), np.array([1.0, -2.0])
    steps, period = 20_000, 2.0
    h = period / steps
    E = np.eye(2) + h * F
    A, P, u = np.eye(2), np.zeros((2, 2)), np.zeros(2)
    for _ in range(steps):
        A, P, u = E @ A, E @ P @ E.T + h * Q, E @ u + h * b
    model = us.GaussMarkov.from_continuous(F, np.eye(2), Q, np.eye(2), b=b, period=period)
    for ours, theirs in ((model.A, A), (model.Q, P), (model.b, u)):
        assert np.max(np.abs(ours - theirs)) < 5 * h


@pytest.mark.parametrize("fast", [5.0, 40.0, 1000.0])
def test_a_stiff_continuous_system_is_sampled_exactly(fast):
    """A fast mode beside a slow one: Q of the period is P - A P A' with P the stationary covariance."""
    F, Q = np.array([[-fast, 1.0], [1.0, -0.1 - 1.0 / fast]]), np.eye(2)
    model = us.GaussMarkov.from_continuous(F, np.eye(2), Q, np.eye(2), period=1.0)
    P = scipy.linalg.solve_continuous_lyapunov(F, -Q)
    A = scipy.linalg.expm(F)
    assert np.allclose(model.A, A, rtol=1e-9, atol=1e-12)
    assert np.allclose(model.Q, P - A @ P @ A.T, rtol=1e-7, atol=1e-10)


def test_sampling_twice_as_often_is_two_steps_of_the_half():
    """The law over a period is that of two half periods: A = A_h A_h and Q = A_h Q_h A_h' + Q_h."""
    F, Q = np.array([[0.0, 1.0], [-2.0, -0.5]]), np.diag([0.0, 1.0])
    whole = us.GaussMarkov.from_continuous(F, [[1.0, 0.0]], Q, 0.1, b=[0.0, 1.0], period=0.4)
    half = us.GaussMarkov.from_continuous(F, [[1.0, 0.0]], Q, 0.1, b=[0.0, 1.0], period=0.2)
    assert np.allclose(whole.A, half.A @ half.A, rtol=1e-12, atol=1e-14)
    assert np.allclose(whole.Q, half.A @ half.Q @ half.A.T + half.Q, rtol=1e-12, atol=1e-14)
    assert np.allclose(whole.b, half.A @ half.b + half.b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("period", [0.0, -1.0, float("nan"), float("inf"), "1"])
def test_a_bad_period_is_refused(period):
    """The period is a positive number."""
    with pytest.raises(us.errors.ModelError, match="period"):
        us.GaussMarkov.from_continuous(-1.0, 1.0, 1.0, 1.0, period=period)
