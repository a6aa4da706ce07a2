"""The public lattice: what rounding to it keeps and what it may not do, and every way through `us.disguise` to it."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from helpers import OwnGaussMarkov, is_white, random_system, room, same_bits, stepwise
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import understudy as us
from understudy.errors import ConfigurationError
from understudy.stream.release import conditional_scales, default_lattice
from understudy.transform import readings as lattice_module
from understudy.transform.kalman_pair import Pair
from understudy.transform.readings import MOST, Lattice, as_lattice

BINARY = [2.0**e for e in (-60, -40, -11, -1, 0, 3, 30)]
DECIMAL = [1e-12, 5e-9, 0.001, 0.01, 0.05, 0.2, 5.0, 10.0, 2000.0]

steps = st.sampled_from(BINARY + DECIMAL)
counts = st.one_of(
    st.floats(-1e6, 1e6),
    st.integers(-(10**6), 10**6).map(lambda k: k + 0.5),
    st.floats(-(2.0**54), 2.0**54),
    st.sampled_from([0.0, -0.0, -0.3, 2.0**51, -(2.0**51), 2.0**52, 2.0**53, 1e300, -1e300, math.inf, -math.inf]),
)


def most(step):
    """How many steps a lattice counts: 2^52, or as many as are whole doubles."""
    return 2**52 if math.frexp(step)[0] == 0.5 else 2**52 // Fraction(repr(step)).numerator


def exact_step(step):
    return Fraction(step) if math.frexp(step)[0] == 0.5 else Fraction(repr(step))


def column(values):
    return np.array(values, dtype=float)[:, None]


# One number -------------------------------------------------------------------------------------------


@given(steps, counts)
def test_a_value_of_the_lattice_is_a_whole_number_of_steps(step, count):
    """It is the double nearest to k steps, k whole and at most 2^52; and never -0.0."""
    out = Lattice([step]).one(count * step)
    k = round(Fraction(out) / exact_step(step))
    assert out == float(k * exact_step(step))
    assert abs(k) <= most(step) <= MOST
    assert out != 0.0 or math.copysign(1.0, out) == 1.0


@given(steps, counts)
def test_rounding_again_changes_nothing(step, count):
    """A value of the lattice is its own, to the bit, number by number and in an array."""
    lattice = Lattice([step])
    once = lattice.one(count * step)
    assert lattice.one(once) == once
    assert same_bits(lattice.rounded(column([once])), column([once]))


@given(steps, counts, counts)
def test_rounding_keeps_the_order(step, one, other):
    """A larger number never leaves as a smaller one."""
    lattice, (low, high) = Lattice([step]), sorted((one * step, other * step))
    assert lattice.one(low) <= lattice.one(high)


@given(steps, counts)
def test_rounding_moves_by_half_a_step_at_most(step, count):
    """Up to 2^51 steps by half a step, and up to 2^52 by one; what lies beyond leaves as 2^52 steps."""
    value = count * step
    out = Lattice([step]).one(value)
    if abs(value) >= most(step) * step * (1.0 + 1e-15):
        assert out == math.copysign(float(most(step) * exact_step(step)), value)
    elif math.isfinite(value):
        moved = abs(Fraction(out) - Fraction(value)) / exact_step(step)
        # a decimal step is not a double: value / step and its whole multiple have errors of a unit each
        units = Fraction(4 * math.ulp(value)) / exact_step(step) if step in DECIMAL else 0
        assert moved <= (Fraction(1, 2) if abs(value) < 2.0**51 * step else 1) + units


@given(steps, st.lists(st.one_of(counts, st.just(math.nan)), min_size=1, max_size=20))
def test_one_by_one_is_all_at_once(step, numbers):
    """`one` has the bits of `rounded`, signs of zeros included; a missing reading stays missing."""
    lattice, Y = Lattice([step]), column(numbers) * step
    one = np.array([lattice.one(y) for y in Y[:, 0].tolist()])
    all_at_once = lattice.rounded(Y)[:, 0]
    assert same_bits(one, all_at_once)
    assert same_bits(np.signbit(one[~np.isnan(one)]), np.signbit(all_at_once[~np.isnan(one)]))
    assert same_bits(np.isnan(one), np.isnan(Y[:, 0]))


@given(st.sampled_from([1e-12, 5e-9, 0.001, 0.01, 0.05, 0.2, 0.1, 10.0]), st.integers(-(10**12), 10**12))
def test_values_of_a_decimal_lattice_are_the_decimals_themselves(step, k):
    """Each is the double that its decimals are read as."""
    lattice = Lattice([step])
    (decimals,) = lattice.decimals
    out = lattice.one(k * step)
    assert out == float(f"{out:.{decimals}f}")
    assert out == float(k * exact_step(step)) or abs(k) > 2**50


@given(st.sampled_from([2.0**-11, 2.0**-20, 0.5, 1.0, 8.0]), st.integers(-(10**6), 10**6))
def test_the_decimals_of_a_binary_lattice_tell_its_values_apart(step, k):
    """Written with so many decimals, neighbours differ."""
    (decimals,) = Lattice([step]).decimals
    assert f"{k * step:.{decimals}f}" != f"{(k + 1) * step:.{decimals}f}"


@pytest.mark.parametrize("zero", [0.0, None])
def test_a_channel_without_a_step_stays_as_it_is(zero):
    """All but -0.0, which is the same number, and would tell of a sign."""
    lattice = as_lattice([zero, 0.5], 2)
    Y = np.array([[0.123456789, 0.3], [-0.0, -0.1], [np.nan, np.nan], [1e300, 7.0]])
    out = lattice.rounded(Y)
    assert same_bits(out, [[0.123456789, 0.5], [0.0, 0.0], [np.nan, np.nan], [1e300, 7.0]])
    assert not np.signbit(out[1]).any()
    assert np.signbit(Y[1, 0])  # a copy
    assert lattice.decimals == (None, 1)
    alone = as_lattice(zero, 1)
    assert math.copysign(1.0, alone.one(-0.0)) == 1.0
    assert not np.signbit(alone.rounded(column([-0.0]))).any()
    assert alone.one(0.1) == 0.1


def test_rounding_in_place_and_into_another_array():
    """`out` may be the readings themselves, or part of a larger array that is not in C order."""
    Y = np.random.default_rng(1).normal(size=(50, 2, 3))
    lattice = Lattice([0.25, 0.01])
    wanted = lattice.rounded(Y)
    wide = np.zeros((50, 2, 6))
    assert same_bits(lattice.rounded(Y, wide[:, :, ::2]), wanted)
    assert same_bits(wide[:, :, ::2], wanted)
    assert not wide[:, :, 1::2].any()
    assert lattice.rounded(Y, Y) is Y
    assert same_bits(Y, wanted)
    assert same_bits(wanted[:, 0], np.rint(wanted[:, 0] * 4) / 4)
    assert same_bits(wanted[:, 1], np.rint(wanted[:, 1] * 100) / 100)


def test_a_lattice_is_a_value():
    """Equal steps are equal lattices; copies and pickles are, and round the same."""
    lattice = Lattice([2.0**-11, 0.05])
    for other in (Lattice((2.0**-11, 0.05)), copy.deepcopy(lattice), pickle.loads(pickle.dumps(lattice))):  # noqa: S301  # our own bytes
        assert other == lattice
        assert hash(other) == hash(lattice)
        assert other.one(0.3) == lattice.one(0.3)
    assert lattice != Lattice([2.0**-11, 0.1])
    assert lattice != (2.0**-11, 0.05)
    assert repr(lattice) == "Lattice(2^-11, 0.05)"
    with pytest.raises(AttributeError):
        lattice.steps = (1.0,)


# What is asked for -------------------------------------------------------------------------------------

RULE = "a step is a power of two, or 1, 2 or 5 times a power of ten"
SPAN = "a power of two is from 2^-900 to 2^900, and a decimal step at most 1e12"
WRONG = [
    (0.3, 1, RULE), (-0.5, 1, RULE), (math.nan, 1, RULE), (math.inf, 1, RULE), (True, 1, RULE), (1e-13, 1, RULE),
    (0.15, 1, RULE), (1 + 0j, 1, RULE), ([[0.5]], 1, RULE), ([0.5, "0.5"], 2, RULE), ({}, 1, RULE),
    (np.array(0.3), 1, RULE), (3, 1, RULE), (np.float32(0.1), 1, RULE),
    (2.0**901, 1, SPAN), (2.0**-901, 1, SPAN), (5e-324, 1, SPAN), (1e13, 1, SPAN), ([0.5, 2.0**1000], 2, SPAN),
    ([0.5, 0.5], 1, "it must be a step, or one for each of 1 channels"),
    ([0.5], 2, "it must be a step, or one for each of 2 channels"),
    ("0.5", 1, "it must be a step, or one for each of 1 channels"),
    (b"\x01", 1, "it must be a step, or one for each of 1 channels"),
    ([], 1, "it must be a step, or one for each of 1 channels"),
]  # fmt: skip


@pytest.mark.parametrize(("resolution", "dim", "rule"), WRONG, ids=[repr(wrong[0]) for wrong in WRONG])
def test_a_wrong_resolution_is_refused(resolution, dim, rule):
    """The value and the rule are named, by `disguise` and `Transform` alike."""
    model = us.IID(us.Gaussian(np.zeros(dim), np.eye(dim)))
    wanted = f"resolution = {resolution!r}; {rule}"
    for call in (
        lambda: as_lattice(resolution, dim),
        lambda: us.disguise(np.zeros((3, dim)), model, model, resolution=resolution),
        lambda: us.Transform(model, model, resolution=resolution),
    ):
        with pytest.raises(ConfigurationError) as caught:
            call()
        assert str(caught.value) == wanted


@pytest.mark.parametrize(
    "good", [1, 2, 5, 20, 0.5, 5e-12, 1e12, 2.0**-900, 2.0**900, np.float32(0.5), np.int64(4), Lattice([0.05]), [0.1]]
)
def test_right_resolutions_round(good):
    """All that the rules admit: 2^52 steps of it are finite, and an eleventh of a step leaves as 0."""
    lattice = as_lattice(good, 1)
    (step,) = lattice.steps
    assert lattice.one(step / 11.0) == 0.0
    assert lattice.one(step * 3.1) == float(3 * exact_step(step))
    assert math.isfinite(lattice.one(1e308))
    assert same_bits(lattice.rounded(column([1e308, -step])), column([lattice.one(1e308), -step]))


# Through the transformation ----------------------------------------------------------------------------


def system(seed, n, d):
    return us.GaussMarkov(**random_system(np.random.default_rng([78, seed]), n, d))


def general_pair():
    return us.IID(us.Scalar(stats.t(3, loc=2.0))), us.IID(us.Scalar(stats.lognorm(0.7)))


def cases():
    """(name, source, target, readings, resolution): each path that rounding takes."""
    rng = np.random.default_rng(79)
    y = us.sample(room(1), 400, rng=rng)
    gaps = y.copy()
    gaps[[0, 7, 50, 51, 52, 399]] = np.nan
    two = system(1, 2, 2), system(2, 3, 2)
    Y = us.sample(two[0], 300, rng=rng)
    holes = Y.copy()
    holes[40:44] = np.nan
    many = us.sample(room(1), 200, n=5, rng=rng)
    some = many.copy()
    some[20:23, 0, 2] = np.nan
    wide = us.sample(two[0], 100, n=4, rng=rng)
    t, lognormal = general_pair()
    z = 2.0 + rng.standard_t(3, 100)
    own = OwnGaussMarkov(room(1)), OwnGaussMarkov(room(0.4))
    moving = us.Family(room, [0, 1]).along([0, 1] * 200)
    return {
        "scalar, fused": (room(1), room(0.4), y, 2.0**-11),
        "scalar, decimal": (room(1), room(0.4), y, 0.05),
        "scalar, as (T, 1)": (room(1), room(0.4), y[:, None], 2.0**-11),
        "scalar, coarse": (room(1), room(0.4), y, 4.0),
        "scalar, clamped": (room(1), room(0.4), y, 2.0**-46),
        "scalar, between 2^51 and 2^52 steps": (room(1), room(0.4), y, 2.0**-45),
        "scalar, gaps": (room(1), room(0.4), gaps, 2.0**-11),
        "scalar, gaps, decimal": (room(1), room(0.4), gaps, 0.01),
        "scalar, changing with time": (moving, room(0.4), y, 0.5),
        "vector": (*two, Y, [0.25, 0.01]),
        "vector, one channel alone": (*two, Y, [None, 0.5]),
        "vector, gaps": (*two, holes, 2.0**-8),
        "sensors": (room(1), room(0.4), many, 2.0**-11),
        "sensors, gaps": (room(1), room(0.4), some, 0.1),
        "vector sensors": (*two, wide, [0.25, 0.01]),
        "general": (t, lognormal, z, 2.0**-9),
        "general sensors": (t, lognormal, z.reshape(20, 1, 5), 0.001),
        "a user's own model": (*own, y[:60], 2.0**-11),
    }


CASES = cases()


def rounded_by_hand(out, resolution):
    """Channel by channel, with whole numbers: another way than the package's."""
    out = np.array(out)
    wide = out if out.ndim > 1 else out[:, None]
    given = resolution if isinstance(resolution, list) else [resolution] * wide.shape[1]
    for i, step in enumerate(given):
        if step is None:
            continue
        n, m = exact_step(step).as_integer_ratio()
        flat = [
            y if y != y else max(-(2**52), min(2**52, round(y * (m / n)))) * n / m for y in wide[:, i].ravel().tolist()
        ]
        wide[:, i] = np.reshape(flat, wide[:, i].shape)
    return out


