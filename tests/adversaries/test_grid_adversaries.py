"""Two adversaries who know the grid, against three ways to disguise rounded readings.

Theta is 0 or 1 with equal odds, and ~theta is drawn without looking at it: the budget is zero, so whatever an
adversary tells above one half of the time is a leak beyond the randomizer. The number of right guesses is compared
with the quantile of the binomial law at a false-alarm rate of 1e-6, which a leak must exceed and `Quantised` must not.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from adversary_cases import once
from helpers import ALPHA
from helpers import room as paper_room

import understudy as us
from understudy.adversaries.knowledge import Knowledge
from understudy.adversaries.learners.grid import Digits, GridInversion, decode
from understudy.identify.grid import detect_grid
from understudy.models.quantised import Quantised

RATIOS = (0.25, 1.0, 4.0)  # step / innovation standard deviation


def scalar(theta):
    """A room whose noise, memory and level depend on theta."""
    return us.GaussMarkov(
        0.9 - 0.15 * theta, 1.0, 0.5 + 0.4 * theta, 0.4 + 0.1 * theta, b=2.0 + 3.0 * theta, mean0=20.0, cov0=1.0
    )


def pair(theta):
    """Two channels, correlated, the second with another grid."""
    return us.GaussMarkov(
        np.array([[0.9, 0.1], [0.0, 0.8]]) - 0.1 * theta * np.eye(2),
        np.array([[1.0, 0.3], [0.2, 1.0]]),
        (0.5 + 0.4 * theta) * np.eye(2),
        np.array([[0.4, 0.1 * theta], [0.1 * theta, 0.3]]),
        b=np.array([2.0 + theta, 1.0]),
        mean0=np.array([20.0, 5.0]),
        cov0=np.eye(2),
    )


def steps_of(room, ratio):
    """The step of each channel: `ratio` times the settled innovation deviation, the second channel's 0.7 of it."""
    model = room(0)
    state = model.start()
    for _ in range(100):
        law, state = model.predict(state), model.update(state, np.zeros(model.dim))
    return ratio * np.sqrt(np.diag(np.atleast_2d(law.cov))) * np.array([1.0, 0.7])[: model.dim]


def rounded(Y, steps):
    """Readings (T, d, N) on the grid."""
    return steps[:, None] * np.round(Y / steps[:, None])


def plain(Y, source, target, steps, rng):
    """The float map of the grid."""
    return us.disguise(Y, source, target)


def rounded_after(Y, source, target, steps, rng):
    """The float map, rounded when it leaves."""
    return rounded(us.disguise(Y, source, target), steps)


def through_cells(Y, source, target, steps, rng):
    """`Quantised` on both sides."""
    given = steps.tolist() if len(steps) > 1 else float(steps[0])
    return us.disguise(Y, Quantised(source, given), Quantised(target, given), rng=rng)


def inversion(family, pseudo, steps, offsets=None, kernel=None, **more):
    """The adversary who tries every pair."""
    steps = np.atleast_1d(np.asarray(steps, dtype=float))
    P = np.full((2, len(pseudo)), 1.0 / len(pseudo)) if kernel is None else np.asarray(kernel)
    grid = steps, np.zeros(steps.size) if offsets is None else np.atleast_1d(offsets)
    return GridInversion(Knowledge(family, tuple(pseudo), P, family.prior, None, None, grid, None), grid, **more)


def guess(adversary, Y):
    """The likeliest value of each sequence."""
    return adversary.posterior(Y).argmax(axis=0)


