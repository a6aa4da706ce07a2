"""Public inputs: weather and the clock move the readings by an offset that anybody could compute.

    y_k = m(u_k) + the process of the private parameter,      m linear in the public inputs u

The offset is taken off before a reading is disguised and added back after, so it must not depend on anything private:
an input is public only if it is independent of the parameter and the readings given what is public already. Which
numbers m has is no matter of privacy, only of fit.

The coefficients are found by robust regression. The process is slow and depends on the parameter, so levels must not
be compared; with the intercept c of the value theta_k and a lag rho for each channel,

    y_k - rho y_{k-1} = beta (u_k - rho u_{k-1}) + c_{theta_k} + e_k

in which heavy tails of e count less (Huber).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy import text
from understudy._types import Array, Plain
from understudy.errors import ConfigurationError, StoredFileError
from understudy.tables.times import DAY, hours

if TYPE_CHECKING:
    from understudy.identify.history import History


CLOCK = "clock"
"""The name of the public input that is the time of day."""
HARMONICS = 2
_ROUNDS = 30
_HUBER = 1.345


@dataclass(frozen=True, slots=True, eq=False)
class Offset:
    """m(u) = intercept + coefficients u, for each channel.

    >>> offset = Offset(("outside",), np.array([[2.0]]), np.array([-20.0]))
    >>> offset(np.array([[10.0], [12.0]])).ravel().tolist()
    [0.0, 4.0]
    """

    columns: tuple[str, ...]
    coefficients: Array
    """(d, q): of each channel on each public input."""
    intercept: Array
    steps: tuple[float | None, ...] | None = None
    """Steps of the channels that lie on a grid: their offset is rounded, so that without it they still do."""

    def __call__(self, U: ArrayLike) -> Array:
        """The offset (T, d) for public inputs (T, q)."""
        found = np.asarray(U, dtype=float) @ self.coefficients.T + self.intercept
        for channel, step in enumerate(self.steps or ()):
            if step is not None:
                found[:, channel] = step * np.rint(found[:, channel] / step)
        return np.asarray(found, dtype=float)

    def of(self, inputs: Mapping[str, Any], ns: NDArray[np.int64] | None = None, zone: str | None = None) -> Array:
        """The offset for inputs by name; those of the clock come from times in nanoseconds since 1970."""
        clock = dict(zip(clock_names(), clock_values(np.asarray(ns), zone).T, strict=True)) if self.needs_clock else {}
        lacking = [name for name in self.columns if name not in inputs and name not in clock]
        if lacking:
            raise ConfigurationError(
                f"the public inputs {lacking!r} are missing; the offset needs {list(self.columns)!r}"
            )
        return self(np.column_stack([inputs[n] if n in inputs else clock[n] for n in self.columns]))

    @property
    def needs_clock(self) -> bool:
        """Whether the time of day is among the inputs."""
        return any(name in clock_names() for name in self.columns)

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "columns": list(self.columns),
            "coefficients": self.coefficients.tolist(),
            "intercept": self.intercept.tolist(),
            "steps": None if self.steps is None else list(self.steps),
        }

    @staticmethod
    def from_plain(plain: Plain) -> Offset:
        """The offset that `to_plain` was given."""
        try:
            columns = tuple(plain["columns"])
            coefficients, intercept = (np.array(plain[name], dtype=float) for name in ("coefficients", "intercept"))
            steps = plain["steps"] if plain["steps"] is None else tuple(plain["steps"])
            if coefficients.shape != (intercept.size, len(columns)) or len(steps or intercept) != intercept.size:
                raise ValueError
        except (KeyError, TypeError, ValueError):
            raise StoredFileError("the stored public offset does not hold together") from None
        return Offset(columns, coefficients, intercept, steps)


def clock_names() -> tuple[str, ...]:
    """The names of the inputs that the clock makes."""
    return tuple(f"{CLOCK}:{wave}{k}" for k in range(1, HARMONICS + 1) for wave in ("sin", "cos"))


def clock_values(ns: NDArray[np.int64], zone: str | None) -> Array:
    """Sine and cosine of the time of day, and of twice it.

    >>> clock_values(np.array([0, 6 * 3600 * 10**9]), None).round(6).tolist()
    [[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, -1.0]]
    """
    ns = np.asarray(ns, dtype=np.int64)
    if zone is not None and ns.size:  # the shift of the wall clock, in whole hours of the day and the rest
        ns = ns + (hours(ns, zone) - hours(ns, None)) * (DAY // 24)
    angle = 2.0 * np.pi * (ns % DAY) / DAY
    return np.column_stack([f(k * angle) for k in range(1, HARMONICS + 1) for f in (np.sin, np.cos)])


def fit_offset(history: History, notes: text.Notes) -> Offset:
    """The offset of a history's public inputs. It is centred: over the history its mean is zero."""
    d, q = history.dim, len(history.public)
    if not q:
        raise ConfigurationError("the history has no public inputs; there is no offset to fit")
    beta, errors = np.zeros((d, q)), np.zeros((d, q))
    U = np.concatenate([s.public for s in history.segments if s.public is not None])
    scale = U.std(axis=0)
    if (scale == 0.0).any():
        name = history.public[int((scale == 0.0).argmax())]
        raise ConfigurationError(f"the public input {name!r} is constant; it says nothing, leave it out")
    for channel in range(d):
        beta[channel], errors[channel] = _regress(history, channel, scale)
    for k, name in enumerate(history.public):
        strength = float(np.abs(beta[:, k] / np.maximum(errors[:, k], 1e-300)).max())
        sure = "clearly" if strength > 4.0 else "perhaps" if strength > 2.0 else "not discernibly"
        notes.add("public input", name=name, sure=sure, errors=strength)
    return Offset(history.public, beta, -(beta @ U.mean(axis=0)))


