"""The randomizer at a given slope: its proof, oracles written another way, and that it follows from its arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import same_bits
from randomizer_cases import FAMILIES, exact_case, is_kernel, random_case

import understudy as us
from understudy.errors import DesignError, InfeasibleError
from understudy.randomizer import solver as interior
from understudy.randomizer.causal_guarantee import Beliefs
from understudy.randomizer.solver import bounds_of, minimise, minimise_at

MOST = 80


def squared(k):
    x = np.linspace(0.0, 1.0, k)
    return (x[:, None] - x) ** 2


def value(cost, p, P, slope):
    """I + slope * D of a kernel, by the definitions."""
    r = p @ P
    w = p[:, None] * P
    told = (w[w > 0.0] * np.log((P / np.where(r > 0.0, r, 1.0))[w > 0.0])).sum()
    return float(told + slope * (w[w > 0.0] * cost[w > 0.0]).sum())


def blahut(cost, p, slope, sweeps=20_000):
    """The least I + slope * D by sweeps of Blahut-Arimoto: what they reach, and what their dual point proves."""
    E = np.exp(-slope * cost)
    q = np.full(cost.shape[1], 1.0 / cost.shape[1])
    for _ in range(sweeps):
        q = q * ((p / (E @ q)) @ E)
    z = E @ q
    reached = -float(p @ np.log(z))
    return reached, reached - math.log(((p / z) @ E).max())


@pytest.mark.sample(default=4, seconds=2, reason="21 problems, each solved by sweeps")
@pytest.mark.parametrize(("m", "n"), [(2, 2), (2, 6), (5, 3), (8, 8), (12, 20), (20, 30), (40, 17)])
@pytest.mark.parametrize("slope", [0.5, 4.0, 30.0])
def test_sweeps_reach_the_same_value(m, n, slope):
    """Blahut-Arimoto comes down to the same least value, and its proof stays below."""
    rng = np.random.default_rng([m, n])
    cost, p = rng.random((m, n)), rng.dirichlet(np.ones(m))
    found = minimise_at(cost, p, slope)
    assert found.optimal
    assert is_kernel(found.kernel)
    mine = value(cost, p, found.kernel, slope)
    reached, proven = blahut(cost, p, slope)
    assert proven <= mine * (1.0 + 1e-12)
    assert mine <= reached + 1e-11
    # the twin: at another slope another kernel is best
    other = minimise_at(cost, p, 1.5 * slope)
    assert value(cost, p, other.kernel, slope) > mine + 1e-7 or np.allclose(other.kernel, found.kernel, atol=1e-3)


@pytest.mark.parametrize("size", [(8, 8, 0), (20, 20, 5), (40, 30, 20), (64, 64, 10), (30, 100, 40)])
def test_exact_cases(size):
    """Cases made from their solution: leakage, distortion and their proof."""
    m, n, idle = size
    for seed in range(3):
        case = exact_case(np.random.default_rng([38, seed, *size]), m, n, idle)
        found = minimise_at(case.cost, case.prior, case.slope)
        upper, lower = bounds_of(found)
        assert found.optimal
        # with more columns than rows several kernels are best, and tell more or less
        assert n > m or found.leakage == pytest.approx(case.budget, rel=1e-5)
        assert found.excess + found.leakage / case.slope == pytest.approx(
            case.optimum - found.lowest + case.budget / case.slope, rel=1e-9
        )
        assert lower <= upper


@pytest.mark.parametrize("cost", [squared(16), squared(64), np.random.default_rng(64).random((64, 64))])
def test_the_slope_of_a_budget_leads_back_to_it(cost):
    """At the slope of a design for one nat one nat is told, at the same distortion; at half the slope less."""
    solved = us.solve(cost, leakage=1.0)
    found = minimise_at(cost, solved.prior, solved.slope)
    assert found.leakage == pytest.approx(1.0, rel=1e-8)
    assert bounds_of(found)[0] == pytest.approx(solved.distortion, rel=1e-8)
    assert minimise_at(cost, solved.prior, 0.5 * solved.slope).leakage < 0.9


def test_every_family_is_proven():
    """Of many kinds, at slopes over five decades: valid kernels, bounds that hold, gaps of 1e-11 nats, in few steps."""
    rng = np.random.default_rng(39)
    gaps, steps = [], []
    for k in range(12):
        for family in FAMILIES:
            case = random_case(np.random.default_rng([39, k]), family, most=[5, 12, 40][k % 3])
            slope = float(10.0 ** rng.uniform(-2.0, 3.0)) / max(float(np.ptp(case.cost[np.isfinite(case.cost)])), 1e-9)
            found = minimise_at(case.cost, case.prior, slope)
            assert is_kernel(found.kernel)
            assert 0.0 <= found.bound <= found.excess * (1.0 + 1e-12)
            gaps.append(slope * (found.excess - found.bound))
            steps.append(found.iterations)
            assert found.optimal or found.excess - found.bound > 1e-9 * found.excess
    assert len(gaps) > 150
    assert max(gaps) <= 1e-11
    assert max(steps) <= MOST


def test_few_steps_at_a_given_slope():
    """Squared error at the slope of one nat: steps over all rounds of columns, from 8 to 64 points."""
    for n in (8, 16, 32, 64):
        solved = us.solve(squared(n), leakage=1.0)
        assert 1 <= minimise_at(squared(n), solved.prior, solved.slope).iterations <= 25


def test_the_ends():
    """At slope 0 nothing is told, at infinity all that is of use; costs without a choice need no solver."""
    p = np.array([0.5, 0.3, 0.2])
    cost = squared(3)
    assert minimise_at(cost, p, 0.0).leakage == 0.0
    assert minimise_at(cost, p, math.inf).excess == 0.0
    assert same_bits(minimise_at(cost, p, math.inf).kernel, minimise(cost, p, math.inf).kernel)
    assert minimise_at(np.ones((3, 2)), p, 1.0).excess == 0.0
    with pytest.raises(DesignError, match="row 1, column 0"):
        minimise_at(np.array([[0.0, 1.0], [-1.0, 0.0]]), p[:2] / p[:2].sum(), 1.0)
    with pytest.raises(InfeasibleError, match="row 0"):
        minimise_at(np.array([[math.inf, math.inf], [1.0, 0.0]]), np.array([0.5, 0.5]), 1.0)


def test_more_columns_than_the_kernels_take():
    """Where more than 128 columns are needed LAPACK takes over; Hamming distance has a closed form."""
    m, slope = 140, 6.0
    found = minimise_at(1.0 - np.eye(m), np.full(m, 1.0 / m), slope)
    assert found.optimal
    right = 1.0 / (1.0 + (m - 1) * math.exp(-slope))
    assert np.diag(found.kernel) == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("n", [6, 12, 40])
def test_the_careful_way_gives_the_same_answer(monkeypatch, n):
    """What the quick way leaves is solved on all columns; both are proven, and agree."""
    rng = np.random.default_rng(n)
    cost, p = rng.random((n, n)), rng.dirichlet(np.ones(n))
    quick = minimise_at(cost, p, 5.0)

    class Careful:
        """The kernels but for the quick way, which always gives up."""

        def __getattr__(self, name):
            return getattr(kernels, name)

        def at_slope(self, *arguments):
            calls.append(1)
            return math.inf

    kernels, calls = interior.kernels, []
    monkeypatch.setattr(interior, "kernels", Careful())
    careful = minimise_at(cost, p, 5.0)
    assert calls  # another way it was
    assert careful.optimal
    assert careful.excess == pytest.approx(quick.excess, rel=1e-7)
    assert value(cost, p, careful.kernel, 5.0) == pytest.approx(value(cost, p, quick.kernel, 5.0), rel=1e-12)


@pytest.mark.parametrize("m", [2, 8, 20])
def test_a_kernel_follows_from_the_belief_alone(m):
    """Met first or after many others, in this process or in a copy: the same bits."""
    rng = np.random.default_rng(m)
    T = 0.9 * np.eye(m) + 0.1 / m
    one, other = (Beliefs(np.full(m, 1.0 / m), T, squared(m), 20.0) for _ in range(2))
    beliefs = [tuple(b) for b in rng.dirichlet(np.ones(m), size=30).tolist()]
    first = [one.kernel(b) for b in beliefs]
    again = [other.kernel(b) for b in reversed(beliefs)]
    assert all(same_bits(a, b) for a, b in zip(first, reversed(again), strict=True))
    assert not any(same_bits(a, b) for a, b in zip(first, again, strict=True))
