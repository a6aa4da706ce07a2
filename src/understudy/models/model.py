"""What a model is: the law of a whole measurement sequence, as a causal recursion.

Sampling, likelihood, whitening, colouring and every check derive from the four methods below, so a
class of your own that has them works everywhere. States are values: `update` and `skip` return a
new one and leave the old one alone.

A reading of a model with ``dim == 1`` is a float; with ``dim > 1`` it is an array ``(dim,)``.

`Residual` is what an approximate source model gives away beyond the randomizer. If the model of theta_i is not
exactly the law of its readings, the scores are not exactly white, and

    I(Theta; ~Y) <= I(Theta; ~Theta) + sum_i p_i KL(true law under theta_i || model i)

over the whole sequence (the data-processing inequality; theory note in the documentation). A model that
is approximate by construction, such as a rounded sensor, has a method ``residual(T)`` that computes its
divergence, so that a design can charge it.

A model of parameters has a fingerprint (`understudy.serialize`), which one bit of one number changes. A model that
holds functions cannot be written down. What can be kept is what it *does*. The
difficulty is to ask in the right units, since nothing is known of its scale. So the model colours
fixed scores itself: `probe` runs it on `PROBE_STEPS` readings and, at each step, notes the readings
that its predictive law gives to three fixed scores, and the log-density of the one that is fed back.
A second run, with two readings missing, follows where the model can do without them. A model that releases
something else than what it feeds back (`emit`) is run by it, and then once more on what it released, as the
source of a transformation. Three readings tell the spread of the law, so `same_probe` compares in units of that
spread. No score is asked for, so a law with atoms needs no auxiliary uniforms; its log-densities, which
are those of the probabilities of its atoms, tell what its readings on a grid do not.

What a probe sees, and what it does not:

- a change that moves a reading or a log-density of the first `PROBE_STEPS` steps by more than 1e-9
  of the spread of its law, plus 1e-12 of the size of the readings (the digits that rounding on
  another machine may take), is seen;
- what happens after step `PROBE_STEPS`, or far from the probing path (in a tail, in a branch of a
  function that these readings do not reach), is not;
- a probe shows that a mistake is unlikely. It does not stop someone who wants to deceive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from understudy._types import Array, Numbers
from understudy.errors import LawError, MissingReadingError, ModelError, StoredFileError
from understudy.laws.law import Law

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    State = TypeVarWithDefault("State", default=Any)
else:
    State = TypeVar("State")


# What a model is: the law of a whole measurement sequence, as a causal recursion ---------------------


@runtime_checkable
class Model(Protocol[State]):
    """A causal recursion: the state before y_1, and what each reading does to it.

    Optional: ``emit(state, z) -> (state, y)``, for a model that must feed back something else than
    what it releases (a rounded sensor); ``skip_many(state, count)``, to the bits of so many calls of
    `skip`; ``restart(state)``, for a model that keeps something beyond a gap. Two attributes open
    faster paths, to the same answer: ``gauss_markov``, an equivalent `GaussMarkov` model or None, and
    ``innovations``, a pair of a `GaussMarkov` recursion with standard
    normal noise (None where readings do not depend on each other) and the law that its scores have in truth.
    """

    @property
    def dim(self) -> int:
        """Number of channels of a reading."""
        ...

    def start(self) -> State:
        """State before y_1."""
        ...

    def predict(self, state: State) -> Law:
        """Law of the next reading given the past."""
        ...

    def update(self, state: State, y: Numbers) -> State:
        """State after the reading `y`."""
        ...

    def skip(self, state: State) -> State:
        """State after a missing reading."""
        ...


def is_model(thing: Any) -> bool:
    """Whether something has the four methods of a model, and a dimension."""
    return hasattr(thing, "dim") and all(
        callable(getattr(thing, name, None)) for name in ("start", "predict", "update", "skip")
    )


def skip_many(model: Model[State], state: State, count: int) -> State:
    """The state after so many missing readings: by the model's own `skip_many`, if it has one."""
    many: Callable[[State, int], State] | None = getattr(model, "skip_many", None)
    if many is not None:
        return many(state, count)
    for _ in range(count):
        state = model.skip(state)
    return state


def restart(model: Model[State], state: State) -> State:
    """The state after a gap whose readings are not to be gone on from: what a model that learns has learned stays."""
    keep: Callable[[State], State] | None = getattr(model, "restart", None)
    return model.start() if keep is None else keep(state)


