"""A fleet is one stream a room, bit for bit: for every model, through gaps, epochs, switches, crashes and bad input."""

import contextlib
import datetime as dt
import functools
import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.errors import ConfigurationError, LedgerError, ReadingError, RollbackError, SnapshotError
from understudy.models.adaptive import AdaptivePrior
from understudy.randomizer.routine import STEPS, Routine
from understudy.stream.cadence import NUMBER, TIME
from understudy.stream.engine import Clock
from understudy.stream.fleet import BUCKET, Decisions, Rule
from understudy.stream.ledger_file import StreamRow

KEY = us.MasterKey(bytes(range(32)))
MINUTE = 60 * 10**9


class Table:
    """A store of decisions in memory, for tests."""

    def __init__(self):
        self.rows, self.asked = {}, 0

    def decide(self, proposed):
        standing = []
        for row in zip(*(column.tolist() for column in proposed), strict=True):
            self.asked += 1
            standing.append(self.rows.setdefault(row[:2], row))
        return Decisions(*(np.array(column) for column in zip(*standing, strict=True)))


def room(occupants, A=0.95):
    return us.GaussMarkov(A=A, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)


def two_channels(level):
    return us.GaussMarkov(
        A=[[0.9, 0.1], [0.0, 0.7]], C=[[1.0, 0.0], [0.5, 1.0]], Q=np.diag([0.1, 0.2]), R=np.diag([0.3, 0.1]),
        b=[level, 1.0], mean0=[10.0, 3.0], cov0=np.eye(2),
    )  # fmt: skip


def gauss(level):
    return us.IID(us.Gaussian(level, 1.0))


def laplace(level):
    from scipy import stats

    return us.IID(us.Scalar(stats.laplace(loc=level)))


def on_grid(occupants):
    return us.Quantised(us.GaussMarkov(A=0.9, C=1.0, Q=1.0, R=1.0, b=occupants, mean0=10.0, cov0=1.0), step=0.5)


def hidden(level):
    laws = [us.Gaussian(level, 1.0), us.Gaussian(level + 3.0, 2.0)]
    return us.HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], laws)


def recursion(level):
    return us.AutoRegressive([0.5, 0.2], intercept=level, noise=us.Gaussian(0.0, 1.0))


@functools.cache
def make_design(model, values=(0, 1), horizon=10):
    return us.design(us.Family(model, values=list(values)), leakage=0.2, horizon=horizon, distortion="mae")


@pytest.fixture(scope="module")
def design():
    return make_design(room)


@pytest.fixture(scope="module")
def causal():
    family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    return us.design_causal(family, [[0.9, 0.1], [0.2, 0.8]], rate=0.05, horizon=20, distortion="mae")


