"""The recursion for Gaussian models against one big joint Gaussian of the stacked sequences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import dense, random_system, room
from scipy import stats

import understudy as us
from understudy.distortion import exact
from understudy.distortion.costs import costs
from understudy.transform import kalman_pair as gains

POWERS = {"mse": 2, "mae": 1}


def per_step(rng, n, d, T):
    """A random system whose matrices change at every step, as lists of T."""
    members = [random_system(rng, n, d) for _ in range(T)]
    first = {name: members[0][name] for name in ("mean0", "cov0")}
    return first | {name: [m[name] for m in members] for name in ("A", "C", "Q", "R", "b", "d")}


def model_of(system):
    return us.GaussMarkov(**{k: us.PerStep(v) if isinstance(v, list) else v for k, v in system.items()})


def family_of(*systems):
    return us.Family(dict(enumerate(model_of(system) for system in systems)))


def oracle(source, target, T, distortion, weights=None):
    """Y - ~Y = mean - ~mean + (F - ~F) z with F, ~F the Cholesky factors of the two joint covariances."""
    (mean, cov), (mean_out, cov_out) = dense(source, T), dense(target, T)
    F = np.linalg.cholesky(cov) - np.linalg.cholesky(cov_out)
    m, V = (mean - mean_out).reshape(T, -1), (F @ F.T).reshape(T, len(mean) // T, T, -1)
    d = m.shape[1]
    V = np.stack([V[k, :, k] for k in range(T)])
    if np.ndim(weights) == 2:
        return float(np.mean([m[k] @ weights @ m[k] + np.trace(weights @ V[k]) for k in range(T)]))
    w = np.full(d, 1.0 / d) if weights is None else np.asarray(weights)
    v = np.einsum("kll->kl", V)
    if distortion == "mse":
        return float(((m**2 + v) @ w).mean())
    s = np.sqrt(v)
    return float((stats.foldnorm.mean(np.abs(m) / s, scale=s) @ w).mean())


@pytest.mark.sample(default=12, seconds=1, reason="many pairs, integrated or simulated")
@pytest.mark.parametrize("distortion", ["mse", "mae"])
@pytest.mark.parametrize("seed", range(12))
def test_every_pair_agrees_with_the_joint_gaussian(seed, distortion):
    """Constant and per-step systems of 1 to 4 states and 1 to 3 channels, mixed in one family, to 1e-10."""
    rng = np.random.default_rng(seed)
    d, T = 1 + seed % 3, int(rng.integers(1, 13))
    systems = [random_system(rng, int(rng.integers(1, 5)), d, rank=1 if k == 1 else None) for k in range(3)]
    systems.append(per_step(rng, int(rng.integers(1, 5)), d, T))
    found = costs(family_of(*systems), horizon=T, distortion=distortion)
    expected = [[0.0 if a is b else oracle(a, b, T, distortion) for b in systems] for a in systems]
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-10, atol=0)
    assert (found.method == "exact").all()
    assert not found.error.any()
    means = [dense(system, T)[0].mean() for system in systems]
    assert found.mean_reading == pytest.approx(np.mean(means), rel=1e-10)


@pytest.mark.parametrize("distortion", ["mse", "mae"])
def test_the_oracle_tells_a_slightly_different_pair(distortion):
    """Twin: a state noise one part in a million larger is seen at the tolerance of the test above."""
    rng = np.random.default_rng(1)
    a, b = random_system(rng, 2, 2), random_system(rng, 3, 2)
    found = costs(family_of(a, b), horizon=7, distortion=distortion).matrix[0, 1]
    assert found != pytest.approx(oracle(a, b | {"Q": b["Q"] * (1 + 1e-6)}, 7, distortion), rel=1e-10)


def test_weights_by_channel_and_as_a_matrix():
    """Weights (d,) make a sum over channels, weights (d, d) a quadratic form, also a singular one."""
    rng = np.random.default_rng(5)
    a, b, T = random_system(rng, 3, 3), random_system(rng, 2, 3), 9
    family, w = family_of(a, b), np.array([0.0, 2.0, 0.5])
    for name in ("mse", "mae"):
        assert costs(family, horizon=T, distortion=name, weights=w).matrix[0, 1] == pytest.approx(
            oracle(a, b, T, name, w), rel=1e-10
        )
    root = rng.standard_normal((3, 2))
    for W in (root @ root.T, np.diag(w)):
        assert costs(family, horizon=T, weights=W).matrix[0, 1] == pytest.approx(oracle(a, b, T, "mse", W), rel=1e-10)
    by_channel = costs(family, horizon=T, weights=w).matrix
    np.testing.assert_allclose(costs(family, horizon=T, weights=np.diag(w)).matrix, by_channel, rtol=1e-12)


def test_the_papers_room():
    """At the kernel of leakage 0.3 the room's mean absolute distortion is 17.35, and its mean reading 100."""
    family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    found = costs(family, pseudo=[0, 0.2, 0.4, 0.6, 0.8, 1], horizon=50, distortion="mae")
    assert found.mean_reading == pytest.approx(100.0, rel=1e-12)
    e = 0.13359
    kernel = np.array([[1 - e, 0, 0, 0, 0, e], [e, 0, 0, 0, 0, 1 - e]])
    value, error = found.expected(kernel / 2)
    assert value == pytest.approx(17.346, abs=2e-3)
    assert error == 0.0
    assert found.matrix[0, 0] == found.matrix[1, 5] == 0.0
    # the two rooms differ in their offsets alone, so the difference is certain: a geometric sum
    by_hand = np.mean([10.0 * (1 - 0.95**k) / 0.05 for k in range(1, 51)])
    assert found.matrix[0, 5] == pytest.approx(by_hand, rel=1e-13)


