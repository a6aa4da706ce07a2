"""Streams that guess theta: they do what the estimator says, and say that nothing holds."""

import numpy as np
import pytest
from causal_cases import STAY
from helpers import room, same_bits
from stream_helpers import opened, released_as

import understudy as us
from understudy.errors import ConfigurationError
from understudy.randomizer.causal import design_causal
from understudy.randomizer.estimation import Estimator

EVERY = 5
FAMILY = us.Family({v: room(v) for v in (0, 1)})


def design(**changes):
    options = {"rate": 0.05, "horizon": 50, "distortion": "mae", "decision_every": EVERY} | changes
    return design_causal(FAMILY, STAY, accept_estimated_theta=True, **options)


def readings(T=60, seed=1):
    theta = np.repeat(np.random.default_rng(seed).integers(0, 2, T // 10), 10).tolist()
    return us.sample(FAMILY.along(theta), T, rng=seed)


def test_the_stream_plays_the_estimated_path(tmp_path):
    """The output is `us.disguise` along the path that the estimator finds and the pseudo path drawn for it."""
    made, Y = design(), readings()
    rows = Estimator(FAMILY, STAY, EVERY).rows(Y)
    with opened(tmp_path) as ledger:
        out = made.stream(ledger=ledger, name="lab").apply(Y)
        draws = [d for (d,) in ledger.rows("SELECT draw FROM epochs WHERE epoch > 0 ORDER BY epoch")]
        sources = [s for (s,) in ledger.rows("SELECT source FROM epochs WHERE epoch > 0 ORDER BY epoch")]
    assert 0 < sum(rows) < len(rows)
    assert sources == list(rows[::EVERY])
    pseudo = np.repeat([made.pseudo[j] for j in draws], EVERY).tolist()
    expected = us.disguise(Y, FAMILY.along([FAMILY.values[i] for i in rows]), FAMILY.along(pseudo))
    assert released_as(out, expected, made.resolution, 1e-9)


def test_chunks_steps_and_restarts_agree(tmp_path):
    """The belief over theta is part of what is recorded."""
    made, Y = design(), readings()
    whole = made.stream(rng=3).apply(Y)
    stepping = made.stream(rng=3)
    assert same_bits(whole, np.array([stepping.step(float(y)) for y in Y]))
    half = made.stream(rng=3)
    first = half.apply(Y[:23])
    again = us.Stream.restore(made, half.snapshot())
    assert same_bits(whole[:25], np.concatenate([first, again.apply(Y[23:25])]))
    with opened(tmp_path) as ledger:
        stream = made.stream(ledger=ledger, name="lab")
        stream.apply(Y[:33])
        guess = stream._now.position.memory[1]
    with opened(tmp_path) as ledger:
        assert us.Stream.open(ledger, made, "lab")._now.position.memory[1] == guess


def test_missing_readings_are_skipped():
    """A gap within the readings moves the estimator on, and stays a gap."""
    Y = readings()
    Y[7:12] = np.nan
    out = design().stream(rng=1).apply(Y)
    assert np.isnan(out[7:12]).all()
    assert np.isfinite(np.delete(out, range(7, 12))).all()


def test_everything_says_that_there_is_no_guarantee(tmp_path):
    """Repr, mark, card and file; and the file brings it back."""
    made = design()
    assert repr(made).endswith("NO GUARANTEE, audit only)")
    assert made.stream(rng=1).mark["guarantee"].startswith("none, audit only")
    assert "no guarantee, audit only" in made.guarantee.text().lower()
    made.save(tmp_path / "room.json")
    again = us.load_design(tmp_path / "room.json")
    assert again.estimated
    assert again.fingerprint == made.fingerprint
    told = design_causal(FAMILY, STAY, rate=0.05, horizon=50, distortion="mae", decision_every=EVERY)
    assert told.fingerprint != made.fingerprint
    assert "guarantee" not in told.stream(0).mark
    assert "audit only" not in told.guarantee.text().lower()


def test_theta_is_not_told_to_such_a_stream():
    """Who knows theta has no reason to estimate it."""
    stream = design().stream()
    for call in (lambda: stream.step(100.0, theta=1), lambda: stream.becomes(1)):
        with pytest.raises(ConfigurationError, match="estimates the private value"):
            call()
