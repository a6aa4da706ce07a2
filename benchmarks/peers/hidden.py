"""A hidden Markov model as one would write it down: one reading at a time, numpy and scipy.special."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri


class Chain:
    """Normal emissions; `score` and `value` are one step each and return the next prediction too."""

    def __init__(self, transition: np.ndarray, initial: np.ndarray, means: np.ndarray, sds: np.ndarray) -> None:
        self.transition, self.initial, self.means, self.sds = transition, initial, means, sds

    def cdf(self, p: np.ndarray, y: float) -> float:
        return float(p @ ndtr((y - self.means) / self.sds))

    def update(self, p: np.ndarray, y: float) -> np.ndarray:
        e = (y - self.means) / self.sds
        weight = p * np.exp(-0.5 * e * e) / self.sds
        return (weight / weight.sum()) @ self.transition

    def inverse(self, p: np.ndarray, z: float) -> float:
        each = self.means + self.sds * z
        low, high = float(each.min()), float(each.max())
        if low == high:
            return low
        u = float(ndtr(z))
        return float(brentq(lambda y: self.cdf(p, y) - u, low - 1e-9, high + 1e-9, xtol=1e-12, rtol=1e-14))


def whiten(Y: np.ndarray, chain: Chain) -> np.ndarray:
    """Scores of a whole sequence."""
    p, z = chain.initial, np.empty(len(Y))
    for k, y in enumerate(Y):
        z[k] = ndtri(chain.cdf(p, y))
        p = chain.update(p, y)
    return z


def disguise(Y: np.ndarray, source: Chain, target: Chain) -> np.ndarray:
    """Readings of one chain turned into readings of the other."""
    p, q, out = source.initial, target.initial, np.empty(len(Y))
    for k, y in enumerate(Y):
        z = ndtri(source.cdf(p, y))
        p = source.update(p, y)
        out[k] = target.inverse(q, z)
        q = target.update(q, out[k])
    return out
