"""What a design is compared with: simple rivals, and the least distortion that hiding costs at all.

*The limit.* Somebody who looks at one output at a time, and knows the laws Q_i of the output under each of m values,
has the balanced accuracy (1/m) sum over outputs of max_i Q_i; for two values this is 1/2 + TV(Q_0, Q_1)/2. A method
that keeps him to at most `a` has a mean absolute distortion of at least

    min  sum_i p_i W(P_i, Q_i)   subject to   sum over outputs of max_i Q_i <= m a,

with P_i the laws of the readings, p_i their shares, and W the least mean distance of a transport. It is a linear
program over cells of the reading (`distortion_limit`). Cells lie as near to each other as their nearest points do, and
outputs are told apart by cell only, so that the figure stays a lower bound. Transports go along the line, cell by cell,
so that the program grows with the number of cells and not with its square. Adversaries who look at more than one output
only raise what hiding costs. An output between two cells may be moved to the better end of the gap: on a gap the cost
is linear.

*Rivals* need no model: a constant in place of every reading; a coin for each epoch, which shows it as it is or hides it
behind the constant; white noise; and slow noise, whose correlation halves in an hour. `compare` attacks them with
the same adversaries at the distortion of a design, and finds what each costs at the accuracy of the design. A coin with
probability q has q times the distortion of the constant, and its accuracy lies on the line between the raw readings and
chance: a design above the *coin line* hides less than tossing coins would at the same price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Ints
from understudy.adversaries.datasets import (
    Labels,
    Recording,
    as_table,
    make_recording,
    mean_distance,
    noise_scale,
    on_steps,
)
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.statistics import Figure
from understudy.errors import ConfigurationError
from understudy.identify.history import History

# The limit ------------------------------------------------------------------------------------------------------------


CELLS = 100
"""Cells of the reading, each with about as many readings."""
ACCURACIES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class DistortionLimit:
    """The least mean absolute distortion of any method, at several balanced accuracies of who sees single outputs."""

    accuracies: tuple[float, ...]
    distortion: tuple[tuple[float, ...], ...]
    """For each channel, at each accuracy, in the unit of the reading."""
    mean_reading: tuple[float, ...]
    """Mean absolute reading by channel."""
    values: int
    """How many values of the private parameter occur; all of them enter at once."""

    @property
    def percent(self) -> tuple[tuple[float, ...], ...]:
        """The distortion in percent of the mean absolute reading, for each channel at each accuracy."""
        pairs = zip(self.distortion, self.mean_reading, strict=True)
        return tuple(tuple(100.0 * x / mean if mean > 0.0 else math.nan for x in line) for line, mean in pairs)


def distortion_limit(
    history: History | Recording | tuple[ArrayLike, Labels],
    accuracies: Iterable[float] = ACCURACIES,
    cells: int = CELLS,
) -> DistortionLimit:
    """The least distortion of any method whose single outputs tell the private value no better than stated.

    Parameters
    ----------
    history : History, Recording, or a pair of arrays
        Labelled readings. A pair holds readings (T,) or (T, d) and one private value a row; None and NaN are unknown.
    accuracies : iterable of float
        Balanced accuracies, from 1/m (chance, for m values) to 1.
    cells : int
        Cells of the reading. More cells make the bound tighter, and the laws of small recordings less certain.

    Returns
    -------
    DistortionLimit
        The limit by channel, in the unit of the reading and in percent of its mean. With several channels each has a
        limit of its own: who sees all of them sees no less. With more than two values the limit is for all of them
        together, not for pairs.

    Raises
    ------
    ConfigurationError
        If fewer than two values occur, or an accuracy does not lie from chance to 1.

    Examples
    --------
    Half of the readings are 400 and half are 1000. Who must not be told apart at all must meet, at 300 a reading:

    >>> limit = distortion_limit(([400.0, 1000.0] * 50, [0, 1] * 50), accuracies=[0.5, 0.75, 1.0])
    >>> [round(x, 6) for x in limit.distortion[0]]
    [300.0, 150.0, 0.0]
    >>> [round(x, 2) for x in limit.percent[0]]
    [42.86, 21.43, 0.0]

    """
    if isinstance(cells, bool) or not isinstance(cells, (int, np.integer)) or cells < 2:
        raise ConfigurationError(f"cells = {cells!r}; it must be a whole number of at least 2")
    Y, theta = _labelled_rows(history)
    wanted = tuple(float(a) for a in accuracies)
    return limit_of(Y, theta, wanted, int(cells))


def limit_of(Y: Array, theta: Ints, accuracies: Sequence[float], cells: int = CELLS) -> DistortionLimit:
    """The limit of readings (T, d) with the positions of their private values, -1 where unknown."""
    lines, means, values = [], [], int(np.unique(theta[theta >= 0]).size)
    if values < 2:
        raise ConfigurationError("fewer than two private values occur; there is nothing to be hidden")
    for a in accuracies:
        if not 1.0 / values - 1e-9 <= a <= 1.0 + 1e-9:
            raise ConfigurationError(f"accuracy {a!r}: it must lie from chance, 1/{values}, to 1")
    for y in Y.T:
        there = np.isfinite(y) & (theta >= 0)
        label = np.unique(theta[there], return_inverse=True)[1]
        known = label.size > 0 and int(label.max()) == values - 1
        # a channel that lacks a value altogether tells nothing of what hiding that value costs
        lines.append(_least_distortions(y[there], label, accuracies, cells) if known else [math.nan] * len(accuracies))
        means.append(float(np.abs(y[there]).mean()) if there.any() else math.nan)
    return DistortionLimit(tuple(accuracies), tuple(map(tuple, lines)), tuple(means), values)


def _labelled_rows(history: History | Recording | tuple[ArrayLike, Labels]) -> tuple[Array, Ints]:
    if isinstance(history, Recording):
        return history.Y, history.theta
    if isinstance(history, History):
        parts = history.segments
        return np.concatenate([part.Y for part in parts]), np.concatenate([part.theta for part in parts])
    if not isinstance(history, (tuple, list)) or len(history) != 2:
        raise ConfigurationError("history must be a history, a recording, or a pair of readings and private values")
    Y = as_table(history[0], "readings")
    theta = np.asarray(history[1], dtype=object).ravel()
    values = list(dict.fromkeys(v for v in theta.tolist() if v is not None and v == v))
    recording = make_recording(Y, theta.tolist(), values)
    return recording.Y, recording.theta


def _least_distortions(y: Array, label: Ints, accuracies: Sequence[float], cells: int) -> list[float]:
    """The optimum of the linear program at each accuracy, for one channel; labels are 0 .. m - 1, all of them there."""
    import scipy.sparse as sp
    from scipy.optimize import linprog

    low, high, place = _cells(y, cells)
    k, m = len(low), int(label.max()) + 1
    if k == 1:
        return [0.0] * len(accuracies)
    counts = np.bincount(label * k + place, minlength=m * k).reshape(m, k).astype(float)
    shares, laws = counts.sum(axis=1) / counts.sum(), counts / counts.sum(axis=1, keepdims=True)
    unit = float(high[-1] - low[0])
    gap, width = (low[1:] - high[:-1]) / unit, (high - low) / unit
    one, none = sp.identity(k, format="csr"), sp.csr_matrix((k, k))
    # what leaves cell j to the right arrives at cell j + 1, to the left at j - 1; beyond the ends there is nothing
    ahead, back = sp.eye(k, k, k=-1, format="csr"), sp.eye(k, k, k=1, format="csr")
    # unknown, for each value: what stays, sets out to the right, to the left, passes to the right, passes to the left
    right, left = np.append(gap, 0.0), np.insert(gap, 0, 0.0)
    cost = np.concatenate([np.zeros(k), right, left, right + width, left + width])
    most = np.full((5, k), np.inf)
    most[[1, 3], -1] = most[[2, 4], 0] = 0.0
    bounds = np.column_stack([np.zeros(5 * k * m + k), np.append(np.tile(most.ravel(), m), np.full(k, np.inf))])
    given = sp.hstack([one, one, one, none, none])
    stops = [sp.hstack([none, ahead, none, ahead - one, none]), sp.hstack([none, none, back, none, back - one])]
    output = sp.hstack([one, none, none, none, none]) + stops[0] + stops[1]
    # s_j >= Q_i(j) for each value i, and the sum of s is m times the accuracy
    above = sp.hstack([sp.block_diag([output] * m), sp.vstack([-one] * m)])
    passing = sp.hstack([sp.block_diag([-sp.vstack(stops)] * m), sp.csr_matrix((2 * k * m, k))])
    total = sp.hstack([sp.csr_matrix((1, 5 * k * m)), sp.csr_matrix(np.ones((1, k)))])
    A = sp.vstack([above, passing, total]).tocsr()
    equal = sp.hstack([sp.block_diag([given] * m), sp.csr_matrix((k * m, k))]).tocsr()
    objective = np.concatenate([*(share * cost for share in shares), np.zeros(k)])
    found = []
    for a in accuracies:
        limit = np.append(np.zeros(A.shape[0] - 1), m * min(max(a, 1.0 / m), 1.0))
        solution = linprog(objective, A_ub=A, b_ub=limit, A_eq=equal, b_eq=laws.ravel(), bounds=bounds)
        found.append(max(0.0, unit * float(solution.fun)) if solution.status == 0 else math.nan)
    return found


def _cells(y: Array, cells: int) -> tuple[Array, Array, Ints]:
    """The least and the greatest reading of each cell, and the cell of each reading; cells hold about as many."""
    edges = np.unique(np.quantile(y, np.linspace(0.0, 1.0, cells + 1)))
    place = np.clip(np.searchsorted(edges, y, side="right") - 1, 0, max(0, len(edges) - 2))
    place = np.unique(place, return_inverse=True)[1]
    order = np.argsort(y, kind="stable")
    first = np.searchsorted(place[order], np.arange(int(place.max()) + 1))
    return y[order][first], y[order][np.append(first[1:], len(y)) - 1], place.astype(np.int64)


# Rivals: simple outputs of the same price -----------------------------------------------------------------------------


HALF_LIFE = 3600.0
"""Seconds after which slow noise has lost half of its correlation."""
_ROWS_OF_AN_HOUR = 60  # where the period is not known
_STEP, _STEPS = 3.0, 3  # noise is made so many times stronger or weaker, so often, to find its price at equal accuracy
_COPIES = 2  # of each recording, with noise or coins drawn anew


class Level(StrEnum):
    """What a rival has in common with the design."""

    DISTORTION = "equal distortion"
    ACCURACY = "equal accuracy"
    NONE = "as it is"


@dataclass(frozen=True, slots=True)
class Rival:
    """An output of equal distortion or equal accuracy, and what adversaries made of it."""

    name: str
    """"raw", "design", "constant", "coin", "white noise" or "slow noise"."""
    level: str
    """A value of `Level`."""
    distortion: tuple[float, ...]
    """Mean absolute distance from the reading by channel; NaN where no size that was tried would do."""
    price: float
    """The distortion as a share of that of a constant output, averaged over channels."""
    balanced: Figure
    """Balanced accuracy of the best adversary, without the clock; an exact figure has no width."""
    adversary: str = ""
    """The best one's name; empty where the figure follows from the others."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """A design beside its rivals and the limit, all attacked by the same adversaries without the clock."""

    rows: tuple[Rival, ...]
    adversaries: tuple[str, ...]
    chance: float
    limit: DistortionLimit
    """From chance to the accuracy on the raw readings; the design's own accuracy is among them."""
    epoch: int
    """Readings for which one coin is tossed."""
    mean_reading: tuple[float, ...]

    def row(self, name: str, level: Level | None = None) -> Rival:
        """The row of a rival at a level, the first one where no level is named."""
        for row in self.rows:
            if row.name == name and level in (None, row.level):
                return row
        raise KeyError(name)

    @property
    def design(self) -> Rival:
        """The design itself."""
        return self.row("design")

    def coin_line(self, price: float) -> float:
        """The accuracy of a coin by epoch at a price: the line from the raw readings to a constant output."""
        raw = self.row("raw").balanced.value
        return raw - (raw - self.chance) * min(max(price, 0.0), 1.0)

    @property
    def above_coin(self) -> bool:
        """Whether a coin by epoch would hide more at the price of the design."""
        return self.design.balanced.value > self.coin_line(self.design.price) + 1e-9

    @property
    def clearly_above_coin(self) -> bool:
        """The same, beyond the interval of the design's accuracy."""
        return self.design.balanced.low > self.coin_line(self.design.price)

    @property
    def ratios(self) -> tuple[float, ...]:
        """By channel, the distortion of the design over the limit at its accuracy; NaN where the limit is zero."""
        a = min(max(self.design.balanced.value, self.chance), 1.0)
        at = min(range(len(self.limit.accuracies)), key=lambda k: abs(self.limit.accuracies[k] - a))
        least = [line[at] for line in self.limit.distortion]
        pairs = zip(self.design.distortion, least, self.mean_reading, strict=True)
        return tuple(x / low if low > 1e-6 * mean else math.nan for x, low, mean in pairs)


