"""Pairs of rows of a total variation: their unknowns are eliminated, and nothing changes but the time."""

from __future__ import annotations

import numpy as np
import pytest
from constraint_cases import Case, broken, conic

import understudy as us
from understudy.randomizer.constrained_solver import interior_start, write_program
from understudy.randomizer.constraints import ErrorAtLeast, LocalDP, MaximalLeakage, TotalVariation


def line(n):
    x = np.linspace(0.0, 1.0, n)
    return (x[:, None] - x) ** 2


@pytest.fixture
def rows():
    """A program with five pairs and three other unknowns; the total variation comes first among the constraints."""
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(4, 3.0))
    kept = (TotalVariation(0.4), LocalDP(1.0), MaximalLeakage(0.4), ErrorAtLeast(0.3))
    pairs = [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]
    return write_program(p, p, rng.random((4, 6)), np.ones((4, 6), dtype=bool), 0.0, kept, pairs)


def test_the_middle_of_the_room_is_inside_with_pairs(rows):
    """Every row holds with room."""
    X = interior_start(rows, np.full((4, 6), 1.0 / 6.0))
    assert (rows.G @ X < 0.0).all()
    assert (rows.F @ X.sum(axis=1) < rows.f).all()


def test_each_local_row_has_one_auxiliary(rows):
    """What the interior-point method relies on when it eliminates unknowns; the sums are of one auxiliary each."""
    m = len(rows.p)
    assert ((rows.G[:, m:] != 0.0).sum(axis=1) == 1).all()
    assert ((rows.F != 0.0).sum(axis=1) == 1).all()


@pytest.mark.parametrize("demand", [{"leakage": 0.3}, {"distortion_at_most": 0.07}])
def test_many_pairs_with_information_against_cvxpy(demand):
    """Clarabel's optimum lies between the bounds."""
    cost, kept = line(7), (TotalVariation(0.5), MaximalLeakage(0.8))
    found = us.solve(cost, constraints=kept, **demand)
    optimum = conic(Case("", cost, found.prior, kept, demand))
    value = found.distortion if "leakage" in demand else found.leakage
    assert found.status == "optimal"
    assert value == pytest.approx(optimum, rel=1e-5)
    assert not any(broken(one, found.prior, found.randomizer.kernel) for one in kept)


def test_a_line_of_twenty_five_values():
    """300 pairs, and a leakage: proven, and kept exactly (it took 5 s with the unknowns of the pairs)."""
    found = us.solve(line(25), leakage=0.5, constraints=[TotalVariation(0.5)])
    assert found.status == "optimal"
    assert found.gap <= 1e-7 * found.distortion
    assert found.leakage <= 0.5
    assert not broken(TotalVariation(0.5), found.prior, found.randomizer.kernel)
