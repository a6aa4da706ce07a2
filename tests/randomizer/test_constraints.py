"""Constraints on a randomizer: closed forms, exactness, what they go with, and what cannot be."""

from __future__ import annotations

import html
import itertools
import math

import numpy as np
import pytest
from constraint_cases import Case, broken, conic
from helpers import room
from hypothesis import given, settings
from hypothesis import strategies as st
from randomizer_cases import is_kernel

import understudy as us
from understudy.errors import DesignError, InfeasibleError, StoredFileError
from understudy.randomizer.constraints import (
    KINDS,
    ErrorAtLeast,
    Floor,
    Forbidden,
    LocalDP,
    MaximalLeakage,
    PointwiseLeakage,
    Same,
    TotalVariation,
    as_constraints,
)
from understudy.randomizer.measures import mutual_information
from understudy.serialize import read, write

PSEUDO = [0, 0.2, 0.4, 0.6, 0.8, 1]
EVERY = (
    LocalDP(1.0),
    MaximalLeakage(0.4),
    PointwiseLeakage(0.5),
    TotalVariation(0.4),
    ErrorAtLeast(0.3),
    Floor(0.02),
    Forbidden([(0, 2)]),
    Same([[1, 2]]),
)


def hamming(m):
    return 1.0 - np.eye(m)


def line(n):
    x = np.linspace(0.0, 1.0, n)
    return (x[:, None] - x) ** 2


def the_room(**asked):
    return us.design(us.Family(room, [0, 1]), PSEUDO, horizon=50, distortion="mae", **asked)


# --- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0])
def test_local_differential_privacy_of_a_bit_is_randomised_response(epsilon):
    """P = e^epsilon / (1 + e^epsilon) keeps the bit, and nothing costs less."""
    found = us.solve(hamming(2), constraints=[LocalDP(epsilon)])
    keep = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    assert np.allclose(found.randomizer.kernel, [[keep, 1 - keep], [1 - keep, keep]], atol=1e-13)
    assert found.status == "optimal"
    assert found.guarantee.local_dp <= epsilon


@pytest.mark.parametrize("m", [3, 5, 8])
def test_local_differential_privacy_of_many_values_is_their_randomised_response(m):
    """(m - 1) / (e + m - 1) is the distortion of the optimum at epsilon = 1 (Kairouz, Oh and Viswanath, 2016)."""
    found = us.solve(hamming(m), constraints=[LocalDP(1.0)])
    assert found.distortion == pytest.approx((m - 1) / (math.e + m - 1), rel=1e-11)
    assert found.gap <= 1e-11


@pytest.mark.parametrize(("m", "nats"), [(2, 0.3), (4, 0.7), (6, 1.2)])
def test_leakages_bound_the_right_draws(m, nats):
    """Equally likely values and Hamming costs: sum_i P_ii <= e^L, so 1 - e^L / m; pointwise the same."""
    for one in (MaximalLeakage(nats), PointwiseLeakage(nats)):
        found = us.solve(hamming(m), constraints=[one])
        assert found.distortion == pytest.approx(1.0 - math.exp(nats) / m, rel=1e-11)
        assert found.status == "optimal"
    assert us.solve(hamming(m), constraints=[MaximalLeakage(nats)]).guarantee.maximal_leakage <= nats
    assert us.solve(hamming(m), constraints=[PointwiseLeakage(nats)]).guarantee.pointwise.worst <= nats


@pytest.mark.parametrize(("m", "most"), [(2, 0.25), (3, 0.5), (6, 0.1)])
def test_total_variation_bounds_the_right_draws(m, most):
    """P_ki >= P_ii - tau sums to sum_i P_ii <= 1 + (m - 1) tau, so (m - 1)(1 - tau) / m."""
    found = us.solve(hamming(m), constraints=[TotalVariation(most)])
    assert found.distortion == pytest.approx((m - 1) * (1.0 - most) / m, rel=1e-11)


def test_an_error_as_a_constraint_is_the_demand():
    """The same distortion as `error_at_least`, and the error is met exactly."""
    prior = [0.1, 0.2, 0.3, 0.4]
    found = us.solve(line(4), prior=prior, constraints=[ErrorAtLeast(0.35)])
    asked = us.solve(line(4), prior=prior, error_at_least=0.35)
    assert found.distortion == pytest.approx(asked.distortion, rel=1e-10)
    assert found.guarantee.bayes_error >= 0.35


