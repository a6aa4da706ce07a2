"""Causal maps: readings in, readings out, one at a time or in chunks, with the state in your hand.

A transformation is a chain of such maps: whiten under the source, then colour under the target
(the paper's feedforward and feedback). Any model with the four methods of `Model` gives both.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Protocol

import numpy as np

from understudy.errors import LawError, MissingReadingError, NumericalError, ReadingError, StateError
from understudy.laws.base import Array, Law
from understudy.laws.uniforms import Uniforms, uniforms_from
from understudy.models.base import Model
from understudy.models.gauss_markov import GaussMarkov
from understudy.transform.pair import Pair, white
from understudy.transform.readings import finite_or_missing, one_reading


class CausalMap(Protocol):
    """state, input -> state, output."""

    dim: int

    def start(self) -> Any:
        """State before the first reading."""
        ...

    def step(self, state: Any, y: Any) -> tuple[Any, Any]:
        """One reading; None or NaN is missing and stays so."""
        ...

    def apply(self, state: Any, Y: Array) -> tuple[Any, Array]:
        """A chunk (T, d)."""
        ...


class Transformation(CausalMap, Protocol):
    """A causal map from readings to readings, with a source that can skip while its target goes on."""

    def fresh(self, state: Any, z: Array) -> tuple[Any, Array]:
        """One step in which the source skips a reading and the target is given the scores z (d,)."""
        ...


def gauss_markov(model: Model) -> GaussMarkov | None:
    """The Gauss-Markov form of a model, if it has one."""
    return model if isinstance(model, GaussMarkov) else getattr(model, "gauss_markov", None)


def innovations(model: Model) -> tuple[GaussMarkov | None, Law] | None:
    """The recursion and the law of a model with independent innovations, if it is one."""
    return getattr(model, "innovations", None)


def has_atoms(model: Model) -> bool:
    """Whether some reading of the model has a probability, so that its scores need auxiliary uniforms."""
    return bool(getattr(model, "atoms", False))


def auxiliary(model: Model, rng: Any) -> Uniforms | None:
    """The uniforms for a model's scores: none where it has no atoms; a model that does not say gets what is given."""
    if has_atoms(model) or (rng is not None and not hasattr(model, "atoms")):
        return uniforms_from(rng)
    return None


def keyed(model: Model, rng: Any) -> Model:
    """A model that computes with random numbers (particles), under the key that was given; others as they are."""
    if rng is None or not hasattr(model, "keyed"):
        return model
    return model.keyed(uniforms_from(rng).derive("particles"))  # type: ignore[no-any-return]  # a model, by its name


def whitening(model: Model, rng: Any = None, partial: bool = False) -> CausalMap:
    """The map y -> z under a model; `rng` (None, a key, a seed, a Generator) makes the auxiliary uniforms."""
    linear = gauss_markov(model)
    if linear is not None:
        return Pair(linear, white(linear.dim), partial)
    uniforms = auxiliary(model, rng)
    parts = innovations(model)
    if parts is not None:
        return Chain(*_to_innovations(model, parts[0]), ScoreEach(parts[1], model.dim, uniforms))
    own = _own_path(model)
    quick: CausalMap | None = None if own is None else own.whitening(model, uniforms)
    if quick is not None:
        return quick
    return Score(model) if uniforms is None else RandomisedScore(model, uniforms)


def colouring(model: Model, partial: bool = False) -> CausalMap:
    """The map z -> y under a model."""
    linear = gauss_markov(model)
    if linear is not None:
        return Pair(white(linear.dim), linear, partial)
    parts = innovations(model)
    if parts is None:
        own = _own_path(model)
        quick: CausalMap | None = None if own is None else own.colouring(model)
        return quick or Emit(model)
    recursion, law = parts
    each = ValueEach(law, model.dim)
    if recursion is None:
        return each
    return Chain(NothingMissing(model), each, Pair(white(model.dim), recursion))


def _own_path(model: Model) -> Any:
    """The module with a quicker path through whole sequences of this kind of model, if there is one."""
    for home, kind, path in (("hidden_markov", "HiddenMarkov", "hidden"), ("quantised", "Quantised", "rounded")):
        # a model of a kind whose module was never loaded is not of that kind
        loaded = sys.modules.get(f"understudy.models.{home}")
        if loaded is not None and isinstance(model, getattr(loaded, kind)):
            return importlib.import_module(f"understudy.transform.{path}")
    return None


