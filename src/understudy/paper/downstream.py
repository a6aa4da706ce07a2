"""The third objective in use: somebody downstream runs an ordinary Kalman filter on what left the building.

The paper asks that the output's law stay in the family of the readings, "especially important when the filter's output
is used to perform computations, such as filtering". So here a stranger filters. They have the readings that were
released, a model, and the textbook's recursion, which is written out below and shares no line with this package:

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
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import understudy as us
from understudy._types import Array
from understudy.paper.examples import p_text
from understudy.paper.examples import simulate as simulated
from understudy.paper.setting import Outcome, Settings, Table, family, room
from understudy.report.figures import autocorrelation, plot_autocorrelation, plot_nis, plot_shares

THETA, PSEUDO = 1, 0.6
LAGS = 20
FALSE_ALARM = 1e-6
OUTSIDE = 0.05
SHOWN = 150


def kalman(Y: Array, model: us.GaussMarkov, extra: float = 0.0) -> tuple[Array, Array]:
    """Innovations (T, d, N) divided by their predicted spread, and NIS (T, N), of many streams Y (T, d, N).

    The stranger's filter. `extra` is a variance that the user knows was added to each channel.
    """
    A, b, Q, C, d, R = (
        model.A,
        model.b[:, None],
        model.Q,
        model.C,
        model.d[:, None],
        model.R + extra * np.eye(model.dim),
    )
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
    true, pseudo = room(THETA), room(PSEUDO)
    Y = simulated(true, T, N, rng)
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
    return float(us.costs(family((THETA,)), pseudo=[PSEUDO], horizon=T, distortion="mae").matrix[0, 0])


def compute(settings: Settings) -> Outcome:
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
    disguised, noisy, told = found["disguised"], found["laplace"], found["laplace_told"]
    paragraphs = (
        f"Theta = {THETA}, ~Theta = {PSEUDO}: {N} streams of {T} readings, {T * N:,} in all. The user's Kalman filter "
        "is the textbook's, written out apart from the package. On the disguised readings with the pseudo model it is "
        f"consistent: mean NIS {disguised.mean_nis:.4f} (due: 1), {100 * disguised.outside:.2f} percent outside the "
        f"95 percent bounds (due: 5), p = {p_text(disguised.p_value)} at three tests together; it is called "
        "inconsistent below 1e-6, which happens by chance once in a million.",
        f"Laplace noise of the same mean absolute size ({numbers['size_ppm']:.1f} ppm) leaves the user with a mean NIS "
        f"of {noisy.mean_nis:,.0f} and {100 * noisy.outside:.1f} percent out of bounds. Told the variance of the "
        f"noise, the user has the right mean NIS ({told.mean_nis:.3f}) but {100 * told.outside:.2f} percent out of "
        "bounds instead of 5: no Gaussian model fits. With Gaussian noise and its variance known the filter is "
        "consistent; but then the readings, averaged, still give the occupancy away.",
    )
    table = Table(
        "An ordinary Kalman filter downstream (p-values of the sum of NIS, of the number out of bounds, and of "
        f"Ljung-Box over {LAGS} lags; judged at a false-alarm rate of 1e-6)",
        ("stream", "user's model", "mean NIS", "out of bounds (%)", "p, NIS", "p, bounds", "p, white", "verdict"),
        rows,
    )
    return Outcome(
        "downstream", "A Kalman filter downstream", paragraphs, numbers, (table,), {"downstream": partial(draw, found)}
    )


def draw(found: dict[str, Check]) -> Any:
    """NIS over time, correlation of innovations, share out of bounds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 7.0), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1.0, 1.0))
    first, second, third = (
        figure.add_subplot(grid[0, :]),
        figure.add_subplot(grid[1, 0]),
        figure.add_subplot(grid[1, 1]),
    )
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