def test_nothing_gained_by_a_guess():
    """The largest error that can be asked, also where its decimal is a rounding error above it."""
    found = us.solve(line(5), constraints=[ErrorAtLeast(1.0 - 0.2)])
    assert found.leakage == 0.0
    uneven = us.solve(line(3), prior=[0.5, 0.3, 0.2], constraints=[ErrorAtLeast(0.5)])
    assert uneven.guarantee.min_entropy_leakage == pytest.approx(0.0, abs=1e-14)
    assert uneven.leakage > 0.01  # something is told, and no guess is better for it
    assert uneven.status == "optimal"


@pytest.mark.parametrize(
    "nothing", [LocalDP(0), MaximalLeakage(0), PointwiseLeakage(0), TotalVariation(0), Same([range(4)])]
)
def test_a_measure_of_nothing_makes_all_rows_the_same(nothing):
    """The cheapest column for all, as at a leakage of zero."""
    found = us.solve(line(4), prior=[0.1, 0.2, 0.3, 0.4], constraints=[nothing])
    assert found.leakage == 0.0
    assert found.distortion == pytest.approx(us.solve(line(4), [0.1, 0.2, 0.3, 0.4], leakage=0).distortion, rel=1e-14)


def test_a_floor_and_its_price():
    """Each entry is at least 0.01: a bit is wrong so often, and that is the price; with a leakage it is another."""
    found = us.solve(hamming(2), constraints=[Floor(0.01)])
    assert found.randomizer.kernel.min() >= 0.01
    assert found.distortion == pytest.approx(0.01, rel=1e-12)
    assert found.price_of(Floor(0.01)).price == pytest.approx(0.01, rel=1e-12)
    design = the_room(leakage=0.3, constraints=[Floor(0.01)])
    price = design.price_of(Floor(0.01))
    assert (design.randomizer.kernel >= 0.01).all()
    assert price.at_least <= price.price <= price.at_most
    assert price.price == pytest.approx(design.distortion - the_room(leakage=0.3).distortion, rel=1e-6)
    with pytest.raises(DesignError, match=r"Floor\(0.02\) is no constraint of the design"):
        design.price_of(Floor(0.02))


def test_the_price_of_what_does_not_bind_is_nothing():
    """A constraint that the optimum keeps anyway."""
    design = us.solve(line(4), leakage=0.1, constraints=[MaximalLeakage(1.2), LocalDP(5)])
    assert design.price_of(MaximalLeakage(1.2)).at_most <= 1e-9


def test_rows_that_coincide_are_one_value():
    """The information about merged values is that about their groups: as if they were one, with the mean of costs."""
    cost, prior = np.random.default_rng(1).random((4, 5)), np.array([0.1, 0.2, 0.3, 0.4])
    found = us.solve(cost, prior=prior, leakage=0.2, constraints=[Same([[0, 2]])])
    merged = np.array([(0.1 * cost[0] + 0.3 * cost[2]) / 0.4, cost[1], cost[3]])
    alone = us.solve(merged, prior=[0.4, 0.2, 0.4], leakage=0.2)
    assert found.distortion == pytest.approx(alone.distortion, rel=1e-9)
    assert (found.randomizer.kernel[0] == found.randomizer.kernel[2]).all()


def test_forbidden_pairs_are_infinite_costs():
    """The same design as with the costs written by hand."""
    cost = line(4)
    found = us.solve(cost, leakage=0.3, constraints=[Forbidden([(0, 1), (3, 3)])])
    cost[0, 1] = cost[3, 3] = np.inf
    assert found.distortion == pytest.approx(us.solve(cost, leakage=0.3).distortion, rel=1e-9)
    assert found.randomizer.kernel[0, 1] == found.randomizer.kernel[3, 3] == 0.0


# --- with a leakage, with one another ---------------------------------------------------------------------------------


def test_the_tighter_of_two_demands_binds():
    """A bit: local DP at epsilon leaks a known information; below it the leakage binds, above it the epsilon."""
    alone = us.solve(hamming(2), constraints=[LocalDP(1.0)])
    for budget in (0.5 * alone.leakage, 2.0 * alone.leakage):
        found = us.solve(hamming(2), leakage=budget, constraints=[LocalDP(1.0)])
        other = us.solve(hamming(2), leakage=budget)
        assert found.distortion == pytest.approx(max(alone.distortion, other.distortion), rel=1e-8)
        assert found.leakage <= budget
        assert found.budget == budget


