"""Priors that are not known: a budget that holds for every prior in a convex hull.

The leakage I(p, P) is concave in the prior p. A randomizer that keeps its budget at two priors may break it between
them: [[.8, .2], [.2, .8]] leaks 0.039 nats at a prior of 95 to 5 percent, either way round, and 0.193 in the middle.
Here the budget is kept at *every* mixture of the priors that are given, or at any prior at all (`priors="all"`, the
capacity). `worst_prior` finds the prior of a hull at which a kernel leaks most, with a bound that is proven.

The kernel of least cost with I(p, P) <= I_0 for every p in the hull of the columns of B is a saddle point, since the
information is concave in p and convex in P. With s = B a, a >= 0 (the worst prior times a price of leakage), w = C h
(the prior that weighs the cost: one column, or the worst of several) and q a law of the draw::

    optimum = max over a, h of min over q of  sum_i w_i least_i - sum_i s_i ln z_i - |s| I_0
    z_i = sum_j q_j exp(-w_i L_ij / s_i),      P_ij = q_j exp(-w_i L_ij / s_i) / z_i

where L is the cost above the least of its row. The function is concave in (a, h), convex in q, and smooth. One
primal-dual interior-point method (`saddle`) finds the worst prior, the price and the kernel together; for one prior
this is the ordinary randomizer problem. Nothing rests on the method having arrived: any a, h and q prove a lower bound
(`bound`), and the kernel is mixed with one that leaks less until its proven leakage over the hull is within the budget.
"""

from __future__ import annotations

import contextlib
import json
import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy import text
from understudy._types import Array, Mask, Plain, Progress, Seed, Value
from understudy.distortion.costs import Costs, costs
from understudy.distortion.measures import Function
from understudy.errors import ConfigurationError, DesignError, InfeasibleError, StoredFileError
from understudy.models.family import Family
from understudy.randomizer.design import (
    FIELDS,
    Design,
    Randomizer,
    agree,
    shared_parts,
    stored_charge,
    stored_demand,
    stored_randomizer,
    stored_terms,
    total,
    with_terms,
)
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
from understudy.randomizer.residual import Charge, charge
from understudy.randomizer.solver import Workspace, as_cost, as_prior, closed, kernels, minimise, nats, view
from understudy.serialize import matrix_from_plain, number_from_plain
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

    kind: ClassVar[str] = "robust"
    file_kind: ClassVar[str] = "robust design"

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

    def leakage_at(self, prior: ArrayLike) -> float:
        """What a draw tells at given odds, in the hull or not."""
        return mutual_information(as_prior(prior, len(self.prior)), self.randomizer.kernel)

    def leakage_of_draw(self, marginal: ArrayLike | str | None = None) -> float:
        """Nats that one draw gives away: over the hull for "design", at given odds, or at any odds if None."""
        if marginal is None:
            return capacity(self.randomizer.kernel, self.priors.mean(axis=0)).upper
        if isinstance(marginal, str):
            if marginal != DESIGN_PRIOR:
                raise ConfigurationError(f"marginal = {marginal!r}; it must be 'design', odds, or None if unknown")
            return self.leakage
        return self.leakage_at(marginal)

    def residual_of_block(self, marginal: ArrayLike | str | None = DESIGN_PRIOR) -> tuple[float, int] | None:
        """Nats that approximate models give away over so many readings; see `Design.residual_of_block`."""
        if self.charge is not None and isinstance(marginal, str) and marginal == DESIGN_PRIOR:
            return self.residual, self.charge.horizon
        return Design.residual_of_block(self, marginal)

    @property
    def headline(self) -> str:
        """What is guaranteed over the hull, in one sentence, conditions included."""
        priors = None if self.any_odds else len(self.priors)
        horizon = None if self.charge is None else self.charge.horizon
        return text.robust_claim(priors, self.total_leakage, self.worst_error, horizon)

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
            f"reached at the odds {_percentages(self.worst_prior)}",
        ]
        if self.charge is not None:
            lines.append(f"residual         {text.number(self.residual, 'up')} nats over {self.charge.readings}")
        if not self.any_odds:
            lines.append("")
            lines.append(f"{'odds':34}{'nats':>10}{'wrong before':>16}{'wrong after':>15}")
            for p, error in zip(self.priors, self._errors(), strict=True):
                before = text.percent(prior_error(p), "down")
                told = text.number(self.leakage_at(p), "up")
                lines.append(f"{_percentages(p):34}{told:>10}{before:>16}{text.percent(error, 'down'):>15}")
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

    def to_content(self, models: bool = True) -> Plain:
        """What a file holds of the design: an ordinary one's content, and the priors of the hull."""
        content = Design.to_content(self, models)
        return content | {
            "numbers": {name: content["numbers"][name] for name in _NUMBERS},
            "demand": content["demand"][1],
            "charge": content.get("charge"),
            "priors": self.priors.tolist(),
            "weighed": self.weighed,
        }

    @classmethod
    def from_content(cls, content: Plain, family: Family | None) -> RobustDesign:
        """The design in a file, compared with one that is found anew; the family may have any prior."""
        if content.keys() != _FIELDS:
            raise StoredFileError("the fields are not those of a robust design")
        parts = shared_parts(content, family, any_prior=True)
        m = len(parts.values)
        corners = matrix_from_plain("priors", content["priors"], (len(content["priors"]), m))
        B = np.stack([as_prior(corner, m) for corner in corners], axis=1)
        if content["weighed"] not in ("stated", "worst"):
            raise StoredFileError("weighed must be stated or worst")
        C = B if content["weighed"] == "worst" else parts.prior[:, None]
        leak = stored_charge(content["charge"], parts)
        budget = number_from_plain("budget", content["numbers"]["budget"])
        left = budget if leak is None else min(_charge_at(leak, p).left_for_the_draw(budget) for p in B.T)
        demand = stored_demand(content["demand"]), budget
        found = robust(parts.cost, B, C, left)
        fresh = _designed(found, parts.cost, B, C, demand, parts.family, parts.costs, leak)
        made = _stored_kernel(fresh, stored_randomizer(content["kernel"], parts), left, C)
        for name in _NUMBERS:
            if not agree(number_from_plain(name, content["numbers"][name]), getattr(made, name)):
                raise StoredFileError(f"{name} is not what the kernel, the priors and the costs give")
        if content["status"] != made.status or type(content["iterations"]) is not int:
            raise StoredFileError("status or iterations is not what the kernel, the priors and the costs give")
        return with_terms(made, stored_terms(content, parts.family))

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


