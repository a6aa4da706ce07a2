"""A law from its log-density alone: the right scores far into both tails, at every scale, or a named refusal."""

from __future__ import annotations

import copy
import math
import pickle
import re

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import understudy as us
from understudy.errors import LawError, NumericalError, ReadingError
from understudy.laws.numeric import FromDensity

INF = math.inf
Z = np.array([-8.0, -6.5, -4.0, -2.0, -1.0, -0.3, 0.0, 0.2, 1.0, 3.0, 5.0, 7.5, 8.0])
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)

KNOWN = {
    "normal": (stats.norm(), None),
    "normal far off": (stats.norm(-300.0, 0.5), None),
    "student": (stats.t(3, loc=2.0), None),
    "cauchy": (stats.cauchy(), None),
    "very heavy": (stats.t(0.3), None),
    "logistic": (stats.logistic(5.0, 0.1), None),
    "gumbel": (stats.gumbel_r(), None),
    "laplace, a kink": (stats.laplace(3.3), None),
    "gamma, infinite at 0": (stats.gamma(0.5), (0.0, INF)),
    "gamma": (stats.gamma(3.0, scale=4.0), (0.0, INF)),
    "lognormal": (stats.lognorm(1.0), (0.0, INF)),
    "levy": (stats.levy(), (0.0, INF)),
}


def normal(m, s):
    """Log-density of a normal law, written out."""
    return lambda y: -0.5 * ((y - m) / s) ** 2 - math.log(s) - LOG_SQRT_2PI


def mixture(weights, means, scales):
    """Log-density of a normal mixture."""
    parts = [normal(m, s) for m, s in zip(means, scales, strict=True)]
    return lambda y: np.logaddexp.reduce([math.log(w) + f(y) for w, f in zip(weights, parts, strict=True)])


def mixture_scores(weights, means, scales, y):
    """Its scores by the c.d.f.s of the parts, on the side of the smaller tail."""
    t = [(y - m) / s for m, s in zip(means, scales, strict=True)]
    low = np.logaddexp.reduce([math.log(w) + special.log_ndtr(x) for w, x in zip(weights, t, strict=True)])
    high = np.logaddexp.reduce([math.log(w) + special.log_ndtr(-x) for w, x in zip(weights, t, strict=True)])
    with np.errstate(all="ignore"):
        return np.where(low < high, special.ndtri_exp(low), -special.ndtri_exp(high))


# Known laws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KNOWN)
def test_scores_are_those_of_the_known_law(name):
    """To 1e-9 down to tail probabilities of 1e-15, and the other way round."""
    dist, support = KNOWN[name]
    law, known = FromDensity(dist.logpdf, support=support), us.Scalar(dist)
    y = known.value(Z)
    assert np.abs(law.score(y) - known.score(y)).max() < 1e-9
    assert np.abs(known.score(law.value(Z)) - Z).max() < 1e-9
    assert np.abs(law.logpdf(y) - known.logpdf(y)).max() < 1e-9
    assert abs(law.mass - 1.0) < 1e-9
    assert law.error < law.accuracy


def test_a_support_that_ends_above():
    """The mirror image of a gamma law, on (-inf, 0)."""
    law, known = FromDensity(lambda y: stats.gamma(2.0).logpdf(-y), support=(-INF, 0.0)), us.Scalar(stats.gamma(2.0))
    y = known.value(Z)
    assert np.abs(law.score(-y) + known.score(y)).max() < 1e-9


def test_a_finite_support():
    """Uniform and beta: near an end other than 0 a float is the limit, so the readings are compared."""
    for dist in (stats.uniform(), stats.beta(2.0, 3.0), stats.uniform(-5.0, 2.0)):
        low, high = dist.support()
        law, known = FromDensity(dist.logpdf, support=(low, high)), us.Scalar(dist)
        inner = Z[np.abs(Z) < 7]
        assert np.abs(law.value(inner) - known.value(inner)).max() < 1e-12
        assert np.abs(law.score(known.value(inner[np.abs(inner) < 5])) - inner[np.abs(inner) < 5]).max() < 1e-8
        assert ((law.value(Z) > low) & (law.value(Z) < high)).all()


