"""Particles: the law of a nonlinear state space model, how close it is, and that it resumes exactly."""

from __future__ import annotations

import copy
import math
import pickle
import re

import numpy as np
import pytest
import scipy.stats
from helpers import ALPHA
from scipy.special import ndtri

import understudy as us
from understudy.checks import whiteness
from understudy.laws.atoms import Atoms
from understudy.models.nonlinear import Dice, Nonlinear, effective_size, order, systematic

NORMAL = us.Gaussian(0.0, 1.0)


def linear(N=1000, a=0.9, Q=1.0, R=1.0, **changes):
    """One state, linear: the exact law is Kalman's."""
    exact = us.GaussMarkov(a, 1.0, Q, R, mean0=0.0, cov0=1.0)
    given_ = {"particles": N, **changes}
    return exact, Nonlinear(lambda x: a * x, lambda x: x, us.Gaussian(0.0, Q), us.Gaussian(0.0, R), NORMAL, **given_)


def kitagawa(**changes):
    """Kitagawa's growth model: two modes most of the time."""
    return Nonlinear(
        lambda x, k: 0.5 * x + 25.0 * x / (1.0 + x * x) + 8.0 * np.cos(1.2 * k),
        lambda x: x * x / 20.0,
        us.Gaussian(0.0, 10.0),
        NORMAL,
        us.Gaussian(0.0, 10.0),
        **{"particles": 1000, **changes},
    )


def saturating(**changes):
    """A sensor that saturates at 50."""
    return Nonlinear(
        lambda x: 0.95 * x + 2.0,
        lambda x: 50.0 * np.tanh(x / 50.0),
        us.Gaussian(0.0, 4.0),
        NORMAL,
        us.Gaussian(40.0, 100.0),
        **{"particles": 1000, **changes},
    )


def double(x):
    """A function that can be pickled."""
    return 0.5 * x


def four_states(N):
    """Four states, so that noise is drawn independently; and the same by Kalman."""
    A = np.array([[0.8, 0.1, 0.0, 0.0], [-0.1, 0.7, 0.2, 0.0], [0.0, -0.2, 0.6, 0.1], [0.1, 0.0, 0.0, 0.5]])
    C = np.array([[1.0, 0.5, -0.5, 1.0]])
    exact = us.GaussMarkov(A, C, np.eye(4), 1.0, mean0=np.zeros(4), cov0=np.eye(4))
    law = us.Gaussian(np.zeros(4), np.eye(4))
    return exact, Nonlinear(lambda x: A @ x, lambda x: (C @ x)[0], law, NORMAL, law, particles=N)


def divergence_from_kalman(exact, model, T, sequences):
    """Mean over readings of KL(Kalman's law || particle law), by the trapezoid rule on an even grid."""
    total = 0.0
    for j in range(sequences):
        Y = us.sample(exact, T, rng=np.random.default_rng(j))
        run = model.with_key(bytes([j]) * 32)
        states = exact.start(), run.start()
        for y in Y.ravel().tolist():
            p, q = exact.predict(states[0]), run.predict(states[1])
            grid = p.value(np.linspace(-7.0, 7.0, 141))
            log_p = p.logpdf(grid)
            total += float((np.exp(log_p) * (log_p - q.logpdf(grid))).sum() * (grid[1] - grid[0]))
            states = exact.update(states[0], y), run.update(states[1], y)
    return total / (T * sequences)


# How close it is -----------------------------------------------------------------------------------


def test_scores_are_kalmans_within_monte_carlo_error():
    """1000 particles: scores within 0.06 everywhere, 0.012 root mean square; 30 particles are worse."""
    exact, model = linear()
    Y = us.sample(exact, 60, rng=np.random.default_rng(1))
    z = us.whiten(Y, exact)
    gap = np.abs(us.whiten(Y, model) - z)
    assert gap.max() < 0.06
    assert math.sqrt((gap**2).mean()) < 0.012
    few = np.abs(us.whiten(Y, linear(30)[1]) - z)
    assert few.max() > 0.06


