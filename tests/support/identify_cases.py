"""Histories made from known models, for tests of the fitters."""

from __future__ import annotations

import numpy as np

import understudy as us
from understudy.identify.history import History, Segment


def labels(rng, T, values, stay=0.98):
    """A path of the private parameter: a chain that mostly stays."""
    path = np.zeros(T, dtype=np.intp)
    for k in range(1, T):
        path[k] = path[k - 1] if rng.random() < stay else rng.integers(values)
    return path


def history_of(segments, values, readings=None):
    """A history of (Y, theta) pairs."""
    parts = tuple(
        Segment(str(i), None, np.ascontiguousarray(np.reshape(Y, (len(theta), -1)), dtype=float), theta)
        for i, (Y, theta) in enumerate(segments)
    )
    names = readings or tuple(f"y{i}" for i in range(parts[0].Y.shape[1]))
    return History(names, "theta", None, (), tuple(values), None, parts, ())


def simulated(models, lengths, seed, stay=0.98):
    """Readings of these models (a dict) along random paths, one for each length."""
    rng = np.random.default_rng(seed)
    family, values = us.Family(models), list(models)
    segments = []
    for T in lengths:
        theta = labels(rng, T, len(values), stay)
        segments.append((us.sample(family.along([values[i] for i in theta]), T, rng=rng), theta))
    return history_of(segments, values)


def with_holes(history, seed, missing=0.05, unlabelled=0.05):
    """The same with single readings and labels lost, and one longer gap in each segment."""
    rng = np.random.default_rng(seed)
    segments = []
    for segment in history.segments:
        Y, theta = segment.Y.copy(), segment.theta.copy()
        T = len(Y)
        Y[rng.random(T) < missing] = np.nan
        theta[rng.random(T) < unlabelled] = -1
        Y[T // 2 : T // 2 + 7] = np.nan
        if Y.shape[1] > 1:
            Y[rng.random(T) < missing, 0] = np.nan
        segments.append((Y, theta))
    return history_of(segments, history.values)


def changed(history, change):
    """The same with `change` applied to a copy of the readings of each segment."""
    segments = []
    for number, segment in enumerate(history.segments):
        Y = segment.Y.copy()
        change(Y, number)
        segments.append((Y, segment.theta))
    return history_of(segments, history.values)


def total(parts):
    """Sum over the readings that are there."""
    return float(sum(np.nansum(part) for part in parts))
