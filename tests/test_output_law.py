"""Theorem 1 by experiment: whatever goes in, the output has exactly the law of the target.

Each pair: 100,000 readings simulated from the definition of the source (not through our scores),
disguised, and scored under the target. The scores must be white standard normals (level, spread,
shape, serial and cross correlation, magnitudes), at a false-alarm rate of 1e-6 a test. Each has two
twins that must fail: the same output scored under the source, and readings of a slightly different
source put through the same transformation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import simulate
from scipy import stats

import understudy as us
from understudy.checks import whiteness

T, N = 500, 200
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Pair:
    name: str
    source: Any
    target: Any
    draw: Callable[[np.random.Generator], np.ndarray]
    # readings of a source that differs a little: the transformation must not whiten these
    other: Callable[[np.random.Generator], np.ndarray]


def room(people: float, **changed: float) -> us.GaussMarkov:
    given = {"A": 0.95, "C": 1.0, "Q": 0.1, "R": 0.1, "b": 10.0 * people, "mean0": 100.0, "cov0": 1.0, **changed}
    return us.GaussMarkov(**given)


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


PAIRS = pairs()


@pytest.fixture(scope="module", params=PAIRS, ids=[p.name for p in PAIRS])
def case(request):
    pair = request.param
    rng = np.random.default_rng(20231)
    return pair, us.disguise(pair.draw(rng), source=pair.source, target=pair.target), rng


def test_output_has_the_law_of_the_target(case):
    """Scores of the output under the target are white standard normals (false alarm 1e-6)."""
    pair, disguised, _ = case
    assert disguised.size >= 100_000
    result = whiteness(us.whiten(disguised, pair.target))
    assert result.p_value > FALSE_ALARM, result.weakest


def test_the_same_output_does_not_have_the_law_of_the_source(case):
    """The twin: scored under the source, the same output fails."""
    pair, disguised, _ = case
    try:
        scores = us.whiten(disguised, pair.source)
    except us.errors.ReadingError:  # impossible under the source: a negative reading of a gamma law
        assert pair.source.dim == 3
    else:
        assert whiteness(scores).p_value < FALSE_ALARM


def test_readings_of_another_source_do_not_come_out_right(case):
    """The other twin: readings that a wrong source model describes almost rightly fail too."""
    pair, _, rng = case
    wrong = us.disguise(pair.other(rng), source=pair.source, target=pair.target)
    assert whiteness(us.whiten(wrong, pair.target)).p_value < FALSE_ALARM


def test_there_are_enough_pairs():
    """At least ten, scalar and with three channels."""
    assert len(PAIRS) >= 10
    assert {1, 3} <= {p.source.dim for p in PAIRS}
