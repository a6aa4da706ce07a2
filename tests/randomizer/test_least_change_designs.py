"""Designs with least-change outputs: kernel and outputs found for each other, stored, streamed and audited."""

from __future__ import annotations

import numpy as np
import pytest
from least_change_cases import FAMILY, simulated

import understudy as us
from understudy.errors import DesignError, StoredFileError
from understudy.randomizer.least_change import LEAST_CHANGE, runs_of

STAY = [[0.99, 0.01], [0.01, 0.99]]


@pytest.fixture(scope="module")
def history():
    return simulated(10, 11)


@pytest.fixture(scope="module")
def made(history):
    return us.design(FAMILY, leakage=0.2, distortion="mae", output=LEAST_CHANGE, history=history)


@pytest.fixture(scope="module")
def causal(history):
    return us.design_causal(FAMILY, STAY, rate=0.0, distortion="mae", output=LEAST_CHANGE, history=history)


def test_the_design_says_what_its_output_is(made, causal) -> None:
    assert made.output == causal.output == LEAST_CHANGE
    assert us.design(FAMILY, leakage=0.2, distortion="mae", horizon=20).output == "lifelike"
    assert len(made.outputs.columns) == len(made.pseudo) == 2
    assert made.leakage <= 0.2
    assert made.target(0) is made.targets[0] is made.outputs.columns[0].target
    assert (made.costs.method == "measured").all()
    assert np.array_equal(made.cost, made.outputs.cost)


def test_it_changes_readings_less_than_a_lifelike_design_with_the_same_leakage(made, causal) -> None:
    """By the costs; and at zero budget on days that nobody has seen."""
    for column in (*made.outputs.columns, *causal.outputs.columns):
        assert column.distortion <= min(column.constant_distortion, column.lifelike_distortion)
    run = runs_of(FAMILY, simulated(40, 12), 0)[0]
    silent = us.design_causal(FAMILY, STAY, rate=0.0, distortion="mae")
    change = {}
    for name, design in (("lifelike", silent), ("least", causal)):
        column = design.draw(design.start(), 0, np.random.default_rng(1)).pseudo
        change[name] = np.abs(us.colour(run.z[:, 0], design.target(column)) - run.Y[:, 0]).mean()
    assert change["least"] < change["lifelike"]
    assert change["least"] == pytest.approx(causal.distortion, rel=0.15)


@pytest.mark.parametrize("kind", ["made", "causal"])
def test_a_file_holds_the_outputs(kind: str, request, tmp_path) -> None:
    design = request.getfixturevalue(kind)
    path = tmp_path / "room.json"
    design.save(path)
    loaded = us.load_design(path)
    assert loaded.output == LEAST_CHANGE
    assert loaded.fingerprint == design.fingerprint
    z = np.random.default_rng(1).standard_normal(200)
    for j in range(len(design.pseudo)):
        assert np.array_equal(us.colour(z, loaded.target(j)), us.colour(z, design.target(j)))
    assert [repr(column) for column in loaded.outputs.columns] == [repr(column) for column in design.outputs.columns]


def test_a_file_with_outputs_of_another_number_is_refused(made, tmp_path) -> None:
    from understudy.randomizer.design import Design

    content = made.to_content()
    content["outputs"]["columns"] = content["outputs"]["columns"][:1]
    with pytest.raises(StoredFileError, match="for each pseudo value"):
        Design.from_content(content, None)


