"""The bound on rounding errors, against 60 digits; the bound on what they leak, against cells that are enumerated."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
import scipy.stats
from helpers import positive, random_system, room, stable

import understudy as us
from understudy.errors import ConfigurationError
from understudy.transform import roundoff as ro
from understudy.transform.kalman_pair import scalar_gains

ULP = 2.0**-45  # of readings between 128 and 256


# 60 digits -----------------------------------------------------------------------------------------------------------


def _matrix(values, rows, columns):
    return mpmath.matrix(rows, columns) + mpmath.matrix(np.asarray(values).reshape(rows, columns).tolist())


class Exact:
    """A Kalman filter in 60 digits, written with predicted covariances and no gain table."""

    def __init__(self, model):
        n, d = model.states, model.dim
        parts = np.split(model.row(1), np.cumsum([n * n, n, n * n, d * n, d]))
        shapes = [(n, n), (n, 1), (n, n), (d, n), (d, 1), (d, d)]
        self.A, self.b, self.Q, self.C, self.d, self.R = (_matrix(p, *s) for p, s in zip(parts, shapes, strict=True))
        self.x, self.P = _matrix(model.mean0, n, 1), _matrix(model.cov0, n, n)

    def predict(self):
        self.x, self.P = self.A * self.x + self.b, self.A * self.P * self.A.T + self.Q

    def gain(self, seen):
        C = mpmath.matrix([[self.C[i, j] for j in range(self.C.cols)] for i in seen])
        d = mpmath.matrix([self.d[i] for i in seen])
        R = mpmath.matrix([[self.R[i, j] for j in seen] for i in seen])
        S = C * self.P * C.T + R
        L = mpmath.cholesky(S)
        K = self.P * C.T * mpmath.inverse(S)
        yhat = C * self.x + d
        self.P = self.P - K * C * self.P
        return yhat, L, K


def exact(source, target, Y, partial=False):
    """What 60 digits make of the same doubles; None where a channel is missing."""
    with mpmath.workdps(60):
        a, b = Exact(source), Exact(target)
        out = []
        for y in np.asarray(Y).reshape(len(Y), -1):
            seen = [i for i, v in enumerate(y) if math.isfinite(v)]
            a.predict()
            b.predict()
            row = [None] * len(y)
            if len(seen) == len(y) or (seen and partial):
                yhat, L, K = a.gain(seen)
                e = mpmath.matrix([mpmath.mpf(float(y[i])) for i in seen]) - yhat
                a.x = a.x + K * e
                z = mpmath.inverse(L) * e
                yhat, L, K = b.gain(seen)
                b.x = b.x + K * (L * z)
                for i, value in zip(seen, yhat + L * z, strict=True):
                    row[i] = value
            out.append(row)
        return out


def errors(source, target, Y, partial=False):
    """|computed - exact| of every output, 0 where it is missing, (T, d)."""
    out = us.disguise(Y, source=source, target=target, partial=partial)
    wanted = exact(source, target, Y, partial)
    with mpmath.workdps(60):
        return np.array(
            [
                [0.0 if w is None else abs(float(mpmath.mpf(float(v)) - w)) for v, w in zip(o, row, strict=True)]
                for o, row in zip(np.asarray(out).reshape(len(wanted), -1), wanted, strict=True)
            ]
        )


def model(rng, states, channels, **changes):
    return us.GaussMarkov(**{**random_system(rng, states, channels), **changes})


def pairs():
    """Pairs of many kinds: (name, source, target)."""
    rng = np.random.default_rng(18)
    yield "room", room(1), room(0)
    yield "room, other way", room(0), room(1)
    yield "walk", room(0.01, A=1.0), room(0, A=1.0)
    yield "walk to room", room(0.01, A=1.0), room(0)
    yield "slow", room(0.001, A=0.9999, mean0=200.0), room(0.01, A=0.9999)
    yield "offset 1e5", room(0, d=1e5), room(0, d=99_000.0, R=0.3)
    yield "scale 1.7", room(0, mean0=0.0), room(0, mean0=0.0, Q=0.289, R=0.289)
    yield "scale 1e3", room(0, mean0=0.0), room(0, mean0=0.0, C=1e3, R=1e4, d=3e4)
    yield "no noise of reading", room(1, R=0.0), room(0, R=0.0, A=0.5)
    yield (
        "independent",
        *(us.GaussMarkov(0.0, 1.0, 0.0, v, mean0=0.0, cov0=0.0, d=m) for m, v in ((3.0, 1.0), (0, 2.9))),
    )
    white = us.GaussMarkov(0.0, 1.0, 0.0, 2.0, mean0=0.0, cov0=0.0, d=30.0)
    yield "room to independent", room(1), white
    yield "independent to room", white, room(1)
    yield "flat start", room(1, cov0=1e8), room(0, cov0=1e8)
    yield "two states", model(rng, 2, 1), model(rng, 2, 1)
    yield "two states to one", model(rng, 2, 1, d=[1e3]), room(0)
    yield "one channel, three states", model(rng, 3, 1, A=stable(rng, 3, 0.99)), model(rng, 3, 1)
    yield "two channels", model(rng, 2, 2, d=[400.0, 20.0]), model(rng, 2, 2, d=[600.0, 21.0])
    yield "four states", model(rng, 4, 2, d=[400.0, 20.0]), model(rng, 4, 2, Q=positive(rng, 4, floor=0.1))
    wind = {"C": np.eye(2), "Q": 0.1 * np.eye(2), "R": 0.1 * np.eye(2), "cov0": np.eye(2)}
    wind |= {"A": [[0.9, 0.05], [0.0, 0.8]]}
    yield "two sensors", *(us.GaussMarkov(**wind, b=[b, 1.0], mean0=[400.0, 20.0]) for b in (45.0, 40.0))
    yield (
        "autoregression",
        *(
            us.AutoRegressive(c, m, us.Gaussian(0.0, 1.0)).gauss_markov
            for c, m in (([0.5, 0.3], 10.0), ([0.2, 0.1], 9.0))
        ),
    )


CASES = list(pairs())
NAMED = {name: (source, target) for name, source, target in CASES}


@pytest.mark.sample(default=3, seconds=7, reason="twenty systems in 60 digits")
@pytest.mark.parametrize(("source", "target"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_no_output_is_further_from_60_digits_than_the_bound(source, target):
    """Over 300 readings."""
    Y = us.sample(source, T=300, rng=7)
    bound = ro.output_error(source, target, steps=300)
    assert np.all(np.isfinite(bound))
    assert np.all(errors(source, target, Y) <= bound)


@pytest.mark.sample(default=3, seconds=5, reason="twenty systems in 60 digits")
@pytest.mark.parametrize(("source", "target"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_outputs_after_gaps_agree_with_60_digits(source, target):
    """Single gaps, long ones, alternating ones, and half vectors: to 1e-11 of the largest output."""
    Y = np.array(us.sample(source, T=300, rng=8)).reshape(300, -1)
    Y[20] = Y[50:110] = Y[120:180:2] = Y[200:203] = np.nan
    Y[0:2] = np.nan
    if source.dim > 1:
        Y[230:260, 1] = np.nan
    Y, partial = (Y, True) if source.dim > 1 else (Y[:, 0], False)
    size = np.nanmax(np.abs(us.disguise(Y, source, target, partial=partial)))
    assert errors(source, target, Y, partial).max() <= 1e-11 * size


@pytest.mark.sample(default=2, seconds=2, reason="twelve systems in 60 digits")
@pytest.mark.parametrize("seed", range(12))
def test_random_rooms_with_scores_at_the_edge(seed):
    """Scores of 15.9 in half of the readings, random signs, scales over six decades."""
    rng = np.random.default_rng(seed)

    def draw():
        A = float(rng.choice([1.0, 0.5, -0.7, 0.999, rng.uniform(0.1, 0.9)]))
        Q, R, cov0 = 10.0 ** rng.uniform([-4.0, -4.0, -4.0], [2.0, 2.0, 3.0]) * rng.choice([0.0, 1.0], 3, p=[0.2, 0.8])
        C, d = float(rng.choice([1.0, -2.3, 40.0])), float(rng.normal() * 1e3)
        return us.GaussMarkov(A=A, C=C, Q=Q + 1e-4, R=R, b=float(rng.normal()), d=d, mean0=50.0, cov0=cov0)

    source, target = draw(), draw()
    Z = rng.choice([-15.9, 15.9], 150) * np.where(rng.random(150) < 0.5, 1.0, 0.06)
    Y = np.array(us.colour(Z, source))
    assert np.all(errors(source, target, Y) <= ro.output_error(source, target, steps=150))


@pytest.mark.long(seconds=2, reason="2,000 readings in 60 digits")
def test_the_bound_of_the_room_is_within_a_factor_of_ten():
    """Over 2,000 readings the room is off by some 12 ulp; the bound says 113."""
    source, target = room(1), room(0)
    worst = errors(source, target, us.sample(source, T=2000, rng=1)).max()
    bound = ro.output_error(source, target, 400.0, 2000)[0]
    assert 10.0 < worst / ULP < 14.0
    assert worst <= bound <= 10.0 * worst


def test_a_smaller_unit_of_roundoff_is_found_out(monkeypatch):
    """The twin: the bound with u = 2^-60 and no errors of gains is violated by the room."""
    source, target = room(1), room(0)
    worst = errors(source, target, us.sample(source, T=300, rng=7)).max()
    monkeypatch.setattr(ro, "UNIT", 2.0**-60)
    forget_gain_errors(source, target)
    assert ro.output_error(source, target, steps=300)[0] < worst


def forget_gain_errors(*models):
    """Tables in which the stored gains pass for exact."""
    for each in models:
        ro.output_error(each, each, steps=1)
        for key, known in list(each.memo.items()):
            if isinstance(known, ro.Table):
                each.memo[key] = known._replace(error={k: 0.0 * v for k, v in known.error.items()})
            elif key.startswith("roundoff"):
                del each.memo[key]


def test_a_bound_without_the_errors_of_gains_is_found_out():
    """The twin: gains that were stored with 40 bits of 53 pass for exact."""
    source, target = room(1), room(0)
    for each in (source, target):
        gains = scalar_gains(each)
        coarse = gains.table * (1.0 + 2.0**-40)
        each.memo["scalar gains"] = gains._replace(table=coarse)
    Y = us.sample(source, T=300, rng=7)
    worst = errors(source, target, Y).max()
    assert worst <= ro.output_error(source, target, steps=300)[0]
    forget_gain_errors(source, target)
    assert ro.output_error(source, target, steps=300)[0] < worst


def test_the_error_grows_with_time_only_where_the_target_does_not_forget():
    """Settled for A = 0.95; in proportion to the number of readings, or faster, for A = 1."""
    forgets = [ro.output_error(room(1), room(0), 400.0, T)[0] for T in (10**4, 10**6, 10**8)]
    walks = [ro.output_error(room(0, A=1.0), room(0, A=1.0), 400.0, T)[0] for T in (10**4, 10**6, 10**8)]
    assert forgets[0] == pytest.approx(forgets[2], rel=1e-6)
    assert walks[1] > 90.0 * walks[0]
    assert walks[2] > 90.0 * walks[1]


def test_models_that_change_with_time_have_no_bound():
    """Infinite, rather than a number that nobody proved."""
    varying = us.GaussMarkov(A=lambda k: 0.9, C=1.0, Q=0.1, R=0.1, mean0=0.0, cov0=1.0)
    assert np.isinf(ro.output_error(varying, room(0))).all()
    assert np.isinf(ro.output_error(room(0), varying)).all()


def test_wrong_arguments_name_the_rule():
    """No steps, or different numbers of channels."""
    with pytest.raises(ConfigurationError, match="steps = 0"):
        ro.output_error(room(0), room(0), steps=0)
    with pytest.raises(ConfigurationError, match="1 and 2 channels"):
        ro.output_error(room(0), NAMED["two channels"][0])


# Cells ---------------------------------------------------------------------------------------------------------------


def divergence(p, q):
    """KL(p || q) in 60 digits."""
    return sum(a * mpmath.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def cells(step, shifts, edge=7):
    """Probabilities of the cells of a standard normal; the edge after cell k moves by shifts(k)."""
    count = math.ceil(edge / step)
    ends = [(k + 0.5) * step + shifts(k) for k in range(-count, count)]
    cdf = [mpmath.mpf(0), *map(mpmath.ncdf, ends), mpmath.mpf(1)]
    return [b - a for a, b in itertools.pairwise(cdf)]


def test_coarse_arithmetic_leaks_less_than_the_bound():
    """Outputs computed on lattices of 2^-6 whose offset depends on theta, released in steps of 2^-3: T = 1."""
    fine, step = 2.0**-6, 2.0**-3

    def shift(k, offset):
        # computed as fine (round(y / fine + offset) - offset), y is in the next cell from here on
        edge = (k + 0.5) * step
        return fine * (math.ceil(edge / fine + offset) - 0.5 - offset) - edge

    with mpmath.workdps(60):
        ideal = cells(step, lambda k: 0.0)
        for offset in (0.0, 0.2, 0.35, 0.7):
            assert 0.0 < max(abs(shift(k, offset)) for k in range(-50, 50)) <= fine / 2.0
            true = divergence(cells(step, lambda k, o=offset: shift(k, o)), ideal)
            assert 0.0 < true <= ro.leakage(1, fine / 2.0, step, slope=7.2)


@pytest.mark.parametrize("error", [2.0**-7, 2.0**-10])
def test_the_worst_case_comes_near_the_bound_and_half_the_error_is_found_out(error):
    """Every other cell grows by e at both ends: KL is a^2 / 2, above what a bound with e / 2 allows."""
    step = 2.0**-3
    with mpmath.workdps(60):
        true = divergence(cells(step, lambda k: error if k % 2 else -error), cells(step, lambda k: 0.0))
    assert true <= ro.leakage(1, error, step, slope=7.2)
    assert true > ro.leakage(1, error / 2.0, step, slope=0.0)


def test_a_bound_without_kappa_is_found_out():
    """Cells as wide as two deviations: densities at their edges are above their means, and only kappa covers that."""
    step, error = 2.0, 2.0**-40
    with mpmath.workdps(60):
        true = divergence(cells(step, lambda k: error if k % 2 else -error), cells(step, lambda k: 0.0))
    assert true > ro.leakage(1, error, step, slope=0.0)
    assert true <= ro.leakage(1, error, step, slope=7.9)


def test_two_readings_that_depend_on_each_other():
    """T = 2, ~y_2 = 0.9 ~y_1 + z_2, errors that depend on both cells: KL over all pairs is below the bound."""
    step, error, width = 0.25, 2.0**-8, 8.0
    nodes, weights = np.polynomial.legendre.leggauss(12)
    numbers = np.arange(-int(width / step), int(width / step) + 1)

    def table(shift):
        rows = []
        for k in numbers:
            low, high = (k - 0.5) * step + shift(k - 1), (k + 0.5) * step + shift(k)
            y = 0.5 * (high - low) * nodes + 0.5 * (high + low)
            mass = 0.5 * (high - low) * weights * scipy.stats.norm.pdf(y)
            # the second error depends on the first cell too
            ends = np.array([(j + 0.5) * step + shift(j + k) for j in range(numbers[0] - 1, numbers[-1] + 1)])
            rows.append(mass @ np.diff(scipy.stats.norm.cdf(ends[None, :] - 0.9 * y[:, None]), axis=1))
        return np.array(rows)

    p, q = table(lambda k: error if k % 2 else -error), table(lambda k: 0.0)
    keep = q > 1e-30
    true = float(np.sum(p[keep] * np.log(p[keep] / q[keep])))
    # |d log p / d y_1| <= |z_1| + 0.9 |z_2|
    assert 0.0 < true <= ro.leakage(2, error, step, slope=1.9 * 8.0)
    assert true > ro.leakage(2, error / 2.0, step, slope=0.0)


def test_likelihood_ratios_within_a_factor_bound_divergence_and_variation():
    """KL <= a tanh(a / 2) and TV <= tanh(a / 2), reached by two outcomes of probability 1 / (1 + e^a)."""
    rng = np.random.default_rng(3)
    for a in (0.01, 0.5, 3.0):
        q = 1.0 / (1.0 + math.exp(a))
        p, r = np.array([1.0 - q, q]), np.array([q, 1.0 - q])
        assert float(p @ np.log(p / r)) == pytest.approx(a * math.tanh(a / 2.0))
        for _ in range(200):
            r = rng.dirichlet(np.ones(5))
            p = r * np.exp(rng.uniform(-a / 2.0, a / 2.0, 5))
            p /= p.sum()
            assert float(p @ np.log(p / r)) <= a * math.tanh(a / 2.0) * (1.0 + 1e-9)
            assert 0.5 * np.abs(p - r).sum() <= math.tanh(a / 2.0)


def test_the_slope_is_that_of_the_log_density():
    """Differences of the log-likelihood along paths with scores up to 16 never exceed it, and come near."""
    for target in (room(0), NAMED["two channels"][0], NAMED["two states"][0]):
        slope = ro.log_slope(target, 100)
        worst = np.zeros(target.dim)
        rng = np.random.default_rng(4)
        for _ in range(30):
            Z = 16.0 * rng.choice([-1.0, 1.0], size=(12, target.dim))
            Y = np.array(us.colour(Z if target.dim > 1 else Z[:, 0], target)).reshape(12, -1)
            for channel in range(target.dim):
                up, down = Y.copy(), Y.copy()
                up[3, channel] += 1e-3
                down[3, channel] -= 1e-3
                logs = [us.loglik(V if target.dim > 1 else V[:, 0], target) for V in (up, down)]
                worst[channel] = max(worst[channel], abs(logs[0] - logs[1]) / 2e-3)
        assert np.all(worst <= slope)
        assert np.all(worst > 0.1 * slope)


# Designs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("A", [0.95, 1.0])
def test_leakage_grows_with_the_number_of_readings(A):
    """Monotone, and `readings` is the last number within the budget."""
    bound = ro.roundoff([(room(0, A=A), room(0, A=A, R=0.2))], [2.0**-12], 400.0)
    figures = [bound.nats(T) for T in (1, 2, 31, 32, 33, 50, 1000, 1024, 1025, 10**5, 10**6, 10**8)]
    assert figures == sorted(figures)
    T = bound.readings(1e-6)
    assert T > 100
    assert bound.nats(T) <= 1e-6 < bound.nats(T + 1)
    assert bound.variation(T) < 2e-3


def test_a_design_takes_the_worst_of_its_pairs():
    """Error and slope of a set are those of its worst members."""
    a, b = (room(1), room(0)), (room(0), room(0, R=0.001))
    whole = ro.roundoff([a, b], [2.0**-12], 400.0)
    for pair in (a, b):
        alone = ro.roundoff([pair], [2.0**-12], 400.0)
        assert alone.slope[0] <= whole.slope[0]
        assert all(alone.error(T)[0] <= whole.error(T)[0] * (1.0 + 1e-12) for T in (50, 10**4))


def test_the_stated_error_of_a_gaussian_recursion_is_of_the_order_of_its_gain():
    """The walk of 300 steps moves by L + M for each score; a tolerance of 1e-9 comes to that."""
    tolerance = 1e-9
    law = us.Gaussian(0.0, 4.0)
    assert ro.stated_error(us.IID(law), tolerance)[0] == pytest.approx(2.0 * 2.0 * tolerance, rel=1e-6)
    tail = us.IID(us.Scalar(scipy.stats.t(3)))
    assert ro.stated_error(tail, tolerance, steps=20)[0] > 1e3 * tolerance
    vector = us.IID(us.Gaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]]))
    assert ro.stated_error(vector, tolerance).shape == (2,)
