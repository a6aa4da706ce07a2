"""Theorem 1 of the paper (Section III-A): the causal map y -> ~y, one reading at a time.

Given Theta = theta and ~Theta = ~theta, reading k goes through the conditional c.d.f. under theta given the true past,
then through the inverse conditional c.d.f. under ~theta given the disguised past::

    u_k  = F_theta(y_k | y_1 .. y_{k-1})              whiten: the paper's feedforward
    ~y_k = F_~theta^-1(u_k | ~y_1 .. ~y_{k-1})        colour: the paper's feedback

The output has exactly the joint law of ~theta's model. Here a score z_k = Phi^-1(u_k), a standard normal, takes the
place of the uniform u_k: the same map, but it does not saturate in the tails.

Each half is a `CausalMap`, and `transformation` joins them: in one piece where both models are Gauss-Markov (Theorem 4,
`understudy.transform.kalman_pair`), otherwise as a `Chain` of a whitening and a colouring. Any model with the four
methods of `Model` gives both halves (`Score`, `Emit`); models whose readings are independent given a linear recursion
score all readings of a chunk at once (`ScoreEach`, `ValueEach`); hidden Markov and rounded models have chapters of
their own. `disguise`, `whiten`, `colour`, `sample` and `loglik` take whole sequences; `Transform` goes on where it
stopped. With a fresh share s, scores are mixed with fresh chance between the two halves (`FreshShare`).
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Numbers
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
from understudy.laws.multivariate import elementwise
from understudy.laws.uniforms import Uniforms, uniforms_from
from understudy.models.gauss_markov import GaussMarkov, gauss_markov, innovations
from understudy.models.model import Model, is_model, skip_many
from understudy.transform.kalman_pair import Pair, apply_sensors, start_sensors, white
from understudy.transform.readings import (
    CausalMap,
    Lattice,
    Reading,
    Resolution,
    State,
    Transformation,
    as_lattice,
    as_output,
    as_readings,
    deliver,
    finite_or_missing,
    one_reading,
    same_runs,
    warn_incomplete,
)

Randomness: TypeAlias = bytes | int | np.random.Generator | Uniforms | None
"""Where auxiliary uniforms come from: a key, a seed, a Generator; None asks the operating system."""
Step: TypeAlias = Callable[[State, Reading], tuple[State, Numbers]]
_NEAR = 128  # normals of a fresh share that are made at once, where readings come one by one

# Whole sequences ---------------------------------------------------------------------------------------


def disguise(
    Y: ArrayLike,
    source: Model,
    target: Model,
    rng: Randomness = None,
    *,
    partial: bool = False,
    out: Array | None = None,
    resolution: Resolution = None,
    fresh: float = 0.0,
) -> Array:
    """Readings of `source` turned into readings that have exactly the law of `target`.

    This is the exact map, for analysis. **Full doubles are not for release**: their low-order bits tell the source.

    Parameters
    ----------
    Y : array of shape (T,), (T, d) or (T, d, N)
        Readings: time, channel, sensor. NaN is a missing reading and stays missing.
    source, target : Model
        The model that the readings come from, and the one whose law they shall have.
    rng : bytes, int, Generator, optional
        Nothing here is random unless readings of the source have atoms (a grid), so that their scores need auxiliary
        uniforms, or there is a fresh share: from the operating system if this is None, or from a key (bytes), a seed
        or a Generator.
    partial : bool
        Use the channels that are there when some are missing (Gauss-Markov models).
    out : array, optional
        An array to write into: float64, in C order, of the shape of Y, and either Y itself or apart from it in memory.
        A path that cannot write there directly copies. After an error it may hold anything.
    resolution : float or sequence, optional
        A step, or one for each channel: rounds the output to a lattice (the filter goes on unrounded), as streams do
        by themselves with the lattice of their design.
    fresh : float
        The fresh share s, from 0 to 1: scores z become sqrt(1 - s^2) z + s w, with w fresh standard normals.

    Returns
    -------
    array of the shape of Y
        `out`, if that is given.

    Examples
    --------
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
    causal = transformation(source, target, partial, rng, fresh=fresh)
    lattice = None if resolution is None else as_lattice(resolution, causal.dim)
    return run(causal, Y, partial=partial, out=out, lattice=lattice)


