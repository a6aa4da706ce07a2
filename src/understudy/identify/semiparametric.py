"""Autoregressive candidates whose noise has no assumed shape: where a parametric law of innovations fails the gate.

The dynamics are those of the Student-t autoregression of the same order, each value with its own. What is left,
the innovations of each value and channel, gets a law of its own: a mixture of normals, fitted by EM, with as many
parts as predict held-out stretches of time best, and a Student-t part if that does so. Several channels are joined
by a Gaussian copula.

Only the law of single innovations is free. Innovations that depend on each other, or on more than theta and the last
readings, still fail the gate, as they should.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import ConfigurationError
from understudy.identify.autoregression import correlation_of, fit_autoregression
from understudy.identify.candidate import Candidate
from understudy.identify.labelled import groups, lagged, resolution, rows_of
from understudy.laws.base import Array
from understudy.laws.copula import GaussianCopula
from understudy.laws.gaussian import Gaussian
from understudy.laws.mixture import Mixture
from understudy.laws.scalar import Scalar
from understudy.models.autoregressive import AutoRegressive
from understudy.models.base import Model

if TYPE_CHECKING:
    from understudy.identify.history import History

MOST_PARTS = 6
_STRETCHES = 10
_ROUNDS, _SETTLED = 200, 1e-6
_NARROWEST = 1e-3  # of the spread of the innovations: a part that is narrower is a spike
_FREEDOM = 3.0  # of the Student-t part for what is far out
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


def fit_semiparametric(history: History, *, order: int = 1, most_parts: int = MOST_PARTS) -> Candidate:
    """An autoregression whose innovations have a mixture of normals for a law, one for each value and channel.

    >>> import scipy.stats
    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> theta = np.repeat([0, 1] * 4, 500)
    >>> skewed = us.Scalar(scipy.stats.gamma(2.0, loc=-2.0))
    >>> family = us.Family({v: us.AutoRegressive(0.5, float(v), skewed, past=0.0) for v in (0, 1)})
    >>> y = us.sample(family.along(theta.tolist()), 4000, rng=1)
    >>> history = History(("y",), "theta", None, (), (0, 1), None, (Segment("1", None, y[:, None], theta),), ())
    >>> fit_semiparametric(history).name
    'AR(1), free noise by class'
    """
    if isinstance(most_parts, bool) or not isinstance(most_parts, int) or most_parts < 1:
        raise ConfigurationError(f"most_parts = {most_parts!r}; it must be a whole number of at least 1")
    base = fit_autoregression(history, order=order, noise="student", by_class=True)
    members: list[Any] = [base.models[value] for value in history.values]
    rows = rows_of(history)
    at, X = lagged(rows, order)
    d, theta = rows.dim, rows.theta[at]
    # values with few readings have the law of a neighbour, as in the dynamics
    which, _ = groups(
        np.bincount(theta, minlength=len(members)).tolist(), history.values, max(30, 10 * (order * d + 2))
    )
    Phi, c = np.stack([m.coefficients for m in members])[theta], np.stack([m.intercept for m in members])[theta]
    E = rows.Y[at] - c - np.einsum("kpj,kpij->ki", X.reshape(-1, order, d), Phi)
    floors = np.nan_to_num(resolution(rows), nan=0.0) / np.sqrt(12.0)
    models: dict[Any, Model] = {}
    innovations = [E[which[theta] == group] for group in range(int(which.max()) + 1)]
    shapes = [_laws(mine, floors, most_parts) for mine in innovations]
    plain = all(len(shape.weights) == 1 for channels in shapes for shape in channels)
    laws = [_law(channels, mine, plain) for channels, mine in zip(shapes, innovations, strict=True)]
    for value, member, group in zip(history.values, members, which.tolist(), strict=True):
        models[value] = AutoRegressive(member.coefficients, member.intercept, laws[group], member.past)
    found = [shapes[group] for group in which.tolist()]
    parameters = {
        "values": list(history.values),
        "coefficients": base.parameters["coefficients"],
        "intercept": base.parameters["intercept"],
        "weights": [[shape.weights.tolist() for shape in channels] for channels in found],
        "means": [[shape.means.tolist() for shape in channels] for channels in found],
        "deviations": [[shape.deviations.tolist() for shape in channels] for channels in found],
        "tail": [[shape.tail for shape in channels] for channels in found],
    }
    free = sum(shape.count for channels in shapes for shape in channels) + len(shapes) * d * (d - 1) // 2
    count = free + len(shapes) * (order * d * d + d)
    letters = "AR" if d == 1 else "VAR"
    notes = (
        *base.notes,
        "The law of the innovations is a mixture of normals, whose number is chosen on held-out time.",
    )
    return Candidate(f"{letters}({order}), free noise by class", models, parameters, count, notes)


def _laws(E: Array, floors: Array, most: int) -> list[Shape]:
    """The shape of the law of innovations (n, d), channel by channel."""
    return [shape_of(E[:, i], float(floors[i]), most) for i in range(E.shape[1])]


def _law(shapes: list[Shape], E: Array, plain: bool) -> Any:
    """The law of innovations; `plain` if no value of any channel has more than one part."""
    laws = [shape.law(plain) for shape in shapes]
    return laws[0] if len(laws) == 1 else GaussianCopula(correlation_of(laws, E), laws)


@dataclass(frozen=True, slots=True)
class Shape:
    """A mixture of normals, and perhaps a Student-t part for what is far out: its weight comes last."""

    weights: Array
    means: Array
    deviations: Array
    tail: tuple[float, float] | None = None
    """Centre and scale of the Student-t part."""

    @property
    def count(self) -> int:
        """Free parameters."""
        return 3 * len(self.means) - 1 + (self.tail is not None)

    def law(self, plain: bool = False) -> Any:
        """As a law of one number; a mixture unless `plain`, so that all values have the same kind of model."""
        from scipy.stats import t

        normals: list[Any] = [
            Gaussian(m, s * s) for m, s in zip(self.means.tolist(), self.deviations.tolist(), strict=True)
        ]
        if plain:
            return normals[0]
        if self.tail is not None:
            normals.append(Scalar(t(_FREEDOM, loc=self.tail[0], scale=self.tail[1])))
        return Mixture(self.weights.tolist(), normals)

    def log_parts(self, e: Array, far: Array | None = None) -> Array:
        """(n, parts) log of weight times density; `far` is the log-density of the tail, where it is known."""
        logs = -np.log(self.deviations) - _HALF_LOG_2PI
        logs = logs - 0.5 * np.square((e[:, None] - self.means) / self.deviations)
        if self.tail is not None:
            logs = np.column_stack([logs, np.asarray(self.far(e) if far is None else far)])
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights) + logs)

    def far(self, e: Array) -> Array | None:
        """The log-density of the Student-t part, if there is one."""
        from scipy.stats import t

        return None if self.tail is None else np.asarray(t.logpdf(e, _FREEDOM, *self.tail))

    def log_density(self, e: Array) -> Array:
        """Log-density of each number."""
        return np.asarray(np.logaddexp.reduce(self.log_parts(e), axis=1))


def shape_of(e: Array, floor: float = 0.0, most: int = MOST_PARTS) -> Shape:
    """A shape for numbers in the order of time, with as many parts as predict held-out stretches of it best.

    >>> rng = np.random.default_rng(1)
    >>> e = np.where(rng.random(4000) < 0.1, 10.0, 1.0) * rng.standard_normal(4000)
    >>> found = shape_of(e, most=3)
    >>> bool(8.0 < found.deviations.max() / found.deviations.min() < 12.0)
    True
    """
    floor = max(floor, _NARROWEST * float(np.std(e)), 1e-300)
    stretch = np.arange(len(e)) * _STRETCHES // max(1, len(e))
    best, chosen = -np.inf, (1, False)
    for k, tail in ((k, tail) for k in range(1, most + 1) for tail in (False, True)):
        if len(e) < 20 * k:
            break
        gained = 0.0
        for side in (0, 1):
            train, test = e[stretch % 2 == side], e[stretch % 2 != side]
            gained += float(_em(train, k, tail, floor).log_density(test).sum())
        # a part must earn its numbers
        if gained > best + 3.0:
            best, chosen = gained, (k, tail)
        elif k > chosen[0] + 1:
            break
    return _em(e, *chosen, floor)


def _em(e: Array, k: int, tail: bool, floor: float) -> Shape:
    """Expectation and maximisation, from parts of one place and widths in a row: tails are what must be found."""
    centre = float(np.median(e))
    scale = max(float(np.median(np.abs(e - centre))) / 0.6745, floor)
    widest = max(float(np.abs(e - centre).max()) / 2.0, 2.0 * scale)
    w, mu, sd = np.ones(1), np.array([float(e.mean())]), np.array([max(float(e.std()), floor)])
    if k > 1 or tail:
        w, mu, sd = np.full(k, 1.0 / k), centre + scale * np.linspace(-0.5, 0.5, k), np.full(k, scale)
        sd = np.geomspace(scale / 2.0, widest, k) if k > 1 else sd
    if tail:
        w = np.append(0.95 * w, 0.05)
    found, last = Shape(w, mu, sd, (centre, 2.0 * scale) if tail else None), -np.inf
    far = found.far(e)  # its place and width stay
    for _ in range(_ROUNDS):
        logs = found.log_parts(e, far)
        total = np.logaddexp.reduce(logs, axis=1)
        now = float(total.mean())
        if now - last < _SETTLED:
            break
        last = now
        r = np.exp(logs - total[:, None])
        n = np.maximum(r.sum(axis=0), 1e-12)
        r, size = r[:, :k], n[:k]
        mu = (r * e[:, None]).sum(axis=0) / size
        sd = np.maximum(np.sqrt((r * np.square(e[:, None] - mu)).sum(axis=0) / size), floor)
        found = Shape(n / n.sum(), mu, sd, found.tail)
    return found
