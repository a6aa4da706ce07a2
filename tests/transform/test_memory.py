"""Nothing depends on what memory held before."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import random_system, room, same_bits, stepwise

import understudy as us
from understudy.transform import kalman_pair as gains
from understudy.transform import kalman_pair as pair


def results():
    """Everything that allocates room of its own: tables, gaps, missing channels, sensors, likelihoods."""
    rng = np.random.default_rng(171)
    source, target = (us.GaussMarkov(**random_system(rng, n, 3)) for n in (2, 4))
    Y = rng.standard_normal((60, 3, 4))
    Y[20:25, :, 1] = np.nan
    holes = Y[:, :, 0].copy()
    holes[rng.random(holes.shape) < 0.2] = np.nan
    path = us.Family(room, [0, 1]).along([0, 1] * 30)
    return [
        us.disguise(Y, source, target),
        us.disguise(holes, source, target, partial=True),
        us.loglik(holes, source, partial=True),
        us.loglik(Y, source),
        us.disguise(Y[:, :1], path, room(0)),
        stepwise(us.Transform(source, target), Y[:, :, 1].copy())[1],
        stepwise(us.Transform(room(1), room(0)), Y[:, 0, 1])[1],
    ]


@pytest.mark.parametrize("left", [np.nan, np.inf, -1e300, 1e9])
def test_what_memory_held_before_does_not_matter(monkeypatch, left):
    """With np.empty full of anything the results have the same bits, and no warning is given."""
    expected = results()
    real = np.empty

    def dirty(shape, dtype=float, **options):
        array = real(shape, dtype, **options)
        array.fill(left if array.dtype.kind == "f" else 77)
        return array

    for module in (gains, pair):
        assert module.np is np
    monkeypatch.setattr(np, "empty", dirty)
    ours = results()
    assert all(same_bits(a, b) for a, b in zip(ours, expected, strict=True))