def _percentages(p: Array) -> str:
    shown = " : ".join(f"{100.0 * x:.4g}" for x in np.asarray(p).tolist())
    return shown if len(shown) <= 33 else f"{shown[:30]}..."


# The worst prior of a hull ---------------------------------------------------------------------------

_EPS = float(np.finfo(float).eps)
_STEPS = 150
_LEAST = 1e-100  # weight that every corner keeps, so that no draw of its values is overlooked


class Worst(NamedTuple):
    """The largest leakage over a hull, at most `upper` and at least `lower`, and the prior that reaches `lower`."""

    upper: float
    lower: float
    prior: Array
    mixture: Array  # of the corners


def worst_prior(kernel: ArrayLike, priors: ArrayLike | str) -> Worst:
    """The prior in the convex hull of `priors` at which a kernel gives away most, and how much that is.

    Parameters
    ----------
    kernel : array_like, shape (m, n)
        A randomizer, rows sum to one.
    priors : array_like, shape (K, m), or "all"
        The corners of the hull; "all" is any prior, and the leakage then the capacity.

    Returns
    -------
    Worst
        Bounds on the largest leakage, in nats, and the prior that reaches the lower one.

    Examples
    --------
    >>> found = worst_prior([[0.8, 0.2], [0.2, 0.8]], [[0.95, 0.05], [0.05, 0.95]])
    >>> round(found.upper, 6), found.prior.round(6).tolist()
    (0.192745, [0.5, 0.5])
    >>> round(worst_prior([[0.8, 0.2], [0.2, 0.8]], [[0.95, 0.05], [0.9, 0.1]]).upper, 6)
    0.072654

    """
    P = checked_kernel(kernel)
    return worst(P, as_corners(priors, len(P)))


def as_corners(priors: ArrayLike | str, m: int) -> Array:
    """Priors (K, m) as the columns of a matrix (m, K)."""
    if isinstance(priors, str):
        if priors != "all":
            raise DesignError(f"priors = {priors!r}; they must be several priors, or 'all' for any odds")
        return np.eye(m)
    if not isinstance(priors, Iterable):
        raise DesignError(f"priors is a {type(priors).__name__}; it must hold several priors, or be 'all'")
    rows = [_corner(k, prior, m) for k, prior in enumerate(priors)]
    if not rows:
        raise DesignError("priors is empty; there must be at least one")
    return np.ascontiguousarray(np.stack(rows, axis=1))


