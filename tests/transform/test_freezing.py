"""Gain tables: they settle, agree with the unfrozen recursion, and are returned to after a gap."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import OwnGaussMarkov, random_system, room, same_bits

import understudy as us
from understudy.transform import kalman_pair as tables

SLOW = {"A": 0.999, "C": 1.0, "Q": 1e-4, "R": 1.0, "mean0": 0.0, "cov0": 5.0}


def unfrozen(Y, model):
    """Scores by the textbook recursion, which knows no table."""
    return us.whiten(Y, OwnGaussMarkov(model))


def test_the_room_settles_in_about_twenty_steps():
    """At a = 0.95 the table has 19 or 20 rows, and its last row serves for ever after."""
    gains = tables.gains(room(1))
    assert gains.frozen
    assert 15 <= gains.rows <= 25


def test_a_slow_system_settles_in_over_a_thousand_steps():
    """At a = 0.999 with a small Q it takes more than a thousand rows."""
    gains = tables.gains(us.GaussMarkov(**SLOW))
    assert gains.frozen
    assert 500 < gains.rows < 5000


@pytest.mark.parametrize("seed", range(4))
def test_frozen_gains_match_the_unfrozen_recursion(seed):
    """Scores agree to 1e-10 far beyond the point where the table ends."""
    rng = np.random.default_rng([41, seed])
    n, d = [(1, 1), (2, 1), (3, 2), (5, 3)][seed]
    model = us.GaussMarkov(**random_system(rng, n, d, radius=[0.95, 0.5, 0.9, 0.97][seed]))
    gains = tables.gains(model)
    assert gains.frozen
    Y = us.sample(model, 3 * gains.rows + 100, rng=rng)
    assert np.max(np.abs(us.whiten(Y, model) - unfrozen(Y, model))) < 1e-10


def test_a_slow_system_matches_the_unfrozen_recursion():
    """The same at a = 0.999, where freezing too early would show most."""
    model = us.GaussMarkov(**SLOW)
    Y = us.sample(model, 4000, rng=42)
    assert np.max(np.abs(us.whiten(Y, model) - unfrozen(Y, model))) < 1e-10


def test_channels_of_very_different_scale_do_not_freeze_each_other():
    """A slow channel of variance 1 is not frozen early because a quick one of variance 1e8 has settled."""
    model = us.GaussMarkov(
        A=np.diag([0.0, 0.999]), C=np.eye(2), Q=np.diag([1e8, 1e-4]), R=np.diag([1e8, 1.0]),
        mean0=[0.0, 0.0], cov0=np.diag([1e8, 5.0]),
    )  # fmt: skip
    Y = us.sample(model, 2000, rng=43)
    assert np.max(np.abs(us.whiten(Y, model) - unfrozen(Y, model))) < 1e-10


def test_a_gap_in_a_channel_of_small_scale_is_not_forgotten_early():
    """After a gap the carried covariance returns to the table only when every state has returned."""
    model = us.GaussMarkov(
        A=np.diag([0.0, 0.99]), C=np.eye(2), Q=np.diag([1e8, 1e-2]), R=np.diag([1e8, 1.0]),
        mean0=[0.0, 0.0], cov0=np.diag([1e8, 1.0]),
    )  # fmt: skip
    Y = us.sample(model, 1500, rng=44)
    Y[700:760] = np.nan
    assert np.nanmax(np.abs(us.whiten(Y, model) - unfrozen(Y, model))) < 1e-10


@pytest.mark.parametrize("gaps", [False, True])
def test_a_table_that_never_settles_within_the_cap(monkeypatch, gaps):
    """Past a capped table the covariance is carried along, and the answer is unchanged."""
    Y = us.sample(us.GaussMarkov(**SLOW), 600, rng=45)
    if gaps:
        Y[[5, 33, 40, 41, 42, 300]] = np.nan
    full = us.disguise(Y, us.GaussMarkov(**SLOW), room(1))
    monkeypatch.setattr(tables, "_MOST_ROWS", 8)
    monkeypatch.setattr(tables, "_FIRST_ROWS", 8)
    capped, settled = us.GaussMarkov(**SLOW), room(1)
    assert not tables.gains(capped).frozen
    assert tables.gains(capped).rows == 8
    assert np.nanmax(np.abs(us.disguise(Y, capped, settled) - full)) < 1e-10
    transform = us.Transform(capped, settled)
    state, parts = transform.start(), []
    for start, stop in ((0, 3), (3, 8), (8, 9), (9, 33), (33, 41), (41, 600)):
        state, out = transform.apply(state, Y[start:stop])
        parts.append(out)
    assert same_bits(np.concatenate(parts), us.disguise(Y, capped, settled))
    many = np.repeat(Y[:, None, None], 3, axis=2)
    assert same_bits(us.disguise(many, capped, settled)[:, 0, 1], us.disguise(Y, capped, settled))
    assert us.loglik(Y, capped) == pytest.approx(us.loglik(Y, us.GaussMarkov(**SLOW)), rel=1e-12)
    assert us.loglik(many, capped)[2] == pytest.approx(us.loglik(Y, capped), rel=1e-12)


def test_the_cap_is_used_when_nothing_settles():
    """A random walk that nothing observes never settles: the table is capped, the scores stay right."""
    model = us.GaussMarkov(
        A=np.diag([1.0, 0.5]), C=[[0.0, 1.0]], Q=np.diag([1.0, 1.0]), R=1.0, mean0=[0.0, 0.0], cov0=np.eye(2)
    )
    seen = us.GaussMarkov(A=0.5, C=1.0, Q=1.0, R=1.0, mean0=0.0, cov0=1.0)
    Y = us.sample(seen, 200, rng=46)
    assert np.max(np.abs(us.whiten(Y, model) - us.whiten(Y, seen))) < 1e-10


def test_a_hidden_state_that_grows_does_not_spoil_short_sequences():
    """A state that grows without bound and that nothing observes leaves the scores of the rest alone."""
    model = us.GaussMarkov(
        A=np.diag([2.0, 0.5]),
        C=[[0.0, 1.0]],
        Q=np.eye(2),
        R=1.0,
        mean0=[0.0, 0.0],
        cov0=np.eye(2),
        allow_unstable=True,
    )
    seen = us.GaussMarkov(A=0.5, C=1.0, Q=1.0, R=1.0, mean0=0.0, cov0=1.0)
    Y = us.sample(seen, 50, rng=47)
    assert np.max(np.abs(us.whiten(Y, model) - us.whiten(Y, seen))) < 1e-10


@pytest.mark.parametrize("length", [1, 3, 60])
def test_the_state_is_short_again_after_a_gap(length):
    """A gap makes the state carry its covariances; they go once the gains are back at the frozen ones."""
    transform = us.Transform(room(1), room(0.4, A=0.9))
    Y = us.sample(room(1), 400, rng=48)
    state, _ = transform.apply(transform.start(), Y[:100])
    assert len(state) == 3
    state, out = transform.apply(state, np.full(length, np.nan))
    assert len(state) == 5
    assert np.isnan(out).all()
    steps = 0
    while len(state) == 5:
        state, _ = transform.step(state, float(Y[100 + steps]))
        steps += 1
        assert steps < 100
    assert len(state) == 3
    assert steps >= 5


def test_the_carried_covariance_returns_to_the_frozen_one():
    """Covariances are dropped when they agree with the frozen ones to 1e-15, and not before."""
    transform = us.Transform(room(1), room(0))
    frozen = tables.gains(room(1))
    settled = frozen.covariance(frozen.rows - 1)[0]
    state, _ = transform.apply(transform.start(), us.sample(room(1), 100, rng=49))
    state, _ = transform.apply(state, np.full(60, np.nan))
    last = state
    while len(state) == 5:
        last = state
        state, _ = transform.step(state, 150.0)
    x = room(1)
    sigma = 0.95**2 * last[3] + x.Q[0, 0]
    after = sigma * x.R[0, 0] / (sigma + x.R[0, 0])
    assert abs(after - settled) <= 2e-15 * settled
    assert abs(last[3] - settled) > 1e-15 * settled


def test_the_innovation_variance_after_sixty_missing_samples():
    """At a = 0.95 it is 4.4 times the settled one (design, section 5): the table alone would be far off."""
    model = room(1)
    state = model.start()
    for _ in range(100):
        state = model.update(state, 150.0)
    settled = model.predict(state).cov
    for _ in range(60):
        state = model.skip(state)
    assert model.predict(state).cov / settled == pytest.approx(4.4, abs=0.05)
    Y = np.full(161, 150.0)
    Y[100:160] = np.nan
    mean = float(model.predict(state).mean)
    Y[160] = mean + 1.0
    before = np.append(Y[:100], 0.0)
    quiet = model.start()
    for _ in range(100):
        quiet = model.update(quiet, 150.0)
    before[100] = float(model.predict(quiet).mean) + 1.0
    ratio = us.whiten(before, model)[100] / us.whiten(Y, model)[160]
    assert ratio**2 == pytest.approx(4.4, abs=0.05)


def test_gains_do_not_depend_on_the_readings():
    """With the same gaps go the same gains: the transformation is affine in the readings."""
    Y = us.sample(room(1), 200, n=2, rng=50)[:, 0, :]
    Y[[10, 50, 51, 120]] = np.nan
    a, b = (us.disguise(Y[:, j], room(1), room(0.3)) for j in range(2))
    middle = us.disguise(0.5 * (Y[:, 0] + Y[:, 1]), room(1), room(0.3))
    assert np.nanmax(np.abs(middle - 0.5 * (a + b))) < 1e-10