@pytest.mark.long(seconds=2, reason="particle filters of three sizes")
def test_divergence_falls_at_least_like_one_over_n():
    """One state (lattice noise): 64 times the particles, more than 64 times less."""
    kl = [divergence_from_kalman(*linear(N), T=20, sequences=6) for N in (50, 3200)]
    assert kl[0] / kl[1] > 64.0
    assert kl[1] < 1e-4


def test_divergence_of_independent_draws_falls_like_one_over_n():
    """Four states (independent noise): 16 times the particles, 16 times less within a factor of 2."""
    kl = [divergence_from_kalman(*four_states(N), T=15, sequences=6) for N in (60, 960)]
    assert 8.0 < kl[0] / kl[1] < 40.0


def test_lattice_noise_is_better_than_independent_draws(monkeypatch):
    """One state, 400 particles: a third of the divergence or less."""
    lattice = divergence_from_kalman(*linear(400), T=20, sequences=4)
    monkeypatch.setattr("understudy.models.nonlinear._LATTICE", 0)
    assert lattice < divergence_from_kalman(*linear(400), T=20, sequences=4) / 3.0


@pytest.mark.long(seconds=1, reason="particles for many readings")
def test_residual_is_the_divergence_from_kalman():
    """The reference (a grid) and the oracle (Kalman) give the same divergence, within their errors."""
    exact, model = linear(100)
    found = model.residual(20, sequences=12, rng=2)
    assert found.steps == 20
    assert "200 points" in found.how
    direct = divergence_from_kalman(exact, model, 20, 12)
    assert found.per_reading == pytest.approx(direct, rel=0.5)
    assert 0.0 < found.kl < found.charged


def test_residual_of_several_states_needs_no_grid():
    """The reference is a larger filter; the answer is near Kalman's, and errs to the high side on average."""
    exact, model = four_states(100)
    found = model.residual(10, sequences=8, rng=1)
    assert "800 particles" in found.how
    assert found.per_reading == pytest.approx(divergence_from_kalman(exact, model, 10, 8), rel=0.6)


def test_the_charge_allows_for_few_sequences():
    """The error is widened so that mean + 4.75 errors is Student's bound at one in a million."""
    model = linear(50)[1]
    few, many = (model.residual(4, sequences=n, rng=3) for n in (2, 24))
    assert few.error / few.kl > 20.0 * many.error / many.kl


# Few enough readings that the divergence of so many particles, summed over them, cannot be seen.
RECORDS = {"kitagawa": (kitagawa, 2000, 60), "saturating": (saturating, 1000, 250)}


@pytest.mark.sample(default=1, seconds=4, reason="two particle filters over thousands of readings")
@pytest.mark.parametrize("name", RECORDS)
def test_scores_of_the_true_model_are_white(name):
    """Readings of the true model in many short sequences of 20 (false alarm 1e-6)."""
    make, particles, sequences = RECORDS[name]
    model = make(particles=particles)
    Y = model.simulate(20, n=sequences, rng=5).Y
    assert whiteness(us.whiten(Y, model)).p_value > ALPHA


@pytest.mark.parametrize("name", RECORDS)
def test_scores_of_few_particles_are_not(name):
    """Twin: 5 particles on such readings must fail."""
    make, _, _ = RECORDS[name]
    Y = make().simulate(20, n=60, rng=5).Y
    assert whiteness(us.whiten(Y, make(particles=5))).p_value < ALPHA


def test_scores_of_a_wrong_model_are_not():
    """Twin: the right number of particles and a sensor that does not saturate must fail."""
    Y = saturating().simulate(20, n=60, rng=5).Y
    straight = Nonlinear(
        lambda x: 0.95 * x + 2.0, lambda x: x, us.Gaussian(0.0, 4.0), NORMAL, us.Gaussian(40.0, 100.0), particles=500
    )
    assert whiteness(us.whiten(Y, straight)).p_value < ALPHA


