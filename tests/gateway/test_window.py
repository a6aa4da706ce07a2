"""The window of a room: what waits, for how long, and what is missing then."""

import numpy as np
import pytest

from understudy.gateway.config import Schedule
from understudy.gateway.window import Missing, PrivateValues, Ready, Timetable, Window
from understudy.stream.cadence import Cadence

MINUTE = 60 * 10**9


def window(channels=1, lateness=5.0, valid=600, told=True):
    made = Window(Cadence.checked(60, origin=0), channels, lateness, 10 * 10**9, PrivateValues(valid * 10**9))
    if told:
        made.values.tell(0, 1)
    return made


def slots(found):
    return [each.key // MINUTE if isinstance(each, Ready) else each.rule for each in found]


def test_readings_in_order_do_not_wait():
    """Each goes at once, with its private value and its receipt."""
    made = window()
    for k in range(1, 5):
        assert made.add(0, k * MINUTE, 400.0 + k, k, float(k)) is None
        assert made.ready(float(k)) == [Ready(k * MINUTE, (400.0 + k,), 1, [k])]
    assert made.deadline == float("inf")


def test_a_reading_waits_for_older_ones_and_no_longer_than_the_lateness():
    """Then the slots before it are missing for good."""
    made = window()
    made.add(0, MINUTE, 1.0, None, 0.0)
    assert slots(made.ready(0.0)) == [1]
    made.add(0, 4 * MINUTE, 4.0, None, 1.0)
    made.add(0, 3 * MINUTE, 3.0, None, 4.0)
    assert slots(made.ready(5.9)) == []
    assert made.deadline == 6.0
    assert slots(made.ready(6.0)) == [3, 4]  # the older one does not make the newer one wait longer
    assert made.add(0, 2 * MINUTE, 2.0, None, 6.0) == "late"


@pytest.mark.parametrize("seed", range(5))
def test_any_order_within_the_lateness_gives_the_order_of_time(seed):
    """Twins join the receipts of the first; nothing is lost, nothing is twice."""
    rng = np.random.default_rng(seed)
    made = window(lateness=50.0, valid=86_400)
    made.last = 0
    sent = [k for k in range(1, 30) for _ in range(2)]
    found = []
    for at, k in enumerate(rng.permutation(sent).tolist()):
        assert made.add(0, k * MINUTE, float(k), (k, at), at / 10) in (None, "late")
        found += made.ready(at / 10)
    assert slots(found) == list(range(1, 30))


def test_a_reading_without_a_private_value_of_its_time_is_missing():
    """It waits for one, takes it if it comes, and is never scored under the one of before."""
    made = window(valid=60)
    made.add(0, MINUTE // 3, 1.0, "first", 0.0)
    made.add(0, 2 * MINUTE, 2.0, "second", 0.0)
    assert slots(made.ready(1.0)) == [0]  # the value of 0:00 holds there
    made.values.tell(2 * MINUTE, 0)
    assert slots(made.ready(1.0)) == []  # waits for slot 1
    found = made.ready(5.0)
    assert (slots(found), found[0].theta) == ([2], 0)
    made.add(0, 3 * MINUTE, 3.0, "third", 10.0)
    assert made.ready(14.9) == []
    assert made.ready(15.0) == [Missing("untold", ["third"])]
    made.values.tell(3 * MINUTE, 1)
    assert made.add(0, 3 * MINUTE, 3.0, "third again", 15.5) == "late"


def test_none_ends_a_private_value():
    """What a sensor says that the design does not have counts as none, from its time on."""
    values = PrivateValues(600 * 10**9)
    assert [values.tell(10, 1), values.tell(20, None), values.tell(30, 0), values.tell(30, 1)] == [
        True,
        True,
        True,
        False,
    ]
    assert [values.at(time) for time in (9, 10, 25, 30)] == [(False, None), (True, 1), (False, None), (True, 0)]
    assert values.at(30 + 600 * 10**9) == (False, None)
    values.forget(25)
    assert [values.at(time)[0] for time in (15, 35)] == [False, True]


def test_channels_of_a_room_wait_for_one_another():
    """Their slot has the time of the slot; one that stays incomplete is missing."""
    made = window(channels=2)
    made.add(0, MINUTE + 1, 1.0, "a", 0.0)
    assert made.ready(1.0) == []
    made.add(1, MINUTE + 7, 2.0, "b", 1.0)
    assert made.ready(1.0) == [Ready(MINUTE, (1.0, 2.0), 1, ["a", "b"])]
    made.add(1, 2 * MINUTE, 2.0, "c", 2.0)
    assert made.ready(7.0) == [Missing("incomplete", ["c"])]


def test_the_first_reading_of_a_slot_wins():
    """Another time in the same slot is a duplicate; a time beside all slots is refused."""
    made = window()
    made.last = 0
    made.add(0, 2 * MINUTE, 1.0, "a", 0.0)
    assert made.add(0, 2 * MINUTE + 5, 2.0, "b", 0.0) == "duplicate"
    assert made.add(0, 2 * MINUTE, 3.0, "c", 0.0) is None
    strict = Window(Cadence.checked(60, 1, origin=0), 1, 5.0, 0, PrivateValues(10))
    assert strict.add(0, 2 * MINUTE + 2 * 10**9, 2.0, "b", 0.0) == "off_cadence"
    assert made.ready(5.0) == [Ready(2 * MINUTE, (1.0,), 1, ["a", "c"])]


def test_times_of_the_future_are_held_until_then():
    """A few of them; others, and those of tomorrow, are refused."""
    made = window()
    assert all(made.hold(0, (k + 1) * MINUTE, 1.0, k, 0) for k in range(8))
    assert not made.hold(0, 20 * MINUTE, 1.0, "ninth", 0)
    assert made.holds
    assert [held[3] for held in made.release(2 * MINUTE - 10 * 10**9)] == [0, 1]
    assert not made.hold(0, 2 * 86_400 * 10**9, 1.0, "tomorrow", 0)


def test_a_timetable_follows_the_clock_of_its_zone():
    """Over midnight and over the change to summer time too."""
    night = {"days": "fri", "from": "22:00", "to": "06:00", "value": 2}
    week = [night, {"days": "mon-fri", "from": "08:00", "to": "17:00", "value": 1}]
    table = Timetable(Schedule.model_validate({"zone": "Europe/Stockholm", "otherwise": 0, "week": week}))

    def at(text):
        return table.at(int(np.datetime64(text, "ns").astype(np.int64)))[1]

    assert [at(f"2026-03-02T{hour}") for hour in ("06:59", "07:00", "15:59", "16:00")] == [0, 1, 1, 0]  # a Monday
    assert [at(f"2026-03-30T{hour}") for hour in ("05:59", "06:00", "15:00")] == [0, 1, 0]  # in summer
    assert [at(f"2026-03-{day}") for day in ("06T20:59", "06T21:00", "07T04:59", "07T05:00")] == [0, 2, 2, 0]
