"""Vector laws that are triangular by construction: Gaussian mixtures and Gaussian copulas.

The oracles are integrals of the joint density (scipy.integrate) and mpmath.
"""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ndtr, ndtri

from understudy.errors import LawError, NumericalError, ReadingError
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.laws.mixture import Mixture
from understudy.laws.multivariate import GaussianCopula, GaussianMixture, Independent
from understudy.laws.scalar import Scalar

ALPHA = 1e-6
WEIGHTS = [0.5, 0.3, 0.2]
MEANS = np.array([[0.0, 1.0, -1.0], [3.0, -2.0, 0.5], [-2.0, 0.0, 4.0]])
COVS = np.array(
    [
        [[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 1.5]],
        [[0.5, -0.2, 0.1], [-0.2, 1.0, 0.4], [0.1, 0.4, 0.7]],
        [[2.0, 0.9, -0.8], [0.9, 1.0, 0.1], [-0.8, 0.1, 3.0]],
    ]
)
MIX = GaussianMixture(WEIGHTS, MEANS, COVS)
PAIR = GaussianMixture([0.6, 0.4], MEANS[:2, :2], COVS[:2, :2, :2])
R = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
COPULA = GaussianCopula(R, [Scalar(stats.t(4, 1.0, 2.0)), Gaussian(20.0, 9.0), Scalar(stats.gamma(2.5))])
LAWS = {"mixture of 3": MIX, "mixture of 2": PAIR, "copula": COPULA}


def joint(y: Any) -> Any:
    """Density of the mixture by scipy."""
    return sum(
        w * stats.multivariate_normal(m[: len(y)], S[: len(y), : len(y)]).pdf(y)
        for w, m, S in zip(WEIGHTS, MEANS, COVS, strict=True)
    )


def conditional_score(density: Any, before: list[float], y: float, ends: tuple[float, float]) -> float:
    """Phi^-1 of the conditional c.d.f. by quadrature of a joint density."""
    parts = [
        integrate.quad(lambda t: density([*before, t]), *e, epsabs=0, epsrel=1e-11, limit=400)[0]
        for e in ((ends[0], y), (y, ends[1]))
    ]
    return float(ndtri(parts[0] / sum(parts)))


# ---------------------------------------------------------------- conditionals by quadrature


@pytest.mark.sample(default=1, seconds=2, reason="conditional laws by quadrature")
@pytest.mark.parametrize("y", [[0.3, -0.7, 2.0], [2.5, -1.0, 0.0], [-4.0, 1.5, 6.0]])
def test_mixture_scores_are_those_of_numeric_conditionals(y: list[float]) -> None:
    """Each channel given those before it, by quadrature of scipy's joint density, to 1e-9."""
    expected = [conditional_score(joint, y[:i], y[i], (-25.0, 25.0)) for i in range(3)]
    np.testing.assert_allclose(MIX.score(y), expected, atol=1e-9)


def test_the_first_channel_is_a_mixture_and_later_ones_have_other_weights() -> None:
    """Against a scalar mixture whose weights Bayes' rule gives."""
    y = np.array([1.2, -0.4])
    first = Mixture([0.6, 0.4], [Gaussian(MEANS[k, 0], COVS[k, 0, 0]) for k in range(2)])
    likelihood = np.array([0.6, 0.4]) * stats.norm.pdf(y[0], MEANS[:2, 0], np.sqrt(COVS[:2, 0, 0]))
    gain = COVS[:2, 1, 0] / COVS[:2, 0, 0]
    means, variances = MEANS[:2, 1] + gain * (y[0] - MEANS[:2, 0]), COVS[:2, 1, 1] - gain * COVS[:2, 0, 1]
    laws = [Gaussian(m, v) for m, v in zip(means.tolist(), variances.tolist(), strict=True)]
    second = Mixture(likelihood / likelihood.sum(), laws)
    np.testing.assert_allclose(PAIR.score(y), [first.score(y[0]), second.score(y[1])], rtol=1e-13)
    wrong = Mixture([0.6, 0.4], laws)
    assert abs(PAIR.score(y)[1] - wrong.score(y[1])) > 0.01


@pytest.mark.sample(default=1, seconds=1, reason="laws scored far into their tails")
@pytest.mark.parametrize("y", [[0.0, 21.0, 1.5], [6.0, 14.0, 4.0]])
def test_copula_scores_are_those_of_numeric_conditionals(y: list[float]) -> None:
    """By quadrature of the density of the copula, which another test compares with its formula."""
    laws = COPULA.laws
    for i, ends in ((1, (-15.0, 50.0)), (2, (1e-12, 60.0))):
        part = GaussianCopula(R[: i + 1, : i + 1], laws[: i + 1])
        expected = conditional_score(lambda t, law=part: math.exp(law.logpdf(np.array(t))), y[:i], y[i], ends)
        assert COPULA.score(y)[i] == pytest.approx(expected, abs=1e-8)
    assert COPULA.score(y)[0] == laws[0].score(y[0])


