"""Readings on a grid: integer ppm, multiples of 5, tenths of a degree. Two models, which data tell apart.

`Quantised` is a Gauss-Markov process seen through a sensor that rounds. The two sides of a transformation meet it
differently. *Out* (`emit`): the scores are coloured by the ordinary Kalman recursion, which feeds back its own
*unrounded* reading; only what is released is rounded. That is exact for any step: rounding is something the sensor
does to a process that does not notice it. *In* (`predict`, `update`): only the cells of the past readings are known,
and given these the next unrounded reading is not normal. Two filters are offered (`cell_filter`). `moments` takes it
for normal, with the right mean and variance; `point-mass` (one state) keeps the whole density. What the first gives
away is computed by `residual` and charged: in the paper's room 5e-12 nats a reading at a quarter of an innovation
standard deviation, 2e-7 at one and 1.5e-4 at four. Never jitter a reading inside its cell and go on as if it had not
been rounded: 1e-3 nats at a quarter of one.

`OnGrid` is a process that lives on a grid: each reading is the rounded draw of a model that goes on from what was
*reported*,

    y_k = round(draw from the law of `model` given y_1, ..., y_{k-1}).

This is an exact model of readings on a grid, whatever the model inside: heavy tails, free noise, hidden states. For
steps that are small against the innovations the two models hardly differ. Across a missing reading the model inside
goes on as if that one had not been rounded: exact for readings in a row, and nearly so over gaps where steps are
small. Autoregressions inside can be exact there too (`refill`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Generic

import numpy as np

from understudy._types import Array, Frozen, Index, Ints, Numbers, Plain, Seed
from understudy.errors import ModelError, StateError, StoredFileError
from understudy.laws.atoms import GRID_FIELDS, CellLaw, CellMixture, PerChannel, Rounded, Rounding, stored_grid
from understudy.laws.gaussian import Gaussian, cholesky
from understudy.laws.law import Law, dimension
from understudy.laws.multivariate import GaussianCopula, Independent
from understudy.models.autoregressive import AutoRegressive
from understudy.models.gauss_markov import Filtered, GaussMarkov
from understudy.models.model import Model, Residual, State, as_target, is_model, repeat, restart, skip_many
from understudy.models.quantised_residual import (
    CellState,
    freeze,
    innovation_sds,
    match_moments,
    move_state,
    point_mass_obstacle,
    predict_cells,
    reading_law,
    residual,
    skip_cells,
    update_cells,
)
from understudy.serialize import Place, construct, fields, from_plain, to_plain

# A rounded process --------------------------------------------------------------------------------------


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
        model: Model,
        step: PerChannel,
        offset: PerChannel = 0.0,
        low: PerChannel = None,
        high: PerChannel = None,
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
        self.method, self.reason = _choose(linear, self.grid, method)

    def to_dict(self, place: Place) -> Plain:
        """The model, its grid and the filter that was chosen: another machine might choose otherwise."""
        return {"model": to_plain(self.model, place=place), **self.grid.to_dict(), "method": self.method}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> Quantised:
        """The model again."""
        given = fields(place, plain, "model", *GRID_FIELDS, "method")
        model = from_plain(given["model"], "model", place / "model", among=("GaussMarkov", "AutoRegressive"))
        grid = stored_grid(given, place)
        if type(given["method"]) is not str or given["method"] not in METHODS:
            raise StoredFileError(f"{place}.method must be one of {', '.join(METHODS)}")
        return construct(place, cls, model, **grid, method=given["method"])

    def __repr__(self) -> str:
        return f"Quantised({self.model!r}, {self.method})"

    def __reduce__(self) -> tuple[Callable[[], Quantised], tuple[()]]:
        return partial(Quantised, **self.arguments), ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that make the same model again."""
        return {"model": self.model, **self.grid.arguments, "method": self._method}

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
            return predict_cells(state, system, self.grid)
        return CellLaw(*reading_law(*move_state(state.mean, state.cov, system), system), self.grid)

    def update(self, state: CellState, y: Numbers) -> CellState:
        """What is known after a reading, of which the cell counts."""
        system = self.linear.at(state.k + 1)
        if self.method == "point-mass":
            return update_cells(state, system, y, self.grid)
        return CellState(state.k + 1, *match_moments(*move_state(state.mean, state.cov, system), system, y, self.grid))

    def skip(self, state: CellState) -> CellState:
        """The move alone: exact on the way out."""
        system = self.linear.at(state.k + 1)
        if state.points.size:
            return skip_cells(state, system)
        mean, cov = move_state(state.mean, state.cov, system)
        return CellState(state.k + 1, freeze(mean), freeze(cov))

    def skip_many(self, state: CellState, count: int) -> CellState:
        """So many missing readings, to the bits of one after the other."""
        if not state.points.size:
            k, mean, cov = self.linear.skip_many(Filtered(*state[:3]), count)
            return CellState(k, freeze(mean), freeze(cov))
        if not self.linear.constant:
            for _ in range(count):
                state = self.skip(state)
            return state
        after = repeat(self.skip, state, count, lambda state: b"".join(part.tobytes() for part in state[1:5]))
        return after._replace(k=state.k + count)

    def emit(self, state: CellState, z: Numbers) -> tuple[CellState, Numbers]:
        """The next reading, rounded, and the state after what it was before."""
        if state.points.size:
            raise StateError("this state belongs to the filter of readings that come in; emit starts from start()")
        filtered = Filtered(*state[:3])
        y = self.linear.predict(filtered).value(z)
        after = self.linear.update(filtered, y)
        released = self.grid.channels[0].round(y) if self.dim == 1 else self.grid.round(np.asarray(y))
        return CellState(after.k, freeze(after.mean), freeze(after.cov)), released

    def residual(self, T: int, *, sequences: int = 16, rng: Seed = None) -> Residual:
        """Divergence of the true law of T readings from the filter's, by simulation; see `Residual`."""
        return residual(self.linear, self.grid, self.method, T, sequences=sequences, rng=rng)


