"""What an audit works on: cases to learn from and to be judged on, for each kind of data, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import Cases
from understudy.adversaries.known import Known
from understudy.adversaries.playing.noised import noise_scales, noised
from understudy.laws.base import Array
from understudy.models.base import Model

Grid = tuple[Array, Array]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Material:
    """Cases by the kind of data: "disguised", and "raw" and "noise" where raw readings are there.

    Sequences of raw and disguised cases correspond: sequence n of the output is that of the raw one n mod their count.
    """

    learn: dict[str, Cases]
    judge: dict[str, Cases]
    known: dict[str, Known]
    independent: bool
    """Sequences are independent of each other, and each is one stretch."""
    how: str
    bound: float | None
    prior_error: float
    notes: tuple[str, ...] = ()
    period: float | None = None

    def __repr__(self) -> str:
        return f"Material({self.how}, {self.judge['disguised']!r})"


def with_noise(material: Material, rng: np.random.Generator) -> Material:
    """The same, with raw readings plus noise of the distortion that the output has on the judged cases."""
    learn, judge = material.learn, material.judge
    wanted = mean_distance(judge["raw"], judge["disguised"])
    known = material.known["raw"]
    scales = noise_scales(wanted, known.grid)
    made = []
    for cases in (learn, judge):
        # as many copies as there are of the output: an adversary can add noise to his own history as often as he likes
        copies = cases["raw"].sequences(np.tile(np.arange(cases["raw"].N), cases["disguised"].N // cases["raw"].N))
        made.append(replace(copies, outputs=noised(copies.outputs, scales, known.grid, rng)))
    return replace(
        material,
        learn={**learn, "noise": made[0]},
        judge={**judge, "noise": made[1]},
        known={**material.known, "noise": replace(known, noise=scales)},
    )


def mean_distance(raw: Cases, output: Cases) -> Array:
    """Mean absolute distance of output and reading, (d,), where both are there; 0 where they never are."""
    total, count = np.zeros(raw.d), np.zeros(raw.d)
    for n in range(0, output.N, raw.N):
        apart = np.abs(output.outputs[:, :, n : n + raw.N] - raw.outputs)
        total += np.nansum(apart, axis=(0, 2))
        count += np.isfinite(apart).sum(axis=(0, 2))
    return np.asarray(total / np.maximum(count, 1))


def transitions_of(labels: NDArray[np.int64], m: int) -> Array:
    """How theta moves from one reading to the next, in labels (T, N): counts, with one more in all for what is rare.

    >>> transitions_of(np.array([[0], [0], [0], [1], [1]]), 2).round(3).tolist()
    [[0.625, 0.375], [0.25, 0.75]]
    """
    before, after = labels[:-1].ravel(), labels[1:].ravel()
    known = (before >= 0) & (after >= 0)
    counts = np.bincount(before[known] * m + after[known], minlength=m * m).reshape(m, m).astype(float)
    total = counts.sum(axis=1, keepdims=True)
    # one pseudo-transition a value, spread as the values are on the whole; who was never seen stays
    spread = (counts.sum(axis=0) + 1.0) / (counts.sum() + m)
    return np.asarray((counts + spread) / (total + 1.0))


def odds_of(labels: NDArray[np.int64], m: int) -> Array:
    """The odds of the values in labels of any shape, none of them 0."""
    counts = np.bincount(labels[labels >= 0].ravel(), minlength=m) + 0.5
    return np.asarray(counts / counts.sum())


def raw_known(known: Known) -> Known:
    """What is known where nothing is disguised: theta plays itself."""
    m = len(known.family.values)
    return replace(known, pseudo=tuple(known.family.values), kernel=np.eye(m), decision_every=None, raw=True)


def grid_of(models: list[Model], Y: Array | None = None) -> Grid | None:
    """Steps and offsets of all channels, if each has a grid: the models', or that of readings (T, d) themselves."""
    channels: Any = getattr(getattr(models[0], "grid", None), "channels", None)
    if channels is not None and all(channel.step for channel in channels):
        return np.array([c.step for c in channels]), np.array([c.offset for c in channels])
    if Y is None:
        return None
    from understudy.identify.grid import detect_grid

    found = detect_grid(Y)
    grids = found if isinstance(found, tuple) else (found,)
    if any(grid.step is None for grid in grids):
        return None
    return np.array([g.step for g in grids], dtype=float), np.array([g.offset for g in grids], dtype=float)
