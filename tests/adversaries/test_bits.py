"""Re-simulation bit for bit, the count of readings against a search through all of them, and when there is nothing."""

from __future__ import annotations

from types import SimpleNamespace

import law_pairs
import numpy as np
import pytest
from adversary_cases import disguised, finds, halves, known_of, once
from helpers import room

import understudy as us
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.adversaries.learners.bayes import Exact, sequence_logs
from understudy.adversaries.learners.bits import Bits, BitsAttack, count_evidence, release_of
from understudy.adversaries.learners.inversion import DOUBLE, Form, Machine, Release, count_readings

DOUBLES = Release((0.0,))
SLOW = ("General", "Nonlinear")
QUICK = [
    pair
    for pair in (*law_pairs.PAIRS, *law_pairs.GENERAL)
    if not any(getattr(m, "atoms", False) or type(m).__name__ in SLOW for m in (pair.source, pair.target))
]


# The transformation again ----------------------------------------------------------------------------


@pytest.mark.parametrize("pair", QUICK, ids=[pair.name for pair in QUICK])
def test_it_is_the_disguise_bit_for_bit_and_undoes_it(pair):
    """Every pair of the tests of the output's law; going back lands within a millionth of a spread."""
    T, N = 6, 5
    Y = us.sample(pair.source, T, N, rng=3)
    machine = Machine(pair.source, pair.target, T)
    state = machine.start(N)
    for k, expected in enumerate(us.disguise(Y, pair.source, pair.target)):
        back = machine.back(k, state, expected)
        np.testing.assert_allclose(back, Y[k], rtol=1e-6, atol=1e-6)
        state, out = machine.step(k, state, Y[k])
        assert out.tobytes() == expected.tobytes()


def test_gains_that_do_not_settle_are_refused():
    """A model whose gains never settle has no table for all readings."""
    drift = us.GaussMarkov(1.0, 1.0, 0.0, 1.0, mean0=0.0, cov0=1.0)
    family = us.Family({0: drift, 1: room(1)})
    known = Knowledge(family, (0,), np.ones((2, 1)), family.prior, None, None, None, None)
    cases = Cases(
        np.zeros((100_000, 1, 1)), np.zeros((100_000, 1), dtype=int), np.zeros((100_000, 1), dtype=int), 2, True
    )
    assert "settle" in Bits().objection(cases, known)


# Forms of numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [DOUBLE, Form("float32"), Form("decimal", 1000.0)])
def test_ordinals_count_the_numbers_of_a_form(form):
    """Neighbours differ by one, on both sides of zero, and a number comes back from its ordinal."""
    y = form.nearest(np.array([-300.25, -1.0, -0.125, 0.0, 0.5, 1.0, 999.0]))
    ordinals = form.ordinal(y)
    assert (np.diff(ordinals) > 0).all()
    assert (form.number(ordinals) == y).all()
    large = np.abs(y) >= 0.125
    step = form.number(ordinals + 1) - y
    # below a power of two the distance to the next number is that of the lower binade
    np.testing.assert_allclose(np.abs(step[large]), form.spacing(y)[large], rtol=0.51)
    assert (form.number(ordinals + 1) > y).all()


# Counting --------------------------------------------------------------------------------------------


def brute_force(source, target, out, release, around=3000):
    """How many doubles give each output, by trying all of them in the neighbourhood."""
    machine = Machine(source, target, 1)
    middle = DOUBLE.ordinal(machine.back(0, machine.start(out.size), out[None])[0])
    tried = DOUBLE.number(middle + np.arange(-around, around + 1)[:, None])
    made = machine.step(0, machine.start(tried.size), tried.reshape(1, -1))[1][0]
    return (release.round(made, 0).reshape(tried.shape) == out).sum(axis=0)


@pytest.mark.parametrize("step", [0.0, 2.0**-50, 2.0**-46, 3e-15])
def test_counts_are_those_of_a_search_through_all_readings(step):
    """N(3, 1.7^2) as N(0, 1): doubles, fine steps, coarser ones, and a step that is no power of two."""
    source, target = us.IID(us.Gaussian(3.0, 1.7**2)), us.IID(us.Gaussian(0.0, 1.0))
    release = Release((step,))
    rng = np.random.default_rng(7)
    out = us.disguise(3.0 + 1.7 * rng.standard_normal((1, 1, 300)), source, target)[0, 0]
    out = release.round(out, 0)
    out = out[np.abs(3.0 + 1.7 * out) > 0.5]  # nearer to zero there are more doubles than are tried
    machine = Machine(source, target, 1)
    _, found = count_readings(machine, 0, machine.start(out.size), out[None], release, reach=4)
    behind = release.cell(out, 0) * 1.7 / np.spacing(np.abs(3.0 + 1.7 * out)) * release.share(out, 0)
    counts = brute_force(source, target, out, release)
    assert (counts > 0).all()
    missed = np.abs(found[0, 0] * behind - counts)
    # doubles: exactly. Wide cells end where several readings give one double, and one of these may lie too far out
    assert (missed < 0.01).mean() >= (1.0 if step == 0.0 else 0.9)
    assert (missed <= 0.12 * counts + 0.01).all()


def test_an_output_that_no_reading_gives_rules_the_pair_out():
    """Standard normals as if they were a room at 200: one in hundreds is possible, and the count of others is 0."""
    source, target = us.IID(us.Gaussian(200.0, 1.0)), us.IID(us.Gaussian(0.0, 1.0))
    out = np.random.default_rng(1).standard_normal((1, 400))
    machine = Machine(source, target, 1)
    _, found = count_readings(machine, 0, machine.start(400), out, DOUBLES)
    assert (found[0] == 0.0).mean() > 0.9
    assert (brute_force(source, target, out[0], DOUBLES, 50) == 0).mean() == (found[0] == 0.0).mean()


