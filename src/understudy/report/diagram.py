"""The paper's block diagrams, drawn from what runs: which stages a transformation has, and how large they are.

`ran` sends readings through a transformation, one by one, and notes which engine took them: a pair of Kalman
predictors on gain tables (a scalar loop for one state and one channel, else a matrix loop), the same with
covariances carried along (after a gap, or when the system changes with time), or a chain of maps that whiten and colour
by a model's own methods. The drawings then show these stages with their sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.randomizer.design import Design
from understudy.report.figures import BLUE, GREY, ROSE, Axes, axes, distortion_label
from understudy.transform.backend import compiled
from understudy.transform.core import Chain, Emit, NothingMissing, Score, ScoreEach, Transform, ValueEach
from understudy.transform.kalman_pair import Pair, Side, white

# Sizes in inches of a drawing at its own size; letters shrink and grow with the axes that are given.
_TITLE, _LINE = 9.5, 8.0
_HIGH, _FIRST, _GAP, _PAD = 0.165, 0.2, 0.06, 0.11
_WORDS = {
    Score: "score by the model's own methods",
    ScoreEach: "score by one law for all readings",
    Emit: "value by the model's own methods",
    ValueEach: "value by one law for all readings",
    NothingMissing: "check that none is missing",
}


@dataclass(frozen=True)
class Stage:
    """One side of a transformation: its title, and lines that tell how it runs and how large it is."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Ran:
    """What ran when a transformation took T readings of `dim` channels.

    `on_tables` of them had their gains from the tables, for `carried` the covariances were carried along; both are 0
    where there are no Kalman predictors. `engine` says in words what ran.
    """

    dim: int
    T: int
    engine: str
    on_tables: int
    carried: int
    source: Stage
    target: Stage

    @property
    def gauss_markov(self) -> bool:
        """Whether the stages are two Kalman predictors."""
        return self.on_tables + self.carried > 0


def ran(transform: Transform, Y: Any) -> Ran:
    """Send readings (T,) or (T, d) through a transformation and note what they went through.

    >>> import understudy as us
    >>> room = lambda v: us.GaussMarkov(0.95, 1.0, 0.1, 0.1, b=10.0 * v, mean0=100.0, cov0=1.0)
    >>> seen = ran(us.Transform(room(1), room(0.6)), us.sample(room(1), 50, rng=0))
    >>> seen.on_tables, seen.carried, seen.engine.startswith("scalar loop")
    (50, 0, True)
    """
    readings = np.asarray(Y, dtype=float)
    causal = transform._map
    state, carried = transform.start(), 0
    for k in range(len(readings)):
        state, _ = transform.apply(state, readings[k : k + 1])
        # covariances stand in the state behind the means
        carried += isinstance(causal, Pair) and len(state) > 1 + causal.n + causal.m
    T = len(readings)
    how = "compiled" if compiled else "plain Python"
    if isinstance(causal, Pair):
        loop = "scalar loop" if causal.scalar else "matrix loop"
        sides = (
            _predictor("Kalman predictor, $\\theta$", causal.source, T),
            _predictor("Kalman predictor, $\\tilde{\\theta}$", causal.target, T),
        )
        return Ran(transform.dim, T, f"{loop}, {how}", T - carried, carried, *sides)
    links = causal.maps if isinstance(causal, Chain) else (causal,)
    one, two = (
        Stage(title, tuple(_link(x) for x in _flat(link)))
        for title, link in zip(("whiten, $\\theta$", "colour, $\\tilde{\\theta}$"), links, strict=True)
    )
    return Ran(transform.dim, T, "whiten, then colour", 0, 0, one, two)


