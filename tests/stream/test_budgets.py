"""Budgets to the micro-nat, by total and by period, and what happens when they are spent."""

import datetime as dt
import os
from typing import NamedTuple

import numpy as np
import pytest
import stream_worker as worker
from stream_helpers import played, released_as

import understudy as us
from understudy.errors import BudgetError, ConfigurationError, UnderstudyWarning
from understudy.stream import inspection
from understudy.stream.ledger_file import micronats

DAY = 86_400


@pytest.fixture(scope="module")
def worst(design):
    """What a draw at unknown odds costs, in micro-nats."""
    return micronats(design.leakage_of_draw(None))


class Time:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Time()


@pytest.fixture
def ledger(tmp_path, clock):
    with us.Ledger(tmp_path / "room.ledger", rollback_guard=tmp_path / "guard", clock=clock) as opened:
        yield opened


def in_order(design, ledger, name="a", **options):
    return design.stream(1, ledger, name, **options)


def test_a_total_is_kept_to_the_micronat(design, ledger, worst):
    """Draws are allowed exactly up to the limit; one micro-nat less refuses, changes nothing, and stops the stream."""
    limit = 300_000 + 2 * worst
    ledger.limit("a", total=limit / 1e6)
    stream = in_order(design, ledger)
    stream.new_epoch(1)
    stream.new_epoch(0)
    assert ledger.spent("a") == limit / 1e6
    with pytest.raises(BudgetError, match="nothing more is released"):
        stream.new_epoch(1)
    assert ledger.spent("a") == limit / 1e6
    assert stream.epoch == 2
    with pytest.raises(BudgetError):
        stream.step(100.0)
    assert stream.count == 0
    assert "stopped" in repr(stream)
    ledger.limit("b", total=299_999e-6)
    with pytest.raises(BudgetError, match="does not allow the draw"):
        in_order(design, ledger, "b")
    assert ledger.names() == ["a"]
    assert ledger.spent("b") == 0.0


def test_a_raised_budget_lets_a_stopped_stream_go_on(design, ledger, worst):
    """A stop outlives a restart, and ends when an epoch can begin; what was released before is still told again."""
    ledger.limit("a", total=0.3)
    stream = in_order(design, ledger)
    first = stream.step(100.0, key=1)
    with pytest.raises(BudgetError):
        stream.new_epoch(1)
    again = us.Stream.open(ledger, design, "a")
    assert again.step(100.0, key=1) == first
    with pytest.raises(BudgetError):
        again.step(101.0, key=2)
    ledger.limit("a", total=0.3 + worst / 1e6)
    with pytest.raises(BudgetError):
        again.step(101.0, key=2)
    again.new_epoch(1)
    again.step(101.0, key=2)
    assert (again.epoch, again.count) == (1, 2)


def test_stop_at_a_boundary_of_the_clock_releases_nothing_of_the_batch(design, ledger, worst):
    """A batch into an epoch that cannot be paid is refused whole; its first part can be given, and the rest later."""
    ledger.limit("a", total=0.3)
    Y = us.sample(worker.room(1), 20, rng=1)
    stream = in_order(design, ledger, epoch=10)
    stream.apply(Y[:4])
    with pytest.raises(BudgetError, match="reading 6 begins an epoch"):
        stream.apply(Y[4:14])
    assert (stream.count, stream.epoch) == (4, 0)
    stream.apply(Y[4:10])
    for _ in range(2):
        with pytest.raises(BudgetError, match="reading 0 begins an epoch"):
            stream.step(float(Y[10]))
    assert not inspection.summary(ledger.path)["streams"][0]["stopped"]
    draws = [played(stream)] * 10
    ledger.limit("a", total=0.3 + worst / 1e6)
    stream.apply(Y[10:])
    draws += [played(stream)] * 10
    family = us.Family(worker.room, values=[0, 0.5, 1])
    expected = us.disguise(Y, worker.room(1), family.along([design.pseudo[c] for c in draws]))
    found = [r["y"] for r in inspection.released_outputs(ledger.path, "a")]
    assert released_as(found, expected, design.resolution, 1e-9)


