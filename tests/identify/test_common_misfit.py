"""A misfit that all values share costs no privacy: I(Theta; z) = min over R of sum_i p_i KL(Q_i || R), exactly."""

import numpy as np
import pytest

import understudy as us
from understudy.identify.gate import gate
from understudy.identify.history import History, Segment

MODELS = {0: us.IID(us.Gaussian(400.0, 9.0)), 1: us.IID(us.Gaussian(600.0, 100.0))}
"""What the design believes: white readings around a level. In truth they are autoregressive."""


def toeplitz(a, T):
    """The covariance of a stationary autoregression with variance one."""
    lag = np.arange(T)
    return a ** np.abs(lag[:, None] - lag)


def gaussian_divergence(S, R):
    """KL(N(0, S) || N(0, R)) in nats."""
    return 0.5 * (np.trace(np.linalg.solve(R, S)) - len(S) + np.linalg.slogdet(R)[1] - np.linalg.slogdet(S)[1])


def divergence(q, r):
    return float((q * np.log(q / r)).sum())


def test_the_mutual_information_is_the_least_mean_divergence():
    """Discrete laws, so that both sides are sums. The mean law attains it; any other R is off by KL(mean || R)."""
    rng = np.random.default_rng(1)
    p, Q = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(6), size=3)
    joint = p[:, None] * Q
    information = divergence(joint.ravel(), np.outer(p, joint.sum(axis=0)).ravel())
    mean = p @ Q
    assert abs(sum(p[i] * divergence(Q[i], mean) for i in range(3)) - information) < 1e-14
    for _ in range(20):
        R = rng.dirichlet(np.ones(6))
        total = sum(p[i] * divergence(Q[i], R) for i in range(3))
        assert total >= information
        assert abs(total - information - divergence(mean, R)) < 1e-13


def test_scores_of_the_same_law_add_nothing_whatever_the_law():
    """Both values have the same autoregression: the bound by white scores is useless, and the leak is 0."""
    T, a = 200, 0.7
    S = toeplitz(a, T)
    to_white = gaussian_divergence(S, np.eye(T))
    assert to_white == pytest.approx(-0.5 * (T - 1) * np.log(1.0 - a * a), rel=1e-12)
    assert to_white > 50.0 > np.log(2.0)
    assert gaussian_divergence(S, S) == pytest.approx(0.0, abs=1e-9)
    assert gaussian_divergence(toeplitz(0.2, T), S) > 1.0


def matrix(function, T):
    """The matrix of an affine map of T readings."""
    origin = function(np.full(T, 500.0))
    return np.stack([function(np.full(T, 500.0) + unit) - origin for unit in np.eye(T)], axis=1)


def test_an_output_does_not_know_the_value_where_the_scores_share_a_law():
    """Exact covariances: z autoregressive, y coloured by model i, disguised as model j. The twin has two memories."""
    T = 30
    rooms = {
        i: us.GaussMarkov(a, 1.0, Q, 1.0, b=500.0 * (1.0 - a), mean0=500.0, cov0=4.0)
        for i, (a, Q) in enumerate([(0.9, 1.0), (0.6, 9.0)])
    }
    colour = {i: matrix(lambda z, model=model: us.colour(z, model), T) for i, model in rooms.items()}

    def output(i, memory):
        disguise = matrix(lambda y: us.disguise(y, source=rooms[i], target=rooms[1]), T)
        map_of_scores = disguise @ colour[i]
        return map_of_scores @ toeplitz(memory, T) @ map_of_scores.T

    assert np.allclose(output(0, 0.7), output(1, 0.7), rtol=0.0, atol=1e-9)
    assert np.allclose(output(0, 0.7), colour[1] @ toeplitz(0.7, T) @ colour[1].T, rtol=0.0, atol=1e-9)
    assert np.abs(output(0, 0.2) - output(1, 0.7)).max() > 1.0


def recording(memory, seed, days=16, rows=96):
    """Readings with this autoregression under each value, and presence that moves within the day."""
    rng = np.random.default_rng(seed)
    theta = np.concatenate([np.repeat([0, 1, 0], [s, e, rows - s - e]) for s, e in rng.integers(20, 40, (days, 2))])
    z, a = rng.standard_normal(days * rows), np.asarray(memory)[theta]
    for k in range(1, len(z)):
        z[k] = a[k] * z[k - 1] + np.sqrt(1.0 - a[k] ** 2) * z[k]
    Y = np.where(theta == 1, 600.0 + 10.0 * z, 400.0 + 3.0 * z)
    return Y, theta, np.arange(len(z)) / rows


@pytest.mark.long(seconds=10, reason="two recordings, each gated and audited")
def test_a_shared_autoregression_passes_gate_and_audit_and_its_twin_neither():
    """At zero budget: one pseudo value, so that whatever an adversary learns is in the scores."""
    family = us.Family(MODELS)
    design = us.design_causal(family, [[0.97, 0.03], [0.03, 0.97]], rate=0.0, distortion="mae")
    best = {}
    for name, memory in (("shared", (0.7, 0.7)), ("apart", (0.0, 0.9))):
        Y, theta, day = recording(memory, seed=3)
        times = (day * 86_400e9).astype(np.int64)
        held = History(("co2",), "people", None, (), (0, 1), 900.0, (Segment("1", times, Y[:, None], theta),), ())
        made = gate(MODELS, held)
        assert made.attack.unit == "day"
        assert {verdict.name for verdict in made.failed} >= {"memory"}
        assert made.outcome == ("passed" if name == "shared" else "leak")
        found = us.audit(design, Y, theta, ["hmm"], rng=1, noise=False, utility=False, replicates=1)
        best[name] = found.best.balanced
    assert best["shared"].value < 0.58
    assert best["apart"].low > 0.7