def plot_sensor(design: Design, ax: Axes | None = None) -> Axes:
    """Sensor, privacy filter, user (the paper's first figure), with the sizes of a design.

    >>> import understudy as us
    >>> from matplotlib.figure import Figure
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
    >>> ax = plot_sensor(us.design(family, leakage=0.3, distortion="mae"), Figure(figsize=(9, 2)).subplots())
    >>> "leakage 0.3 nats" in " ".join(text.get_text() for text in ax.texts)
    True
    """
    m, n = design.randomizer.kernel.shape
    page = _Page(ax, 10.4, 1.9)
    error = 100.0 * design.guarantee.bayes_error
    sensor = [f"m = {m} private values", *_channels(design)]
    middle = [f"randomizer {m} x {n}", f"leakage {design.leakage:.4g} nats", f"{_cost(design)} {design.distortion:.4g}"]
    # a bound from below, so rounded down
    user = ["sees the output alone", "any guess of Θ is wrong with", f"{int(100.0 * error) / 100.0:g} % at least"]
    page.box(0.75, 0.35, 2.2, Stage("sensor", tuple(sensor)), 1.2)
    page.box(4.0, 0.35, 2.7, Stage("privacy filter", tuple(middle)), 1.2, BLUE)
    page.box(7.75, 0.35, 2.35, Stage("user, not trusted", tuple(user)), 1.2)
    page.arrow([(0.1, 0.95), (0.75, 0.95)], "$\\Theta$", (0.3, 1.13))
    page.arrow([(2.95, 0.95), (4.0, 0.95)], "$Y_k$", (3.45, 1.13))
    page.arrow([(6.7, 0.95), (7.75, 0.95)], "$\\tilde{Y}_k$", (7.2, 1.15))
    return page.ax


def plot_filter(design: Design, seen: Ran, ax: Axes | None = None) -> Axes:
    """Randomizer and transformation (the paper's structure of the filter), with what ran."""
    m, n = design.randomizer.kernel.shape
    page = _Page(ax, 9.4, 4.2)
    page.region(1.2, 0.2, 6.9, 3.8, "privacy filter")
    used = int((design.randomizer.kernel > 0.0).any(axis=0).sum())
    top = [
        f"kernel P: {m} private x {n} pseudo values, {used} in use",
        f"I = {design.leakage:.4g} nats, {design.status}",
    ]
    page.box(3.1, 2.45, 4.2, Stage("randomizer, drawn once", tuple(top)), 1.05, ROSE)
    bottom = [seen.engine, f"T = {seen.T} readings, {_many(seen.dim, 'channel')}"]
    page.box(3.1, 0.55, 4.2, Stage("nonlinear transformation, every reading", tuple(bottom)), 1.05, BLUE)
    page.arrow([(0.2, 2.98), (3.1, 2.98)], "$\\Theta$", (0.6, 3.16))
    page.arrow([(2.2, 2.98), (2.2, 1.32), (3.1, 1.32)])
    page.dot(2.2, 2.98)
    page.arrow([(0.2, 0.84), (3.1, 0.84)], "$Y_k$", (0.6, 1.02))
    page.arrow([(5.2, 2.45), (5.2, 1.6)], "$\\tilde{\\Theta}$", (5.45, 2.03))
    page.arrow([(7.3, 1.08), (9.2, 1.08)], "$\\tilde{Y}_k$", (8.65, 1.28))
    return page.ax


def plot_transformation(seen: Ran, ax: Axes | None = None, most: int = 3) -> Axes:
    """Feedforward and feedback, channel by channel (the paper's general structure); up to `most` channels drawn."""
    rows = min(seen.dim, most)
    step, high = 1.12, 0.56
    memory = max(_height(seen.source), _height(seen.target))
    low = 0.75 + memory  # bottom of the last row
    width, left, right = 3.3, 2.1, 7.3
    page = _Page(ax, 12.3, low + rows * step + 0.35)
    page.region(1.75, 0.15, width + 0.7, low + rows * step, "feedforward: true past")
    page.region(right - 0.35, 0.15, width + 0.7, low + rows * step, "feedback: disguised past")
    for row in range(rows):
        l = seen.dim if row == rows - 1 else row + 1  # noqa: E741  # the paper's letter
        y = low + (rows - 1 - row) * step
        middle = y + high / 2.0
        score = f"$z_k^{{{l}}}=\\Phi^{{-1}}\\,F_{{{l},k,\\theta}}(y_k^{{{l}}}\\,|\\,\\mathrm{{past}})$"
        value = (
            f"$\\tilde{{y}}_k^{{{l}}}=F^{{-1}}_{{{l},k,\\tilde{{\\theta}}}}(\\Phi(z_k^{{{l}}})\\,|\\,\\mathrm{{past}})$"
        )
        page.box(left, y, width, Stage(score, ()), high, BLUE)
        page.box(right, y, width, Stage(value, ()), high, ROSE)
        page.arrow([(0.15, middle), (left, middle)], f"$y_k^{{{l}}}$", (0.4, middle + 0.17))
        page.arrow([(left + width, middle), (right, middle)], f"$z_k^{{{l}}}$", (6.15, middle + 0.19))
        page.arrow([(right + width, middle), (12.1, middle)], f"$\\tilde{{y}}_k^{{{l}}}$", (11.85, middle + 0.19))
        page.dot(1.15, middle)
        page.dot(11.4, middle)
        if row:
            before = f"{{1:{l - 1}}}" if l > 2 else "1"
            above = middle + step - high / 2.0
            for x, letter in ((left + width / 2.0, "y"), (right + width / 2.0, "\\tilde{y}")):
                page.arrow([(x, above), (x, y + high)], f"${letter}_k^{before}$", (x + 0.33, (above + y + high) / 2.0))
    # the past: readings go into the predictors' memories, whose laws go up to the maps
    top, base = low + (rows - 1) * step + high / 2.0, 0.3
    center = base + memory / 2.0
    page.box(left, base, width, seen.source, memory)
    page.box(right, base, width, seen.target, memory)
    page.arrow([(1.15, top), (1.15, center), (left, center)])
    page.arrow([(11.4, top), (11.4, center), (right + width, center)])
    for x, past in ((left + width / 2.0, "$y_{1:k-1}$"), (right + width / 2.0, "$\\tilde{y}_{1:k-1}$")):
        page.arrow([(x, base + memory), (x, low)], past, (x + 0.55, (base + memory + low) / 2.0))
    return page.ax


