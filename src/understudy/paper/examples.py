"""The special cases of Section IV: i.i.d., Markov, Gauss-Markov, a parameter that moves, and their block diagrams.

Theorem 1 says that the output has the joint law of ~theta's model. If it has, its scores under that model are
independent standard normals, whatever the model: one test serves all three examples. Readings are simulated from the
definition of each model, not through the package's own scores, disguised, and scored under the target; the twin scores
the same output under the source, and must fail.

*i.i.d.* (Section II): mean Theta, unit variance. Each reading is shifted, ~y = y - theta + ~theta. The paper says of it
that added noise cannot hide Theta, because means converge. So does the mean of the disguised readings: to ~Theta.

*Markov* (IV-B): CO2 in a room whose fan speeds up with the CO2, so that the next reading depends on the last one in a
bent way, and its spread too. (The fan is part of the law of the readings; were its speed shared as well, it would
have to go through the filter as another channel.) ::

    mean of Y_k     y + 25 theta - g(y) (y - 420),   g(y) = 0.02 + 0.1 / (1 + exp(-(y - 600) / 40)),   y = y_{k-1}
    spread of Y_k   2 + 0.02 |y - 420|

*Gauss-Markov* (IV-C): three sensors of one office, CO2, temperature and humidity, with common disturbances and
sensor noise that is correlated. Occupied, there is a fourth state, how busy the people are, and the door stands open
so that everything mixes faster. The two models differ in dynamics, noise and number of states.

**A parameter that moves** (the paper's first remark): a day's schedule of occupancy, disguised as another day's. Theta
is now a whole path theta_1 .. theta_T, where theta_k governs the law of Y_k given the past: people who come in between
readings k - 1 and k are in the room when reading k is made. `Family.along` makes the model of a path, and the filter is
the one of Theorem 1; the predictors' states go on through the switches.

The randomizer draws a whole schedule, once, before the day begins; so the private schedule must be known by then (a
timetable, a booking). Its leakage then bounds what all readings of the day tell about which schedule was the true
one. Two conditions: the readings do not feed back into the schedule, and the schedule is among those that were
reckoned with. A randomizer that draws ~theta_k anew at every reading obeys the same lemma and is of no use: each
draw leaks, and theta hardly changes from one to the next. That is measured too.

**The block diagrams** of the paper are drawn with what was there when readings went through: the kernel of the design,
the engine that the pair of models called for, the rows of its gain tables. The room takes the scalar loop. The office
takes the matrix loop. The ventilated room is not Gaussian as a whole and goes through its own methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import understudy as us
from understudy._types import Array
from understudy.checks import Whiteness, whiteness
from understudy.paper.estimates import best, draws
from understudy.paper.setting import (
    HORIZON,
    A,
    B,
    Outcome,
    Settings,
    Table,
    family,
    guess,
    make_design,
    p_text,
    room,
    tell,
)
from understudy.report.figures import (
    Ran,
    plot_autocorrelation,
    plot_filter,
    plot_predictors,
    plot_scores,
    plot_sensor,
    plot_series,
    plot_transformation,
    ran,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Real = TypeVar("Real", float, Array)

LEAKAGE = 0.3
# Standard deviations of the Gaussian noise that the paper's argument is about.
NOISES = (1.0, 10.0)


def gaussian(theta: float) -> us.IID:
    """The paper's first example: mean theta, unit variance."""
    return us.IID(us.Gaussian(float(theta), 1.0))


def ventilated_room(theta: float) -> us.Markov:
    """CO2 in a room with a fan that follows it, and this many people."""
    return us.Markov(us.Gaussian(450.0, 100.0), lambda y: us.Gaussian(*_step(y, theta, math.exp)))


def _step(y: Real, theta: float, exp: Callable[[Real], Real]) -> tuple[Real, Real]:
    """Mean and variance of the reading after y."""
    g = 0.02 + 0.1 / (1.0 + exp((600.0 - y) / 40.0))
    return y + 25.0 * theta - g * (y - 420.0), (2.0 + 0.02 * abs(y - 420.0)) ** 2


