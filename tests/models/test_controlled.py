"""A model whose setting arrives with time: the same law as with all settings given in advance."""

from __future__ import annotations

import copy
import pickle
import traceback

import numpy as np
import pytest
from helpers import dense, dense_scores, positive, random_system, same_bits, with_gaps
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.errors import ModelError, StateError
from understudy.models.family import Controlled, Steered

FLOWS = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40)


def room(people, flow):
    """Air exchange multiplies the state: bilinear in input and state."""
    stays = float(np.exp(-0.05 - 0.5 * flow))
    return us.GaussMarkov(stays, 1.0, 2.0, 3.0, b=(1 - stays) * (420.0 + 90.0 * people), mean0=500.0, cov0=100.0)


def added(people, flow):
    """The input is added to the state: x+ = a x + b theta - g u + c."""
    return us.GaussMarkov(0.9, 1.0, 2.0, 3.0, b=6.0 * people - 20.0 * flow + 42.0, mean0=500.0, cov0=100.0)


def plant(seed=3):
    """Two states, two channels; everything depends on the input."""
    rng = np.random.default_rng(seed)
    base = random_system(rng, 2, 2, radius=0.8)
    B, D, more = rng.standard_normal((2, 2)), rng.standard_normal((2, 2)), positive(rng, 2)

    def at(u):
        changed = {
            "A": base["A"] * (1.0 - 0.3 * u), "b": base["b"] + B @ [u, u * u], "C": base["C"] + 0.2 * u * D,
            "d": base["d"] + u, "Q": base["Q"] + u * more, "R": base["R"] * (1.0 + u),
        }  # fmt: skip
        return {**base, **changed}

    return at


class Driven:
    """The four methods alone, steered by settings that are known."""

    def __init__(self, model, chosen):
        self.model, self.dim, self.chosen, self.steps = model, model.dim, chosen, len(chosen)

    def start(self):
        return self._next(self.model.start())

    def predict(self, state):
        return self.model.predict(state)

    def update(self, state, y):
        return self._next(self.model.update(state, y))

    def skip(self, state):
        return self._next(self.model.skip(state))

    def _next(self, state):
        k = state.filtered.k
        return self.model.steered(state, *self.chosen[k]) if k < self.steps else state


def disguised(model, Y, sources, targets):
    """Reading by reading, each side steered before the reading."""
    transform = us.Transform(source=model, target=model)
    state, out = transform.start(), []
    for y, source, target in zip(Y, sources, targets, strict=True):
        state = model.steered(state[0], *source), model.steered(state[1], *target)
        state, value = transform.step(state, y)
        out.append(value)
    return np.array(out)


def close(a, b, tolerance):
    return np.nanmax(np.abs(np.asarray(a) - b)) <= tolerance * max(1.0, float(np.nanmax(np.abs(b))))


# The law ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [False, True])
def test_scores_are_those_of_the_joint_gaussian_given_the_inputs(gaps):
    """One big Cholesky of the stacked readings, with all six matrices moved by the input."""
    rng, at, T = np.random.default_rng(1), plant(), 25
    u = rng.random(T).round(3).tolist()
    model = Controlled(lambda u: us.GaussMarkov(**at(u)), u[0])
    systems = [at(v) for v in u]
    stacked = {name: [s[name] for s in systems] for name in ("A", "b", "C", "d", "Q", "R")}
    mean, cov = dense({**stacked, "mean0": systems[0]["mean0"], "cov0": systems[0]["cov0"]}, T)
    Y = rng.multivariate_normal(mean, cov).reshape(T, 2)
    Y = with_gaps(rng, Y) if gaps else Y
    z, loglik = dense_scores(Y, mean, cov)
    driven = Driven(model, [(v,) for v in u])
    assert same_bits(np.isnan(us.whiten(Y, driven)), np.isnan(Y))
    assert close(us.whiten(Y, driven), z, 1e-9)
    assert us.loglik(Y, driven) == pytest.approx(loglik, rel=1e-9)