def test_the_copula_density_is_the_formula() -> None:
    """Density prod f_i(y_i) det(R)^-1/2 exp(-s' (R^-1 - I) s / 2), with s from scipy's distribution functions."""
    y = np.array([[0.0, 6.0, -3.0], [21.0, 14.0, 30.0], [1.5, 4.0, 0.2]])
    dists = [stats.t(4, 1.0, 2.0), stats.norm(20.0, 3.0), stats.gamma(2.5)]
    s = np.array([ndtri(d.cdf(row)) for d, row in zip(dists, y, strict=True)])
    extra = -0.5 * np.einsum("in,ij,jn->n", s, np.linalg.inv(R) - np.eye(3), s) - 0.5 * math.log(np.linalg.det(R))
    expected = sum(d.logpdf(row) for d, row in zip(dists, y, strict=True)) + extra
    np.testing.assert_allclose(COPULA.logpdf(y), expected, rtol=1e-10)
    assert COPULA.logpdf([0.0, 20.0, -1.0]) == -math.inf  # outside the support of the third
    assert COPULA.logpdf([[0.0, 0.0], [20.0, 20.0], [-1.0, 1.0]])[0] == -math.inf


def test_the_mixture_density_is_scipys() -> None:
    """Sum of multivariate normal densities."""
    y = 3.0 * np.random.default_rng(0).standard_normal((3, 50))
    np.testing.assert_allclose(MIX.logpdf(y), np.log([joint(t) for t in y.T]), rtol=1e-11)


# ---------------------------------------------------------------- what every vector law must do


