"""Compiled and plain kernels give the same bits, function by function and through the public names."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from helpers import random_system, room, same_bits

import understudy as us
from understudy.laws.atoms import Channel, Rounding
from understudy.models.gauss_markov import System
from understudy.models.quantised import Quantised
from understudy.models.quantised_residual import USUAL
from understudy.transform import backend
from understudy.transform.kalman_pair import SETTLED, gains, scalar_gains
from understudy.transform.quantised import _NO_TABLE, _PAIRS, narrow, settled_filter

HERE = Path(backend.__file__).parent
PLAIN = backend.load_plain("kernels_plain_under_test", str(HERE / "_kernels.py"))
PLAIN_MANY = backend.load_plain("kernels_many_plain_under_test", str(HERE / "_kernels_many.py"))
PLAIN_HIDDEN = backend.load_plain("kernels_hidden_plain_under_test", str(HERE / "_kernels_hidden.py"))
PLAIN_ROUNDED = backend.load_plain("kernels_rounded_plain_under_test", str(HERE / "_kernels_rounded.py"))
SIZES = [(1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 3, 2), (4, 2, 3), (6, 6, 4)]


def test_the_compiled_kernels_run_where_there_is_a_compiler():
    """With a C compiler at hand an install without compiled kernels is a broken one."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is None or os.environ.get("UNDERSTUDY_PURE") == "1" or backend.compiled
    assert not PLAIN.ScalarStep.__module__.startswith("understudy")
    assert PLAIN.__file__.endswith(".py")


@pytest.mark.parametrize("name", ["kernels", "kernels_many", "kernels_hidden", "kernels_rounded"])
def test_the_compiled_kernels_are_not_older_than_their_source(name):
    """A stale build would silently run (a minute is allowed for installers)."""
    built = Path(getattr(backend, name).__file__)
    newest = max((HERE / f"_{name}{suffix}").stat().st_mtime for suffix in (".py", ".pxd"))
    assert built.suffix == ".py" or built.stat().st_mtime > newest - 60


def both(call):
    """The results of `call(kernels, view)` compiled and plain; the plain ones read memoryviews."""
    with np.errstate(all="raise"):
        return call(backend.kernels, lambda a: a), call(PLAIN, memoryview)


def both_many(call):
    """The same for the kernels of many sensors."""
    return call(backend.kernels_many, lambda a: a), call(PLAIN_MANY, memoryview)


def models(n, m, d):
    rng = np.random.default_rng([71, n, m, d])
    source = us.GaussMarkov(**random_system(rng, n, d, radius=0.8))
    target = us.GaussMarkov(**random_system(rng, m, d, radius=0.5))
    return rng, source, target


@pytest.mark.parametrize(("n", "m", "d"), SIZES)
def test_sizes(n, m, d):
    """Widths of rows and workspace agree."""
    for name in ("gain_width", "system_width", "workspace"):
        a, b = both(lambda k, _, name=name: getattr(k, name)(n, d))
        assert a == b


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize(("n", "m", "d"), SIZES)
def test_fill_table(n, m, d, varying):
    """The Riccati recursion, constant until it settles, and varying."""
    _, source, target = models(n, n, d)
    systems = [source.at(1), target.at(1)] * 30
    flat = np.concatenate([s.row() for s in systems]) if varying else source.at(1).row()

    def call(kernels, view):
        P, table = source.cov0.flatten(), np.zeros(60 * kernels.gain_width(n, d))
        work = np.zeros(kernels.workspace(n, d))
        answer = kernels.fill_table(view(flat), varying, n, d, view(P), view(table), 0, 60, SETTLED, view(work))
        return answer, P, table

    (answer, P, table), (answer_plain, P_plain, table_plain) = both(call)
    assert tuple(answer) == tuple(answer_plain)
    assert same_bits(P, P_plain)
    assert same_bits(table, table_plain)
    assert answer[2] == 0


def test_fill_table_finds_a_bad_pivot():
    """A reading that is known beforehand stops both at the same row with the same pivot."""
    flat = System(
        np.zeros((1, 1)), np.zeros(1), np.zeros((1, 1)), np.ones((2, 1)), np.zeros(2), np.diag([1.0, 0.0])
    ).row()

    def call(kernels, view):
        table, work = np.zeros(5 * kernels.gain_width(1, 2)), np.zeros(kernels.workspace(1, 2))
        return kernels.fill_table(view(flat), False, 1, 2, view(np.zeros(1)), view(table), 0, 5, SETTLED, view(work))

    assert both(call) == ((0, False, 2), (0, False, 2))


