"""A history on a cluster: one stream a room says what comes out, bit for bit, and what it costs."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
import spark_cases as cases

import understudy as us
from understudy.errors import ConfigurationError, LedgerError, UnderstudyError


@pytest.fixture(scope="module")
def frame():
    return cases.history()


@pytest.mark.parametrize(
    ("buckets", "partitions", "batch"), [(4, None, 10_000), (1, 1, 7), (16, 3, 64)], ids=["usual", "one", "many"]
)
def test_bit_for_bit_one_stream_a_room(spark, place, frame, buckets, partitions, batch):
    """Buckets, partitions and Arrow batches, over which rooms straddle, change no bit and no charge."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", batch)
    try:
        out = place.disguise(cases.to_spark(spark, frame), buckets=buckets, partitions=partitions)
        found = cases.collected(out)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    theirs, spent = cases.expected(frame, place.key)
    assert cases.same_bits(found, theirs)
    assert place.spent() == pytest.approx(spent, abs=1e-9)
    assert place.last().counts == {"taken": len(frame)}


def test_another_key_gives_other_bits(spark, place, frame):
    """The twin: the comparison notices a stream under another key."""
    found = cases.collected(place.disguise(cases.to_spark(spark, frame)))
    theirs, _ = cases.expected(frame, us.MasterKey(bytes(32)))
    assert not cases.same_bits(found, theirs)


def test_epochs_by_the_clock(spark, place):
    """Each room draws once a day of its readings, however the rows are cut."""
    frame = cases.history(days=5)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 11)
    try:
        found = cases.collected(place.disguise(cases.to_spark(spark, frame), epoch=cases.DAY))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    theirs, spent = cases.expected(frame, place.key, epoch=cases.DAY)
    assert cases.same_bits(found, theirs)
    assert place.spent() == pytest.approx(spent, abs=1e-9)
    assert place.last().draws > 3 * frame["room"].nunique()


def test_the_same_rows_again_cost_nothing(spark, place, frame):
    """A second run gives the same bytes, draws nothing and adds no mark."""
    given = cases.to_spark(spark, frame)
    first = cases.collected(place.disguise(given))
    before = place.spent()
    again = cases.collected(place.disguise(given.repartition(3)))
    assert cases.same_bits(first, again)
    assert place.spent() == before
    assert (place.last().draws, place.last().rooms, place.last().nats) == (0, 0, 0.0)


def test_a_result_may_be_used_twice(spark, place, frame):
    """Outputs are computed when they are used; each time they are the same."""
    out = place.disguise(cases.to_spark(spark, frame))
    assert cases.same_bits(cases.collected(out), cases.collected(out))


def test_the_next_rows_go_on_where_the_rooms_stood(spark, place):
    """New rows, the whole table as it has grown, and the middle again: bits and charges of one run."""
    frame = cases.history(days=6)
    theirs, spent = cases.expected(frame, place.key, epoch=cases.DAY)
    cuts = cases.START + np.array([2, 4]) * np.timedelta64(1, "D")
    times = frame["time"].to_numpy()
    one, two = frame[times < cuts[0]], frame[(times >= cuts[0]) & (times < cuts[1])]
    parts = [cases.collected(place.disguise(cases.to_spark(spark, part), epoch=cases.DAY)) for part in (one, two)]
    joined = pd.concat(parts).sort_values(["room", "time"], ignore_index=True)
    early = theirs[theirs["time"].to_numpy() < cuts[1]].reset_index(drop=True)
    assert cases.same_bits(joined, early)
    whole = cases.collected(place.disguise(cases.to_spark(spark, frame), epoch=cases.DAY))
    assert cases.same_bits(whole, theirs)
    assert place.spent() == pytest.approx(spent, abs=1e-9)
    middle = cases.collected(place.disguise(cases.to_spark(spark, two), epoch=cases.DAY))
    assert cases.same_bits(middle, parts[1])
    assert place.spent() == pytest.approx(spent, abs=1e-9)


