"""The grey-box candidate: a level that decays, a source that depends on the private parameter, and a noisy sensor.

::

    x_k = A x_{k-1} + b(theta_k) + w_k,    w_k ~ N(0, Q(theta_k))
    y_k = x_k + v_k,                       v_k ~ N(0, R(theta_k)),    R diagonal

One state for each channel; the dynamics A are shared, so the state goes on when theta moves. This is the balance of a
room: A is what ventilation leaves, b what people add. The offset is free for each value, or with
``offset="linear"`` it is c + beta theta for values that are numbers.

Maximum likelihood, by the exact likelihood and its gradient (`likelihood`), quasi-Newton steps (`climbing`) and several
starts. `robust` turns it into a trimmed one: the filter of each fit sets bad samples aside (`robust`), and the fit is
made again, until the same samples are set aside, or all but one in a thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import ConfigurationError
from understudy.identify.autoregression import LARGEST_RADIUS
from understudy.identify.candidate import Candidate
from understudy.identify.climbing import Parts, Shape, maximise
from understudy.identify.labelled import Indices, Rows, groups, lagged, rows_of, start_law
from understudy.identify.likelihood import layout
from understudy.identify.regression import heavy_tails, normal_regression
from understudy.identify.robust import set_aside
from understudy.laws.base import Array
from understudy.models.base import Model
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.matrices import spectral_radius

if TYPE_CHECKING:
    from understudy.identify.history import History

_FLOOR = 1e-6  # smallest variance beside that of the one-step prediction: the likelihood may ask for none at all
_SHARES = (0.05, 0.3, 0.8)  # of the one-step prediction error that a start gives to the sensor
_ROUNDS = 6
_CHOICES = {"noise": ("by class", "shared"), "offset": ("by class", "linear"), "dynamics": ("full", "diagonal")}


def fit_greybox(
    history: History,
    *,
    robust: bool = True,
    noise: str = "by class",
    offset: str = "by class",
    dynamics: str = "full",
) -> Candidate:
    """The grey-box model, one Gauss-Markov model for each value of the private parameter.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> def room(v):
    ...     return us.GaussMarkov(A=0.9, C=1.0, Q=1.0 + 3.0 * v, R=0.5, b=40.0 + 10.0 * v, mean0=400.0, cov0=1.0)
    >>> theta = np.repeat([0, 1, 0, 1], 500)
    >>> y = us.sample(us.Family(room, [0, 1]).along(theta.tolist()), 2000, rng=2)
    >>> history = History(("y",), "theta", None, (), (0, 1), None, (Segment("1", None, y[:, None], theta),), ())
    >>> fit = fit_greybox(history)
    >>> fit, round(fit.parameters["A"], 2)
    (Candidate('grey-box', 2 values, 7 free parameters), 0.9)
    """
    chosen = {"noise": noise, "offset": offset, "dynamics": dynamics}
    for name, given in chosen.items():
        if given not in _CHOICES[name]:
            raise ConfigurationError(f"{name} = {given!r}; it must be one of {', '.join(map(repr, _CHOICES[name]))}")
    rows = rows_of(history)
    d, m = rows.dim, len(history.values)
    which, notes = groups(np.bincount(rows.theta[rows.used], minlength=m).tolist(), history.values)
    # channels in units of their own, so that all parameters are of moderate size
    location, unit = np.nanmean(rows.Y, axis=0), np.nanstd(rows.Y, axis=0)
    scaled = Rows((rows.Y - location) / unit, rows.theta, rows.starts, rows.used)
    mean0, cov0 = start_law(scaled, 1)
    design = _design(history, offset, which)
    pattern = np.ones((d, d)) if dynamics == "full" else np.eye(d)
    first, variance = _start(scaled, design, which, robust)
    shape = Shape(design, which if noise == "by class" else np.zeros(m, dtype=np.intp), pattern, _FLOOR * variance)
    starts = [_split(first, shape, variance, share) for share in _SHARES]
    parts, kept, rounds = _climb(scaled, shape, starts, (mean0, cov0), robust)
    radius = spectral_radius(parts.A)
    if radius > LARGEST_RADIUS:
        notes = (
            *notes,
            f"a root of modulus {radius:.6g} was moved to {LARGEST_RADIUS:.6g}: the level must come to rest.",
        )
        A = parts.A * (LARGEST_RADIUS / radius)
        held = Shape(shape.design, shape.noise, shape.pattern, shape.floor, A)
        lay = layout(kept, mean0, cov0)
        parts, _ = maximise(lay, kept.theta, held, [Parts(A, parts.beta, parts.Q, parts.R)])
    notes = (*notes, *_told(history, rows, kept, rounds))
    told = {"noise": "shared noise", "offset": "linear offset", "dynamics": "diagonal"}
    name = ", ".join(["grey-box", *(told[key] for key, given in chosen.items() if given != _CHOICES[key][0])])
    return _candidate(name, history, parts, shape, (location, unit, mean0, cov0), notes)


# Starts, rounds, results ---------------------------------------------------------------------------------


def _design(history: History, offset: str, which: Indices) -> Array:
    if offset == "by class":
        return np.eye(int(which.max()) + 1)[which]
    numbers = [v for v in history.values if isinstance(v, (int, float))]
    if len(numbers) < len(history.values):
        raise ConfigurationError("offset = 'linear' needs values that are numbers; these are names or bins")
    values = np.array(numbers, dtype=float)
    return np.stack([np.ones(len(values)), values], axis=1)


def _start(rows: Rows, design: Array, which: Indices, robust: bool) -> tuple[tuple[Array, Array], Array]:
    """A and beta by least squares on the reading before, corrected for sensor noise, and the one-step variance."""
    at, X = lagged(rows, 1)
    group = which[rows.theta[at]]
    fit = normal_regression(X, rows.Y[at], group, int(which.max()) + 1, shared=True, robust=robust)
    A = fit.B[0].T
    A = A * min(1.0, 0.999 / max(spectral_radius(A), 1e-12))
    weights = np.bincount(rows.theta[rows.used], minlength=len(design)).astype(float)
    root = np.sqrt(weights + 1e-9)[:, None]
    beta: Array = np.asarray(np.linalg.lstsq(root * design, root * fit.c[which], rcond=None)[0], dtype=float)
    share = np.bincount(group, minlength=len(fit.S)) / len(group)
    return (A, beta), np.einsum("g,gii->i", share, fit.S)


def _split(first: tuple[Array, Array], shape: Shape, variance: Array, share: float) -> Parts:
    """A start with this share of the one-step variance given to the sensor.

    Sensor noise makes the least-squares A too small, so it is moved towards one by as much.
    """
    A, beta = first
    G = int(shape.noise.max()) + 1
    closer = A + (np.eye(len(A)) - A) * share * 0.5 if share > 0.1 else A
    Q = np.tile(np.diag(np.maximum((1.0 - share) * variance, 2.0 * shape.floor)), (G, 1, 1))
    R = np.tile(np.maximum(0.5 * share * variance, 2.0 * shape.floor), (G, 1))
    return Parts(closer * shape.pattern, beta * (1.0 - 0.5 * share if share > 0.1 else 1.0), Q, R)


def _climb(
    rows: Rows, shape: Shape, starts: list[Parts], initial: tuple[Array, Array], robust: bool
) -> tuple[Parts, Rows, int]:
    """Fits and settings aside by turns, until (nearly) the same readings are set aside; and the rows that counted."""
    kept = set_aside(models_of(starts[0], shape, initial), rows) if robust else rows
    steps, met = None, {kept.used.tobytes()}
    for number in range(1, _ROUNDS + 1):
        parts, steps = maximise(layout(kept, *initial), kept.theta, shape, starts, steps)
        if not robust:
            return parts, kept, number
        again = set_aside(models_of(parts, shape, initial), rows)
        if int((again.used != kept.used).sum()) <= 1e-3 * int(rows.used.sum()) and len(again.starts) == len(
            kept.starts
        ):
            return parts, kept, number
        if again.used.tobytes() in met:
            break
        met.add(again.used.tobytes())
        kept, starts = again, [parts]
    return parts, kept, _ROUNDS + 1


def models_of(parts: Parts, shape: Shape, initial: tuple[Array, Array]) -> list[GaussMarkov]:
    """One model for each value, in the units of the fit."""
    b, C = shape.design @ parts.beta, np.eye(len(parts.A))
    return [
        GaussMarkov(parts.A, C, parts.Q[g], np.diag(parts.R[g]), b[i], 0.0, *initial, allow_unstable=True)
        for i, g in enumerate(shape.noise)
    ]


def _told(history: History, rows: Rows, kept: Rows, rounds: int) -> tuple[str, ...]:
    aside = int((rows.used & ~kept.used).sum())
    cuts = len(kept.starts) - len(rows.starts)
    notes = []
    if aside or cuts:
        notes.append(
            f"{aside} of {int(rows.used.sum())} readings were set aside as bad samples, "
            f"and the level was taken to jump at {cuts}."
        )
        m = len(history.values)
        gone, all_ = (np.bincount(rows.theta[mask], minlength=m) for mask in (rows.used & ~kept.used, rows.used))
        notes += heavy_tails(gone, all_, history.values)
    if rounds > _ROUNDS:
        notes.append("each fit set other readings aside than the one before; the last one stands.")
    return tuple(notes)


def _candidate(
    name: str,
    history: History,
    parts: Parts,
    shape: Shape,
    frame: tuple[Array, Array, Array, Array],
    notes: tuple[str, ...],
) -> Candidate:
    """Back in the units of the readings: y = location + unit y'."""
    location, unit, mean0, cov0 = frame
    d = len(location)
    A = parts.A * unit[:, None] / unit[None, :]
    Q = parts.Q * np.outer(unit, unit)
    R = parts.R * np.square(unit)
    # x' = A' x' + b'  ->  x = A x + unit b' + (I - A) location
    b = (shape.design @ parts.beta) * unit + location - A @ location
    start = location + unit * mean0, cov0 * np.outer(unit, unit)
    made = [GaussMarkov(A, np.eye(d), Q[g], np.diag(R[g]), b[i], 0.0, *start) for i, g in enumerate(shape.noise)]
    parameters: dict[str, Any] = {
        "values": list(history.values),
        "A": A.item() if d == 1 else A.tolist(),
        "b": b[:, 0].tolist() if d == 1 else b.tolist(),
        "Q": (Q[shape.noise, 0, 0] if d == 1 else Q[shape.noise]).tolist(),
        "R": (R[shape.noise, 0] if d == 1 else R[shape.noise]).tolist(),
        "mean0": start[0].tolist(),
        "cov0": start[1].tolist(),
    }
    low = np.argwhere((parts.R - 3.0 * shape.floor) < 0.0)
    if low.size:
        notes = (*notes, "the likelihood asks for no sensor noise at all in some channel: the state is seen as it is.")
    models: dict[Any, Model] = {value: made[i] for i, value in enumerate(history.values)}
    return Candidate(name, models, parameters, sum(shape.sizes), notes)
