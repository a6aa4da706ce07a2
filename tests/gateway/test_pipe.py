"""The pipe as it is installed: what leaves, when, and what is said where something is wrong."""

from __future__ import annotations

import datetime as dt
import json
import os
import resource
import select
import signal
import subprocess

import numpy as np
import pipe_driver as driver
import pytest

import understudy as us
from understudy.apply.binding import forms_of
from understudy.errors import LedgerError
from understudy.gateway.formats import FORMATS, Names, read_point
from understudy.gateway.pipe import LinePipe, Stop, groups, renderer, summary
from understudy.gateway.plant import Plant
from understudy.gateway.terms import Preparation, terms_of
from understudy.stream.fleet import Rule


@pytest.fixture(scope="module")
def design():
    """The room with three pseudo values."""
    return driver.design()


@pytest.fixture
def folder(tmp_path):
    """Design and key in a folder."""
    driver.prepare(tmp_path)
    return tmp_path


def _text(readings):
    return "".join(reading.line + "\n" for reading in readings)


def _library(design, key, folder, given):
    """The outputs of a fleet for the same readings, as texts, by room and time."""
    with us.Ledger(folder / "library.db", rollback_guard=False) as ledger:
        names = list(dict.fromkeys(reading.room for reading in given))
        hour = dt.timedelta(hours=1)
        fleet = us.Fleet(design, ledger, "pipe", key=key, rooms=names, period=60, epoch=hour)
        found = {}
        for reading in given:
            time = np.array([reading.time]).view("datetime64[ns]")
            theta = [np.nan if reading.theta is None else reading.theta]
            outcome = fleet.outcome([reading.room], time, [reading.y], theta)
            if outcome.rules[0] == Rule.TAKEN:
                found[reading.room, reading.time] = forms_of(design)[0].texts(outcome.outputs)[0]
        return found


def _outputs(content):
    """Field texts by room and time; every line is marked."""
    found = {}
    for line in content.decode().splitlines():
        point = read_point(line)
        assert point.tags["disguised"] == "true"
        assert set(point.tags) == {"disguised", "floor", "room"}
        assert set(point.fields) == {"co2"}
        found[point.tags["room"], point.time] = line.rpartition("co2=")[2].split(" ")[0]
    return found


def test_the_pipe_gives_what_the_library_gives(folder, design):
    """Bit for bit, with epochs, missing private values, late and repeated lines, and nothing that is not named."""
    given = driver.readings(400, 3)
    late, twice = given[30], given[10]
    shuffled = [*given[:30], *given[31:60], late, twice, *given[60:]]
    done = driver.run(folder, driver.options(folder), _text(shuffled))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 400  # the late one has none, the repeated one has two
    key = us.MasterKey.read(folder / "master.key")
    ours = _outputs(done.stdout)
    assert ours == _library(design, key, folder, shuffled)
    assert (late.room, late.time) not in ours
    assert b"people" not in done.stdout
    assert b"temp" not in done.stdout
    assert b"401 lines" in done.stderr
    again = driver.run(folder, driver.options(folder, "room.db", "--json"), _text(given))
    assert sorted(again.stdout.splitlines()) == sorted(set(done.stdout.splitlines()))
    told = json.loads(again.stderr)
    assert {name: count for name, count in told.items() if count} == {
        "lines": 400,
        "again": 399,
        "refused": {"late": 1},
    }


def test_a_line_is_out_before_the_next_is_in(folder):
    """Nothing waits for more input: each line is answered while the pipe stays open."""
    process = driver.start(folder, driver.options(folder))
    try:
        for reading in driver.readings(12, 2):
            os.write(process.stdin.fileno(), (reading.line + "\n").encode())
            assert select.select([process.stdout], [], [], 60)[0]
            line = os.read(process.stdout.fileno(), 4096)
            assert line.endswith(f" {reading.time}\n".encode())
            assert line.count(b"\n") == 1
    finally:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_sigterm_finishes_the_group(folder):
    """What was read whole is answered; the beginning of a line is not; the status is 0."""
    given = driver.readings(5, 1)
    process = driver.start(folder, driver.options(folder))
    os.write(process.stdin.fileno(), (_text(given[:3]) + given[3].line[:20]).encode())
    for _ in range(3):
        assert process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert process.stdout.read() == b""
    assert b"3 lines: 3 disguised" in process.stderr.read()
    for each in (process.stdin, process.stdout, process.stderr):
        each.close()


