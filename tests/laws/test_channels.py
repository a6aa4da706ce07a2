"""Mixtures of laws of several channels, taken apart channel by channel."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from scipy import stats

import understudy as us
from understudy.errors import LawError, NumericalError, ReadingError
from understudy.laws.atoms import Atoms
from understudy.laws.law import Law
from understudy.laws.multivariate import ChannelMixture, GaussianCopula, GaussianMixture, mix, next_channel, reweight
from understudy.laws.scalar import Shifted

COV = np.array([[2.0, 0.6, -0.4], [0.6, 1.0, 0.1], [-0.4, 0.1, 0.5]])
MEANS = np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 0.0]])
CORE = np.array([[1.0, 0.6], [0.6, 1.0]])
LAWS = {
    "Gaussian": us.Gaussian(MEANS[0], COV),
    "independent": us.Independent(us.Gaussian(0.0, 1.0), us.Scalar(stats.expon()), us.Gaussian(1.0, 4.0)),
    "Gaussian mixture": GaussianMixture([0.3, 0.7], MEANS, [COV, np.eye(3)]),
    "copula": GaussianCopula(
        COV / np.sqrt(np.outer(COV.diagonal(), COV.diagonal())), [us.Scalar(stats.gamma(2.0))] * 3
    ),
    "shifted": Shifted(us.Gaussian(MEANS[0], COV), [1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("name", LAWS)
def test_conditionals_make_up_the_joint_law(name):
    """Scores one channel at a time are the scores of the vector, and the log-densities add up to the joint one."""
    law = LAWS[name]
    for z in np.random.default_rng(1).standard_normal((5, 3)):
        y = law.value(z).tolist()
        parts = [next_channel(law, y[:i]) for i in range(3)]
        np.testing.assert_allclose([part.score(x) for part, x in zip(parts, y, strict=True)], z, atol=1e-10)
        np.testing.assert_allclose([part.value(x) for part, x in zip(parts, z.tolist(), strict=True)], y, rtol=1e-9)
        total = sum(float(part.logpdf(x)) for part, x in zip(parts, y, strict=True))
        assert total == pytest.approx(float(law.logpdf(np.array(y))), abs=1e-10)
        assert all(part.dim == 1 and "." not in repr(part) for part in parts)


def test_a_mixture_of_gaussians_is_the_gaussian_mixture():
    """Two ways to the same law, for one reading and for many."""
    one = ChannelMixture([0.3, 0.7], [*map(us.Gaussian, MEANS, [COV, np.eye(3)])])
    other = GaussianMixture([0.3, 0.7], MEANS, [COV, np.eye(3)])
    z = 2.0 * np.random.default_rng(2).standard_normal((3, 8))
    y = other.value(z)
    np.testing.assert_allclose(one.value(z), y, atol=1e-10)
    np.testing.assert_allclose(one.score(y), z, atol=1e-10)
    np.testing.assert_allclose(one.logpdf(y), other.logpdf(y), atol=1e-12)
    np.testing.assert_array_equal(one.score(y[:, 0]), one.score(y)[:, 0])
    assert one.logpdf(y[:, 0]) == pytest.approx(one.logpdf(y)[0], rel=1e-15)


def test_a_component_that_a_channel_excludes_is_not_asked_again():
    """A copula has no conditional law where its first channel cannot be."""
    copula = GaussianCopula(CORE, [us.Scalar(stats.expon()), us.Gaussian(0.0, 1.0)])
    law = ChannelMixture([0.5, 0.5], [copula, us.Gaussian([0.0, 0.0], np.eye(2))])
    z = law.score([-1.0, 0.5])
    assert z[0] == pytest.approx(stats.norm.ppf(0.5 * stats.norm.cdf(-1.0)), abs=1e-12)
    assert z[1] == pytest.approx(0.5, abs=1e-14)
    np.testing.assert_allclose(law.value(z), [-1.0, 0.5], atol=1e-10)


def test_atoms_mix_to_atoms():
    """Channel by channel, with uniforms in the shape of the reading."""
    a = us.Independent(Atoms([0.0, 1.0], [0.5, 0.5]), us.Gaussian(0.0, 1.0))
    b = us.Independent(Atoms([0.0, 1.0], [0.9, 0.1]), us.Gaussian(4.0, 1.0))
    law = ChannelMixture([0.5, 0.5], [a, b])
    assert law.atoms
    z = law.score([1.0, 4.5], [0.5, 0.5])
    assert stats.norm.cdf(z[0]) == pytest.approx(0.7 + 0.5 * 0.3, abs=1e-12)
    # given the 1, the first has the weight 5/6
    assert stats.norm.cdf(z[1]) == pytest.approx((5 * stats.norm.cdf(4.5) + stats.norm.cdf(0.5)) / 6, abs=1e-12)
    np.testing.assert_allclose(law.value(z), [1.0, 4.5], atol=1e-9)
    assert law.logpdf([1.0, 4.5]) == pytest.approx(
        math.log(0.25 * stats.norm.pdf(4.5) + 0.05 * stats.norm.pdf(0.5)), abs=1e-12
    )
    with pytest.raises(ReadingError, match="needs auxiliary uniforms"):
        law.score([1.0, 4.5])
    with pytest.raises(ReadingError, match="need the same"):
        law.score([1.0, 4.5], [[0.5, 0.5], [0.5, 0.5]])


def test_weights():
    """In logarithms: nothing is divided by zero, and what nobody allows is refused."""
    assert reweight([0.5, 0.5, 0.0], [-1e5, -1e5, 0.0]) == [0.5, 0.5, 0.0]
    assert reweight([1e-300, 1.0], [0.0, -5000.0]) == [1.0, 0.0]
    with pytest.raises(ReadingError, match="impossible"):
        reweight([0.5, 0.5], [-math.inf, -math.inf])
    with pytest.raises(NumericalError, match="not a number"):
        reweight([0.5, 0.5], [0.0, math.nan])
    law = us.Gaussian(0.0, 1.0)
    assert mix([0.0, 1.0], [us.Gaussian(5.0, 1.0), law]) is law


def test_is_a_value_and_refuses_other_shapes():
    """Frozen, copied, silent about its parameters."""
    law = ChannelMixture([0.3, 0.7], [*map(us.Gaussian, MEANS, [COV, np.eye(3)])])
    assert isinstance(law, Law)
    assert repr(law) == "ChannelMixture(2 laws, dim=3)"
    assert copy.deepcopy(law).score([0.0, 0.0, 0.0]).tolist() == law.score([0.0, 0.0, 0.0]).tolist()
    with pytest.raises(AttributeError, match="value"):
        law.dim = 2
    for y in (1.0, [1.0, 2.0], np.zeros((3, 2, 2))):
        with pytest.raises(ReadingError, match=r"3 channels need \(3,\) or \(3, N\)"):
            law.score(y)
    with pytest.raises(ReadingError, match="of type list"):
        law.value(["a", 0.0, 0.0])
    with pytest.raises(LawError, match="1 weights and 2 laws"):
        ChannelMixture([1.0], [us.Gaussian(MEANS[0], COV)] * 2)