def stream_of(design, name, namespace, epoch=None, period=None, gaps=None):
    """A stream of a room of a fleet: begun untold, under the key of the room."""
    options = {"index": "clock", **(design.own_epochs or Clock.checked(epoch))}
    if design.kind != "coin":
        options["draws"] = "released"
    if period is not None:
        options["cadence"] = [period, period // 2, 0]
    if gaps is not None:
        options["gaps"] = gaps
    key = KEY.room_key(namespace, design.fingerprint, name)
    return us.Stream.begin(design, None, None, StreamRow(0, name, name, design.fingerprint, key, False, options))


def a_history(design, rng, rooms, count, missing=0.1, timed=True, simulate=None):
    """Interleaved readings of many rooms: rooms, keys, readings and private values."""
    number = rng.integers(0, rooms, count)
    gaps = np.where(rng.random(count) < 0.05, rng.integers(1, 40, count), 1)
    keys, last = np.empty(count, dtype=np.int64), rng.integers(0, 50, rooms)
    theta, values = np.empty(count, dtype=np.int64), rng.integers(0, 2, rooms)
    dim = design.family.model(0).dim
    Y = np.empty((count, dim))
    pool = us.sample(design.family.model(1), count, rng=rng) if simulate is None else simulate
    for i in range(count):
        r = number[i]
        last[r] += gaps[i]
        keys[i] = last[r]
        if rng.random() < 0.05:
            values[r] = 1 - values[r]
        theta[i] = values[r]
        Y[i] = pool[i]
    Y[rng.random(count) < missing] = np.nan
    if timed:
        keys = keys * MINUTE + rng.integers(-MINUTE // 4, MINUTE // 4, count)
    return number, keys, Y, theta


def play(design, history, rooms, epoch, period, gaps=None, cuts=3):
    """Outputs of a fleet, in several calls, and of one stream a room; the charges of both."""
    number, keys, Y, theta = history
    fleet = us.Fleet(
        design, Table(), "plant", key=KEY, rooms=[f"room {i}" for i in range(rooms)], epoch=epoch,
        period=None if period is None else dt.timedelta(microseconds=period // 1000), gaps=gaps,
    )  # fmt: skip
    timed = period is not None
    ours, theirs = np.empty(Y.shape), np.empty(Y.shape)
    for rows in np.array_split(np.arange(len(Y)), cuts):
        given = keys[rows].view("datetime64[ns]") if timed else keys[rows]
        found = fleet.outcome(number[rows], given, Y[rows], theta[rows])
        assert found.counts == {"taken": len(rows)}, found.counts
        ours[rows] = found.outputs
    streams = [stream_of(design, f"room {i}", "plant", epoch, period, gaps) for i in range(rooms)]
    for i, r in enumerate(number):
        key = np.datetime64(int(keys[i]), "ns") if timed else int(keys[i])
        y = Y[i, 0] if Y.shape[1] == 1 else Y[i]
        theirs[i] = streams[r].step(y if Y.shape[1] > 1 else float(y), key, theta=int(theta[i]))
    spent = [[fleet.spent(f"room {i}") for i in range(rooms)], [stream.spent for stream in streams]]
    return ours, theirs, spent, fleet, streams


def heavy(level):
    from scipy import stats

    return us.AutoRegressive([0.5, 0.2], intercept=level, noise=us.Scalar(stats.laplace()))


def t_noise(scale=1.0):
    from scipy import stats

    return us.Scalar(stats.t(3.0, 0.0, scale))


def mixed(level):
    noise = us.Mixture([0.9, 0.1], [us.Gaussian(0.0, 1.0), us.Gaussian(0.0, 25.0)])
    return us.AutoRegressive(0.6, intercept=level, noise=noise)


def lives_on_grid(level):
    return us.OnGrid(
        us.AutoRegressive([0.5, 0.2], intercept=30.0 + level, noise=t_noise(3.0), past=[100.0, 100.0]), 1.0
    )


def walks_on_grid(level):
    return us.OnGrid(us.GaussMarkov(A=0.9, C=1.0, Q=1.0, R=1.0, b=level, mean0=10.0, cov0=1.0), 0.5)


def two_on_grid(level):
    noise = us.GaussianCopula([[1.0, 0.5], [0.5, 1.0]], [t_noise(), us.Gaussian(0.0, 4.0)])
    return us.OnGrid(us.AutoRegressive([np.diag([0.5, 0.3])], intercept=[level, 1.0], noise=noise), [0.5, 1.0])


def two_rounded(level):
    return us.Quantised(two_channels(level), step=[0.1, 0.2], method="moments")


def counts(level):
    laws = [us.Atoms([0.0, 1.0, 2.0], p) for p in ([0.6, 0.3, 0.1], [0.1 + 0.1 * level, 0.3, 0.6 - 0.1 * level])]
    return us.HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], laws)


def dice(level):
    return us.IID(us.Atoms([0.0, 1.0, 2.0], [0.5 - 0.1 * level, 0.3, 0.2 + 0.1 * level]))


@functools.cache
def learned(values=2):
    """What adaptive models know beforehand, with a second stage and the autoregressions that stand for them."""
    targets = [us.AutoRegressive([0.6, 0.2, 0.1], 10.0 + 2.0 * v, t_noise(), past=[100.0] * 3) for v in range(values)]
    known = {"mean": np.zeros((values, 7)), "cov": np.stack([np.eye(7) / 50.0] * values), "variance": [1.0, 4.0]}
    return AdaptivePrior(**known, centre=100.0, spread=10.0, counts=np.ones((values, 18, 8)), targets=targets)


def adaptive(level):
    return us.Adaptive(learned(), level)


def adapts_on_grid(level):
    return us.OnGrid(us.Adaptive(learned(), level), 0.5)


MODELS = {
    "room": room,
    "adaptive": adaptive,
    "adapts on grid": adapts_on_grid,
    "mixed": mixed,
    "lives on grid": lives_on_grid,
    "walks on grid": walks_on_grid,
    "two on grid": two_on_grid,
    "two rounded": two_rounded,
    "counts": counts,
    "dice": dice,
    "two channels": two_channels,
    "recursion": recursion,
    "gauss": gauss,
    "laplace": laplace,
    "grid": on_grid,
    "hidden": hidden,
    "heavy": heavy,
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("timed", [False, True], ids=["numbers", "times"])
def test_bit_for_bit_one_stream_a_room(name, timed):
    design = make_design(MODELS[name])
    rng = np.random.default_rng(5)
    gaps = "withhold" if name in WITHHOLD else None
    history = a_history(design, rng, 7, 400 if name in ("room", "two channels") else 150, timed=timed)
    epoch = dt.timedelta(hours=1) if timed else 30
    ours, theirs, spent, fleet, _ = play(design, history, 7, epoch, MINUTE if timed else None, gaps)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert spent[0] == spent[1]
    assert fleet.columnar
    assert fleet.portable == (name in ("room", "two channels", "recursion"))
    assert np.isfinite(ours).sum() > (0.3 if gaps else 0.5) * len(ours)


def hidden_on_grid(level):
    return us.OnGrid(hidden(level), 0.25)


def point_masses(level):
    return us.Quantised(
        us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=level, mean0=10.0, cov0=1.0), step=4.0, method="point-mass"
    )


@pytest.mark.parametrize("model", [hidden_on_grid, point_masses])
def test_models_without_columns_go_one_by_one_with_the_same_bits(model):
    design = make_design(model)
    history = a_history(design, np.random.default_rng(5), 4, 60)
    ours, theirs, spent, fleet, _ = play(design, history, 4, dt.timedelta(hours=1), MINUTE)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert spent[0] == spent[1]
    assert not fleet.columnar


def test_withheld_readings_of_models_that_need_none_go_side_by_side(design):
    """Gauss-Markov models have a law across gaps: what may be withheld changes neither the loop nor the bits."""
    history = a_history(design, np.random.default_rng(5), 7, 200)
    ours, theirs, _, fleet, _ = play(design, history, 7, None, MINUTE, "withhold")
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert fleet.portable


@pytest.mark.parametrize("name", [*MODELS, "fresh room", "fresh grid"])
def test_rooms_go_side_by_side(name, monkeypatch):
    """One reading of each of many rooms a call, some missing, through two epochs: no room runs by itself."""
    design = fresh_design(MODELS[FRESH[name]]) if name in FRESH else make_design(MODELS[name])
    rng = np.random.default_rng(8)
    rooms, T, d, grown = 40, 6, design.family.model(0).dim, []
    single = us.Fleet._run_alone
    monkeypatch.setattr(us.Fleet, "_run_alone", lambda *args: grown.append(1) or single(*args))
    gaps = "withhold" if FRESH.get(name, name) in WITHHOLD else None
    names = [f"room {i}" for i in range(rooms)]
    fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=names, epoch=3, gaps=gaps)
    streams = [stream_of(design, each, "plant", 3, None, gaps) for each in names]
    theta, Y = rng.integers(0, 2, rooms), us.sample(design.family.model(0), T, n=rooms, rng=rng)
    Y = np.moveaxis(Y, 2, 1).copy()  # (T, rooms, d)
    for k in range(T):
        if gaps is None:
            Y[k, (np.arange(rooms) + k) % 9 == 8] = np.nan
        given = Y[k] if d > 1 else Y[k, :, 0]
        found = fleet.outcome(np.arange(rooms), np.full(rooms, k), given, theta)
        assert found.counts == {"taken": rooms}
        theirs = [streams[i].step(given[i] if d > 1 else float(given[i]), k, theta=int(theta[i])) for i in range(rooms)]
        assert np.array_equal(found.outputs, np.array(theirs), equal_nan=True), k
    # where models wait for readings after a gap, a change that comes meanwhile is for the room alone
    assert len(grown) == 0 or gaps is not None


