"""Odds that are not known: a budget that holds for every prior in a convex hull.

The leakage I(p, P) is concave in the odds p. A randomizer that keeps its budget at two priors may break it between
them: [[.8, .2], [.2, .8]] gives away 0.039 nats at odds of 95 to 5, either way round, and 0.193 in the middle. Here the
budget is kept at *every* mixture of the priors that are given, or at any odds at all (`priors="all"`, the capacity).

The kernel comes from a saddle point (`saddle`), mixed with one that tells less until the bound over the whole hull
(`hull`) is within the budget. No kernel that keeps the budget over the hull has a distortion below `lower_bound`.

A design whose budget holds for every prior of a hull, and its card.

A budget that holds for every prior of a hull: a saddle point in the odds and in the law of the draw.

Asked for is the kernel of least cost with I(p, P) <= I_0 for every p in the hull of the columns of B. The information
is concave in p and convex in P, so the worst odds may be named first. With s = B a, a >= 0 (the odds times a price of
leakage), w = C h (the odds that weigh the cost: one column, or the worst of several) and q a law of the draw::

    optimum = max over a, h of min over q of  sum_i w_i least_i - sum_i s_i ln z_i - |s| I_0
    z_i = sum_j q_j exp(-w_i L_ij / s_i),      P_ij = q_j exp(-w_i L_ij / s_i) / z_i

where L is the cost above the least of its row. The function is concave in (a, h), convex in q, and smooth. Its
derivative in s_i is KL(P_i || q) - I_0: what is left of the budget. So a primal-dual interior-point
method finds the worst odds, the price and the kernel together. For one prior this is the ordinary randomizer problem.

Any a, h and q prove a lower bound (`bound`), and any kernel has a bound on what it tells (`hull`); nothing rests on the
method having arrived.

The worst odds of several: the largest mutual information of a kernel over the convex hull of priors.

I(p, P) is concave in p, so the largest over a hull need not stand at one of its corners. For every law r of
the draw, with the prior fixed or not::

    I(p, P) <= sum_i p_i KL(P_i || r)

and the right side is linear in p: its largest value over the hull is at a corner. At the odds that are worst, with r
the law of the draw under them, the two meet. So the odds are moved, by the method that finds a capacity, until the
bound at the corners and the information at the odds agree. The bound holds wherever it stops.

The ends of the curve of a robust design, and what all of its kernels are measured by.

Nothing told, everything told, the least that must be told: kernels that are known without a search. What a search comes
to is held in the same form.

Where the search for a robust kernel begins: ordinary problems, at the mean of the priors and beside each of them.

The robust problem head-on: an interior-point method in the kernel itself.

The saddle point (`saddle`) has the kernel as P_ij ~ q_j exp(-w_i L_ij / s_i). Where the cost is the worst over the
hull, a row may have neither weight nor price at the optimum, and 0 / 0 says nothing about it: what it draws is free
within limits. Here nothing is divided by them. With r a law of the draw, ::

    least t  with   sum_i C_ij (least_i + sum_l L_il P_il) <= t     for every corner j of the cost,
                    sum_i B_ik KL(P_i || r) <= I_0                  for every corner k of the budget

is convex in (P, r, t) together, since KL is. The multipliers are the a and h of the saddle point, and prove the same
bound. There are more unknowns, but each P_il meets only r_l, so a step costs a solve of m + K + J equations. Along the
central path rows that are free stay in the middle of what they may do.

The kernel of least cost that keeps a budget over a hull of priors, with its proof.

Around the saddle point (`saddle`) stand the cases in which nothing, or everything, may be told (`robust_ends`); the
mixing that makes a kernel keep its budget to the last bit; and attempts until the gap is closed: from a first start,
then with the kernel itself as the unknown (`direct`), then from other starts.

A robust design as a file: an ordinary one's content, and the priors of the hull.

On loading the problem is solved anew. The stored kernel, which another machine may have rounded otherwise, is kept if
it keeps the budget over the hull and costs what the file says; a file that claims anything else is refused.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy import text
from understudy._types import Array, Progress
from understudy.distortion.costs import Costs, costs
from understudy.distortion.measures import Function
from understudy.errors import ConfigurationError, DesignError, InfeasibleError, StoredFileError
from understudy.models.family import Family
from understudy.models.probe import probe
from understudy.randomizer.design import Design, total, with_terms
from understudy.randomizer.measures import (
    _divergences,
    _interior_step,
    bayes_error,
    capacity,
    checked_kernel,
    entropy,
    mutual_information,
    prior_error,
)
from understudy.randomizer.randomizer import Randomizer
from understudy.randomizer.residual import Charge, charge
from understudy.randomizer.solver import Solution, Workspace, as_cost, as_prior, closed, kernels, minimise, nats, view
from understudy.randomizer.storage import (
    VERSIONS,
    _charge,
    _costs,
    _family,
    _kernel,
    _list,
    _matrix,
    _number,
    _plain,
    _plain_charge,
    _plain_costs,
    holding_together,
    plain_release,
    terms_of,
    with_release,
)
from understudy.serialize import read, value_from_plain, value_to_plain, write
from understudy.stream.policy import DESIGN_PRIOR
from understudy.stream.release import Terms

# A design whose budget holds for every prior of a hull, and its card ---------------------------------


SCHEMA, VERSION = "understudy.robust", 1


@dataclass(frozen=True, slots=True, repr=False, eq=False, kw_only=True)
class RobustDesign(Design):
    """A design that keeps its budget at all odds in the hull of `priors`; `us.design_robust` makes one.

    It is a `Design` for the odds `prior`, with streams, a guarantee and all else. Three things are those of the hull:
    `leakage` is a bound for every prior in it (`worst_leakage`), which streams are charged; `lower_bound` is what no
    randomizer that keeps the budget over the hull goes below; and `worst_prior` are the odds in it at which most is
    told. `weighed` says which odds weigh the distortion: "stated" for `prior`, "worst" for those of the hull that make
    it largest, which `prior` then are.
    """

    priors: Array
    worst_prior: Array
    weighed: str = "stated"

    def __repr__(self) -> str:
        m, n = self.randomizer.kernel.shape
        more = "" if self.charge is None else f"residual={text.number(self.residual, 'up')}, "
        return (
            f"RobustDesign({m} x {n}, {self._hull()}, distortion={self._distortion()}, "
            f"leakage<={self.leakage:.6g}, {more}{self.status})"
        )

    def __str__(self) -> str:
        return self.card()

    @property
    def any_odds(self) -> bool:
        """Whether the hull holds all odds there are."""
        return bool((self.priors.max(axis=1) == 1.0).sum() == len(self.prior) <= len(self.priors))

    @property
    def worst_leakage(self) -> float:
        """What a draw tells at most, at any odds in the hull."""
        return self.leakage

    @property
    def residual(self) -> float:
        """What the models themselves give away over the horizon, at the worst odds in the hull; 0 if they are exact."""
        if self.charge is None:
            return 0.0
        return max(self._charged(corner).total for corner in self.priors)

    @property
    def total_leakage(self) -> float:
        """Leakage and residual, rounded up: what the readings tell on average at any odds in the hull, at most."""
        return max(total(self.leakage, None if self.charge is None else self._charged(p)) for p in self.priors)

    @property
    def worst_error(self) -> float:
        """How often the best guess is wrong, at the least favourable odds of the hull.

        The chance to guess right is convex in the odds, so here the corners do suffice.
        """
        return min(self._errors())

    def leakage_at(self, prior: Any) -> float:
        """What a draw tells at given odds, in the hull or not."""
        return mutual_information(as_prior(prior, len(self.prior)), self.randomizer.kernel)

    def leakage_of_draw(self, marginal: Any = None) -> float:
        """Nats that one draw gives away: over the hull for "design", at given odds, or at any odds if None."""
        if marginal is None:
            return capacity(self.randomizer.kernel, self.priors.mean(axis=0)).upper
        if isinstance(marginal, str):
            if marginal != DESIGN_PRIOR:
                raise ConfigurationError(f"marginal = {marginal!r}; it must be 'design', odds, or None if unknown")
            return self.leakage
        return self.leakage_at(marginal)

    def residual_of_block(self, marginal: Any = DESIGN_PRIOR) -> tuple[float, int] | None:
        """Nats that approximate models give away over so many readings; see `Design.residual_of_block`."""
        if self.charge is not None and isinstance(marginal, str) and marginal == DESIGN_PRIOR:
            return self.residual, self.charge.horizon
        return Design.residual_of_block(self, marginal)

    @property
    def headline(self) -> str:
        """What is guaranteed over the hull, in one sentence, conditions included."""
        where = "however long it watches" if self.charge is None else f"over {self.charge.first}"
        told = text.number(self.total_leakage, "up")
        odds = "Whatever the odds beforehand" if self.any_odds else f"At any mixture of the {self._hull()} beforehand"
        guess = ""
        if not self.any_odds:
            guess = f", and any guess is wrong with probability at least {text.percent(self.worst_error, 'down')}"
        return (
            f"{odds}, with the parameter constant over the epoch and the model right, what is seen tells at most "
            f"{told} nats on average{guess}, {where}."
        )

    def card(self, width: int = 100) -> str:
        """The card of the hull as plain text: what holds at all odds in it, and what at each corner."""
        weighed = "the odds in the hull that make it largest" if self.weighed == "worst" else "the stated odds"
        lines = [
            *textwrap.wrap(self.headline, width),
            "",
            f"distortion       {self._distortion()} at {weighed}; at least {self.lower_bound:.8g} for every randomizer "
            f"that keeps the budget over the hull ({self.status})",
            f"leakage          at most {text.number(self.leakage, 'up')} nats over the hull "
            f"(budget {'none' if self.budget is None else format(self.budget, '.6g')}), "
            f"reached at the odds {_odds_robust_result(self.worst_prior)}",
        ]
        if self.charge is not None:
            lines.append(f"residual         {text.number(self.residual, 'up')} nats over {self.charge.readings}")
        if not self.any_odds:
            lines.append("")
            lines.append(f"{'odds':34}{'nats':>10}{'wrong before':>16}{'wrong after':>15}")
            for p, error in zip(self.priors, self._errors(), strict=True):
                before = text.percent(prior_error(p), "down")
                told = text.number(self.leakage_at(p), "up")
                lines.append(f"{_odds_robust_result(p):34}{told:>10}{before:>16}{text.percent(error, 'down'):>15}")
        lines += ["", *textwrap.wrap(self.conditions, width)]
        return "\n".join(lines)

    @property
    def conditions(self) -> str:
        """All that must be true for the bounds to hold, and what they do not say."""
        odds = "" if self.any_odds else "the odds beforehand to be a mixture of those listed, "
        return f"This needs {odds}{_CONDITIONS}"

    def to_dict(self) -> dict[str, Any]:
        """The card as plain data."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "headline": self.headline,
            "priors": self.priors.tolist(),
            "any_odds": self.any_odds,
            "worst_odds": self.worst_prior.tolist(),
            "worst_leakage_nats": self.worst_leakage,
            "total_leakage_nats": self.total_leakage,
            "budget_nats": self.budget,
            "distortion": self.distortion,
            "distortion_weighed_by": self.weighed,
            "lower_bound": self.lower_bound,
            "status": self.status,
            "corners": [
                {"odds": p.tolist(), "nats": self.leakage_at(p), "wrong_before": prior_error(p), "wrong_after": error}
                for p, error in zip(self.priors, self._errors(), strict=True)
            ],
            "conditions": self.conditions,
        }

    def json(self, indent: int | None = 2) -> str:
        """The card as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def save(self, path: str | os.PathLike[str], models: bool = True) -> str:
        """Write the design to a JSON file and return its fingerprint; see `Design.save`."""
        return save(self, path, models)

    def _hull(self) -> str:
        if self.any_odds:
            return "any odds"
        return f"{len(self.priors)} prior{'s' * (len(self.priors) != 1)}"

    def _errors(self) -> list[float]:
        moved = [0.0 if self.charge is None else self._charged(p).variation for p in self.priors]
        found = [bayes_error(p, self.randomizer.kernel) for p in self.priors]
        return [max(0.0, error - extra) for error, extra in zip(found, moved, strict=True)]

    def _charged(self, prior: Array) -> Charge:
        if self.charge is None:
            raise ConfigurationError("the models are exact, and nothing is charged for them")
        return Charge.of(prior, self.charge.charged, self.charge.horizon, self.charge.how)


_CONDITIONS = (
    "the parameter to be constant over the epoch, the models of its values to be right, and one draw for an epoch. It "
    "bounds an average: after single draws more can be known. Nothing is said about channels that are not filtered."
)


def _odds_robust_result(p: Array) -> str:
    shown = " : ".join(f"{100.0 * x:.4g}" for x in np.asarray(p).tolist())
    return shown if len(shown) <= 33 else f"{shown[:30]}..."


def is_near(a: float, b: float) -> bool:
    """Whether two figures of a stored design are the same, as another machine may round them."""
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)


# A budget that holds for every prior of a hull: a saddle point in the odds and in the law of the draw ---


_ROUNDOFF = 2.0**-53
_STEPS = 150
_TARGET = 1e-13  # of the cost above the least possible
_TO_THE_EDGE = 0.995
_FAR = 1e280  # an exponent that is as good as infinite, and yet the smallest of a row


class Problem(NamedTuple):
    """Costs above the least of each row, infinite where forbidden; that least; corners of the odds; the budget."""

    L: Array  # (m, n)
    least: Array  # (m,)
    B: Array  # (m, K): the budget holds for the hull of these
    C: Array  # (m, J): the cost is the largest of these
    budget: float


class Point(NamedTuple):
    """A law of the draw, prices of the corners of the budget, weights of the corners of the cost; steps taken."""

    q: Array
    a: Array
    h: Array
    steps: int = 0


class _Values(NamedTuple):
    """All that a step needs of one point."""

    s: Array
    w: Array
    A: Array  # P_ij = q_j A_ij
    mean: Array  # of L under each row of P
    deviation: Array  # L_ij - mean_i where allowed
    variance: Array
    gq: Array
    ga: Array
    gh: Array


def saddle(problem: Problem, start: Point) -> Point:
    """The saddle point, as close as the interior-point method comes."""
    with np.errstate(all="ignore"):  # what is not finite is noticed
        return _followed(problem, start)


def _followed(problem: Problem, start: Point) -> Point:
    q, a, h = start.q, start.a, start.h
    n, K, J = q.size, a.size, h.size
    now = _values(problem, q, a, h)
    t = float(now.gh.max())
    u, v, y = np.maximum(now.gq, 0.0) + 0.1 / q, np.maximum(-now.ga, 0.0) + 0.1 / a, t - now.gh + 0.1 / h
    centring, best, stalled = 0.2, (math.inf, Point(q, a, h)), 0
    for step in range(1, _STEPS + 1):
        gap = float(q @ u + a @ v + h @ y)
        off = _residual(now, q, a, h, t, u, v, y)
        if gap + off < best[0]:
            best, stalled = (gap + off, Point(q, a, h, step)), 0
        else:
            stalled += 1
        target = _TARGET * min(1.0, float(now.w @ now.mean))
        if gap + off <= target or stalled > 12:
            break
        mu = max(centring * gap, 1e-3 * target) / (n + K + J)
        x = _direction(problem, now, (q, a, h, t), (u, v, y), mu)
        if x is None:
            break
        dq, da, dh, dt = q * x[:n], a * x[n : n + K], h * x[n + K : n + K + J], float(x[-1])
        du = mu / q - u - u * x[:n]
        dv = mu / a - v - v * x[n : n + K]
        dy = mu / h - y - y * x[n + K : n + K + J]
        room = min(_room(q, dq), _room(a, da), _room(h, dh), _room(u, du), _room(v, dv), _room(y, dy))
        length = min(1.0, _TO_THE_EDGE * room)
        for _ in range(12):
            new = q + length * dq, a + length * da, h + length * dh
            moved = t + length * dt
            duals = u + length * du, v + length * dv, y + length * dy
            then = _values(problem, *new)
            left = float(sum(x @ z for x, z in zip(new, duals, strict=True)))
            # the step may not leave the neighbourhood of the path: residuals, weighed as before, shrink with the gap
            after = _residual(then, q, a, h, moved, *duals)
            if after <= max((1.0 - 0.01 * length) * off, 10.0 * left) and math.isfinite(after):
                break
            length /= 2.0
        (q, a, h), t, (u, v, y), now = new, moved, duals, then
        centring = 0.05 if length > 0.9 else 0.2 if length > 0.3 else 0.6
    return best[1]


def kernel_at(problem: Problem, point: Point) -> Array:
    """P_ij = q_j exp(-w_i L_ij / s_i) / z_i: the kernel of a point."""
    x, q = np.where(point.q > 0.0, _exponents(problem, point), math.inf), point.q
    x = x - x.min(axis=1, keepdims=True)
    weights = q * np.exp(-x)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def bound(problem: Problem, point: Point) -> tuple[float, float]:
    """A cost that no kernel within the budget goes below, and how much of it rounding took.

    For every q, with s and w as they stand: the least over all q' of -sum s_i ln z_i(q') is at least
    -sum s_i ln z_i(q) - |s| ln max_j c_j, where c_j = sum_i s_i exp(-w_i L_ij / s_i) / z_i / |s|.
    """
    _, least, B, C, budget = problem
    s, w, q = B @ point.a, C @ (point.h / math.fsum(point.h)), point.q / math.fsum(point.q)
    total = math.fsum(s)
    floor = math.fsum(w * least)
    if not total > 0.0:
        return floor, 8.0 * len(s) * _ROUNDOFF * floor
    x = _exponents(problem, point)
    with np.errstate(over="ignore"):
        E = np.exp(-x)
    z = E @ q
    used = s > 0.0
    if not (z[used] > 0.0).all():
        return floor, 0.0
    A = E[used] / z[used, None]
    share = s[used] / total
    c = share @ A
    F = -math.fsum(s[used] * np.log(z[used]))
    found = floor + F - total * (math.log(max(float(c.max()), 1.0)) + budget)
    # exponents are off by a few roundings each, sums by one for each term
    finite = np.where(np.isfinite(x[used]), x[used], 0.0)
    spread = float((share @ (A * finite)).max()) + float((s[used, None] * q * A * finite).sum()) / total
    sums = len(s) + len(q) + 16.0
    rounding = 4.0 * _ROUNDOFF * (total * (sums * (1.0 + budget) + 2.0 * spread) + sums * (floor + abs(F)))
    return found - rounding, rounding


def _exponents(problem: Problem, point: Point) -> Array:
    """w_i L_ij / s_i; infinite where a pair is forbidden, or costs anything in a row that no price is on."""
    s, w = problem.B @ point.a, problem.C @ (point.h / math.fsum(point.h))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(w > 0.0, w / s, 0.0)[:, None]
        x = np.where(problem.L > 0.0, np.minimum(ratio * problem.L, _FAR), 0.0)
    return np.where(np.isinf(problem.L), math.inf, x)


def _values(problem: Problem, q: Array, a: Array, h: Array) -> _Values:
    L, least, B, C, budget = problem
    s, w = B @ a, C @ h
    allowed = np.isfinite(L)
    costs = np.where(allowed, L, 0.0)
    ratio = w / s
    x = np.where(allowed, ratio[:, None] * costs, math.inf)
    E = np.exp(-x)
    z = E @ q
    A = E / z[:, None]
    P = A * q
    mean = (P * costs).sum(axis=1)
    deviation = np.where(allowed, costs - mean[:, None], 0.0)
    variance = (P * deviation**2).sum(axis=1)
    excess = float(q.sum()) - 1.0
    told = -np.log(z) - ratio * mean
    gq, ga, gh = float(s.sum()) - s @ A, B.T @ (told + (excess - budget)), C.T @ (least + mean)
    return _Values(s, w, A, mean, deviation, variance, gq, ga, gh)


def _residual(now: _Values, q: Array, a: Array, h: Array, t: float, u: Array, v: Array, y: Array) -> float:
    """How far the conditions are from being met, each weighed by its variable."""
    rq, ra, rh = q * (now.gq - u), a * (now.ga + v), h * (now.gh - t + y)
    return float(np.abs(rq).sum() + np.abs(ra).sum() + np.abs(rh).sum() + abs(h.sum() - 1.0))


def _direction(
    problem: Problem, now: _Values, x: tuple[Array, Array, Array, float], duals: tuple[Array, Array, Array], mu: float
) -> Array | None:
    """Newton's step for the conditions with complementarities of mu, relative to the variables."""
    B, C = problem.B, problem.C
    (q, a, h, t), (u, v, y) = x, duals
    s, w, A = now.s, now.w, now.A
    n, K, J = q.size, a.size, h.size
    ratio = (w / s)[:, None]
    G = np.empty((n + K + J + 1, n + K + J + 1))
    # Phi_qq = A' diag(s) A, Phi_qs = 1 - A (1 + w/s (L - mean)), Phi_qw = A (L - mean); scaled by q, a, h
    root = np.sqrt(s)[:, None] * A * q
    G[:n, :n] = root.T @ root
    qs, qw = q * (1.0 - A * (1.0 + ratio * now.deviation)), q * (A * now.deviation)
    G[:n, n : n + K] = qs.T @ (B * a)
    G[:n, n + K : -1] = qw.T @ (C * h)
    # Phi_ss = -w^2 var / s^3, Phi_sw = w var / s^2, Phi_ww = -var / s
    v1 = now.variance / s
    U, W = B * a, C * h
    G[n : n + K, n : n + K] = -(U.T @ ((v1 * (w / s) ** 2)[:, None] * U))
    G[n : n + K, n + K : -1] = U.T @ ((v1 * (w / s))[:, None] * W)
    G[n + K : -1, n + K : -1] = -(W.T @ (v1[:, None] * W))
    G[n : n + K, :n] = G[:n, n : n + K].T
    G[n + K : -1, :n] = G[:n, n + K : -1].T
    G[n + K : -1, n : n + K] = G[n : n + K, n + K : -1].T
    G[:n, -1] = G[-1, :n] = 0.0
    G[n : n + K, -1] = G[-1, n : n + K] = 0.0
    G[n + K : -1, -1] = G[-1, n + K : -1] = -h
    G[-1, -1] = 0.0
    at = np.arange(n + K + J)
    G[at, at] += np.concatenate((q * u, -a * v, -h * y))
    right = np.concatenate(
        (mu - q * now.gq, -mu - a * now.ga, -mu - h * (now.gh - t), [float(h.sum()) - 1.0])
    )  # fmt: skip
    try:
        found: Array = np.asarray(np.linalg.solve(G, right), dtype=float)
    except np.linalg.LinAlgError:
        return None
    return found if np.isfinite(found).all() else None


