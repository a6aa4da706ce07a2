"""From evidence and scores to log-probabilities, by what training cases show; and the two references.

Models are never quite right on real data, and what a learner says of the cases that it learned from is too sure. So
every adversary is calibrated before it is judged, in one of two ways, both learned from training cases alone.

*Evidence* is a log-likelihood of each value of theta, or of each draw. A `Rule` makes log-probabilities of it: Bayes'
rule for a theta that is constant, forward and backward along its chain for one that moves (`smooth`). Before that the
evidence is multiplied by a temperature t <= 1, which undoes what is counted twice. `settle` chooses rule and
temperature by the mean log-probability of labels. Learners choose them on *held-out* blocks of time (`held_out`): whole
blocks, with all their copies, and without the readings next to them. `EvidenceAttack` is what comes out.

*Scores* are any numbers. A multinomial logistic regression with a ridge (`fit_logistic`) makes log-probabilities of
them. `ScoreAttack` is what comes out.

Two references do not look at the output: `Blind` knows the prior, `Clock` the time of day. A gain over the prior means
little where people keep office hours; what an output gives away is what is gained over the clock. The clock comes in
elsewhere too. The chain of theta depends on it: with pi the shares of the values and pi_c those in cell c of the clock,
rows of its matrix are multiplied by (pi_c / pi)^g and normalised, for the g that makes the training labels likeliest.
And a logistic regression weighs what the adversary says against what the clock says alone (`with_clock`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from understudy._types import Array, Ints, Mask
from understudy.adversaries.knowledge import FLOOR, Attack, Cases, Knowledge, normalise

# The prior and the clock ---------------------------------------------------------------------------------------------


_CELLS = (24, 48, 96)  # of a day
_SHRINKAGE = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0)  # visits that the prior counts for
_VISITS = 2  # weekends are told apart from such a number of them on


def prior_of(cases: Cases) -> Array:
    """Shares of the values among the labels, (m,); equal shares if there are none.

    >>> labels = np.array([[0, 1], [0, -1]])
    >>> prior_of(Cases(np.zeros((2, 1, 2)), labels, labels, m=2, once=False)).round(3).tolist()
    [0.667, 0.333]
    """
    return _shares(cases.counts if cases.guesses else np.ones(cases.m))


def _shares(counts: Array | Ints) -> Array:
    shares = np.maximum(counts / counts.sum(), FLOOR)
    return np.asarray(shares / shares.sum())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FixedProbabilities:
    """Log-probabilities that do not depend on the output: those of a table of hours, or the same everywhere."""

    prior: Array
    table: ClockTable | None = None

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities (m, T, N), or (m, N) where theta is constant in a sequence."""
        shape = cases.truth.shape
        logs = np.broadcast_to(np.log(self.prior).reshape(-1, *(1,) * len(shape)), (len(self.prior), *shape))
        return normalise(logs + self.table.evidence(cases) if self.table is not None else logs)


@dataclass(frozen=True, slots=True)
class Blind:
    """Who sees nothing: the shares of the values among the labels."""

    name: str = "blind"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """There is none."""
        return ""

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> FixedProbabilities:
        """Count the labels."""
        return FixedProbabilities(prior_of(cases))


@dataclass(frozen=True, slots=True)
class Clock:
    """Who sees the clock alone: shares of the values by time of day, and on weekends apart where these were seen."""

    name: str = "time of day"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """It needs a clock."""
        return "" if cases.hours is not None else "there is no public clock"

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> FixedProbabilities:
        """Count the labels by time of day."""
        return FixedProbabilities(prior_of(cases), clock_table(cases))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClockTable:
    """Log of the share of each value in a cell of the clock over its share at all times.

    `logs` is (m, cells + 1), or (m, 2 cells + 1) with weekends apart; the last column, of unknown times, is 0.
    """

    logs: Array
    cells: int
    """Of a day."""

    def __repr__(self) -> str:
        return f"ClockTable({self.cells} cells a day, {'weekends apart' if self._apart else 'all days alike'})"

    @property
    def _apart(self) -> bool:
        return bool(self.logs.shape[1] > self.cells + 1)

    def cell(self, cases: Cases) -> Ints:
        """The column of each reading, (T, N)."""
        unknown = self.logs.shape[1] - 1
        if cases.hours is None:
            return np.full((cases.T, cases.N), unknown)
        cell = _cells(cases.hours, self.cells)
        weekend = 0 if not self._apart or cases.days is None else self.cells * (cases.days >= 5)
        return np.asarray(np.where(cell >= 0, cell + weekend, unknown))

    def evidence(self, cases: Cases) -> Array:
        """What the clock tells for each value, in the shape (m, ...) of the guesses; 0 where the hour is not known."""
        cell = self.cell(cases)
        return self.logs[:, cell[0] if cases.once else cell]


