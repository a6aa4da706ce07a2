"""Recordings and their splits: no stretch of time is in both parts, and nothing is resampled reading by reading."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from audit_cases import switching
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy import text
from understudy.adversaries.datasets import (
    DAYS,
    blocks_of,
    dates_of,
    days_in,
    from_history,
    hours_and_days,
    make_recording,
    parts,
    split_in_time,
    whole_days,
)
from understudy.errors import ConfigurationError
from understudy.identify.fit import read_again as reread


def _recording(lengths, theta, rng):
    rows = sum(lengths)
    return make_recording(
        rng.standard_normal(rows), theta[:rows].tolist(), [0, 1], segments=np.repeat(np.arange(len(lengths)), lengths)
    )


@given(st.lists(st.integers(2, 200), min_size=1, max_size=12), st.integers(0, 10_000), st.floats(0.002, 0.3))
@settings(max_examples=60, deadline=None)
def test_no_row_is_in_both_parts(lengths, seed, rate):
    """Whatever the segments: parts are disjoint, stay within segments, and each has rows that are judged."""
    rng = np.random.default_rng(seed)
    if sum(lengths) < 2:
        lengths = [2]
    recording = _recording(lengths, switching(sum(lengths), rate, rng), rng)
    try:
        first, last, *_ = split_in_time(recording)
    except ConfigurationError:
        return
    rows = [np.concatenate([np.arange(a, b) for a, b in part]) for part in (first, last)]
    assert np.intersect1d(*rows).size == 0
    for part in (first, last):
        for a, b in part:
            assert np.unique(recording.segments[a:b]).size == 1
        blocks = blocks_of(recording, part)
        inside = np.zeros(len(blocks), dtype=bool)
        for a, b in part:
            inside[a:b] = True
        assert ((blocks >= 0) == inside).all()


def test_the_first_part_of_the_time_comes_first():
    """One recording is cut in the middle; many days by days; and where that leaves out a value, in turn."""
    rng = np.random.default_rng(0)
    one = _recording([1000], switching(1000, 0.05, rng), rng)
    first, last, kind, _ = split_in_time(one)
    assert (first, last) == ([(0, 500)], [(500, 1000)])
    assert kind == "halves"
    days = _recording([100] * 10, switching(1000, 0.05, rng), rng)
    first, last, kind, _ = split_in_time(days)
    assert first == [(100 * k, 100 * k + 100) for k in range(5)]
    assert kind == "segments"
    late = _recording([1000], np.repeat([0, 1], [800, 200]), rng)
    first, last, kind, complete = split_in_time(late)
    assert max(a for a, _ in first) > min(a for a, _ in last)
    assert (kind, complete) == ("short alternate blocks", True)
    ends = sorted([*first, *last])
    assert all(b[0] > a[1] for a, b in pairwise(ends))  # some rows between them are in neither
    for part in (first, last):
        assert set(np.concatenate([late.theta[a:b] for a, b in part]).tolist()) == {0, 1}


def test_stretches_are_as_long_as_theta_stays():
    """Blocks have about the mean length of a stay, at least that of an epoch, and are cut at segments."""
    rng = np.random.default_rng(1)
    recording = _recording([2000], np.repeat(np.arange(20) % 2, 100), rng)
    assert recording.spell == 100.0
    assert np.unique(blocks_of(recording, [(0, 1000)])).tolist() == [-1, *range(10)]
    assert np.unique(blocks_of(recording, [(0, 1000)], least=500)).tolist() == [-1, 0, 1]
    assert parts((0, 10), 100) == [(0, 10)]


def test_a_history_becomes_a_recording():
    """Readings, labels, hours, weekdays and segments of a frame arrive, row by row."""
    rng = np.random.default_rng(2)
    times = pd.date_range("2026-03-02 06:00", periods=400, freq="15min")
    theta = ((times.hour > 8) & (times.hour < 17)).astype(int)
    y = 400.0 + 100.0 * theta + np.cumsum(0.01 * rng.standard_normal(400)) + rng.standard_normal(400)
    frame = pd.DataFrame({"time": times, "co2": y, "people": theta})
    family = us.fit(frame, reading="co2", private="people", time="time", model="iid", holdout=None)
    found = from_history(reread(frame, family), family)
    assert np.array_equal(found.theta, theta)
    assert found.Y.shape == (400, 1)
    assert found.hours[:3].tolist() == [6.0, 6.25, 6.5]
    assert found.days[0] == 0  # a Monday
    assert found.days[-1] == times[-1].day_of_week
    assert found.period == 900.0


def test_the_clock_on_the_wall():
    """Hours and weekdays agree with pandas in a zone with summer time."""
    times = pd.date_range("2026-03-28 12:00", periods=100, freq="37min", tz="UTC")
    hours, days = hours_and_days(times.as_unit("ns").asi8, "Europe/Berlin")
    local = times.tz_convert("Europe/Berlin")
    assert np.allclose(hours, local.hour + local.minute / 60.0)
    assert np.array_equal(days, local.day_of_week)


def test_what_makes_no_recording_is_refused():
    """Lengths that differ, hours beyond the day, infinite readings and torn segments are named; no reading is."""
    with pytest.raises(ConfigurationError, match="3 readings"):
        make_recording([1.0, 2.0, 3.0], [0, 1], [0, 1])
    with pytest.raises(ConfigurationError, match="hours"):
        make_recording([1.0, 2.0], [0, 1], [0, 1], hours=[5.0, 24.0])
    with pytest.raises(ConfigurationError, match="infinite"):
        make_recording([1.0, np.inf], [0, 1], [0, 1])
    with pytest.raises(ConfigurationError, match="stand together"):
        make_recording([1.0, 2.0, 3.0], [0, 1, 0], [0, 1], segments=[1, 2, 1])
    with pytest.raises(ConfigurationError, match="no entry of theta"):
        make_recording([1.0, 2.0], ["x", "y"], [0, 1])
    with pytest.raises(ConfigurationError, match="too short"):
        split_in_time(make_recording([1.0, 2.0], [0, None], [0, 1]))


def _by_days(count, per=48, **more):
    k = np.arange(count * per)
    theta = (k // 6) % 2
    return make_recording(np.zeros(k.size), theta.tolist(), [0, 1], hours=(k % per) * 24.0 / per, **more)


def test_stretches_are_days_where_there_are_enough():
    """Eight days are eight stretches though theta flickers, fewer are as long as theta stays; and the notes say so."""
    many, few = _by_days(8), _by_days(7)
    assert np.array_equal(blocks_of(many, [(0, 8 * 48)]), np.arange(8 * 48) // 48)
    assert days_in(many, [(0, 8 * 48)]) == 8 == DAYS
    assert np.unique(blocks_of(few, [(0, 7 * 48)])).size > 7
    assert days_in(few, [(0, 7 * 48)]) == 7
    assert np.unique(blocks_of(many, [(0, 8 * 48)], least=96)).size == 4  # an epoch of two days
    bare = make_recording(np.zeros(100), [0, 1] * 50, [0, 1])
    assert dates_of(bare) is None
    assert days_in(bare, [(0, 100)]) is None
    assert len({text.block_note(days, DAYS) for days in (None, 7, 8)}) == 3


def test_days_begin_where_the_clock_goes_back():
    """A gap within a day does not end it, the end of summer time neither; a new weekday does."""
    hours = [22.0, 23.0, 0.0, 2.0, 3.0, 2.0, 3.0, 9.0, 12.0, 8.0]
    segments = [0, 0, 0, 0, 0, 0, 0, 1, 1, 2]
    one = make_recording(np.zeros(10), [0, 1] * 5, [0, 1], hours=hours, segments=segments)
    assert dates_of(one).tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 1, 2]
    other = make_recording(np.zeros(3), [0, 1, 0], [0, 1], hours=[8.0, 9.0, 10.0], days=[0, 0, 1])
    assert dates_of(other).tolist() == [0, 0, 1]
    assert whole_days(np.repeat([0, 1, 2], [1, 9, 9])) == 2


def test_neighbours_of_what_is_judged_are_left_out_for_as_long_as_theta_stays():
    """Where stretches are dealt out in turn a quarter at either end is in neither part, or a stay; and it is said."""
    rng = np.random.default_rng(3)
    theta = np.zeros(12_000, dtype=int)
    theta[2000:4500] = (np.arange(2500) // 60) % 2
    recording = _recording([12_000], theta, rng)
    first, last, kind, _ = split_in_time(recording)
    ends = sorted([*first, *last])
    assert min(b[0] - a[1] for a, b in pairwise(ends)) >= max(recording.spell, 3000 / 4)
    assert kind == "alternate blocks"
