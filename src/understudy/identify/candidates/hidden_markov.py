"""Hidden Markov candidates: a level that moves among a few, and for each level and value a normal law of the reading.

The moves are shared by all values, as streams with a moving parameter demand; the laws belong to the value. Maximum
likelihood by expectation and maximisation (Baum and Welch), from several starts: the compiled forward recursion of the
transformation gives the probabilities of the hidden states given the past, and run backwards in time, on the transposed
matrix, what the future says of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy import text
from understudy._types import Array, Index, Seed
from understudy.identify.candidates import Candidate, Rows, cell_deviations, gaussian, groups, rows_of
from understudy.models.hidden_markov import HiddenMarkov
from understudy.transform.backend import kernels_hidden, view

if TYPE_CHECKING:
    from understudy.identify.history import History


_STARTS, _MOST = 4, 200
_LEAN = 2.0  # readings' worth of what all values together say of a state
_SETTLED = 1e-6  # gain in log-likelihood of a reading below which the optimisation ends
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True)
class Chain:
    """The parameters: A (S, S), initial (S,), means (G, S, d), covs (G, S, d, d)."""

    A: Array
    initial: Array
    means: Array
    covs: Array


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the readings say of the hidden states: log-likelihood, probabilities (N, S), moves (S, S), starts (S,)."""

    loglik: float
    gamma: Array
    moves: Array
    starts: Array