class Setting:
    """Rounded readings under theta, disguised as ~theta, many times over."""

    def __init__(self, room, ratio, pseudo):
        self.room, self.pseudo, self.steps = room, pseudo, steps_of(room, ratio)
        self.family = us.Family(room, values=[0, 1])

    def outputs(self, way, T, N, seed):
        """Theta (N,), and what leaves (T, d, N)."""
        rng = np.random.default_rng(seed)
        theta, drawn = rng.integers(2, size=N), rng.integers(len(self.pseudo), size=N)
        out = np.empty((T, len(self.steps), N))
        for i, (j, value) in itertools.product((0, 1), enumerate(self.pseudo)):
            which = np.flatnonzero((theta == i) & (drawn == j))
            Y = us.sample(self.room(i), T, which.size + 2, rng=rng)[:, :, : which.size]
            if which.size:
                source, target = self.room(i), self.room(value)
                out[:, :, which] = way(rounded(Y, self.steps), source, target, self.steps, rng)
        return theta, out

    def inversion(self, way, T, N, seed):
        """Number of right guesses of N, by trying."""
        return self.tried(way, T, N, seed)[0]

    def tried(self, way, T, N, seed):
        """The same, and the p-value (ranks) that the scores have nothing to do with theta, whatever the threshold."""
        theta, out = self.outputs(way, T, N, seed)
        scores = inversion(self.family, self.pseudo, self.steps).posterior(out)
        margin = scores[1] - scores[0]
        ranks = scipy.stats.mannwhitneyu(margin[theta == 1], margin[theta == 0])
        return int((scores.argmax(axis=0) == theta).sum()), float(ranks.pvalue)

    def digits(self, way, T, N, seed):
        """Number of right guesses of N, after learning from as many others."""
        theta, out = self.outputs(way, T, 2 * N, seed)
        known, cases = inversion(self.family, self.pseudo, self.steps).known, once(out, theta, 2)
        learn, judge = cases.sequences(slice(0, N)), cases.sequences(slice(N, 2 * N))
        logits = Digits().learn(learn, known, np.random.default_rng(0)).logits(judge)
        return int((logits.argmax(axis=0) == theta[N:]).sum())


def critical(N):
    """Guessing is right more often than this once in a million."""
    return scipy.stats.binom.isf(ALPHA, N, 0.5)


CASES = list(itertools.product((scalar, pair), RATIOS))


@pytest.fixture(scope="module", params=CASES, ids=[f"{room.__name__}-{ratio}" for room, ratio in CASES])
def case(request):
    """One room, one ratio of step to noise: two pseudo values for one reading, one (known) for a thousand."""
    room, ratio = request.param
    return Setting(room, ratio, [0.3, 0.8]), Setting(room, ratio, [0.3])


def test_the_critical_values_are_those_of_guessing():
    """More than 34 of 40 guesses, 73 of 100, 191 of 300, 303 of 500 or 575 of 1000 are luck once in a million."""
    counts = (40, 100, 300, 500, 1000)
    assert [critical(N) for N in counts] == [34, 73, 191, 303, 575]
    for N in counts:
        law = [math.comb(N, k) / 2**N for k in range(N + 1)]
        assert sum(law[int(critical(N)) + 1 :]) <= ALPHA < sum(law[int(critical(N)) :])


def test_one_reading_gives_the_plain_map_away(case):
    """Both tell theta from one reading, 100 percent of 300 (guessing: at most 191)."""
    assert case[0].inversion(plain, 1, 300, 1) == 300
    assert case[0].digits(plain, 1, 300, 2) >= 297


def test_a_thousand_readings_give_the_plain_map_away(case):
    """The same over a thousand readings, 40 of 40 (guessing: at most 34)."""
    assert case[1].inversion(plain, 1000, 40, 3) == 40
    assert case[1].digits(plain, 1000, 40, 4) >= 38


@pytest.mark.sample(default=1, seconds=8, reason="six sensors, 200 guesses from a thousand readings each")
def test_rounding_the_output_alone_does_not_help(case):
    """At T = 1000 trying is right at least 88 times of 100, learning likewise (guessing: at most 73)."""
    right, p_value = case[1].tried(rounded_after, 1000, 100, 5)
    assert right >= 88
    assert p_value < ALPHA
    assert case[1].digits(rounded_after, 1000, 100, 6) >= 88


@pytest.mark.sample(default=2, seconds=5, reason="six sensors, 1500 guesses each")
def test_one_reading_through_cells_tells_nothing(case):
    """`Quantised`, T = 1: neither is right more often than guessing (1000 and 500 guesses, at most 575 and 303)."""
    right, p_value = case[0].tried(through_cells, 1, 1000, 7)
    assert right <= critical(1000)
    assert p_value > ALPHA
    assert case[0].digits(through_cells, 1, 500, 8) <= critical(500)


