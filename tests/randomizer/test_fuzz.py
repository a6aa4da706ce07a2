"""A seeded part of the fuzz of the randomizer problem; `make fuzz` runs all of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from randomizer_cases import FAMILIES, cases, exact_case, look, random_case, violations

import understudy as us

COUNT = 750  # 50 of each family
EVERY = 5  # of these cases are looked at in 50 digits


@pytest.mark.parametrize(
    "count", [COUNT // 10, pytest.param(COUNT, marks=pytest.mark.long(seconds=7, reason="750 problems"))]
)
def test_random_problems(count):
    """No invalid kernel, no overspent budget, every status true, the gap closed in 99.5 percent."""
    wrong, optimal, seen = {}, 0, dict.fromkeys(FAMILIES, 0)
    for k, case in enumerate(cases(seed=1, count=count)):
        verdict = look(case, digits=k % EVERY == 0)
        seen[case.family] += 1
        optimal += verdict.optimal
        if verdict.wrong:
            wrong[k] = (case.family, verdict.wrong)
    assert wrong == {}
    assert optimal >= 0.995 * count
    assert min(seen.values()) == count // len(FAMILIES)


@pytest.mark.sample(default=8, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_in_fifty_digits(family):
    """A few of each family with all digits: the budget and the proof."""
    for k in range(6):
        verdict = look(random_case(np.random.default_rng([2, k]), family, most=9), digits=True)
        assert verdict.wrong == []


# --- the looks themselves would notice --------------------------------------------------------------------------------


@pytest.fixture
def answered():
    """A problem with a known optimum and its answer, in which nothing is wrong."""
    case = exact_case(np.random.default_rng(3), 5, 4, 1)
    design = us.solve(case.cost, prior=case.prior, leakage=case.budget)
    assert violations(case, design).wrong == []
    assert design.status == "optimal"
    return case, design


def changed(design, share, other):
    """The design with a share of another kernel mixed in, its figures those of what it now draws."""
    kernel = us.Randomizer((1.0 - share) * design.randomizer.kernel + share * other)
    cost = float((design.prior[:, None] * kernel.kernel * design.cost).sum())
    return replace(design, randomizer=kernel, distortion=cost)


def test_a_budget_overspent_by_a_billionth_is_noticed(answered):
    """A kernel that tells 1e-9 of the budget too much."""
    case, design = answered
    cheapest = np.eye(5)[case.cost.argmin(axis=1)]
    assert "overspent" in violations(case, changed(design, 1e-8, cheapest)).wrong


def test_a_kernel_that_is_not_optimal_is_noticed(answered):
    """A kernel that costs 1e-8 too much and says that it is optimal; one that says otherwise is honest."""
    case, design = answered
    worse = changed(design, 1e-7, np.full((5, 5), 0.2))
    assert violations(case, worse).wrong == ["not optimal"]
    assert violations(case, replace(worse, status="inexact", gap=1.0)).wrong == []
    assert violations(case, replace(design, status="inexact")).wrong == ["optimal after all"]


def test_false_figures_are_noticed(answered):
    """A distortion or a bound that is not that of the kernel; a bound above the optimum."""
    case, design = answered
    assert violations(case, replace(design, distortion=design.distortion * (1.0 - 1e-9))).wrong
    high = case.optimum * (1.0 + 1e-9)
    assert "bounds do not hold the optimum" in violations(case, replace(design, lower_bound=high)).wrong
    assert violations(case, replace(design, leakage=design.leakage * (1.0 + 1e-9))).wrong == ["figures out of order"]


def test_a_kernel_that_is_none_is_noticed(answered):
    """A row that sums to one less than 2^-53, an entry that is no whole number of it."""
    case, design = answered
    for change in (2.0**-53, 2.0**-60):
        P = design.randomizer.kernel.copy()
        P[0, int(P[0].argmax())] -= change
        P[0, int(P[0].argmin())] += 0.0 if change == 2.0**-53 else change
        broken = replace(design, randomizer=us.Randomizer.from_solver(P, None, None))
        expected = ["invalid kernel"] if (design.randomizer.kernel != P).any() else []
        assert violations(case, broken).wrong == expected
