"""What hiding must cost, whatever the method: a bound from the raw readings alone.

Somebody who looks at one output at a time, knowing the laws Q_0 and Q_1 of the output in both classes, reaches the
balanced accuracy 1/2 + TV(Q_0, Q_1)/2. So a method that keeps him to at most `accuracy` has
TV(Q_0, Q_1) <= 2 accuracy - 1, and its mean absolute distortion is at least

    min  p_0 W(P_0, Q_0) + p_1 W(P_1, Q_1)   subject to   TV(Q_0, Q_1) <= 2 accuracy - 1,

with P_i the laws of the readings and W the least mean distance of a transport. It is a linear program over cells of
the reading. Cells lie as near to each other as their nearest points do, and outputs are told apart by cell only, so
that the figure stays a lower bound. An adversary who looks at more than one output only raises what hiding costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy._types import Array

CELLS = 100
ACCURACIES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9)


def least_distortion(y: Array, theta: Any, accuracy: float, cells: int = CELLS) -> float:
    """The least mean absolute distortion of any method at which one output tells theta (0 or 1) no better than that.

    >>> y, theta = np.repeat([400.0, 1000.0], 50), np.repeat([0, 1], 50)
    >>> round(least_distortion(y, theta, 0.5), 6), round(least_distortion(y, theta, 0.75), 6)
    (300.0, 150.0)
    """
    import scipy.sparse as sp
    from scipy.optimize import linprog

    low, high, place = _cells(np.asarray(y, dtype=float), cells)
    k, theta = len(low), np.asarray(theta)
    shares = [float((theta == i).mean()) for i in (0, 1)]
    laws = [np.bincount(place[theta == i], minlength=k) / max(1, int((theta == i).sum())) for i in (0, 1)]
    apart = np.maximum(0.0, np.maximum(low[:, None] - high[None, :], low[None, :] - high[:, None])).ravel()
    n = k * k
    given, made = sp.kron(sp.eye(k), np.ones((1, k))), sp.kron(np.ones((1, k)), sp.eye(k))
    none = sp.csr_matrix
    # unknown: transports of both classes (n each), and s >= Q_0 - Q_1 whose sum is the total variation
    equal = sp.vstack([sp.hstack([given, none((k, n + k))]), sp.hstack([none((k, n)), given, none((k, k))])])
    bound = sp.vstack([sp.hstack([made, -made, -sp.eye(k)]), sp.hstack([none((1, 2 * n)), np.ones((1, k))])])
    found = linprog(
        np.concatenate([shares[0] * apart, shares[1] * apart, np.zeros(k)]),
        A_ub=bound.tocsr(),
        b_ub=np.concatenate([np.zeros(k), [2.0 * accuracy - 1.0]]),
        A_eq=equal.tocsr(),
        b_eq=np.concatenate(laws),
        method="highs",
    )
    return max(0.0, float(found.fun))


def _cells(y: Array, cells: int) -> tuple[Array, Array, Any]:
    """The least and the greatest reading of each cell, and the cell of each reading; cells hold about as many."""
    edges = np.unique(np.quantile(y, np.linspace(0.0, 1.0, cells + 1)))
    place = np.clip(np.searchsorted(edges, y, side="right") - 1, 0, max(0, len(edges) - 2))
    _, place = np.unique(place, return_inverse=True)
    count = int(place.max()) + 1
    low = np.array([y[place == i].min() for i in range(count)])
    high = np.array([y[place == i].max() for i in range(count)])
    return low, high, place


def floors(y: Array, theta: Any, accuracies: tuple[float, ...] = ACCURACIES) -> list[dict[str, float]]:
    """The bound at several accuracies, in units of the reading and in percent of its mean."""
    mean = float(np.mean(y))
    found = []
    for accuracy in accuracies:
        least = least_distortion(y, theta, accuracy)
        found.append({"accuracy": accuracy, "distortion": round(least, 2), "percent": round(100.0 * least / mean, 2)})
    return found
