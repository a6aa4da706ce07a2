"""The hidden Markov model against the sum over all hidden paths, and through every check."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from helpers import is_white, room
from scipy import stats

import understudy as us
from understudy.checks import check_model, check_transform
from understudy.errors import ModelError, ReadingError
from understudy.laws.atoms import Atoms
from understudy.laws.mixture import Mixture
from understudy.laws.multivariate import GaussianCopula, GaussianMixture
from understudy.laws.scalar import Shifted
from understudy.models.hidden_markov import HiddenMarkov

A3 = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
P3 = np.array([0.5, 0.2, 0.3])
COV = np.array([[1.0, 0.6, 0.1], [0.6, 2.0, -0.3], [0.1, -0.3, 0.5]])


class Enumeration:
    """All hidden paths of a sequence, one by one.

    `density(s, before, y)` and `cdf(s, before, y)` are those of the next channel of state s, given the
    channels before it. Everything else is sums over paths.
    """

    def __init__(self, transition, initial, density, cdf):
        self.A, self.p, self.density, self.cdf = np.asarray(transition), np.asarray(initial), density, cdf

    def reading(self, s, y):
        """Density of a whole reading under state s; 1 if it is missing."""
        y = np.atleast_1d(y)
        if np.isnan(y).any():
            return 1.0
        return math.prod(self.density(s, y[:i], y[i]) for i in range(y.size))

    def paths(self, Y):
        """Each path with its probability and the density of the readings along it."""
        states = range(self.p.size)
        densities = [[self.reading(s, y) for s in states] for y in Y]
        for path in itertools.product(states, repeat=len(Y)):
            weight = self.p[path[0]] * math.prod(self.A[a, b] for a, b in itertools.pairwise(path))
            yield path, weight * math.prod(row[s] for s, row in zip(path, densities, strict=True))

    def loglik(self, Y):
        return math.log(math.fsum(weight for _, weight in self.paths(Y)))

    def conditional_cdf(self, Y, channel):
        """Pr(channel of the last reading is at most its value, given all before it)."""
        last = np.atleast_1d(Y[-1])
        states = range(self.p.size)
        seen = [math.prod(self.density(s, last[:i], last[i]) for i in range(channel)) for s in states]
        at_most = [self.cdf(s, last[:channel], last[channel]) if seen[s] else 0.0 for s in states]
        part = whole = 0.0
        for path, weight in self.paths([*Y[:-1], np.full(last.size, np.nan)]):
            whole += weight * seen[path[-1]]
            part += weight * seen[path[-1]] * at_most[path[-1]]
        return part / whole


def scalar_oracle(dists, transition=A3, initial=P3):
    return Enumeration(transition, initial, lambda s, before, y: dists[s].pdf(y), lambda s, before, y: dists[s].cdf(y))


def normal_given(mean, cov, before):
    """Mean and standard deviation of the next channel, by the textbook formula with solves."""
    n = len(before)
    if n == 0:
        return mean[0], math.sqrt(cov[0, 0])
    gain = np.linalg.solve(cov[:n, :n], cov[:n, n])
    return mean[n] + gain @ (np.asarray(before) - mean[:n]), math.sqrt(cov[n, n] - gain @ cov[:n, n])


def vector_oracle(means, covs):
    def law(s, before):
        return stats.norm(*normal_given(means[s], covs[s], before))

    return Enumeration(A3, P3, lambda s, before, y: law(s, before).pdf(y), lambda s, before, y: law(s, before).cdf(y))


def gaussian_case():
    dists = [stats.norm(0.0, 1.0), stats.norm(4.0, 0.5), stats.norm(-2.0, 3.0)]
    return HiddenMarkov(A3, P3, [us.Gaussian(d.mean(), d.var()) for d in dists]), scalar_oracle(dists)


def other_laws_case():
    dists = [stats.t(3, loc=1.0), stats.gamma(2.0, loc=-1.0), stats.uniform(-3.0, 5.0)]
    return HiddenMarkov(A3, P3, [us.Scalar(d) for d in dists]), scalar_oracle(dists)


def zeros_case():
    """A state that nothing leads back to, and one that nothing leads out of."""
    A, p = np.array([[0.5, 0.5, 0.0], [0.0, 0.6, 0.4], [0.0, 0.0, 1.0]]), np.array([1.0, 0.0, 0.0])
    dists = [stats.norm(0.0, 1.0), stats.norm(2.0, 1.0), stats.norm(4.0, 2.0)]
    laws = [us.Gaussian(d.mean(), d.var()) for d in dists]
    return HiddenMarkov(A, p, laws), scalar_oracle(dists, A, p)


def cycle_case():
    """A hidden state that moves round without chance."""
    A, p = np.roll(np.eye(3), 1, axis=1), np.array([0.2, 0.3, 0.5])
    dists = [stats.norm(0.0, 1.0), stats.norm(2.0, 1.0), stats.norm(4.0, 2.0)]
    laws = [us.Gaussian(d.mean(), d.var()) for d in dists]
    return HiddenMarkov(A, p, laws), scalar_oracle(dists, A, p)


def vector_case():
    means = np.array([[0.0, 0.0, 0.0], [2.0, -1.0, 1.0], [-1.0, 3.0, 0.0]])
    covs = [COV, np.eye(3), 2.0 * COV]
    return HiddenMarkov(A3, P3, [*map(us.Gaussian, means, covs)]), vector_oracle(means, covs)


def channels_case():
    """Independent channels, a Gaussian vector and a copula side by side."""
    core = np.array([[1.0, 0.5], [0.5, 1.0]])
    laws = [
        us.Independent(us.Gaussian(0.0, 1.0), us.Scalar(stats.laplace())),
        us.Gaussian([1.0, 1.0], [[1.0, 0.7], [0.7, 1.0]]),
        Shifted(GaussianCopula(core, [us.Scalar(stats.expon()), us.Gaussian(0.0, 4.0)]), [-1.0, 0.5]),
    ]

    def law(s, before):
        if s == 0:
            return stats.norm() if len(before) == 0 else stats.laplace()
        if s == 1:
            return stats.norm(*normal_given(np.ones(2), np.array([[1.0, 0.7], [0.7, 1.0]]), before))
        if len(before) == 0:
            return stats.expon(-1.0)
        # the second channel is Gaussian, so given the first it is Gaussian too
        return stats.norm(0.5 + 2.0 * 0.5 * stats.norm.ppf(stats.expon(-1.0).cdf(before[0])), 2.0 * math.sqrt(0.75))

    oracle = Enumeration(A3, P3, lambda s, before, y: law(s, before).pdf(y), lambda s, before, y: law(s, before).cdf(y))
    return HiddenMarkov(A3, P3, laws), oracle


CASES = {
    "gaussian": gaussian_case,
    "other laws": other_laws_case,
    "zeros": zeros_case,
    "cycle": cycle_case,
    "vectors": vector_case,
    "channels": channels_case,
}
GAPS = [(), (1,), (0, 2), (2, 3)]


def draw(model, T, seed, gaps=()):
    """Readings within every support, some of them missing."""
    Y = us.sample(model, T, rng=seed).reshape(T, -1)
    Y[list(gaps)] = np.nan
    return Y if model.dim > 1 else Y[:, 0]


@pytest.mark.sample(default=12, seconds=1, reason="many models")
@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("name", CASES)
def test_log_likelihood_is_the_sum_over_all_paths(name, gaps):
    """To 1e-10, missing readings summed out."""
    model, oracle = CASES[name]()
    Y = draw(model, 5, 3, gaps)
    assert us.loglik(Y, model) == pytest.approx(oracle.loglik(list(Y)), abs=1e-10)


@pytest.mark.sample(default=4, seconds=1, reason="24 models")
@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("name", CASES)
def test_scores_are_the_conditional_distribution_functions(name, gaps):
    """Phi(z_k) = Pr(Y_k <= y_k given the past) for each channel given those before it, to 1e-10."""
    model, oracle = CASES[name]()
    Y = draw(model, 5, 4, gaps)
    z = us.whiten(Y, model).reshape(5, -1)
    for k in range(5):
        for i in range(model.dim if k not in gaps else 0):
            assert stats.norm.cdf(z[k, i]) == pytest.approx(oracle.conditional_cdf(list(Y[: k + 1]), i), abs=1e-10)


@pytest.mark.parametrize("gaps", GAPS)
def test_atoms_against_the_sum_over_all_paths(gaps):
    """A discrete hidden Markov model, with values that not every state has."""
    tables = [{0.0: 0.5, 1.0: 0.5}, {1.0: 0.2, 2.0: 0.8}, {0.0: 0.1, 2.0: 0.3, 3.0: 0.6}]
    model = HiddenMarkov(A3, P3, [Atoms(list(t), list(t.values())) for t in tables])
    assert model.atoms
    oracle = Enumeration(
        A3,
        P3,
        lambda s, before, y: tables[s].get(y, 0.0),
        lambda s, before, y: sum(p for x, p in tables[s].items() if x <= y),
    )
    Y = np.array([1.0, 0.0, 2.0, 3.0, 2.0])
    Y[list(gaps)] = np.nan
    assert us.loglik(Y, model) == pytest.approx(oracle.loglik(list(Y)), abs=1e-10)
    state = model.start()
    for k, y in enumerate(Y.tolist()):
        if math.isnan(y):
            state = model.skip(state)
            continue
        law = model.predict(state)
        past = list(Y[:k])
        at, before = oracle.conditional_cdf([*past, y], 0), oracle.conditional_cdf([*past, y - 0.5], 0)
        assert stats.norm.cdf(law.score(y, 0.25)) == pytest.approx(before + 0.25 * (at - before), abs=1e-10)
        assert law.value(law.score(y, 0.25)) == y
        state = model.update(state, y)


def test_one_state_is_iid():
    """Independent draws from its law."""
    law = us.Gaussian(3.0, 4.0)
    model = HiddenMarkov([[1.0]], [1.0], [law])
    assert model.predict(model.start()) is law
    Y = us.sample(us.IID(law), 50, rng=1)
    np.testing.assert_allclose(us.whiten(Y, model), us.whiten(Y, us.IID(law)), atol=1e-14)
    assert model.update(model.start(), 17.0) == (1.0,)


def test_initial_is_the_law_of_the_state_at_the_first_reading():
    """No transition comes before it."""
    model = HiddenMarkov([[0.0, 1.0], [0.0, 1.0]], [1.0, 0.0], [us.Gaussian(0.0, 1.0), us.Gaussian(100.0, 1.0)])
    np.testing.assert_allclose(us.whiten([1.0, 101.0, 99.0], model), [1.0, 1.0, -1.0], atol=1e-12)


@pytest.mark.parametrize("name", [*CASES])
def test_skip_sums_the_hidden_state_out(name):
    """The next probabilities are the row vector times the matrix, and stay probabilities for ever."""
    model, _ = CASES[name]()
    state = model.update(model.start(), us.sample(model, 1, rng=1)[0])
    np.testing.assert_allclose(model.skip(state), np.array(state) @ model.transition, atol=1e-15)
    for _ in range(1000):
        state = model.skip(state)
    assert sum(state) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("y", [-60.0, 40.0, 60.0, 1e5, -1e100])
def test_a_reading_far_from_every_law_leaves_probabilities(y):
    """No 0/0: the law that is least surprised takes it, and scores go through."""
    model, _ = gaussian_case()
    state = model.update(model.start(), y)
    assert all(map(math.isfinite, state))
    assert sum(state) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(state, A3[2], rtol=1e-9)  # the widest law
    z = us.whiten([0.5, y, 0.5], model)
    assert np.isfinite(z).all()
    back = us.colour(z, model)
    np.testing.assert_allclose(back, [0.5, y, 0.5], rtol=1e-9)


def test_a_reading_that_no_state_allows_is_refused():
    """Beyond every support, or not an atom; the message does not show it."""
    bounded = HiddenMarkov(
        A3[:2, :2] / 0.9, [0.5, 0.5], [us.Scalar(stats.uniform(0, 1)), us.Scalar(stats.uniform(2, 1))]
    )
    discrete = HiddenMarkov(A3[:2, :2] / 0.9, [0.5, 0.5], [Atoms([0.0, 1.0], [0.5, 0.5]), Atoms([2.0], [1.0])])
    for model, y in ((bounded, 7.1875), (discrete, 7.1875)):
        with pytest.raises(ReadingError) as caught:
            us.whiten([0.0 if model.atoms else 0.5, y], model, rng=1)
        assert "7" not in str(caught.value)
        with pytest.raises(ReadingError, match="impossible"):
            model.update(model.start(), y)
    # a hole between supports is impossible too
    with pytest.raises(ReadingError):
        bounded.update(bounded.start(), 1.5)


def test_any_law_of_one_number_will_do():
    """A mixture, a shifted law, one of the user's own, and a vector of one channel."""

    class Own:
        """A normal law seen through a sinh, and nothing but the three methods."""

        def score(self, y, v=None):
            return np.arcsinh(y)

        def value(self, z):
            return np.sinh(z)

        def logpdf(self, y):
            return stats.norm.logpdf(np.arcsinh(y)) - 0.5 * np.log1p(np.square(y))

    mixture = Mixture([0.3, 0.7], [us.Gaussian(-1.0, 1.0), us.Gaussian(1.0, 1.0)])
    laws = [mixture, Shifted(us.Gaussian(0.0, 1.0), 2.0), us.Independent(us.Gaussian(0.5, 0.1)), Own()]
    model = HiddenMarkov(np.full((4, 4), 0.25), np.full(4, 0.25), laws)
    z = np.random.default_rng(1).standard_normal(40)
    np.testing.assert_allclose(us.whiten(us.colour(z, model), model), z, atol=1e-9)


