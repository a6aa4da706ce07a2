"""Who knows that the raw readings were on a grid: inversion and low-order digits, as learners.

Where the design knows no grid (a float map of readings that have one), it is sought: some outputs are inverted under
every pair of parameters, and the right pair lands on a grid (`us.detect_grid`).

Both attacks begin where a sequence does, for there the states of both models are known.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from understudy.adversaries.cases import Cases
from understudy.adversaries.known import Known
from understudy.adversaries.learners.calibration import Calibration, calibrated
from understudy.adversaries.learners.chains import Clock, chain_of
from understudy.adversaries.learners.digits import LowDigits
from understudy.adversaries.learners.following import FollowedAttack, obstacle
from understudy.adversaries.learners.grid import GridInversion, on_grid
from understudy.adversaries.learners.timely import Timely
from understudy.errors import UnderstudyError
from understudy.identify.grid import FEWEST_CHANGES, Grid, detect_grid
from understudy.laws.base import Array, Frozen
from understudy.models.base import Model
from understudy.models.family import Family
from understudy.models.on_grid import OnGrid
from understudy.transform.filter import disguise
from understudy.transform.maps import gauss_markov

_TRIED = 2  # sequences that are searched for a grid
_LEARNED = 2000  # sequences that are learned from
_WORK = 20_000_000  # readings times pairs of parameters times particles
_SLOW = 3_000_000  # readings times pairs that inverted digits may take
_ALONE = 20_000  # sequences times pairs, where models go through one sequence at a time
_CHUNK = 4000  # sequences at a time
_HARMONICS = 4
_WIDTHS = (3, 15, 61)
_SURE = 20.0  # nats beyond which scores are not told apart

NO_GRID = "the raw readings have no grid that is known or could be found"


class Inverted(Frozen):
    """Tries every pair of parameters and sees under which one the input was on the grid.

    For a theta that is constant over whole sequences (`GridInversion`), for one that moves reading by reading
    (`understudy.adversaries.learners.following`).
    """

    __slots__ = ()

    name = "grid inversion"

    def objection(self, cases: Cases, known: Known) -> str:
        """The output must be disguised, there must be a grid, and the models must be such that they can be undone."""
        if known.raw:
            return "the output is not disguised; there is nothing to invert"
        if not cases.once:
            return _not_followed(cases, known)
        if not _quick(known) and cases.N * known.kernel.size > _ALONE:
            return f"models without a Gauss-Markov form are inverted one by one, and {cases.N} sequences are too many"
        return "" if grid_of(cases, known) is not None else NO_GRID

    def learn(self, cases: Cases, known: Known, rng: np.random.Generator) -> InvertedAttack | FollowedAttack:
        """The grid, where it is not known, and what the scores are worth."""
        grid = grid_of(cases, known) or (np.ones(cases.d), np.zeros(cases.d))
        if not cases.once:
            every = known.decision_every or cases.T
            made = FollowedAttack(known, (float(grid[0][0]), float(grid[1][0])), chain_of(cases, known), every)
            if cases.hours is None:
                return made
            pieces = cases.sequences(slice(0, 2))
            return replace(made, timely=Timely.learned(made.logits(pieces), pieces, cases, rng))
        adversary = GridInversion(plain_family(known), known.pseudo, _grids(*grid), known.kernel)
        clock, few = Clock.learned(cases), cases.sequences(slice(0, _LEARNED))
        return InvertedAttack(
            adversary, clock, calibrated(inverted_scores(adversary, clock, few), few.truth, cases.m, rng=rng)
        )


def _not_followed(cases: Cases, known: Known) -> str:
    """Why a theta that moves is not attacked by inverting; nothing if it is."""
    if known.grid is None:
        return NO_GRID
    if on_grid(whole_rows(cases.outputs), *known.grid).all():
        return "the output is on the grid itself, and inverting it would need the raw readings"
    return obstacle([gauss_markov(model) for model in (*known.sources, *known.targets)])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InvertedAttack:
    """The inversion, what the clock says, and what the scores are worth."""

    adversary: GridInversion
    clock: Clock
    calibration: Calibration

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities (m, N)."""
        return self.calibration.logits(inverted_scores(self.adversary, self.clock, cases))


