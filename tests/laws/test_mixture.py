"""Mixtures of laws of one number: exact in both tails, invertible without fail, quiet about their secrets.

The oracles are mpmath with 60 digits or more: the sum of the components' tails, and bisection for inverses.
"""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ndtri

from understudy.errors import LawError, NumericalError, ReadingError
from understudy.laws import mixture as inverse
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.laws.mixture import (
    Laws,
    Mixture,
    Normals,
    components_of,
    log_columns,
    mixture_logpdf,
    mixture_score,
    mixture_value,
    one_score,
    one_value,
    search,
)
from understudy.laws.scalar import Scalar

ALPHA = 1e-6


def normals(weights: Any, means: Any, scales: Any) -> Mixture:
    """A mixture of Gaussians, by standard deviations."""
    return Mixture(weights, [Gaussian(float(m), float(s) ** 2) for m, s in zip(means, scales, strict=True)])


# ---------------------------------------------------------------- oracles


def exact_tail(weights: Any, means: Any, scales: Any, y: Any, side: int) -> Any:
    """1 - F (side 1) or F (side -1) of a mixture of normals in mpmath."""
    x = [(mp.mpf(y) - mp.mpf(float(m))) / mp.mpf(float(s)) / mp.sqrt(2) for m, s in zip(means, scales, strict=True)]
    w = [mp.mpf(float(v)) for v in weights]
    return sum(v * mp.erfc(side * t) for v, t in zip(w, x, strict=True)) / 2 / sum(w)


def exact_score(below: Any, above: Any) -> float:
    """Phi^-1 by bisection on the logarithm of the smaller tail."""
    tail, side = (below, -1) if below < above else (above, 1)
    with mp.workdps(35):
        goal, low, high = mp.log(tail), mp.mpf(0), mp.sqrt(-2 * mp.log(tail)) + 1
        for _ in range(75):
            middle = (low + high) / 2
            low, high = (middle, high) if mp.log(mp.erfc(middle / mp.sqrt(2)) / 2) > goal else (low, middle)
        return float(side * low)


def exact_value(weights: Any, means: Any, scales: Any, z: float) -> float:
    """The quantile of score z by bisection on the smaller tail."""
    side = 1 if z > 0 else -1
    goal = mp.erfc(abs(mp.mpf(z)) / mp.sqrt(2)) / 2
    ends = [mp.mpf(float(m)) + mp.mpf(float(s)) * mp.mpf(z) for m, s in zip(means, scales, strict=True)]
    low, high = min(ends), max(ends)
    for _ in range(110):
        middle = (low + high) / 2
        up = (exact_tail(weights, means, scales, middle, side) > goal) == (z > 0)
        low, high = (middle, high) if up else (low, middle)
    return float(low)


NORMALS = {
    "two": ([0.3, 0.7], [-1.0, 2.0], [1.0, 0.5]),
    "narrow in wide": ([0.9, 0.1], [0.0, 0.0], [1.0, 10.0]),
    "a faint outlier": ([1.0 - 1e-300, 1e-300], [0.0, 100.0], [1.0, 1.0]),
    "a million apart": ([0.25, 0.5, 0.25], [-1e6, 0.0, 1e6], [1.0, 1e-6, 1e6]),
    "twelve": (np.full(12, 1 / 12), np.arange(12.0) * 3 - 5, np.linspace(0.5, 2.0, 12)),
    "tiny everywhere": ([0.5, 0.5], [1e-9, -1e-9], [1e-12, 1e-10]),
}


@pytest.mark.sample(default=2, seconds=2, reason="six laws in many digits")
@pytest.mark.parametrize("name", NORMALS)
def test_scores_agree_with_mpmath_far_into_both_tails(name: str) -> None:
    """To 4e-15 of max(1, |z|), for readings of up to 45 standard deviations and spikes of 40 of the widest."""
    w, m, s = NORMALS[name]
    y = np.concatenate([np.add.outer(np.linspace(-45.0, 45.0, 13) * k, m).ravel() for k in (np.min(s), np.max(s))])
    y = y[::3]
    law = normals(w, m, s)
    with mp.workdps(60):
        z = np.array([exact_score(*(exact_tail(w, m, s, t, side) for side in (-1, 1))) for t in y])
    error = np.abs(law.score(y) - z) / np.maximum(1.0, np.abs(z))
    assert error.max() < 4e-15
    one = np.array([law.score(float(t)) for t in y])
    assert (np.abs(one - z) / np.maximum(1.0, np.abs(z))).max() < 4e-15


@pytest.mark.long(seconds=3, reason="bisection with fifty digits")
@pytest.mark.parametrize("name", NORMALS)
def test_values_agree_with_bisection_in_mpmath(name: str) -> None:
    """As far as a score of 40, to 4e-15 of y, its scale or what a rounding unit of z stands for."""
    w, m, s = NORMALS[name]
    z = np.array([-40.0, -30.0, -12.3, -8.3, -5.0, -2.0, -0.7, -0.1, 0.3, 1.1, 3.0, 6.5, 9.0, 21.0, 37.5, 40.0])
    law = normals(w, m, s)
    with mp.workdps(40):
        exact = np.array([exact_value(w, m, s, t) for t in z])
    y = law.value(z)
    # dy = dz phi(z) / f(y)
    per_z = np.exp(-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - law.logpdf(exact))
    allowed = 4e-15 * (np.abs(exact) + np.min(s)) + 4e-16 * np.maximum(1.0, np.abs(z)) * per_z
    assert (np.abs(y - exact) <= allowed).all()
    one = np.array([law.value(float(t)) for t in z])
    assert (np.abs(one - exact) <= allowed).all()