@pytest.mark.sample(default=1, seconds=1, reason="many models")
@pytest.mark.parametrize("members", [room, added])
@given(flows=FLOWS, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_step_by_step_is_the_batch_with_the_same_matrices_given_in_advance(members, flows, seed):
    """To 1e-12, for inputs that multiply the state and inputs that are added, while both parameters move."""
    rng = np.random.default_rng(seed)
    theta, pseudo = rng.choice([0, 1, 3], (2, len(flows))).tolist()
    model = Controlled(members, 0, 0.0)
    sources, targets = list(zip(theta, flows, strict=True)), list(zip(pseudo, flows, strict=True))
    Y = us.sample(model.along(sources), len(flows), rng=rng)
    batch = us.disguise(Y, source=model.along(sources), target=model.along(targets))
    assert close(disguised(model, Y, sources, targets), batch, 1e-12)


def test_inputs_may_follow_from_the_disguised_past():
    """Chosen on the way, they give what the same inputs give afterwards in one go."""
    rng, model, T = np.random.default_rng(4), Controlled(room, 0, 0.0), 200
    transform = us.Transform(source=model, target=model)
    state, u, x = transform.start(), [0.5], 500.0
    Y, out = [], []
    for k in range(T):
        system = room(2, u[k]).at(1)
        x = system.A.item() * x + system.b.item() + 1.4 * rng.standard_normal()
        Y.append(x + 1.7 * rng.standard_normal())
        state = model.steered(state[0], 2, u[k]), model.steered(state[1], 1, u[k])
        state, value = transform.step(state, Y[-1])
        out.append(value)
        u.append(min(1.0, max(0.0, (value - 500.0) / 20.0)))
    assert np.std(u) > 0.05
    batch = us.disguise(Y, source=model.along([(2, v) for v in u[:T]]), target=model.along([(1, v) for v in u[:T]]))
    assert close(out, batch, 1e-12)


def test_a_setting_holds_until_another_is_given():
    """Without steering it is the model of the first setting."""
    Y = us.sample(room(1, 0.3), 30, rng=1)
    assert close(us.whiten(Y, Controlled(room, 1, 0.3)), us.whiten(Y, room(1, 0.3)), 1e-10)


def test_the_law_before_reading_one_is_that_of_its_setting():
    """As along a path: the model of step 1 says where the state starts."""
    model = Controlled(lambda v: us.GaussMarkov(0.9, 1.0, 1.0, 1.0, mean0=v, cov0=1.0), 0.0)
    state = model.steered(model.start(), 100.0)
    assert model.predict(state).mean == pytest.approx(90.0)
    after = model.update(state, 90.0)
    assert model.predict(model.steered(after, 0.0)).mean == pytest.approx(81.0)


def test_more_settings_than_are_kept():
    """What is kept of a setting is a matter of speed."""
    model = Controlled(room, 0, 0.0)
    first = model.predict(model.start()).mean
    for k in range(5000):
        model.model(0, k / 5000)
    assert len(model._kept) <= 4096
    assert model.predict(model.start()).mean == first


# The checks that every model passes ----------------------------------------------------------------


@pytest.mark.long(seconds=2, reason="every check for three models")
def test_it_satisfies_the_checks_of_a_model():
    """Held, and steered through changing settings, in one and in two channels."""
    rng = np.random.default_rng(2)
    assert us.checks.check_model(Controlled(room, 1, 0.3), T=150).passed
    chosen = [(int(i), float(u)) for i, u in zip(rng.integers(0, 4, 150), rng.random(150).round(2), strict=True)]
    assert us.checks.check_model(Driven(Controlled(room, 1, 0.3), chosen), T=150).passed
    at = plant()
    assert us.checks.check_model(Controlled(lambda u: us.GaussMarkov(**at(u)), 0.4), T=100).passed


def test_it_satisfies_the_checks_of_a_transformation():
    """Between two of them, and to a model of another kind."""
    rng = np.random.default_rng(2)
    chosen = [(int(i), float(u)) for i, u in zip(rng.integers(0, 4, 150), rng.random(150).round(2), strict=True)]
    source = Driven(Controlled(room, 1, 0.3), chosen)
    target = Driven(Controlled(room, 1, 0.3), [(3 - i, u) for i, u in chosen])
    assert us.checks.check_transform(source, target, T=150).passed
    assert us.checks.check_transform(Controlled(room, 1, 0.3), us.IID(us.Gaussian(0.0, 1.0)), T=150).passed


# States, secrets, refusals -------------------------------------------------------------------------


def test_states_are_values_that_can_be_copied_and_kept():
    """Steering returns a new state, and a copy goes on as the original does."""
    model = Controlled(room, 0, 0.2)
    state = model.update(model.start(), 480.0)
    kept = pickle.dumps(tuple(state))
    other = model.steered(state, 2, 0.9)
    assert pickle.dumps(tuple(state)) == kept
    assert other is not state
    assert other.filtered == state.filtered
    again = Steered(*pickle.loads(kept))  # noqa: S301  # written three lines above
    assert model.predict(again).mean == model.predict(copy.deepcopy(state)).mean == model.predict(state).mean


def test_nothing_secret_is_shown():
    """Neither readings nor settings, of which the parameter is one."""
    model = Controlled(room, 7, 0.123)
    state = model.update(model.start(), 481.5)
    assert repr(state) == "Steered(readings=1)"
    assert repr(model) == "Controlled(states=1, dim=1)"


def test_a_setting_that_breaks_a_rule_is_named_by_its_reading_alone():
    """At run time a matrix may tell the parameter."""
    model = Controlled(lambda a: us.GaussMarkov(a, 1.0, 1.0, 1.0, mean0=0.0, cov0=1.0), 0.5)
    with pytest.raises(ModelError, match="setting of reading 1 gives a model that breaks a rule") as error:
        model.steered(model.start(), 1.2345)
    assert "1.2345" not in str(error.value)
    assert error.value.__suppress_context__


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Controlled(room(1, 0.5)), "must be a function of the setting"),
        (lambda: Controlled(lambda v: us.IID(us.Gaussian(v, 1.0)), 0.0), "must be a GaussMarkov"),
        (lambda: Controlled(lambda v: room(1, v[0]), [0.5]), "a setting is of types"),
        (lambda: Controlled(room, 0, 0.0).along([]), "settings is empty"),
        (lambda: Controlled(room, 0, 0.0).along(0.7321), "settings is of type float"),
        (lambda: Controlled(room, 0, 0.0).along([(0, 0.1), 0.7321]), "setting 1 is of type float; it must be a tuple"),
        (lambda: Controlled(room, 0, 0.0).along(["ab"]), "setting 0 is of type str; it must be a tuple"),
        (lambda: Controlled(room, 0, 0.0).along(np.zeros(3)), "setting 0 is of type float64"),
        (lambda: Controlled(room, 0), "raised TypeError for the first setting of types \\(int\\)"),
    ],
)
def test_what_cannot_be_steered_is_refused(make, rule):
    """The message names the rule."""
    with pytest.raises(ModelError, match=rule):
        make()


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ((0.7321,), "TypeError for a setting of types \\(float\\)"),
        ((0, 0.7321, 1), "TypeError for a setting of types \\(int, float, int\\)"),
        (("wide 0.7321", 0.1), "Error for a setting of types \\(str, float\\)"),
        ((), "TypeError for a setting of types \\(\\)"),
    ],
)
def test_settings_that_the_function_does_not_take_are_named_by_reading_and_types(setting, kind):
    """Too few, too many, a text: an error of ours, with the number of the reading and no value."""
    model = Controlled(room, 0, 0.0)
    after = model.update(model.start(), 480.0)
    for state, reading in ((model.start(), 1), (after, 2)):
        with pytest.raises(ModelError, match=f"setting of reading {reading}: .*{kind}") as error:
            model.steered(state, *setting)
        assert "7321" not in str(error.value)
        assert error.value.__suppress_context__
    with pytest.raises(ModelError, match=f"setting of reading 2: .*{kind}"):
        model.along([(0, 0.1), setting])
    with pytest.raises(ModelError, match=kind):
        model.model(*setting)