def start(model, sensors=1):
    """The mean, with room behind it for the reading or the scores."""
    return np.concatenate((np.repeat(model.mean0, sensors), np.zeros(model.dim * sensors)))


@pytest.mark.parametrize("stop_at", [None, 37])
@pytest.mark.parametrize(("n", "m", "d"), SIZES)
def test_run(n, m, d, stop_at):
    """The general loop, from a row in the middle, up to the end or the first reading that is not finite."""
    rng, source, target = models(n, m, d)
    y = rng.standard_normal(60 * d)
    if stop_at is not None:
        y[stop_at * d] = np.nan
    a, b = gains(source).flat, gains(target).flat

    def call(kernels, view):
        out, x, xt, w = np.zeros(60 * d), start(source), start(target), np.zeros(100)
        done = kernels.run(view(y), view(out), 2, 60, d, view(a), n, view(x), view(b), m, view(xt), 2, view(w))
        return done, out, x, xt

    for compiled, plain in zip(*both(call), strict=True):
        assert same_bits(compiled, plain)


def scalar_start(model):
    """The predicted first reading."""
    return float((model.C @ (model.A @ model.mean0 + model.b) + model.d)[0])


def test_fill_scalar():
    """The scalar Riccati recursion, until it settles; and a system without any noise."""
    _, source, _ = models(1, 1, 1)

    def call(kernels, view):
        table = np.zeros(60 * 9)
        answer = kernels.fill_scalar(view(source.row(1)), 2.5, view(table), 0, 60, SETTLED)
        silent = kernels.fill_scalar(
            view(np.array([0.5, 0.0, 0.0, 1.0, 0.0, 0.0])), 0.0, view(table[9:]), 0, 5, SETTLED
        )
        return np.array(answer), np.array(silent), table

    for compiled, plain in zip(*both(call), strict=True):
        assert same_bits(compiled, plain)
    assert both(call)[0][0][1]
    assert both(call)[0][1].tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("shift", [0.0, 1.5 * 2.0**52 * 2.0**-11])
@pytest.mark.parametrize("stop_at", [None, 0, 37])
def test_run_scalar(stop_at, shift):
    """The scalar loop has the bits of the plain one, and agrees with the general loop; a shift rounds its output."""
    rng, source, target = models(1, 1, 1)
    y = rng.standard_normal(60)
    if stop_at is not None:
        y[stop_at] = np.inf
    a, b = scalar_gains(source).flat, scalar_gains(target).flat

    def call(kernels, view, shift=shift):
        out, q, qt = np.zeros(60), scalar_start(source), scalar_start(target)
        done, q, qt, overflow = kernels.run_scalar(view(y), view(out), 0, 60, view(a), q, view(b), qt, 0, shift)
        assert overflow == 0.0
        return np.array([done]), out, np.array([q]), np.array([qt])

    for compiled, plain in zip(*both(call), strict=True):
        assert same_bits(compiled, plain)
    done, out, *after = call(backend.kernels, lambda array: array)
    general, x, xt = np.zeros(60), start(source), start(target)
    rows = backend.kernels.run(
        y, general, 0, 60, 1, gains(source).flat, 1, x, gains(target).flat, 1, xt, 0, np.zeros(9)
    )
    assert rows == done[0]
    _, exact, *unrounded = call(backend.kernels, lambda array: array, 0.0)
    assert np.max(np.abs(exact - general)) < 1e-12
    assert same_bits(out, np.rint(exact * 2.0**11) / 2.0**11 + 0.0 if shift else exact)
    # the recursion goes on unrounded
    for mine, theirs in zip(after, unrounded, strict=True):
        assert same_bits(mine, theirs)


def test_run_scalar_tells_of_outputs_that_a_shift_does_not_round():
    """After outputs of 2^51 steps or more, on either side, the overflow is NaN; bits are the same both ways."""
    _, source, target = models(1, 1, 1)
    y = np.random.default_rng(76).standard_normal(60)
    a, b = scalar_gains(source).flat, scalar_gains(target).flat
    plain_out = np.zeros(60)
    PLAIN.run_scalar(y, plain_out, 0, 60, a, scalar_start(source), b, scalar_start(target), 0, 0.0)
    step = 2.0 ** math.floor(math.log2(np.median(np.abs(plain_out)))) / 2.0**51  # about half of them are beyond it

    def call(kernels, view):
        out = np.zeros(60)
        found = kernels.run_scalar(
            view(y), view(out), 0, 60, view(a), scalar_start(source), view(b), scalar_start(target), 0,
            1.5 * 2.0**52 * step,
        )  # fmt: skip
        return np.array(found), out

    compiled, plain = both(call)
    for mine, theirs in zip(compiled, plain, strict=True):
        assert same_bits(np.asarray(mine, dtype=float), np.asarray(theirs, dtype=float))
    assert 0 < (np.abs(plain_out) >= 2.0**51 * step).sum() < 60
    assert np.isnan(compiled[0][3])
    near = np.abs(plain_out) < 0.999 * 2.0**51 * step
    assert same_bits(compiled[1][near], np.rint(plain_out[near] / step) * step + 0.0)


