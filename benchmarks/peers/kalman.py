"""Kalman filter libraries in Python, used to whiten under the source and colour under the target.

They are driven one reading at a time (simdkalman whitens in batch, in a Python loop of its own). None of them
knows colouring, so each is asked for the target's prediction and then told its own output.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.systems import System

Array = NDArray[np.float64]


def filterpy(Y: Array, source: System, target: System) -> Array:
    """Two filters and `scipy.stats.norm`, word for word as the paper has it: u = F(y), ~y = ~F^-1(u)."""
    from filterpy.kalman import KalmanFilter
    from scipy.stats import norm

    def predictor(m: System) -> Any:
        k = KalmanFilter(dim_x=1, dim_z=1, dim_u=1)
        k.F, k.H, k.Q, k.R = m.A, m.C, m.Q, m.R
        k.B, k.x, k.P = np.eye(1), m.mean0[:, None], m.cov0
        return k

    s, t = source.matrices(), target.matrices()
    whitener, colourer = predictor(s), predictor(t)
    b, bt, d, dt = s.b[:, None], t.b[:, None], float(s.d[0]), float(t.d[0])
    out = np.empty_like(Y)
    for k, y in enumerate(Y.tolist()):
        whitener.predict(u=b)
        mean = (s.C @ whitener.x)[0, 0] + d
        deviation = math.sqrt((s.C @ whitener.P @ s.C.T + s.R)[0, 0])
        u = norm.cdf(y, mean, deviation)
        whitener.update(y - d)
        colourer.predict(u=bt)
        mean = (t.C @ colourer.x)[0, 0] + dt
        deviation = math.sqrt((t.C @ colourer.P @ t.C.T + t.R)[0, 0])
        out[k] = norm.ppf(u, mean, deviation)
        colourer.update(out[k] - dt)
    return out


def pykalman(Y: Array, source: System, target: System) -> Array:
    """`filter_update` twice a reading; the prediction, which it does not return, in floats beside it."""
    from pykalman import KalmanFilter

    def predictor(m: System) -> Any:
        return KalmanFilter(
            transition_matrices=m.A,
            observation_matrices=m.C,
            transition_covariance=m.Q,
            observation_covariance=m.R,
            transition_offsets=m.b,
            observation_offsets=m.d,
            initial_state_mean=m.mean0,
            initial_state_covariance=m.cov0,
        )

    s, t = source.matrices(), target.matrices()
    whitener, colourer = predictor(s), predictor(t)
    x, P, xt, Pt = s.mean0, s.cov0, t.mean0, t.cov0
    out = np.empty_like(Y)
    for k, y in enumerate(Y.tolist()):
        mean, deviation = _predict(source, x[0], P[0, 0])
        z = (y - mean) / deviation
        x, P = whitener.filter_update(x, P, y)
        mean, deviation = _predict(target, xt[0], Pt[0, 0])
        out[k] = mean + deviation * z
        xt, Pt = colourer.filter_update(xt, Pt, out[k])
    return out


def _predict(m: System, x: float, P: float) -> tuple[float, float]:
    """Mean and standard deviation of the next scalar reading, from the filtered state."""
    variance = m.C * (m.A * float(P) * m.A + m.Q) * m.C + m.R
    return m.C * (m.A * float(x) + m.b) + m.d, math.sqrt(variance)


def simdkalman(Y: Array, source: System, target: System) -> Array:
    """(T,) or (T, N) readings: whiten by `compute`, N sensors at once, then colour with its single steps.

    simdkalman has no offsets, so the means, which are known beforehand, are taken off and put on again.
    """
    from simdkalman import KalmanFilter

    def predictor(m: System) -> Any:
        return KalmanFilter(m.A, m.Q, m.C, m.R)

    series = np.ascontiguousarray(Y[None, :] if Y.ndim == 1 else Y.T)
    T = series.shape[1]
    s, t = source.matrices(), target.matrices()
    P = s.A @ s.cov0 @ s.A.T + s.Q
    centred = series - _mean_path(source, T)
    whitener = predictor(s)
    run = whitener.compute(
        centred,
        0,
        initial_value=[[0.0]],
        initial_covariance=P,
        smoothed=False,
        filtered=True,
        observations=False,
    ).filtered.states
    # yhat_{k+1} = C A m_k and S_{k+1} = C (A P_k A' + Q) C' + R from the filtered m_k, P_k
    yhat = np.concatenate([np.zeros((len(series), 1)), source.C * source.A * run.mean[:, :-1, 0]], axis=1)
    prior = np.concatenate([[P[0, 0]], source.A**2 * run.cov[0, :-1, 0, 0] + source.Q])
    z = (centred - yhat) / np.sqrt(source.C**2 * prior + source.R)

    colourer = predictor(t)
    m, P = np.zeros((len(series), 1, 1)), np.tile(t.A @ t.cov0 @ t.A.T + t.Q, (len(series), 1, 1))
    out = np.empty_like(series)
    for k in range(T):
        mean, S = colourer.predict_observation(m, P)
        y = mean + np.sqrt(S) * z[:, k, None, None]
        out[:, k] = y[:, 0, 0]
        m, P = colourer.update(m, P, y)[:2]
        m, P = colourer.predict_next(m, P)
    out += _mean_path(target, T)
    return out[0] if Y.ndim == 1 else out.T


def _mean_path(m: System, T: int) -> Array:
    """E Y_k, k = 1..T, of a scalar system: A^k (mean0 - limit) + limit, measured."""
    limit = m.b / (1 - m.A)
    return m.C * (m.A ** np.arange(1, T + 1) * (m.mean0 - limit) + limit) + m.d