@pytest.mark.parametrize("name", CASES)
def test_a_resolution_rounds_the_exact_output(name):
    """`disguise(resolution=)` is the output of `disguise`, rounded; into another array and in place too."""
    source, target, Y, resolution = CASES[name]
    exact = us.disguise(Y, source, target)
    found = us.disguise(Y, source, target, resolution=resolution)
    wide = exact if exact.ndim > 1 else exact[:, None]
    wanted = as_lattice(resolution, wide.shape[1]).rounded(wide).reshape(exact.shape)
    assert same_bits(found, wanted)
    assert not same_bits(found, exact)
    if "2^51" not in name:
        assert same_bits(found, rounded_by_hand(exact, resolution))
    there = np.empty(Y.shape)
    assert us.disguise(Y, source, target, out=there, resolution=resolution) is there
    assert same_bits(there, wanted)
    mine = Y.copy()
    assert us.disguise(mine, source, target, out=mine, resolution=resolution) is mine
    assert same_bits(mine, wanted)


@pytest.mark.sample(default=9, seconds=1, reason="many systems, step by step")
@pytest.mark.parametrize("name", CASES)
def test_a_transform_rounds_step_by_step_and_in_chunks(name):
    """`step`, `apply` and `disguise` agree to the bit; states are those of the exact map; copies keep the step."""
    source, target, Y, resolution = CASES[name]
    exact, transform = us.Transform(source, target), us.Transform(source, target, resolution=resolution)
    wanted = us.disguise(Y, source, target, resolution=resolution)
    sensors = Y.shape[2] if Y.ndim == 3 else None
    state, out = transform.apply(transform.start(sensors), Y)
    assert same_bits(out, wanted)
    plain, _ = exact.apply(exact.start(sensors), Y)
    assert repr(state) == repr(plain)
    cut = len(Y) // 3
    half, first = transform.apply(transform.start(sensors), Y[:cut])
    _, second = transform.apply(half, Y[cut:])
    assert same_bits(np.concatenate((first, second)), wanted)
    if sensors is None:
        rows = Y[:, 0] if Y.ndim == 2 and Y.shape[1] == 1 else Y
        after, one_by_one = stepwise(transform, rows)
        assert same_bits(one_by_one, wanted.reshape(one_by_one.shape))
        assert repr(after) == repr(stepwise(exact, rows)[0])
    for again in (copy.copy(transform), copy.deepcopy(transform)):
        assert again.lattice == transform.lattice
        assert same_bits(again.apply(again.start(sensors), Y)[1], wanted)


