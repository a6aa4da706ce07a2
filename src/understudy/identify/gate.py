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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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


def detect_private_value(
    parts: list[Array], thetas: list[Index], tested: list[int], rng: np.random.Generator
) -> list[Detection]:
    """Try for each window; `tested` are the values that are to be told apart, by position."""
    from scipy.stats import norm

    found = []
    theta, ok, block = _layout(parts, thetas, tested)
    z = np.concatenate(parts)
    starts = np.cumsum([0, *(len(part) for part in parts)])
    missing = np.isnan(z)
    for window in WINDOWS:
        accuracy = _accuracy(_features(z, starts, window), theta, ok, block, len(tested))
        if accuracy is None:
            continue
        null = np.array(
            [
                _accuracy(_features(_fresh(missing, rng), starts, window), theta, ok, block, len(tested))
                for _ in range(_SIMULATIONS)
            ],
            dtype=float,
        )
        mean, sd = float(null.mean()), float(null.std(ddof=1))
        p = float(norm.sf((accuracy - mean) / max(sd, 1e-12)))
        found.append(Detection(window, accuracy, mean, sd, p))
    return found


def _fresh(missing: Mask, rng: np.random.Generator) -> Array:
    z = rng.standard_normal(missing.shape)
    z[missing] = np.nan
    return z


