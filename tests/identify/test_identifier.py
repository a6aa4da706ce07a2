"""`fit` and `Identifier`: from a frame to a family that says what it is, with and without scikit-learn."""

from __future__ import annotations

import json

import numpy as np
import pytest
from identify_frames import LIBRARIES, intake, simulated
from scipy import stats

import understudy as us
from understudy.errors import ConfigurationError, ReadingError, StoredFileError
from understudy.identify.fit import Identifier, fit, load_family, save_family
from understudy.identify.fit import read_again as reread
from understudy.identify.selection import makers, orders, scores
from understudy.text import free_noise_offered

NAMES = {"reading": "co2", "private": "people", "time": "time"}
QUICK = {"model": ["AR(1), normal", "grey-box"], "order": 1}


@pytest.fixture(scope="module")
def frame():
    return simulated(1600, seed=7)


@pytest.fixture(scope="module")
def fitted(frame):
    return Identifier(**NAMES, **QUICK).fit(frame)


@pytest.fixture(scope="module")
def simple(frame):
    return fit(frame, model="AR(1), normal", holdout=None, **NAMES)


def test_the_family_says_what_it_is(fitted, frame):
    """Columns, period, chain, model, table and notes: in what JSON can hold."""
    family = fitted.family_
    about = json.loads(json.dumps(family.about, allow_nan=False))
    assert family.values == (0, 1)
    assert about["readings"] == ["co2"]
    assert (about["private"], about["time"], about["segment"], about["period"]) == ("people", "time", None, 60.0)
    assert about["public"] is about["grid"] is about["bins"] is about["resampling"] is about["units"] is None
    assert about["decimals"] == [None]
    assert about["chain"]["prior"][1] == pytest.approx(float(np.mean(frame["people"])))
    assert {row["name"] for row in about["model"]["table"]} == {"AR(1), normal", "grey-box"}
    assert about["model"]["name"] == fitted.table_.chosen
    assert "the period is 1 min, the spacing of the rows" in about["notes"]
    np.testing.assert_allclose(family.prior, fitted.chain_.prior)
    assert about["gate"]["passed"] is fitted.gate_.passed


def test_scores_of_new_data_are_standard_normal(fitted):
    """The fitted family whitens a day that it never saw (Kolmogorov-Smirnov and lag one, false alarm 1e-6)."""
    fresh = intake(simulated(1500, seed=8), **NAMES)
    z = np.concatenate(scores({v: fitted.family_.model(v) for v in (0, 1)}, fresh)).ravel()
    limit = stats.kstwo.isf(1e-6, z.size) + 0.05  # what 1200 readings leave unknown of the parameters
    assert stats.kstest(z, "norm").statistic < limit
    assert abs(float(z[1:] @ z[:-1]) / z.size) < stats.norm.isf(5e-7) / np.sqrt(z.size) + 0.05


def test_the_same_test_catches_swapped_labels(fitted):
    """The twin: whitened under the other value, the scores show it."""
    fresh = intake(simulated(1500, seed=8), **NAMES)
    z = np.concatenate(scores({v: fitted.family_.model(1 - v) for v in (0, 1)}, fresh)).ravel()
    assert stats.kstest(z, "norm").statistic > stats.kstwo.isf(1e-6, z.size) + 0.05


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_same_family(library, frame, simple):
    """To the bit."""
    family = fit(LIBRARIES[library](frame), model="AR(1), normal", holdout=None, **NAMES)
    assert (family.model(1).A == simple.model(1).A).all()
    assert family.about["model"]["parameters"] == simple.about["model"]["parameters"]


def test_a_design_can_be_made_and_keeps_what_is_said(fitted, tmp_path):
    """From data to a design that is stored, with the family's `about`."""
    design = us.design(fitted.family_, leakage=0.1, horizon=20, distortion="mae")
    design.save(tmp_path / "design.json")
    again = us.load_design(tmp_path / "design.json")
    assert again.family.about == fitted.family_.about


# Grids and held readings -----------------------------------------------------------------------------------


def test_a_grid_is_found_and_the_models_are_behind_it():
    """Whole multiples of 5: the models live on the grid, and it is said."""
    family = fit(simulated(1200, seed=3, step=5.0), model="AR(1), normal", **NAMES)
    assert isinstance(family.model(0), us.OnGrid)
    assert family.about["grid"][0]["step"] == 5.0
    assert family.about["decimals"] == [0]
    assert any("on a grid of step 5" in note for note in family.about["notes"])
    assert any("live on a grid of step 5" in note for note in family.about["notes"])
    plain = fit(simulated(1200, seed=3, step=5.0), model="AR(1), normal", grid=None, **NAMES)
    assert isinstance(plain.model(0), us.GaussMarkov)


