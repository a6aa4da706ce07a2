"""Adaptive models, whole chunks at a time: one compiled loop predicts, scores and learns.

The loop gives tails. Readings that are continuous have one point each, readings on a grid the two ends of their cell,
between which an auxiliary uniform decides (`cell_scores`). One reading is a chunk of one, so both have the same bits.

`score_path` goes through readings whose value changes from row to row, as `Family.along` would.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy._types import Array, Index
from understudy.errors import MissingReadingError, NumericalError
from understudy.laws import atoms
from understudy.laws.uniforms import Uniforms
from understudy.models.adaptive import CELLS, Adaptive, AdaptivePrior, kernels, scores_of_tails, tails_of_scores, view
from understudy.models.model import Model
from understudy.models.quantised import OnGrid
from understudy.transform.core import Emit, RandomisedScore, Score, split_count
from understudy.transform.on_grid import cell_scores
from understudy.transform.readings import CausalMap, Reading, State, deliver, finite_or_missing, same_runs


def whitening(model: Adaptive | OnGrid, uniforms: Uniforms | None = None) -> AdaptiveScore | AdaptiveGridScore | None:
    """The map y -> z; None for a grid without uniforms."""
    if isinstance(model, Adaptive):
        return AdaptiveScore(model)
    inside = members_of([model])
    return None if inside is None or uniforms is None else AdaptiveGridScore(model, uniforms, inside[0])


def colouring(model: Adaptive | OnGrid) -> AdaptiveValue | AdaptiveGridValue | None:
    """The map z -> y."""
    if isinstance(model, Adaptive):
        return AdaptiveValue(model)
    inside = members_of([model])
    return None if inside is None else AdaptiveGridValue(model, inside[0])


def members_of(models: Sequence[Model]) -> list[Adaptive] | None:
    """The adaptive models inside, if all are adaptive, on a grid or not, and of one prior; otherwise None."""
    inside = [model.model if isinstance(model, OnGrid) else model for model in models]
    found = [model for model in inside if isinstance(model, Adaptive)]
    if len(found) < len(models):
        return None
    first = found[0].prior
    tables = [np.concatenate([np.asarray(t) for t in m.prior.tables] + [m.prior.initial]) for m in found]
    same = all(m.prior is first or np.array_equal(t, tables[0]) for m, t in zip(found, tables, strict=True))
    return found if same else None


def _forward(model: Adaptive, state: Any, y: Array, ends: Array, which: Index) -> tuple[Any, Array, Array]:
    """The state after readings (T,), signed tails at their points `ends` (T, Q), and the densities of the readings."""
    after = np.array(model.checked(state))
    n, K, m, B = model.prior.sizes
    tails, density = np.empty(ends.shape), np.empty(y.size)
    done = kernels.forward(
        view(y), view(ends.reshape(-1)), view(which), y.size, ends.shape[1], view(after), n, K, m, B,
        *model.prior.tables, view(tails.reshape(-1)), view(density), model.prior.workspace(),
    )  # fmt: skip
    if done < y.size:
        raise NumericalError("the reading is too far out for double precision", done)
    after.flags.writeable = False
    return after, tails, density


def _forward_rooms(model: Adaptive, known: Array, y: Array, ends: Array) -> Array:
    """Signed tails (R, Q) of a reading of each of R rooms, whose states (R, F) go on; NaN where one is too far out."""
    n, K, m, B = model.prior.sizes
    Q, which, tables, work = ends.shape[1], view(_own(model, 1)), model.prior.tables, model.prior.workspace()
    tails, density = np.full(ends.shape, np.nan), view(np.empty(1))
    found = view(np.empty(Q))
    readings, points, rows = view(y), view(ends.reshape(-1)), view(known.reshape(-1))
    F, forward = known.shape[1], kernels.forward
    for r in range(y.size):
        state, at = rows[r * F : (r + 1) * F], points[r * Q : (r + 1) * Q]
        if forward(
            readings[r : r + 1], at, which, 1, Q, state, n, K, m, B, *tables, found, density, work
        ):  # fmt: skip
            tails[r] = found
    return tails


def _check_there(model: Model, Y: Array) -> None:
    """Refuse a missing reading, as the model does."""
    missing = finite_or_missing(Y)
    if missing.any():
        try:
            model.skip(model.start())
        except MissingReadingError as error:
            raise MissingReadingError(f"row {int(missing.argmax())}: {error}") from None


def _own(model: Adaptive, T: int) -> Index:
    return np.full(T, model.value, dtype=np.intp)


def _reached(z: Array) -> Array:
    """Scores, NaN where they are not finite."""
    return np.where(np.isfinite(z), z, np.nan)


def _found(z: Array) -> Array:
    lost = ~np.isfinite(z)
    if lost.any():
        raise NumericalError("the reading is too far out for double precision", int(lost.argmax()))
    return z[:, None]


def _cell_tails(model: OnGrid, y: Array) -> tuple[Array, Array]:
    """The ends (T, 2) of the cells of readings, and where they are beyond all numbers: there the reading stands."""
    cell = model.grid.channels[0].cells(y, 0)
    ends = np.stack([cell.lower, cell.upper], axis=1)
    return np.where(np.isinf(ends), y[:, None], ends), ends


def _between(tails: Array, ends: Array, v: Array) -> Array:
    """Scores between those of the ends of cells, at the uniforms v; NaN where they cannot be told apart."""
    a, b = (np.where(np.isinf(ends[:, i]), ends[:, i], scores_of_tails(tails[:, i])) for i in (0, 1))
    z = cell_scores(a, b, np.ascontiguousarray(v))
    for k in np.flatnonzero(~np.isfinite(z)).tolist():
        z[k] = atoms.cell_scores(float(a[k]), float(b[k]), float(v[k]))
    return z


class AdaptiveScore(Score):
    """y -> z of continuous readings."""

    model: Adaptive

    def rooms(self, known: Array, y: Array, v: Array | None) -> Array:
        """Scores (R,) of one reading of each of R rooms, whose states (R, F) go on; NaN where one is too far out."""
        return _reached(scores_of_tails(_forward_rooms(self.model, known, y, y[:, None])[:, 0]))

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, 1)."""
        _check_there(self.model, Y)
        y = np.ascontiguousarray(Y[:, 0])
        after, tails, _ = _forward(self.model, state, y, y[:, None], _own(self.model, len(y)))
        return after, deliver(_found(scores_of_tails(tails[:, 0])), out)

    def step(self, state: State, y: Reading) -> tuple[State, float | Array]:
        """A chunk of one."""
        return CausalMap.step(self, state, y)