def _corner(k: int, prior: ArrayLike, m: int) -> Array:
    try:
        return as_prior(prior, m)
    except DesignError as error:
        raise DesignError(f"priors[{k}]: {error}") from error


def worst(P: Array, B: Array, start: Array | None = None, limit: float = -1.0) -> Worst:
    """The largest I(B a, P) over mixtures a of the columns of B; P is (m, n), B is (m, K).

    For every law r of the draw I(p, P) <= sum_i p_i KL(P_i || r). The right side is linear in p, so that its largest
    value over the hull is at a corner; at the worst prior, with r the law of the draw under it, the two meet. With a
    `limit` the search ends once it is known whether the leakage is within that.
    """
    K = B.shape[1]
    even = np.full(K, 1.0 / K)
    found = _ascend(P, B, even if start is None else np.maximum(start / start.sum(), _LEAST), limit)
    if start is not None and found.upper > limit >= found.lower:
        # undecided: a start close to an edge is a bad one
        other = _ascend(P, B, even, limit)
        best = max(found, other, key=lambda one: one.lower)
        found = best._replace(upper=min(found.upper, other.upper))
    return found


def _ascend(P: Array, B: Array, start: Array, limit: float) -> Worst:
    K = B.shape[1]
    units = 2.0 * (K + len(P)) * _EPS  # sums of K and m terms, each rounded
    M = B.T @ P
    there = B.max(axis=1) > 0.0
    rows, corners = P[there], B[there]
    a = best = start
    upper, lower, slack, stalled = math.inf, -1.0, np.empty(0), 0
    for _ in range(_STEPS):
        p = corners @ a
        divergences, r, _ = _divergences(p / p.sum(), rows)
        D = corners.T @ divergences
        value = math.fsum(a * D)
        better = value > lower * (1.0 + 1e-15) or D.max() < upper * (1.0 - 1e-15)
        stalled = 0 if better else stalled + 1
        upper = min(upper, float(D.max()))
        if value > lower:
            lower, best = value, a
        decided = limit >= 0.0 and (upper * (1.0 + units) <= limit or lower > limit)
        if decided or upper - lower <= 1e-15 * upper or K == 1 or stalled > 3:
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


# The saddle point ------------------------------------------------------------------------------------

_ROUNDOFF = 2.0**-53
_TARGET = 1e-13  # of the cost above the least possible
_TO_THE_EDGE = 0.995
_FAR = 1e280  # an exponent that is as good as infinite, and yet the smallest of a row


class Problem(NamedTuple):
    """Costs above the least of each row, infinite where forbidden; that least; corners of the priors; the budget."""

    L: Array  # (m, n)
    least: Array  # (m,)
    B: Array  # (m, K): the budget holds for the hull of these
    C: Array  # (m, J): the cost is the largest of these
    budget: float

    @property
    def limit(self) -> float:
        """The budget, less what rounding may add."""
        return self.budget * (1.0 - 4e-15)

    @property
    def units(self) -> float:
        """What the sums over a kernel are off by at most, relatively."""
        return (sum(self.L.shape) + 8) * _ROUNDOFF

    @property
    def floors(self) -> Array:
        """What every kernel costs at each corner at least, whatever it leaks."""
        return np.asarray(self.C.T @ self.least)

    @property
    def floor(self) -> float:
        """A cost that no kernel goes below, rounded down."""
        return float(self.floors.max()) * (1.0 - self.units)

    def costs(self, P: Array) -> Array:
        """The cost of a kernel at each corner."""
        means = (P * np.where(P > 0.0, self.L, 0.0)).sum(axis=1)
        return np.asarray(self.C.T @ (self.least + means))


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
    deviation: Array  # L_ij - mean_i where allowed
    variance: Array
    excess: float  # the cost above the least possible
    slopes: Array  # in q, minus those in a, minus those in h


