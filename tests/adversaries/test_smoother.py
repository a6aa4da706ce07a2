"""The smoother that knows the design, against the sum over all paths of theta and of the draws."""

import itertools

import numpy as np
import pytest
import scipy.stats
from causal_cases import STAY

import understudy as us
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.adversaries.learners.bayes import Oracle, ReadingLikelihoods, Smoother, ThroughDraws, plan_of
from understudy.adversaries.learners.calibration import Chain, EvidenceAttack, Plan, chain_of, pieces_of, smooth
from understudy.randomizer.causal import design_causal
from understudy.randomizer.causal_guarantee import play

MOVES = np.array([[0.9, 0.1], [0.25, 0.75]])
PSEUDO = (0, 0.5, 1)
HEAVY = us.Scalar(scipy.stats.t(4.0, 0.0, 1.0))


def heavy(v):
    return us.AutoRegressive([0.5, 0.2], 2.0 * v, HEAVY, [0.0, 0.0])


FAMILY = us.Family(heavy, [0, 1])
DESIGN = design_causal(FAMILY, STAY, PSEUDO, slope=1.5, distortion=[[0, 0.4, 1], [1, 0.4, 0]])
KERNEL = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])


def known_of(design, every, kernel=KERNEL, pseudo=PSEUDO, raw=False):
    return Knowledge(FAMILY, pseudo, kernel, FAMILY.prior, MOVES, every, None, design, raw=raw)


def smoother(known, chain, every):
    """The attack with a chain and a plan that are known, and nothing learned."""
    reader = ReadingLikelihoods(tuple(known.targets), np.eye(len(known.pseudo)), every)
    return EvidenceAttack(reader, ThroughDraws(chain, plan_of(known), every))