def constant_output(Y: Array, history: Array | None = None) -> Array:
    """The constant of least mean distance, the median of each channel, in place of every reading (T, d) that is there.

    It is the median of `history` (S, d) where that is given, so that nothing is learned from what is hidden.

    >>> constant_output(np.array([[1.0], [np.nan], [5.0]]), np.array([[2.0], [3.0], [9.0]])).ravel().tolist()
    [3.0, nan, 3.0]
    """
    middle = np.nanmedian(Y if history is None else history, axis=0)
    return np.where(np.isnan(Y), np.nan, middle)


def coin_output(Y: Array, hidden: Array, q: float, epoch: int, rng: np.random.Generator) -> Array:
    """Readings (T, d) of which whole epochs are replaced by `hidden` (T, d), each with probability `q`.

    The phase of the epochs is drawn too: edges at midnight would tell the time.

    >>> Y = np.arange(8.0)[:, None]
    >>> out = coin_output(Y, -np.ones((8, 1)), 0.5, 3, np.random.default_rng(0))
    >>> out.ravel().tolist()
    [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 7.0]
    """
    T = len(Y)
    number = (np.arange(T) + int(rng.integers(epoch))) // epoch
    heads = rng.random(int(number[-1]) + 1) < q
    return np.where(heads[number][:, None], hidden, Y)


