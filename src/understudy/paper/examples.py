"""The special cases of Section IV, each with the law of its output tested: i.i.d., Markov, Gauss-Markov.

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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

import understudy as us
from understudy._types import Array
from understudy.paper.setting import Outcome, Settings, Table
from understudy.report.figures import plot_autocorrelation, plot_scores, plot_series
from understudy.transform.whiteness import Whiteness, whiteness

Real = TypeVar("Real", float, Array)

FALSE_ALARM = 1e-6
LEAKAGE = 0.3
# Standard deviations of the Gaussian noise that the paper's argument is about.
NOISES = (1.0, 10.0)


# What these numbers must be, and how nearly, whatever the seed and the settings.
GOLDEN: dict[str, tuple[float, float]] = {
    "averages_bound": (0.1336, 5e-05),
}


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
    played = np.array([design.randomizer.draw(int(value), rng) for value in theta])
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
    loud = _noisy(NOISES[-1])
    paragraphs = (
        "Readings of each example were simulated from its definition, disguised, and scored under the model of the "
        "pseudo parameter. Scores of a right model are independent standard normals; the tests look at level, spread, "
        "shape, correlation in time and across channels, of the scores and of their magnitudes. An example fails below "
        "p = 1e-6 (all its tests together), which happens by chance once in a million. The same output scored under "
        "the model of the true parameter fails each time.",
        f"The law of large numbers: Theta is 0 or 1, unit variance, {seen.sequences:,} sequences. From the mean of "
        f"{seen.T[-1]:,} readings an adversary errs {_percent(seen.errors['raw'][-1])} of the time on raw readings, "
        f"{_percent(seen.errors[loud][-1])} with noise of standard deviation {NOISES[-1]:g} added, and "
        f"{_percent(seen.errors['disguised'][-1])} on disguised ones, where no one can err less than "
        f"{_percent(seen.bound)} in expectation, however long they average.",
    )
    return Outcome(
        "examples",
        "Special cases: i.i.d., Markov, Gauss-Markov",
        paragraphs,
        numbers,
        (_table(found),),
        {"examples": partial(draw, found), "averages": partial(draw_averages, seen)},
    )


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


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g} percent"


def p_text(p: float) -> str:
    """A p-value to read: two digits, and no more zeros than can be counted.

    >>> p_text(0.4321), p_text(3.21e-5), p_text(0.0)
    ('0.43', '3.2e-05', '< 1e-300')
    """
    return "< 1e-300" if p < 1e-300 else f"{p:.2g}"
