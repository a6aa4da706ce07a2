"""Readings that break a rule: a clear error that never shows the value, and nothing has changed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from helpers import OwnGaussMarkov, room, same_bits, stepwise

import understudy as us
from understudy.errors import (
    IncompleteReadingWarning,
    MissingReadingError,
    NumericalError,
    ReadingError,
    UnderstudyError,
)

TWO = us.GaussMarkov(np.diag([0.5, 0.3]), np.eye(2), np.eye(2), np.eye(2))
SCALARS = {
    "gauss-markov": room(1),
    "iid": us.IID(us.Gaussian(100.0, 4.0)),
    "student": us.AutoRegressive(0.5, 50.0, us.Scalar(scipy.stats.t(3))),
    "markov": us.Markov(us.Gaussian(100.0, 4.0), lambda y: us.Gaussian(50 + 0.5 * y, 2.0)),
    "own": OwnGaussMarkov(room(1)),
}


@pytest.mark.parametrize("kind", SCALARS)
@pytest.mark.parametrize(
    "bad",
    [
        [], np.zeros((0, 1)), 5.0, "abc", ["a", "b"], [True, False], np.array([True]), [1 + 2j, 3.0],
        [[1.0], [2.0, 3.0]], np.zeros((3, 2)), np.zeros((3, 2, 4)), np.zeros((3, 1, 2, 2)), [object()],
        ["1.5", None], [None, True],
        np.array(["2020-01-01"], dtype="datetime64[D]"), None, {"a": 1.0}, [10**400, 1.0],
    ],
)  # fmt: skip
def test_what_is_no_sequence_of_readings_is_refused(kind, bad):
    """By every function and for every kind of model, as a ReadingError."""
    model = SCALARS[kind]
    transform = us.Transform(model, room(0))
    for call in (
        lambda: us.whiten(bad, model),
        lambda: us.colour(bad, model),
        lambda: us.loglik(bad, model),
        lambda: us.disguise(bad, model, room(0)),
        lambda: transform.apply(transform.start(), bad),
    ):
        with pytest.raises(ReadingError):
            call()


@pytest.mark.parametrize("kind", SCALARS)
@pytest.mark.parametrize("bad", ["abc", True, 1 + 2j, [1.0, 2.0], [], [[1.0]], object(), np.bool_(True), {"a": 1.0}])
def test_what_is_no_reading_is_refused_by_step(kind, bad):
    """And the state is as usable as before."""
    transform = us.Transform(SCALARS[kind], room(0))
    state = transform.start()
    expected = transform.step(state, 101.5)
    with pytest.raises(ReadingError):
        transform.step(state, bad)
    assert repr(transform.step(state, 101.5)) == repr(expected)


def test_one_axis_too_few_for_many_sensors_names_the_remedy():
    """(T, N) for a scalar model is an error that names Y[:, None, :]."""
    for call in (lambda Y: us.whiten(Y, room(1)), lambda Y: us.disguise(Y, room(1), room(0))):
        with pytest.raises(ReadingError, match=r"Y\[:, None, :\]"):
            call(np.zeros((10, 4)))
    with pytest.raises(ReadingError, match=r"z\[:, None, :\]"):
        us.colour(np.zeros((10, 4)), room(1))


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3), (5, 3, 2), (5, 1, 2)])
def test_the_wrong_number_of_channels_is_refused(shape):
    """A model of two channels needs (T, 2) or (T, 2, N), and the message says so."""
    with pytest.raises(ReadingError, match=r"\(T, 2\) or \(T, 2, N\)"):
        us.whiten(np.zeros(shape), TWO)
    transform = us.Transform(TWO, TWO)
    for bad in (1.0, [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]):
        with pytest.raises(ReadingError, match="2 channels"):
            transform.step(transform.start(), bad)


@pytest.mark.parametrize("kind", SCALARS)
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_an_infinite_reading_is_refused_by_row(kind, bad):
    """The message names the row and the rule, no digit of any reading; the state is untouched."""
    model = SCALARS[kind]
    transform = us.Transform(model, room(0))
    Y = np.array([101.731, 102.947, 103.853, 99.619])
    state, first = transform.apply(transform.start(), Y)
    wrong = np.array([104.267, bad, 98.483])
    with pytest.raises(ReadingError, match="row 1 is infinite") as caught:
        transform.apply(state, wrong)
    for digits in ("101.7", "102.9", "103.8", "99.6", "104.2", "98.4", "inf;", "-inf"):
        assert digits not in str(caught.value)
    with pytest.raises(ReadingError, match="infinite"):
        transform.step(state, bad)
    with pytest.raises(ReadingError, match="row 1"):
        us.loglik(wrong, model)
    _, rest = transform.apply(state, [104.267, 98.483])
    whole = us.disguise([*Y, 104.267, 98.483], model, room(0))
    assert same_bits(np.concatenate((first, rest)), whole)


def test_an_infinite_reading_after_a_gap_is_refused_by_row():
    """The row is counted in the chunk that was given, also away from the gain tables."""
    Y = us.sample(room(1), 60, rng=111)
    Y[20:25] = np.nan
    Y[27] = np.inf
    with pytest.raises(ReadingError, match="row 27"):
        us.disguise(Y, room(1), room(0))
    vector = np.zeros((40, 2))
    vector[10], vector[31, 1] = np.nan, -np.inf
    with pytest.raises(ReadingError, match="row 31"):
        us.disguise(vector, TWO, TWO)
    with pytest.raises(ReadingError, match="row 31"):
        us.whiten(vector, TWO, partial=True)


def test_an_infinity_beside_a_missing_channel_is_refused():
    """A vector that is missing as a whole is still not allowed to hold an infinity."""
    with pytest.raises(ReadingError, match="row 0"):
        us.whiten([[np.nan, np.inf]], TWO, partial=True)


@pytest.mark.parametrize("bad", ["secret-17.25", ["17.25"], [17.25 + 0j], [17.25, None, True], [[17.25], [1.0, 2.0]]])
def test_errors_never_show_a_reading(bad):
    """Type and position, not the value."""
    with pytest.raises(ReadingError) as caught:
        us.whiten(bad, room(1))
    assert "17.25" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_law_that_breaks_down_on_a_reading_does_not_show_it():
    """A variance that turns negative is an error of ours that shows nothing made from the reading."""
    model = us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(0.5 * y, 1.0 - 0.1 * y * y))
    with pytest.raises(UnderstudyError) as caught:
        us.whiten([7.654321, 1.0], model)
    assert "4.858" not in str(caught.value)  # 1 - 0.1 * 7.654321^2 = -4.858..., from which the reading follows


def test_incomplete_vectors_count_as_missing_with_a_warning():
    """The warning tells how many; the output is that of whole rows missing."""
    Y = us.sample(TWO, 30, rng=112)
    holes = Y.copy()
    holes[3, 0] = holes[10, 1] = holes[11, 0] = np.nan
    rows = Y.copy()
    rows[[3, 10, 11]] = np.nan
    for call in (
        lambda y: us.disguise(y, TWO, TWO),
        lambda y: us.whiten(y, TWO),
        lambda y: us.loglik(y, TWO),
        lambda y: us.Transform(TWO, TWO).apply(us.Transform(TWO, TWO).start(), y)[1],
        lambda y: us.whiten(y, OwnGaussMarkov(TWO)),
        lambda y: us.whiten(y, us.IID(us.Gaussian([0.0, 0.0], np.eye(2)))),
    ):
        with pytest.warns(IncompleteReadingWarning, match="3 readings"):
            ours = call(holes)
        assert same_bits(ours, call(rows))
    transform = us.Transform(TWO, TWO)
    with pytest.warns(IncompleteReadingWarning, match="1 reading"):
        _, out = transform.step(transform.start(), [1.0, None])
    assert np.isnan(out).all()


def test_the_warning_counts_over_sensors():
    """(T, d, N): every vector of every sensor counts once."""
    Y = np.zeros((10, 2, 3))
    Y[0, 0, 0] = Y[0, 1, 1] = Y[5, 0, 2] = np.nan
    Y[7, :, 1] = np.nan
    with pytest.warns(IncompleteReadingWarning, match="3 readings"):
        us.whiten(Y, TWO)


@pytest.mark.parametrize("kind", ["student", "markov"])
def test_a_gap_without_an_exact_law_is_refused(kind):
    """The message says why, by which rule, and the state before the gap goes on."""
    transform = us.Transform(SCALARS[kind], room(0))
    state, _ = transform.apply(transform.start(), [101.0, 102.0])
    with pytest.raises(MissingReadingError, match="missing"):
        transform.apply(state, [np.nan, 103.0])
    _, out = transform.step(state, 103.0)
    assert out == us.disguise([101.0, 102.0, 103.0], SCALARS[kind], room(0))[2]


def test_overflow_is_an_error_and_not_an_output():
    """A filter that leaves the range of double precision says so, by chunk and by step."""
    explosive = us.GaussMarkov(1e100, 1.0, 1.0, 1.0, mean0=1.0, cov0=1.0, allow_unstable=True)
    transform = us.Transform(explosive, explosive)
    with pytest.raises(NumericalError):
        transform.apply(transform.start(), [1e300, 1.0, 1e300, 1.0])
    with pytest.raises(NumericalError):
        stepwise(transform, [1e300, 1.0, 1e300, 1.0])


def test_large_readings_within_range_are_no_overflow():
    """1e308 is a finite reading of a model that is as wide: chunk and step agree on it."""
    transform = us.Transform(room(1), room(0.6))
    _, by_step = transform.step(transform.start(), 1e308)
    _, by_chunk = transform.apply(transform.start(), [1e308])
    assert same_bits(by_chunk, [by_step])


def test_masked_arrays_are_gaps():
    """A masked reading is a missing one."""
    Y = np.ma.masked_array([105.0, 106.0, 107.0], mask=[False, True, False])
    assert same_bits(us.disguise(Y, room(1), room(0)), us.disguise([105.0, None, 107.0], room(1), room(0)))
