"""Auxiliary uniforms: what a law with atoms needs besides the reading.

Where a reading has a probability and not a density, its c.d.f. jumps, and u = F(y-) + v Pr(y) with v
uniform fills the jump (the randomised distributional transform). The uniforms must be secret, since
whoever knows v can test which parameter puts the reading on the grid; and they must be the same
whenever the same reading is met again, whether it comes alone, in a chunk, after a restart or in a
replay. So they are a function of a key, the number of the reading and the channel, and nothing is drawn.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Frozen
from understudy.errors import ConfigurationError, ReadingError
from understudy.laws.law import numbers

Randomness: TypeAlias = "Uniforms | np.random.Generator | np.random.SeedSequence | bytes | int | None"
"""What a user gives as `rng`: nothing, a key, a seed or a generator."""

_A_DIGEST = 8  # uniforms in a digest of 64 bytes
_PIECE = 1024  # digests at a time, which stay in the cache
_ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0
_DOWN = 1.0 - 2.0**-53


class Uniforms(Frozen):
    """Uniforms on (0, 1) by reading and channel: BLAKE2b under a secret key, 52 bits each.

    >>> v = Uniforms(b"a key of 32 bytes from a good place")
    >>> bool((v.block(5, 3, 2)[1] == v.at(6, 2)).all())
    True
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or not 16 <= len(key) <= 64:
            raise ConfigurationError("the key of auxiliary uniforms must be 16 to 64 bytes")
        self._key = key

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> tuple[type[Uniforms], tuple[bytes]]:
        return type(self), (self._key,)

    def at(self, k: int, d: int) -> Array:
        """The uniforms of reading number k (the first is 0): one for each of d channels."""
        return np.asarray(self.block(k, 1, d)[0])

    def block(self, first: int, count: int, d: int, out: Array | None = None) -> Array:
        """Those of `count` readings from number `first` on, (count, d); in `out`, if that is given."""
        if out is None:
            out = np.empty((count, d))
        v = out.reshape(-1)
        begin, end = first * d, (first + count) * d
        at = begin // _A_DIGEST * _A_DIGEST - begin  # digests are whole: some of the first and the last is not wanted
        for raw in self._raw(begin // _A_DIGEST, -(-end // _A_DIGEST)):
            low, high = max(0, -at), min(raw.size, v.size - at)
            _to_floats(raw, slice(low, high), v[at + low : at + high])
            at += raw.size
        return out

    def derive(self, label: str) -> bytes:
        """Another key, for another use of the same secret."""
        return hashlib.blake2b(label.encode(), key=self._key, digest_size=32, person=b"understudy-key").digest()

    def sensor(self, j: int) -> Uniforms:
        """Those of sensor j of several: no two sensors share a uniform."""
        return type(self)(self.derive(f"sensor {j}"))

    def _raw(self, begin: int, end: int) -> Iterator[NDArray[np.uint64]]:
        """The digests number `begin` to `end`, in pieces, each an array of its own."""
        blake2b, key = hashlib.blake2b, self._key
        for first in range(begin, end, _PIECE):
            numbers = range(first, min(first + _PIECE, end))
            joined = b"".join([blake2b(i.to_bytes(8, "little"), key=key).digest() for i in numbers])
            yield np.frombuffer(joined, dtype="<u8").astype(np.uint64)


def _to_floats(raw: NDArray[np.uint64], which: slice, out: Array) -> None:
    """Some of the raw numbers as uniforms, into `out`; all of them are written over.

    52 bits behind the point of a number from 1 to 2; then down by all but half of the last one, which leaves the middle
    of each of 2^52 equal cells, which a float holds exactly: never 0, never 1.
    """
    raw >>= np.uint64(12)
    raw |= _ONE
    np.subtract(raw.view(np.float64)[which], _DOWN, out=out)


class ManyUniforms:
    """Uniforms of many rooms, each under a key of its own: those of `Uniforms`, whose digests are remembered.

    `key_of` gives the key of a room by its number.

    >>> keys = [b"a key of 32 bytes from a good place", b"another key, from a place as good"]
    >>> many = ManyUniforms(2, keys.__getitem__)
    >>> each = [Uniforms(keys[1]).at(5, 2), Uniforms(keys[0]).at(9, 2)]
    >>> bool((many.at(np.array([1, 0]), np.array([5, 9])) == each).all())
    True
    """

    def __init__(self, dim: int, key_of: Callable[[int], bytes]) -> None:
        self._dim, self._key_of = dim, key_of
        self._keys: list[bytes | None] = []
        self._which = np.empty(0, dtype=np.int64)  # the digest of each room that is remembered
        self._known = np.empty((0, _A_DIGEST))

    def at(self, room: NDArray[np.int64], k: NDArray[np.int64]) -> Array:
        """The uniforms (R, d) of reading number k of each room, which are all different."""
        more = int(room.max(initial=-1)) + 1 - len(self._keys)
        if more > 0:
            self._keys += [None] * more
            self._which = np.concatenate((self._which, np.full(more, -1)))
            self._known = np.concatenate((self._known, np.empty((more, _A_DIGEST))))
        v = np.empty((len(room), self._dim))
        for i in range(self._dim):
            number, place = np.divmod(k * self._dim + i, _A_DIGEST)
            other = np.flatnonzero(self._which[room] != number)
            if len(other):
                self._read(room[other], number[other])
            v[:, i] = self._known[room, place]
        return v

    def _read(self, room: NDArray[np.int64], number: NDArray[np.int64]) -> None:
        blake2b, keys, found = hashlib.blake2b, self._keys, []
        for r, n in zip(room.tolist(), number.tolist(), strict=True):
            key = keys[r]
            if key is None:
                key = keys[r] = self._key_of(r)
            found.append(blake2b(n.to_bytes(8, "little"), key=key).digest())
        raw = np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)
        out = np.empty(raw.size)
        _to_floats(raw, slice(None), out)
        self._known[room], self._which[room] = out.reshape(-1, _A_DIGEST), number