FRESH = {"fresh room": "room", "fresh grid": "lives on grid"}
WITHHOLD = ("heavy", "mixed", "lives on grid", "two on grid", "adaptive", "adapts on grid")


def fresh_design(model):
    family = us.Family(model, values=[0, 1])
    return us.design(family, leakage=0.2, horizon=10, distortion="mae", fresh=0.3)


def test_bit_for_bit_with_memory(causal):
    rng = np.random.default_rng(6)
    history = a_history(causal, rng, 5, 200)
    ours, theirs, spent, fleet, _ = play(causal, history, 5, dt.timedelta(minutes=15), MINUTE)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert spent[0] == spent[1]
    assert fleet.columnar


def coin(**options):
    return us.design_coin(q=0.5, resolution=0.01, **options)


COINS = {
    "constant": lambda timed: coin(constant=420.0, epoch=dt.timedelta(hours=1) if timed else 30),
    "public phase": lambda timed: coin(
        constant=420.0, epoch=dt.timedelta(hours=1) if timed else 30, phase=dt.timedelta(minutes=7) if timed else 4
    ),
    "lifelike": lambda timed: coin(hide="lifelike", model=room(1), epoch=dt.timedelta(hours=1) if timed else 30),
}


@pytest.mark.parametrize("name", COINS)
@pytest.mark.parametrize("timed", [False, True], ids=["numbers", "times"])
def test_bit_for_bit_with_a_coin(name, timed):
    """Whole epochs are shown or hidden, each room with edges of its own unless their phase is public."""
    design = COINS[name](timed)
    rng = np.random.default_rng(5)
    pool = np.round(us.sample(room(1), 300, rng=rng), 2)
    history = a_history(design, rng, 7, 300, timed=timed, simulate=pool)
    ours, theirs, spent, fleet, _ = play(design, history, 7, None, MINUTE if timed else None)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert spent[0] == spent[1]
    assert not fleet.columnar
    shown = (ours == history[2]).mean()
    assert 0.2 < shown < 0.8


def test_a_coin_comes_without_a_value_and_hides_where_the_budget_is_spent():
    design, keys = coin(constant=420.0, epoch=2, phase=0), np.arange(8)
    given = ["a"] * 8, keys, 500.0 + keys
    free, told = (us.Fleet(design, Table(), "plant", key=KEY, rooms=["a"]).apply(*given, theta) for theta in (None, 1))
    assert np.array_equal(free, told)
    for paid in (0, 2):  # epochs
        total = paid * design.leakage + 1e-5  # a charge is rounded up
        spent = us.Fleet(design, Table(), "plant", key=KEY, rooms=["a"], total=total, when_spent="hold")
        out = spent.apply(*given)
        assert np.array_equal(out[: 2 * paid], free[: 2 * paid])
        assert (out[2 * paid :] == 420.0).all()
        assert spent.spent("a") == pytest.approx(paid * design.leakage, abs=1e-5)


