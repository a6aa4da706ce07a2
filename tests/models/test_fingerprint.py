"""A fingerprint changes with one bit; a probe reproduces, and notices what matters."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import pytest
import scipy.stats
from helpers import OwnGaussMarkov, dense, random_system, room
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.errors import MissingReadingError, ModelError, StoredFileError
from understudy.laws.atoms import Atoms
from understudy.laws.mixture import Mixture
from understudy.laws.multivariate import GaussianCopula, GaussianMixture
from understudy.models.general import General
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.model import PROBE_STEPS, probe, same_probe
from understudy.models.nonlinear import Nonlinear
from understudy.models.quantised import Quantised
from understudy.serialize import canonical, fingerprint, from_plain, to_plain

NORMAL = us.Gaussian(0.0, 1.0)


# The fingerprint ----------------------------------------------------------------------------------


def test_a_fingerprint_is_the_same_for_ever():
    """Stored ones must go on to fit: this number may change only with the version in the domain."""
    plain = {"A": [0.1, 1e-300, -0.0, 5e-324], "k": 7, "name": "é", "yes": True, "no": None}
    assert canonical(plain) == rb'{"A":[0.1,1e-300,-0.0,5e-324],"k":7,"name":"\u00e9","no":null,"yes":true}'
    assert fingerprint(plain) == "sha256:c2db95823ab5aec32831a41681bf84462a4c1f239c4a922cae124fd0aed7b7f9"


def test_the_order_of_keys_does_not_matter():
    """At any depth; the order of a list does."""
    assert fingerprint({"a": 1, "b": {"c": 2, "d": 3}}) == fingerprint({"b": {"d": 3, "c": 2}, "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (0.0, -0.0),
        ("1", 1),
        (None, "null"),
        (0.1, 0.1 + 2e-17),
        ([], {}),
        ([1], [[1]]),
    ],
)
def test_values_that_differ_have_fingerprints_that_differ(one, other):
    """Also those that Python counts as equal; a number that is the same float has the same one."""
    assert (fingerprint({"a": one}) == fingerprint({"a": other})) == (repr(one) == repr(other))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_one_bit_changes_a_fingerprint(x):
    """The next float is another value."""
    y = math.nextafter(x, math.inf)
    if math.isfinite(y):
        assert fingerprint([x]) != fingerprint([y])
    assert fingerprint([x]) == fingerprint(json.loads(json.dumps([x])))


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (math.nan, "finite"), (math.inf, "finite"), ((1, 2), "a tuple is to be stored"), ({1: 2}, "not a string"),
        (np.float64(1.0), "a float64 is to be stored"), (np.zeros(2), "a ndarray"), (2**64, "64 bits"),
        (b"a", "a bytes"),
    ],
)  # fmt: skip
def test_what_json_would_change_has_no_fingerprint(bad, rule):
    """A tuple would come back as a list, a number as a key as a string."""
    for plain in (bad, {"a": [bad]}):
        with pytest.raises(StoredFileError, match=rule):
            fingerprint(plain)


def test_nesting_is_bounded():
    """So that no value exhausts the stack."""
    deep: list = []
    for _ in range(63):
        deep = [deep]
    fingerprint(deep)
    with pytest.raises(StoredFileError, match="nested more than 64 deep"):
        fingerprint([deep])


# The probe ----------------------------------------------------------------------------------------

SYSTEM = random_system(np.random.default_rng(3), 2, 2)
STUDENT = us.Scalar(scipy.stats.t(4.0, loc=400.0, scale=15.0))
MODELS = {
    "room": room(1),
    "vector": us.GaussMarkov(**SYSTEM),
    "short": us.GaussMarkov(us.PerStep([0.9] * 5), 1.0, 0.1, 0.1, mean0=0.0, cov0=1.0),
    "function of the step": us.GaussMarkov(0.9, 1.0, lambda k: 1.0 / k, 0.1, mean0=0.0, cov0=1.0),
    "own": OwnGaussMarkov(room(1)),
    "iid student": us.IID(STUDENT),
    "autoregressive student": us.AutoRegressive([0.5, 0.2], 100.0, STUDENT),
    "markov": us.Markov(NORMAL, lambda y: us.Gaussian(0.5 * y, 1.0 + 0.1 * y * y)),
    "markov with a clock": us.Markov(NORMAL, lambda y, k: us.Gaussian(0.5 * y + k, 1.0)),
    "markov across gaps": us.Markov(
        NORMAL, lambda y: us.Gaussian(0.5 * y, 0.75), gap=lambda y, s: us.Gaussian(0.5**s * y, 1.0 - 0.25**s)
    ),
    "path": us.Family({0: us.IID(NORMAL), 1: us.IID(STUDENT)}).along([0, 1] * 10),
    "atoms": us.IID(Atoms([0.0, 1.0, 2.0], [0.2, 0.3, 0.5])),
    "markov atoms": us.Markov(
        Atoms([0.0, 1.0], [0.5, 0.5]), lambda y: Atoms([0.0, 1.0], [0.9 - 0.8 * y, 0.1 + 0.8 * y])
    ),
    "mixture": us.IID(Mixture([0.3, 0.7], [NORMAL, STUDENT])),
    "mixture vector": us.IID(GaussianMixture([0.3, 0.7], [[0.0, 1.0], [3.0, 4.0]], [np.eye(2), 2.0 * np.eye(2)])),
    "copula": us.IID(GaussianCopula([[1.0, 0.5], [0.5, 1.0]], [NORMAL, STUDENT])),
    "hidden": HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], [us.Gaussian(0.0, 1.0), us.Gaussian(5.0, 1.0)]),
    "hidden atoms": HiddenMarkov(
        [[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], [Atoms([0.0, 1.0], [0.2, 0.8]), Atoms([0.0, 1.0], [0.7, 0.3])]
    ),
    "density": General(
        lambda y, past: -np.log(np.cosh(y - (past[-1] if past.size else 0.0))) - np.log(np.pi), memory=1
    ),
    "particles": Nonlinear(
        lambda x: 0.9 * x, np.tanh, us.Gaussian(0.0, 1.0), us.Gaussian(0.0, 0.1), us.Gaussian(0.0, 5.0), particles=50
    ),
    "rounded": Quantised(room(1), 0.1),
    "rounded coarsely": Quantised(room(1), 1.0),
    "rounded coarsely, by moments": Quantised(room(1), 1.0, method="moments"),
    "rounded and short": Quantised(us.GaussMarkov(us.PerStep([0.9] * 5), 1.0, 0.1, 0.1, mean0=0.0, cov0=1.0), 0.1),
}


@cache
def probed(name):
    """The probe of one of the models."""
    return probe(MODELS[name])


@pytest.mark.sample(default=4, seconds=2, reason="24 models")
@pytest.mark.parametrize("name", MODELS)
def test_a_probe_is_reproduced(name):
    """The same numbers, which JSON can hold; other models have others."""
    numbers = probe(MODELS[name])
    assert numbers == probe(MODELS[name])
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    assert len(canonical(numbers)) < 10_000
    for other in MODELS:
        alike = {name, other} == {"room", "own"}
        assert same_probe(numbers, probed(other)) == (name == other or alike)


def test_rounding_is_forgiven():
    """The last digits may differ on another machine."""
    numbers = probe(us.GaussMarkov(**SYSTEM))
    rng = np.random.default_rng(1)
    off = numbers[:3] + [x * (1.0 + 1e-13 * rng.standard_normal()) for x in numbers[3:]]
    assert off != numbers
    assert same_probe(numbers, off)


def test_readings_far_from_zero_are_compared_by_their_spread():
    """Pressure in pascals: 101325 with a spread of 1, where one part in 1e9 of the reading would hide much."""
    model = us.GaussMarkov(0.9, 1.0, 0.1, 0.1, d=101325.0, mean0=0.0, cov0=1.0)
    for change in ({"cov0": 1.00001}, {"Q": 0.100001}, {"R": 0.100001}):
        other = us.GaussMarkov(**{**model.arguments, **change})
        assert not same_probe(probe(model), probe(other))


def entries(given):
    """Name and index of every entry of the parameters of a Gauss-Markov model, one of each pair across a diagonal."""
    for name in ("A", "b", "Q", "C", "d", "R", "mean0", "cov0"):
        for index in np.ndindex(np.shape(given[name])):
            if name not in ("Q", "R", "cov0") or index[0] <= index[1]:
                yield name, index


def moved(given, name, index, by):
    """The same parameters with one entry moved, both across a diagonal for a covariance."""
    array = np.array(given[name])
    array[index] += by
    if name in ("Q", "R", "cov0"):
        array[index[::-1]] = array[index]
    return {**given, name: array}


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 3), d=st.integers(1, 2), radius=st.floats(0.3, 0.99))
@settings(max_examples=10, deadline=None)
def test_a_probe_notices_a_change_that_matters_of_any_parameter(seed, n, d, radius):
    """One part in a million, in each entry, if it moves the joint law of the readings by 1e-8 of a spread."""
    system = random_system(np.random.default_rng(seed), n, d, radius)
    system["Q"], system["cov0"] = system["Q"] + 0.1 * np.eye(n), system["cov0"] + 0.1 * np.eye(n)
    numbers, law = probe(us.GaussMarkov(**system)), joint(system)
    for name, index in entries(system):
        other = moved(system, name, index, 1e-6 * float(np.abs(system[name]).max()))
        if np.abs(joint(other) - law).max() > 1e-8:
            assert not same_probe(numbers, probe(us.GaussMarkov(**other))), (name, index)


def joint(system):
    """Mean and root of the covariance of all readings of a probe, in units of the spread of each."""
    mean, cov = dense(system, PROBE_STEPS)
    unit = np.sqrt(np.diag(cov))
    return np.column_stack([mean, np.linalg.cholesky(cov)]) / unit[:, None]


@pytest.mark.parametrize(("name", "index"), list(entries(room(1).arguments)))
def test_a_probe_notices_any_change_of_the_room(name, index):
    """One part in a million; of `d`, which is zero, a millionth of a ppm."""
    given = room(1).arguments
    other = moved(given, name, index, 1e-6 * (float(given[name][index]) or 1.0))
    assert not same_probe(probe(room(1)), probe(us.GaussMarkov(**other)))


@pytest.mark.parametrize("step", [1, 2, 8, PROBE_STEPS, PROBE_STEPS + 1])
@pytest.mark.parametrize("name", ["A", "b", "Q", "C", "d", "R"])
def test_a_probe_notices_the_entries_of_each_step_up_to_its_length(name, step):
    """And, twin, not the one after."""
    steps = PROBE_STEPS + 4
    system = {key: us.PerStep([value] * steps) if key in "AbQCdR" else value for key, value in SYSTEM.items()}
    changed = list(system[name])
    changed[step - 1] = moved(SYSTEM, name, (0,) * np.ndim(SYSTEM[name]), 1e-6)[name]
    other = us.GaussMarkov(**{**system, name: us.PerStep(changed)})
    assert same_probe(probe(us.GaussMarkov(**system)), probe(other)) == (step > PROBE_STEPS)


@pytest.mark.parametrize("change", [{"df": 4.00001}, {"loc": 400.0001}, {"scale": 15.0001}])
def test_a_probe_notices_a_change_of_a_law(change):
    """Shape, location and scale, behind an autoregression too."""
    law = us.Scalar(scipy.stats.t(**{"df": 4.0, "loc": 400.0, "scale": 15.0, **change}))
    assert not same_probe(probe(us.IID(law)), probe(us.IID(STUDENT)))
    one, other = (us.AutoRegressive([0.5, 0.2], 100.0, noise, past=[1.0, 2.0]) for noise in (law, STUDENT))
    assert not same_probe(probe(one), probe(other))


def test_a_probe_notices_another_law_across_a_gap():
    """Also that there is one at all."""

    def markov(gap):
        return us.Markov(NORMAL, lambda y: us.Gaussian(0.5 * y, 0.75), gap=gap)

    gaps = [lambda y, s: us.Gaussian(0.5**s * y, 1.0), lambda y, s: us.Gaussian(0.5**s * y, 1.00001), None]
    for i, one in enumerate(gaps):
        for j, other in enumerate(gaps):
            assert same_probe(probe(markov(one)), probe(markov(other))) == (i == j)


def test_a_probe_notices_how_long_a_model_is():
    """A model given for five steps and one for six; a function that ends with an IndexError is as good."""
    values = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]

    def model(Q):
        return us.GaussMarkov(0.9, 1.0, Q, 0.1, mean0=0.0, cov0=1.0)

    six, five = probe(model(us.PerStep(values))), probe(model(us.PerStep(values[:5])))
    assert not same_probe(six, five)
    assert same_probe(six, probe(model(lambda k: values[k - 1])))


class Rounded:
    """A model that releases whole numbers and feeds back what it rounded; as a source it takes readings as they are."""

    dim = 1
    taken = 1.0

    def __init__(self, mean):
        self.mean = mean

    def start(self):
        return 0.0

    def predict(self, state):
        return us.Gaussian(self.mean + 0.5 * state, 1.0)

    def update(self, state, y):
        return self.taken * y

    def skip(self, state):
        return 0.5 * state

    def emit(self, state, z):
        y = self.predict(state).value(z)
        return y, float(round(y))


def test_a_model_that_emits_is_run_by_emit():
    """It feeds back something else than what it releases."""
    assert same_probe(probe(Rounded(3.0)), probe(Rounded(3.0)))
    assert not same_probe(probe(Rounded(3.0)), probe(Rounded(3.000001)))


def test_a_model_that_emits_is_run_as_a_source_too():
    """On what it released: another way to read it is another model, though it emits the same."""

    class Otherwise(Rounded):
        taken = 1.000001

    one, other = probe(Rounded(3.0)), probe(Otherwise(3.0))
    emitted = 3 + PROBE_STEPS * 4
    assert one[:emitted] == other[:emitted]
    assert not same_probe(one, other)


SENSOR = Quantised(room(1), 1.0)


@pytest.mark.sample(default=5, seconds=1, reason="many models")
@pytest.mark.parametrize(
    "other",
    [
        Quantised(room(1, Q=0.1000001), 1.0), Quantised(room(1, b=10.000001), 1.0),
        Quantised(room(1, R=0.1000001), 1.0), Quantised(room(1), 1.000001), Quantised(room(1), 1.0, 0.000001),
        Quantised(room(1), 1.0, high=106.0),
        Quantised(room(1), 1.0, method="moments"), Quantised(room(1), 2.0), room(1),
    ],
)  # fmt: skip
def test_a_probe_notices_a_change_of_a_rounded_model(other):
    """What is behind the grid, the grid, and the filter, although readings are whole numbers."""
    assert same_probe(probe(SENSOR), probe(Quantised(room(1), 1.0)))
    assert not same_probe(probe(SENSOR), probe(other))


@pytest.mark.long(seconds=2, reason="fingerprints of slow models")
def test_a_probe_notices_a_change_of_probabilities():
    """Of atoms, of weights, of a hidden chain, by one part in a million."""

    def models(by):
        yield us.IID(Atoms([0.0, 1.0, 2.0], [0.2, 0.3 + by, 0.5 - by]))
        yield us.IID(Atoms([0.0, 1.0, 2.0 + by], [0.2, 0.3, 0.5]))
        yield us.IID(Mixture([0.3 + by, 0.7 - by], [NORMAL, STUDENT]))
        yield us.IID(GaussianMixture([0.5, 0.5], [0.0, 1.0], [1.0, 2.0 + by]))
        yield us.IID(GaussianCopula([[1.0, 0.5 + by], [0.5 + by, 1.0]], [NORMAL, STUDENT]))
        yield HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5 + by, 0.5 - by], [NORMAL, us.Gaussian(3.0, 2.0)])
        yield HiddenMarkov([[0.9, 0.1], [0.2 + by, 0.8 - by]], [0.5, 0.5], [NORMAL, us.Gaussian(3.0, 2.0)])
        yield HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], [us.Gaussian(by, 1.0), us.Gaussian(3.0, 2.0)])

    for one, again, other in zip(models(0.0), models(0.0), models(1e-6), strict=True):
        assert same_probe(probe(one), probe(again))
        assert not same_probe(probe(one), probe(other))


def test_a_model_that_refuses_gaps_has_a_probe():
    """The run with a gap is left out."""
    assert probed("density")[:3] == [1.0, PROBE_STEPS, 0.0]
    assert probed("autoregressive student")[:3] == [1.0, PROBE_STEPS, 0.0]
    assert probed("hidden")[:3] == [1.0, PROBE_STEPS, 4.0]


def test_a_model_with_emit_that_refuses_gaps_has_a_probe():
    """The run with a gap is left out, the others are there."""

    class NoGaps(Rounded):
        def skip(self, state):
            raise MissingReadingError("no law across a gap")

    assert probe(NoGaps(3.0))[:3] == [1.0, 2.0 * PROBE_STEPS, 0.0]
    assert probe(Rounded(3.0))[:3] == [1.0, 2.0 * PROBE_STEPS, 4.0]
    assert not same_probe(probe(NoGaps(3.0)), probe(Rounded(3.0)))


def test_a_model_that_gives_no_finite_reading_is_refused():
    """A probe is made of numbers."""

    class Endless(Rounded):
        def emit(self, state, z):
            return state, math.inf

    with pytest.raises(ModelError, match="not finite"):
        probe(Endless(3.0))


def test_a_model_without_a_first_step_is_refused():
    """Its own message comes through."""

    def broken(y):
        raise LookupError("no table")

    model = us.Markov(NORMAL, broken)
    assert probe(model)[:3] == [1.0, 1.0, 1.0]
    with pytest.raises(ModelError, match="no step 1"):
        probe(_Nothing())


class _Nothing(Rounded):
    def __init__(self):
        super().__init__(0.0)

    def predict(self, state):
        raise ModelError("there is no step 1")


def test_a_stored_model_has_the_probe_of_the_original():
    """To the bit."""
    functions = {"function of the step", "own", "markov", "markov with a clock", "markov across gaps", "path"}
    for name in MODELS.keys() - functions - {"markov atoms", "particles", "density"}:
        assert probe(from_plain(to_plain(MODELS[name]))) == probe(MODELS[name])


@pytest.mark.parametrize(
    "bad",
    [
        None, [], [1.0, 2.0], "probe", {"a": 1.0}, [1.0, 1.0, 0.0], [1, 1, 0, 1.0, 2.0, 3.0, 4.0], [1.5, 1.0, 0.0, 1.0],
        [1.0, 1.0, 0.0, 1.0, 2.0, 3.0, math.nan], [-1.0, 1.0, 0.0, 1.0], [1.0, 1e300, 0.0, 1.0], [1.0, 0.0, 0.0],
    ],
)  # fmt: skip
def test_numbers_that_are_no_probe_are_refused(bad):
    """On either side."""
    good = probe(us.IID(NORMAL))
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(StoredFileError, match="a probe"):
            same_probe(*pair)
