"""Rounded sensors: the exact law of what they report, both filters against it, and what they refuse."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import scipy.stats
from cell_oracles import next_cells
from helpers import ALPHA, dense, random_system, room
from simulate import of_model

import understudy as us
from understudy.checks import whiteness
from understudy.errors import ModelError, ReadingError, StateError
from understudy.laws.uniforms import SeededUniforms
from understudy.models.quantised import Quantised
from understudy.models.quantised_residual import CellState, innovation_sds
from understudy.transform.quantised import colouring, whitening

UNIFORMS = SeededUniforms(b"uniforms for tests")
SD = float(innovation_sds(room(0))[0])


def after(model, readings):
    """The state after some readings; None is a missing one."""
    state = model.start()
    for y in readings:
        state = model.skip(state) if y is None else model.update(state, y)
    return state


def probabilities(model, state, y):
    return np.exp(model.predict(state).logpdf(y))


# The exact law -------------------------------------------------------------------------------------


@pytest.mark.sample(default=8, seconds=1, reason="many models")
@pytest.mark.parametrize(
    ("A", "Q", "R"), [(0.95, 0.1, 0.1), (-0.7, 0.05, 1.0), (0.8, 0.1, 1e-3), (0.8, 0.1, 0.0), (0.0, 0.2, 0.1)]
)
@pytest.mark.parametrize("step", [0.2, 0.8, 2.0])
def test_point_masses_give_the_exact_law(A, Q, R, step):
    """Given three cells, the law of the fourth reading is right to 1e-12 (quadrature over the joint Gaussian)."""
    system = {"A": A, "C": 1.3, "Q": Q, "R": R, "b": 0.2, "d": 0.1, "mean0": 0.5, "cov0": 0.3}
    model = Quantised(us.GaussMarkov(**system), step, 0.1, method="point-mass")
    readings = [0.1 + step * j for j in (round(1.0 / step), 0, 0)]
    cells = [(y - 0.5 * step, y + 0.5 * step) for y in readings]
    y = 0.1 + step * np.arange(-3, 4)
    wanted = next_cells(*dense(system, 4), cells, [(t - 0.5 * step, t + 0.5 * step) for t in y])
    assert np.max(np.abs(probabilities(model, after(model, readings), y) - wanted)) < 1e-12


@pytest.mark.parametrize("step", [0.05, 0.1, 0.2])
def test_matched_moments_come_near_the_exact_law(step):
    """The error of a probability falls with the fourth power of the step."""
    system = {"A": 0.95, "C": 1.0, "Q": 0.1, "R": 0.1, "b": 0.0, "mean0": 0.5, "cov0": 0.3}
    model = Quantised(us.GaussMarkov(**system), step, method="moments")
    readings = [step * round(y / step) for y in (1.0, 0.6, 0.4)]
    cells = [(y - 0.5 * step, y + 0.5 * step) for y in readings]
    y = step * np.arange(round(-0.5 / step), round(1.5 / step) + 1)
    wanted = next_cells(*dense(system, 4), cells, [(t - 0.5 * step, t + 0.5 * step) for t in y])
    assert np.max(np.abs(probabilities(model, after(model, readings), y) / wanted - 1.0)) < 0.02 * step**4


@pytest.mark.parametrize("method", ["point-mass", "moments"])
def test_two_channels_of_one_state(method):
    """Two grids, independent noises: point masses are exact to 1e-12 in each channel, moments to 1e-3."""
    system = {
        "A": 0.9, "C": np.array([[1.0], [-0.5]]), "Q": 0.1, "R": np.diag([0.1, 0.2]), "d": np.array([0.1, 0.3]),
        "mean0": 0.2, "cov0": 0.4,
    }  # fmt: skip
    model = Quantised(us.GaussMarkov(**system), [0.5, 0.8], method=method)
    mean, cov = dense(system, 2)
    first, later = np.array([0.5, 0.0]), np.array([0.0, 0.8])
    cells = [(0.25, 0.75), (-0.4, 0.4), (-0.25, 0.25)]
    ends = [(0.8 * j - 0.4, 0.8 * j + 0.4) for j in range(-3, 4)]
    second = next_cells(mean, cov, cells, ends)
    third = next_cells(mean[:3], cov[:3, :3], cells[:2], [cells[2]])[0]
    law = model.predict(after(model, [first]))
    found = np.exp(law.logpdf(np.array([[later[0]] * 7, [0.8 * j for j in range(-3, 4)]])))
    assert np.max(np.abs(found - third * second)) < (1e-12 if method == "point-mass" else 1e-3)


def test_correlated_noises():
    """After one vector reading of a sensor with correlated noises, mean and covariance come near the true ones.

    The truth by quadrature over the cell; and noises taken for independent would be ten times as far away.
    """
    system = random_system(np.random.default_rng(5), 2, 2)
    system["R"] = np.array([[1.0, 0.8], [0.8, 1.0]])
    linear = us.GaussMarkov(**system)
    y = np.round(linear.predict(linear.start()).value(np.array([0.4, -0.6])) / 0.5) * 0.5
    t, w = np.polynomial.legendre.leggauss(40)
    grid = np.stack([g.ravel() for g in np.meshgrid(y[0] + 0.25 * t, y[1] + 0.25 * t, indexing="ij")])
    law = linear.predict(linear.start())
    weights = np.outer(w, w).ravel() * np.exp(law.logpdf(grid))
    weights /= weights.sum()
    means = np.array([linear.update(linear.start(), point).mean for point in grid.T])
    mean = weights @ means
    cov = linear.update(linear.start(), y).cov + (means - mean).T @ (weights[:, None] * (means - mean))

    def gap(model):
        state = model.update(model.start(), y)
        return max(np.max(np.abs(state.mean - mean)), np.max(np.abs(state.cov - cov)))

    wrong = us.GaussMarkov(**{**system, "R": np.diag(np.diag(system["R"]))})
    assert gap(Quantised(linear, 0.5)) < 2e-4
    assert gap(Quantised(wrong, 0.5)) > 10.0 * gap(Quantised(linear, 0.5))


def test_the_first_update_has_the_right_moments():
    """Mean and variance of the state after one cell, from quadrature: exact for one channel."""
    linear = room(1)
    for step in (0.3, 5.0):
        y = step * round(105.0 / step)
        model = Quantised(linear, step, method="moments")
        t, w = np.polynomial.legendre.leggauss(80)
        inside = y + 0.5 * step * t
        f = w * np.exp(linear.predict(linear.start()).logpdf(inside))
        f /= f.sum()
        means = np.array([linear.update(linear.start(), u).mean[0] for u in inside])
        variance = linear.update(linear.start(), y).cov.item() + f @ (means - f @ means) ** 2
        state = model.update(model.start(), y)
        assert abs(state.mean[0] - f @ means) < 1e-12
        assert abs(state.cov.item() - variance) < 1e-13


def test_skip_is_the_law_with_the_reading_summed_out():
    """Point masses: Pr(next | gap) = sum over readings of Pr(reading) Pr(next | reading), to 1e-12."""
    model = Quantised(room(0), 1.0, 0.3, method="point-mass")
    before = after(model, [95.3, 90.3])
    cells = model.grid.channels[0].between(60.0, 110.0)
    now = probabilities(model, before, cells)
    mixed = sum(
        p * probabilities(model, model.update(before, float(y)), cells)
        for y, p in zip(cells, now, strict=True)
        if p > 1e-10
    )
    assert np.max(np.abs(mixed - probabilities(model, model.skip(before), cells))) < 1e-9
    # a gap before the first reading leaves the state normal, for either side
    assert model.skip(model.start()).points.size == 0


def test_clipped_ranges_are_end_atoms():
    """The probability of an end is that of everything beyond it; the filter learns from ends what they say."""
    model = Quantised(room(0), 1.0, low=90.0, high=97.0, method="point-mass")
    cells = np.arange(90.0, 98.0)
    law = model.predict(model.start())
    spread = math.sqrt(1.1025)
    assert abs(math.exp(law.logpdf(90.0)) - scipy.stats.norm.cdf(90.5, 95.0, spread)) < 1e-14
    assert abs(math.exp(law.logpdf(97.0)) - scipy.stats.norm.sf(96.5, 95.0, spread)) < 1e-14
    assert abs(np.exp(law.logpdf(cells)).sum() - 1.0) < 1e-13
    state = model.update(model.start(), 97.0)
    # X_1 given Y_1 > 96.5: by quadrature over the state
    x = np.linspace(85.0, 105.0, 20_001)
    f = scipy.stats.norm.pdf(x, 95.0, math.sqrt(1.0025)) * scipy.stats.norm.sf(96.5, x, math.sqrt(0.1))
    assert abs(state.mean[0] - f @ x / f.sum()) < 1e-9
    with pytest.raises(ReadingError, match="beyond"):
        model.update(model.start(), 98.0)


# Scores --------------------------------------------------------------------------------------------


def drawn(model, T, seed=1):
    z = np.random.default_rng(seed).standard_normal((T, model.dim))
    return z, run(colouring(model), z)


def run(causal, Y):
    return causal.apply(causal.start(), Y)[1]


@pytest.mark.sample(default=2, seconds=2, reason="many models")
@pytest.mark.parametrize("ratio", [0.25, 1.0, 4.0])
def test_scores_are_white(ratio):
    """100,000 readings at steps of 0.25, 1 and 4 standard deviations (false alarm 1e-6)."""
    model = Quantised(room(1), ratio * SD, 0.1)
    assert model.method == ("moments" if ratio < 0.5 else "point-mass")
    _, Y = drawn(model, 100_000)
    z = run(whitening(model, UNIFORMS), Y)
    assert whiteness(z).p_value > ALPHA


@pytest.mark.parametrize("ratio", [1.0, 4.0])
def test_the_same_test_catches_rounding_that_is_ignored(ratio):
    """The plain Kalman filter on rounded readings; and readings jittered inside their cells, which is no better."""
    model = Quantised(room(1), ratio * SD, 0.1)
    _, Y = drawn(model, 100_000)
    assert whiteness(us.whiten(Y, room(1))).p_value < ALPHA
    jitter = ratio * SD * np.random.default_rng(2).uniform(-0.5, 0.5, Y.shape)
    assert whiteness(us.whiten(Y + jitter, room(1))).p_value < ALPHA


def test_the_spread_of_scores_catches_it_at_a_quarter():
    """At a quarter of a standard deviation, ignored rounding adds 0.5 percent of variance: 2,000,000 readings tell."""
    model = Quantised(room(1), 0.25 * SD)
    _, Y = drawn(model, 2_000_000)
    excess = [
        abs(np.square(z).mean() - 1.0) / math.sqrt(2.0 / z.size)
        for z in (run(whitening(model, UNIFORMS), Y), us.whiten(Y, room(1)))
    ]
    assert excess[0] < scipy.stats.norm.isf(ALPHA / 2.0) < excess[1]


def vector_model():
    """Two states, two channels with different grids and correlated noises."""
    system = random_system(np.random.default_rng(3), 2, 2)
    system["R"] = np.array([[0.5, 0.35], [0.35, 0.5]])
    return system, Quantised(us.GaussMarkov(**system), [1.0, 0.1], [0.2, 0.0])


def test_vector_scores_are_white():
    """Two states, two grids, correlated noises; a channel that is not rounded. Without the correlation it fails."""
    system, model = vector_model()
    assert model.method == "moments"
    assert "2 states" in model.reason
    _, Y = drawn(model, 100_000)
    assert whiteness(run(whitening(model, UNIFORMS), Y)).p_value > ALPHA
    wrong = us.GaussMarkov(**{**system, "R": np.diag(np.diag(system["R"]))})
    assert whiteness(run(whitening(Quantised(wrong, [1.0, 0.1], [0.2, 0.0]), UNIFORMS), Y)).p_value < ALPHA
    mixed = Quantised(model.linear, [None, 0.5])
    _, Y = drawn(mixed, 100_000)
    assert np.all(Y[:, 0] != np.round(Y[:, 0], 9))
    assert whiteness(run(whitening(mixed, UNIFORMS), Y)).p_value > ALPHA


def test_clipped_scores_are_white():
    """A sensor that saturates half of the time, by point masses."""
    model = Quantised(room(0), 0.5, low=-1.0, high=0.0)
    _, Y = drawn(model, 100_000)
    assert 0.4 < (Y[1000:] == 0.0).mean() < 0.7
    assert whiteness(run(whitening(model, UNIFORMS), Y)).p_value > ALPHA


# Out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0.1, 3.0])
def test_emit_rounds_the_unrounded_process(step):
    """What comes out is the coloured process, rounded; feeding back what was rounded would be something else."""
    model = Quantised(room(1), step, 0.7)
    z = np.random.default_rng(6).standard_normal(300)
    state, out = model.start(), []
    for value in z.tolist():
        state, y = model.emit(state, value)
        out.append(y)
    Y = us.colour(z, room(1))
    assert np.array_equal(out, np.round((Y - 0.7) / step) * step + 0.7)
    fed_back, twin = room(1).start(), []
    for value in z.tolist():
        twin.append(model.grid.channels[0].round(float(np.asarray(room(1).predict(fed_back).value(value)).item())))
        fed_back = room(1).update(fed_back, twin[-1])
    if step == 3.0:
        assert not np.array_equal(out, twin)


def test_the_law_of_what_is_released():
    """The frequencies of pairs of readings are those of a simulated process, rounded (false alarm 1e-6)."""
    step, N = 0.8, 4000
    linear = us.GaussMarkov(0.9, 1.0, 0.1, 0.1)
    model = Quantised(linear, step, low=-1.6, high=1.6)
    z, released = np.random.default_rng(8).standard_normal((N, 2)).tolist(), np.empty((N, 2))
    for j in range(N):
        state, released[j, 0] = model.emit(model.start(), z[j][0])
        _, released[j, 1] = model.emit(state, z[j][1])
    Y = of_model(np.random.default_rng(9), linear, 2, 10 * N)[:, 0, :].T
    truth = np.clip(np.round(Y / step) * step, -1.6, 1.6)
    code = [np.round(part / step).astype(int) @ [5, 1] for part in (released, truth)]
    values = sorted(set(code[1]) | set(code[0]))
    counts = np.array([[(part == value).sum() for value in values] for part in code])
    counts = counts[:, counts.sum(axis=0) > 20]
    assert scipy.stats.chi2_contingency(counts).pvalue > ALPHA


def test_emit_keeps_to_its_own_states():
    """A state of the point-mass filter is none of emit's; the start is common to both."""
    model = Quantised(room(1), 5.0)
    state = model.update(model.start(), 105.0)
    with pytest.raises(StateError, match="start"):
        model.emit(state, 0.0)


