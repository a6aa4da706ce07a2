"""The adversary who knows that readings live on a grid (the trap in Section 5 of the design).

A float map of a grid is undone by trying: invert the output under every pair of true and pseudo parameter; only the
right pair lands on the grid. One reading is enough. If the output was rounded afterwards, the distance to the grid
says nothing for a map that merely shifts, and little otherwise; then the likelihood of the rounded output, with the
input decoded reading by reading, is what tells the pairs apart (`understudy.adversaries.learners.decoder`).

Against `Quantised`, whose scores are filled up with secret uniforms, neither is better than guessing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.base import Guess, guessed
from understudy.adversaries.learners.decoder import decoded
from understudy.errors import ConfigurationError
from understudy.identify.grid import Grid
from understudy.laws.base import Array, Frozen
from understudy.models.base import Model
from understudy.models.family import Family
from understudy.models.gauss_markov import GaussMarkov
from understudy.transform.filter import disguise
from understudy.transform.maps import gauss_markov
from understudy.transform.readings import as_readings
from understudy.transform.scores import loglik

_STRAY = 0.01  # share of readings that may miss the grid although the pair is right
_NEAR = 1e-9  # of a step: what counts as on the grid, besides the rounding of the readings


class GridInversion(Frozen):
    """Tries every pair of parameters and sees under which one the input was on the grid.

    `family` holds the models of the unrounded readings (or of rounded ones, which have them inside), `pseudo` the
    values of the pseudo parameter, `grid` what `detect_grid` found, or the steps themselves. `kernel` is the
    randomizer, uniform if it is not given. It knows everything but theta, ~theta and the readings.

    >>> import numpy as np, understudy as us
    >>> room = lambda people: us.GaussMarkov(0.9 - 0.1 * people, 1.0, 0.5 + people, 0.5, mean0=50.0, cov0=1.0)
    >>> family = us.Family(room, values=[0, 1])
    >>> whole = np.round(us.sample(room(1), T=1, n=100, rng=1))
    >>> out = us.disguise(whole, source=room(1), target=room(0.3))
    >>> float(GridInversion(family, [0.3, 0.7], grid=1.0).guess(out).index.mean())
    1.0
    """

    __slots__ = ("family", "kernel", "offsets", "particles", "pseudo", "steps")

    def __init__(
        self, family: Family, pseudo: Iterable[Any], grid: Any, kernel: Any = None, *, particles: int = 16
    ) -> None:
        self.family = family
        self.pseudo: tuple[Any, ...] = tuple(pseudo)
        self.steps, self.offsets = steps_of(grid, family.dim)
        self.kernel: Array = kernel_of(kernel, len(family.values), len(self.pseudo))
        self.particles = particles

    def __repr__(self) -> str:
        return f"GridInversion({len(self.family.values)} values, {len(self.pseudo)} pseudo values)"

    def guess(self, Y: Any) -> Guess:
        """The guess for a sequence (T,) or (T, d), or for each of (T, d, N)."""
        readings = as_readings(Y, self.family.dim)
        many = readings.ndim == 3
        out = readings if many else readings[:, :, None]
        with np.errstate(divide="ignore"):
            prior = np.log(self.family.prior)[:, None] + np.log(self.kernel)
        evidence = self.evidence(out) + prior[:, :, None]
        # Pr(theta_i given ~y) is proportional to p_i sum_j P_ij p(~y given i, j)
        top = evidence.max(axis=(0, 1))
        with np.errstate(divide="ignore"):
            scores = np.log(np.exp(evidence - top).sum(axis=1)) + top
        return guessed(scores, many)

    def evidence(self, Y: Array) -> Array:
        """What speaks for each pair of parameters, (m, n, N), in outputs (T, d, N): a log-likelihood, or nearly one."""
        m, n, N = *self.kernel.shape, Y.shape[2]
        sources, targets = models_of(self.family, self.family.values), models_of(self.family, self.pseudo)
        rounded = on_grid(Y, self.steps, self.offsets)
        linear = all(isinstance(model, GaussMarkov) for model in (*sources, *targets))
        result = np.empty((m, n, N))
        for i, source in enumerate(sources):
            for j, target in enumerate(targets):
                if linear and rounded.any():
                    result[i, j, rounded] = self._decoded(Y[:, :, rounded], source, target)
                rest = ~rounded if linear else np.ones(N, dtype=bool)
                if rest.any():
                    result[i, j, rest] = self._inverted(Y[:, :, rest], source, target)
        return result

    def _decoded(self, Y: Array, source: Any, target: Any) -> Array:
        grid = self.steps, self.offsets
        gone = np.asarray(np.isnan(Y).any(axis=1))
        if (gone == gone[:, :1]).all():
            return decoded(Y, source, target, grid, self.particles)
        each = [decoded(Y[:, :, s : s + 1], source, target, grid, self.particles) for s in range(Y.shape[2])]
        return np.concatenate(each)

    def _inverted(self, Y: Array, source: Model, target: Model) -> Array:
        back = disguise(Y, source=target, target=source)
        r = distance(back, self.steps, self.offsets)
        # near the grid, or anywhere: densities on the half step to either side
        width = _NEAR + 64.0 * float(np.finfo(float).eps) * np.abs(back) / self.steps[:, None]
        near = np.log((1.0 - _STRAY) * np.exp(-r / width) / (2.0 * width) + _STRAY)
        return np.asarray(np.nansum(near, axis=(0, 1)) + loglik(Y, target))


def steps_of(grid: Any, dim: int) -> tuple[Array, Array]:
    """Steps and offsets of all channels, from grids or from the steps themselves."""
    grids = tuple(grid) if isinstance(grid, (tuple, list, np.ndarray)) else (grid,) * dim
    if len(grids) != dim:
        raise ConfigurationError(f"{len(grids)} grids for {dim} channels; each channel has one")
    steps = np.array([g.step or math.nan if isinstance(g, Grid) else float(g) for g in grids], dtype=float)
    offsets = np.array([g.offset if isinstance(g, Grid) else 0.0 for g in grids])
    if not (steps > 0.0).all():
        raise ConfigurationError(f"grid = {grid!r}; each channel needs a positive step")
    return steps, offsets


def kernel_of(kernel: Any, m: int, n: int) -> Array:
    """The randomizer's kernel as an array; uniform if there is none."""
    P = np.full((m, n), 1.0 / n) if kernel is None else np.asarray(getattr(kernel, "kernel", kernel), dtype=float)
    if P.shape != (m, n) or not (P >= 0.0).all() or not np.allclose(P.sum(axis=1), 1.0):
        raise ConfigurationError(f"kernel has shape {P.shape}; it must be ({m}, {n}), rows of probabilities")
    return P


def models_of(family: Family, values: Iterable[Any]) -> list[Model]:
    """The models of unrounded readings; a rounded sensor has one inside."""
    members = [family.model(value) for value in values]
    inside = [getattr(model, "linear", model) for model in members]
    return [model if (linear := gauss_markov(model)) is None else linear for model in inside]


def distance(Y: Array, steps: Array, offsets: Array) -> Array:
    """Distance of readings (T, d, N) from the grid, in steps: 0 to one half."""
    place = (Y - offsets[:, None]) / steps[:, None]
    return np.asarray(np.abs(place - np.rint(place)))


def on_grid(Y: Array, steps: Array, offsets: Array) -> NDArray[np.bool_]:
    """Which sequences of (T, d, N) lie on the grid."""
    slack = _NEAR + 64.0 * float(np.finfo(float).eps) * np.abs(Y) / steps[:, None]
    return np.asarray(~(distance(Y, steps, offsets) > slack).any(axis=(0, 1)))