def test_other_gaussian_models_are_exact_too():
    """Autoregressions and independent readings with Gaussian noise agree with the same law as a joint Gaussian."""
    ar = us.AutoRegressive([0.5, 0.2], intercept=1.0, noise=us.Gaussian(0.3, 2.0), past=[4.0, 3.0])
    iid = us.IID(us.Gaussian(2.0, 3.0))
    found = costs(us.Family({0: ar, 1: iid}), horizon=8, distortion="mae")
    A, b = np.array([[0.5, 0.2], [1.0, 0.0]]), np.array([1.3, 0.0])
    as_ar = {"A": A, "C": np.array([[1.0, 0.0]]), "Q": np.diag([2.0, 0.0]), "R": np.zeros((1, 1)), "b": b, "d": 0.0}
    as_ar |= {"mean0": np.array([4.0, 3.0]), "cov0": np.zeros((2, 2))}
    as_iid = {"A": 0.0, "C": 1.0, "Q": 3.0, "R": 0.0, "b": 2.0, "d": 0.0, "mean0": 0.0, "cov0": 0.0}
    assert found.matrix[0, 1] == pytest.approx(oracle(as_ar, as_iid, 8, "mae"), rel=1e-10)
    assert (found.method == "exact").all()


def test_vectors_of_independent_readings():
    """IID Gaussian vectors: E |Y - ~Y|^2 is |mean difference|^2 + |L - ~L|^2, Cholesky factors of the covariances."""
    rng = np.random.default_rng(3)
    means, roots = rng.standard_normal((2, 3)), rng.standard_normal((2, 3, 3))
    covs = [root @ root.T + np.eye(3) for root in roots]
    family = us.Family({k: us.IID(us.Gaussian(means[k], covs[k])) for k in (0, 1)})
    L = [np.linalg.cholesky(cov) for cov in covs]
    expected = (np.sum((means[0] - means[1]) ** 2) + np.sum((L[0] - L[1]) ** 2)) / 3
    assert costs(family).matrix[0, 1] == pytest.approx(expected, rel=1e-12)
    assert costs(family, horizon=4).matrix[0, 1] == pytest.approx(expected, rel=1e-12)


def test_digits_survive_a_large_common_offset():
    """Readings a million standard deviations from zero: the distortion is that without the offset."""
    near = us.Family(lambda v: room(v, A=0.95 + 0.01 * v, mean0=0.0, b=v), values=[0, 1])
    far = us.Family(lambda v: room(v, A=0.95 + 0.01 * v, mean0=0.0, b=v, d=1e6), values=[0, 1])
    for name in ("mse", "mae"):
        a, b = (costs(family, horizon=40, distortion=name).matrix for family in (near, far))
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_nearly_equal_models_keep_their_digits():
    """A change of one part in 1e9 gives a squared error of 1e-18 times a constant, not rounding."""
    base, eps = random_system(np.random.default_rng(8), 2, 2), 1e-9
    family = us.Family(lambda v: us.GaussMarkov(**base | {"Q": base["Q"] * (1 + v)}), values=[0.0, eps, 1e-4])
    found = costs(family, horizon=10).matrix[0]
    assert found[1] / eps**2 == pytest.approx(found[2] / 1e-8, rel=1e-3)


