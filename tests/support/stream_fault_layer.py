"""A file layer between SQLite and the disk that writes down what is written, and fails where it is told to.

As SQLite itself is tested. `FaultLayer` registers a VFS around SQLite's own, by ctypes, as the default one of this
process; so a ledger is run as it is. Only operations that change a disk go through Python: writes, truncations, syncs,
deletions, new files. Those that the ledger does itself (new file, rename, sync of the folder, note of the guard)
go through the same hands. Syncs do not reach the disk: what is durable is worked out from the record.

Two uses:

- `FaultLayer(fault=Fault(17, "error"))`: the 17th operation fails (`error`: nothing was done; `short`: half of a write
  was done; `full`: no write from there on succeeds, until `heal`; `dead`: no operation does).
- `FaultLayer()` alone writes down an undisturbed run, and `cuts` says what disks could hold if the power went off after
  each operation: `lost` nothing that was not synced, `kept` everything, `torn` any sectors of 512 bytes of it.

What is taken for granted: a sync keeps what it confirms; a sync of a new log or journal keeps its name too (SQLite's
VFS syncs the folder with it); changes of names happen in order; a note of the guard is within a sector. A sync that
fails keeps nothing, and no later one keeps what it was to keep.
"""

import contextlib
import ctypes
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from understudy.stream import ledger_file as files
from understudy.stream import rollback_guard

OK, IOERR, FULL, CANTOPEN = 0, 10, 13, 14
IOERR_WRITE, IOERR_FSYNC, IOERR_TRUNCATE, IOERR_DELETE = (IOERR | code << 8 for code in (3, 4, 6, 10))
_CREATE, _JOURNAL, _SUPER, _WAL = 0x4, 0x800, 0x4000, 0x80000  # flags of xOpen
_SECTOR = 512
KINDS = ("error", "short", "full", "dead")

_P, _I, _L = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_OPEN = ctypes.CFUNCTYPE(_I, _P, _P, _P, _I, _P)
_DELETE = ctypes.CFUNCTYPE(_I, _P, _P, _I)
_WRITE = ctypes.CFUNCTYPE(_I, _P, _P, _I, _L)
_TRUNCATE = ctypes.CFUNCTYPE(_I, _P, _L)
_SYNC = ctypes.CFUNCTYPE(_I, _P, _I)


class _Vfs(ctypes.Structure):
    _fields_ = [
        ("iVersion", _I), ("szOsFile", _I), ("mxPathname", _I), ("pNext", _P), ("zName", ctypes.c_char_p),
        ("pAppData", _P),
        *((name, _P) for name in (
            "xOpen", "xDelete", "xAccess", "xFullPathname", "xDlOpen", "xDlError", "xDlSym", "xDlClose",
            "xRandomness", "xSleep", "xCurrentTime", "xGetLastError", "xCurrentTimeInt64", "xSetSystemCall",
            "xGetSystemCall", "xNextSystemCall",
        )),
    ]  # fmt: skip


class _Methods(ctypes.Structure):
    _fields_ = [
        ("iVersion", _I),
        *((name, _P) for name in (
            "xClose", "xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock", "xUnlock", "xCheckReservedLock",
            "xFileControl", "xSectorSize", "xDeviceCharacteristics", "xShmMap", "xShmLock", "xShmBarrier",
            "xShmUnmap", "xFetch", "xUnfetch",
        )),
    ]  # fmt: skip


class _File(ctypes.Structure):
    _fields_ = [("pMethods", ctypes.POINTER(_Methods))]


def _sqlite() -> ctypes.CDLL:
    """The library that this Python's own sqlite3 uses, whether it is shared or built in."""
    import _sqlite3

    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    if not hasattr(library, "sqlite3_vfs_register"):
        raise RuntimeError(
            "this Python's sqlite3 hides the functions of SQLite; take one that links its shared library"
        )
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
    library.sqlite3_vfs_register.argtypes = [ctypes.POINTER(_Vfs), _I]
    library.sqlite3_vfs_unregister.argtypes = [ctypes.POINTER(_Vfs)]
    return library