def _room(x: Array, dx: Array) -> float:
    """How much of a step may be taken with x staying positive."""
    down = dx < 0.0
    return float((x[down] / -dx[down]).min(initial=math.inf))


# The worst odds of several: the largest mutual information of a kernel over the convex hull of priors ---


_STEPS_hull = 100
_EPS = float(np.finfo(float).eps)
_LEAST = 1e-100  # weight that every corner keeps, so that no draw of its values is overlooked


class Worst(NamedTuple):
    """The largest leakage over a hull, at most `upper` and at least `lower`, and the odds that reach `lower`."""

    upper: float
    lower: float
    prior: Array
    mixture: Array  # of the corners


def worst_prior(kernel: Any, priors: Any) -> Worst:
    """The odds in the convex hull of `priors` at which a kernel gives away most, and how much that is.

    `priors` are several vectors of odds, or "all" for any odds at all (the capacity).

    >>> found = worst_prior([[0.8, 0.2], [0.2, 0.8]], [[0.95, 0.05], [0.05, 0.95]])
    >>> round(found.upper, 6), found.prior.round(6).tolist()
    (0.192745, [0.5, 0.5])
    >>> round(worst_prior([[0.8, 0.2], [0.2, 0.8]], [[0.95, 0.05], [0.9, 0.1]]).upper, 6)
    0.072654
    """
    P = checked_kernel(kernel)
    return worst(P, as_corners(priors, len(P)))


