"""A file becomes what the filter makes of its readings, along its labels, gaps, segments and public inputs."""

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.apply.apply_file import apply_file
from understudy.apply.segments import known_before
from understudy.apply.segments import pieces as missing_between
from understudy.errors import ConfigurationError, ReadingError
from understudy.identify.history import bins_from
from understudy.identify.public_inputs import Offset, clock_names, clock_values
from understudy.stream.cadence import Cadence
from understudy.tables import columns as rows_module


def plain(lab, tools, folder, count, **options):
    """A CSV file with all digits, disguised; outputs, readings and labels."""
    times, Y, labels = lab.rows(count)
    source = tools.write_csv(folder / "in.csv", ["time", "co2", "people"], times, map(repr, Y.tolist()), labels)
    summary = apply_file(lab.design, source, folder / "out.csv", **{**tools.NAMES, **options})
    return tools.floats(tools.read_csv(folder / "out.csv")["co2"]), Y, labels, summary


def test_the_output_is_the_filter_along_the_labels(lab, tools, tmp_path):
    """Each row is disguised under its own label, by one understudy for all."""
    out, Y, labels, summary = plain(lab, tools, tmp_path, 700)
    assert len(lab.played(out, Y, labels)) == 1
    assert not lab.played(out, Y, ["empty"] * 700)
    assert (summary.rows, summary.draws, summary.missing, summary.filled) == (700, 1, 0, 0)
    assert summary.nats == pytest.approx(lab.design.leakage, abs=1e-6)


def test_batches_do_not_show(lab, tools, tmp_path, monkeypatch):
    """Rows in small batches give the same file."""
    plain(lab, tools, tmp_path, 300, rng=4)
    whole = (tmp_path / "out.csv").read_bytes()
    monkeypatch.setattr(rows_module, "BATCH", 7)
    plain(lab, tools, tmp_path, 300, rng=4)
    assert (tmp_path / "out.csv").read_bytes() == whole


def test_a_fresh_share(lab, tools, tmp_path):
    """Rows are mixed with the chance of their slots: the same file again, and none that the filter alone gives."""
    design = us.design(lab.family, pseudo=[0.0, 1.0], leakage=0.3, horizon=50, distortion="mae", fresh=0.8)
    times, Y, labels = lab.rows(300)
    source = tools.write_csv(tmp_path / "in.csv", ["time", "co2", "people"], times, map(repr, Y.tolist()), labels)
    outs = []
    for target in ("one.csv", "two.csv"):
        apply_file(design, source, tmp_path / target, ledger=tmp_path / "a.ledger", run="today", **tools.NAMES)
        outs.append((tmp_path / target).read_bytes())
    assert outs[0] == outs[1]
    out = np.array(tools.floats(tools.read_csv(tmp_path / "one.csv")["co2"]))
    assert not lab.played(out, Y, labels)
    # against the scores of the rows under their labels: they correlate by sqrt(1 - 0.8^2) with those of the output
    z = us.whiten(Y, lab.family.along(labels))
    found = [np.corrcoef(z, us.whiten(out, lab.family.model(v)))[0, 1] for v in design.pseudo]
    assert min(abs(one - 0.6) for one in found) < 0.2


def test_all_understudies_are_drawn(lab, tools, tmp_path):
    """Over 60 files the draws differ (all the same: below 1e-9 at these odds)."""
    found = {lab.played(*plain(lab, tools, tmp_path, 60, rng=seed)[:3])[0] for seed in range(60)}
    assert len(found) > 1


def test_columns_are_those_of_the_family(tools, tmp_path):
    """A family that was fitted knows its columns; a name that is given comes before."""
    about = {"readings": ["co2"], "private": "people", "time": "time", "segment": None, "period": 60.0}
    lab = tools.Room(about)
    times, Y, labels = lab.rows(50)
    source = tools.write_csv(tmp_path / "in.csv", ["time", "co2", "people"], times, Y, labels)
    assert apply_file(lab.design, source, tmp_path / "out.csv").columns == ("time", "co2")
    with pytest.raises(ConfigurationError, match=r"has no column 'humidity'; wanted are .*'humidity'.* has 3 fields"):
        apply_file(lab.design, source, tmp_path / "out.csv", reading="humidity")


