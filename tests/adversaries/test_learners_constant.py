"""Where theta is constant: what each learner finds of a planted dependence, and nothing where there is none."""

import numpy as np
import pytest
from learner_cases import ALPHA, chance, constant, moving

import understudy as us
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.learners.machine_learning import Boosting, Logistic, Neighbours, Windowed
from understudy.paper import setting as room

ALL = (Logistic, Boosting, Neighbours)
KINDS = ("mean", "variance", "correlation")


@pytest.mark.sample(default=2, seconds=3, reason="nine learners")
@pytest.mark.parametrize("learner", ALL)
@pytest.mark.parametrize("kind", KINDS)
def test_finds_what_a_constant_parameter_changes(learner, kind):
    """A mean, a variance alone and a correlation between channels alone are found (false alarm 1e-6)."""
    rng = np.random.default_rng(1)
    attack = learner().learn(constant(kind, 800, rng), None, rng)
    assert chance(attack, constant(kind, 400, rng)) < ALPHA


@pytest.mark.parametrize("learner", [*ALL, Windowed])
def test_finds_nothing_where_the_parameter_changes_nothing(learner):
    """The twin: independent outputs, the same test, no alarm; and the odds given are close to the prior's."""
    rng = np.random.default_rng(2)
    attack = learner().learn(constant("nothing", 800, rng), None, rng)
    judged = constant("nothing", 400, rng)
    assert chance(attack, judged) > ALPHA
    logits = attack.logits(judged)
    assert np.take_along_axis(logits, judged.truth[None], axis=0).mean() > np.log(0.5) - 0.02


@pytest.mark.long(seconds=4, reason="four trainings")
def test_windowed_finds_a_mean_and_not_a_variance():
    """It looks at means alone, as the paper's estimator does."""
    rng = np.random.default_rng(5)
    for cases in (constant, moving):
        found = {}
        for kind in ("mean", "variance"):
            attack = Windowed().learn(cases(kind, 200, rng), None, rng)
            found[kind] = chance(attack, cases(kind, 200, rng))
        assert found["mean"] < ALPHA < found["variance"]


def test_windowed_is_as_good_as_the_estimator_that_knows_the_model():
    """In the paper's room with faint breath it errs no more often than (Ybar - a Ybarbar) / b (false alarm 1e-6)."""
    rng = np.random.default_rng(6)
    theta = rng.integers(2, size=3000)
    outputs = np.empty((50, len(theta)))
    for value in (0, 1):
        model = us.GaussMarkov(A=room.A, C=1.0, Q=0.1, R=0.1, b=0.2 * value, mean0=2.0, cov0=1.0)
        outputs[:, theta == value] = us.sample(model, 50, n=int((theta == value).sum()), rng=rng).reshape(50, -1)
    labels = np.tile(theta, (50, 1)).astype(np.int64)
    cases = Cases(outputs[:, None], labels, np.tile(np.arange(3000), (50, 1)), m=2, once=True)
    attack = Windowed().learn(cases.sequences(slice(1500)), None, rng)
    mine = attack.logits(cases.sequences(slice(1500, 3000))).argmax(axis=0) != theta[1500:]
    now, before = outputs[40:50, 1500:].mean(axis=0), outputs[39:49, 1500:].mean(axis=0)
    paper = ((now - room.A * before) / 0.2 > 0.5) != theta[1500:]
    from scipy import stats

    worse, better = int((mine & ~paper).sum()), int((paper & ~mine).sum())
    assert stats.binom.sf(worse - 1, worse + better, 0.5) > ALPHA
    assert 0.05 < paper.mean() < 0.45
    assert mine.mean() <= paper.mean()


@pytest.mark.long(seconds=1, reason="boosting on many sequences")
def test_boosting_on_a_room_reaches_the_bound_of_the_design():
    """On the paper's disguised room nobody errs less often than the bound, and boosting errs about as often."""
    from scipy import stats

    from understudy.paper.estimates import release as released

    rng = np.random.default_rng(7)
    design = room.make_design(0.3)
    rows, out = released(design, 6000, rng)
    labels = np.tile(rows, (50, 1)).astype(np.int64)
    cases = Cases(out[:, None], labels, np.tile(np.arange(6000), (50, 1)), m=2, once=True)
    attack = Boosting().learn(cases.sequences(slice(3000)), None, rng)
    wrong = int((attack.logits(cases.sequences(slice(3000, 6000))).argmax(axis=0) != rows[3000:]).sum())
    bound = 1.0 - float((design.prior[:, None] * design.randomizer.kernel).max(axis=0).sum())
    assert stats.binom.cdf(wrong, 3000, bound) > ALPHA
    assert stats.binom.sf(wrong - 1, 3000, bound + 0.01) > ALPHA
