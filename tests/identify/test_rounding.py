"""Grids of a history: found, stated, and models on them; readings that are held."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import understudy as us
from understudy.errors import ConfigurationError
from understudy.identify.candidate import Candidate
from understudy.identify.history import History, Segment
from understudy.identify.rounding import Cells, behind, channels, decimals, held_for, obstacle, plain, snapped
from understudy.models.on_grid import OnGrid
from understudy.models.stored import to_plain


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


def storable():
    """Whether stored families may hold processes on a grid."""
    try:
        to_plain(OnGrid(us.IID(us.Gaussian(0.0, 1.0)), step=1.0))
    except us.errors.ModelError:
        return False
    return True


def test_grids_are_found_channel_by_channel():
    """One on multiples of 2, one on none."""
    cells, notes = channels(history(2.0 * np.rint(walk() / 2.0), walk(seed=1)))
    assert cells == (Cells(2.0), None)
    assert notes[0].startswith("'y0': on a grid of step 2")
    assert plain(cells) == [{"step": 2.0, "offset": 0.0, "low": None, "high": None}, None]
    assert plain((None, None)) is None
    assert channels(history(walk()), None) == ((None,), ())


def test_readings_of_which_most_are_on_a_grid_are_rounded_all():
    """Four in five on quarters, the others anywhere: on no grid, and not off it either; a step is imposed."""
    y = walk(1500)
    given = history(np.where(np.random.default_rng(5).random(1500) < 0.8, 0.25 * np.rint(4.0 * y), y))
    (cell,), notes = channels(given)
    assert cell is not None
    assert cell.step == 0.2
    assert "cannot be told from the others" in notes[-1]
    moved, _ = snapped(given, (cell,))
    place = moved.segments[0].Y / 0.2
    assert np.abs(place - np.rint(place)).max() < 1e-6


def test_gauss_markov_models_go_behind_the_grid():
    """All values with one filter, so that the parameter can move."""
    made = behind(normal(), (Cells(2.0),))
    assert all(isinstance(model, us.Quantised) for model in made.models.values())
    assert len({model.method for model in made.models.values()}) == 1
    assert "behind a grid of step 2" in made.notes[-1]
    us.Family(made.models).along([0, 1, 0])


def test_rounding_is_taken_out_of_the_sensor_noise():
    """What a fit to rounded readings found as noise has step^2 / 12 in it; the model behind the grid has not."""
    made = behind(normal(), (Cells(2.0),)).models[0]
    assert made.model.at(1).R[0, 0] == pytest.approx(1.0 - 4.0 / 12.0, rel=1e-6)
    assert made.model.at(1).Q[0, 0] == 16.0


def test_coarse_steps_without_sensor_noise_are_a_process_on_the_grid():
    """An autoregression of rounded readings is what was fitted; behind a grid they would be rounded twice."""
    free = Candidate("AR(1)", {v: us.AutoRegressive(0.9, 50.0, us.Gaussian(0.0, 16.0)) for v in (0, 1)}, {}, 5)
    fine, coarse = (behind(free, (Cells(step),)).models[0] for step in (0.5, 10.0))
    assert isinstance(fine, us.Quantised)
    assert isinstance(coarse, OnGrid if storable() else us.Quantised)


def test_other_models_live_on_the_grid_or_are_refused():
    """Never as they are: a float map of a grid gives the parameter away."""
    why = obstacle(heavy(), (Cells(2.0),))
    if storable():
        assert why is None
        made = behind(heavy(), (Cells(2.0),))
        assert all(isinstance(model, OnGrid) for model in made.models.values())
        us.Family(made.models).along([0, 1, 0])
    else:
        assert "give the private parameter away" in why
        with pytest.raises(ConfigurationError, match="AR\\(1\\), Student-t cannot be put on the grid"):
            behind(heavy(), (Cells(2.0),))


def test_without_a_grid_nothing_changes():
    """The same candidate."""
    for candidate in (normal(), heavy()):
        assert obstacle(candidate, (None,)) is None
        assert behind(candidate, (None,)) is candidate


def test_readings_are_moved_to_the_grid_and_counted():
    """Those that were off it, beyond the noise of floats."""
    y = 0.1 * np.rint(walk() * 10.0)
    y[5] += 0.03
    moved, notes = snapped(history(y), (Cells(0.1),))
    assert notes == ("1 readings of 'y0' off the grid were moved to its nearest value",)
    assert np.abs(moved.segments[0].Y[:, 0] - 0.1 * np.rint(y * 10.0)).max() < 1e-9


def test_a_regular_hold_tells_its_period():
    """Four rows each: four minutes; a sensor that does not hold tells none."""
    slow = np.rint(walk(400, sd=30.0))
    period, notes = held_for(history(np.repeat(slow, 4)))
    assert period == 240.0
    assert "every 4 rows" in notes[0]
    assert held_for(history(np.rint(walk(800, sd=30.0)))) == (None, ())


def test_an_irregular_hold_is_told_and_a_period_suggested():
    """No true period, so none is taken."""
    rng = np.random.default_rng(3)
    slow = np.rint(walk(400, sd=30.0))
    period, notes = held_for(history(np.repeat(slow, rng.integers(2, 9, 400))))
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
