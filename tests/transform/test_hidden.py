"""The faster paths through a hidden Markov model: the answer of the four methods, steps and chunks to the same bits."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers import same_bits
from scipy import stats
from scipy.special import log_ndtr

import understudy as us
from understudy.errors import NumericalError, ReadingError, StateError
from understudy.laws.atoms import Atoms
from understudy.laws.multivariate import GaussianCopula
from understudy.laws.uniforms import uniforms_from
from understudy.models.hidden_markov import HiddenMarkov
from understudy.transform import hidden_markov as hidden
from understudy.transform.core import Emit, RandomisedScore, Score, run

RNG = np.random.default_rng(21)
UNIFORMS = uniforms_from(7)


def chain(S, seed=3):
    rng = np.random.default_rng([seed, S])
    return rng.dirichlet(np.ones(S), S), rng.dirichlet(np.ones(S))


def covariance(rng, d):
    root = rng.standard_normal((d, 2 * d))
    return root @ root.T / d


def gaussian(S=5):
    return HiddenMarkov(*chain(S), [us.Gaussian(3.0 * s, 1.0 + 0.3 * s) for s in range(S)])


def vectors(S=3, d=3):
    rng = np.random.default_rng([22, S, d])
    return HiddenMarkov(*chain(S), [us.Gaussian(2.0 * rng.standard_normal(d), covariance(rng, d)) for _ in range(S)])


def grids(S=3, M=20):
    rng = np.random.default_rng([23, S, M])
    return HiddenMarkov(*chain(S), [Atoms(np.arange(M) + s, rng.dirichlet(np.ones(M))) for s in range(S)])


OTHERS = [
    us.Gaussian(0.0, 1.0),
    us.Scalar(stats.t(3, loc=2.0)),
    us.Scalar(stats.gamma(2.0)),
    us.Scalar(stats.uniform(-1.0, 3.0)),
]
TILTED = us.Gaussian([2.0, 3.0], [[1.0, 0.5], [0.5, 1.0]])
SWITCHES = [Atoms([0.0, 1.0], [0.3, 0.7]), Atoms([1.0, 2.0], [0.5, 0.5])]
ROUND = np.roll(np.eye(4), 1, axis=1)
SCALES = [us.Gaussian(0.0, 1e-8), us.Gaussian(1.0, 1.0), us.Gaussian(-50.0, 1e6)]


def pair(first, second):
    return HiddenMarkov(*chain(2), [first, second])


MODELS = {
    "gaussian": gaussian(),
    "twelve states": gaussian(12),
    "one state": gaussian(1),
    "cycle": HiddenMarkov(ROUND, [1.0, 0.0, 0.0, 0.0], gaussian(4).laws),
    "absorbing": HiddenMarkov([[0.9, 0.1], [0.0, 1.0]], [1.0, 0.0], gaussian(2).laws),
    "very different scales": HiddenMarkov(*chain(3), SCALES),
    "other laws": HiddenMarkov(*chain(4), OTHERS),
    "vectors": vectors(),
    "many channels": vectors(2, 9),
    "Gaussian channels": pair(us.Independent(us.Gaussian(0.0, 1.0), us.Gaussian(1.0, 2.0)), TILTED),
    "channels": pair(us.Independent(us.Gaussian(0.0, 1.0), us.Scalar(stats.laplace())), TILTED),
    "atoms": grids(),
    "atoms and a continuous channel": pair(
        us.Independent(SWITCHES[0], us.Gaussian(0.0, 1.0)), us.Independent(SWITCHES[1], us.Gaussian(3.0, 2.0))
    ),
}
SLOW = {"other laws": 25, "channels": 25, "many channels": 60}


def plain_scores(model):
    return RandomisedScore(model, UNIFORMS) if model.atoms else Score(model)


def scores_for(model, T, seed=1):
    """Scores with gaps, and readings that have them."""
    z = np.random.default_rng(seed).standard_normal((T, model.dim))
    z[[3, 8, 9]] = np.nan
    return z, run(Emit(model), z)


def steps(causal, Y):
    state, out = causal.start(), []
    for row in Y:
        state, value = causal.step(state, row.item() if causal.dim == 1 else row)
        out.append(np.reshape(value, causal.dim))
    return state, np.array(out)


def chunks(causal, Y, cuts=(1, 3, 17)):
    state, out = causal.start(), []
    for part in np.array_split(Y, cuts):
        state, values = causal.apply(copy.deepcopy(state), np.ascontiguousarray(part))
        out.append(values)
    return state, np.concatenate(out)


@pytest.mark.sample(default=5, seconds=2, reason="13 models, method by method")
@pytest.mark.parametrize("name", MODELS)
def test_scores_and_values_are_those_of_the_four_methods(name):
    """To 1e-9 (1e-12 here), gaps included, for every kind of law; and the states agree."""
    model = MODELS[name]
    z, Y = scores_for(model, SLOW.get(name, 150))
    fast, plain = hidden.whitening(model, UNIFORMS), plain_scores(model)
    (state, out), (plain_state, expected) = fast.apply(fast.start(), Y), plain.apply(plain.start(), Y)
    np.testing.assert_allclose(out, expected, atol=1e-12)
    if model.atoms:
        assert state[0] == plain_state[0] == len(Y)
        state, plain_state = state[1], plain_state[1]
    np.testing.assert_allclose(state, plain_state, atol=1e-12)
    if not model.atoms:
        np.testing.assert_allclose(out, z, atol=1e-11)
    fast = hidden.colouring(model)
    assert (fast is None) == (name in ("other laws", "channels", "atoms and a continuous channel"))
    if fast is not None:
        np.testing.assert_allclose(run(fast, z), Y, atol=1e-9 * np.nanmax(np.abs(Y)), rtol=1e-9)


@pytest.mark.sample(default=7, seconds=1, reason="many systems, step by step")
@pytest.mark.parametrize("name", MODELS)
def test_steps_chunks_and_the_whole_have_the_same_bits(name):
    """And a copied state continues."""
    model = MODELS[name]
    z, Y = scores_for(model, SLOW.get(name, 60))
    for causal, data in ((hidden.whitening(model, UNIFORMS), Y), (hidden.colouring(model), z)):
        if causal is not None:
            state, whole = causal.apply(causal.start(), data)
            for other_state, other in (steps(causal, data), chunks(causal, data)):
                assert same_bits(other, whole)
                assert other_state == state


@pytest.mark.parametrize("name", ["gaussian", "very different scales", "Gaussian channels", "vectors"])
def test_tails_agree_with_the_four_methods(name):
    """To 1e-9, from scores of 6, where a distribution function is nearly 1, to 1000."""
    model = MODELS[name]
    far = [6.0, -6.0, 8.0, 0.1, -9.0, 20.0, -30.0, 35.9, 36.1, 0.0, -37.0, 38.5, -40.0, 60.0, 1.0, -300.0, 1000.0]
    z = np.repeat(np.array(far)[:, None], model.dim, axis=1)
    z[:, 1:] *= -0.5
    Y = run(Emit(model), z)
    np.testing.assert_allclose(run(hidden.colouring(model), z), Y, rtol=1e-9)
    whitened = run(hidden.whitening(model), Y)
    np.testing.assert_allclose(whitened, run(Score(model), Y), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(whitened, z, rtol=1e-6, atol=1e-6)


def test_a_channel_may_bring_back_a_state_that_another_had_all_but_excluded():
    """Channels are weighed together: 60 standard deviations against a state, then 100 for it."""
    model = HiddenMarkov(
        np.eye(2), [0.5, 0.5], [us.Gaussian([0.0, 0.0], np.eye(2)), us.Gaussian([60.0, 100.0], np.eye(2))]
    )
    Y = np.array([[0.0, 100.0], [60.5, 99.0]])
    for causal in (hidden.whitening(model), Score(model)):
        state, z = causal.apply(causal.start(), Y)
        np.testing.assert_allclose(state, [0.0, 1.0], atol=1e-12)
        np.testing.assert_allclose(z[1], [0.5, -1.0], atol=1e-12)
        # the lower half of the state that the first channel made exp(-1800) times as likely as the other
        assert log_ndtr(-z[0, 1]) == pytest.approx(-1800.0 + np.log(0.5), rel=1e-12)
    np.testing.assert_allclose(run(hidden.colouring(model), run(hidden.whitening(model), Y)), Y, atol=1e-9)


@pytest.mark.sample(default=2, seconds=1, reason="many systems, step by step")
@pytest.mark.parametrize("name", ["gaussian", "vectors", "atoms"])
def test_a_long_sequence_in_blocks(name):
    """Blocks of work leave no seam: 30 000 readings go to scores and back."""
    model = MODELS[name]
    z = np.random.default_rng(5).standard_normal((30_000, model.dim))
    Y = run(hidden.colouring(model), z)
    back = run(hidden.whitening(model, UNIFORMS), Y)
    if model.atoms:
        assert same_bits(run(hidden.colouring(model), back), Y)
    else:
        np.testing.assert_allclose(back, z, atol=1e-10)
    # the last block again, from the state before it
    causal = hidden.whitening(model, UNIFORMS)
    state, _ = causal.apply(causal.start(), Y[:29_000])
    assert same_bits(causal.apply(state, np.ascontiguousarray(Y[29_000:]))[1], back[29_000:])


def test_atoms_go_to_scores_and_back_exactly():
    """For uniforms near 0 and 1 and atoms too rare for floats; the rows that the loop leaves are decided elsewhere."""

    class Near:
        """Uniforms at the ends of their range."""

        def block(self, first, count, d):
            return np.resize([5e-324, 1e-17, 0.5, 1.0 - 2.0**-53], (first + count, 1))[first:]

        def at(self, k, d):
            return self.block(k, 1, d)[0]

    rng = np.random.default_rng(6)
    p = np.array([0.25, 1e-25, 0.25, 1e-25, 1e-25, 0.5])
    rare = HiddenMarkov(*chain(2), [Atoms(np.arange(6.0), p), Atoms(np.arange(1.0, 7.0), p[::-1])])
    for model, values in ((rare, np.arange(7.0)), (grids(), np.arange(22.0))):
        Y = rng.choice(values[1:-1], 400)[:, None]
        z = run(hidden.HiddenScores(model, Near()), Y)
        assert np.isfinite(z).all()
        assert same_bits(run(hidden.colouring(model), z), Y)
        # the four methods round the probabilities in their own way, and so are exact among themselves
        assert same_bits(run(Emit(model), run(RandomisedScore(model, Near()), Y)), Y)


def test_sensors_have_uniforms_of_their_own():
    """The map for sensor j is another one for atoms, and the same without."""
    causal = hidden.whitening(MODELS["atoms"], UNIFORMS)
    Y = run(hidden.colouring(MODELS["atoms"]), np.zeros((20, 1)))
    assert not same_bits(run(causal.sensor(0), Y), run(causal.sensor(1), Y))
    assert same_bits(run(causal.sensor(1), Y), run(causal.sensor(1), Y))
    without = hidden.whitening(MODELS["gaussian"])
    assert without.sensor(3) is without


@pytest.mark.sample(default=2, seconds=1, reason="many systems, step by step")
@pytest.mark.parametrize("name", ["gaussian", "other laws", "vectors", "atoms"])
def test_log_likelihood_of_a_chunk(name):
    """The sum of the log-densities of the readings that are there."""
    model = MODELS[name]
    _, Y = scores_for(model, 40)
    state, total = model.start(), 0.0
    for row in Y if model.dim > 1 else Y[:, 0].tolist():
        if np.isnan(row).any():
            state = model.skip(state)
        else:
            total += float(model.predict(state).logpdf(row))
            state = model.update(state, row)
    assert us.loglik(Y, model) == pytest.approx(total, rel=1e-12)


def test_what_has_no_faster_path():
    """Atoms without uniforms, copulas, and a subclass, which may do anything."""

    class Other(HiddenMarkov):
        __slots__ = ()

    copula = GaussianCopula(np.eye(2), [us.Gaussian(0.0, 1.0)] * 2)
    model = HiddenMarkov(np.eye(2), [0.5, 0.5], [copula, us.Gaussian([0.0, 0.0], np.eye(2))])
    other = Other(np.eye(2), [0.5, 0.5], gaussian(2).laws)
    assert hidden.whitening(MODELS["atoms"]) is None
    assert hidden.whitening(model) is hidden.colouring(model) is None
    assert hidden.whitening(other) is hidden.colouring(other) is None
    with pytest.raises(ReadingError, match="atoms"):
        hidden.HiddenScores(MODELS["atoms"])


def test_bad_readings_and_states_are_refused_without_being_shown():
    """Position, type and rule."""
    scores, values = hidden.whitening(MODELS["gaussian"]), hidden.colouring(MODELS["gaussian"])
    for causal in (scores, values):
        for y in (np.inf, "a", [1.0, 2.0]):
            with pytest.raises(ReadingError):
                causal.step(causal.start(), y)
        for state in ((0.5, 0.5), 3, None):
            with pytest.raises(StateError, match="5 probabilities"):
                causal.step(state, 1.0)
    with pytest.raises(StateError, match="pair"):
        hidden.whitening(MODELS["atoms"], UNIFORMS).step(MODELS["atoms"].start(), 1.0)
    with pytest.raises(ReadingError, match="row 1 is impossible"):
        run(hidden.whitening(MODELS["atoms"], UNIFORMS), [[3.0], [7.1875]])
    with pytest.raises(ReadingError, match="row 2 is impossible"):
        run(scores, [[3.0], [1.0], [1e300]])
    uniform = HiddenMarkov(*chain(2), [us.Scalar(stats.uniform(0, 1)), us.Scalar(stats.uniform(2, 1))])
    assert np.isfinite(run(hidden.whitening(uniform), [[0.5], [2.5], [0.25]])).all()
    with pytest.raises(ReadingError, match="row 1 is impossible"):
        run(hidden.whitening(uniform), [[0.5], [1.5]])
    with pytest.raises(NumericalError):
        run(values, [[0.0], [1e300]])


def test_a_law_that_gives_no_number_is_named_by_its_row():
    """A log-density that is NaN does not pass for a missing reading."""

    class Broken:
        def score(self, y, v=None):
            return np.asarray(y, dtype=float)

        def value(self, z):
            return z

        def logpdf(self, y):
            return np.where(np.asarray(y) > 5.0, np.nan, -np.square(y))

    model = HiddenMarkov(*chain(2), [Broken(), us.Gaussian(0.0, 1.0)])
    with pytest.raises(NumericalError, match="row 1"):
        run(hidden.whitening(model), [[1.0], [6.0]])
    with pytest.raises(NumericalError, match="not a number"):
        model.update(model.start(), 6.0)
