"""Documents on disk: written whole or not at all, and refused unless undamaged."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy
from understudy import serialize as document
from understudy.errors import StoredFileError
from understudy.serialize import fingerprint, write

CONTENT = {"leakage": 0.3, "kernel": [[0.1, 0.9], [-0.0, 5e-324]], "values": [0, "é", None, True]}
HIDDEN = "seven-three-one"
posix = pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")


@pytest.fixture
def path(tmp_path):
    """A document of version 1."""
    file = tmp_path / "room.json"
    write(file, CONTENT, "design", 1)
    return file


def text_of(content, version=1, changes=None):
    """A document as text, written another way than the package does, and perhaps changed afterwards."""
    covered = {"format": "understudy design", "version": version, "content": content}
    whole = {**covered, "fingerprint": fingerprint(covered), **(changes or {})}
    return json.dumps(whole, indent=2)


def refused(file, rule, kind="design", versions=(1,)):
    """Reading fails with this message, which does not repeat the text of the file."""
    with pytest.raises(StoredFileError, match=rule) as caught:
        document.read(file, kind, versions)
    assert HIDDEN not in str(caught.value)
    assert HIDDEN not in repr(caught.value.__context__)
    return str(caught.value)


# Round trips --------------------------------------------------------------------------------------


def test_a_document_comes_back(path):
    """Content, version and fingerprint; minus zero and the smallest number too."""
    assert repr(document.read(path, "design", [1]).content["kernel"]) == repr(CONTENT["kernel"])
    found = document.read(path, "design", [1, 2])
    assert found.content == CONTENT
    assert found.version == 1
    assert found.fingerprint == write(path, CONTENT, "design", 1)


def test_the_file_says_what_it_is(path):
    """Fields in the first lines, plain text, and the same bytes for the same content."""
    lines = path.read_text(encoding="ascii").splitlines()
    assert lines[:3] == ["{", '"format": "understudy design",', '"version": 1,']
    assert json.loads(path.read_text(encoding="ascii")).keys() == {"format", "version", "fingerprint", "content"}
    before = path.read_bytes()
    write(path, dict(reversed(CONTENT.items())), "design", 1)
    assert path.read_bytes() == before


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), plain, max_size=4))
@settings(max_examples=50, deadline=None)
def test_any_plain_content_comes_back(tmp_path_factory, content):
    """To the bit, and with types."""
    file = tmp_path_factory.mktemp("any") / "any.json"
    write(file, content, "design", 1)
    found = document.read(file, "design", [1]).content
    assert found == content
    assert json.dumps(found, sort_keys=True) == json.dumps(content, sort_keys=True)


def test_another_way_of_writing_the_same_is_read(tmp_path):
    """Spaces and the order of keys are not content."""
    file = tmp_path / "spaced.json"
    file.write_text(text_of(CONTENT), encoding="utf-8")
    assert document.read(file, "design", [1]).content == CONTENT


def test_a_path_may_be_a_string_and_relative(tmp_path, monkeypatch):
    """A name in the present folder."""
    monkeypatch.chdir(tmp_path)
    write("room.json", CONTENT, "design", 1)
    assert document.read("room.json", "design", [1]).content == CONTENT


# What is refused ----------------------------------------------------------------------------------


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    """On reading and on writing."""
    refused(tmp_path / "none.json", "does not exist")
    refused(tmp_path, "is a folder; a document is a file")
    refused("a\0b", "cannot be read: it is no path")
    with pytest.raises(StoredFileError, match="is a folder"):
        write(tmp_path, CONTENT, "design", 1)
    with pytest.raises(StoredFileError, match="its folder does not exist"):
        write(tmp_path / "none" / "room.json", CONTENT, "design", 1)
    with pytest.raises(StoredFileError, match="no path"):
        write("a\0b", CONTENT, "design", 1)


@posix
def test_a_pipe_and_a_device_are_refused(tmp_path):
    """A pipe would make the reader wait for ever; a device would be replaced."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused(pipe, "a device or a pipe")
    refused("/dev/zero", "a device or a pipe")
    for target in (pipe, "/dev/null"):
        with pytest.raises(StoredFileError, match="a device or a pipe"):
            write(target, CONTENT, "design", 1)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"", "not JSON"), (b"\xff\xfe", r"not UTF-8 text \(byte 0\)"),
        (b"seven-three-one", "not JSON .line 1, column 1"),
        (b"\xef\xbb\xbf{}", "not JSON"), (b"[]", "no mapping"), (b"3", "no mapping"), (b"{}", "no understudy document"),
        (b'{"a": "seven-three-one", "a": 2}', "a key twice"), (b'{"a": NaN}', "NaN or an Infinity"),
        (b'{"a": {"b": [{"seven-three-one": 1, "seven-three-one": 1}]}}', "a key twice"),
        (b'{"a": -Infinity}', "NaN or an Infinity"), (b"[" * 200_000, "nested too deep"),
        (b'{"a":' * 200_000, "nested too deep"), (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"format": "seven-three-one", "version": 1}', "no understudy document; an understudy design was expected"),
        (b'{"format": "understudy ledger", "version": 1}', "is an understudy ledger; an understudy design"),
        (b'{"format": "understudy design"}', "version must be a whole number"),
        (b'{"format": "understudy design", "version": true}', "version must be a whole number"),
        (b'{"format": "understudy design", "version": "seven-three-one"}', "version must be a whole number"),
        (b'{"format": "understudy design", "version": 1}', "must have the fields"),
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused(tmp_path, text, rule):
    """By place and rule; the text of the file is not repeated."""
    file = tmp_path / "bad.json"
    file.write_bytes(text)
    refused(file, rule)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"fingerprint": "sha256:" + "0" * 64}, "damaged or was edited by hand"), ({"fingerprint": None}, "damaged"),
        ({"content": {"leakage": 0.4}}, "damaged or was edited by hand"),
        ({"content": [HIDDEN]}, "must have the fields"),
        ({"extra": HIDDEN}, "must have the fields"),
    ],
)  # fmt: skip
def test_an_edited_document_is_refused(tmp_path, changes, rule):
    """One number is enough."""
    file = tmp_path / "edited.json"
    file.write_text(text_of({"leakage": 0.3}, changes=changes), encoding="utf-8")
    refused(file, rule)


