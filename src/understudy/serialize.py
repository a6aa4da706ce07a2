"""What is stored, and how it is read again: one registry, one JSON form, one envelope.

**Parameters, never code.** A stored law, model or family is a mapping with its kind and, under each name, what the
constructor was given; to load is to call that constructor, so everything is checked again::

    us.IID(us.Gaussian(5.0, 4.0))
    {"kind": "IID", "law": {"kind": "Gaussian", "mean": 5.0, "cov": 4.0}}

Each class has the two methods `to_dict` and `from_dict`; `KINDS` says which class has which kind. A new class needs
these methods and one line there. What holds a function of the user's cannot be stored, and the message says what to do.

**Values** of a parameter come back as the kind of value they were: 1 stays a whole number, a tuple a tuple::

    (0, "door")            {"tuple": [0, "door"]}
    np.array([0.5, 1.0])   {"array": [0.5, 1.0], "dtype": "float64", "shape": [2]}

**The envelope** of a file names its format, its version and a fingerprint, the SHA-256 of the content in canonical JSON
(sorted keys, no spaces, shortest digits that read back as the same number). So damage and edits by hand are noticed;
it is no signature, for who can write the file can write the fingerprint too.

**Reading with suspicion.** A file may come from anywhere: types are the very ones that JSON gives, fields are exactly
those that are asked for, numbers are finite, keys do not repeat, size and nesting are bounded. What is wrong is named
by its place and the rule; what stands in the file is not repeated.

A design is no secret: the guarantee holds against an adversary who knows it. So these files have the ordinary
permissions. Draws and states, which are secret, live in ledgers and snapshots.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from understudy._paths import Path, show, what, write_whole
from understudy._types import Array, Json, Plain, Value
from understudy.errors import FamilyError, ModelError, StoredFileError

_T = TypeVar("_T")
_P = ParamSpec("_P")

KINDS: dict[str, dict[str, str]] = {
    "law": {
        "Gaussian": "laws.gaussian",
        "Scalar": "laws.scalar",
        "Independent": "laws.multivariate",
        "Shifted": "laws.scalar",
        "Atoms": "laws.atoms",
        "Mixture": "laws.mixture",
        "GaussianMixture": "laws.multivariate",
        "GaussianCopula": "laws.multivariate",
    },
    "model": {
        "GaussMarkov": "models.gauss_markov",
        "AutoRegressive": "models.autoregressive",
        "IID": "models.iid_markov",
        "HiddenMarkov": "models.hidden_markov",
        "Adaptive": "models.adaptive",
        "Quantised": "models.quantised",
        "OnGrid": "models.quantised",
    },
    "design": {
        "design": "randomizer.design:Design",
        "causal design": "randomizer.causal:CausalDesign",
        "robust design": "randomizer.priors:RobustDesign",
        "coin design": "randomizer.coin:CoinDesign",
    },
    "state": {
        "CellState": "models.quantised_residual",
        "Grid": "models.nonlinear",
        "Cloud": "models.nonlinear",
        "MarkovState": "models.iid_markov",
        "BeliefState": "randomizer.causal_guarantee",
        "CausalMemory": "randomizer.causal",
        "EstimatorState": "randomizer.estimation",
    },
}
"""Where the class of each kind is found; it is loaded when it is needed."""

WAY_OUT = "save without models, and re-attach them with load_design(path, family=...)"
"""What to do with a model that cannot be stored."""

DEEPEST_LAW, DEEPEST_VALUE, DEEPEST = 8, 8, 64
"""Laws inside laws, tuples inside values, and JSON inside JSON: bounds keep a hostile file from filling the stack."""
LARGEST = 64 * 1024 * 1024
"""Bytes of a document; a design of 512 values with models of 8 states has some 30 million."""
MOST = 4_000_000
"""Commas and opening brackets of a document: what its reading takes grows with them, more than with its bytes."""
_LARGEST_WHOLE = 2**64


# Kinds and their classes ---------------------------------------------------------------------------


class Place(NamedTuple):
    """Where in a stored value something stands, for messages, and how many laws it stands in.

    >>> str(Place("IID") / "law" / "laws" / 2)
    'IID.law.laws[2]'
    """

    name: str = ""
    depth: int = 0

    def __truediv__(self, part: str | int) -> Place:
        if isinstance(part, int):
            return self._replace(name=f"{self.name}[{part}]")
        return self._replace(name=f"{self.name}.{part}" if self.name else part)

    def __str__(self) -> str:
        return self.name


def class_of(group: str, kind: str) -> Any:
    """The class of a kind.

    >>> class_of("law", "Gaussian")
    <class 'understudy.laws.gaussian.Gaussian'>
    """
    module, _, name = KINDS[group][kind].partition(":")
    return getattr(importlib.import_module(f"understudy.{module}"), name or kind)


def kind_in(group: str, cls: type) -> str | None:
    """The kind of a class in a group; None if it has none, as a subclass of the user's, which may do anything."""
    name = cls.__name__
    return name if name in KINDS[group] and class_of(group, name) is cls else None


