"""A process that lives on a grid: each reading is the rounded draw of a model that goes on from what was reported.

    y_k = round(draw from the law of `model` given y_1, ..., y_{k-1})

This is an exact model of readings on a grid, whatever the model inside: heavy tails, free noise, hidden states. It is
not the same as a rounded process (`Quantised`), which goes on from what was there before rounding; for steps that are
small against the innovations the two hardly differ, and data tell which fits.

Across a missing reading the model inside goes on as if that one had not been rounded: exact for readings in a row, and
nearly so over gaps where steps are small. Autoregressions inside can be exact there too (`refill`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy._types import Array, Frozen, Plain
from understudy.errors import ModelError
from understudy.laws.cells import GRID_FIELDS, Rounded, Rounding, stored_grid
from understudy.models.model import Model, is_model
from understudy.serialize import Place, construct, fields, from_plain, to_plain


class OnGrid(Frozen):
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

    def __init__(self, model: Any, step: Any, offset: Any = 0.0, low: Any = None, high: Any = None) -> None:
        if not is_model(model) or getattr(model, "atoms", False) or hasattr(model, "emit"):
            raise ModelError(
                f"model is of type {type(model).__name__}; a process on a grid needs a model of continuous readings "
                "that goes on from what it has read"
            )
        self.model: Model = model
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
        kinds = ("GaussMarkov", "AutoRegressive", "IID", "HiddenMarkov")
        model = from_plain(given["model"], "model", place / "model", among=kinds)
        return construct(place, cls, model, **stored_grid(given, place))

    def __repr__(self) -> str:
        return f"OnGrid({self.model!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.given,)

    @property
    def given(self) -> dict[str, Any]:
        """The arguments that make the same model again."""
        return {"model": self.model, **self.grid.given}

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

    def start(self) -> Any:
        """That of the model inside."""
        return self.model.start()

    def predict(self, state: Any) -> Rounded:
        """The law of the model inside, rounded."""
        return Rounded(self.model.predict(state), self.grid)

    def update(self, state: Any, y: Any) -> Any:
        """On from what was reported."""
        return self.model.update(state, y)

    def skip(self, state: Any) -> Any:
        """As the model inside does."""
        return self.model.skip(state)


def coloured(z: Array, model: OnGrid) -> Array | None:
    """Scores (T, d, N) to readings, each step for all N sequences; None where the model inside has no such way.

    >>> import scipy.stats
    >>> import understudy as us
    >>> inside = us.AutoRegressive(0.5, noise=us.Scalar(scipy.stats.t(3.0)))
    >>> coloured(np.zeros((2, 1, 3)), OnGrid(inside, step=0.1)).shape
    (2, 1, 3)
    """
    from understudy.models.autoregressive import AutoRegressive
    from understudy.models.gauss_markov import GaussMarkov

    inside = model.model
    if type(inside) is GaussMarkov:
        return _predicted(z, inside, model.grid)
    if type(inside) is not AutoRegressive:
        return None
    past = np.repeat(inside.past[:, :, None], z.shape[2], axis=2)
    Y = np.empty(z.shape)
    for k in range(len(z)):
        # yhat_k = intercept + sum_i Phi_i y_{k-i}
        mean = inside.intercept[:, None] + np.einsum("pij,pjn->in", inside.coefficients, past)
        law = Rounded(inside.noise, model.grid, mean[0] if model.dim == 1 else mean)
        Y[k] = law.value(z[k, 0] if model.dim == 1 else z[k])
        past = np.concatenate([Y[k][None], past[:-1]])
    return Y


def _predicted(z: Array, inside: Any, grid: Rounding) -> Array:
    """The same for a Gauss-Markov model, whose covariances are those of all sequences."""
    from understudy.laws.gaussian import Gaussian

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


def scored(Y: Array, which: Any, members: Sequence[OnGrid], v: Array) -> Array | None:
    """Readings (T, d) to scores, all of one member at once; `which` tells the member of each reading, `v` are uniforms.

    A reading whose predecessors are not all there has none: NaN. None where the models inside are no autoregressions of
    one order.

    >>> import scipy.stats
    >>> import understudy as us
    >>> sensor = OnGrid(us.AutoRegressive(0.5, noise=us.Scalar(scipy.stats.t(3.0))), step=0.5)
    >>> scored(np.array([[0.0], [0.5], [0.0]]), np.zeros(3, dtype=int), [sensor], np.full((3, 1), 0.5)).shape
    (3, 1)
    """
    from understudy.models.autoregressive import AutoRegressive

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


def _remade(given: dict[str, Any]) -> OnGrid:
    return OnGrid(**given)
