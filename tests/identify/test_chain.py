"""The chain of the private parameter: transitions, prior, hours of the day."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from understudy.errors import ConfigurationError
from understudy.identify.history import Chain, History, Segment, chain_of
from understudy.tables.times import SECOND

ALPHA = 1e-6


def history(*paths, period=60.0, start=0, m=None, times=True, zone=None):
    segments = [
        Segment(
            str(k),
            start + np.arange(len(path)) * round(period * SECOND) if times else None,
            np.zeros((len(path), 1)),
            np.array(path),
        )
        for k, path in enumerate(paths)
    ]
    m = m or max(max(path) for path in paths) + 1
    return History(("y",), "theta", "t", (), tuple(range(m)), period, tuple(segments), (), zone)


def walk(P, n, seed):
    rng, path = np.random.default_rng(seed), [0]
    for _ in range(n - 1):
        path.append(int(rng.choice(len(P), p=P[path[-1]])))
    return path


@given(st.lists(st.lists(st.integers(-1, 2), min_size=2, max_size=30), min_size=1, max_size=5))
@settings(max_examples=80, deadline=None)
def test_transitions_are_counted_within_segments(paths):
    """An oracle by hand: each pair of known neighbours counts once, one transition is spread over every row."""
    if not any(x >= 0 for path in paths for x in path):
        return
    chain = chain_of(history(*paths, m=3))
    counts = np.full((3, 3), 1.0 / 3.0)
    for path in paths:
        for a, b in pairwise(path):
            if a >= 0 and b >= 0:
                counts[a, b] += 1.0
    np.testing.assert_allclose(chain.transition, counts / counts.sum(axis=1, keepdims=True), rtol=1e-12)
    assert (chain.transition > 0.0).all()


def test_a_known_chain_is_found():
    """Every row within its own multinomial law (false alarm 1e-6), and a wrong chain is not."""
    P = np.array([[0.95, 0.04, 0.01], [0.10, 0.85, 0.05], [0.02, 0.08, 0.90]])
    path = walk(P, 20_000, seed=1)
    chain = chain_of(history(path))
    visits = np.bincount(path[:-1], minlength=3)

    def surprise(Q):
        return sum(float((np.square(chain.transition[i] - Q[i]) / Q[i]).sum() * visits[i]) for i in range(3))

    limit = stats.chi2.isf(ALPHA, 6)
    assert surprise(P) < limit
    assert surprise(np.array([[0.93, 0.05, 0.02], [0.10, 0.85, 0.05], [0.02, 0.08, 0.90]])) > limit


def test_stationary_law_and_durations():
    """The stationary law solves pi P = pi; the duration is that of a geometric law."""
    chain = Chain(("a", "b"), 300.0, np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.5, 0.5]), 10)
    np.testing.assert_allclose(chain.stationary, [0.75, 0.25], rtol=1e-12)
    np.testing.assert_allclose(chain.durations, [3000.0, 1000.0], rtol=1e-12)


def test_hours_of_the_day():
    """There from nine to five: what the clock alone says, drawn to the whole by one hour's worth of rows."""
    path = [1 if 9 <= (k // 60) % 24 < 17 else 0 for k in range(10 * 1440)]
    chain = chain_of(history(path))
    assert chain.prior[1] == pytest.approx(1.0 / 3.0)
    assert chain.by_hour[12, 1] == pytest.approx((600.0 + 60.0 / 3.0) / 660.0)
    assert chain.by_hour[3, 1] == pytest.approx((60.0 / 3.0) / 660.0)
    # people come at nine: the transition into a row of that hour
    assert chain.transition_by_hour[9, 0, 1] > 5.0 * chain.transition_by_hour[3, 0, 1]


def test_hours_are_those_of_the_wall():
    """The same rows in a zone eight hours ahead."""
    path = [1 if (k // 60) % 24 < 1 else 0 for k in range(5 * 1440)]
    chain = chain_of(history(path, zone="+08:00"))
    assert int(chain.by_hour[:, 1].argmax()) == 8


def test_without_times_there_are_no_hours():
    """Nothing is said of the clock."""
    chain = chain_of(history([0, 1, 0, 1], times=False))
    assert chain.by_hour is None


def test_json_has_all_of_it():
    """To the bit, with the stationary law and the durations."""
    chain = chain_of(history(walk(np.array([[0.9, 0.1], [0.2, 0.8]]), 500, 2), zone="UTC"))
    plain = json.loads(json.dumps(chain.to_plain()))
    for name in ("transition", "prior", "by_hour", "transition_by_hour", "stationary", "durations"):
        assert (np.array(plain[name]) == getattr(chain, name)).all()
    assert [plain[name] for name in ("values", "period", "zone", "transitions")] == [[0, 1], 60.0, "UTC", 499]


def test_no_label_no_chain():
    """There is nothing to count."""
    with pytest.raises(ConfigurationError, match="no row has a label"):
        chain_of(history([-1, -1], m=2))