@functools.cache
def by_clock(offset=0, zone=None):
    """A design by the clock, of any shares, for rooms with a reading a minute."""
    coarse = np.random.default_rng(1).dirichlet(np.ones(2), size=(2, 8))
    seen = Routine(np.repeat(coarse, STEPS // 8, axis=1), 3.0, offset, (5, 2), 3600.0, zone)
    models = {v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=2.0 * v) for v in (0, 1)}
    family = us.Family(models, about={"period": 60.0, "readings": ["co2"], "private": "people", "time": "date"})
    return us.design_causal(family, clock=seen, decision_every=60, distortion=[[0.0, 1.0], [1.0, 0.0]], slope=2.0)


@pytest.mark.parametrize(("offset", "zone"), [(0, None), (7200, None), (3600, "Europe/Berlin")])
def test_bit_for_bit_by_the_clock(offset, zone):
    """Decisions at the hours of a public clock, ahead of UTC or not; other epochs are refused."""
    design, rng = by_clock(offset, zone), np.random.default_rng(6)
    history = a_history(design, rng, 5, 200)
    ours, theirs, spent, fleet, _ = play(design, history, 5, None, MINUTE)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert spent[0] == spent[1]
    assert fleet.columnar
    with pytest.raises(ConfigurationError, match="epochs of its own"):
        us.Fleet(design, Table(), "plant", key=KEY, epoch=dt.timedelta(hours=2), period=60)


@pytest.mark.parametrize("name", ["room", "two channels", "heavy", "grid", "memory"])
def test_bit_for_bit_with_a_fresh_share(name):
    """Each slot of each room has chance of its own, the same in a fleet and in a stream."""
    family = us.Family(MODELS.get(name, room), values=[0, 1])
    how = {"horizon": 5, "distortion": "mae", "accuracy": 0.2, "fresh": 0.6}
    if name == "memory":
        design = us.design_causal(family, [[0.9, 0.1], [0.2, 0.8]], rate=0.05, **how)
    else:
        design = us.design(family, leakage=0.2, **how)
    history = a_history(design, np.random.default_rng(5), 4, 80)
    gaps = "withhold" if name == "heavy" else None
    ours, theirs, spent, _, _ = play(design, history, 4, dt.timedelta(minutes=14), MINUTE, gaps)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert spent[0] == spent[1]
    assert len(np.unique(ours[np.isfinite(ours)])) > 0.3 * ours.size


# Batches, and what survives --------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 5))
def test_how_a_history_is_cut_does_not_matter(design, seed, rooms, cuts):
    rng = np.random.default_rng(seed)
    number, keys, Y, theta = a_history(design, rng, rooms, 80)
    names, times = [f"room {i}" for i in range(rooms)], keys.view("datetime64[ns]")
    outs, arrows = [], []
    for n in (1, cuts, len(Y)):
        fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=names, epoch=dt.timedelta(minutes=20), period=60)
        parts = np.array_split(np.arange(len(Y)), n)
        outs.append(np.concatenate([fleet.apply(number[p], times[p], Y[p, 0], theta[p]) for p in parts]))
        arrows.append(fleet.to_arrow())
    assert all(np.array_equal(out, outs[0], equal_nan=True) for out in outs)
    assert all(table.equals(arrows[0]) for table in arrows)


def test_a_room_out_of_range_is_disguised_like_a_stream(design):
    """A glitch is coloured from a fresh score: the room runs by itself for that, and the others do not notice."""
    rng = np.random.default_rng(2)
    number, keys, Y, theta = a_history(design, rng, 4, 120, timed=False)
    Y[30], Y[31], Y[77] = 1e9, -1e9, 1e17
    ours, theirs, spent, _, _ = play(design, (number, keys, Y, theta), 4, None, None)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert np.isfinite(ours[30])
    assert spent[0] == spent[1]


def test_gaps_longer_than_the_loop_walks_are_leapt_over(design):
    number, keys = np.array([0, 1, 0, 1]), np.array([0, 0, 9000, 1]) * MINUTE
    history = number, keys, np.array([[101.5001], [99.123], [100.7], [98.2]]), np.array([1, 0, 1, 0])
    ours, theirs, _, _, _ = play(design, history, 2, None, MINUTE, cuts=2)
    assert np.array_equal(ours, theirs)


def a_fleet(tmp_path, design, rooms=3, **options):
    ledger = us.Ledger(tmp_path / "plant.ledger", rollback_guard=tmp_path / "guard")
    names = [f"room {i}" for i in range(rooms)]
    return ledger, us.Fleet(design, ledger, "plant", key=KEY, rooms=names, **options)


def test_a_ledger_keeps_a_fleet(tmp_path, design):
    rng = np.random.default_rng(3)
    number, keys, Y, theta = a_history(design, rng, 3, 90)
    times = keys.view("datetime64[ns]")
    options = {"epoch": dt.timedelta(minutes=30), "period": 60}
    whole = us.Fleet(design, Table(), "plant", key=KEY, rooms=[f"room {i}" for i in range(3)], **options)
    expected = whole.apply(number, times, Y, theta)
    found = np.empty_like(Y)
    for part in np.array_split(np.arange(len(Y)), 9):
        ledger, fleet = a_fleet(tmp_path, design, **options)
        found[part] = fleet.apply(number[part], times[part], Y[part], theta[part])
        assert [fleet.spent(room) for room in fleet.rooms] == [
            pytest.approx(sum(row[7] for row in decisions(ledger, i)) / 1e6) for i in range(3)
        ]
        ledger.close()
    assert np.array_equal(found, expected, equal_nan=True)