@pytest.mark.parametrize("name", LAWS)
def test_round_trips(name: str) -> None:
    """Z -> y -> z to 2e-13 for ordinary scores, and in one column at a time bit for bit."""
    law = LAWS[name]
    z = np.random.default_rng(3).standard_normal((law.dim, 300))
    y = law.value(z)
    np.testing.assert_allclose(law.score(y), z, atol=2e-13)
    np.testing.assert_allclose(law.value(law.score(y)), y, rtol=1e-10, atol=1e-11)
    for k in (0, 17):
        np.testing.assert_array_equal(law.value(z[:, k : k + 1])[:, 0], y[:, k])
        np.testing.assert_allclose(law.value(z[:, k]), y[:, k], rtol=1e-13)
        np.testing.assert_allclose(law.score(y[:, k]), law.score(y)[:, k], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", LAWS)
def test_far_scores_round_trip(name: str) -> None:
    """Every corner of the cube of scores +-12 and +-30: to 1e-9 of |z|."""
    law = LAWS[name]
    for size in (12.0, 30.0):
        z = size * (2.0 * ((np.arange(2**law.dim) >> np.arange(law.dim)[:, None]) & 1) - 1.0)
        y = law.value(z)
        assert np.isfinite(y).all()
        np.testing.assert_allclose(law.score(y), z, rtol=1e-9)


@pytest.mark.parametrize("name", LAWS)
def test_the_map_is_triangular_and_increasing_and_its_slope_is_the_density(name: str) -> None:
    """Score l does not see channels after l, grows with l; log f = sum log phi(z) + log det dz/dy."""
    law = LAWS[name]
    d = law.dim
    rng = np.random.default_rng(8)
    for _ in range(5):
        y = law.value(0.8 * rng.standard_normal(d))
        J = np.empty((d, d))
        for j in range(d):
            h = 1e-5 * np.where(np.arange(d) == j, np.maximum(np.abs(y), 1.0), 0.0)
            J[:, j] = (law.score(y + h) - law.score(y - h)) / (2 * h[j])
        assert (J[np.triu_indices(d, 1)] == 0.0).all()
        assert (np.diag(J) > 0.0).all()
        z = law.score(y)
        expected = -0.5 * z @ z - 0.5 * d * math.log(2 * math.pi) + np.log(np.diag(J)).sum()
        assert law.logpdf(y) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", LAWS)
def test_shapes_and_missing_channels(name: str) -> None:
    """(d,) and (d, N) only; a missing channel leaves those before it known."""
    law = LAWS[name]
    d = law.dim
    y = law.value(np.zeros(d))
    assert law.score(y.tolist()).shape == (d,)
    assert type(law.logpdf(y)) is float
    assert law.logpdf(np.stack([y, y], axis=1)).shape == (2,)
    assert law.score(np.empty((d, 0))).shape == (d, 0)
    y[1] = np.nan
    for method in (law.score, law.value):
        assert np.isnan(method(y)).tolist() == [False] + [True] * (d - 1)
    assert math.isnan(law.logpdf(y))
    for bad in (1.0, np.zeros(d + 1), np.zeros((d + 1, 2)), np.zeros((d, 2, 2))):
        with pytest.raises(ReadingError, match=rf"{d} channels need \({d},\) or \({d}, N\)"):
            law.score(bad)
        with pytest.raises(ReadingError, match=f"{d} channels need"):
            law.value(bad)
    with pytest.raises(ReadingError, match="of type str") as caught:
        law.score("secret")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", LAWS)
def test_copies_and_repr(name: str) -> None:
    """Pickle and copies give the same law bit for bit; the repr shows no parameter; a value does not change."""
    law = LAWS[name]
    z = np.random.default_rng(4).standard_normal((law.dim, 5))
    for twin in (pickle.loads(pickle.dumps(law)), copy.copy(law), copy.deepcopy(law)):  # noqa: S301  # our own
        np.testing.assert_array_equal(twin.value(z), law.value(z))
        np.testing.assert_array_equal(twin.logpdf(law.value(z)), law.logpdf(law.value(z)))
    assert isinstance(law, Law)
    with pytest.raises(AttributeError, match="does not change"):
        law.dim = 5
    assert law.score(law.value(z), v=z).tolist() == law.score(law.value(z)).tolist()


def test_reprs_keep_the_parameters_to_themselves() -> None:
    """Conditional laws hold past readings in their parameters."""
    assert repr(MIX) == "GaussianMixture(3 laws, dim=3)"
    assert repr(COPULA) == "GaussianCopula(dim=3)"
    assert not MIX.means.flags.writeable
    assert not MIX.covs.flags.writeable
    assert not COPULA.correlation.flags.writeable


def test_scores_of_draws_are_standard_normal_and_those_of_a_wrong_law_are_not() -> None:
    """Every channel by Kolmogorov-Smirnov and every pair by correlation, false alarm 1e-6 in all; twins fail."""
    rng = np.random.default_rng(9)
    N = 20_000
    k = rng.choice(3, size=N, p=WEIGHTS)
    noise = np.einsum("nij,nj->ni", np.linalg.cholesky(COVS)[k], rng.standard_normal((N, 3)))
    draws = (MEANS[k] + noise).T
    s = np.linalg.cholesky(R) @ rng.standard_normal((3, N))
    dists = [stats.t(4, 1.0, 2.0), stats.norm(20.0, 3.0), stats.gamma(2.5)]
    linked = np.array([d.ppf(ndtr(row)) for d, row in zip(dists, s, strict=True)])
    flat = GaussianCopula(np.eye(3), COPULA.laws)
    swapped = GaussianMixture([0.3, 0.5, 0.2], MEANS, COVS)
    assert smallest_p(MIX.score(draws)) > ALPHA / 6
    assert smallest_p(swapped.score(draws)) < ALPHA / 6
    assert smallest_p(COPULA.score(linked)) > ALPHA / 6
    assert smallest_p(flat.score(linked)) < ALPHA / 6


def smallest_p(z: Any) -> float:
    """The smallest p-value of three normality tests and three correlation tests."""
    p = [stats.kstest(row, "norm").pvalue for row in z]
    r = np.corrcoef(z)[np.triu_indices(3, 1)]
    return float(min([*p, *(2 * ndtr(-np.abs(np.arctanh(r)) * math.sqrt(z.shape[1] - 3)))]))


# ---------------------------------------------------------------- the Gaussian mixture


def test_one_channel_agrees_with_the_scalar_mixture() -> None:
    """Variances and means (K,), or (K, 1) and (K, 1, 1): numbers and arrays of any shape, both tails."""
    weights, means, variances = [0.5, 0.3, 0.2], [0.0, 3.0, -8.0], [1.0, 0.25, 9.0]
    scalar = Mixture(weights, [Gaussian(m, v) for m, v in zip(means, variances, strict=True)])
    z = np.linspace(-40.0, 40.0, 81).reshape(3, 27)
    y = scalar.value(z)
    for law in (
        GaussianMixture(weights, means, variances),
        GaussianMixture(weights, np.reshape(means, (3, 1)), np.reshape(variances, (3, 1, 1))),
    ):
        assert law.dim == 1
        np.testing.assert_array_equal(law.score(y), scalar.score(y))
        np.testing.assert_allclose(law.value(z), y, rtol=1e-14)
        np.testing.assert_allclose(law.logpdf(y), scalar.logpdf(y), rtol=1e-15)
        assert type(law.score(1.0)) is type(law.value(1.0)) is type(law.logpdf(1.0)) is float


def test_one_component_is_the_gaussian_law() -> None:
    """Also among components of weight zero."""
    plain = Gaussian(MEANS[1], COVS[1])
    y = 5.0 * np.random.default_rng(1).standard_normal((3, 40))
    for law in (GaussianMixture([1.0], MEANS[1:2], COVS[1:2]), GaussianMixture([0.0, 1.0, 0.0], MEANS, COVS)):
        np.testing.assert_allclose(law.score(y), plain.score(y), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(law.logpdf(y), plain.logpdf(y), rtol=1e-13)
        np.testing.assert_allclose(law.value(plain.score(y)), y, rtol=1e-12, atol=1e-12)


def test_an_outlier_brings_back_a_component_that_had_vanished() -> None:
    """Channel 1 says "the first" with odds exp(1250); channel 2 is 60 deviations off it and central for the other."""
    law = GaussianMixture([0.5, 0.5], [[0.0, 0.0], [50.0, 60.0]], [np.eye(2), np.eye(2)])
    with mp.workdps(1500):
        odds = mp.exp(-(mp.mpf(50) ** 2) / 2)
        tail = (mp.erfc(60 / mp.sqrt(2)) / 2 + odds / 2) / (1 + odds)
        low, high = mp.mpf(40), mp.mpf(60)
    with mp.workdps(40):
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if mp.erfc(middle / mp.sqrt(2)) / 2 > tail else (low, middle)
    z = law.score([0.0, 60.0])
    assert z[1] == pytest.approx(float(low), rel=1e-14)
    assert law.value(z)[1] == pytest.approx(60.0, rel=1e-13)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_random_mixtures_round_trip(d: int, K: int, seed: int) -> None:
    """Of one to four channels and components, with correlations up to almost 1."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((K, d, d)) * np.exp(rng.normal(0, 1, (K, 1, 1)))
    covs = root @ root.transpose(0, 2, 1) + 1e-3 * np.eye(d)
    law = GaussianMixture(rng.dirichlet(np.ones(K)), rng.normal(0, 5, (K, d)), covs)
    z = 2.0 * rng.standard_normal((d, 20))
    back = law.score(law.value(z))
    # as far as the conditioning of the covariances allows
    assert (np.abs(back - z) < 1e-7).all()


def test_mixture_refuses_scores_and_readings_out_of_range() -> None:
    """Infinite ones, by position."""
    with pytest.raises(ReadingError, match=r"the reading at position \(1, 0\) is outside"):
        PAIR.score([[0.0], [math.inf]])
    with pytest.raises(NumericalError, match="the score at position 0 is too far"):
        PAIR.value([math.inf, 0.0])
    with pytest.raises(NumericalError, match="the reading at position 1 is too far"):
        PAIR.score([1e200, 0.0])  # the square of which is no float, so no weights are left


@pytest.mark.parametrize(
    ("weights", "means", "covs", "message"),
    [
        ([0.5, 0.6], [0.0, 1.0], [1.0, 1.0], "the weights sum to 1.1"),
        ([0.5, -0.5], [0.0, 1.0], [1.0, 1.0], "weight 1 is -0.5"),
        ([1.0], [0.0, 1.0], [1.0, 1.0], "there are 1 weights and 2 means"),
        ([0.5, 0.5], [0.0, 1.0], [1.0, 0.0], "covariance 1 has the eigenvalue 0; it must be positive definite"),
        ([0.5, 0.5], [0.0, 1.0], [1.0, -2.0], "covariance 1 has the eigenvalue -2"),
        ([0.5, 0.5], [0.0, math.nan], [1.0, 1.0], "means have entries that are not finite"),
        ([0.5, 0.5], [0.0, 1.0], [1.0, math.inf], "covs have entries that are not finite"),
        ([0.5, 0.5], [0.0, 1.0], [1.0], r"means have shape \(2, 1\) and covs have shape \(1, 1, 1\)"),
        ([1.0], [[0.0, 0.0]], [np.ones((2, 3))], r"covs have shape \(1, 2, 3\)"),
        ([1.0], [[0.0, 0.0]], [[[1.0, 0.5], [0.2, 1.0]]], "covariance 0 is not symmetric"),
        ([1.0], [[0.0, 0.0]], [[[1.0, 2.0], [2.0, 1.0]]], "covariance 0 has the eigenvalue -1"),
        ([1.0], 0.0, 1.0, r"means have shape \(\)"),
        ([1.0], "zero", 1.0, "means and covs must be arrays of numbers"),
    ],
)
def test_refuses_what_is_not_a_gaussian_mixture(weights: Any, means: Any, covs: Any, message: str) -> None:
    """A configuration error names the value and the rule."""
    with pytest.raises(LawError, match=message):
        GaussianMixture(weights, means, covs)


# ---------------------------------------------------------------- the copula


def test_without_correlation_a_copula_is_independent() -> None:
    """Channel by channel, bit for bit in scores."""
    law, plain = GaussianCopula(np.eye(3), COPULA.laws), Independent(*COPULA.laws)
    y = COPULA.value(np.random.default_rng(6).standard_normal((3, 20)))
    np.testing.assert_array_equal(law.score(y), plain.score(y))
    np.testing.assert_allclose(law.logpdf(y), plain.logpdf(y), rtol=1e-14)


def test_normal_marginals_give_the_gaussian_law() -> None:
    """With covariance D R D."""
    scales = np.array([1.0, 2.0, 0.5])
    law = GaussianCopula(R, [Gaussian(m, s * s) for m, s in zip([1.0, 2.0, 3.0], scales.tolist(), strict=True)])
    plain = Gaussian([1.0, 2.0, 3.0], R * np.outer(scales, scales))
    y = 3.0 * np.random.default_rng(2).standard_normal((3, 30))
    np.testing.assert_allclose(law.score(y), plain.score(y), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(law.logpdf(y), plain.logpdf(y), rtol=1e-12)
    np.testing.assert_allclose(law.value(plain.score(y)), y, rtol=1e-11, atol=1e-12)


def test_any_scalar_law_can_be_a_marginal() -> None:
    """A mixture, for one."""
    laws = [Mixture([0.5, 0.5], [Gaussian(-3.0, 1.0), Gaussian(3.0, 1.0)]), Scalar(stats.uniform(0, 1))]
    law = GaussianCopula([[1.0, -0.9], [-0.9, 1.0]], laws)
    z = np.random.default_rng(5).standard_normal((2, 50))
    np.testing.assert_allclose(law.score(law.value(z)), z, atol=1e-10)
    with pytest.raises(ReadingError, match="outside the support"):
        law.score([0.0, 1.5])


def test_one_channel_is_the_law_itself() -> None:
    """Of numbers and arrays of any shape."""
    law = GaussianCopula([[1.0]], [Scalar(stats.gamma(2.0))])
    y = np.array([[0.5, 2.0], [3.0, 9.0]])
    assert law.dim == 1
    for method, plain in zip(
        (law.score, law.value, law.logpdf), (law.laws[0].score, law.laws[0].value, law.laws[0].logpdf), strict=True
    ):
        np.testing.assert_array_equal(method(y), plain(y))
        assert method(1.5) == plain(1.5)


class Dice:
    """A law with atoms."""

    dim, atoms = 1, True

    def score(self, y: Any, v: Any = None) -> Any:
        return y

    value = logpdf = score


G = Gaussian(0.0, 1.0)


@pytest.mark.parametrize(
    ("correlation", "laws", "message"),
    [
        (np.eye(3), [G, G], r"correlation has shape \(3, 3\); 2 laws need \(2, 2\)"),
        ([[1.0, 0.5], [0.4, 1.0]], [G, G], "correlation is not symmetric"),
        ([[1.0, 0.5], [0.5, 2.0]], [G, G], r"correlation\[1, 1\] = 2.0; the diagonal must be 1"),
        ([[1.0, 1.5], [1.5, 1.0]], [G, G], "correlation has the eigenvalue -0.5; it must be positive definite"),
        ([[1.0, 1.0], [1.0, 1.0]], [G, G], "correlation has the eigenvalue"),
        ([[1.0, math.nan], [math.nan, 1.0]], [G, G], "entries that are not finite"),
        ("one", [G, G], "correlation must be a matrix of numbers"),
        (np.eye(2), G, "laws is of type Gaussian"),
        (np.eye(2), [], "no law given"),
        (np.eye(2), [G, 3.0], "channel 1 is of type float; it must be a law"),
        (np.eye(2), [G, Gaussian([0.0, 0.0], np.eye(2))], "channel 1 has dim = 2"),
        (np.eye(2), [G, Dice()], "law 1 has atoms"),
    ],
)
def test_refuses_what_is_not_a_copula(correlation: Any, laws: Any, message: str) -> None:
    """A configuration error names the value and the rule."""
    with pytest.raises(LawError, match=message):
        GaussianCopula(correlation, laws)
