"""A planted leak: readings that live on a grid are mapped as if they were continuous.

The budget is zero, and nobody has told the adversary of a grid: he finds it. A false alarm happens once in a million.
"""

from dataclasses import replace

import numpy as np
import pytest
from adversary_cases import disguised, finds, guesses, known_of
from planted_leaks import GRID_PSEUDO, Coin, in_cells, ppm_room, ungridded

import understudy as us
from understudy.adversaries.knowledge import Cases
from understudy.adversaries.knowledge import Knowledge as Knowledge
from understudy.adversaries.learners.bayes import Oracle
from understudy.adversaries.learners.grid import NO_GRID, Digits, GridInverter, grid_of
from understudy.models.quantised import Quantised
from understudy.randomizer.causal_guarantee import play

T, N = 30, 600


@pytest.fixture(scope="module")
def design():
    return us.design(us.Family(ppm_room, [0, 1]), GRID_PSEUDO, leakage=0.0, horizon=T)


@pytest.fixture(scope="module")
def flat(design):
    """Both pseudo values are drawn, whatever theta is."""
    return known_of(design, kernel=np.full((2, 2), 0.5))


@pytest.fixture(scope="module")
def leak(design):
    return disguised(Coin(design), T, N, np.random.default_rng(1), ungridded)


def test_a_float_map_of_a_grid_is_found(flat, leak):
    """The grid is found by inverting, and theta from it, nearly every time."""
    steps, offsets = grid_of(leak, flat)
    assert (steps.item(), offsets.item()) == pytest.approx((1.0, 0.0), abs=1e-6)
    for learner in (GridInverter(), Digits()):
        assert finds(learner, leak, flat)
        right, judged = guesses(learner, leak, flat)
        assert right >= 0.99 * judged


def test_readings_disguised_in_cells_tell_nothing(design, flat):
    """`Quantised` on both sides, the grid known to all."""
    cases = disguised(Coin(design), T, N, np.random.default_rng(1), in_cells)
    for grid in (None, (np.ones(1), np.zeros(1))):
        known = known_of(design, kernel=flat.kernel, grid=grid)
        for learner in (GridInverter(), Digits()):
            assert learner.objection(cases, known) or not finds(learner, cases, known)
    assert GridInverter().objection(cases, known) == ""


def test_where_there_is_no_grid_there_is_an_objection(design, flat):
    """Continuous readings, and raw ones, and a theta that moves."""
    cases = disguised(Coin(design), T, 40, np.random.default_rng(2))
    for learner in (GridInverter(), Digits()):
        assert learner.objection(cases, flat) == NO_GRID
    assert "not disguised" in GridInverter().objection(cases, known_of(design, raw=True))


def test_gaps_do_not_stop_the_attack(design, flat):
    """A tenth of the raw readings is missing; theta is found all the same."""

    def gappy(Y, i, j, rng):
        Y = np.round(Y)
        Y[rng.random(Y.shape) < 0.1] = np.nan
        return us.disguise(Y, ppm_room(i), ppm_room(GRID_PSEUDO[j]))

    cases = disguised(Coin(design), T, 200, np.random.default_rng(3), gappy)
    assert finds(GridInverter(), cases, flat)


# A theta that moves ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stream():
    """A causal design for continuous readings, and what it makes of raw readings in whole ppm: eight sequences."""
    family = us.Family(ppm_room, [0, 1])
    stay = [[0.9, 0.1], [0.1, 0.9]]
    design = us.design_causal(family, stay, [0, 0.5, 1], rate=0.01, decision_every=10, distortion="mae", horizon=50)
    played = play(design.beliefs, 100, 8, rng=1)
    theta, drawn = (x.repeat(10, axis=0) for x in (played.theta, played.pseudo))
    rng = np.random.default_rng(2)
    outputs = {"floats": np.empty((1000, 1, 8)), "cells": np.empty((1000, 1, 8))}
    for s in range(8):
        one, other = (
            family.along([v[k] for k in x[:, s]]) for v, x in ((design.values, theta), (design.pseudo, drawn))
        )
        raw = np.round(us.sample(one, 1000, rng=rng))
        raw[rng.random(1000) < 0.02] = np.nan
        outputs["floats"][:, 0, s] = us.disguise(raw, one, other)
        outputs["cells"][:, 0, s] = us.disguise(raw, Quantised(one, 1.0), Quantised(other, 1.0), rng=rng)
    blocks = np.tile(np.arange(8), (1000, 1))
    made = {name: Cases(Y, theta, blocks, 2, False, pseudo=drawn) for name, Y in outputs.items()}
    kernel = np.full((2, 3), 1.0 / 3.0)
    grid = np.ones(1), np.zeros(1)
    return Knowledge(family, design.pseudo, kernel, family.prior, np.array(stay), 10, grid, design), made


def wrong(learner, cases, known):
    """Share of the readings of four sequences that are taken for another value, after learning from the others."""
    attack = learner.learn(cases.sequences(slice(0, 4)), known, np.random.default_rng(0))
    judge = cases.sequences(slice(4, 8))
    return float((attack.logits(judge).argmax(axis=0) != judge.labels).mean())


def test_a_float_map_of_a_stream_is_followed(stream):
    """Reading by reading and across gaps: theta is told nearly always, which not even the pseudo values allow."""
    known, cases = stream
    assert GridInverter().objection(cases["floats"], known) == ""
    assert wrong(GridInverter(), cases["floats"], known) < 0.01
    assert wrong(Oracle(), cases["floats"], known) > 0.2


def test_a_stream_that_is_disguised_in_cells_cannot_be_followed(stream):
    """There is nothing to invert, and who tries all the same tells nothing."""
    known, cases = stream
    assert "on the grid itself" in GridInverter().objection(cases["cells"], known)
    assert wrong(GridInverter(), cases["cells"], known) > 0.2
    assert GridInverter().objection(cases["floats"], replace(known, grid=None)) == NO_GRID
