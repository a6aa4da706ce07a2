"""What an adversary knows, what it learns from, and what it gives back.

`Knowledge` is everything about the design, but no draw and no private value. `Cases` are labelled outputs: sequences
side by side, with the position of the private value beside each reading, the public clock where there is one, and the
number of the block of time that a reading belongs to. Readings are autocorrelated, so intervals resample these blocks.
A `Learner` learns from cases and knowledge; the `Attack` that it returns gives log-probabilities of each value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from understudy._types import Array, Index, Ints, Mask, Value
from understudy.errors import ConfigurationError
from understudy.models.family import Family
from understudy.models.model import Model
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.causal_guarantee import Beliefs
from understudy.randomizer.design import Design

# Knowledge -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Knowledge:
    """The models, the randomizer, the prior, and how the private value moves.

    `kernel` (m, n) is the randomizer; of a causal design it is the long-run average of Pr(pseudo given theta), and
    the kernels themselves follow from ``design.beliefs``. `transitions` (m, m) takes theta from one *reading* to the
    next; None where it is constant. `decision_every` is the number of readings for which one draw is made; None where
    one draw is for the whole sequence. `grid` holds steps and offsets by channel, two arrays (d,), where every channel
    has a grid. `raw` says that the outputs are not disguised at all (raw readings, or raw readings with noise): then
    the pseudo values are theta's own, and the kernel is the identity.
    """

    family: Family
    pseudo: tuple[Value, ...]
    kernel: Array
    prior: Array
    transitions: Array | None
    decision_every: int | None
    grid: tuple[Array, Array] | None
    design: Design | CausalDesign | None
    raw: bool = False
    noise: Array | None = None
    """Standard deviation of the noise added to each channel, (d,), where the outputs are raw readings with noise."""

    def __repr__(self) -> str:
        m, n = self.kernel.shape
        return f"Known({m} x {n}, {'constant' if self.transitions is None else 'moving'})"

    @property
    def sources(self) -> list[Model]:
        """The models of the private values, in their order."""
        return [self.family.model(value) for value in self.family.values]

    @property
    def targets(self) -> list[Model]:
        """The models of the pseudo values, in their order: what the output follows."""
        if self.raw or self.design is None or self.family is not self.design.family:
            return [self.family.model(value) for value in self.pseudo]  # what the adversary takes for the models
        return list(self.design.targets)

    @property
    def beliefs(self) -> Beliefs | None:
        """What a randomizer with memory goes by; None for one draw, or where nothing is disguised."""
        return self.design.beliefs if isinstance(self.design, CausalDesign) else None


# Labelled outputs ----------------------------------------------------------------------------------------------------


FLOOR = 1e-6
"""The least probability that an adversary gives to a value."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cases:
    """Labelled outputs: N sequences of T readings, padded with NaN. Its text tells sizes only.

    >>> Cases(np.zeros((3, 1, 2)), np.zeros((3, 2), dtype=int), np.array([[0, 1]] * 3), m=2, once=True)
    Cases(2 sequences of 3 readings, 1 channel, 2 values, constant, no clock)
    """

    outputs: Array
    """(T, d, N), NaN where missing or padded."""
    labels: Ints
    """(T, N), position of theta among the family's values; -1 is not judged (unknown, or padding)."""
    blocks: Ints
    """(T, N), number of the block of time, the unit of resampling. Copies of one block share it."""
    m: int
    """How many values theta has."""
    once: bool
    """Theta is constant in a sequence: one guess for each, of ``labels[0]``."""
    hours: Array | None = None
    """(T, N), hour of the day in [0, 24), NaN if unknown; None without a public clock."""
    days: Ints | None = None
    """(T, N), weekday from 0 (Monday) to 6, -1 if unknown."""
    pseudo: Ints | None = None
    """(T, N), position of the pseudo value, -1 if unknown: for the reference that sees it, never for an adversary."""

    def __post_init__(self) -> None:
        shape = (self.outputs.shape[0], self.outputs.shape[2]) if self.outputs.ndim == 3 else None
        if shape is None or not all(shape):
            raise ConfigurationError(f"outputs has shape {self.outputs.shape}; it must be (T, d, N), none of them 0")
        for name in ("labels", "blocks", "hours", "days", "pseudo"):
            part = getattr(self, name)
            if part is not None and part.shape != shape:
                raise ConfigurationError(f"{name} has shape {part.shape}; outputs {self.outputs.shape} need {shape}")
        if self.m < 1 or int(self.labels.min()) < -1 or int(self.labels.max()) >= self.m:
            raise ConfigurationError(f"labels must lie from -1 to {self.m - 1}, as there are {self.m} values")

    def __repr__(self) -> str:
        d = self.outputs.shape[1]
        return (
            f"Cases({self.N} sequence{'s' if self.N != 1 else ''} of {self.T} reading{'s' if self.T != 1 else ''}, "
            f"{d} channel{'s' if d != 1 else ''}, {self.m} values, {'constant' if self.once else 'moving'}, "
            f"{'no clock' if self.hours is None else 'clock'})"
        )

    @property
    def T(self) -> int:
        """Readings in a sequence, padding included."""
        return int(self.outputs.shape[0])

    @property
    def d(self) -> int:
        """Channels."""
        return int(self.outputs.shape[1])

    @property
    def N(self) -> int:
        """Sequences."""
        return int(self.outputs.shape[2])

    @property
    def truth(self) -> Ints:
        """What is guessed: (N,) where theta is constant in a sequence, else (T, N); -1 is not judged."""
        return self.labels[0] if self.once else self.labels

    @property
    def truth_blocks(self) -> Ints:
        """The block of time of each guess, in the shape of `truth`."""
        return self.blocks[0] if self.once else self.blocks

    @property
    def dates(self) -> Ints:
        """A number for the day of each guess, the same for copies of it: the block in which the day began."""
        if self.once or self.hours is None:
            return self.truth_blocks
        began = np.zeros(self.hours.shape, dtype=np.int64)
        began[1:] = np.where(np.diff(self.hours, axis=0) < -1e-9, np.arange(1, self.T)[:, None], 0)
        began = np.maximum.accumulate(began, axis=0)
        # a block may hold the start of several days
        return np.asarray(np.take_along_axis(self.blocks, began, axis=0) * self.T + began)

    @property
    def guesses(self) -> int:
        """How many guesses are judged."""
        return int((self.truth >= 0).sum())

    @property
    def counts(self) -> Ints:
        """How many guesses are judged for each value, (m,)."""
        truth = self.truth
        return np.bincount(truth[truth >= 0], minlength=self.m).astype(np.int64)

    def without_clock(self) -> Cases:
        """The same, with no public clock."""
        return replace(self, hours=None, days=None)

    def without_pseudo(self) -> Cases:
        """The same, with the pseudo values taken out: what an adversary may be given."""
        return replace(self, pseudo=None)

    def sequences(self, which: slice | list[int] | Index | Mask) -> Cases:
        """Some of the N sequences, by positions, a mask or a slice.

        >>> cases = Cases(np.zeros((3, 1, 2)), np.zeros((3, 2), dtype=int), np.zeros((3, 2), dtype=int), 2, False)
        >>> cases.sequences([1]).N
        1
        """
        parts = ("labels", "blocks", "hours", "days", "pseudo")
        chosen: dict[str, Any] = {
            name: None if (part := getattr(self, name)) is None else part[:, which] for name in parts
        }
        return replace(self, outputs=self.outputs[:, :, which], **chosen)


