"""The cost matrix of a design: L(theta_i, ~theta_j), the distortion of playing one part for another.

::

    L(theta_i, ~theta_j) = mean over k = 1..T of E d(Y_k, ~Y_k)

where ~Y is the disguise of Y, from the model of theta_i to the model of ~theta_j. Each entry is found
by the best method that there is for it:

- "exact": both models are Gauss-Markov (or autoregressive, or independent, with Gaussian noise) and the
  measure has a name. Also any pair of linear models that differ in their offsets alone, whatever their
  noise: it cancels; and independent readings with finitely many values (`us.Atoms`), by enumeration.
- "quadrature": readings that do not depend on each other (or one reading only), and the squared error
  of autoregressions with any noise: integrals over one score, to a relative error of 1e-9. A function of
  your own is looked at in some 75,000 places; where it is not smooth enough to be integrated, it is simulated.
- "measured": outputs that were fitted to training readings (`understudy.randomizer.least_change`); none of it here.
- "Monte Carlo": everything else, with a standard error, or a bound for what was not seen. A source that
  rounds (`us.Quantised`) does not tell its scores: they come from the rounded reading and a fresh uniform, as they
  do when it is disguised, so that even a model that plays itself changes the readings.

With a fresh share s the scores of the disguise are z' = sqrt(1 - s^2) z + s w, so that even a model that plays itself
changes the readings. Pairs of Gaussian models are exact then too; all others are simulated.

Which method for which pair: the cost matrix as it fills, the best method first.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Index, Plain, Progress, Seed, Value
from understudy.distortion.exact import (
    Filters,
    Linear,
    continuous,
    distances,
    linear_form,
    mean_readings,
    mixed,
    separate,
)
from understudy.distortion.measures import Function, Measure
from understudy.distortion.quadrature import FLOOR, Integral, Integrand, Laws, Staircase, noise_of, staircases, together
from understudy.distortion.simulation import GROUPS, Plan, Simulated, simulate
from understudy.errors import DesignError, HorizonMissingError, StoredFileError, UnderstudyWarning
from understudy.laws.law import Law
from understudy.models.family import Family
from understudy.models.gauss_markov import gauss_markov, innovations
from understudy.models.model import Model, as_target
from understudy.serialize import fields, matrix_from_plain, matrix_to_plain, number_from_plain, number_to_plain
from understudy.transform.core import as_share

# Which method for which pair: the cost matrix as it fills, the best method first ---------------------


EXACT, QUADRATURE, MONTE_CARLO, MEASURED = "exact", "quadrature", "Monte Carlo", "measured"
_METHODS = (EXACT, QUADRATURE, MONTE_CARLO, MEASURED)

# From this power of its tail on, the square of a distortion has no mean, and a standard error no meaning.
_NO_VARIANCE = 0.5


class Profile(NamedTuple):
    """What is known of a model, as far as its readings are looked at."""

    form: Linear | None
    """Its linear form, if it has one."""
    law: Law | None
    """The law of every reading, where there is one that is continuous and its channels are independent."""
    steps: list[Staircase] | None
    """The values of every reading, channel by channel, where they are finitely many and always the same."""


def _profile(model: Model, horizon: int | None) -> Profile:
    form = linear_form(model)
    if not (_independent(model) or (horizon == 1 and not hasattr(model, "emit"))):
        return Profile(form, None, None)
    law = model.predict(model.start())
    return Profile(form, law if separate(law) and continuous(law) else None, staircases(law))


def _independent(model: Model) -> bool:
    parts = innovations(model)
    return gauss_markov(model) is None and parts is not None and parts[0] is None


class Work:
    """A cost matrix in the making: each method fills the pairs that it can do and that are left."""

    def __init__(
        self,
        sources: list[Model],
        targets: list[Model],
        measure: Measure,
        horizon: int | None,
        progress: Progress | None = None,
        fresh: float = 0.0,
    ) -> None:
        self.sources, self.targets = sources, targets
        self.measure, self.horizon, self.progress, self.fresh = measure, horizon, progress, fresh
        self.profiles = [[_profile(model, horizon) for model in side] for side in (sources, targets)]
        shape = (len(sources), len(targets))
        self.matrix, self.error = np.full(shape, np.nan), np.zeros(shape)
        self.method = np.full(shape, "", dtype="<U11")
        self.heavy = np.zeros(shape, dtype=bool)  # tails so heavy that a standard error means little

    @property
    def left(self) -> NDArray[np.bool_]:
        """The pairs that are still to be done."""
        return np.asarray(self.method == "")

    @cached_property
    def laws(self) -> Laws:
        """Every law that is integrated over, tabulated once."""
        known = [profile for side in self.profiles for profile in side]
        found = [profile.form.law for profile in known if profile.form is not None]
        return Laws([None, *found, *(profile.law for profile in known if profile.law is not None)], self.measure.dim)

    def fill(self, accuracy: float, rng: np.random.Generator) -> Simulated | None:
        """All pairs, each by the best method for it."""
        self.exact()
        if not self.fresh:  # these rest on one score for both readings
            self.enumeration()
            self.quadrature()
            self.linear()
        return self.simulation(accuracy, rng)

    def _linear(self, gaussian: bool) -> tuple[list[list[int]], list[list[Linear]]]:
        """Which sources and targets have a linear form (with Gaussian noise), and these forms."""
        places, forms = [], []
        for side in self.profiles:
            there = [(k, one.form) for k, one in enumerate(side) if one.form and not (gaussian and one.form.law)]
            places.append([k for k, _ in there])
            forms.append([form for _, form in there])
        return places, forms

    def exact(self) -> None:
        """Pairs of Gaussian models."""
        places, forms = self._linear(gaussian=True)
        if not (self.measure.power and all(places)):
            return
        one, other = (Filters.of_gaussian(side, self.measure.read) for side in forms)
        at, kappa = np.ix_(*places), mixed(self.measure.dim, len(one), len(other), self.fresh)
        self.matrix[at] = distances(one, other, self.measure, self.horizon, kappa, self.progress)
        self.method[at] = EXACT

    def enumeration(self) -> None:
        """Pairs of models with finitely many values: a sum over what the two take together."""
        if not self.left.any() or (self.measure.dim > 1 and not self.measure.by_channel):
            return
        for i, j in np.argwhere(self.left):
            one, other = self.profiles[0][i].steps, self.profiles[1][j].steps
            if one is not None and other is not None:
                self.matrix[i, j], self.method[i, j] = self._sum(one, other), EXACT

    def _sum(self, one: list[Staircase], other: list[Staircase]) -> float:
        total = 0.0
        for weight, steps, steps_out in zip(self.measure.weights, one, other, strict=True):
            y, y_out, p = together(steps, steps_out)
            total += float(weight * (p @ self._integrand()(y, y_out)))
        return total

    def quadrature(self) -> None:
        """Pairs of models with one law each, of independent channels."""
        if not self.left.any() or (self.measure.dim > 1 and not self.measure.by_channel):
            return
        one, other = (np.array([profile.law is not None for profile in side]) for side in self.profiles)
        pairs = np.argwhere(self.left & one[:, None] & other)
        if not len(pairs):
            return
        sides = zip(self.profiles, pairs.T, strict=True)
        a, b = (self.laws.rows([side[k].law for k in which]) for side, which in sides)
        spread, power = self.laws.table.spread, self.measure.power
        floor = FLOOR * (spread[a] + spread[b]) ** power if power else np.zeros(a.shape)
        total, error, tail = np.zeros((3, len(pairs)))
        good = np.ones(len(pairs), dtype=bool)
        for channel in np.flatnonzero(self.measure.weights):
            rows = a[:, channel], b[:, channel]
            found = self.laws.table.integrate(*rows, self._integrand(), floor[:, channel], closely=not power)
            good, tail = good & found.good(floor[:, channel]), np.maximum(tail, found.power)
            if not power:
                good &= self._trusted(*rows, found)
            weight = self.measure.weights[channel]
            total, error = total + weight * found.value, error + weight * found.error
        i, j = pairs[good].T
        self.matrix[i, j], self.error[i, j] = total[good], np.where(np.isinf(total), 0.0, error)[good]
        self.method[i, j] = QUADRATURE
        self.heavy[tuple(pairs[~good].T)] = tail[~good] >= _NO_VARIANCE

    def _trusted(self, a: Index, b: Index, found: Integral) -> NDArray[np.bool_]:
        """Which integrals of the user's function to believe: zero may be a rare event that was not met."""
        zero = found.value == 0.0
        alike = np.array([x == y or self.laws.table.same(int(x), int(y)) for x, y in zip(a, b, strict=True)])
        # one law played by itself is zero by construction, if equal readings have no distortion and others have one
        vanishes = bool(zero[alike].all() and not zero[~alike].all())
        return np.asarray(~zero | (alike & vanishes))

    def linear(self) -> None:
        """Pairs of linear models with noise of any law: the squared error, or noise that cancels."""
        chosen, (sources, targets) = self._linear(gaussian=False)
        left = self.left[np.ix_(*chosen)]
        if not (self.measure.power and left.any()):
            return
        noise = noise_of(self.laws, sources, targets, squared=self.measure.power == 2)
        known, infinite = left & (noise.usable | noise.cancels), left & noise.heavy & ~noise.cancels
        found = np.full(left.shape, np.inf)
        if known.any():
            m, read = len(sources), self.measure.read
            one = Filters(sources, noise.level[:m], noise.scale[:m], read)
            other = Filters(targets, noise.level[m:], noise.scale[m:], read)
            sums = distances(one, other, self.measure, self.horizon, noise.kappa, self.progress)
            found[known] = sums[known]
        i, j = np.nonzero(known | infinite)
        at = np.array(chosen[0])[i], np.array(chosen[1])[j]
        error = np.where(noise.cancels | infinite, 0.0, noise.error)
        self.matrix[at] = found[i, j]
        self.error[at] = error[i, j] * np.where(np.isinf(found), 0.0, found)[i, j]
        self.method[at] = np.where(noise.cancels, EXACT, QUADRATURE)[i, j]

    def simulation(self, accuracy: float, rng: np.random.Generator) -> Simulated | None:
        """All other pairs."""
        left = self.left
        if not left.any():
            return None
        if self.heavy[left].any():
            warnings.warn(
                f"the distortion of {int(self.heavy[left].sum())} pairs has tails so heavy that quadrature does not "
                "settle; the standard error of its simulation cannot be trusted",
                UnderstudyWarning,
                stacklevel=3,
            )
        horizon = self._simulated_horizon(left)
        plan = Plan(self.sources, self.targets, left, self.measure, horizon, accuracy, self.fresh)
        found = simulate(plan, rng, self.progress)
        self.matrix[left], self.error[left], self.method[left] = found.mean[left], found.error[left], MONTE_CARLO
        return found

    def warn(self) -> None:
        """Say so where a distortion is infinite."""
        count = int(np.isinf(self.matrix).sum())
        if count:
            warnings.warn(
                f"the distortion {self.measure.name} of {count} pairs is infinite: their tails are too heavy for it",
                UnderstudyWarning,
                stacklevel=3,
            )

    def mean_reading(self, prior: Array, simulated: Simulated | None) -> tuple[float, float]:
        """The mean of E Y_k over prior, horizon and channels, and its standard error."""
        d = self.measure.dim
        means, sampled = np.full(len(prior), np.nan), np.zeros(len(prior), dtype=bool)
        (linear, _), (forms, _) = self._linear(gaussian=False)
        if linear:
            level = np.zeros((len(forms), d))
            if any(form.law is not None for form in forms):
                level = self.laws.means[self.laws.rows([form.law for form in forms])]
            filters = Filters(forms, np.nan_to_num(level, nan=0.0), np.ones(level.shape), np.full((1, d), 1.0 / d))
            known = np.isfinite(level).all(axis=1)
            means[linear] = np.where(known, mean_readings(filters, self.horizon)[0], np.nan)
        for i in sorted(set(range(len(prior))) - set(linear)):
            _, law, steps = self.profiles[0][i]
            if steps is not None:
                means[i] = float(np.mean([channel.mean for channel in steps]))
            elif law is not None:
                means[i] = self.laws.means[self.laws.rows([law])].mean()
            elif simulated is not None:
                means[i], sampled[i] = simulated.readings[:, i].mean(), True
        used = prior > 0.0
        mean = float((prior[used] * means[used]).sum())
        if simulated is None or not sampled.any():
            return mean, 0.0
        sums = simulated.readings[:, sampled] @ prior[sampled]
        return mean, float(sums.std(ddof=1)) / math.sqrt(GROUPS)

    def _simulated_horizon(self, left: NDArray[np.bool_]) -> int:
        """The horizon; readings that do not depend on each other have their limit at once."""
        if self.horizon is not None:
            return self.horizon
        i, j = np.nonzero(left)
        for model in [*(self.sources[k] for k in i), *(self.targets[k] for k in j)]:
            if not _independent(model):
                raise HorizonMissingError(
                    f"horizon is missing: the distortion {self.measure.name} of a {type(model).__name__} model "
                    "is found by simulation here, which needs a number of readings"
                )
        return 1

    def _integrand(self) -> Integrand:
        if self.measure.power == 1:
            return lambda y, y_out: np.asarray(np.abs(y - y_out))
        if self.measure.power == 2:
            return lambda y, y_out: np.asarray((y - y_out) ** 2)
        return lambda y, y_out: self.measure.of(y[None, :], y_out[None, :])


