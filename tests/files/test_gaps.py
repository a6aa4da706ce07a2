"""Files with gaps, and models without an exact law across them: some outputs are withheld, and the summary says so."""

import functools

import numpy as np
import pytest
import scipy.stats

import understudy as us
from understudy.apply.apply_file import apply_file
from understudy.errors import MissingReadingError
from understudy.randomizer.causal import design_causal
from understudy.tables import columns as rows_module

HEAVY = us.Scalar(scipy.stats.laplace(0.0, 2.0))
VALUES = ("empty", "full")
PSEUDO = (0.1, 0.5, 0.9)
P = 2


@functools.cache
def room(value):
    people = {"empty": 0.0, "full": 1.0}.get(value, value)
    return us.AutoRegressive([0.5, 0.3], intercept=100.0 + 4.0 * people, noise=HEAVY, past=[500.0 + 20.0 * people] * P)


@functools.cache
def gridded(value):
    return us.OnGrid(room(value), step=0.5)


@pytest.fixture(scope="module")
def designs():
    """By kind: a draw for a file, on a grid too, and decisions with memory."""
    plain, grid = us.Family(room, values=VALUES), us.Family(gridded, values=VALUES)
    options = {"pseudo": PSEUDO, "leakage": 0.3, "horizon": 10, "distortion": "mse", "accuracy": 0.2, "rng": 1}
    cost = [[0.0, 1.0, 4.0], [4.0, 1.0, 0.0]]
    moving = design_causal(plain, [[0.9, 0.1], [0.1, 0.9]], PSEUDO, slope=0.3, distortion=cost)
    return {"plain": us.design(plain, **options), "grid": us.design(grid, **options), "causal": moving}


