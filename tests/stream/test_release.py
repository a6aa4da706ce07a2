"""What leaves a stream: on the public lattice, whatever came in; and what may come in."""

import json
import math
import time
import warnings

import numpy as np
import pytest
import stream_worker as worker
from helpers import ALPHA, white_pvalue
from scipy import stats
from stream_helpers import FULL, opened, played, released_as

import understudy as us
from understudy.errors import ConfigurationError, ReadingError, UnderstudyWarning
from understudy.stream.release import ROW, Form, Release, Watch, default_lattice, default_range, release_of

STEP = 2.0**-11


def innovations(out):
    """What the public filter of the empty room makes of outputs."""
    x, P, e = 100.0, 1.0, []
    for y in out:
        S = P + 0.1
        e.append(y - x)
        K = 0.95 * P / S
        x = 0.95 * x + K * (y - x)
        P = 0.95**2 * P + 0.1 - K * K * S
    return np.array(e[200:])


def on_the_lattice_of_the_source(out):
    """The share of innovations near multiples of 2^-45, the spacing of readings of 128 and more."""
    f = innovations(out) * 2.0**45
    return np.mean(np.abs(f - np.round(f)) < 0.05)


@pytest.fixture(scope="module")
def empty():
    """A design that always plays the empty room."""
    return us.design(us.Family(worker.room, values=[0, 1]), pseudo=[0], leakage=0.0, horizon=50, distortion="mae")


# The lattice ---------------------------------------------------------------------------------------------------------


def test_low_order_bits_of_a_stream_do_not_tell_the_source(empty):
    """The share of innovations on the lattice of the source is the same for both values, those of whole records too."""
    shares = []
    for theta in (0, 1):
        Y = us.sample(worker.room(theta), T=300, rng=1)
        shares.append(on_the_lattice_of_the_source(empty.stream(theta).apply(Y)))
    # innovations are not on the lattice of outputs, but their low bits are those of the filter alone
    found = [round(100 * share) for share in shares]
    assert stats.fisher_exact([[found[0], 100 - found[0]], [found[1], 100 - found[1]]]).pvalue > ALPHA


def test_full_doubles_tell_the_source():
    """The twin: the exact map, in full doubles, puts all innovations of the fuller room on its lattice."""
    shares = []
    for theta in (0, 1):
        Y = us.sample(worker.room(theta), T=300, rng=1)
        shares.append(on_the_lattice_of_the_source(us.disguise(Y, worker.room(theta), worker.room(0))))
    assert shares[0] < 0.3
    assert shares[1] == 1.0


def test_only_what_is_released_is_rounded(design, readings):
    """The filter goes on with its unrounded value: outputs are those of the exact map, rounded one by one."""
    stream = design.stream(1)
    out = stream.apply(readings)
    exact = us.disguise(readings, worker.room(1), worker.room(design.pseudo[played(stream)]))
    assert np.array_equal(out, np.rint(exact / STEP) * STEP)
    assert design.resolution == (STEP,)
    assert stream.mark["resolution"] == [STEP]


def test_the_law_of_outputs_is_that_of_the_target(design):
    """Scores of rounded outputs are white (false alarm 1e-6); on a lattice of two standard deviations they are not."""
    Y = us.sample(worker.room(1), 20_000, rng=5)
    stream = design.stream(1)
    target = worker.room(design.pseudo[played(stream)])
    assert white_pvalue(us.whiten(stream.apply(Y), target)) > ALPHA
    coarse = us.disguise(Y, worker.room(1), target, resolution=1.0)
    assert white_pvalue(us.whiten(coarse, target)) < ALPHA


@pytest.mark.parametrize(
    ("model", "step"),
    [
        (worker.room(0), 2.0**-11),
        (us.IID(us.Gaussian(0.0, 1.0)), 2.0**-10),
        (us.IID(us.Scalar(stats.t(5, scale=8.0))), 2.0**-7),
        (us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1e-6)), 2.0**-20),
        (us.Quantised(worker.room(0), step=5.0), 0.0),
    ],
    ids=["room", "normal", "Student", "small", "rounded"],
)
def test_the_default_is_the_coarsest_power_of_two_that_costs_nothing(model, step):
    """At or below a thousandth of the smallest conditional standard deviation, and above half of that."""
    assert default_lattice([model]).steps == (step,)