def office(occupied: bool) -> us.GaussMarkov:
    """CO2 (ppm above outdoors), temperature (degrees) and humidity (%) of an office: 4 states or 3, 3 channels."""
    C = np.eye(3)
    R = np.array([[4.0, 0.1, 0.2], [0.1, 0.01, 0.01], [0.2, 0.01, 0.25]])
    if not occupied:
        A = np.array([[0.97, 0.0, 0.0], [0.0, 0.99, 0.0], [0.0, 0.02, 0.96]])
        Q = np.array([[9.0, 0.1, 0.3], [0.1, 0.01, 0.02], [0.3, 0.02, 0.2]])
        return us.GaussMarkov(A, C, Q, R, b=[0.6, 0.2, 1.2], mean0=[100.0, 20.0, 40.0], cov0=np.diag([100.0, 1.0, 9.0]))
    A = np.array([[0.9, 0.0, 0.0, 6.0], [0.0, 0.95, 0.0, 0.1], [0.0, 0.05, 0.85, 0.3], [0.0, 0.0, 0.0, 0.8]])
    Q = np.array([[25.0, 0.4, 1.0, 0.5], [0.4, 0.02, 0.05, 0.0], [1.0, 0.05, 0.6, 0.1], [0.5, 0.0, 0.1, 1.0]])
    b, mean0 = [60.0, 1.1, 5.2, 0.0], [100.0, 20.0, 40.0, 0.0]
    return us.GaussMarkov(A, np.c_[C, np.zeros(3)], Q, 1.5 * R, b, mean0=mean0, cov0=np.diag([100.0, 1.0, 9.0, 2.8]))


def simulate(model: us.GaussMarkov, T: int, N: int, rng: np.random.Generator) -> Array:
    """N streams (T, d, N) from the definition of a Gauss-Markov model, noise by noise."""

    def noise(cov: Array) -> Array:
        values, vectors = np.linalg.eigh(cov)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ rng.standard_normal((len(cov), N)))

    x = model.mean0[:, None] + noise(model.cov0)
    out = []
    for k in range(1, T + 1):
        # X_k = A X_{k-1} + b + W,  Y_k = C X_k + d + V
        A, b, Q, C, d, R = model.at(k)
        x = A @ x + b[:, None] + noise(Q)
        out.append(C @ x + d[:, None] + noise(R))
    return np.array(out)


def simulate_fan(theta: float, T: int, N: int, rng: np.random.Generator) -> Array:
    """N streams (T, 1, N) of the ventilated room, from its definition."""
    y = [450.0 + 10.0 * rng.standard_normal(N)]
    for _ in range(T - 1):
        mean, variance = _step(y[-1], theta, np.exp)
        y.append(mean + np.sqrt(variance) * rng.standard_normal(N))
    return np.array(y)[:, None, :]


@dataclass(frozen=True)
class Example:
    """One example disguised: readings and output (T, d, N), and the scores of the output under both models.

    `law` tells whether the output has the law of the target, `twin` is the same against that of the source
    (a quarter of the streams).
    """

    name: str
    about: str
    units: str
    Y: Array
    out: Array
    right: Array
    wrong: Array
    law: Whiteness
    twin: Whiteness