def test_what_the_function_of_a_setting_raises_is_not_shown():
    """A table that lacks a setting names it; the message and the traceback do not."""
    table = {0.25: us.GaussMarkov(0.5, 1.0, 1.0, 1.0, mean0=0.0, cov0=1.0)}
    model = Controlled(table.__getitem__, 0.25)
    calls = (
        lambda: model.steered(model.start(), 0.7321),
        lambda: model.along([(0.25,), (0.7321,)]),
        lambda: model.model(0.7321),
        lambda: model.predict(Steered(model.start().filtered, (0.7321,))),
    )
    for call in calls:
        with pytest.raises(ModelError, match="raised KeyError") as error:
            call()
        assert "7321" not in "".join(traceback.format_exception_only(error.value))
        assert error.value.__suppress_context__
    with pytest.raises(ModelError, match="raised KeyError for the first setting") as error:
        Controlled(table.__getitem__, 0.5)
    assert isinstance(error.value.__cause__, KeyError)  # configuration: here what went wrong is said


def test_settings_may_be_lists_and_rows_of_an_array():
    """A setting is a row of whatever holds them, and may hold tuples."""
    model = Controlled(room, 0, 0.0)
    rows = [(0, 0.1), (1, 0.2), (1, 0.0)]
    Y = us.sample(room(1, 0.1), 3, rng=1)
    wanted = us.whiten(Y, model.along(rows))
    assert same_bits(us.whiten(Y, model.along([list(row) for row in rows])), wanted)
    assert same_bits(us.whiten(Y, model.along(np.array(rows))), wanted)
    nested = Controlled(lambda who, pair: room(who, sum(pair)), 0, (0.0, 0.0))
    assert same_bits(us.whiten(Y, nested.along([(who, (flow, 0.0)) for who, flow in rows])), wanted)


def test_models_of_another_size_are_refused():
    """The state must go on."""
    model = Controlled(lambda n: us.GaussMarkov(0.5 * np.eye(n), np.ones((1, n)), np.eye(n), 1.0), 1)
    with pytest.raises(ModelError, match="2 states and 1 channels, the first 1 and 1"):
        model.model(2)
    with pytest.raises(ModelError, match="or of another size"):
        model.steered(model.start(), 2)


def test_states_of_others_are_refused():
    """A plain tuple is not a state."""
    model = Controlled(room, 0, 0.0)
    for method in (model.predict, model.skip, lambda s: model.update(s, 1.0), lambda s: model.steered(s, 0, 0.0)):
        with pytest.raises(StateError, match="type tuple"):
            method((0, 1.0))