def whiten(
    Y: ArrayLike, model: Model, rng: Randomness = None, *, partial: bool = False, out: Array | None = None
) -> Array:
    """Readings to scores: independent standard normals if the model is right.

    Where readings have atoms (a grid), scores need auxiliary uniforms: from the operating system if `rng`
    is None, or from a key (bytes), a seed or a Generator. `out` is an array to write into, as in `disguise`.

    >>> import understudy as us
    >>> us.whiten([1.0, 1.5], us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0))).tolist()
    [1.0, 1.0]
    """
    _check_model(model, partial)
    secret = None if rng is None else uniforms_from(rng)
    return run(whitening(with_key(model, secret), secret, partial), Y, partial=partial, out=out)


def colour(z: ArrayLike, model: Model, *, partial: bool = False, out: Array | None = None) -> Array:
    """Scores to readings: the inverse of `whiten`. `out` is an array to write into, as in `disguise`.

    >>> import understudy as us
    >>> us.colour([1.0, 1.0], us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0))).tolist()
    [1.0, 1.5]
    """
    _check_model(model, partial)
    return run(colouring(model, partial), z, "z", partial=partial, out=out)


def sample(model: Model, T: int, n: int = 1, rng: int | np.random.Generator | None = None) -> Array:
    """Draw n sequences of T readings: (T,) or (T, d) for n = 1, otherwise (T, d, n).

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


def loglik(Y: ArrayLike, model: Model, *, partial: bool = False) -> Any:
    """Log-likelihood of the readings that are there, in nats: a number, or one for each sensor (N,).

    >>> import understudy as us
    >>> us.loglik([0.0, 0.0], us.IID(us.Gaussian(0.0, 1.0)))
    -1.8378770664093453
    """
    _check_model(model, partial)
    readings = as_readings(Y, model.dim)
    warn_incomplete(readings, partial, stacklevel=3)
    linear = gauss_markov(model)
    if readings.ndim == 2:
        return _loglik_of_one(readings, model, linear, partial)
    pair = None if linear is None else Pair(linear, white(linear.dim), partial)
    table = None if pair is None else pair.source.gains
    if pair is not None and table is not None and table.frozen and np.isfinite(readings).all():
        z = start_sensors(pair, readings)
        # log p(y) = log phi(z) + log |dz / dy|
        scale = table.log_scale(len(z)) - 0.5 * readings[:, :, 0].size * math.log(2.0 * math.pi)
        return np.asarray(scale - 0.5 * np.square(z).sum(axis=(0, 1)))
    sensors = (np.ascontiguousarray(readings[:, :, j]) for j in range(readings.shape[2]))
    return np.array([_loglik_of_one(sensor, model, linear, partial) for sensor in sensors])


def _loglik_of_one(Y: Array, model: Model, linear: GaussMarkov | None, partial: bool) -> float:
    if linear is not None:
        z, scale = Pair(linear, white(linear.dim), partial).jacobians(Y)
        z = z[~np.isnan(z)]
        return float(np.log(scale).sum() - 0.5 * np.square(z).sum() - 0.5 * z.size * math.log(2.0 * math.pi))
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


def run(
    causal: CausalMap,
    Y: ArrayLike,
    name: str = "Y",
    partial: bool = False,
    out: Array | None = None,
    lattice: Lattice | None = None,
) -> Array:
    """A whole sequence, or many, from the start; the output has the shape of the input, or is `out`."""
    readings = as_readings(Y, causal.dim, name)
    into = None if out is None else as_output(out, Y, name)
    warn_incomplete(readings, partial)
    if readings.ndim == 2:
        room = None if into is None else into.reshape(readings.shape)
        if isinstance(causal, Pair):
            made = causal.advance(causal.start(), readings, room, lattice)[1]
        else:
            made = _on_lattice(lattice, causal.apply(causal.start(), readings, room)[1])
        return into if into is not None else made[:, 0] if np.ndim(Y) == 1 else made
    # sensors with gaps are done again from their readings, so these must not be written over on the way
    return deliver(_on_lattice(lattice, _start_each_sensor(causal, readings)), into)


def _start_each_sensor(causal: CausalMap, Y: Array) -> Array:
    """Sensors (T, d, N) from the start; where scores are mixed, link by link, for all of them together."""
    if isinstance(causal, Pair):
        return start_sensors(causal, Y)
    if isinstance(causal, FreshShare):  # each w belongs to its place in the array
        return causal.mixed(Y, causal.normals(0, len(Y), Y.shape[1] * Y.shape[2]).reshape(Y.shape))
    if not isinstance(causal, Chain) or not causal.mixes:
        return _apply_each_sensor(causal, [causal.start()] * Y.shape[2], Y)[1]
    for i, link in enumerate(causal.maps):
        Y = _start_each_sensor(link, Y)
        Y = np.asarray(clip_scores(Y, causal.limit)) if i == 0 else Y
    return Y


def _apply_each_sensor(causal: CausalMap, states: list[State], Y: Array) -> tuple[tuple[State, ...], Array]:
    """Sensors (T, d, N) one after the other, each with uniforms of its own."""
    pairs = [causal.sensor(j).apply(state, np.ascontiguousarray(Y[:, :, j])) for j, state in enumerate(states)]
    return tuple(state for state, _ in pairs), np.stack([out for _, out in pairs], axis=2)


def _on_lattice(lattice: Lattice | None, out: Array) -> Array:
    """Outputs (T,), (T, d) or (T, d, N), rounded where they stand."""
    if lattice is not None:
        wide = out[:, None] if out.ndim == 1 else out
        lattice.rounded(wide, wide)
    return out


# One reading after the other ----------------------------------------------------------------------------


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
    unrounded; streams do so by themselves. `fresh` is the fresh share, as in `disguise`; its chance is a function of
    `rng` and the number of the reading too.

    >>> import understudy as us
    >>> room = lambda people: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * people, mean0=100.0, cov0=1.0)
    >>> transform = us.Transform(source=room(1), target=room(0.6))
    >>> state = transform.start()
    >>> state, y_out = transform.step(state, 105.0)
    >>> round(y_out, 9)
    101.0
    """

    __slots__ = ("_given", "_map", "dim", "lattice", "partial", "step")

    step: Step

    def __init__(
        self,
        source: Model,
        target: Model,
        *,
        partial: bool = False,
        rng: Randomness = None,
        resolution: Resolution = None,
        fresh: float = 0.0,
    ) -> None:
        # made once: a copy must go on with the same uniforms
        rng = auxiliary(source, rng) if rng is None and not fresh else uniforms_from(rng)
        self._map: CausalMap = transformation(source, target, partial, rng, fresh=fresh)
        self._given = (source, target, partial, rng, resolution, fresh)
        self.dim: int = source.dim
        self.partial = partial
        self.lattice = None if resolution is None else as_lattice(resolution, self.dim)
        # The map's own step, so that a reading costs one call.
        plain = self._map.step if self.dim == 1 or partial else self._step
        self.step = plain if self.lattice is None else _rounded_step(plain, self.lattice)

    def __repr__(self) -> str:
        return f"Transform(dim={self.dim})"

    def __reduce__(
        self,
    ) -> tuple[Callable[..., Transform], tuple[Model, Model, bool, Uniforms | None, Resolution, float]]:
        return _transform, self._given

    def start(self, sensors: int | None = None) -> State:
        """State before the first reading; for `sensors` sensors, a tuple with one state each."""
        state = self._map.start()
        return state if sensors is None else (state,) * sensors

    def _step(self, state: State, y: Reading) -> tuple[State, Numbers]:
        row = one_reading(y, self.dim)
        warn_incomplete(row, self.partial, stacklevel=3)
        return self._map.step(state, row[0])

    def apply(self, state: State, Y: ArrayLike) -> tuple[State, Array]:
        """Disguise a chunk: (T,) for a scalar model, (T, d), or (T, d, N) with one state a sensor."""
        readings = as_readings(Y, self.dim)
        warn_incomplete(readings, self.partial, stacklevel=3)
        if readings.ndim == 2:
            state, out = self._map.apply(state, readings)
            return state, _on_lattice(self.lattice, out.reshape(np.shape(Y)))
        if not isinstance(state, (tuple, list)) or len(state) != readings.shape[2]:
            raise StateError(f"Y has {readings.shape[2]} sensors; their state is start({readings.shape[2]})")
        if isinstance(self._map, Pair):
            state, out = apply_sensors(self._map, tuple(state), readings)
        else:
            state, out = _apply_each_sensor(self._map, list(state), readings)
        return state, _on_lattice(self.lattice, out)