def saddle(problem: Problem, start: Point) -> Point:
    """The saddle point, as close as a primal-dual interior-point method comes.

    With x = (q, a, h) >= 0 and t the level of the cost, the slack of the conditions is the slope in q, minus the slope
    in a, and t minus the slope in h. The multipliers z of x >= 0 are to be equal to it, and x z to zero.
    """
    n, K = start.q.size, start.a.size
    x = np.concatenate(start[:3])
    with np.errstate(all="ignore"):  # what is not finite is noticed
        now = _values(problem, x)
        level = np.arange(x.size) >= n + K  # entries of h
        t = float(-now.slopes[level].min())
        z = np.maximum(now.slopes + t * level, 0.0) + 0.1 / x
        centring, best, nearest, stalled = 0.2, x, math.inf, 0
        for steps in range(1, _STEPS + 1):  # noqa: B007 - counts what was needed
            gap = float(x @ z)
            off = _residual(now, x, x, z, t, level)
            stalled = 0 if gap + off < nearest else stalled + 1
            if gap + off < nearest:
                best, nearest = x, gap + off
            target = _TARGET * min(1.0, now.excess)
            if gap + off <= target or stalled > 12:
                break
            mu = max(centring * gap, 1e-3 * target) / x.size
            direction = _direction(problem, now, x, z, t, mu)
            if direction is None:
                break
            dx, dz, dt = x * direction[:-1], mu / x - z - z * direction[:-1], float(direction[-1])
            length = min(1.0, _TO_THE_EDGE * min(_room(x, dx), _room(z, dz)))
            for _ in range(12):
                new, multipliers, moved = x + length * dx, z + length * dz, t + length * dt
                then = _values(problem, new)
                # the step may not leave the neighbourhood of the path: residuals, weighed as before, fall with the gap
                after = _residual(then, x, new, multipliers, moved, level)
                if after <= max((1.0 - 0.01 * length) * off, 10.0 * float(new @ multipliers)) and math.isfinite(after):
                    break
                length /= 2.0
            x, z, t, now = new, multipliers, moved, then
            centring = 0.05 if length > 0.9 else 0.2 if length > 0.3 else 0.6
    return Point(best[:n], best[n : n + K], best[n + K :], steps)


def _values(problem: Problem, x: Array) -> _Values:
    L, least, B, C, budget = problem
    n, K = L.shape[1], B.shape[1]
    q, s, w = x[:n], B @ x[n : n + K], C @ x[n + K :]
    allowed = np.isfinite(L)
    costs = np.where(allowed, L, 0.0)
    ratio = w / s
    E = np.exp(-np.where(allowed, ratio[:, None] * costs, math.inf))
    z = E @ q
    A = E / z[:, None]
    P = A * q
    mean = (P * costs).sum(axis=1)
    deviation = np.where(allowed, costs - mean[:, None], 0.0)
    variance = (P * deviation**2).sum(axis=1)
    # KL(P_i || q) - I_0: what is left of the budget
    leaked = -np.log(z) - ratio * mean + (float(q.sum()) - 1.0 - budget)
    slopes = np.concatenate((float(s.sum()) - s @ A, -(B.T @ leaked), -(C.T @ (least + mean))))
    return _Values(s, w, A, deviation, variance, float(w @ mean), slopes)


def _residual(now: _Values, weights: Array, x: Array, z: Array, t: float, level: Mask) -> float:
    """How far the conditions are from being met, each weighed by its variable."""
    off = np.abs(weights * (now.slopes + t * level - z)).sum()
    return float(off + abs(x[level].sum() - 1.0))


def _direction(problem: Problem, now: _Values, x: Array, z: Array, t: float, mu: float) -> Array | None:
    """Newton's step for the conditions with complementarities of mu, relative to the variables."""
    n, K = problem.L.shape[1], problem.B.shape[1]
    q, a, h = x[:n], x[n : n + K], x[n + K :]
    s, A, ratio, v = now.s, now.A, now.w / now.s, now.variance / now.s
    U, W = problem.B * a, problem.C * h
    # Phi_qq = A' diag(s) A, Phi_qs = 1 - A (1 + w/s (L - mean)), Phi_qw = A (L - mean); scaled by q, a, h
    root = np.sqrt(s)[:, None] * A * q
    qa = (q * (1.0 - A * (1.0 + ratio[:, None] * now.deviation))).T @ U
    qh = (q * (A * now.deviation)).T @ W
    # Phi_ss = -w^2 var / s^3, Phi_sw = w var / s^2, Phi_ww = -var / s
    aa, ah, hh = -(U.T @ ((v * ratio**2)[:, None] * U)), U.T @ ((v * ratio)[:, None] * W), -(W.T @ (v[:, None] * W))
    none = np.zeros((n + K, 1))
    G = np.block([[root.T @ root, qa, qh], [qa.T, aa, ah], [qh.T, ah.T, hh]])
    sign = np.where(np.arange(x.size) < n, 1.0, -1.0)
    G[np.arange(x.size), np.arange(x.size)] += sign * x * z
    edge = np.concatenate((none, -h[:, None]))
    G = np.block([[G, edge], [edge.T, np.zeros((1, 1))]])
    slack = now.slopes + t * (np.arange(x.size) >= n + K)
    right = np.concatenate((sign * (mu - x * slack), [float(h.sum()) - 1.0]))
    try:
        found = np.asarray(np.linalg.solve(G, right), dtype=float)
    except np.linalg.LinAlgError:
        return None
    return found if np.isfinite(found).all() else None


