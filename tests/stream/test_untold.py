"""Streams that begin before the private value is known, and draws by the tick of the clock.

An untold stream draws, charges and releases nothing. The bits of a draw follow from the key of the stream, its
generation and the tick of its clock alone: no number of readings enters, and no index serves two private values.
"""

import numpy as np
import pytest
from stream_helpers import opened

import understudy as us
from understudy.errors import BudgetError, ConfigurationError, LedgerError, ReadingError
from understudy.stream import inspection
from understudy.stream.randomness import BEFORE_CLOCK, DrawSource

KEY = np.random.default_rng(7).bytes(32)  # of a stream with rng=7


def rows(ledger, query):
    return ledger.rows(query)


def bits_of(monkeypatch):
    """The indices that draws are made under, with the private values that they are made for, as they are made."""
    seen = []

    def at_tick(cls, key, generation, tick):
        seen.append((generation, tick))
        return cls(key, generation, tick, b"understudy tick")

    monkeypatch.setattr(DrawSource, "at_tick", classmethod(at_tick))
    return seen


@pytest.mark.parametrize("with_ledger", [True, False])
def test_an_untold_stream_draws_and_charges_nothing_until_it_is_told(design, tmp_path, with_ledger):
    """No draw, no charge, no output; told, the draw is that of the tick of the first reading, charged as any first."""
    with opened(tmp_path) as ledger:
        stream = design.stream(None, ledger if with_ledger else None, "lab", epoch=10, rng=7)
        for tell in (lambda: stream.step(100.0, key=42), lambda: stream.apply([100.0, None], keys=[42, 43])):
            with pytest.raises(ReadingError, match="has not been told"):
                tell()
        assert (stream.spent, stream.count, stream.epoch) == (0.0, 0, 0)
        assert "untold" in repr(stream)
        if with_ledger:
            assert inspection.summary(ledger.path)["streams"][0]["untold"]
            assert rows(ledger, "SELECT count(*) FROM charges") == [(0,)]
            stream = us.Stream.open(ledger, design, "lab")
        else:
            stream = us.Stream.restore(design, stream.snapshot())
        stream.becomes(1)
        assert (stream.spent, stream.count) == (0.0, 0)
        assert "untold" not in repr(stream)
        stream.step(100.0, key=42)
        assert stream.spent == 0.3
        row = stream._now.epoch
        assert row.draw == design.draw(design.row(1), DrawSource.at_tick(KEY, 0, 4))
        assert (row.epoch, row.held) == (1, False)
        if with_ledger:
            assert not inspection.summary(ledger.path)["streams"][0]["untold"]
    if with_ledger:
        assert all(finding.passed for finding in inspection.verify(tmp_path / "room.ledger"))


def test_an_untold_stream_goes_on_like_one_whose_draw_it_makes(design, readings, tmp_path):
    """Outputs, in steps, batches and over a file, are those of the filter to the value that was drawn."""
    for way in ("step", "apply", "file"):
        stream = design.stream(rng=7)
        if way == "step":
            out = [stream.step(y, theta=1) for y in readings[:20]]
        elif way == "apply":
            out = stream.apply(readings[:20], theta=1)
        else:
            out = stream.run("x").apply(readings[:20], theta=1)
        target = design.family.model(design.pseudo[stream._now.epoch.draw])
        assert stream._now.epoch.draw == design.draw(design.row(1), DrawSource.at_tick(KEY, 0, 0))
        expected = us.disguise(readings[:20], design.family.model(1), target, resolution=design.resolution)
        assert np.array_equal(out, expected), way


def test_a_budget_that_does_not_allow_the_first_draw_of_an_untold_stream(design, tmp_path):
    """Nothing is released or recorded; with room in the budget the same draw is made."""
    with opened(tmp_path) as ledger:
        ledger.limit("lab", total=0.1)
        stream = design.stream(None, ledger, "lab", rng=7)
        with pytest.raises(BudgetError):
            stream.step(100.0, theta=1)
        assert (stream.count, stream.spent) == (0, 0.0)
        ledger.limit("lab", total=1.0)
        stream.step(100.0, theta=1)
        assert stream._now.epoch.draw == design.draw(design.row(1), DrawSource.at_tick(KEY, 0, 0))