def to_plain(thing: Any, group: str = "model", place: Place | None = None) -> Plain:
    """A law or a model as JSON can hold it; refuses what holds functions or classes of its own.

    >>> import understudy as us
    >>> to_plain(us.IID(us.Gaussian(5.0, 4.0)))
    {'kind': 'IID', 'law': {'kind': 'Gaussian', 'mean': 5.0, 'cov': 4.0}}
    """
    here = place or Place()
    kind = kind_in(group, type(thing))
    if group == "law":
        if here.depth >= DEEPEST_LAW:
            raise ModelError(f"{here}: laws are nested more than {DEEPEST_LAW} deep; {WAY_OUT}")
        here = here._replace(depth=here.depth + 1)
    if kind is None:
        *kinds, last = KINDS[group]
        raise ModelError(
            f"{here.name or 'the model'} is of type {type(thing).__name__}, which holds functions or is a class of its "
            f"own; only {', '.join(kinds)} and {last} can be stored: {WAY_OUT}"
        )
    return {"kind": kind, **thing.to_dict(here)}


def from_plain(plain: Json, group: str = "model", place: Place | None = None, among: Iterable[str] = ()) -> Any:
    """The law or model that `to_plain` was given, made anew by its constructor; `among` are the kinds allowed.

    >>> import understudy as us
    >>> from_plain(to_plain(us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0)))
    GaussMarkov(states=1, dim=1, constant)
    """
    here = place or Place(group)
    if group == "law":
        if here.depth >= DEEPEST_LAW:
            raise StoredFileError(f"{here}: laws are nested more than {DEEPEST_LAW} deep; they must not be")
        here = here._replace(depth=here.depth + 1)
    kind = kind_of(here, plain, tuple(among) or KINDS[group])
    return class_of(group, kind).from_dict(plain, here if place else Place(kind))


def laws_to_plain(laws: Iterable[Any], place: Place) -> list[Plain]:
    """Several laws, each named by its position."""
    return [to_plain(law, "law", place / i) for i, law in enumerate(laws)]


def laws_from_plain(plain: Json, place: Place) -> list[Any]:
    """The laws that `laws_to_plain` was given."""
    return [from_plain(law, "law", place / i) for i, law in enumerate(entries(place, plain))]


# Checks of what a file holds, before a constructor sees it ---------------------------------------------


def kind_of(place: Place | str, plain: Json, kinds: Iterable[str]) -> str:
    """The kind of a mapping, if it is one of these.

    >>> kind_of("law", {"kind": "Atoms"}, ("Atoms", "Gaussian"))
    'Atoms'
    """
    kind = plain.get("kind") if type(plain) is dict else None
    if type(kind) is not str or kind not in kinds:
        raise StoredFileError(f"{place} must be a mapping whose kind is one of {', '.join(kinds)}")
    return kind


