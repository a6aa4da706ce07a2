"""The scalar loops carry the predicted reading; nothing of that may show."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers import same_bits

import understudy as us
from understudy.errors import MissingReadingError, NumericalError, ReadingError, StateError
from understudy.transform.kalman_pair import Pair, white


def model(**changed):
    given = {"A": 0.95, "C": 1.0, "Q": 0.013, "R": 0.07, "b": 0.0, "d": 0.0, "mean0": 0.0, "cov0": 1.0, **changed}
    return us.GaussMarkov(**given)


def textbook(Y, m):
    """Scores by the four methods."""
    state, z = m.start(), []
    for y in Y:
        if np.isnan(y):
            state = m.skip(state)
            z.append(np.nan)
        else:
            z.append(m.predict(state).score(y))
            state = m.update(state, y)
    return np.array(z)


@pytest.mark.parametrize(
    "changed",
    [
        *({"cov0": cov0} for cov0 in (0.0, 1e7, 1e12, 1e16)),
        {"Q": 1e-12, "R": 1e-12},
        {"A": 0.0},
        {"C": 0.0},
        {"A": 0.0, "C": 0.0, "d": 5.0},
        {"A": -0.9, "b": 3.0, "d": -2.0},
        {"A": 1.0},
        {"R": 0.0},
        {"Q": 0.0},
        {"C": 1e-9},
        {"C": 1e9},
    ],
    ids=str,
)
@pytest.mark.parametrize("gaps", [(), (0,), (0, 1, 2), (3, 4), (30,)], ids=str)
def test_scores_are_those_of_the_four_methods(changed, gaps):
    """Whatever the start, the scale and the place of the gaps, to 1e-9 of the largest score."""
    m = model(**changed)
    rng = np.random.default_rng(1)
    Y = us.colour(rng.standard_normal(50), model(**{**changed, "cov0": min(m.cov0.item(), 1.0)}))
    Y[list(gaps)] = np.nan
    expected = textbook(Y, m)
    assert np.nanmax(np.abs(us.whiten(Y, m) - expected)) < 1e-9 * max(1.0, np.nanmax(np.abs(expected)))


@pytest.mark.parametrize("cov0", [1.0, 1e7, 1e12])
def test_the_likelihood_of_one_sensor_is_that_of_many(cov0):
    """The table and the carried covariance give the same number."""
    m = model(cov0=cov0)
    Y = us.sample(model(), 50, rng=2)
    assert us.loglik(Y[:, None, None], m)[0] == pytest.approx(us.loglik(Y, m), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-165, 1e-160, 1e-12, 1.0, 1e12, 1e200])
def test_gains_settle_at_any_scale(scale):
    """Squares of covariances leave the range of float64; the test for settling must not need them."""
    m = model(Q=scale, R=scale, cov0=100.0 * scale)
    one = model(Q=1.0, R=1.0, cov0=100.0)
    Y = us.sample(one, 60, rng=3)
    assert np.max(np.abs(us.whiten(Y * np.sqrt(scale), m) - us.whiten(Y, one))) < 1e-9
    pair = us.GaussMarkov(
        np.diag([0.9, 0.5]), np.eye(2), scale * np.eye(2), scale * np.eye(2), cov0=100 * scale * np.eye(2)
    )
    unit = us.GaussMarkov(np.diag([0.9, 0.5]), np.eye(2), np.eye(2), np.eye(2), cov0=100 * np.eye(2))
    V = us.sample(unit, 60, rng=4)
    assert np.max(np.abs(us.whiten(V * np.sqrt(scale), pair) - us.whiten(V, unit))) < 1e-9


def test_a_large_offset_keeps_its_digits():
    """An offset that dwarfs the noise, or an unstable state: the loops that carry x serve, and are as good."""
    target = model(A=0.99999, d=1e9, Q=1e-4, R=1e-2)
    assert not Pair(white(1), target).scalar
    assert not Pair(
        white(1), us.GaussMarkov(1.3, 1e-14, 1.0, 1.0, d=0.7, mean0=0.0, cov0=1.0, allow_unstable=True)
    ).scalar
    assert Pair(white(1), model(d=400.0)).scalar
    z = np.random.default_rng(5).standard_normal(2000)
    state, expected = target.start(), []
    for value in z:
        expected.append(target.predict(state).value(value))
        state = target.update(state, expected[-1])
    assert np.max(np.abs(us.colour(z, target) - expected)) < 1e-4


def test_after_a_gap_every_filter_returns_to_its_tables():
    """Two hundred random pairs, one gap each: the state is short again within 4,000 readings."""
    rng = np.random.default_rng(6)
    for _ in range(200):
        a, b = (
            model(A=rng.uniform(0.5, 0.97), C=rng.normal(), Q=rng.gamma(2.0), R=rng.gamma(2.0), cov0=rng.gamma(2.0))
            for _ in range(2)
        )
        Y = rng.standard_normal(4000)
        Y[60] = np.nan
        transform = us.Transform(a, b)
        state, _ = transform.apply(transform.start(), Y)
        assert len(state) == 3


def test_an_output_that_overflows_is_an_error():
    """An infinity is never released, even where the predictors stay finite."""
    target = model(A=0.0, Q=0.1, R=1e10)
    transform = us.Transform(model(), target)
    for call in (
        lambda: us.disguise([1e308, 1.0], model(), target),
        lambda: us.colour([1e308, 0.0], target),
        lambda: transform.step(transform.start(), 1e308),
        lambda: us.disguise(
            [1e308], us.IID(us.Gaussian(0.0, 1.0)), us.AutoRegressive(0.0, noise=us.Gaussian(0.0, 1e10))
        ),
    ):
        with pytest.raises(NumericalError):
            call()


@pytest.mark.parametrize(
    "state", [(0, "a", 0.0), (0, None, 1.0), (10**30, 0.0, 0.0), (0, 10**400, 0.0), (0.0, 1.0, 1.0)]
)
def test_a_state_of_the_wrong_kind_is_refused(state):
    """With a StateError, by step and by chunk."""
    transform = us.Transform(model(), model(b=1.0))
    with pytest.raises(StateError):
        transform.step(state, 1.0)
    with pytest.raises(StateError):
        transform.apply(state, [1.0])


def test_a_covariance_that_overflows_in_a_gap_is_an_error_at_once():
    """No state is handed out that would be refused later."""
    unstable = us.GaussMarkov(1.5, 1.0, 1.0, 1.0, mean0=0.0, cov0=1.0, allow_unstable=True)
    transform = us.Transform(unstable, unstable)
    with pytest.raises(NumericalError):
        transform.apply(transform.start(), np.full(2000, np.nan))


def test_a_markov_state_goes_through_json():
    """It comes back as a list and continues with the same bits."""
    chain = us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(0.5 * y, 1.0))
    transform = us.Transform(chain, model())
    state, _ = transform.step(transform.start(), 0.3)
    again = json.loads(json.dumps(state))
    assert transform.step(again, 1.0)[1] == transform.step(state, 1.0)[1]


def test_a_gap_across_a_switch_between_markov_members_is_refused():
    """Each member's law across a gap knows nothing of the others; within one stretch the law is exact."""

    def chain(a):
        return us.Markov(
            us.Gaussian(0.0, 1.0),
            lambda y: us.Gaussian(a * y, 1.0),
            gap=lambda y, steps: us.Gaussian(a**steps * y, sum(a ** (2 * i) for i in range(steps))),
        )

    family = us.Family({0: chain(0.9), 1: chain(-0.9)})
    with pytest.raises(MissingReadingError, match="across a switch"):
        us.whiten([2.0, np.nan, 1.0], family.along([0, 0, 1]))
    scores = us.whiten([2.0, 1.0, np.nan, 1.0], family.along([0, 1, 1, 1]))
    assert scores[3] == pytest.approx((1.0 - 0.81) / np.sqrt(1.81))