def _room(x: Array, dx: Array) -> float:
    """How much of a step may be taken with x staying positive."""
    down = dx < 0.0
    return float((x[down] / -dx[down]).min(initial=math.inf))


def kernel_at(problem: Problem, point: Point) -> Array:
    """P_ij = q_j exp(-w_i L_ij / s_i) / z_i: the kernel of a point."""
    x = np.where(point.q > 0.0, _exponents(problem, point), math.inf)
    weights = point.q * np.exp(-(x - x.min(axis=1, keepdims=True)))
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


# Kernels that are known without a search -------------------------------------------------------------

_LEAST_TRIES = 60


class Attempt(NamedTuple):
    """A kernel of the rows that occur, in whole numbers of 2^-53, and what it comes to, costs scaled."""

    P: Array
    worst: Worst
    upper: float
    lower: float
    rounding: float
    weights: Array  # of the corners that the cost is the largest of
    price: float
    steps: int = 0


def prepare(cost: Array, B: Array, C: Array, budget: float) -> tuple[Problem, float, float]:
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


def _known(problem: Problem, P: Array, lower: float | None = None) -> Attempt:
    """A kernel that is known to be the best, and its cost as the bound."""
    Q = round_kernel(P)
    costs, units = problem.costs(Q), problem.units
    upper = float(costs.max())
    weights = np.zeros(costs.size)
    weights[int(costs.argmax())] = 1.0
    bound = max(upper if lower is None else lower, problem.floor) * (1.0 - units)
    return Attempt(Q, worst(Q, problem.B), upper * (1.0 + units), bound, 4.0 * units * upper, weights, 0.0)


def constant(problem: Problem) -> Attempt:
    """The best kernel that leaks nothing: one column, or where several priors weigh, the best mixture of columns."""
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
        return _known(problem, P)
    # a game: the draw of a column against the prior that makes it dear
    weights, law = _game(costs)
    mixed = np.zeros(problem.L.shape)
    mixed[:, free] = law
    lower = float((weights @ costs).min())
    best = min((_known(problem, each, lower) for each in (P, mixed)), key=lambda a: a.upper)
    return best._replace(weights=weights)


def _game(costs: Array) -> tuple[Array, Array]:
    """The mixtures of rows and of columns that solve the game of this matrix: rows maximise, columns minimise."""
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
        return np.full(k, 1.0 / k), np.full(n, 1.0 / n)  # the gap will show it
    law, weights = np.maximum(result.x[:n], 0.0), np.maximum(-result.ineqlin.marginals, 0.0)
    return weights / weights.sum(), law / law.sum()


def _least_information(allowed: Mask, p: Array) -> tuple[Array, float]:
    """The kernel on the allowed pairs that leaks least at a prior, and how much that is."""
    m, n = allowed.shape
    flat, least = Workspace(m, n, p / p.sum(), np.zeros(m * n)).least_information(allowed.ravel())  # type: ignore[arg-type]  # a mask will do
    return flat.reshape(m, n), least


def base_kernel(problem: Problem) -> Array:
    """A kernel that leaks less than the budget, to mix with."""
    allowed = np.isfinite(problem.L)
    if allowed.all(axis=0).any():
        return constant(problem).P
    # the prior moves towards the one at which the least that must be leaked is most
    K, limit = problem.B.shape[1], problem.budget
    a, needed, leaked = np.full(K, 1.0 / K), 0.0, math.inf
    best = np.empty(allowed.shape)
    for k in range(_LEAST_TRIES):
        P, least = _least_information(allowed, np.maximum(problem.B @ a, 1e-12))
        needed = max(needed, least)
        found = worst(P, problem.B, a)
        if found.upper < leaked:
            best, leaked = P, found.upper
        if needed > limit or leaked <= limit * (1.0 - 1e-6) or K == 1:
            break
        a = a + (found.mixture - a) * (2.0 / (k + 3.0))
    if needed > limit or leaked > problem.limit:
        raise InfeasibleError(
            f"leakage = {limit!r} nats; at the worst odds the forbidden pairs (infinite costs) need at least "
            f"{needed:.6g} nats, and {leaked:.6g} are enough"
        )
    return best