def test_the_fingerprint_covers_kind_and_version(tmp_path):
    """A document cannot be passed off as another kind or version."""
    file = tmp_path / "edited.json"
    for changes in ({"format": "understudy other"}, {"version": 2}):
        file.write_text(text_of({"leakage": 0.3}, changes=changes), encoding="utf-8")
        kind = changes.get("format", "understudy design").removeprefix("understudy ")
        refused(file, "edited by hand", kind=kind, versions=[1, 2])


def test_another_version_is_refused(tmp_path):
    """A newer one says that a newer understudy is needed, whatever its fields are."""
    file = tmp_path / "new.json"
    file.write_text(text_of({"leakage": 0.3}, version=7, changes={"more": HIDDEN}), encoding="utf-8")
    message = refused(file, "of version 7; .* reads version 1 or 2: install a newer understudy", versions=[1, 2])
    assert understudy.__version__ in message
    file.write_text(text_of({"leakage": 0.3}, version=1), encoding="utf-8")
    refused(file, "not read any more; version 2 is", versions=[2])


def test_numbers_beyond_float64_are_refused(tmp_path):
    """1e999 is no NaN to a JSON parser, but it is no number of ours either."""
    file = tmp_path / "large.json"
    for number, rule in (("1e999", "not finite"), (str(2**64), "64 bits")):
        file.write_text(text_of({"a": 0.5}).replace("0.5", number), encoding="utf-8")
        refused(file, rule)


def test_nesting_is_bounded(tmp_path):
    """Well before the parser gives up."""
    file = tmp_path / "deep.json"
    file.write_text(text_of({"a": 0.5}).replace("0.5", "[" * 70 + "]" * 70), encoding="utf-8")
    refused(file, "nested more than 64 deep")


