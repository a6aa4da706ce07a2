"""How the private parameter moves: a Markov chain from the labels, and what the clock alone says.

    Pr(theta_{k+1} = j given theta_k = i) = (n_ij + 1/m) / (n_i + 1)

n_ij counts changes from i to j between neighbouring rows with known labels, within segments. The one transition that is
added to each row, spread over all m values, keeps what was never seen possible. Hours of the day are drawn towards the
whole by one hour's worth of rows: an hour with few labels says what all hours say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array
from understudy.errors import ConfigurationError, StoredFileError
from understudy.identify.history import History
from understudy.tables.times import hours, in_words

_HOURS = 24


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Chain:
    """The chain of the private parameter, at one period. Its text shows sizes only.

    >>> from understudy.identify.history import History, Segment
    >>> segment = Segment("1", None, np.zeros((6, 1)), np.array([0, 0, 0, 1, 1, 0]))
    >>> chain = chain_of(History(("co2",), "people", None, (), (0, 1), 60.0, (segment,), ()))
    >>> chain
    Chain(2 values, 60 s, 5 transitions)
    >>> chain.transition.round(3).tolist()
    [[0.625, 0.375], [0.5, 0.5]]
    """

    values: tuple[Any, ...]
    period: float | None
    transition: Array
    """(m, m), rows sum to one: from one row of the data to the next."""
    prior: Array
    """Share of each value among the labels."""
    transitions: int
    """How many pairs of neighbouring labels there were."""
    by_hour: Array | None = None
    """(24, m): share of each value at each hour of the day; None without times."""
    transition_by_hour: Array | None = None
    """(24, m, m): the transition into a row of each hour of the day; None without times."""
    zone: str | None = None

    def __post_init__(self) -> None:
        for name in ("transition", "prior", "by_hour", "transition_by_hour"):
            array = getattr(self, name)
            if array is None:
                continue
            array = np.array(array, dtype=float)
            if not np.isfinite(array).all() or (array < 0.0).any() or (np.abs(array.sum(axis=-1) - 1.0) > 1e-9).any():
                raise ConfigurationError(f"{name} must hold probabilities that sum to 1")
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __repr__(self) -> str:
        period = "" if self.period is None else f"{in_words(self.period)}, "
        return f"Chain({len(self.values)} values, {period}{self.transitions} transitions)"

    @property
    def stationary(self) -> Array:
        """The law that the transitions lead to; it differs from `prior` where the data are short."""
        m = len(self.values)
        # pi (P - I) = 0 and sum(pi) = 1
        system = np.vstack([self.transition.T - np.eye(m), np.ones(m)])
        found = np.linalg.lstsq(system, np.concatenate([np.zeros(m), [1.0]]), rcond=None)[0]
        found = np.maximum(found, 0.0)
        return np.asarray(found / found.sum(), dtype=float)

    @property
    def durations(self) -> Array:
        """Expected time in each value before it changes: in seconds, or in rows without a period."""
        stay = np.minimum(np.diag(self.transition), 1.0 - 1e-15)
        return np.asarray((self.period or 1.0) / (1.0 - stay), dtype=float)

    def prior_at(self, ns: NDArray[np.int64]) -> Array:
        """(T, m): what the clock alone says, at times in nanoseconds since 1970."""
        if self.by_hour is None:
            raise ConfigurationError("the chain was made without times; what the clock says is not known")
        return self.by_hour[hours(np.asarray(ns, dtype=np.int64), self.zone)]

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it, for people too: with the stationary law and the durations."""
        from understudy.serialize import value_to_plain

        return {
            "values": [value_to_plain(value) for value in self.values],
            "period": self.period,
            "transition": self.transition.tolist(),
            "prior": self.prior.tolist(),
            "transitions": self.transitions,
            "by_hour": None if self.by_hour is None else self.by_hour.tolist(),
            "transition_by_hour": None if self.transition_by_hour is None else self.transition_by_hour.tolist(),
            "zone": self.zone,
            "stationary": self.stationary.tolist(),
            "durations": self.durations.tolist(),
        }

    @staticmethod
    def from_plain(plain: Any) -> Chain:
        """The chain that `to_plain` was given."""
        from understudy.serialize import value_from_plain

        names = ("period", "transition", "prior", "transitions", "by_hour", "transition_by_hour", "zone")
        try:
            values = tuple(value_from_plain(value) for value in plain["values"])
            return Chain(values, **{name: plain[name] for name in names})
        except (KeyError, TypeError, ValueError):
            raise StoredFileError("the stored chain does not hold together") from None


def chain_of(history: History) -> Chain:
    """The chain of a history's labels."""
    m = len(history.values)
    labels = [segment.theta for segment in history.segments]
    totals = np.bincount(np.concatenate([theta[theta >= 0] for theta in labels]), minlength=m).astype(float)
    if not totals.sum():
        raise ConfigurationError("no row has a label; the chain of the private parameter cannot be told")
    counts = np.zeros((m, m))
    for theta in labels:
        counts += _changes(theta, m)
    transition = (counts + 1.0 / m) / (counts.sum(axis=1, keepdims=True) + 1.0)
    prior = totals / totals.sum()
    by_hour = transition_by_hour = None
    if all(segment.times is not None for segment in history.segments):
        by_hour, transition_by_hour = _hourly(history, prior, transition)
    return Chain(
        history.values, history.period, transition, prior, int(counts.sum()), by_hour, transition_by_hour, history.zone
    )


def _changes(theta: NDArray[np.intp], m: int) -> Array:
    before, after = theta[:-1], theta[1:]
    known = (before >= 0) & (after >= 0)
    return np.bincount(before[known] * m + after[known], minlength=m * m).reshape(m, m).astype(float)


def _hourly(history: History, prior: Array, transition: Array) -> tuple[Array, Array]:
    m = len(history.values)
    shares, changes = np.zeros((_HOURS, m)), np.zeros((_HOURS, m, m))
    for segment in history.segments:
        theta = segment.theta
        hour = hours(segment.times, history.zone)  # type: ignore[arg-type]  # the caller looked
        known = theta >= 0
        np.add.at(shares, (hour[known], theta[known]), 1.0)
        pair = known[1:] & known[:-1]
        np.add.at(changes, (hour[1:][pair], theta[:-1][pair], theta[1:][pair]), 1.0)
    worth = max(1.0, 3600.0 / (history.period or 3600.0))
    by_hour = (shares + worth * prior) / (shares.sum(axis=1, keepdims=True) + worth)
    moved = (changes + worth * transition) / (changes.sum(axis=2, keepdims=True) + worth)
    return by_hour, moved


def describe_chain(chain: Chain, values: Sequence[Any] | None = None) -> list[str]:
    """The chain in sentences: how often each value is there, and for how long.

    >>> describe_chain(Chain((0, 1), 60.0, np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([0.8, 0.2]), 100))
    ['0: 80 percent of the time, for 10 min at a time', '1: 20 percent of the time, for 2 min at a time']
    """
    long = [in_words(round(x)) if chain.period else f"{x:.0f} rows" for x in chain.durations.tolist()]
    return [
        f"{value}: {100.0 * share:.0f} percent of the time, for {time} at a time"
        for value, share, time in zip(values or chain.values, chain.prior.tolist(), long, strict=True)
    ]
