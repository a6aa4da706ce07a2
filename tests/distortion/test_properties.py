"""Properties that hold for every family."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import random_system
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.distortion.costs import Costs, costs

seeds = st.integers(0, 10**6)
names = st.sampled_from(["mse", "mae"])
horizons = st.sampled_from([1, 3, 70, None])


def members(seed, count=3, d=None, scale=1.0):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4)) if d is None else d
    systems = [random_system(rng, int(rng.integers(1, 5)), d, radius=0.7) for _ in range(count)]
    for system in systems:
        for name, power in (("Q", 2), ("R", 2), ("cov0", 2), ("b", 1), ("d", 1), ("mean0", 1)):
            system[name] = system[name] * scale**power
    return {k: us.GaussMarkov(**system) for k, system in enumerate(systems)}


@settings(max_examples=25, deadline=None)
@given(seeds, names, horizons, st.permutations(range(3)))
def test_permuting_the_pseudo_values_permutes_the_columns(seed, name, horizon, order):
    """A column belongs to its pseudo value, whatever stands beside it."""
    family = us.Family(members(seed))
    found = costs(family, horizon=horizon, distortion=name).matrix
    permuted = costs(family, pseudo=order, horizon=horizon, distortion=name).matrix
    np.testing.assert_allclose(permuted, found[:, list(order)], rtol=1e-12, atol=0)


@settings(max_examples=8, deadline=None)
@given(seeds, names, horizons)
def test_all_pairs_at_once_are_the_pairs_one_by_one(seed, name, horizon):
    """Batching changes nothing, to 1e-12, and two equal models have no distortion at all."""
    models = members(seed)
    found = costs(us.Family(models), horizon=horizon, distortion=name).matrix
    assert not np.diag(found).any()
    for i in models:
        for j in models:
            family = us.Family(models, values=[i])
            one = costs(family, pseudo=[j], horizon=horizon, distortion=name).matrix[0, 0]
            assert one == pytest.approx(found[i, j], rel=1e-12)


@settings(max_examples=8, deadline=None)
@given(seeds, horizons, st.sampled_from([1e-6, 0.3, 1e4]))
def test_units(seed, horizon, c):
    """Readings in other units: the squared error scales by c^2, the absolute by c, the mean reading by c."""
    one, other = us.Family(members(seed)), us.Family(members(seed, scale=c))
    for name, factor in (("mse", c * c), ("mae", c)):
        a, b = (costs(family, horizon=horizon, distortion=name) for family in (one, other))
        np.testing.assert_allclose(b.matrix, factor * a.matrix, rtol=1e-9)
        assert b.mean_reading == pytest.approx(c * a.mean_reading, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(seeds, horizons)
def test_symmetry_and_jensen(seed, horizon):
    """Who is disguised as whom does not matter, and (E |D|)^2 <= E D^2."""
    family = us.Family(members(seed))
    squared, size = (costs(family, horizon=horizon, distortion=name).matrix for name in ("mse", "mae"))
    np.testing.assert_allclose(squared, squared.T, rtol=1e-9)
    np.testing.assert_allclose(size, size.T, rtol=1e-9)
    assert (size**2 <= squared * (1 + 1e-12)).all()


@settings(max_examples=20, deadline=None)
@given(seeds, horizons)
def test_equal_models_written_anew_have_no_distortion(seed, horizon):
    """Not the same object but the same numbers: exactly zero, squared and absolute."""
    one, other = members(seed, 1)[0], members(seed, 1)[0]
    for name in ("mse", "mae"):
        assert not costs(us.Family({0: one, 1: other}), horizon=horizon, distortion=name).matrix.any()


def test_other_coordinates_of_the_state():
    """The same law with another state: no distortion but the rounding of a variance."""
    model = members(4, 1, d=1)[0]
    S = np.random.default_rng(0).standard_normal((model.states, model.states)) + 3 * np.eye(model.states)
    inverse = np.linalg.inv(S)
    turned = us.GaussMarkov(
        S @ model.A @ inverse, model.C @ inverse, S @ model.Q @ S.T, model.R, S @ model.b, model.d, S @ model.mean0,
        S @ model.cov0 @ S.T,
    )  # fmt: skip
    assert costs(us.Family({0: model, 1: turned}), horizon=30).matrix[0, 1] < 1e-13


def test_costs_are_a_value():
    """Arrays are read-only, attributes are set once, the repr is short, and a copy by pickle is the same."""
    import pickle

    family = us.Family(members(1))
    found = costs(family, pseudo=[0, 2], horizon=4)
    with pytest.raises(ValueError, match="read-only"):
        found.matrix[0, 0] = 1.0
    with pytest.raises(AttributeError):
        found.horizon = 3
    assert repr(found) == "Costs(3 x 2, mse, horizon=4, exact)"
    assert (found.values, found.pseudo, found.horizon, found.distortion) == ((0, 1, 2), (0, 2), 4, "mse")
    again = pickle.loads(pickle.dumps(found))  # noqa: S301  # our own bytes
    assert isinstance(again, Costs)
    assert np.array_equal(again.matrix, found.matrix)
