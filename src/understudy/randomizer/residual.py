"""What approximate models leak themselves: their residual, charged to the design.

A model that is approximate by construction (of rounded readings, say) leaves a little of Theta in its scores, and
its method ``residual(T)`` bounds how much: D_i = KL(true law of T readings under theta_i || model i), in
nats. Two facts turn the D_i of the values, at a prior p, into a charge. Both hold also against an adversary who is told
~Theta, and for T readings only: each reading adds to D_i.

**On average.** Given ~Theta, the scores under value i are D_i away from white noise, which is the same for all i. So::

    I(Theta; ~Y_1:T) <= I(Theta; ~Theta) + sum_i p_i D_i

**For a guess.** Let d_i be the total variation between the true law and the model's of what is seen under value i. The
probability of any event, "the guess is i" among them, differs by at most d_i; so the success
sum_i p_i Pr(guess = i given i) of any guess differs by at most sum_i p_i d_i, where d_i <= sqrt(D_i / 2) (Pinsker).
Under the models no guess does better than from ~Theta itself; hence every guess errs with probability at least
(Bayes error) - sum_i p_i d_i.

Only models of values that can occur are charged. Errors in the model of a pseudo value cost no privacy.

With a fresh share s each D_i shrinks to (1 - s^2) D_i: it is the divergence of the scores from white noise, which is
what mixing with fresh chance contracts (``docs/theory.md``, "The fresh share"). At s = 1 nothing is charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Plain, Value
from understudy.errors import DesignError, HorizonMissingError, InfeasibleError, StoredFileError
from understudy.models.family import Family
from understudy.models.model import Residual
from understudy.randomizer.measures import prior_error
from understudy.serialize import fields, matrix_from_plain, number_to_plain
from understudy.text import first_readings, number, with_count

_SEED = 20230203  # a design that is computed twice is the same design
# What `least_distortion` forgives where an error is asked that cannot be exceeded.
_ROUNDING = 1e-15


Seed: TypeAlias = np.random.Generator | int | None


@runtime_checkable
class Approximate(Protocol):
    """A model that is approximate by construction, and says by how much."""

    def residual(self, T: int, *, rng: Seed = None) -> Residual:
        """The divergence of the true law of T readings from the model's."""
        ...


_LONGEST = 500  # characters of how residuals were found, in a stored charge


@dataclass(frozen=True, slots=True, repr=False)
class Charge:
    """What the models of a family leak over `horizon` readings; `charge` makes one.

    `charged` holds nats for each value: 0 where its model is exact, infinite where it was not worked out because the
    value cannot occur. `total` is sum_i p_i charged_i, what is added to the average leakage; `variation` is
    sum_i p_i min(1, sqrt(charged_i / 2)), by how much more often a guess can be right. Both are rounded up. `how` says
    in a few words how the residuals were found.

    >>> found = Charge.of([0.5, 0.5], [2e-6, 0.0], horizon=1000, how="rounded readings")
    >>> found
    Charge(1e-6 nats over 1000 readings)
    >>> found.total, round(found.variation, 6)
    (1e-06, 0.0005)
    """

    charged: tuple[float, ...]
    total: float
    variation: float
    horizon: int
    how: str

    @classmethod
    def of(cls, prior: ArrayLike, charged: Iterable[float], horizon: int, how: str) -> Charge:
        """The charge of given residuals, in nats for each value, at a given prior."""
        nats, p = tuple(map(float, charged)), [Fraction(x) for x in np.asarray(prior, dtype=float).tolist()]
        if len(nats) != len(p):
            raise DesignError(
                f"there are {len(nats)} residuals and {len(p)} prior probabilities; each value needs both"
            )
        there = [(w / sum(p), x) for w, x in zip(p, nats, strict=True) if w > 0]
        if not all(0.0 <= x < math.inf for _, x in there):
            raise DesignError("a residual is negative or not finite; a value that can occur must have a finite one")
        total = rounded_up(sum((w * Fraction(x) for w, x in there), Fraction(0)))
        moved = rounded_up(sum((w * Fraction(_variation(x)) for w, x in there), Fraction(0)))
        return cls(nats, total, moved, horizon, how)

    def at(self, prior: ArrayLike) -> Charge:
        """The same residuals at another prior."""
        return Charge.of(prior, self.charged, self.horizon, self.how)

    def to_dict(self) -> Plain:
        """The charge as a stored design keeps it."""
        return {
            "charged": [number_to_plain(x) for x in self.charged],
            "total": self.total,
            "variation": self.variation,
            "horizon": self.horizon,
            "how": self.how,
        }

    @classmethod
    def from_dict(cls, plain: Plain, prior: Array, horizon: int | None) -> Charge:
        """The charge again, for the prior and the horizon of its design; its sums are worked out anew."""
        given = fields("charge", plain, "charged", "total", "variation", "horizon", "how", kind=False)
        charged = matrix_from_plain("charge.charged", given["charged"], prior.shape).tolist()
        if type(given["horizon"]) is not int or given["horizon"] != horizon:
            raise StoredFileError("charge.horizon must be the horizon of the design")
        how = given["how"]
        if type(how) is not str or len(how) > _LONGEST or not how.isprintable():
            raise StoredFileError(f"charge.how must be a few words, at most {_LONGEST} characters")
        made = cls.of(prior, charged, given["horizon"], how)
        if made.total != given["total"] or made.variation != given["variation"]:
            raise StoredFileError("charge is not what its residuals and the prior give")
        return made

    def __repr__(self) -> str:
        return f"Charge({number(self.total, 'up')} nats over {self.readings})"

    @property
    def readings(self) -> str:
        """How many readings, in words."""
        return with_count(self.horizon, "reading")

    @property
    def first(self) -> str:
        """Which readings, in words."""
        return first_readings(self.horizon)

    @property
    def variations(self) -> tuple[float, ...]:
        """For each value, how far the probability of any event that is seen can be from the model's."""
        return tuple(map(_variation, self.charged))

    def left_for_the_draw(self, budget: float) -> float:
        """What the draw may leak where `budget` nats may leak in all: the rest, rounded down.

        >>> Charge.of([1.0], [0.125], 50, "rounded readings").left_for_the_draw(0.5)
        0.375
        """
        if budget == math.inf:
            return budget
        left = Fraction(budget) - Fraction(self.total)
        if left < 0:
            raise InfeasibleError(
                f"leakage = {budget:.6g} nats; the models themselves may leak {number(self.total, 'up')} "
                f"nats over {self.readings} ({self.how}), whatever the randomizer: allow more, or a shorter horizon"
            )
        nearest = float(left)
        return math.nextafter(nearest, 0.0) if Fraction(nearest) > left else nearest

    def asked_of_the_draw(self, error: float, prior: Array) -> float:
        """How often a guess from the draw must be wrong for one from the readings to be wrong with `error`.

        >>> found = Charge.of([0.5, 0.5], [0.03125, 0.03125], 50, "rounded readings")
        >>> found.variation, found.asked_of_the_draw(0.25, np.array([0.5, 0.5]))
        (0.125, 0.375)
        """
        if not 0.0 <= error < math.inf:
            return error  # refused further on
        wanted, most = rounded_up(Fraction(error) + Fraction(self.variation)), prior_error(prior)
        if wanted > most + _ROUNDING:
            raise InfeasibleError(
                f"error_at_least = {error:.6g}; who always guesses the likeliest value is wrong with probability "
                f"{most:.6g}, and what the models themselves leak over {self.readings} ({self.how}) may help by "
                f"{number(self.variation, 'up')}, so at most "
                f"{number(max(0.0, most - self.variation), 'down')} can be asked"
            )
        return wanted