def student3_tail(x: Any) -> Any:
    """Pr(T > x) for Student's t with 3 degrees of freedom: a closed form, so it needs many digits far out."""
    r = mp.mpf(x) / mp.sqrt(3)
    return mp.mpf(1) / 2 - (r / (1 + r * r) + mp.atan(r)) / mp.pi


def test_heavy_tails_agree_with_mpmath_to_40() -> None:
    """A normal law and one percent of Student's t(3), at y from 1e-3 to 1e116 on both sides."""
    law = Mixture([0.99, 0.01], [Gaussian(0.0, 1.0), Scalar(stats.t(3))])
    y = np.array([1e-3, 0.5, 3.0, 6.0, 8.0, 20.0, 1e3, 1e6, 1e20, 1e60, 3e116])
    with mp.workdps(800):
        w = [mp.mpf(0.99), mp.mpf(0.01)]
        tails = [(w[0] * mp.erfc(mp.mpf(t) / mp.sqrt(2)) / 2 + w[1] * student3_tail(t)) / sum(w) for t in y]
        z = np.array([exact_score(1 - tail, tail) for tail in tails])
    np.testing.assert_allclose(law.score(y), z, rtol=2e-12)
    np.testing.assert_allclose(law.score(-y), -z, rtol=2e-12)
    np.testing.assert_allclose(law.value(z), y, rtol=1e-9)
    np.testing.assert_allclose(law.value(-z), -y, rtol=1e-9)


def test_a_bounded_component_counts_0_or_1_outside_its_support() -> None:
    """A normal law and a shifted exponential, against their closed forms."""
    law = Mixture([0.4, 0.6], [Gaussian(0.0, 1.0), Scalar(stats.expon(3.0))])
    y = np.array([-39.0, -20.0, -3.0, 0.0, 2.999, 3.0, 3.5, 10.0, 100.0, 600.0])
    with mp.workdps(60):

        def exact(t: float) -> float:
            x, rest = mp.mpf(t) / mp.sqrt(2), max(mp.mpf(t) - 3, mp.mpf(0))
            below = mp.mpf(0.4) * mp.erfc(-x) / 2 - mp.mpf(0.6) * mp.expm1(-rest)
            above = mp.mpf(0.4) * mp.erfc(x) / 2 + mp.mpf(0.6) * mp.exp(-rest)
            return exact_score(below, above)

        z = np.array([exact(t) for t in y])
    np.testing.assert_allclose(law.score(y), z, rtol=2e-13)
    np.testing.assert_allclose(law.value(z), y, rtol=1e-12, atol=1e-15)


# ---------------------------------------------------------------- round trips and order

ANY = {
    "normal and t": ([0.9, 0.1], [Gaussian(20.0, 1.0), Scalar(stats.t(3, 20, 5))]),
    "normal and exponential": ([0.5, 0.5], [Gaussian(0.0, 1.0), Scalar(stats.expon(3.0))]),
    "overlapping uniforms": ([0.3, 0.7], [Scalar(stats.uniform(0.0, 1.0)), Scalar(stats.uniform(0.5, 1.5))]),
    "three of a kind": (
        [0.2, 0.3, 0.5],
        [Scalar(stats.laplace(1, 2)), Scalar(stats.gamma(2.5)), Scalar(stats.lognorm(0.9))],
    ),
    "a faint Cauchy": ([1 - 1e-12, 1e-12], [Gaussian(0.0, 1.0), Scalar(stats.cauchy())]),
    "two on the half line": ([0.5, 0.5], [Scalar(stats.pareto(2.0)), Scalar(stats.weibull_min(1.5))]),
    "normals": ([0.5, 0.2, 0.3], [Gaussian(0.0, 1.0), Gaussian(1.0, 9.0), Gaussian(4.0, 0.25)]),
}


@pytest.mark.parametrize("name", ANY)
def test_round_trips(name: str) -> None:
    """Z -> y -> z to 3e-14 of max(1, |z|) for ordinary scores, and y -> z -> y to 2e-12; y increases."""
    weights, laws = ANY[name]
    law = Mixture(weights, laws)
    z = np.sort(np.random.default_rng(1).standard_normal(400))
    y = law.value(z)
    assert (np.diff(y) > 0).all()
    assert (np.abs(law.score(y) - z) / np.maximum(1.0, np.abs(z))).max() < 3e-14
    np.testing.assert_allclose(law.value(law.score(y)), y, rtol=2e-12)


