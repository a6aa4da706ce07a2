"""Readings with times: slots by the clock, gaps that are missing readings, and slots that are filled."""

import datetime as dt

import numpy as np
import pytest
import stream_worker as worker
from helpers import ALPHA, count_calls, white_pvalue
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from stream_helpers import FULL, opened, played, released_as

import understudy as us
from understudy.apply.apply_file import apply_file
from understudy.errors import ConfigurationError, MissingReadingError, ReadingError
from understudy.stream import inspection
from understudy.stream.cadence import Cadence

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)


def at(*minutes):
    """Times so many minutes after noon."""
    return [NOON + minute * MINUTE for minute in minutes]


def full(design, stream, Y):
    """What the exact map makes of readings, NaN where they are missing, on the lattice."""
    target = worker.room(design.pseudo[played(stream)])
    return us.disguise(Y, worker.room(1), target, resolution=design.resolution)


# Slots ---------------------------------------------------------------------------------------------------------------


@given(
    steps=st.lists(st.integers(1, 5), min_size=1, max_size=40),
    jitter=st.lists(st.integers(-29, 29), min_size=40, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_a_stream_with_gaps_is_one_with_missing_readings(design, readings, steps, jitter, cuts):
    """Empty slots are missing for both predictors, whatever the jitter and however readings are cut into calls."""
    slots = np.cumsum(steps) - steps[0]
    times = [NOON + slot * MINUTE + dt.timedelta(seconds=j) for slot, j in zip(slots.tolist(), jitter, strict=False)]
    times[0] = NOON
    stream = design.stream(1, period=60, rng=1)
    wide = np.full(slots[-1] + 1, np.nan)
    wide[slots] = readings[: len(slots)]
    out = []
    for part in np.split(np.arange(len(slots)), sorted(min(cut, len(slots)) for cut in cuts)):
        if len(part) == 1:
            out.append(stream.step(float(readings[part[0]]), key=times[part[0]]))
        elif len(part):
            out.extend(stream.apply(readings[part], keys=[times[i] for i in part]))
    expected = full(design, stream, wide)[slots]
    assert released_as(out, expected, design.resolution, 1e-9) or np.array_equal(out, expected)
    assert stream.count == len(wide)


@pytest.mark.parametrize("seed", [0, 1])  # the two draw different pseudo values
def test_the_twin_without_a_cadence_fails_the_law_test(design, seed):
    """After hours, the next reading is not the next one: scores of a stream that takes it so are not white (1e-6).

    With a cadence they are. The outputs are scored under the target with the empty slots missing, and without.
    """
    rng = np.random.default_rng(2)
    slots = np.flatnonzero(rng.random(20_000) < 0.15)
    slots[0] = 0  # the first slot has the initial law, and a stream's clock begins with its first reading
    Y = us.sample(worker.room(1), 20_000, rng=3)
    stream = design.stream(1, period=60, rng=seed)
    target = worker.room(design.pseudo[played(stream)])
    out = np.full(20_000, np.nan)
    times = np.datetime64("2026-03-01T00:00") + slots * np.timedelta64(60, "s")
    out[slots] = stream.apply(Y[slots], keys=times)
    z = us.whiten(out, target)
    assert white_pvalue(z[~np.isnan(z)]) > ALPHA
    twin = design.stream(1, rng=seed)  # keys are numbers: consecutive, whatever lies between
    target = worker.room(design.pseudo[played(twin)])
    z = us.whiten(twin.apply(Y[slots], keys=slots), target)
    assert white_pvalue(z) < ALPHA


def test_a_stream_with_gaps_equals_apply_on_the_same_rows(design, readings, tmp_path):
    """A file with the same rows, through `apply_file`, becomes the same numbers."""
    slots = [0, 1, 2, 5, 6, 40, 41, 300]
    Y = readings[: len(slots)]
    rows = [f"{(NOON + k * MINUTE).isoformat()},{y!r},1" for k, y in zip(slots, Y.tolist(), strict=True)]
    (tmp_path / "in.csv").write_text("time,co2,people\n" + "\n".join(rows) + "\n")
    columns = {"reading": "co2", "private": "people", "time": "time", "period": "1 min"}
    apply_file(design, tmp_path / "in.csv", tmp_path / "out.csv", rng=7, decimals=15, **columns)
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    found = [float(line.split(",")[1]) for line in lines]
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "stream", rng=np.random.default_rng(7), period=60)
        assert np.array_equal(stream.apply(Y, keys=at(*slots)), found)
        assert stream.count == 301


def test_the_first_reading_of_a_slot_wins(design, readings):
    """Later ones get no output, and change nothing that follows."""
    stream, other = (design.stream(1, period=60, rng=4) for _ in range(2))
    first = stream.step(float(readings[0]), key=NOON)
    assert np.isnan(stream.step(1e3, key=NOON + dt.timedelta(seconds=10)))
    batch = stream.apply(
        [1.0 + FULL, readings[1], 2.0 + FULL, readings[2]],
        keys=[NOON + dt.timedelta(seconds=s) for s in (20, 58, 63, 120)],
    )
    assert np.isnan(batch).tolist() == [True, False, True, False]
    expected = other.apply(readings[:3], keys=at(0, 1, 2))
    assert np.array_equal([first, batch[1], batch[3]], expected)
    assert stream.count == other.count == 3


def test_a_reading_that_comes_again_gets_its_output_again(design, readings, tmp_path):
    """By its own time; another time of the same slot gets nothing, one of an empty slot in the past is refused."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a", period=60)
        times = [NOON, NOON + dt.timedelta(seconds=55), NOON + 5 * MINUTE]
        out = stream.apply(readings[:3], keys=times)
        assert [stream.step(1e9, key=key) for key in times] == out.tolist()
        assert np.isnan(stream.step(FULL, key=NOON + dt.timedelta(seconds=65)))
        assert np.isnan(stream.step(FULL, key=NOON + 5 * MINUTE - dt.timedelta(seconds=20)))
        with pytest.raises(ReadingError, match="out of order"):
            stream.step(FULL, key=NOON + 3 * MINUTE)
        assert stream.count == 6
        exported = list(inspection.released_outputs(ledger.path, "a"))
    noon = int(NOON.timestamp()) * 10**9
    assert [record["time_ns"] - noon for record in exported] == [0, 60 * 10**9, 300 * 10**9]


def test_a_time_beside_its_slot_is_refused_by_a_public_tolerance(design):
    """By its time alone: position and rule are named, nothing else; half a period is the default."""
    stream = design.stream(1, period=60, tolerance=5)
    stream.step(FULL, key=NOON)
    with pytest.raises(ReadingError, match="reading 0 is more than 5 s from its slot"):
        stream.step(FULL, key=NOON + dt.timedelta(seconds=66))
    with pytest.raises(ReadingError, match="reading 1 is more than 5 s from its slot"):
        stream.apply([FULL, FULL], keys=[NOON + MINUTE, NOON + 2 * MINUTE - dt.timedelta(seconds=6)])
    assert stream.count == 1
    stream.step(FULL, key=NOON + dt.timedelta(seconds=65))
    assert stream.count == 2
    for bad in (31, -1, "soon"):
        with pytest.raises(ConfigurationError, match="tolerance"):
            design.stream(1, period=60, tolerance=bad)
    for bad in (0, -60, "1 min", True):
        with pytest.raises(ConfigurationError, match="period"):
            design.stream(1, period=bad)


def test_times_without_a_period_are_refused(design, readings):
    """Before anything is released; numbers and readings without keys need none; a family may know its period."""
    stream = design.stream(1)
    with pytest.raises(ReadingError, match="no cadence"):
        stream.step(FULL, key=NOON)
    assert stream.count == 0
    stream.step(FULL, key=7)
    family = us.Family(worker.room, values=[0, 1], about={"period": 60.0})
    known = us.design(family, leakage=0.3, horizon=50, distortion="mae").stream(1)
    known.apply(readings[:2], keys=at(0, 3))
    assert known.count == 4


def test_a_long_gap_costs_a_bounded_number_of_calls(design, readings):
    """Years of empty slots are one leap, as exact as single steps: the stream goes on as from its stationary law."""
    stream, slow = (design.stream(1, period=60, rng=5) for _ in range(2))
    costs = []
    for one, years in ((stream, 5_000_000), (slow, 4000)):
        one.step(float(readings[0]), key=NOON)
        keys = at(*range(years, years + 19))
        costs.append(count_calls(lambda one=one, keys=keys: one.apply(readings[1:20], keys=keys)))
    assert costs[0] < 4 * costs[1] < 100_000
    assert stream.count == 5_000_019
    # after 4000 slots the start is forgotten to the last digit
    a, b = stream._now.position.state, slow._now.position.state
    assert np.allclose(a[1:], b[1:], rtol=1e-9)


def test_a_leap_is_many_steps(readings):
    """Doubling strides come to where single steps come, for several states and channels."""
    rng = np.random.default_rng(1)
    from helpers import random_system

    from understudy.transform.kalman_pair import Pair

    pair = Pair(*(us.GaussMarkov(**random_system(rng, n, 2)) for n in (2, 3)))
    state, _ = pair.apply(pair.start(), rng.standard_normal((7, 2)))
    for count in (1, 2, 3, 50, 1001):
        slow, _ = pair.apply(state, np.full((count, 2), np.nan))
        leap = pair.leap(state, count)
        assert np.allclose(leap[1:], pair.carried(slow)[1:], rtol=1e-9, atol=1e-12)


@pytest.mark.long(seconds=2, reason="a design of simulated costs")
def test_models_without_a_law_across_gaps_withhold():
    """With a cadence that is the default; without, a gap is refused as before."""
    noise = us.Scalar(stats.t(4.0))
    family = us.Family(lambda v: us.AutoRegressive([0.5, 0.2], intercept=v, noise=noise), values=[0, 1])
    made = us.design(family, leakage=0.3, horizon=5, distortion="mse", accuracy=0.3, rng=1)
    Y = us.sample(family.model(0), 8, rng=1)
    out = made.stream(0, period=60).apply(Y, keys=at(0, 1, 2, 3, 6, 7, 8, 9))
    assert np.isnan(out).tolist() == [True, True, False, False, True, True, False, False]
    with pytest.raises(MissingReadingError):
        made.stream(0).apply(np.array([*Y[:3], np.nan, Y[4]]))


def test_the_cadence_is_kept_and_for_good(design, readings, tmp_path):
    """Origin and period come back after a restart; another period or tolerance is refused."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a", period=60)
        first = NOON + dt.timedelta(seconds=17)
        stream.step(float(readings[0]), key=first)
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        assert stream._setup.cadence == Cadence.checked(60)._replace(origin=int(first.timestamp()) * 10**9)
        stream.step(float(readings[1]), key=first + 3 * MINUTE)
        assert stream.count == 4
        for changed in ({"period": 61}, {"tolerance": 3}, {"fill": True}):
            with pytest.raises(ConfigurationError, match=next(iter(changed))):
                design.stream(1, ledger, "a", **changed)
        assert all(finding.passed for finding in inspection.verify(ledger.path))
    alone = design.stream(1, period=60, rng=1)
    alone.step(float(readings[0]), key=first)
    again = us.Stream.restore(design, alone.snapshot())
    assert again.step(float(readings[1]), key=first + 9 * MINUTE) == alone.step(
        float(readings[1]), key=first + 9 * MINUTE
    )


