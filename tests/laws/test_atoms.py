"""A law on finitely many numbers: randomised scores, exact round trips, and chains that live on a grid."""

from __future__ import annotations

import copy
import pickle
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from helpers import ALPHA
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import understudy as us
from understudy.errors import LawError, ReadingError
from understudy.laws.atoms import Atoms
from understudy.laws.law import Law
from understudy.laws.scalar import Shifted

GRID = Atoms([400.0, 405.0, 410.0, 415.0], [0.1, 0.4, 0.0, 0.5])
NEAR_THE_ENDS = [5e-324, 1e-300, 1e-17, 0.25, 0.5, 0.999, 1.0 - 2.0**-53]


def exact_score(p, i, v):
    """Phi^-1(sum of p before i, plus v p_i): sums of fractions, then the normal quantile to 50 digits."""
    p = [Fraction(float(x)) for x in p]
    low = sum(p[:i], Fraction(0)) + Fraction(v) * p[i]
    high = sum(p[i + 1 :], Fraction(0)) + (1 - Fraction(v)) * p[i]
    with mpmath.workdps(60):
        tail = mpmath.mpf(min(low, high).numerator) / min(low, high).denominator / (mpmath.mpf(1) * float(sum(p)))
        z = mpmath.mpf(float(-stats.norm.isf(float(tail)))) if tail > 1e-300 else -mpmath.sqrt(-2 * mpmath.log(tail))
        for _ in range(60):  # Newton on the logarithm of the tail
            F = mpmath.erfc(-z / mpmath.sqrt(2)) / 2
            step = (mpmath.log(F) - mpmath.log(tail)) * F / mpmath.npdf(z)
            z -= step
            if abs(step) < mpmath.mpf(10) ** -30:
                break
        return float(z if low <= high else -z)


@pytest.mark.parametrize("v", [1e-12, 0.3, 0.5, 0.9, 1.0 - 1e-12])
@pytest.mark.parametrize(
    "p",
    [
        [0.25, 0.25, 0.25, 0.25],
        [1e-30, 0.5, 0.5 - 1e-16, 1e-30],
        [1e-200, 1e-100, 1.0, 1e-150],
        [1e-5, 1e-9, 0.0, 1.0 - 1e-5 - 1e-9 - 1e-13, 1e-13],
    ],
)
def test_the_score_is_that_of_the_exact_sums(p, v):
    """In both tails, down to atoms of probability 1e-200 at the top as at the bottom."""
    law = Atoms(np.arange(len(p)), p)
    for i in np.flatnonzero(law.probabilities).tolist():
        expected = exact_score(law.probabilities, i, v)
        assert law.score(float(i), v) == pytest.approx(expected, rel=3e-14, abs=3e-15)


def test_a_score_beyond_the_reach_of_float64_probabilities():
    """The product 1e-200 * 1e-200 underflows; its logarithm does not."""
    law = Atoms([0.0, 1.0], [1e-200, 1.0])
    assert law.score(0.0, 1e-200) == pytest.approx(exact_score([1e-200, 1.0], 0, 1e-200), rel=1e-14)
    upper = Atoms([0.0, 1.0], [1.0, 1e-300])
    assert upper.score(1.0, 1.0 - 2.0**-53) == pytest.approx(exact_score([1.0, 1e-300], 1, 1.0 - 2.0**-53), rel=1e-14)


def test_one_reading_has_the_bits_of_many():
    """A float and an array go different ways to the same bits."""
    rng = np.random.default_rng(1)
    law = Atoms(np.arange(50), rng.dirichlet(np.full(50, 0.05)))
    y = rng.choice(law.values, 500, p=law.probabilities)
    v = np.where(rng.random(500) < 0.2, rng.choice(NEAR_THE_ENDS, 500), rng.uniform(0.01, 0.99, 500))
    many = law.score(y, v)
    assert [law.score(float(a), float(b)) for a, b in zip(y, v, strict=True)] == many.tolist()
    assert [law.value(float(z)) for z in many] == law.value(many).tolist()
    np.testing.assert_allclose([law.logpdf(float(a)) for a in y], law.logpdf(y), rtol=1e-15)
    np.testing.assert_array_equal(law.score(y.reshape(5, 100), v.reshape(5, 100)), many.reshape(5, 100))


