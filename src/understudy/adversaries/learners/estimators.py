"""What scikit-learn does for the adversaries: three ways to learn from a table of features and labels.

Each learns with every value counting alike, and gives evidence: log-probabilities at equal odds, (m, rows). One has a
`path`, evidence on rows that were held out for several settings, and is `fitted` with the setting that did best.
Everything runs on one thread and is the same again from the same random numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy._types import Ints as Index

Predict = Callable[[Array], Array]
_UNSEEN = 1e-6  # probability of a value that was not among the labels, and the least of any


class Labelled(NamedTuple):
    """Rows of features with labels from 0 to m - 1."""

    X: Array
    y: Index
    m: int

    def some(self, most: int, rng: np.random.Generator) -> Labelled:
        """At most so many rows, none of the values reduced to less than half an equal share if it can be helped."""
        if len(self.y) <= most:
            return self
        counts = np.bincount(self.y, minlength=self.m)
        least = np.minimum(counts, most // (2 * self.m))
        wanted = least + np.floor((most - least.sum()) * (counts - least) / max((counts - least).sum(), 1)).astype(int)
        rows = [rng.permutation(np.flatnonzero(self.y == i))[: wanted[i]] for i in range(self.m)]
        chosen = np.sort(np.concatenate(rows))
        return Labelled(self.X[chosen], self.y[chosen], self.m)


class Fitter(Protocol):
    """A way to learn."""

    @property
    def folds(self) -> int:
        """How often a part is held out to choose a setting."""
        ...

    def path(self, data: Labelled, held: Array, rng: np.random.Generator) -> list[tuple[float, Array]]:
        """Settings, and the evidence (m, rows) that each finds in rows that were held out."""
        ...

    def fitted(self, data: Labelled, setting: float | None, rng: np.random.Generator) -> Predict:
        """Learn with this setting; a usual one if it is None."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scaler:
    """Columns that vary, cut off at what is rare, with mean 0 and variance 1. What is missing becomes 0."""

    columns: Index
    low: Array
    high: Array
    centre: Array
    scale: Array

    def __call__(self, X: Array) -> Array:
        """The scaled table."""
        cut = np.clip(X[:, self.columns], self.low, self.high)
        return np.asarray(np.nan_to_num((cut - self.centre) / self.scale, nan=0.0))


def scaler(X: Array) -> Scaler:
    """Learn to scale: limits are the quantiles 0.002 and 0.998."""
    ordered = np.sort(X, axis=0)
    n = (~np.isnan(X)).sum(axis=0)
    every = np.arange(X.shape[1])
    low, high = (ordered[np.rint(q * np.maximum(n - 1, 0)).astype(int), every] for q in (0.002, 0.998))
    columns = np.flatnonzero((n > 0) & (high > low))
    low, high = low[columns], high[columns]
    cut = np.clip(X[:, columns], low, high)
    centre = np.nansum(cut, axis=0) / n[columns]
    scale = np.sqrt(np.nansum((cut - centre) ** 2, axis=0) / n[columns])
    return Scaler(columns, low, high, centre, np.maximum(scale, 1e-300))


