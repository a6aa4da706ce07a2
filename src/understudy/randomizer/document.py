"""A JSON document on disk, written whole or not at all, and read with suspicion.

The file is plain text, with its kind in the first lines::

    {
    "format": "understudy design",
    "version": 1,
    "fingerprint": "sha256:...",
    "content": {...}
    }

**Writing.** Whole or not at all, as `understudy.paths` writes every file. A symbolic link is followed: its target is
replaced, and the link stays.

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

import json
import os
import re
import stat
from collections.abc import Collection
from typing import Any, NamedTuple

from understudy.errors import StoredFileError
from understudy.models.fingerprint import canonical, fingerprint
from understudy.paths import Path, shown, what, write_whole

LARGEST = 64 * 1024 * 1024
"""Bytes of a document; a design of 512 values with models of 8 states has some 30 million."""
MOST = 4_000_000
"""Commas and opening brackets of a document: what its reading takes grows with them, more than with its bytes."""

_KIND = re.compile(rb'\{\n"format": "understudy ([a-z][a-z -]{0,30})",')
_FIELDS = ("format", "version", "fingerprint", "content")


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
    if _parts(text) > MOST:
        raise StoredFileError(f"the document would have {_parts(text)} parts; it must have at most {MOST}")
    write_whole(path, text)
    return mark


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
    name = shown(path)
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
    data = _bytes(path)
    ours = _KIND.match(data)  # as `write` begins; anything else is read whole
    if ours is not None:
        return ours[1].decode("ascii")
    document, problem = _parsed(data)
    told = "" if problem or type(document) is not dict else document.get("format")
    return told.removeprefix("understudy ") if type(told) is str else ""


def _mark(kind: str, version: int, content: dict[str, Any]) -> str:
    return fingerprint({"format": f"understudy {kind}", "version": version, "content": content})


def _bytes(path: Path) -> bytes:
    name = shown(path)
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
        raise StoredFileError(f"{name} is {what(found.st_mode)}; a document is a file")
    if max(found.st_size, len(data)) > LARGEST:
        raise StoredFileError(f"{name} is too large; a document has at most {LARGEST} bytes")
    if _parts(data) > MOST:
        raise StoredFileError(f"{name} has too many parts; a document has at most {MOST}")
    return data


def _parts(data: bytes) -> int:
    return sum(data.count(mark) for mark in (b",", b"[", b"{"))


def read_plain(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file of whatever kind, read with the same suspicion.

    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "room.json")
    >>> write_whole(path, '{"leakage": 0.3}')
    >>> read_plain(path)
    {'leakage': 0.3}
    >>> folder.cleanup()
    """
    document, problem = _parsed(_bytes(path))
    if problem:
        raise StoredFileError(f"{shown(path)} {problem}")
    return document


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


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or "it is no path of a file")