def odd_numbers(step):
    """Readings where rounding to a step may go wrong: halves, zeros, gaps, and many steps, either sign."""
    many = [2.0**e + f for e in (50, 51, 52, 53) for f in (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5)]
    few = [k + f for k in range(4) for f in (0.0, 0.25, 0.5, 0.75)]
    k = np.array([*few, *many, 1e300, np.inf])
    y = np.concatenate((k, -k, np.random.default_rng(77).standard_normal(50) * 1e4)) * step
    return np.concatenate((y, [np.nan, -0.0, 0.0, 5e-324, -5e-324]))


STEPS = {  # (n, m), the most steps that are counted, the shift
    "2^-11": (1.0, 2048.0, 2.0**52, 1.5 * 2.0**41),
    "4": (4.0, 1.0, 2.0**52, 1.5 * 2.0**54),
    "2^-11, without a shift": (1.0, 2048.0, 2.0**52, 0.0),
    "0.01": (1.0, 100.0, 2.0**52, 0.0),
    "0.05": (1.0, 20.0, 2.0**52, 0.0),
    "1e-12": (1.0, 1e12, 2.0**52, 0.0),
    "500": (500.0, 1.0, float(2**52 // 500), 0.0),
}


@pytest.mark.parametrize("name", STEPS)
def test_rounding_to_a_lattice(name):
    """Number by number and all at once have the same bits, compiled and plain, and are those of exact arithmetic."""
    n, m, most, shift = STEPS[name]
    y = odd_numbers(n / m)

    def call(kernels, view):
        out = y.copy()
        kernels.round_to_lattice(view(out), m / n, n, m, most, shift)
        return (out,)

    (compiled,), (plain,) = both(call)
    assert same_bits(compiled, plain)
    one = np.array([PLAIN.rounded((t + shift) - shift, m / n, n, m, most) for t in y.tolist()])
    assert same_bits(compiled, one)  # inside half the shift it does no more than put it on and take it off
    gap = np.isnan(y)
    assert np.isnan(compiled[gap]).all()
    found = compiled[~gap]
    assert not (np.signbit(found) & (found == 0.0)).any()
    for t, out in zip(y[~gap].tolist(), found.tolist(), strict=True):
        steps = Fraction(out) * Fraction(m) / Fraction(n)
        k = round(steps)
        assert out == float(k * int(n)) / m  # the nearest double of a whole number of steps
        assert abs(k) <= most
        if abs(t) * m / n >= most:
            assert abs(k) == most
            continue
        # ties go to the even number; beyond 2^51 steps above zero putting the shift on rounds to two steps
        t_steps = Fraction(t * (m / n))
        assert abs(k - t_steps) <= (1 if shift and t_steps >= 2**51 else Fraction(1, 2))
        if not shift or abs(t_steps) < 2**51:
            assert k == round(t_steps)


def test_run_scalar_many():
    """Many scalar sensors: the bits of the plain loop, and of one sensor alone."""
    rng, source, target = models(1, 1, 1)
    y = rng.standard_normal(60 * 7)
    a, b = scalar_gains(source).flat, scalar_gains(target).flat

    def call(kernels, view):
        out, q, qt = np.zeros(60 * 7), np.full(7, scalar_start(source)), np.full(7, scalar_start(target))
        kernels.run_scalar_many(view(y), view(out), 60, 7, view(a), view(q), view(b), view(qt), 3)
        return out, q, qt

    for compiled, plain in zip(*both_many(call), strict=True):
        assert same_bits(compiled, plain)
    alone = np.zeros(60)
    one = np.ascontiguousarray(y.reshape(60, 7)[:, 4])
    backend.kernels.run_scalar(one, alone, 0, 60, a, scalar_start(source), b, scalar_start(target), 3, 0.0)
    assert same_bits(call(backend.kernels_many, lambda array: array)[0].reshape(60, 7)[:, 4], alone)


@pytest.mark.parametrize(("n", "m", "d"), SIZES)
def test_run_many(n, m, d):
    """Many vector sensors."""
    rng, source, target = models(n, m, d)
    N = 5
    y = rng.standard_normal(40 * d * N)
    a, b = gains(source).flat, gains(target).flat

    def call(kernels, view):
        out, x, xt = np.zeros(40 * d * N), start(source, N), start(target, N)
        w = np.zeros(N * (d + 1 + max(n, m)))
        kernels.run_many(view(y), view(out), 40, N, d, view(a), n, view(x), view(b), m, view(xt), 0, view(w))
        return out, x, xt

    for compiled, plain in zip(*both_many(call), strict=True):
        assert same_bits(compiled, plain)


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("jacobians", [False, True])
@pytest.mark.parametrize(("n", "m", "d"), SIZES)
def test_run_off_table(n, m, d, partial, jacobians):
    """Carried covariances: gaps, missing channels, Jacobians, and the return to the table."""
    rng, source, target = models(n, m, d)
    y = rng.standard_normal((80, d))
    y[rng.random(80) < 0.1] = np.nan
    y[:30][rng.random((30, d)) < 0.1] = np.nan
    y[30:] = rng.standard_normal((50, d))
    a, b = gains(source), gains(target)
    refs = (np.zeros(0), np.zeros(0)) if jacobians else (a.settled(), b.settled())
    which = np.zeros(1, dtype=np.intp)

    def call(kernels, view):
        out, scale = np.zeros(80 * d), np.zeros(80 if jacobians else 0)
        x, xt, P, Pt = start(source), start(target), source.cov0.flatten(), target.cov0.flatten()
        channels, w = np.zeros(d, dtype=np.intp), np.zeros(9000)
        answer = kernels.run_off_table(
            view(y.reshape(-1)), view(out), view(scale), 0, 80, d, partial,
            view(a.system), view(which), n, view(x), view(P), view(refs[0]),
            view(b.system), view(which), m, view(xt), view(Pt), view(refs[1]),
            view(channels), view(w),
        )  # fmt: skip
        return tuple(answer), out, scale, x, xt, P, Pt

    for compiled, plain in zip(*both(call), strict=True):
        assert same_bits(compiled, plain)


def test_scalar_step():
    """One reading at a time, and everything unusual to the slow path, with the same arguments."""
    rng, source, target = models(1, 1, 1)
    a, b = scalar_gains(source).flat, scalar_gains(target).flat
    frozen = max(scalar_gains(source).rows, scalar_gains(target).rows) - 1
    slow = []

    def call(kernels, view):
        step = kernels.ScalarStep(view(a), view(b), 1 << 62, frozen, lambda s, y: slow.append((s, y)) or (s, None)).step
        state, outs = (0, scalar_start(source), scalar_start(target)), []
        for y in [*rng_values, float("nan"), None, 3, float("inf")]:
            state, out = step(state, y)
            outs.append(out)
        step((1, 2.0, 3.0, 4.0, 5.0), 1.0)
        return state, outs

    rng_values = rng.standard_normal(60).tolist()
    compiled, plain = both(call)
    assert compiled == plain
    assert repr(slow[:5]) == repr(slow[5:])
    assert len(slow) == 10


# Hidden Markov models: exp, log and erfc of the C library, which Python's math calls too.


def both_hidden(call):
    """The same for the kernels of hidden Markov models."""
    return call(backend.kernels_hidden, lambda a: a), call(PLAIN_HIDDEN, memoryview)


def chain(S):
    """A transition matrix with zeros, and probabilities, one of them all but zero."""
    rng = np.random.default_rng([73, S])
    A = rng.dirichlet(np.full(S, 0.5), S)
    A[rng.random((S, S)) < 0.2] = 0.0
    A[:, 0] += 1e-3
    pi = rng.dirichlet(np.ones(S))
    pi[-1] = 1e-200
    return rng, (A / A.sum(axis=1, keepdims=True)).reshape(-1), pi / pi.sum()


@pytest.mark.parametrize(("d", "S"), [(1, 1), (1, 5), (3, 4)])
def test_hidden_scores(d, S):
    """The forward recursion and the tails: gaps, impossible readings, infinite scores, and sums that underflow."""
    rng, A, pi = chain(S)
    Z = 3.0 * rng.standard_normal((60, d, S))
    Z[7], Z[8, 0, 0], Z[9, 0, -1] = 45.0, -np.inf, np.inf
    Z[10] = -60.0 - np.arange(S)
    G = -0.5 * Z * Z
    G[10, 0, :-1] = -3000.0  # the rarest state is the only one left
    G[20], Z[20] = np.nan, np.nan
    G[50, d - 1] = -np.inf

    def call(kernels, view):
        p, W, out = pi.copy(), np.zeros(Z.size), np.zeros(60 * d)
        done = kernels.forward(view(G.reshape(-1)), 60, d, S, view(A), view(p), view(W), view(np.zeros(2 * S)))
        kernels.tails(view(W), view(Z.reshape(-1)), 50 * d, S, view(out))
        return np.array([done]), p, W[: 50 * d * S], out

    for compiled, plain in zip(*both_hidden(call), strict=True):
        assert same_bits(compiled, plain)
    assert both_hidden(call)[0][0] == (8 if S == 1 else 50)


@pytest.mark.parametrize(("d", "S"), [(1, 1), (1, 5), (3, 4)])
def test_hidden_values(d, S):
    """The inverse of a mixture inside the recursion, from the middle to scores of 200, and where it stops."""
    rng, A, pi = chain(S)
    z = rng.standard_normal((60, d))
    z[10], z[20:23] = np.nan, np.nan
    z[30:33, 0] = [-9.0, 12.0, 30.0] if d > 1 else [-9.0, 45.0, -200.0]
    z[50, 0] = 40.0 if d > 1 else 1e200
    M, L = 5.0 * rng.standard_normal((S, d)), np.tril(rng.standard_normal((S, d, d)))
    L[:, range(d), range(d)] = 10.0 ** rng.uniform(-4, 1, (S, d))
    H = np.log(L[:, range(d), range(d)])

    def call(kernels, view):
        p, out, work = pi.copy(), np.zeros(60 * d), np.zeros(S * (4 + d))
        laws = [view(np.ascontiguousarray(x).reshape(-1)) for x in (M, L, H)]
        done = kernels.gaussian_values(view(z.reshape(-1)), view(out), 60, d, S, view(A), view(p), *laws, view(work))
        return np.array([done]), p, out

    for compiled, plain in zip(*both_hidden(call), strict=True):
        assert same_bits(compiled, plain)
    assert both_hidden(call)[0][0] == 50


def test_hidden_atoms():
    """Atoms from both ends, and a score at an edge, which is left to others."""
    rng, A, pi = chain(4)
    P = rng.dirichlet(np.full(9, 0.5), 4).T
    z = rng.standard_normal(60)
    z[10], z[50] = np.nan, 50.0

    def call(kernels, view):
        p, out = pi.copy(), np.zeros(60)
        tables = [view(np.ascontiguousarray(x).reshape(-1)) for x in (P, np.log(P), 5.0 * np.arange(9))]
        done = kernels.atom_values(view(z), view(out), 60, 4, 9, view(A), view(p), *tables, view(np.zeros(4)))
        return np.array([done]), p, out

    for compiled, plain in zip(*both_hidden(call), strict=True):
        assert same_bits(compiled, plain)
    assert both_hidden(call)[0][0] == 50


# Rounded readings: the same library functions.


def both_rounded(call):
    """The same for the kernels of rounded readings."""
    return call(backend.kernels_rounded, lambda a: a), call(PLAIN_ROUNDED, memoryview)


def rounded_data(linear, grid, T=80):
    """Readings of the model on its grid, one of them missing and two far out, and uniforms."""
    rng = np.random.default_rng(74)
    Y = grid.round(us.colour(rng.standard_normal((T, grid.dim)), linear))
    Y[11] = np.nan
    Y[30] += 12 * max(channel.step for channel in grid.channels)
    flat = np.array([entry for channel in grid.channels for entry in channel])
    return np.ascontiguousarray(Y).reshape(-1), rng.random(Y.size), flat


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("step", [0.05, 1.5])
def test_run_cells(n, d, step):
    """Matched moments: narrow cells and wide, an end, a gap, and stopping where a cell is too far."""
    linear = us.GaussMarkov(**random_system(np.random.default_rng([75, n, d]), n, d))
    grid = Rounding(d, step, low=-step * 40)
    y, v, flat = rounded_data(linear, grid)

    def call(kernels, view):
        x, P, out = linear.mean0.copy(), linear.cov0.flatten(), np.zeros(y.size)
        w, r = np.zeros((n + d) * (n + d + 2) + n * n), np.zeros(3)
        stop, why = kernels.run_cells(
            view(y), view(v), view(out), 0, y.size // d, n, d, view(linear.row(1)), 0, view(flat),
            view(x), view(P), view(_PAIRS), view(w), view(r),
        )  # fmt: skip
        return np.array([stop, why]), out, x, P

    for compiled, plain in zip(*both_rounded(call), strict=True):
        assert same_bits(compiled, plain)


@pytest.mark.parametrize("step", [0.01, 0.2, 1.5])
def test_run_line(step):
    """One state, with the polynomials of narrow cells and without, and their scores."""
    linear = room(1, mean0=200.0)
    high = step * round(200.0 / step + 20)
    y, v, flat = rounded_data(linear, Rounding(1, step, high=high))
    y = np.minimum(y, flat[3])
    tables = narrow(*settled_filter(linear, step).g)
    assert (tables is None, tables is not None and tables.short) == (step > 1.0, step < 0.1)
    moments = _NO_TABLE if tables is None else tables.moments

    def call(kernels, view):
        E, D, out, r = np.zeros(y.size), np.zeros(y.size), np.zeros(y.size), np.zeros(3)
        stop, why, x, P = kernels.run_line(
            view(y), view(v), view(E), view(D), 0, y.size, view(linear.row(1)), view(flat), 200.0, 1.0,
            view(moments), view(_PAIRS), view(r),
        )  # fmt: skip
        if tables is not None:
            scores = kernels.line_scores_short if tables.short else kernels.line_scores
            scores(view(E), view(D), view(v), view(out), stop, 0.5 * step, view(tables.scores))
        return np.array([stop, why]), E, D, out, np.array([x, P])

    for compiled, plain in zip(*both_rounded(call), strict=True):
        assert same_bits(compiled, plain)


@pytest.mark.parametrize("far", [None, 50])
def test_run_lanes(far):
    """Eight stretches at once, with wide cells, gaps and an end of the range among them; with a far one it gives up."""
    linear, step, length = room(1, mean0=200.0), 0.1, 30
    y, v, flat = rounded_data(linear, Rounding(1, step, high=201.5), T=8 * length + 7)
    y = np.minimum(y, flat[3])
    y[[14, 40, 77]] = flat[3], np.nan, 198.5
    if far is not None:
        y[far] = 300.0
    tables = narrow(*settled_filter(linear, step).g)

    def call(kernels, view):
        E, D, states = np.zeros(y.size), np.zeros(y.size), np.zeros(33)
        states[:8], states[8:16] = 200.0 + 0.1 * np.arange(8.0), 0.06
        kernels.run_lanes(
            view(y), view(v), view(E), view(D), 5, length, view(linear.row(1)), view(flat), view(states),
            view(tables.moments), view(_PAIRS), view(np.zeros(3)),
        )  # fmt: skip
        return E, D, states

    compiled, plain = both_rounded(call)
    for a, b in zip(compiled, plain, strict=True):
        assert same_bits(a, b)
    assert compiled[2][32] == (far is None)
    if far is None:
        # each stretch is what `run_line` makes of it
        E, D = np.zeros(y.size), np.zeros(y.size)
        for j, (x, P) in enumerate(compiled[2][:16].reshape(2, 8).T.tolist()):
            first = 5 + j * length
            *_, x, P = backend.kernels_rounded.run_line(
                y, v, E, D, first, first + length, linear.row(1), flat, x, P, tables.moments, _PAIRS, np.zeros(3)
            )
            assert (x, P) == (compiled[2][16 + j], compiled[2][24 + j])
        assert same_bits(E, compiled[0])
        assert same_bits(D, compiled[1])


def test_round_all():
    """Rounding in place is numpy's, halves to even, NaN and numbers without a fraction included."""
    halves = np.arange(-20.5, 20.5) * 0.1 + 0.05
    odd = [np.nan, -0.0, 1e15, 2.0**51 * 0.1 + 0.05, -1e300]
    y = np.concatenate((halves, odd, 3.0 + np.random.default_rng(9).normal(size=50)))

    def call(kernels, view):
        out = y.copy()
        kernels.round_all(view(out), out.size, 0.1, 0.05)
        return (out,)

    (compiled,), (plain,) = both_rounded(call)
    assert same_bits(compiled, plain)
    assert same_bits(compiled, Channel(0.1, 0.05, -math.inf, math.inf).round(y))


@pytest.mark.parametrize("step", [0.5, 4.0])
def test_run_points(step):
    """Point masses, from a state that has some, up to a gap."""
    linear = room(1, mean0=200.0)
    y, v, flat = rounded_data(linear, Rounding(1, step))
    model = us_quantised(linear, step)
    known = model.update(model.start(), float(y[0]))
    y = y[1:]

    def call(kernels, view):
        W, U, out = np.zeros(4000), np.zeros(4000), np.zeros(y.size)
        W[: known.weights.size] = known.weights
        state = np.array([known.points[0], known.spacing, known.mean.item(), known.cov.item(), known.weights.size])
        stop, why = kernels.run_points(
            view(y), view(v), view(out), 0, y.size, view(linear.row(1)), 0, view(flat),
            view(np.array(USUAL, dtype=float)), view(state), view(W), view(U),
        )  # fmt: skip
        return np.array([stop, why]), out, state, W

    for compiled, plain in zip(*both_rounded(call), strict=True):
        assert same_bits(compiled, plain)
    assert both_rounded(call)[0][0].tolist() == [10, PLAIN_ROUNDED.FAR]


def us_quantised(linear, step):
    """The rounded model whose filter the loops run."""
    return Quantised(linear, step, method="moments" if step < 0.4 else "auto")


SCRIPT = """
import sys
import numpy as np
import understudy as us
from understudy.models.gauss_markov import System
from understudy.models.hidden_markov import HiddenMarkov
from understudy.transform import backend
from understudy.transform import hidden_markov as hidden

sys.path.insert(0, sys.argv[1])
from helpers import random_system, room

rng = np.random.default_rng(72)
pair = [us.GaussMarkov(**random_system(rng, n, 2)) for n in (3, 2)]
Y, V = 100 + rng.standard_normal((80, 1, 4)), rng.standard_normal((80, 2))
Y[20:25, 0, 1], V[30:33], V[40, 1] = np.nan, np.nan, np.nan
scalar = us.Transform(room(1), room(0.4))
state, steps = scalar.start(), []
for y in Y[:, 0, 1].tolist():
    state, out = scalar.step(state, y)
    steps.append(out)
switched = us.Family(room, [0, 1]).along([0, 1] * 40)
states = HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], [us.Gaussian(100.0, 1.0), us.Gaussian(102.0, 4.0)])
scores, values = hidden.whitening(states), hidden.colouring(states)
parts = [
    us.disguise(Y, room(1), room(0.4)),
    us.disguise(V, *pair, partial=True), us.whiten(V, pair[0], partial=True),
    us.disguise(Y, switched, room(0)), np.array(steps), np.array(state), us.sample(pair[1], 50, n=3, rng=5),
    np.array([us.loglik(V, pair[0], partial=True)]), us.loglik(Y, room(1)),
    us.disguise(Y, room(1), room(0.4), resolution=2.0**-11),
    us.disguise(Y[:, 0, 1], room(1), room(0.4), resolution=0.5),
    us.disguise(V, *pair, partial=True, resolution=[0.01, 0.0]),
    scores.apply(scores.start(), Y[:, :, 1])[1], values.apply(values.start(), V[:, :1].copy())[1],
]
print(backend.compiled)
print(b"".join(np.ascontiguousarray(p).tobytes() for p in parts).hex())
"""


def public_bits(pure):
    """What the public names give in a process of its own, with the plain kernels or the usual ones."""
    environment = {**os.environ, "UNDERSTUDY_PURE": "1" if pure else "0"}
    environment["PYTHONPATH"] = str(Path(us.__file__).parents[1])
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[1] / "support")]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return answer.stdout.split()