def test_vector_mixtures_are_taken_apart():
    """A Gaussian mixture in a state is as good as more states."""
    means, covs = np.array([[0.0, 0.0], [3.0, 3.0]]), np.array([np.eye(2), [[1.0, 0.5], [0.5, 1.0]]])
    other = us.Gaussian([-3.0, 1.0], np.eye(2))
    A, p, w = np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0.5, 0.5]), np.array([0.25, 0.75])
    model = HiddenMarkov(A, p, [GaussianMixture(w, means, covs), other])
    split = np.array([[0.25, 0.75, 0.0], [0.0, 0.0, 1.0]])
    more = HiddenMarkov((A @ split)[[0, 0, 1]], p @ split, [*map(us.Gaussian, means, covs), other])
    Y = us.sample(more, 30, rng=1)
    np.testing.assert_allclose(us.whiten(Y, model), us.whiten(Y, more), atol=1e-11)
    np.testing.assert_allclose(us.colour(us.whiten(Y, model), model), Y, atol=1e-9)


# Statistics ---------------------------------------------------------------------------------------------------


def simulated(A, p, means, sds, T, rng):
    """Readings drawn without the package: hidden path first, then the noise."""
    moves, path = rng.random(T), np.empty(T, dtype=int)
    cumulative, row = np.cumsum(A, axis=1), np.cumsum(p)
    for k in range(T):
        path[k] = min(int(np.searchsorted(row, moves[k])), len(p) - 1)
        row = cumulative[path[k]]
    return np.asarray(means)[path] + np.asarray(sds)[path] * rng.standard_normal(T)