def plot_predictors(seen: Ran, ax: Axes | None = None) -> Axes:
    """Two Kalman predictors back to back (the paper's Gauss-Markov structure, Theorem 4), with their sizes."""
    memory = max(_height(seen.source), _height(seen.target))
    lines = ("all channels at once,", "L lower triangular") if seen.dim > 1 else ()
    low, high, width, left, right = 0.95 + memory, _height(Stage("", lines)) + 0.1, 3.3, 1.9, 6.9
    page = _Page(ax, 12.1, low + high + 0.75)
    page.box(left, low, width, Stage("$z_k=L_k^{-1}(y_k-\\hat{y}_{k|k-1})$", lines), high, BLUE)
    page.box(right, low, width, Stage("$\\tilde{y}_k=\\hat{\\tilde{y}}_{k|k-1}+\\tilde{L}_k z_k$", lines), high, ROSE)
    page.box(left, 0.25, width, seen.source, memory, BLUE)
    page.box(right, 0.25, width, seen.target, memory, ROSE)
    middle, center = low + high / 2.0, 0.25 + memory / 2.0
    page.arrow([(0.15, middle), (left, middle)], "$y_k$", (0.45, middle + 0.18))
    page.arrow([(left + width, middle), (right, middle)], "$z_k$", (6.05, middle + 0.18))
    page.arrow([(right + width, middle), (11.9, middle)], "$\\tilde{y}_k$", (11.5, middle + 0.2))
    page.dot(1.05, middle)
    page.dot(10.95, middle)
    page.arrow([(1.05, middle), (1.05, center), (left, center)])
    page.arrow([(10.95, middle), (10.95, center), (right + width, center)])
    for x, law in (
        (left + width / 2.0, "$\\hat{y}_{k|k-1},\\ L_k$"),
        (right + width / 2.0, "$\\hat{\\tilde{y}}_{k|k-1},\\ \\tilde{L}_k$"),
    ):
        page.arrow([(x, 0.25 + memory), (x, low)], law, (x + 0.75, (0.25 + memory + low) / 2.0))
    gains = f"{seen.on_tables} with gains from the tables, {seen.carried} with covariances carried along"
    page.note(
        6.05, low + high + 0.4, f"{seen.engine}; T = {_many(seen.T, 'reading')}, {_many(seen.dim, 'channel')}: {gains}"
    )
    return page.ax