def test_the_finest_target_decides():
    """One lattice for all pseudo values: that of the target with the smallest noise."""
    wide, narrow = (us.IID(us.Gaussian(0.0, s * s)) for s in (8.0, 1.0))
    assert default_lattice([wide, narrow]).steps == default_lattice([narrow]).steps == (2.0**-10,)


def test_correlated_channels_have_the_step_of_what_is_left_of_them():
    """The second channel, all but known from the first, has a finer lattice."""
    law = us.Gaussian([0.0, 0.0], [[1.0, 0.999], [0.999, 1.0]])
    first, second = default_lattice([us.IID(law)]).steps
    assert (first, second) == (2.0**-10, 2.0**-15)


def test_a_family_that_knows_its_decimals_leaves_on_them():
    """The sensor's own decimal step, or the coarsest power of ten that costs nothing where that is coarser."""
    for decimals, step in ((2, 0.01), (6, 1e-4), (9, 2.0**-11), (None, 2.0**-11)):
        family = us.Family(worker.room, values=[0, 1], about={"decimals": [decimals]})
        made = us.design(family, leakage=0.3, horizon=50, distortion="mae")
        assert made.resolution == (step,)


def test_a_step_that_is_none_is_refused():
    """With the value and the rule; a channel without a grid of its own must have one."""
    family = us.Family(worker.room, values=[0, 1])
    for bad in (0.3, -1.0, "fine", [0.5, 0.5], math.inf):
        with pytest.raises(ConfigurationError, match="resolution ="):
            us.design(family, leakage=0.3, horizon=50, distortion="mae", resolution=bad)
    with pytest.raises(ConfigurationError, match="needs a step"):
        us.design(family, leakage=0.3, horizon=50, distortion="mae", resolution=0)


def test_a_resolution_is_part_of_the_design(tmp_path):
    """It is kept in the file, and another one makes another design, whose streams are not those of the first."""
    family = us.Family(worker.room, values=[0, 1])
    one, two = (
        us.design(family, leakage=0.3, horizon=50, distortion="mae", resolution=step, valid=(-100, 400))
        for step in (0.5, 0.25)
    )
    one.save(tmp_path / "one.json")
    loaded = us.load_design(tmp_path / "one.json")
    assert loaded.resolution == (0.5,)
    assert loaded.release.high == (400.0,)
    assert loaded.fingerprint == one.fingerprint != two.fingerprint
    assert one.former_fingerprint == two.former_fingerprint
    out = loaded.stream(1).apply(us.sample(worker.room(1), 50, rng=1))
    assert np.array_equal(out % 0.5, np.zeros(50))


# The range -----------------------------------------------------------------------------------------------------------


def test_a_glitch_ruins_nothing(design, readings):
    """The source skips it, and the output of that reading is a fresh one: all that follows is as after a gap."""
    Y = readings[:200].copy()
    Y[100] = 1e17
    stream = design.stream(1, rng=3)
    out = stream.apply(Y)
    alone = design.stream(1, rng=3)
    assert np.array_equal([alone.step(float(y)) for y in Y], out)
    assert np.isfinite(out).all()
    target = worker.room(design.pseudo[played(stream)])
    assert np.abs(us.whiten(out, target)).max() < 6.0
    missing = np.where(np.arange(200) == 100, np.nan, Y)
    gap = design.stream(1, rng=3).apply(missing)
    assert np.isnan(gap[100])
    assert np.array_equal(gap[:100], out[:100])


def test_outputs_around_glitches_have_the_law_of_the_target(design):
    """With a glitch in every tenth reading outputs are white under the target (1e-6); the twin leaves glitches in."""
    Y = us.sample(worker.room(1), 10_000, rng=6)
    Y[::10] = 1e4
    stream = design.stream(1)
    target = worker.room(design.pseudo[played(stream)])
    assert white_pvalue(us.whiten(stream.apply(Y), target)) > ALPHA
    kept = us.disguise(Y, worker.room(1), target)
    assert white_pvalue(us.whiten(kept, target)) < ALPHA


