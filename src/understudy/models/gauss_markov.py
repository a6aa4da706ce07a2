"""Gauss-Markov readings (paper, Section IV-C): a linear state seen through noise.

::

    X_{k+1} = A X_k + b + W_k      W_k ~ N(0, Q)
    Y_k     = C X_k + d + V_k      V_k ~ N(0, R)       X_0 ~ N(mean0, cov0), first reading Y_1

The predictive law of Y_k is Gaussian, and the Kalman recursion finds it. The state kept here is the
*filtered* one, the law of X_{k-1} given y_1..y_{k-1}, so that the matrices of step k (the move into
X_k and the reading Y_k) are needed only when reading k arrives. That is what lets a parameter move:
theta_k enters the step into x_k.

The methods here are the textbook recursion. The quick one, with gain tables and compiled loops, is
in `understudy.transform`; a test holds the two together.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import ModelError
from understudy.laws.base import Array, Frozen
from understudy.laws.gaussian import Gaussian
from understudy.models.matrices import Parameter, as_array, covariance, shaped, spectral_radius

# Eigenvalues of a double unit root are found to about 1e-8, so 1 is told from more than 1 at this.
_UNIT_ROOT = 1e-7

# What rounding leaves of a variance that is zero, in the Joseph form: the square of the unit roundoff.
_NOTHING = 1e-26


class System(NamedTuple):
    """The matrices of one step: the move into X_k and the reading Y_k."""

    A: Array
    b: Array
    Q: Array
    C: Array
    d: Array
    R: Array

    def row(self) -> Array:
        """All of them in this order, flattened: what the compiled loops read."""
        return np.concatenate([matrix.ravel() for matrix in self])


class Filtered(NamedTuple):
    """Law of X_k given the first k readings."""

    k: int
    mean: Array
    cov: Array


class GaussMarkov(Frozen):
    """A linear Gaussian state space model.

    Scalars or arrays. `A` and `C` fix the number of states n and of channels d. A parameter may be
    given per step, as a sequence (`us.PerStep`, or an array with one axis more) or as a callable of
    k = 1, 2, ...: the entry of step k governs the move into X_k *and* the reading Y_k.

    Q, R and cov0 are positive semidefinite; every innovation covariance must be positive definite.
    A constant `A` with spectral radius above 1 is refused unless `allow_unstable`. Without `mean0`
    and `cov0`, X_0 has the stationary law, which needs a constant, stable system.

    >>> import understudy as us
    >>> room = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0, mean0=100.0, cov0=1.0)
    >>> round(float(us.whiten([106.0], room)[0]), 6)
    0.952381
    """

    __slots__ = (
        "_parameters",
        "_row",
        "_system",
        "allow_unstable",
        "constant",
        "cov0",
        "dim",
        "mean0",
        "memo",
        "states",
        "steps",
    )

    def __init__(
        self,
        A: Any,
        C: Any,
        Q: Any,
        R: Any,
        b: Any = 0.0,
        d: Any = 0.0,
        mean0: Any = None,
        cov0: Any = None,
        *,
        allow_unstable: bool = False,
    ) -> None:
        pA, pC = Parameter("A", A, 2), Parameter("C", C, 2)
        n = pA.at(1).shape[0]
        channels = pC.at(1).shape[0]
        self.allow_unstable: bool = bool(allow_unstable)
        self.states: int = n
        self.dim: int = channels
        pb, pd = Parameter("b", _zeros(b, n), 1, n), Parameter("d", _zeros(d, channels), 1, channels)
        pQ, pR = Parameter("Q", Q, 2), Parameter("R", R, 2)
        self._parameters = (pA, pb, pQ, pC, pd, pR)
        lengths = {p.steps for p in self._parameters if p.steps is not None}
        if len(lengths) > 1:
            raise ModelError(f"parameters are given for {sorted(lengths)} steps; these numbers must agree")
        self.steps: int | None = lengths.pop() if lengths else None
        self.constant: bool = all(p.constant for p in self._parameters)
        for parameter, shape in zip(
            self._parameters, [(n, n), (n,), (n, n), (channels, n), (channels,), (channels, channels)], strict=True
        ):
            parameter.settle(shape, covariance=parameter.name in "QR")
        self._system: System | None = System(*(p.at(1) for p in self._parameters)) if self.constant else None
        self._row: Array | None = None if self._system is None else self._system.row()
        if self._system is not None:
            radius = spectral_radius(self._system.A)
            if radius > 1.0 + _UNIT_ROOT and not allow_unstable:
                raise ModelError(
                    f"A has an eigenvalue of modulus {radius:.6g}; above 1 the readings grow without bound "
                    "(allow_unstable=True if that is meant)"
                )
        self.mean0, self.cov0 = self._initial(mean0, cov0)
        self._check_innovations()
        # Room for what the transformation works out once about this model.
        self.memo: dict[str, Any] = {}

    def __repr__(self) -> str:
        # The matrices tell the private parameter, so they are not shown.
        kind = "constant" if self.constant else "per step"
        return f"GaussMarkov(states={self.states}, dim={self.dim}, {kind})"

    def __reduce__(self) -> tuple[Any, ...]:
        # a copy is made anew, so that its arrays are read-only again and nothing worked out comes along
        return _remade, (self.given,)

    @property
    def given(self) -> dict[str, Any]:
        """The arguments that make the same model again, bit for bit; mean0 and cov0 as they were worked out."""
        parameters = {p.name: p.given for p in self._parameters}
        return {**parameters, "mean0": self.mean0, "cov0": self.cov0, "allow_unstable": self.allow_unstable}

    @classmethod
    def from_continuous(
        cls,
        A: Any,
        C: Any,
        Q: Any,
        R: Any,
        b: Any = 0.0,
        d: Any = 0.0,
        mean0: Any = None,
        cov0: Any = None,
        *,
        period: float,
        allow_unstable: bool = False,
    ) -> GaussMarkov:
        """Sample dX = (A X + b) dt + dW, cov dW = Q dt, every `period`; Y_k = C X(k period) + d + V_k.

        Exact, by the matrix exponential of Van Loan's block matrix and doubling.

        >>> import understudy as us
        >>> room = us.GaussMarkov.from_continuous(A=-0.1, C=1.0, Q=0.2, R=0.1, b=50.0, period=0.5)
        >>> round(float(room.A[0, 0]), 6)
        0.951229
        """
        from scipy.linalg import expm

        if not (isinstance(period, (int, float)) and 0.0 < period < float("inf")):
            raise ModelError(f"period = {period!r}; it must be a positive number")
        F = as_array("A", A, 2)
        n = F.shape[0]
        F = shaped("A", F, (n, n))
        u = shaped("b", as_array("b", _zeros(b, n), 1), (n,))
        Qc = covariance("Q", as_array("Q", Q, 2), n)
        # Over a short time s: expm([[-F, Q], [0, F']] s) = [[., e^-Fs Qd], [0, e^F's]], and b beside it.
        # The backward e^-Fs is harmless only while |F| s is small, so the rest is done by doubling.
        doublings = max(0, math.ceil(math.log2(max(1e-300, float(np.abs(F).sum(axis=1).max()) * period))))
        s = period / 2.0**doublings
        block = np.zeros((2 * n, 2 * n))
        block[:n, :n], block[:n, n:], block[n:, n:] = -F, Qc, F.T
        E = expm(block * s)
        Ad = E[n:, n:].T
        Qd = Ad @ E[:n, n:]
        drift = np.zeros((n + 1, n + 1))
        drift[:n, :n], drift[:n, n] = F, u
        bd = expm(drift * s)[:n, n]
        for _ in range(doublings):
            Qd = Qd + Ad @ Qd @ Ad.T
            bd = bd + Ad @ bd
            Ad = Ad @ Ad
        return cls(Ad, C, (Qd + Qd.T) / 2.0, R, bd, d, mean0, cov0, allow_unstable=allow_unstable)

    # The matrices ---------------------------------------------------------------------------------

    def at(self, k: int) -> System:
        """The matrices of step k = 1, 2, ..."""
        if self._system is not None:
            return self._system
        return System(*(p.at(k) for p in self._parameters))

    def row(self, k: int) -> Array:
        """The matrices of step k, flattened one after the other."""
        return self.at(k).row() if self._row is None else self._row

    @property
    def A(self) -> Array:
        """State matrix of a constant model; `at(k)` serves every model."""
        return self._constant().A

    @property
    def b(self) -> Array:
        """State offset of a constant model."""
        return self._constant().b

    @property
    def Q(self) -> Array:
        """State noise covariance of a constant model."""
        return self._constant().Q

    @property
    def C(self) -> Array:
        """Output matrix of a constant model."""
        return self._constant().C

    @property
    def d(self) -> Array:
        """Output offset of a constant model."""
        return self._constant().d

    @property
    def R(self) -> Array:
        """Measurement noise covariance of a constant model."""
        return self._constant().R

    def _constant(self) -> System:
        if self._system is None:
            raise ModelError("the matrices change with time; at(k) gives those of step k")
        return self._system

    # The recursion --------------------------------------------------------------------------------

    def start(self) -> Filtered:
        """Law of X_0."""
        return Filtered(0, self.mean0, self.cov0)

    def predict(self, state: Filtered) -> Gaussian:
        """Y_k ~ N(C xhat_{k|k-1} + d, C Sigma_{k|k-1} C' + R)."""
        system = self.at(state.k + 1)
        x, P = self._moved(state, system)
        C, d, R = system.C, system.d, system.R
        return Gaussian(C @ x + d, C @ P @ C.T + R)

    def update(self, state: Filtered, y: Any) -> Filtered:
        """xhat_{k|k} = xhat_{k|k-1} + K (y - C xhat_{k|k-1} - d), Joseph form for the covariance."""
        system = self.at(state.k + 1)
        x, P = self._moved(state, system)
        C, d, R = system.C, system.d, system.R
        S = C @ P @ C.T + R
        # K = Sigma C' S^-1
        K = np.linalg.solve(S, C @ P).T
        J = np.eye(self.states) - K @ C
        P = J @ P @ J.T + K @ R @ K.T
        return Filtered(state.k + 1, x + K @ (np.atleast_1d(y) - C @ x - d), (P + P.T) / 2.0)

    def skip(self, state: Filtered) -> Filtered:
        """xhat_{k|k} = xhat_{k|k-1}."""
        x, P = self._moved(state, self.at(state.k + 1))
        return Filtered(state.k + 1, x, P)

    @staticmethod
    def _moved(state: Filtered, system: System) -> tuple[Array, Array]:
        # xhat_{k|k-1} = A xhat_{k-1|k-1} + b, Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q
        A, b, Q = system.A, system.b, system.Q
        return A @ state.mean + b, A @ state.cov @ A.T + Q

    # Checks ---------------------------------------------------------------------------------------

    def _initial(self, mean0: Any, cov0: Any) -> tuple[Array, Array]:
        n = self.states
        if mean0 is None or cov0 is None:
            if self._system is None or spectral_radius(self._system.A) >= 1.0 - _UNIT_ROOT:
                raise ModelError(
                    "mean0 and cov0 must be given: a system that is not constant and stable has no stationary law"
                )
            A, b, Q = self._system[:3]
            mean0 = np.linalg.solve(np.eye(n) - A, b) if mean0 is None else mean0
            cov0 = _stationary_covariance(A, Q) if cov0 is None else cov0
        mean = shaped("mean0", as_array("mean0", _zeros(mean0, n), 1), (n,))
        cov = cov0 if not np.isscalar(cov0) or n == 1 or cov0 else np.zeros((n, n))
        return mean, covariance("cov0", as_array("cov0", cov, 2), n)

    def _check_scalar(self, A: float, b: float, Q: float, C: float, d: float, R: float) -> None:
        """The same for one state and one channel, in plain numbers: families are made of many small models."""
        P = cov0 = float(self.cov0.item())
        for k in (1, 2):
            moved = A * P * A + Q
            S = C * moved * C + R
            if not (math.isfinite(S) and _NOTHING * (C * A) ** 2 * cov0 < S):
                raise _no_law(k, S)
            P = moved * (R / S)

    def _check_innovations(self) -> None:
        """A reading that is known beforehand has no law; n + 1 steps show any constant system that gets there."""
        if self.states == self.dim == 1 and self._system is not None:
            self._check_scalar(*(float(matrix.item()) for matrix in self._system))
            return
        state = Filtered(0, np.zeros(self.states), self.cov0)
        for k in range(1, 1 + (self.states + 1 if self.constant else 1)):
            system = self.at(k)
            C, R = system.C, system.R
            _, P = self._moved(state, system)
            S = C @ P @ C.T + R
            # channels may have very different units, so the matrix is judged as a correlation
            unit = np.sqrt(np.maximum(np.diag(S), np.finfo(float).tiny))
            smallest = float(np.linalg.eigvalsh(S)[0])
            floor = _NOTHING * float(np.abs(C @ system.A).max()) ** 2 * float(np.abs(self.cov0).max())
            if not (float(np.linalg.eigvalsh(S / np.outer(unit, unit))[0]) > 1e-15 and np.diag(S).min() > floor):
                raise _no_law(k, smallest)
            state = self.update(state._replace(k=k - 1), np.zeros(self.dim))


def _no_law(k: int, smallest: float) -> ModelError:
    return ModelError(
        f"the innovation covariance C Sigma C' + R of reading {k} has the eigenvalue {smallest:.6g}; "
        "it must be positive definite, and not so small beside cov0 that rounding decides"
    )


def _remade(given: dict[str, Any]) -> GaussMarkov:
    return GaussMarkov(**given)


def _zeros(given: Any, size: int) -> Any:
    """The number 0 stands for a vector of zeros; no other number stands for a longer vector."""
    return np.zeros(size) if isinstance(given, (int, float)) and given == 0 else given


def _stationary_covariance(A: Array, Q: Array) -> Array:
    """P = A P A' + Q by doubling: P <- P + A P A', A <- A A."""
    P = Q
    while float(np.abs(A).max()) > 1e-200:
        P = P + A @ P @ A.T
        A = A @ A
    return (P + P.T) / 2.0