def _transform(
    source: Model, target: Model, partial: bool, rng: Randomness, resolution: Resolution = None, fresh: float = 0.0
) -> Transform:
    return Transform(source, target, partial=partial, rng=rng, resolution=resolution, fresh=fresh)


def _rounded_step(step: Step, lattice: Lattice) -> Step:
    def rounded(state: State, y: Reading) -> tuple[State, Numbers]:
        state, out = step(state, y)
        return state, lattice.one(out) if isinstance(out, float) else lattice.rounded(np.asarray(out)[None, :])[0]

    return rounded


# Which map a model has ----------------------------------------------------------------------------------


def transformation(
    source: Model, target: Model, partial: bool, rng: Randomness, limit: float | None = None, fresh: float = 0.0
) -> Transformation:
    """The map from readings of `source` to readings of `target`: one piece if both are Gauss-Markov, otherwise two.

    In two pieces, scores are clipped at `limit`, if there is one: a public change of the target. With a fresh share
    scores are mixed between the pieces, before they are clipped. All of it fresh (1) is any source: none is asked.
    """
    share = as_share(fresh)
    check_model_type("source", source)
    check_model_type("target", target)
    if source.dim != target.dim:
        raise ModelError(f"source has {source.dim} channels and target has {target.dim}; they must agree")
    linear, linear_target = gauss_markov(source), gauss_markov(target)
    both = linear is not None and linear_target is not None
    if linear is not None and linear_target is not None and not share:
        return Pair(linear, linear_target, partial)
    if partial and not both:
        raise ConfigurationError("partial=True needs Gauss-Markov models on both sides")
    secret = None if rng is None and not share else uniforms_from(rng)  # a Generator gives another key each time
    scores = whitening(white(source.dim) if share == 1.0 else with_key(source, secret), secret, partial)
    if share and secret is not None:
        scores = Chain(scores, FreshShare(share, secret, source.dim))
    return Chain(scores, colouring(with_key(target, secret), partial), limit=None if both else limit)


