"""`detect_grid`: steps that sensors, converters, text and floats leave behind, and data that have none."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from helpers import count_calls
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

import understudy as us
from understudy.errors import ModelError, ReadingError
from understudy.identify.grid import FALSE_ALARM, Grid, detect_grid
from understudy.models.quantised import Quantised

N = 4000


def process(n=N, a=0.95, sd=3.0, mean=500.0, seed=0):
    """A slow signal, as a room's CO2 or temperature is."""
    noise = np.random.default_rng(seed).standard_normal(n)
    return mean + lfilter([1.0], [1.0, -a], sd * noise)


def single(y):
    """Through a 32-bit float and back."""
    return np.asarray(y, dtype=np.float32).astype(float)


celsius = process(mean=20.0, sd=0.2)
CASES = {
    "whole numbers": (np.round(process()), 1.0, 0.0),
    "multiples of 5": (5.0 * np.round(process() / 5.0), 5.0, 0.0),
    "multiples of 5, few of them": (5.0 * np.round(process(n=40) / 5.0), 5.0, 0.0),
    "tenths": (np.round(process(), 1), 0.1, 0.0),
    "hundredths": (np.round(process(), 2), 0.01, 0.0),
    "three decimals, 40 readings": (np.round(process(n=40), 3), 0.001, 0.0),
    "six decimals around zero": (np.round(process(mean=0.0, sd=1e-4), 6), 1e-6, 0.0),
    "hundredths of large numbers": (np.round(process(mean=1e7, sd=300.0), 2), 0.01, 0.0),
    "tenths below zero": (np.round(process(mean=-20.0, sd=0.3), 1), 0.1, 0.0),
    "tenths with float noise": (0.1 * np.round(process() * 10.0), 0.1, 0.0),
    "tenths through 32 bits": (single(np.round(process(), 1)), 0.1, 0.0),
    "hundredths through 32 bits": (single(np.round(celsius, 2)), 0.01, 0.0),
    "an offset of one half": (np.floor(process()) + 0.5, 1.0, 0.5),
    "an offset of 0.3 of 2": (2.0 * np.round(process() / 2.0) + 0.3, 2.0, 0.3),
    "Fahrenheit from tenths of Celsius": (np.round(celsius, 1) * 9.0 / 5.0 + 32.0, 0.18, 0.14),
    "Fahrenheit from tenths of Celsius, 32 bits": (single(np.round(celsius, 1) * 9.0 / 5.0 + 32.0), 0.18, 0.14),
    "counts of a converter times an irrational": (np.round(process()) * math.pi / 7.0, math.pi / 7.0, 0.0),
    "the same with three decimals": (np.round(np.round(process()) * math.pi / 7.0, 3), math.pi / 7.0, 0.0),
    "the same through 32 bits": (single(np.round(process()) * math.pi / 7.0), math.pi / 7.0, 0.0),
    "12 bits over a range of 1000": (np.round(process() * 4.096) / 4.096, 1000.0 / 4096.0, 0.0),
    "means of 30 whole numbers, 32 bits": (single(np.round(30.0 * process()) / 30.0), 1.0 / 30.0, 0.0),
    "the last bit of 32-bit floats": (single(process(mean=400.0, sd=1.0)), 2.0**-15, 0.0),
    "counts of people": (np.random.default_rng(0).poisson(2.0, 1000).astype(float), 1.0, 0.0),
    "a slow sensor that moves one step at a time": (np.round(process(a=0.999, sd=0.05)), 1.0, 0.0),
}


@pytest.mark.sample(default=12, seconds=1, reason="many fits")
@pytest.mark.parametrize("name", CASES)
def test_the_step_and_the_offset_are_found(name):
    """Step to 1e-6, offset to 1e-4 of a step, all readings on the grid, chance below the false-alarm rate."""
    y, step, offset = CASES[name]
    grid = detect_grid(y)
    assert grid.step == pytest.approx(step, rel=1e-6)
    assert grid.offset == pytest.approx(offset, abs=1e-4 * step)
    assert grid.share == 1.0
    assert grid.chance <= FALSE_ALARM
    assert grid.doubt < 1e-3
    assert not grid.sample_and_hold