def test_value_returns_the_atom_for_every_uniform():
    """Exactly, also where u rounds onto the boundary of the atom, and the score is finite."""
    rng = np.random.default_rng(2)
    for k in range(200):
        M = [1, 2, 7, 60][k % 4]
        law = Atoms(rng.permutation(M) * 5.0 - 20.0, rng.dirichlet(np.full(M, [1.0, 0.02][k % 2])))
        y = law.values[law.probabilities > 0.0]
        for v in NEAR_THE_ENDS:
            z = law.score(y, np.full(y.shape, v))
            assert np.isfinite(z).all()
            assert law.value(z).tolist() == y.tolist()
            assert (np.diff(z) > 0.0).all()


def test_atoms_narrower_than_the_distance_of_floats_are_still_atoms():
    """An atom of probability 1e-25 in the middle has an interval of scores of its own."""
    law = Atoms(np.arange(7.0), [0.25, 1e-25, 0.25, 1e-25, 1e-25, 1e-25, 0.5])
    for v in NEAR_THE_ENDS:
        for y in law.values.tolist():
            assert law.value(law.score(y, v)) == y


@settings(max_examples=200, deadline=None)
@given(
    weights=st.lists(
        st.one_of(st.just(0.0), st.floats(1e-300, 1.0), st.floats(1e-20, 1e-10)), min_size=1, max_size=12
    ).filter(lambda w: sum(w) > 1e-290),
    v=st.floats(5e-324, 1.0 - 2.0**-53),
)
def test_round_trip_of_any_law(weights, v):
    """value(score(y, v)) = y, whatever the probabilities."""
    law = Atoms(np.arange(len(weights))[::-1], np.array(weights) / sum(weights))
    for y in law.values[law.probabilities > 0.0].tolist():
        assert law.value(law.score(y, v)) == y


@given(z=st.floats(-40.0, 40.0))
def test_value_is_the_generalised_inverse(z):
    """The smallest atom whose distribution function reaches Phi(z); an atom of probability 0 never."""
    F = np.cumsum([0.1, 0.4, 0.0, 0.5])[:3]
    if np.abs(stats.norm.cdf(z) - F).min() > 1e-9:
        assert GRID.value(z) == [400.0, 405.0, 410.0, 415.0][int(np.searchsorted(F, stats.norm.cdf(z)))]
    assert GRID.value(z) != 410.0


def test_infinite_scores_give_the_outermost_atoms():
    """Never one of probability 0."""
    law = Atoms([1.0, 2.0, 3.0, 4.0], [0.0, 0.5, 0.5, 0.0])
    assert law.value([-np.inf, np.inf]).tolist() == [2.0, 3.0]


def test_scores_are_standard_normal():
    """With independent uniforms (false alarm 1e-6); twin: without them, or with one and the same, they are not."""
    rng = np.random.default_rng(3)
    law = Atoms(np.arange(12), rng.dirichlet(np.ones(12)))
    y, v = rng.choice(law.values, 20_000, p=law.probabilities), rng.random(20_000)
    assert stats.kstest(law.score(y, v), "norm").pvalue > ALPHA
    assert stats.kstest(law.score(y, np.full(y.shape, 0.5)), "norm").pvalue < ALPHA
    assert stats.kstest(law.score(y, np.sqrt(v)), "norm").pvalue < ALPHA


def test_logpdf_is_the_log_probability():
    """And -inf where there is no atom."""
    np.testing.assert_allclose(np.exp(GRID.logpdf([405.0, 400.0, 415.0])), [0.4, 0.1, 0.5], rtol=1e-15)
    assert GRID.logpdf([410.0, 401.0, 1e9]).tolist() == [-np.inf] * 3
    assert GRID.logpdf(401.0) == GRID.logpdf(410.0) == -np.inf
    assert np.isnan(GRID.logpdf(np.nan))
    assert np.isnan(GRID.logpdf([np.nan, 405.0])).tolist() == [True, False]


