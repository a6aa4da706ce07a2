"""Sums by doubling, and many readings at a time, against the recursion taken step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import random_system, room
from scipy import stats

import understudy as us
from understudy.distortion import exact
from understudy.distortion.costs import costs
from understudy.transform.kalman_pair import gains


def predictor(model, T):
    """A, b, M, H, g, L of each step, from the textbook's Riccati recursion of the filtered covariance."""
    P = np.array(model.cov0)
    for k in range(1, T + 1):
        A, b, Q, C, d, R = model.at(k)
        S = A @ P @ A.T + Q
        L = np.linalg.cholesky(C @ S @ C.T + R)
        M = np.linalg.solve(L, C @ S).T  # K L = S C' L^-T
        P = S - M @ M.T
        P = (P + P.T) / 2
        yield A, b, M, C @ A, C @ b + d, L


def stepped(source, target, T, distortion):
    """One pair, one step after the other, in the coordinates (x - ~x, ~x) but with plain stacked matrices."""
    n, m = source.states, target.states
    N = max(n, m)
    wide = np.zeros(N), np.zeros(N)
    wide[0][:n], wide[1][:m] = source.mean0, target.mean0
    s, P, found = np.concatenate((wide[0] - wide[1], wide[1])), np.zeros((2 * N, 2 * N)), []
    for one, other in zip(predictor(source, T), predictor(target, T), strict=True):
        (A, b, M, H, g, L), (A2, b2, M2, H2, g2, L2) = (padded(side, N) for side in (one, other))
        F, h = np.block([[A, A - A2], [np.zeros((N, N)), A2]]), np.hstack((H, H - H2))
        noise = np.vstack((M - M2, M2))
        mean, V = h @ s + g - g2, np.diag(h @ P @ h.T + (L - L2) @ (L - L2).T)
        if distortion == "mse":
            found.append(np.mean(mean**2 + V))
        else:
            sd = np.sqrt(V)
            found.append(np.mean(stats.foldnorm.mean(np.abs(mean) / sd, scale=sd)) if sd.all() else np.abs(mean).mean())
        s, P = F @ s + np.concatenate((b - b2, b2)), F @ P @ F.T + noise @ noise.T
    return math.fsum(found) / T


def padded(side, N):
    A, b, M, H, g, L = side
    more = N - len(A)
    rows = ((0, more), (0, 0))
    return np.pad(A, (0, more)), np.pad(b, (0, more)), np.pad(M, rows), np.pad(H, rows[::-1]), g, L


def random_pair(seed, radius=0.9, **changes):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    systems = [random_system(rng, int(rng.integers(1, 5)), d, radius=radius) for _ in range(2)]
    return [us.GaussMarkov(**system, **changes) for system in systems]


HORIZONS = (1, 2, 7, 63, 64, 65, 300)


@pytest.mark.sample(default=2, seconds=10, reason="sixteen random systems, seven horizons each")
@pytest.mark.parametrize("seed", range(16))
def test_doubling_is_stepping(seed):
    """Random systems of 1 to 4 states and 1 to 3 channels, horizons short of the settling and beyond, to 1e-11."""
    one, other = random_pair(seed, radius=(0.5, 0.9, 0.97, 0.99)[seed % 4])
    for T in HORIZONS:
        found = costs(us.Family({0: one, 1: other}), horizon=T).matrix
        assert found[0, 1] == pytest.approx(stepped(one, other, T, "mse"), rel=1e-11), T
        assert found[1, 0] == pytest.approx(stepped(other, one, T, "mse"), rel=1e-11), T
        assert found[0, 0] == found[1, 1] == 0.0


@pytest.mark.sample(default=1, seconds=3, reason="six random systems")
@pytest.mark.parametrize("seed", range(6))
def test_many_readings_at_a_time_are_the_readings_one_by_one(seed):
    """The absolute error, to 1e-11."""
    one, other = random_pair(seed, radius=(0.5, 0.9, 0.99)[seed % 3])
    for T in (1, 31, 65, 400):
        found = costs(us.Family({0: one, 1: other}), horizon=T, distortion="mae").matrix
        assert found[0, 1] == pytest.approx(stepped(one, other, T, "mae"), rel=1e-11), T
        assert found[0, 0] == found[1, 1] == 0.0


def test_the_oracle_tells_one_step_more():
    """Twin: the sum over one reading more is not the sum."""
    one, other = random_pair(1)
    found = costs(us.Family({0: one, 1: other}), horizon=300).matrix[0, 1]
    assert found != pytest.approx(stepped(one, other, 301, "mse"), rel=1e-9)


@pytest.mark.long(seconds=2, reason="the plain recursion over thousands of steps")
@pytest.mark.parametrize("T", [5000])
def test_a_long_horizon(T):
    """Thousands of steps, of slow systems of several states."""
    one, other = random_pair(5, radius=0.999)
    found = costs(us.Family({0: one, 1: other}), horizon=T).matrix[0, 1]
    assert found == pytest.approx(stepped(one, other, T, "mse"), rel=1e-11)


@pytest.mark.long(seconds=2, reason="the plain recursion over two thousand steps")
@pytest.mark.parametrize("T", [10, 700, 2049])
@pytest.mark.parametrize("seed", range(2))
def test_unit_roots(seed, T):
    """Random walks with drift, also against a stable model: the error grows like a power of T."""
    one, other = random_pair(seed, radius=1.0)
    third = us.GaussMarkov(**random_system(np.random.default_rng(seed), 2, one.dim, radius=0.8))
    found = costs(us.Family({0: one, 1: other, 2: third}), horizon=T).matrix
    assert found[0, 1] == pytest.approx(stepped(one, other, T, "mse"), rel=1e-11)
    assert found[0, 2] == pytest.approx(stepped(one, third, T, "mse"), rel=1e-11)