def as_corners(priors: Any, m: int) -> Array:
    """Priors (K, m) as the columns of a matrix (m, K)."""
    if isinstance(priors, str):
        if priors != "all":
            raise DesignError(f"priors = {priors!r}; they must be several priors, or 'all' for any odds")
        return np.eye(m)
    try:
        rows = [_corner(k, prior, m) for k, prior in enumerate(priors)]
    except TypeError:
        raise DesignError(f"priors is a {type(priors).__name__}; it must hold several priors, or be 'all'") from None
    if not rows:
        raise DesignError("priors is empty; there must be at least one")
    return np.ascontiguousarray(np.stack(rows, axis=1))


def _corner(k: int, prior: Any, m: int) -> Array:
    try:
        return as_prior(prior, m)
    except DesignError as error:
        raise DesignError(f"priors[{k}]: {error}") from error


def worst(P: Array, B: Array, start: Array | None = None, limit: float = -1.0) -> Worst:
    """The largest I(B a, P) over mixtures a of the columns of B; P is (m, n), B is (m, K).

    With a `limit` only whether it is within that is asked, and the bounds may be far apart.
    """
    K = B.shape[1]
    found = _climbed(P, B, np.full(K, 1.0 / K) if start is None else np.maximum(start / start.sum(), _LEAST), limit)
    if start is not None and found.upper > limit >= found.lower:
        # undecided: a start close to an edge is a bad one
        other = _climbed(P, B, np.full(K, 1.0 / K), limit)
        best = max(found, other, key=lambda one: one.lower)
        found = best._replace(upper=min(found.upper, other.upper))
    return found