@pytest.mark.parametrize("name", ["normal and t", "a faint Cauchy", "normals", "three of a kind"])
def test_round_trips_to_a_score_of_37(name: str) -> None:
    """Z -> y -> z to 3e-15 of |z|, where floats reach the ends of the support: at infinity, or at 0."""
    weights, laws = ANY[name]
    law = Mixture(weights, laws)
    z = np.linspace(-37.0, 37.0, 120)
    y = law.value(z)
    assert (np.diff(y) > 0).all()
    assert (np.abs(law.score(y) - z) / np.maximum(1.0, np.abs(z))).max() < 3e-15


def random_mixtures(rng: Any, kind: str, N: int, K: int) -> tuple[Any, ...]:
    """One random mixture of normals a row, and scores to invert."""
    w = rng.dirichlet(np.ones(K), N)
    if kind == "ordinary":
        return w, rng.normal(0, 3, (N, K)), np.exp(rng.normal(0, 0.5, (N, K))), rng.standard_normal(N)
    if kind == "deep":
        return w, rng.normal(0, 3, (N, K)), np.exp(rng.normal(0, 0.5, (N, K))), rng.uniform(-45, 45, N)
    if kind == "separated":
        return w, rng.normal(0, 100, (N, K)), np.exp(rng.normal(0, 0.5, (N, K))), rng.standard_normal(N)
    m, s = rng.normal(0, 1, (N, K)) * 10 ** rng.uniform(-6, 6, (N, K)), 10 ** rng.uniform(-6, 6, (N, K))
    w = 10 ** rng.uniform(-300 if kind == "faint" else -3, 0, (N, K))
    return w / w.sum(axis=1)[:, None], m, s, rng.uniform(-38, 38, N) if kind == "faint" else 3 * rng.standard_normal(N)


@pytest.mark.parametrize(
    ("kind", "mean", "most"),
    [("ordinary", 3.5, 40), ("deep", 2.0, 40), ("separated", 4.5, 60), ("all scales", 4.0, 80), ("faint", 2.0, 80)],
)
def test_few_looks_however_odd_the_mixture(kind: str, mean: float, most: int) -> None:
    """20,000 random mixtures each; the score is missed by no more than the next float makes, plus 8e-16."""
    w, m, s, z = random_mixtures(np.random.default_rng(11), kind, 20_000, 4)
    with np.errstate(all="ignore"):
        y, looks = search(z, Normals.of(w, m, s))
    assert np.isfinite(y).all()
    assert looks.mean() < mean
    assert looks.max() <= most
    slack = 8e-16 * np.maximum(1.0, np.abs(z))
    below, above = (mixture_score(np.nextafter(y, end), Normals.of(w, m, s)) for end in (-np.inf, np.inf))
    missed = ~((below - slack <= z) & (z <= above + slack))
    if kind in ("ordinary", "deep"):
        back = np.abs(mixture_score(y, Normals.of(w, m, s)) - z) / np.maximum(1.0, np.abs(z))
        assert back.max() < 4e-15
    assert missed.mean() < 1e-3  # where a unit of y is less than rounding in the score, a few units
    spread = 20 * np.spacing(np.abs(y))
    below, above = (mixture_score(y + side * spread, Normals.of(w, m, s)) for side in (-1.0, 1.0))
    assert ((below - 4 * slack <= z) & (z <= above + 4 * slack)).all()


finite = {"allow_nan": False, "allow_infinity": False}


@st.composite
def mixtures(draw: Any) -> Mixture:
    """A mixture of one to five normals of any size."""
    K = draw(st.integers(1, 5))
    exponents = st.lists(st.floats(-200, 0, **finite), min_size=K, max_size=K)
    w = 10.0 ** np.array(draw(exponents))
    means = draw(st.lists(st.floats(-1e6, 1e6, **finite), min_size=K, max_size=K))
    scales = 10.0 ** np.array(draw(st.lists(st.floats(-6, 6, **finite), min_size=K, max_size=K)))
    return normals(w / w.sum(), means, scales)


@settings(max_examples=150, deadline=None)
@given(mixtures(), st.lists(st.floats(-1e7, 1e7, **finite), min_size=2, max_size=20))
def test_scores_increase_with_readings(law: Mixture, readings: list[float]) -> None:
    """Never down, but for four rounding units."""
    z = law.score(np.sort(readings))
    assert (np.diff(z) >= -4 * np.spacing(np.maximum(1.0, np.abs(z[1:])))).all()


@settings(max_examples=60, deadline=None)
@given(mixtures(), st.lists(st.floats(-45.0, 45.0, **finite), min_size=2, max_size=20))
def test_values_increase_with_scores_and_lie_among_the_components_quantiles(law: Mixture, scores: list[float]) -> None:
    """Always an answer; never down, but for rounding; scored again it is z, or floats are too far apart for it."""
    z = np.sort(scores)
    y = law.value(z)
    ends = np.array([part.value(z) for part in law.laws])
    assert (y >= ends.min(axis=0)).all()
    assert (y <= ends.max(axis=0)).all()
    # a stretch where the score is constant to a few units has no order of its own
    down = np.flatnonzero(np.diff(y) < 0)
    assert (law.score(y[down]) - law.score(y[down + 1]) <= 1e-13 * np.maximum(1.0, np.abs(z[down]))).all()
    slack = 1e-14 * np.maximum(1.0, np.abs(z))
    step = 20 * np.spacing(np.abs(y))
    assert ((law.score(y - step) - slack <= z) & (z <= law.score(y + step) + slack)).all()


