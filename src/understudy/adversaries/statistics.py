"""Figures, intervals and tests: from the log-probabilities of an adversary to what an audit reports.

*Figures.* Two guesses are read off the same log-probabilities q. The error is that of the likeliest value, argmax q.
For the balanced accuracy, where rare values count as much as frequent ones, the guess is argmax q / p with p the prior
in the labels that were learned from; otherwise a rare value would never be guessed. The nats are the bound of Barber
and Agakov: with p the prior among the judged labels, the mean of log q - log p is at most the mutual information of
theta and the output, whatever q is. q is mixed with a thousandth of p, which only lowers the mean.

*Intervals.* Independent trials have the interval of Clopper and Pearson. Readings are autocorrelated, so intervals
resample blocks of time. A figure is then a mean of ratios, mean over c of (sum of S_bc) / (sum of n_bc), over blocks b
and values c. Its interval is the wider, at each end, of the bootstrap over blocks (BCa), which knows of skewness, and
of Student's with the jackknife's error, which knows that there are few blocks.

*Tests* of "the output tells nothing about theta". Among independent sequences labels are permuted: by the tables with
the same margins for one guess a sequence, by exchanging whole paths of labels otherwise. Along one recording labels
cannot be permuted, for theta stays where it is for hours. With l and g the indicators of label and guess, less their
means (at the same time of day, where the clock is known, so that what the clock tells does not count), each block has

    x_b = sum over its readings and the values c of  (l_c - mean l_c)(g_c - mean g_c) / n_c

whose sum is m times the balanced accuracy, less 1. If the output tells nothing, each x_b is as likely to be above zero
as below. The p-value is the larger of that of Student's test of the mean and that of changing the signs of blocks at
random. Of k blocks that share a mean each is in what is taken off the others: the variance of the sum is k / (k - 1)
times what it seems. B blocks have no p below 2^-B, so signs are changed for all adversaries at once and each sum is
compared with the largest (Westfall and Young, 1993, stepping down).

*Power.* A figure that is not above chance says little by itself. `smallest_excess` is the excess in balanced accuracy
that the test of an adversary would find four times of five, and `blocks_needed` how many blocks of time would let the
test find somebody who knows every label.

*Turned signs.* A figure below chance is a leak too: whoever has labels of a few days turns the guesses around.
`turn_guesses` reads the guesses of each group of blocks as labels of the other groups say.

*Scores.* Under a right model the scores of raw readings are independent standard normals, whatever theta is. What an
adversary finds beyond the bound, he finds in what is left of them. `score_readings` keeps shares and correlations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Ints, Plain
from understudy.adversaries.knowledge import Cases
from understudy.errors import ConfigurationError, MissingReadingError, NumericalError
from understudy.identify.history import History, Segment
from understudy.identify.selection import scores
from understudy.models.family import Family
from understudy.text import label

# Figures with intervals, and as JSON ------------------------------------------------------------------


class Figure(NamedTuple):
    """A figure with its interval.

    >>> print(Figure(0.8664, 0.86, 0.8727))
    0.866 [0.860, 0.873]
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "-"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def as_json(value: Any) -> Any:
    """Figures as JSON can hold them: dataclasses are objects, tuples are lists, and what is not a number is None."""
    if is_dataclass(value):
        return {part.name: as_json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, dict):
        return {name: as_json(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_json(kind: Any, plain: Any) -> Any:
    """The value of a type that `as_json` wrote; a KeyError, TypeError or ValueError where it did not.

    >>> from_json(Figure, [0.5, None, 1])
    Figure(value=0.5, low=nan, high=1.0)
    """
    if kind is Figure:
        return Figure(*(from_json(float, part) for part in plain))
    if kind is float:
        return math.nan if plain is None else float(plain)
    if is_dataclass(kind):
        types = get_type_hints(kind)
        given = [part for part in fields(kind) if part.name in plain or _is_required(part)]
        values = {part.name: from_json(types[part.name], plain[part.name]) for part in given}
        return kind(**values)  # type: ignore[operator]  # a class, not an instance
    parts = get_args(kind)
    if get_origin(kind) is tuple:
        return tuple(from_json(parts[0], part) for part in plain)
    if get_origin(kind) is dict:
        return {str(name): from_json(parts[1], part) for name, part in plain.items()}
    if type(None) in parts:
        return None if plain is None else from_json(parts[0], plain)
    if not isinstance(plain, kind):
        raise TypeError(f"a {kind.__name__} is due")
    return plain


def _is_required(part: Field[Any]) -> bool:
    return part.default is MISSING and part.default_factory is MISSING


# Intervals -----------------------------------------------------------------------------------------------------------


RESAMPLES = 2000
"""How many times blocks are drawn anew."""
MANY = 150
"""From so many blocks on the bootstrap says what Student does, and is left out."""
FEW = 8
"""Fewer blocks than this do not tell how much a figure varies; then it is said, and the interval is wider."""


def clopper_pearson(hits: int, trials: int, confidence: float) -> Figure:
    """The share of hits among independent trials, with its exact interval.

    >>> print(clopper_pearson(8, 10, 0.95))
    0.800 [0.444, 0.975]
    >>> clopper_pearson(0, 0, 0.95)
    Figure(value=nan, low=0.0, high=1.0)
    """
    from scipy.special import betaincinv

    if trials == 0:
        return Figure(math.nan, 0.0, 1.0)
    tail = 0.5 * (1.0 - confidence)
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1.0, tail))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1.0, trials - hits, 1.0 - tail))
    return Figure(hits / trials, low, high)