def test_the_public_names_give_the_same_bits_without_the_compiled_kernels():
    """UNDERSTUDY_PURE=1 runs the plain kernels, and nothing in the output changes."""
    pure, usual = public_bits(pure=True), public_bits(pure=False)
    assert pure[0] == "False"
    assert usual[0] == str(backend.compiled or os.environ.get("UNDERSTUDY_PURE") == "1")
    assert pure[1] == usual[1]
    assert len(pure[1]) > 10_000


def test_plain_steps_accept_numpy_floats():
    """A numpy float is a reading like any other: the state stays plain numbers, for the plain kernels too."""
    table = scalar_gains(room(1)).flat
    step = PLAIN.ScalarStep(memoryview(table), memoryview(table), 1 << 62, 19, None).step
    state, out = step((0, 100.0, 100.0), np.float64(105.0))
    assert [type(entry) for entry in (*state, out)] == [int, float, float, float]


MIXED = np.array([[0.6, 0.0, 1.0], [0.3, 0.5, 3.0], [0.1, -1.0, 10.0]])


def test_probabilities_of_cells():
    """Narrow cells, wide ones, tails, ends without end, and cells of no width."""
    rng = np.random.default_rng(4)
    a = np.concatenate([rng.standard_normal(300) * 3.0, [-np.inf, 1.0, 2.0, 0.5, -np.inf]])
    b = a + np.concatenate([10.0 ** rng.uniform(-6.0, 1.0, 300), [0.0, np.inf, 0.0, np.inf, 0.0]])
    b[[300, 304]] = 1.5, np.inf
    v = rng.uniform(size=a.size)

    def call(kernels, view):
        out = [np.empty(a.size) for _ in range(3)]
        kernels.log_cells(view(a), view(b), view(v), *map(view, out), view(_PAIRS), a.size)
        return out

    one, other = both_rounded(call)
    assert all(same_bits(x, y) for x, y in zip(one, other, strict=True))
    assert 0 < np.isnan(one[0]).sum() < 200