def round_kernel(P: Array) -> Array:
    """The kernel as it is drawn, in whole numbers of 2^-53."""
    Q = np.array(P, order="C")
    kernels.whole(view(Q.reshape(-1)), *Q.shape)
    return Q


# The kernel of least cost, with its proof ------------------------------------------------------------

_IDLE = 1e-9  # of its slack, below which a column is not drawn
_PRICES = (1.0, 30.0, 0.1, 1e3)  # where searches start, in units of the price at the mean of the priors


class Robust(NamedTuple):
    """A kernel that keeps a budget over a hull: lower <= optimum <= upper."""

    kernel: Array
    upper: float
    lower: float
    gap: float
    optimal: bool
    worst: Worst
    weights: Array  # of the corners that the cost is the largest of
    price: float
    steps: int


def robust(cost: Array, B: Array, C: Array, budget: float) -> Robust:
    """The kernel of least cost, at the worst column of C, that leaks at most the budget over the hull of B."""
    middle = B.mean(axis=1)
    minimise(cost, middle / middle.sum(), math.inf)  # refuses costs that are none
    there = np.asarray(middle > 0.0)
    problem, scale, offset = prepare(cost[there], B[there], C[there], budget)
    found = _solve(problem)
    kernel, prior = np.zeros(cost.shape), np.zeros(len(cost))
    kernel[there], prior[there] = found.P, found.worst.prior
    for i in np.flatnonzero(~there):
        kernel[i, int(cost[i].argmin())] = 1.0  # never drawn: the value occurs at no prior of the hull
    prior.flags.writeable = False
    f = scale or 1.0
    upper = offset * (1.0 + 4e-16) + f * found.upper
    lower = offset * (1.0 - 4e-16) + f * min(found.lower, found.upper)
    return Robust(
        kernel, upper, min(lower, upper), f * max(0.0, found.upper - found.lower), _is_closed(problem, found),
        found.worst._replace(prior=prior), found.weights, f * found.price, found.steps,
    )  # fmt: skip


def _solve(problem: Problem) -> Attempt:
    if problem.budget == 0.0:
        return constant(problem)
    # each row its cheapest columns, those of a tie so that little is leaked
    cheapest = _known(problem, _least_information(problem.L == 0.0, problem.B.mean(axis=1))[0])
    if cheapest.worst.upper <= problem.limit:
        return cheapest
    base = base_kernel(problem)
    tries, steps = [_attempt(problem, base, (problem.floor, 0.0), cheapest.weights, 0.0)], 0
    for number, start in enumerate(_starts(problem)):
        if _is_closed(problem, _best(tries)):
            break
        point = saddle(problem, start)
        steps += point.steps
        tries += _attempts(problem, point, base)
        if number == 0 and not _is_closed(problem, _best(tries)):
            tries += _at_the_floor(problem)
    best = _best(tries)
    tight = worst(best.P, problem.B)
    return best._replace(steps=steps, worst=tight._replace(upper=min(tight.upper, best.worst.upper)))


def _starts(problem: Problem) -> Iterator[Point]:
    """Where searches start: the law of the draw and the price of the ordinary problem at the mean of the priors."""
    p, w, L = problem.B.mean(axis=1), problem.C.mean(axis=1), problem.L
    n, K, J = L.shape[1], problem.B.shape[1], problem.C.shape[1]
    q, price = np.full(n, 1.0 / n), 1.0
    with np.errstate(all="ignore"):
        # other weights than the prior are other costs
        ratio = np.where(w > 0.0, w / p, 0.0)[:, None]
        cost = np.where(np.isinf(L), math.inf, np.where(L > 0.0, np.minimum(ratio * L, 1e290), 0.0))
    with contextlib.suppress(DesignError):  # forbidden pairs: the search will show whether there is a kernel
        found = minimise(np.ascontiguousarray(cost), p / p.sum(), problem.budget)
        q = p @ found.kernel
        price = 1.0 / found.slope if 0.0 < found.slope < math.inf else 1.0
    q = 0.7 * q / q.sum() + 0.3 / n
    for factor in _PRICES:
        yield Point(q / q.sum(), np.full(K, factor * price / K), np.full(J, 1.0 / J))


