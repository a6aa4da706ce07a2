"""What floating point adds: a proved bound on the rounding error of a disguise, and on what it leaks.

In exact arithmetic the disguised readings have the law of the target whatever the private value was. The computed ones
are off by a rounding error, and that error depends on the source. Released on a public lattice of step Delta, they show
it only where an exact reading lies within the error e of the edge of a cell. This chapter bounds e for Gauss-Markov
pairs, and turns it into nats over a whole path. The proofs are in ``docs/theory.md``, "Floating point".

**The error.** Both sides are linear recursions, so an error moves as a state does. With unit roundoff u and, for
c operations in a row, gamma_c = c u / (1 - c u), one step of the source adds at most ::

    rho = gamma (|G| |x| + |K| |y| + |h|)            rounding of  x <- G x + K y + h, n + d + 1 operations deep
        + |dG + dK H| |x| + |dK| |e| + |dh + dK g|   error of the stored gains, with y = H x + g + e put in
        + u |K| |y|                                  the reading is a double, the law is continuous

to its mean, and what has gathered is sum_j |G^j| rho. It reaches the score through L^-1, and the score's error reaches
the output through the target, where it gathers as sum_{j<T} |H A^j|: that settles where the target forgets and grows
with T where it does not (A = 1). Sizes of x and e are those of the models themselves: |z| <= 16 for every score, and 16
standard deviations for every mean, which fails with a probability of 1e-57 that the bound on the leakage includes.
The error of a stored gain is measured: the same recursion runs once more in 50 decimal digits.

**The gaps.** After a missing reading the gains are computed on the way, and no table of them exists to be measured.
But the filter carries its own yardstick. Its covariance obeys P+ >= F P F' for every transition F, of a reading or of
a gap, so that an error measured in units of P never grows, and shrinks by sqrt(1 - q) a step where Q >= q Sigma. The
same holds of the relative error of P itself. So one bound serves every pattern of gaps, with the smallest P that a
filter without gaps comes to and the largest of a filter without readings. For one state it is some ten times the
bound without gaps. For more it can be far too large, or infinite where Q or P is singular: then only the bound
without gaps is of use.

**The leakage.** Over T readings the probability of every path of cells changes by a factor within exp(-a)..exp(a),

    a = -T sum_c log(1 - r_c),      r_c = 2 (exp(s_c e_c) - 1) / (1 - exp(-s_c Delta_c)) ~ 2 e_c / Delta_c,

and then the divergence is at most a tanh(a / 2), the total variation at most tanh(a / 2).

>>> from understudy.models.gauss_markov import GaussMarkov
>>> empty, full = (GaussMarkov(0.95, 1.0, 0.1, 0.1, b=b, mean0=100.0, cov0=1.0) for b in (0.0, 10.0))
>>> bound = roundoff([(full, empty)], steps=[2.0**-12])
>>> bound.how, bound.nats(50) < 1e-9
('proved', True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Numbers
from understudy.errors import ConfigurationError
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.model import Model
from understudy.transform.kalman_pair import Gains, Pair

UNIT = 2.0**-53
SCORE = 16.0
"""No score is larger, but for a probability of 1.3e-57 each."""

_RARE = 1e-45  # nats a reading for what has a probability of 7e-51 for each of a hundred scores and means
_SLACK = 1.0 + 1e-9  # for the rounding of this file's own sums
_DIGITS = 50
_MOST_ROWS = {1: 4096}  # of a table that is measured, by the number of states; 384 for more
_MOST_POWERS = 4096
_GONE = 2.0**-40
PROVED, STATED = "proved", "stated, not proved"


def _gamma(operations: float) -> float:
    return operations * UNIT / (1.0 - operations * UNIT)


# Sums of powers ------------------------------------------------------------------------------------------------------


def _powers(A: Array, count: int) -> tuple[Array, Array]:
    """A^0..A^(count-1) as one array, fewer if they vanish before, and the power that follows."""
    stack, power = np.eye(len(A))[None], A
    while len(stack) < count and not np.abs(power).max() < _GONE**2:
        more = power @ stack[: count - len(stack)]
        stack = np.concatenate((stack, more))
        power = A @ stack[-1]
    return stack, power


def _blocks(steps: int) -> tuple[int, int]:
    """(count, doublings) with count 2^doublings >= steps, as little above it as 4096 powers allow."""
    doublings = max(0, math.ceil(math.log2(steps / _MOST_POWERS)))
    return math.ceil(steps / 2**doublings), doublings


def _reach(C: Array, A: Array, steps: int) -> tuple[Array, Array]:
    """At least the sum and the maximum over j < steps of |C A^j|.

    Exact up to 4096 powers, by |C A^(j+N)| <= |C A^j| |A^N| beyond.
    """
    count, doublings = _blocks(steps)
    stack, power = _powers(A, count)
    sizes = np.abs(C @ stack)
    total, most = sizes.sum(axis=0), sizes.max(axis=0)
    for _ in range(max(doublings, int(len(stack) < count))):
        far = np.abs(power)
        if far.sum(axis=1).max() < _GONE:  # all that follows is at most a geometric series of this
            return total @ (np.eye(len(A)) + 2.0 * far), np.maximum(most, 2.0 * most @ far)
        with np.errstate(over="ignore", invalid="ignore"):
            total, most, power = total + total @ far, np.maximum(most, most @ far), power @ power
    return np.nan_to_num(total, nan=np.inf), np.nan_to_num(most, nan=np.inf)


class Prior(NamedTuple):
    """Bounds on the law of X_k, k <= steps, before any reading."""

    mean: Array
    """|E X_k|, entry by entry."""
    lines: tuple[Array, Array]
    """The means of the first block of steps, and a bound on those of all blocks after it (zero if there are none)."""
    cov: Array
    """A matrix above the covariance of every X_k."""

    def size(self, H: Array, g: Array) -> Array:
        """|H X_k + g| stays below this: the mean and 16 standard deviations."""
        first, later = self.lines
        mean = np.abs(first @ H.T + g).max(axis=0)
        if later.any():
            mean = np.maximum(mean, np.abs(g) + np.abs(H) @ later)
        return np.asarray(mean + SCORE * np.sqrt(np.maximum(np.einsum("in,nm,im->i", H, self.cov, H), 0.0)))


def _prior(model: GaussMarkov, steps: int) -> Prior:
    """Mean and covariance of X_k for k <= steps, bounded."""
    A, b, Q, *_ = _matrices(model)
    count, doublings = _blocks(steps + 1)
    stack, power = _powers(A, count)
    drift = np.concatenate((np.zeros((1, len(A))), np.cumsum(stack @ b, axis=0)))
    means = stack @ model.mean0 + drift[:-1]
    # Q gathers as sum_j A^j Q A^j'
    gathered = (stack @ Q @ stack.transpose(0, 2, 1)).sum(axis=0)
    jump, block, settled = drift[-1], power, False
    later = np.zeros(len(A))
    largest = np.abs(means).max(axis=0)
    for _ in range(doublings):
        settled = bool(np.abs(block).sum(axis=1).max() < _GONE)
        gathered = gathered + block @ gathered @ block.T
        # mean of step N + k = (sum of the drift over N) + A^N mean of step k
        later = np.maximum(later, np.abs(jump) + np.abs(block) @ np.maximum(largest, later))
        if settled:
            break
        jump, block = jump + block @ jump, block @ block
    settled = settled or bool(np.abs(block).sum(axis=1).max() < _GONE)
    # X_k has covariance limit + A^k (cov0 - limit) A^k', or at most the sum of both where there is no limit
    excess = model.cov0 - gathered if settled else model.cov0
    values, vectors = np.linalg.eigh(0.5 * (excess + excess.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    start = stack @ root
    far = float(np.abs(power).sum(axis=1).max())
    most = float(np.linalg.norm(start, axis=(1, 2)).max()) ** 2 * (1.0 if settled else max(1.0, far) ** 2)
    if len(A) == 1:
        cov = gathered + float((start**2).max()) * (1.0 if settled else max(1.0, far) ** 2)
    else:
        cov = gathered + most * np.eye(len(A))
    return Prior(np.maximum(largest, later), (means, later), np.asarray(cov * _SLACK))


# Stored gains against the same recursion in 50 digits ----------------------------------------------------------------

_Matrix: TypeAlias = NDArray[np.object_]
"""Numbers of 50 digits, which numpy adds and multiplies as it does floats."""


def _exact(values: ArrayLike) -> _Matrix:
    digits: _Matrix = np.vectorize(lambda v: Decimal(float(v)), otypes=[object])(np.atleast_2d(values))
    return digits


def _cholesky(S: _Matrix) -> _Matrix:
    d = len(S)
    L = _exact(np.zeros((d, d)))
    for i in range(d):
        for j in range(i + 1):
            t = S[i, j] - sum(L[i, :j] * L[j, :j])
            L[i, j] = t.sqrt() if i == j else t / L[j, j]
    return L


def _solve(L: _Matrix, B: _Matrix) -> _Matrix:
    """L^-1 B by forward substitution."""
    X = B.copy()
    for i in range(len(B)):
        for e in range(i):
            X[i] = X[i] - L[i, e] * X[e]
        X[i] = X[i] / L[i, i]
    return X


_NAMES = ("G", "K", "h", "H", "g", "M", "b", "L")


class Table(NamedTuple):
    """Exact gains of every row, and the most by which the stored ones differ; `line` where q is carried, not x."""

    exact: dict[str, Array]
    """G (rows, n, n), K, h, H, g, M, b, L; for a line those of q: H = 1 and g = 0."""
    error: dict[str, Array]
    """How far the stored ones are off: G stands for |dG + dK H|, h for |dh + dK g|; L includes that of 1 / diag L."""
    P: Array
    """Filtered covariances before each row, (rows, n, n)."""
    start: float
    """Error of the first predicted reading of a line."""
    line: bool
    settled: bool

    def sizes(self, rows: int) -> tuple[dict[str, Array], dict[str, Array]]:
        """Absolute values and errors of `rows` rows, the last one repeated as the filter does."""
        index = np.minimum(np.arange(rows), len(self.P) - 1)
        return {k: np.abs(v[index]) for k, v in self.exact.items()}, {k: v[index] for k, v in self.error.items()}


def _table(model: GaussMarkov, gains: Gains, line: bool) -> Table:
    """The table, measured once a model and kept with it."""
    key = "roundoff line" if line else "roundoff"
    if key not in model.memo:
        with localcontext() as context:
            context.prec = _DIGITS
            model.memo[key] = _measure(model, gains, line)
    found: Table = model.memo[key]
    return found


def _measure(model: GaussMarkov, gains: Gains, line: bool) -> Table:
    n, d = model.states, model.dim
    system = model.row(1)
    A, b, Q, C, offset, R = (_exact(m[:, None] if m.ndim == 1 else m) for m in _matrices(model))
    P, one = _exact(model.cov0), _exact(np.eye(n))
    H, g = C @ A, C @ b + offset
    rows: dict[str, list[Array]] = {name: [] for name in _NAMES}
    errors: dict[str, list[Array]] = {name: [] for name in _NAMES}
    covariances: list[Array] = []
    stored = gains.flat.reshape(gains.rows, gains.width)
    most = _MOST_ROWS.get(n, 384)
    settled = False
    for k in range(most):
        # Sigma = A P A' + Q,   L L' = C Sigma C' + R,   M = Sigma C' L'^-1,   K = M L^-1,   P = (I - K C) Sigma
        Sigma = A @ P @ A.T + Q
        L = _cholesky(C @ Sigma @ C.T + R)
        Mt = _solve(L, C @ Sigma)
        K = _solve(L.T[::-1, ::-1], Mt[::-1])[::-1].T  # from L' K' = M': the substitution on the reversed system
        J = one - K @ C
        exact = {"G": J @ A, "K": K, "h": J @ b - K @ offset, "H": H, "g": g, "M": Mt.T, "b": b, "L": L}
        if line:
            exact = _line_gains(exact, A[0, 0])
        gap = _differences(exact, _stored_row(stored[min(k, gains.rows - 1)], n, d, line))
        for name in _NAMES:
            rows[name].append(exact[name].astype(float))
            errors[name].append(gap[name])
        covariances.append(P.astype(float))
        old, P = P, J @ Sigma
        scale = np.outer(np.diag(Sigma), np.diag(Sigma))
        still = bool(((P - old) ** 2 <= Decimal(2) ** -144 * scale).all())
        if still and k >= gains.rows - 1:
            settled = gains.frozen
            break
    whole = {name: np.array(values) for name, values in rows.items()}
    # the rows beyond the last one move by less than this in all
    error = {name: np.array(errors[name]) * _SLACK + 2.0**-58 * np.abs(whole[name]) for name in _NAMES}
    start = 0.0
    if line:
        x0 = Decimal(float(model.mean0[0]))
        # as `Side.predicted` computes it
        computed = (system[3] * system[0]) * float(model.mean0[0]) + (system[3] * system[1] + system[4])
        exact_start = H[0, 0] * x0 + g[0, 0]
        size = abs(float(H[0, 0])) + abs(float(g[0, 0]))
        start = abs(float(Decimal(float(computed)) - exact_start)) + UNIT**2 * size
    return Table(whole, error, np.array(covariances), start, line, settled)


def _line_gains(exact: dict[str, _Matrix], A: Decimal) -> dict[str, _Matrix]:
    """The gains of a model of one state, for the predicted reading q = H x + g in place of x."""
    G, K, h, H, g, M, b = (exact[name] for name in ("G", "K", "h", "H", "g", "M", "b"))
    line = {"G": G, "K": H * K, "h": H * h + g - G * g, "H": _exact(1.0), "g": _exact(0.0), "M": H * M}
    return line | {"b": H * b + g - A * g, "L": exact["L"]}


def _stored_row(row: Array, n: int, d: int, line: bool) -> dict[str, _Matrix]:
    """A row of the gain table by its names; r stands for 1 / diag L."""
    if line:
        G, u, v, _, s, w, L, r, _ = (_exact(value) for value in row)
        return {"G": G, "K": v, "h": u, "H": _exact(1.0), "g": _exact(0.0), "M": w, "b": s, "L": L, "r": r}
    m = n + d
    parts = np.split(row, np.cumsum([n * m, d * n, n * m, d, n, n, d * d, d]))
    GK, AM = parts[0].reshape(n, m), parts[2].reshape(n, m)
    values = {"G": GK[:, :n], "K": GK[:, n:], "h": parts[4][:, None], "H": parts[1].reshape(d, n)}
    values |= {"g": parts[3][:, None], "M": AM[:, n:], "b": parts[5][:, None], "L": parts[6].reshape(d, d)}
    return {name: _exact(value) for name, value in values.items()} | {"r": _exact(parts[7])}


def _differences(exact: dict[str, _Matrix], stored: dict[str, _Matrix]) -> dict[str, Array]:
    """How far a stored row is off, in the combinations that count; see `Table.error`."""
    change = {name: stored[name] - exact[name] for name in _NAMES}
    change["G"] = change["G"] + change["K"] @ exact["H"]
    change["h"] = change["h"] + change["K"] @ exact["g"]
    sizes = {name: np.abs(value.astype(float)) for name, value in change.items()}
    for i, r in enumerate(stored["r"][0]):
        sizes["L"][i, i] = max(sizes["L"][i, i], abs(float(1 / r - exact["L"][i, i])))
    return sizes


# The two sides -------------------------------------------------------------------------------------------------------


class Memory(NamedTuple):
    """How errors of a filter gather, with F(k, j) the transition of the mean from step j to step k."""

    state: Array
    """Largest over k of sum_j |F(k, j)|, (n, n)."""
    reading: Array
    """The same of |H F(k, j)|, (d, n)."""
    later: Array
    """Largest over j of sum_k |L_k^-1 H F(k, j)|, (d, n): what one state does to all later scores."""


def _memory(table: Table, inverse: Array) -> Memory:
    G, H = table.exact["G"], table.exact["H"][0]
    n = G.shape[1]
    one = np.eye(n)
    W = inverse @ H
    moves, sums = one[None], np.abs(W[:1])
    state, reading, later = one, np.abs(H), sums[0]
    for k in range(len(G) - 1):
        moves = G[k] @ moves
        sums = sums + np.abs(W[k + 1] @ moves)
        gone = np.abs(moves).max(axis=(1, 2)) < _GONE**2
        if gone.any():
            later, moves, sums = np.maximum(later, sums[gone].max(axis=0)), moves[~gone], sums[~gone]
        moves, sums = np.concatenate((moves, one[None])), np.concatenate((sums, np.abs(W[k + 1])[None]))
        state = np.maximum(state, np.abs(moves).sum(axis=0))
        reading = np.maximum(reading, np.abs(H @ moves).sum(axis=0))
    if table.settled:
        stack, power = _powers(G[-1], 4 * _MOST_POWERS)
        if not np.abs(power).sum(axis=1).max() < _GONE:
            nothing = np.full(H.shape, np.inf)
            return Memory(np.full((n, n), np.inf), nothing, nothing)
        past = np.abs(moves).sum(axis=0)
        for left, best in ((one, state), (H, reading)):
            seen = np.abs(left @ stack)
            best[...] = np.maximum(best, (np.cumsum(seen, axis=0) - seen + seen @ past).max(axis=0))
        far = np.abs(W[-1] @ stack)
        later = np.maximum(later, (sums + far[1:].sum(axis=0) @ np.abs(moves)).max(axis=0))
        later = np.maximum(later, far.sum(axis=0))
    # what was dropped, at most _GONE^2 an entry and step, and the powers that were not summed
    return Memory(*(part * (1.0 + 4.0 * _GONE) + _GONE for part in (state, reading, later)))


class Side(NamedTuple):
    """A model as the bounds need it: sizes over the first steps, gains with their errors, memory."""

    table: Table
    memory: Memory
    inverse: Array
    """|L^-1| of every row."""
    prior: Prior
    mean: Array
    """Size of the mean that the filter carries: x, or q for a line."""
    reading: Array
    """Size of H x + g."""
    reach: tuple[tuple[Array, Array], tuple[Array, Array]]
    """Sum and maximum over j < steps of |A^j|, and of |H A^j|: how errors gather in a target."""


def _side(model: GaussMarkov, gains: Gains, line: bool, steps: int) -> Side:
    """Everything about one model; what does not depend on `steps` is kept with the model."""
    known = f"roundoff side {line} {steps}"
    if known in model.memo:
        found: Side = model.memo[known]
        return found
    table = _table(model, gains, line)
    key = f"roundoff memory {line}"
    if key not in model.memo:
        L = table.exact["L"]
        inverse = np.asarray(np.linalg.inv(L), dtype=float)
        model.memo[key] = _memory(table, inverse), np.abs(inverse)
    memory, inverse = model.memo[key]
    prior = _prior(model, steps)
    H, g = _predictor(model)
    reading = prior.size(H, g)
    mean = reading if line else prior.size(np.eye(model.states), np.zeros(model.states))
    A, carried = _matrices(model)[0], table.exact["H"][0]
    reach = (_reach(np.eye(len(A)), A, steps), _reach(carried, A, steps))
    side = model.memo[known] = Side(table, memory, inverse, prior, mean, reading, reach)
    return side


def _predictor(model: GaussMarkov) -> tuple[Array, Array]:
    """H = C A and g = C b + d, to double precision."""
    A, b, _, C, offset, _ = _matrices(model)
    return C @ A, C @ b + offset


def _fixed(reach: Array, step: Callable[[Array], Array], size: Array) -> Array:
    """An error B with reach @ step(size + B) <= B: by induction over the steps no error leaves it."""
    B = np.zeros(len(reach))
    for _ in range(4):
        B = reach @ step(size + B) * (1.0 + 1e-7)
    return B if np.all(reach @ step(size + B) <= B) else np.full(len(B), np.inf)


class SourceSteps(NamedTuple):
    """One step of the source along its table: sizes, and the error that each row adds to a mean of a given size."""

    mean: Array
    reading: Array
    innovation: Array
    """Size of e, (rows, d)."""
    step: Callable[[Array], Array]


def _source_steps(side: Side, largest: Array, rows: int) -> SourceSteps:
    table = side.table
    n, d = table.exact["K"].shape[1:]
    size, error = table.sizes(rows)
    G, K, h, L = (size[name] for name in ("G", "K", "h", "L"))
    innovation = SCORE * L.sum(axis=2)
    Y = np.minimum(largest, side.reading + innovation.max(axis=0))
    mean = np.minimum(side.mean, Y + innovation.max(axis=0)) if table.line else side.mean
    fixed = np.einsum("knd,kd->kn", error["K"], innovation) + error["h"][:, :, 0] + UNIT * (K @ Y)

    def step(x: Array) -> Array:
        wrong = fixed + error["G"] @ x
        if table.line:  # q <- G q + (u + v y): two products, the sum in brackets, the sum that is q
            return np.asarray(wrong + _gamma(1.0) * (x + G @ x + h[:, :, 0] + 2.0 * (K @ Y)))
        return np.asarray(wrong + _gamma(n + d + 1) * (G @ x + K @ Y + h[:, :, 0]))

    return SourceSteps(mean, Y, innovation, step)


def _score_error(side: Side, largest: Array, rows: int) -> Array:
    """|computed - exact| of the scores, (rows, d)."""
    table, memory = side.table, side.memory
    n, d = table.exact["K"].shape[1:]
    nothing = np.full((rows, d), np.inf)
    if not np.isfinite(memory.state).all():
        return nothing
    mean, Y, innovation, step = _source_steps(side, largest, rows)
    size, error = table.sizes(rows)
    H, g, L = (size[name] for name in ("H", "g", "L"))
    B = _fixed(memory.state, lambda x: step(x).max(axis=0) + table.start, mean)
    if not np.isfinite(B).all():
        return nothing
    # e = y - (H x + g)
    x = mean + B
    off = memory.reading @ (step(x).max(axis=0) + table.start) + UNIT * (Y + innovation) * (1.0 + 1e-6)
    if not table.line:
        off = off + _gamma(n + 1) * (H @ x + g[:, :, 0]) + error["H"] @ x + error["g"][:, :, 0]
    # L z = e, by substitution
    off = off + SCORE * (error["L"] + _gamma(d + 2) * L).sum(axis=2)
    inverse = side.inverse[np.minimum(np.arange(rows), len(table.P) - 1)]
    bound = np.einsum("kij,kj->ki", inverse, off) * (1.0 + 1e-6)
    return bound if np.all(bound < 1e-7) else nothing


def _line_target_rounding(A: float, q: Array, s: Array, driven: Array) -> Array:
    """Rounding of q <- A q + (s + (w r) e): the product with A is exact where A = 1."""
    product = 0.0 if A in (0.0, 0.5, 1.0) else A * q
    return np.asarray(_gamma(1.0) * (q + product + s) + _gamma(3.0) * driven)


def _line_target_step(side: Side, A: float, q: Array) -> Array:
    """The same for every row of the table, with the errors of its gains."""
    size, error = side.table.sizes(len(side.table.P))
    fixed = SCORE * error["M"][:, :, 0] + error["b"][:, :, 0]
    return np.asarray(fixed + _line_target_rounding(A, q, size["b"][:, :, 0], SCORE * size["M"][:, :, 0]))


def _coloured_error(side: Side, A: Array, steps: int, score: Array) -> Array:
    """|computed - exact| of the outputs, (d,), for scores that are off by at most `score`, (rows, d)."""
    table = side.table
    n, d = table.exact["K"].shape[1:]
    nothing = np.full(d, np.inf)
    if not np.isfinite(score).all():
        return nothing
    size, error = table.sizes(len(score))
    M, H, g, b, L = (size[name] for name in ("M", "H", "g", "b", "L"))
    scores = SCORE + score
    driven = np.einsum("knd,kd->kn", M, scores)
    fixed = np.einsum("knd,kd->kn", error["M"], scores) + error["b"][:, :, 0] + np.einsum("knd,kd->kn", M, score)

    def step(x: Array) -> Array:
        if table.line:
            return np.asarray(fixed + _line_target_rounding(abs(A.item()), x, b[:, :, 0], driven))
        return np.asarray(fixed + _gamma(n + d + 1) * (np.abs(A) @ x + driven + b[:, :, 0]))

    def gather(reach: tuple[Array, Array], x: Array) -> Array:
        # the settled row at every step, and what the rows before it are worse
        each = step(x)
        more = np.maximum(each - each[-1], 0.0).sum(axis=0)
        return np.asarray(reach[0] @ each[-1] + reach[1] @ more)

    through, out = side.reach
    B = np.zeros(n)
    for _ in range(4):
        B = gather(through, side.mean + B) * (1.0 + 1e-7)
    if not np.all(gather(through, side.mean + B) <= B):
        return nothing
    x = side.mean + B
    off = gather(out, x) + table.start
    if table.line:
        off = off + _gamma(1) * (x + SCORE * L[:, :, 0].max(axis=0))
    else:
        off = off + _gamma(n + 2) * (H @ x + g[:, :, 0]) + error["H"] @ x + error["g"][:, :, 0]
    off = off + np.einsum("kij,kj->ki", _gamma(d + 2) * L + error["L"], scores) + np.einsum("kij,kj->ki", L, score)
    return np.asarray(off.max(axis=0))


# Any pattern of gaps -------------------------------------------------------------------------------------------------


class Yardstick(NamedTuple):
    """A filter under any pattern of gaps, its errors measured in units of its own covariance."""

    geometric: float
    """Sum of the contractions of an error of the mean, over the steps."""
    covariance: float
    """Relative error of P, Sigma and S, each between (1 - t) and (1 + t) of the exact one."""
    innovation: float
    """Relative error that the computation of S adds."""
    deviation: Array
    """Largest standard deviation of each state, (n,)."""
    reading: Array
    """Largest standard deviation of each innovation, (d,)."""
    inverse: float
    """Largest norm of L^-1."""
    spread: float
    """Largest |L^-1| |L|."""
    filtered: Array
    """|P^-1| of every row after the first, (rows, n, n)."""
    gain: Array
    """Largest |K|, (n, d)."""
    rest: Array
    """Largest |I - K C|, (n, n)."""

    def norm(self, error: Array) -> float:
        """An error of the mean, entry by entry, in units of the smallest P."""
        return float(np.sqrt(np.einsum("i,kij,j->k", error, self.filtered, error).max()))


def _relative(exact: Array, error: Array) -> float:
    """The least t with -t E <= D <= t E for every E of `exact` (rows, n, n) and symmetric |D| <= `error`."""
    values = np.linalg.eigvalsh(exact)
    if not np.all(values[:, 0] > 1e-12 * values[:, -1]):
        return math.inf
    # eigenvalues of E^-1 D are at most the largest of the nonnegative |E^-1| |D|, and that its largest row sum
    scale = np.sqrt(np.einsum("kii->ki", exact))
    product = np.abs(np.linalg.inv(exact)) @ error * scale[:, None, :] / scale[:, :, None]
    return float(np.minimum(np.abs(product).sum(axis=2).max(axis=1), np.abs(product).sum(axis=1).max(axis=1)).max())


def _geometric(share: float, steps: int) -> float:
    """At least the sum over j < steps of (1 - share)^j."""
    return float(steps) if share * steps < 1e-6 else min(float(steps), 1.0 / share)


def _yardstick(model: GaussMarkov, gains: Gains, side: Side, steps: int) -> Yardstick | None:
    """The errors of a filter that meets any pattern of gaps; None if its covariances are singular."""
    n, d, P = model.states, model.dim, side.table.P
    if not side.table.settled:
        return None
    A, _, Q, C, _, R = _matrices(model)
    X = side.prior.cov
    after = P[1:] if len(P) > 1 else P
    before = A @ P @ A.T + Q
    S = C @ before @ C.T + R
    values = np.linalg.eigvalsh(after)
    if not np.all(values[:, 0] > 1e-12 * values[:, -1]):
        return None
    # Q >= q Sigma for every Sigma <= X
    share = 0.0
    if np.linalg.eigvalsh(Q)[0] > 1e-14 * np.trace(Q):
        share = min(1.0, (1.0 - 1e-9) / float(np.abs(np.linalg.eigvals(np.linalg.solve(Q, X))).max()))
    gather, geometric = _geometric(share, steps), _geometric(1.0 - math.sqrt(1.0 - share), steps)
    sd = np.sqrt(np.diag(X))
    reading = np.sqrt(np.diag(C @ X @ C.T + R))
    inverse = float(1.0 / np.sqrt(np.linalg.eigvalsh(S)[:, 0].min()))
    # after a reading P is at most what the widest Sigma leaves, and K = P C' R^-1, J = P Sigma^-1
    most = X - X @ C.T @ np.linalg.solve(C @ X @ C.T + R, C @ X)
    left, seen = np.sqrt(np.diag(most)), np.abs(C) @ sd
    gain = np.outer(sd, np.full(d, inverse))
    if np.linalg.eigvalsh(R)[0] > 1e-12 * np.trace(R):
        shown = np.sqrt(np.diag(C @ most @ C.T))
        gain = np.minimum(gain, np.outer(left, shown @ np.abs(np.linalg.inv(R))))
    rest = np.eye(n) + gain @ np.abs(C)
    if np.all(np.linalg.eigvalsh(before)[:, 0] > 0.0):
        rest = np.minimum(rest, np.outer(left, np.sqrt(np.diagonal(np.linalg.inv(before), 0, 1, 2).max(axis=0))))
    moved = np.abs(A) @ sd
    predicted = _relative(before, _gamma(2 * n + 1) * (np.outer(moved, moved) + np.abs(Q)))
    kept = rest @ sd
    local = _gamma(2 * n + 2 * d + 2) * (np.outer(kept, kept) + gain @ np.abs(R) @ gain.T)
    once = (np.eye(n) + gain @ np.abs(C)) @ np.outer(left, left)
    local = local + _gamma(d + 1) * (once + once.T)
    step = predicted + _relative(after, local)
    errors = _gamma(2 * n + 1) * (np.outer(seen, seen) + np.abs(R)) + _gamma(d + 3) * np.outer(reading, reading)
    innovation = _relative(S, errors)
    spread = inverse * float(np.linalg.norm(reading))
    # the stored covariance that a gap starts from, and the one at which the tables take over again
    stored = gains.flat.reshape(gains.rows, gains.width)[:, -n * n :].reshape(-1, n, n)
    index = np.minimum(np.arange(len(P)), gains.rows - 1)
    off = np.abs(stored[index] - P)[1 if len(P) > 1 else 0 :].max(axis=0) + 2.0 * UNIT * np.abs(after).max(axis=0)
    scale = np.sqrt(np.diag(before[-1]))
    returning = _relative(after[-1:], 1e-14 * np.outer(scale, scale))
    covariance = step * gather + _relative(after, off) + returning
    return Yardstick(
        geometric, covariance + step, innovation, sd, reading, inverse, spread, np.abs(np.linalg.inv(after)), gain, rest
    )


def _matrices(model: GaussMarkov) -> tuple[Array, ...]:
    return tuple(model.at(1))


def _score_error_gaps(model: GaussMarkov, side: Side, rod: Yardstick, largest: Array) -> float:
    """The norm of the error of a vector of scores, under any pattern of gaps."""
    n, d = model.states, model.dim
    A, b, _, C, offset, _ = (np.abs(matrix) for matrix in _matrices(model))
    root = math.sqrt(d)
    mean = side.prior.size(np.eye(n), np.zeros(n))
    Y = np.minimum(largest, side.reading + SCORE * root * rod.reading)
    moved = A @ mean + b
    # rounding of a step with the gains as computed, and of the gains as functions of P
    error = 2.0 * _gamma(n + d + 2) * (np.maximum(rod.rest, np.eye(n)) @ moved + rod.gain @ (Y + offset)) + UNIT * (
        rod.gain @ Y
    )
    local = rod.inverse * rod.deviation * (_gamma(n + d + 1) * 2.0 * rod.spread + rod.innovation / rod.inverse)
    innovation = SCORE * root * float(np.linalg.norm(rod.reading))
    error = error + rod.deviation * rod.innovation * SCORE * root
    error = error + local * innovation
    norm = rod.geometric * (rod.norm(error) + rod.covariance * SCORE * root)
    seen = 2.0 * _gamma(n + 1) * (C @ moved + offset) + UNIT * (Y + SCORE * root * rod.reading)
    scores = ((rod.covariance + rod.innovation) * root + _gamma(d + 2) * rod.spread) * SCORE * root
    total = (norm + rod.inverse * float(np.linalg.norm(seen)) + scores) * (1.0 + 1e-6)
    return total if total < 1e-7 else math.inf


def _coloured_error_gaps(model: GaussMarkov, side: Side, rod: Yardstick, steps: int, score: float) -> Array:
    """The error of each channel of the output, (d,), under any pattern of gaps."""
    n, d = model.states, model.dim
    A, b, _, C, offset, _ = _matrices(model)
    root = math.sqrt(d)
    mean = side.prior.size(np.eye(n), np.zeros(n))
    moved = np.abs(A) @ mean + np.abs(b)
    local = _gamma(n + d + 2) * 2.0 * rod.spread
    gains = (1.0 + root) * (rod.covariance + rod.innovation) + local
    error = _gamma(n + d + 2) * (moved + rod.deviation * SCORE * root)
    error = error + rod.deviation * (gains * SCORE * root + score)
    H, _ = _predictor(model)
    off = _reach(H, A, steps)[0] @ error * (1.0 + 1e-6)
    off = off + 2.0 * _gamma(n + 2) * (np.abs(C) @ moved + np.abs(offset))
    scale = (rod.covariance + rod.innovation) * root + _gamma(d + 2)
    bound: Array = np.asarray(off + rod.reading * (scale * SCORE * root + score))
    return bound if np.all(bound < 1e-7 * (side.reading + rod.reading)) else np.full(d, np.inf)


class Line(NamedTuple):
    """A model of one state and one channel under any pattern of gaps; X is the state."""

    A: float
    H: float
    C: float
    R: float
    variance: float
    """Largest predicted variance of X."""
    least: float
    """Smallest predicted variance of X."""
    covariance: float
    """Largest relative error of the predicted variance."""
    mean: float
    reading: float
    """Size of x and of H x + g."""
    step: float
    """Rounding of one step of the mean, in units of x, but for the gain's own error."""
    predicted: float
    """Rounding of H x + g."""

    def S(self, variance: float) -> float:
        """Innovation variance."""
        return self.C * self.C * variance + self.R


