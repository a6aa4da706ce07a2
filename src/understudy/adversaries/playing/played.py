"""A design played over a sequence, as a stream plays it, without ledger and records: what an audit attacks.

A `Design` draws once for a sequence, or once an epoch, for the value of theta at the first reading of the epoch. A
`CausalDesign` decides every so many readings, with memory. Between draws the filters go on from where they stood, by
the same rules as in a stream. Draws come from a generator: nobody's secret depends on them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.playing.on_grid import coloured_path, restarted, suited
from understudy.errors import ConfigurationError, MissingReadingError, ModelError
from understudy.laws.base import Array
from understudy.models.base import Model
from understudy.stream.switching import continued
from understudy.transform.filter import disguise, transformation
from understudy.transform.maps import CausalMap, colouring, has_atoms
from understudy.transform.restarting import refill_of, restarting
from understudy.transform.scores import sample
from understudy._types import Ints



class Played(NamedTuple):
    """An output and how it came about."""

    output: Array
    pseudo: Ints
    """(T,), positions of the pseudo values."""
    restarts: int
    """Gaps after which the filters had to begin anew, as the models have no law across them."""


class Stage:
    """A design ready to be played; filters are made once where they need no auxiliary uniforms."""

    def __init__(self, design: Any, epoch: int | None = None) -> None:
        if getattr(design, "family", None) is None:
            raise ConfigurationError(
                "the design has no models (us.solve makes none); an audit needs one from us.design"
            )
        self.design, self.family = design, design.family
        self.causal = hasattr(design, "decision_every")
        self.every: int | None = design.decision_every if self.causal else epoch
        self.sources: list[Model] = [self.family.model(value) for value in design.values]
        self.targets: list[Model] = [self.family.model(value) for value in design.pseudo]
        self.atoms = any(has_atoms(model) or not hasattr(model, "atoms") for model in self.sources)
        self.quick = suited((*self.sources, *self.targets))
        self._maps: dict[tuple[int, int], CausalMap] = {}
        try:
            self.refill = refill_of((*self.sources, *self.targets))
        except ModelError:
            self.refill = None

    def draws(self, theta: Ints, rng: np.random.Generator) -> Ints:
        """The pseudo path (T,) for a path of private values, none of them unknown."""
        T, every = len(theta), self.every or len(theta)
        firsts = theta[::every].tolist()
        if not self.causal:
            drawn = [self.design.draw(row, rng) for row in firsts]
        else:
            drawn, state, beliefs = [], self.design.start(), self.design.beliefs
            for row in firsts:
                state, column, _ = beliefs.draw(state, row, rng)
                drawn.append(column)
        return np.repeat(np.array(drawn, dtype=np.int64), every)[:T]

    def played(self, Y: Array, theta: Ints, rng: np.random.Generator) -> Played:
        """Readings (T, d) of one sequence, disguised with fresh draws."""
        theta = known_throughout(theta)
        Y = np.where(np.isnan(Y).any(axis=1, keepdims=True), np.nan, Y)
        if self.causal and self.design.estimated:
            theta = self._estimated(Y)
        pseudo = self.draws(theta, rng)
        secret = rng.bytes(32)
        try:
            return Played(self._released(self._through(Y, theta, pseudo, secret)), pseudo, 0)
        except MissingReadingError:
            return self._in_runs(Y, theta, pseudo, secret)

    def _estimated(self, Y: Array) -> Ints:
        """The private values as the edge would guess them, where the design accepts that."""
        from understudy.randomizer.estimating import Estimator

        made = Estimator(self.family, self.design.beliefs.transitions, self.design.decision_every)
        rows = Y[:, 0].tolist() if self.family.dim == 1 else list(Y)
        return np.array(made.rows(rows), dtype=np.int64)

    def _through(self, Y: Array, theta: Ints, pseudo: Ints, secret: bytes) -> Array:
        """The output along both paths."""
        if self.quick and self.refill is not None:
            return restarted(Y, theta, pseudo, self.sources, self.targets, secret)
        maps: dict[tuple[int, int], CausalMap] = {} if self.atoms else self._maps

        def between(i: int, j: int) -> CausalMap:
            if (i, j) not in maps:
                pair = self.sources[i], self.targets[j]
                waits = self.refill is not None
                maps[i, j] = restarting(*pair, secret) if waits else transformation(*pair, False, secret)
            return maps[i, j]

        try:
            return along(between, Y, theta, pseudo)
        except ModelError:  # filters that cannot go on from one another; a model of the whole path may know how
            paths = ([values[k] for k in path.tolist()] for values, path in self._paths(theta, pseudo))
            one, other = (self.family.along(path) for path in paths)
            return np.asarray(disguise(Y, one, other, secret)).reshape(Y.shape)

    def _paths(self, theta: Ints, pseudo: Ints) -> tuple[tuple[Any, Ints], tuple[Any, Ints]]:
        return (self.design.values, theta), (self.design.pseudo, pseudo)

    def _in_runs(self, Y: Array, theta: Ints, pseudo: Ints, secret: bytes) -> Played:
        """Each run of readings without a gap from a new beginning."""
        output, restarts = np.full(Y.shape, np.nan), -1
        there = np.asarray(~np.isnan(Y).any(axis=1))
        cuts = [0, *(np.flatnonzero(there[1:] != there[:-1]) + 1).tolist(), len(Y)]
        for start, stop in pairwise(cuts):
            if there[start]:
                rows = slice(start, stop)
                output[rows] = self._through(np.ascontiguousarray(Y[rows]), theta[rows], pseudo[rows], secret)
                restarts += 1
        return Played(self._released(output), pseudo, max(restarts, 0))

    def _released(self, output: Array) -> Array:
        """Outputs (T, d) on the lattice of the design, as streams release them."""
        found: Array = self.design.release.rounded(output)
        return found

    def readings(self, theta: Ints, rng: np.random.Generator) -> Array:
        """Readings (T, d) of the models themselves along a path of private values."""
        z = rng.standard_normal((len(theta), self.family.dim))
        if self.quick:
            return coloured_path(z, theta, self.sources)
        made = [colouring(model) for model in self.sources]
        try:
            return along(lambda i, _: made[i], z, theta, theta * 0)
        except ModelError:
            model = self.family.along([self.design.values[i] for i in theta.tolist()])
            return np.asarray(sample(model, len(theta), rng=rng)).reshape(z.shape)


def along(between: Callable[[int, int], CausalMap], Y: Array, theta: Ints, pseudo: Ints) -> Array:
    """Readings through the filters of both paths, piece by piece; the state goes on from one to the next."""
    changes = np.flatnonzero((theta[1:] != theta[:-1]) | (pseudo[1:] != pseudo[:-1])) + 1
    cuts = [0, *changes.tolist(), len(Y)]
    out = np.empty(Y.shape)
    old: CausalMap | None = None
    state: Any = None
    for start, stop in pairwise(cuts):
        new = between(int(theta[start]), int(pseudo[start]))
        if new is not old:
            state = new.start() if old is None else continued(old, new, state)
        state, out[start:stop] = new.apply(state, np.ascontiguousarray(Y[start:stop]))
        old = new
    return out


def known_throughout(theta: Ints) -> Ints:
    """A path whose unknown values are those before them, or, at the beginning, the first that is known.

    >>> known_throughout(np.array([-1, 1, -1, 0, -1])).tolist()
    [1, 1, 1, 0, 0]
    """
    known = np.flatnonzero(theta >= 0)
    if not known.size:
        raise ConfigurationError("a sequence has no known private value at all; it cannot be played")
    last = np.maximum.accumulate(np.where(theta >= 0, np.arange(len(theta)), known[0]))
    return np.asarray(theta[last])