def _climbed(P: Array, B: Array, start: Array, limit: float) -> Worst:
    K = B.shape[1]
    units = 2.0 * (K + len(P)) * _EPS  # sums of K and m terms, each rounded
    M = B.T @ P
    there = B.max(axis=1) > 0.0
    rows, corners = P[there], B[there]
    a = best = start
    upper, lower, slack, stalled = math.inf, -1.0, np.empty(0), 0
    for _ in range(_STEPS_hull):
        p = corners @ a
        divergences, r, _ = _divergences(p / p.sum(), rows)
        D = corners.T @ divergences
        value = math.fsum(a * D)
        better = value > lower * (1.0 + 1e-15) or D.max() < upper * (1.0 - 1e-15)
        stalled = 0 if better else stalled + 1
        upper = min(upper, float(D.max()))
        if value > lower:
            lower, best = value, a
        told = limit >= 0.0 and (upper * (1.0 + units) <= limit or lower > limit)
        if told or upper - lower <= 1e-15 * upper or K == 1 or stalled > 3:
            break
        # the first slacks are such that none is close to zero
        slack = slack if slack.size else 2.0 * D.max() - D
        if float(a @ slack) < _EPS * upper:  # what is left is rounding
            break
        used = r > 0.0
        try:
            a, slack = _interior_step(a, slack, D, (M - a @ M)[:, used], r[used])
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(a).all():
            break
        a = np.maximum(a, _LEAST)
    mixed = B @ best
    mixed.flags.writeable = best.flags.writeable = False
    return Worst(upper * (1.0 + units), min(lower, upper), mixed, best)


# The ends of the curve of a robust design, and what all of its kernels are measured by ---------------


KEPT = 1.0 - 4e-15  # of a budget, so that no rounding breaks it
_LEAST_TRIES = 60


class Attempt(NamedTuple):
    """A kernel of the rows that occur, in whole numbers of 2^-53, and what it comes to, costs scaled."""

    P: Array
    found: Worst
    upper: float
    lower: float
    rounding: float
    weights: Array
    price: float


def prepared(cost: Array, B: Array, C: Array, budget: float) -> tuple[Problem, float, float]:
    """Costs above the least of each row, in units of the best constant column; and what all kernels cost anyhow."""
    least = cost.min(axis=1)
    L = cost - least[:, None]
    # kept apart, for it may dwarf what is at stake
    offset = math.fsum(C[:, 0] * least) if C.shape[1] == 1 else float(least.min())
    least = np.zeros_like(least) if C.shape[1] == 1 else least - offset
    allowed = np.isfinite(L)
    columns = (C.T @ np.where(allowed, L, 0.0)).max(axis=0)
    scale = float(np.where(allowed.all(axis=0), columns, math.inf).min())
    if not scale < math.inf:
        scale = float(L[allowed].max())
    f = scale if scale > 0.0 else 1.0
    return Problem(L / f, least / f, np.ascontiguousarray(B), np.ascontiguousarray(C), budget), scale, offset


def floor(problem: Problem) -> float:
    """A cost that no kernel goes below, whatever it tells."""
    return float((problem.C.T @ problem.least).max()) * (1.0 - units_of(problem))


def units_of(problem: Problem) -> float:
    """What the sums over a kernel are off by at most, relatively."""
    return (sum(problem.L.shape) + 8) * 2.0**-53


def costs_of(problem: Problem, P: Array) -> Array:
    """The cost of a kernel at each corner."""
    means = (P * np.where(P > 0.0, problem.L, 0.0)).sum(axis=1)
    return np.asarray(problem.C.T @ (problem.least + means))


def certain(problem: Problem, P: Array, lower: float | None = None) -> Attempt:
    """A kernel that is known to be the best, and its cost as the bound."""
    Q = rounded(P)
    costs, units = costs_of(problem, Q), units_of(problem)
    upper = float(costs.max())
    weights = np.zeros(costs.size)
    weights[int(costs.argmax())] = 1.0
    found = max(upper if lower is None else lower, floor(problem)) * (1.0 - units)
    return Attempt(Q, worst(Q, problem.B), upper * (1.0 + units), found, 4.0 * units * upper, weights, 0.0)


# Nothing told, everything told, the least that must be told ------------------------------------------


def constant(problem: Problem) -> Attempt:
    """The best kernel that tells nothing: one column, or where several odds weigh, the best mixture of columns."""
    free = np.flatnonzero(np.isfinite(problem.L).all(axis=0))
    if not free.size:
        raise InfeasibleError(
            f"leakage = {problem.budget!r} nats; the forbidden pairs (infinite costs) allow no column to all values, "
            "so something must be told"
        )
    costs = problem.C.T @ (problem.least[:, None] + problem.L[:, free])  # (corners, columns)
    P = np.zeros(problem.L.shape)
    P[:, free[int(costs.max(axis=0).argmin())]] = 1.0
    if len(costs) == 1:
        return certain(problem, P)
    # a game: the draw of a column against the odds that make it dear
    weights, law = _game(costs)
    mixed = np.zeros(problem.L.shape)
    mixed[:, free] = law
    lower = float((weights @ costs).min())
    best = min((certain(problem, each, lower) for each in (P, mixed)), key=lambda a: a.upper)
    return best._replace(weights=weights)


def _game(costs: Array) -> tuple[Array, Array]:
    """The mixtures of rows and of columns that make the game of this matrix: rows maximise, columns minimise."""
    from scipy.optimize import linprog

    k, n = costs.shape
    span = float(costs.max() - costs.min()) or 1.0
    result = linprog(
        np.concatenate((np.zeros(n), [1.0])),
        A_ub=np.column_stack(((costs - costs.min()) / span, -np.ones(k))),
        b_ub=np.zeros(k),
        A_eq=np.concatenate((np.ones(n), [0.0]))[None, :],
        b_eq=[1.0],
        bounds=[(0.0, None)] * n + [(None, None)],
        method="highs",
    )
    if result.x is None:
        return np.full(k, 1.0 / k), np.full(n, 1.0 / n)  # the gap will tell
    law, weights = np.maximum(result.x[:n], 0.0), np.maximum(-result.ineqlin.marginals, 0.0)
    return weights / weights.sum(), law / law.sum()


def cheapest(problem: Problem) -> Attempt:
    """Each row its cheapest columns, those of a tie so that little is told."""
    middle = problem.B.mean(axis=1)
    m, n = problem.L.shape
    space = Workspace(m, n, middle / middle.sum(), np.zeros(problem.L.size))
    P = space.least_information(problem.L.ravel() == 0.0)[0].reshape(problem.L.shape)
    return certain(problem, P)