def test_the_ends_of_the_range_belong_to_it():
    """A reading at an end is one; the next double beyond is none."""
    family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    made = us.design(family, pseudo=[0], leakage=0.0, distortion="mae", valid=(-9.0, 10.0))
    inside, outside = made.stream(0, rng=1), made.stream(0, rng=1)
    assert inside.step(10.0) == 6.0  # the score 10, clipped
    assert outside.step(math.nextafter(10.0, 11.0)) != 6.0
    for bad in ((9.0, -9.0), (0.0, math.inf), 5.0, (1.0, 2.0, 3.0), "12", {0: 1, 5: 2}, (-(10**400), 10**400)):
        with pytest.raises(ConfigurationError, match="valid ="):
            us.design(family, leakage=0.1, distortion="mae", valid=bad)


def test_the_default_range_holds_all_readings():
    """Readings of each value lie well inside; a walk has the range that it keeps for a million readings."""
    for theta in (0, 1):
        (low,), (high,) = default_range([worker.room(0), worker.room(1)])
        Y = us.sample(worker.room(theta), 5000, rng=theta)
        assert low < Y.min() - 20.0
        assert high > Y.max() + 20.0
    walk = us.GaussMarkov(1.0, 1.0, 1.0, 1.0, mean0=0.0, cov0=1.0)
    (low,), (high,) = default_range([walk])
    assert high > 38.0 * 1000.0


def test_a_vector_is_out_of_range_if_a_channel_is():
    """Both channels are then coloured from fresh scores, and none of the two is the reading's."""
    cov = [[1.0, 0.5], [0.5, 1.0]]
    family = us.Family(lambda v: us.IID(us.Gaussian([v, v], cov)), values=[0.0, 1.0])
    made = us.design(family, pseudo=[0.0], leakage=0.0, distortion="mae", valid=([-12.0, -12.0], [12.0, 12.0]))
    Y = us.sample(family.model(0.0), 20, rng=2)
    whole = made.stream(0.0, rng=4).apply(Y)
    assert released_as(whole, Y, made.resolution)
    Y[7, 1] = 90.0
    out = made.stream(0.0, rng=4).apply(Y)
    assert np.array_equal(np.delete(out, 7, axis=0), np.delete(whole, 7, axis=0))
    assert (out[7] != whole[7]).all()
    Y[7, 0] = np.nan  # a part is missing: so is the reading, whatever the other part says
    with pytest.warns(UnderstudyWarning, match="channels missing"):
        gone = made.stream(0.0, rng=4).apply(Y)
    assert np.isnan(gone[7]).all()


def test_a_range_that_the_models_leave_is_refused():
    """Readings beyond it have fresh scores, and those left are truncated: that would tell of the parameter."""
    family = us.Family(lambda v: us.IID(us.Gaussian(3.0 * v, 1.0)), values=[0, 1])
    with pytest.raises(ConfigurationError, match=r"the models leave that range.*needs -8 to 11"):
        us.design(family, leakage=0.001, distortion="mae", valid=(-4.0, 1.5))
    with pytest.raises(ConfigurationError, match="the models leave"):
        us.design(us.Family(worker.room, values=[0, 1]), leakage=0.3, horizon=9, distortion="mae", valid=(-5.0, 5.0))


@pytest.mark.sample(default=3, seconds=1, reason="many streams")
@pytest.mark.parametrize("period", [90, 600, 900, 5000, 40_000])
def test_the_default_range_holds_models_that_oscillate(period):
    """A mean that turns slowly, or for ever: no reading of the model is out of range."""
    turn = 2.0 * math.pi / period
    A = (1.0 - 1e-6) * np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    model = us.GaussMarkov(A, [[1.0, 0.0]], 1e-9 * np.eye(2), 1.0, mean0=[400.0, 0.0], cov0=1e-6 * np.eye(2))
    (low,), (high,) = default_range([model])
    Y = us.sample(model, 2 * period, rng=1)
    assert low < Y.min()
    assert high > Y.max()


