"""What a filter of rounded readings gives away: the divergence of the true law from its own, by simulation.

A sequence is drawn and rounded. Before each reading, the true law of its cell given the cells so far, p, is set
against the one of the filter in use, q:

    KL = sum over cells of p ln(p/q) = sum of (p ln(p/q) - p + q)

whose terms are nowhere negative, so that nothing cancels and a divergence of 1e-12 keeps its digits. (The mean of
ln(p/q) over the readings that were drawn has the same expectation and a standard error of sqrt(2 KL / n), which
drowns it.) By the chain rule the sum over the readings, averaged over sequences, is the divergence of the whole.

The truth is the point-mass filter on a fine grid where there is one. For several states, and where else there is none,
it is a population of 2 x 1000 Kalman filters on readings drawn inside the cells; what their own noise adds to the
divergence is estimated from two halves and taken off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from understudy.errors import ModelError
from understudy.laws.base import Array
from understudy.laws.rounding import Channel, Rounding
from understudy.models.cell_contenders import Contender, Normal, Particles, Points
from understudy.models.cell_drift import saturated, settled_by, started_at
from understudy.models.cell_point_mass import REFERENCE, USUAL, obstacle
from understudy.models.gauss_markov import Filtered, GaussMarkov
from understudy.models.residual import Residual

if TYPE_CHECKING:
    from understudy.models.quantised import Quantised

RULES = ("moments", "kalman", "jitter", "point-mass")
_FEWEST, _MOST = 100, 2000  # readings that are simulated; what follows is like the second half of them
_STRETCHES = 4  # later ones a sequence, where readings drift on
_POPULATION = 1000
_FAR = 9.5  # standard deviations within which cells are summed

Maker = Callable[[np.random.Generator], Contender]


def residual(model: Quantised, T: int, *, sequences: int = 16, rng: Any = None) -> Residual:
    """Divergence of the true law of T readings from the filter of `model`.

    A constant model settles, and only its first readings are simulated (at least 100); the rest are counted at the
    mean of the second half of these. Where readings drift on, to an end of the range or to another place in a wide
    cell, later stretches are simulated too.

    >>> import understudy as us
    >>> from understudy.models.quantised import Quantised
    >>> room = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0, mean0=100.0, cov0=1.0)
    >>> found = Quantised(room, step=0.5, method="moments").residual(1000, sequences=4, rng=1)
    >>> 5e-8 < found.per_reading < 5e-7
    True
    """
    for name, count, least in (("T", T, 1), ("sequences", sequences, 2)):
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < least:
            raise ModelError(f"{name} = {count!r}; it must be a whole number of at least {least}")
    linear, grid = model.linear, model.grid
    generator = np.random.default_rng(rng)
    simulated = min(T, _settling(linear)) if linear.constant else T
    # point masses are right wherever readings drift to
    rest = settled_by(linear, grid, simulated, T) if model.method == "moments" else simulated
    if rest > simulated >= T // 2:
        simulated = rest = T
    truth, name = _truth(linear, grid)
    use = contender(linear, grid, model.method)
    total = []
    for j, seed in enumerate(generator.spawn(sequences)):
        first = _divergences(linear, grid, (truth, use), simulated, seed)[0]
        later = float(first[simulated // 2 :].mean())
        total.append(float(first.sum()))
        if rest > simulated:
            # integral of D(t) dt = that of D(t) t dln(t), by one time in each of many equal parts of the logarithm
            span = math.log(rest / simulated)
            parts = (np.arange(_STRETCHES) + (j + seed.random(_STRETCHES)) / sequences) / _STRETCHES
            times = (simulated * np.exp(span * parts)).tolist()
            total[-1] += span * sum(t * _around(model, t, simulated, seed) for t in times) / _STRETCHES
            later = _around(model, rest, simulated, seed) if rest < T else 0.0
        total[-1] += (T - rest) * later
    how = f"{name}, {sequences} sequences of {simulated} readings" + " and later stretches" * (rest > simulated)
    return Residual.estimated(np.array(total), T, how)


def _around(model: Quantised, time: float, readings: int, rng: np.random.Generator) -> float:
    """Mean divergence of a reading around a later time: at the end of a stretch, when the filters have settled."""
    before, counted = readings // 3, readings // 6
    begun = started_at(model.linear, max(0, int(time) - before))
    if saturated(begun, model.grid):
        return 0.0
    makers = _truth(begun, model.grid)[0], contender(begun, model.grid, model.method)
    return float(_divergences(begun, model.grid, makers, before + counted, rng)[0, before:].mean())


class Row(NamedTuple):
    """Divergence a reading, in nats, and its standard error."""

    ratio: float
    """Step over the standard deviation of the unrounded innovations."""
    rule: str
    """The filter."""
    kl: float
    error: float


def residual_table(
    linear: GaussMarkov,
    ratios: Any = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0),
    rules: tuple[str, ...] = RULES,
    *,
    readings: int = 100,
    sequences: int = 16,
    rng: Any = 0,
) -> list[Row]:
    """Divergence a reading of several filters, in the settled state, for several steps (one channel).

    "moments" and "point-mass" are those of `Quantised`; "kalman" takes a cell for a reading with the additional
    variance step^2/12; "jitter" draws a reading inside the cell and goes on as if it had not been rounded. All are
    scored by the probabilities of cells. (To score the jittered number itself, by its density, is worse still.)

    >>> import understudy as us
    >>> room = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1)
    >>> rows = residual_table(room, [1.0], ("moments", "jitter"), readings=20, sequences=4)
    >>> [row.rule for row in rows if row.kl < 1e-6]
    ['moments']
    """
    from understudy.models.quantised import innovation_sds

    if linear.dim != 1 or not linear.constant:
        raise ModelError("the table is for a constant model of one channel")
    sd = float(innovation_sds(linear)[0])
    rows = []
    for ratio in ratios:
        # an offset that is no fraction of the step: no cell is special
        grid = Rounding(1, step=float(ratio) * sd, offset=0.2345 * sd)
        truth, _ = _truth(linear, grid)
        makers = (truth, *(contender(linear, grid, rule) for rule in rules))
        each = np.array(
            [
                _divergences(linear, grid, makers, 2 * readings, seed)[:, readings:].mean(axis=1)
                for seed in np.random.default_rng(rng).spawn(sequences)
            ]
        )
        errors = each.std(axis=0, ddof=1) / math.sqrt(sequences)
        figures = zip(rules, each.mean(axis=0).tolist(), errors.tolist(), strict=True)
        rows += [Row(float(ratio), rule, kl, error) for rule, kl, error in figures]
    return rows


def contender(linear: GaussMarkov, grid: Rounding, rule: str) -> Maker:
    """What makes a filter by its name."""
    if rule not in RULES:
        raise ModelError(f"rule = {rule!r}; it must be one of {', '.join(RULES)}")
    if rule == "point-mass":
        return lambda rng: Points(linear, grid, USUAL)
    return lambda rng: Normal(linear, grid, rule, rng)


def _truth(linear: GaussMarkov, grid: Rounding) -> tuple[Maker, str]:
    """The reference, and its name."""
    steps = [1] if linear.constant or linear.steps is None else range(1, linear.steps + 1)
    if all(obstacle(linear.at(k), grid) is None for k in steps):
        return lambda rng: Points(linear, grid, REFERENCE), "point-mass reference"
    return lambda rng: Particles(linear, grid, _POPULATION, rng), f"reference of 2 x {_POPULATION} particles"


def _divergences(
    linear: GaussMarkov, grid: Rounding, makers: tuple[Maker, ...], T: int, rng: np.random.Generator
) -> Array:
    """The divergence of each reading along one sequence, (filters, T); the first maker makes the truth."""
    simulation, *seeds = rng.spawn(1 + len(makers))
    filters = [make(seed) for make, seed in zip(makers, seeds, strict=True)]
    true, *used = filters
    x = linear.mean0 + _root(linear.cov0) @ simulation.standard_normal(linear.states)
    out = np.zeros((len(used), T))
    for k in range(T):
        system = linear.at(k + 1)
        x = system.A @ x + system.b + _root(system.Q) @ simulation.standard_normal(linear.states)
        y = system.C @ x + system.d + _root(system.R) @ simulation.standard_normal(linear.dim)
        for each in filters:
            each.advance(system)
        for i, channel in enumerate(grid.channels):
            edges, width = _edges(channel, *(each.outline(i) for each in filters))
            p = width * true.masses(i, edges)
            for row, each in zip(out, used, strict=True):
                row[k] += _divergence(p, width * each.masses(i, edges)[0])
            released = float(channel.rounded(float(y[i])))
            for each in filters:
                each.see(i, released)
        for each in filters:
            each.finish()
    return out


def _edges(channel: Channel, *outlines: tuple[float, float]) -> tuple[Array, float]:
    """Ends of all cells that matter; for a channel that is not rounded, points at a spacing, and this spacing."""
    low, high = min(q - _FAR * s for q, s in outlines), max(q + _FAR * s for q, s in outlines)
    if not channel.step:
        width = min(s for _, s in outlines) / 8.0
        return np.arange(low, high + width, width), width
    cells = channel.between(low, high)
    inner = 0.5 * (cells[1:] + cells[:-1])
    return np.concatenate(([-np.inf], inner, [np.inf])), 1.0


def _divergence(p: Array, q: Array) -> float:
    """KL(p || q); of several rows of p, each an estimate, that of their mean less what their noise adds."""
    if len(p) == 1:
        return _kl(p[0], q)
    mean = p.mean(axis=0)
    return _kl(mean, q) - sum(_kl(row, mean) for row in p) / len(p)


def _kl(p: Array, q: Array) -> float:
    """Sum of p ln(p/q) - p + q, each term by the form that loses nothing."""
    p, q = np.maximum(p, 0.0), np.maximum(q, 1e-300)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        t = (p - q) / q
        # (1 + t) ln(1 + t) - t = t^2/2 - t^3/6 + t^4/12 - t^5/20 + ...
        near = t * t * (0.5 - t * (1.0 / 6.0 - t * (1.0 / 12.0 - t * (0.05 - t / 30.0))))
        far = np.where(p > 0.0, p * np.log(p / q), 0.0) - p + q
    return float(np.where(np.abs(t) < 1e-3, q * near, far).sum())


def _settling(linear: GaussMarkov) -> int:
    """Readings to simulate: three times as many as the covariance needs to settle to a thousandth."""
    state: Filtered = linear.start()
    for k in range(1, _MOST // 3):
        after = linear.update(state, np.zeros(linear.dim))
        if np.allclose(after.cov, state.cov, rtol=1e-3, atol=1e-12):
            return max(_FEWEST, 3 * k)
        state = after
    return _MOST


def _root(cov: Array) -> Array:
    """A matrix whose square (times its transpose) is the covariance, singular or not."""
    if cov.size == 1:
        return np.sqrt(cov)
    values, vectors = np.linalg.eigh(cov)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
