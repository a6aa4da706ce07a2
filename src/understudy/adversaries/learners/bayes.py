"""The best adversaries there are: one who sees the output and knows the design, and one who sees the draws themselves.

`Exact`: theta constant. By Bayes' rule Pr(theta_i given ~y) is proportional to p_i sum_j P_ij p_j(~y), with the
likelihood of the whole output under every pseudo model. If the models are right, nobody who sees the output does
better. On raw readings P is the identity.

`Genie`: who sees the pseudo values. A reference, for that is what the guarantee grants an adversary. Constant: the most
probable theta_i by p_i P_ij. Moving: forward and backward over theta with the kernels that were in use, which follow
from the draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.adversaries.cases import Cases, normalised
from understudy.adversaries.known import Known
from understudy.adversaries.learners.calibration import believed, surprise
from understudy.adversaries.learners.chains import Chain, Plan, cells, chain_of, smoothed
from understudy.adversaries.learners.steps import refusal, sequence_logs
from understudy.adversaries.learners.timely import ALWAYS, Timely
from understudy.adversaries.learners.widened import output_models
from understudy.laws.base import Array, Frozen
from understudy.models.base import Model

_CHECKED = 4000  # training sequences that may show a model to be wrong


class Exact(Frozen):
    """Bayes' rule through the randomizer, for a theta that is constant.

    The likelihoods count as they are, unless training cases clearly show that the models are not right; then a
    temperature takes off what is too much.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> known = Known(family, (0, 1), np.array([[0.9, 0.1], [0.1, 0.9]]), family.prior, None, None, None, None)
    >>> one = np.zeros((1, 2), dtype=int)
    >>> cases = Cases(np.array([[[9.0, 0.5]]]), one, one, m=2, once=True)
    >>> np.exp(Exact().learn(cases, known, np.random.default_rng(1)).logits(cases)).round(3).tolist()
    [[0.1, 0.5], [0.9, 0.5]]
    """

    __slots__ = ()

    name = "exact Bayes"

    def objection(self, cases: Cases, known: Known) -> str:
        """Theta must be constant, and the models quick enough."""
        if not cases.once:
            return "theta moves; the smoother is the one for that"
        return refusal(output_models(known), cases.T * cases.N, moving=False)

    def learn(self, cases: Cases, known: Known, rng: np.random.Generator) -> BayesAttack:
        """There is nothing to learn but a temperature."""
        made = BayesAttack(tuple(output_models(known)), known.kernel, known.prior)
        few = cases.sequences(slice(0, _CHECKED))
        logs = sequence_logs(made.models, few.outputs)
        found = believed(lambda t: surprise(made.posterior(logs, t), few.labels[0]), few.guesses)
        timely = Timely.learned(made.posterior(logs, found), few, cases, rng)
        return BayesAttack(made.models, known.kernel, known.prior, found, timely)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BayesAttack:
    """Pseudo models, kernel, prior, temperature, and what the clock adds."""

    models: tuple[Model, ...]
    kernel: Array
    prior: Array
    temperature: float = 1.0
    timely: Timely = ALWAYS

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities of each value, (m, N)."""
        said = self.posterior(sequence_logs(self.models, cases.outputs), self.temperature)
        return self.timely.logits(said, cases)

    def posterior(self, logs: Array, temperature: float) -> Array:
        """The same from log-likelihoods (n, N)."""
        scaled = temperature * logs
        weights = (self.prior[:, None] * self.kernel) @ np.exp(scaled - scaled.max(axis=0))
        with np.errstate(divide="ignore"):
            return normalised(np.log(weights))


class Genie(Frozen):
    """Sees the pseudo values: what the guarantee bounds, by enumeration."""

    __slots__ = ()

    name = "sees the pseudo values"

    def objection(self, cases: Cases, known: Known) -> str:
        """It needs pseudo values."""
        return "" if cases.pseudo is not None else "the pseudo values are not known here"

    def learn(self, cases: Cases, known: Known, rng: np.random.Generator) -> GenieAttack:
        """How theta moves, if it does."""
        every = known.decision_every or cases.T
        chain = None if cases.once else chain_of(cases, known, every)
        return GenieAttack(known, chain, every)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GenieAttack:
    """What is known, how theta moves, and how often there is a draw."""

    known: Known
    chain: Chain | None
    every: int

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities (m, T, N), or (m, N) where theta is constant in a sequence."""
        known, m = self.known, cases.m
        if cases.pseudo is None:
            shape = (m, cases.N) if cases.once else (m, cases.T, cases.N)
            return normalised(np.zeros(shape))
        with np.errstate(divide="ignore"):
            logs = np.log(known.prior[:, None] * known.kernel)
        if self.chain is None:
            drawn = cases.pseudo[0]
            return normalised(np.where(drawn >= 0, logs[:, drawn], np.log(known.prior)[:, None]))
        K = -(-cases.T // self.every)
        draws = cases.pseudo[:: self.every][:K]
        likelihoods = np.stack([draw_likelihoods(known, draws[:, s], m) for s in range(cases.N)], axis=1)  # (K, N, m)
        with np.errstate(divide="ignore"):
            return normalised(np.log(_smoothed(likelihoods, self.chain, cells(cases), self.every)[:, : cases.T]))


def draw_likelihoods(known: Known, draws: Any, m: int) -> Array:
    """Pr(draw k given theta_i and the draws before), (K, m), for one path of pseudo values; ones where unknown."""
    beliefs = getattr(known.design, "beliefs", None)
    found = np.ones((len(draws), m))
    if known.raw or beliefs is None:
        there = draws >= 0
        found[there] = known.kernel[:, draws[there]].T
        return found
    state = beliefs.start()
    for k, j in enumerate(draws.tolist()):
        if j < 0:
            state = beliefs.after(state, None, None)
            continue
        kernel = beliefs.kernel(state.belief)
        found[k] = kernel[:, j]
        possible = float(np.asarray(state.belief) @ kernel[:, j]) > 0.0
        state = beliefs.after(state, kernel if possible else None, j)
    return found


def _smoothed(likelihoods: Array, chain: Chain, cell: Any, every: int) -> Array:
    """Forward and backward over theta alone, (m, K every, N): the draws are known."""
    K, N, m = likelihoods.shape
    # draws that are known speak for theta as readings do whose law depends on it: one draw for each value
    evidence = np.zeros((m, K * every, N))
    with np.errstate(divide="ignore"):
        evidence[:, ::every] = np.log(np.maximum(likelihoods, 1e-90)).transpose(2, 0, 1)
    plan = Plan(np.eye(m)[None], np.zeros((1, m), dtype=np.int64), 0)
    whole = np.concatenate([cell, np.repeat(cell[-1:], K * every - len(cell), axis=0)])
    return smoothed(evidence, plan, chain, whole, every)
