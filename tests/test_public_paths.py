"""Every public path on which disguised readings leave goes through the lattice of the design.

Each path is a function of a folder. It is played twice. As it is, all that it returns lies on the lattice. With a
coarser `Release`, switched on where it says so, all that it returns lies on the coarser one: a path that rounds by
itself, or not at all, does not show it. That the list is complete is watched in the source: a filter is asked for an
output in a few known places only.
"""

from __future__ import annotations

import ast
import csv
import datetime as dt
import io
import json
import sys
from collections import Counter
from pathlib import Path

import cli_cases
import numpy as np
import pytest
import scipy.stats
from causal_cases import STAY
from stream_helpers import opened

import understudy as us
from understudy.adversaries.datasets import Recording, ReplayOptions, replay, simulate
from understudy.apply.apply_file import apply_file
from understudy.errors import BudgetError
from understudy.randomizer.causal import design_causal
from understudy.stream.inspection import released_outputs
from understudy.stream.release import Release
from understudy.transform import core as filtering
from understudy.transform.readings import Lattice, as_lattice

STEP, COARSE = 0.001, 0.05
"""Decimal steps, so that three decimals of a text are the number itself."""

START = np.datetime64("2026-03-02T08:00:00", "ns")
MINUTE = np.timedelta64(60, "s")


# Designs and readings -----------------------------------------------------------------------------------


def room(people):
    return cli_cases.room(people)


def family(**about):
    return us.Family(room, values=[0, 1], about=about)


def design(**changes):
    return us.design(family(), leakage=0.3, horizon=50, distortion="mae", resolution=STEP, **changes)


def causal_design():
    """A rare level, so that a budget ends in the middle of a call."""
    levels = us.Family(lambda v: us.IID(us.Gaussian(float(v), 1.0)), values=[0, 1], prior=[0.9, 0.1])
    return design_causal(levels, [[0.9, 0.1], [0.3, 0.7]], distortion=[[0, 1], [1, 0]], slope=2.5, resolution=STEP)


def vector_design():
    def pair(v):
        return us.IID(us.Gaussian(np.array([v, 3.0 * v]), np.array([[1.0, 0.4], [0.4, 2.0]])))

    return us.design(us.Family(pair, [0, 1]), leakage=0.1, horizon=20, distortion="mae", resolution=STEP)


def heavy_design():
    """A model without a law across gaps."""

    def level(v):
        return us.AutoRegressive(0.5, float(v), us.Scalar(scipy.stats.laplace()), past=[2.0 * v])

    known = us.Family(level, [0, 1])
    return us.design(known, leakage=0.3, horizon=5, distortion="mae", accuracy=0.1, rng=1, resolution=STEP)


def readings(count=40):
    return us.sample(room(1), count, rng=7)


def times(count):
    return START + MINUTE * np.arange(count)


# Paths ----------------------------------------------------------------------------------------------------
# Each takes a folder and a function that makes the release coarser from there on.


def stream_step(folder, coarser):
    coarser()
    stream = design().stream(theta=1)
    return [stream.step(y) for y in readings().tolist()]


def stream_step_of_other_numbers(folder, coarser):
    coarser()
    stream = design().stream(theta=1)
    return [stream.step(np.float64(y)) for y in readings(20)] + [stream.step([y]) for y in readings(20).tolist()]


def stream_step_with_a_ledger(folder, coarser):
    coarser()
    with opened(folder) as ledger:
        stream = design().stream(theta=1, ledger=ledger, name="room")
        return [stream.step(y, key=k) for k, y in enumerate(readings().tolist())]


def stream_step_with_times(folder, coarser):
    coarser()
    stream = design().stream(theta=1, period=60)
    return [stream.step(y, key=key) for y, key in zip(readings().tolist(), times(40), strict=True)]


def stream_step_out_of_range(folder, coarser):
    coarser()
    stream = design(valid=(300.0, 1000.0)).stream(theta=1)
    return [stream.step(y) for y in [480.1, 1e17, -1e17, 481.3]] + [stream.step(1e9) for _ in range(10)]


def stream_step_of_a_vector(folder, coarser):
    coarser()
    stream = vector_design().stream(theta=1)
    return [stream.step(row) for row in np.random.default_rng(1).normal(size=(20, 2))]


