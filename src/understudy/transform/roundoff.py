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
The error of a stored gain is measured: the same recursion runs once more in 50 decimal digits. With a fresh share s the
source's scores are outputs of white noise's model, mixed to sqrt(1 - s^2) z + s w in three operations, and whitened
once more under that model: their error shrinks by the root, and the roundings of these steps are added. The bound holds
given w, whatever its own digits are; the law of the output is then narrower by the root, and its log density steeper.

**Gaps.** After a missing reading the gains are computed on the way, and no table of them exists to be measured:
nothing is proved there. The bound is for readings without gaps, and says so wherever it is shown.

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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy._types import Array, Numbers
from understudy.errors import ConfigurationError
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.model import Model
from understudy.transform.kalman_pair import Gains, Pair, white

UNIT = 2.0**-53
SCORE = 16.0
"""No score is larger, but for a probability of 1.3e-57 each."""

_RARE = 1e-45  # nats a reading for what has a probability of 7e-51 for each of a hundred scores and means
_SLACK = 1.0 + 1e-9  # for the rounding of this file's own sums
_DIGITS = 50
_MOST_POWERS = 4096
_GONE = 2.0**-40
PROVED, STATED = "proved", "stated, not proved"


_T = TypeVar("_T")


def _gamma(operations: float) -> float:
    return operations * UNIT / (1.0 - operations * UNIT)


def _remember(model: GaussMarkov, key: str, compute: Callable[[], _T]) -> _T:
    """What was computed once for a model, and is kept with it."""
    if key not in model.memo:
        model.memo[key] = compute()
    found: _T = model.memo[key]
    return found


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


def _prior(model: GaussMarkov, steps: int) -> tuple[Array, Array]:
    """Bounds on X_k, k <= steps, before any reading: |E X_k| entry by entry, and a matrix above its covariance."""
    A, b, Q, *_ = model.at(1)
    count, doublings = _blocks(steps + 1)
    stack, power = _powers(A, count)
    drift = np.concatenate((np.zeros((1, len(A))), np.cumsum(stack @ b, axis=0)))
    mean = np.abs(stack @ model.mean0 + drift[:-1]).max(axis=0)
    # Q gathers as sum_j A^j Q A^j', and mean_{N+k} = (sum of the drift over N) + A^N mean_k
    gathered = (stack @ Q @ stack.transpose(0, 2, 1)).sum(axis=0)
    jump, block = drift[-1], power
    for _ in range(doublings):
        gathered = gathered + block @ gathered @ block.T
        mean = np.maximum(mean, np.abs(jump) + np.abs(block) @ mean)
        if np.abs(block).sum(axis=1).max() < _GONE:
            break
        jump, block = jump + block @ jump, block @ block
    settled = bool(np.abs(block).sum(axis=1).max() < _GONE)
    # X_k has covariance limit + A^k (cov0 - limit) A^k', or at most the sum of both where there is no limit
    excess = model.cov0 - gathered if settled else model.cov0
    values, vectors = np.linalg.eigh(0.5 * (excess + excess.T))
    start = stack @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    later = 1.0 if settled else max(1.0, float(np.abs(power).sum(axis=1).max()))
    most = (float(np.linalg.norm(start, axis=(1, 2)).max()) * later) ** 2
    return mean, np.asarray((gathered + most * np.eye(len(A))) * _SLACK)


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
    start: float
    """Error of the first predicted reading of a line."""
    line: bool
    settled: bool

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.exact["G"])

    def sizes(self, rows: int) -> tuple[dict[str, Array], dict[str, Array]]:
        """Absolute values and errors of `rows` rows, the last one repeated as the filter does."""
        index = np.minimum(np.arange(rows), self.rows - 1)
        return {k: np.abs(v[index]) for k, v in self.exact.items()}, {k: v[index] for k, v in self.error.items()}


def _measure(model: GaussMarkov, gains: Gains, line: bool) -> Table:
    with localcontext() as context:
        context.prec = _DIGITS
        return _compare(model, gains, line)


