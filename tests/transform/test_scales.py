"""Huge and tiny scales, from 1e-12 to 1e12: everything is relative to the scale of the readings."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from helpers import random_system

import understudy as us

SCALES = [1e-12, 1e-6, 1.0, 1e6, 1e12]


def scaled(system, sd):
    """The same system in other units."""
    factors = {"Q": sd**2, "R": sd**2, "cov0": sd**2, "b": sd, "d": sd, "mean0": sd}
    return us.GaussMarkov(**{k: v * factors.get(k, 1.0) for k, v in system.items()})


@pytest.mark.parametrize("target_sd", SCALES)
@pytest.mark.parametrize("source_sd", SCALES)
def test_the_round_trip_holds_at_every_scale(source_sd, target_sd):
    """To 1e-9 relative to the scale, with gaps, for every pair of scales."""
    rng = np.random.default_rng(131)
    first, second = random_system(rng, 2, 2), random_system(rng, 3, 2)
    source, target = scaled(first, source_sd), scaled(second, target_sd)
    Y = us.sample(source, 300, rng=rng)
    Y[100:110] = np.nan
    out = us.disguise(Y, source, target)
    back = us.disguise(out, target, source)
    assert np.nanmax(np.abs(back - Y)) < 1e-9 * source_sd
    reference = us.disguise(Y / source_sd, scaled(first, 1.0), scaled(second, 1.0))
    assert np.nanmax(np.abs(out / target_sd - reference)) < 1e-9


@pytest.mark.parametrize("sd", SCALES)
def test_scores_do_not_know_the_scale(sd):
    """Scores are the same in every unit; each number moves the log-likelihood by the unit's log."""
    system = random_system(np.random.default_rng(132), 3, 2)
    Y = us.sample(scaled(system, 1.0), 200, rng=133)
    assert np.max(np.abs(us.whiten(Y * sd, scaled(system, sd)) - us.whiten(Y, scaled(system, 1.0)))) < 1e-9
    moved = us.loglik(Y * sd, scaled(system, sd)) + Y.size * np.log(sd)
    assert moved == pytest.approx(us.loglik(Y, scaled(system, 1.0)), rel=1e-10)


@pytest.mark.parametrize("sd", SCALES)
@pytest.mark.parametrize("noise", ["gaussian", "student"])
def test_autoregressions_at_every_scale(sd, noise):
    """AR(2) with Gaussian and with Student-t noise, and back, to 1e-9 of the scale."""

    def model(unit, phi):
        law = us.Gaussian(0.0, unit**2) if noise == "gaussian" else us.Scalar(scipy.stats.t(4, scale=unit))
        return us.AutoRegressive([phi, -0.3], 5.0 * unit, law)

    source, target = model(sd, 0.6), model(1.0, 0.2)
    Y = us.sample(source, 500, rng=134)
    assert np.max(np.abs(us.disguise(us.disguise(Y, source, target), target, source) - Y)) < 1e-9 * sd


@pytest.mark.parametrize("ratio", [1e3, 1e6, 1e9, 1e12])
def test_channels_of_different_units(ratio):
    """Two independent channels, one `ratio` times the other: each has the scores that it has alone."""
    quick = {"A": 0.5, "C": 1.0, "Q": 1.0, "R": 1.0, "mean0": 0.0, "cov0": 1.0}
    slow = {"A": 0.99, "C": 1.0, "Q": 1e-2, "R": 1.0, "mean0": 0.0, "cov0": 3.0}
    both = us.GaussMarkov(
        A=np.diag([0.5, 0.99]), C=np.eye(2), Q=np.diag([ratio**2, 1e-2]), R=np.diag([ratio**2, 1.0]),
        mean0=[0.0, 0.0], cov0=np.diag([ratio**2, 3.0]),
    )  # fmt: skip
    a, b = us.sample(us.GaussMarkov(**quick), 1000, rng=135), us.sample(us.GaussMarkov(**slow), 1000, rng=136)
    a[300:330] = b[300:330] = np.nan
    z = us.whiten(np.stack([a * ratio, b], axis=1), both)
    assert np.nanmax(np.abs(z[:, 0] - us.whiten(a, us.GaussMarkov(**quick)))) < 1e-9
    assert np.nanmax(np.abs(z[:, 1] - us.whiten(b, us.GaussMarkov(**slow)))) < 1e-9


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-160, 1e150, 1e300])
def test_extreme_offsets_and_variances_are_finite_or_refused(size):
    """At the edges of double precision the answer is finite, or the model is refused: never NaN."""
    try:
        model = us.GaussMarkov(0.5, 1.0, size, size, mean0=0.0, cov0=size)
        z = us.whiten([0.0, 0.0, 0.0], model)
    except us.errors.UnderstudyError:
        return
    assert np.isfinite(z).all()


def test_a_variance_of_zero_is_refused():
    """Twin: the case of size 0 above is refused, so the test does not pass for want of a model."""
    with pytest.raises(us.errors.ModelError, match="positive definite"):
        us.GaussMarkov(0.5, 1.0, 0.0, 0.0, mean0=0.0, cov0=0.0)


def test_a_large_level_costs_only_its_own_digits():
    """Readings around 1e9 with unit noise: the round trip is right to the rounding of the level."""
    source = us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=1e8)
    target = us.GaussMarkov(0.5, 1.0, 2.0, 1.0, b=-1e8)
    Y = us.sample(source, 2000, rng=137)
    assert np.max(np.abs(us.disguise(us.disguise(Y, source, target), target, source) - Y)) < 1e-5
