r"""Noise addition beside the filter: what each costs when the best adversary is wrong equally often.

Section II says that noise does not hide a parameter, because averages over many readings remove it. Here is how much
noise it takes. To each reading independent noise N_k is added, so strong that the best adversary, who sees T readings
and knows everything but Theta, is wrong as often as under the filter at I_0 = 0.3. The price is the mean of |N_k|.

- *Gaussian noise* of standard deviation s: the readings under both occupancies are Gaussian with one covariance, so
  the best adversary is wrong with probability Phi(-d/2) where d^2 = delta' (Sigma + s^2 I)^-1 delta and delta is the
  difference of the means. The room with noise is the room with R + s^2 in place of R, and d is the length of the
  scores of one mean under the model of the other: exact.
- *Laplace noise* of scale b: with process noise there is no closed form, so the best adversary is put between two
  others. One is told the process noise, the measurement noise and X_0, and is wrong less often; its log likelihood
  ratio is the sum of (|N_k - delta_k| - |N_k|) / b, whose characteristic function is known, and so its error is exact.
  The other acts as if those noises were zero, and is wrong more often; it is simulated on the same random numbers
  as the first, so that the difference is known much better than either. The two agree to a fraction of a percent.
- *Noise drawn once*, a Gaussian number times delta_k: not what the paper calls noise addition, and the fair rival. Its
  error is exact too: d^2 = q / (1 + s^2 q) with q = delta' Sigma^-1 delta.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import understudy as us
from understudy._types import Array, Frozen
from understudy.paper import setting as room
from understudy.paper.setting import Outcome, Settings, Table
from understudy.report.figures import Line, panels, plot_costs_over_time, plot_errors_over_time

LEAKAGE = 0.3
READINGS = (50, 200, 1000)
MEAN = math.sqrt(2.0 / math.pi)  # E|N| of a standard normal

# What the numbers must be, and how near. The reckoning without process noise gave 443, 1179 and 2809.
GOLDEN: Mapping[str, tuple[float, float]] = {
    "error": (0.133586, 1e-6),
    "filter_ppm_50": (17.3459, 1e-4),
    "filter_ppm_limit": (26.7172, 1e-4),
    "gaussian_sd_neglecting_50": (442.662, 1e-3),
    "gaussian_sd_neglecting_200": (1179.395, 1e-3),
    "gaussian_sd_neglecting_1000": (2808.672, 1e-3),
}


def compute(settings: Settings) -> Outcome:
    """Noise and filter at equal error of the best adversary."""
    e = _design(room.HORIZON).guarantee.bayes_error
    grid = np.unique(
        np.geomspace(10, 2000 if settings.quick else 5000, 9 if settings.quick else 25).round().astype(int)
    )
    horizons = sorted({*grid.tolist(), *READINGS})
    equal = {name: np.empty(len(horizons)) for name in ("filter", "gaussian", "laplace", "once")}
    for k, T in enumerate(horizons):
        equal["filter"][k] = _design(T).distortion
        equal["gaussian"][k] = MEAN * gaussian_scale(T, e)
        equal["laplace"][k] = laplace_scale(T, e)
        equal["once"][k] = MEAN * once_scale(T, e) * effect(T).mean()
        settings.progress(0.8 * (k + 1) / len(horizons))
    rng, checks = settings.rng("noise"), {}
    for k, T in enumerate(READINGS):
        n = (4_000_000 if settings.quick else 40_000_000) // max(T, 400)
        checks[T] = Bracket(T, laplace_scale(T, e), n, rng)
        settings.progress(0.8 + 0.2 * (k + 1) / len(READINGS))
    numbers = _numbers(e, dict(zip(horizons, np.transpose(list(equal.values())).tolist(), strict=True)), checks)
    return Outcome(
        "noise",
        "Noise addition and the filter at equal adversary error",
        _paragraphs(numbers),
        numbers,
        (_table(numbers), _bracket_table(checks, e)),
        {"noise": lambda: draw(_costs(horizons, equal), errors_over_time(e))},
    )


def _design(T: int | None) -> us.Design:
    return us.design(room.family(), room.PSEUDO, leakage=LEAKAGE, horizon=T, distortion="mae")


def noisy(occupants: float, s: float) -> us.GaussMarkov:
    """The room with Gaussian noise of standard deviation s added to each reading."""
    R = room.VARIANCE + s * s
    return us.GaussMarkov(A=room.A, C=1.0, Q=room.VARIANCE, R=R, b=room.B * occupants, mean0=100.0, cov0=1.0)


def effect(T: int) -> Array:
    """delta_k = E(Y_k given Theta = 1) - E(Y_k given Theta = 0). A mean is the readings whose scores are all zero."""
    zero = np.zeros(T)
    return us.colour(zero, room.room(1)) - us.colour(zero, room.room(0))


def separation(T: int, s: float = 0.0) -> Array:
    """How far apart the two means are after 1, .., T readings: d, in standard deviations of the noisy readings.

    d_k^2 = sum_{i<=k} z_i^2, with z the scores of the mean under Theta = 1 in the model of Theta = 0
    """
    z = us.whiten(us.colour(np.zeros(T), noisy(1, s)), noisy(0, s))
    return np.asarray(np.sqrt(np.cumsum(z * z)))


def wrong(d: ArrayLike) -> Array:
    """Phi(-d/2): how often the best guess between two normals at distance d is wrong, at even prior."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-0.5 * np.asarray(d)), dtype=float)


