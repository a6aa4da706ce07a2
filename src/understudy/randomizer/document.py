"""A JSON document on disk, written whole or not at all, and read with suspicion.

The file is plain text, with its kind in the first lines::

    {
    "format": "understudy design",
    "version": 1,
    "fingerprint": "sha256:...",
    "content": {...}
    }

**Writing.** The new text goes to a temporary file in the same folder, is flushed to the disk, and
takes the place of the older file in one step, which the disk confirms as well. A full disk, a crash
or another writer at the same time leaves the older file or a whole newer one, never a mixture
(a crash may also leave the temporary file, ``.understudy-*.tmp``, which can be deleted). A symbolic
link is followed: its target is replaced, and the link stays.

**Who may read it.** What is stored here, a design, is not a secret: the guarantee holds against an
adversary who knows the models, the prior and the randomizer. A new file therefore has the ordinary
permissions (the umask's), and one that is overwritten keeps its own. Draws and states, which are
secret, never go into such a document; they live in ledgers and snapshots, which only the owner can
read.

**Reading.** The fingerprint covers format, version and content, so damage and edits by hand are
noticed. It is no signature: who can write the file can write the fingerprint too. Size and nesting
are bounded, keys must not repeat, numbers must be finite. What is refused is described by its place
and the rule; the text of the file is never repeated.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

from understudy.errors import StoredFileError
from understudy.models.fingerprint import canonical, fingerprint

LARGEST = 256 * 1024 * 1024

_FIELDS = ("format", "version", "fingerprint", "content")
# A file system that cannot flush a folder says so in one of these ways; the file itself was flushed.
_NO_FOLDER_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)

Path = str | os.PathLike[str]


class Document(NamedTuple):
    """What a file held: its version, its fingerprint, and the content."""

    version: int
    fingerprint: str
    content: dict[str, Any]


# Writing -------------------------------------------------------------------------------------------


def write(path: Path, content: dict[str, Any], kind: str, version: int) -> str:
    """Write the content as a document of this kind, whole or not at all; returns its fingerprint.

    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "room.json")
    >>> mark = write(path, {"leakage": 0.3}, kind="design", version=1)
    >>> read(path, kind="design", versions=[1])
    {'leakage': 0.3}
    >>> folder.cleanup()
    """
    if type(content) is not dict:
        raise StoredFileError(f"content is of type {type(content).__name__}; a document holds a dict")
    mark = _mark(kind, version, content)
    parts = (canonical(f"understudy {kind}"), canonical(version), canonical(mark), canonical(content))
    lines = [canonical(name) + b": " + part for name, part in zip(_FIELDS, parts, strict=True)]
    text = b"{\n" + b",\n".join(lines) + b"\n}\n"
    if len(text) > LARGEST:
        raise StoredFileError(f"the document would have {len(text)} bytes; it must have at most {LARGEST}")
    target, mode = _target(path)
    try:
        _replace(target, text, mode)
    except OSError as error:
        raise StoredFileError(
            f"{_shown(path)} cannot be written: {error.strerror}; what was there is intact"
        ) from error
    _flush_folder(os.path.dirname(target), path)
    return mark


def _target(path: Path) -> tuple[str, int | None]:
    """The file that is to be replaced, links followed, and its permissions if it is there."""
    try:
        target = os.path.realpath(path)
        found = os.lstat(target)
    except FileNotFoundError:
        if os.path.isdir(os.path.dirname(target)):
            return target, None
        raise StoredFileError(f"{_shown(path)} cannot be written: its folder does not exist") from None
    except (OSError, ValueError) as error:
        raise StoredFileError(f"{_shown(path)} cannot be written: {_reason(error)}") from None
    if not stat.S_ISREG(found.st_mode):
        # a device or a pipe would be replaced by a file; a link that is left is one that leads to itself
        raise StoredFileError(f"{_shown(path)} is {_what(found.st_mode)}; a document is written to a file")
    if not os.access(target, os.W_OK):
        raise StoredFileError(f"{_shown(path)} is protected against writing; it was not replaced")
    return target, stat.S_IMODE(found.st_mode)


def _replace(target: str, text: bytes, mode: int | None) -> None:
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".understudy-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode & 0o666)
    try:
        try:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)  # the umask had its say above
            rest = memoryview(text)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException:  # an interrupt too must leave nothing behind
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _flush_folder(folder: str, path: Path) -> None:
    """Make the new name of the file last through a power cut, where the system can."""
    if os.name != "posix":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_FLUSH:
            raise StoredFileError(
                f"{_shown(path)} is written, but the disk did not confirm it: {error.strerror}; "
                "after a power cut the older file may be back"
            ) from error


# Reading -------------------------------------------------------------------------------------------


def read(path: Path, kind: str, versions: Collection[int]) -> dict[str, Any]:
    """The content of a document of this kind, in one of these versions; `load` tells which."""
    return load(path, kind, versions).content


def load(path: Path, kind: str, versions: Collection[int]) -> Document:
    """The document in a file, if it is of this kind and of one of these versions, and undamaged.

    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "room.json")
    >>> mark = write(path, {"leakage": 0.3}, kind="design", version=1)
    >>> document = load(path, kind="design", versions=[1])
    >>> document.version, document.fingerprint == mark, document.content
    (1, True, {'leakage': 0.3})
    >>> folder.cleanup()
    """
    name = _shown(path)
    document, problem = _parsed(_bytes(path))
    if problem:
        raise StoredFileError(f"{name} {problem}")
    version = _version(name, document, kind, versions)
    if document.keys() != {*_FIELDS} or type(document["content"]) is not dict:
        raise StoredFileError(f"{name} is damaged: it must have the fields {', '.join(_FIELDS)} and no other")
    content = document["content"]
    try:
        mark = _mark(kind, version, content)
    except StoredFileError as error:
        raise StoredFileError(f"{name} is damaged: {error}") from None
    if document["fingerprint"] != mark:
        raise StoredFileError(
            f"{name} is damaged or was edited by hand: its fingerprint does not fit its content; save it anew"
        )
    return Document(version, mark, content)


def kind_of(path: Path) -> str:
    """What kind of document a file says it is; "" if it does not say so.

    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "room.json")
    >>> mark = write(path, {"leakage": 0.3}, kind="design", version=1)
    >>> kind_of(path)
    'design'
    >>> folder.cleanup()
    """
    document, problem = _parsed(_bytes(path))
    told = "" if problem or type(document) is not dict else document.get("format")
    return told.removeprefix("understudy ") if type(told) is str else ""


def _mark(kind: str, version: int, content: dict[str, Any]) -> str:
    return fingerprint({"format": f"understudy {kind}", "version": version, "content": content})


def _bytes(path: Path) -> bytes:
    name = _shown(path)
    try:
        found = os.stat(path)
        data = b""
        if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST:
            with open(path, "rb") as file:
                data = file.read(LARGEST + 1)  # the bound once more, for a file that grows meanwhile
    except FileNotFoundError:
        raise StoredFileError(f"{name} does not exist") from None
    except (OSError, ValueError) as error:
        raise StoredFileError(f"{name} cannot be read: {_reason(error)}") from None
    if not stat.S_ISREG(found.st_mode):
        raise StoredFileError(f"{name} is {_what(found.st_mode)}; a document is a file")
    if max(found.st_size, len(data)) > LARGEST:
        raise StoredFileError(f"{name} is too large; a document has at most {LARGEST} bytes")
    return data


class _RefusedError(ValueError):
    """A rule of ours that JSON itself does not have."""


def _parsed(data: bytes) -> tuple[dict[str, Any], str]:
    """The document, or what is wrong with it; an exception of the parser would carry the text along."""
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        return {}, f"is not UTF-8 text (byte {error.start}); it is damaged, or no understudy document"
    except json.JSONDecodeError as error:
        return {}, (
            f"is not JSON (line {error.lineno}, column {error.colno}); it is damaged, cut short, "
            "or no understudy document"
        )
    except _RefusedError as error:
        return {}, str(error)
    except RecursionError:
        return {}, "is nested too deep; it is damaged, or no understudy document"
    except ValueError:
        return {}, "has a number with too many digits; it is damaged, or no understudy document"
    return (document, "") if type(document) is dict else ({}, "is not an understudy document: it holds no mapping")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RefusedError("has a key twice in one mapping; each must appear once")
    return found


def _no_constant(_: str) -> Any:
    raise _RefusedError("has a NaN or an Infinity; every number must be finite")


def _version(name: str, document: dict[str, Any], kind: str, versions: Collection[int]) -> int:
    found, wanted = document.get("format"), f"understudy {kind}"
    if found != wanted:
        # a format of ours is named; anything else in a file is not repeated
        ours = type(found) is str and re.fullmatch(r"understudy [a-z][a-z -]{0,30}", found)
        raise StoredFileError(
            f"{name} is {f'an {found}' if ours else 'no understudy document'}; an {wanted} was expected"
        )
    version = document.get("version")
    if type(version) is not int:
        raise StoredFileError(f"{name} is damaged: its version must be a whole number")
    if version in versions:
        return version
    readable = " or ".join(str(v) for v in sorted(versions))
    if max(versions) < version < 1_000_000:
        from understudy.version import __version__

        raise StoredFileError(
            f"{name} is an {wanted} of version {version}; understudy {__version__} reads version {readable}: "
            "install a newer understudy"
        )
    raise StoredFileError(f"{name} is an {wanted} of a version that is not read any more; version {readable} is")


def _what(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a link that leads to itself" if stat.S_ISLNK(mode) else "a device or a pipe"


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or "it is no path of a file")


def _shown(path: Path) -> str:
    return repr(os.fspath(path))