def test_hold_keeps_the_last_draw_and_charges_nothing(design, ledger, worst):
    """When spent, epochs go on with the draw that there is; when there is room again, they draw again."""
    ledger.limit("a", total=0.3, when_spent="hold")
    stream = in_order(design, ledger, epoch=2)
    first = played(stream)
    stream.apply(np.full(10, 100.0))
    assert (stream.epoch, played(stream)) == (4, first)
    assert ledger.spent("a") == 0.3
    ledger.limit("a", total=0.3 + worst / 1e6, when_spent="hold")
    stream.apply(np.full(6, 100.0))
    assert ledger.spent("a") == pytest.approx(0.3 + worst / 1e6)
    assert all(f.passed for f in inspection.verify(ledger.path))


def test_a_budget_of_a_period_opens_again_with_the_next(design, ledger, clock, worst):
    """So many nats a day, by the day of UTC; the total stands beside it."""
    ledger.limit("a", total=10.0, amount=2 * worst / 1e6, period=dt.timedelta(days=1))
    clock.now = 20_000 * DAY + 100.0
    stream = in_order(design, ledger)
    stream.new_epoch(1)
    with pytest.raises(BudgetError):
        stream.new_epoch(1)
    clock.now += DAY - 101.0
    with pytest.raises(BudgetError):
        stream.new_epoch(1)
    clock.now += 2.0
    stream.new_epoch(1)
    stream.new_epoch(1)
    with pytest.raises(BudgetError):
        stream.new_epoch(1)
    assert stream.epoch == 3


def test_a_clock_that_goes_back_opens_no_period_again(design, ledger, clock, worst):
    """Set back by a day, a month, or to 1970: what was spent today stays spent today."""
    ledger.limit("a", amount=worst / 1e6, period=DAY)
    stream = in_order(design, ledger)
    for back in (DAY, 30 * DAY, 1_700_000_000):
        clock.now = 1_700_000_000.0 - back
        with pytest.raises(BudgetError):
            stream.new_epoch(1)
    clock.now = 1_700_000_000.0 + DAY
    stream.new_epoch(1)


def test_sensors_of_one_room_share_its_budget(design, ledger, worst):
    """Separate draws are each charged to the room; shared ones once, and never refused for what is spent already."""
    ledger.limit("lab", total=0.6 + worst / 1e6)
    one = design.stream(1, ledger, "one", room="lab")
    with pytest.warns(UnderstudyWarning, match="separate draws"):
        design.stream(1, ledger, "two", room="lab", share="separate")
    shared = design.stream(1, ledger, "three", room="lab", share="independent")
    one.new_epoch(0)
    ledger.limit("lab", total=0.1)  # lowered below what is spent
    shared.new_epoch(0)
    assert played(shared) == played(one)
    assert ledger.spent("lab") == pytest.approx(0.6 + worst / 1e6)
    with pytest.raises(BudgetError):
        one.new_epoch(1)
    ledger.limit("lab")  # no limit any more
    one.new_epoch(1)
    assert all(f.passed for f in inspection.verify(ledger.path))


def test_charges_are_rounded_up_and_allowances_down():
    """In whole micro-nats; decimals are taken as they are written."""
    assert [micronats(x) for x in (0.1, 0.3, 1e-9, 0.0, 0.3000001, 2.5)] == [100_000, 300_000, 1, 0, 300_001, 2_500_000]
    from understudy.stream.ledger import allowance

    assert [allowance("total", x) for x in (0.1, 1e-9, 0.0, 4.35, 0.2999999)] == [100_000, 0, 0, 4_350_000, 299_999]


