"""Of kernels that cost the same the one that tells least is taken; where there is one only, nothing is done."""

from __future__ import annotations

import math

import numpy as np
import pytest
from constraint_cases import Case, broken, conic, look, random_case

import understudy as us
from understudy.errors import InfeasibleError
from understudy.randomizer import constrained_solver
from understudy.randomizer.constrained_solver import (
    Goal,
    Problem,
    find_prices,
    has_less_telling_optimum,
    interior_point,
    interior_start,
    least_telling_optimum,
    solve_linear,
    write_program,
)
from understudy.randomizer.constraints import (
    ErrorAtLeast,
    Floor,
    LocalDP,
    MaximalLeakage,
    PointwiseLeakage,
    TotalVariation,
    as_constraints,
)
from understudy.randomizer.solver import information

FLIP = np.array([[0.0, 1.0], [1.0, 0.0]])


def hamming(m):
    return 1.0 - np.eye(m)


def line(n):
    x = np.linspace(0.0, 1.0, n)
    return (x[:, None] - x) ** 2


@pytest.mark.parametrize(
    "asked",
    [
        {"constraints": [TotalVariation(0.3)]},
        {"constraints": [ErrorAtLeast(0.35)]},
        {"constraints": [MaximalLeakage(math.log(1.3))]},
        {"error_at_least": 0.35},
        {"error_at_least": 0.35, "constraints": [LocalDP(5)]},
    ],
)
def test_a_bit_is_flipped_rather_than_told_for_certain(asked):
    """[[1, 0], [0.7, 0.3]] costs 0.35 too, tells 0.117 nats and makes a draw certain; the flip tells 0.0457."""
    found = us.solve(FLIP, **asked)
    assert np.allclose(found.randomizer.kernel, [[0.65, 0.35], [0.35, 0.65]], atol=1e-9)
    assert found.distortion == pytest.approx(0.35, rel=1e-10)
    assert found.leakage == pytest.approx(0.0457005, abs=1e-7)
    assert found.status == "optimal"
    assert found.guarantee.local_dp < math.inf
    for one in asked.get("constraints", ()):
        assert not broken(one, found.prior, found.randomizer.kernel)
    if "error_at_least" in asked:
        assert not broken(ErrorAtLeast(0.35), found.prior, found.randomizer.kernel)


@pytest.mark.parametrize(("m", "error"), [(3, 0.35), (5, 0.5), (8, 0.2)])
@pytest.mark.parametrize("plain", [True, False])
def test_an_error_leaks_no_more_than_fano_demands(m, error, plain):
    """Hamming costs, equally likely values: ln m - h(e) - e ln(m - 1), which no kernel of that error undercuts."""
    asked = {"error_at_least": error} if plain else {"constraints": [ErrorAtLeast(error)]}
    found = us.solve(hamming(m), **asked)
    least = math.log(m) + error * math.log(error / (m - 1)) + (1.0 - error) * math.log(1.0 - error)
    assert found.distortion == pytest.approx(error, rel=1e-10)
    assert found.leakage == pytest.approx(least, rel=1e-7)


TIED = [
    (line(4), (ErrorAtLeast(0.4),)),
    (line(5), (TotalVariation(0.4),)),
    (hamming(4), (TotalVariation(0.5), Floor(0.02))),
    (hamming(4), (MaximalLeakage(0.7), PointwiseLeakage(0.9))),
    (np.minimum(line(5) * 8, 1.0), (LocalDP(1.5), ErrorAtLeast(0.6))),
]


@pytest.mark.parametrize(("cost", "constraints"), TIED)
def test_no_cheapest_kernel_tells_less_says_cvxpy(cost, constraints):
    """The least information at a cost a millionth above the optimum, by Clarabel, is what the answer tells."""
    found = us.solve(cost, constraints=constraints)
    assert found.status == "optimal"
    assert not any(broken(one, found.prior, found.randomizer.kernel) for one in constraints)
    least = conic(Case("", cost, found.prior, constraints, {"distortion_at_most": found.distortion * (1.0 + 1e-6)}))
    assert found.leakage <= least * 1.01 + 1e-5
    assert found.leakage >= least - 1e-5