@pytest.mark.sample(default=1, seconds=7, reason="three designs of simulated costs")
@pytest.mark.parametrize("first", [0, 4, 6])
def test_a_glitch_does_not_show_where_models_withhold(first):
    """Which outputs are withheld is what it is without the glitch, at the beginning, in a row and after a gap."""
    noise = us.Scalar(stats.laplace(0.0, 1.0))
    family = us.Family({v: us.AutoRegressive(0.5, noise=noise, past=[v]) for v in (0.0, 1.0)})
    made = us.design(family, leakage=0.1, horizon=3, distortion="mse", accuracy=0.4, rng=1)
    Y = us.sample(family.model(0.0), 12, rng=1)
    Y[5] = np.nan
    glitch = Y.copy()
    glitch[first] = 1e12
    outs = [made.stream(0.0, gaps="withhold", rng=2).apply(readings) for readings in (Y, glitch)]
    assert np.array_equal(np.isnan(outs[0]), np.isnan(outs[1]))
    single = made.stream(0.0, gaps="withhold", rng=2)
    again = [single.step(None if np.isnan(y) else float(y)) for y in glitch]
    assert released_as(again, outs[1], made.resolution)
    # where a missing reading is refused, a glitch is not: the refusal would tell of it
    out = made.stream(0.0).apply(np.where(np.isnan(glitch), 0.123456789123, glitch))
    assert not np.isnan(out).any()


# The form of readings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "coarse",
    [lambda y: np.round(y, 2), lambda y: np.round(y), lambda y: y.astype(np.float32).astype(float),
     lambda y: np.array([float(f"{v:.6g}") for v in y])],
    ids=["hundredths", "whole", "float32", "%.6g"],
)  # fmt: skip
@pytest.mark.parametrize("theta", [0, 1])
def test_a_stream_of_doubles_stops_where_readings_are_none(empty, coarse, theta):
    """At the 64th reading in a row, whatever the parameter is, one by one and in batches; nothing of it is released."""
    Y = coarse(us.sample(worker.room(theta), 200, rng=2))
    stream = empty.stream(theta)
    with pytest.raises(ReadingError, match="64 readings in a row"):
        stream.apply(Y)
    assert stream.count == 0
    for k, y in enumerate(Y):
        if k == ROW - 1:
            with pytest.raises(ReadingError, match="64 readings in a row"):
                stream.step(float(y))
            break
        stream.step(float(y))
    assert stream.count == ROW - 1


def test_doubles_are_never_taken_for_others(empty):
    """100,000 readings of each value: the longest row of coarse ones is 1."""
    for theta in (0, 1):
        watch = Watch(empty.release)
        Y = us.sample(worker.room(theta), 100_000, rng=theta)
        watch.many(Y[:, None])
        longest = 0
        for y in Y[:20_000].tolist():
            watch.one(y)
            longest = max(longest, watch.count)
        assert longest <= 1


def test_a_row_is_found_wherever_it_lies(empty):
    """In the middle of a batch, over the edge of two, with missing readings in between; not where a double is in it."""
    Y = us.sample(worker.room(1), 1000, rng=3)[:, None]
    coarse = np.round(Y, 3)

    def stops(*parts):
        watch = Watch(empty.release)
        try:
            for part in parts:
                watch.many(part)
        except ReadingError:
            return True
        return False

    for first in (0, 1, 31, 32, 33, 500, 936):
        mixed = Y.copy()
        mixed[first : first + 64] = coarse[first : first + 64]
        assert stops(mixed)
        mixed[first + 30] = Y[first + 30]
        assert not stops(mixed)
    assert stops(coarse[:40], coarse[40:80])
    assert stops(coarse[:50], np.concatenate([coarse[50:81], Y[81:300]]))
    assert not stops(coarse[:40], Y[:1], coarse[40:80])
    gaps = coarse[:130].copy()
    gaps[::2] = np.nan
    assert stops(gaps)


@pytest.mark.long(seconds=7, reason="designs on fine grids")
def test_single_precision_needs_models_that_round_more_coarsely():
    """Declared for continuous models it is refused, naming a step that would do; readings are moved to that grid."""
    family = us.Family(worker.room, values=[0, 1])
    with pytest.raises(ConfigurationError, match=r"us.Quantised\(model, step=") as refused:
        us.design(family, leakage=0.3, horizon=20, distortion="mae", readings="float32")
    step = float(str(refused.value).partition("step=")[2].partition(")")[0])
    rounded = us.Family(lambda v: us.Quantised(worker.room(v), step=step), values=[0, 1])
    made = us.design(rounded, leakage=0.3, horizon=20, distortion="mae", readings="float32", rng=1)
    assert made.release.forms == (Form("float32"),)
    Y = us.sample(worker.room(1), 50, rng=4)
    single = Y.astype(np.float32).astype(float)
    one, other = made.stream(1, rng=1), made.stream(1, rng=1)
    assert np.array_equal(one.apply(single), other.apply((np.rint(single / step) * step).astype(np.float32)))
    with pytest.raises(ReadingError, match="reading 1 is not of the form"):
        made.stream(1).apply(np.array([single[0], Y[1], single[2]]))


