"""The paper's room (Section V), which the commands work on when they are given nothing else."""

from __future__ import annotations

import numpy as np

import understudy as us
from understudy.laws.base import Array

A, B = 0.95, 10.0


def room(people: float) -> us.GaussMarkov:
    """CO2 in a room with this many people."""
    return us.GaussMarkov(A=A, C=1.0, Q=0.1, R=0.1, b=B * people, mean0=100.0, cov0=1.0)


def estimates(Y: Array) -> Array:
    """Occupancy from running averages: (mean of y_2..y_k - A mean of y_1..y_{k-1}) / B."""
    k = np.arange(1, len(Y)).reshape(-1, *[1] * (Y.ndim - 1))
    return np.asarray((np.cumsum(Y[1:], axis=0) - A * np.cumsum(Y[:-1], axis=0)) / (B * k))
