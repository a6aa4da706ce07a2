"""Laws of dependent channels as tables: quantiles and scores of one reading in microseconds.

Asking a fitted law for one reading takes milliseconds, most of it an inversion by search. Here the quantiles of each
channel are tabulated at scores 0.002 apart and interpolated; scores are read off the same table backwards, so that both
stay inverses of each other. The error of a score is below 1e-6 where the density does not jump.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from understudy.laws.base import Array
from understudy.laws.copula import GaussianCopula

_FAR = 7.0  # scores beyond are asked of the law itself
_STEP = 0.002


class Table:
    """A law of d channels whose scores are correlated normals, L z, on a grid.

    >>> import understudy as us
    >>> law = GaussianCopula([[1.0, 0.6], [0.6, 1.0]], [us.Gaussian(0.0, 4.0), us.Gaussian(1.0, 1.0)])
    >>> table = Table(law)
    >>> round(table.quantile(0, 1.2345), 9), round(table.score(1, 0.5), 9)
    (2.469, -0.5)
    """

    def __init__(self, law: GaussianCopula) -> None:
        self._law = law
        self._L: list[list[float]] = np.linalg.cholesky(law.correlation).tolist()
        at = np.arange(-_FAR, _FAR + 0.5 * _STEP, _STEP)
        found: list[Array] = [np.maximum.accumulate(np.asarray(one.value(at), dtype=float)) for one in law.laws]
        self._at: list[float] = at.tolist()
        self._values: list[list[float]] = [column.tolist() for column in found]

    def __repr__(self) -> str:
        return f"Table(dim={len(self._values)})"

    def quantile(self, i: int, s: float) -> float:
        """The value of channel i that has this score under its own law."""
        if not -_FAR < s < _FAR:
            return float(np.asarray(self._law.laws[i].value(s)))
        k = min(int((s + _FAR) / _STEP), len(self._at) - 2)
        column = self._values[i]
        return column[k] + (column[k + 1] - column[k]) * ((s - self._at[k]) / _STEP)

    def score(self, i: int, y: float) -> float:
        """The score of a value of channel i under its own law."""
        column = self._values[i]
        if not column[0] < y < column[-1]:
            return float(np.asarray(self._law.laws[i].score(y)))
        k = bisect_right(column, y) - 1
        gap = column[k + 1] - column[k]
        return self._at[k] + _STEP * ((y - column[k]) / gap if gap > 0.0 else 0.5)

    def reported(self, z: Sequence[float], mean: Sequence[float], channels: Sequence[Any]) -> list[float]:
        """What is reported for scores z around a mean: each channel follows what was reported of those before it."""
        out: list[float] = []
        w: list[float] = []
        for i, channel in enumerate(channels):
            row = self._L[i]
            before = sum(a * b for a, b in zip(row, w, strict=False))
            y = channel.rounded(mean[i] + self.quantile(i, before + row[i] * z[i]))
            out.append(y)
            w.append((self.score(i, y - mean[i]) - before) / row[i])
        return out


def tabulated(law: Any) -> Table | None:
    """The table of a law, made once; None for laws of another kind."""
    return _table(law) if isinstance(law, GaussianCopula) else None


@lru_cache(maxsize=32)
def _table(law: GaussianCopula) -> Table:
    return Table(law)