def _line_gaps(model: GaussMarkov, gains: Gains, side: Side, steps: int, largest: float | None) -> Line:
    """The sizes and errors of such a filter; `largest` bounds the readings of a source and is None for a target."""
    A, b, Q, C, d, R = (float(m.item()) for m in _matrices(model))
    (H,), (g,) = _predictor(model)[0][0], _predictor(model)[1]
    table = side.table
    variance = float(side.prior.cov.item())
    P = table.P[:, 0, 0]
    before = A * A * P + Q
    least = float(before.min())
    mean, reading = float(side.prior.size(np.eye(1), np.zeros(1)).item()), float(side.reading.item())
    moved = abs(A) * mean + abs(b)
    predicted = 2.0 * _gamma(3) * (abs(C) * moved + abs(d))
    tabled = 0.0
    if table.line and largest is None:
        tabled = float(_line_target_step(side, abs(A), np.array([reading])).max()) + table.start
    elif table.line and largest is not None:
        tabled = float(_source_steps(side, np.array([largest]), len(P)).step(np.array([reading])).max()) + table.start
    if not H:  # nothing is remembered: q is g at every step
        return Line(A, 0.0, C, R, variance, least, _gamma(8), mean, reading, 0.0, predicted + tabled)
    # Sigma <- A^2 P + Q with P = J^2 Sigma + K^2 R: a relative error passes on with the factor 1 - Q / Sigma
    share = Q / variance if variance else 1.0
    gather = _geometric(share, steps)
    stored = gains.flat.reshape(gains.rows, gains.width)[:, -1]
    off = np.abs(stored[np.minimum(np.arange(len(P)), gains.rows - 1)] - P) + 2.0 * UNIT * P
    covariance = (_gamma(4) + _gamma(5) + 4.0 * _gamma(2)) * gather + float((A * A * off / before).max()) + 1e-14
    top = C * C * variance + R
    K, J = abs(C) * variance / top, R / (C * C * least + R)
    skip = _gamma(2) * moved
    M = math.sqrt(variance)
    if largest is None:
        step = max(skip, _gamma(4) * (moved + M * SCORE))
    else:
        Y = min(largest, reading + SCORE * math.sqrt(top))
        step = _gamma(4) * (J * moved + K * (Y + abs(d))) + (UNIT * J + _gamma(2) * K * abs(C)) * moved
        step = max(skip, step) + UNIT * K * Y + _gamma(6) * K * math.sqrt(top) * SCORE
    if table.line:
        # x is found from q when a gap begins, and q from x when it is over
        step = max(step, tabled / abs(H)) + _gamma(3) * (reading + 2.0 * abs(g) + abs(H) * mean) / abs(H)
    return Line(A, float(H), C, R, variance, least, covariance, mean, reading, step, predicted)


