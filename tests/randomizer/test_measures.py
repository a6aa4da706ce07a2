"""What a randomizer gives away, against oracles: 50 digits, enumeration, closed forms, and theorems."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from helpers import count_calls
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import DesignError
from understudy.randomizer import measures as us

LN2 = math.log(2.0)


def exact(p):
    return [mpmath.mpf(float(x)) for x in p]


def oracle_information(p, P):
    """The definition, with 50 digits, on the very floats; the prior is scaled to sum one."""
    with mpmath.workdps(50):
        p, P = exact(p), [exact(row) for row in P]
        p = [x / sum(p) for x in p]
        r = [sum(pi * row[j] for pi, row in zip(p, P, strict=True)) for j in range(len(P[0]))]
        return sum(
            pi * x * mpmath.log(x / rj)
            for pi, row in zip(p, P, strict=True)
            for x, rj in zip(row, r, strict=True)
            if pi and x
        )


def relative(x, oracle):
    with mpmath.workdps(50):
        return float(abs((mpmath.mpf(x) - oracle) / oracle)) if oracle else abs(x)


def kernel(rng, m, n, weight=1.0):
    P = rng.dirichlet(np.full(n, weight), size=m)
    return P / P.sum(axis=1, keepdims=True)


@st.composite
def channels(draw, most=5):
    """A prior, now and then with a zero, and a kernel, now and then with zeros."""
    m, n = draw(st.integers(1, most)), draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    P = kernel(rng, m, n, draw(st.sampled_from([0.1, 1.0, 10.0])))
    if n > 1 and draw(st.booleans()):
        P[rng.random((m, n)) < 0.3] = 0.0
        P[:, 0] += 0.01
        P /= P.sum(axis=1, keepdims=True)
    p = rng.dirichlet(np.ones(m))
    if m > 1 and draw(st.booleans()):
        p[0] = 0.0
        p /= p.sum()
    return p, P


def every_leakage(p, P):
    """The measures that must not grow when the draw is looked at through something else."""
    return {
        "mutual information": us.mutual_information(p, P),
        "success": 1.0 - us.bayes_error(p, P),
        "local dp": us.local_dp(P, p),
        "maximal": us.maximal_leakage(P, p),
        "pointwise": us.pointwise_maximal_leakage(p, P).worst,
        "min-entropy": us.min_entropy_leakage(p, P),
        "capacity": us.capacity(P, p).upper,
    }


# --- mutual information -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.02, 0.1, 0.3, 1.0, 10.0])
def test_information_is_right_to_rounding(weight):
    """Random kernels, from nearly deterministic to nearly flat, entries down to 1e-100: 2e-15 of 50 digits."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        m, n = rng.integers(2, 7, size=2)
        P, p = kernel(rng, m, n, weight), rng.dirichlet(np.ones(m))
        value = oracle_information(p, P)
        if value > 1e-30:
            assert relative(us.mutual_information(p, P), value) < 2e-15