@pytest.mark.long(seconds=4, reason="designs on fine grids")
def test_significant_digits_likewise():
    """%.6g is declared as such; another number of digits is refused at the first reading that has more."""
    rounded = us.Family(lambda v: us.Quantised(worker.room(v), step=1.0), values=[0, 1])
    made = us.design(rounded, leakage=0.3, horizon=20, distortion="mae", readings="6 digits", rng=1)
    Y = np.array([float(f"{y:.6g}") for y in us.sample(worker.room(1), 30, rng=4)])
    out = made.stream(1).apply(Y)
    assert np.array_equal(out, np.round(out))
    with pytest.raises(ReadingError, match="6 significant digits"):
        made.stream(1).step(FULL)
    for bad in ("16 digits", "none", 0.01, "float16"):
        with pytest.raises(ConfigurationError, match="readings ="):
            us.design(rounded, leakage=0.3, horizon=20, distortion="mae", readings=bad, rng=1)


# Fixed schedule ------------------------------------------------------------------------------------------------------


def test_an_output_is_handed_out_at_its_time(design, tmp_path):
    """It is recorded before, and returned then; a time that has passed draws a warning, one that is none is refused."""
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        due = time.time() + 0.3
        y = stream.step(FULL, key=1, release_at=due)
        assert 0.0 <= time.time() - due < 0.25
        assert ledger.output(stream._row.id, 1) == (y,)
        with pytest.warns(UnderstudyWarning, match="after the time"):
            stream.apply([FULL, FULL], keys=[2, 3], release_at=time.time() - 1.0)
        assert stream.count == 3
        with pytest.raises(ConfigurationError, match="release_at ="):
            stream.step(FULL, key=4, release_at="soon")
        assert stream.count == 3


# Floating point ------------------------------------------------------------------------------------------------------


def test_floating_point_is_charged_by_the_number_of_readings(design, readings, tmp_path):
    """The cumulative bound in whole micro-nats, rounded up, however readings are cut; nothing below 1e-9 nats."""
    bound = design.floating
    assert bound.how == "proved"
    Y = us.sample(worker.room(1), 150_000, rng=1)
    with opened(tmp_path) as ledger:
        stream = design.stream(1, ledger, "a")
        done = 0
        for count in (1, 999, 4000, 45_000, 100_000):
            stream.apply(Y[done : done + count])
            done += count
            nats = max(0.0, bound.nats(done) - 1e-9)
            assert round(1e6 * (stream.spent - 0.3)) == math.ceil(1e6 * nats)
        assert stream.spent > 0.300001
        kinds = dict(ledger.rows("SELECT kind, sum(micronats) FROM charges GROUP BY kind"))
        assert kinds == {"draw": 300_000, "residual": round(1e6 * (stream.spent - 0.3))}
    single = design.stream(1)
    for y in Y[:100].tolist():
        single.step(y)
    assert single.spent == 0.3


def test_a_spent_budget_stops_for_floating_point_too(design, tmp_path):
    """Where not even a micro-nat is left, the reading that would cost it is refused, and nothing is released."""
    Y = us.sample(worker.room(1), 10_000, rng=1)
    with opened(tmp_path) as ledger:
        ledger.limit("a", total=0.3)
        stream = design.stream(1, ledger, "a")
        stream.apply(Y[:1000])
        with pytest.raises(us.errors.BudgetError, match="spent"):
            stream.apply(Y[1000:])
        assert stream.count == 1000


def test_the_card_says_how_readings_leave(design):
    """Lattice, form, range and floating point stand on the card, in text and as data."""
    card = design.guarantee
    assert "2^-11" in card.text()
    found = card.to_dict()["release"]
    assert found["steps"] == (STEP,)
    assert found["how"] == "proved"
    assert 0.0 < found["nats"] < 1e-9
    assert found["within"] == design.floating.readings(1e-6)