def base_kernel(problem: Problem) -> Array:
    """A kernel that tells less than the budget, to mix with."""
    allowed = np.isfinite(problem.L)
    if allowed.all(axis=0).any():
        return constant(problem).P
    # the odds move towards those at which the least that must be told is most
    m, n = allowed.shape
    K, limit = problem.B.shape[1], problem.budget
    a, needed = np.full(K, 1.0 / K), 0.0
    best, told = np.empty((m, n)), math.inf
    for k in range(_LEAST_TRIES):
        p = np.maximum(problem.B @ a, 1e-12)
        flat, least = Workspace(m, n, p / p.sum(), np.zeros(m * n)).least_information(allowed.ravel())
        P = flat.reshape(m, n)
        needed = max(needed, least)
        found = worst(P, problem.B, a)
        if found.upper < told:
            best, told = P, found.upper
        if needed > limit or told <= limit * (1.0 - 1e-6) or K == 1:
            break
        a = a + (found.mixture - a) * (2.0 / (k + 3.0))
    if needed > limit or told > limit * KEPT:
        raise InfeasibleError(
            f"leakage = {limit!r} nats; at the worst odds the forbidden pairs (infinite costs) need at least "
            f"{needed:.6g} nats, and {told:.6g} are enough"
        )
    return best


def rounded(P: Array) -> Array:
    """The kernel as it is drawn, in whole numbers of 2^-53."""
    Q = np.array(P, order="C")
    kernels.whole(view(Q.reshape(-1)), *Q.shape)
    return Q


# Where the search for a robust kernel begins: ordinary problems, at the mean of the priors and beside ---


# starts: at the price of leakage of the mean of the priors, or of the dearest of them, times a factor
STARTS = ((False, 1.0), (True, 1.0), (True, 30.0), (True, 1e3), (False, 0.1))


def starting_point(problem: Problem, dearest: bool, factor: float) -> Point:
    """From ordinary problems: at the mean of the priors, and at each of them beside it."""
    B, C, n = problem.B, problem.C, problem.L.shape[1]
    K, J = B.shape[1], C.shape[1]
    middle, weights = B.mean(axis=1), C.mean(axis=1)
    q, price = _law_and_price(problem, middle, weights)
    if dearest:
        for k, j in itertools.product(range(K), range(J)):
            beside = _law_and_price(problem, 0.1 * middle + 0.9 * B[:, k], 0.1 * weights + 0.9 * C[:, j])
            q, price = q + beside[0] / (K * J), max(price, beside[1])
    q = 0.7 * q / q.sum() + 0.3 / n
    return Point(q / q.sum(), np.full(K, factor * (price or 1.0) / K), np.full(J, 1.0 / J))


def _law_and_price(problem: Problem, p: Array, w: Array) -> tuple[Array, float]:
    found = ordinary(problem, p, w)
    if found is None:
        return np.full(problem.L.shape[1], 1.0 / problem.L.shape[1]), 0.0
    return p @ found.kernel, 1.0 / found.slope if 0.0 < found.slope < math.inf else 0.0


def ordinary(problem: Problem, p: Array, w: Array) -> Solution | None:
    """The problem of one prior and other weights, which is that of costs times w / p."""
    L = problem.L
    with np.errstate(all="ignore"):
        ratio = np.where(w > 0.0, w / p, 0.0)[:, None]
        cost = np.where(np.isinf(L), math.inf, np.where(L > 0.0, np.minimum(ratio * L, 1e290), 0.0))
    try:
        return minimise(np.ascontiguousarray(cost), p / p.sum(), problem.budget)
    except DesignError:
        return None  # forbidden pairs: other odds will tell


# The robust problem head-on: an interior-point method in the kernel itself ---------------------------


_STEPS_direct = 200
_TARGET_direct = 1e-14  # of the best constant column
_TO_THE_EDGE_direct = 0.99


class _State(NamedTuple):
    """Kernel, law, level; multipliers of the budgets, the costs, the rows, and of P >= 0 and r >= 0."""

    P: Array
    r: Array
    t: float
    a: Array
    h: Array
    nu: Array
    U: Array
    v: Array


class _DirectValues(NamedTuple):
    """What is left of budgets and level, and the derivatives that a step needs."""

    s: Array
    log: Array  # ln(P / r) + 1, the slope of P ln(P / r)
    budget: Array  # (K,) left
    level: Array  # (J,) left
    lawful: Array  # (K, n): slopes of the budgets in r
    in_kernel: Array
    in_law: Array
    sums: Array


def direct(problem: Problem, base: Array) -> tuple[Array, Point] | None:
    """A kernel strictly within the budget and the point that proves how good it is; None without room to begin."""
    with np.errstate(all="ignore"):  # what is not finite is noticed
        x = _begun(problem, base)
        return None if x is None else _followed_direct(problem, x)


def _begun(problem: Problem, base: Array) -> _State | None:
    """A kernel that tells less than the budget at every corner, all that is allowed drawn sometimes."""
    B, limit = problem.B, problem.budget
    allowed = np.isfinite(problem.L)
    even = allowed / allowed.sum(axis=1, keepdims=True)
    middle = B.mean(axis=1)
    for k in range(60):
        share = 0.5 ** (k + 1)
        P = (1.0 - share) * base + share * even
        r = middle @ P
        r = 0.5 * r + 0.5 * P.mean(axis=0) if k % 2 else r
        left = limit - _told(problem, P, r / r.sum())
        if (left > 0.05 * limit).all() or (k > 30 and (left > 0.0).all()):
            break
    else:
        return None
    r = r / r.sum()
    costs = _levels(problem, P)
    mu = 1.0 / (P.size + r.size + left.size + costs.size)
    slack = float(costs.max()) - costs + mu * costs.size
    m = len(P)
    U = np.where(allowed, mu / np.where(allowed, P, 1.0), 0.0)
    return _State(P, r, float(costs.max()) + mu * costs.size, mu / left, mu / slack, np.zeros(m), U, mu / r)


def _told(problem: Problem, P: Array, r: Array) -> Array:
    """sum_i B_ik KL(P_i || r), for laws r of any sum."""
    terms = np.where(P > 0.0, P * np.log(np.where(P > 0.0, P, 1.0) / r), 0.0)
    return np.asarray(problem.B.T @ (terms.sum(axis=1) + (r.sum() - P.sum(axis=1))))


def _levels(problem: Problem, P: Array) -> Array:
    costs = np.where(np.isfinite(problem.L), problem.L, 0.0)
    return np.asarray(problem.C.T @ (problem.least + (P * costs).sum(axis=1)))


def _values_direct(problem: Problem, x: _State) -> _DirectValues:
    allowed = np.isfinite(problem.L)
    s, w = problem.B @ x.a, problem.C @ x.h
    log = np.where(allowed, np.log(np.where(allowed, x.P, 1.0) / x.r), 0.0)
    costs = np.where(allowed, problem.L, 0.0)
    gP = np.where(allowed, s[:, None] * log + w[:, None] * costs + x.nu[:, None], 0.0)
    gr = x.a.sum() - (s @ x.P) / x.r
    return _DirectValues(
        s, log, problem.budget - _told(problem, x.P, x.r), x.t - _levels(problem, x.P),
        1.0 - (problem.B.T @ x.P) / x.r, gP, gr, x.P.sum(axis=1),
    )  # fmt: skip


def _residual_direct(now: _DirectValues, x: _State, y: _State) -> float:
    """How far the conditions are from being met, each weighed by the variable y."""
    off = np.abs(y.P * (now.in_kernel - x.U)).sum() + np.abs(y.r * (now.in_law - x.v)).sum()
    return float(off + np.abs(now.sums - 1.0).sum() + abs(x.h.sum() - 1.0))


def _gap(now: _DirectValues, x: _State) -> float:
    return float((x.P * x.U).sum() + x.r @ x.v + x.a @ now.budget + x.h @ now.level)


def _followed_direct(problem: Problem, x: _State) -> tuple[Array, Point]:
    now = _values_direct(problem, x)
    count = int(np.isfinite(problem.L).sum()) + x.r.size + x.a.size + x.h.size
    best, found, stalled, centring = math.inf, x, 0, 0.2
    for _ in range(_STEPS_direct):
        gap, off = _gap(now, x), _residual_direct(now, x, x)
        if gap + off < best:
            best, found, stalled = gap + off, x, 0
        else:
            stalled += 1
        if not math.isfinite(gap + off) or best <= _TARGET_direct or stalled > 12:
            break
        dx = _direction_direct(problem, now, x, centring * gap / count)
        if dx is None:
            break
        length = min(1.0, _TO_THE_EDGE_direct * _room_direct(x, dx))
        for _ in range(40):
            new = _moved(x, dx, length)
            then = _values_direct(problem, new)
            inside = (then.budget > 0.0).all() and (then.level > 0.0).all()
            if inside and _residual_direct(then, new, x) <= max((1.0 - 0.01 * length) * off, 10.0 * _gap(then, new)):
                break
            length /= 2.0
        else:
            break
        x, now = new, then
        centring = 0.05 if length > 0.9 else 0.2 if length > 0.3 else 0.6
    return found.P, Point(found.r, found.a, found.h)