def stream_apply_few(folder, coarser):
    coarser()
    return design().stream(theta=1).apply(readings(3))


def stream_apply_many(folder, coarser):
    coarser()
    return design().stream(theta=1).apply(readings(500))


def stream_apply_with_gaps_and_glitches(folder, coarser):
    coarser()
    Y = readings(100)
    Y[[3, 4, 50]], Y[[7, 60]] = np.nan, 1e17
    return design(valid=(300.0, 1000.0)).stream(theta=1).apply(Y)


def fleet_of(folder, design, rows, Y, **options):
    """Readings of three rooms in turn, in two calls."""
    rooms = [f"room {i % 3}" for i in range(rows)]
    with opened(folder) as ledger:
        fleet = us.Fleet(design, ledger, "plant", key=us.MasterKey(bytes(32)), rooms=rooms[:3], **options)
        keys, half = np.arange(rows) // 3, rows // 2
        return np.concatenate(
            [fleet.apply(rooms[p], keys[p], Y[p], 1) for p in (slice(0, half), slice(half, rows))]
        ).tolist()


def fleet_apply(folder, coarser):
    coarser()
    Y = readings(90)
    Y[[3, 4, 50]], Y[[7, 60]] = np.nan, 1e17
    return fleet_of(folder, design(valid=(300.0, 1000.0)), 90, Y)


def fleet_apply_of_vectors(folder, coarser):
    coarser()
    return fleet_of(folder, vector_design(), 30, np.random.default_rng(1).normal(size=(30, 2)))


def fleet_that_withholds(folder, coarser):
    coarser()
    return fleet_of(folder, heavy_design(), 30, 1.0 + np.random.default_rng(1).normal(size=30), gaps="withhold")


def stream_apply_with_times(folder, coarser):
    coarser()
    keys = np.delete(times(103), [5, 40, 41])
    return design().stream(theta=1, period=60).apply(readings(100), keys)


def stream_apply_of_vectors(folder, coarser):
    coarser()
    return vector_design().stream(theta=1).apply(np.random.default_rng(1).normal(size=(50, 2)))


def stream_fill_until(folder, coarser):
    coarser()
    stream = design().stream(theta=1, period=60, fill=True)
    first = stream.step(480.12345, key=START)
    _, filled = stream.fill_until(START + 10 * MINUTE)
    assert filled.shape == (9, 1)
    return [first, *filled[:, 0]]


def stream_fills_missing_ones(folder, coarser):
    coarser()
    Y = readings(60)
    Y[::4] = np.nan
    out = design().stream(theta=1, period=60, fill=True).apply(Y, times(60))
    assert not np.isnan(out).any()
    return out


def stream_fills_slots_on_the_way(folder, coarser):
    coarser()
    with opened(folder) as ledger:
        stream = design().stream(theta=1, ledger=ledger, name="room", period=60, fill=True)
        out = [stream.step(480.12345, key=START), stream.step(481.23456, key=START + 5 * MINUTE)]
        return [*out, *(stream.step(480.0, key=START + k * MINUTE) for k in range(1, 5))]


def stream_that_withholds_and_fills(folder, coarser):
    coarser()
    made = heavy_design()
    Y = us.sample(made.family.model(1), 30, rng=5)
    Y[[4, 5, 20]] = np.nan
    out = made.stream(theta=1, period=60, fill=True).apply(Y, times(30))
    assert not np.isnan(out).any()
    return out


def replay_of_keys(folder, coarser):
    """Recorded on the fine lattice (as those of 0.1 were in full digits), and asked for again."""
    Y = readings(10)
    with opened(folder) as ledger:
        stream = design().stream(theta=1, ledger=ledger, name="room")
        stream.apply(Y, keys=range(10))
        coarser()
        again = us.Stream.open(ledger, design(), "room", theta=1)
        return [*(again.step(float(y), key=k) for k, y in enumerate(Y)), *again.apply(Y, keys=range(10))]


def replay_of_vectors(folder, coarser):
    Y = np.random.default_rng(1).normal(size=(10, 2))
    with opened(folder) as ledger:
        vector_design().stream(theta=1, ledger=ledger, name="room").apply(Y, keys=range(10))
        coarser()
        again = us.Stream.open(ledger, vector_design(), "room", theta=1)
        return [*(again.step(y, key=k) for k, y in enumerate(Y)), *again.apply(Y, keys=range(10))]