def test_other_rows_under_known_times_are_refused(spark, place, frame):
    """One reading changed in seven rooms, one private value, one row more or less: exactly these rooms are refused."""
    given = cases.to_spark(spark, frame)
    first = cases.collected(place.disguise(given))
    before = place.spent()
    changed, rooms = frame.copy(), [f"room {i}" for i in (0, 2, 3, 7, 11, 13, 19)]
    for name in rooms:
        row = changed.index[(changed["room"] == name) & changed["co2"].notna()][5]
        if name == "room 2":
            changed.loc[row, "people"] = 1 - changed.loc[row, "people"]
        elif name == "room 3":
            changed = changed.drop(row)
        else:
            changed.loc[row, "co2"] = np.nextafter(changed.loc[row, "co2"], 0.0)
    again = cases.collected(place.disguise(cases.to_spark(spark, changed)))
    assert again.loc[again["room"].isin(rooms), "co2"].isna().all()
    kept, same = again[~again["room"].isin(rooms)], first[~first["room"].isin(rooms)]
    assert cases.same_bits(kept.reset_index(drop=True), same.reset_index(drop=True))
    assert place.last().refused == 7
    assert place.spent() == before


def test_rows_that_come_late_get_no_output(spark, place, frame):
    """A row before a committed one, at a time that no run had, has no output and changes nothing."""
    times = frame["time"].to_numpy()
    early, late = frame[times < cases.START + np.timedelta64(30, "m")], None
    late = frame[(times >= cases.START + np.timedelta64(30, "m"))]
    place.disguise(cases.to_spark(spark, late))
    found = cases.collected(place.disguise(cases.to_spark(spark, early)))
    known = set(late["room"])
    assert found.loc[found["room"].isin(known), "co2"].isna().all()
    assert place.last().counts["late"] == int(early["room"].isin(known).sum())


def test_two_channels_and_columns_that_stay(spark, place):
    """Channels are disguised together; columns of keep= leave as they are, others do not leave."""

    def both(level):
        return us.GaussMarkov(A=np.diag([0.9, 0.7]), C=np.eye(2), Q=np.eye(2), R=np.eye(2), b=[level, level],
                              mean0=[0.0, 0.0], cov0=np.eye(2))  # fmt: skip

    made = us.design(us.Family(both, values=[0, 1]), leakage=0.3, horizon=20, distortion="mae")
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({
        "k": np.tile(np.arange(30), 6), "who": np.repeat([f"r{i}" for i in range(6)], 30),
        "a": rng.normal(size=180), "b": rng.normal(size=180), "flag": np.arange(180) % 3 == 0,
        "secret": np.repeat([0, 1, 1, 0, 1, 0], 30), "floor": 3,
    })  # fmt: skip
    out = place.disguise(
        spark.createDataFrame(frame), made, room="who", time="k", reading=["a", "b"], private="secret", period=None,
        keep=["flag"],
    )  # fmt: skip
    assert out.columns == ["k", "who", "a", "b", "flag"]
    assert all(out.schema[name].metadata["understudy"]["disguised"] for name in "ab")
    found = out.toPandas().sort_values(["who", "k"], ignore_index=True)
    fleet = us.Fleet(made, Recorder(), "x", key=place.key, namespace="spark", rooms=sorted(set(frame["who"])))
    theirs = fleet.apply(
        frame["who"].tolist(), frame["k"].to_numpy(), frame[["a", "b"]].to_numpy(), frame["secret"].tolist()
    )
    assert found[["a", "b"]].to_numpy().tobytes() == theirs.tobytes()
    assert found["flag"].tolist() == frame["flag"].tolist()


class Recorder:
    def decide(self, proposed):
        return proposed


# Budgets ----------------------------------------------------------------------------------------------


def test_three_draws_in_five_epochs(spark, place):
    """A budget of three draws allows three, by room, in the first three days; a second run allows no more."""
    frame = cases.history(rooms=8, rows=200, days=5, missing=0.0)
    given = cases.to_spark(spark, frame)
    out = cases.collected(place.disguise(given, epoch=cases.DAY, limit=3 * price(2)))
    day = (out["time"].to_numpy() - cases.START) // np.timedelta64(1, "D")
    assert place.last().draws == 8 * 3
    assert out["co2"].notna().tolist() == (day < 3).tolist()
    again = cases.collected(place.disguise(given, epoch=cases.DAY, limit=3 * price(2)))
    assert cases.same_bits(out, again)
    assert place.last().draws == 0


