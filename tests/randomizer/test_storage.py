"""Designs on disk: every bit comes back, the family is the right one, and what a file claims is worked out again."""

from __future__ import annotations

import json
import math
from dataclasses import fields

import numpy as np
import pytest
from helpers import OwnGaussMarkov, room, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import understudy as us
from understudy.errors import StoredFileError, UnderstudyError
from understudy.randomizer import design, solver
from understudy.randomizer import solver as inverse
from understudy.serialize import fingerprint
from understudy.stream.release import Terms

INF = math.inf
NOISE = us.Gaussian(0.0, 1.0)
PSEUDO = [0, 0.2, 0.4, 0.6, 0.8, 1]
# every field of a design that is a number or a word
FIGURES = [
    field.name
    for field in fields(us.Design)
    if field.name not in ("randomizer", "prior", "cost", "demand", "family", "costs", "terms", "_guarantee")
]


def absolute(y, y_out):
    return np.abs(y - y_out)


def exact_room():
    return us.design(us.Family(room, [0, 1]), PSEUDO, leakage="0.3 nats", horizon=50, distortion="mae")


def simulated():
    family = us.Family({"low": us.IID(us.Gaussian(0.0, 1.0)), "high": us.AutoRegressive([0.5], 1.0, NOISE)})
    return us.design(family, leakage=0.2, horizon=6, distortion=absolute, accuracy=0.05, rng=1)


def many_kinds():
    family = us.Family({(0, "a"): room(0), (1, "b"): us.AutoRegressive([0.5, 0.2], 3.0, NOISE)}, prior=[0.3, 0.7])
    return us.design(family, error_at_least=0.1, horizon=12)


def bare():
    return us.solve((np.arange(4.0)[:, None] - np.arange(5.0)) ** 2, prior=[0.1, 0.2, 0.3, 0.4], leakage=0.25)


def forbidding():
    return us.solve([[0.0, 1.0, INF], [INF, 1.0, 0.5], [2.0, INF, 0.0]], distortion_at_most=0.4)


DESIGNS = {
    "the paper's room": exact_room,
    "simulated costs": simulated,
    "values of several kinds": many_kinds,
    "bare costs": bare,
    "forbidden pairs": forbidding,
    "nothing leaks": lambda: us.solve(1.0 - np.eye(3), leakage=0.0),
    "saturated": lambda: us.solve(1.0 - np.eye(3), leakage=INF),
    "an error": lambda: us.solve(1.0 - np.eye(3), error_at_least=0.3),
    "a tiny budget": lambda: us.solve(1.0 - np.eye(3), leakage=1e-9),
    "huge offsets": lambda: us.solve(1e12 + np.arange(12.0).reshape(3, 4) ** 2 % 7, leakage=0.3),
    "tiny costs": lambda: us.solve((1.0 - np.eye(3)) * 1e-300, leakage=0.3),
    "values that cannot occur": lambda: us.solve(
        [[0.0, 1.0], [1.0, 0.0], [INF, 3.0]], prior=[0.5, 0.5, 0.0], leakage=0.2
    ),
    "impossible rows": lambda: us.solve([[0.0, 1.0], [1.0, 0.0], [INF, INF]], prior=[0.5, 0.5, 0.0], leakage=0.2),
}