class Attack(Protocol):
    """An adversary that has learned."""

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities of each value: (m, T, N), or (m, N) where theta is constant in a sequence.

        Normalised over the values and finite, also where nothing is judged.
        """
        ...


class Learner(Protocol):
    """An adversary that has yet to learn. It uses the clock if, and only if, ``cases.hours`` is there."""

    name: str

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """Why it cannot be run here; nothing if it can."""
        ...

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """Learn from labelled outputs, and from what is known of the design."""
        ...


def normalise(logits: Array, floor: float = FLOOR) -> Array:
    """Log-probabilities that sum to one over the first axis, none below the floor's.

    Whatever is not a number, in a column that has one, counts as nothing; a column of nothing is uniform.

    >>> np.exp(normalise(np.array([[0.0, np.nan], [-np.inf, -np.inf]]))).round(7).tolist()
    [[0.999999, 0.5], [1e-06, 0.5]]
    """
    x = np.where(np.isnan(logits), -np.inf, logits)
    top = x.max(axis=0, keepdims=True)
    with np.errstate(invalid="ignore"):
        p = np.exp(x - np.where(np.isfinite(top), top, 0.0))
    p = np.where(np.isposinf(top), np.isposinf(x), p)
    total = p.sum(axis=0, keepdims=True)
    p = np.where(total > 0.0, p / np.where(total > 0.0, total, 1.0), 1.0 / len(p))
    p = np.maximum(p, floor)
    return np.asarray(np.log(p / p.sum(axis=0, keepdims=True)))