def without_offset(history: History, offset: Offset) -> History:
    """The history with the offset taken off its readings, and without public inputs."""
    segments = (
        replace(s, Y=s.Y - offset(s.public), public=None) if s.public is not None else s for s in history.segments
    )
    return replace(history, segments=tuple(segments), public=())


def _regress(history: History, channel: int, scale: Array) -> tuple[Array, Array]:
    """Coefficients of one channel and their standard errors."""
    y, before, u, u_before, theta = _pairs(history, channel)
    q, m = u.shape[1], len(history.values)
    classes = np.eye(m)[theta]
    classes = classes[:, classes.any(axis=0)]
    u, u_before = u / scale, u_before / scale
    if y.size <= q + classes.shape[1] + 2:
        raise ConfigurationError(f"{y.size} pairs of readings are too few to find the offset of {q} public inputs")
    rho, weights = _lag(y, before, classes), np.ones(y.size)
    beta: Array = np.zeros(q)
    X = np.empty((y.size, 0))
    for _ in range(_ROUNDS):
        X = np.column_stack([u - rho * u_before, classes])
        root = np.sqrt(weights)[:, None]
        found = np.linalg.lstsq(root * X, root[:, 0] * (y - rho * before), rcond=None)[0]
        rest = y - rho * before - X @ found
        weights = _huber(rest)
        moved = float(np.abs(found[:q] - beta).max())
        beta = np.asarray(found[:q], dtype=float)
        rho = _lag(y - u @ beta, before - u_before @ beta, classes, weights)
        if moved <= 1e-9 * max(1.0, float(np.abs(beta).max())):
            break
    # sandwich: var = (X'WX)^-1 X'W e e' W X (X'WX)^-1
    psi = weights * rest
    bread = np.linalg.pinv((X * weights[:, None]).T @ X)
    cov = bread @ ((X * psi[:, None]).T @ (X * psi[:, None])) @ bread
    return beta / scale, np.sqrt(np.diag(cov)[:q]) / scale


def _pairs(history: History, channel: int) -> tuple[Array, Array, Array, Array, NDArray[np.intp]]:
    parts: list[tuple[Any, ...]] = []
    for s in history.segments:
        if s.public is None or len(s) < 2:
            continue
        good = s.used[1:] & s.complete[:-1]
        y = s.Y[:, channel]
        parts.append((y[1:][good], y[:-1][good], s.public[1:][good], s.public[:-1][good], s.theta[1:][good]))
    if not parts:
        raise ConfigurationError("no two labelled readings follow each other; the offset of public inputs needs some")
    y, before, u, u_before, theta = (np.concatenate(part) for part in zip(*parts, strict=True))
    return y, before, u, u_before, theta


def _lag(y: Array, before: Array, classes: Array, weights: Array | None = None) -> float:
    """Slope of y on the reading before, with an intercept for each value; within 0 and 1."""
    w = np.ones(y.size) if weights is None else weights
    total = classes.T @ w
    centred = [x - classes @ ((classes.T @ (w * x)) / np.maximum(total, 1e-300)) for x in (y, before)]
    slope = float((w * centred[0]) @ centred[1] / max(float((w * centred[1]) @ centred[1]), 1e-300))
    return min(max(slope, 0.0), 1.0)


def _huber(rest: Array) -> Array:
    spread = 1.4826 * float(np.median(np.abs(rest - np.median(rest))))
    if spread == 0.0:
        spread = float(rest.std()) or 1.0
    return np.minimum(1.0, _HUBER * spread / np.maximum(np.abs(rest), 1e-300))
