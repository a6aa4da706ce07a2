"""A witness outside of the ledger: how far each stream had come, so that an older copy is noticed.

Going on from an old copy of a ledger would draw again, or release a second output for the same part of
the readings: both leak. The ledger cannot tell that it is old; a small file elsewhere can. It is written
after each transaction, without waiting for the disk: a witness that lags behind is harmless, one that
is ahead of its ledger is proof.

It is no proof against somebody who restores both.
"""

from __future__ import annotations

import os
import struct
import warnings

from understudy.errors import ConfigurationError, RollbackError, UnderstudyWarning

_RECORD = struct.Struct("<qq")


class Witness:
    """One file a stream: its epoch and its number of readings."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._open: dict[int, int] = {}

    @classmethod
    def of(cls, given: str | os.PathLike[str] | bool | None, ledger: str) -> Witness:
        """In the folder that was given, or in the user's state folder; False for none."""
        if given is False:
            return cls(None)
        if given is True:
            raise ConfigurationError("witness = True; it must be a folder, None for the usual one, or False for none")
        base = _state_folder() if given is None else os.fspath(given)
        folder = os.path.join(base, ledger)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as error:
            if given is not None:
                raise ConfigurationError(f"the witness folder cannot be made: {error.strerror}") from None
            warnings.warn(
                "no witness can be kept in the user's state folder, so an older copy of this ledger would not be "
                "noticed; give witness= a folder, or False to say that this is known",
                UnderstudyWarning,
                stacklevel=4,
            )
            return cls(None)
        return cls(folder)

    def check(self, stream: int, epoch: int, count: int) -> None:
        """Refuse a ledger that is behind."""
        if self._folder is None:
            return
        os.lseek(self._file(stream), 0, os.SEEK_SET)
        seen = os.read(self._file(stream), _RECORD.size)
        if len(seen) == _RECORD.size and _RECORD.unpack(seen) > (epoch, count):
            raise RollbackError(
                "the ledger is older than what this stream has released: it was restored from a backup or rolled back. "
                "To go on from it would leak. Bring back the newest ledger, or open with rollback='charge', which "
                "draws again and charges for it"
            )

    def note(self, stream: int, epoch: int, count: int) -> None:
        """Remember how far the stream has come."""
        if self._folder is not None:
            os.lseek(self._file(stream), 0, os.SEEK_SET)
            os.write(self._file(stream), _RECORD.pack(epoch, count))

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _file(self, stream: int) -> int:
        if stream not in self._open:
            path = os.path.join(self._folder or "", str(stream))
            self._open[stream] = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        return self._open[stream]


def _state_folder() -> str:
    base = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return os.path.join(base or os.path.join(os.path.expanduser("~"), ".local", "state"), "understudy")
