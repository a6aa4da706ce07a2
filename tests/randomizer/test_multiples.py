"""Kernels in multiples of 1/N against every kernel there is: small lattices are looked through in the tests too.

The oracle writes the rules anew (`constraint_cases.broken`, in fractions; the information in 50 digits). Floats only
sort out what is far from keeping them.
"""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from constraint_cases import broken, look, random_case
from randomizer_cases import information_50

import understudy as us
from understudy.errors import InfeasibleError
from understudy.randomizer import multiples as multiples_every
from understudy.randomizer import multiples as multiples_lattice
from understudy.randomizer import multiples as multiples_whole
from understudy.randomizer.constrained_solver import Constrained
from understudy.randomizer.constraints import (
    ErrorAtLeast,
    Floor,
    Forbidden,
    LocalDP,
    MaximalLeakage,
    Multiples,
    PointwiseLeakage,
    TotalVariation,
)
from understudy.randomizer.multiples import silent
from understudy.randomizer.solver import information

CASES = 60
KINDS = "LMPTEF"
ASKED = [*itertools.combinations(KINDS, 1), *itertools.combinations(KINDS, 2)]


def hamming(m):
    return 1.0 - np.eye(m)


# --- the oracle -------------------------------------------------------------------------------------------------------


def every_kernel(of):
    """All kernels of two rows and three columns in counts."""
    rows = np.array([(a, b, of - a - b) for a in range(of + 1) for b in range(of + 1 - a)])
    return np.stack([np.repeat(rows, len(rows), axis=0), np.tile(rows, (len(rows), 1))], axis=1)


def hopeless(one, p, P):
    """Which kernels (B, 2, 3) break a constraint by more than a hair."""
    high, low, r = P.max(axis=1), P.min(axis=1), np.tensordot(P, p, axes=([1], [0]))
    return {
        "local_dp": lambda: (high - math.exp(one.epsilon) * low).max(axis=1),
        "maximal_leakage": lambda: high.sum(axis=1) - math.exp(one.nats),
        "pointwise_leakage": lambda: (high - math.exp(one.nats) * r).max(axis=1),
        "total_variation": lambda: np.abs(P[:, 0] - P[:, 1]).sum(axis=1) / 2.0 - one.at_most,
        "error_at_least": lambda: (p[:, None] * P).max(axis=1).sum(axis=1) - 1.0 + one.error,
        "floor": lambda: one.at_least - P.min(axis=(1, 2)),
    }[one.name]() > 1e-9


def least_cost(cost, p, asked, of, budget):
    """The optimum by looking at every kernel; None where none keeps everything."""
    P = every_kernel(of) / of
    for one in asked:
        P = P[~hopeless(one, p, P)]
    if budget is not None:
        r = np.tensordot(P, p, axes=([1], [0]))[:, None]
        ratio = np.where(P > 0.0, P, 1.0) / np.where((r > 0.0) & (P > 0.0), r, 1.0)
        P = P[(p[:, None] * P * np.log(ratio)).sum(axis=(1, 2)) <= budget + 1e-9]
    prices = (p[:, None] * cost * P).sum(axis=(1, 2))
    for at in np.argsort(prices, kind="stable"):
        kept = not any(broken(one, p, P[at]) for one in asked)
        if kept and (budget is None or max(information_50(p, P[at])) <= budget):
            return float(prices[at])
    return None


def a_constraint(rng, kind, p):
    """One of a kind, a quarter of them with a limit that kernels of the lattice lie on."""
    amount, round_one = float(np.exp(rng.uniform(-4.0, 0.4))), rng.random() < 0.25
    return {
        "L": lambda: LocalDP(math.log(3.0) if round_one else 2.0 * amount),
        "M": lambda: MaximalLeakage(math.log(1.25) if round_one else amount),
        "P": lambda: PointwiseLeakage(math.log(1.5) if round_one else amount),
        "T": lambda: TotalVariation(0.25 if round_one else min(1.0, amount)),
        "E": lambda: ErrorAtLeast(float(rng.uniform(0.0, 0.99) * (1.0 - p.max()))),
        "F": lambda: Floor(0.125 if round_one else float(rng.uniform(0.0, 0.25))),
    }[kind]()