def whitening(model: Model, rng: Randomness = None, partial: bool = False) -> CausalMap:
    """The map y -> z under a model; `rng` (None, a key, a seed, a Generator) makes the auxiliary uniforms."""
    linear = gauss_markov(model)
    if linear is not None:
        return Pair(linear, white(linear.dim), partial)
    uniforms = auxiliary(model, rng)
    parts = innovations(model)
    if parts is not None:
        return Chain(*_to_innovations(model, parts[0]), ScoreEach(parts[1], model.dim, uniforms))
    chapter = _chapter(model)
    quick: CausalMap | None = None if chapter is None else chapter.whitening(model, uniforms)
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
        chapter = _chapter(model)
        quick: CausalMap | None = None if chapter is None else chapter.colouring(model)
        return quick or Emit(model)
    recursion, law = parts
    each = ValueEach(law, model.dim)
    if recursion is None:
        return each
    return Chain(NothingMissing(model), each, Pair(white(model.dim), recursion))


def _chapter(model: Model) -> ModuleType | None:
    """The module with a quicker path through whole sequences of this kind of model, if there is one."""
    for name, kind, chapter in _CHAPTERS:
        # a model of a kind whose module was never loaded is not of that kind
        loaded = sys.modules.get(f"understudy.models.{name}")
        inside = getattr(model, "model", None) if name == "adaptive" else None  # its chapter has grids as well
        if loaded is not None and isinstance(inside or model, getattr(loaded, kind)):
            return importlib.import_module(f"understudy.transform.{chapter}")
    return None


