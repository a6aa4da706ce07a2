"""What is said where constraints cannot be kept, or are none: the true reason, and numbers that can be asked."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from constraint_cases import broken
from helpers import room

import understudy as us
from understudy.errors import DesignError, InfeasibleError
from understudy.randomizer.constraints import (
    ErrorAtLeast,
    Floor,
    Forbidden,
    LocalDP,
    PointwiseLeakage,
    Same,
    TotalVariation,
)

THREE = 1.0 - np.eye(3)
DIAGONAL = Forbidden([(0, 0), (1, 1), (2, 2)])
ALIKE = r"rows 0, 1 and 2 must be treated alike \({}\), and no column is allowed to all of them"


def said(*args, **asked):
    with pytest.raises(InfeasibleError) as caught:
        us.solve(*args, **asked)
    return str(caught.value)


# --- floors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(2, 41))
def test_the_largest_floor_that_is_named_can_be_asked(n):
    """1/n as a float may be too much; the message names a float that is accepted, and the next one is refused."""
    cost = 1.0 - np.eye(n)
    words = said(cost, constraints=[Floor(0.9)])
    most = float(re.search(r"at most (\S+) can be asked", words)[1])
    assert 1.0 / n - 2.0**-52 < most <= 1.0 / n
    found = us.solve(cost, constraints=[Floor(most)])
    assert found.status == "optimal"
    assert not broken(Floor(most), found.prior, found.randomizer.kernel)
    above = math.nextafter(most, 1.0)
    assert f"at most {most!r} can be asked" in said(cost, constraints=[Floor(above)])
    if n & (n - 1) == 0:
        assert most == 1.0 / n
    elif 1.0 / n > most:
        assert f"at most {most!r} can be asked" in said(cost, constraints=[Floor(1.0 / n)])


def test_a_floor_at_its_largest_goes_with_every_measure():
    """All rows are then the same, so nothing is told."""
    most = (2**53 // 5) / 2**53
    asked = [Floor(most), LocalDP(0.0), TotalVariation(0.0), ErrorAtLeast(0.79)]
    found = us.solve(1.0 - np.eye(5), constraints=asked)
    assert found.leakage == pytest.approx(0.0, abs=1e-15)
    assert not any(broken(one, found.prior, found.randomizer.kernel) for one in asked)


# --- forbidden pairs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"leakage": 0, "constraints": [DIAGONAL]}, "leakage = 0"),
        ({"constraints": [DIAGONAL, Same([[0, 1, 2]])]}, "Same"),
        ({"constraints": [DIAGONAL, LocalDP(0)]}, r"LocalDP\(0.0\)"),
        ({"leakage": 0, "constraints": [DIAGONAL, Same([[0, 1]])]}, "leakage = 0 and Same"),
        (
            {"constraints": [DIAGONAL, ErrorAtLeast(2 / 3)]},
            r"ErrorAtLeast\(\S+\), where nothing may be gained by a guess",
        ),
    ],
)
def test_rows_that_must_coincide_and_have_no_column_in_common(asked, why):
    """One pair of each row is forbidden: not every one, and the message does not say so."""
    words = said(THREE, **asked)
    assert re.search(ALIKE.format(why), words)
    assert "infinite" not in words


def test_a_pointwise_leakage_that_leaves_no_column():
    """Each column is forbidden to a third of the odds, so who draws it tells ln 1.5 at least."""
    words = said(THREE, constraints=[DIAGONAL, PointwiseLeakage(0.1)])
    assert "PointwiseLeakage(0.1) with forbidden pairs: row 0 may draw no column without telling too much" in words
    assert us.solve(THREE, constraints=[DIAGONAL, PointwiseLeakage(0.41)]).status == "optimal"


def test_a_row_without_any_pair_says_by_what():
    """Forbidden by name, by an infinite cost, or by both."""
    cost = THREE.copy()
    assert "row 1: every pair is forbidden (Forbidden);" in said(
        cost, constraints=[Forbidden([(1, 0), (1, 1), (1, 2)])]
    )
    cost[1, 1] = math.inf
    assert "row 1: every pair is forbidden (Forbidden and infinite costs);" in said(
        cost, constraints=[Forbidden([(1, 0), (1, 2)])]
    )
    cost[1] = math.inf
    assert "row 1: every pair is forbidden (infinite costs);" in said(cost, constraints=[LocalDP(1)])


def test_a_floor_on_a_forbidden_pair_says_by_what():
    """Infinite costs are named where there are some, and only there."""
    assert "row 0 may not draw column 0 (Forbidden)" in said(THREE, constraints=[DIAGONAL, Floor(0.1)])
    cost = np.where(np.eye(3) > 0.0, math.inf, 1.0)
    assert "row 0 may not draw column 0 (its cost is infinite)" in said(cost, constraints=[Floor(0.1)])


def test_a_family_is_told_by_its_values():
    """Where values are known, rows and columns are named by them."""
    people = us.Family(room, [10, 20])
    pairs = Forbidden([(10, 0.1), (20, 0.2)])
    with pytest.raises(InfeasibleError, match=r"values 10 and 20 must be treated alike .*no pseudo value is allowed"):
        us.design(people, [0.1, 0.2], constraints=[pairs], leakage=0, horizon=5)
    with pytest.raises(InfeasibleError, match=r"value 10 may not draw pseudo value 0.1 \(Forbidden\)"):
        us.design(people, [0.1, 0.2], constraints=[pairs, Floor(0.1)], distortion_at_most=1e9, horizon=5)


# --- what is no constraint --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [None, 5, [1, 2], [None]])
def test_groups_that_are_none(groups):
    """The value and the rule."""
    with pytest.raises(DesignError, match=re.escape(f"Same: groups = {groups!r}; groups must be groups of values")):
        Same(groups)


@pytest.mark.parametrize("pairs", [None, 5, [1, 2], [(1, 2, 3)]])
def test_pairs_that_are_none(pairs):
    """The value and the rule."""
    with pytest.raises(DesignError, match=re.escape(f"Forbidden: pairs = {pairs!r}; pairs must be pairs")):
        Forbidden(pairs)


@pytest.mark.parametrize("what", ["Floor", None, 0.1, Floor])
def test_the_price_of_no_constraint(what):
    """A constraint is asked for, and the value is named."""
    design = us.solve(THREE, constraints=[Floor(0.1)])
    with pytest.raises(DesignError, match=re.escape(f"price_of: {what!r} is no constraint")):
        design.price_of(what)


def test_the_words_of_what_asks_nothing():
    """A group of one, no group and no pair: sentences that say so."""
    assert Same([[0]]).words == Same([]).words != Same([[0], [1, 2]]).words
    assert "1, 2" in Same([[0], [1, 2]]).words
    assert Forbidden([]).words != Forbidden([(0, 1)]).words
