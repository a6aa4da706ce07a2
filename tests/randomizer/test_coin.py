"""A coin by epoch: its bound against the exact joint law of coins, path and outputs; its streams, files and card."""

from __future__ import annotations

import datetime as dt
import itertools
import math

import numpy as np
import pytest

import understudy as us
from understudy.errors import BudgetError, ConfigurationError, DesignError, StoredFileError
from understudy.randomizer.coin import HIDDEN, SHOWN

CONSTANT = 7.0


def coin(q=0.375, epoch=2, **given):
    return us.design_coin(q=q, epoch=epoch, constant=CONSTANT, **{"phase": 0, **given})


# The bound, on toys that can be enumerated ----------------------------------------------------------------


def information(joint):
    """I(A; B) of a table {(a, b): p}, in nats."""
    one, other = {}, {}
    for (a, b), p in joint.items():
        one[a] = one.get(a, 0.0) + p
        other[b] = other.get(b, 0.0) + p
    return math.fsum(p * math.log(p / (one[a] * other[b])) for (a, b), p in joint.items() if p > 0.0)


def entropy(p):
    return -math.fsum(x * math.log(x) for x in p if x > 0.0)


def released(design, readings, draws):
    """What leaves for readings of whole epochs of two, through the filters of the design, for given coins."""
    maps = [design.mapping(column, bytes(32)) for column in (SHOWN, HIDDEN)]
    state, out = maps[0].start(), []
    for k, draw in enumerate(draws):
        state, made = maps[draw].apply(state, np.array(readings[2 * k : 2 * k + 2], dtype=float)[:, None])
        out += made[:, 0].tolist()
    return tuple(out)


def exact(design, paths, law, coins=None):
    """I(Theta; ~Y): `paths` are {path: probability}, and `law(path)` gives {readings: probability}."""
    epochs = len(next(iter(paths)))
    joint = {}
    q = design.q
    for draws in itertools.product((SHOWN, HIDDEN), repeat=epochs):
        chance = math.prod(q if draw == HIDDEN else 1.0 - q for draw in draws)
        for path, p in paths.items():
            for readings, r in law(path).items():
                key = path, released(design, readings, draws)
                joint[key] = joint.get(key, 0.0) + chance * p * r
    return information(joint)


