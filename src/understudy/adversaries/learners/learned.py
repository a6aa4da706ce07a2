"""Adversaries off the shelf: logistic regression, gradient boosting and nearest neighbours, on a table of features.

They need scikit-learn (the extra `sklearn`). Every value counts alike while they learn, however rare it is, and so what
they give is evidence: a posterior over a prior. What learning leaves open (a penalty, a number of trees, a number of
neighbours) is settled on stretches of time that were held out; then they learn again from all there is. Evidence
becomes log-probabilities at the odds of the labels in `understudy.adversaries.learners.smoothing_over_time`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import Cases
from understudy.adversaries.known import Known
from understudy.adversaries.learners.estimators import (
    BoostingFitter,
    Fitter,
    Labelled,
    LogisticFitter,
    NeighboursFitter,
    Predict,
)
from understudy.adversaries.learners.features import Recipe, features, recipe_for
from understudy.adversaries.learners.holding_out import held_out
from understudy.adversaries.learners.references import Told, clock_table, prior_of
from understudy.adversaries.learners.smoothing_over_time import tempered
from understudy.adversaries.learners.weighing import Weighed, clock_held_out, joined, temper
from understudy.laws.base import Array

_MOST_HELD = 10_000  # rows on which a setting is chosen


@dataclass(frozen=True, slots=True)
class Learned:
    """A way to learn, on features of the output and of the clock where there is one."""

    name: str
    fitter: Fitter = field(repr=False)

    def objection(self, cases: Cases, known: Known) -> str:
        """It needs scikit-learn."""
        return "" if find_spec("sklearn") else 'it needs scikit-learn: pip install "understudy[sklearn]"'

    def learn(self, cases: Cases, known: Known, rng: np.random.Generator) -> Weighed | Told:
        """Learn from the features of labelled outputs."""
        judged = cases.truth >= 0
        if len(np.unique(cases.truth[judged])) < 2:
            return Told(prior_of(cases), clock_table(cases))
        recipe = recipe_for(cases)
        X = features(cases, recipe).values
        splits = held_out(cases, recipe.windows[-1] // 2, self.fitter.folds)
        setting, evidence = None, np.zeros((cases.m, *cases.truth.shape))
        if splits:
            paths = [self.fitter.path(_labelled(X, cases, fit), X[held.ravel()], rng) for fit, held in splits]
            truths = [cases.truth[split.held] for split in splits]
            best = _best([[found for _, found in path] for path in paths], truths, prior_of(cases), rng)
            setting = paths[0][best][0]
            for split, path in zip(splits, paths, strict=True):
                evidence[:, split.held] = path[best][1]
        tempering = temper(evidence, clock_held_out(cases, splits), cases, splits)
        predict = self.fitter.fitted(_labelled(X, cases, judged), setting, rng)
        return joined(_Table(recipe, predict), cases, tempering)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Table:
    """Features, and what was learned from them."""

    recipe: Recipe
    predict: Predict

    def evidence(self, cases: Cases) -> Array:
        found = self.predict(features(cases, self.recipe).values)
        return np.asarray(found.reshape(len(found), *cases.truth.shape))


@dataclass(frozen=True, slots=True)
class Logistic(Learned):
    """Logistic regression."""

    name: str = "logistic regression"
    fitter: Fitter = field(default=LogisticFitter(), repr=False)


@dataclass(frozen=True, slots=True)
class Boosting(Learned):
    """Gradient boosting of small trees.

    >>> labels = np.random.default_rng(1).integers(2, size=(1, 600)).repeat(20, axis=0)
    >>> outputs = ((1 + labels) * np.random.default_rng(2).normal(size=labels.shape))[:, None, :]
    >>> cases = Cases(outputs, labels, np.tile(np.arange(600), (20, 1)), m=2, once=True)
    >>> attack = Boosting().learn(cases.sequences(slice(400)), None, np.random.default_rng(3))
    >>> bool((attack.logits(cases.sequences(slice(400, 600))).argmax(axis=0) == labels[0, 400:]).mean() > 0.9)
    True
    """

    name: str = "gradient boosting"
    fitter: Fitter = field(default=BoostingFitter(), repr=False)


@dataclass(frozen=True, slots=True)
class Neighbours(Learned):
    """Nearest neighbours."""

    name: str = "nearest neighbours"
    fitter: Fitter = field(default=NeighboursFitter(), repr=False)


def _labelled(X: Array, cases: Cases, where: NDArray[np.bool_]) -> Labelled:
    return Labelled(X[where.ravel()], cases.truth[where], cases.m)


def _best(paths: list[list[Array]], truths: list[NDArray[np.int64]], prior: Array, rng: np.random.Generator) -> int:
    """Which setting has the greatest mean log-probability on rows that were held out."""
    truth = np.concatenate(truths)
    some = rng.permutation(len(truth))[:_MOST_HELD]
    everything = np.ones(len(some), dtype=bool)
    scores = [
        tempered([np.concatenate(found, axis=1)[:, some]], truth[some], everything, prior).score
        for found in zip(*paths, strict=True)
    ]
    return int(np.argmax(scores))
