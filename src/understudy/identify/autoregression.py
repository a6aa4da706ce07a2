"""Autoregressive candidates: AR(p) of one channel, VAR(p) of several, with normal or Student-t noise.

::

    y_k = c_theta + sum_i Phi_i y_{k-i} + e_k,    e_k ~ N(0, S_theta)  or  s_theta t(nu_theta)

The intercept and the noise belong to the value of theta_k; the coefficients are shared, or with `by_class` belong to it
too. The likelihood is the conditional one: rows whose p predecessors are not all there have no term.

With normal noise the models are Gauss-Markov ones in companion form, whose start has the law of p readings in a row; so
they are exact across gaps too. With Student-t noise they are `AutoRegressive` ones, which know no start but a fixed
past: it is the mean of the readings, and the first p readings of a stream have no fitted law. Several channels with
Student-t noise have each its own t law, joined by a Gaussian copula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import ConfigurationError, ModelError
from understudy.identify.candidate import Candidate
from understudy.identify.labelled import Indices, Rows, groups, lagged, resolution, rows_of, start_law
from understudy.identify.regression import heavy_tails, normal_regression
from understudy.identify.student import student_regression
from understudy.laws.base import Array
from understudy.laws.copula import GaussianCopula
from understudy.laws.scalar import Scalar
from understudy.models.autoregressive import AutoRegressive
from understudy.models.base import Model
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.matrices import spectral_radius

if TYPE_CHECKING:
    from understudy.identify.history import History

LARGEST_RADIUS = 1.0 - 1e-4
"""Modulus of the roots that a fitted model may have."""
_KINDS = {"normal": "normal", "student": "Student-t"}


def fit_autoregression(
    history: History, *, order: int = 1, noise: str = "normal", by_class: bool = False, robust: bool = True
) -> Candidate:
    """An autoregressive model for each value of the private parameter.

    `noise` is "normal" or "student"; `robust` (normal noise only) leaves out single bad samples, at most one reading in
    a hundred. A value with few readings has the law of the nearest value in the order of values. Coefficients with a
    root outside the unit circle are shrunk to radius 0.9999, and a note says so.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> rng, theta = np.random.default_rng(1), np.repeat([0, 1, 0, 1], 500)
    >>> noise = us.Gaussian(0.0, 1.0)
    >>> family = us.Family({v: us.AutoRegressive(0.9, 2.0 * v, noise) for v in (0, 1)})
    >>> y = us.sample(family.along(theta.tolist()), 2000, rng=rng)
    >>> history = History(("y",), "theta", None, (), (0, 1), None, (Segment("1", None, y[:, None], theta),), ())
    >>> fit = fit_autoregression(history)
    >>> fit, round(fit.parameters["coefficients"][0], 1)
    (Candidate('AR(1), normal', 2 values, 5 free parameters), 0.9)
    """
    if not isinstance(order, int) or isinstance(order, bool) or order < 1:
        raise ConfigurationError(f"order = {order!r}; it must be a whole number of at least 1")
    if noise not in _KINDS:
        raise ConfigurationError(f"noise = {noise!r}; it must be one of {', '.join(map(repr, _KINDS))}")
    rows = rows_of(history)
    at, X = lagged(rows, order)
    least = 10 * (order * rows.dim + 2)
    if len(at) < least:
        raise ModelError(
            f"{len(at)} readings have their {order} predecessors; a model of order {order} needs at least {least}"
        )
    m = len(history.values)
    which, notes = groups(np.bincount(rows.theta[at], minlength=m).tolist(), history.values, max(30, least))
    fit = _student if noise == "student" else _normal
    return fit(history, rows, (order, at, X, which, notes), by_class, robust)


# order, rows with all predecessors, the predecessors, the group of each value, notes
Task = tuple[int, Indices, Array, Indices, tuple[str, ...]]


def _normal(history: History, rows: Rows, task: Task, by_class: bool, robust: bool) -> Candidate:
    order, at, X, which, notes = task
    d, G = rows.dim, int(which.max()) + 1
    group = which[rows.theta[at]]
    fit = normal_regression(X, rows.Y[at], group, G, shared=not by_class, robust=robust)
    Phi, said = _stable(_matrices(fit.B, order, d))
    if said:
        flat = Phi.reshape(G, order, d, d).transpose(0, 1, 3, 2).reshape(G, order * d, d)
        fit = normal_regression(X, rows.Y[at], group, G, shared=not by_class, robust=robust, fixed=flat)
        notes = (*notes, *said)
    left = int((~fit.kept).sum())
    if left:
        m = len(history.values)
        gone, all_ = (np.bincount(rows.theta[at][mask], minlength=m) for mask in (~fit.kept, fit.kept | True))
        notes = (*notes, f"{left} of {len(at)} readings were too far from their prediction and did not count.")
        notes = (*notes, *heavy_tails(gone, all_, history.values))
    mean0, cov0 = start_law(rows, order)
    made = [companion(Phi[g], fit.c[g], fit.S[g], mean0, cov0) for g in range(G)]
    parameters = {
        "values": list(history.values),
        "coefficients": _listed(Phi[which] if by_class else Phi[0], order, d),
        "intercept": _scalars(fit.c[which]),
        "covariance": _scalars(fit.S[which]),
    }
    count = (G if by_class else 1) * order * d * d + G * (d + d * (d + 1) // 2)
    return _candidate(history, made, which, (order, d, "normal", by_class), parameters, count, notes)


def _student(history: History, rows: Rows, task: Task, by_class: bool, robust: bool) -> Candidate:
    from scipy import stats

    order, at, X, which, notes = task
    d, G = rows.dim, int(which.max()) + 1
    group, Y = which[rows.theta[at]], rows.Y[at]
    # a grid puts many residuals on one number, and a t law would become a spike there
    floors = np.nan_to_num(resolution(rows), nan=0.0) / np.sqrt(12.0)
    fits = [student_regression(X, Y[:, i], group, G, shared=not by_class, floor=float(floors[i])) for i in range(d)]
    Phi, said = _stable(_matrices(np.stack([fit.B for fit in fits], axis=2), order, d))
    if said:
        flat = Phi.reshape(G, order, d, d).transpose(0, 1, 3, 2).reshape(G, order * d, d)
        fits = [
            student_regression(X, Y[:, i], group, G, shared=False, floor=float(floors[i]), fixed=flat[:, :, i])
            for i in range(d)
        ]
        notes = (*notes, *said)
    c, scale, nu = (np.stack([getattr(fit, name) for fit in fits], axis=1) for name in ("c", "scale", "freedom"))
    past = np.tile(rows.Y[rows.used].mean(axis=0), (order, 1))
    made: list[Model] = []
    correlations = []
    for g in range(G):
        laws = [Scalar(stats.t(float(nu[g, i]), loc=0.0, scale=float(scale[g, i]))) for i in range(d)]
        law: Any = laws[0]
        if d > 1:
            E = Y[group == g] - c[g] - np.einsum("kpj,pij->ki", X[group == g].reshape(-1, order, d), Phi[g])
            correlation = correlation_of(laws, E)
            correlations.append(correlation)
            law = GaussianCopula(correlation, laws)
        made.append(AutoRegressive(Phi[g], c[g], law, past))
    parameters = {
        "values": list(history.values),
        "coefficients": _listed(Phi[which] if by_class else Phi[0], order, d),
        "intercept": _scalars(c[which]),
        "scale": _scalars(scale[which]),
        "freedom": _scalars(nu[which]),
    }
    if d > 1:
        parameters["correlation"] = np.stack(correlations)[which].tolist()
    notes = (*notes, f"the first {order} readings of a stream, and of what follows a gap, have no fitted law.")
    count = (G if by_class else 1) * order * d * d + G * (3 * d + d * (d - 1) // 2)
    return _candidate(history, made, which, (order, d, "student", by_class), parameters, count, notes)


def companion(Phi: Array, c: Array, S: Array, mean0: Array, cov0: Array) -> GaussMarkov:
    """A Gaussian autoregression as a Gauss-Markov model whose state is the last p readings, with a law at the start."""
    p, d, _ = Phi.shape
    n = p * d
    A, b, Q = np.zeros((n, n)), np.zeros(n), np.zeros((n, n))
    A[:d] = Phi.transpose(1, 0, 2).reshape(d, n)
    A[d:, : n - d] = np.eye(n - d)
    b[:d], Q[:d, :d] = c, S
    return GaussMarkov(A, np.eye(d, n), Q, np.zeros((d, d)), b, 0.0, mean0, cov0)


def _matrices(B: Array, order: int, d: int) -> Array:
    """(G, order * d, d) regression coefficients as Phi (G, order, d, d): row i of Phi_l predicts channel i."""
    return B.reshape(len(B), order, d, d).transpose(0, 1, 3, 2)


def _stable(Phi: Array) -> tuple[Array, tuple[str, ...]]:
    """Coefficients with roots inside the unit circle: Phi_i times r^i moves every root by r."""
    Phi, notes = np.array(Phi), []
    for g in range(len(Phi)):
        radius = spectral_radius(_companion_matrix(Phi[g]))
        if radius > LARGEST_RADIUS:
            shrink = LARGEST_RADIUS / radius
            Phi[g] *= (shrink ** np.arange(1, len(Phi[g]) + 1))[:, None, None]
            notes.append(
                f"a root of modulus {radius:.6g} was moved to {LARGEST_RADIUS:.6g}: the level must come to rest."
            )
    return Phi, tuple(dict.fromkeys(notes))


def _companion_matrix(Phi: Array) -> Array:
    p, d, _ = Phi.shape
    A = np.eye(p * d, k=-d)
    A[:d] = Phi.transpose(1, 0, 2).reshape(d, p * d)
    return A


def correlation_of(laws: list[Any], E: Array) -> Array:
    """The correlation of the scores of channels (n, d), each under its law; kept away from singular."""
    Z = np.stack([law.score(e) for law, e in zip(laws, E.T, strict=True)])
    Z = Z - Z.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.square(Z).mean(axis=1, keepdims=True))
    Z = Z / np.where(spread > 0.0, spread, 1.0)  # a channel that stands still tells of no other
    R = Z @ Z.T / Z.shape[1]
    R = np.clip((R + R.T) / 2.0, -0.999, 0.999)
    np.fill_diagonal(R, 1.0)
    smallest = float(np.linalg.eigvalsh(R)[0])
    if smallest < 1e-3:
        share = (1e-3 - smallest) / (1.0 - smallest)
        R = (1.0 - share) * R + share * np.eye(len(R))
    return np.asarray(R)


def _listed(Phi: Array, order: int, d: int) -> Any:
    """Coefficients as plain lists; numbers, not matrices, for one channel."""
    return (Phi[..., 0, 0] if d == 1 else Phi).tolist()


def _scalars(array: Array) -> Any:
    """One entry for each value; numbers for one channel."""
    return (array.reshape(len(array)) if array[0].size == 1 else array).tolist()


def _candidate(
    history: History,
    made: Any,
    which: Indices,
    kind: tuple[int, int, str, bool],
    parameters: dict[str, Any],
    count: int,
    notes: tuple[str, ...],
) -> Candidate:
    order, d, noise, by_class = kind
    name = f"{'AR' if d == 1 else 'VAR'}({order}), {_KINDS[noise]}{' by class' if by_class else ''}"
    models = {value: made[which[i]] for i, value in enumerate(history.values)}
    return Candidate(name, models, parameters, count, notes)