@pytest.mark.parametrize("one", [c for c in EVERY if c.name != "multiples"], ids=lambda c: c.name)
def test_each_with_a_leakage_against_cvxpy(one):
    """The optimum of Clarabel lies between the bounds, to its tolerance."""
    rng = np.random.default_rng(4)
    cost, prior = rng.random((4, 5)), rng.dirichlet(np.full(4, 3.0))
    found = us.solve(cost, prior=prior, leakage=0.15, constraints=[one])
    optimum = conic(Case("", cost, prior, (one,), {"leakage": 0.15}))
    assert found.lower_bound <= optimum * (1.0 + 2e-6)
    assert found.distortion == pytest.approx(optimum, rel=2e-6)
    assert found.status == "optimal"
    assert found.leakage <= 0.15


def test_all_measures_together():
    """A design that keeps five measures, a floor and a leakage; each card value is within its limit."""
    measures = LocalDP(1.5), MaximalLeakage(0.4), PointwiseLeakage(0.6), TotalVariation(0.5), ErrorAtLeast(0.5)
    asked = (*measures, Floor(0.01))
    found = us.solve(line(6), leakage=0.2, constraints=asked)
    g = found.guarantee
    assert g.local_dp <= 1.5
    assert g.maximal_leakage <= 0.4
    assert g.pointwise.worst <= 0.6
    assert g.bayes_error >= 0.5
    assert g.mutual_information <= 0.2
    assert found.status == "optimal"
    assert not any(broken(one, found.prior, found.randomizer.kernel) for one in asked)


@pytest.mark.parametrize("demand", [{"error_at_least": 0.4}, {"distortion_at_most": 0.1}, {"leakage": "30%"}, {}])
def test_every_demand_goes_with_constraints(demand):
    """What is asked is met, and so are the constraints."""
    found = us.solve(line(5), constraints=[LocalDP(2.0), Floor(0.005)], **demand)
    assert LocalDP(2.0).holds(found.prior, found.randomizer.kernel)
    assert Floor(0.005).holds(found.prior, found.randomizer.kernel)
    if "error_at_least" in demand:
        assert found.guarantee.bayes_error >= 0.4
    if "distortion_at_most" in demand:
        assert found.distortion <= 0.1
        assert found.leakage - found.leakage_lower_bound <= 1e-7 * found.leakage
        assert found.budget == found.leakage
    assert found.status == "optimal"
    assert (found.budget is None) == ("leakage" not in demand and "distortion_at_most" not in demand)


def test_the_least_leakage_is_the_other_end_of_the_curve():
    """Asking for the distortion of a design gives back its leakage."""
    there = us.solve(line(6), leakage=0.1, constraints=[LocalDP(1.0)])
    back = us.solve(line(6), distortion_at_most=there.distortion, constraints=[LocalDP(1.0)])
    assert back.leakage == pytest.approx(0.1, rel=1e-7)


def test_values_that_cannot_occur():
    """No measure looks at their rows; they get one that would keep them all the same."""
    prior = [0.5, 0.0, 0.5]
    found = us.solve(line(3), prior=prior, constraints=[LocalDP(1.0), Floor(0.01)])
    assert Floor(0.01).holds(prior, found.randomizer.kernel)
    assert us.solve(line(3), prior=prior, constraints=[LocalDP(1.0)]).distortion == pytest.approx(
        us.solve(line(3)[[0, 2]], constraints=[LocalDP(1.0)]).distortion, rel=1e-12
    )


def test_without_constraints_nothing_changes():
    """An empty list of constraints is the bare problem, to the last bit."""
    bare, empty = us.solve(line(8), leakage=0.3), us.solve(line(8), leakage=0.3, constraints=[])
    assert (bare.randomizer.kernel == empty.randomizer.kernel).all()
    assert (bare.distortion, bare.lower_bound, bare.constraints) == (empty.distortion, empty.lower_bound, ())
    with pytest.raises(DesignError, match="no demand given"):
        us.solve(line(8), constraints=[])


# --- designs ----------------------------------------------------------------------------------------------------------


def test_a_family_by_its_values():
    """Pairs and groups are named by values, or by positions where asked."""
    people = us.Family(room, [0, 1, 2], prior=[0.5, 0.3, 0.2])
    by_value = us.design(people, PSEUDO, constraints=[Forbidden([(0, 1)]), Same([[1, 2]]), LocalDP(2)], horizon=9)
    kernel = by_value.randomizer.kernel
    assert kernel[0, PSEUDO.index(1)] == 0.0
    assert (kernel[1] == kernel[2]).all()
    by_place = us.design(
        people, PSEUDO, constraints=[Forbidden([(0, 5)], positions=True), Same([[1, 2]], True), LocalDP(2)], horizon=9
    )
    assert (by_place.randomizer.kernel == kernel).all()
    with pytest.raises(DesignError, match=r"Forbidden: 0.3 is no pseudo value of the design"):
        us.design(people, PSEUDO, constraints=[Forbidden([(0, 0.3)])], horizon=9)


