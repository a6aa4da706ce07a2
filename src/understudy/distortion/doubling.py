"""The squared error over K equal steps, in log K of them.

Once gains have settled, every step is the same: s = (delta, ~x) moves to F s + f + noise of covariance N,
and the difference read is D = h s + g + noise. Two sequences of K steps are one of 2K, so whatever K
steps do is found by doubling. The variances over K steps from a covariance P add up to ::

    sum_k tr(h' h P_k) = tr(W_K P) + c_K,     W_2K = W_K + F^K' W_K F^K,     c_2K = 2 c_K + tr(W_K N_K)

with W_K = sum_{k<K} F^k' h' h F^k what the K steps see of the state at their start, N_K the
covariance of the noise that they add to it, and c_K what they see of their own noise: the second half
sees the N_K of the first. Nothing is subtracted. A root of modulus 1 makes these sums grow like powers
of K, and nothing else.

The means have a square too, and there digits could be lost: m = h s + g is often the small rest of large
numbers. But its changes are h r, with r the drift of s, which moves by itself, r -> F r. So (m, r) is a
system without constants, and the squares of its m add up to (m, r)' V_K (m, r), with V_K found like W_K.
Where s is at rest r is zero, and nothing large is squared.

K is the sum of 1, 2, 4, .., each taken once or twice. The long stretches thus come last, when s is close to
its rest if it has one, and each starts from an m and r of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from understudy.distortion.matrices import Form, Triangle, plus, times
from understudy.distortion.moments import Moments, Step
from understudy.laws.base import Array


def squares(step: Step, state: Moments, K: int, weights: Array) -> Array:
    """The sum over K steps of sum_c weights[c] E D_c^2, (sources, targets)."""
    root = np.sqrt(weights)[:, None, None, None]
    H, E = root * step.H, None if step.E is None else root * step.E
    Ht, Et = H.swapaxes(0, 1), None if E is None else E.swapaxes(0, 1)
    move, W = step.move, Form(times(Ht, H), times(Ht, E), times(Et, E))
    c = None if step.noise is None else (root * root * step.noise).sum(axis=(0, 1))
    change, V = _mean_system(step, H, E)
    found = np.zeros(state.delta.shape[2:])
    for stretches, longer in _lengths(K):
        for _ in range(stretches):
            (rd, rx), m = step.drift(state), root * step.mean(state)
            z = Form(*_outer(np.concatenate((m, rd)), rx))
            for part in (V.dot(z), W.dot(state.P), c):
                if part is not None:
                    found += part
            state = move.of(state)
        if longer:
            seen = W.dot(move.N)
            c = plus(None if c is None else 2.0 * c, seen)
            W, V = W.plus(move.F.within(W)), V.plus(change.within(V))
            move, change = move.twice(), change.squared()
    return found


def _mean_system(step: Step, H: Array, E: Array | None) -> tuple[Triangle, Form]:
    """(m, r) -> (m + h r, F r), where m counts among the source's; and the weights of m^2."""
    A, D, B = step.move.F
    c, n, pairs = len(H), len(A), A.shape[2:]
    own = np.zeros((c + n, c + n, *pairs))
    own[:c, :c], own[:c, c:], own[c:, c:] = np.eye(c)[..., None, None], H, A
    V = np.zeros((c + n, c + n, 1, 1))
    V[:c, :c, 0, 0] = np.eye(c)
    if D is None and E is None:
        return Triangle(own, None, B), Form(V, None, None)
    top, rest = (np.zeros(()) if X is None else X for X in (E, D))
    shape = np.broadcast_shapes(top.shape[2:], rest.shape[2:])
    between = np.empty((c + n, n, *shape))
    between[:c], between[c:] = top, rest
    return Triangle(own, between, B), Form(V, None, None)


def _outer(d: Array, x: Array) -> tuple[Array, Array, Array]:
    dt, xt = d.swapaxes(0, 1), x.swapaxes(0, 1)
    return d * dt, d * xt, x * xt


def _lengths(K: int) -> Iterator[tuple[int, bool]]:
    """How often 1, 2, 4, .. are taken, once or twice, to make K; and whether more come."""
    while K:
        digit = 2 - K % 2
        K = (K - digit) // 2
        yield digit, K > 0
