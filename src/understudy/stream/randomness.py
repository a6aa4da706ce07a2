"""Random bits that no retry can change: the bits of draws, the keys that they follow from, and stored keys under lock.

The key of a stream is 256 bits, made once and recorded with it. The bits of a draw are a keyed digest of its *index*:
the generation of the stream, the tick of its clock, and how many numbers were asked for before. A call that failed, a
replay, a restart, a late reading and a snapshot that is used again all ask under the same index and get the same bits.

- The *tick* is the number of the epoch by the clock: the key of a reading, divided by the length of an epoch. A stream
  whose epochs no clock makes has the tick 0, and a draw before the first key the tick `BEFORE_CLOCK`.
- The *generation* is durable. It rises by one when a draw is made again and charged: `Stream.new_epoch`, and an older
  copy of a ledger that is gone on from.

One index serves one private value, for ever: the same bits under two values would give away more than two draws that
are charged. Keys only grow, so that a stream comes to each tick once. A call that failed may ask again under its index
with another value, for nothing that followed from the first was recorded or returned; and where an error of the disk
leaves open whether it was recorded, the ledger is read before it is written again.

Streams of version 0.2 and before keep their own index: the number of the epoch, and of the readings before the draw.

A *master key* is 256 bits of the operating system's random source, kept outside of the ledger. Three things follow from
it, each in a domain of its own, so that none tells of another:

- its *id*, which may be printed and says which key it is;
- the *key of a room*: a keyed digest (BLAKE2b) of namespace, fingerprint of the design and name of the room, each with
  its length before it. Draws, auxiliary uniforms and fresh scores of the room follow from it;
- a *wrapped* key: the key of a stream as a ledger may store it, readable only with the master key. Wrapping it anew
  under another master key changes no draw, since draws follow from what is wrapped.

A master key comes from a file that only its owner may read, from the environment, from a command, or from systemd
(`LoadCredential=`).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shlex
import stat
import struct
import subprocess

from understudy._types import Frozen
from understudy.errors import ConfigurationError, LedgerError

BEFORE_CLOCK = -(2**63)
"""The tick of a draw that a stream with a clock makes before it knows a key."""

_BYTES = 32
_HEAD = "understudy-key-1"
_WRAPPED = b"wrapped1"  # before nonce, locked key and tag
_NONCE, _TAG = 16, 16
_LONGEST_COMMAND = 60.0  # seconds
_SOURCES = "a path, 'env:NAME', 'credential:NAME' (systemd) or 'command:...'"


class DrawSource:
    """Random bits of one draw: the part of a numpy Generator that draws use, as a function of a key.

    >>> DrawSource.at_tick(bytes(32), 0, 45).integers(1 << 53) == DrawSource.at_tick(bytes(32), 0, 45).integers(1 << 53)
    True
    >>> DrawSource.at_tick(bytes(32), 0, 45).integers(1 << 53) == DrawSource.at_tick(bytes(32), 1, 45).integers(1 << 53)
    False
    """

    __slots__ = ("_count", "_domain", "_index", "_key")

    _label = struct.Struct("<qqq")

    def __init__(self, key: bytes, epoch: int, readings: int, domain: bytes = b"understudy draw") -> None:
        self._key, self._index, self._domain, self._count = key, (epoch, readings), domain, 0

    @classmethod
    def at_tick(cls, key: bytes, generation: int, tick: int) -> DrawSource:
        """The bits of a draw by its generation and the tick of the clock."""
        return cls(key, generation, tick, b"understudy tick")

    def __repr__(self) -> str:
        return "DrawSource()"

    def integers(self, high: int) -> int:
        """A whole number from 0 to below `high`, which must be a power of 2."""
        label = self._label.pack(*self._index, self._count)
        self._count += 1
        return int.from_bytes(hashlib.blake2b(label, key=self._key, person=self._domain).digest()) % high


class MasterKey(Frozen):
    """256 secret bits from which the keys of rooms follow; `MasterKey.new` makes one, `MasterKey.read` finds one.

    >>> key = MasterKey(bytes(32))
    >>> key
    MasterKey(e439fc95464c06ef)
    >>> key.room_key("plant", "design", "lab 1") == key.room_key("plant", "design", "lab 2")
    False
    >>> key.unwrap(key.wrap(b"k" * 32)) == b"k" * 32
    True
    """

    __slots__ = ("_secret", "id")

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != _BYTES:
            raise ConfigurationError(f"a master key is {_BYTES} bytes")
        self._secret = secret
        self.id = self._digest(b"understudy id", b"", 8).hex()

    def __repr__(self) -> str:
        return f"MasterKey({self.id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MasterKey) and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[object, ...]:
        raise ConfigurationError("a master key is not pickled: that would copy it; give each process its source")

    @classmethod
    def new(cls) -> MasterKey:
        """A key from the operating system's random source."""
        return cls(secrets.token_bytes(_BYTES))

    @classmethod
    def read(cls, source: str | os.PathLike[str]) -> MasterKey:
        """The key from a path, ``env:NAME``, ``credential:NAME`` (systemd) or ``command:...`` (its standard output).

        A file must be one that only its owner may read. No error shows what was found.
        """
        kind, _, rest = os.fspath(source).partition(":")
        if kind == "env":
            text = os.environ.get(rest)
            if text is None:
                raise ConfigurationError(f"the environment has no variable {rest!r} for the master key")
        elif kind == "credential":
            folder = os.environ.get("CREDENTIALS_DIRECTORY")
            if folder is None:
                raise ConfigurationError("systemd gives no credentials here (CREDENTIALS_DIRECTORY is not set)")
            text = _read_file(os.path.join(folder, os.path.basename(rest)))
        elif kind == "command":
            text = _run(rest)
        else:
            text = _read_file(os.fspath(source))
        return cls._parse(text)

    @classmethod
    def _parse(cls, text: str) -> MasterKey:
        head, _, digits = text.strip().partition(" ")
        try:
            secret = bytes.fromhex(digits) if head == _HEAD else b""
        except ValueError:
            secret = b""
        if len(secret) != _BYTES:
            raise ConfigurationError(
                f"what was found is no master key: it must be {_HEAD!r} and {2 * _BYTES} hexadecimal digits on one "
                "line, as `understudy key new` writes them"
            )
        return cls(secret)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key into a new file that only its owner may read; a file that is there is never written over."""
        name = os.path.basename(os.fspath(path))
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise ConfigurationError(f"{name} exists; a key is never written over") from None
        except OSError as error:
            raise ConfigurationError(f"{name} cannot be written: {error.strerror}") from None
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{_HEAD} {self._secret.hex()}\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            os.unlink(path)  # half a key is none
            raise ConfigurationError(f"{name} cannot be written: {error.strerror}") from None

    def room_key(self, namespace: str, design: str, room: str) -> bytes:
        """The key (32 bytes) of a room under a design, in a namespace."""
        return self._digest(b"understudy room", _joined(namespace, design, room), 32)

    def wrap(self, secret: bytes) -> bytes:
        """A key of 32 bytes as a ledger may store it: locked by a one-time pad from a nonce, and signed."""
        if len(secret) != _BYTES:
            raise ConfigurationError(f"a key to wrap is {_BYTES} bytes")
        nonce = secrets.token_bytes(_NONCE)
        locked = _xor(secret, self._digest(b"understudy pad", nonce, _BYTES))
        return _WRAPPED + nonce + locked + self._digest(b"understudy tag", nonce + locked, _TAG)

    def unwrap(self, wrapped: bytes) -> bytes:
        """The key again; LedgerError if it was wrapped by another master key, or was changed."""
        nonce, locked, tag = _parts(wrapped)
        if not hmac.compare_digest(tag, self._digest(b"understudy tag", nonce + locked, _TAG)):
            raise LedgerError(
                f"the stored key is not under the master key {self.id}: it needs another one, or is damaged"
            )
        return _xor(locked, self._digest(b"understudy pad", nonce, _BYTES))

    def _digest(self, domain: bytes, content: bytes, size: int) -> bytes:
        return hashlib.blake2b(content, key=self._secret, person=domain, digest_size=size).digest()


def is_wrapped(stored: bytes) -> bool:
    """Whether a stored key needs a master key: a plain one has 32 bytes."""
    return len(stored) != _BYTES


def _parts(wrapped: bytes) -> tuple[bytes, bytes, bytes]:
    if len(wrapped) != len(_WRAPPED) + _NONCE + _BYTES + _TAG or not wrapped.startswith(_WRAPPED):
        raise LedgerError("the stored key is not wrapped, or by a later version")
    rest = wrapped[len(_WRAPPED) :]
    return rest[:_NONCE], rest[_NONCE:-_TAG], rest[-_TAG:]


def _joined(*texts: str) -> bytes:
    """Texts as one, each with its length before it: no two lists of texts give the same bytes."""
    encoded = [text.encode() for text in texts]
    return b"".join(len(part).to_bytes(8, "little") + part for part in encoded)


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(len(one))


def _read_file(path: str) -> str:
    name = os.path.basename(path)
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077:
            raise ConfigurationError(
                f"{name} can be read by others (mode {stat.S_IMODE(found.st_mode):o}); it holds a master key: chmod "
                "600 it first"
            )
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(4096)
    except OSError as error:
        raise ConfigurationError(
            f"the master key cannot be read from {name}: {error.strerror}; give {_SOURCES}"
        ) from None


def _run(command: str) -> str:
    try:
        done = subprocess.run(
            shlex.split(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_LONGEST_COMMAND,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        raise ConfigurationError("the command for the master key did not run to its end without an error") from None
    return done.stdout.decode("ascii", "replace")
