"""Public inputs: an offset that is found among slow noise and private levels, taken off and added back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from identify_frames import START, intake, room, simulated

import understudy as us
from understudy import text
from understudy.errors import ConfigurationError, StoredFileError
from understudy.identify.public_inputs import Offset, clock_values, fit_offset, without_offset
from understudy.tables.times import SECOND

NAMES = {"reading": "co2", "private": "people", "time": "time"}


def weather(n, seed=9):
    """As slow as the readings."""
    rng = np.random.default_rng(seed)
    return 10.0 + np.cumsum(0.3 * rng.standard_normal(n))


def moved(n=3000, seed=4, slope=3.0, bad=0):
    frame = simulated(n, seed)
    outside = weather(n)
    co2 = frame["co2"] + slope * outside
    if bad:
        co2[np.random.default_rng(1).choice(n, bad, replace=False)] += 800.0
    return frame | {"outside": outside, "co2": co2}


def test_the_slope_is_found():
    """Within five of its own standard errors of the truth, which are small; with 4 bad samples too."""
    for bad in (0, 4):
        notes = text.Notes()
        offset = fit_offset(intake(moved(bad=bad), public="outside", **NAMES), notes)
        assert offset.coefficients[0, 0] == pytest.approx(3.0, abs=0.5)
        assert "clearly" in notes[0]


def test_an_input_that_does_nothing_is_called_so():
    """Weather of another place."""
    frame = moved(slope=0.0)
    notes = text.Notes()
    offset = fit_offset(intake(frame, public="outside", **NAMES), notes)
    assert abs(offset.coefficients[0, 0]) < 0.5
    assert "not discernibly" in notes[0] or "perhaps" in notes[0]


def test_levels_alone_would_be_fooled():
    """The twin: least squares of levels, without lag and private levels, misses by more than the fit does."""
    history = intake(moved(), public="outside", **NAMES)
    (s,) = history.segments
    naive = np.polyfit(s.public[:, 0], s.Y[:, 0], 1)[0]
    fitted = fit_offset(history, text.Notes()).coefficients[0, 0]
    assert abs(fitted - 3.0) < abs(naive - 3.0)


def test_taken_off_and_added_back():
    """The offset has mean zero over the history, and what is left has no public input."""
    history = intake(moved(), public="outside", **NAMES)
    offset = fit_offset(history, text.Notes())
    left = without_offset(history, offset)
    assert left.public == ()
    assert left.segments[0].public is None
    np.testing.assert_allclose(
        left.segments[0].Y + offset(history.segments[0].public), history.segments[0].Y, atol=1e-9
    )
    assert abs(float(offset(history.segments[0].public).mean())) < 1e-9


def test_a_grid_stays_a_grid():
    """Rounded to the step, the offset leaves readings on their grid."""
    frame = moved()
    frame["co2"] = 5.0 * np.rint(frame["co2"] / 5.0)
    history = intake(frame, public="outside", **NAMES)
    offset = fit_offset(history, text.Notes())
    on = Offset(offset.columns, offset.coefficients, offset.intercept, (5.0,))
    left = without_offset(history, on).segments[0].Y / 5.0
    assert np.abs(left - np.rint(left)).max() < 1e-9
    plain = without_offset(history, offset).segments[0].Y / 5.0
    assert np.abs(plain - np.rint(plain)).max() > 0.1  # the twin


def test_the_clock_is_an_input():
    """The time of day moves the readings; the offset is found from the times alone, in the zone of the wall."""
    n = 5 * 1440
    frame = simulated(n, 6)
    minutes = np.array([(t - START).total_seconds() / 60.0 for t in frame["time"]]) + START.hour * 60.0
    swing = 40.0 * np.sin(2.0 * np.pi * minutes / 1440.0)
    history = intake(frame | {"co2": frame["co2"] + swing}, public="clock", **NAMES)
    assert history.public == ("clock:sin1", "clock:cos1", "clock:sin2", "clock:cos2")
    offset = fit_offset(history, text.Notes())
    found = offset.of({}, history.segments[0].times, history.zone)
    assert np.corrcoef(found[:, 0], swing)[0, 1] > 0.97
    assert offset.needs_clock
    with pytest.raises(ConfigurationError, match="no time column"):
        intake(frame, reading="co2", private="people", public="clock")


def test_clock_of_a_zone():
    """Noon in a zone one hour ahead is eleven in UTC."""
    eleven, noon = (np.array([h * 3600 * SECOND]) for h in (11, 12))
    np.testing.assert_allclose(clock_values(eleven, "+01:00"), clock_values(noon, None), atol=1e-12)


def test_it_comes_back_from_json():
    """To the bit; what does not hold together is refused."""
    offset = Offset(("a", "b"), np.array([[0.1, 0.2]]), np.array([3.0]), (0.5,))
    again = Offset.from_plain(json.loads(json.dumps(offset.to_plain())))
    U = np.random.default_rng(0).normal(size=(20, 2))
    assert (again(U) == offset(U)).all()
    with pytest.raises(StoredFileError):
        Offset.from_plain({"columns": ["a"], "coefficients": [[1.0, 2.0]], "intercept": [0.0], "steps": None})


def test_missing_inputs_are_named():
    """The offset of readings to come needs its inputs."""
    with pytest.raises(ConfigurationError, match="'outside'"):
        Offset(("outside",), np.ones((1, 1)), np.zeros(1)).of({"inside": np.ones(3)})


def test_a_constant_input_is_refused():
    """It says nothing."""
    with pytest.raises(ConfigurationError, match="'outside' is constant"):
        fit_offset(intake(simulated(200) | {"outside": np.ones(200)}, public="outside", **NAMES), text.Notes())


def test_room_is_what_the_tests_think():
    """The simulated room has two levels, so that the tests above are not about noise alone."""
    assert isinstance(room(1), us.GaussMarkov)
    assert room(1).b[0] > room(0).b[0]