def test_streams_give_what_the_filter_gives(made, causal) -> None:
    """A stream's output is the filter run over the scores, on the lattice; for a path of values too."""
    theta = (np.arange(300) // 60) % 2
    run = us.sample(FAMILY.along(theta.tolist()), 300, rng=3)
    z = us.whiten(run, FAMILY.along(theta.tolist()))
    stream = causal.stream(rng=5)
    out = np.array([stream.step(y, theta=int(t)) for y, t in zip(run.tolist(), theta, strict=True)])
    step = causal.resolution[0]
    targets = [us.colour(z, target) for target in causal.targets]
    assert min(np.abs(out - each).max() for each in targets) <= 0.51 * step
    one = made.stream(theta=1, rng=6)
    y = us.sample(FAMILY.model(1), 50, rng=7)
    expected = [us.colour(us.whiten(y, FAMILY.model(1)), target) for target in made.targets]
    out = one.apply(y)
    assert min(np.abs(out - each).max() for each in expected) <= 0.51 * made.resolution[0]


def test_streams_go_on_after_gaps_and_restarts(causal, tmp_path) -> None:
    theta = (np.arange(200) // 40) % 2
    Y = us.sample(FAMILY.along(theta.tolist()), 200, rng=4)
    Y[50:55] = np.nan
    whole = causal.stream(ledger=None, rng=8).apply(Y, theta=theta.tolist())
    assert np.isnan(whole[50:55]).all()
    assert np.isfinite(np.delete(whole, np.arange(50, 55))).all()
    stream = causal.stream(rng=8)
    first = stream.apply(Y[:90], theta=theta[:90].tolist())
    again = us.Stream.restore(causal, stream.snapshot())
    assert np.array_equal(
        np.concatenate([first, again.apply(Y[90:], theta=theta[90:].tolist())]), whole, equal_nan=True
    )


def test_a_fresh_share_of_one_is_a_constant_everywhere(history) -> None:
    design = us.design(FAMILY, leakage=0.0, distortion="mae", fresh=1.0, output=LEAST_CHANGE, history=history)
    assert all(column.constant for column in design.outputs.columns)
    out = design.stream(theta=0, rng=1).apply(us.sample(FAMILY.model(0), 30, rng=1))
    assert len(set(out.tolist())) == 1


def test_sources_that_need_readings_after_a_gap_have_targets_that_do_not() -> None:
    import scipy.stats

    heavy = us.Scalar(scipy.stats.t(4.0))
    family = us.Family({k: us.AutoRegressive([0.7, 0.2], 40.0 + 5.0 * k, heavy, [400.0, 400.0]) for k in (0, 1)})
    from understudy.identify.history import History, Segment

    theta = (np.arange(1500) // 50) % 2
    Y = us.sample(family.along(theta.tolist()), 1500, rng=1)
    history = History(("y",), "p", None, (), (0, 1), 600.0, (Segment("1", None, Y[:, None], theta),), ())
    design = us.design_causal(family, STAY, rate=0.0, distortion="mae", output=LEAST_CHANGE, history=history)
    Y[40] = np.nan
    out = design.stream(rng=1, gaps="withhold").apply(Y[:100], theta=theta[:100].tolist())
    assert np.flatnonzero(np.isnan(out)).tolist() == [0, 1, 40, 41, 42]


def test_an_audit_knows_the_filter(made, history) -> None:
    """The exact adversary is told the filters; with right models it does no better than from the draw."""
    found = us.audit(made, n=4000, rng=1, adversaries=["exact", "windowed"], noise=False)
    assert not found.broken
    assert abs(found.best.error.value - made.guarantee.bayes_error) < 0.04
    run = history.segments[0]
    found = us.audit(made, run.Y[:1500, 0], run.theta[:1500], ["windowed"], rng=1, noise=False, replicates=1, epoch=288)
    assert found.row("windowed") is not None


def test_fleets_give_what_the_filter_gives(causal, tmp_path) -> None:
    fleet = us.Fleet(causal, us.Ledger(tmp_path / "ledger"), "plant", key=us.MasterKey.new(), rooms=["a"])
    rng = np.random.default_rng(1)
    theta = np.zeros(40, dtype=int)
    Y = us.sample(FAMILY.along(theta.tolist()), 40, rng=rng)
    out = fleet.apply(["a"] * 40, np.arange(40), Y, theta)
    z = us.whiten(Y, FAMILY.along(theta.tolist()))
    assert min(np.abs(out - us.colour(z, target)).max() for target in causal.targets) <= 0.51 * causal.resolution[0]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"output": "pretty"}, "output = 'pretty'"),
        ({"output": LEAST_CHANGE}, "history = None"),
        ({"history": simulated(2, 1)}, "history is for"),
        ({"output": LEAST_CHANGE, "history": simulated(2, 1), "distortion": lambda y, out: abs(y - out)}, "'mae' or"),
    ],
)
def test_what_does_not_fit_together_is_refused(given, match: str) -> None:
    given = {"distortion": "mae", **given}
    with pytest.raises(DesignError, match=match):
        us.design(FAMILY, leakage=0.1, **given)
    with pytest.raises(DesignError, match=match):
        us.design_causal(FAMILY, STAY, rate=0.0, **given)


@pytest.mark.parametrize("kind", ["made", "causal"])
def test_the_card_says_that_the_output_is_a_filter_and_claims_no_optimum(kind: str, request) -> None:
    """And no law of another value; a lifelike card has no such line."""
    design = request.getfixturevalue(kind)
    card = design.guarantee
    (words,) = [words for name, words in card.card.facts if name == "Output"]
    assert "filter of the scores" in words
    assert f"{design.outputs.columns[0].distortion:.4g}" in words
    plain = card.to_dict()["output"]
    assert plain["kind"] == LEAST_CHANGE
    assert len(plain["columns"]) == (2 if kind == "made" else 1)  # at zero budget one value is drawn
    shown = f"{card.text()} {card.html()} {design!r} {design}"
    assert "exactly the law" not in shown
    assert "optimal" not in shown
    assert "output" not in us.design(FAMILY, leakage=0.2, distortion="mae").guarantee.to_dict()
