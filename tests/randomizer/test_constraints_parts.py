"""The parts of designs with constraints: bounds from any multipliers, exact mixing, what is taken out, files."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from helpers import OwnGaussMarkov, room
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.errors import InfeasibleError, StoredFileError
from understudy.models.model import Residual
from understudy.randomizer import constrained_solver
from understudy.randomizer import design as design_module
from understudy.randomizer.constrained_solver import (
    Goal,
    expand,
    interior_point,
    interior_start,
    lower_bound,
    lower_bound_with_information,
    make_exact,
    reduce_problem,
    roomiest,
    round_rows,
    solve_linear,
    write_program,
)
from understudy.randomizer.constraints import (
    Constraint,
    ErrorAtLeast,
    Floor,
    Forbidden,
    LocalDP,
    MaximalLeakage,
    PointwiseLeakage,
    Same,
    TotalVariation,
    exponential,
)
from understudy.randomizer.solver import Multipliers, information
from understudy.serialize import fingerprint

MEASURES = (LocalDP(1.0), MaximalLeakage(0.4), PointwiseLeakage(0.5), TotalVariation(0.4), ErrorAtLeast(0.3))
EVERY = (*MEASURES, Floor(0.01), Forbidden([(0, 2)]), Same([[1, 2]]))


def problem(constraints=MEASURES, seed=1, m=4, n=5, floor=0.0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(m, 3.0))
    pairs = [(i, k) for i in range(m) for k in range(i + 1, m)]
    return write_program(p, p, rng.random((m, n)), np.ones((m, n), dtype=bool), floor, constraints, pairs)


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_the_multipliers_of_the_linear_program_prove_its_optimum():
    """The bound meets the cost to twelve digits, with and without a floor, and is below it."""
    for floor in (0.0, 0.02):
        p = problem(floor=floor)
        found = solve_linear(p)
        cost = float((p.p[:, None] * p.cost * found.P).sum())
        assert lower_bound(p, found.by) <= cost
        assert lower_bound(p, found.by) == pytest.approx(cost, rel=1e-11)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.02]), st.floats(1e-3, 1e3))
def test_any_multipliers_prove_a_bound(seed, floor, size):
    """Random, huge, or those of the optimum disturbed: none is above the optimum, with information or without."""
    p = problem(floor=floor)
    found = solve_linear(p)
    rng = np.random.default_rng(seed)
    cost = float((p.p[:, None] * p.cost * found.P).sum())
    w = rng.random((len(p.p), p.cost.shape[1])) * size if floor else np.empty((0, 0))
    near = Multipliers(found.by.z * rng.uniform(0.5, 1.5, found.by.z.shape), found.by.y * rng.uniform(0.5, 1.5), w)
    far = Multipliers(rng.random(found.by.z.shape) * size, rng.random(found.by.y.shape) * size, w)
    told = information(p.p, np.ascontiguousarray(found.P).reshape(-1))
    q = rng.dirichlet(np.ones(p.cost.shape[1]))
    for by in (near, far):
        assert lower_bound(p, by) <= cost * (1.0 + 1e-12)
        # the kernel of the linear program keeps a budget of what it tells
        assert lower_bound_with_information(p, by._replace(nu=size, q=q), told * (1.0 + 1e-9)) <= cost * (1.0 + 1e-12)


def test_the_interior_method_and_the_linear_program_agree():
    """With a budget that does not bind, both find the same cost, and the bound of each is below the other's."""
    p = problem()
    found = solve_linear(p)
    cost = float((p.p[:, None] * p.cost * found.P).sum())
    centred = interior_point(p, interior_start(p, np.full((4, 5), 0.2)), Goal(budget=2.0))
    assert centred.value == pytest.approx(cost, rel=1e-6)
    assert centred.bound <= cost * (1.0 + 1e-12)
    assert centred.bound == pytest.approx(cost, rel=1e-6)


def test_both_ends_of_the_curve_agree():
    """The least sum of cost and weighted information, and the least cost within that information."""
    p = problem([LocalDP(2.0)])
    start = interior_start(p, np.full((4, 5), 0.2))
    weighed = interior_point(p, start, Goal(1.0, 0.3))
    assert weighed.value - weighed.bound <= 1e-8 * weighed.value
    told = information(p.p, np.ascontiguousarray(weighed.X[:4]).reshape(-1))
    back = interior_point(p, start, Goal(budget=told))
    assert back.value + 0.3 * told == pytest.approx(weighed.value, rel=1e-7)
    assert back.value - back.bound <= 1e-8 * back.value


