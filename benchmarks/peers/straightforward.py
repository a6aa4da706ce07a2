"""The textbook: two Kalman predictors in numpy, matrices, one step after the other.

This is what a competent person writes in an afternoon: Cholesky and solves, no inverses, no tricks. It is
also the oracle for the other peers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.systems import System

Array = NDArray[np.float64]


def disguise(Y: Array, source: System, target: System) -> Array:
    """Readings (T,) or (T, d) of the source, disguised as the target's."""
    s, t = source.matrices(), target.matrices()
    readings = Y[:, None] if Y.ndim == 1 else Y
    out = np.empty_like(readings)
    # xhat_1|0 = A mean0 + b, Sigma_1|0 = A cov0 A' + Q
    x, P = s.A @ s.mean0 + s.b, s.A @ s.cov0 @ s.A.T + s.Q
    xt, Pt = t.A @ t.mean0 + t.b, t.A @ t.cov0 @ t.A.T + t.Q
    for k, y in enumerate(readings):
        # S = C Sigma C' + R = L L', z = L^-1 (y - yhat)
        S = s.C @ P @ s.C.T + s.R
        L = np.linalg.cholesky(S)
        e = y - (s.C @ x + s.d)
        z = np.linalg.solve(L, e)
        # ~y = ~yhat + ~L z
        St = t.C @ Pt @ t.C.T + t.R
        Lt = np.linalg.cholesky(St)
        et = Lt @ z
        out[k] = t.C @ xt + t.d + et
        x, P = _advance(s, x, P, S, e)
        xt, Pt = _advance(t, xt, Pt, St, et)
    return out.reshape(Y.shape)


def _advance(m: System, x: Array, P: Array, S: Array, e: Array) -> tuple[Array, Array]:
    # K = Sigma C' S^-1
    K = np.linalg.solve(S, m.C @ P).T
    # xhat_{k+1|k} = A (xhat + K e) + b, Sigma_{k+1|k} = A (Sigma - K S K') A' + Q
    return m.A @ (x + K @ e) + m.b, m.A @ (P - K @ S @ K.T) @ m.A.T + m.Q