def _moved(x: _State, dx: _State, length: float) -> _State:
    return _State(
        x.P + length * dx.P, x.r + length * dx.r, x.t + length * dx.t, x.a + length * dx.a, x.h + length * dx.h,
        x.nu + length * dx.nu, x.U + length * dx.U, x.v + length * dx.v,
    )  # fmt: skip


def _direction_direct(problem: Problem, now: _DirectValues, x: _State, mu: float) -> _State | None:
    """Newton's step for complementarities of mu.

    The second derivatives are s_i / P_il in P, s_i P_il / r_l^2 in r, and -s_i / r_l between them; P goes first, which
    leaves a diagonal in r, and then both, which leaves the multipliers and the level.
    """
    B, C, s = problem.B, problem.C, now.s
    allowed = np.isfinite(problem.L)
    costs = np.where(allowed, problem.L, 0.0)
    inverse = np.where(allowed, x.P / (s[:, None] + x.U), 0.0)  # of the diagonal in P
    cross = s[:, None] * inverse / x.r
    # s P / r^2 - (s / r)^2 P / (s + U) = s P / r^2 * U / (s + U), without the difference
    diagonal = (s[:, None] * x.P * x.U / (s[:, None] + x.U)).sum(axis=0) / x.r**2 + x.v / x.r
    bP = np.where(allowed, mu / np.where(allowed, x.P, 1.0), 0.0) - now.in_kernel
    br = mu / x.r - now.in_law
    # rows of the system: budgets, costs, rows of the kernel
    K, J, m = x.a.size, x.h.size, len(s)
    fields = (now.log, costs, allowed.astype(float))
    left = (B, C, np.eye(m))
    in_r = [X.T @ (cross * field) for X, field in zip(left, fields, strict=True)]
    in_r[0] = in_r[0] + now.lawful
    R = np.concatenate(in_r)
    size = K + J + m
    M = np.zeros((size + 1, size + 1))
    at = np.cumsum([0, K, J, m])
    for i in range(3):
        for j in range(3):
            middle = (fields[i] * fields[j] * inverse).sum(axis=1)
            M[at[i] : at[i + 1], at[j] : at[j + 1]] = left[i].T @ (middle[:, None] * left[j])
    M[:size, :size] += (R / diagonal) @ R.T
    M[np.arange(K), np.arange(K)] += now.budget / x.a
    M[np.arange(K, K + J), np.arange(K, K + J)] += now.level / x.h
    M[K : K + J, -1] = M[-1, K : K + J] = 1.0
    reduced = br + (cross * bP).sum(axis=0)
    b = np.concatenate([X.T @ (field * inverse * bP).sum(axis=1) for X, field in zip(left, fields, strict=True)])
    b += R @ (reduced / diagonal)
    b -= np.concatenate((now.budget - mu / x.a, now.level - mu / x.h, 1.0 - now.sums))
    try:
        y = np.linalg.solve(M, np.concatenate((b, [1.0 - x.h.sum()])))
    except np.linalg.LinAlgError:
        return None
    da, dh, dnu, dt = y[:K], y[K : K + J], y[K + J : size], float(y[-1])
    dr = (reduced - R.T @ y[:size]) / diagonal
    push = (B @ da)[:, None] * now.log + (C @ dh)[:, None] * costs + np.where(allowed, dnu[:, None], 0.0)
    dP = inverse * (bP - push) + cross * dr
    dU = np.where(allowed, (mu - x.U * dP) / np.where(allowed, x.P, 1.0) - x.U, 0.0)
    dv = (mu - x.v * dr) / x.r - x.v
    found = _State(dP, dr, dt, da, dh, dnu, dU, dv)
    return found if all(np.isfinite(part).all() for part in found) else None


def _room_direct(x: _State, dx: _State) -> float:
    """How much of a step may be taken with all that is positive staying so."""
    room = math.inf
    for u, du in ((x.P, dx.P), (x.r, dx.r), (x.a, dx.a), (x.h, dx.h), (x.U, dx.U), (x.v, dx.v)):
        down = du < 0.0
        room = min(room, float((u[down] / -du[down]).min(initial=math.inf)))
    return room


# The kernel of least cost that keeps a budget over a hull of priors, with its proof ------------------


_IDLE = 1e-9  # of its slack, below which a column is not drawn


class Robust(NamedTuple):
    """A kernel that keeps a budget over a hull: lower <= optimum <= upper."""

    kernel: Array
    upper: float
    lower: float
    gap: float
    excess: float  # of the upper bound over the cheapest pair of each row
    rounding: float
    worst: Worst
    weights: Array  # of the corners that the cost is the largest of
    price: float
    steps: int

    @property
    def optimal(self) -> bool:
        """Whether the gap is closed."""
        return closed(self.excess, self.excess - self.gap, self.rounding)


def robust(cost: Array, B: Array, C: Array, budget: float) -> Robust:
    """The kernel of least cost, at the worst column of C, that tells at most the budget over the hull of B."""
    middle = B.mean(axis=1)
    minimise(cost, middle / middle.sum(), math.inf)  # refuses costs that are none
    there = np.asarray(middle > 0.0)
    problem, scale, offset = prepared(cost[there], B[there], C[there], budget)
    steps = 0
    if budget == 0.0:
        best = constant(problem)
    elif (cheap := cheapest(problem)).found.upper <= budget * KEPT:
        best = cheap
    elif scale == 0.0:
        best = certain(problem, base_kernel(problem))  # what is allowed is free
    else:
        base, tries = base_kernel(problem), list[Attempt]()
        for number, (dearest, factor) in enumerate(STARTS):
            point = saddle(problem, starting_point(problem, dearest, factor))
            steps += point.steps
            tries += _attempts(problem, point, base)
            if number == 0 and not _closed(problem, _best(tries)):
                tries += _head_on(problem, base)
            if _closed(problem, _best(tries)):
                break
        best = _best(tries)
    found = _unscaled(problem, scale or 1.0, cost, there, best)
    upper, lower = offset * (1.0 + 4e-16) + found.upper, offset * (1.0 - 4e-16) + found.lower
    return found._replace(upper=upper, lower=min(lower, upper), steps=steps)


def _unscaled(problem: Problem, f: float, cost: Array, there: NDArray[np.bool_], a: Attempt) -> Robust:
    kernel, prior = np.zeros(cost.shape), np.zeros(len(cost))
    kernel[there], prior[there] = a.P, a.found.prior
    for i in np.flatnonzero(~there):
        kernel[i, int(cost[i].argmin())] = 1.0  # never drawn: the value occurs at no odds of the hull
    prior.flags.writeable = False
    gap, excess = max(0.0, a.upper - a.lower), max(0.0, a.upper - floor(problem))
    return Robust(
        kernel, f * a.upper, f * min(a.lower, a.upper), f * gap, f * excess, f * a.rounding,
        a.found._replace(prior=prior), a.weights, f * a.price, 0,
    )  # fmt: skip


# Attempts --------------------------------------------------------------------------------------------


def _attempts(problem: Problem, point: Point, base: Array) -> list[Attempt]:
    """What a saddle point comes to; and, if that leaves a gap, the ordinary optimum at its odds."""
    weights, price = point.h / math.fsum(point.h), math.fsum(point.a)
    few = _pruned(problem, point)
    lower, rounding = max(bound(problem, point), bound(problem, few))
    units, tries = units_of(problem), list[Attempt]()
    for each in (few, point):
        P, found = _within(problem, each, base)
        upper = float(costs_of(problem, P).max()) * (1.0 + units)
        tries.append(Attempt(P, found, upper, max(lower, floor(problem)), rounding, weights, price))
        if _closed(problem, tries[-1]):
            return tries
    first = _best(tries)
    p, w = problem.B @ point.a, problem.C @ weights
    other = ordinary(problem, p / p.sum(), w) if price > 0.0 and (p > 0.0).all() else None
    if other is None:
        return [first]
    # the costs of that problem are rounded once more
    lower = (float(w @ problem.least) + other.bound) * (1.0 - 4.0 * units)
    second = first._replace(lower=lower, rounding=4.0 * units * upper)
    told = worst(other.kernel, problem.B, point.a, problem.budget * KEPT)
    if told.upper <= problem.budget * KEPT:
        upper = float(costs_of(problem, other.kernel).max()) * (1.0 + units)
        second = second._replace(P=other.kernel, found=told, upper=upper)
    return [first, second]


