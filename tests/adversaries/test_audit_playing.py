"""Cases that an audit makes: they have the law that they should, and twins that do not are told from them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.stats
from audit_cases import plain_family, room_design, switching

import understudy as us
from understudy import text
from understudy.adversaries.datasets import (
    DesignRun,
    ReplayOptions,
    add_noise,
    disguise_on_grid,
    make_recording,
    mean_distance,
    noise_scale,
    replay,
    simulate,
    transition_counts,
    with_noise,
)
from understudy.adversaries.datasets import fill_unknown as fill_unknown
from understudy.adversaries.datasets import label_shares as label_shares
from understudy.errors import ConfigurationError
from understudy.models.quantised import OnGrid

RATE = 1e-6


def _quiet(share):
    """Progress that nobody looks at."""


def _room(people, more=0.0):
    return us.GaussMarkov(A=0.9, C=1.0, Q=0.1, R=0.1, b=people + more, mean0=10.0, cov0=1.0)


def _white(z):
    """P of "these are independent standard normals": their law, and their neighbours."""
    z = np.asarray(z).reshape(len(z), -1)
    law = scipy.stats.kstest(z.ravel(), "norm").pvalue
    r = float((z[1:] * z[:-1]).mean())
    memory = 2.0 * scipy.stats.norm.sf(abs(r) * np.sqrt(z[1:].size))
    return min(law, memory)


def test_simulated_outputs_have_the_law_of_their_pseudo_value():
    """Whitened under the pseudo value they are white; the twin, whitened under theta, is not. Odds are the design's."""
    design = room_design()
    made = simulate(design, 4000, np.random.default_rng(1), _quiet)
    cases = made.judge["disguised"]
    assert (made.bound, made.independent, cases.once) == (design.guarantee.bayes_error, True, True)
    p, twin = [], []
    for j, value in enumerate(design.pseudo):
        mine = np.flatnonzero(cases.pseudo[0] == j)
        if mine.size > 50:
            outputs = np.ascontiguousarray(cases.outputs[:, :, mine])
            p.append(_white(us.whiten(outputs, design.family.model(value))))
            other = np.flatnonzero(cases.labels[0, mine] != round(value))
            if other.size > 20:
                theta = design.family.model(design.values[cases.labels[0, mine[other[0]]]])
                twin.append(_white(us.whiten(np.ascontiguousarray(outputs[:, :, other]), theta)))
    assert len(p) >= 2
    assert min(p) > RATE
    assert twin
    assert max(twin) < RATE
    counts = np.bincount(cases.labels[0] * 6 + cases.pseudo[0], minlength=12)
    expected = (design.prior[:, None] * design.randomizer.kernel).ravel() * cases.N
    seen = expected > 0.0
    assert counts[~seen].sum() == 0
    assert scipy.stats.chisquare(counts[seen], expected[seen] * counts.sum() / expected[seen].sum()).pvalue > RATE


@pytest.mark.parametrize("fresh", [0.6, 1.0])
@pytest.mark.parametrize("kind", ["constant", "causal"])
def test_a_fresh_share_is_played(kind, fresh):
    """Outputs have the law of their pseudo values, and follow the readings by sqrt(1 - s^2) of their scores."""
    family, how = us.Family(_room, values=[0, 1]), {"horizon": 20, "distortion": "mae", "fresh": fresh}
    if kind == "constant":
        design = us.design(family, leakage=0.2, **how)
    else:
        design = us.design_causal(family, [[0.9, 0.1], [0.1, 0.9]], rate=0.05, decision_every=5, **how)
    made = simulate(design, 4000, np.random.default_rng(1), _quiet)
    out, raw = (made.judge[name] for name in ("disguised", "raw"))
    scores = []
    for k in range(min(out.N, 150)):
        theta, pseudo = out.labels[:, k].tolist(), out.pseudo[:, k].tolist()
        z = us.whiten(raw.outputs[:, 0, k], family.along([design.values[i] for i in theta]))
        scores.append([z, us.whiten(out.outputs[:, 0, k], family.along([design.pseudo[j] for j in pseudo]))])
    z, mixed = np.concatenate(scores, axis=1)
    assert _white(mixed) > RATE
    assert abs((z * mixed).mean() - np.sqrt(1.0 - fresh**2)) < 5.0 * np.sqrt(2.0 / z.size)
    assert len(np.unique(mixed)) > 0.99 * mixed.size  # outputs leave on a lattice