class AdaptiveGridScore(RandomisedScore):
    """y -> z of readings on a grid; the state counts the readings, which tells their uniforms."""

    model: OnGrid

    def __init__(self, model: OnGrid, uniforms: Uniforms, inside: Adaptive) -> None:
        super().__init__(model, uniforms)
        self._inside = inside

    def rooms(self, known: Array, y: Array, v: Array | None) -> Array:
        """The same for readings on the grid, with uniforms (R,)."""
        points, ends = _cell_tails(self.model, y)
        tails = _forward_rooms(self._inside, known, y, points)
        return _reached(_between(tails, ends, np.empty(0) if v is None else np.ascontiguousarray(v)))

    def sensor(self, j: int) -> AdaptiveGridScore:
        """With uniforms of its own."""
        return AdaptiveGridScore(self.model, self.uniforms.sensor(j), self._inside)

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, 1)."""
        k, inner = split_count(state)
        _check_there(self.model, Y)
        y = np.ascontiguousarray(Y[:, 0])
        points, ends = _cell_tails(self.model, y)
        after, tails, _ = _forward(self._inside, inner, y, points, _own(self._inside, len(y)))
        v = self.uniforms.block(k, len(y), 1)[:, 0]
        return (k + len(y), after), deliver(_found(_between(tails, ends, v)), out)

    def step(self, state: State, y: Reading) -> tuple[State, float | Array]:
        """A chunk of one."""
        return CausalMap.step(self, state, y)


class AdaptiveValue(Emit):
    """z -> y of continuous readings."""

    model: Adaptive

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk of scores (T, 1)."""
        _check_there(self.model, Y)
        after: Any = np.array(self.model.checked(state))
        q, upper = tails_of_scores(Y[:, 0])
        n, K, m, B = self.model.prior.sizes
        made = np.empty(len(Y))
        done = kernels.backward(
            view(q), view(upper), view(_own(self.model, len(Y))), len(Y), view(after), n, K, m, B,
            *self.model.prior.tables, view(made), self.model.prior.workspace(),
        )  # fmt: skip
        if done < len(Y):
            raise NumericalError("the score is too far out for double precision", done)
        after.flags.writeable = False
        return after, deliver(made[:, None], out)

    def step(self, state: State, y: Reading) -> tuple[State, float | Array]:
        """A chunk of one."""
        return CausalMap.step(self, state, y)


