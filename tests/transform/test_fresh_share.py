"""The fresh share: scores mixed with fresh chance keep their law, and what wrong models leak shrinks by 1 - s^2."""

import copy
import math
import pickle

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from helpers import is_white, room, same_bits, stepwise

import understudy as us
from understudy.errors import ConfigurationError, StateError
from understudy.laws.uniforms import Uniforms
from understudy.transform.core import FreshShare, transformation
from understudy.transform.kalman_pair import Pair

KEY = bytes(range(32))
SHARES = [0.1, 0.5, 0.8, 0.99]


def heavy(level):
    return us.AutoRegressive(0.5, intercept=level, noise=us.Scalar(scipy.stats.t(3.0)), past=[level])


def hidden(level):
    laws = [us.Gaussian(level, 1.0), us.Gaussian(level + 3.0, 2.0)]
    return us.HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], laws)


def two_channels(level):
    return us.GaussMarkov(
        [[0.9, 0.1], [0.0, 0.7]], [[1.0, 0.0], [0.5, 1.0]], np.diag([0.1, 0.2]), np.diag([0.3, 0.1]),
        b=[level, 1.0], mean0=[10.0, 3.0], cov0=np.eye(2),
    )  # fmt: skip


def on_grid(level):
    return us.Quantised(us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=level, mean0=10.0, cov0=1.0), step=0.5)


MODELS = {
    "Gauss-Markov": room,
    "two channels": two_channels,
    "independent": lambda v: us.IID(us.Scalar(scipy.stats.laplace(loc=v))),
    "autoregression": heavy,
    "hidden": hidden,
    "grid": on_grid,
}


# The theorem, where everything is known: a shift and a scale of normals ------------------------------------


def divergence(mean, cov):
    """KL(N(mean, cov) || N(0, I)) in nats."""
    mean, cov = np.atleast_1d(mean), np.atleast_2d(cov)
    return 0.5 * float(np.trace(cov) + mean @ mean - len(mean) - np.linalg.slogdet(cov)[1])


def mixed(mean, cov, s):
    """The law of sqrt(1 - s^2) z + s w, for z of the law N(mean, cov)."""
    c = math.sqrt(1.0 - s * s)
    return c * np.atleast_1d(mean), c * c * np.atleast_2d(cov) + s * s * np.eye(np.atleast_1d(mean).size)


@pytest.mark.parametrize("s", SHARES)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_divergence_from_white_noise_shrinks_by_the_factor(s, n):
    """Any normal law in any dimension; a shift shrinks by exactly 1 - s^2, to 1e-10."""
    rng = np.random.default_rng(n)
    factor = 1.0 - s * s
    for _ in range(50):
        mean, root = 3.0 * rng.standard_normal(n), rng.standard_normal((n, n))
        cov = root @ root.T + 0.01 * np.eye(n)
        assert divergence(*mixed(mean, cov, s)) <= factor * divergence(mean, cov) * (1.0 + 1e-10)
        shift = divergence(*mixed(mean, np.eye(n), s))
        assert shift == pytest.approx(factor * divergence(mean, np.eye(n)), rel=1e-10)


@pytest.mark.parametrize("s", SHARES)
@pytest.mark.parametrize("scale", [0.2, 0.9, 1.1, 3.0])
def test_a_scale_shrinks_by_more(s, scale):
    """Strictly, and as an integral over the densities says, to 1e-10."""
    law = scipy.stats.norm(0.0, math.sqrt((1.0 - s * s) * scale**2 + s * s))

    def integrand(z):
        return law.pdf(z) * (law.logpdf(z) - scipy.stats.norm.logpdf(z))

    found = scipy.integrate.quad(integrand, -40.0, 40.0, epsabs=1e-13, epsrel=1e-12, limit=400, points=[-4, 0, 4])[0]
    assert divergence(*mixed(0.0, scale**2, s)) == pytest.approx(found, abs=1e-10)
    assert found < (1.0 - s * s) * divergence(0.0, scale**2)


@pytest.mark.parametrize("s", [0.5, 0.8])
def test_the_factor_is_for_white_noise_alone(s):
    """The twin: the divergence of two laws that are not white shrinks by less than 1 - s^2."""
    # N(1, 9) from N(0, 9): both have the same covariance after mixing
    wide = 9.0
    before = 0.5 / wide
    after = 0.5 * (1.0 - s * s) / ((1.0 - s * s) * wide + s * s)
    assert after > 1.2 * (1.0 - s * s) * before


def leakage(means, deviations, prior):
    """I(Theta; z') in nats, by quadrature, for normal scores under each value."""
    laws = [scipy.stats.norm(m, d) for m, d in zip(means, deviations, strict=True)]

    def integrand(z):
        each = np.array([law.pdf(z) for law in laws])
        mixture = prior @ each
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nansum(prior * each * np.log(each / mixture)))

    return scipy.integrate.quad(integrand, -30.0, 30.0, epsabs=1e-12, limit=400, points=[-2, 0, 2])[0]