@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-7, 1e-9, 1e-11, 1e-13, 1e-14])
def test_information_of_almost_equal_rows_keeps_its_digits(size):
    """Rows that differ by 1e-3 to 1e-14 tell 1e-7 to 1e-29 nats, to 15 digits."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        m, n = rng.integers(2, 7, size=2)
        P = kernel(rng, 1, n) * (1.0 + size * rng.standard_normal((m, n)))
        P /= P.sum(axis=1, keepdims=True)
        p = rng.dirichlet(np.ones(m))
        value = oracle_information(p, P)
        assert value < size**2 * 10
        assert relative(us.mutual_information(p, P), value) < 2e-15


def test_the_textbook_formula_would_fail_that_test():
    """Twin: sum p P ln(P / r) in floats loses every digit at 1e-10."""
    rng = np.random.default_rng(3)
    P = kernel(rng, 1, 4) * (1.0 + 1e-10 * rng.standard_normal((3, 4)))
    P /= P.sum(axis=1, keepdims=True)
    p = np.full(3, 1.0 / 3.0)
    textbook = float((p[:, None] * P * np.log(P / (p @ P))).sum())
    assert relative(textbook, oracle_information(p, P)) > 1e-2


def test_information_with_zeros_and_huge_ratios():
    """Zero entries, columns that one value alone reaches, priors of 1e-12, ratios of 1e200."""
    cases = [
        ([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]]),
        ([0.5, 0.5], [[0.8664, 0, 0, 0, 0, 0.1336], [0.1336, 0, 0, 0, 0, 0.8664]]),
        ([1e-12, 1.0 - 1e-12], [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]),
        ([0.3, 0.7], [[1.0, 1e-200], [1e-100, 1.0]]),
        ([0.2, 0.3, 0.5], [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5 - 1e-9, 1e-9]]),
    ]
    for p, P in cases:
        P = np.array(P) / np.sum(P, axis=1, keepdims=True)
        assert relative(us.mutual_information(p, P), oracle_information(p, P)) < 2e-15


@pytest.mark.parametrize("m", [1, 2, 3, 7])
def test_equal_rows_tell_exactly_nothing(m):
    """Zero, not almost zero: information, capacity, and every other leakage."""
    rng = np.random.default_rng(4)
    P = np.repeat(kernel(rng, 1, 9), m, axis=0)
    p = rng.dirichlet(np.ones(m))
    leakages = every_leakage(p, P)
    leakages.pop("success")
    assert leakages == dict.fromkeys(leakages, 0.0)
    assert us.bayes_error(p, P) == us.prior_error(p)


def test_priors_below_the_smallest_float_do_no_harm():
    """A prior of 1e-310 weighs nothing and raises nothing."""
    P = [[1.0, 0.0], [0.0, 1.0]]
    assert us.mutual_information([1.0, 1e-310], P) < 1e-300
    assert us.pointwise_maximal_leakage([1.0, 1e-310], P).worst > 700.0


def test_a_large_kernel_takes_no_more_calls_than_a_small_one():
    """A million entries by few operations on whole arrays, and the same as the straightforward sum to 1e-12."""
    rng = np.random.default_rng(5)
    P, p = kernel(rng, 1024, 1024), rng.dirichlet(np.ones(1024))
    small = kernel(rng, 4, 4), rng.dirichlet(np.ones(4))
    costs = [count_calls(lambda p=p, P=P: us.mutual_information(p, P)) for P, p in (small, (P, p))]
    assert costs[1] < costs[0] + 5000  # for a million entries
    value = us.mutual_information(p, P)
    assert value == pytest.approx(float((p[:, None] * P * np.log(P / (p @ P))).sum()), rel=1e-12)


# --- entropy and guesses ----------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6).filter(lambda x: sum(x) > 0.1), st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_entropy_is_right_to_rounding(weights, decades):
    """Against 50 digits, next to certainty too."""
    p = np.array(weights) / np.sum(weights)
    p[1:] *= 10.0**-decades
    p[0] = max(0.0, 1.0 - p[1:].sum())
    with mpmath.workdps(350):
        q = exact(p[p > 0.0])
        q = [x / sum(q) for x in q]
        oracle = -sum(x * mpmath.log(x) for x in q)
        error = abs(us.entropy(p) - oracle)
        # numbers below 1e-308 come in steps of 5e-324, which are no small part of them
        assert error <= 2e-15 * oracle + len(p) * 1e-323


@given(channels(most=4))
@settings(max_examples=60, deadline=None)
def test_no_guessing_rule_beats_the_bayes_error(channel):
    """Every rule that maps draws to guesses, enumerated: the best one errs exactly this often."""
    p, P = channel
    m, n = P.shape
    rules = itertools.product(range(m), repeat=n)
    best = max(math.fsum(p[rule[j]] * P[rule[j], j] for j in range(n)) for rule in rules)
    assert us.bayes_error(p, P) == pytest.approx(1.0 - best, abs=1e-14)
    assert us.min_entropy_leakage(p, P) == pytest.approx(math.log(best / p.max()), abs=1e-13)
    assert us.prior_error(p) == pytest.approx(1.0 - p.max(), abs=1e-15)


def test_small_errors_keep_their_digits():
    """An error rate of 1e-18 is no difference from one."""
    P = [[1.0, 1e-18], [1e-18, 1.0]]
    assert us.bayes_error([0.5, 0.5], P) == pytest.approx(1e-18, rel=1e-14)


def test_the_room():
    """The paper's room at I_0 = 0.3: six pseudo values of which two are drawn."""
    P = [[0.8664, 0, 0, 0, 0, 0.1336], [0.1336, 0, 0, 0, 0, 0.8664]]
    assert us.bayes_error([0.5, 0.5], P) == 0.1336
    assert us.mutual_information([0.5, 0.5], P) == pytest.approx(0.3, abs=1e-4)
    assert us.local_dp(P) == pytest.approx(math.log(0.8664 / 0.1336), rel=1e-15)