def _layout(parts: list[Array], thetas: list[Index], tested: list[int]) -> tuple[Index, Mask, Index]:
    """Labels 0, 1, ... of the values that are told apart, which rows count, and the parity of their block of time."""
    theta = np.concatenate(thetas)
    label = np.full(len(theta), -1)
    for new, old in enumerate(tested):
        label[theta == old] = new
    ok = (label >= 0) & ~np.isnan(np.concatenate(parts)).any(axis=1)
    order = np.cumsum(ok) - 1
    block = np.where(ok, order * _BLOCKS // max(1, int(ok.sum())), 0) % 2
    return label, ok, block


def _features(z: Array, starts: Ints, window: int) -> Array:
    """Means over the last `window` rows of the same segment of: score, its square, product with the one before."""
    before = np.full_like(z, np.nan)
    before[1:] = z[:-1]
    before[starts[:-1][starts[:-1] < len(z)]] = np.nan
    raw = np.concatenate([z, np.square(z) - 1.0, z * before], axis=1)
    if window == 1:
        return np.asarray(np.nan_to_num(raw))
    known = ~np.isnan(raw)
    total, count = (
        np.concatenate([np.zeros((1, raw.shape[1])), x.cumsum(axis=0)]) for x in (np.nan_to_num(raw), known)
    )
    rows = np.arange(1, len(z) + 1)
    first = np.maximum(rows - window, np.repeat(starts[:-1], np.diff(starts)))
    return np.asarray((total[rows] - total[first]) / np.maximum(1.0, count[rows] - count[first]))


def _accuracy(features: Array, label: Index, ok: Mask, parity: Index, classes: int) -> float | None:
    """Balanced accuracy on blocks that were not trained on; None where a value is not in both halves."""
    right, total = np.zeros(classes), np.zeros(classes)
    for side in (0, 1):
        train, test = ok & (parity == side), ok & (parity != side)
        count = np.bincount(label[train], minlength=classes)
        if (count < 2).any():
            return None
        # a linear discriminant with all values equally likely, which is what balanced accuracy asks for
        X, labels = features[train], label[train]
        means = np.stack([np.bincount(labels, X[:, j], classes) / count for j in range(X.shape[1])], axis=1)
        spread = np.cov((X - means[labels]).T).reshape(X.shape[1], X.shape[1])
        weights = np.linalg.solve(spread + 1e-9 * np.eye(len(spread)), means.T)
        judged = features[test] @ weights - 0.5 * np.einsum("ij,ji->i", means, weights)
        guess = judged.argmax(axis=1)
        right += np.bincount(label[test][guess == label[test]], minlength=classes)
        total += np.bincount(label[test], minlength=classes)
    return None if (total == 0).any() else float((right / total).mean())


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
    thetas = [segment.theta for segment in held.segments]
    there = [~np.isnan(z).any(axis=1) & (theta >= 0) for z, theta in zip(parts, thetas, strict=True)]
    count = int(sum(ok.sum() for ok in there))
    if count < FEWEST:
        raise ConfigurationError(f"{count} held-out scores; the gate needs at least {FEWEST}")
    sizes = [
        int(sum((ok & (theta == i)).sum() for ok, theta in zip(there, thetas, strict=True)))
        for i in range(len(held.values))
    ]
    tested = [i for i, n in enumerate(sizes) if n >= FEWEST]
    told = detect_private_value(parts, thetas, tested, rng) if len(tested) > 1 else []
    found = [*_by_value(parts, thetas, there, tested, held), *_of_channels(parts, there, held), *_of_theta(told, held)]
    limit = FALSE_ALARM / max(1, len(found))
    verdicts = tuple(Verdict(*test[:5], limit, test[5]) for test in found)
    untested = tuple(held.values[i] for i in range(len(sizes)) if i not in tested)
    return Gate(verdicts, count, untested, tuple(told))


_Test = tuple[str, Value | None, str | None, float, float, str]


def _by_value(
    parts: list[Array], thetas: list[Index], there: list[Mask], tested: list[int], held: History
) -> Iterator[_Test]:
    from scipy.stats import chi2, kstest, norm

    for i in tested:
        value = held.values[i]
        for c, channel in enumerate(held.readings):
            z = np.concatenate([z[ok & (t == i), c] for z, t, ok in zip(parts, thetas, there, strict=True)])
            n, who = len(z), f"{channel}, {held.private} {value}"
            mean, spread = float(z.mean()), float(np.sqrt(np.square(z).mean()))
            p = 2.0 * float(norm.sf(abs(mean) * np.sqrt(n)))
            yield "mean", value, channel, mean, p, f"{who}: the scores have the mean {mean:.3g}; 0 is right."
            energy = float(np.square(z).sum())
            p = 2.0 * float(min(chi2.cdf(energy, n), chi2.sf(energy, n)))
            yield "spread", value, channel, spread, p, f"{who}: the scores have the spread {spread:.3g}; 1 is right."
            distance = kstest(z, "norm")
            words = f"{who}: the shares of scores below any bound differ from the normal ones by up to "
            words += f"{distance.statistic:.3g}."
            yield "shape", value, channel, float(distance.statistic), float(distance.pvalue), words
            for name, change in (("memory", lambda x: x), ("memory of the spread", _even)):
                sizes, products = _products(parts, thetas, there, i, c, change)
                known = sizes >= FEWEST
                if not known.any():
                    continue
                r = products[known] / sizes[known]
                worst = int(np.flatnonzero(known)[np.abs(r).argmax()])
                p = float(chi2.sf(np.square(products[known]).dot(1.0 / sizes[known]), int(known.sum())))
                worst_r = products[worst] / sizes[worst] / max(spread * spread if name == "memory" else 1.0, 1e-300)
                what = "one score tells about" if name == "memory" else "the size of one score tells about that of"
                words = f"{who}: {what} the {worst + 1}. after it (correlation {worst_r:.3g})."
                yield name, value, channel, float(np.square(r).sum()), p, words


def _even(z: Array) -> Array:
    """The size of a score on a bounded scale, with mean 0 and variance 1 under the null."""
    from scipy.special import ndtr

    return np.asarray(np.sqrt(12.0) * (2.0 * ndtr(np.abs(z)) - 1.5))


def _products(
    parts: list[Array], thetas: list[Index], there: list[Mask], i: int, c: int, change: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """For each lag, how many pairs there are that end in a reading of value i, and the sum of their products."""
    sizes, products = np.zeros(LAGS), np.zeros(LAGS)
    for z, theta, ok in zip(parts, thetas, there, strict=True):
        x = change(np.where(ok, z[:, c], np.nan))
        for lag in range(1, min(LAGS, len(x) - 1) + 1):
            pairs = (x[lag:] * x[:-lag])[theta[lag:] == i]
            pairs = pairs[~np.isnan(pairs)]
            sizes[lag - 1] += len(pairs)
            products[lag - 1] += pairs.sum()
    return sizes, products


def _of_channels(parts: list[Array], there: list[Mask], held: History) -> Iterator[_Test]:
    """Whether the scores of two channels know each other."""
    from scipy.stats import norm

    z = np.concatenate([z[ok] for z, ok in zip(parts, there, strict=True)])
    for a in range(held.dim):
        for b in range(a + 1, held.dim):
            r = float((z[:, a] * z[:, b]).mean())
            names = f"{held.readings[a]} and {held.readings[b]}"
            p = 2.0 * float(norm.sf(abs(r) * np.sqrt(len(z))))
            yield "channels", None, None, r, p, f"{names}: their scores have the correlation {r:.3g}; 0 is right."


def _of_theta(told: list[Detection], held: History) -> Iterator[_Test]:
    for each in told:
        rows = "one score" if each.window == 1 else f"{each.window} scores"
        words = f"{held.private} is told from {rows} with balanced accuracy {each.accuracy:.3f}; "
        words += f"{each.chance:.3f} is chance."
        yield f"private value from {rows}", None, None, each.accuracy, each.p, words


__all__ = ["FALSE_ALARM", "WINDOWS", "Gate", "Verdict", "gate"]