@pytest.mark.long(seconds=1, reason="integrals of a density")
def test_a_density_without_a_known_integral():
    """exp(-y^4 / 4) against quadrature in 40 digits, from the middle to a tail probability of 1e-143."""
    law = FromDensity(lambda y: -(y**4) / 4, normalise=True)
    with mpmath.workdps(40):
        whole = mpmath.quad(lambda t: mpmath.exp(-(t**4) / 4), [-10, -4, -2, 0, 2, 4, 10])
        for y in (0.25, 1.0, 2.5, 6.0):
            # the integrand falls by e in 1 / y^3, so the pieces are that long
            ends = [mpmath.mpf(y) + k * mpmath.mpf(2) / max(1.0, y**3) for k in range(60)]
            log_tail = mpmath.log(mpmath.quad(lambda t: mpmath.exp(-(t**4) / 4), ends) / whole)
            z = float(-special.ndtri_exp(float(log_tail)))
            assert abs(law.score(y) - z) < 1e-9
            assert abs(law.score(-y) + z) < 1e-9


@pytest.mark.parametrize("dist", [stats.norm(), stats.t(3), stats.logistic(), stats.gumbel_r(), stats.laplace()])
def test_the_tails_go_on_beyond_the_panels(dist):
    """|z| from 8 to 30, where no c.d.f. in float64 goes."""
    law, known = FromDensity(dist.logpdf), us.Scalar(dist)
    z = np.array([-30.0, -15.0, -9.0, -8.3, -8.1, 8.1, 8.3, 9.0, 15.0, 30.0])
    assert np.abs(known.score(law.value(z)) - z).max() < 1e-8
    assert np.abs(law.score(law.value(z)) - z).max() < 1e-8


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("shift", [0.0, 3.3, -1e4])
def test_every_scale(scale, shift):
    """Location and scale change nothing but the reading."""
    for dist in (stats.norm(shift * scale, scale), stats.t(4, loc=shift * scale, scale=scale)):
        law = FromDensity(dist.logpdf)
        y = us.Scalar(dist).value(Z)
        rounding = 1e-15 * abs(shift)
        assert np.abs(law.score(y) - us.Scalar(dist).score(y)).max() < 1e-9 + 100 * rounding
        assert np.abs(law.value(Z) - y).max() < 1e-7 * scale


def test_an_offset_a_million_million_times_the_scale_is_said():
    """Where the density changes over a few floats, no score can be right."""
    assert abs(FromDensity(normal(1e9, 1.0)).score(1e9 + 1.0) - 1.0) < 1e-6
    with pytest.raises(NumericalError, match="rounding units"):
        FromDensity(normal(1e15, 1.0)).score(1e15)


# Several modes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "means", "scales"),
    [
        ([0.5, 0.5], [-3.0, 3.0], [1.0, 1.0]),
        ([0.3, 0.7], [-1e3, 1e3], [1.0, 1.0]),
        ([0.5, 0.5], [0.0, 0.0], [1.0, 1e-5]),
        ([0.3, 0.3, 0.4], [-1e3, 0.0, 7e5], [2.0, 1e-3, 1e3]),
        ([1.0 - 1e-7, 1e-7], [0.0, 40.0], [1.0, 1.0]),
        ([0.5, 0.5], [3e-12, 1e12], [1e-12, 1e11]),
    ],
)
def test_separated_modes(weights, means, scales):
    """Modes far apart, of different widths, or one of weight 1e-7."""
    law = FromDensity(mixture(weights, means, scales))
    y = np.array([m + s * t for m, s in zip(means, scales, strict=True) for t in (-4.0, -1.0, 0.5, 3.0)])
    assert np.abs(law.score(y) - mixture_scores(weights, means, scales, y)).max() < 1e-8
    assert np.abs(law.score(law.value(Z)) - Z).max() < 1e-8


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.01, 1.0), st.floats(-1e4, 1e4), st.floats(-2.0, 2.0)),
        min_size=1,
        max_size=4,
    )
)
def test_any_mixture_is_right_or_refused(parts):
    """No mass is lost in silence: the scores are right, or the density is said not to integrate to 1."""
    total = sum(w for w, _, _ in parts)
    weights, means, scales = [w / total for w, _, _ in parts], [m for _, m, _ in parts], [10.0**s for *_, s in parts]
    law = FromDensity(mixture(weights, means, scales))
    y = np.array([m + s * t for m, s in zip(means, scales, strict=True) for t in (-2.0, 0.0, 1.5)])
    try:
        found = law.score(y)
    except NumericalError as error:
        assert "does not integrate to 1" in str(error)  # noqa: PT017  # either outcome is right
    else:
        assert np.abs(found - mixture_scores(weights, means, scales, y)).max() < 1e-8


