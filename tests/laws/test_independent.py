"""A vector of independent channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from understudy.errors import LawError, ReadingError
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.laws.multivariate import Independent
from understudy.laws.scalar import Scalar

LAW = Independent(Gaussian(20.0, 4.0), Scalar(stats.t(3, loc=1.0)), Scalar(stats.gamma(2.0)))


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 50)])
def test_round_trip(shape: tuple[int, ...]) -> None:
    """Scores to reading to scores, for one vector and for many."""
    z = np.random.default_rng(1).standard_normal(shape)
    y = LAW.value(z)
    assert y.shape == shape
    np.testing.assert_allclose(LAW.score(y), z, atol=1e-12)


def test_each_channel_has_its_own_law() -> None:
    """The joint law is the channels one by one, and log-densities add up."""
    y = np.array([[21.0, 25.0], [0.0, 40.0], [3.0, 0.1]])
    parts = (Gaussian(20.0, 4.0), Scalar(stats.t(3, loc=1.0)), Scalar(stats.gamma(2.0)))
    np.testing.assert_array_equal(LAW.score(y), [law.score(row) for law, row in zip(parts, y, strict=True)])
    expected = stats.norm(20, 2).logpdf(y[0]) + stats.t(3, 1).logpdf(y[1]) + stats.gamma(2).logpdf(y[2])
    np.testing.assert_allclose(LAW.logpdf(y), expected, rtol=1e-13)
    assert LAW.logpdf(y[:, 0]) == pytest.approx(expected[0], rel=1e-13)


def test_the_same_as_a_gaussian_law_without_correlation() -> None:
    """A diagonal covariance is independence."""
    joint = Gaussian([1.0, -2.0], [[4.0, 0.0], [0.0, 9.0]])
    split = Independent(Gaussian(1.0, 4.0), Gaussian(-2.0, 9.0))
    y = np.array([3.5, 0.25])
    np.testing.assert_allclose(split.score(y), joint.score(y), rtol=1e-15)
    np.testing.assert_allclose(split.value(y), joint.value(y), rtol=1e-15)
    assert split.logpdf(y) == pytest.approx(joint.logpdf(y), rel=1e-15)


def test_auxiliary_uniforms_reach_their_channel() -> None:
    """`v` is handed on, one row a channel."""

    class Echo:
        dim = 1

        def score(self, y: Any, v: Any = None) -> Any:
            return v

        def value(self, z: Any) -> Any:
            return z

        def logpdf(self, y: Any) -> Any:
            return 0.0

    assert Independent(Echo(), Echo()).score([0.0, 0.0], [0.25, 0.75]).tolist() == [0.25, 0.75]


def test_one_channel() -> None:
    """A vector of one channel is still a vector."""
    law = Independent(Gaussian(0.0, 1.0))
    assert law.dim == 1
    assert law.score([2.0]).tolist() == [2.0]


def test_is_a_law_and_does_not_show_parameters() -> None:
    """The protocol holds; past readings stay out of the repr."""
    assert isinstance(LAW, Law)
    assert repr(LAW) == "Independent(dim=3)"


def test_refuses_what_is_not_a_vector_of_laws() -> None:
    """Each refusal names the channel and the rule."""
    with pytest.raises(LawError, match="no law given"):
        Independent()
    with pytest.raises(LawError, match="channel 1 is of type float"):
        Independent(Gaussian(0.0, 1.0), 3.0)
    with pytest.raises(LawError, match="channel 0 has dim = 2"):
        Independent(Gaussian([0.0, 0.0], np.eye(2)))


@pytest.mark.parametrize("y", [1.0, [1.0, 2.0], np.zeros((3, 2, 2)), np.zeros((50, 3))])
def test_refuses_a_reading_of_another_shape(y: Any) -> None:
    """Shapes are stated, never guessed."""
    with pytest.raises(ReadingError, match=r"3 channels need \(3,\) or \(3, N\)"):
        LAW.score(y)


def test_refuses_a_reading_that_is_not_a_number_without_showing_it() -> None:
    """The message names the type, not the value."""
    with pytest.raises(ReadingError, match="of type list") as caught:
        LAW.score(["secret", 1.0, 2.0])
    assert "secret" not in str(caught.value)