def clock_table(cases: Cases, where: Mask | None = None) -> ClockTable | None:
    """The table of hours, learned where `where` says; None without a clock or labels.

    Times of day are cells of 60, 30 or 15 minutes. What counts is how often a cell was *visited*: its readings on one
    day are one visit. Shares are drawn to the prior, which counts for some visits. Length of the cells, the number of
    visits that the prior counts for, and whether weekends are apart, are those that foretell a visit best from the
    others.
    """
    judged = cases.truth >= 0 if where is None else where & (cases.truth >= 0)
    if cases.hours is None:
        return None
    hours = cases.hours[0] if cases.once else cases.hours
    judged = judged & ~np.isnan(hours)
    if not judged.any():
        return None
    labels, dates = cases.truth[judged], cases.dates[judged]
    kinds: list[Ints | None] = [None]
    if cases.days is not None:
        weekend = ((cases.days[0] if cases.once else cases.days)[judged] >= 5).astype(np.int64)
        if min(len(np.unique(dates[weekend == kind])) for kind in (0, 1)) >= _VISITS:
            kinds.append(weekend)
    prior = _shares(np.bincount(labels, minlength=cases.m))
    best: tuple[float, Array, int] | None = None
    for cells in _CELLS:
        for kind in kinds:
            cell = _cells(hours[judged], cells)
            place, total = (cell, cells) if kind is None else (cell + cells * kind, 2 * cells)
            for score, shares in _tables(place, total, dates, labels, prior):
                if best is None or score > best[0]:
                    best = score, shares, cells
    if best is None:
        return None
    logs = np.log(np.maximum(best[1], FLOOR)) - np.log(prior)[:, None]
    return ClockTable(np.append(logs, np.zeros((cases.m, 1)), axis=1), best[2])


def _tables(cell: Ints, cells: int, dates: Ints, labels: Ints, prior: Array) -> Iterator[tuple[float, Array]]:
    """For each strength of the prior the log-probability of a visit given the others, and shares (m, cells)."""
    m = len(prior)
    keys, visit = np.unique(dates * cells + cell, return_inverse=True)
    counts = np.bincount(visit.ravel() * m + labels, minlength=len(keys) * m).reshape(-1, m)
    weight, at = counts.sum(axis=1), keys % cells
    shares = (counts / weight[:, None]).T  # of the values among the readings of a visit, (m, visits)
    n = np.bincount(at, minlength=cells)
    sums = np.stack([np.bincount(at, weights=row, minlength=cells) for row in shares])
    for strength in _SHRINKAGE:
        drawn = strength * prior[:, None]
        others = (sums[:, at] - shares + drawn) / (n[at] - 1.0 + strength)
        logs = (shares * np.log(np.maximum(others, FLOOR))).sum(axis=0)
        yield float((weight * logs).sum() / weight.sum()), (sums + drawn) / (n + strength)


def _cells(hours: Array, cells: int) -> Ints:
    """The cell of the day, -1 if the hour is not known."""
    known = ~np.isnan(hours)
    cell = np.floor(np.where(known, hours, 0.0) * (cells / 24.0)).astype(np.int64) % cells
    return np.asarray(np.where(known, cell, -1))


# Logistic regression on scores -----------------------------------------------------------------------


MOST = 200_000
"""Training cases that a regression looks at, at most."""
_SURE = 12.0  # nats beyond which log-odds are not told apart


class Calibration(NamedTuple):
    """A multinomial logistic regression on standardised scores; `logits` gives log-probabilities."""

    centre: Array
    scale: Array
    weights: Array

    def __repr__(self) -> str:
        return f"Calibration({len(self.centre)} scores, {len(self.weights)} values)"

    def logits(self, scores: Array) -> Array:
        """Log-probabilities (m, ...) for scores (F, ...); a score that is not finite counts as an average one."""
        flat = scores.reshape(len(scores), -1)
        found = self.weights[:, :-1] @ _standardise(flat, self.centre, self.scale) + self.weights[:, -1:]
        return normalise(found.reshape(len(self.weights), *scores.shape[1:]))


