"""`audit` as a whole: the exact bound, false alarms, planted leaks, and what it tells and does not tell."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from audit_cases import Normal, plain_family, room_design, switching

import understudy as us
from understudy.adversaries.audit import audit
from understudy.adversaries.datasets import DesignRun, from_history, make_recording
from understudy.adversaries.results import Audit, Outcome, load_audit, row_outcome
from understudy.adversaries.statistics import Figure
from understudy.errors import ConfigurationError
from understudy.identify.fit import read_again as reread
from understudy.text import DATA, row_verdict

RATE = 1e-6


@pytest.mark.long(seconds=3, reason="20,000 simulated sequences")
def test_the_exact_adversary_meets_the_exact_bound():
    """The paper's room at 0.3 nats: bound 0.133586; the exact adversary is at it, and nobody is below it."""
    found = audit(room_design(), adversaries=["exact", "windowed"], n=40_000, rng=1, noise=False)
    assert found.bound == pytest.approx(0.133586, abs=1e-6)
    exact = found.row("exact")
    assert exact.error.low <= found.bound <= exact.error.high
    assert exact.nats.low <= 0.3 <= exact.nats.high
    assert not found.broken
    assert found.found
    assert all(row.error.high >= found.bound for row in found.of())
    assert found.row("oracle").error.value <= exact.error.value + 1e-9
    assert found.row("exact", "raw").error.value < 0.01
    assert (found.how, found.guesses, found.learned, found.moving) == ("simulated", 20_000, 20_000, False)


def test_three_values_and_two_channels_meet_their_bound():
    """Three values that two channels tell apart: the exact adversary is at the bound."""

    def model(v):
        return us.GaussMarkov(0.8 * np.eye(2), np.eye(2), 0.2 * np.eye(2), 0.1 * np.eye(2), b=[2.0 * v, -v])

    design = us.design(us.Family(model, values=[0, 1, 2], prior=[0.5, 0.3, 0.2]), leakage=0.4, horizon=20)
    found = audit(design, adversaries=["exact", "windowed"], n=6000, rng=3)
    assert found.values == 3
    assert found.bound == pytest.approx(design.guarantee.bayes_error)
    assert found.row("exact").error.low <= found.bound <= found.row("exact").error.high
    assert not found.broken
    assert found.row("exact", "raw").error.value < 0.05
    assert len(found.distortion) == len(found.noise) == 2


def test_a_leak_beats_the_bound():
    """The same room, every second output of which is handed out undisguised: the audit says that it is broken."""
    design = room_design()

    rng = np.random.default_rng(2)
    T, N = 50, 800
    theta = rng.integers(0, 2, N)
    Y = np.concatenate([us.sample(design.family.model(v), T, N, rng=rng)[:, :, theta == v] for v in (0, 1)], axis=2)
    theta = np.sort(theta)
    drawn = np.array([design.draw(int(i), rng) for i in theta])
    output = np.stack(
        [
            Y[:, 0, k]
            if rng.random() < 0.5
            else us.disguise(Y[:, 0, k], design.source(int(theta[k])), design.target(int(drawn[k])))
            for k in range(N)
        ]
    )
    order = rng.permutation(N)
    found = audit(
        design, Y[:, 0].T[order].ravel(), np.repeat(theta[order], T), {"mean": Normal()}, rng=3, noise=False,
        released=output[order].ravel(), segments=np.repeat(np.arange(N), T), utility=False,
    )  # fmt: skip
    assert found.how == "released"
    assert found.bound == pytest.approx(design.guarantee.bayes_error, abs=0.02)  # at the odds among the judged
    assert found.row("mean").error.high < found.bound
    assert found.row("mean").beats
    assert found.broken
    assert found.outcome == Outcome.BROKEN
    assert row_outcome(found, found.row("mean")) == Outcome.BROKEN
    assert "BROKEN" in repr(found)


def _one_reading_each(count):
    return {f"reading {k}": Normal(k) for k in range(count)}


