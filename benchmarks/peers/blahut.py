"""Blahut-Arimoto: constrained to a budget in numpy, and as `dit` and `qif` have it, given the slope.

One sweep is q_j <- q_j c_j with z_i = sum_j q_j exp(-beta L_ij), c_j = sum_i p_i exp(-beta L_ij) / z_i. It is run
until its answer is proven: with F = -sum_i p_i ln z_i, no kernel of leakage I has a distortion below
(F - ln max_j c_j - I) / beta, whatever q and beta are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.conic import mutual_information

Array = NDArray[np.float64]
MOST = 1_000_000  # sweeps, after which the sweeping is given up
TINY = 1e-200  # weights below it are dropped before they become subnormal, which is slow; the bound covers all columns
CHECK = 100  # sweeps between two looks at the certificate, so that looking costs next to nothing


@dataclass(frozen=True)
class Answer:
    """The point reached: the marginal q and the slope, what is proven of it, and the sweeps it took."""

    q: Array
    beta: float
    distortion: float
    lower_bound: float
    sweeps: int
    exponentials: int = 0  # how often the matrix exp(-beta L) was computed
    change: float = 0.0  # largest change of an entry of q in the last sweep

    @property
    def gap(self) -> float:
        """Distance from the bound, relative to the distortion."""
        return (self.distortion - self.lower_bound) / self.distortion


def constrained(cost: Array, prior: Array, leakage: float, gap: float, slack: float = 1e-8) -> Answer:
    """The slope moves with the sweeps so that KL_q(beta) = I_0, from below and to `slack` relative.

    Newton in log beta from the last slope, steps of at most a factor e. Where the slope still fits, the exponentials
    of the sweep before serve again; a larger `slack` makes that happen more often.
    """
    L, p = cost, prior
    q = np.full(L.shape[1], 1 / L.shape[1])
    beta = 1 / (p @ L @ q)
    E = np.exp(-beta * L)
    EL = E * L
    sweeps, exponentials = 0, 1
    while sweeps <= MOST:
        while True:
            z, e = E @ q, EL @ q
            w = p / z
            # KL_q(beta) = F - beta D, d KL / d beta = beta var(L)
            D, F = w @ e, -p @ np.log(z)
            kl = F - beta * D
            if leakage * (1 - slack) <= kl <= leakage:
                break
            variance = w @ ((EL * L) @ q - e * e / z)
            step = (leakage * (1 - slack / 2) - kl) / (beta * beta * variance)
            beta *= np.exp(min(max(step, -1.0), 1.0))
            E = np.exp(-beta * L)
            EL = E * L
            exponentials += 1
        c = w @ E
        if sweeps % CHECK == 0:
            # KL_q(beta) <= I_0 is at least I, so the kernel is feasible and D is reached
            bound = (F - np.log(c.max()) - leakage) / beta
            if D - bound <= gap * D:
                return Answer(q, beta, float(D), float(bound), sweeps, exponentials)
            q[q < TINY] = 0.0
        q = q * c
        sweeps += 1
    raise RuntimeError(f"gap {gap:g} not reached in {MOST:,} sweeps")


def given_slope(cost: Array, prior: Array, beta: float, gap: float) -> Answer:
    """Plain sweeps at a fixed slope, until the kernel is proven against its own leakage."""
    p, E = prior, np.exp(-beta * cost)
    q = np.full(cost.shape[1], 1 / cost.shape[1])
    sweeps = 0
    while sweeps <= MOST:
        w = p / (E @ q)
        after = q * (w @ E)
        sweeps += 1
        if sweeps % CHECK == 0:
            reached = certified(cost, prior, q, beta)
            if reached.gap <= gap:
                change = float(np.abs(after - q).max())
                return Answer(q, beta, reached.distortion, reached.lower_bound, sweeps, 1, change)
            after[after < TINY] = 0.0
        q = after
    raise RuntimeError(f"gap {gap:g} not reached in {MOST:,} sweeps")


def certified(cost: Array, prior: Array, q: Array, beta: float) -> Answer:
    """What is proven of the kernel that q and beta give, at the leakage that it has."""
    E = np.exp(-beta * cost)
    z = E @ q
    kernel = np.where(q < TINY, 0.0, q * E / z[:, None])
    D = float(np.sum(prior[:, None] * kernel * cost))
    bound = (-prior @ np.log(z) - np.log(((prior / z) @ E).max()) - mutual_information(kernel, prior)) / beta
    return Answer(q, beta, D, float(bound), 0, 1)


def dit(cost: Array, prior: Array, beta: float, sweeps: int) -> Array:
    """`dit.rate_distortion.blahut_arimoto`, one start (the uniform one); the marginal it ends with.

    It stops when the distortion changes by less than 1e-5 of itself, long before a gap of 1e-6, and offers no other
    rule. A constant added to all costs changes no kernel; one that comes and goes from sweep to sweep keeps that
    rule from applying, so that `sweeps` ends the run.
    """
    from dit.rate_distortion.blahut_arimoto import blahut_arimoto

    asked = 0
    matrices = cost, cost, cost + 1.0, cost + 1.0  # it asks twice a sweep

    def distortion(p: Array, q: Array) -> Array:
        nonlocal asked
        asked += 1
        return matrices[asked & 3]

    _, joint = blahut_arimoto(prior, beta / np.log(2), distortion=distortion, max_iters=sweeps, restarts=1)
    return joint.sum(axis=0)


def dit_as_it_is(cost: Array, prior: Array, beta: float) -> Array:
    """The same with dit's own stopping rule."""
    from dit.rate_distortion.blahut_arimoto import blahut_arimoto

    _, joint = blahut_arimoto(prior, beta / np.log(2), distortion=lambda p, q: cost, max_iters=MOST, restarts=1)
    return joint.sum(axis=0)


def qif(cost: Array, prior: Array, beta: float, change: float) -> Array:
    """`qif.mechanism.shannon.max_entropy_given_same_loss`; it stops when no entry of q changes by more than `change`.

    The loss is asked for once an entry, and multiplied by the slope beforehand.
    """
    import qif as library

    loss = (beta * cost).tolist()
    start = np.full(cost.shape[1], 1 / cost.shape[1])
    kernel = library.mechanism.shannon.max_entropy_given_same_loss(
        prior, start, lambda i, j: loss[i][j], md=change, mrd=0.0
    )
    return prior @ kernel
