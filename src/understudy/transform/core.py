"""The transformation itself (paper, Section III-A, Theorem 1): y -> ~y, causal, one reading at a time.

Given Theta = theta and ~Theta = ~theta, reading k goes through the conditional c.d.f. under theta
given the true past, then through the inverse conditional c.d.f. under ~theta given the disguised
past. The output has exactly the joint law of ~theta's model.

Causal maps: readings in, readings out, one at a time or in chunks, with the state in your hand.

A transformation is a chain of such maps: whiten under the source, then colour under the target
(the paper's feedforward and feedback). Any model with the four methods of `Model` gives both.

An array that the caller gives for the output, checked at the door: what numpy calls `out`.

Whiten, colour, sample, log-likelihood: all of them from the same four methods of a model.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from understudy._types import Array, Frozen
from understudy.errors import (
    ConfigurationError,
    LawError,
    MissingReadingError,
    ModelError,
    NumericalError,
    ReadingError,
    StateError,
)
from understudy.laws.law import Law
from understudy.laws.uniforms import Uniforms, uniforms_from
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.model import Model, is_model
from understudy.transform.kalman_pair import Pair, apply_sensors, start_sensors, white
from understudy.transform.lattice import Lattice, as_lattice
from understudy.transform.readings import as_readings, finite_or_missing, one_reading, warn_incomplete

# Causal maps: readings in, readings out, one at a time or in chunks, with the state in your hand -----


State: TypeAlias = tuple[Any, ...]
"""What a map carries from reading to reading: a tuple of numbers, arrays and further tuples, or what a model of one's
own carries."""
Reading: TypeAlias = float | Array | None
"""One reading: a number, an array (d,), or None where it is missing."""


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


def with_key(model: Model, rng: Any) -> Model:
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
    for home, kind, path in (
        ("hidden_markov", "HiddenMarkov", "hidden_markov"),
        ("quantised", "Quantised", "quantised"),
    ):
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


# An array that the caller gives for the output, checked at the door: what numpy calls `out` ----------


def as_output(out: Any, Y: Any, name: str = "Y") -> Array:
    """The array `out`, if results for `Y` can be written into it.

    >>> import numpy as np
    >>> as_output(np.empty(3), [1.0, 2.0, 3.0]).shape
    (3,)
    >>> as_output(np.empty(2), [1.0, 2.0, 3.0])
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: out has shape (2,); it must have that of Y, (3,)
    """
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise ConfigurationError(f"out is of type {type(out).__name__}; it must be a numpy array")
    if out.shape != np.shape(Y):
        raise ConfigurationError(f"out has shape {out.shape}; it must have that of {name}, {np.shape(Y)}")
    if out.dtype != np.float64:
        raise ConfigurationError(f"out is of type {out.dtype}; it must be float64, in the machine's byte order")
    if not out.flags.c_contiguous:
        raise ConfigurationError("out is not contiguous; it must be an array in C order, such as numpy.empty gives")
    if not out.flags.writeable:
        raise ConfigurationError("out is read-only; it must be an array that can be written to")
    if isinstance(Y, np.ndarray) and np.may_share_memory(out, Y) and not _same(out, Y):
        raise ConfigurationError(f"out shares a part of its memory with {name}; it must be all of {name} or none of it")
    return out


def _same(out: Array, Y: Any) -> bool:
    """Whether both are the same numbers in the same places."""
    same: bool = Y.dtype == out.dtype and Y.flags.c_contiguous and Y.ctypes.data == out.ctypes.data
    return same


# The transformation itself (paper, Section III-A, Theorem 1): y -> ~y, causal, one reading at a time ---


class Transform(Frozen):
    """The causal map from readings of `source` to readings of `target`.

    A value: it holds no state. `start` gives the state before the first reading, `step` takes one
    reading, `apply` a chunk; both return the new state, and agree bit for bit.

    `partial=True` (Gauss-Markov models) uses the channels that are there when some are missing.
    Where readings of the source have atoms (a grid), scores need auxiliary uniforms, which are a function
    of `rng` and the number of the reading: by default of a fresh key from the operating system. To go on
    with a stored state, give the same key (bytes) again; a seed or a Generator is for simulation.

    This is the exact map, for analysis. **Its full doubles are not for release**: their low-order bits tell the source.
    With `resolution`, a step or one for each channel, outputs are rounded to that lattice, and the state goes on
    unrounded; streams do so by themselves.

    >>> import understudy as us
    >>> room = lambda people: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * people, mean0=100.0, cov0=1.0)
    >>> transform = us.Transform(source=room(1), target=room(0.6))
    >>> state = transform.start()
    >>> state, y_out = transform.step(state, 105.0)
    >>> round(y_out, 9)
    101.0
    """

    __slots__ = ("_given", "_map", "dim", "lattice", "partial", "step")

    step: Callable[[Any, Any], tuple[Any, Any]]

    def __init__(
        self,
        source: Model,
        target: Model,
        *,
        partial: bool = False,
        rng: Any = None,
        resolution: Any = None,
    ) -> None:
        # made once: a copy must go on with the same uniforms
        rng = auxiliary(source, rng) if rng is None else uniforms_from(rng)
        self._map: CausalMap = transformation(source, target, partial, rng)
        self._given = (source, target, partial, rng, resolution)
        self.dim: int = source.dim
        self.partial = partial
        self.lattice = None if resolution is None else as_lattice(resolution, self.dim)
        # The map's own step, so that a reading costs one call.
        plain = self._map.step if self.dim == 1 or partial else self._step
        self.step = plain if self.lattice is None else self._rounded_step(plain, self.lattice)

    def __repr__(self) -> str:
        return f"Transform(dim={self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _transform, self._given

    def start(self, sensors: int | None = None) -> Any:
        """State before the first reading; for `sensors` sensors, a tuple with one state each."""
        state = self._map.start()
        return state if sensors is None else (state,) * sensors

    def _step(self, state: Any, y: Any) -> tuple[Any, Any]:
        row = one_reading(y, self.dim)
        warn_incomplete(row, self.partial, stacklevel=3)
        return self._map.step(state, row[0])

    def _rounded_step(self, step: Callable[[Any, Any], tuple[Any, Any]], lattice: Lattice) -> Any:
        def rounded(state: Any, y: Any) -> tuple[Any, Any]:
            state, out = step(state, y)
            return state, lattice.one(out) if self.dim == 1 else lattice.rounded(np.asarray(out)[None, :])[0]

        return rounded

    def apply(self, state: Any, Y: Any) -> tuple[Any, Array]:
        """Disguise a chunk: (T,) for a scalar model, (T, d), or (T, d, N) with one state a sensor."""
        state, out = self._apply(state, Y)
        return state, out if self.lattice is None else _on_lattice(self.lattice, out)

    def _apply(self, state: Any, Y: Any) -> tuple[Any, Array]:
        readings = as_readings(Y, self.dim)
        warn_incomplete(readings, self.partial, stacklevel=3)
        if readings.ndim == 3:
            if not isinstance(state, (tuple, list)) or len(state) != readings.shape[2]:
                raise StateError(f"Y has {readings.shape[2]} sensors; their state is start({readings.shape[2]})")
            if isinstance(self._map, Pair):
                return apply_sensors(self._map, tuple(state), readings)
            pairs = [
                of_sensor(self._map, j).apply(s, np.ascontiguousarray(readings[:, :, j])) for j, s in enumerate(state)
            ]
            return tuple(s for s, _ in pairs), np.stack([out for _, out in pairs], axis=2)
        state, out = self._map.apply(state, readings)
        return state, out.reshape(np.shape(Y))


def transformation(source: Model, target: Model, partial: bool, rng: Any, limit: float | None = None) -> Transformation:
    """The map from readings of `source` to readings of `target`: one piece if both are Gauss-Markov, else two.

    In two pieces, scores are clipped at `limit`, if there is one: a public change of the target.
    """
    check_model_type("source", source)
    check_model_type("target", target)
    if source.dim != target.dim:
        raise ModelError(f"source has {source.dim} channels and target has {target.dim}; they must agree")
    linear, linear_target = gauss_markov(source), gauss_markov(target)
    if linear is not None and linear_target is not None:
        return Pair(linear, linear_target, partial)
    if partial:
        raise ConfigurationError("partial=True needs Gauss-Markov models on both sides")
    secret = None if rng is None else uniforms_from(rng)  # a Generator gives another key each time
    return Chain(whitening(with_key(source, secret), secret), colouring(with_key(target, secret)), limit=limit)


def _transform(source: Model, target: Model, partial: bool, rng: Any, resolution: Any = None) -> Transform:
    return Transform(source, target, partial=partial, rng=rng, resolution=resolution)


def _on_lattice(lattice: Lattice, out: Array) -> Array:
    """Outputs (T,), (T, d) or (T, d, N), rounded where they stand."""
    wide = out[:, None] if out.ndim == 1 else out
    lattice.rounded(wide, wide)
    return out


def check_model_type(role: str, model: Any) -> None:
    """Refuse what is not a model, naming what is missing."""
    if not isinstance(model, GaussMarkov) and not is_model(model):
        raise ModelError(f"{role} is of type {type(model).__name__}; a model has dim, start, predict, update and skip")


def run(
    causal: CausalMap,
    Y: Any,
    name: str = "Y",
    partial: bool = False,
    out: Any = None,
    lattice: Lattice | None = None,
) -> Array:
    """A whole sequence, or many, from the start; the output has the shape of the input, or is `out`."""
    readings = as_readings(Y, causal.dim, name)
    there = None if out is None else as_output(out, Y, name)
    warn_incomplete(readings, partial)
    if readings.ndim == 2:
        made = _run_one(causal, readings, None if there is None else there.reshape(readings.shape), lattice)
        return there if there is not None else made[:, 0] if np.ndim(Y) == 1 else made
    if isinstance(causal, Pair):
        # sensors with gaps are done again from their readings, so these must not be written over on the way
        made = start_sensors(causal, readings)
    else:
        sensors = [
            of_sensor(causal, j).apply(causal.start(), np.ascontiguousarray(readings[:, :, j]))[1]
            for j in range(readings.shape[2])
        ]
        made = np.stack(sensors, axis=2)
    if lattice is not None:
        _on_lattice(lattice, made)
    return made if there is None else written(made, there)


def _run_one(causal: CausalMap, readings: Array, out: Array | None, lattice: Lattice | None) -> Array:
    """One sequence (T, d)."""
    if isinstance(causal, Pair):
        return causal.advance(causal.start(), readings, out, lattice)[1]
    if out is None:
        made = causal.apply(causal.start(), readings)[1]
    else:
        made = apply_into(causal, causal.start(), readings, out)[1]
    return made if lattice is None else _on_lattice(lattice, made)


def disguise(
    Y: Any,
    source: Model,
    target: Model,
    rng: Any = None,
    *,
    partial: bool = False,
    out: Any = None,
    resolution: Any = None,
) -> Array:
    """Readings of `source` turned into readings that have exactly the law of `target`.

    Time comes first: (T,) for a scalar model, (T, d), or (T, d, N) = time, channel, sensor. NaN is a
    missing reading and stays missing. Nothing here is random unless readings of the source have atoms
    (a grid): their scores need auxiliary uniforms, from the operating system if `rng` is None, or from a
    key (bytes), a seed or a Generator.

    `out` is an array to write into: float64, in C order, of the shape of Y, and either Y itself or apart from it in
    memory. It is returned. A path that cannot write there directly copies. After an error it may hold anything.

    This is the exact map, for analysis. **Full doubles are not for release**: their low-order bits tell the source.
    `resolution`, a step or one for each channel, rounds the output to a lattice (the filter goes on unrounded), as
    streams do by themselves with the lattice of their design.

    >>> import understudy as us
    >>> room = lambda people: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * people, mean0=100.0, cov0=1.0)
    >>> us.disguise([105.0, 109.75], source=room(1), target=room(0.6)).round(6).tolist()
    [101.0, 101.95]
    >>> Y = np.array([105.0, 109.75])
    >>> us.disguise(Y, room(1), room(0.6), out=Y) is Y, Y.round(6).tolist()
    (True, [101.0, 101.95])
    >>> us.disguise([105.0, 109.75], room(1), room(0.6), resolution=0.25).tolist()
    [101.0, 102.0]
    """
    causal = transformation(source, target, partial, rng)
    lattice = None if resolution is None else as_lattice(resolution, causal.dim)
    return run(causal, Y, partial=partial, out=out, lattice=lattice)


# Whiten, colour, sample, log-likelihood: all of them from the same four methods of a model -----------


def whiten(Y: Any, model: Model, rng: Any = None, *, partial: bool = False, out: Any = None) -> Array:
    """Readings to scores: independent standard normals if the model is right.

    Where readings have atoms (a grid), scores need auxiliary uniforms: from the operating system if `rng`
    is None, or from a key (bytes), a seed or a Generator. `out` is an array to write into, as in `disguise`.

    >>> import understudy as us
    >>> us.whiten([1.0, 1.5], us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0))).tolist()
    [1.0, 1.0]
    """
    _check(model, partial)
    secret = None if rng is None else uniforms_from(rng)
    return run(whitening(with_key(model, secret), secret, partial), Y, partial=partial, out=out)


def colour(z: Any, model: Model, *, partial: bool = False, out: Any = None) -> Array:
    """Scores to readings: the inverse of `whiten`. `out` is an array to write into, as in `disguise`.

    >>> import understudy as us
    >>> us.colour([1.0, 1.0], us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0))).tolist()
    [1.0, 1.5]
    """
    _check(model, partial)
    return run(colouring(model, partial), z, "z", partial=partial, out=out)


def sample(model: Model, T: int, n: int = 1, rng: Any = None) -> Array:
    """Draw n sequences of T readings: (T,) or (T, d) for n = 1, else (T, d, n).

    `rng` is a numpy Generator or a seed.

    >>> import understudy as us
    >>> us.sample(us.IID(us.Gaussian(0.0, 1.0)), T=3, n=5, rng=1).shape
    (3, 1, 5)
    """
    check_model_type("model", model)
    for name, count in (("T", T), ("n", n)):
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or count < 1:
            raise ConfigurationError(f"{name} = {count!r}; it must be a whole number of at least 1")
    z = np.random.default_rng(rng).standard_normal((T, model.dim, n))
    if n > 1:
        return colour(z, model)
    return colour(z[:, 0, 0] if model.dim == 1 else z[:, :, 0], model)


def loglik(Y: Any, model: Model, *, partial: bool = False) -> Any:
    """Log-likelihood of the readings that are there, in nats: a number, or one for each sensor.

    >>> import understudy as us
    >>> us.loglik([0.0, 0.0], us.IID(us.Gaussian(0.0, 1.0)))
    -1.8378770664093453
    """
    _check(model, partial)
    readings = as_readings(Y, model.dim)
    warn_incomplete(readings, partial, stacklevel=3)
    linear = gauss_markov(model)
    if readings.ndim == 2:
        return _one(readings, model, linear, partial)
    pair = None if linear is None else Pair(linear, white(linear.dim), partial)
    table = None if pair is None else pair.source.gains
    if pair is not None and table is not None and table.frozen and np.isfinite(readings).all():
        z = start_sensors(pair, readings)
        return _gaussian(np.square(z).sum(axis=(0, 1)), readings[:, :, 0].size) + table.log_scale(len(z))
    return np.array(
        [_one(np.ascontiguousarray(readings[:, :, j]), model, linear, partial) for j in range(readings.shape[2])]
    )


def _one(Y: Array, model: Model, linear: GaussMarkov | None, partial: bool) -> float:
    if linear is not None:
        z, scale = Pair(linear, white(linear.dim), partial).jacobians(Y)
        there = ~np.isnan(z)
        return float(_gaussian(np.square(z[there]).sum(), int(there.sum())) + np.log(scale).sum())
    parts = innovations(model)
    if parts is not None:
        E = residuals(model, parts[0], Y)
        rows = E[~finite_or_missing(E)]
        return float(np.sum(parts[1].logpdf(rows[:, 0] if model.dim == 1 else rows.T)))
    missing = finite_or_missing(Y)
    state, total = model.start(), 0.0
    for k, row in enumerate(Y.ravel().tolist() if model.dim == 1 else Y):
        if missing[k]:
            state = model.skip(state)
        else:
            try:
                total += float(model.predict(state).logpdf(row))
                state = model.update(state, row)
            except LawError:
                raise broken_law(k) from None
    return total


def _gaussian(squares: Any, count: int) -> Any:
    """Log-density of `count` standard normals whose squares sum to `squares`."""
    return -0.5 * squares - 0.5 * count * math.log(2.0 * math.pi)


def _check(model: Any, partial: bool) -> None:
    check_model_type("model", model)
    if partial and gauss_markov(model) is None:
        raise ConfigurationError("partial=True needs a Gauss-Markov model")
