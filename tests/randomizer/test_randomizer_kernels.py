"""The kernels of the randomizer problem: compiled and plain give the same bits, and every path the same answer."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import same_bits
from randomizer_cases import FAMILIES, exact_case, random_case

import understudy as us
from understudy.errors import InfeasibleError
from understudy.randomizer import certificate, design, solver
from understudy.randomizer import solver as backend
from understudy.randomizer import solver as interior
from understudy.randomizer import solver as inverse
from understudy.randomizer.solver import generate
from understudy.transform.backend import load_plain

HERE = Path(backend.__file__).parent
PLAIN = load_plain("randomizer_kernels_plain_under_test", str(HERE / "_kernels.py"))
SIZES = [(1, 1), (1, 4), (4, 1), (2, 2), (2, 6), (6, 2), (5, 5), (9, 13), (13, 9)]


def test_the_compiled_kernels_run_where_there_is_a_compiler():
    """With a C compiler at hand an install without compiled kernels is a broken one."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is None or os.environ.get("UNDERSTUDY_PURE") == "1" or backend.compiled
    assert PLAIN.__file__.endswith(".py")


def test_the_compiled_kernels_are_not_older_than_their_source():
    """A stale build would silently run (a minute is allowed for installers)."""
    built = Path(backend.kernels.__file__)
    newest = max((HERE / f"_kernels{suffix}").stat().st_mtime for suffix in (".py", ".pxd"))
    assert built.suffix == ".py" or built.stat().st_mtime > newest - 60


def both(call):
    """The results of `call(kernels, view)` compiled and plain; the plain ones read memoryviews."""
    return call(backend.kernels, backend.view), call(PLAIN, memoryview)


def assert_same(call):
    """Every array and number of both is the same, bit for bit, and something was computed."""
    compiled, plain = both(call)
    assert len(compiled) == len(plain) > 0
    for a, b in zip(compiled, plain, strict=True):
        assert same_bits(a, b)
    return compiled


def problem(m, n):
    """Prepared costs, a prior, a law of the pseudo parameter and a slope."""
    rng = np.random.default_rng([31, m, n])
    cost, p, q = rng.random((m, n)), rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(n))
    L, r = np.empty(m * n), np.zeros(5)
    PLAIN.prepare(
        memoryview(cost.reshape(-1)), m, n, memoryview(p), memoryview(L), memoryview(np.empty(n)), memoryview(r)
    )
    return rng, cost, p, q, L, float(rng.uniform(0.5, 5.0))


def test_limits():
    """Both know the same sizes."""
    assert backend.kernels.limits() == PLAIN.limits() == (interior.SMALL, interior.FORBIDDEN, interior.MANY)


@pytest.mark.parametrize(("m", "n"), SIZES)
@pytest.mark.parametrize("change", ["none", "infinite", "a column infinite", "NaN", "negative", "row", "ties", "tiny"])
def test_prepare(m, n, change):
    """Shifted, scaled costs and all that is found on the way, also where something is wrong."""
    rng, cost, p, *_ = problem(m, n)
    i, j = rng.integers(m), rng.integers(n)
    if change == "infinite":
        cost[i, j] = math.inf
    elif change == "a column infinite":
        cost[:, j] = math.inf
    elif change in ("NaN", "negative"):
        cost[i, j] = math.nan if change == "NaN" else -0.5
    elif change == "row":
        cost[i] = math.inf
    elif change == "ties":
        cost = np.round(2.0 * cost)
    elif change == "tiny":
        cost *= 1e-310

    def call(kernels, view):
        L, column, r = np.full(m * n, 7.0), np.full(n, 7.0), np.full(5, 7.0)
        code = kernels.prepare(view(cost.reshape(-1)), m, n, view(p), view(L), view(column), view(r))
        return code, L, column, r

    code = assert_same(call)[0]
    expected = {"NaN": 1, "negative": 2, "row": 3, "infinite": 3 * (n == 1), "a column infinite": 3 * (n == 1)}
    assert code == expected.get(change, 0) or (change == "tiny" and code == 5)


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_evaluate_and_what_builds_on_it(m, n):
    """The sums of one point, the slope that spends a budget, the first slope, the bound."""
    _, _, p, q, L, b = problem(m, n)

    def call(kernels, view):
        A, c, w, r = np.empty(m * n), np.empty(n), np.empty(n), np.empty(3)
        arguments = view(L), m, n, view(p)
        kernels.evaluate(*arguments, view(q), b, view(A), view(c), view(w), view(r))
        first = [x.copy() for x in (A, c, w, r)]
        room = view(A), view(c), view(w), view(r)
        slope = kernels.slide(*arguments, view(q), b, 0.05, 1e-14, 40, view(w), view(r))
        bound = kernels.bound(*arguments, view(q), b, 0.05, *room)
        return *first, slope, bound, r, kernels.climb(*arguments, 0, 1e-3, view(np.empty(n)))

    assert_same(call)