_CHAPTERS = (
    ("hidden_markov", "HiddenMarkov", "hidden_markov"),
    ("adaptive", "Adaptive", "adaptive"),
    ("quantised", "Quantised", "quantised"),
    ("quantised", "OnGrid", "on_grid"),
)


def residuals(model: Model, recursion: GaussMarkov | None, Y: Array) -> Array:
    """The innovations of a whole sequence (T, d)."""
    for link in _to_innovations(model, recursion):
        _, Y = link.apply(link.start(), Y)
    return Y


def _to_innovations(model: Model, recursion: GaussMarkov | None) -> list[CausalMap]:
    return [] if recursion is None else [NothingMissing(model), Pair(recursion, white(model.dim))]


def has_atoms(model: Model) -> bool:
    """Whether some reading of the model has a probability, so that its scores need auxiliary uniforms."""
    return bool(getattr(model, "atoms", False))


def auxiliary(model: Model, rng: Randomness) -> Uniforms | None:
    """The uniforms for a model's scores: none where it has no atoms; a model that does not say gets what is given."""
    if has_atoms(model) or (rng is not None and not hasattr(model, "atoms")):
        return uniforms_from(rng)
    return None


def with_key(model: Model, rng: Randomness) -> Model:
    """A model that computes with random numbers (particles), under the key that was given; others as they are."""
    if rng is None or not hasattr(model, "with_key"):
        return model
    return model.with_key(uniforms_from(rng).derive("particles"))  # type: ignore[no-any-return]  # a model, by its name


def check_model_type(role: str, model: Model) -> None:
    """Refuse what is not a model, naming what is missing."""
    if not isinstance(model, GaussMarkov) and not is_model(model):
        raise ModelError(f"{role} is of type {type(model).__name__}; a model has dim, start, predict, update and skip")


def _check_model(model: Model, partial: bool) -> None:
    check_model_type("model", model)
    if partial and gauss_markov(model) is None:
        raise ConfigurationError("partial=True needs a Gauss-Markov model")


# Chains -------------------------------------------------------------------------------------------------


def clip_scores(z: Numbers, limit: float | None) -> Numbers:
    """Scores, a float or an array, clipped at a public limit; NaN stays.

    >>> clip_scores(7.5, 6.0), clip_scores(7.5, None), clip_scores(np.array([-9.0, 1.0]), 6.0).tolist()
    (6.0, 7.5, [-6.0, 1.0])
    """
    if limit is None:
        return z
    return min(max(z, -limit), limit) if isinstance(z, float) else np.clip(z, -limit, limit)


class Chain(Transformation):
    """One map after the other. With a `limit`, what the first one gives, scores, is clipped there."""

    def __init__(self, *maps: CausalMap, limit: float | None = None) -> None:
        self.maps, self.limit = maps, limit
        self.dim = maps[0].dim

    @property
    def mixes(self) -> bool:
        """Whether scores are mixed with fresh chance somewhere in it."""
        return any(isinstance(link, FreshShare) or (isinstance(link, Chain) and link.mixes) for link in self.maps)

    def sensor(self, j: int) -> Chain:
        """Each link for sensor j."""
        return Chain(*(link.sensor(j) for link in self.maps), limit=self.limit)

    def start(self) -> State:
        """The states of all links."""
        return tuple(link.start() for link in self.maps)

    def step(self, state: State, y: Reading) -> tuple[State, Numbers]:
        """Through all links."""
        after: list[State] = []
        z: Reading = y
        if len(self.maps) == 2 and type(state) is tuple and len(state) == 2:  # the usual case, in a third of the time
            (first, second), (one, other) = self.maps, state
            one, scores = first.step(one, y)
            other, out = second.step(other, scores if self.limit is None else clip_scores(scores, self.limit))
            return (one, other), out
        for link, part in zip(self.maps, self.checked(state), strict=True):
            part, z = link.step(part, z)
            if not after:
                z = clip_scores(z, self.limit)
            after.append(part)
        return tuple(after), z  # type: ignore[return-value]  # there is a link, and what it gave is no None

    def fresh(self, state: State, z: Array) -> tuple[State, Array]:
        """Steps in which all links but the last skip readings, and the last is given the scores z (T, d)."""
        *before, last = zip(self.maps, self.checked(state), strict=True)
        nothing = np.full(z.shape, np.nan)
        after = [link.apply(part, nothing)[0] for link, part in before]
        part, out = last[0].apply(last[1], z)
        return (*after, part), out

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """Through all links."""
        after: list[State] = []
        made, room = Y, out
        for link, part in zip(self.maps, self.checked(state), strict=True):
            part, made = link.apply(part, made, room)
            if not after and self.limit is not None:
                made = np.clip(made, -self.limit, self.limit)
            room = out if made is Y else made  # what a link has made is there to be written over by the next
            after.append(part)
        return tuple(after), deliver(made, out)

    def leap(self, state: State, count: int) -> State | None:
        """The state after so many missing readings, if each link knows a leap."""
        after = [link.leap(part, count) for link, part in zip(self.maps, self.checked(state), strict=True)]
        return None if any(part is None for part in after) else tuple(after)

    def checked(self, state: State) -> State:
        """The states of all links, if it has that many; it may have been through a file."""
        if not isinstance(state, (tuple, list)) or len(state) != len(self.maps):
            raise StateError(f"a state of this filter is a tuple of {len(self.maps)} parts")
        return state


