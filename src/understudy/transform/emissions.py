"""One law at many readings, and one mixture of atoms for each reading: what a hidden Markov model is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from understudy.errors import NumericalError, ReadingError
from understudy.laws.atoms import Atoms, intervals, positions, randomised_scores
from understudy.laws.base import Array
from understudy.laws.channels import gaussian_parts, mixed_probabilities
from understudy.laws.gaussian import Gaussian
from understudy.laws.independent import Independent

_HALF_LOG_2PI = 0.9189385332046727


class GaussianBank:
    """Gaussian laws of all states side by side: means (d, S) and lower Cholesky factors (d, d, S)."""

    def __init__(self, laws: tuple[Any, ...]) -> None:
        parts = [_factors(law) for law in laws]
        self.means: Array = np.stack([mean for mean, _ in parts], axis=-1)
        self.factors: Array = np.stack([factor for _, factor in parts], axis=-1)
        self.logs: Array = np.log(np.stack([np.diag(factor) for _, factor in parts], axis=-1))

    def under(self, Y: Array) -> tuple[Array, Array]:
        """Scores and log-densities (N, d, S) of readings (N, d), each channel given the channels before it."""
        L, Z = self.factors, Y[:, :, None] - self.means
        # sums written out: a matrix product may round one reading and many readings differently
        for i in range(Y.shape[1]):
            for j in range(i):
                Z[:, i] -= L[i, j] * Z[:, j]
            Z[:, i] /= L[i, i]
        with np.errstate(over="ignore"):
            return Z, -0.5 * Z * Z - (self.logs + _HALF_LOG_2PI)


class LawBank:
    """Laws of all states that are laws of one number, independent channels or Gaussian vectors."""

    def __init__(self, laws: tuple[Any, ...]) -> None:
        self._laws = [GaussianBank((law,)) if type(law) is Gaussian else law for law in laws]

    def under(self, Y: Array) -> tuple[Array, Array]:
        """The same; outside a support a score is infinite, and for atoms, scored elsewhere, zero."""
        Z, G = np.empty((*Y.shape, len(self._laws))), np.empty((*Y.shape, len(self._laws)))
        for s, law in enumerate(self._laws):
            if isinstance(law, GaussianBank):
                Z[:, :, s : s + 1], G[:, :, s : s + 1] = law.under(Y)
                continue
            for i, channel in enumerate(law.laws if isinstance(law, Independent) else [law]):
                y = Y[:, i]
                Z[:, i, s] = 0.0 if isinstance(channel, Atoms) else _scores(channel, y)
                G[:, i, s] = channel.logpdf(y)
        return Z, G


def _scores(law: Any, y: Array) -> Array:
    """Scores of one number; infinite outside the support, NaN where they cannot be computed."""
    score = getattr(law, "score_or_end", law.score)
    try:
        return np.asarray(score(y), dtype=float)
    except (ReadingError, NumericalError):
        return np.array([_score(law, score, reading) for reading in y.tolist()])


def _score(law: Any, score: Any, y: float) -> float:
    try:
        return float(score(y))
    except ReadingError:
        return -np.inf if y < law.value(0.0) else np.inf
    except NumericalError:
        return np.nan


def bank(laws: tuple[Any, ...]) -> GaussianBank | LawBank:
    """The laws of all states, ready to be asked about many readings."""
    return GaussianBank(laws) if all(is_gaussian(law) for law in laws) else LawBank(laws)


def is_known(law: Any, dim: int) -> bool:
    """Whether a bank can hold a law: any of one number, else independent channels and Gaussian vectors."""
    return dim == 1 or type(law) in (Gaussian, Independent)


def is_gaussian(law: Any) -> bool:
    """Whether a law is Gaussian, or made of independent Gaussian channels."""
    if type(law) is Independent:
        return all(type(channel) is Gaussian for channel in law.laws)
    return type(law) is Gaussian


def _factors(law: Any) -> tuple[Array, Array]:
    if isinstance(law, Independent):
        parts = [gaussian_parts(channel) for channel in law.laws if isinstance(channel, Gaussian)]
        return np.concatenate([mean for mean, _ in parts]), np.diag([factor.item() for _, factor in parts])
    return gaussian_parts(law)


class AtomTables:
    """A channel with atoms: the values, and their probabilities under each state."""

    def __init__(self, laws: list[Any]) -> None:
        self.values: Array = laws[0].values
        self.probabilities: list[Array] = [law.probabilities for law in laws]

    def scores(self, W: Array, y: Array, v: Array) -> Array:
        """Each reading under its own mixture, with weights (N, S)."""
        p = mixed_probabilities(W.T[:, :, None], self.probabilities)
        below, above, edges = intervals(p)
        n, i = np.arange(y.size), positions(self.values, y)
        return randomised_scores(p[n, i], below[n, i], above[n, i + 1], edges[n, i], edges[n, i + 1], v)


def atom_channels(emissions: tuple[Any, ...], dim: int) -> Iterator[tuple[int, AtomTables]]:
    """The channels that have atoms."""
    for i in range(dim):
        laws = [law.laws[i] if isinstance(law, Independent) else law for law in emissions]
        if isinstance(laws[0], Atoms):
            yield i, AtomTables(laws)
