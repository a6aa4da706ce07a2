"""The paper's block diagrams, drawn from the filter that ran on the paper's room and on two of the examples.

Four figures of the paper are drawings of structure: sensor, filter and user; randomizer and transformation; the
feedforward-feedback structure of Theorem 1; and the two Kalman predictors of Theorem 4. They are drawn here with what
was there when readings went through: the kernel of the design, the engine that the pair of models called for, the rows
of its gain tables. The room has one state and one channel on each side and takes the scalar loop. The office has three
channels, with four states on one side and three on the other, and takes the matrix loop. The ventilated room is
not Gaussian as a whole and goes through its own methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import understudy as us
from understudy.paper.examples import office, simulate, simulate_fan, ventilated_room
from understudy.paper.schedule import PLAYED, TRUE, along, path
from understudy.paper.setting import HORIZON, PSEUDO, Outcome, Settings, Table, family, room
from understudy.report.diagram import Ran, plot_filter, plot_predictors, plot_sensor, plot_transformation, ran

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAKAGE = 0.3


# What these numbers must be, and how nearly, whatever the seed and the settings.
GOLDEN: dict[str, tuple[float, float]] = {
    "distortion": (17.346, 0.0005),
}


@dataclass(frozen=True)
class Structure:
    """The design of the room, and what ran for the room and for the examples."""

    design: us.Design
    room: Ran
    office: Ran
    fan: Ran
    schedule: Ran


def structure(settings: Settings) -> Structure:
    """Design, and send readings through each transformation."""
    rng = settings.rng("structure")
    design = us.design(family(), pseudo=PSEUDO, leakage=LEAKAGE, horizon=HORIZON, distortion="mae")
    day = along(path(TRUE))
    T = HORIZON
    found = (
        ran(us.Transform(room(1), room(0.6)), simulate(room(1), T, 1, rng)[:, :, 0]),
        ran(us.Transform(office(True), office(False)), simulate(office(True), T, 1, rng)[:, :, 0]),
        ran(us.Transform(ventilated_room(2), ventilated_room(1)), simulate_fan(2, T, 1, rng)[:, :, 0]),
        ran(us.Transform(day, along(path(PLAYED))), simulate(day, len(path(TRUE)), 1, rng)[:, :, 0]),
    )
    settings.progress(1.0)
    return Structure(design, *found)


def compute(settings: Settings) -> Outcome:
    """The diagrams and the sizes in them."""
    found = structure(settings)
    m, n = found.design.randomizer.kernel.shape
    cases = {"room": found.room, "office": found.office, "fan": found.fan, "schedule": found.schedule}
    numbers: dict[str, float] = {"m": m, "n": n, "leakage": found.design.leakage, "distortion": found.design.distortion}
    for name, seen in cases.items():
        numbers |= {
            f"{name}_channels": seen.dim,
            f"{name}_readings": seen.T,
            f"{name}_on_tables": seen.on_tables,
            f"{name}_carried": seen.carried,
        }
    paragraphs = (
        f"The filter of the room: a randomizer of {m} x {n}, drawn once, and a transformation that takes every reading "
        f"({found.room.engine}). Scores z are passed on where the paper passes uniforms u = F(y): z = Phi^-1(u) is the "
        "same map and does not saturate in the tails.",
        "Which engine runs follows from the models: two Gauss-Markov models are one piece, with gains from tables that "
        "are worked out once; a path of them has no table, and covariances are carried along; any other model is "
        "whitened, then coloured, by its own methods.",
    )
    rows = tuple(
        (title, seen.engine, str(seen.dim), str(seen.T), "; ".join(seen.source.lines), "; ".join(seen.target.lines))
        for title, seen in zip(("room", "office", "ventilated room", "schedule of a day"), cases.values(), strict=True)
    )
    table = Table(
        "What ran",
        ("example", "engine", "channels", "readings", "under the true value", "under the pseudo value"),
        rows,
    )
    pictures: dict[str, Callable[[], Figure]] = {
        "structure-sensor": partial(_draw, plot_sensor, found.design),
        "structure-filter": partial(_draw, plot_filter, found.design, found.room),
        "structure-transformation": partial(_draw, plot_transformation, found.office),
        "structure-markov": partial(_draw, plot_transformation, found.fan),
        "structure-room": partial(_draw, plot_predictors, found.room),
        "structure-office": partial(_draw, plot_predictors, found.office),
        "structure-schedule": partial(_draw, plot_predictors, found.schedule),
    }
    return Outcome("structure", "The structure of the filter", paragraphs, numbers, (table,), pictures)


def _draw(plot: Callable[..., Axes], *what: us.Design | Ran) -> Figure:
    from matplotlib import pyplot

    figure = plot(*what).figure.figure  # of a part of a figure, the whole
    pyplot.close(figure)  # it has the size of its drawing, and is kept by who asked for it
    return figure