def test_what_cannot_be_read_is_told_by_number_and_rule(folder):
    """The lines themselves are shown nowhere; the others go on. A last line needs no newline."""
    good = [reading.line.encode() for reading in driver.readings(3, 1)]
    bad = [b"air,room=lab0 co2=secret 5", b"\xff\xfe,room=lab0 co2=7 8", b"air,room=lab0 co2=4", b"x" * 3_000_000]
    lines = b"\n".join([good[0], *bad[:2], b"# comment", b"", good[1], *bad[2:], good[2]])
    done = driver.run(folder, driver.options(folder), lines)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 3
    told = done.stderr.decode()
    assert [f"line {number}:" in told for number in range(1, 10)] == [
        False, True, True, False, False, False, True, True, False,
    ]  # fmt: skip
    assert "secret" not in told
    assert "xxx" not in told
    assert "4 not readable" in told


def test_quiet_says_nothing_of_what_is_in_order(folder):
    """No summary; what is wrong with lines is told all the same."""
    command = (*driver.COMMAND, "--quiet")
    done = driver.run(folder, driver.options(folder), _text(driver.readings(3, 1)) + "air\n", command=command)
    assert done.returncode == 0
    assert done.stderr.decode().splitlines() == [told for told in done.stderr.decode().splitlines() if "line 4" in told]


def _undisturbed(folder, given):
    done = driver.run(folder, driver.options(folder, "calm.db"), _text(given))
    assert done.returncode == 0
    return done.stdout


def test_a_closed_output_loses_nothing(folder):
    """The reader has gone: status 1, one sentence, and the same lines again give the same outputs."""
    given = driver.readings(50, 2)
    reader, writer = os.pipe()
    os.close(reader)
    done = driver.run(folder, driver.options(folder), _text(given), stdout=writer)
    os.close(writer)
    assert done.returncode == 1
    assert b"standard output cannot be written" in done.stderr
    assert b"Traceback" not in done.stderr
    assert driver.run(folder, driver.options(folder), _text(given)).stdout == _undisturbed(folder, given)


@pytest.mark.long(seconds=3, reason="four processes, each of which has to start")
def test_a_full_disk_under_the_output_leaves_no_half_line(folder):
    """The file ends where it ended; later the same lines give the same outputs."""
    given = driver.readings(300, 2)

    def narrow():
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000_000, 40_000_000))

    with (folder / "out").open("wb") as file:
        file.truncate(40_000_000 - 500)  # there is room for a few lines
        file.seek(0, os.SEEK_END)
        done = driver.run(folder, driver.options(folder), _text(given), stdout=file, preexec_fn=narrow)
    assert done.returncode == 1
    assert b"standard output cannot be written" in done.stderr
    assert (folder / "out").stat().st_size == 40_000_000 - 500
    with open("/dev/full", "wb") as full:
        assert driver.run(folder, driver.options(folder), _text(given), stdout=full).returncode == 1
    assert driver.run(folder, driver.options(folder), _text(given)).stdout == _undisturbed(folder, given)


@pytest.mark.long(seconds=3, reason="four processes, each of which has to start")
def test_a_full_disk_under_the_ledger_writes_nothing(folder):
    """What is not recorded does not leave; with room again it goes on as if nothing had been."""
    given = driver.readings(300, 2)
    begun = driver.run(folder, driver.options(folder), _text(given[:100]))

    def narrow():
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    done = driver.run(folder, driver.options(folder), _text(given[100:]), preexec_fn=narrow)
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr
    rest = driver.run(folder, driver.options(folder), _text(given[100:]))
    assert begun.stdout + rest.stdout == _undisturbed(folder, given)


def test_a_closed_descriptor_is_refused(folder):
    """Otherwise the ledger would be opened in the place of standard output, and lines written into it."""
    done = driver.run(folder, driver.options(folder), "", preexec_fn=lambda: os.close(1), stdout=None)
    assert done.returncode == 1
    assert b"is closed" in done.stderr
    assert not (folder / "room.db").exists()


def test_a_ledger_that_somebody_has_is_left_alone(folder):
    """Status 1 at the start, with the reason."""
    with us.Ledger(folder / "room.db", rollback_guard=False):
        done = driver.run(folder, driver.options(folder), "")
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"in use by process" in done.stderr