def decisions(ledger, room):
    return ledger.rows("SELECT * FROM decisions WHERE room = ? ORDER BY tick", room)


def test_many_buckets(tmp_path, design):
    rooms = BUCKET + 5
    ledger, fleet = a_fleet(tmp_path, design, rooms)
    last = np.array([rooms - 1, 2])
    fleet.apply(last, np.array([1, 1]), [101.25, 99.75], [1, 0])
    again = us.Fleet
    ledger.close()
    ledger, again = a_fleet(tmp_path, design, rooms)
    assert [again.count(f"room {i}") for i in (0, 2, rooms - 1)] == [0, 1, 1]
    assert again.rooms == fleet.rooms
    ledger.close()


def test_an_older_ledger_is_refused(tmp_path, design):
    ledger, fleet = a_fleet(tmp_path, design)
    fleet.apply(["room 0"], [1], [101.2], [1])
    ledger.close()
    old = (tmp_path / "plant.ledger").read_bytes()
    ledger, fleet = a_fleet(tmp_path, design)
    fleet.apply(["room 0"], [2], [101.7], [1])
    ledger.close()
    (tmp_path / "plant.ledger").write_bytes(old)
    with pytest.raises(RollbackError):
        a_fleet(tmp_path, design)


def test_a_failed_commit_leaves_everything_as_it_was(tmp_path, design, monkeypatch):
    ledger, fleet = a_fleet(tmp_path, design)
    first = fleet.apply(["room 0", "room 1"], [1, 1], [101.2, 99.3], [1, 0])
    before = fleet.to_arrow()

    def full(*_):
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(ledger, "_commit", full)
        with pytest.raises(LedgerError):
            fleet.apply(["room 0", "room 1"], [2, 2], [101.8, 99.1], [0, 0])
    found = fleet.outcome(["room 0", "room 1"], [2, 2], [101.8, 99.1], [0, 0])
    assert found.counts == {"taken": 2}
    twin = us.Fleet(design, Table(), "plant", key=KEY, rooms=fleet.rooms)
    assert np.array_equal(twin.apply(["room 0", "room 1"], [1, 1], [101.2, 99.3], [1, 0]), first)
    assert twin.to_arrow().drop_columns(["room"]).equals(before.drop_columns(["room"]))
    assert np.array_equal(twin.apply(["room 0", "room 1"], [2, 2], [101.8, 99.1], [0, 0]), found.outputs)
    ledger.close()


def test_arrow_and_back(tmp_path, design):
    rng = np.random.default_rng(8)
    number, keys, Y, theta = a_history(design, rng, 4, 100, timed=False)
    table = Table()
    one = us.Fleet(design, table, "plant", key=KEY, rooms=[f"room {i}" for i in range(4)], epoch=10)
    one.apply(number[:60], keys[:60], Y[:60], theta[:60])
    arrow = one.to_arrow()
    guard = tmp_path / "guard"
    other = us.Fleet.from_arrow(arrow, design, table, key=KEY, rollback_guard=guard)
    expected = one.apply(number[60:], keys[60:], Y[60:], theta[60:])
    assert np.array_equal(other.apply(number[60:], keys[60:], Y[60:], theta[60:]), expected, equal_nan=True)
    # an older table is refused; without a guard it finds the decisions that stand, and gives the same outputs
    with pytest.raises(RollbackError):
        us.Fleet.from_arrow(arrow, design, table, key=KEY, rollback_guard=guard)
    third = us.Fleet.from_arrow(arrow, design, table, key=KEY)
    assert np.array_equal(third.apply(number[60:], keys[60:], Y[60:], theta[60:]), expected, equal_nan=True)


def test_arrow_holds_no_key_and_few_bytes(design):
    pa = pytest.importorskip("pyarrow")
    fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=[f"room-{i:06d}" for i in range(1000)])
    fleet.apply(np.arange(1000), np.ones(1000, dtype=np.int64), np.full(1000, 100.1234567), np.ones(1000, dtype=int))
    table = fleet.to_arrow()
    assert table.nbytes <= 120 * 1000
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stored = sink.getvalue().to_pybytes()
    read = pa.ipc.open_stream(stored).read_all()
    assert us.Fleet.from_arrow(read, design, fleet._store, key=KEY).count("room-000999") == 1
    secrets = [bytes(range(32)), *(KEY.room_key("plant", design.fingerprint, room) for room in fleet.rooms)]
    assert not any(secret in stored or secret.hex().encode() in stored for secret in secrets)