# ---------------------------------------------------------------- holes


def test_in_a_hole_the_score_is_constant_and_the_value_is_an_end() -> None:
    """U(0, 1) and U(2, 3), at the score of the hole and a hair beside it, for several weights."""
    for w in (0.5, 0.25, 1e-3, 0.9):
        law = Mixture([w, 1 - w], [Scalar(stats.uniform(0, 1)), Scalar(stats.uniform(2, 1))])
        flat = law.score(np.linspace(1.0, 2.0, 11))
        assert (flat == flat[0]).all()
        assert flat[0] == pytest.approx(ndtri(w), abs=1e-15)
        z = flat[0] + np.array([-1e-9, -1e-15, 0.0, 1e-15, 1e-9])
        with np.errstate(all="ignore"):
            y, looks = search(z, Laws(np.log([[w], [1 - w]]), law.laws))
        assert looks.max() <= inverse.LIMIT
        assert ((np.abs(y - 1.0) < 1e-8) | (np.abs(y - 2.0) < 1e-8)).all()
        assert np.isfinite(law.logpdf(y)).all()
        assert ((y < 1.0) | (y > 2.0)).all()
        assert (np.diff(y) >= 0).all()
        again = law.value(z)
        assert ((again < 1.0) | (again > 2.0)).all()
        np.testing.assert_allclose(again, y, rtol=1e-14)


def test_no_value_lies_in_a_hole() -> None:
    """Three islands, 3000 scores over the whole range."""
    islands = [Scalar(stats.uniform(a, 1.0)) for a in (0.0, 10.0, 1e9)]
    law = Mixture([0.2, 0.3, 0.5], islands)
    y = law.value(np.linspace(-8.0, 8.0, 3000))
    assert (np.diff(y) >= 0).all()
    assert np.isfinite(law.logpdf(y)).all()


def test_between_distant_normals_the_value_is_an_end_of_the_gap() -> None:
    """Means 1e6 apart: the score of the gap belongs to a place where a reading may be, not to its middle."""
    law = normals([0.5, 0.5], [0.0, 1e6], [1.0, 1.0])
    assert law.score(5e5) == 0.0
    for z in (0.0, np.array([0.0]), np.array([1e-16, -1e-16])):
        y = np.atleast_1d(law.value(z))
        assert (np.minimum(np.abs(y), np.abs(y - 1e6)) < 9.0).all()


def test_outside_every_support_is_refused_without_showing_the_reading() -> None:
    """Between supports it is not."""
    law = Mixture([0.5, 0.5], [Scalar(stats.uniform(0, 1)), Scalar(stats.uniform(2, 1))])
    for y in (-7.25, 3.0, 0.0, math.inf, -math.inf):
        with pytest.raises(ReadingError, match="the reading is outside the support") as caught:
            law.score(y)
        assert "7.25" not in str(caught.value)
        assert law.logpdf(-7.25) == -math.inf
    with pytest.raises(ReadingError, match="at position 2 is outside"):
        law.score([0.5, 1.5, -1.0])
    with pytest.raises(ReadingError, match="outside the support"):
        normals([0.5, 0.5], [0, 1], [1, 1]).score(math.inf)


# ---------------------------------------------------------------- the search itself


@settings(max_examples=80, deadline=None)
@given(
    st.floats(-1e300, 1e300, **finite), st.floats(-1e300, 1e300, **finite), st.floats(0, 1), st.integers(0, 2**32 - 1)
)
def test_a_search_ends_whatever_it_is_told(a: float, b: float, t: float, seed: int) -> None:
    """A step anywhere, with moves that are noise: shut within the limit, at one of the two floats beside the step."""
    low, high = min(a, b), max(a, b)
    step = low + t * (high / 2 - low / 2) * 2
    step = min(max(step, low), high)
    rng = np.random.default_rng(seed)

    def look(which: Any, y: Any) -> inverse.Look:
        yes = np.ones(y.shape, dtype=bool)
        move = rng.choice([0.1, -0.1, 1e3, 1e-9, np.inf, np.nan]) * y
        move = np.where(move == 0.0, 1.0, move)  # no move at all would end the search
        return inverse.Look(np.where(y < step, -1.0, 1.0), move, ~yes, ~yes, ~yes)

    with np.errstate(all="ignore"):
        y, looks = inverse.invert(look, np.array([low]), np.array([high]), np.array([low]))
    assert looks[0] <= inverse.LIMIT
    assert low <= y[0] <= high
    assert abs(y[0] - step) <= 2 * np.spacing(abs(step))


def test_a_search_gives_up_on_nan() -> None:
    """A function that cannot be computed gives NaN, and costs the others nothing."""

    def look(which: Any, y: Any) -> inverse.Look:
        no = np.zeros(y.shape, dtype=bool)
        return inverse.Look(np.where(which == 0, np.nan, y - 3.0), 3.0 - y, np.abs(y - 3.0) < 1e-9, no, no)

    y, _ = inverse.invert(look, np.array([0.0, 0.0]), np.array([9.0, 9.0]), np.array([1.0, 1.0]))
    assert math.isnan(y[0])
    assert y[1] == 3.0