def residuals(model: Model, recursion: GaussMarkov | None, Y: Array) -> Array:
    """The innovations of a whole sequence (T, d)."""
    for link in _to_innovations(model, recursion):
        _, Y = link.apply(link.start(), Y)
    return Y


def _to_innovations(model: Model, recursion: GaussMarkov | None) -> list[CausalMap]:
    if recursion is None:
        return []
    return [NothingMissing(model), Pair(recursion, white(model.dim))]


def of_sensor(causal: CausalMap, j: int) -> CausalMap:
    """The map for sensor j of several: the same, but with auxiliary uniforms of its own."""
    return causal.sensor(j) if hasattr(causal, "sensor") else causal


def apply_into(causal: CausalMap, state: Any, Y: Array, out: Array) -> tuple[Any, Array]:
    """A chunk (T, d), into an array of that shape, which may be Y."""
    if hasattr(causal, "apply_into"):
        state, made = causal.apply_into(state, Y, out)
    else:
        state, made = causal.apply(state, Y)
    return state, written(made, out)


def written(made: Array, out: Array) -> Array:
    """`out`, with what was made in it."""
    if made is not out:
        out[...] = made
    return out


def within(z: Any, limit: float | None) -> Any:
    """Scores, a float or an array, clipped at a public limit; NaN stays.

    >>> within(7.5, 6.0), within(7.5, None), within(np.array([-9.0, 1.0]), 6.0).tolist()
    (6.0, 7.5, [-6.0, 1.0])
    """
    if limit is None:
        return z
    return min(max(z, -limit), limit) if isinstance(z, float) else np.clip(z, -limit, limit)


class Chain:
    """One map after the other. With a `limit`, what the first one gives, scores, is clipped there."""

    def __init__(self, *maps: CausalMap, limit: float | None = None) -> None:
        self.maps, self.limit = maps, limit
        self.dim = maps[0].dim

    def sensor(self, j: int) -> Chain:
        """Each link for sensor j."""
        return Chain(*(of_sensor(link, j) for link in self.maps), limit=self.limit)

    def start(self) -> tuple[Any, ...]:
        """The states of all links."""
        return tuple(link.start() for link in self.maps)

    def step(self, state: tuple[Any, ...], y: Any) -> tuple[tuple[Any, ...], Any]:
        """Through all links."""
        after: list[Any] = []
        for link, part in zip(self.maps, self.checked(state), strict=True):
            part, y = link.step(part, y)
            if not after:
                y = within(y, self.limit)
            after.append(part)
        return tuple(after), y

    def fresh(self, state: tuple[Any, ...], z: Array) -> tuple[tuple[Any, ...], Array]:
        """One step in which all links but the last skip a reading, and the last is given the scores z (d,)."""
        *before, last = zip(self.maps, self.checked(state), strict=True)
        nothing = np.full((1, self.dim), np.nan)
        after = [link.apply(part, nothing)[0] for link, part in before]
        part, out = last[0].apply(last[1], z[None, :])
        return (*after, part), out[0]

    def apply(self, state: tuple[Any, ...], Y: Array) -> tuple[tuple[Any, ...], Array]:
        """Through all links."""
        return self._through(state, Y, None)

    def apply_into(self, state: tuple[Any, ...], Y: Array, out: Array) -> tuple[tuple[Any, ...], Array]:
        """The same, into an array of that shape, which may be Y."""
        return self._through(state, Y, out)

    def _through(self, state: tuple[Any, ...], Y: Array, out: Array | None) -> tuple[tuple[Any, ...], Array]:
        after: list[Any] = []
        given = Y
        for link, part in zip(self.maps, self.checked(state), strict=True):
            # what a link has made is there to be written over by the next
            room = out if Y is given else Y
            if room is not None and hasattr(link, "apply_into"):
                part, Y = link.apply_into(part, Y, room)
            else:
                part, Y = link.apply(part, Y)
            if not after:
                Y = within(Y, self.limit)
            after.append(part)
        return tuple(after), Y if out is None else written(Y, out)

    def checked(self, state: Any) -> Any:
        """The states of all links, if it has that many; it may have been through a file."""
        if not isinstance(state, (tuple, list)) or len(state) != len(self.maps):
            raise StateError(f"a state of this filter is a tuple of {len(self.maps)} parts")
        return state