def fit_logistic(
    scores: Array, labels: Ints, m: int, *, ridge: float = 1.0, rng: np.random.Generator | None = None
) -> Calibration:
    """Learn from scores (F, ...) and labels of the same shape but for the first axis; -1 takes no part.

    The ridge is in units of cases on standardised scores. A value that is absent from training is left with the odds
    of half a case.

    >>> rng = np.random.default_rng(1)
    >>> label = rng.integers(2, size=2000)
    >>> made = fit_logistic(rng.normal(3.0 * label)[None], label, 2)
    >>> made
    Calibration(1 scores, 2 values)
    >>> float(np.exp(made.logits(np.array([[1.5]]))[0, 0])).__round__(1)
    0.5
    """
    flat, truth = scores.reshape(len(scores), -1), labels.reshape(-1)
    at = np.flatnonzero(truth >= 0)
    if at.size > MOST:
        generator = np.random.default_rng(0) if rng is None else rng
        at = np.sort(generator.choice(at, MOST, replace=False))
    X, y = flat[:, at], truth[at]
    finite = np.isfinite(X)
    count = np.maximum(finite.sum(axis=1), 1)
    centre = np.where(finite, X, 0.0).sum(axis=1) / count
    spread = np.sqrt(np.where(finite, np.square(X - centre[:, None]), 0.0).sum(axis=1) / count)
    # what never varies tells nothing
    scale = np.where(spread > 1e-9 * (1.0 + np.abs(centre)), spread, np.inf)
    odds = np.bincount(y, minlength=m) + 0.5
    start = np.zeros((m, len(X) + 1))
    start[:, -1] = np.log(odds / odds.sum())
    if at.size == 0 or np.isinf(scale).all():
        return Calibration(centre, scale, start)
    return Calibration(centre, scale, _regression(_standardise(X, centre, scale), y, start, ridge))


def _standardise(X: Array, centre: Array, scale: Array) -> Array:
    Z = (X - centre[:, None]) / scale[:, None]
    return np.asarray(np.clip(np.where(np.isfinite(Z), Z, 0.0), -30.0, 30.0))


def _regression(X: Array, y: Ints, start: Array, ridge: float) -> Array:
    """Weights (m, F + 1) of least ridge |W|^2 / 2 - log-likelihood."""
    from scipy.optimize import minimize

    m, F = len(start), len(X)
    Z = np.concatenate([X, np.ones((1, X.shape[1]))])
    count = X.shape[1]
    pull = np.append(np.full(F, ridge / count), 1e-6)  # the intercept hardly

    def loss(flat: Array) -> tuple[float, Array]:
        W = flat.reshape(m, F + 1)
        scores = W @ Z
        top = scores.max(axis=0)
        p = np.exp(scores - top)
        total = p.sum(axis=0)
        value = float((np.log(total) + top).sum() - scores[y, np.arange(count)].sum()) / count
        p /= total
        p[y, np.arange(count)] -= 1.0
        return value + 0.5 * float((np.square(W - start) * pull).sum()), (p @ Z.T / count + (W - start) * pull).ravel()

    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 300, "gtol": 1e-7})
    return np.asarray(found.x.reshape(m, F + 1))


class Scorer(Protocol):
    """What looks at outputs and gives numbers."""

    def scores(self, cases: Cases) -> Array:
        """(F, T, N), or (F, N) where theta is constant in a sequence."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScoreAttack:
    """A scorer, the clock where there is one, and a logistic regression on the scores of both."""

    scorer: Scorer
    clock: ClockTable | None
    calibration: Calibration

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities (m, T, N), or (m, N) where theta is constant in a sequence."""
        return self.calibration.logits(_with_clock(self.scorer.scores(cases), self.clock, cases))


def fit_scores(
    scorer: Scorer, part: Cases, whole: Cases, rng: np.random.Generator | None, ridge: float = 10.0
) -> ScoreAttack:
    """The regression learned from a part of the training cases, the clock from all of them."""
    clock = clock_table(whole)
    scores = _with_clock(scorer.scores(part), clock, part)
    return ScoreAttack(scorer, clock, fit_logistic(scores, part.truth, part.m, ridge=ridge, rng=rng))


def _with_clock(scores: Array, clock: ClockTable | None, cases: Cases) -> Array:
    return scores if clock is None else np.concatenate([scores, log_odds(clock.evidence(cases))])


def log_odds(logits: Array) -> Array:
    """Log-odds of each value beside the first, (m - 1, ...), within bounds."""
    return np.asarray(np.clip(logits[1:] - logits[:1], -_SURE, _SURE))


