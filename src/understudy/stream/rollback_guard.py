"""The rollback guard: a record outside of the ledger of how far each stream had come, so that an older copy is noticed.

Going on from an old copy of a ledger would draw again, or release a second output for the same part of
the readings: both leak. The ledger cannot tell that it is old; a small file elsewhere can. It is written
after each transaction, without waiting for the disk: a guard that lags behind is harmless, one that
is ahead of its ledger is proof.

It is no proof against somebody who restores both, and knows nothing of a ledger that was begun anew.

One file holds a record for each stream, at the place of its number; a record lies within a sector of a disk, so that it
is written whole or not at all. Versions up to 0.2 kept a file for each stream: they are read once, when their ledger
is brought up. A file of a number that no stream has then tells those versions that an older copy has been overtaken.
"""

from __future__ import annotations

import contextlib
import os
import struct
import warnings
from collections.abc import Mapping
from typing import NamedTuple

from understudy.errors import ConfigurationError, LedgerError, RollbackError, UnderstudyWarning
from understudy.stream.cadence import COUNT, NUMBER, TIME
from understudy.stream.ledger_file import Position

_RECORD = struct.Struct("<qqqqqq16x")
_FORMER = struct.Struct("<qqqqq")
_KINDS = ("", COUNT, NUMBER, TIME)
_CODES = {kind: code for code, kind in enumerate(_KINDS)}
_NO_KEY = -(2**63)
_NAME = "streams"
_HEAD = b"understudy rollback guard, 2".ljust(_RECORD.size, b"\0")
_BARRIER = str(2**62)


class GuardRecord(NamedTuple):
    """How far a stream had come when an output was last released."""

    serial: int
    readings: int
    last: int | None
    kind: str
    charged: int
    generation: int


class RollbackGuard:
    """One small file in a folder for the ledger, with a record for each stream."""

    def __init__(self, folder: str | None) -> None:
        self._file = -1
        self._newest = 0
        self._warned = False
        if folder is None:
            return
        path = os.path.join(folder, _NAME)
        try:
            if not os.path.exists(path):
                _bring_up(folder, path)
            self._file = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o600)
            self._newest = max(0, os.fstat(self._file).st_size // _RECORD.size - 1)
        except OSError as error:
            self.close()
            raise LedgerError(f"the rollback guard cannot be opened: {error.strerror}") from None

    @classmethod
    def of(cls, given: str | os.PathLike[str] | bool | None, ledger: str) -> RollbackGuard:
        """In the folder that was given, or in the user's state folder; False for none."""
        if given is False:
            return cls(None)
        if given is True:
            raise ConfigurationError(
                "rollback_guard = True; it must be a folder, None for the usual one, or False for none"
            )
        base = _state_folder() if given is None else os.fspath(given)
        folder = os.path.join(base, ledger)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as error:
            if given is not None:
                raise ConfigurationError(f"the folder of the rollback guard cannot be made: {error.strerror}") from None
            warnings.warn(
                "no rollback guard can be kept in the user's state folder, so an older copy of this ledger would not "
                "be noticed; give rollback_guard= a folder, or False to say that this is known",
                UnderstudyWarning,
                stacklevel=4,
            )
            return cls(None)
        return cls(folder)

    def newest(self) -> int:
        """The largest number of a stream that was seen; 0 if none was."""
        return self._newest

    def ahead(self, stream: int, serial: int) -> GuardRecord | None:
        """How far the stream had come, if that is further than this."""
        if self._file < 0:
            return None
        try:
            record = os.pread(self._file, _RECORD.size, stream * _RECORD.size)
        except OSError as error:
            raise LedgerError(f"the rollback guard cannot be read: {error.strerror}") from None
        if len(record) < _RECORD.size:
            return None
        seen, count, last, kind, charged, generation = _RECORD.unpack(record)
        if seen <= serial:
            return None
        name = _KINDS[kind] if 0 <= kind < len(_KINDS) else ""
        return GuardRecord(seen, count, None if last == _NO_KEY else last, name, charged, generation)

    def note(self, places: Mapping[int, Position]) -> None:
        """Remember how far streams have come, by their numbers; those of neighbours are written together."""
        if self._file < 0:
            return
        first, records = 0, list[bytes]()
        for stream in sorted(places):
            at = places[stream]
            last = _NO_KEY if at.last is None else at.last
            if stream != first + len(records):
                self._write(first, b"".join(records))
                first, records = stream, []
            records.append(_RECORD.pack(at.serial, at.readings, last, _CODES[at.kind], at.charged, at.generation))
        self._write(first, b"".join(records))

    def _write(self, first: int, records: bytes) -> None:
        if not records:
            return
        try:
            _pwrite(self._file, records, first * _RECORD.size)
            self._newest = max(self._newest, first + len(records) // _RECORD.size - 1)
        except OSError as error:
            # what was recorded may be released; only an older copy would not be noticed
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"the rollback guard cannot be written: {error.strerror}", UnderstudyWarning, stacklevel=6
                )

    def close(self) -> None:
        """Close the file."""
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _bring_up(folder: str, path: str) -> None:
    """Make the file of records out of the files that versions up to 0.2 kept, one a stream, if there are any.

    It is there whole or not at all. What those versions would still read is left, behind a barrier.
    """
    content = bytearray(_HEAD)
    with os.scandir(folder) as files:
        former = [(int(f.name), f.path) for f in files if f.name.isdecimal() and f.name != _BARRIER]
    for stream, name in former:
        with open(name, "rb") as file:
            record = file.read()
        if len(record) == _FORMER.size:
            content.extend(bytes(max(0, (stream + 1) * _RECORD.size - len(content))))
            _RECORD.pack_into(content, stream * _RECORD.size, *_FORMER.unpack(record), 0)
    if former:
        _write_new(os.path.join(folder, _BARRIER), _FORMER.pack(2**62, 0, _NO_KEY, 0, 0))
    _write_new(path, bytes(content))


def _write_new(path: str, content: bytes) -> None:
    """A file of this name with all of this content, or none."""
    new = f"{path}.new"
    descriptor = os.open(new, os.O_CREAT | os.O_TRUNC | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o600)
    try:
        _pwrite(descriptor, content, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(new, path)


def check_rollback(rollback: str) -> None:
    """Refuse what is no answer to a ledger that is older than what was released."""
    if rollback not in ("refuse", "charge"):
        raise ConfigurationError(f"rollback = {rollback!r}; it must be 'refuse' or 'charge'")


def rollback_error(what: str) -> RollbackError:
    """The error for a ledger that is behind what was released."""
    return RollbackError(
        f"the ledger is older than what {what} has released: it was restored from a backup or rolled back. "
        "To go on from it would leak. Bring back the newest ledger, or open with rollback='charge', which "
        "draws again and charges for it"
    )


def _pwrite(descriptor: int, record: bytes, at: int) -> None:
    os.pwrite(descriptor, record, at)


def _state_folder() -> str:
    base = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return os.path.join(base or os.path.join(os.path.expanduser("~"), ".local", "state"), "understudy")
