"""The mean and variance of each of the next readings, when gains have settled and all steps are equal.

Seen from a state s = (delta, ~x) with drift r and covariance P, the difference read j steps later has ::

    mean       m + h (1 + F + .. + F^(j-1)) r
    variance   h F^j P F^j' h' + h (N + F N F' + .. + F^(j-1) N F^(j-1)') h' + noise of the reading

where all but m, r and P are the same whenever one looks.
"""

from __future__ import annotations

import numpy as np

from understudy.distortion.matrices import Form, entries, plus, product, times, total
from understudy.distortion.moments import Moments, Step
from understudy.laws.base import Array


class Ahead:
    """The next `count` steps of all pairs."""

    def __init__(self, step: Step, count: int) -> None:
        self.step, self.count = step, count
        A, D, B = step.move.F
        one, other = step.H, step.E
        if other is None and D is not None:
            other = np.zeros((*one.shape[:2], *D.shape[2:]))
        own, cross = [one], [other]  # h F^j = [own, cross]
        while len(own) < count:
            one, other = product(one, A), plus(times(one, D), times(other, B))
            own.append(one)
            cross.append(other)
        H = np.stack(own)  # (steps, c, n, sources, 1)
        E = np.stack([part for part in cross if part is not None]) if other is not None else None
        self._own, self._cross = _earlier(H), None if E is None else _earlier(E)
        self._seen = Form(_outer(H, H), _outer(H, E), _outer(E, E))
        within = self._seen.dot(step.move.N)
        if within is not None:
            within = np.concatenate((np.zeros((1, *within.shape[1:])), np.cumsum(within[:-1], axis=0)))
        self._noise = plus(within, None if step.noise is None else step.noise[:, 0])

    def readings(self, state: Moments) -> tuple[Array, Array]:
        """Means and variances of the differences, (steps, c, sources, targets)."""
        delta, x = self.step.drift(state)
        means = total(self.step.mean(state)[:, 0], entries(self._own, delta), entries(self._cross, x))
        variances = plus(self._seen.dot(state.P), self._noise)
        return means, np.zeros(means.shape) if variances is None else np.maximum(variances, 0.0)


def _earlier(X: Array) -> Array:
    """The sums over all earlier steps of (steps, c, n, pairs), as (n, 1, steps, c, pairs)."""
    sums = np.concatenate((np.zeros((1, *X.shape[1:])), np.cumsum(X[:-1], axis=0)))
    return np.ascontiguousarray(sums.transpose(2, 0, 1, 3, 4))[:, None]


def _outer(X: Array | None, Y: Array | None) -> Array | None:
    """The products of rows with rows: (n, n, steps, c, pairs) from (steps, c, n, pairs)."""
    return None if X is None or Y is None else np.ascontiguousarray(np.einsum("kci...,kcj...->ijkc...", X, Y))