def slow_noise(T: int, d: int, half_life: float, rng: np.random.Generator) -> Array:
    """Stationary normal noise (T, d) of variance 1 whose correlation halves every `half_life` readings.

    e_{k+1} = phi e_k + sqrt(1 - phi^2) w_k with phi = 2^(-1 / half_life); a half-life of 0 is white noise.

    >>> e = slow_noise(100_000, 1, 10.0, np.random.default_rng(1))[:, 0]
    >>> round(float(np.mean(e[10:] * e[:-10])), 1), round(float(e.var()), 1)
    (0.5, 1.0)
    """
    from scipy.signal import lfilter

    w = rng.standard_normal((T, d))
    if half_life <= 0.0:
        return w
    phi = 0.5 ** (1.0 / half_life)
    w[1:] *= math.sqrt(1.0 - phi * phi)
    return np.asarray(lfilter([1.0], [1.0, -phi], w, axis=0))


Attacker: TypeAlias = Callable[[Cases, Cases], tuple[Figure, str]]
"""Cases to learn from and to be judged on -> balanced accuracy of the best adversary, and its name."""


class RivalData(NamedTuple):
    """The recordings that rivals are made of, and who attacks them."""

    learn: Cases
    judge: Cases
    """Raw readings."""
    grid: tuple[Array, Array] | None
    period: float | None
    attack: Attacker
    rng: np.random.Generator

    def rows_of(self, seconds: float, unknown: int) -> int:
        """How many readings a time has."""
        return unknown if self.period is None else max(1, round(seconds / self.period))

    def copies(self, make: Callable[[Array], Array]) -> tuple[Cases, Cases]:
        """Both recordings, `_COPIES` times, with an output made of each sequence (T, d)."""
        found = []
        for cases in (self.learn, self.judge):
            several = cases.sequences(np.tile(np.arange(cases.N), _COPIES))
            outputs = np.stack([make(several.outputs[:, :, n]) for n in range(several.N)], axis=2)
            found.append(replace(several, outputs=outputs))
        return found[0], found[1]