# --- Fano -------------------------------------------------------------------------------------------------------------


def oracle_fano(p, information):
    """Bisection of h(e) + e ln(m - 1) = H - I with 50 digits, or None if it is never reached."""
    with mpmath.workdps(50):
        q = [x for x in exact(p) if x]
        q = [x / sum(q) for x in q]
        m = len(q)
        left = -sum(x * mpmath.log(x) for x in q) - mpmath.mpf(information)
        if m == 1 or left <= 0:
            return mpmath.mpf(0)
        low, high = mpmath.mpf(0), 1 - mpmath.mpf(1) / m
        for _ in range(200):
            e = (low + high) / 2
            f = -e * mpmath.log(e) - (1 - e) * mpmath.log(1 - e) + e * mpmath.log(m - 1)
            low, high = (e, high) if f < left else (low, e)
        return high


@given(
    st.integers(1, 6), st.integers(0, 2**32), st.one_of(st.floats(0.0, 1.5), st.floats(-18, -1).map(lambda x: 10**x))
)
@settings(max_examples=80, deadline=None)
def test_sharp_fano_is_the_root_rounded_down(m, seed, information):
    """Never above the root, and below it by 1e-14 at most."""
    p = np.random.default_rng(seed).dirichlet(np.ones(m)) if seed % 3 else np.full(m, 1.0 / m)
    e = oracle_fano(p, information)
    with mpmath.workdps(50):
        assert us.fano(p, information) <= e + mpmath.mpf(10) ** -22  # the oracle's own error, where the curve is flat
    assert e - us.fano(p, information) < 1e-14


@pytest.mark.parametrize("e", [1e-6, 0.01, 0.1336, 0.3, 0.45, 0.4999])
def test_sharp_fano_of_two_values_inverts_the_entropy_of_a_coin(e):
    """With m = 2, h(e) = ln 2 - I."""
    h = us.entropy([e, 1.0 - e])
    assert us.fano([0.5, 0.5], LN2 - h) == pytest.approx(e, rel=1e-9)


def test_sharp_fano_at_its_ends():
    """Nothing told: as uncertain as before. All told: no error left."""
    for m in (2, 3, 5, 10):
        assert us.fano([1.0 / m] * m, 0.0) == pytest.approx(1.0 - 1.0 / m, rel=1e-15)
        assert us.fano([1.0 / m] * m, math.log(m)) == 0.0
    assert us.fano([0.9, 0.1], 0.0) == pytest.approx(0.1, rel=1e-13)
    assert us.fano([1.0], 0.0) == us.fano([1.0, 0.0], 0.0) == us.fano([0.5, 0.5], math.inf) == 0.0


def test_sharp_fano_is_met_by_a_symmetric_kernel():
    """Equal odds, one right answer, errors spread evenly: the best adversary errs just as often as Fano says."""
    e, m = 0.55, 5
    P = np.full((m, m), e / (m - 1))
    np.fill_diagonal(P, 1.0 - e)
    p = np.full(m, 1.0 / m)
    assert us.fano(p, us.mutual_information(p, P)) == pytest.approx(us.bayes_error(p, P), rel=1e-12)


