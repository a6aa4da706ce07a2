"""A law on finitely many numbers: a grid of readings, a count, a switch.

A distribution function with jumps does not make a reading uniform, so the score is randomised (the
distributional transform): with an auxiliary uniform v,

    u = Pr(Y < y) + v Pr(Y = y),    z = Phi^-1(u),

which is exactly standard normal. Each atom owns an interval of scores, and `value` gives the atom
whose interval a score is in. Both tails are summed from their own end, so an atom of probability
1e-30 keeps its digits at the top as at the bottom.

Auxiliary uniforms: what a law with atoms needs besides the reading.

Where a reading has a probability and not a density, its c.d.f. jumps, and u = F(y-) + v Pr(y) with v
uniform fills the jump (the randomised distributional transform). The uniforms must be secret, since
whoever knows v can test which parameter puts the reading on the grid; and they must be the same
whenever the same reading is met again, whether it comes alone, in a chunk, after a restart or in a
replay. So they are a function of a key, the number of the reading and the channel, and nothing is drawn.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Frozen, Plain
from understudy.errors import ConfigurationError, LawError, ReadingError
from understudy.serialize import Place, construct, fields, stored_array

# A law on finitely many numbers: a grid of readings, a count, a switch -------------------------------


NEEDS_UNIFORMS = "this law has atoms; its score needs auxiliary uniforms v"

# A score keeps this distance (times its size, if that is above 1) from the ends of its interval, where the interval
# is wide enough: the ends may be rounded otherwise where the score is turned back.
_MARGIN = 8e-15
# Sums of probabilities below this have lost digits, or everything.
_TINY = 1e-290


class Atoms(Frozen):
    """The law of `values`, distinct numbers, with these `probabilities`.

    A reading must be one of the values exactly, and one of positive probability. `score` needs
    auxiliary uniforms, numbers in (0, 1), one for each reading.

    >>> law = Atoms([400.0, 405.0, 410.0], [0.2, 0.5, 0.3])
    >>> law
    Atoms(3 values, dim=1)
    >>> round(law.score(405.0, v=0.6), 12)
    0.0
    >>> law.value([-3.0, 0.0, 3.0]).tolist()
    [400.0, 405.0, 410.0]
    """

    __slots__ = ("_above", "_below", "_edges", "dim", "probabilities", "values")

    dim: int
    atoms = True

    def __init__(self, values: Any, probabilities: Any) -> None:
        at, p = _checked(values, probabilities)
        self._set(at, p)

    def _set(self, values: Array, p: Array) -> None:
        self.dim = 1
        self.values: Array = values
        self.probabilities: Array = p
        self._below, self._above, self._edges = intervals(p)
        for array in (values, p, self._below, self._above, self._edges):
            array.flags.writeable = False

    @classmethod
    def trusted(cls, values: Array, probabilities: Array) -> Atoms:
        """The same for arrays that are known to be sorted, distinct and normalised: nothing is checked."""
        law = cls.__new__(cls)
        law._set(values, probabilities)
        return law

    def __reduce__(self) -> tuple[Any, ...]:
        return Atoms, (self.values, self.probabilities)

    def to_dict(self, place: Place) -> Plain:
        """Values and probabilities; see `understudy.serialize`."""
        return {"values": self.values.tolist(), "probabilities": self.probabilities.tolist()}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> Atoms:
        """The law again."""
        given = fields(place, plain, "values", "probabilities")
        return construct(
            place, cls, *(stored_array(place / name, given[name], 1) for name in ("values", "probabilities"))
        )

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"Atoms({self.values.size} values, dim=1)"

    def score(self, y: Any, v: Any = None) -> Any:
        """Z = Phi^-1(Pr(Y < y) + v Pr(Y = y)), inside the interval that belongs to y; NaN stays NaN."""
        if isinstance(y, float) and isinstance(v, float) and 0.0 < v < 1.0:  # the common case, kept quick
            n = self._one(y)
            if n >= 0:
                return self._one_score(n, v)
        readings, uniforms = numbers(y), checked_uniforms(y, v)
        i = self._find(readings)
        there = ~np.isnan(readings)
        foreign = there & (i < 0)
        if foreign.any():
            raise not_an_atom(foreign)
        parts = (self.probabilities[i], self._below[i], self._above[i + 1], self._edges[i], self._edges[i + 1])
        z = np.where(there, randomised_scores(*parts, np.where(there, uniforms, 0.5)), np.nan)
        return shaped(z)

    def value(self, z: Any) -> Any:
        """The atom whose interval the score is in; NaN stays NaN."""
        scores = numbers(z)
        first = int(np.argmax(self.probabilities > 0.0))
        i = np.maximum(np.searchsorted(self._edges[1:-1], scores), first)
        return shaped(np.where(np.isnan(scores), np.nan, self.values[i]))

    def logpdf(self, y: Any) -> Any:
        """Logarithm of the probability of the atom; -inf for what is not one, NaN for NaN."""
        if isinstance(y, float):
            n = self._one(y)
            return math.log(self.probabilities[n]) if n >= 0 else math.nan if math.isnan(y) else -math.inf
        readings = numbers(y)
        i = self._find(readings)
        with np.errstate(divide="ignore"):
            logs = np.log(np.where(i < 0, 0.0, self.probabilities[i]))
        return shaped(np.where(np.isnan(readings), np.nan, logs))

    def _one(self, y: float) -> int:
        """`_find` for one reading."""
        i = int(self.values.searchsorted(y))
        return i if i < self.values.size and self.values[i] == y and self.probabilities[i] > 0.0 else -1

    def _one_score(self, i: int, v: float) -> float:
        """`randomised_scores` for one reading: the same operations, and so the same bits."""
        from scipy.special import ndtri

        p, low, high = self.probabilities.item(i), self._edges.item(i), self._edges.item(i + 1)
        u, w = self._below.item(i) + v * p, self._above.item(i + 1) + (1.0 - v) * p
        if min(u, w) < _TINY:
            parts = [np.array(x) for x in (p, self._below[i], self._above[i + 1], low, high, v)]
            return float(randomised_scores(*parts))
        z = float(ndtri(u)) if u <= w else -float(ndtri(w))
        quarter = 0.25 * (high - low)
        below = 0.0 if math.isinf(low) else min(_MARGIN * max(1.0, abs(low)), quarter)
        above = 0.0 if math.isinf(high) else min(_MARGIN * max(1.0, abs(high)), quarter)
        start = max(low + below, math.nextafter(low, math.inf))
        return min(max(z, start), max(high - above, start))

    def _find(self, y: Array) -> NDArray[np.intp]:
        """Position of each reading among the values; -1 where it is not an atom of positive probability."""
        i = positions(self.values, y)
        return np.where(self.probabilities[i] > 0.0, i, -1)


# Shared with models that mix atoms ---------------------------------------------------------------------


def positions(values: Array, y: Array) -> NDArray[np.intp]:
    """Where each reading stands in the sorted `values`; -1 where it does not."""
    i = np.minimum(np.searchsorted(values, y), values.size - 1)
    return np.where(values[i] == y, i, -1)


def intervals(p: Array) -> tuple[Array, Array, Array]:
    """For probabilities (..., M): what is below and above each of M + 1 edges, and the edges as scores.

    Atom i owns the scores in ``(edges[i], edges[i + 1]]``; the edges of atoms with positive
    probability are distinct, although rounding might have made them equal.
    """
    from scipy.special import ndtri

    below, above = np.zeros((*p.shape[:-1], p.shape[-1] + 1)), np.zeros((*p.shape[:-1], p.shape[-1] + 1))
    np.cumsum(p, axis=-1, out=below[..., 1:])
    np.cumsum(p[..., ::-1], axis=-1, out=above[..., -2::-1])
    lower = below <= above
    tail = ndtri(np.where(lower, below, above))
    edges = np.maximum.accumulate(np.where(lower, tail, -tail), axis=-1)
    for row in np.argwhere(((p > 0.0) & ~(edges[..., 1:] > edges[..., :-1])).any(axis=-1)):
        _part(edges[tuple(row)], p[tuple(row)])
    return below, above, edges


def _part(edges: Array, p: Array) -> None:
    """Make the edges of atoms distinct that are narrower than the distance of two floats."""
    for i in range(p.size):
        least = np.nextafter(edges[i], np.inf) if p[i] > 0.0 else edges[i]
        edges[i + 1] = max(edges[i + 1], least)


def randomised_scores(p: Array, below: Array, above: Array, low: Array, high: Array, v: Array) -> Array:
    """Phi^-1(below + v p), kept inside (low, high]; everything element by element."""
    from scipy.special import ndtri, ndtri_exp

    u, w = below + v * p, above + (1.0 - v) * p
    lower = u <= w
    tail = np.where(lower, u, w)
    with np.errstate(divide="ignore"):
        z = ndtri(tail)
        tiny = tail < _TINY
        if tiny.any():
            rest, share = np.where(lower, below, above), np.where(lower, v, 1.0 - v)
            z = np.where(tiny, ndtri_exp(np.logaddexp(np.log(rest), np.log(share) + np.log(p))), z)
    z = np.where(lower, z, -z)
    with np.errstate(invalid="ignore"):
        quarter = 0.25 * (high - low)
        start = np.maximum(low + _margin(low, quarter), np.nextafter(low, np.inf))
        stop = np.maximum(high - _margin(high, quarter), start)
    return np.asarray(np.minimum(np.maximum(z, start), stop))


def _margin(edge: Array, most: Array) -> Array:
    return np.where(np.isinf(edge), 0.0, np.minimum(_MARGIN * np.maximum(1.0, np.abs(edge)), most))


def numbers(y: Any) -> Array:
    """Readings or scores as an array of any shape."""
    try:
        return np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        raise ReadingError(f"a reading of type {type(y).__name__}; it must be a number or an array") from None


def shaped(result: Array) -> Any:
    """A float for one number, else the array."""
    return float(result) if result.ndim == 0 else result


def checked_uniforms(y: Any, v: Any) -> Array:
    """The auxiliary uniforms in the shape of the readings; where a reading is missing they do not matter."""
    if v is None:
        raise ReadingError(NEEDS_UNIFORMS)
    uniforms, shape = numbers(v), np.shape(y)
    if uniforms.shape != shape:
        if uniforms.size != 1 or shape != ():
            raise ReadingError(f"auxiliary uniforms of shape {uniforms.shape}; readings of shape {shape} need the same")
        uniforms = uniforms.reshape(())
    if not (((uniforms > 0.0) & (uniforms < 1.0)) | np.isnan(numbers(y))).all():
        raise ReadingError("an auxiliary uniform is not strictly between 0 and 1; each must be")
    return uniforms


def not_an_atom(foreign: Any) -> ReadingError:
    """The error for a reading that the law does not allow, with its position and without its value."""
    where = np.argwhere(foreign)[0].tolist()
    position = f" at position {where[0] if len(where) == 1 else tuple(where)}" if where else ""
    return ReadingError(f"the reading{position} is not an atom of the law; it must be one of its values, exactly")


def _checked(values: Any, probabilities: Any) -> tuple[Array, Array]:
    try:
        at, p = np.array(values, dtype=float), np.array(probabilities, dtype=float)
    except (TypeError, ValueError):
        raise LawError("values and probabilities must be vectors of numbers of one length") from None
    if at.ndim != 1 or at.size == 0 or p.shape != at.shape:
        raise LawError(
            f"values has shape {at.shape} and probabilities has shape {p.shape}; both must be (M,) with M at least 1"
        )
    if not np.isfinite(at).all():
        raise LawError(f"values holds {at[~np.isfinite(at)][0].item()!r}; every one must be finite")
    bad = ~(np.isfinite(p) & (p >= 0.0))
    if bad.any():
        raise LawError(f"probabilities holds {p[bad][0].item()!r}; each must be finite and not negative")
    order = np.argsort(at, kind="stable")
    at, p = at[order], p[order]
    same = np.flatnonzero(at[1:] == at[:-1])
    if same.size:
        raise LawError(f"values holds {at[same[0]].item()!r} twice; they must be distinct")
    total = float(p.sum())
    if abs(total - 1.0) > 1e-9:
        raise LawError(f"probabilities sum to {total:.12g}; they must sum to 1")
    if abs(total - 1.0) > p.size * float(np.finfo(float).eps):
        p = p / total  # else kept to the bit, so that a law that was stored comes back as it was
    return at, p


# Auxiliary uniforms: what a law with atoms needs besides the reading ---------------------------------


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

    def __reduce__(self) -> tuple[Any, ...]:
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
            # 52 bits behind the point of a number from 1 to 2; then down by all but half of the last one, which leaves
            # the middle of each of 2^52 equal cells, which a float holds exactly: never 0, never 1
            raw >>= np.uint64(12)
            raw |= _ONE
            low, high = max(0, -at), min(raw.size, v.size - at)
            np.subtract(raw.view(np.float64)[low:high], _DOWN, out=v[at + low : at + high])
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


def uniforms_from(rng: Any) -> Uniforms:
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