def fit_hidden(history: History, *, states: int = 3, random_state: Seed = 0) -> Candidate:
    """A hidden Markov model for each value of the private parameter, with shared moves.

    Four optimisations are begun, the first two from the quantiles of the readings, the others at random cuts
    (`random_state`); the best is led on, for at most 200 steps.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> A = [[0.95, 0.05], [0.05, 0.95]]
    >>> def room(v):
    ...     return us.HiddenMarkov(A, [0.5, 0.5], [us.Gaussian(v, 1.0), us.Gaussian(8.0 + v, 1.0)])
    >>> family = us.Family(room, [0.0, 3.0])
    >>> theta = np.repeat([0, 1], 500)
    >>> y = us.sample(family.along([0.0] * 500 + [3.0] * 500), 1000, rng=1)
    >>> history = History(("y",), "theta", None, (), (0.0, 3.0), None, (Segment("1", None, y[:, None], theta),), ())
    >>> fit = fit_hidden(history, states=2)
    >>> fit, np.round(fit.parameters["mean"]).tolist()
    (Candidate('hidden Markov, 2 states', 2 values, 11 free parameters), [[0.0, 8.0], [3.0, 11.0]])
    """
    rows = rows_of(history)
    d = rows.dim
    which, notes = groups(rows.counts(len(history.values)), history.values, max(30, 10 * states))
    group = which[rows.theta]
    floor = np.maximum(np.square(cell_deviations(rows)), 1e-6 * np.square(np.nanstd(rows.Y, axis=0)))
    rng = np.random.default_rng(random_state)
    begun = [_begin(rows, group, states, number, rng, floor) for number in range(_STARTS)]
    tried = [_optimise(chain, rows, group, floor, 15) for chain in begun]
    chain, _, rounds = _optimise(max(tried, key=lambda one: one[1])[0], rows, group, floor, _MOST)
    if rounds == _MOST:
        notes += (text.fit_note("optimisation ended", steps=_MOST),)
    order = np.argsort(chain.means[:, :, 0].mean(axis=0))
    A, initial = chain.A[np.ix_(order, order)], chain.initial[order]
    means, covs = chain.means[:, order], chain.covs[:, order]
    made = [
        HiddenMarkov(A, initial, [gaussian(*law) for law in zip(*laws, strict=True)])
        for laws in zip(means, covs, strict=True)
    ]
    parameters = {
        "values": list(history.values),
        "transition": A.tolist(),
        "initial": initial.tolist(),
        "mean": (means[which, :, 0] if d == 1 else means[which]).tolist(),
        "covariance": (covs[which, :, 0, 0] if d == 1 else covs[which]).tolist(),
    }
    count = states * (states - 1) + states - 1 + len(means) * states * (d + d * (d + 1) // 2)
    name = f"hidden Markov, {states} state{'' if states == 1 else 's'}"
    return Candidate(name, dict(zip(history.values, (made[g] for g in which), strict=True)), parameters, count, notes)


def expectation_step(chain: Chain, rows: Rows, group: Index) -> Expectation:
    """Forwards and backwards through all segments."""
    N, S = len(rows.Y), len(chain.A)
    G = log_densities_of(chain, rows, group)
    W, back = np.empty((N, S)), np.empty((N, S))
    forwards = view(np.ascontiguousarray(chain.A).reshape(-1))
    backwards = view(np.ascontiguousarray(chain.A.T).reshape(-1))
    work = view(np.empty(2 * S))
    for piece in rows.pieces:
        g, T = G[piece], piece.stop - piece.start
        kernels_hidden.forward(
            view(g.reshape(-1)), T, 1, S, forwards, view(chain.initial.copy()), view(W[piece].reshape(-1)), work
        )
        turned, out = np.ascontiguousarray(g[::-1]), np.empty((T, S))
        # before row k comes, the backward probabilities are those of the readings after it: beta_k, normalised
        kernels_hidden.forward(
            view(turned.reshape(-1)), T, 1, S, backwards, view(np.full(S, 1.0 / S)), view(out.reshape(-1)), work
        )
        back[piece] = out[::-1]
    top = np.where(rows.used, G.max(axis=1), 0.0)
    B = np.where(rows.used[:, None], np.exp(G - top[:, None]), 1.0)
    filtered = W * B
    scale = filtered.sum(axis=1)
    loglik = float((np.log(scale) + top)[rows.used].sum())
    filtered /= scale[:, None]
    gamma = filtered * back
    gamma /= gamma.sum(axis=1, keepdims=True)
    # Pr(s_k = i, s_{k+1} = j) = filtered_k(i) A_ij B_{k+1}(j) beta_{k+1}(j) / their sum
    later = (B * back)[1:]
    norm = np.einsum("kj,kj->k", filtered[:-1] @ chain.A, later)
    share = np.where(rows.opening[1:], 0.0, 1.0 / norm)
    moves = chain.A * (filtered[:-1].T @ (later * share[:, None]))
    return Expectation(loglik, gamma, moves, gamma[rows.starts].sum(axis=0))


def log_densities_of(chain: Chain, rows: Rows, group: Index) -> Array:
    """Log-densities (N, S) of the readings in each hidden state; NaN where none counts."""
    G = np.full((len(rows.Y), len(chain.A)), np.nan)
    d = rows.dim
    for g in range(len(chain.means)):
        at = np.flatnonzero(rows.used & (group == g))
        for s in range(len(chain.A)):
            L = np.linalg.cholesky(chain.covs[g, s])
            z = np.linalg.solve(L, (rows.Y[at] - chain.means[g, s]).T)
            G[at, s] = -0.5 * np.square(z).sum(axis=0) - np.log(np.diag(L)).sum() - d * _HALF_LOG_2PI
    return G


def maximisation_step(found: Expectation, rows: Rows, group: Index, G: int, floor: Array) -> Chain:
    """The parameters that these expectations ask for; a law of few readings leans on that of all values together."""
    S, d = found.gamma.shape[1], rows.dim
    moves = found.moves + 1e-3 / S
    Y, gamma, label = rows.Y[rows.used], found.gamma[rows.used], group[rows.used]
    total = gamma.sum(axis=0) + 1e-9
    pooled = gamma.T @ Y / total[:, None]
    means, covs = np.empty((G, S, d)), np.empty((G, S, d, d))
    for s in range(S):
        E = Y - pooled[s]
        common = (gamma[:, s, None] * E).T @ E / total[s] + np.diag(floor)
        for g in range(G):
            weight = gamma[:, s] * (label == g)
            n = weight.sum() + _LEAN
            means[g, s] = (weight @ Y + _LEAN * pooled[s]) / n
            E = Y - means[g, s]
            covs[g, s] = ((weight[:, None] * E).T @ E + _LEAN * common) / n + np.diag(floor)
    initial = (found.starts + 1.0 / S) / (found.starts.sum() + 1.0)
    return Chain(moves / moves.sum(axis=1, keepdims=True), initial / initial.sum(), means, covs)


def _optimise(chain: Chain, rows: Rows, group: Index, floor: Array, most: int) -> tuple[Chain, float, int]:
    before = -math.inf
    for number in range(1, most + 1):
        found = expectation_step(chain, rows, group)
        if found.loglik - before < _SETTLED * int(rows.used.sum()):
            return chain, found.loglik, number - 1
        before = found.loglik
        chain = maximisation_step(found, rows, group, len(chain.means), floor)
    return chain, before, most


def _begin(rows: Rows, group: Index, S: int, number: int, rng: np.random.Generator, floor: Array) -> Chain:
    """A start from readings cut into S levels: of all readings, of each value for itself, or at random."""
    N, G = len(rows.Y), int(group.max()) + 1
    score = np.full(N, np.nan)
    score[rows.used] = _ranks(rows.Y[rows.used])
    if number == 1:
        for g in range(G):
            at = np.flatnonzero(rows.used & (group == g))
            score[at] = _ranks(rows.Y[at])
    cuts = np.arange(1, S) / S if number < 2 else np.sort(rng.uniform(0.05, 0.95, S - 1))
    level = np.searchsorted(cuts, np.nan_to_num(score, nan=0.5))
    gamma = 0.9 * np.eye(S)[level] + 0.1 / S
    stay = 0.9 * np.eye(S) + 0.1 / S
    return maximisation_step(Expectation(0.0, gamma, 1e3 * stay, np.ones(S)), rows, group, G, floor)


def _ranks(Y: Array) -> Array:
    """Ranks between 0 and 1 along the direction in which channels vary most."""
    X = (Y - Y.mean(axis=0)) / np.where(Y.std(axis=0) > 0.0, Y.std(axis=0), 1.0)
    along = X[:, 0] if X.shape[1] == 1 else X @ np.linalg.eigh(X.T @ X)[1][:, -1]
    rank = np.empty(len(Y))
    rank[np.argsort(along, kind="stable")] = (np.arange(len(Y)) + 0.5) / len(Y)
    return rank