def test_the_middle_of_the_room_is_inside():
    """Unknowns that begin the method keep every row with room; so do the roomiest ones."""
    p = problem()
    X = interior_start(p, np.full((4, 5), 0.2))
    assert (p.G @ X < 0.0).all()
    assert (p.F @ X.sum(axis=1) < p.f).all()
    roomy, room_ = roomiest(p)
    assert room_ > 0.0
    assert (p.G @ roomy <= -room_ + 1e-9).all()


# --- exactness --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nats", [1e-300, 1e-9, 0.3, 1.0, 20.0, 700.0])
def test_the_fraction_is_just_below_the_exponential(nats):
    """By less than 1e-57 of itself, against 80 digits."""
    import mpmath

    with mpmath.workdps(80):
        exact = mpmath.exp(mpmath.mpf(nats))
        found = exponential(nats)
        ratio = mpmath.mpf(found.numerator) / found.denominator / exact
        assert 1 - mpmath.mpf(10) ** -57 < ratio <= 1 or found == 1


def test_mixing_takes_as_little_as_will_do():
    """A matrix that is a billionth over its limit: the mixture is a few billionths away, and its zeros stay zeros."""
    one = MaximalLeakage(0.3)
    target = (math.exp(0.3) - 1.0) * (1.0 + 1e-9)
    P = np.array([[target, 1.0 - target, 0.0], [0.0, 1.0 - target, target]])
    inner = np.tile(P.mean(axis=0), (2, 1))

    def kept(Q, spare):
        return one.holds([0.5, 0.5], Q)

    found = make_exact(P, inner, 0.0, kept)
    assert one.holds([0.5, 0.5], found)
    assert not one.holds([0.5, 0.5], round_rows(P, 0.0))
    assert np.abs(found - P).max() < 1e-7
    assert make_exact(P, inner, 0.0, lambda Q, spare: False) is None
    exact = make_exact(0.5 * P + 0.5 * inner, inner, 0.0, kept)
    assert (np.rint(exact * 2**53) == exact * 2**53).all()


def test_rounding_keeps_floor_and_sum():
    """Whole numbers of 2^-53 that sum to one exactly, none below the floor."""
    P = np.random.default_rng(2).dirichlet(np.full(7, 0.1), size=50)
    floor = math.ceil(0.01 * 2**53) / 2**53
    Q = round_rows(P, floor)
    assert Q.min() >= floor
    assert all(sum(map(Fraction, row)) == 1 for row in Q.tolist())


# --- what is taken out ------------------------------------------------------------------------------------------------


def test_groups_and_columns_come_back():
    """Merged rows coincide, forbidden columns are empty, rows that cannot occur are like others."""
    cost, p = np.random.default_rng(3).random((5, 4)), np.array([0.2, 0.3, 0.0, 0.5, 0.0])
    left = reduce_problem(cost, p, [Same([[0, 3], [3, 1]]), Forbidden([(1, 2), (4, 0)]), LocalDP(1)])
    assert left.groups == ((0, 1, 3),)
    assert 2 not in left.columns
    P = expand(left, np.full((1, len(left.columns)), 1.0 / len(left.columns)))
    assert np.allclose(P.sum(axis=1), 1.0)
    assert (P[:, 2] == 0.0).all()
    assert (P[0] == P[1]).all()
    assert P[4, 0] == 0.0


def test_a_column_that_cannot_be_drawn_is_taken_out():
    """Pointwise leakage: who may draw it is too rare for the draw to be so little telling."""
    cost = np.array([[0.1, 0.2, np.inf], [0.4, 0.3, 0.0], [0.4, 0.1, 0.0]])
    found = us.solve(cost, prior=[0.98, 0.01, 0.01], constraints=[PointwiseLeakage(0.5)], leakage=0.1)
    assert (found.randomizer.kernel[:, 2] == 0.0).all()
    assert found.status == "optimal"


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.sample(default=8, seconds=1, reason="many problems, solved and proved")
@pytest.mark.parametrize("one", EVERY, ids=lambda c: c.name)
@pytest.mark.parametrize("demand", [{}, {"leakage": 0.2}], ids=["alone", "with a leakage"])
def test_a_stored_design_comes_back(tmp_path, one, demand):
    """Kernel, figures and constraints; each is checked again on loading."""
    x = np.linspace(0.0, 1.0, 4)
    made = us.solve((x[:, None] - x) ** 2, prior=[0.1, 0.2, 0.3, 0.4], constraints=[one, Floor(0.0)], **demand)
    made.save(tmp_path / "design.json")
    again = us.load_design(tmp_path / "design.json")
    assert (again.randomizer.kernel == made.randomizer.kernel).all()
    assert again.constraints == made.constraints
    for name in ("distortion", "lower_bound", "gap", "leakage", "budget", "status", "demand"):
        assert getattr(again, name) == getattr(made, name)