class Fault(NamedTuple):
    """Which operation fails, counted from 0, and how."""

    at: int
    kind: str


class Event(NamedTuple):
    """One operation, or what the run said in between."""

    kind: str
    target: Any = None
    detail: Any = None
    sync: bool = False  # create: its first sync keeps the name; delete: the folder is synced


class FaultLayer:
    """The layer, in force within `with`."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault, self.healed, self.injected = fault, False, 0
        self.operations = 0
        self.events: list[Event] = []
        self._nodes: dict[str, int] = {}  # by path
        self._files: dict[int, int] = {}  # node of each of SQLite's open files, by address
        self._count = 0
        self._own: dict[int, tuple[Any, Any]] = {}  # methods of ours for SQLite's, and the latter's functions
        self._sqlite = _sqlite()

    # In force ----------------------------------------------------------------------------------------------

    def __enter__(self) -> "FaultLayer":
        self._real = self._sqlite.sqlite3_vfs_find(None)
        real = self._real.contents
        self._vfs = _Vfs.from_buffer_copy(real)
        self._vfs.zName, self._vfs.pNext = b"faults", None
        self._calls = (_OPEN(self._open), _DELETE(self._delete), _WRITE(self._write), _TRUNCATE(self._truncate),
                       _SYNC(self._sync))  # fmt: skip
        self._real_open, self._real_delete = _OPEN(real.xOpen), _DELETE(real.xDelete)
        self._vfs.xOpen, self._vfs.xDelete = (ctypes.cast(call, _P).value for call in self._calls[:2])
        assert self._sqlite.sqlite3_vfs_register(ctypes.byref(self._vfs), 1) == OK
        self._before = files.os, rollback_guard._pwrite
        files.os, rollback_guard._pwrite = _Os(self), self._note
        return self

    def __exit__(self, *_: object) -> None:
        files.os, rollback_guard._pwrite = self._before
        self._sqlite.sqlite3_vfs_unregister(ctypes.byref(self._vfs))
        self._sqlite.sqlite3_vfs_register(self._real, 1)

    def heal(self) -> None:
        """From here on everything succeeds."""
        self.healed = True

    def say(self, what: Any) -> None:
        """Something that the run has told the world, after which it must be true for ever."""
        self.events.append(Event("said", what))

    def _failure(self, kind: str, code: int) -> int:
        """0, or the code of SQLite that this operation fails with."""
        number, self.operations = self.operations, self.operations + 1
        if self.fault is None or self.healed or number < self.fault.at:
            return OK
        if self.fault.kind == "full" and kind not in ("write", "create", "note"):
            return OK if number > self.fault.at else self._fail(code)
        if number == self.fault.at or self.fault.kind in ("full", "dead"):
            return self._fail(FULL if self.fault.kind in ("full", "short") and kind == "write" else code)
        return OK

    def _fail(self, code: int) -> int:
        self.injected += 1
        return code

    def _new(self, path: str, sync: bool) -> int:
        node, self._count = self._count, self._count + 1
        self._nodes[path] = node
        self.events.append(Event("create", path, node, sync))
        return node

    # SQLite's ----------------------------------------------------------------------------------------------

    def _open(self, _: Any, name: int, file: int, flags: int, out: int) -> int:
        path = ctypes.string_at(name).decode() if name else ""
        creates = bool(path) and bool(flags & _CREATE) and not os.path.exists(path)
        if creates and (code := self._failure("create", CANTOPEN)):
            ctypes.cast(file, ctypes.POINTER(_File)).contents.pMethods = None
            return code
        code = self._real_open(ctypes.cast(self._real, _P), name, file, flags, out)
        if code != OK or not path:
            return int(code)
        if creates:
            self._new(path, bool(flags & (_JOURNAL | _SUPER | _WAL)))
        self._files[file] = self._nodes[path] if path in self._nodes else self._found(path)
        handle = ctypes.cast(file, ctypes.POINTER(_File)).contents
        real = ctypes.addressof(handle.pMethods.contents)
        if real not in self._own:
            methods = _Methods.from_buffer_copy(handle.pMethods.contents)
            calls = (_WRITE(methods.xWrite), _TRUNCATE(methods.xTruncate))
            methods.xWrite, methods.xTruncate, methods.xSync = (
                ctypes.cast(call, _P).value for call in self._calls[2:]
            )  # fmt: skip
            self._own[real] = methods, calls
            self._writes, self._truncates = calls
        handle.pMethods = ctypes.pointer(self._own[real][0])
        return OK

    def _found(self, path: str) -> int:
        """A file that was there before the layer: all of it is durable."""
        node = self._new(path, False)
        self.events += [Event("write", node, (0, Path(path).read_bytes())), Event("sync", node), Event("folder")]
        return node

    def _write(self, file: int, data: int, size: int, offset: int) -> int:
        code = self._failure("write", IOERR_WRITE)
        content = ctypes.string_at(data, size)
        if code:
            if self.fault is not None and self.fault.kind == "short":
                self.events.append(Event("write", self._files[file], (offset, content[: size // 2])))
                self._writes(file, data, size // 2, offset)
            return code
        self.events.append(Event("write", self._files[file], (offset, content)))
        return int(self._writes(file, data, size, offset))

    def _truncate(self, file: int, size: int) -> int:
        if code := self._failure("truncate", IOERR_TRUNCATE):
            return code
        self.events.append(Event("truncate", self._files[file], size))
        return int(self._truncates(file, size))

    def _sync(self, file: int, flags: int) -> int:
        if code := self._failure("sync", IOERR_FSYNC):
            self.events.append(Event("dropped", self._files[file]))
            return code
        self.events.append(Event("sync", self._files[file]))
        return OK

    def _delete(self, _: Any, name: int, sync: int) -> int:
        path = ctypes.string_at(name).decode()
        if code := self._failure("delete", IOERR_DELETE):
            return code
        self._gone(path, bool(sync))
        return int(self._real_delete(ctypes.cast(self._real, _P), name, 0))

    def _gone(self, path: str, sync: bool) -> None:
        if self._nodes.pop(path, None) is not None:
            self.events.append(Event("delete", path, None, sync))

    # The ledger's own --------------------------------------------------------------------------------------

    def _refuse(self, kind: str) -> None:
        if self._failure(kind, IOERR):
            raise OSError(28 if self.fault is not None and self.fault.kind == "full" else 5, "injected")

    def _note(self, descriptor: int, record: bytes, at: int) -> int:
        self._refuse("note")
        self.events.append(Event("note", os.fstat(descriptor).st_ino, (at, record)))
        return os.pwrite(descriptor, record, at)


class _Os:
    """The module `os` as `files` sees it."""

    def __init__(self, layer: FaultLayer) -> None:
        self._layer = layer

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and not path.endswith(".lock"):  # which holds nothing that a ledger rests on
            self._layer._refuse("create")
            self._layer._new(path, False)
        return os.open(path, flags, mode)

    def rename(self, old: str, new: str) -> None:
        self._layer._refuse("rename")
        os.rename(old, new)
        layer = self._layer
        layer._nodes[new] = layer._nodes.pop(old)
        layer.events.append(Event("rename", old, new))

    def unlink(self, path: str) -> None:
        if os.path.lexists(path):
            self._layer._refuse("delete")
            self._layer._gone(path, False)
        os.unlink(path)

    def fsync(self, descriptor: int) -> None:
        self._layer._refuse("folder")
        self._layer.events.append(Event("folder"))


# Disks after a power cut ---------------------------------------------------------------------------------------


@dataclass
class _Node:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)
    unnamed: bool = False  # its first sync keeps its name


class Disk(NamedTuple):
    """What a disk holds after a cut: files by path, notes of the rollback guard by number, and what had been said."""

    files: dict[str, bytes]
    notes: dict[int, bytes]
    said: list[Any]


def cuts(events: list[Event], variants: list[str], seed: int = 0) -> Iterator[tuple[int, str, Disk]]:
    """After each operation, the disks that a power cut could leave: `lost`, `kept`, or `torn` (with any suffix)."""
    nodes: dict[int, _Node] = {}
    names: dict[str, int] = {}  # durable
    moves: list[Event] = []  # changes of names that no sync has kept yet
    notes: dict[int, list[tuple[int, bytes]]] = {}
    said: list[Any] = []

    def settle() -> None:
        for move in moves:
            _rename(names, move)
        moves.clear()

    for number, event in enumerate(events):
        kind, target, detail, sync = event
        if kind == "said":
            said.append(target)
        elif kind == "note":
            notes.setdefault(target, []).append(detail)
        elif kind in ("create", "delete", "rename"):
            moves.append(event)
            if kind == "create":
                nodes[detail] = _Node(unnamed=sync)
            elif sync:
                settle()
        elif kind == "folder":
            settle()
        elif kind == "dropped":
            nodes[target].pending.clear()
        elif kind == "sync":
            node = nodes[target]
            for change in node.pending:
                _change(node.durable, change)
            node.pending.clear()
            if node.unnamed:
                node.unnamed = False
                settle()
        else:
            nodes[target].pending.append(event)
        for variant in variants:
            rng = random.Random(f"{seed} {number} {variant}")  # noqa: S311  # a subset, not a secret
            yield number, variant, _disk(variant, rng, nodes, names, moves, notes, said)


def _rename(names: dict[str, int], move: Event) -> None:
    if move.kind == "create":
        names[move.target] = move.detail
    elif move.kind == "delete":
        names.pop(move.target, None)
    else:
        names[move.detail] = names.pop(move.target)


def _change(content: bytearray, change: Event) -> None:
    if change.kind == "truncate":
        del content[change.detail :]
        return
    offset, data = change.detail
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _disk(variant: str, rng: Any, nodes: Any, names: Any, moves: Any, notes: Any, said: Any) -> Disk:
    torn = variant.startswith("torn")
    here = dict(names)
    for move in moves[: {"lost": 0, "kept": len(moves)}.get(variant, rng.randint(0, len(moves)))]:
        _rename(here, move)
    found = {}
    for path, number in here.items():
        node = nodes[number]
        content = bytearray(node.durable)
        for change in () if variant == "lost" else node.pending:
            for part in _sectors(change) if torn else (change,):
                if not torn or rng.random() < 0.5:
                    _change(content, part)
        found[path] = bytes(content)
    kept = {}
    for number, writes in notes.items():
        last = {"lost": 0, "kept": len(writes)}.get(variant, rng.randint(0, len(writes)))
        content = bytearray()
        for write in writes[:last]:
            _change(content, Event("note", number, write))
        if last:
            kept[number] = bytes(content)
    return Disk(found, kept, list(said))


def _sectors(change: Event) -> Iterator[Event]:
    if change.kind == "truncate":
        yield change
        return
    offset, data = change.detail
    start = 0
    while start < len(data):
        stop = min(len(data), start + _SECTOR - (offset + start) % _SECTOR)
        yield change._replace(detail=(offset + start, data[start:stop]))
        start = stop


def restore(disk: Disk, root: str, target: Path, notes: dict[int, str], rubbish: bool) -> None:
    """Put a disk that was at `root` into a folder; `notes` are the paths of notes, `rubbish` leaves an index of it."""
    for path, content in disk.files.items():
        _private(target / os.path.relpath(path, root), content)
        if rubbish and path.endswith("-wal"):
            noise = random.Random(1).randbytes(32_768)  # noqa: S311  # what a cut may leave, not a secret
            _private(target / (os.path.relpath(path, root)[:-4] + "-shm"), noise)
    for number, record in disk.notes.items():
        _private(target / os.path.relpath(notes[number], root), record)


def _private(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb")) as file:
        file.write(content)