@dataclass(frozen=True, slots=True)
class LogisticFitter:
    """Logistic regression; the setting is the penalty on the squared weights, for a row."""

    penalties: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    cells: int = 1_100_000
    """Rows times columns that are learned from, at most."""
    folds: int = 4

    def path(self, data: Labelled, held: Array, rng: np.random.Generator) -> list[tuple[float, Array]]:
        """Evidence on held-out rows for each penalty."""
        some = data.some(_rows(data, self.cells), rng)
        return [(penalty, self.fitted(some, penalty, rng)(held)) for penalty in self.penalties]

    def fitted(self, data: Labelled, setting: float | None, rng: np.random.Generator) -> Predict:
        """Learn with a penalty."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        data = data.some(_rows(data, self.cells), rng)
        scaled = scaler(data.X)
        penalty = 1e-2 if setting is None else setting
        model = LogisticRegression(C=1.0 / (penalty * len(data.y)), class_weight="balanced", max_iter=150, tol=1e-3)
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # nearly there is good enough: it is scored
            model.fit(scaled(data.X), data.y)
        return lambda X: _evidence(model.predict_proba(scaled(X)), model.classes_, data.m)


@dataclass(frozen=True, slots=True)
class BoostingFitter:
    """Gradient boosting of small trees; the setting is their number.

    Rows are not weighted (with weights, finding bins takes longer than growing trees): the odds among the labels are
    divided out of what it finds.
    """

    trees: int = 100
    leaves: int = 12
    rate: float = 0.12
    cells: int = 1_800_000
    """Rows times columns that are learned from, at most."""
    folds: int = 2

    def path(self, data: Labelled, held: Array, rng: np.random.Generator) -> list[tuple[float, Array]]:
        """Evidence on held-out rows after every few trees."""
        data = data.some(_rows(data, self.cells), rng)
        columns, share = _varying(data.X), _shares(data.y)
        model = self._model(data, self._rounds(data.m), rng)
        with one_thread():
            model.fit(data.X[:, columns], data.y)
            stages = model.staged_predict_proba(held[:, columns])
            every = [
                (float(k), _evidence(stage / share, model.classes_, data.m))
                for k, stage in enumerate(stages, 1)
                if _kept(k)
            ]
        return every

    def fitted(self, data: Labelled, setting: float | None, rng: np.random.Generator) -> Predict:
        """Learn a number of trees."""
        data = data.some(_rows(data, self.cells), rng)
        columns, share = _varying(data.X), _shares(data.y)
        model = self._model(data, self._rounds(data.m) // 2 if setting is None else round(setting), rng)
        with one_thread():
            model.fit(data.X[:, columns], data.y)

        def predict(X: Array) -> Array:
            with one_thread():
                return _evidence(model.predict_proba(X[:, columns]) / share, model.classes_, data.m)

        return predict

    def _rounds(self, m: int) -> int:
        return self.trees if m == 2 else max(2 * self.trees // m, 20)

    def _model(self, data: Labelled, rounds: int, rng: np.random.Generator) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        n = len(data.y)
        return HistGradientBoostingClassifier(
            learning_rate=self.rate, max_iter=rounds, max_leaf_nodes=self.leaves, l2_regularization=2.0, max_bins=63,
            min_samples_leaf=min(max(20, n // 500), max(n // 10, 1)), early_stopping=False,
            random_state=int(rng.integers(2**31)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class NeighboursFitter:
    """Nearest neighbours; the setting is their number.

    Distances are taken in few dimensions: the directions that tell the mean of a value from that of another, at double
    weight, and those in which most of the variance is.
    """

    numbers: tuple[int, ...] = (5, 15, 40, 100)
    dimensions: int = 8
    most: int = 10_000
    folds: int = 4

    def path(self, data: Labelled, held: Array, rng: np.random.Generator) -> list[tuple[float, Array]]:
        """Evidence on held-out rows for each number of neighbours."""
        counts = self._counts(data.some(self.most, rng))(held)
        return [(float(k), counts(k)) for k in self.numbers]

    def fitted(self, data: Labelled, setting: float | None, rng: np.random.Generator) -> Predict:
        """Keep the rows."""
        number = 40 if setting is None else round(setting)
        found = self._counts(data.some(self.most, rng), number)
        return lambda X: found(X)(number)

    def _counts(self, data: Labelled, most: int | None = None) -> Callable[[Array], Callable[[int], Array]]:
        from sklearn.neighbors import NearestNeighbors

        scaled = scaler(data.X)
        turned = _directions(scaled(data.X), data.y, data.m, self.dimensions)
        most = min(max(self.numbers) if most is None else most, len(data.y))
        with one_thread():
            rows = NearestNeighbors(n_neighbors=most, algorithm="brute", n_jobs=1).fit(scaled(data.X) @ turned)
        totals = np.bincount(data.y, minlength=data.m)
        share = np.where(totals > 0, totals, 1) / len(data.y)

        def neighbours(X: Array) -> Callable[[int], Array]:
            with one_thread():
                near = data.y[rows.kneighbors(scaled(X) @ turned, return_distance=False)]

            def counted(k: int) -> Array:
                k = min(k, most)
                # how much more often than at all a value is found there, one neighbour of all kinds added
                seen = np.stack([(near[:, :k] == i).sum(axis=1) for i in range(data.m)])
                odds = (seen + share[:, None]) / share[:, None]
                odds[totals == 0] = _UNSEEN
                return np.asarray(np.log(np.maximum(odds / odds.sum(axis=0), _UNSEEN)))

            return counted

        return neighbours


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, nothing takes a second core."""
    limits = import_module("threadpoolctl").threadpool_limits  # it comes with scikit-learn

    with limits(limits=1):
        yield


def _rows(data: Labelled, cells: int) -> int:
    """How many rows are learned from at most."""
    return max(cells // max(int(data.X.shape[1]), 1), 5_000)


def _evidence(probabilities: Array, classes: Index, m: int) -> Array:
    found = np.full((m, len(probabilities)), _UNSEEN)
    found[classes] = np.maximum(probabilities.T / probabilities.sum(axis=1), _UNSEEN)
    return np.asarray(np.log(found))


def _shares(y: Index) -> Array:
    """The share of each value that was seen."""
    counts = np.bincount(y)
    return np.asarray(counts[counts > 0] / len(y))


def _weights(y: Index) -> Array:
    counts = np.bincount(y)
    return np.asarray(len(y) / ((counts > 0).sum() * counts[y]))


def _varying(X: Array) -> Index:
    """Columns in which something is told."""
    low, high = (
        function(np.where(np.isnan(X), fill, X), axis=0) for function, fill in ((np.min, np.inf), (np.max, -np.inf))
    )
    found = np.flatnonzero(high > low)
    return found if found.size else np.arange(1)


def _kept(k: int) -> bool:
    return k in (1, 2, 3, 4, 6, 8) or k % 5 == 0


def _directions(X: Array, y: Index, m: int, dimensions: int) -> Array:
    """Directions (columns, dimensions) to take distances in, each with variance 1, the discriminating ones with 4."""
    n, f = X.shape
    if f == 0:
        return np.zeros((0, 1))
    values, vectors = np.linalg.eigh(X.T @ X / n)
    order = np.argsort(-values)[: min(dimensions, f)]
    wide = vectors[:, order] / np.sqrt(np.maximum(values[order], 1e-9))
    weights = _weights(y)[:, None]
    means = np.stack(
        [(weights * X)[y == i].sum(axis=0) / max(float(weights[y == i].sum()), 1e-9) for i in np.unique(y)]
    )
    inside = X - means[np.searchsorted(np.unique(y), y)]
    S = (weights * inside).T @ inside / n + 1e-2 * np.eye(f)
    apart = np.linalg.solve(S, (means[1:] - means[0]).T)
    spread = np.sqrt(np.maximum(((X @ apart) ** 2).mean(axis=0), 1e-18))
    return np.concatenate([wide, 2.0 * apart / spread], axis=1)