def test_a_release_is_a_value(design):
    """It can be copied, and shows nothing but what is public."""
    import copy

    release = design.release
    again = copy.deepcopy(release)
    assert isinstance(again, Release)
    assert again.to_plain() == release.to_plain()
    same = release_of([worker.room(0), worker.room(1)], [worker.room(v) for v in design.pseudo], design.terms)
    assert same.to_plain() == release.to_plain()


@pytest.mark.long(seconds=3, reason="designs of simulated costs")
def test_models_without_a_bound_say_that_theirs_is_stated():
    """Student's t: a stated accuracy of the scores, charged, and named as such on the card."""
    noise = us.Scalar(stats.t(5.0))
    family = us.Family(lambda v: us.AutoRegressive(0.5, intercept=v, noise=noise), values=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = us.design(family, leakage=0.3, horizon=10, distortion="mse", accuracy=0.2, rng=1)
    assert made.floating.how == "stated, not proved"
    assert 0.0 < made.floating.nats(1000) < 1e-4
    assert "stated, not proved" in made.guarantee.text()


@pytest.mark.long(seconds=2, reason="a design of simulated costs")
def test_scores_of_heavy_tails_are_clipped():
    """A reading far in the tail of Student's t has the output of the score 6, by steps and in batches alike."""
    noise = us.Scalar(stats.t(4.0))
    family = us.Family({v: us.IID(us.Scalar(stats.t(4.0, v))) for v in (0.0, 1.0)})
    made = us.design(family, pseudo=[1.0], leakage=0.0, distortion="mae", accuracy=0.3, rng=1)
    Y = np.array([0.1234567891, 1e5 + FULL, -1e5 - FULL])
    out = made.stream(0.0).apply(Y)
    single = made.stream(0.0)
    assert np.array_equal([single.step(float(y)) for y in Y], out)
    ends = [1.0 + float(noise.value(z)) for z in (6.0, -6.0)]
    assert released_as(out[1:], ends, made.resolution)
    exact = us.disguise(Y, family.model(0.0), family.model(1.0))
    assert abs(exact[1]) > 10.0 * abs(ends[0])


# Possible readings -----------------------------------------------------------------------------------


def _bounded(possible, **about):
    """A room whose law reaches below zero now and then, and what is known of its range."""

    def room(n):
        return us.GaussMarkov(A=0.9, C=1.0, Q=9.0, R=1.0, b=0.5 + 0.3 * n, mean0=5.0, cov0=9.0)

    known = {"possible": possible, **about} if possible else about or None
    return us.design(us.Family({v: room(v) for v in (0, 1)}, about=known), leakage=0.1, horizon=50, distortion="mae")


def test_outputs_beyond_the_possible_range_leave_at_its_ends(tmp_path):
    """In steps, batches, fleets and files alike; the outputs are those of the free design, clipped."""
    free, bound = _bounded(None), _bounded([[0.0, 12.3]])
    Y = us.sample(free.family.model(0), 400, rng=3)
    low, high = bound.release.possible[0]
    assert 0.0 == low < high <= 12.3 < high + bound.release.lattice.steps[0]
    a, b, c = (made.stream(0, rng=5) for made in (free, bound, bound))
    wide, clipped = a.apply(Y), b.apply(Y)
    assert wide.min() < 0.0
    assert wide.max() > 12.3
    np.testing.assert_array_equal(clipped, np.clip(wide, low, high))
    np.testing.assert_array_equal(clipped, [c.step(y) for y in Y])
    assert bound.release.one(math.nan) != bound.release.one(math.nan)
    assert "within 0 to" in str(bound.guarantee)
    assert bound.fingerprint != free.fingerprint
    bound.save(tmp_path / "d.json")
    assert us.load_design(tmp_path / "d.json").release.possible == bound.release.possible
    json.dumps(_bounded([[None, 12.3]]).guarantee.to_dict(), allow_nan=False)


def test_a_range_of_readings_with_a_public_offset_holds_for_the_sum():
    """Streams of such a family leave deviations, which no range is known for; `within` is for the sum."""
    release = _bounded([[0.0, 12.0]], public={"columns": []}).release
    Y = np.array([[-3.0], [20.0], [math.nan]])
    np.testing.assert_array_equal(release.rounded(Y), Y)
    np.testing.assert_array_equal(release.within(Y.copy()), [[0.0], [12.0], [math.nan]])