@pytest.mark.sample(default=1, seconds=13, reason="six sensors, 200 guesses from a thousand readings each")
def test_a_thousand_readings_through_cells_tell_nothing(case):
    """`Quantised`, T = 1000: neither is right more often than guessing (100 guesses, critical value 73)."""
    right, p_value = case[1].tried(through_cells, 1000, 100, 9)
    assert right <= critical(100)
    assert p_value > ALPHA
    assert case[1].digits(through_cells, 1000, 100, 10) <= critical(100)


def test_sequences_of_one_call_have_uniforms_of_their_own():
    """Equal readings in two places of one batch leave differently: a shared secret is what a learner learns."""
    Y = np.repeat(np.round(us.sample(scalar(0), 50, 2, rng=1)[:, :, :1]), 2, axis=2)
    out = through_cells(Y, scalar(0), scalar(0.3), np.ones(1), 2)
    assert not np.array_equal(out[:, :, 0], out[:, :, 1])


def test_the_papers_own_room_shifts_by_whole_numbers_at_first():
    """There one rounded reading tells nothing even of the plain map: both candidates land on the grid; two do."""
    whole = Setting(paper_room, 1.0, [0.2])
    whole.steps = np.ones(1)
    theta, out = whole.outputs(plain, 1, 200, 11)
    adversary = inversion(whole.family, [0.2], 1.0)
    assert np.ptp(adversary.posterior(out), axis=0).max() < 1e-6
    theta, out = whole.outputs(plain, 2, 200, 12)
    assert (guess(adversary, out) == theta).all()


def test_a_detected_grid_will_do():
    """What `detect_grid` finds in a history, offset and all, is what the adversary needs."""
    shifted = Setting(scalar, 1.0, [0.3, 0.8])
    grid = detect_grid(rounded(us.sample(scalar(0), 500, 2, rng=1), shifted.steps)[:, 0, 0] + 0.25 * shifted.steps[0])
    theta = np.repeat([0, 1], 50)
    Y = np.concatenate([grid.snap(us.sample(scalar(i), 1, 50, rng=i)) for i in (0, 1)], axis=2)
    out = np.concatenate([us.disguise(Y[:, :, theta == i], scalar(i), scalar(0.8)) for i in (0, 1)], axis=2)
    assert (guess(inversion(shifted.family, [0.3, 0.8], grid.step, grid.offset), out) == theta).all()


def test_any_model_can_be_inverted():
    """Gamma readings, not Gauss-Markov: one reading is enough; and a rounded family has its models inside."""
    family = us.Family(lambda v: us.IID(us.Scalar(scipy.stats.gamma(3.0 + v, scale=2.0))), values=[0, 1])
    Y = np.round(us.sample(family.model(1), 1, 100, rng=1)) + 1.0
    out = us.disguise(Y, family.model(1), family.model(0.4))
    assert (guess(inversion(family, [0.4, 0.6], 1.0), out) == 1).all()
    inside = us.Family(lambda v: Quantised(scalar(v), 0.7), values=[0, 1])
    Y = rounded(us.sample(scalar(1), 1, 100, rng=1), np.array([0.7]))
    out = us.disguise(Y, scalar(1), scalar(0.3))
    assert (guess(inversion(inside, [0.3, 0.8], 0.7), out) == 1).all()


def exact_law(model, step, Y):
    """Probability that the rounded process gives Y (T,): the normal law of the box, by scipy."""
    T = len(Y)
    A, Q, R = model.A.item(), model.Q.item(), model.R.item()
    mean, cov, m, P = np.empty(T), np.empty((T, T)), model.mean0.item(), model.cov0.item()
    for k in range(T):
        m, P = A * m + model.b.item(), A * A * P + Q
        mean[k] = m
        cov[k, k:] = P * A ** np.arange(T - k)
        cov[k:, k] = cov[k, k:]
    law = scipy.stats.multivariate_normal(mean, cov + R * np.eye(T))
    return law.cdf(Y + step / 2, lower_limit=Y - step / 2)


