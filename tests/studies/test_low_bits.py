"""The study of low-order bits: what it says of a pair as doubles, on a lattice, and where scales cancel."""

from studies.low_bits import PAIRS, told


def test_doubles_are_told_apart_and_a_lattice_is_not():
    """The first pair of the study, with 40 sequences of each value: all as doubles, none to speak of at 2^-12."""
    pair = PAIRS[0]
    auc, p = told(pair, 0.0, 40, 1)
    assert auc == 1.0
    assert p < 1e-6
    assert told(pair, 2.0**-12, 40, 1)[1] > 1e-6


def test_scales_that_differ_by_a_power_of_two_cancel():
    """Every double is twice another one."""
    (pair,) = (pair for pair in PAIRS if pair.name == "N(0,2^2) as N(0,1)")
    assert told(pair, 0.0, 10, 1)[0] == 0.5