def test_random_walks_by_hand():
    """Walks with other drifts: D_k = k (b - ~b), for ever; nothing is lost on a level of a million."""
    family = us.Family(lambda v: us.GaussMarkov(1.0, 1.0, 0.5, 1.0, v, 0.0, 1e6, 1.0), values=[0.0, 1e-3])
    for T in (10, 1000, 10**6):
        assert costs(family, horizon=T).matrix[0, 1] == pytest.approx(1e-6 * (T + 1) * (2 * T + 1) / 6, rel=1e-11)
    found = costs(family, horizon=10**5, distortion="mae").matrix[0, 1]
    assert found == pytest.approx(1e-3 * (10**5 + 1) / 2, rel=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_unstable_systems_over_a_short_horizon(seed):
    """A spectral radius of 1.1, beyond the settling of the gains."""
    one, other = random_pair(seed, radius=1.1, allow_unstable=True)
    T = 120
    found = costs(us.Family({0: one, 1: other}), horizon=T).matrix[0, 1]
    assert found == pytest.approx(stepped(one, other, T, "mse"), rel=1e-10)


def test_systems_that_change_are_stepped():
    """A model given per step beside a constant one."""
    rng = np.random.default_rng(4)
    T, still = 90, us.GaussMarkov(**random_system(rng, 2, 1))
    moving = us.GaussMarkov(us.PerStep(list(rng.uniform(0.2, 0.9, T))), 1.0, 1.0, 1.0, 0.3, 0.0, 1.0, 1.0)
    for name in ("mse", "mae"):
        found = costs(us.Family({0: still, 1: moving}), horizon=T, distortion=name).matrix[0, 1]
        assert found == pytest.approx(stepped(still, moving, T, name), rel=1e-11)


@pytest.mark.parametrize("shift", [-1, 0, 1, 2, 3])
def test_around_the_settling(shift):
    """The horizon ends just before, at and after the step where the gains have settled."""
    models = [room(v, Q=0.1 + v, A=0.9 + 0.05 * v) for v in (0, 1)]
    T = max(gains(model).rows - 1 for model in models) + shift
    for name in ("mse", "mae"):
        found = costs(us.Family(dict(enumerate(models))), horizon=T, distortion=name).matrix[0, 1]
        assert found == pytest.approx(stepped(*models, T, name), rel=1e-11)


def test_a_mean_that_cancels_leaves_no_rounding():
    """Rooms at rest on one level with other dynamics: on a level of 1e6 as on a level of 0, to 1e-11."""

    def family(level):
        def model(v):
            A = 0.875 + 0.0625 * v  # exact, and so is the level
            return us.GaussMarkov(A, 1.0, 0.1 + v, 0.1, level * (1 - A), 0.0, level, 1.0)

        return us.Family(model, values=[0, 0.5, 1])

    high, low = (costs(family(level), horizon=10**6).matrix for level in (2.0**20, 0.0))
    np.testing.assert_allclose(high, low, rtol=1e-11)


def test_a_start_far_away_leaves_the_limit_alone():
    """Means fall from a million to a difference of 1; over 1e12 readings the squared error is that of the rest."""
    family = us.Family(lambda v: room(0, b=0.05 * v, mean0=1e6 * v, Q=0.1 + v), values=[0, 1])
    limit = costs(family).matrix[0, 1]
    T = 10**12
    start = 1e12 * 0.95**2 / (1 - 0.95**2) / T
    assert costs(family, horizon=T).matrix[0, 1] == pytest.approx(limit + start, rel=1e-5)
    assert costs(family, horizon=10**15).matrix[0, 1] == pytest.approx(limit, rel=1e-2)


def test_tiles_of_readings_are_independent(monkeypatch):
    """Pair by pair or all together: the same absolute errors."""
    family = us.Family(lambda v: room(v, A=0.9 + 0.04 * v, R=0.1 + v), values=[0, 0.5, 1])
    whole = costs(family, horizon=200, distortion="mae").matrix
    monkeypatch.setattr(exact, "_TILE", 1)
    np.testing.assert_allclose(costs(family, horizon=200, distortion="mae").matrix, whole, rtol=1e-13)


@pytest.mark.parametrize("ratio", [0.0, 1e-9, 0.03, 0.1, 0.11, 1.0, 8.9, 9.1, 50.0, math.inf])
def test_the_mean_of_a_folded_normal(ratio):
    """E |N(m, s^2)| at every ratio m / s, alone and among others, against quadruple precision."""
    import mpmath

    from understudy.distortion.measures import Measure

    m, s = (2.0, 0.0) if math.isinf(ratio) else (2.0 * ratio, 2.0)
    with mpmath.workdps(40):
        exact_value = mpmath.mpf(m)
        if s:
            r = mpmath.mpf(m) / mpmath.mpf(s)
            exact_value = s * mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-r * r / 2) + m * mpmath.erf(r / mpmath.sqrt(2))
    measure = Measure("mae", 1)
    for others in ([], [(0.0, 1.0)] * 9, [(100.0, 1.0)] * 9, [(0.0, 0.0)]):
        pairs = np.array([(m, s), *others])
        means, variances = (column.reshape(1, 1, -1) for column in (pairs[:, 0], pairs[:, 1] ** 2))
        with np.errstate(over="ignore"):
            found = measure.of_normal(means, variances)[0, 0]
        assert found == pytest.approx(float(exact_value), rel=1e-15)
