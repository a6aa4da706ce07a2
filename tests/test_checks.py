"""Every model x every check, and for every check a model that it must catch."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import stats

import understudy as us
from understudy.checks import check_model, check_transform
from understudy.errors import CheckError, ConfigurationError


def room(people=1.0, **changed):
    given = {"A": 0.95, "C": 1.0, "Q": 0.1, "R": 0.1, "b": 10.0 * people, "mean0": 100.0, "cov0": 1.0, **changed}
    return us.GaussMarkov(**given)


def vector():
    A = [[0.8, 0.1], [0.0, 0.5]]
    C = [[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]]
    return us.GaussMarkov(A, C, [[1.0, 0.3], [0.3, 0.5]], np.diag([0.1, 0.2, 0.3]), b=[1.0, -1.0], d=[0.0, 1.0, 2.0])


def switched():
    return us.Family(lambda v: room(v, Q=0.1 + v), values=[0, 1]).along([0, 0, 1, 1, 0] * 100)


class Own:
    """A model of one's own: a random walk that is pulled back, with the four methods and nothing else."""

    dim = 1

    def start(self):
        return (0.0, 0.0)

    def predict(self, state):
        mean, var = state
        return us.Gaussian(0.8 * mean, 0.64 * var + 1.0)

    def update(self, state, y):
        return (y, 0.0)

    def skip(self, state):
        mean, var = state
        return (0.8 * mean, 0.64 * var + 1.0)


MODELS = {
    "iid": lambda: us.IID(us.Gaussian(3.0, 2.0)),
    "iid vector": lambda: us.IID(us.Gaussian([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]])),
    "iid student": lambda: us.IID(us.Scalar(stats.t(3))),
    "iid independent": lambda: us.IID(us.Independent(us.Scalar(stats.gamma(2.0)), us.Gaussian(0.0, 1.0))),
    "markov": lambda: us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(np.sin(y), 1.0 + 0.5 * np.cos(y))),
    "markov with gap": lambda: us.Markov(
        us.Gaussian(0.0, 1.0),
        lambda y: us.Gaussian(0.5 * y, 1.0),
        gap=lambda y, steps: us.Gaussian(
            0.5**steps * (y or 0.0), (1 - 0.25**steps) / 0.75 + (0.25**steps) * (y is None)
        ),
    ),
    "ar(2)": lambda: us.AutoRegressive([0.5, 0.2], 1.0, us.Gaussian(0.0, 2.0)),
    "ar(2) student": lambda: us.AutoRegressive([0.5, 0.2], 1.0, us.Scalar(stats.t(4))),
    "vector ar": lambda: us.AutoRegressive(
        [[[0.5, 0.1], [0.0, 0.3]]], [1.0, 2.0], us.Gaussian([0.0, 0.0], [[1.0, 0.4], [0.4, 1.0]])
    ),
    "gauss-markov": room,
    "gauss-markov vector": vector,
    "path": switched,
    "own": Own,
}


@pytest.mark.sample(default=4, seconds=6, reason="every model, each checked by simulation")
@pytest.mark.parametrize("name", MODELS)
def test_every_model_passes_every_check(name):
    """Our own models, and a class with only the four methods."""
    report = check_model(MODELS[name](), T=400)
    assert report.passed
    assert len(report.results) >= 18


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("gauss-markov", "own"),
        ("own", "ar(2) student"),
        ("ar(2) student", "markov"),
        ("markov with gap", "gauss-markov"),
        ("iid vector", "vector ar"),
        ("vector ar", "iid independent"),
        ("path", "iid student"),
        ("iid student", "path"),
    ],
)
def test_every_kind_of_pair_passes_every_check(source, target):
    """Any model can play any other of the same number of channels."""
    assert check_transform(MODELS[source](), MODELS[target](), T=400).passed


# One broken model for each check: the check that must catch it, by name.


class Shaky(Own):
    """start differs from call to call."""

    def __init__(self):
        self.count = 0

    def start(self):
        self.count += 1
        return (1e-3 * self.count, 0.0)


class Mutating(Own):
    """update changes the state in place."""

    def start(self):
        return [0.0, 0.0]

    def update(self, state, y):
        state[0], state[1] = y, 0.0
        return state


