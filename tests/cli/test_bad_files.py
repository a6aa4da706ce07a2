"""Files that are not what a user takes them for: each ends in one sentence that names the place and the rule."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from cli_cases import family, one_line, refused

from understudy.cli import file_commands as fitting
from understudy.identify.resample import Columns, intake

DATA = ("--reading", "co2", "--private", "occupancy", "--time", "date")
HEAD = ("date", "co2", "occupancy")
START = dt.datetime(2026, 3, 26)
HOUR = dt.timedelta(hours=1)


def days(count, step=10, start=START):
    """Rows of a room, a few minutes apart; readings have two decimals."""
    rng, rows, now, level = np.random.default_rng(3), [], 0, 20.0
    for k in range(count * 1440 // step):
        now = 1 - now if rng.random() < 0.05 else now
        level = 20.0 + 0.9 * (level - 20.0) + 0.3 * now + 0.3 * rng.standard_normal()
        rows.append([start + k * dt.timedelta(minutes=step), f"{level:.2f}", str(now)])
    return rows


def encode(rows, head=HEAD, between=",", end="\n"):
    lines = [head, *([str(cell) for cell in row] for row in rows)] if head else [[str(c) for c in row] for row in rows]
    return "".join(between.join(line) + end for line in lines).encode()


def change(rows, column, make):
    """The rows with one column made anew, from its number and its text."""
    return [[make(k, cell) if j == column else cell for j, cell in enumerate(row)] for k, row in enumerate(rows)]


ROWS = days(2)


@pytest.fixture
def history(monkeypatch):
    """What a fit is given; the fit itself is there at once."""
    found = []

    def read(table, columns):
        found.append(intake(table, Columns(columns.readings, columns.private, columns.time)))
        return family()

    monkeypatch.setattr(fitting, "fit_table", read)
    return found


@pytest.fixture
def fit(understudy, tmp_path):
    """`understudy fit` on the bytes of a file."""

    def run(content, name="room.csv"):
        (tmp_path / name).write_bytes(content)
        return understudy("fit", tmp_path / name, *DATA, "-o", tmp_path / "family.json")

    return run


REFUSED = {
    "no header": (encode(ROWS, None), "room.csv has no column 'date'", "must hold the names"),
    "exchanged": (encode(ROWS, ("date", "occupancy", "co2")), "'occupancy' takes", "exchanged?", "--bins"),
    "all labels distinct": (encode(change(ROWS, 2, lambda k, _: 7 * k)), "'occupancy' takes 288 values", "--bins"),
    "names without end": (encode(change(ROWS, 2, lambda k, _: f"u{k}")), "288 values", "at most 50"),
    "one class": (encode(change(ROWS, 2, lambda *_: "0")), "'occupancy' takes one value only"),
    "no label": (encode(change(ROWS, 2, lambda *_: "")), "'occupancy' has no label in any row"),
    "no reading": (encode(change(ROWS, 1, lambda *_: "n/a")), "room.csv: no row has a reading", "co2"),
    "a word": (encode(change(ROWS, 1, lambda k, c: "err" if k == 5 else c)), "room.csv, line 7, column 'co2'"),
    "infinity": (encode(change(ROWS, 1, lambda k, c: "-inf" if k == 5 else c)), "line 7, column 'co2' is infinite"),
    "infinite label": (encode(change(ROWS, 2, lambda k, c: "inf" if k == 5 else c)), "line 7", "is infinite"),
    "comma": (encode(change(ROWS, 1, lambda _, c: c.replace(".", ",")), between=";"), "line 2, column 'co2'", "comma"),
    "thousands": (encode(change(ROWS, 1, lambda _, c: "1 2" + c)), "line 2, column 'co2'", "a blank", "288 such rows"),
    "a word for a time": (encode(change(ROWS, 0, lambda k, c: "noon" if k == 5 else c)), "line 7, column 'date'"),
    "empty": (b"", "room.csv is empty"),
    "blank": (b"\r\n\r\n", "room.csv is empty"),
    "header only": (encode([]), "room.csv has no rows below its header"),
    "other case": (encode(ROWS, ("date", "CO2", "occupancy")), "no column 'co2'", "is 'CO2' meant?"),
    "longer name": (encode(ROWS, ("date", "co2", "Occupancy_n")), "no column 'occupancy'", "is 'Occupancy_n' meant?"),
    "far name": (encode(ROWS, ("date", "co2", "people")), "no column 'occupancy'"),
    "reading twice": (encode([[*r, r[1]] for r in ROWS], (*HEAD, "co2")), "the column 'co2' twice"),
    "bytes": (np.random.default_rng(0).bytes(3000), "room.csv, line 1", "UTF-8"),
    "UTF-16": (encode(ROWS).decode().encode("utf-16"), "room.csv, line 1", "UTF-8"),
    "zeros": (encode([]) + bytes(300), "room.csv, line 2"),
    "a long row": (encode([*ROWS[:9], [*ROWS[9], "1"], *ROWS[10:]]), "room.csv, line 11", "4 fields"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.usefixtures("history")
def test_one_sentence_names_place_and_rule(fit, tmp_path, case):
    """Status 1, and no file; of the readings nothing is shown."""
    content, *words = REFUSED[case]
    told = fit(content)
    refused(told, *words)
    assert not [row[1] for row in ROWS[:20] if row[1] in told.err]
    assert [path.name for path in tmp_path.iterdir()] == ["room.csv"]
    assert ("meant?" in told.err) == (case in ("other case", "longer name"))


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("case", ["empty", "a word", "exchanged", "bytes"])
def test_quickstart_leaves_no_folder(understudy, tmp_path, case):
    """The same sentence is its last line; a folder that was there before stays."""
    content, *words = REFUSED[case]
    (tmp_path / "room.csv").write_bytes(content)
    (tmp_path / "old").mkdir()
    for name in ("new", "old"):
        told = understudy("quickstart", tmp_path / "room.csv", *DATA, "-o", tmp_path / name)
        assert (told.status, told.out) == (1, "")
        assert all(word in told.err.splitlines()[-1] for word in words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "room.csv"]


@pytest.mark.parametrize(
    ("name", "content"),
    {
        "bom.csv": b"\xef\xbb\xbf" + encode(ROWS),
        "crlf.csv": encode(ROWS, end="\r\n"),
        "cr.csv": encode(ROWS, end="\r"),
        "semicolons.csv": encode(ROWS, between=";"),
        "quotes.csv": encode(ROWS, [f'"{name}"' for name in HEAD], between=";"),
        "tabs.tsv": encode(ROWS, between="\t"),
        "bars.txt": encode(ROWS, between="|"),
    }.items(),
)
def test_forms_of_text_simply_work(fit, history, name, content):
    """All rows are there, and nothing is warned of."""
    told = fit(content, name)
    assert (told.status, told.err) == (0, "")
    assert history[0].rows == history[0].counts.sum() == 288


def test_the_output_has_the_delimiter_of_the_file(files, understudy, tmp_path):
    """A filter gives back the form that it was given."""
    rows = tmp_path / "rows.csv"
    rows.write_text((files / "today.csv").read_text().replace(",", ";"))
    more = ("--private", "occupancy", "-o", tmp_path / "out.csv", "--ledger", tmp_path / "room.db")
    told = understudy("apply", files / "causal.json", rows, *more)
    assert told.status == 0, told.err
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "date;co2"


@pytest.mark.parametrize(
    ("rows", "used", "words"),
    [
        ([row for row in ROWS for _ in "ab"], 288, "288 rows with the time of an earlier one dropped"),
        (ROWS[::-1], 288, "were sorted"),
        (change(ROWS, 1, lambda k, c: "NaN" if k % 9 == 4 else c), 256, "32 rows without a reading in 'co2'"),
        (change(ROWS, 2, lambda k, c: "" if k % 9 == 4 else c), 256, "32 rows without a label in 'occupancy'"),
        (change(ROWS, 0, lambda k, c: "" if k == 4 else c), 287, "1 row without a time in 'date' dropped"),
    ],
    ids=["doubles", "backwards", "NaN", "labels missing", "a time missing"],
)
def test_what_was_done_is_noted(fit, history, rows, used, words):
    """Such files can be used."""
    assert fit(encode(rows)).status == 0
    assert history[0].counts.sum() == used
    assert any(words in note for note in history[0].notes)


JUMPS = {
    "Fahrenheit": (change(days(6), 1, lambda k, c: f"{1.8 * float(c) + 32:.2f}" if k >= 432 else c), 434),
    "percent": (change(days(6), 1, lambda k, c: f"{float(c) / 1e4:.6f}" if k >= 500 else c), 502),
    "a bad sample before": (
        change(days(6), 1, lambda k, c: "0" if k == 9 else f"{1.8 * float(c) + 32:.2f}" if k >= 432 else c),
        434,
    ),
}


@pytest.mark.filterwarnings("always::understudy.errors.UnderstudyWarning")
@pytest.mark.parametrize("case", JUMPS)
@pytest.mark.usefixtures("history")
def test_a_change_of_units_is_a_warning_at_its_line(fit, case):
    """It is found in the readings alone."""
    rows, line = JUMPS[case]
    told = fit(encode(rows))
    assert told.status == 0
    assert told.err.count("\n") == 1
    assert f"warning: room.csv, line {line}, column 'co2': the readings jump" in told.err


@pytest.mark.parametrize(
    "rows",
    [
        change(days(6), 1, lambda k, c: f"{float(c) + 300 * (k // 72 % 2)}"),
        change(days(1), 1, lambda k, c: f"{float(c) + 300 * (k > 72)}"),
        [[t, f"{float(y) + 300 * (k > 432)}", int(k > 432)] for k, (t, y, _) in enumerate(days(6))],
    ],
    ids=["day and night", "one day", "the private value"],
)
@pytest.mark.usefixtures("history")
def test_other_jumps_are_no_change_of_units(fit, rows):
    """Those that come back, that last no day, and that the private value explains."""
    told = fit(encode(rows))
    assert (told.status, told.err) == (0, "")


@pytest.mark.filterwarnings("always::understudy.errors.UnderstudyWarning")
@pytest.mark.usefixtures("history")
def test_marks_of_missing_readings_are_a_warning(fit):
    """-999 now and then is no reading; zeros are what a device reads that is off, and one outlier is a bad sample."""
    told = fit(encode(change(days(6), 1, lambda k, c: "-999" if k % 50 == 7 else c)))
    assert told.status == 0
    assert "warning: room.csv, line 9, column 'co2': this reading and others (18 in all)" in told.err
    assert "999" not in told.err
    for make in (lambda k, c: "0" if k % 50 == 7 else f"{float(c) + 400}", lambda k, c: "-999" if k == 7 else c):
        assert fit(encode(change(days(6), 1, make))).err == ""


@pytest.mark.filterwarnings("always::understudy.errors.UnderstudyWarning")
@pytest.mark.usefixtures("history")
def test_days_of_a_spreadsheet_are_a_warning(fit):
    """They would be taken for seconds; seconds that begin at zero are seconds."""
    rows = days(2)
    told = fit(encode(change(rows, 0, lambda k, _: f"{46107 + k / 144:.6f}")))
    assert told.status == 0
    assert "warning: room.csv, line 2, column 'date': the numbers look like days as spreadsheets count them" in told.err
    assert "spreadsheet" not in fit(encode(change(rows, 0, lambda k, _: f"{600 * k}"))).err


@pytest.mark.filterwarnings("always::understudy.errors.UnderstudyWarning")
@pytest.mark.parametrize("back", [False, True])
def test_a_change_of_the_clock_is_a_warning_at_its_line(fit, history, back):
    """An hour that is skipped is missing; of one that comes twice the first is kept. With zones nothing is lost."""
    rows = days(6)
    turn = START + dt.timedelta(days=3, hours=3 if back else 2)
    local = change(rows, 0, lambda _, t: t if t < turn else t - HOUR if back else t + HOUR)
    told = fit(encode(local))
    assert told.status == 0
    line = 2 + next(k for k, row in enumerate(rows) if row[0] >= turn)
    assert f"warning: room.csv, line {line}, column 'date': the clock {'goes back' if back else 'skips'}" in told.err
    assert history[0].counts.sum() == len(rows) - 6 * back
    assert history[0].rows == len(rows) + (-6 if back else 6)
    zones = ("+02:00", "+01:00") if back else ("+01:00", "+02:00")
    zoned = change(local, 0, lambda k, t: f"{t}{zones[rows[k][0] >= turn]}")
    assert fit(encode(zoned)).err == ""
    assert history[1].counts.sum() == len(rows)


def test_the_latest_rows_are_held_out_once(understudy, history, tmp_path):
    """Whatever the order of the rows; a time that comes twice does not end in a refusal of the last step."""
    rows = change(days(2), 1, lambda k, c: f"{400.0 + float(c) + k / 7e7:.12f}")
    (tmp_path / "room.csv").write_bytes(encode([row for row in rows[::-1] for _ in "ab"]))
    understudy("quickstart", tmp_path / "room.csv", *DATA, "--no-audit", "-o", tmp_path / "out")
    held = (tmp_path / "out" / "heldout.csv").read_text().splitlines()[1:]
    times = [line.split(",")[0] for line in held]
    assert times == sorted(set(times))
    assert times[-1] == str(rows[-1][0])
    assert history[0].segments[-1].times[-1] < np.datetime64(times[0], "ns").astype(np.int64)


def test_a_constant_sensor_is_one_sentence(fit):
    """Which is not said anew for every class of models."""
    told = fit(encode(change(ROWS, 1, lambda *_: "400")))
    refused(told, "no model class could be fitted: the channel 'co2' never changes")
    assert told.err.count("never changes") == 1


@pytest.mark.long(seconds=8, reason="fits every class of models to a short history")
def test_a_day_or_two_are_not_trusted(fit, understudy, tmp_path):
    """They are fitted, with a warning, and quickstart says not to release."""
    for count in (1, 2):
        told = fit(encode(days(count)))
        assert told.status == 0
        assert "The guarantee assumes that they do not: record more days" in one_line(told.err)
    assert (tmp_path / "family.json").exists()
    told = understudy("quickstart", tmp_path / "room.csv", *DATA, "-o", tmp_path / "out")
    assert told.status == 3, told.err
    assert "DO NOT RELEASE. - The history has 2 days; tuning needs at least 4." in one_line(told.out)


@pytest.mark.long(seconds=8, reason="fits every class of models to a short history")
def test_one_day_of_which_no_design_can_be_made_is_not_to_be_released(understudy, tmp_path):
    """The verdict, and not the sentence of the step that failed."""
    rows = [[t, y, str(int(k >= 150))] for k, (t, y, _) in enumerate(days(1, step=5))]
    (tmp_path / "room.csv").write_bytes(encode(rows))
    told = understudy("quickstart", tmp_path / "room.csv", *DATA, "-o", tmp_path / "out")
    assert told.status == 3, told.err
    assert "DO NOT RELEASE. - The history has 1 day" in one_line(told.out)
    assert "--rate" not in told.out + told.err