def by_enumeration(Y, known, chain, every):
    """Pr(theta_k given Y), (m, T): the sum over every path of theta and of the draws."""
    T, n = len(Y), len(known.pseudo)
    K = -(-T // every)
    beliefs = getattr(known.design, "beliefs", None)
    m = len(chain.initial)
    posterior = np.zeros((m, T))
    for draws in itertools.product(range(n), repeat=K):
        likelihood = np.exp(us.loglik(Y, known.family.along([known.pseudo[draws[k // every]] for k in range(T)])))
        kernels, state = [], None if beliefs is None else beliefs.start()
        for j in draws:
            kernels.append(known.kernel if state is None or known.raw else beliefs.kernel(state.belief))
            if state is not None and not known.raw:
                possible = (np.asarray(state.belief) @ kernels[-1])[j] > 0.0
                state = beliefs.after(state, kernels[-1] if possible else None, j)
        for theta in itertools.product(range(m), repeat=T if chain.within else K):
            odds = chain.initial[theta[0]] * np.prod([chain.moves[0][i, j] for i, j in itertools.pairwise(theta)])
            path = theta if chain.within else [theta[k // every] for k in range(T)]
            odds *= np.prod([kernels[k][path[k * every], j] for k, j in enumerate(draws)])
            for k in range(T):
                posterior[path[k], k] += odds * likelihood
    return posterior / posterior.sum(axis=0)


CASES = {
    "memory": (known_of(DESIGN, 1), True, 1, 5),
    "memory, two readings a decision": (known_of(DESIGN, 2), True, 2, 6),
    "memory, theta moves with decisions": (known_of(DESIGN, 2), False, 2, 6),
    "a last decision that is cut short": (known_of(DESIGN, 2), True, 2, 5),
    "draws without memory": (known_of(None, 1), True, 1, 5),
    "epochs of three readings": (known_of(None, 3), True, 3, 6),
    "raw readings": (known_of(DESIGN, None, np.eye(2), (0, 1), raw=True), True, 1, 6),
}


@pytest.mark.sample(default=2, seconds=3, reason="sums over all paths")
@pytest.mark.parametrize("case", CASES)
def test_smoothing_is_the_sum_over_all_paths(case):
    """To 1e-7, for several sequences at once; heavy-tailed autoregressions, whose law is exact under any path."""
    known, within, every, T = CASES[case]
    chain = Chain(np.array([0.3, 0.7]), MOVES[None] if within else np.array([STAY]), within)
    Y = np.random.default_rng(1).standard_normal((T, 1, 3)).cumsum(axis=0)
    attack = smoother(known, chain, every)
    cases = Cases(Y, np.zeros((T, 3), dtype=int), np.zeros((T, 3), dtype=int), 2, False)
    found = np.exp(attack.logits(cases))
    for s in range(3):
        np.testing.assert_allclose(found[:, :, s], by_enumeration(Y[:, 0, s], known, chain, every), atol=1e-7)


@pytest.mark.long(seconds=2, reason="sums over all paths")
def test_three_values_and_four_pseudo_values_too():
    """Three decisions of two readings, a randomizer with memory."""
    family = us.Family(heavy, [0, 0.5, 1])
    stay = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.3, 0.7]])
    cost = [[0, 0.3, 0.6, 1], [0.4, 0.1, 0.2, 0.4], [1, 0.6, 0.3, 0]]
    design = design_causal(family, stay, [0, 0.3, 0.7, 1], slope=1.5, distortion=cost, decision_every=2)
    known = Knowledge(family, design.pseudo, np.full((3, 4), 0.25), family.prior, stay, 2, None, design)
    chain = Chain(np.array([0.2, 0.3, 0.5]), stay[None])
    attack = smoother(known, chain, 2)
    Y = np.random.default_rng(9).standard_normal((6, 1, 1)).cumsum(axis=0)
    found = np.exp(attack.logits(Cases(Y, np.zeros((6, 1), dtype=int), np.zeros((6, 1), dtype=int), 3, False)))
    np.testing.assert_allclose(found[:, :, 0], by_enumeration(Y[:, 0, 0], known, chain, 2), atol=1e-5)


def test_a_chain_that_follows_the_clock_is_smoothed_exactly():
    """Two cells of the clock with matrices of their own; readings independent given theta."""
    rng = np.random.default_rng(2)
    moves = np.stack([MOVES, MOVES[::-1]])
    cell, logs = rng.integers(2, size=(6, 1)), rng.standard_normal((2, 6, 1))
    chain = Chain(np.array([0.5, 0.5]), moves)
    plan = Plan(np.eye(2)[None], np.zeros((1, 2), dtype=int), 0)
    found = smooth(logs, plan, chain, cell)[:, :, 0]
    np.testing.assert_allclose(smooth(logs, None, chain, cell)[:, :, 0], found, atol=1e-12)
    exact = np.zeros((2, 6))
    for theta in itertools.product(range(2), repeat=6):
        p = np.exp(sum(logs[i, k, 0] for k, i in enumerate(theta)))
        p *= np.prod([moves[cell[k, 0]][i, j] for k, (i, j) in enumerate(itertools.pairwise(theta))])
        for k, i in enumerate(theta):
            exact[i, k] += p
    np.testing.assert_allclose(found, exact / exact.sum(axis=0), atol=1e-12)


def test_the_places_of_a_randomizer_with_memory_are_few_and_its_kernels_those_of_the_beliefs():
    """Following draws from place to place is following the belief."""
    plan, beliefs = plan_of(known_of(DESIGN, 1)), DESIGN.beliefs
    state, place = beliefs.start(), plan.start
    for j in np.random.default_rng(3).integers(3, size=50).tolist():
        kernel = beliefs.kernel(state.belief)
        np.testing.assert_allclose(plan.kernels[place], kernel, atol=1e-5)
        if (np.asarray(state.belief) @ kernel)[j] > 0.0:
            state, place = beliefs.after(state, kernel, j), int(plan.after[place, j])
    assert len(plan.kernels) < 10


def simulated(every, decisions, sequences, seed, separation=3.0):
    """Readings whose law nearly tells the draw, along draws of a causal design."""
    family = us.Family(lambda v: us.IID(us.Gaussian(separation * v, 1.0)), [0, 1])
    design = design_causal(family, STAY, PSEUDO, slope=1.5, distortion=[[0, 0.4, 1], [1, 0.4, 0]], decision_every=every)
    played = play(design.beliefs, decisions, sequences, rng=seed)
    theta, drawn = (x.repeat(every, axis=0) for x in (played.theta, played.pseudo))
    rng = np.random.default_rng(seed)
    Y = rng.normal(separation * np.array(PSEUDO)[drawn])[:, None]
    kernel = np.array([[(played.pseudo[played.theta == i] == j).mean() for j in range(3)] for i in range(2)])
    known = Knowledge(family, PSEUDO, kernel, family.prior, np.array(STAY), every, None, design)
    blocks = np.tile(np.arange(sequences), (len(theta), 1))
    return known, Cases(Y, theta, blocks, 2, False, pseudo=drawn)


@pytest.mark.sample(default=1, seconds=2, reason="two long recordings")
@pytest.mark.parametrize("every", [1, 5])
def test_the_smoother_comes_near_who_sees_the_draws_and_never_ahead(every):
    """Paths judged one by one: it is wrong more often than the oracle, and with five readings a decision hardly so."""
    known, cases = simulated(every, 100, 120, 4)
    learn, judge = cases.sequences(slice(0, 60)), cases.sequences(slice(60, 120))
    rng = np.random.default_rng(0)
    wrong = []
    for learner in (Smoother(), Oracle()):
        assert learner.objection(learn, known) == ""
        wrong.append((learner.learn(learn, known, rng).logits(judge).argmax(axis=0) != judge.labels).mean(axis=0))
    smoother, oracle = wrong
    apart = smoother - oracle
    assert apart.mean() > -4.9 * apart.std() / np.sqrt(60)
    assert 0.1 < oracle.mean() < 0.2
    assert smoother.mean() < (0.25 if every == 1 else 0.19)


@pytest.mark.long(seconds=1, reason="a smoother fitted and judged")
def test_models_that_say_too_much_are_cooled():
    """Noise that was said to be ten times smaller than it is: a temperature or a cap makes up for it."""
    known, cases = simulated(1, 200, 20, 5)
    assert Smoother().learn(cases, known, np.random.default_rng(0)).temperature == 1.0
    sure = us.Family(lambda v: us.IID(us.Gaussian(3.0 * v, 0.01)), [0, 1])
    wrong = Knowledge(
        sure, *[getattr(known, name) for name in ("pseudo", "kernel", "prior", "transitions")], 1, None, known.design
    )
    attack = Smoother().learn(cases, wrong, np.random.default_rng(0))
    assert attack.temperature < 0.3 or attack.rule.cap < 10.0
    assert (attack.logits(cases).argmax(axis=0) == cases.labels).mean() > 0.75


def test_missing_readings_and_padding_leave_finite_odds():
    """A sequence without readings has the odds of the chain."""
    known, cases = simulated(5, 40, 6, 6)
    attack = Smoother().learn(cases, known, np.random.default_rng(0))
    outputs = cases.outputs.copy()
    outputs[:, :, 0], outputs[50:, :, 1], outputs[::3, :, 2] = np.nan, np.nan, np.nan
    found = attack.logits(Cases(outputs, cases.labels, cases.blocks, 2, False))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.exp(found).sum(axis=0), 1.0)
    np.testing.assert_allclose(np.exp(found[:, :, 0]), 0.5, atol=0.02)


def test_the_chain_is_counted_from_labels_and_tilted_by_the_clock():
    """Days of 24 readings with theta = 1 at noon: the clock makes coming likely before and leaving likely after."""
    hours = np.tile(np.arange(24.0), 100)[:, None]
    labels = ((hours >= 9) & (hours < 17)).astype(int)
    flips = np.random.default_rng(7).random(labels.shape) < 0.02
    labels = np.where(flips, 1 - labels, labels)
    cases = Cases(np.zeros((2400, 1, 1)), labels, labels, 2, False, hours, np.zeros((2400, 1), dtype=int))
    known = known_of(None, None, np.eye(2), (0, 1), raw=True)
    chain = chain_of(cases, known)
    moves = chain.moves[chain.cell(cases)[:24, 0]]
    assert moves[12, 0, 1] > 5.0 * moves[3, 0, 1]
    assert moves[3, 1, 0] > 5.0 * moves[12, 1, 0]
    plain = chain_of(cases.without_clock(), known)
    assert plain.clock is None
    here, there = labels[:-1, 0], labels[1:, 0]
    share = ((here == 0) & (there == 1)).sum() / (here == 0).sum()
    assert plain.moves[0, 0, 1] == pytest.approx(share, rel=0.01)


def test_pieces_of_training_data_keep_readings_and_labels_together():
    """Each piece is a stretch of one sequence."""
    labels = np.arange(4000).reshape(2000, 2) % 2
    outputs = np.arange(4000.0).reshape(2000, 1, 2)
    pieces = pieces_of(Cases(outputs, labels, labels, 2, False), 15)
    assert pieces.T == 510
    assert pieces.N == 6
    np.testing.assert_array_equal(pieces.outputs[:, 0] % 2, pieces.labels)
    assert (np.diff(pieces.outputs, axis=0) == 2.0).all()