def test_scores_of_simulated_readings_are_white():
    """False alarm 1e-6; twin: under another transition matrix, or another law, they are not."""
    means, sds = [0.0, 4.0, -2.0], [1.0, 0.5, 3.0]
    Y = simulated(A3, P3, means, sds, 100_000, np.random.default_rng(7))
    laws = [us.Gaussian(m, s * s) for m, s in zip(means, sds, strict=True)]
    assert is_white(us.whiten(Y, HiddenMarkov(A3, P3, laws)))
    stationary = np.linalg.matrix_power(A3, 200)
    assert not is_white(us.whiten(Y, HiddenMarkov(stationary, P3, laws)))
    assert not is_white(us.whiten(Y, HiddenMarkov(A3, P3, [us.Gaussian(0.5, 1.0), *laws[1:]])))


def test_disguised_readings_have_the_law_of_the_target():
    """Hidden Markov to Gauss-Markov and to another hidden Markov model; twin: the source's law is not theirs."""
    means, sds = [0.0, 4.0, -2.0], [1.0, 0.5, 3.0]
    Y = simulated(A3, P3, means, sds, 100_000, np.random.default_rng(8))
    source, _ = gaussian_case()
    for target in (room(0.5), HiddenMarkov(A3.T[::-1] / A3.T[::-1].sum(axis=1, keepdims=True), P3, source.laws)):
        out = us.disguise(Y, source, target)
        assert is_white(us.whiten(out, target))
        assert not is_white(us.whiten(out, source))


