"""Is the private value in the scores? A classifier that attacks them, and fresh scores as its control.

What scores leak is I(Theta; z) = min over R of sum_i p_i KL(Q_i || R), with Q_i the law of the scores under theta_i:
the Q_i must agree with each other, and need not be white (docs/theory.md). So the question is whether a strong
classifier tells theta from the scores, and `detect` answers it for any scores with labels beside them.

*Features* of reading k: means over the last and the next 1, 15 or 60 scores (`WINDOWS`) of the score, its size, its
square, its product with the score before, the energy of sums of four, shares beyond some limits (the distribution
function, at a few points), and the products of channels; and over the whole day (window 0, `DAY`), with the running sum
since the beginning of the day.

*The classifier* is gradient boosting: trees of two splits on binned features, 24 of them (`boosted_trees`, numpy only,
quick enough for every fit). With ``learner="scikit-learn"`` it is `HistGradientBoostingClassifier`, from the extra.

*Cross-fitting.* The classifier that judges a day was trained on other days. Without days, or with fewer than `DAYS`,
blocks of time take their place, and a fold is a block of its own.

*The control* is the same classifier on fresh standard normals with the same labels, several times. It has the bias of
the whole procedure. The leak is the excess of the balanced accuracy over that of the control. Its interval comes from
the results by unit (day or block): neighbours may be correlated, and the error is never less than that of the control.
So scores that are autocorrelated in the same way under every value have a wide interval, and pass.

All windows together report a leak that is none with probability `FALSE_ALARM`. `Detection.seen` is the smallest leak
that would have been found nine times out of ten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import combinations
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Index, Ints, Mask, Seed
from understudy.errors import ConfigurationError
from understudy.tables.times import hours

DAY = 0
"""The window that is a whole day, or a whole block where there are no days."""
WINDOWS = (1, 15, 60, DAY)
FALSE_ALARM = 0.01
"""Probability that a leak is reported where there is none."""
POWER = 0.9
"""Probability with which the smallest leak that is stated would have been found."""
DAYS = 8
"""From so many days on, a day is the unit of cross-fitting and of resampling."""
CONTROLS = 8
_BLOCKS = (20, 60)  # at least, at most; in between one for every 60 rows
_FOLDS = 5
_DAY = 86_400_000_000_000  # nanoseconds
_CLIP = 8.0
_ROWS = 400  # rows that are left where they are thinned
_CELLS = 40_000  # rows times features of one classifier; above that rows are thinned more

F = TypeVar("F", bound=np.floating[Any])
Learner = Callable[[Array, Index, Index, int], Array]
"""Features (n, F), labels, folds (n,) and the number of values -> cross-fitted log-probabilities (n, values)."""


class Detection(NamedTuple):
    """How well theta is told from scores in a window; accuracies are balanced, gains are nats a reading."""

    window: int
    accuracy: float
    control: float
    """The accuracy from fresh scores, a mean over replicates."""
    control_error: float
    """The standard deviation of one of those."""
    excess: float
    low: float
    high: float
    """The interval of the excess; all of them hold together, at the level of the test."""
    nats: float
    """Cross-entropy gained over the prior of the labels, above the control."""
    nats_low: float
    nats_high: float
    seen: float
    """The smallest excess that would have been found with probability `POWER`."""
    p: float

    @property
    def found(self) -> bool:
        """Whether the interval lies above zero."""
        return self.low > 0.0


class Result(NamedTuple):
    """Balanced accuracy and gain over the prior, with the standard errors that come from units."""

    accuracy: float
    accuracy_error: float
    gain: float
    gain_error: float


class Control(NamedTuple):
    """What the classifier made of fresh scores, by window, and of which labels and gaps."""

    pattern: str
    results: dict[int, list[Result]]


@dataclass(frozen=True, slots=True)
class Attack:
    """What the classifier learned from scores, window by window; `detect` makes one."""

    learner: str
    """"boosted trees" or "scikit-learn"."""
    unit: str
    """"day" or "block"."""
    units: int
    windows: tuple[Detection, ...]
    """Empty where a value occurs in fewer than two folds: nothing was tested then."""
    control: Control | None = field(default=None, repr=False, compare=False)

    @property
    def found(self) -> bool:
        """Whether any window shows a leak."""
        return any(each.found for each in self.windows)

    @property
    def worst(self) -> Detection | None:
        """The window with the surest leak; None where nothing was tested."""
        return min(self.windows, key=lambda each: (each.p, -each.excess), default=None)

    @property
    def seen(self) -> float | None:
        """The smallest leak that would have been found in each window; None where nothing was tested."""
        return max((each.seen for each in self.windows), default=None)

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        windows = [each._asdict() for each in self.windows]
        return {"learner": self.learner, "unit": self.unit, "units": self.units, "windows": windows}


class Scores(NamedTuple):
    """Scores (N, d) of all segments one after the other, NaN where there is none, and the labels beside them."""

    z: Array
    theta: Index
    first: Ints
    """(N,) the first row of the segment of each row."""
    there: Mask
    """(N,) rows with a score in every channel and a label."""

    @staticmethod
    def of(parts: Sequence[Array], thetas: Sequence[Index]) -> Scores:
        """The scores of these segments."""
        z, theta, lengths = np.concatenate(parts), np.concatenate(thetas), [len(part) for part in parts]
        first = np.repeat(np.cumsum([0, *lengths[:-1]]), lengths)
        return Scores(z, theta, first, ~np.isnan(z).any(axis=1) & (theta >= 0))


class Units(NamedTuple):
    """The days, or blocks of time, that are held out and resampled as a whole."""

    name: str
    number: Ints
    """(N,) of each row."""
    fold: Ints
    """(N,) which rows are held out together."""


def detect(
    scores: Sequence[Array],
    labels: Sequence[Index],
    times: Sequence[Ints | None] | None = None,
    *,
    rng: Seed = None,
    zone: str | None = None,
    windows: Sequence[int] = WINDOWS,
    learner: str = "boosted trees",
    controls: int = CONTROLS,
    like: Attack | None = None,
) -> Attack:
    """Attack scores with labels beside them.

    Parameters
    ----------
    scores : sequence of (T, d) arrays
        Scores of each segment, or anything else that should be standard normal whatever theta is; NaN is missing.
    labels : sequence of (T,) arrays
        The private value of each row as a position, -1 where it is unknown.
    times : sequence of (T,) arrays, optional
        Nanoseconds since 1970. Days are known from them.
    zone : str, optional
        The zone of the clock on the wall, as a `History` has it.
    rng : seed, optional
        Of the control.
    windows, learner, controls
        A part of `WINDOWS`; "boosted trees" or "scikit-learn"; how many replicates the control has.
    like : Attack, optional
        On other scores of the same rows: its control is used again, if labels and gaps are the same.

    Returns
    -------
    Attack
        Without windows where some value is in too few units to be held out.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> theta = np.repeat([0, 1] * 10, 100)
    >>> z = rng.standard_normal((2000, 1))
    >>> detect([z], [theta], rng=1).found, detect([z * (1.0 + 0.5 * theta[:, None])], [theta], rng=1).found
    (False, True)

    """
    if learner not in LEARNERS:
        raise ConfigurationError(f"learner = {learner!r}; it must be one of {', '.join(map(repr, LEARNERS))}")
    whole = Scores.of(scores, labels)
    units = _units(whole, times, zone)
    values, label = np.unique(whole.theta[whole.there], return_inverse=True)
    counts = _counts(label, units.fold[whole.there], len(values))
    if len(values) < 2 or ((counts > 0).sum(axis=1) < 2).any():
        return Attack(learner, units.name, 0, ())
    generator, missing = np.random.default_rng(rng), np.isnan(whole.z)
    features = _Features(missing, whole.first, units.number)
    plans = {window: _Plan.of(whole, units, values, window, features.count(window)) for window in windows}
    pattern = sha256(repr((units.name, learner, controls, *windows)).encode())
    for part in (missing, whole.theta, whole.first, units.number):
        pattern.update(np.ascontiguousarray(part).tobytes())
    known = None if like is None or like.control is None else like.control
    results: dict[int, list[Result]] = {window: [] for window in windows}
    if known is not None and known.pattern == pattern.hexdigest():
        results, controls = {window: list(known.results[window]) for window in windows}, 0
    for replicate in range(1 + controls):  # the scores come last
        z = generator.standard_normal(missing.shape) if replicate < controls else np.clip(whole.z, -_CLIP, _CLIP)
        series = features.series(np.where(missing, 0.0, z))
        for window, plan in plans.items():
            logs = LEARNERS[learner](features(series, window)[plan.rows], plan.label, plan.fold, len(values))
            results[window].append(plan.judge(logs))
    level = FALSE_ALARM / len(plans)
    compared = tuple(_compare(window, results[window], plan.freedom, level) for window, plan in plans.items())
    control = Control(pattern.hexdigest(), {window: each[:-1] for window, each in results.items()})
    return Attack(learner, units.name, max(plan.counts.shape[1] for plan in plans.values()), compared, control)


def _units(scores: Scores, times: Sequence[Ints | None] | None, zone: str | None) -> Units:
    """Days, or else segments where there are many, or else blocks of time."""
    rows, there = np.arange(len(scores.theta)), scores.there
    fresh = scores.first == rows
    known = [part for part in times or () if part is not None]
    if sum(map(len, known)) == len(rows):
        ns = np.concatenate(known)
        ns = ns + ((hours(ns, zone) - hours(ns, None) + 12) % 24 - 12) * (_DAY // 24)  # the clock on the wall
        fresh = np.concatenate([[True], (np.diff(ns // _DAY) != 0) | (np.diff(ns) < 0)])[: len(rows)]
    number = np.cumsum(fresh) - 1
    days = np.unique(number[there])
    if days.size >= DAYS:
        return Units("day" if known else "segment", number, np.searchsorted(days, number) % min(_FOLDS, days.size))
    size = max(1, int(there.sum()))
    blocks = min(max(_BLOCKS[0], size // 60), _BLOCKS[1])
    block = np.maximum(np.cumsum(there) - 1, 0) * blocks // size
    return Units("block", block, block * _FOLDS // blocks)


def _counts(label: Index, number: Ints, values: int) -> Ints:
    """(values, units) how many rows of each value each unit has."""
    width = int(number.max(initial=0)) + 1
    return np.bincount(label * width + number, minlength=values * width).reshape(values, width)


# Features -------------------------------------------------------------------------------------------------------------


class _Features:
    """Means over windows of simple functions of the scores.

    Only what is there counts; where it is does not depend on the scores.
    """

    def __init__(self, missing: Mask, first: Ints, unit: Ints) -> None:
        n, self.d = missing.shape
        self.there, self.first = ~missing, first
        self.rows = np.arange(n)
        self.last = np.concatenate([first[1:] != first[:-1], [True]])
        self.last = np.minimum.accumulate(np.where(self.last, self.rows, n)[::-1])[::-1]
        self.before = self._back(1)
        self.four = [self._back(lag) for lag in (1, 2, 3)]
        self.edges = np.flatnonzero(np.concatenate([[True], (unit[1:] != unit[:-1]) | (first[1:] != first[:-1])]))
        self.run = np.repeat(np.arange(len(self.edges)), np.diff([*self.edges, n]))
        self.pairs = list(combinations(range(self.d), 2))
        masks = [self.there, self.there & self.before] + [self.there] * 7
        masks += [(self.there[:, [a]] & self.there[:, [b]]) for a, b in self.pairs]
        self.mask = np.concatenate(masks, axis=1)
        self.total = np.concatenate([np.zeros((1, self.mask.shape[1])), self.mask.cumsum(axis=0)])

    def _back(self, lag: int) -> Mask:
        """Whether there is a score so many rows before, in the same segment."""
        found = np.zeros_like(self.there)
        found[lag:] = self.there[:-lag]
        found[self.rows - lag < self.first] = False
        return found

    def count(self, window: int) -> int:
        """How many features a window has."""
        S = int(self.mask.shape[1])
        return 5 * self.d + len(self.pairs) if window == 1 else 3 * S + self.d if window == DAY else 2 * S

    def series(self, z: Array) -> Array:
        """The functions (N, S) of scores (N, d) that are 0 where they are missing."""
        before, four = np.zeros_like(z), z.copy()
        before[1:] = z[:-1]
        for lag, there in zip((1, 2, 3), self.four, strict=True):
            four[lag:] += z[:-lag] * there[lag:]
        size = np.abs(z)
        parts = [z, z * before, size, z * z, 0.25 * four * four, z < -1.0, z > 1.0, size < 0.3, size > 2.0]
        parts += [z[:, [a]] * z[:, [b]] for a, b in self.pairs]
        return np.concatenate(parts, axis=1) * self.mask

    def __call__(self, series: Array, window: int) -> Array:
        """The features of one window, of series as above."""
        d, pairs, n = self.d, len(self.pairs), len(series)
        if window == 1:
            z, product = series[:, :d], series[:, d : 2 * d]
            before, after, next_product = (np.zeros_like(z) for _ in range(3))
            before[1:] = z[:-1]
            after[:-1], next_product[:-1] = z[1:], product[1:]
            before[self.rows == self.first] = 0.0
            after[self.rows == self.last] = next_product[self.rows == self.last] = 0.0
            return np.concatenate(
                [z, before, after, product, next_product, series[:, series.shape[1] - pairs :]], axis=1
            )
        sums = np.concatenate([np.zeros((1, series.shape[1])), series.cumsum(axis=0)])

        def mean(start: Index, stop: Index) -> Array:
            return np.asarray((sums[stop] - sums[start]) / np.maximum(1.0, self.total[stop] - self.total[start]))

        length = 60 if window == DAY else window
        last = mean(np.maximum(self.rows + 1 - length, self.first), self.rows + 1)
        ahead = mean(self.rows, np.minimum(self.rows + length, self.last + 1))
        if window != DAY:
            return np.concatenate([last, ahead], axis=1)
        start, stop = self.edges[self.run], np.append(self.edges[1:], n)[self.run]
        walk = (sums[self.rows + 1, :d] - sums[start, :d]) / np.sqrt(1.0 + self.rows - start)[:, None]
        return np.concatenate([last, ahead, mean(start, stop), walk], axis=1)


# Classifiers ----------------------------------------------------------------------------------------------------------


_TREES = 24
_RATE = 0.25
_RIDGE = 5.0  # prior rows of a leaf, in units of the Hessian
_LEVELS = np.array([0.01, 0.05, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 0.95, 0.99])


def boosted_trees(X: Array, label: Index, fold: Index, values: int) -> Array:
    """Gradient boosting of the log-loss, with trees of two levels that ask the same second question in both branches.

    All folds are boosted at once. Features are cut at quantiles.
    """
    n, K, q = len(X), int(fold.max()) + 1, values if values > 2 else 1
    edges = np.quantile(X, _LEVELS, axis=0).T
    A = (X[:, :, None] <= edges).reshape(n, -1).astype(np.float32)
    B, each = np.ascontiguousarray(A.T), np.arange(K)
    train = (fold[:, None] != each).astype(np.float32)[:, :, None]
    member = np.eye(values, dtype=np.float32)[label][:, None, :]
    log_prior = np.log(((train * member).sum(axis=0) + 0.5) / (train.sum(axis=0) + 0.5 * values))
    # of two values one logit, of more one for each
    target = member if q > 1 else member[:, :, 1:]
    start = log_prior if q > 1 else log_prior[:, 1:] - log_prior[:, :1]
    logit = np.broadcast_to(start, (n, K, q)).astype(np.float32)

    def worth(sums: Array) -> Array:  # (..., K, 2, q) -> (..., K)
        return np.asarray((np.square(sums[..., 0, :]) / (sums[..., 1, :] + _RIDGE)).sum(axis=-1))

    for _ in range(_TREES):
        P = _softmax(logit) if q > 1 else 1.0 / (1.0 + np.exp(-logit))
        V = np.stack([(target - P) * train, P * (1.0 - P) * train], axis=2)  # (n, K, 2, q)
        total, yes = V.sum(axis=0), (B @ V.reshape(n, -1)).reshape(-1, K, 2, q)
        first = (worth(yes) + worth(total - yes)).argmax(axis=0)
        left = A[:, first]
        inner = (B @ (V * left[:, :, None, None]).reshape(n, -1)).reshape(-1, K, 2, q)
        top, others = yes[first, each], yes - inner
        leaves = [total - top - others, others, top - inner, inner]  # by the first answer, then by the second
        second = np.sum([worth(leaf) for leaf in leaves], axis=0).argmax(axis=0)
        sums = np.stack([leaf[second, each] for leaf in leaves])  # (4, K, 2, q)
        step = _RATE * sums[:, :, 0] / (sums[:, :, 1] + _RIDGE)
        logit += step[(2.0 * left + A[:, second]).astype(np.intp), each]
    own = logit[np.arange(n), fold].astype(float)
    own = own if q > 1 else np.concatenate([np.zeros_like(own), own], axis=1)
    return np.asarray(np.log(np.maximum(_softmax(own), 1e-6)) - log_prior[fold])


def _softmax(x: NDArray[F]) -> NDArray[F]:
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return cast("NDArray[F]", p / p.sum(axis=-1, keepdims=True))


def scikit_learn(X: Array, label: Index, fold: Index, values: int) -> Array:
    """`HistGradientBoostingClassifier`, fold by fold."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        raise ConfigurationError(
            'learner="scikit-learn" needs scikit-learn: pip install "understudy[sklearn]"'
        ) from None
    found = np.zeros((len(X), values))
    for k in range(int(fold.max()) + 1):
        train, test = fold != k, fold == k
        prior = (np.bincount(label[train], minlength=values) + 0.5) / (train.sum() + 0.5 * values)
        if test.any() and np.unique(label[train]).size > 1:
            made = HistGradientBoostingClassifier(
                max_iter=60, max_leaf_nodes=6, learning_rate=0.1, early_stopping=False
            )
            made.fit(X[train], label[train])
            p = np.full((int(test.sum()), values), 1e-4)
            p[:, made.classes_] = np.maximum(made.predict_proba(X[test]), 1e-4)
            found[test] = np.log(p / p.sum(axis=1, keepdims=True)) - np.log(prior)
    return found


