"""What an adversary knows: everything about the design, but no draw and no private value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.laws.base import Array
from understudy.models.base import Model
from understudy.models.family import Family


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Known:
    """The models, the randomizer, the odds, and how the private value moves.

    `kernel` (m, n) is the randomizer; of a causal design it is the long-run average of Pr(pseudo given theta), and
    the kernels themselves follow from ``design.beliefs``. `transitions` (m, m) takes theta from one *reading* to the
    next; None where it is constant. `decision_every` is the number of readings for which one draw is made; None where
    one draw is for the whole sequence. `grid` holds steps and offsets by channel, two arrays (d,), where every channel
    has a grid. `raw` says that the outputs are not disguised at all (raw readings, or raw readings with noise): then
    the pseudo values are theta's own, and the kernel is the identity.
    """

    family: Family
    pseudo: tuple[Any, ...]
    kernel: Array
    prior: Array
    transitions: Array | None
    decision_every: int | None
    grid: tuple[Array, Array] | None
    design: Any
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
        return [self.family.model(value) for value in self.pseudo]