def test_the_key_is_made_once_beside_the_ledger(folder):
    """Without --key a key is made; without it nothing goes on."""
    typed = driver.options(folder)
    at = typed.index("--key")
    bare = typed[:at] + typed[at + 2 :]
    given = driver.readings(20, 1)
    first = driver.run(folder, bare, _text(given[:10]))
    assert first.returncode == 0
    assert b"room.db.key" in first.stderr
    assert (folder / "room.db.key").stat().st_mode & 0o077 == 0
    second = driver.run(folder, bare, _text(given[10:]))
    assert second.returncode == 0
    assert b"room.db.key" not in second.stderr
    (folder / "room.db.key").unlink()
    third = driver.run(folder, bare, "")
    assert third.returncode == 1
    assert b"--key" in third.stderr
    assert not (folder / "room.db.key").exists()


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"--format": "xml"}, "--format"),
        ({"--period": None}, "--period"),
        ({"--reading": None}, "--reading"),
        ({"--private": None}, "--private"),
        ({"--keep": "people"}, "--private"),
        ({"--keep": "co2"}, "--keep"),
        ({"--room": "people"}, "--private"),
        ({"--time": "at"}, "--time"),
        ({"--precision": "m"}, "--precision"),
        ({"--epoch": "soon"}, "--epoch"),
        ({"--retain": "never"}, "--retain"),
        ({"--ahead": "never"}, "--ahead"),
        ({"--per": "1d"}, "amount"),
    ],
)
def test_what_is_typed_wrongly_is_refused_before_anything_is_read(folder, changed, word, monkeypatch):
    """With the option and the rule; nothing is made."""
    from typer.testing import CliRunner

    from understudy.cli import app

    typed = driver.options(folder)
    pairs = dict(zip(typed[::2], typed[1::2], strict=True)) | changed
    arguments = [part for name, value in pairs.items() if value is not None for part in (name, value)]
    found = CliRunner().invoke(app, ["pipe", str(folder / "design.json"), *arguments])
    assert found.exit_code != 0
    assert word in str(found.exception) + found.output
    assert not (folder / "room.db.key").exists()


# In this process ------------------------------------------------------------------------------------------


def _pipe(design, form, names, ledger, key, **more):
    lines, preparation = FORMATS[form](names), Preparation(design)
    terms = terms_of(design, "pipe", readings=names.readings, period=60, epoch=dt.timedelta(hours=1))
    plant = Plant(ledger, key, [terms], renderer(lines, design, preparation), confirm=False, sort=False)
    return LinePipe(lines, plant, preparation, **({"admit": 100} | more))


def _as_json(reading):
    return json.dumps({"at": reading.time, "room": reading.room, "v": {"co2": reading.y}, "people": reading.theta})


def _as_senml(reading):
    seconds = reading.time // 10**9
    people = [] if reading.theta is None else [{"n": "people", "v": reading.theta}]
    return json.dumps([{"bn": f"{reading.room}:", "bt": seconds, "n": "co2", "v": reading.y}, *people])


def test_all_formats_give_the_same_readings(tmp_path, design):
    """The same readings in line protocol, JSON and SenML leave with the same digits, by groups of any size."""
    given, key = driver.readings(200, 2), us.MasterKey.new()
    forms = {
        "influx": (Names(("co2",), "people", "room"), lambda r: r.line, lambda t: t.split("co2=")[1].split(" ")[0]),
        "jsonl": (
            Names(("v.co2",), "people", "room", (), "at"),
            _as_json,
            lambda t: t.split('"co2":')[1].split("}")[0],
        ),
        "senml": (Names(("co2",), "people", "bn"), _as_senml, lambda t: t.split('"v":')[1].split(",")[0]),
    }
    found = {}
    for size, (form, (names, write, value)) in zip((1, 7, 200), forms.items(), strict=True):
        pipe = _pipe(design, form, names, None, key)
        left = b"".join(pipe.disguise([write(r) for r in given[i : i + size]]) for i in range(0, len(given), size))
        found[form] = [value(line) for line in left.decode().splitlines()]
    assert len(found["influx"]) == 200
    assert found["influx"] == found["jsonl"] == found["senml"]


def test_nothing_is_given_before_it_is_recorded(tmp_path, design, monkeypatch):
    """A group whose COMMIT fails gives nothing, and the same lines later give what they would have given."""
    given, key = [r.line for r in driver.readings(60, 2)], us.MasterKey.new()
    names = Names(("co2",), "people", "room")
    calm = _pipe(design, "influx", names, None, key)
    wanted = calm.disguise(given[:40]) + calm.disguise(given[40:])
    with us.Ledger(tmp_path / "a.db", rollback_guard=False) as ledger:
        pipe = _pipe(design, "influx", names, ledger, key)
        left = pipe.disguise(given[:40])
        commit, fails = us.Ledger._commit, [True]

        def fail_once(self, db):
            if fails and fails.pop():
                raise LedgerError("the disk is full")
            commit(self, db)

        monkeypatch.setattr(us.Ledger, "_commit", fail_once)
        with pytest.raises(LedgerError):
            pipe.disguise(given[40:])
        left += pipe.disguise(given[40:])
    assert left == wanted