def test_heavy_noise_against_the_grid():
    """A slow state behind Student noise (as log-volatility is): particles and grid agree within Monte Carlo error."""
    model = Nonlinear(
        lambda x: 0.95 * x, lambda x: x, us.Gaussian(0.0, 0.04), us.Scalar(scipy.stats.t(3)), us.Gaussian(0.0, 0.4)
    )
    Y = model.simulate(25, rng=3).Y[:, :, 0]
    gap = us.whiten(Y, model) - us.whiten(Y, model.with_method(method="point-mass"))
    assert np.abs(gap).max() < 0.02


def test_several_channels_against_kalman():
    """Two states, two correlated channels."""
    A, C = np.array([[0.9, 0.2], [-0.3, 0.8]]), np.array([[1.0, 0.5], [0.0, 1.0]])
    R = np.array([[0.5, 0.2], [0.2, 0.4]])
    exact = us.GaussMarkov(A, C, np.eye(2), R, mean0=[0.0, 0.0], cov0=np.eye(2))
    unit = us.Gaussian([0.0, 0.0], np.eye(2))
    model = Nonlinear(lambda x: A @ x, lambda x: C @ x, unit, us.Gaussian([0.0, 0.0], R), unit, particles=4000)
    Y = us.sample(exact, 25, rng=np.random.default_rng(2))
    gap = us.whiten(Y, model) - us.whiten(Y, exact)
    assert math.sqrt((gap**2).mean()) < 0.05


def test_noise_that_is_not_added():
    """A state times exp(noise), read in logarithms is the linear model again: the same particles, the same scores."""
    grown = Nonlinear(
        lambda x, noise: x**0.9 * np.exp(noise),
        np.log,
        NORMAL,
        NORMAL,
        us.Scalar(scipy.stats.lognorm(1.0)),
    )
    Y = us.sample(linear()[0], 30, rng=np.random.default_rng(1))
    np.testing.assert_allclose(us.whiten(Y, grown), us.whiten(Y, linear()[1]), atol=1e-8)


def test_one_noise_for_two_states():
    """AR(2) in companion form, one shock a step, k in use as well: against Kalman."""
    A = np.array([[1.2, -0.5], [1.0, 0.0]])
    exact = us.GaussMarkov(A, [[1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]], 1.0, mean0=[0.0, 0.0], cov0=np.zeros((2, 2)))
    model = Nonlinear(
        lambda x, k, noise: np.stack([1.2 * x[0] - 0.5 * x[1] + noise + 0.0 * k, x[0]]),
        lambda x, k: x[0] + 0.0 * k,
        NORMAL,
        NORMAL,
        [0.0, 0.0],
        particles=2000,
    )
    Y = us.sample(exact, 30, rng=np.random.default_rng(4))
    assert np.abs(us.whiten(Y, model) - us.whiten(Y, exact)).max() < 0.1


# What the package asks of every model --------------------------------------------------------------


@pytest.mark.long(seconds=6, reason="particle filters, reading by reading")
def test_check_model():
    """Every check that ships with the package."""
    assert us.checks.check_model(kitagawa(particles=300), T=50).passed
    two = Nonlinear(
        lambda x: 0.8 * np.stack([x[0] + np.tanh(x[1]), x[1]]),
        lambda x: np.stack([x[0], np.arctan(x[1])]),
        us.Gaussian([0.0, 0.0], np.eye(2)),
        us.Gaussian([0.0, 1.0], [[1.0, 0.4], [0.4, 0.5]]),
        [0.0, 1.0],
        particles=100,
    )
    assert us.checks.check_model(two, T=50).passed


@pytest.mark.long(seconds=2, reason="particle filters, reading by reading")
def test_check_transform():
    """From a growth model to a saturating sensor and back."""
    assert us.checks.check_transform(kitagawa(particles=300), saturating(particles=300), T=100).passed