@pytest.mark.parametrize("step", [1.0, 5.0, 0.1, 0.01, 0.001, 0.18, 0.5, 0.64])
def test_a_decimal_step_is_that_decimal_to_the_bit(step):
    """0.1 comes back as 0.1, not as 0.1 and some noise: the model is made from it."""
    assert detect_grid(np.round(process() / step) * step).step == step
    assert detect_grid(np.round(process() / step) * step).offset == 0.0


def test_every_value_of_the_grid_can_be_snapped_to():
    """Offset + step k reaches the readings within 1e-9 of a step, wherever zero is."""
    y = np.round(process(mean=1e5)) * math.pi / 7.0 + 0.1234
    grid = detect_grid(y)
    assert np.abs(grid.snap(y) - y).max() < 1e-9 * grid.step


@pytest.mark.long(seconds=3, reason="many laws, many seeds")
def test_continuous_readings_have_no_grid():
    """160 continuous records of 12 to 300 readings, scales from 1e-5 to 1e5: none is taken for a grid."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        n, scale = int(rng.integers(12, 300)), 10.0 ** rng.uniform(-5.0, 5.0)
        for y in (
            rng.normal(size=n),
            500.0 + np.cumsum(rng.normal(size=n)),
            rng.exponential(size=n) ** 2,
            1e6 + rng.standard_t(2, n),
        ):
            grid = detect_grid(y * scale)
            assert grid.step is None
            assert grid.chance == 1.0
            assert grid.mostly is None


@settings(max_examples=60, deadline=None)
@given(
    step=st.sampled_from([1.0, 5.0, 0.1, 0.02, 0.18, math.pi / 7.0, 1.0 / 30.0]),
    power=st.integers(-3, 3),
    spread=st.floats(0.0, 3.0),
    level=st.floats(-50.0, 50.0),
    n=st.integers(20, 400),
    seed=st.integers(0, 10**6),
)
def test_the_step_is_the_greatest_common_divisor_of_what_was_seen(step, power, spread, level, n, seed):
    """Any step, scale, level and sparseness: exactly the coarsest grid that holds the readings."""
    rng = np.random.default_rng(seed)
    step *= 10.0**power
    k = np.rint(10.0**spread * (level + rng.normal(size=n)))
    if (np.diff(k) != 0.0).sum() < 12 or np.unique(k).size < 3:
        return
    common = float(np.gcd.reduce(np.diff(np.unique(k)).astype(int)))
    assert detect_grid(step * k).step == pytest.approx(step * common, rel=1e-5)


def test_a_few_readings_off_the_grid_do_not_hide_it():
    """0.5 percent of continuous outliers: the step is found, and the share tells of them."""
    rng = np.random.default_rng(1)
    y = np.round(process())
    y[rng.choice(N, 20, replace=False)] += rng.random(20)
    grid = detect_grid(y)
    assert (grid.step, grid.offset) == (1.0, 0.0)
    assert grid.share == pytest.approx(1.0 - 20 / N, abs=1e-3)
    assert "0.5 percent of readings off it" in str(grid)


def test_nested_grids_give_the_finer_step_and_tell_of_the_coarser():
    """Whole numbers of which most are multiples of 5: the step is 1, `mostly` says 5."""
    rng = np.random.default_rng(2)
    y = np.where(rng.random(N) < 0.15, np.round(process()), 5.0 * np.round(process() / 5.0))
    grid = detect_grid(y)
    assert grid.step == 1.0
    assert grid.mostly[0] == 5.0
    assert 0.5 < grid.mostly[1] < 0.95


def test_a_change_of_firmware_gives_the_finer_step():
    """First half multiples of 5, second half whole numbers."""
    y = process()
    assert detect_grid(np.concatenate([5.0 * np.round(y[:2000] / 5.0), np.round(y[2000:])])).step == 1.0


def test_whole_numbers_alone_have_no_coarser_grid():
    """The twin: nothing is said of a coarser step where there is none."""
    for seed in range(20):
        assert detect_grid(np.round(process(seed=seed))).mostly is None
        assert detect_grid(5.0 * np.round(process(seed=seed) / 5.0)).mostly is None


def test_a_grid_of_most_readings_is_told_where_none_holds_nearly_all():
    """A fifth of the readings continuous: no step, but `mostly` says what an attacker would use."""
    y = np.round(process())
    off = np.random.default_rng(4).random(N) < 0.2
    y[off] = process()[off]
    grid = detect_grid(y)
    assert grid.step is None
    assert grid.mostly[0] == pytest.approx(1.0)
    assert grid.mostly[1] == pytest.approx(0.8, abs=0.03)


def test_text_of_a_converter_tells_both_grids():
    """Counts times an irrational, written with three decimals: the step is the count's, `written` the text's."""
    grid = detect_grid(np.round(np.round(process()) * math.pi / 7.0, 3))
    assert grid.written == pytest.approx(0.001)
    assert grid.step > 0.4


@pytest.mark.parametrize("rounded", [False, True])
def test_a_regular_sample_and_hold_gives_its_period(rounded):
    """Each value five times: no grid if the value is continuous, the grid if it is not, and the period 5."""
    y = process(n=800)
    grid = detect_grid(np.repeat(np.round(y) if rounded else y, 5))
    assert grid.step == (1.0 if rounded else None)
    assert (grid.hold, grid.run, grid.sample_and_hold) == (5, 5, True)
    assert grid.held >= 0.8


def test_an_irregular_hold_is_a_hold_without_a_period():
    """Held for 4 to 7 readings."""
    rng = np.random.default_rng(5)
    grid = detect_grid(np.repeat(np.round(process(n=800)), rng.integers(4, 8, 800)))
    assert (grid.hold, grid.sample_and_hold) == (None, True)
    assert grid.run in (5, 6)


def test_repeats_that_rounding_explains_are_no_hold():
    """The twin: a slow rounded process repeats nine readings in ten, and is not held."""
    grid = detect_grid(np.round(process(a=0.999, sd=0.1)))
    assert grid.held > 0.85
    assert not grid.sample_and_hold


def test_clipped_ends_are_suspected():
    """Clipped at either end: the ends are found. Unclipped: none."""
    y = np.round(process())
    assert (detect_grid(y).low, detect_grid(y).high) == (None, None)
    clipped = detect_grid(np.clip(y, 490.0, 512.0))
    assert (clipped.low, clipped.high) == (490.0, 512.0)
    assert (detect_grid(np.minimum(process(), 505.0)).low, detect_grid(np.minimum(process(), 505.0)).high) == (
        None,
        505,
    )


def test_two_values_one_value_and_too_few_readings_say_so():
    """Nothing is guessed."""
    rng = np.random.default_rng(6)
    two = detect_grid(np.where(rng.random(500) < 0.3, 21.3, 18.7))
    assert two.step == pytest.approx(2.6)
    assert str(two) == "two values only, 2.6 apart"
    assert str(detect_grid(np.full(100, 3.3))) == "constant: all 100 readings are equal"
    few = detect_grid([20.1, 20.4, 21.0])
    assert few.step is None
    assert str(few) == "too few readings to tell (3 readings, 2 changes)"
    assert str(detect_grid(np.full(50, np.nan))) == "too few readings to tell (0 readings, 0 changes)"
    assert str(detect_grid([math.nan, 4.0])) == "too few readings to tell (1 readings, 0 changes)"


def test_three_irrational_levels_are_no_grid():
    """A few levels that have no common divisor above the noise are no grid, and no hold."""
    y = np.random.default_rng(7).choice([math.pi, 3.0 * math.e, math.sqrt(200.0)], size=1000)
    grid = detect_grid(y)
    assert (grid.step, grid.sample_and_hold) == (None, False)


def test_missing_readings_are_left_out():
    """NaN in a third of the readings changes nothing but their number."""
    y = np.round(process(), 1)
    y[::3] = np.nan
    grid = detect_grid(y)
    assert grid.step == 0.1
    assert grid.readings == (~np.isnan(y)).sum()


def test_channels_are_told_apart():
    """(T, d) gives a tuple; each channel has its own grid."""
    grids = detect_grid(np.column_stack([np.round(process()), process(seed=1), np.round(process(seed=2), 1)]))
    assert [grid.step for grid in grids] == [1.0, None, 0.1]


@pytest.mark.parametrize("bad", [np.zeros((3, 2, 2)), 5.0, [1.0, np.inf], ["a", "b"], []])
def test_bad_readings_are_refused(bad):
    """A shape, a type or an infinity that is no reading; the message has no value in it."""
    with pytest.raises(ReadingError) as caught:
        detect_grid(bad)
    assert "inf " not in str(caught.value)


def test_no_reading_is_shown():
    """The text has the step and counts; the ends are attributes, not text."""
    y = np.clip(np.round(process()), 493.0, 507.0)
    text = repr(detect_grid(y)) + str(detect_grid(y))
    assert not any(f"{value:.0f}" in text for value in np.unique(y))
    assert "clipped?" in text


def test_a_grid_is_a_value():
    """Frozen, equal to its copies, pickled."""
    grid = detect_grid(np.round(process()))
    assert copy.deepcopy(grid) == pickle.loads(pickle.dumps(grid)) == grid  # noqa: S301, our own
    with pytest.raises(AttributeError):
        grid.step = 2.0


def test_the_same_readings_give_the_same_answer():
    """Which differences vote is fixed."""
    y = np.round(process(), 2)
    assert detect_grid(y) == detect_grid(y.copy())


def test_it_leads_to_a_rounded_model():
    """`grid.quantise(model)`: step, offset and ends of the grid, checked by scoring a reading."""
    model = us.GaussMarkov(0.95, 1.0, 4.0, 4.0, b=25.0, mean0=500.0, cov0=1.0)
    sensor = detect_grid(np.maximum(np.floor(process()) + 0.5, 490.5)).quantise(model)
    assert isinstance(sensor, Quantised)
    _, y = sensor.emit(sensor.start(), -100.0)
    assert y == 490.5
    assert isinstance(detect_grid(np.round(process())).quantised(model), Quantised)  # the name of version 0.1


def test_a_rounded_model_is_refused_where_there_is_no_step():
    """No grid, too few readings, or grids of another number of channels."""
    model = us.GaussMarkov(0.95, 1.0, 4.0, 4.0, b=25.0, mean0=500.0, cov0=1.0)
    for y in (process(), [20.1, 20.4, 21.0]):
        with pytest.raises(ModelError, match="no step"):
            detect_grid(y).quantise(model)
        with pytest.raises(ModelError, match="no grid"):
            detect_grid(y).snap([1.0])
    pair = us.GaussMarkov(np.diag([0.9, 0.9]), np.eye(2), np.eye(2), np.eye(2), mean0=np.zeros(2), cov0=np.eye(2))
    with pytest.raises(ModelError, match="a model of 2 channels"):
        detect_grid(np.round(process())).quantise(pair)


def means_in_single(y):
    """Means of 30, 29 or 28 whole numbers as 32-bit floats: no grid but the last bit of the floats."""
    many = np.random.default_rng(1).choice([30.0, 29.0, 28.0], p=[0.8, 0.1, 0.1], size=y.size)
    return single(np.round(y * many) / many)


def test_means_over_several_numbers_of_readings_are_mostly_on_the_commonest():
    """Five-minute means of 30 whole numbers, now and then of 29 or 28, as 32-bit floats: mostly thirtieths."""
    step, share = detect_grid(means_in_single(process())).mostly
    assert step == pytest.approx(1.0 / 30.0)
    assert share == pytest.approx(0.8, abs=0.05)


@pytest.mark.sample(default=2, seconds=1, reason="five recordings of a hundred thousand readings")
@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (np.round, 1.0),
        (lambda y: y, None),
        (lambda y: np.round(y, 3), 0.001),
        (lambda y: np.round(7.0 * y) * math.pi, math.pi),
        (means_in_single, 2.0**-15),
    ],
    ids=["whole", "continuous", "decimals", "irrational", "means"],
)
def test_a_hundred_thousand_readings_take_few_calls(kind, step):
    """Operations on whole arrays, as many as for a thousand readings, but for a search."""
    y = kind(process(n=10**5))
    costs = [count_calls(lambda part=part: detect_grid(part)) for part in (y[:1000], y)]
    grid = detect_grid(y)
    assert isinstance(grid, Grid)
    assert grid.step == (None if step is None else pytest.approx(step))
    assert costs[1] < 3 * costs[0] + 1000