def test_nan_stays_nan():
    """A missing reading has no score, and its uniform does not matter."""
    z = GRID.score([np.nan, 405.0], [np.nan, 0.5])
    assert np.isnan(z[0])
    assert z[1] == GRID.score(405.0, 0.5)
    assert np.isnan(GRID.value([np.nan])).all()
    assert np.isnan(GRID.score(np.nan, 0.5))


def test_values_may_come_in_any_order():
    """They are sorted, with their probabilities."""
    law = Atoms([3.0, 1.0, 2.0], [0.5, 0.2, 0.3])
    assert law.values.tolist() == [1.0, 2.0, 3.0]
    assert law.probabilities.tolist() == [0.2, 0.3, 0.5]


def test_is_a_value():
    """Frozen, read-only, the same bits after a copy, and silent about its parameters."""
    assert isinstance(GRID, Law)
    assert GRID.atoms is True
    assert GRID.dim == 1
    assert repr(GRID) == "Atoms(4 values, dim=1)"
    with pytest.raises(AttributeError, match="value"):
        GRID.dim = 2
    uneven = Atoms(np.arange(30), np.random.default_rng(5).dirichlet(np.ones(30)) * (1 + 5e-10))
    for copied in (copy.copy(uneven), copy.deepcopy(uneven), pickle.loads(pickle.dumps(uneven))):  # noqa: S301
        assert copied.probabilities.tolist() == uneven.probabilities.tolist()
        assert copied.score(7.0, 0.3) == uneven.score(7.0, 0.3)
        for array in (copied.values, copied.probabilities):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0


def test_refuses_what_is_not_a_law():
    """Each refusal names the value and the rule."""
    for values, probabilities, message in (
        ([1.0, 2.0], [0.5, 0.4], "sum to 0.9"),
        ([1.0, 2.0], [1.5, -0.5], "holds -0.5"),
        ([1.0, 2.0], [np.nan, 1.0], "holds nan"),
        ([1.0, np.inf], [0.5, 0.5], "holds inf"),
        ([1.0, 2.0, 1.0], [0.2, 0.3, 0.5], "holds 1.0 twice"),
        ([1.0, 2.0], [1.0], r"shape \(2,\).*shape \(1,\)"),
        ([], [], "at least 1"),
        ([[1.0, 2.0]], [[0.5, 0.5]], r"must be \(M,\)"),
        (["a"], [1.0], "vectors of numbers"),
        ([1.0, [2.0]], [0.5, 0.5], "vectors of numbers"),
    ):
        with pytest.raises(LawError, match=message):
            Atoms(values, probabilities)


def test_refuses_a_reading_without_showing_it():
    """The message names the position and the rule, and has no digits but those of the position."""
    for y, v, message in (
        (405.0, None, "this law has atoms; its score needs auxiliary uniforms v"),
        ([405.0], None, "this law has atoms"),
        (406.1875, 0.5, "the reading is not an atom"),
        ([405.0, 406.1875], [0.5, 0.5], "position 1 is not an atom"),
        (410.0, 0.5, "is not an atom"),  # of probability 0
        ([[405.0, 406.1875]], [[0.5, 0.5]], r"position \(0, 1\)"),
        (405.0, 0.0, "between 0 and 1"),
        (405.0, 1.0, "between 0 and 1"),
        ([405.0], [np.nan], "between 0 and 1"),
        ([405.0, 400.0], [0.5], r"shape \(1,\); readings of shape \(2,\)"),
        ("secret", 0.5, "of type str"),
    ):
        with pytest.raises(ReadingError, match=message) as caught:
            GRID.score(y, v)
        assert not re.search(r"40\d|410|1875|secret", str(caught.value))


