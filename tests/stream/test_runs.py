"""Runs over files: interrupted, replayed, continued; the result is the same file, and nothing is charged twice."""

import itertools
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from causal_cases import STAY
from helpers import room, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_helpers import opened, released_as

import understudy as us
from understudy.errors import BudgetError, ConfigurationError, LedgerDamagedError, LedgerError, ReadingError
from understudy.randomizer.causal import design_causal
from understudy.stream import inspection

FAMILY = us.Family(room, values=[0, 1])
EPOCHS = us.design(FAMILY, pseudo=[0, 0.5, 1], leakage=0.2, horizon=50, distortion="mae")
CAUSAL = design_causal(FAMILY, STAY, [0, 0.5, 1], rate=0.05, horizon=50, distortion="mae", decision_every=7)


def rows(T=120, seed=1):
    rng = np.random.default_rng(seed)
    theta = np.repeat(rng.integers(0, 2, -(-T // 10)), 10)[:T]
    return us.sample(FAMILY.along(theta.tolist()), T, rng=rng), np.arange(T) * 10, theta


def fed(run, data, cuts, first=0, last=None):
    Y, keys, theta = data
    last = len(Y) if last is None else last
    edges = sorted({first, last, *(c for c in cuts if first < c < last)})
    parts = [run.apply(Y[a:b], keys[a:b], theta[a:b]) for a, b in itertools.pairwise(edges)]
    return np.concatenate(parts)


def clocked(kind, ledger):
    """Epochs by the keys, which are 10 apart."""
    if kind == "causal":
        return CAUSAL.stream(ledger=ledger, name="lab", every=70)
    return EPOCHS.stream(theta=0, ledger=ledger, name="lab", epoch=250)


@pytest.mark.parametrize("kind", ["epochs", "causal"])
def test_a_run_is_the_stream_without_its_outputs(tmp_path, kind):
    """The outputs are those of `Stream.apply` with the same draws, and the ledger keeps none of them."""
    data = rows()
    with opened(tmp_path) as ledger:
        stream = clocked(kind, ledger)
        run = stream.run("today.csv")
        out = fed(run, data, [50])
        run.finish()
        assert ledger.rows("SELECT count(*) FROM outputs")[0][0] == 0
        draws = [d for (d,) in ledger.rows("SELECT draw FROM epochs ORDER BY epoch")]
        draws = draws[1:] if kind == "causal" else draws
        assert stream.count == 120
    length = 7 if kind == "causal" else 25
    pseudo = np.repeat([EPOCHS.pseudo[j] for j in draws], length)[:120].tolist()
    members = us.Family(room, values=[0, 0.5, 1])
    expected = us.disguise(data[0], FAMILY.along(data[2].tolist()), members.along(pseudo))
    assert released_as(out, expected, EPOCHS.resolution, 1e-9)


@pytest.mark.parametrize("kind", ["epochs", "causal"])
@given(
    cuts=st.lists(st.integers(1, 119), max_size=4),
    kept=st.lists(st.booleans(), min_size=4, max_size=4),
    more=st.lists(st.integers(1, 119), max_size=3),
    stop=st.integers(1, 119),
)
@settings(max_examples=12, deadline=None)
def test_an_interrupted_run_gives_the_same_file(tmp_path_factory, kind, cuts, kept, more, stop):
    """Replayed in other batches and continued, the rows are the same bits, and are charged once."""
    folder, data = tmp_path_factory.mktemp("run"), rows()
    again = [cut for cut, keep in zip(cuts, kept, strict=False) if keep and cut < stop]  # some batches together
    with opened(folder) as ledger:
        first = fed(clocked(kind, ledger).run("today.csv"), data, cuts, last=stop)
        spent = ledger.spent("lab")
    with opened(folder) as ledger:
        stream = clocked(kind, ledger)
        run = stream.run("today.csv")
        assert run.replaying
        replayed = fed(run, data, [*again, stop], last=stop)
        assert not run.replaying
        assert ledger.spent("lab") == spent
        rest = fed(run, data, more, first=stop)
        run.finish()
        spent = ledger.spent("lab")
    assert same_bits(first, replayed)
    with opened(folder) as ledger:
        run = clocked(kind, ledger).run("today.csv")
        whole = fed(run, data, [*again, stop])
        run.finish()
        assert ledger.spent("lab") == spent
    assert same_bits(whole, np.concatenate([first, rest]))
    assert all(finding.passed for finding in inspection.verify(folder / "room.ledger"))


def test_a_file_that_has_grown_goes_on(tmp_path):
    """Rows that were there are replayed, new ones are new, also after the run had been finished."""
    data = rows()
    with opened(tmp_path) as ledger:
        run = clocked("causal", ledger).run("today.csv")
        first = fed(run, data, [], last=60)
        run.finish()
    with opened(tmp_path) as ledger:
        run = clocked("causal", ledger).run("today.csv")
        whole = fed(run, data, [90])
        run.finish()
        assert run.rows == 120
    assert same_bits(whole[:60], first)


@pytest.mark.parametrize("what", ["reading", "key", "theta", "order"])
def test_other_rows_are_refused_before_anything_leaves(tmp_path, what):
    """A second output for the same time from other readings would leak; no draw, no charge, no output."""
    Y, keys, theta = rows()
    with opened(tmp_path) as ledger:
        fed(clocked("epochs", ledger).run("today.csv"), (Y, keys, theta), [50])
        before = ledger.spent("lab")
        Y, keys, theta = Y.copy(), keys.copy(), theta.copy()
        if what == "reading":
            Y[17] += 1e-9
        elif what == "key":
            keys[17] += 1
        elif what == "theta":
            theta[17] = 1 - theta[17]
        else:
            Y[[3, 4]] = Y[[4, 3]]
        run = clocked("epochs", ledger).run("today.csv")
        with pytest.raises(ReadingError, match="not those that were disguised before") as caught:
            run.apply(Y[:50], keys[:50], theta[:50])
        assert str(Y[17]) not in str(caught.value)
        assert ledger.spent("lab") == before


def test_a_replay_that_ends_early_is_refused(tmp_path):
    """A file that has lost rows is not the file of the run."""
    data = rows()
    with opened(tmp_path) as ledger:
        fed(clocked("epochs", ledger).run("today.csv"), data, [50])
        run = clocked("epochs", ledger).run("today.csv")
        fed(run, data, [], last=50)
        with pytest.raises(ReadingError, match="ended after 50 rows, and 120 rows"):
            run.finish()


def test_one_run_after_the_other(tmp_path):
    """A new run waits for an interrupted one, unless that is abandoned; then it cannot go on, but is replayed."""
    data = rows()
    with opened(tmp_path) as ledger:
        stream = clocked("epochs", ledger)
        monday = fed(stream.run("monday.csv"), data, [], last=40)
        with pytest.raises(LedgerError, match=r"'monday.csv' of this stream was interrupted"):
            stream.run("tuesday.csv")
        tuesday = stream.run("tuesday.csv", abandon=True)
        fed(tuesday, data, [], first=60, last=80)
        tuesday.finish()
        again = stream.run("monday.csv")
        assert same_bits(fed(again, data, [], last=40), monday)
        with pytest.raises(LedgerError, match="can be replayed but not continued"):
            fed(again, data, [], first=80)


def test_a_run_needs_a_name_and_growing_keys(tmp_path):
    """Names of runs are texts; rows before those of the stream are refused with their number."""
    Y, keys, theta = rows()
    with opened(tmp_path) as ledger:
        stream = clocked("epochs", ledger)
        with pytest.raises(ConfigurationError, match="needs a name"):
            stream.run("")
        run = stream.run("a")
        run.apply(Y[:10], keys[:10], theta[:10])
        with pytest.raises(ReadingError, match="row 11 of the file does not come after"):
            run.apply(Y[:10], keys[:10], theta[:10])
        with pytest.raises(ReadingError, match="key 1 does not come after key 0"):
            run.apply(Y[10:12], keys[[11, 10]], theta[10:12])


def test_a_budget_stops_a_run_and_lets_it_go_on(tmp_path):
    """What is not allowed is not released; with a larger budget the run is continued."""
    data = rows()
    with opened(tmp_path) as ledger:
        ledger.limit("lab", total=0.5)
        stream = clocked("epochs", ledger)
        run = stream.run("today.csv")
        first = fed(run, data, [], last=25)
        with pytest.raises(BudgetError):
            fed(run, data, [], first=25)
        ledger.limit("lab", total=50.0)
        again = clocked("epochs", ledger).run("today.csv")
        whole = fed(again, data, [25])
        again.finish()
        assert same_bits(whole[:25], first)


def test_damage_to_a_run_is_noticed(tmp_path):
    """A position or a digest that was changed is not gone on from."""
    data = rows()
    with opened(tmp_path) as ledger:
        fed(clocked("causal", ledger).run("today.csv"), data, [50])
        ledger.connection().execute("UPDATE batches SET rows = 49 WHERE rows = 50")
        with pytest.raises(LedgerDamagedError, match="a batch"):
            clocked("causal", ledger).run("today.csv")
        ledger.connection().execute("UPDATE runs SET finished = 1")
        with pytest.raises(LedgerDamagedError, match="a run"):
            clocked("causal", ledger).run("today.csv")


CHILD = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
from test_runs import clocked, opened, rows
data = rows(4000)
with opened(Path(sys.argv[1])) as ledger:
    run = clocked("causal", ledger).run("today.csv")
    for i in range(0, 4000, 20):
        out = run.apply(*(part[i : i + 20] for part in data))
        sys.stdout.write(f"{{i}} {{out.tobytes().hex()}}\\n")
        sys.stdout.flush()
"""


@pytest.mark.long(seconds=4, reason="interpreters that are killed, one by one")
@pytest.mark.parametrize(
    "waits",
    [(40, 90), pytest.param((1, 40, 90), marks=pytest.mark.long(seconds=7, reason="three interpreters, one by one"))],
    ids=["twice", "three times"],
)
def test_a_run_that_is_killed_at_any_moment_gives_the_same_file(tmp_path, waits):
    """SIGKILL in the middle of batches: what had left is what leaves again."""
    paths = [os.path.dirname(__file__), *sys.path]
    seen = {}
    for wait in waits:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD.format(paths=paths), str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(wait):
            line = child.stdout.readline().split()
            if len(line) == 2:
                assert seen.setdefault(int(line[0]), line[1]) == line[1]
        child.send_signal(signal.SIGKILL)
        for line in child.stdout.read().splitlines():
            if len(line.split()) == 2 and len(line.split()[1]) == 320:
                at, out = line.split()
                assert seen.setdefault(int(at), out) == out
        child.wait(30)
        child.stdout.close()
    assert len(seen) >= 80


# How a run may go wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 10, 49])
def test_rows_go_out_only_when_their_whole_batch_was_compared(tmp_path, count):
    """A call that ends before the recorded batch cannot be compared: it is refused, whatever its rows are."""
    Y, keys, theta = rows()
    with opened(tmp_path) as ledger:
        fed(clocked("epochs", ledger).run("today.csv"), (Y, keys, theta), [50])
        run = clocked("epochs", ledger).run("today.csv")
        with pytest.raises(ReadingError, match="recorded together"):
            run.apply(Y[:count] + 5.0, keys[:count], theta[:count])


def test_a_long_batch_is_replayed_in_shorter_ones(tmp_path):
    """Digests are kept every 65,536 rows, within a batch too."""
    T = 150_000
    Y, keys, theta = np.random.default_rng(1).normal(100.0, 1.0, T), np.arange(T), np.zeros(T, dtype=int)
    with opened(tmp_path) as ledger:
        whole = EPOCHS.stream(theta=0, ledger=ledger, name="lab").run("f").apply(Y, keys, theta)
        again = EPOCHS.stream(theta=0, ledger=ledger, name="lab").run("f")
        parts = fed(again, (Y, keys, theta), [65_536, 131_072])
    assert same_bits(whole, parts)


@pytest.mark.parametrize("between", ["new epoch", "step"])
def test_what_happens_between_the_beginning_of_a_run_and_its_rows_is_part_of_it(tmp_path, between):
    """A run begins with its first rows, so that a replay begins there too."""
    data = rows()
    with opened(tmp_path) as ledger:
        stream = EPOCHS.stream(theta=0, ledger=ledger, name="lab")
        run = stream.run("today.csv")
        if between == "step":
            stream.step(100.0, key=-5)
        else:
            stream.new_epoch(1)
        first = fed(run, data, [])
        assert same_bits(fed(stream.run("today.csv"), data, []), first)


@pytest.mark.parametrize("ledgered", [True, False])
def test_a_run_does_not_go_on_past_what_the_stream_did_meanwhile(tmp_path, ledgered):
    """Two outputs for one part of the readings, or two draws for one epoch, are refused."""
    Y, _, theta = rows()
    ledger = opened(tmp_path) if ledgered else None
    stream = EPOCHS.stream(theta=0, ledger=ledger, name="lab", epoch=10)
    run = stream.run("a")
    run.apply(Y[:10], theta=theta[:10])
    stream.apply(Y[:10])
    with pytest.raises(LedgerError, match="has gone on"):
        run.apply(Y[10:20], theta=theta[10:20])
    assert stream.count == 20
    if ledger is not None:
        ledger.close()


def test_a_run_does_not_undo_a_stop(tmp_path):
    """A stream that was stopped stays so for its runs."""
    Y, _, theta = rows()
    with opened(tmp_path) as ledger:
        ledger.limit("lab", total=0.25)
        stream = EPOCHS.stream(theta=0, ledger=ledger, name="lab")
        run = stream.run("a")
        run.apply(Y[:10], theta=theta[:10])
        with pytest.raises(BudgetError):
            stream.new_epoch(0)
        with pytest.raises(BudgetError):
            run.apply(Y[10:20], theta=theta[10:20])
        with pytest.raises(BudgetError):
            stream.step(100.0)


def test_a_call_that_fails_after_a_replayed_part_can_be_repeated(tmp_path):
    """Nothing of it counts: the same call gives the same rows."""
    data = rows()
    with opened(tmp_path) as ledger:
        ledger.limit("lab", total=0.5)
        stream = clocked("epochs", ledger)
        first = fed(stream.run("f"), data, [], last=25)
        run = clocked("epochs", ledger).run("f")
        for _ in range(2):
            with pytest.raises(BudgetError):
                fed(run, data, [], last=60)
            assert run.rows == 0
        ledger.limit("lab", total=50.0)
        out = fed(run, data, [], last=60)
        assert run.rows == stream.count == 60
        assert same_bits(out[:25], first)


def test_an_interrupt_after_the_commit_leaves_a_run_that_must_begin_again(tmp_path, monkeypatch):
    """The rows are recorded and did not go out; begun again, the run gives them."""
    data = rows()
    with opened(tmp_path) as ledger:
        stream = clocked("epochs", ledger)
        run = stream.run("f")

        def interrupted(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(type(ledger.rollback_guard), "note", interrupted)
            with pytest.raises(KeyboardInterrupt):
                fed(run, data, [], last=20)
        with pytest.raises(LedgerError, match="begin it again"):
            fed(run, data, [], last=20)
        assert fed(stream.run("f"), data, [], last=20).shape == (20,)


@pytest.mark.parametrize("kind", ["estimated", "told before"])
def test_runs_without_theta_can_be_replayed(tmp_path, kind):
    """Where the design estimates it, and where the stream was told before."""
    Y, _, _ = rows(60)
    guessing = design_causal(
        FAMILY, STAY, rate=0.05, horizon=50, distortion="mae", decision_every=7, accept_estimated_theta=True
    )
    with opened(tmp_path) as ledger:

        def again():
            made = guessing if kind == "estimated" else EPOCHS
            return made.stream(None if kind == "estimated" else 0, ledger=ledger, name="lab")

        run = again().run("f")
        first = run.apply(Y[:30])
        rest = run.apply(Y[30:], theta=None if kind == "estimated" else 1)
        run.finish()
        spent = ledger.spent("lab")
        run = again().run("f")
        assert same_bits(run.apply(Y[:30]), first)
        assert same_bits(run.apply(Y[30:], theta=None if kind == "estimated" else 1), rest)
        assert ledger.spent("lab") == spent


@pytest.mark.parametrize("bad", [5, np.array([-(2**63), 0]), np.array([0.5, 1.5])])
def test_keys_that_are_none_are_refused(bad):
    """Not a sequence, out of range, not whole."""
    stream = EPOCHS.stream(theta=0)
    for call in (stream.apply, stream.run("f").apply):
        with pytest.raises(ReadingError):
            call([100.0, 101.0], bad)
