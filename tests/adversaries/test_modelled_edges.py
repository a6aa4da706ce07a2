"""Every adversary that knows the design, on cases at the edge: odds are finite and sum to one, or it objects."""

import numpy as np
import pytest
import scipy.stats

import understudy as us
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.adversaries.learners.bayes import Exact, Oracle, Redraws, Smoother, output_models, step_logs
from understudy.adversaries.learners.calibration import fit_logistic, log_loss
from understudy.adversaries.learners.grid import Digits, GridInverter
from understudy.adversaries.learners.machine_learning import Hidden
from understudy.models.quantised import OnGrid, Quantised

LEARNERS = (Exact(), Oracle(), Smoother(), Hidden(), Redraws(), GridInverter(), Digits())
HEAVY = us.Scalar(scipy.stats.t(4.0, 0.0, 2.0))


def linear(v):
    return us.GaussMarkov(0.9, 1.0, 1.0, 0.5, b=2.0 + v, mean0=20.0, cov0=1.0)


FAMILIES = {
    "Gauss-Markov": linear,
    "rounded": lambda v: Quantised(linear(v), 0.5),
    "heavy tails on a grid": lambda v: OnGrid(us.AutoRegressive([0.5, 0.4], 2.0 + v, HEAVY, [20.0, 20.0]), 0.5),
    "two channels": lambda v: us.IID(us.Gaussian(np.array([v, -v]), np.eye(2) + 0.2)),
}


def known_of(name, m, moving, raw=False, noise=None):
    family = us.Family(FAMILIES[name], values=range(m))
    stay = np.full((m, m), 0.1 / max(m - 1, 1)) + (0.9 - 0.1 / max(m - 1, 1)) * np.eye(m)
    kernel = np.eye(m) if raw else 0.5 * np.eye(m) + 0.5 / m
    grid = (np.full(1, 0.5), np.zeros(1)) if "rounded" in name or "grid" in name else None
    every = None if raw or not moving else 3
    return Knowledge(
        family, tuple(range(m)), kernel, family.prior, stay if moving else None, every, grid, None, raw=raw, noise=noise
    )