def price(number):
    """What the draw of this number costs: the second one is at the worst prior."""
    stream = cases.stream_of(us.MasterKey(bytes(32)), "r", epoch=cases.DAY)
    spent = []
    for i in range(number):
        stream.step(100.0, cases.START + i * np.timedelta64(1, "D"), theta=0)
        spent.append(stream.spent)
    return spent[-1] - (spent[-2] if number > 1 else 0.0)


@pytest.mark.parametrize("when_spent", ["stop", "hold"])
def test_a_group_shares_its_budget(spark, place, when_spent):
    """Draws of a group are allowed by day, then by room, in one run or in two."""
    frame = cases.history(rooms=9, rows=200, days=5, missing=0.0)
    frame["wing"] = "wing " + (frame["room"].str[-1].astype(int) % 3).astype(str)
    limits = {"wing 0": 3.2 * price(2), "wing 1": 100.0}  # wing 2 may draw nothing
    given = {"epoch": cases.DAY, "group": "wing", "limit": limits, "when_spent": when_spent}
    out = cases.collected(place.disguise(cases.to_spark(spark, frame), **given))
    day = (out["time"].to_numpy() - cases.START) // np.timedelta64(1, "D")
    wing = out["room"].map(dict(zip(frame["room"], frame["wing"], strict=True)))
    has = (
        out.assign(day=day, wing=wing, there=out["co2"].notna())
        .groupby(["wing", "day", "room"])["there"]
        .agg(["all", "any"])
    )
    assert (has["all"] == has["any"]).all()
    spent = place.spent()
    assert spent["wing 0"] <= limits["wing 0"]
    assert "wing 2" not in spent
    drawn = has.loc["wing 0"]
    first = drawn.loc[0]["any"].tolist()  # 0, 3, 6 at the price of a first draw, then one more
    assert first == [True, True, True]
    late = drawn.loc[2:]["any"]
    assert late.all() if when_spent == "hold" else not late.any()
    assert has.loc["wing 1"]["any"].all()
    cut = cases.START + np.timedelta64(2, "D")
    other = type(place)(place.folder / "two") if (place.folder / "two").mkdir() is None else None
    other.key_path = place.key_path
    parts = [frame[frame["time"] < cut], frame[frame["time"] >= cut]]
    halves = [cases.collected(other.disguise(cases.to_spark(spark, part), **given)) for part in parts]
    joined = pd.concat(halves).sort_values(["room", "time"], ignore_index=True)
    assert cases.same_bits(joined, out)
    assert other.spent() == spent


def test_a_group_has_its_budget_in_each_period(spark, place):
    """A budget of one day's draws in each two days of event time: the first day that a period has gets outputs."""
    frame = cases.history(rooms=2, rows=300, days=6, missing=0.0)
    frame["wing"] = "west"
    out = cases.collected(place.disguise(
        cases.to_spark(spark, frame), epoch=cases.DAY, group="wing", limit=2 * price(2), per=dt.timedelta(days=2),
    ))  # fmt: skip
    day = (out["time"].to_numpy() - np.datetime64(0, "D")) // np.timedelta64(1, "D")
    assert out["co2"].notna().tolist() == ((day % 2 == 0) | (day == day.min())).tolist()
    assert day.min() % 2 == 1


def test_a_room_in_two_groups_is_refused(spark, place):
    """At once, or in a later run."""
    frame = cases.history(rooms=4)
    frame["wing"] = "east"
    given = {"group": "wing", "limit": 5.0}
    both = frame.copy()
    both.loc[both.index[-1], "wing"] = "west"
    with pytest.raises(ConfigurationError, match="1 rooms"):
        place.disguise(cases.to_spark(spark, both), **given)
    place.disguise(cases.to_spark(spark, frame), **given)
    moved = frame.assign(wing=["west" if name == "room 1" else "east" for name in frame["room"]])
    with pytest.raises(ConfigurationError, match="1 rooms"):
        place.disguise(cases.to_spark(spark, moved), **given)


