"""Any continuous law of one number: exact far into the tails, invertible, and quiet about its secrets.

The oracles are mpmath with 50 digits, from formulas of the distributions and never from our code.
"""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import beta, ndtr, ndtri, ndtri_exp

from understudy.errors import LawError, NumericalError, ReadingError
from understudy.laws.law import Law
from understudy.laws.scalar import Scalar

# ---------------------------------------------------------------- round trips

REACH_30 = {
    "alpha": stats.alpha(3.57),
    "betaprime": stats.betaprime(5, 6),
    "burr12": stats.burr12(10, 4),
    "cauchy": stats.cauchy(2.0, 0.5),
    "chi2": stats.chi2(55),
    "crystalball": stats.crystalball(2.0, 3.0),
    "dweibull": stats.dweibull(2.07),
    "expon": stats.expon(),
    "exponnorm": stats.exponnorm(1.5),
    "f": stats.f(29, 18),
    "fisk": stats.fisk(3.09),
    "foldnorm": stats.foldnorm(1.95),
    "gamma": stats.gamma(1.99),
    "genhyperbolic": stats.genhyperbolic(0.5, 1.5, -0.5),
    "genlogistic": stats.genlogistic(0.41),
    "gennorm": stats.gennorm(1.3),
    "gumbel_l": stats.gumbel_l(),
    "gumbel_r": stats.gumbel_r(),
    "halfcauchy": stats.halfcauchy(),
    "halfnorm": stats.halfnorm(),
    "hypsecant": stats.hypsecant(),
    "invgamma": stats.invgamma(4.07),
    "invgauss": stats.invgauss(0.145),
    "johnsonsu": stats.johnsonsu(2.55, 2.25),
    "laplace": stats.laplace(5.0, 2.0),
    "laplace_asymmetric": stats.laplace_asymmetric(2.0),
    "loggamma": stats.loggamma(0.41),
    "logistic": stats.logistic(100.0, 3.0),
    "lognorm": stats.lognorm(0.95),
    "lomax": stats.lomax(1.88),
    "maxwell": stats.maxwell(),
    "moyal": stats.moyal(),
    "nakagami": stats.nakagami(4.97),
    "ncx2": stats.ncx2(21, 1.06),
    "norm": stats.norm(20.0, 3.0),
    "norminvgauss": stats.norminvgauss(1.25, 0.5),
    "powernorm": stats.powernorm(4.45),
    "rayleigh": stats.rayleigh(),
    "rice": stats.rice(0.77),
    "skewnorm": stats.skewnorm(4.0),
    "t": stats.t(2.74),
    "wald": stats.wald(),
    "weibull_max": stats.weibull_max(2.87),
    "weibull_min": stats.weibull_min(1.79),
    "Normal": stats.Normal(mu=2.0, sigma=3.0),
    "Logistic": stats.Logistic(),
}


@pytest.mark.sample(default=16, seconds=2, reason="46 laws")
@pytest.mark.parametrize("name", REACH_30)
def test_round_trips_to_a_score_of_30(name: str) -> None:
    """Z -> y -> z and y -> z -> y to 1e-9, and y increases all the way."""
    law = Scalar(REACH_30[name])
    z = np.array([-30.0, -29.9, -21.0, -13.0, -8.3, -5.0, -3.3, -3.09, -2.0, -0.6, -1e-3])
    z = np.concatenate([z, -z[::-1]])
    y = law.value(z)
    assert (np.diff(y) > 0).all()
    np.testing.assert_allclose(law.score(y), z, rtol=1e-9)
    np.testing.assert_allclose(law.value(law.score(y)), y, rtol=1e-9)


# Here a finite end of the support that is not zero is approached, and floats next to it are 1e-16 of its size
# apart: the last number inside has the score given (that of its distance from the end), and farther
# scores cannot be told apart. Both are properties of the number format and not of the arithmetic.
FINITE_ENDS = {
    "uniform above": (stats.uniform(), 8.2095),
    "uniform below, moved off zero": (stats.uniform(5.0, 1.0), -8.0),
    "beta above": (stats.beta(2.3, 0.63), 6.35),
    "truncnorm below": (stats.truncnorm(-1.1, 2.7), -8.29),
    "pareto below": (stats.pareto(2.6), -8.0),
    "triang above": (stats.triang(0.16), 11.7),
    "semicircular above": (stats.semicircular(), 10.2),
    "expon below, moved off zero": (stats.expon(1000.0), -7.2),
    "arcsine above, with a pole": (stats.arcsine(), 5.8),
    "rv_histogram below": (stats.rv_histogram(([1.0, 5.0, 2.0], [2.0, 3.0, 4.0, 5.0]))(), -8.3),
    "Uniform below": (stats.Uniform(a=1.0, b=2.0), -8.1),
}