def test_a_run_resumes_to_the_last_bit():
    """Step = chunk = resumed from a copied or pickled state, gaps included."""
    model = kitagawa(particles=200)
    Y = model.simulate(30, rng=1).Y[:, :, 0]
    Y[[4, 5]] = np.nan
    transform = us.Transform(model, saturating(particles=200))
    _, whole = transform.apply(transform.start(), Y)
    state, first = transform.apply(transform.start(), Y[:11])
    state = pickle.loads(pickle.dumps(copy.deepcopy(state)))  # noqa: S301, our own bytes
    other = us.Transform(copy.deepcopy(model), saturating(particles=200))
    parts = [first]
    for y in Y[11:, 0].tolist():
        state, out = other.step(state, y)
        parts.append([[out]])
    assert np.array_equal(np.concatenate(parts), whole, equal_nan=True)


def test_randomness_is_a_function_of_the_key():
    """The same seed, the same bits; another key, other particles; a key is kept by copies."""
    Y = [1.0, 4.0, 2.0]
    z = us.whiten(Y, kitagawa())
    assert np.array_equal(us.whiten(Y, kitagawa(seed=0)), z)
    assert not np.array_equal(us.whiten(Y, kitagawa(seed=1)), z)
    keyed = kitagawa().with_key(b"a secret of thirty-two bytes, so")
    assert not np.array_equal(us.whiten(Y, keyed), z)
    assert np.array_equal(us.whiten(Y, copy.deepcopy(keyed)), us.whiten(Y, keyed))
    assert np.array_equal(
        us.whiten(Y, kitagawa(seed=1).with_key(b"a secret of thirty-two bytes, so")), us.whiten(Y, keyed)
    )
    simple = Nonlinear(double, np.sin, NORMAL, NORMAL, 0.0, particles=50)
    assert np.array_equal(us.whiten(Y, pickle.loads(pickle.dumps(simple))), us.whiten(Y, simple))  # noqa: S301


def test_states_are_values():
    """Read-only; update and skip leave the state alone and give the same one twice."""
    model = kitagawa(particles=100)
    state = model.update(model.start(), 3.0)
    assert state.k == 1
    kept = copy.deepcopy(state)
    with pytest.raises(ValueError, match="read-only"):
        state.points[0] = 1.0
    for twice in (lambda s: model.update(s, 1.0), model.skip):
        one, two = twice(state), twice(kept)
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(state, kept, strict=True))
    with pytest.raises(us.errors.StateError):
        model.predict((0, np.zeros(3)))


def test_skip_keeps_the_weights():
    """A gap only moves the points: the law after it has them all, and no reading weighs."""
    exact, model = linear(2000)
    Y = us.sample(exact, 12, rng=np.random.default_rng(3))
    Y[4:9] = np.nan
    gap = np.abs(us.whiten(Y, model) - us.whiten(Y, exact))
    assert np.nanmax(gap) < 0.05


def test_an_outlier_leaves_everything_finite():
    """A reading a thousand deviations out: a large finite score, and the filter finds back."""
    model = saturating(particles=300)
    Y = model.simulate(12, rng=1).Y[:, :, 0]
    Y[5] = 1000.0
    z = us.whiten(Y, model)
    assert np.isfinite(z).all()
    assert z[5] > 100.0
    assert np.abs(z[8:]).max() < 5.0
    state = model.start()
    for y in Y[:6, 0].tolist():
        state = model.update(state, y)
    assert np.isfinite(state.log_weights).all()


def test_a_reading_that_cannot_be_is_refused_without_its_value():
    """Uniform noise: no particle explains it; the message tells the position only."""
    model = Nonlinear(double, lambda x: x, NORMAL, us.Scalar(scipy.stats.uniform(-1.0, 2.0)), 0.0, particles=50)
    with pytest.raises(us.errors.ReadingError) as caught:
        model.update(model.start(), 7314.159)
    assert "reading number 1" in str(caught.value)
    assert "7314" not in str(caught.value)
    with pytest.raises(us.errors.ReadingError, match="not finite"):
        model.update(model.start(), math.nan)


# Diagnosis -----------------------------------------------------------------------------------------