# The cost matrix of a design: L(theta_i, ~theta_j), the distortion of playing one part for another ---


SEED = 20230202  # a design that is computed twice is the same design


@dataclass(frozen=True, repr=False, eq=False)
class Costs:
    """A cost matrix with what is known about its entries; `costs` makes one.

    `matrix`, `error` and `method` are (m, n). `error` is a standard error for Monte Carlo, an estimate of
    the error of quadrature, and 0 where an entry is exact; a distortion that does not exist is infinite.
    An entry that came out as zero, or from a handful of events, has no standard error that means anything: its
    error is the bound that `costs` describes.
    `mean_reading` is the mean of E Y_k over prior, horizon and channels (NaN where a mean does not
    exist), for distortions relative to the level of the readings; `mean_reading_error` its standard error.
    """

    matrix: Array
    error: Array
    method: NDArray[np.str_]
    groups: Array | None
    """The means of the groups of replications, (groups, m, n), where there was a simulation."""
    mean_reading: float
    mean_reading_error: float
    horizon: int | None
    distortion: str
    values: tuple[Value, ...]
    pseudo: tuple[Value, ...]
    replications: int

    def __post_init__(self) -> None:
        for array in (self.matrix, self.error, self.method, self.groups):
            if array is not None:
                array.flags.writeable = False

    def to_dict(self) -> Plain:
        """How the costs were found, as a stored design keeps it; the matrix itself stands beside it."""
        return {
            "error": matrix_to_plain(self.error),
            "method": self.method.tolist(),
            "groups": None if self.groups is None else matrix_to_plain(self.groups),
            "mean_reading": number_to_plain(float(self.mean_reading)),
            "mean_reading_error": number_to_plain(float(self.mean_reading_error)),
            "horizon": self.horizon,
            "distortion": self.distortion,
            "replications": self.replications,
        }

    @classmethod
    def from_dict(cls, plain: Plain, matrix: Array, values: Sequence[Value], pseudo: Sequence[Value]) -> Costs:
        """The costs again, for the matrix and the values that stood beside them."""
        names = ("error", "method", "groups", "mean_reading", "mean_reading_error")
        given = fields("costs", plain, *names, "horizon", "distortion", "replications", kind=False)
        method = np.array(given["method"], dtype=str)
        horizon, groups, count = given["horizon"], given["groups"], given["replications"]
        if (
            method.shape != matrix.shape
            or not np.isin(method, _METHODS).all()
            or not (horizon is None or (type(horizon) is int and horizon > 0))
            or not (type(count) is int and count >= 0 and type(given["distortion"]) is str)
        ):
            raise StoredFileError("costs does not say how the costs were found")
        return cls(
            matrix,
            matrix_from_plain("costs.error", given["error"], matrix.shape),
            method,
            None if groups is None else matrix_from_plain("costs.groups", groups, (len(groups), *matrix.shape)),
            number_from_plain("mean_reading", given["mean_reading"]),
            number_from_plain("mean_reading", given["mean_reading_error"]),
            horizon,
            given["distortion"],
            tuple(values),
            tuple(pseudo),
            count,
        )

    def __repr__(self) -> str:
        m, n = self.matrix.shape
        methods = [name for name in _METHODS if (self.method == name).any()]
        time = "stationary" if self.horizon is None else f"horizon={self.horizon}"
        return f"Costs({m} x {n}, {self.distortion}, {time}, {' and '.join(methods)})"

    def expected(self, weights: ArrayLike) -> tuple[float, float]:
        """The weighted sum of the entries, such as sum p_i P_ij L_ij, and its standard error.

        Entries from one simulation share their random numbers, so their errors go together; the standard error
        here takes account of that. It has the precision of 64 groups of replications, about a tenth of itself.
        Bounds on what was not seen are added to it.

        >>> import understudy as us
        >>> from understudy.distortion.costs import costs
        >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
        >>> costs(family, distortion="mae").expected([[0.4, 0.1], [0.1, 0.4]])
        (0.6000000000000001, 0.0)
        """
        w = np.asarray(weights, dtype=float)
        if w.shape != self.matrix.shape or not np.isfinite(w).all():
            raise DesignError(f"weights has shape {w.shape}; it must be {self.matrix.shape}, of finite numbers")
        used = w != 0.0
        value = float((w[used] * self.matrix[used]).sum())
        simulated = used & (self.method == MONTE_CARLO)
        # estimates of quadrature errors are not independent draws: they add up
        rest = float((np.abs(w) * self.error)[used & ~simulated].sum())
        if self.groups is None or not simulated.any():
            return value, rest
        # an error that the groups do not show is a bound on what was not seen: it adds up too
        shown = self.groups.std(axis=0, ddof=1) / math.sqrt(len(self.groups))
        rest += float((np.abs(w) * self.error)[simulated & (self.error > 2.0 * shown)].sum())
        sums = self.groups[:, simulated] @ w[simulated]
        return value, math.hypot(float(sums.std(ddof=1)) / math.sqrt(len(sums)), rest)


