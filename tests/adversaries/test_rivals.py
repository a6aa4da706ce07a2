"""Rivals of a design: the least distortion that hiding costs, and simple outputs at equal price."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

import understudy as us
from understudy.errors import ConfigurationError

# --- the limit --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("accuracy", [0.5, 0.6, 0.75, 0.9, 1.0])
def test_two_levels_have_the_closed_form(share, accuracy):
    """Two levels `gap` apart: the rarer value moves, as much of it as may not be told apart."""
    ones, gap = int(200 * share), 600.0
    y, theta = np.repeat([400.0, 400.0 + gap], [200 - ones, ones]), np.repeat([0, 1], [200 - ones, ones])
    limit = us.distortion_limit((y, theta), [accuracy])
    assert limit.distortion[0][0] == pytest.approx(gap * share * (2.0 - 2.0 * accuracy), abs=1e-9)
    assert limit.percent[0][0] == pytest.approx(100.0 * limit.distortion[0][0] / y.mean(), abs=1e-9)


@pytest.mark.parametrize("m", [3, 5])
def test_several_equally_likely_levels_have_the_closed_form(m):
    """At chance all values meet in their median; in between the limit is the line, as each unit costs the same."""
    y, theta = np.repeat(np.arange(m) * 10.0, 20), np.repeat(np.arange(m), 20)
    meet = 10.0 * np.abs(np.arange(m) - (m - 1) / 2.0).mean()
    limit = us.distortion_limit((y, theta), [1.0 / m, 1.0])
    assert limit.distortion[0] == pytest.approx((meet, 0.0), abs=1e-9)
    assert limit.values == m


def _by_transport(y, theta, accuracy):
    """The same program written another way: every pair of levels has its own amount."""
    levels, place = np.unique(y, return_inverse=True)
    k, m = len(levels), int(theta.max()) + 1
    apart = np.abs(levels[:, None] - levels[None, :]).ravel()
    p = np.bincount(theta) / theta.size
    cost = np.concatenate([*(share * apart for share in p), np.zeros(k)])
    equal, right = [], []
    for i in range(m):
        for a in range(k):
            row = np.zeros((m, k, k))
            row[i, a] = 1.0
            equal.append(np.concatenate([row.ravel(), np.zeros(k)]))
            right.append(np.mean(place[theta == i] == a))
    above, limit = [], []
    for i in range(m):
        for b in range(k):
            row = np.zeros((m, k, k))
            row[i, :, b] = 1.0
            above.append(np.concatenate([row.ravel(), -np.eye(k)[b]]))
            limit.append(0.0)
    above.append(np.concatenate([np.zeros(m * k * k), np.ones(k)]))
    limit.append(m * accuracy)
    return linprog(cost, A_ub=np.array(above), b_ub=limit, A_eq=np.array(equal), b_eq=right).fun


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_limit_is_that_of_free_transports(m, seed):
    """On few levels each is a cell, and the program along the line has the optimum of the one over all pairs."""
    rng = np.random.default_rng(seed)
    theta = np.append(rng.integers(0, m, 80), np.arange(m))
    y = np.append(rng.integers(0, 9, 80) + 2 * theta[:80], np.arange(m)).astype(float) ** 1.5
    for accuracy in (1.0 / m, 0.6, 0.8):
        assert us.distortion_limit((y, theta), [accuracy]).distortion[0][0] == pytest.approx(
            _by_transport(y, theta, accuracy), abs=1e-8
        )


def test_cells_only_lower_the_limit_and_a_method_stays_above_it():
    """Fewer cells, a lower bound; a constant output tells nothing and costs at least the limit at chance."""
    rng = np.random.default_rng(3)
    theta = rng.integers(0, 2, 500)
    y = rng.normal(400.0 + 200.0 * theta, 80.0)
    limits = [us.distortion_limit((y, theta), [0.5, 0.6, 0.8], cells).distortion[0] for cells in (10, 40, 100)]
    for fewer, more in itertools.pairwise(limits):
        assert all(low <= high + 1e-9 for low, high in zip(fewer, more, strict=True))
    assert 0.0 < limits[-1][0] <= np.abs(y - np.median(y)).mean()
    assert limits[-1][0] > limits[-1][1] > limits[-1][2]


def test_channels_are_apart_and_what_is_missing_does_not_count():
    """Two channels have two limits, each in its own unit; rows without reading or label change nothing."""
    y, theta = np.repeat([400.0, 1000.0], 50), np.repeat([0.0, 1.0], 50)
    both = np.column_stack([y, 0.01 * y])
    limit = us.distortion_limit((both, theta), [0.5])
    assert [line[0] for line in limit.distortion] == pytest.approx([300.0, 3.0])
    assert limit.percent[0] == pytest.approx(limit.percent[1])
    more = np.vstack([both, [[np.nan, np.nan], [7.0, 7.0]]])
    assert us.distortion_limit((more, [*theta, 1.0, math.nan]), [0.5]).distortion == limit.distortion


@pytest.mark.parametrize(
    ("history", "accuracies"),
    [
        (([1.0, 2.0], [0, 0]), [0.5]),
        (([1.0, 2.0], [0, 1]), [0.4]),
        (([1.0, 2.0], [0, 1]), [1.2]),
        ([1.0, 2.0, 3.0], [0.5]),
    ],
)
def test_what_has_no_limit_is_refused(history, accuracies):
    """One value, an accuracy below chance or above one, readings without labels."""
    with pytest.raises(ConfigurationError):
        us.distortion_limit(history, accuracies)
