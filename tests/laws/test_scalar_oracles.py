"""`Scalar` against quantiles and tails that mpmath computes to 50 digits, without our code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from understudy.laws.scalar import Scalar

SCORES = [3.05, 3.1, 5.0, 8.5, 15.0, 30.0, 38.0]
SCORES = [-z for z in reversed(SCORES)] + [-2.0, -0.5, 0.25, 1.5] + SCORES


# ---------------------------------------------------------------- oracles: quantiles in closed form


def tails(z: float) -> tuple[Any, Any]:
    """(Phi(z), Phi(-z)), both with all their digits."""
    lower = mp.erfc(-mp.mpf(z) / mp.sqrt(2)) / 2
    upper = mp.erfc(mp.mpf(z) / mp.sqrt(2)) / 2
    return lower, upper


def laplace(p: Any, q: Any) -> Any:
    return mp.log(2 * p) if p < q else -mp.log(2 * q)


def gumbel_r(p: Any, q: Any) -> Any:
    return -mp.log(-mp.log(p) if p < q else -mp.log1p(-q))


QUANTILES: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "norm": (stats.norm(3.0, 2.0), lambda p, q: 3 + 2 * normal_quantile(p, q)),
    "laplace": (stats.laplace(), laplace),
    "logistic": (stats.logistic(), lambda p, q: mp.log(p) - mp.log(q)),
    "lognorm": (stats.lognorm(0.75), lambda p, q: mp.exp(mp.mpf(0.75) * normal_quantile(p, q))),
    "gumbel_r": (stats.gumbel_r(), gumbel_r),
    "gumbel_l": (stats.gumbel_l(), lambda p, q: -gumbel_r(q, p)),
    "weibull_min": (stats.weibull_min(2.5), lambda p, q: gumbel_power(q, p, 2.5)),
    "genlogistic": (stats.genlogistic(2.0), lambda p, q: -mp.log(mp.expm1(-log_of(p, q) / 2))),
    "genpareto": (stats.genpareto(0.25), lambda p, q: 4 * mp.expm1(-log_of(q, p) / 4)),
    "t2": (stats.t(2.0), lambda p, q: (p - q) / mp.sqrt(2 * p * q)),
}


def normal_quantile(p: Any, q: Any) -> Any:
    """Phi^-1 by Newton on the logarithm of the smaller tail."""
    sign, small = (-1, p) if p < q else (1, q)
    z = mp.sqrt(-2 * mp.log(2 * small)) if small < mp.mpf("0.4") else (mp.mpf(1) / 2 - small) * mp.sqrt(2 * mp.pi)
    for _ in range(60):
        tail = mp.erfc(z / mp.sqrt(2)) / 2
        step = (mp.log(tail) - mp.log(small)) * tail / mp.npdf(z)
        z += step
        if abs(step) < mp.mpf(10) ** -40:
            return sign * z
    raise RuntimeError("the oracle did not converge")


def log_of(p: Any, q: Any) -> Any:
    """Log p, given also q = 1 - p."""
    return mp.log(p) if p < q else mp.log1p(-q)


def gumbel_power(q: Any, p: Any, c: float) -> Any:
    return (-log_of(q, p)) ** (1 / mp.mpf(c))


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_known_in_closed_form(name: str) -> None:
    """Value and score agree with 50-digit arithmetic at scores up to 38 on both sides."""
    frozen, quantile = QUANTILES[name]
    # below 2.2e-308 a float has fewer digits: the quantile of genpareto at -38 is 2.9e-316
    z = np.array([z for z in SCORES if (name, z) != ("genpareto", -38.0)])
    with mp.workdps(50):
        y = np.array([float(quantile(*tails(score))) for score in z.tolist()])
    law = Scalar(frozen)
    np.testing.assert_allclose(law.value(z), y, rtol=2e-12)
    np.testing.assert_allclose(law.score(y), z, rtol=2e-14, atol=1e-14)


def test_cauchy_to_the_largest_floats() -> None:
    """The Cauchy quantile is cot(pi q): 6e196 at 30, 8e298 at 37 (and no float at 38)."""
    z = np.array([z for z in SCORES if abs(z) < 38] + [-37.0, 37.0])
    with mp.workdps(50):
        pairs = [tails(score) for score in z.tolist()]
        y = np.array([float(mp.cot(mp.pi * q) if q < p else -mp.cot(mp.pi * p)) for p, q in pairs])
    for law in (Scalar(stats.cauchy()), Scalar(stats.t(1.0))):
        np.testing.assert_allclose(law.value(z), y, rtol=2e-12)
        np.testing.assert_allclose(law.score(y), z, rtol=2e-14)


# ---------------------------------------------------------------- oracles: tails without a closed quantile


def student_tail(y: Any, df: float) -> Any:
    return mp.betainc(mp.mpf(df) / 2, mp.mpf(1) / 2, 0, df / (df + y * y), regularized=True) / 2


@pytest.mark.parametrize("df", [1.5, 3.0, 30.0, 1000.0])
@pytest.mark.parametrize("y", [0.1, 1.0, 3.3, 12.0, 60.0, 1e4, 1e9, 1e30, 1e116, 1e200])
def test_student_scores(df: float, y: float) -> None:
    """Student's t by the incomplete beta function, out to 1e200 (a score of 950 for df = 1000)."""
    with mp.workdps(50):
        q = student_tail(mp.mpf(y), df)
        z = float(normal_quantile(1 - q, q))
    law = Scalar(stats.t(df))
    digits = 1e-13 if z < 200 else 1e-12  # scipy's ndtri_exp, far beyond any reading
    assert law.score(y) == pytest.approx(z, rel=digits)
    assert law.score(-y) == pytest.approx(-z, rel=digits)
    assert law.value(z) == pytest.approx(y, rel=1e-11 if z < 100 else 1e-9)


