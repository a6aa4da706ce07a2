r"""Noise addition beside the filter: for the adversary, and for somebody who runs a Kalman filter on the output.

**What each costs when the best adversary is wrong equally often.** Section II says that noise does not hide a
parameter, because averages over many readings remove it. Here is how much noise it takes. To each reading independent
noise N_k is added, so strong that the best adversary, who sees T readings and knows everything but Theta, is wrong as
often as under the filter at I_0 = 0.3. The price is the mean of |N_k|.

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

**For the user downstream.** The paper's third objective asks that the output's law stay in the family of the
readings, "especially important when the filter's output is used to perform computations, such as filtering". So here
a stranger filters. They have the readings that were released, a model, and the textbook's recursion, which is written
out below and shares no line with this package:

::

    xhat <- A xhat + b,  Sigma <- A Sigma A' + Q                      the step into k
    e = y_k - C xhat - d,  S = C Sigma C' + R                         the innovation and its predicted covariance
    K = Sigma C' S^-1,  xhat <- xhat + K e,  Sigma <- Sigma - K S K'  the correction

If the model is that of the stream, the filter is *consistent*: the innovations are white, and the normalised
innovation squared e' S^-1 e (NIS) is chi-square with one degree of freedom a channel, so that 5 percent of it falls
outside the bounds that hold 95 percent. This can be tested without knowing any true state.

The disguised stream passes under the model of ~theta: its innovations, divided by their spread, are those of the raw
stream under theta. A stream to which noise was added, of the same mean absolute size or much smaller, fails under the
model of theta. A user who is told the variance of the noise passes if it is Gaussian, and still fails if it is Laplace:
no member of the family has that law. (Nor does noise hide theta in the long run: see the i.i.d. example.)

Under a right model the sum of all NIS is chi-square and the number out of bounds binomial, exactly. The Ljung-Box
statistic is chi-square as far as so many readings make sums normal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import understudy as us
from understudy._types import Array, Frozen, Mask
from understudy.paper import setting as room
from understudy.paper.examples import simulate
from understudy.paper.setting import FALSE_ALARM, Outcome, Settings, Table, make_design, p_text, tell
from understudy.report.figures import (
    Line,
    autocorrelation,
    panels,
    plot_autocorrelation,
    plot_costs_over_time,
    plot_errors_over_time,
    plot_nis,
    plot_shares,
)

READINGS = (50, 200, 1000)
MEAN = math.sqrt(2.0 / math.pi)  # E|N| of a standard normal


def compute(settings: Settings) -> Outcome:
    """Noise and filter at equal error of the best adversary."""
    e = make_design().guarantee.bayes_error
    grid = np.unique(
        np.geomspace(10, 2000 if settings.quick else 5000, 9 if settings.quick else 25).round().astype(int)
    )
    horizons = sorted({*grid.tolist(), *READINGS})
    equal = {name: np.empty(len(horizons)) for name in ("filter", "gaussian", "laplace", "once")}
    for k, T in enumerate(horizons):
        equal["filter"][k] = make_design(horizon=T).distortion
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
    facts = {f"ratio_{T}": numbers[f"gaussian_ppm_{T}"] / numbers[f"filter_ppm_{T}"] for T in READINGS}
    facts["once_ratio"] = numbers["once_ppm_50"] / numbers["filter_ppm_50"]
    facts["slack"] = max(numbers[f"laplace_slack_percent_{T}"] for T in READINGS)
    pictures = {"noise": lambda: draw(_costs(horizons, equal), errors_over_time(e))}
    return tell("noise", numbers, (_table(numbers), _bracket_table(checks)), pictures, **facts)


def noisy(occupants: float, s: float) -> us.GaussMarkov:
    """The room with Gaussian noise of standard deviation s added to each reading."""
    return room.room(occupants, noise=s * s)


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


def _mean(x: Array | Mask) -> tuple[float, float]:
    return float(x.mean()), float(x.std(ddof=1)) / math.sqrt(x.size)


def _guesses(T: int, b: float, n: int, rng: np.random.Generator) -> list[tuple[Mask, Mask]]:
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
    numbers = {"error": e, "filter_ppm_limit": make_design(horizon=None).distortion}
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


def _bracket_table(checks: Mapping[int, Bracket]) -> Table:
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


# A Kalman filter downstream -------------------------------------------------------------------------------------------

THETA, PSEUDO = 1, 0.6
LAGS = 20
OUTSIDE = 0.05
SHOWN = 150


def kalman(Y: Array, model: us.GaussMarkov, extra: float = 0.0) -> tuple[Array, Array]:
    """Innovations (T, d, N) divided by their predicted spread, and NIS (T, N), of many streams Y (T, d, N).

    The stranger's filter. `extra` is a variance that the user knows was added to each channel.
    """
    A, b, Q, C, d = model.A, model.b[:, None], model.Q, model.C, model.d[:, None]
    R = model.R + extra * np.eye(model.dim)
    x, P = np.tile(model.mean0[:, None], Y.shape[2]), model.cov0
    scores, nis = [], []
    for y in Y:
        # the step into k
        x, P = A @ x + b, A @ P @ A.T + Q
        e, S = y - C @ x - d, C @ P @ C.T + R
        scores.append(np.linalg.solve(np.linalg.cholesky(S), e))
        nis.append((e * np.linalg.solve(S, e)).sum(axis=0))
        # the correction
        K = np.linalg.solve(S, C @ P).T
        x, P = x + K @ e, P - K @ S @ K.T
    return np.array(scores), np.array(nis)


@dataclass(frozen=True)
class Check:
    """What a user's filter says about one stream: scores (T, d, N), NIS (T, N), and their p-values."""

    stream: str
    model: str
    scores: Array
    nis: Array

    @property
    def mean_nis(self) -> float:
        """Mean NIS a channel; 1 if the model is right."""
        return float(self.nis.mean() / self.scores.shape[1])

    @property
    def outside(self) -> float:
        """Share of NIS outside the bounds that hold 95 percent."""
        return float(self._out().mean())

    @property
    def p_nis(self) -> float:
        """The sum of all NIS is chi-square, exactly."""
        from scipy.special import chdtr, chdtrc

        total, freedom = float(self.nis.sum()), self.scores.size
        return float(min(1.0, 2.0 * min(chdtr(freedom, total), chdtrc(freedom, total))))

    @property
    def p_outside(self) -> float:
        """The number of NIS out of bounds is binomial, exactly."""
        from scipy.special import bdtr, bdtrc

        count, n = int(self._out().sum()), self.nis.size
        above = bdtrc(count - 1, n, OUTSIDE) if count else 1.0
        return float(min(1.0, 2.0 * min(bdtr(count, n, OUTSIDE), above)))

    @property
    def p_white(self) -> float:
        """Ljung-Box over all streams together, no product reaching from one into the next.

        Q = n (n + 2) sum_h r_h^2 / n_h with n readings and n_h products of readings h apart; chi-square with as many
        degrees of freedom as lags.
        """
        from scipy.special import chdtrc

        z = self.scores.reshape(len(self.scores), -1)
        n = float(z.size)
        r = autocorrelation(z, LAGS)
        products = z.shape[1] * (len(z) - np.arange(1, LAGS + 1))
        return float(chdtrc(LAGS, n * (n + 2.0) * float((np.square(r) / products).sum())))

    @property
    def p_value(self) -> float:
        """The smallest of the three, times three."""
        return min(1.0, 3.0 * min(self.p_nis, self.p_outside, self.p_white))

    @property
    def consistent(self) -> bool:
        """Whether the filter passes, at one false alarm in a million."""
        return self.p_value > FALSE_ALARM

    def _out(self) -> Array:
        from scipy.special import chdtri

        dim = self.scores.shape[1]
        return np.asarray((self.nis < chdtri(dim, 0.975)) | (self.nis > chdtri(dim, 0.025)))


