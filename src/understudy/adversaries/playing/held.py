"""Held noise: the other noise of equal distortion, an offset that is drawn once an epoch and kept.

Noise that is new at each reading is averaged away by whoever looks at many of them. An offset that stays as long as
one draw of the design is not, and is the fairer comparison. Its mean absolute value is that of the disguise too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.adversaries.playing.material import Material, mean_distance
from understudy.adversaries.playing.noised import noise_scales, noised


def holds(every: int | None, T: int) -> int:
    """For how many readings an offset is kept: an epoch, or the sequence if it has one draw.

    >>> holds(None, 50), holds(20, 50)
    (50, 20)
    """
    return T if every is None else min(every, T)


def with_held(material: Material, rng: np.random.Generator) -> Material:
    """The same, with raw readings plus held noise of the distortion that the output has on the judged cases."""
    learn, judge, known = material.learn, material.judge, material.known["raw"]
    scales = noise_scales(mean_distance(judge["raw"], judge["disguised"]), known.grid)
    every = material.known["disguised"].decision_every
    made = []
    for cases in (learn, judge):
        copies = cases["raw"].sequences(np.tile(np.arange(cases["raw"].N), cases["disguised"].N // cases["raw"].N))
        offsets = noised(copies.outputs, scales, known.grid, rng, holds(every, copies.T))
        made.append(replace(copies, outputs=offsets))
    return replace(
        material,
        learn={**learn, "held": made[0]},
        judge={**judge, "held": made[1]},
        known={**material.known, "held": replace(known, noise=scales)},
    )
