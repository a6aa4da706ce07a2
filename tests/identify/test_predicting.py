"""Log-densities and scores along the labelled path: the quick ways against the model that `Family.along` makes."""

import numpy as np
import pytest
import scipy.stats
from identify_cases import history_of, simulated, total, with_holes

import understudy as us
from understudy.errors import FamilyError, ReadingError
from understudy.identify.candidates import fill_labels as governing
from understudy.identify.candidates import mask_readings as masked
from understudy.identify.history import History, Segment
from understudy.identify.selection import log_densities, scores
from understudy.laws.uniforms import uniforms_from


def gauss_markov():
    return {v: us.GaussMarkov(0.9, 1.0, 1.0 + v, 0.5 + v, b=3.0 * v, mean0=v, cov0=2.0) for v in (0, 1, 2)}


def gauss_markov_vector():
    A = np.array([[0.8, 0.1], [-0.1, 0.7]])
    return {
        v: us.GaussMarkov(A, np.eye(2), np.eye(2) * (1 + v), 0.3 * np.eye(2), [v, -v], 0.0, [1.0, 2.0], np.eye(2))
        for v in (0, 1)
    }


def student(v, scale):
    return us.Scalar(scipy.stats.t(3.0 + v, loc=0.0, scale=scale))


def autoregressive_normal():
    return {v: us.AutoRegressive([0.5, 0.3], v, us.Gaussian(0.0, 1.0 + v)) for v in (0, 1)}


def autoregressive_student():
    return {v: us.AutoRegressive([0.5, 0.3 - 0.1 * v], v, student(v, 1.0 + v)) for v in (0, 1)}


def autoregressive_copula():
    Phi = [[[0.6, 0.2], [0.0, 0.5]]]
    return {
        v: us.AutoRegressive(Phi, [v, 0.0], us.GaussianCopula([[1, 0.5], [0.5, 1]], [student(v, 1.0), student(1, 2.0)]))
        for v in (0, 1)
    }


def independent():
    return {v: us.IID(us.Scalar(scipy.stats.t(4.0, loc=v, scale=1.0 + v))) for v in (0, 1)}


def independent_vector():
    return {v: us.IID(us.Gaussian([v, 0.0], [[1.0, 0.5], [0.5, 1.0 + v]])) for v in (0, 1)}


def hidden():
    A = [[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]]
    return {
        v: us.HiddenMarkov(A, [0.2, 0.3, 0.5], [us.Gaussian(4.0 * s + v, 1.0 + v) for s in range(3)]) for v in (0, 1)
    }


def hidden_vector():
    A = [[0.9, 0.1], [0.2, 0.8]]
    cov = [[1.0, 0.4], [0.4, 2.0]]
    return {v: us.HiddenMarkov(A, [0.5, 0.5], [us.Gaussian([3.0 * s, v], cov) for s in range(2)]) for v in (0, 1)}


ALL = [
    gauss_markov, gauss_markov_vector, autoregressive_normal, autoregressive_student, autoregressive_copula,
    independent, independent_vector, hidden, hidden_vector,
]  # fmt: skip
GAPS = [m for m in ALL if m not in (autoregressive_student, autoregressive_copula)]


def oracle(models, segment, values):
    """Log-densities one by one, through the four methods of the model along the path."""
    model = us.Family(models).along([values[i] for i in governing(segment.theta)])
    state, found = model.start(), []
    for y in masked(segment.Y, segment.theta):
        if np.isnan(y).any():
            state = model.skip(state)
            found.append(np.nan)
        else:
            law = model.predict(state)
            found.append(float(np.squeeze(law.logpdf(y if model.dim > 1 else y[0]))))
            state = model.update(state, y if model.dim > 1 else y[0])
    return np.array(found)


@pytest.mark.sample(default=4, seconds=1, reason="many fits")
@pytest.mark.parametrize("make", GAPS)
def test_quick_ways_give_the_numbers_of_the_model_along_the_path(make):
    """With gaps, incomplete vectors and unknown labels: densities and scores are those of `Family.along`."""
    models = make()
    history = with_holes(simulated(models, [150, 80], seed=1), seed=2)
    found, z = log_densities(models, history), scores(models, history)
    for segment, density, score in zip(history.segments, found, z, strict=True):
        np.testing.assert_allclose(density, oracle(models, segment, history.values), rtol=1e-10, atol=1e-10)
        model = us.Family(models).along([history.values[i] for i in governing(segment.theta)])
        np.testing.assert_allclose(score, us.whiten(masked(segment.Y, segment.theta), model), rtol=1e-8, atol=1e-9)
        assert np.array_equal(np.isnan(density), ~segment.used)
        assert np.array_equal(np.isnan(score).any(axis=1), ~segment.used)


@pytest.mark.parametrize("make", [autoregressive_student, autoregressive_copula])
def test_autoregression_with_other_noise_has_a_law_once_its_predecessors_are_there(make):
    """From the p-th reading on the numbers are those of `Family.along`; before it, and after a gap, there are none."""
    models = make()
    history = simulated(models, [120], seed=3)
    p = next(iter(models.values())).order
    segment = history.segments[0]
    density, z = log_densities(models, history)[0], scores(models, history)[0]
    model = us.Family(models).along([history.values[i] for i in segment.theta])
    assert np.isnan(density[:p]).all()
    np.testing.assert_allclose(density[p:], oracle(models, segment, history.values)[p:], rtol=1e-10)
    np.testing.assert_allclose(z[p:], us.whiten(segment.Y, model)[p:], rtol=1e-9, atol=1e-10)
    Y = segment.Y.copy()
    Y[50] = np.nan
    gap = log_densities(models, history_of([(Y, segment.theta)], history.values))[0]
    assert np.flatnonzero(np.isnan(gap)).tolist() == [*range(p), *range(50, 51 + p)]
    np.testing.assert_array_equal(gap[51 + p :], density[51 + p :])