def noisy(path, right=0.8):
    """Two binary readings an epoch, each right with this probability, independent given the value of the epoch."""
    return {
        y: math.prod(right if y[t] == path[t // 2] else 1.0 - right for t in range(2 * len(path)))
        for y in itertools.product((0, 1), repeat=2 * len(path))
    }


def shown_exactly(path):
    return {tuple(value for value in path for _ in range(2)): 1.0}


def independent(epochs, p=0.3):
    return {
        path: math.prod(p if value else 1.0 - p for value in path) for path in itertools.product((0, 1), repeat=epochs)
    }


@pytest.mark.parametrize("q", [0.0, 0.375, 0.8, 1.0])
def test_independent_epochs_leak_what_the_shown_ones_hold(q):
    """(1 - q) sum H(Theta_k), attained where readings tell all; less where they are noisy."""
    H = entropy([0.3, 0.7])
    design = coin(q, entropy=H)
    paths = independent(3)
    assert exact(design, paths, shown_exactly) == pytest.approx(3 * (1.0 - q) * H, abs=1e-12)
    assert design.leakage_of(3) == pytest.approx(3 * (1.0 - q) * H, abs=1e-12)
    assert exact(design, paths, noisy) <= design.leakage_of(3) + 1e-12
    # and exactly (1 - q) of what the readings of each epoch tell
    alone = information({((a,), y): p * r for (a,), p in independent(1).items() for y, r in noisy((a,)).items()})
    assert exact(design, paths, noisy) == pytest.approx(3 * (1.0 - q) * alone, abs=1e-12)


def test_a_dependent_path_leaks_no_more():
    """A Markov path: the bound holds, with the sum of the entropies of its values."""
    q, stay = 0.375, 0.9
    paths = {
        path: 0.5 * math.prod(stay if a == b else 1.0 - stay for a, b in itertools.pairwise(path))
        for path in itertools.product((0, 1), repeat=3)
    }
    design = coin(q)
    found = exact(design, paths, shown_exactly)
    assert found <= design.leakage_of(3) + 1e-12
    assert exact(design, paths, noisy) < found


def test_a_value_that_stays_is_told_by_one_shown_epoch():
    """(1 - q^n) H."""
    design = coin(0.6)
    paths = {(0, 0, 0): 0.5, (1, 1, 1): 0.5}
    assert exact(design, paths, shown_exactly) == pytest.approx((1.0 - design.q**3) * math.log(2.0), abs=1e-12)
    assert design.leakage_of(3, stays=True) == pytest.approx((1.0 - design.q**3) * math.log(2.0), abs=1e-12)


def carried_over(q, epochs):
    """I(Theta; ~Y), enumerated: of `epochs`, each recorded or not, a shown one tells its value and the one before.

    Theta is the path with the value of the evening before the first epoch, whose values are independent and fair.
    """
    joint = {}
    for path in itertools.product((0, 1), repeat=len(epochs) + 1):
        for draws in itertools.product((SHOWN, HIDDEN), repeat=sum(epochs)):
            coins, out = iter(draws), []
            for k, recorded in enumerate(epochs):
                out.append(path[k : k + 2] if recorded and next(coins) == SHOWN else None)
            p = 0.5 ** len(path) * math.prod(q if draw == HIDDEN else 1.0 - q for draw in draws)
            joint[path, tuple(out)] = joint.get((path, tuple(out)), 0.0) + p
    return information(joint)


@pytest.mark.parametrize("epochs", [(1,), (1, 1, 1), (1, 0, 1), (1, 1, 0, 1)])
@pytest.mark.parametrize("q", [0.0, 0.375, 0.75])
def test_a_shown_epoch_is_charged_for_the_evening_before_too(q, epochs):
    """The evening before the first epoch, and the one before an epoch after a break, are told by one coin alone.

    The charges cover them. The twin charges 1 - q^2 an epoch, which is right only in the long run without a break.
    """
    design, H = coin(q, carry=1), math.log(2.0)
    found = carried_over(design.q, epochs)
    assert found <= design.leakage_of(sum(epochs)) + 1e-12
    assert found > sum(epochs) * (1.0 - design.q**2) * H + 1e-3
    if 1 not in (a and b for a, b in itertools.pairwise(epochs)):  # no value is told by two epochs: attained
        assert found == pytest.approx(design.leakage_of(sum(epochs)), abs=1e-12)


def test_guesses_are_right_more_often_where_the_next_epoch_tells():
    """With carry=1 a value is hidden only if its epoch and the next are: the card says so, and the guess attains it."""
    q = 0.6
    right = {m.name: m.value for m in coin(q, carry=1).guarantee.card.measures}["right_guesses"]
    q = coin(q).q
    assert right == pytest.approx((1.0 - q**2) + 0.5 * q**2, abs=1e-12)
    assert right > {m.name: m.value for m in coin(q).guarantee.card.measures}["right_guesses"] + 0.1


def test_what_carries_over_is_counted_by_carry_and_not_without():
    """Readings of an epoch that tell the value before too: 1 - q^2 for all but the last one; carry=0 is too little."""
    design = coin(0.6, carry=1)
    paths, H, q = independent(3, 0.5), math.log(2.0), design.q

    def carried(path):
        before = (0, *path[:-1])
        return {tuple(x for pair in zip(before, path, strict=True) for x in pair): 1.0}

    found = exact(design, paths, carried)
    assert found == pytest.approx((2 * (1.0 - q**2) + (1.0 - q)) * H, abs=1e-12)
    assert found <= design.leakage_of(3) + 1e-12
    assert found > coin(0.6).leakage_of(3) + 0.1


def test_the_twin_with_a_coin_for_each_reading_breaks_the_bound():
    """Two coins an epoch, or one that is tossed again at a restart: a value is shown with probability 1 - q^2."""
    design, joint = coin(0.6), {}
    for draws in itertools.product((SHOWN, HIDDEN), repeat=2):
        chance = math.prod(design.q if draw == HIDDEN else 1.0 - design.q for draw in draws)
        for value in (0, 1):
            out = tuple(CONSTANT if draw == HIDDEN else float(value) for draw in draws)
            joint[value, out] = joint.get((value, out), 0.0) + 0.5 * chance
    found = information(joint)
    assert found == pytest.approx((1.0 - design.q**2) * math.log(2.0), abs=1e-12)
    assert found > design.leakage_of(1) + 0.1


# What is designed -------------------------------------------------------------------------------------------


def test_a_leakage_is_kept_and_not_wasted():
    """The least share of hidden epochs that keeps it, in whole numbers of 2^-53."""
    for leakage, carry in ((0.1, 0), ("40%", 0), ("0.3 bit", 2), (0.0, 1)):
        made = us.design_coin(leakage=leakage, epoch=5, constant=1.0, carry=carry)
        budget = {0.1: 0.1, "40%": 0.4 * math.log(2), "0.3 bit": 0.3 * math.log(2), 0.0: 0.0}[leakage]
        assert made.leakage <= budget
        assert made.leakage == pytest.approx(budget, rel=1e-12, abs=0.0)
    assert us.design_coin(leakage="100%", epoch=5, constant=1.0).q == 0.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "none of q and leakage"),
        ({"q": 0.5, "leakage": 0.1}, "both of q and leakage"),
        ({"q": 1.5}, "probability"),
        ({"q": 0.5, "hide": "noise"}, "hide"),
        ({"q": 0.5, "show": "nothing"}, "show"),
        ({"q": 0.5, "hide": "lifelike"}, "model="),
        ({"q": 0.5, "constant": None}, "public constant"),
        ({"q": 0.5, "constant": math.nan}, "finite"),
        ({"q": 0.5, "values": 1}, "values"),
        ({"q": 0.5, "values": "ab"}, "values"),
        ({"q": 0.5, "entropy": 0.0}, "entropy"),
        ({"q": 0.5, "carry": -1}, "carry"),
        ({"q": 0.5, "phase": dt.timedelta(hours=1)}, "phase"),
    ],
)
def test_what_makes_no_sense_is_refused(given, words):
    with pytest.raises(DesignError, match=words):
        us.design_coin(**{"epoch": 4, "constant": 1.0, **given})


