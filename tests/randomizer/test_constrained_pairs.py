"""Pairs of rows of a total variation: their unknowns are taken out, and nothing changes but the time."""

from __future__ import annotations

import numpy as np
import pytest
from constraint_cases import Case, broken, conic

import understudy as us
from understudy.randomizer.constrained_solver import begun, blocks, program
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
    return program(p, p, rng.random((4, 6)), rng.random((4, 6)) < 0.9, 0.0, kept, pairs)


def test_products_without_the_zeros_are_the_products(rows):
    """X G', z G and z |G|."""
    rng = np.random.default_rng(4)
    X, z = rng.normal(size=(6, rows.unknowns)), rng.normal(size=(6, len(rows.G)))
    assert rows.pairs == 5
    assert np.allclose(rows.over(X), X @ rows.G.T, atol=1e-14)
    assert np.allclose(rows.under(z), z @ rows.G, atol=1e-14)
    assert np.allclose(rows.under(z, size=True), z @ np.abs(rows.G), atol=1e-14)


def test_the_middle_of_the_room_is_inside_with_pairs(rows):
    """Every row holds with room."""
    X = begun(rows, np.full((4, 6), 1.0 / 6.0))
    assert (rows.over(X) < 0.0).all()
    assert (rows.F @ X.sum(axis=0) < rows.f).all()


def test_blocks_without_the_unknowns_of_pairs_solve_the_whole(rows):
    """Against the inverse of the full blocks, and the full system across."""
    rng = np.random.default_rng(5)
    n, k, few = 6, rows.unknowns, rows.unknowns - rows.pairs
    h = rng.uniform(0.1, 10.0, (n, len(rows.G)))
    diagonal = np.zeros((n, few))
    diagonal[:, :4] = rng.uniform(0.5, 2.0, (n, 4))
    free = np.ones((n, k), dtype=bool)
    free[:, :4] = rows.allowed.T
    found = blocks(rows, h, np.where(free[:, :few], diagonal, 1.0), free)
    assert found.inverted.shape == (n, few, few)
    right = rng.normal(size=(n, k)) * free
    W = rng.normal(size=(n, len(rows.F) + 3, k))
    W[:, : len(rows.F)] = rows.F
    W[:, len(rows.F) :, few:] = 0.0
    W *= free[:, None, :]
    X, S = np.empty((n, k)), np.zeros((W.shape[1], W.shape[1]))
    for j in range(n):
        full = (rows.G.T * h[j]) @ rows.G * np.outer(free[j], free[j])
        full[np.arange(few), np.arange(few)] += np.where(free[j, :few], diagonal[j], 1.0)
        X[j] = np.linalg.solve(full, right[j])
        S += W[j] @ np.linalg.solve(full, W[j].T)
    assert np.allclose(found.solve(right), X, rtol=1e-9, atol=1e-11)
    assert np.allclose(found.system(W[:, :, :few].copy(), len(rows.F)), S, rtol=1e-9, atol=1e-11)


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
