"""Scores made into probabilities by what training cases show: a logistic regression, or a temperature.

An adversary that knows the design has scores from models, and models are never quite right on real data: readings that
are taken for independent given theta are not, and evidence is counted twice. Two remedies, both learned from training
cases alone. A *temperature* t raises likelihoods to a power, so that evidence counts as much as it proved to be worth.
A *logistic regression* on the scores, with a ridge, weighs several scores against each other.

How theta moves, as training labels and the clock tell it, and exact smoothing along what was drawn for it.

The labels give the odds of going from one value to another at the next reading. The clock tilts them: with pi(i) the
share of value i and pi_c(i) its share at this time of day, rows are multiplied by (pi_c / pi)^g and normalised. With
g = 1/2 two values settle to what the clock says; g is the one that makes the training labels likeliest.

Where theta moves at the beginning of decisions only, as it does in simulations of a causal design, the matrix is that
of the design, from one decision to the next.

What an adversary says, weighed against what the clock says.

An adversary whose theta follows the clock already has the time of day in its odds, but not always as much of it as the
clock is worth. A logistic regression on both, learned from training cases, never has less than the better of the two,
but for what it takes to learn so. Without a clock nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy._types import Array, Ints
from understudy.adversaries.knowledge import Cases, Known, normalised

# Scores made into probabilities by what training cases show: a logistic regression, or a temperature ---


MOST = 200_000
"""Training cases that a regression looks at, at most."""

_CLEARLY = 5.0  # nats by which the training cases must speak against a model that is known to be right


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
        found = self.weights[:, :-1] @ _standardised(flat, self.centre, self.scale) + self.weights[:, -1:]
        return normalised(found.reshape(len(self.weights), *scores.shape[1:]))


def calibrated(
    scores: Array, labels: NDArray[np.int64], m: int, *, ridge: float = 1.0, rng: np.random.Generator | None = None
) -> Calibration:
    """Learn from scores (F, ...) and labels of the same shape but for the first axis; -1 takes no part.

    The ridge is in units of cases on standardised scores. A value that is absent from training is left with the odds
    of half a case.

    >>> rng = np.random.default_rng(1)
    >>> label = rng.integers(2, size=2000)
    >>> made = calibrated(rng.normal(3.0 * label)[None], label, 2)
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
    return Calibration(centre, scale, _regression(_standardised(X, centre, scale), y, start, ridge))


def coolest(
    loss: Callable[[float], float],
    temperatures: Sequence[float] = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001),
) -> float:
    """The temperature of least loss, and once more between its neighbours.

    >>> coolest(lambda t: (t - 0.3) ** 2)
    0.25
    """
    grid = sorted(temperatures)
    losses = [loss(t) for t in grid]
    k = int(np.argmin(losses))
    found = [(losses[k], grid[k])]
    for other in (k - 1, k + 1):
        if 0 <= other < len(grid):
            between = float(np.sqrt(grid[k] * grid[other]))
            found.append((loss(between), between))
    return min(found)[1]


def believed(loss: Callable[[float], float], cases: int) -> float:
    """The temperature 1 of a model that is right, unless so many independent cases speak clearly against it.

    >>> believed(lambda t: (t - 0.9) ** 2, 100), round(believed(lambda t: (t - 0.3) ** 2, 100), 2)
    (1.0, 0.25)
    """
    best = coolest(loss)
    return best if (loss(1.0) - loss(best)) * cases > _CLEARLY else 1.0


def surprise(logits: Array, labels: NDArray[np.int64]) -> float:
    """Mean of minus the log-probability (m, ...) of the labels (...), in nats; -1 takes no part."""
    there = labels >= 0
    if not there.any():
        return 0.0
    picked = np.take_along_axis(logits, np.where(there, labels, 0)[None], axis=0)[0]
    return -float(picked[there].mean())


def _standardised(X: Array, centre: Array, scale: Array) -> Array:
    Z = (X - centre[:, None]) / scale[:, None]
    return np.asarray(np.clip(np.where(np.isfinite(Z), Z, 0.0), -30.0, 30.0))


def _regression(X: Array, y: NDArray[np.int64], start: Array, ridge: float) -> Array:
    """Weights (m, F + 1) of least ridge |W|^2 / 2 - log-likelihood."""
    from scipy.optimize import minimize

    m, F = len(start), len(X)
    Z = np.concatenate([X, np.ones((1, X.shape[1]))])
    count = X.shape[1]
    pull = np.append(np.full(F, ridge / count), 1e-6)  # the intercept hardly

    def loss(flat: Array) -> tuple[float, Any]:
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


# How theta moves, as training labels and the clock tell it, and exact smoothing along what was drawn  ---


_HOURS = 24
_KINDS = 3  # working days, the others, unknown
_LEAST = 1e-9  # no move is quite impossible, for labels have errors
_FAINT = -230.0  # nats by which a decision may speak against a draw, or nothing is left where no other is possible
_TILTS = (0.0, 0.25, 0.5, 0.75, 1.0)