def _choose(linear: GaussMarkov, grid: Rounding, method: str) -> tuple[str, str]:
    """The filter, and why."""
    if method == "moments":
        return method, "moments, as asked for"
    obstacle = point_mass_obstacle(linear.at(1), grid)
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


# A process that lives on the grid -------------------------------------------------------------------------


@lru_cache(maxsize=256)  # one object for one model, so that maps are made once
def _with_fixed_model(model: OnGrid) -> OnGrid:
    return OnGrid(**{**model.arguments, "model": as_target(model.model)})


class OnGrid(Frozen, Generic[State]):
    """The model, on a grid: `step`, `offset`, `low` and `high` are numbers, or one for each channel, as in `Quantised`.

    >>> import scipy.stats
    >>> import understudy as us
    >>> noise = us.Scalar(scipy.stats.t(3.0, 0.0, 5.0))
    >>> sensor = OnGrid(us.AutoRegressive(0.9, intercept=60.0, noise=noise, past=[600.0]), step=5.0)
    >>> sensor
    OnGrid(AutoRegressive(order=1, dim=1))
    >>> us.colour([0.0, 1.0, -0.5], sensor).tolist()
    [600.0, 605.0, 600.0]
    """

    __slots__ = ("dim", "grid", "model")

    atoms = True

    def __init__(
        self,
        model: Model[State],
        step: PerChannel,
        offset: PerChannel = 0.0,
        low: PerChannel = None,
        high: PerChannel = None,
    ) -> None:
        if not is_model(model) or getattr(model, "atoms", False) or hasattr(model, "emit"):
            raise ModelError(
                f"model is of type {type(model).__name__}; a process on a grid needs a model of continuous readings "
                "that goes on from what it has read"
            )
        self.model: Model[State] = model
        self.dim: int = model.dim
        self.grid = Rounding(model.dim, step, offset, low, high)
        if not self.grid.everywhere:
            raise ModelError(f"step = {step!r}; a process on a grid has a step in every channel")

    def to_dict(self, place: Place) -> Plain:
        """The model and its grid; see `understudy.serialize`."""
        return {"model": to_plain(self.model, place=place), **self.grid.to_dict()}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> OnGrid:
        """The model again."""
        given = fields(place, plain, "model", *GRID_FIELDS)
        kinds = ("GaussMarkov", "AutoRegressive", "IID", "HiddenMarkov", "Adaptive")
        model = from_plain(given["model"], "model", place / "model", among=kinds)
        return construct(place, cls, model, **stored_grid(given, place))

    def __repr__(self) -> str:
        return f"OnGrid({self.model!r})"

    def __reduce__(self) -> tuple[Callable[[], OnGrid], tuple[()]]:
        return partial(OnGrid, **self.arguments), ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that make the same model again."""
        return {"model": self.model, **self.grid.arguments}

    def as_target(self) -> OnGrid:
        """The same where the model behind it is fixed; otherwise with the fixed model that stands in for it."""
        return self if as_target(self.model) is self.model else _with_fixed_model(self)

    @property
    def steps(self) -> int | None:
        """For how many readings the model is given; None if for ever."""
        return getattr(self.model, "steps", None)

    @property
    def defers_gaps(self) -> bool:
        """Whether the model inside only counts what is missing."""
        return bool(getattr(self.model, "defers_gaps", False))

    @property
    def refill(self) -> int | None:
        """How many readings in a row an autoregression inside needs after a gap, whatever its noise is.

        A missing reading was rounded before it was gone on from, which the law across a gap does not know.
        """
        order: int | None = getattr(self.model, "order", None)
        return getattr(self.model, "refill", None) if order is None else order

    def start(self) -> State:
        """That of the model inside."""
        return self.model.start()

    def predict(self, state: State) -> Rounded:
        """The law of the model inside, rounded."""
        return Rounded(self.model.predict(state), self.grid)

    def update(self, state: State, y: Numbers) -> State:
        """On from what was reported."""
        return self.model.update(state, y)

    def skip(self, state: State) -> State:
        """As the model inside does."""
        return self.model.skip(state)

    def skip_many(self, state: State, count: int) -> State:
        """As the model inside does."""
        return skip_many(self.model, state, count)

    def restart(self, state: State) -> State:
        """As the model inside does."""
        return restart(self.model, state)


def colour_on_grid(z: Array, model: OnGrid) -> Array | None:
    """Scores (T, d, N) to readings, each step for all N sequences; None where the model inside has no such way.

    >>> import scipy.stats
    >>> import understudy as us
    >>> inside = us.AutoRegressive(0.5, noise=us.Scalar(scipy.stats.t(3.0)))
    >>> colour_on_grid(np.zeros((2, 1, 3)), OnGrid(inside, step=0.1)).shape
    (2, 1, 3)
    """
    inside = model.model
    if type(inside) is GaussMarkov:
        return _colour_gauss_markov(z, inside, model.grid)
    if type(inside) is not AutoRegressive:
        return None
    T, d, N = z.shape
    p, (grid, noise) = inside.order, (model.grid, inside.noise)
    # yhat_k = intercept + sum_i Phi_i y_{k-i}, the earliest first
    Phi = inside.coefficients[::-1].transpose(1, 0, 2).reshape(d, p * d)
    Y = np.concatenate([np.repeat(inside.past[::-1, :, None], N, axis=2), np.empty(z.shape)])
    apart = _channels(noise)
    if apart is None:
        for k in range(T):
            Y[p + k] = Rounded(noise, grid, inside.intercept[:, None] + Phi @ Y[k : p + k].reshape(-1, N)).value(z[k])
        return Y[p:]
    L, laws = apart
    alone, followed = ([not L[i, :i].any() for i in range(d)], [bool(L[i + 1 :, i].any()) for i in range(d)])
    # a draw that depends on no other channel does not depend on the past either: all of them are found at once
    E = [np.reshape(laws[i].value(z[:, i].ravel()), (T, N)) if alone[i] else None for i in range(d)]
    for k in range(T):
        mean = Phi @ Y[k : p + k].reshape(-1, N)
        w = z[k].copy()
        for i, (channel, law) in enumerate(zip(grid.channels, laws, strict=True)):
            at, drawn = mean[i] + inside.intercept[i], E[i]
            e = law.value(L[i, : i + 1] @ w[: i + 1]) if drawn is None else drawn[k]
            Y[p + k, i] = channel.round(e + at)
            if followed[i]:  # the next channels follow what was reported
                w[i] = (law.score(Y[p + k, i] - at) - L[i, :i] @ w[:i]) / L[i, i]
    return Y[p:]


def _channels(noise: Law) -> tuple[Array, Sequence[Law]] | None:
    """Noise as laws of single channels, whose scores are L times independent ones; None where it is not that."""
    if dimension(noise) == 1:
        return np.eye(1), [noise]
    if isinstance(noise, Independent):
        return np.eye(noise.dim), noise.laws
    if isinstance(noise, GaussianCopula):
        return cholesky(noise.correlation, "correlation"), noise.laws
    return None


def _colour_gauss_markov(z: Array, inside: GaussMarkov, grid: Rounding) -> Array:
    """The same for a Gauss-Markov model, whose covariances are those of all sequences."""
    Y, one = np.empty(z.shape), z.shape[1] == 1
    x, P = np.repeat(inside.mean0[:, None], z.shape[2], axis=1), inside.cov0
    for k in range(len(z)):
        A, b, Q, C, d, R = inside.at(k + 1)
        x, P = A @ x + b[:, None], A @ P @ A.T + Q
        S, mean = C @ P @ C.T + R, C @ x + d[:, None]
        law = Rounded(Gaussian(0.0, S[0, 0]) if one else Gaussian(np.zeros(len(S)), S), grid, mean[0] if one else mean)
        Y[k] = law.value(z[k, 0] if one else z[k])
        K = np.linalg.solve(S, C @ P).T
        x, P = x + K @ (Y[k] - mean), P - K @ S @ K.T
        P = 0.5 * (P + P.T)
    return Y


def score_on_grid(Y: Array, which: Index | Ints, members: Sequence[OnGrid], v: Array) -> Array | None:
    """Readings (T, d) to scores, all of one member at once; `which` tells the member of each reading, `v` are uniforms.

    A reading whose predecessors are not all there has none: NaN. None where the models inside are no autoregressions of
    one order.

    >>> import scipy.stats
    >>> import understudy as us
    >>> sensor = OnGrid(us.AutoRegressive(0.5, noise=us.Scalar(scipy.stats.t(3.0))), step=0.5)
    >>> score_on_grid(np.array([[0.0], [0.5], [0.0]]), np.zeros(3, dtype=int), [sensor], np.full((3, 1), 0.5)).shape
    (3, 1)
    """
    inside: list[Any] = [member.model for member in members]
    if any(type(m) is not AutoRegressive or m.order != inside[0].order for m in inside):
        return None
    order, d = inside[0].order, members[0].dim
    z = np.full(Y.shape, np.nan)
    there = np.asarray(~np.isnan(Y).any(axis=1))
    whole = there[order:].copy()
    for lag in range(1, order + 1):
        whole &= there[order - lag : len(Y) - lag]
    at = order + np.flatnonzero(whole)
    for k, (member, model) in enumerate(zip(members, inside, strict=True)):
        rows = at[np.asarray(which)[at] == k]
        if not rows.size:
            continue
        past = np.stack([Y[rows - lag] for lag in range(1, order + 1)])
        # yhat_k = intercept + sum_i Phi_i y_{k-i}
        mean = model.intercept[:, None] + np.einsum("pij,pnj->in", model.coefficients, past)
        law = Rounded(model.noise, member.grid, mean[0] if d == 1 else mean)
        found = law.score(Y[rows, 0], v[rows, 0]) if d == 1 else np.asarray(law.score(Y[rows].T, v[rows].T)).T
        z[rows] = np.reshape(found, (rows.size, d))
    return z