# Values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["moments", "point-mass"])
def test_states_and_models_are_values(method):
    """States have read-only arrays, update leaves them alone, copies and pickles continue."""
    model = Quantised(room(1), 1.0, low=0.0, method=method)
    state = after(model, [105.0, 110.0])
    kept = copy.deepcopy(state)
    later = model.update(state, 115.0)
    for array, same in zip(state, kept, strict=True):
        assert np.array_equal(array, same)
    assert isinstance(state, CellState)
    assert not any(part.flags.writeable for part in state if isinstance(part, np.ndarray))
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        assert other.method == method
        again = other.update(kept, 115.0)
        assert all(np.array_equal(a, b) for a, b in zip(again, later, strict=True))
    with pytest.raises(AttributeError, match="value"):
        model.dim = 3


def test_repr_shows_no_parameter():
    """Model and state may be logged by accident; the model shows nothing."""
    model = Quantised(us.GaussMarkov(0.12345, 1.0, 0.1, 0.1), 0.54321)
    assert "12345" not in repr(model)
    assert "54321" not in repr(model)


def test_a_model_that_changes_with_time():
    """Per-step matrices, by both filters and by the maps; readings beyond the given steps are refused."""
    A = us.PerStep([0.9, 0.5, 0.95, 0.7] * 5)
    linear = us.GaussMarkov(A, 1.0, 0.1, 0.1, mean0=0.0, cov0=1.0)
    for method in ("moments", "point-mass"):
        model = Quantised(linear, 1.0, method=method)
        assert model.steps == 20
        _, Y = drawn(model, 20)
        state, z = model.start(), []
        for k, y in enumerate(Y[:, 0].tolist()):
            z.append(model.predict(state).score(y, float(UNIFORMS.at(k, 1)[0])))
            state = model.update(state, y)
        assert np.max(np.abs(run(whitening(model, UNIFORMS), Y)[:, 0] - z)) < 1e-12
        with pytest.raises(ModelError, match="20 steps"):
            run(whitening(model, UNIFORMS), np.concatenate((Y, Y)))


