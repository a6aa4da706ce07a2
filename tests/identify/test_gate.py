"""The gate: right models pass, and each way to be wrong is found."""

import itertools
import json

import numpy as np
import pytest
import scipy.stats

import understudy as us
from understudy.errors import ConfigurationError
from understudy.identify.gate import FALSE_ALARM, Scores, detect_private_value, gate
from understudy.identify.history import History, Segment
from understudy.text import untested_values

THETA = np.repeat([0, 1] * 20, 100)
SOME = THETA[:1000]  # where the verdicts are not at stake


def history(Y, theta=THETA, values=(0, 1), cuts=(2000,)):
    Y = Y[:, None] if Y.ndim == 1 else Y
    edges = [0, *cuts, len(Y)]
    segments = [Segment(str(a), None, Y[a:b], theta[a:b]) for a, b in itertools.pairwise(edges)]
    return History(tuple(f"c{i}" for i in range(Y.shape[1])), "people", None, (), values, 60.0, segments, ())


def room(b, Q=1.0, R=1.0, a=0.9):
    return us.GaussMarkov(a, 1.0, Q, R, b=b, mean0=b / (1.0 - a), cov0=5.0)


RIGHT = {0: room(1.0), 1: room(3.0, Q=4.0)}


def readings(models=RIGHT, seed=1, theta=THETA):
    return us.sample(us.Family(models).along(theta.tolist()), len(theta), rng=seed)


@pytest.mark.sample(default=1, seconds=4, reason="four models, each gated")
@pytest.mark.parametrize("seed", range(4))
def test_a_right_model_passes(seed):
    """Four times: a false alarm in any of them has probability 4e-3, and the seeds are fixed."""
    found = gate(RIGHT, history(readings(seed=seed)))
    assert found.passed, [v.sentence for v in found.failed]
    assert found.warning is None
    assert found.scores == 3980


@pytest.mark.sample(default=2, seconds=4, reason="five models, each gated")
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({0: room(1.0), 1: room(3.0, Q=1.0)}, "spread"),
        ({0: room(1.0), 1: room(3.5, Q=4.0)}, "mean"),
        ({0: room(1.0, a=0.5), 1: room(3.0, Q=4.0, a=0.5)}, "memory"),
        ({0: room(2.0), 1: room(2.0)}, "private value from 60 scores"),
        ({0: RIGHT[1], 1: RIGHT[0]}, "private value from 15 scores"),
    ],
)
def test_each_wrong_model_is_found(wrong, named):
    """Noise that does not grow, a wrong level, wrong dynamics, one law for both, labels exchanged."""
    found = gate(wrong, history(readings()))
    assert not found.passed
    assert named in {verdict.name for verdict in found.failed}
    assert "does not hold as stated" in found.warning


def test_heavy_tails_are_found():
    """Student-t noise of three degrees of freedom, fitted by a normal law of the same variance."""
    heavy = us.AutoRegressive([0.9], 1.0, us.Scalar(scipy.stats.t(3)))
    Y = us.sample(heavy, 4000, rng=2)
    plain = us.AutoRegressive([0.9], 1.0, us.Gaussian(0.0, 3.0))
    assert "shape" in {v.name for v in gate({0: plain, 1: plain}, history(Y)).failed}
    assert gate({0: heavy, 1: heavy}, history(Y)).passed


def test_noise_whose_size_has_a_memory_is_found():
    """Scores that are white and yet know the size of the next one."""
    rng = np.random.default_rng(3)
    size = np.repeat(np.where(rng.random(400) < 0.5, 0.6, np.sqrt(2.0 - 0.36)), 10)
    Y = size * rng.standard_normal(4000)
    law = us.IID(us.Gaussian(0.0, 1.0))
    found = {v.name for v in gate({0: law, 1: law}, history(Y)).failed}
    assert "memory of the spread" in found
    assert "memory" not in found


@pytest.mark.long(seconds=3, reason="two channels, gated")
def test_channels_that_know_each_other_are_found():
    """Two channels with a correlation that the model leaves out, and the same with it."""
    cov = np.array([[1.0, 0.4], [0.4, 1.0]])
    Y = np.random.default_rng(4).multivariate_normal([0, 0], cov, size=4000)
    apart, joint = us.IID(us.Gaussian(np.zeros(2), np.eye(2))), us.IID(us.Gaussian(np.zeros(2), cov))
    assert "channels" in {v.name for v in gate({0: apart, 1: apart}, history(Y)).failed}
    assert gate({0: joint, 1: joint}, history(Y)).passed


@pytest.mark.long(seconds=3, reason="a long recording, gated")
def test_a_leak_that_only_many_scores_show_is_found():
    """A mean of 0.25 in one value: hardly seen in a score, plain in 60."""
    rng = np.random.default_rng(5)
    z = rng.standard_normal((8000, 1))
    theta = np.repeat([0, 1] * 20, 200)
    z[theta == 1] += 0.25
    one, _, many = detect_private_value(Scores.of([z], [theta]), [0, 1], np.random.default_rng(0))
    assert many.p < FALSE_ALARM / 10
    assert many.accuracy - many.chance > one.accuracy - one.chance
    null = detect_private_value(Scores.of([rng.standard_normal((8000, 1))], [theta]), [0, 1], np.random.default_rng(0))
    assert all(told.p > 1e-4 for told in null)


def test_false_alarms_are_as_rare_as_stated():
    """P-values under right models are not too small: of 4 x 3 of the classifier, at most 3 below 1 percent (1e-5)."""
    theta = np.repeat([0, 1] * 5, 40)
    small = 0
    for seed in range(4):
        z = np.random.default_rng([6, seed]).standard_normal((400, 1))
        small += sum(
            told.p < 0.01 for told in detect_private_value(Scores.of([z], [theta]), [0, 1], np.random.default_rng(seed))
        )
    assert small <= 3


def test_missing_and_unlabelled_rows_are_left_out():
    """A gap and unknown labels change the number of scores, not the verdict."""
    Y, theta = readings(theta=SOME), SOME.copy()
    Y[100:140] = np.nan
    theta[600:620] = -1
    found = gate(RIGHT, history(Y, theta, cuts=(500,)))
    assert found.passed
    assert found.scores == 980 - 60


def test_a_value_with_few_scores_is_named_as_untested():
    """Three values, one of which has 20 readings."""
    theta = np.concatenate([SOME, np.full(20, 2)])
    models = RIGHT | {2: room(5.0)}
    found = gate(models, history(readings(models, theta=theta), theta, (0, 1, 2), cuts=(500,)))
    assert found.untested == (2,)
    assert not found.passed
    assert not found.failed
    assert untested_values([2]) in found.warning
    with pytest.raises(ConfigurationError, match="at least 50"):
        gate(RIGHT, history(readings()[:40], THETA[:40], cuts=()))


def test_what_a_family_keeps_is_plain():
    """JSON holds it, and the verdicts are as told."""
    found = gate({0: room(1.0), 1: room(3.0, Q=1.0)}, history(readings(theta=SOME), SOME, cuts=(500,)))
    plain = json.loads(json.dumps(found.to_plain(), allow_nan=False))
    assert plain["passed"] is False
    assert plain["warning"] == found.warning
    assert len(plain["verdicts"]) == len(found.verdicts)
    assert {"name", "class", "value", "p", "limit", "passed", "sentence"} <= plain["verdicts"][0].keys()


@pytest.mark.long(seconds=2, reason="gates twice")
def test_the_same_data_give_the_same_gate():
    """The simulations have a seed of their own."""
    held = history(readings())
    assert gate(RIGHT, held).to_plain() == gate(RIGHT, held).to_plain()
