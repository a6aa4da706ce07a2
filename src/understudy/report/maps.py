"""Matrices as heat maps with their numbers written in: the randomizer, and what each pair costs."""

from __future__ import annotations

import numpy as np

from understudy.distortion.cost import Costs
from understudy.distortion.methods import MONTE_CARLO
from understudy.laws.base import Array
from understudy.randomizer.card import label
from understudy.randomizer.result import Design
from understudy.report.drawing import Axes, axes, distortion_label

# Beyond so many rows or columns numbers would not be readable; a scale of colours stands for them.
_WRITTEN = 12
_WIDE = 7
_TICKS = 24
_FAINT = "#8a8a8a"
_COLOURS = "Blues"  # one hue, light to dark: the order is seen without seeing the hue


def plot_kernel(design: Design, ax: Axes | None = None) -> Axes:
    """The randomizer as a map: a row for each private value, with its odds; a column for each pseudo value.

    A 0 is a pair that is never drawn. Up to 12 rows and columns the probabilities are written in, beyond
    that a scale of colours stands for them.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> ax = us.report.plot_kernel(us.solve([[0, 1], [1, 0]], leakage=0.2), Figure().subplots())
    >>> [text.get_text() for text in ax.texts]
    ['0.805', '0.195', '0.195', '0.805']
    """
    P = design.randomizer.kernel
    rows = [f"{label(value)}  ({100.0 * p:.3g}%)" for value, p in zip(design.values, design.prior, strict=True)]
    words = [[_probability(x) for x in row] for row in P.tolist()]
    ax = _map(axes(ax), P, words, (rows, list(map(label, design.pseudo))), (0.0, 1.0, "probability"))
    ax.set(xlabel="pseudo value, drawn", ylabel="private value (odds)")
    return ax


def plot_costs(costs: Costs, ax: Axes | None = None) -> Axes:
    """The distortion of each pair as a map; what was simulated has its standard error below it.

    A forbidden pair, of infinite cost, is hatched.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 2])
    >>> ax = us.report.plot_costs(us.costs(family, pseudo=[0, 1, 2], distortion="mae"), Figure().subplots())
    >>> [text.get_text() for text in ax.texts]
    ['0', '1', '2', '2', '1', '0']
    """
    L = costs.matrix
    finite = L[np.isfinite(L)]
    top = float(finite.max()) if finite.size else 0.0
    words = [
        [_cost(x, error if method == MONTE_CARLO else 0.0) for x, error, method in zip(*line, strict=True)]
        for line in zip(L.tolist(), costs.error.tolist(), costs.method.tolist(), strict=True)
    ]
    names = list(map(label, costs.values)), list(map(label, costs.pseudo))
    ax = _map(axes(ax), L, words, names, (0.0, top or 1.0, distortion_label(costs.distortion)))
    time = "stationary" if costs.horizon is None else f"over {costs.horizon} readings"
    ax.set(xlabel="pseudo value", ylabel="private value")
    ax.set_title(f"{distortion_label(costs.distortion)}, {time}", fontsize="medium")
    return ax


def _map(
    ax: Axes, matrix: Array, words: list[list[str]], names: tuple[list[str], list[str]], scale: tuple[float, float, str]
) -> Axes:
    """Colours, names and numbers; `scale` is the value of the lightest and of the darkest colour, and its title."""
    low, high, title = scale
    shown = np.ma.masked_invalid(matrix)
    image = ax.imshow(shown, cmap=_COLOURS, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    if shown.mask.any():  # what is masked is not painted, and the ground is seen
        ax.patch.set(hatch="///", facecolor="white", edgecolor="#bbbbbb")
    m, n = matrix.shape
    for axis, labels in ((ax.yaxis, names[0]), (ax.xaxis, names[1])):
        every = -(-len(labels) // _TICKS)
        axis.set_ticks(range(0, len(labels), every), labels[::every])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if max(m, n) > _WRITTEN:
        bar = ax.figure.colorbar(image, ax=ax, label=title)
        bar.outline.set_visible(False)
        return ax
    # white lines between the cells
    ax.set_xticks(np.arange(0.5, n - 1), minor=True)
    ax.set_yticks(np.arange(0.5, m - 1), minor=True)
    ax.grid(which="minor", color="white", lw=2)
    ax.tick_params(which="minor", length=0)
    for i, row in enumerate(words):
        for j, word in enumerate(row):
            dark = np.isfinite(matrix[i, j]) and (matrix[i, j] - low) > 0.6 * (high - low)
            ink = "white" if dark else _FAINT if word == "0" else "#333333"
            ax.text(j, i, word, ha="center", va="center", color=ink, fontsize="medium" if n <= _WIDE else "small")
    return ax


def _probability(x: float) -> str:
    """Three decimals, nothing rounded to certainty or to never.

    >>> [_probability(x) for x in (0.0, 1e-5, 0.25, 0.99999, 1.0)]
    ['0', '<0.001', '0.250', '>0.999', '1']
    """
    if x in (0.0, 1.0):
        return f"{x:g}"
    return "<0.001" if x < 0.0005 else ">0.999" if x >= 0.9995 else f"{x:.3f}"


def _cost(x: float, error: float) -> str:
    r"""Three digits, with the standard error if there is one.

    >>> _cost(129.848, 0.0), _cost(0.0, 0.0), _cost(float("inf"), 0.0), _cost(17.3456, 0.021)
    ('130', '0', '∞', '17.35\n±0.02')
    """
    if not np.isfinite(x):
        return "∞"
    if error <= 1e-6 * abs(x):  # rounding, not chance
        return f"{x:.3g}"
    digits = max(0, -int(np.floor(np.log10(error))))
    return f"{x:.{digits}f}\n±{error:.{digits}f}"
