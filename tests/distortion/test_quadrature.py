"""Integrals over one score against closed forms, and against another precision and another route."""

from __future__ import annotations

import itertools
import math
import warnings

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

import understudy as us
from understudy.distortion.costs import costs
from understudy.distortion.quadrature import Table, _cut


def pair(first, second, **choices):
    """The distortion of one law of independent readings under another."""
    laws = [law if hasattr(law, "score") else us.Scalar(law) for law in (first, second)]
    found = costs(us.Family(dict(enumerate(us.IID(law) for law in laws))), **choices)
    assert set(found.method.ravel()) <= {"quadrature", "exact"}
    np.testing.assert_allclose(found.matrix, found.matrix.T, rtol=1e-9)
    assert not np.diag(found.matrix).any()
    return found.matrix[0, 1]


def wasserstein_1(a, b):
    """Integral of |F - G| over y: the mean absolute distortion, by another integral."""
    top = max(a.isf(1e-15), b.isf(1e-15))
    bottom = min(a.ppf(1e-15), b.ppf(1e-15))
    points = np.sort(np.concatenate([law.ppf(np.linspace(0.001, 0.999, 60)) for law in (a, b)]))
    edges = np.concatenate(([bottom], points, [top]))
    parts = [integrate.quad(lambda y: abs(a.cdf(y) - b.cdf(y)), p, q)[0] for p, q in itertools.pairwise(edges)]
    return sum(parts)


def test_gaussian_laws_by_quadrature_are_the_closed_forms():
    """A Gaussian behind `Scalar` takes the way of quadrature and gives the exact figure."""
    m, s, t = 0.7, 1.0, 2.5
    a, b = stats.norm(0.0, s), stats.norm(m, t)
    assert pair(a, b) == pytest.approx(m**2 + (s - t) ** 2, rel=1e-10)
    r = m / (t - s)
    expected = (t - s) * math.sqrt(2 / math.pi) * math.exp(-r * r / 2) + m * math.erf(r / math.sqrt(2))
    assert pair(a, b, distortion="mae") == pytest.approx(expected, rel=1e-10)
    exact = us.Family({0: us.IID(us.Gaussian(0.0, s**2)), 1: us.IID(us.Gaussian(m, t**2))})
    assert costs(exact, distortion="mae").matrix[0, 1] == pytest.approx(expected, rel=1e-13)


def test_uniform_and_exponential_laws():
    """Integrals known by hand: quantiles u and -log(1 - u)."""
    uniform, exponential = stats.uniform(), stats.expon()
    # E (u + log(1 - u))^2 = 1/3 + 2 - 2 * 3/4, E |.| = 1 - 1/2
    assert pair(uniform, exponential) == pytest.approx(1 / 3 + 2 - 1.5, rel=1e-9)
    assert pair(uniform, exponential, distortion="mae") == pytest.approx(0.5, rel=1e-9)
    assert pair(exponential, stats.expon(scale=3.0)) == pytest.approx(4 * 2.0, rel=1e-9)
    assert pair(uniform, stats.uniform(2.0, 0.5), distortion="mae") == pytest.approx(1.75, rel=1e-9)
    # crossing quantiles: u against 2 u - 0.2 differ by |0.2 - u|
    assert pair(uniform, stats.uniform(-0.2, 2.0), distortion="mae") == pytest.approx(0.02 + 0.32, rel=1e-9)


@pytest.mark.sample(default=1, seconds=3, reason="four laws, integrated twice")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (stats.t(3), stats.t(3, loc=1.0, scale=2.0)),
        (stats.gamma(2.5), stats.lognorm(0.8)),
        (stats.triang(0.3), stats.laplace(0.2)),
        (stats.skewnorm(3.0), stats.logistic(1.0)),
    ],
)
def test_mean_absolute_distortion_is_the_wasserstein_distance(first, second):
    """E |F^-1 - G^-1| is the integral of |F - G|; corners of densities and crossings included."""
    rough = 1e-7 if "t" in first.dist.name else 1e-9  # the other integral is cut off at 1e-15
    assert pair(first, second, distortion="mae") == pytest.approx(wasserstein_1(first, second), rel=rough)


def test_squared_distortion_is_the_squared_wasserstein_distance():
    """Scale families: W2^2 = (mean difference)^2 + (scale difference)^2 times the variance, heavy tails included."""
    for law, variance in (
        (stats.t(2.5), 5.0),
        (stats.t(2.2), 11.0),
        (stats.laplace, 2.0),
        (stats.logistic, np.pi**2 / 3),
    ):
        shape = law.args if hasattr(law, "args") else ()
        family = getattr(law, "dist", law)
        a, b = family(*shape), family(*shape, loc=0.4, scale=1.5)
        assert pair(a, b) == pytest.approx(0.4**2 + 0.5**2 * variance, rel=1e-8)