def cases_of(known, once, T, N, seed=0, missing=0.0, clock=False, values=None):
    """Raw readings do: nothing is judged here."""
    rng, m = np.random.default_rng(seed), len(known.prior)
    values = list(range(m)) if values is None else values
    theta = (
        np.tile(rng.choice(values, size=N), (T, 1))
        if once
        else rng.choice(values, size=(T // 5 + 1, N)).repeat(5, 0)[:T]
    )
    sampled = {i: us.sample(known.family.model(i), T, N + 1, rng=rng) for i in set(theta[0].tolist())}
    Y = np.stack([sampled[i][:, :, s] for s, i in enumerate(theta[0].tolist())], axis=2)
    Y[np.broadcast_to(rng.random((T, 1, N)) < missing, Y.shape)] = np.nan
    hours = np.tile(np.arange(T) % 24.0, (N, 1)).T if clock else None
    days = np.full((T, N), 2) if clock else None
    blocks = np.tile(np.arange(N), (T, 1))
    return Cases(Y, theta, blocks, m, once, hours, days, pseudo=theta)


SETTINGS = {
    "plain": {"T": 30},
    "one reading": {"T": 1},
    "two readings": {"T": 2},
    "three values, clock": {"T": 30, "m": 3, "clock": True},
    "missing readings": {"T": 30, "missing": 0.3},
    "a value absent from training": {"T": 30, "m": 3, "values": [0, 2]},
    "one value alone in training": {"T": 30, "values": [1]},
    "raw": {"T": 30, "raw": True},
}


@pytest.mark.sample(default=4, seconds=19, reason="every learner in eight settings of four families")
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", FAMILIES)
def test_odds_are_finite_and_sum_to_one(name, setting):
    """For a theta that is constant, and one that moves; padding and a sequence without readings among the judged."""
    given = dict(SETTINGS[setting])
    m, raw, values, T = given.pop("m", 2), given.pop("raw", False), given.pop("values", None), given.pop("T")
    ran = set()
    for once in (True, False):
        known = known_of(name, m, not once, raw)
        learn, judge = (cases_of(known, once, T, 8, seed, values=v, **given) for seed, v in ((1, values), (2, None)))
        judge.outputs[:, :, 0] = np.nan
        judge.outputs[T // 2 :, :, 1] = np.nan
        unknown = np.full_like(judge.labels, -1)
        judge = Cases(judge.outputs, unknown, judge.blocks, m, once, judge.hours, judge.days, judge.pseudo)
        for learner in LEARNERS:
            if learner.objection(learn, known) or learner.objection(judge, known):
                continue
            ran.add((type(learner).__name__, once))
            found = learner.learn(learn, known, np.random.default_rng(0)).logits(judge)
            assert found.shape == ((m, 8) if once else (m, T, 8))
            assert np.isfinite(found).all()
            np.testing.assert_allclose(np.exp(found).sum(axis=0), 1.0)
            assert found.min() >= np.log(0.9e-6)
    assert {("Exact", True), ("Oracle", True), ("Oracle", False), ("Smoother", False)} <= ran
    assert {(learner, once) for learner in ("Hidden", "Redraws") for once in (True, False)} <= ran


def test_labels_that_are_not_to_be_known_change_nothing():
    """What is learned rests on training labels that are there, and what is said on no label at all."""
    known = known_of("Gauss-Markov", 2, True)
    learn, judge = (cases_of(known, False, 40, 8, seed) for seed in (1, 2))
    other = Cases(judge.outputs, 1 - judge.labels, judge.blocks, 2, False)
    for learner in (Smoother(), Hidden(), Redraws()):
        attack = learner.learn(learn, known, np.random.default_rng(0))
        np.testing.assert_array_equal(attack.logits(judge), attack.logits(other))


def test_noise_that_was_added_is_in_the_models():
    """Log-densities of noisy readings are those of the model with the noise in it, which are higher on average."""
    noise = np.array([3.0])
    for name in ("Gauss-Markov", "rounded", "heavy tails on a grid"):
        known = known_of(name, 2, False, raw=True, noise=noise)
        rng = np.random.default_rng(1)
        Y = us.sample(known.family.model(1), 50, 40, rng=rng) + rng.normal(0.0, 3.0, (50, 1, 40))
        aware, plain = (step_logs(models, Y)[1].mean() for models in (output_models(known), known.targets))
        if name == "Gauss-Markov":
            exact = us.GaussMarkov(0.9, 1.0, 1.0, 9.5, b=3.0, mean0=20.0, cov0=1.0)
            assert aware == pytest.approx(np.mean(us.loglik(Y, exact)) / 50.0)
        assert aware > plain + 0.5


def test_a_regression_on_scores_is_calibrated_and_leaves_out_what_never_varies():
    """Log-odds that are twice too large come out right; -1 takes no part; an infinite score is an average one."""
    rng = np.random.default_rng(1)
    label = rng.integers(2, size=20_000)
    score = 2.0 * rng.normal(2.0 * label - 1.0, 1.0) * 2.0  # the log-odds are 2 x, told as 4 x
    made = fit_logistic(
        np.stack([score, np.full(score.size, 3.0)]), np.where(rng.random(score.size) < 0.1, -1, label), 2
    )
    odds = np.diff(made.logits(np.array([[-2.0, 0.0, 2.0], [3.0, 3.0, 3.0]])), axis=0)[0]
    np.testing.assert_allclose(odds, [-1.0, 0.0, 1.0], atol=0.1)
    assert np.isfinite(made.logits(np.array([[np.inf], [np.nan]]))).all()
    assert log_loss(np.log(np.full((2, 3), 0.5)), np.array([0, 1, -1])) == pytest.approx(np.log(2.0))


@pytest.mark.long(seconds=2, reason="two trainings of every learner")
def test_the_clock_is_used_if_and_only_if_it_is_there():
    """Readings that say nothing, and a theta that keeps office hours: with a clock it is told, without it is not."""
    rng = np.random.default_rng(1)
    known = known_of("Gauss-Markov", 2, True, raw=True)
    hours = np.tile(np.arange(480) % 24.0, (4, 1)).T
    labels = ((hours >= 8) & (hours < 18)).astype(np.int64)
    labels = np.where(rng.random(labels.shape) < 0.05, 1 - labels, labels)
    days, blocks = np.full(hours.shape, 2), np.arange(480)[:, None] // 24 * 4 + np.arange(4)
    cases = Cases(rng.normal(20.0, 1.0, (480, 1, 4)), labels, blocks, 2, False, hours, days)
    learn, judge = cases.sequences([0, 1]), cases.sequences([2, 3])
    for learner in (Smoother(), Hidden(), Redraws()):
        for clock in (True, False):
            a, b = (x if clock else x.without_clock() for x in (learn, judge))
            right = (learner.learn(a, known, rng).logits(b).argmax(axis=0) == judge.labels).mean()
            assert bool(right > 0.9) is clock, (learner.name, clock, right)


@pytest.mark.sample(default=2, seconds=1, reason="learners trained and judged in many settings")
@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("lengths", [(9, 40), (40, 9)])
def test_sequences_may_be_longer_or_shorter_than_those_learned_from(once, lengths):
    """What is looked at is settled by the training sequences, so that judging has as many features."""
    known = known_of("Gauss-Markov", 2, not once)
    learn, judge = (cases_of(known, once, T, 30, seed) for T, seed in zip(lengths, (1, 2), strict=True))
    for learner in (Hidden(), Redraws()):
        found = learner.learn(learn, known, np.random.default_rng(0)).logits(judge)
        assert found.shape == ((2, 30) if once else (2, lengths[1], 30))
        assert np.isfinite(found).all()