@pytest.mark.parametrize(("cost", "constraints"), TIED)
def test_the_second_stage_costs_a_hair_at_most(cost, constraints):
    """Against the vertex of the linear program: never dearer by more than 1e-10, never more telling."""
    problem = Problem(cost, np.full(len(cost), 1.0 / len(cost)), as_constraints(constraints))
    first = problem.cheapest()
    found = problem.solve()
    assert found.excess <= first.excess * (1.0 + 1.1e-10)
    assert found.leakage <= first.leakage
    assert found.bound <= first.excess


def test_random_answers_are_never_worse_than_the_vertex():
    """Many kinds together: what is taken in place of a vertex keeps all, costs the same and tells less."""
    better = 0
    for k in range(60):
        case = random_case(
            np.random.default_rng([11, k]), ["total_variation", "error_at_least", "floor"][k % 3], most=5
        )
        if case.demand:
            continue
        try:
            problem = Problem(case.cost, case.prior, case.constraints)
            first = problem.cheapest()
        except InfeasibleError:
            continue
        found = problem.solve()
        assert found.excess <= first.excess * (1.0 + 1.1e-10) + 2.0 * problem.rounding
        assert found.leakage <= first.leakage
        assert found.optimal or not first.optimal
        assert not any(broken(one, case.prior, found.kernel) for one in case.constraints)
        better += found.leakage < 0.999 * first.leakage
    assert better > 0


@pytest.mark.parametrize(("k", "kind"), [(30, "total_variation"), (88, "same")])
def test_a_kernel_that_rounding_makes_dear_is_looked_for_again(k, kind):
    """Eight values: the first kernel close by costs too much once it is exact, and the next one does not."""
    case = random_case(np.random.default_rng([9, k]), kind)
    error = case.demand.get("error_at_least")
    kept = case.constraints if error is None else (*case.constraints, ErrorAtLeast(error))
    problem = Problem(case.cost, case.prior, as_constraints([one.by_position(range(8), range(8)) for one in kept]))
    first = problem.cheapest()
    found = problem.solve()
    assert found.leakage < 0.8 * first.leakage
    assert found.excess <= first.excess * (1.0 + 1e-10)


def test_one_optimum_is_left_as_it_is():
    """Random costs have one cheapest kernel; no second stage is begun, and no bit of the first changes."""
    cost = np.random.default_rng(8).random((5, 6))
    problem = Problem(cost, np.full(5, 0.2), (ErrorAtLeast(0.4),))
    first = problem.cheapest()
    program, found = problem.tied
    assert not has_less_telling_optimum(program, found.vertex, find_prices(found.vertex))
    assert (problem.solve().kernel == first.kernel).all()


def test_a_tie_is_noticed_and_no_tie_is_not():
    """Two problems whose optima are known: the flip, and the same with one cost changed."""
    pairs, p = [(0, 1)], np.full(2, 0.5)
    for cost, tied in ((FLIP, True), (np.array([[0.0, 1.0], [1.2, 0.0]]), False)):
        rows = write_program(p, p, cost, np.ones((2, 2), dtype=bool), 0.0, (TotalVariation(0.3),), pairs)
        vertex = solve_linear(rows)
        priced = find_prices(vertex)
        assert has_less_telling_optimum(rows, vertex, priced) == tied
        if tied:
            assert np.allclose(least_telling_optimum(rows, vertex, priced), [[0.65, 0.35], [0.35, 0.65]], atol=1e-6)


@pytest.mark.parametrize(("cost", "constraints"), TIED)
def test_two_ways_to_the_optimum_that_tells_least_agree(cost, constraints, monkeypatch):
    """In the coordinates of the optima, and by weighing the information: the same information at the same cost."""
    found = us.solve(cost, constraints=constraints)
    monkeypatch.setattr(constrained_solver, "least_telling_optimum", lambda *_: None)
    weighed = us.solve(cost, constraints=constraints)
    assert found.distortion == pytest.approx(weighed.distortion, rel=1e-9)
    assert found.leakage == pytest.approx(weighed.leakage, rel=1e-7)