@pytest.mark.parametrize("shape", [0.3, 2.0, 100.0])
@pytest.mark.parametrize("z", [-30.0, -12.0, -4.0, -1.0, 1.0, 4.0, 12.0, 38.0])
def test_gamma_scores(shape: float, z: float) -> None:
    """The gamma law by the incomplete gamma function, on both sides."""
    law = Scalar(stats.gamma(shape, scale=3.0))
    if shape == 0.3 and z == -30.0:  # the quantile is 1e-657; the nearest number above zero it is
        assert 0.0 < law.value(z) < 1e-290
        return
    y = law.value(z)
    with mp.workdps(60):
        x = mp.mpf(y) / 3
        p, q = mp.gammainc(shape, 0, x, regularized=True), mp.gammainc(shape, x, mp.inf, regularized=True)
        assert float(normal_quantile(p, q)) == pytest.approx(z, rel=1e-12)


@pytest.mark.sample(default=3, seconds=1, reason="laws scored far into their tails")
@pytest.mark.parametrize("z", [-38.0, -20.0, -4.0, 4.0, 20.0, 37.0])
def test_skew_normal_scores(z: float) -> None:
    """The skew-normal law by Gauss-Legendre integration of its density with 50 digits."""
    y = Scalar(stats.skewnorm(4.0)).value(z)
    with mp.workdps(50):
        side, width = (1 if z > 0 else -1), 1 / mp.mpf(max(abs(z), 1)) / 5
        points = [mp.mpf(y) + side * k * width for k in range(0, 600, 15)]
        top = mp.npdf(y) * mp.ncdf(4 * mp.mpf(y))  # mpmath's accuracy is absolute, so integrate a ratio
        ratio = mp.quad(lambda s: mp.npdf(s) * mp.ncdf(4 * s) / top, points, method="gauss-legendre")
        tail = side * 2 * top * ratio
        p, q = (1 - tail, tail) if z > 0 else (tail, 1 - tail)
        assert float(normal_quantile(p, q)) == pytest.approx(z, rel=1e-12)


def test_scipy_fails_where_this_succeeds() -> None:
    """The twin: through plain cdf and ppf the same scores saturate, are infinite, or are off by far."""
    law, t = Scalar(stats.t(3)), stats.t(3)
    with np.errstate(all="ignore"):
        assert ndtri(t.cdf(law.value(9.0))) == np.inf
        assert np.isinf(t.ppf(ndtr(9.0)))
        # on the right side of the right tail scipy still loses its way
        assert not abs(t.isf(ndtr(-30.0)) / law.value(30.0) - 1.0) < 0.1
        assert not np.isfinite(-ndtri(t.sf(law.value(38.5))))
        # and many families have no upper tail of their own: theirs is 1 - cdf
        assert -ndtri(stats.rice(0.77).sf(Scalar(stats.rice(0.77)).value(9.0))) == np.inf
    with mp.workdps(50):
        for z in (9.0, 30.0, 38.5):
            assert float(mp.log(student_tail(mp.mpf(law.value(z)), 3.0) / tails(z)[1])) == pytest.approx(0, abs=1e-11)


def test_a_mixture_from_scipy() -> None:
    """Scipy's newer distributions are accepted too: here two widths, the wider one rules the tails."""
    narrow, wide = stats.Normal(mu=0.0, sigma=1.0), stats.Normal(mu=0.0, sigma=10.0)
    law = Scalar(stats.Mixture([narrow, wide], weights=[0.9, 0.1]))
    with mp.workdps(50):
        tail = mp.mpf("0.9") * mp.erfc(250 / mp.sqrt(2)) / 2 + mp.mpf("0.1") * mp.erfc(25 / mp.sqrt(2)) / 2
        z = float(normal_quantile(1 - tail, tail))
    assert law.score(250.0) == pytest.approx(z, rel=1e-12)
    assert law.value(z) == pytest.approx(250.0, rel=1e-12)