@pytest.mark.long(seconds=1, reason="an integral in many digits")
def test_a_pair_in_many_digits():
    """Normal against Gumbel, squared, by mpmath at 30 digits; the twin shifted by 1e-7 is told apart."""
    with mpmath.workdps(30):

        def square(z, shift):
            tail = mpmath.ncdf(z) if z < 0 else 1 - mpmath.ncdf(-z)
            log_u = mpmath.log(tail) if z < 5 else mpmath.log1p(-mpmath.ncdf(-z))
            return (z - shift + mpmath.log(-log_u)) ** 2 * mpmath.npdf(z)

        expected, other = (
            float(mpmath.quad(lambda z, s=shift: square(z, s), mpmath.linspace(-12, 12, 13))) for shift in (0, 1e-7)
        )
    found = pair(stats.norm(), stats.gumbel_r())
    assert found == pytest.approx(expected, rel=1e-9)
    assert found != pytest.approx(other, rel=1e-9)


def test_tails_that_are_not_powers():
    """Log-normal laws whose squares live far out: E (y - ~y)^2 in closed form."""
    s = 2.5
    expected = math.exp(2 * s * s) * (2.0 - 1.0) ** 2
    assert pair(stats.lognorm(s), stats.lognorm(s, scale=2.0)) == pytest.approx(expected, rel=1e-8)


def test_a_distortion_that_does_not_exist_is_infinite():
    """Cauchy against Student: infinite, with a warning, not a large number; shifted Cauchy laws: the shift."""
    members = {
        "cauchy": us.IID(us.Scalar(stats.cauchy())),
        "moved": us.IID(us.Scalar(stats.cauchy(3.0))),
        "student 2": us.IID(us.Scalar(stats.t(2))),
        "student 3": us.IID(us.Scalar(stats.t(3))),
        "lognormal": us.IID(us.Scalar(stats.lognorm(3.0))),
    }
    inf = math.inf
    with pytest.warns(us.errors.UnderstudyWarning, match="infinite"):
        found = costs(us.Family(members))
    finite = np.isfinite(found.matrix)
    assert finite.tolist() == [
        [True, True, False, False, False],
        [True, True, False, False, False],
        [False, False, True, False, False],
        [False, False, False, True, True],
        [False, False, False, True, True],
    ]
    assert found.matrix[0, 1] == pytest.approx(9.0, rel=1e-9)
    assert math.isnan(found.mean_reading)
    assert found.expected(np.where(finite, 1.0, 0.0))[0] < inf
    with pytest.warns(us.errors.UnderstudyWarning, match="infinite"):
        mae = costs(us.Family(members), distortion="mae").matrix
    assert np.isfinite(mae[2:, 2:]).all()
    assert np.isinf(mae[:2, 2:]).all()


def test_any_measure_of_scalar_readings():
    """A function of one's own on independent scalars is integrated too, steps and corners included."""
    a, b = us.Scalar(stats.expon()), us.Scalar(stats.uniform())

    def late(y, y_out):
        return np.where(y - y_out > 1.0, 1.0, 0.0)

    with pytest.warns(us.errors.UnderstudyWarning, match="1 pairs was zero in all"):
        found = costs(us.Family({0: us.IID(a), 1: us.IID(b)}), distortion=late)
    # -log(1 - u) - u > 1 from the root of it on
    root = mpmath.findroot(lambda u: -mpmath.log(1 - u) - u - 1, (0.8, 0.9), solver="anderson")
    assert found.matrix[0, 1] == pytest.approx(1 - float(root), rel=1e-8)
    assert found.method[0, 1] == "quadrature"
    assert found.matrix[1, 0] == 0.0
    assert found.distortion == "late"


