"""The systems that are timed, as plain numbers, so that every contender is given exactly the same ones.

Source and target differ in dynamics, noise and mean: with equal dynamics the disguise is a mere offset, and
the equivalent filter of order two would cancel to a constant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class System(NamedTuple):
    """X_{k+1} = A X_k + b + W_k, Y_k = C X_k + d + V_k, X_0 ~ N(mean0, cov0), first measurement Y_1."""

    A: Any
    C: Any
    Q: Any
    R: Any
    b: Any
    d: Any
    mean0: Any
    cov0: Any

    def matrices(self) -> System:
        """The same with every field a matrix or a vector, as matrix code wants it."""
        A, C, Q, R, cov0 = (np.array(v, float, ndmin=2) for v in (self.A, self.C, self.Q, self.R, self.cov0))
        b, d, mean0 = (np.array(v, float, ndmin=1) for v in (self.b, self.d, self.mean0))
        return System(A, C, Q, R, b, d, mean0, cov0)

    def model(self) -> Any:
        """The understudy model."""
        import understudy as us

        return us.GaussMarkov(**self._asdict())


# The paper's room with one person in it, and another room.
SOURCE = System(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0, d=0.0, mean0=100.0, cov0=1.0)
TARGET = System(A=0.9, C=1.0, Q=0.2, R=0.05, b=12.0, d=5.0, mean0=110.0, cov0=2.0)


def stable_system(seed: int, states: int = 4, outputs: int = 3) -> System:
    """A stable system with full matrices; the seed is fixed by the caller so that runs repeat."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(states, states))
    A *= 0.95 / np.max(np.abs(np.linalg.eigvals(A)))
    root_q, root_r, root_0 = (rng.normal(size=(n, n)) for n in (states, outputs, states))
    return System(
        A=A,
        C=rng.normal(size=(outputs, states)),
        Q=root_q @ root_q.T / states + 0.1 * np.eye(states),
        R=root_r @ root_r.T / outputs + 0.1 * np.eye(outputs),
        b=rng.normal(size=states),
        d=rng.normal(size=outputs),
        mean0=rng.normal(size=states),
        cov0=root_0 @ root_0.T / states + 0.1 * np.eye(states),
    )


SOURCE_4_3 = stable_system(seed=1)
TARGET_4_3 = stable_system(seed=2)