class AdaptiveGridValue(Emit):
    """z -> y of readings on a grid, each learned from as it is reported."""

    model: OnGrid

    def __init__(self, model: OnGrid, inside: Adaptive) -> None:
        super().__init__(model)
        self._inside = inside

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk of scores (T, 1)."""
        _check_there(self.model, Y)
        after: Any = np.array(self._inside.checked(state))
        prior, value, grid = self._inside.prior, self._inside.value, self.model.grid.channels[0]
        (n, K, m, B), (constants, experts, table) = prior.sizes, prior.tables
        x, law, work, numbers = view(np.zeros(n)), view(np.empty(3 * K)), prior.workspace(), view(after)
        q, upper = tails_of_scores(Y[:, 0])
        made = np.empty(len(Y))
        for k, (tail, side) in enumerate(zip(q.tolist(), upper.tolist(), strict=True)):
            kernels.prepare(numbers, value, n, K, constants, experts, table, x, law)
            at = kernels.find_cell(numbers, value, n, K, m, B, constants, x)
            y = kernels.quantile(kernels.unbend(tail, side > 0.0, numbers, at, B), side > 0.0, K, experts, law)
            if not abs(y) < np.inf:
                raise NumericalError("the score is too far out for double precision", k)
            made[k] = y = float(grid.round(y))
            kernels.learn(numbers, y, value, n, K, m, B, constants, experts, table, x, law, work)
        after.flags.writeable = False
        return after, deliver(made[:, None], out)

    def step(self, state: State, y: Reading) -> tuple[State, float | Array]:
        """A chunk of one."""
        return CausalMap.step(self, state, y)


def score_path(members: Sequence[Model], Y: Array, theta: Index, v: Array | None = None) -> tuple[Array, Array]:
    """Log-densities (T,) and scores (T, 1) of readings (T, 1) of which row k has the value `theta[k]`.

    Missing readings are gaps; the readings that fill the memory after them have NaN. Where readings lie in cells, the
    log-density is that of the cell: the logarithm of its probability over its width. `v` (T, 1) are the uniforms of
    members on a grid.
    """
    found = members_of(members)
    if found is None:
        raise TypeError("the members are no adaptive models of one prior")
    model, refill = found[0], found[0].refill
    gridded = [member for member in members if isinstance(member, OnGrid)]
    which = np.array([member.value for member in found], dtype=np.intp)[theta]
    density, z, missing, state = np.full(len(Y), np.nan), np.full(len(Y), np.nan), finite_or_missing(Y), model.start()
    half = 0.5 * model.prior.cell
    for start, stop in same_runs(missing):
        if missing[start]:
            state = model.restart(state)
            continue
        y = np.ascontiguousarray(Y[start:stop, 0])
        if gridded:
            points, ends = _cell_tails(gridded[0], y)
        else:
            points = ends = np.stack([y - half, y + half], axis=1) if half else y[:, None]
        state, tails, f = _forward(model, state, y, points, np.ascontiguousarray(which[start:stop]))
        with np.errstate(divide="ignore"):
            density[start:stop] = np.log(
                f if points.shape[1] == 1 else _probabilities(tails, ends) / np.ptp(points, axis=1)
            )
        if gridded and v is not None:
            z[start:stop] = _between(tails, ends, v[start:stop, 0])
        elif not gridded:
            z[start:stop] = scores_of_tails(tails[:, 0]) if not half else scores_of_tails(_middle(tails))
        density[start : start + refill] = z[start : start + refill] = np.nan
    return density, z[:, None]


def _probabilities(tails: Array, ends: Array) -> Array:
    """Probabilities of cells from the signed tails of their ends, without loss in either tail."""
    low, high = (np.where(np.isinf(ends[:, i]), 0.0, tails[:, i]) for i in (0, 1))
    lower = np.where(np.signbit(low), 1.0 + low, low)
    upper = np.where(np.signbit(high) | np.isinf(ends[:, 1]), 1.0 + np.minimum(high, 0.0), high)
    both_above = np.signbit(tails[:, 0]) & np.signbit(tails[:, 1]) & ~np.isinf(ends).any(axis=1)
    return np.asarray(np.where(both_above, high - low, upper - lower))


def _middle(tails: Array) -> Array:
    """Signed tail in the middle of a cell."""
    u = np.where(np.signbit(tails), 1.0 + tails, tails).mean(axis=1)
    return np.asarray(np.where(u <= 0.5, u, u - 1.0))


def count_scores(prior: AdaptivePrior, Y: Array, theta: Index) -> Array:
    """The counts (m, 18, B) of the second stage after readings (T, 1) with values `theta`, -1 where unknown."""
    model = Adaptive(prior, 0)
    y = np.where(theta[:, None] >= 0, Y, np.nan)
    missing, state = finite_or_missing(y), model.start()
    for start, stop in same_runs(missing):
        if missing[start]:
            state = model.restart(state)
            continue
        part = np.ascontiguousarray(y[start:stop, 0])
        state = _forward(model, state, part, part[:, None], np.ascontiguousarray(theta[start:stop], dtype=np.intp))[0]
    _, _, m, B = prior.sizes
    return np.array(state[state.size - m * CELLS * B :]).reshape(m, CELLS, B)