def test_a_call_that_fails_leaves_the_cadence_as_it_was(design, readings, tmp_path):
    """The origin is recorded with the first reading, or not at all."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a", period=60)
        with pytest.raises(ReadingError):
            stream.apply([FULL, np.inf], keys=at(0, 1))
        with pytest.raises(ReadingError):
            stream.step(FULL, key=NOON, theta=["nobody"])
        assert stream._setup.cadence.origin is None
        stream.step(FULL, key=NOON + 7 * MINUTE)
        assert stream.count == 1


def test_epochs_follow_the_slots(design):
    """A reading just before the hour, in the slot of the hour, belongs to the new epoch."""
    stream = design.stream(1, period=60, epoch=dt.timedelta(hours=1))
    stream.step(FULL, key=NOON - 5 * MINUTE)
    stream.step(FULL, key=NOON - MINUTE)
    assert stream.epoch == 0
    stream.step(FULL, key=NOON - dt.timedelta(seconds=3))
    assert stream.epoch == 1


# Slots that are filled -----------------------------------------------------------------------------------------------


def test_filled_slots_have_outputs_like_any_other(design, readings):
    """Missing readings and empty slots are released; the whole has the law of the target, missing or not (1e-6)."""
    rng = np.random.default_rng(4)
    slots = np.flatnonzero(rng.random(6_000) < 0.5)
    Y = us.sample(worker.room(1), 6_000, rng=5)
    stream = design.stream(1, period=60, fill=True)
    target = worker.room(design.pseudo[played(stream)])
    whole = np.full(6_000, np.nan)
    times = np.datetime64("2026-03-01T00:00") + slots * np.timedelta64(60, "s")
    origin = int(times[0].astype("datetime64[ns]").astype(np.int64))
    filled = []
    original = stream._recorder.record

    def record(work, live=None):
        def noted(run):
            done = work(run)
            filled.extend(run.filled)
            return done

        return original(noted, live)

    stream._recorder.record = record
    for part in np.array_split(np.arange(len(slots)), 20):
        whole[slots[part]] = stream.apply(Y[slots[part]], keys=times[part])
    for time, out in filled:
        whole[slots[0] + (time - origin) // (60 * 10**9)] = out[0]
    whole = whole[slots[0] : slots[-1] + 1]
    assert not np.isnan(whole).any()
    assert white_pvalue(us.whiten(whole, target)) > ALPHA
    # the twin: the source does not skip, so that what fills the slots is the only thing that is right
    wrong = us.disguise(np.where(np.isin(np.arange(6_000), slots), Y, 150.0), worker.room(1), target)
    assert white_pvalue(us.whiten(wrong, target)) < ALPHA


def test_a_schedule_that_fills(design, readings, tmp_path):
    """On schedule, a reading or None: each slot is released once, the same when it is asked for again."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a", period=60, fill=True)
        given = [float(readings[0]), None, float(readings[1]), None, None]
        out = [stream.step(y, key=key) for y, key in zip(given, at(*range(5)), strict=True)]
        assert not np.isnan(out).any()
        assert [stream.step(None, key=key) for key in at(*range(5))] == out
        times, late = stream.fill_until(NOON + 8 * MINUTE)
        assert [t // 10**9 - int(NOON.timestamp()) for t in times] == [300, 360, 420]
        assert [stream.step(FULL, key=key) for key in at(5, 6, 7)] == late[:, 0].tolist()
        assert stream.count == 8
        stream.step(float(readings[2]), key=NOON + 10 * MINUTE)
        kept = [record["y"] for record in inspection.released_outputs(ledger.path, "a")]
        assert len(kept) == stream.count == 11
        assert not any(y is None for y in kept)


def test_filled_outputs_follow_from_the_key(design, readings):
    """The same key fills the same slots with the same numbers, whether they are found late or on schedule."""
    one, two = (design.stream(1, period=60, fill=True, rng=9) for _ in range(2))
    one.step(float(readings[0]), key=NOON)
    _, late = one.fill_until(NOON + 4 * MINUTE)
    two.step(float(readings[0]), key=NOON)
    assert [two.step(None, key=key) for key in at(1, 2, 3)] == late[:, 0].tolist()
    assert one.step(float(readings[1]), key=NOON + 4 * MINUTE) == two.step(float(readings[1]), key=NOON + 4 * MINUTE)


@pytest.mark.long(seconds=3, reason="a design of simulated costs")
def test_what_is_withheld_is_filled_too():
    """Models that withhold after a gap release fresh outputs meanwhile: every slot has one."""
    noise = us.Scalar(stats.t(4.0))
    family = us.Family(lambda v: us.AutoRegressive([0.5, 0.2], intercept=v, noise=noise), values=[0, 1])
    made = us.design(family, leakage=0.3, horizon=5, distortion="mse", accuracy=0.3, rng=1)
    Y = us.sample(family.model(0), 8, rng=1)
    out = made.stream(0, period=60, fill=True, rng=3).apply(Y, keys=at(0, 1, 2, 3, 6, 7, 8, 9))
    assert not np.isnan(out).any()
    single = made.stream(0, period=60, fill=True, rng=3)
    again = [single.step(float(y), key=key) for y, key in zip(Y, at(0, 1, 2, 3, 6, 7, 8, 9), strict=True)]
    assert released_as(again, out, made.resolution)


def test_filling_is_asked_for(design):
    """A stream that does not fill says so; whether it does is fixed."""
    with pytest.raises(ConfigurationError, match="fill=True"):
        design.stream(1, period=60).fill_until(NOON)
    assert np.isnan(design.stream(1, period=60).step(None, key=NOON))


def test_epochs_begin_in_empty_slots_that_are_filled(design):
    """By the clock, whether a slot is empty or not: otherwise the change would tell which were."""
    stream = design.stream(1, period=60, epoch=dt.timedelta(minutes=10), fill=True, rng=2)
    stream.step(FULL, key=NOON)
    stream.fill_until(NOON + 16 * MINUTE)
    assert stream.epoch == 1
    stream.step(FULL, key=NOON + 45 * MINUTE)
    assert stream.epoch == 4


def test_a_stopped_stream_fills_nothing(design, tmp_path):
    """Where nothing more is released, no empty slot is."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a", period=60, fill=True)
        stream.step(FULL, key=NOON)
        ledger.limit("a", total=0.3)
        with pytest.raises(us.errors.BudgetError):
            stream.new_epoch(1)
        with pytest.raises(us.errors.BudgetError):
            stream.fill_until(NOON + 5 * MINUTE)
        assert len(list(inspection.released_outputs(ledger.path, "a"))) == 1


def test_slots_are_those_of_the_first_reading_for_every_object(design, readings, tmp_path):
    """Two objects of one stream: the origin that one has recorded is the other's too."""
    with opened(tmp_path) as ledger:
        one = design.stream(1, ledger, "a", period=60)
        two = us.Stream.open(ledger, design, "a")
        keys = [NOON + dt.timedelta(seconds=s) for s in (0, 85, 92, 116)]
        outs = [who.step(float(y), key=key) for who, y, key in zip((one, two, one, two), readings, keys, strict=False)]
        assert np.isnan(outs).tolist() == [False, False, False, True]
        assert one._setup.cadence.origin == two._setup.cadence.origin == int(NOON.timestamp()) * 10**9
    with opened(tmp_path) as ledger:
        assert us.Stream.open(ledger, design, "a")._setup.cadence.origin == int(NOON.timestamp()) * 10**9


def test_empty_slots_are_not_charged(design, readings):
    """Floating point is charged for outputs: a year of empty slots costs nothing."""
    stream = design.stream(1, period=1)
    stream.step(float(readings[0]), key=NOON)
    stream.step(float(readings[1]), key=NOON + dt.timedelta(days=365))
    assert stream.count > 31_000_000
    assert stream.spent == 0.3


def test_a_run_that_the_budget_stops_after_a_gap_goes_on(tmp_path):
    """The gap before a refused decision has not been passed: with more budget the same rows go on after it."""
    family = us.Family(worker.room, values=[0, 1])
    made = us.design_causal(family, [[0.9, 0.1], [0.1, 0.9]], rate=0.05, horizon=50, distortion="mae")
    Y = us.sample(worker.room(1), 40, rng=3)
    slots = [*range(10), *range(16, 46)]
    keys = np.datetime64("2026-03-01T12:00") + np.array(slots) * np.timedelta64(60, "s")
    theta = [1] * 40
    with opened(tmp_path) as ledger:
        whole = made.stream(ledger=ledger, name="b", period=60, every=dt.timedelta(minutes=5), rng=5)
        expected = whole.apply(Y, keys=keys, theta=theta)
        ledger.limit("a", total=1e-6)
        stream = made.stream(ledger=ledger, name="a", period=60, every=dt.timedelta(minutes=5), rng=5)
        ledger.limit("a", total=whole._now.position.charged / 1e6 / 4.0)
        run = stream.run("f")
        with pytest.raises(us.errors.BudgetError) as stopped:
            run.apply(Y, keys=keys, theta=theta)
        done = 0 if stopped.value.released is None else len(stopped.value.released)
    with opened(tmp_path) as ledger:
        ledger.limit("a", total=100.0)
        run = us.Stream.open(ledger, made, "a").run("f")
        out = run.apply(Y, keys=keys, theta=theta)
        assert 0 < done < 40
        assert np.array_equal(out[:done], stopped.value.released)
        assert released_as(out, expected, made.resolution)


def test_times_too_far_apart_are_refused(design):
    """Nothing wraps round."""
    stream = design.stream(1, period=60)
    stream.step(FULL, key=np.datetime64("1700-01-01"))
    with pytest.raises(ReadingError, match="years off"):
        stream.step(FULL, key=np.datetime64("2260-01-01"))


def test_odd_choices_are_refused(design):
    """With the value and the rule, before anything is drawn."""
    for changed in (
        {"period": 1e300}, {"period": 10**400}, {"period": np.timedelta64("NaT", "s")},
        {"period": 60, "tolerance": float("nan")}, {"period": 60, "tolerance": float("inf")}, {"fill": "yes"},
        {"fill": 2.0},
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=list(changed)[-1]):
            design.stream(1, **changed)
    stream = design.stream(1)
    for when in (1e300, 10**400, float("nan"), "soon"):
        with pytest.raises(ConfigurationError, match="release_at"):
            stream.step(FULL, release_at=when)
    assert stream.count == 0
