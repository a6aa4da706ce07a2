"""What goes in wrongly is refused or told, and no error shows a reading."""

from __future__ import annotations

import numpy as np
import pytest
from audit_cases import Normal, plain_family, switching

import understudy as us
from understudy import text
from understudy.adversaries.audit import audit
from understudy.adversaries.datasets import DAYS, make_recording, simulate
from understudy.adversaries.learners.machine_learning import Hidden, Look
from understudy.adversaries.learners.machine_learning import local_features as features
from understudy.errors import ConfigurationError

ONE = {"one": Normal()}


@pytest.fixture(scope="module")
def design():
    """Readings whose mean is theta."""
    return us.design(plain_family(), leakage=0.1, distortion="mae", horizon=20)


def _material(T=600, seed=0):
    rng = np.random.default_rng(seed)
    theta = switching(T, 0.05, rng)
    return 2.0 * theta + rng.normal(size=T), theta


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda Y, theta: {"Y": [*Y[:-1].tolist(), "417.25ppm"]}, "Y holds what is no number"),
        (lambda Y, theta: {"released": [*Y[:-1].tolist(), "417.25ppm"]}, "released holds what is no number"),
        (lambda Y, theta: {"released": Y[:-7]}, "released has 593 rows .* 600 rows"),
        (lambda Y, theta: {"theta": theta[:, None]}, r"theta has shape \(600, 1\)"),
        (lambda Y, theta: {"theta": theta[:, None].tolist()}, "theta has rows of several entries"),
        (lambda Y, theta: {"theta": theta * 0}, "nothing can be judged: only one value occurs"),
        (lambda Y, theta: {"train": (Y, theta)}, "train has the readings that are judged"),
        (lambda Y, theta: {"train": (["417.25ppm"] * 600, theta)}, "no number"),
        (lambda Y, theta: {"hours": ["417.25ppm"] * 600}, "hours holds what is no number"),
    ],
)
def test_what_is_wrong_is_named_and_not_shown(design, change, match):
    """Text among readings, lengths that differ, one value only, the same recording twice."""
    Y, theta = _material()
    with pytest.raises(ConfigurationError, match=match) as raised:
        audit(design, **{"Y": Y, "theta": theta, "adversaries": ONE, **change(Y, theta)})
    assert "417" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_labels_and_days_that_are_not_known_are_counted_and_kept(design):
    """Three labels that are no value of the family are told of, None and NaN are not; NaN days are -1."""
    Y, theta = _material()
    labels = [*theta[:-6].tolist(), 7, 7, "x", None, np.nan, 1]
    made = audit(design, Y, labels, ONE, rng=1, noise=False, replicates=1)
    assert text.unknown_labels_note(3) in made.notes
    found = make_recording([1.0, 2.0], [0, 1], [0, 1], hours=[1.0, 2.0], days=[np.nan, 3])
    assert found.days.tolist() == [-1, 3]
    assert found.strange == 0


def test_a_clock_that_only_one_recording_has_is_told_of(design):
    """Hours beside a training recording without them are used for days alone."""
    (Y, theta), other = _material(), _material(seed=1)
    made = audit(design, Y, theta, ONE, rng=1, noise=False, replicates=1, train=other, hours=np.arange(600) % 24)
    assert text.HIDDEN_CLOCK_NOTE in made.notes
    assert made.row("one", clock=True) is None
    assert text.block_note(DAYS, DAYS) in made.notes


class Odd(Normal):
    """Raises what no library does."""

    def learn(self, cases, known, rng):
        raise KeyError(float(cases.outputs[0, 0, 0]))


class Wordless(Normal):
    """Says what is no array."""

    def learn(self, cases, known, rng):
        class Attack:
            def logits(self, cases):
                return None

        return Attack()


def test_whatever_a_learner_raises_is_listed_by_type(design):
    """An error of any kind, or an answer of any kind, skips that adversary alone."""
    Y, theta = _material()
    made = audit(design, Y, theta, {"odd": Odd(), "wordless": Wordless(), **ONE}, rng=1, noise=False, replicates=1)
    assert made.skipped["odd"] == "it stopped with a KeyError"
    assert made.skipped["wordless"] == "it stopped with a AttributeError"
    assert made.row("one") is not None


def test_a_design_with_estimates_has_no_guarantee():
    """An audit of a design that accepts estimated values says so."""
    family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    chain = [[0.9, 0.1], [0.1, 0.9]]
    for estimated in (True, False):
        given = {"rate": 0.1, "distortion": "mae", "decision_every": 10, "accept_estimated_theta": estimated}
        made = audit(us.design_causal(family, chain, **given), n=2000, adversaries=ONE, rng=1, noise=False)
        assert made.estimated is estimated
        assert (text.ESTIMATED_NOTE in made.notes) is estimated


def test_what_is_known_of_draws_is_from_the_half_that_is_learned_from():
    """The average kernel of a causal design is counted in the sequences to learn from, and not in the judged ones."""
    family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    design = us.design_causal(family, [[0.9, 0.1], [0.1, 0.9]], rate=0.1, distortion="mae", decision_every=10)
    made = simulate(design, 2000, np.random.default_rng(1), lambda share: None)
    learn = made.learn["disguised"]
    counts = np.zeros((2, len(design.pseudo)))
    for a, b in zip(learn.labels.ravel(), learn.pseudo.ravel(), strict=True):
        counts[a, b] += 1
    assert np.allclose(made.known["disguised"].kernel, counts / counts.sum(axis=1, keepdims=True))


def test_short_training_sequences_do_for_long_ones(design):
    """The hidden Markov smoother has the features of its training: of 20 readings for sequences of 200."""
    assert features(np.zeros((200, 1, 1)), Look.at(20)).shape[0] == features(np.zeros((20, 1, 1))).shape[0]
    assert features(np.zeros((2, 1, 1)), Look.at(20)).shape == (4, 2, 1)
    Y, theta = _material(200)
    short = np.arange(20) // 10
    train = 2.0 * short + np.random.default_rng(3).normal(size=20), short
    made = audit(design, Y, theta, {"hmm": Hidden()}, rng=1, train=train, noise=False, replicates=4)
    assert not made.skipped
    assert made.row("hmm", "raw").guesses == 200