def test_a_parameter_that_moves():
    """A path of a switched family is a per-step model like any other."""
    family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1 + v, 0.2, v, 0.0, 0.0, 1.0), values=[0, 1])
    path = [0, 0, 1, 1, 0]
    found = costs(us.Family({"a": family.along(path), "b": family.model(0)}), horizon=5)
    base = {"A": 0.9, "C": 1.0, "R": 0.2, "d": 0.0, "mean0": 0.0, "cov0": 1.0}
    moving = base | {"Q": [0.1 + v for v in path], "b": [float(v) for v in path]}
    still = base | {"Q": 0.1, "b": 0.0}
    assert found.matrix[0, 1] == pytest.approx(oracle(moving, still, 5, "mse"), rel=1e-10)


def test_callable_matrices_over_many_blocks():
    """A system given by functions of k, over more steps than are laid out at once."""

    def model(v):
        return us.GaussMarkov(
            lambda k: 0.5 + 0.4 * math.sin(k + v), 1.0, lambda k: 1.0 + v / k, 0.1, 0.0, 0.0, 0.0, 1.0
        )

    def system(v):
        T = range(1, 151)
        A, Q = [0.5 + 0.4 * math.sin(k + v) for k in T], [1.0 + v / k for k in T]
        return {"A": A, "C": 1.0, "Q": Q, "R": 0.1, "b": 0.0, "d": 0.0, "mean0": 0.0, "cov0": 1.0}

    found = costs(us.Family(model, values=[0, 1]), horizon=150, distortion="mae").matrix
    assert found[0, 1] == pytest.approx(oracle(system(0), system(1), 150, "mae"), rel=1e-10)


def test_tiles_of_pairs_are_independent(monkeypatch):
    """One source at a time, or all together: the same figures, also where gains are carried from step to step."""
    rng = np.random.default_rng(6)
    family = family_of(*(per_step(rng, 2, 1, 70) for _ in range(3)), random_system(rng, 1, 1))
    whole = costs(family, horizon=70).matrix
    monkeypatch.setattr(exact, "_TILE", 1)
    np.testing.assert_allclose(costs(family, horizon=70).matrix, whole, rtol=1e-12)


def test_gains_beyond_the_end_of_their_table(monkeypatch):
    """A table that is cut off before the gains have settled is continued step by step."""

    def model(v):
        return us.GaussMarkov(0.999, 1.0, 1e-4 * (1.0 + v), 1.0, 0.0, 0.0, 0.0, 1.0)

    whole = costs(us.Family(model, values=[0, 1]), horizon=150).matrix
    monkeypatch.setattr(gains, "_MOST_ROWS", 40)
    np.testing.assert_allclose(costs(us.Family(model, values=[0, 1]), horizon=150).matrix, whole, rtol=1e-12)
    system = [
        {"A": 0.999, "C": 1.0, "Q": 1e-4 * (1.0 + v), "R": 1.0, "b": 0.0, "d": 0.0, "mean0": 0.0, "cov0": 1.0}
        for v in (0, 1)
    ]
    assert whole[0, 1] == pytest.approx(oracle(*system, 150, "mse"), rel=1e-9)


def test_unstable_models_have_a_distortion_over_a_horizon():
    """Spectral radius above 1 is exact over a short horizon."""
    rng = np.random.default_rng(2)
    a, b = random_system(rng, 2, 1, radius=1.2), random_system(rng, 1, 1, radius=1.0)
    members = {0: us.GaussMarkov(**a, allow_unstable=True), 1: us.GaussMarkov(**b)}
    found = costs(us.Family(members), horizon=10).matrix
    assert found[0, 1] == pytest.approx(oracle(a, b, 10, "mse"), rel=1e-9)


@pytest.mark.parametrize("distance", [0.05, 0.5, 3.8, 40.0])
def test_a_mean_far_away_beside_a_variance_that_stays(distance):
    """Independent readings, near and far: E |N(m, v)| by quadrature, whichever way it is worked out."""
    root = math.sqrt(1.0209)
    family = us.Family({0: us.IID(us.Gaussian(20.0, 1.0)), 1: us.IID(us.Gaussian(20.0 + distance, 1.0209))})
    found = us.costs(family, None, 20, "mae").matrix
    spread = stats.norm(distance, root - 1.0)
    points = np.linspace(spread.mean() - 12.0 * spread.std(), spread.mean() + 12.0 * spread.std(), 400_001)
    expected = float((np.abs(points) * spread.pdf(points)).sum() * (points[1] - points[0]))
    assert found[0, 1] == pytest.approx(expected, rel=1e-8)
    assert found[1, 0] == pytest.approx(expected, rel=1e-8)