def _attempt(problem: Problem, P: Array, proof: tuple[float, float], weights: Array, price: float) -> Attempt:
    """A kernel within the budget and a lower bound, with its rounding."""
    found = worst(P, problem.B, None, problem.limit)
    upper = float(problem.costs(P).max()) * (1.0 + problem.units)
    rounding = max(proof[1], 2.0 * problem.units * upper)
    return Attempt(P, found, upper, max(proof[0], problem.floor), rounding, weights, price)


def _attempts(problem: Problem, point: Point, base: Array) -> list[Attempt]:
    """What a saddle point comes to, without the columns that it says are idle, and with them."""
    few = _prune(problem, point)
    proof = max(bound(problem, point), bound(problem, few))
    weights, price = point.h / math.fsum(point.h), math.fsum(point.a)
    return [_attempt(problem, _within(problem, each, base), proof, weights, price) for each in (few, point)]


def _at_the_floor(problem: Problem) -> list[Attempt]:
    """What is left to choose where one corner costs what it must cost in any case, and no other need cost more.

    There the other corners have neither weight nor price at the optimum, and 0 / 0 says nothing about their rows. So
    the rows of that corner keep to their cheapest columns, and the others are weighed alone.
    """
    floors = problem.floors
    top = floors >= floors.max() * (1.0 - 1e-15)
    if top.all():
        return []
    rows = problem.C[:, top].max(axis=1) > 0.0
    L = np.where(rows[:, None] & (problem.L > 0.0), math.inf, problem.L)
    rest = problem._replace(L=L, C=np.ascontiguousarray(problem.C[:, ~top]))
    try:
        found = _solve(rest)
    except InfeasibleError:
        return []
    return [_attempt(problem, found.P, (problem.floor, 0.0), top / top.sum(), 0.0)]


def _best(tries: list[Attempt]) -> Attempt:
    """The cheapest kernel of all, with the best of all bounds."""
    low, best = max(tries, key=lambda a: a.lower), min(tries, key=lambda a: a.upper)
    return best._replace(lower=min(low.lower, best.upper), rounding=low.rounding, weights=low.weights, price=low.price)


def _is_closed(problem: Problem, a: Attempt) -> bool:
    excess = max(0.0, a.upper - problem.floor)
    return closed(excess, excess - max(0.0, a.upper - a.lower), a.rounding)


def _prune(problem: Problem, point: Point) -> Point:
    """Without the columns that complementarity says are idle."""
    s = problem.B @ point.a
    P = kernel_at(problem, point)
    with np.errstate(all="ignore"):
        c = np.where(point.q > 0.0, (s @ P) / point.q, 0.0) / s.sum()
    q = np.where(point.q < _IDLE * (1.0 - c), 0.0, point.q)
    rows = np.isfinite(problem.L) & (q > 0.0)
    return point._replace(q=q / q.sum()) if rows.any(axis=1).all() else point


def _within(problem: Problem, point: Point, base: Array) -> Array:
    """The kernel of a point, or one that leaks a little less, within the budget over the hull.

    At a price that is higher by as little as will do, or mixed with a kernel that leaks less; whichever costs less. The
    leakage is convex in the kernel, so the chord shows how much of the other is needed.
    """
    P = kernel_at(problem, point)
    Q = round_kernel(P)
    found, limit = worst(Q, problem.B, point.a, problem.limit), problem.limit
    if found.upper <= limit:
        return Q
    least, share, lowest = float(problem.costs(Q).max()), 0.0, worst(base, problem.B).upper
    for _ in range(64):
        needed = (found.upper - limit) / max(found.upper - lowest, 1e-300)
        # at least twice as much as before: what is needed is known to rounding only
        share = min(1.0, max(2.0 * share, share + (1.0 - share) * (1.001 * needed + 2.0**-52)))
        Q = round_kernel((1.0 - share) * P + share * base)
        found = worst(Q, problem.B, point.a, limit)
        if found.upper <= limit:
            break
    else:
        Q = round_kernel(base)
    spent = float(problem.costs(Q).max())
    if spent - least <= 1e-11 * (least - problem.floor):
        return Q  # as good as free
    for more in (4.0**k * 1e-16 for k in range(20)):
        dearer = round_kernel(kernel_at(problem, point._replace(a=point.a * (1.0 + more))))
        if worst(dearer, problem.B, point.a, limit).upper <= limit:
            return dearer if float(problem.costs(dearer).max()) < spent else Q
    return Q


