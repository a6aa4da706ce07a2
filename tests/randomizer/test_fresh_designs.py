"""Designs with a fresh share: figures, files, charges and cards; without one all is what it was."""

import math
from fractions import Fraction

import numpy as np
import pytest

import understudy as us
from understudy.errors import ConfigurationError, DesignError, StoredFileError
from understudy.randomizer.causal import path_distortion, true_distortion
from understudy.randomizer.priors import design_conditional, design_robust

FLIP = [[0.95, 0.05], [0.05, 0.95]]
HOW = {"horizon": 20, "distortion": "mae"}


def room(people):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * people, mean0=100.0, cov0=1.0)


def rounded(level):
    return us.Quantised(us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=level, mean0=10.0, cov0=1.0), step=1.0)


FAMILY = us.Family(room, values=[0, 1])
ROUNDED = us.Family(rounded, values=[0, 1])
KINDS = {
    "design": lambda fresh: us.design(FAMILY, [0, 0.5, 1], leakage=0.3, **HOW, fresh=fresh),
    "causal": lambda fresh: us.design_causal(FAMILY, FLIP, rate=0.02, **HOW, fresh=fresh),
    "robust": lambda fresh: design_robust(FAMILY, priors=[[0.3, 0.7], [0.6, 0.4]], leakage=0.2, **HOW, fresh=fresh),
    "approximate": lambda fresh: us.design(ROUNDED, leakage=0.3, horizon=5, accuracy=0.2, fresh=fresh),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fresh", [0.6, 1.0])
def test_a_file_brings_the_share_back(kind, fresh, tmp_path):
    """With its costs, its charge and its fingerprint; streams of the copy give the same bits."""
    made = KINDS[kind](fresh)
    made.save(tmp_path / "a.json")
    loaded = us.load_design(tmp_path / "a.json")
    assert loaded.fresh == made.fresh == fresh
    assert loaded.fingerprint == made.fingerprint
    assert loaded.distortion == made.distortion
    assert repr(loaded.floating) == repr(made.floating)
    Y = us.sample(made.family.model(1), 30, rng=1)
    outs = [one.stream(1, rng=5).apply(Y, theta=[1] * 30 if kind == "causal" else None) for one in (made, loaded)]
    assert np.array_equal(*outs)
    assert loaded.guarantee.to_dict() == made.guarantee.to_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_no_share_is_stored_nowhere(kind, tmp_path):
    """Files and fingerprints are those of designs that know of none."""
    made = KINDS[kind](0.0)
    made.save(tmp_path / "a.json")
    assert "fresh" not in (tmp_path / "a.json").read_text()
    assert "fresh" not in made.guarantee.to_dict()
    assert "fresh" not in repr(made)
    other = KINDS[kind](0.6)
    assert made.fresh == 0.0
    assert len({made.fingerprint, other.fingerprint, made.former_fingerprint, other.former_fingerprint}) == 4
    assert "fresh=0.6" in repr(other)


@pytest.mark.parametrize("bad", [1.5, -0.5, "much", None, True])
def test_a_file_with_a_share_that_is_none_is_refused(bad, tmp_path):
    from understudy.serialize import write

    content = KINDS["design"](0.5).to_content()
    write(tmp_path / "a.json", content | {"fresh": bad}, "design", 2)
    with pytest.raises(StoredFileError):
        us.load_design(tmp_path / "a.json")


@pytest.mark.parametrize("bad", [1.5, -0.5, math.nan, "0.5", None, True])
@pytest.mark.parametrize("kind", ["design", "causal", "robust"])
def test_a_share_that_is_none_is_refused(kind, bad):
    with pytest.raises((ConfigurationError, DesignError), match="fresh"):
        KINDS[kind](bad)


# Distortion and charges -------------------------------------------------------------------------------------


def test_the_share_costs_distortion_and_no_leakage():
    """More of it, more distortion; the leakage, the budget and every bound on guesses stay."""
    found = [KINDS["design"](s) for s in (0.0, 0.3, 0.6, 1.0)]
    assert [one.leakage for one in found] == pytest.approx([0.3] * 4)
    assert np.all(np.diff([one.distortion for one in found]) > 0.0)
    # even a value that plays itself changes the readings
    assert (np.diag(found[0].cost[:, [0, 2]]) == 0.0).all()
    assert (np.diag(found[1].cost[:, [0, 2]]) > 0.0).all()
    assert all(one.lower_bound <= one.distortion for one in found)
    causal = [KINDS["causal"](s) for s in (0.0, 0.6)]
    assert causal[0].rate == pytest.approx(causal[1].rate, rel=1e-6)
    assert causal[0].distortion < causal[1].distortion


def test_paths_have_the_share_too():
    """A path that plays itself costs something, as much as a value that does; exactly."""
    made = us.design_causal(FAMILY, FLIP, rate=0.02, **HOW, decision_every=5, fresh=0.6)
    value, error = path_distortion(made, [1] * 4, [1] * 4)
    assert error == 0.0
    assert value == pytest.approx(made.costs.matrix[1, 1], rel=1e-9)
    assert path_distortion(us.design_causal(FAMILY, FLIP, rate=0.02, **HOW), [0, 1], [0, 1]) == (0.0, 0.0)
    found = true_distortion(made, 6, 4, rng=1)
    assert found.true > 0.0


def test_what_approximate_models_leak_shrinks_by_the_factor():
    """Each residual is a divergence from white noise: 1 - s^2 of it is charged, rounded up, and no less."""
    plain, mixed = KINDS["approximate"](0.0), KINDS["approximate"](0.6)
    factor = 1 - Fraction(0.6) ** 2
    for before, after in zip(plain.charge.charged, mixed.charge.charged, strict=True):
        assert Fraction(before) * factor <= Fraction(after) <= Fraction(before) * factor * (1 + Fraction(1, 10**12))
    assert 0.0 < mixed.charge.variation < plain.charge.variation
    assert mixed.total_leakage <= 0.3
    assert mixed.residual_of_block()[0] == mixed.charge.total
    assert KINDS["approximate"](1.0).charge is None
    assert KINDS["approximate"](1.0).residual_of_block() is None


def test_all_fresh_needs_no_exact_models():
    """A causal design refuses approximate models, unless no reading enters its outputs."""
    how = {"rate": 0.05, "horizon": 5, "accuracy": 0.2}
    with pytest.raises(DesignError, match="approximate"):
        us.design_causal(ROUNDED, FLIP, **how, fresh=0.99)
    made = us.design_causal(ROUNDED, FLIP, **how, fresh=1.0)
    outs = [made.stream(rng=3).apply(Y, theta=[0] * 9) for Y in (np.full(9, 10.0), np.full(9, 12.0))]
    assert np.array_equal(*outs)


def test_frontiers_and_clocks_have_the_share():
    curve = us.frontier(FAMILY, leakages=[0.0, 0.3], **HOW, fresh=0.6)
    assert [one.fresh for one in curve.designs] == [0.6, 0.6]
    same = us.design(FAMILY, leakage=0.3, **HOW, fresh=0.6)
    assert curve.designs[1].distortion == pytest.approx(same.distortion)
    clock = design_conditional(FAMILY, priors={"night": [0.9, 0.1], "day": [0.4, 0.6]}, leakage=0.2, **HOW, fresh=0.6)
    assert clock.at("day").fresh == 0.6
    assert "0.64 times" in clock.card()


# The card ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["design", "causal"])
def test_the_card_states_the_theorem(kind):
    """The factor 1 - s^2 and the divergence that it is for; bounds of the draw stay as they are."""
    card, plain = KINDS[kind](0.6).guarantee, KINDS[kind](0.0).guarantee
    assert card.to_dict()["fresh"] == {"share": 0.6, "factor": pytest.approx(0.64)}
    (words,) = [said for name, said in card.card.facts if name == "Fresh share"]
    assert "0.64 times" in words and "KL" in words  # noqa: PT018  # one sentence
    (models,) = [said for said in card.not_protected if said.startswith("Wrong models")]
    assert "0.64" in models
    assert not any(name == "Fresh share" for name, _ in plain.card.facts)
    if kind == "design":
        assert [one.value for one in card.measures] == [one.value for one in plain.measures]


@pytest.mark.parametrize("kind", ["design", "causal"])
def test_the_card_of_all_fresh_outputs_needs_no_model(kind):
    card = KINDS[kind](1.0).guarantee
    assert not any("models" in said.lower() and "wrong" in said.lower() for said in card.not_protected)
    assert not any("model right" in one.sentence or "models right" in one.sentence for one in card.measures)
    assert card.to_dict()["fresh"]["factor"] == 0.0
    assert "model right" in KINDS[kind](0.6).guarantee.text().replace("models", "model").replace("\n", " ")


def test_a_card_without_a_theorem_states_none():
    """Where theta is estimated, what is done is said, and no bound."""
    card = KINDS["causal"](0.6).with_estimated_theta().guarantee
    (words,) = [said for name, said in card.card.facts if name == "Fresh share"]
    assert "KL" not in words


def test_floating_point_is_bounded_with_a_share():
    """Proved for Gauss-Markov models; nothing is left where no reading enters."""
    plain, mixed = KINDS["design"](0.0).floating, KINDS["design"](0.6).floating
    assert mixed.how == plain.how == "proved"
    assert 0.5 * plain.nats(1000) < mixed.nats(1000) < 4.0 * plain.nats(1000)
    assert KINDS["design"](1.0).floating is None


def test_the_bound_on_floating_point_holds_on_readings():
    """Outputs in doubles are within the bound of those in 50 digits, where the map without a share is known exactly."""
    from decimal import Decimal, localcontext

    from understudy.laws.uniforms import Uniforms
    from understudy.transform.core import FreshShare
    from understudy.transform.roundoff import output_error

    # A = 0: readings are independent, so that the map is z = (y - m) / r, ~y = ~m + ~r z'
    source, target = (
        us.GaussMarkov(0.0, 1.0, 0.0, r * r, b=m, mean0=0.0, cov0=0.0) for m, r in ((30.0, 3.0), (7.0, 5.0))
    )
    key, s = bytes(range(32)), 0.6
    Y = us.sample(source, 2000, rng=1)
    out = us.disguise(Y, source, target, key, fresh=s)
    share = FreshShare(s, Uniforms(key), 1)
    bound = output_error(source, target, largest=100.0, fresh=s)[0]
    with localcontext() as context:
        context.prec = 50
        for y, w, found in zip(Y, share.normals(0, 2000)[:, 0], out, strict=True):
            z = (Decimal(float(y)) - 30) / 3
            exact = 7 + 5 * (Decimal(share.rest) * z + Decimal(s) * Decimal(float(w)))
            assert abs(Decimal(float(found)) - exact) <= Decimal(float(bound))
