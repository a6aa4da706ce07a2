"""How often adversaries are wrong, by leakage, beside what theory says they must be.

An `ErrorCurve` holds counts, not rates, so that every point has its exact binomial confidence band and a test can
ask whether an adversary was right too often: whether so few wrong guesses could come by chance from somebody who is
wrong as often as the bound says.

>>> bounds = Bounds(np.array([0.3]), exact=np.array([0.1336]), fano=np.array([0.1336]), fano_paper=np.array([-0.43]))
>>> curve = ErrorCurve(1000, {"best": np.array([131])}, bounds)
>>> curve.rates("best").tolist(), [round(float(x[0]), 3) for x in curve.band("best")]
([0.131], [0.105, 0.161])
>>> bool(curve.chances("best")[0] > 1e-6)
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.randomizer.result import Design
from understudy.report.drawing import BLUE, GREY, ROSE, Axes, axes

_GREEN, _BLACK = "#228833", "#222222"
_STYLES = ((ROSE, "^"), (_GREEN, "s"), (BLUE, "o"), ("#aa3377", "D"))


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of every adversary's error at some leakages.

    `exact` is 1 - sum_j max_i p_i P_ij, which nobody goes below; `fano` the sharp Fano bound; `fano_paper` Theorem 3
    with its units right.
    """

    leakages: Array
    exact: Array
    fano: Array
    fano_paper: Array

    @classmethod
    def of(cls, designs: Iterable[Design]) -> Bounds:
        """The bounds of some designs, at their budgets.

        >>> import understudy as us
        >>> bounds = Bounds.of(us.solve(1 - np.eye(2), leakage=budget) for budget in (0.1, 0.3))
        >>> bounds.exact.round(4).tolist()
        [0.2802, 0.1336]
        """
        found = tuple(designs)
        cards = [design.guarantee for design in found]
        named = [np.array([getattr(card, name) for card in cards]) for name in ("bayes_error", "fano", "fano_paper")]
        return cls(np.array([design.leakage if design.budget is None else design.budget for design in found]), *named)


@dataclass(frozen=True)
class ErrorCurve:
    """Wrong guesses of each adversary out of `n` at each leakage of `bounds`, which hold there.

    `lines` are the same bounds at more leakages, to draw them as curves.
    """

    n: int
    wrong: Mapping[str, NDArray[np.int64]]
    bounds: Bounds
    lines: Bounds | None = None

    def rates(self, name: str) -> Array:
        """The share of wrong guesses of an adversary."""
        return np.asarray(self.wrong[name] / self.n)

    def band(self, name: str, confidence: float = 0.99) -> tuple[Array, Array]:
        """Clopper and Pearson's confidence limits of the error probability, at each leakage."""
        from scipy.stats import beta

        w, tail = np.asarray(self.wrong[name]), (1.0 - confidence) / 2.0
        low = np.where(w > 0, beta.ppf(tail, np.maximum(w, 1), self.n - w + 1), 0.0)
        high = np.where(w < self.n, beta.ppf(1.0 - tail, w + 1, np.maximum(self.n - w, 1)), 1.0)
        return low, high

    def chances(self, name: str) -> Array:
        """The chance of so few wrong guesses, or fewer, of somebody whose error is the exact bound.

        One-sided and exact; below a false-alarm rate it says that the adversary beats the bound.
        """
        from scipy.stats import binom

        return np.asarray(binom.cdf(self.wrong[name], self.n, self.bounds.exact))


def plot_errors(curve: ErrorCurve, ax: Axes | None = None, log: bool = True, confidence: float = 0.99) -> Axes:
    """Error probabilities against leakage, with confidence bands; lines for the bounds.

    On a logarithmic scale bounds that are not positive cannot be drawn, and the legend says so.

    >>> from matplotlib.figure import Figure
    >>> import understudy as us
    >>> bounds = Bounds.of(us.solve(1 - np.eye(2), leakage=budget) for budget in (0.0, 0.3))
    >>> curve = ErrorCurve(1000, {"best": np.array([498, 131])}, bounds)
    >>> ax = plot_errors(curve, Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['best', 'exact bound', 'sharp Fano', 'Theorem 3, units right (never positive)']
    """
    ax = axes(ax)
    x = curve.bounds.leakages
    lines = curve.lines or curve.bounds
    floor = 0.2 / curve.n
    for (name, wrong), (colour, marker) in zip(curve.wrong.items(), _STYLES, strict=False):
        low, high = curve.band(name, confidence)
        # on a logarithmic scale a band that reaches down to zero is drawn to the floor of the figure
        ax.fill_between(x, np.maximum(low, floor) if log else low, high, color=colour, alpha=0.25, lw=0)
        seen = np.where(np.asarray(wrong) > 0, curve.rates(name), np.nan) if log else curve.rates(name)
        # open markers of different forms: one that lies on another leaves it to be seen
        style = {"marker": marker, "ms": 5 + 2 * (marker == "o"), "mfc": "none", "mew": 1.2, "ls": "none"}
        ax.plot(x, seen, color=colour, label=name, zorder=3, **style)
    ax.plot(lines.leakages, lines.exact, color=_BLACK, lw=1.2, label="exact bound", zorder=4)
    ax.plot(lines.leakages, lines.fano, color=GREY, lw=3.0, ls=(0, (1, 1.5)), label="sharp Fano", zorder=2)
    drawn = np.where(lines.fano_paper > 0.0, lines.fano_paper, np.nan) if log else lines.fano_paper
    never = " (never positive)" if log and not (lines.fano_paper > 0.0).any() else ""
    ax.plot(lines.leakages, drawn, color=GREY, lw=1.2, ls=(0, (6, 2, 1, 2)), label=f"Theorem 3, units right{never}")
    ax.set(xlabel="leakage $I_0$ (nats)", ylabel="probability of a wrong guess")
    if log:
        ax.set_yscale("log")
        ax.set_ylim(max(floor, 0.3 * float(lines.exact.min())), 1.0)
    else:
        ax.axhspan(-2.0, 0.0, color=GREY, alpha=0.12, lw=0)
        ax.set_ylim(min(-0.05, 1.05 * float(lines.fano_paper.min())), 0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8, loc="lower left")
    return ax


def plot_error_ratios(
    curve: ErrorCurve, names: Iterable[str], ax: Axes | None = None, confidence: float = 0.99
) -> Axes:
    """Errors over the exact bound, with confidence limits: nobody can be below 1 but by chance.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> bounds = Bounds.of([us.solve(1 - np.eye(2), leakage=0.3)])
    >>> ax = plot_error_ratios(ErrorCurve(1000, {"best": np.array([131])}, bounds), ["best"], Figure().subplots())
    >>> ax.get_ylabel()
    'wrong guesses / exact bound'
    """
    ax = axes(ax)
    names = list(names)
    x, exact = curve.bounds.leakages, curve.bounds.exact
    ax.axhline(1.0, color=_BLACK, lw=1.2, label="exact bound")
    styles = dict(zip(curve.wrong, _STYLES, strict=False))
    for place, name in enumerate(names):
        colour, marker = styles[name]
        rate = curve.rates(name) / exact
        low, high = (limit / exact for limit in curve.band(name, confidence))
        # side by side, so that equal results are seen as two
        at = x + 0.006 * (place - (len(names) - 1) / 2.0)
        style = {"marker": marker, "ms": 4, "mfc": "none", "ls": "none", "elinewidth": 1.0, "capsize": 2}
        ax.errorbar(at, rate, (rate - low, high - rate), color=colour, label=name, **style)
    ax.set(xlabel="leakage $I_0$ (nats)", ylabel="wrong guesses / exact bound")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    return ax
