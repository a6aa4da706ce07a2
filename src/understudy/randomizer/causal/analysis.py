"""A causal randomizer at work in simulation, and what adversaries make of it.

Who sees ~theta_1 .. ~theta_k filters; who waits until the end smooths, by the forward-backward recursion over theta
with the kernels that were in use along the path. Both are exact and know everything but theta and the coins, so
nobody who sees disguised readings alone does better. Smoothing never does worse than filtering and does better where
the chain is persistent: what holds of a decision at its time does not hold for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import DesignError
from understudy.laws.base import Array
from understudy.randomizer.causal.beliefs import Beliefs, Fixed

# Simulation ----------------------------------------------------------------------------------------------


class Played(NamedTuple):
    """Simulated sequences, time first: (T, N), and (T, N, m) for likelihoods.

    `theta` and `pseudo` are positions; `likelihoods[k, s, i]` is the probability of draw k had theta been value i;
    `charges` are the nats told by each decision; `costs` the expected surrogate distortion given the pseudo path so
    far.
    """

    theta: NDArray[np.int64]
    pseudo: NDArray[np.int64]
    likelihoods: Array
    charges: Array
    costs: Array


def play(beliefs: Beliefs, decisions: int, sequences: int, rng: Any = None, every: int = 1) -> Played:
    """Simulate private paths and the draws made for them.

    With `every` a pseudo value is drawn at each so many-th step only and held in between: an epoch.

    >>> beliefs = Beliefs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0)
    >>> played = play(beliefs, 50, 10, rng=1)
    >>> played.pseudo.shape, played.likelihoods.shape
    ((50, 10), (50, 10, 2))
    """
    generator = np.random.default_rng(rng)
    N, m = sequences, len(beliefs.prior)
    each = np.arange(N)
    belief = np.tile(beliefs.prior, (N, 1))
    theta = _pick(np.cumsum(belief, axis=1), generator)
    column = np.zeros(N, dtype=np.int64)
    out = Played(
        np.empty((decisions, N), dtype=np.int64), np.empty((decisions, N), dtype=np.int64),
        np.ones((decisions, N, m)), np.zeros((decisions, N)), np.empty((decisions, N)),
    )  # fmt: skip
    finite = np.where(np.isfinite(beliefs.cost), beliefs.cost, 0.0)  # forbidden pairs are not drawn
    for k in range(decisions):
        if k % every == 0:
            P = _kernels_for(beliefs, belief)
            column = _pick(np.cumsum(P[each, theta], axis=1), generator)
            out.charges[k] = _told(belief, P)
            out.likelihoods[k] = P[each, :, column]
            belief = belief * out.likelihoods[k]
            belief /= belief.sum(axis=1, keepdims=True)
        out.theta[k], out.pseudo[k] = theta, column
        out.costs[k] = (belief * finite[:, column].T).sum(axis=1)
        T = beliefs.transitions[k % beliefs.period]
        theta = _pick(np.cumsum(T, axis=1)[theta], generator)
        belief = belief @ T
        belief /= belief.sum(axis=1, keepdims=True)
    return out


def _pick(ends: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One position for each row of cumulative probabilities; none of probability zero."""
    u = rng.random(len(ends))[:, None] * ends[:, -1:]
    return np.asarray((ends <= u).sum(axis=1), dtype=np.int64)


def _kernels_for(beliefs: Beliefs, belief: Array) -> Array:
    if isinstance(beliefs, Fixed):
        return np.broadcast_to(beliefs.kernel(()), (len(belief), *beliefs.cost.shape))
    return np.array([beliefs.kernel(b) for b in belief.tolist()])


def _told(belief: Array, P: Array) -> Array:
    """I_b(P) of many."""
    r = np.einsum("si,sij->sj", belief, P)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(P > 0.0, P * np.log(P / r[:, None, :]), 0.0)
    return np.asarray(np.maximum(np.einsum("si,sij->s", belief, np.where(belief[:, :, None] > 0.0, terms, 0.0)), 0.0))


def mean(x: Array) -> tuple[float, float]:
    """The mean of what stands in (T, N), and its standard error from the N independent sequences."""
    each = x.mean(axis=0)
    return float(each.mean()), float(each.std(ddof=1) / math.sqrt(len(each))) if len(each) > 1 else math.nan


# Adversaries ---------------------------------------------------------------------------------------------


class Posteriors(NamedTuple):
    """What the filtering and the smoothing adversary believe of each theta_k, (T, N, m)."""

    filtering: Array
    smoothing: Array


def posteriors(likelihoods: Array, prior: Any, transitions: Array) -> Posteriors:
    """Forward and backward over theta, along given likelihoods (T, N, m): exact.

    >>> T = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> seen = posteriors(np.array([[[0.8, 0.2]], [[0.8, 0.2]]]), [0.5, 0.5], T)
    >>> seen.filtering[:, 0, 0].round(4).tolist(), seen.smoothing[:, 0, 0].round(4).tolist()
    ([0.8, 0.9193], [0.9193, 0.9193])
    """
    steps, N, m = likelihoods.shape
    forward, smooth = np.empty((steps, N, m)), np.empty((steps, N, m))
    belief = np.tile(np.asarray(prior, dtype=float), (N, 1))
    for k in range(steps):
        belief = belief * likelihoods[k]
        belief /= belief.sum(axis=1, keepdims=True)
        forward[k] = belief
        belief = belief @ transitions[k % len(transitions)]
    message = np.ones((N, m))
    for k in range(steps - 1, -1, -1):
        smooth[k] = forward[k] * message
        smooth[k] /= smooth[k].sum(axis=1, keepdims=True)
        message = (message * likelihoods[k]) @ transitions[(k - 1) % len(transitions)].T
        message /= message.sum(axis=1, keepdims=True)
    return Posteriors(forward, smooth)


@dataclass(frozen=True, slots=True)
class Errors:
    """How often the exact adversaries are wrong about theta_k, the mean over a sequence, with standard errors."""

    filtering: float
    filtering_error: float
    smoothing: float
    smoothing_error: float
    rate: float
    rate_error: float
    distortion: float
    distortion_error: float


def errors(
    beliefs: Beliefs, decisions: int = 200, sequences: int = 500, rng: Any = None, every: int = 1, margin: int = 0
) -> Errors:
    """The errors of the filtering and the smoothing adversary, with leakage and distortion of the same sequences.

    The chance of being wrong is known given the pseudo path, so nothing but the path is left to chance. `margin`
    decisions at each end are left out of the means: at the start an adversary knows less, at the end there is nothing
    to wait for.

    >>> beliefs = Beliefs([0.5, 0.5], [[0.98, 0.02], [0.02, 0.98]], [[0, 1], [1, 0]], slope=2.0)
    >>> found = errors(beliefs, 100, 50, rng=1)
    >>> round(found.filtering, 6), found.smoothing < found.filtering
    (0.119203, True)
    """
    if 2 * margin >= decisions:
        raise DesignError(f"margin = {margin} at both ends of {decisions} decisions; nothing is left between")
    played = play(beliefs, decisions, sequences, rng, every)
    seen = posteriors(played.likelihoods, beliefs.prior, beliefs.transitions)
    inside = slice(margin, decisions - margin)
    f, s, r, d = (
        mean(x[inside])
        for x in (1.0 - seen.filtering.max(axis=2), 1.0 - seen.smoothing.max(axis=2), played.charges, played.costs)
    )
    return Errors(*f, *s, *r, *d)
