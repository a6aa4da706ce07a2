"""Files that understudy 0.1.0 stored: they load, streams go on with their draws, and what leaves is on the lattice.

`tests/fixtures/v0_1/make.py` made them, and wrote down what 0.1.0 would have released next, in full digits.
"""

import datetime as dt
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import understudy as us
from understudy.errors import LedgerError, ReadingError
from understudy.stream.inspection import verify

FIXTURES = Path(__file__).parent / "fixtures" / "v0_1"
DESIGNS = sorted(path.name for path in FIXTURES.glob("design*.json"))
NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def stored(name):
    """What 0.1.0 wrote."""
    return json.loads((FIXTURES / name).read_text())


@pytest.fixture
def ledger(tmp_path):
    """A copy of the ledger, with the permissions that git does not keep."""
    path = tmp_path / "room.ledger"
    shutil.copy(FIXTURES / "room.ledger", path)
    path.chmod(0o600)
    with us.Ledger(path, rollback_guard=tmp_path / "guard") as opened:
        yield opened


@pytest.fixture(scope="module")
def readings():
    """The readings that the streams were given, and those that come next."""
    return np.array(stored("readings.json"))


def design(name="design"):
    """A stored design."""
    return us.load_design(FIXTURES / f"{name}.json")


@pytest.mark.parametrize("name", DESIGNS)
def test_designs_of_0_1_load_and_have_a_lattice(name, tmp_path):
    """Each kind of design loads, says on which lattice readings leave, and is the same design when it is saved anew."""
    old = us.load_design(FIXTURES / name)
    assert all(step >= 0.0 for step in old.resolution)
    old.save(tmp_path / "new.json")
    new = us.load_design(tmp_path / "new.json")
    assert new.fingerprint == old.fingerprint
    assert new.resolution == old.resolution
    assert new.former_fingerprint == old.former_fingerprint != new.fingerprint
    assert json.loads((tmp_path / "new.json").read_text())["version"] == 2


def test_families_and_audits_of_0_1_load():
    """Families, fitted and not, and audits are read as they are."""
    assert us.load_family(FIXTURES / "family.json").values == (0, 0.2, 0.4, 0.6, 0.8, 1)
    assert us.load_family(FIXTURES / "family-fitted.json").about["period"] == 60.0
    assert us.load_audit(FIXTURES / "audit.json").rows


def test_the_ledger_of_0_1_is_whole(ledger):
    """The ledger passes its own checks."""
    assert all(finding.passed for finding in verify(ledger.path))


@pytest.mark.parametrize("name", ["counted", "finished", "interrupted"])
def test_a_stream_of_0_1_goes_on_with_its_draw_and_releases_on_the_lattice(name, ledger, readings):
    """What comes next is what 0.1.0 would have released, rounded to the lattice; nothing is drawn or charged."""
    spent = ledger.spent(name)
    stream = us.Stream.open(ledger, design(), name)
    expected = stored("expected.json")
    assert stream._now.epoch.draw == expected["draws"][name]
    out = stream.apply(readings[stream.count :])
    assert np.array_equal(out, stream._setup.release.rounded(np.array(expected[name])[:, None])[:, 0])
    assert not np.array_equal(out, expected[name])
    assert ledger.spent(name) == spent


def test_a_causal_stream_of_0_1_goes_on(ledger, readings):
    """Belief and draw are those of 0.1.0; the next readings, before a new decision, have its outputs on the lattice."""
    stream = us.Stream.open(ledger, design("design-causal"), "causal")
    expected = stored("expected.json")
    assert stream._now.epoch.draw == expected["draws"]["causal"]
    epoch = stream.epoch
    stream.apply(readings[40:45])
    assert stream.epoch == epoch + 1


def test_a_rounded_stream_of_0_1_goes_on(ledger, readings):
    """A design with a charge goes on, and charges for further blocks."""
    stream = us.Stream.open(ledger, design("design-charged"), "charged")
    out = stream.apply(np.round(readings[40:]))
    assert np.array_equal(out, np.round(out))


def test_a_snapshot_of_0_1_is_restored(readings):
    """A stream without a ledger goes on from its snapshot, on the lattice."""
    stream = us.Stream.restore(design(), (FIXTURES / "snapshot.json").read_bytes())
    out = stream.apply(readings[40:])
    expected = np.array(stored("expected.json")["alone"])
    assert np.array_equal(out, stream._setup.release.rounded(expected[:, None])[:, 0])


