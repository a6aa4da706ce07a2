"""One hidden state on a grid: the predictive law by quadrature, nothing random.

The law of the state is held as masses at the points of a grid. One step is

    p(x_k given y_1..y_k-1) = sum_i w_i f(x_k - move(x_i)),      f the density of the process noise,

evaluated at the points of a new grid, and then multiplied by the likelihood of y_k. The sum is the
trapezoid rule for an integral over the whole line, whose error for smooth densities falls faster than any
power of the spacing: from some number of points on, twice as many change nothing but the last digits.

The grid goes where the mass is (`grids`). After each reading it is laid anew over what the reading left,
which may be far narrower than what was predicted, in several places, or far away from it; the sum above gives
the density at any new point.

What it needs: the spacing must resolve the noises. From one point to the next, what `move` and `read` give
must change by less than about a deviation of the noise that is added to it: at 0.9 of a deviation the error
is 1e-10, at 2 deviations 1e-2. Where it changes by more the grid is made finer, up to `FINEST` times.
Densities with jumps (uniform, exponential noise) converge slowly. `Nonlinear.residual` measures the error
that is left, against twice as many points.

Beyond the ends of the grid, some nine deviations out, a reading is measured against its own noise alone:
its score is finite and larger than it should be, in one case of 1e17.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import ModelError, ReadingError
from understudy.laws.base import Array, Frozen, Law, is_law
from understudy.laws.gaussian import Gaussian
from understudy.laws.shifted_mixture import ShiftedMixture
from understudy.models.grids import (
    OPEN,
    Extent,
    LogDensity,
    fineness,
    located,
    on_grid,
    places_of,
    spread,
)
from understudy.models.particles import Cloud, cloud
from understudy.models.state_space import System

_CORE_SCORE, _FAR_SCORE = 3.5, 8.5  # the ends of the core of a law, and of all of it, by its scores
_BLOCK = 128  # points worked on at a time
_LIGHTEST = 90.0  # nats below the heaviest target: what is lighter is left out
_DEEP = 1e-150  # a density below which logarithms are summed
_REACH = 30.0  # score of the noise beyond which nothing is left of it that this density would miss


class Smooth(Frozen):
    """A law of one number with a density, and where its mass lies."""

    __slots__ = ("extent", "law", "reach", "scale")

    def __init__(self, law: Law, name: str) -> None:
        if getattr(law, "atoms", False):
            raise ModelError(f"{name} has atoms; a point-mass filter needs a density")
        try:
            ends = [float(law.value(z)) for z in (-_CORE_SCORE, _CORE_SCORE, -_FAR_SCORE, _FAR_SCORE)]
        except ArithmeticError:
            raise ModelError(
                f"{name} has no finite quantiles at the scores +-{_FAR_SCORE}; its tails are too heavy"
            ) from None
        self.law = law
        self.extent = Extent(*ends)
        self.scale = float(law.value(0.5) - law.value(-0.5))
        try:
            self.reach = float(law.value(-_REACH)), float(law.value(_REACH))
        except ArithmeticError:  # the tail leaves float64 before
            self.reach = -math.inf, math.inf

    def __reduce__(self) -> tuple[Any, ...]:
        return Smooth, (self.law, "law")

    def density(self, e: Array) -> Array:
        """The density at every entry of `e`, which is overwritten."""
        if not isinstance(self.law, Gaussian):
            return np.asarray(np.exp(self.law.logpdf(e)))
        mean, variance = self.law.mean, self.law.cov
        e -= mean
        e *= e
        e *= -0.5 / variance
        np.exp(e, out=e)
        e *= 1.0 / math.sqrt(2.0 * math.pi * variance)
        return e

    def log_density(self, e: Array) -> Array:
        """Its logarithm."""
        return np.asarray(self.law.logpdf(e), dtype=float)


def predicted(targets: Array, log_weights: Array, noise: Smooth) -> LogDensity:
    """The density of target plus noise."""
    heavy = np.flatnonzero(log_weights > log_weights.max() - _LIGHTEST)
    heavy = heavy[np.argsort(targets[heavy], kind="stable")]
    m, log_w = targets[heavy], log_weights[heavy]
    w = np.exp(log_w)

    def log_density(x: Array) -> Array:
        out = np.empty(x.size)
        for i in range(0, x.size, _BLOCK):
            part = x[i : i + _BLOCK]
            # only targets within reach of the noise matter, unless nothing else is there
            first, last = np.searchsorted(m, (part.min() - noise.reach[1], part.max() - noise.reach[0]))
            height = np.einsum("i,ij->j", w[first:last], noise.density(part - m[first:last, None]))
            deep = height < _DEEP
            height[deep] = 1.0
            out[i : i + _BLOCK] = np.log(height)
            if deep.any():
                terms = noise.log_density(part[deep] - m[:, None]) + log_w[:, None]
                out[i : i + _BLOCK][deep] = np.logaddexp.reduce(terms, axis=0)
        return out

    return log_density


class Ahead(NamedTuple):
    """What is known of step k before its reading: the density of X_k, its grid, the law of Y_k."""

    points: Array
    log_weights: Array
    law: ShiftedMixture
    density: LogDensity
    places: list[Extent]


class PointMassFilter(Frozen):
    """The recursion on grids of `count` points, or more where the noises are narrow."""

    __slots__ = ("count", "noise", "system")

    def __init__(self, system: System, count: int) -> None:
        if system.states != 1:
            raise ModelError(f"the model has {system.states} states; method='point-mass' serves one state")
        if system.move.noisy:
            raise ModelError("move takes the noise as an argument; method='point-mass' needs noise that is added")
        self.system, self.count = system, count
        self.noise = Smooth(system.process, "process_noise")

    def start(self) -> Cloud:
        """The law of X_0 on a grid."""
        if not is_law(self.system.initial):
            N = self.count
            return cloud(0, self.system.begun(np.empty((1, N))), np.full(N, -math.log(N)))
        law = Smooth(self.system.initial, "initial")
        return self._grid(0, law.log_density, [law.extent])

    def ahead(self, state: Cloud) -> Ahead:
        """The density moved and spread by the noise."""
        k, x, log_weights = state[0] + 1, state[1], state[2]
        targets = self.system.move.at(k, x)
        density, places = predicted(targets, log_weights, self.noise), spread(targets, log_weights, self.noise.extent)
        count = self.count
        for _ in range(2):
            points, log_weights = on_grid(density, places, count)
            law = self.system.law(k, points, log_weights)
            finer = fineness(log_weights, law.steps)
            if count > self.count or finer == 1.0:
                break
            count = math.ceil(finer * self.count)
        return Ahead(points, log_weights, law, density, places)

    def after(self, k: int, ahead: Ahead, log_weights: Array, y: Any) -> Cloud:
        """The density times the likelihood, on a grid laid anew."""

        def posterior(x: Array) -> Array:
            return ahead.density(x) + self.system.law(k, x, np.zeros(x.size)).likelihoods(y)

        if log_weights[[0, -1]].max() < log_weights.max() - OPEN:
            return self._grid(k, posterior, places_of(ahead.points, log_weights))
        # the reading lies so far out that the mass is beyond the grid
        first, last = ahead.places[0], ahead.places[-1]
        extent = located(posterior, Extent(first.low, last.high, first.far_low, last.far_high))
        if extent is None:
            raise ReadingError(f"reading number {k} is outside what any state of the model can give")
        return self._grid(k, posterior, [extent])

    def without(self, k: int, ahead: Ahead) -> Cloud:
        """The density as it was moved."""
        return self._grid(k, ahead.density, ahead.places)

    def _grid(self, k: int, density: LogDensity, places: list[Extent]) -> Cloud:
        """A grid that resolves the density and the noise of the move to come."""
        points, log_weights = on_grid(density, places, self.count)
        targets = self.system.move.at(max(k, 1), points)
        finer = fineness(log_weights, np.abs(np.diff(targets)) / self.noise.scale)
        if finer > 1.0:
            points, log_weights = on_grid(density, places, math.ceil(finer * self.count))
        return cloud(k, points, log_weights)