LEARNERS: dict[str, Learner] = {"boosted trees": boosted_trees, "scikit-learn": scikit_learn}


# Judgement ------------------------------------------------------------------------------------------------------------


class _Plan(NamedTuple):
    """The rows that are trained on and judged in one window, with the value, the fold and the unit of each."""

    rows: Index
    label: Index
    fold: Ints
    unit: Index
    counts: Ints
    """(values, units)."""

    @staticmethod
    def of(scores: Scores, units: Units, values: Index, window: int, features: int) -> _Plan:
        """Neighbouring windows overlap, so every so many rows tell almost as much."""
        rows = np.flatnonzero(scores.there)
        stride = min((window or WINDOWS[2]) // 8, len(rows) // _ROWS)
        thin = rows[:: max(1, stride, -(-len(rows) * features // _CELLS))]
        rows = thin if np.isin(values, scores.theta[thin]).all() else rows
        label = np.searchsorted(values, scores.theta[rows])
        _, unit = np.unique(units.number[rows], return_inverse=True)
        return _Plan(rows, label, units.fold[rows], unit, _counts(label, unit, len(values)))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of an error from units: how many units the rarest value is spread over, less one."""
        share = self.counts / self.counts.sum(axis=1, keepdims=True)
        return max(1.0, float((1.0 / np.square(share).sum(axis=1)).min()) - 1.0)

    def judge(self, ratio: Array) -> Result:
        """Judge log-probabilities over priors (n, values): guesses treat all values as equally likely."""
        n, rows = len(self.label), self.counts.sum(axis=1)
        right, width = ratio.argmax(axis=1) == self.label, self.counts.shape[1]
        hits = np.bincount((self.label * width + self.unit)[right], minlength=self.counts.size)
        hits = hits.reshape(self.counts.shape)
        accuracy = hits.sum(axis=1) / rows
        # the influence of each unit on the mean over values of hits / rows
        pull = ((hits - accuracy[:, None] * self.counts) / rows[:, None]).mean(axis=0)
        gains = np.bincount(self.unit, weights=ratio[np.arange(n), self.label], minlength=width)
        gain = gains.sum() / n
        return Result(
            float(accuracy.mean()), _error(pull), float(gain), _error((gains - gain * self.counts.sum(axis=0)) / n)
        )


def _error(pull: Array) -> float:
    """The standard error of a sum over units, neighbours being correlated (Bartlett weights, two lags)."""
    plain = float(pull @ pull)
    wide = plain + (4.0 * float(pull[1:] @ pull[:-1]) + 2.0 * float(pull[2:] @ pull[:-2])) / 3.0
    return float(np.sqrt(max(plain, wide) * len(pull) / max(1, len(pull) - 1)))


def _compare(window: int, results: list[Result], freedom: float, level: float) -> Detection:
    """The scores against the control."""
    from scipy.stats import t

    own, fresh = results[-1], np.array(results[:-1])
    mean, sd = fresh.mean(axis=0), fresh.std(axis=0, ddof=1)
    size = len(fresh)

    def error(of_units: float, of_control: float) -> float:
        return float(np.sqrt(max(of_units, of_control) ** 2 + of_control**2 / size)) + 1e-12

    excess, gain = own.accuracy - float(mean[0]), own.gain - float(mean[2])
    se, nats_se = error(own.accuracy_error, sd[0]), error(own.gain_error, sd[2])
    beyond, power = float(t.isf(level, freedom)), float(t.isf(POWER, freedom))
    return Detection(
        window, own.accuracy, float(mean[0]), float(sd[0]), excess, excess - beyond * se, excess + beyond * se,
        gain, gain - beyond * nats_se, gain + beyond * nats_se, (beyond - power) * se,
        float(t.sf(excess / se, freedom)),
    )  # fmt: skip


__all__ = ["DAY", "DAYS", "FALSE_ALARM", "WINDOWS", "Attack", "Detection", "Scores", "detect"]