def _compare(model: GaussMarkov, gains: Gains, line: bool) -> Table:
    n, d = model.states, model.dim
    A, b, Q, C, offset, R = (_exact(m[:, None] if m.ndim == 1 else m) for m in model.at(1))
    P, one = _exact(model.cov0), _exact(np.eye(n))
    H, g = C @ A, C @ b + offset
    rows: dict[str, list[Array]] = {name: [] for name in _NAMES}
    errors: dict[str, list[Array]] = {name: [] for name in _NAMES}
    stored = gains.flat.reshape(gains.rows, gains.width)
    settled = False
    for k in range(4096 if n == 1 else 384):
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
        A1, b1, _, C1, d1, _ = (float(m.item()) for m in model.at(1))
        x0 = float(model.mean0.item())
        # as `Side.predicted` computes it
        computed = (C1 * A1) * x0 + (C1 * b1 + d1)
        size = abs(float(H[0, 0])) + abs(float(g[0, 0]))
        start = abs(float(Decimal(computed) - (H[0, 0] * Decimal(x0) + g[0, 0]))) + UNIT**2 * size
    return Table(whole, error, start, line, settled)


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
    mean: Array
    """Size of the mean that the filter carries: x, or q for a line."""
    reading: Array
    """Size of H x + g."""
    reach: tuple[tuple[Array, Array], tuple[Array, Array]]
    """Sum and maximum over j < steps of |A^j|, and of |H A^j|: how errors gather in a target."""


def _side(model: GaussMarkov, gains: Gains, line: bool, steps: int) -> Side:
    """Everything about one model; what does not depend on `steps` is computed once."""
    return _remember(model, f"roundoff side {line} {steps}", lambda: _new_side(model, gains, line, steps))


def _new_side(model: GaussMarkov, gains: Gains, line: bool, steps: int) -> Side:
    table = _remember(model, f"roundoff table {line}", lambda: _measure(model, gains, line))
    inverse: Array = np.asarray(np.linalg.inv(table.exact["L"]), dtype=float)
    memory = _remember(model, f"roundoff memory {line}", lambda: _memory(table, inverse))
    A, b, _, C, offset, _ = model.at(1)
    mean, cov = _prior(model, steps)

    def size(H: Array, g: Array) -> Array:
        """|H X_k + g| stays below this: the mean and 16 standard deviations."""
        variance = np.maximum(np.einsum("in,nm,im->i", H, cov, H), 0.0)
        return np.asarray(np.abs(g) + np.abs(H) @ mean + SCORE * np.sqrt(variance))

    reading = size(C @ A, C @ b + offset)
    carried = reading if line else size(np.eye(len(A)), np.zeros(len(A)))
    reach = (_reach(np.eye(len(A)), A, steps), _reach(table.exact["H"][0], A, steps))
    return Side(table, memory, np.abs(inverse), carried, reading, reach)


def _fixed(gather: Callable[[Array], Array], size: Array) -> Array:
    """An error B with gather(size + B) <= B: by induction over the steps no error leaves it."""
    B = np.zeros(len(size))
    for _ in range(4):
        B = gather(size + B) * (1.0 + 1e-7)
    return B if np.all(gather(size + B) <= B) else np.full(len(B), np.inf)