def test_theorem_3_with_its_units_right():
    """Five levels of occupancy at 0.2 nats: 44.5 percent; in bits the same; two values: never positive."""
    H, m = math.log(5.0), 5
    bound = us.fano_paper([0.2] * 5, 0.2)
    assert bound == pytest.approx((H - 0.2 - LN2) / math.log(m), rel=1e-15)
    assert bound == pytest.approx((H / LN2 - 0.2 / LN2 - 1.0) / math.log2(m), rel=1e-14)
    assert 0.44 < bound < us.fano([0.2] * 5, 0.2)
    # as printed, with nats everywhere, it would claim less than it may
    assert (H - 0.2 - 1.0) / math.log(m) < bound
    for q in (0.5, 0.3, 0.01):
        assert us.fano_paper([q, 1.0 - q], 0.0) <= 0.0
    assert us.fano_paper([1.0], 0.0) == us.fano_paper([1.0, 0.0], 0.0) == -math.inf


# --- worst cases ------------------------------------------------------------------------------------------------------


@given(channels())
@settings(max_examples=60, deadline=None)
def test_worst_cases_by_enumeration(channel):
    """Ratios over all triples, maxima over all columns, straight from the definitions."""
    p, P = channel
    rows = P[p > 0.0]
    r = p @ P
    ratios = [
        math.inf if b == 0.0 else math.log(a / b)
        for j in range(P.shape[1])
        for a, b in itertools.product(rows[:, j], repeat=2)
        if a > 0.0
    ]
    assert us.local_dp(P, p) == pytest.approx(max(ratios), rel=1e-12, abs=1e-14)
    assert us.maximal_leakage(P, p) == pytest.approx(math.log(rows.max(axis=0).sum()), abs=1e-13)
    worst, per_draw = us.pointwise_maximal_leakage(p, P)
    assert not per_draw.flags.writeable
    for j in range(P.shape[1]):
        if r[j] > 0.0:
            assert per_draw[j] == pytest.approx(math.log(rows[:, j].max() / r[j]), abs=1e-12)
            # Bayes: the posterior over the prior, at its largest
            assert math.exp(per_draw[j]) == pytest.approx(max(P[i, j] / r[j] for i in np.flatnonzero(p)), rel=1e-12)
        else:
            assert math.isnan(per_draw[j])
    assert worst == np.nanmax(per_draw)


def test_no_fact_about_theta_gains_more_than_the_maximal_leakage():
    """Random facts U -> Theta -> draw, guessed best: the gain stays below, and one fact comes close."""
    rng = np.random.default_rng(6)
    P = kernel(rng, 4, 5)
    bound = us.maximal_leakage(P)
    gains = []
    for _ in range(300):
        p = rng.dirichlet(np.ones(4))
        K = rng.dirichlet(np.full(6, 0.2), size=4)  # Pr(U given Theta)
        joint = (p[:, None] * K).T @ P
        gains.append(math.log(joint.max(axis=0).sum() / joint.sum(axis=1).max()))
    assert max(gains) <= bound + 1e-12
    # Theta itself, at equal odds, attains it
    assert us.min_entropy_leakage(np.full(4, 0.25), P) == pytest.approx(bound, rel=1e-12)


def test_ratios_past_the_largest_float():
    """1 against 1e-320 is a finite epsilon."""
    P = [[1.0, 1e-320], [0.5, 0.5]]
    assert us.local_dp(P) == pytest.approx(math.log(0.5) - math.log(1e-320), rel=1e-12)


def test_worst_cases_of_almost_equal_rows_keep_their_digits():
    """Differences of 2^-40 are exact, and so are their logarithms."""
    e = 2.0**-40
    P = [[0.5 + e, 0.5 - e], [0.5, 0.5]]
    assert us.local_dp(P) == pytest.approx(2.0 * e, rel=1e-11)
    assert us.maximal_leakage(P) == pytest.approx(e, rel=1e-11)
    assert us.min_entropy_leakage([0.5, 0.5], P) == pytest.approx(e, rel=1e-11)
    assert us.pointwise_maximal_leakage([0.5, 0.5], P).worst == pytest.approx(e, rel=1e-11)
    assert us.capacity(P).upper == pytest.approx(e**2 / 2.0, rel=1e-10)


# --- capacity ---------------------------------------------------------------------------------------------------------


def h(e):
    return us.entropy([e, 1.0 - e])


