"""The transformer of scikit-learn: its checks, and that no call of a pipeline gives a row two outputs."""

import copy
import gc
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import understudy as us
from understudy.errors import ConfigurationError, ReadingError
from understudy.sklearn import Disguiser

ROOMS = {"low": us.GaussMarkov(0.9, 1.0, 0.1, 0.1), "high": us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=1.0)}
BINS = {"bins": {"names": ["low", "high"], "low": [None, 0.0], "high": [-1e-300, None]}}
DESIGN = us.design(us.Family(ROOMS, about=BINS), leakage=0.1, horizon=50, distortion="mae")
EXCEPTIONS = {
    "check_estimators_pickle": "a copy would have the key, and would play the same draw on other rows",
}
"""Checks of scikit-learn that a transformer with a secret must not pass, each with the reason."""


def rows(count=100, seed=1):
    X = np.column_stack([us.sample(ROOMS["high"], count, rng=seed), np.ones(count)])
    X[5, 0] = np.nan
    return X


def test_the_checks_of_scikit_learn():
    """All but the stated exceptions pass; what is random is skipped by scikit-learn itself."""
    found = check_estimator(Disguiser(DESIGN, private=0, reading=-1), expected_failed_checks=EXCEPTIONS, on_skip=None)
    failed = {each["check_name"] for each in found if each["status"] == "xfail"}
    assert failed == set(EXCEPTIONS)
    assert sum(each["status"] == "passed" for each in found) > 30


def test_rows_that_come_again_get_the_outputs_that_they_had():
    """However often a pipeline asks, and other rows go on under the same draw."""
    X, later = rows(), rows(seed=2)
    disguiser = Disguiser(DESIGN, private=1).fit(X)
    first = disguiser.transform(X)
    second = disguiser.transform(later)
    for _ in range(2):
        np.testing.assert_array_equal(disguiser.transform(X), first)
        np.testing.assert_array_equal(disguiser.transform(later), second)
    assert np.isnan(first).sum() == 1
    assert first.shape == (100, 1)


def test_a_transformer_that_draws_for_each_call_would_be_noticed():
    """The twin: two transformers give the same rows two outputs, as soon as their draws differ."""
    X = rows()
    assert len({Disguiser(DESIGN, private=1).fit(X).transform(X).tobytes() for _ in range(40)}) == 2  # missed: 2^-39


def test_a_dataframe_keeps_its_names():
    """Columns by name, and the output of pandas."""
    frame = pd.DataFrame(rows(), columns=["co2", "people"])
    made = Disguiser(DESIGN, private="people").set_output(transform="pandas").fit_transform(frame)
    assert made.columns.tolist() == ["co2"]
    assert (made.index == frame.index).all()


def test_a_step_of_a_pipeline():
    """What follows sees disguised readings alone."""
    X = np.nan_to_num(rows(200))
    X[::2, 1] = -1.0
    line = make_pipeline(Disguiser(DESIGN, private=1), LogisticRegression()).fit(X, X[:, 1] > 0)
    assert line[-1].n_features_in_ == 1
    assert line.predict(X).shape == (200,)


def test_a_ledger_outlives_the_transformer(tmp_path, monkeypatch):
    """The next one goes on where it stood, and the rows of before have their outputs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    X, path = rows(), tmp_path / "room.ledger"
    disguiser = Disguiser(DESIGN, private=1, ledger=path).fit(X)
    first = disguiser.transform(X)
    del disguiser
    gc.collect()
    np.testing.assert_array_equal(Disguiser(DESIGN, private=1, ledger=path).fit(X).transform(X), first)


def test_copies_are_refused_and_clones_are_not():
    """A pickle or a deep copy would have the key."""
    disguiser = Disguiser(DESIGN, private=1).fit(rows())
    for make in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            make(disguiser)
    assert not hasattr(clone(disguiser), "n_features_in_")


def test_wrong_columns_and_values_are_refused_without_a_value():
    """By the rule; never what stands there."""
    with pytest.raises(ConfigurationError, match="private = 'people'"):
        Disguiser(DESIGN, private="people").fit(rows())
    with pytest.raises(ConfigurationError, match="1 channel"):
        Disguiser(DESIGN, private=1).fit(np.column_stack([rows(), rows()[:, 0]]))
    plain = us.design(us.Family({0: ROOMS["low"], 1: ROOMS["high"]}), leakage=0.1, horizon=50, distortion="mae")
    X = rows()
    X[3, 1] = 77.0
    with pytest.raises(ReadingError, match="line 4") as caught:
        Disguiser(plain, private=1).fit(X).transform(X)
    assert "77" not in str(caught.value)
