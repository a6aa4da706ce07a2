"""Closed forms: against mpmath with 50 digits, against the general way, and far beyond float64 probabilities."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from understudy.errors import NumericalError, ReadingError
from understudy.laws.scalar import _BLOCK, Density, Scalar, closed_form, quantiles, scores

# name -> (distribution, quantile of the tail probability q on a side)
LAWS = {
    "norm": (stats.norm(), lambda q, side: side * mp.sqrt(2) * _normal_isf(q)),
    "lognorm": (stats.lognorm(0.7), lambda q, side: mp.exp(mp.mpf("0.7") * side * mp.sqrt(2) * _normal_isf(q))),
    "expon": (stats.expon(), lambda q, side: -mp.log(q) if side > 0 else -mp.log1p(-q)),
    "gumbel_r": (stats.gumbel_r(), lambda q, side: -mp.log(-mp.log1p(-q)) if side > 0 else -mp.log(-mp.log(q))),
    "gumbel_l": (stats.gumbel_l(), lambda q, side: mp.log(-mp.log(q)) if side > 0 else mp.log(-mp.log1p(-q))),
    "logistic": (stats.logistic(), lambda q, side: side * (mp.log1p(-q) - mp.log(q))),
    "laplace": (stats.laplace(), lambda q, side: -side * mp.log(2 * q)),
}
Z = [1e-9, 1e-3, 0.3, 0.7, 1.0, 2.0, 3.1, 5.0, 8.3, 20.0, 36.0, 36.6, 38.0, 45.0]


def _normal_isf(q):
    """Inverse of erfc(t)/2 = q, by Newton's method on the logarithm, with 50 digits."""
    t = mp.sqrt(-mp.log(q)) if q < mp.mpf("0.1") else mp.mpf("0.1")
    for _ in range(60):
        tail = mp.erfc(t) / 2
        step = (mp.log(tail) - mp.log(q)) * tail * mp.sqrt(mp.pi) * mp.exp(t * t)
        t += step
        if abs(step) < mp.mpf(10) ** -45:
            break
    return t


def quantile(name: str, z: float) -> float:
    """The x with score z, from the formula of the law and 50 digits."""
    with mp.workdps(50):
        return _quantile(name, z)


def _quantile(name: str, z: float) -> float:
    q = mp.erfc(abs(mp.mpf(z)) / mp.sqrt(2)) / 2
    return float(LAWS[name][1](q, math.copysign(1.0, z)))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_values_and_scores_have_all_digits(name: str, side: float) -> None:
    """Values to 4e-15 of themselves or of one, scores of the true quantile to 1e-13, to a score of 45."""
    law = Scalar(LAWS[name][0])
    for z in side * np.array(Z):
        x = quantile(name, float(z))
        if abs(x) < 1e-300:
            continue  # where floats have few digits
        assert law.value(float(z)) == pytest.approx(x, rel=4e-15, abs=4e-16)
        # a quantile is rounded to a float, which moves its score by its own rounding
        moved = 2.6 * np.spacing(abs(x)) * math.exp(law.logpdf(x) + 0.5 * z * z)
        assert law.score(x) == pytest.approx(float(z), rel=1e-13, abs=2e-16 + moved)


@pytest.mark.parametrize("name", LAWS)
def test_the_general_way_agrees(name: str) -> None:
    """Quadrature and search, which know nothing of the formulas, to 1e-9."""
    family = getattr(stats, name)
    shapes = {"s": 0.7} if name == "lognorm" else {}
    dist = family(**shapes)
    law = Density(dist.logpdf, dist.cdf, dist.sf, dist.ppf, dist.isf, *map(float, dist.support()))
    form = closed_form(family, shapes)
    assert form is not None
    z = np.linspace(-25.0, 25.0, 41)
    x = form.value(z)
    np.testing.assert_allclose(quantiles(law, z), x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scores(law, x), form.score(x), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LAWS)
def test_blocks_change_nothing(name: str) -> None:
    """Many points at once are the same as one by one; NaN stays, the input is left alone."""
    law = Scalar(LAWS[name][0])
    z = np.random.default_rng(5).standard_normal(2 * _BLOCK + 17)
    z[[3, _BLOCK]] = np.nan
    before = z.copy()
    y = law.value(z)
    assert np.array_equal(z, before, equal_nan=True)
    some = slice(_BLOCK - 5, _BLOCK + 5)
    assert np.array_equal(y[some], law.value(z[some]), equal_nan=True)
    found = law.score(y)
    assert np.array_equal(found[some], law.score(y[some]), equal_nan=True)
    np.testing.assert_allclose(found, z, rtol=0, atol=1e-13)
    assert y.flags.writeable
    assert not np.shares_memory(y, z)


def test_outside_and_beyond_are_told_apart() -> None:
    """A reading outside the support is refused as such, and one whose tail has no logarithm as too far."""
    for law in (Scalar(stats.expon(2.0)), Scalar(stats.lognorm(1.0, loc=2.0))):
        for y in (1.0, 2.0):
            with pytest.raises(ReadingError, match="outside the support"):
                law.score(y)
    with pytest.raises(NumericalError, match="too far in a tail"):
        Scalar(stats.gumbel_r()).score([0.0, -1000.0])
    with pytest.raises(NumericalError, match="too far in a tail"):
        Scalar(stats.lognorm(1.0)).value([0.0, 800.0])
    with pytest.raises(NumericalError, match="at position 1 is too far in a tail"):
        Scalar(stats.norm(20.0, 2.0)).score([1e6, 1e7])
    assert Scalar(stats.lognorm(1.0)).value(-800.0) > 0.0
    assert Scalar(stats.expon()).score_or_end([-1.0, 1e9]).tolist()[0] == -np.inf
    assert Scalar(stats.expon()).score(1e9) == pytest.approx(math.sqrt(2e9), rel=1e-6)
    assert Scalar(stats.gumbel_r()).score_or_end(-1000.0) == -np.inf


def test_a_family_of_the_users_own_is_not_taken_for_a_known_one() -> None:
    """A subclass may have another law under the same name."""

    class Other(type(stats.norm)):  # type: ignore[misc]  # scipy names no public class for its families
        def _cdf(self, x):
            return super()._cdf(2.0 * x)

    assert closed_form(Other(name="norm"), {}) is None