def test_followers_of_an_untold_stream_wait_for_its_draw(design, tmp_path):
    """One that is told earlier is refused until the leader has drawn, and then has its draw, for nothing."""
    with opened(tmp_path) as ledger:
        leader = design.stream(None, ledger, "a", room="lab")
        follower = design.stream(1, ledger, "b", room="lab", share="independent")
        with pytest.raises(LedgerError, match="goes first"):
            follower.step(100.0)
        leader.step(100.0, theta=1)
        follower.step(100.0)
        late = design.stream(None, ledger, "c", room="lab", share="independent")
        late.step(100.0, theta=1)
        assert leader._now.epoch.draw == follower._now.epoch.draw == late._now.epoch.draw
        assert ledger.spent("lab") == 0.3
        assert follower._now.epoch.epoch == leader._now.epoch.epoch == 1


def test_readings_do_not_enter_the_index_of_a_draw(design, readings, tmp_path):
    """Streams of one key that had more, fewer or no readings in earlier epochs draw alike at a tick."""
    draws = []
    for keys in ([3, 12, 13, 25], [11, 29], [0, 1, 2, 3, 4, 21]):
        stream = design.stream(None, epoch=10, rng=7)
        stream.apply(readings[: len(keys)], keys=keys, theta=1)
        draws.append(stream._now.epoch.draw)
    assert len(set(draws)) == 1
    assert draws[0] == design.draw(design.row(1), DrawSource.at_tick(KEY, 0, 2))


def test_a_generation_rises_with_a_charged_redraw_only(design, readings, tmp_path, monkeypatch):
    """The clock, other values, a held draw and a replay leave it; `new_epoch` raises it, and no index comes twice."""
    seen = bits_of(monkeypatch)
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "lab", epoch=10)
        stream.apply(readings[:25], theta=[0, 1] * 12 + [0])
        assert seen == [(0, BEFORE_CLOCK), (0, 1), (0, 2)]
        assert stream._now.position.generation == 0
        stream.new_epoch(0)
        stream.new_epoch(1)
        stream.apply(readings[25:31])
        assert seen[3:] == [(1, 2), (2, 2), (2, 3)]
        ledger.limit("lab", total=ledger.spent("lab"), when_spent="hold")
        stream.new_epoch(0)
        assert stream._now.position.generation == 2
        assert rows(ledger, "SELECT generation FROM states") == [(2,)]
    assert len(set(seen)) == len(seen)


def test_a_rollback_that_is_charged_draws_under_an_index_of_its_own(design, readings, tmp_path, monkeypatch):
    """Redraws that the ledger has lost count too: the rollback guard knows the generation."""
    seen = bits_of(monkeypatch)
    path = tmp_path / "room.ledger"
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "lab")
        stream.apply(readings[:5])
    old = path.read_bytes()
    with opened(tmp_path) as ledger:
        stream = us.Stream.open(ledger, design, "lab")
        stream.new_epoch(0)
        stream.new_epoch(1)
        stream.step(readings[5])
    path.write_bytes(old)
    with opened(tmp_path, rollback="charge") as ledger:
        stream = us.Stream.open(ledger, design, "lab", theta=0)
        assert stream._now.position.generation == 3
    assert seen == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_an_untold_stream_that_was_rolled_back_must_be_told(design, readings, tmp_path):
    """The private value is not known to the older copy; with it, the draw is made again and charged."""
    path = tmp_path / "room.ledger"
    with opened(tmp_path) as ledger:
        design.stream(None, ledger, "lab")
    old = path.read_bytes()
    with opened(tmp_path) as ledger:
        us.Stream.open(ledger, design, "lab").apply(readings[:3], theta=1)
    path.write_bytes(old)
    with opened(tmp_path, rollback="charge") as ledger:
        with pytest.raises(ConfigurationError, match="give theta="):
            us.Stream.open(ledger, design, "lab")
        stream = us.Stream.open(ledger, design, "lab", theta=0)
        assert (stream.count, stream.epoch) == (3, 1)
        assert stream.spent == pytest.approx(0.3 + design.leakage_of_draw(None), abs=2e-6)


def test_a_call_that_failed_may_be_made_again_with_another_value(design, readings, tmp_path, monkeypatch):
    """It has recorded and returned nothing: the same bits serve the other value, once."""
    seen = bits_of(monkeypatch)
    with opened(tmp_path) as ledger:
        stream = design.stream(None, ledger, "lab")
        with monkeypatch.context() as patch:
            patch.setattr(us.Ledger, "put", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                stream.step(readings[0], theta=1)
        assert rows(ledger, "SELECT count(*) FROM charges") == [(0,)]
        stream.step(readings[0], theta=0)
        assert rows(ledger, "SELECT epoch, source FROM epochs ORDER BY epoch") == [(0, 0), (1, design.row(0))]
    assert seen == [(0, 0), (0, 0)]
