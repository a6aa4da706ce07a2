"""One line for each law: scores and inverses of many readings, against scipy's plain cdf, then ppf."""

from __future__ import annotations

import numpy as np
import scipy.stats
from scipy.special import ndtr, ndtri

import understudy as us
from benchmarks.harness import Contender, Required, Row, Section, compared, race, row

SIZE = 100_000
SCIPY = {
    "normal": scipy.stats.norm(20.0, 2.0),
    "Student t(3)": scipy.stats.t(3, loc=20.0, scale=2.0),
    "gamma(2.5)": scipy.stats.gamma(2.5, scale=3.0),
    "log-normal": scipy.stats.lognorm(0.7),
    "exponential": scipy.stats.expon(scale=3.0),
    "Laplace": scipy.stats.laplace(1.0, 2.0),
    "beta(2, 5)": scipy.stats.beta(2.0, 5.0),
    "logistic": scipy.stats.logistic(),
    "Gumbel": scipy.stats.gumbel_r(),
}


def run(quick: bool) -> Section:
    """Laws that scipy has, held to a factor of three; then those that it has not."""
    size, rounds = (SIZE // 10, 3) if quick else (SIZE, 7)
    _settle_memory()
    rows: list[Row] = []
    for name, dist in SCIPY.items():
        rows += _scalar(name, dist, size, rounds)
    rows += _mixture(size, rounds)
    rows += _others(size, rounds)
    return Section(
        f"Laws: {size:,} scores and inverses",
        "time: understudy's time / the time of scipy's `ppf(cdf(y))`",
        rows,
        [
            "Understudy's job is `value(score(y))`, scipy's is `ppf(cdf(y))`, both on one array: the two halves of "
            "the transformation between equal laws. scipy's saturates at 8 standard deviations; understudy's does not.",
            "The Gaussian law needs no c.d.f. at all. A mixture has no `ppf` in scipy: its line is beside one `cdf` "
            "a component and one `ppf`, which is less than the job.",
            "Normal, log-normal, exponential, Laplace, logistic and Gumbel laws are done in closed form. Readings are "
            "drawn from the law, so that with the others one in five hundred lies where tails are integrated.",
            "scipy's time depends on what the process did before: until large arrays have been given back, each new "
            "one comes from the system page by page, which costs `ppf(cdf(y))` as much as its arithmetic. A few are "
            "given back before the race, so that the figures are those of a process that has been at work.",
        ],
    )


def _settle_memory() -> None:
    """Gives large arrays back, after which the allocator keeps memory of the size that is used here."""
    arrays = [np.ones(3_500_000) for _ in range(3)]
    arrays.clear()


def _race(
    name: str, law: object, y: np.ndarray, peer, peer_name: str, required: Required | None, rounds: int
) -> list[Row]:
    ours = f"{name}: understudy"
    timings = race(
        [
            Contender(ours, lambda: law.value(law.score(y)), y.shape[-1]),
            Contender(f"{name}: score alone", lambda: law.score(y), y.shape[-1]),
            Contender(peer_name, peer, y.shape[-1]),
        ],
        rounds,
    )
    mine, alone, theirs = timings.values()
    return [
        row(mine, mine.best / theirs.best, required=required, **compared(mine.output.ravel(), y.ravel())),
        row(alone),
        row(theirs),
    ]


def _scalar(name: str, dist: object, size: int, rounds: int) -> list[Row]:
    y = dist.rvs(size, random_state=np.random.default_rng(1))
    law = us.Scalar(dist)
    return _race(name, law, y, lambda: dist.ppf(dist.cdf(y)), f"{name}: scipy", Required(3, at_most=True), rounds)


def _mixture(size: int, rounds: int) -> list[Row]:
    weights, means, sds = [0.5, 0.3, 0.2], [0.0, 3.0, -4.0], [1.0, 0.5, 2.0]
    law = us.Mixture(weights, [us.Gaussian(m, s * s) for m, s in zip(means, sds, strict=True)])
    rng = np.random.default_rng(2)
    part = rng.choice(3, size, p=weights)
    y = rng.normal(np.array(means)[part], np.array(sds)[part])

    def peer() -> np.ndarray:
        u = sum(w * ndtr((y - m) / s) for w, m, s in zip(weights, means, sds, strict=True))
        return ndtri(u)

    return _race("mixture of 3 normals", law, y, peer, "mixture of 3 normals: cdf of each, one ppf", None, rounds)


def _others(size: int, rounds: int) -> list[Row]:
    rng = np.random.default_rng(3)
    rows: list[Row] = []
    S = np.array([[1.0, 0.6], [0.6, 2.0]])
    vectors = {
        "Gaussian, 2 channels": us.Gaussian([0.0, 1.0], S),
        "Gaussian mixture, 2 parts, 2 channels": us.GaussianMixture([0.4, 0.6], [[0.0, 0.0], [3.0, 1.0]], [S, 0.5 * S]),
        "Gaussian copula of t(4) and gamma": us.GaussianCopula(
            [[1.0, 0.5], [0.5, 1.0]], [us.Scalar(scipy.stats.t(4)), us.Scalar(scipy.stats.gamma(2.0))]
        ),
    }
    for name, law in vectors.items():
        y = law.value(rng.standard_normal((2, size)))
        timing = race([Contender(f"{name}: understudy", lambda law=law, y=y: law.value(law.score(y)), size)], rounds)
        (mine,) = timing.values()
        rows.append(row(mine, **compared(mine.output.ravel(), y.ravel())))
    atoms = us.Atoms(np.arange(50.0), np.full(50, 0.02))
    y, v = rng.integers(0, 50, size).astype(float), rng.random(size)
    (mine,) = race([Contender("50 atoms: understudy", lambda: atoms.value(atoms.score(y, v)), size)], rounds).values()
    rows.append(row(mine, **compared(mine.output, y)))
    return rows
