"""The smoother: who knows the design, against a theta that moves.

The output tells which pseudo value was played when, and that tells of theta, through the kernel of the randomizer and
the way theta moves. A randomizer with memory draws by the belief that its past draws have left: a *place* that
everybody could tell who saw the draws. So the hidden state is theta and the place, and forward and backward over both
is exact, as far as the log-densities of readings are (`steps`) and as far as the places are few.

On real data the models are never quite right. How much a reading may say (a cap), and how much what it says is worth
(a temperature), is learned from training cases. The clock makes the odds of a move depend on the hour, and is weighed
against the outcome once more (`understudy.adversaries.learners.timely`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import Cases, normalised
from understudy.adversaries.known import Known
from understudy.adversaries.learners.calibration import coolest, surprise
from understudy.adversaries.learners.chains import Chain, Index, Plan, cells, chain_of, powers, smoothed
from understudy.adversaries.learners.steps import refusal, step_logs
from understudy.adversaries.learners.timely import ALWAYS, Timely
from understudy.adversaries.learners.widened import output_models
from understudy.laws.base import Array, Frozen
from understudy.models.base import Model
from understudy.randomizer.causal.beliefs import Beliefs, rounded

_PLACES = 256
_PIECE = 512  # readings of a piece of training data
_PIECES = 64
_CAPS = (np.inf, 6.0, 2.0)
_WORTH = 0.002  # nats a reading that must be gained before a model is taken for wrong


class Smoother(Frozen):
    """Forward and backward over theta and the randomizer's memory.

    >>> import understudy as us
    >>> from understudy.randomizer.causal.analysis import play
    >>> stay = np.array([[0.95, 0.05], [0.05, 0.95]])
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 0.25)), values=[0, 1])
    >>> design = us.design_causal(family, stay, slope=2.0, distortion=[[0, 1], [1, 0]])
    >>> kernel = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> known = Known(family, (0, 1), kernel, family.prior, stay, 1, None, design)
    >>> played = play(design.beliefs, 300, 20, rng=1)
    >>> outputs = np.random.default_rng(2).normal(played.pseudo, 0.5)[:, None, :]
    >>> cases = Cases(outputs, played.theta, np.zeros((300, 20), dtype=int), 2, False)
    >>> attack = Smoother().learn(cases, known, np.random.default_rng(3))
    >>> bool((attack.logits(cases).argmax(axis=0) == played.theta).mean() > 0.87)
    True
    """

    __slots__ = ()

    name = "smoother that knows the design"

    def objection(self, cases: Cases, known: Known) -> str:
        """Theta must move, and the models have filters."""
        if cases.once:
            return "theta is constant; exact Bayes is the one for that"
        return refusal(output_models(known), cases.T * cases.N, moving=True)

    def learn(self, cases: Cases, known: Known, rng: np.random.Generator) -> SmoothAttack:
        """How theta moves, and what the evidence of a reading is worth."""
        every = 1 if known.raw else known.decision_every or cases.T
        chain, plan = chain_of(cases, known, every), plan_of(known)
        models = tuple(output_models(known))
        made = SmoothAttack(models, chain, plan, every, played_moves(known, chain, every))
        pieces = in_pieces(cases, every)
        evidence = step_logs(models, pieces.outputs, made.mixing, every)
        cell = cells(pieces)

        def loss(t: float, cap: float) -> float:
            return surprise(made.posterior(evidence, cell, t, cap), pieces.labels)

        best = (loss(1.0, np.inf) - _WORTH, 1.0, np.inf)
        for cap in _CAPS:
            t = coolest(lambda t, cap=cap: loss(t, cap))  # type: ignore[misc]  # bound to this cap
            best = min(best, (loss(t, cap), t, cap))
        said = made.posterior(evidence, cell, *best[1:])
        timely = Timely.learned(said, pieces, cases, rng)
        return SmoothAttack(models, chain, plan, every, made.mixing, best[1], best[2], timely)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SmoothAttack:
    """Pseudo models, how theta moves, how draws depend on it, readings a decision, moves of the pseudo value."""

    models: tuple[Model, ...]
    chain: Chain
    plan: Plan
    every: int
    mixing: Array
    temperature: float = 1.0
    cap: float = np.inf
    timely: Timely = ALWAYS

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities of each value at each reading, (m, T, N)."""
        evidence = step_logs(self.models, cases.outputs, self.mixing, self.every)
        return self.timely.logits(self.posterior(evidence, cells(cases), self.temperature, self.cap), cases)

    def posterior(self, evidence: Array, cell: Index, temperature: float, cap: float) -> Array:
        """The same from log-densities (n, T, N)."""
        ahead = np.maximum(evidence - evidence.max(axis=0), -cap)
        with np.errstate(divide="ignore"):
            return normalised(np.log(smoothed(temperature * ahead, self.plan, self.chain, cell, self.every)))


