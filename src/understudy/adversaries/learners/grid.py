"""Adversaries who know that raw readings were on a grid: inversion, and low-order digits.

A float map of a grid is undone by trying: invert the output under every pair of true and pseudo parameter, and only the
right pair lands on the grid. One reading is enough. If the output was rounded afterwards, the distance to the grid says
little, and the likelihood of the rounded output is what tells the pairs apart (`decode`). Given the past, the plain map
is increasing in the reading: ~y = c + r (y - e) in each channel, r = ~L / L. A released cell stands for an interval of
readings, and the grid points in it are all that y can have been. With r >= 1 there is at most one, so the whole input
can be followed; where there is none, the pair is refuted. With r < 1 there are several, and a few particles draw among
them. Either way the likelihood of the output is

    p(~y_1..T given i, j) = prod_k Pr_i(y_k among those that ~y_k leaves open, given y_1..k-1),

where the law of the rounded process is approximated by a Kalman filter with step^2/12 more noise.

`Digits` learns what cannot be worked out. Its features are where readings and their differences lie between grid values
and, for each value of the parameter, the same for the output inverted under it: how near to the grid it comes, whether
its nearest grid values lead back to the output, and how likely those are.

Where the design knows no grid, it is sought: some outputs are inverted under every pair, and the right pair lands on a
grid (`us.detect_grid`). Both attacks begin where a sequence does, for there the states of both models are known.
Against `Quantised`, whose scores are filled up with secret uniforms, neither is better than guessing.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Frozen
from understudy.adversaries.knowledge import Attack, Cases, Knowledge
from understudy.adversaries.learners.bayes import FilterBank, with_noise
from understudy.adversaries.learners.calibration import fit_scores
from understudy.adversaries.learners.inversion import TraceReader, obstacle, trace_attack
from understudy.errors import UnderstudyError
from understudy.identify.grid import FEWEST_CHANGES, Grid, detect_grid
from understudy.models.gauss_markov import GaussMarkov, gauss_markov
from understudy.models.model import Model
from understudy.models.quantised import OnGrid, Quantised
from understudy.transform.core import disguise, loglik

Steps = tuple[Array, Array]
"""Steps and offsets of all channels, (d,) each."""


def drop_rounding(model: Model) -> Model:
    """The model of readings before they are put on a grid, as a Gauss-Markov model where it has that form."""
    inside: Model = model
    if isinstance(model, OnGrid):
        inside = model.model
    elif isinstance(model, Quantised):
        inside = model.linear
    linear = gauss_markov(inside)
    return inside if linear is None else linear


def whole_rows(Y: Array) -> Array:
    """Outputs in which a reading is there with all its channels, or missing."""
    return np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, Y)


def distance(Y: Array, grid: Steps) -> Array:
    """Distance of readings (T, d, N) from the grid, in steps: 0 to one half."""
    place = (Y - grid[1][:, None]) / grid[0][:, None]
    return np.asarray(np.abs(place - np.rint(place)))


def on_grid(Y: Array, grid: Steps) -> NDArray[np.bool_]:
    """Which sequences of (T, d, N) lie on the grid."""
    return np.asarray(~(distance(Y, grid) > _slack(Y, grid)).any(axis=(0, 1)))


def _slack(Y: Array, grid: Steps) -> Array:
    """Steps by which readings may miss the grid: what is as good as on it, and the rounding of the readings."""
    return np.asarray(_NEAR + 64.0 * float(np.finfo(float).eps) * np.abs(Y) / grid[0][:, None])


# Undoing "disguise, then round": the likelihood of a rounded output under a pair of parameters ------------------------


_IMPOSSIBLE = -14.0  # log-likelihood of a reading that no input explains: once in a million, for what we do not know
_EDGE = 1e-7  # of a step: a float on the edge of its cell may fall to either side


def decode(Y: Array, source: GaussMarkov, target: GaussMarkov, grid: Steps, particles: int) -> Array:
    """Log-likelihood (N,) of rounded outputs Y (T, d, N), if readings of `source` on the grid came in.

    A row that is missing in one sequence must be missing in all.
    """
    step, offset = grid
    T, d, N = Y.shape
    rng = np.random.default_rng(0)
    M = particles if _narrows(source, target, T) else 1
    whiten, colour, law = (FilterBank([model], N * M, shared=True) for model in (source, target, source))
    extra = np.diag(step**2 / 12.0)
    there, nothing = np.zeros(N * M, dtype=bool), np.zeros((1, N * M))
    total, weight = np.zeros(N), np.zeros((N, M))
    for k in range(T):
        (mean, S), (mean_out, S_out), (mean_law, S_law) = (bank.predict(k + 1) for bank in (whiten, colour, law))
        if np.isnan(Y[k]).any():
            continue
        mean, mean_out, mean_law = mean[0].T, mean_out[0].T, mean_law[0].T
        L, L_out, L_law = (np.linalg.cholesky(part[0, 0]) for part in (S, S_out, S_law))
        released = np.repeat(Y[k], M, axis=1)
        e, e_out, e_law, z, u = (np.empty((d, N * M)) for _ in range(5))
        for c in range(d):
            # ~y = base + r (y - centre): what the channels before have settled, and what this one adds
            centre, base = mean[c] + L[c, :c] @ z[:c], mean_out[c] + L_out[c, :c] @ z[:c]
            r = L_out[c, c] / L[c, c]
            middle, half = (centre + (released[c] - base) / r - offset[c]) / step[c], (0.5 + _EDGE) / r
            first, last = np.ceil(middle - half), np.floor(middle + half)
            none = last < first
            first = np.where(none, np.rint(middle), first)
            last = np.where(none, first, last)
            at, sd = mean_law[c] + L_law[c, :c] @ u[:c], L_law[c, c]
            low, high = ((offset[c] + step[c] * edge - at) / sd for edge in (first - 0.5, last + 0.5))
            chance, place = _between(low, high, rng if M > 1 else None)
            weight += np.where(none, _IMPOSSIBLE, np.log(chance)).reshape(N, M)
            index = first
            if M > 1:
                index = np.clip(np.rint((at + sd * place - offset[c]) / step[c]), first, last)
            y = offset[c] + step[c] * index
            e[c], e_law[c] = y - mean[c], y - mean_law[c]
            z[c], u[c] = (y - centre) / L[c, c], (y - at) / sd
            e_out[c] = base + r * (y - centre) - mean_out[c]
        for bank, innovation, cov in ((whiten, e, S), (colour, e_out, S_out), (law, e_law, S_law + extra)):
            bank.update(innovation.T[None], cov, there, nothing)
        top = weight.max(axis=1, keepdims=True)
        share = np.exp(weight - top)
        total += top[:, 0] + np.log(share.mean(axis=1))
        weight = np.log(share / share.mean(axis=1, keepdims=True))
        if M > 1:
            chosen = _resample(share, rng)
            for bank in (whiten, colour, law):
                bank.x = bank.x[:, chosen]
            weight[:] = 0.0
    return total


def _narrows(source: GaussMarkov, target: GaussMarkov, T: int) -> bool:
    """Whether the map brings readings nearer to each other anywhere, so that a cell stands for several."""
    banks = [FilterBank([model], 1, shared=True) for model in (source, target)]
    for k in range(min(T, 200)):
        covs = [bank.predict(k + 1)[1] for bank in banks]
        before, after = (np.diag(np.linalg.cholesky(S[0, 0])) for S in covs)
        if (after < (1.0 - 1e-9) * before).any():
            return True
        for bank, S in zip(banks, covs, strict=True):
            bank.update(np.zeros((1, 1, source.dim)), S, np.zeros(1, dtype=bool), np.zeros((1, 1)))
    return False


def _between(low: Array, high: Array, rng: np.random.Generator | None) -> tuple[Array, Array]:
    """Probability that a standard normal falls between, and a draw of it given that."""
    from scipy.special import ndtr, ndtri

    # both ends on the side of the smaller tail
    flip = low > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    below, above = ndtr(a), ndtr(b)
    chance = np.maximum(above - below, 1e-300)
    if rng is None:
        return chance, chance
    draw = ndtri(np.clip(below + rng.random(low.shape) * (above - below), 1e-300, 1.0 - 1e-16))
    return chance, np.where(flip, -draw, draw)


def _resample(share: Array, rng: np.random.Generator) -> Array:
    """Systematic resampling in each row: which columns of the flat state go on."""
    N, M = share.shape
    ends = np.cumsum(share, axis=1)
    points = (rng.random((N, 1)) + np.arange(M)) / M * ends[:, -1:]
    chosen = np.minimum((points[:, :, None] > ends[:, None, :]).sum(axis=2), M - 1)
    return np.asarray((chosen + M * np.arange(N)[:, None]).ravel())


# Inversion -----------------------------------------------------------------------------------------------------------


_STRAY = 0.01  # share of readings that may miss the grid although the pair is right
_NEAR = 1e-9  # of a step: what counts as on the grid, besides the rounding of the readings
_LEARNED = 2000  # sequences that are learned from
_WORK = 20_000_000  # readings times pairs of parameters times particles
_ALONE = 20_000  # sequences times pairs, where models go through one sequence at a time
_CHUNK = 4000  # sequences at a time
_SURE = 20.0  # nats beyond which scores are not told apart
NO_GRID = "the raw readings have no grid that is known or could be found"


class GridInverter(Frozen):
    """Tries every pair of parameters and sees under which one the input was on the grid.

    For a theta that is constant over whole sequences (`GridInversion`), for one that moves reading by reading
    (`understudy.adversaries.learners.inversion`).
    """

    __slots__ = ()

    name = "grid inversion"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """The output must be disguised, there must be a grid, and the models must be such that they can be undone."""
        if known.raw:
            return "the output is not disguised; there is nothing to invert"
        if not cases.once:
            return _moving_objection(cases, known)
        if not _linear(known) and cases.N * known.kernel.size > _ALONE:
            return f"models without a Gauss-Markov form are inverted one by one, and {cases.N} sequences are too many"
        return "" if grid_of(cases, known) is not None else NO_GRID

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """The grid, where it is not known, and what the scores are worth."""
        grid = grid_of(cases, known) or (np.ones(cases.d), np.zeros(cases.d))
        if not cases.once:
            step, offset = float(grid[0][0]), float(grid[1][0])
            return trace_attack(TraceReader(known, (step, offset), known.decision_every or cases.T), cases, known, rng)
        return fit_scores(GridInversion(known, grid), cases.sequences(slice(0, _LEARNED)), cases, rng, ridge=1.0)


def _moving_objection(cases: Cases, known: Knowledge) -> str:
    """Why a theta that moves is not attacked by inverting; nothing if it is."""
    if known.grid is None:
        return NO_GRID
    if on_grid(whole_rows(cases.outputs), known.grid).all():
        return "the output is on the grid itself, and inverting it would need the raw readings"
    return obstacle([gauss_markov(model) for model in (*known.sources, *known.targets)])


class GridInversion(NamedTuple):
    """What is known, the grid, and how many particles draw among the inputs of a rounded output.

    >>> import understudy as us
    >>> room = lambda people: us.GaussMarkov(0.9 - 0.1 * people, 1.0, 0.5 + people, 0.5, mean0=50.0, cov0=1.0)
    >>> family = us.Family(room, values=[0, 1])
    >>> whole = np.round(us.sample(room(1), T=1, n=100, rng=1))
    >>> out = us.disguise(whole, source=room(1), target=room(0.3))
    >>> known = Knowledge(family, (0.3, 0.7), np.full((2, 2), 0.5), family.prior, None, None, None, None)
    >>> float(GridInversion(known, (np.ones(1), np.zeros(1))).posterior(out).argmax(axis=0).mean())
    1.0
    """

    known: Knowledge
    grid: Steps
    particles: int = 16

    def scores(self, cases: Cases) -> Array:
        """Log-odds of each value beside the first, bounded, (m - 1, N). Long sequences are cut short.

        Outputs that no model can be inverted for (gaps, where a model has no law across them) score 0.
        """
        Y = whole_rows(cases.outputs)
        rounded = on_grid(Y, self.grid).mean() > 0.5
        work = cases.N * self.known.kernel.size * (self.particles if rounded else 1)
        T = int(np.clip(_WORK // work, min(2, cases.T), cases.T))
        found = []
        for first in range(0, cases.N, _CHUNK):
            part = Y[:T, :, first : first + _CHUNK]
            try:
                logs = self.posterior(part)
            except UnderstudyError:
                logs = np.zeros((cases.m, part.shape[2]))
            found.append(np.clip(logs[1:] - logs[:1], -_SURE, _SURE))
        return np.concatenate(found, axis=1)

    def posterior(self, Y: Array) -> Array:
        """Log-probabilities (m, N), up to a common constant, given outputs (T, d, N)."""
        # Pr(theta_i given ~y) is proportional to p_i sum_j P_ij p(~y given i, j)
        with np.errstate(divide="ignore"):
            pairs = np.log(self.known.prior[:, None] * self.known.kernel)[:, :, None] + self.evidence(Y)
        return np.asarray(np.logaddexp.reduce(pairs, axis=1))

    def evidence(self, Y: Array) -> Array:
        """What speaks for each pair of parameters, (m, n, N), in outputs (T, d, N): a log-likelihood, or nearly one."""
        sources, targets = ([drop_rounding(m) for m in models] for models in (self.known.sources, self.known.targets))
        rounded = on_grid(Y, self.grid) & _linear(self.known)
        result = np.empty((len(sources), len(targets), Y.shape[2]))
        for (i, source), (j, target) in itertools.product(enumerate(sources), enumerate(targets)):
            if rounded.any() and isinstance(source, GaussMarkov) and isinstance(target, GaussMarkov):
                result[i, j, rounded] = self._rounded(Y[:, :, rounded], source, target)
            if not rounded.all():
                result[i, j, ~rounded] = self._invert(Y[:, :, ~rounded], source, target)
        return result

    def _rounded(self, Y: Array, source: GaussMarkov, target: GaussMarkov) -> Array:
        gone = np.asarray(np.isnan(Y).any(axis=1))
        parts = [Y] if (gone == gone[:, :1]).all() else np.split(Y, Y.shape[2], axis=2)
        return np.concatenate([decode(part, source, target, self.grid, self.particles) for part in parts])

    def _invert(self, Y: Array, source: Model, target: Model) -> Array:
        back = disguise(Y, source=target, target=source)
        # near the grid, or anywhere: densities on the half step to either side
        width = _slack(back, self.grid)
        near = np.log((1.0 - _STRAY) * np.exp(-distance(back, self.grid) / width) / (2.0 * width) + _STRAY)
        return np.asarray(np.nansum(near, axis=(0, 1)) + loglik(Y, target))


# Low-order digits ----------------------------------------------------------------------------------------------------


_FLOOR = 1e-9  # of a step: nearer is as good as on the grid
_SLOW = 3_000_000  # readings times pairs that inverted digits may take
_HARMONICS = 4
_WIDTHS = (3, 15, 61)


class Digits(Frozen):
    """A logistic regression on what low-order digits look like, before and after inverting."""

    __slots__ = ()

    name = "low-order digits"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """There must be a grid."""
        return "" if grid_of(cases, known) is not None else NO_GRID

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """What digits look like under each value."""
        grid = grid_of(cases, known) or (np.ones(cases.d), np.zeros(cases.d))
        if cases.once and not known.raw and cases.N * cases.T * known.kernel.size <= _SLOW and _linear(known):
            return fit_scores(DigitScores(grid, known), cases.sequences(slice(0, _LEARNED)), cases, rng, ridge=1.0)
        few = cases.sequences(slice(0, 10 * _LEARNED)) if cases.once else cases
        return fit_scores(DigitScores(grid), few, cases, rng)


class DigitScores(NamedTuple):
    """The grid, and what is known of models under which outputs are inverted, None where they are not.

    >>> cases = Cases(np.zeros((5, 1, 3)), np.zeros((5, 3), dtype=int), np.zeros((5, 3), dtype=int), 2, False)
    >>> DigitScores((np.ones(1), np.zeros(1))).scores(cases).shape
    (48, 5, 3)
    """

    grid: Steps
    inverting: Knowledge | None = None

    def scores(self, cases: Cases) -> Array:
        """What is looked at: (F, N), or (F, T, N) in windows around each reading."""
        Y, found = whole_rows(cases.outputs), []
        for first in range(0, cases.N, _CHUNK):
            part = Y[:, :, first : first + _CHUNK]
            digits = _averages(_harmonics(part, self.grid), cases.once)
            if self.inverting is not None:
                digits = np.concatenate([digits, self._invert(part, self.inverting)])
            found.append(digits)
        return np.concatenate(found, axis=-1)

    def _invert(self, Y: Array, known: Knowledge) -> Array:
        """Features of the output inverted under each value, averaged over the pseudo values given the output."""
        sources, targets = ([drop_rounding(m) for m in models] for models in (known.sources, known.targets))
        wide = [[_with_rounding(model, self.grid[0]) for model in models] for models in (sources, targets)]
        logs = np.stack([loglik(Y, model) for model in wide[1]])
        with np.errstate(divide="ignore"):
            logs = logs + np.log(known.prior @ known.kernel)[:, None]
        odds = np.exp(logs - np.logaddexp.reduce(logs, axis=0))
        columns = []
        for source, law in zip(sources, wide[0], strict=True):
            each = [self._under(Y, source, target, law) for target in targets]
            columns.append(np.sum([w * f for w, f in zip(odds, each, strict=True)], axis=0))
        return np.concatenate(columns)

    def _under(self, Y: Array, source: Model, target: Model, law: Model) -> Array:
        back = disguise(Y, source=target, target=source)
        near = distance(back, self.grid)
        steps, offsets = (part[:, None] for part in self.grid)
        snapped = offsets + steps * np.rint((back - offsets) / steps)
        missed = np.abs(disguise(snapped, source=source, target=target) - Y) / steps
        looks = (
            np.log10(near + _FLOOR), np.cos(2.0 * np.pi * near), np.cos(4.0 * np.pi * near), missed,
            np.where(np.isnan(missed), np.nan, missed > 0.5 + 1e-6),
        )  # fmt: skip
        means = _averages(np.concatenate([look.transpose(1, 0, 2) for look in looks]), once=True)
        return np.concatenate([means, loglik(snapped, law)[None] / len(Y)])


def _with_rounding(model: Model, steps: Array) -> Model:
    """A Gauss-Markov model with the variance of rounding, step^2/12, in its readings' noise."""
    return with_noise(model, steps**2 / 12.0) if isinstance(model, GaussMarkov) else model


