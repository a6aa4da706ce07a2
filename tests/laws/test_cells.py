"""The arithmetic of cells: a standard normal that is only known to lie in an interval."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from cell_oracles import exact_cell, exact_score
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import ModelError, ReadingError
from understudy.laws.atoms import CellLaw, CellMixture, Rounding, log_probability, scores, truncate

CENTRES = [0.0, 0.3, -1.0, 2.5, -6.0, 8.0, 20.0, -40.0, 40.0]
WIDTHS = [1e-12, 1e-6, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 30.0]
FINITE = [(m, 0.5 * w, m - 0.5 * w, m + 0.5 * w) for m in CENTRES for w in WIDTHS]
FINITE += [(0.0, 5e5, -5e5, 5e5), (5e5, 499_999.0, 1.0, 999_999.0), (-5e5, 5e5, -1e6, 0.0)]
ENDS = [-40.0, -8.0, -3.0, -1.0, 0.0, 0.5, 1.0, 2.0, 5.0, 12.0, 40.0]
HALF_OPEN = [(0.0, math.inf, e, math.inf) for e in ENDS] + [(0.0, math.inf, -math.inf, e) for e in ENDS]
CELLS = [*FINITE, *HALF_OPEN]
# numpy arrays of all cells
HALF, LOWER, UPPER = (np.array(column) for column in list(zip(*CELLS, strict=True))[1:])


@pytest.mark.parametrize(("centre", "half", "a", "b"), CELLS)
def test_truncated(centre, half, a, b):
    """Log-probability to 1e-14, mean to 1e-14 (of 1, or of its size), variance to 1e-13 of itself; one and many alike.

    (Where a cell is narrow, its ends as floats are not centre -+ half to all digits: that is why half is given.)
    """
    wanted = exact_cell(0.5 * (a + b) if math.isfinite(half) else centre, half, a, b)
    one = truncate(a, b, half)
    many = truncate(np.array([a, a]), np.array([b, b]), np.array([half, half]))
    for found in (one, [part[1] for part in many]):
        assert abs(found[0] - wanted[0]) < 2e-14 * max(1.0, abs(wanted[0]))
        assert abs(found[1] - wanted[1]) < 2e-14 * max(1.0, abs(wanted[1]))
        assert abs(found[2] / wanted[2] - 1.0) < 1e-13


def test_the_whole_line_is_a_cell():
    """A sensor with one value says nothing."""
    assert truncate(-math.inf, math.inf, math.inf) == (0.0, 0.0, 1.0)
    both = truncate(np.array([-np.inf]), np.array([np.inf]), np.array([np.inf]))
    assert [float(part[0]) for part in both] == [0.0, 0.0, 1.0]


def test_log_probability_alone():
    """The quicker way to the probability agrees with the other."""
    for keep in (HALF > 0.02, HALF > 0.0):
        wanted = truncate(LOWER[keep], UPPER[keep], HALF[keep]).log_probability
        found = log_probability(LOWER[keep], UPPER[keep], HALF[keep])
        assert np.max(np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted))) < 1e-13
    near = (HALF > 0.02) & (np.abs(LOWER) < 30) & (np.abs(UPPER) < 30)
    wanted = truncate(LOWER[near], UPPER[near], HALF[near]).log_probability
    assert np.max(np.abs(log_probability(LOWER[near], UPPER[near], HALF[near]) - wanted)) < 1e-12


@pytest.mark.sample(default=3, seconds=1, reason="laws scored far into their tails")
@pytest.mark.parametrize("v", [1e-12, 0.03, 0.5, 0.97, 1.0 - 1e-12])
def test_scores(v):
    """The randomised score is right to 2e-14 (of 1, or of its size), and inside its cell."""
    logs = truncate(LOWER, UPPER, HALF).log_probability
    many = scores(LOWER, UPPER, logs, np.full(LOWER.shape, v))
    for (_, half, a, b), log, z in zip(CELLS, logs.tolist(), many.tolist(), strict=True):
        wanted = exact_score(0.5 * (a + b) if math.isfinite(half) else 0.0, half, a, b, v)
        one = scores(a, b, log, v)
        for found in (z, one):
            assert abs(found - wanted) < 2e-14 * max(1.0, abs(wanted))
            assert a <= found <= b


@settings(max_examples=200, deadline=None)
@given(
    st.floats(-60, 60),
    st.floats(-12, 6).map(lambda e: 10.0**e),
    st.floats(0.001, 0.998),
)
def test_properties(centre, half, v):
    """Mean inside, variance below that of the uniform law, mirror images, and a score that increases with v."""
    a, b = centre - half, centre + half
    cell = truncate(a, b, half)
    assert cell.log_probability <= 0.0
    assert a <= cell.mean <= b
    assert 0.0 < cell.variance <= min(1.0, half * half / 3.0) * (1.0 + 1e-12)
    mirrored = truncate(-b, -a, half)
    assert mirrored == (cell.log_probability, -cell.mean, cell.variance)
    z = [scores(a, b, cell.log_probability, u) for u in (v, v + 0.001)]
    assert a <= z[0] <= z[1] <= b


# The laws ------------------------------------------------------------------------------------------


def laws():
    """One channel and several, normal and mixed, clipped and not."""
    one, clipped = Rounding(1, 0.7, 0.1), Rounding(1, 0.5, low=-1.0, high=2.0)
    two = Rounding(2, [1.0, 0.25], [0.0, 0.1], low=[None, -0.9])
    open_one = Rounding(2, [None, 1.0])
    cov = np.array([[1.0, 0.8], [0.8, 2.0]])
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(7))
    points = rng.normal(size=(2, 7))
    return {
        "normal": CellLaw(0.3, 2.0, one),
        "clipped": CellLaw(0.3, 2.0, clipped),
        "narrow": CellLaw(412.0, 1.0, Rounding(1, 1e-6)),
        "two": CellLaw(np.array([0.3, -0.2]), cov, two),
        "one of two": CellLaw(np.array([0.3, -0.2]), cov, open_one),
        "mixture": CellMixture(weights, points[:1], np.array([0.3]), one),
        "clipped mixture": CellMixture(weights, points[:1], np.array([0.3]), clipped),
        "two mixed": CellMixture(weights, points, np.array([0.3, 0.8]), two),
    }


LAWS = laws()


@pytest.mark.parametrize("name", list(LAWS))
def test_value_undoes_score(name):
    """What is reported has exactly the score it was given, whatever the uniform, far out as well."""
    law = LAWS[name]
    rng = np.random.default_rng(2)
    z = np.concatenate((rng.standard_normal((law.dim, 300)), 12.0 * rng.standard_normal((law.dim, 50))), axis=1)
    y = law.value(z[0] if law.dim == 1 else z)
    for v in (rng.random(np.shape(y)), np.full(np.shape(y), 1e-300), np.full(np.shape(y), 1.0 - 1e-16)):
        back = law.value(law.score(y, v))
        rounded = [i for i, channel in enumerate(law._grid.channels) if channel.step]
        if law.dim == 1:
            assert np.array_equal(back, y)
        else:
            assert np.array_equal(back[rounded], y[rounded])
            assert np.max(np.abs(back - y)) < 1e-12


@pytest.mark.parametrize("name", list(LAWS))
def test_one_is_like_many(name):
    """A single reading and a row of them get the same numbers, to rounding."""
    law = LAWS[name]
    rng = np.random.default_rng(3)
    z = rng.standard_normal((law.dim, 20))
    y = law.value(z[0] if law.dim == 1 else z)
    v = rng.random(np.shape(y))
    many, logs = law.score(y, v), law.logpdf(y)
    for k in range(20):
        one = (float(y[k]), float(v[k])) if law.dim == 1 else (y[:, k], v[:, k])
        assert np.max(np.abs(law.score(*one) - many[..., k])) < 1e-13
        assert abs(law.logpdf(one[0]) - logs[k]) < 1e-13
        assert np.array_equal(law.value(float(z[0, k]) if law.dim == 1 else z[:, k]), y[..., k])


@pytest.mark.sample(default=2, seconds=1, reason="laws scored far into their tails")
@pytest.mark.parametrize("name", ["normal", "clipped", "mixture", "clipped mixture"])
def test_probabilities_sum_to_one(name):
    """Over all cells, and each is the mass of scores that are reported as it."""
    law = LAWS[name]
    y = law._grid.channels[0].between(-30.0, 30.0)
    p = np.exp(law.logpdf(y))
    assert abs(p.sum() - 1.0) < 1e-13
    rng = np.random.default_rng(4)
    drawn = law.value(rng.standard_normal(200_000))
    count = np.array([(drawn == point).sum() for point in y])
    # false alarm 1e-6: 5.5 standard deviations and the number of cells
    assert np.all(np.abs(count - 200_000 * p) < 6.5 * np.sqrt(200_000 * p) + 10.0)


def test_two_channels_with_correlated_noise():
    """The second channel, given the cell of the first, has the mean and the variance that it has in truth."""
    law = LAWS["two"]
    mean, cov = law.parts
    y = np.array([1.0, 0.35])
    t, w = np.polynomial.legendre.leggauss(60)
    inside = 1.0 + 0.5 * t
    f = w * np.exp(-0.5 * (inside - mean[0]) ** 2 / cov[0, 0])
    f /= f.sum()
    slope = cov[0, 1] / cov[0, 0]
    q = mean[1] + slope * (inside - mean[0])
    m = f @ q
    s = math.sqrt(f @ (q - m) ** 2 + cov[1, 1] - slope * cov[0, 1])
    alone = CellLaw(m, s * s, Rounding(1, 0.25, 0.1, low=-0.9))
    z = law.score(y, np.array([0.2, 0.7]))
    assert abs(z[1] - alone.score(0.35, 0.7)) < 1e-12
    assert abs(law.logpdf(y) - CellLaw(mean[0], cov[0, 0], Rounding(1, 1.0)).logpdf(1.0) - alone.logpdf(0.35)) < 1e-12


@pytest.mark.parametrize("name", list(LAWS))
def test_laws_are_values_without_secrets(name):
    """Copies and pickles give the same scores; the repr shows no parameter."""
    law = LAWS[name]
    y = law.value(0.2 if law.dim == 1 else np.array([0.2, -0.4]))
    v = 0.4 if law.dim == 1 else np.array([0.4, 0.6])
    for other in (copy.copy(law), copy.deepcopy(law), pickle.loads(pickle.dumps(law))):  # noqa: S301
        assert np.array_equal(other.score(y, v), law.score(y, v))
    assert not any(character in repr(law) for character in ".[")
    assert law.atoms
    with pytest.raises(AttributeError, match="value"):
        law.dim = 7


@pytest.mark.parametrize("name", ["normal", "mixture", "two", "two mixed"])
def test_bad_readings(name):
    """No uniforms, uniforms outside (0, 1), or readings that are not on the grid: refused without their value."""
    law = LAWS[name]
    y = law.value(0.2 if law.dim == 1 else np.array([0.2, -0.4]))
    v = 0.4 if law.dim == 1 else np.array([0.4, 0.6])
    with pytest.raises(ReadingError, match="needs auxiliary uniforms"):
        law.score(y)
    with pytest.raises(ReadingError, match="between 0 and 1"):
        law.score(y, v * 0.0)
    off = y + 0.0123
    for call in (lambda: law.score(off, v), lambda: law.logpdf(off)):
        with pytest.raises(ReadingError, match="not on its grid") as caught:
            call()
        assert "0.0123" not in str(caught.value)
        assert not any(part in str(caught.value) for part in (f"{np.ravel(off)[0]}", f"{np.ravel(y)[0]:.3f}"))


def test_a_float_grid_is_met_to_a_billionth_of_a_step():
    """Tenths are no floats: 0.1 + 0.2 is on the grid of tenths, 0.3 + 1e-8 is not; large readings keep their ulps."""
    channel = Rounding(1, 0.1).channels[0]
    assert channel.cells(0.1 + 0.2, 0).at == channel.cells(0.3, 0).at
    assert channel.cells(12345678.1, 0).half == 0.05
    for y in (0.3 + 1e-8, 0.35, math.nan, math.inf):
        with pytest.raises(ReadingError, match="grid"):
            channel.cells(y, 0)
        with pytest.raises(ReadingError, match="grid"):
            channel.cells(np.array([0.3, y]), 0)


def test_beyond_the_ends_there_is_nothing():
    """A reading below low or above high cannot have been reported."""
    channel = Rounding(1, 1.0, low=-2.0, high=3.0).channels[0]
    assert channel.cells(3.0, 0)[1:3] == (2.5, math.inf)
    assert channel.cells(-2.0, 0)[1:3] == (-math.inf, -1.5)
    assert channel.round(np.array([-9.0, 0.4, 9.0])).tolist() == [-2.0, 0.0, 3.0]
    with pytest.raises(ReadingError, match="beyond"):
        channel.cells(4.0, 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"step": 0.0}, "at least one channel"),
        ({"step": None}, "at least one channel"),
        ({"step": -1.0}, "positive"),
        ({"step": math.nan}, "finite"),
        ({"step": "1"}, "number"),
        ({"step": True}, "number"),
        ({"step": [1.0, 1.0]}, "one for each of 1"),
        ({"step": 1.0, "offset": math.inf}, "finite"),
        ({"step": 1.0, "offset": None}, "number"),
        ({"step": 1.0, "low": 0.5}, "low of channel 0 = 0.5; it must be a grid point"),
        ({"step": 1.0, "high": math.nan}, "finite"),
        ({"step": 1.0, "low": 3.0, "high": 2.0}, "above high"),
        ({"step": 1.0, "low": math.inf}, "finite"),
    ],
)
def test_bad_grids(given, message):
    """The rule and the value are named."""
    with pytest.raises(ModelError, match=message):
        Rounding(1, **given)


def test_ends_of_a_channel_that_is_not_rounded():
    """A single end serves the rounded channels; one given for another is an error."""
    assert Rounding(2, [None, 1.0], low=0.0).channels[0].low == -math.inf
    with pytest.raises(ModelError, match="has no low"):
        Rounding(2, [None, 1.0], low=[0.0, 0.0])
