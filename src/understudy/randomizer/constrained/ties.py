"""Of kernels that cost the same, the one that tells least: a second stage for linear programs with ties.

A linear program has as a rule one optimum, and says so: every bound that is met has its price (`linear.settled`). If
not, others may cost the same and tell less. For a small weight w the kernel of least cost + w * information is, up to
what vanishes like e^(-1/w), the one of least information among the cheapest. The interior-point method finds it, and a
linear program close by puts it back among the cheapest to the last digits. The lower bound stays that of the first.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from understudy.errors import InfeasibleError, NumericalError
from understudy.laws.base import Array
from understudy.randomizer.constrained.central import central
from understudy.randomizer.constrained.feasible import Kept, exactly
from understudy.randomizer.constrained.linear import linear, roomiest
from understudy.randomizer.constrained.program import Program
from understudy.randomizer.constrained.solving import HAIR, Constrained, Found, cleaned
from understudy.randomizer.inverse import least_leakage
from understudy.randomizer.solver import Solution

_WEIGHTS = (1e-3, 1e-2, 1e-5)  # of the information, over the cost
_REACHES = (1e-9, 1e-7, 1e-5)  # how far the linear program may look
_NONE = 1e-12  # a cost, over that of telling nothing, that is none
_SAME = 1e-9  # of a leakage: less than this is no gain


def quieter(
    problem: Constrained, program: Program, found: Found, first: Solution, kept: Kept | None = None
) -> Solution:
    """The first answer, or one that costs the same to a hair and tells less; `kept` says what is exactly kept."""
    most = first.excess * (1.0 + HAIR) + problem.rounding
    for way in (_bare, _weighed):
        kernel = way(problem, program, found, kept or problem.kept)
        if kernel is None:
            continue
        other = problem.proven(kernel, found.bound)
        cheap = other.excess <= most and (other.optimal or not first.optimal)
        if cheap and other.leakage < (1.0 - _SAME) * first.leakage:
            return other
        if way is _bare:
            return first  # no other tells less, with constraints or without
    return first


def _bare(problem: Constrained, program: Program, found: Found, kept: Kept) -> Array | None:
    """The kernel that tells least at this cost without the constraints, if it keeps them."""
    dear = problem.scale * _cost(problem, found.P)
    if program.floor > 0.0 or not dear > 0.0:
        return None
    try:
        bare, _ = least_leakage(problem.left.cost, problem.p, dear * (1.0 + 0.01 * HAIR))
    except (InfeasibleError, NumericalError):
        return None
    return bare.kernel if kept(bare.kernel, Fraction(0)) else None


def _weighed(problem: Constrained, program: Program, found: Found, kept: Kept) -> Array | None:
    """The kernel that tells least within the constraints, exactly kept."""
    m = len(program.p)
    dear = _cost(problem, found.P)
    with np.errstate(all="ignore"):
        if dear <= _NONE:
            return _free(problem, program, kept)
        try:
            start = problem.start(program)
            for weight in _WEIGHTS:
                P = cleaned(central(program, start, weight=weight * dear).X[:, :m].T)
                for reach in _REACHES:
                    close = linear(program, P, reach)
                    Q = None if close is None else cleaned(close.X[:, :m].T, 1e-12)
                    if Q is None or _cost(problem, Q) > dear * (1.0 + 0.1 * HAIR):
                        continue
                    kernel = exactly(Q, problem.inner(program, Q), program.floor, kept)
                    # the looser the reach, the less dust in columns that nobody else draws
                    if kernel is not None and _cost(problem, kernel) <= dear * (1.0 + 0.5 * HAIR):
                        return kernel
        except (InfeasibleError, NumericalError):
            return None
    return None


def _cost(problem: Constrained, P: Array) -> float:
    return float((problem.p[:, None] * problem.L * P).sum())


def _free(problem: Constrained, program: Program, kept: Kept) -> Array | None:
    """The same where the cheapest pairs of all rows alone will do: no other is drawn."""
    m = len(problem.p)
    cheap = program._replace(allowed=program.allowed & (program.cost <= 0.0))
    try:
        roomy = roomiest(cheap)
        if roomy is None or roomy[1] < 1e-9:
            return None
        told = central(cheap, roomy[0], limit=math.inf)
    except NumericalError:
        return None
    P = cleaned(told.X[:, :m].T)
    return exactly(P, roomy[0][:, :m].T, program.floor, kept)