def test_an_empty_name_is_no_column(tools, tmp_path):
    """A file without the times and segments of the family can be read by saying so."""
    lab = tools.Room({"readings": ["co2"], "private": "people", "time": "time", "segment": "day", "period": 60.0})
    _, Y, labels = lab.rows(50)
    source = tools.write_csv(tmp_path / "in.csv", ["co2", "people"], map(repr, Y.tolist()), labels)
    with pytest.raises(ConfigurationError, match="has no column 'time'"):
        apply_file(lab.design, source, tmp_path / "out.csv", segment="")
    assert apply_file(lab.design, source, tmp_path / "out.csv", segment="", time="").columns == ("co2",)
    assert len(lab.played(tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"]), Y, labels)) == 1


def test_nothing_is_guessed(lab, tools, tmp_path):
    """Without names there is no file: the reading and the private column have to be said."""
    source = tools.write_csv(tmp_path / "in.csv", ["co2", "people"], ["1"], ["empty"])
    with pytest.raises(ConfigurationError, match="1 channel, and each needs a column"):
        apply_file(lab.design, source, tmp_path / "out.csv", private="people")
    with pytest.raises(ConfigurationError, match="there is no guarantee"):
        apply_file(lab.design, source, tmp_path / "out.csv", reading="co2")
    with pytest.raises(ConfigurationError, match="source and target are one file"):
        apply_file(lab.design, source, source, reading="co2", private="people")
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        apply_file(lab.design, tmp_path / "none.csv", tmp_path / "out.csv", reading="co2", private="people")
    tools.write_csv(tmp_path / "twice.csv", ["co2", "co2", "people"], ["1"], ["2"], ["empty"])
    with pytest.raises(ConfigurationError, match="'co2' twice"):
        apply_file(lab.design, tmp_path / "twice.csv", tmp_path / "out.csv", reading="co2", private="people")
    (tmp_path / "none.csv").write_text("co2,people\n")
    with pytest.raises(ReadingError, match="has no rows"):
        apply_file(lab.design, tmp_path / "none.csv", tmp_path / "out.csv", reading="co2", private="people")
    assert not (tmp_path / "out.csv").exists()
    assert not list(tmp_path.glob(".understudy-*.tmp"))


# Gaps ---------------------------------------------------------------------------------------------------------


def test_gaps_are_missing_readings_that_are_not_written(lab, tools, tmp_path):
    """With a period, rows that are absent are missing readings to the filter, and jitter is none."""
    times, Y, labels = lab.rows(400)
    there = np.ones(400, dtype=bool)
    there[[5, 50, 51, 52, 399]] = False
    there[200:260] = False
    rng = np.random.default_rng(1)
    moved = np.array(times, dtype="datetime64[s]") + rng.integers(-20, 21, 400)
    kept = np.flatnonzero(there)
    source = tools.write_csv(
        tmp_path / "in.csv", ["time", "co2", "people"], moved[kept].astype(str), map(repr, Y[kept].tolist()),
        [labels[i] for i in kept],
    )  # fmt: skip
    held = list(labels)
    for i in np.flatnonzero(~there):  # within a gap the label is the one before
        held[i] = held[i - 1]
    for options, wanted in (({}, 1), ({"time": ""}, 0)):
        summary = apply_file(lab.design, source, tmp_path / "out.csv", **{**tools.NAMES, **options})
        out = np.full(400, np.nan)
        out[kept] = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
        assert len(lab.played(out[:399], np.where(there, Y, np.nan)[:399], held[:399])) == wanted
        assert summary.filled == (64 if wanted else 0)
        assert summary.rows == len(kept)


def test_a_gap_that_is_too_long_is_refused(lab, tools, tmp_path):
    """A gap beyond the limit is told by its line, not filled with a million readings."""
    times = ["2026-03-01 00:00", "2026-03-01 00:01", "2027-03-01 00:00"]
    source = tools.write_csv(tmp_path / "in.csv", ["time", "co2", "people"], times, [400, 401, 402], ["empty"] * 3)
    with pytest.raises(ReadingError, match=r"in\.csv, line 4: 525598 readings are missing before it"):
        apply_file(lab.design, source, tmp_path / "out.csv", **tools.NAMES)
    summary = apply_file(lab.design, source, tmp_path / "out.csv", longest_gap=10**6, **tools.NAMES)
    assert summary.filled == 525_598


def test_many_gaps_are_filled_piece_by_piece():
    """However many gaps a batch has, few readings are in work at a time, and all pieces make up the sequence."""
    times = np.arange(2000, dtype=np.int64) * 1001
    Y, theta = np.arange(2000.0)[:, None], np.arange(2000) % 2
    cadence = Cadence(1, 0, 0)
    pieces = list(missing_between(Y, theta, cadence.steps(cadence.slots(times), None), -1))
    assert len(pieces) > 5
    assert max(len(piece.Y) for piece in pieces) <= 262_144
    assert sum(len(piece.Y) for piece in pieces) == times[-1] + 1
    places = [piece.places + sum(len(before.Y) for before in pieces[:k]) for k, piece in enumerate(pieces)]
    np.testing.assert_array_equal(np.concatenate(places), times)
    np.testing.assert_array_equal(np.concatenate([piece.rows for piece in pieces]), np.arange(2000))
    values = np.concatenate([piece.Y for piece in pieces])
    assert np.flatnonzero(~np.isnan(values[:, 0])).tolist() == times.tolist()
    held = np.concatenate([piece.theta for piece in pieces])
    np.testing.assert_array_equal(
        held[1:], np.repeat(theta, 1001)[: len(held) - 1] * 0 + _held(theta, 1001)[1 : len(held)]
    )


def _held(theta, every):
    out = np.repeat(theta, every)[: (len(theta) - 1) * every + 1].copy()
    return out


def test_unknown_labels_are_those_before():
    """An unknown label is the last that was known, over batches too, and at the beginning the next."""
    assert known_before(np.array([-1, -1]), 1).tolist() == [1, 1]
    assert known_before(np.array([-1, 0, -1]), -1).tolist() == [0, 0, 0]
    assert known_before(np.array([-1, -1]), -1).tolist() == [-1, -1]


# Segments, bins, public inputs, grids -----------------------------------------------------------------------------


def test_a_segment_begins_anew_with_a_draw_of_its_own(lab, tools, tmp_path):
    """Each segment is a sequence from the start of the model, and is charged; the clock may begin anew."""
    times, Y, labels = lab.rows(120)
    days = np.repeat(["a", "b", "c"], 40)
    source = tools.write_csv(
        tmp_path / "in.csv", ["day", "time", "co2", "people"], days, times[:40] * 3, map(repr, Y.tolist()), labels
    )
    ledger = us.Ledger(tmp_path / "room.ledger", rollback_guard=tmp_path / "guard")
    summary = apply_file(
        lab.design, source, tmp_path / "out.csv", segment="day", ledger=ledger, name="lab", **tools.NAMES
    )
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    for k in range(3):
        part = slice(40 * k, 40 * k + 40)
        assert len(lab.played(out[part], Y[part], labels[part])) == 1
    assert (summary.segments, summary.draws) == (3, 3)
    assert "the column 'day', which separates segments, did not leave; --keep day keeps it" in summary.notes
    assert summary.nats == pytest.approx(ledger.spent("lab")) == pytest.approx(3 * lab.design.leakage, abs=1e-5)
    first = (tmp_path / "out.csv").read_bytes()
    again = apply_file(
        lab.design, source, tmp_path / "out.csv", segment="day", ledger=ledger, name="lab", **tools.NAMES
    )
    assert (tmp_path / "out.csv").read_bytes() == first
    assert (again.draws, again.nats, again.replayed) == (0, 0.0, 120)
    ledger.close()
    tools.write_csv(
        tmp_path / "mixed.csv", ["day", "co2", "people"], ["a", "b", "a"], ["1.0", "2.0", "3.0"], ["empty"] * 3
    )
    with pytest.raises(ReadingError, match="line 4, column 'day': this segment has been before"):
        apply_file(
            lab.design, tmp_path / "mixed.csv", tmp_path / "x.csv", segment="day", reading="co2", private="people"
        )


def test_counts_fall_into_the_bins_of_the_family(tools, tmp_path):
    """A family of bins takes the numbers that lie in them."""
    bins = bins_from("0,1-2,3+").to_plain()
    models = {"0": tools.room(0.0), "1-2": tools.room(0.5), "3+": tools.room(1.0)}
    family = us.Family(models, about={"readings": ["co2"], "private": "people", "bins": bins})
    design = us.design(family, leakage=0.3, horizon=50, distortion="mae")
    counts, names = [0, 1, 2, 3, 17, 0, 2], ["0", "1-2", "1-2", "3+", "3+", "0", "1-2"]
    Y = us.sample(family.along(names), 7, rng=3).ravel()
    source = tools.write_csv(tmp_path / "in.csv", ["co2", "people"], map(repr, Y.tolist()), counts)
    apply_file(design, source, tmp_path / "out.csv")
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    wanted = [us.disguise(Y, family.along(names), family.model(v), resolution=design.resolution) for v in design.pseudo]
    assert sum(np.allclose(out, np.round(np.ravel(w), 4), rtol=0, atol=1e-9) for w in wanted) == 1
    tools.write_csv(tmp_path / "in.csv", ["co2", "people"], ["400.0"], ["-1"])
    with pytest.raises(ReadingError, match="holds no value of the design"):
        apply_file(design, source, tmp_path / "out.csv")


def test_the_public_offset_is_taken_off_and_added_back(tools, tmp_path):
    """What weather and the clock do to the readings passes the filter by."""
    offset = Offset(("outside", *clock_names()), np.array([[2.0, 5.0, 1.0, -1.0, 0.5]]), np.array([-20.0]))
    about = {"readings": ["co2"], "private": "people", "time": "time", "public": offset.to_plain(), "period": 60}
    lab = tools.Room(about)
    times, Y, labels = lab.rows(200)
    outside = np.random.default_rng(2).normal(10.0, 3.0, 200)
    ns = np.array(times, dtype="datetime64[ns]").astype(np.int64)
    moved = offset(np.column_stack([outside, clock_values(ns, None)])).ravel()
    texts = list(map(repr, outside.tolist()))
    source = tools.write_csv(
        tmp_path / "in.csv", ["time", "co2", "outside", "people"], times, map(repr, (Y + moved).tolist()), texts, labels
    )
    summary = apply_file(lab.design, source, tmp_path / "out.csv")
    assert summary.columns == ("time", "co2")
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    step = lab.design.resolution[0]
    made = [np.round(np.rint((wanted + moved) / step) * step, 4) for wanted in lab.exact(Y, labels)]
    assert sum(np.allclose(out, wanted, rtol=0.0, atol=1e-9) for wanted in made) == 1
    assert not lab.played(out, Y, labels)
    texts[4] = ""
    tools.write_csv(source, ["time", "co2", "outside", "people"], times, Y, texts, labels)
    with pytest.raises(ReadingError, match="line 6, column 'outside': is missing, and the offset needs it"):
        apply_file(lab.design, source, tmp_path / "out.csv")


@pytest.mark.long(seconds=2, reason="a design on a grid")
def test_a_rounded_sensor_stays_on_its_grid(lab, tools, tmp_path):
    """Models that know the grid release whole multiples of it; others refuse a row of such readings."""
    family = us.Family({v: us.Quantised(tools.room(v), step=5.0) for v in ("empty", "full")})
    design = us.design(family, leakage=0.3, horizon=50, distortion="mae")
    labels = ["empty", "full"] * 50
    Y = np.asarray(us.sample(family.along(labels), 100, rng=3)).ravel()
    source = tools.write_csv(tmp_path / "in.csv", ["co2", "people"], [f"{y:.0f}" for y in Y], labels)
    summary = apply_file(design, source, tmp_path / "out.csv", reading="co2", private="people")
    out = tools.read_csv(tmp_path / "out.csv")["co2"]
    assert all(text.isdigit() and int(text) % 5 == 0 for text in out)
    assert summary.notes == ()
    with pytest.raises(ReadingError, match="64 readings in a row have at most six decimals"):
        apply_file(lab.design, source, tmp_path / "other.csv", reading="co2", private="people")
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.sample(default=1, seconds=4, reason="two designs on a grid")
@pytest.mark.parametrize("step", [0.3, 1 / 15])
def test_a_grid_is_written_without_noise(tools, tmp_path, step):
    """Texts with all digits of a double, as programs write them: at most 12 leave, those of the grid, in one form."""
    family = us.Family({v: us.Quantised(tools.room(v), step=step) for v in ("empty", "full")})
    design = us.design(family, leakage=0.3, horizon=50, distortion="mae")
    labels = ["empty", "full"] * 50
    Y = np.asarray(us.sample(family.along(labels), 100, rng=3)).ravel()
    texts = [repr(y) for y in Y.tolist()]
    assert max(map(len, texts)) > 16
    source = tools.write_csv(tmp_path / "in.csv", ["co2", "people"], texts, labels)
    apply_file(design, source, tmp_path / "out.csv", reading="co2", private="people")
    out = tools.read_csv(tmp_path / "out.csv")["co2"]
    assert max(map(len, out)) <= 13
    assert {len(text.partition(".")[2]) for text in out} == {1 if step == 0.3 else 9}
    counts = tools.floats(out) / step
    np.testing.assert_allclose(counts, np.rint(counts), rtol=0, atol=1e-6)


@pytest.mark.parametrize("how", ["mean", "last"])
@pytest.mark.parametrize("batch", [7, 65_536])
def test_a_family_of_coarser_readings(tools, tmp_path, how, batch, monkeypatch):
    """Rows are taken together as the fit did; each has the disguised reading of its stretch, gaps are gaps."""
    about = {"readings": ["co2"], "private": "people", "time": "time", "period": 300.0}
    lab = tools.Room(about | {"resampling": {"period": 300.0, "how": how}})
    times, Y, labels = lab.rows(600, stay=23)
    Y[[3, 77]] = np.nan
    kept = np.r_[0:200, 240:600]
    times, Y, labels = [times[i] for i in kept], Y[kept], [labels[i] for i in kept]
    texts = ["" if np.isnan(y) else repr(y) for y in Y.tolist()]
    source = tools.write_csv(tmp_path / "in.csv", ["time", "co2", "people"], times, texts, labels)
    monkeypatch.setattr(rows_module, "BATCH", batch)
    summary = apply_file(lab.design, source, tmp_path / "out.csv")
    assert (summary.rows, summary.missing, summary.filled) == (560, 2, 8)
    assert "each row has the disguised reading of the stretch" in summary.notes[-1]
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    # the oracle: stretches by the clock, one by one
    place = np.array(times, dtype="datetime64[s]").astype(int) // 300
    coarse, held, wanted = [], [], np.full(560, np.nan)
    for k in range(place[0], place[-1] + 1):
        y = Y[place == k]
        y = y[~np.isnan(y)]
        coarse.append(np.nan if not y.size else y[-1] if how == "last" else y.mean())
        votes = [p for p, at in zip(labels, place, strict=True) if at == k] or held[-1:]
        held.append(max(set(votes), key=lambda p: (votes.count(p), len(votes) - votes[::-1].index(p))))
    found = np.full(len(coarse), np.nan)
    found[place - place[0]] = np.where(np.isnan(Y), found[place - place[0]], out)
    assert np.isnan(out).tolist() == np.isnan(Y).tolist()
    assert len(lab.played(found, np.array(coarse), held)) == 1
    wanted[~np.isnan(Y)] = found[place - place[0]][~np.isnan(Y)]
    np.testing.assert_array_equal(out, wanted)


def test_rows_that_come_too_often_are_refused(lab, tools, tmp_path):
    """Readings every minute are none of a family of readings every five."""
    with pytest.raises(
        ReadingError, match=r"in\.csv: rows come every 1 min, and the family is of readings every 5 min"
    ):
        plain(lab, tools, tmp_path, 50, period=300)


@pytest.mark.long(seconds=2, reason="a design on a grid")
def test_readings_off_the_grid_are_moved_to_it(tools, tmp_path):
    """A family on a grid takes a reading off it for the nearest on it, as its fit did, and says how many."""
    family = us.Family(
        {v: us.Quantised(tools.room(v), step=5.0) for v in ("empty", "full")},
        about={
            "readings": ["co2"],
            "private": "people",
            "grid": [{"step": 5.0, "offset": 0.0, "low": None, "high": None}],
        },
    )
    design = us.design(family, leakage=0.3, horizon=50, distortion="mae")
    for first in ("400", "401.5"):
        source = tools.write_csv(tmp_path / "in.csv", ["co2", "people"], [first, "390.0", "385.0"], ["empty"] * 3)
        summary = apply_file(design, source, tmp_path / f"{first}.csv", rng=3)
    assert summary.notes == ("1 readings off the grid of the family were moved to its nearest value",)
    wanted, found = (tools.floats(tools.read_csv(tmp_path / f"{first}.csv")["co2"]) for first in ("400", "401.5"))
    np.testing.assert_array_equal(wanted, found)


@pytest.mark.parametrize(("known", "wanted"), [(None, 4), (2, 2), (9, 4)])
def test_decimals_are_those_of_the_family_where_it_knows(tools, tmp_path, known, wanted):
    """What the fit knows of the decimals is the form of the outputs; what the rows happen to show is not."""
    lab = tools.Room({"readings": ["co2"], "private": "people", "decimals": [known]})
    source = tools.write_csv(tmp_path / "in.csv", ["co2", "people"], ["400", "390.5", "381.5"], ["empty"] * 3)
    apply_file(lab.design, source, tmp_path / "out.csv", rng=1)
    texts = tools.read_csv(tmp_path / "out.csv")["co2"]
    assert [len(text.partition(".")[2]) for text in texts] == [wanted] * 3
    assert len({text.partition(".")[2] for text in texts}) > 1
    apply_file(lab.design, source, tmp_path / "out.csv", rng=1, decimals=3)
    given = tools.read_csv(tmp_path / "out.csv")["co2"]
    assert [len(text.partition(".")[2]) for text in given] == [3] * 3
    np.testing.assert_allclose(tools.floats(given), tools.floats(texts), rtol=0.0, atol=0.0006)


def test_several_columns_make_a_segment(lab, tools, tmp_path):
    """Rooms and days together separate sequences."""
    _, Y, labels = lab.rows(40)
    names = [np.repeat(["a", "b"], 20), np.tile(np.repeat(["1", "2"], 10), 2)]
    source = tools.write_csv(
        tmp_path / "in.csv", ["room", "day", "co2", "people"], *names, map(repr, Y.tolist()), labels
    )
    summary = apply_file(
        lab.design, source, tmp_path / "out.csv", segment=["room", "day"], reading="co2", private="people"
    )
    assert (summary.segments, summary.draws) == (4, 4)
    out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
    for k in range(4):
        part = slice(10 * k, 10 * k + 10)
        assert len(lab.played(out[part], Y[part], labels[part])) == 1


def test_several_channels_are_one_reading(tools, tmp_path):
    """A vector with a part missing is missing whole, and both columns say so."""

    def pair(v):
        return us.GaussMarkov(np.diag([0.9, 0.8]), np.eye(2), np.eye(2), np.eye(2), b=[v, -v])

    family = us.Family(pair, values=[0, 1])
    design = us.design(family, leakage=0.3, horizon=20, distortion="mae")
    Y = us.sample(pair(1), 30, rng=1)
    texts = [list(map(repr, column.tolist())) for column in Y.T]
    texts[1][4] = ""
    source = tools.write_csv(tmp_path / "in.csv", ["warm", "people", "damp"], texts[0], ["1"] * 30, texts[1])
    summary = apply_file(design, source, tmp_path / "out.csv", reading=["warm", "damp"], private="people")
    found = tools.read_csv(tmp_path / "out.csv")
    assert list(found) == ["warm", "damp"]
    assert found["warm"][4] == found["damp"][4] == ""
    assert summary.missing == 1
    Y[4] = np.nan
    out = np.column_stack([tools.floats(found["warm"]), tools.floats(found["damp"])])
    wanted = [np.round(us.disguise(Y, pair(1), pair(v), resolution=design.resolution), 4) for v in design.pseudo]
    assert sum(np.allclose(out, w, rtol=0, atol=1e-9, equal_nan=True) for w in wanted) == 1


# Designs with memory, epochs, gates ----------------------------------------------------------------------------


def test_a_design_with_memory_decides_by_the_clock(tools, tmp_path):
    """A causal design makes its decisions as the times of the file say, or by rows where there are none."""
    family = us.Family({v: tools.room(v) for v in ("empty", "full")}, about={"period": 60.0})
    design = us.design_causal(family, [[0.98, 0.02], [0.02, 0.98]], rate=0.02, distortion="mae", decision_every=15)
    lab = tools.Room()
    times, Y, labels = lab.rows(300)
    source = tools.write_csv(tmp_path / "in.csv", ["time", "co2", "people"], times, map(repr, Y.tolist()), labels)
    for names in (tools.NAMES, {"reading": "co2", "private": "people"}):
        summary = apply_file(design, source, tmp_path / "out.csv", **names)
        assert summary.rows == 300
        assert summary.draws == 20
        assert 0.0 < summary.nats < 20 * np.log(2.0)
        out = tools.floats(tools.read_csv(tmp_path / "out.csv")["co2"])
        assert np.isfinite(out).all()


def test_epochs_are_cut_by_the_clock(lab, tools, tmp_path):
    """With epoch= a new draw is made at midnight, and charged."""
    *_, summary = plain(lab, tools, tmp_path, 3000, epoch=dt.timedelta(days=1))
    assert summary.draws == 3
    assert summary.nats > 2.9 * lab.design.leakage
    with pytest.raises(ConfigurationError, match="need a column of times"):
        plain(lab, tools, tmp_path, 10, epoch=dt.timedelta(days=1), time="")
    *_, summary = plain(lab, tools, tmp_path, 100, epoch=30)
    assert summary.draws == 4


def test_a_family_that_failed_its_gate_is_refused(tools, tmp_path):
    """A misfit has to be accepted, and is then told."""
    lab = tools.Room({"gate": {"passed": False, "warning": "the scores tell the parameter"}})
    with pytest.raises(ConfigurationError, match="did not pass its gate: the scores tell the parameter"):
        plain(lab, tools, tmp_path, 20)
    *_, summary = plain(lab, tools, tmp_path, 20, accept_misfit=True)
    assert "which was accepted" in summary.notes[0]


def test_the_summary_is_plain(lab, tools, tmp_path):
    """It can be read by people and programs, and progress is told on the way."""
    seen = []
    *_, summary = plain(lab, tools, tmp_path, 100, progress=lambda rows, share: seen.append((rows, share)))
    assert json.loads(summary.to_json())["rows"] == 100
    assert seen[-1] == (100, 1.0)
    assert "100 rows disguised" in str(summary)
    table = pa.table({"co2": [400.0, 401.0], "people": ["empty", "full"]})
    pq.write_table(table, tmp_path / "in.parquet")
    apply_file(
        lab.design, tmp_path / "in.parquet", tmp_path / "out.jsonl", reading="co2", private="people",
        progress=lambda rows, share: seen.append((rows, share)),
    )  # fmt: skip
    assert seen[-1] == (2, 1.0)