def compare(data: RivalData, raw: tuple[Figure, str], design: tuple[Figure, str], distortion: Array) -> Rivals:
    """The rivals of a design that has this distortion by channel; accuracies are of the best of the same adversaries.

    White and slow noise are attacked at the distortion of the design, and at up to three other sizes, between which the
    price of equal accuracy is interpolated. The price of a coin follows from the line.
    """
    learn, judge = data.learn, data.judge
    there = judge.labels >= 0
    chance = 1.0 / max(int((judge.counts > 0).sum()), 1)
    rows_of_learn = learn.outputs.transpose(0, 2, 1).reshape(-1, learn.d)
    constant = data.copies(lambda Y: constant_output(Y, rows_of_learn))[1]
    most = mean_distance(judge, constant)
    means = np.nanmean(np.abs(judge.outputs), axis=(0, 2))
    epoch = data.rows_of(86_400.0, max(2, judge.T // 8))

    def rival(name: str, level: Level, spent: Array, figure: Figure, who: str = "") -> Rival:
        share = np.divide(spent, most, out=np.where(spent > 0.0, np.inf, 0.0), where=most > 0.0)
        return Rival(name, level, tuple(map(float, spent)), float(share.mean()), figure, who)

    rows = [
        rival("raw", Level.NONE, np.zeros(judge.d), *raw),
        rival("design", Level.NONE, distortion, *design),
        rival("constant", Level.NONE, most, Figure(chance, chance, chance)),
    ]
    aim, top = design[0].value, raw[0].value
    q = float(np.clip(rows[1].price, 0.0, 1.0))
    outputs = data.copies(lambda Y: coin_output(Y, constant_output(Y, rows_of_learn), q, epoch, data.rng))
    rows.append(rival("coin", Level.DISTORTION, q * most, *data.attack(*outputs)))
    needed = 1.0 if top <= chance else float(np.clip((top - aim) / (top - chance), 0.0, 1.0))
    rows.append(rival("coin", Level.ACCURACY, needed * most, Figure(aim, aim, aim)))
    half = data.rows_of(HALF_LIFE, _ROWS_OF_AN_HOUR)
    for name, half_life in (("white noise", 0.0), ("slow noise", float(half))):
        rows += [rival(name, *found) for found in _noises(data, distortion, half_life, aim, top)]
    judged = there & np.isfinite(judge.outputs).any(axis=1)
    Y, theta = judge.outputs.transpose(0, 2, 1)[judged], judge.labels[judged]
    return Rivals(
        tuple(rows), (), chance, limit_of(Y, theta, _accuracies(chance, top, aim)), epoch, tuple(means.tolist())
    )


def _accuracies(chance: float, top: float, aim: float) -> list[float]:
    """Where the limit is found: from chance to the raw readings in equal steps, and at the design."""
    steps = np.linspace(chance, max(top, chance), 9).tolist()
    return sorted({min(max(round(a, 12), chance), 1.0) for a in (*steps, aim)})


def _noises(
    data: RivalData, distortion: Array, half_life: float, aim: float, top: float
) -> list[tuple[Level, Array, Figure, str]]:
    """Noise at the distortion of the design, and the distortion at which its accuracy is that of the design."""
    steps = np.zeros(len(distortion)) if data.grid is None else data.grid[0]

    def at(wanted: Array) -> tuple[Figure, str]:
        scales = np.array([noise_scale(float(w), float(s)) for w, s in zip(wanted, steps, strict=True)])

        def noisy(Y: Array) -> Array:
            T, d = Y.shape
            return Y + on_steps(scales * slow_noise(T, d, half_life, data.rng), steps)

        return data.attack(*data.copies(noisy))

    if not distortion.any():
        return [(Level.DISTORTION, distortion, Figure(top, top, top), "")]
    figure, who = at(distortion)
    found = [(Level.DISTORTION, distortion, figure, who)]
    # (log size, accuracy): noise of no size has the accuracy of the raw readings
    size, tried = 0.0, [(0.0, figure.value)]
    up = figure.value > aim
    for _ in range(_STEPS if aim < top else 0):
        size += math.log(_STEP) if up else -math.log(_STEP)
        tried.append((size, at(math.exp(size) * distortion)[0].value))
        if (tried[-1][1] > aim) != up:
            break
    (x, a), (y, b) = (tried[-2], tried[-1]) if len(tried) > 1 else (tried[0], tried[0])
    met = (a - aim) * (b - aim) <= 0.0 and a != b
    where = math.exp(x + (y - x) * (a - aim) / (a - b)) if met else math.nan if up else math.exp(size)
    spent = (0.0 if aim >= top else where) * distortion
    found.append((Level.ACCURACY, spent, Figure(aim, aim, aim), ""))
    return found