def test_on_independent_data_nothing_is_found_at_the_stated_rate():
    """60 audits of a design that tells nothing, 8 adversaries each: at most 5 percent find anything.

    The twin counts adversaries one by one, without Holm's correction, and does so far too often.
    """
    design = us.design(plain_family(), leakage=0.0, horizon=8, distortion="mae")
    adversaries = _one_reading_each(8)
    found = uncorrected = 0
    for seed in range(60):
        made = audit(design, adversaries=adversaries, n=400, confidence=0.95, rng=seed, noise=False)
        rows = [row for row in made.of() if row.adversary in adversaries]
        assert len(rows) == 8
        found += made.found
        uncorrected += min(row.p for row in rows) < 0.05
    limit = scipy.stats.binom.isf(RATE, 60, 0.05)
    assert found <= limit
    assert uncorrected > limit


def test_along_a_recording_nothing_is_found_at_the_stated_rate():
    """20 recordings of a moving theta, disguised by a design that tells nothing: at most 5 percent find anything.

    The twin, the same recordings in the clear, is found every time.
    """
    design = us.design(plain_family(), leakage=0.0, horizon=20, distortion="mae")
    found = raw = 0
    for seed in range(20):
        rng = np.random.default_rng([17, seed])
        theta = switching(1600, 0.02, rng)
        Y = DesignRun(design).readings(theta, rng)[:, 0]
        made = audit(
            design, Y, theta.tolist(), {"one": Normal()}, confidence=0.95, rng=seed, noise=False, replicates=1,
            utility=False,
        )  # fmt: skip
        found += made.found
        raw += made.row("one", "raw").found
    assert found <= scipy.stats.binom.isf(RATE, 20, 0.05)
    assert raw == 20


@pytest.fixture(scope="module")
def replay():
    """An audit of a recording with a clock, and what went in."""
    rng = np.random.default_rng(5)
    design = us.design(plain_family(), leakage=0.3, horizon=30, distortion="mae")
    T = 4000
    hours = (np.arange(T) / 12.0) % 24.0
    theta = ((hours > 8) & (hours < 17) & (rng.random(T) < 0.9)).astype(int)
    theta = np.repeat(theta[::10], 10)[:T]
    Y = 7.123456789 + DesignRun(design).readings(theta, rng)[:, 0]
    steps = []
    made = audit(
        design, Y, theta.tolist(), {"one": Normal(), "other": Normal(of=0)}, rng=6,
        hours=hours, days=np.arange(T) // 288 % 7, replicates=2, progress=lambda *at: steps.append(at), alarm=8.0,
        utility={"mean": lambda y, x: float(np.nanmean(x - y))},
    )  # fmt: skip
    return made, Y, steps


def test_rows_are_with_and_without_the_clock(replay):
    """Each adversary is run twice on each kind of data, the references once, and gains are over the clock."""
    made, _, _ = replay
    for data in ("disguised", "raw", "noise"):
        rows = [(row.adversary, row.clock) for row in made.of(data, references=True)]
        assert rows.count(("one", False)) == rows.count(("one", True)) == 1
        assert ("blind", False) in rows
        assert ("clock", True) in rows
    clock, one = made.row("clock", "raw", True), made.row("one", "raw", False)
    assert one.gain.value == pytest.approx(one.balanced.value - clock.balanced.value)
    assert clock.gain.value == 0.0
    assert one.found
    assert np.isnan(clock.p)
    assert not clock.found
    assert {row.test for row in made.of()} == {"stretches"}
    assert made.bound is None
    assert not made.broken