def test_a_large_file_is_refused(path, monkeypatch):
    """Before it is read, and before it is written; a file that grows meanwhile, too."""
    monkeypatch.setattr(document, "LARGEST", 100)
    refused(path, "too large; a document has at most 100 bytes")
    with pytest.raises(StoredFileError, match=r"would have \d+ bytes; it must have at most 100"):
        write(path, CONTENT, "design", 1)
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda *a, **k: os.stat_result([*real(*a, **k)[:6], 10, 0, 0, 0]))
    refused(path, "too large")


def test_a_large_file_is_refused_without_reading_it(tmp_path):
    """Its size is asked for first."""
    file = tmp_path / "sparse.json"
    with open(file, "wb") as handle:
        handle.truncate(document.LARGEST + 1)
    refused(file, "too large")


@pytest.mark.parametrize("content", [[1], "text", None, {"a": float("nan")}, {"a": (1, 2)}, {1: 2}, {"a": object()}])
def test_content_that_would_not_come_back_is_refused(path, content):
    """Nothing is written."""
    before = path.read_bytes()
    with pytest.raises(StoredFileError):
        write(path, content, "design", 1)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


# Damage -------------------------------------------------------------------------------------------


def test_a_file_cut_short_anywhere_is_refused(path):
    """At every byte; only the line end after the last brace is not missed."""
    whole = path.read_bytes()
    for stop in range(len(whole) - 1):
        path.write_bytes(whole[:stop])
        with pytest.raises(StoredFileError):
            document.read(path, "design", [1])


def test_a_flipped_bit_is_refused_or_changes_nothing(path):
    """Every bit of every byte: refused, or white space that stayed white space."""
    whole = path.read_bytes()
    unnoticed = 0
    for i in range(len(whole)):
        for bit in range(8):
            path.write_bytes(whole[:i] + bytes([whole[i] ^ 1 << bit]) + whole[i + 1 :])
            try:
                found = document.read(path, "design", [1])
            except StoredFileError:
                continue
            unnoticed += 1
            assert repr(sorted(found.content.items())) == repr(sorted(CONTENT.items()))
    assert unnoticed < 20


# Writing ------------------------------------------------------------------------------------------


