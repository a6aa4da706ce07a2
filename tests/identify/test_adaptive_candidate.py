"""The adaptive candidate: what it learns beforehand, what it refuses, and that it is chosen where rooms drift."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import understudy as us
from understudy.errors import ModelError
from understudy.identify.candidates.adaptive import fit_adaptive
from understudy.identify.candidates.autoregressive import fit_autoregression
from understudy.identify.history import History, Segment
from understudy.identify.selection import choose, log_densities, makers, scores
from understudy.laws.uniforms import uniforms_from
from understudy.models.model import as_target
from understudy.models.quantised import OnGrid


def drifting(days: int = 8, seed: int = 0) -> History:
    """Days of a room whose noise and ventilation are others each day."""
    rng, segments = np.random.default_rng(seed), []
    theta = np.repeat([0, 1, 0, 1, 0], 40)
    for day in range(days):
        rate, size = rng.uniform(0.02, 0.2), rng.uniform(0.3, 6.0)
        y, last = np.empty(theta.size), 420.0
        for k, label in enumerate(theta.tolist()):
            last += -rate * (last - 420.0 - 150.0 * label) + size * rng.standard_normal()
            y[k] = last
        segments.append(Segment(str(day), None, y[:, None], theta))
    return History(("co2",), "people", None, (), (0, 1), 300.0, segments, ())


def test_it_predicts_drifting_rooms_better_and_is_chosen():
    """Held-out days, against the best autoregression: at least a tenth of a nat a reading."""
    history = drifting()
    names = ["AR(2), normal by class", "AR(2), Student-t by class", "adaptive"]
    made = {key: maker for name in names for key, maker in makers(history, name).items()}
    choice = choose(history, made)
    assert choice.chosen == "adaptive"
    behind = {row.name: row.behind for row in choice.rows}
    assert min(behind[name] for name in names[:2]) > 0.1


def test_its_quick_way_is_that_of_the_models():
    """Log-densities and scores of a history, by `Family.along` too, on a grid as well."""
    history = drifting(days=4)
    models = fit_adaptive(history).models
    family = us.Family(dict(models))
    segment = history.segments[0]
    whole, part = family.along(segment.theta.tolist()), replace(history, segments=(segment,))
    refill = models[0].refill
    state, oracle = whole.start(), []
    for reading in segment.Y[:, 0].tolist():
        oracle.append(float(whole.predict(state).logpdf(reading)))
        state = whole.update(state, reading)
    np.testing.assert_allclose(log_densities(models, part)[0][refill:], oracle[refill:], atol=1e-9)
    np.testing.assert_allclose(
        scores(models, part)[0][refill:, 0], us.whiten(segment.Y[:, 0], whole)[refill:], atol=1e-9
    )
    rounded = {value: OnGrid(model, step=1.0) for value, model in models.items()}
    snapped = replace(part, segments=(replace(segment, Y=np.round(segment.Y)),))
    z = scores(rounded, snapped, rng=1)[0][refill:, 0]
    along = us.Family(rounded).along(segment.theta.tolist())
    other = us.whiten(np.round(segment.Y[:, 0]), along, rng=uniforms_from(1).sensor(0))
    np.testing.assert_allclose(z, other[refill:], atol=1e-9)


def test_its_target_is_fixed_and_calm():
    """An autoregression with the same memory, stable, whose noise has a variance."""
    models = fit_adaptive(drifting()).models
    for value, rest in ((0, 420.0), (1, 570.0)):
        target = as_target(models[value])
        assert isinstance(target, us.AutoRegressive)
        assert target.refill == models[value].refill
        long = us.sample(target, 4000, rng=1)
        assert abs(float(np.median(long)) - rest) < 60.0


def test_values_with_few_blocks_are_refused():
    """One block of a value is one occasion; two channels have no adaptive model."""
    history = drifting(days=2)
    segments = [replace(s, theta=np.zeros(len(s), dtype=np.intp)) for s in history.segments[1:]]
    with pytest.raises(ModelError, match="design_coin"):
        fit_adaptive(replace(history, segments=(history.segments[0], *segments)))
    wide = [replace(s, Y=np.column_stack([s.Y, s.Y + 1.0])) for s in history.segments]
    with pytest.raises(ModelError, match="channels"):
        fit_adaptive(replace(history, readings=("a", "b"), segments=wide))
    assert "adaptive" not in makers(replace(history, readings=("a", "b"), segments=wide), "auto")


def test_gaps_and_unknown_labels_do_not_count():
    """A history with holes gives a prior, and readings after a hole have no density until the memory is full."""
    history = drifting()
    first = history.segments[0]
    Y, theta = first.Y.copy(), first.theta.copy()
    Y[50:52], theta[100:103] = np.nan, -1
    holed = replace(history, segments=(replace(first, Y=Y, theta=theta), *history.segments[1:]))
    models = fit_adaptive(holed).models
    missing = np.isnan(log_densities(models, holed)[0])
    assert np.flatnonzero(missing).tolist() == [0, 1, 2, 50, 51, 52, 53, 54, 100, 101, 102, 103, 104, 105]
    assert fit_autoregression(holed).models