def test_a_wrong_model_is_found_out_unless_all_is_fresh():
    """At zero budget with one pseudo value: what a wrong model leaves in a recording, a full share takes away."""
    family = us.Family(_room, values=[0, 1])
    truth = us.Family(lambda v: _room(v, 0.3 * (2 * v - 1)), values=[0, 1])
    theta = np.repeat(np.random.default_rng(3).integers(0, 2, 40), 50)
    Y = us.sample(truth.along(theta.tolist()), len(theta), rng=4)
    p = []
    for fresh in (0.0, 1.0):
        design = us.design_causal(
            family, [[0.98, 0.02], [0.02, 0.98]], [0.5], rate=0.0, horizon=20, distortion="mae", fresh=fresh
        )
        run = DesignRun(design).run(Y.reshape(-1, 1), theta, np.random.default_rng(5))
        z = us.whiten(run.output[:, 0], family.model(0.5))
        p.append(scipy.stats.ttest_ind(z[theta == 0], z[theta == 1]).pvalue)
    assert p[0] < RATE < p[1]


def test_runs_between_gaps_share_no_chance():
    """Filters that begin anew have other auxiliary uniforms and other fresh chance."""
    laws = {v: us.Markov(us.Gaussian(2.0 * v, 1.0), lambda y, v=v: us.Gaussian(0.5 * y + v, 1.0)) for v in (0, 1)}
    design = us.design(us.Family(laws), leakage=0.2, horizon=3, accuracy=0.3, fresh=0.5)
    Y = np.zeros((60, 1))
    Y[[20, 40]] = np.nan
    run = DesignRun(design).run(Y, np.zeros(60, dtype=int), np.random.default_rng(1))
    assert run.restarts == 2
    # the same readings in each run: with the same chance they would have the same outputs
    assert not np.isin(run.output[21:40], run.output[:20]).all()
    assert abs(run.output[21:40] - run.output[:19]).min() > 1e-4


def test_learned_and_judged_sequences_are_different_ones():
    """No sequence is in both halves, and no stretch number either."""
    made = simulate(room_design(), 200, np.random.default_rng(2), _quiet)
    learn, judge = made.learn["raw"], made.judge["raw"]
    assert learn.N == judge.N == 100
    assert np.intersect1d(learn.blocks, judge.blocks).size == 0
    assert not np.isin(np.round(learn.outputs[0, 0], 12), np.round(judge.outputs[0, 0], 12)).any()


def _causal(every=5):
    family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    return us.design_causal(family, [[0.9, 0.1], [0.2, 0.8]], rate=0.05, distortion="mae", decision_every=every)


def test_a_moving_theta_follows_the_chain_of_the_design():
    """Transitions of simulated paths are the design's; the output is white along the pseudo path, not along theta."""
    design = _causal()
    made = simulate(design, 12_000, np.random.default_rng(3), _quiet)
    cases = made.judge["disguised"]
    firsts = cases.labels[::5]
    assert (cases.labels == np.repeat(firsts, 5, axis=0)[: cases.T]).all()
    counts = np.zeros((2, 2))
    np.add.at(counts, (firsts[:-1].ravel(), firsts[1:].ravel()), 1)
    for row, known in zip(counts, [[0.9, 0.1], [0.2, 0.8]], strict=True):
        assert scipy.stats.binomtest(int(row[1]), int(row.sum()), known[1]).pvalue > RATE
    scores = {"pseudo": [], "labels": []}
    for k in range(cases.N):
        for name, values in (("pseudo", design.pseudo), ("labels", design.values)):
            path = [values[i] for i in getattr(cases, name)[:, k].tolist()]
            scores[name].append(us.whiten(cases.outputs[:, :, k], design.family.along(path)))
    assert _white(np.stack(scores["pseudo"], axis=2)) > RATE
    assert _white(np.stack(scores["labels"], axis=2)) < RATE