def _score_error(side: Side, largest: Array, rows: int) -> Array:
    """|computed - exact| of the scores, (rows, d)."""
    table, memory = side.table, side.memory
    n, d = table.exact["K"].shape[1:]
    nothing = np.full((rows, d), np.inf)
    if not np.isfinite(memory.state).all():
        return nothing
    size, error = table.sizes(rows)
    G, K, h, H, g, L = (size[name] for name in ("G", "K", "h", "H", "g", "L"))
    innovation = SCORE * L.sum(axis=2)
    Y = np.minimum(largest, side.reading + innovation.max(axis=0))
    mean = np.minimum(side.mean, Y + innovation.max(axis=0)) if table.line else side.mean
    fixed = np.einsum("knd,kd->kn", error["K"], innovation) + error["h"][:, :, 0] + UNIT * (K @ Y)

    def step(x: Array) -> Array:
        """The most that one step adds to the error of a mean of this size."""
        wrong = fixed + error["G"] @ x
        if table.line:  # q <- G q + (u + v y): two products, the sum in brackets, the sum that is q
            wrong = wrong + _gamma(1.0) * (x + G @ x + h[:, :, 0] + 2.0 * (K @ Y))
        else:
            wrong = wrong + _gamma(n + d + 1) * (G @ x + K @ Y + h[:, :, 0])
        return np.asarray(wrong.max(axis=0) + table.start)

    B = _fixed(lambda x: memory.state @ step(x), mean)
    # e = y - (H x + g)
    x = mean + B
    off = memory.reading @ step(x) + UNIT * (Y + innovation) * (1.0 + 1e-6)
    if not table.line:
        off = off + _gamma(n + 1) * (H @ x + g[:, :, 0]) + error["H"] @ x + error["g"][:, :, 0]
    # L z = e, by substitution
    off = off + SCORE * (error["L"] + _gamma(d + 2) * L).sum(axis=2)
    inverse = side.inverse[np.minimum(np.arange(rows), table.rows - 1)]
    bound = np.einsum("kij,kj->ki", inverse, off) * (1.0 + 1e-6)
    return bound if np.all(bound < 1e-7) else nothing


def _coloured_error(side: Side, A: Array, score: Array) -> Array:
    """|computed - exact| of the outputs, (d,), for scores that are off by at most `score`, (rows, d)."""
    table = side.table
    n, d = table.exact["K"].shape[1:]
    if not np.isfinite(score).all():
        return np.full(d, np.inf)
    size, error = table.sizes(len(score))
    M, H, g, b, L = (size[name] for name in ("M", "H", "g", "b", "L"))
    scores = SCORE + score
    driven = np.einsum("knd,kd->kn", M, scores)
    fixed = np.einsum("knd,kd->kn", error["M"], scores) + error["b"][:, :, 0] + np.einsum("knd,kd->kn", M, score)

    def step(x: Array) -> Array:
        """The most that one step adds to the error of a mean of this size, (rows, n)."""
        moved = np.abs(A) @ x
        if not table.line:
            return np.asarray(fixed + _gamma(n + d + 1) * (moved + driven + b[:, :, 0]))
        # q <- A q + (s + (w r) e): the product with A is exact for these A
        product = 0.0 if abs(A.item()) in (0.0, 0.5, 1.0) else moved
        return np.asarray(fixed + _gamma(1.0) * (x + product + b[:, :, 0]) + _gamma(3.0) * driven)

    def gather(reach: tuple[Array, Array], x: Array) -> Array:
        # the settled row at every step, and what the rows before it are worse
        each = step(x)
        more = np.maximum(each - each[-1], 0.0).sum(axis=0)
        return np.asarray(reach[0] @ each[-1] + reach[1] @ more)

    through, out = side.reach
    x = side.mean + _fixed(lambda x: gather(through, x), side.mean)
    off = gather(out, x) + table.start
    if table.line:
        off = off + _gamma(1) * (x + SCORE * L[:, :, 0].max(axis=0))
    else:
        off = off + _gamma(n + 2) * (H @ x + g[:, :, 0]) + error["H"] @ x + error["g"][:, :, 0]
    off = off + np.einsum("kij,kj->ki", _gamma(d + 2) * L + error["L"], scores) + np.einsum("kij,kj->ki", L, score)
    return np.asarray(np.nan_to_num(off.max(axis=0), nan=np.inf))


