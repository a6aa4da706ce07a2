"""Going on after missing readings where no exact law across a gap exists: wait until the source is exact again.

The predictor of an autoregression of order p depends on the last p readings alone. So p readings in a row make it exact
again, whatever was before them. They are given to the source model and nothing leaves for them. From the next reading
on the scores are independent standard normals again, and the target model goes on where it had stopped: what leaves,
taken together, has the law of the target. What is withheld depends on which readings were missing, never on their
values or on a parameter.

The first p readings of a sequence are withheld as well: a fitted autoregression knows no law for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from understudy._types import Array, Numbers
from understudy.errors import ModelError, NumericalError, StateError
from understudy.models.model import Model, restart
from understudy.transform.core import (
    Chain,
    FreshShare,
    RandomisedScore,
    Randomness,
    Score,
    ScoreEach,
    clip_scores,
    split_count,
    transformation,
)
from understudy.transform.readings import (
    CausalMap,
    Reading,
    State,
    Transformation,
    deliver,
    finite_or_missing,
    same_runs,
)


def refill_of(models: Iterable[Model]) -> int | None:
    """How many readings in a row these models need after a gap; None if they have an exact law across it.

    It must be the same for all, or what is withheld would tell which of them is meant.

    >>> import scipy.stats
    >>> import understudy as us
    >>> heavy = us.Scalar(scipy.stats.t(3.0))
    >>> refill_of([us.AutoRegressive([0.5, 0.2], noise=heavy), us.AutoRegressive([0.6, 0.1], noise=heavy)])
    2
    >>> refill_of([us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0))]) is None
    True
    """
    needed = {getattr(model, "refill", None) for model in models}
    if len(needed) > 1:
        numbers = ", ".join(str(n) for n in sorted(n or 0 for n in needed))
        raise ModelError(
            f"after missing readings the models need {numbers} readings in a row; they must agree, or what is withheld "
            "would depend on the parameter"
        )
    return needed.pop() if needed else None


def refill_between(sources: Iterable[Model], targets: Iterable[Model]) -> int | None:
    """The same for two sides; targets with an exact law across gaps, as filters of scores are, need no readings.

    >>> import scipy.stats
    >>> import understudy as us
    >>> heavy = us.AutoRegressive([0.5, 0.2], noise=us.Scalar(scipy.stats.t(3.0)))
    >>> refill_between([heavy], [us.GaussMarkov(0.0, 1.0, 1.0, 1.0)])
    2
    """
    one, other = list(sources), list(targets)
    return refill_of(one) if refill_of(other) is None else refill_of(one + other)


def restarting_map(
    source: Model, target: Model, rng: Randomness = None, limit: float | None = None, fresh: float = 0.0
) -> Transformation:
    """The map from readings of `source` to readings of `target`, which goes on after missing readings.

    >>> import scipy.stats
    >>> import understudy as us
    >>> heavy = us.Scalar(scipy.stats.t(3.0))
    >>> low, high = (us.AutoRegressive(0.5, noise=heavy, past=[past]) for past in (0.0, 10.0))
    >>> made = restarting_map(low, high)
    >>> _, out = made.apply(made.start(), np.array([[1.0], [0.5], [np.nan], [2.0], [1.0]]))
    >>> out[:, 0].round(6).tolist()
    [nan, 5.0, nan, nan, 2.5]
    """
    made = transformation(source, target, False, rng, limit, fresh)
    needed = refill_between((source,), (target,))
    if needed is None:
        return made
    if not isinstance(made, Chain) or len(made.maps) != 2:
        raise ModelError("models that need readings in a row after a gap are whitened and coloured one after the other")
    return RestartingMap(*made.maps, needed, limit)


class RestartingMap(Transformation):
    """A whitening and a colouring, with readings withheld at the beginning and after each gap.

    The state: how many readings are still to be withheld, the state of the whitening, and that of the
    colouring, which is None until it has begun. After a reading that was not taken although it came (`beyond`), a
    fourth part tells how many would be withheld had it been taken: outputs in between come from fresh scores.
    """

    def __init__(self, source: CausalMap, target: CausalMap, refill: int, limit: float | None = None) -> None:
        self.source, self.target, self.refill, self.limit = source, target, refill, limit
        self.dim = source.dim

    def start(self) -> State:
        """All is to be withheld, and the colouring has not begun."""
        return self.refill, self.source.start(), None

    def step(self, state: State, y: Reading) -> tuple[State, Numbers]:
        """One reading; None or NaN is missing and stays so."""
        if type(y) is float and self.dim == 1 and math.isfinite(y):
            left, source, target, _ = self._checked(state)
            if not left:
                source, z = self.source.step(source, y)
                z = np.asarray(clip_scores(z, self.limit))
                target, out = self.target.step(self._coloured(target), clip_scores(z, self.limit))
                return (0, source, target), out
        return super().step(state, y)

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d), piece by piece: readings in a row, or missing ones."""
        left, source, target, due = self._checked(state)
        missing = finite_or_missing(Y)
        made = np.full(Y.shape, np.nan)
        for start, stop in same_runs(missing):
            if missing[start]:
                left = due = self.refill
                source = _anew(self.source, source, stop - start)
                continue
            begins = min(start + left, stop)
            try:
                if begins > start:
                    source, _ = _fed(self.source, source, np.ascontiguousarray(Y[start:begins]))
                if stop > begins:
                    source, z = self.source.apply(source, np.ascontiguousarray(Y[begins:stop]))
                    z = np.asarray(clip_scores(z, self.limit))
                    target, made[begins:stop] = self.target.apply(self._coloured(target), z)
            except NumericalError as error:
                # the row of the chunk in place of that of the piece
                raise error if error.row is None else NumericalError(error.message, begins + error.row) from None
            left, due = left - (begins - start), max(0, due - (stop - start))
        return _state(left, source, target, due), deliver(made, out)

    def fresh(self, state: State, z: Array) -> tuple[State, Array]:
        """Steps in which the source misses readings and the target is given the scores z (T, d)."""
        _, source, target, _ = self._checked(state)
        target, out = self.target.apply(self._coloured(target), z)
        return _state(self.refill, _anew(self.source, source, len(z)), target, self.refill), out

    def beyond(self, state: State, z: Array) -> tuple[State, Array]:
        """The same for a reading that came and is not taken: it has an output where it would have had one."""
        _, source, target, due = self._checked(state)
        after = _state(self.refill, _anew(self.source, source, 1), target, max(0, due - 1))
        return (after, np.full(self.dim, np.nan)) if due else self.colour(after, z)

    def is_behind(self, state: State) -> bool:
        """Whether outputs are due although the law of the readings is not known again."""
        left, _, _, due = self._checked(state)
        return bool(left > due == 0)

    def colour(self, state: State, z: Array) -> tuple[State, Array]:
        """The target moved on by the scores z (d,) and nothing else: for a reading whose output is withheld."""
        left, source, target, due = self._checked(state)
        target, out = self.target.apply(self._coloured(target), z[None, :])
        return _state(left, source, target, due), out[0]

    def _coloured(self, target: State | None) -> State:
        """The state of the colouring, which begins with its first output."""
        return self.target.start() if target is None else target

    def _checked(self, state: State) -> tuple[int, State, State | None, int]:
        whole = isinstance(state, (tuple, list)) and len(state) in (3, 4) and type(state[0]) is int
        if not whole or not 0 <= state[0] <= self.refill or not (len(state) == 3 or type(state[3]) is int):
            raise StateError(
                "a state of this filter has three parts: readings to be withheld, the state of the whitening, and that "
                "of the colouring"
            )
        return state[0], state[1], state[2], state[3] if len(state) == 4 else state[0]