def plan_of(known: Known) -> Plan:
    """How draws depend on theta: the places of a randomizer with memory, or one kernel.

    >>> import understudy as us
    >>> stay = np.array([[0.95, 0.05], [0.05, 0.95]])
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> design = us.design_causal(family, stay, slope=2.0, distortion=[[0, 1], [1, 0]])
    >>> plan_of(Known(family, (0, 1), np.eye(2), family.prior, stay, 1, None, design)).kernels.shape
    (3, 2, 2)
    """
    beliefs = getattr(known.design, "beliefs", None)
    if not known.raw and beliefs is not None:
        for grid in (2.0**20, 2.0**10, 2.0**6):
            plan = _places(beliefs, grid)
            if plan is not None:
                return plan
    n = known.kernel.shape[1]
    return Plan(known.kernel[None], np.zeros((1, n), dtype=np.int64), 0)


def _places(beliefs: Beliefs, grid: float) -> Plan | None:
    """All beliefs that draws can lead to, those that agree on the grid counted as one; None if they are too many."""
    first = beliefs.start()
    known = {(0, rounded(first.belief, grid)): 0}
    waiting, kernels, after = [first], [], []
    for at, state in enumerate(waiting):  # which grows
        kernel = beliefs.kernel(state.belief)
        kernels.append(kernel)
        leads = np.full(kernel.shape[1], at, dtype=np.int64)
        for j in np.flatnonzero(np.asarray(state.belief) @ kernel > 0.0).tolist():
            then = beliefs.after(state, kernel, j)
            key = (then.k % beliefs.period, rounded(then.belief, grid))
            if key not in known:
                if len(known) >= _PLACES:
                    return None
                known[key] = len(known)
                waiting.append(then._replace(k=then.k % beliefs.period))
            leads[j] = known[key]
        after.append(leads)
    return Plan(np.stack(kernels), np.stack(after), 0)


def played_moves(known: Known, chain: Chain, every: int) -> Array:
    """Odds (n, n) of going from one pseudo value to another at a decision, for a bank of filters: an approximation.

    Theta given the pseudo value, then where theta moves, then what is drawn for it.
    """
    P = np.maximum(known.kernel, 1e-6)
    P = P / P.sum(axis=1, keepdims=True)
    back = known.prior[:, None] * P
    back = back / back.sum(axis=0)
    moves = powers(chain, every)[every, -1]
    return np.asarray(back.T @ moves @ P)


def in_pieces(cases: Cases, every: int) -> Cases:
    """Training cases cut into pieces of some hundred readings side by side, as many as it takes to learn a number."""
    size = max(every, _PIECE // every * every)
    if size >= cases.T:
        return cases.sequences(slice(0, max(1, _PIECES * size // cases.T)))
    count = cases.T // size
    keep = _spread(count * cases.N, _PIECES)

    def cut(part: Any) -> Any:
        if part is None:
            return None
        pieces = part[: count * size].reshape(count, size, *part.shape[1:])
        pieces = np.moveaxis(pieces, 0, -1)  # (size, .., N, count)
        return np.ascontiguousarray(pieces.reshape(*pieces.shape[:-2], -1)[..., keep])

    return Cases(
        cut(cases.outputs), cut(cases.labels), cut(cases.blocks), cases.m, cases.once, cut(cases.hours), cut(cases.days)
    )


def _spread(count: int, most: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