@pytest.mark.sample(default=7, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("name", DESIGNS)
def test_every_bit_comes_back(tmp_path, name):
    """Kernel, costs, prior, figures, names: as they were; and saving again writes the same file."""
    made = DESIGNS[name]()
    mark = made.save(tmp_path / "design.json")
    loaded = us.load_design(tmp_path / "design.json")
    for a, b in (
        (made.randomizer.kernel, loaded.randomizer.kernel),
        (made.cost, loaded.cost),
        (made.prior, loaded.prior),
    ):
        assert same_bits(a, b)
        assert not b.flags.writeable
    for figure in FIGURES:
        assert repr(getattr(loaded, figure)) == repr(getattr(made, figure))
    # a file says what the terms have come to: a lattice, forms and a range, the same for the copy
    if made.family is None:
        assert loaded.terms == made.terms == Terms()
    else:
        assert loaded.fresh == made.fresh == loaded.terms.fresh
        terms = {**loaded.terms._asdict(), "valid": list(loaded.terms.valid)}
        assert (
            loaded.release.to_plain() | {"fresh": loaded.fresh, "outputs": None}
            == made.release.to_plain() | {"fresh": made.fresh, "outputs": None}
            == terms
        )
        assert repr(loaded.floating) == repr(made.floating)
        assert loaded.resolution == made.resolution
    assert loaded.values == made.values
    assert [type(value) for value in loaded.pseudo] == [type(value) for value in made.pseudo]
    assert loaded.demand == made.demand
    assert repr(loaded) == repr(made)
    assert str(loaded) == str(made)
    assert loaded.relative_distortion == made.relative_distortion
    assert loaded.save(tmp_path / "again.json") == mark
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "design.json").read_bytes()
    assert {"distortion", "lower_bound", "leakage", "budget", "status", "slope", "distortion_error"} < set(FIGURES)


def test_steps_may_be_an_array():
    """As `us.disguise` takes them."""
    two = us.Family(lambda v: us.IID(us.Gaussian([v, 2.0 * v], np.eye(2))), [0, 1])
    made = us.design(two, leakage=0.3, horizon=5, distortion="mae", resolution=np.array([0.01, 0.5**9]))
    assert made.resolution == (0.01, 0.5**9)


def test_a_loaded_design_disguises_as_the_first_did(tmp_path):
    """Its models whiten and colour to the same bits, and its card says the same."""
    made = exact_room()
    made.save(tmp_path / "room.json")
    loaded = us.load_design(tmp_path / "room.json")
    Y = us.sample(room(1), 40, rng=1)
    first, second = (us.disguise(Y, design.family.model(1), design.family.model(0.6)) for design in (made, loaded))
    assert same_bits(first, second)
    assert loaded.guarantee.bayes_error == made.guarantee.bayes_error == pytest.approx(0.1336, abs=5e-5)


def test_the_error_of_a_simulation_comes_back(tmp_path):
    """Also that of other mixtures of the costs, since the groups are kept."""
    made = simulated()
    made.save(tmp_path / "design.json")
    loaded = us.load_design(tmp_path / "design.json")
    assert loaded.distortion_error == made.distortion_error > 0.0
    w = np.array([[0.1, 0.4], [0.3, 0.2]])
    assert loaded.costs.expected(w) == made.costs.expected(w)
    assert repr(loaded.costs) == repr(made.costs)


# --- the family -------------------------------------------------------------------------------------------------------


def growing(v):
    """A model that holds a function of one's own."""
    return us.GaussMarkov(A=0.9, C=1.0, Q=0.1, R=0.1, b=lambda k: v + 0.1 * math.sin(k), mean0=0.0, cov0=1.0)


def own(v, R=0.5):
    return OwnGaussMarkov(us.GaussMarkov(0.9, 1.0, 1.0, R, b=v, mean0=0.0, cov0=1.0))