def test_a_coarse_step_says_nothing_at_all():
    """From 2^-12 on every count is beyond what is counted: zero nats, for each of both kinds."""
    out = us.disguise(us.sample(room(1), 20, 30, rng=1), room(1), room(0))
    machine = Machine(room(1), room(0), 20)
    told = count_evidence(machine, np.rint(out * 4096) / 4096, Release((2.0**-12,)), DOUBLE, 20)
    assert (told == 0.0).all()
    assert (count_evidence(machine, out, DOUBLES, DOUBLE, 20)[0] != 0.0).any()


# The adversary ---------------------------------------------------------------------------------------


def pseudo_zero(**changes):
    """Two rooms that are both played as the first."""
    family = us.Family(room, values=[0, 1])
    given = {"transitions": None, "decision_every": None, "grid": None, "design": None, **changes}
    return Knowledge(family, (0,), np.ones((2, 1)), family.prior, **given)


def as_zero(T, N, seed=1):
    """Outputs of both rooms as the first."""
    rng = np.random.default_rng(seed)
    parts = [us.disguise(us.sample(room(v), T, N, rng=rng), room(v), room(0)) for v in (0, 1)]
    order = rng.permutation(2 * N)
    return np.concatenate(parts, axis=2)[:, :, order], np.repeat([0, 1], N)[order]


def test_on_a_lattice_it_is_the_exact_adversary():
    """Nothing is added to Bayes' rule, and nothing is learned that is not there."""
    design = us.design(us.Family(room, values=[0, 1]), leakage=0.3, horizon=20, distortion="mae")
    cases = disguised(design, 20, 400, np.random.default_rng(1), lambda Y, i, j, rng: np.rint(
        us.disguise(Y, room(design.values[i]), room(design.pseudo[j])) * 4096) / 4096)  # fmt: skip
    learn, judge = halves(cases)
    said = [
        learner.learn(learn, known_of(design), np.random.default_rng(0)).logits(judge) for learner in (Bits(), Exact())
    ]
    np.testing.assert_allclose(said[0], said[1], atol=1e-9)


def test_the_step_is_the_designs_or_is_found():
    """A design that has a resolution is believed, if its outputs have it; one for all channels serves each."""
    Y = np.round(np.random.default_rng(1).normal(size=(50, 2, 3)), 3)
    assert release_of(Y).steps == (0.001, 0.001)
    assert release_of(np.round(Y), SimpleNamespace(resolution=(0.25, 0.5))).steps == (0.25, 0.5)
    assert release_of(np.round(Y), SimpleNamespace(resolution=0.25)).steps == (0.25, 0.25)
    assert release_of(Y, SimpleNamespace(resolution=0.25)).steps == (0.001, 0.001)
    assert release_of(np.full((3, 1, 2), np.nan)).steps == (0.0,)


def test_gaps_and_padding_do_not_stop_it():
    """A fifth of the sequences ends early, a fifth has a gap: the first readings are enough."""
    out, theta = as_zero(120, 100)
    out[80:, :, ::5] = np.nan
    out[90, :, 1::5] = np.nan
    assert finds(Bits(), once(out, theta, 2), pseudo_zero())


def test_of_slow_models_only_the_first_sequences_are_looked_at(monkeypatch):
    """What cannot be afforded counts for nothing, and the rest is counted."""
    out, theta = as_zero(40, 50)
    known = pseudo_zero()
    logs = sequence_logs(known.targets, out)
    whole = BitsAttack(known, DOUBLES).evidence(out, logs)
    assert (whole.exact[1] != 0.0).all()
    monkeypatch.setattr("understudy.adversaries.learners.bits._WORK", 400)
    few = BitsAttack(known, DOUBLES).evidence(out, logs)
    seen = np.flatnonzero(few.exact[1, 0] != 0.0)
    assert 0 < seen.size < 50
    assert seen.max() < 50
    assert theta.size == 100


def test_objections_say_why():
    """Raw readings, particles, and a theta that moves in models of two channels."""
    out, theta = as_zero(10, 4)
    cases = once(out, theta, 2)
    assert "not disguised" in Bits().objection(cases, pseudo_zero(raw=True))
    sensor = us.Nonlinear(
        move=lambda x: 0.9 * x, read=lambda x: x, process_noise=us.Gaussian(0.0, 1.0),
        reading_noise=us.Gaussian(0.0, 1.0), initial=us.Gaussian(0.0, 1.0), method="particles",
    )  # fmt: skip
    family = us.Family({0: sensor, 1: room(0)})
    known = Knowledge(family, (1,), np.ones((2, 1)), family.prior, None, None, None, None)
    assert "random numbers" in Bits().objection(cases, known)
    vector = us.IID(us.Gaussian(np.zeros(2), np.eye(2)))
    family = us.Family({0: vector, 1: us.IID(us.Gaussian(np.ones(2), np.eye(2)))})
    moving = Cases(np.zeros((5, 2, 3)), np.zeros((5, 3), dtype=int), np.zeros((5, 3), dtype=int), 2, once=False)
    known = Knowledge(family, (1,), np.ones((2, 1)), family.prior, np.eye(2), 5, None, None)
    assert Bits().objection(moving, known)