def test_a_stage_plays_as_the_models_of_whole_paths_do():
    """The output along both paths equals `disguise` between the two models of paths, on the lattice of the design."""
    design = _causal()
    stage = DesignRun(design)
    rng = np.random.default_rng(4)
    theta = switching(200, 0.05, rng)
    Y = stage.readings(theta, rng)
    Y[50:53] = np.nan
    played = stage.run(Y, theta, rng)
    one, other = (design.family.along([int(v) for v in path]) for path in (theta, played.pseudo))
    (step,), exact = design.resolution, us.disguise(Y, one, other)
    assert np.array_equal(played.output, np.rint(played.output / step) * step, equal_nan=True)
    # unrounded values agree to 1e-9: they may be to either side of the middle between two steps
    apart = np.abs(played.output - exact)
    assert np.array_equal(np.isnan(apart), np.isnan(Y))
    assert np.nanmax(apart) <= 0.5 * step + 1e-9
    assert np.allclose(stage._through(Y, theta, played.pseudo, bytes(32)), exact, rtol=0, atol=1e-9, equal_nan=True)
    assert (played.pseudo.reshape(-1, 5) == played.pseudo[::5, None]).all()


def _sensor(v):
    noise = us.Scalar(scipy.stats.t(4.0, 0.0, 1.0 + v))
    return OnGrid(us.AutoRegressive([0.7, 0.2], 3.0 + v, noise, past=[30.0, 30.0]), step=0.5)


def _grid_design():
    return us.design(us.Family({0: _sensor(0), 1: _sensor(1)}), leakage=0.2, horizon=5, distortion="mae", accuracy=0.2)


