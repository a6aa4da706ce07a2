"""A planted leak: a damper that reacts to raw readings enters the pseudo predictor.

Given the damper the filter is exact, and still the output tells theta: the damper of a full room opens, and the pseudo
predictor follows it. If it follows a damper that reacts to the *disguised* readings instead, nothing is told. The
budget is zero. A false alarm happens once in a million.
"""

import numpy as np
import pytest
from adversary_cases import audited, finds, known_of, once, private_rows
from planted_leaks import aired, aired_room

import understudy as us
from understudy.adversaries.learners.machine_learning import Hidden

T, N = 30, 160


@pytest.fixture(scope="module")
def design():
    return us.design(us.Family(aired_room, [0, 1]), [0, 0.5, 1], leakage=0.0, horizon=T)


@pytest.fixture(scope="module")
def played(design):
    rng = np.random.default_rng(1)
    theta, drawn = private_rows(design, N, rng)
    rooms = [(design.values[i], design.pseudo[j]) for i, j in zip(theta, drawn, strict=True)]
    made = {raw: np.stack([aired(*pair, T, rng, raw) for pair in rooms], axis=1)[:, None] for raw in (True, False)}
    return {raw: once(outputs, theta, 2) for raw, outputs in made.items()}


def test_a_damper_on_raw_readings_is_found(design, played):
    """Its movements are in the output."""
    assert finds(Hidden(), played[True], known_of(design))


def test_a_damper_on_disguised_readings_tells_nothing(design, played):
    """The same rooms, the same draws."""
    assert not finds(Hidden(), played[False], known_of(design))


def test_an_audit_of_a_released_file_finds_it(design, played):
    """And nothing in the twin, at the level of one in a thousand."""
    for raw, cases in played.items():
        assert audited(design, cases, ["hmm", "windowed"]).found is raw