def test_a_history_gives_constant_lattice_and_distortion():
    Y = np.array([[410.5, 20.0], [420.0, 21.0], [900.0, 22.25], [np.nan, 3.0]])
    made = us.design_coin(Y, q=0.5, epoch=3)
    assert made.mapping(HIDDEN, bytes(32)).apply((0, made.mapping(1, bytes(32)).start()[1]), Y[:1])[1].tolist() == [
        [420.0, 21.0]
    ]
    assert made.resolution == (0.1, 0.01)
    apart = np.abs(Y[:3] - [420.0, 21.0]).mean()
    assert made.distortion[0] == pytest.approx(0.5 * apart)

    class Part:
        def __init__(self, Y):
            self.Y = Y

    class History:
        segments = (Part(Y[:2]), Part(Y[2:]))

    assert us.design_coin(History(), q=0.5, epoch=3).fingerprint == made.fingerprint


# Streams ------------------------------------------------------------------------------------------------------


def epochs_of(out, size, constant=CONSTANT):
    """For each whole epoch whether it is hidden; refuses one that is neither whole."""
    blocks = np.asarray(out).reshape(-1, size)
    hidden = (blocks == constant).all(axis=1)
    assert (hidden | (blocks != constant).all(axis=1)).all()
    return hidden


def test_an_epoch_is_shown_whole_or_hidden_whole_at_the_stated_rate():
    """2,000 epochs: within 5.2 standard deviations (false alarm 1e-6 twice)."""
    design = coin(0.375, epoch=5)
    Y = np.arange(100.0, 100.0 + 10_000)
    out = design.stream(rng=5).apply(Y)
    hidden = epochs_of(out, 5)
    assert abs(hidden.mean() - 0.375) < 5.2 * math.sqrt(0.375 * 0.625 / len(hidden))
    assert (out[out != CONSTANT] == Y[out != CONSTANT]).all()