def test_vectors_with_independent_channels():
    """The mean over channels of each channel's own integral, and weights in its place."""
    first = us.Independent(us.Scalar(stats.expon()), us.Gaussian(0.0, 1.0))
    second = us.Independent(us.Scalar(stats.uniform()), us.Gaussian(2.0, 9.0))
    family = us.Family({0: us.IID(first), 1: us.IID(second)})
    squares = np.array([1 / 3 + 2 - 1.5, 4.0 + 4.0])
    assert costs(family).matrix[0, 1] == pytest.approx(squares.mean(), rel=1e-9)
    assert costs(family, weights=[3.0, 0.5]).matrix[0, 1] == pytest.approx(squares @ [3.0, 0.5], rel=1e-9)
    # a full matrix of weights needs the products of the mean differences too
    W, m = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0 - 0.5, -2.0])
    expected = np.diag(W) @ (squares - m**2) + m @ W @ m
    found = costs(family, weights=W)
    assert found.matrix[0, 1] == pytest.approx(expected, rel=1e-9)
    assert found.mean_reading == pytest.approx(np.mean([1.0, 0.0, 0.5, 2.0]), rel=1e-9)


def test_squared_error_of_autoregressions_with_any_noise():
    """Impulse responses and moments by hand: E D_k^2 = m_k^2 + sum_j (f_j s - g_j t)^2 + 2 kappa s t f_j g_j."""
    T, noise = 9, (us.Scalar(stats.expon()), us.Scalar(stats.laplace(0.5, 2.0)))
    coefficients, intercepts = ([0.6, -0.3], [0.2]), (1.0, -0.5)
    models = [
        us.AutoRegressive(f, c, law, past=[0.0] * len(f))
        for f, c, law in zip(coefficients, intercepts, noise, strict=True)
    ]
    found = costs(us.Family(dict(enumerate(models))), horizon=T)
    assert found.method[0, 1] == "quadrature"
    means, scales = (1.0, 0.5), (1.0, 2.0 * math.sqrt(2.0))
    table = Table([law.value for law in noise])
    cross = table.integrate([0], [1], lambda y, y_out: y * y_out + 0.0).value[0] - means[0] * means[1]
    impulses, levels = [], []
    for f, c, mean in zip(coefficients, intercepts, means, strict=True):
        h, y = [1.0], []
        for k in range(1, T):
            h.append(sum(f[i] * h[k - 1 - i] for i in range(min(len(f), k))))
        for k in range(T):
            y.append(c + mean + sum(f[i] * y[k - 1 - i] for i in range(min(len(f), k))))
        impulses.append(np.array(h))
        levels.append(np.array(y))
    f, g = impulses
    steps = scales[0] ** 2 * f**2 + scales[1] ** 2 * g**2 - 2 * cross * f * g
    expected = np.mean((levels[0] - levels[1]) ** 2 + np.cumsum(steps))
    assert found.matrix[0, 1] == pytest.approx(expected, rel=1e-9)
    assert found.mean_reading == pytest.approx(np.mean(levels), rel=1e-9)


@pytest.mark.parametrize("law", [stats.t(4), stats.cauchy()])
@pytest.mark.parametrize("distortion", ["mse", "mae"])
def test_noise_that_cancels(law, distortion):
    """Autoregressions that differ in their intercepts alone differ by a constant sequence: exact for any noise."""
    family = us.Family(lambda v: us.AutoRegressive(0.5, v, us.Scalar(law), past=0.0), values=[0.0, 1.0])
    found = costs(family, horizon=30, distortion=distortion)
    gap = np.array([2 * (1 - 0.5**k) for k in range(1, 31)])
    assert found.matrix[0, 1] == pytest.approx(np.mean(gap**2 if distortion == "mse" else gap), rel=1e-12)
    assert (found.method == "exact").all()


@pytest.mark.parametrize("distortion", ["mse", "mae"])
def test_noise_without_moments_that_does_not_cancel(distortion):
    """Cauchy noise through different coefficients: infinite from the second reading on, finite for the first."""
    family = us.Family(lambda v: us.AutoRegressive(v, v, us.Scalar(stats.cauchy()), past=0.0), values=[0.2, 0.6])
    with pytest.warns(us.errors.UnderstudyWarning, match="infinite"):
        assert math.isinf(costs(family, horizon=2, distortion=distortion).matrix[0, 1])
    first = costs(family, horizon=1, distortion=distortion).matrix[0, 1]
    assert first == pytest.approx(0.16 if distortion == "mse" else 0.4, rel=1e-9)


def test_one_reading_of_any_scalar_model():
    """Over a horizon of 1 a Markov model is its initial law."""
    family = us.Family(
        lambda v: us.Markov(us.Gaussian(v, (1.0 + v) ** 2), lambda y: us.Gaussian(y, 1.0)), values=[0.0, 2.0]
    )
    found = costs(family, horizon=1)
    assert found.matrix[0, 1] == pytest.approx(4.0 + 4.0, rel=1e-10)
    assert (found.method == "quadrature").all()