# Bad input ------------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_used_are_counted(spark, place):
    """Each rule counts its rows; the other rows come out as if the bad ones were not there."""
    frame = cases.history(rooms=6, missing=0.0)
    good, _ = cases.expected(frame, place.key)
    clean = frame["room"].isin(["room 0", "room 1"])
    rows = [frame]
    extra = frame[frame["room"] == "room 2"].iloc[[4]]
    rows.append(extra)  # equal twice
    other = frame[frame["room"] == "room 2"].iloc[[7]].copy()
    other["co2"] += 1.0
    rows.append(other)  # another reading at one time
    other = frame[frame["room"] == "room 3"].iloc[[7]].copy()
    other["people"] = 1 - other["people"]
    other["time"] += np.timedelta64(5, "s")
    rows.append(other)  # the private value changes within a slot
    bad = frame[frame["room"] == "room 4"].iloc[[3, 4, 5]].copy()
    bad["time"] += np.timedelta64(400, "D")
    bad["co2"] = [np.inf, 100.0, 101.0]
    bad["people"] = [0, 7, 1]
    rows.append(bad)
    bad = frame.iloc[[0, 1, 2, 3]].copy()
    bad["room"] = [None, "", "new\n", "new"]
    rows.append(bad)
    given = pd.concat(rows, ignore_index=True)
    given["people"] = given["people"].astype("Int64")
    given.loc[given["room"] == "new", "people"] = pd.NA
    found = cases.collected(place.disguise(cases.to_spark(spark, given)))
    counts = place.last().counts
    assert {name: counts[name] for name in counts if name != "taken"} == {
        "duplicate": 1, "conflict": 4, "infinite": 1, "unknown_value": 1, "room_missing": 1, "room_name": 2,
        "untold": 1,
    }  # fmt: skip
    assert counts["taken"] + 11 == len(given)
    ours, theirs = found[found["room"].isin(["room 0", "room 1"])], good[good["room"].isin(["room 0", "room 1"])]
    assert cases.same_bits(ours.reset_index(drop=True), theirs.reset_index(drop=True))
    assert clean.sum() == len(ours)
    assert "new" not in place.spent()


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        ({"time": "cast(time as timestamp_ntz)"}, {}, "'time' has times without a zone"),
        ({"time": "cast(time as string)"}, {}, "'time' is of type string"),
        ({"co2": "cast(co2 as decimal(10,3))"}, {}, "'co2' is of type decimal"),
        ({"co2": "cast(co2 as string)"}, {}, "'co2' is of type string"),
        ({"people": "array(people)"}, {}, "'people' is of type array"),
        ({"room": "length(room)"}, {}, "'room' is of type int"),
        ({}, {"keep": ["people"]}, "may leave as it is"),
        ({}, {"keep": ["co2"]}, "may leave as it is"),
        ({}, {"reading": "ppm"}, "no column 'ppm'"),
        ({}, {"reading": "people"}, "different columns"),
        ({}, {"period": None}, "no cadence"),
        ({}, {"epoch": 5}, "other kind"),
        ({}, {"limit": {"a": 1.0}}, "group= names no column"),
        ({}, {"limit": -1.0}, "limit = -1.0"),
        ({}, {"buckets": 0}, "buckets = 0"),
        ({}, {"key": "env:MASTER"}, "its configuration"),
        ({}, {"marks": "s3a://bucket/marks"}, "is a URI"),
    ],
)
def test_an_input_that_breaks_a_rule_is_refused(spark, place, change, options, match):
    """Each rule by name, in the driver, before anything is recorded."""
    frame = cases.to_spark(spark, cases.history(rooms=2, rows=10))
    for name, how in change.items():
        frame = frame.selectExpr(*[f"{how} as {name}" if c == name else c for c in frame.columns])
    with pytest.raises(ConfigurationError, match=match):
        place.disguise(frame, **options)
    assert us.spark.runs(place.marks) == []