def costs(
    family: Family,
    pseudo: Iterable[Value] | None = None,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: ArrayLike | None = None,
    accuracy: float = 0.01,
    rng: Seed = None,
    progress: Progress | None = None,
    fresh: float = 0.0,
) -> Costs:
    """The distortion of every value of a family under every pseudo value.

    `pseudo` are the values whose models play the parts, by default the family's own. `horizon` is the
    number of readings T that the distortion is averaged over; None is the limit of long sequences,
    which constant, stable models have.

    `distortion` is "mse" or "mae" (on vectors the mean over the channels; `weights` (d,) take the place of 1/d, and
    a matrix (d, d) makes the squared error a quadratic form), or a function ``d(y, y_out)`` of arrays
    (N,), or (d, N) for vectors, that returns N finite numbers, none negative.

    Where simulation is needed, it goes on until each standard error is at most `accuracy` times the mean of the
    simulated entries, or, with a warning, to 200,000 replications. `rng` is a numpy Generator or a seed; the seed
    is fixed by default, so that a design can be repeated. (Costs hold nothing secret.) ``progress(fraction)`` is called
    as the work goes on. A simulation does not see that a distortion is infinite; the other methods do,
    and an infinite entry forbids its pair.

    An entry that is zero every time is simulated far longer: up to 200,000 replications, fewer of slow models or
    long sequences. If nothing shows, there is a warning, and its error is 3 / N times the largest distortion of one
    reading that was met anywhere, or 3 / N if there was none. That is the rule of three: after N replications
    without an event, nothing is known of events rarer than 3 / N, nor whether one of them costs more than what
    was met. The error is at least 3 / N times the largest value also for a mean that rests on fewer than 16
    replications, or that is the same in all of them. A function whose integral comes out as zero is simulated for the
    same reason. Only a model that plays itself is zero without a doubt
    (unless it rounds), under a function that is seen to be zero for equal readings and not for others.

    `fresh` is the fresh share of the scores, as in `us.design`.

    >>> import understudy as us
    >>> def room(occupants):
    ...     return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)
    >>> family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    >>> found = costs(family, pseudo=[0, 0.5, 1], horizon=50, distortion="mae")
    >>> found
    Costs(2 x 3, mae, horizon=50, exact)
    >>> found.matrix.round(3).tolist()
    [[0.0, 64.924, 129.848], [129.848, 64.924, 0.0]]
    >>> round(found.mean_reading, 6)
    100.0
    """
    if not isinstance(family, Family):
        raise DesignError(f"family is of type {type(family).__name__}; it must be a us.Family")
    values = family.values if pseudo is None else several(pseudo)
    horizon = _horizon(horizon)
    if not (isinstance(accuracy, (int, float)) and 0.0 < accuracy < math.inf):
        raise DesignError(f"accuracy = {accuracy!r}; it must be a positive number")
    # of models that learn, the fixed ones that stand in for them: distortion is about typical readings
    sources = [as_target(family.model(value)) for value in family.values]
    targets = [as_target(family.model(value)) for value in values]
    _check_models([*sources, *targets], [*family.values, *values], horizon)
    work = Work(sources, targets, Measure(distortion, family.dim, weights), horizon, progress, as_share(fresh))
    simulated = work.fill(float(accuracy), np.random.default_rng(SEED if rng is None else rng))
    work.warn()
    mean = work.mean_reading(family.prior, simulated)
    if progress is not None:
        progress(1.0)
    groups, count = (None, 0) if simulated is None else (simulated.groups, simulated.replications)
    name, pseudo_values = work.measure.name, tuple(values)
    found = work.matrix, work.error, work.method
    return Costs(*found, groups, *mean, horizon, name, family.values, pseudo_values, count)