def inverted_scores(adversary: GridInversion, clock: Clock, cases: Cases) -> Array:
    """Scores of each value beside the first, bounded, and the clock's, (F, N). Long sequences are cut short.

    Outputs that no model can be inverted for (gaps, where a model has no law across them) score 0.
    """
    Y = whole_rows(cases.outputs)
    rounded = on_grid(Y, adversary.steps, adversary.offsets).mean() > 0.5
    work = cases.N * adversary.kernel.size * (adversary.particles if rounded else 1)
    T = int(np.clip(_WORK // work, min(2, cases.T), cases.T))
    found = []
    for first in range(0, cases.N, _CHUNK):
        part = Y[:T, :, first : first + _CHUNK]
        try:
            scores = adversary.guess(part).scores
        except UnderstudyError:
            scores = np.zeros((cases.m, part.shape[2]))
        found.append(np.clip(scores[1:] - scores[:1], -_SURE, _SURE))
    return np.concatenate([np.concatenate(found, axis=1), clock.scores(cases)])


class Digits(Frozen):
    """A logistic regression on low-order digits (`LowDigits`)."""

    __slots__ = ()

    name = "low-order digits"

    def objection(self, cases: Cases, known: Known) -> str:
        """There must be a grid."""
        return "" if grid_of(cases, known) is not None else NO_GRID

    def learn(self, cases: Cases, known: Known, rng: np.random.Generator) -> DigitsAttack:
        """What digits look like under each value."""
        grid = grid_of(cases, known) or (np.ones(cases.d), np.zeros(cases.d))
        clock, few = Clock.learned(cases), cases.sequences(slice(0, 10 * _LEARNED)) if cases.once else cases
        inverting: LowDigits | None = None
        if cases.once and not known.raw and cases.N * cases.T * known.kernel.size <= _SLOW and _quick(known):
            few = cases.sequences(slice(0, _LEARNED))
            inverting = LowDigits(plain_family(known), known.pseudo, _grids(*grid), known.kernel)
        scores = digit_scores(few, *grid, inverting, clock)
        return DigitsAttack(*grid, inverting, clock, calibrated(scores, few.truth, cases.m, ridge=10.0, rng=rng))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DigitsAttack:
    """The grid, features of inverted outputs where they can be had, the clock, and what all are worth."""

    steps: Array
    offsets: Array
    inverting: LowDigits | None
    clock: Clock
    calibration: Calibration

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities (m, T, N), or (m, N) where theta is constant in a sequence."""
        return self.calibration.logits(digit_scores(cases, self.steps, self.offsets, self.inverting, self.clock))


def digit_scores(cases: Cases, steps: Array, offsets: Array, inverting: LowDigits | None, clock: Clock) -> Array:
    """What is looked at: (F, N), or (F, T, N) in windows around each reading.

    >>> cases = Cases(np.zeros((5, 1, 3)), np.zeros((5, 3), dtype=int), np.zeros((5, 3), dtype=int), 2, False)
    >>> digit_scores(cases, np.ones(1), np.zeros(1), None, Clock(None)).shape
    (48, 5, 3)
    """
    Y, found = whole_rows(cases.outputs), []
    for first in range(0, cases.N, _CHUNK):
        part = Y[:, :, first : first + _CHUNK]
        if inverting is not None:
            found.append(inverting.features(part))
        else:
            waves, there = _waves(part, steps, offsets)
            found.append(_averages(waves, there, cases.once))
    return np.concatenate([np.concatenate(found, axis=-1), clock.scores(cases)])


def _waves(Y: Array, steps: Array, offsets: Array) -> tuple[Array, Array]:
    """Harmonics of the place between two grid values, of readings and differences, (F, T, N); and which are there."""
    place = (Y - offsets[:, None]) / steps[:, None]
    moved = np.diff(place, axis=0, prepend=place[:1])
    turns = [2.0 * np.pi * h * x for x in (place, moved) for h in range(1, _HARMONICS + 1)]
    waves = np.concatenate([f(turn).transpose(1, 0, 2) for turn in turns for f in (np.cos, np.sin)])
    there = ~np.isnan(waves)
    return np.where(there, waves, 0.0), there.astype(float)


def _averages(waves: Array, there: Array, once: bool) -> Array:
    """Means over the sequence, or over windows of several widths."""
    if once:
        return np.asarray(waves.sum(axis=1) / np.maximum(there.sum(axis=1), 1.0))
    F, T, N = waves.shape
    total, count = (np.concatenate([np.zeros((F, 1, N)), np.cumsum(x, axis=1)], axis=1) for x in (waves, there))
    k, found = np.arange(T), []
    for width in _WIDTHS:
        high, low = np.minimum(k + width // 2 + 1, T), np.maximum(k - width // 2, 0)
        found.append((total[:, high] - total[:, low]) / np.maximum(count[:, high] - count[:, low], 1.0))
    return np.concatenate(found)


def whole_rows(Y: Array) -> Array:
    """Outputs in which a reading is there with all its channels, or missing."""
    return np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, Y)


def plain_family(known: Known) -> Family:
    """The models of readings before they are put on a grid."""
    return Family(lambda value: _plain(known.family.model(value)), known.family.values, known.prior)


def _plain(model: Any) -> Any:
    return model.model if type(model) is OnGrid else model


def _quick(known: Known) -> bool:
    """Whether all models have a Gauss-Markov form, so that many sequences go through them at once."""
    models: list[Model] = [getattr(_plain(m), "linear", _plain(m)) for m in (*known.sources, *known.targets)]
    return all(gauss_markov(model) is not None for model in models)


def _grids(steps: Array, offsets: Array) -> tuple[Grid, ...]:
    """Grids as `detect_grid` tells them, with no more than step and offset in them."""
    rest = (None, None, 1.0, 0.0, None, None, 0.0, 1, None, False, 0, 0, 0, 0.0)
    return tuple(Grid(s, o, *rest) for s, o in zip(steps.tolist(), offsets.tolist(), strict=True))


def grid_of(cases: Cases, known: Known) -> tuple[Array, Array] | None:
    """Steps and offsets of all channels: what is known, or what inverting some outputs shows; None if nothing."""
    if known.grid is not None:
        return known.grid
    if known.raw:
        return _detected([cases.outputs[:, :, s] for s in range(min(cases.N, _TRIED))])
    if not cases.once:
        return None
    family = plain_family(known)
    for s in range(min(cases.N, _TRIED)):
        # under the right pair the input is on its grid, under the others nearly never: no label is needed
        back = []
        for theta, value in itertools.product(family.values, known.pseudo):
            try:
                back.append(_inverted(cases.outputs[:, :, s], family, theta, value))
            except UnderstudyError:
                continue
        found = _detected(back)
        if found is not None:
            return found
    return None


def _inverted(Y: Array, family: Family, theta: Any, pseudo: Any) -> Array:
    return disguise(whole_rows(Y), source=family.model(pseudo), target=family.model(theta))


def _detected(sequences: list[Array]) -> tuple[Array, Array] | None:
    """The coarsest grid that some sequence (T, d) has in every channel."""
    best: tuple[Array, Array] | None = None
    for Y in sequences:
        steps, offsets = [], []
        for column in whole_rows(Y).T:
            grid = _grid(column)
            if grid is None:
                break  # a search costs something, and one channel without a grid settles it
            steps.append(grid[0])
            offsets.append(grid[1])
        if len(steps) == Y.shape[1] and (best is None or sum(steps) > float(best[0].sum())):
            best = np.array(steps), np.array(offsets)
    return best


def _grid(y: Array) -> tuple[float, float] | None:
    try:
        grid = detect_grid(y)
    except UnderstudyError:
        return None
    if not isinstance(grid, Grid) or grid.step is None or grid.changes < FEWEST_CHANGES:
        return None
    return grid.step, grid.offset
