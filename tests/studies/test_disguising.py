"""Disguises of the study are those of the package, and its figures are what they say."""

import numpy as np
import pytest
import scipy.stats

import understudy as us
from studies.real_data import attacking, disguising
from studies.real_data.rooms import Room
from understudy.identify.history import History, Segment


def family(step=None, dim=1):
    """A family of two autoregressions of order two, on a grid or not."""
    if dim == 2:
        Phi = np.array([[[0.6, 0.1], [0.0, 0.7]], [[0.1, 0.0], [0.0, 0.1]]])
        made = {
            v: us.AutoRegressive(Phi, [3.0 + v, 2.0], us.Gaussian([0.0, 0.0], [[1.0, 0.3], [0.3, 1.0 + v]]))
            for v in (0, 1)
        }
    else:
        laws = {v: us.Scalar(scipy.stats.t(4.0, 0.0, 1.0 + v)) for v in (0, 1)}
        made = {v: us.AutoRegressive([0.6, 0.2], 10.0 + 4.0 * v, laws[v]) for v in (0, 1)}
    models = {v: m if step is None else us.OnGrid(m, step=step) for v, m in made.items()}
    about = {"chain": {"transition": [[0.95, 0.05], [0.1, 0.9]]}}
    return us.Family(models, prior=[0.6, 0.4], about=about)


@pytest.mark.parametrize(("step", "dim"), [(None, 1), (0.5, 1), (None, 2), ([0.5, 0.25], 2)])
def test_many_at_once_is_the_disguise_of_the_package(step, dim):
    """Readings coloured for several paths together are those of us.disguise along each path."""
    rng = np.random.default_rng(3)
    made = family(step, dim)
    theta = np.repeat([0, 1, 0], 20)
    pseudo = np.stack([np.repeat([1, 0], 30), np.repeat([0, 1, 1], 20)], axis=1)
    Y = us.sample(made.along(theta.tolist()), 60, rng=rng)
    history = History(
        ("y",) * dim, "theta", None, (), (0, 1), 60.0, (Segment("1", None, Y.reshape(60, dim), theta),), ()
    )
    key = b"k" * 32
    z = disguising.scores(made, history, rng=key)[0]
    found = disguising.coloured(np.stack([z, z], axis=2), made, pseudo)
    for k in range(2):
        expected = us.disguise(Y, made.along(theta.tolist()), made.along(pseudo[:, k].tolist()), rng=key)
        np.testing.assert_allclose(found[:, :, k], expected.reshape(60, dim), atol=1e-9)


@pytest.mark.parametrize("step", [None, 0.5])
def test_hidden_markov_paths_are_those_of_the_package(step):
    """A hidden Markov family coloured for several paths together gives the readings of us.colour along each."""
    A = [[0.9, 0.1], [0.2, 0.8]]
    made = {v: us.HiddenMarkov(A, [0.5, 0.5], [us.Gaussian(5.0 * v, 1.0), us.Gaussian(8.0, 2.0 + v)]) for v in (0, 1)}
    models = {v: m if step is None else us.OnGrid(m, step=step) for v, m in made.items()}
    pair = us.Family(models)
    z = np.random.default_rng(5).standard_normal((40, 1, 2))
    which = np.stack([np.repeat([1, 0], 20), np.repeat([0, 1], 20)], axis=1)
    found = disguising.coloured(z, pair, which)
    for k in range(2):
        expected = us.colour(z[:, 0, k], pair.along(which[:, k].tolist()))
        np.testing.assert_allclose(found[:, 0, k], expected, atol=1e-6)


def test_zero_budget_plays_one_value_and_infinity_the_true_one():
    """At rate 0 all draws are alike and cost nothing; at infinity the pseudo path is the private one."""
    rng = np.random.default_rng(4)
    theta = np.repeat([0, 1, 0, 1], 15)
    cost = np.array([[0.0, 5.0], [5.0, 0.0]])
    silent = disguising.causal(family(), cost, 5, 0.0, rng)
    path, nats = silent.pseudo(theta, rng)
    assert len(set(path.tolist())) == 1
    assert nats == 0.0
    path, nats = disguising.causal(family(), cost, 5, np.inf, rng).pseudo(theta, rng)
    np.testing.assert_array_equal(path, theta)
    assert nats > 0.0