@pytest.mark.parametrize("name", FINITE_ENDS)
def test_next_to_a_finite_end_values_stop_at_the_last_number_inside(name: str) -> None:
    """Values stay inside, finite and in order, and can be scored again."""
    frozen, limit = FINITE_ENDS[name]
    law = Scalar(frozen)
    side = math.copysign(1.0, limit)
    z = side * np.array([1.0, 4.0, 5.0, 20.0, 30.0, 40.0])
    y = law.value(z)
    lower, upper = (float(end) for end in frozen.support())
    assert ((y > lower) & (y < upper)).all()
    assert (side * np.diff(y) >= 0).all()
    assert abs(y[-1] - (upper if side > 0 else lower)) <= 2 * np.spacing(abs(y[-1]))
    assert law.score(y[-1]) == pytest.approx(limit, abs=0.15)
    np.testing.assert_allclose(law.score(y[:2]), z[:2], rtol=1e-7)


def test_a_reading_just_inside_is_not_rounded_out() -> None:
    """(y - loc) / scale rounds to 1, the end of the support, although y is below its own end."""
    law, y = Scalar(stats.uniform(-10.0, 10.5)), math.nextafter(0.5, 0.0)
    assert (y + 10.0) / 10.5 == 1.0
    assert law.score(y) == pytest.approx(8.2, abs=0.1)
    with pytest.raises(ReadingError):
        law.score(0.5)


def test_a_law_narrower_than_the_spacing_of_floats_allows() -> None:
    """Readings near 1e8 are 1.5e-8 apart, so with a width of 1e-3 a score is known to about 1e-5."""
    law = Scalar(stats.Normal(mu=1e8, sigma=1e-3))
    for z in (-30.0, -10.0, 10.0, 30.0):
        assert law.score(1e8 + 1e-3 * z) == pytest.approx(z, abs=3e-5)


def test_a_density_that_is_infinite_at_a_finite_end() -> None:
    """Scipy's rdist rounds its argument onto the pole: values stay inside and ordered, and are readings."""
    law = Scalar(stats.rdist(1.6))
    y = law.value([4.0, 5.0, 10.0, 40.0])
    assert (np.diff(y) >= 0).all()
    assert y[-1] == np.nextafter(1.0, 0.0)
    np.testing.assert_allclose(law.score(y[:2]), [4.0, 5.0], rtol=1e-9)
    # density c (1 - x^2)^-0.2, so the last number has the tail c 2^-0.2 r^0.8 / 0.8 with r = 2^-53
    c = 1.0 / beta(0.5, 0.8)
    assert law.score(y[-1]) == pytest.approx(-ndtri(c * 2**-0.2 * 2 ** (-53 * 0.8) / 0.8), abs=1e-5)


# every score within 38, or up to the last whose quantile is a float
ALL_SCORES = {
    "uniform": (stats.uniform(), -38.0, 38.0),
    "uniform, moved off zero": (stats.uniform(5.0, 3.0), -38.0, 38.0),
    "beta with a pole above": (stats.beta(2.3, 0.63), -38.0, 38.0),
    "beta": (stats.beta(2.0, 3.0), -38.0, 38.0),
    "triang": (stats.triang(0.16), -38.0, 38.0),
    "expon": (stats.expon(), -38.0, 38.0),
    "expon, moved off zero": (stats.expon(1000.0), -38.0, 38.0),
    "gamma with a pole": (stats.gamma(0.3), -38.0, 38.0),
    "weibull_min": (stats.weibull_min(1.79), -38.0, 38.0),
    "weibull_min with a pole": (stats.weibull_min(0.5), -38.0, 38.0),
    "truncnorm": (stats.truncnorm(-1.1, 2.7), -38.0, 38.0),
    "arcsine": (stats.arcsine(), -38.0, 38.0),
    "semicircular": (stats.semicircular(), -38.0, 38.0),
    "rdist": (stats.rdist(1.6), -38.0, 38.0),
    "pareto": (stats.pareto(2.6), -38.0, 38.0),
    "lognorm": (stats.lognorm(0.95), -38.0, 38.0),
    "genpareto with an end": (stats.genpareto(-0.3), -38.0, 38.0),
    "genpareto with a pole": (stats.genpareto(-1.5), -38.0, 38.0),
    "levy": (stats.levy(), -38.0, 26.4),
    "t(1)": (stats.t(1.0), -37.5, 37.5),
    "gumbel_r": (stats.gumbel_r(), -38.0, 38.0),
}


