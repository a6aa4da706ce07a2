"""One process at a time: a lock that the system gives back when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from understudy.errors import LedgerBusyError, LedgerError

_HELD: set[str] = set()  # the system lets one process lock a file twice


class Lock:
    """Held from the constructor to `release`."""

    def __init__(self, path: str) -> None:
        self.path, self._file = os.path.realpath(path), -1
        name = os.path.basename(path).removesuffix(".lock")
        if self.path in _HELD:
            raise LedgerBusyError(f"{name} is open in this process already; close it first, or use the open one")
        try:
            self._file = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise LedgerError(f"{name} cannot be locked: {error.strerror}") from None
        try:
            _lock(self._file)
        except OSError:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() if hasattr(os, "pread") else ""
            os.close(self._file)
            self._file = -1
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise LedgerBusyError(f"{name} is in use by {who}; one process at a time writes a ledger") from None
        _HELD.add(self.path)
        with contextlib.suppress(OSError):  # for the message only
            os.ftruncate(self._file, 0)
            os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others in. The file stays: to delete it would let two processes lock two files of one name."""
        if self._file >= 0:
            _HELD.discard(self.path)
            os.close(self._file)
            self._file = -1


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        windows: Any = msvcrt
        windows.locking(descriptor, windows.LK_NBLCK, 1)
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
