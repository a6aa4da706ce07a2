"""The gate: whether the scores of readings that a fit has not seen still tell the private value.

Under a right model the scores are independent standard normals whatever theta is, and Theorem 1 rests on that. Under a
wrong model they may depend on theta, and whatever does is leaked, at any budget. So the gate attacks the scores
(`identify.detection.detect`): a strong classifier, trained on other days than it is judged on, against the same
classifier on fresh standard normals. The verdict is the leak above that control, with its interval: *leak* if the
interval lies above zero in some window, otherwise *passed*. If hardly any leak could have been seen, or a value has too
few scores, it is *untested*: nothing is known then, neither good nor bad.

A misfit that is the same for every value of theta costs no privacy (docs/theory.md, "A misfit that all values share").
So the older tests of the scores, value by value, are diagnostics and decide nothing: mean, spread, shape and
autocorrelation, and the correlation of channels. They say where a model is wrong, and whoever wants disguised readings
to have the law of the pseudo value should read them.

Scores come from the held-out end of the time under the models as fitted, and from each block of the training time under
the same class fitted without that block.

A right model is called a leak with probability `FALSE_ALARM`. A gate that passes is no proof: it says which leak would
have been found. A gate that finds a leak is shown with every design and every report, and files are then disguised only
if the user accepts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, Literal

import numpy as np

from understudy import text
from understudy._types import Array, Seed, Value
from understudy.errors import ConfigurationError
from understudy.identify.detection import FALSE_ALARM, Attack, Scores, detect
from understudy.identify.history import History
from understudy.identify.selection import scores
from understudy.models.model import Model

Outcome = Literal["passed", "leak", "untested"]
DIAGNOSTIC_ALARM = 1e-3
"""Probability that scores of a right model fail any of the diagnostics."""
LAGS = 10
FEWEST = 50
"""Scores of a value below which it is not tested."""
UNSEEN = 0.15
"""If no leak below this excess of balanced accuracy would have been found, in any window, nothing was tested."""
_START = 10  # rows at the start of a segment that are left out: where a file begins is no start of a process


@dataclass(frozen=True, slots=True)
class Verdict:
    """One diagnostic: what it found, how unlikely that is for a right model, and the same in words."""

    name: str
    value: Value | None
    """Of the private parameter; None for tests over all of them."""
    channel: str | None
    found: float
    """What was found: a mean, a spread, a distance, a sum of squared correlations."""
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
    """What the scores tell of the private value, and the diagnostics below it; `gate` makes one.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> theta = np.repeat([0, 1] * 10, 100)
    >>> models = {0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(2.0, 4.0))}
    >>> Y = us.sample(us.Family(models).along(theta.tolist()), 2000, rng=1)
    >>> held = History(("co2",), "people", None, (), (0, 1), None, (Segment("1", None, Y[:, None], theta),), ())
    >>> gate(models, held)
    Gate(passed, 1990 scores)
    >>> gate({0: models[0], 1: us.IID(us.Gaussian(2.0, 9.0))}, held)
    Gate(LEAK, 1990 scores)
    """

    attack: Attack
    """How well theta is told from the scores, window by window."""
    verdicts: tuple[Verdict, ...]
    """Diagnostics of the fit, which decide nothing."""
    scores: int
    """Scores that were tested."""
    untested: tuple[Value, ...]
    """Values with too few scores."""

    def __repr__(self) -> str:
        words = {"passed": "passed", "leak": "LEAK", "untested": "NOT TESTED"}[self.outcome]
        return f"Gate({words}, {self.scores} scores)"

    @property
    def outcome(self) -> Outcome:
        """What was found: a leak, none, or that nothing could be tested."""
        if self.attack.found:
            return "leak"
        seen = min((each.seen for each in self.attack.windows), default=1.0)
        return "untested" if self.untested or seen > UNSEEN else "passed"

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """Diagnostics that say that the scores are not independent standard normals."""
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)

    @property
    def passed(self) -> bool:
        """Whether no leak was found, where one could have been."""
        return self.outcome == "passed"

    @property
    def sentence(self) -> str:
        """The verdict in words, with the sizes of leaks."""
        return text.gate_verdict(self.outcome, [each._asdict() for each in self.attack.windows], self.untested, FEWEST)

    @property
    def warning(self) -> str | None:
        """What a design of this family must carry, in plain words; None if the gate was passed."""
        return None if self.passed else self.sentence

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it, and as a family keeps it."""
        return {
            "outcome": self.outcome,
            "passed": self.passed,
            "sentence": self.sentence,
            "warning": self.warning,
            "false_alarm": FALSE_ALARM,
            "scores": self.scores,
            "untested": list(self.untested),
            "attack": self.attack.to_plain(),
            "verdicts": [verdict.to_plain() for verdict in self.verdicts],
        }


def gate(
    models: Mapping[Any, Model],
    held: History,
    *,
    blocks: Sequence[tuple[Mapping[Any, Model], History]] = (),
    random_state: Seed = 0,
    like: Gate | None = None,
) -> Gate:
    """Attack the scores of readings that the models have not seen.

    Parameters
    ----------
    models : mapping of values to models
        The models as fitted.
    held : History
        Readings that took no part in the fit.
    blocks : sequence of (models, History), optional
        Further blocks of time, each with models of the same class that were fitted without it.
    random_state : seed
        Of the control, and of the auxiliary uniforms of models with atoms.
    like : Gate, optional
        Of other models on the same readings; its control is used again.

    Returns
    -------
    Gate
        The first rows of each segment are left out: the state before them is not known, which is another matter than a
        wrong law.

    """
    rng = np.random.default_rng(random_state)
    pieces = [
        (segment, z)
        for fitted, history in (*blocks, (models, held))
        for segment, z in zip(history.segments, scores(fitted, history, rng=rng), strict=True)
    ]
    # in the order of time: pieces of one segment may be anywhere among the blocks
    order = {segment.name: at for at, (segment, _) in reversed(list(enumerate(pieces)))}
    pieces.sort(key=lambda piece: (order[piece[0].name], 0 if piece[0].times is None else int(piece[0].times[0])))
    segments, parts = [segment for segment, _ in pieces], [z for _, z in pieces]
    for z in parts:
        z[:_START] = np.nan
    found = Scores.of(parts, [segment.theta for segment in segments])
    sizes = np.bincount(found.theta[found.there], minlength=len(held.values))
    if sizes.sum() < FEWEST:
        raise ConfigurationError(f"{sizes.sum()} held-out scores; the gate needs at least {FEWEST}: record more rows")
    tested = np.flatnonzero(sizes >= FEWEST).tolist()
    labels = [np.where(np.isin(segment.theta, tested), segment.theta, -1) for segment in segments]
    times, former = [segment.times for segment in segments], None if like is None else like.attack
    attack = detect(parts, labels, times, rng=rng, zone=held.zone, like=former)
    verdicts = [*_by_value(found, tested, held), *_of_channels(found, held)]
    limit = DIAGNOSTIC_ALARM / max(1, len(verdicts))
    untested = tuple(held.values[i] for i in range(len(sizes)) if i not in tested)
    return Gate(attack, tuple(replace(v, limit=limit) for v in verdicts), int(sizes.sum()), untested)


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


__all__ = ["DIAGNOSTIC_ALARM", "FALSE_ALARM", "Gate", "Outcome", "Verdict", "gate"]