def charge(family: Family, horizon: int | None, rng: Seed = None, fresh: float = 0.0) -> Charge | None:
    """What the models of a family leak over `horizon` readings; None where all that can occur are exact.

    `rng` is a numpy Generator or a seed, for residuals that are simulated; the seed is fixed by default. What is
    charged is then 4.75 standard errors more than the estimate. `fresh` is the fresh share; at 1 nothing is charged.

    >>> import understudy as us
    >>> charge(us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1]), horizon=None) is None
    True
    """
    p = family.prior.tolist()
    models = [family.model(value) for value in family.values]
    if fresh == 1.0 or not any(w > 0.0 and isinstance(model, Approximate) for w, model in zip(p, models, strict=True)):
        return None
    T = _readings(horizon)
    generator = np.random.default_rng(_SEED if rng is None else rng)
    charged, how = [], []
    for w, value, model in zip(p, family.values, models, strict=True):
        if not isinstance(model, Approximate):
            charged.append(0.0)
        elif w > 0.0:
            found = _residual(model, value, T, generator)
            charged.append(max(0.0, found.charged))  # an estimate can be below zero, a divergence cannot
            how.append(found.how)
        else:
            charged.append(math.inf)
    words = ", ".join(dict.fromkeys(how))
    if fresh:
        factor = (1 - Fraction(fresh) ** 2) * (1 + Fraction(1, 2**48))  # a little more, for the rounding of the mixing
        charged = [x if math.isinf(x) else rounded_up(Fraction(x) * factor) for x in charged]
        words += f", times {float(factor):.4g} for the fresh share"
    return Charge.of(p, charged, T, words)


def rounded_up(exact: Fraction) -> float:
    """The smallest double that is not below.

    >>> Fraction(rounded_up(Fraction(1, 3))) >= Fraction(1, 3)
    True
    """
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _readings(horizon: int | None) -> int:
    if horizon is None:
        raise HorizonMissingError(
            "horizon is missing: a model that is approximate, such as one of rounded readings, leaks a little "
            "with each; say for how many readings, horizon="
        )
    if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or horizon < 1:
        raise DesignError(f"horizon = {horizon!r}; it must be a whole number of at least 1")
    return int(horizon)


def _residual(model: Approximate, value: Value, T: int, rng: np.random.Generator) -> Residual:
    found = model.residual(T, rng=rng)
    if not isinstance(found, Residual) or found.steps != T:
        raise DesignError(f"the residual of the model of {value!r} must be a Residual for {T} readings, as asked")
    if not math.isfinite(found.charged):
        raise DesignError(
            f"the residual of the model of {value!r} over {T} readings is {found.charged}; without a finite one "
            "nothing can be guaranteed"
        )
    return found


def _variation(nats: float) -> float:
    """Pinsker: sqrt(D / 2), at most 1, rounded up."""
    if nats >= 2.0:
        return 1.0
    root = 0.5 * math.sqrt(2.0 * nats)  # this way round nothing underflows
    return root if Fraction(root) ** 2 >= Fraction(nats) / 2 else math.nextafter(root, 1.0)
