"""A design: the randomizer, what it costs, what it gives away, and the proof of both."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from understudy.distortion.cost import Costs
from understudy.laws.base import Array
from understudy.models.family import Family
from understudy.randomizer.guarantee import Guarantee
from understudy.randomizer.sampler import Randomizer


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Design:
    """A randomizer with its certificate; `us.design` and `us.solve` make one.

    No kernel within the budget has a distortion below `lower_bound`, and this one has `distortion`: what is
    between them is `gap`. `status` is "optimal" when the gap is closed (1e-9 of what distortion there is
    above the least possible, or as far as double precision can prove), else "inexact". `leakage` is
    I(Theta; ~Theta) in nats, at most `budget`. `demand` tells what was asked for; where that was a distortion,
    no randomizer that meets it leaks less than `leakage_lower_bound`, and the status is of that gap too.

    >>> import understudy as us
    >>> solved = us.solve([[0, 1], [1, 0]], leakage=0.2)
    >>> solved
    Design(2 x 2, distortion=0.194827, leakage=0.2, optimal)
    >>> solved.lower_bound <= solved.distortion and solved.leakage <= 0.2
    True
    """

    randomizer: Randomizer
    prior: Array
    cost: Array
    distortion: float
    lower_bound: float
    gap: float
    leakage: float
    budget: float | None
    demand: tuple[str, Any]
    status: str
    iterations: int
    slope: float
    leakage_lower_bound: float = 0.0
    distortion_error: float = 0.0
    family: Family | None = None
    costs: Costs | None = None
    _guarantee: list[Guarantee] = field(default_factory=list, init=False)

    def __repr__(self) -> str:
        m, n = self.randomizer.kernel.shape
        return f"Design({m} x {n}, distortion={self._distortion()}, leakage={self.leakage:.6g}, {self.status})"

    def __str__(self) -> str:
        m, n = self.randomizer.kernel.shape
        name, value = self.demand
        relative = self.relative_distortion
        share = "" if relative is None else f" ({100.0 * relative:.4g}% of the mean reading)"
        known = "" if self.distortion_error == 0.0 else "; the costs themselves are known to the error given"
        lines = [
            f"Design for {m} private and {n} pseudo values, {name} = {value}",
            f"  distortion   {self._distortion()}{share}",
            f"  optimum      at least {self.lower_bound:.8g}, so within {self.gap:.2g} ({self.status}){known}",
            f"  leakage      {self.leakage:.8g} nats ({self.leakage / np.log(2.0):.6g} bits)",
            f"  guarantee    {self.guarantee.headline}",
        ]
        return "\n".join(lines)

    def _distortion(self) -> str:
        if self.distortion_error <= 1e-12 * self.distortion:
            return f"{self.distortion:.6g}"
        digits = max(0, 1 - int(np.floor(np.log10(self.distortion_error))))
        return f"{self.distortion:.{digits}f} +- {self.distortion_error:.{digits}f}"

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the private parameter."""
        return self.randomizer.values

    @property
    def pseudo(self) -> tuple[Any, ...]:
        """The pseudo values."""
        return self.randomizer.pseudo

    @property
    def relative_distortion(self) -> float | None:
        """Distortion over the mean reading, as in the paper's figure; None where there is no mean reading.

        The root of a squared error, so that both are in the units of a reading.
        """
        if self.costs is None or not abs(self.costs.mean_reading) > 0.0:
            return None
        size = math.sqrt(self.distortion) if self.costs.distortion == "mse" else self.distortion
        return size / abs(self.costs.mean_reading)

    @property
    def guarantee(self) -> Guarantee:
        """The card: every measure of what leaks, in words, with its conditions."""
        if not self._guarantee:
            self._guarantee.append(
                Guarantee.of(self.prior, self.randomizer.kernel, values=self.values, budget=self.budget)
            )
        return self._guarantee[0]

    def save(self, path: str | os.PathLike[str], models: bool = True) -> str:
        """Write the design to a JSON file, models included, and return its fingerprint.

        Parameters are stored, never code. Models that hold a function cannot be; ``models=False`` leaves all
        models out, and `us.load_design` then wants the family.
        """
        from understudy.randomizer.storage import save

        return save(self, path, models)