def test_the_middle_float() -> None:
    """Counted in floats, so that 64 halvings shut any bracket."""
    a, b = np.array([-1.7e308]), np.array([1.7e308])
    for _ in range(65):
        middle = inverse.middle_float(a, b)
        a = np.where(middle < 1e-310, middle, a)
        b = np.where(middle < 1e-310, b, middle)
    assert np.nextafter(a[0], np.inf) >= b[0]


# ---------------------------------------------------------------- densities


@pytest.mark.parametrize("name", ANY)
def test_the_density_is_the_slope_of_the_score(name: str) -> None:
    """Log f(y) = log phi(z) + log dz/dy, by central differences."""
    weights, laws = ANY[name]
    law = Mixture(weights, laws)
    z = np.array([-3.1, -2.2, -1.3, -0.4, 0.45, 1.35, 2.25, 3.15])
    y = law.value(z)
    h = 1e-6 * np.maximum(np.abs(y), 0.1)
    slope = (law.score(y + h) - law.score(y - h)) / (2 * h)
    expected = -0.5 * z**2 - 0.5 * math.log(2 * math.pi) + np.log(slope)
    np.testing.assert_allclose(law.logpdf(y), expected, atol=2e-6)


def test_the_density_integrates_to_one() -> None:
    """By quadrature, for normals and for others."""
    for name, ends in (("normals", (-30.0, 30.0)), ("normal and exponential", (-12.0, 50.0))):
        weights, laws = ANY[name]
        law = Mixture(weights, laws)
        total, _ = integrate.quad(lambda t, law=law: math.exp(law.logpdf(t)), *ends, points=[0.0, 3.0, 4.0], limit=400)
        assert total == pytest.approx(1.0, abs=1e-9)


def test_the_density_far_out() -> None:
    """In logarithms, where every term underflows."""
    law = normals([0.5, 0.5], [0.0, 10.0], [1.0, 2.0])
    assert law.logpdf(1010.0) == pytest.approx(math.log(0.25) - 0.5 * 500.0**2 - 0.5 * math.log(2 * math.pi))
    assert law.logpdf([1010.0])[0] == pytest.approx(law.logpdf(1010.0), rel=1e-15)


def test_scores_of_draws_are_standard_normal_and_those_of_a_wrong_law_are_not() -> None:
    """Kolmogorov-Smirnov on 20,000 draws, false alarm 1e-6; the twin has the weights the other way round."""
    rng = np.random.default_rng(5)
    first = rng.random(20_000) < 0.3
    y = np.where(first, rng.standard_t(4, 20_000), 3.0 + rng.standard_normal(20_000))
    laws = [Scalar(stats.t(4)), Gaussian(3.0, 1.0)]
    assert stats.kstest(Mixture([0.3, 0.7], laws).score(y), "norm").pvalue > ALPHA
    assert stats.kstest(Mixture([0.7, 0.3], laws).score(y), "norm").pvalue < ALPHA


# ---------------------------------------------------------------- many mixtures at once


def test_one_mixture_for_each_reading() -> None:
    """Rows (N, K) give what a law of its own gives for each, for normals and for others, zero weights too."""
    rng = np.random.default_rng(2)
    w = rng.dirichlet(np.ones(3), 30)
    w[::5, 1] = 0.0
    w[3] = [0.0, 0.0, 1.0]
    w /= w.sum(axis=1)[:, None]
    y = 3.0 * rng.standard_normal(30) ** 2
    z = rng.standard_normal(30)
    for laws in ([Gaussian(0.0, 1.0), Gaussian(2.0, 4.0), Gaussian(5.0, 0.5)], ANY["three of a kind"][1]):
        each = [Mixture(row, laws) for row in w]
        parts = components_of(log_columns(w), laws)
        np.testing.assert_allclose(
            mixture_score(y, parts), [law.score(t) for law, t in zip(each, y, strict=True)], rtol=1e-13, atol=1e-15
        )
        np.testing.assert_allclose(
            mixture_value(z, parts), [law.value(t) for law, t in zip(each, z, strict=True)], rtol=1e-12, atol=1e-14
        )
        np.testing.assert_allclose(
            mixture_logpdf(y, parts), [law.logpdf(t) for law, t in zip(each, y, strict=True)], rtol=1e-13
        )
    means, scales = rng.normal(0, 5, (30, 3)), np.exp(rng.normal(0, 1, (30, 3)))
    each = [normals(*row) for row in zip(w, means, scales, strict=True)]
    pairs = list(zip(each, y, z, strict=True))
    rows = (w, means, scales)
    np.testing.assert_allclose(mixture_score(y, Normals.of(*rows)), [law.score(t) for law, t, _ in pairs], rtol=1e-13)
    np.testing.assert_allclose(mixture_value(z, Normals.of(*rows)), [law.value(t) for law, _, t in pairs], rtol=1e-12)
    np.testing.assert_allclose(mixture_logpdf(y, Normals.of(*rows)), [law.logpdf(t) for law, t, _ in pairs], rtol=1e-13)


