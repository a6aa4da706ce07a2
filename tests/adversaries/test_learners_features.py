"""Features against slow oracles: every window is cut out of the readings and worked on by itself."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.adversaries.knowledge import Cases
from understudy.adversaries.learners.machine_learning import (
    Window,
    cumulate,
    extremes,
    features,
    lengths,
    mean,
    recipe_for,
    shift,
    slope,
    variance,
)

NAN = np.nan


def cases_of(T, d, N, rng, *, once=False, gaps=0.1, clock=False):
    """Noise with gaps, a sequence that is padded at the end, and labels without meaning."""
    outputs = 10.0 + np.cumsum(rng.normal(size=(T, d, N)), axis=0)
    if gaps:
        outputs[rng.random((T, d, N)) < gaps] = NAN
        outputs[T - T // 4 :, :, 0] = NAN
    labels = rng.integers(2, size=(T, N))
    hours = np.tile((0.25 * np.arange(T) % 24.0)[:, None], (1, N)) if clock else None
    days = np.tile((np.arange(T)[:, None] // 96) % 7, (1, N)) if clock else None
    return Cases(
        outputs, labels if not once else np.tile(labels[:1], (T, 1)), np.zeros((T, N), int), 2, once, hours, days
    )


def cut(x, k, window):
    """The readings of a window that are there."""
    part = x[max(k - window.back, 0) : max(k + window.ahead + 1, 0)]
    return part[~np.isnan(part)]


readings = st.lists(st.one_of(st.just(NAN), st.floats(-100, 100)), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(readings, st.integers(-2, 9), st.integers(-2, 9))
def test_means_and_variances_of_windows(y, back, ahead):
    """Cumulative sums give what cutting out gives, gaps and edges included."""
    if back + ahead < 0:
        back = -ahead
    x, window = np.array(y), Window(back, ahead)
    run = cumulate(x)
    for k, (m, v) in enumerate(zip(mean(run, window), variance(run, cumulate(x * x), window), strict=True)):
        part = cut(x, k, window)
        np.testing.assert_allclose(m, part.mean() if part.size else NAN, atol=1e-9)
        np.testing.assert_allclose(v, part.var() if part.size > 1 else NAN, atol=1e-8)


@settings(max_examples=60, deadline=None)
@given(readings, st.integers(1, 12))
def test_slopes_and_extremes_of_windows(y, length):
    """A slope is that of a straight line fitted to the readings that are there."""
    x, half = np.array(y), length // 2
    low, high = extremes(x, length)
    slopes = slope(x, length)
    for k in range(len(x)):
        at = [j for j in range(max(k - half, 0), min(k + half + 1, len(x))) if not np.isnan(x[j])]
        np.testing.assert_array_equal(low[k], min((x[j] for j in at), default=NAN))
        np.testing.assert_array_equal(high[k], max((x[j] for j in at), default=NAN))
        expected = np.polyfit(at, x[at], 1)[0] if len(at) > 1 else NAN
        np.testing.assert_allclose(slopes[k], expected, atol=1e-7)


def oracle(name, Y, k, recipe):
    """A feature of reading k of a sequence (T, d), by its name."""
    channels = [int(word[1]) for word in name.split() if word[0] == "y" and word[1:2].isdigit()]
    y = Y[:, channels[0]] - recipe.centre[channels[0]]
    what, _, number = name.partition(", ")
    what = " ".join(what.split()[len(channels) :])
    w = int(number.split()[0]) if number else 0
    dy = np.concatenate([[NAN], np.diff(y)])
    around, before = Window(w // 2, w // 2), Window(w - 1, 0)

    def some(part, function, least=1):
        return function(part) if len(part) >= least else NAN

    if len(channels) == 2:
        other = Y[:, channels[1]]
        dz = np.concatenate([[NAN], np.diff(other)])
        a, b = dy / np.sqrt(recipe.step[channels[0]]), dz / np.sqrt(recipe.step[channels[1]])
        both = ~np.isnan(a * b)
        a, b = np.where(both, a, NAN), np.where(both, b, NAN)
        if what == "product of differences":
            return (a * b)[k]
        products = cut(a * b, k, around)
        if what == "mean product of differences":
            return some(products, np.mean)
        size = [some(cut(side * side, k, around), np.mean) + 1e-4 for side in (a, b)]
        return some(products, np.mean) / np.sqrt(size[0] * size[1])
    floors = 1e-4 * recipe.step[channels[0]], 1e-4 * recipe.spread[channels[0]]
    if what == "difference":
        lag = w if number.endswith("back") else -w
        inside = 0 <= k - lag < len(y)
        return (y[k] - y[k - lag]) * np.sign(lag) if inside else NAN
    found = {
        "level": lambda: y[k],
        "mean around": lambda: some(cut(y, k, around), np.mean),
        "mean before": lambda: some(cut(y, k, before), np.mean),
        "log variance": lambda: np.log(some(cut(y, k, around), np.var, 2) + floors[1]),
        "above the least": lambda: y[k] - some(cut(y, k, around), np.min),
        "below the greatest": lambda: some(cut(y, k, around), np.max) - y[k],
        "deviation of differences around": lambda: some(cut(dy, k, around), np.std, 2),
        "log variance of differences around": lambda: np.log(some(cut(dy, k, around), np.var, 2) + floors[0]),
        "log variance of differences before": lambda: np.log(some(cut(dy, k, before), np.var, 2) + floors[0]),
        "share unchanged": lambda: some(cut(dy, k, around), lambda part: np.mean(part == 0.0)),
    }
    return found[what]()


@pytest.mark.long(seconds=2, reason="an oracle, reading by reading")
def test_features_of_readings_against_an_oracle():
    """Every feature of every reading of a recording with gaps and two channels, by name."""
    cases = cases_of(40, 2, 3, np.random.default_rng(1))
    recipe = recipe_for(cases)
    table = features(cases, recipe)
    assert table.values.shape == (120, len(table.names))
    assert len(set(table.names)) == len(table.names)
    checked = 0
    for f, name in enumerate(table.names):
        if "slope" in name or "there" in name:
            continue  # has an oracle of its own
        column = table.values[:, f].reshape(40, 3)
        for k, n in itertools.product(range(40), range(3)):
            expected = oracle(name, cases.outputs[:, :, n], k, recipe)
            np.testing.assert_allclose(column[k, n], expected, atol=1e-7, err_msg=f"{name} at {k}")
            checked += 1
    assert checked > 10_000


def test_features_of_sequences_against_an_oracle():
    """Quantiles, variances, correlations, shares of time and ends of sequences with gaps, one sequence at a time."""
    cases = cases_of(30, 2, 6, np.random.default_rng(2), once=True)
    recipe = recipe_for(cases)
    table = features(cases, recipe)
    assert len(table.values) == 6
    at = {name: table.values[:, f] for f, name in enumerate(table.names)}
    for n, c in itertools.product(range(6), range(2)):
        y = cases.outputs[:, c, n] - recipe.centre[c]
        dy = np.diff(y)
        there, dthere = y[~np.isnan(y)], dy[~np.isnan(dy)]
        expected = {
            "reading 3": y[3],
            "first": there[0],
            "last": there[-1],
            "mean 0": np.nanmean(y[:4]),
            "quantile 0.25": np.quantile(there, 0.25),
            "quantile 0.95": np.quantile(there, 0.95),
            "log variance": np.log(there.var() + 1e-6 * recipe.spread[c]),
            "differences log variance": np.log(dthere.var() + 1e-6 * recipe.step[c]),
            "differences quantile 0.5": np.median(dthere),
            "share of time 0": np.mean(there <= recipe.edges[c, 0] - recipe.centre[c]),
        }
        both = ~np.isnan(y[2:] * y[:-2])
        expected["autocorrelation 2"] = np.corrcoef(y[2:][both], y[:-2][both])[0, 1]
        for name, value in expected.items():
            np.testing.assert_allclose(at[f"y{c} {name}"][n], value, atol=1e-9, err_msg=name)
        power = np.abs(np.fft.rfft(np.nan_to_num(dy))) ** 2 / 29
        np.testing.assert_allclose(at[f"y{c} band 0"][n], np.log(power[1] + 1e-6 * recipe.step[c]))
    for n in range(6):
        a, b = np.diff(cases.outputs[:, :, n], axis=0).T
        both = ~np.isnan(a * b)
        np.testing.assert_allclose(at["y0 y1 correlation of differences"][n], np.corrcoef(a[both], b[both])[0, 1])


def test_the_clock_is_among_the_features_if_and_only_if_there_is_one():
    """Without a clock no column has to do with it; with one, the columns are those of the hours."""
    for once in (False, True):
        cases = cases_of(100, 1, 2, np.random.default_rng(3), once=once, clock=True)
        with_clock = features(cases, recipe_for(cases))
        without = features(cases.without_clock(), recipe_for(cases.without_clock()))
        extra = [name for name in with_clock.names if name.startswith("clock")]
        assert extra == ["clock sine", "clock cosine", "clock hour", "clock weekend"]
        assert [name for name in with_clock.names if name not in extra] == list(without.names)
        hours = with_clock.values[:, with_clock.names.index("clock hour")]
        np.testing.assert_array_equal(hours, (cases.hours[0] if once else cases.hours).ravel())


def test_a_recipe_gives_the_same_columns_for_other_lengths():
    """What is judged may be shorter or longer than what was learned from."""
    rng = np.random.default_rng(4)
    for once in (False, True):
        recipe = recipe_for(cases_of(50, 2, 3, rng, once=once))
        shapes = {features(cases_of(T, 2, 4, rng, once=once), recipe).values.shape[1] for T in (1, 7, 50, 80)}
        assert len(shapes) == 1


@pytest.mark.parametrize("T", [1, 2, 3, 10, 50, 1000, 100_000])
def test_windows_fit_into_the_time(T):
    """Lengths are odd, increasing, and no longer than the recording, nor than four hours of minutes."""
    found = lengths(T)
    assert all(w % 2 == 1 and w <= max(T, 241) and w <= 241 for w in found)
    assert list(found) == sorted(set(found))
    assert max(found) <= max(T, 1)


def test_a_shift_beyond_the_end_leaves_nothing():
    """Lags longer than the recording give NaN."""
    assert np.isnan(shift(np.arange(3.0), 5)).all()
    assert np.isnan(shift(np.arange(3.0), -5)).all()


def test_many_sequences_at_once_are_the_same_as_one_by_one(monkeypatch):
    """Sequences are worked on in portions; the portions do not matter."""
    from understudy.adversaries.learners import machine_learning

    cases = cases_of(20, 2, 7, np.random.default_rng(5), once=True)
    recipe = recipe_for(cases)
    whole = features(cases, recipe).values
    monkeypatch.setattr(machine_learning, "_AT_ONCE", 100)
    np.testing.assert_allclose(features(cases, recipe).values, whole, rtol=1e-12, atol=1e-12)