A2, P2 = [[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5]
ROUND = [[0.5, 0.5, 0.0], [0.0, 0.6, 0.4], [1.0, 0.0, 0.0]]
PLAIN = us.Independent(us.Gaussian(0.0, 1.0), us.Gaussian(1.0, 2.0))
TILTED = us.Gaussian([2.0, 2.0], [[1.0, 0.5], [0.5, 1.0]])
DICE = [Atoms([0.0, 1.0, 2.0], [0.5, 0.3, 0.2]), Atoms([1.0, 2.0, 3.0], [0.1, 0.4, 0.5])]
CHECKED = {
    "gaussian": (lambda: gaussian_case()[0], 600),
    "zeros": (lambda: HiddenMarkov(ROUND, [1.0, 0.0, 0.0], gaussian_case()[0].laws), 300),
    "one state": (lambda: HiddenMarkov([[1.0]], [1.0], [us.Gaussian(1.0, 2.0)]), 300),
    "student": (lambda: HiddenMarkov(A2, P2, [us.Scalar(stats.t(4)), us.Gaussian(3.0, 1.0)]), 50),
    "vectors": (lambda: HiddenMarkov(A2, P2, vector_case()[0].laws[:2]), 50),
    "independent": (lambda: HiddenMarkov(A2, P2, [PLAIN, TILTED]), 50),
    "atoms": (lambda: HiddenMarkov(A2, P2, DICE), 200),
}


SLOW = pytest.mark.long(seconds=3, reason="quantiles by a search, reading by reading")


@pytest.mark.sample(default=2, seconds=3, reason="five models, each checked by simulation")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[SLOW] if name in ("student", "vectors") else []) for name in CHECKED]
)
def test_every_check_of_a_model(name):
    """Each kind of emission goes through all of `understudy.checks`."""
    make, T = CHECKED[name]
    assert check_model(make(), T=T).passed