class _Page:
    """Axes in inches of the drawing's own size, and what is drawn on them."""

    def __init__(self, ax: Axes | None, width: float, height: float) -> None:
        given = ax
        self.ax = ax = axes(ax)
        if given is None:
            ax.figure.set_size_inches(width, height)
        ax.set(xlim=(0.0, width), ylim=(0.0, height), aspect="equal")
        ax.axis("off")
        w, h = ax.figure.get_size_inches() * ax.get_position().size if given is not None else (width, height)
        self.scale = min(w / width, h / height)

    def box(self, x: float, y: float, width: float, stage: Stage, height: float, colour: str = GREY) -> None:
        """A box with a title and lines below it."""
        from matplotlib.patches import FancyBboxPatch

        style: dict[str, Any] = {
            "boxstyle": "round,pad=0,rounding_size=0.08",
            "ec": colour,
            "fc": "white",
            "lw": 1.4,
            "zorder": 3,
        }
        self.ax.add_patch(FancyBboxPatch((x, y), width, height, **style))
        at = y + height / 2.0 + (_HIGH * len(stage.lines) + (_GAP if stage.lines else 0.0)) / 2.0
        self._text(x + width / 2.0, at, stage.title, _TITLE, weight="bold")
        for i, line in enumerate(stage.lines):
            self._text(x + width / 2.0, at - _GAP - _HIGH * (i + 1), line, _LINE)

    def region(self, x: float, y: float, width: float, height: float, title: str) -> None:
        """A dashed frame around boxes, named in its upper left corner."""
        from matplotlib.patches import Rectangle

        self.ax.add_patch(
            Rectangle((x, y), width, height, fc="#f4f4f4", ec="#999999", ls=(0, (4, 2)), lw=1.0, zorder=1)
        )
        self._text(x + 0.08, y + height - 0.15, title, _LINE, ha="left", style="italic")

    def arrow(self, points: list[tuple[float, float]], label: str = "", at: tuple[float, float] = (0.0, 0.0)) -> None:
        """An arrow along points, with a label somewhere near it."""
        *way, before, last = points
        corners = np.array([*way, before])
        if len(corners) > 1:
            self.ax.plot(corners[:, 0], corners[:, 1], color="#333333", lw=1.2, solid_capstyle="butt", zorder=2)
        arrow = {"arrowstyle": "-|>", "color": "#333333", "lw": 1.2, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 10}
        self.ax.annotate("", last, before, arrowprops=arrow, zorder=2)
        if label:
            self._text(*at, label, _TITLE + 1.0)

    def dot(self, x: float, y: float) -> None:
        """Where a line branches."""
        self.ax.plot([x], [y], marker="o", ms=4 * self.scale, color="#333333", zorder=2)

    def note(self, x: float, y: float, words: str) -> None:
        """A line of text on its own."""
        self._text(x, y, words, _LINE + 0.5, style="italic")

    def _text(self, x: float, y: float, words: str, size: float, **how: Any) -> None:
        self.ax.text(x, y, words, **{"ha": "center", "va": "center", "fontsize": size * self.scale, "zorder": 4, **how})


def _predictor(title: str, side: Side, T: int) -> Stage:
    model, table = side.model, side.gains
    if model is white(model.dim):
        return Stage(title, ("white noise",))
    if table is None:
        which = len(np.unique(side.systems(0, T)[1]))
        return Stage(
            title,
            (
                _many(side.states, "state"),
                f"{_many(which, 'system')} along the path",
                "no gain table: covariances carried along",
            ),
        )
    rows = f"gain table: {_many(table.rows, 'row')}, " + (
        "the last for ever after" if table.frozen else "then carried along"
    )
    return Stage(title, (_many(side.states, "state"), rows, f"rows used: {min(T, table.rows)} of {table.rows}"))


def _flat(link: Any) -> Iterable[Any]:
    return [part for inner in link.maps for part in _flat(inner)] if isinstance(link, Chain) else [link]


def _link(link: Any) -> str:
    if isinstance(link, Pair):
        states = link.n if link.target.model is white(link.dim) else link.m
        return f"Kalman predictor, {_many(states, 'state')}"
    return _WORDS[type(link)] + (f" ({type(link.model).__name__})" if isinstance(link, Score | Emit) else "")


def _height(stage: Stage) -> float:
    return _FIRST + _GAP + _HIGH * len(stage.lines) + 2.0 * _PAD


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _channels(design: Design) -> list[str]:
    found = [] if design.family is None else [_many(design.family.dim, "channel")]
    horizon = None if design.costs is None else design.costs.horizon
    return found if horizon is None else [*found, f"T = {horizon} readings"]


def _cost(design: Design) -> str:
    return distortion_label(None if design.costs is None else design.costs.distortion)