def test_a_transform_through_a_pickle_keeps_its_resolution():
    """And one without has none."""
    exact, rounded = us.Transform(room(1), room(0.4)), us.Transform(room(1), room(0.4), resolution=0.25)
    exact, transform = pickle.loads(pickle.dumps((exact, rounded)))  # noqa: S301  # our own bytes
    assert transform.lattice == Lattice([0.25])
    assert transform.step(transform.start(), 105.0)[1] % 0.25 == 0.0
    assert exact.lattice is None


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2.0**-11, 2.0**-40, 0.01, 1.0]), st.floats(0.0, 0.5))
def test_the_fused_loop_is_rounding(seed, step, share):
    """Whatever the gaps: the loop that rounds as it goes has the bits of rounding at the end."""
    rng = np.random.default_rng(seed)
    source, target = us.GaussMarkov(**random_system(rng, 1, 1)), us.GaussMarkov(**random_system(rng, 1, 1))
    Y = us.sample(source, 60, rng=rng)
    Y[rng.random(60) < share] = np.nan
    exact = us.disguise(Y, source, target)
    assert same_bits(us.disguise(Y, source, target, resolution=step), Lattice([step]).rounded(exact[:, None])[:, 0])


def test_rounding_goes_on_beyond_the_tables():
    """States that leave the table and come back go on rounding: every piece of a sequence is on the lattice."""
    pair = Pair(room(1), room(0.4))
    Y = us.sample(room(1), 500, rng=3)[:, None]
    Y[[3, 100, 101, 350]] = np.nan
    lattice = Lattice([2.0**-11])
    state, whole = pair.advance(pair.start(), Y, None, lattice)
    assert same_bits(whole, lattice.rounded(pair.advance(pair.start(), Y)[1]))
    assert state == pair.advance(pair.start(), Y)[0]