def as_target(model: Model[State]) -> Model[Any]:
    """What a design has for a target in the place of a model: one that learns must not learn from its own output.

    A model that learns has a method ``as_target()``, which gives a fixed one.
    """
    make: Callable[[], Model[Any]] | None = getattr(model, "as_target", None)
    return model if make is None else make()


def repeat(step: Callable[[State], State], state: State, count: int, key: Callable[[State], bytes]) -> State:
    """`step` so many times, but for whole rounds where states, told apart by `key`, come again (Brent's algorithm).

    A long gap forgets: after some hundreds of steps a state is the one before it, or goes round a few, to the bit.

    >>> repeat(lambda n: n // 2 if n > 3 else 6 - n, 1000, 10**9, lambda n: bytes([n % 256]))
    3
    """
    mark, at, limit, done = key(state), 0, 1, 0
    while done < count:
        state, done = step(state), done + 1
        here = key(state)
        if here == mark:
            count, mark = done + (count - done) % (done - at), b""
        elif done - at == limit:
            mark, at, limit = here, done, 2 * limit
    return state


# What an approximate source model gives away beyond the randomizer -----------------------------------


# One-sided normal quantile of 1 - 1e-6: a charge is too small in one case of a million.
_MARGIN = 4.753424308822899


class Residual(NamedTuple):
    """Divergence of the true law of T readings from the model's, in nats.

    >>> r = Residual(kl=2e-4, error=1e-6, steps=1000, how="point-mass filter, 16 sequences")
    >>> math.isclose(r.per_reading, 2e-7)
    True
    >>> round(r.charged, 9)
    0.000204753
    """

    kl: float
    """The divergence over all readings: an estimate, or exact where `error` is 0."""
    error: float
    """Its standard error (wider where it rests on few sequences)."""
    steps: int
    """Number of readings, T."""
    how: str
    """In a few words, how it was computed."""

    @classmethod
    def from_totals(cls, totals: Array, steps: int, how: str) -> Residual:
        """From the divergences of independent sequences.

        The error is widened by Student's factor, so that the charge, the mean plus 4.75 errors, is too small once in
        a million for few sequences too.

        >>> import numpy as np
        >>> Residual.from_totals(np.array([1.0, 2.0, 3.0]), 10, "three sequences").kl
        2.0
        """
        from scipy.special import ndtri, stdtrit

        count = len(totals)
        student = float(stdtrit(count - 1, 1e-6) / ndtri(1e-6))
        error = student * float(totals.std(ddof=1)) / math.sqrt(count)
        return cls(max(0.0, float(totals.mean())), error, int(steps), how)

    @property
    def per_reading(self) -> float:
        """Mean divergence a reading."""
        return self.kl / self.steps

    @property
    def charged(self) -> float:
        """What a design charges: the estimate plus 4.75 standard errors (too small once in a million)."""
        return self.kl + _MARGIN * self.error

    @property
    def variation(self) -> float:
        """How far, at most, the probability of anything an adversary sees may move: sqrt(KL / 2) (Pinsker)."""
        return min(1.0, math.sqrt(0.5 * self.charged))


PROBE_STEPS = 16

_SPREAD, _ROUNDING = 1e-9, 1e-12
_GAP_RUN, _GAP = 6, (3, 4)
_GOLDEN = 0.6180339887498949


# The probe -----------------------------------------------------------------------------------------


def probe(model: Model) -> list[float]:
    """What the model does on a fixed path: numbers that the same model gives again.

    Up to `PROBE_STEPS` readings, fewer if the model ends before. See the module for what it sees.

    >>> import understudy as us
    >>> numbers = probe(us.IID(us.Gaussian(100.0, 4.0)))
    >>> same_probe(numbers, probe(us.IID(us.Gaussian(100.0, 4.0))))
    True
    >>> same_probe(numbers, probe(us.IID(us.Gaussian(100.0, 4.00001))))
    False
    """
    steps = getattr(model, "steps", None)
    length = min(PROBE_STEPS, steps) if isinstance(steps, int) else PROBE_STEPS
    emit = getattr(model, "emit", None)
    first = _run(model, length, emit=emit)
    rows = first.rows
    try:
        across = _run(model, min(len(rows), _GAP_RUN), emit=emit, missing=_GAP).rows
    except MissingReadingError:
        across = []  # no law across a gap: that too is something to reproduce
    if emit is not None:
        rows = rows + _run(model, len(rows), given=first.readings).rows
    numbers = [float(model.dim), float(len(rows)), float(len(across))]
    for row in rows + across:
        numbers += row
    if not all(map(math.isfinite, numbers)):
        raise ModelError("the model gives a reading or a log-density that is not finite to scores between -2 and 2")
    return numbers


