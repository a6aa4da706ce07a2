"""Pairs of a source and a target, with readings simulated from the definition of the source, without the package.

Each pair also has readings of a source that differs a little: the transformation must not whiten these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import simulate
from helpers import room
from scipy import stats

import understudy as us

T, N = 500, 200
Draw = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Pair:
    name: str
    source: Any
    target: Any
    draw: Draw
    other: Draw
    samples: int = 100_000


def system(seed: int, n: int, d: int, noise: float = 1.0) -> us.GaussMarkov:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    A *= 0.9 / np.abs(np.linalg.eigvals(A)).max()
    root, roots = rng.standard_normal((n, n)), rng.standard_normal((d, d))
    return us.GaussMarkov(
        A, rng.standard_normal((d, n)), noise * root @ root.T, noise * (roots @ roots.T + 0.1 * np.eye(d)),
        rng.standard_normal(n), rng.standard_normal(d), rng.standard_normal(n), np.eye(n),
    )  # fmt: skip


def of(model: us.GaussMarkov) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: simulate.of_model(rng, model, T, N)


def pairs() -> list[Pair]:
    found = [
        Pair("room 1 as 0.6", room(1), room(0.6), of(room(1)), of(room(1, Q=0.12))),
        Pair(
            "other dynamics and noise", room(1), room(0.3, A=0.5, Q=2.0, R=0.01), of(room(1)), of(room(1, R=0.12)),
        ),
        Pair("2 states as 4, d = 3", system(1, 2, 3), system(2, 4, 3), of(system(1, 2, 3)), of(system(1, 2, 3, 1.05))),
        Pair("5 states as 1, d = 2", system(3, 5, 2), system(4, 1, 2), of(system(3, 5, 2)), of(system(3, 5, 2, 1.05))),
    ]  # fmt: skip

    mean, cov = np.array([1.0, -2.0, 3.0]), np.array([[2.0, 0.9, 0.1], [0.9, 1.0, -0.3], [0.1, -0.3, 0.5]])

    def draw(rng: np.random.Generator) -> np.ndarray:
        return rng.multivariate_normal(mean, cov, (T, N)).transpose(0, 2, 1)

    found.append(
        Pair(
            "i.i.d. Gaussian, d = 3",
            us.IID(us.Gaussian(mean, cov)),
            us.IID(us.Gaussian(-mean, np.linalg.inv(cov))),
            draw,
            lambda rng: draw(rng) * 1.03,
        )
    )
    found.append(
        Pair(
            "i.i.d. Student-t as log-normal",
            us.IID(us.Scalar(stats.t(3, loc=2.0))),
            us.IID(us.Scalar(stats.lognorm(0.7))),
            lambda rng: 2.0 + rng.standard_t(3, (T, 1, N)),
            lambda rng: 2.0 + rng.standard_t(4, (T, 1, N)),
        )
    )
    parts = us.Independent(us.Scalar(stats.gamma(2.0)), us.Scalar(stats.laplace()), us.Scalar(stats.gumbel_r()))

    def mixed(rng: np.random.Generator, shape: float) -> np.ndarray:
        return np.stack([rng.gamma(shape, size=(T, N)), rng.laplace(size=(T, N)), rng.gumbel(size=(T, N))], axis=1)

    found.append(
        Pair(
            "independent components as Gauss-Markov, d = 3",
            us.IID(parts),
            system(5, 3, 3),
            lambda rng: mixed(rng, 2.0),
            lambda rng: mixed(rng, 2.1),
        )
    )
    found.append(markov())
    found.extend(autoregressive())
    found.extend(paths())
    return found


def markov() -> Pair:
    """State-dependent variance and a clock; the target bends the other way."""
    source = us.Markov(
        us.Gaussian(0.0, 1.0),
        lambda y, k: us.Gaussian(0.6 * np.tanh(y), 0.5 + 0.2 * y * y / (1 + y * y) + 0.1 * (k % 2)),
    )
    target = us.Markov(us.Gaussian(5.0, 4.0), lambda y: us.Gaussian(1.0 + 0.8 * y, 0.3 + 0.5 * abs(np.sin(y))))

    def draw(rng: np.random.Generator, extra: float = 0.0) -> np.ndarray:
        return simulate.recursion(
            rng,
            lambda rng, n: rng.standard_normal(n),
            lambda rng, y, k: (
                0.6 * np.tanh(y)
                + np.sqrt(0.5 + extra + 0.2 * y * y / (1 + y * y) + 0.1 * (k % 2)) * rng.standard_normal(len(y))
            ),
            T,
            N,
        )

    return Pair("Markov, variance depends on the state", source, target, draw, lambda rng: draw(rng, 0.05))


def autoregressive() -> list[Pair]:
    source = us.AutoRegressive([0.5, 0.3], intercept=2.0, noise=us.Scalar(stats.t(4)), past=[10.0, 9.0])

    def draw(rng: np.random.Generator, nu: float = 4.0) -> np.ndarray:
        return simulate.autoregressive(rng, [0.5, 0.3], 2.0, lambda rng, n: rng.standard_t(nu, n), [10.0, 9.0], T, N)

    other = us.AutoRegressive([-0.4, 0.2], intercept=1.0, noise=us.Scalar(stats.t(9, scale=3.0)))
    phi = np.array([[[0.5, 0.1, 0.0], [0.0, 0.4, 0.2], [0.1, 0.0, 0.3]], 0.2 * np.eye(3)])
    cov = np.array([[1.0, 0.4, 0.2], [0.4, 2.0, 0.1], [0.2, 0.1, 0.5]])
    vector = us.AutoRegressive(phi, intercept=[1.0, 0.0, -1.0], noise=us.Gaussian(np.zeros(3), cov))
    heavy = us.AutoRegressive(
        phi[:1], noise=us.Independent(*(us.Scalar(stats.t(nu)) for nu in (3, 5, 8))), past=[[0.0, 1.0, 2.0]]
    )
    linear = vector.gauss_markov
    return [
        Pair("AR(2) Student-t as another", source, other, draw, lambda rng: draw(rng, 5.0)),
        Pair("AR(2) Student-t as Gauss-Markov", source, room(0.5), draw, lambda rng: draw(rng, 5.0)),
        Pair(
            "vector AR(2) as vector AR(1) with Student-t noise",
            vector,
            heavy,
            of(linear),
            lambda rng: of(linear)(rng) * 1.03,
        ),
    ]


def paths() -> list[Pair]:
    """The parameter moves: one value for each reading."""
    rng = np.random.default_rng(8)
    theta = np.repeat(rng.integers(0, 2, T // 25), 25).tolist()
    pseudo = np.repeat(rng.choice([0.2, 0.6, 0.8], T // 50), 50).tolist()
    family = us.Family(lambda v: room(v, Q=0.1 + 0.3 * v), values=[0, 1])
    source = family.along(theta)
    calm = us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(0.7 * y, 1.0))
    wild = us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(4.0 - 0.3 * y, 2.0 + np.tanh(y)))
    switching = us.Family({0: calm, 1: wild})

    def draw(rng: np.random.Generator, extra: float = 0.0) -> np.ndarray:
        def following(rng: np.random.Generator, y: np.ndarray, k: int) -> np.ndarray:
            e = rng.standard_normal(N)
            return 4.0 - 0.3 * y + np.sqrt(2.0 + extra + np.tanh(y)) * e if theta[k - 1] else 0.7 * y + e

        return simulate.recursion(rng, lambda rng, n: rng.standard_normal(n), following, T, N)

    inverted = family.along([1 - v for v in theta])
    return [
        Pair("a path as another path", source, family.along(pseudo), of(source), of(inverted)),
        Pair(
            "a path of Markov models as Gauss-Markov",
            switching.along(theta),
            room(0.4),
            draw,
            lambda rng: draw(rng, 0.2),
        ),
    ]


def independent(law: Callable[..., np.ndarray], changed: float, T: int = 500, N: int = 200) -> tuple[Draw, Draw]:
    """Draws of N sequences of T readings; the other source has a changed parameter."""
    return (lambda rng: law(rng, T, N)), (lambda rng: law(rng, T, N, changed))


def mixtures() -> list[Pair]:
    weights = [0.5, 0.3, 0.2]
    source = us.Mixture(
        weights, [us.Gaussian(0.0, 1.0), us.Scalar(stats.t(4, loc=5.0)), us.Scalar(stats.expon(loc=-9.0))]
    )

    def draw(rng, T, N, nu=4.0):
        part = rng.choice(3, (T, 1, N), p=weights)
        options = (
            rng.standard_normal((T, 1, N)),
            5.0 + rng.standard_t(nu, (T, 1, N)),
            rng.exponential(size=(T, 1, N)) - 9.0,
        )
        return np.choose(part, options)

    hole = us.Mixture([0.4, 0.6], [us.Scalar(stats.uniform(0, 1)), us.Scalar(stats.uniform(2, 1))])

    def two(rng, T, N, share=0.4):
        low = rng.random((T, 1, N)) < share
        return rng.random((T, 1, N)) + np.where(low, 0.0, 2.0)

    normals = us.Mixture([0.2, 0.8], [us.Gaussian(-3.0, 4.0), us.Gaussian(1.0, 0.25)])

    def noisier(rng, T, N, R=0.1):
        return simulate.of_model(rng, room(1, R=R), T, N)

    return [
        Pair("mixture as Gauss-Markov", us.IID(source), room(0.5), *independent(draw, 30.0)),
        Pair("mixture with a hole as Gauss-Markov", us.IID(hole), room(0.2), *independent(two, 0.42)),
        Pair("Gauss-Markov as a mixture", room(1), us.IID(normals), *independent(noisier, 0.12)),
    ]


def vectors() -> list[Pair]:
    S = np.array([[1.0, 0.7], [0.7, 2.0]])
    clouds = us.GaussianMixture([0.4, 0.6], [[0.0, 0.0], [3.0, -1.0]], [S, 0.5 * np.eye(2)])

    def draw(rng, T, N, shift=0.0):
        first = rng.random((T, N)) < 0.4
        a = rng.multivariate_normal([shift, 0.0], S, (T, N))
        b = rng.multivariate_normal([3.0, -1.0], 0.5 * np.eye(2), (T, N))
        return np.where(first[..., None], a, b).transpose(0, 2, 1)

    rho = 0.6
    copula = us.GaussianCopula([[1.0, rho], [rho, 1.0]], [us.Scalar(stats.t(5)), us.Scalar(stats.gamma(2.0))])

    def tied(rng, T, N, rho=rho):
        g = rng.multivariate_normal([0.0, 0.0], [[1.0, rho], [rho, 1.0]], (T, N))
        u = stats.norm.cdf(g)
        return np.stack([stats.t.ppf(u[..., 0], 5), stats.gamma.ppf(u[..., 1], 2.0)], axis=1)

    plane = us.GaussMarkov(
        [[0.8, 0.1], [0.0, 0.6]],
        np.eye(2),
        np.diag([1.0, 0.5]),
        [[0.3, 0.1], [0.1, 0.4]],
        mean0=[0.0, 0.0],
        cov0=np.eye(2),
    )
    return [
        Pair("Gaussian mixture as a copula, d = 2", us.IID(clouds), us.IID(copula), *independent(draw, 0.1)),
        Pair("copula as Gauss-Markov, d = 2", us.IID(copula), plane, *independent(tied, 0.65)),
    ]


def atoms() -> list[Pair]:
    values = np.array([1.0, 2.0, 5.0, 9.0])
    p, q = [0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.7]

    def draw(rng, T, N, more=0.0):
        return rng.choice(values, (T, 1, N), p=[0.4 - more, 0.3 + more, 0.2, 0.1])

    three = us.IID(us.Atoms([0.0, 0.5, 4.0], q))
    grid = np.arange(6.0)

    def row(y, pull=0.5):
        w = np.exp(-pull * np.abs(grid - y))
        return w / w.sum()

    laws = {y: us.Atoms(grid, row(y)) for y in grid.tolist()}
    chain = us.Markov(us.Atoms(grid, np.full(6, 1 / 6)), lambda y: laws[y])

    def walk(rng, T, N, pull=0.5):
        table = np.cumsum([row(y, pull) for y in grid], axis=1)

        def step(rng, y, k):
            return np.minimum((rng.random(len(y))[:, None] > table[y.astype(int)]).sum(axis=1), 5).astype(float)

        return simulate.recursion(rng, lambda rng, n: rng.integers(0, 6, n).astype(float), step, T, N)

    return [
        Pair("atoms as other atoms", us.IID(us.Atoms(values, p)), three, *independent(draw, 0.02)),
        Pair("a chain on a grid as Gauss-Markov", chain, room(0.2), *independent(walk, 0.4, 500, 30), 15_000),
        Pair("Gaussian as atoms", us.IID(us.Gaussian(0.0, 1.0)), three,
             *independent(lambda rng, T, N, s=1.0: s * rng.standard_normal((T, 1, N)), 1.04)),
    ]  # fmt: skip


def hidden() -> list[Pair]:
    P = np.array([[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
    start = np.array([0.5, 0.25, 0.25])

    def states(rng, T, N):
        s = [rng.choice(3, N, p=start)]
        table = np.cumsum(P, axis=1)
        for _ in range(T - 1):
            s.append(np.minimum((rng.random(N)[:, None] > table[s[-1]]).sum(axis=1), 2))
        return np.stack(s)

    normal = us.HiddenMarkov(P, start, [us.Gaussian(0.0, 1.0), us.Gaussian(4.0, 0.25), us.Gaussian(-3.0, 4.0)])
    heavy = us.HiddenMarkov(
        P, start, [us.Scalar(stats.t(4)), us.Scalar(stats.gamma(3.0, loc=2.0)), us.Gaussian(-3.0, 4.0)]
    )
    tables = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]
    discrete = us.HiddenMarkov(P, start, [us.Atoms([0.0, 1.0, 2.0], t) for t in tables])

    def normals(rng, T, N, sd=0.5):
        s = states(rng, T, N)
        return (np.array([0.0, 4.0, -3.0])[s] + np.array([1.0, sd, 2.0])[s] * rng.standard_normal((T, N)))[:, None, :]

    def heavies(rng, T, N, nu=4.0):
        s = states(rng, T, N)
        options = (
            rng.standard_t(nu, (T, N)),
            2.0 + rng.gamma(3.0, size=(T, N)),
            -3.0 + 2.0 * rng.standard_normal((T, N)),
        )
        return np.choose(s, options)[:, None, :]

    def counts(rng, T, N, more=0.0):
        ends = np.cumsum(np.array(tables) + more * np.array([[-1.0, 1.0, 0.0]] * 3), axis=1)
        return (
            (rng.random((T, N))[..., None] > ends[states(rng, T, N)]).sum(axis=2).clip(0, 2)[:, None, :].astype(float)
        )

    return [
        Pair("hidden Markov as Gauss-Markov", normal, room(0.5), *independent(normals, 0.55)),
        Pair("hidden Markov, t and gamma, as hidden Markov", heavy, normal, *independent(heavies, 30.0)),
        Pair("discrete hidden Markov as hidden Markov", discrete, normal, *independent(counts, 0.02)),
    ]


def grids() -> list[Pair]:
    """Rounded readings in and out; sd of an innovation of the room is about 0.5."""

    def rounded(model, step, offset=0.0):
        def draw(rng, T, N, scale=1.0):
            Y = simulate.of_model(rng, model, T, N)
            mean = Y.mean(axis=2, keepdims=True)
            Y = Y if scale == 1.0 else mean + scale * (Y - mean)
            return offset + step * np.round((Y - offset) / step)

        return draw

    fine, coarse = us.Quantised(room(1), step=0.125), us.Quantised(room(0.6, Q=0.3), step=0.5)
    noisy = us.Quantised(room(1, Q=0.4), step=1.0, offset=0.5)
    return [
        Pair("fine grid as a coarser one", fine, coarse, *independent(rounded(room(1), 0.125), 1.04)),
        Pair("grid as no grid", noisy, room(0.6), *independent(rounded(room(1, Q=0.4), 1.0, 0.5), 1.04)),
        Pair("no grid as a grid", room(1), coarse, *independent(lambda rng, T, N, R=0.1:
             simulate.of_model(rng, room(1, R=R), T, N), 0.12)),
    ]  # fmt: skip


def densities() -> list[Pair]:
    """What is computed by quadrature, reading by reading: as many readings as it takes to find the twins at 1e-6."""
    log_c = math.log(math.sqrt(2.0) * math.gamma(0.25) / 2.0)

    def quartic(y, past):
        return -((y - 0.5 * (past[-1] if past.size else 0.0)) ** 4) / 4 - log_c

    source = us.General(conditional=quartic, memory=1)

    def draw(rng, T, N, scale=1.0):
        # e^4 / 4 has the gamma law with shape 1/4
        def noise(rng, n):
            return scale * (4.0 * rng.gamma(0.25, size=n)) ** 0.25 * rng.choice([-1.0, 1.0], n)

        return simulate.autoregressive(rng, [0.5], 0.0, noise, [0.0], T, N)

    def growth(x, k):
        return 0.5 * x + 25.0 * x / (1.0 + x * x) + 8.0 * math.cos(1.2 * k)

    kitagawa = us.Nonlinear(
        move=growth, read=lambda x: x * x / 20.0, process_noise=us.Gaussian(0.0, 10.0),
        reading_noise=us.Gaussian(0.0, 1.0), initial=us.Gaussian(0.0, 5.0), method="point-mass",
    )  # fmt: skip

    def simulated(rng, T, N, sd=1.0):
        x, out = math.sqrt(5.0) * rng.standard_normal(N), []
        for k in range(1, T + 1):
            x = growth(x, k) + math.sqrt(10.0) * rng.standard_normal(N)
            out.append(x * x / 20.0 + sd * rng.standard_normal(N))
        return np.stack(out)[:, None, :]

    return [
        Pair("nonlinear as Gauss-Markov", kitagawa, room(0.5), *independent(simulated, 1.5, 25, 50), 1250),
        Pair("density as Gauss-Markov", source, room(0.5), *independent(draw, 1.15, 100, 12), 1200),
        Pair("Gauss-Markov as density", room(1), source, *independent(lambda rng, T, N, R=0.1:
             simulate.of_model(rng, room(1, R=R), T, N), 1.0, 10, 25), 250),
    ]  # fmt: skip


PAIRS = pairs()
GENERAL = [*mixtures(), *vectors(), *atoms(), *hidden(), *grids(), *densities()]