def balanced_trials(hits: NDArray[np.int64], trials: NDArray[np.int64], confidence: float) -> Figure:
    """Balanced accuracy of independent trials: hits and trials of each value, of those that have some.

    Each value has the interval of Clopper and Pearson at 1 - (1 - confidence) / m, and these are averaged.

    >>> print(balanced_trials(np.array([90, 30]), np.array([100, 100]), 0.95))
    0.600 [0.507, 0.685]
    """
    seen = np.flatnonzero(trials)
    if not seen.size:
        return Figure(math.nan, 0.0, 1.0)
    each = 1.0 - (1.0 - confidence) / seen.size
    parts = np.array([clopper_pearson(int(hits[c]), int(trials[c]), each) for c in seen])
    return Figure(*(float(x) for x in parts.mean(axis=0)))


class Sums(NamedTuple):
    """What blocks add up to: `top` (blocks, k) over `bottom` (blocks, k), the mean of k ratios."""

    top: Array
    bottom: Array

    @property
    def value(self) -> float:
        """The mean of the ratios, of those that have something below the line."""
        total = self.bottom.sum(axis=0)
        seen = total > 0.0
        return float((self.top.sum(axis=0)[seen] / total[seen]).mean()) if seen.any() else math.nan


def block_interval(sums: Sums, confidence: float, limits: tuple[float, float]) -> Figure:
    """The figure with its interval over blocks of time, which stays within the limits.

    A ratio that fewer than three blocks tell of may be anything within the limits: nobody knows how it varies.

    >>> b = np.random.default_rng(1).binomial(50, 0.8, 30)[:, None] * 1.0
    >>> print(block_interval(Sums(b, np.full((30, 1), 50.0)), 0.95, (0.0, 1.0)))
    0.794 [0.771, 0.816]
    """
    used = sums.bottom.sum(axis=1) > 0.0
    top, bottom = sums.top[used], sums.bottom[used]
    value = Sums(top, bottom).value
    known = (bottom > 0.0).sum(axis=0) >= 3
    if math.isnan(value) or not known.any():
        return Figure(value, *limits)
    low, high = _interval(Sums(top[:, known], bottom[:, known]), confidence, limits)
    share = float(known.sum()) / float((bottom.sum(axis=0) > 0.0).sum())
    return Figure(value, share * low + (1.0 - share) * limits[0], share * high + (1.0 - share) * limits[1])


def _interval(sums: Sums, confidence: float, limits: tuple[float, float]) -> tuple[float, float]:
    from scipy.special import stdtrit

    value, B = sums.value, len(sums.top)
    # the jackknife: the first order alone, (S_b - r n_b) / n, is too small where a few blocks have most of a value
    left = ((sums.top.sum(axis=0) - sums.top) / (sums.bottom.sum(axis=0) - sums.bottom)).mean(axis=1)
    influence = (left.mean() - left) * (B - 1) / B
    error = math.sqrt(long_run_variance(influence) * B / max(B - 1, 1))
    alike = error <= 1e-12 * (limits[1] - limits[0])
    if alike:  # as if each block were one trial: the low end of Clopper and Pearson for nothing but hits
        wide = (1.0 - (0.5 * (1.0 - confidence)) ** (1.0 / B)) * (limits[1] - limits[0])
    else:
        wide = float(stdtrit(max(B - 1, 1), 0.5 + 0.5 * confidence)) * error
    low, high = value - wide, value + wide
    if B <= MANY and not alike:
        least, most = _bootstrap(sums, influence, confidence)
        low, high = min(low, least), max(high, most)
    return max(low, limits[0]), min(high, limits[1])