def test_a_needle_that_was_not_found_is_said_and_a_hint_finds_it():
    """A mode a million times narrower than the rest, five units off."""
    needle = mixture([0.5, 0.5], [0.0, 5.0], [1.0, 1e-6])
    with pytest.raises(NumericalError, match="part of it was not found"):
        FromDensity(needle).score(0.0)
    assert abs(FromDensity(needle, near=[5.0000001]).score(5.0) - special.ndtri(0.75 - 1.4e-7)) < 1e-6
    assert abs(FromDensity(needle, centre=5.0).score(1.0) - special.ndtri(0.5 * special.ndtr(1.0))) < 1e-9


# Ends, jumps, zeros --------------------------------------------------------------------------------


@pytest.mark.parametrize("dist", [stats.expon(), stats.gamma(3.0), stats.uniform(2.0, 3.0), stats.expon(-7.0)])
def test_an_end_that_was_not_declared_is_found(dist):
    """-inf outside is enough."""
    low, high = dist.support()
    inner = Z[np.abs(Z) < 5]
    assert np.allclose(
        FromDensity(dist.logpdf).value(inner), FromDensity(dist.logpdf, support=(low, high)).value(inner), rtol=1e-12
    )


def test_jumps():
    """A histogram: every step of the density is found."""
    edges, heights = np.array([0.0, 0.1, 0.5, 0.7, 1.0]), np.array([2.0, 1.0, 0.5, 1.0])
    heights = heights / (heights * np.diff(edges)).sum()
    law = FromDensity(lambda y: np.log(heights[np.clip(np.searchsorted(edges, y) - 1, 0, 3)]), support=(0.0, 1.0))
    y = np.array([0.05, 0.1, 0.11, 0.4999, 0.6, 0.7001, 0.95])
    below = np.concatenate([[0.0], np.cumsum(heights * np.diff(edges))])
    assert np.abs(law.score(y) - special.ndtri(np.interp(y, edges, below))).max() < 1e-9


def test_a_density_that_is_zero_at_a_point_is_allowed():
    """y^2 phi(y) vanishes at 0, and its score still increases."""
    law = FromDensity(lambda y: 2.0 * np.log(np.abs(y)) - 0.5 * y**2 - LOG_SQRT_2PI)
    y = np.linspace(-3.0, 3.0, 41)
    known = special.ndtri(special.ndtr(y) - y * stats.norm.pdf(y))
    assert np.abs(law.score(y) - known).max() < 1e-9


def test_a_density_that_is_zero_on_an_interval_is_refused():
    """There the score would not increase; underflow looks the same."""
    gap = lambda y: np.where((y > 0) & (y < 1) | (y > 2) & (y < 3), -math.log(2.0), -np.inf)  # noqa: E731
    for f in (gap, lambda y: np.log(0.5 * stats.norm.pdf(y, -100) + 0.5 * stats.norm.pdf(y, 100))):
        with pytest.raises(NumericalError, match="must be positive"):
            FromDensity(f).score(0.5)
    in_logs = FromDensity(mixture([0.5, 0.5], [-100.0, 100.0], [1.0, 1.0]))
    assert abs(in_logs.score(-100.0) - special.ndtri(0.25)) < 1e-9


# Faults --------------------------------------------------------------------------------------------

FAULTS = {
    "does not integrate to 1": lambda y: -0.5 * y**2,
    "does not die out": lambda y: np.zeros_like(y),
    "does not die out ": lambda y: stats.norm.pdf(y),  # a density in place of its logarithm
    "NaN": lambda y: np.where(y > 1.0, np.nan, normal(0.0, 1.0)(y)),
    r"\+inf": lambda y: -0.5 * np.log(np.abs(y)) - np.abs(y),
    "shape": lambda y: 0.0,
    "shape ": lambda y: normal(0.0, 1.0)(y)[:, None],
    "real numbers": lambda y: 1j * y,
    "real numbers ": lambda y: None,
    "raised ZeroDivisionError": lambda y: 1 / 0,
    "raised ValueError": lambda y: y.__imul__(2.0),  # candidates are read-only
    "-inf wherever": lambda y: np.full(y.shape, -np.inf),
    "cannot be integrated": lambda y: normal(0.0, 1.0)(y) + 1e-6 * np.sin(1e9 * y),
}