def make_example(name: str, about: str, units: str, pair: tuple[us.Model, us.Model], Y: Array) -> Example:
    """Y as readings of the second of two models, with the scores that are tested."""
    source, target = pair
    out = us.disguise(Y, source=source, target=target)
    right, wrong = us.whiten(out, target), us.whiten(out[:, :, : max(1, out.shape[2] // 4)], source)
    return Example(name, about, units, Y, out, right, wrong, whiteness(right), whiteness(wrong))


def examples(settings: Settings) -> tuple[Example, ...]:
    """The three of them."""
    rng = settings.rng("examples")
    T, N = (200, 25) if settings.quick else (500, 200)
    makers: tuple[Callable[[], Example], ...] = (
        lambda: make_example(
            "i.i.d.", "mean 1 as mean 0.4", "reading", (gaussian(1), gaussian(0.4)), 1 + rng.standard_normal((T, 1, N)),
        ),
        lambda: make_example(
            "Markov", "2 people as 1, fan follows the CO2", "CO2 (ppm)", (ventilated_room(2), ventilated_room(1)),
            simulate_fan(2, T, N, rng),
        ),
        lambda: make_example(
            "Gauss-Markov", "office, occupied as empty, 3 sensors", "CO2 (ppm above outdoors)",
            (office(True), office(False)), simulate(office(True), T, N, rng),
        ),
    )  # fmt: skip
    found = []
    for i, make in enumerate(makers):
        found.append(make())
        settings.progress(0.7 * (i + 1) / len(makers))
    return tuple(found)


@dataclass(frozen=True)
class Averages:
    """The adversary of the law of large numbers: running means of one stream each, and how often guesses are wrong.

    `T` are the numbers of readings at which `means` (one sequence) and `errors` (over all) are given, by stream;
    `bound` is the error that no adversary can go below on the disguised stream, `pseudo` where its mean goes.
    """

    T: Array
    means: Mapping[str, Array]
    errors: Mapping[str, Array]
    sequences: int
    bound: float
    theta: float
    pseudo: float


def averages(settings: Settings) -> Averages:
    """Theta is 0 or 1 at even odds; the adversary takes the mean of the first T readings and guesses the nearer."""
    rng = settings.rng("averages")
    N, length = (500, 1000) if settings.quick else (4000, 2000)
    family = us.Family(gaussian, values=[0, 1])
    design = us.design(family, leakage=LEAKAGE, distortion="mae")
    T = np.unique(np.geomspace(1, length, 40).astype(int))
    theta = rng.integers(0, 2, N)
    played = draws(design, theta, rng)
    Y = theta + rng.standard_normal((length, N))
    out = np.empty_like(Y)
    for i in (0, 1):
        for j in (0, 1):
            who = (theta == i) & (played == j)
            out[:, who] = us.disguise(Y[:, None, who], source=gaussian(i), target=gaussian(j))[:, 0]
    streams = {"raw": Y, "disguised": out}
    streams |= {_noisy(s): Y + s * rng.standard_normal(Y.shape) for s in NOISES}
    counts = np.arange(1, length + 1)[:, None]
    means = {name: (np.cumsum(values, axis=0) / counts)[T - 1] for name, values in streams.items()}
    errors = {name: ((mean > 0.5) != theta).mean(axis=1) for name, mean in means.items()}
    # one stream to show: a 1 that is played by a 0
    one = int(np.flatnonzero((theta == 1) & (played == 0))[0])
    shown = {name: mean[:, one] for name, mean in means.items()}
    settings.progress(1.0)
    return Averages(T, shown, errors, N, design.guarantee.bayes_error, 1.0, 0.0)


def compute(settings: Settings) -> Outcome:
    """The three examples, tested, and the adversary who averages."""
    found = examples(settings)
    seen = averages(settings)
    numbers: dict[str, float] = {}
    for example in found:
        key = example.name.lower().replace(".", "").replace("-", "_")
        numbers |= {
            f"{key}_readings": example.out.size,
            f"{key}_p_value": example.law.p_value,
            f"{key}_twin_p_value": example.twin.p_value,
            f"{key}_mean_absolute_change": float(np.abs(example.out - example.Y)[:, 0].mean()),
        }
    numbers |= {
        "averages_sequences": seen.sequences,
        "averages_readings": int(seen.T[-1]),
        "averages_bound": seen.bound,
        "averages_raw_error": float(seen.errors["raw"][-1]),
        "averages_disguised_error": float(seen.errors["disguised"][-1]),
    }
    numbers |= {f"averages_noise_{s:g}_error": float(seen.errors[_noisy(s)][-1]) for s in NOISES}
    pictures = {"examples": partial(draw, found), "averages": partial(draw_averages, seen)}
    return tell("examples", numbers, (_table(found),), pictures)


def draw(found: tuple[Example, ...], shown: int = 120) -> Any:
    """A row an example: readings true and disguised, histogram of the scores, their correlation in time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 8.5), layout="constrained")
    for row, example in zip(figure.subplots(len(found), 3, width_ratios=(1.25, 1.0, 1.0)), found, strict=True):
        trace, bell, correlation = row
        plot_series({"true": example.Y[:shown, 0, 0], "disguised": example.out[:shown, 0, 0]}, trace)
        trace.set_ylabel(example.units)
        trace.set_title(f"{example.name}: {example.about}", fontsize="small")
        scores = {"under the target": example.right, "under the source": example.wrong}
        plot_scores(scores, bell)
        bell.set_title(f"scores of the output, {example.out.size:,} readings", fontsize="small")
        plot_autocorrelation(scores, correlation, 10).get_legend().remove()
        correlation.set_title("their correlation in time", fontsize="small")
    return figure


def draw_averages(seen: Averages) -> Any:
    """Running means of one sequence, and wrong guesses over all of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    plot_series(seen.means, left, seen.T)
    for value, name in ((seen.theta, "Theta"), (seen.pseudo, "~Theta")):
        left.axhline(value, color="#888888", lw=0.8, zorder=0)
        left.annotate(
            name, (1.0, value), (-3, 3), xycoords=("axes fraction", "data"), textcoords="offset points", ha="right"
        )
    left.set(xscale="log", xlabel="readings averaged", ylabel="running mean", ylim=(-2.5, 3.5))
    left.set_title("One sequence: Theta = 1, played by ~Theta = 0", fontsize="medium")
    plot_series({name: 100.0 * error for name, error in seen.errors.items()}, right, seen.T)
    right.axhline(100.0 * seen.bound, color="#888888", lw=0.8, zorder=0)
    # a bound from below, so rounded down
    text = f"disguised: no guess\ndoes better, {np.floor(1e4 * seen.bound) / 100.0:.2f} %"
    right.annotate(text, (60.0, 100.0 * seen.bound - 0.7), va="top", fontsize="small")
    right.set(xscale="log", xlabel="readings averaged", ylabel="wrong guesses (%)", ylim=(0.0, 52.0))
    right.set_title(f"Wrong guesses of Theta, {seen.sequences:,} sequences", fontsize="medium")
    return figure


def _table(found: tuple[Example, ...]) -> Table:
    names = list(dict.fromkeys(test.name for example in found for test in example.law.tests))
    laws = [{test.name: p_text(test.p_value) for test in example.law.tests} for example in found]
    rows = [(name, *(law.get(name, "one channel") for law in laws)) for name in names]
    rows.append(("all together", *(p_text(example.law.p_value) for example in found)))
    rows.append(("all together, against the source", *(p_text(example.twin.p_value) for example in found)))
    return Table(
        "P-values: scores of the disguised readings against independent standard normals (false-alarm rate 1e-6)",
        ("test", *(f"{example.name} ({example.about})" for example in found)),
        tuple(rows),
    )


def _noisy(sd: float) -> str:
    return f"raw + noise, sd {sd:g}"


# An occupancy that moves ----------------------------------------------------------------------------------------------

OCCUPANCY = (0, 1, 2)
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

    They know the design, and weigh each schedule that may have been played by its likelihood.
    """
    rng = settings.rng("schedules guessed")
    N = 1000 if settings.quick else 5000
    T, models = len(path(TRUE)), [along(path(day)) for day in DAYS]
    true = rng.choice(len(DAYS), N, p=design.prior)
    played = draws(design, true, rng)
    wrong = 0
    for i, j in np.ndindex(len(models), len(models)):
        n = int(((true == i) & (played == j)).sum())
        if n:
            out = us.disguise(simulate(models[i], T, n, rng), source=models[i], target=models[j])
            wrong += int((best(design, out[:, 0]) != i).sum())
    return wrong / N, N


def redrawing_error(settings: Settings) -> float:
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


def compute_schedule(settings: Settings) -> Outcome:
    """Schedules disguised as schedules."""
    days = disguise_days(settings)
    settings.progress(0.4)
    design = randomizer()
    error, N = best_guess(design, settings)
    settings.progress(0.8)
    careless = redrawing_error(settings)
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
    facts = {"length": len(path(TRUE)), "days": days.Y.shape[2]}
    pictures = {"schedule": partial(draw_schedule, days)}
    return tell("schedule", numbers, (_schedule_table(design),), pictures, **facts)


def draw_schedule(days: Days) -> Any:
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


def _schedule_table(design: us.Design) -> Table:
    P = design.randomizer.kernel
    rows = tuple((day, *(f"{p:.3f}" for p in row)) for day, row in zip(DAYS, P.tolist(), strict=True))
    caption = f"Which schedule is played for which (probabilities; leakage {design.leakage:.3g} nats)"
    return Table(caption, ("true schedule", *(f"plays {day}" for day in DAYS)), rows)


# Block diagrams -------------------------------------------------------------------------------------------------------


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
    design = make_design()
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


def compute_structure(settings: Settings) -> Outcome:
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
    return tell("structure", numbers, (table,), pictures, engine=found.room.engine)


def _draw(plot: Callable[..., Axes], *what: us.Design | Ran) -> Figure:
    from matplotlib import pyplot

    figure = plot(*what).figure.figure  # of a part of a figure, the whole
    pyplot.close(figure)  # it has the size of its drawing, and is kept by who asked for it
    return figure
