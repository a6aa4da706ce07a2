"""Times are read exactly, in every form that they come in."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.tables import columns as arrow
from understudy.tables import times
from understudy.tables.columns import ArrowColumn, Values

MOMENTS = st.datetimes(dt.datetime(1680, 1, 1), dt.datetime(2261, 1, 1))
ZONES = st.sampled_from(
    [None, dt.UTC, dt.timezone(dt.timedelta(hours=8)), dt.timezone(-dt.timedelta(hours=3, minutes=30))]
)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def nanoseconds(moment):
    """By Python's own arithmetic."""
    since = (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


@given(
    st.lists(MOMENTS, min_size=1, max_size=8),
    ZONES,
    st.sampled_from("T "),
    st.sampled_from(["seconds", "microseconds"]),
)
def test_iso_texts_are_what_python_takes_them_for(moments, zone, between, spec):
    """All at once, one by one and through pyarrow, the times are those of datetime."""
    moments = [
        moment.replace(tzinfo=zone, microsecond=moment.microsecond if spec != "seconds" else 0) for moment in moments
    ]
    texts = [moment.isoformat(between, spec) for moment in moments]
    wanted = [nanoseconds(moment) for moment in moments]
    found = Values(texts).times()
    assert (found.ns.tolist(), found.unknown) == (wanted, {})
    column = ArrowColumn(arrow.require_pyarrow("this test").array(texts))
    assert column.cut(0, len(texts)).times().ns.tolist() == wanted
    assert column.cut(len(texts) - 1, len(texts)).times().ns.tolist() == wanted[-1:]
    assert Values(texts).times().ns.tolist() == wanted


@pytest.mark.parametrize(
    "text", ["2026-02-29", "2026-13-01", "2026-01-01T24:00:00", "2026-01-01T10:61", "26-01-01", "now", "9" * 25]
)
def test_what_is_no_time_is_refused(text):
    """The 29th of February of an ordinary year, month 13 and words are no times, however they are read."""
    for column in (Values([text, text]), ArrowColumn(arrow.require_pyarrow("this test").array([text] * 2))):
        assert column.times().faults == dict.fromkeys([0, 1], times.NOT_A_TIME)


def test_nine_digits_and_leap_days():
    """Nanoseconds are kept, and leap years are those of the Gregorian calendar."""
    assert times.of_entries(["1970-01-01T00:00:00.123456789"]).ns.tolist() == [123_456_789]
    days = ["2000-02-29", "2024-02-29", "1900-02-28", "1900-03-01"]
    wanted = np.array(days, dtype="datetime64[ns]").astype(np.int64).tolist()
    assert times.of_entries(days).ns.tolist() == wanted
    assert times.of_entries(["1900-02-29"]).faults


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_numbers_since_1970_tell_their_unit(unit, factor):
    """Seconds, thousandths and so on are told by their size: as numbers, as texts and as typed columns."""
    seconds = [1_700_000_000, 1_700_000_060]
    wanted = [s * 10**9 for s in seconds]
    given_numbers = [s * factor for s in seconds]
    pa = arrow.require_pyarrow("this test")
    assert times.of_array(np.array(given_numbers)).ns.tolist() == wanted
    assert Values([str(n) for n in given_numbers]).times().ns.tolist() == wanted
    assert Values(given_numbers).times().ns.tolist() == wanted
    assert ArrowColumn(pa.array(given_numbers)).times().ns.tolist() == wanted
    assert ArrowColumn(pa.array(given_numbers, pa.timestamp(unit))).times().ns.tolist() == wanted
    assert ArrowColumn(pa.array(given_numbers, pa.timestamp(unit, "UTC"))).times().ns.tolist() == wanted


def test_fractions_of_seconds():
    """Seconds with decimals are kept to the microsecond."""
    assert Values(["1700000000.25"]).times().ns.tolist() == [1_700_000_000_250_000_000]
    assert times.of_array(np.array([1_700_000_000.25])).ns.tolist() == [1_700_000_000_250_000_000]


def test_times_of_day_and_dates():
    """A time of day is counted from midnight, a date is its midnight; a column of nulls has no times."""
    assert Values(["00:05:00", "9:30"]).times().ns.tolist() == [300 * 10**9, 34_200 * 10**9]
    pa = arrow.require_pyarrow("this test")
    assert ArrowColumn(pa.array([dt.date(1970, 1, 2)])).times().ns.tolist() == [86_400 * 10**9]
    found = ArrowColumn(pa.array([dt.datetime(1970, 1, 1), None])).times()
    assert found.unknown == {1: times.NO_TIME}
    assert ArrowColumn(pa.array([True])).times().unknown == {0: times.NOT_A_TIME}


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2017/12/22 10:00", "2017-12-22T10:00"), ("2017/12/22 10:00:31", "2017-12-22T10:00:31"),
        ("2017/1/5 9:05", "2017-01-05T09:05"), ("2017/12/22", "2017-12-22"), ("2017.12.22 10:00", "2017-12-22T10:00"),
        ("2017/12/22 10:00:00.25+01:00", "2017-12-22T09:00:00.25"),
    ],
)  # fmt: skip
def test_the_year_first_needs_no_option(text, iso):
    """Slashes and points, with or without seconds: the same time one by one and through pyarrow."""
    wanted = [int(np.datetime64(iso, "ns").astype(np.int64))] * 2
    for column in (Values([text] * 2), ArrowColumn(arrow.require_pyarrow("this test").array([text] * 2))):
        for day_first in (False, True):
            found = column.times(day_first)
            assert (found.ns.tolist(), found.unknown) == (wanted, {})