@pytest.mark.parametrize("message", FAULTS)
def test_every_fault_is_named(message):
    """And the message holds no number but the accuracy and a count of candidates."""
    with pytest.raises(NumericalError, match=message.strip()) as caught:
        FromDensity(FAULTS[message], name="the log-density it").score(0.7314159)
    assert "the log-density it" in str(caught.value)
    assert not re.search(r"7314|\d\.\d", str(caught.value))


def test_faults_of_the_settings_are_named():
    """A configuration error names the value and the rule."""
    f = normal(0.0, 1.0)
    for message, settings_ in {
        "accuracy = 1e-15": {"accuracy": 1e-15},
        "support = .*low must be below high": {"support": (1.0, 1.0)},
        "support": {"support": (1.0, 2.0, 3.0)},
        "dim = 0": {"dim": 0},
        "dim = 4.*3 at most": {"dim": 4},
        "5 numbers": {"dim": 2, "integrate": 3},
        "integrate = -1": {"integrate": -1},
        "scale has an entry": {"scale": 0.0},
        "centre has an entry": {"centre": math.nan},
        "centre is of type str": {"centre": "here"},
    }.items():
        with pytest.raises(LawError, match=message):
            FromDensity(f, **settings_)
    with pytest.raises(LawError, match="function"):
        FromDensity(3.0)


def test_readings_that_cannot_be_scored_are_named_without_their_value():
    """Outside the support, too far in a tail, or not numbers."""
    law = FromDensity(stats.gamma(2.0).logpdf, support=(0.0, INF))
    with pytest.raises(ReadingError, match="position 1 is outside the support") as caught:
        law.score([1.0, -0.7314159])
    assert "7314" not in str(caught.value)
    with pytest.raises(NumericalError, match="too far in a tail"):
        FromDensity(lambda y: np.log(stats.norm.pdf(y))).score(45.0)  # underflows there
    with pytest.raises(ReadingError, match="type str"):
        law.score("a")


# Shapes, calls, copies -----------------------------------------------------------------------------


def test_one_number_and_many_are_scored_alike():
    """Numbers, arrays of any shape, missing values."""
    law = FromDensity(normal(2.0, 3.0))
    y = np.linspace(-10.0, 10.0, 24).reshape(2, 3, 4)
    for method in (law.score, law.value, law.logpdf):
        out = method(y)
        assert out.shape == y.shape
        assert method(float(y[1, 2, 3])) == out[1, 2, 3]
        assert isinstance(method(1.0), float)
        assert np.isnan(method(math.nan))
    assert law.logpdf(np.inf) == -np.inf


def test_many_points_cost_a_few_calls():
    """The function is asked about all candidates at once."""
    calls = []
    law = FromDensity(lambda y: calls.append(y.size) or normal(0.0, 1.0)(y))
    law.score(0.0)
    built = len(calls)
    z = law.score(np.linspace(-5.0, 5.0, 3000))
    law.value(z)
    assert built < 10
    assert len(calls) - built < 8


def test_the_score_increases():
    """On a fine grid, and across the place where panels end."""
    law = FromDensity(mixture([0.4, 0.6], [-2.0, 2.0], [0.5, 1.0]))
    assert (np.diff(law.score(np.linspace(-12.0, 16.0, 4001))) > 0.0).all()


def quartic(y):
    """At module level, so that it can be pickled."""
    return -(y**4)


def test_it_is_a_value():
    """Copies score alike, attributes do not change, and repr shows no parameter."""
    law = FromDensity(quartic, normalise=True)
    for copied in (copy.copy(law), copy.deepcopy(law), pickle.loads(pickle.dumps(law))):  # noqa: S301  # our own bytes
        assert copied.score(0.3) == law.score(0.3)
    with pytest.raises(AttributeError, match="value"):
        law.dim = 2
    assert repr(FromDensity(normal(0.7314, 1.0), support=(0.0, 2.5))) == "FromDensity(dim=1)"


def test_a_coarser_accuracy_is_kept():
    """What is asked for bounds the error that is told, and the error that is made."""
    for accuracy in (1e-4, 1e-6, 1e-11):
        law = FromDensity(stats.laplace(0.3).logpdf, accuracy=accuracy)
        y = us.Scalar(stats.laplace(0.3)).value(Z)
        assert law.error <= accuracy
        assert np.abs(law.score(y) - Z).max() <= accuracy
