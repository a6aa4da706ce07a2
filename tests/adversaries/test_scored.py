"""Scores of the attacked readings, in aggregate: those of the models along the labels, and nothing else."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import understudy as us
from understudy.adversaries.statistics import EDGE, LAGS, Scores, score_readings


def room(people):
    return us.GaussMarkov(A=0.9, C=1.0, Q=4.0, R=1.0, b=40.0 + 8.0 * people, mean0=400.0, cov0=20.0)


FAMILY = us.Family({0: room(0), 1: room(1)}, about={"readings": ["co2"]})
THETA = np.repeat(np.arange(30) % 2, 60)


def test_they_are_those_of_the_models_along_the_labels():
    """Mean, spread, shares and correlations as whitening along the path gives them, segment by segment."""
    Y = us.sample(FAMILY.along(THETA.tolist()), 1800, rng=1)
    marks = np.arange(1800) // 900
    found = score_readings(FAMILY, Y, THETA, marks)
    z = []
    for k in (0, 1):
        part = np.asarray(us.whiten(Y[marks == k], FAMILY.along(THETA[marks == k].tolist()))).ravel()
        part[:10] = np.nan
        z.append(part)
    for i, row in enumerate(found.rows):
        labels = [THETA[marks == k] for k in (0, 1)]
        mine = np.concatenate([x[t == i] for x, t in zip(z, labels, strict=True)])
        mine = mine[~np.isnan(mine)]
        assert (row.value, row.channel, row.count) == (str(i), "co2", mine.size)
        assert row.mean == pytest.approx(mine.mean(), abs=1e-12)
        assert row.spread == pytest.approx(math.sqrt(np.mean(mine**2)), abs=1e-12)
        assert row.beyond == pytest.approx(np.mean(np.abs(mine) > EDGE))
        assert sum(row.shares) + row.beyond == pytest.approx(1.0)
        for lag in (1, 7, LAGS):
            pairs = np.concatenate([(x[lag:] * x[:-lag])[t[lag:] == i] for x, t in zip(z, labels, strict=True)])
            assert row.memory[lag - 1] == pytest.approx(np.nanmean(pairs) / np.mean(mine**2), abs=1e-12)


def test_what_is_missing_is_left_out():
    """Readings and labels that are not there, a value that hardly occurs, and nothing at all."""
    Y = np.asarray(us.sample(FAMILY.along(THETA.tolist()), 1800, rng=2))
    Y[100:130] = np.nan
    theta = THETA.copy()
    theta[200:260] = -1
    found = score_readings(FAMILY, Y, theta)
    assert sum(row.count for row in found.rows) == 1800 - 10 - 30 - 60
    few = np.where(np.arange(1800) < 20, 1, 0)
    assert [row.value for row in score_readings(FAMILY, Y, few).rows] == ["0"]
    assert score_readings(FAMILY, np.full(1800, np.nan), THETA) is None


def test_they_can_be_stored():
    """As JSON, without a reading, and back."""
    Y = us.sample(FAMILY.along(THETA.tolist()), 1800, rng=3)
    found = score_readings(FAMILY, Y, THETA)
    text = json.dumps(found.plain(), allow_nan=False)
    assert Scores.from_plain(json.loads(text)) == found
    assert not any(f"{y:.6f}"[:8] in text for y in np.asarray(Y).ravel().tolist())


def test_readings_on_a_grid():
    """Rounded readings have scores of their own through auxiliary uniforms, the same with the same seed."""
    grid = us.Family({v: us.Quantised(room(v), 5.0) for v in (0, 1)})
    Y = us.sample(grid.along(THETA.tolist()), 1800, rng=4)
    one, other = (score_readings(grid, Y, THETA, rng=7) for _ in range(2))
    assert one == other
    for row in one.rows:
        assert abs(row.spread - 1.0) < 5.0 / math.sqrt(2.0 * row.count)  # false alarm below 1e-6
    wrong = score_readings(us.Family({v: us.Quantised(room(v + 1), 5.0) for v in (0, 1)}), Y, THETA, rng=7)
    assert max(abs(row.mean) for row in wrong.rows) > 5.0 / math.sqrt(800.0)