def test_a_family_with_constraints_is_stored_with_its_values(tmp_path):
    """Pairs and groups by values of several kinds; streams go on from the loaded design."""
    family = us.Family({"empty": room(0), (1, "b"): room(1)}, prior=[0.4, 0.6])
    asked = [Forbidden([("empty", (1, "b"))]), MaximalLeakage(0.3)]
    made = us.design(family, ["empty", (1, "b")], horizon=9, constraints=asked)
    made.save(tmp_path / "design.json")
    again = us.load_design(tmp_path / "design.json")
    assert again.constraints == tuple(asked)
    assert again.fingerprint == made.fingerprint
    assert again.randomizer.kernel[0, 1] == 0.0


def edited(path, change):
    """The file with its content changed and its fingerprint made to fit."""
    document = json.loads(path.read_text())
    change(document["content"])
    part = {key: document[key] for key in ("format", "version", "content")}
    document["fingerprint"] = fingerprint(part)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["constraints"][0].update(epsilon=0.5),
        lambda c: c["constraints"][0].update(kind="remote_dp"),
        lambda c: c["constraints"][0].update(extra=1),
        lambda c: c["constraints"][0].update(epsilon="1"),
        lambda c: c.update(constraints="none"),
        lambda c: c.update(constraints=[3]),
        lambda c: c.pop("constraints"),
        lambda c: c["kernel"][0].__setitem__(slice(0, 2), [c["kernel"][0][0] + 2**20, c["kernel"][0][1] - 2**20]),
        lambda c: c["numbers"].update(lower_bound=c["numbers"]["lower_bound"] * 1.01),
        lambda c: c.update(status="inexact"),
    ],
)
def test_a_file_that_claims_otherwise_is_refused(tmp_path, change):
    """A tighter constraint than the kernel keeps, one that is not known, a kernel that breaks it, other figures."""
    path = tmp_path / "design.json"
    us.solve(1.0 - np.eye(2), constraints=[LocalDP(1.0)]).save(path)
    edited(path, change)
    with pytest.raises(StoredFileError):
        us.load_design(path)


STORED = [
    {"constraints": [LocalDP(2.0)]},
    {"constraints": [TotalVariation(0.4), Floor(0.01)]},
    {"constraints": [PointwiseLeakage(0.5), Forbidden([(0, 2)])], "leakage": 0.2},
    {"constraints": [MaximalLeakage(0.4), Same([[1, 2]])], "distortion_at_most": 0.09},
    {"constraints": [LocalDP(8.0)], "leakage": 0.05},
    {"error_at_least": 0.3},
]


@pytest.fixture(params=STORED, ids=lambda asked: "-".join(asked))
def stored(request, tmp_path):
    """A design of each kind, and its file."""
    x = np.linspace(0.0, 1.0, 4)
    made = us.solve((x[:, None] - x) ** 2, prior=[0.1, 0.2, 0.3, 0.4], **request.param)
    path = tmp_path / "design.json"
    made.save(path)
    return path, made


@pytest.fixture
def unsolvable(monkeypatch):
    """Every way to a solution is closed."""

    def solve(*args, **kwargs):
        raise AssertionError("a problem was solved")

    for name in ("_call_highs", "interior_point", "minimise", "least_leakage", "least_telling_optimum", "follow_curve"):
        monkeypatch.setattr(constrained_solver, name, solve)
    monkeypatch.setattr(design_module, "minimise", solve)
    monkeypatch.setattr(design_module, "least_leakage", solve)