# The fresh share ----------------------------------------------------------------------------------------


def as_share(fresh: float) -> float:
    """A fresh share, from 0 to 1; refuses what is none.

    >>> as_share(1), as_share(0.0)
    (1.0, 0.0)
    """
    number = isinstance(fresh, (int, float, np.integer, np.floating)) and not isinstance(fresh, bool)
    if not number or not 0.0 <= fresh <= 1.0:
        raise ConfigurationError(f"fresh = {fresh!r}; it must be a share, from 0 to 1")
    return float(fresh)


class FreshShare(CausalMap):
    """Scores mixed with fresh chance: z -> sqrt(1 - s^2) z + s w, w independent standard normals.

    Standard normals stay standard normals. Each w belongs to the number of a reading, missing ones counted, and to a
    channel: it follows from the key, so that a replay, a restart and chunks agree, and no two readings share one. The
    state is the number of readings so far.

    >>> share = FreshShare(0.6, Uniforms(b"a key of 32 bytes from a good place"), 1)
    >>> z = np.array([[1.0], [np.nan], [0.5]])
    >>> state, out = share.apply(share.start(), z)
    >>> bool((out[2:] == share.apply((2,), z[2:])[1]).all()), state
    (True, (3,))
    """

    def __init__(self, share: float, secret: Uniforms, dim: int) -> None:
        self.share, self.rest, self.dim = share, math.sqrt((1.0 - share) * (1.0 + share)), dim
        self._secret = secret
        self._uniforms = type(secret)(secret.derive("fresh share"))
        self._near: tuple[int, list[float]] = (0, [])  # normals from a number on, for one reading after the other

    def sensor(self, j: int) -> FreshShare:
        """With chance of its own."""
        return FreshShare(self.share, self._secret.sensor(j), self.dim)

    def start(self) -> State:
        """No reading yet."""
        return (0,)

    def normals(self, first: int, count: int, width: int | None = None) -> Array:
        """The w of so many readings, (T, d); of many sensors together with their `width`, d for each."""
        from scipy.special import ndtri

        v = self._uniforms.block(first, count, width or self.dim)
        return np.asarray(ndtri(v, out=v))

    def mixed(self, z: Array, w: Array) -> Array:
        """sqrt(1 - s^2) z + s w; a missing score stays missing."""
        return np.asarray(self.rest * z + self.share * w)

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d)."""
        k = self._count(state)
        return (k + len(Y),), deliver(self.mixed(Y, self.normals(k, len(Y))), out)

    def step(self, state: State, y: Reading) -> tuple[State, Numbers]:
        """One score."""
        if type(y) is not float or self.dim > 1:
            return super().step(state, y)
        k, (first, near) = self._count(state), self._near
        if not 0 <= k - first < len(near):
            first, near = self._near = k, self.normals(k, _NEAR).ravel().tolist()
        return (k + 1,), self.rest * y + self.share * near[k - first]

    def leap(self, state: State, count: int) -> State:
        """The number goes on."""
        return (self._count(state) + count,)

    def _count(self, state: State) -> int:
        if not isinstance(state, (tuple, list)) or len(state) != 1 or type(state[0]) is not int or state[0] < 0:
            raise StateError("a state of this filter is the number of readings so far")
        return state[0]


# Any model, by its four methods -------------------------------------------------------------------------


class _Stepwise(CausalMap):
    """A map that is defined by what it does to one reading."""

    def __init__(self, model: Model) -> None:
        self.model, self.dim = model, model.dim

    def start(self) -> State:
        """The model's own."""
        return self.model.start()  # type: ignore[no-any-return]  # whatever it is

    def step(self, state: State, y: Reading) -> tuple[State, Numbers]:
        """One reading; None or NaN is missing and stays so."""
        row = one_reading(y, self.dim)
        if finite_or_missing(row)[0]:
            return self._skip(state, 1), np.nan if self.dim == 1 else np.full(self.dim, np.nan)
        return self._guarded(0, state, row.item() if self.dim == 1 else row[0])

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d)."""
        missing = finite_or_missing(Y)
        made = np.full(Y.shape, np.nan)
        rows = Y.ravel().tolist() if self.dim == 1 else Y
        for start, stop in same_runs(missing):
            if missing[start]:
                state = self._skip(state, stop - start)
                continue
            for k in range(start, stop):
                state, made[k] = self._guarded(k, state, rows[k])
        return state, deliver(made, out)

    def _guarded(self, k: int, state: State, y: Numbers) -> tuple[State, Numbers]:
        try:
            return self._one(state, y)
        except LawError:
            raise broken_law(k) from None  # its message holds the parameters, and they hold the past

    def _one(self, state: State, y: Numbers) -> tuple[State, Numbers]:
        raise NotImplementedError  # each subclass has its own

    def _skip(self, state: State, count: int) -> State:
        return skip_many(self.model, state, count)


class Score(_Stepwise):
    """y -> z by the four methods of any model."""

    def _one(self, state: State, y: Numbers) -> tuple[State, Numbers]:
        # z_k = Phi^-1(F(y_k | y_1 .. y_{k-1}))
        z = self.model.predict(state).score(y)
        return self.model.update(state, y), _as_reading(z, self.dim)


class RandomisedScore(_Stepwise):
    """y -> z where readings have atoms: the state counts the readings, which tells their uniforms."""

    def __init__(self, model: Model, uniforms: Uniforms) -> None:
        super().__init__(model)
        self.uniforms = uniforms

    def sensor(self, j: int) -> RandomisedScore:
        """With uniforms of its own."""
        return RandomisedScore(self.model, self.uniforms.sensor(j))

    def start(self) -> State:
        """No reading yet, and the model's own."""
        return 0, self.model.start()

    def _one(self, state: State, y: Numbers) -> tuple[State, Numbers]:
        k, inner = split_count(state)
        v = self.uniforms.at(k, self.dim)
        z = self.model.predict(inner).score(y, v.item() if self.dim == 1 else v)
        return (k + 1, self.model.update(inner, y)), _as_reading(z, self.dim)

    def _skip(self, state: State, count: int) -> State:
        k, inner = split_count(state)
        return k + count, skip_many(self.model, inner, count)


