"""What every candidate must be: plain to print, able to follow a path, stored and read back to the bit."""

import json
import warnings

import numpy as np
import pytest
from identify_cases import history_of, simulated, with_holes

import understudy as us
from understudy.identify.candidates.autoregressive import fit_autoregression
from understudy.identify.candidates.grey_box import fit_greybox
from understudy.identify.candidates.hidden_markov import fit_hidden
from understudy.identify.candidates.independent import fit_independent
from understudy.identify.selection import log_densities, scores
from understudy.serialize import from_plain, to_plain

A = np.array([[0.8, 0.1], [0.0, 0.7]])
SCALAR = {
    name: us.GaussMarkov(0.9, 1.0, 1.0 + v, 0.5, b=2.0 * v, mean0=0.0, cov0=4.0)
    for v, name in enumerate(["empty", "full"])
}
VECTOR = {v: us.GaussMarkov(A, np.eye(2), (1.0 + v) * np.eye(2), 0.5 * np.eye(2), [2.0 * v, 0.0]) for v in (0, 1)}

FITS = {
    "grey-box": lambda h: fit_greybox(h),
    "AR(2), normal by class": lambda h: fit_autoregression(h, order=2, by_class=True),
    "AR(1), Student-t": lambda h: fit_autoregression(h, student=True),
    "independent, normal": lambda h: fit_independent(h),
    "independent, Student-t": lambda h: fit_independent(h, law="student"),
    "independent, kernel": lambda h: fit_independent(h, law="kernel"),
    "hidden Markov, 2 states": lambda h: fit_hidden(h, states=2),
}


@pytest.mark.parametrize("models", [SCALAR, VECTOR], ids=["one channel", "two channels"])
@pytest.mark.parametrize("name", FITS)
def test_every_candidate_can_be_used_stored_and_shown(models, name):
    """Fitted with holes: a model for each value, a path, finite scores, JSON, and the same bits after it."""
    history = with_holes(simulated(models, [400, 300], seed=1), seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = FITS[name](history)
    assert fit.name.removeprefix("V") == name
    assert list(fit.models) == list(history.values)
    assert fit.count > 0
    assert json.loads(json.dumps(fit.parameters))["values"] == list(history.values)
    assert us.Family(fit.models).along([*history.values, *history.values]).dim == history.dim
    again = {value: from_plain(json.loads(json.dumps(to_plain(model)))) for value, model in fit.models.items()}
    z = np.concatenate(scores(fit.models, history))
    np.testing.assert_array_equal(z, np.concatenate(scores(again, history)))
    used = ~np.isnan(z).any(axis=1)
    assert np.isfinite(z[used]).all()
    # a fit whitens what it was fitted to, roughly
    assert 0.8 < z[used].std() < 1.25
    density = np.concatenate(log_densities(fit.models, history))
    np.testing.assert_array_equal(np.isnan(density), ~used)
    assert [to_plain(m) for m in again.values()] == [to_plain(m) for m in fit.models.values()]


@pytest.mark.parametrize("name", FITS)
def test_a_value_that_never_appears_has_a_model_too(name):
    """Held-out fits may meet a value for the first time: there is a model for it, and a note."""
    history = simulated(SCALAR, [500], seed=3)
    segment = history.segments[0]
    fit = FITS[name](history_of([(segment.Y, segment.theta)], ("empty", "full", "crowded")))
    assert list(fit.models) == ["empty", "full", "crowded"]
    assert any("'crowded' has 0 readings" in note for note in fit.notes)


def test_the_text_shows_no_parameter():
    """Counts only; the private values and what was fitted stay out of logs."""
    fit = fit_independent(simulated(SCALAR, [200], seed=4))
    assert repr(fit) == "Candidate('independent, normal', 2 values, 4 free parameters)"
