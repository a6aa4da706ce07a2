"""The gate: tests whether the scores of held-out data depend on the private parameter.

Under a right model the scores are independent standard normals whatever theta is, and Theorem 1 rests on that. Under a
wrong model they depend on theta. So the scores of held-out readings are tested, value by value: their mean, their
spread, their shape and their autocorrelation. Two further tests take all values together: the correlation of channels,
and a classifier of theta.

The classifier is a linear discriminant. Its features are means over a trailing window of the score, its square and its
product with the score before. It is trained on every other block of time and tested on the rest, both ways. Its
accuracy under the null hypothesis is simulated: the same classifier on fresh standard normals with the same labels,
whose persistence is thereby taken into account.

Under the null hypothesis all tests together fail a right model with probability `FALSE_ALARM`, divided evenly among
them. A gate that passes is no proof: it says what so many readings could have shown. A gate that fails is shown with
every design and every report, and files are then disguised only if the user accepts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from understudy import text
from understudy._types import Array, Index, Ints, Mask, Seed, Value
from understudy.errors import ConfigurationError
from understudy.identify.history import History
from understudy.identify.selection import scores
from understudy.models.model import Model

# A classifier of the private value from scores ----------------------------------------------------


WINDOWS = (1, 15, 60)
_BLOCKS = 20
_SIMULATIONS = 200


class Detection(NamedTuple):
    """How well theta is told from so many scores: balanced accuracy, that of chance, its error, and the p-value.

    The p-value is that of a normal law with the mean and the variance of the simulations.
    """

    window: int
    accuracy: float
    chance: float
    chance_error: float
    p: float


class Scores(NamedTuple):
    """Scores (N, d) of all segments one after the other, NaN where there is none, and the labels beside them."""

    z: Array
    theta: Index
    first: Ints
    """(N,) the first row of the segment of each row."""
    there: Mask
    """(N,) rows with a score in every channel and a label."""

    @staticmethod
    def of(parts: list[Array], thetas: list[Index]) -> Scores:
        """The scores of these segments."""
        z, theta, lengths = np.concatenate(parts), np.concatenate(thetas), [len(part) for part in parts]
        first = np.repeat(np.cumsum([0, *lengths[:-1]]), lengths)
        return Scores(z, theta, first, ~np.isnan(z).any(axis=1) & (theta >= 0))


def detect_private_value(scores: Scores, tested: list[int], rng: np.random.Generator) -> list[Detection]:
    """Try for each window; `tested` are the values that are to be told apart, by position."""
    from scipy.stats import norm

    label = np.full(len(scores.theta), -1)
    for new, old in enumerate(tested):
        label[scores.theta == old] = new
    ok = scores.there & (label >= 0)
    # the parity of the block of time
    parity = np.where(ok, (np.cumsum(ok) - 1) * _BLOCKS // max(1, int(ok.sum())), 0) % 2
    halves = [_Half.of(label, ok & (parity == side), ok & (parity != side), len(tested)) for side in (0, 1)]
    if any((half.sizes < 2).any() for half in halves) or not (halves[0].total + halves[1].total).all():
        return []  # a value that is not in both halves
    missing, found = np.isnan(scores.z), []
    for window in WINDOWS:
        features = _Features(missing, scores.first, window)
        accuracy = _accuracy(features(np.where(missing, 0.0, scores.z)), halves)
        fresh = (np.where(missing, 0.0, rng.standard_normal(missing.shape)) for _ in range(_SIMULATIONS))
        null = np.array([_accuracy(features(z), halves) for z in fresh])
        mean, sd = float(null.mean()), float(null.std(ddof=1))
        p = float(norm.sf((accuracy - mean) / max(sd, 1e-12)))
        found.append(Detection(window, accuracy, mean, sd, p))
    return found


class _Features:
    """Means over the last `window` rows of the same segment of: score, its square, product with the one before.

    Only what is there counts; where it is does not depend on the scores.
    """

    def __init__(self, missing: Mask, first: Ints, window: int) -> None:
        rows = np.arange(len(missing))
        lone = np.ones_like(missing)
        lone[1:] = missing[:-1]
        lone[first == rows] = True
        self.window, self.there, self.pair = window, ~missing, ~(missing | lone)
        self.start = np.maximum(rows + 1 - window, first)
        count = np.concatenate([self.there, self.there, self.pair], axis=1).cumsum(axis=0)
        count = np.concatenate([np.zeros((1, count.shape[1])), count])
        self.count = np.maximum(1.0, count[1:] - count[self.start])

    def __call__(self, z: Array) -> Array:
        """The features (N, 3 d) of scores (N, d) that are 0 where they are missing."""
        d = z.shape[1]
        raw = np.zeros((len(z) + 1, 3 * d))
        raw[1:, :d] = z
        raw[1:, d : 2 * d] = (z * z - 1.0) * self.there
        raw[2:, 2 * d :] = (z[1:] * z[:-1]) * self.pair[1:]
        if self.window == 1:
            return raw[1:]
        total = raw.cumsum(axis=0)
        return np.asarray((total[1:] - total[self.start]) / self.count)


class _Half(NamedTuple):
    """One half of the blocks to train on, the other to test on; `sizes` and `total` by value."""

    train: Index
    member: Array
    """(n, classes) which value each training row has."""
    sizes: Ints
    test: Index
    label: Index
    total: Ints

    @staticmethod
    def of(label: Index, train: Mask, test: Mask, classes: int) -> _Half:
        """The rows of these masks."""
        count, total = (np.bincount(label[mask], minlength=classes) for mask in (train, test))
        member = np.eye(classes)[label[train]]
        return _Half(np.flatnonzero(train), member, count, np.flatnonzero(test), label[test], total)


def _accuracy(features: Array, halves: list[_Half]) -> float:
    """Balanced accuracy on blocks that were not trained on."""
    right = np.zeros(len(halves[0].sizes))
    for train, member, count, test, label, _ in halves:
        # a linear discriminant with all values equally likely, which is what balanced accuracy asks for
        X = features[train]
        means = member.T @ X / count[:, None]
        E = X - member @ means
        spread = E.T @ E / (len(X) - 1)
        weights = np.linalg.solve(spread + 1e-9 * np.eye(len(spread)), means.T)
        judged = features[test] @ weights - 0.5 * np.einsum("ij,ji->i", means, weights)
        right += np.bincount(label[judged.argmax(axis=1) == label], minlength=len(count))
    return float((right / (halves[0].total + halves[1].total)).mean())


# The tests, and their verdicts --------------------------------------------------------------------


FALSE_ALARM = 1e-3
"""Probability that a right model fails."""
LAGS = 10
FEWEST = 50
"""Scores of a value below which it is not tested."""
_START = 10  # rows at the start of a segment that are left out: where a file begins is no start of a process


@dataclass(frozen=True, slots=True)
class Verdict:
    """One test: what it found, how unlikely that is for a right model, and the same in words."""

    name: str
    value: Value | None
    """Of the private parameter; None for tests over all of them."""
    channel: str | None
    found: float
    """What was found: a mean, a spread, a distance, a sum of squared correlations, a balanced accuracy."""
    p: float
    limit: float
    sentence: str

    @property
    def passed(self) -> bool:
        """Whether a right model would do so often enough."""
        return self.p >= self.limit

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "name": self.name,
            "class": self.value,
            "channel": self.channel,
            "value": self.found,
            "p": self.p,
            "limit": self.limit,
            "passed": self.passed,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Gate:
    """All verdicts on a family; `gate` makes one.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> theta = np.repeat([0, 1] * 10, 100)
    >>> models = {0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(2.0, 4.0))}
    >>> Y = us.sample(us.Family(models).along(theta.tolist()), 2000, rng=1)
    >>> held = History(("co2",), "people", None, (), (0, 1), None, (Segment("1", None, Y[:, None], theta),), ())
    >>> gate(models, held)
    Gate(passed, 13 tests of 1990 scores)
    >>> gate({0: models[0], 1: us.IID(us.Gaussian(2.0, 9.0))}, held)
    Gate(FAILED, 4 of 13 tests of 1990 scores)
    """

    verdicts: tuple[Verdict, ...]
    scores: int
    """Scores that were tested."""
    untested: tuple[Value, ...]
    """Values with too few scores."""
    told: tuple[Detection, ...]
    """How well theta is told from the scores, by length of window."""

    def __repr__(self) -> str:
        bad, count = len(self.failed), len(self.verdicts)
        verdict = f"FAILED, {bad} of {count}" if bad else f"passed, {count}" if self.passed else f"INCOMPLETE, {count}"
        return f"Gate({verdict} tests of {self.scores} scores)"

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """Verdicts that say that the model is wrong."""
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the model; a value that could not be tested may hide anything."""
        return not self.failed and not self.untested

    @property
    def warning(self) -> str | None:
        """What a design of this family must carry, in plain words; None if the gate was passed."""
        if self.passed:
            return None
        if not self.failed:
            return text.gate_untested(self.untested, FEWEST)
        bad = [told for told in self.told if told.p < self.verdicts[0].limit]
        worst = max(bad, key=lambda told: told.accuracy - told.chance, default=None)
        guessed = None if worst is None else (worst.accuracy, worst.chance)
        return text.gate_failed(len(self.failed), len(self.verdicts), guessed)

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it, and as a family keeps it."""
        return {
            "passed": self.passed,
            "warning": self.warning,
            "false_alarm": FALSE_ALARM,
            "scores": self.scores,
            "untested": list(self.untested),
            "told": [told._asdict() for told in self.told],
            "verdicts": [verdict.to_plain() for verdict in self.verdicts],
        }


def gate(models: Mapping[Any, Model], held: History, *, random_state: Seed = 0) -> Gate:
    """Test the scores of held-out readings under fitted models.

    The first rows of each segment are left out: the state before them is not known, which is another matter than a
    wrong law. The classifier is trained and tested on different blocks of time.
    """
    rng = np.random.default_rng(random_state)
    parts = scores(models, held, rng=rng)
    for z in parts:
        z[:_START] = np.nan
    found = Scores.of(parts, [segment.theta for segment in held.segments])
    sizes = np.bincount(found.theta[found.there], minlength=len(held.values))
    if sizes.sum() < FEWEST:
        raise ConfigurationError(f"{sizes.sum()} held-out scores; the gate needs at least {FEWEST}")
    tested = np.flatnonzero(sizes >= FEWEST).tolist()
    told = detect_private_value(found, tested, rng) if len(tested) > 1 else []
    verdicts = [*_by_value(found, tested, held), *_of_channels(found, held), *_of_theta(told, held.private)]
    limit = FALSE_ALARM / max(1, len(verdicts))
    untested = tuple(held.values[i] for i in range(len(sizes)) if i not in tested)
    return Gate(tuple(replace(v, limit=limit) for v in verdicts), int(sizes.sum()), untested, tuple(told))


def _by_value(found: Scores, tested: list[int], held: History) -> Iterator[Verdict]:
    from scipy.stats import chi2, kstest, norm

    for i, (c, channel) in product(tested, enumerate(held.readings)):
        value = held.values[i]
        who = f"{channel}, {held.private} {value}"
        z = found.z[found.there & (found.theta == i), c]
        mean, spread = float(z.mean()), float(np.sqrt(np.square(z).mean()))
        p = 2.0 * float(norm.sf(abs(mean) * np.sqrt(len(z))))
        yield Verdict("mean", value, channel, mean, p, 0.0, text.fit_note("scores: mean", who=who, x=mean))
        energy = float(np.square(z).sum())
        p = 2.0 * float(min(chi2.cdf(energy, len(z)), chi2.sf(energy, len(z))))
        yield Verdict("spread", value, channel, spread, p, 0.0, text.fit_note("scores: spread", who=who, x=spread))
        distance, p = map(float, kstest(z, "norm"))
        yield Verdict("shape", value, channel, distance, p, 0.0, text.fit_note("scores: shape", who=who, x=distance))
        # under the null the size of a score on a bounded scale has mean 0 and variance 1
        series = np.where(found.there, found.z[:, c], np.nan)
        for name, x, unit in (("memory", series, spread * spread), ("memory of the spread", _even(series), 1.0)):
            sizes, products = _products(x, found, i)
            known = sizes >= FEWEST
            if known.any():
                r = products[known] / sizes[known]
                worst = int(np.flatnonzero(known)[np.abs(r).argmax()])
                p = float(chi2.sf(np.square(products[known]).dot(1.0 / sizes[known]), int(known.sum())))
                correlation = products[worst] / sizes[worst] / max(unit, 1e-300)
                words = text.fit_note(f"scores: {name}", who=who, lag=worst + 1, x=correlation)
                yield Verdict(name, value, channel, float(np.square(r).sum()), p, 0.0, words)


def _even(z: Array) -> Array:
    """The size of a score on a bounded scale, with mean 0 and variance 1 under the null."""
    from scipy.special import ndtr

    return np.asarray(np.sqrt(12.0) * (2.0 * ndtr(np.abs(z)) - 1.5))


def _products(x: Array, found: Scores, i: int) -> tuple[Array, Array]:
    """For each lag, how many pairs there are that end in a reading of value i, and the sum of their products."""
    sizes, products, rows = np.zeros(LAGS), np.zeros(LAGS), np.arange(len(x))
    for lag in range(1, LAGS + 1):
        ends = np.flatnonzero((found.theta == i) & (rows - lag >= found.first))
        pairs = x[ends] * x[ends - lag]
        sizes[lag - 1], products[lag - 1] = (~np.isnan(pairs)).sum(), np.nansum(pairs)
    return sizes, products


def _of_channels(found: Scores, held: History) -> Iterator[Verdict]:
    """The correlation of the scores of two channels."""
    from scipy.stats import norm

    z = found.z[found.there]
    for a, b in combinations(range(held.dim), 2):
        r = float((z[:, a] * z[:, b]).mean())
        p = 2.0 * float(norm.sf(abs(r) * np.sqrt(len(z))))
        words = text.fit_note("scores: channels", one=held.readings[a], other=held.readings[b], x=r)
        yield Verdict("channels", None, None, r, p, 0.0, words)


def _of_theta(told: list[Detection], private: str) -> Iterator[Verdict]:
    for each in told:
        rows = "one score" if each.window == 1 else f"{each.window} scores"
        words = text.fit_note("scores: theta", private=private, rows=rows, x=each.accuracy, chance=each.chance)
        yield Verdict(f"private value from {rows}", None, None, each.accuracy, each.p, 0.0, words)


__all__ = ["FALSE_ALARM", "WINDOWS", "Gate", "Verdict", "gate"]
