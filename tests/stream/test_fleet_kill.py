"""SIGKILL at random moments of a fleet that draws and meets bad rows: one decision a tick, one output a row."""

import os
import secrets
import signal
import time

import numpy as np
import pytest

import understudy as us
from understudy.stream.fleet import Rule

ROOMS, BATCHES = 40, 60
TEXT = bytes(range(32))


def model(people):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)


class OsKey(us.MasterKey):
    """The twin: bits of the operating system, which another process does not get again."""

    __slots__ = ()

    def room_key(self, namespace, design, room):
        return secrets.token_bytes(32)


@pytest.fixture(scope="module")
def design():
    return us.design(us.Family(model, values=[0, 1]), leakage=0.2, horizon=20, distortion="mae")


def history():
    """Batches of rows: rooms, keys, readings, values; late rows, unknown rooms and infinities are among them."""
    rng = np.random.default_rng(3)
    clock, people = np.zeros(ROOMS + 1, dtype=np.int64), rng.integers(0, 2, ROOMS + 1)
    found = []
    for _ in range(BATCHES):
        room = rng.integers(0, ROOMS + 1, 60)  # the last one is unknown
        keys, theta = np.empty(60, dtype=np.int64), np.empty(60, dtype=np.int64)
        for i, r in enumerate(room):
            clock[r] += rng.integers(1, 3)
            people[r] ^= rng.random() < 0.05
            keys[i], theta[i] = clock[r] - 4 * (rng.random() < 0.1), people[r]
        Y = rng.normal(100.0, 3.0, 60)
        Y[rng.random(60) < 0.1] = np.nan
        Y[rng.random(60) < 0.02] = np.inf
        found.append((room, keys, Y, theta))
    return found


def work(design, folder, key, log):
    """Go through all batches; write down what each row got, once the fleet has recorded it."""
    with us.Ledger(folder / "plant.ledger", rollback_guard=folder / "guard") as ledger:
        fleet = us.Fleet(design, ledger, "plant", key=key, rooms=[f"room {i}" for i in range(ROOMS)], epoch=20)
        with open(log, "a", encoding="ascii") as file:
            for n, (room, keys, Y, theta) in enumerate(history()):
                found = fleet.outcome(room, keys, Y, theta)
                for i in np.flatnonzero(np.isfinite(found.outputs)).tolist():
                    file.write(f"{n} {i} {found.outputs[i].hex()} .\n")
                file.flush()


def play(design, folder, key, kills, rng):
    """Fork, kill after a random moment, and so on; then to the end. Returns what was released, by row."""
    folder.mkdir()
    log = folder / "released"
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            try:
                work(design, folder, key, log)
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0.0, 0.25))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    work(design, folder, key, log)
    released = {}
    for line in log.read_text(encoding="ascii").splitlines():
        parts = line.split()
        if len(parts) == 4 and parts[3] == ".":
            released.setdefault((int(parts[0]), int(parts[1])), []).append(parts[2])
    with us.Ledger(folder / "plant.ledger", rollback_guard=folder / "guard") as ledger:
        fleet = us.Fleet(design, ledger, "plant", key=key, epoch=20)
        decisions = ledger.rows("SELECT room, tick, source, draw, micronats FROM decisions ORDER BY room, tick")
        return released, decisions, [fleet.spent(room) for room in fleet.rooms]


def check(whole, broken, kills):
    """What must hold of a run that was killed, beside one that was not."""
    released, decisions, spent = broken
    assert all(len(values) == 1 for values in released.values()), "a row has two outputs"
    assert all(whole[0][row] == values for row, values in released.items()), "an output is another one"
    assert decisions == whole[1], "a draw was made twice, or otherwise"
    assert spent == whole[2], "charges are wrong"
    lost = len(whole[0]) - len(released)
    assert lost <= 60 * kills, "outputs were lost that no kill explains"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, design):
    return play(design, tmp_path_factory.mktemp("fleet") / "whole", us.MasterKey(TEXT), 0, np.random.default_rng(0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize(
    "kills",
    [8, pytest.param(100, marks=pytest.mark.long(seconds=30, reason="100 kills; eight are in the default suite"))],
)
def test_killed_at_any_moment(tmp_path, design, whole, kills):
    assert len(whole[1]) > 3 * ROOMS
    broken = play(design, tmp_path / "broken", us.MasterKey(TEXT), kills, np.random.default_rng(kills))
    check(whole, broken, kills)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_the_twin_with_bits_of_the_operating_system_fails(tmp_path, design, whole):
    broken = play(design, tmp_path / "broken", OsKey(TEXT), 3, np.random.default_rng(1))
    with pytest.raises(AssertionError, match=r"an output is another one|a draw was made"):
        check(whole, broken, 3)


def test_the_history_meets_the_rules(tmp_path, design):
    met = set()
    with us.Ledger(tmp_path / "plant.ledger", rollback_guard=False) as ledger:
        names = [f"room {i}" for i in range(ROOMS)]
        fleet = us.Fleet(design, ledger, "plant", key=us.MasterKey(TEXT), rooms=names, epoch=20)
        for batch in history():
            met |= {Rule(int(rule)) for rule in fleet.outcome(*batch).rules}
    assert met >= {Rule.TAKEN, Rule.LATE, Rule.UNKNOWN_ROOM, Rule.INFINITE}
