"""The distortion by simulation, for what has no formula: any model, any measure.

Scores are drawn once and coloured under every model, once each: m + n sequences serve m x n pairs. All pairs thus see
the same random numbers, so that their differences, which are what a design weighs, are known better than they are
themselves. Replications go into a fixed number of groups, whose means are kept: they tell the standard error of any
weighted sum of the pairs.

With a fresh share s the targets are given sqrt(1 - s^2) z + s w, one w for all of them. Without one a draw and its
disguise share their scores for every model whose readings tell their scores, atoms included: given the
reading, an auxiliary uniform puts the score where the one that was drawn is likely to be. A model that releases
something else than what it feeds back (`emit`: a rounded sensor) does not tell its scores. As a source it is whitened,
with uniforms of this simulation, and its own scores are coloured under each target.

Thousands of sequences of one model are coloured at once (`colour_all`). Gauss-Markov models have compiled loops for
that; noise of one law is asked for all readings together; a rounded model rounds what the model behind it gives; a
hidden Markov model with laws of any kind is taken step by step, each step for all sequences. For long sequences the
noise of an autoregression is tabulated first (`Tabulated`), to a millionth of its spread on average.

A standard error means something only if what makes the distortion has been seen often enough. A distortion that was
zero every time has the sample variance 0, and may still be the mean of a rare and costly event: after N replications
without one, its probability is known to be below 3 / N (at 95 percent confidence: the rule of three), and nothing else
is known. So, for each pair:

- one model played by itself, under a measure that vanishes for equal readings (and not for others): zero by
  construction, unless it has `emit` or there is a fresh share;
- zero every time: the simulation goes on, far longer than it otherwise would; if nothing shows, there is a warning, and
  the error is 3 / N times the largest distortion of one reading that was seen for any pair. If there was none, scores
  are stretched to find one, and if all is zero even then, 1 takes its place;
- a mean that rests on a handful of replications, or does not vary at all: the error is at least 3 / N times the largest
  value seen.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Numbers
from understudy.distortion.measures import Measure
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.laws.atoms import Atoms, intervals
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law, dimension, has_atoms
from understudy.laws.mixture import components_of, log_columns, mixture_value
from understudy.laws.multivariate import GaussianCopula, Independent, impossible
from understudy.laws.uniforms import SeededUniforms, Uniforms
from understudy.models.autoregressive import AutoRegressive
from understudy.models.gauss_markov import GaussMarkov, gauss_markov, innovations
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.model import Model
from understudy.models.quantised import OnGrid, Quantised, colour_on_grid
from understudy.transform.core import Emit, colour, colouring, whiten

# Many sequences at once: scores (T, d, N) to readings, with arrays over the N sequences --------------


def colour_all(z: Array, model: Model) -> Array:
    """Scores (T, d, N) to readings.

    >>> import understudy as us
    >>> colour_all(np.zeros((2, 1, 3)), us.IID(us.Gaussian(5.0, 1.0)))[:, 0].tolist()
    [[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]
    """
    if gauss_markov(model) is not None:
        return colour(z, model)
    parts = innovations(model)
    if parts is not None:
        recursion, law = parts
        e = _each(law, z)
        return e if recursion is None else colour(e, recursion)
    if type(model) is Quantised:
        Y = colour(z, model.linear)
        return np.ascontiguousarray(np.moveaxis(model.grid.round(np.moveaxis(Y, 1, 2)), 2, 1))
    if type(model) is OnGrid:
        together = colour_on_grid(z, model)
        return colour(z, model) if together is None else together
    channels = _channels(model)
    return colour(z, model) if channels is None else _hidden(z, model, channels)  # type: ignore[arg-type]  # has channels


def quick(model: Model) -> bool:
    """Whether there is something better than to ask the model reading by reading."""
    if type(model) is OnGrid:
        return type(model.model) in (AutoRegressive, GaussMarkov)
    return type(model) is Quantised or _channels(model) is not None or not isinstance(colouring(model), Emit)


def _each(law: Law, z: Array) -> Array:
    """One law for all readings."""
    T, d, N = z.shape
    flat = z.transpose(1, 0, 2).reshape(d, T * N)
    e = np.reshape(law.value(flat[0] if d == 1 else flat), (d, T, N)).transpose(1, 0, 2)
    return np.ascontiguousarray(e)


def _channels(model: Model) -> list[list[Law]] | None:
    """For each channel the laws of the hidden states, where channels are independent and nothing quicker is known."""
    if type(model) is not HiddenMarkov or not isinstance(colouring(model), Emit):
        return None
    if model.dim == 1:
        return [list(model.emissions)]
    if not all(isinstance(law, Independent) for law in model.emissions):
        return None
    return [list(channel) for channel in zip(*(law.laws for law in model.emissions), strict=True)]  # type: ignore[attr-defined]  # all are Independent


def _hidden(z: Array, model: HiddenMarkov, channels: list[list[Law]]) -> Array:
    """The recursion of the model, channel by channel, with probabilities (N, S)."""
    Y, N = np.empty(z.shape), z.shape[2]
    pi = np.tile(model.initial, (N, 1))
    for k in range(len(z)):
        for i, laws in enumerate(channels):
            Y[k, i] = (
                _atom_values(z[k, i], pi, laws)
                if isinstance(laws[0], Atoms)
                else mixture_value(z[k, i], components_of(log_columns(pi), laws))
            )
            logs = np.stack([np.asarray(law.logpdf(Y[k, i]), dtype=float) for law in laws], axis=1)
            with np.errstate(divide="ignore"):
                logs += np.log(pi)
            top = logs.max(axis=1, keepdims=True)
            if not np.isfinite(top).all():
                raise impossible()
            pi = np.exp(logs - top)
            pi /= pi.sum(axis=1, keepdims=True)
        pi = pi @ model.transition
        pi /= pi.sum(axis=1, keepdims=True)
    return Y


def _atom_values(z: Array, pi: Array, laws: list[Law]) -> Array:
    """The values of N mixtures of atoms on the same values."""
    atoms = [law for law in laws if isinstance(law, Atoms)]
    p = pi @ np.stack([law.probabilities for law in atoms])
    edges = intervals(p)[2][:, 1:-1]
    at = np.maximum((edges < z[:, None]).sum(axis=1), np.argmax(p > 0.0, axis=1))
    return np.asarray(atoms[0].values[at])


# Noise from tables, for long sequences ---------------------------------------------------------------


_REACH = 7.0  # scores; one draw in 4e11 lies beyond
_KNOTS = (4096, 16384)
_PLACES = 1 << 16
_CLOSE = 1e-6  # of the spread: what a table may be off by on average; a thousand times as much at its worst place
_LONG = 128  # readings from which tables pay


class Tabulated:
    """A law of one number by a table; beyond the table by the law itself.

    Quantiles at equidistant scores, with their slopes phi(z) / f(y), make a cubic in each interval; these are
    evaluated at so many places that straight lines between them do.

    >>> import scipy.stats
    >>> import understudy as us
    >>> law = us.Scalar(scipy.stats.t(3.0))
    >>> z = np.array([-2.0, 0.5, 9.0])
    >>> bool(np.allclose(Tabulated(law, 1024).value(z), law.value(z), rtol=1e-6))
    True
    """

    dim = 1

    def __init__(self, law: Law, knots: int) -> None:
        self.law = law
        at = np.linspace(-_REACH, _REACH, knots + 1)
        y = np.asarray(law.value(at), dtype=float)
        slope = np.exp(-0.5 * at * at - 0.5 * math.log(2.0 * math.pi) - np.asarray(law.logpdf(y), dtype=float))
        h, each = 2.0 * _REACH / knots, _PLACES // knots
        t = (np.arange(each) / each)[:, None]
        rise, (left, right) = np.diff(y), (h * slope[:-1], h * slope[1:])
        # y + t (m + (1 - t) ((m0 - m) (1 - t) - (m1 - m) t)), m the rise, m0 and m1 the slopes at the ends
        cubic = y[:-1] + t * (rise + (1.0 - t) * ((left - rise) * (1.0 - t) - (right - rise) * t))
        self._y = np.append(cubic.T.ravel(), y[-1])
        self._rise = np.append(np.diff(self._y), 0.0)
        self._z = np.linspace(-_REACH, _REACH, _PLACES + 1)

    def value(self, z: Numbers) -> Array:
        """Scores to readings."""
        scores = np.asarray(z, dtype=float)
        at = (scores + _REACH) * (_PLACES / (2.0 * _REACH))
        whole = at.astype(np.intp)
        y = self._y.take(whole, mode="clip")
        y += (at - whole) * self._rise.take(whole, mode="clip")
        if at.size and not (at.min() >= 0.0 and at.max() <= _PLACES):
            far = (at < 0.0) | (at > _PLACES)
            y[far] = self.law.value(scores[far])
        return y

    def score(self, y: Numbers, v: Numbers | None = None) -> Array:
        """Readings to scores."""
        readings = np.asarray(y, dtype=float)
        z = np.asarray(np.interp(readings, self._y, self._z))
        if z.size and not (z.min() > -_REACH and z.max() < _REACH):
            far = np.abs(z) >= _REACH
            z[far] = self.law.score(readings[far])
        return z

    def logpdf(self, y: Numbers) -> Numbers:
        """Log-density, by the law itself."""
        return self.law.logpdf(y)


def tabulated(law: Law) -> Law:
    """The law by tables where they are close; the law itself where it is quick or they are not."""
    if isinstance(law, GaussianCopula):
        return GaussianCopula(law.correlation, [tabulated(channel) for channel in law.laws])
    if isinstance(law, Independent):
        return Independent(*(tabulated(channel) for channel in law.laws))
    if isinstance(law, Gaussian) or dimension(law) > 1 or has_atoms(law):
        return law
    probe = np.random.default_rng(0).standard_normal(1024)
    probe[:256] = np.linspace(-_REACH, _REACH, 256)  # the tails too
    with contextlib.suppress(UnderstudyError), np.errstate(all="ignore"):
        exact = np.asarray(law.value(probe), dtype=float)
        size = np.abs(exact - np.median(exact))
        spread = float(size[256:].mean())
        for knots in _KNOTS:
            table = Tabulated(law, knots)
            miss = np.abs(table.value(probe) - exact)
            if miss[256:].mean() <= _CLOSE * spread and bool((miss <= 1e3 * _CLOSE * (spread + size)).all()):
                return table
    return law


def with_tables(model: Model) -> Model:
    """An autoregression, on a grid or not, whose noise comes from tables; other models as they are."""
    if type(model) is OnGrid:
        inside = with_tables(model.model)
        return model if inside is model.model else OnGrid(inside, **model.grid.arguments)
    if type(model) is not AutoRegressive or model.innovations is None:
        return model
    numbers = model.coefficients, model.intercept, tabulated(model.noise), model.past
    return AutoRegressive(*numbers, allow_unstable=model.allow_unstable)


# The distortion by simulation, for what has no formula: any model, any measure -----------------------


GROUPS = 64
"""Groups that replications are averaged in."""

MOST_REPLICATIONS = 200_000
"""Where the simulation stops, with a warning, if the accuracy is not reached before."""

_FIRST = 256
_MEMORY = 1 << 23  # readings held at a time
_LARGEST_BATCH = 4096
_SLOW_BATCH = 32  # where a model is asked reading by reading, so that progress is told now and then
_RULE_OF_THREE = 3.0
_FEW = 16  # replications that a mean must rest on
_CONSTANT = 1e-6  # a relative spread below this is no spread
# A distortion that is never seen is looked for this long: in readings, all models together, and in replications.
# (Not in seconds: a design that is computed twice is the same design.)
_UNSEEN_READINGS = 1 << 24
_UNSEEN_SLOW = 1 << 20  # where a model is asked reading by reading
_UNSEEN_LEAST = 2048
_STRETCHES = (2.0, 4.0, 8.0)
_STRETCHED = 128


class Simulated(NamedTuple):
    """Means and their errors (sources, targets), the means of the groups, and those of the source readings."""

    mean: Array
    error: Array
    groups: Array  # (GROUPS, sources, targets)
    readings: Array  # (GROUPS, sources)
    replications: int


class Plan(NamedTuple):
    """What to simulate: models, which pairs of them, the measure, the horizon, and how well."""

    sources: list[Model]
    targets: list[Model]
    wanted: NDArray[np.bool_]
    measure: Measure
    horizon: int
    accuracy: float
    fresh: float = 0.0
    """The fresh share."""


class _Tally:
    """Replications so far: for each pair the mean, the spread and the largest, and the means of the groups."""

    def __init__(self, plan: Plan) -> None:
        shape = plan.wanted.shape
        self.plan, self.count = plan, 0
        self.mean, self.squares, self.largest = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.groups, self.readings = np.zeros((GROUPS, *shape)), np.zeros((GROUPS, shape[0]))
        same = np.array([[a is b for b in plan.targets] for a in plan.sources])
        self.one_model = same & ~_releases(plan)[:, None] & (plan.fresh == 0.0)
        self.peak = 0.0  # the largest distortion of one reading

    def add(self, rng: np.random.Generator, batch: int) -> None:
        z = rng.standard_normal((self.plan.horizon, self.plan.measure.dim, batch))
        uniforms = _uniforms(self.plan, rng)
        found = _replications(self.plan, z, uniforms, _normals(self.plan, rng, z.shape))
        values, count = found.values, self.count
        # mean and sum of squares of two samples together
        step = values.mean(axis=2) - self.mean
        self.squares += ((values - values.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
        self.squares += step**2 * (count * batch / (count + batch))
        self.mean += step * (batch / (count + batch))
        self.largest = np.maximum(self.largest, values.max(axis=2))
        self.peak = max(self.peak, float(found.peaks.max()))
        at = (count + np.arange(batch)) % GROUPS
        np.add.at(self.groups, at, values.transpose(2, 0, 1))
        np.add.at(self.readings, at, found.means.T)
        self.count += batch

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Pairs whose distortion was zero every time, and need not be."""
        zero = np.asarray(self.plan.wanted & (self.largest == 0.0))
        if (zero & self.one_model).any() and self._vanishes:
            zero &= ~self.one_model
        return zero

    @property
    def few(self) -> NDArray[np.bool_]:
        """Pairs whose mean rests on a handful of replications: (sum x)^2 / sum x^2 of them."""
        second = self.squares / self.count + self.mean**2
        few = (self.largest > 0.0) & (self.count * self.mean**2 < _FEW * second)
        return np.asarray(self.plan.wanted & few)

    def error(self) -> Array:
        """Standard errors, or what takes their place where the sample tells none; 0 for pairs never seen."""
        error = np.sqrt(self.squares / (self.count * (self.count - 1.0)))
        constant = self.squares <= self.count * (_CONSTANT * self.mean) ** 2
        bound = _RULE_OF_THREE / self.count * self.largest
        return np.where(self.few | constant, np.maximum(error, bound), error)

    def unseen_error(self) -> float:
        """What the mean of a distortion that was never seen may be."""
        size = self.peak or float(self._stretched.max()) or 1.0
        return _RULE_OF_THREE / self.count * size

    @property
    def _vanishes(self) -> bool:
        """Whether equal readings have no distortion, as far as one can see, and others have one."""
        if self.plan.measure.function is None:
            return True
        if self.largest[self.one_model].any() or self._stretched[self.one_model].any():
            return False
        return bool(self.largest[~self.one_model].any()) or self._tells_apart

    @cached_property
    def _tells_apart(self) -> bool:
        """Whether a sequence has a distortion beside another of the same model."""
        z = np.random.default_rng(1).standard_normal((self.plan.horizon, self.plan.measure.dim, 64))
        for i in np.flatnonzero((self.one_model & self.plan.wanted).any(axis=1)):
            Y = colour_all(z, self.plan.sources[i])
            if _distortions(self.plan.measure, Y, Y[..., ::-1]).any():
                return True
        return False

    @cached_property
    def _stretched(self) -> Array:
        """The largest distortion of one reading of each pair, far outside of what replications see."""
        peaks = np.zeros(self.plan.wanted.shape)
        shape = (self.plan.horizon, self.plan.measure.dim, min(_STRETCHED, _batch(self.plan)))
        rng = np.random.default_rng(0)
        z, uniforms = rng.standard_normal(shape), _uniforms(self.plan, rng)
        w = _normals(self.plan, rng, shape)
        for factor in _STRETCHES:
            # so far out a law or a function of the user's own may fail in any way, where no reading ever comes
            with contextlib.suppress(Exception), np.errstate(all="ignore"):
                peaks = np.maximum(peaks, _replications(self.plan, factor * z, uniforms, factor * w).peaks)
        return peaks


def simulate(plan: Plan, rng: np.random.Generator, progress: Callable[[float], None] | None = None) -> Simulated:
    """Replications until every error is at most `accuracy` times the mean of the wanted entries."""
    if plan.horizon >= _LONG:
        made = {id(model): with_tables(model) for model in _used(plan)}
        sources, targets = ([made.get(id(model), model) for model in side] for side in (plan.sources, plan.targets))
        plan = plan._replace(sources=sources, targets=targets)
    most, enough = _batch(plan), _enough(plan)
    tally, goal = _Tally(plan), min(_FIRST, MOST_REPLICATIONS)
    while True:
        while tally.count < goal:
            tally.add(rng, min(most, 1 << (goal - tally.count).bit_length() - 1))
            if progress is not None:
                progress(min(1.0, tally.count / goal))
        count, error, unseen = tally.count, tally.error(), tally.unseen
        allowed = plan.accuracy * float(tally.mean[plan.wanted].mean())
        worst = float(error[plan.wanted].max())
        searching = count < enough and bool((unseen | tally.few).any())
        if worst <= allowed and not searching:
            break
        if count >= MOST_REPLICATIONS:
            warnings.warn(
                f"after {count} replications the largest error of a distortion is {worst:.3g}, above "
                f"{allowed:.3g}, which accuracy = {plan.accuracy:g} asks for; the error is reported as it is",
                UnderstudyWarning,
                stacklevel=4,
            )
            break
        needed = float(enough if searching else 0)
        if worst > allowed:
            needed = max(needed, 1.1 * count * (worst / allowed) ** 2)
        goal = min(MOST_REPLICATIONS, 4 * count, math.ceil(min(needed, MOST_REPLICATIONS) / GROUPS) * GROUPS)
    if unseen.any():
        error[unseen] = tally.unseen_error()
        warnings.warn(
            f"the distortion of {int(unseen.sum())} pairs was zero in all of {count} replications; what happens in "
            f"fewer than about 1 of {math.ceil(count / _RULE_OF_THREE)} would not have been seen, and their error "
            f"is reported as {float(error[unseen].max()):.3g}",
            UnderstudyWarning,
            stacklevel=4,
        )
    size = count / GROUPS
    return Simulated(tally.mean, error, tally.groups / size, tally.readings / size, count)


def _enough(plan: Plan) -> int:
    """Replications after which a distortion that has not been seen, or hardly, is given up."""
    used = _used(plan)
    readings = plan.horizon * plan.measure.dim * len({id(model) for model in used})
    slow = not all(map(quick, used)) or bool((_releases(plan) & plan.wanted.any(axis=1)).any())
    affordable = (_UNSEEN_SLOW if slow else _UNSEEN_READINGS) // readings
    return min(MOST_REPLICATIONS, max(_UNSEEN_LEAST, affordable))


def _batch(plan: Plan) -> int:
    """Replications at a time: a power of two, so that the groups fill evenly."""
    readings = plan.horizon * plan.measure.dim * (len(plan.targets) + 2)
    largest = _LARGEST_BATCH if all(map(quick, _used(plan))) else _SLOW_BATCH
    return 1 << int(np.clip(math.log2(max(1.0, _MEMORY / readings)), 0, math.log2(largest)))


def _used(plan: Plan) -> list[Model]:
    """The models of the wanted pairs."""
    used = [plan.sources[i] for i in np.flatnonzero(plan.wanted.any(axis=1))]
    return used + [plan.targets[j] for j in np.flatnonzero(plan.wanted.any(axis=0))]


class _Replications(NamedTuple):
    """Distortions, the largest of one reading, and mean readings."""

    values: Array  # (sources, targets, batch)
    peaks: Array  # (sources, targets)
    means: Array  # (sources, batch)


def _normals(plan: Plan, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """What scores are mixed with; plans without a fresh share draw nothing."""
    return rng.standard_normal(shape) if plan.fresh else np.zeros(1)


def _replications(plan: Plan, z: Array, uniforms: Uniforms | None, w: Array) -> _Replications:
    """What scores (T, d, batch) make of every wanted pair, with what they are mixed with."""
    batch, rest = z.shape[2], math.sqrt(1.0 - plan.fresh**2)
    done: dict[int, Array] = {}

    def mixed(scores: Array) -> Array:
        return rest * scores + plan.fresh * w if plan.fresh else scores

    shared = mixed(z)

    def coloured(model: Model) -> Array:
        if id(model) not in done:
            done[id(model)] = colour_all(shared, model)
        return done[id(model)]

    releases = _releases(plan)
    for j in np.flatnonzero(plan.wanted[~releases].any(axis=0)):
        coloured(plan.targets[j])
    values, peaks = np.zeros((*plan.wanted.shape, batch)), np.zeros(plan.wanted.shape)
    means = np.zeros((plan.wanted.shape[0], batch))
    kept = set(done)
    for i in np.flatnonzero(plan.wanted.any(axis=1)):
        Y = colour_all(z, plan.sources[i]) if plan.fresh else coloured(plan.sources[i])
        means[i] = Y.mean(axis=(0, 1))
        own = whiten(Y, plan.sources[i], uniforms) if releases[i] else None
        for j in np.flatnonzero(plan.wanted[i]):
            target = plan.targets[j]
            Y_out = coloured(target) if own is None else colour_all(mixed(own), target)
            found = _distortions(plan.measure, Y, Y_out)
            values[i, j], peaks[i, j] = found.mean(axis=0), found.max()
        for key in set(done) - kept:
            del done[key]
    return _Replications(values, peaks, means)


def _releases(plan: Plan) -> NDArray[np.bool_]:
    """Which sources release something else than what they feed back, so that readings do not tell their scores."""
    # nothing is fed back before the first reading, whose law our own rounded model knows exactly: an atom like others
    once = plan.horizon == 1
    return np.array([hasattr(model, "emit") and not (once and type(model) is Quantised) for model in plan.sources])


def _uniforms(plan: Plan, rng: np.random.Generator) -> Uniforms | None:
    """Auxiliary uniforms for the sources that need them, the same for all of them; other plans draw nothing."""
    there = bool((_releases(plan) & plan.wanted.any(axis=1)).any())
    return SeededUniforms(rng.bytes(32)) if there else None


def _distortions(measure: Measure, Y: Array, Y_out: Array) -> Array:
    """The d(y, ~y) of every reading, (T, N), for sequences (T, d, N)."""
    T, d, N = Y.shape
    rows, rows_out = (part.transpose(1, 0, 2).reshape(d, T * N) for part in (Y, Y_out))
    return np.asarray(measure.of(rows, rows_out).reshape(T, N))