def _scalar_gaps(source: Line, target: Line, largest: float, steps: int, ratio: float) -> float:
    """The error of the output under any pattern of gaps, for one state and one channel on each side.

    Each rounding error of the source meets the readings that follow: the k-th of them finds J^k of it at most, so that
    they add up to 1 / (1 - J) however they lie. `ratio` bounds L of the target by that of the source at the same step.
    """
    a, at = abs(source.A), abs(target.A)
    J = source.R / source.S(source.least)
    L, Lt, M = math.sqrt(source.S(source.variance)), math.sqrt(target.S(target.variance)), math.sqrt(target.variance)
    # |dK e| = J dSigma C / S L |z|, and Sigma / S^1.5 is largest at C^2 Sigma = 2 R
    rho = source.step
    if source.H:
        rho += 2.0 / 3.0**1.5 * math.sqrt(source.R) / abs(source.C) * source.covariance * SCORE
    Y = min(largest, source.reading + SCORE * L)
    seen = source.predicted + UNIT * (Y + SCORE * L)
    own = SCORE * (source.covariance / 2.0 + _gamma(8))
    carried = abs(source.H) * ratio * rho
    total = 0.0
    if target.H:
        each = target.step + seen * ratio / abs(target.C) + M * (own + SCORE * (target.covariance + _gamma(6)))
        sums = _geometric(1.0 - max(a, at), steps) * carried / (1.0 - J) if carried else 0.0
        total = abs(target.H) * (sums / abs(target.C) + _geometric(1.0 - at, steps) * each)
    total += (
        carried * _geometric(1.0 - a, steps) + ratio * seen + Lt * (own + SCORE * (target.covariance / 2.0 + _gamma(8)))
    )
    total += target.predicted
    return total * (1.0 + 1e-6) if total < 1e-7 * (target.reading + Lt) else math.inf


