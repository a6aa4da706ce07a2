"""Paths that are read and written: no file for two things, and every file written whole or not at all.

**Writing.** What is new goes to a temporary file in the folder of the target, ``.understudy-*.tmp``, under a name that
nobody can know beforehand. It is flushed to the disk and takes its name in one step, which the disk confirms as well.
A full disk, a crash or another writer at the same time leaves the older file or a whole newer one, never a mixture. A
process that is killed may leave the temporary file, which can be deleted.

**What is written to.** A file, or a name that is free. A device, a pipe or a folder is refused. A symbolic link of
one's own is followed: its target is replaced, and the link stays. A link that somebody else has put there is refused.
A new file has the permissions of the umask, and one that is overwritten keeps its own.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from itertools import combinations
from types import TracebackType
from typing import IO, TypeAlias

from understudy.errors import ConfigurationError, StoredFileError

STANDARD = "-"
"""The name of standard input and output."""
LEDGER_PARTS = ("-wal", "-shm", "-journal", ".lock", ".new")
"""Endings of the files that belong to a ledger."""
# A file system that cannot flush a folder says so in one of these ways; the file itself was flushed.
_NO_FOLDER_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)
_LINKS = 40

Path = str | os.PathLike[str]
Identity: TypeAlias = tuple[int, int] | str | None
"""Device and number of a file, or the name that it will have; None for a terminal or a pipe."""


# Paths of a command --------------------------------------------------------------------------------


def check_paths(
    reads: Mapping[str, Path | None], writes: Mapping[str, Path | None], ledger: tuple[str, Path | None] = ("", None)
) -> None:
    """Refuse paths of which one would be written over another, before anything is opened.

    `reads` and `writes` are paths by the names under which the user knows them, `ledger` the name and the path of a
    ledger, whose further files count as well. Two paths are the same if they lead to one file, by whatever links, or
    will do so when it exists; names that differ in case only are the same where neither exists. What is written to
    must be a file or a free name in a folder that is there.

    >>> check_paths({"DESIGN": "room.json"}, {"--out": "room.html"})
    >>> check_paths({"DESIGN": "room.json"}, {"--out": "./room.json"})
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: DESIGN and --out are one file, './room.json'; what is written takes its place
    """
    targets = [(name, path) for name, path in writes.items() if path is not None]
    for name, path in targets:
        if os.fspath(path) != STANDARD:
            _check_target(name, path)
    known = [(name, path, _identity(path, 0)) for name, path in reads.items() if path is not None]
    made = [(name, path, _identity(path, 1)) for name, path in targets]
    for (first, _, one), (second, path, other) in [
        *((a, b) for a in known for b in made + _ledger(*ledger)),
        *combinations(made + _ledger(*ledger), 2),
    ]:
        if one == other and one is not None and second != first:
            raise ConfigurationError(
                f"{first} and {second} are one file, {os.fspath(path)!r}; what is written takes its place"
            )


def _ledger(name: str, path: Path | None) -> list[tuple[str, Path, Identity]]:
    if path is None:
        return []
    real = os.path.realpath(path)
    parts = [(name, path), *((name, real + ending) for ending in LEDGER_PARTS)]
    return [(name, part, _identity(part, None)) for name, part in parts]


def _identity(path: Path, descriptor: int | None) -> Identity:
    """The same for two paths of one file; None for a terminal or a pipe."""
    try:
        if descriptor is not None and os.fspath(path) == STANDARD:
            found = os.fstat(descriptor)
            return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
        found = os.stat(path)
    except (OSError, ValueError):
        if os.fspath(path) == STANDARD:
            return None
        return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()
    return found.st_dev, found.st_ino


def _check_target(name: str, path: Path) -> None:
    """Refuse before the work what could not be written after it."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise ConfigurationError(f"{name} {os.fspath(path)}: there is no folder {os.path.dirname(path) or folder}")
    try:
        _target(path)
    except StoredFileError as error:
        raise ConfigurationError(f"{name}: {error}") from None


# Files that are written ----------------------------------------------------------------------------


def write_whole(path: Path, content: bytes | str, private: bool = False) -> None:
    """Write a file whole or not at all; a private one is for its owner only, also if it was not before.

    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "card.html")
    >>> write_whole(path, "<p>0.3 nats</p>")
    >>> with open(path) as file:
    ...     file.read()
    '<p>0.3 nats</p>'
    >>> folder.cleanup()
    """
    with NewFile(path, private) as new:
        rest = memoryview(content.encode("utf-8") if isinstance(content, str) else content)
        while rest:
            rest = rest[os.write(new.descriptor, rest) :]
        new.keep()


