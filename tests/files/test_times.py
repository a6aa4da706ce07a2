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