def test_a_gap_on_a_grid_withholds_the_readings_after_it():
    """Autoregressions of order two on a grid: two outputs are withheld at the beginning and after each gap."""
    stage = DesignRun(_grid_design(), 60)
    theta = (np.arange(300) // 70) % 2
    Y = np.asarray(us.sample(_sensor(0), 300, rng=1))[:, None]
    Y[[100, 200, 201, 202]] = np.nan
    output = stage.run(Y, theta, np.random.default_rng(3)).output
    assert np.isnan(output).sum() == 4 + 3 * 2
    assert np.array_equal(output, np.round(output * 2) / 2, equal_nan=True)


@pytest.mark.long(seconds=3, reason="sequences through cells, one by one")
def test_many_sequences_on_a_grid_have_the_law_of_the_target():
    """Scores of 150 disguised sequences, with fresh uniforms, are white under the target and not under the source."""
    rng = np.random.default_rng(5)
    Y = us.sample(_sensor(0), 12, 150, rng=rng)
    out = disguise_on_grid(Y, _sensor(0), _sensor(1), rng)
    assert np.array_equal(out, np.round(out * 2) / 2)
    scores = [np.stack([us.whiten(out[:, :, k], _sensor(v), rng) for k in range(150)], axis=2) for v in (1, 0)]
    assert _white(scores[0]) > RATE
    assert _white(scores[1]) < RATE


def test_unknown_values_are_those_before_them():
    """A path with unknown values is filled from the past; one without any known value is refused."""
    assert fill_unknown(np.array([-1, -1, 1, -1, 0])).tolist() == [1, 1, 1, 1, 0]
    with pytest.raises(ConfigurationError, match="no known private value"):
        fill_unknown(np.array([-1, -1]))


def _recording(T, rng, design, rate=0.02, **more):
    theta = switching(T, rate, rng)
    Y = DesignRun(design).readings(theta, rng)
    return make_recording(Y, theta.tolist(), [0, 1], **more)


def test_a_recording_is_replayed_in_copies():
    """Copies share labels, hours and stretches with the raw rows, and have draws of their own; no row is in both."""
    rng = np.random.default_rng(6)
    design = us.design(plain_family(), leakage=0.2, horizon=20, distortion="mae")
    hours = (np.arange(600) / 4.0) % 24.0
    recording = _recording(600, rng, design, hours=hours, days=np.arange(600) // 96 % 7)
    made = replay(design, recording, ReplayOptions(3), rng, _quiet)
    raw, cases = made.judge["raw"], made.judge["disguised"]
    assert (raw.N, cases.N) == (1, 3)
    assert np.array_equal(raw.outputs[:, 0, 0], recording.Y[300:, 0])
    for k in range(3):
        assert np.array_equal(cases.labels[:, k], recording.theta[300:])
        assert np.array_equal(cases.hours[:, k], hours[300:])
        assert np.array_equal(cases.blocks[:, k], raw.blocks[:, 0])
        assert (cases.pseudo[:, k].reshape(-1, 20) == cases.pseudo[::20, k][:, None]).all()
    assert not np.array_equal(cases.pseudo[:, 0], cases.pseudo[:, 1])
    assert np.array_equal(made.learn["raw"].outputs[:, 0, 0], recording.Y[:300, 0])
    assert not cases.once
    assert text.epoch_note(20) in made.notes


def test_segments_of_a_constant_theta_are_one_guess_each():
    """Where theta is constant in each segment there is one draw and one guess for it, and a bound."""
    rng = np.random.default_rng(7)
    design = us.design(plain_family(), leakage=0.2, horizon=20, distortion="mae")
    theta = np.repeat(rng.integers(0, 2, 40), 20)
    Y = DesignRun(design).readings(theta, rng)
    recording = make_recording(Y, theta.tolist(), [0, 1], segments=np.repeat(np.arange(40), 20))
    made = replay(design, recording, ReplayOptions(2), rng, _quiet)
    cases = made.judge["disguised"]
    assert cases.once
    assert cases.N == 2 * made.judge["raw"].N
    assert (cases.pseudo == cases.pseudo[0]).all()
    assert np.array_equal(np.unique(cases.truth_blocks), np.arange(made.judge["raw"].N))
    odds = np.bincount(made.judge["raw"].truth, minlength=2) / made.judge["raw"].N
    assert made.bound == pytest.approx(1.0 - (odds[:, None] * design.randomizer.kernel).max(axis=0).sum())


def test_another_recording_can_be_learned_from_and_long_ones_are_cut():
    """With a recording to learn from all of the other is judged; short segments are not padded out."""
    rng = np.random.default_rng(8)
    design = us.design(plain_family(), leakage=0.2, horizon=20, distortion="mae")
    train = _recording(400, rng, design)
    lengths = [6000, *[50] * 30]
    theta = switching(sum(lengths), 0.02, rng)
    Y = DesignRun(design).readings(theta, rng)
    test = make_recording(Y, theta.tolist(), [0, 1], segments=np.repeat(np.arange(31), lengths))
    made = replay(design, test, ReplayOptions(1, 20, train), rng, _quiet)
    raw = made.judge["raw"]
    assert made.learn["raw"].guesses == 400
    assert raw.guesses == sum(lengths)
    assert raw.outputs.size < 4 * sum(lengths) + 10_000
    judged = raw.labels >= 0
    assert np.array_equal(np.sort(raw.outputs[:, 0][judged]), np.sort(Y[:, 0]))


def test_models_without_a_law_across_gaps_begin_anew_and_it_is_said():
    """Where a stream would stop, filters begin anew after the gap, and the notes tell of it."""
    rng = np.random.default_rng(9)
    heavy = {v: us.AutoRegressive(0.5, v, us.Scalar(scipy.stats.t(4.0)), past=[2.0 * v]) for v in (0.0, 1.0)}
    design = us.design(us.Family(heavy), leakage=0.2, horizon=5, distortion="mae", accuracy=0.2)
    stage = DesignRun(design, 20)
    stage.refill = None
    theta = switching(100, 0.05, rng)
    Y = stage.readings(theta, rng)
    Y[30:33] = np.nan
    played = stage.run(Y, theta, rng)
    assert played.restarts == 1
    assert np.array_equal(np.isnan(played.output), np.isnan(Y))
    recording = make_recording(np.concatenate([Y, Y]), np.concatenate([theta, theta]).tolist(), [0.0, 1.0])
    made = replay(design, recording, ReplayOptions(1, 20), rng, _quiet)
    assert any("withheld" in note for note in made.notes)


def test_noise_has_the_wanted_size():
    """Mean absolute noise is as wanted, rounded or not; the noisy readings stay on their grid."""
    rng = np.random.default_rng(10)
    for wanted, step in ((2.0, 0.0), (0.5, 1.0), (0.05, 1.0), (3.0, 1.0), (40.0, 1.0)):
        s = noise_scale(wanted, step)
        Y = np.zeros((400_000, 1, 1))
        grid = (np.array([step]), np.zeros(1)) if step else None
        noise = np.abs(add_noise(Y, np.array([s]), grid, rng)).ravel()
        assert abs(noise.mean() - wanted) < 5.0 * noise.std() / np.sqrt(noise.size) + 1e-9
        assert not step or np.array_equal(noise, np.rint(noise))


def test_noise_of_an_audit_is_that_of_the_disguise():
    """Readings with noise are as far from the raw ones as the output is, to a few percent."""
    made = with_noise(simulate(room_design(), 2000, np.random.default_rng(11), _quiet), np.random.default_rng(0))
    far = mean_distance(made.judge["raw"], made.judge["disguised"])
    noisy = mean_distance(made.judge["raw"], made.judge["noise"])
    assert noisy == pytest.approx(far, rel=0.02)
    assert made.known["noise"].noise == pytest.approx(far * np.sqrt(np.pi / 2))
    assert made.known["raw"].raw
    assert np.array_equal(made.known["raw"].kernel, np.eye(2))


def test_a_released_output_is_taken_as_it_is():
    """What was made elsewhere is judged unchanged; without a recording its own first part is learned from."""
    rng = np.random.default_rng(12)
    design = us.design(plain_family(), leakage=0.2, horizon=20, distortion="mae")
    recording = _recording(400, rng, design)
    output = DesignRun(design, 20).run(recording.Y, recording.theta, rng).output
    made = replay(design, recording, ReplayOptions(2, 20, output=output), rng, _quiet)
    assert np.array_equal(made.judge["disguised"].outputs[:, 0, 0], output[200:, 0])
    assert np.array_equal(made.judge["raw"].outputs[:, 0, 0], recording.Y[200:, 0])
    assert np.array_equal(made.learn["disguised"].outputs[:, 0, 0], output[:200, 0])
    assert made.judge["disguised"].pseudo is None
    train = _recording(300, rng, design)
    other = replay(design, recording, ReplayOptions(2, 20, train, output, raw=False), rng, _quiet)
    assert other.learn["disguised"].N == 2
    assert other.judge["disguised"].guesses == 400
    assert "raw" not in other.judge
    with pytest.raises(ConfigurationError, match="released has 399 rows of 1 channels, and there are 400 rows"):
        replay(design, recording, ReplayOptions(2, 20, output=output[:-1]), rng, _quiet)


def test_what_an_adversary_knows_is_counted():
    """Transitions and odds come from labels, and unknown ones do not count."""
    labels = np.array([[0, 0], [0, 1], [1, 1], [1, -1], [1, 0]])
    P = transition_counts(labels, 2)
    assert P.sum(axis=1) == pytest.approx([1.0, 1.0])
    spread = np.array([2.0, 6.0]) / 8.0  # arrivals at 0 and 1, one more each: 1 and 5
    assert P[0] == pytest.approx((np.array([1.0, 2.0]) + spread) / 4.0)
    assert label_shares(labels, 2) == pytest.approx([4.5 / 10, 5.5 / 10])


def test_an_estimated_theta_is_estimated():
    """A design that guesses theta from the readings is played by its guesses, not by the labels."""
    family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 6], prior=[0.5, 0.5])
    design = us.design_causal(
        family, [[0.9, 0.1], [0.1, 0.9]], rate=0.05, distortion=[[0, 1], [1, 0]], accept_estimated_theta=True
    )
    rng = np.random.default_rng(13)
    theta = switching(100, 0.1, rng)
    stage = DesignRun(design)
    Y = stage.readings(theta, rng)
    told, other = (stage.run(Y, path, np.random.default_rng(1)).output for path in (theta, 1 - theta))
    assert np.array_equal(told, other)


def test_a_design_without_models_is_refused():
    """A bare randomizer cannot be played."""
    with pytest.raises(ConfigurationError, match="no models"):
        DesignRun(us.solve([[0, 1], [1, 0]], leakage=0.2))
    assert dataclasses.is_dataclass(simulate(room_design(), 8, np.random.default_rng(0), _quiet))
