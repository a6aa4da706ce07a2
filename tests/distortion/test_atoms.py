"""Independent readings with atoms: the cost matrix is a finite sum, and no quadrature is led astray by a staircase."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import understudy as us
from understudy.distortion.costs import costs
from understudy.laws.atoms import Atoms
from understudy.laws.scalar import Shifted

FALSE_ALARM = 1e-6


def coupled(values, p, others, q, d):
    """E d(y, ~y) under one uniform, in fractions: the quantile functions between all their steps."""
    p, q = ([Fraction(x) for x in part] for part in (p, q))
    p, q = ([x / sum(part) for x in part] for part in (p, q))
    total, i, j, left, right = Fraction(0), 0, 0, p[0], q[0]
    while True:
        step = min(left, right)
        total += step * Fraction(float(d(values[i], others[j])))
        left, right = left - step, right - step
        if left == 0:
            if i == len(p) - 1:
                return float(total)
            i, left = i + 1, p[i + 1]
        if right == 0:
            if j == len(q) - 1:
                return float(total)
            j, right = j + 1, q[j + 1]


def absolute(y, y_out):
    """The absolute error, as a function of one's own."""
    return np.abs(y - y_out)


GRID = {
    "a": ([400.0, 405.0, 410.0], [0.2, 0.5, 0.3]),
    "b": ([395.0, 400.0, 405.0, 410.0], [0.1, 0.2, 0.3, 0.4]),
    "c": ([405.0], [1.0]),
    "d": ([400.0, 405.0, 410.0, 415.0], [0.0, 0.6, 0.4, 0.0]),
}
FAMILY = us.Family({name: us.IID(Atoms(*steps)) for name, steps in GRID.items()})


@pytest.mark.parametrize(
    ("distortion", "d"),
    [("mae", lambda a, b: abs(a - b)), ("mse", lambda a, b: (a - b) ** 2), (absolute, lambda a, b: abs(a - b))],
)
@pytest.mark.parametrize("horizon", [None, 1, 7])
def test_a_pair_of_grids_is_a_finite_sum(distortion, d, horizon):
    """Every pair, single values and values of probability zero included, to rounding, and said to be exact."""
    found = costs(FAMILY, horizon=horizon, distortion=distortion)
    assert set(found.method.ravel()) == {"exact"}
    assert not found.error.any()
    for i, (values, p) in enumerate(GRID.values()):
        for j, (others, q) in enumerate(GRID.values()):
            assert found.matrix[i, j] == pytest.approx(coupled(values, p, others, q, d), rel=1e-13, abs=1e-14)
    assert not np.diag(found.matrix).any()
    assert found.mean_reading == pytest.approx(np.mean([np.dot(*steps) for steps in GRID.values()]), rel=1e-14)


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=6),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=6),
    st.integers(0, 60),
)
@settings(max_examples=60, deadline=None)
def test_any_pair_of_grids(counts, others, tiny):
    """Random probabilities, with one value as rare as 1e-18 that costs as much as all others: its digits count."""
    steps = []
    for part in (counts, others):
        p = np.array([*part[:-1], part[-1] * 2.0**-tiny])
        steps.append(([float(k) for k in range(len(p) - 1)] + [1e3 * 2.0**tiny], p / p.sum()))
    family = us.Family({k: us.IID(Atoms(*pair)) for k, pair in enumerate(steps)})
    found = costs(family, distortion="mae").matrix[0, 1]
    assert found == pytest.approx(coupled(*steps[0], *steps[1], lambda a, b: abs(a - b)), rel=1e-9, abs=1e-12)


def test_the_sum_is_the_distortion_of_a_disguise():
    """Readings disguised with auxiliary uniforms have it, at a false-alarm rate of 1e-6; another coupling has not."""
    one, other = FAMILY.model("a"), FAMILY.model("b")
    N = 20_000
    Y = us.sample(one, N, rng=1)
    errors = np.abs(us.disguise(Y, one, other, rng=2) - Y)
    z = stats.norm.isf(FALSE_ALARM / 2)
    exact = costs(FAMILY, distortion="mae").matrix[0, 1]
    assert abs(errors.mean() - exact) < z * errors.std() / N**0.5
    apart = np.abs(us.sample(other, N, rng=3) - Y)
    assert abs(apart.mean() - exact) > z * apart.std() / N**0.5