@pytest.mark.parametrize("order", [1, 2])
def test_an_autoregression_on_a_grid(order):
    """Order one and two, with ends of the range."""
    e = np.random.default_rng(4).standard_normal(500) * 3.0
    system, grid = np.array([1.0, 0.5, 0.3][: order + 1]), np.array([0.5, 0.125, -3.875, 9.125])

    def call(kernels, view):
        out, past = np.empty(500), np.array([1.0, 2.0][:order])
        kernels.run_regression(view(e), view(out), 500, order, view(system), view(grid), view(past))
        return out, past

    one, other = both_rounded(call)
    assert same_bits(one[0], other[0])
    assert same_bits(one[1], other[1])
    assert set(np.unique(one[0])[[0, -1]].tolist()) == {-3.875, 9.125}


def test_a_guess_of_several_channels():
    """Interpolation in tables, feedback and rounding."""
    rng = np.random.default_rng(4)
    z, d = np.clip(2.0 * rng.standard_normal((300, 2)), -9.0, 9.0), 2
    knots = np.linspace(-5.0, 5.0, 41)
    tables = np.concatenate(
        [knots, np.sinh(knots), np.cosh(knots), 1.0 / np.cosh(knots), *[knots, knots], *np.ones((2, 41))]
    )
    system = np.concatenate([[1.0, -1.0], rng.uniform(-0.3, 0.3, 8)])
    root, grid = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([0.5, 0.0, -9.0, np.inf, 0.1, 0.05, -np.inf, np.inf])

    def call(kernels, view):
        out, past = np.empty(600), np.array([1.0, 2.0, 3.0, 4.0])
        kernels.guess_regression(
            view(z.ravel()), view(out), 300, 2, d, view(system), view(root.ravel()), view(grid), view(tables),
            view(backend.integers([41, 41])), view(past), view(np.empty(2)),
        )  # fmt: skip
        return out, past

    one, other = both_rounded(call)
    assert same_bits(one[0], other[0])
    assert same_bits(one[1], other[1])


