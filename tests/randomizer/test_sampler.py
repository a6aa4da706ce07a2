"""Draws from a randomizer: exactly the kernel that was certified, from the random source of the system."""

from __future__ import annotations

import math
import secrets
from fractions import Fraction

import numpy as np
import pytest
from helpers import ALPHA
from scipy import stats

import understudy as us
from understudy.errors import DesignError

KERNEL = np.array([[0.5, 0.25, 0.125, 0.125], [0.0, 0.01, 0.99, 0.0], [0.3, 0.3, 0.2, 0.2]])


def pvalue(counts, probabilities):
    """Chi-square test of counts against probabilities; impossible outcomes must not occur."""
    there = probabilities > 0.0
    if counts[~there].any():
        return 0.0
    expected = probabilities[there] / probabilities[there].sum() * counts.sum()
    return stats.chisquare(counts[there], expected).pvalue


def drawn(randomizer, row, n, rng):
    return np.bincount([randomizer.draw_index(row, rng) for _ in range(n)], minlength=randomizer.kernel.shape[1])


@pytest.mark.parametrize("row", range(3))
def test_draws_follow_the_kernel(row):
    """Chi-square at a false-alarm rate of 1e-6; a kernel that is a little off must fail."""
    randomizer = us.Randomizer(KERNEL)
    counts = drawn(randomizer, row, 20_000, np.random.default_rng(row))
    assert pvalue(counts, KERNEL[row]) > ALPHA
    off = np.where(KERNEL[row] > 0.0, KERNEL[row] + 0.03 * np.array([1.0, 1.0, -1.0, -1.0]), 0.0)
    assert pvalue(counts, off / off.sum()) < ALPHA


def test_draws_from_the_system_follow_the_kernel_of_a_design():
    """The same without a seed: a true draw, wrong once in a million runs."""
    solved = us.solve((np.arange(4.0)[:, None] - np.arange(4.0)) ** 2, leakage=0.4)
    counts = drawn(solved.randomizer, 1, 5_000, None)
    assert pvalue(counts, solved.randomizer.kernel[1]) > ALPHA
    assert pvalue(counts[::-1], solved.randomizer.kernel[1]) < ALPHA


def test_thresholds_are_exact(monkeypatch):
    """53 random bits below the first count are the first column, the count itself is the second; and so to the end."""
    thirds = [[1.0 / 3.0, 0.0, 1.0 / 3.0, 1.0 / 3.0, 0.0]]
    randomizer = us.Randomizer(thirds)
    counts = randomizer.counts[0].tolist()
    assert sum(counts) == 2**53
    ends = np.cumsum(counts).tolist()
    for bits, column in [
        (0, 0), (ends[0] - 1, 0), (ends[0], 2), (ends[2] - 1, 2), (ends[2], 3), (2**53 - 1, 3),
    ]:  # fmt: skip
        monkeypatch.setattr(secrets, "randbits", lambda size, bits=bits: bits if size == 53 else -1)
        assert randomizer.draw_index(0) == column
        assert randomizer.draw(0) == column


def test_certain_and_impossible_columns(monkeypatch):
    """A column of probability one is drawn by all bits, one of zero by none, one of 2^-53 by a single pattern."""
    certain = us.Randomizer([[0.0, 1.0, 0.0]])
    rare = us.Randomizer([[2.0**-53, 1.0 - 2.0**-53]])
    for bits, column in ((0, 0), (1, 1), (2**53 - 1, 1)):
        monkeypatch.setattr(secrets, "randbits", lambda size, bits=bits: bits)
        assert certain.draw_index(0) == 1
        assert rare.draw_index(0) == column


def test_the_kernel_of_a_design_is_drawn_to_the_last_bit():
    """Counts over 2^53 are the kernel as it was certified: nothing is rounded between proof and draw."""
    solved = us.solve((np.arange(5.0)[:, None] - np.arange(5.0)) ** 2, leakage=1e-3)
    for row, counts in zip(solved.randomizer.kernel.tolist(), solved.randomizer.counts.tolist(), strict=True):
        assert [Fraction(x) for x in row] == [Fraction(k, 2**53) for k in counts]
        assert sum(counts) == 2**53