@pytest.mark.parametrize(("source", "target"), [(scalar(0), scalar(1)), (scalar(1), scalar(0))])
def test_the_likelihood_of_a_rounded_output_is_the_sum_over_all_inputs(source, target):
    """Enumeration of every grid input of two readings, each with the exact law of its box: within 2 percent."""
    step = 0.5
    Y = rounded(us.sample(source, 2, 3, rng=4), np.array([step]))
    Y = rounded_after(Y, source, target, np.array([step]), None)
    around = step * np.arange(-24, 25)
    first, second = np.meshgrid(around, around, indexing="ij")
    for s in range(3):
        centre = np.round(us.disguise(Y[:, 0, s], target, source) / step) * step
        inputs = np.stack([centre[0] + first.ravel(), centre[1] + second.ravel()])[:, None, :]
        fits = (rounded_after(inputs, source, target, np.array([step]), None) == Y[:, :, s : s + 1]).all(axis=(0, 1))
        total = sum(exact_law(source, step, y) for y in inputs[:, 0, fits].T)
        got = decode(Y[:, :, s : s + 1], source, target, (np.array([step]), np.zeros(1)), 4000)
        assert math.exp(got[0]) == pytest.approx(total, rel=0.02)


def test_one_reading_has_its_exact_likelihood():
    """At T = 1 no filter is involved: the likelihood is that of the cells left open, whatever the particles."""
    step = 0.5
    Y = rounded(us.sample(scalar(0), 1, 50, rng=4), np.array([step]))
    grid = np.array([step]), np.zeros(1)
    few, many = (decode(Y, scalar(1), scalar(0), grid, particles) for particles in (1, 16))
    assert few == pytest.approx(many, abs=1e-9)
    source, target = (model.predict(model.start()) for model in (scalar(1), scalar(0)))
    for s in range(50):
        candidates = step * np.arange(0, 80)
        open_ = np.abs(target.value(source.score(candidates)) - Y[0, 0, s]) < step / 2
        sd = math.sqrt(float(source.cov))
        edges = candidates[open_] + step * np.array([[-0.5], [0.5]])
        chance = np.diff(scipy.stats.norm.cdf((edges - float(source.mean)) / sd), axis=0)
        assert few[s] == pytest.approx(math.log(chance.sum()), abs=1e-6)


@pytest.mark.sample(default=1, seconds=3, reason="four sensors")
@pytest.mark.parametrize("way", [plain, rounded_after])
@pytest.mark.parametrize("together", [True, False])
def test_missing_readings_do_not_stop_it(way, together):
    """Gaps, the same in all sequences or not: 8 of 8 right from the plain map, 7 or more from the rounded one."""
    setting, rng = Setting(scalar, 0.25, [0.3]), np.random.default_rng(13)
    parts = []
    for i in (0, 1):
        Y = rounded(us.sample(scalar(i), 200, 4, rng=rng), setting.steps)
        gaps = rng.random((200, 1, 1 if together else 4)) < 0.05
        Y[np.broadcast_to(gaps, Y.shape)] = np.nan
        parts.append(way(Y, scalar(i), scalar(0.3), setting.steps, rng))
    found = guess(inversion(setting.family, [0.3], setting.steps, particles=4), np.concatenate(parts, axis=2))
    assert (found == np.repeat([0, 1], 4)).sum() >= (8 if way is plain else 7)


def test_the_randomizer_weighs_the_pairs():
    """With a kernel that forbids a pair, and a prior, the scores are Bayes' rule."""
    setting = Setting(scalar, 1.0, [0.3, 0.8])
    _, out = setting.outputs(plain, 1, 50, 15)
    never = inversion(setting.family, [0.3, 0.8], setting.steps, kernel=np.eye(2))
    evidence = never.evidence(out)
    assert never.posterior(out) == pytest.approx(np.stack([evidence[0, 0], evidence[1, 1]]) + math.log(0.5))