def rows(make, count, seed=3):
    """Times, readings and labels; the parameter moves now and then."""
    labels = [VALUES[(k // 25) % 2] for k in range(count)]
    Y = us.sample(us.Family(make, values=VALUES).along(labels), count, rng=seed)
    times = np.datetime64("2026-03-01T00:00:00") + np.arange(count) * np.timedelta64(60, "s")
    return [str(t) for t in times], Y, labels


def leaving(missing, p=P):
    """Which outputs leave."""
    found, row = [], 0
    for gone in missing:
        found.append(not gone and row >= p)
        row = 0 if gone else row + 1
    return np.array(found)


def by_hand(Y, labels, pseudo):
    """What rows become under one understudy, by plain loops; NaN is missing."""
    out, past, disguised = np.full(len(Y), np.nan), [], None
    target = room(pseudo)
    for k, y in enumerate(Y.tolist()):
        if np.isnan(y):
            past = []
            continue
        if len(past) == P:
            disguised = target.start() if disguised is None else disguised
            out[k] = target.predict(disguised).value(room(labels[k]).predict(np.array(past)).score(y))
            disguised = target.update(disguised, out[k])
        past = [[y], *past][:P]
    return out


@pytest.mark.sample(default=1, seconds=10, reason="three designs, readings one by one")
@pytest.mark.parametrize("kind", ["plain", "grid", "causal"])
def test_a_gap_no_longer_stops_a_file(designs, tools, tmp_path, kind):
    """Empty readings, and rows that the clock misses: P rows after each, and the first P, are written empty."""
    times, Y, labels = rows(gridded if kind == "grid" else room, 200)
    empty, absent = np.isin(np.arange(200), [20, 90, 91]), np.isin(np.arange(200), [50, 51, 52, 140])
    kept = np.flatnonzero(~absent)
    texts = ["" if empty[k] else repr(float(Y[k])) for k in kept]
    header = ["time", "co2", "people"]
    source = tools.write_csv(tmp_path / "in.csv", header, [times[k] for k in kept], texts, [labels[k] for k in kept])
    target = tmp_path / "out.csv"
    summary = apply_file(designs[kind], source, target, **tools.NAMES)
    found = tools.read_csv(target)
    out = np.full(200, np.nan)
    out[kept] = tools.floats(found["co2"])
    leaves = leaving(empty | absent)
    assert (np.isnan(out) == ~leaves).all()
    assert found["time"] == [times[k] for k in kept]
    withheld = int((~leaves & ~empty & ~absent).sum())
    assert withheld == 5 * P
    assert (summary.rows, summary.missing, summary.filled, summary.withheld) == (196, 3, 4, withheld)
    said = [note for note in summary.notes if "withheld" in note]
    assert said == [
        f"outputs that were withheld, and are empty: {withheld}; the law of a reading is known only after 2 readings "
        "in a row, so that nothing leaves for the first 2 readings of a sequence and after each gap"
    ]
    assert said[0] in str(summary)
    assert summary.to_plain()["withheld"] == withheld
    if kind == "plain":
        full = np.where(empty | absent, np.nan, Y)
        fits = [v for v in PSEUDO if np.allclose(out, by_hand(full, labels, v), atol=1e-6, equal_nan=True)]
        assert len(fits) == 1


def test_skipped_rows_are_gaps(designs, tools, tmp_path):
    """A bad row in the middle costs itself and P outputs; it is counted as skipped, not as withheld."""
    times, Y, labels = rows(room, 30)
    texts = [repr(float(y)) for y in Y]
    texts[10] = "broken"
    source = tools.write_csv(tmp_path / "in.csv", ["time", "co2", "people"], times, texts, labels)
    summary = apply_file(designs["plain"], source, tmp_path / "out.csv", on_error="skip", **tools.NAMES)
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    assert np.flatnonzero(np.isnan(out)).tolist() == [0, 1, 10, 11, 12]
    assert (summary.skipped, summary.missing, summary.withheld) == (1, 0, 2 * P)


def test_each_segment_begins_with_withheld_rows(designs, tools, tmp_path):
    """Days apart: each is a sequence of its own."""
    times, Y, labels = rows(room, 40)
    days = ["one"] * 20 + ["two"] * 20
    source = tools.write_csv(tmp_path / "in.csv", ["time", "co2", "people", "day"], times, Y, labels, days)
    summary = apply_file(designs["plain"], source, tmp_path / "out.csv", segment="day", **tools.NAMES)
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    assert np.flatnonzero(np.isnan(out)).tolist() == [0, 1, 20, 21]
    assert (summary.segments, summary.withheld) == (2, 2 * P)


@pytest.mark.parametrize("kind", ["plain", "grid", "causal"])
def test_the_same_file_again_is_the_same_file(designs, tools, tmp_path, monkeypatch, kind):
    """Replayed from the ledger, in other batches than before, with gaps at their ends; tomorrow's file goes on."""
    times, Y, labels = rows(gridded if kind == "grid" else room, 120)
    gone = np.isin(np.arange(120), [13, 14, 48, 49, 99])
    texts = ["" if gone[k] else repr(float(y)) for k, y in enumerate(Y)]
    header = ["time", "co2", "people"]
    today = tools.write_csv(tmp_path / "today.csv", header, times[:100], texts[:100], labels[:100])
    later = tools.write_csv(tmp_path / "later.csv", header, times[100:], texts[100:], labels[100:])
    outs = []
    for batch in (65_536, 10):
        monkeypatch.setattr(rows_module, "BATCH", batch)
        with us.Ledger(tmp_path / f"room-{batch}.ledger", rollback_guard=tmp_path / f"guard-{batch}") as ledger:
            for _ in range(2):
                summary = apply_file(
                    designs[kind], today, tmp_path / "out.csv", ledger=ledger, rng=5, run="today", **tools.NAMES
                )
                outs.append((tmp_path / "out.csv").read_bytes())
            assert summary.replayed == 100
            assert summary.draws == 0
            more = apply_file(designs[kind], later, tmp_path / "more.csv", ledger=ledger, rng=5, **tools.NAMES)
            assert ledger.stream("stream").options["gaps"] == "withhold"
        out = tools.floats(tools.read_csv(tmp_path / "more.csv")["co2"])
        assert np.flatnonzero(np.isnan(out)).tolist() == [0, 1]  # the last row of today is missing
        assert more.withheld == P
    assert len(set(outs)) == 1


def test_a_stream_that_was_begun_without_the_option_goes_on_without_it(designs, tools, tmp_path):
    """An older ledger: nothing is withheld, and a gap is refused as it was."""
    times, Y, labels = rows(room, 30)
    header = ["time", "co2", "people"]
    whole = tools.write_csv(tmp_path / "in.csv", header, times[:20], Y[:20], labels[:20])
    broken = tools.write_csv(tmp_path / "gap.csv", header, times[20:], ["", *Y[21:]], labels[20:])
    with us.Ledger(tmp_path / "room.ledger", rollback_guard=tmp_path / "guard") as ledger:
        designs["plain"].stream("empty", ledger, "stream")
        summary = apply_file(designs["plain"], whole, tmp_path / "out.csv", ledger=ledger, **tools.NAMES)
        assert summary.withheld == 0
        assert np.isfinite(tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])).all()
        with pytest.raises(MissingReadingError):
            apply_file(designs["plain"], broken, tmp_path / "out.csv", ledger=ledger, **tools.NAMES)


@pytest.mark.long(seconds=2, reason="two fits")
def test_members_that_do_not_agree_refuse_a_gap_as_before(tools, tmp_path):
    """Orders 1 and 2: what would be withheld tells which one is meant, so nothing is, and a gap stops the run."""
    family = us.Family({"empty": room("empty"), "full": us.AutoRegressive(0.5, 250.0, HEAVY)})
    design = us.design(family, leakage=0.3, horizon=5, distortion="mse", accuracy=0.2, rng=1)
    times, Y, labels = rows(room, 20)
    labels, texts = ["empty"] * 20, [repr(float(y)) for y in Y]
    header = ["time", "co2", "people"]
    source = tools.write_csv(tmp_path / "in.csv", header, times, texts, labels)
    assert apply_file(design, source, tmp_path / "out.csv", **tools.NAMES).withheld == 0
    texts[5] = ""
    source = tools.write_csv(tmp_path / "gap.csv", header, times, texts, labels)
    with pytest.raises(MissingReadingError):
        apply_file(design, source, tmp_path / "out.csv", **tools.NAMES)


def test_models_with_an_exact_law_say_nothing_of_it(lab, tools, tmp_path):
    """Gauss-Markov models: a gap costs nothing, and the summary has no such note."""
    times, Y, labels = lab.rows(40)
    texts = ["" if k in (0, 7) else repr(float(y)) for k, y in enumerate(Y)]
    source = tools.write_csv(tmp_path / "in.csv", ["time", "co2", "people"], times, texts, labels)
    summary = apply_file(lab.design, source, tmp_path / "out.csv", **tools.NAMES)
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    assert np.flatnonzero(np.isnan(out)).tolist() == [0, 7]
    assert (summary.withheld, summary.missing) == (0, 2)
    assert "withheld" not in str(summary)