@pytest.mark.sample(default=4, seconds=3, reason="21 laws, at scores of up to 38")
@pytest.mark.parametrize("name", ALL_SCORES)
def test_every_score_has_a_value_as_good_as_floats_allow(name: str) -> None:
    """No errors, inside, in order; and back, z is missed by no more than one rounding unit of y makes.

    One unit in the last place of y changes the score by pdf(y) / phi(z) units, or by what the next
    number has for a score where the slope is not constant; to that comes 1e-10 |z| for the arithmetic.
    Only at the first and last number inside may z lie anywhere farther out.
    """
    frozen, low, high = ALL_SCORES[name]
    law = Scalar(frozen)
    z = np.sort(np.concatenate([np.linspace(low, high, 1501), np.linspace(max(low, -10.0), min(high, 10.0), 1999)]))
    y = law.value(z)
    lower, upper = (float(end) for end in frozen.support())
    assert ((y > lower) & (y < upper)).all()
    assert (np.diff(y) >= 0.0).all()
    back = law.score(y)
    with np.errstate(all="ignore"):
        unit = np.log(np.spacing(np.abs(y)))
        slope = np.exp(law.logpdf(y) + 0.5 * back**2 + 0.5 * math.log(2 * math.pi) + unit)
    first, last = np.nextafter(lower, np.inf), np.nextafter(upper, -np.inf)
    below, above = (law.score(np.clip(np.nextafter(y, end), first, last)) for end in (lower, upper))
    arithmetic = 1e-10 * np.maximum(np.abs(z), 1.0)
    assert ((back - z <= np.maximum(slope, back - below) + arithmetic) | (y == first)).all()
    assert ((z - back <= np.maximum(slope, above - back) + arithmetic) | (y == last)).all()


def test_a_uniform_value_has_the_nearest_tail_of_all_floats() -> None:
    """Just below 1 floats are 2^-53 apart, and 1 - y is the nearest multiple of that to the tail, but not 0."""
    z = np.concatenate([np.linspace(5.0, 9.0, 4001), [7.218, 7.317, 7.372, 7.956, 8.014, 38.0]])
    steps = ndtr(-z) * 2.0**53
    found = (1.0 - Scalar(stats.uniform()).value(z)) * 2.0**53
    assert (np.abs(found - np.maximum(steps, 1.0)) <= 0.5 + 1e-9 * steps).all()
    for score, expected in zip(z[-6:].tolist(), found[-6:].tolist(), strict=True):
        assert (1.0 - Scalar(stats.uniform()).value(score)) * 2.0**53 == expected


def test_scores_next_to_a_pole() -> None:
    """Against closed forms: of arcsine from 1e-16 to 1e-2 below 1, and of a Weibull law among subnormal numbers."""
    room = 2.0 ** -np.arange(7.0, 54.0)
    # q = 2/pi asin(sqrt(1 - x)), and a rounding unit changes it by 2^-53 / (2 room) of itself
    expected = -ndtri(2.0 / math.pi * np.arcsin(np.sqrt(room)))
    found = Scalar(stats.arcsine()).score(1.0 - room)
    assert (np.abs(found - expected) < 1e-10 + 2.0**-53 / room / expected).all()
    x = np.array([5e-324, 1e-322, 1e-315, 1e-308, 1e-291, 1e-289, 1e-200])
    np.testing.assert_allclose(Scalar(stats.weibull_min(0.5)).score(x), ndtri_exp(0.5 * np.log(x)), rtol=1e-12)


