"""Mixtures of Gaussian vectors: triangular, because the conditional laws are mixtures again.

Given channels 1..l-1, component k has the weight w_k times its density there, and channel l is normal
under it. With S_k = L_k L_k' and e_k = L_k^-1 (y - mean_k), whose first l - 1 entries need no more
than those channels,

    mean of channel l under k = mean_k,l + sum_{j<l} L_k,lj e_k,j,    standard deviation = L_k,ll.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from understudy.errors import LawError
from understudy.laws.base import Array, Frozen
from understudy.laws.blend import checked_weights, log_sum
from understudy.laws.normal_mixture import gaussian_mixture_score, gaussian_mixture_value
from understudy.laws.shapes import channels, check_inside, check_reached, shaped

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class GaussianMixture(Frozen):
    """A vector from one of several Gaussian laws, with the given probabilities.

    `means` is (K, d) and `covs` (K, d, d); for one channel both may be (K,), with variances.

    >>> law = GaussianMixture([0.5, 0.5], [[-3.0, 0.0], [3.0, 0.0]], [np.eye(2), 4.0 * np.eye(2)])
    >>> law
    GaussianMixture(2 laws, dim=2)
    >>> law.value(law.score([3.0, 4.0])).round(9).tolist()
    [3.0, 4.0]
    """

    __slots__ = ("_given", "_log_w", "_means", "_roots", "_weights", "dim")

    dim: int

    def __init__(self, weights: Any, means: Any, covs: Any) -> None:
        m, S = _checked(means, covs)
        self._weights = checked_weights(weights, len(m), "means")
        self._given = tuple(np.asarray(weights, dtype=float).tolist()), m, S
        self.dim = m.shape[1]
        keep = self._weights > 0.0
        self._log_w = np.log(self._weights[keep])[:, None]
        # (d, K, 1) and (d, d, K, 1): channel, component, reading
        self._means = m[keep].T[:, :, None]
        self._roots = np.moveaxis(_roots(S)[keep], 0, 2)[:, :, :, None]

    @property
    def weights(self) -> Array:
        """The probabilities of the components, summing to 1."""
        return self._weights

    @property
    def means(self) -> Array:
        """The means of the components, (K, d)."""
        return self._given[1]

    @property
    def covs(self) -> Array:
        """The covariances of the components, (K, d, d)."""
        return self._given[2]

    def __reduce__(self) -> tuple[Any, ...]:
        return GaussianMixture, self._given

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"GaussianMixture({self._weights.size} laws, dim={self.dim})"

    def score(self, y: Any, v: Any = None) -> Any:
        """The scores of the channels, each given those before it; NaN from the first missing one on."""
        readings = channels(y, self.dim, "reading")
        z = np.empty(readings.shape)
        past = _Past(self, readings.shape[1])
        with np.errstate(all="ignore"):
            for i, row in enumerate(readings):
                z[i] = gaussian_mixture_score(row, *past.predict(i), log_weights=True)
                past.update(i, row)
        check_inside(z, np.shape(y))
        check_reached(z, _known(readings), np.shape(y), "reading")
        return shaped(z, np.shape(y))

    def value(self, z: Any) -> Any:
        """The reading with these scores, channel after channel."""
        wanted = channels(z, self.dim, "score")
        y = np.empty(wanted.shape)
        past = _Past(self, wanted.shape[1])
        with np.errstate(all="ignore"):
            for i, row in enumerate(wanted):
                y[i] = gaussian_mixture_value(row, *past.predict(i), log_weights=True)
                past.update(i, y[i])
        check_reached(y, _known(wanted), np.shape(z), "score")
        return shaped(y, np.shape(z))

    def logpdf(self, y: Any) -> Any:
        """Log-density of all channels together."""
        readings = channels(y, self.dim, "reading")
        past = _Past(self, readings.shape[1])
        with np.errstate(all="ignore"):
            for i, row in enumerate(readings):
                past.update(i, row)
            height = log_sum(past.log_w) - self.dim * _HALF_LOG_2PI
        return shaped(height, np.shape(y) if self.dim == 1 else np.shape(y)[1:])


class _Past:
    """What the channels seen so far say about the components."""

    def __init__(self, law: GaussianMixture, count: int) -> None:
        self._means, self._roots = law._means, law._roots
        self._errors: list[Array] = []
        self.log_w = np.repeat(law._log_w, count, axis=1) if law.dim > 1 else law._log_w

    def _mean(self, i: int) -> Array:
        # sums written out: a matrix product may round one reading and many readings differently
        mean = self._means[i]
        for j, e in enumerate(self._errors):
            mean = mean + self._roots[i, j] * e
        return np.asarray(mean)

    def predict(self, i: int) -> tuple[Array, Array, Array]:
        """Log-weights, means and scales of channel i, (N, K) or (1, K)."""
        log_w = self.log_w - log_sum(self.log_w) if self._errors else self.log_w
        return log_w.T, self._mean(i).T, self._roots[i, i].T

    def update(self, i: int, y: Array) -> None:
        """Takes channel i into account."""
        scale = self._roots[i, i]
        e = (y - self._mean(i)) / scale
        self.log_w = self.log_w - 0.5 * e * e - np.log(scale)
        self._errors.append(e)


def _known(given: Array) -> Array:
    """NaN from the first missing channel on."""
    return np.where(np.logical_or.accumulate(np.isnan(given), axis=0), np.nan, given)


def _checked(means: Any, covs: Any) -> tuple[Array, Array]:
    try:
        m, S = np.array(means, dtype=float), np.array(covs, dtype=float)
    except (TypeError, ValueError) as error:
        raise LawError(f"means and covs must be arrays of numbers: {error}") from None
    if m.ndim == 1 and S.ndim == 1:
        m, S = m[:, None], S[:, None, None]
    if m.ndim != 2 or m.size == 0 or S.shape != (*m.shape, m.shape[1]):
        raise LawError(
            f"means have shape {m.shape} and covs have shape {S.shape}; K laws of d channels need means (K, d) "
            "and covariances (K, d, d)"
        )
    for name, array in (("means", m), ("covs", S)):
        if not np.isfinite(array).all():
            raise LawError(f"{name} have entries that are not finite; every entry must be")
    m.flags.writeable = S.flags.writeable = False
    return m, S


def _roots(covs: Array) -> Array:
    """The lower Cholesky factors."""
    roots = np.empty(covs.shape)
    for k, S in enumerate(covs):
        if float(np.abs(S - S.T).max()) > 1e-9 * float(np.abs(S).max()):
            raise LawError(f"covariance {k} is not symmetric; it must be")
        try:
            roots[k] = np.linalg.cholesky(S)
        except np.linalg.LinAlgError:
            smallest = float(np.linalg.eigvalsh(S)[0])
            raise LawError(f"covariance {k} has the eigenvalue {smallest:.6g}; it must be positive definite") from None
    return roots