def test_channels_with_atoms():
    """A vector hands on one uniform a channel, and laws and models say whether they have atoms."""
    law = us.Independent(us.Gaussian(0.0, 1.0), GRID)
    assert law.atoms
    assert law.score([1.0, 405.0], [0.9, 0.5]).tolist() == [1.0, GRID.score(405.0, 0.5)]
    y = np.array([[0.5, 1.5], [405.0, 415.0]])
    np.testing.assert_array_equal(law.value(law.score(y, np.full((2, 2), 0.7)))[1], y[1])
    with pytest.raises(ReadingError, match="needs auxiliary uniforms"):
        law.score([1.0, 405.0])
    assert not us.Independent(us.Gaussian(0.0, 1.0)).atoms
    assert Shifted(GRID, 5.0).atoms
    assert Shifted(GRID, 5.0).value(Shifted(GRID, 5.0).score(410.0, 0.5)) == 410.0
    assert not Shifted(us.Gaussian(0.0, 1.0), 5.0).atoms
    with_atoms = (us.IID(GRID), us.Markov(GRID, lambda y: GRID), us.AutoRegressive(0.0, noise=GRID, past=[0.0]))
    gauss = us.Gaussian(0.0, 1.0)
    without = (us.IID(gauss), us.Markov(gauss, lambda y: gauss), us.AutoRegressive(0.5, noise=gauss))
    assert [model.atoms for model in with_atoms] == [True] * 3
    assert [model.atoms for model in without] == [False] * 3


# A chain that lives on a grid ----------------------------------------------------------------------------

M, T = 5, 6000


def chain(seed):
    """A Markov chain on five values: the model, and its transition matrix."""
    rng = np.random.default_rng(seed)
    A = rng.dirichlet(np.full(M, 2.0), M)
    laws = [Atoms(5.0 * np.arange(M), row) for row in A]
    return us.Markov(laws[0], lambda y: laws[round(y / 5.0)]), A


def walk(A, T, rng):
    """A path of the chain, drawn without the package."""
    path, at = np.empty(T), 0
    for k in range(T):
        at = rng.choice(M, p=A[at])  # the initial law is the first row
        path[k] = 5.0 * at
    return path


def pair_pvalue(Y, A):
    """Chi-square of the numbers of pairs (y_k, y_k+1) given those of y_k, against the transition matrix."""
    at = np.round(Y / 5.0).astype(int)
    counts = np.zeros((M, M))
    np.add.at(counts, (at[:-1], at[1:]), 1)
    expected = counts.sum(axis=1, keepdims=True) * A
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), M * (M - 1))


def by_hand(Y, source, target, uniforms):
    """Score under the source given the true past, value under the target given the disguised past."""
    s, t, out = source.start(), target.start(), []
    for y, v in zip(Y.tolist(), uniforms.tolist(), strict=True):
        out.append(target.predict(t).value(source.predict(s).score(y, v)))
        s, t = source.update(s, y), target.update(t, out[-1])
    return np.array(out)


def test_disguise_between_two_chains_on_a_grid_is_exact():
    """Pairs of the output have the target's frequencies (false alarm 1e-6), and all are on the grid.

    Twin: the same output against the source, and the map without uniforms, must fail.
    """
    (source, A), (target, B) = chain(11), chain(12)
    rng = np.random.default_rng(13)
    Y = walk(A, T, rng)
    assert pair_pvalue(Y, A) > ALPHA
    out = by_hand(Y, source, target, rng.uniform(1e-12, 1.0, T))
    assert set(out.tolist()) <= set((5.0 * np.arange(M)).tolist())
    assert pair_pvalue(out, B) > ALPHA
    assert pair_pvalue(out, A) < ALPHA
    middle = by_hand(Y, source, target, np.full(T, 0.5))
    assert pair_pvalue(middle, B) < ALPHA


def test_disguise_takes_its_uniforms_from_the_key():
    """The public function does the same, repeatably, and another key gives another output of the same law."""
    (source, A), (target, B) = chain(11), chain(12)
    Y = walk(A, T // 2, np.random.default_rng(14))
    out = us.disguise(Y, source, target, rng=b"a key of 32 bytes, or so it says")
    assert pair_pvalue(out, B) > ALPHA
    assert pair_pvalue(out, A) < ALPHA
    assert us.disguise(Y, source, target, rng=b"a key of 32 bytes, or so it says").tolist() == out.tolist()
    assert us.disguise(Y[:50], source, target, rng=b"another key of 32 bytes or so ..").tolist() != out[:50].tolist()