# Temperature and rule --------------------------------------------------------------------------------


class Reader(Protocol):
    """What reads evidence in outputs."""

    def evidence(self, cases: Cases) -> Array:
        """Log-likelihoods up to a common constant: (k, T, N), or (k, N). Finite; equal ones tell nothing."""
        ...


class Rule(Protocol):
    """How evidence becomes log-probabilities of theta."""

    def posterior(self, evidence: Array, cases: Cases, temperature: float | Array) -> Array:
        """(m, T, N), or (m, N) where theta is constant in a sequence."""
        ...


class AlongChain(NamedTuple):
    """Evidence for the values of theta themselves, smoothed along its chain; guess by guess if there is no chain."""

    prior: Array
    chain: Chain | None
    every: int = 1
    """Readings of a decision."""

    def posterior(self, evidence: Array, cases: Cases, temperature: float | Array) -> Array:
        """Log-probabilities in the shape of the evidence."""
        if self.chain is None:
            log_prior = np.log(np.maximum(self.prior, FLOOR))
            return normalise(temperature * evidence + log_prior.reshape(-1, *(1,) * (evidence.ndim - 1)))
        return smoothed_logits(temperature * evidence, None, self.chain, cases, self.every)


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceAttack:
    """Evidence of a reader at a temperature, made into log-probabilities by a rule."""

    reader: Reader
    rule: Rule
    temperature: float = 1.0

    def __repr__(self) -> str:
        rule, reader = type(self.rule).__name__, type(self.reader).__name__
        return f"EvidenceAttack({reader}, {rule}, temperature {self.temperature:.3g})"

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities (m, T, N), or (m, N) where theta is constant in a sequence."""
        return self.rule.posterior(self.reader.evidence(cases), cases, self.temperature)

    def scores(self, cases: Cases) -> Array:
        """The same as log-odds."""
        return log_odds(self.logits(cases))


class Choice(NamedTuple):
    """The rule and the temperature of least loss, the loss, and what they say of the cases that they were tried on."""

    rule: Rule
    temperature: float
    loss: float
    logits: Array
    cases: Cases

    def attack(self, reader: Reader, whole: Cases, rng: np.random.Generator | None) -> Attack:
        """The attack of a reader, weighed against the clock of all training cases."""
        return with_clock(EvidenceAttack(reader, self.rule, self.temperature), self.logits, self.cases, whole, rng)


def settle(evidence: Array, cases: Cases, rules: Sequence[Rule], margin: float = 0.0) -> Choice:
    """Choose rule and temperature by the mean log-probability of the labels.

    The first rule at temperature 1 is left only if more than `margin` nats a guess are gained.
    """

    def losses(rule: Rule, temperatures: Sequence[float]) -> list[float]:
        # side by side: a rule goes along the time reading by reading, however many sequences there are
        which = np.tile(np.arange(cases.N), len(temperatures))
        logits = rule.posterior(evidence[..., which], cases.sequences(which), np.repeat(temperatures, cases.N))
        return [log_loss(part, cases.truth) for part in np.split(logits, len(temperatures), axis=-1)]

    best = losses(rules[0], [1.0])[0] - margin, 1.0, rules[0]
    for rule in rules:
        found, temperature = best_temperature(partial(losses, rule))
        if found < best[0]:
            best = found, temperature, rule
    return Choice(best[2], best[1], best[0], best[2].posterior(evidence, cases, best[1]), cases)


class ScoringAttack(Attack, Scorer, Protocol):
    """An attack whose log-odds are scores."""


def with_clock(
    attack: ScoringAttack, logits: Array, part: Cases, whole: Cases, rng: np.random.Generator | None
) -> Attack:
    """The attack weighed against the clock, learned from what it says of a part of the training cases."""
    clock = clock_table(whole)
    if clock is None or not (part.truth >= 0).any():
        return attack
    scores = _with_clock(log_odds(logits), clock, part)
    return ScoreAttack(attack, clock, fit_logistic(scores, part.truth, part.m, ridge=10.0, rng=rng))


def best_temperature(
    losses: Callable[[Sequence[float]], list[float]],
    temperatures: Sequence[float] = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001),
) -> tuple[float, float]:
    """The least loss and its temperature, among these and once more between the best and its neighbours.

    >>> best_temperature(lambda many: [(t - 0.3) ** 2 for t in many])[1]
    0.25
    """
    grid = sorted(temperatures)
    found = losses(grid)
    k = int(np.argmin(found))
    between = [float(np.sqrt(grid[k] * grid[other])) for other in (k - 1, k + 1) if 0 <= other < len(grid)]
    return min([(found[k], grid[k]), *zip(losses(between), between, strict=True)])


def log_loss(logits: Array, labels: Ints) -> float:
    """Mean of minus the log-probability (m, ...) of the labels (...), in nats; -1 takes no part."""
    there = labels >= 0
    if not there.any():
        return 0.0
    picked = np.take_along_axis(logits, np.where(there, labels, 0)[None], axis=0)[0]
    return -float(picked[there].mean())


# Held-out blocks -------------------------------------------------------------------------------------


_GROUPS, _EVERY = 8, 4  # groups of blocks; one in so many is held out
_MANY = 4_000  # guesses
_PIECE, _PIECES = 512, 64  # readings of a piece of training data, and how many pieces choices are tried on


class Split(NamedTuple):
    """Which guesses are learned from and which are held out, in the shape of ``cases.truth``."""

    fit: Mask
    held: Mask


def held_out(cases: Cases, margin: int = 0, folds: int = 4) -> tuple[Split, ...]:
    """Hold out about a quarter, several times: another quarter each time. Empty where nothing can be held out.

    Quarters that have their share of every value come first. `margin` is how many readings next to a stretch that is
    held out are left alone, at most an eighth of its length. Of many sequences in which theta is constant, one quarter
    is enough.

    >>> labels = np.tile([[0], [1]], (40, 1))
    >>> cases = Cases(np.zeros((80, 1, 1)), labels, np.arange(80)[:, None] // 10, 2, once=False)
    >>> [(int(split.held.sum()), int(split.fit.sum())) for split in held_out(cases, folds=2)]
    [(20, 60), (20, 60)]
    """
    truth = cases.truth
    judged = truth >= 0
    groups = _groups(cases)
    every = min(_EVERY, int(groups.max()) + 1)
    if every < 2:
        return ()
    total = np.bincount(truth[judged], minlength=cases.m)
    quarters = [groups % every == offset for offset in range(every)]
    quarters.sort(key=lambda mask: -_balance(truth[judged & mask], total))
    splits = [_split(cases, judged, quarter, margin) for quarter in quarters]
    if cases.once and judged.sum() > _MANY:
        folds = 1
    return tuple(split for split in splits[:folds] if split.held.any() and len(np.unique(truth[split.fit])) > 1)


def other_days(cases: Cases, margin: int = 0, folds: int = 4) -> tuple[Split, ...]:
    """Hold out every day once, with others between them: each guess is judged by who learned from other days.

    Where no clock is known, or there is one day only, parts of `held_out` take the place of days. Readings next to a
    part that is held out are left alone, as many as `margin` says.

    >>> hours = np.tile(np.arange(24.0), 6)[:, None]
    >>> labels = (hours > 12.0).astype(int)
    >>> cases = Cases(np.zeros((144, 1, 1)), labels, np.arange(144)[:, None] // 24, 2, once=False, hours=hours)
    >>> [(int(split.held.sum()), int(split.fit.sum())) for split in other_days(cases)]
    [(48, 96), (48, 96), (24, 120), (24, 120)]
    """
    judged = cases.truth >= 0
    dates = np.unique(cases.dates, return_inverse=True)[1].reshape(cases.truth.shape)
    days = int(dates.max()) + 1
    if cases.once or cases.hours is None or days < 2:
        return held_out(cases, margin)
    count = min(folds, days)
    splits = (_split(cases, judged, dates % count == k, margin) for k in range(count))
    return tuple(split for split in splits if split.held.any() and len(np.unique(cases.truth[split.fit])) > 1)


def _split(cases: Cases, judged: Mask, quarter: Mask, margin: int) -> Split:
    fit = ~quarter
    if not cases.once and margin:
        from scipy.ndimage import maximum_filter1d

        rows = int(quarter.sum(axis=0).max())
        near = 2 * min(margin, rows // 8) + 1
        fit = maximum_filter1d(quarter.astype(np.int8), near, axis=0, mode="constant", cval=0) == 0
    return Split(judged & fit, judged & quarter)


def _groups(cases: Cases) -> Ints:
    """The number of the group of each guess: stretches in their order, or equal pieces of time where there are few."""
    blocks = cases.truth_blocks
    numbers, rank = np.unique(blocks, return_inverse=True)
    rank = rank.reshape(blocks.shape)
    if cases.once:
        # in no order, for an order may go with the labels
        return np.random.default_rng(0).permutation(len(numbers))[rank]
    if len(numbers) >= _GROUPS:
        return np.asarray(rank * _GROUPS // len(numbers))
    place = rank * cases.T + np.arange(cases.T)[:, None]
    places, order = np.unique(place, return_inverse=True)
    return np.asarray(order.reshape(place.shape) * min(_GROUPS, len(places)) // len(places))


def _balance(labels: Ints, total: Ints) -> float:
    """How near the shares held out are to a quarter of every value: the least of share held out and share left."""
    there = total > 0
    if not there.any():
        return 0.0
    share = np.bincount(labels, minlength=len(total))[there] / total[there]
    return float(np.minimum(share, (1.0 - share) / (_EVERY - 1.0)).min())


FitReader: TypeAlias = Callable[[Mask], Reader]
"""What learns a reader from the guesses in a mask, which has the shape of ``cases.truth``."""


def fit_reader(
    candidates: Sequence[FitReader], cases: Cases, rng: np.random.Generator | None, margin: int = 0,
    rules: Sequence[Rule] | None = None,
) -> Attack:  # fmt: skip
    """The best of several readers, calibrated on held-out blocks; the first where nothing can be held out.

    It is learned again from all there is. Without rules, theta is guessed reading by reading or along its chain,
    whichever does better.
    """
    splits = held_out(cases, margin)
    tried = []
    for fit in candidates if splits else candidates[:1]:
        evidence = np.zeros((cases.m, *cases.truth.shape))
        for split in splits:
            evidence[:, split.held] = fit(split.fit).evidence(cases)[:, split.held]
        tried.append((settle_held_out(evidence, cases, splits, rules), fit))
    best, fit = min(tried, key=lambda pair: pair[0].loss)
    return best.attack(fit(cases.truth >= 0), cases, rng)


def settle_held_out(
    evidence: Array, cases: Cases, splits: Sequence[Split], rules: Sequence[Rule] | None = None
) -> Choice:
    """Rule and temperature for evidence about guesses that were held out; there is none about the others."""
    held = np.zeros(cases.truth.shape, dtype=bool)
    for split in splits:
        held |= split.held
    if rules is None:
        prior = prior_of(cases)
        chains = [None, chain_of(cases)] if not cases.once and cases.T > 1 else [None]
        rules = [AlongChain(prior, chain) for chain in chains]
    if cases.once:
        return settle(evidence, replace(cases, labels=np.where(held, cases.labels, -1)), rules)
    # what was learned from speaks too well for itself
    shown = np.moveaxis(np.where(held, evidence, 0.0), 0, 1)
    pieces = pieces_of(replace(cases, outputs=shown, labels=np.where(held, cases.labels, -1)))
    return settle(np.moveaxis(pieces.outputs, 1, 0), pieces, rules)


def pieces_of(cases: Cases, every: int = 1) -> Cases:
    """Training cases cut into pieces of some hundred readings side by side, as many as it takes to learn a number.

    Pieces in which nothing is judged come last.
    """
    size = max(every, _PIECE // every * every)
    if size >= cases.T:
        return cases.sequences(slice(0, max(1, _PIECES * size // cases.T)))
    count = cases.T // size

    def cut(part: Any) -> Any:
        pieces = np.moveaxis(part[: count * size].reshape(count, size, *part.shape[1:]), 0, -1)  # (size, .., N, count)
        return pieces.reshape(*pieces.shape[:-2], -1)

    names = [name for name in ("outputs", "labels", "blocks", "hours", "days") if getattr(cases, name) is not None]
    whole = replace(cases, pseudo=None, **{name: cut(getattr(cases, name)) for name in names})
    judged = np.flatnonzero((whole.labels >= 0).any(axis=0))
    some = judged if judged.size else np.arange(whole.N)
    return whole.sequences(some[np.unique(np.linspace(0, some.size - 1, min(some.size, _PIECES)).astype(np.int64))])


# How theta moves, and smoothing along it -------------------------------------------------------------


_LEAST = 1e-9  # no move is quite impossible, for labels have errors
_FAINT = -230.0  # nats by which a decision may speak against a draw, or nothing is left where no other is possible
_TILTS = (0.0, 0.25, 0.5, 0.75, 1.0)


class Chain(NamedTuple):
    """The Markov chain of theta: `moves` (cells, m, m), one matrix for each cell of the clock.

    `within` says whether theta may move inside a decision. If not, a matrix is for a decision, not for a reading.
    """

    initial: Array
    moves: Array
    within: bool = True
    clock: ClockTable | None = None

    def cell(self, cases: Cases) -> Ints:
        """The cell of the clock at each reading, (T, N)."""
        if self.clock is None:
            return np.zeros((cases.T, cases.N), dtype=np.int64)
        return self.clock.cell(cases)


def chain_of(cases: Cases, known: Knowledge | None = None, every: int = 1) -> Chain:
    """The chain of theta: from the training labels where they move, otherwise as the design has it.

    >>> labels = np.repeat([0, 1, 0, 1], 25)[:, None]
    >>> chain_of(Cases(np.zeros((100, 1, 1)), labels, labels, 2, False)).moves[-1].round(2).tolist()
    [[0.95, 0.05], [0.03, 0.97]]
    """
    m, labels = cases.m, cases.labels
    here, there = labels[:-1], labels[1:]
    both = (here >= 0) & (there >= 0)
    boundary = np.broadcast_to((np.arange(1, cases.T) % every == 0)[:, None], both.shape)
    changed = both & (here != there)
    within = every == 1 or bool((changed & ~boundary).any()) or not bool(changed.any())
    beliefs = None if known is None else known.beliefs
    if known is not None and not within and beliefs is not None and beliefs.period == 1:
        return Chain(_safe(known.prior), _safe(beliefs.transitions[:1]), within=False)
    used = both if within else both & boundary
    counts = np.zeros((m, m))
    np.add.at(counts, (here[used], there[used]), 1.0)
    given = None if known is None or not within else known.transitions
    moves = (counts + (1.0 / m if given is None else given)) / (counts.sum(axis=1, keepdims=True) + 1.0)
    shares = np.bincount(labels[labels >= 0], minlength=m) + (1.0 / m if known is None else known.prior)
    shares = _safe(shares / shares.sum())
    clock = clock_table(cases)
    if clock is None:
        return Chain(shares, _safe(moves[None]), within)
    cell = clock.cell(cases)[1:][used]

    def tilt_by(tilt: float) -> Array:
        found = moves[None] * np.exp(tilt * clock.logs.T)[:, None, :]
        return _safe(found / found.sum(axis=2, keepdims=True))

    def likelihood(tilt: float) -> float:
        return float(np.log(tilt_by(tilt)[cell, here[used], there[used]]).sum())

    return Chain(shares, tilt_by(max(_TILTS, key=likelihood)), within, clock)


def _safe(p: Array) -> Array:
    p = np.maximum(np.asarray(p, dtype=float), _LEAST)
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


class Plan(NamedTuple):
    """How draws depend on theta: places b that everybody can tell from the draws, a kernel for each, where draws lead.

    `kernels` (B, m, n), `after` (B, n), and the place before the first draw. One place is a randomizer without memory.
    """

    kernels: Array
    after: Ints
    start: int


def smoothed_logits(evidence: Array, plan: Plan | None, chain: Chain, cases: Cases, every: int = 1) -> Array:
    """Log-probabilities (m, T, N) along the chain at the times of these cases."""
    with np.errstate(divide="ignore"):
        return normalise(np.log(smooth(evidence, plan, chain, chain.cell(cases), every)))


def smooth(evidence: Array, plan: Plan | None, chain: Chain, cell: Ints, every: int = 1) -> Array:
    """Pr(theta_k given the whole output), (m, T, N), from log-densities (n, T, N) of each reading under each draw.

    Exact if the readings of a decision depend on theta through its draw alone and each has the density that is given,
    and if the draw depends on the first theta of the decision. Decisions begin every so many readings. Without a plan
    the evidence is for theta itself. Forward and backward, with P the transitions and l the likelihoods:

        alpha_k  ~  (P' alpha_{k-1}) l_k,    beta_{k-1}  ~  P (l_k beta_k),    Pr(theta_k)  ~  alpha_k beta_k.

    >>> chain = Chain(np.array([0.5, 0.5]), np.array([[[0.9, 0.1], [0.1, 0.9]]]))
    >>> found = smooth(np.log([[[0.8], [0.8]], [[0.2], [0.2]]]), None, chain, np.zeros((2, 1), dtype=int))
    >>> found[0, :, 0].round(4).tolist()
    [0.9193, 0.9193]
    """
    n, T, N = evidence.shape
    m = len(chain.initial)
    B, start = (1, 0) if plan is None else (len(plan.kernels), plan.start)
    K = -(-T // every)
    whole = np.zeros((n, K * every, N))
    whole[:, :T] = evidence
    block = whole.reshape(n, K, every, N).sum(axis=2)
    weights = np.exp(np.maximum(block - block.max(axis=0), _FAINT)).transpose(1, 2, 0)  # (K, N, n)
    if plan is not None and B == 1:
        weights = weights @ plan.kernels[0].T
    steps = powers(chain, every)  # (every + 1, cells, m, m)
    same = len(chain.moves) == 1
    at = np.minimum(cell[::every][:K], len(chain.moves) - 1)
    moves = [steps[every, 0]] * K if same else steps[every, at]
    memory = None if plan is None or B == 1 else _Memory(plan)
    alpha = np.zeros((N, m, B))
    alpha[:, :, start] = chain.initial
    drawn = np.empty((K, N, m, B))  # theta at the start of a decision, and the place after its draw
    beta = np.empty((K + 1, N, m, B))
    beta[K] = 1.0
    if memory is None:
        _sweep(weights, moves, same, alpha[:, :, 0], drawn[..., 0], beta[..., 0])
    else:
        for k in range(K):
            after = memory.forward(alpha, weights[k])
            after /= np.maximum(after.sum(axis=(1, 2), keepdims=True), 1e-300)
            drawn[k] = after
            alpha = np.swapaxes(moves[k], -1, -2) @ after
        for k in range(K - 1, -1, -1):
            before = memory.backward(moves[k] @ beta[k + 1], weights[k])
            beta[k] = before / np.maximum(before.max(axis=(1, 2), keepdims=True), 1e-300)
    result = np.empty((m, K, every, N))
    for r in range(every):
        # theta r readings into the decision: forward from its start, back from the next
        left, right = (steps[r, 0], steps[every - r, 0]) if same else (steps[r, at], steps[every - r, at])
        if not chain.within:
            left, right = np.eye(m), steps[every, 0] if same else steps[every, at]
        both = ((np.swapaxes(left, -1, -2) @ drawn) * (right @ beta[1:])).sum(axis=3)
        result[:, :, r] = (both / np.maximum(both.sum(axis=2, keepdims=True), 1e-300)).transpose(2, 0, 1)
    return result.reshape(m, K * every, N)[:, :T]


def _sweep(weights: Array, moves: Any, same: bool, alpha: Array, drawn: Array, beta: Array) -> None:
    """Forward and backward without memory, into `drawn` (K, N, m) and `beta` (K + 1, N, m)."""
    ones = np.ones(alpha.shape[1])
    for k in range(len(weights)):
        after = alpha * weights[k]
        after /= np.maximum(after @ ones, 1e-300)[:, None]
        drawn[k] = after
        alpha = after @ moves[k] if same else (after[:, None] @ moves[k])[:, 0]
    behind = moves[0].T if same else None
    for k in range(len(weights) - 1, -1, -1):
        before = beta[k + 1] @ behind if same else (moves[k] @ beta[k + 1][:, :, None])[:, :, 0]
        before *= weights[k]
        beta[k] = before / np.maximum(before @ ones, 1e-300)[:, None]


class _Memory:
    """Draws of a randomizer with memory, summed over: from place to place."""

    def __init__(self, plan: Plan) -> None:
        B, m, n = plan.kernels.shape
        self.shape = m, B, n
        self.kernels = plan.kernels.transpose(1, 0, 2)  # (m, B, n)
        self.lead = np.zeros((B * n, B))  # where a draw leads
        self.lead[np.arange(B * n), plan.after.reshape(-1)] = 1.0

    def forward(self, alpha: Array, weights: Array) -> Array:
        """Theta and the place after the draw, (N, m, B), from theta and the place before it."""
        m, B, n = self.shape
        joint = alpha[:, :, :, None] * self.kernels * weights[:, None, None, :]
        return np.asarray(joint.reshape(-1, m, B * n) @ self.lead)

    def backward(self, ahead: Array, weights: Array) -> Array:
        """What comes after, given theta and the place before the draw."""
        m, B, n = self.shape
        ahead = (ahead @ self.lead.T).reshape(-1, m, B, n)
        return np.asarray((ahead * self.kernels * weights[:, None, None, :]).sum(axis=3))


def powers(chain: Chain, every: int) -> Array:
    """The matrices for 0, 1, .., `every` readings, (every + 1, cells, m, m); for a decision where theta stays in it."""
    moves = chain.moves
    result = np.empty((every + 1, *moves.shape))
    result[0] = np.eye(moves.shape[1])
    for r in range(every):
        result[r + 1] = result[r] @ moves if chain.within else moves
    return result