class SeededUniforms(Uniforms):
    """The same from a counter-based generator (Philox): quick, and for simulation only, as seeds are.

    >>> v = SeededUniforms(b"sixteen bytes ok")
    >>> bool((v.block(5, 3, 2)[1] == v.at(6, 2)).all())
    True
    """

    __slots__ = ()

    def _raw(self, begin: int, end: int) -> Iterator[NDArray[np.uint64]]:
        key = np.frombuffer(hashlib.blake2b(self._key, digest_size=16).digest(), dtype="<u8")
        # four numbers for each step of the counter
        philox = np.random.Philox(key=key, counter=[begin * 2, 0, 0, 0])
        for first in range(begin, end, _PIECE):
            count = min(_PIECE, end - first)
            yield np.asarray(philox.random_raw(count * _A_DIGEST), dtype=np.uint64)


def uniforms_from(rng: Randomness) -> Uniforms:
    """Uniforms from what a user gives as `rng`.

    None takes a fresh key from the operating system; bytes are a key; a Generator or a seed is for
    simulation and makes the result repeatable.

    >>> uniforms_from(None)
    Uniforms()
    >>> uniforms_from(7)
    SeededUniforms()
    """
    if isinstance(rng, Uniforms):
        return rng
    if rng is None:
        return Uniforms(secrets.token_bytes(32))
    if isinstance(rng, bytes):
        return Uniforms(rng)
    try:
        return SeededUniforms(np.random.default_rng(rng).bytes(32))
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"rng is of type {type(rng).__name__}; it must be None, a key (bytes), a seed or a numpy Generator"
        ) from None


def check_uniforms(y: ArrayLike, v: ArrayLike | None) -> Array:
    """The auxiliary uniforms in the shape of the readings; where a reading is missing they do not matter."""
    if v is None:
        raise ReadingError("this law has atoms; its score needs auxiliary uniforms v")
    uniforms, shape = numbers(v), np.shape(y)
    if uniforms.shape != shape:
        if uniforms.size != 1 or shape != ():
            raise ReadingError(f"auxiliary uniforms of shape {uniforms.shape}; readings of shape {shape} need the same")
        uniforms = uniforms.reshape(())
    if not (((uniforms > 0.0) & (uniforms < 1.0)) | np.isnan(numbers(y))).all():
        raise ReadingError("an auxiliary uniform is not strictly between 0 and 1; each must be")
    return uniforms