class _Stepwise:
    """A map that is defined by what it does to one reading."""

    dim: int

    def step(self, state: Any, y: Any) -> tuple[Any, Any]:
        """One reading; None or NaN is missing and stays so."""
        row = one_reading(y, self.dim)
        if finite_or_missing(row)[0]:
            return self._skip(state), np.nan if self.dim == 1 else np.full(self.dim, np.nan)
        return self._guarded(0, state, row.item() if self.dim == 1 else row[0])

    def apply(self, state: Any, Y: Array) -> tuple[Any, Array]:
        """A chunk (T, d)."""
        missing = finite_or_missing(Y)
        out = np.full(Y.shape, np.nan)
        for k, row in enumerate(Y.ravel().tolist() if self.dim == 1 else Y):
            if missing[k]:
                state = self._skip(state)
            else:
                state, out[k] = self._guarded(k, state, row)
        return state, out

    def _guarded(self, k: int, state: Any, y: Any) -> tuple[Any, Any]:
        try:
            return self._one(state, y)
        except LawError:
            raise broken_law(k) from None  # its message holds the parameters, and they hold the past

    def _one(self, state: Any, y: Any) -> tuple[Any, Any]:
        raise TypeError("a map says what it does to one reading")

    def _skip(self, state: Any) -> Any:
        raise TypeError("a map says what it does to a missing reading")


def not_finite(row: int) -> NumericalError:
    """The error for a law that gives no finite number."""
    return NumericalError(f"row {row}: a law gave a score or a reading that is not finite")


def broken_law(row: int) -> NumericalError:
    """The error for a model whose next law breaks a rule, without the parameters that tell the past."""
    return NumericalError(
        f"row {row}: the model gives a law whose parameters break a rule (a variance not positive, say)"
    )


class Score(_Stepwise):
    """y -> z by the four methods of any model."""

    def __init__(self, model: Model) -> None:
        self.model, self.dim = model, model.dim

    def start(self) -> Any:
        """The model's own."""
        return self.model.start()

    def _one(self, state: Any, y: Any) -> tuple[Any, Any]:
        z = self.model.predict(state).score(y)
        return self.model.update(state, y), _as_reading(z, self.dim)

    def _skip(self, state: Any) -> Any:
        return self.model.skip(state)


class RandomisedScore(_Stepwise):
    """y -> z where readings have atoms: the state counts the readings, which tells their uniforms."""

    def __init__(self, model: Model, uniforms: Uniforms) -> None:
        self.model, self.dim, self.uniforms = model, model.dim, uniforms

    def sensor(self, j: int) -> RandomisedScore:
        """With uniforms of its own."""
        return RandomisedScore(self.model, self.uniforms.sensor(j))

    def start(self) -> tuple[int, Any]:
        """No reading yet, and the model's own."""
        return 0, self.model.start()

    def _one(self, state: Any, y: Any) -> tuple[Any, Any]:
        k, inner = counted(state)
        v = self.uniforms.at(k, self.dim)
        z = self.model.predict(inner).score(y, v.item() if self.dim == 1 else v)
        return (k + 1, self.model.update(inner, y)), _as_reading(z, self.dim)

    def _skip(self, state: Any) -> Any:
        k, inner = counted(state)
        return k + 1, self.model.skip(inner)


def counted(state: Any) -> tuple[int, Any]:
    """The parts of a state that counts readings."""
    if not isinstance(state, (tuple, list)) or len(state) != 2 or not isinstance(state[0], int):
        raise StateError("a state of this filter is a pair: number of readings so far, and the state of the model")
    return state[0], state[1]


class Emit(_Stepwise):
    """z -> y by the four methods of any model, or by its own `emit`."""

    def __init__(self, model: Model) -> None:
        self.model, self.dim = model, model.dim
        self._emit = getattr(model, "emit", None)

    def start(self) -> Any:
        """The model's own."""
        return self.model.start()

    def _one(self, state: Any, y: Any) -> tuple[Any, Any]:
        if self._emit is not None:
            state, value = self._emit(state, y)
            return state, _as_reading(value, self.dim)
        value = _as_reading(self.model.predict(state).value(y), self.dim)
        return self.model.update(state, value), value

    def _skip(self, state: Any) -> Any:
        return self.model.skip(state)


