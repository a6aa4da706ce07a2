"""Many sensors at once through the same pair of Gauss-Markov models.

Sensors without gaps share their gains, so the loop runs over time with all sensors inside. A sensor
with a gap has gains of its own and runs by itself; each sensor's output has the same bits either way.
"""

from __future__ import annotations

import numpy as np

from understudy.laws.base import Array
from understudy.transform.backend import kernels_many, view
from understudy.transform.pair import Pair, State

_BLOCK = 1024


def apply_sensors(pair: Pair, states: tuple[State, ...], Y: Array) -> tuple[tuple[State, ...], Array]:
    """Disguise a chunk (T, d, N), one state a sensor."""
    states = tuple(pair.checked(state) for state in states)
    if len({(state[0], *state[1 + pair.n + pair.m :]) for state in states}) == 1:
        return _together(pair, states, Y)
    return _apart(pair, states, Y)


def start_sensors(pair: Pair, Y: Array) -> Array:
    """Disguise whole sequences (T, d, N) from the start."""
    return _together(pair, (pair.start(),), Y)[1]


def _apart(pair: Pair, states: tuple[State, ...], Y: Array) -> tuple[tuple[State, ...], Array]:
    out = np.empty(Y.shape)
    after = []
    for s, state in enumerate(states):
        state, out[:, :, s] = pair.apply(state, np.ascontiguousarray(Y[:, :, s]))
        after.append(state)
    return tuple(after), out


def _together(pair: Pair, states: tuple[State, ...], Y: Array) -> tuple[tuple[State, ...], Array]:
    """All sensors along common gains; `states` holds one a sensor, or a single one for all of them."""
    n, m = pair.n, pair.m
    T, d, N = Y.shape
    first = states[0]
    on = 1 + n + m
    if len(first) > on and pair.limit > 0:
        return _apart(pair, states if len(states) == N else states * N, Y)
    means = np.array([state[1:on] for state in states]).T
    # behind each mean there is room for the reading or the scores
    x, xt = np.zeros((n + d, N)), np.zeros((m + d, N))
    x[:n], xt[:m] = means[:n], means[n:]
    P, Pt = np.array(first[on : on + n * n]), np.array(first[on + n * n :])
    out = np.empty(Y.shape)
    index, k = first[0], 0
    while k < T:
        if index >= pair.limit > 0:  # beyond the end of a table that did not settle
            return _apart(pair, states if len(states) == N else states * N, Y)
        if pair.limit > 0:
            stop = min(T, k + pair.limit - index)
            a, b = pair.tables
            start = index
        else:
            stop = min(T, k + _BLOCK)
            a = view(pair.source.table(index, index + stop - k, P))
            b = view(pair.target.table(index, index + stop - k, Pt))
            start = 0
        y, o = view(Y[k:stop].reshape(-1)), view(out[k:stop].reshape(-1))
        if pair.scalar:
            kernels_many.run_scalar_many(y, o, stop - k, N, a, view(x.reshape(-1)), b, view(xt.reshape(-1)), start)
        else:
            work = view(np.empty(N * (d + 1 + max(n, m))))
            kernels_many.run_many(
                y, o, stop - k, N, d, a, n, view(x.reshape(-1)), b, m, view(xt.reshape(-1)), start, work
            )
        index += stop - k
        k = stop
    index = min(index, pair.frozen) if pair.frozen >= 0 else index
    tail = (*P.tolist(), *Pt.tolist())
    after = [(index, *row, *tail) for row in np.concatenate((x[:n], xt[:m])).T.tolist()] if len(states) == N else []
    # (An output that overflows although readings and predictors stay finite is caught where the readings are few;
    # over many sensors it comes out as an infinity.)
    # A reading that is not finite poisons its sensor's predictor to the end: those run by themselves.
    for s in np.flatnonzero(~(np.isfinite(x).all(axis=0) & np.isfinite(xt).all(axis=0))).tolist():
        state, out[:, :, s] = pair.apply(states[s if len(states) == N else 0], np.ascontiguousarray(Y[:, :, s]))
        if after:
            after[s] = state
    return tuple(after), out
