"""A snapshot: everything that a stream must remember, as bytes with a version and a checksum.

A snapshot holds the draw, the private value and the key of the stream: keep it as you would a password.
"""

from __future__ import annotations

import hashlib
import json
import platform
import warnings
from typing import Any

from understudy.errors import SnapshotError, UnderstudyWarning
from understudy.stream.rows import EpochRow, Position, StreamRow
from understudy.stream.states import from_plain, to_plain
from understudy.version import __version__

FORMAT, VERSION = "understudy snapshot", 1
_LARGEST = 256 * 1024 * 1024


def taken(row: StreamRow, epoch: EpochRow, at: Position, ledgered: bool) -> bytes:
    """The snapshot of a stream that stands there."""
    stored = {
        "name": row.name, "room": row.room, "design": row.design, "secret": row.secret.hex(),
        "insecure": row.insecure, "options": row.options,
    }  # fmt: skip
    position = {**at._asdict(), "memory": to_plain(at.memory), "state": to_plain(at.state)}
    return dumps(
        {
            "stream": stored,
            "epoch": list(epoch),
            "position": position,
            "ledgered": ledgered,
            "insecure": row.insecure,
        }
    )


def parts(content: dict[str, Any]) -> tuple[StreamRow, EpochRow, Position, bool]:
    """What a snapshot says: the stream, its draw, where it stands, and whether it has a ledger."""
    try:
        stored = content["stream"]
        row = StreamRow(
            0, stored["name"], stored["room"], stored["design"], bytes.fromhex(stored["secret"]),
            bool(stored["insecure"]), dict(stored["options"]),
        )  # fmt: skip
        epoch = EpochRow(*content["epoch"])
        position = dict(content["position"])
        position |= {name: from_plain(position.get(name)) for name in ("memory", "state")}
        return row, epoch, Position(**position), bool(content["ledgered"])
    except (KeyError, TypeError, ValueError):
        raise SnapshotError("the snapshot lacks a part that it must have") from None


def dumps(content: dict[str, Any]) -> bytes:
    """The content as bytes.

    >>> loads(dumps({"count": 3}))["count"]
    3
    """
    body = {**content, "versions": versions()}
    text = json.dumps(body, separators=(",", ":"), sort_keys=True, allow_nan=False)
    head = {"format": FORMAT, "version": VERSION, "checksum": _checksum(text)}
    return f'{json.dumps(head)[:-1]}, "content": {text}}}\n'.encode("ascii")


def loads(blob: Any) -> dict[str, Any]:
    """The content again, if it is whole and of a version that this one knows."""
    if isinstance(blob, (bytearray, memoryview)):
        blob = bytes(blob)
    if not isinstance(blob, bytes):
        raise SnapshotError(f"a snapshot is bytes; this is of type {type(blob).__name__}")
    try:
        if len(blob) > _LARGEST:
            raise ValueError
        document = json.loads(blob)
        kind, version, checksum = (document[name] for name in ("format", "version", "checksum"))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SnapshotError("the snapshot is damaged: it cannot be read") from None
    if kind != FORMAT:
        raise SnapshotError("this is no snapshot of a stream")
    if type(version) is not int or version > VERSION:
        raise SnapshotError(f"the snapshot is of a newer version; this understudy knows up to {VERSION}")
    content = document.get("content")
    if type(content) is not dict or checksum != _checksum(
        json.dumps(content, separators=(",", ":"), sort_keys=True, allow_nan=False)
    ):
        raise SnapshotError("the snapshot is damaged: its checksum does not fit its content")
    return content


def warn_of_versions(content: dict[str, Any], portable: bool) -> None:
    """Say that a snapshot of other versions may not go on to the bit, where that is so."""
    was, now = content.get("versions"), versions()
    if not portable and was != now:
        warnings.warn(
            "this snapshot was made on another machine or with other versions; for laws that are not Gaussian the "
            "stream goes on exactly in law, but not bit for bit",
            UnderstudyWarning,
            stacklevel=3,
        )


def versions() -> dict[str, str]:
    """What the last bits of special functions depend on."""
    import numpy
    import scipy

    return {
        "understudy": __version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _checksum(text: str) -> str:
    return "sha256:" + hashlib.sha256(f"{FORMAT} {VERSION}\n{text}".encode()).hexdigest()
