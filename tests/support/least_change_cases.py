"""A room with people from a third of each day to two thirds, for least-change outputs."""

from __future__ import annotations

import numpy as np

import understudy as us
from understudy.identify.history import History, Segment
from understudy.models.family import Family


def room(people: int) -> us.GaussMarkov:
    return us.GaussMarkov(0.97, 1.0, 9.0, 1.0, b=12.0 + 1.5 * people, mean0=400.0 + 50.0 * people, cov0=100.0)


FAMILY = Family(room, values=[0, 1])


def simulated(days: int, seed: int, rows: int = 288, times: bool = True) -> History:
    """Days of a room with people from a third of each day to two thirds."""
    rng = np.random.default_rng(seed)
    theta = np.tile(((np.arange(rows) // (rows // 3)) == 1).astype(int), days)
    Y = us.sample(FAMILY.along(theta.tolist()), len(theta), rng=rng)
    at = 1_700_000_000 * 10**9 + np.arange(len(theta)) * 300 * 10**9 if times else None
    segment = Segment("1", at, Y[:, None], theta)
    return History(("co2",), "people", "time" if times else None, (), (0, 1), 300.0, (segment,), ())
