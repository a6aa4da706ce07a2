"""A parameter that moves (the paper's first remark): a day's schedule of occupancy, disguised as another day's.

Theta is now a whole path theta_1 .. theta_T, where theta_k governs the law of Y_k given the past: people who come in
between readings k - 1 and k are in the room when reading k is made. `Family.along` makes the model of a path, and the
filter is the one of Theorem 1; the predictors' states go on through the switches.

The randomizer draws a whole schedule, once, before the day begins; so the private schedule must be known by then (a
timetable, a booking). Its leakage then bounds what all readings of the day tell about which schedule was the true
one. Two conditions: the readings do not feed back into the schedule, and the schedule is among those that were
reckoned with. A randomizer that draws ~theta_k anew at every reading obeys the same lemma and is of no use: each
draw leaks, and theta hardly changes from one to the next. That is measured too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import understudy as us
from understudy._types import Array
from understudy.paper.examples import p_text, simulate
from understudy.paper.setting import A, B, Outcome, Settings, Table, family, guess
from understudy.report.figures import plot_series
from understudy.transform.whiteness import Whiteness, whiteness

OCCUPANCY = (0, 1, 2)
LEAKAGE = 0.3
FALSE_ALARM = 1e-6
ROOMS = family(OCCUPANCY)
# A day in readings, one every six minutes: how many people, and for how long.
DAYS: dict[str, tuple[tuple[int, int], ...]] = {
    "office day": ((0, 60), (1, 40), (2, 50), (1, 30), (0, 60)),
    "late shift": ((0, 110), (2, 60), (1, 50), (0, 20)),
    "away": ((0, 240),),
}
TRUE, PLAYED = "office day", "late shift"
# Readings to each side that the adversary of repeated draws counts together.
REACH = 12


# What these numbers must be, and how nearly, whatever the seed and the settings.
GOLDEN: dict[str, tuple[float, float]] = {
    "bound": (0.29574, 1e-05),
}


def path(day: str) -> list[int]:
    """Occupancy at each reading.

    >>> len(path("office day")), path("office day")[59:61]
    (240, [0, 1])
    """
    return [people for people, readings in DAYS[day] for _ in range(readings)]


def along(schedule: list[int]) -> us.GaussMarkov:
    """The room along a schedule; a path of Gauss-Markov models is one."""
    return ROOMS.along(schedule)  # type: ignore[return-value]  # the docstring says why


def estimates(Y: Array) -> Array:
    """Occupancy read off two readings, (y_k - a y_{k-1}) / b, for k = 2 .. T; time is the first axis."""
    # X_k - a X_{k-1} = b theta_k + W
    return np.asarray((Y[1:] - A * Y[:-1]) / B)


def share(Y: Array, schedule: list[int]) -> float:
    """How often the nearest occupancy to the estimate is that of a schedule."""
    right = guess(estimates(Y), OCCUPANCY) == np.array(schedule)[1:, None, None]
    return float(right.mean())


@dataclass(frozen=True)
class Days:
    """The true schedule disguised as another: readings and output (T, 1, N), and the tests of the output's law.

    `law` is under the schedule that is played, `twin` under the true one, `late` under the one that is played with
    every switch one reading later.
    """

    Y: Array
    out: Array
    law: Whiteness
    twin: Whiteness
    late: Whiteness


def disguise_days(settings: Settings) -> Days:
    """Many days of the same schedule, disguised as another."""
    T, N = len(path(TRUE)), 40 if settings.quick else 500
    source, target = along(path(TRUE)), along(path(PLAYED))
    Y = simulate(source, T, N, settings.rng("schedule"))
    out = us.disguise(Y, source=source, target=target)
    late = along([path(PLAYED)[0], *path(PLAYED)[:-1]])
    law, twin, shifted = (whiteness(us.whiten(out, model)) for model in (target, source, late))
    return Days(Y, out, law, twin, shifted)


def randomizer() -> us.Design:
    """The schedules at even odds, and which is played for which."""
    days = us.Family({day: along(path(day)) for day in DAYS})
    return us.design(days, leakage=LEAKAGE, horizon=len(path(TRUE)), distortion="mae")


def best_guess(design: us.Design, settings: Settings) -> tuple[float, int]:
    """How often the best adversary errs about the schedule of a day, and over how many days.

    They know the design, and weigh each schedule that may have been played by its likelihood. The models differ in
    their means only, so that the likelihood of a path is exp(-sum z^2 / 2) up to a common factor.
    """
    rng = settings.rng("schedules guessed")
    N = 1000 if settings.quick else 5000
    P, prior, T = design.randomizer.kernel, design.prior, len(path(TRUE))
    models = [along(path(day)) for day in DAYS]
    true = rng.choice(len(DAYS), N, p=prior)
    played = np.array([design.randomizer.draw_index(int(i), rng) for i in true])
    wrong = 0
    for i, source in enumerate(models):
        for j, target in enumerate(models):
            n = int(((true == i) & (played == j)).sum())
            if not n:
                continue
            out = us.disguise(simulate(source, T, n, rng), source=source, target=target)
            loglik = np.array([-0.5 * np.square(us.whiten(out, model)).sum(axis=(0, 1)) for model in models])
            # Pr(theta_i given ~y) = sum_j p_i P_ij Pr(~y given ~theta_j), up to a factor
            weight = (prior[:, None] * P) @ np.exp(loglik - loglik.max(axis=0))
            wrong += int((weight.argmax(axis=0) != i).sum())
    return wrong / N, N


def redrawn(settings: Settings) -> float:
    """Share of the day's readings at which an adversary has the true occupancy, were ~theta drawn at every reading.

    Each draw has the leakage that the schedule has above. The adversary reads each ~theta_k off the output, and
    counts together those of a few readings to each side.
    """
    rng = settings.rng("redrawn")
    design = us.design(ROOMS, leakage=LEAKAGE, horizon=len(path(TRUE)), distortion="mae")
    logs = np.log(np.maximum(design.randomizer.kernel, 1e-12))
    theta = path(TRUE)
    source = along(theta)
    right = []
    for _ in range(5 if settings.quick else 25):
        played = [design.randomizer.draw(value, rng) for value in theta]
        Y = simulate(source, len(theta), 1, rng)
        out = us.disguise(Y, source=source, target=along(played))[:, 0, 0]
        seen = logs[:, guess(estimates(out), OCCUPANCY)]
        near = np.array([np.convolve(row, np.ones(2 * REACH + 1), "same") for row in seen])
        right.append(float((near.argmax(axis=0) == np.array(theta)[1:]).mean()))
    return float(np.mean(right))


def compute(settings: Settings) -> Outcome:
    """Schedules disguised as schedules."""
    days = disguise_days(settings)
    settings.progress(0.4)
    design = randomizer()
    error, N = best_guess(design, settings)
    settings.progress(0.8)
    careless = redrawn(settings)
    settings.progress(1.0)
    overlap = float((np.array(path(TRUE)) == np.array(path(PLAYED)))[1:].mean())
    numbers: dict[str, float] = {
        "readings": days.out.size,
        "p_value": days.law.p_value,
        "twin_p_value": days.twin.p_value,
        "late_p_value": days.late.p_value,
        "raw_true": share(days.Y, path(TRUE)),
        "disguised_true": share(days.out, path(TRUE)),
        "disguised_played": share(days.out, path(PLAYED)),
        "overlap": overlap,
        "leakage": design.leakage,
        "distortion_ppm": design.distortion,
        "bound": design.guarantee.bayes_error,
        "best_error": error,
        "best_days": N,
        "redrawn_true": careless,
    }
    paragraphs = (
        f"A day of {len(path(TRUE))} readings with the schedule '{TRUE}' comes out as a '{PLAYED}'. Over "
        f"{days.Y.shape[2]} such days ({days.out.size:,} readings) the output has the law of the schedule that is "
        f"played: p = {p_text(days.law.p_value)}, against {p_text(days.twin.p_value)} under the true schedule and "
        f"{p_text(days.late.p_value)} under the played one with each switch one reading late (false-alarm rate 1e-6).",
        "An adversary who reads the occupancy off each pair of readings, (y_k - a y_(k-1)) / b, has the true schedule "
        f"from raw readings {100 * numbers['raw_true']:.2f} percent of the time. From the disguised ones they have the "
        f"schedule that is played ({100 * numbers['disguised_played']:.2f} percent), and the true one "
        f"{100 * numbers['disguised_true']:.1f} percent of the time; the two schedules agree at "
        f"{100 * overlap:.1f} percent of the readings.",
        f"Which schedule is played is drawn once a day, with a leakage of {design.leakage:.3g} nats and a mean "
        f"absolute distortion of {design.distortion:.1f} ppm. The best adversary, who knows the design and sees the "
        f"whole day, is wrong about the schedule in {100 * error:.1f} percent of {N:,} simulated days; no one can be "
        f"wrong in less than {100 * numbers['bound']:.1f} percent in expectation. Had the pseudo occupancy been drawn "
        "anew at every reading with the same leakage a draw, an adversary would have the true occupancy "
        f"{100 * careless:.1f} percent of the time.",
    )
    return Outcome(
        "schedule",
        "An occupancy that moves",
        paragraphs,
        numbers,
        (_table(design),),
        {"schedule": partial(draw, days)},
    )


def draw(days: Days) -> Any:
    """Readings, schedules, and what the adversary makes of the output; one day."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 7.5), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(1.5, 1.0, 1.0))
    plot_series({"true": days.Y[:, 0, 0], "disguised": days.out[:, 0, 0]}, top)
    top.set(ylabel="CO2 (ppm above outdoors)", xlabel="")
    schedules = {f"true: {TRUE}": path(TRUE), f"played: {PLAYED}": path(PLAYED)}
    plot_series(schedules, middle, step=True)
    middle.set(ylabel="occupancy (people)", xlabel="")
    T = len(path(TRUE))
    seen = {"from raw readings": estimates(days.Y[:, 0, 0]), "from disguised readings": estimates(days.out[:, 0, 0])}
    plot_series(seen, bottom, np.arange(2, T + 1), dots=True)
    bottom.set(ylabel="estimate (people)", xlabel="reading k (one every six minutes)")
    for ax in (middle, bottom):
        ax.set(ylim=(-0.4, 2.5), yticks=OCCUPANCY)
    bottom.set_xlim(0, T + 1)
    return figure


def _table(design: us.Design) -> Table:
    P = design.randomizer.kernel
    rows = tuple((day, *(f"{p:.3f}" for p in row)) for day, row in zip(DAYS, P.tolist(), strict=True))
    caption = f"Which schedule is played for which (probabilities; leakage {design.leakage:.3g} nats)"
    return Table(caption, ("true schedule", *(f"plays {day}" for day in DAYS)), rows)