def test_every_check_of_a_transformation():
    """To Gauss-Markov, from it, and to another hidden Markov model."""
    model, _ = gaussian_case()
    assert check_transform(model, room(1), T=600).passed
    assert check_transform(room(1), model, T=600).passed
    assert check_transform(model, HiddenMarkov([[0.9, 0.1], [0.1, 0.9]], [0.5, 0.5], model.laws[:2]), T=600).passed


# Values and refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CASES])
def test_is_a_value(name):
    """Frozen, read-only, the same after a copy, and silent about its parameters."""
    model, _ = CASES[name]()
    with pytest.raises(AttributeError, match="value"):
        model.dim = 7
    for array in (model.transition, model.initial):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    assert repr(model) == f"HiddenMarkov(states=3, dim={model.dim})"
    assert isinstance(model.start(), tuple)
    Y = us.sample(model, 5, rng=1)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        assert copied.transition.tolist() == model.transition.tolist()
        assert us.whiten(Y, copied).tolist() == us.whiten(Y, model).tolist()


GAUSS = us.Gaussian(0.0, 1.0)


@pytest.mark.parametrize(
    ("transition", "initial", "laws", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], [0.5, 0.5], [GAUSS] * 2, "row 0 of transition sums to 0.9"),
        ([[0.5, 0.5], [1.5, -0.5]], [0.5, 0.5], [GAUSS] * 2, "row 1 of transition holds 1.5"),
        ([[0.5, 0.5], [np.nan, 0.5]], [0.5, 0.5], [GAUSS] * 2, "row 1 of transition holds nan"),
        (np.eye(2), [0.5, 0.4], [GAUSS] * 2, "initial sums to 0.9"),
        (np.eye(2), [1.0], [GAUSS] * 2, r"initial has shape \(1,\); with 2 laws"),
        (np.eye(3), [0.5, 0.5], [GAUSS] * 2, r"transition has shape \(3, 3\)"),
        (["a", "b"], [0.5, 0.5], [GAUSS] * 2, "transition must be an array of numbers"),
        (np.eye(2), [0.5, 0.5], [GAUSS, 3.0], "the law of state 1 is of type float"),
        (np.eye(2), [0.5, 0.5], GAUSS, "laws is of type Gaussian"),
        (np.eye(2), [0.5, 0.5], [], "laws is empty"),
        (np.eye(2), [0.5, 0.5], [GAUSS, us.Gaussian([0.0, 0.0], np.eye(2))], "dim = 1 and that of state 1 has 2"),
        (np.eye(2), [0.5, 0.5], [GAUSS, Atoms([0.0], [1.0])], "all states must have Atoms there, or none"),
        (
            np.eye(2),
            [0.5, 0.5],
            [us.Independent(GAUSS, Atoms([0.0], [1.0])), us.Independent(GAUSS, GAUSS)],
            "channel 1 has Atoms in state 0 and a law of type Gaussian in state 1",
        ),
        (
            np.eye(2),
            [0.5, 0.5],
            [us.Independent(GAUSS, Atoms([0.0], [1.0])), us.Gaussian([0.0, 0.0], np.eye(2))],
            "write it as Independent channels",
        ),
        (
            np.eye(2),
            [0.5, 0.5],
            [us.Gaussian([0.0, 0.0], np.eye(2)), us.Scalar(stats.expon(scale=[1.0, 2.0]))],
            "the law of state 1 is of type Scalar and dim 2, which cannot be taken apart",
        ),
    ],
)
def test_refusals_name_the_value_and_the_rule(transition, initial, laws, message):
    """Nothing that is not a model becomes one."""
    with pytest.raises(ModelError, match=message):
        HiddenMarkov(transition, initial, laws)
