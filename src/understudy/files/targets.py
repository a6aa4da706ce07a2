"""The file that is written: under its name when it is whole, and not before (see `understudy.paths`)."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any

from understudy.errors import StoredFileError
from understudy.paths import STANDARD, NewFile, Path, check_paths, write_whole

SIDECAR = ".meta.json"
"""The ending of the mark beside a CSV file."""


def check_target(source: Path, target: Path, kind: str, ledger: Any = None) -> None:
    """Refuse a target that is the source or the ledger, and whatever is no file in a folder that is there."""
    known = None if ledger is None else getattr(ledger, "path", ledger)
    check_paths({"source": source}, written(target, kind, "target"), ("ledger", known))


def written(target: Path, kind: str, name: str) -> dict[str, str]:
    """The files that are written for a target, by the names under which errors speak of them."""
    path = os.fspath(target)
    marked = path != STANDARD and kind in ("csv", "csv.gz")
    return {name: path} | ({f"the mark beside {name}": path + SIDECAR} if marked else {})


class Target:
    """A file that gets its name by `finish`; leaving the `with` before that deletes it."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = os.fspath(path), kind
        self.standard = self.path == STANDARD
        self._new: NewFile | None = None
        self._raw: IO[bytes] | None = None
        self._file: Any = None

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        if self._new is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self._file.close()
        self._new.discard()

    @property
    def file(self) -> IO[bytes]:
        """The open file, made when it is first asked for."""
        if self._raw is None:
            if self.standard:
                self._raw = sys.stdout.buffer
            else:
                self._new = NewFile(self.path)
                self._raw = self._new.file
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
            if self._new is None:
                return
            if meta is not None:  # first, so that no file stands there without its mark
                write_whole(self.path + SIDECAR, json.dumps(dict(meta), indent=1, sort_keys=True) + "\n")
            self._new.keep()

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
