"""What the tests of the adversaries share: labelled outputs, honest and planted, and how a finding is judged."""

from __future__ import annotations

import numpy as np
import scipy.stats
from helpers import ALPHA

import understudy as us
from understudy.adversaries.audit import audit
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import Knowledge as Knowledge

__all__ = ["ALPHA", "audited", "beats", "disguised", "finds", "guesses", "halves", "known_of", "once", "private_rows"]


def private_rows(design, N, rng):
    """Theta of N sequences and the draws made for them, by position."""
    theta = rng.choice(len(design.prior), size=N, p=design.prior)
    ends = np.cumsum(design.randomizer.kernel, axis=1)
    return theta, (rng.random(N)[:, None] >= ends[theta]).sum(axis=1)


def disguised(design, T, N, rng, way=None):
    """Labelled outputs of N sequences, by the design or by another `way`(Y, i, j, rng) of making them."""
    theta, drawn = private_rows(design, N, rng)
    family = design.family
    outputs = np.empty((T, family.dim, N))
    for i, value in enumerate(design.values):
        for j, pseudo in enumerate(design.pseudo):
            at = np.flatnonzero((theta == i) & (drawn == j))
            if at.size:
                source, target = family.model(value), family.model(pseudo)
                Y = us.sample(source, T, at.size + 2, rng=rng)[:, :, : at.size]
                outputs[:, :, at] = us.disguise(Y, source, target, rng=rng) if way is None else way(Y, i, j, rng)
    return once(outputs, theta, len(design.values), drawn)


def once(outputs, theta, m, drawn=None):
    """Sequences whose theta is constant, each a stretch of its own."""
    T, _, N = outputs.shape
    rows = [None if x is None else np.tile(x, (T, 1)) for x in (theta, np.arange(N), drawn)]
    return Cases(outputs, rows[0], rows[1], m, once=True, pseudo=rows[2])


def halves(cases):
    """To learn from, and to be judged on."""
    half = cases.N // 2
    return cases.sequences(slice(0, half)).without_pseudo(), cases.sequences(slice(half, cases.N))


def known_of(design, grid=None, **changes):
    """What an adversary knows of a design for a constant theta."""
    given = {
        "family": design.family, "pseudo": design.pseudo, "kernel": design.randomizer.kernel, "prior": design.prior,
        "transitions": None, "decision_every": None, "grid": grid, "design": design,
    }  # fmt: skip
    return Knowledge(**{**given, **changes})


def guesses(learner, cases, known, seed=0):
    """Right guesses and how many there were, after learning from one half of the cases."""
    learn, judge = halves(cases)
    assert learner.objection(learn, known) == ""
    logits = learner.learn(learn, known, np.random.default_rng(seed)).logits(judge.without_pseudo())
    np.testing.assert_allclose(np.exp(logits).sum(axis=0), 1.0)
    return int((logits.argmax(axis=0) == judge.truth).sum()), judge.guesses


def finds(learner, cases, known):
    """Whether it is right more often than the likeliest value is, but for luck once in a million."""
    right, N = guesses(learner, cases, known)
    return bool(scipy.stats.binom.sf(right - 1, N, float(known.prior.max())) < ALPHA)


def beats(learner, cases, known, bound):
    """Whether it is wrong less often than the bound allows, but for luck once in a million; and its error."""
    right, N = guesses(learner, cases, known)
    return bool(scipy.stats.binom.cdf(N - right, N, bound) < ALPHA), 1.0 - right / N


def audited(design, cases, adversaries):
    """An audit of a released file that holds the sequences one after the other, each a segment."""
    T, d, N = cases.outputs.shape
    rows = cases.outputs.transpose(2, 0, 1).reshape(N * T, d)
    theta = np.array(design.values)[cases.labels].T.ravel()
    segments = np.arange(N).repeat(T)
    return audit(
        design,
        released=rows,
        theta=theta,
        segments=segments,
        adversaries=adversaries,
        confidence=0.999,
        rng=1,
        utility=False,
    )
