"""Rows that the learned and the judged recording share are told."""

from __future__ import annotations

import numpy as np
from audit_cases import Normal, plain_family
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from understudy import text
from understudy.adversaries.audit import audit
from understudy.adversaries.datasets import CHANGES, WINDOW, shared_rows


def counted(one, other):
    """Rows of all windows that occur in both, window by window."""
    known = {one[k : k + WINDOW].tobytes() for k in range(len(one) - WINDOW + 1)}
    rows = set()
    for k in range(len(other) - WINDOW + 1):
        window = other[k : k + WINDOW]
        changes = (window[1:] != window[:-1]).any(axis=1).sum()
        if changes >= CHANGES and not np.isnan(window).any() and window.tobytes() in known:
            rows.update(range(k, k + WINDOW))
    return len(rows)


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 2), st.sampled_from([2, 50]), st.floats(0.0, 1.0),
    st.lists(st.tuples(st.integers(0, 150), st.integers(0, 150), st.integers(1, 120)), max_size=3),
)  # fmt: skip
def test_shared_rows_against_a_count_window_by_window(seed, d, levels, pace, copies):
    """Stretches that are copied from one to the other, of readings on few levels that stand still for a while."""
    rng = np.random.default_rng(seed)

    def readings():
        Y = rng.integers(0, levels, (220, d)).astype(float)
        stay = rng.random(220) > pace
        for k in range(1, 220):
            Y[k] = Y[k - 1] if stay[k] else Y[k]
        Y[rng.random(220) < 0.003] = np.nan
        return Y

    one, other = readings(), readings()
    for source, target, length in copies:
        length = min(length, 220 - max(source, target))
        other[target : target + length] = one[source : source + length]
    assert shared_rows(one, other) == counted(one, other)


def test_an_audit_says_that_it_judges_what_was_learned():
    """A day of the judged recording is in the other one; the twin, of days apart, has no such note."""
    family = plain_family(3.0)
    design = us.design(family, leakage=0.02, distortion="mae", horizon=60)
    rng = np.random.default_rng(2)
    theta = np.arange(20).repeat(60) % 2
    first, second = (3.0 * theta + rng.normal(size=theta.size) for _ in range(2))
    mixed = np.concatenate([second[:600], first[600:]])
    for Y, told in ((mixed, True), (second, False)):
        made = audit(design, Y, theta, {"one": Normal()}, train=(first, theta), rng=1, noise=False)
        assert (text.shared_rows_note(600, 1200) in made.notes) is told
