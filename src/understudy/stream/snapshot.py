"""A snapshot: everything that a stream must remember, as bytes with a version and a checksum.

A snapshot holds the draw, the private value and the key of the stream: keep it as you would a password.

The state of a filter as JSON, and back, to the last bit.

States are tuples of numbers, arrays and further tuples. A float is written with the digits that read
back as the same float, an array with its bytes, a named tuple with its kind (`understudy.serialize`), so that what
comes back is what was there. Nothing else is written, and in reading no code is run but that of named tuples, of this
package or of a module that is loaded already.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import platform
import sys
import warnings
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from understudy import serialize
from understudy._types import Json, Plain
from understudy._version import __version__
from understudy.errors import SnapshotError, UnderstudyWarning
from understudy.stream.ledger_file import EpochRow, Position, StreamRow

# The state of a filter as JSON, and back, to the last bit --------------------------------------------


_DEEPEST = 16
_DTYPES = {"<f8": "float64", "<i8": "int64", "|b1": "bool"}
_NUMBERS = frozenset((int, float))
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def dump(state: Any) -> str:
    """The state as text.

    >>> dump((3, 0.1))
    '[3, 0.1]'
    """
    if type(state) is tuple and _NUMBERS.issuperset(map(type, state)):
        text = repr(list(state))  # JSON, and quick, unless a number is inf or nan
        if "n" not in text:
            return text
    return _encode(to_plain(state))


def load(text: str) -> Any:
    """The state again."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        raise SnapshotError("a stored state is not what it should be") from None
    return from_plain(plain)


def to_plain(state: Any, depth: int = 0) -> Any:
    """The state as JSON can hold it.

    >>> to_plain((3, 0.1, None))
    [3, 0.1, None]
    """
    if depth > _DEEPEST:
        raise SnapshotError(f"a state is nested more than {_DEEPEST} deep; it cannot be stored")
    if state is None or type(state) in (int, str, bool):
        return state
    if isinstance(state, float):
        number = float(state)
        return number if math.isfinite(number) else {"float": repr(number)}
    if isinstance(state, (np.integer, np.bool_)):
        return state.item()
    if isinstance(state, np.ndarray):
        return _plain_array(state)
    if isinstance(state, (tuple, list)):
        parts = [to_plain(part, depth + 1) for part in state]
        if not hasattr(state, "_fields"):
            return parts
        return {"tuple": _kind(type(state)), "parts": parts}
    raise SnapshotError(f"a state holds a {type(state).__name__}; only numbers, arrays and tuples can be stored")


def _plain_array(array: NDArray[np.generic]) -> Plain:
    types = [plain for plain, name in _DTYPES.items() if array.dtype == name]
    if not types:
        raise SnapshotError(f"a state holds an array of type {array.dtype}; only float64, int64 and bool can be stored")
    # the order in memory decides in which order a product is summed
    order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    raw = array.astype(types[0]).tobytes(order)
    return {"array": base64.b64encode(raw).decode("ascii"), "shape": list(array.shape), "type": types[0] + order}


def from_plain(plain: Json, depth: int = 0) -> Any:
    """The state again.

    >>> from_plain(to_plain((3, (0.1, float("-inf")))))
    (3, (0.1, -inf))
    """
    if depth > _DEEPEST:
        raise SnapshotError("a stored state is nested too deep")
    if plain is None or type(plain) in (int, float, str, bool):
        return plain
    if type(plain) is list:
        return tuple(from_plain(part, depth + 1) for part in plain)
    if type(plain) is dict:
        if plain.keys() == {"float"} and plain["float"] in ("inf", "-inf", "nan"):
            return float(plain["float"])
        if plain.keys() == {"array", "shape", "type"}:
            return _array(plain)
        if plain.keys() == {"tuple", "parts"} and type(plain["parts"]) is list:
            return _named(plain["tuple"])(*(from_plain(part, depth + 1) for part in plain["parts"]))
    raise SnapshotError("a stored state is not what it should be")


