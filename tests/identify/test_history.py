"""`History` and `Segment`: values that check themselves, and cuts by stretches of time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import ConfigurationError
from understudy.identify.history import History, Segment


def history(lengths, theta=None, values=(0, 1), missing=()):
    """Readings that number the rows, so that a cut can be told by them."""
    segments, start = [], 0
    for k, T in enumerate(lengths):
        y = np.arange(start, start + T, dtype=float)[:, None]
        labels = (np.arange(start, start + T) // 10) % len(values) if theta is None else theta[start : start + T]
        segments.append(Segment(str(k), np.arange(T) * 60, np.where(np.isin(y, missing), np.nan, y), labels))
        start += T
    return History(("y",), "theta", "t", (), values, 60.0, tuple(segments), ())


def rows(part):
    return np.concatenate([s.Y.ravel() for s in part.segments])


def test_text_shows_counts_and_no_reading():
    """Neither a reading nor a label can be read in the text of a history."""
    h = history([12345 % 50, 30], missing=[3.0])
    assert repr(h) == "History(y -> theta of 2 values, 2 segments, 75 rows of 60 s, 74 used)"
    assert repr(h.segments[0]) == "Segment('0', 45 rows, 1 channel, 1 missing, 0 unlabelled)"


def test_arrays_are_read_only():
    """What a fitter is given cannot be changed by it."""
    h = history([30])
    for array in (h.segments[0].Y, h.segments[0].theta, h.segments[0].times):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"values": (0,)}, "label that is not among the 1 values"),
        ({"readings": ("y", "z")}, "1 channels and 2 readings"),
        ({"public": ("u",)}, "not the 1 public inputs"),
        ({"segments": ()}, "segments is empty"),
    ],
)
def test_a_history_that_does_not_hold_together_is_refused(change, says):
    """Each rule is named."""
    with pytest.raises(ConfigurationError, match=says):
        replace(history([30]), **change)


def test_rows_of_different_length_are_refused():
    """Labels must be as many as readings."""
    with pytest.raises(ConfigurationError, match="theta has 2 rows and Y has 3"):
        Segment("1", None, np.zeros((3, 1)), np.zeros(2, dtype=int))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(2, 6))
@settings(max_examples=60, deadline=None)
def test_blocks_hold_every_row_out_once(lengths, k):
    """The held-out parts are a partition of the rows, and each rest is its complement."""
    h = history(lengths)
    if h.rows < k:
        with pytest.raises(ConfigurationError, match="too few"):
            h.blocks(k)
        return
    pairs = h.blocks(k)
    held = np.concatenate([rows(part) for _, part in pairs])
    assert len(pairs) == k
    assert sorted(held) == list(range(h.rows))
    for rest, part in pairs:
        assert sorted([*rows(rest), *rows(part)]) == list(range(h.rows))


def test_blocks_are_whole_segments_where_there_are_many():
    """Ten days and five blocks: two days each, in a row."""
    pairs = history([20] * 10).blocks(5)
    assert [[s.name for s in held.segments] for _, held in pairs] == [[str(2 * k), str(2 * k + 1)] for k in range(5)]


def test_blocks_of_one_segment_are_stretches():
    """One segment is cut; the rest of a middle block is in two pieces, which are not joined."""
    rest, held = history([100]).blocks(4)[1]
    assert rows(held).tolist() == list(range(25, 50))
    assert [len(s) for s in rest.segments] == [25, 25, 25]


def test_a_value_that_is_there_in_one_stretch_only_stays_in_every_rest():
    """Time is cut finer, so that no fit lacks a value."""
    theta = np.zeros(400, dtype=int)
    theta[100:180] = 1
    h = history([400], theta)
    assert all((rest.counts > 0).all() for rest, _ in h.blocks(4))
    plain = [replace(h, segments=(h.segments[0].cut(0, 100), h.segments[0].cut(200, 400)))]
    assert (plain[0].counts == 0).any()  # the simple cut would have lacked it


def test_split_holds_out_the_end():
    """The last quarter, to the row for one segment, by whole segments for many."""
    first, last = history([100]).split(0.25)
    assert rows(first).tolist() == list(range(75))
    assert rows(last).tolist() == list(range(75, 100))
    first, last = history([20] * 12).split(0.25)
    assert (len(first.segments), len(last.segments)) == (9, 3)


def test_split_keeps_every_value_in_the_first_part():
    """A value that is seen at the end only: pieces from all over the time are held out instead."""
    theta = np.zeros(800, dtype=int)
    theta[650:] = 1
    first, last = history([800], theta).split(0.25)
    assert (first.counts > 0).all()
    assert (last.counts > 0).all()
    assert first.rows + last.rows == 800


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 2.0])
def test_a_share_outside_of_0_and_1_is_refused(share):
    """A split needs two parts."""
    with pytest.raises(ConfigurationError, match="between 0 and 1"):
        history([50]).split(share)


def test_one_row_cannot_be_split():
    """There is nothing to hold out."""
    with pytest.raises(ConfigurationError, match="nothing can be held out"):
        history([1]).split(0.5)


def test_used_rows_have_reading_and_label():
    """A row without either does not count."""
    h = history([4], np.array([0, -1, 1, 1]), missing=[2.0])
    assert h.segments[0].used.tolist() == [True, False, False, True]
    assert h.counts.tolist() == [1, 1]
