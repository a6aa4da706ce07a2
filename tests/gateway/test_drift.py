"""Drift: scores of rooms side by side are those of the models, and the test trips on what tells the private value."""

import numpy as np
import pytest

import understudy as us
from understudy.errors import ConfigurationError
from understudy.gateway.drift import ALARM, Drift, RoomTest, Scores, read_stopped, write_stopped


def room(occupants):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)


def design(model=room):
    return us.design(us.Family(model, values=[0, 1]), leakage=0.3, horizon=50, distortion="mae")


def test_scores_are_those_of_the_models():
    """Three rooms, interleaved in calls of any size, with slots that stay empty: the scores of each model by itself."""
    scores, rng = Scores(design()), np.random.default_rng(1)
    slots = {k: np.cumsum(rng.integers(1, 4, 40)) for k in range(3)}
    Y = {k: 100.0 + 10 * (k % 2) + rng.normal(size=40) for k in range(3)}
    found = {k: [] for k in range(3)}
    at = dict.fromkeys(range(3), 0)
    while min(at.values()) < 40:
        rows = [(k, i) for k in range(3) for i in range(at[k], min(40, at[k] + int(rng.integers(0, 4))))]
        for k, _ in rows:
            at[k] += 1
        columns = [np.array(c, dtype=np.int64) for c in ([k for k, _ in rows], [k % 2 for k, _ in rows])]
        given = np.array([[Y[k][i]] for k, i in rows]).reshape(-1, 1)
        z = scores.of(columns[0], given, columns[1], np.array([slots[k][i] for k, i in rows], dtype=np.int64))
        for (k, _), each in zip(rows, z[:, 0], strict=True):
            found[k].append(each)
    for k in range(3):
        model = room(k % 2)
        whole = np.full(slots[k][-1] - slots[k][0] + 1, np.nan)
        whole[slots[k] - slots[k][0]] = Y[k]
        z = us.whiten(whole, model)
        np.testing.assert_allclose(found[k], z[~np.isnan(whole)], rtol=1e-9)


def test_models_of_other_kinds_are_scored_one_by_one():
    """The same scores as by `us.whiten`."""
    family = us.Family(
        lambda v: us.IID(us.Mixture([0.7, 0.3], [us.Gaussian(v, 1.0), us.Gaussian(v + 2.0, 4.0)])), values=[0, 1]
    )
    scores = Scores(us.design(family, leakage=0.3, distortion="mae"))
    Y = np.random.default_rng(2).normal(size=(20, 1))
    z = scores.of(np.zeros(20, dtype=np.int64), Y, np.ones(20, dtype=np.int64), np.arange(20))
    np.testing.assert_allclose(z[:, 0], us.whiten(Y[:, 0], family.model(1)))


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (0.7, 1.5)])
def test_a_misfit_that_all_values_share_does_not_trip(shift, scale):
    """Nor does a right model: 200 rooms of 2,000 scores each, at most 2e-4 expected to trip (alpha 1e-6 a room)."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        test = RoomTest(2, 1)
        for value, z in zip((rng.random(400) < 0.3).tolist(), rng.normal(shift, scale, 400).tolist(), strict=True):
            test.add(int(value), [z])
            assert not test.tripped
    assert ALARM == 1e-6


@pytest.mark.parametrize(("shift", "scale"), [(0.5, 1.0), (0.0, 1.6)])
def test_a_misfit_that_tells_the_value_trips(shift, scale):
    """The twin: another mean, or another spread, under one of the values."""
    rng, test = np.random.default_rng(4), RoomTest(2, 1)
    for _ in range(2000):
        value = int(rng.random() < 0.3)
        test.add(value, [rng.normal(value * shift, scale if value else 1.0)])
    assert test.tripped


def test_a_room_whose_readings_leave_its_models_is_found():
    """Readings of value 1 come three units higher than the model says: its room trips, the other goes on."""
    drift, rng = Drift(design(), "stop"), np.random.default_rng(5)
    family = us.Family(room, values=[0, 1])
    thetas = (np.cumsum(rng.random(4000) < 0.05) % 2).astype(np.int64)
    Y = us.sample(family.along(thetas.tolist()), 4000, rng=rng).ravel()
    tripped = []
    for at in range(0, 4000, 20):
        part = slice(at, at + 20)
        for name, offset in (("right", 0.0), ("wrong", 3.0)):
            y = (Y[part] + offset * thetas[part])[:, None]
            tripped += drift.judge([name] * 20, y, thetas[part], np.arange(at, at + 20))
    assert tripped == ["wrong"]
    assert (drift.withholds("wrong"), drift.withholds("right")) == (True, False)


def test_hold_goes_on_when_scores_have_come_together_and_pass_only_counts():
    """A stop needs a person."""
    for policy, withheld in (("hold", [True, False]), ("stop", [True, True]), ("pass", [False, False])):
        drift, rng = Drift(design(), policy), np.random.default_rng(6)
        test = drift.tests["lab"] = RoomTest(2, 1)
        drift._numbers["lab"] = 0
        found = []
        for shift, count in ((0.8, 300), (0.0, 40_000)):
            for _ in range(count):
                value = int(rng.integers(2))
                test.add(value, [rng.normal(value * shift)])
                if test.tripped:
                    drift.tripped.add("lab")
                elif policy != "stop" and test.settled:
                    drift.tripped.discard("lab")
            found.append(drift.withholds("lab"))
        assert found == withheld, policy


def test_rooms_that_have_stopped_are_remembered(tmp_path):
    """In a file that a person edits; one that is no such file is refused."""
    path = tmp_path / "gateway.stopped.json"
    assert read_stopped(path) == {}
    write_stopped(path, {"office": ["lab", "hall"]})
    assert read_stopped(path) == {"office": ["hall", "lab"]}
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="as JSON"):
        read_stopped(path)
