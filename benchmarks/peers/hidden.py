"""A hidden Markov model as one would write it down: one reading at a time, with scipy.stats or scipy.special."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
import scipy.stats
from scipy.optimize import brentq


class Chain:
    """Normal emissions. `plain` takes scipy.stats.norm for the c.d.f. and its inverse, else scipy.special."""

    def __init__(
        self, transition: np.ndarray, initial: np.ndarray, means: np.ndarray, sds: np.ndarray, plain: bool = False
    ) -> None:
        self.transition, self.initial, self.means, self.sds = transition, initial, means, sds
        self.ndtr: Callable[[Any], Any] = scipy.stats.norm.cdf if plain else scipy.special.ndtr
        self.ndtri: Callable[[Any], Any] = scipy.stats.norm.ppf if plain else scipy.special.ndtri

    def cdf(self, p: np.ndarray, y: float) -> float:
        return float(p @ self.ndtr((y - self.means) / self.sds))

    def update(self, p: np.ndarray, y: float) -> np.ndarray:
        e = (y - self.means) / self.sds
        weight = p * np.exp(-0.5 * e * e) / self.sds
        return (weight / weight.sum()) @ self.transition

    def inverse(self, p: np.ndarray, z: float) -> float:
        each = self.means + self.sds * z
        low, high = float(each.min()), float(each.max())
        if low == high:
            return low
        u = float(self.ndtr(z))
        return float(brentq(lambda y: self.cdf(p, y) - u, low - 1e-9, high + 1e-9, xtol=1e-12, rtol=1e-14))


def whiten(Y: np.ndarray, chain: Chain) -> np.ndarray:
    """Scores of a whole sequence."""
    p, z = chain.initial, np.empty(len(Y))
    for k, y in enumerate(Y):
        z[k] = chain.ndtri(chain.cdf(p, y))
        p = chain.update(p, y)
    return z


def disguise(Y: np.ndarray, source: Chain, target: Chain) -> np.ndarray:
    """Readings of one chain turned into readings of the other."""
    p, q, out = source.initial, target.initial, np.empty(len(Y))
    for k, y in enumerate(Y):
        z = source.ndtri(source.cdf(p, y))
        p = source.update(p, y)
        out[k] = target.inverse(q, z)
        q = target.update(q, out[k])
    return out