def test_a_grid_can_be_stated():
    """One step for all channels, or one for each; anything else is refused."""
    frame = simulated(800, seed=3, step=5.0)
    assert fit(frame, model="AR(1), normal", grid=5, **NAMES).about["grid"][0]["step"] == 5.0
    for wrong in (-1.0, [5.0, 5.0], "five", True):
        with pytest.raises(ConfigurationError, match="grid = "):
            fit(frame, model="AR(1), normal", grid=wrong, **NAMES)


def test_a_few_readings_off_the_grid_are_moved_to_it():
    """And counted."""
    frame = simulated(1200, seed=3, step=5.0)
    frame["co2"][[100, 200]] += 1.3
    family = fit(frame, model="AR(1), normal", **NAMES)
    assert any("2 readings of 'co2' off the grid" in note for note in family.about["notes"])


def test_readings_that_are_held_are_resampled_to_their_true_period():
    """A sensor that is read every minute and changes every five: five minutes, the last reading of each."""
    slow = simulated(1500, seed=2, step=1.0)
    n = 5 * 1500
    from datetime import timedelta

    held = {
        "time": [slow["time"][0] + timedelta(minutes=k) for k in range(n)],
        "co2": np.repeat(slow["co2"], 5),
        "people": np.repeat(slow["people"], 5),
    }
    family = fit(held, model="AR(1), normal", **NAMES)
    assert family.about["period"] == 300.0
    assert family.about["resampling"] == {"period": 300.0, "how": "last"}
    assert any("holds its reading" in note and "every 5 rows" in note for note in family.about["notes"])


# Public inputs -----------------------------------------------------------------------------------------------


def test_a_public_offset_is_fitted_and_kept():
    """Its coefficients stand in `about`, and another frame is read with it."""
    frame = simulated(1600, seed=4)
    outside = 10.0 + np.cumsum(0.3 * np.random.default_rng(9).standard_normal(1600))
    frame = frame | {"outside": outside, "co2": frame["co2"] + 3.0 * outside}
    made = Identifier(**NAMES, public="outside", model="AR(1), normal").fit(frame)
    told = made.family_.about["public"]
    assert told["columns"] == ["outside"]
    assert told["coefficients"][0][0] == pytest.approx(3.0, abs=0.7)
    history = made.read(frame)
    offset = told["intercept"][0] + told["coefficients"][0][0] * outside
    np.testing.assert_allclose(history.segments[0].Y[:, 0], frame["co2"] - offset, rtol=1e-9)


# The scikit-learn shape ----------------------------------------------------------------------------------------


def test_parameters_are_got_and_set():
    """As scikit-learn's estimators do, which is not needed for it."""
    made = Identifier(reading="co2")
    assert made.get_params()["reading"] == "co2"
    assert made.set_params(holdout=0.5, model="grey-box") is made
    assert (made.holdout, made.model) == (0.5, "grey-box")
    with pytest.raises(ConfigurationError, match="'colour' is no parameter"):
        made.set_params(colour="red")
    assert repr(Identifier(reading="co2", holdout=0.5)) == "Identifier(holdout=0.5, reading='co2')"


def test_labels_may_come_apart_from_readings(frame, fitted):
    """As y; readings then as a frame or an array."""
    readings = {"time": frame["time"], "co2": frame["co2"]}
    one = Identifier(reading="co2", time="time", model="AR(1), normal", holdout=None).fit(readings, frame["people"])
    assert one.family_.about["private"] == "label"
    other = Identifier(model="AR(1), normal", period=60, holdout=None).fit(frame["co2"][:, None], frame["people"])
    assert other.family_.about["readings"] == ["y0"]
    assert other.params_["coefficients"] == pytest.approx(one.params_["coefficients"], rel=1e-9)
    with pytest.raises(ConfigurationError, match="3 entries and the frame 1600 rows"):
        Identifier(reading="co2").fit(readings, [0, 1, 0])


def test_scikit_learn_can_clone_it_and_put_it_in_a_pipeline(frame):
    """With scikit-learn there, it is an estimator like any other."""
    sklearn = pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import ParameterGrid
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    assert sklearn.__version__
    made = Identifier(model="AR(1), normal", period=60)
    copy = clone(made)
    assert copy is not made
    assert copy.get_params() == made.get_params()
    line = Pipeline([("units", FunctionTransformer(lambda X: X / 10.0)), ("identify", made)])
    line.set_params(identify__holdout=0.2)
    line.fit(frame["co2"][:, None], frame["people"])
    assert made.holdout == 0.2
    assert isinstance(line[-1].family_, us.Family)
    assert len(list(ParameterGrid({"identify__order": [1, 2]}))) == 2
    # readings in tenths have scores that know it: the density of a tenth is ten times higher
    plain = Identifier(model="AR(1), normal", period=60, holdout=0.2).fit(frame["co2"], frame["people"])
    assert line.score(frame["co2"][:, None], frame["people"]) - plain.score(
        frame["co2"], frame["people"]
    ) == pytest.approx(np.log(10.0), abs=1e-3)