def records_of_a_ledger(folder, coarser):
    """What `understudy ledger` lists is what was released."""
    coarser()
    with opened(folder) as ledger:
        design().stream(theta=1, ledger=ledger, name="room").apply(readings(30), keys=range(30))
    return [row["y"] for row in released_outputs(folder / "room.ledger", "room")]


def file_run(folder, coarser):
    coarser()
    return design().stream(theta=1).run("today.csv").apply(readings(100))


def file_run_again(folder, coarser):
    Y = readings(100)
    with opened(folder) as ledger:
        design().stream(theta=1, ledger=ledger, name="room").run("today").apply(Y)
        coarser()
        again = us.Stream.open(ledger, design(), "room", theta=1)
        return again.run("today").apply(Y)


def causal_step(folder, coarser):
    coarser()
    stream = causal_design().stream(rng=4)
    return [stream.step(y, theta=1) for y in np.random.default_rng(2).normal(1.0, 1.0, 30).tolist()]


def causal_apply(folder, coarser):
    coarser()
    Y = np.random.default_rng(2).normal(1.0, 1.0, 100)
    return causal_design().stream(rng=4).apply(Y, theta=1)


def _stopped(folder, coarser, over):
    coarser()
    with opened(folder) as ledger:
        ledger.limit("lab", total=2.6)
        stream = causal_design().stream(ledger=ledger, name="lab", rng=4)
        with pytest.raises(BudgetError) as caught:
            over(stream).apply(np.random.default_rng(2).normal(1.0, 1.0, 40), theta=1)
    assert len(caught.value.released) > 2
    return caught.value.released


def outputs_of_an_error(folder, coarser):
    return _stopped(folder, coarser, lambda stream: stream)


def outputs_of_an_error_in_a_run(folder, coarser):
    return _stopped(folder, coarser, lambda stream: stream.run("f"))


# Files


def rows(folder):
    """A CSV file of a room, a row a minute, in full doubles."""
    return cli_cases.write_rows(folder / "in.csv", 120, seed=2)


COLUMNS = {"reading": "co2", "private": "occupancy", "time": "date", "period": "1 min"}


def _csv(text):
    return [float(row["co2"]) for row in csv.DictReader(io.StringIO(text))]


def file_csv(folder, coarser):
    coarser()
    apply_file(design(), rows(folder), folder / "out.csv", **COLUMNS)
    return _csv((folder / "out.csv").read_text())


def file_csv_with_epochs(folder, coarser):
    coarser()
    apply_file(design(), rows(folder), folder / "out.csv", **COLUMNS, epoch=dt.timedelta(minutes=30))
    return _csv((folder / "out.csv").read_text())


def file_jsonl(folder, coarser):
    coarser()
    apply_file(design(), rows(folder), folder / "out.jsonl", **COLUMNS)
    return [json.loads(line)["co2"] for line in (folder / "out.jsonl").read_text().splitlines()]


def file_parquet(folder, coarser):
    import pyarrow.parquet as pq

    coarser()
    apply_file(design(), rows(folder), folder / "out.parquet", **COLUMNS)
    return pq.read_table(folder / "out.parquet")["co2"].to_pylist()


def file_again(folder, coarser):
    """The same file again, replayed with the recorded draws."""
    path = rows(folder)
    with opened(folder) as ledger:
        apply_file(design(), path, folder / "first.csv", **COLUMNS, ledger=ledger, run="today")
        coarser()
        apply_file(design(), path, folder / "again.csv", **COLUMNS, ledger=ledger, run="today")
    return _csv((folder / "again.csv").read_text())


# Exact maps with a resolution, where the lattice is the caller's


def disguise(folder, coarser):
    coarser()
    return us.disguise(readings(), room(1), room(0), resolution=STEP)


def disguise_into(folder, coarser):
    coarser()
    Y = readings()
    return us.disguise(Y, room(1), room(0), out=Y, resolution=STEP)


def transform_step(folder, coarser):
    coarser()
    transform = us.Transform(room(1), room(0), resolution=STEP)
    state, out = transform.start(), []
    for y in readings().tolist():
        state, value = transform.step(state, y)
        out.append(value)
    return out


def transform_apply(folder, coarser):
    coarser()
    transform = us.Transform(room(1), room(0), resolution=STEP)
    return transform.apply(transform.start(), readings())[1]


