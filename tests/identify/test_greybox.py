"""The grey-box fit: its likelihood and gradient against oracles, recovery of known parameters, bad samples."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from identify_cases import changed, history_of, labels, simulated, total, with_holes

import understudy as us
from understudy.errors import ModelError
from understudy.identify.candidates import grey_box, rows_of
from understudy.identify.candidates.grey_box import (
    Parts,
    Shape,
    fit_greybox,
    layout,
    maximise,
    models_of,
    objective,
    set_aside,
)
from understudy.identify.candidates.grey_box import pack as packed
from understudy.identify.candidates.grey_box import unpack as unpacked
from understudy.identify.selection import log_densities
from understudy.transform.backend import load_plain


def room(v, **changes):
    """A room like that of the data: a level that decays, people that raise it and make it noisier."""
    given = {"A": 0.9, "C": 1.0, "Q": 1.0 + 3.0 * v, "R": 2.0, "b": 40.0 + 8.0 * v, "mean0": 420.0, "cov0": 400.0}
    return us.GaussMarkov(**{**given, **changes})


ROOMS = {v: room(v) for v in (0, 1)}


def random_case(d, seed, fixed=False, which=(0, 1, 2)):
    """A random system with its shape, and a history with gaps and unknown labels in three segments."""
    rng = np.random.default_rng(seed)
    A = 0.7 * np.eye(d) + 0.1 * rng.standard_normal((d, d))
    which = np.array(which)
    G = which.max() + 1
    root = rng.standard_normal((G, d, d))
    Q = root @ root.transpose(0, 2, 1) + 0.2 * np.eye(d)
    shape = Shape(which, np.full(d, 1e-4), A if fixed else None)
    parts = Parts(A, rng.standard_normal((G, d)), Q, rng.uniform(0.2, 2.0, (G, d)))
    initial = rng.standard_normal(d), np.eye(d)
    models = dict(enumerate(models_of(parts, shape, initial)))
    history = with_holes(simulated(models, [40, 60, 25], seed, stay=0.8), seed + 1)
    return parts, shape, initial, models, history


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_likelihood_is_that_of_the_switched_model(d):
    """The banded system gives the log-likelihood that `us.loglik` finds by filtering, gaps and segments included."""
    parts, shape, initial, _, history = random_case(d, seed=d)
    rows = rows_of(history)
    models = dict(enumerate(models_of(unpacked(packed(parts, shape), shape)[0], shape, initial)))
    value, _ = objective(packed(parts, shape), layout(rows, shape.which, *initial), shape)
    oracle = total(log_densities(models, history))
    assert -value * int(rows.used.sum()) == pytest.approx(oracle, rel=1e-9)


@pytest.mark.sample(default=3, seconds=1, reason="many fits")
@pytest.mark.parametrize(
    ("d", "options"),
    [(1, {}), (2, {}), (2, {"which": [0, 1, 1]}), (1, {"which": [0, 0, 1]}), (2, {"fixed": True}), (3, {})],
)
def test_the_gradient_is_the_slope(d, options):
    """Every entry of the gradient against central differences of the likelihood."""
    parts, shape, initial, _, history = random_case(d, seed=10 + d, **options)
    rows = rows_of(history)
    lay = layout(rows, shape.which, *initial)
    x = packed(parts, shape)
    assert len(x) == sum(shape.sizes)
    gradient = objective(x, lay, shape)[1]
    h = 1e-5
    for i, e in enumerate(np.eye(len(x))):
        up, down = (objective(x + s * h * e, lay, shape)[0] for s in (1.0, -1.0))
        assert gradient[i] == pytest.approx((up - down) / (2 * h), abs=2e-8, rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), d=st.integers(1, 3), which=st.sampled_from([(0, 1, 2), (0, 1, 1), (0, 0, 0)]))
def test_likelihood_and_slope_of_any_system(seed, d, which):
    """For random systems, gaps and paths: the filter's likelihood, and the slope along a random direction."""
    parts, shape, initial, _, history = random_case(d, seed, which=which)
    rows = rows_of(history)
    lay, x = layout(rows, shape.which, *initial), packed(parts, shape)
    models = dict(enumerate(models_of(unpacked(x, shape)[0], shape, initial)))
    value, gradient = objective(x, lay, shape)
    assert -value * int(rows.used.sum()) == pytest.approx(total(log_densities(models, history)), rel=1e-8)
    e = np.random.default_rng(seed).standard_normal(len(x))
    e *= 1e-5 / np.linalg.norm(e)
    slope = objective(x + e, lay, shape)[0] - objective(x - e, lay, shape)[0]
    assert 2.0 * gradient @ e == pytest.approx(slope, rel=1e-4, abs=1e-11)


def test_free_vectors_and_parameters_are_the_same_thing():
    """Packing and unpacking are inverse to each other, down to the small allowance of the floor."""
    parts, shape, *_ = random_case(2, seed=20)
    again = unpacked(packed(parts, shape), shape)[0]
    np.testing.assert_allclose(again.A, parts.A)
    np.testing.assert_allclose(again.b, parts.b)
    np.testing.assert_allclose(again.Q, parts.Q, atol=2e-7)
    np.testing.assert_allclose(again.R, parts.R)


