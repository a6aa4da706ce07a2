"""A fleet is one stream a room, bit for bit: for every model, through gaps, epochs, switches, crashes and bad input."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.errors import ConfigurationError, LedgerError, ReadingError, RollbackError, SnapshotError
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
    options = {"index": "clock", **Clock.checked(epoch)}
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

    return us.AutoRegressive([0.5, 0.2], intercept=level, noise=us.Scalar(stats.t(4.0)))


MODELS = {
    "room": room,
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
    gaps = "withhold" if name == "heavy" else None
    history = a_history(design, rng, 7, 400 if name in ("room", "two channels") else 150, timed=timed)
    epoch = dt.timedelta(hours=1) if timed else 30
    ours, theirs, spent, fleet, _ = play(design, history, 7, epoch, MINUTE if timed else None, gaps)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert spent[0] == spent[1]
    assert fleet.columnar == (name in ("room", "two channels", "recursion"))
    assert np.isfinite(ours).sum() > 0.5 * len(ours)


def test_bit_for_bit_with_memory(causal):
    rng = np.random.default_rng(6)
    history = a_history(causal, rng, 5, 200)
    ours, theirs, spent, fleet, _ = play(causal, history, 5, dt.timedelta(minutes=15), MINUTE)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert spent[0] == spent[1]
    assert fleet.columnar