# Audits


def _quiet(share):
    pass


def _disguised(material):
    return np.concatenate([cases["disguised"].outputs.ravel() for cases in (material.learn, material.judge)])


def audit_simulated(folder, coarser):
    coarser()
    return _disguised(simulate(design(), 20, np.random.default_rng(1), _quiet))


def audit_simulated_vectors(folder, coarser):
    coarser()
    return _disguised(simulate(vector_design(), 20, np.random.default_rng(1), _quiet))


def audit_simulated_causal(folder, coarser):
    coarser()
    return _disguised(simulate(causal_design(), 600, np.random.default_rng(1), _quiet))


def _recording(made):
    theta = np.repeat([0, 1] * 10, 20)
    Y = us.sample(made.family.along(theta.tolist()), len(theta), rng=3)[:, None]
    return Recording(Y, theta, np.zeros(len(theta), dtype=np.int64))


def _recording_with_gaps(made):
    theta = np.repeat([0, 1], 200)
    Y = np.concatenate([us.sample(made.family.model(v), 200, rng=3 + v) for v in (0, 1)])[:, None]
    Y[[30, 31, 95, 300]] = np.nan
    return Recording(Y, theta, np.zeros(len(theta), dtype=np.int64))


def audit_replayed(folder, coarser):
    coarser()
    made = design()
    return _disguised(replay(made, _recording(made), ReplayOptions(2, 20), np.random.default_rng(1), _quiet))


def audit_replayed_with_gaps(folder, coarser):
    coarser()
    made = heavy_design()
    return _disguised(replay(made, _recording_with_gaps(made), ReplayOptions(1, 20), np.random.default_rng(1), _quiet))


def audit_replayed_causal(folder, coarser):
    coarser()
    made = design_causal(family(), STAY, rate=0.05, distortion="mae", decision_every=5, resolution=STEP)
    return _disguised(replay(made, _recording(made), ReplayOptions(), np.random.default_rng(1), _quiet))


PATHS = [
    stream_step, stream_step_of_other_numbers, stream_step_with_a_ledger, stream_step_with_times,
    stream_step_out_of_range, stream_step_of_a_vector, stream_apply_few, stream_apply_many,
    stream_apply_with_gaps_and_glitches, stream_apply_with_times, stream_apply_of_vectors, stream_fill_until,
    fleet_apply, fleet_apply_of_vectors, fleet_that_withholds,
    stream_fills_missing_ones, stream_fills_slots_on_the_way, stream_that_withholds_and_fills, replay_of_keys,
    replay_of_vectors, records_of_a_ledger, file_run, file_run_again, causal_step, causal_apply, outputs_of_an_error,
    outputs_of_an_error_in_a_run, file_csv, file_csv_with_epochs, file_jsonl, file_parquet, file_again, disguise,
    disguise_into, transform_step, transform_apply, audit_simulated, audit_simulated_vectors, audit_simulated_causal,
    audit_replayed, audit_replayed_with_gaps, audit_replayed_causal,
]  # fmt: skip


def on(values, step):
    """Which outputs, missing ones aside, are the doubles of whole numbers of a decimal step."""
    y = np.asarray(values, dtype=float).ravel()
    y = y[~np.isnan(y)]
    assert y.size
    return np.rint(y / step) / round(1.0 / step) == y


@pytest.fixture
def coarser(monkeypatch):
    """A function that makes every release coarser, and the lattices that are asked of the exact maps."""
    lattices = {dim: Lattice([COARSE] * dim) for dim in (1, 2)}
    original = Release.__init__

    def made(self, *given):
        original(self, *given)
        object.__setattr__(self, "one", lattices[1].one)

    def switch():
        monkeypatch.setattr(Release, "rounded", lambda self, Y, out=None: lattices[self.dim].rounded(Y, out))
        monkeypatch.setattr(Release, "__init__", made)
        monkeypatch.setattr(filtering, "as_lattice", lambda resolution, dim: lattices[dim])

    return switch


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_what_leaves_is_on_the_lattice(path, tmp_path):
    """All values are whole numbers of the step of the design; and not all of one that is coarser."""
    out = path(tmp_path, lambda: None)
    assert on(out, STEP).all()
    assert on(out, COARSE).mean() < 0.9


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_what_leaves_went_through_the_release(path, tmp_path, coarser):
    """With a coarser release all values are coarser: the path has no rounding of its own, and none is left out."""
    assert on(path(tmp_path, coarser), COARSE).all()


