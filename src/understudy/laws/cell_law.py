"""The law of a rounded Gaussian reading: what a sensor with a grid reports, channel by channel.

The score of a channel is u = F(a) + v (F(b) - F(a)), with (a, b) the cell of the reading, F its normal law given
the cells of the channels before, and v an auxiliary uniform. After one channel (exactly), the law of the next given
the *cells* before it is no longer normal; it is replaced by the normal law with the same mean and variance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from understudy.laws.atoms import checked_uniforms
from understudy.laws.base import Array, Frozen
from understudy.laws.cells import scores, truncated
from understudy.laws.rounding import Channel, Rounding
from understudy.laws.shapes import channels

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_ROUNDING = 8.0 * float(np.finfo(float).eps)


def conditioned(mean: Array, cov: Array, i: int, shift: Any, variance: Any) -> tuple[Array, Array]:
    """A joint normal law after its entry i was found to have mean + `shift` and `variance`; moments of the result.

    ::

        K = cov[:, i] / S,    mean += K shift,    cov -= K K' (S - variance),    S = cov[i, i]

    A third axis of `cov`, and a second of `mean`, are so many laws side by side.
    """
    S = cov[i, i]
    K = cov[:, i] / S
    outer = K[:, None] * K[None, :]
    # in this order, so that what is known exactly is left with its variance to the last digit
    return mean + K * shift, (cov - outer * S) + outer * variance


class CellLaw(Frozen):
    """Law of what is reported of N(mean, cov) by a sensor with this grid.

    >>> law = CellLaw(20.2, 4.0, Rounding(1, step=1.0))
    >>> law
    CellLaw(dim=1)
    >>> law.value(1.0)
    22.0
    >>> round(law.score(22.0, v=0.5), 6), law.value(law.score(22.0, v=0.5))
    (0.872532, 22.0)
    >>> round(math.exp(law.logpdf(22.0)), 6)
    0.132774
    """

    __slots__ = ("_cov", "_grid", "_mean", "dim")

    atoms = True

    def __init__(self, mean: Any, cov: Any, grid: Rounding) -> None:
        self.dim: int = grid.dim
        self._grid = grid
        self._mean: Any = float(np.asarray(mean).item()) if grid.dim == 1 else mean
        self._cov: Any = float(np.asarray(cov).item()) if grid.dim == 1 else cov

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"CellLaw(dim={self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return CellLaw, (self._mean, self._cov, self._grid)

    @property
    def parts(self) -> tuple[Any, Any]:
        """Mean and covariance of the unrounded reading: numbers for one channel."""
        return self._mean, self._cov

    def score(self, y: Any, v: Any = None) -> Any:
        """Randomised scores; `v` are uniforms in (0, 1), one for each reading."""
        uniforms = checked_uniforms(y, v)
        if self.dim == 1:
            y, v = (float(y), float(uniforms)) if np.ndim(y) == 0 else (np.asarray(y, dtype=float), uniforms)
            return _score(self._grid.channels[0], 0, (self._mean, math.sqrt(self._cov)), y, v)[0]
        rows, mean, cov = self._taken(y, "reading")
        aux = uniforms.tolist() if uniforms.ndim == 1 else list(uniforms)
        z = []
        for i, channel in enumerate(self._grid.channels):
            score, shift, variance = _score(channel, i, _normal(mean, cov, i), rows[i], aux[i])
            z.append(score)
            mean, cov = conditioned(mean, cov, i, shift, variance)
        return np.array(z)

    def value(self, z: Any) -> Any:
        """What is reported; the inverse of `score`."""
        if self.dim == 1:
            z = z if isinstance(z, float) else np.asarray(z, dtype=float)[()]
            return self._grid.channels[0].rounded(self._mean + math.sqrt(self._cov) * z)
        rows, mean, cov = self._taken(z, "score")
        y = []
        for i, channel in enumerate(self._grid.channels):
            q, s = _normal(mean, cov, i)
            y.append(channel.rounded(q + s * rows[i]))
            _, shift, variance = known(channel, i, (q, s), y[i])
            mean, cov = conditioned(mean, cov, i, shift, variance)
        return np.array(y)

    def logpdf(self, y: Any) -> Any:
        """Logarithm of the probability of the cell (of the density, for channels that are not rounded)."""
        if self.dim == 1:
            y = float(y) if np.ndim(y) == 0 else np.asarray(y, dtype=float)
            return known(self._grid.channels[0], 0, (self._mean, math.sqrt(self._cov)), y)[0]
        rows, mean, cov = self._taken(y, "reading")
        total = 0.0
        for i, channel in enumerate(self._grid.channels):
            log_probability, shift, variance = known(channel, i, _normal(mean, cov, i), rows[i])
            total = total + log_probability
            mean, cov = conditioned(mean, cov, i, shift, variance)
        return total

    def _taken(self, y: Any, what: str) -> tuple[list[Any], Array, Array]:
        """The channels of a reading, numbers or rows; and the law before any is known, once for each reading."""
        rows = channels(y, self.dim, what)
        if np.ndim(y) == 1:
            return rows[:, 0].tolist(), self._mean, self._cov
        count = rows.shape[1]
        return (
            list(rows),
            np.repeat(self._mean[:, None], count, axis=1),
            np.repeat(self._cov[:, :, None], count, axis=2),
        )


def _normal(mean: Array, cov: Array, i: int) -> tuple[Any, Any]:
    """Mean and standard deviation of channel i, numbers or rows."""
    if mean.ndim == 1:
        return float(mean[i]), math.sqrt(cov[i, i])
    return mean[i], np.sqrt(cov[i, i])


def known(channel: Channel, i: int, normal: tuple[Any, Any], y: Any) -> tuple[Any, Any, Any]:
    """What a reading of channel i says, of mean and standard deviation as given.

    Logarithm of its probability (or density); how far the mean moves; the variance that is left.
    """
    q, s = normal
    if not channel.step:
        e = y - q
        return -0.5 * (e / s) ** 2 - np.log(s) - _LOG_SQRT_2PI, e, 0.0
    cell = channel.cells(y, i)
    log_probability, mean, variance = truncated((cell.lower - q) / s, (cell.upper - q) / s, cell.half / s)
    return log_probability, s * mean, s * s * variance


def _score(channel: Channel, i: int, normal: tuple[Any, Any], y: Any, v: Any) -> tuple[Any, Any, Any]:
    """The score, and how mean and variance change."""
    q, s = normal
    if not channel.step:
        e = y - q
        return e / s, e, 0.0
    cell = channel.cells(y, i)
    a, b, half = (cell.lower - q) / s, (cell.upper - q) / s, cell.half / s
    log_probability, mean, variance = truncated(a, b, half)
    z = scores(a, b, log_probability, v)
    # away from the ends of the cell by what rounding can do to q + s z
    room = np.minimum(_ROUNDING * (np.abs(q) + np.abs(cell.at) + channel.step) / s, 0.25 * half)
    z = np.minimum(np.maximum(z, a + room), b - room)
    return float(z) if isinstance(y, float) else z, s * mean, s * s * variance
