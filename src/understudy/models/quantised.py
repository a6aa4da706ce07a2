"""A Gauss-Markov process seen through a sensor that rounds: integer ppm, multiples of 5, tenths of a degree.

The two sides of a transformation meet it differently.

*Out* (`emit`): the scores are coloured by the ordinary Kalman recursion, which feeds back its own *unrounded*
reading; only what is released is rounded. That is exact for any step: rounding is something the sensor does to a
process that does not notice it.

*In* (`predict`, `update`): only the cells of the past readings are known, and given these the next unrounded reading
is not normal. Two filters are offered. `moments` takes it for normal, with the right mean and variance; `point-mass`
(one state) keeps the whole density. What the first gives away is computed by `residual` and charged: in the paper's
room 5e-12 nats a reading at a quarter of an innovation standard deviation, 2e-7 at one and 1.5e-4 at four.

Never jitter a reading inside its cell and go on as if it had not been rounded: 1e-3 nats at a quarter of one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import ModelError, StateError
from understudy.laws.base import Frozen
from understudy.laws.cell_law import CellLaw
from understudy.laws.cell_mixture import CellMixture
from understudy.laws.rounding import Rounding
from understudy.models import cell_point_mass as point_mass
from understudy.models.cell_moments import CellState, frozen, matched, moved, reading_law
from understudy.models.gauss_markov import Filtered, GaussMarkov

if TYPE_CHECKING:
    from understudy.models.residual import Residual

METHODS = ("auto", "moments", "point-mass")
COARSE = 0.5
"""Steps above this many innovation standard deviations ask for the point-mass filter, and so do ends of the range."""


class Quantised(Frozen):
    """What a sensor reports of `model`: clip(offset + step round((y - offset) / step), low, high), by channel.

    `step`, `offset`, `low` and `high` are numbers, or one for each channel; a channel whose step is 0 or None is not
    rounded. `low` and `high` are grid points; what lies beyond is reported as them. A reading must be on the grid
    to within 1e-9 of a step.

    `method` is the filter for readings that come in: "moments", "point-mass" (one state, all channels rounded,
    independent noises) or "auto", which takes the second, where there is one, for steps above half an innovation
    standard deviation and for ranges with ends. `reason` says what was chosen and why.

    >>> import understudy as us
    >>> room = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0, mean0=100.0, cov0=1.0)
    >>> sensor = Quantised(room, step=5.0)
    >>> sensor
    Quantised(GaussMarkov(states=1, dim=1, constant), point-mass)
    >>> law = sensor.predict(sensor.start())
    >>> law.value(0.3)
    105.0
    >>> state, y = sensor.emit(sensor.start(), 0.3)
    >>> y, round(float(state.mean[0]), 6)
    (105.0, 105.286429)
    """

    __slots__ = ("_method", "dim", "grid", "linear", "method", "model", "reason")

    atoms = True

    def __init__(
        self,
        model: Any,
        step: Any,
        offset: Any = 0.0,
        low: Any = None,
        high: Any = None,
        *,
        method: str = "auto",
    ) -> None:
        linear = model if isinstance(model, GaussMarkov) else getattr(model, "gauss_markov", None)
        if not isinstance(linear, GaussMarkov):
            raise ModelError(
                f"model is of type {type(model).__name__}; a rounded sensor needs a Gauss-Markov model underneath "
                "(a chain that lives on the grid itself has a law of atoms for each reading)"
            )
        if method not in METHODS:
            raise ModelError(f"method = {method!r}; it must be one of {', '.join(METHODS)}")
        self.model = model
        self.linear: GaussMarkov = linear
        self.dim: int = linear.dim
        self.grid = Rounding(linear.dim, step, offset, low, high)
        self._method = method
        self.method, self.reason = _chosen(linear, self.grid, method)

    def __repr__(self) -> str:
        return f"Quantised({self.model!r}, {self.method})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.given,)

    @property
    def given(self) -> dict[str, Any]:
        """The arguments that make the same model again."""
        return {"model": self.model, **self.grid.given, "method": self._method}

    @property
    def steps(self) -> int | None:
        """For how many readings the model is given; None if for ever."""
        return self.linear.steps

    def start(self) -> CellState:
        """Law of X_0, for either side."""
        return CellState(0, self.linear.mean0, self.linear.cov0)

    def predict(self, state: CellState) -> CellLaw | CellMixture:
        """Law of the next reading given the cells of those before."""
        system = self.linear.at(state.k + 1)
        if self.method == "point-mass":
            return point_mass.predicted(state, system, self.grid)
        return CellLaw(*reading_law(*moved(state.mean, state.cov, system), system), self.grid)

    def update(self, state: CellState, y: Any) -> CellState:
        """What is known after a reading, of which the cell counts."""
        system = self.linear.at(state.k + 1)
        if self.method == "point-mass":
            return point_mass.updated(state, system, y, self.grid)
        return CellState(state.k + 1, *matched(*moved(state.mean, state.cov, system), system, y, self.grid))

    def skip(self, state: CellState) -> CellState:
        """The move alone: exact on the way out."""
        system = self.linear.at(state.k + 1)
        if state.points.size:
            return point_mass.skipped(state, system)
        mean, cov = moved(state.mean, state.cov, system)
        return CellState(state.k + 1, frozen(mean), frozen(cov))

    def emit(self, state: CellState, z: Any) -> tuple[CellState, Any]:
        """The next reading, rounded, and the state after what it was before."""
        if state.points.size:
            raise StateError("this state belongs to the filter of readings that come in; emit starts from start()")
        filtered = Filtered(*state[:3])
        y = self.linear.predict(filtered).value(z)
        after = self.linear.update(filtered, y)
        released = self.grid.channels[0].rounded(y) if self.dim == 1 else self.grid.rounded(np.asarray(y))
        return CellState(after.k, frozen(after.mean), frozen(after.cov)), released

    def residual(self, T: int, *, sequences: int = 16, rng: Any = None) -> Residual:
        """Divergence of the true law of T readings from the filter's, by simulation; see `Residual`."""
        from understudy.models.cell_residual import residual

        return residual(self, T, sequences=sequences, rng=rng)