class WrongLaw(us.Gaussian):
    """logpdf is that of another variance."""

    def logpdf(self, y):
        return super().logpdf(y) - 0.01


class WrongDensity(Own):
    def predict(self, state):
        return WrongLaw(0.8 * state[0], 0.64 * state[1] + 1.0)


class Backwards(us.Gaussian):
    def score(self, y, v=None):
        return -super().score(y)

    def value(self, z):
        return super().value(-z)


class Decreasing(Own):
    def predict(self, state):
        return Backwards(0.8 * state[0], 0.64 * state[1] + 1.0)


class Twisted(us.Gaussian):
    """Scores that look at later channels."""

    def score(self, y, v=None):
        return super().score(np.asarray(y)[::-1])

    def value(self, z):
        return super().value(z)[::-1]


class NotTriangular:
    dim = 2

    def start(self):
        return 0

    def predict(self, state):
        return Twisted([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]])

    def update(self, state, y):
        return 0

    def skip(self, state):
        return 0


class NoInverse(us.Gaussian):
    def value(self, z):
        return super().value(z) + 1e-3


class Lossy(Own):
    def predict(self, state):
        return NoInverse(0.8 * state[0], 0.64 * state[1] + 1.0)


class Forgetful(Own):
    """skip forgets that the reading it missed was uncertain."""

    def skip(self, state):
        return (0.8 * state[0], 0.0)


class OtherBatch(Own):
    """A faster path that gives another answer."""

    @property
    def gauss_markov(self):
        return us.GaussMarkov(0.8, 1.0, 1.01, 0.0, mean0=0.0, cov0=0.0)


class NoMethods:
    dim = 1


BROKEN = {
    "start is repeatable": Shaky,
    "states are values": Mutating,
    "agrees with logpdf": WrongDensity,
    "increasing": Decreasing,
    "triangular": NotTriangular,
    "value undoes score": Lossy,
    "skip is the law": Forgetful,
    "batch whitening": OtherBatch,
    "batch colouring": OtherBatch,
    "log-likelihood": OtherBatch,
    "four methods": NoMethods,
}


@functools.cache
def report_on(broken):
    """What the error says of a broken model; one may break several checks."""
    with pytest.raises(CheckError) as caught:
        check_model(broken(), T=2000)
    return str(caught.value)


@pytest.mark.parametrize("check", BROKEN)
def test_each_check_catches_a_model_that_breaks_it(check):
    """The twins: the report names the check that failed."""
    report = report_on(BROKEN[check])
    assert any(check in line for line in report.splitlines() if line.startswith("FAIL")), report


class Peeking:
    """A law that depends on how often it was asked, so that chunks, copies and steps disagree."""

    dim = 1

    def __init__(self):
        self.calls = 0

    def start(self):
        return 0

    def predict(self, state):
        self.calls += 1
        return us.Gaussian(1e-3 * self.calls, 1.0)

    def update(self, state, y):
        return 0

    skip = update


def test_a_model_with_a_memory_of_its_own_is_caught():
    """Hidden state breaks chunks, resumption and the round trip."""
    with pytest.raises(CheckError, match="FAIL whitening: step = chunk = whole"):
        check_model(Peeking(), T=400)


def test_a_transform_between_wrong_models_is_caught():
    """A source whose fast path lies gives an output with the wrong law."""
    with pytest.raises(CheckError, match="FAIL"):
        check_transform(OtherBatch(), room(), T=2000)


def test_a_model_for_few_steps_is_checked_on_those():
    """A path of 200 steps is not asked for 2,000."""
    path = us.Family(room, values=[0, 1]).along([0, 1] * 100)
    assert check_model(path).passed


def test_too_few_readings_are_refused():
    """Checks on five readings would say nothing."""
    with pytest.raises(ConfigurationError, match="T = 5"):
        check_model(room(), T=5)


def test_the_report_reads_well():
    """One line a check, the subject first."""
    text = str(check_model(room(), T=200))
    assert text.splitlines()[0] == "GaussMarkov(states=1, dim=1, constant)"
    assert all(line.startswith("ok") for line in text.splitlines()[1:])
