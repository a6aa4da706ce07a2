"""Running the interior-point method and its certificate on one cost matrix.

The loops are in `_kernels`; here stand the arrays they work in, the linear algebra of sizes too large for
them, and the order of attempts. Costs are those that `_kernels.prepare` made: shifted, scaled, flat.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.laws.base import Array
from understudy.randomizer.backend import kernels, view

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


def closed(excess: float, bound: float, rounding: float) -> bool:
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
    def found(self) -> bool:
        """Whether the method got where it wanted to."""
        return self.gap <= 10.0 * _TARGET * self.slope * self.cost


class Finished(NamedTuple):
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
        return closed(self.excess, self.bound, self.rounding)


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

    def finish(self, budget: float, point: Point, base: Array) -> Finished:
        """The kernel that will be sampled, and its proof."""
        P, q = np.empty(self.m * self.n), point.q.copy()
        s = np.array([budget, point.slope, 0.0, 0.0, 0.0, 0.0])
        kernels.finish(*self._views, view(q), view(s), view(base), view(self.A), view(self.work), view(P))
        _, slope, excess, bound, leakage, rounding = s.tolist()
        return Finished(P, excess, max(bound, 0.0), leakage, slope, rounding)

    def bound(self, budget: float, point: Point) -> tuple[float, float]:
        """The lower bound that a point proves, and how much of it rounding took."""
        n, work = self.n, view(self.work)
        q = point.q / point.q.sum()
        r = np.empty(3)
        bound = kernels.bound(
            *self._views, view(q), point.slope, budget, view(self.A), work[:n], work[n : 2 * n], view(r)
        )
        return max(float(bound), 0.0), float(r[2])

    def optimise(self, budget: float, best: int, base: Array) -> tuple[Finished, int]:
        """Attempts, each more careful than the one before, until one is proven; the best of them, and all steps."""
        slope = self.first_slope(budget, best)
        tries: list[Finished] = []
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