def _innovation_ratio(source: GaussMarkov, target: GaussMarkov, first: Line, second: Line) -> float:
    """A bound on ~L / L at the same step: S grows with Q, R, cov0 and |A|, and in proportion to the first three."""
    apart = math.sqrt(second.S(second.variance) / first.S(first.least))
    if abs(target.row(1)[0]) > abs(source.row(1)[0]):
        return apart
    pairs = []
    for model in (source, target):
        _, _, Q, C, _, R = (float(m.item()) for m in _matrices(model))
        pairs.append((C * C * Q, R, C * C * float(model.cov0.item())))
    largest = max(math.inf if not a else b / a for a, b in zip(*pairs, strict=True) if b)
    return min(apart, math.sqrt(largest))


def output_error(
    source: GaussMarkov, target: GaussMarkov, largest: ArrayLike = np.inf, steps: int = 1_000_000, *, gaps: bool = True
) -> Array:
    """Bound on the rounding error of each channel of the disguised readings, (d,), over the first `steps`.

    Parameters
    ----------
    source, target
        Two Gauss-Markov models.
    largest
        Public bound on |y|, a number or one a channel; without it that of the source's own law.
    steps
        Number of readings, missing ones included.
    gaps
        Whether readings may be missing, in any pattern. Without gaps the bound is smaller.

    Returns
    -------
    numpy.ndarray
        Infinite where nothing is proved: models that change with time, or whose filters do not forget.

    Examples
    --------
    >>> from understudy.models.gauss_markov import GaussMarkov
    >>> empty, full = (GaussMarkov(0.95, 1.0, 0.1, 0.1, b=b, mean0=100.0, cov0=1.0) for b in (0.0, 10.0))
    >>> bool(output_error(full, empty, largest=400.0, gaps=False)[0] < 200 * 2.0**-45)
    True

    """
    if steps < 1:
        raise ConfigurationError(f"steps = {steps!r}; it must be at least 1")
    if source.dim != target.dim:
        raise ConfigurationError(f"the models have {source.dim} and {target.dim} channels; these must agree")
    d = source.dim
    limit = np.broadcast_to(np.asarray(largest, dtype=float), (d,))
    pair = Pair(source, target)
    a, b = pair.source.gains, pair.target.gains
    if a is None or b is None:
        return np.full(d, np.inf)
    first, second = _side(source, a, pair.scalar, steps), _side(target, b, pair.scalar, steps)
    for side in (first, second):
        if not side.table.settled and steps > len(side.table.P):
            return np.full(d, np.inf)
    A = target.at(1).A
    rows = max(len(first.table.P), len(second.table.P))
    known = f"roundoff scores {pair.scalar} {steps} {rows} {limit.tolist()}"
    if known not in source.memo:
        source.memo[known] = _score_error(first, limit, rows)
    score = source.memo[known]
    bound = _coloured_error(second, A, steps, score)
    if not gaps:
        return bound * _SLACK
    both = (_predictor(source)[0].any(), _predictor(target)[0].any())
    if not any(both):  # no memory on either side: there is nothing that a gap could change
        return bound * _SLACK
    if source.states == target.states == d == 1:
        lines = _line_gaps(source, a, first, steps, float(limit[0])), _line_gaps(target, b, second, steps, None)
        ratio = _innovation_ratio(source, target, *lines)
        return np.maximum(bound, _scalar_gaps(*lines, float(limit[0]), steps, ratio)) * _SLACK
    if both[0]:
        rod = _yardstick(source, a, first, steps)
        score = np.maximum(score, math.inf if rod is None else _score_error_gaps(source, first, rod, limit))
    if not both[1]:
        return np.maximum(bound, _coloured_error(second, A, steps, score)) * _SLACK
    rod = _yardstick(target, b, second, steps)
    if rod is None or not np.isfinite(score).all():
        return np.full(d, np.inf)
    worst = float(np.linalg.norm(score.max(axis=0)))
    return np.maximum(bound, _coloured_error_gaps(target, second, rod, steps, worst)) * _SLACK