@pytest.mark.parametrize(
    ("frozen", "z"),
    [
        (stats.t(0.5), 30.0),  # 1e394
        (stats.levy(), 30.0),  # 1e394
        (stats.cauchy(), -38.0),  # 1e315
        (stats.kappa3(1.0), 30.0),  # 1e197 is a float, but scipy's density there, 1e-394, is not
        (stats.norm(), math.inf),
        (stats.norm(scale=1e300), 1e9),
    ],
)
def test_what_no_float_can_hold_is_an_error(frozen: Any, z: float) -> None:
    """Never infinity, never a wrong number: an error that names the position and not the score."""
    law = Scalar(frozen)
    with pytest.raises(NumericalError, match="too far in a tail") as caught:
        law.value(z)
    assert f"{z:g}" not in str(caught.value)
    with pytest.raises(NumericalError, match="the score at position 1 is"):
        law.value([0.0, z])


def test_a_reading_out_of_reach_is_an_error() -> None:
    """The same for readings whose log-density scipy cannot give."""
    with pytest.raises(NumericalError, match=r"the reading at position \(0, 1\) is too far") as caught:
        Scalar(stats.kappa3(1.0)).score([[1.0, 1e190]])
    assert "190" not in str(caught.value)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(sorted(REACH_30)), st.floats(-30, 30), st.floats(-30, 30))
def test_any_scores_keep_their_order_and_come_back(name: str, a: float, b: float) -> None:
    """Monotone both ways, and the round trip holds, wherever hypothesis looks."""
    law = Scalar(REACH_30[name])
    y = law.value([min(a, b), max(a, b)])
    if abs(a - b) > 1e-9:
        assert y[0] < y[1]
    np.testing.assert_allclose(law.score(y), [min(a, b), max(a, b)], rtol=1e-9, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.5, 1e4), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.floats(-1e12, 1e12))
def test_any_student_law_and_reading(df: float, loc: float, scale: float, y: float) -> None:
    """Y -> z -> y to 1e-9 of |y - loc| or of the larger of the sizes, for any parameters."""
    law = Scalar(stats.t(df, loc, scale))
    z = law.score(y)
    assert math.isfinite(z)
    assert math.copysign(1.0, z) == math.copysign(1.0, y - loc) or abs(z) < 1e-12
    assert law.value(z) == pytest.approx(y, rel=1e-9, abs=1e-9 * max(abs(loc), scale))


@settings(max_examples=40, deadline=None)
@given(st.floats(0.7, 1e3), st.floats(30, 40))
def test_student_laws_beyond_30(df: float, z: float) -> None:
    """Beyond 30 values stay finite and ordered wherever a float can hold them (df = 3 at 40: 3e116)."""
    law = Scalar(stats.t(df))
    log10_y = z * z / 2 / df / math.log(10)
    if log10_y > 300:
        with pytest.raises(NumericalError):
            law.value(z * 1.05)
        return
    y = law.value([-z, z, z * (1 + 1e-9)])
    assert np.isfinite(y).all()
    assert y[0] == pytest.approx(-y[1], rel=1e-12)
    assert y[1] < y[2]
    assert law.score(y[1]) == pytest.approx(z, rel=1e-12)


def test_student_at_40() -> None:
    """The number that the design asks for."""
    assert Scalar(stats.t(3)).value(40.0) == pytest.approx(3.1128e116, rel=1e-4)


# ---------------------------------------------------------------- densities and channels


@pytest.mark.sample(default=23, seconds=1, reason="laws scored far into their tails")
@pytest.mark.parametrize("name", REACH_30)
def test_the_density_is_that_of_the_scores(name: str) -> None:
    """Log pdf(y) = log phi(z) + log dz/dy, the slope by central differences."""
    law = Scalar(REACH_30[name])
    z = np.array([-25.0, -6.0, -3.5, -1.0, 0.5, 3.5, 6.0, 25.0])
    h = 1e-3 / np.abs(z)
    low, y, high = law.value([z - h, z, z + h])
    expected = -0.5 * z**2 - 0.5 * math.log(2 * math.pi) + np.log(2 * h / (high - low))
    np.testing.assert_allclose(law.logpdf(y), expected, atol=2e-4)