def test_diagnose():
    """By reading: effective sample size, the log-likelihood, a divergence near the residual; NaN at a gap."""
    model = saturating(particles=200)
    Y = model.simulate(40, rng=2).Y[:, 0, 0]
    Y[7] = np.nan
    found = model.diagnose(Y)
    assert repr(found) == "Diagnosis(steps=40)"
    for part in found:
        assert np.isnan(part[7])
        assert np.isfinite(np.delete(part, 7)).all()
    assert (np.nanmin(found.ess) >= 1.0) & (np.nanmax(found.ess) <= 200.0)
    assert np.nansum(found.loglik) == pytest.approx(us.loglik(Y, model), abs=1e-9)
    expected = model.residual(20, sequences=8, rng=2).per_reading
    assert expected / 3.0 < found.kl_per_reading < 3.0 * expected
    better = saturating(particles=3200).diagnose(Y[:20])
    assert better.kl_per_reading < found.kl_per_reading / 5.0
    assert saturating(method="point-mass", points=60).diagnose(Y[:6]).kl_per_reading < 1e-6
    for bad in (np.zeros((3, 2)), [], [1.0, math.inf], ["a"]):
        with pytest.raises(us.errors.ReadingError):
            model.diagnose(bad)


def test_simulate_draws_the_true_model():
    """Moments of X_1 and Y_1 of the linear model, at false-alarm rate 1e-6."""
    _, model = linear(10)
    draws = model.simulate(2, n=20_000, rng=1)
    assert draws.X.shape == draws.Y.shape == (2, 1, 20_000)
    assert repr(draws) == "Simulated(X (2, 1, 20000), Y (2, 1, 20000))"
    variance = 0.81 + 1.0 + 1.0
    y = draws.Y[0, 0] / math.sqrt(variance)
    assert abs(y.mean()) * math.sqrt(y.size) < -ndtri(ALPHA / 2)
    assert scipy.stats.kstest(y, "norm").pvalue > ALPHA
    assert scipy.stats.kstest(1.1 * y, "norm").pvalue < ALPHA


# The tools -----------------------------------------------------------------------------------------


def test_systematic_draws_as_often_as_weighted():
    """Point i is drawn floor or ceil of N w_i times, for every shift."""
    rng = np.random.default_rng(0)
    w = rng.gamma(0.3, size=50)
    w /= w.sum()
    for u in (1e-12, 0.37, 1.0 - 1e-12):
        counts = np.bincount(systematic(np.log(w), u), minlength=50)
        assert np.abs(counts - 50 * w).max() < 1.0 + 1e-9
    assert effective_size(np.log(np.full(50, 0.02))) == pytest.approx(50.0)


def test_neighbours_on_the_curve_are_near():
    """In two states the way along the curve is far shorter than in the order given; one state is sorted."""
    x = np.random.default_rng(1).standard_normal((2, 400))

    def way(places):
        return np.abs(np.diff(x[:, places], axis=1)).sum()

    assert sorted(order(x).tolist()) == list(range(400))
    assert way(order(x)) < way(np.arange(400)) / 5.0
    assert np.array_equal(order(x[0]), np.argsort(x[0]))


@pytest.mark.parametrize(("m", "states"), [(1, 1), (3, 2), (2, 5)])
def test_normals_are_normal(m, states):
    """Lattice and independent noise: each coordinate standard normal, coordinates uncorrelated, steps different."""
    z = Dice(b"k" * 16).normals("moves", 3, (m, 5000), states)
    assert z.shape == (m, 5000)
    for row in z:
        assert scipy.stats.kstest(row, "norm").pvalue > ALPHA
    assert np.abs(np.corrcoef(z) - np.eye(m)).max() < 0.08
    assert not np.array_equal(z, Dice(b"k" * 16).normals("moves", 4, (m, 5000), states))
    assert not np.array_equal(z, Dice(b"k" * 16).normals("start", 3, (m, 5000), states))


# What is refused -----------------------------------------------------------------------------------

GOOD = {"move": double, "read": np.sin, "process_noise": NORMAL, "reading_noise": NORMAL, "initial": 0.0}
PAIR = us.Gaussian([0.0, 0.0], np.eye(2))