@pytest.mark.sample(default=4, seconds=1, reason="many fits")
@pytest.mark.parametrize("make", GAPS)
def test_the_sum_is_the_log_likelihood(make):
    """Summed over a segment without holes, the log-densities are `us.loglik`."""
    models = make()
    history = simulated(models, [200], seed=4)
    segment = history.segments[0]
    model = us.Family(models).along([history.values[i] for i in segment.theta])
    assert total(log_densities(models, history)) == pytest.approx(us.loglik(segment.Y, model), rel=1e-11)


def test_a_reading_without_label_does_not_count():
    """Its value is not looked at, neither by its own term nor by those after it."""
    models = gauss_markov()
    history = simulated(models, [60], seed=5)
    segment = history.segments[0]
    theta = segment.theta.copy()
    theta[[0, 20, 21]] = -1
    Y = segment.Y.copy()
    one = log_densities(models, history_of([(Y, theta)], history.values))[0]
    Y[[0, 20, 21]] = 1e3
    other = log_densities(models, history_of([(Y, theta)], history.values))[0]
    np.testing.assert_array_equal(one, other)
    assert np.isnan(one[[0, 20, 21]]).all()


def test_rounded_models_go_step_by_step_and_segments_do_not_share_uniforms():
    """A rounded family is scored through the model along the path; a key repeats it, and each segment has its own."""
    models = {v: us.Quantised(us.GaussMarkov(0.9, 1.0, 4.0, 1.0, b=v, mean0=0.0, cov0=1.0), step=1.0) for v in (0, 1)}
    theta = np.repeat([0, 1], 20)
    Y = np.round(us.sample(us.GaussMarkov(0.9, 1.0, 4.0, 1.0, mean0=0.0, cov0=1.0), 40, rng=1))
    history = history_of([(Y, theta), (Y, theta)], (0, 1))
    key = b"a key of 32 bytes for the tests!"
    z = scores(models, history, key)
    np.testing.assert_array_equal(np.concatenate(z), np.concatenate(scores(models, history, key)))
    assert not np.array_equal(z[0], z[1])
    density = log_densities(models, history)[0]
    assert np.isfinite(density).all()
    assert (density < 0.0).all()  # probabilities of cells


def test_different_transitions_go_step_by_step():
    """Hidden Markov models that move differently have no quick way, and the same numbers as the path."""
    models = {
        v: us.HiddenMarkov([[1 - p, p], [p, 1 - p]], [0.5, 0.5], [us.Gaussian(0.0, 1.0), us.Gaussian(5.0, 1.0)])
        for v, p in ((0, 0.1), (1, 0.4))
    }
    history = simulated(models, [60], seed=6)
    np.testing.assert_allclose(
        log_densities(models, history)[0], oracle(models, history.segments[0], (0, 1)), rtol=1e-12
    )


def test_refusals_name_the_rule_and_no_reading():
    """A missing model, other channels and an infinite reading are refused."""
    models = independent()
    history = simulated(models, [30], seed=7)
    with pytest.raises(FamilyError, match="no model for the value 1"):
        log_densities({0: models[0]}, history)
    with pytest.raises(FamilyError, match="2 channels and the history has 1"):
        log_densities(independent_vector(), history)
    Y = history.segments[0].Y.copy()
    Y[3] = np.inf
    for make in (independent, gauss_markov, hidden):
        with pytest.raises(ReadingError, match="row 3 is infinite"):
            log_densities({v: make()[v] for v in (0, 1)}, history_of([(Y, history.segments[0].theta)], (0, 1)))


def test_labels_without_holes():
    """Unknown labels are filled from before, at the start from behind, and with anything where none is known."""
    assert governing(np.array([-1, -1, 1, -1, 0, -1])).tolist() == [1, 1, 1, 1, 0, 0]
    assert governing(np.array([-1, -1])).tolist() == [0, 0]


def test_scores_on_a_grid_are_those_of_the_path():
    """Gauss-Markov models on a grid: all cells at once give what the path gives reading by reading, gaps included."""
    models = {v: us.OnGrid(us.GaussMarkov(0.9, 1.0, 4.0, 1.0, b=10.0 * v, mean0=0.0, cov0=1.0), 1.0) for v in (0, 1)}
    theta = np.repeat([0, 1, 0], 40)
    path = us.Family(models).along(theta.tolist())
    Y = us.sample(path, 120, rng=1)
    Y[50:53] = np.nan
    given = History(("y",), "t", None, (), (0, 1), None, (Segment("1", None, Y[:, None], theta),), ())
    expected = us.whiten(Y[:, None], path, uniforms_from(5).sensor(0))
    np.testing.assert_allclose(scores(models, given, rng=5)[0], expected, rtol=0, atol=1e-9)