def test_models_that_are_not_portable_are_refused(spark, place):
    """Executors may differ, and so would special functions."""

    def hidden(level):
        return us.HiddenMarkov(
            [[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], [us.Gaussian(level, 1.0), us.Gaussian(level + 3.0, 2.0)]
        )

    made = us.design(us.Family(hidden, values=[0, 1]), leakage=0.2, horizon=10, distortion="mae")
    with pytest.raises(ConfigurationError, match="not portable"):
        place.disguise(cases.to_spark(spark, cases.history(rooms=2, rows=10)), made)


def test_a_key_itself_is_refused(spark, place):
    """A key would be copied into plans."""
    frame = cases.to_spark(spark, cases.history(rooms=2, rows=10))
    for given in (place.key, "understudy-key-1 " + "00" * 32):
        with pytest.raises(ConfigurationError) as caught:
            place.disguise(frame, key=given)
        assert "00" * 16 not in str(caught.value)


def test_a_key_that_others_may_read_is_refused(spark, place):
    """By the executors, in the words of the driver, and without a trace of the engine."""
    import os

    os.chmod(place.key_path, 0o644)
    with pytest.raises(ConfigurationError, match="can be read by others") as caught:
        place.disguise(cases.to_spark(spark, cases.history(rooms=2, rows=10)))
    assert "at org.apache" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_executors_with_different_keys_are_refused(spark, place):
    """Before anything is recorded."""
    other = us.MasterKey(bytes(31) + b"1")
    other.save(place.folder / "other.key")
    script = place.folder / "some-key"
    script.write_text(f"#!/bin/sh\ncat {place.folder}/$( [ $(($$ % 2)) = 0 ] && echo master.key || echo other.key )\n")
    script.write_text(  # every second call has the other key
        f"#!/bin/sh\nif mkdir {place.folder}/turn 2>/dev/null; then cat {place.key_path}; "
        f"else rmdir {place.folder}/turn; cat {place.folder}/other.key; fi\n"
    )
    script.chmod(0o700)
    with pytest.raises(LedgerError, match="different master keys"):
        place.disguise(cases.to_spark(spark, cases.history()), key=f"command:{script}")
    assert us.spark.runs(place.marks) == []


def test_marks_are_for_good(spark, place, tmp_path):
    """Another design, key, number of buckets or other options are refused."""
    given = cases.to_spark(spark, cases.history(rooms=3, rows=20))
    place.disguise(given)
    with pytest.raises(ConfigurationError, match="buckets = 8"):
        place.disguise(given, buckets=8)
    with pytest.raises(ConfigurationError, match="other epochs"):
        place.disguise(given, epoch=cases.DAY)
    made = us.design(us.Family(cases.room, values=[0, 1]), leakage=0.2, horizon=50, distortion="mae")
    with pytest.raises(LedgerError, match="another design"):
        place.disguise(given, made)
    (tmp_path / "b").mkdir()
    _, path = cases.new_key(tmp_path / "b")
    with pytest.raises(UnderstudyError, match="another master key"):
        place.disguise(given, key=path)
    assert len(us.spark.runs(place.marks)) == 1


def test_older_marks_are_refused_by_a_guard(spark, place, tmp_path):
    """A copy of the marks from before a run is noticed."""
    import shutil

    guard = str(tmp_path / "guard")
    one, two = cases.history(rooms=3, rows=20), cases.history(rooms=3, rows=20, seed=2)
    two["time"] += np.timedelta64(10, "D")
    place.disguise(cases.to_spark(spark, one), rollback_guard=guard)
    shutil.copytree(place.marks, tmp_path / "copy", ignore=shutil.ignore_patterns("inputs"))
    place.disguise(cases.to_spark(spark, two), rollback_guard=guard)
    (tmp_path / "copy" / "inputs").mkdir()
    with pytest.raises(us.errors.RollbackError, match="older"):
        place.disguise(cases.to_spark(spark, two), rollback_guard=guard, marks=str(tmp_path / "copy"))


def test_damage_is_noticed(spark, place):
    """A byte changed in a part or in a manifest: nothing is disguised from it."""
    given = cases.to_spark(spark, cases.history(rooms=3, rows=20))
    place.disguise(given)
    run = place.last()
    names = next(iter(run.parts.values()))
    part = place.folder / "marks" / "parts" / run.token / names["draws"][0]
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    with pytest.raises(LedgerError, match="damaged"):
        cases.collected(place.disguise(given))