# The law ------------------------------------------------------------------------------------------------

LAWS = {
    "scalar": (room(1), room(0.4)),
    "other dynamics": (room(1), room(0.3, A=0.5, Q=2.0, R=0.01)),
    "vector": (system(1, 2, 2), system(2, 3, 2)),
    "general": general_pair()[::-1],  # the target lives on the whole line, so that 0 has a score
}
SIZE = 100_000
"""A step of one standard deviation adds a twelfth to the variance of a score: 18 standard errors of it here."""


def outputs(name, resolution):
    source, target = LAWS[name]
    Y = us.sample(source, SIZE, rng=20260218)
    return us.whiten(us.disguise(Y, source, target, resolution=resolution), target)


@pytest.mark.parametrize("name", LAWS)
def test_the_default_step_does_not_move_the_law(name):
    """Outputs rounded at the default step have white scores under the target (false alarm 1e-6)."""
    assert is_white(outputs(name, default_lattice([LAWS[name][1]]).steps))


@pytest.mark.parametrize("name", LAWS)
def test_the_same_test_notices_a_step_of_one_standard_deviation(name):
    """The twin: rounding as coarsely as the readings vary is noticed by it."""
    scales = conditional_scales(LAWS[name][1])
    assert not is_white(outputs(name, [2.0 ** math.ceil(math.log2(scale)) for scale in scales.tolist()]))