def a_case(k, of):
    """Costs, prior, constraints and a budget or none."""
    rng = np.random.default_rng([7, k])
    p = np.array([0.5, 0.5]) if rng.random() < 0.2 else rng.dirichlet([3.0, 3.0]).round(3)
    cost = hamming(3)[:2] if rng.random() < 0.2 else rng.random((2, 3)).round(3)
    asked = [a_constraint(rng, kind, p) for kind in ASKED[k % len(ASKED)]]
    return cost, p, asked, of, float(rng.uniform(0.02, 0.6)) if rng.random() < 0.5 else None


def solved(cost, p, asked, of, budget):
    """What the package finds, or None."""
    try:
        return us.solve(cost, prior=p, constraints=[*asked, Multiples(of)], leakage=budget).distortion
    except InfeasibleError:
        return None


def apart(found, best):
    """How much more than the optimum was paid; infinite where only one of the two has an answer."""
    return 0.0 if found is best is None else math.inf if found is None or best is None else found - best


@pytest.mark.parametrize("of", [4, 8, 16])
def test_small_lattices_are_solved(of):
    """All measures alone and in pairs, with a budget and without: nothing on the lattice costs less."""
    cases = [a_case(k, of) for k in range(CASES // 3)]
    off = {k: apart(solved(*case), least_cost(*case)) for k, case in enumerate(cases)}
    assert {k: x for k, x in off.items() if abs(x) > 1e-12} == {}


def test_lattices_that_are_not_looked_through_are_solved():
    """314 721 kernels in multiples of 1/32: a mixed-integer program finds the best, with a budget too."""
    cases = [a_case(k, 32) for k in range(40, 52)]
    off = {k: apart(solved(*case), least_cost(*case)) for k, case in enumerate(cases)}
    assert {k: x for k, x in off.items() if abs(x) > 1e-12} == {}


def test_the_oracle_notices_a_kernel_that_is_not_the_best():
    """The answer that a search used to give here costs more than one column for all."""
    cost, p = np.array([[0.887, 0.212, 0.543], [0.168, 0.616, 0.902]]), np.array([0.685, 0.315])
    case = (cost, p, [LocalDP(1.307)], 4, None)
    assert apart(0.3490, least_cost(*case)) > 0.009
    assert least_cost(*case) == pytest.approx(0.33926, rel=1e-12)
    assert solved(*case) == pytest.approx(0.33926, rel=1e-12)
    assert apart(None, least_cost(*case)) == math.inf


# --- what holds of larger ones ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [None, 0.02])
@pytest.mark.parametrize("size", [(2, 6), (4, 5), (7, 9)])
def test_no_column_for_all_is_cheaper(size, budget):
    """One column for all tells nothing and keeps every measure: no answer costs more, however coarse the lattice."""
    for seed, of in enumerate((2, 64)):
        rng = np.random.default_rng([seed, *size])
        cost, p = rng.random(size), rng.dirichlet(np.full(size[0], 3.0))
        found = us.solve(cost, prior=p, leakage=budget, constraints=[LocalDP(0.7), TotalVariation(0.2), Multiples(of)])
        assert found.distortion <= (p @ cost).min() * (1.0 + 1e-14)
        assert not any(broken(one, p, found.randomizer.kernel) for one in found.constraints)


SQUARE = hamming(3) + 0.3 * np.random.default_rng(0).random((3, 3))
FINER = [
    (hamming(3), None, [LocalDP(1.0)], None),
    (hamming(3), None, [], 0.2),
    (SQUARE, [0.2, 0.3, 0.5], [MaximalLeakage(0.3), TotalVariation(0.3)], None),
    (SQUARE, [0.2, 0.3, 0.5], [PointwiseLeakage(0.4), Forbidden([(0, 2)])], 0.2),
]


@pytest.mark.parametrize("case", range(len(FINER)))
def test_a_finer_lattice_is_never_worse(case):
    """From 2^4 to 2^30 the gap does not grow, and in the end it is a few steps of the lattice."""
    cost, p, asked, budget = FINER[case]
    gaps = {
        k: us.solve(cost, prior=p, leakage=budget, constraints=[*asked, Multiples(2**k)]).gap
        for k in (4, 8, 10, 11, 20, 30)
    }
    assert all(finer <= coarser + 1e-12 for coarser, finer in itertools.pairwise(gaps.values()))
    assert all(gap <= 4.0 * 2.0**-k for k, gap in gaps.items() if k >= 8)


def test_the_same_question_has_the_same_answer():
    """Chance has a fixed seed, and effort is counted, not timed."""
    rng = np.random.default_rng(4)
    cost, p = rng.random((6, 7)), rng.dirichlet(np.full(6, 3.0))
    kernels = [us.solve(cost, prior=p, leakage=0.1, constraints=Multiples(64)).randomizer.kernel for _ in range(2)]
    assert (kernels[0] == kernels[1]).all()


def test_what_a_solver_prints_goes_nowhere():
    """From C, with its buffer, and from Python; what was held back before, and what comes after, is written."""
    program = """
import ctypes, os
from understudy.randomizer.multiples import silent
C = ctypes.CDLL(None)
C.printf(b"before ")
with silent():
    C.printf(b"HiGHS")
    os.write(1, b"HiGHS")
    print("HiGHS")
print("after")
os.close(1)
with silent():
    C.printf(b"HiGHS")
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (told.stdout, told.stderr) == ("before after\n", "")


def test_nothing_is_turned_away_where_other_threads_may_write(capfd):
    """The twin: with a second thread what is printed stays."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    with silent():
        os.write(1, b"data")
    done.set()
    other.join()
    assert capfd.readouterr().out == "data"


def test_nothing_is_printed(capfd):
    """By the solver neither, which prints from outside Python."""
    for k in range(4):  # at the first of them it would, with presolve
        case = random_case(np.random.default_rng([11, k]), "multiples", most=8)
        verdict, _ = look(case)
        assert verdict.wrong == []
    assert capfd.readouterr() == ("", "")


# --- parts ------------------------------------------------------------------------------------------------------------


def lattice_of(cost, p, asked, of, budget):
    problem = Constrained(np.asarray(cost, dtype=float), np.asarray(p), tuple(asked), budget or math.inf)
    return multiples_lattice.Lattice(problem, problem.solved(), of)


def test_floats_miss_no_kernel():
    """What keeps everything in whole numbers is never sorted out in floats, on the very limit neither."""
    asked = [LocalDP(math.log(3.0)), TotalVariation(0.5), MaximalLeakage(math.log(1.5)), PointwiseLeakage(0.6)]
    for one, budget in itertools.product([*asked, ErrorAtLeast(0.25)], (None, 0.1)):
        lattice = lattice_of(hamming(3)[:2], [0.5, 0.5], [one], 8, budget)
        many = every_kernel(8)
        likely = lattice.likely(many)
        assert [lattice.kept(K) for K in many[~likely]] == [False] * int((~likely).sum())
        assert 0 < likely.sum() < len(many)


@pytest.mark.parametrize("budget", [None, 0.05, 0.2])
def test_the_program_agrees_with_looking_everywhere(budget):
    """Where the solver says that it is done, the kernel costs what the best of all costs."""
    settled = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        lattice = lattice_of(rng.random((2, 3)), rng.dirichlet([3.0, 3.0]), [LocalDP(1.5)], 16, budget)
        found = multiples_whole.by_program(lattice, multiples_whole.Effort(None, 8, 60))
        if found.settled:
            settled += 1
            best = multiples_every.best_of_all(lattice)
            assert lattice.price(found.K) == pytest.approx(lattice.price(best), rel=1e-12)
    assert settled >= 6


def test_tangents_are_below_the_information():
    """For any kernels, and they touch it at the kernel they were taken of."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3))
    lattice = lattice_of(rng.random((3, 4)), p, [], 16, 0.1)
    tangents = multiples_whole.Tangents(lattice)
    kernels = rng.dirichlet(np.full(4, 0.4), size=(40, 3))
    for P in kernels[:5]:
        tangents.add(P)
    rows = np.stack([*tangents.rows.values()])
    for k, P in enumerate(kernels):
        below, told = (rows @ P).max(axis=0).sum(), information(p, np.ascontiguousarray(P).reshape(-1))
        assert below <= told + 1e-12
        assert k >= 5 or below >= told - 0.01


def test_all_parts_are_listed_once():
    """C(n + k - 1, k - 1) of them, each with its sum."""
    found = multiples_every._parts(6, 4)
    assert len({tuple(row) for row in found.tolist()}) == len(found) == math.comb(9, 3)
    assert (found.sum(axis=1) == 6).all()
    assert found.min() == 0