def output_error(
    source: GaussMarkov, target: GaussMarkov, largest: ArrayLike = np.inf, steps: int = 1_000_000, fresh: float = 0.0
) -> Array:
    """Bound on the rounding error of each channel of the disguised readings, (d,), over `steps` of them, none missing.

    Parameters
    ----------
    source, target
        Two Gauss-Markov models.
    largest
        Public bound on |y|, a number or one a channel; without it that of the source's own law.
    steps
        Number of readings.
    fresh
        The fresh share of the scores.

    Returns
    -------
    numpy.ndarray
        Infinite where nothing is proved: models that change with time, or whose filters do not forget.

    Examples
    --------
    >>> from understudy.models.gauss_markov import GaussMarkov
    >>> empty, full = (GaussMarkov(0.95, 1.0, 0.1, 0.1, b=b, mean0=100.0, cov0=1.0) for b in (0.0, 10.0))
    >>> bool(output_error(full, empty, largest=400.0)[0] < 200 * 2.0**-45)
    True

    """
    if steps < 1:
        raise ConfigurationError(f"steps = {steps!r}; it must be at least 1")
    if source.dim != target.dim:
        raise ConfigurationError(f"the models have {source.dim} and {target.dim} channels; these must agree")
    d = source.dim
    mixed = np.zeros(d)
    if fresh:  # two pairs, with white noise between them
        before = output_error(source, white(d), largest, steps)
        mixed = math.sqrt(1.0 - fresh * fresh) * before + _gamma(4) * 2.0 * SCORE
        source, largest = white(d), 2.0 * SCORE
    limit = np.broadcast_to(np.asarray(largest, dtype=float), (d,))
    pair = Pair(source, target)
    sides = []
    for model, gains in ((source, pair.source.gains), (target, pair.target.gains)):
        side = None if gains is None else _side(model, gains, pair.scalar, steps)
        if side is None or (not side.table.settled and steps > side.table.rows):
            return np.full(d, np.inf)
        sides.append(side)
    first, second = sides
    rows = max(first.table.rows, second.table.rows)
    key = f"roundoff scores {pair.scalar} {steps} {rows} {limit.tolist()}"
    score = _remember(source, key, lambda: _score_error(first, limit, rows))
    return _coloured_error(second, target.at(1).A, score + mixed) * _SLACK


# From the error to the leakage ---------------------------------------------------------------------------------------


def log_slope(target: GaussMarkov, steps: int = 1_000_000) -> Array:
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
    if not side.table.settled and steps > side.table.rows:
        return np.full(d, np.inf)
    K = np.abs(side.table.exact["K"]).max(axis=0)
    inverse = side.inverse.max(axis=0)
    # one reading on all scores that follow; all readings on one score, for how far scores move within cells
    later = np.maximum((side.memory.later @ K).sum(axis=0), (inverse @ side.memory.reading @ K).sum(axis=0))
    return np.asarray((SCORE + 1.0) * (inverse.sum(axis=0) + later) * _SLACK)


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
    """

    errors: tuple[tuple[int, tuple[float, ...]], ...]
    """(T, error a channel) with T growing: of any of the first T outputs. Nothing is proved beyond the last."""
    steps: tuple[float, ...]
    slope: tuple[float, ...]
    how: str = PROVED

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


def roundoff(
    pairs: Iterable[tuple[GaussMarkov, GaussMarkov]],
    steps: Sequence[float],
    largest: ArrayLike = np.inf,
    *,
    horizon: int = 2**30,
    fresh: float = 0.0,
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
    horizon
        The most readings that the bound is asked for.
    fresh
        The fresh share of the scores.

    Examples
    --------
    >>> from understudy.models.gauss_markov import GaussMarkov
    >>> walk = GaussMarkov(1.0, 1.0, 0.1, 0.1, mean0=100.0, cov0=1.0)
    >>> bound = roundoff([(walk, walk)], steps=[2.0**-12])
    >>> bound.error(100)[0] < bound.error(10_000)[0]
    True

    """
    pairs = list(pairs)
    targets = {id(target): target for _, target in pairs}.values()
    slope = np.max([log_slope(target, horizon) for target in targets], axis=0) / math.sqrt(1.0 - fresh * fresh)
    known: dict[int, Array] = {}

    def error(T: int) -> Array:
        if T not in known:
            known[T] = np.array([output_error(a, b, largest, T, fresh) for a, b in pairs]).max(axis=0)
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
    return Roundoff(tuple(rows[::-1]), tuple(map(float, steps)), tuple(slope.tolist()), PROVED)


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