def several(pseudo: Iterable[Value]) -> tuple[Value, ...]:
    """Pseudo values as a tuple, if there are any."""
    if isinstance(pseudo, (str, bytes)):
        raise DesignError(f"pseudo = {pseudo!r}; it must be several values of the parameter")
    try:
        values = tuple(pseudo)
    except TypeError:
        raise DesignError(f"pseudo = {pseudo!r}; it must be several values of the parameter") from None
    if not values:
        raise DesignError("pseudo is empty; there must be at least one value")
    return values


def _horizon(horizon: int | None) -> int | None:
    if horizon is None:
        return None
    if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or horizon < 1:
        raise DesignError(f"horizon = {horizon!r}; it must be a whole number of at least 1, or None for the limit")
    return int(horizon)


def _check_models(models: list[Model], values: list[Value], horizon: int | None) -> None:
    for model, value in zip(models, values, strict=True):
        if model.dim != models[0].dim:
            raise DesignError(
                f"the model of {value!r} has {model.dim} channels and that of {values[0]!r} has {models[0].dim}; "
                "all must agree"
            )
        steps = getattr(gauss_markov(model) or model, "steps", None)
        if steps is not None and horizon is not None and horizon > steps:
            raise DesignError(f"horizon = {horizon}, and the model of {value!r} is given for {steps} steps only")
        if steps is not None and horizon is None:
            raise HorizonMissingError(f"horizon is missing: the model of {value!r} changes with time, and has no limit")