def test_the_card_says_them_in_words():
    """Text, HTML and JSON of the guarantee, and the design itself."""
    found = the_room(leakage=0.3, constraints=[LocalDP(1.0), Floor(0.01)])
    for words in (LocalDP(1.0).words, Floor(0.01).words):
        assert words in " ".join(found.guarantee.text().split())
        assert words in found.guarantee.to_dict()["constraints"]
        assert words in str(found)
        assert words in html.unescape(found.guarantee.html())
    assert "constraints" not in the_room(leakage=0.3).guarantee.to_dict()


def test_a_design_with_constraints_plays():
    """Its stream draws from the kernel that keeps them."""
    found = the_room(constraints=[LocalDP(1.0)])
    assert found.stream(1, rng=np.random.default_rng(1)).step(100.0) is not None


# --- what stored designs may have, and nobody can ask for ------------------------------------------------------------


@pytest.fixture
def coarse(tmp_path):
    """A design as 0.2 stored it: probabilities in multiples of 1/256, which 0.3 does not look for any more."""
    found = us.solve(hamming(2), leakage=0.148, constraints=[LocalDP(2.0)])
    counts = np.array([[195, 61], [60, 196]])
    kernel = us.Randomizer(counts / 256)
    distortion, leakage = float((60 + 61) / 512), mutual_information(found.prior, kernel.kernel)
    found.save(tmp_path / "fine.json")
    content = read(tmp_path / "fine.json", "design", [2]).content
    content["constraints"].append({"kind": "multiples", "of": 256})
    content["kernel"] = kernel.counts.tolist()
    content["numbers"] |= {"distortion": distortion, "leakage": leakage, "gap": distortion - found.lower_bound}
    content["status"] = "inexact"
    path = tmp_path / "coarse.json"
    write(path, content, "design", 2)
    return path, kernel


def test_a_design_stored_with_multiples_loads_with_its_kernel(coarse, tmp_path):
    """The kernel is the stored one, the constraint is told on the card, and the proof is that of all kernels."""
    path, kernel = coarse
    found = us.load_design(path)
    assert np.array_equal(found.randomizer.kernel, kernel.kernel)
    assert found.constraints[1].name == "multiples"
    assert found.constraints[1].words in str(found)
    assert found.status == "inexact"
    assert found.lower_bound < found.distortion == pytest.approx(121 / 512)
    assert found.gap == pytest.approx(found.distortion - found.lower_bound)
    found.save(tmp_path / "again.json")
    again = us.load_design(tmp_path / "again.json")
    assert again.constraints == found.constraints
    assert np.array_equal(again.randomizer.kernel, kernel.kernel)


def test_a_stored_kernel_off_its_lattice_is_refused(coarse):
    """The twin: a kernel that is not in these multiples is no solution of the stored design."""
    path, _ = coarse
    content = read(path, "design", [2]).content
    content["constraints"][1]["of"] = 128
    write(path, content, "design", 2)
    with pytest.raises(StoredFileError):
        us.load_design(path)


def test_multiples_cannot_be_asked_for(coarse):
    """Neither by name nor with the constraint of a stored design."""
    assert not hasattr(us, "Multiples")
    with pytest.raises(DesignError, match="Multiples was removed"):
        us.solve(hamming(2), leakage=0.2, constraints=us.load_design(coarse[0]).constraints)


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([Floor(0.3)], r"Floor\(0.3\): 4 probabilities of at least 0.3 sum to more than 1"),
        ([Floor(0.1), Forbidden([(1, 2)])], r"Floor\(0.1\): row 1 may not draw column 2"),
        ([ErrorAtLeast(0.8)], r"ErrorAtLeast\(0.8\); who always guesses the likeliest value"),
        (
            [LocalDP(1), Forbidden([(i, i) for i in range(4)])],
            r"LocalDP\(1.0\) with forbidden pairs: every pseudo value is forbidden to some value",
        ),
        ([Forbidden([(2, j) for j in range(4)]), LocalDP(1)], "row 2: every pair is forbidden|every pseudo value"),
        (
            [MaximalLeakage(0.1), Forbidden([(i, j) for i in range(4) for j in range(4) if i != j])],
            r"MaximalLeakage\(0.1\) cannot be kept with the forbidden pairs",
        ),
        (
            [TotalVariation(0.1), Forbidden([(0, 0), (0, 1), (1, 2), (1, 3)])],
            r"TotalVariation\(0.1\) cannot be kept with the forbidden pairs",
        ),
    ],
)
def test_what_cannot_be_kept_is_named(asked, words):
    """An `InfeasibleError` that names the constraint."""
    with pytest.raises(InfeasibleError, match=words):
        us.solve(line(4), constraints=asked)