@pytest.mark.sample(default=1, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("make", [growing, own])
def test_models_with_functions_are_not_saved(tmp_path, make):
    """Refused with the way out; without models, and with the family given on loading, every bit comes back."""
    family = us.Family(make, [0.0, 1.0])
    made = us.design(family, leakage=0.3, horizon=5, accuracy=0.1)
    with pytest.raises(UnderstudyError, match=r"save without models, .* load_design\(path, family="):
        made.save(tmp_path / "design.json")
    assert not (tmp_path / "design.json").exists()
    made.save(tmp_path / "design.json", models=False)
    alone = us.load_design(tmp_path / "design.json")
    assert alone.family is None
    assert same_bits(alone.randomizer.kernel, made.randomizer.kernel)
    loaded = us.load_design(tmp_path / "design.json", family=us.Family(make, [0.0, 1.0]))
    assert same_bits(loaded.randomizer.kernel, made.randomizer.kernel)
    assert loaded.family.values == (0.0, 1.0)


def test_another_family_is_refused(tmp_path):
    """A parameter that is 1e-6 off, other values, another prior, the order, too few."""
    made = us.design(us.Family(own, [0.0, 1.0]), leakage=0.3, horizon=5, accuracy=0.1)
    made.save(tmp_path / "design.json", models=False)
    for family, words in (
        (us.Family(lambda v: own(v, R=0.5 * (1.0 + 1e-6)), [0.0, 1.0]), "the model of value 0 is not the one"),
        (us.Family(lambda v: own(v * (1.0 + 1e-6)), [0.0, 1.0]), "the model of value 1 is not the one"),
        (us.Family(own, [0.0, 2.0]), "other values"),
        (us.Family(own, [1.0, 0.0]), "other values"),
        (us.Family(own, [0, 1]), "other values"),
        (us.Family(own, [0.0, 1.0, 2.0]), "other values"),
        (us.Family(own, [0.0, 1.0], [0.4, 0.6]), "another prior"),
    ):
        with pytest.raises(StoredFileError, match=words):
            us.load_design(tmp_path / "design.json", family=family)
    assert us.load_design(tmp_path / "design.json", family=us.Family(own, [0.0, 1.0])).leakage == made.leakage


def test_pseudo_values_are_checked_too(tmp_path):
    """A family that differs at a pseudo value alone."""
    made = exact_room()
    made.save(tmp_path / "room.json")
    other = us.Family(lambda v: room(v, R=0.1 + 1e-6 * (v == 0.4)), [0, 1])
    with pytest.raises(StoredFileError, match="the model of pseudo value 2 is not the one"):
        us.load_design(tmp_path / "room.json", family=other)
    same = us.load_design(tmp_path / "room.json", family=us.Family(room, [0, 1]))
    assert same.family.model(0.5).dim == 1  # the family that was given, a function still


def test_bare_costs_take_no_family(tmp_path):
    """There is nothing to attach it to."""
    bare().save(tmp_path / "design.json")
    with pytest.raises(StoredFileError, match="made from bare costs"):
        us.load_design(tmp_path / "design.json", family=us.Family(room, [0, 1]))


def test_a_distribution_of_scipy_is_saved_by_its_name(tmp_path):
    """Laws that scipy.stats has under a name are parameters, not code."""
    family = us.Family({k: us.IID(us.Scalar(stats.gamma(2.0 + k))) for k in range(2)})
    made = us.design(family, leakage=0.2, distortion="mae")
    made.save(tmp_path / "design.json")
    assert same_bits(us.load_design(tmp_path / "design.json").cost, made.cost)


# --- files that lie ---------------------------------------------------------------------------------------------------


def rewrite(path, change):
    """Change the content of a document and give it the fingerprint of what it now holds."""
    document = json.loads(path.read_text())
    change(document["content"])
    covered = {key: document[key] for key in ("format", "version", "content")}
    path.write_text(json.dumps({**document, "fingerprint": fingerprint(covered)}))


def set_number(name, factor):
    def change(content):
        content["numbers"][name] *= factor

    return change


def shift(content):
    """One part in 2^53 from a column to another."""
    row = content["kernel"][0]
    row[row.index(max(row))] -= 10**12
    row[row.index(min(row))] += 10**12


def heavier(content):
    content["kernel"][0][0] += 1


def replaced(**changes):
    def change(content):
        content.update(changes)

    return change


GIVE = "is not what the kernel, the prior and the costs give"
LIES = {
    "less leakage": (set_number("leakage", 0.99), f"leakage {GIVE}"),
    "less distortion": (set_number("distortion", 0.99), f"distortion {GIVE}"),
    "a smaller budget": (set_number("budget", 0.9), f"budget {GIVE}"),
    "a higher bound": (set_number("lower_bound", 1.1), f"lower_bound {GIVE}"),
    "a lower bound": (set_number("lower_bound", 0.9), f"lower_bound {GIVE}"),
    "a smaller demand": (replaced(demand=["leakage", 0.2]), "not a solution"),
    "a larger demand": (replaced(demand=["leakage", 0.3]), "not a solution"),
    "a demand of something else": (replaced(demand=["kindness", 0.3]), "demand must be"),
    "another kernel": (shift, "not a solution"),
    "a row of more than one": (heavier, "sum to 2\\^53"),
    "negative counts": (lambda c: c["kernel"].__setitem__(0, [2**53 + 1, -1, 0, 0, 0]), "sum to 2\\^53"),
    "fractions": (lambda c: c["kernel"].__setitem__(0, [2.0**53, 0, 0, 0, 0]), "sum to 2\\^53"),
    "another prior": (lambda c: c.update(prior=[0.25] * 4), "not a solution"),
    "a prior of less than one": (lambda c: c.update(prior=[0.1, 0.2, 0.3, 0.3]), "does not hold together"),
    "a negative prior": (lambda c: c.update(prior=[0.1, 0.2, 0.9, -0.2]), "does not hold together"),
    "a short prior": (lambda c: c.update(prior=[0.5, 0.5]), "prior has the shape"),
    "cheaper costs": (lambda c: c.update(cost=[[0.5 * x for x in row] for row in c["cost"]]), f"{GIVE}|not a solution"),
    "negative costs": (lambda c: c["cost"][0].__setitem__(0, -1.0), "costs are not those"),
    "ragged costs": (lambda c: c["cost"][0].append(0.5), "ragged|shape"),
    "costs in words": (lambda c: c["cost"][0].__setitem__(0, "nothing"), "cost"),
    "another status": (replaced(status="inexact"), f"status or iterations {GIVE}"),
    "no status": (lambda c: c.pop("status"), "the fields are not those of a design"),
    "one field too many": (replaced(note="hello"), "the fields are not those of a design"),
    "no kernel": (replaced(kernel=[]), "kernel has the shape|does not hold together"),
    "no figures": (replaced(numbers={}), "does not hold together"),
    "no demand": (replaced(demand=None), "does not hold together"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_file_that_lies_is_refused(tmp_path, name):
    """A fingerprint that fits does not help: the claims are worked out again."""
    change, words = LIES[name]
    path = tmp_path / "design.json"
    bare().save(path)
    rewrite(path, lambda content: None)
    assert us.load_design(path).status == "optimal"  # rewritten unchanged it is as good as before
    rewrite(path, change)
    with pytest.raises(StoredFileError, match=words):
        us.load_design(path)


def test_a_prior_that_is_none_is_refused(tmp_path):
    """Negative odds whose figures fit all the same."""
    path = tmp_path / "design.json"
    us.solve([[1.0], [1.0]], leakage=0.0).save(path)
    rewrite(path, lambda content: content.update(prior=[1.5, -0.5]))
    with pytest.raises(StoredFileError, match="does not hold together"):
        us.load_design(path)


def test_small_lies_are_not_believed(tmp_path):
    """A figure of the kernel that is off by less than two machines may differ is put right."""
    path = tmp_path / "design.json"
    made = bare()
    made.save(path)
    rewrite(path, set_number("leakage", 1.0 - 1e-8))
    rewrite(path, set_number("distortion", 1.0 - 1e-8))
    loaded = us.load_design(path)
    assert loaded.leakage == made.leakage
    assert loaded.distortion == made.distortion


# --- the certificate --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", ["lower_bound", "gap"])
@pytest.mark.parametrize("by", [1e-9, 1e-6])
def test_a_bound_that_is_not_proved_is_refused(tmp_path, claim, by):
    """Above the optimum by 1e-9 of it: within the tolerance of an optimum, and beyond what the multipliers prove."""
    path = tmp_path / "design.json"
    made = bare()
    made.save(path)

    def overclaim(content):
        content["numbers"][claim] += by * made.distortion * (1.0 if claim == "lower_bound" else -1.0)

    rewrite(path, overclaim)
    with pytest.raises(StoredFileError, match="lower_bound"):
        us.load_design(path)


def test_a_leakage_bound_that_is_not_proved_is_refused(tmp_path):
    """The same for the least leakage at a distortion."""
    path = tmp_path / "design.json"
    forbidding().save(path)
    assert us.load_design(path).leakage_lower_bound > 0.0
    rewrite(path, set_number("leakage_lower_bound", 1.0 + 1e-8))
    with pytest.raises(StoredFileError, match="leakage_lower_bound"):
        us.load_design(path)


def test_a_kernel_that_overspends_is_refused(tmp_path):
    """By 1e-9 of the budget: the kernel is the optimal one of a demand that is as much larger."""
    path = tmp_path / "design.json"
    cost, prior = bare().cost, bare().prior
    us.solve(cost, prior=prior, leakage=0.25 * (1.0 + 1e-9)).save(path)
    assert us.load_design(path).leakage > 0.25
    rewrite(path, lambda content: content.update(demand=["leakage", 0.25]))
    with pytest.raises(StoredFileError, match="not a solution"):
        us.load_design(path)


@pytest.mark.parametrize("name", ["the paper's room", "bare costs", "forbidden pairs", "a tiny budget", "huge offsets"])
def test_loading_solves_nothing(tmp_path, monkeypatch, name):
    """The proof is one evaluation at the stored multiplier: no solver is called."""
    made = DESIGNS[name]()
    made.save(tmp_path / "design.json")

    def no_solver(*args):
        pytest.fail("a solver was called")

    for place in (design, inverse, solver):
        for solve in ("minimise", "least_leakage", "least_distortion", "least_information", "at_slope"):
            monkeypatch.setattr(place, solve, no_solver, raising=False)
    monkeypatch.setattr(solver.Workspace, "interior", no_solver)
    with pytest.raises(pytest.fail.Exception):
        us.solve(1.0 - np.eye(3), leakage=0.1)
    assert us.load_design(tmp_path / "design.json").lower_bound == made.lower_bound


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_every_solution_proves_itself(tmp_path_factory, seed):
    """Random problems, some with ties and forbidden pairs: what the solver claims is proved from the kernel."""
    rng = np.random.default_rng(seed)
    m, n = rng.integers(2, 10, 2)
    cost = rng.random((m, n)) ** rng.integers(1, 4)
    if seed % 3 == 0:
        cost = np.where(rng.random((m, n)) < 0.2, INF, cost)
        cost[:, 0] = rng.random(m)
    if seed % 4 == 0:
        cost = np.round(cost, 1)
    prior = rng.dirichlet(np.ones(m))
    made = us.solve(cost, prior=prior, leakage=float(rng.uniform(0.0, 1.2) * math.log(min(m, n))))
    path = tmp_path_factory.mktemp("designs") / "design.json"
    made.save(path)
    assert us.load_design(path).lower_bound == made.lower_bound


def test_a_changed_byte_is_noticed(tmp_path):
    """Without a new fingerprint any change is."""
    path = tmp_path / "design.json"
    bare().save(path)
    text = path.read_text()
    path.write_text(text.replace('"iterations":', '"iterations":1', 1))
    assert path.read_text() != text
    with pytest.raises(StoredFileError, match="fingerprint"):
        us.load_design(path)


def test_errors_do_not_repeat_the_file(tmp_path):
    """The content of a file may be secret: messages name the rule."""
    path = tmp_path / "design.json"
    made = us.design(us.Family({"Alice": room(0), "Bob": room(1)}), leakage=0.3, horizon=5)
    made.save(path)
    rewrite(path, lambda content: content.update(values=["Alice", "Alice and Bob", "Bob"]))
    with pytest.raises(StoredFileError) as caught:
        us.load_design(path)
    assert "Alice" not in str(caught.value)


def test_forbidden_costs_are_still_forbidden(tmp_path):
    """An infinite cost comes back infinite, in strict JSON."""
    made = forbidding()
    made.save(tmp_path / "design.json")
    json.loads((tmp_path / "design.json").read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert same_bits(np.isinf(us.load_design(tmp_path / "design.json").cost), np.isinf(made.cost))
    assert np.isinf(made.cost).sum() == 3
