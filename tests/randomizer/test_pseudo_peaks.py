"""A search for pseudo values among functions that wiggle: all peaks are seen, and what is said to be in reach is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import room

import understudy as us
from understudy.errors import DesignError
from understudy.randomizer.pseudo import (
    Layout,
    as_box,
    lay_out,
    of_function,
    optimise_positions,
    optimise_pseudo,
    peaks,
    places_to_add,
    snap,
)


def wave(v):
    return us.IID(us.Gaussian(math.sin(20.0 * v), 1.0))


def wiggly(seed):
    """A cost (g(a) - g(x))^2 or |g(a) - g(x)| with g a sum of sines, its slope, values, odds and a budget."""
    rng = np.random.default_rng([21, seed])
    m, kink = int(rng.integers(2, 5)), seed % 4 == 3
    f, size = np.array([rng.uniform(10.0, 60.0), rng.uniform(10.0, 100.0)]), np.array([1.0, rng.choice([0.0, 0.3])])

    def g(x):
        return float(size @ np.sin(f * x))

    def cost(a, x):
        return abs(g(a) - g(x)) if kink else (g(a) - g(x)) ** 2

    def slope(a, x):
        way = float((size * f) @ np.cos(f * x))
        return np.sign(g(x) - g(a)) * way if kink else 2.0 * (g(x) - g(a)) * way

    values = np.sort(rng.choice(21, size=m, replace=False) / 20.0).tolist()
    prior = rng.dirichlet(np.ones(m)) if seed % 2 else np.full(m, 1.0 / m)
    return cost, slope, values, prior, float(rng.uniform(0.02, 1.0) * math.log(m))


def on_a_grid(cost, values, prior, budget, count):
    table = np.array([[cost(a, x) for x in np.linspace(0.0, 1.0, count)] for a in values])
    return us.solve(table, prior=prior, leakage=budget).distortion


def landscape(cost, values, budget=0.3, bounds=(0.0, 1.0)):
    m = len(values)
    return of_function(cost, values, np.full(m, 1.0 / m), budget, as_box(bounds, values), None)


@pytest.mark.long(seconds=2, reason="a design on a grid of 1,501")
def test_a_peak_between_two_other_places_is_seen():
    """sin(20 v) on [0, 1]: the search ended at 0.14494864, with that as its reach; 0.14487900 is the optimum."""
    family = us.Family(wave, values=[0, 0.3, 0.7, 1.0])
    found = optimise_pseudo(family, bounds=(0, 1), leakage=0.3)
    grid = us.design(family, np.linspace(0, 1, 200).tolist(), leakage=0.3)
    fine = us.design(family, np.linspace(0, 1, 1501).tolist(), leakage=0.3)
    assert found.distortion <= grid.distortion
    assert found.distortion == pytest.approx(0.1448790005, rel=1e-8)
    assert found.reach <= fine.distortion * (1.0 + 1e-12)
    assert found.reach == pytest.approx(found.distortion, rel=1e-9)


@pytest.mark.sample(default=2, seconds=5, reason="sixteen problems on grids of 200")
@pytest.mark.parametrize("seed", range(16))
def test_never_dearer_than_a_grid_of_200(seed):
    """Sines of up to 16 periods, kinks too: at most the cost on 200 places; the reach holds on 3,001 of them."""
    cost, slope, values, prior, budget = wiggly(seed)
    gradient = slope if seed % 3 else None
    found = optimise_positions(cost, values, (0.0, 1.0), prior=prior, leakage=budget, gradient=gradient)
    allowed = 1e-9 * found.grid.distortion + 1e-15
    assert found.distortion <= on_a_grid(cost, values, prior, budget, 200) + allowed
    assert found.reach <= on_a_grid(cost, values, prior, budget, 3001) + allowed
    assert found.distortion <= found.start.distortion * (1.0 + 1e-12)


def test_two_peaks_around_one_place_are_told_apart():
    """A steep curve and few values: two peaks between neighbouring places, and the reach holds on 4,001 of them."""

    def g(x):
        return math.sin(23.87093394 * x) + 0.3 * math.sin(19.99750462 * x)

    def cost(a, x):
        return (g(a) - g(x)) ** 2

    values, budget = [0.25, 0.6, 0.85], 0.9858477651537816
    found = optimise_positions(cost, values, (0.0, 1.0), n=2, leakage=budget)
    assert found.reach <= on_a_grid(cost, values, None, budget, 4001)


def test_all_peaks_are_found_and_each_to_its_top():
    """Five bumps of different heights between places of the scan: five peaks, highest first, to 1e-7."""
    tops = np.array([0.1234567, 0.3, 0.4567891, 0.7071067, 0.9012345])
    sizes = np.array([1.0, 0.99, 1.01, 0.98, 1.02])

    def cost(_, x):
        return 2.0 - float((sizes * np.exp(-(((x - tops) / 0.02) ** 2))).sum())

    found = peaks(landscape(cost, [5.0]), lambda costs: -costs[0], -1.05)
    assert len(found.X) == 5
    assert found.X[:, 0] == pytest.approx(tops[np.argsort(-sizes)], abs=1e-7)
    assert (np.diff(found.heights) <= 0.0).all()


def test_peaks_of_a_plane():
    """Three bumps on a square, by the nearest neighbours of scattered places."""
    tops = np.array([[0.2, 0.3], [0.7, 0.8], [0.85, 0.15]])

    def cost(_, x):
        return 2.0 - float(np.exp(-((np.array(x) - tops) ** 2).sum(axis=1) / 0.02).sum())

    found = peaks(landscape(cost, [(5.0, 5.0)], bounds=[(0, 1), (0, 1)]), lambda costs: -costs[0], -1.3)
    for top in tops:
        assert np.abs(found.X - top).max(axis=1).min() < 1e-3


def test_the_places_worth_having_hold_at_the_optimum_only():
    """The twin: with a value moved away from where it belongs, a place with c above 1 is seen at once."""
    land = landscape(lambda a, x: (a - x) ** 2, [0.0, 1.0])
    e = us.solve(1.0 - np.eye(2), leakage=0.3).distortion
    best, moved = (lay_out(land, np.array([[x], [1.0 - e]])) for x in (e, e + 0.05))
    assert places_to_add(land, best)[0].heights[0] < 1e-9
    assert places_to_add(land, moved)[0].heights[0] > 1e-4


def test_a_value_that_is_all_but_a_private_one_is_that():
    """Under absolute error 1e-16 and 1 - 1e-16 are 0 and 1; where another place is better nothing is moved."""
    family = us.Family(room, values=[0, 1])
    found = optimise_pseudo(family, start=[0.3, 0.4, 0.9], leakage=0.3, horizon=20, distortion="mae")
    assert found.pseudo == (0.0, 1.0)
    land = landscape(lambda a, x: abs(a - x), [0.25, 0.75])
    near = lay_out(land, np.array([[0.25 + 1e-12], [0.75 - 1e-16], [1.0 - 1e-9]]))
    assert snap(land, near).X[:, 0].tolist() == [0.25, 0.75, 1.0]
    off = landscape(lambda a, x: abs(a + 1e-7 - x), [0.25, 0.75])
    kept: Layout = lay_out(off, np.array([[0.2500001], [0.7500001]]))
    assert snap(off, kept).X[:, 0].tolist() == [0.2500001, 0.7500001]


@pytest.mark.parametrize("start", [[math.nan, 0.0], [math.inf, 0.0], [0.5, -3.0]])
def test_a_start_that_is_no_value_is_named(start):
    """Not a number, or outside: `start` and the value are named before any model is made."""
    family = us.Family(room, values=[0, 1])
    with pytest.raises(DesignError, match=r"start has (nan|inf|-3\.0), which is outside of the bounds"):
        optimise_pseudo(family, start=start, leakage=0.3, horizon=5)


def test_a_function_that_fails_is_told_where():
    """A model, a cost or a slope that fails within the bounds: the value is named, and the cause is kept."""
    family = us.Family(lambda v: us.IID(us.Gaussian(1.0 / (v - 0.5), 1.0)), values=[0, 1])
    with pytest.raises(DesignError, match=r"no model at 0\.5, which is within the bounds: ZeroDivisionError") as caught:
        optimise_pseudo(family, leakage=0.3)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(DesignError, match=r"cost\(0, 0\.0\) fails, within the bounds: ZeroDivisionError"):
        optimise_positions(lambda a, x: 1.0 / x, [0, 1], leakage=0.3)
    with pytest.raises(DesignError, match=r"gradient\(0, .*\) fails, within the bounds: KeyError"):
        optimise_positions(lambda a, x: (a - x) ** 2, [0, 1], leakage=0.3, gradient=lambda a, x: {}[x])


def test_as_many_values_as_the_start_has():
    """With `start` the number of values is its own, and without it one more than there are private ones."""

    def cost(a, x):
        return (a - x) ** 2

    assert len(optimise_positions(cost, [0, 1, 2], start=[1.0], leakage=0.3).pseudo) == 1
    assert optimise_positions(cost, [0, 1, 2], leakage=0.3).start.cost.shape[1] == 4
