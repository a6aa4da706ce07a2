"""How often the best guess of a moving parameter is wrong at least: bounds from simulation that do hold.

A simulation ends somewhere and has finitely many sequences. Neither may make a bound too good.

**The end.** Later draws tell about earlier values too, and where the parameter moves slowly they do so for long. So the
simulated adversary is *told the true value* at the last decision N that is simulated. Given that value and the
pseudo values up to N, the pseudo values after N are independent of theta_k for k <= N: the chain is a Markov chain, and
draws depend on the present value and the pseudo past. Hence to see all of them, without being told, tells no more; and
who knows more errs no more. The bound holds however long the sequence goes on. That N is far away matters only for how
much is given up, and how far follows from the mixing of the chain.

**The number of sequences.** Where changes are rare nearly all simulated sequences look alike, and a standard error says
nothing. With x_1 .. x_n independent and not negative, of mean at most m, and 0 <= c <= 1, the expectation of ::

    E(m) = prod_s (1 + c (x_s / m - 1))

is at most 1, so that E(m) >= 10^6 comes once in a million at most; the same is true of a mean over several c. The least
mean that is not refuted so is a lower bound, whatever the law of x, for any n.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array
from understudy.randomizer.causal.analysis import play, posteriors
from understudy.randomizer.causal.beliefs import Beliefs

ONCE = 1e-6  # that a simulated bound is too good
_SEED = 20230203  # a card that is made twice is the same card
_FORGOTTEN = 1e-3  # what may be left of the second eigenvalue over a margin
_NEAREST = 24  # decisions of a margin at least
_FEW, _MANY = 64, 512  # sequences
_BETS = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.97])


class Plan(NamedTuple):
    """What is simulated: guesses of decisions `first` to `last` are counted, of `decisions`, in so many sequences.

    `settled` says whether the chain forgets its start before the first of them, and its end after the last.
    """

    first: int
    last: int
    decisions: int
    sequences: int
    settled: bool


class Wrong(NamedTuple):
    """The least share of wrong guesses at the time, and of those afterwards."""

    filtering: float
    smoothing: float


def planned(beliefs: Beliefs, how: str) -> Plan:
    """Whole turns of the matrices, after and before margins that follow the mixing of the chain as far as they may.

    >>> planned(Beliefs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0), "exact")
    Plan(first=32, last=79, decisions=110, sequences=512, settled=True)
    """
    few = how in ("exact", "merged")  # few beliefs occur, so that kernels are at hand
    work, inside = (200_000, 48) if few else (20_000, 24)
    turn = beliefs.period
    inside = -(-inside // turn) * turn
    wanted = mixing(beliefs.transitions)
    longest = max(_NEAREST, (work // (2 * _FEW) - inside) // 2)
    margin = -(-int(min(max(wanted, _NEAREST), longest)) // turn) * turn
    decisions = 2 * margin + inside
    sequences = int(min(_MANY, max(_FEW, work // decisions)))
    return Plan(margin + 1, margin + inside, decisions, sequences, wanted <= margin)


def mixing(transitions: Array) -> float:
    """Decisions over which the second eigenvalue of the chain falls to a thousandth; infinite if it never does.

    >>> mixing(np.array([[[0.95, 0.05], [0.05, 0.95]]])), mixing(np.eye(2)[None])
    (66, inf)
    """
    turn = transitions[0] if len(transitions) == 1 else np.linalg.multi_dot(list(transitions))
    moduli = np.sort(abs(np.linalg.eigvals(turn)))
    second = float(moduli[-2]) if len(moduli) > 1 else 0.0
    if second >= 1.0 - 1e-12:
        return math.inf
    return len(transitions) * (1 if second <= _FORGOTTEN else math.ceil(math.log(_FORGOTTEN) / math.log(second)))


def wrong(beliefs: Beliefs, plan: Plan) -> Wrong:
    """The least shares of wrong guesses of the exact adversaries, each too good once in a million at most.

    >>> beliefs = Beliefs([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0, 1], [1, 0]], slope=2.0)
    >>> [round(share, 3) for share in wrong(beliefs, planned(beliefs, "exact"))]
    [0.115, 0.109]
    """
    if beliefs.slope == 0.0:  # the draws tell nothing, and chance has no part in it
        share = blind(beliefs, plan)
        return Wrong(share, share)
    played = play(beliefs, plan.decisions, plan.sequences, _SEED)
    inside = slice(plan.first - 1, plan.last)
    at_the_time = posteriors(played.likelihoods, beliefs.prior, beliefs.transitions).filtering[inside]
    afterwards = told_the_end(played.likelihoods, played.theta[-1], beliefs)[inside]
    filtering, smoothing = (
        least_mean(np.maximum(1.0 - seen.max(axis=2), 0.0).mean(axis=0)) for seen in (at_the_time, afterwards)
    )
    return Wrong(filtering, min(filtering, smoothing))


def told_the_end(likelihoods: Array, last: Array, beliefs: Beliefs) -> Array:
    """What is believed of each theta_k by who sees the pseudo path and is told theta at its end, (T, N, m)."""
    told = likelihoods.copy()
    told[-1] = np.eye(likelihoods.shape[2])[last]
    return posteriors(told, beliefs.prior, beliefs.transitions).smoothing


def blind(beliefs: Beliefs, plan: Plan) -> float:
    """How often the best guess is wrong that knows the chain alone, over the same decisions."""
    belief, shares = beliefs.prior, []
    for k in range(plan.last):
        shares.append(1.0 - float(belief.max()))
        belief = belief @ beliefs.transitions[k % beliefs.period]
    return max(0.0, math.fsum(shares[plan.first - 1 :]) / (plan.last - plan.first + 1))


def least_mean(x: Array, once: float = ONCE) -> float:
    """A lower bound on the mean of independent numbers that are not negative, wrong with probability `once` at most.

    >>> round(least_mean(np.full(512, 0.2)), 4), round(least_mean(np.array([0.2] * 500 + [0.0] * 12)), 4)
    (0.1938, 0.1837)
    """
    low, high = 0.0, float(x.mean())
    if not high > 0.0:
        return 0.0
    enough = math.log(len(_BETS)) - math.log(once)
    for _ in range(60):
        m = 0.5 * (low + high)
        logs = np.log1p(_BETS[:, None] * (x[None, :] / m - 1.0)).sum(axis=1)
        if float(np.logaddexp.reduce(logs)) >= enough:
            low = m
        else:
            high = m
    return low
