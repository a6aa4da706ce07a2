"""A planted leak: the disguise as doubles, whose low-order bits tell the source. Its twin is rounded and tells nothing.

Theta is 0 or 1 with equal odds, and there is one pseudo value whatever theta is: the budget is zero. Theta 0 is the
source of a pair of models, theta 1 the target itself, and both are disguised as the target. Half of the sequences are
learned from. The number of right guesses about the others (`n` of them) is compared with the binomial law at 1/2: it
finds the leak if so many come by chance once in a million. The twin is the same output rounded to 2^-12.

All pairs of the tests of the output's law are here. What shows is the coarser lattice of readings that are larger than
their outputs. So these pairs tell nothing even as doubles, and their mirror images, with source and target exchanged,
tell it: everything that becomes a room at a level of some tens or hundreds from readings of a few units (AR(2) with
Student-t noise, a path of Markov models, mixtures, hidden Markov models, densities, nonlinear models), the Markov model
of small readings that becomes one of larger ones, and N(0, 1) as N(3, 1) or N(0, 1.7^2). A pair whose scales differ by
a power of two tells nothing either way: doubles are scaled to doubles. Of the two hidden Markov models, whose readings
are of one size, little is to be seen: 70 of 100 guesses are right after four readings of the mirror image, at a price
of milliseconds a reading, which a test cannot pay. Readings with atoms or a grid are not for this adversary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import law_pairs
import numpy as np
import pytest
import scipy.stats
from adversary_cases import ALPHA, audited, disguised, finds, guesses, known_of, once
from helpers import room
from learner_cases import chance_moving

import understudy as us
from understudy.adversaries.datasets import simulate
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.adversaries.learners.bits import Bits
from understudy.stream.release import Release

STEP = 2.0**-12


class Pair(NamedTuple):
    name: str
    source: object
    target: object
    T: int = 24
    N: int = 100
    """Readings, and sequences of each value."""

    @property
    def mirrored(self):
        return self._replace(name=f"{self.name}, mirrored", source=self.target, target=self.source)


def normal(mean, sd=1.0):
    return us.IID(us.Gaussian(mean, sd * sd))


# name: readings and sequences of each value, where it takes long or many are needed
SIZES = {
    "2 states as 4, d = 3": (40, 400),
    "independent components as Gauss-Markov, d = 3": (40, 400),
    "Markov, variance depends on the state": (4, 60),
    "AR(2) Student-t as Gauss-Markov": (8, 60),
    "vector AR(2) as vector AR(1) with Student-t noise": (6, 60),
    "mixture as Gauss-Markov": (3, 40),
    "mixture with a hole as Gauss-Markov": (3, 40),
    "Gaussian mixture as a copula, d = 2": (6, 60),
    "hidden Markov as Gauss-Markov": (3, 50),
    "hidden Markov, t and gamma, as hidden Markov": (1, 60),
    "density as Gauss-Markov": (1, 30),
    "Gauss-Markov as density": (1, 30),
    "nonlinear as Gauss-Markov": (1, 30),
}
LAWS = [
    Pair(pair.name, pair.source, pair.target, *SIZES.get(pair.name, (24, 100)))
    for pair in (*law_pairs.PAIRS, *law_pairs.GENERAL)
]
ATOMS = [
    pair for pair in LAWS if any(getattr(model, "atoms", False) for model in (pair.source, pair.target))
]  # a grid, or point masses
SMOOTH = [pair for pair in LAWS if pair not in ATOMS]
# from small readings to large ones: nothing is to be seen, but in the mirror
SILENT = {
    "Markov, variance depends on the state", "AR(2) Student-t as Gauss-Markov",
    "a path of Markov models as Gauss-Markov", "mixture as Gauss-Markov", "mixture with a hole as Gauss-Markov",
    "hidden Markov as Gauss-Markov", "density as Gauss-Markov", "nonlinear as Gauss-Markov",
}  # fmt: skip
OWN = [
    Pair("README room, 1 as 0", room(1), room(0), 150),
    Pair("N(3,1) as N(0,1)", normal(3.0), normal(0.0)),
    Pair("N(0,1.7^2) as N(0,1)", normal(0.0, 1.7), normal(0.0)),
    Pair("Student-t as another", us.IID(us.Scalar(scipy.stats.t(3, loc=9.0))), us.IID(us.Scalar(scipy.stats.t(5)))),
]
# readings and outputs are of one size, and quantiles are found by a slow search: too little in what a test can afford
ALIKE = {"hidden Markov, t and gamma, as hidden Markov"}
LEAKS = [*OWN, *(pair.mirrored if pair.name in SILENT else pair for pair in SMOOTH if pair.name not in ALIKE)]
NONE = [
    *(pair for pair in SMOOTH if pair.name in SILENT | ALIKE),
    Pair("N(0,1) as N(3,1)", normal(0.0), normal(3.0)),
    Pair("N(0,1) as N(0,1.7^2)", normal(0.0), normal(0.0, 1.7)),
    Pair("N(0,4) as N(0,1)", normal(0.0, 2.0), normal(0.0)),
    Pair("N(0,1) as N(0,4)", normal(0.0), normal(0.0, 2.0)),
]


def names(pairs):
    return [pair.name for pair in pairs]


def played(pair, rounded=False):
    """Outputs of both values, and what is known."""
    family = us.Family({0: pair.source, 1: pair.target})
    rng = np.random.default_rng(31)
    parts = [
        us.disguise(us.sample(model, pair.T, pair.N, rng=rng), model, pair.target)
        for model in (pair.source, pair.target)
    ]
    order = rng.permutation(2 * pair.N)
    out, theta = np.concatenate(parts, axis=2)[:, :, order], np.repeat([0, 1], pair.N)[order]
    out = np.rint(out / STEP) * STEP + 0.0 if rounded else out
    return once(out, theta, 2), Knowledge(family, (1,), np.ones((2, 1)), family.prior, None, None, None, None)


@pytest.mark.sample(default=8, seconds=20, reason="each pair of models is attacked twice")
@pytest.mark.parametrize("pair", LEAKS, ids=names(LEAKS))
def test_doubles_tell_the_source_and_a_step_hides_it(pair):
    """The leak is found at 1e-6, and its rounded twin is not."""
    assert finds(Bits(), *played(pair))
    assert not finds(Bits(), *played(pair, rounded=True))


@pytest.mark.parametrize("pair", NONE, ids=names(NONE))
def test_small_readings_made_large_and_scales_of_two_tell_nothing(pair):
    """Even doubles are not told apart there."""
    assert not finds(Bits(), *played(pair))


@pytest.mark.parametrize("pair", ATOMS, ids=names(ATOMS))
def test_readings_with_atoms_are_left_to_another(pair):
    """There is an objection that names the adversary for grids."""
    family = us.Family({0: pair.source, 1: pair.target})
    known = Knowledge(family, (1,), np.ones((2, 1)), family.prior, None, None, None, None)
    cases = once(np.zeros((3, 1, 4)), np.array([0, 1, 0, 1]), 2)
    assert "grid" in Bits().objection(cases, known)


# Other forms of readings -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "step", "hides"),
    [
        (lambda Y: Y.astype(np.float32).astype(float), 2.0**-20, False),
        (lambda Y: Y.astype(np.float32).astype(float), 2.0**-12, True),
        (lambda Y: np.round(Y, 6), 2.0**-26, False),
        (lambda Y: np.round(Y, 6), 2.0**-12, True),
    ],
    ids=["float32, 2^-20", "float32, 2^-12", "six decimals, 2^-26", "six decimals, 2^-12"],
)
def test_readings_of_a_coarser_form_need_a_coarser_step(form, step, hides):
    """Steps that hide doubles do not hide float32 or decimals: the form is found, and its numbers are counted."""
    rng = np.random.default_rng(5)
    parts = [us.disguise(form(us.sample(room(v), 150, 100, rng=rng)), room(v), room(0)) for v in (0, 1)]
    order = rng.permutation(200)
    out = np.rint(np.concatenate(parts, axis=2)[:, :, order] / step) * step + 0.0
    family = us.Family(room, values=[0, 1])
    known = Knowledge(family, (0,), np.ones((2, 1)), family.prior, None, None, None, None)
    assert finds(Bits(), once(out, np.repeat([0, 1], 100)[order], 2), known) != hides


# A whole design --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def design():
    """That of the README."""
    family = us.Family(room, values=[0, 1])
    return us.design(family, pseudo=[0, 0.2, 0.4, 0.6, 0.8, 1], leakage=0.3, horizon=50, distortion="mae")


def test_the_bound_of_the_readme_falls_to_doubles_and_holds_on_a_lattice(design):
    """Of 1500 rooms: wrong less often than the card allows (1e-6) from doubles, and not from multiples of 2^-12."""
    cases = disguised(design, 150, 3000, np.random.default_rng(3))
    bound, wrong = design.guarantee.bayes_error, []
    for step in (0.0, STEP):
        out = cases.outputs if step == 0.0 else np.rint(cases.outputs / step) * step + 0.0
        right, n = guesses(Bits(), replace(cases, outputs=out), known_of(design))
        wrong.append(scipy.stats.binom.cdf(n - right, n, bound))
    assert wrong[0] < ALPHA < wrong[1]


def test_an_audit_of_released_doubles_is_beaten_by_bits_alone(design):
    """The exact adversary errs as often as the card says, this one half as often; on a lattice both say the same."""
    cases = disguised(design, 100, 1200, np.random.default_rng(4))
    found = audited(design, cases, ["exact", "bits"])
    exact, bits = (found.row(name).error.value for name in ("exact", "bits"))
    assert bits < 0.6 * exact
    lattice = replace(cases, outputs=np.rint(cases.outputs / STEP) * STEP + 0.0)
    found = audited(design, lattice, ["exact", "bits"])
    assert found.row("bits").error.value == found.row("exact").error.value


# A theta that moves ----------------------------------------------------------------------------------


def test_a_causal_design_tells_its_first_decisions(monkeypatch):
    """Rate zero, one pseudo value for ever: theta moves and is told from doubles (1e-6), and not from a lattice."""
    family = us.Family(room, values=[0, 1])
    stay = [[0.95, 0.05], [0.05, 0.95]]
    design = us.design_causal(family, stay, rate=0.0, decision_every=15, distortion=[[0, 1], [1, 0]])
    with monkeypatch.context() as planted:  # the leak: full doubles leave
        planted.setattr(Release, "rounded", lambda self, Y, out=None: Y)
        material = simulate(design, 15 * 10 * 200, np.random.default_rng(1), lambda share: None)
    known, p = material.known["disguised"], []
    for step in (0.0, STEP):
        learn, judge = (
            replace(c, outputs=c.outputs if step == 0.0 else np.rint(c.outputs / step) * step + 0.0, pseudo=None)
            for c in (material.learn["disguised"], material.judge["disguised"])
        )
        assert Bits().objection(learn, known) == ""
        attack = Bits().learn(learn, known, np.random.default_rng(0))
        p.append(chance_moving(attack.logits(judge), judge))
    assert p[0] < ALPHA < p[1]
