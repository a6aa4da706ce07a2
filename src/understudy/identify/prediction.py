"""The rows of a history, and how well models predict them: log-densities and scores along the labelled path.

Fitters take the rows of all segments in one array (`Rows`). A label that is unknown governs a step all the same. The
last one known is taken for it (the first one, before any is known), and the reading counts as missing: the state goes
on, the likelihood has no term.

Reading k has the law of the model of theta_k given the readings before it: the model that `Family.along` makes of the
labels. That model goes through any path step by step; here the common kinds have quick ways to the same numbers
(a test holds the two together):

* Gauss-Markov models: the compiled loop, with one row of matrices for each value;
* autoregressive models with other noise, and independent readings: all readings of one value at once;
* hidden Markov models with one transition matrix: the compiled forward recursion.

A reading that is missing, incomplete or without a label is NaN in the result. An autoregressive model with noise that
is not Gaussian has no law for a reading whose predecessors are not all there, at the start of a segment or
after a gap: NaN too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy._types import Array, Index, Mask, Seed, Value
from understudy.errors import FamilyError, LawError, ModelError
from understudy.laws.atoms import cell_scores
from understudy.laws.mixture import blend_scores
from understudy.laws.multivariate import impossible
from understudy.laws.uniforms import uniforms_from
from understudy.models.autoregressive import AutoRegressive
from understudy.models.family import Family, same_state
from understudy.models.gauss_markov import GaussMarkov, gauss_markov
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.iid_markov import IID
from understudy.models.model import Model
from understudy.models.quantised import OnGrid, score_on_grid
from understudy.transform.backend import integers, kernels, kernels_hidden, view
from understudy.transform.core import broken_law, whiten
from understudy.transform.hidden_markov import bank, is_known
from understudy.transform.kalman_pair import bad_innovation, white
from understudy.transform.readings import finite_or_missing, infinite

if TYPE_CHECKING:
    from understudy.identify.history import History


_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_EMPTY = np.empty(0)

# What a quick way gives for one segment: log-densities (T,) and scores (T, d).
Result = tuple[Array, Array]
Way = Callable[[Array, Index], Result]


# The rows of a history as the fitters want them: all segments in one array, labels without holes -----


FEWEST = 30
"""Readings that a value must have for parameters of its own."""


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """All segments one after the other; rows that do not count in the likelihood are NaN."""

    Y: Array
    """(N, d); NaN in every channel where a reading is incomplete or its label unknown."""
    theta: Index
    """(N,) the label that governs the step, 0..m-1."""
    starts: Index
    """The first row of each segment."""
    used: Mask
    """(N,) rows that count."""

    @property
    def dim(self) -> int:
        """Number of channels."""
        return int(self.Y.shape[1])

    @property
    def pieces(self) -> list[slice]:
        """The segments."""
        edges = [*self.starts.tolist(), len(self.Y)]
        return [slice(a, b) for a, b in pairwise(edges)]

    @property
    def opening(self) -> Mask:
        """(N,) whether a segment starts at the row."""
        mask = np.zeros(len(self.Y), dtype=bool)
        mask[self.starts] = True
        return mask


def rows_of(history: History) -> Rows:
    """The rows of a history; a history without any labelled reading is refused."""
    parts = [segment for segment in history.segments if segment.used.any()]
    if not parts:
        raise ModelError("the history has no labelled reading; a fit needs some for each value")
    Y = np.concatenate([mask_readings(segment.Y, segment.theta) for segment in parts])
    theta = np.concatenate([fill_labels(segment.theta) for segment in parts])
    lengths = [len(segment.Y) for segment in parts]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.intp)
    used = ~np.isnan(Y[:, 0])
    least = max(8, 4 * Y.shape[1])
    if int(used.sum()) < least:
        raise ModelError(f"the history has {int(used.sum())} labelled readings; a fit needs at least {least}")
    if np.ptp(Y[used], axis=0).min() == 0.0:
        channel = history.readings[int(np.ptp(Y[used], axis=0).argmin())]
        raise ModelError(f"the channel {channel!r} never changes; such a channel has no law to fit and nothing to hide")
    return Rows(Y, theta, starts, used)


def mask_readings(Y: Array, theta: Index) -> Array:
    """Readings, NaN in every channel where one is missing or the label is unknown."""
    out = np.array(Y, dtype=float)
    out[np.isnan(out).any(axis=1) | (theta < 0)] = np.nan
    return out


def fill_labels(theta: Index) -> Index:
    """The labels with the unknown ones filled in: by the last known, at the start by the first known.

    >>> fill_labels(np.array([-1, 2, -1, 0])).tolist()
    [2, 2, 2, 0]
    """
    known = theta >= 0
    if not known.any():
        return np.zeros(len(theta), dtype=np.intp)
    last = np.maximum.accumulate(np.where(known, np.arange(len(theta)), -1))
    return np.asarray(theta[np.where(last < 0, int(known.argmax()), last)], dtype=np.intp)


def groups(counts: Sequence[int], values: Sequence[Value], least: int = FEWEST) -> tuple[Index, tuple[str, ...]]:
    """Which parameters each value has: its own, or where it has few readings those of the nearest with enough.

    Values stand in order, so the nearest is the most like it. Returns the group of each value and notes.

    >>> groups([100, 3, 50], ["0", "1-2", "3+"])[0].tolist()
    [0, 0, 1]
    """
    enough = [i for i, count in enumerate(counts) if count >= least]
    if not enough:
        return np.zeros(len(counts), dtype=np.intp), (f"no value has {least} readings: all values share one law.",)
    notes = []
    found = []
    for i, count in enumerate(counts):
        near = min(enough, key=lambda j: (abs(i - j), j))
        found.append(enough.index(near))
        if near != i:
            notes.append(f"the value {values[i]!r} has {count} readings, too few: it has the law of {values[near]!r}.")
    return np.array(found, dtype=np.intp), tuple(notes)


def lags(rows: Rows, order: int) -> tuple[Index, Array]:
    """Rows that count and whose `order` predecessors do too, and these (n, order * d), the latest first."""
    N, d = rows.Y.shape
    inside = np.arange(N) - np.repeat(rows.starts, np.diff([*rows.starts.tolist(), N]))
    good = rows.used & (inside >= order)
    for lag in range(1, order + 1):
        good[lag:] &= rows.used[:-lag]
    at = np.flatnonzero(good)
    return at, np.stack([rows.Y[at - lag] for lag in range(1, order + 1)], axis=1).reshape(len(at), order * d)


def start_law(rows: Rows, order: int) -> tuple[Array, Array]:
    """Mean and covariance of `order` readings in a row, the latest first: where a segment is before its first step.

    From the first readings of the segments where there are enough of them, else from all readings.
    """
    d = rows.dim
    ends, before = lags(rows, order)
    later = lags(rows, order - 1)[0] if order > 1 else np.flatnonzero(rows.used)
    windows = np.stack([rows.Y[later - lag] for lag in range(order)], axis=1).reshape(len(later), order * d)
    segment = np.searchsorted(rows.starts, later, side="right")
    _, first = np.unique(segment, return_index=True)
    if len(first) >= 5 + 2 * order * d:
        windows = windows[first]
    if len(windows) <= order * d:
        windows = before if len(ends) > order * d else np.tile(rows.Y[rows.used], (1, order))
    cov = np.atleast_2d(np.cov(windows, rowvar=False))
    spread = float(np.trace(cov)) / len(cov)
    if not spread > 0.0:
        spread = float(np.var(rows.Y[rows.used]))
    return windows.mean(axis=0), cov + 1e-6 * spread * np.eye(len(cov))


def resolution(rows: Rows) -> Array:
    """For each channel the smallest distance of two different readings: no law need be narrower than that."""
    found = []
    for column in rows.Y[rows.used].T:
        values = np.unique(column)
        gaps = np.diff(values)
        gaps = gaps[gaps > 1e-9 * max(1.0, float(np.abs(values).max()))]
        found.append(float(gaps.min()) if gaps.size else math.nan)
    return np.array(found)


# How well models predict a history -----------------------------------------------------------------


def log_densities(models: Mapping[Any, Model], history: History) -> list[Array]:
    """For each segment the log-density of each reading given those before it, in nats; NaN where there is none.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> models = {0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 1.0))}
    >>> segment = Segment("1", None, np.array([[0.0], [3.0], [np.nan]]), np.array([0, 1, 1]))
    >>> history = History(("y",), "theta", None, (), (0, 1), None, (segment,), ())
    >>> log_densities(models, history)[0].round(3).tolist()
    [-0.919, -0.919, nan]
    """
    members = _members(models, history)
    way = _quick(members) or _stepwise(members)
    return [way(mask_readings(s.Y, s.theta), fill_labels(s.theta))[0] for s in history.segments]


def scores(models: Mapping[Any, Model], history: History, rng: Seed = None) -> list[Array]:
    """For each segment the scores (T, d): independent standard normals if the models are right; NaN as above.

    `rng` (a key, a seed, a Generator) makes the auxiliary uniforms of models with atoms, such as rounded ones.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> models = {0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 4.0))}
    >>> segment = Segment("1", None, np.array([[1.0], [7.0]]), np.array([0, 1]))
    >>> scores(models, History(("y",), "theta", None, (), (0, 1), None, (segment,), ()))[0].ravel().tolist()
    [1.0, 2.0]
    """
    members = _members(models, history)
    segments = [(mask_readings(s.Y, s.theta), fill_labels(s.theta)) for s in history.segments]
    way = _quick(members)
    if way is not None:
        return [way(Y, theta)[1] for Y, theta in segments]
    uniforms = uniforms_from(rng)
    rounded = [member for member in members if type(member) is OnGrid]
    if len(rounded) == len(members):
        blocks = [uniforms.sensor(j).block(0, len(Y), history.dim) for j, (Y, _) in enumerate(segments)]
        linear = [gauss_markov(member.model) for member in rounded]
        constant = [model for model in linear if model is not None and model.constant]
        if history.dim == 1 and len(constant) == len(members):
            return [_in_cells(Y, theta, constant, rounded, v) for (Y, theta), v in zip(segments, blocks, strict=True)]
        found = [score_on_grid(Y, theta, rounded, v) for (Y, theta), v in zip(segments, blocks, strict=True)]
        known = [z for z in found if z is not None]
        if len(known) == len(found):
            return known
    return [
        whiten(Y, _along(members, theta), uniforms.sensor(j)) if len(Y) else np.empty((0, history.dim))
        for j, (Y, theta) in enumerate(segments)
    ]


def _in_cells(Y: Array, theta: Index, linear: list[GaussMarkov], members: list[OnGrid], v: Array) -> Array:
    """Scores of one channel on a grid with Gauss-Markov models: the filter first, then the cells of all readings."""
    density, z = kalman_filter(linear, Y, theta)
    # log density = -ln sd - z^2 / 2 - ln(2 pi) / 2, and z = (y - yhat) / sd
    sd = np.exp(-density - 0.5 * np.square(z[:, 0]) - _HALF_LOG_2PI)
    found, there = np.full(Y.shape, np.nan), ~np.isnan(z[:, 0])
    y, at = Y[there, 0], sd[there]
    cell = members[0].grid.channels[0].cells(y, 0)
    lower, upper = (z[there, 0] + (end - y) / at for end in (cell.lower, cell.upper))
    found[there, 0] = cell_scores(lower, upper, v[there, 0])
    return found


def _members(models: Mapping[Any, Model], history: History) -> list[Model]:
    for value in history.values:
        if value not in models:
            raise FamilyError(f"there is no model for the value {value!r} of the history; each value needs one")
    members = [models[value] for value in history.values]
    for value, member in zip(history.values, members, strict=True):
        if member.dim != history.dim:
            raise FamilyError(
                f"the model of {value!r} has {member.dim} channels and the history has {history.dim}; they must agree"
            )
    return members


def _quick(members: list[Model]) -> Way | None:
    """The quick way for these models, if there is one."""
    first = members[0]
    if any(type(m) is not type(first) or not same_state(m, first) for m in members):
        return None
    linear = [gauss_markov(m) for m in members]
    constant = [m for m in linear if m is not None and m.constant]
    if len(constant) == len(members):
        return lambda Y, theta: kalman_filter(constant, Y, theta)
    kinds: list[tuple[type, Callable[[list[Any]], Way | None]]] = [
        (IID, _independent),
        (AutoRegressive, _autoregressive),
        (HiddenMarkov, _hidden_markov),
    ]
    for kind, way in kinds:
        if type(first) is kind and not any(getattr(m, "atoms", False) for m in members):
            return way(members)
    return None


def kalman_filter(members: list[GaussMarkov], Y: Array, theta: Index) -> Result:
    """Log-densities and scores of one segment by the compiled Kalman recursion; rows with NaN are missing.

    >>> members = [GaussMarkov(0.5, 1.0, 1.0, 0.0, mean0=0.0, cov0=0.0)]
    >>> kalman_filter(members, np.array([[1.0], [0.5]]), np.array([0, 0]))[1].ravel().tolist()
    [1.0, 0.0]
    """
    T, d = Y.shape
    if T == 0:
        return np.empty(0), np.empty((0, d))
    n, start, noise = members[0].states, members[theta[0]], white(d)
    Y = np.ascontiguousarray(Y)
    z, scale = np.empty((T, d)), np.empty(T)
    x, xt = np.concatenate([start.mean0, np.zeros(d)]), np.zeros(1 + d)
    P, Pt = start.cov0.ravel().copy(), np.zeros(1)
    widths = (kernels.gain_width(s, d) + kernels.system_width(s, d) + kernels.workspace(s, d) for s in (n, 1))
    done, why = kernels.run_off_table(
        view(Y.reshape(-1)), view(z.reshape(-1)), view(scale), 0, T, d, False,
        view(np.concatenate([m.row(1) for m in members])), view(integers(theta)), n, view(x), view(P), view(_EMPTY),
        view(noise.row(1)), view(integers([0])), 1, view(xt), view(Pt), view(_EMPTY),
        view(np.empty(d, dtype=np.intp)), view(np.empty(3 * d + sum(widths))),
    )  # fmt: skip
    if why == kernels.INFINITE:
        raise infinite(done)
    if why in (kernels.BAD_SOURCE, kernels.BAD_TARGET):
        raise bad_innovation(done + 1)
    with np.errstate(divide="ignore"):
        return np.log(scale) - 0.5 * np.square(z).sum(axis=1) - d * _HALF_LOG_2PI, z


def _independent(members: list[IID]) -> Way:
    def way(Y: Array, theta: Index) -> Result:
        return _by_value([m.law for m in members], Y, ~finite_or_missing(Y), theta)

    return way


def _autoregressive(members: list[AutoRegressive]) -> Way:
    p = members[0].order

    def way(Y: Array, theta: Index) -> Result:
        # e_k = y_k - intercept - sum_i Phi_i y_{k-i}, with the parameters of theta_k; NaN spreads to the p after a gap
        finite_or_missing(Y)
        E = np.full(Y.shape, np.nan)
        if len(Y) > p:
            Phi = np.stack([m.coefficients for m in members])[theta[p:]]
            E[p:] = Y[p:] - np.stack([m.intercept for m in members])[theta[p:]]
            for lag in range(1, p + 1):
                E[p:] -= np.einsum("kij,kj->ki", Phi[:, lag - 1], Y[p - lag : len(Y) - lag])
        return _by_value([m.noise for m in members], E, ~np.isnan(E).any(axis=1), theta)

    return way


def _by_value(laws: list[Any], E: Array, there: Mask, theta: Index) -> Result:
    """Each row under the law of its value."""
    T, d = E.shape
    density, z = np.full(T, np.nan), np.full((T, d), np.nan)
    for i, law in enumerate(laws):
        at = np.flatnonzero(there & (theta == i))
        if at.size:
            rows = E[at, 0] if d == 1 else E[at].T
            density[at] = law.logpdf(rows)
            z[at] = np.reshape(law.score(rows), (d, -1)).T
    return density, z


def _hidden_markov(members: list[HiddenMarkov]) -> Way | None:
    first = members[0]
    if any(not np.array_equal(m.transition, first.transition) for m in members):
        return None
    if not all(is_known(law, first.dim) for m in members for law in m.emissions):
        return None
    banks = [bank(m.emissions) for m in members]
    d, S = first.dim, first.states

    def way(Y: Array, theta: Index) -> Result:
        T = len(Y)
        density, z = np.full(T, np.nan), np.full((T, d), np.nan)
        if T == 0:
            return density, z
        there = ~finite_or_missing(Y)
        Z, G, W = np.full((3, T, d, S), np.nan)
        for i, laws in enumerate(banks):
            at = np.flatnonzero(there & (theta == i))
            if at.size:
                Z[at], G[at] = laws.under(Y[at])
        pi = members[theta[0]].initial.copy()
        arrays = (view(G.reshape(-1)), T, d, S, view(first.transition.reshape(-1)), view(pi), view(W.reshape(-1)))
        done = kernels_hidden.forward(*arrays, view(np.empty(2 * S)))
        if done < T:
            raise impossible(done)
        with np.errstate(divide="ignore"):
            log_w = np.log(W)
        density[there] = np.logaddexp.reduce(log_w[there, 0] + G[there].sum(axis=1), axis=1)
        for i in range(d):
            z[there, i] = blend_scores(Z[there, i].T, log_w[there, i].T)
        return density, z

    return way


def _along(members: list[Model], theta: Index) -> Model:
    return Family(dict(enumerate(members))).along(theta.tolist())


def _stepwise(members: list[Model]) -> Way:
    """Log-densities by the four methods, for any models that can follow each other; no scores."""

    def way(Y: Array, theta: Index) -> Result:
        density = np.full(len(Y), np.nan)
        if len(Y) == 0:
            return density, np.empty(Y.shape)
        model, missing = _along(members, theta), finite_or_missing(Y)
        state = model.start()
        for k, row in enumerate(Y.ravel().tolist() if model.dim == 1 else Y):
            if missing[k]:
                state = model.skip(state)
                continue
            try:
                density[k] = float(model.predict(state).logpdf(row))
                state = model.update(state, row)
            except LawError:
                raise broken_law(k) from None
        return density, np.empty(Y.shape)

    return way