def _head_on(problem: Problem, base: Array) -> list[Attempt]:
    """What the kernel comes to that is found as such; and the one to begin with, which nothing may be worse than."""
    found, units = direct(problem, base), units_of(problem)
    tries = [] if found is None else [found[0], _cleared(problem, found[0])]
    q = np.full(problem.L.shape[1], 1.0 / problem.L.shape[1])
    # without a point the bound is that no kernel goes below, whatever it tells
    point = Point(q, np.zeros(problem.B.shape[1]), np.ones(problem.C.shape[1])) if found is None else found[1]
    lower, rounding = bound(problem, point)
    made = []
    for P in (*tries, base):
        Q = rounded(P / P.sum(axis=1, keepdims=True))
        told = worst(Q, problem.B, None, problem.budget * KEPT)
        if told.upper > problem.budget * KEPT:
            Q, told = _mixed(problem, point, Q, base, told)
        upper = float(costs_of(problem, Q).max()) * (1.0 + units)
        lowest, most = max(lower, floor(problem)), max(rounding, units * upper)
        made.append(Attempt(Q, told, upper, lowest, most, point.h / math.fsum(point.h), math.fsum(point.a)))
    return made


def _cleared(problem: Problem, P: Array) -> Array:
    """Only what is cheapest in rows of the corner that costs most, whatever is told: there no pair is rare but idle."""
    floors = problem.C.T @ problem.least
    rows = problem.C[:, floors >= floors.max() * (1.0 - 1e-15)].max(axis=1) > 0.0
    Q = np.where(rows[:, None] & (problem.L > 0.0), 0.0, P)
    return np.asarray(Q / Q.sum(axis=1, keepdims=True))


def _best(tries: list[Attempt]) -> Attempt:
    """The cheapest kernel of all, with the best of all bounds."""
    low, best = max(tries, key=lambda a: a.lower), min(tries, key=lambda a: a.upper)
    return best._replace(lower=min(low.lower, best.upper), rounding=low.rounding, weights=low.weights, price=low.price)


def _closed(problem: Problem, a: Attempt) -> bool:
    excess = max(0.0, a.upper - floor(problem))
    return closed(excess, excess - (a.upper - a.lower), a.rounding)


def _pruned(problem: Problem, point: Point) -> Point:
    """Without the columns that complementarity says are idle."""
    s = problem.B @ point.a
    P = kernel_at(problem, point)
    with np.errstate(all="ignore"):
        c = np.where(point.q > 0.0, (s @ P) / point.q, 0.0) / s.sum()
    q = np.where(point.q < _IDLE * (1.0 - c), 0.0, point.q)
    rows = np.isfinite(problem.L) & (q > 0.0)
    return point._replace(q=q / q.sum()) if rows.any(axis=1).all() else point


def _within(problem: Problem, point: Point, base: Array) -> tuple[Array, Worst]:
    """The kernel of a point, or one that tells a little less, within the budget over the hull.

    At a price that is higher by a hair, or mixed with a kernel that tells less; whichever costs less.
    """
    P = kernel_at(problem, point)
    Q = rounded(P)
    limit = problem.budget * KEPT
    found = worst(Q, problem.B, point.a, limit)
    if found.upper <= limit:
        return Q, found
    mixed = _mixed(problem, point, P, base, found)
    least, spent = float(costs_of(problem, Q).max()), float(costs_of(problem, mixed[0]).max())
    if spent - least <= 1e-11 * (least - floor(problem)):
        return mixed  # as good as free
    dearer = _dearer(problem, point)
    if dearer is None:
        return mixed
    return min(mixed, dearer, key=lambda one: float(costs_of(problem, one[0]).max()))


def _dearer(problem: Problem, point: Point) -> tuple[Array, Worst] | None:
    """The kernel at a higher price of leakage, as little as will do."""
    limit = problem.budget * KEPT
    for more in (4.0**k * 1e-16 for k in range(20)):
        Q = rounded(kernel_at(problem, point._replace(a=point.a * (1.0 + more))))
        found = worst(Q, problem.B, point.a, limit)
        if found.upper <= limit:
            return Q, found
    return None


def _mixed(problem: Problem, point: Point, P: Array, base: Array, found: Worst) -> tuple[Array, Worst]:
    """The kernel mixed with one that tells less. I is convex in the kernel, so the chord tells how much is needed."""
    limit, share = problem.budget * KEPT, 0.0
    lowest = worst(base, problem.B).upper
    for _ in range(64):
        needed = (found.upper - limit) / max(found.upper - lowest, 1e-300)
        # at least twice as much as before: what is needed is known to rounding only
        share = min(1.0, max(2.0 * share, share + (1.0 - share) * (1.001 * needed + 2.0**-52)))
        Q = rounded((1.0 - share) * P + share * base)
        found = worst(Q, problem.B, point.a, limit)
        if found.upper <= limit:
            return Q, found
    return rounded(base), worst(base, problem.B)


# Odds that are not known: a budget that holds for every prior in a convex hull -----------------------


def solve_robust(cost: Any, priors: Any, *, leakage: Any, prior: Any = None) -> RobustDesign:
    """The randomizer of least expected cost whose leakage is within the budget at all odds in a hull.

    `priors` are vectors of odds; the budget holds for every mixture of them. "all" is any odds. `prior` weighs the
    cost: odds of its own, which join the hull; "worst" for the largest expected cost over the hull; by default the mean
    of the priors (equal odds with "all"). A `leakage` in percent is a share of the entropy of these odds.

    >>> import numpy as np
    >>> found = solve_robust(1 - np.eye(2), [[0.95, 0.05], [0.05, 0.95]], leakage=0.1)
    >>> found
    RobustDesign(2 x 2, 2 priors, distortion=0.280205, leakage<=0.1, optimal)
    >>> found.worst_prior.round(6).tolist(), found.lower_bound <= found.distortion
    ([0.5, 0.5], True)
    """
    matrix = as_cost(cost)
    B, C, p = _odds(priors, prior, None, matrix.shape[0])
    budget = nats(leakage, entropy(p))
    return _designed(robust(matrix, B, C, budget), matrix, B, C, (leakage, budget), None, None, None)


def design_robust(
    family: Family,
    pseudo: Iterable[Any] | None = None,
    *,
    priors: Any,
    leakage: Any,
    prior: Any = None,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: Any = None,
    accuracy: float = 0.01,
    rng: Any = None,
    progress: Progress | None = None,
    resolution: Any = None,
    readings: Any = None,
    valid: Any = None,
) -> RobustDesign:
    """The randomizer for a family whose odds are known only to lie in the hull of some priors.

    `priors` and `prior` are as in `solve_robust`, except that with "all" the cost is weighed by the family's own odds;
    the rest as in `us.design`. What comes back is a design like others, with streams, and says what holds over the
    hull: `worst_prior`, `worst_leakage`, `card`. Its streams are charged with the worst leakage.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(3.0 * v, 1.0)), values=[0, 1, 2])
    >>> quiet, busy = [0.8, 0.15, 0.05], [0.1, 0.3, 0.6]
    >>> found = design_robust(family, [0, 0.5, 1, 1.5, 2], priors=[quiet, busy], leakage=0.3, distortion="mae")
    >>> found.status, bool(found.worst_leakage <= 0.3)
    ('optimal', True)
    >>> found.leakage_at([0.45, 0.225, 0.325]) <= found.worst_leakage
    True
    """
    if not isinstance(family, Family):
        raise DesignError(
            f"family is a {type(family).__name__}; it must be a Family (us.solve_robust takes bare costs)"
        )
    B, C, p = _odds(priors, prior, family.prior, len(family.values))
    budget = nats(leakage, entropy(p))
    middle = B.mean(axis=1)
    leak = charge(_with_prior(family, middle / middle.sum()), horizon, rng)
    left = budget
    if leak is not None:
        left = min(_charge_at(leak, corner).left_for_the_draw(budget) for corner in B.T)
    found = costs(_with_prior(family, p), pseudo, horizon, distortion, weights, accuracy, rng, progress)
    solution = robust(np.array(found.matrix, order="C"), B, C, left)
    made = _designed(solution, found.matrix, B, C, (leakage, budget), family, found, leak)
    return with_terms(made, Terms(resolution, readings, valid))