def test_a_hidden_epoch_does_not_depend_on_the_readings():
    """Bit for bit, lifelike ones too, missing readings included."""
    room = us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=1.0)
    for design in (coin(0.5, epoch=7), us.design_coin(q=0.5, epoch=7, hide="lifelike", model=room)):
        one, other = 100.0 + np.arange(140.0), 1000.0 - np.arange(140.0)
        other[::3] = np.nan
        a, b = (design.stream(rng=11).apply(Y) for Y in (one, other))
        shown = a == one
        assert 0 < shown.sum() < 140
        assert (a[~shown] == b[~shown]).all()
        assert np.array_equal(b[shown], other[shown], equal_nan=True)


def test_lifelike_epochs_have_the_law_of_the_model():
    """Their scores under it are white; never the same twice."""
    room = us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=1.0)
    made = us.design_coin(q=1.0, epoch=50, hide="lifelike", model=room, resolution=2.0**-20)
    out = made.stream(rng=2).apply(np.zeros(20_000))
    z = np.asarray(us.whiten(out, room)).ravel()
    assert abs(z.mean()) < 5.0 / math.sqrt(len(z))
    assert abs(z.std() - 1.0) < 5.0 / math.sqrt(2 * len(z))
    assert abs(np.corrcoef(z[1:], z[:-1])[0, 1]) < 5.0 / math.sqrt(len(z))
    assert len(np.unique(out[:50])) > 45


@pytest.mark.parametrize("hide", ["constant", "lifelike"])
def test_a_restart_goes_on_bit_for_bit(tmp_path, hide):
    """Opened again after every few readings, in the middle of epochs, by a design that was stored."""
    given = {"constant": CONSTANT} if hide == "constant" else {"model": us.AutoRegressive(0.5, noise=us.Gaussian(0, 1))}
    made = us.design_coin(q=0.5, epoch=dt.timedelta(hours=2), hide=hide, **given)
    made.save(tmp_path / "coin.json")
    keys = np.datetime64("2026-03-01T00:07") + np.arange(96) * np.timedelta64(15, "m")
    Y = np.arange(96.0) + 0.25
    Y[10:13] = np.nan
    whole = made.stream(rng=3, period=900).apply(Y, keys)
    out = []
    for start in range(0, 96, 5):
        design = us.load_design(tmp_path / "coin.json")
        seeded = {"rng": 3} if start == 0 else {}
        with design.stream(ledger=tmp_path / "room.db", period=900, **seeded) as stream:
            out += [stream.step(y, key) for y, key in zip(Y[start : start + 5], keys[start : start + 5], strict=True)]
            assert stream.step(float(Y[start]), keys[start]) == pytest.approx(out[start], abs=0.0, nan_ok=True)
    assert np.array_equal(out, whole, equal_nan=True)
    snapshot = made.stream(rng=3, period=900)
    first = snapshot.apply(Y[:33], keys[:33])
    again = us.Stream.restore(made, snapshot.snapshot()).apply(Y[33:], keys[33:])
    assert np.array_equal([*first, *again], whole, equal_nan=True)