# From the error to the leakage ---------------------------------------------------------------------------------------


def log_slope(target: GaussMarkov, steps: int = 1_000_000, *, gaps: bool = True) -> Array:
    """The most by which the log density of a path of readings changes with one of them, a channel (d,), per unit.

    The log density is -sum_k |z_k|^2 / 2, so its slope is at most 17 times what one reading does to all scores, as long
    as none is beyond 17: one more than SCORE, for the width of a cell.

    >>> from understudy.models.gauss_markov import GaussMarkov
    >>> log_slope(GaussMarkov(0.0, 1.0, 0.0, 4.0, mean0=0.0, cov0=0.0)).round(3)
    array([8.5])
    """
    d = target.dim
    pair = Pair(target, target)
    gains = pair.target.gains
    if gains is None:
        return np.full(d, np.inf)
    side = _side(target, gains, pair.scalar, steps)
    if not side.table.settled and steps > len(side.table.P):
        return np.full(d, np.inf)
    K = np.abs(side.table.exact["K"]).max(axis=0)
    inverse = side.inverse.max(axis=0)
    # one reading on all scores that follow; all readings on one score, for how far scores move within cells
    later = np.maximum((side.memory.later @ K).sum(axis=0), (inverse @ side.memory.reading @ K).sum(axis=0))
    total = inverse.sum(axis=0) + later
    if gaps and _predictor(target)[0].any():
        if target.states == d == 1:
            line = _line_gaps(target, gains, side, steps, None)
            J, gain = line.R / line.S(line.least), abs(line.C) * line.variance / line.S(line.variance)
            total = np.maximum(total, (1.0 + abs(line.H) * gain / (1.0 - J)) / math.sqrt(line.S(line.least)))
        else:
            # |L^-1 H F K c| <= pole^j (c' R^-1 c)^(1/2), in units of the covariance
            rod, R = _yardstick(target, gains, side, steps), _matrices(target)[5]
            if rod is None or not np.linalg.eigvalsh(R)[0] > 1e-12 * np.trace(R):
                return np.full(d, np.inf)
            noise = np.sqrt(np.diag(np.linalg.inv(R)))
            total = np.maximum(total, math.sqrt(d) * (rod.inverse + rod.geometric * noise))
    return np.asarray((SCORE + 1.0) * total * _SLACK)