def test_before_fit_there_is_no_family():
    """To ask for what was not learned is refused."""
    with pytest.raises(ConfigurationError, match="not fitted"):
        Identifier(reading="co2").score({"co2": [1.0]})
    assert not hasattr(Identifier(), "family_")


@pytest.mark.long(seconds=1, reason="fits twice")
def test_the_same_seed_gives_the_same_family(frame):
    """Nothing is left to chance."""
    one, other = (fit(frame, model=["AR(1), normal", "AR(1), Student-t"], **NAMES) for _ in range(2))
    drop = [{k: v for k, v in row.items() if k != "seconds"} for row in one.about["model"]["table"]]
    assert drop == [{k: v for k, v in row.items() if k != "seconds"} for row in other.about["model"]["table"]]
    assert one.about["model"]["parameters"] == other.about["model"]["parameters"]


def test_progress_is_told(frame):
    """From nought to one, never back."""
    shares: list[float] = []
    fit(frame, model="AR(1), normal", progress=shares.append, **NAMES)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_without_holdout_there_is_no_gate(frame):
    """And all of the time is fitted."""
    made = Identifier(model="AR(1), normal", holdout=None, **NAMES).fit(frame)
    assert made.gate_ is None
    assert made.family_.about["gate"] is None
    for wrong in (1.0, -0.1, "half"):
        with pytest.raises(ConfigurationError, match="holdout = "):
            fit(frame, model="AR(1), normal", holdout=wrong, **NAMES)


# Names of models -------------------------------------------------------------------------------------------


def test_models_are_found_by_name(frame):
    """By the name in the table, by kind, in any case; an order that was not listed too."""
    history = intake(frame, **NAMES)
    assert list(makers(history, "grey-box")) == ["grey-box"]
    assert list(makers(history, "ar", order=2)) == [
        "AR(2), normal",
        "AR(2), normal by class",
        "AR(2), Student-t",
        "AR(2), Student-t by class",
    ]
    assert list(makers(history, "ar(1), student-t")) == ["AR(1), Student-t"]
    assert list(makers(history, "AR(5), normal")) == ["AR(5), normal"]
    assert len(makers(history, "auto")) > 6
    with pytest.raises(ConfigurationError, match="'neural'"):
        makers(history, "neural")
    for wrong in (0, [1, -1], "two", True):
        with pytest.raises(ConfigurationError, match="order = "):
            orders(wrong)


# Files and other data ----------------------------------------------------------------------------------------


def test_a_family_comes_back_from_its_file(fitted, tmp_path):
    """Values, prior, models to the bit, and all that is said about it."""
    mark = save_family(fitted.family_, tmp_path / "family.json")
    again = load_family(tmp_path / "family.json")
    assert mark.startswith("sha256:")
    assert (again.values, again.about) == (fitted.family_.values, fitted.family_.about)
    assert (again.prior == fitted.family_.prior).all()
    y = simulated(50, seed=1)["co2"]
    assert (us.whiten(y, again.model(1)) == us.whiten(y, fitted.family_.model(1))).all()


def test_a_file_of_another_kind_is_refused(fitted, tmp_path):
    """A design is no family, and a damaged file is neither."""
    design = us.design(fitted.family_, leakage=0.1, horizon=10, distortion="mae")
    design.save(tmp_path / "design.json")
    with pytest.raises(StoredFileError, match="an understudy family was expected"):
        load_family(tmp_path / "design.json")
    save_family(fitted.family_, tmp_path / "family.json")
    text = (tmp_path / "family.json").read_text().replace("60.0", "61.0")
    (tmp_path / "family.json").write_text(text)
    with pytest.raises(StoredFileError, match="damaged"):
        load_family(tmp_path / "family.json")


def test_other_data_are_read_as_the_first_were(fitted):
    """The same values even when one does not occur; a new label is refused by its row."""
    empty = simulated(100, seed=2) | {"people": np.zeros(100, dtype=int)}
    history = reread(empty, fitted.family_)
    assert history.values == (0, 1)
    with pytest.raises(ReadingError, match=r"'people', row 0 .* none of the known values"):
        reread(empty | {"people": np.full(100, 7)}, fitted.family_)
    with pytest.raises(ConfigurationError, match="does not say which columns"):
        reread(empty, us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(1.0, 1.0))}))