def _harmonics(Y: Array, grid: Steps) -> Array:
    """Harmonics of the place between two grid values, of readings and differences, (F, T, N); NaN where missing."""
    place = (Y - grid[1][:, None]) / grid[0][:, None]
    moved = np.diff(place, axis=0, prepend=place[:1])
    turns = [2.0 * np.pi * h * x for x in (place, moved) for h in range(1, _HARMONICS + 1)]
    return np.concatenate([f(turn).transpose(1, 0, 2) for turn in turns for f in (np.cos, np.sin)])


def _averages(columns: Array, once: bool) -> Array:
    """Means of (F, T, N) over what is there of the sequence, or of windows of several widths."""
    F, T, N = columns.shape
    there = ~np.isnan(columns)
    filled = np.where(there, columns, 0.0)
    if once:
        return np.asarray(filled.sum(axis=1) / np.maximum(there.sum(axis=1), 1))
    total, count = (np.concatenate([np.zeros((F, 1, N)), np.cumsum(x, axis=1)], axis=1) for x in (filled, there))
    k, found = np.arange(T), []
    for width in _WIDTHS:
        high, low = np.minimum(k + width // 2 + 1, T), np.maximum(k - width // 2, 0)
        found.append((total[:, high] - total[:, low]) / np.maximum(count[:, high] - count[:, low], 1.0))
    return np.concatenate(found)


# The grid, where it is not known -------------------------------------------------------------------------------------


_TRIED = 2  # sequences that are searched for a grid


def _linear(known: Knowledge) -> bool:
    """Whether all models have a Gauss-Markov form, so that many sequences go through them at once."""
    return all(isinstance(drop_rounding(model), GaussMarkov) for model in (*known.sources, *known.targets))


def grid_of(cases: Cases, known: Knowledge) -> Steps | None:
    """Steps and offsets of all channels: what is known, or what inverting some outputs shows; None if nothing."""
    if known.grid is not None:
        return known.grid
    sequences = [cases.outputs[:, :, s] for s in range(min(cases.N, _TRIED))]
    if known.raw:
        return _detect(sequences)
    if not cases.once:
        return None
    for Y in sequences:
        # under the right pair the input is on its grid, under the others nearly never: no label is needed
        back = []
        for source, target in itertools.product(known.sources, known.targets):
            try:
                back.append(disguise(whole_rows(Y), source=drop_rounding(target), target=drop_rounding(source)))
            except UnderstudyError:
                continue
        found = _detect(back)
        if found is not None:
            return found
    return None


def _detect(sequences: list[Array]) -> Steps | None:
    """The coarsest grid that some sequence (T, d) has in every channel."""
    best: Steps | None = None
    for Y in sequences:
        grids = []
        for column in whole_rows(Y).T:
            grid = _grid(column)
            if grid is None:
                break  # a search costs something, and one channel without a grid settles it
            grids.append(grid)
        if len(grids) == Y.shape[1] and (best is None or sum(step for step, _ in grids) > float(best[0].sum())):
            steps, offsets = np.array(grids).T
            best = steps, offsets
    return best


def _grid(y: Array) -> tuple[float, float] | None:
    try:
        grid = detect_grid(y)
    except UnderstudyError:
        return None
    if not isinstance(grid, Grid) or grid.step is None or grid.changes < FEWEST_CHANGES:
        return None
    return grid.step, grid.offset