def test_ten_tenths_fit_into_one():
    """A budget that is a multiple of the leakage allows so many draws."""
    assert 10 * micronats(0.1) == micronats(1.0)


@pytest.mark.parametrize(
    "bad",
    [
        {"total": -1.0},
        {"total": float("nan")},
        {"total": True},
        {"total": "2"},
        {"amount": 1.0},
        {"period": 5},
        {"amount": 1.0, "period": 0},
        {"amount": 1.0, "period": 1.5},
        {"total": 1.0, "when_spent": "shrug"},
    ],
)
def test_budgets_that_mean_nothing_are_refused(ledger, bad):
    """With the name of the argument."""
    with pytest.raises(ConfigurationError):
        ledger.limit("a", **bad)


class Approximate(NamedTuple):
    """The design, as if its models gave something away: 0.01 nats in each 4 readings, 0.02 at the worst odds."""

    design: us.Design

    def __getattr__(self, name):
        return getattr(self.design, name)

    def residual_of_block(self, marginal="design"):
        return (0.02 if marginal is None else 0.01), 4


def test_readings_of_approximate_models_are_charged_block_by_block(design, tmp_path):
    """Before the first reading of each block, missing ones among them, in steps and in batches alike; in few rows."""
    for sizes in ([1] * 13, [13], [3, 4, 6], [4, 4, 5]):
        with us.Ledger(tmp_path / f"{len(sizes)}{sizes[0]}", rollback_guard=False) as ledger:
            stream = us.Stream.begin(Approximate(design), 1, ledger, _row(design))
            for size in sizes:
                stream.apply([100.0, None, *[100.0] * 11][:size])
            assert ledger.spent("a") == pytest.approx(0.3 + 4 * 0.01)
            assert ledger.rows("SELECT count(*) FROM charges") == [(2,)]
            assert all(f.passed for f in inspection.verify(ledger.path))


def test_readings_stop_where_the_budget_does(design, tmp_path):
    """Holding a draw does not help there: each block gives away more. Later epochs are charged at the worst odds."""
    policy = Approximate(design)
    with us.Ledger(tmp_path / "a", rollback_guard=False) as ledger:
        ledger.limit("a", total=0.32, when_spent="hold")
        stream = us.Stream.begin(policy, 1, ledger, _row(design))
        stream.apply(np.full(8, 100.0))
        with pytest.raises(BudgetError):
            stream.step(100.0)
        assert stream.count == 8
        ledger.limit("a")
        stream.new_epoch(1)
        before = ledger.spent("a")
        stream.apply(np.full(5, 100.0))
        assert ledger.spent("a") - before == pytest.approx(0.04)
        assert us.Stream.open(ledger, policy, "a").count == 13


def _row(design):
    from understudy.stream.ledger_file import StreamRow

    return StreamRow(0, "a", "a", design.fingerprint, os.urandom(32), False, {})


def test_a_design_of_rounded_readings_charges_its_residual():
    """`Design.charge` reaches the stream, at the odds that are asked for, and the fingerprint tells it."""

    def rounded(people):
        return us.Quantised(worker.room(people), step=0.25)

    family = us.Family(rounded, values=[0, 1], prior=[0.25, 0.75])
    one = us.design(family, leakage=0.3, horizon=10, distortion="mae", accuracy=0.5)
    assert one.charge is not None
    assert one.residual_of_block() == (one.charge.total, 10)
    assert one.residual_of_block(None) == (max(one.charge.charged), 10)
    assert one.residual_of_block([1.0, 0.0])[0] == pytest.approx(one.charge.charged[0])
    stream = one.stream(1)
    stream.apply(np.full(21, 100.25))
    assert stream.spent == (micronats(one.leakage) + 3 * micronats(one.charge.total)) / 1e6
    two = us.design(family, leakage=0.3, horizon=11, distortion="mae", accuracy=0.5)
    assert one.fingerprint != two.fingerprint
    assert worker.design().residual_of_block() is None
