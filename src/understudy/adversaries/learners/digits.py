"""The adversary who learns from low-order digits what he cannot work out.

Features of an output: where its readings and their differences lie between grid values (bins and harmonics), and, for
each value of the parameter, the same for the output inverted under it: how near to the grid it comes, whether its
nearest grid values lead back to the output, and how likely those are. Between pseudo parameters the features are
averaged with their odds given the output. A multinomial logistic regression with a ridge is fitted on labelled outputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from understudy.adversaries.base import Guess, guessed
from understudy.adversaries.learners.grid import distance, kernel_of, models_of, steps_of
from understudy.errors import ConfigurationError
from understudy.laws.base import Array, Frozen
from understudy.models.base import Model
from understudy.models.family import Family
from understudy.models.gauss_markov import GaussMarkov
from understudy.transform.filter import disguise
from understudy.transform.readings import as_readings
from understudy.transform.scores import loglik

_BINS = 8
_HARMONICS = 4
_FLOOR = 1e-9  # of a step: nearer is as good as on the grid


class LowDigits(Frozen):
    """A logistic regression on what low-order digits look like, before and after inverting.

    Arguments as for `GridInversion`. `fit` returns another that has learned from labelled outputs, simulated or real.

    >>> import numpy as np, understudy as us
    >>> room = lambda people: us.GaussMarkov(0.9 - 0.1 * people, 1.0, 0.5 + people, 0.5, mean0=50.0, cov0=1.0)
    >>> def outputs(theta, seed):
    ...     whole = np.round(us.sample(room(theta), T=5, n=100, rng=seed))
    ...     return us.disguise(whole, source=room(theta), target=room(0.3))
    >>> label = np.repeat([0, 1], 100)
    >>> learned = LowDigits(us.Family(room, values=[0, 1]), pseudo=[0.3], grid=1.0).fit(
    ...     np.concatenate([outputs(0, 1), outputs(1, 2)], axis=2), label
    ... )
    >>> bool((learned.guess(np.concatenate([outputs(0, 3), outputs(1, 4)], axis=2)).index == label).all())
    True
    """

    centre: Array
    scale: Array
    weights: Array

    __slots__ = ("centre", "family", "grid", "kernel", "offsets", "pseudo", "ridge", "scale", "steps", "weights")

    def __init__(
        self, family: Family, pseudo: Iterable[Any], grid: Any, kernel: Any = None, *, ridge: float = 1.0
    ) -> None:
        if not ridge > 0.0:
            raise ConfigurationError(f"ridge = {ridge!r}; it must be positive")
        self.family = family
        self.pseudo: tuple[Any, ...] = tuple(pseudo)
        self.grid = grid
        self.steps, self.offsets = steps_of(grid, family.dim)
        self.kernel: Array = kernel_of(kernel, len(family.values), len(self.pseudo))
        self.ridge = float(ridge)

    def __repr__(self) -> str:
        state = "learned" if hasattr(self, "weights") else "has not learned"
        return f"LowDigits({len(self.family.values)} values, {len(self.pseudo)} pseudo values, {state})"

    def fit(self, Y: Any, index: Any) -> LowDigits:
        """One that has learned from outputs (T, d, N) and the index of the parameter of each, (N,)."""
        readings, labels = as_readings(Y, self.family.dim), np.asarray(index)
        m = len(self.family.values)
        if readings.ndim != 3 or labels.shape != readings.shape[2:] or not np.isin(labels, range(m)).all():
            raise ConfigurationError(
                f"outputs of shape {readings.shape} and labels of shape {labels.shape}; "
                f"it learns from (T, d, N) and N labels from 0 to {m - 1}"
            )
        X = self.features(readings)
        centre, spread = X.mean(axis=1), X.std(axis=1)
        made = LowDigits(self.family, self.pseudo, self.grid, self.kernel, ridge=self.ridge)
        made.centre = centre
        made.scale = np.where(
            spread > 1e-12 * (1.0 + np.abs(centre)), spread, np.inf
        )  # what never varies tells nothing
        made.weights = _regression((X - centre[:, None]) / made.scale[:, None], labels, m, self.ridge)
        return made

    def guess(self, Y: Any) -> Guess:
        """The guess for a sequence (T,) or (T, d), or for each of (T, d, N)."""
        if not hasattr(self, "weights"):
            raise ConfigurationError("this adversary has learned nothing yet; fit(Y, index) returns one that has")
        readings = as_readings(Y, self.family.dim)
        many = readings.ndim == 3
        X = (self.features(readings if many else readings[:, :, None]) - self.centre[:, None]) / self.scale[:, None]
        scores = self.weights[:, :-1] @ X + self.weights[:, -1:]
        return guessed(scores - np.logaddexp.reduce(scores, axis=0), many)

    def features(self, Y: Array) -> Array:
        """What it looks at, (features, N), in outputs (T, d, N)."""
        sources, targets = models_of(self.family, self.family.values), models_of(self.family, self.pseudo)
        wide = [_widened(model, self.steps) for model in (*sources, *targets)]
        odds = np.stack([loglik(Y, model) for model in wide[len(sources) :]])
        with np.errstate(divide="ignore"):
            odds = odds + np.log(self.family.prior @ self.kernel)[:, None]
        odds = np.exp(odds - np.logaddexp.reduce(odds, axis=0))
        columns = [self._digits(Y)]
        if len(Y) > 1:
            columns.append(self._digits(np.diff(Y, axis=0) + self.offsets[:, None]))
        for i, source in enumerate(sources):
            inverted = [self._inverted(Y, source, target, wide[i]) for target in targets]
            columns.append(np.sum([w * f for w, f in zip(odds, inverted, strict=True)], axis=0))
        return np.concatenate(columns)

    def _digits(self, Y: Array) -> Array:
        """Bins and harmonics of the place between two grid values, by channel."""
        place = (Y - self.offsets[:, None]) / self.steps[:, None]
        turn = 2.0 * np.pi * place
        waves = [f(h * turn) for h in range(1, _HARMONICS + 1) for f in (np.cos, np.sin)]
        cell = np.floor(_BINS * (place - np.floor(place)))
        bins = [cell == b for b in range(_BINS)]
        there = ~np.isnan(Y)
        return np.concatenate([_mean(np.where(there, feature, np.nan)) for feature in (*waves, *bins)])

    def _inverted(self, Y: Array, source: Model, target: Model, wide: Model) -> Array:
        back = disguise(Y, source=target, target=source)
        near = distance(back, self.steps, self.offsets)
        steps, offsets = self.steps[:, None], self.offsets[:, None]
        snapped = offsets + steps * np.rint((back - offsets) / steps)
        missed = np.abs(disguise(snapped, source=source, target=target) - Y) / steps
        return np.concatenate(
            [
                _mean(np.log10(near + _FLOOR)),
                _mean(np.cos(2.0 * np.pi * near)),
                _mean(np.cos(4.0 * np.pi * near)),
                _mean(np.where(np.isnan(missed), np.nan, missed > 0.5 + 1e-6)),
                _mean(missed),
                loglik(snapped, wide)[None] / len(Y),
            ]
        )


def _mean(feature: Array) -> Array:
    """Mean over the readings that are there of (T, d, N), as (d, N)."""
    return np.asarray(np.nansum(feature, axis=0) / np.maximum((~np.isnan(feature)).sum(axis=0), 1))


def _widened(model: Model, steps: Array) -> Model:
    """A Gauss-Markov model with the variance of rounding, step^2/12, in its readings' noise."""
    if not isinstance(model, GaussMarkov):
        return model
    given = model.given
    extra = np.diag(steps**2 / 12.0)
    R = (lambda k: model.at(k).R + extra) if not model.constant else model.R + extra
    return GaussMarkov(**{**given, "R": R})


def _regression(X: Array, labels: Any, m: int, ridge: float) -> Array:
    """Weights (m, features + 1) of the multinomial logistic regression: least ridge |W|^2 / 2 - log-likelihood."""
    from scipy.optimize import minimize

    F, N = X.shape
    Z = np.concatenate([X, np.ones((1, N))])
    truth = np.eye(m)[:, labels]
    shrunk = np.append(np.ones(F), 0.0)  # not the intercept

    def loss(flat: Array) -> tuple[float, Array]:
        W = flat.reshape(m, F + 1)
        scores = W @ Z
        logs = scores - np.logaddexp.reduce(scores, axis=0)
        value = 0.5 * ridge * float((np.square(W) * shrunk).sum()) - float((truth * logs).sum())
        return value, ((np.exp(logs) - truth) @ Z.T + ridge * W * shrunk).ravel()

    found = minimize(loss, np.zeros(m * (F + 1)), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x.reshape(m, F + 1))