def _log_ratio(readings: float, error: Array, step: Array, slope: Array) -> float:
    """a, the most by which the log probability of a path of cells changes; infinite where nothing is proved."""
    if not np.all(np.isfinite(error)):
        return math.inf
    # scores move within the cells of a path: by less than one, or the slope is taken where they come to
    moved = float(np.sum(slope * (step + 2.0 * error))) / (SCORE + 1.0)
    s = slope * max(1.0, (SCORE + moved) / (SCORE + 1.0))
    # the mass within e of either edge of a cell, as a share of that of the cell
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.where(s > 0.0, 2.0 * np.expm1(s * error) / -np.expm1(-s * step), 2.0 * error / step)
    if not np.all(share < 1.0):
        return math.inf
    return float(-readings * np.log1p(-share).sum()) * _SLACK


def leakage(readings: float, error: ArrayLike, step: ArrayLike, slope: ArrayLike) -> float:
    """Nats that rounding errors add to the leakage of a whole path of readings, at most.

    Parameters
    ----------
    readings
        Number of readings.
    error, step, slope
        A number, or one a channel: the rounding error of an output, the step of the lattice on which it is released,
        and the slope of the log density of its law.

    Examples
    --------
    >>> leakage(50, error=3e-12, step=2.0**-12, slope=100.0) < 1e-11
    True

    """
    a = _log_ratio(readings, *(np.atleast_1d(np.asarray(v, dtype=float)) for v in (error, step, slope)))
    return a if math.isinf(a) else (a * math.tanh(0.5 * a) + readings * _RARE) * _SLACK


