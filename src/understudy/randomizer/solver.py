"""Problem (OP) of the paper and its Theorem 2: the randomizer of least distortion within a budget of leakage.

    min sum_ij p_i P_ij L_ij   subject to   I(Theta; ~Theta) <= I_0,   rows of P sum to one

L_ij is the distortion of playing pseudo value j for private value i. Theorem 2: the objective is linear in the kernel
P, and the constraint is convex. This is the distortion-rate function of information theory. Its saddle form::

    D(I_0) = max over beta of min over q >= 0 of [ -sum_i p_i ln sum_j q_j exp(-beta L_ij) + sum q - 1 - I_0 ] / beta

has the law q of the pseudo parameter and the slope beta of the curve as its only unknowns. The chapter in order:

- what a user gives: costs, a prior (`as_cost`, `as_prior`), and how much may leak (`nats`);
- the interior-point method for q and beta at once, and the certificate of its answer (`Workspace`, `at_slope`). The
  loops are in `_kernels`, compiled where they were built; here stand the arrays they work in and the order of attempts;
- column generation for large problems (`generate`): at the optimum few columns are used. The problem is solved on some
  of them. At its (q, beta) every other column has a price c_j, and one with c_j <= 1 could not help. Those above are
  let in, and so on. The lower bound is that of all columns;
- the problem (`minimise`, `minimise_at`, `least_information`), with its special cases: nothing may leak, more may leak
  than is of use, pairs are forbidden.

`least_leakage` solves the problem from the other end: the least leakage at an acceptable distortion. The curve D(I) of
least distortion at a leakage I is convex and decreasing, and each of its points comes with its slope. Newton's method
therefore finds the budget at which the curve meets the demand. The tangents lie below the curve, so every step also
proves a leakage that no randomizer of that distortion can go below.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Index, Json, Plain
from understudy.errors import DesignError, InfeasibleError
from understudy.serialize import fields, stored_array
from understudy.transform.backend import load_kernels

# Compiled kernels ---------------------------------------------------------------------------------


compiled: bool
kernels: Any
compiled, (kernels,) = load_kernels("understudy.randomizer", os.path.dirname(__file__), ["_kernels"])


def view(array: Any) -> Any:
    """What the kernels read quickest of a flat array: itself when compiled, a memoryview when plain."""
    return array if compiled else memoryview(array)


# What a user gives: costs and a prior -------------------------------------------------------------


def as_cost(cost: ArrayLike) -> Array:
    """A cost matrix (m, n), row major; its entries are looked at by the solver."""
    if type(cost) is np.ndarray and cost.dtype == np.float64 and cost.ndim == 2 and cost.size:
        return cost.copy()  # the usual case, in a microsecond less
    try:
        array = np.asarray(cost)
    except ValueError:
        raise DesignError("cost is ragged; it must be a matrix, a row for each value") from None
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.size == 0 or isinstance(cost, np.ma.MaskedArray):
        raise DesignError(
            f"cost has shape {array.shape} and type {array.dtype}; it must be a matrix of numbers (none masked), "
            "a row for each value and a column for each pseudo value"
        )
    return np.array(array, dtype=float, order="C")


def as_prior(prior: ArrayLike | None, m: int) -> Array:
    """A prior over m values; equally likely without one."""
    if prior is None:
        return np.full(m, 1.0 / m)
    if type(prior) is np.ndarray and prior.dtype == np.float64 and prior.shape == (m,):
        return _normalise(prior.copy(), prior, m)
    try:
        array = np.asarray(prior)
    except ValueError:
        raise DesignError("prior is ragged; it must hold one probability for each row of the costs") from None
    if array.dtype.kind not in "fiu" or array.shape != (m,) or isinstance(prior, np.ma.MaskedArray):
        raise DesignError(
            f"prior has shape {array.shape} and type {array.dtype}; it must hold one probability "
            f"for each of the {m} rows of the costs"
        )
    return _normalise(np.array(array, dtype=float), prior, m)


def _normalise(p: Array, prior: ArrayLike, m: int) -> Array:
    """Probabilities that sum to 1, from ones that nearly do; `prior` is what the user gave."""
    entries = p.tolist()
    total = math.fsum(entries)
    if not (min(entries) >= 0.0 and total < math.inf):
        raise DesignError(f"prior is {prior!r}; probabilities must be finite and not negative")
    if abs(total - 1.0) > 1e-9:
        raise DesignError(f"prior sums to {total:.12g}; probabilities must sum to 1")
    if abs(total - 1.0) > 1e-15 * m:
        p /= total
    return p


# How much may leak --------------------------------------------------------------------------------


_WRITTEN = re.compile(r"\s*([-+]?[0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z%]*)\s*")
_UNITS = {"nat": 1.0, "nats": 1.0, "bit": math.log(2.0), "bits": math.log(2.0)}


def nats(leakage: float | str | None, entropy: float) -> float:
    """A budget in nats: a number, "0.3 nats", "0.4 bit", or "40%" of the entropy of the private parameter.

    >>> nats(0.3, entropy=0.7), round(nats("0.4 bit", entropy=0.7), 6), nats("50%", entropy=0.7)
    (0.3, 0.277259, 0.35)
    """
    if isinstance(leakage, str):
        return _parse_leakage(leakage, entropy)
    try:
        if leakage is None or isinstance(leakage, (bool, np.bool_)):
            raise TypeError
        value = float(leakage)
    except (TypeError, ValueError):
        raise _wrong(leakage) from None
    if not value >= 0.0:
        raise DesignError(f"leakage = {leakage!r}; it must be 0 or more")
    return value


def _parse_leakage(leakage: str, entropy: float) -> float:
    match = _WRITTEN.fullmatch(leakage)
    number, unit = match.groups() if match else ("", "")
    unit = unit.lower()
    try:
        value = float(number)
    except ValueError:
        raise _wrong(leakage) from None
    if not (value >= 0.0 and math.isfinite(value)):
        raise DesignError(f"leakage = {leakage!r}; it must be 0 or more")
    if unit in ("%", "percent"):
        if value > 100.0:
            raise DesignError(f"leakage = {leakage!r}; a share of the entropy is at most 100%")
        # all of it, rounded up: what tells everything then keeps the budget
        return value / 100.0 * entropy if value < 100.0 else entropy * (1.0 + 1e-14)
    if unit not in _UNITS:
        raise _wrong(leakage)
    return value * _UNITS[unit]


def _wrong(leakage: float | str | None) -> DesignError:
    return DesignError(
        f'leakage = {leakage!r}; it must be a number of nats, or written with its unit: "0.3 nats", "0.4 bit", '
        '"40%" (of the entropy)'
    )


# The interior-point method and its certificate ----------------------------------------------------


SMALL, FORBIDDEN, MANY = kernels.limits()

# The method stops at the first gap; a kernel counts as optimal up to the second. Both are relative.
_FIRST: tuple[float, float, float, float]
_TARGET: float
_FIRST, _TARGET = kernels.first_attempt()
TOLERANCE = 1e-9

# care, clip, spread and most steps of the first attempt and of the more careful ones after it
_ATTEMPTS = (_FIRST, (0.5, 0.5, 0.5, 120.0), (1.0, 0.25, 2.0, 200.0))

# The same in nats, at a fixed slope.
_LEFT = 1e-13
_CLOSE = 1e-11


def is_closed(excess: float, bound: float, rounding: float) -> bool:
    """Whether a gap is closed: to the tolerance, or to what rounding lets anyone prove."""
    return excess - bound <= TOLERANCE * excess + 2.0 * rounding


class Point(NamedTuple):
    """Where the method stopped: the law q of the pseudo parameter and the slope of the curve."""

    q: Array
    slope: float
    gap: float  # what is left of the conditions, in units of 1 / slope
    cost: float
    steps: int

    @property
    def converged(self) -> bool:
        """Whether the method got where it wanted to."""
        return self.gap <= 10.0 * _TARGET * self.slope * self.cost


class Candidate(NamedTuple):
    """A kernel within its budget: bound <= optimum <= excess, both over the cheapest pair of each row."""

    kernel: Array
    excess: float
    bound: float
    leakage: float
    slope: float
    rounding: float

    @property
    def gap(self) -> float:
        """What is not proven."""
        return self.excess - self.bound

    @property
    def optimal(self) -> bool:
        """Whether the gap is closed."""
        return is_closed(self.excess, self.bound, self.rounding)


class Tuned(NamedTuple):
    """The kernel that is best at a fixed slope, flat: no kernel has an I + slope * D below the bound."""

    kernel: Array
    gap: float  # what is left of the conditions, in nats
    bound: float
    rounding: float  # how much of the bound rounding took
    steps: int


class Workspace:
    """A cost matrix, flat, and the arrays that the kernels work in."""

    def __init__(self, m: int, n: int, p: Array, L: Array) -> None:
        k = min(m, n)
        self.m, self.n, self.p, self.L = m, n, p, L
        self.A = np.empty(m * n)
        self.work = np.empty(10 * n + 2 * m + 3)
        self.H = np.empty(k * k if k <= SMALL else 0)
        self._views = view(L), m, n, view(p)

    def first_slope(self, budget: float, best: int) -> float:
        """A slope to start from: where uniform q spends the budget, or beyond, where the curve begins to fall."""
        n, work = self.n, view(self.work)
        q = np.full(n, 1.0 / n)
        slope = kernels.slide(*self._views, view(q), 1.0, budget, 0.1, 8, work[:n], work[n : n + 3])
        slope = max(float(slope), budget)
        return float(kernels.climb(*self._views, best, slope, work)) if best >= 0 else slope

    def interior(self, budget: float, slope: float, attempt: int = 0) -> Point:
        """One run from uniform q. With a budget of NaN the slope stays and only q is sought."""
        fixed = budget != budget
        care, clip, spread, most = _ATTEMPTS[attempt]
        s = np.array((budget, slope, care, clip, spread, 1e-14 if fixed else _TARGET, most, fixed, 0.0, 0.0))
        q = np.full(self.n, 1.0 / self.n)
        gap = kernels.interior(*self._views, view(s), view(q), view(self.A), view(self.work), view(self.H), self._dense)
        return Point(q, float(s[1]), gap, float(s[9]), int(s[8]))

    def finish(self, budget: float, point: Point, base: Array) -> Candidate:
        """The kernel that will be sampled, and its proof."""
        P, q = np.empty(self.m * self.n), point.q.copy()
        s = np.array([budget, point.slope, 0.0, 0.0, 0.0, 0.0])
        kernels.finish(*self._views, view(q), view(s), view(base), view(self.A), view(self.work), view(P))
        _, slope, excess, bound, leakage, rounding = s.tolist()
        return Candidate(P, excess, max(bound, 0.0), leakage, slope, rounding)

    def bound(self, budget: float, point: Point) -> tuple[float, float]:
        """The lower bound that a point proves, and how much of it rounding took."""
        n, work = self.n, view(self.work)
        q = point.q / point.q.sum()
        r = np.empty(3)
        bound = kernels.bound(
            *self._views, view(q), point.slope, budget, view(self.A), work[:n], work[n : 2 * n], view(r)
        )
        return max(float(bound), 0.0), float(r[2])

    def optimise(self, budget: float, best: int, base: Array) -> tuple[Candidate, int]:
        """Attempts, each more careful than the one before, until one is proven; the best of them, and all steps."""
        slope = self.first_slope(budget, best)
        tries: list[Candidate] = []
        steps = 0
        for attempt in range(len(_ATTEMPTS)):
            point = self.interior(budget, slope, attempt)
            steps += point.steps
            tries.append(self.finish(budget, point, base))
            if tries[-1].optimal:
                break
        return min(tries, key=lambda found: found.gap), steps

    def least_information(self, allowed: Array) -> tuple[Array, float]:
        """The kernel of least information that draws allowed pairs alone, and a bound that none can go below."""
        mask = np.where(allowed, 0.0, FORBIDDEN)
        masked = Workspace(self.m, self.n, self.p, mask)
        point = masked.interior(float("nan"), 1.0)
        q = point.q / point.q.sum()
        P = np.zeros(self.m * self.n)
        kernels.kernel(*masked._views, view(q), 1.0, view(P), 0.0, view(P))
        return P, max(0.0, information(self.p, P) - point.gap - 1e-13)

    def cost(self, P: Array) -> float:
        """The expected cost of a kernel."""
        return float(kernels.mean_cost(*self._views, view(P)))

    def _dense(self, solve: int) -> int:
        """Factor, or solve by the factor, with LAPACK: what the kernels do themselves for small sizes."""
        from scipy.linalg.lapack import dpotrf, dpotrs

        m, n = self.m, self.n
        d, x = self.work[4 * n : 5 * n], self.work[5 * n : 6 * n]
        if not solve:
            self.B = np.sqrt(self.p)[:, None] * self.A.reshape(m, n)
            # H + diag d, or by Woodbury I + B diag(1/d) B'
            H = (self.B / d) @ self.B.T if n > m else self.B.T @ self.B
            H[np.diag_indices_from(H)] += 1.0 if n > m else d
            self.factor, bad = dpotrf(H.T, overwrite_a=1)
            return int(bad == 0)
        if n > m:
            y = x / d
            x[:] = y - (self.B.T @ dpotrs(self.factor, self.B @ y)[0]) / d
        else:
            x[:] = dpotrs(self.factor, x)[0]
        return 1


def at_slope(L: Array, p: Array, slope: float, base: Array) -> Tuned:
    """The kernel with the least I + slope * D: on a few columns in one call, or by careful attempts on all.

    It follows from the arguments alone. `base` is the kernel of rows that no used column is allowed to.
    """
    m, n = p.size, L.size // p.size
    rows, columns = -4 * (-m // 4), min(n, MANY)
    s = np.zeros(9)
    s[5] = _LEFT
    room = np.empty((rows + 2) * n + 3 * rows + (rows + columns + 8) * columns)
    P, J = np.empty(m * n), np.empty(columns, dtype=np.intp)
    views = view(L), m, n, view(p)
    gap = kernels.at_slope(*views, slope, view(base), view(s), view(room), view(J), view(P))
    if gap <= _CLOSE:
        _, _, _, bound, rounding, *_, steps = s.tolist()
        return Tuned(P, gap, bound, rounding, int(steps))
    space = Workspace(m, n, p, L)
    points = []
    for attempt in range(len(_ATTEMPTS)):
        points.append(space.interior(float("nan"), slope, attempt))
        if points[-1].gap <= _CLOSE:
            break
    point = min(points, key=lambda found: found.gap)
    bound, rounding = space.bound(0.0, point)
    q = point.q / point.q.sum()
    # columns that are idle: complementary to a slack that is far larger
    q[q < 1e-9 * (1.0 - space.work[:n])] = 0.0
    q /= q.sum()
    kernels.kernel(*views, view(q), slope, view(base), 0.0, view(P))
    return Tuned(P, point.gap, slope * bound, slope * rounding, sum(found.steps for found in points))


def information(p: Array, P: Array) -> float:
    """I(Theta; ~Theta) of a flat kernel, in nats, to the last digits however small it is."""
    return _both(p, P)[0]


def within(p: Array, P: Array, budget: float) -> bool:
    """Whether a flat kernel keeps the budget, for the prior normalised and as it is, rounding allowed for."""
    return max(_both(p, P)) <= budget * (1.0 - 4e-15)


def _both(p: Array, P: Array) -> list[float]:
    r = np.empty(2)
    kernels.information(view(P), p.size, P.size // p.size, view(p), view(r))
    both: list[float] = r.tolist()
    return both


# Column generation --------------------------------------------------------------------------------


# Up to the first size of its smaller side a problem is solved whole at once, up to the second if need be.
FEW = 256
WHOLE = 2048

_FIRST_COLUMNS = 64
_ROUNDS = 40
_ROWS = 256


def generate(space: Workspace, budget: float, best: int, base: Array) -> tuple[Candidate, int]:
    """Solve on a growing set of columns until none outside it could help."""
    m, n, p = space.m, space.n, space.p
    L, B = space.L.reshape(m, n), base.reshape(m, n)
    needed = np.asarray(B.any(axis=0))
    chosen = needed.copy()
    # the cheapest columns of some rows
    chosen[L[np.linspace(0, m - 1, _FIRST_COLUMNS).astype(int)].argmin(axis=1)] = True
    steps, slope = 0, 0.0
    for _ in range(_ROUNDS):
        J = np.flatnonzero(chosen)
        part = Workspace(m, J.size, p, L[:, J].ravel())
        if slope == 0.0:
            slope = part.first_slope(budget, int(np.searchsorted(J, best)) if best >= 0 else -1)
        point = part.interior(budget, slope)
        steps, slope = steps + point.steps, point.slope
        q = np.zeros(n)
        q[J] = point.q / point.q.sum()
        c = _prices(L, p, q, J, slope)
        wanted = (c > 1.0 + 0.01 * TOLERANCE * slope * point.cost) & ~chosen
        if point.converged and not wanted.any():
            return _prove_for_all(
                space, budget, part.finish(budget, point, B[:, J].ravel()), point._replace(q=q), J
            ), steps
        idle = (point.q < 1e-9 * (1.0 - c[J])) & ~needed[J]
        chosen[J[idle]] = False
        chosen[_select_columns(np.where(wanted, c, 0.0), max(SMALL - int(chosen.sum()), J.size))] = True
        if n <= WHOLE and (not point.converged or 2 * int(chosen.sum()) > n):
            found, more = space.optimise(budget, best, base)
            return found, steps + more
    return _prove_for_all(space, budget, part.finish(budget, point, B[:, J].ravel()), point._replace(q=q), J), steps


def _prove_for_all(space: Workspace, budget: float, part: Candidate, point: Point, J: Index) -> Candidate:
    """The kernel of some columns as one of all, with a bound that holds for all."""
    bound, rounding = space.bound(budget, point)
    P = np.zeros((space.m, space.n))
    P[:, J] = part.kernel.reshape(space.m, J.size)
    return part._replace(kernel=P.ravel(), bound=bound, rounding=part.rounding + rounding)


def _prices(L: Array, p: Array, q: Array, J: Index, slope: float) -> Array:
    """c_j = sum_i p_i E_ij / z_i of every column, a block of rows at a time."""
    c = np.zeros(L.shape[1])
    for i in range(0, L.shape[0], _ROWS):
        E = np.exp(-slope * L[i : i + _ROWS])
        c += (p[i : i + _ROWS] / (E[:, J] @ q[J])) @ E
    return c


def _select_columns(c: Array, most: int) -> Index:
    """The columns to let in: peaks among neighbours first, since neighbours are often alike, then by price."""
    padded = np.concatenate(([0.0], c, [0.0]))
    peak = (c > 0.0) & (c >= padded[:-2]) & (c >= padded[2:])
    order = np.argsort(-(c + np.where(peak, c.max(), 0.0)))
    return order[: min(most, int((c > 0.0).sum()))]


# The problem --------------------------------------------------------------------------------------


# Costs too small to divide by are lifted by this.
_LIFT = 2.0**600


class Multipliers(NamedTuple):
    """What proves the bound of a problem with constraints, beside the costs: see `constrained_solver.Program`.

    Multipliers of the local rows (R, n), of those across (K,), of the floor (m, n) and of the information; a law of the
    draw (n,); and the pairs of rows that have rows of their own. Arrays that are empty stand for zeros.
    """

    z: Array = np.empty((0, 0))
    y: Array = np.empty(0)
    w: Array = np.empty((0, 0))
    nu: float = 0.0
    q: Array = np.empty(0)
    pairs: tuple[tuple[int, int], ...] = ()

    def to_dict(self) -> Plain:
        """The multipliers as a stored design keeps them."""
        return {
            "local": self.z.tolist(),
            "across": self.y.tolist(),
            "floor": self.w.tolist(),
            "information": self.nu,
            "law": self.q.tolist(),
            "pairs": [list(pair) for pair in self.pairs],
        }

    @classmethod
    def from_dict(cls, plain: Json) -> Multipliers:
        """The multipliers again; whether they fit a problem is checked there."""
        axes = {"local": 2, "across": 1, "floor": 2, "information": 0, "law": 1, "pairs": 2}
        given = fields("multipliers", plain, *axes, kind=False)
        found = {part: stored_array(f"multipliers.{part}", given[part], count) for part, count in axes.items()}
        z, y, w, nu, q, pairs = (x if x.size else np.empty((0,) * axes[part]) for part, x in found.items())
        return cls(z, y, w, float(nu), q, tuple((i, k) for i, k in pairs.astype(int).tolist()))


class Solution(NamedTuple):
    """A kernel within its budget and its proof: lowest + bound <= optimum <= lowest + excess.

    `lowest` is the expected cost of the cheapest pair of each row, which no kernel can go below. A problem with
    constraints has multipliers.
    """

    kernel: Array
    lowest: float
    excess: float
    bound: float
    leakage: float
    iterations: int
    optimal: bool
    slope: float
    multipliers: Multipliers | None = None


def bounds_of(solution: Solution) -> tuple[float, float]:
    """Distortion and lower bound in full, each rounded to its safe side."""
    m, n = solution.kernel.shape
    sums = (m + n + 6) * 2.0**-53
    upper = solution.lowest * (1.0 + 4e-16) + solution.excess * (1.0 + sums)
    lower = solution.lowest * (1.0 - 4e-16) + solution.bound * (1.0 - sums)
    return upper, min(lower, upper)


def minimise(cost: Array, p: Array, budget: float) -> Solution:
    """The kernel of least expected cost with I(Theta; ~Theta) <= budget nats, and its proof."""
    if 0.0 < budget < math.inf and min(cost.shape) <= SMALL:
        found = _at_once(cost, p, budget)
        if found is not None:
            return found
    return _step_by_step(cost, p, budget)


def minimise_at(cost: Array, p: Array, slope: float) -> Solution:
    """The kernel with the least I(Theta; ~Theta) + slope * expected cost, and its proof at the leakage that it has.

    This is the point of the curve with the slope given, in nats a unit of cost.
    """
    m, n = cost.shape
    L, base, r = np.empty(m * n), np.empty(m * n), np.zeros(5)
    code = kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(L), view(base), view(r))
    lowest, scale, _, _, position = r.tolist()
    if code and code != 5:
        raise _bad_cost(code, cost, int(position))
    b = slope * scale
    if code or not 0.0 < b < math.inf:
        return minimise(cost, p, 0.0 if slope == 0.0 else math.inf)
    kernels.saturated(view(L), m, n, view(base))
    found = at_slope(L, p, b, base)
    excess = float(kernels.mean_cost(view(L), m, n, view(p), view(found.kernel)))
    leakage = information(p, found.kernel)
    rounding = (found.rounding + 1e-14 * leakage) / b
    bound = max(0.0, (found.bound - leakage) / b - rounding)
    proven = Candidate(found.kernel.reshape(m, n), excess, bound, leakage, b, 2.0 * rounding)
    return _unscale(proven, found.steps, lowest, scale)


def least_information(cost: Array, p: Array) -> tuple[Solution, float]:
    """The kernel that tells least of all that are allowed, and a leakage that none can go below.

    Where a column is allowed to all, the cheapest such column, and nothing is told.
    """
    if np.isfinite(cost[p > 0.0]).all(axis=0).any():
        return minimise(cost, p, 0.0), 0.0
    m, n = cost.shape
    finite = np.isfinite(cost)
    kernel, least = Workspace(m, n, p, np.zeros(m * n)).least_information(finite.ravel())
    # a hair more than it tells, so that the cheapest of its kind is found
    return minimise(cost, p, information(p, kernel) * (1.0 + 1e-12)), least


def _at_once(cost: Array, p: Array, budget: float) -> Solution | None:
    """The ordinary small problem in one call; None for all that needs more care."""
    m, n = cost.shape
    P, room = np.empty((m, n)), np.empty(3 * m * n + 11 * n + 2 * m + 18 + min(m, n) ** 2)
    flat: list[Any] = [cost.ravel(), p, room, P.ravel()]  # all of them row major: no copies
    L, odds, work, kernel = flat if compiled else [view(array) for array in flat]
    found = kernels.at_once(L, m, n, odds, budget, work, kernel)
    if found is None:
        return None
    slope, excess, bound, leakage, rounding, steps, lowest, scale = found
    bound = bound if bound > 0.0 else 0.0
    if not is_closed(excess, bound, rounding):
        return None
    return Solution(P, lowest, scale * excess, scale * bound, leakage, steps, True, slope / scale)


def _unscale(found: Candidate, steps: int, lowest: float, scale: float) -> Solution:
    return Solution(
        found.kernel, lowest, scale * found.excess, scale * found.bound,
        found.leakage, steps, found.optimal, found.slope / scale,
    )  # fmt: skip


def _step_by_step(cost: Array, p: Array, budget: float) -> Solution:
    m, n = cost.shape
    space = Workspace(m, n, p, np.empty(m * n))
    r = np.zeros(5)
    code = kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(space.L), view(space.work), view(r))
    lowest, scale, where, ties, position = r.tolist()
    if code == 5:
        large = minimise(cost * _LIFT, p, budget)
        return large._replace(
            lowest=large.lowest / _LIFT,
            excess=large.excess / _LIFT,
            bound=large.bound / _LIFT,
            slope=large.slope * _LIFT,
        )
    if code:
        raise _bad_cost(code, cost, int(position))
    best = int(where)
    if best >= 0:
        base = np.zeros(m * n)
        base[best::n] = 1.0
    else:
        base, least = space.least_information(space.L < FORBIDDEN)
        if not within(p, base, budget):
            digits = 6 if budget < 0.9999 * least else 17
            raise InfeasibleError(
                f"leakage = {budget!r} nats; the forbidden pairs (infinite costs) need at least {least:.{digits}g} nats"
            )
    if scale == 0.0 or budget == 0.0:
        excess = scale * space.cost(base)
        return Solution(base.reshape(m, n), lowest, excess, excess, information(p, base), 0, True, math.inf)

    if not ties or min(m, n) > WHOLE:
        P = np.empty(m * n)
        kernels.saturated(view(space.L), m, n, view(P))
    else:
        P, _ = space.least_information(space.L == 0.0)
    if within(p, P, budget):
        return Solution(P.reshape(m, n), lowest, 0.0, 0.0, information(p, P), 0, True, math.inf)

    solver = space.optimise if min(m, n) <= FEW else partial(generate, space)
    found, steps = solver(budget, best, base)
    return _unscale(found._replace(kernel=found.kernel.reshape(m, n)), steps, lowest, scale)


def _bad_cost(code: int, cost: Array, position: int) -> DesignError:
    i, j = divmod(position, cost.shape[1])
    if code == 3:
        return InfeasibleError(f"row {i} of the costs is infinite throughout; each value needs an allowed pair")
    what = "is not a number" if code == 1 else f"is {cost[i, j]:.6g}"
    return DesignError(f"the cost in row {i}, column {j} {what}; costs must be 0 or more (infinite = forbidden)")


# The least leakage at an acceptable distortion: problem (OP) from the other end ----------------------


_NEWTON_STEPS = 60


def least_leakage(cost: Array, p: Array, limit: float) -> tuple[Solution, float]:
    """The kernel of least information with a distortion of at most `limit`, and a leakage that none can go below."""
    if not limit >= 0.0:
        raise DesignError(f"distortion_at_most = {limit!r}; it must be 0 or more")
    everything = minimise(cost, p, math.inf)
    if everything.lowest > limit:
        raise InfeasibleError(
            f"distortion_at_most = {limit:.6g}; the least that any randomizer reaches is {everything.lowest:.6g}"
        )
    nothing, proven = least_information(cost, p)
    if meets(nothing, cost, p, limit):
        return nothing, proven
    if limit == everything.lowest:
        return everything, everything.leakage
    return follow_curve(
        lambda budget: minimise(cost, p, budget),
        lambda found: meets(found, cost, p, limit),
        limit,
        everything,
        nothing,
        proven,
    )


def follow_curve(
    curve: Callable[[float], Solution],
    accept: Callable[[Solution], bool],
    limit: float,
    best: Solution,
    least: Solution,
    proven: float,
    tolerance: float = TOLERANCE,
) -> tuple[Solution, float]:
    """Newton's method on a curve of least distortion: the least leakage at which it meets a limit, and its proof.

    `best` is the end of the curve that meets the limit, `least` the other one, of least leakage, and `proven` what no
    solution leaks less than. Near that end the leakage is about the square of the distance from its distortion, so the
    method is applied to its root.
    """
    low, high = max(least.leakage, proven), best.leakage
    x = limit - best.lowest
    share = (least.excess - x) / (least.excess - best.excess)
    budget = low + (high - low) * share * share
    proof: tuple[Solution, float] | None = None
    for _ in range(_NEWTON_STEPS):
        try:
            solution = curve(budget)
        except InfeasibleError:
            low, budget = budget, 0.5 * (budget + high)
            continue
        if accept(solution):
            high, best = budget, solution
        else:
            low = budget
        step = 0.0
        if math.isfinite(solution.slope):
            # R(x) >= I + beta (bound - x), the tangent with its proof
            tangent = budget + solution.slope * (solution.bound - x)
            if tangent > proven:
                proven, proof = tangent, (solution, budget)
            # a little to the right of the root, so that the demand is met
            step = solution.slope * (2.0 * solution.excess - solution.bound - x) + 1e-13 * budget
            step += 0.25 * step * step / budget
        if best.leakage - proven <= 0.5 * tolerance * best.leakage or high - low <= 4e-16 * high:
            break
        new = budget + step
        budget = new if low < new < high else 0.5 * (low + high)
    proven = min(proven, best.leakage)
    closed = best.leakage - proven <= tolerance * best.leakage + 1e-14
    if proof is not None and best.multipliers is not None and best.multipliers is not proof[0].multipliers:
        # one set of multipliers proves both bounds: D >= bound - (I - budget) / beta as well
        by, budget = proof
        bound = by.bound - max(best.leakage - budget, 0.0) / by.slope
        best = best._replace(bound=min(bound, best.excess), slope=by.slope, multipliers=by.multipliers)
    return best._replace(optimal=best.optimal and closed), proven


def meets(solution: Solution, cost: Array, p: Array, limit: float) -> bool:
    """Whether a kernel costs no more than the limit, the bounds of the solution being looked at first."""
    upper, _ = bounds_of(solution)
    if upper <= limit or upper > limit * (1.0 + 1e-9) or cost.size > 100_000:
        return upper <= limit
    return costs_at_most(solution.kernel, cost, p, limit)


def costs_at_most(P: Array, cost: Array, p: Array, limit: float) -> bool:
    """Whether a kernel costs no more than the limit, in whole fractions."""
    used = (P > 0.0) & (p[:, None] > 0.0)
    parts = np.broadcast_to(p[:, None], P.shape)[used], P[used], cost[used]
    terms = zip(*(part.tolist() for part in parts), strict=True)
    return sum(Fraction(w) * Fraction(x) * Fraction(c) for w, x, c in terms) <= Fraction(limit)