def test_every_epoch_is_charged_before_it_is_shown(tmp_path):
    """So many micro-nats each, whether it was shown or hidden."""
    made = coin(0.5, epoch=10)
    with made.stream(ledger=tmp_path / "room.db", rng=1) as stream:
        for k in range(5):
            stream.apply(np.arange(10.0))
            assert stream.spent == pytest.approx((k + 1) * math.ceil(made.leakage * 1e6) / 1e6, abs=1e-12)


def test_a_spent_budget_stops_or_hides(tmp_path):
    """A room that holds hides all further epochs; it never goes on showing."""
    made = coin(0.25, epoch=10)
    for when in ("stop", "hold"):
        path = tmp_path / f"{when}.db"
        with us.Ledger(path) as ledger:
            ledger.limit("lab", total=made.leakage * 3.0 + 1e-5, when_spent=when)
            stream = made.stream(ledger=ledger, room="lab", name=when, rng=4)
            out = [*stream.apply(np.arange(100.0, 130.0))]
            if when == "stop":
                with pytest.raises(BudgetError):
                    stream.apply(np.arange(10.0))
                continue
            out += [*stream.apply(np.arange(100.0, 300.0))]
            hidden = epochs_of(out, 10)
            assert not hidden[:3].all()
            assert hidden[3:].all()


def test_streams_of_a_room_share_a_coin_where_the_phase_is_public(tmp_path):
    made = coin(0.5, epoch=4)
    with us.Ledger(tmp_path / "room.db") as ledger:
        one = made.stream(ledger=ledger, name="co2", room="lab", rng=1)
        other = made.stream(ledger=ledger, name="noise", room="lab", share="independent", rng=2)
        Y = np.arange(100.0, 140.0)
        hidden = epochs_of(one.apply(Y), 4)
        assert (epochs_of(other.apply(Y), 4) == hidden).all()
        assert 0 < hidden.sum() < len(hidden)
        assert ledger.spent("lab") == pytest.approx(10 * math.ceil(made.leakage * 1e6) / 1e6)
        keyed = us.design_coin(q=0.5, epoch=4, constant=CONSTANT)
        with pytest.raises(ConfigurationError, match="public"):
            keyed.stream(ledger=ledger, name="third", room="lab", share="independent")


def test_edges_of_epochs_have_a_phase_of_the_key():
    """Twelve keys: not all edges fall on the same reading; a public phase is where it was put."""
    made = us.design_coin(q=0.5, epoch=24, constant=CONSTANT)
    first = set()
    for seed in range(12):
        hidden = made.stream(rng=seed).apply(np.arange(1000.0, 1960.0)) == CONSTANT
        edges = np.flatnonzero(hidden[1:] != hidden[:-1]) + 1
        assert len(set((edges % 24).tolist())) == 1
        first.add(int(edges[0] % 24))
    assert len(first) > 4
    hidden = coin(0.5, epoch=24, phase=5).stream(rng=1).apply(np.arange(1000.0, 1960.0)) == CONSTANT
    assert set(((np.flatnonzero(hidden[1:] != hidden[:-1]) + 1) % 24).tolist()) == {19}


@pytest.mark.parametrize("waits", [False, True])
def test_hidden_epochs_do_not_tell_which_readings_are_missing(monkeypatch, waits):
    """The first readings of every second epoch are missing, or none: where an epoch is hidden the outputs are the same.

    The twin's coin waits for the first reading that is there; until then the coin before it shows what is missing.
    """
    if waits:
        monkeypatch.setattr("understudy.randomizer.design.COIN", "another kind")
    design, T = coin(0.5, 5), 200
    whole = 400.0 + np.arange(T)
    holed = np.where(np.arange(T) % 10 < 3, np.nan, whole)
    one, other = (design.stream(rng=4).apply(Y) for Y in (whole, holed))
    hidden = (one == CONSTANT).reshape(-1, 5)
    assert (hidden.all(axis=1) | ~hidden.any(axis=1)).all()
    assert 10 < hidden[:, 0].sum() < 30
    same = np.array_equal(other[np.repeat(hidden[:, 0], 5)], one[np.repeat(hidden[:, 0], 5)])
    assert same is not waits


