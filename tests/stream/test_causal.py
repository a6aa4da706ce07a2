"""Streams of a causal design: decisions by the clock, theta with each reading, memory through the ledger."""

import datetime as dt
import itertools
import math

import numpy as np
import pytest
from causal_cases import ALPHA, STAY, room_design
from helpers import room, same_bits, white_pvalue
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_helpers import copied, opened, released_as

import understudy as us
from understudy.errors import BudgetError, ConfigurationError, ReadingError, RollbackError
from understudy.randomizer.causal import design_causal
from understudy.stream import inspection
from understudy.stream.ledger_file import micronats
from understudy.stream.randomness import DrawSource

EVERY = 5


def family():
    return us.Family(room, values=[0, 1])


def design(**changes):
    options = {"rate": 0.05, "horizon": 50, "distortion": "mae", "decision_every": EVERY} | changes
    return design_causal(family(), STAY, [0, 0.5, 1], **options)


def moving(rng, T, every=EVERY, stay=0.95):
    """A path of theta that may change at any decision, and readings of a room with it."""
    flips = rng.random(-(-T // every)) > stay
    theta = np.repeat(np.cumsum(flips) % 2, every)[:T]
    return theta, us.sample(family().along(theta.tolist()), T, rng=rng)


def path(ledger, name="lab"):
    """The pseudo values of the decisions of a stream, by position, and whether each was made quietly."""
    row = ledger.stream(name)
    found = ledger.rows("SELECT draw, held FROM epochs WHERE stream = ? AND epoch > 0 ORDER BY epoch", row.id)
    return [draw for draw, _ in found], [bool(held) for _, held in found]


def test_decisions_and_charges_are_those_of_the_belief_recursion(tmp_path):
    """The same coins through `CausalDesign.draw` give the same pseudo path and, rounded up once, the same charge."""
    made, rng = design(), np.random.default_rng(1)
    theta, Y = moving(rng, 200)
    with opened(tmp_path) as ledger:
        stream = made.stream(ledger=ledger, name="lab", rng=7)
        stream.apply(Y, theta=theta)
        draws, _ = path(ledger)
        spent = ledger.spent("lab")
        memory = stream._now.position.memory
    key = np.random.default_rng(7).bytes(32)
    state, nats, expected = made.start(), 0.0, []
    for k, value in enumerate(theta[::EVERY]):
        state, pseudo, charge = made.draw(state, value, DrawSource.at_tick(key, 0, k))
        nats += charge
        expected.append(pseudo)
    assert draws == expected
    assert memory.state == state
    assert spent == pytest.approx(nats, abs=2e-6)
    assert spent >= nats
    assert round(spent * 1e6) == micronats(memory.nats)


def test_the_output_has_the_law_of_the_pseudo_path(tmp_path):
    """Scores under the pseudo path are white; under the true path, the twin, they are not. False alarms: 1e-6."""
    made, rng = design(decision_every=20), np.random.default_rng(2)
    theta, Y = moving(rng, 4000, 20)
    with opened(tmp_path) as ledger:
        out = made.stream(ledger=ledger, name="lab", rng=3).apply(Y, theta=theta)
        draws, _ = path(ledger)
    pseudo = np.repeat([made.pseudo[j] for j in draws], 20)[: len(Y)]
    members = us.Family(room, values=[0, 0.5, 1])
    assert white_pvalue(us.whiten(out, members.along(pseudo.tolist()))) > ALPHA
    assert white_pvalue(us.whiten(out, members.along(theta.tolist()))) < ALPHA


def test_the_output_is_that_of_the_two_paths(tmp_path):
    """A stream is `us.disguise` along the private path, which moves within decisions too, and the pseudo path."""
    made, rng = design(), np.random.default_rng(4)
    theta = rng.integers(0, 2, 100)
    Y = us.sample(family().along(theta.tolist()), 100, rng=rng)
    with opened(tmp_path) as ledger:
        out = made.stream(ledger=ledger, name="lab").apply(Y, theta=theta)
        draws, _ = path(ledger)
    pseudo = np.repeat([made.pseudo[j] for j in draws], EVERY).tolist()
    members = us.Family(room, values=[0, 0.5, 1])
    expected = us.disguise(Y, family().along(theta.tolist()), members.along(pseudo))
    assert released_as(out, expected, made.resolution, 1e-9)
    assert len(draws) == 20


@given(cuts=st.lists(st.integers(1, 59), max_size=6, unique=True), seed=st.integers(0, 5))
@settings(max_examples=6, deadline=None)
def test_chunks_and_single_readings_give_the_same_bits(cuts, seed):
    """However the readings are handed over, with theta as an argument or as a column, the output is the same."""
    made, rng = design(), np.random.default_rng(seed)
    theta, Y = moving(rng, 60)
    whole = made.stream(rng=5).apply(Y, theta=theta)
    parts, chunked = [0, *sorted(cuts), 60], made.stream(rng=5)
    pieces = [chunked.apply(Y[a:b], theta=theta[a:b].tolist()) for a, b in itertools.pairwise(parts)]
    single = made.stream(theta=int(theta[0]), rng=5)
    steps = [single.step(float(y), theta=int(t)) for y, t in zip(Y, theta, strict=True)]
    assert same_bits(whole, np.concatenate(pieces))
    assert same_bits(whole, np.array(steps))


@pytest.mark.parametrize("stop", [1, 4, 5, 23, 40])
def test_belief_and_path_survive_a_restart(tmp_path, stop):
    """A stream that is opened again stands where it stood, to the bit, and until the next decision says the same."""
    made, rng = design(), np.random.default_rng(6)
    theta, Y = moving(rng, 60)
    with opened(tmp_path) as ledger:
        stream = made.stream(ledger=ledger, name="lab", rng=8)
        stream.apply(Y[:stop], theta=theta[:stop])
        before, live = stream.snapshot(), stream._now
    until = -(-stop // EVERY) * EVERY
    with opened(tmp_path) as ledger:
        again = us.Stream.open(ledger, made, "lab")
        assert again.snapshot() == before
        assert again._now.position == live.position
        out = again.apply(Y[stop:], theta=theta[stop:])
    mirror = made.stream(rng=8)
    expected = mirror.apply(Y[:until], theta=theta[:until])[stop:]
    assert same_bits(out[: until - stop], expected)


def test_a_snapshot_holds_the_memory():
    """Without a ledger a snapshot does: what comes of it has the same belief."""
    made, rng = design(), np.random.default_rng(9)
    theta, Y = moving(rng, 33)
    stream = made.stream()
    stream.apply(Y, theta=theta)
    again = us.Stream.restore(made, stream.snapshot())
    assert again._now.position.memory == stream._now.position.memory
    assert again.step(100.0) == stream.step(100.0)


def test_readings_that_come_again_get_the_same_output(tmp_path):
    """A batch that overlaps what was there is answered from the ledger, and nothing is charged twice."""
    made, rng = design(), np.random.default_rng(10)
    theta, Y = moving(rng, 40)
    with opened(tmp_path) as ledger:
        stream = made.stream(ledger=ledger, name="lab")
        first = stream.apply(Y[:23], keys=range(23), theta=theta[:23])
        spent = ledger.spent("lab")
        assert same_bits(stream.apply(Y[:23], keys=range(23), theta=theta[:23]), first)
        assert ledger.spent("lab") == spent
        both = stream.apply(Y[10:], keys=range(10, 40), theta=theta[10:])
        assert same_bits(both[:13], first[10:])
        assert len(path(ledger)[0]) == 8


@pytest.mark.parametrize("when_spent", ["stop", "hold"])
def test_a_budget_is_kept_on_every_path(tmp_path, when_spent):
    """A decision beyond the budget stops the stream, or is made quietly: the total is never exceeded."""
    made, rng = design(), np.random.default_rng(11)
    theta, Y = moving(rng, 400)
    total = made.first_charge + 0.2
    with opened(tmp_path) as ledger:
        ledger.limit("lab", total=total, when_spent=when_spent)
        stream = made.stream(ledger=ledger, name="lab")
        if when_spent == "stop":
            steps = (stream.apply(Y[i : i + EVERY], theta=theta[i : i + EVERY]) for i in range(0, 400, EVERY))
            with pytest.raises(BudgetError, match="spent"):
                list(steps)
            assert len(path(ledger)[0]) > 1
        else:
            stream.apply(Y, theta=theta)
            draws, held = path(ledger)
            assert len(draws) == 80
            assert any(held)
            state = made.start()
            for j, quietly in zip(draws, held, strict=True):
                kernel = None if quietly else made.kernel(state.belief)
                if quietly:
                    assert j == made.beliefs.quiet(state.belief)
                state = made.beliefs.after(state, kernel, None if quietly else j)
            assert stream._now.position.memory.state == state
        # no decision tells more than the first, which leaves 0.2 for others
        assert made.first_charge < ledger.spent("lab") <= total
    findings = inspection.verify(tmp_path / "room.ledger")
    assert all(finding.passed for finding in findings), [f.name for f in findings if not f.passed]


def test_decisions_share_rows_of_charges(tmp_path):
    """A thousand decisions on one day make one charge, so that sums stay quick."""
    made, rng = design(decision_every=1), np.random.default_rng(12)
    theta, Y = moving(rng, 1000, 1)
    with opened(tmp_path, clock=lambda: 1e9) as ledger:
        stream = made.stream(ledger=ledger, name="lab")
        stream.apply(Y, theta=theta)
        assert ledger.rows("SELECT count(*) FROM charges")[0][0] == 1
        assert ledger.spent("lab") == micronats(stream._now.position.memory.nats) / 1e6


def test_decisions_that_no_reading_came_for_move_the_belief():
    """After a gap the belief has moved by the chain, as often as the clock has struck."""
    made = design()
    stream = made.stream(theta=1, rng=1)
    stream.apply([100.0] * 3, keys=[0, 1, 2])
    memory = stream._now.position.memory
    stream.apply([100.0], keys=[57])
    T = np.array(STAY)
    moved = np.array(memory.state.belief) @ np.linalg.matrix_power(T, 57 // EVERY - 1)
    kernel = made.kernel(tuple(moved))
    after = made.beliefs.after(us_state(moved, 11), kernel, stream._now.epoch.draw)
    np.testing.assert_allclose(stream._now.position.memory.state.belief, after.belief, rtol=1e-12)
    assert stream._now.position.memory.state.k == 57 // EVERY + 1
    assert stream.epoch == 2


def test_nothing_is_decided_or_charged_while_nothing_is_released(tmp_path):
    """A gap of missing readings is the gap of readings that did not come: no decision in it, and no charge."""
    made, rng = design(), np.random.default_rng(0)
    theta, Y = moving(rng, 60)
    gap = slice(12, 47)
    Y[gap] = np.nan
    with us.Ledger(tmp_path / "a") as ledger:
        stream = made.stream(theta=int(theta[0]), ledger=ledger, name="lab", rng=5)
        out = stream.apply(Y, theta=theta)
        there = ~np.isnan(Y).reshape(60)
        assert np.array_equal(there, ~np.isnan(out).reshape(60))
        assert stream.epoch == len({k // EVERY for k in np.flatnonzero(there)})
        memory = stream._now.position.memory
        assert memory.state.k == 60 // EVERY  # the belief has moved on all the same
        assert ledger.spent("lab") == micronats(memory.nats) / 1e6
    # twin: a stream that was begun before the rule decides on, through the gap
    former = made.stream(theta=int(theta[0]), rng=5)
    former._setup.row.options.pop("draws")
    former.apply(Y, theta=theta)
    assert former.epoch == 60 // EVERY


@given(missing=st.lists(st.booleans(), min_size=60, max_size=60), cut=st.integers(1, 59), seed=st.integers(0, 5))
@settings(max_examples=12, deadline=None)
def test_missing_readings_in_chunks_and_steps_give_the_same_bits(missing, cut, seed):
    made, rng = design(), np.random.default_rng(seed)
    theta, Y = moving(rng, 60)
    Y[np.array(missing)] = np.nan
    whole, parts, single = (made.stream(theta=int(theta[0]), rng=5) for _ in range(3))
    outs = whole.apply(Y, theta=theta)
    pieces = [parts.apply(Y[:cut], theta=theta[:cut]), parts.apply(Y[cut:], theta=theta[cut:])]
    steps = [single.step(float(y), theta=int(t)) for y, t in zip(Y.reshape(60), theta, strict=True)]
    assert same_bits(outs, np.concatenate(pieces))
    assert same_bits(outs.reshape(60), np.array(steps).reshape(60))
    assert whole.epoch == parts.epoch == single.epoch


def us_state(belief, k):
    from understudy.randomizer.causal_guarantee import BeliefState

    return BeliefState(tuple(belief.tolist()), k)


def test_the_time_of_day_chooses_the_transition():
    """With matrices in turn, a stream that begins at noon begins with the odds of noon, and goes on from there."""
    night, day = [[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9]]
    base = us.Family(room, values=[0, 1], prior=[0.99, 0.01])
    made = design_causal(base, [night] * 6 + [day] * 12 + [night] * 6, rate=0.05, horizon=50, distortion="mae")
    hour = dt.timedelta(hours=1)
    noon = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    stream = made.stream(theta=1, every=hour, rng=3, period=dt.timedelta(minutes=1))
    stream.step(100.0, key=noon)
    belief = np.array([0.99, 0.01])
    for k in range(12):
        belief = belief @ np.array(night if k < 6 else day)
    kernel = made.kernel(tuple(belief.tolist()))
    after = made.beliefs.after(us_state(belief, 12), kernel, stream._now.epoch.draw)
    np.testing.assert_allclose(stream._now.position.memory.state.belief, after.belief, rtol=1e-12)
    stream.step(100.0, key=noon + dt.timedelta(minutes=59))
    assert stream.epoch == 1
    stream.step(100.0, key=noon + hour)
    assert stream.epoch == 2


def test_theta_may_be_a_list_an_array_or_a_column():
    """Columns of pandas and polars, arrays and lists say the same; texts are values too."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    named = us.Family({"empty": room(0), "in use": room(1)})
    made = design_causal(named, STAY, rate=0.05, horizon=50, distortion="mae")
    words = ["empty", "empty", "in use", "in use", "empty"]
    Y = [100.0, 101.0, 105.0, 110.0, 108.0]
    expected = made.stream(rng=1).apply(Y, theta=words)
    for column in (np.array(words), pandas.Series(words), polars.Series(words), np.array(words, dtype=object)):
        assert same_bits(made.stream(rng=1).apply(Y, theta=column), expected)
    assert same_bits(made.stream(rng=1).apply(Y, theta="empty"), made.stream("empty", rng=1).apply(Y))


@pytest.mark.parametrize("theta", [["empty"], [0, 1, None], [0, 7, 1], np.zeros((3, 2)), [0.0, math.nan, 1.0]])
def test_a_theta_that_is_no_value_is_refused_and_nothing_happens(theta):
    """Positions and rules are named, values are not."""
    stream = design().stream(rng=1)
    with pytest.raises((ReadingError, ConfigurationError)) as caught:
        stream.apply([1.0, 2.0, 3.0], theta=theta)
    assert "7" not in str(caught.value)
    assert stream.count == 0
    assert stream.epoch == 0


def test_theta_must_be_told():
    """A causal stream without theta says so at the first reading, and still takes it afterwards."""
    stream = design().stream()
    with pytest.raises(ReadingError, match="reading 0: the private value has not been told"):
        stream.step(100.0)
    stream.becomes(1)
    stream.step(100.0)
    assert stream.count == 1


def test_what_has_no_meaning_with_a_memory_is_refused(tmp_path):
    """Epochs by hand, shared draws, epochs of times for readings without."""
    made = design()
    with pytest.raises(ConfigurationError, match="decides by its clock"):
        made.stream(1).new_epoch(0)
    with pytest.raises(ConfigurationError, match="joint model"):
        made.stream(1, share="independent")
    with pytest.raises(ReadingError, match="counted by times"):
        made.stream(1, every=dt.timedelta(hours=1)).step(100.0)
    with opened(tmp_path) as ledger:
        made.stream(1, ledger=ledger, name="lab")
        with pytest.raises(ConfigurationError, match="another length"):
            made.stream(1, ledger=ledger, name="lab", every=7)


def test_an_older_ledger_is_refused(tmp_path):
    """With the lost draws the belief is lost, so that even rollback='charge' does not go on."""
    made, rng = design(), np.random.default_rng(13)
    theta, Y = moving(rng, 30)
    with opened(tmp_path) as ledger:
        made.stream(ledger=ledger, name="lab").apply(Y[:10], theta=theta[:10])
    copied(tmp_path / "room.ledger", tmp_path / "old")
    with opened(tmp_path) as ledger:
        us.Stream.open(ledger, made, "lab").apply(Y[10:], theta=theta[10:])
    copied(tmp_path / "old", tmp_path / "room.ledger")
    with opened(tmp_path) as ledger, pytest.raises(RollbackError):
        us.Stream.open(ledger, made, "lab")
    with opened(tmp_path, rollback="charge") as ledger, pytest.raises(RollbackError, match="another name"):
        us.Stream.open(ledger, made, "lab", rollback="charge")


def test_a_change_of_theta_does_not_move_a_decision():
    """Decisions come from the clock: a path that changes within them draws as often as one that stays."""
    made = room_design()
    counts = []
    for theta in ([0] * 30, [0, 1] * 15):
        stream = made.stream(rng=1, every=10)
        stream.apply([100.0] * 30, theta=theta)
        counts.append(stream.epoch)
    assert counts == [3, 3]


def test_texts_tell_no_secret():
    """Neither the stream nor its memory shows a belief or a value."""
    stream = design().stream(theta=1, rng=1)
    stream.step(100.0)
    assert repr(stream) == "Stream('stream', epoch 1, 1 readings, INSECURE: seeded)"
    assert repr(stream._now.position.memory) == "CausalMemory(decisions=1)"


# What must not depend on theta -------------------------------------------------------------------------------


def tilted(**changes):
    """Two levels of which one is rare, so that what a path costs depends on it."""
    levels = us.Family(lambda v: us.IID(us.Gaussian(float(v), 1.0)), values=[0, 1], prior=[0.9, 0.1])
    return design_causal(levels, [[0.9, 0.1], [0.3, 0.7]], distortion=[[0, 1], [1, 0]], **({"slope": 2.5} | changes))


def test_a_stop_in_the_middle_of_a_call_gives_out_what_comes_before_it(tmp_path):
    """All of a call refused would tell of its draws, uncharged; so the stop is where single readings would stop."""
    made, T = tilted(), 40
    released = {}
    for way in ("single", "batch", "run"):
        with opened(tmp_path / way if (tmp_path / way).mkdir() is None else None) as ledger:
            ledger.limit("lab", total=2.6)
            stream = made.stream(ledger=ledger, name="lab", rng=4)
            if way == "single":
                outs = []
                with pytest.raises(BudgetError):
                    outs.extend(stream.step(1.0, theta=1) for _ in range(T))
                for _ in range(T):
                    try:
                        outs.append(stream.step(1.0, theta=1))
                    except BudgetError:
                        break
                row = ledger.stream("lab")
                outs = [v for (v,) in ledger.rows("SELECT value FROM outputs WHERE stream = ? ORDER BY key", row.id)]
            else:
                target = stream if way == "batch" else stream.run("f")
                with pytest.raises(BudgetError, match="readings of this call are recorded") as caught:
                    target.apply([1.0] * T, theta=1)
                outs = caught.value.released.tolist()
                assert stream.count == len(outs)
            released[way] = outs
            assert 0.0 < ledger.spent("lab") <= 2.6
            with pytest.raises(BudgetError):
                stream.step(1.0, theta=1)
    assert 0 < len(released["single"]) < T
    assert released["single"] == released["batch"] == released["run"]


def test_a_draw_cannot_be_made_twice(tmp_path):
    """A call that fails after a decision, and the same again: the same draw, for both kinds of design."""
    made = tilted()
    with opened(tmp_path) as ledger:
        stream = made.stream(ledger=ledger, name="lab")
        draws = set()
        for _ in range(30):
            with pytest.raises(ReadingError):
                stream.apply([0.0, 1.0], keys=[0, 1], theta=[1, 7])
            run = stream.run("probe")
            with pytest.raises(ReadingError):
                run.apply([0.0, 1.0], np.array([0, 1]), theta=[1, 7])
        for _ in range(20):
            copy = us.Stream.restore(made, made.stream(theta=1, rng=3).snapshot())
            copy.step(0.0)
            draws.add(copy._now.epoch.draw)
        assert stream.count == 0
    assert len(draws) == 1


def test_a_value_that_the_chain_does_not_allow_is_not_told_by_a_refusal():
    """The draw is then one that was to be expected, whatever theta is: the same for all impossible values."""
    levels = us.Family(lambda v: us.IID(us.Gaussian(float(v), 1.0)), values=[0, 1, 2], prior=[0.5, 0.5, 0.0])
    stays = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    made = design_causal(levels, stays, slope=1.0, distortion=1.0 - np.eye(3))
    expected = np.array([0.5, 0.5, 0.0]) @ made.kernel((0.5, 0.5, 0.0))
    rng = np.random.default_rng(1)
    found = np.bincount([made.draw(made.start(), 2, rng).pseudo for _ in range(4000)], minlength=3) / 4000
    assert np.abs(found - expected).max() < 0.045  # 5.7 standard errors: 1e-6 for three of them
    stream = made.stream(theta=2)
    stream.apply([0.0] * 5)
    assert stream.count == 5


def test_values_between_which_a_filter_cannot_go_on_are_refused_before_anything_is_drawn():
    """Hidden Markov members with different transitions: a later refusal would depend on theta and on the draw."""
    laws = [us.Gaussian(0.0, 1.0), us.Gaussian(3.0, 1.0)]
    stays = [[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]
    hidden = us.Family({v: us.HiddenMarkov(stays[v], [0.5, 0.5], laws) for v in (0, 1)})
    made = design_causal(hidden, STAY, rate=0.05, distortion=[[0, 1], [1, 0]])
    with pytest.raises(us.errors.ModelError, match="must share their transition"):
        made.stream()


def test_files_do_not_tell_when_theta_changes(tmp_path):
    """The number of the position, which the rollback guard keeps, counts calls alone."""
    serials = []
    for name, theta in (("still", [0] * 40), ("moving", [0, 1] * 20)):
        with opened(tmp_path) as ledger:
            stream = design().stream(ledger=ledger, name=name)
            stream.apply([100.0] * 40, theta=theta)
            stream.becomes(theta[-1])
            serials.append(stream._now.position.serial)
    assert serials[0] == serials[1] == 3


def test_charges_that_an_older_ledger_has_lost_are_booked(tmp_path):
    """The stream is refused, but its room does not get the nats a second time."""
    made, rng = design(), np.random.default_rng(13)
    theta, Y = moving(rng, 60)
    with opened(tmp_path) as ledger:
        made.stream(ledger=ledger, name="lab").apply(Y[:10], theta=theta[:10])
    copied(tmp_path / "room.ledger", tmp_path / "old")
    with opened(tmp_path) as ledger:
        us.Stream.open(ledger, made, "lab").apply(Y[10:], theta=theta[10:])
        spent = ledger.spent("lab")
    copied(tmp_path / "old", tmp_path / "room.ledger")
    for _ in range(2):
        with opened(tmp_path, rollback="charge") as ledger:
            with pytest.raises(RollbackError, match="what was lost is charged"):
                us.Stream.open(ledger, made, "lab")
            assert ledger.spent("lab") == spent


@pytest.mark.parametrize(
    "theta",
    [
        np.ma.array([0, 1, 0], mask=[0, 1, 0]),
        [[0], [0, 1], [1]],
        [np.array([0, 1]), 0, 1],
        [0, None, 1],
    ],
)
def test_odd_columns_are_refused_cleanly(theta):
    """Masked, ragged and empty entries: the position is named."""
    with pytest.raises(ReadingError, match=r"reading 1|shape|reading 0"):
        design().stream().apply([100.0] * 3, theta=theta)


def test_columns_with_missing_entries_are_refused_cleanly():
    """Nullable columns of pandas and arrays of arrow."""
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for column in (pandas.Series([True, None, False], dtype="boolean"), arrow.array([0, None, 1])):
        with pytest.raises(ReadingError, match="reading 1"):
            design().stream().apply([100.0] * 3, theta=column)
    assert design().stream(rng=1).apply([100.0] * 3, theta=arrow.array([0, 0, 1])).shape == (3,)


def test_tuples_may_be_values():
    """A list of them is one for each reading."""
    named = us.Family({(0, "a"): room(0), (1, "b"): room(1)})
    made = design_causal(named, STAY, rate=0.05, horizon=50, distortion="mae")
    out = made.stream(rng=1).apply([100.0] * 3, theta=[(0, "a"), (0, "a"), (1, "b")])
    assert out.shape == (3,)


def test_forbidden_pairs_without_a_common_column_can_be_streamed(tmp_path):
    """No decision can be quiet then: a hold is a stop."""
    inf = math.inf
    levels = us.Family(lambda v: us.IID(us.Gaussian(float(v), 1.0)), values=[0, 1, 2])
    chain = [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]]
    made = design_causal(levels, chain, slope=1.0, distortion=[[0, 1, inf], [inf, 0, 1], [1, inf, 0]])
    with opened(tmp_path) as ledger:
        ledger.limit("lab", total=made.first_charge + 1e-3, when_spent="hold")
        stream = made.stream(theta=0, ledger=ledger, name="lab")
        stream.step(0.0)
        with pytest.raises(BudgetError):
            stream.step(0.0)


def test_states_that_are_none_are_refused():
    """What `draw` is given must be what it gave."""
    made = design()
    for state in (None, (0.5, 0.5), ((0.9, 0.9), 0), ((1.0,), 0)):
        with pytest.raises(us.errors.StateError):
            made.draw(state, 0)
    assert made.draw(made.start(), 0, left=math.nan).charge == 0.0