def test_distortion_and_noise_have_the_same_size(replay):
    """Noise is as large as the disguise, and the utility of the output is measured beside."""
    made, Y, _ = replay
    assert made.distortion[0].low < made.distortion[0].value < made.distortion[0].high
    assert made.noise[0] == pytest.approx(made.distortion[0].value, rel=0.15)
    assert made.mean_reading[0] == pytest.approx(np.abs(Y[len(Y) // 2 :]).mean())
    assert made.utility.channels[0].mean_absolute.value == pytest.approx(made.distortion[0].value)
    assert made.utility.channels[0].alarm.threshold == 8.0
    assert "mean" in made.utility.own


def test_progress_goes_forward_to_its_end(replay):
    """Steps are counted up, and the last one is the last."""
    _, _, steps = replay
    done = [at[0] for at in steps]
    assert done == sorted(done)
    assert len({at[1] for at in steps}) == 1
    assert steps[-1] == (steps[-1][1], steps[-1][1], "done")
    assert any("one + clock on raw" in at[2] for at in steps)


def test_nothing_that_is_told_holds_a_reading_or_a_label(replay):
    """Text, repr and JSON hold aggregates: no reading to six digits, no list as long as the recording."""
    made, Y, _ = replay
    told = made.text() + repr(made) + repr(made.rows) + json.dumps(made.plain())
    numbers = {round(abs(float(x)), 6) for x in re.findall(r"-?\d+\.\d{5,}", told)}
    assert numbers
    assert not numbers & {round(abs(y), 6) for y in Y.tolist()}

    def longest(x):
        if isinstance(x, dict):
            return max(map(longest, x.values()), default=0)
        return max([len(x), *map(longest, x)], default=0) if isinstance(x, list) else 0

    assert longest(made.plain()) < 100
    assert "theta" not in "".join(re.findall(r'"(\w+)":', json.dumps(made.plain())))


def test_json_brings_the_audit_back(replay, tmp_path):
    """What is saved is read again, NaN and utility included; what is no audit is refused."""
    made, _, _ = replay
    made.save(tmp_path / "audit.json")
    again = load_audit(tmp_path / "audit.json")
    assert again.plain() == made.plain()
    assert again.text() == made.text()
    assert again.best.adversary == made.best.adversary
    assert isinstance(again.rows[0].balanced, Figure)
    told = made.plain()
    for wrong, match in (
        ({**told, "schema": "other"}, "schema"),
        ({**told, "version": 99}, "version"),
        ({k: v for k, v in told.items() if k != "rows"}, "damaged"),
        ([], "schema"),
    ):
        with pytest.raises(ConfigurationError, match=match):
            Audit.from_plain(wrong)
    (tmp_path / "no.json").write_text("{")
    with pytest.raises(ConfigurationError, match="JSON"):
        load_audit(tmp_path / "no.json")


def test_the_text_says_what_came_out(replay):
    """The headline names the best adversary, the tables all rows, and the notes the premise that fails."""
    made, _, _ = replay
    text = made.text()
    assert made.best.label in text.splitlines()[0]
    assert text.count(row_verdict(Outcome.REFERENCE, False)) == 11  # of five kinds of data two each, and the oracle
    assert "draws anew every 30 readings" in text.replace("\n  ", " ")
    assert DATA["noise"] in text
    assert max(map(len, text.split("\n\n")[-1].splitlines())) <= 120


def test_the_same_seed_gives_the_same_audit_whoever_else_attacks():
    """Figures of an adversary do not depend on who else was run; another seed gives others."""
    design = room_design()
    alone, both, other = (
        audit(design, adversaries=names, n=400, rng=seed, noise=False)
        for names, seed in ((["windowed"], 1), (["windowed", "changes"], 1), (["windowed"], 2))
    )
    assert alone.row("windowed").error == both.row("windowed").error
    assert alone.row("windowed").nats == both.row("windowed").nats
    assert alone.row("windowed").nats != other.row("windowed").nats


class Broken(Normal):
    """Stops, with a message that nobody may see."""

    def learn(self, cases, known, rng):
        raise ValueError(f"the reading {cases.outputs[0, 0, 0]!r} is odd")


class Curious(Normal):
    """Notes what it was shown."""

    seen: list = []  # noqa: RUF012  # a class of one test

    def learn(self, cases, known, rng):
        attack = super().learn(cases, known, rng)

        class Watched:
            def logits(self, judged):
                Curious.seen.append((cases.pseudo is None, judged.pseudo is None, set(judged.labels.ravel().tolist())))
                return attack.logits(judged)

        return Watched()


def test_adversaries_see_neither_pseudo_values_nor_the_labels_they_are_judged_by():
    """An adversary is judged on cases whose labels are -1, and never gets a pseudo value."""
    audit(room_design(), adversaries={"curious": Curious()}, n=100, rng=1, noise=False)
    assert Curious.seen == [(True, True, {-1})] * 2


def test_who_stops_is_skipped_without_his_message():
    """An adversary that fails is named with the kind of its error, never with its text."""
    made = audit(room_design(), adversaries={"broken": Broken(), "one": Normal()}, n=100, rng=1, noise=False)
    assert made.skipped["broken"] == "it stopped with a ValueError"
    assert "odd" not in made.text()
    assert made.row("broken") is None
    assert made.row("one") is not None


@pytest.mark.long(seconds=2, reason="simulated sequences of a moving value")
def test_a_causal_design_is_simulated():
    """Theta moves by the chain, sequences are permuted whole, and the oracle is at least as good as the others."""
    family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    design = us.design_causal(family, [[0.9, 0.1], [0.1, 0.9]], rate=0.1, distortion="mae", decision_every=10)
    made = audit(design, adversaries=["smoother", "windowed"], n=16_000, rng=1, noise=False)
    assert made.moving
    assert made.bound is None
    assert made.row("smoother").test == "permutation"
    assert made.row("smoother").found
    assert made.row("oracle").error.value <= made.row("smoother").error.value + 0.02
    assert made.row("smoother", "raw").balanced.value > made.row("smoother").balanced.value + 0.1
    assert made.budget == design.rate


def test_frames_are_audited_by_way_of_histories():
    """A fitted family and two frames: one to learn from, one to be judged on."""
    rng = np.random.default_rng(8)

    def frame(start):
        times = pd.date_range(start, periods=600, freq="5min")
        theta = switching(600, 0.03, rng)
        return pd.DataFrame({"t": times, "y": 20.0 + 4.0 * theta + rng.standard_normal(600), "people": theta})

    first, second = frame("2026-03-02"), frame("2026-03-09")
    family = us.fit(first, reading="y", private="people", time="t", model="iid", holdout=None)
    design = us.design(family, leakage=0.1, horizon=20, distortion="mse")
    train, test = (from_history(reread(each, family), family) for each in (first, second))
    made = audit(design, test, train=train, adversaries={"one": Normal()}, rng=1, replicates=2)
    assert made.how == "replayed"
    assert made.guesses == 1200
    assert made.row("clock", clock=True) is not None
    assert made.row("one", "raw").balanced.value > 0.9
    assert made.row("one").balanced.value < 0.8
    assert made.utility.channels[0].name == "y"


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    """Where scikit-learn is not there its adversaries are skipped, and the reason says how to get it."""
    import sys

    monkeypatch.setitem(sys.modules, "sklearn", None)
    made = audit(room_design(), adversaries=["logistic", "windowed"], n=100, rng=1, noise=False)
    assert "pip install" in made.skipped["logistic"]
    assert made.row("windowed") is not None


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"confidence": 1.0}, "confidence"),
        ({"n": 3}, "n = 3"),
        ({"adversaries": "nobody"}, "no adversary 'nobody'"),
        ({"adversaries": {"x": 1}}, "no learner"),
        ({"adversaries": 7}, "adversaries = 7"),
        ({"replicates": 0}, "replicates"),
        ({"theta": [0, 1]}, "go with readings"),
        ({"Y": [1.0, 2.0]}, "theta is missing"),
        ({"Y": np.zeros((50, 2)), "theta": [0, 1] * 25}, "2 channels"),
        ({"Y": np.zeros(50), "theta": [0, 1] * 25, "epoch": 0}, "epoch"),
        ({"Y": np.zeros(50), "theta": [0, 1] * 25, "train": 5}, "train must be"),
        ({"Y": make_recording([1.0, 2.0], [0, 1], [0, 1]), "hours": [0.0, 1.0]}, "given twice"),
        ({"train": ([1.0], [0])}, "a simulation has its own"),
    ],
)
def test_what_cannot_be_audited_is_refused(given, match):
    """Each refusal names what is wrong and the rule."""
    with pytest.raises(ConfigurationError, match=match):
        audit(room_design(), **{"n": 100, "adversaries": {"one": Normal()}, **given})


def test_a_bare_randomizer_has_nothing_to_attack():
    """A design without models is refused."""
    with pytest.raises(ConfigurationError, match="no models"):
        audit(us.solve([[0, 1], [1, 0]], leakage=0.2))