def test_common_and_separate_parameters_mix() -> None:
    """(K,) beside (N, K)."""
    w, m, s = np.array([0.25, 0.75]), np.array([[0.0, 3.0], [1.0, 5.0]]), np.array([1.0, 2.0])
    y = np.array([2.0, -1.0])
    expected = [normals(w, row, s).score(t) for t, row in zip(y, m, strict=True)]
    np.testing.assert_allclose(mixture_score(y, Normals.of(w, m, s)), expected, rtol=1e-15)
    np.testing.assert_allclose(mixture_value(mixture_score(y, Normals.of(w, m, s)), Normals.of(w, m, s)), y, rtol=1e-14)


def test_weights_that_underflow_may_be_given_as_logarithms() -> None:
    """A component of weight exp(-900) takes over where the other's tail is exp(-1250)."""
    parts = Normals(np.array([[0.0], [-900.0]]), np.array([[0.0], [50.0]]), np.ones((2, 1)))
    z = float(mixture_score(np.array([50.0]), parts)[0])
    with mp.workdps(900):
        tail = mp.erfc(50 / mp.sqrt(2)) / 2 + mp.exp(-900) / 2
        assert z == pytest.approx(exact_score(1 - tail, tail), rel=1e-14)
    assert float(mixture_value(np.array([z]), parts)[0]) == pytest.approx(50.0, rel=1e-13)