class NewFile:
    """A file that gets its name by `keep`; leaving the `with` before that deletes it."""

    def __init__(self, path: Path, private: bool = False) -> None:
        self._path = path
        self._target, mode = _target(path)
        mode = 0o600 if private else mode
        name = f".understudy-{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
        self._temporary, self._file = "", None  # type: str, IO[bytes] | None
        self.descriptor = -1
        temporary = os.path.join(os.path.dirname(self._target), name)
        try:
            self.descriptor = os.open(temporary, flags, 0o666 if mode is None else mode & 0o666)
            self._temporary = temporary  # from here on it is ours to delete
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(self.descriptor, mode)  # the umask had its say above
        except BaseException as error:
            self.discard()
            raise self._fault(error) if isinstance(error, OSError) else error from None

    def __repr__(self) -> str:
        return f"NewFile({os.fspath(self._path)!r})"

    def __enter__(self) -> NewFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()
        if isinstance(error, OSError):
            raise self._fault(error) from error

    @property
    def file(self) -> IO[bytes]:
        """The file, to be written in pieces."""
        if self._file is None:
            self._file = os.fdopen(self.descriptor, "wb", closefd=False)
        return self._file

    def keep(self) -> None:
        """Give the file its name, for good."""
        if self._file is not None:
            self._file.flush()
        os.fsync(self.descriptor)
        descriptor, self.descriptor = self.descriptor, -1
        os.close(descriptor)
        os.replace(self._temporary, self._target)
        self._temporary = ""
        self._flush_folder()

    def discard(self) -> None:
        """Delete the file, unless it has its name."""
        if self._file is not None:
            with suppress(OSError, ValueError):
                self._file.close()
        if self.descriptor >= 0:
            with suppress(OSError):
                os.close(self.descriptor)
            self.descriptor = -1
        if self._temporary:
            with suppress(OSError):
                os.unlink(self._temporary)
            self._temporary = ""

    def _fault(self, error: OSError) -> StoredFileError:
        return StoredFileError(f"{show(self._path)} cannot be written: {_reason(error)}; what was there is intact")

    def _flush_folder(self) -> None:
        """Make the new name last through a power cut, where the system can."""
        if os.name != "posix":
            return
        try:
            descriptor = os.open(os.path.dirname(self._target), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in _NO_FOLDER_FLUSH:
                raise StoredFileError(
                    f"{show(self._path)} is written, but the disk did not confirm it: {error.strerror}; "
                    "after a power cut the older file may be back"
                ) from error


def _target(path: Path) -> tuple[str, int | None]:
    """The file that is to be replaced, own links followed, and its permissions if it is there."""
    try:
        target = _follow(path)
        found = os.lstat(target)
    except FileNotFoundError:
        if os.path.isdir(os.path.dirname(target)):
            return target, None
        raise StoredFileError(f"{show(path)} cannot be written: its folder does not exist") from None
    except StoredFileError:
        raise
    except (OSError, ValueError) as error:
        raise StoredFileError(f"{show(path)} cannot be written: {_reason(error)}") from None
    if not stat.S_ISREG(found.st_mode):
        # it would be replaced by a file
        raise StoredFileError(f"{show(path)} is {what(found.st_mode)}; it must be a file, or a name that is free")
    if not os.access(target, os.W_OK):
        raise StoredFileError(f"{show(path)} is protected against writing; it was not replaced")
    return target, stat.S_IMODE(found.st_mode)


def _follow(path: Path) -> str:
    """Where a path leads, by links of one's own."""
    target = os.fspath(path)
    for _ in range(_LINKS):
        folder, name = os.path.split(os.path.abspath(target))
        folder = os.path.realpath(folder)
        target = os.path.join(folder, name)
        if folder == "/dev" or folder.startswith("/proc/"):
            # links to what is open elsewhere, such as the standard output; a file there would cut it off
            raise StoredFileError(
                f"{show(path)} is {what(0)}; it must be a file, or a name that is free (- is the standard output, for "
                "commands that write to it)"
            )
        if not os.path.islink(target):
            return target
        owner = os.lstat(target).st_uid
        if hasattr(os, "geteuid") and owner not in (0, os.geteuid()):
            raise StoredFileError(f"{show(path)} is a symbolic link that somebody else has made; it is not followed")
        target = os.path.join(folder, os.readlink(target))
    raise StoredFileError(f"{show(path)} is {what(stat.S_IFLNK)}; it must be a file, or a name that is free")


def what(mode: int) -> str:
    """What stands under a name that is no file."""
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a link that leads to itself" if stat.S_ISLNK(mode) else "a device or a pipe"


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or "it is no path of a file")


def show(path: Path) -> str:
    """A path as messages show it."""
    return repr(os.fspath(path))