@lru_cache(maxsize=8)
def _draws(B: int) -> Array:
    """How often each of B blocks is drawn, (RESAMPLES, B): always the same, so that a figure is too."""
    return np.random.default_rng(B).multinomial(B, np.full(B, 1.0 / B), RESAMPLES).astype(np.float64)


def _bootstrap(sums: Sums, influence: Array, confidence: float) -> tuple[float, float]:
    """Efron's interval (BCa): percentiles of the bootstrap, moved for bias (z0) and skewness (a).

    Sums of all draws are one product of matrices.
    """
    from scipy.special import ndtr, ndtri

    value, draws = sums.value, _draws(len(sums.top))
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = ((draws @ sums.top) / (draws @ sums.bottom)).mean(axis=1)
    drawn = np.sort(drawn[np.isfinite(drawn)])  # draws in which a value does not occur tell nothing about it
    if drawn.size < RESAMPLES // 4:
        return value, value
    below = (np.searchsorted(drawn, value, "left") + np.searchsorted(drawn, value, "right")) / (2.0 * drawn.size)
    z0 = float(ndtri(np.clip(below, 0.5 / drawn.size, 1.0 - 0.5 / drawn.size)))
    a = float((influence**3).sum()) / (6.0 * float(np.square(influence).sum()) ** 1.5)
    z = z0 + ndtri(np.array([0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)]))
    at = np.where(a * z < 1.0, ndtr(z0 + z / np.maximum(1.0 - a * z, 1e-12)), z > z0)
    low, high = np.quantile(drawn, at)
    return float(low), float(high)


def long_run_variance(x: Array) -> float:
    """The variance of the sum of blocks in their order, each of mean zero: never less than the sum of squares.

    Consecutive blocks may still be correlated. Covariances at a few lags are added with Bartlett's weights.

    >>> long_run_variance(np.array([1.0, -1.0, 1.0, -1.0])), long_run_variance(np.repeat([1.0, -1.0], 8))
    (4.0, 49.0)
    """
    B = x.size
    whole = plain = float(np.square(x).sum())
    lags = round(B ** (1.0 / 3.0)) if B >= FEW else 0
    for lag in range(1, lags + 1):
        whole += 2.0 * (1.0 - lag / (lags + 1.0)) * float(x[lag:] @ x[:-lag])
    return max(whole, plain)


# Figures of one adversary --------------------------------------------------------------------------------------------


MIXED = 1e-3
"""The share of the prior that is mixed into what an adversary says before its logarithm is taken."""
_MOSTLY = 0.95  # of the guesses must be at times of day that come on several days
_FINEST = 1.0 / 60.0  # minutes


class Guesses(NamedTuple):
    """The guesses of one adversary, flat: one entry for each that is judged."""

    truth: Ints
    blocks: Ints
    guess: Ints
    """The likeliest value."""
    fair: Ints
    """The value that the output speaks for most, beside the prior."""
    score: Array
    """log q - log p of the true value."""
    m: int

    def __repr__(self) -> str:
        return f"Judged({self.truth.size} guesses)"


class Figures(NamedTuple):
    """All that a row of an audit tells in numbers."""

    balanced: Figure
    error: Figure
    gain: Figure
    nats: Figure


def guesses_of(logits: Array, cases: Cases, prior: Array) -> Guesses:
    """The guesses of an adversary who says `logits`, and learned from labels of the odds `prior` (m,)."""
    truth = cases.truth
    if logits.shape != (cases.m, *truth.shape):
        raise ConfigurationError(f"an adversary says logits of shape {logits.shape}; {(cases.m, *truth.shape)} is due")
    known = truth >= 0
    said, labels = logits[:, known], truth[known]
    if not np.isfinite(said).all():
        raise ConfigurationError("an adversary says logits that are not finite; every one must be")
    odds = np.maximum(prior, 1e-9)
    # rounded, so that somebody who says the odds themselves has no preference
    beside = np.round(said - np.log(odds / odds.sum())[:, None], 9)
    p = np.bincount(labels, minlength=cases.m) / max(labels.size, 1)
    at = np.arange(labels.size)
    q = np.exp(said - np.logaddexp.reduce(said, axis=0))[labels, at]
    with np.errstate(divide="ignore"):
        score = np.log((1.0 - MIXED) * q / p[labels] + MIXED)
    return Guesses(
        labels.astype(np.int64), cases.truth_blocks[known], said.argmax(axis=0), beside.argmax(axis=0), score, cases.m
    )