def split_count(state: State) -> tuple[int, State]:
    """The parts of a state that counts readings."""
    if not isinstance(state, (tuple, list)) or len(state) != 2 or not isinstance(state[0], int):
        raise StateError("a state of this filter is a pair: number of readings so far, and the state of the model")
    return state[0], state[1]


class Emit(_Stepwise):
    """z -> y by the four methods of any model, or by its own `emit`."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._emit = getattr(model, "emit", None)

    def _one(self, state: State, y: Numbers) -> tuple[State, Numbers]:
        if self._emit is not None:
            state, value = self._emit(state, y)
            return state, _as_reading(value, self.dim)
        # y_k = F^-1(Phi(z_k) | y_1 .. y_{k-1})
        value = _as_reading(self.model.predict(state).value(y), self.dim)
        return self.model.update(state, value), value


def _as_reading(value: ArrayLike, dim: int) -> Numbers:
    """What a law gave, as the float or the array (d,) that a reading is."""
    array = np.asarray(value, dtype=float)
    if array.size != dim:
        raise ReadingError(f"a law gave {array.size} numbers for a model of {dim} channels")
    if not np.isfinite(array).all():
        raise NumericalError("a law gave a score or a reading that is not finite")
    return array.item() if dim == 1 else array.reshape(dim)


def broken_law(row: int) -> NumericalError:
    """The error for a model whose next law breaks a rule, without the parameters that tell the past."""
    return NumericalError("the model gives a law whose parameters break a rule (a variance not positive, say)", row)


# The same law for every reading, all readings of a chunk at once ----------------------------------------


class _Each(CausalMap):
    def __init__(self, law: Law, dim: int) -> None:
        known = elementwise(law)
        self.law, self.dim, self.is_elementwise = known or law, dim, known is not None

    def start(self) -> State:
        """Nothing to remember."""
        return ()

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d)."""
        return state, deliver(self.each(Y, None), out)

    def each(self, Y: Array, V: Array | None) -> Array:
        """Readings (T, d), with uniforms where there are any."""
        there = ~finite_or_missing(Y)
        out = np.full(Y.shape, np.nan)
        if there.any():
            # a law takes (N,) for one channel, (d, N) for more
            y, v = (None if rows is None else rows[there].T for rows in (Y, V))
            if self.dim == 1:
                y, v = (None if rows is None else rows[0] for rows in (y, v))
            out[there] = np.reshape(self._map(y, v), (self.dim, -1)).T  # type: ignore[arg-type]  # y is there
            lost = there & ~np.isfinite(out).all(axis=1)
            if lost.any():
                raise NumericalError("a law gave a score or a reading that is not finite", int(lost.argmax()))
        return out

    def _map(self, values: Array, v: Array | None) -> Array:
        raise NotImplementedError  # each subclass has its own