def test_channels_with_atoms():
    """Independent channels: a sum over both; moved ones too; weights as elsewhere."""
    one = us.Independent(Atoms(*GRID["a"]), Atoms(*GRID["b"]))
    other = Shifted(us.Independent(Atoms(*GRID["b"]), Atoms(*GRID["a"])), [10.0, 20.0])
    family = us.Family({0: us.IID(one), 1: us.IID(other)})
    parts = []
    for here, there, by in (("a", "b", 10.0), ("b", "a", 20.0)):
        moved = [value + by for value in GRID[there][0]]
        parts.append(coupled(*GRID[here], moved, GRID[there][1], lambda a, b: (a - b) ** 2))
    assert costs(family).matrix[0, 1] == pytest.approx(sum(parts) / 2, rel=1e-13)
    weighted = costs(family, weights=[0.0, 3.0])
    assert weighted.matrix[0, 1] == pytest.approx(3 * parts[1], rel=1e-13)
    assert set(weighted.method.ravel()) == {"exact"}


def test_a_staircase_is_not_integrated():
    """Beside a continuous law it is simulated, and the simulation agrees with the sum of integrals over its steps."""
    atoms, normal = Atoms([-1.0, 0.0, 2.0], [0.3, 0.4, 0.3]), us.Gaussian(0.5, 2.0)
    family = us.Family({"atoms": us.IID(atoms), "normal": us.IID(normal), "other": us.IID(us.Gaussian(0.0, 1.0))})
    found = costs(family, accuracy=0.005)
    assert found.method.tolist() == [
        ["exact", "Monte Carlo", "Monte Carlo"],
        ["Monte Carlo", "exact", "exact"],
        ["Monte Carlo", "exact", "exact"],
    ]
    # E (a - m - s Z)^2 over an interval of scores, from the truncated moments of Z
    edges = stats.norm.ppf([0.0, 0.3, 0.7, 1.0])
    total, m, s = 0.0, 0.5, 2.0**0.5
    for a, low, high in zip(atoms.values, edges[:-1], edges[1:], strict=True):
        moments = [stats.norm.expect(lambda x, k=k: x**k, lb=low, ub=high) for k in range(3)]
        total += (a - m) ** 2 * moments[0] - 2 * (a - m) * s * moments[1] + s * s * moments[2]
    z = stats.norm.isf(FALSE_ALARM / 4)
    for at in ((0, 1), (1, 0)):
        assert abs(found.matrix[at] - total) < z * found.error[at]
    assert (np.abs(found.matrix[0, 1] * 1.05 - total) > z * found.error[0, 1]).all()


def test_a_law_that_does_not_say_what_its_atoms_are_is_simulated():
    """A law of one's own with `atoms`: no quadrature, no sum."""

    class Sign:
        """Plus or minus one."""

        dim, atoms = 1, True

        def score(self, y, v=None):
            return stats.norm.ppf((np.asarray(y) > 0) / 2 + np.asarray(v) / 2)

        def value(self, z):
            return np.where(np.asarray(z) > 0, 1.0, -1.0)

        def logpdf(self, y):
            return np.full(np.shape(y), np.log(0.5))

    found = costs(us.Family({0: us.IID(Sign()), 1: us.IID(Atoms([-1.0, 1.0], [0.25, 0.75]))}), distortion="mae")
    assert found.method[0, 1] == "Monte Carlo"
    assert abs(found.matrix[0, 1] - 0.5) < stats.norm.isf(FALSE_ALARM / 2) * found.error[0, 1]
    assert found.matrix[0, 0] == found.error[0, 0] == 0.0