def variation(readings: float, error: ArrayLike, step: ArrayLike, slope: ArrayLike) -> float:
    """The largest total variation between the paths of two private values, under the same draw.

    >>> variation(50, error=3e-12, step=2.0**-12, slope=100.0) < 1e-5
    True
    """
    a = _log_ratio(readings, *(np.atleast_1d(np.asarray(v, dtype=float)) for v in (error, step, slope)))
    # each is within tanh(a / 2) of the law without rounding errors
    return 1.0 if math.isinf(a) else min(1.0, 2.0 * (math.tanh(0.5 * a) + readings * _RARE) * _SLACK)


@dataclass(frozen=True)
class Roundoff:
    """What rounding errors add to the leakage of a design, as plain numbers: the worst of all its pairs.

    >>> bound = Roundoff(((64, (1e-12,)), (4096, (3e-12,))), (2.0**-12,), (100.0,))
    >>> bound.error(100), bound.error(5000)
    ((3e-12,), (inf,))
    >>> bound.nats(64) < bound.nats(65) < 1e-9
    True
    >>> 64 < bound.readings(1e-9) <= 4096
    True
    >>> Roundoff.from_plain(bound.to_plain()) == bound
    True
    """

    errors: tuple[tuple[int, tuple[float, ...]], ...]
    """(T, error a channel) with T growing: of any of the first T outputs. Nothing is proved beyond the last."""
    steps: tuple[float, ...]
    slope: tuple[float, ...]
    how: str = PROVED
    gaps: bool = True
    """Whether it holds for every pattern of missing readings, or only without any."""

    def error(self, readings: float) -> tuple[float, ...]:
        """The rounding error of each channel over so many readings, at most."""
        for steps, error in self.errors:
            if readings <= steps:
                return error
        return (math.inf,) * len(self.steps)

    def nats(self, readings: float) -> float:
        """Leakage of so many readings beyond that of the draw."""
        return leakage(readings, self.error(readings), self.steps, self.slope)

    def variation(self, readings: float) -> float:
        """Total variation between two private values under the same draw."""
        return variation(readings, self.error(readings), self.steps, self.slope)

    def readings(self, nats: float) -> int:
        """The largest number of readings whose leakage stays within so many nats."""
        low, high = 0, 1 + (self.errors[-1][0] if self.errors else 0)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.nats(middle) <= nats else (low, middle)
        return low

    def to_plain(self) -> dict[str, Any]:
        """Numbers, lists and strings that a file can hold."""
        errors = [[steps, *error] for steps, error in self.errors]
        return {
            "errors": errors, "steps": list(self.steps), "slope": list(self.slope), "how": self.how, "gaps": self.gaps
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Roundoff:
        """The same bound again, without computing it."""
        errors = tuple((int(steps), tuple(map(float, error))) for steps, *error in plain["errors"])
        steps, slope = (tuple(map(float, plain[name])) for name in ("steps", "slope"))
        return cls(errors, steps, slope, str(plain["how"]), bool(plain["gaps"]))


def roundoff(
    pairs: Iterable[tuple[GaussMarkov, GaussMarkov]],
    steps: Sequence[float],
    largest: ArrayLike = np.inf,
    *,
    gaps: bool | None = None,
    horizon: int = 2**30,
) -> Roundoff:
    """The bound for a design: the worst over its pairs (source, target) of Gauss-Markov models.

    Parameters
    ----------
    pairs
        Source and target models.
    steps
        The step of the lattice of each channel.
    largest
        Public bound on raw readings.
    gaps
        Whether readings may be missing; by default they may if that can be bounded, however loosely. `Roundoff.gaps`
        says which of the two was proved.
    horizon
        The most readings that the bound is asked for.

    Examples
    --------
    >>> from understudy.models.gauss_markov import GaussMarkov
    >>> walk = GaussMarkov(1.0, 1.0, 0.1, 0.1, mean0=100.0, cov0=1.0)
    >>> bound = roundoff([(walk, walk)], steps=[2.0**-12], gaps=False)
    >>> bound.error(100)[0] < bound.error(10_000)[0]
    True

    """
    pairs = list(pairs)
    if gaps is None:
        found = roundoff(pairs, steps, largest, gaps=True, horizon=horizon)
        usable = found.errors and math.isfinite(found.nats(1))
        return found if usable else roundoff(pairs, steps, largest, gaps=False, horizon=horizon)
    targets = {id(target): target for _, target in pairs}.values()
    slope = np.max([log_slope(target, horizon, gaps=gaps) for target in targets], axis=0)
    known: dict[int, Array] = {}

    def error(T: int) -> Array:
        if T not in known:
            known[T] = np.max([output_error(a, b, largest, T, gaps=gaps) for a, b in pairs], axis=0)
        return known[T]

    def refine(low: int, high: int) -> None:
        """Powers of two between, as long as the error still grows."""
        middle = 1 << ((low.bit_length() + high.bit_length() - 1) // 2)
        if low < middle < high and not np.all(error(high) <= 1.25 * error(low)):
            refine(low, middle)
            refine(middle, high)

    last = 1 << max(5, (horizon - 1).bit_length())
    error(last)
    refine(32, last)
    rows: list[tuple[int, tuple[float, ...]]] = []
    best = np.full(len(steps), np.inf)
    for T in sorted(known, reverse=True):  # a bound for T readings holds for fewer
        best = np.minimum(best, known[T])
        if np.isfinite(best).all():
            rows.append((T, tuple(best.tolist())))
    return Roundoff(tuple(rows[::-1]), tuple(map(float, steps)), tuple(slope.tolist()), PROVED, gaps)


def stated_error(
    target: Model, tolerance: float = 2.0**-40, *, score: float = 8.0, steps: int = 300, rng: int = 0
) -> Array:
    """The error of each output, (d,), if scores are off by `tolerance`: an estimate along one simulated path.

    For laws without a closed form of the map. It is the tolerance times how much an output moves with its own score, at
    most `score` from the middle, and with all scores before it. Stated, not proved. Use 1e-9 for numeric densities.

    >>> from understudy.laws.gaussian import Gaussian
    >>> from understudy.models.iid_markov import IID
    >>> bool(abs(stated_error(IID(Gaussian(0.0, 4.0)), 1e-9)[0] - 4e-9) < 1e-12)
    True
    """
    d, h = target.dim, 1e-4
    draws = np.random.default_rng(rng).standard_normal((steps, d))

    def shaped(z: Array) -> Numbers:
        return float(z[0]) if d == 1 else z

    own, past = np.zeros(d), np.zeros(d)
    near, moved = target.start(), target.start()
    for z in draws:
        law, other = target.predict(near), target.predict(moved)
        y, shifted = law.value(shaped(z)), other.value(shaped(z + h))
        slopes = np.zeros(d)
        for channel in range(d):
            for sign in (-1.0, 1.0):
                edge, inner = z.copy(), z.copy()
                edge[channel], inner[channel] = sign * score, sign * (score - h)
                change = np.abs(np.atleast_1d(law.value(shaped(edge))) - np.atleast_1d(law.value(shaped(inner))))
                slopes = np.maximum(slopes, change / h)
        own = np.maximum(own, slopes)
        past = np.maximum(past, np.abs(np.atleast_1d(shifted) - np.atleast_1d(y)) / h)
        near, moved = target.update(near, y), target.update(moved, shifted)
    return tolerance * (own + past)
