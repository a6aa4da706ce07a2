"""Whether the readings that were attacked have the law of the models: their scores, in aggregate.

The bound rests on it. Under a right model the scores of the raw readings are independent standard normals, whatever
theta is: a histogram on the bell curve, and no score that tells about a later one. What an adversary finds beyond the
bound, he finds in what is left here. Kept are shares and correlations for each value and channel, no score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import MissingReadingError, NumericalError
from understudy.identify.history import History, Segment
from understudy.identify.predicting import scores
from understudy.laws.base import Array
from understudy.models.family import Family
from understudy.randomizer.card import label

EDGE, BARS, LAGS = 4.0, 32, 20
"""Scores from -4 to 4 are counted in so many bars; correlations go up to so many lags."""
FEWEST = 30
_START = 10  # rows at the start of a segment that are left out: where a file begins is no start of a process


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The scores of one channel while theta had one value."""

    value: str
    channel: str
    count: int
    mean: float
    spread: float
    shares: tuple[float, ...]
    """Share of the scores in each bar from -4 to 4."""
    beyond: float
    """Share of the scores outside; 0.00006 is right."""
    memory: tuple[float, ...]
    """Correlation with the score 1, 2, ... readings before."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Aggregates of scores, for each value of the parameter and each channel."""

    rows: tuple[ScoreRow, ...]

    def plain(self) -> list[dict[str, Any]]:
        """As JSON can hold it."""
        return [{f.name: _plain(getattr(row, f.name)) for f in fields(row)} for row in self.rows]

    @classmethod
    def from_plain(cls, told: Any) -> Scores:
        """What `plain` wrote."""
        return cls(
            tuple(
                ScoreRow(**{**row, "shares": _numbers(row["shares"]), "memory": _numbers(row["memory"])})
                for row in told
            )
        )


def scored(
    family: Family, Y: Any, positions: Any, segments: Any = None, rng: np.random.Generator | int | None = None
) -> Scores | None:
    """The scores of readings (T, d) under the models of their labels; None if the models give none across a gap.

    `positions` (T,) are those of theta among the family's values, -1 where it is not known; `segments` (T,) says
    where time is interrupted. `rng` makes the auxiliary uniforms of readings on a grid.

    >>> import understudy as us
    >>> family = us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 1.0))})
    >>> theta = np.repeat([0, 1], 500)
    >>> found = scored(family, us.sample(family.along(theta.tolist()), 1000, rng=1), theta)
    >>> [(row.value, row.count, abs(row.spread - 1.0) < 0.1) for row in found.rows]
    [('0', 490, True), ('1', 500, True)]
    """
    readings = np.asarray(Y, dtype=float)
    readings = readings[:, None] if readings.ndim == 1 else readings
    theta = np.asarray(positions, dtype=np.intp)
    T, d = readings.shape
    names = tuple((family.about or {}).get("readings") or ())
    names = names if len(names) == d else tuple(f"channel {c + 1}" for c in range(d))
    marks = np.zeros(T, dtype=int) if segments is None else np.asarray(segments)
    cuts = np.flatnonzero(marks[1:] != marks[:-1]) + 1
    parts = [
        Segment(str(k), None, np.ascontiguousarray(readings[rows]), theta[rows])
        for k, rows in enumerate(np.split(np.arange(T), cuts))
        if rows.size
    ]
    m = len(family.values)
    models = {i: family.model(value) for i, value in enumerate(family.values)}
    try:
        found = scores(models, History(names, "theta", None, (), tuple(range(m)), None, tuple(parts), ()), rng=rng)
    except (MissingReadingError, NumericalError):
        return None
    for z in found:
        z[:_START] = np.nan
    labels = [part.theta for part in parts]
    rows = [
        row
        for i in range(m)
        for c in range(d)
        if (row := _row([z[:, c] for z in found], labels, i, label(family.values[i]), names[c])) is not None
    ]
    return Scores(tuple(rows)) if rows else None


def _row(parts: list[Array], labels: list[NDArray[np.intp]], i: int, value: str, channel: str) -> ScoreRow | None:
    z = np.concatenate([part[(theta == i) & np.isfinite(part)] for part, theta in zip(parts, labels, strict=True)])
    if z.size < FEWEST:
        return None
    square = float(np.square(z).mean())
    counts = np.histogram(z, np.linspace(-EDGE, EDGE, BARS + 1))[0]
    memory = []
    for lag in range(1, LAGS + 1):
        pairs = np.concatenate(
            [(x[lag:] * x[:-lag])[theta[lag:] == i] for x, theta in zip(parts, labels, strict=True) if len(x) > lag]
            or [np.empty(0)]
        )
        pairs = pairs[np.isfinite(pairs)]
        memory.append(float(pairs.mean()) / square if pairs.size >= FEWEST and square > 0.0 else math.nan)
    shares = (counts / z.size).tolist()
    return ScoreRow(
        value, channel, int(z.size), float(z.mean()), math.sqrt(square), tuple(shares),
        float((np.abs(z) > EDGE).mean()), tuple(memory),
    )  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(told: Any) -> tuple[float, ...]:
    return tuple(math.nan if x is None else float(x) for x in told)