def test_too_little_leakage_for_what_is_forbidden():
    """The least that must be told is said."""
    pairs = Forbidden([(0, 2), (0, 3), (3, 0), (3, 1)])
    with pytest.raises(InfeasibleError, match=r"leakage = 0.01 nats; the forbidden pairs.* need at least 0\.\d+ nats"):
        us.solve(line(4), leakage=0.01, constraints=[pairs, ErrorAtLeast(0.1)])


def test_a_distortion_out_of_reach():
    """What the constraints allow at best is said."""
    with pytest.raises(InfeasibleError, match=r"distortion_at_most = 0.01; the least .* within the constraints"):
        us.solve(hamming(2), distortion_at_most=0.01, constraints=[LocalDP(1.0)])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LocalDP(-1), "LocalDP: epsilon = -1; it must be a number between 0 and 20"),
        (lambda: LocalDP(math.nan), "epsilon = nan"),
        (lambda: LocalDP(True), "epsilon = True"),
        (lambda: MaximalLeakage("0.3"), "nats = '0.3'"),
        (lambda: TotalVariation(1.5), "at_most = 1.5"),
        (lambda: Floor(-0.1), "at_least = -0.1"),
        (lambda: Forbidden([3]), "pairs must be pairs"),
        (lambda: Same([1, 2]), "groups must be groups"),
        (lambda: Same("ab"), "not texts"),
        (lambda: as_constraints(3.0), "constraints holds a float"),
        (lambda: us.solve(hamming(2), constraints=["dp"]), "constraints holds a str"),
        (lambda: us.solve(hamming(2), leakage=1, error_at_least=0, constraints=LocalDP(1)), "leakage and error_at"),
    ],
)
def test_a_wrong_constraint_is_refused(make, words):
    """The value and the rule."""
    with pytest.raises(DesignError, match=words):
        make()


# --- exactness --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("forbidden", "same")])
def test_holds_agrees_with_the_definition_at_the_edge(kind):
    """Kernels on the very limit, a step of 2^-53 to either side: `holds` and a check written another way agree."""
    step = 2.0**-53
    numbers = {
        "local_dp": [math.log(3), 1.0], "maximal_leakage": [math.log(1.5)], "pointwise_leakage": [math.log(1.5)],
        "total_variation": [0.5], "error_at_least": [0.25], "floor": [0.25], "multiples": [4],
    }[kind]  # fmt: skip
    seen = set()
    for number, a, b in itertools.product(numbers, range(-2, 3), range(-2, 3)):
        P = np.array([[0.75 + a * step, 0.25 - a * step], [0.25 + b * step, 0.75 - b * step]])
        one = KINDS[kind](number)
        assert one.holds([0.5, 0.5], P) == (not broken(one, np.array([0.5, 0.5]), P))
        seen.add(one.holds([0.5, 0.5], P))
    assert seen == {True, False} or (kind == "local_dp" and True in seen)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_holds_agrees_with_the_definition(seed):
    """Random kernels that are no whole numbers of 2^-53 too."""
    rng = np.random.default_rng(seed)
    p, P = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4), size=3)
    for one in (LocalDP(2.0), MaximalLeakage(0.5), PointwiseLeakage(0.6), TotalVariation(0.5), ErrorAtLeast(0.3)):
        assert one.holds(p, P) == (not broken(one, p, P))


def test_every_answer_keeps_every_constraint_exactly():
    """A grid of limits: kernels in whole numbers, each constraint in fractions."""
    for one, budget in itertools.product(EVERY, (None, 0.05)):
        found = us.solve(line(4), constraints=[one, Floor(0.0)], leakage=budget)
        assert is_kernel(found.randomizer.kernel)
        assert not broken(one, found.prior, found.randomizer.kernel)