def test_rooms_are_admitted_up_to_a_number(design):
    """Others get nothing, and are counted; so are values that the design does not have, and rooms without one."""
    pipe = _pipe(design, "influx", Names(("co2",), "people", "room"), None, us.MasterKey.new(), admit=2)
    at = driver.BEGIN
    lines = [f"air,room={name} co2=101.5,people={people}i {at}" for name, people in (("a", 1), ("b", 7), ("c", 1))]
    assert pipe.disguise([*lines, f"air,room=a co2=101 {at}", f"air,room=b co2=101 {at}"]).count(b"\n") == 1
    assert dict(pipe.refusals) == {"unknown_value": 1, "unknown_room": 1, "untold": 1, "duplicate": 1}
    assert "5 lines: 1 disguised" in summary(pipe)[0]


def test_a_line_that_comes_twice_in_a_group_is_answered_twice(tmp_path, design):
    """With the same bytes, though nothing of the group was recorded before; another time in its slot gets nothing."""
    with us.Ledger(tmp_path / "a.db", rollback_guard=False) as ledger:
        pipe = _pipe(design, "influx", Names(("co2",), "people", "room"), ledger, us.MasterKey.new())
        line = f"air,room=a co2=101.5,people=1i {driver.BEGIN}"
        near = f"air,room=a co2=102.5,people=1i {driver.BEGIN + 10**9}"
        left = pipe.disguise([line, line, near]).splitlines()
        assert len(left) == 2
        assert left[0] == left[1]
        assert dict(pipe.refusals) == {"duplicate": 1}


def test_a_clock_that_is_ahead_does_not_silence_its_room(design):
    """A time in the far future is told and not taken; the readings after it have their outputs."""
    told: list[str] = []
    pipe = _pipe(design, "influx", Names(("co2",), "people"), None, us.MasterKey.new(), room="x", tell=told.append)
    times = driver.BEGIN, 4_100_000_040 * 10**9, driver.BEGIN + driver.MINUTE
    left = pipe.disguise([f"air co2=101.5,people=1i {time}" for time in times])
    assert left.count(b"\n") == 2
    assert [words.startswith("line 2:") for words in told] == [True]


def test_one_room_without_a_tag(design):
    """Without --room all lines are of one room; its output carries the time of its slot."""
    pipe = _pipe(design, "influx", Names(("co2",), "people"), None, us.MasterKey.new(), room="hall", admit=1)
    left = pipe.disguise([f"air,room=x co2=101.5,people=1i {driver.BEGIN + 5 * 10**9}"])
    assert left.startswith(b"air,disguised=true co2=")
    assert left.endswith(f" {driver.BEGIN}\n".encode())


def test_groups_are_what_a_read_gave(tmp_path):
    """At most 1,000 lines, in any pieces; a line that is too long is None."""
    reader, writer = os.pipe()
    with Stop() as stop:
        found = groups(reader, stop)
        os.write(writer, b"a\nb\nc")
        assert next(found) == ["a", "b"]
        os.write(writer, b"d\r\n" + b"x\n" * 1500)
        assert [len(next(found)), len(next(found))] == [1000, 501]
        os.write(writer, b"last")
        os.close(writer)
        assert list(found) == [["last"]]
    os.close(reader)
    (tmp_path / "long").write_bytes(b"a\n" + b"y" * 3_000_000 + b"\nb\n\xff\n")
    with (tmp_path / "long").open("rb") as file, Stop() as stop:
        assert [line for group in groups(file.fileno(), stop) for line in group] == ["a", None, "b", None]


def test_secrets_are_in_no_repr(design):
    """Rows, arrivals and the pipe show no reading."""
    lines = FORMATS["influx"](Names(("co2",), "people", "room"))
    (row,) = lines.read(f"air,room=a co2=101.5,people=1i {driver.BEGIN}")
    pipe = _pipe(design, "influx", Names(("co2",), "people", "room"), None, us.MasterKey.new())
    shown = f"{row!r} {lines!r} {pipe!r} {pipe._arrivals([row])!r}"
    assert "101.5" not in shown
    assert "people" not in shown


def test_help_of_the_pipe_loads_no_numpy():
    """It is as quick as other help."""
    code = "import sys; sys.argv = ['understudy', 'pipe', '--help']\nfrom understudy.cli import app\n"
    code += "try:\n    app()\nexcept SystemExit:\n    pass\nprint('numpy' in sys.modules)"
    told = subprocess.run([driver.COMMAND[0], "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "False"
