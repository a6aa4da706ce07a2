"""statsmodels' state space code, used to whiten under the source and colour under the target.

It is the only Kalman library here with compiled batch routines. Its `KalmanFilter` whitens but cannot colour
(`simulate` raises NotImplementedError there), so there are two readings of "the same job": the filter class
with the colouring recursion written out beside it, and the quickest way through all of statsmodels, whose
`SimulationSmoother` accepts given shocks. Both are in the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.systems import System

Array = NDArray[np.float64]
SETTLED = 1000  # steps after which a target's gains are taken as frozen; these systems need some tens


def filters(Y: Array, source: System, target: System) -> Array:
    """Two `KalmanFilter`s as documented, the colouring recursion in numpy with the second one's gains."""
    from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

    readings = Y[:, None] if Y.ndim == 1 else Y
    z = _bound(KalmanFilter, source, readings).filter().standardized_forecasts_error.T
    run = _bound(KalmanFilter, target, readings).filter()  # its gains do not depend on the readings
    gains = np.moveaxis(run.kalman_gain, 2, 0)
    factors = np.linalg.cholesky(np.moveaxis(run.forecasts_error_cov, 2, 0))
    t = target.matrices()
    x = t.A @ t.mean0 + t.b
    out = np.empty_like(readings)
    for k in range(len(readings)):
        # ~y = C xhat + d + L z;  xhat+ = A xhat + b + A K L z  (statsmodels' gain is A K)
        e = factors[k] @ z[k]
        out[k] = t.C @ x + t.d + e
        x = t.A @ x + t.b + gains[k] @ e
    return out.reshape(Y.shape)


def quickest(Y: Array, source: System, target: System) -> Array:
    """Whiten by the source's filter, colour by `simulate` with the target in innovations form.

    Both passes run inside statsmodels' compiled code. What the job does not need is switched off
    (`conserve_memory`), converged covariances are factorised once, and the target's gains, which do not
    depend on data, come from a filter over SETTLED dummy readings rather than over all T.
    """
    from statsmodels.tsa.statespace import kalman_filter as kf
    from statsmodels.tsa.statespace.simulation_smoother import SimulationSmoother

    readings = Y[:, None] if Y.ndim == 1 else Y
    spare = kf.MEMORY_NO_FILTERED | kf.MEMORY_NO_LIKELIHOOD | kf.MEMORY_NO_GAIN | kf.MEMORY_NO_SMOOTHING
    filtered = _bound(SimulationSmoother, source, readings).filter(conserve_memory=spare)
    # z = L^-1 (y - yhat), the factors L moving until the filter has converged
    z = _scale(_factors(filtered.forecasts_error_cov), filtered.forecasts_error, inverse=True)

    t = target.matrices()
    dummy = np.zeros((min(len(readings), SETTLED), readings.shape[1]))
    space = _bound(SimulationSmoother, target, dummy)
    gains = space.filter()
    L = _factors(gains.forecasts_error_cov)
    # ~y = C xhat + d + L z;  xhat+ = A xhat + b + A K L z
    measurement = _scale(L, z)
    state = _scale(np.moveaxis(gains.kalman_gain, 2, 0), measurement)
    observed, _ = space.simulate(
        len(readings),
        measurement_shocks=measurement.T,
        state_shocks=state.T,
        initial_state=t.A @ t.mean0 + t.b,
    )
    return observed.reshape(Y.shape)


def _bound(kind: Any, system: System, readings: Array) -> Any:
    m = system.matrices()
    space = kind(k_endog=len(m.d), k_states=len(m.b))
    space.bind(np.ascontiguousarray(readings))
    space["design"], space["obs_intercept"], space["obs_cov"] = m.C, m.d[:, None], m.R
    space["transition"], space["state_intercept"], space["state_cov"] = m.A, m.b[:, None], m.Q
    space["selection"] = np.eye(len(m.b))
    space.initialize_known(m.A @ m.mean0 + m.b, m.A @ m.cov0 @ m.A.T + m.Q)
    return space


def _factors(covariances: Array) -> Array:
    """Lower Cholesky factors (n, d, d) of the covariances (d, d, T) until they stay the same."""
    S = np.moveaxis(covariances, 2, 0)
    moving = np.flatnonzero((S[1:] != S[:-1]).any(axis=(1, 2)))
    return np.linalg.cholesky(S[: moving[-1] + 2 if len(moving) else 1])


def _scale(matrices: Array, columns: Array, inverse: bool = False) -> Array:
    """M_k column_k (or M_k^-1 column_k) for every k, the last of the matrices serving all later columns."""
    moving = min(len(matrices), columns.shape[1])
    last = matrices[-1]
    early = columns[:, :moving].T[:, :, None]
    late = columns[:, moving:]
    if inverse:
        done = np.linalg.solve(matrices[:moving], early)[:, :, 0].T, np.linalg.solve(last, late)
    else:
        done = (matrices[:moving] @ early)[:, :, 0].T, last @ late
    return np.concatenate(done, axis=1)
