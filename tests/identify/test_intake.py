"""`intake`: any frame, any times, gaps, doubles and bins, with a note for everything that was done."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from identify_frames import LIBRARIES, START, intake, simulated

from understudy import text
from understudy.errors import ConfigurationError, ReadingError
from understudy.tables.columns import column_of
from understudy.tables.table import Table
from understudy.tables.times import SECOND, hours, seconds

NAMES = {"reading": "co2", "private": "people", "time": "time"}
MINUTE = datetime.timedelta(minutes=1)


def frame_of(times, co2=None, people=None):
    n = len(times)
    return {
        "time": list(times),
        "co2": np.arange(400.0, 400.0 + n) if co2 is None else co2,
        "people": np.arange(n) // 2 % 2 if people is None else people,
    }


def said(history, words):
    """The one note that has these words."""
    found = [note for note in history.notes if words in note]
    assert len(found) == 1, history.notes
    return found[0]


# Libraries -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_same_history(library):
    """pandas, polars (lazy too), pyarrow and a plain mapping: the same arrays to the bit."""
    frame = simulated(200)
    history = intake(LIBRARIES[library](frame), **NAMES)
    assert history.values == (0, 1)
    assert history.period == 60.0
    (segment,) = history.segments
    assert (segment.Y[:, 0] == frame["co2"]).all()
    assert (segment.theta == frame["people"]).all()
    assert segment.times[0] == int(np.datetime64(START, "ns").astype(np.int64))


@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_entries_are_missing_in_every_library(library):
    """None and NaN are missing readings; None is a missing label."""
    frame = frame_of([START + k * MINUTE for k in range(8)])
    frame["co2"] = [400.0, None, 402.0, float("nan"), 404.0, 405.0, 406.0, 407.0]
    frame["people"] = [0, 1, None, 1, 0, 0, 1, 1]
    history = intake(LIBRARIES[library](frame), **NAMES)
    (segment,) = history.segments
    assert np.flatnonzero(~segment.complete).tolist() == [1, 3]
    assert segment.theta.tolist() == [0, 1, -1, 1, 0, 0, 1, 1]
    said(history, "2 rows without a reading in 'co2'")
    said(history, "1 row without a label")


def test_times_in_the_index_of_a_pandas_frame():
    """By the name of the index, or as "index"."""
    import pandas as pd

    frame = pd.DataFrame(simulated(80)).set_index("time")
    assert intake(frame, **NAMES).period == 60.0
    assert intake(frame.rename_axis(None), reading="co2", private="people", time="index").period == 60.0
    with pytest.raises(ConfigurationError, match="two columns of one name"):
        intake(pd.concat([frame, frame], axis=1), **NAMES)


def test_what_is_no_frame_is_refused():
    """The message says what would be one."""
    with pytest.raises(ConfigurationError, match="of type int; it must be a dataframe"):
        intake(3, **NAMES)


def test_a_column_that_is_not_there_is_named():
    """Those that are there are counted, not named: without a header they would be readings."""
    with pytest.raises(ConfigurationError, match="reading is 'CO2'; no such column is among the 3 of the frame"):
        intake(simulated(50), reading="CO2", private="people", time="time")


# Times ---------------------------------------------------------------------------------------------------

FORMS = {
    "datetimes": lambda t: t,
    "aware": lambda t: t.replace(tzinfo=datetime.UTC),
    "ISO text": str,
    "ISO with T": lambda t: t.isoformat(),
    "text with an offset": lambda t: f"{t:%Y-%m-%d %H:%M} +01:00",
    "text with Z": lambda t: f"{t.isoformat()}Z",
    "slashes": lambda t: f"{t:%Y/%m/%d %H:%M}",
    "seconds": lambda t: t.replace(tzinfo=datetime.UTC).timestamp(),
    "milliseconds": lambda t: int(t.replace(tzinfo=datetime.UTC).timestamp() * 1000),
    "nanoseconds": lambda t: int(t.replace(tzinfo=datetime.UTC).timestamp()) * 10**9,
    "time of day": lambda t: f"{t:%H:%M:%S}",
    "time of day, no seconds": lambda t: f"{t:%H:%M}",
    "clock": lambda t: t.time(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("library", ["pandas", "polars", "mapping"])
def test_times_come_in_any_form(form, library):
    """The spacing and the hour of the day are the same in every form."""
    times = [START + k * MINUTE for k in range(130)]
    frame = frame_of([FORMS[form](t) for t in times])
    history = intake(LIBRARIES[library](frame), **NAMES)
    assert history.period == 60.0
    (segment,) = history.segments
    assert (np.diff(segment.times) == 60 * SECOND).all()
    assert hours(segment.times, history.zone).tolist() == [t.hour for t in times]


@pytest.mark.parametrize("library", ["pandas", "polars", "mapping"])
def test_a_time_in_two_columns_with_the_day_first(library):
    """Named with a comma; without the option the row and the option are named. The columns have no other part."""
    times = [START + k * MINUTE for k in range(130)]
    frame = frame_of([f"{t:%H:%M:%S}" for t in times])
    frame = LIBRARIES[library]({"Date": [f"{t:%d/%m/%Y}" for t in times], **frame})
    names = {"reading": "co2", "private": "people", "time": "Date,time"}
    history = intake(frame, **names, day_first=True)
    assert history.segments[0].times.tolist() == np.array(times, dtype="datetime64[ns]").astype(np.int64).tolist()
    with pytest.raises(ReadingError, match=r"'Date,time', row 0 .* not guessed .day_first=True"):
        intake(frame, **names)
    with pytest.raises(ConfigurationError, match=r"'Date' is named as .* and as"):
        intake(frame, **(names | {"private": "Date"}), day_first=True)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_named_zone_is_kept_for_the_hour(library):
    """Times in Berlin across the change of the clocks: kept in UTC, hours as on the wall."""
    import zoneinfo

    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    first = datetime.datetime(2026, 3, 28, 23, 0, tzinfo=datetime.UTC)
    times = [(first + k * 30 * MINUTE).astimezone(zone) for k in range(8)]
    history = intake(LIBRARIES[library](frame_of(times)), **NAMES)
    (segment,) = history.segments
    assert history.zone == "Europe/Berlin"
    assert (np.diff(segment.times) == 1800 * SECOND).all()
    assert hours(segment.times, history.zone).tolist() == [0, 0, 1, 1, 3, 3, 4, 4]


def test_times_of_day_go_on_past_midnight():
    """A clock that goes back has passed midnight."""
    times = [f"{(START + k * 30 * MINUTE):%H:%M}" for k in range(100)]
    history = intake(frame_of(times), **NAMES)
    assert len(history.segments) == 1
    said(history, "pass midnight 2 times")


def test_shuffled_times_of_day_are_sorted_and_not_taken_for_days():
    """Without any order a clock that goes back says nothing."""
    times = [f"{k // 60:02d}:{k % 60:02d}" for k in range(1440)]
    order = np.random.default_rng(0).permutation(1440)
    history = intake(frame_of([times[k] for k in order], co2=400.0 + order, people=order // 2 % 2), **NAMES)
    (segment,) = history.segments
    assert (segment.Y[:, 0] == 400.0 + np.arange(1440)).all()
    said(history, "not in the order of time")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("yesterday", "'time', row 3 .* is not a time"),
        ("2026-03-02 08:03:00+01:00", "'time', row 3 .* with a zone, and the first is .* without"),
        ("08:03", "'time', row 3 .* time of day, and the first is .* without"),
    ],
)
def test_a_bad_time_is_named_by_its_row(bad, says):
    """Column, row and rule; not what it says."""
    times = [str(START + k * MINUTE) for k in range(6)]
    times[3] = bad
    with pytest.raises(ReadingError, match=says) as caught:
        intake(frame_of(times), **NAMES)
    assert "yesterday" not in str(caught.value)


def test_rows_without_a_time_are_dropped():
    """And counted."""
    times = [START + k * MINUTE for k in range(6)]
    history = intake(frame_of([*times[:2], None, *times[3:]]), **NAMES)
    said(history, "1 row without a time")
    assert history.rows == 6
    assert int(history.counts.sum()) == 5


# Order, doubles, gaps, jitter --------------------------------------------------------------------------------


def test_unsorted_rows_and_doubles():
    """Rows are sorted; of two at one time the first in the frame is kept."""
    frame = frame_of([START + k * MINUTE for k in (2, 0, 1, 1, 3)], co2=[420.0, 400.0, 410.0, 999.0, 430.0])
    history = intake(frame, **NAMES)
    assert history.segments[0].Y.ravel().tolist() == [400.0, 410.0, 420.0, 430.0]
    said(history, "sorted")
    said(history, "1 row with the time of an earlier one dropped")


@given(st.permutations(range(30)))
@settings(max_examples=30, deadline=None)
def test_the_order_of_rows_does_not_matter(order):
    """Any permutation of rows with distinct times gives the same history."""
    frame = simulated(30)
    shuffled = {name: [column[k] for k in order] for name, column in frame.items()}
    one, other = (intake(f, **NAMES).segments[0] for f in (frame, shuffled))
    assert (one.Y == other.Y).all()
    assert (one.theta == other.theta).all()


def test_a_short_gap_is_filled_with_missing_rows_and_a_long_one_cuts():
    """Three minutes without rows are three missing rows; two hours begin a new segment."""
    minutes = [*range(10), *range(13, 60), *range(200, 260)]
    history = intake(frame_of([START + m * MINUTE for m in minutes]), **NAMES)
    first, second = history.segments
    assert (len(first), len(second)) == (60, 60)
    assert np.flatnonzero(~first.complete).tolist() == [10, 11, 12]
    assert (first.theta[10:13] == -1).all()
    assert (first.name, second.name) == ("1.1", "1.2")
    said(history, "1 gap of more than 50 periods")
    said(history, "3 of 120 rows without a reading")


def test_a_long_run_of_missing_readings_cuts_as_a_gap_does():
    """Rows that are there without a reading are no different from rows that are not."""
    co2 = np.arange(400.0, 600.0)
    co2[60:140] = np.nan
    history = intake(frame_of([START + k * MINUTE for k in range(200)], co2=co2), **NAMES)
    assert [len(s) for s in history.segments] == [60, 60]


@given(st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_jitter_moves_no_reading(seed):
    """Stamps that stray by up to 20 percent of a period: the same rows, none lost, none doubled."""
    rng = np.random.default_rng(seed)
    stamps = 60.0 * np.arange(300) + rng.uniform(-12.0, 12.0, 300)
    history = intake(frame_of(1.7e9 + stamps), **NAMES)
    assert history.period == 60.0
    (segment,) = history.segments
    assert (segment.Y[:, 0] == 400.0 + np.arange(300)).all()
    said(history, "time stamps stray")


def test_a_clock_that_is_slow_keeps_its_own_period():
    """59.5 s over a day would drift by ten rows on a period of 60 s; it is kept as it is."""
    stamps = 59.5 * np.arange(1400)
    history = intake(frame_of(1.7e9 + stamps), **NAMES)
    assert history.period == pytest.approx(59.5)
    assert [len(s) for s in history.segments] == [1400]


# Segments --------------------------------------------------------------------------------------------------


def test_a_column_separates_segments_even_when_rows_alternate():
    """Two rooms in one file, row by row; each is a segment in its own order of time."""
    times = [START + (k // 2) * MINUTE for k in range(40)]
    frame = frame_of(times) | {"room": ["a", "b"] * 20}
    history = intake(frame, segment="room", **NAMES)
    assert [(s.name, len(s)) for s in history.segments] == [("a", 20), ("b", 20)]
    assert (history.segments[1].Y[:, 0] == np.arange(401.0, 441.0, 2.0)).all()


def test_several_columns_separate_segments():
    """Their entries are joined; rows that lack one are dropped."""
    times = [START + (k % 10) * MINUTE for k in range(40)]
    frame = frame_of(times) | {"room": ["a"] * 20 + ["b"] * 20, "day": [1] * 10 + [2] * 10 + [1] * 10 + [None] * 10}
    history = intake(frame, segment=["room", "day"], **NAMES)
    assert [s.name for s in history.segments] == ["a/1", "a/2", "b/1"]
    said(history, "10 rows without an entry in room, day dropped")


def test_without_times_rows_are_one_period_apart():
    """The order of the frame counts; a stated period is kept."""
    frame = simulated(60)
    history = intake(frame, reading="co2", private="people", period="30s")
    assert history.period == 30.0
    assert history.segments[0].times is None
    assert intake(frame, reading="co2", private="people").period is None


# Resampling ------------------------------------------------------------------------------------------------


def test_resampling_takes_the_mean_and_the_label_of_most_rows():
    """An oracle in plain Python: means by quarter of an hour, the label that most rows have, the later of equals."""
    frame = simulated(400, seed=3)
    history = intake(frame, period="15min", **NAMES)
    (segment,) = history.segments
    bins: dict[int, list[int]] = {}
    for k, t in enumerate(frame["time"]):
        bins.setdefault(int(np.datetime64(t, "s").astype(int)) // 900, []).append(k)
    full = [rows for rows in bins.values() if len(rows) >= 8]
    assert len(segment) == len(full)
    for row, members in enumerate(full):
        assert segment.Y[row, 0] == pytest.approx(np.mean(frame["co2"][members]), rel=1e-12)
        votes = [int((frame["people"][members] == v).sum()) for v in (0, 1)]
        expected = frame["people"][members[-1]] if votes[0] == votes[1] else int(np.argmax(votes))
        assert segment.theta[row] == expected
    said(history, "resampled to 15 min: the mean of the readings")


def test_the_last_reading_can_stand_for_the_mean():
    """For sensors that hold: no reading that the sensor never gave."""
    frame = simulated(120, step=5.0)
    history = intake(frame, period="10min", last=True, **NAMES)
    assert (history.segments[0].Y[:, 0] == frame["co2"][9::10]).all()


def test_a_period_with_few_readings_is_missing():
    """Fewer than half of the usual number do not count."""
    co2 = np.arange(400.0, 520.0)
    co2[42:50] = np.nan
    history = intake(frame_of([START + k * MINUTE for k in range(120)], co2=co2), period="10min", **NAMES)
    assert history.resampled
    assert np.flatnonzero(~history.segments[0].complete).tolist() == [4]
    said(history, "1 period with less than half")


@pytest.mark.parametrize("period", [0, -60, "soon", "10 parsecs", True, None.__class__, float("nan")])
def test_a_bad_period_is_refused(period):
    """It is a number of seconds or a text."""
    with pytest.raises(ConfigurationError, match="it must be a number of seconds"):
        intake(simulated(50), period=period, **NAMES)


def test_a_period_that_makes_too_many_rows_is_refused():
    """A microsecond over a year is a slip of units, not a wish."""
    times = [START + k * 30 * 24 * 60 * MINUTE for k in range(12)]
    with pytest.raises(ConfigurationError, match="state a longer one"):
        intake(frame_of(times), period=1e-3, **NAMES)


@given(st.floats(0.5, 1e6))
@settings(deadline=None)
def test_periods_in_words_can_be_read_back(period):
    """To the digits that are shown."""
    assert seconds(text.span(period)) == pytest.approx(period, rel=6e-3)


# Labels and bins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([False, True], (False, True)),
        ([0, 1], (0, 1)),
        ([0.0, 1.0], (0, 1)),
        (["1", "0"], (0, 1)),
        (["away", "home"], ("away", "home")),
        ([0.5, 1.5], (0.5, 1.5)),
    ],
)
def test_labels_of_any_kind_become_plain_values(given, values):
    """Whole numbers are int however they were written."""
    history = intake(frame_of([START + k * MINUTE for k in range(120)], people=given * 60), **NAMES)
    assert history.values == values
    assert [type(v) for v in history.values] == [type(v) for v in values]


def test_categories_are_labels():
    """Categories of numbers are numbers, of names names."""
    import pandas as pd

    for names, values in (([2, 0, 1], (0, 1, 2)), (["b", "a", "c"], ("a", "b", "c"))):
        frame = pd.DataFrame(frame_of([START + k * MINUTE for k in range(180)], people=names * 60))
        frame["people"] = frame["people"].astype("category")
        assert intake(frame, **NAMES).values == values


@pytest.mark.parametrize("bins", ["0,1-2,3+", [0, 1, 3], np.array([0, 1, 3])])
def test_bins_put_counts_together(bins):
    """The same from text and from edges."""
    people = np.arange(300) % 6
    history = intake(frame_of([START + k * MINUTE for k in range(300)], people=people), bins=bins, **NAMES)
    assert history.values == ("0", "1-2", "3+")
    assert history.segments[0].theta.tolist() == [[0, 1, 1, 2, 2, 2][p] for p in people]
    assert history.bins.to_plain() == {"names": ["0", "1-2", "3+"], "low": [0.0, 1.0, 3.0], "high": [0.0, 2.0, None]}


def test_named_groups_are_bins():
    """Any labels under any names."""
    people = ["lunch", "work", "home"] * 60
    history = intake(
        frame_of([START + k * MINUTE for k in range(180)], people=people),
        bins={"out": ["home"], "in": ["lunch", "work"]},
        **NAMES,
    )
    assert history.values == ("out", "in")
    assert history.segments[0].theta[:3].tolist() == [1, 1, 0]


def test_many_counts_are_put_together_and_it_is_said():
    """Zero alone, the rest in three bins of about as many rows."""
    people = np.where(np.arange(3000) % 2 == 0, 0, np.arange(3000) // 2 % 40)
    history = intake(frame_of([START + k * MINUTE for k in range(3000)], people=people), **NAMES)
    assert len(history.values) == 4
    assert history.values[0] == "0"
    assert history.counts[1:].max() < 1.3 * history.counts[1:].min()
    note = said(history, "takes 40 values; they were put together")
    again = intake(
        frame_of([START + k * MINUTE for k in range(3000)], people=people),
        bins=note.split("bins='")[1].split("'")[0],
        **NAMES,
    )
    assert again.values == history.values


@pytest.mark.parametrize(
    ("bins", "says"),
    [
        ("0;1", "text of bins is such as"),
        ("0-3,2+", "do not overlap"),
        ("5-2,7", "at least two"),
        ([3, 1], "increasing order"),
        ([0], "at least two finite numbers"),
        (7, "it must be edges"),
        ({"a": [0, 1], "b": [1]}, "a label twice"),
    ],
)
def test_bad_bins_are_refused(bins, says):
    """Each rule is named."""
    with pytest.raises(ConfigurationError, match=says):
        intake(simulated(50), bins=bins, **NAMES)


def test_a_label_in_no_bin_is_named_by_its_row_and_not_by_its_value():
    """What the label is stays unsaid."""
    people = np.zeros(60, dtype=int)
    people[7::2] = 1
    people[41] = 77
    with pytest.raises(ReadingError, match=r"'people', row 41 .* none of the bins") as caught:
        intake(frame_of([START + k * MINUTE for k in range(60)], people=people), bins="0,1-5", **NAMES)
    assert "77" not in str(caught.value)


def test_one_value_is_nothing_to_hide():
    """A private parameter needs two."""
    with pytest.raises(ConfigurationError, match="one value only"):
        intake(frame_of([START + k * MINUTE for k in range(60)], people=np.ones(60)), **NAMES)


def test_a_rare_value_gets_a_note():
    """Fewer than fifty rows say little."""
    people = np.zeros(300, dtype=int)
    people[100:110] = 1
    history = intake(frame_of([START + k * MINUTE for k in range(300)], people=people), **NAMES)
    said(history, "the value 1 of 'people' has 10 rows only")


# Readings and inputs -----------------------------------------------------------------------------------------


def test_a_reading_that_is_no_number_is_named_by_its_row():
    """Column, row and rule, and no value."""
    frame = frame_of([START + k * MINUTE for k in range(6)], co2=["400", "401", "secret", "403", "", "405"])
    with pytest.raises(ReadingError, match=r"'co2', row 2 \(counted from 0\) is not a number") as caught:
        intake(frame, **NAMES)
    assert "secret" not in str(caught.value)


def test_an_infinite_reading_is_refused_by_its_row():
    """It is neither a number to fit nor missing."""
    co2 = np.arange(400.0, 406.0)
    co2[4] = np.inf
    with pytest.raises(ReadingError, match=r"'co2', row 4 .* is infinite"):
        intake(frame_of([START + k * MINUTE for k in range(6)], co2=co2), **NAMES)


def test_some_channels_missing_is_all_missing():
    """A vector counts whole or not at all, and it is said."""
    frame = simulated(60) | {"t": np.where(np.arange(60) % 20 == 3, np.nan, 20.0 + np.arange(60) / 60)}
    history = intake(frame, reading=["co2", "t"], private="people", time="time")
    assert np.isnan(history.segments[0].Y[3]).all()
    said(history, "3 rows with some channels missing")


def test_an_actuator_is_refused_with_the_reason_unless_it_is_a_reading():
    """It would carry the private parameter around the filter."""
    frame = simulated(60) | {"damper": np.linspace(0.0, 1.0, 60)}
    with pytest.raises(ConfigurationError, match="carries the private parameter into the output"):
        intake(frame, actuators="damper", **NAMES)
    with pytest.raises(ConfigurationError, match="carries the private parameter"):
        intake(frame, actuators="damper", public="damper", **NAMES)
    history = intake(frame, reading=["co2", "damper"], private="people", time="time", actuators="damper")
    said(history, "as a reading it is disguised")
    said(intake(frame, public="damper", **NAMES), "looks like an actuator")


def test_a_column_has_one_role():
    """A private column that is public too would be a slip with consequences."""
    with pytest.raises(ConfigurationError, match="'people' is named as private and as public"):
        intake(simulated(60), public="people", **NAMES)


def test_public_inputs_keep_their_last_value():
    """A gap in the weather is bridged by what was known then, not by what came after."""
    weather = np.arange(60.0)
    weather[[0, 10, 11]] = np.nan
    history = intake(simulated(60) | {"outside": weather}, public="outside", **NAMES)
    (segment,) = history.segments
    assert segment.public[10:13, 0].tolist() == [9.0, 9.0, 12.0]
    assert np.isnan(segment.Y[0, 0])
    said(history, "3 rows of segment '1' without a public input")


def test_nothing_of_the_data_is_in_the_text_of_tables_and_columns():
    """A repr in a log gives no reading away."""
    for shown in (column_of("co2", [123.456]), Table({"co2": [123.456]}), Table({"co2": [123.456]}).entries("co2")):
        assert "123" not in repr(shown)
    with pytest.raises(ConfigurationError, match="differ in length"):
        Table({"a": [1], "b": [1, 2]})


def test_mixed_entries_are_refused_by_row():
    """A text among numbers is a number or is refused."""
    with pytest.raises(ReadingError, match=r"'co2', row 1 .* is not a number"):
        intake(frame_of([START, START + MINUTE, START + 2 * MINUTE], co2=[400.0, "x", 401.0]), **NAMES)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_empty_frame_is_refused(library):
    """There is nothing to learn from."""
    with pytest.raises(ReadingError, match="no rows"):
        intake(LIBRARIES[library]({"time": [], "co2": [], "people": []}), **NAMES)


@pytest.mark.parametrize("form", ["{:d}", "{:.1f}", "-{:d}"])
def test_numbers_written_as_text_are_numbers(form):
    """A CSV file has texts only: 1422886740 is a time in seconds, not a year."""
    seconds = 1_422_886_740 + 60 * np.arange(50)
    texts = [form.format(int(s) if "d" in form else float(s)) for s in seconds]
    frame = {"t": texts, "y": np.arange(50.0), "people": np.arange(50) % 2}
    found = intake(frame, reading="y", private="people", time="t")
    assert found.period == 60.0
    assert found.rows == 50


def test_dates_without_marks_are_dates():
    """20150204 is a day."""
    frame = {"t": [f"201502{d:02d}" for d in range(1, 25)], "y": np.arange(24.0), "people": np.arange(24) % 2}
    assert intake(frame, reading="y", private="people", time="t").period == 86_400.0


def _stamps(shape):
    """Seconds of readings that are nominally 30 s apart."""
    rng = np.random.default_rng(5)
    k = np.arange(4000)
    if shape == "drops":  # the median step is 31.4 s
        return (30.0 * k + rng.normal(0.0, 3.0, k.size))[rng.random(k.size) < 0.8]
    if shape == "most drop":  # it is 60 s
        return (30.0 * k + rng.normal(0.0, 0.5, k.size))[rng.random(k.size) < 0.45]
    if shape == "restarts":
        return 30.0 * k + np.cumsum((rng.random(k.size) < 0.01) * rng.uniform(0.0, 300.0, k.size))
    return np.floor(30.6363 * k)  # drift


@pytest.mark.parametrize("shape", ["drops", "most drop", "restarts"])
def test_rows_that_are_missing_do_not_change_the_period(shape):
    """Steps near whole multiples of 30 s are those of 30 s, and no note doubts it."""
    stamps = np.sort(_stamps(shape))
    history = intake(frame_of((1_700_000_000 + stamps).tolist()), **NAMES)
    assert history.period == 30.0
    said(history, "the period is 30 s, the spacing of the rows")
    assert not any("round" in note for note in history.notes)
    assert history.counts.sum() >= 0.95 * stamps.size


def test_a_clock_that_drifts_keeps_its_period_and_is_told():
    """Steps of 30 and 31 s are multiples of nothing round: 30 s would lose count. The note has the figures."""
    history = intake(frame_of((1_700_000_000 + _stamps("drift")).tolist()), **NAMES)
    assert abs(history.period - 30.6363) * 4000 < 0.05 * 30.0  # of a row, over all rows
    assert len(str(history.period)) <= 8
    assert history.counts.sum() == 4000
    (note,) = (note for note in history.notes if "not a round one" in note)
    for figure in ("30.636", "30 to 31 s", "30 s would leave one place empty in every 48"):
        assert figure in note


def test_the_period_is_decided_by_times_alone():
    """Other readings and other labels under the same times have the same period and the same places."""
    stamps = (1_700_000_000 + np.sort(_stamps("drops"))).tolist()
    frame = frame_of(stamps)
    other = frame | {"people": frame["people"][::-1], "co2": [1.0] * len(stamps)}
    one, two = (intake(each, **NAMES) for each in (frame, other))
    assert one.period == two.period
    assert all((a.times == b.times).all() for a, b in zip(one.segments, two.segments, strict=True))