def innovation_sds(linear: GaussMarkov, count: int = 200) -> np.ndarray[Any, Any]:
    """Smallest standard deviation of each channel of the unrounded innovations, over the first readings."""
    state: Filtered = linear.start()
    least = np.full(linear.dim, math.inf)
    for k in range(1, min(count, linear.steps or count) + 1):
        system = linear.at(k)
        x, P = moved(state.mean, state.cov, system)
        S = system.C @ P @ system.C.T + system.R
        now = np.sqrt(np.diag(S))
        if linear.constant and np.allclose(now, least, rtol=1e-12, atol=0.0):
            break
        least = np.minimum(least, now)
        state = linear.update(state, system.C @ x + system.d)
    return least


def _chosen(linear: GaussMarkov, grid: Rounding, method: str) -> tuple[str, str]:
    """The filter, and why."""
    if method == "moments":
        return method, "moments, as asked for"
    obstacle = point_mass.obstacle(linear.at(1), grid)
    if method == "point-mass":
        if obstacle is not None:
            raise ModelError(f"method = 'point-mass': {obstacle}; 'moments' serves every model")
        return method, "point-mass, as asked for"
    ratio = max(channel.step / sd for channel, sd in zip(grid.channels, innovation_sds(linear), strict=True))
    size = f"the step is {ratio:.3g} innovation standard deviations"
    # readings that stay at an end say little, and then no normal law is right, however small the step
    ends = any(math.isfinite(end) for channel in grid.channels for end in (channel.low, channel.high))
    if ratio <= COARSE and not ends:
        return "moments", f"moments: {size}, not above {COARSE:g}"
    why = f"{size}, above {COARSE:g}" if ratio > COARSE else "the range has ends"
    if obstacle is not None:
        return "moments", f"moments, although {why}: {obstacle}"
    return "point-mass", f"point-mass: {why}"


def _remade(given: dict[str, Any]) -> Quantised:
    return Quantised(**given)