@pytest.mark.parametrize("model", [room, hidden])
def test_another_processor_is_refused_where_the_bits_depend_on_it(tmp_path, model, monkeypatch):
    """Tables that move, and runs that are repeated; Gauss-Markov models have the same bits everywhere."""
    design, table = make_design(model), Table()
    given = ["a", "b"], np.array([1, 1]), np.array([100.1234567, 99.7654321])
    moved = us.Fleet(design, table, "plant", key=KEY, rooms=["a", "b"])
    moved.apply(*given, theta=[0, 1])
    arrow = moved.to_arrow()
    ledger, fleet = a_fleet(tmp_path, design, 0)
    fleet.admit(["a", "b"])
    run = fleet.run("file")
    first = run.outcome(*given[:2], given[2][:, None], np.array([0, 1])).outputs
    run.finish()
    us.Fleet.from_arrow(arrow, design, table, key=KEY)
    monkeypatch.setattr("understudy.stream.snapshot._processor", lambda: "another")
    if model is room:
        assert us.Fleet.from_arrow(arrow, design, table, key=KEY).portable
        again = fleet.run("file").outcome(*given[:2], given[2][:, None], np.array([0, 1])).outputs
        assert np.array_equal(again, first)
    else:
        with pytest.raises(SnapshotError, match="another machine"):
            us.Fleet.from_arrow(arrow, design, table, key=KEY)
        with pytest.raises(LedgerError, match="another machine"):
            fleet.run("file")
    ledger.close()


def test_a_table_that_was_changed_or_is_not_ours_is_refused(design):
    pa = pytest.importorskip("pyarrow")
    fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=["a", "b"])
    fleet.apply(["a", "b"], [1, 1], [101.2, 99.9], [1, 0])
    good = fleet.to_arrow()
    bad = good.set_column(1, "source", pa.array([0, 0], pa.int16()))
    for table, message in ((bad, "checksum"), (good.replace_schema_metadata({}), "metadata")):
        with pytest.raises(SnapshotError, match=message):
            us.Fleet.from_arrow(table, design, Table(), key=KEY)
    with pytest.raises(SnapshotError, match="another"):
        us.Fleet.from_arrow(good, design, Table(), key=us.MasterKey(bytes(32)))


# Decisions ------------------------------------------------------------------------------------------


def test_a_decision_stands_whatever_comes_later(design):
    """A room whose state was lost meets the draw that was decided, under whatever value it comes with now."""
    table = Table()
    keys = np.arange(1, 41)
    first = us.Fleet(design, table, "plant", key=KEY, rooms=[f"room {i}" for i in range(40)])
    first.apply(np.arange(40), np.ones(40, dtype=int), np.full(40, 100.123), np.zeros(40, dtype=int))
    standing = dict(table.rows)
    again = us.Fleet(design, table, "plant", key=KEY, rooms=[f"room {i}" for i in range(40)])
    again.apply(np.arange(40), np.ones(40, dtype=int), np.full(40, 100.123), np.ones(40, dtype=int))
    assert table.rows == standing
    assert again.to_arrow()["draw"].to_pylist() == first.to_arrow()["draw"].to_pylist()
    # the twin: without the table, the same bits under two values give other draws
    free = us.Fleet(design, Table(), "plant", key=KEY, rooms=[f"room {i}" for i in range(40)])
    free.apply(np.arange(40), np.ones(40, dtype=int), np.full(40, 100.123), np.ones(40, dtype=int))
    assert free.to_arrow()["draw"].to_pylist() != first.to_arrow()["draw"].to_pylist()
    assert len(keys) == 40


def test_late_rows_do_not_change_a_draw(design):
    """The index of a draw holds the tick, and not the number of readings before it."""
    plain = us.Fleet(design, Table(), "plant", key=KEY, rooms=["a"], epoch=10)
    fuller = us.Fleet(design, Table(), "plant", key=KEY, rooms=["a"], epoch=10)
    plain.apply(["a"] * 3, [1, 11, 21], [101.1, 100.2, 99.3], [1, 1, 0])
    fuller.apply(["a"] * 5, [1, 5, 11, 12, 21], [101.1, 100.7, 100.2, 100.9, 99.3], [1, 1, 1, 1, 0])
    assert plain._store.rows == fuller._store.rows


def test_a_fleet_without_a_store_of_decisions_is_refused(design):
    with pytest.raises(ConfigurationError, match="store"):
        us.Fleet(design, None, "plant", key=KEY)


# Bad input ------------------------------------------------------------------------------------------


def test_every_rule_and_the_others_go_on(design):
    fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=["a", "b", "c"])
    fleet.apply(["a", "b"], [10, 10], [101.25, 99.5], [1, 0])
    rooms = ["a", "b", "a", "ghost", "c", "b", "a", "b", "a"]
    keys = [10, 9, 11, 11, 11, 11, 12, 12, 12]
    Y = [101.2, 99.9, 100.7, 100.0, 100.0, np.inf, 100.2, 99.123, 98.4]
    theta = [1, 0, 1, 1, None, 0, 7, None, 1]
    found = fleet.outcome(rooms, keys, Y, theta)
    expected = ["DUPLICATE", "LATE", "TAKEN", "UNKNOWN_ROOM", "UNTOLD", "INFINITE", "UNKNOWN_VALUE", "TAKEN", "TAKEN"]
    assert [Rule(int(rule)).name for rule in found.rules] == expected
    assert np.array_equal(np.isfinite(found.outputs), np.array(expected) == "TAKEN")
    assert found.counts["taken"] == 3
    text = repr(fleet) + repr(found.counts)
    assert "101.2" not in text
    assert "theta" not in text