def _state(left: int, source: State, target: State | None, due: int) -> State:
    return (left, source, target) if due == left else (left, source, target, due)


def _anew(link: CausalMap, state: State, missing: int) -> State:
    """A whitening at its beginning, but that numbers of readings go on: no auxiliary uniform is used twice."""
    if isinstance(link, Chain):
        return tuple(_anew(each, part, missing) for each, part in zip(link.maps, link.checked(state), strict=True))
    if isinstance(link, RandomisedScore):
        k, inner = split_count(state)
        return k + missing, restart(link.model, inner)
    if isinstance(link, ScoreEach):
        return link.passed(state, missing)
    if isinstance(link, Score):
        return restart(link.model, state)
    return link.leap(state, missing) if isinstance(link, FreshShare) else link.start()


def _fed(link: CausalMap, state: State, Y: Array) -> tuple[State, Array]:
    """A whitening after readings of which no score is made: on a past that is not theirs there may be none."""
    if isinstance(link, Chain):
        after = []
        for each, part in zip(link.maps, link.checked(state), strict=True):
            part, Y = _fed(each, part, Y)
            after.append(part)
        return tuple(after), Y
    if isinstance(link, ScoreEach):
        return link.passed(state, len(Y)), Y
    if not isinstance(link, (Score, RandomisedScore)):
        return link.apply(state, Y)
    grid = getattr(link.model, "grid", None)
    for i, channel in enumerate(() if grid is None else grid.channels):
        channel.cells(Y[:, i], i)  # refuses what is off the grid, as a score would
    k, inner = split_count(state) if isinstance(link, RandomisedScore) else (0, state)
    for row in Y:
        inner = link.model.update(inner, row.item() if link.dim == 1 else row)
    return ((k + len(Y), inner) if isinstance(link, RandomisedScore) else inner), Y
