"""The models of all values of a family, going on from one shared state: one law of the next reading for each value.

The state is what `Family.along` keeps, so that a path may take any of the values at any step: filtered moments for
Gauss-Markov members, filtered probabilities for hidden Markov ones (moved by the next member, not by the last), the
state of the model for others. None stands for the state before the first reading, where each value has its own.

There is one exception. A member that gives the law across a gap after its end (`Markov`, which says so by
`defers_gaps`) knows nothing of the others. After missing readings the law under each value is the one in which that
value held throughout the gap. A path refuses another value there, for no exact law is known, and so does a stream when
the value that is taken changes; the filter itself goes on with what is then an approximation.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from understudy.laws.base import Frozen, Law
from understudy.laws.channels import reweighted
from understudy.models.base import Model
from understudy.models.family import Family
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.quantised import Quantised

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Predictors(Protocol):
    """Next readings under each value, by position, from one state."""

    @property
    def dim(self) -> int:
        """Channels of a reading."""
        ...

    def logpdfs(self, state: Any, y: Any) -> list[float]:
        """Log-density of the next reading under each value."""
        ...

    def value(self, state: Any, i: int, z: Any) -> Any:
        """The next reading that has these scores under value i."""
        ...

    def update(self, state: Any, i: int, y: Any) -> Any:
        """The state after a reading that is taken to be of value i."""
        ...

    def skip(self, state: Any, i: int) -> Any:
        """The state after a missing reading."""
        ...


def predictors(family: Family) -> Predictors:
    """The shared predictor of the values of a family; refuses members that cannot follow each other, saying why.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v, mean0=0.0, cov0=0.1), values=[0, 1])
    >>> both = predictors(family)
    >>> after = both.update(None, 1, 1.2)
    >>> round(both.value(after, 0, 0.0), 6), round(both.value(after, 1, 0.0), 6)
    (1.015943, 2.015943)
    """
    whole = family.along(family.values)
    members = [family.model(value) for value in family.values]
    first = members[0]
    if isinstance(whole, GaussMarkov):
        linear = [m if isinstance(m, GaussMarkov) else m.gauss_markov for m in members]  # type: ignore[attr-defined]
        return _Numbers(linear) if first.dim == linear[0].states == 1 else _Members(linear)
    if isinstance(first, HiddenMarkov):
        return _Hidden(members)
    if isinstance(whole, Quantised):  # all with the filter that the path has
        members = [Quantised(m.linear, **whole.grid.given, method=whole.method) for m in members]  # type: ignore[attr-defined]
    return _Members(members)


class _Members(Frozen):
    """Members that go on from each other's states as they are."""

    __slots__ = ("dim", "members")

    def __init__(self, members: list[Any]) -> None:
        self.members: tuple[Any, ...] = tuple(members)
        self.dim: int = self.members[0].dim

    def law(self, state: Any, i: int) -> Law:
        """Law of the next reading under value i."""
        model: Model = self.members[i]
        return model.predict(model.start() if state is None else state)

    def logpdfs(self, state: Any, y: Any) -> list[float]:
        return [float(self.law(state, i).logpdf(y)) for i in range(len(self.members))]

    def value(self, state: Any, i: int, z: Any) -> Any:
        y = self.law(state, i).value(z)
        return float(y) if self.dim == 1 else np.asarray(y, dtype=float)

    def update(self, state: Any, i: int, y: Any) -> Any:
        model = self.members[i]
        return _read_only(model.update(model.start() if state is None else state, y))

    def skip(self, state: Any, i: int) -> Any:
        model = self.members[i]
        return _read_only(model.skip(model.start() if state is None else state))


class _Hidden(_Members):
    """Hidden Markov members: probabilities of the hidden state at the last reading, moved by whoever is next."""

    __slots__ = ()

    def _moved(self, state: Any, i: int) -> Any:
        model = self.members[i]
        return model.start() if state is None else model.skip(state)

    def law(self, state: Any, i: int) -> Law:
        law: Law = self.members[i].predict(self._moved(state, i))
        return law

    def update(self, state: Any, i: int, y: Any) -> Any:
        logs = [float(law.logpdf(y)) for law in self.members[i].emissions]
        return tuple(reweighted(self._moved(state, i), logs))

    def skip(self, state: Any, i: int) -> Any:
        return self._moved(state, i)


class _Numbers(Frozen):
    """Gauss-Markov members of one state and one channel, in plain numbers: state = (step, mean, variance)."""

    __slots__ = ("_constant", "_starts", "dim", "members")

    def __init__(self, members: list[GaussMarkov]) -> None:
        self.members = tuple(members)
        self.dim = 1
        self._starts = tuple((0, float(m.mean0.item()), float(m.cov0.item())) for m in members)
        self._constant = tuple(_floats(m, 1) if m.constant else None for m in members)

    def _law(self, state: Any, i: int) -> tuple[float, float, float, float, tuple[float, ...]]:
        """Mean and variance of the state and of the reading, and the matrices."""
        k, x, P = self._starts[i] if state is None else state
        system = self._constant[i] or _floats(self.members[i], k + 1)
        A, b, Q, C, d, R = system
        # xhat_{k|k-1} = A xhat_{k-1|k-1} + b, Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q, S = C Sigma C' + R
        x, P = A * x + b, A * P * A + Q
        return x, P, C * x + d, C * P * C + R, system

    def logpdfs(self, state: Any, y: Any) -> list[float]:
        found = []
        for i, start in enumerate(self._starts):
            k, x, P = start if state is None else state
            A, b, Q, C, d, R = self._constant[i] or _floats(self.members[i], k + 1)
            S = C * (A * P * A + Q) * C + R
            e = y - (C * (A * x + b) + d)
            found.append(-0.5 * (e * e / S + math.log(S)) - _HALF_LOG_2PI)
        return found

    def value(self, state: Any, i: int, z: Any) -> Any:
        _, _, mean, S, _ = self._law(state, i)
        return mean + math.sqrt(S) * float(z)

    def update(self, state: Any, i: int, y: Any) -> Any:
        x, P, mean, S, (_, _, _, C, _, R) = self._law(state, i)
        K = P * C / S
        J = 1.0 - K * C
        return (0 if state is None else state[0]) + 1, x + K * (y - mean), J * P * J + K * R * K

    def skip(self, state: Any, i: int) -> Any:
        x, P, _, _, _ = self._law(state, i)
        return (0 if state is None else state[0]) + 1, x, P


def _floats(model: GaussMarkov, k: int) -> tuple[float, ...]:
    return tuple(float(matrix.item()) for matrix in model.at(k))


def _read_only(state: Any) -> Any:
    if isinstance(state, tuple):
        for part in state:
            if isinstance(part, np.ndarray):
                part.flags.writeable = False
    return state
