"""Why memory matters: three ways to draw for a parameter that moves, on the binary symmetric Markov source.

The private bit flips with probability p at each step, and drawing the wrong bit costs 1. Compared are the causal
randomizer (`us.design_causal`), independent draws at every step, and independent draws once an epoch, constant in
between. For each the leakage rate is that of the sequence, sum I(Theta_k; ~Theta_k given the pseudo past) a step, and
the adversaries are exact: one filters, the other smooths. `docs/make_moving.py` draws the picture of the documents.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Seed
from understudy.errors import ConfigurationError, DesignError
from understudy.randomizer.causal_guarantee import Beliefs, mean, play, posteriors
from understudy.randomizer.design import Randomizer
from understudy.report.figures import BLUE, GREY, ROSE

WAYS = ("with memory", "independent, every step", "independent, every epoch")
_STYLES = dict(zip(WAYS, ((BLUE, "o"), (ROSE, "^"), (GREY, "s")), strict=True))
_HAMMING = [[0.0, 1.0], [1.0, 0.0]]


class FixedKernel(Beliefs):
    """The same account for one kernel that is drawn from whatever the belief is: draws without memory.

    >>> twice = FixedKernel([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], [[0.7, 0.3], [0.3, 0.7]])
    >>> twice.kernel((0.2, 0.8)).tolist() == twice.kernel((0.5, 0.5)).tolist()
    True
    """

    __slots__ = ("_same",)

    def __init__(self, prior: ArrayLike | None, transitions: ArrayLike, cost: ArrayLike, kernel: ArrayLike) -> None:
        super().__init__(prior, transitions, cost, 0.0)
        self._same: Array = Randomizer(kernel).kernel
        if self._same.shape != self.cost.shape:
            raise DesignError(f"kernel has shape {self._same.shape} and the costs {self.cost.shape}; they must agree")

    def __reduce__(self) -> tuple[type[Beliefs], tuple[Array, Array, Array, Array | float]]:
        return type(self), (self.prior, self.transitions, self.cost, self._same)

    def kernel(self, belief: Sequence[float]) -> Array:
        """The one kernel."""
        return self._same


@dataclass(frozen=True, slots=True)
class Errors:
    """How often the exact adversaries are wrong about theta_k, the mean over a sequence, with standard errors."""

    filtering: float
    filtering_error: float
    smoothing: float
    smoothing_error: float
    rate: float
    rate_error: float
    distortion: float
    distortion_error: float


def errors(
    beliefs: Beliefs, decisions: int = 200, sequences: int = 500, rng: Seed = None, every: int = 1, margin: int = 0
) -> Errors:
    """The errors of the filtering and the smoothing adversary, with leakage and distortion of the same sequences.

    The chance of being wrong is known given the pseudo path, so nothing but the path is left to chance. `margin`
    decisions at each end are left out of the means: at the start an adversary knows less, at the end there is nothing
    to wait for.

    >>> beliefs = Beliefs([0.5, 0.5], [[0.98, 0.02], [0.02, 0.98]], [[0, 1], [1, 0]], slope=2.0)
    >>> found = errors(beliefs, 100, 50, rng=1)
    >>> round(found.filtering, 6), found.smoothing < found.filtering
    (0.119203, True)
    """
    if 2 * margin >= decisions:
        raise DesignError(f"margin = {margin} at both ends of {decisions} decisions; nothing is left between")
    played = play(beliefs, decisions, sequences, rng, every)
    seen = posteriors(played.likelihoods, beliefs.prior, beliefs.transitions)
    inside = slice(margin, decisions - margin)
    f, s, r, d = (
        mean(x[inside])
        for x in (1.0 - seen.filtering.max(axis=2), 1.0 - seen.smoothing.max(axis=2), played.charges, played.costs)
    )
    return Errors(*f, *s, *r, *d)


@dataclass(frozen=True)
class Comparison:
    """What `compare_memory` measured: for each way its points, from little distortion to much."""

    flip: float
    epoch: int
    points: dict[str, tuple[Errors, ...]]

    def column(self, way: str, name: str) -> Array:
        """One number of all points of a way: "rate", "distortion", "filtering", "smoothing" or one's standard error."""
        return np.array([getattr(point, name) for point in self.points[way]])

    def at(self, name: str, value: float) -> dict[str, dict[str, float]]:
        """All ways at an equal "rate" or an equal "distortion", interpolated between their points.

        NaN where a way does not reach it.
        """
        found = {}
        for way in self.points:
            x = self.column(way, name)
            order = np.argsort(x)
            others = ("rate", "distortion", "filtering", "smoothing")
            inside = x.min() <= value <= x.max()
            found[way] = {
                other: float(np.interp(value, x[order], self.column(way, other)[order])) if inside else math.nan
                for other in others
            }
        return found