WRONG = {"shift": ([0.4, -0.4], [1.0, 1.0]), "scale": ([0.0, 0.0], [0.7, 1.4]), "both": ([0.5, -0.2], [0.8, 1.3])}


@pytest.mark.parametrize("s", SHARES)
@pytest.mark.parametrize("kind", WRONG)
def test_what_wrong_models_leak_is_within_the_bound(s, kind):
    """One constant pseudo value: I(Theta; ~Y) is that of the mixed scores, at most (1 - s^2) sum_i p_i KL_i."""
    prior, (means, deviations) = np.array([0.3, 0.7]), WRONG[kind]
    wrong = float(prior @ [divergence(m, d * d) for m, d in zip(means, deviations, strict=True)])
    c = math.sqrt(1.0 - s * s)
    shares = [math.sqrt(c * c * d * d + s * s) for d in deviations]
    assert leakage([c * m for m in means], shares, prior) <= (1.0 - s * s) * wrong
    # the twin: without the mixing the same bound is broken, where the share is large enough
    assert s < 0.8 or leakage(means, deviations, prior) > (1.0 - s * s) * wrong


def test_the_software_mixes_as_the_theorem_says():
    """Readings of a law that is not the model's: mean and variance of the scores are c m and c^2 v + s^2 (5 sigma)."""
    rng, s, n = np.random.default_rng(1), 0.6, 200_000
    model, target = us.IID(us.Gaussian(0.0, 4.0)), us.IID(us.Gaussian(5.0, 9.0))
    z = us.whiten(us.disguise(1.0 + 3.0 * rng.standard_normal(n), model, target, rng=KEY, fresh=s), target)
    mean, cov = mixed(0.5, 2.25, s)
    assert abs(z.mean() - mean[0]) < 5.0 * math.sqrt(cov[0, 0] / n)
    assert abs(z.var() - cov[0, 0]) < 5.0 * cov[0, 0] * math.sqrt(2.0 / n)


# The map ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_the_output_is_the_mixed_scores_coloured(name):
    """Scores sqrt(1 - s^2) z + s w, with the w of the key, reading by reading; without a share there is none."""
    source, target = MODELS[name](1.0), MODELS[name](0.3)
    Y = us.sample(source, 300, rng=3)
    share = FreshShare(0.6, Uniforms(KEY), source.dim)
    w = share.normals(0, 300).reshape(np.shape(Y))
    z = us.whiten(Y, source, KEY)
    assert same_bits(us.disguise(Y, source, target, KEY, fresh=0.6), us.colour(0.8 * z + 0.6 * w, target))
    assert same_bits(us.disguise(Y, source, target, KEY, fresh=0.0), us.disguise(Y, source, target, KEY))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("s", [0.3, 0.9])
def test_the_law_of_the_output_is_the_targets(name, s):
    """Scores of the output under the target are white, and correlate sqrt(1 - s^2) with those of the input (1e-6)."""
    source, target = MODELS[name](1.0), MODELS[name](0.3)
    Y = us.sample(source, 2000, rng=5)
    out = us.disguise(Y, source, target, KEY, fresh=s)
    z, mixed_z = us.whiten(Y, source, KEY), us.whiten(out, target, KEY)
    assert is_white(mixed_z)
    if name != "grid":  # whose scores have an auxiliary uniform of their own
        found = (z * mixed_z).mean()
        assert abs(found - math.sqrt(1.0 - s * s)) < 5.0 * math.sqrt(2.0 / z.size)


def test_the_same_test_catches_a_law_that_is_not_mixed_right():
    """The twin: with weights that do not square to one, scores are not white."""
    rng = np.random.default_rng(1)
    assert not is_white(0.8 * rng.standard_normal(4000) + 0.4 * rng.standard_normal(4000))


@pytest.mark.parametrize("name", MODELS)
def test_steps_chunks_and_copies_agree_bit_for_bit(name):
    """Missing readings among them, where the models have a law across them."""
    source, target = MODELS[name](1.0), MODELS[name](0.3)
    Y = us.sample(source, 400, rng=7)
    if name != "autoregression":
        Y[[3, 100, 101, 250]] = np.nan
    made = us.Transform(source, target, rng=KEY, fresh=0.7)
    whole = made.apply(made.start(), Y)
    assert same_bits(whole[1], us.disguise(Y, source, target, KEY, fresh=0.7))
    state, out = stepwise(made, Y)
    assert same_bits(out, whole[1])
    assert state == whole[0]
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):  # noqa: S301  # our own bytes
        state, parts = other.start(), []
        for part in np.split(Y, [1, 37, 250, 251]):
            state, found = other.apply(state, part)
            parts.append(found)
        assert same_bits(np.concatenate(parts), whole[1])