def full(*_, **__):
    """What a full disk says."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "open", "close"])
def test_a_full_disk_leaves_the_older_file(path, monkeypatch, call):
    """Whatever fails: the older file is intact, and no temporary one is left."""
    before = path.read_bytes()
    real_close = os.close

    def closed(descriptor):
        real_close(descriptor)
        full()

    monkeypatch.setattr(os, call, closed if call == "close" else full)
    with pytest.raises(StoredFileError, match="No space left on device; what was there is intact"):
        write(path, {"leakage": 0.4}, "design", 1)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_disk_that_fills_up_while_writing_leaves_the_older_file(path, monkeypatch):
    """Ten bytes at a time, then no more."""
    before, real, calls = path.read_bytes(), os.write, []

    def some(descriptor, data):
        calls.append(len(data))
        return real(descriptor, data[:10]) if len(calls) < 4 else full()

    monkeypatch.setattr(os, "write", some)
    with pytest.raises(StoredFileError, match="No space left"):
        write(path, {"leakage": 0.4}, "design", 1)
    monkeypatch.undo()
    assert len(calls) == 4
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_short_writes_are_continued(path, monkeypatch):
    """The system may take less than it was given."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    write(path, CONTENT, "design", 1)
    assert document.read(path, "design", [1]).content == CONTENT


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_an_interrupt_leaves_nothing_behind(path, monkeypatch, call):
    """Ctrl-C while saving."""

    def interrupted(*_):
        raise KeyboardInterrupt

    before = path.read_bytes()
    monkeypatch.setattr(os, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(path, {"leakage": 0.4}, "design", 1)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@posix
def test_the_order_of_things_survives_a_crash(path, monkeypatch):
    """The text is on the disk before the name changes, and the name before `write` returns."""
    calls = []
    fsync, replace = os.fsync, os.replace

    def flushed(descriptor):
        calls.append("flush folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "flush file")
        fsync(descriptor)

    def replaced(one, other):
        calls.append("replace")
        assert os.path.dirname(one) == os.path.dirname(other)
        replace(one, other)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", replaced)
    write(path, {"leakage": 0.4}, "design", 1)
    assert calls == ["flush file", "replace", "flush folder"]


@posix
@pytest.mark.parametrize(("code", "said"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_flushed(path, monkeypatch, code, said):
    """A file system that has no such thing is no error; a disk that fails is."""
    fsync = os.fsync

    def flushed(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", flushed)
    if said:
        with pytest.raises(StoredFileError, match="is written, but the disk did not confirm it"):
            write(path, {"leakage": 0.4}, "design", 1)
    else:
        write(path, {"leakage": 0.4}, "design", 1)
    assert document.read(path, "design", [1]).content == {"leakage": 0.4}


@posix
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_permissions_of_the_umask(tmp_path, mask, mode):
    """A design is no secret."""
    before = os.umask(mask)
    try:
        write(tmp_path / "new.json", CONTENT, "design", 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(tmp_path / "new.json").st_mode) == mode


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_that_is_overwritten_keeps_its_permissions(path, mode):
    """Whoever closed it to others finds it closed."""
    path.chmod(mode)
    write(path, {"leakage": 0.4}, "design", 1)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix
def test_a_closed_file_is_never_open_in_between(path, monkeypatch):
    """The temporary file has the permissions of the older one from its first byte on."""
    path.chmod(0o600)
    real, modes = os.write, []

    def seen(descriptor, data):
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", seen)
    write(path, {"leakage": 0.4}, "design", 1)
    assert modes == [0o600]


@posix
def test_a_protected_file_is_not_replaced(path, monkeypatch):
    """As an ordinary write would refuse; the system's word is taken, since root may write anything."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    before = path.read_bytes()
    with pytest.raises(StoredFileError, match="protected against writing"):
        write(path, {"leakage": 0.4}, "design", 1)
    assert path.read_bytes() == before


@posix
def test_a_link_is_followed(path, tmp_path):
    """Its target is replaced, in the target's folder, and the link stays; also one that leads nowhere yet."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = elsewhere / "link.json"
    link.symlink_to(path)
    write(link, {"leakage": 0.4}, "design", 1)
    assert link.is_symlink()
    assert document.read(path, "design", [1]).content == document.read(link, "design", [1]).content == {"leakage": 0.4}
    link.unlink()
    link.symlink_to(tmp_path / "later.json")
    refused(link, "does not exist")
    write(link, CONTENT, "design", 1)
    assert link.is_symlink()
    assert document.read(tmp_path / "later.json", "design", [1]).content == CONTENT
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "later.json", "room.json"]
    assert os.listdir(elsewhere) == ["link.json"]


@posix
def test_a_link_to_itself_is_refused(tmp_path):
    """On both ways."""
    link = tmp_path / "loop.json"
    link.symlink_to(link)
    refused(link, "cannot be read")
    with pytest.raises(StoredFileError, match="a link that leads to itself"):
        write(link, CONTENT, "design", 1)
    assert link.is_symlink()


def test_writers_at_the_same_time_leave_one_whole_document(tmp_path):
    """Readers meanwhile see a whole one, always."""
    file, failures = tmp_path / "shared.json", []
    contents = [{"writer": i, "numbers": [float(i)] * 2000} for i in range(4)]
    write(file, contents[0], "design", 1)
    done = threading.Event()

    def guarded(work):
        try:
            work()
        except Exception as error:
            failures.append(error)

    def writer(content):
        for _ in range(15):
            write(file, content, "design", 1)

    def reader():
        while not done.is_set():
            assert document.read(file, "design", [1]).content in contents

    writers = [threading.Thread(target=guarded, args=[lambda c=c: writer(c)]) for c in contents]
    readers = [threading.Thread(target=guarded, args=[reader]) for _ in range(2)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert not failures
    assert document.read(file, "design", [1]).content in contents
    assert os.listdir(tmp_path) == ["shared.json"]


def test_a_long_name_is_no_obstacle(tmp_path):
    """The temporary file has a short name of its own."""
    file = tmp_path / ("r" * 250 + ".json")
    write(file, CONTENT, "design", 1)
    assert document.read(file, "design", [1]).content == CONTENT
