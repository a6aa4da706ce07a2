"""The tests of whiteness themselves: right false-alarm rates, and power against each way to fail."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.checks import whiteness


def white(seed, shape):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.sample(default=1, seconds=4, reason="thousands of tests of white scores")
@pytest.mark.parametrize("shape", [(400,), (400, 3), (40, 2, 10)])
def test_p_values_are_not_too_small_on_white_scores(shape):
    """Of 2,000 white samples about 1 percent may have p < 0.01; more than 2.2 percent has probability 1e-6."""
    rng = np.random.default_rng(5)
    small = sum(whiteness(rng.standard_normal(shape), lags=3).p_value < 0.01 for _ in range(2000))
    assert small <= 44


FAILURES = {
    "level": lambda z: z + 0.06,
    "spread": lambda z: z * 1.06,
    "shape": lambda z: np.sign(z) * np.abs(z) ** 1.1 / np.sqrt(np.mean(np.abs(z) ** 2.2)),
    "serial correlation": lambda z: (z + 0.1 * np.roll(z, 1, axis=0)) / np.sqrt(1.01),
    "serial correlation of magnitudes": lambda z: z * np.where(np.abs(np.roll(z, 1, axis=0)) > 0.6745, 1.1, 0.888),
    "scores against past magnitudes": lambda z: z * 0.995 + 0.1 * (np.abs(np.roll(z, 1, axis=0)) - 0.798),
    "correlation of channels": lambda z: z + 0.1 * z[:, [1, 0]] * [[1, 0]],
    "correlation of magnitudes of channels": lambda z: (
        z * np.where(np.abs(z[:, [1, 0]]) > 0.6745, [1.1, 1], [0.888, 1])
    ),
    "scores against magnitudes of channels": lambda z: z + [[0.1, 0]] * (np.abs(z[:, [1, 0]]) - 0.798),
}


@pytest.mark.parametrize("name", FAILURES)
def test_each_test_finds_what_it_looks_for(name):
    """20,000 scores with one small fault: the test of that name sees it (false alarm 1e-6)."""
    z = white(7, (20_000, 2))
    assert whiteness(z).p_value > 1e-6
    found = {t.name: t.p_value for t in whiteness(FAILURES[name](z)).tests}
    assert found[name] < 1e-6


def test_missing_scores_are_left_out():
    """Gaps neither raise an alarm nor hide one."""
    z = white(8, (5000, 2))
    z[::7] = np.nan
    assert whiteness(z).p_value > 1e-6
    assert whiteness(1.2 * z).p_value < 1e-6
