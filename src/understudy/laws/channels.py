"""A mixture of laws of several channels, taken apart channel by channel.

Given the channels before, each component has a law for the next channel, and the mixture of these laws,
with the weights that the channels before have left, is the law of the next channel. So a mixture is
triangular as soon as its components are. Components that can be taken apart are laws of one number,
`Independent` channels, `Gaussian` vectors and mixtures of them, copulas, and any of these `Shifted`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.errors import LawError, NumericalError, ReadingError
from understudy.laws.atoms import Atoms
from understudy.laws.base import Array, Frozen, Law
from understudy.laws.copula import GaussianCopula
from understudy.laws.gaussian import Gaussian
from understudy.laws.gaussian_mixture import GaussianMixture
from understudy.laws.independent import Independent
from understudy.laws.mixture import Mixture
from understudy.laws.shapes import vectors
from understudy.laws.shifted import Shifted

_KNOWN = (Gaussian, Independent, GaussianMixture, GaussianCopula)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def can_be_taken_apart(law: Any) -> bool:
    """Whether `next_channel` knows a law of several channels."""
    return can_be_taken_apart(law.law) if isinstance(law, Shifted) else isinstance(law, _KNOWN)


def next_channel(law: Any, before: Sequence[float]) -> Law:
    """The law of the channel that follows the channels `before`.

    >>> law = next_channel(Gaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]]), [2.0])
    >>> round(law.mean, 12), round(law.cov, 12)
    (1.6, 0.36)
    """
    n = len(before)
    if getattr(law, "dim", 1) == 1:
        return law  # type: ignore[no-any-return]  # a law, by what it is used for
    if isinstance(law, Independent):
        return law.laws[n]
    if isinstance(law, Shifted):
        shift = np.broadcast_to(law.shift, law.dim).tolist()
        return Shifted(next_channel(law.law, [y - move for y, move in zip(before, shift, strict=False)]), shift[n])
    if isinstance(law, GaussianMixture):
        return ChannelMixture(law.weights.tolist(), [*map(Gaussian, law.means, law.covs)]).next(before)
    if isinstance(law, GaussianCopula):
        scores = [float(channel.score(y)) for channel, y in zip(law.laws, before, strict=False)]
        return Warped(law.laws[n], next_channel(Gaussian(np.zeros(law.dim), law.correlation), scores))
    mean, L = gaussian_parts(law)
    z: list[float] = []
    for i, y in enumerate(before):
        # z = L^-1 (y - mean)
        z.append((y - mean[i] - sum(L[i, j] * z[j] for j in range(i))) / L[i, i])
    return Gaussian(float(mean[n] + sum(L[n, j] * z[j] for j in range(n))), float(L[n, n] ** 2))


class Warped(Frozen):
    """A reading whose score under `marginal` has the law `score_law`: one channel of a copula, given others."""

    __slots__ = ("dim", "marginal", "score_law")

    def __init__(self, marginal: Law, score_law: Law) -> None:
        self.dim, self.marginal, self.score_law = 1, marginal, score_law

    def __repr__(self) -> str:
        return "Warped(dim=1)"

    def score(self, y: Any, v: Any = None) -> Any:
        """Score of the score."""
        return self.score_law.score(self.marginal.score(y))

    def value(self, z: Any) -> Any:
        """The reading with this score."""
        return self.marginal.value(self.score_law.value(z))

    def logpdf(self, y: Any) -> Any:
        """f(y) g(s) / phi(s), with g the density of the score s; -inf outside the support of the marginal."""
        height = np.asarray(self.marginal.logpdf(y), dtype=float)
        s = np.asarray(self.marginal.score(np.where(height > -np.inf, y, self.marginal.value(0.0))), dtype=float)
        out = np.where(height > -np.inf, height + self.score_law.logpdf(s) + 0.5 * s * s + _HALF_LOG_2PI, -np.inf)
        return float(out) if out.ndim == 0 else out


def gaussian_parts(law: Gaussian) -> tuple[Array, Array]:
    """Mean (d,) and lower Cholesky factor (d, d) of a normal law."""
    mean, cov = law.given
    if law.dim == 1:
        return np.array([mean]), np.array([[math.sqrt(cov)]])
    return np.asarray(mean), np.linalg.cholesky(cov)


def mixed(weights: Sequence[float], laws: Sequence[Any]) -> Law:
    """The mixture of laws of one number; atoms must be laws on the same values.

    >>> a, b = Atoms([0.0, 1.0], [0.5, 0.5]), Atoms([0.0, 1.0], [0.1, 0.9])
    >>> mixed([0.5, 0.5], [a, b]).probabilities.round(12).tolist()
    [0.3, 0.7]
    """
    kept = [i for i, weight in enumerate(weights) if weight > 0.0]
    if len(kept) == 1:
        return laws[kept[0]]  # type: ignore[no-any-return]  # a law, by what it is used for
    if isinstance(laws[0], Atoms):
        return Atoms.trusted(laws[0].values, mixed_probabilities(weights, [law.probabilities for law in laws]))
    return Mixture([weights[i] for i in kept], [laws[i] for i in kept])


def mixed_probabilities(weights: Any, probabilities: Sequence[Array]) -> Any:
    """sum_i w_i p_i, added up in a fixed order; weights (K,), or (K, N, 1) for N mixtures."""
    total = weights[0] * probabilities[0]
    for weight, p in zip(weights[1:], probabilities[1:], strict=True):
        total = total + weight * p
    return total


def reweighted(weights: Sequence[float], logs: Sequence[float]) -> list[float]:
    """w_i exp(log_i), normalised in logarithms: an unlikely reading leaves the least unlikely component.

    >>> reweighted([0.5, 0.5], [-2000.0, -2000.0])
    [0.5, 0.5]
    """
    if any(math.isnan(log) for log in logs):
        raise NumericalError("a law gave a log-density that is not a number")
    terms = [math.log(w) + log if w > 0.0 else -math.inf for w, log in zip(weights, logs, strict=True)]
    top = max(terms)
    if not math.isfinite(top):
        raise impossible()
    likelihood = [math.exp(term - top) for term in terms]
    total = sum(likelihood)
    return [x / total for x in likelihood]


def impossible(row: int | None = None) -> ReadingError:
    """The error for a reading that no component allows."""
    where = "the reading" if row is None else f"the reading in row {row}"
    return ReadingError(f"{where} is impossible (of density zero or not finite) under every law that may hold here")


class ChannelMixture(Frozen):
    """The mixture of laws of d channels, with these weights.

    >>> a = Independent(Gaussian(0.0, 1.0), Gaussian(0.0, 1.0))
    >>> b = Independent(Gaussian(9.0, 1.0), Gaussian(9.0, 1.0))
    >>> law = ChannelMixture([0.5, 0.5], [a, b])
    >>> law
    ChannelMixture(2 laws, dim=2)
    >>> law.score([9.0, 10.0]).round(6).tolist()
    [0.67449, 1.0]
    >>> law.value(law.score([9.0, 10.0])).round(9).tolist()
    [9.0, 10.0]
    """

    __slots__ = ("atoms", "dim", "laws", "weights")

    def __init__(self, weights: Sequence[float], laws: Sequence[Any]) -> None:
        if len(weights) != len(laws) or not laws:
            raise LawError(f"there are {len(weights)} weights and {len(laws)} laws; each law needs one weight")
        self.weights, self.laws = tuple(weights), tuple(laws)
        self.dim = int(laws[0].dim)
        self.atoms = any(getattr(law, "atoms", False) for law in laws)

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"ChannelMixture({len(self.laws)} laws, dim={self.dim})"

    def score(self, y: Any, v: Any = None) -> Array:
        """The scores of the channels, each given the channels before it; `v` has the shape of `y`."""
        readings = self._columns(y)
        uniforms = None if v is None else self._columns(v)
        if uniforms is not None and uniforms.shape != readings.shape:
            raise ReadingError(
                f"auxiliary uniforms of shape {np.shape(v)}; readings of shape {np.shape(y)} need the same"
            )
        out = np.empty(readings.shape)
        for k, column in enumerate(readings.tolist()):
            before: list[float] = []
            for i, number in enumerate(column):
                law = self.next(before)
                out[k, i] = law.score(number) if uniforms is None else law.score(number, float(uniforms[k, i]))
                before.append(number)
        return out.T.reshape(np.shape(y))

    def value(self, z: Any) -> Array:
        """The reading that has these scores."""
        scores = self._columns(z)
        out = np.empty(scores.shape)
        for k, column in enumerate(scores.tolist()):
            before: list[float] = []
            for number in column:
                before.append(float(self.next(before).value(number)))
            out[k] = before
        return out.T.reshape(np.shape(z))

    def logpdf(self, y: Any) -> Any:
        """Log-density: the logarithm of the weighted sum."""
        self._columns(y)
        logs = np.stack([np.asarray(law.logpdf(y), dtype=float) for law in self.laws])
        with np.errstate(divide="ignore"):
            terms = (np.log(self.weights) + logs.T).T
        total = np.logaddexp.reduce(terms, axis=0)
        return float(total) if total.ndim == 0 else total

    def next(self, before: Sequence[float]) -> Law:
        """The law of the next channel; all channels before it are weighed at once, so that none underflows."""
        weights = (
            reweighted(self.weights, [self._log(i, before) for i in range(len(self.laws))]) if before else self.weights
        )
        # a law that the channels before have excluded has no law of the next one
        kept = [i for i, weight in enumerate(weights) if weight > 0.0]
        return mixed([weights[i] for i in kept], [next_channel(self.laws[i], before) for i in kept])

    def _log(self, i: int, before: Sequence[float]) -> float:
        """Log-density of the channels seen so far under law i."""
        total = 0.0 if self.weights[i] > 0.0 else -math.inf
        for n, number in enumerate(before):
            if total == -math.inf:
                break
            total += float(next_channel(self.laws[i], before[:n]).logpdf(number))
        return total

    def _columns(self, y: Any) -> Array:
        """One row a reading, (N, d)."""
        return vectors(y, self.dim).reshape(self.dim, -1).T
