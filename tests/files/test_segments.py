"""A segment begins with a draw of its own, which is seen: it must not begin where the private value changes."""

from itertools import pairwise

import numpy as np
import pytest

from understudy.apply.apply_file import apply_file
from understudy.errors import ConfigurationError

COUNT = 240


def applied(lab, tools, folder, segment, labels=None, times=True, restart=False):
    """A file with this segment column, disguised."""
    clock, Y, known = lab.rows(COUNT)
    labels = known if labels is None else labels
    clock = clock[: COUNT // 8] * 8 if restart else clock
    source = tools.write_csv(
        folder / "in.csv", ["time", "co2", "people", "visit"], clock, map(repr, Y.tolist()), labels, segment
    )
    names = {**tools.NAMES, "time": "time" if times else None}
    return apply_file(lab.design, source, folder / "out.csv", segment="visit", **names)


def visits(labels, into=None):
    """The number of changes of the label so far, or of those into one value."""
    changes = [a != b and into in (None, b) for a, b in pairwise(labels)]
    return [str(k) for k in np.concatenate([[0], np.cumsum(changes)])]


def test_the_private_column_is_no_segment(lab, tools, tmp_path):
    """Refused by its name, before a file is opened, alone and among others."""
    for segment in ("people", ["day", "people"]):
        with pytest.raises(ConfigurationError, match="segment = 'people'; that is the private column"):
            apply_file(lab.design, tmp_path / "none.csv", tmp_path / "out.csv", segment=segment, **tools.NAMES)


@pytest.mark.parametrize("times", [True, False])
@pytest.mark.parametrize("into", [None, "full", "empty"])
def test_a_segment_that_counts_changes_of_the_label_is_refused(lab, tools, tmp_path, into, times):
    """Every change, every arrival or every departure; before anything is written, and without a word of when."""
    labels = list(np.tile(np.repeat(["empty", "full"], 15), COUNT // 30))
    with pytest.raises(ConfigurationError, match="must not depend on the private column") as caught:
        applied(lab, tools, tmp_path, visits(labels, into), labels, times)
    assert not any(character.isdigit() for character in str(caught.value))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv"]


def test_segments_by_the_clock_are_not_concerned(lab, tools, tmp_path):
    """Days of 30 rows, with labels that now and then change at midnight."""
    days = [str(k // 30) for k in range(COUNT)]
    labels = list(np.tile(np.repeat(["empty", "full"], 10), COUNT // 20))
    assert applied(lab, tools, tmp_path, days, labels).segments == 8


def test_rooms_one_after_the_other_may_have_one_value_each(lab, tools, tmp_path):
    """Where the clock begins anew, the ends of segments are no news, whatever the labels do there."""
    rooms = [str(k // 30) for k in range(COUNT)]
    labels = list(np.tile(np.repeat(["empty", "full"], 30), COUNT // 60))
    assert applied(lab, tools, tmp_path, rooms, labels, restart=True).segments == 8
    with pytest.raises(ConfigurationError, match="must not depend on the private column"):
        applied(lab, tools, tmp_path, rooms, labels)


def test_two_beginnings_may_be_chance(lab, tools, tmp_path):
    """Three parts, each with a value of its own."""
    labels = ["empty"] * 80 + ["full"] * 80 + ["empty"] * 80
    assert applied(lab, tools, tmp_path, visits(labels), labels).segments == 3