def errors_in_standard_errors(history, models, shape, truth):
    """(estimate - truth) / standard error of every free parameter, from the second derivatives of the likelihood."""
    rows = rows_of(history)
    first = next(iter(models.values()))
    lay = layout(rows, shape.which, first.mean0, first.cov0)
    found, _ = maximise(lay, shape, [truth])
    x = packed(found, shape)
    h = 1e-5
    slopes = [objective(x + s * h * e, lay, shape)[1] for e in np.eye(len(x)) for s in (1.0, -1.0)]
    H = (np.array(slopes[::2]) - np.array(slopes[1::2])) / (2 * h) * int(rows.used.sum())
    errors = np.sqrt(np.diag(np.linalg.inv((H + H.T) / 2)))
    return (x - packed(truth, shape)) / errors, found


def test_known_parameters_come_back():
    """Dynamics, offsets and the noise of each value within 5 standard errors (false alarm 7 x 6e-7)."""
    history = with_holes(simulated(ROOMS, [3000, 3000], seed=30), seed=31)
    shape = Shape(np.array([0, 1]), np.array([1e-6]))
    truth = Parts(np.array([[0.9]]), np.array([[40.0], [48.0]]), np.array([[[1.0]], [[4.0]]]), np.full((2, 1), 2.0))
    off, found = errors_in_standard_errors(history, ROOMS, shape, truth)
    assert np.abs(off).max() < 5.0
    # the public fit is this one, in other units and with a start law of its own
    fit = fit_greybox(history, robust=False)
    assert fit.parameters["A"] == pytest.approx(found.A.item(), abs=1e-3)
    np.testing.assert_allclose(fit.parameters["Q"], found.Q.ravel(), rtol=0.02)
    np.testing.assert_allclose(fit.parameters["R"], found.R.ravel(), rtol=0.02)


def test_one_noise_for_all_values_is_caught_by_the_same_test():
    """The twin: with the noise of value 0 for the truth of both, value 1 is more than 5 standard errors off."""
    history = simulated(ROOMS, [6000], seed=32)
    shape = Shape(np.array([0, 1]), np.array([1e-6]))
    wrong = Parts(np.array([[0.9]]), np.array([[40.0], [48.0]]), np.array([[[1.0]], [[1.0]]]), np.full((2, 1), 2.0))
    assert np.abs(errors_in_standard_errors(history, ROOMS, shape, wrong)[0]).max() > 5.0


@pytest.mark.long(seconds=1, reason="a fit of a physical model in two channels")
def test_two_channels_come_back():
    """A coupled pair: every entry of A, b, Q and R within 5 standard errors."""
    A = np.array([[0.8, 0.1], [0.0, 0.9]])
    Q = np.array([[[1.0, 0.3], [0.3, 0.5]], [[2.0, -0.5], [-0.5, 1.0]]])
    R = np.array([[0.5, 0.5], [1.0, 0.5]])
    b = np.array([[0.0, 1.0], [2.0, 0.0]])
    models = {v: us.GaussMarkov(A, np.eye(2), Q[v], np.diag(R[v]), b[v], 0.0, [0, 5], 4 * np.eye(2)) for v in (0, 1)}
    history = simulated(models, [3000], seed=33)
    shape = Shape(np.array([0, 1]), np.full(2, 1e-6))
    off, found = errors_in_standard_errors(history, models, shape, Parts(A, b, Q, R))
    assert np.abs(off).max() < 5.0
    fit = fit_greybox(history, robust=False)
    np.testing.assert_allclose(fit.parameters["A"], found.A, atol=0.01)
    np.testing.assert_allclose(fit.parameters["R"], found.R, rtol=0.1)
    assert fit.count == 4 + 4 + 6 + 4


def planted(history, share, seed):
    """Bad samples: single ones of 20 to 60 standard deviations, and a burst of four as in the office data."""
    rng = np.random.default_rng(seed)

    def change(Y, number):
        at = rng.choice(len(Y), size=int(share * len(Y)), replace=False)
        Y[at, 0] += rng.choice([-1.0, 1.0], len(at)) * rng.uniform(40.0, 120.0, len(at))
        Y[700:704, 0] += 700.0

    return changed(history, change)


def test_bad_samples_do_not_decide_a_variance():
    """Half a percent of bad samples: all 64 are found, variances within 10 percent of the truth; plain are tenfold."""
    history = simulated(ROOMS, [12000], seed=134)
    bad = planted(history, 0.005, seed=35)
    robust, plain = fit_greybox(bad), fit_greybox(bad, robust=False)
    np.testing.assert_allclose(robust.parameters["Q"], [1.0, 4.0], rtol=0.1)
    np.testing.assert_allclose(robust.parameters["R"], [2.0, 2.0], rtol=0.1)
    assert robust.notes == ("64 of 12000 readings were set aside as bad samples, and the level was taken to jump at 0",)
    assert min(plain.parameters["R"]) > 10.0 * 2.0


