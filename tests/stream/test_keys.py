"""Master keys: where they come from, what follows from them, and that they show nowhere."""

import hashlib
import os
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import understudy as us
from understudy.cli import app
from understudy.errors import ConfigurationError, LedgerError
from understudy.stream.randomness import is_wrapped

KEY = us.MasterKey(bytes(range(32)))
TEXT = "understudy-key-1 " + bytes(range(32)).hex() + "\n"


def test_a_file_is_private_and_never_written_over(tmp_path):
    path = tmp_path / "master.key"
    KEY.save(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert us.MasterKey.read(path) == KEY
    with pytest.raises(ConfigurationError, match="exists"):
        us.MasterKey.new().save(path)
    assert us.MasterKey.read(path) == KEY
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod"):
        us.MasterKey.read(path)


def test_sources(tmp_path, monkeypatch):
    monkeypatch.setenv("A_KEY", TEXT)
    assert us.MasterKey.read("env:A_KEY") == KEY
    with pytest.raises(ConfigurationError, match="no variable"):
        us.MasterKey.read("env:NO_KEY")
    with pytest.raises(ConfigurationError, match="systemd"):
        us.MasterKey.read("credential:master")
    KEY.save(tmp_path / "master")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert us.MasterKey.read("credential:master") == KEY
    assert us.MasterKey.read(f"command:cat '{tmp_path / 'master'}'") == KEY
    for bad in ("command:false", "command:no-such-program", "command:'"):
        with pytest.raises(ConfigurationError, match="command"):
            us.MasterKey.read(bad)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        us.MasterKey.read(tmp_path / "absent")


@pytest.mark.parametrize("text", ["", "understudy-key-1", TEXT[:-3], "0" * 64, TEXT.replace("00", "zz"), TEXT + "00"])
def test_what_is_no_key_is_refused_without_showing_it(tmp_path, text):
    path = tmp_path / "bad.key"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        us.MasterKey.read(path)
    assert bytes(range(1, 32)).hex() not in str(caught.value)


def test_a_key_shows_nowhere():
    assert repr(KEY) == f"MasterKey({KEY.id})"
    assert bytes(range(32)).hex() not in repr(KEY)
    with pytest.raises(ConfigurationError, match="pickled"):
        pickle.dumps(KEY)
    assert us.MasterKey(bytes(32)).id != KEY.id


@settings(max_examples=30)
@given(st.lists(st.text(), min_size=3, max_size=3), st.lists(st.text(), min_size=3, max_size=3))
def test_keys_of_rooms_differ_where_a_part_does(one, other):
    assert (KEY.room_key(*one) == KEY.room_key(*other)) == (one == other)


def test_a_room_key_is_the_digest_that_the_docs_state():
    parts = b"".join(len(part).to_bytes(8, "little") + part for part in (b"plant", b"abc", "Küche".encode()))
    expected = hashlib.blake2b(parts, key=bytes(range(32)), person=b"understudy room", digest_size=32).digest()
    assert KEY.room_key("plant", "abc", "Küche") == expected


def test_texts_that_run_together_are_told_apart():
    """The twin: without lengths, these two rooms would share a key."""
    assert KEY.room_key("a", "bc", "d") != KEY.room_key("ab", "c", "d")


@given(st.binary(min_size=32, max_size=32), st.data())
def test_wrapped_keys(secret, data):
    wrapped = KEY.wrap(secret)
    assert KEY.unwrap(wrapped) == secret
    assert is_wrapped(wrapped)
    assert not is_wrapped(secret)
    assert secret not in wrapped
    assert KEY.wrap(secret) != wrapped
    with pytest.raises(LedgerError, match="another one"):
        us.MasterKey(bytes(32)).unwrap(wrapped)
    i = data.draw(st.integers(0, 8 * len(wrapped) - 1))
    changed = bytearray(wrapped)
    changed[i // 8] ^= 1 << i % 8
    with pytest.raises(LedgerError):
        KEY.unwrap(bytes(changed))


def test_the_command_line(tmp_path):
    path = tmp_path / "master.key"
    first = CliRunner().invoke(app, ["key", "new", str(path)])
    assert first.exit_code == 0
    assert first.output.strip() == us.MasterKey.read(path).id
    assert CliRunner().invoke(app, ["key", "show-id", str(path)]).output == first.output
    again = CliRunner().invoke(app, ["key", "new", str(path)])
    assert again.exit_code == 1
    assert isinstance(again.exception, ConfigurationError)
