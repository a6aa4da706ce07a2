"""The gate: right models pass, misfit that all values share passes, and each way to reveal the value is found."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import scipy.stats

import understudy as us
from understudy.errors import ConfigurationError
from understudy.identify import detection
from understudy.identify.detection import DAY, WINDOWS, detect
from understudy.identify.gate import gate
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
    """Four times: a false alarm in any of them has probability 4e-2, and the seeds are fixed."""
    found = gate(RIGHT, history(readings(seed=seed)))
    assert found.passed, found.sentence
    assert not found.failed
    assert found.warning is None
    assert found.scores == 3980


@pytest.mark.sample(default=2, seconds=4, reason="five models, each gated")
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({0: room(1.0), 1: room(3.0, Q=1.0)}, "spread"),
        ({0: room(1.0), 1: room(4.0, Q=4.0)}, "mean"),
        ({0: room(1.0, a=0.5), 1: room(3.0, Q=4.0)}, "memory"),
        ({0: room(2.0), 1: room(2.0)}, "mean"),
        ({0: RIGHT[1], 1: RIGHT[0]}, "spread"),
    ],
)
def test_each_wrong_model_is_found(wrong, named):
    """Noise that does not grow, a wrong level, wrong dynamics, one law for both, labels exchanged."""
    found = gate(wrong, history(readings()))
    assert found.outcome == "leak"
    assert not found.passed
    assert named in {verdict.name for verdict in found.failed}
    assert found.warning == found.sentence
    assert "does not hold as stated" in found.warning


def test_heavy_tails_are_found():
    """Student-t noise of three degrees of freedom, fitted by a normal law of the same variance."""
    heavy = us.AutoRegressive([0.9], 1.0, us.Scalar(scipy.stats.t(3)))
    Y = us.sample(heavy, 4000, rng=2)
    plain = us.AutoRegressive([0.9], 1.0, us.Gaussian(0.0, 3.0))
    found = gate({0: plain, 1: plain}, history(Y))
    assert "shape" in {v.name for v in found.failed}
    assert found.passed  # the same misfit under both values
    assert not gate({0: heavy, 1: heavy}, history(Y)).failed


def test_noise_whose_size_has_a_memory_is_found():
    """Scores that are white and yet know the size of the next one."""
    rng = np.random.default_rng(3)
    size = np.repeat(np.where(rng.random(400) < 0.5, 0.6, np.sqrt(2.0 - 0.36)), 10)
    Y = size * rng.standard_normal(4000)
    law = us.IID(us.Gaussian(0.0, 1.0))
    made = gate({0: law, 1: law}, history(Y))
    found = {v.name for v in made.failed}
    assert "memory of the spread" in found
    assert "memory" not in found
    assert made.passed


@pytest.mark.long(seconds=3, reason="two channels, gated")
def test_channels_that_know_each_other_are_found():
    """Two channels with a correlation that the model leaves out, and the same with it."""
    cov = np.array([[1.0, 0.4], [0.4, 1.0]])
    Y = np.random.default_rng(4).multivariate_normal([0, 0], cov, size=4000)
    apart, joint = us.IID(us.Gaussian(np.zeros(2), np.eye(2))), us.IID(us.Gaussian(np.zeros(2), cov))
    assert "channels" in {v.name for v in gate({0: apart, 1: apart}, history(Y)).failed}
    assert not gate({0: joint, 1: joint}, history(Y)).failed


@pytest.mark.long(seconds=3, reason="two channels, gated")
def test_channels_whose_correlation_depends_on_the_value_are_found():
    """Every marginal is exact: only products of channels tell."""
    z = np.random.default_rng(4).standard_normal((4000, 2))
    z[:, 1] = np.where(THETA == 1, 0.6 * z[:, 0] + 0.8 * z[:, 1], z[:, 1])
    law = us.IID(us.Gaussian(np.zeros(2), np.eye(2)))
    assert gate({0: law, 1: law}, history(z)).outcome == "leak"


# What every value shares is free, and what depends on the value is not ------------------------------------------------


def autoregression(a, seed, theta=THETA):
    """Normal scores with variance one and autoregression a, a number or one for each row."""
    e, z, a = (
        np.random.default_rng(seed).standard_normal(len(theta)),
        np.zeros(len(theta)),
        np.broadcast_to(a, len(theta)),
    )
    for k in range(1, len(theta)):
        z[k] = a[k] * z[k - 1] + np.sqrt(1.0 - a[k] ** 2) * e[k]
    return z


def drift(size, seed, theta=THETA):
    """White scores on a slow level."""
    return np.random.default_rng([8, seed]).standard_normal(len(theta)) + size * autoregression(0.99, seed, theta)


@pytest.mark.sample(default=2, seconds=5, reason="five laws of scores")
@pytest.mark.parametrize("kind", ["autoregression", "drift", "heavy tails", "changing spread", "wrong spread"])
def test_a_misfit_that_all_values_share_passes(kind):
    """Far from white, and every diagnostic of it fails; but theta is not in it."""
    rng = np.random.default_rng(11)
    z = {
        "autoregression": autoregression(0.7, 1),
        "drift": drift(0.7, 2),
        "heavy tails": rng.standard_t(2.5, len(THETA)),
        "changing spread": rng.standard_normal(len(THETA)) * np.exp(0.7 * autoregression(0.98, 3)),
        "wrong spread": 2.0 * rng.standard_normal(len(THETA)),
    }[kind]
    law = us.IID(us.Gaussian(0.0, 1.0))
    found = gate({0: law, 1: law}, history(z))
    assert found.failed
    assert found.passed, found.sentence


@pytest.mark.sample(default=2, seconds=4, reason="four laws of scores")
@pytest.mark.parametrize("kind", ["variance", "autocorrelation", "slow drift", "skewness"])
def test_a_misfit_that_depends_on_the_value_is_found(kind):
    """The twins: the same sorts of misfit, other sizes of them under the other value."""
    rng, theta = np.random.default_rng(12), THETA
    z = {
        "variance": rng.standard_normal(len(theta)) * np.where(theta == 1, 1.3, 1.0),
        "autocorrelation": autoregression(np.where(theta == 1, 0.5, 0.0), 4),
        "slow drift": drift(0.7, 5) + np.where(theta == 1, 0.6, 0.0),
        # mean 0 and variance 1 under both
        "skewness": np.where(theta == 1, rng.exponential(1.0, len(theta)) - 1.0, rng.standard_normal(len(theta))),
    }[kind]
    law = us.IID(us.Gaussian(0.0, 1.0))
    assert gate({0: law, 1: law}, history(z)).outcome == "leak"


@pytest.mark.long(seconds=3, reason="a long recording, gated")
def test_a_leak_that_only_many_scores_show_is_found():
    """A mean of 0.25 in one value: hardly seen in a score, plain in 15."""
    rng = np.random.default_rng(5)
    z = rng.standard_normal((8000, 1))
    theta = np.repeat([0, 1] * 20, 200)
    null = detect([z], [theta], rng=0)
    assert not null.found
    assert all(each.p > 1e-3 for each in null.windows)
    z[theta == 1] += 0.25
    one, some, *_ = detect([z], [theta], rng=0).windows
    assert some.found
    assert some.excess - some.seen > one.excess - one.seen
    assert some.nats > one.nats > 0.0


def test_days_are_held_out_whole_where_there_are_enough():
    """Ten days are ten units; without times the segments are, and few of either are cut into blocks."""
    z, theta = np.random.default_rng(6).standard_normal((960, 1)), np.repeat([0, 1] * 20, 24)
    times = np.arange(960, dtype=np.int64) * 900 * 10**9
    days = detect([z], [theta], [times], rng=0, windows=[1])
    assert (days.unit, days.units) == ("day", 10)
    parts, labels = np.split(z, 10), np.split(theta, 10)
    segments = detect(parts, labels, rng=0, windows=[1])
    assert (segments.unit, segments.units) == ("segment", 10)
    blocks = detect([z], [theta], rng=0, windows=[1])
    assert (blocks.unit, blocks.units) == ("block", 20)


def test_false_alarms_are_as_rare_as_stated(monkeypatch):
    """White scores and a shared drift, 20 each, three windows: at most 3 leaks where 0.4 are expected (1e-3)."""
    monkeypatch.setattr(detection, "_TREES", 10)
    theta, alarms, small = np.repeat([0, 1] * 12, 50), 0, 0
    for seed in range(40):
        z = drift(0.7, seed, theta) if seed % 2 else np.random.default_rng([6, seed]).standard_normal(len(theta))
        found = detect([z[:, None]], [theta], rng=seed, windows=[1, 15, DAY], controls=6)
        alarms += found.found
        small += sum(each.p < 0.05 for each in found.windows)
    assert alarms <= 3
    assert small <= 20  # of 120, where 6 are expected of exact p-values


def test_the_leak_that_would_have_been_seen_is_seen(monkeypatch):
    """Nine times out of ten a leak of the size that is stated is found: at least 12 of 20 (1e-3)."""
    monkeypatch.setattr(detection, "_TREES", 10)
    theta, hits = np.repeat([0, 1] * 12, 50), 0
    for seed in range(20):
        z = np.random.default_rng([7, seed]).standard_normal((len(theta), 1))
        seen = detect([z], [theta], rng=seed, windows=[1], controls=6).windows[0].seen
        shift = 2.0 * scipy.stats.norm.ppf(0.5 + seen)  # of two normal laws, the best guess is right so often
        hits += detect([z + shift * theta[:, None]], [theta], rng=seed, windows=[1], controls=6).found
    assert hits >= 12


@pytest.mark.long(seconds=8, reason="scikit-learn is imported, and boosts")
def test_scikit_learn_finds_what_our_trees_find():
    """The same leak within its interval, and the page says which classifier it was."""
    pytest.importorskip("sklearn")
    rng, theta = np.random.default_rng(5), np.repeat([0, 1] * 10, 100)
    z = rng.standard_normal((2000, 1)) * (1.0 + 0.5 * theta[:, None])
    one, other = (detect([z], [theta], rng=0, windows=[15], controls=4, learner=name) for name in detection.LEARNERS)
    assert (one.learner, other.learner) == ("boosted trees", "scikit-learn")
    assert one.found
    assert other.found
    assert one.windows[0].low < other.windows[0].excess < one.windows[0].high
    with pytest.raises(ConfigurationError, match="learner"):
        detect([z], [theta], learner="forest")


def test_three_values_and_missing_scores():
    """Each of three values has its own spread, and a tenth of the scores is missing."""
    rng, theta = np.random.default_rng(9), np.repeat([0, 1, 2] * 10, 40)
    z = rng.standard_normal((1200, 1))
    z[rng.random(1200) < 0.1] = np.nan
    null = detect([z], [theta], rng=0)
    assert not null.found
    found = detect([z * (1.0 + 0.5 * theta[:, None])], [theta], rng=0, like=null)
    assert [each.control for each in found.windows] == [each.control for each in null.windows]
    assert found.found
    assert [each.window for each in found.windows] == list(WINDOWS)
    assert all(abs(each.control - 1.0 / 3.0) < 0.1 for each in found.windows)


def test_missing_and_unlabelled_rows_are_left_out():
    """A gap and unknown labels change the number of scores, not the verdict."""
    Y, theta = readings(theta=SOME), SOME.copy()
    Y[100:140] = np.nan
    theta[600:620] = -1
    found = gate(RIGHT, history(Y, theta, cuts=(500,)))
    assert found.outcome != "leak"
    assert found.scores == 980 - 60


def test_a_value_with_few_scores_is_named_as_untested():
    """Three values, one of which has 20 readings."""
    theta = np.concatenate([SOME, np.full(20, 2)])
    models = RIGHT | {2: room(5.0)}
    found = gate(models, history(readings(models, theta=theta), theta, (0, 1, 2), cuts=(500,)))
    assert found.untested == (2,)
    assert found.outcome == "untested"
    assert not found.passed
    assert untested_values([2]) in found.warning
    with pytest.raises(ConfigurationError, match="at least 50"):
        gate(RIGHT, history(readings()[:40], THETA[:40], cuts=()))


def test_one_run_of_each_value_tells_nothing():
    """Two runs: whatever drifts looks like theta; nothing is called passed or failed."""
    theta = np.repeat([0, 1], 150)
    found = gate(RIGHT, history(readings(theta=theta), theta, cuts=()))
    assert found.outcome == "untested"
    assert found.attack.windows == () or min(each.seen for each in found.attack.windows) > 0.15


def test_blocks_of_other_fits_count_with_the_held_out_end():
    """Scores of all blocks, in the order of time whatever the order of the blocks."""
    whole, law = history(readings(), cuts=(1000, 2000, 3000)), RIGHT
    parts = [dataclasses.replace(whole, segments=(segment,)) for segment in whole.segments]
    found = gate(law, parts[3], blocks=[(law, part) for part in parts[:3]])
    assert found.scores == gate(law, whole).scores
    assert found.attack.windows == gate(law, whole).attack.windows


def test_what_a_family_keeps_is_plain():
    """JSON holds it, and the verdicts are as told."""
    found = gate({0: room(1.0), 1: room(3.0, Q=1.0)}, history(readings(theta=SOME), SOME, cuts=(500,)))
    plain = json.loads(json.dumps(found.to_plain(), allow_nan=False))
    assert plain["passed"] is False
    assert plain["warning"] == found.warning
    assert len(plain["verdicts"]) == len(found.verdicts)
    assert plain["outcome"] == "leak"
    assert [each["window"] for each in plain["attack"]["windows"]] == list(WINDOWS)
    assert {"accuracy", "control", "excess", "low", "high", "nats", "seen"} <= plain["attack"]["windows"][0].keys()
    assert {"name", "class", "value", "p", "limit", "passed", "sentence"} <= plain["verdicts"][0].keys()


@pytest.mark.long(seconds=2, reason="gates twice")
def test_the_same_data_give_the_same_gate():
    """The simulations have a seed of their own."""
    held = history(readings())
    assert gate(RIGHT, held).to_plain() == gate(RIGHT, held).to_plain()