class Chain(NamedTuple):
    """`moves` (cells, m, m), one matrix for each cell of the clock and a last one where the time is unknown.

    `within` says whether theta may move inside a decision. If not, a matrix is for a decision, not for a reading.
    """

    initial: Array
    moves: Array
    within: bool
    clocked: bool


def chain_of(cases: Cases, known: Known, every: int = 1) -> Chain:
    """The chain of theta: from the training labels where they move, else as the design has it.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> known = Known(family, (0, 1), np.eye(2), family.prior, np.array([[0.9, 0.1], [0.1, 0.9]]), None, None, None)
    >>> labels = np.repeat([0, 1, 0, 1], 25)[:, None]
    >>> chain_of(Cases(np.zeros((100, 1, 1)), labels, labels, 2, False), known).moves[-1].round(2).tolist()
    [[0.96, 0.04], [0.02, 0.98]]
    """
    m, labels = cases.m, cases.labels
    here, there = labels[:-1], labels[1:]
    both = (here >= 0) & (there >= 0)
    boundary = np.broadcast_to((np.arange(1, cases.T) % every == 0)[:, None], both.shape)
    changed = both & (here != there)
    within = every == 1 or bool((changed & ~boundary).any()) or not bool(changed.any())
    beliefs = getattr(known.design, "beliefs", None)
    if not within and beliefs is not None and beliefs.period == 1:
        return Chain(_safe(known.prior), _safe(beliefs.transitions[:1]), False, False)
    used = both if within else both & boundary
    counts = np.zeros((m, m))
    np.add.at(counts, (here[used], there[used]), 1.0)
    given = known.transitions if known.transitions is not None and within else np.full((m, m), 1.0 / m)
    moves = (counts + given) / (counts.sum(axis=1, keepdims=True) + 1.0)
    shares = np.bincount(labels[labels >= 0], minlength=m) + known.prior
    shares = _safe(shares / shares.sum())
    if cases.hours is None:
        return Chain(shares, _safe(moves[None]), within, False)
    cell = cells(cases)
    odds = clock_odds(cell, labels, shares)
    tilt = max(
        _TILTS, key=lambda g: _likelihood(_tilted(moves, odds, shares, g), cell[1:][used], here[used], there[used])
    )
    return Chain(shares, _safe(_tilted(moves, odds, shares, tilt)), within, True)


def cells(cases: Cases) -> Ints:
    """The cell of the clock of each reading, (T, N): hour and kind of day; the last where the hour is unknown."""
    if cases.hours is None:
        return np.full(cases.labels.shape, 0, dtype=np.int64)
    known = np.isfinite(cases.hours)
    hour = np.clip(np.where(known, cases.hours, 0.0).astype(np.int64), 0, _HOURS - 1)
    days = np.full(hour.shape, -1) if cases.days is None else cases.days
    kind = np.where(days < 0, 2, (days >= 5).astype(np.int64))
    return np.where(known, hour + _HOURS * kind, _HOURS * _KINDS).astype(np.int64)


def clock_odds(cell: Ints, labels: Ints, shares: Array) -> Array:
    """Share of each value in each cell (cells + 1, m), drawn to that of the hour, and this to the whole."""
    m, size = len(shares), _HOURS * _KINDS + 1
    at = labels >= 0
    counts = np.zeros((size, m))
    np.add.at(counts, (cell[at], labels[at]), 1.0)
    weight = 0.25 * max(float(counts.sum()) / _HOURS, 1.0)
    hours = counts[:-1].reshape(_KINDS, _HOURS, m).sum(axis=0)
    hours = (hours + weight * shares) / (hours.sum(axis=1, keepdims=True) + weight)
    near = np.concatenate([np.tile(hours, (_KINDS, 1)), shares[None]])
    odds = (counts + weight * near) / (counts.sum(axis=1, keepdims=True) + weight)
    return np.asarray(np.maximum(odds, 1e-3))


class Clock(NamedTuple):
    """What the clock alone says: shares (cells, m); nothing where there is no clock."""

    odds: Array | None

    @classmethod
    def learned(cls, cases: Cases) -> Clock:
        """From training labels."""
        if cases.hours is None:
            return cls(None)
        shares = np.bincount(cases.labels[cases.labels >= 0], minlength=cases.m) + 1.0
        return cls(clock_odds(cells(cases), cases.labels, _safe(shares / shares.sum())))

    def scores(self, cases: Cases) -> Array:
        """Log-odds of each value beside the first, (m - 1, T, N), or (m - 1, N) where theta is constant; or none."""
        shape = cases.truth.shape
        if self.odds is None or cases.hours is None:
            return np.empty((0, *shape))
        logs = np.log(self.odds)
        cell = cells(cases)
        return np.asarray(
            (logs[:, 1:] - logs[:, :1])[cell[0] if cases.once else cell].transpose(-1, *range(len(shape)))
        )


