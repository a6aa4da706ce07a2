"""Designs by the public clock: what is learned beyond it, exactly; the routine; streams, files and audits."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import time
import zoneinfo

import numpy as np
import pytest

import understudy as us
from understudy.errors import ConfigurationError, DesignError, StoredFileError
from understudy.randomizer.routine import DAY, STEPS, Routine, routine_of

SIX_HOURS = 21_600


class Part:
    """Rows of a labelled history."""

    def __init__(self, times, theta):
        self.times, self.theta = np.asarray(times, dtype=np.int64), np.asarray(theta)


class History:
    def __init__(self, *segments, values=(0, 1), period=900.0):
        self.segments, self.values, self.period, self.zone = segments, values, period, None


def office(days=21, period=900, late=0.0, seed=0):
    """Somebody is in on weekdays from about 9 to 17; 1970 began on a Thursday."""
    rng = np.random.default_rng(seed)
    seconds = np.arange(days * DAY // period) * period
    hour, weekday = seconds % DAY / 3600.0, (seconds // DAY + 3) % 7
    shift = np.repeat(rng.normal(0.0, late, days), DAY // period)
    inside = (weekday < 5) & (hour >= 9.0 + shift) & (hour < 17.0 + shift)
    return History(Part(seconds * 10**9, inside.astype(int)), period=float(period))


def routine(m=2, seed=1):
    """Any shares, different at each step."""
    rng = np.random.default_rng(seed)
    coarse = rng.dirichlet(np.ones(m), size=(2, 8))
    return Routine(np.repeat(coarse, STEPS // 8, axis=1), 3.0, 0, (5, 2), 3600.0)


def family(period=900.0, m=2, noise=0.1):
    models = {v: us.GaussMarkov(0.9, 1.0, noise, noise, b=2.0 * v) for v in range(m)}
    return us.Family(models, about={"period": period, "readings": ["co2"], "private": "people", "time": "date"})


def by_clock(clock=None, period=900.0, every=1, **given):
    given = given or {"rate": 0.0}
    return us.design_causal(
        family(period), clock=routine() if clock is None else clock, decision_every=every,
        distortion=[[0.0, 1.0], [1.0, 0.0]], **given,
    )  # fmt: skip


# What is learned beyond the clock, enumerated -------------------------------------------------------------


def beyond_the_clock(design, decisions=4, kernels=None):
    """I(Theta; ~Theta given C) exactly, C the tick at which one begins, all alike; and the expected sum of charges."""
    beliefs, total, charged = design.beliefs, 0.0, 0.0
    starts = range(beliefs.period)
    for tick in starts:
        joint, opening = {}, design.start(tick)
        for theta in itertools.product(range(2), repeat=decisions):
            chance = opening.belief[theta[0]]
            for k in range(decisions - 1):
                chance *= beliefs.transitions[(opening.k + k) % beliefs.period][theta[k], theta[k + 1]]
            paths = [((), opening, chance, 0.0)]
            for value in theta:
                after = []
                for drawn, state, p, cost in paths:
                    kernel = beliefs.kernel(state.belief)
                    charge = beliefs.charge(state.belief, kernel)
                    for j in np.flatnonzero(kernel[value]).tolist():
                        went = (*drawn, j), beliefs.after(state, kernel, j), p * kernel[value, j], cost + charge
                        after.append(went)
                paths = after
            for drawn, _, p, cost in paths:
                joint[theta, drawn] = joint.get((theta, drawn), 0.0) + p
                charged += p * cost / len(starts)
        total += information(joint) / len(starts)
    return total, charged


def information(joint):
    one, other = {}, {}
    for (a, b), p in joint.items():
        one[a] = one.get(a, 0.0) + p
        other[b] = other.get(b, 0.0) + p
    return math.fsum(p * math.log(p / (one[a] * other[b])) for (a, b), p in joint.items() if p > 0.0)


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_the_charges_are_the_information_given_the_clock(slope):
    """Decisions six hours apart, a week of 28: enumerated over all paths of four, from each tick."""
    design = by_clock(period=float(SIX_HOURS), slope=slope)
    assert design.beliefs.period == 28
    exact, charged = beyond_the_clock(design)
    assert exact == pytest.approx(charged, abs=1e-12)
    assert exact > 1e-3


def test_at_rate_zero_nothing_is_learned_beyond_the_clock():
    """Exactly, and the pseudo path is one and the same for all private paths. The card says so."""
    design = by_clock(period=float(SIX_HOURS))
    assert beyond_the_clock(design) == pytest.approx((0.0, 0.0), abs=1e-15)
    rng = np.random.default_rng(1)
    paths = set()
    for _ in range(20):
        state, path = design.start(5), []
        for theta in rng.integers(0, 2, 28).tolist():
            state, drawn, charge = design.draw(state, theta)
            assert charge == 0.0
            path.append(drawn)
        paths.add(tuple(path))
    assert len(paths) == 1
    assert set(next(iter(paths))) == {0, 1}
    card = design.guarantee.to_dict()
    assert card["clock"]
    assert card["leakage"]["nats_per_decision"] == 0.0
    assert "than the public clock tells." in design.guarantee.headline
    assert any("published" in words for words in design.guarantee.not_protected)


def test_the_twin_that_looks_at_theta_is_caught():
    """A pseudo path that plays the truth leaks all that the clock leaves open."""
    design = by_clock(period=float(SIX_HOURS), slope=math.inf)
    exact, charged = beyond_the_clock(design)
    assert exact == pytest.approx(charged, abs=1e-9)
    assert exact > 0.5


def test_the_output_is_the_same_for_every_private_path():
    """Right models: with the same scores behind the readings the output does not depend on theta (1e-9)."""
    design = by_clock()
    T, rng = 192, np.random.default_rng(3)
    z = rng.standard_normal(T)
    keys = np.datetime64("2026-03-02T00:00") + np.arange(T) * np.timedelta64(15, "m")
    outs = []
    for theta in (np.zeros(T, int), np.ones(T, int), rng.integers(0, 2, T), (np.arange(T) // 30) % 2):
        Y = np.ravel(us.colour(z, design.family.along([int(v) for v in theta])))
        outs.append(design.stream(rng=1, period=900).apply(Y, keys, theta=theta.tolist()))
    step = design.resolution[0]
    assert max(np.abs(out - outs[0]).max() for out in outs[1:]) <= step
    assert np.ptp(outs[0]) > 3.0


# The routine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tick", [900, 1800, 3600, SIX_HOURS, DAY])
def test_the_chain_has_the_shares_of_the_routine_at_every_tick(tick):
    """pi_t T_t = pi_t+1 round the week (1e-12), and as many changes as the history had, where there can be as many."""
    for m in (2, 3):
        found = routine(m)
        prior, transitions = found.chain(tick)
        assert len(transitions) == 7 * DAY // tick
        law, changes = prior, 0.0
        for T in transitions:
            assert T.min() >= 0.0
            changes += 1.0 - float(law @ np.diag(T))
            law = law @ T
        assert law == pytest.approx(prior, abs=1e-12)
    few = by_clock(office(late=0.5), every=1)
    law, changes = few.prior, 0.0
    for T in few.beliefs.transitions:
        changes += 1.0 - float(law @ np.diag(T))
        law = law @ T
    assert 8.0 < changes < 14.0  # ten a week were seen


def test_weekdays_and_weekends_are_told_apart():
    """And what was seen of days is what is played on others of their kind."""
    seen = routine_of(office().segments, 2)
    assert seen.days == (15, 6)
    assert seen.shares[0, 50, 1] > 0.9  # half past twelve
    assert seen.shares[1, 50, 1] < 0.15  # six days, and one of all kinds
    design = by_clock(office(late=0.5))
    state, path = design.start(), []
    for _ in range(672):
        state, drawn, _ = design.draw(state, 0)
        path.append(drawn)
    days = np.array(path).reshape(7, 96)  # from Thursday on
    assert not days[2:4].any()
    for k in (0, 1, 4, 5, 6):
        hours = np.flatnonzero(days[k]) / 4.0
        assert 8.0 <= hours.min() <= 10.0
        assert 16.0 <= hours.max() <= 18.0


def test_a_kind_of_day_that_was_never_seen_is_taken_for_the_others():
    first = office(days=2)  # a Thursday and a Friday
    seen = routine_of(first.segments, 2)
    assert seen.days == (2, 0)
    assert np.allclose(seen.shares[1], seen.shares[0], atol=0.25)
    assert (seen.shares > 0.0).all()


def test_the_width_is_chosen_by_days_that_were_left_out():
    """Sharp hours ask for a narrow kernel, loose ones for a wide one."""
    assert routine_of(office(late=0.0).segments, 2).width < routine_of(office(late=2.0).segments, 2).width


def test_a_family_keeps_its_routine(tmp_path):
    """`us.fit` stores it, and ``clock=True`` takes it, to nine decimals."""
    history = office(days=14)
    times, theta = history.segments[0].times, history.segments[0].theta
    rng = np.random.default_rng(2)
    y = np.empty(len(theta))
    level = 0.0
    for k, inside in enumerate(theta):
        level = 0.8 * level + 20.0 * inside + rng.normal(0.0, 1.0)
        y[k] = 420.0 + level
    frame = {"date": times.view("datetime64[ns]"), "co2": y, "people": theta}
    fitted = us.fit(frame, reading="co2", private="people", time="date", model="autoregressive")
    one = us.design_causal(fitted, clock=True, rate=0.0, distortion=[[0, 1], [1, 0]])
    other = us.design_causal(fitted, clock=history, rate=0.0, distortion=[[0, 1], [1, 0]])
    assert one.beliefs.transitions == pytest.approx(other.beliefs.transitions, abs=1e-6)
    about = dict(fitted.about)
    about["chain"] = {name: value for name, value in about["chain"].items() if name != "routine"}
    older = us.Family({v: fitted.model(v) for v in fitted.values}, prior=fitted.prior, about=about)
    plain = us.design_causal(older, clock=True, rate=0.0, distortion=[[0, 1], [1, 0]])
    assert plain.beliefs.period == 672
    one.save(tmp_path / "clock.json")
    assert us.load_design(tmp_path / "clock.json").fingerprint == one.fingerprint


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"clock": None}, "none of transition and clock"),
        ({"transition": [[0.9, 0.1], [0.1, 0.9]]}, "both of transition and clock"),
        ({"clock": True}, "does not say"),
        ({"clock": 3}, "clock is a int"),
        ({"clock": routine(3)}, "other values"),
        ({"clock": History(values=("a", "b"))}, "other values"),
        ({"clock": History()}, "no row"),
        ({"decision_every": 7}, "go into a day"),
    ],
)
def test_what_makes_no_routine_is_refused(given, words):
    with pytest.raises((DesignError, ConfigurationError), match=words):
        us.design_causal(family(), **{"clock": routine(), "rate": 0.0, "distortion": [[0, 1], [1, 0]], **given})
    with pytest.raises((DesignError, ConfigurationError), match="period"):
        us.design_causal(
            us.Family({0: us.GaussMarkov(0.9, 1, 1, 1), 1: us.GaussMarkov(0.9, 1, 1, 1)}), clock=routine(), rate=0
        )


# Streams, files, audits -----------------------------------------------------------------------------------------


def test_a_stream_decides_by_the_time_of_its_readings(tmp_path):
    """Begun on any day at any hour, restarted in between: as the routine has it then, bit for bit."""
    design = by_clock(office(late=0.5))
    design.save(tmp_path / "clock.json")
    keys = np.datetime64("2026-03-06T15:00") + np.arange(300) * np.timedelta64(15, "m")  # a Friday
    Y = np.random.default_rng(1).normal(0.0, 0.1, 300)
    whole = design.stream(rng=3, period=900).apply(Y, keys, theta=0)
    out = []
    for start in range(0, 300, 77):
        seeded = {"rng": 3} if start == 0 else {}
        loaded = us.load_design(tmp_path / "clock.json")
        with loaded.stream(ledger=tmp_path / "room.db", period=900, **seeded) as stream:
            out += stream.apply(Y[start : start + 77], keys[start : start + 77], theta=0).tolist()
            assert stream.spent == 0.0
    assert out == whole.tolist()
    high = whole > 5.0  # somebody is played to be in, with the lag of the room
    hour, day = np.arange(300) * 0.25 + 15.0, ((np.arange(300) * 0.25 + 15.0) // 24).astype(int)
    assert not high[(day == 1) | (day == 2)].any()  # the weekend
    assert high[(day == 3) & (hour % 24 > 10.5) & (hour % 24 < 16.0)].all()


def test_a_stream_without_times_or_with_other_decisions_is_refused(tmp_path):
    design = by_clock(office())
    with pytest.raises(ConfigurationError, match="every"):
        design.stream(every=dt.timedelta(hours=1))
    with pytest.raises(us.errors.ReadingError, match="times"):
        design.stream(period=900).apply([0.1, 0.2], theta=0)
    with us.Ledger(tmp_path / "plant.db") as ledger, pytest.raises(ConfigurationError, match="epochs of its own"):
        us.Fleet(design, ledger, "plant", key=us.MasterKey.new(), epoch=dt.timedelta(hours=1), period=900)


def test_a_clock_on_the_wall_ahead_of_utc():
    """An offset of two hours plays the same path two hours earlier in UTC."""
    seen = routine_of(office(late=0.5).segments, 2)
    keys = np.datetime64("2026-03-02T00:00") + np.arange(96) * np.timedelta64(15, "m")
    Y = np.random.default_rng(1).normal(0.0, 0.1, 96)
    at_home = by_clock(seen).stream(rng=1, period=900).apply(Y, keys, theta=0)
    ahead = by_clock(seen._replace(offset=7200)).stream(rng=1, period=900).apply(Y, keys, theta=0)
    rise = [int(np.flatnonzero(out > 5.0)[0]) for out in (at_home, ahead)]
    assert rise[0] - rise[1] == 8


# Summer time ----------------------------------------------------------------------------------------------------

BERLIN = "Europe/Berlin"


def berlin(first, days, seed=0):
    """An office in Berlin: weekdays from 9 to 17 on the clock on the wall, times in UTC."""
    zone = zoneinfo.ZoneInfo(BERLIN)
    begin = int(dt.datetime.fromisoformat(first).replace(tzinfo=zone).timestamp())
    seconds = begin + np.arange(days * DAY // 900) * 900
    walls = [dt.datetime.fromtimestamp(int(s), zone) for s in seconds]
    inside = np.array([w.weekday() < 5 and 9 <= w.hour < 17 for w in walls])
    made = History(Part(seconds * 10**9, inside.astype(int)))
    made.zone = BERLIN
    return made


def test_a_routine_is_one_of_the_clock_on_the_wall():
    """Seven weeks about the end of March: 9 to 17 before and after. The twin, a fixed offset, smears both edges."""
    history = berlin("2026-03-02", 49)
    seen, twin = routine_of(history.segments, 2, BERLIN), routine_of(history.segments, 2, "+01:00")
    assert (seen.zone, seen.offset, twin.zone, twin.offset) == (BERLIN, 3600, None, 3600)
    early, late = 8 * 4 + 1, 16 * 4 + 1  # a quarter past eight, and past four in the afternoon
    assert seen.shares[0, early, 1] < 0.15 < 0.3 < twin.shares[0, early, 1]
    assert seen.shares[0, late, 1] > 0.85 > 0.7 > twin.shares[0, late, 1]
    again = Routine.from_plain(json.loads(json.dumps(seen.to_plain())), [0, 1])
    assert again.zone == BERLIN
    assert "zone" not in twin.to_plain()
    assert Routine.from_plain(twin.to_plain(), [0, 1]).zone is None


@pytest.mark.parametrize(("first", "moved"), [("2026-03-26T00:00", -4), ("2026-10-22T00:00", 4)])
def test_a_stream_follows_summer_time(tmp_path, first, moved):
    """Thursday to Tuesday over the change: somebody is played to be in from nine on the wall, restarted in between.

    Decisions are numbered by UTC, so that none has the number of another. The twin, a fixed offset, is an hour off.
    """
    seen = routine_of(berlin("2026-01-05", 28).segments, 2, BERLIN)
    design, twin = by_clock(seen), by_clock(seen._replace(zone=None))
    design.save(tmp_path / "clock.json")
    design = us.load_design(tmp_path / "clock.json")
    zone = zoneinfo.ZoneInfo(BERLIN)
    begin = int(dt.datetime.fromisoformat(first).replace(tzinfo=zone).timestamp())
    keys = (begin + np.arange(480) * 900).astype("datetime64[s]")
    Y = np.random.default_rng(1).normal(0.0, 0.1, 480)
    with design.stream(rng=3, period=900, ledger=tmp_path / "room.db") as stream:
        out = stream.apply(Y[:250], keys[:250], theta=0).tolist()
    with us.load_design(tmp_path / "clock.json").stream(period=900, ledger=tmp_path / "room.db") as stream:
        out += stream.apply(Y[250:], keys[250:], theta=0).tolist()
        assert stream.spent == 0.0
    assert out == design.stream(rng=3, period=900).apply(Y, keys, theta=0).tolist()
    fixed = twin.stream(rng=3, period=900).apply(Y, keys, theta=0)
    rises = {"own": [], "twin": []}
    for name, made in (("own", np.array(out)), ("twin", fixed)):
        for day in (0, 1, 4):  # Thursday, Friday, and Monday after the change
            wall = [dt.datetime.fromtimestamp(begin + k * 900, zone) for k in range(480)]
            rows = [k for k, w in enumerate(wall) if (w.date() - wall[0].date()).days == day]
            rises[name].append(next(i for i, k in enumerate(rows) if made[k] > 5.0))
    assert rises["own"][0] == rises["own"][1] == rises["own"][2]
    assert rises["twin"][2] == rises["twin"][1] - moved
    winter = 0 if moved < 0 else 2
    assert rises["own"][winter] == rises["twin"][winter]


def test_the_charges_are_the_information_where_an_hour_is_passed_over():
    """The chain of the clock on the wall, enumerated over a spring night: what memories charge is what is told."""
    seen = routine()._replace(zone=BERLIN, offset=3600)
    design = by_clock(seen, period=3600.0, slope=2.0)
    change = int(dt.datetime(2026, 3, 29, 1, tzinfo=dt.UTC).timestamp())
    for at in (change, int(dt.datetime(2026, 10, 25, 1, tzinfo=dt.UTC).timestamp())):
        tick = (at + 3600) // 3600 - 1
        opening = design.opening(tick)
        joint, charged = {}, 0.0
        paths = [((), (), opening, 1.0)]
        for k in range(3):
            after = []
            step = design.clock.place(tick + k) - design.clock.place(tick + k - 1)
            for theta, drawn, memory, p in paths:
                for value in range(2):
                    if not theta:
                        chance = opening.state.belief[value]
                    else:
                        moves = [design.beliefs.transitions[j % 168] for j in _places(design, tick + k, step)]
                        chance = np.linalg.multi_dot([np.eye(2), *moves, np.eye(2)])[theta[-1], value]
                    kernel = design.beliefs.kernel(memory.state.belief)
                    cost = design.next_charge(memory.state)
                    for j in np.flatnonzero(kernel[value]).tolist():
                        q = p * chance * kernel[value, j]
                        charged += q * cost
                        after.append(((*theta, value), (*drawn, j), design.after(memory, j, False), q))
            paths = after
        for theta, drawn, _, p in paths:
            joint[theta, drawn] = joint.get((theta, drawn), 0.0) + p
        assert sum(joint.values()) == pytest.approx(1.0, abs=1e-12)
        assert information(joint) == pytest.approx(charged, abs=1e-10)
        assert charged > 1e-3


def _places(design, tick, step):
    """The places of the transitions that lead to a tick: two where an hour is passed over, otherwise one."""
    last = design.clock.place(tick - 1)
    return range(last, last + max(step, 1))


def test_a_damaged_clock_is_refused(tmp_path):
    from understudy.serialize import write

    design = by_clock(office())
    for clock in ([900, 0.5], [1800, 0], [900], [900, 0, 1], "berlin"):
        write(tmp_path / "bad.json", design.to_content() | {"clock": clock}, "causal design", 2)
        with pytest.raises(StoredFileError):
            us.load_design(tmp_path / "bad.json")


def test_an_audit_is_judged_by_the_gain_over_the_clock():
    """Presence by routine and readings of the models themselves: at rate 0 no adversary has more than the clock."""
    history = office(days=28, late=0.7)
    theta, seconds = history.segments[0].theta, history.segments[0].times // 10**9
    design = by_clock(history)
    z = np.random.default_rng(4).standard_normal(len(theta))
    Y = np.ravel(us.colour(z, design.family.along(theta.tolist())))
    hours, days = seconds % DAY / 3600.0, (seconds // DAY + 3) % 7
    with pytest.raises(ConfigurationError, match="times"):
        us.audit(design, Y, theta, adversaries=["windowed"], noise=False, utility=False)
    found = us.audit(
        design,
        Y,
        theta,
        hours=hours,
        days=days,
        adversaries=["windowed"],
        rng=1,
        noise=False,
        utility=False,
        replicates=1,
    )
    gain = {row.data: row.gain.value for row in found.rows if row.adversary == "windowed" and row.clock}
    assert gain["disguised"] < 0.03
    assert gain["raw"] > 0.0


def test_a_card_by_the_clock_is_quick():
    """A week of quarters of an hour: 672 matrices."""
    design = by_clock(office())
    start = time.process_time()
    assert design.guarantee.json()
    assert time.process_time() - start < 5.0
