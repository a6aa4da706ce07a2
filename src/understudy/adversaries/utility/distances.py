"""How far the output is from the readings: distortion by channel, and what is left for honest use."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.adversaries.audited import Figure
from understudy.adversaries.judging.intervals import Sums, of_blocks
from understudy.adversaries.playing.material import Material
from understudy.adversaries.playing.recording import Recording


def distances(material: Material, confidence: float) -> tuple[tuple[Figure, ...], tuple[float, ...], tuple[float, ...]]:
    """Mean absolute distance by channel with its interval, mean absolute reading, and distance of the noisy ones."""
    if "raw" not in material.judge:
        return (), (), ()
    raw, found = material.judge["raw"], []
    noisy = []
    for data in ("disguised", "noise"):
        if data not in material.judge:
            continue
        cases = material.judge[data]
        number = np.unique(raw.blocks, return_inverse=True)[1].reshape(raw.blocks.shape)
        B = int(number.max()) + 1
        for c in range(raw.d):
            top, bottom = np.zeros(B), np.zeros(B)
            for k in range(0, cases.N, raw.N):
                apart = np.abs(cases.outputs[:, c, k : k + raw.N] - raw.outputs[:, c])
                there = np.isfinite(apart)
                top += np.bincount(number[there], apart[there], B)
                bottom += np.bincount(number[there], minlength=B)
            sums = Sums(top[:, None], bottom[:, None])
            if data == "noise":
                noisy.append(sums.value)
            else:
                most = float(np.max(top / np.maximum(bottom, 1.0), initial=0.0))
                found.append(of_blocks(sums, confidence, (0.0, 10.0 * most + 1e-300)))
    means = tuple(float(np.nanmean(np.abs(raw.outputs[:, c]))) for c in range(raw.d))
    return tuple(found), means, tuple(noisy)


def utility_of(material: Material, recording: Recording | None, own: Any, alarm: Any, confidence: float) -> Any:
    """What is left for honest use, where there are raw readings beside the output."""
    if own is False or recording is None or "raw" not in material.judge:
        return None
    from understudy.adversaries.utility.measuring import measure

    raw, cases = material.judge["raw"], material.judge["disguised"]
    copies = cases.N // raw.N
    there = ~np.isnan(raw.outputs).all(axis=1) | (raw.labels >= 0)
    # all rows one below the other, sequence by sequence
    column, row = np.nonzero(there.T)
    Y = raw.outputs[row, :, column]
    X = np.stack([cases.outputs[row, :, column + k * raw.N] for k in range(copies)], axis=2)
    hours, days, blocks = (None if part is None else part[row, column] for part in (raw.hours, raw.days, raw.blocks))
    names = ((material.known["raw"].family.about or {}).get("readings")) or None
    if names is not None and len(names) != raw.d:
        names = None
    return measure(
        Y, X, period=material.period, hours=hours, days=days, segments=column, blocks=blocks, names=names, alarm=alarm,
        own=own or None, confidence=confidence,
    )  # fmt: skip