def test_pieces_and_the_whole_agree_bit_for_bit() -> None:
    """One at a time in arrays, in chunks, or all: the same bits, also with more than 8 components; floats to 1e-14."""
    rng = np.random.default_rng(7)
    twelve = normals(rng.dirichlet(np.ones(12)), rng.normal(0, 4, 12), np.exp(rng.normal(0, 0.5, 12)))
    hole = Mixture([0.5, 0.5], [Scalar(stats.uniform(0, 1)), Scalar(stats.uniform(2, 1))])
    for law in (twelve, Mixture(*ANY["normals"]), Mixture(*ANY["normal and t"]), hole):
        z = np.concatenate([rng.standard_normal(60), [-20.0, 20.0, -39.0, 39.0]])
        y = law.value(z)
        s = law.score(y)
        for pieces in (64, 5, 2):
            np.testing.assert_array_equal(np.concatenate([law.value(p) for p in np.array_split(z, pieces)]), y)
            np.testing.assert_array_equal(np.concatenate([law.score(p) for p in np.array_split(y, pieces)]), s)
        np.testing.assert_allclose([law.value(t) for t in z.tolist()], y, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose([law.score(t) for t in y.tolist()], s, rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose([law.logpdf(t) for t in y.tolist()], law.logpdf(y), rtol=1e-13)
    z = rng.standard_normal(20_000)
    np.testing.assert_array_equal(np.concatenate([twelve.value(z[:1]), twelve.value(z[1:])]), twelve.value(z))


def test_plain_floats_leave_the_odd_cases_to_the_arrays() -> None:
    """Deep tails, gaps and NaN are answered by None, and by the law all the same."""
    parts = [(0.5, 0.0, 1.0), (0.5, 1e6, 1.0)]
    law = normals([0.5, 0.5], [0.0, 1e6], [1.0, 1.0])
    for y in (-40.0, math.nan, math.inf):
        assert one_score(y, parts) is None
    for z in (40.0, 0.0, math.nan):
        assert one_value(z, parts) is None
    assert law.value(40.0) == pytest.approx(1e6 + 39.98, abs=0.01)
    assert math.isnan(law.value(math.nan))
    assert math.isnan(law.score(math.nan))
    assert math.isnan(law.logpdf(math.nan))


# ---------------------------------------------------------------- what may be mixed


class Triangle:
    """A user's own law on (0, 1) with density 2 y: no `score_or_end`, no dim, and errors of its own outside."""

    def score(self, y: Any, v: Any = None) -> Any:
        y = np.asarray(y, dtype=float)
        if (y <= 0.0).any() or (y >= 1.0).any():
            raise ReadingError("a reading outside (0, 1)")
        return ndtri(y * y)

    def value(self, z: Any) -> Any:
        return np.sqrt(stats.norm.cdf(z))

    def logpdf(self, y: Any) -> Any:
        y = np.asarray(y, dtype=float)
        with np.errstate(all="ignore"):
            return np.where((y > 0) & (y < 1), np.log(2 * np.clip(y, 0, 1)), -np.inf)


def test_a_law_of_the_users_own() -> None:
    """Outside its support it counts 0 or 1, by the side of its median."""
    law = Mixture([0.5, 0.5], [Triangle(), Gaussian(0.0, 1.0)])
    y = np.array([-2.0, -0.5, 0.25, 0.75, 1.5, 4.0])
    p = 0.5 * np.clip(y, 0, 1) ** 2 + 0.5 * stats.norm.cdf(y)
    np.testing.assert_allclose(law.score(y), ndtri(p), rtol=1e-12)
    np.testing.assert_allclose(law.value(law.score(y)), y, rtol=1e-12)
    assert law.score(0.25) == pytest.approx(law.score(y)[2], rel=1e-15)


class Lost(Triangle):
    """Whose scores cannot be computed beyond a half, nor quantiles beyond 3."""

    def score(self, y: Any, v: Any = None) -> Any:
        y = np.asarray(y, dtype=float)
        if (y > 0.5).any():
            raise NumericalError("a reading too far out")
        return y

    def value(self, z: Any) -> Any:
        if (np.abs(z) > 3.0).any():
            raise NumericalError("a score too far out")
        return np.asarray(z, dtype=float)

    def logpdf(self, y: Any) -> Any:
        return stats.norm.logpdf(y)


def test_a_component_that_cannot_be_computed_is_an_error_with_the_right_position() -> None:
    """Not a silent zero."""
    law = Mixture([0.5, 0.5], [Lost(), Gaussian(0.0, 1.0)])
    np.testing.assert_allclose(law.score([0.25, -1.0]), [0.25, -1.0], rtol=1e-15)
    with pytest.raises(NumericalError, match="the reading at position 1 is too far"):
        law.score([0.25, 0.75])
    np.testing.assert_allclose(law.value([-5.0, -1.0]), [-5.0, -1.0], rtol=1e-14)
    law = Mixture([0.5, 0.5], [Lost(), Gaussian(0.2, 1.0)])
    with pytest.raises(NumericalError, match="the score at position 2 is too far"):
        law.value([-0.25, -1.0, 1.0])


def test_a_scalar_law_says_where_its_support_ends() -> None:
    """`score_or_end` is the score, an infinity outside, and one where nothing is left of the density."""
    law = Scalar(stats.uniform(2.0, 1.0))
    assert law.score_or_end([1.0, 2.0, 3.0, 4.0]).tolist() == [-np.inf, -np.inf, np.inf, np.inf]
    assert law.score_or_end(2.25) == law.score(2.25)
    assert math.isnan(law.score_or_end(math.nan))
    assert Scalar(stats.norm()).score_or_end([-1e100, 1e100, 1.0]).tolist() == [-np.inf, np.inf, 1.0]
    with pytest.raises(NumericalError):
        Scalar(stats.norm()).score(1e100)
    hole = Mixture([0.5, 0.5], [law, Scalar(stats.uniform(5.0, 1.0))])
    assert hole.score_or_end([1.0, 4.0, 7.0]).tolist() == [-np.inf, 0.0, np.inf]


def test_mixtures_of_mixtures() -> None:
    """The inner one is opened: the same law as the flat one."""
    a, b, c = Gaussian(0.0, 1.0), Gaussian(3.0, 4.0), Scalar(stats.t(4))
    inner = Mixture([0.25, 0.75], [a, b])
    y = np.linspace(-30.0, 30.0, 31)
    for extra in (Gaussian(-5.0, 1.0), c):
        nested, flat = Mixture([0.5, 0.5], [inner, extra]), Mixture([0.125, 0.375, 0.5], [a, b, extra])
        assert repr(nested) == "Mixture(2 laws, dim=1)"
        np.testing.assert_allclose(nested.score(y), flat.score(y), rtol=1e-14)
        np.testing.assert_allclose(nested.logpdf(y), flat.logpdf(y), rtol=1e-14)
        np.testing.assert_allclose(nested.value(flat.score(y)), y, rtol=1e-9, atol=1e-12)


def test_one_law_alone_and_laws_of_weight_zero() -> None:
    """Are as if they were the law itself."""
    base = Scalar(stats.gamma(2.0))
    y = np.array([0.1, 1.0, 30.0])
    for law in (Mixture([1.0], [base]), Mixture([0.0, 1.0, 0.0], [Gaussian(0.0, 1.0), base, Gaussian(5.0, 1.0)])):
        np.testing.assert_allclose(law.score(y), base.score(y), rtol=1e-13)
        np.testing.assert_allclose(law.value([-3.0, 0.5, 9.0]), base.value([-3.0, 0.5, 9.0]), rtol=1e-13)
        with pytest.raises(ReadingError):
            law.score(-1.0)
    assert Mixture([0.0, 1.0], [Gaussian(0.0, 1.0), Gaussian(7.0, 4.0)]).value(1.0) == pytest.approx(9.0, rel=1e-15)


def test_weights_are_normalised() -> None:
    """A sum within 1e-9 of 1 is taken as 1."""
    law = Mixture([0.5 + 4e-10, 0.5], [Gaussian(0.0, 1.0), Gaussian(1.0, 1.0)])
    assert math.fsum(law.weights) == pytest.approx(1.0, abs=1e-16)
    assert not law.weights.flags.writeable


def test_numbers_and_arrays_of_any_shape() -> None:
    """A number gives a number, an array its shape; missing stays missing."""
    for name in ("normals", "normal and t"):
        law = Mixture(*ANY[name])
        for method in (law.score, law.value, law.logpdf):
            assert type(method(2)) is float
            assert type(method(np.float64(2.0))) is float
            grid = np.linspace(-2.0, 30.0, 24).reshape(2, 3, 4)
            grid[1, 1, 1] = np.nan
            out = method(grid)
            assert out.shape == (2, 3, 4)
            assert np.array_equal(np.isnan(out), np.isnan(grid))
            assert out[0, 2, 1] == pytest.approx(method(grid[0, 2, 1]), rel=1e-13)
            assert method([]).shape == (0,)


# ---------------------------------------------------------------- refusals and secrets

G = Gaussian(0.0, 1.0)


class Dice:
    """A law with atoms."""

    dim, atoms = 1, True

    def score(self, y: Any, v: Any = None) -> Any:
        return y

    value = logpdf = score


@pytest.mark.parametrize(
    ("weights", "laws", "message"),
    [
        ([0.5, 0.6], [G, G], "the weights sum to 1.1; they must sum to 1"),
        ([1.5, -0.5], [G, G], "weight 1 is -0.5; weights must be finite and not negative"),
        ([math.nan, 1.0], [G, G], "weight 0 is nan"),
        ([math.inf, 1.0], [G, G], "weight 0 is inf"),
        ([1.0], [G, G], "there are 1 weights and 2 laws"),
        ([], [], r"weights have shape \(0,\)"),
        (1.0, [G], r"weights have shape \(\)"),
        ([[0.5, 0.5]], [G, G], r"weights have shape \(1, 2\)"),
        ("half", [G], "weights are of type str"),
        ([0.5, 0.5], G, "laws is of type Gaussian; it must be a list"),
        ([0.5, 0.5], [G, 3.0], "law 1 is of type float; it must be a law"),
        ([0.5, 0.5], [G, stats.norm()], "law 1 is of type rv_continuous_frozen; it must be a law"),
        ([0.5, 0.5], [G, Gaussian([0.0, 0.0], np.eye(2))], "law 1 has dim = 2"),
        ([0.5, 0.5], [G, Dice()], "law 1 has atoms"),
    ],
)
def test_refuses_what_is_not_a_mixture(weights: Any, laws: Any, message: str) -> None:
    """A configuration error names the value and the rule."""
    with pytest.raises(LawError, match=message):
        Mixture(weights, laws)


def test_bad_readings_and_scores_are_refused_without_showing_them() -> None:
    """By position and type."""
    for name in ("normals", "normal and t"):
        law = Mixture(*ANY[name])
        with pytest.raises(ReadingError, match="a reading of type str") as caught:
            law.score("secret")
        assert "secret" not in str(caught.value)
        with pytest.raises(ReadingError, match="a score of type list"):
            law.value([1.0, "secret"])
    halves = Mixture([0.5, 0.5], [Scalar(stats.t(3)), Scalar(stats.cauchy())])
    for law in (halves, Mixture(*ANY["normal and t"]), Mixture(*ANY["normals"])):
        for z in (math.inf, -math.inf):
            with pytest.raises(NumericalError, match="the score is too far"):
                law.value(z)
            with pytest.raises(NumericalError, match="the score at position 1 is too far"):
                law.value([0.5, z])


def test_a_quantile_beyond_the_largest_float_is_an_error_only_if_it_is_the_mixtures() -> None:
    """The Cauchy law's quantile of 38 is no float, but that of a mixture with little of it is."""
    with pytest.raises(NumericalError):
        Scalar(stats.cauchy()).value(38.0)
    law = Mixture([1 - 1e-30, 1e-30], [Gaussian(0.0, 1.0), Scalar(stats.cauchy())])
    y = law.value(38.0)
    assert 1e280 < y < 1e300
    assert law.score(y) == pytest.approx(38.0, rel=1e-12)
    with pytest.raises(NumericalError, match="the score at position 1 is too far"):
        law.value([1.0, 45.0])


def test_the_repr_keeps_the_parameters_to_itself() -> None:
    """Conditional laws hold past readings in their parameters."""
    assert repr(normals([0.2, 0.3, 0.5], [123.456, 1.0, 2.0], [1.0, 1.0, 1.0])) == "Mixture(3 laws, dim=1)"


def test_copies_are_the_same_law_bit_for_bit() -> None:
    """Pickle, copy and deepcopy; and a value does not change."""
    for name, (weights, laws) in ANY.items():
        law = Mixture(weights, laws)
        law.value(1.0)
        y = law.value(np.linspace(-3.0, 3.0, 9))
        for twin in (pickle.loads(pickle.dumps(law)), copy.copy(law), copy.deepcopy(law)):  # noqa: S301  # our own
            np.testing.assert_array_equal(twin.score(y), law.score(y), err_msg=name)
            np.testing.assert_array_equal(twin.value([0.3]), law.value([0.3]))
    assert isinstance(law, Law)
    with pytest.raises(AttributeError, match="does not change"):
        law.dim = 2
    assert law.score(y, v=np.full(9, 0.3)).tolist() == law.score(y).tolist()


def test_scipy_is_imported_only_when_used() -> None:
    """Importing the modules does not import scipy."""
    names = "mixture, understudy.laws.multivariate, understudy.laws.multivariate"
    code = f"import sys, understudy.laws.{names}; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