@pytest.mark.parametrize("k", [1, 2, 7, 20])
def test_cholesky(k):
    """Factor and solution, and the pivot that is not positive; against numpy too."""
    root = np.random.default_rng(k).standard_normal((k, k + 2))
    H = root @ root.T
    x = np.arange(1.0, k + 1.0)

    def call(kernels, view):
        F, y = H.reshape(-1).copy(), x.copy()
        good = kernels.cholesky(view(F), k)
        kernels.substitute(view(F), k, view(y))
        bad = (H - 2.0 * np.trace(H) * np.eye(k)).reshape(-1)
        return good, F, y, kernels.cholesky(view(bad), k)

    good, F, y, bad = assert_same(call)
    assert (good, bad) == (1, 0)
    assert np.tril(F.reshape(k, k)) == pytest.approx(np.linalg.cholesky(H), rel=1e-9)
    assert y == pytest.approx(np.linalg.solve(H, x), rel=1e-6)


@pytest.mark.parametrize(("m", "n"), SIZES)
@pytest.mark.parametrize("fixed", [False, True])
def test_interior_and_finish(m, n, fixed):
    """All steps of the method, at a free and at a fixed slope, and the kernel and proof made of them."""
    _, _, p, _, L, b = problem(m, n)
    k = min(m, n)

    def call(kernels, view):
        s = np.array([math.nan if fixed else 0.05, b, 0.1, 1.0, 0.5, 1e-11, 60.0, fixed, 0.0, 0.0])
        law, A, work, H = np.full(n, 1.0 / n), np.empty(m * n), np.zeros(10 * n + 2 * m + 3), np.empty(k * k)
        gap = kernels.interior(view(L), m, n, view(p), view(s), view(law), view(A), view(work), view(H), None)
        t, P, base = np.array([0.05, s[1], 0.0, 0.0, 0.0, 0.0]), np.empty(m * n), np.zeros(m * n)
        base[::n] = 1.0
        after = law.copy()
        kernels.finish(view(L), m, n, view(p), view(after), view(t), view(base), view(A), view(work), view(P))
        return gap, s[1], s[8], law, after, t, P

    assert_same(call)