class _Each:
    """The same law for every reading, all readings of a chunk at once."""

    def __init__(self, law: Law, dim: int) -> None:
        self.law, self.dim = law, dim

    def start(self) -> tuple[int, ...]:
        """Nothing to remember."""
        return ()

    def step(self, state: tuple[int, ...], y: Any) -> tuple[tuple[int, ...], Any]:
        """One reading."""
        state, out = self.apply(state, one_reading(y, self.dim))
        return state, out.item() if self.dim == 1 else out[0]

    def apply(self, state: tuple[int, ...], Y: Array) -> tuple[tuple[int, ...], Array]:
        """A chunk (T, d)."""
        return state, self._all(Y, None)

    def _all(self, Y: Array, V: Array | None) -> Array:
        there = ~finite_or_missing(Y)
        out = np.full(Y.shape, np.nan)
        if there.any():
            readings, v = (None if rows is None else _channels(rows[there], self.dim) for rows in (Y, V))
            out[there] = np.reshape(self._map(readings, v), (self.dim, -1)).T
            if not np.isfinite(out[there]).all():
                raise not_finite(int(np.flatnonzero(there)[~np.isfinite(out[there]).all(axis=1)][0]))
        return out

    def _map(self, values: Any, v: Any) -> Any:
        raise TypeError("a map says what it does to the readings")


def _channels(rows: Array, dim: int) -> Array:
    return rows[:, 0] if dim == 1 else rows.T


class ScoreEach(_Each):
    """y -> z under one law; with atoms, the state counts the readings, which tells their uniforms."""

    def __init__(self, law: Law, dim: int, uniforms: Uniforms | None = None) -> None:
        super().__init__(law, dim)
        self.uniforms = uniforms

    def sensor(self, j: int) -> ScoreEach:
        """With uniforms of its own."""
        return self if self.uniforms is None else ScoreEach(self.law, self.dim, self.uniforms.sensor(j))

    def start(self) -> tuple[int, ...]:
        """Nothing to remember, or no reading yet."""
        return () if self.uniforms is None else (0,)

    def apply(self, state: tuple[int, ...], Y: Array) -> tuple[tuple[int, ...], Array]:
        """A chunk (T, d)."""
        if self.uniforms is None:
            return state, self._all(Y, None)
        after = self.passed(state, len(Y))
        return after, self._all(Y, self.uniforms.block(state[0], len(Y), self.dim))

    def passed(self, state: Any, count: int) -> tuple[int, ...]:
        """The state after so many readings, whatever they are."""
        if self.uniforms is None:
            return ()
        if not isinstance(state, (tuple, list)) or len(state) != 1 or not isinstance(state[0], int):
            raise StateError("a state of this filter is the number of readings so far")
        return (state[0] + count,)

    def _map(self, values: Any, v: Any) -> Any:
        return self.law.score(values) if v is None else self.law.score(values, v)


class ValueEach(_Each):
    """z -> y under one law."""

    def _map(self, values: Any, v: Any) -> Any:
        return self.law.value(values)


class NothingMissing:
    """Lets readings pass, and refuses a missing one where the model has no exact law across it."""

    def __init__(self, model: Model) -> None:
        self.model, self.dim = model, model.dim

    def start(self) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def step(self, state: tuple[()], y: Any) -> tuple[tuple[()], Any]:
        """One reading."""
        self.apply(state, one_reading(y, self.dim))
        return state, y

    def apply(self, state: tuple[()], Y: Array) -> tuple[tuple[()], Array]:
        """A chunk (T, d)."""
        missing = finite_or_missing(Y)
        if missing.any():
            try:
                self.model.skip(self.model.start())
            except MissingReadingError as error:
                raise MissingReadingError(f"row {int(missing.argmax())}: {error}") from None
        return state, Y


def _as_reading(value: Any, dim: int) -> Any:
    """What a law gave, as the float or the array (d,) that a reading is."""
    array = np.asarray(value, dtype=float)
    if array.size != dim:
        raise ReadingError(f"a law gave {array.size} numbers for a model of {dim} channels")
    if not np.isfinite(array).all():
        raise NumericalError("a law gave a score or a reading that is not finite")
    return array.item() if dim == 1 else array.reshape(dim)
