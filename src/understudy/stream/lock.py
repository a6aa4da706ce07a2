"""One process at a time: a lock that the system gives back when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import errno
import os
import weakref
from typing import Any

from understudy.errors import LedgerBusyError, LedgerError

_TAKEN = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK, errno.EDEADLK)


class Lock:
    """Held from the constructor to `release`, or until nobody has the object any more."""

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
        except OSError as error:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() if hasattr(os, "pread") else ""
            self._close()
            if error.errno not in _TAKEN:
                raise LedgerError(f"{name} cannot be locked: {error.strerror}; keep it on a local disk") from None
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise LedgerBusyError(f"{name} is in use by {who}; one process at a time writes a ledger") from None
        _HELD[self.path] = self
        with contextlib.suppress(OSError):  # for the message only
            os.ftruncate(self._file, 0)
            os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others in. The file stays: to delete it would let two processes lock two files of one name."""
        if self._file >= 0:
            _HELD.pop(self.path, None)
            self._close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._close()

    def _close(self) -> None:
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)


# The system lets one process lock a file twice.
_HELD: weakref.WeakValueDictionary[str, Lock] = weakref.WeakValueDictionary()


def _in_child() -> None:
    """A fork shares the lock of its parent, and would keep it after the parent has let go."""
    for lock in list(_HELD.values()):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        windows: Any = msvcrt
        windows.locking(descriptor, windows.LK_NBLCK, 1)
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