def fields(place: Place | str, plain: Json, *names: str, kind: bool = True) -> Plain:
    """The mapping, if it has exactly these fields (and, unless said otherwise, a kind)."""
    if type(plain) is not dict:
        raise StoredFileError(f"{place} must be a mapping with the fields {', '.join(names)}")
    wanted = {*names, "kind"} if kind else {*names}
    missing = sorted(wanted - plain.keys())
    if missing:
        raise StoredFileError(f"{place} lacks the field {missing[0]!r}; it must have {', '.join(names)}")
    extra = plain.keys() - wanted
    if extra:
        # a short name is a slip to be shown; anything else in a file is not repeated
        short = sorted(repr(key) for key in extra if type(key) is str and key.isidentifier() and len(key) <= 32)
        raise StoredFileError(
            f"{place} has a field too many{': ' + short[0] if short else ''}; it must have {', '.join(names)} only"
        )
    return plain


def entries(place: Place | str, given: Json) -> list[Any]:
    """A list, of anything."""
    if type(given) is not list:
        raise StoredFileError(f"{place} must be a list")
    return given


def stored_array(place: Place | str, given: Json, axes: int) -> Array:
    """Finite numbers, nested `axes` deep."""
    _check_numbers(place, given, axes)
    try:
        return np.array(given, dtype=float)
    except (ValueError, OverflowError):
        raise StoredFileError(f"{place} is ragged, or has a number beyond double precision") from None


def _check_numbers(place: Place | str, given: Json, axes: int) -> None:
    if axes:
        if type(given) is not list:
            raise StoredFileError(f"{place} must be a list, nested one deeper for each of its axes")
        for part in given:
            _check_numbers(place, part, axes - 1)
    elif type(given) not in (int, float) or (type(given) is float and not math.isfinite(given)):
        raise StoredFileError(f"{place} has an entry of type {type(given).__name__}; each must be a finite number")


def truth(place: Place | str, given: Json) -> bool:
    """True or False."""
    if type(given) is not bool:
        raise StoredFileError(f"{place} must be true or false")
    return given