def same_probe(a: Any, b: Any) -> bool:
    """Whether two probes come from the same model, as far as a probe can tell.

    >>> import understudy as us
    >>> a, b = (probe(us.GaussMarkov(0.9, 1.0, 1.0, R)) for R in (1.0, 1.000001))
    >>> same_probe(a, a), same_probe(a, b)
    (True, False)
    """
    one, other = _parse(a), _parse(b)
    if one.header != other.header:
        return False
    spread = np.minimum(np.ptp(one.readings, axis=1), np.ptp(other.readings, axis=1))
    size = np.maximum(np.abs(one.readings), np.abs(other.readings)).max(axis=1)
    allowed = _SPREAD * spread + _ROUNDING * size
    if (np.abs(one.readings - other.readings) > allowed[:, None, :]).any():
        return False
    # readings that are off by this much of a spread make the log-density off by as much
    relative = np.where(spread > 0.0, allowed / np.where(spread > 0.0, spread, 1.0), _SPREAD).max(axis=1)
    near = relative * np.maximum(1.0, np.abs(one.densities))
    return not (np.abs(one.densities - other.densities) > near).any()


class _Probe(NamedTuple):
    header: tuple[int, int, int]  # channels, rows of the first run, rows of the run with a gap
    readings: Array  # (rows, 3, channels)
    densities: Array  # (rows,)


class _Run(NamedTuple):
    rows: list[list[float]]  # one for each reading that is there
    readings: list[Any]


def _run(
    model: Model, length: int, *, emit: Any = None, missing: Collection[int] = (), given: Sequence[Any] | None = None
) -> _Run:
    """One row a reading that is there: what the law gives to three scores, and the log-density of one.

    That one is the reading of the first of the scores, or the one that is given.
    """
    state, done = model.start(), _Run([], [])
    for k in range(1, length + 1):
        if k in missing:
            state = model.skip(state)
            continue
        z = _scores(k, model.dim)
        try:
            law = model.predict(state)
            values = [law.value(score) for score in (z, 0.0 * z, _scores(PROBE_STEPS + k, model.dim))]
        except (ModelError, LawError, LookupError):
            if k == 1:
                raise
            break  # a model given for fewer steps
        if emit is not None:
            after, y = emit(state, z)
        else:
            y = values[0] if given is None else given[k - 1]
            after = model.update(state, y)
        done.rows.append([float(x) for x in np.ravel([*map(np.ravel, values)])] + [float(law.logpdf(y))])
        done.readings.append(y)
        state = after
    return done


def _scores(k: int, dim: int) -> Any:
    """Scores of step k, between 0.5 and 2 in size: never near 0, where a spread would not show."""
    # multiples of the golden ratio modulo 1 fill the interval evenly; + - * alone, so the same everywhere
    turns = [(k * dim + i) * _GOLDEN % 1.0 for i in range(dim)]
    scores = [(0.5 + 1.5 * (2.0 * t % 1.0)) * (1.0 if t < 0.5 else -1.0) for t in turns]
    return scores[0] if dim == 1 else np.array(scores)


def _parse(numbers: Any) -> _Probe:
    if type(numbers) is not list or len(numbers) < 3 or not all(type(x) is float for x in numbers):
        raise StoredFileError("a probe must be a list of floats that starts with three counts")
    flat = np.array(numbers)
    if not np.isfinite(flat).all():
        raise StoredFileError("a probe has an entry that is not finite; every one must be")
    dim, rows, across = (int(x) for x in numbers[:3])
    counts = [float(dim), float(rows), float(across)] == numbers[:3] and dim >= 1 and rows >= 1 and across >= 0
    if not counts or len(numbers) != 3 + (rows + across) * (3 * dim + 1):
        raise StoredFileError("a probe must have as many numbers as its first three, counts, say")
    body = flat[3:].reshape(rows + across, 3 * dim + 1)
    return _Probe((dim, rows, across), body[:, :-1].reshape(-1, 3, dim), body[:, -1])