@pytest.mark.long(seconds=1, reason="a fit of a physical model")
def test_four_bad_samples_in_a_row():
    """The burst alone: variances within 2 percent, while the plain fit of that value is off by a factor of three."""
    history = simulated(ROOMS, [4000], seed=36)
    bad = planted(history, 0.0, seed=0)
    clean, robust, plain = (
        fit_greybox(h, robust=r).parameters for h, r in ((history, True), (bad, True), (bad, False))
    )
    for name in ("Q", "R"):
        np.testing.assert_allclose(robust[name], clean[name], rtol=0.02)
    value = int(history.segments[0].theta[701])
    assert plain["Q"][value] + plain["R"][value] > 3.0 * (clean["Q"][value] + clean["R"][value])


def test_clean_data_lose_nothing_to_robustness():
    """Without bad samples the robust fit is the plain one."""
    history = simulated(ROOMS, [3000], seed=37)
    robust, plain = fit_greybox(history), fit_greybox(history, robust=False)
    np.testing.assert_allclose(robust.parameters["Q"], plain.parameters["Q"], rtol=1e-5)
    assert robust.notes == plain.notes == ()


def test_a_jump_of_the_level_is_cut_and_its_readings_are_kept():
    """More than four readings in a row are a jump: none is set aside, and a new start is made there."""
    models = {v: room(v, cov0=1e4) for v in (0, 1)}
    history = simulated(models, [1000], seed=38)

    def jump(Y, _):
        Y[600:, 0] += 300.0 * 0.9 ** np.arange(400)

    kept = set_aside([models[0], models[1]], rows_of(changed(history, jump)))
    assert kept.starts.tolist() == [0, 600]
    assert kept.used.all()
    isolated = rows_of(changed(history, lambda Y, _: Y.__setitem__([100, 300, 301], 900.0)))
    assert np.flatnonzero(~set_aside([models[0], models[1]], isolated).used).tolist() == [100, 300, 301]


def test_no_more_than_one_in_a_hundred_is_set_aside():
    """Heavy tails are not bad samples: at most one reading in a hundred of a value goes."""
    rng = np.random.default_rng(39)
    theta = labels(rng, 3000, 2)
    history = history_of([(rng.standard_t(1.5, 3000), theta)], (0, 1))
    rows = rows_of(history)
    kept = set_aside([us.GaussMarkov(0.1, 1.0, 0.5, 0.5, mean0=0.0, cov0=1.0)] * 2, rows)
    gone = np.bincount(rows.theta[rows.used & ~kept.used], minlength=2)
    assert (gone <= 0.01 * np.bincount(rows.theta)).all()
    assert gone.sum() > 20


def test_a_level_that_drifts_away_is_kept_stable():
    """A walk with a trend asks for a root of one or more: it is moved inside, and a note says so."""
    rng = np.random.default_rng(42)
    theta = labels(rng, 800, 2)
    history = history_of([(np.exp(0.01 * np.arange(800)) + 0.01 * rng.standard_normal(800), theta)], (0, 1))
    fit = fit_greybox(history)
    assert fit.parameters["A"] == pytest.approx(0.9999)
    assert any("was moved to 0.9999" in note for note in fit.notes)


def test_a_value_with_few_readings_has_the_law_of_its_neighbour():
    """Seven readings make no variance: the value shares the law of the nearest, and a note says so."""
    history = simulated(ROOMS, [1000], seed=43)
    theta = history.segments[0].theta.copy()
    theta[500:507] = 2
    fit = fit_greybox(history_of([(history.segments[0].Y, theta)], ("0", "1", "2+")))
    assert fit.parameters["Q"][1] == fit.parameters["Q"][2]
    assert any("'2+' has 7 readings, too few: it has the law of '1'" in note for note in fit.notes)


def test_refusals_name_the_value_and_the_rule():
    """No labels and a channel that stands still."""
    history = simulated(ROOMS, [200], seed=44)
    segment = history.segments[0]
    with pytest.raises(ModelError, match="no labelled reading"):
        fit_greybox(history_of([(segment.Y, np.full(200, -1))], (0, 1)))
    with pytest.raises(ModelError, match="never changes"):
        fit_greybox(history_of([(np.ones(200), segment.theta)], (0, 1)))


@pytest.mark.parametrize("d", [1, 3])
def test_the_compiled_loop_is_the_plain_one(d, monkeypatch):
    """Likelihood and gradient by the kernel as it runs, and by the same file as ordinary Python."""
    parts, shape, initial, _, history = random_case(d, seed=40 + d)
    lay, x = layout(rows_of(history), shape.which, *initial), packed(parts, shape)
    value, gradient = objective(x, lay, shape)
    source = Path(grey_box.__file__).parents[1] / "_kernels.py"
    monkeypatch.setattr(grey_box, "kernels", load_plain("identify_kernels_under_test", str(source)))
    monkeypatch.setattr(grey_box, "view", memoryview)
    plain, slope = objective(x, lay, shape)
    assert plain == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(slope, gradient, rtol=1e-11, atol=1e-13)