def test_the_density_is_scipys() -> None:
    """Where scipy's density is sound ours is the same, outside the support it is zero."""
    y = np.array([-3.0, 0.5, 1.0, 2.5, 40.0, np.nan])
    for frozen in (
        stats.t(3, 1, 2),
        stats.cauchy(1, 3),
        stats.halfcauchy(0.2),
        stats.laplace(1, 2),
        stats.pareto(2, -1),
    ):
        np.testing.assert_allclose(Scalar(frozen).logpdf(y), frozen.logpdf(y), rtol=1e-13)
    assert Scalar(stats.expon()).logpdf(-1.0) == -math.inf


def test_numbers_and_arrays_of_any_shape() -> None:
    """A number gives a number, an array the same shape; missing stays missing."""
    law = Scalar(stats.t(3, loc=1.0))
    for method in (law.score, law.value, law.logpdf):
        assert type(method(2)) is float
        assert type(method(np.float64(2.0))) is float
        assert math.isnan(method(math.nan))
        grid = np.linspace(-50.0, 50.0, 24).reshape(2, 3, 4) / 5.0
        grid[1, 1, 1] = np.nan
        out = method(grid)
        assert out.shape == (2, 3, 4)
        assert np.array_equal(np.isnan(out), np.isnan(grid))
        assert out[0, 2, 1] == pytest.approx(method(grid[0, 2, 1]), rel=1e-14)
        assert method([]).shape == (0,)


def test_size_one_parameters_are_one_channel() -> None:
    """Shapes () and (1,) and (1, 1) all mean one number."""
    for loc in (1.0, [1.0], [[1.0]]):
        law = Scalar(stats.norm(loc, 2.0))
        assert law.dim == 1
        assert law.score(5.0) == pytest.approx(2.0, rel=1e-14)


def test_vector_parameters_are_independent_channels() -> None:
    """Parameters (d,) broadcast; the channel is the first axis, and log-densities add up."""
    law = Scalar(stats.t([3.0, 30.0], loc=[0.0, 10.0], scale=2.0))
    parts = [Scalar(stats.t(3.0, 0.0, 2.0)), Scalar(stats.t(30.0, 10.0, 2.0))]
    assert law.dim == 2
    y = np.array([[1.0, -40.0, np.nan], [9.0, 90.0, 10.0]])
    np.testing.assert_array_equal(law.score(y), [part.score(row) for part, row in zip(parts, y, strict=True)])
    np.testing.assert_allclose(law.value(law.score(y)), y, rtol=1e-13)
    np.testing.assert_array_equal(law.logpdf(y), parts[0].logpdf(y[0]) + parts[1].logpdf(y[1]))
    assert law.score(y[:, 0]).shape == (2,)
    assert type(law.logpdf(y[:, 0])) is float
    for bad in (1.0, [1.0, 2.0, 3.0], np.zeros((3, 2)), np.zeros((2, 2, 2))):
        with pytest.raises(ReadingError, match=r"2 channels need \(2,\) or \(2, N\)"):
            law.score(bad)


def test_location_and_scale_in_any_spelling() -> None:
    """By position or by name, for families with and without shape parameters."""
    spellings = [
        stats.gamma(2.0, 1.0, 3.0),
        stats.gamma(2.0, scale=3.0, loc=1.0),
        stats.gamma(a=2.0, loc=1.0, scale=3.0),
    ]
    values = [Scalar(frozen).score(9.0) for frozen in spellings]
    assert values[0] == values[1] == values[2] == pytest.approx(ndtri(stats.gamma(2.0, 1.0, 3.0).cdf(9.0)), rel=1e-12)


def test_a_location_does_not_cost_digits_in_the_tail() -> None:
    """The tail is computed for the standard law, so a pole at a moved end loses nothing but y's own digits."""
    moved, plain = Scalar(stats.gamma(0.1, loc=4.0)), Scalar(stats.gamma(0.1))
    step = 2.0**-40
    assert moved.score(4.0 + step) == plain.score(step)


def test_a_law_of_the_users_own() -> None:
    """A user's rv_continuous needs a density alone; scipy integrates the middle, and we the tails."""

    class Quartic(stats.rv_continuous):
        def _logpdf(self, x: Any) -> Any:
            return -(x**4) - math.log(2 * math.gamma(1.25))

        def _pdf(self, x: Any) -> Any:
            return np.exp(self._logpdf(x))

    law = Scalar(Quartic(name="t")())  # a misleading name has no effect
    reference = Scalar(stats.gennorm(4.0))
    z = np.array([-20.0, -5.0, -1.0, 1.0, 5.0, 20.0])
    np.testing.assert_allclose(law.value(z), reference.value(z), rtol=1e-8)