def _tilted(moves: Array, odds: Array, shares: Array, tilt: float) -> Array:
    tilted = moves[None] * (odds / shares)[:, None, :] ** tilt
    return np.asarray(tilted / tilted.sum(axis=2, keepdims=True))


def _likelihood(moves: Array, cell: Ints, here: Ints, there: Ints) -> float:
    return float(np.log(moves[cell, here, there]).sum())


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


def smoothed(evidence: Array, plan: Plan, chain: Chain, cell: Ints, every: int = 1) -> Array:
    """Pr(theta_k given the whole output), (m, T, N), from log-densities (n, T, N) of each reading under each draw.

    Exact if the readings of a decision depend on theta through its draw alone and each has the density that is given,
    and if the draw depends on the first theta of the decision. Decisions begin every so many readings.

    >>> chain = Chain(np.array([0.5, 0.5]), np.array([[[0.9, 0.1], [0.1, 0.9]]]), True, False)
    >>> plan = Plan(np.eye(2)[None], np.zeros((1, 2), dtype=int), 0)
    >>> found = smoothed(np.log([[[0.8], [0.8]], [[0.2], [0.2]]]), plan, chain, np.zeros((2, 1), dtype=int))
    >>> found[0, :, 0].round(4).tolist()
    [0.9193, 0.9193]
    """
    n, T, N = evidence.shape
    m, B = len(chain.initial), len(plan.kernels)
    K = -(-T // every)
    whole = np.zeros((n, K * every, N))
    whole[:, :T] = evidence
    block = whole.reshape(n, K, every, N).sum(axis=2)
    weights = np.exp(np.maximum(block - block.max(axis=0), _FAINT)).transpose(1, 2, 0)  # (K, N, n)
    steps = powers(chain, every)  # (every + 1, cells, m, m)
    at = np.minimum(cell[::every][:K], len(chain.moves) - 1)
    same = len(chain.moves) == 1
    # where a draw leads: (B n, B)
    lead = np.zeros((B * n, B))
    lead[np.arange(B * n), plan.after.reshape(-1)] = 1.0
    alpha = np.zeros((N, m, B))
    alpha[:, :, plan.start] = chain.initial
    drawn = np.empty((K, N, m, B))  # theta at the start of a decision, and the place after its draw
    kernels = plan.kernels.transpose(1, 0, 2)  # (m, B, n)
    for k in range(K):
        joint = alpha[:, :, :, None] * kernels * weights[k][:, None, None, :]
        after = joint.reshape(N, m, B * n) @ lead if B > 1 else joint.sum(axis=3)
        after /= np.maximum(after.sum(axis=(1, 2), keepdims=True), 1e-300)
        drawn[k] = after
        move = steps[every, 0] if same else steps[every, at[k]]
        alpha = np.swapaxes(move, -1, -2) @ after
    beta = np.empty((K + 1, N, m, B))
    beta[K] = 1.0
    for k in range(K - 1, -1, -1):
        move = steps[every, 0] if same else steps[every, at[k]]
        ahead = move @ beta[k + 1]
        if B > 1:
            ahead = (ahead @ lead.T).reshape(N, m, B, n)
            before = (ahead * kernels * weights[k][:, None, None, :]).sum(axis=3)
        else:
            before = ahead * (kernels * weights[k][:, None, None, :]).sum(axis=3)
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


def powers(chain: Chain, every: int) -> Array:
    """The matrices for 0, 1, .., `every` readings, (every + 1, cells, m, m); for a decision where theta stays in it."""
    moves = chain.moves
    result = np.empty((every + 1, *moves.shape))
    result[0] = np.eye(moves.shape[1])
    for r in range(every):
        result[r + 1] = result[r] @ moves if chain.within else moves
    return result


# What an adversary says, weighed against what the clock says -----------------------------------------


_SURE = 12.0  # nats beyond which odds are not told apart


class Timely(NamedTuple):
    """What the clock says, and what both are worth; None where there is no clock."""

    clock: Clock
    calibration: Calibration | None

    @classmethod
    def learned(cls, said: Array, part: Cases, whole: Cases, rng: np.random.Generator) -> Timely:
        """From log-probabilities of a part of the training cases; the clock from all of them."""
        clock = Clock.learned(whole)
        if clock.odds is None:
            return cls(clock, None)
        return cls(clock, calibrated(_both(said, clock, part), part.truth, part.m, ridge=10.0, rng=rng))

    def logits(self, said: Array, cases: Cases) -> Array:
        """Log-probabilities in the light of the clock."""
        if self.calibration is None or cases.hours is None:
            return said
        return self.calibration.logits(_both(said, self.clock, cases))


ALWAYS = Timely(Clock(None), None)
"""Nothing is changed."""


def _both(said: Array, clock: Clock, cases: Cases) -> Array:
    return np.concatenate([np.clip(said[1:] - said[:1], -_SURE, _SURE), clock.scores(cases)])
