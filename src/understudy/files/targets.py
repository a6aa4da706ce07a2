"""The file that is written: under its name when it is whole, and not before.

Rows go to ``<target>.partial``. At the end that file is flushed to the disk and takes its name in one step. If anything
fails, it is deleted; if the process is killed, it stays and can be deleted. What stood under the name before is
there until then.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any

from understudy.errors import ConfigurationError, StoredFileError
from understudy.files.tables import STANDARD, Path

SIDECAR = ".meta.json"


def check_target(source: Path, target: Path) -> None:
    """Refuse a target that is the source, a folder, or in a folder that is not there."""
    path = os.fspath(target)
    if path == STANDARD:
        return
    if os.path.isdir(path):
        raise ConfigurationError(f"{path!r} is a folder; the target is a file")
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise ConfigurationError(f"{path!r} cannot be written: its folder does not exist")
    both = os.fspath(source) != STANDARD and os.path.exists(path) and os.path.exists(source)
    if both and os.path.samefile(source, path):
        raise ConfigurationError(f"{path!r} is the source; the target would take its place")


class Target:
    """A file that gets its name by `finish`; leaving the `with` before that deletes it."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = os.fspath(path), kind
        self.standard = self.path == STANDARD
        self._partial = self.path + ".partial"
        self._raw: IO[bytes] | None = None
        self._file: Any = None

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        if self._raw is None or self.standard:
            return
        for file in (self._file, self._raw):
            with contextlib.suppress(OSError, ValueError):
                file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._partial)

    @property
    def file(self) -> IO[bytes]:
        """The open file, made when it is first asked for."""
        if self._raw is None:
            with self.faults():
                self._raw = sys.stdout.buffer if self.standard else open(self._partial, "wb")  # noqa: SIM115  # in `finish`
            # no name and no time inside, so that the same rows make the same file
            packed = self.kind == "csv.gz"
            self._file = gzip.GzipFile("", "wb", 6, self._raw, mtime=0) if packed else self._raw
        return self._file  # type: ignore[no-any-return]  # a file

    def finish(self, meta: Mapping[str, Any] | None) -> None:
        """Give the file its name, and `meta` beside it where its format has no place for a mark."""
        with self.faults():
            file, raw = self.file, self._raw
            if raw is None:
                return
            if file is not raw:
                file.close()
            raw.flush()
            if self.standard:
                return
            os.fsync(raw.fileno())
            raw.close()
            beside = self.path + SIDECAR
            if meta is not None:  # first, so that no file stands there without its mark
                self._write(beside, json.dumps(dict(meta), indent=1, sort_keys=True).encode("utf-8") + b"\n")
            os.replace(self._partial, self.path)
            self._raw = None
            _flush_folder(os.path.dirname(os.path.abspath(self.path)))

    def _write(self, path: str, content: bytes) -> None:
        partial = path + ".partial"
        try:
            with open(partial, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise

    @contextlib.contextmanager
    def faults(self) -> Iterator[None]:
        """Errors of the disk as ours."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            name = "standard output" if self.standard else repr(self.path)
            why = os.strerror(error.errno) if error.errno else "the disk refuses"
            raise StoredFileError(f"{name} cannot be written: {why}; nothing new stands under that name") from None


def _flush_folder(folder: str) -> None:
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # some file systems cannot
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