def test_within_a_call_the_first_of_equal_keys_wins(design):
    fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=["a", "b"])
    found = fleet.outcome(["a", "a", "b", "a", "a"], [1, 1, 1, 3, 2], [100.1, 105.2, 99.1, 100.4, 101.3], 1)
    assert [Rule(int(rule)).name for rule in found.rules] == ["TAKEN", "DUPLICATE", "TAKEN", "TAKEN", "LATE"]


def test_rooms_appear_by_themselves_up_to_a_limit(design):
    fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=["a"], admit=3)
    found = fleet.outcome(["a", "x", "y", "z"], [1, 1, 1, 1], [100.1, 100.2, 100.3, 100.4], 1)
    assert found.counts == {"taken": 3, "unknown_room": 1}
    assert fleet.rooms == ["a", "x", "y"]


def test_budgets_of_each_room(design):
    nats = design.leakage_of_draw("design")
    fleet = us.Fleet(
        design, Table(), "plant", key=KEY, rooms=["a", "b"], epoch=10, total=2.5 * design.leakage_of_draw()
    )
    rules = []
    for k in range(5):
        found = fleet.outcome(
            ["a", "b"] if k < 2 else ["a"], [10 * k + 1] * (2 if k < 2 else 1), [100.3] * (2 if k < 2 else 1), 1
        )
        rules.append(next(Rule(int(rule)).name for rule in found.rules))
    assert rules[:2] == ["TAKEN", "TAKEN"]
    assert rules[-1] == "BUDGET"
    assert fleet.spent("a") <= 2.5 * design.leakage_of_draw()
    assert fleet.outcome(["b"], [12], [100.7], 1).counts == {"taken": 1}
    assert nats > 0.0


def test_a_budget_by_period_counts_the_time_of_readings(design):
    worst = design.leakage_of_draw()
    options = {"epoch": dt.timedelta(hours=1), "period": 60, "amount": 1.5 * worst, "per": dt.timedelta(days=1)}
    fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=["a"], **options)
    hours = np.array([0, 1, 2, 24, 25, 26]) * 60 * MINUTE
    found = fleet.outcome(["a"] * 6, hours.view("datetime64[ns]"), np.full(6, 100.123), 1)
    assert [Rule(int(rule)).name for rule in found.rules] == ["TAKEN", "BUDGET", "BUDGET", "TAKEN", "BUDGET", "BUDGET"]
    # a retry, whenever it comes, decides alike: the sums are those of the events
    hold = us.Fleet(design, Table(), "plant", key=KEY, rooms=["a"], when_spent="hold", **options)
    kept = hold.outcome(["a"] * 6, hours.view("datetime64[ns]"), np.full(6, 100.123), 1)
    assert kept.counts == {"taken": 6}
    assert hold.spent("a") == fleet.spent("a")


def test_a_room_whose_readings_lie_on_a_grid_stops_and_the_others_go_on(design):
    fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=["coarse", "fine"])
    rng = np.random.default_rng(4)
    rules = []
    for k in range(70):
        Y = [100.0 + 0.5 * (k % 3), 100.0 + rng.random()]
        rules.append(fleet.outcome(["coarse", "fine"], [k, k], Y, 1).rules.tolist())
    assert [row[0] for row in rules].index(Rule.COARSE) == 63
    assert all(row[1] == Rule.TAKEN for row in rules)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((["a"], [1], [[1.0, 2.0]], 1), "channels"),
        ((["a", "b"], [1], [1.0], 1), "rooms for"),
        ((["a"], [1, 2], [1.0], 1), "keys for"),
        ((["a"], [1], ["warm"], 1), "numbers"),
        ((["a"], [1], [100.1], [1, 0]), "theta has the shape"),
        ((["a"], [np.datetime64("2026-01-01")], [100.1], 1), "cadence"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(design, given, message):
    fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=["a"])
    with pytest.raises(ReadingError, match=message):
        fleet.apply(*given)


def test_options_are_for_good(tmp_path, design):
    ledger, _ = a_fleet(tmp_path, design, epoch=10)
    with pytest.raises(ConfigurationError, match="for good"):
        us.Fleet(design, ledger, "plant", key=KEY, epoch=20)
    with pytest.raises(LedgerError, match="master key"):
        us.Fleet(design, ledger, "plant", key=us.MasterKey(bytes(32)), epoch=10)
    with pytest.raises(LedgerError, match="another design"):
        us.Fleet(make_design(gauss), ledger, "plant", key=KEY, epoch=10)
    ledger.close()


def test_kinds_of_keys_are_what_the_stream_has():
    assert (NUMBER, TIME) == ("number", "time")


