"""Theorem 1 by experiment: whatever goes in, the output has exactly the law of the target.

Each pair: 100,000 readings simulated from the definition of the source (not through our scores),
disguised, and scored under the target. The scores must be white standard normals (level, spread,
shape, serial and cross correlation, magnitudes), at a false-alarm rate of 1e-6 a test. Each has two
twins that must fail: the same output scored under the source, and readings of a slightly different
source put through the same transformation.
"""

from __future__ import annotations

import numpy as np
import pytest
from law_pairs import GENERAL, PAIRS

import understudy as us
from understudy.checks import whiteness

FALSE_ALARM = 1e-6


@pytest.fixture(scope="module", params=PAIRS, ids=[p.name for p in PAIRS])
def case(request):
    pair = request.param
    rng = np.random.default_rng(20231)
    return pair, us.disguise(pair.draw(rng), source=pair.source, target=pair.target), rng


def test_output_has_the_law_of_the_target(case):
    """Scores of the output under the target are white standard normals (false alarm 1e-6)."""
    pair, disguised, _ = case
    assert disguised.size >= 100_000
    result = whiteness(us.whiten(disguised, pair.target))
    assert result.p_value > FALSE_ALARM, result.weakest


def test_the_same_output_does_not_have_the_law_of_the_source(case):
    """The twin: scored under the source, the same output fails."""
    pair, disguised, _ = case
    try:
        scores = us.whiten(disguised[: max(2, len(disguised) // 5)], pair.source)  # a part is enough
    except us.errors.ReadingError:  # impossible under the source: a negative reading of a gamma law
        assert pair.source.dim == 3
    else:
        assert whiteness(scores).p_value < FALSE_ALARM


def test_readings_of_another_source_do_not_come_out_right(case):
    """The other twin: readings that a wrong source model describes almost rightly fail too."""
    pair, _, rng = case
    wrong = us.disguise(pair.other(rng), source=pair.source, target=pair.target)
    assert whiteness(us.whiten(wrong, pair.target)).p_value < FALSE_ALARM


def test_there_are_enough_pairs():
    """At least ten, scalar and with three channels."""
    assert len(PAIRS) >= 10
    assert {1, 3} <= {p.source.dim for p in PAIRS}


@pytest.mark.sample(default=6, seconds=28, reason="17 pairs of models, some by quadrature")
@pytest.mark.parametrize("pair", GENERAL, ids=[p.name for p in GENERAL])
def test_output_of_general_models_has_the_law_of_the_target(pair):
    """Scores of the output under the target are white standard normals; those of a wrong source are not (1e-6)."""
    rng = np.random.default_rng(20231)
    for draw, right in ((pair.draw, True), (pair.other, False)):
        readings = draw(rng)
        assert readings.size >= pair.samples
        disguised = us.disguise(readings, source=pair.source, target=pair.target, rng=5)
        result = whiteness(us.whiten(disguised, pair.target, rng=6))
        assert (result.p_value > FALSE_ALARM) == right, result.weakest


def test_there_are_enough_general_pairs():
    """Twelve further pairs or more, scalar and with two channels."""
    assert len(GENERAL) >= 12
    assert {1, 2} <= {p.source.dim for p in GENERAL}