def fed_back(Y, source, target, lattice):
    """A filter with the fault: its target goes on with the value that was released."""
    scores, state, out = us.whiten(Y, source), target.start(), []
    for z in scores.tolist():
        y = lattice.one(target.predict(state).value(z))
        out.append(y)
        state = target.update(state, y)
    return np.array(out)


def kept(Y, source, target, lattice):
    """The same filter without it."""
    scores, state, out = us.whiten(Y, source), target.start(), []
    for z in scores.tolist():
        y = target.predict(state).value(z)
        out.append(lattice.one(y))
        state = target.update(state, y)
    return np.array(out)


def strays(out, exact, step):
    """The share of outputs that are not the exact one rounded, to a millionth of a step."""
    return float(np.mean(np.abs(out - exact) > (0.5 + 1e-6) * step))


@pytest.mark.parametrize("step", [2.0**-11, 0.5])
def test_the_predictor_goes_on_with_its_unrounded_value(step):
    """What is released is a function of the exact output; the twin that feeds the released value back is not."""
    source, target, lattice = room(1), room(0.4), Lattice([step])
    Y = us.sample(source, 2000, rng=5)
    exact = us.disguise(Y, source, target)
    assert strays(us.disguise(Y, source, target, resolution=step), exact, step) == 0.0
    transform = us.Transform(source, target, resolution=step)
    assert strays(stepwise(transform, Y)[1], exact, step) == 0.0
    assert strays(kept(Y, source, target, lattice), exact, step) == 0.0
    assert strays(fed_back(Y, source, target, lattice), exact, step) > 0.1


def test_the_kernels_are_those_that_round(monkeypatch):
    """Arrays go through the kernels: a kernel that does nothing shows."""

    class Idle:
        round_to_lattice = staticmethod(lambda *_: None)

    monkeypatch.setattr(lattice_module, "kernels", Idle)
    assert Lattice([0.5]).rounded(column([0.3]))[0, 0] == 0.3
