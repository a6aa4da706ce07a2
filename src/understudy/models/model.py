"""What a model is: the law of a whole measurement sequence, as a causal recursion.

Sampling, likelihood, whitening, colouring and every check derive from the four methods below, so a
class of your own that has them works everywhere. States are values: `update` and `skip` return a
new one and leave the old one alone.

A reading of a model with ``dim == 1`` is a float; with ``dim > 1`` it is an array ``(dim,)``.

`Residual` is what an approximate source model gives away beyond the randomizer. If the model of theta_i is not
exactly the law of its readings, the scores are not exactly white, and

    I(Theta; ~Y) <= I(Theta; ~Theta) + sum_i p_i KL(true law under theta_i || model i)

over the whole sequence (the data-processing inequality; theory note in the documentation). A model that
is approximate by construction, such as a rounded sensor, has a method ``residual(T)`` that computes its
divergence, so that a design can charge it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from understudy._types import Array, Numbers
from understudy.laws.law import Law

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    State = TypeVarWithDefault("State", default=Any)
else:
    State = TypeVar("State")


@runtime_checkable
class Model(Protocol[State]):
    """A causal recursion: the state before y_1, and what each reading does to it.

    Optional: ``emit(state, z) -> (state, y)``, for a model that must feed back something else than
    what it releases (a rounded sensor). Two attributes open faster paths, to the same answer:
    ``gauss_markov``, an equivalent `GaussMarkov` model or None, and ``innovations``, a pair of a
    `GaussMarkov` recursion with standard normal noise (None where readings do not depend on each
    other) and the law that its scores have in truth.
    """

    @property
    def dim(self) -> int:
        """Number of channels of a reading."""
        ...

    def start(self) -> State:
        """State before y_1."""
        ...

    def predict(self, state: State) -> Law:
        """Law of the next reading given the past."""
        ...

    def update(self, state: State, y: Numbers) -> State:
        """State after the reading `y`."""
        ...

    def skip(self, state: State) -> State:
        """State after a missing reading."""
        ...


def is_model(thing: Any) -> bool:
    """Whether something has the four methods of a model, and a dimension."""
    return hasattr(thing, "dim") and all(
        callable(getattr(thing, name, None)) for name in ("start", "predict", "update", "skip")
    )


# What an approximate source model gives away beyond the randomizer -----------------------------------


# One-sided normal quantile of 1 - 1e-6: a charge is too small in one case of a million.
_MARGIN = 4.753424308822899


class Residual(NamedTuple):
    """Divergence of the true law of T readings from the model's, in nats.

    >>> r = Residual(kl=2e-4, error=1e-6, steps=1000, how="point-mass filter, 16 sequences")
    >>> math.isclose(r.per_reading, 2e-7)
    True
    >>> round(r.charged, 9)
    0.000204753
    """

    kl: float
    """The divergence over all readings: an estimate, or exact where `error` is 0."""
    error: float
    """Its standard error (wider where it rests on few sequences)."""
    steps: int
    """Number of readings, T."""
    how: str
    """In a few words, how it was computed."""

    @classmethod
    def estimated(cls, totals: Array, steps: int, how: str) -> Residual:
        """From the divergences of independent sequences.

        The error is widened by Student's factor, so that the charge, the mean plus 4.75 errors, is too small once in
        a million for few sequences too.

        >>> import numpy as np
        >>> Residual.estimated(np.array([1.0, 2.0, 3.0]), 10, "three sequences").kl
        2.0
        """
        from scipy.special import ndtri, stdtrit

        count = len(totals)
        student = float(stdtrit(count - 1, 1e-6) / ndtri(1e-6))
        error = student * float(totals.std(ddof=1)) / math.sqrt(count)
        return cls(max(0.0, float(totals.mean())), error, int(steps), how)

    @property
    def per_reading(self) -> float:
        """Mean divergence a reading."""
        return self.kl / self.steps

    @property
    def charged(self) -> float:
        """What a design charges: the estimate plus 4.75 standard errors (too small once in a million)."""
        return self.kl + _MARGIN * self.error

    @property
    def variation(self) -> float:
        """How far, at most, the probability of anything an adversary sees may move: sqrt(KL / 2) (Pinsker)."""
        return min(1.0, math.sqrt(0.5 * self.charged))