def test_epochs_are_charged_each():
    """A constant design that is drawn again for each epoch is charged each time."""
    plan = disguising.epochs(family(), np.array([[0.0, 5.0], [5.0, 0.0]]), 10, 0.1)
    path, nats = plan.pseudo(np.zeros(35, dtype=int), np.random.default_rng(1))
    assert nats == pytest.approx(4 * plan.nats)
    assert plan.nats <= 0.1
    assert all(len(set(path[k : k + 10].tolist())) == 1 for k in range(0, 35, 10))


def test_noise_has_the_size_that_is_asked_for():
    """Mean absolute noise is the distortion stated, white or slow (30,000 values, slow ones worth some 1,000)."""
    Y = np.zeros((15_000, 1))
    history = History(
        ("y",), "theta", None, (), (0, 1), 60.0, (Segment("1", None, Y, np.zeros(15_000, dtype=int)),), ()
    )
    for slow, room in ((0.0, 0.2), (0.9, 0.8)):
        made = disguising.noisy(history, np.array([7.0]), slow, 2, np.random.default_rng(2))
        assert disguising.distortion(history, made)[0] == pytest.approx(7.0, abs=room)


def simulated(seed=0):
    """A room that says nothing about itself, with readings that tell theta, and without."""
    theta = np.tile(np.repeat([0, 1], 60), 20)
    rng = np.random.default_rng(seed)
    Y = (3.0 * theta + rng.standard_normal(theta.size))[:, None]
    times = (np.arange(theta.size) * 60 * 1_000_000_000).astype(np.int64)
    return History(("y",), "theta", "t", (), (0, 1), 60.0, (Segment("1", times, Y, theta),), ())


def test_cases_have_clock_blocks_and_labels():
    """Rows of one stretch of time share a number in all replicates, and hours come from the times."""
    history = simulated()
    room = Room("r", {}, {}, "y", "theta", ("ppm",), block=3600.0)
    made = attacking.cases(room, history, [np.repeat(history.segments[0].Y[:, :, None], 3, axis=2)])
    assert made.N == 3
    assert made.blocks[:, 0].tolist() == (np.arange(2400) // 60).tolist()
    np.testing.assert_allclose(made.hours[:, 2], np.arange(2400) / 60.0 % 24.0)
    assert made.days[0, 0] == 3
    np.testing.assert_array_equal(made.labels[:, 1], history.segments[0].theta)


def test_figures_of_a_perfect_and_of_a_blind_adversary():
    """Balanced accuracy is 1 and 0.5, and the gain is the difference."""
    history = simulated()
    room = Room("r", {}, {}, "y", "theta", ("ppm",), block=3600.0)
    made = attacking.cases(room, history, [history.segments[0].Y[:, :, None]])
    right = np.log(np.where(np.stack([1 - made.labels, made.labels]) == 1, 0.99, 0.01))
    blind = np.log(np.full((2, *made.labels.shape), 0.5))
    prior = np.array([0.5, 0.5])
    seeing, guessing = (attacking.guesses_of(said, made, prior) for said in (right, blind))
    assert attacking.row_of(seeing, guessing)["balanced"][0] == 1.0
    assert attacking.row_of(seeing, guessing)["gain"][0] == 0.5
    assert attacking.row_of(guessing, None)["balanced"][0] == 0.5


def test_the_best_is_no_reference():
    """The strongest adversary is chosen among those that attack, by accuracy without the clock and by gain with it."""
    rows = [
        {"adversary": "blind", "clock": False, "reference": True, "balanced": [0.9, 0, 1]},
        {"adversary": "a", "clock": False, "reference": False, "balanced": [0.6, 0, 1]},
        {"adversary": "b", "clock": True, "reference": False, "balanced": [0.8, 0, 1], "gain": [0.1, 0, 1]},
    ]
    assert attacking.best(rows)["adversary"] == "a"
    assert attacking.best(rows, clock=True)["adversary"] == "b"
    assert attacking.best(rows[:1]) is None


def test_fresh_chance_keeps_the_law_of_scores():
    """Normal scores stay normal, and what they know goes with the share; without one they are as they were."""
    rng = np.random.default_rng(8)
    z = rng.standard_normal((20_000, 1))
    assert (disguising.mixed(z, 0.0, rng) == z).all()
    for share in (0.5, 1.0):
        found = disguising.mixed(z, share, rng)
        assert scipy.stats.kstest(found[:, 0], "norm").pvalue > 1e-6
        together = float(np.mean(found * z))
        assert together == pytest.approx(np.sqrt(1.0 - share**2), abs=5.0 / np.sqrt(len(z)))
    assert scipy.stats.kstest(z[:, 0] + 0.5 * rng.standard_normal(len(z)), "norm").pvalue < 1e-6  # merely added
