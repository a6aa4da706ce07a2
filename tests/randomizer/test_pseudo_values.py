"""Choosing pseudo values from an interval or a box: known answers, exact slopes, never worse than the start."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from helpers import room
from hypothesis import given, settings
from hypothesis import strategies as st
from robust_cases import Approximate
from scipy import stats

import understudy as us
from understudy.distortion.exact import gradients
from understudy.distortion.measures import Measure
from understudy.errors import DesignError
from understudy.randomizer.pseudo import optimise_positions, optimise_pseudo


def h(e):
    return -e * math.log(e) - (1.0 - e) * math.log(1.0 - e)


def squared(a, x):
    return (a - x) ** 2


def office(people):
    """A room in which both noises grow with the people."""
    return us.GaussMarkov(
        A=0.9, C=1.0, Q=9.0 * (1.0 + people), R=4.0 * (1.0 + people), b=40.0 + 6.0 * people, mean0=400.0, cov0=100.0
    )


# --- known answers ----------------------------------------------------------------------------------------------------


@pytest.mark.sample(default=2, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("e", [0.02, 0.134, 0.35])
def test_a_fair_bit_under_squared_error(e):
    """Theta = +-1 at distance 2: pseudo values +-(1 - 2e), I_0 = ln 2 - h(e), D = 4 e (1 - e)."""
    budget = math.log(2.0) - h(e)
    family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[-1, 1])
    for found in (
        optimise_pseudo(family, n=2, leakage=budget, distortion="mse"),
        optimise_positions(squared, [-1, 1], n=2, leakage=budget, gradient=lambda a, x: 2.0 * (x - a)),
        optimise_positions(squared, [-1, 1], n=2, leakage=budget),
    ):
        assert found.pseudo == pytest.approx([2.0 * e - 1.0, 1.0 - 2.0 * e], abs=2e-5)
        assert found.distortion == pytest.approx(4.0 * e * (1.0 - e), rel=1e-8)
        assert found.design.leakage <= budget
        assert found.reach <= 4.0 * e * (1.0 - e) * (1.0 + 1e-12)
        assert found.reach == pytest.approx(4.0 * e * (1.0 - e), rel=1e-6)


def test_a_fresh_share_moves_the_values_where_it_counts():
    """Two laws N(0, v^2), no budget, scores that correlate by c = 0.8: E (v z - x z')^2 is least at x = c E v.

    The cost there is E v^2 - (c E v)^2. Without a share (the twin) x = E v. Where values are means, they stay.
    """
    scales = us.Family(lambda v: us.IID(us.Gaussian(0.0, v * v)), values=[1.0, 3.0])
    found = optimise_pseudo(scales, n=1, leakage=0.0, distortion="mse", fresh=0.6)
    assert found.slopes
    assert found.pseudo == pytest.approx([1.6], abs=1e-5)
    assert found.distortion == pytest.approx(5.0 - 1.6**2, rel=1e-9)
    assert found.design.fresh == 0.6
    assert optimise_pseudo(scales, n=1, leakage=0.0, distortion="mse").pseudo == pytest.approx([2.0], abs=1e-5)
    means = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[-1, 1])
    plain, mixed = (optimise_pseudo(means, n=2, leakage=0.3, distortion="mse", fresh=s) for s in (0.0, 0.6))
    assert mixed.pseudo == pytest.approx(plain.pseudo, abs=2e-5)
    assert mixed.distortion == pytest.approx(plain.distortion + 2.0 * (1.0 - 0.8), rel=1e-8)


def test_a_budget_of_everything_is_clustering():
    """Nothing is hidden, two values for four: the means of the two clusters, and what is left is their variance."""
    found = optimise_positions(squared, [0, 1, 10, 11], n=2, leakage="100%", gradient=lambda a, x: 2.0 * (x - a))
    assert found.pseudo == pytest.approx([0.5, 10.5], abs=1e-5)
    assert found.distortion == pytest.approx(0.25, rel=1e-9)


def test_under_absolute_error_nobody_beats_the_private_values():
    """The paper's room, 0 or 1: from anywhere the search ends at 0 and 1, which the paper has among its values."""
    family = us.Family(room, values=[0, 1])
    found = optimise_pseudo(family, start=[0.3, 0.4], leakage=0.3, horizon=50, distortion="mae")
    assert found.pseudo == (0.0, 1.0)
    paper = us.design(family, [0, 0.2, 0.4, 0.6, 0.8, 1], leakage=0.3, horizon=50, distortion="mae")
    assert found.distortion == pytest.approx(paper.distortion, rel=1e-9)
    assert found.distortion == pytest.approx(17.3459, abs=1e-4)
    assert found.saving_over_start > 0.4


def test_the_room_under_squared_error():
    """Squared, the room is the fair bit at another scale: values e and 1 - e, and 4 e (1 - e) of the variance."""
    family = us.Family(room, values=[0, 1])
    found = optimise_pseudo(family, n=2, leakage=0.3, horizon=50, distortion="mse")
    e = us.solve(1.0 - np.eye(2), leakage=0.3).distortion
    assert found.pseudo == pytest.approx([e, 1.0 - e], abs=1e-5)
    ends = us.costs(family, horizon=50, distortion="mse").matrix[0, 1]
    assert found.distortion == pytest.approx(ends * e * (1.0 - e), rel=1e-8)
    assert found.slopes


@pytest.mark.long(seconds=1, reason="designs on a fine grid")
def test_an_office_matches_what_a_fine_grid_reaches():
    """0 to 4 people: at most as dear as the best kernel on the fine grid, as cheap as any values can be."""
    family = us.Family(office, values=range(5), prior=[0.35, 0.25, 0.2, 0.12, 0.08])
    found = optimise_pseudo(family, leakage="40%", horizon=12, distortion="mse")
    fine = us.design(family, np.linspace(0, 4, found.places).tolist(), leakage="40%", horizon=12, distortion="mse")
    assert found.places >= 201
    assert found.fine == pytest.approx(fine.distortion, rel=1e-9)
    assert found.distortion <= fine.distortion
    assert found.distortion >= found.reach
    assert found.distortion == pytest.approx(found.reach, rel=1e-6)
    assert len(found.pseudo) <= 6
    assert (found.design.randomizer.kernel.sum(axis=0) > 0.0).all()
    assert found.saving > 0.05


def test_what_any_values_can_reach_is_a_bound():
    """No kernel on 2,001 values is below it; with too few values the search says what more would gain."""
    values, budget = [0.0, 1.0, 3.0], 0.5
    few = optimise_positions(squared, values, n=2, leakage=budget, gradient=lambda a, x: 2.0 * (x - a))
    x = np.linspace(0.0, 3.0, 2001)
    fine = us.solve((np.array(values)[:, None] - x) ** 2, leakage=budget)
    for found in (few, optimise_positions(squared, values, leakage=budget)):
        assert found.reach <= fine.distortion * (1.0 + 1e-9)
    assert found.distortion <= fine.distortion * (1.0 + 1e-9)
    assert few.distortion >= found.distortion * (1.0 - 1e-9)


def test_values_in_a_box():
    """Three points of a plane under squared distance: as good as a lattice of 441 places, inside their triangle."""
    corners = [(0.0, 0.0), (2.0, 0.0), (0.0, 1.0)]

    def cost(a, x):
        return (a[0] - x[0]) ** 2 + (a[1] - x[1]) ** 2

    def slope(a, x):
        return [2.0 * (x[0] - a[0]), 2.0 * (x[1] - a[1])]

    found = optimise_positions(cost, corners, leakage=0.4, gradient=slope)
    net = np.array(np.meshgrid(np.linspace(0, 2, 21), np.linspace(0, 1, 21))).reshape(2, -1).T
    fine = us.solve(((np.array(corners)[:, None, :] - net) ** 2).sum(axis=2), leakage=0.4)
    assert found.distortion <= fine.distortion
    assert all(isinstance(place, tuple) for place in found.pseudo)
    assert all(x / 2.0 + y <= 1.0 + 1e-9 and x >= 0.0 and y >= 0.0 for x, y in found.pseudo)

    def model(value):
        return us.IID(us.Independent(us.Gaussian(value[0], 1.0), us.Gaussian(value[1], 1.0)))

    family = us.Family(model, values=corners)
    assert optimise_pseudo(family, n=3, leakage=0.4, starts=2).distortion == pytest.approx(
        optimise_positions(cost, corners, n=3, leakage=0.4, gradient=slope).distortion / 2.0, rel=1e-5
    )


# --- never worse ------------------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_never_worse_than_the_start(seed):
    """Crooked costs with kinks and several valleys, any start: never dearer than the start, the grid's value known."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    bend, wave, kink = rng.uniform(0.1, 2.0, m), rng.uniform(0.0, 0.5, m), rng.uniform(0.0, 1.0, m)

    def cost(a, x):
        return bend[a] * (x - a) ** 2 + wave[a] * (1.0 + math.sin(7.0 * x + a)) + kink[a] * abs(x - 0.3 * a)

    start = rng.uniform(0.0, m, size=n).tolist()
    found = optimise_positions(
        cost, range(m), (0.0, float(m)), start=start, leakage=float(rng.uniform(0.05, 1.0)), starts=2, rng=seed
    )
    assert found.distortion <= found.start.distortion * (1.0 + 1e-12)
    assert found.distortion >= found.reach * (1.0 - 1e-9)
    assert all(later <= earlier for trace in found.traces for earlier, later in pairwise(trace))
    assert found.saving_over_start >= 0.0
    assert len(found.pseudo) <= n


def test_a_start_that_is_best_comes_back():
    """Where nothing is to be gained nothing changes, and the report says so."""
    family = us.Family(room, values=[0, 1])
    found = optimise_pseudo(family, start=[0.0, 1.0], leakage=0.3, horizon=10, distortion="mae")
    assert found.pseudo == (0.0, 1.0)
    assert found.saving_over_start == 0.0
    assert "0% of it gained" in found.report()


# --- slopes -----------------------------------------------------------------------------------------------------------


def bent(x):
    """Matrices that bend with the value: two states, two channels, a start of its own."""
    v, w = float(x[0]), float(x[1])
    return us.GaussMarkov(
        A=[[0.8, 0.1 * v], [0.0, 0.5 + 0.1 * w]], C=[[1.0, 0.0], [0.3, 1.0]], Q=[[1.0 + v, 0.2], [0.2, 1.0 + w * w]],
        R=[[0.5, 0.1], [0.1, 0.4 + v]], b=[v, w], d=[w, 0.0], mean0=[0.0, v], cov0=np.eye(2) * (1.0 + w),
    )  # fmt: skip


def stationary(x):
    """One state, starting from its stationary law, which the value moves too."""
    v = float(x[0])
    return us.GaussMarkov(A=0.9 - 0.02 * v, C=1.0, Q=9.0 * (1.0 + v), R=4.0 * (1.0 + v * v), b=40.0 + 6.0 * v)


def independent(x):
    return us.IID(us.Gaussian(float(x[0]), 1.0 + float(x[0]) ** 2))


@pytest.mark.sample(default=9, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("horizon", [1, 30, None])
@pytest.mark.parametrize("name", ["mse", "mae"])
@pytest.mark.parametrize("model", [bent, stationary, independent])
def test_slopes_are_those_of_the_exact_distortion(model, name, horizon):
    """The differentiated recursion against differences of `us.costs`, inside the set and at its edge, to 1e-8."""
    k = 2 if model is bent else 1
    sources = [model(np.full(k, 0.05)), model(np.full(k, 0.9))]
    X = np.array([[0.3] * k, [0.6] * k, [1.0] * k])
    found = gradients(sources, model, X, (np.zeros(k), np.ones(k)), Measure(name, sources[0].dim), horizon)

    def cost(x):
        family = us.Family({0: sources[0], 1: sources[1], 2: model(x)})
        return us.costs(family, [2], horizon, name).matrix[:2, 0]

    for j, x in enumerate(X):
        for i in range(k):
            e = np.zeros(k)
            e[i] = 1e-3
            # away from the edge on both sides; at the edge the models go on, so differences may too
            slope = (8.0 * (cost(x + e) - cost(x - e)) - (cost(x + 2 * e) - cost(x - 2 * e))) / (12e-3)
            assert found[:, j, i] == pytest.approx(slope, rel=1e-7, abs=1e-9)


def test_slopes_are_refused_where_they_are_not_exact():
    """Another noise, another measure, matrices that change with time: no slopes, and the search does without."""
    box, place = (np.zeros(1), np.ones(1)), np.array([[0.5]])

    def heavy(x):
        return us.IID(us.Scalar(stats.t(5, loc=float(x[0]))))

    def timed(x):
        return us.GaussMarkov(A=0.9, C=1.0, Q=1.0, R=1.0, b=us.PerStep([float(x[0]), 0.0]), mean0=0.0, cov0=1.0)

    for model in (heavy, timed):
        assert gradients([model([0.0])], model, place, box, Measure("mse", 1), 2) is None
    own = Measure(lambda y, z: np.abs(y - z), 1)
    assert gradients([stationary([0.0])], stationary, place, box, own, 2) is None


@pytest.mark.long(seconds=2, reason="a search in which each cost is a quadrature")
def test_a_search_without_exact_slopes():
    """A law with heavy tails, by quadrature: the fair bit again, since equal shapes only shift."""
    family = us.Family(lambda v: us.IID(us.Scalar(stats.t(5, loc=v))), values=[-1, 1])
    found = optimise_pseudo(family, n=2, leakage=0.3, distortion="mse", starts=1)
    e = us.solve(1.0 - np.eye(2), leakage=0.3).distortion
    assert not found.slopes
    assert found.distortion == pytest.approx(4.0 * e * (1.0 - e), rel=1e-6)
    assert found.pseudo == pytest.approx([2.0 * e - 1.0, 1.0 - 2.0 * e], abs=1e-4)


@pytest.mark.long(seconds=2, reason="a search in which each cost is simulated")
def test_a_search_among_simulations():
    """A measure of one's own: costs are simulated with the same random numbers everywhere, and the start is kept to."""

    def cubed(y, y_out):
        return np.abs(y - y_out) ** 3

    family = us.Family(lambda v: us.GaussMarkov(0.5, 1.0, 1.0 + v, 1.0, b=v, mean0=0.0, cov0=1.0), values=[0, 3])
    found = optimise_pseudo(
        family, n=2, start=[0.0, 1.5], leakage=0.3, horizon=4, distortion=cubed, accuracy=0.05, starts=1
    )
    assert found.distortion <= found.start.distortion
    assert found.saving_over_start > 0.05
    assert not found.slopes


# --- what comes back --------------------------------------------------------------------------------------------------


def test_the_design_is_an_ordinary_one(tmp_path):
    """It streams, it is stored, and its pseudo values are those that were found."""
    family = us.Family(room, values=[0, 1])
    seen = []
    found = optimise_pseudo(family, n=2, leakage=0.3, horizon=10, distortion="mse", progress=seen.append)
    assert found.design.pseudo == found.pseudo
    assert seen[-1] == 1.0
    assert seen == sorted(seen)
    found.design.save(tmp_path / "room.json")
    again = us.load_design(tmp_path / "room.json")
    assert np.array_equal(again.randomizer.kernel, found.design.randomizer.kernel)
    assert math.isfinite(found.design.stream(theta=1, rng=1).step(105.0))
    assert repr(found).startswith("PseudoSearch(2 values, distortion=")
    assert str(found) == found.report()
    assert "by exact slopes" in found.report()
    with pytest.raises(ValueError, match="read-only"):
        found.positions[0] = 1.0


def test_what_models_give_away_is_taken_off_the_budget():
    """Models that are off leave less for the draw: the search looks with what is left, as the design is made."""
    family = us.Family(lambda v: Approximate(room(v), 1e-3), values=[0, 1])
    found = optimise_pseudo(family, n=2, leakage=0.3, horizon=50, distortion="mse")
    e = us.solve(1.0 - np.eye(2), leakage=0.25).distortion
    assert found.pseudo == pytest.approx([e, 1.0 - e], abs=1e-5)
    assert found.design.total_leakage <= 0.3


def test_the_same_seed_gives_the_same_values():
    """A search is repeated bit for bit; the default seed is fixed."""
    first, second = (optimise_positions(squared, [0, 1, 3], n=2, leakage=0.4, rng=7, starts=3) for _ in range(2))
    assert np.array_equal(first.positions, second.positions)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "whole number of at least 1"),
        ({"n": True}, "whole number of at least 1"),
        ({"starts": 0}, "starts = 0"),
        ({"bounds": (1.0, 0.0)}, "each low below its high"),
        ({"bounds": (0.0, 1.0, 2.0)}, r"\(low, high\)"),
        ({"start": [5.0]}, "outside of the bounds"),
        ({"start": [(0.0, 1.0)]}, "1 coordinates"),
        ({"start": ["a"]}, "must hold numbers"),
        ({"start": [0.0, 0.5, 1.0], "n": 2}, "at most n"),
        ({"leakage": "much"}, "leakage = 'much'"),
    ],
)
def test_refusals_name_the_rule(arguments, message):
    """What is wrong is said before any work is done."""
    with pytest.raises(DesignError, match=message):
        optimise_positions(squared, [0, 1], **({"leakage": 0.3} | arguments))


def test_refusals_of_what_is_no_cost_and_no_function():
    """A cost that is none, values that are none, a family without models in between."""
    with pytest.raises(DesignError, match="0 or more"):
        optimise_positions(lambda a, x: -1.0, [0, 1], leakage=0.3)
    with pytest.raises(DesignError, match="must be a number"):
        optimise_positions(lambda a, x: None, [0, 1], leakage=0.3)
    with pytest.raises(DesignError, match="must be a function"):
        optimise_positions(3, [0, 1], leakage=0.3)
    with pytest.raises(DesignError, match="values is empty"):
        optimise_positions(squared, [], leakage=0.3)
    with pytest.raises(DesignError, match="bounds is missing"):
        optimise_positions(squared, ["a", "b"], leakage=0.3)
    with pytest.raises(DesignError, match="gradient must give"):
        optimise_positions(squared, [0, 1], leakage=0.3, gradient=lambda a, x: [1.0, 2.0])
    with pytest.raises(DesignError, match="is a mapping"):
        optimise_pseudo(us.Family({0: room(0), 1: room(1)}), leakage=0.3, horizon=5)
    with pytest.raises(DesignError, match="must be a Family"):
        optimise_pseudo(room, leakage=0.3)
