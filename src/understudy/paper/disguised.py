"""Figs. "true and disguised" and "output of the occupancy estimator" (Section V), for Theta = 1 and ~Theta = 0.6.

One room with one person, disguised as a room with 0.6 of a person. As the two models differ in their input alone,
Y_k - ~Y_k = 10 (1 - 0.6) (1 - 0.95^k) / 0.05 in every realisation: the noise passes unchanged.

The pair is the paper's choice for its figures. The optimal randomizer for absolute distortion never draws 0.6: it
plays 0 or 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import understudy as us
from understudy._types import Array
from understudy.paper import setting as room
from understudy.paper.estimates import ESTIMATORS, Setup
from understudy.paper.setting import Outcome, Settings, Table
from understudy.report.figures import ROSE, Trace, plot_traces
from understudy.report.figures import trace_panels as panels

THETA, PSEUDO = 1, 0.6
_READINGS = (11, 20, 30, 40, 50)


# What these numbers must be, and how nearly, whatever the seed and the settings.
GOLDEN: dict[str, tuple[float, float]] = {
    "mean_change_exact": (51.939, 0.0005),
}


def compute(settings: Settings) -> Outcome:
    """One realisation, its disguise, and what the estimators make of both."""
    from understudy.transform.whiteness import whiteness

    source, target = room.room(THETA), room.room(PSEUDO)
    Y = us.sample(source, room.HORIZON, rng=settings.rng("disguised"))
    out = us.disguise(Y, source=source, target=target)
    setup = Setup()
    numbers: dict[str, float] = {
        "mean_change": float(np.abs(Y - out).mean()),
        "mean_change_exact": float(us.costs(us.Family(room.room, [THETA]), [PSEUDO], room.HORIZON, "mae").matrix[0, 0]),
        "last_true": float(Y[-1]),
        "last_disguised": float(out[-1]),
        "round_trip": float(np.abs(us.disguise(out, source=target, target=source) - Y).max()),
        "whiteness_under_pseudo": float(whiteness(us.whiten(out, target)).p_value),
        "whiteness_under_true": float(whiteness(us.whiten(out, source)).p_value),
        "kernel_mass_on_pseudo": float(_mass_on_pseudo()),
    }
    for estimator in ESTIMATORS:
        for name, seen, theta in (("true", Y, THETA), ("disguised", out, PSEUDO)):
            mean, sd = setup.moments(estimator, theta)
            numbers[f"{estimator}_{name}"] = float(setup.estimate(seen, estimator)[-1])
            numbers |= {f"{estimator}_{name}_mean": mean, f"{estimator}_{name}_sd": sd}
            numbers[f"{estimator}_{name}_says_one"] = _says_one(mean, sd)
    settings.progress(1.0)
    return Outcome(
        "disguised",
        "True and disguised readings, and the estimator on them (Section V)",
        _words(numbers),
        numbers,
        (_table(Y, out, setup),),
        {"true-and-disguised": lambda: _draw_readings(Y, out), "estimator-output": lambda: _draw_estimates(Y, out)},
    )


def _mass_on_pseudo() -> float:
    """How often the optimal randomizer at I_0 = 0.3 plays this pseudo value."""
    design = us.design(room.family(), room.PSEUDO, leakage=0.3, horizon=room.HORIZON, distortion="mae")
    return float(design.prior @ design.randomizer.kernel[:, room.PSEUDO.index(PSEUDO)])


def _says_one(mean: float, sd: float) -> float:
    """How often a Gaussian estimate is nearer to 1 than to 0."""
    from scipy.special import ndtr

    return float(ndtr((mean - 0.5) / sd))


def _draw_readings(Y: Array, out: Array) -> Any:
    figure, (ax,) = panels(1, width=6.0)
    traces = (
        Trace(rf"true, $\Theta$ = {THETA}", Y),
        Trace(rf"disguised, $\tilde\Theta$ = {PSEUDO}", out, colour=ROSE, dashes="dashed"),
    )
    plot_traces(traces, ax, ylabel=r"CO$_2$ (ppm)")
    return figure


def _draw_estimates(Y: Array, out: Array) -> Any:
    figure, axes = panels(2, width=4.8)
    setup = Setup()
    titles = (r"$(\bar Y - a\bar{\bar Y})/b$, consistent with the model", r"$(\bar Y - \bar{\bar Y})/a$, as printed")
    for ax, estimator, title in zip(axes, ESTIMATORS, titles, strict=True):
        first = setup.window + 1
        traces = (
            Trace(rf"on true readings ($\Theta$ = {THETA})", setup.estimate(Y, estimator), first),
            Trace(
                rf"on disguised readings ($\tilde\Theta$ = {PSEUDO})",
                setup.estimate(out, estimator),
                first,
                ROSE,
                "dashed",
            ),
        )
        plot_traces(traces, ax, "estimated occupancy (people)", {"truth": THETA, "understudy": PSEUDO})
        ax.set_title(title, fontsize="medium")
    axes[0].set_ylim(0.0, 1.6)
    return figure


def _table(Y: Array, out: Array, setup: Setup) -> Table:
    rows = []
    for k in _READINGS:
        cells = [f"{setup.estimate(seen, e)[k - setup.window - 1]:.3f}" for e in ESTIMATORS for seen in (Y, out)]
        rows.append((str(k), f"{Y[k - 1]:.2f}", f"{out[k - 1]:.2f}", *cells))
    heads = [f"{e}, {seen}" for e in ESTIMATORS for seen in ("true", "disguised")]
    return Table("The realisation of the figures.", ("reading k", "true", "disguised", *heads), tuple(rows))


def _p_value(p: float) -> str:
    """As it is written down.

    >>> _p_value(0.25), _p_value(0.0)
    ('p = 0.25', 'p < 1e-12')
    """
    return f"p = {p:.2g}" if p >= 1e-12 else "p < 1e-12"


def _words(numbers: dict[str, float]) -> tuple[str, ...]:
    return (
        f"One person, played by {PSEUDO:g} of a person: the readings change by {numbers['mean_change']:.2f} on average "
        f"over {room.HORIZON} readings, in every realisation the same, as the two models differ in their input alone. "
        "The disguised readings pass for readings of the understudy's room (whiteness of the scores, "
        f"{_p_value(numbers['whiteness_under_pseudo'])}) and not for the true one's "
        f"({_p_value(numbers['whiteness_under_true'])}).",
        f"The estimator consistent with the model finds the understudy, {numbers['consistent_disguised_mean']:.2f} ± "
        f"{numbers['consistent_disguised_sd']:.3f}, not the truth. But rounded to 0 or 1 it says 1 "
        f"in {100.0 * numbers['consistent_disguised_says_one']:.4g} percent of all sequences, which is the truth here: "
        "what protects is the draw, not one pseudo value, and a figure of a single pair shows no privacy.",
        f"The estimator as printed has the mean {numbers['printed_disguised_mean']:.2f} on disguised and "
        f"{numbers['printed_true_mean']:.2f} on true readings at reading 50; it is no estimate of the occupancy in "
        "either case, since it follows the slope of the readings.",
        "The optimal randomizer at I_0 = 0.3 draws 0.6 with probability "
        f"{numbers['kernel_mass_on_pseudo']:.2g}: for absolute distortion it plays 0 and 1 only.",
    )