def checks(settings: Settings) -> dict[str, Check]:
    """Each stream through the user's filter, by a short name."""
    rng = settings.rng("downstream")
    T, N = (200, 40) if settings.quick else (500, 200)
    true, pseudo = room.room(THETA), room.room(PSEUDO)
    Y = simulate(true, T, N, rng)
    released = us.disguise(Y, source=true, target=pseudo)
    # E |Y - ~Y| in ppm, exactly; Laplace noise of scale s has mean absolute value s, Gaussian sigma sqrt(2 / pi)
    size = distortion(T)
    laplace = rng.laplace(size=Y.shape)
    normal = rng.standard_normal(Y.shape)
    sigma = size * math.sqrt(math.pi / 2.0)
    unit = math.sqrt(0.5)  # Laplace noise of variance 1
    streams: dict[str, tuple[str, Array, str, us.GaussMarkov, float]] = {
        "raw": ("raw", Y, "true model", true, 0.0),
        "disguised": ("disguised", released, "pseudo model", pseudo, 0.0),
        "wrong_model": ("disguised", released, "true model", true, 0.0),
        "laplace": (f"raw + Laplace, {size:.0f} ppm", Y + size * laplace, "true model", true, 0.0),
        "gaussian": (f"raw + Gaussian, {size:.0f} ppm", Y + sigma * normal, "true model", true, 0.0),
        "laplace_unit": ("raw + Laplace, variance 1", Y + unit * laplace, "true model", true, 0.0),
        "gaussian_unit": ("raw + Gaussian, variance 1", Y + normal, "true model", true, 0.0),
        "laplace_told": (
            f"raw + Laplace, {size:.0f} ppm", Y + size * laplace, "true model, told the variance", true, 2.0 * size**2,
        ),
        "gaussian_told": (
            f"raw + Gaussian, {size:.0f} ppm", Y + sigma * normal, "true model, told the variance", true, sigma**2,
        ),
    }  # fmt: skip
    found = {}
    for i, (name, (stream, values, label, model, extra)) in enumerate(streams.items()):
        found[name] = Check(stream, label, *kalman(values, model, extra))
        settings.progress((i + 1) / len(streams))
    return found


