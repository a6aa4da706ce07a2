"""Outputs are kept for a time or in number, and forgotten in small bites, so that no step stalls."""

import datetime as dt

import numpy as np
import pytest
from stream_helpers import FULL

import understudy as us
from understudy.errors import ConfigurationError, ReadingError
from understudy.stream import inspection
from understudy.stream import ledger as ledgers

DAY = 86_400


class Time:
    """A clock that is set."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


def held(ledger):
    return ledger.rows("SELECT count(*), min(key), max(key) FROM outputs")[0]


def test_outputs_are_kept_for_a_time(design, tmp_path):
    """Each for as long as was said and a little longer, whatever the pace of the readings; then they are refused."""
    clock = Time()
    with us.Ledger(tmp_path / "a", rollback_guard=False, retain=dt.timedelta(days=7), clock=clock) as ledger:
        stream, key = design.stream(1, ledger, "a"), 0
        arrived = {}
        rng = np.random.default_rng(1)
        for _ in range(400):
            clock.now += float(rng.choice([60, 3600, DAY / 2], p=[0.6, 0.3, 0.1]))
            count = int(rng.integers(1, 9))
            stream.apply(np.full(count, FULL), keys=range(key, key + count))
            arrived.update(dict.fromkeys(range(key, key + count), clock.now))
            key += count
            first = held(ledger)[1]
            young = [k for k, at in arrived.items() if clock.now - at < 7 * DAY]
            assert first <= young[0], "an output was forgotten too early"
        for _ in range(20):
            stream.step(FULL, key=key)
            key += 1
        old = [k for k, at in arrived.items() if clock.now - at > 7 * DAY + 7 * DAY / 64 + DAY / 2]
        assert held(ledger)[1] > old[-1], "an output was kept too long"
        with pytest.raises(ReadingError, match="retains"):
            stream.step(FULL, key=0)
        assert ledger.rows("SELECT count(*) FROM arrivals")[0][0] <= 66
        assert all(finding.passed for finding in inspection.verify(ledger.path))


@pytest.mark.parametrize("retain", [100, dt.timedelta(hours=1)])
def test_outputs_are_forgotten_in_small_bites(design, tmp_path, retain, monkeypatch):
    """Twenty thousand that are too old or too many go a bounded number at a time, while the steps go on."""
    clock, deleted = Time(), []
    forget = ledgers._forget_outputs

    def counted(*given):
        deleted.append(forget(*given))
        return deleted[-1]

    monkeypatch.setattr(ledgers, "_forget_outputs", counted)
    with us.Ledger(tmp_path / "a", rollback_guard=False, retain=dt.timedelta(hours=1), clock=clock) as ledger:
        stream = design.stream(1, ledger, "a")
        stream.apply(np.full(20_000, FULL))
    with us.Ledger(tmp_path / "a", rollback_guard=False, retain=retain, clock=clock) as ledger:
        stream = us.Stream.open(ledger, design, "a")
        clock.now += 3 * 3600
        for _ in range(90):
            stream.step(FULL)
        assert max(deleted) <= 258
        assert held(ledger)[0] <= 130


def test_a_clock_that_is_set_back_forgets_nothing_early(design, tmp_path):
    """Nor does it forget for ever: marks go on when the time has come again."""
    clock = Time()
    with us.Ledger(tmp_path / "a", rollback_guard=False, retain=dt.timedelta(hours=1), clock=clock) as ledger:
        stream = design.stream(1, ledger, "a")
        stream.apply(np.full(10, FULL))
        clock.now -= DAY
        stream.apply(np.full(10, FULL))
        assert held(ledger)[0] == 20
        clock.now += DAY + 2 * 3600
        for _ in range(3):
            stream.step(FULL)
            clock.now += 3700
        assert held(ledger)[1] >= 20


def test_members_that_fail_leave_the_marks_right(design, tmp_path):
    """Within groups too: what was rolled back is not taken for done."""
    clock = Time()
    with us.Ledger(tmp_path / "a", rollback_guard=False, retain=dt.timedelta(hours=1), clock=clock) as ledger:
        stream = design.stream(1, ledger, "a")
        for k in range(200):
            clock.now += 60
            with ledger.group() as group:
                group.apply(stream, [FULL, FULL], keys=[2 * k, 2 * k + 1])
                group.apply(stream, [np.inf], keys=[10_000])
        assert held(ledger)[0] <= 2 * 64
        assert held(ledger)[0] >= 2 * 60


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, dt.timedelta(0), dt.timedelta(days=-1), "7 days"])
def test_what_is_no_retention_is_refused(tmp_path, bad):
    """A whole number of outputs, or a length of time."""
    with pytest.raises(ConfigurationError, match="retain"):
        us.Ledger(tmp_path / "a", rollback_guard=False, retain=bad)
