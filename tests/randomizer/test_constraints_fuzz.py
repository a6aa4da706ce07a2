"""A seeded part of the fuzz of designs with constraints; `make fuzz` runs all of it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from constraint_cases import Case, cases, disagreement, look, random_case, violations

import understudy as us
from understudy.randomizer.constraints import KINDS, LocalDP, MaximalLeakage

COUNT = 136  # 17 of each kind
COMPARED = 45  # of these with CVXPY, small ones


@pytest.mark.parametrize(
    "count", [COUNT // 8, pytest.param(COUNT, marks=pytest.mark.long(seconds=3, reason="136 problems"))]
)
def test_random_problems(count):
    """No invalid kernel, no constraint broken, no budget overspent, every status true; 98 percent proven optimal."""
    wrong, optimal, answered, refused = {}, 0, 0, 0
    for k, case in enumerate(cases(seed=1, count=count, most=6)):
        verdict, _ = look(case)
        if verdict.wrong:
            wrong[k] = (case.family, verdict.wrong)
        refused += verdict.refused
        if not verdict.refused:
            answered += 1
            optimal += verdict.optimal
    assert wrong == {}
    assert optimal >= 0.98 * answered
    assert refused < count // 3


@pytest.mark.long(seconds=2, reason="each problem is solved by another program too")
def test_bounds_and_refusals_agree_with_cvxpy():
    """Clarabel's optimum lies between the bounds, and what is refused it finds infeasible."""
    apart = {}
    for k, case in enumerate(cases(seed=2, count=COMPARED, most=4)):
        verdict, design = look(case)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "solution may be inaccurate": such an answer is not used
            off = disagreement(case, verdict, design)
        if off > 0.0:  # NaN where it gave up
            apart[k] = (case.family, off)
    assert apart == {}


@pytest.mark.sample(default=4, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("kind", list(KINDS))
def test_larger_problems_of_every_kind(kind):
    """A few with up to 16 rows or columns."""
    for k in range(3):
        verdict, _ = look(random_case(np.random.default_rng([3, k]), kind, most=16))
        assert verdict.wrong == []


# --- the looks themselves would notice --------------------------------------------------------------------------------


@pytest.fixture
def answered():
    """A problem and its answer, in which nothing is wrong."""
    rng = np.random.default_rng(5)
    case = Case(
        "", rng.random((4, 5)), rng.dirichlet(np.ones(4)), (LocalDP(1.0), MaximalLeakage(0.3)), {"leakage": 0.05}
    )
    verdict, design = look(case)
    assert verdict.wrong == []
    assert verdict.optimal
    return case, design


def changed(design, share, other):
    """The design with a share of another kernel mixed in, its figures those of what it now draws."""
    kernel = us.Randomizer((1.0 - share) * design.randomizer.kernel + share * other)
    cost = float((design.prior[:, None] * kernel.kernel * design.cost).sum())
    return replace(design, randomizer=kernel, distortion=cost)


def test_what_is_broken_by_a_hair_is_noticed(answered):
    """A constraint and a budget that are exceeded by 1e-12 of a probability."""
    case, design = answered
    cheapest = np.eye(5)[case.cost.argmin(axis=1)]
    assert set(violations(case, changed(design, 1e-12, cheapest)).wrong) >= {"local_dp broken", "overspent"}


def test_false_figures_are_noticed(answered):
    """A distortion that is not that of the kernel, bounds out of order, an optimum that is none."""
    case, design = answered
    assert violations(case, replace(design, distortion=design.distortion * (1.0 - 1e-9))).wrong
    assert violations(case, replace(design, lower_bound=2.0 * design.distortion)).wrong == ["figures out of order"]
    assert violations(case, replace(design, gap=1e-3)).wrong == ["not optimal"]


def test_a_wrong_bound_is_noticed(answered):
    """A lower bound a hundred-thousandth above the optimum, and a refusal without reason, against CVXPY."""
    case, design = answered
    verdict, _ = look(case)
    assert disagreement(case, verdict, design) == 0.0
    high = replace(design, lower_bound=design.distortion * (1.0 + 1e-4))
    assert disagreement(case, verdict, high) > 0.0
    assert disagreement(case, verdict._replace(refused=True), None) == np.inf