def test_a_filled_stream_releases_every_slot_of_a_hidden_epoch():
    """Slots that stay empty: missing where the epoch is shown, like all others where it is hidden."""
    made = us.design_coin(q=0.5, epoch=dt.timedelta(minutes=8), constant=CONSTANT, phase=dt.timedelta(0))
    start = np.datetime64("2026-03-01T00:00")
    stream = made.stream(period=60, fill=True, rng=8)
    seen = {}
    for minute in (0, 1, 5, 30, 33, 60, 100):
        if minute:
            times, out = stream.fill_until(start + np.timedelta64(minute, "m"))
            seen |= {int(t // 60 // 10**9) % 1440: y[0] for t, y in zip(times, out, strict=True)}
        seen[minute] = stream.step(100.0 + minute, start + np.timedelta64(minute, "m"))
    assert sorted(seen) == list(range(101))
    hidden = np.array([seen[k] == CONSTANT for k in range(96)]).reshape(-1, 8)
    assert (hidden.all(axis=1) | ~hidden.any(axis=1)).all()
    assert 0 < hidden.all(axis=1).sum() < len(hidden)


# Files, card, audit -------------------------------------------------------------------------------------------


def test_a_stored_coin_is_the_same(tmp_path):
    room = us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=1.0)
    for k, made in enumerate(
        (
            coin(0.3, carry=1, values=["away", "home", "night"]),
            us.design_coin([1.0, 2.5], q=0.5, epoch=dt.timedelta(hours=3), about={"period": 60.0}),
            us.design_coin(q=0.5, epoch=9, hide="lifelike", model=room),
        )
    ):
        path = tmp_path / f"{k}.json"
        made.save(path)
        found = us.load_design(path)
        assert found.fingerprint == made.fingerprint
        assert found.guarantee == made.guarantee
        assert (found.q, found.epoch, found.values, found.pseudo) == (made.q, made.epoch, made.values, made.pseudo)
        assert found.kind == "coin"
    made.save(path, models=False)
    with pytest.raises(StoredFileError, match="model"):
        us.load_design(path)
    assert us.load_design(path, family=us.Family({0: room})).fingerprint == made.fingerprint
    with pytest.raises(StoredFileError, match="model"):
        us.load_design(path, family=us.Family({0: us.GaussMarkov(0.5, 1.0, 0.1, 0.1)}))


def test_the_card_states_the_weak_side():
    card = coin(0.375).guarantee
    plain = card.to_dict()
    assert plain["leakage"]["nats_per_epoch"] == coin(0.375).leakage
    assert plain["right_guesses_at_most"] == pytest.approx(1.0 - 0.375 / 2)
    words = card.text()
    for needed in ("shown whole", "CO2 carries over midnight", "missing", "fill=True"):
        assert needed in " ".join(words.split())
    assert card.json()
    assert card.html(page=True)


def test_an_audit_needs_readings_and_finds_the_line_between_raw_and_constant():
    """Values that change from epoch to epoch and are told by their readings: accuracy 1 - q / 2."""
    rng = np.random.default_rng(3)
    theta = np.repeat(rng.integers(0, 2, 400), 12)
    Y = 400.0 + 200.0 * theta + rng.normal(0.0, 5.0, len(theta))
    made = us.design_coin(q=0.5, epoch=12, constant=470.0, phase=0)
    with pytest.raises(ConfigurationError, match="Y"):
        us.audit(made)
    found = us.audit(made, Y, theta, adversaries=["windowed"], rng=1, noise=False, replicates=4)
    best = max(row.balanced.value for row in found.rows if row.adversary == "windowed" and row.data == "disguised")
    assert best == pytest.approx(0.75, abs=0.06)
    assert found.budget == made.leakage
