"""The facts that the verdicts rest on, found in other ways than the claims are."""

import numpy as np
import pytest

import understudy as us
from understudy.paper import claims
from understudy.paper import setting as room
from understudy.paper.setting import Settings


@pytest.fixture(scope="module")
def outcome():
    return claims.compute(Settings())


def test_golden_values(outcome):
    """The corrected figures of Section V."""
    n = outcome.numbers
    assert n["distortion_at_0.3"] == pytest.approx(17.3458539, abs=1e-6)
    assert n["distortion_at_0"] == pytest.approx(64.9239091, abs=1e-6)
    assert n["distortion_at_ln2"] == pytest.approx(0.0, abs=1e-5)
    assert n["bound_at_0.68"] == pytest.approx(0.0017957, abs=1e-6)
    assert n["consistent_error_at_0.3"] == pytest.approx(0.1335860, abs=1e-6)
    assert n["printed_error_at_ln2"] == pytest.approx(0.1719, abs=1e-4)
    assert n["bound_factor"] == pytest.approx(74.39, abs=0.01)
    assert n["saturation"] == pytest.approx(np.log(2.0))
    assert n["printed_from_zero_error_at_0.68"] == pytest.approx(0.0017957, abs=2e-6)


def test_the_distortion_by_simulation_is_not_near_the_claim():
    """Sequences through the filter: 17.35 percent, with no chance in it, as the noise cancels."""
    Y = us.sample(room.room(0), room.HORIZON, n=50, rng=1)
    out = us.disguise(Y, source=room.room(0), target=room.room(1))
    each = np.abs(out - Y).mean(axis=(0, 1))
    np.testing.assert_allclose(each, each[0], rtol=1e-9)
    e = room.make_design().guarantee.bayes_error
    assert e * each[0] == pytest.approx(17.3458539, abs=1e-6)


def test_no_reading_gives_the_claim(outcome):
    """None of those tried is within 0.1 of 0.8 percent, and the names are distinct."""
    readings = claims.readings_of_section_v()
    assert len({reading.name for reading in readings}) == len(readings) > 30
    assert not any(reading.near for reading in readings)
    assert claims.Reading("twin", "one that would", 0.79).near
    assert outcome.numbers["readings_near"] == 0


def test_what_would_be_needed_gives_the_claim(outcome):
    """Each of the solved values, put back into the set-up, gives 0.8 percent."""
    needed = claims.needed_for_claim()
    changes = (
        {"b": needed["b"]},
        {"start": needed["start"]},
        {"level": needed["level"]},
        {"leakage": needed["leakage"]},
    )
    for change in changes:
        assert claims.relative_percent(room.make_design(**change)) == pytest.approx(0.8, abs=1e-6)
    assert needed["b"] == pytest.approx(0.1668, abs=1e-4)


@pytest.mark.parametrize(
    "change", [{}, {"b": 0.3}, {"start": 0.0}, {"a": 0.5}, {"horizon": 7}, {"variance": 2.0}], ids=str
)
def test_a_small_distortion_at_03_would_be_small_at_zero_too(change):
    """For absolute distortion the ratio of the two is 2 e in every room."""
    percent, design = claims.relative_percent, room.make_design
    ratio = percent(design(**change)) / percent(design(0.0, **change))
    assert ratio == pytest.approx(2 * 0.13358602535, rel=1e-6)


def test_predictors_that_start_at_zero_by_simulation():
    """Theorem 4 by its letter: both predictors at 0, run through the filter itself."""

    def started_at_zero(theta):
        return us.GaussMarkov(room.A, 1.0, 0.1, 0.1, b=room.B * theta, mean0=-room.B * theta / room.A, cov0=1.0)

    Y = us.sample(room.room(1), room.HORIZON, n=3, rng=1)
    out = us.disguise(Y, source=started_at_zero(1), target=started_at_zero(0))
    e = room.make_design().guarantee.bayes_error
    (found,) = (r.percent for r in claims.readings_of_section_v() if r.name == "zero_predictors")
    np.testing.assert_allclose(e * np.abs(out - Y).mean(axis=(0, 1)), found, rtol=1e-9)


def test_a_pseudo_predictor_fed_with_raw_readings_by_simulation():
    """The reading that is not the filter, by a Kalman predictor written out."""
    Y = us.sample(room.room(1), room.HORIZON, rng=1)
    change, P = [], room.A**2 + 0.1
    x, pseudo = room.A * 100.0 + room.B, room.A * 100.0
    for y in Y:
        change.append(abs(x - pseudo))
        K = P / (P + 0.1)
        x, pseudo = room.A * (x + K * (y - x)) + room.B, room.A * (pseudo + K * (y - pseudo))
        P = room.A**2 * (1 - K) * P + 0.1
    e = room.make_design().guarantee.bayes_error
    (found,) = (r.percent for r in claims.readings_of_section_v() if r.name == "fed_with_raw")
    assert e * np.mean(change) == pytest.approx(found)


def test_information_in_the_readings_is_the_budget(outcome):
    """Every sequence leaves the same doubt, 0.866 to 0.134, so its entropy hardly varies by chance."""
    assert outcome.numbers["information_in_readings"] == pytest.approx(0.3, abs=1e-6)


def test_every_claim_has_a_verdict_and_a_reason(outcome):
    """And the counts in the text are those of the table."""
    table = outcome.tables[0]
    verdicts = [row[3] for row in table.rows]
    assert set(verdicts) <= {claims.HOLDS, claims.CORRECTED, claims.FAILS}
    assert all(len(row) == len(table.columns) and all(row) for row in table.rows)
    assert outcome.numbers["does_not_hold"] == verdicts.count(claims.FAILS) == 1
    assert sum(outcome.numbers[v.replace(" ", "_")] for v in set(verdicts)) == len(verdicts)