def construct(place: Place | str, make: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
    """What the constructor makes; what it refuses is a fault of the file."""
    try:
        return make(*given, **named)
    except (ValueError, ArithmeticError) as error:  # ours are ValueErrors; numpy has some for numbers out of range
        raise StoredFileError(f"{place} breaks a rule: {error}") from None


_WORDS = {"infinite": math.inf, "undefined": math.nan}


def number_to_plain(x: float | None) -> float | str | None:
    """A number as JSON can hold it; what is not finite is a word, and None stays None."""
    if x is None or math.isfinite(x):
        return None if x is None else float(x)
    return "undefined" if math.isnan(x) else "infinite"


def number_from_plain(place: Place | str, x: Json) -> float:
    """The number that `number_to_plain` was given."""
    if type(x) is str and x in _WORDS:
        return _WORDS[x]
    if type(x) is not int and type(x) is not float:
        raise StoredFileError(f"{place} must be a number")
    return float(x)


def matrix_to_plain(rows: Array) -> list[Any]:
    """An array as nested lists, infinities in words."""
    return [matrix_to_plain(row) for row in rows] if rows.ndim > 1 else [number_to_plain(x) for x in rows.tolist()]


def matrix_from_plain(place: Place | str, rows: Json, shape: tuple[int, ...]) -> Array:
    """The array that `matrix_to_plain` was given, if it has this shape."""

    def inner(part: Json) -> Any:
        return [inner(x) for x in part] if type(part) is list else number_from_plain(place, part)

    try:
        found = np.array(inner(rows), dtype=float)
    except ValueError:
        raise StoredFileError(f"{place} is ragged; it must have the shape {shape}") from None
    if found.shape != tuple(shape):
        raise StoredFileError(f"{place} has the shape {found.shape}; it must be {shape}")
    return found


# Values of a parameter -----------------------------------------------------------------------------


_RULE = "a value that is stored is a number, a string, True, False, None, a tuple of these, or an array of numbers"
_DTYPES = (
    "bool", "float16", "float32", "float64", "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8",
)  # fmt: skip
_MOST_AXES = 32


def value_to_plain(value: Value | Array, depth: int = 0) -> Any:
    """The parameter value as JSON can hold it; a numpy number becomes the Python number that it equals.

    >>> value_to_plain((1, 1.0, "door"))
    {'tuple': [1, 1.0, 'door']}
    >>> value_to_plain(np.float64(0.5))
    0.5
    """
    if isinstance(value, np.generic) and (value.dtype.name in _DTYPES or value.dtype.kind == "U"):
        value = value.item()
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        if abs(value) >= _LARGEST_WHOLE:
            raise FamilyError("a value is a whole number of more than 64 bits; such a number cannot be stored")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise FamilyError(f"the value {value!r} cannot be stored; a number must be finite")
        return value
    if type(value) is tuple and depth < DEEPEST_VALUE:
        return {"tuple": [value_to_plain(part, depth + 1) for part in value]}
    if type(value) is np.ndarray and depth == 0:  # a tuple with an array inside has no hash
        if value.dtype.name not in _DTYPES:
            raise FamilyError(f"a value is an array of {value.dtype}; {_RULE}")
        if not np.isfinite(value).all():
            raise FamilyError("a value is an array with an entry that is not finite; every entry must be, to be stored")
        return {"array": value.ravel().tolist(), "dtype": value.dtype.name, "shape": list(value.shape)}
    deep = f" nested more than {DEEPEST_VALUE} deep" if type(value) is tuple else ""
    raise FamilyError(f"a value is of type {type(value).__name__}{deep}; {_RULE}")


def value_from_plain(plain: Json, depth: int = 0) -> Any:
    """The parameter value that `value_to_plain` was given; an array is read-only.

    >>> value_from_plain({"tuple": [1, 1.0, "door"]})
    (1, 1.0, 'door')
    """
    if plain is None or type(plain) in (bool, str):
        return plain
    if type(plain) is int and abs(plain) < _LARGEST_WHOLE:
        return plain
    if type(plain) is float and math.isfinite(plain):
        return plain
    if type(plain) is dict and depth < DEEPEST_VALUE and plain.keys() == {"tuple"} and type(plain["tuple"]) is list:
        return tuple(value_from_plain(part, depth + 1) for part in plain["tuple"])
    if type(plain) is dict and depth == 0 and plain.keys() == {"array", "dtype", "shape"}:
        return _array_value(plain["array"], plain["dtype"], plain["shape"])
    raise StoredFileError(f"the stored file holds a {type(plain).__name__} in the place of a value; {_RULE}")


def _array_value(given: Json, dtype: Json, shape: Json) -> Any:
    if type(dtype) is not str or dtype not in _DTYPES:
        raise StoredFileError(f"dtype of a stored array must be one of {', '.join(_DTYPES)}")
    if type(shape) is not list or len(shape) > _MOST_AXES or not all(type(n) is int and n >= 0 for n in shape):
        raise StoredFileError(
            f"shape of a stored array must be a list of at most {_MOST_AXES} whole numbers, 0 or more"
        )
    wanted = {"b": bool, "i": int, "u": int, "f": float}[np.dtype(dtype).kind]
    if type(given) is not list or not all(type(entry) is wanted for entry in given):
        raise StoredFileError(f"array must be a list with entries of type {wanted.__name__}, as its dtype says")
    lengths = [n for n in shape if isinstance(n, int)]
    if math.prod(lengths) != len(given):
        raise StoredFileError(f"a stored array has {len(given)} entries, which do not fill its shape")
    try:
        with np.errstate(over="ignore"):
            found = np.array(given, dtype=dtype).reshape(lengths)
    except (OverflowError, ValueError):
        raise StoredFileError(f"a stored array has an entry or a shape that does not fit its dtype {dtype}") from None
    if not np.isfinite(found).all() or found.ravel().tolist() != given:
        raise StoredFileError(
            f"a stored array has an entry that {dtype} cannot hold; every entry must be finite and exact"
        )
    found.flags.writeable = False
    return found


# Canonical JSON and the fingerprint ------------------------------------------------------------------

# What is hashed starts with this, so that no other use of SHA-256 gives the same number; the version
# goes up whenever the same value would be written down in another way.
_DOMAIN = b"understudy plain value, version 1\n"


def canonical(plain: Json | Plain) -> bytes:
    """The one way in which a plain value is written: sorted keys, no spaces, shortest digits, ASCII.

    >>> canonical({"b": [1, 1.0], "a": None})
    b'{"a":null,"b":[1,1.0]}'
    """
    _check(plain, 0)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def fingerprint(plain: Json | Plain) -> str:
    """SHA-256 of a plain value; equal for equal values, on every machine.

    >>> fingerprint({"kind": "IID"})
    'sha256:0aec71ae95606114ea2ad53e12ed57485d37b061a3aaa52817ecdcd663438b45'
    """
    return "sha256:" + hashlib.sha256(_DOMAIN + canonical(plain)).hexdigest()


def _check(part: Json | Plain, depth: int) -> None:
    """Only what JSON gives back as it was: a tuple would return as a list, a whole-number key as a string."""
    if type(part) is float:
        if not math.isfinite(part):
            raise StoredFileError("a number to be stored is not finite; every one must be")
    elif type(part) is int:
        if abs(part) >= _LARGEST_WHOLE:
            raise StoredFileError("a whole number to be stored has more than 64 bits; none may")
    elif type(part) is dict or type(part) is list:
        if depth >= DEEPEST:
            raise StoredFileError(f"values to be stored are nested more than {DEEPEST} deep; they must not be")
        if type(part) is dict and not all(type(key) is str for key in part):
            raise StoredFileError("a key to be stored is not a string; every one must be")
        for inner in part.values() if type(part) is dict else part:
            _check(inner, depth + 1)
    elif type(part) not in (str, bool, type(None)):
        raise StoredFileError(
            f"a {type(part).__name__} is to be stored; a plain value is a dict, list, str, int, float, bool or None"
        )


# The envelope: a JSON document on disk -----------------------------------------------------------------

_KIND = re.compile(rb'\{\n"format": "understudy ([a-z][a-z -]{0,30})",')
_ENVELOPE = ("format", "version", "fingerprint", "content")


class Document(NamedTuple):
    """What a file held: its version, its fingerprint, and the content."""

    version: int
    fingerprint: str
    content: Plain


def write(path: Path, content: Plain, kind: str, version: int) -> str:
    """Write the content as a document of this kind, whole or not at all; returns its fingerprint.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mark = write(os.path.join(folder, "room.json"), {"leakage": 0.3}, kind="design", version=1)
    ...     document = read(os.path.join(folder, "room.json"), kind="design", versions=[1])
    >>> document.version, document.fingerprint == mark, document.content
    (1, True, {'leakage': 0.3})
    """
    if type(content) is not dict:
        raise StoredFileError(f"content is of type {type(content).__name__}; a document holds a dict")
    mark = _mark(kind, version, content)
    parts = (canonical(f"understudy {kind}"), canonical(version), canonical(mark), canonical(content))
    lines = [canonical(name) + b": " + part for name, part in zip(_ENVELOPE, parts, strict=True)]
    text = b"{\n" + b",\n".join(lines) + b"\n}\n"
    if len(text) > LARGEST:
        raise StoredFileError(f"the document would have {len(text)} bytes; it must have at most {LARGEST}")
    if _parts(text) > MOST:
        raise StoredFileError(f"the document would have {_parts(text)} parts; it must have at most {MOST}")
    write_whole(path, text)
    return mark


def read(path: Path, kind: str, versions: Collection[int]) -> Document:
    """The document in a file, if it is of this kind and of one of these versions, and undamaged."""
    name, document = show(path), read_plain(path)
    version = _version(name, document, kind, versions)
    if document.keys() != {*_ENVELOPE} or type(document["content"]) is not dict:
        raise StoredFileError(f"{name} is damaged: it must have the fields {', '.join(_ENVELOPE)} and no other")
    content = document["content"]
    try:
        mark = _mark(kind, version, content)
    except StoredFileError as error:
        raise StoredFileError(f"{name} is damaged: {error}") from None
    if document["fingerprint"] != mark:
        raise StoredFileError(
            f"{name} is damaged or was edited by hand: its fingerprint does not fit its content; save it anew"
        )
    return Document(version, mark, content)


def kind_of_file(path: Path) -> str:
    """What kind of document a file says it is; "" if it does not say so."""
    data = _bytes(path)
    ours = _KIND.match(data)  # as `write` begins; anything else is read whole
    if ours is not None:
        return ours[1].decode("ascii")
    document, problem = _parse(data)
    found = "" if problem else document.get("format")
    return found.removeprefix("understudy ") if type(found) is str else ""


def read_plain(path: Path) -> Plain:
    """The mapping in a JSON file of whatever kind, read with the same suspicion."""
    document, problem = _parse(_bytes(path))
    if problem:
        raise StoredFileError(f"{show(path)} {problem}")
    return document


def _mark(kind: str, version: int, content: Plain) -> str:
    return fingerprint({"format": f"understudy {kind}", "version": version, "content": content})


def _bytes(path: Path) -> bytes:
    name = show(path)
    try:
        found = os.stat(path)
        data = b""
        if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST:
            with open(path, "rb") as file:
                data = file.read(LARGEST + 1)  # the bound once more, for a file that grows meanwhile
    except FileNotFoundError:
        raise StoredFileError(f"{name} does not exist") from None
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or "it is no path of a file")
        raise StoredFileError(f"{name} cannot be read: {reason}") from None
    if not stat.S_ISREG(found.st_mode):
        raise StoredFileError(f"{name} is {what(found.st_mode)}; a document is a file")
    if max(found.st_size, len(data)) > LARGEST:
        raise StoredFileError(f"{name} is too large; a document has at most {LARGEST} bytes")
    if _parts(data) > MOST:
        raise StoredFileError(f"{name} has too many parts; a document has at most {MOST}")
    return data