def test_replays_of_0_1_are_rounded_too(ledger, readings):
    """A reading of 0.1.0 that comes again gets its output on the lattice: a function of what was released before."""
    stream = us.Stream.open(ledger, design(), "counted")
    kept = [ledger.output(stream._row.id, key)[0] for key in range(3)]
    assert kept == stored("expected.json")["replayed"][:3]
    assert stream._again(0, 0) == stream._setup.release.one(kept[0]) != kept[0]


def test_runs_over_files_of_0_1_are_replayed_and_continued(ledger, readings):
    """A finished run is replayed without a charge; one that was interrupted goes on."""
    expected = np.array(stored("expected.json")["run"])
    spent = ledger.spent("finished")
    finished = us.Stream.open(ledger, design(), "finished")
    run = finished.run("day.csv")
    out = run.apply(readings[:40])
    run.finish()
    assert np.array_equal(out, finished._setup.release.rounded(expected[:, None])[:, 0])
    assert ledger.spent("finished") == spent
    run = us.Stream.open(ledger, design(), "interrupted").run("day.csv")
    assert run.recorded == 20
    assert run.apply(readings[:40]).shape == (40,)


def test_a_stream_of_0_1_with_times_wants_a_cadence_once(ledger, readings):
    """Without a period its times are refused, naming what to do; with one it goes on, and remembers it."""
    stream = us.Stream.open(ledger, design(), "timed")
    late = [NOON + dt.timedelta(minutes=k) for k in (40, 41, 45)]
    with pytest.raises(ReadingError, match="period"):
        stream.apply(readings[40:43], keys=late)
    stream = us.Stream.open(ledger, design(), "timed", period=60)
    draw, before = stream._now.epoch.draw, stream.count
    out = stream.apply(readings[40:43], keys=late)
    assert stream._now.epoch.draw == draw == stored("expected.json")["draws"]["timed"]
    assert stream.count == before + 6  # three of them were missing
    expected = np.array(stored("expected.json")["timed"][:2])
    assert np.array_equal(out[:2], stream._setup.release.rounded(expected[:, None])[:, 0])
    again = us.Stream.open(ledger, design(), "timed")
    assert again.step(1.0, key=late[2]) == out[2]
    with pytest.raises(us.errors.ConfigurationError, match="period"):
        us.Stream.open(ledger, design(), "timed", period=30)


def test_another_design_is_still_refused(ledger):
    """That the fingerprint of 0.1 is known does not open a stream to other designs."""
    with pytest.raises(LedgerError, match="another design"):
        us.Stream.open(ledger, design("design-error"), "counted")


def test_the_fixtures_are_all_there():
    """One file of every kind that 0.1.0 stores."""
    kinds = {stored(name)["format"] for name in os.listdir(FIXTURES) if name.startswith(("design", "family", "snap"))}
    assert kinds == {
        "understudy design", "understudy causal design", "understudy robust design", "understudy family",
        "understudy snapshot",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["whole", "gap"])
def test_timed_files_of_0_1(name, tmp_path):
    """A file without gaps is replayed to the same rows, rounded; one with a gap is refused, and the error names 0.1."""
    from understudy.apply.apply_file import apply_file

    path = tmp_path / "files.ledger"
    shutil.copy(FIXTURES / "files.ledger", path)
    path.chmod(0o600)
    made = design("design-fitted")
    with us.Ledger(path, rollback_guard=tmp_path / "guard") as ledger:
        spent = ledger.spent(name)
        given = {"ledger": ledger, "name": name, "accept_misfit": True}
        if name == "gap":
            with pytest.raises(ReadingError, match=r"Version 0\.1 has recorded this run"):
                apply_file(made, FIXTURES / "gap.csv", tmp_path / "out.csv", **given)
            return
        apply_file(made, FIXTURES / "whole.csv", tmp_path / "out.csv", **given)
        assert ledger.spent(name) == spent
    before, after = (
        [line.split(",") for line in text.read_text().splitlines()[1:]]
        for text in (FIXTURES / "whole.disguised.csv", tmp_path / "out.csv")
    )
    assert [row[0] for row in before] == [row[0] for row in after]
    step = made.resolution[0]
    assert all(abs(float(a[1]) - float(b[1])) <= step for a, b in zip(before, after, strict=True) if a[1] or b[1])
