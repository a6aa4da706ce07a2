"""What a design costs where the private value moves: days simulated with the chain that was seen in the data.

Designs are found with the distortion of values that stay, over a stated number of readings. People come and go,
and then readings change by another amount, often a larger one. Here both paths are played: the private one by its
chain, the pseudo one by the design, and the same scores are coloured along each, which is what the filter does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array
from understudy.randomizer.causal.analysis import play
from understudy.randomizer.causal.beliefs import as_transitions
from understudy.randomizer.causal.making import CausalDesign
from understudy.report.page_facts import AnyDesign, about
from understudy.transform.scores import colour

_DAY, _LONGEST, _SEQUENCES, _SEED = 86_400.0, 1440, 8, 20230206


class Moving(NamedTuple):
    """The mean distortion of a reading along simulated paths, its standard error, and how long and many they were."""

    distortion: float
    error: float
    readings: int
    sequences: int


def moving(design: AnyDesign, sequences: int = _SEQUENCES) -> Moving | None:
    """The distortion along paths of a day, or of 1440 readings; None where the chain or the measure is not known.

    >>> import understudy as us
    >>> room = {v: us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=float(v)) for v in (0, 1)}
    >>> family = us.Family(room, about={"period": 600.0, "chain": {"transition": [[0.9, 0.1], [0.1, 0.9]]}})
    >>> found = moving(us.design(family, leakage=0.1, distortion="mae"))
    >>> found.readings, bool(0.0 < found.error < found.distortion)
    (144, True)
    """
    known = about(design)
    matrix = (known.get("chain") or {}).get("transition")
    measure = None if design.costs is None else design.costs.distortion
    if matrix is None or design.family is None or measure not in ("mae", "mse"):
        return None
    T = as_transitions(matrix, len(design.values))[0]
    period = known.get("period")
    count = min(_LONGEST, max(2, round(_DAY / float(period)))) if period else _LONGEST
    rng = np.random.default_rng(_SEED)
    each = np.empty(sequences)
    for s in range(sequences):
        theta, pseudo = _paths(design, T, count, rng)
        z = rng.standard_normal((count, design.family.dim))
        one, other = (np.asarray(colour(z, design.family.along(path))).reshape(count, -1) for path in (theta, pseudo))
        apart = one - other
        each[s] = float(np.abs(apart).mean() if measure == "mae" else (apart**2).mean())
    return Moving(float(each.mean()), float(each.std(ddof=1) / math.sqrt(sequences)), count, sequences)


def _paths(design: AnyDesign, T: Array, count: int, rng: np.random.Generator) -> tuple[list[object], list[object]]:
    """A private path, and the pseudo path that the design plays for it."""
    values, pseudo = design.values, design.pseudo
    if isinstance(design, CausalDesign):
        every = design.decision_every
        played = play(design.beliefs, -(-count // every), 1, rng)
        # within a decision the value is taken to stay, as the decision does
        rows, columns = (np.repeat(path[:, 0], every)[:count] for path in (played.theta, played.pseudo))
        return [values[i] for i in rows], [pseudo[j] for j in columns]
    now = int(rng.choice(len(values), p=design.prior))
    drawn = pseudo[design.randomizer.draw_index(now, rng)]
    path = []
    ends = np.cumsum(T, axis=1)
    for u in rng.random(count).tolist():
        path.append(values[now])
        now = min(int(np.searchsorted(ends[now], u, side="right")), len(values) - 1)
    return path, [drawn] * count