def _parts(data: bytes) -> int:
    return sum(data.count(mark) for mark in (b",", b"[", b"{"))


class _RefusedError(ValueError):
    """A rule of ours that JSON itself does not have."""


def _parse(data: bytes) -> tuple[Plain, str]:
    """The document, or what is wrong with it; an exception of the parser would carry the text along."""
    damaged = "it is damaged, or no understudy document"
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        return {}, f"is not UTF-8 text (byte {error.start}); {damaged}"
    except json.JSONDecodeError as error:
        return {}, (
            f"is not JSON (line {error.lineno}, column {error.colno}); it is damaged, cut short, "
            "or no understudy document"
        )
    except _RefusedError as error:
        return {}, str(error)
    except RecursionError:
        return {}, f"is nested too deep; {damaged}"
    except ValueError:
        return {}, f"has a number with too many digits; {damaged}"
    return (document, "") if type(document) is dict else ({}, "is not an understudy document: it holds no mapping")


def _distinct(pairs: list[tuple[str, Json]]) -> Plain:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RefusedError("has a key twice in one mapping; each must appear once")
    return found


def _no_constant(_: str) -> None:
    raise _RefusedError("has a NaN or an Infinity; every number must be finite")


def _version(name: str, document: Plain, kind: str, versions: Collection[int]) -> int:
    found, wanted = document.get("format"), f"understudy {kind}"
    if found != wanted:
        # a format of ours is named; anything else in a file is not repeated
        ours = type(found) is str and re.fullmatch(r"understudy [a-z][a-z -]{0,30}", found)
        raise StoredFileError(
            f"{name} is {f'an {found}' if ours else 'no understudy document'}; an {wanted} was expected"
        )
    version = document.get("version")
    if type(version) is not int:
        raise StoredFileError(f"{name} is damaged: its version must be a whole number")
    if version in versions:
        return version
    readable = " or ".join(str(v) for v in sorted(versions))
    if max(versions) < version < 1_000_000:
        from understudy._version import __version__

        raise StoredFileError(
            f"{name} is an {wanted} of version {version}; understudy {__version__} reads version {readable}: "
            "install a newer understudy"
        )
    raise StoredFileError(f"{name} is an {wanted} of a version that is not read any more; version {readable} is")