# Where the gate fails ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("second_passes", [True, False])
def test_free_noise_is_offered_where_the_gate_fails(monkeypatch, frame, second_passes):
    """It is tried, taken if it passes, and either way it is said."""
    from types import SimpleNamespace

    import understudy.identify.fit as way
    from understudy.identify.candidates import Candidate
    from understudy.identify.candidates.autoregressive import fit_autoregression

    def free(history):
        found = fit_autoregression(history)
        wide = {v: us.GaussMarkov(m.A, m.C, 1.5 * m.Q, m.R, m.b, m.d, m.mean0, m.cov0) for v, m in found.models.items()}
        return Candidate("AR(1), free noise by class", wide, {}, 9)

    def gate(models, held, random_state, blocks, like):
        passed = second_passes and len(seen) == 1
        assert (like is None) is (not seen)  # the control of the first serves both
        assert len(blocks) == 4 or seen
        seen.append(models)
        plain = {"passed": passed, "verdicts": [], "warning": None if passed else "tells the value"}
        outcome = "passed" if passed else "leak"
        return SimpleNamespace(passed=passed, outcome=outcome, warning=plain["warning"], to_plain=lambda: plain)

    seen: list[object] = []
    monkeypatch.setattr(way, "gate", gate)
    names = {"auto": {"AR(1), normal": fit_autoregression}, "free": {"AR(1), free noise by class": free}}
    monkeypatch.setattr(way, "makers", lambda history, model, *_: names[model])
    family = fit(frame, **NAMES)
    assert len(seen) == 2
    name = "AR(1), free noise by class" if second_passes else "AR(1), normal"
    assert family.about["model"]["name"] == name
    assert family.about["gate"]["passed"] is second_passes
    assert free_noise_offered("AR(1), normal", "AR(1), free noise by class", second_passes) in family.about["notes"]


def test_a_model_that_stops_at_gaps_says_so(frame):
    """Noise that is not normal has no exact law across a missing reading."""
    heavy = fit(frame, model="AR(1), Student-t", holdout=None, grid=None, **NAMES)
    assert heavy.about["model"]["across_gaps"] is False
    assert any("no exact law across a missing reading" in note for note in heavy.about["notes"])
    assert fit(frame, model="AR(1), normal", holdout=None, **NAMES).about["model"]["across_gaps"] is True


def crowd(homogeneous: bool, blocks: int = 60, seed: int = 1) -> dict[str, object]:
    """A room that is empty or has people in it, in blocks: one number of people always, or 1 to 40 of them."""
    rng = np.random.default_rng(seed)
    counts = np.zeros(2 * blocks, dtype=int)
    counts[1::2] = 12 if homogeneous else rng.integers(1, 41, blocks)
    people = np.repeat(counts, 40)
    y, x = np.empty(people.size), 400.0
    for k, n in enumerate(people):
        x = 0.9 * x + 0.1 * (400.0 + 8.0 * n) + rng.normal(0.0, 4.0)
        y[k] = x
    other = rng.normal(size=people.size)
    return {"co2": y, "people": people, "present": (people > 0).astype(int), "wind": other}


def mixed_notes(frame: dict[str, object], **given: object) -> list[str]:
    family = us.fit(frame, reading="co2", model="AR(1), normal", holdout=None, grid=None, **given)
    return [note for note in family.about["notes"] if "stands for several" in note]


def test_a_value_that_stands_for_several_is_noticed_and_the_column_named() -> None:
    """Presence that means 1 to 40 people wants counts: the column of counts, not that of the wind."""
    (note,) = mixed_notes(crowd(homogeneous=False), private="present")
    assert "'people'" in note
    assert "'wind'" not in note


def test_bins_that_are_too_wide_are_noticed_and_finer_ones_named() -> None:
    frame = crowd(homogeneous=False)
    del frame["present"]
    (note,) = mixed_notes(frame, private="people", bins="0,1+")
    advised = note.split("bins='")[1].split("'")[0]
    assert advised.startswith("0,1-")
    assert len(advised.split(",")) == 4
    assert us.fit(frame, reading="co2", private="people", bins=advised, model="AR(1), normal", holdout=None, grid=None)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_value_that_is_one_has_no_such_note(seed: int) -> None:
    """The twin (false alarm 1e-3 a fit)."""
    assert not mixed_notes(crowd(homogeneous=True, seed=seed), private="present")


@pytest.mark.parametrize("homogeneous", [False, True])
def test_a_wide_bin_with_too_few_blocks_to_test_is_said(homogeneous: bool) -> None:
    """Counts of 1 to 40 in one bin, seen in six blocks; the twin has one count, and no note."""
    frame = crowd(homogeneous, blocks=6)
    del frame["present"]
    given = {"reading": "co2", "private": "people", "bins": "0,1+", "model": "AR(1), normal", "holdout": None}
    notes = us.fit(frame, grid=None, **given).about["notes"]
    assert any("very different counts" in note for note in notes) is not homogeneous