@pytest.mark.parametrize("e", [1e-6, 0.01, 0.1336, 0.4, 0.4999])
def test_capacity_in_closed_form(e):
    """Symmetric, erasing and Z channels."""
    assert us.capacity([[1 - e, e], [e, 1 - e]]).upper == pytest.approx(LN2 - h(e), rel=1e-9, abs=1e-14)
    assert us.capacity([[1 - e, e, 0], [0, e, 1 - e]]).upper == pytest.approx((1 - e) * LN2, rel=1e-10)
    z = us.capacity([[1.0, 0.0], [e, 1 - e]])
    assert z.upper == pytest.approx(math.log1p((1 - e) * e ** (e / (1 - e))), rel=1e-10)


@pytest.mark.parametrize(("m", "n", "weight"), [(2, 6, 1.0), (7, 3, 1.0), (64, 64, 1.0), (64, 64, 0.05), (64, 5, 1.0)])
def test_capacity_is_certified(m, n, weight):
    """The odds returned leak upper - slack; the slack is 1e-10; no other odds leak more; a bounded number of calls."""
    rng = np.random.default_rng(7)
    P = kernel(rng, m, n, weight)
    upper, slack, odds = us.capacity(P)
    assert slack <= 1e-10 * upper
    assert us.mutual_information(odds, P) == pytest.approx(upper - slack, rel=1e-12)
    assert all(us.mutual_information(rng.dirichlet(np.full(m, a)), P) <= upper for a in (0.1, 1.0, 10.0))
    assert not odds.flags.writeable
    assert count_calls(lambda: us.capacity(P)) < 20_000


def test_capacity_of_almost_equal_rows():
    """A capacity of 1e-20 has its certificate too."""
    rng = np.random.default_rng(8)
    P = kernel(rng, 1, 5) * (1.0 + 1e-10 * rng.standard_normal((6, 5)))
    P /= P.sum(axis=1, keepdims=True)
    upper, slack, odds = us.capacity(P)
    assert 1e-22 < upper < 1e-19
    assert slack < 1e-10 * upper
    assert us.mutual_information(odds, P) <= upper


def test_capacity_stops_at_rounding():
    """Asked for more digits than there are, with rows that repeat, it returns what it has."""
    P = np.eye(6)[[0, 1, 1, 2, 2, 2]] * 0.9 + 0.1 / 6.0
    upper, slack, _ = us.capacity(P / P.sum(axis=1, keepdims=True), tolerance=0.0)
    assert 0.0 <= slack < 1e-14 * upper


@pytest.mark.long(seconds=1, reason="capacities of large kernels")
def test_capacity_of_many_values_is_still_a_bound():
    """Above 512 values simple steps are taken; cut short, the bound still holds."""
    rng = np.random.default_rng(9)
    P = kernel(rng, 520, 8, 0.3)
    upper, slack, odds = us.capacity(P)
    assert us.mutual_information(odds, P) == pytest.approx(upper - slack, rel=1e-9)
    assert us.mutual_information(rng.dirichlet(np.ones(520)), P) < upper
    assert slack < 1e-3 * upper


def test_capacity_of_many_values_that_all_can_be_told_apart():
    """Eight groups of very uneven size: simple steps that starve a group must not lose its share of the bound."""
    groups = np.repeat(np.arange(8), [513, 1, 1, 1, 1, 1, 1, 1])
    assert us.capacity(np.eye(8)[groups]).upper == pytest.approx(math.log(8.0), rel=1e-6)
    assert us.capacity(np.eye(8)[groups]).upper >= math.log(8.0) * (1.0 - 1e-14)


# --- theorems ---------------------------------------------------------------------------------------------------------