def test_mixtures_of_normals():
    """Tails, and each part of the search for quantiles."""
    rng = np.random.default_rng(4)
    y, z = 20.0 * rng.standard_normal(200), np.clip(2.0 * rng.standard_normal(200), -6.0, 6.0)
    beyond = np.where(rng.uniform(size=600) < 0.5, np.nan, rng.standard_normal(600))
    sums = np.abs(rng.standard_normal(600)) + 0.1
    tail = rng.uniform(size=200)

    def call(kernels, view):
        parts, K = view(MIXED.ravel()), 3
        below, above, q = (np.empty(200) for _ in range(3))
        kernels.mixture_tails(view(y), view(below), view(above), 200, parts, K)
        kernels.upper_tails(view(z), view(q), 200)
        work, todo, out = np.empty(1000), backend.integers(range(200)), np.zeros(200)
        kernels.mixture_begin(view(z), view(beyond), view(work), 200, parts, K)
        begun, look, found = work.copy(), np.empty(200), np.empty(600)
        kernels.mixture_look(view(todo), view(look), view(found), 200, view(work), parts, K)
        left = kernels.mixture_move(
            view(todo), view(tail), view(z), view(sums), view(out), 200, view(work), 0.5
        )  # fmt: skip
        return [below, above, q, begun, look, found, work, out, todo[:left].astype(float)]

    one, other = both_rounded(call)
    assert all(same_bits(x, y) for x, y in zip(one, other, strict=True))
    assert 0 < one[-1].size < 200


@pytest.mark.parametrize("colour", [False, True])
def test_a_guess_of_a_filter(colour):
    """Readings to means, and scores to readings and means, with gaps and two gains."""
    rng = np.random.default_rng(4)
    linear, n, d = us.GaussMarkov(**random_system(rng, 3, 2)), 3, 2
    given, index = rng.standard_normal((200, 2)), backend.integers(rng.integers(-1, 2, 200))
    gains = np.concatenate([[1.0, 0.0, 0.5, 2.0], 0.1 * rng.standard_normal(6), [2.0, 0.0, -0.5, 1.0], np.zeros(6)])
    grid = np.array([0.5, 0.0, -9.0, np.inf, 0.1, 0.05, -np.inf, np.inf])

    def call(kernels, view):
        out, X = np.zeros(400), np.zeros(603)
        kernels.guess_filter(
            view(given.ravel()), view(index), view(out), view(X), 200, n, d, view(linear.row(1)), view(gains),
            view(grid), colour, view(np.empty(4)),
        )  # fmt: skip
        return out, X

    one, other = both_rounded(call)
    assert same_bits(one[0], other[0])
    assert same_bits(one[1], other[1])