# ---------------------------------------------------------------- refusals and secrets


@pytest.mark.parametrize(
    ("dist", "message"),
    [
        ("norm", "'norm' is not a law"),
        (None, "None is not a law"),
        (stats.norm, "type norm_gen is not a law"),
        (stats.poisson(3.0), "type rv_discrete_frozen is not a law"),
        (stats.Binomial(n=3, p=0.5), "Binomial has no finite density at its median"),
        (stats.multivariate_normal([0.0, 0.0]), "is not a law"),
        (stats.norm(scale=0.0), "scale = 0.0; the scale of norm must be positive"),
        (stats.norm(scale=-1.0), r"scale = -1.0; the scale of norm must be positive"),
        (stats.norm(scale=math.inf), "scale = inf; the scale of norm must be positive and finite"),
        (stats.norm(loc=math.nan), "loc = nan; the location of norm must be finite"),
        (stats.t(-1.0), r"df = -1.0: not valid parameters of scipy.stats.t"),
        (stats.t(math.nan), "df = nan: not valid"),
        (stats.beta([1.0, 2.0], [3.0, -4.0]), r"a = 2.0, b = -4.0: not valid"),
        (stats.norm(np.zeros((2, 2))), r"parameters of norm have shape \(2, 2\)"),
        (stats.norm([]), r"parameters of norm have shape \(0,\)"),
        (stats.norm([0.0, 1.0], [1.0, 1.0, 1.0]), "must be numbers, or vectors of one length"),
        (stats.Normal(sigma=-1.0), "Normal has no finite density"),
        (stats.Normal(mu=[0.0, 1.0]), "join one law a channel by Independent"),
    ],
)
def test_refuses_what_is_not_a_law(dist: Any, message: str) -> None:
    """A configuration error names the value and the rule."""
    with pytest.raises(LawError, match=message):
        Scalar(dist)


@pytest.mark.parametrize("y", [-7.5, 0.0, math.inf, -math.inf])
def test_a_reading_outside_the_support_is_refused_without_showing_it(y: float) -> None:
    """Impossible under the model: the message names the position and the rule only."""
    law = Scalar(stats.expon())
    with pytest.raises(ReadingError, match="the reading is outside the support") as caught:
        law.score(y)
    assert "7.5" not in str(caught.value)
    with pytest.raises(ReadingError, match="the reading at position 2 is outside") as caught:
        law.score([1.0, math.nan, y])
    assert "7.5" not in str(caught.value)
    with pytest.raises(ReadingError, match=r"the reading at position \(1, 0\) is outside"):
        Scalar(stats.expon(scale=[1.0, 2.0])).score([[1.0, 2.0], [y, y]])


def test_a_reading_that_is_not_a_number_is_refused_without_showing_it() -> None:
    """The type is named, not the value."""
    law = Scalar(stats.norm())
    with pytest.raises(ReadingError, match="a reading of type str") as caught:
        law.score("secret")
    assert "secret" not in str(caught.value)
    with pytest.raises(ReadingError, match="a score of type list"):
        law.value([1.0, "secret"])


def test_the_repr_keeps_the_parameters_to_itself() -> None:
    """Conditional laws hold past readings in their parameters."""
    assert repr(Scalar(stats.t(3, loc=123.456))) == "Scalar(t, dim=1)"
    assert repr(Scalar(stats.norm([1.0, 2.0, 3.0]))) == "Scalar(norm, dim=3)"
    assert repr(Scalar(stats.Normal(mu=123.456))) == "Scalar(Normal, dim=1)"


def test_it_is_a_law_and_ignores_auxiliary_uniforms() -> None:
    """The protocol holds; a continuous law has no atoms to spread."""
    law = Scalar(stats.t(3))
    assert isinstance(law, Law)
    assert law.score(1.5, v=0.3) == law.score(1.5)


def test_scipy_is_imported_only_when_used() -> None:
    """Importing the module does not import scipy."""
    code = "import sys, understudy.laws.scalar, understudy.laws.multivariate; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