def source(flip: float, kernel: Any = None, slope: float = 0.0) -> Beliefs:
    """The binary symmetric Markov source with Hamming costs, drawn for at a slope, or by one kernel."""
    T = [[1.0 - flip, flip], [flip, 1.0 - flip]]
    if kernel is None:
        return Beliefs([0.5, 0.5], T, _HAMMING, slope)
    return FixedKernel([0.5, 0.5], T, _HAMMING, kernel)


def compare_memory(
    flip: float,
    epoch: int = 10,
    flips_of_draws: Iterable[float] = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45),
    steps: int = 600,
    sequences: int = 60,
    rng: Any = 1,
) -> Comparison:
    """Measure the three ways for a source that flips with probability `flip`; an epoch has `epoch` steps.

    `flips_of_draws` are the probabilities with which a draw is the wrong bit, a point each. A quarter of the steps at
    each end of a sequence is left out.

    >>> found = compare_memory(0.02, flips_of_draws=[0.1, 0.3], steps=100, sequences=10)
    >>> found.column("with memory", "distortion").round(6).tolist()
    [0.1, 0.3]
    """
    if not 0.0 < flip < 0.5:
        raise ConfigurationError(f"flip = {flip!r}; it must be between 0 and 1/2")
    points: dict[str, list[Errors]] = {way: [] for way in WAYS}
    for D in flips_of_draws:
        kernel = [[1.0 - D, D], [D, 1.0 - D]]
        memory, same = source(flip, slope=math.log((1.0 - D) / D)), source(flip, kernel)
        for way, beliefs, every in zip(WAYS, (memory, same, same), (1, 1, epoch), strict=True):
            points[way].append(errors(beliefs, steps, sequences, rng, every, margin=steps // 4))
    return Comparison(flip, epoch, {way: tuple(found) for way, found in points.items()})


def plot_memory(found: Comparison, three: Any = None) -> Any:
    """Distortion by leakage, errors of the adversaries by leakage, and errors by distortion: three axes.

    Full lines are of the adversary who waits until the end and smooths, dashed ones of the one who filters.

    >>> from matplotlib.figure import Figure
    >>> found = compare_memory(0.02, flips_of_draws=[0.1, 0.3], steps=100, sequences=10)
    >>> drawn = plot_memory(found, Figure().subplots(1, 3))
    >>> [ax.get_xlabel() for ax in drawn]
    ['leakage (nats a step)', 'leakage (nats a step)', 'distortion (share of wrong bits)']
    """
    if three is None:
        from matplotlib import pyplot as plt

        three = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")[1]
    first, second, third = three
    for way in found.points:
        colour, marker = _STYLES[way]
        style = {"color": colour, "marker": marker, "ms": 4, "mfc": "none", "lw": 1.3}
        rate, cost = found.column(way, "rate"), found.column(way, "distortion")
        label = f"{way} of {found.epoch}" if way == WAYS[2] else way
        first.plot(rate, cost, label=label, **style)
        for ax, x in ((second, rate), (third, cost)):
            ax.plot(x, found.column(way, "smoothing"), label=f"{label}: smoothing", **style)
            ax.plot(x, found.column(way, "filtering"), label=f"{label}: filtering", ls=(0, (4, 2)), **style)
    first.set(xlabel="leakage (nats a step)", ylabel="distortion (share of wrong bits)")
    second.set(xlabel="leakage (nats a step)", ylabel="adversary's error", title="at equal leakage")
    third.set(xlabel="distortion (share of wrong bits)", ylabel="adversary's error", title="at equal distortion")
    first.set_title(f"a bit that stays with probability {1.0 - found.flip:.4g}")
    for ax in (first, second, third):
        ax.set_ylim(0.0, 0.52)
        ax.spines[["top", "right"]].set_visible(False)
    first.legend(frameon=False, fontsize=8)
    third.legend(frameon=False, fontsize=6)
    return three