def figures(made: Guesses, reference: Guesses | None, independent: bool, confidence: float) -> Figures:
    """The figures, and the gain over a reference that was judged on the same cases.

    `independent` says that guesses are independent trials; otherwise intervals are over blocks of time.
    """
    right, trials = _right(made), np.bincount(made.truth, minlength=made.m)
    seen = int((trials > 0).sum())
    base = np.full(right.shape, 1.0 / seen) if reference is None else _right(reference)
    gain = block_interval(_sums(made, right - base, by_value=True), confidence, (-1.0, 1.0))
    rarest = trials[trials > 0].min() / trials.sum()
    nats = block_interval(_sums(made, made.score), confidence, (math.log(MIXED), max(0.0, -math.log(rarest))))
    if _constant(made):
        balanced = Figure(1.0 / seen, 1.0 / seen, 1.0 / seen)
    elif independent:
        balanced = balanced_trials(np.bincount(made.truth[right > 0.0], minlength=made.m), trials, confidence)
    else:
        balanced = block_interval(_sums(made, right, by_value=True), confidence, (0.0, 1.0))
    return Figures(balanced, error_of(made, independent, confidence), gain, nats)


def _constant(made: Guesses) -> bool:
    return bool((made.fair == made.fair[0]).all())


def _right(made: Guesses) -> Array:
    """Where the guess is right.

    Who always says the same knows nothing. He is right for one of the values that occur, and counts so even if the
    one that he says is not among them: it is only by chance that he has not said another.
    """
    if _constant(made):
        return np.full(made.truth.shape, 1.0 / np.unique(made.truth).size)
    return np.asarray(made.fair == made.truth, dtype=np.float64)


def _sums(made: Guesses, x: Array, by_value: bool = False) -> Sums:
    """Sums of x in each block, apart for each true value or not."""
    number = np.unique(made.blocks, return_inverse=True)[1]
    B, k = int(number.max()) + 1, made.m if by_value else 1
    cell = number * k + (made.truth if by_value else 0)
    top, bottom = (np.bincount(cell, weight, B * k).reshape(B, k) for weight in (x, np.ones(x.size)))
    return Sums(np.asarray(top, dtype=float), np.asarray(bottom, dtype=float))


def error_of(made: Guesses, independent: bool, confidence: float) -> Figure:
    """How often the likeliest value is wrong."""
    wrong = made.guess != made.truth
    if independent:
        return clopper_pearson(int(wrong.sum()), wrong.size, confidence)
    return block_interval(_sums(made, wrong.astype(float)), confidence, (0.0, 1.0))


def hours_of(cases: Cases) -> Ints | None:
    """The time of day of each guess as a number, in the shape of ``cases.truth``; None without a clock.

    Times are as fine as the readings: an adversary with the clock may be as exact. Weekdays are apart where each has
    been seen often enough, or else weekends, or none. Times are coarser only where they would come on one day only,
    and what even so does is -1. Where theta is constant in a sequence, the time is that of its first reading.
    """
    if cases.hours is None:
        return None
    hours = cases.hours[0] if cases.once else cases.hours
    judged, dates = cases.truth >= 0, cases.dates
    kinds: list[tuple[Ints, int]] = [(np.zeros(hours.shape, dtype=np.int64), 2)]
    if cases.days is not None:
        day = cases.days[0] if cases.once else cases.days
        kinds = [(day + 1, 3), ((day >= 5).astype(np.int64), 2), *kinds]
    found = np.full(hours.shape, -1, dtype=np.int64)
    for width in _widths(cases.hours):
        cells = max(1, round(1440.0 / width))
        cell = np.where(np.isnan(hours), cells, np.rint(np.nan_to_num(hours) * cells / 24.0) % cells).astype(np.int64)
        for kind, need in kinds:
            stratum = cell + (cells + 1) * kind
            often = _count_days(stratum[judged], dates[judged])
            found[judged] = np.where(often >= 2, stratum[judged], -1)
            if often.size and float(np.mean(often >= need)) >= _MOSTLY:
                return found
    return found


def _widths(hours: Array) -> list[float]:
    """Minutes of a cell of the day: from one reading to the next, and coarser ones."""
    steps = np.diff(hours, axis=0)
    steps = steps[steps > 1e-9] * 60.0
    finest = max(float(np.median(steps)), _FINEST) if steps.size else 60.0
    return [finest, *(w for w in (5.0, 10.0, 15.0, 30.0, 60.0) if w > 1.01 * finest)]


