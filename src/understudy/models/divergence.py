"""How far one predictive law of a reading is from another: the divergence, without cancellation.

KL(p || q) = int p log(p/q) is small beside its positive and negative parts. With r = log(q/p) it is also

    int p (e^r - 1 - r),        since both laws have total mass 1,

an integral of something that is nowhere negative. One channel: quadrature on a grid that resolves the
noise. Several channels: the mean of (e^r - 1 - r) over readings drawn from p.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import ModelError, ReadingError
from understudy.laws.base import Array
from understudy.laws.shifted_mixture import ShiftedMixture
from understudy.models.grids import Extent, extent_of, stretched
from understudy.models.residual import Residual

_SPACING = 0.4  # of the grid over the scale (quartile to quartile, nearly) of the noise
_FEWEST, _MOST = 81, 4001
_NEAR, _FAR = 3.5, 8.5  # scores of the noise up to which the grid goes beyond the outermost points
_MORE = 8  # times as many particles in a reference
DRAWS = 128
"""Readings drawn for a divergence of several channels."""


def divergence(p: ShiftedMixture, q: ShiftedMixture, rng: np.random.Generator) -> float:
    """KL(p || q) in nats, never negative: quadrature for one channel, `DRAWS` readings for several.

    >>> from understudy.laws.gaussian import Gaussian
    >>> from understudy.laws.shifted_mixture import ReadingNoise
    >>> noise = ReadingNoise(Gaussian(0.0, 1.0))
    >>> p, q = (ShiftedMixture([m], [0.0], noise) for m in (0.0, 1e-4))
    >>> round(divergence(p, q, np.random.default_rng(0)) / 5e-9, 6)
    1.0
    """
    if p.dim > 1:
        y = _drawn(p, DRAWS, rng)
        return float(_excess(np.asarray(q.logpdf(y)) - np.asarray(p.logpdf(y))).mean())
    noise = p.noise.law
    ends = [float(noise.value(z)) for z in (-_NEAR, _NEAR, -_FAR, _FAR)]
    extent = Extent(*(float(a + b) for a, b in zip(extent_of(p.shifts[0], p.log_weights), ends, strict=True)))
    scale = float(noise.value(0.5) - noise.value(-0.5))
    # three points tell the length of the grid, measured by its spacing in the middle
    length = 2.0 * math.exp(float(stretched(extent, 3).log_cells[1]))
    y, log_cells = stretched(extent, int(min(max(length / (_SPACING * scale), _FEWEST), _MOST)))
    log_p, log_q = np.asarray(p.logpdf(y)), np.asarray(q.logpdf(y))
    there = log_p > -np.inf
    log_p, log_q, log_cells = log_p[there], log_q[there], log_cells[there]
    r, mass = log_q - log_p, np.exp(log_p + log_cells)
    # far out p may have underflowed while q has not
    terms = np.where(r < 1.0, mass * _excess(np.minimum(r, 1.0)), np.exp(log_q + log_cells) - mass * (1.0 + r))
    return float(terms.sum())


def _excess(r: Array) -> Array:
    """e^r - 1 - r, which is nowhere negative."""
    return np.asarray(np.expm1(r) - r)


def _drawn(p: ShiftedMixture, count: int, rng: np.random.Generator) -> Array:
    """Readings (d, count) from p, by one of its places and the noise."""
    w = np.exp(p.log_weights)
    chosen = rng.choice(w.size, size=count, p=w / w.sum())
    return np.asarray(p.shifts[:, chosen] + p.noise.law.value(rng.standard_normal((p.dim, count))))


class Diagnosis(NamedTuple):
    """What a record does to the points of a model, one entry a reading, NaN where it is missing."""

    ess: Array
    """Effective sample size: the number of equally weighted points that would be worth as much."""
    loglik: Array
    """Log-density of the reading given those before it."""
    kl: Array
    """Estimate of the divergence of the true predictive law from the model's.

    Particles: a quarter of KL(a || b) + KL(b || a) for two runs with independent keys. The errors of the two
    add up, so this is right on average to first order; what both miss (a mode no particle reached) it
    does not show. Point masses: divergence from a grid twice as fine.
    """

    @property
    def kl_per_reading(self) -> float:
        """Mean of `kl` over the readings that are there."""
        return float(np.nanmean(self.kl))

    def __repr__(self) -> str:
        # its numbers hold the readings
        return f"Diagnosis(steps={len(self.ess)})"


def diagnose(model: Any, Y: Any) -> Diagnosis:
    """Run a `Nonlinear` model and a second one beside it over a record."""
    readings = _record(Y, model.dim)
    rng = np.random.default_rng(0)
    exact = model.method == "point-mass"
    twin = model.using(points=2 * model.points) if exact else model.keyed(model.twin_key)
    state, other = model.start(), twin.start()
    out = np.full((3, len(readings)), np.nan)
    for k, row in enumerate(readings):
        if np.isnan(row).any():
            state, other = model.skip(state), twin.skip(other)
            continue
        y = row.item() if model.dim == 1 else row
        p, q = model.predict(state), twin.predict(other)
        kl = divergence(q, p, rng) if exact else 0.25 * (divergence(p, q, rng) + divergence(q, p, rng))
        loglik = p.logpdf(y)
        state, ess = model.seen(state, y)
        other = twin.update(other, y)
        out[:, k] = ess, loglik, kl
    return Diagnosis(*out)


def residual(model: Any, T: int, sequences: int, rng: np.random.Generator) -> Residual:
    """Sum over T readings of the divergence of a reference from a `Nonlinear` model, over records of the true law."""
    reference, how = _reference(model)
    Y = model.simulate(T, n=sequences, rng=rng).Y
    totals = np.empty(sequences)
    for j in range(sequences):
        mine, true = model.keyed(rng.bytes(32)), reference.keyed(rng.bytes(32))
        state, better, total = mine.start(), true.start(), 0.0
        for row in Y[:, :, j]:
            total += divergence(true.predict(better), mine.predict(state), rng)
            y = row.item() if model.dim == 1 else row
            state, better = mine.update(state, y), true.update(better, y)
        totals[j] = total
    return Residual.estimated(totals, T, f"{how}, {sequences} sequences")


def _reference(model: Any) -> tuple[Any, str]:
    if model.method == "point-mass":
        return model.using(points=2 * model.points), f"against a grid of {2 * model.points} points"
    if model.states == 1 and not model.system.move.noisy:
        try:
            return model.using(method="point-mass"), f"against a grid of {model.points} points"
        except ModelError:
            pass  # process noise with atoms or without quantiles: no density to put on a grid
    many = _MORE * model.particles
    return model.using(particles=many), f"against {many} particles"


def _record(Y: Any, dim: int) -> Array:
    try:
        array = np.asarray(Y, dtype=float)
    except (TypeError, ValueError):
        raise ReadingError(f"Y is of type {type(Y).__name__}; it must be an array of numbers") from None
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != dim or not array.size:
        raise ReadingError(f"Y has shape {np.shape(Y)}; a record of this model is (T, {dim}), or (T,) for one channel")
    if np.isinf(array).any():
        raise ReadingError(f"the reading in row {int(np.isinf(array).any(axis=1).argmax())} is infinite")
    return array
