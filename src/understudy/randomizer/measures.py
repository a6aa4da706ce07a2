r"""What a randomizer gives away, measured in every way that has a theorem behind it.

The private parameter Theta has prior p; the randomizer draws ~Theta by the kernel P, row i being the
law of the draw when Theta is value i. r_j = sum_i p_i P_ij is the law of the draw. Nobody who sees
only the disguised readings learns more than somebody who sees ~Theta itself, so each number here
bounds what the readings tell, whatever their number. They answer different questions::

    mutual_information         on average, how much is told?                             p as stated
    capacity                   the same, at the odds worst for us                        any p
    bayes_error                how often is the best guess wrong?                        p as stated
    fano, fano_paper           the same, known from the mutual information alone         p as stated
    min_entropy_leakage        ln of the factor by which one guess gets better           p as stated
    maximal_leakage            the same, of any fact about Theta                         any p
    pointwise_maximal_leakage  the same, after the most telling draw                     p as stated
    local_dp                   by how much can the odds between two values shift?        any p

Always mutual information <= capacity <= maximal leakage <= pointwise maximal leakage <= local-DP
epsilon, and min-entropy leakage <= maximal leakage. Small averages go with large worst cases.
Everything is in nats.

**Values that cannot occur.** A value of prior zero never occurs, and no measure looks at its row.
Those that need no prior (`capacity`, `maximal_leakage`, `local_dp`) take one all the same, only to
know which rows count: "any p" is any p on the values that can occur. Without one all rows count.

**Small leakages.** Each number keeps its relative accuracy however small it is, because differences
are taken between entries of the kernel before anything is rounded. A mutual information of 1e-25 is
right to 15 digits, and one of zero is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array
from understudy.errors import DesignError

_EPS = float(np.finfo(float).eps)
# Draws that come more rarely than this are left out of a mean; their share of it could not be seen.
_RAREST = 1e-300
# Rows that a matrix may have for the quick, cubic method of `capacity`; above it simple steps are taken.
_NEWTON_ROWS = 512
# Entries that `capacity` may look at in all before it returns the bound that it has.
_CAPACITY_WORK = 6e7


class Capacity(NamedTuple):
    """An upper bound on the capacity, by how much it can be too large, and odds that reach ``upper - slack``."""

    upper: float
    slack: float
    odds: Array


class Pointwise(NamedTuple):
    """The leakage of the most telling draw, and that of each; NaN for draws that never come."""

    worst: float
    per_draw: Array


def entropy(prior: ArrayLike) -> float:
    """What there is to know about Theta, H = -sum p ln p.

    >>> entropy([0.25, 0.25, 0.25, 0.25]) / math.log(2)
    2.0
    >>> round(entropy([1.0, 1e-20]) * 1e20, 9)
    47.05170186
    """
    p = check_prior(prior)
    p = p[p > 0.0]
    top = int(p.argmax())
    others = np.delete(p, top)
    rest = math.fsum(others)
    # the likeliest value by its complement: next to certainty 1 - p is all that counts
    first = (rest - 1.0) * math.log1p(-rest) if rest < 0.5 else -p[top] * math.log(p[top])
    return math.fsum([first, *(-others * np.log(others))])


def mutual_information(prior: ArrayLike, kernel: ArrayLike) -> float:
    """I(Theta; ~Theta): how much a draw tells, on average.

    The paper's leakage. Zero exactly if the draw does not depend on Theta.

    >>> round(mutual_information([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]]), 12)
    0.130812035941
    >>> e = 2.0**-33
    >>> round(mutual_information([0.5, 0.5], [[0.5 + e, 0.5 - e], [0.5, 0.5]]) / (e**2 / 2), 12)
    1.0
    >>> mutual_information([0.1, 0.9], [[0.3, 0.7], [0.3, 0.7]])
    0.0
    """
    p, P = _drop_impossible(*check_prior_and_kernel(prior, kernel))
    # I = sum_i p_i KL(P_i || r)
    return math.fsum(p * _divergences(p, P)[0])


def prior_error(prior: ArrayLike) -> float:
    """How often the best guess is wrong before anything is seen, 1 - max p.

    >>> prior_error([0.75, 0.25])
    0.25
    """
    p = check_prior(prior)
    return math.fsum(np.delete(p, int(p.argmax())))


def bayes_error(prior: ArrayLike, kernel: ArrayLike) -> float:
    """How often the best guess is wrong when the draw itself is seen, 1 - sum_j max_i p_i P_ij.

    Whoever sees only disguised readings errs at least as often, whatever they compute.

    >>> bayes_error([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]])
    0.25
    """
    p, P = _drop_impossible(*check_prior_and_kernel(prior, kernel))
    W = p[:, None] * P
    # all that is not guessed, added up: no difference from 1, so small errors keep their digits
    W[W.argmax(axis=0), np.arange(W.shape[1])] = 0.0
    return min(math.fsum(W.sum(axis=1)), prior_error(p))


def fano(prior: ArrayLike, information: float) -> float:
    """Sharp Fano: the smallest error rate that goes with a mutual information, whatever the kernel.

    The smallest e with h(e) + e ln(m - 1) >= H - I, where h is the entropy of a coin and m counts the
    values that can occur. Rounded down, so that it stays a bound.

    >>> fano([0.5, 0.5], 0.0), fano([0.5, 0.5], math.log(2))
    (0.5, 0.0)
    >>> round(fano([0.5, 0.5], 0.3), 6)
    0.133586
    """
    p, information = check_prior(prior), check_nats("information", information)
    p = p[p > 0.0]
    m = p.size
    H = entropy(p)
    # what H - I is at least, whatever was rounded on the way
    left = H - information - 8.0 * _EPS * (H + information)
    if m == 1 or left <= 0.0:
        return 0.0

    def f(e: float) -> float:
        return -e * math.log(e) - (1.0 - e) * math.log1p(-e) + e * math.log(m - 1)

    q = _below(m - 1, m)
    if left <= f(q / 2.0):
        return _largest(lambda e: f(e) < left, q / 2.0)

    # Near e = 1 - 1/m the left side is flat, and half the digits of e would go. There
    # ln m - h(e) - e ln(m - 1) is taken as the divergence d(e || 1 - 1/m), which is to be KL(p || uniform) + I.
    D = (math.fsum(_phi(m * p - 1.0, m * p)) / m + information) * (1.0 + 16.0 * _EPS)

    def d(x: float) -> float:
        # e = q - x; both terms by phi, so that small x keep their digits
        t = np.array([-x * m / (m - 1), x * m])
        a, b = _phi(t, 1.0 + t)
        return float(((m - 1) * a + b) / m)

    x = _largest(lambda x: d(x) < D, 0.75 * q) * (1.0 + 4.0 * _EPS)
    return max(0.0, math.nextafter(q - x, 0.0)) if x > 0.0 else q


def fano_paper(prior: ArrayLike, information: float) -> float:
    """Theorem 3 of the paper with its units right, (H - I - ln 2) / ln m.

    The 1 in print is one bit, which is ln 2 in nats. As printed elsewhere it may be negative, and
    says nothing then. For m = 2 it is never positive. With one value only it is minus infinity.

    >>> round(fano_paper([0.2] * 5, 0.2), 4)
    0.4451
    >>> fano_paper([0.5, 0.5], 0.3) < 0.0
    True
    """
    p, information = check_prior(prior), check_nats("information", information)
    m = int(np.count_nonzero(p))
    return (entropy(p) - information - math.log(2.0)) / math.log(m) if m > 1 else -math.inf


def local_dp(kernel: ArrayLike, prior: ArrayLike | None = None) -> float:
    """Local differential privacy: the largest ln P_ij / P_i'j over draws j and pairs of values.

    Infinite if some draw can come from one value and not from another.

    >>> round(local_dp([[0.75, 0.25], [0.25, 0.75]]), 12) == round(math.log(3), 12)
    True
    >>> local_dp([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    inf
    """
    P = _rows(kernel, prior)
    high, low = P.max(axis=0), P.min(axis=0)
    high, low = high[high > 0.0], low[high > 0.0]
    if (low == 0.0).any():
        return math.inf
    with np.errstate(over="ignore"):
        excess = (high - low) / low
    # past the largest float the logarithms are far apart, and their difference is safe
    return float(np.where(np.isinf(excess), np.log(high) - np.log(low), np.log1p(excess)).max())


def maximal_leakage(kernel: ArrayLike, prior: ArrayLike | None = None) -> float:
    """Maximal leakage, ln sum_j max_i P_ij (Issa, Wagner and Kamath, 2020).

    Seeing the draw multiplies the chance to guess right, of any random function of Theta and at any
    odds, by at most the exponential of this.

    >>> maximal_leakage([[1.0, 0.0], [0.0, 1.0]]) == math.log(2)
    True
    """
    P = _rows(kernel, prior)
    # sum_j max_i P_ij = 1 + sum_j (max_i P_ij - P_1j)
    return math.log1p(math.fsum(P.max(axis=0) - P[0]))


def pointwise_maximal_leakage(prior: ArrayLike, kernel: ArrayLike) -> Pointwise:
    """Pointwise maximal leakage, ln max_i P_ij / r_j for each draw j (Saeidian et al., 2023).

    After draw j the chance to guess right, of any random function of Theta, is at most its exponential
    times what it was. The mean of that factor is the exponential of the maximal leakage.

    >>> pointwise_maximal_leakage([0.5, 0.5], [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1]]).worst == math.log(2)
    True
    """
    p, P = _drop_impossible(*check_prior_and_kernel(prior, kernel))
    r, delta = _deviations(p, P)
    comes = r > 0.0
    leakage = np.full(r.shape, math.nan)
    with np.errstate(over="ignore"):
        leakage[comes] = np.log1p(np.maximum(delta[:, comes].max(axis=0), 0.0) / r[comes])
    leakage.flags.writeable = False
    return Pointwise(float(leakage[comes].max()), leakage)


def min_entropy_leakage(prior: ArrayLike, kernel: ArrayLike) -> float:
    """Min-entropy leakage, ln (sum_j max_i p_i P_ij / max p): what one guess gains (Smith, 2009).

    Zero if the best guess stays the same whatever is drawn, even where the draw tells something.

    >>> min_entropy_leakage([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]]) == math.log(1.5)
    True
    >>> min_entropy_leakage([0.9, 0.1], [[0.75, 0.25], [0.25, 0.75]])
    0.0
    """
    p, P = _drop_impossible(*check_prior_and_kernel(prior, kernel))
    top = int(p.argmax())
    # max_i (p_i P_ij - p_top P_top,j), by differences of the factors
    gain = p[top] * (P - P[top]) - (p[top] - p)[:, None] * P
    return math.log1p(math.fsum(gain.max(axis=0)) / p[top])


def capacity(kernel: ArrayLike, prior: ArrayLike | None = None, tolerance: float = 1e-12) -> Capacity:
    """The mutual information at the odds that make it largest, bounded from above.

    For every law r of the draw, and so for the r of any odds, capacity <= max_i KL(P_i || r); the
    mutual information at those odds is a lower bound. The odds are moved until the two meet to
    `tolerance`, relative, or the work is no longer worth it. The upper bound holds in either case.

    >>> bound = capacity([[0.75, 0.25], [0.25, 0.75]])
    >>> round(bound.upper, 9), bound.odds.round(6).tolist()
    (0.130812036, [0.5, 0.5])
    """
    P_all = check_kernel(kernel)
    counts = np.ones(len(P_all), dtype=bool) if prior is None else check_prior_and_kernel(prior, kernel)[0] > 0.0
    P = P_all[counts]
    upper, lower, p = _capacity(P, tolerance)
    odds = np.zeros(len(P_all))
    odds[counts] = p
    odds.flags.writeable = False
    return Capacity(upper, max(0.0, upper - lower), odds)


def _capacity(P: Array, tolerance: float) -> tuple[float, float, Array]:
    """Upper bound, lower bound and the odds of the lower one."""
    m, n = P.shape
    newton = m <= _NEWTON_ROWS
    p = best = np.full(m, 1.0 / m)
    D_best, slack = np.empty(0), np.empty(0)
    upper, lower, step = math.inf, -1.0, 1.0
    for _ in range(int(min(100.0 if newton else 2000.0, max(4.0, _CAPACITY_WORK / (m * n))))):
        D, r, delta = _divergences(p, P)
        value = math.fsum(p * D)
        upper = min(upper, float(D.max()))
        if value > lower:
            lower, best, D_best, step = value, p, D, 2.0 * step
        else:
            step /= 4.0
        if upper - lower <= tolerance * upper:
            break
        if newton:
            slack = slack if slack.size else 2.0 * D.max() - D
            if float(p @ slack) < _EPS * upper:  # what is left is rounding
                break
            p, slack = _interior_step(p, slack, D, delta[:, r > 0.0], r[r > 0.0])
        else:
            # Blahut and Arimoto take step = 1; where little leaks longer ones are needed, and taken back if too long
            p = best * np.exp(step * (D_best - D_best.max()))
            p /= p.sum()
        # a draw that only one value gives must keep its weight in r, or max_i KL(P_i || r) would miss it
        p = np.maximum(p, 1e-100)
    return upper, min(lower, upper), best


def _interior_step(p: Array, s: Array, D: Array, delta: Array, r: Array) -> tuple[Array, Array]:
    """One primal-dual step towards D_i + s_i = C, p_i s_i = 0, sum p = 1: the conditions of the largest I.

    dD/dp = -P diag(1/r) P'. As the step keeps sum p, P may be replaced by its deviation from r, which is
    what keeps the equations well posed when the rows are almost equal.
    """
    mu = 0.1 * float(p @ s) / p.size
    root = np.sqrt(p)
    E = root[:, None] * (delta / np.sqrt(r))
    # E' root = 0; the middle term, of the size of D, fills that direction, which sum dp = 0 forbids anyhow
    K = E @ E.T + D.max() * np.outer(root, root)
    K[np.diag_indices_from(K)] += s
    # K u = D + mu / p and K v = 1 in scaled coordinates; dp = u - C v with C such that sum dp = 0
    u, v = np.linalg.solve(K, np.stack([root * (D - p @ D) + mu / root, root], axis=1)).T
    C = float(root @ u) / float(root @ v)
    dp = root * (u - C * v)
    ds = mu / p - s - s / p * dp
    shrink = min(1.0, 0.99 * min(step_room(p, dp), step_room(s, ds)))
    p = p + shrink * dp
    return p / p.sum(), s + shrink * ds


def step_room(x: Array, dx: Array) -> float:
    """How much of the step dx may be taken with x, all of it positive, not becoming negative."""
    down = dx < 0.0
    return float((x[down] / -dx[down]).min(initial=math.inf))


def _deviations(p: Array, P: Array) -> tuple[Array, Array]:
    """The law of the draw, r = p' P, and P_ij - r_j without cancellation."""
    # a mean lies between the extremes: in a constant column the reference is the entry, and its deviation zero
    reference = np.clip(p @ P, P.min(axis=0), P.max(axis=0))
    delta = P - reference
    correction = p @ delta
    delta -= correction
    return reference + correction, delta


