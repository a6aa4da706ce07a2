"""Theorem 4 of the paper: the Gauss-Markov transformation is two Kalman predictors back to back.

The source predictor turns a reading into a score on the true past; the target predictor turns the score into a
disguised reading on the disguised past. With xhat the filtered mean, P its covariance and L L' = S::

    Sigma = A P A' + Q          S = C Sigma C' + R          K = Sigma C' S^-1
    e     = y - (C (A xhat + b) + d)                        innovation of the source
    z     = L^-1 e                                          score, N(0, I)
    ~e    = ~L z                                            innovation of the target
    ~y    = ~C (~A ~xhat + ~b) + ~d + ~e                    disguised reading
    xhat  = A xhat + b + K e    and the same for ~xhat with ~e

Whitening and colouring are the same with *white noise* as the target or the source: a Gauss-Markov model whose scores
are its readings.

**Gains** depend on the model and on which readings are missing, never on the readings themselves. For a constant
system without gaps they form a sequence that settles: a `Gains` table ends with the settled row, which serves for ever
after. Should it not settle within the cap, the filter goes on from the end of the table with the covariance carried
along.

**State.** A plain tuple of numbers: an index into the gain tables, both filtered means (both predicted readings where
each side has one state and one channel), and, once a gap has thrown the gains off the tables, both filtered means and
covariances, until these have returned.

**Many sensors** without gaps share their gains, so the loop runs over time with all sensors inside. A sensor with a gap
has gains of its own and runs by itself; each sensor's output has the same bits either way.

**Many rooms** (`RoomPairs`), each between two values of its own, stand in columns: one compiled loop takes a reading of
one room after the other, in any order, along tables that all rooms share. Gaps, changes of a value and new epochs cost
a room what they cost a `Pair`, and give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from understudy._types import Array, Index, Ints, Numbers
from understudy.errors import ModelError, NumericalError, StateError
from understudy.models.gauss_markov import Filtered, GaussMarkov
from understudy.transform.backend import integers, kernels, kernels_many, table, view
from understudy.transform.readings import Lattice, Reading, State, Transformation, infinite

# Gain tables ------------------------------------------------------------------------------------------

# The covariance counts as settled when a step moves it by less than the rounding of its entries.
SETTLED = 2.3e-16
_FIRST_ROWS = 32
_MOST_ROWS = 65_536
_MOST_ENTRIES = 8_000_000


class Gains(NamedTuple):
    """A gain table of `rows` rows, flat; `frozen` if its last row serves for ever after."""

    states: int
    dim: int
    width: int
    table: Array
    rows: int
    frozen: bool
    system: Array

    def covariance(self, index: int) -> Array:
        """Filtered covariance before the step with this index; past the end, after the last row."""
        stop = min((index + 1) * self.width, self.table.size)
        return self.table[stop - self.states**2 : stop]

    @property
    def flat(self) -> Array:
        """The rows that a run may use."""
        return self.table[: self.rows * self.width]

    def settled(self) -> Array:
        """The covariance of the last row, and behind it the one predicted from it, for comparison."""
        n = self.states
        P = self.table[-n * n :].reshape(n, n)
        A, Q = self.system[: n * n].reshape(n, n), self.system[n * n + n : 2 * n * n + n].reshape(n, n)
        return np.concatenate((P.ravel(), (A @ P @ A.T + Q).ravel()))

    def log_scale(self, steps: int) -> float:
        """Sum over the first `steps` readings of log(1 / det L): the log-Jacobian of the scores."""
        stop = self.width - self.states**2  # in either kind of row, 1 / diag L stands before the covariance
        r = self.flat.reshape(self.rows, self.width)[:, stop - self.dim : stop]
        per_step = np.log(r).sum(axis=1)
        used = min(steps, self.rows)
        return float(per_step[:used].sum() + (steps - used) * per_step[-1])


def gains(model: GaussMarkov) -> Gains:
    """The table of a constant model, computed on first use and remembered with the model."""
    return _remembered(model, "gains")


def scalar_gains(model: GaussMarkov) -> Gains:
    """The same for a model of one state and one channel, in the rows of the scalar loops."""
    return _remembered(model, "scalar gains")


def _remembered(model: GaussMarkov, which: str) -> Gains:
    found: Gains | None = model.memo.get(which)
    if found is None:
        found = model.memo[which] = _tabulate(model, scalar=which == "scalar gains")
    return found


def _tabulate(model: GaussMarkov, scalar: bool) -> Gains:
    n, d = model.states, model.dim
    width = 9 if scalar else kernels.gain_width(n, d)
    system = model.row(1)
    P = model.cov0.ravel().tolist()
    table = np.empty(_FIRST_ROWS * width)
    rows = 0
    while True:
        rows, frozen, bad, P = _fill(table, rows, system, P, (n, d), scalar)
        if bad and rows == 0:
            raise bad_innovation(1)
        # bad later on: a covariance that outgrows float64, but the readings up to there still have a law
        if frozen or bad or rows >= min(_MOST_ROWS, _MOST_ENTRIES // width):
            break
        most = max(rows + 1, min(_MOST_ROWS, _MOST_ENTRIES // width))
        table = np.concatenate((table, np.empty(min(3 * rows, most - rows) * width)))
    table = table[: rows * width]
    if not frozen:
        # one more row, of which only the covariance is read: where the carried one starts
        table = np.concatenate((table, np.zeros(width - n * n), P))
    table.flags.writeable = False
    return Gains(n, d, width, table, rows, frozen, system)


def _fill(
    table: Array, rows: int, system: Array, P: list[float], size: tuple[int, int], scalar: bool
) -> tuple[int, bool, int, list[float]]:
    """Fill the table from row `rows` to its end; rows filled, whether settled, a bad pivot, the last covariance."""
    if scalar:
        rows, frozen, bad, p = kernels.fill_scalar(view(system), P[0], view(table), rows, table.size // 9, SETTLED)
        return rows, frozen, bad, [p]
    n, d = size
    cov, work = np.array(P), view(np.empty(kernels.workspace(n, d)))
    stop = table.size // kernels.gain_width(n, d)
    rows, frozen, bad = kernels.fill_table(view(system), False, n, d, view(cov), view(table), rows, stop, SETTLED, work)
    return rows, frozen, bad, cov.tolist()


def bad_innovation(k: int) -> ModelError:
    """The error for a reading that the model leaves no room to vary."""
    return ModelError(f"the innovation covariance of reading {k} is not positive definite, or not finite")


# Two predictors back to back --------------------------------------------------------------------------

_LEAST = 1e-3  # of |A|, for filters that carry the predicted reading: x is known from it to 1e-13 of its size
_BLOCK = 4096  # steps of a time-varying system that are laid out at once
_EMPTY = np.empty(0)
_FOR_EVER = 1 << 62
_LARGEST = float(np.finfo(float).max)
_ONE = integers([0])

_WHITE: dict[int, GaussMarkov] = {}


def white(dim: int) -> GaussMarkov:
    """Independent standard normals, as a Gauss-Markov model."""
    if dim not in _WHITE:
        _WHITE[dim] = GaussMarkov(0.0, np.zeros((dim, 1)), 0.0, np.eye(dim), mean0=0.0, cov0=0.0)
    return _WHITE[dim]


class Side:
    """One model as the kernels see it: a gain table, or a system that changes with time."""

    __slots__ = ("_line", "gains", "model", "states")

    def __init__(self, model: GaussMarkov, line: tuple[float, float] | None) -> None:
        self.model = model
        self.states = model.states
        self._line = line
        self.gains: Gains | None = None
        if model.constant:
            self.gains = gains(model) if line is None else scalar_gains(model)

    def predicted(self, x: float) -> float:
        """The predicted reading q = H x + g of a scalar system, which its loops carry instead of x."""
        H, g = self._line or (0.0, 0.0)
        return H * x + g

    def filtered(self, q: float) -> float:
        """The x of a predicted reading; where no x shows in the readings, any will do."""
        H, g = self._line or (0.0, 0.0)
        return (q - g) / H if H else 0.0

    def systems(self, k: int, stop: int) -> tuple[Array, Index]:
        """System rows for readings k+1..stop and which of them each reading uses."""
        if self.gains is not None:
            return self.gains.system, _ONE
        rows: dict[tuple[int, ...], int] = {}
        flat: list[Array] = []
        which = []
        keep = []  # an id stands for an array only while the array lives
        for step in range(k + 1, stop + 1):
            system = self.model.at(step)
            key = tuple(map(id, system))
            if key not in rows:
                rows[key] = len(flat)
                flat.append(system.row())
                keep.append(system)
            which.append(rows[key])
        # a single entry would be read as "every step", which for one step is the same
        return np.concatenate(flat), integers(which)

    def table(self, k: int, stop: int, P: Array) -> Array:
        """Gain rows for readings k+1..stop of a system that changes with time; moves P along."""
        n, d = self.states, self.model.dim
        system = np.concatenate([self.model.row(step) for step in range(k + 1, stop + 1)])
        filled = np.empty((stop - k) * kernels.gain_width(n, d))
        work = view(np.empty(kernels.workspace(n, d)))
        rows, _, bad = kernels.fill_table(view(system), True, n, d, view(P), view(filled), 0, stop - k, SETTLED, work)
        if bad:
            raise bad_innovation(k + rows + 1)
        return filled


class Pair(Transformation):
    """The causal map from readings of `source` to readings of `target`, both Gauss-Markov."""

    def __init__(self, source: GaussMarkov, target: GaussMarkov, partial: bool = False) -> None:
        self.dim = source.dim
        self.partial = partial
        self.n, self.m = n, m = source.states, target.states
        a, b = _line(source), _line(target)
        self.scalar = a is not None and b is not None
        self.source, self.target = Side(source, a if self.scalar else None), Side(target, b if self.scalar else None)
        self._on = 1 + n + m
        self._off = self._on + n * n + m * m
        tables = (self.source.gains, self.target.gains)
        # On the tables below this index; from it on the covariances are carried along.
        self.limit = min(0 if g is None else _FOR_EVER if g.frozen else g.rows for g in tables)
        self.frozen = max(g.rows - 1 for g in tables if g is not None) if self.limit == _FOR_EVER else -1
        self.tables = tuple(view(_EMPTY if g is None else g.flat) for g in tables)

    @cached_property
    def step(self) -> Callable[[State, Reading], tuple[State, Numbers]]:
        """One reading; for scalars on the tables a single compiled call."""
        plain = super().step
        if not self.scalar:
            return plain
        limit = self.frozen + 1 if self.frozen >= 0 else self.limit
        entries = [table(g.flat) for g in (self.source.gains, self.target.gains) if g is not None]
        quick: Callable[[State, Reading], tuple[State, Numbers]] = kernels.ScalarStep(
            *entries, limit, self.frozen, plain
        ).step
        return quick

    def start(self) -> State:
        """State before the first reading."""
        source, target = self.source.model, self.target.model
        if self.scalar:
            return 0, self.source.predicted(source.mean0.item()), self.target.predicted(target.mean0.item())
        state = (0, *source.mean0.tolist(), *target.mean0.tolist())
        if self.limit > 0:
            return state
        return (*state, *source.cov0.ravel().tolist(), *target.cov0.ravel().tolist())

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """Disguise a chunk (T, d); a missing reading is a row with NaN."""
        return self.advance(self.checked(state), Y, out)

    def advance(
        self, state: State, Y: Array, out: Array | None = None, lattice: Lattice | None = None
    ) -> tuple[State, Array]:
        """The same for a state that is known to be one of this filter's; outputs are rounded to `lattice`, if any."""
        if out is None:
            out = np.empty(Y.shape)
        k, shift = 0, 0.0 if lattice is None or not self.scalar else lattice.shift
        while k < len(Y):
            first, far = k, True
            if len(state) == self._on and state[0] < self.limit:
                state, k, far = self._on_table(state, Y.reshape(-1), out.reshape(-1), k, shift)
            else:
                state, k = self._off_table(state, Y.reshape(-1), out.reshape(-1), k, _EMPTY)
            if not all(map(math.isfinite, state)):
                raise left_the_range()
            if lattice is not None and far:
                lattice.rounded(out[first:k], out[first:k])
        return state, out

    def checked(self, state: State) -> State:
        """The state as a tuple, if it can be one of this filter's; it may have been through a file."""
        if not isinstance(state, (tuple, list)) or len(state) not in (self._on, self._off):
            raise StateError(f"a state of this filter is a tuple of {self._on} or {self._off} numbers")
        index, *rest = state
        top = self.frozen if self.frozen >= 0 and len(state) == self._on else _FOR_EVER
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index <= top:
            raise StateError("the first entry of a state is the number of a step; it is out of range or not whole")
        if not all(isinstance(value, (int, float)) and abs(value) <= _LARGEST for value in rest):
            raise StateError("the entries of a state are finite numbers")
        return tuple(state)

    def fresh(self, state: State, z: Array) -> tuple[State, Array]:
        """Steps in which the source skips readings and the target is given scores z (T, d): state, outputs (T, d)."""
        before, after = self._filtered(state)
        target, out = self.target.model, np.empty(z.shape)
        for k, score in enumerate(z.ravel().tolist() if self.dim == 1 else z):
            out[k] = y = target.predict(after).value(score)
            after = target.update(after, y)
        return _joined(self.source.model.skip_many(before, len(z)), after), out

    def leap(self, state: State, count: int) -> State | None:
        """The state after so many missing readings, in strides that double; None where the systems change with time.

        >>> import understudy as us
        >>> pair = Pair(us.GaussMarkov(0.9, 1.0, 1.0, 1.0), us.GaussMarkov(0.5, 1.0, 1.0, 1.0, b=1.0))
        >>> slow = pair.apply(pair.start(), np.full((5000, 1), np.nan))[0]
        >>> np.allclose(pair.leap(pair.start(), 5000)[1:], slow[1:])
        True
        """
        sides = (self.source.model, self.target.model)
        if not all(model.constant for model in sides):
            return None
        moved = []
        for model, (k, mean, cov) in zip(sides, self._filtered(state), strict=True):
            A, b, Q = model.at(1).A, model.at(1).b, model.at(1).Q
            left = count
            while left:
                if left % 2:
                    mean, cov = A @ mean + b, A @ cov @ A.T + Q
                left //= 2
                A, b, Q = A @ A, A @ b + b, A @ Q @ A.T + Q
            moved.append(Filtered(k + count, mean, cov))
        after = _joined(*moved)
        if not all(map(math.isfinite, after)):
            raise left_the_range()
        return after

    def _filtered(self, state: State) -> tuple[Filtered, Filtered]:
        """Both filters' laws of the state X."""
        index, *rest = self.carried(self.checked(state))
        n, m = self.n, self.m
        x, xt, P, Pt = np.split(np.array(rest), np.cumsum([n, m, n * n]))
        return Filtered(index, x, P.reshape(n, n)), Filtered(index, xt, Pt.reshape(m, m))

    def jacobians(self, Y: Array) -> tuple[Array, Array]:
        """Output, and for each row the Jacobian of its scores (1 where it is missing), without the tables."""
        state, out, scale, k = self.carried(self.start()), np.empty(Y.shape), np.empty(len(Y)), 0
        while k < len(Y):
            state, k = self._off_table(state, Y.reshape(-1), out.reshape(-1), k, scale)
        return out, scale

    def _on_table(self, state: State, y: Array, out: Array, k: int, shift: float) -> tuple[State, int, bool]:
        """Rows along the tables; the state, the next row, and whether outputs must still be rounded."""
        d, n, m = self.dim, self.n, self.m
        index = state[0]
        stop = min(y.size // d, k + self.limit - index)
        a, b = self.tables
        if self.scalar:
            done, *means, lost = kernels.run_scalar(view(y), view(out), k, stop, a, state[1], b, state[2], index, shift)
            far = not shift or lost != 0.0
            if shift and lost != 0.0 and np.isfinite(out[k:done]).all():
                lost = 0.0  # outputs beyond 2^51 steps
        else:
            x, xt = _roomy(state[1 : 1 + n], d), _roomy(state[1 + n :], d)
            work = view(np.empty(max(n, m) + d))
            done = kernels.run(view(y), view(out), k, stop, d, a, n, view(x), b, m, view(xt), index, work)
            means = [*x[:n].tolist(), *xt[:m].tolist()]
            lost, far = 0.0 if np.isfinite(out[k * d : done * d]).all() else math.nan, True
        if lost != 0.0:
            raise left_the_range()
        index += done - k
        state = (min(index, self.frozen) if self.frozen >= 0 else index, *means)
        # stopped early: the next reading is not finite, and the gains leave the tables
        return (state if done == stop else self.carried(state)), done, far

    def _off_table(self, state: State, y: Array, out: Array, k: int, scale: Array) -> tuple[State, int]:
        state = self.carried(state)
        d, n, m, on = self.dim, self.n, self.m, self._on
        index = state[0]
        x, xt = _roomy(state[1 : 1 + n], d), _roomy(state[1 + n : on], d)
        P, Pt = np.array(state[on : on + n * n]), np.array(state[on + n * n :])
        # a system that changes with time is laid out block by block
        stop = y.size // d if self.limit else min(y.size // d, k + _BLOCK)
        a, which = self.source.systems(index, index + stop - k)
        b, whicht = self.target.systems(index, index + stop - k)
        work = 3 * d + sum(
            kernels.gain_width(s, d) + kernels.system_width(s, d) + kernels.workspace(s, d) for s in (n, m)
        )
        ref = reft = _EMPTY
        if self.frozen >= 0 and not scale.size and self.source.gains and self.target.gains:
            ref, reft = self.source.gains.settled(), self.target.gains.settled()
        done, why = kernels.run_off_table(
            view(y[k * d : stop * d]), view(out[k * d : stop * d]), view(scale[k:stop]), 0, stop - k, d, self.partial,
            view(a), view(which), n, view(x), view(P), view(ref),
            view(b), view(whicht), m, view(xt), view(Pt), view(reft),
            view(np.empty(d, dtype=np.intp)), view(np.empty(work)),
        )  # fmt: skip
        if why == kernels.INFINITE:
            raise infinite(k + done)
        if why in (kernels.BAD_SOURCE, kernels.BAD_TARGET):
            raise bad_innovation(index + done + 1)
        means = (*x[:n].tolist(), *xt[:m].tolist())
        if np.isinf(out[k * d : (k + done) * d]).any():
            raise left_the_range()
        if why == kernels.BACK_ON_TABLE:
            if self.scalar:
                means = (self.source.predicted(means[0]), self.target.predicted(means[1]))
            return (self.frozen, *means), k + done
        return (index + done, *means, *P.tolist(), *Pt.tolist()), k + done

    def carried(self, state: State) -> State:
        """The same state with its covariances, taken from the tables, carried along: another pair can go on from it."""
        if len(state) == self._off:
            return state
        tables = (self.source.gains, self.target.gains)
        index, *means = state
        if self.scalar:
            means = [self.source.filtered(means[0]), self.target.filtered(means[1])]
        return (index, *means, *(p for g in tables if g is not None for p in g.covariance(index).tolist()))


def _joined(source: Filtered, target: Filtered) -> State:
    """The state of a pair, off the tables."""
    parts = (source.mean, target.mean, source.cov, target.cov)
    return (source.k, *(v for part in parts for v in np.ravel(part).tolist()))


def left_the_range() -> NumericalError:
    """The error for an output or a state that float64 cannot hold."""
    return NumericalError("the filter left the range of double precision; the model is unstable or ill-scaled")


def _line(model: GaussMarkov) -> tuple[float, float] | None:
    """H and g of the predicted reading q = H x + g, for models that the scalar loops can carry by it.

    One state, one channel, constant; g not so large beside the noise, and H not so small, that q would hide x: after a
    change of the parameter x is found from q again.
    """
    if not (model.constant and model.states == 1 and model.dim == 1):
        return None
    A, b, Q, C, d, R = model.row(1).tolist()
    g = C * b + d
    idle = Q == 0.0 and A == 0.0  # a state that never tells anything, as that of white noise, is lost without loss
    fits = idle or (_LEAST <= abs(A) <= 1.0 and C != 0.0)
    return (C * A, g) if fits and abs(g) <= 1e6 * math.sqrt(C * C * Q + R) else None


def _roomy(mean: tuple[float, ...], d: int) -> Array:
    """A mean with room behind it for the reading or the scores."""
    return np.array((*mean, *(0.0,) * d))


# Many sensors -----------------------------------------------------------------------------------------

_SENSOR_BLOCK = 1024  # steps of a time-varying system that are laid out at once, for many sensors


def apply_sensors(pair: Pair, states: tuple[State, ...], Y: Array) -> tuple[tuple[State, ...], Array]:
    """Disguise a chunk (T, d, N), one state a sensor."""
    states = tuple(pair.checked(state) for state in states)
    if len({(state[0], *state[1 + pair.n + pair.m :]) for state in states}) == 1:
        return _together(pair, states, Y)
    return _apart(pair, states, Y)


def start_sensors(pair: Pair, Y: Array) -> Array:
    """Disguise whole sequences (T, d, N) from the start."""
    return _together(pair, (pair.start(),), Y)[1]


def _apart(pair: Pair, states: tuple[State, ...], Y: Array) -> tuple[tuple[State, ...], Array]:
    out = np.empty(Y.shape)
    after = []
    for s, state in enumerate(states):
        state, out[:, :, s] = pair.apply(state, np.ascontiguousarray(Y[:, :, s]))
        after.append(state)
    return tuple(after), out


def _together(pair: Pair, states: tuple[State, ...], Y: Array) -> tuple[tuple[State, ...], Array]:
    """All sensors along common gains; `states` holds one a sensor, or a single one for all of them."""
    n, m = pair.n, pair.m
    T, d, N = Y.shape
    first = states[0]
    on = 1 + n + m
    if len(first) > on and pair.limit > 0:
        return _apart(pair, states if len(states) == N else states * N, Y)
    means = np.array([state[1:on] for state in states]).T
    # behind each mean there is room for the reading or the scores
    x, xt = np.zeros((n + d, N)), np.zeros((m + d, N))
    x[:n], xt[:m] = means[:n], means[n:]
    P, Pt = np.array(first[on : on + n * n]), np.array(first[on + n * n :])
    out = np.empty(Y.shape)
    index, k = first[0], 0
    while k < T:
        if index >= pair.limit > 0:  # beyond the end of a table that did not settle
            return _apart(pair, states if len(states) == N else states * N, Y)
        if pair.limit > 0:
            stop = min(T, k + pair.limit - index)
            a, b = pair.tables
            start = index
        else:
            stop = min(T, k + _SENSOR_BLOCK)
            a = view(pair.source.table(index, index + stop - k, P))
            b = view(pair.target.table(index, index + stop - k, Pt))
            start = 0
        y, o = view(Y[k:stop].reshape(-1)), view(out[k:stop].reshape(-1))
        if pair.scalar:
            kernels_many.run_scalar_many(y, o, stop - k, N, a, view(x.reshape(-1)), b, view(xt.reshape(-1)), start)
        else:
            work = view(np.empty(N * (d + 1 + max(n, m))))
            kernels_many.run_many(
                y, o, stop - k, N, d, a, n, view(x.reshape(-1)), b, m, view(xt.reshape(-1)), start, work
            )
        index += stop - k
        k = stop
    index = min(index, pair.frozen) if pair.frozen >= 0 else index
    tail = (*P.tolist(), *Pt.tolist())
    after = [(index, *row, *tail) for row in np.concatenate((x[:n], xt[:m])).T.tolist()] if len(states) == N else []
    # (An output that overflows although readings and predictors stay finite is caught where the readings are few;
    # over many sensors it comes out as an infinity.)
    # A reading that is not finite poisons its sensor's predictor to the end: those run by themselves.
    for s in np.flatnonzero(~(np.isfinite(x).all(axis=0) & np.isfinite(xt).all(axis=0))).tolist():
        state, out[:, :, s] = pair.apply(states[s if len(states) == N else 0], np.ascontiguousarray(Y[:, :, s]))
        if after:
            after[s] = state
    return tuple(after), out


# Many rooms, each between two values of its own --------------------------------------------------------


class RoomState(NamedTuple):
    """Where the filters of N rooms stand, in columns; all of them change in a run."""

    place: Ints
    """(N,) index of the gain tables, or -1 - index off them."""
    filters: Array
    """(F, N): both means, and off the tables both covariances."""
    source: Ints
    """(N,) the value that the readings follow."""
    draw: Ints
    """(N,) the value that the outputs follow."""
    readings: Ints
    """(N,) so far, empty slots included."""
    released: Ints
    """(N,) outputs so far."""
    watch: Ints
    """(N,) readings in a row that were coarse."""


class RoomReadings(NamedTuple):
    """R readings, those of a room in their order."""

    Y: Array
    """(R, d), NaN where one is missing."""
    room: Ints
    """(R,) which column of the state."""
    steps: Ints
    """(R,) slots since the last reading of the room: 1 where none stayed empty."""
    source: Ints
    """(R,) the private value, by position."""
    draw: Ints
    """(R,) the pseudo value, by position."""
    change: Ints
    """(R,) 1 where an epoch begins."""


class _SideTables(NamedTuple):
    """The tables of all values of one side, one behind the other."""

    table: Array
    first: Ints
    last: Ints
    system: Array
    line: Array
    settled: Array
    start: Array

    @classmethod
    def of(cls, sides: list[Side]) -> _SideTables:
        tables = [side.gains for side in sides if side.gains is not None]
        rows = np.array([gain.rows for gain in tables])
        line = []
        for side, gain in zip(sides, tables, strict=True):
            H, g = side._line or (0.0, 0.0)
            P, sigma = gain.settled()[[0, gain.states**2]].tolist()
            line.append((H, g, P, math.sqrt(sigma), side.predicted(side.model.mean0[0].item())))
        return cls(
            np.concatenate([gain.flat for gain in tables]),
            np.concatenate(([0], np.cumsum(rows)[:-1])).astype(np.int64),
            (rows - 1).astype(np.int64),
            np.concatenate([gain.system for gain in tables]),
            np.array(line).ravel(),
            np.concatenate([gain.settled() for gain in tables]),
            np.concatenate([side.model.mean0 for side in sides]),
        )


class RoomPairs:
    """Every pair of `sources` and `targets`, for rooms that go on side by side; see `RoomPairs.of`."""

    def __init__(self, pairs: list[list[Pair]], watched: tuple[int, ...]) -> None:
        one = pairs[0][0]
        self.pairs, self.dim, self.n, self.m, self.scalar = pairs, one.dim, one.n, one.m, one.scalar
        self.rows = one.n + one.m + one.n**2 + one.m**2
        self._source = _SideTables.of([row[0].source for row in pairs])
        self._target = _SideTables.of([pair.target for pair in pairs[0]])
        self._watched = np.isin(np.arange(self.dim), watched).astype(np.int64)

    @classmethod
    def of(
        cls, sources: Sequence[GaussMarkov | None], targets: Sequence[GaussMarkov | None], watched: tuple[int, ...] = ()
    ) -> RoomPairs | None:
        """For constant Gauss-Markov models of one size whose gains settle; None for others.

        `watched` are the channels that are declared as full doubles.
        """
        pairs = [[Pair(a, b) for b in targets if b is not None] for a in sources if a is not None]
        if len(pairs) < len(sources) or any(len(row) < len(targets) for row in pairs):
            return None
        kinds = {(pair.n, pair.m, pair.scalar, pair.frozen >= 0) for row in pairs for pair in row}
        return cls(pairs, watched) if len(kinds) == 1 and kinds.pop()[3] else None

    def run(self, readings: RoomReadings, state: RoomState) -> tuple[Array, Ints]:
        """Outputs (R, d), and for each reading the kernels' OK, or why nothing of it happened; `state` goes on."""
        out, why = np.empty(readings.Y.shape), np.empty(len(readings.room), dtype=np.intp)
        given = [view(np.ascontiguousarray(part).reshape(-1)) for part in readings[1:]]
        columns = [view(state.place), view(state.filters.reshape(-1)), *(view(part) for part in state[2:])]
        sides = [[view(part) for part in side] for side in (self._source, self._target)]
        y, flat = view(np.ascontiguousarray(readings.Y).reshape(-1)), view(out.reshape(-1))
        if self.scalar:
            kernels.run_rooms_scalar(
                y, flat, view(why), *given, len(state.place), *columns, bool(self._watched[0]),
                *sides[0][:5], *sides[1][:5],
            )  # fmt: skip
            return out, why
        n, m, d = self.n, self.m, self.dim
        work = n + m + 2 * d + n * n + m * m + sum(kernels.gain_width(s, d) + kernels.workspace(s, d) for s in (n, m))
        kernels.run_rooms(
            y, flat, view(why), *given, len(state.place), *columns, view(self._watched),
            d, n, *sides[0][:4], *sides[0][5:],
            m, *sides[1][:4], *sides[1][5:], view(np.empty(work)),
        )  # fmt: skip
        return out, why

    def state_of(self, state: RoomState, room: int) -> State:
        """The state of a room as its `Pair` has it."""
        index, numbers = int(state.place[room]), state.filters[:, room].tolist()
        return (index, *numbers[: self.n + self.m]) if index >= 0 else (-1 - index, *numbers)

    def set_state(self, state: RoomState, room: int, found: State) -> None:
        """Put the state of a `Pair` into the columns."""
        index, *numbers = found
        on = len(numbers) == self.n + self.m
        state.place[room] = index if on else -1 - index
        state.filters[:, room] = 0.0
        state.filters[: len(numbers), room] = numbers