@given(channels())
@settings(max_examples=80, deadline=None)
def test_the_measures_stand_in_order(channel):
    """I <= capacity <= maximal <= pointwise <= epsilon; Fano as printed <= sharp <= exact; and the mean of factors."""
    p, P = channel
    information = us.mutual_information(p, P)
    pointwise = us.pointwise_maximal_leakage(p, P)
    maximal = us.maximal_leakage(P, p)
    slightly = 1e-12
    assert 0.0 <= information <= us.capacity(P, p).upper + slightly
    assert information <= us.entropy(p) + slightly
    assert us.capacity(P, p).upper <= maximal + slightly
    assert us.min_entropy_leakage(p, P) <= maximal + slightly
    assert maximal <= pointwise.worst + slightly
    assert pointwise.worst <= us.local_dp(P, p) + slightly
    assert us.fano_paper(p, information) <= us.fano(p, information) + slightly
    assert us.fano(p, information) <= us.bayes_error(p, P) + slightly
    assert us.bayes_error(p, P) <= us.prior_error(p) + slightly
    # E exp(pointwise) = exp(maximal)
    r = p @ P
    mean = math.fsum(r[r > 0.0] * np.exp(pointwise.per_draw[r > 0.0]))
    assert mean == pytest.approx(math.exp(maximal), rel=1e-11)


@given(channels(), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_looking_through_something_else_never_helps(channel, seed):
    """Data processing: a second random map after the draw raises no measure (the readings are one)."""
    p, P = channel
    rng = np.random.default_rng(seed)
    Q = P @ kernel(rng, P.shape[1], int(rng.integers(1, 6)), 0.3)
    Q /= Q.sum(axis=1, keepdims=True)
    before, after = every_leakage(p, P), every_leakage(p, Q)
    assert all(after[name] <= before[name] + 1e-11 for name in before), (before, after)


@given(channels(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_names_do_not_matter(channel, random):
    """Values and draws in another order: the same measures."""
    p, P = channel
    rows, columns = list(range(P.shape[0])), list(range(P.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    assert every_leakage(p[rows], P[rows][:, columns]) == pytest.approx(every_leakage(p, P), rel=1e-9, abs=1e-12)


@given(channels())
@settings(max_examples=40, deadline=None)
def test_values_that_cannot_occur_do_not_count(channel):
    """A row of prior zero changes nothing, whatever it holds; without a prior it counts."""
    p, P = channel
    row = np.eye(P.shape[1])[:1]
    more = every_leakage(np.append(p, 0.0), np.vstack([P, row]))
    assert more == pytest.approx(every_leakage(p, P), rel=1e-12, abs=1e-15)
    assert us.fano(np.append(p, 0.0), 0.1) == us.fano(p, 0.1)
    assert us.fano_paper(np.append(p, 0.0), 0.1) == us.fano_paper(p, 0.1)
    assert us.maximal_leakage(np.vstack([P, row])) >= us.maximal_leakage(P) - 1e-13
    assert us.capacity(np.vstack([P, row]), np.append(p, 0.0)).odds[-1] == 0.0


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "given", "words"),
    [
        ([0.5, 0.6], [[1.0], [1.0]], "sums to 1.1"),
        ([0.5, 0.5], [[1.0]], "2 values and the kernel 1 rows"),
        ([1.5, -0.5], [[1.0], [1.0]], "the entry -0.5"),
        ([1.0], [[math.nan]], "the entry nan"),
        ([1.0], [[0.5, 0.5 + 1e-9]], "row 0 of the kernel sums to 1.000000001"),
        ([1.0], [1.0], "must be a matrix"),
        ([[1.0]], [[1.0]], "must be a vector"),
        ([], [[1.0]], "must be a vector"),
        (["a"], [[1.0]], "must be a vector"),
        ([1.0], [[0.5, 0.5], [1.0]], "ragged"),
    ],
)
def test_what_is_not_a_probability_is_refused(prior, given, words):
    """The message names the value and the rule."""
    with pytest.raises(DesignError, match=words):
        us.mutual_information(prior, given)


@pytest.mark.parametrize("information", [-0.1, math.nan, "0.3", True, None])
def test_information_must_be_an_amount(information):
    """Negative amounts, NaN and words are refused."""
    with pytest.raises(DesignError, match="not negative"):
        us.fano([0.5, 0.5], information)


def test_inputs_are_left_alone():
    """Read-only arrays are welcome, and nothing is written to."""
    p, P = np.array([0.5, 0.5]), np.array([[0.7, 0.3], [0.2, 0.8]])
    p.flags.writeable = P.flags.writeable = False
    every_leakage(p, P)
    assert P.tolist() == [[0.7, 0.3], [0.2, 0.8]]
