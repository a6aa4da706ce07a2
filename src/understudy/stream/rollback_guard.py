"""The rollback guard: a record outside of the ledger of how far each stream had come, so that an older copy is noticed.

Going on from an old copy of a ledger would draw again, or release a second output for the same part of
the readings: both leak. The ledger cannot tell that it is old; a small file elsewhere can. It is written
after each transaction, without waiting for the disk: a guard that lags behind is harmless, one that
is ahead of its ledger is proof.

It is no proof against somebody who restores both, and knows nothing of a ledger that was begun anew.
"""

from __future__ import annotations

import contextlib
import os
import struct
import warnings
from typing import NamedTuple

from understudy.errors import ConfigurationError, LedgerError, RollbackError, UnderstudyWarning
from understudy.stream.cadence import COUNT, NUMBER, TIME
from understudy.stream.ledger_file import Position

_RECORD = struct.Struct("<qqqqq")
_KINDS = ("", COUNT, NUMBER, TIME)
_CODES = {kind: code for code, kind in enumerate(_KINDS)}
_NO_KEY = -(2**63)
_FILES = 64  # open at once


class GuardRecord(NamedTuple):
    """How far a stream had come when an output was last released."""

    serial: int
    readings: int
    last: int | None
    kind: str
    charged: int


class RollbackGuard:
    """One small file a stream, in a folder for the ledger."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._open: dict[int, int] = {}
        self._warned = False

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
        if self._folder is None:
            return 0
        with os.scandir(self._folder) as files:
            noted = [int(f.name) for f in files if f.name.isdecimal() and f.stat().st_size == _RECORD.size]
        return max(noted, default=0)

    def ahead(self, stream: int, serial: int) -> GuardRecord | None:
        """How far the stream had come, if that is further than this."""
        if self._folder is None:
            return None
        descriptor = self._file(stream)
        try:
            os.lseek(descriptor, 0, os.SEEK_SET)
            record = os.read(descriptor, _RECORD.size)
        except OSError as error:
            raise LedgerError(f"the rollback guard cannot be read: {error.strerror}") from None
        if len(record) < _RECORD.size:
            return None
        seen, count, last, kind, charged = _RECORD.unpack(record)
        if seen <= serial:
            return None
        return GuardRecord(
            seen, count, None if last == _NO_KEY else last, _KINDS[kind] if 0 <= kind < 4 else "", charged
        )

    def note(self, stream: int, at: Position) -> None:
        """Remember how far the stream has come."""
        if self._folder is None:
            return
        last = _NO_KEY if at.last is None else at.last
        record = _RECORD.pack(at.serial, at.readings, last, _CODES[at.kind], at.charged)
        try:
            _pwrite(self._file(stream), record, 0)
        except OSError as error:
            # what was recorded may be released; only an older copy would not be noticed
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"the rollback guard cannot be written: {error.strerror}", UnderstudyWarning, stacklevel=5
                )

    def close(self) -> None:
        """Close the files."""
        while self._open:
            _, descriptor = self._open.popitem()
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _file(self, stream: int) -> int:
        if stream not in self._open:
            if len(self._open) >= _FILES:
                self.close()
            path = os.path.join(self._folder or "", str(stream))
            try:
                self._open[stream] = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o600)
            except OSError as error:
                raise LedgerError(f"the rollback guard cannot be opened: {error.strerror}") from None
        return self._open[stream]


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