def distortion(T: int) -> float:
    """E |Y - ~Y| over T readings, ppm."""
    return float(us.costs(room.family((THETA,)), pseudo=[PSEUDO], horizon=T, distortion="mae").matrix[0, 0])


def compute_downstream(settings: Settings) -> Outcome:
    """The user's filter on raw, disguised and noisy streams."""
    found = checks(settings)
    T, _, N = found["raw"].scores.shape
    numbers: dict[str, float] = {"readings": T * N, "size_ppm": distortion(T)}
    for name, check in found.items():
        numbers |= {
            f"{name}_mean_nis": check.mean_nis,
            f"{name}_outside": check.outside,
            f"{name}_p_nis": check.p_nis,
            f"{name}_p_outside": check.p_outside,
            f"{name}_p_white": check.p_white,
            f"{name}_p_value": check.p_value,
        }
    rows = tuple(
        (
            check.stream,
            check.model,
            f"{check.mean_nis:.4g}",
            f"{100.0 * check.outside:.2f}",
            *map(p_text, (check.p_nis, check.p_outside, check.p_white)),
            "consistent" if check.consistent else "not consistent",
        )
        for check in found.values()
    )
    table = Table(
        "An ordinary Kalman filter downstream (p-values of the sum of NIS, of the number out of bounds, and of "
        f"Ljung-Box over {LAGS} lags; judged at a false-alarm rate of 1e-6)",
        ("stream", "user's model", "mean NIS", "out of bounds (%)", "p, NIS", "p, bounds", "p, white", "verdict"),
        rows,
    )
    pictures = {"downstream": partial(draw_downstream, found)}
    return tell("downstream", numbers, (table,), pictures, streams=N, length=T)


def draw_downstream(found: dict[str, Check]) -> Any:
    """NIS over time, correlation of innovations, share out of bounds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 7.0), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1.0, 1.0))
    first, second, third = (figure.add_subplot(grid[place]) for place in ((0, slice(None)), (1, 0), (1, 1)))
    shown = {
        "disguised, pseudo model": found["disguised"],
        "raw + Laplace of the same mean size, true model": found["laplace"],
        "raw + Laplace of variance 1, true model": found["laplace_unit"],
    }
    plot_nis({name: check.nis[:SHOWN, 0] for name, check in shown.items()}, 1, first)
    first.set_title("One stream: normalised innovation squared", fontsize="medium")
    first.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, frameon=False, fontsize="small")
    plot_autocorrelation({name: check.scores for name, check in list(shown.items())[:2]}, second, LAGS)
    second.set_title("All streams: correlation of innovations", fontsize="medium")
    names = {f"{check.stream}\n{check.model}": check.outside for check in found.values()}
    plot_shares(names, OUTSIDE, third)
    third.tick_params(axis="y", labelsize="x-small")
    third.set_xlabel("outside the 95 % bounds (% of readings; due: 5)")
    third.set_title("All streams: NIS out of bounds", fontsize="medium")
    return figure