def _count_days(stratum: Ints, dates: Ints) -> Ints:
    """On how many days the stratum of each guess occurs."""
    date = np.unique(dates, return_inverse=True)[1]
    cell = np.unique(stratum, return_inverse=True)[1]
    size = int(date.max()) + 1 if date.size else 1
    return np.asarray(np.bincount(np.unique(cell * size + date) // size)[cell], dtype=np.int64)


# Scores of raw readings, in aggregate --------------------------------------------------------------------------------


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

    def plain(self) -> list[Plain]:
        """As JSON can hold it."""
        return [as_json(row) for row in self.rows]

    @classmethod
    def from_plain(cls, plain: Sequence[Plain]) -> Scores:
        """What `plain` wrote."""
        return cls(tuple(from_json(ScoreRow, row) for row in plain))


def score_readings(
    family: Family,
    Y: ArrayLike,
    positions: ArrayLike,
    segments: ArrayLike | None = None,
    rng: np.random.Generator | int | None = None,
) -> Scores | None:
    """The scores of readings (T, d) under the models of their labels; None if the models give none across a gap.

    `positions` (T,) are those of theta among the family's values, -1 where it is not known; `segments` (T,) says
    where time is interrupted. `rng` makes the auxiliary uniforms of readings on a grid.

    >>> import understudy as us
    >>> family = us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 1.0))})
    >>> theta = np.repeat([0, 1], 500)
    >>> found = score_readings(family, us.sample(family.along(theta.tolist()), 1000, rng=1), theta)
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


# Tests by permuted labels --------------------------------------------------------------------------------------------


PERMUTED = 9999
"""Permutations that are drawn where p is not computed exactly, and nothing asks for more."""
MOST_PERMUTED = 1_000_000
_AT_ONCE = 4_000_000  # numbers


def holm(p: Sequence[float]) -> list[float]:
    """Every p corrected for all of them: a hypothesis falls at a level that its corrected p is within (Holm, 1979).

    >>> holm([0.001, 0.06, 0.012, float("nan")])
    [0.003, 0.06, 0.024, nan]
    """
    order = sorted((x, i) for i, x in enumerate(p) if x == x)
    corrected, least = [math.nan] * len(p), 0.0
    for rank, (x, i) in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * x))
        corrected[i] = least
    return corrected


def permutations_for(tried: int, level: float) -> int:
    """How many permutations p needs, so that it can be ten times below the level of the strictest of so many tests.

    >>> permutations_for(4, 0.01), permutations_for(30, 0.01), permutations_for(30, 0.0001)
    (9999, 30000, 1000000)
    """
    return int(min(max(PERMUTED, math.ceil(10.0 * tried / level - 1e-6)), MOST_PERMUTED))


def permutation_test(guess: Ints, truth: Ints, m: int, rng: np.random.Generator, draws: int = PERMUTED) -> float:
    """The p of one guess for each independent sequence: how often permuted labels do as well.

    >>> truth = np.repeat([0, 1], 20)
    >>> rng = np.random.default_rng(0)
    >>> permutation_test(truth, truth, 2, rng) < 1e-10, permutation_test(truth * 0, truth, 2, rng)
    (True, 1.0)
    """
    from scipy.stats import hypergeom, random_table

    labels, guesses = np.bincount(truth, minlength=m), np.bincount(guess, minlength=m)
    seen = np.flatnonzero(labels)
    if seen.size < 2:
        return math.nan
    hits = np.bincount(truth[guess == truth], minlength=m)
    if m == 2:
        # balanced accuracy grows with the number of right guesses of either value, the margins given
        return float(min(1.0, hypergeom.sf(hits[1] - 1, truth.size, labels[1], guesses[1])))
    shown, above = float((hits[seen] / labels[seen]).sum()), 0
    for size in portions(draws, m * m):
        tables = random_table(guesses, labels).rvs(size, random_state=rng).reshape(size, m, m)
        above += int(((tables[:, seen, seen] / labels[seen]).sum(axis=1) >= shown - 1e-12).sum())
    return (1 + above) / (1 + draws)


def exchange_test(guess: Ints, truth: Ints, m: int, rng: np.random.Generator, draws: int = PERMUTED) -> float:
    """The p of guesses (T, N) along N independent sequences: whole paths of labels are exchanged. -1 is not judged."""
    N = truth.shape[1]
    labels = np.bincount(truth[truth >= 0], minlength=m)
    seen = np.flatnonzero(labels)
    if N < 2 or seen.size < 2:
        return math.nan
    # agreement[a, b]: what the guesses of sequence a gain beside the labels of sequence b
    agreement = np.zeros((N, N))
    for c in seen:
        agreement += (guess == c).astype(np.float32).T @ (truth == c).astype(np.float32) / labels[c]
    at, above = np.arange(N), 0
    for size in portions(draws, N):
        beside = rng.permuted(np.tile(at, (size, 1)), axis=1)
        above += int((agreement[at, beside].sum(axis=1) >= np.trace(agreement) - 1e-6).sum())
    return (1 + above) / (1 + draws)


def portions(count: int, wide: int) -> list[int]:
    """Rows of so many numbers, in portions that can be held."""
    size = max(1, min(count, _AT_ONCE // max(wide, 1)))
    return [size] * (count // size) + ([count % size] if count % size else [])


# The test along one recording ----------------------------------------------------------------------------------------


_FEW = 14  # blocks whose signs are all gone through


class Agreement(NamedTuple):
    """What guesses and labels have in common: x_b of every block, and in which of them labels vary at all."""

    x: Array
    varied: NDArray[np.bool_]
    wider: float
    """How much further the sum strays than it seems to."""


def agreement(guess: Ints, truth: Ints, blocks: Ints, m: int, strata: Ints | None) -> Agreement | None:
    """Of guesses along a recording, in flat arrays; `strata` numbers the time of day of each, or is None.

    A stratum below 0 does not count. None where the labels do not differ within strata: then nothing can be told.
    """
    varied = contributions(truth, truth, blocks, m, strata) > 1e-9
    count = int(varied.sum())
    if count < 2:
        return None
    wider = math.sqrt(count / (count - 1)) if strata is None else _shared_strata(truth, blocks, strata)
    return Agreement(np.where(varied, contributions(guess, truth, blocks, m, strata), 0.0), varied, wider)


def single_p_value(found: Agreement | None, rng: np.random.Generator, draws: int = PERMUTED) -> float:
    """The p of one adversary, as if no other had been tried; NaN where nothing can be told."""
    if found is None:
        return math.nan
    return max(_student_test(found), _sign_test([found], rng, draws)[0])


def joint_p_values(found: Sequence[Agreement | None], rng: np.random.Generator, draws: int = PERMUTED) -> list[float]:
    """The p of each of several adversaries of the same recording, corrected for all of them.

    >>> days = Agreement(np.full(9, 0.1), np.full(9, True), 1.06)
    >>> rng = np.random.default_rng(0)
    >>> round(single_p_value(days, rng), 4), joint_p_values([days] * 20, rng)[0] < 0.01
    (0.002, True)
    """
    those = [one for one in found if one is not None]
    corrected = iter(map(max, holm([_student_test(one) for one in those]), _sign_test(those, rng, draws)))
    return [math.nan if one is None else next(corrected) for one in found]


def _shared_strata(truth: Ints, blocks: Ints, strata: Ints) -> float:
    """The root of k / (k - 1) for the k blocks that have a stratum in common, averaged over what labels vary."""
    counts = strata >= 0
    number, hour = (np.unique(x[counts], return_inverse=True)[1] for x in (blocks, strata))
    each = np.unique(hour * (int(number.max()) + 1) + number) // (int(number.max()) + 1)
    k, size = np.bincount(each)[hour].astype(float), np.bincount(hour).astype(float)
    weight = np.zeros(hour.size)
    for c in np.unique(truth[counts]):
        label = (truth[counts] == c).astype(float)
        weight += np.square(label - (np.bincount(hour, label) / size)[hour]) / label.sum()
    return math.sqrt(float(np.average(k / np.maximum(k - 1.0, 0.5), weights=weight)))


def contributions(guess: Ints, truth: Ints, blocks: Ints, m: int, strata: Ints | None) -> Array:
    """x_b of each block that is judged; rows of a stratum below 0 add nothing."""
    number = np.unique(blocks, return_inverse=True)[1]
    hour = np.zeros(truth.size, dtype=np.int64) if strata is None else np.unique(strata, return_inverse=True)[1]
    counts = 1.0 if strata is None else (strata >= 0).astype(float)
    size = np.bincount(hour).astype(float)
    total = np.zeros(int(number.max()) + 1 if number.size else 0)
    for c in range(m):
        label, told = (truth == c).astype(float), (guess == c).astype(float)
        if not label.any():
            continue
        label_mean, told_mean = (np.bincount(hour, x) / size for x in (label, told))
        x = counts * (label - label_mean[hour]) * (told - told_mean[hour]) / label.sum()
        total += np.bincount(number, x, total.size)
    return np.asarray(total)


def _spread_of_sum(x: Array) -> float:
    return math.sqrt(long_run_variance(x - x.mean()) * x.size / (x.size - 1))


def _student_test(found: Agreement) -> float:
    from scipy.special import stdtr

    x = found.x[found.varied]
    spread = _spread_of_sum(x)
    if spread <= 1e-12 * float(np.abs(x).sum()):
        return float(x.mean() <= 0.0)
    return float(stdtr(max(x.size - 2, 1), -float(x.sum()) / (found.wider * spread)))  # two means were taken off


POWER = 0.8
"""How often the smallest leak that is reported would have been found."""
_MOST_BLOCKS = 2000


def smallest_excess(found: Agreement | None, values: int, tests: int, level: float) -> float:
    """The excess in balanced accuracy that this adversary's test would find four times of five; NaN if not known.

    `values` is how many values occur, `tests` how many adversaries are tried together.

    >>> x = np.tile([0.02, -0.02, 0.01, -0.01], 10)
    >>> round(smallest_excess(Agreement(x, np.full(40, True), 1.0), 2, 1, 0.01), 3)
    0.166
    """
    from scipy.special import stdtrit

    if found is None:
        return math.nan
    x = found.x[found.varied]
    spread, free = _spread_of_sum(x), max(x.size - 2, 1)
    if spread <= 1e-12:
        return math.nan
    reach = float(stdtrit(free, 1.0 - level / max(tests, 1)) + stdtrit(free, POWER))
    return min(reach * found.wider * spread / max(values, 1), 1.0)


def blocks_needed(found: Agreement | None, blocks: int, tests: int, level: float) -> int:
    """How many blocks like these let a test find somebody who knows every label; 0 where no number would do.

    `found` is what that one has in common with the labels, among so many blocks. His p is to be a quarter of the level,
    as other adversaries are tried with him.

    >>> blocks_needed(Agreement(np.full(4, 0.25), np.full(4, True), 1.15), 4, 10, 0.01)
    9
    """
    x = np.ones(1) if found is None else found.x[found.varied]
    share = x.size / max(blocks, x.size) if found is not None else 1.0
    rng, count = np.random.default_rng(0), max(x.size, 3)
    while count <= _MOST_BLOCKS:
        more = Agreement(np.resize(x, count), np.full(count, True), math.sqrt(count / (count - 1)))
        if max(tests * _student_test(more), _sign_test([more], rng, PERMUTED)[0]) <= level / 4.0:
            return math.ceil(count / share)
        count = max(count + 1, math.ceil(1.05 * count))
    return 0


def turn_guesses(made: Guesses, groups: Ints) -> Guesses:
    """The guesses of each group, read as the value with which they go most often in the other groups.

    `groups` numbers blocks of time, one entry a guess. Labels of the same group are never used.

    >>> truth = np.tile([0, 1], 8)
    >>> made = Guesses(truth, np.arange(16) // 4, 1 - truth, 1 - truth, np.zeros(16), 2)
    >>> bool((turn_guesses(made, made.blocks).fair == truth).all())
    True
    """
    fair = made.fair.copy()
    for group in np.unique(groups).tolist():
        inside = groups == group
        truth, guess = made.truth[~inside], made.fair[~inside]
        labels = np.bincount(truth, minlength=made.m)
        joint = np.bincount(guess * made.m + truth, minlength=made.m**2).reshape(made.m, made.m)
        share = joint / np.maximum(labels, 1)
        reading = np.where(share.any(axis=1), share.argmax(axis=1), np.arange(made.m))
        fair[inside] = reading[made.fair[inside]]
    return made._replace(fair=fair)


def _sign_test(found: Sequence[Agreement], rng: np.random.Generator, draws: int) -> list[float]:
    """Chance that the largest of the sums, each over its root of squares, is as high if every sign were tossed."""
    if not found:
        return []
    x = np.stack([one.x for one in found], axis=1)
    x = x[np.any([one.varied for one in found], axis=0)]
    size = np.sqrt(np.square(x).sum(axis=0))
    x = x / np.where(size > 0.0, size, 1.0)
    at_least = x.sum(axis=0) / [one.wider for one in found] - 1e-9
    order = np.argsort(-at_least, kind="stable")
    x, at_least = x[:, order], at_least[order]
    above, total = np.zeros(len(found)), 0
    for signs in _signs(len(x), rng, draws):
        # of each and of those that come after it: what is clearer than this one has fallen already
        largest = np.maximum.accumulate((signs @ x)[:, ::-1], axis=1)[:, ::-1]
        above += (largest >= at_least).sum(axis=0)
        total += len(signs)
    drawn = int(len(x) > _FEW)
    p = np.maximum.accumulate((drawn + above) / (drawn + total))
    return [float(x) for x in p[np.argsort(order)]]


def _signs(count: int, rng: np.random.Generator, draws: int) -> Iterator[Array]:
    """Rows of signs: every one there is, or some drawn at random."""
    if count <= _FEW:
        yield np.where((np.arange(2**count)[:, None] >> np.arange(count)) & 1, -1.0, 1.0)
        return
    for size in portions(draws, count):
        yield np.where(rng.integers(0, 2, size=(size, count), dtype=np.int8), -1.0, 1.0)


# All adversaries together --------------------------------------------------------------------------------------------


Source = Callable[..., np.random.Generator]
"""Generators by purpose."""


class Attempt(NamedTuple):
    """The guesses of one adversary, whether it had the clock, its name in words, and how long it took."""

    name: str
    clock: bool
    made: Guesses
    title: str = ""
    seconds: float = 0.0


class Outcome(NamedTuple):
    """What became of one adversary."""

    p: float
    """Of "it tells nothing about theta"; with the clock, nothing beyond it. NaN where nothing can be told."""
    corrected: float
    """The same, for all adversaries together."""
    test: str
    """"permutation", or "stretches" for blocks of time: the words of stored audits."""
    testable: bool
    """Somebody who knows every label would be below the level."""
    smallest: float = math.nan
    """The excess in balanced accuracy that would have been found four times of five."""
    needed: int = 0
    """How many blocks would let the test find somebody who knows every label; 0 where it does, or none would do."""


def outcomes_of(
    tried: Sequence[Attempt], cases: Cases, independent: bool, hours: Ints | None, level: float, source: Source
) -> list[Outcome]:
    """All adversaries that were tried on the same cases; `hours` numbers times of day, in the shape of ``cases.truth``.

    `independent` says that sequences are independent of each other.
    """
    if independent:
        return _by_permutation(tried, cases, level, source)
    return _by_blocks(tried, cases, hours, level, source)


def _by_permutation(tried: Sequence[Attempt], cases: Cases, level: float, source: Source) -> list[Outcome]:
    draws = permutations_for(len(tried), level)

    def p_of(made: Guesses, rng: np.random.Generator) -> float:
        if cases.once:
            return permutation_test(made.fair, made.truth, made.m, rng, draws)
        guess = np.full(cases.truth.shape, -1)
        guess[cases.truth >= 0] = made.fair
        return exchange_test(guess, cases.truth, made.m, rng, draws)

    p = [p_of(one.made, source(one.name, one.clock)) for one in tried]
    count = sum(x == x for x in p)
    could = bool(tried) and count * p_of(_omniscient(tried[0].made), source("knowing")) <= level

    def smallest(made: Guesses) -> float:
        found = agreement(made.fair, made.truth, made.blocks, made.m, None)
        return smallest_excess(found, np.unique(made.truth).size, count, level)

    least = [smallest(one.made) for one in tried]
    return [Outcome(x, y, "permutation", x == x and could, z) for x, y, z in zip(p, holm(p), least, strict=True)]


def _by_blocks(
    tried: Sequence[Attempt], cases: Cases, hours: Ints | None, level: float, source: Source
) -> list[Outcome]:
    draws = permutations_for(1, level)

    def of(made: Guesses, clock: bool) -> Agreement | None:
        hour = hours[cases.truth >= 0] if clock and hours is not None else None
        return agreement(made.fair, made.truth, made.blocks, made.m, hour)

    found = [of(one.made, one.clock) for one in tried]
    p = [single_p_value(x, source(one.name, one.clock), draws) for x, one in zip(found, tried, strict=True)]
    drawn = joint_p_values(found, source("together"), draws)
    corrected = [max(both) for both in zip(drawn, p, strict=True)]  # both may be drawn at random
    could: dict[bool, bool] = {}
    needed: dict[bool, int] = {}
    for k, one in enumerate(tried):
        if one.clock not in could:
            # in the place of this one
            knows = of(_omniscient(one.made), one.clock)
            best = joint_p_values([*found[:k], knows, *found[k + 1 :]], source("knowing", one.clock), draws)[k]
            could[one.clock] = not math.isnan(best) and best <= level
            blocks = int(np.unique(one.made.blocks).size)
            needed[one.clock] = 0 if could[one.clock] else blocks_needed(knows, blocks, len(tried), level)
    values = np.unique(tried[0].made.truth).size if tried else 1
    return [
        Outcome(
            x, y, "stretches", x == x and could[one.clock], smallest_excess(same, values, len(tried), level),
            needed[one.clock],
        )
        for x, y, one, same in zip(p, corrected, tried, found, strict=True)
    ]  # fmt: skip


def _omniscient(made: Guesses) -> Guesses:
    return made._replace(fair=made.truth)