@pytest.mark.parametrize("text", ["05/12/2017 10:00", "5.12.2017 10:00:00", "05-12-2017 10:00", "5/12/2017 10:00"])
def test_the_day_first_is_never_guessed(text):
    """By the option it is the 5th of December; otherwise a fault that names the option, a clear 22nd included."""
    wanted = int(np.datetime64("2017-12-05T10:00", "ns").astype(np.int64))
    for column in (Values([text]), ArrowColumn(arrow.require_pyarrow("this test").array([text]))):
        assert column.times(day_first=True).ns.tolist() == [wanted]
        assert column.times().faults == {0: times.DAY_FIRST}
    assert "day_first=True" in Values(["22/12/2017 10:00"]).times().faults[0]
    assert Values(["12/22/2017 10:00", "31/02/2017"]).times(day_first=True).faults == dict.fromkeys(
        [0, 1], times.NOT_A_TIME
    )


@given(MOMENTS, st.sampled_from(["%Y/%m/%d", "%d/%m/%Y", "%d.%m.%Y"]), st.sampled_from(["%H:%M:%S", "%H:%M:%S.%f"]))
def test_a_time_is_written_in_its_own_form(moment, date, clock):
    """What is written for another moment is what Python writes for it in that form."""
    form = f"{date} {clock}"
    other = moment.replace(microsecond=0) + dt.timedelta(seconds=1)
    text = dt.datetime(2017, 12, 22, 10, 49, 41).strftime(form)
    expected = f"{other:{form}}".replace("%Y", f"{other.year:04}")
    assert times.write_like(text, nanoseconds(other)) == expected


def test_two_columns_are_one_time():
    """Joined by a blank, whatever their types; a cell that is missing makes the time missing. One whole name wins."""
    pa = arrow.require_pyarrow("this test")
    wanted = nanoseconds(dt.datetime(2017, 12, 22, 10, 49, 41))
    day, clock = dt.date(2017, 12, 22), dt.time(10, 49, 41)
    pairs = [
        (Values(["2017/12/22", "2017/12/22"]), Values(["10:49:41", None])),
        (Values([20171222, 20171222]), Values(["104941", None])),
        (ArrowColumn(pa.array([day, day])), ArrowColumn(pa.array([clock, None]))),
        (ArrowColumn(pa.array([dt.datetime(2017, 12, 22)] * 2)), ArrowColumn(pa.array(["10:49:41", None]))),
        (Values(np.array(["2017-12-22"] * 2, dtype="datetime64[ns]")), Values([clock, None])),
    ]
    for date, time in pairs:
        found = arrow.read_times({"Date": date, "Time": time}, "Date, Time")
        assert (found.ns[0], found.unknown) == (wanted, {1: times.NO_TIME})
    whole = {"Date,Time": Values(["1970-01-01 00:00:01"]), "Date": Values(["x"]), "Time": Values(["x"])}
    assert arrow.read_times(whole, "Date,Time").ns.tolist() == [10**9]


def test_two_columns_are_written_apart():
    """A time that is moved past midnight moves the date too, and types stay."""
    pa = arrow.require_pyarrow("this test")
    midnight = {1: nanoseconds(dt.datetime(2017, 12, 23))}
    texts = {"Date": Values(["22/12/2017"] * 2), "Time": Values(["23:59:29", "23:59:58"])}
    found = arrow.write_times(texts, "Date,Time", midnight)
    assert [found[name].values() for name in texts] == [["22/12/2017", "23/12/2017"], ["23:59:29", "00:00:00"]]
    digits = arrow.write_times({"D": Values([20171222] * 2), "T": Values(["235929", "235958"])}, "D,T", midnight)
    assert (digits["D"].values(), digits["T"].values()) == ([20171222, 20171223], ["235929", "000000"])
    typed = {
        "Date": ArrowColumn(pa.array([dt.date(2017, 12, 22)] * 2)),
        "Time": ArrowColumn(pa.array([dt.time(23, 59, 29), dt.time(23, 59, 58)])),
    }
    found = arrow.write_times(typed, "Date,Time", midnight)
    assert found["Date"].array.to_pylist() == [dt.date(2017, 12, 22), dt.date(2017, 12, 23)]
    assert found["Time"].array.to_pylist() == [dt.time(23, 59, 29), dt.time(0)]
    assert [found[name].array.type for name in typed] == [typed[name].array.type for name in typed]
    assert arrow.erase_times(texts, "Date,Time", [0])["Time"].values() == [None, "23:59:58"]