@pytest.fixture
def to_standard_output(monkeypatch, capsys, tmp_path):
    """The readings that `understudy apply` prints."""

    def call():
        from understudy.cli import main

        known = cli_cases.family(per="run")
        made = us.design(known, leakage=0.1, horizon=50, distortion="mae", resolution=STEP)
        made.save(tmp_path / "design.json")
        words = ["apply", tmp_path / "design.json", rows(tmp_path), "--private", "occupancy", "-o", "-"]
        monkeypatch.setattr(sys, "argv", ["understudy", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code
        return _csv(capsys.readouterr().out)

    return call


def test_the_command_prints_what_is_on_the_lattice(to_standard_output):
    """`understudy apply` to standard output."""
    out = to_standard_output()
    assert len(out) == 120
    assert on(out, STEP).all()
    assert on(out, COARSE).mean() < 0.9


def test_the_command_prints_what_went_through_the_release(to_standard_output, coarser):
    """The same with a coarser release, switched on in this process."""
    coarser()
    assert on(to_standard_output(), COARSE).all()


def test_a_path_that_rounds_by_itself_is_noticed(tmp_path, coarser):
    """The twins: full doubles fail the first test, and rounding to the step of the design the second."""

    def exact(folder, coarser):
        coarser()
        return us.disguise(readings(), room(1), room(0))

    def own(folder, coarser):
        return as_lattice(STEP, 1).rounded(exact(folder, coarser)[:, None])

    assert not on(exact(tmp_path, lambda: None), STEP).all()
    assert on(own(tmp_path, lambda: None), STEP).all()
    assert not on(own(tmp_path, coarser), COARSE).all()


# The list is complete --------------------------------------------------------------------------------------

PACKAGE = Path(us.__file__).parent
WATCHED = ("stream/**/*.py", "apply/**/*.py", "cli/**/*.py", "adversaries/datasets.py")
METHODS = {"step", "apply", "fresh", "colour", "beyond", "advance"}
MAKERS = {
    "transformation",
    "disguise",
    "Transform",
    "restarting_map",
    "disguised",
    "disguise_on_grid",
    "Pair",
}


MAPS = {"map", "_map", "mapping", "transform", "pair", "chain"}


def _asked(node, inside=()):
    """(function, what) for each place under a node where a filter is asked for an output, or made."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        inside = (*inside, node.name)
    where = ".".join(inside) or "module"
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            yield where, ast.unparse(node.func)
            children[0] = node.func.value
        if getattr(node.func, "attr", getattr(node.func, "id", None)) in MAKERS:
            yield where, ast.unparse(node.func).split(".")[-1]
    elif isinstance(node, ast.Attribute) and node.attr in METHODS and ast.unparse(node.value).split(".")[-1] in MAPS:
        # a method of a map that is kept for later: `step = live.map.step`
        yield where, ast.unparse(node)
    for child in children:
        yield from _asked(child, inside)


def places(source, name):
    """How often a source asks a filter for an output, by "file: function: what"."""
    return Counter(f"{name}: {inside}: {what}" for inside, what in _asked(ast.parse(source)))


def everywhere():
    found = Counter()
    for part in WATCHED:
        for path in sorted(PACKAGE.glob(part)):
            found += places(path.read_text(), path.relative_to(PACKAGE).as_posix())
    return found


ALLOWED = {
    # outputs that `batch`, `few` and `_fill` give to Release.rounded or Release.one
    "stream/engine.py: Transaction._filter_one: causal.fresh": 1,
    "stream/engine.py: Transaction._filter: causal.fresh": 1,
    "stream/engine.py: Transaction._filter_one: causal.beyond": 1,
    "stream/engine.py: Transaction._filter_one: causal.apply": 2,
    "stream/engine.py: Transaction._filter: causal.apply": 1,
    "stream/engine.py: Transaction._filter_one: causal.colour": 1,
    "stream/engine.py: Transaction.few: self.live.map.step": 1,
    # outputs that `_run_tick` gives to Release.rounded; and the memory of a policy, which is no filter
    "stream/fleet.py: Fleet._step_alone: causal.step": 1,
    "stream/fleet.py: Fleet._memory_at: policy.advance": 1,
    "adversaries/datasets.py: _draws_by_clock: beliefs.advance": 1,
    # states after missing readings; there is no output
    "stream/engine.py: _after_missing: causal.apply": 1,
    "stream/engine.py: Setup.check_changes: first.apply": 1,
    # the filters themselves, for the places above
    "stream/engine.py: Setup.mapping: restarting_map": 1,
    "stream/engine.py: Setup.mapping: transformation": 1,
    # themselves, handed out at a fixed time (`release_at`)
    "stream/stream.py: Stream.step: self.step": 1,
    "stream/stream.py: Stream.apply: self.apply": 1,
    # guesses of the private value, which stay inside
    "stream/engine.py: Transaction._estimate: estimator.step": 1,
    # the memory of a causal design over decisions without a draw: no reading and no output
    "stream/engine.py: Transaction._memory_at: policy.advance": 1,
    # files go through a run of a stream
    "apply/segments.py: Player.apply: self.run.apply": 2,
    "apply/apply_file.py: Work._through: self._player.apply": 1,
    "apply/apply_file.py: _through: disguised": 1,
    # the demonstration shows figures and pictures of a simulated room whose value it prints; no readings leave
    "cli/demo.py: run: Transform": 1,
    "cli/demo.py: run: disguise": 4,
    "cli/demo.py: disguise: transform.step": 1,
    "cli/demo.py: many_rooms: disguise": 1,
    # audits: `DesignRun._released` and `_simulate_constant` round what these give
    "adversaries/datasets.py: DesignRun._through.between: restarting_map": 1,
    "adversaries/datasets.py: DesignRun._through.between: transformation": 1,
    "adversaries/datasets.py: DesignRun._through: disguise": 1,
    "adversaries/datasets.py: run_along: new.apply": 1,
    "adversaries/datasets.py: _simulate_constant: disguise": 1,
    "adversaries/datasets.py: _simulate_constant: disguise_on_grid": 1,
}


def test_no_other_place_asks_a_filter_for_an_output():
    """A new one must come here, with the reason why what it gives leaves through the release, or does not leave."""
    found = everywhere()
    assert {place: n for place, n in found.items() if n > ALLOWED.get(place, 0)} == {}
    assert {place: n for place, n in ALLOWED.items() if n > found[place]} == {}


BYPASSES = {
    "a call": ("def peek(self, y):\n    return self.live.map.step(self.live.at.state, y)[1]", "self.live.map.step"),
    "a method kept for later": (
        "def peek(self, y):\n    step = self.live.map.step\n    return step(0, y)",
        ".map.step",
    ),
    "a fresh score": ("def peek(m, z):\n    return m.map.fresh(m.state, z)", "m.map.fresh"),
    "many at once": ("class A:\n    def peek(self, Y):\n        return self.live.map.apply(0, Y)", "A.peek"),
    "by its public name": ("import understudy as us\nprint(us.disguise([1.0], a, b))", "module: disguise"),
    "a transform": ("def peek(a, b, y):\n    return us.Transform(a, b)", "Transform"),
    "a filter of its own": ("def peek(a, b):\n    return transformation(a, b, False, None)", "transformation"),
    "in a function inside": ("def f():\n    async def g(y):\n        return pair.advance(0, y)", "f.g: pair.advance"),
}


@pytest.mark.parametrize("name", BYPASSES)
def test_a_planted_bypass_is_noticed(name):
    """The twins: each way around the release, in a file of its own and beside a place that is allowed."""
    source, words = BYPASSES[name]
    (place,) = places(source, "stream/peeking.py")
    assert words in place
    assert place not in ALLOWED
    # once more in a function that may do it once
    running = (PACKAGE / "stream/engine.py").read_text()
    twice = running.replace(
        "        z = self.setup.fresh_score(reading)\n", "        z = causal.fresh(state, last)\n", 1
    )
    assert twice != running
    found = places(twice, "stream/engine.py")
    assert [p for p, n in found.items() if n > ALLOWED.get(p, 0)] == [
        "stream/engine.py: Transaction._filter_one: causal.fresh"
    ]


def test_the_guard_does_not_take_steps_of_a_grid_for_filters():
    """A number that is called a step is no filter."""
    assert not places("def f(grid):\n    return grid.step + channel.step", "x.py")