# Designs ---------------------------------------------------------------------------------------------


def solve_robust(
    cost: ArrayLike, priors: ArrayLike | str, *, leakage: float | str, prior: ArrayLike | str | None = None
) -> RobustDesign:
    """The randomizer of least expected cost whose leakage is within the budget at every prior of a hull.

    Parameters
    ----------
    cost : array_like, shape (m, n)
        The cost of each pseudo value for each private one; infinite where a pair is forbidden.
    priors : array_like, shape (K, m), or "all"
        The budget holds for every mixture of these; "all" is any prior.
    leakage : float or str
        The budget, as in `us.solve`; a percentage is a share of the entropy of the prior that weighs the cost.
    prior : array_like, shape (m,), or "worst", optional
        What weighs the cost: a prior of its own, which joins the hull; "worst" for the largest expected cost over the
        hull; by default the mean of the priors (equal probabilities with "all").

    Returns
    -------
    RobustDesign
        The kernel, its distortion, and what no kernel within the budget goes below.

    Raises
    ------
    InfeasibleError
        If forbidden pairs need more leakage than the budget.

    Examples
    --------
    >>> import numpy as np
    >>> found = solve_robust(1 - np.eye(2), [[0.95, 0.05], [0.05, 0.95]], leakage=0.1)
    >>> found
    RobustDesign(2 x 2, 2 priors, distortion=0.280205, leakage<=0.1, optimal)
    >>> found.worst_prior.round(6).tolist(), found.lower_bound <= found.distortion
    ([0.5, 0.5], True)

    """
    matrix = as_cost(cost)
    B, C, p = _corners(priors, prior, None, matrix.shape[0])
    budget = nats(leakage, entropy(p))
    return _designed(robust(matrix, B, C, budget), matrix, B, C, (leakage, budget), None, None, None)


def design_robust(
    family: Family,
    pseudo: Iterable[Value] | None = None,
    *,
    priors: ArrayLike | str,
    leakage: float | str,
    prior: ArrayLike | str | None = None,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: ArrayLike | None = None,
    accuracy: float = 0.01,
    rng: Seed = None,
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
    B, C, p = _corners(priors, prior, family.prior, len(family.values))
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


def _corners(
    priors: ArrayLike | str, prior: ArrayLike | str | None, own: Array | None, m: int
) -> tuple[Array, Array, Array]:
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
    demand: tuple[float | str, float],
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
        Randomizer.from_solver(found.kernel, *names), p, cost, found.upper, found.lower,
        found.gap, found.worst.upper, demand[1], ("leakage", demand[0]),
        "optimal" if found.optimal else "inexact", found.steps, 1.0 / found.price if found.price > 0.0 else math.inf,
        0.0, error, None if family is None else _with_prior(family, p), measured,
        None if leak is None else _charge_at(leak, p),
        priors=corners, worst_prior=found.worst.prior, weighed="worst" if C.shape[1] > 1 else "stated",
    )  # fmt: skip


# A robust design as a file: an ordinary one's content, and the priors of the hull --------------------


_NUMBERS = ("distortion", "lower_bound", "leakage", "budget", "distortion_error")
_FIELDS = FIELDS | {"priors", "weighed", "charge"}


def _stored_kernel(fresh: RobustDesign, stored: Randomizer, budget: float, C: Array) -> RobustDesign:
    """The design with the stored kernel, if that keeps the budget over the hull and costs as little."""
    if np.array_equal(fresh.randomizer.kernel, stored.kernel):
        return replace(fresh, randomizer=stored)
    told = worst(stored.kernel, np.ascontiguousarray(fresh.priors.T))
    drawn = stored.kernel > 0.0
    distortion = float((C.T @ (stored.kernel * np.where(drawn, fresh.cost, 0.0)).sum(axis=1)).max())
    if told.upper > budget or not math.isclose(distortion, fresh.distortion, rel_tol=1e-8, abs_tol=1e-300):
        raise StoredFileError("the kernel is not a solution for the priors, the costs and the budget")
    return replace(fresh, randomizer=stored, distortion=distortion, leakage=told.upper, worst_prior=told.prior)