def distance(e: float) -> float:
    """The distance at which the best guess is wrong with probability e; the inverse of `wrong`."""
    from scipy.special import ndtri

    return float(-2.0 * ndtri(e))


def gaussian_scale(T: int, e: float, process: bool = True) -> float:
    """The standard deviation at which the best adversary who sees T readings is wrong with probability e.

    Without process noise, measurement noise and spread of X_0 it is |delta| / d.
    """
    from scipy.optimize import brentq

    most = float(np.linalg.norm(effect(T))) / distance(e)
    if not process:
        return most
    return float(brentq(lambda s: separation(T, s)[-1] - distance(e), 0.0, most, xtol=1e-9, rtol=1e-13))


def once_scale(T: int, e: float) -> float:
    """The standard deviation of the one number that multiplies delta: q / (1 + s^2 q) = d^2."""
    return math.sqrt(distance(e) ** -2 - separation(T)[-1] ** -2)


def laplace_error(T: int, b: float) -> float:
    """How often the best adversary is wrong who is told everything but the Laplace noise, of scale b.

    Under Theta = 0 the term of reading k, with r = delta_k / b, is r with probability 1/2 (noise below 0), -r with
    probability exp(-r)/2 (noise above delta_k) and r - 2x with density exp(-x)/2 between; Theta = 1 is its mirror
    image. Hence

        phi_k(t) = [ E + F + (E - F) / (1 + 2it) ] / 2,   E = exp(itr), F = exp(-r - itr)

    and the guess is wrong if the sum S is negative. By Davies' rule, with t_j = (j + 1/2) h,

        Pr(S < 0) = 1/2 - sum_j Im phi(t_j) / (pi (j + 1/2))

    exact up to Pr(abs(S) > 2 pi / h). Found to 1e-6 for few readings, where the atoms of S make the sum converge
    slowly, and to 1e-12 from fifty on.
    """
    r = effect(T) / b
    d = float(np.linalg.norm(r))
    # S is at most sum r, and rarely far from its mean of about d^2/2
    h = 4.0 / min(r.sum(), 0.5 * d * d + 12.0 * d)
    j = np.arange(max(150, 100_000 // T)) + 0.5
    phi = np.ones(j.size, dtype=complex)
    slope = 1.0 / (1.0 + 2j * h * j)
    for block in np.array_split(r, 1 + T // 100):
        E = np.exp(1j * h * np.outer(block, j))
        F = np.exp(-block)[:, None] * E.conj()
        phi *= np.prod(0.5 * (E + F + (E - F) * slope), axis=0)
    return float(0.5 - (phi.imag / j).sum() / math.pi)


def laplace_scale(T: int, e: float) -> float:
    """The scale, which is the mean of |N_k|, at which that adversary is wrong with probability e."""
    from scipy.optimize import brentq

    near = gaussian_scale(T, e, process=False)  # the scale for long sequences: both have the same information
    return float(brentq(lambda b: laplace_error(T, b) - e, 0.5 * near, 1.5 * near, rtol=1e-10))


class Bracket(Frozen):
    """The two adversaries around the best one against Laplace noise, simulated on the same random numbers.

    `told` knows all but the Laplace noise, `plain` acts as if there were no other; both are probabilities of a wrong
    guess, with standard errors. `exact` is that of the first without simulation. `extra` is the difference
    of the two, and `slack` by how much of itself the calibrated scale is too large at most: the difference plus three
    standard errors, over the slope of the error.
    """

    __slots__ = ("T", "exact", "extra", "extra_error", "n", "plain", "slack", "told", "told_error")

    def __init__(self, T: int, b: float, n: int, rng: np.random.Generator) -> None:
        self.T, self.n, self.exact = T, n, laplace_error(T, b)
        told, plain = (np.concatenate(x) for x in zip(*_guesses(T, b, n, rng), strict=True))
        self.told, self.told_error = _mean(told)
        self.plain = _mean(plain)[0]
        self.extra, self.extra_error = _mean(plain.astype(float) - told)
        step = 1e-3
        slope = (laplace_error(T, b * (1.0 + step)) - laplace_error(T, b * (1.0 - step))) / (2.0 * step)
        self.slack = max(0.0, self.extra + 3.0 * self.extra_error) / slope

    def __repr__(self) -> str:
        return f"Bracket(T={self.T}, {self.n} sequences)"


def _mean(x: Array) -> tuple[float, float]:
    return float(x.mean()), float(x.std(ddof=1)) / math.sqrt(x.size)


def _guesses(T: int, b: float, n: int, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Whether each adversary is wrong, sequence by sequence, half of them under each occupancy."""
    delta, found = effect(T)[:, None], []
    piece = max(1, 4_000_000 // T)
    for theta, sign in ((0, 1.0), (1, -1.0)):
        mean = us.colour(np.zeros(T), room.room(theta))[:, None]
        for size in [piece] * (n // 2 // piece) + [n // 2 % piece] * (n // 2 % piece > 0):
            N = rng.laplace(0.0, b, (T, size))
            other = us.sample(room.room(theta), T, n=size, rng=rng).reshape(T, size) - mean
            # log likelihood ratio in favour of the truth; the wrong mean is delta above (theta = 0) or below
            told = (np.abs(N - sign * delta) - np.abs(N)).sum(axis=0)
            seen = N + other
            plain = (np.abs(seen - sign * delta) - np.abs(seen)).sum(axis=0)
            found.append((told < 0.0, plain < 0.0))
    return found


def errors_over_time(e: float) -> list[Line]:
    """How often the best adversary is wrong as it sees more, while the mechanism stays as it is."""
    T = np.union1d(np.geomspace(1, 5000, 60).round().astype(int), READINGS)
    short, long = READINGS[0], READINGS[-1]
    s, b, strong = gaussian_scale(short, e), laplace_scale(short, e), gaussian_scale(long, e)
    some = T[T <= 800]  # beyond that it is below 1e-9
    return [
        Line("filter at 0.3 nats", T, filter_error(e, 5000)[T - 1]),
        Line(
            f"Gaussian noise for T = {short}, {MEAN * s:.0f} ppm", T, wrong(separation(5000, s)[T - 1]), None, [short]
        ),
        Line(
            f"Laplace noise for T = {short}, {b:.0f} ppm", some, [laplace_error(int(t), b) for t in some], None, [short]
        ),
        Line(
            f"Gaussian noise for T = {long}, {MEAN * strong:.0f} ppm",
            T,
            wrong(separation(5000, strong)[T - 1]),
            None,
            [long],
        ),
    ]


def filter_error(e: float, T: int) -> Array:
    """The same under the filter, which plays 0 or 1 and the wrong one with probability e, after 1, .., T readings.

    The best adversary finds out which part is played, wrongly with probability Phi(-d/2), and believes it.
    """
    return np.asarray(e + (1.0 - 2.0 * e) * wrong(separation(T)))


def _costs(horizons: list[int], equal: Mapping[str, Array]) -> list[Line]:
    names = {
        "filter": "filter at 0.3 nats", "gaussian": "Gaussian noise on each reading",
        "laplace": "Laplace noise on each reading", "once": "Gaussian noise drawn once, times the effect",
    }  # fmt: skip
    return [Line(label, horizons, equal[name], marked=READINGS) for name, label in names.items()]


def draw(costs: list[Line], errors: list[Line]) -> Any:
    """The figure: what equal privacy costs on the left, what fixed noise is worth on the right."""
    figure, (left, right) = panels(2)
    plot_costs_over_time(costs, left, unit="ppm")
    left.set_title("cost at equal error of the best adversary", fontsize="medium")
    plot_errors_over_time(errors, right, blind=0.5)
    right.set_title("error of the best adversary, mechanism fixed", fontsize="medium")
    return figure


def _numbers(e: float, equal: Mapping[int, list[float]], checks: Mapping[int, Bracket]) -> dict[str, float]:
    numbers = {"error": e, "filter_ppm_limit": _design(None).distortion}
    for T in READINGS:
        filtered, gaussian, laplace, once = equal[T]
        numbers |= {
            f"filter_ppm_{T}": filtered,
            f"gaussian_ppm_{T}": gaussian,
            f"gaussian_sd_{T}": gaussian / MEAN,
            f"gaussian_sd_neglecting_{T}": gaussian_scale(T, e, process=False),
            f"laplace_ppm_{T}": laplace,
            f"laplace_slack_percent_{T}": 100.0 * checks[T].slack,
            f"laplace_error_simulated_{T}": checks[T].told,
            f"laplace_error_simulated_se_{T}": checks[T].told_error,
            f"once_ppm_{T}": once,
        }
    s, filtering = gaussian_scale(READINGS[0], e), filter_error(e, READINGS[-1])
    kept, unit = wrong(separation(READINGS[-1], s)), wrong(separation(2, 1.0))
    for T in READINGS:
        numbers[f"error_filter_{T}"] = float(filtering[T - 1])
        numbers[f"error_gaussian_kept_{T}"] = float(kept[T - 1])
    return numbers | {"error_unit_variance_1": float(unit[0]), "error_unit_variance_2": float(unit[1])}


def _table(numbers: Mapping[str, float]) -> Table:
    rows = tuple(
        (
            f"{T}", f"{numbers[f'filter_ppm_{T}']:.2f}",
            f"{numbers[f'gaussian_ppm_{T}']:.1f}", f"{numbers[f'gaussian_sd_{T}']:.2f}",
            f"{numbers[f'gaussian_sd_neglecting_{T}']:.2f}", f"{numbers[f'laplace_ppm_{T}']:.1f}",
            f"{numbers[f'once_ppm_{T}']:.2f}", f"{numbers[f'gaussian_ppm_{T}'] / numbers[f'filter_ppm_{T}']:.0f}",
        )
        for T in READINGS
    )  # fmt: skip
    heads = (
        "T", "filter", "Gaussian", "its sd", "its sd, process noise neglected", "Laplace", "Gaussian drawn once",
        "Gaussian / filter",
    )  # fmt: skip
    return Table("Mean absolute distortion (ppm) at equal error of the best adversary", heads, rows)


def _bracket_table(checks: Mapping[int, Bracket], e: float) -> Table:
    rows = tuple(
        (
            f"{T}", f"{c.n:,}", f"{100 * c.told:.3f} ± {100 * c.told_error:.3f}", f"{100 * c.exact:.3f}",
            f"{100 * c.extra:.4f} ± {100 * c.extra_error:.4f}", f"{100 * c.slack:.2f}",
        )
        for T, c in checks.items()
    )  # fmt: skip
    heads = (
        "T", "sequences", "told all but the noise, wrong (%)", "the same, exact (%)",
        "neglecting all but the noise, wrong more often by (%)", "scale too large by at most (%)",
    )  # fmt: skip
    return Table("Laplace noise: the best adversary lies between two others; one standard error", heads, rows)


def _paragraphs(numbers: Mapping[str, float]) -> tuple[str, ...]:
    sd, neglecting, cost, filtered, once, laplace = (
        [numbers[f"{name}_{T}"] for T in READINGS]
        for name in ("gaussian_sd", "gaussian_sd_neglecting", "gaussian_ppm", "filter_ppm", "once_ppm", "laplace_ppm")
    )
    slack = max(numbers[f"laplace_slack_percent_{T}"] for T in READINGS)
    return (
        f"The filter at I_0 = 0.3 makes every adversary wrong in at least {100 * numbers['error']:.2f} percent of "
        f"cases, however long it watches. It moves a reading by {_and(filtered, '.1f')} ppm on average at T = 50, 200 "
        f"and 1000; the limit is {numbers['filter_ppm_limit']:.1f}. Independent Gaussian noise on each reading that "
        f"achieves the same has a standard deviation of {_and(sd, '.1f')} ppm, and moves a reading by "
        f"{_and(cost, '.0f')} ppm on average: {_and([c / f for c, f in zip(cost, filtered, strict=True)], '.0f')} "
        "times as much. It grows with the root of T for ever.",
        f"With process noise neglected the standard deviations are {_and(neglecting, '.1f')} ppm: the process noise "
        "hides next to nothing. They are standard deviations; the mean absolute noise is 0.798 of them.",
        f"Laplace noise costs {_and(laplace, '.0f')} ppm. Its mean absolute value is its scale, and of a small effect "
        "Laplace noise of scale b hides as much as Gaussian noise of standard deviation b, so for long sequences it "
        "costs 1.25 times as much. These scales are for an adversary who is told all but the noise; for the best "
        f"adversary without that help they are smaller, by at most {slack:.2f} percent (three standard errors).",
        "Noise fails because it is drawn anew with each reading. A single Gaussian number, drawn once and multiplied "
        f"by the effect of one person on each reading, levels off as well: {_and(once, '.1f')} ppm, "
        f"{once[0] / filtered[0]:.1f} times the filter's cost, with readings of occupancies below 0 and above 1.",
        "On the right the noise that suffices for 50 readings is kept: after 200 readings the best adversary is wrong "
        f"in {100 * numbers['error_gaussian_kept_200']:.2f} percent of cases, after 1000 with a probability of "
        f"{numbers['error_gaussian_kept_1000']:.1g} (the Laplace line is that of the adversary who is told more). "
        "Under the filter it stays where it was. Unit variance, the noise of the motivating example, is off the "
        f"scale: in this room the best adversary is wrong with a probability of "
        f"{numbers['error_unit_variance_1']:.1g} after one reading and {numbers['error_unit_variance_2']:.1g} "
        "after two.",
    )


def _and(values: list[float], form: str) -> str:
    *first, last = (format(value, form) for value in values)
    return f"{', '.join(first)} and {last}"
