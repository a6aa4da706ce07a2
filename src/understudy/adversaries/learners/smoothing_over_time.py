"""From evidence about single readings to log-probabilities, with what is known of how slowly theta moves.

A learner gives evidence: for each value, log-likelihoods up to a common constant (its posterior over its prior). Taken
as it is, the odds are the prior's times the evidence to a power, which undoes overconfidence. Smoothed, the evidence
of the whole sequence counts: with P the transitions of theta counted in the labels,

    alpha_k  ~  (P' alpha_{k-1}) l_k,    beta_{k-1}  ~  P (l_k beta_k),    Pr(theta_k)  ~  alpha_k beta_k.

Neighbouring readings tell the same story over and over; a low power makes up for that. Powers, and whether to smooth,
are chosen on stretches that were held out, by their mean log-probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.cases import FLOOR, normalised
from understudy.laws.base import Array

_POWERS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2)
_POWERS_SMOOTHED = (0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_SECOND, _SECOND_SMOOTHED = (0.0, 0.5, 1.0), (0.0, 0.01, 0.03, 0.1)
_DEEP = -30.0  # evidence against a value at one reading goes no further
_PIECE, _READINGS = 1_000, 30_000  # choices are tried on pieces, about so many readings in all
_AT_ONCE = 4_000_000  # numbers: as many choices are tried together as this allows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tempering:
    """How evidence becomes log-probabilities: a power for each piece of it, and whether it is smoothed over time."""

    prior: Array
    transitions: Array | None
    """Of theta from one reading to the next; None: nothing is smoothed."""
    powers: tuple[float, ...]
    score: float
    """Mean log-probability on what was held out; NaN if nothing was."""

    def __repr__(self) -> str:
        return f"Tempering(powers {self.powers}, {'single readings' if self.transitions is None else 'smoothed'})"

    def logits(self, *evidence: Array) -> Array:
        """Log-probabilities in the shape of the evidence, (m, ...)."""
        total = sum(power * piece for power, piece in zip(self.powers, evidence, strict=True))
        return _posterior(np.asarray(total), self.prior, self.transitions)


def transitions_of(labels: NDArray[np.int64], m: int) -> Array:
    """Transitions counted in labels (T, N), with half a count for every step that was not seen.

    >>> transitions_of(np.array([[0], [0], [0], [1], [-1], [1]]), 2).round(3).tolist()
    [[0.625, 0.375], [0.5, 0.5]]
    """
    before, after = labels[:-1], labels[1:]
    both = (before >= 0) & (after >= 0)
    counts = np.bincount(before[both] * m + after[both], minlength=m * m).reshape(m, m) + 0.5
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def smoothed(evidence: Array, transitions: Array, prior: Array) -> Array:
    """Log-probabilities (m, T, N) of each value at each reading, given the evidence (m, T, N) of all of them.

    >>> told = np.zeros((2, 3, 1)); told[1, 1] = 2.0
    >>> np.exp(smoothed(told, np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([0.5, 0.5])))[1, :, 0].round(3).tolist()
    [0.805, 0.881, 0.805]
    """
    m, T, N = evidence.shape
    l = np.exp(np.maximum(evidence - evidence.max(axis=0), _DEEP)).transpose(1, 0, 2).copy()  # noqa: E741  # likelihoods
    P, back = np.maximum(transitions, 1e-9), np.ascontiguousarray(np.maximum(transitions, 1e-9).T)
    alpha = np.empty_like(l)
    a = np.broadcast_to(prior[:, None], (m, N))
    for k in range(T):
        a = (back @ a if k else a) * l[k]
        a /= a.sum(axis=0)
        alpha[k] = a
    b = np.ones((m, N))
    for k in range(T - 1, 0, -1):
        b = P @ (l[k] * b)
        b /= b.sum(axis=0)
        alpha[k - 1] *= b
    alpha /= alpha.sum(axis=1, keepdims=True)
    return np.asarray(np.log(np.maximum(alpha, 1e-300)).transpose(1, 0, 2))


def tempered(
    evidence: Sequence[Array], labels: NDArray[np.int64], held: NDArray[np.bool_], prior: Array,
    transitions: Array | None = None,
) -> Tempering:  # fmt: skip
    """Choose powers, and smoothed or not, by the mean log-probability of the labels that were held out.

    `evidence` has one or two pieces (m, ...), each made without the labels in `held`; the rest of it is not looked at.
    `transitions` None: theta is constant, there is nothing to smooth.
    """
    first = [1.0, *(1.0 for _ in evidence[1:])]
    if not held.any():
        return Tempering(prior, None, tuple(first), np.nan)
    alone = [piece[:, held] for piece in evidence]
    truth = labels[held]
    choices: list[tuple[float, tuple[float, ...], bool]] = []
    for powers in product(_POWERS, *(_SECOND for _ in evidence[1:])):
        total = sum(power * piece for power, piece in zip(powers, alone, strict=True))
        choices.append((_score(_posterior(np.asarray(total), prior, None), truth), powers, False))
    if transitions is not None:
        choices += _smoothed_choices(evidence, labels, held, prior, transitions)
    score, powers, smooth = max(choices, key=lambda choice: choice[0])
    return Tempering(prior, transitions if smooth else None, powers, score)


def _smoothed_choices(
    evidence: Sequence[Array], labels: NDArray[np.int64], held: NDArray[np.bool_], prior: Array, transitions: Array
) -> list[tuple[float, tuple[float, ...], bool]]:
    inside = _cut(held)
    columns = np.flatnonzero(inside.any(axis=0))
    columns = columns[:: -(-len(columns) * len(inside) // _READINGS)]
    inside, truth = inside[:, columns], _cut(labels)[:, columns]
    # what was learned from speaks too well for itself: only what was held out may speak
    pieces = [np.where(inside, np.stack([_cut(told)[:, columns] for told in piece]), 0.0) for piece in evidence]
    m, T, N = pieces[0].shape
    powers = list(product(_POWERS_SMOOTHED, *(_SECOND_SMOOTHED for _ in evidence[1:])))
    step = max(1, _AT_ONCE // (m * T * N))
    found = []
    for start in range(0, len(powers), step):
        some = powers[start : start + step]
        tried = [sum(p * piece for p, piece in zip(choice, pieces, strict=True)) for choice in some]
        logits = _posterior(np.concatenate(tried, axis=2), prior, transitions)
        for choice, part in zip(some, np.split(logits, len(some), axis=2), strict=True):
            found.append((_score(part[:, inside], truth[inside]), choice, True))
    return found


def _cut(x: Any) -> Any:
    """Sequences (T, N), cut into pieces that stand side by side: to choose, it is near enough, and quicker."""
    T, N = x.shape
    length = min(T, _PIECE)
    count = -(-T // length)
    padded = np.concatenate([x, np.zeros((count * length - T, N), dtype=x.dtype)])
    return padded.reshape(count, length, N).transpose(1, 0, 2).reshape(length, count * N)


def _posterior(evidence: Array, prior: Array, transitions: Array | None) -> Array:
    prior = np.maximum(prior, FLOOR)
    prior = prior / prior.sum()
    if transitions is not None:
        return normalised(smoothed(evidence, transitions, prior))
    return normalised(evidence + np.log(prior).reshape(-1, *(1,) * (evidence.ndim - 1)))


def _score(logits: Array, truth: NDArray[np.int64]) -> float:
    return float(np.take_along_axis(logits, truth[None], axis=0).mean())
