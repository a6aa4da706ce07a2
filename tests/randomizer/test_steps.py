"""Interior-point steps, counted: they do not depend on the machine, so a slower method shows here first."""

from __future__ import annotations

import math

import numpy as np
import pytest
from randomizer_cases import exact_case

import understudy as us

MOST = 25
SIZES = [
    (2, 2), (2, 6), (3, 5), (5, 3), (8, 8), (16, 16), (20, 12), (12, 20), (31, 33), (32, 32), (33, 33), (64, 64),
    (64, 100), (128, 128), (200, 100), (256, 256),
]  # fmt: skip
SHARES = [1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]


def points(rng, k, even):
    return np.linspace(0.0, 1.0, k) if even else np.sort(rng.random(k))


def costs(family, rng, m, n, even):
    """The costs of an ordinary problem; evenly spaced points, or random ones."""
    if family == "Hamming":
        return 1.0 - np.eye(m, n)
    if family == "erasure":
        return np.hstack([1e6 * (1.0 - np.eye(m)), np.ones((m, 1))])
    if family == "random":
        return rng.random((m, n))
    apart = np.abs(points(rng, m, even)[:, None] - points(rng, n, even))
    return apart**2 if family == "squared" else apart


def problems(family, m, n):
    """Budgets from a millionth of saturation to nearly all of it, with equal and with random priors."""
    for seed in range(2):
        rng = np.random.default_rng([m, n, seed])
        if family == "exact":
            case = exact_case(rng, m, n, min(3, n))
            yield case.cost, case.prior, case.budget
            continue
        cost = costs(family, rng, m, n, seed == 0)
        p = np.full(m, 1.0 / m) if seed == 0 else rng.dirichlet(np.full(m, 2.0))
        saturation = us.solve(cost, prior=p, leakage=math.inf).leakage
        for share in SHARES if saturation > 0.0 else ():
            yield cost, p, share * saturation


@pytest.mark.sample(default=1, seconds=6, reason="six families of problems of up to 256 by 256")
@pytest.mark.parametrize("family", ["squared", "absolute", "Hamming", "random", "exact", "erasure"])
def test_at_most_25_steps(family):
    """Every ordinary problem of up to 256 by 256 is solved and proven in 25 steps or fewer."""
    counts = {}
    for m, n in SIZES:
        for cost, p, budget in problems(family, m, n):
            solved = us.solve(cost, prior=p, leakage=budget)
            assert solved.status == "optimal"
            counts[m, n, f"{budget:.2g}"] = solved.iterations
    assert min(counts.values()) >= 1  # something was counted
    assert {key: steps for key, steps in counts.items() if steps > MOST} == {}


def test_steps_hardly_grow_with_size():
    """Squared error, 1 nat: from 8 to 256 points the number of steps does not double."""
    found = []
    for n in (8, 16, 32, 64, 128, 256):
        x = np.linspace(0.0, 1.0, n)
        found.append(us.solve((x[:, None] - x) ** 2, leakage=1.0).iterations)
    assert min(found) >= 1
    assert max(found) <= 2 * min(found)
    assert max(found) <= 20


def test_steps_are_counted_over_all_attempts():
    """Where nothing had to be sought the count is zero; elsewhere it is what the method took."""
    assert us.solve(1.0 - np.eye(3), leakage=0.0).iterations == 0
    assert us.solve(1.0 - np.eye(3), leakage=math.inf).iterations == 0
    assert 3 <= us.solve(1.0 - np.eye(3), leakage=0.5).iterations <= MOST