def _odds(priors: Any, prior: Any, own: Array | None, m: int) -> tuple[Array, Array, Array]:
    """Corners of the hull, corners of what weighs the cost, and the odds that an entropy is taken of."""
    B = as_corners(priors, m)
    if isinstance(prior, str):
        if prior != "worst":
            raise DesignError(f"prior = {prior!r}; it must be odds, or 'worst' for the largest cost over the hull")
        middle = B.mean(axis=1)
        return B, B, middle / middle.sum()
    if prior is not None:
        p = as_prior(prior, m)
        return np.column_stack((B, p)), p[:, None], p
    p = np.asarray(own) if own is not None and isinstance(priors, str) else as_prior(B.mean(axis=1), m)
    return B, p[:, None], p


def _with_prior(family: Family, prior: Array) -> Family:
    """The family at other odds; its models stay those that were worked out."""
    if np.array_equal(family.prior, prior):
        return family
    return Family(family.model, family.values, prior, family.about)


def _charge_at(leak: Charge, prior: Array) -> Charge:
    return Charge.of(prior, leak.charged, leak.horizon, leak.how)


def _designed(
    found: Robust,
    cost: Array,
    B: Array,
    C: Array,
    demand: tuple[Any, float],
    family: Family | None,
    measured: Costs | None,
    leak: Charge | None,
) -> RobustDesign:
    p = as_prior(C @ found.weights, len(cost))
    names = (None, None) if measured is None else (measured.values, measured.pseudo)
    weights = p[:, None] * found.kernel
    error = 0.0 if measured is None else measured.expected(weights)[1]
    corners = np.ascontiguousarray(B.T)
    for array in (p, cost, corners):
        array.setflags(write=False)
    return RobustDesign(
        Randomizer._certified(found.kernel, *names), p, cost, found.upper, found.lower,
        found.gap, found.worst.upper, demand[1], ("leakage", demand[0]),
        "optimal" if found.optimal else "inexact", found.steps, 1.0 / found.price if found.price > 0.0 else math.inf,
        0.0, error, None if family is None else _with_prior(family, p), measured,
        None if leak is None else _charge_at(leak, p),
        priors=corners, worst_prior=found.worst.prior, weighed="worst" if C.shape[1] > 1 else "stated",
    )  # fmt: skip


# A robust design as a file: an ordinary one's content, and the priors of the hull --------------------


KIND, VERSION_robust_storage = "robust design", 2

_NUMBERS = ("distortion", "lower_bound", "leakage", "budget", "distortion_error")
_FIELDS = {
    "values", "pseudo", "kernel", "prior", "priors", "weighed", "cost", "numbers", "demand", "status", "iterations",
    "costs", "family", "probes", "charge", "release",
}  # fmt: skip


def save(design: RobustDesign, path: str | os.PathLike[str], models: bool = True) -> str:
    """Write a robust design; see `RobustDesign.save`."""
    demand = design.demand[1]
    content: dict[str, Any] = {
        "values": [value_to_plain(value) for value in design.values],
        "pseudo": [value_to_plain(value) for value in design.pseudo],
        "kernel": design.randomizer.counts.tolist(),
        "prior": design.prior.tolist(),
        "priors": design.priors.tolist(),
        "weighed": design.weighed,
        "cost": [[_plain(x) for x in row] for row in design.cost.tolist()],
        "numbers": {name: _plain(getattr(design, name)) for name in _NUMBERS},
        "demand": demand if isinstance(demand, str) else _plain(float(demand)),
        "status": design.status,
        "iterations": design.iterations,
        "costs": None if design.costs is None else _plain_costs(design.costs),
        "family": None,
        "probes": None,
        "charge": None if design.charge is None else _plain_charge(design.charge),
        "release": plain_release(design),
    }
    if design.family is not None:
        content["probes"] = [probe(design.family.model(value)) for value in (*design.values, *design.pseudo)]
        if models:
            content["family"] = design.family.to_dict(design.pseudo)
    return write(path, content, KIND, VERSION_robust_storage)


def load_robust(path: str | os.PathLike[str], family: Family | None = None) -> RobustDesign:
    """Read a design that `RobustDesign.save` wrote, and check it; `family` is as in `us.load_design`.

    >>> import os, tempfile
    >>> from understudy.randomizer.robust import solve_robust
    >>> made = solve_robust([[0, 1], [1, 0]], [[0.9, 0.1], [0.1, 0.9]], leakage=0.2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = made.save(os.path.join(folder, "room.json"))
    ...     load_robust(os.path.join(folder, "room.json"))
    RobustDesign(2 x 2, 2 priors, distortion=0.194827, leakage<=0.2, optimal)
    """
    content = with_release(read(path, KIND, VERSIONS))
    if content.keys() != _FIELDS:
        raise StoredFileError(f"{os.fspath(path)!s}: the fields are not those of a robust design")
    with holding_together(path):
        return _design(content, family)


def _design(content: dict[str, Any], family: Family | None) -> RobustDesign:
    values = [value_from_plain(value) for value in _list("values", content["values"])]
    pseudo = [value_from_plain(value) for value in _list("pseudo", content["pseudo"])]
    m = len(values)
    cost = as_cost(_matrix("cost", content["cost"], (m, len(pseudo))))
    prior = as_prior(_matrix("prior", content["prior"], (m,)), m)
    corners = _matrix("priors", content["priors"], (len(content["priors"]), m))
    B = np.stack([as_prior(corner, m) for corner in corners], axis=1)
    if content["weighed"] not in ("stated", "worst"):
        raise StoredFileError("weighed must be stated or worst")
    C = B if content["weighed"] == "worst" else prior[:, None]
    attached = _family(content, values, pseudo, _at(family, prior))
    found = None if content["costs"] is None else _costs(content["costs"], cost, values, pseudo)
    leak = _charge(content["charge"], prior, attached, found)
    budget = _number("budget", content["numbers"]["budget"])
    demand = content["demand"] if type(content["demand"]) is str else _number("demand", content["demand"])
    left = budget if leak is None else min(_charge_at(leak, p).left_for_the_draw(budget) for p in B.T)
    fresh = _designed(robust(cost, B, C, left), cost, B, C, (demand, budget), attached, found, leak)
    made = _with_kernel(fresh, Randomizer(_kernel(content["kernel"], cost.shape), values, pseudo), left, C)
    for name in _NUMBERS:
        if not is_near(_number(name, content["numbers"][name]), getattr(made, name)):
            raise StoredFileError(f"{name} is not what the kernel, the priors and the costs give")
    if content["status"] != made.status or type(content["iterations"]) is not int:
        raise StoredFileError("status or iterations is not what the kernel, the priors and the costs give")
    return with_terms(made, terms_of(content, attached))


def _at(family: Family | None, prior: Any) -> Family | None:
    if family is None or np.array_equal(family.prior, prior):
        return family
    return Family(family.model, family.values, prior, family.about)


def _with_kernel(fresh: RobustDesign, stored: Randomizer, budget: float, C: Any) -> RobustDesign:
    if np.array_equal(fresh.randomizer.kernel, stored.kernel):
        return replace(fresh, randomizer=stored)
    told = worst(stored.kernel, np.ascontiguousarray(fresh.priors.T))
    drawn = stored.kernel > 0.0
    distortion = float((C.T @ (stored.kernel * np.where(drawn, fresh.cost, 0.0)).sum(axis=1)).max())
    if told.upper > budget or not math.isclose(distortion, fresh.distortion, rel_tol=1e-8, abs_tol=1e-300):
        raise StoredFileError("the kernel is not a solution for the priors, the costs and the budget")
    return replace(fresh, randomizer=stored, distortion=distortion, leakage=told.upper, worst_prior=told.prior)
