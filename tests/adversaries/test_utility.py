"""What is left for honest use: every figure against one worked out another way, and intervals that hold."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import welch
from scipy.stats import binom

from understudy.adversaries.statistics import Figure
from understudy.adversaries.utility import (
    Units,
    Utility,
    measure_utility,
    ratio,
    spectrum,
    utility_sentences,
    without_each,
)
from understudy.errors import ConfigurationError

HOLDS = 1e-6  # false-alarm rate of a statistical test


def day_and_night(T=2880, d=1, N=3, seed=0, missing=0.05):
    """Readings of two days, a minute apart, disguised copies of them, and gaps in both."""
    rng = np.random.default_rng(seed)
    wave = 800.0 + 300.0 * np.sin(np.arange(T) / 180.0)[:, None] + rng.standard_normal((T, d)).cumsum(axis=0)
    out = wave[:, :, None] + 40.0 * rng.standard_normal((T, d, N)) + 60.0 * np.cos(np.arange(T) / 77.0)[:, None, None]
    wave[rng.random(T) < missing] = np.nan
    out[rng.random((T, d, N)) < missing] = np.nan
    return wave, out


def test_distances_are_those_of_a_loop():
    """Mean absolute, root mean square and relative, channel by channel, over the pairs that are there."""
    raw, out = day_and_night(T=300, d=2)
    found = measure_utility(raw, out, names=("co2", "temperature"))
    for c, channel in enumerate(found.channels):
        pairs = [
            (raw[k, c], out[k, c, n]) for k in range(300) for n in range(3) if not math.isnan(raw[k, c] + out[k, c, n])
        ]
        apart = [abs(x - y) for y, x in pairs]
        assert channel.mean_absolute.value == pytest.approx(sum(apart) / len(apart), rel=1e-12)
        assert channel.root_mean_square.value == pytest.approx(
            math.sqrt(sum(a * a for a in apart) / len(apart)), rel=1e-12
        )
        assert channel.relative.value == pytest.approx(sum(apart) / sum(y for y, _ in pairs), rel=1e-12)
        for figure in (channel.mean_absolute, channel.root_mean_square, channel.relative):
            assert figure.low < figure.value < figure.high
    assert [channel.name for channel in found.channels] == ["co2", "temperature"]
    assert found.copies == 3


def test_daily_means_are_those_of_pandas():
    """Days by the clock on the wall, in every copy; the mean of their distances."""
    raw, out = day_and_night(N=2)
    when = pd.date_range("2026-03-02 07:30", periods=2880, freq="min")
    hours = when.hour + when.minute / 60.0
    found = measure_utility(raw, out, period=60.0, hours=hours, days=when.day_of_week)
    apart = []
    for n in range(2):
        both = pd.DataFrame({"y": raw[:, 0], "x": out[:, 0, n]}, index=when).dropna()
        counts = both.y.groupby(both.index.date).count()
        means = both.groupby(both.index.date).mean()[counts >= 720]
        apart += (means.x - means.y).abs().tolist()
    assert found.channels[0].days == 2  # the last day has less than half of its minutes
    assert found.channels[0].daily.value == pytest.approx(np.mean(apart), rel=1e-12)
    without = measure_utility(raw, out, period=60.0).channels[0]
    assert without.days == 2  # by count, from the first reading
    assert measure_utility(raw, out).channels[0].daily is None


def episodes(y, x, level, segment):
    """A loop over readings: episodes of true alarm, and whether each was reported at all."""
    found, now = [], None
    for k in range(len(y)):
        if math.isnan(y[k] + x[k]):
            continue
        if y[k] > level and now is not None and now == segment[k]:
            found[-1] = found[-1] or x[k] > level
        elif y[k] > level:
            found.append(bool(x[k] > level))
        now = segment[k] if y[k] > level else None
    return found


def test_alarms_are_those_of_a_loop():
    """Share of true alarm time that is reported, of other time that is, and episodes that are missed whole."""
    raw, out = day_and_night(N=2)
    segment = np.arange(2880) // 700
    alarm = measure_utility(raw, out, period=60.0, segments=segment, alarm=1000.0).channels[0].alarm
    true = told = other = mistaken = 0
    reported = []
    for n in range(2):
        y, x = raw[:, 0], out[:, 0, n]
        for a, b in zip(y, x, strict=True):
            if math.isnan(a + b):
                continue
            true, told = true + (a > 1000.0), told + (a > 1000.0 and b > 1000.0)
            other, mistaken = other + (a <= 1000.0), mistaken + (a <= 1000.0 and b > 1000.0)
        reported += episodes(y, x, 1000.0, segment)
    assert alarm.reported.value == pytest.approx(told / true)
    assert alarm.false.value == pytest.approx(mistaken / other)
    assert alarm.missed.value == pytest.approx(1.0 - np.mean(reported))
    assert alarm.time == pytest.approx(true / (true + other))
    assert 0.0 <= alarm.reported.low <= alarm.reported.high <= 1.0


def test_an_episode_is_counted_once_in_all_copies():
    """Two episodes, five copies: two; a gap in the readings does not make another, a new segment does."""
    raw = np.full((100, 1), 500.0)
    raw[10:20], raw[60:80] = 1200.0, 1200.0
    raw[65] = np.nan
    out = np.repeat(raw[:, :, None], 5, axis=2)
    assert measure_utility(raw, out, alarm=1000.0).channels[0].alarm.episodes == 2
    assert measure_utility(raw, out, alarm=1000.0, segments=np.arange(100) // 70).channels[0].alarm.episodes == 3
    none = measure_utility(raw, out, alarm=2000.0).channels[0].alarm
    assert none.episodes == 0
    assert math.isnan(none.reported.value)
    assert "never above 2000" in "".join(utility_sentences(measure_utility(raw, out, alarm=2000.0)))


def test_the_spectrum_is_welch_s():
    """The distance is that of two spectra from scipy's own Welch, where nothing is missing."""
    rng = np.random.default_rng(4)
    raw = rng.standard_normal(8192).cumsum()
    out = raw + 2.0 * rng.standard_normal(8192)
    found = spectrum(raw[:, None], out[:, None], np.arange(8192)[:, None] // 512, np.arange(8192) > 0, 60.0)
    assert found.window == 512
    true, told = (welch(y, nperseg=512, noverlap=256, detrend="constant")[1][1:] for y in (raw, out))
    apart = 10.0 * np.log10(told / true)
    assert found.distance.value == pytest.approx(math.sqrt(np.mean(apart**2)), rel=1e-9)
    slow, *_, fast = found.bands
    assert fast.level > 3.0 > abs(slow.level)  # the noise is white, the readings wander


def test_a_spectrum_needs_windows_without_gaps():
    """Windows shrink until there are enough; where there are none, there is no spectrum."""
    rng = np.random.default_rng(5)
    raw = rng.standard_normal((600, 1))
    raw[::37] = np.nan
    found = measure_utility(raw, 2.0 * raw).channels[0].spectrum
    assert found.window == 32
    assert found.distance.value == pytest.approx(20.0 * math.log10(2.0), rel=1e-9)
    assert found.bands[-1].name == "faster than 4 readings"
    raw[::10] = np.nan
    assert measure_utility(raw, 2.0 * raw).channels[0].spectrum is None
    flat = np.full((600, 1), 7.0)
    assert measure_utility(flat, flat + 1.0).channels[0].spectrum is None


def coverage(make, unit, confidence, times=600):
    """How many of so many intervals hold what they should."""
    held = 0
    for seed in range(times):
        x, block, copy, truth = make(np.random.default_rng(seed))
        chosen = Units(unit(block, copy), copy, confidence)
        figure = ratio(x, np.ones(x.size), chosen)
        held += figure.low <= truth <= figure.high
    return held


def stretches(rng):
    """Forty stretches of 25 readings that know each other, with a mean of 5."""
    level = 5.0 + rng.standard_normal(40)
    x = np.repeat(level, 25) + 0.3 * rng.standard_normal(1000)
    return x, np.repeat(np.arange(40), 25), np.zeros(1000, dtype=int), 5.0


def draws(rng):
    """Six copies with one draw each: what varies is the copy, not the time."""
    level = 5.0 + rng.standard_normal(6)
    x = np.repeat(level, 200) + 0.3 * rng.standard_normal(1200)
    return x, np.tile(np.arange(200) // 10, 6), np.repeat(np.arange(6), 200), 5.0


def skewed(rng):
    """Forty stretches whose levels have a long tail."""
    return np.repeat(rng.exponential(5.0, 40), 25), np.repeat(np.arange(40), 25), np.zeros(1000, dtype=int), 5.0


@pytest.mark.sample(default=1, seconds=2, reason="hundreds of intervals")
@pytest.mark.parametrize("make", [stretches, draws, skewed])
def test_intervals_hold(make):
    """At 0.95 at least 0.93 of 600 intervals hold the truth, but for one chance in a million."""
    least = binom.ppf(HOLDS, 600, 0.93)
    assert coverage(make, lambda block, copy: block, 0.95) >= least


def test_intervals_over_single_readings_would_not():
    """The twin: neighbours taken for independent, and copies for readings, fail the same test."""
    least = binom.ppf(HOLDS, 600, 0.93)
    assert coverage(stretches, lambda block, copy: np.arange(block.size), 0.95) < least
    held = 0
    for seed in range(600):
        x, block, copy, truth = draws(np.random.default_rng(seed))
        figure = ratio(x, np.ones(x.size), Units(block, np.zeros_like(copy), 0.95))
        held += figure.low <= truth <= figure.high
    assert held < least / 2


def test_the_jackknife_is_that_of_a_mean():
    """For a mean over equal stretches it is Student's interval; more than twelve are put together."""
    x = np.random.default_rng(1).standard_normal(120)
    for count in (8, 60):
        block = np.arange(120) * count // 120
        found = without_each(lambda keep: float(x[keep].mean()), block, 0.99)
        groups = x.reshape(min(count, 12), -1).mean(axis=1)
        from scipy.stats import t

        wide = t.ppf(0.995, groups.size - 1) * groups.std(ddof=1) / math.sqrt(groups.size)
        assert found.high - found.value == pytest.approx(wide, rel=1e-9)


def test_a_function_of_the_user_s_own():
    """By its own name or by those given; of each copy, and averaged; a fault of it says no reading."""

    def largest_error(readings, output):
        return float(np.nanmax(np.abs(output - readings)))

    raw, out = day_and_night(T=200, N=2)
    found = measure_utility(raw, out, own=largest_error)
    each = [float(np.nanmax(np.abs(out[:, :, n] - raw))) for n in range(2)]
    assert found.own["largest_error"].value == pytest.approx(np.mean(each))
    named = measure_utility(raw, out, own={"worst": largest_error, "bias": lambda y, x: float(np.nanmean(x - y))})
    assert set(named.own) == {"worst", "bias"}
    assert named.own["bias"].low < named.own["bias"].value < named.own["bias"].high

    def faulty(readings, output):
        raise ValueError(f"{readings[0]}")

    with pytest.raises(ConfigurationError, match=r"^the utility 'faulty' stopped with a ValueError$"):
        measure_utility(raw, out, own=faulty)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.floats(1.0, 1e4), st.just(math.nan)), min_size=2, max_size=80),
    st.floats(0.0, 100.0),
    st.integers(1, 3),
)
def test_a_shift_is_found_whatever_is_missing(values, shift, copies):
    """All distances of a shifted output are the shift; no figure is below its low end or above its high one."""
    raw = np.array(values)[:, None]
    out = np.repeat((raw + shift)[:, :, None], copies, axis=2)
    found = measure_utility(raw, out, period=3600.0, alarm=100.0)
    channel = found.channels[0]
    if np.isnan(raw).all():
        assert math.isnan(channel.mean_absolute.value)
        return
    for figure in (channel.mean_absolute, channel.root_mean_square, channel.daily):
        if figure is not None:
            assert figure.value == pytest.approx(shift, abs=1e-8)
            assert not figure.low > figure.value + 1e-9
            assert not figure.high < figure.value - 1e-9
    assert channel.alarm.missed.value in (0.0, pytest.approx(math.nan, nan_ok=True))
    again = Utility.from_plain(json.loads(json.dumps(found.plain(), allow_nan=False)))
    assert again.plain() == found.plain()