def test_auxiliary_uniforms_are_drawn_reading_by_reading():
    """A law of two channels that uses them gets the same ones by step and by chunk."""

    class Jittered(us.Gaussian):
        def score(self, y, v=None):
            return super().score(y) + (0.0 if v is None else v)

    law = Jittered([0.0, 0.0], np.eye(2))
    Y = np.random.default_rng(7).standard_normal((6, 2))
    whole = us.whiten(Y, us.IID(law), rng=np.random.default_rng(8))
    stepped = us.Transform(us.IID(law), us.IID(us.Gaussian([0.0, 0.0], np.eye(2))), rng=np.random.default_rng(8))
    state, out = stepped.start(), []
    for y in Y:
        state, value = stepped.step(state, y)
        out.append(value)
    assert same_bits(whole, np.array(out))


@pytest.mark.parametrize(
    "bad", [np.ma.array(["412.7x", "3"]), np.ma.array([1 + 2j, 3.0]), np.ma.array([None, "412.7"])]
)
def test_masked_arrays_are_checked_like_any_other(bad):
    """Text and complex numbers are refused without being shown; a masked entry is a missing reading."""
    with pytest.raises(ReadingError) as caught:
        us.whiten(bad, model())
    assert "412" not in str(caught.value)
    gaps = us.whiten(np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), model())
    assert np.isnan(gaps).tolist() == [False, True, False]


def test_a_copied_model_is_read_only_again():
    """Writing into a copy's matrices would leave its gains behind."""
    import copy
    import pickle

    for m in (copy.deepcopy(model()), pickle.loads(pickle.dumps(model()))):  # noqa: S301  # our own bytes
        for array in (m.A, m.mean0, m.cov0):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0.0
        assert m.memo == {}