def test_given_kernels_are_rounded():
    """To the nearest whole number of 2^-53, the rest with the largest; the rows then sum to one exactly."""
    rng = np.random.default_rng(2)
    for n in (1, 2, 3, 10, 500):
        given = rng.dirichlet(np.full(n, 0.3), size=4)
        made = us.Randomizer(given)
        assert (made.counts.sum(axis=1) == 2**53).all()
        largest = given.argmax(axis=1)
        apart = np.abs(made.kernel - given)
        apart[np.arange(4), largest] = 0.0
        assert apart.max() <= 2.0**-54
        assert np.abs(made.kernel - given).max() <= n * 2.0**-52
    exact = np.array([[0.5, 0.25, 0.25]])
    assert np.array_equal(us.Randomizer(exact).kernel, exact)
    assert np.array_equal(us.Randomizer([[1, 0], [0, 1]]).kernel, np.eye(2))


def test_names():
    """Values and pseudo values of any kind; a draw returns the pseudo value itself."""
    randomizer = us.Randomizer(np.eye(3)[[2, 0]], values=["away", (1, 2)], pseudo=[0.5, None, "late"])
    assert randomizer.draw("away") == "late"
    assert randomizer.draw((1, 2)) == 0.5
    assert us.Randomizer(np.eye(2), values=np.array([0.25, 0.75])).draw(0.75) == 1


def test_a_value_that_is_not_there_is_not_named():
    """The private value is a secret: the message tells its type alone."""
    with pytest.raises(DesignError, match="no row for a value of type str") as caught:
        us.Randomizer(np.eye(2)).draw("bedroom")
    assert "bedroom" not in str(caught.value)


def test_seeded_draws_repeat():
    """With a generator the same draws again; without, others."""
    randomizer = us.Randomizer(np.full((1, 64), 1.0 / 64.0))
    first, second = ([randomizer.draw_index(0, np.random.default_rng(3)) for _ in range(5)] for _ in range(2))
    assert first == second
    assert [randomizer.draw_index(0) for _ in range(40)] != [randomizer.draw_index(0) for _ in range(40)]


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ([[0.5, 0.4]], "row 0 of the randomizer sums to 0.9"),
        ([[1.0, 0.0], [0.7, 0.4]], "row 1 of the randomizer sums to 1.1"),
        ([[1.5, -0.5]], "negative or not finite"),
        ([[math.nan, 1.0]], "negative or not finite"),
        ([[math.inf, 0.0]], "negative or not finite"),
        ([0.5, 0.5], "must be a matrix"),
        ([[0.5, 0.5], [1.0]], "must be a matrix"),
        ([], "must be a matrix"),
        ([["a", "b"]], "must be a matrix"),
        ([[True, False]], "must be a matrix"),
        ([[0.5 + 0j, 0.5]], "must be a matrix"),
        (None, "must be a matrix"),
    ],
)
def test_what_is_not_a_kernel_is_refused(kernel, words):
    """The message names the row or the rule."""
    with pytest.raises(DesignError, match=words):
        us.Randomizer(kernel)


def test_names_must_match():
    """As many names as rows and columns."""
    with pytest.raises(DesignError, match="values has 3 entries and the kernel has 2"):
        us.Randomizer(np.eye(2), values=[1, 2, 3])
    with pytest.raises(DesignError, match="pseudo has 1 entries and the kernel has 2"):
        us.Randomizer(np.eye(2), pseudo=[1])


def test_a_randomizer_cannot_be_changed():
    """Its kernel is read-only, the array it came from is not; nothing can be set; repr tells the shape alone."""
    given = np.array([[0.5, 0.5], [0.2, 0.8]])
    randomizer = us.Randomizer(given, values=["secret", "other"])
    given[0] = [0.1, 0.9]
    assert randomizer.kernel[0].tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        randomizer.kernel[0, 0] = 1.0
    with pytest.raises(AttributeError):
        randomizer.kernel = given
    assert repr(randomizer) == "Randomizer(2 x 2)"