def test_loading_proves_and_solves_nothing(stored, unsolvable):
    """The stored multipliers prove the stored bound, figure by figure."""
    path, made = stored
    again = us.load_design(path)
    assert (again.randomizer.kernel == made.randomizer.kernel).all()
    for name in ("distortion", "lower_bound", "gap", "leakage", "leakage_lower_bound", "budget", "status", "demand"):
        assert getattr(again, name) == getattr(made, name)


def test_a_file_without_multipliers_is_compared_with_a_solution(stored, monkeypatch):
    """As files were before they had any: they load, and something is solved."""
    path, made = stored
    edited(path, lambda c: c.pop("multipliers"))
    assert us.load_design(path).lower_bound == pytest.approx(made.lower_bound, rel=1e-6)
    monkeypatch.setattr(constrained_solver, "minimise", lambda *args: pytest.fail("solved"))
    with pytest.raises(BaseException, match="solved"):
        us.load_design(path)


def _one_row_more(multipliers):
    multipliers["local"].append([0.0] * 4)


@pytest.mark.parametrize(
    "forge",
    [
        lambda c: c["numbers"].update(lower_bound=c["numbers"]["lower_bound"] * (1.0 + 1e-6), gap=0.0),
        lambda c: c["numbers"].update(gap=c["numbers"]["gap"] - 1e-6),
        lambda c: c["kernel"].reverse(),
        lambda c: c["kernel"][3].__setitem__(slice(2, 4), [c["kernel"][3][2] - 2**40, c["kernel"][3][3] + 2**40]),
        lambda c: c["multipliers"].update(information=c["multipliers"]["information"] * 2.0 + 0.1, law=[0.25] * 4),
        lambda c: c["multipliers"].update(information=-1.0),
        lambda c: c["multipliers"].update(pairs=[[0, 9]]),
        lambda c: c["multipliers"].update(law=[1.0]),
        lambda c: c["multipliers"].pop("across"),
        lambda c: _one_row_more(c["multipliers"]),
    ],
)
def test_a_forged_certificate_is_refused(stored, unsolvable, forge):
    """A bound that is not proved, a kernel that breaks a rule, multipliers that prove less or do not fit."""
    path, _ = stored
    edited(path, forge)
    with pytest.raises(StoredFileError):
        us.load_design(path)


def test_another_kernel_that_keeps_everything_is_accepted(tmp_path):
    """A machine that rounds otherwise: a step of 2^-53 to the safe side."""
    path = tmp_path / "design.json"
    made = us.solve(1.0 - np.eye(2), constraints=[LocalDP(1.0)])
    made.save(path)
    edited(path, lambda c: c["kernel"].__setitem__(0, [c["kernel"][0][0] - 8, c["kernel"][0][1] + 8]))
    again = us.load_design(path)
    assert again.randomizer.kernel[0, 0] < made.randomizer.kernel[0, 0]
    assert again.distortion >= made.distortion


def test_plain_values_and_back():
    """Every kind."""
    stored = json.loads(json.dumps([one.to_dict() for one in EVERY]))
    assert tuple(map(Constraint.from_dict, stored)) == EVERY


# --- approximate models -----------------------------------------------------------------------------------------------


class Approximate(OwnGaussMarkov):
    """A Gauss-Markov model that says it is off by so much a reading."""

    def __init__(self, model, nats):
        super().__init__(model)
        self.gauss_markov, self.nats = model, nats

    def residual(self, T, *, sequences=16, rng=None):
        return Residual(self.nats * T, 0.0, T, "rounded readings")


def test_what_models_give_away_is_charged():
    """A leakage is reduced and an error raised by the charge; measures of the draw are said to be those of the draw."""
    family = us.Family({0: Approximate(room(0), 1e-6), 1: Approximate(room(1), 1e-6)})
    made = us.design(family, horizon=50, distortion="mae", leakage=0.2, constraints=[LocalDP(1.5), ErrorAtLeast(0.2)])
    assert made.total_leakage <= 0.2
    assert made.guarantee.bayes_error >= 0.2
    assert LocalDP(1.5).holds(made.prior, made.randomizer.kernel)
    assert "Of the draw: Local differential privacy" in " ".join(made.guarantee.text().split())
    with pytest.raises(InfeasibleError, match="the models themselves"):
        us.design(family, horizon=50, distortion="mae", leakage=1e-9, constraints=[LocalDP(1.5)])
