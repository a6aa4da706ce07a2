"""The arithmetic of the tails, on densities whose tails are known in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from understudy.laws.scalar import TRUSTED, Density, log_tail, quantiles, scores


def density(family: Any, *args: float, **changes: Any) -> Density:
    """A scipy family, exactly as scipy computes it."""

    def of(name: str) -> Callable[[Any], Any]:
        return lambda x: getattr(family, name)(x, *args)

    lower, upper = (float(end) for end in family.support(*args))
    functions = {name: of(name) for name in ("logpdf", "cdf", "sf", "ppf", "isf")}
    return Density(**{**functions, "lower": lower, "upper": upper, **changes})


def tail(law: Density, x: float, side: float) -> float:
    """The logarithm of one tail from the log-density alone (no second opinion)."""
    return float(log_tail(law, np.array([x]), side, np.zeros(1))[0])


@pytest.mark.parametrize("x", [3.5, 10.0, 38.0, 100.0, 1e4])
def test_the_normal_tail_from_its_density(x: float) -> None:
    """Log Pr(X > x) agrees with mpmath to the last digits, far beyond underflow (10,000 sigma)."""
    with mp.workdps(50):
        expected = float(mp.log(mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2))
    assert tail(density(stats.norm), x, 1.0) == pytest.approx(expected, rel=1e-14)
    assert tail(density(stats.norm), -x, -1.0) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("shape", "x"), [(0.1, 1e-150), (0.1, 1e-40), (2.0, 1e-3), (50.0, 1.0), (1e6, 9.9e5)])
def test_a_tail_that_ends_at_a_finite_point_even_with_a_pole_there(shape: float, x: float) -> None:
    """Pr(X < x) of a gamma law, whose density may be infinite at 0 (scipy's has 10 digits for shape 1e6)."""
    with mp.workdps(50):
        expected = float(mp.log(mp.gammainc(shape, 0, x, regularized=True)))
    assert tail(density(stats.gamma, shape), x, -1.0) == pytest.approx(expected, rel=1e-10 if shape == 1e6 else 1e-13)


@pytest.mark.parametrize(("shape", "x"), [(0.1, 5.0), (2.0, 12.0), (2.0, 700.0), (50.0, 120.0), (1e6, 1.01e6)])
def test_the_upper_tail_of_a_gamma_law(shape: float, x: float) -> None:
    """Pr(X > x) of a gamma law, from nearly all mass at 0 to nearly normal."""
    with mp.workdps(50):
        expected = float(mp.log(mp.gammainc(shape, x, mp.inf, regularized=True)))
    assert tail(density(stats.gamma, shape), x, 1.0) == pytest.approx(expected, rel=1e-10 if shape == 1e6 else 1e-13)


def test_a_power_tail_meets_its_own_quadrature() -> None:
    """Where the closed power tail takes over there is no step, and it goes on to the end of float64."""
    law = density(stats.pareto, 0.7)
    powered = density(stats.pareto, 0.7, power=(0.7, 1.0))
    x = np.array([1e5, 1e20, 1e90])
    expected = -0.7 * np.log(x)
    np.testing.assert_allclose(log_tail(law, x, 1.0, np.zeros(3)), expected, rtol=1e-13)
    np.testing.assert_allclose(log_tail(powered, x, 1.0, np.zeros(3)), expected, rtol=1e-13)


def test_a_tail_cut_off_by_float64_is_not_guessed() -> None:
    """At x = 1e300 a tenth of this tail lies beyond the largest float: NaN, not nine tenths of it."""
    law = density(stats.lomax, 0.1)
    assert math.isnan(tail(law, 1e300, 1.0))
    assert tail(law, 1e100, 1.0) == pytest.approx(-0.1 * math.log(1e100), rel=1e-12)
    x = np.logspace(150, 300, 301)
    error = np.abs(log_tail(law, x, 1.0, np.zeros(x.size)) + 0.1 * np.log(x))
    assert (error[~np.isnan(error)] < 1e-9).all()


def test_an_underflowing_density_is_not_guessed() -> None:
    """log(pdf) has lost its digits near 1e-320; the tail is NaN there rather than wrong."""

    def logpdf(x: Any) -> Any:
        return np.log(0.5 * np.exp(-np.abs(x)))

    law = density(stats.laplace, logpdf=logpdf)
    with np.errstate(all="ignore"):
        assert tail(law, 650.0, 1.0) == pytest.approx(math.log(0.5) - 650.0, rel=1e-13)
        for x in (740.0, 800.0):
            assert math.isnan(tail(law, x, 1.0))


def test_a_distant_second_mode_is_taken_from_the_distribution_function() -> None:
    """Quadrature steps over a narrow far mode; the cdf knows of it, and wins."""
    near, far = stats.norm(), stats.norm(1e4, 1.0)

    def mix(name: str) -> Callable[[Any], Any]:
        return lambda x: 0.9999 * getattr(near, name)(x) + 1e-4 * getattr(far, name)(x)

    def logpdf(x: Any) -> Any:
        return np.logaddexp(math.log(0.9999) + near.logpdf(x), math.log(1e-4) + far.logpdf(x))

    law = Density(logpdf, mix("cdf"), mix("sf"), near.ppf, near.isf)
    x = np.array([6.0])
    assert log_tail(law, x, 1.0, law.sf(x))[0] == pytest.approx(math.log(1e-4), rel=1e-4)
    assert log_tail(law, x, 1.0, np.zeros(1))[0] < -20.0  # what the quadrature alone would say


def test_a_density_with_steps_falls_back_on_the_distribution_function() -> None:
    """A histogram's tail is not smooth; its cdf is believed down to 1e-9, and NaN follows."""
    edges = np.array([0.0, 1.0, 2.0, 3.0])
    weights = np.array([1.0 - 1e-4, 1e-4 - 1e-8, 1e-8])
    law = density(stats.rv_histogram((weights, edges), density=False))
    x = np.array([0.5, 1.5, 1.9, 2.5])
    expected = stats.norm.isf([0.50005, (1e-4 + 1e-8) / 2, 1e-5 + 0.9e-8, 0.5e-8])
    np.testing.assert_allclose(scores(law, x), expected, atol=1e-6)


def test_blocks_change_nothing() -> None:
    """Thousands of points are integrated in blocks; each point has the value that it has alone."""
    law = density(stats.logistic)
    x = np.linspace(10.0, 700.0, 5001)
    together = log_tail(law, x, 1.0, np.zeros(x.size))
    np.testing.assert_allclose(together, -np.log1p(np.exp(-x)) - x, rtol=1e-14)
    assert together[2500] == tail(law, float(x[2500]), 1.0)


def test_scores_outside_the_support_are_infinite_and_missing_stays_missing() -> None:
    """The ends count as outside: no reading has a finite score there."""
    law = density(stats.uniform)
    z = scores(law, np.array([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan]))
    assert z[:2].tolist() == [-np.inf, -np.inf]
    assert z[2] == 0.0
    assert z[3:5].tolist() == [np.inf, np.inf]
    assert np.isnan(z[5])


def test_no_step_where_quadrature_takes_over() -> None:
    """On both sides of the probability at which scipy is no longer believed, the scores agree."""
    for family, args in (
        (stats.t, (3.0,)),
        (stats.gamma, (2.0,)),
        (stats.skewnorm, (4.0,)),
        (stats.logistic, ()),
    ):
        law = density(family, *args)
        for x in (float(law.ppf(TRUSTED)), float(law.isf(TRUSTED))):
            points = x * np.array([1.0 - 1e-9, 1.0, 1.0 + 1e-9])
            z = scores(law, points)
            slope = np.exp(law.logpdf(points[1]) + z[1] ** 2 / 2) * math.sqrt(2 * math.pi)
            np.testing.assert_allclose(np.diff(z), slope * np.diff(points), atol=1e-13)


def test_the_inverse_gives_up_in_bounded_work() -> None:
    """A law whose density is useless ends in NaN after a bounded number of evaluations."""
    calls = 0

    def broken(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return np.full(np.shape(x), np.nan)

    law = density(stats.norm, logpdf=broken)
    assert np.isnan(quantiles(law, np.array([20.0, -20.0]))).all()
    assert calls < 2000


def test_the_inverse_survives_a_wrong_start() -> None:
    """Scipy's own quantiles are a start only: garbage there costs time, not correctness."""
    law = density(stats.logistic)
    lying = Density(law.logpdf, law.cdf, law.sf, lambda p: law.ppf(p) * (p > 0.2), lambda p: np.full(np.shape(p), 1e9))
    z = np.array([-9.0, -1.5, 0.7, 2.0, 9.0, 30.0])
    np.testing.assert_allclose(quantiles(lying, z), quantiles(law, z), rtol=1e-13)


def test_the_inverse_takes_few_steps_even_between_coarse_floats() -> None:
    """Newton's method from one float to the next stops; it does not creep between two of them."""
    calls = 0

    def counted(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return stats.uniform.sf(x)

    law = density(stats.uniform, sf=counted)
    for z in (7.218, 7.317, 7.372, 7.956, 8.014, 20.0):
        calls = 0
        assert 0.5 < quantiles(law, np.array([z]))[0] < 1.0
        assert calls < 20


def test_the_inverse_stays_inside_the_support() -> None:
    """The ends belong to nobody, even where the density has a pole."""
    for law in (density(stats.uniform), density(stats.rdist, 1.6)):
        assert quantiles(law, np.array([40.0]))[0] == np.nextafter(1.0, 0.0)


def test_the_inverse_of_missing_and_of_infinite_scores() -> None:
    """Missing stays missing; an infinite score has no value."""
    assert np.isnan(quantiles(density(stats.norm), np.array([np.nan, np.inf, -np.inf]))).all()