def raising(x):
    """A function whose error would tell the state."""
    raise ValueError(f"the state is {x}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"particles": 1}, "particles = 1"),
        ({"particles": 10.5}, "particles = 10.5"),
        ({"particles": True}, "particles = True"),
        ({"method": "kalman"}, "'particles', 'point-mass'"),
        ({"seed": "x"}, "seed is of type str"),
        ({"key": b"short"}, "16 to 64 bytes"),
        ({"move": 3}, "move is of type int"),
        ({"move": lambda x: x[:-1]}, "move gave shape"),
        ({"move": lambda x: 0.5}, "move gave shape"),
        ({"move": lambda x: math.tanh(x)}, "move raised TypeError"),
        ({"move": lambda x: x / np.zeros_like(x), "initial": NORMAL}, "not finite"),
        ({"move": lambda x: x - x.mean(), "initial": NORMAL}, "two points alone"),
        ({"move": raising}, "move raised ValueError"),
        ({"read": lambda x: np.stack([x, x])}, "read gave shape"),
        ({"read": lambda x, k, other: x}, "read raised TypeError"),
        ({"reading_noise": PAIR}, "read gave shape"),
        ({"process_noise": PAIR}, "2 numbers and the state 1"),
        ({"process_noise": "noise"}, "process_noise is of type str"),
        ({"reading_noise": scipy.stats.t(3)}, "reading_noise is of type"),
        ({"reading_noise": us.Scalar(scipy.stats.t(3, scale=[1.0, 2.0]))}, "Gaussian or Independent"),
        ({"reading_noise": Atoms([0.0, 1.0], [0.5, 0.5])}, "atoms"),
        ({"process_noise": Atoms([0.0, 1.0], [0.5, 0.5]), "method": "point-mass"}, "atoms"),
        ({"initial": "zero"}, "initial is of type str"),
        ({"initial": math.nan}, "initial has shape"),
        ({"initial": [[0.0]]}, "initial has shape"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_bad_input_is_refused(changes, message):
    """Configuration errors name the argument and the rule; what a function of the user's said is not repeated."""
    with pytest.raises(us.errors.ModelError, match=re.escape(message)) as caught:
        Nonlinear(**{**GOOD, **changes})
    assert "the state is" not in str(caught.value)


def test_a_function_that_fails_later_tells_nothing():
    """At run time: the step and the kind of error; no state, no reading."""

    def fragile(x, k):
        if k == 3:
            raise ValueError(f"the state is {x}")
        return np.full_like(x, np.nan) if k == 4 else x[:1] if k == 5 else 0.5 * x

    model = Nonlinear(**{**GOOD, "move": fragile, "particles": 20})
    state = model.update(model.update(model.start(), 0.1), 0.2)
    for k, words in ((3, "move raised ValueError"), (4, "not finite"), (5, "shape")):
        with pytest.raises(us.errors.NumericalError, match=words) as caught:
            model.predict(state._replace(k=k - 1))
        assert "the state is" not in str(caught.value)
        assert f"step {k}" in str(caught.value)
        assert caught.value.__cause__ is None


def test_process_noise_with_atoms_serves_particles():
    """A state that jumps by 0 or 5: values are enough for particles."""
    model = Nonlinear(**{**GOOD, "process_noise": Atoms([0.0, 5.0], [0.9, 0.1]), "read": lambda x: x})
    z = us.whiten([0.1, 4.8, 2.4], model)
    assert np.isfinite(z).all()
    assert z[1] > 1.0
    assert "particles" in model.residual(3, sequences=2, rng=0).how


def test_what_is_printed_shows_no_parameter():
    """Sizes only."""
    secret = 0.7314159
    noise = us.Gaussian(secret, secret)
    model = Nonlinear(lambda x: secret * x, lambda x: x, noise, noise, noise, particles=20)
    state = model.update(model.start(), secret)
    for thing in (model, state, model.predict(state), model.system.move, Dice(b"k" * 16), model.diagnose([secret])):
        assert not re.search(r"7314|\d\.\d", repr(thing)), type(thing)
    assert repr(model) == "Nonlinear(states=1, dim=1, 20 particles)"
    assert repr(state) == "Cloud(k=1, 20 points)"