def test_a_law_that_fails_in_its_tail_is_integrated_up_to_there():
    """Beyond the last score at which a law answers, the tail is continued; the error says what that costs."""

    class Brittle:
        """The standard normal law, with nothing beyond a score of 6."""

        dim = 1

        def score(self, y, v=None):
            return y

        def value(self, z):
            if np.abs(z).max() > 6.0:
                raise us.errors.NumericalError("too far")
            return z

        def logpdf(self, y):
            return stats.norm.logpdf(y)

    found = costs(us.Family({0: us.IID(Brittle()), 1: us.IID(us.Scalar(stats.norm(1.0)))}))
    assert found.matrix[0, 1] == pytest.approx(1.0, rel=1e-9)
    assert found.method[0, 1] == "quadrature"


NORMAL = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0.0, 1.0])


def between(low, high, v=0.0):
    """The probability that a normal reading of mean v lies between two numbers."""
    return stats.norm.cdf(high - v) - stats.norm.cdf(low - v)


@pytest.mark.parametrize("width", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("beside", [0.0, 1.0])
def test_a_narrow_step_is_found(width, beside):
    """A window far narrower than a panel, alone and beside a smooth function: to a relative error of 1e-8."""

    def window(y, y_out):
        return (np.abs(y - 1.2345) < width) + beside * (y - y_out) ** 2

    found = costs(NORMAL, distortion=window)
    assert (found.method == "quadrature").all()
    for i, v in enumerate((0.0, 1.0)):
        expected = between(1.2345 - width, 1.2345 + width, v) + beside * (np.array([0.0, 1.0]) != v)
        np.testing.assert_allclose(found.matrix[i], expected, rtol=1e-8)


@pytest.mark.parametrize("place", [-3.0123, -0.7, 0.31, 2.2, 4.1])
def test_a_window_that_is_hardly_found_is_not_certified(place):
    """Wherever it is, a window of 4e-5 is integrated, or simulated, or lies within the error that is reported."""

    def window(y, _):
        return 1.0 * (np.abs(y - place) < 2e-5)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", us.errors.UnderstudyWarning)
        found = costs(NORMAL, distortion=window)
    for i, v in enumerate((0.0, 1.0)):
        miss = np.abs(found.matrix[i] - between(place - 2e-5, place + 2e-5, v))
        assert (miss <= 5 * found.error[i] + 1e-9 * found.matrix[i]).all()


def test_a_miss_that_halving_does_not_find_is_an_error():
    """A needle at a random place of a piece, too thin for any rule: seen, and not good."""
    table = Table([lambda z: z])
    t = _cut(256)[0]
    needle = 1.25 * (1.0 + t[100, -1])  # in the panel from 0 to 2.5

    def thin(y, _):
        return 1.0 + 1e3 * (np.abs(y - needle) < 1e-9)

    closely = table.integrate([0], [0], thin, closely=True)
    assert not closely.good()[0]
    assert closely.error[0] > 1.0
    assert table.integrate([0], [0], thin).good()[0]  # the twin without a close look certifies it
    assert table.integrate([0], [0], lambda y, _: 1.0 + 0.0 * y, closely=True).value[0] == pytest.approx(1.0, rel=1e-14)


def test_a_function_that_is_zero_by_quadrature():
    """It is simulated, and a bound takes the place of an error; a distance of a law from itself is exact."""
    with pytest.warns(us.errors.UnderstudyWarning, match="zero in all"):
        found = costs(NORMAL, distortion=lambda y, _: 0.0 * y)
    assert (found.method == "Monte Carlo").all()
    assert not found.matrix.any()
    np.testing.assert_allclose(found.error, 3 / 200_000)
    distance = costs(NORMAL, distortion=lambda y, x: np.abs(y - x) ** 1.5)
    assert (distance.method == "quadrature").all()
    assert not np.diag(distance.matrix).any()
    assert not np.diag(distance.error).any()


def test_smooth_functions_keep_their_precision():
    """The close look costs no digits: the named measures as functions, to 1e-9."""
    for name, function in (("mse", lambda y, x: (y - x) ** 2), ("mae", lambda y, x: np.abs(y - x))):
        members = {0: us.IID(us.Scalar(stats.gamma(2.5))), 1: us.IID(us.Scalar(stats.lognorm(0.8)))}
        members[2] = us.IID(us.Scalar(stats.t(5)))
        named, own = (costs(us.Family(members), distortion=measure) for measure in (name, function))
        np.testing.assert_allclose(own.matrix, named.matrix, rtol=2e-9, atol=1e-13)
        assert (own.method[~np.eye(3, dtype=bool)] == "quadrature").all()
