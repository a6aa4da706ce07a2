"""Grids of a history: found, stated, and models on them; readings that are held."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import understudy as us
from understudy import text
from understudy.errors import ConfigurationError, ReadingError
from understudy.identify.candidates import Candidate
from understudy.identify.grid import Cells, channels, decimals, obstacle, plain
from understudy.identify.grid import hold_period as held_for
from understudy.identify.grid import put_on_grid as behind
from understudy.identify.grid import snap_to_grid as snapped
from understudy.identify.history import History, Segment
from understudy.models.quantised import OnGrid


def history(*columns, period=60.0):
    Y = np.column_stack(columns)
    segment = Segment("1", np.arange(len(Y)) * 60 * 10**9, Y, np.arange(len(Y)) // 20 % 2)
    names = tuple(f"y{k}" for k in range(Y.shape[1]))
    return History(names, "theta", "t", (), (0, 1), period, (segment,), ())


def walk(n=800, sd=4.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.empty(n)
    y[0] = 500.0
    for k in range(1, n):
        y[k] = 50.0 + 0.9 * y[k - 1] + sd * rng.standard_normal()
    return y


def normal(step_model=0.0):
    return Candidate("AR(1), normal", {v: us.GaussMarkov(0.9, 1.0, 16.0, 1.0, b=50.0 + v) for v in (0, 1)}, {}, 5)


def heavy():
    noise = us.Scalar(stats.t(3.0, 0.0, 4.0))
    return Candidate("AR(1), Student-t", {v: us.AutoRegressive(0.9, 50.0 + v, noise) for v in (0, 1)}, {}, 7)


def test_grids_are_found_channel_by_channel():
    """One on multiples of 2, one on none."""
    notes = text.Notes()
    cells = channels(history(2.0 * np.rint(walk() / 2.0), walk(seed=1)), "auto", notes)
    assert cells == (Cells(2.0), None)
    assert notes[0].startswith("'y0': on a grid of step 2")
    assert plain(cells) == [{"step": 2.0, "offset": 0.0, "low": None, "high": None}, None]
    assert plain((None, None)) is None
    assert channels(history(walk()), None, notes) == (None,)


def test_readings_of_which_most_are_on_a_grid_are_rounded_all():
    """Four in five on quarters, the others anywhere: on no grid, and not off it either; a step is imposed."""
    y = walk(1500)
    given = history(np.where(np.random.default_rng(5).random(1500) < 0.8, 0.25 * np.rint(4.0 * y), y))
    notes = text.Notes()
    (cell,) = channels(given, "auto", notes)
    assert cell is not None
    assert cell.step == 0.2
    assert "cannot be told from the others" in notes[-1]
    moved = snapped(given, (cell,), notes)
    place = moved.segments[0].Y / 0.2
    assert np.abs(place - np.rint(place)).max() < 1e-6


def test_models_live_on_a_grid_that_all_channels_have():
    """Exact, so that the parameter can move; Gauss-Markov or not."""
    for candidate in (normal(), heavy()):
        assert obstacle(candidate, (Cells(2.0),)) is None
        made = behind(candidate, (Cells(2.0),))
        assert all(isinstance(model, OnGrid) for model in made.models.values())
        assert "live on a grid of step 2" in made.notes[-1]
        us.Family(made.models).along([0, 1, 0])


def test_gauss_markov_models_go_behind_a_grid_that_some_channels_have():
    """All values with one filter; other models cannot, and are refused: a float map of a grid gives theta away."""
    two = Candidate("VAR", {v: us.GaussMarkov(np.eye(2) * 0.9, np.eye(2), np.eye(2), np.eye(2)) for v in (0, 1)}, {}, 9)
    made = behind(two, (Cells(2.0), None))
    assert all(isinstance(model, us.Quantised) for model in made.models.values())
    assert len({model.method for model in made.models.values()}) == 1
    assert "behind a grid of step 2, none" in made.notes[-1]
    assert "give the private parameter away" in obstacle(heavy(), (Cells(2.0), None))
    with pytest.raises(ConfigurationError, match="cannot be put on a grid"):
        behind(heavy(), (Cells(2.0), None))


def test_rounding_is_taken_out_of_the_noise():
    """What a fit to rounded readings found as noise has step^2 / 12 in it; the model on the grid has not."""
    made = behind(normal(), (Cells(2.0),)).models[0]
    assert made.model.at(1).R[0, 0] == pytest.approx(1.0 - 4.0 / 12.0, rel=1e-6)
    assert made.model.at(1).Q[0, 0] == 16.0
    free = Candidate("AR(1)", {v: us.AutoRegressive(0.9, 50.0, us.Gaussian(0.0, 16.0)) for v in (0, 1)}, {}, 5)
    fine, coarse = (behind(free, (Cells(step),)).models[0].model for step in (0.5, 10.0))
    assert np.ravel(fine.noise.cov)[0] == pytest.approx(16.0 - 0.25 / 12.0, rel=1e-9)
    assert np.ravel(coarse.noise.cov)[0] == 16.0


def test_without_a_grid_nothing_changes():
    """The same candidate."""
    for candidate in (normal(), heavy()):
        assert obstacle(candidate, (None,)) is None
        assert behind(candidate, (None,)) is candidate


def test_readings_are_moved_to_the_grid_and_counted():
    """Those that were off it, beyond the noise of floats."""
    y = 0.1 * np.rint(walk() * 10.0)
    y[5] += 0.03
    notes = text.Notes()
    moved = snapped(history(y), (Cells(0.1),), notes)
    assert notes == ["1 reading of 'y0' off the grid moved to its nearest value"]
    assert np.abs(moved.segments[0].Y[:, 0] - 0.1 * np.rint(y * 10.0)).max() < 1e-9


def test_a_regular_hold_tells_its_period():
    """Four rows each: four minutes; a sensor that does not hold tells none."""
    slow = np.rint(walk(400, sd=30.0))
    notes = text.Notes()
    period = held_for(history(np.repeat(slow, 4)), notes)
    assert period == 240.0
    assert "every 4 rows" in notes[0]
    none = text.Notes()
    assert held_for(history(np.rint(walk(800, sd=30.0))), none) is None
    assert none == []


def test_an_irregular_hold_is_told_and_a_period_suggested():
    """No true period, so none is taken."""
    rng = np.random.default_rng(3)
    slow = np.rint(walk(400, sd=30.0))
    notes = text.Notes()
    period = held_for(history(np.repeat(slow, rng.integers(2, 9, 400))), notes)
    assert period is None
    assert "no regular period" in notes[0]
    assert "state a period of about" in notes[0]


@pytest.mark.parametrize(
    ("y", "places"),
    [([1.0, 2.0], 0), ([0.1, 0.25], 2), ([1.0 / 3.0], None), ([0.1 + 0.2], 1), ([np.nan], None), ([410.0, np.nan], 0)],
)
def test_decimals(y, places):
    """As readings are written, float noise aside."""
    assert decimals(np.array(y)) == places


def piled(n: int = 3000, floor: float = 400.0, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Whole ppm of a slow room, with a floor at which readings pile up; and labels."""
    rng = np.random.default_rng(seed)
    theta, x, y = (np.arange(n) // 100) % 2, 405.0, np.empty(n)
    for k in range(n):
        x = 0.9 * x + 0.1 * (405.0 + 60.0 * theta[k]) + rng.normal(0.0, 4.0)
        y[k] = max(floor, round(x))
    return y, theta


def test_a_later_reading_below_the_smallest_of_the_history_is_taken():
    """The smallest reading of a history is no floor of the grid, even where readings pile up on it."""
    y, theta = piled()
    family = us.fit({"y": y, "p": theta}, reading="y", private="p", model="AR(1), normal", holdout=None)
    (cell,) = family.about["grid"]
    assert cell["low"] == y.min() - np.ptp(y)
    assert any("margin" in note for note in family.about["notes"])
    z = us.whiten([402.0, 401.0, y.min() - 20.0], family.model(0), rng=1)
    assert np.isfinite(z).all()
    out = (
        us.design(family, leakage=0.1, distortion="mae", horizon=20).stream(theta=0, rng=1).apply([402.0, 380.0, 401.0])
    )
    assert np.isfinite(out).all()


def test_limits_are_the_ends_of_the_grid_and_readings_beyond_them_are_read_as_the_ends():
    """Twin: with the floor stated as public the models end there, and a history with lower readings is moved to it."""
    y, theta = piled()
    given = {"reading": "y", "private": "p", "model": "AR(1), normal", "holdout": None}
    made = us.Identifier(**given, limits=(399.6, None)).fit({"y": y, "p": theta})
    (cell,) = made.family_.about["grid"]
    assert (cell["low"], cell["high"]) == (400.0, None)
    again = made.read({"y": np.append(y, 380.0), "p": np.append(theta, 0)})
    assert again.stack()[-1, 0] == 400.0
    with pytest.raises(ReadingError, match="grid"):
        us.whiten([402.0, 380.0], made.family_.model(0), rng=1)
    for limits in ((5.0, 1.0), 3.0, (np.nan, None)):
        with pytest.raises(ConfigurationError, match="limits"):
            us.Identifier(**given, limits=limits).fit({"y": y, "p": theta})


def test_outputs_leave_within_the_range_of_the_history_and_a_margin_or_within_limits():
    """The range is part of the family: a quarter of the spread beyond the readings, not beyond 0; or as given."""
    y, theta = piled()
    given = {"reading": "y", "private": "p", "model": "AR(1), normal", "holdout": None}
    spread = float(y.max() - y.min())
    made = us.Identifier(**given).fit({"y": y, "p": theta})
    assert made.family_.about["possible"] == [[max(0.0, y.min() - 0.25 * spread), y.max() + 0.25 * spread]]
    low = us.Identifier(**given).fit({"y": y - y.min(), "p": theta})
    assert low.family_.about["possible"] == [[0.0, 1.25 * spread]]
    stated = us.Identifier(**given, limits=(300.0, None)).fit({"y": y, "p": theta})
    assert stated.family_.about["possible"] == stated.family_.about["limits"] == [[300.0, None]]


def test_a_floor_at_zero_stays():
    y, theta = piled(floor=400.0)
    family = us.fit({"y": y - 400.0, "p": theta}, reading="y", private="p", model="AR(1), normal", holdout=None)
    assert family.about["grid"][0]["low"] == 0.0
