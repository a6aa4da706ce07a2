"""Labelled outputs with a planted dependence, and exact tests of whether an attack finds anything in them."""

import numpy as np
from scipy import stats

from understudy.adversaries.knowledge import Cases

ALPHA = 1e-6


def constant(kind, n, rng, T=24, m=2):
    """Sequences in which theta is constant. `kind`: what depends on it."""
    theta = rng.integers(m, size=n)
    d = 2 if kind == "correlation" else 1
    noise = rng.normal(size=(T, d, n))
    outputs = noise.copy()
    if kind == "mean":
        outputs += 0.6 * theta
    elif kind == "variance":
        outputs *= 1.0 + 0.7 * theta
    elif kind == "correlation":
        rho = np.where(theta == 1, 0.8, -0.2)
        outputs[:, 1] = rho * noise[:, 0] + np.sqrt(1.0 - rho**2) * noise[:, 1]
    elif kind == "jump":
        outputs[:, 0] += 4.0 * (theta * (np.arange(T)[:, None] >= rng.integers(T // 3, 2 * T // 3, size=n)))
    labels = np.tile(theta, (T, 1)).astype(np.int64)
    return Cases(outputs, labels, np.tile(np.arange(n), (T, 1)), m=m, once=True)


def paths(n, rng, T=160, stay=0.96):
    """Paths of a chain with two values, (T, n)."""
    moves = rng.random((T, n)) > stay
    moves[0] = rng.random(n) > 0.5
    return np.asarray(np.cumsum(moves, axis=0) % 2, dtype=np.int64)


def spells(n, rng, T=400):
    """Long spells of 0 (60 to 80 readings) and short ones of 1 (25 to 32)."""
    theta = np.zeros((T, n), dtype=np.int64)
    for column in range(n):
        k, value = int(-rng.integers(60)), 0
        while k < T:
            length = int(rng.integers(60, 81) if value == 0 else rng.integers(25, 33))
            theta[max(k, 0) : max(k + length, 0), column] = value
            k, value = k + length, 1 - value
    return theta


def moving(kind, n, rng, T=160):
    """Sequences in which theta moves. `kind`: what depends on it."""
    theta = spells(n, rng) if kind == "change times" else paths(n, rng, T)
    T = len(theta)
    d = 2 if kind == "correlation" else 1
    noise = rng.normal(size=(T, d, n))
    outputs = noise.copy()
    if kind == "mean":
        outputs[:, 0] += 1.2 * theta
    elif kind == "variance":
        outputs[:, 0] *= 1.0 + 1.2 * theta
    elif kind == "correlation":
        rho = np.where(theta == 1, 0.9, -0.5)
        outputs[:, 1] = rho * noise[:, 0] + np.sqrt(1.0 - rho**2) * noise[:, 1]
    elif kind == "change times":
        # a level for each spell, drawn anew when theta changes: at no time does it depend on theta
        spell = np.cumsum(np.abs(np.diff(theta, axis=0, prepend=theta[:1])), axis=0)
        levels = 6.0 * rng.normal(size=(T, n))
        outputs[:, 0] += np.take_along_axis(levels, spell, axis=0)
    blocks = np.tile(np.arange(n), (T, 1))
    return Cases(outputs, theta, blocks, m=2, once=False)


def mixed_up(cases, rng):
    """The twin: the same outputs and the same labels, but those of another sequence."""
    shift = 1 + int(rng.integers(cases.N - 1))
    return Cases(
        np.roll(cases.outputs, shift, axis=2), cases.labels, cases.blocks, cases.m, cases.once, cases.hours, cases.days
    )


def chance_constant(logits, cases):
    """The probability of so many right guesses by chance, if theta is uniform and the output says nothing."""
    n = cases.N
    right = int((logits.argmax(axis=0) == cases.truth).sum())
    return float(stats.binom.sf(right - 1, n, 1.0 / cases.m))


def chance_moving(logits, cases):
    """The same where theta moves, exactly: in pairs of sequences, do labels fit better as they are than swapped.

    If outputs say nothing about labels, either is as likely as the other, and pairs are independent.
    """

    def fit(guessed, told):
        return np.take_along_axis(guessed, told[None], axis=0)[0].sum(axis=0)

    half = cases.N // 2
    a, b = slice(0, half), slice(half, 2 * half)
    kept = fit(logits[:, :, a], cases.labels[:, a]) + fit(logits[:, :, b], cases.labels[:, b])
    swapped = fit(logits[:, :, a], cases.labels[:, b]) + fit(logits[:, :, b], cases.labels[:, a])
    told = kept != swapped
    return float(stats.binom.sf(int((kept > swapped).sum()) - 1, int(told.sum()), 0.5))


def chance(attack, cases):
    """The probability that chance alone would look as good as this attack."""
    logits = attack.logits(cases)
    return (chance_constant if cases.once else chance_moving)(logits, cases)
