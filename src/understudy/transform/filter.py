"""The transformation itself (paper, Section III-A, Theorem 1): y -> ~y, causal, one reading at a time.

Given Theta = theta and ~Theta = ~theta, reading k goes through the conditional c.d.f. under theta
given the true past, then through the inverse conditional c.d.f. under ~theta given the disguised
past. The output has exactly the joint law of ~theta's model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from understudy.errors import ConfigurationError, ModelError, StateError
from understudy.laws.base import Array, Frozen
from understudy.laws.uniforms import uniforms_from
from understudy.models.base import Model, is_model
from understudy.models.gauss_markov import GaussMarkov
from understudy.transform.lattice import Lattice, as_lattice
from understudy.transform.maps import (
    CausalMap,
    Chain,
    Transformation,
    apply_into,
    auxiliary,
    colouring,
    gauss_markov,
    keyed,
    of_sensor,
    whitening,
    written,
)
from understudy.transform.output import as_output
from understudy.transform.pair import Pair
from understudy.transform.readings import as_readings, one_reading, warn_incomplete
from understudy.transform.sensors import apply_sensors, start_sensors


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
    return Chain(whitening(keyed(source, secret), secret), colouring(keyed(target, secret)), limit=limit)


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