def test_auto_regressive_models_may_be_rounded():
    """A model with a Gauss-Markov form serves, without measurement noise too."""
    model = Quantised(us.AutoRegressive(0.8, noise=us.Gaussian(0.0, 1.0)), 2.0)
    assert model.method == "point-mass"
    state = after(model, [2.0, 0.0])
    # x lies in its cell, and nowhere else
    assert state.points.min() >= -1.0
    assert state.points.max() <= 1.0
    two = Quantised(us.AutoRegressive([0.5, 0.3], noise=us.Gaussian(0.0, 1.0)), 2.0)
    _, Y = drawn(two, 50_000)
    assert whiteness(run(whitening(two, UNIFORMS), Y)).p_value > ALPHA


# Choice of the filter, and refusals ----------------------------------------------------------------


def test_the_filter_is_chosen_by_the_step():
    """Half an innovation standard deviation divides them; the reason is told."""
    assert Quantised(room(1), 0.49 * SD).method == "moments"
    assert Quantised(room(1), 0.51 * SD).method == "point-mass"
    assert "0.51" in Quantised(room(1), 0.51 * SD).reason
    assert Quantised(room(1), 4.0, method="moments").reason == "moments, as asked for"


@pytest.mark.parametrize(
    ("changes", "step", "why"),
    [
        ({"Q": 0.0}, 1.0, "Q = 0"),
        ({"R": 1e-9}, 1.0, "too small"),
        ({"C": [[1.0], [1.0]], "R": np.array([[1.0, 0.5], [0.5, 1.0]]), "d": [0.0, 0.0]}, 2.0, "correlated"),
        ({"C": [[1.0], [1.0]], "R": np.diag([1.0, 0.0]), "d": [0.0, 0.0]}, 2.0, "zero on its diagonal"),
        ({"C": [[1.0], [1.0]], "R": np.eye(2), "d": [0.0, 0.0]}, [2.0, None], "not rounded"),
    ],
)
def test_where_there_are_no_point_masses(changes, step, why):
    """Moments take over and say why; asking for point masses is refused with the same reason."""
    linear = room(0, **changes)
    model = Quantised(linear, step)
    assert model.method == "moments"
    assert why in model.reason
    with pytest.raises(ModelError, match="point-mass"):
        Quantised(linear, step, method="point-mass")


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (us.IID(us.Gaussian(0.0, 1.0)), {"step": 1.0}, "Gauss-Markov"),
        (7.0, {"step": 1.0}, "type float"),
        (room(0), {"step": 0.0}, "at least one channel"),
        (room(0), {"step": -1.0}, "positive"),
        (room(0), {"step": math.nan}, "finite"),
        (room(0), {"step": [1.0, 2.0]}, "one for each of 1"),
        (room(0), {"step": 1.0, "low": 2.0, "high": 1.0}, "above high"),
        (room(0), {"step": 1.0, "low": 0.3}, "grid point"),
        (room(0), {"step": 1.0, "method": "guess"}, "auto, moments, point-mass"),
    ],
)
def test_bad_input(model, given, message):
    """Configuration errors name the value and the rule."""
    with pytest.raises(ModelError, match=message):
        Quantised(model, **given)