def test_the_ledger_shows_and_checks_its_fleets(tmp_path, design):
    from understudy.stream.inspection import summary, verify

    ledger, fleet = a_fleet(tmp_path, design)
    fleet.apply(["room 0", "room 1"], [1, 1], [101.2, 99.3], [1, 0])
    ledger.close()
    path = tmp_path / "plant.ledger"
    shown = summary(path)["fleets"][0]
    assert (shown["name"], shown["rooms"], shown["draws"], shown["key"]) == ("plant", 3, 2, KEY.id)
    assert shown["charged_nats"] == pytest.approx(2 * design.leakage, abs=1e-5)
    assert all(finding.passed for finding in verify(path))
    for table, change in (("decisions", "draw = 1 - draw"), ("buckets", "content = x'00'"), ("fleets", "serial = 7")):
        before = path.read_bytes()
        with sqlite3.connect(path) as db:
            db.execute(f"UPDATE {table} SET {change}")  # noqa: S608  # names of ours
        db.close()
        assert sum(not finding.passed for finding in verify(path)) == 1
        path.write_bytes(before)


def test_readings_of_a_declared_form(tmp_path):
    """Readings in single precision are moved to the grid of the models; others meet their rule."""
    family = us.Family(on_grid, values=[0, 1])
    made = us.design(family, leakage=0.2, horizon=10, distortion="mae", readings="6 digits")
    fleet = us.Fleet(made, Table(), "plant", key=KEY, rooms=["a", "b"])
    found = fleet.outcome(["a", "b"], [1, 1], [10.1234, 10.12345678901], [1, 0])
    assert found.counts == {"taken": 1, "form": 1}
    stream = stream_of(made, "a", "plant")
    assert found.outputs[0] == stream.step(10.1234, 1, theta=1)


def test_a_model_that_raises_stops_its_room_alone():
    class Own:
        """A model of one's own, independent readings, with a fault that can be switched on."""

        dim, atoms, broken = 1, False, False

        def __init__(self, level):
            self.law = us.Gaussian(level, 1.0)

        def start(self):
            return (0,)

        def predict(self, state):
            return self.law

        def update(self, state, y):
            if Own.broken and y > 2.0:
                raise ZeroDivisionError("a fault")
            return (state[0] + 1,)

        def skip(self, state):
            return (state[0] + 1,)

    made = us.design(us.Family(Own, values=[0, 1]), leakage=0.2, horizon=5, distortion="mae", accuracy=0.2, rng=1)
    fleet = us.Fleet(made, Table(), "plant", key=KEY, rooms=["a", "b"])
    assert fleet.outcome(["a", "b"], [1, 1], [2.23456789123, 0.123456789123], 1).counts == {"taken": 2}
    Own.broken = True
    found = fleet.outcome(["a", "b"], [2, 2], [2.23456789123, 0.123456789123], 1)
    assert [Rule(int(rule)) for rule in found.rules] == [Rule.MODEL, Rule.TAKEN]
    Own.broken = False
    assert fleet.outcome(["a", "b"], [3, 3], [2.23456789123, 0.123456789123], 1).counts == {"taken": 2}


def test_fleets_in_a_group(tmp_path, design):
    """Several calls, one commit: what a group comes to is what single calls come to, and nothing if it fails."""
    ledger, fleet = a_fleet(tmp_path, design)
    twin = us.Fleet(design, Table(), "plant", key=KEY, rooms=fleet.rooms)
    calls = [(["room 0", "room 1"], [k, k], [100.25 + k, 99.5 - k], [1, 0]) for k in range(4)]
    with ledger.group() as group:
        tickets = [group.call(fleet.apply, *call) for call in calls[:2]]
    assert all(np.array_equal(t.result(), twin.apply(*call)) for t, call in zip(tickets, calls, strict=False))
    with contextlib.suppress(RuntimeError), ledger.group() as group:
        group.call(fleet.apply, *calls[2])
        raise RuntimeError("gone")
    assert fleet.outcome(*calls[2]).counts == {"taken": 2}
    twin.apply(*calls[2])
    assert np.array_equal(fleet.apply(*calls[3]), twin.apply(*calls[3]))
    with ledger.group(), pytest.raises(LedgerError, match="group"):
        fleet.apply(["room 0"], [9], [100.5], 1)
    ledger.close()


@pytest.mark.parametrize("name", ["lives on grid", "walks on grid", "two on grid"])
@pytest.mark.parametrize("far", [2.0**30, -(2.0**45), 2.0**52])
def test_a_reading_far_out_on_a_grid_is_disguised(name, far):
    """Its cell may have no width in double precision; what leaves then follows the largest score, in streams too."""
    design = make_design(MODELS[name])
    d = design.family.model(0).dim
    fleet = us.Fleet(design, Table(), "plant", key=KEY, rooms=[f"room {i}" for i in range(5)])
    streams = [stream_of(design, f"room {i}", "plant") for i in range(5)]
    for k, y in enumerate([100.0, far, 100.0]):
        Y = np.full((5, d), 100.0)
        Y[2] = y
        found = fleet.outcome(np.arange(5), np.full(5, k), Y if d > 1 else Y[:, 0], [0] * 5)
        assert found.counts == {"taken": 5}
        theirs = [s.step(Y[i] if d > 1 else float(Y[i, 0]), k, theta=0) for i, s in enumerate(streams)]
        assert np.array_equal(found.outputs, np.array(theirs))
        assert np.isfinite(found.outputs).all()