def _array(plain: Plain) -> Any:
    try:
        kind, order = plain["type"][:-1], plain["type"][-1:]
        if kind not in _DTYPES or order not in ("C", "F"):
            raise ValueError
        raw = base64.b64decode(plain["array"], validate=True)
        array = np.frombuffer(raw, dtype=kind).reshape([int(n) for n in plain["shape"]], order=order)
    except (ValueError, TypeError):
        raise SnapshotError("a stored array is not what it should be") from None
    return array  # read-only, as it stands on the bytes


_FORMER = {
    "understudy.models.cell_moments:CellState": "CellState",
    "understudy.models.grids:Grid": "Grid",
    "understudy.models.markov:MarkovState": "MarkovState",
    "understudy.models.particles:Cloud": "Cloud",
    "understudy.randomizer.causal.beliefs:BeliefState": "BeliefState",
    "understudy.randomizer.causal.playing:Told": "CausalMemory",
    "Told": "CausalMemory",
    "understudy.randomizer.estimating:EstimatorState": "EstimatorState",
}
"""Kinds of states by the names that 0.1 and 0.2 stored."""


def _kind(state: type) -> str:
    """The name of a type of states: its kind, or where a module of the user's has it."""
    kind = serialize.kind_in("state", state)
    if kind is not None:
        return kind
    module, name = state.__module__, state.__qualname__
    if getattr(sys.modules.get(module), name, None) is not state:
        raise SnapshotError(f"a state holds a {name}, which no module has by this name; use a plain tuple")
    return f"{module}:{name}"


def _named(name: Json) -> Any:
    """A named tuple by its kind, or by its name in a module that is loaded already; nothing else."""
    name = _FORMER.get(name, name) if type(name) is str else ""
    if name in serialize.KINDS["state"]:
        return serialize.class_of("state", name)
    module, _, title = name.partition(":")
    found = getattr(sys.modules.get(module), title, None) if title.isidentifier() else None
    if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields"):
        return found
    raise SnapshotError("a stored state names a type that is not loaded")


# A snapshot: everything that a stream must remember, as bytes with a version and a checksum ----------


FORMAT, VERSION = "understudy snapshot", 2
"""Version 1, of understudy 0.1 and 0.2, has no generation of draws."""
_LARGEST = 256 * 1024 * 1024


def make(row: StreamRow, epoch: EpochRow, at: Position, ledgered: bool) -> bytes:
    """The snapshot of a stream that stands there."""
    stored = {
        "name": row.name, "room": row.room, "design": row.design, "secret": row.secret.hex(),
        "insecure": row.insecure, "options": row.options,
    }  # fmt: skip
    position = {**at._asdict(), "memory": to_plain(at.memory), "state": to_plain(at.state)}
    content = {"stream": stored, "epoch": list(epoch), "position": position, "ledgered": ledgered}
    return dumps({**content, "insecure": row.insecure})


def parts(content: Plain) -> tuple[StreamRow, EpochRow, Position, bool]:
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


def dumps(content: Plain) -> bytes:
    """The content as bytes.

    >>> loads(dumps({"count": 3}))["count"]
    3
    """
    body = {**content, "versions": versions()}
    text = json.dumps(body, separators=(",", ":"), sort_keys=True, allow_nan=False)
    head = {"format": FORMAT, "version": VERSION, "checksum": _checksum(text, VERSION)}
    return f'{json.dumps(head)[:-1]}, "content": {text}}}\n'.encode("ascii")


def loads(blob: Any) -> Plain:
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
        json.dumps(content, separators=(",", ":"), sort_keys=True, allow_nan=False), version
    ):
        raise SnapshotError("the snapshot is damaged: its checksum does not fit its content")
    return content


def warn_of_versions(content: Plain, portable: bool) -> None:
    """Say that a snapshot of other versions may not go on to the bit, where that is so."""
    if not portable and not same_arithmetic(content.get("versions")):
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
        "processor": _processor(),
    }


def same_arithmetic(was: Any) -> bool:
    """Whether these are the versions and the processor of here; records of before do not name the processor."""
    now = versions()
    return isinstance(was, dict) and now == {"processor": now["processor"], **was}


@lru_cache(maxsize=1)
def _processor() -> str:
    """The model of the processor: libraries choose their instructions by it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
        for line in info:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor()


def _checksum(text: str, version: int) -> str:
    return "sha256:" + hashlib.sha256(f"{FORMAT} {version}\n{text}".encode()).hexdigest()
