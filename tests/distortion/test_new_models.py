"""Cost matrices of mixtures, hidden chains, atoms and rounded sensors, against enumeration and plain simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import room
from scipy import integrate, stats

import understudy as us
from understudy.distortion import simulation
from understudy.distortion.costs import costs
from understudy.distortion.simulation import colour_all, quick
from understudy.laws.atoms import Atoms
from understudy.laws.mixture import Mixture
from understudy.laws.multivariate import GaussianCopula, GaussianMixture
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.nonlinear import Nonlinear
from understudy.models.quantised import Quantised

FALSE_ALARM = 1e-6
NORMAL = us.Gaussian(0.0, 1.0)


def critical(tests):
    """Standard errors that an estimate may be off, at the false-alarm rate shared by so many tests."""
    return stats.norm.isf(FALSE_ALARM / tests / 2)


def student(loc):
    """A law that is not Gaussian."""
    return us.Scalar(stats.t(4.0, loc=loc))


def chain(v, laws):
    """A hidden chain of two states that the value makes restless."""
    return HiddenMarkov([[0.9 - 0.3 * v, 0.1 + 0.3 * v], [0.2, 0.8]], [0.5, 0.5], laws)


MODELS = {
    "hidden": lambda v: chain(v, [NORMAL, us.Gaussian(5.0 + v, 2.0)]),
    "hidden student": lambda v: chain(v, [student(0.0), student(5.0 + v)]),
    "hidden atoms": lambda v: chain(v, [Atoms([0.0, 1.0], [0.5, 0.5]), Atoms([0.0, 2.0, 5.0], [0.1, 0.3, 0.6])]),
    "hidden channels": lambda v: chain(v, [us.Independent(NORMAL, student(v)), us.Independent(student(3.0), NORMAL)]),
    "hidden vector": lambda v: chain(
        v, [us.Gaussian([0.0, v], [[1.0, 0.5], [0.5, 1.0]]), us.Gaussian([3.0, 3.0], np.eye(2))]
    ),
    "mixture": lambda v: us.IID(Mixture([0.3, 0.7], [NORMAL, student(4.0 + v)])),
    "mixture vector": lambda v: us.IID(
        GaussianMixture([0.3, 0.7], [[0.0, 0.0], [4.0 + v, 1.0]], [np.eye(2), [[2.0, v], [v, 1.0]]])
    ),
    "copula": lambda v: us.IID(GaussianCopula([[1.0, 0.8 * v], [0.8 * v, 1.0]], [NORMAL, student(v)])),
    "fine grid": lambda v: Quantised(room(v, Q=0.1 + v), 0.1),
    "coarse grid": lambda v: Quantised(room(0.1 * v, Q=0.1 + v, mean0=10.0), 1.0, low=0.0, high=12.0),
    "grid and not": lambda v: Quantised(
        us.GaussMarkov(np.diag([0.9, 0.5]), np.eye(2), np.eye(2), np.eye(2), [v, 0.0], 0.0, [0.0, 0.0], np.eye(2)),
        [1.0, None],
    ),
}  # fmt: skip
SLOW = pytest.mark.long(seconds=3, reason="quantiles by a search, reading by reading")


def by_hand(source, target, T, N, measure):
    """Mean distortion and its standard error, by sampling and disguising N sequences."""
    Y = us.sample(source, T, n=N, rng=1)
    Y_out = us.disguise(Y, source, target, rng=2)
    found = measure(Y - Y_out).mean(axis=(0, 1))
    return found.mean(), found.std(ddof=1) / N**0.5


@pytest.mark.sample(default=2, seconds=5, reason="nine pairs of models, simulated")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[SLOW] if name in ("hidden student", "hidden channels") else []) for name in MODELS],
)
def test_costs_agree_with_disguised_readings(name):
    """Four readings, several pairs and one model as itself, at a false-alarm rate of 1e-6; ten times as much shows."""
    family = us.Family(MODELS[name], values=[0, 1])
    found = costs(family, pseudo=[0, 0.5], horizon=4, distortion="mse", accuracy=0.05)
    rounded = "grid" in name
    N = 250 if rounded else 25 if name in ("hidden student", "hidden channels", "mixture", "mixture vector") else 250
    off = []
    for i, j, v in ((0, 0, 0), (0, 1, 0.5), (1, 1, 0.5)):
        mean, error = by_hand(family.model(i), family.model(v), 4, N, np.square)
        if (i, j) == (0, 0) and not rounded:
            assert found.matrix[0, 0] == found.error[0, 0] == 0.0
            assert mean < 1e-12
            continue
        both = np.hypot(error, found.error[i, j])
        assert abs(mean - found.matrix[i, j]) < critical(40) * both
        off.append(abs(mean - 10.0 * found.matrix[i, j]) / both)
    assert max(off) > critical(40)


@pytest.mark.long(seconds=2, reason="particle filters")
def test_costs_of_a_state_space_with_functions():
    """A linear room written as functions, by point masses: the exact matrix, at a false-alarm rate of 1e-6."""
    one, tenth = us.Gaussian(0.0, 1.0), us.Gaussian(0.0, 0.1)

    def sensor(v):
        return Nonlinear(lambda x: 0.9 * x + v, lambda x: x, tenth, tenth, one, method="point-mass", points=60)

    def linear(v):
        return us.GaussMarkov(0.9, 1.0, 0.1, 0.1, v, mean0=0.0, cov0=1.0)

    found = costs(us.Family(sensor, values=[0.0, 1.0]), horizon=2, accuracy=0.2)
    exact = costs(us.Family(linear, values=[0.0, 1.0]), horizon=2)
    assert found.method[0, 1] == "Monte Carlo"
    assert found.matrix[0, 1] == pytest.approx(exact.matrix[0, 1], rel=1e-3, abs=critical(1) * found.error[0, 1])


# Atoms that move: everything can be enumerated ------------------------------------------------------


def steps(law, other):
    """What two laws of atoms take together under one score, with probabilities."""
    a, b = np.cumsum(law.probabilities), np.cumsum(other.probabilities)
    edges = np.unique(np.concatenate(([0.0], a[:-1], b[:-1], [1.0])))
    for low, high in itertools.pairwise(edges):
        middle = 0.5 * (low + high)
        i, j = (min(int(np.searchsorted(c, middle)), len(c) - 1) for c in (a, b))
        yield law.values[i], other.values[j], high - low


def enumerated(source, target, T, d):
    """The mean over T readings of E d(y, ~y): a tree of all readings that the two models take together."""
    level, total = {(source.start(), target.start()): 1.0}, 0.0
    for _ in range(T):
        after = {}
        for (state, other), p in level.items():
            for y, y_out, q in steps(source.predict(state), target.predict(other)):
                total += p * q * d(y, y_out)
                key = source.update(state, float(y)), target.update(other, float(y_out))
                after[key] = after.get(key, 0.0) + p * q
        level = after
    return total / T


def counter(v):
    """A Markov chain on a grid."""

    def onward(y):
        up = 0.3 + 0.2 * v
        return Atoms([y - 1.0, y, y + 1.0], [0.3, 0.7 - up, up])

    return us.Markov(Atoms([0.0, 5.0], [0.5 - 0.2 * v, 0.5 + 0.2 * v]), onward)


@pytest.mark.sample(default=1, seconds=2, reason="trees of readings")
@pytest.mark.parametrize("make", [MODELS["hidden atoms"], counter])
def test_atoms_that_move_agree_with_their_tree(make):
    """Four readings, every pair, at a false-alarm rate of 1e-6; twice as much is not; one reading alone is exact."""
    family = us.Family(make, values=[0, 1])
    found = costs(family, pseudo=[0, 0.5, 1], horizon=4, distortion="mae", accuracy=0.1)
    for i, a in enumerate((0, 1)):
        for j, b in enumerate((0, 0.5, 1)):
            truth = enumerated(family.model(a), family.model(b), 4, lambda y, x: abs(y - x))
            assert abs(found.matrix[i, j] - truth) <= critical(12) * found.error[i, j] + 1e-14
            if truth > 0.0:
                assert abs(2.0 * found.matrix[i, j] - truth) > critical(12) * found.error[i, j]
    once = costs(family, pseudo=[0, 0.5, 1], horizon=1, distortion="mae")
    assert set(once.method.ravel()) == {"exact"}
    truth = enumerated(family.model(1), family.model(0), 1, lambda y, x: abs(y - x))
    assert once.matrix[1, 0] == pytest.approx(truth, rel=1e-12)


# Rounded sensors ----------------------------------------------------------------------------------


def cells(model):
    """The law of the first reading of a rounded room, as atoms, from the distribution function of the unrounded one."""
    law = model.linear.predict(model.linear.start())
    step = model.grid.channels[0].step
    centre = step * round(float(law.mean[0] if np.ndim(law.mean) else law.mean) / step)
    points = centre + step * np.arange(-60, 61)
    F = stats.norm(float(np.ravel(law.mean)[0]), float(np.ravel(law.cov)[0]) ** 0.5).cdf
    p = F(points + step / 2) - F(points - step / 2)
    return Atoms(points, p / p.sum())


def test_the_first_reading_of_a_rounded_room_is_a_pair_of_staircases():
    """For one reading the sum over cells is exact; the simulation agrees at a false-alarm rate of 1e-6."""
    family = us.Family(lambda v: Quantised(room(0.3 * v, cov0=1.0 + v), 1.0), values=[0, 1])
    found = costs(family, pseudo=[0, 0.5, 1], horizon=1, distortion="mae", accuracy=0.05)
    assert set(found.method.ravel()) == {"Monte Carlo"}
    for i, a in enumerate((0, 1)):
        for j, b in enumerate((0, 0.5, 1)):
            pairs = steps(cells(family.model(a)), cells(family.model(b)))
            truth = sum(p * abs(y - x) for y, x, p in pairs)
            assert abs(found.matrix[i, j] - truth) <= critical(6) * found.error[i, j] + 1e-9


def test_a_rounded_room_as_itself_is_not_unchanged(monkeypatch):
    """Its score comes from the cell and a fresh uniform; with the scores of the draw it would be, which is the twin."""
    family = us.Family(lambda v: Quantised(room(v), 1.0), values=[0, 1])
    found = costs(family, horizon=3, distortion="mae", accuracy=0.2)
    assert (np.diag(found.matrix) > critical(2) * np.diag(found.error)).all()
    assert (np.diag(found.matrix) < 1.0).all()
    monkeypatch.setattr(simulation, "_releases", lambda plan: np.zeros(len(plan.sources), dtype=bool))
    shared = costs(family, horizon=3, distortion="mae", accuracy=0.2)
    assert not np.diag(shared.matrix).any()


def test_rounding_costs_what_it_must():
    """A room read to the nearest unit and played in full by itself: at least the rounding, at most a few units."""
    family = us.Family({"rounded": Quantised(room(0), 0.5), "full": room(0)})
    found = costs(family, horizon=3, distortion="mae", accuracy=0.1)
    assert found.method[1, 1] == "exact"
    assert found.matrix[1, 1] == 0.0
    # played in full by a rounded sensor, the difference is what rounding takes: uniform in half a step
    assert abs(found.matrix[1, 0] - 0.125) < critical(2) * found.error[1, 0] + 0.01
    assert 0.125 < found.matrix[0, 1] < 0.5


@pytest.mark.long(seconds=2, reason="particle filters")
def test_the_seed_decides_the_uniforms_too():
    """Twice the same figures; another seed, others."""
    family = us.Family(lambda v: Quantised(room(v), 1.0), values=[0, 1])

    def run(rng=None):
        return costs(family, horizon=4, accuracy=0.5, rng=rng).matrix

    assert np.array_equal(run(), run())
    assert np.array_equal(run(7), run(np.random.default_rng(7)))
    assert not np.array_equal(run(), run(7))


# Mixtures by quadrature ---------------------------------------------------------------------------


@pytest.mark.sample(default=1, seconds=3, reason="three mixtures, simulated")
@pytest.mark.parametrize("apart", [1.0, 4.0, 12.0])
def test_mixtures_are_integrated(apart):
    """E |y - ~y| is the area between the distribution functions; to 1e-7, and where modes are apart, or simulated."""

    def blend(v):
        return Mixture([0.3, 0.7], [us.Gaussian(v, 1.0), student(v + apart)])

    family = us.Family({0: us.IID(blend(0.0)), 1: us.IID(Mixture([0.6, 0.4], [NORMAL, us.Gaussian(apart, 4.0)]))})
    found = costs(family, distortion="mae")

    def F(x):
        return 0.3 * stats.norm.cdf(x) + 0.7 * stats.t.cdf(x, 4, loc=apart)

    def G(x):
        return 0.6 * stats.norm.cdf(x) + 0.4 * stats.norm.cdf(x, apart, 2.0)

    edges = [-np.inf, -10.0, *np.linspace(-8.0, apart + 8.0, 30), apart + 30.0, np.inf]
    truth = sum(integrate.quad(lambda x: abs(F(x) - G(x)), a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(edges))
    if found.method[0, 1] == "quadrature":
        assert found.matrix[0, 1] == pytest.approx(truth, rel=1e-7)
        assert found.error[0, 1] <= 1e-8 * truth
    else:
        assert abs(found.matrix[0, 1] - truth) < critical(1) * found.error[0, 1]
    assert (apart > 10.0) or found.method[0, 1] == "quadrature"
    mean = 0.5 * (0.7 * apart + 0.4 * apart)
    assert found.mean_reading == pytest.approx(mean, abs=1e-7 + critical(1) * found.mean_reading_error)


@pytest.mark.long(seconds=2, reason="costs integrated and simulated")
def test_autoregressions_with_mixed_noise():
    """The squared error of linear models with any noise: by quadrature, as a simulation finds it."""
    family = us.Family(lambda v: us.AutoRegressive(0.5 + 0.2 * v, v, Mixture([0.5, 0.5], [NORMAL, student(v)])), [0, 1])
    found = costs(family, horizon=5)
    assert found.method[0, 1] == "quadrature"
    mean, error = by_hand(family.model(0), family.model(1), 5, 300, np.square)
    assert abs(mean - found.matrix[0, 1]) < critical(1) * error
    assert abs(mean - 2.0 * found.matrix[0, 1]) > critical(1) * error


# Many sequences at once ---------------------------------------------------------------------------


@pytest.mark.sample(default=6, seconds=1, reason="many pairs, integrated or simulated")
@pytest.mark.parametrize("name", MODELS)
def test_many_sequences_at_once_are_the_same_sequences(name):
    """Colouring with arrays over the sequences, against the model's own path, to 1e-9."""
    model = MODELS[name](0.5)
    z = np.random.default_rng(3).standard_normal((6, model.dim, 5))
    assert np.abs(colour_all(z, model) - us.colour(z, model)).max() < 1e-9
    assert quick(model)


@pytest.mark.parametrize("name", ["hidden", "mixture", "fine grid"])
def test_progress_is_told(name):
    """Fractions between 0 and 1, the last of them 1."""
    told = []
    costs(us.Family(MODELS[name], values=[0, 1]), horizon=3, accuracy=0.3, progress=told.append)
    assert told[-1] == 1.0
    assert all(0.0 <= fraction <= 1.0 for fraction in told)


def test_hidden_chains_have_no_limit_here():
    """They are simulated, which needs a number of readings."""
    with pytest.raises(us.errors.DesignError, match="HiddenMarkov model is found by simulation"):
        costs(us.Family(MODELS["hidden"], values=[0, 1]))


def test_a_rounded_room_is_not_taken_for_the_room_behind():
    """Neither its steps nor its limit are forgotten."""
    behind = us.Family(room, values=[0, 1]).along([0, 1, 1])
    family = us.Family({0: Quantised(behind, 1.0), 1: Quantised(behind, 2.0)})
    with pytest.raises(us.errors.DesignError, match="given for 3 steps only"):
        costs(family, horizon=4)
    with pytest.raises(us.errors.DesignError, match="horizon is missing"):
        costs(us.Family({0: Quantised(room(0), 1.0), 1: room(1)}))