class ScoreEach(_Each):
    """y -> z under one law; with atoms, the state counts the readings, which tells their uniforms."""

    def __init__(self, law: Law, dim: int, uniforms: Uniforms | None = None) -> None:
        super().__init__(law, dim)
        self.uniforms = uniforms

    def sensor(self, j: int) -> ScoreEach:
        """With uniforms of its own."""
        return self if self.uniforms is None else ScoreEach(self.law, self.dim, self.uniforms.sensor(j))

    def start(self) -> State:
        """Nothing to remember, or no reading yet."""
        return () if self.uniforms is None else (0,)

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d)."""
        after = self.passed(state, len(Y))
        V = None if self.uniforms is None else self.uniforms.block(state[0], len(Y), self.dim)
        return after, deliver(self.each(Y, V), out)

    def passed(self, state: State, count: int) -> State:
        """The state after so many readings, whatever they are."""
        if self.uniforms is None:
            return ()
        if not isinstance(state, (tuple, list)) or len(state) != 1 or not isinstance(state[0], int):
            raise StateError("a state of this filter is the number of readings so far")
        return (state[0] + count,)

    def _map(self, values: Array, v: Array | None) -> Array:
        return np.asarray(self.law.score(values) if v is None else self.law.score(values, v))


class ValueEach(_Each):
    """z -> y under one law."""

    def _map(self, values: Array, v: Array | None) -> Array:
        return np.asarray(self.law.value(values))


class NothingMissing(CausalMap):
    """Lets readings pass, and refuses a missing one where the model has no exact law across it."""

    def __init__(self, model: Model) -> None:
        self.model, self.dim = model, model.dim

    def start(self) -> State:
        """Nothing to remember."""
        return ()

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d)."""
        missing = finite_or_missing(Y)
        if missing.any():
            try:
                self.model.skip(self.model.start())
            except MissingReadingError as error:
                raise MissingReadingError(f"row {int(missing.argmax())}: {error}") from None
        return state, Y