def test_the_weighed_sum_is_minimised_with_proof():
    """Cost and a weight times the information: the bound meets the value, and no kernel tried is below it."""
    rng = np.random.default_rng(2)
    p = np.full(4, 0.25)
    rows = write_program(
        p, p, rng.random((4, 5)), np.ones((4, 5), dtype=bool), 0.0, (LocalDP(1.0), MaximalLeakage(0.3))
    )
    found = interior_point(rows, interior_start(rows, np.full((4, 5), 0.2)), Goal(1.0, 0.1))
    assert found.value - found.bound <= 1e-8 * found.value
    corner = solve_linear(rows).P
    for share in np.linspace(0.0, 1.0, 11):
        P = (1.0 - share) * corner + share * 0.2
        value = float((0.25 * rows.cost * P).sum()) + 0.1 * information(p, np.ascontiguousarray(P).reshape(-1))
        assert value >= found.bound


def test_the_least_distortion_itself_can_be_asked():
    """With the optimum as the limit the quiet kernel is found, where a kernel of that cost exists at all."""
    there = us.solve(FLIP, constraints=[TotalVariation(0.3)])
    for limit in (there.distortion, 0.35 + 1e-14, 0.35 + 1e-12, 0.35 + 1e-9):
        found = us.solve(FLIP, distortion_at_most=limit, constraints=[TotalVariation(0.3)])
        assert found.status == "optimal"
        assert found.leakage == pytest.approx(0.0457005, abs=1e-7)
    # 3/8 is a double, and so is what the flip needs: met to the last bit
    found = us.solve(FLIP, distortion_at_most=0.375, constraints=[TotalVariation(0.25)])
    assert found.status == "optimal"
    assert found.distortion <= 0.375
    assert found.leakage == pytest.approx(us.solve(FLIP, leakage=found.leakage).leakage, rel=1e-7)
    # the double 0.35 is below (1 - 0.3) / 2 for the double 0.3: no kernel costs so little
    with pytest.raises(InfeasibleError, match="was found that meets it"):
        us.solve(FLIP, distortion_at_most=0.35, constraints=[TotalVariation(0.3)])


# --- gaps that are rounding -------------------------------------------------------------------------------------------


def test_where_the_cheapest_pairs_will_do_nothing_is_added():
    """Each value's nearest point is allowed by the constraint: the excess is none, not 1e-14."""
    x, y = np.linspace(0.0, 1.0, 5), np.linspace(0.0, 1.0, 3)
    cost = np.abs(x[:, None] - y) ** 2 * 10
    found = us.solve(cost, prior=[0.3, 0.25, 0.2, 0.15, 0.1], constraints=[PointwiseLeakage(1.5)])
    assert found.status == "optimal"
    assert found.gap <= 1e-15
    assert PointwiseLeakage(1.5).holds(found.prior, found.randomizer.kernel)


@pytest.mark.parametrize(("m", "epsilon"), [(3, 20), (5, 20), (3, 15)])
def test_a_tiny_cost_is_proven_with_enough_digits(m, epsilon):
    """(m - 1) / (e^epsilon + m - 1) is 4e-9 at epsilon = 20: between the bounds, and these are close."""
    found = us.solve(hamming(m), constraints=[LocalDP(epsilon)])
    exact = (m - 1) / (math.exp(epsilon) + m - 1)
    assert found.status == "optimal"
    assert found.lower_bound <= exact * (1.0 + 1e-12)
    assert found.distortion == pytest.approx(exact, rel=1e-6)
    assert found.gap <= 4e-15


@pytest.mark.parametrize(("k", "kind"), [(703, "maximal_leakage"), (718, "same"), (867, "total_variation")])
def test_no_more_is_mixed_in_than_the_constraints_need(k, kind):
    """Dear pairs that are never drawn at the optimum: drawn once in 1e13 for room to spare they cost more than 1e-7."""
    case = random_case(np.random.default_rng([7, k]), kind)
    verdict, found = look(case)
    assert verdict.wrong == []
    assert found.status == "optimal"