@pytest.mark.parametrize(("m", "n"), [*SIZES, (6, 20), (21, 18), (30, 40)])
@pytest.mark.parametrize("slope", [0.3, 3.0, 40.0])
def test_at_slope(m, n, slope):
    """The kernel of a given slope, its proof, steps and columns: all at once, and with columns that come and go."""
    _, _, p, _, L, _ = problem(m, n)
    k, rows = min(n, interior.MANY), -4 * (-m // 4)

    def call(kernels, view):
        s, J, base, P = np.zeros(9), np.zeros(k, dtype=np.intp), np.zeros(m * n), np.empty(m * n)
        s[5] = 1e-13
        room = np.zeros((rows + 2) * n + 3 * rows + (rows + k + 8) * k)
        base[::n] = 1.0
        gap = kernels.at_slope(
            view(L), m, n, view(p), slope, view(base), view(s), view(room), view(J), view(P)
        )  # fmt: skip
        return gap, s, J.astype(float), room, P

    gap, s, *_ = assert_same(call)
    assert gap <= 1e-11
    assert 0 <= s[8] <= 60


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_sums_of_a_few_columns(m, n):
    """What `slide` sums up is what `evaluate` does; a belief that follows a draw is Bayes' rule and the chain's."""
    rng, _, p, q, L, b = problem(m, n)
    q[0] = 0.0 if n > 1 else 1.0
    P, T = rng.dirichlet(np.ones(n), size=m), rng.dirichlet(np.ones(m), size=(2, m))

    def call(kernels, view):
        arguments = view(L), m, n, view(p), view(q), b
        few, all_, A, c, w = np.empty(3), np.empty(3), np.empty(m * n), np.empty(n), np.empty(n)
        kernels.spend(*arguments, view(w), view(few))
        kernels.evaluate(*arguments, view(A), view(c), view(w), view(all_))
        drawn, still = np.empty(2 * m), np.empty(2 * m)
        rest = view(T.reshape(-1)), m * m
        good = kernels.follow(view(p), m, n, view(P.reshape(-1)), n - 1, *rest, view(drawn))
        kernels.follow(view(p), m, n, view(few), -1, *rest, view(still))
        never = kernels.follow(view(p), m, n, view(np.zeros(m * n)), 0, *rest, view(np.empty(2 * m)))
        return few, all_, good, never, drawn[:m], still[:m]

    few, all_, good, never, drawn, still = assert_same(call)
    assert few[:2].tolist() == all_[:2].tolist()
    assert few[2] == pytest.approx(all_[2], rel=1e-9, abs=1e-15)
    assert (good, never) == (1, 0)
    after = (p * P[:, -1] / (p @ P[:, -1])) @ T[1]
    assert drawn == pytest.approx(after, rel=1e-12)
    assert still == pytest.approx(p @ T[1], rel=1e-12)


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_kernels_of_kernels(m, n):
    """Kernel, rounding, information, cost, saturation."""
    rng, _, p, q, L, b = problem(m, n)
    near = np.tile(q, (m, 1)) * (1.0 + 1e-7 * rng.standard_normal((m, n)))

    def call(kernels, view):
        P, base, r, small, top = np.empty(m * n), np.zeros(m * n), np.empty(2), np.empty(2), np.empty(m * n)
        base[::n] = 1.0
        kernels.kernel(view(L), m, n, view(p), view(q), b, view(base), 0.25, view(P))
        kernels.information(view(P), m, n, view(p), view(r))
        rounded = near.reshape(-1).copy()
        kernels.whole(view(rounded), m, n)
        kernels.information(view(rounded), m, n, view(p), view(small))
        kernels.saturated(view(L), m, n, view(top))
        return P, r, rounded, small, top, kernels.mean_cost(view(L), m, n, view(p), view(P))

    P, _, rounded, *_ = assert_same(call)
    for kernel in (P, rounded):
        assert (np.rint(kernel * 2.0**53) == kernel * 2.0**53).all()
        assert all(sum(int(x * 2.0**53) for x in row) == 2**53 for row in kernel.reshape(m, n).tolist())


def use(monkeypatch, kernels, view):
    """Let the package run with these kernels."""
    users = [module for module in (solver, inverse, design, certificate) if hasattr(module, "kernels")]
    assert solver in users
    for module in users:
        monkeypatch.setattr(module, "kernels", kernels)
        monkeypatch.setattr(module, "view", view)


def solution(case, how=solver.minimise):
    """What the solver gives, or None where no kernel fits or this path leaves the case to another."""
    try:
        return how(case.cost, case.prior, case.budget)
    except InfeasibleError:
        return None


def assert_same_solution(a, b):
    for one, other in zip(a, b, strict=True):
        assert one is other is None or same_bits(one, other)


@pytest.mark.sample(default=8, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("family", FAMILIES)
def test_whole_solutions_have_the_same_bits(monkeypatch, family):
    """Every field of the solution, for every family of the fuzz."""
    cases = [random_case(np.random.default_rng([32, k]), family, most=9) for k in range(6)]
    usual = [solution(case) for case in cases]
    use(monkeypatch, PLAIN, memoryview)
    plain = [solution(case) for case in cases]
    assert any(found is not None for found in usual)
    for a, b in zip(usual, plain, strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert_same_solution(a, b)


def test_at_once_is_the_step_by_step_path():
    """The ordinary small problem in one call has the bits of the same problem in many calls."""
    count = 0
    for family in FAMILIES:
        for k in range(12):
            case = random_case(np.random.default_rng([33, k]), family, most=16)
            quick = solution(case, solver._at_once) if case.budget > 0.0 else None
            if quick is None:
                continue
            slow = solution(case, solver._step_by_step)
            assert slow is not None
            assert_same_solution(quick, slow)
            count += 1
    assert count > 80  # most are ordinary


@pytest.mark.parametrize(("m", "n"), [(6, 6), (12, 9), (9, 12), (32, 32)])
@pytest.mark.parametrize("seed", range(3))
def test_lapack_gives_the_same_answer(monkeypatch, m, n, seed):
    """The factor by LAPACK in place of the one in the kernels: distortion, bound and kernel agree."""
    case = exact_case(np.random.default_rng([34, m, n, seed]), m, n, 3)
    usual = solver._step_by_step(case.cost, case.prior, case.budget)
    use(monkeypatch, PLAIN, memoryview)
    monkeypatch.setattr(PLAIN, "SMALL", 4)
    calls = []
    dense = interior.Workspace._dense
    monkeypatch.setattr(interior.Workspace, "_dense", lambda self, solve: calls.append(solve) or dense(self, solve))
    other = solver._step_by_step(case.cost, case.prior, case.budget)
    assert {0, 1} <= set(calls)  # LAPACK it was
    assert other.excess == pytest.approx(usual.excess, rel=1e-9)
    assert other.bound == pytest.approx(usual.bound, rel=1e-9)
    assert np.abs(other.kernel - usual.kernel).max() < 1e-5


def test_sizes_around_the_change_of_method():
    """From 31 to 34 columns nothing shows of where LAPACK takes over: an idle column changes nothing."""
    case = exact_case(np.random.default_rng(35), 34, 31, 0)
    found = []
    for idle in range(4):
        extra = case.cost[:, :idle] + 1.0
        found.append(us.solve(np.hstack([case.cost, extra]), prior=case.prior, leakage=case.budget).distortion)
    assert found == pytest.approx([case.optimum] * 4, rel=1e-9)


def test_column_generation_gives_the_answer_of_the_whole():
    """The same problem solved whole and on a growing set of columns."""
    for seed in range(3):
        case = exact_case(np.random.default_rng([36, seed]), 90, 80, 20)
        m, n = case.cost.shape
        space = interior.Workspace(m, n, case.prior, np.empty(m * n))
        r = np.zeros(5)
        backend.kernels.prepare(
            backend.view(case.cost.reshape(-1)), m, n, backend.view(case.prior), backend.view(space.L),
            backend.view(space.work), backend.view(r),
        )  # fmt: skip
        base = np.zeros(m * n)
        base[int(r[2]) :: n] = 1.0
        few, _ = generate(space, case.budget, int(r[2]), base)
        whole, _ = space.optimise(case.budget, int(r[2]), base)
        assert few.excess == pytest.approx(whole.excess, rel=1e-9)
        assert few.bound <= whole.excess * (1.0 + 1e-12)
        assert few.optimal


SCRIPT = """
import sys
import numpy as np
import understudy as us
from understudy.randomizer import solver as backend

sys.path.insert(0, sys.argv[1])
from randomizer_cases import FAMILIES, random_case

parts = []
for k, family in enumerate(FAMILIES):
    case = random_case(np.random.default_rng([37, k]), family, most=8)
    if family != "forbidden":
        solved = us.solve(case.cost, prior=case.prior, leakage=case.budget)
        parts += [solved.randomizer.kernel, solved.distortion, solved.lower_bound, solved.leakage, solved.slope]
demanded = us.solve(1.0 - np.eye(4), error_at_least=0.3), us.solve(1.0 - np.eye(4), distortion_at_most=0.3)
parts += [demanded[0].leakage, demanded[1].randomizer.kernel, demanded[1].leakage]
print(backend.compiled)
print(b"".join(np.ascontiguousarray(part, dtype=float).tobytes() for part in parts).hex())
"""


def public_bits(pure):
    """What the public names give in a process of its own, with the plain kernels or the usual ones."""
    environment = {**os.environ, "UNDERSTUDY_PURE": "1" if pure else "0"}
    environment["PYTHONPATH"] = str(Path(us.__file__).parents[1])
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[1] / "support")]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return answer.stdout.split()


@pytest.mark.long(seconds=3, reason="two processes, one with plain kernels")
def test_the_public_names_give_the_same_bits_without_the_compiled_kernels():
    """UNDERSTUDY_PURE=1 runs the plain kernels, and nothing in a design changes."""
    pure, usual = public_bits(pure=True), public_bits(pure=False)
    assert pure[0] == "False"
    assert usual[0] == str(backend.compiled or os.environ.get("UNDERSTUDY_PURE") == "1")
    assert pure[1] == usual[1]
    assert len(pure[1]) > 2_000