def _divergences(p: Array, P: Array) -> tuple[Array, Array, Array]:
    """KL(P_i || r) for each row, with r and the deviations from it.

    KL(P_i || r) = sum_j P ln(P / r) - P + r = sum_j r phi((P - r) / r): no term is negative, none cancels.
    """
    r, delta = _deviations(p, P)
    D = np.empty(len(P))
    rows = max(1, 2**15 // P.shape[1])
    scale = np.where(r > _RAREST, r, math.inf)
    for i in range(0, len(P), rows):
        D[i : i + rows] = (_phi(delta[i : i + rows] / scale, P[i : i + rows] / scale) * r).sum(axis=1)
    return D, r, delta


# atanh(s) / s = 1 + s^2 (1/3 + s^2/5 + s^4/7 + ...), enough of it for |s| <= 1/4
_ATANH = [1.0 / (2 * k + 3) for k in reversed(range(13))]


def _phi(t: Array, x: Array) -> Array:
    """Phi = x ln x - t for t = x - 1 >= -1, to rounding; both are given, each being accurate where the other is not."""
    near = (t > -0.4) & (t < 2.0 / 3.0)
    if near.all():
        return _phi_near(t)
    y: Array = x * np.log(np.where(x > 0.0, x, 1.0)) - t
    if near.any():
        y[near] = _phi_near(t[near])
    return y


def _phi_near(t: Array) -> Array:
    """With s = t / (2 + t), ln(1 + t) = 2 atanh(s) and phi = (2 + t) s^2 (1 + (s^2 + s) a), a the series above."""
    s = t / (2.0 + t)
    q = s * s
    a = np.full_like(q, _ATANH[0])
    for c in _ATANH[1:]:
        a *= q
        a += c
    y: Array = (2.0 + t) * q * (1.0 + (q + s) * a)
    return y


def _largest(holds: Callable[[float], bool], top: float) -> float:
    """The largest x in (0, top] at which a condition that fails from some point on still holds, or 0."""
    low, high = 0.0, top
    for _ in range(200):
        middle = low + (high - low) / 2.0
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _below(a: int, b: int) -> float:
    """The quotient a / b, rounded down."""
    q = a / b
    top, bottom = q.as_integer_ratio()
    return math.nextafter(q, 0.0) if top * b > a * bottom else q


def check_prior_and_kernel(prior: ArrayLike, kernel: ArrayLike) -> tuple[Array, Array]:
    """Prior and kernel as arrays, if they are probabilities and belong together.

    >>> check_prior_and_kernel([1.0], [[0.5, 0.4]])
    Traceback (most recent call last):
    understudy.errors.DesignError: row 0 of the kernel sums to 0.9; each row must sum to 1
    """
    p, P = check_prior(prior), check_kernel(kernel)
    if len(p) != len(P):
        raise DesignError(f"the prior has {len(p)} values and the kernel {len(P)} rows; each value needs its row")
    return p, P


def check_prior(prior: ArrayLike) -> Array:
    """A prior as an array with sum one, or an error that names the rule.

    >>> check_prior([0.5, 0.6])
    Traceback (most recent call last):
    understudy.errors.DesignError: the prior sums to 1.1; probabilities must sum to 1
    """
    p = _probabilities("the prior", prior, 1)
    total = math.fsum(p)
    if abs(total - 1.0) > 1e-9:
        raise DesignError(f"the prior sums to {total:.12g}; probabilities must sum to 1")
    return p / total


def check_kernel(kernel: ArrayLike) -> Array:
    """A kernel as an array, or an error that names the row and the rule.

    >>> check_kernel([[0.5, 0.5], [1.5, -0.5]])
    Traceback (most recent call last):
    understudy.errors.DesignError: the kernel has the entry -0.5; probabilities must be finite and not negative
    """
    P = _probabilities("the kernel", kernel, 2)
    totals = P.sum(axis=1)
    i = int(np.abs(totals - 1.0).argmax())
    if abs(totals[i] - 1.0) > 1e-12:
        raise DesignError(f"row {i} of the kernel sums to {totals[i]:.12g}; each row must sum to 1")
    return P


def _probabilities(name: str, given: ArrayLike, rank: int) -> Array:
    try:
        array = np.asarray(given)
    except ValueError:
        raise DesignError(f"{name} is ragged; it must be an array of numbers") from None
    if array.dtype.kind not in "fiu" or array.ndim != rank or array.size == 0:
        raise DesignError(
            f"{name} has shape {array.shape} and type {array.dtype}; it must be {('a vector', 'a matrix')[rank - 1]} "
            "of probabilities"
        )
    array = np.asarray(array, dtype=float)
    bad = ~(np.isfinite(array) & (array >= 0.0))
    if bad.any():
        raise DesignError(f"{name} has the entry {array[bad][0]:g}; probabilities must be finite and not negative")
    return array


def check_nats(name: str, given: float) -> float:
    """An amount of information, or an error that names the rule.

    >>> check_nats("budget", -0.3)
    Traceback (most recent call last):
    understudy.errors.DesignError: budget is -0.3; it must be a number of nats, not negative
    """
    if isinstance(given, bool) or not isinstance(given, (int, float, np.integer, np.floating)) or not given >= 0.0:
        raise DesignError(f"{name} is {given!r}; it must be a number of nats, not negative")
    return float(given)


def _drop_impossible(p: Array, P: Array) -> tuple[Array, Array]:
    """Prior and rows of the values that can occur."""
    counts = p > 0.0
    return (p, P) if counts.all() else (p[counts], P[counts])


def _rows(kernel: ArrayLike, prior: ArrayLike | None) -> Array:
    """The rows that count."""
    return check_kernel(kernel) if prior is None else _drop_impossible(*check_prior_and_kernel(prior, kernel))[1]