@pytest.mark.parametrize("method", ["moments", "point-mass"])
def test_a_reading_off_the_grid_is_refused(method):
    """By each method and by the map, which adds the position; the value stays out of the message."""
    model = Quantised(room(1), 1.0, method=method)
    for call in (
        lambda: model.update(model.start(), 104.567),
        lambda: model.predict(model.start()).score(104.567, 0.5),
    ):
        with pytest.raises(ReadingError, match="not on its grid") as caught:
            call()
        assert "104" not in str(caught.value)
    Y = np.full((5, 1), 105.0)
    Y[3] = 104.567
    with pytest.raises(ReadingError, match="row 3") as caught:
        run(whitening(model, UNIFORMS), Y)
    assert "104" not in str(caught.value)


@pytest.mark.parametrize("method", ["moments", "point-mass"])
def test_readings_far_out(method):
    """A reading 40 standard deviations out has a finite score, moves the state and is forgotten."""
    model = Quantised(room(0), 0.5, method=method)
    _, Y = drawn(model, 60)
    Y[20] += 20.0
    Y[40] -= 20.0
    z = run(whitening(model, UNIFORMS), Y)
    assert np.isfinite(z).all()
    assert z[20, 0] > 20.0
    assert z[40, 0] < -20.0
    assert np.max(np.abs(z[55:])) < 5.0
    state = after(model, Y[:, 0].tolist())
    assert np.isfinite(state.mean).all()
    assert state.cov.item() > 0.0
