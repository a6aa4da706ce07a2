"""Which method for which pair: the cost matrix as it fills, the best method first."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.distortion.discrete import Staircase, staircases, together
from understudy.distortion.exact import distances, mean_readings
from understudy.distortion.linear import Filters, Linear, continuous, linear_form, separate
from understudy.distortion.measure import Measure
from understudy.distortion.noise import FLOOR, Laws, noise_of
from understudy.distortion.quadrature import Integral, Integrand
from understudy.distortion.simulation import GROUPS, Plan, Simulated, simulate
from understudy.errors import DesignError, UnderstudyWarning
from understudy.laws.base import Array, Law
from understudy.models.base import Model
from understudy.transform.maps import gauss_markov, innovations
from understudy._types import Progress


EXACT, QUADRATURE, MONTE_CARLO = "exact", "quadrature", "Monte Carlo"

# From this power of its tail on, the square of a distortion has no mean, and a standard error no meaning.
_NO_VARIANCE = 0.5


class Work:
    """A cost matrix in the making: each method fills the pairs that it can do and that are left."""

    def __init__(
        self,
        sources: list[Model],
        targets: list[Model],
        measure: Measure,
        horizon: int | None,
        progress: Progress | None = None,
    ) -> None:
        self.sources, self.targets = sources, targets
        self.measure, self.horizon, self.progress = measure, horizon, progress
        self.forms = [linear_form(model) for model in sources], [linear_form(model) for model in targets]
        shape = (len(sources), len(targets))
        self.matrix, self.error = np.full(shape, np.nan), np.zeros(shape)
        self.method = np.full(shape, "", dtype="<U11")
        self.peaks = np.zeros(shape)  # distortions of one reading that were met where an integral came out as zero
        self.heavy = np.zeros(shape, dtype=bool)  # tails so heavy that a standard error means little

    @property
    def left(self) -> NDArray[np.bool_]:
        """The pairs that are still to be done."""
        return np.asarray(self.method == "")

    @cached_property
    def only_laws(self) -> tuple[list[Law | None], list[Law | None]]:
        """The laws of models whose readings, as far as they are looked at, all have one."""
        return tuple([_only_law(model, self.horizon) for model in side] for side in (self.sources, self.targets))  # type: ignore[return-value]  # two sides

    @cached_property
    def discrete(self) -> tuple[list[list[Staircase] | None], list[list[Staircase] | None]]:
        """The values of models whose readings, as far as they are looked at, all have the same few."""
        sides = (self.sources, self.targets)
        return tuple([_discrete(model, self.horizon) for model in side] for side in sides)  # type: ignore[return-value]  # two sides

    @cached_property
    def laws(self) -> Laws:
        """Every law that is integrated over, tabulated once."""
        found: list[Law | None] = [None]
        for forms, only in zip(self.forms, self.only_laws, strict=True):
            found += [form.law for form in forms if form is not None]
            found += [law for law in only if law is not None]
        return Laws(found, self.measure.dim)

    def exact(self) -> None:
        """Pairs of Gaussian models."""
        chosen = [[k for k, form in enumerate(side) if form is not None and form.law is None] for side in self.forms]
        if not (self.measure.power and chosen[0] and chosen[1]):
            return
        filters = []
        for side, kept in zip(self.forms, chosen, strict=True):
            shape = (len(kept), self.measure.dim)
            forms = _there(side[k] for k in kept)
            filters.append(Filters(forms, np.zeros(shape), np.ones(shape), self.measure.read))
        at = np.ix_(*chosen)
        self.matrix[at] = distances(filters[0], filters[1], self.measure, self.horizon, progress=self.progress)
        self.method[at] = EXACT

    def enumeration(self) -> None:
        """Pairs of models with finitely many values: a sum over what the two take together."""
        if self.measure.dim > 1 and not self.measure.by_channel:
            return
        for i, one in enumerate(self.discrete[0]):
            for j, other in enumerate(self.discrete[1]):
                if one is not None and other is not None and self.left[i, j]:
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
        one, other = (np.array([law is not None for law in side]) for side in self.only_laws)
        pairs = np.argwhere(self.left & one[:, None] & other)
        if not len(pairs):
            return
        sides = zip(self.only_laws, pairs.T, strict=True)
        a, b = (self.laws.rows([side[k] for k in which]) for side, which in sides)
        spread, power = self.laws.table.spread, self.measure.power
        floor = FLOOR * (spread[a] + spread[b]) ** power if power else np.zeros(a.shape)
        total, error, tail = np.zeros((3, len(pairs)))
        good = np.ones(len(pairs), dtype=bool)
        for channel in np.flatnonzero(self.measure.weights):
            rows = a[:, channel], b[:, channel]
            found = self.laws.table.integrate(*rows, self._integrand(), floor[:, channel], closely=not power)
            good, tail = good & found.good(floor[:, channel]), np.maximum(tail, found.power)
            if not power:
                found = self._seen(pairs, *rows, found)
                good &= np.isinf(found.value) | np.isfinite(found.error)
            weight = self.measure.weights[channel]
            total, error = total + weight * found.value, error + weight * found.error
        i, j = pairs[good].T
        self.matrix[i, j], self.error[i, j] = total[good], np.where(np.isinf(total), 0.0, error)[good]
        self.method[i, j] = QUADRATURE
        self.heavy[tuple(pairs[~good].T)] = tail[~good] >= _NO_VARIANCE

    def _seen(self, pairs: Any, a: Any, b: Any, found: Integral) -> Integral:
        """The same integrals of the user's function, with a doubt where they are zero."""
        zero = np.flatnonzero((found.value == 0.0) & (found.error == 0.0))
        if not zero.size:
            return found
        table, f = self.laws.table, self._integrand()
        peaks = np.zeros(len(a))
        peaks[zero] = table.peaks(a[zero], b[zero], f)
        bound = table.chance_unseen * (max(table.largest(a, b, f), float(peaks.max())) or 1.0)
        alike = np.array([x == y or table.same(int(x), int(y)) for x, y in zip(a, b, strict=True)])
        # one law played by itself is zero by construction, if equal readings have no distortion and others have one
        met = bool((alike & ((found.value != 0.0) | (peaks > 0.0))).any())
        apart = bool(found.value[~alike].any()) or table.largest(a[alike], b[alike], f, apart=True) > 0.0
        none = alike & (apart and not met)
        error = found.error.copy()
        error[zero] = np.where(peaks > 0.0, np.inf, np.where(none, 0.0, bound))[zero]
        self.peaks[tuple(pairs.T)] = peaks
        return found._replace(error=error)

    def linear(self) -> None:
        """Pairs of linear models with noise of any law: the squared error, or noise that cancels."""
        chosen = [[k for k, form in enumerate(side) if form is not None] for side in self.forms]
        left = self.left[np.ix_(*chosen)]
        if not (self.measure.power and left.any()):
            return
        sources, targets = _there(self.forms[0]), _there(self.forms[1])
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
        plan = Plan(self.sources, self.targets, left, self.measure, self._simulated_horizon(left), accuracy, self.peaks)
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
        linear = [i for i, form in enumerate(self.forms[0]) if form is not None]
        if linear:
            forms = _there(self.forms[0])
            level = np.zeros((len(forms), d))
            if any(form.law is not None for form in forms):
                level = self.laws.means[self.laws.rows([form.law for form in forms])]
            filters = Filters(forms, np.nan_to_num(level, nan=0.0), np.ones(level.shape), np.full((1, d), 1.0 / d))
            known = np.isfinite(level).all(axis=1)
            means[linear] = np.where(known, mean_readings(filters, self.horizon)[0], np.nan)
        for i in sorted(set(range(len(prior))) - set(linear)):
            law, steps = self.only_laws[0][i], self.discrete[0][i]
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
                raise DesignError(
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


def _there(forms: Any) -> list[Linear]:
    return [form for form in forms if form is not None]


def _only_law(model: Model, horizon: int | None) -> Law | None:
    """The law of every reading, where there is one that is continuous and its channels are independent."""
    law = _every_law(model, horizon)
    return law if law is not None and separate(law) and continuous(law) else None


def _discrete(model: Model, horizon: int | None) -> list[Staircase] | None:
    """The values of every reading, channel by channel, where they are finitely many and always the same."""
    law = _every_law(model, horizon)
    return None if law is None else staircases(law)


def _every_law(model: Model, horizon: int | None) -> Law | None:
    """The law of every reading that is looked at, where there is one."""
    if not (_independent(model) or (horizon == 1 and not hasattr(model, "emit"))):
        return None
    return model.predict(model.start())


def _independent(model: Model) -> bool:
    parts = innovations(model)
    return gauss_markov(model) is None and parts is not None and parts[0] is None