def test_sequences_of_their_own():
    """Raw and output (T, d, N): each sequence is a stretch, and none is a copy."""
    rng = np.random.default_rng(2)
    raw = rng.standard_normal((50, 2, 30)) + 10.0
    found = measure_utility(raw, raw + 1.0)
    assert (found.copies, found.blocks, found.readings) == (1, 30, 1500)
    assert found.channels[1].mean_absolute.value == pytest.approx(1.0)


def test_what_cannot_be_is_refused():
    """Shapes, thresholds and names that do not fit, each with the rule."""
    raw = np.ones((10, 2))
    for wrong, words in (
        ({"released": np.ones((9, 2, 1))}, "must be"),
        ({"released": np.ones((10, 2, 1)), "segments": np.zeros(9)}, "segments has shape"),
        ({"released": np.ones((10, 2, 1)), "blocks": np.zeros((10, 4))}, "blocks has shape"),
        ({"released": np.ones((10, 2, 1)), "alarm": (1.0, 2.0, 3.0)}, "alarm ="),
        ({"released": np.ones((10, 2, 1)), "alarm": True}, "no truth value"),
        ({"released": np.ones((10, 2, 1)), "alarm": (1.0, False)}, "no truth value"),
        ({"released": np.ones((10, 2, 1)), "alarm": np.True_}, "no truth value"),
        ({"released": np.ones((10, 2, 1)), "alarm": "1000"}, "finite number"),
        ({"released": np.ones((10, 2, 1)), "alarm": math.inf}, "finite number"),
        ({"released": np.ones((10, 2, 1)), "names": ("co2",)}, "names ="),
        ({"released": np.ones((10, 2, 1)), "own": 3}, "must be a function"),
        ({"released": np.ones((10, 2, 1)), "confidence": 1.0}, "confidence ="),
        ({"released": np.ones((10, 2, 1)), "hours": np.zeros(3)}, "hours has shape"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            measure_utility(raw, **wrong)


def test_the_text_holds_no_reading():
    """Sentences and repr tell figures, not readings."""
    raw = np.full((30, 1), 1234.5678)
    found = measure_utility(raw, raw + 2.0, alarm=1000.0)
    assert "1234.5678" not in repr(found) + found.text() + json.dumps(found.plain())
    assert found.channels[0].mean_absolute == Figure(2.0, 2.0, 2.0)


def test_sizes_of_readings_and_outputs_stand_side_by_side():
    """Coarse quantiles, which enclose all readings, and shares in common bars; a constant channel has them too."""
    rng = np.random.default_rng(3)
    raw = 700.0 + 100.0 * rng.standard_normal((2000, 1))
    (one,) = measure_utility(raw, raw + 300.0).channels
    assert one.raw[0] <= raw.min() <= one.raw[1]
    assert one.raw[-2] <= raw.max() <= one.raw[-1]
    assert abs(one.released[4] - one.raw[4] - 300.0) <= 10.0
    assert [round(sum(part), 12) for part in one.shares] == [1.0, 1.0]
    centre = [sum(k * share for k, share in enumerate(part)) for part in one.shares]
    assert centre[1] > centre[0] + 3.0
    (still,) = measure_utility(np.zeros((10, 1)), np.zeros((10, 1))).channels
    assert round(sum(still.shares[1]), 12) == 1.0
