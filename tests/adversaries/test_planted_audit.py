"""The planted leaks once more, as files that others released: `us.audit` finds them, and nothing in their honest twins.

Each sequence is a segment of the file. The budget is zero, or the bound is looked at where it is not. At the level of
one in a thousand that these audits are run at, p rests on permutations and cannot be smaller than 1e-4; the tests
beside this one have the same leaks at one in a million.
"""

import numpy as np
import pytest
from adversary_cases import audited, disguised
from planted_leaks import (
    GRID_PSEUDO,
    Coin,
    apart,
    in_cells,
    moved,
    noisy_room,
    pair,
    ppm_room,
    quick_room,
    restarted,
    ungridded,
)

import understudy as us


def design_of(room, pseudo=(0, 0.5, 1)):
    return us.design(us.Family(room, [0, 1]), list(pseudo), leakage=0.0, horizon=40)


VARIANCE, SENSORS, GRID = design_of(noisy_room), design_of(pair), design_of(ppm_room, GRID_PSEUDO)

LEAKS = {
    "an unfiltered variance": (VARIANCE, VARIANCE, moved(VARIANCE), None, "hmm"),
    "sensors apart": (SENSORS, SENSORS, apart(SENSORS), None, "hmm"),
    "an ungridded output": (GRID, Coin(GRID), ungridded, in_cells, "grid"),
}


@pytest.mark.sample(default=1, seconds=5, reason="three kinds of leaks, two audits each")
@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_leak_is_found_and_its_twin_tells_nothing(leak):
    """By the adversary that is made for it; the twin is what the filter makes of the same readings."""
    design, draws, way, honest, finder = LEAKS[leak]
    for planted in (True, False):
        cases = disguised(draws, 40, 240, np.random.default_rng(1), way if planted else honest)
        found = audited(design, cases, [finder, "windowed"])
        assert found.found is planted, leak
        assert found.how == "released"
        if planted:
            assert next(row for row in found.rows if row.adversary == finder).found


def test_draws_after_restarts_show_against_the_honest_output():
    """The error of the one who looks for redraws falls far below what one draw allows."""
    design = us.design(us.Family(quick_room, [0, 1]), [0, 0.5, 1], leakage="0.1 bit", horizon=60)
    errors = []
    for way in (restarted(design), None):
        cases = disguised(design, 60, 400, np.random.default_rng(1), way)
        found = audited(design, cases, ["redraws"])
        errors.append(next(row for row in found.rows if row.adversary == "redraws").error)
    assert errors[0].high < design.guarantee.bayes_error
    assert errors[1].high > design.guarantee.bayes_error
