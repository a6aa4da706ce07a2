"""The causal randomizer against oracles: the known rate-distortion function, joint tables of all paths, simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from helpers import room
from memory_cases import WAYS, FixedKernel, compare_memory, errors, source
from scipy.stats import norm

import understudy as us
from understudy.randomizer.causal import chance_of_none, design_causal, path_distortion, true_distortion, was_ever
from understudy.randomizer.causal_guarantee import Beliefs, expected_cost, long_run, play, posteriors

ALPHA = 1e-6
HAMMING = [[0.0, 1.0], [1.0, 0.0]]
Z = float(norm.isf(ALPHA / 2))


def h(x):
    return -x * math.log(x) - (1.0 - x) * math.log1p(-x)


def star(p, D):
    return p * (1.0 - D) + D * (1.0 - p)


def flip(p):
    return [[1.0 - p, p], [p, 1.0 - p]]


def bits(prior=(0.5, 0.5)):
    return us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1], prior=list(prior))


# The binary symmetric Markov source ----------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.002, 0.02, 0.1, 0.25, 0.4, 0.5])
def test_rate_and_distortion_lie_on_the_known_curve(p):
    """R = h(p*D) - h(D) to 1e-6 (reached: 1e-9), and the first decision costs h(1/2) - h(D)."""
    for D in (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.48):
        made = design_causal(bits(), flip(p), slope=math.log((1.0 - D) / D), distortion=HAMMING)
        assert made.long_run.how in ("exact", "merged")
        assert made.distortion == pytest.approx(D, abs=1e-6)
        assert made.rate == pytest.approx(h(star(p, D)) - h(D), abs=1e-6)
        assert made.first_charge == pytest.approx(math.log(2.0) - h(D), abs=1e-8)
        assert made.first_distortion == pytest.approx(D, abs=1e-8)


@pytest.mark.parametrize("p", [0.02, 0.1, 0.3])
def test_a_rate_is_met_and_costs_what_the_curve_says(p):
    """With rate= the slope is found by itself; the pair is on the curve."""
    for rate in (1e-4, 0.01, 0.5 * h(p)):
        made = design_causal(bits(), flip(p), rate=rate, distortion=HAMMING)
        assert rate * (1.0 - 1e-8) <= made.rate <= rate
        assert made.rate == pytest.approx(h(star(p, made.distortion)) - h(made.distortion), abs=1e-6)


def test_the_curve_is_missed_by_draws_without_memory():
    """A twin that must fail: independent draws at the same distortion tell three times as much."""
    found = long_run(source(0.02, [[0.8, 0.2], [0.2, 0.8]]))
    assert found.how == "grid"
    assert found.distortion == pytest.approx(0.2, abs=1e-9)
    assert found.rate > 3.0 * (h(star(0.02, 0.2)) - h(0.2))


def test_independent_draws_give_a_persistent_bit_away():
    """At 0.1 bit a step the smoothing adversary is right .77, .91 and .97 of the time at persistence .9, .98, .995."""
    low, high = 1e-6, 0.5
    while high - low > 1e-12:
        D = 0.5 * (low + high)
        low, high = (D, high) if math.log(2.0) - h(D) > 0.1 * math.log(2.0) else (low, D)
    for p, accuracy in ((0.1, 0.77), (0.02, 0.91), (0.005, 0.97)):
        found = errors(source(p, [[1.0 - D, D], [D, 1.0 - D]]), 1500, 80, rng=1, margin=300)
        assert abs(1.0 - found.smoothing - accuracy) < 0.005 + 3.0 * found.smoothing_error
        assert found.smoothing < found.filtering < D


@pytest.mark.long(seconds=2, reason="searches for the slope of an equal leakage")
def test_memory_at_equal_leakage_and_at_equal_distortion():
    """Persistence .98: at equal leakage half the distortion, at equal distortion a quarter of the leakage, or less."""
    found = compare_memory(0.02, flips_of_draws=(0.05, 0.1, 0.2, 0.3, 0.4), steps=400, sequences=60)
    memory, each, epoch = (found.at("rate", 0.02)[way] for way in WAYS)
    assert memory["distortion"] < epoch["distortion"] < each["distortion"]
    assert memory["distortion"] < 0.5 * each["distortion"]
    memory, each, epoch = (found.at("distortion", 0.3)[way] for way in WAYS)
    assert memory["rate"] < epoch["rate"] < each["rate"]
    assert memory["rate"] < 0.25 * each["rate"]
    assert memory["smoothing"] > epoch["smoothing"] > each["smoothing"]
    assert memory["smoothing"] > 2.5 * each["smoothing"]
    # the filtering adversary errs exactly as often as the distortion says; the one who waits does better
    assert found.column(WAYS[0], "filtering") == pytest.approx(found.column(WAYS[0], "distortion"), abs=1e-9)
    assert (found.column(WAYS[0], "smoothing") < found.column(WAYS[0], "filtering")).all()
    assert math.isnan(found.at("rate", 10.0)[WAYS[0]]["distortion"])


def test_smoothing_gains_nothing_where_the_bit_moves_fast():
    """At flip 0.3 no later draw overturns a guess: the errors agree (to four standard errors)."""
    found = errors(source(0.3, slope=2.0), 400, 200, rng=3, margin=50)
    assert abs(found.smoothing - found.filtering) < 4.0 * found.smoothing_error


# All paths -----------------------------------------------------------------------------------------------


def random_case(seed, m=3, n=4, period=2):
    rng = np.random.default_rng(seed)
    return Beliefs(rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(m), (period, m)), rng.random((m, n)), 4.0)


def joint(beliefs, T):
    """Pr(theta path, pseudo path) as one table, with kernels looked up by conditioning the table itself."""
    m, n = beliefs.cost.shape
    table, kernels = {}, {}
    for pseudo in itertools.product(range(n), repeat=T):
        for theta in itertools.product(range(m), repeat=T):
            table[theta, pseudo] = 0.0
    # grow prefixes: weight[(theta prefix, pseudo prefix)]
    weights = {((), ()): 1.0}
    for k in range(T):
        marginal = {}
        for (theta, pseudo), w in weights.items():
            step = beliefs.prior if k == 0 else beliefs.transitions[(k - 1) % beliefs.period][theta[-1]]
            marginal.setdefault(pseudo, np.zeros(m))
            marginal[pseudo] += w * np.asarray(step)
        grown = {}
        for pseudo, b in marginal.items():
            kernels[pseudo] = beliefs.kernel((b / b.sum()).tolist()) if b.sum() > 0.0 else np.full((m, n), 1.0 / n)
        for (theta, pseudo), w in weights.items():
            step = beliefs.prior if k == 0 else beliefs.transitions[(k - 1) % beliefs.period][theta[-1]]
            for i, j in itertools.product(range(m), range(n)):
                x = w * step[i] * kernels[pseudo][i, j]
                if x > 0.0:
                    grown[(*theta, i), (*pseudo, j)] = x
        weights = grown
    return weights, kernels


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_charges_add_up_to_what_the_sequence_tells(seed):
    """I(Theta^T; ~Theta^T) of the joint table of all paths is the expected sum of the charges, to 1e-12."""
    beliefs, T = random_case(seed), 3
    table, kernels = joint(beliefs, T)
    of_theta, of_pseudo = {}, {}
    for (theta, pseudo), w in table.items():
        of_theta[theta] = of_theta.get(theta, 0.0) + w
        of_pseudo[pseudo] = of_pseudo.get(pseudo, 0.0) + w
    told = math.fsum(w * math.log(w / (of_theta[a] * of_pseudo[b])) for (a, b), w in table.items())
    charged = 0.0
    for pseudo, w in of_pseudo.items():
        state = beliefs.start()
        for k, j in enumerate(pseudo):
            kernel = beliefs.kernel(state.belief)
            assert kernel == pytest.approx(kernels[pseudo[:k]], abs=1e-9)
            charged += w * beliefs.charge(state.belief, kernel)
            state = beliefs.after(state, kernel, j)
    assert sum(of_pseudo.values()) == pytest.approx(1.0, abs=1e-12)
    assert charged == pytest.approx(told, rel=1e-8)
    assert told > 0.05


@pytest.mark.parametrize("seed", [0, 1])
def test_filtering_and_smoothing_are_those_of_the_joint_table(seed):
    """Posteriors by forward and backward recursion agree with conditioning the table of all paths, to 1e-9."""
    beliefs, T = random_case(seed, m=3, n=2), 4
    table, kernels = joint(beliefs, T)
    pseudo_paths = sorted({pseudo for _, pseudo in table})
    likelihoods = np.array([[kernels[p[:k]][:, p[k]] for p in pseudo_paths] for k in range(T)])
    seen = posteriors(likelihoods, beliefs.prior, beliefs.transitions)
    exact_f, exact_s = np.zeros_like(seen.filtering), np.zeros_like(seen.smoothing)
    for (theta, pseudo), w in table.items():
        for k in range(T):
            exact_s[k, pseudo_paths.index(pseudo), theta[k]] += w
            for at, other in enumerate(pseudo_paths):
                if other[: k + 1] == pseudo[: k + 1]:
                    exact_f[k, at, theta[k]] += w
    assert seen.filtering == pytest.approx(exact_f / exact_f.sum(axis=2, keepdims=True), abs=1e-9)
    assert seen.smoothing == pytest.approx(exact_s / exact_s.sum(axis=2, keepdims=True), abs=1e-9)
    # on average over the draws smoothing is right at least as often
    weight = exact_s[0].sum(axis=1)
    for k in range(T):
        assert weight @ seen.smoothing[k].max(axis=1) >= weight @ seen.filtering[k].max(axis=1) - 1e-12


@pytest.mark.long(seconds=1, reason="all paths enumerated")
def test_the_simulated_errors_are_those_of_enumeration():
    """Means over simulated pseudo paths agree with the joint table (false alarm 1e-6); a wrong prior does not."""
    beliefs, T = Beliefs([0.7, 0.3], [[[0.9, 0.1], [0.3, 0.7]], [[0.8, 0.2], [0.1, 0.9]]], HAMMING, 2.5), 5
    table, kernels = joint(beliefs, T)
    weight = {}
    for (_, pseudo), w in table.items():
        weight[pseudo] = weight.get(pseudo, 0.0) + w
    paths, w = list(weight), np.array(list(weight.values()))
    likelihoods = np.array([[kernels[p[:k]][:, p[k]] for p in paths] for k in range(T)])
    seen = posteriors(likelihoods, beliefs.prior, beliefs.transitions)
    exact = [1.0 - float((w * x.max(axis=2)).sum(axis=1).mean()) for x in seen]
    found = errors(beliefs, T, 20_000, rng=7)
    assert abs(found.filtering - exact[0]) < Z * found.filtering_error
    assert abs(found.smoothing - exact[1]) < Z * found.smoothing_error
    other = errors(Beliefs([0.99, 0.01], beliefs.transitions, HAMMING, 2.5), T, 20_000, rng=7)
    assert abs(other.smoothing - exact[1]) > Z * other.smoothing_error


def test_a_question_about_a_window_is_answered_as_by_enumeration():
    """Pr(never among these values in the window, given the draws) agrees with the joint table to 1e-9."""
    beliefs, T, window, rows = random_case(2, m=3, n=2), 4, (1, 3), [2]
    table, kernels = joint(beliefs, T)
    paths = sorted({pseudo for _, pseudo in table})
    likelihoods = np.array([[kernels[p[:k]][:, p[k]] for p in paths] for k in range(T)])
    none, every = np.zeros(len(paths)), np.zeros(len(paths))
    for (theta, pseudo), w in table.items():
        every[paths.index(pseudo)] += w
        none[paths.index(pseudo)] += w * all(theta[k] not in rows for k in range(*window))
    assert chance_of_none(beliefs, rows, window, likelihoods) == pytest.approx(none / every, abs=1e-9)
    answer = was_ever(beliefs, rows, window, T, sequences=4000, rng=1)
    assert answer.blind == pytest.approx(max(none.sum(), 1.0 - none.sum()), abs=1e-9)
    assert abs(answer.seeing - np.maximum(none, every - none).sum()) < Z * answer.seeing_error


# Kernels and the long run --------------------------------------------------------------------------------


@pytest.mark.sample(default=3, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("seed", range(6))
def test_kernels_are_optimal_at_the_slope(seed):
    """No better I + s D by 20,000 rounds of Blahut and Arimoto (1e-9); and their conditions hold."""
    rng = np.random.default_rng(seed)
    m, n = rng.integers(2, 7, size=2)
    cost, b = rng.random((m, n)), rng.dirichlet(np.ones(m))
    beliefs = Beliefs(b, np.eye(m), cost, float(10.0 ** rng.uniform(-0.5, 1.5)))
    P = beliefs.kernel(b.tolist())
    assert (P.sum(axis=1) == 1.0).all()
    assert ((P * 2.0**53) % 1.0 == 0.0).all()
    ours = beliefs.charge(b.tolist(), P) + beliefs.slope * expected_cost(b.tolist(), P, cost)
    q, E = np.full(n, 1.0 / n), np.exp(-beliefs.slope * cost)
    for _ in range(20_000):
        q = q * (b @ (E / (E @ q)[:, None]))
    assert ours <= -(b @ np.log(E @ q)) + 1e-9
    r = b @ P
    assert (b @ (E / (E @ r)[:, None])).max() <= 1.0 + 1e-7


def test_the_grid_has_the_entropy_rate_of_a_hidden_chain():
    """Independent draws: the rate on a grid lies between two bounds on the entropy rate, by enumeration."""
    p, D, n = 0.1, 0.2, 11
    found = long_run(source(p, [[1.0 - D, D], [D, 1.0 - D]]))
    T, P = np.array(flip(p)), np.array([[1.0 - D, D], [D, 1.0 - D]])

    def entropy(first, length):
        total = 0.0
        for path in itertools.product(range(2), repeat=length):
            b = np.array(first)
            for k, j in enumerate(path):
                b = (b @ T if k else b) * P[:, j]
            total -= b.sum() * math.log(b.sum())
        return total

    upper = entropy([0.5, 0.5], n) - entropy([0.5, 0.5], n - 1)
    lower = entropy([1.0, 0.0], n) - entropy([1.0, 0.0], n - 1)
    assert upper - lower < 1e-2
    assert lower - h(D) - 1e-6 <= found.rate <= upper - h(D) + 1e-6


@pytest.mark.parametrize("m", [3, 5])
def test_the_long_run_is_what_simulation_shows(m):
    """Rate and distortion, enumerated, agree with simulated sequences (false alarm 1e-6); another slope does not."""
    x = np.arange(float(m))
    T = np.full((m, m), 0.15 / (m - 1)) + np.eye(m) * (0.85 - 0.15 / (m - 1))
    beliefs = Beliefs(np.full(m, 1.0 / m), T, abs(x[:, None] - x), 2.5)
    found = long_run(beliefs)
    assert found.how in ("exact", "merged")
    assert found.rate_error == 0.0
    played = play(beliefs, 120, 200, rng=2)
    for series, value in ((played.charges, found.rate), (played.costs, found.distortion)):
        each = series[40:].mean(axis=0)
        assert abs(each.mean() - value) < Z * each.std(ddof=1) / math.sqrt(each.size) + 1e-6
    # what really was played costs as much, and so the account of costs is right too
    real = beliefs.cost[played.theta, played.pseudo][40:].mean(axis=0)
    assert abs(real.mean() - found.distortion) < Z * real.std(ddof=1) / math.sqrt(real.size)
    other = long_run(Beliefs(beliefs.prior, T, beliefs.cost, 3.5))
    each = played.charges[40:].mean(axis=0)
    assert abs(each.mean() - other.rate) > Z * each.std(ddof=1) / math.sqrt(each.size)


def test_the_long_run_of_a_chain_with_two_ends():
    """Absorbing classes are weighed by the chance to get there: here each value stays, and all is told once."""
    found = long_run(Beliefs([0.3, 0.7], np.eye(2), HAMMING, math.inf))
    assert found.rate == pytest.approx(0.0, abs=1e-12)
    absorbing = FixedKernel([0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [4.0, 2.0]], [[1.0, 0.0], [1.0, 0.0]])
    assert long_run(absorbing).distortion == pytest.approx(0.0, abs=1e-6)


# What the paths really cost ------------------------------------------------------------------------------


def test_the_distortion_along_paths_is_what_a_simulation_shows():
    """Exact along the paths, for Gauss-Markov rooms (false alarm 1e-6); the surrogate of values that stay is not."""
    family = us.Family(lambda v: room(v, A=0.8, b=2.0 * v, mean0=5.0, Q=0.1 + 0.2 * v), values=[0, 1])
    made = design_causal(family, flip(0.1), slope=0.3, distortion="mae", decision_every=3)
    theta, pseudo = [0, 0, 1, 1, 0, 1], [0, 1, 1, 0, 0, 0]
    value, error = path_distortion(made, theta, pseudo)
    assert error == 0.0
    one, other = (family.along([v for v in path for _ in range(3)]) for path in (theta, pseudo))
    Y = us.sample(one, 18, n=4000, rng=np.random.default_rng(1))
    out = us.disguise(Y, source=one, target=other)
    each = np.abs(Y - out).mean(axis=(0, 1))
    assert abs(each.mean() - value) < Z * each.std(ddof=1) / math.sqrt(each.size)
    surrogate = float(np.mean([made.beliefs.cost[i, j] for i, j in zip(theta, pseudo, strict=True)]))
    assert abs(each.mean() - surrogate) > Z * each.std(ddof=1) / math.sqrt(each.size)
    found = true_distortion(made, 20, 20, rng=1)
    assert 0.0 < found.true < 1.5 * found.surrogate
    squared, _ = path_distortion(made, theta, pseudo, "mse")
    each = np.square(Y - out).mean(axis=(0, 1))
    assert abs(each.mean() - squared) < Z * each.std(ddof=1) / math.sqrt(each.size)
