"""Many integrals of one number at once, each integrand with a place and a scale of its own.

The trapezoidal rule in w, u = centre + scale sinh w, converges faster than any power of its step for
smooth integrands that die out at both ends, and needs about sixty looks for twelve digits. It wants a
centre and a scale that fit, so a coarse rule first moves both to where it sees the mass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.laws.base import Array
from understudy.laws.numeric.coordinate import log_cosh
from understudy._types import Index

Integrand = Callable[[Index, Array], Array]
"""Log of integrand number ``which[i]`` at ``u[i]``."""

_STEP = 0.5
_FIRST, _LAST = 5.0, 640.0  # |w| to which the coarse rule goes, doubled until the integrand has died out
_DEAD = 36.0  # terms below e^-36 of the largest do not count
_MOVES = 60
_HALVINGS = 9


class Settled(NamedTuple):
    """Centres, scales, and the terms of the coarse rule: blocks of which integrands, nodes (K,) and logs (n, K)."""

    centre: Array
    scale: Array
    blocks: list[tuple[Index, Array, Array]]


def settle(integrand: Integrand, centre: Array, scale: Array, dead: float = _DEAD) -> Settled:
    """Moves centres and scales to the mass, and widens the rule until its terms are `dead` at both ends.

    >>> found = settle(lambda which, u: -0.5 * ((u - 300.0) / 0.1) ** 2, np.zeros(1), np.ones(1))
    >>> bool(abs(found.centre[0] - 300.0) < 0.1), bool(0.05 < found.scale[0] < 0.2)
    (True, True)
    """
    centre, scale, reach = centre.copy(), scale.copy(), np.full(centre.shape, _FIRST)
    blocks = []
    todo = np.arange(centre.size)
    for turn in range(_MOVES):
        if not todo.size:
            break
        still = []
        for distance in np.unique(reach[todo]):
            which = todo[reach[todo] == distance]
            w, u, g = _coarse(integrand, which, centre, scale, distance)
            # Where the mass lies, in nodes: quantiles of the coarse rule.
            top = g.max(axis=1)
            p = np.cumsum(np.exp(g - np.where(np.isfinite(top), top, 0.0)[:, None]), axis=1)
            low, middle, high = (np.argmax(p >= q * p[:, -1:], axis=1) for q in (0.16, 0.5, 0.84))
            off = (high - low < 2) | (np.abs(w[middle]) > 1.5)
            off &= np.isfinite(top) & (turn < _MOVES - 1)
            ends = np.maximum(g[:, 0], g[:, -1])
            wide = ~off & (ends > top - dead) & (distance < _LAST) & (turn < _MOVES - 1)
            rows, moved = np.arange(which.size), which[off]
            spread = 0.5 * (u[rows, high] - u[rows, low])
            spacing = _STEP * scale[which] * np.cosh(w[middle])
            centre[moved], scale[moved] = u[rows, middle][off], np.maximum(spread, 0.15 * spacing)[off]
            reach[moved] = _FIRST
            reach[which[wide]] = 2.0 * distance
            going = off | wide
            still.append(which[going])
            if not going.all():
                blocks.append((which[~going], w, g[~going]))
        todo = np.concatenate(still)
    return Settled(centre, scale, blocks)


def integrals(integrand: Integrand, centre: Array, scale: Array, tolerance: float) -> tuple[Array, NDArray[np.bool_]]:
    """Logarithms of the integrals, and which of them have not come within the tolerance.

    >>> log_mass, lost = integrals(lambda which, u: -0.5 * (u - which) ** 2, np.zeros(2), np.ones(2), 1e-12)
    >>> (np.exp(2.0 * log_mass) / (2.0 * np.pi)).round(12).tolist()
    [1.0, 1.0]
    """
    with np.errstate(all="ignore"):
        centre, scale, blocks = settle(integrand, centre, scale)
        out, lost = np.empty(centre.size), np.ones(centre.size, dtype=bool)
        for which, w, g in blocks:
            step, total, change = _STEP, _log_sum(g, _STEP), np.full(which.size, np.inf)
            for _ in range(_HALVINGS):
                between = 0.5 * (w[:-1] + w[1:])
                alive = np.maximum(g[:, :-1], g[:, 1:]) > g.max(axis=1, keepdims=True) - _DEAD
                row, column = np.nonzero(alive)
                at, x = which[row], between[column]
                new = np.full(alive.shape, -np.inf)
                new[row, column] = integrand(at, centre[at] + scale[at] * np.sinh(x)) + np.log(scale[at]) + log_cosh(x)
                w, g, step = _woven(w, between), _woven(g.T, new.T).T, 0.5 * step
                finer = _log_sum(g, step)
                out[which] = finer
                change, before = np.abs(finer - total), change
                # Halving the step about squares the error of a smooth integrand: it then falls faster and faster.
                ratio = np.where(np.isfinite(before), change / before, 1.0)
                done = (change <= tolerance) | ((ratio < 0.01) & (change * ratio <= tolerance)) | np.isneginf(finer)
                lost[which[done]] = False
                which, g, total, change = which[~done], g[~done], finer[~done], change[~done]
                if not which.size:
                    break
    return out, lost


def _coarse(
    integrand: Integrand, which: Index, centre: Array, scale: Array, distance: float
) -> tuple[Array, Array, Array]:
    """Nodes (K,), places (n, K) and log terms (n, K) of the coarse rule."""
    w = np.arange(-distance, distance + 0.5 * _STEP, _STEP)
    c, s = centre[which, None], scale[which, None]
    u = c + s * np.sinh(w)
    g = integrand(np.repeat(which, w.size), u.ravel()).reshape(u.shape) + np.log(s) + log_cosh(w)
    return w, u, g


def _log_sum(g: Array, step: float) -> Array:
    top = g.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.asarray(top + np.log(step * np.exp(g - top[:, None]).sum(axis=1)))


def _woven(a: Array, b: Array) -> Array:
    """Elements of a and b in turn, along the first axis."""
    out = np.empty((a.shape[0] + b.shape[0], *a.shape[1:]))
    out[::2], out[1::2] = a, b
    return out
