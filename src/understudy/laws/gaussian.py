"""The Gaussian law in any dimension: no c.d.f. is ever computed.

With S = L L' (lower Cholesky) the conditional c.d.f.s of the channels, one after the other, are
Phi of the components of L^-1 (y - mean). So the scores are z = L^-1 (y - mean), and a target
law turns them into ~y = ~mean + ~L z. This is Lemma 1 and Theorem 4 of the paper, all channels at
once (with the sign of the conditional mean put right).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Numbers, Plain
from understudy.errors import LawError
from understudy.serialize import Place, construct, fields, stored_array

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Gaussian:
    """Normal law with the given mean and covariance.

    A scalar mean with a scalar covariance (a variance) is a law of one number. Otherwise the mean
    is a vector and the covariance a matrix.

    >>> law = Gaussian(20.0, 4.0)
    >>> law.score(24.0)
    2.0
    >>> law.value(-1.0)
    18.0
    >>> Gaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]]).score([1.0, 0.8]).round(12).tolist()
    [1.0, 0.0]
    """

    __slots__ = ("_chol", "_cov", "_mean", "_scale", "dim")

    dim: int

    def __init__(self, mean: ArrayLike, cov: ArrayLike) -> None:
        self._mean: Any
        self._cov: Any
        if isinstance(mean, float) and isinstance(cov, float):  # the common case, kept quick
            self._mean, self._cov = mean, cov
            if not math.isfinite(mean):
                raise LawError(f"mean = {mean!r}; it must be finite")
        else:
            self._mean, self._cov = _check_moments(mean, cov)
        self._chol: Array | None = None
        if isinstance(self._cov, float):
            if not 0.0 < self._cov < math.inf:
                raise LawError(f"cov = {self._cov!r}; a variance must be positive and finite")
            self.dim, self._scale = 1, math.sqrt(self._cov)
        else:
            self.dim, self._scale = len(self._mean), 0.0
            self._chol = cholesky(self._cov, "cov")

    @property
    def mean(self) -> Any:
        """The mean: a number in dimension 1, else a vector."""
        return self._mean

    @property
    def cov(self) -> Any:
        """The covariance: a variance in dimension 1, else a matrix."""
        return self._scale**2 if self._chol is None else self._chol @ self._chol.T

    @property
    def root(self) -> Array:
        """The lower Cholesky factor of the covariance, (d, d)."""
        return np.array([[self._scale]]) if self._chol is None else self._chol

    @property
    def arguments(self) -> tuple[Any, Any]:
        """Mean and covariance as they were given: what makes the same law again, bit for bit."""
        return self._mean, self._cov

    def to_dict(self, place: Place) -> Plain:
        """Mean and covariance; see `understudy.serialize`."""
        return {"mean": np.asarray(self._mean).tolist(), "cov": np.asarray(self._cov).tolist()}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> Gaussian:
        """The law again."""
        given = fields(place, plain, "mean", "cov")
        axes = 1 if type(given["mean"]) is list else 0
        mean, cov = (
            stored_array(place / "mean", given["mean"], axes),
            stored_array(place / "cov", given["cov"], 2 * axes),
        )
        return construct(place, cls, mean, cov)

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"Gaussian(dim={self.dim})"

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Numbers:
        """Z = L^-1 (y - mean)."""
        if self._chol is None:
            z: Numbers = (_number(y) - self._mean) / self._scale
            return z
        return solve_lower(self._chol, (np.asarray(y, dtype=float).T - self._mean).T)

    def value(self, z: ArrayLike) -> Numbers:
        """Y = mean + L z."""
        if self._chol is None:
            y: Numbers = self._mean + self._scale * _number(z)
            return y
        return np.asarray((self._mean + multiply_lower(self._chol, np.asarray(z, dtype=float)).T).T)

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Log-density: log phi(z) - log det L."""
        z = self.score(y)
        if self._chol is None:
            return -0.5 * z * z - (_HALF_LOG_2PI + math.log(self._scale))
        log_det = float(np.log(np.diag(self._chol)).sum())
        height: Numbers = -0.5 * np.asarray(z * z).sum(axis=0) - (self.dim * _HALF_LOG_2PI + log_det)
        return height


def solve_lower(L: Array, y: Array) -> Array:
    """L^-1 y for a lower triangular L (d, d) and y (d,) or (d, N).

    Sums are written out, because a matrix product may round one reading and many readings differently.
    """
    z = np.empty_like(y)
    for i in range(len(L)):
        t = y[i]
        for j in range(i):
            t = t - L[i, j] * z[j]
        z[i] = t / L[i, i]
    return z


def multiply_lower(L: Array, z: Array) -> Array:
    """L z for a lower triangular L (d, d) and z (d,) or (d, N); sums are written out as in `solve_lower`."""
    y = np.empty_like(z)
    for i in range(len(L)):
        t = L[i, 0] * z[0]
        for j in range(1, i + 1):
            t = t + L[i, j] * z[j]
        y[i] = t
    return y


def cholesky(S: Array, name: str) -> Array:
    """The lower Cholesky factor of a covariance, or an error that names the rule."""
    if float(np.abs(S - S.T).max()) > 1e-9 * float(np.abs(S).max()):
        raise LawError(f"{name} is not symmetric; it must be")
    try:
        L = np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(S)[0])
        raise LawError(f"{name} has the eigenvalue {smallest:.6g}; it must be positive definite") from None
    L.flags.writeable = False
    return np.asarray(L, dtype=np.float64)


def _number(y: ArrayLike) -> Numbers:
    return y if isinstance(y, float) else np.asarray(y, dtype=float)[()]


def _check_moments(mean: ArrayLike, cov: ArrayLike) -> tuple[float, float] | tuple[Array, Array]:
    try:
        m = np.array(mean, dtype=float)
        S = np.array(cov, dtype=float)
    except (TypeError, ValueError) as error:
        raise LawError(f"mean and cov must be numbers or arrays of numbers: {error}") from None
    if not np.isfinite(m).all():
        raise LawError("mean has entries that are not finite; every entry must be")
    if not np.isfinite(S).all():
        raise LawError("cov has entries that are not finite; every entry must be")
    if m.size == 1 and S.size == 1:
        return m.item(), S.item()
    if m.ndim != 1 or S.shape != (m.size, m.size):
        raise LawError(
            f"mean has shape {m.shape} and cov has shape {S.shape}; "
            "a law of d channels needs a mean (d,) and a covariance (d, d)"
        )
    m.flags.writeable = S.flags.writeable = False
    return m, S