def test_each_reading_has_a_w_of_its_own():
    """By number and channel, missing readings counted; two keys, two sensors and two uses of a key share none."""
    share = FreshShare(0.5, Uniforms(KEY), 2)
    w = share.normals(0, 500)
    assert len(np.unique(w)) == w.size
    assert is_white(w)
    Y = np.zeros((500, 2))
    Y[100:120] = np.nan
    assert same_bits(share.apply((0,), Y)[1][200:], 0.5 * w[200:])
    other = FreshShare(0.5, Uniforms(bytes(32)), 2).normals(0, 500)
    sensor = share.sensor(1).normals(0, 500)
    used = scipy.stats.norm.ppf(Uniforms(KEY).block(0, 500, 2))
    assert len(np.unique([w, other, sensor, used])) == 4 * w.size


def test_sensors_have_chance_of_their_own():
    """(T, d, N): all scores of the output are white together, gaps in one sensor among them."""
    source, target = two_channels(1.0), two_channels(0.0)
    Y = us.sample(source, 40, n=50, rng=1)
    Y[7, :, 3] = np.nan
    out = us.disguise(Y, source, target, KEY, fresh=1.0)
    z = np.stack([us.whiten(out[:, :, j], target) for j in range(50) if j != 3])
    assert np.isnan(out[7, :, 3]).all()
    assert len(np.unique(z)) == z.size
    assert is_white(z.reshape(-1, 2))
    made = us.Transform(source, target, rng=KEY, fresh=0.5)
    states, outs = made.start(50), []
    for part in np.split(Y, [11, 12]):
        states, found = made.apply(states, part)
        outs.append(found)
    assert same_bits(np.concatenate(outs), made.apply(made.start(50), Y)[1])


def test_channels_that_are_there_alone():
    """partial=True: what whitening, mixing and colouring give one after the other."""
    source, target = two_channels(1.0), two_channels(0.0)
    Y = us.sample(source, 100, rng=1)
    Y[[5, 60], 0] = np.nan
    Y[70] = np.nan
    w = FreshShare(0.6, Uniforms(KEY), 2).normals(0, 100)
    z = us.whiten(Y, source, partial=True)
    wanted = us.colour(0.8 * z + 0.6 * w, target, partial=True)
    assert same_bits(us.disguise(Y, source, target, KEY, fresh=0.6, partial=True), wanted)
    # a share of nothing is the map in one piece
    whole = us.disguise(Y, source, target, KEY, partial=True)
    assert np.allclose(us.colour(z, target, partial=True), whole, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_a_share_of_nothing_is_the_map_in_one_piece():
    """And a share of everything asks nothing of the source: other readings, of no law at all, change nothing."""
    assert isinstance(transformation(room(1), room(0), False, KEY, fresh=0.0), Pair)
    outs = [
        us.disguise(Y, hidden(0.0), hidden(2.0), KEY, fresh=1.0) for Y in (np.zeros(50), np.linspace(-1e9, 1e9, 50))
    ]
    assert same_bits(*outs)
    gap = np.zeros(50)
    gap[9] = np.nan
    assert np.isnan(us.disguise(gap, room(0), room(1), KEY, fresh=1.0)[9])


def test_without_a_key_chance_is_fresh_each_time():
    Y = us.sample(room(1), 20, rng=1)
    assert not np.isin(*(us.disguise(Y, room(1), room(0), fresh=0.5) for _ in range(2))).any()
    assert same_bits(*(us.disguise(Y, room(1), room(0), rng=4, fresh=0.5) for _ in range(2)))


@pytest.mark.parametrize("bad", [-0.1, 1.0001, math.nan, math.inf, "0.5", None, True, [0.5]])
def test_what_is_no_share_is_refused(bad):
    with pytest.raises(ConfigurationError, match="fresh"):
        us.disguise([1.0], room(1), room(0), fresh=bad)


@pytest.mark.parametrize("state", [(), (-1,), (1.0,), (True,), (1, 2), None])
def test_a_state_that_is_none_is_refused(state):
    share = FreshShare(0.5, Uniforms(KEY), 1)
    for work in (lambda: share.apply(state, np.zeros((1, 1))), lambda: share.step(state, 1.0)):
        with pytest.raises(StateError):
            work()


def test_a_long_gap_in_one_leap():
    """Both halves and the number of the slot, as step by step."""
    causal = transformation(room(1), room(0), False, KEY, fresh=0.5)
    state = causal.apply(causal.start(), np.full((5000, 1), np.nan))[0]
    leap = causal.leap(causal.start(), 5000)
    assert leap[0][1] == state[0][1] == (5000,)
    Y = us.sample(room(1), 20, rng=1)[:, None]
    assert np.allclose(causal.apply(leap, Y)[1], causal.apply(state, Y)[1], rtol=1e-9)
    refused = transformation(heavy(0.0), heavy(1.0), False, KEY, fresh=0.5)
    assert refused.leap(refused.start(), 9) is None
