"""Who looks at low-order bits: a disguise maps doubles to doubles, and not every double can be reached.

Readings of larger magnitude lie on a coarser lattice. A reading and its prediction are multiples of the spacing of
doubles at the reading, so the innovation is one too, and it is carried into outputs of smaller magnitude, whose own
spacing is finer. Two kinds of evidence for each pair of a private value i and a pseudo value j:

*Counting* (`understudy.adversaries.learners.inversion`): how many readings give exactly this output, against how
many a continuous law would have. An output that no reading gives rules the pair out.

*Lattice*: with the scores of the output under j, L_i z is what the innovation was under i. It does not need the state
of the source and so finds its way back after any error. Where readings have a coarser form than doubles (float32,
decimals, sought in the training cases), the readings themselves are compared with its numbers.

Both are likelihoods against a continuous law, and go into Bayes' rule beside the likelihood of the output under j.
Where outputs are rounded to a step that is wide beside the spacing of readings (``design.resolution``, or found in the
outputs), they are 0 nats, and what is left is the exact adversary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from understudy._types import Array, Frozen
from understudy.adversaries.knowledge import Attack, Cases, Knowledge, normalise
from understudy.adversaries.learners.bayes import refusal, sequence_logs
from understudy.adversaries.learners.calibration import log_loss, log_odds, with_clock
from understudy.adversaries.learners.grid import whole_rows
from understudy.adversaries.learners.inversion import (
    DOUBLE,
    MOST_NATS,
    Form,
    Machine,
    Release,
    State,
    TraceReader,
    count_readings,
    obstacle,
    spacing,
    trace_attack,
)
from understudy.errors import UnderstudyError
from understudy.models.gauss_markov import gauss_markov
from understudy.models.model import Model
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.design import Design
from understudy.transform.core import disguise, has_atoms, whiten

_READINGS = 64  # of a sequence that are looked at, at most
_LEARNED = 2000  # sequences that are learned from
_WORK = 20_000_000  # readings run again, in units of one that goes through two Kalman predictors
_TRIES = 10.0  # readings run again for one that is counted
_ASIDE = 1e-4  # pseudo values that are less likely by the output's law are left aside
_STRAY = 0.02  # share of readings whose bits say nothing although the pair is right
_ROUGH = 0.1  # of a lattice step: an innovation that is not known better tells nothing
_CLEARLY = 5.0  # nats by which training cases must speak against weights that are right in theory
_WEIGHTS = (0.0, 0.05, 0.2, 1.0)
_SOUGHT = 40  # sequences that are searched for the form of readings
_SEEN = 20_000  # outputs that are searched for a step
_DECIMALS = 7

FORMS = (Form("float32"), *(Form("decimal", 10.0**digits) for digits in range(_DECIMALS)))
"""What readings may be besides doubles."""


class Bits(Frozen):
    """Runs the transformation again and counts the readings that give exactly this output.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 64])
    >>> known = Knowledge(family, (0,), np.ones((2, 1)), family.prior, None, None, None, None)
    >>> rng, theta = np.random.default_rng(1), np.repeat([0, 1], 50)
    >>> raw = us.sample(family.model(0), T=8, n=100, rng=1) + 64.0 * theta
    >>> disguised = [us.disguise(raw[:, :, theta == i], family.model(v), family.model(0)) for i, v in ((0, 0), (1, 64))]
    >>> rows = np.tile(theta, (8, 1))
    >>> cases = Cases(np.concatenate(disguised, axis=2), rows, rows, 2, once=True)
    >>> bool((Bits().learn(cases, known, rng).logits(cases).argmax(axis=0) == theta).all())
    True
    """

    __slots__ = ()

    name = "low-order bits"

    def objection(self, cases: Cases, known: Knowledge) -> str:
        """The output must be disguised, of models without atoms that can be run again."""
        if known.raw:
            return "the output is not disguised; there is nothing to run again"
        models = (*known.sources, *known.targets)
        if any(has_atoms(model) for model in models):
            return "readings have atoms or a grid; the adversary for that is grid"
        if any(getattr(model, "method", "") == "particles" for model in models):
            return "models that compute with random numbers are not run again"
        if not cases.once:
            return obstacle([gauss_markov(model) for model in models])
        refused = refusal(known.targets, cases.T * cases.N, moving=False)
        if refused:
            return refused
        try:
            _machines(known, cases.T)
        except UnderstudyError as error:
            return str(error)
        return ""

    def learn(self, cases: Cases, known: Knowledge, rng: np.random.Generator) -> Attack:
        """The step of the output, the form of the readings, and what the evidence proved to be worth."""
        release = release_of(cases.outputs, known.design)
        if not cases.once:
            every = known.decision_every or cases.T
            return trace_attack(MovingBits(known, release.steps[0], every, draws=True), cases, known, rng)
        few = cases.sequences(slice(0, _LEARNED))
        made = BitsAttack(known, release)
        logs = sequence_logs(known.targets, few.outputs)
        made = replace(made, form=_form(few, made, logs))
        evidence = made.evidence(few.outputs, logs)
        made = replace(made, weights=_worth(made, logs, evidence, few))
        return with_clock(made, made.posterior(logs, evidence), few, cases, rng)


class Evidence(NamedTuple):
    """What bits say for each pair, in nats against a continuous law: three arrays (m, n, N)."""

    exact: Array
    """By counting the readings that give exactly the output."""
    close: Array
    """By counting those that miss it by a few cells at most."""
    lattice: Array
    """By how near to their lattice innovations lie, or readings of a coarser form than doubles."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BitsAttack:
    """What is known, how outputs leave, the form of readings, the weights of all kinds, and what the clock adds."""

    known: Knowledge
    release: Release
    form: Form = DOUBLE
    weights: tuple[float, float, float] = (1.0, 0.0, 0.0)

    def logits(self, cases: Cases) -> Array:
        """Log-probabilities (m, N)."""
        logs = sequence_logs(self.known.targets, cases.outputs)
        evidence = self.evidence(cases.outputs, logs, lattice=self.weights[2] > 0.0)
        return self.posterior(logs, evidence)

    def scores(self, cases: Cases) -> Array:
        """The same as log-odds."""
        return log_odds(self.logits(cases))

    def posterior(self, logs: Array, evidence: Evidence) -> Array:
        """Bayes' rule, (m, N), from log-likelihoods (n, N) of the pseudo models and what bits add to them."""
        with np.errstate(divide="ignore"):
            pair = np.log(self.known.prior[:, None] * self.known.kernel)[:, :, None] + logs
        for weight, nats in zip(self.weights, evidence, strict=True):
            pair = pair + weight * nats
        top = pair.max(axis=1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return normalise(np.log(np.exp(pair - top).sum(axis=1)) + top[:, 0])

    def evidence(self, outputs: Array, logs: Array, *, lattice: bool = True) -> Evidence:
        """What bits say in outputs (T, d, N) with log-likelihoods (n, N) under the pseudo models."""
        known, Y = self.known, whole_rows(outputs)
        T, d, N = Y.shape
        found = Evidence(*np.zeros((3, *known.kernel.shape, N)))
        machines = _machines(known, T)
        with np.errstate(divide="ignore"):
            odds = logs + np.log(known.prior @ known.kernel)[:, None]
        likely = odds >= odds.max(axis=0) + np.log(_ASIDE)
        cost = _TRIES * d * max(machine.cost for machine in machines.values())
        # of models that take their time only the first sequences are looked at
        likely[:, int(_WORK // (cost * len(machines))) + 1 :] &= cost * len(machines) * N <= _WORK
        pairs = [(i, j, np.flatnonzero(likely[j])) for i, j in machines]
        K = int(np.clip(_WORK // (cost * max(1, sum(at.size for _, _, at in pairs))), 1, min(T, _READINGS)))
        gaps = np.asarray(np.isnan(Y[:, 0]).any(axis=0))
        for i, j, at in pairs:
            for some in (at[~gaps[at]], at[gaps[at]]):
                if some.size:
                    machine, part = machines[i, j], np.ascontiguousarray(Y[:, :, some])
                    counts = count_evidence(machine, part, self.release, self.form, K)
                    found.exact[i, j, some], found.close[i, j, some] = counts
                    if lattice:
                        found.lattice[i, j, some] = self._lattice(machine, part, i, j, K)
        return found

    def _lattice(self, machine: Machine, Y: Array, i: int, j: int, K: int) -> Array:
        source, target = self.known.sources[i], self.known.targets[j]
        try:
            if self.form != DOUBLE:
                return form_evidence(Y[:K] if not machine.linear else Y, source, target, self.release, self.form)
            return (
                lattice_evidence(machine, Y, source, target, self.release, K)
                if machine.linear
                else np.zeros(Y.shape[2])
            )
        except UnderstudyError:  # gaps where a model has no law across them
            return np.zeros(Y.shape[2])


class MovingBits(TraceReader):
    """The same for a theta that moves: the first decision by counting, those after it by the lattice of innovations.

    Counting needs the states of both filters to the last bit. They are known at the beginning; later on they depend on
    every value that theta and the draws have had.
    """

    __slots__ = ()

    def evidence(self, cases: Cases) -> Array:
        """What speaks for each value at each reading, (m, T, N), in nats."""
        # not super(): a dataclass with slots is another class than the one that its methods were written in
        found = TraceReader.evidence(self, cases)
        step = self.grid if isinstance(self.grid, float) else 0.0
        counter = BitsAttack(self.known, Release((step,)))
        first = np.ascontiguousarray(cases.outputs[: self.every])
        logs = sequence_logs(self.known.targets, first)
        with np.errstate(divide="ignore"):
            prior = np.log(np.maximum(self.known.prior, 1e-300))[:, None]
        found[:, : self.every] = 0.0
        found[:, 0] = counter.posterior(logs, counter.evidence(first, logs, lattice=False)) - prior
        return np.maximum(found, -MOST_NATS)


def release_of(outputs: Array, design: Design | CausalDesign | None = None) -> Release:
    """How outputs (T, d, N) leave: the design's steps, or those that all of them are multiples of; 0 for doubles.

    A design that has steps is not believed where outputs are no multiples of them.

    >>> release_of(np.round(np.random.default_rng(1).normal(size=(500, 1, 1)), 2)).steps
    (0.01,)
    >>> release_of(np.rint(np.random.default_rng(1).normal(size=(500, 1, 1)) * 2.0**40) / 2.0**40).steps == (2.0**-40,)
    True
    >>> release_of(np.random.default_rng(1).normal(size=(500, 1, 1))).steps
    (0.0,)
    """
    given = getattr(design, "resolution", None)
    d = outputs.shape[1]
    own = [0.0] * d if given is None else np.broadcast_to(np.asarray(given, dtype=float), (d,)).tolist()
    return Release(tuple(_step(outputs[:, c], own[c]) for c in range(d)))


def _step(outputs: Array, given: float) -> float:
    values = outputs[np.isfinite(outputs)]
    values = values[:: max(1, values.size // _SEEN)]
    if not values.size:
        return given
    if given > 0.0 and _multiples(values, given):
        return given
    finest = 4.0 * float(np.median(np.spacing(np.abs(values))))
    steps = sorted((*(2.0**-k for k in range(-10, 60)), *(10.0**-digits for digits in range(10))), reverse=True)
    return next((step for step in steps if step >= finest and _multiples(values, step)), 0.0)


def _multiples(values: Array, step: float) -> bool:
    """Whether all are multiples of a step, as they are rounded to it one way or the other."""
    scale = float(np.rint(1.0 / step)) if step < 1.0 else 1.0 / step
    ways = np.rint(values / step) * step, np.rint(values * scale) / scale
    return any(bool((way == values).all()) for way in ways)


# Evidence --------------------------------------------------------------------------------------------


def count_evidence(machine: Machine, Y: Array, release: Release, form: Form, K: int) -> Array:
    """Nats (2, N) by which counts of readings speak for a pair in outputs (T, d, N), each looked at in K readings.

    The last ones where all are there and states are quickly found from what comes before; otherwise the first ones, up
    to a gap.
    """
    T, _, N = Y.shape
    gone = np.isnan(Y[:, 0])
    first = T - K if machine.linear and not gone.any() else 0
    state, total = machine.start(N), np.zeros((2, N))
    open_ = np.ones(N, dtype=bool)
    reach = 2 if machine.linear else 4
    for k in range(first):
        state = _advance(machine, k, state, Y[k])
    for k in range(first, first + K):
        open_ &= ~gone[k]
        out = np.where(open_, Y[k], 1.0)
        state, likelihood = count_readings(machine, k, state, out, release, form, reach)
        said = np.log((1.0 - _STRAY) * likelihood + _STRAY).sum(axis=1)
        total += np.where(open_, said, 0.0)
    return total


def _advance(machine: Machine, k: int, state: State, out: Array) -> State:
    """States after an output whose bits are not looked at."""
    return machine.step(k, state, machine.back(k, state, out))[0]


def lattice_evidence(machine: Machine, Y: Array, source: Model, target: Model, release: Release, K: int) -> Array:
    """Nats (N,) by which innovations of the source lie on the lattice of doubles, from the scores under the target."""
    T, d, N = Y.shape
    other, first = Machine(target, source, T), max(0, T - K)
    z, raw = whiten(Y, target), disguise(Y, target, source)
    total = np.zeros(N)
    for k in range(first, T):
        root, root_out = machine.root(k), other.root(k)
        e, e_out = root @ z[k], root_out @ z[k]
        lattice = np.minimum(spacing(raw[k]), spacing(raw[k] - e))
        for c in range(d):
            slope = root[c, c] / root_out[c, c]
            error = 4.0 * np.spacing(np.maximum(np.abs(Y[k]), np.abs(Y[k] - e_out))).max(axis=0) * slope
            error += release.steps[c] * slope + 4.0 * np.spacing(np.abs(e[c]))
            place = e[c] / lattice[c]
            total += near(place - np.rint(place), error / lattice[c])
    return total


def form_evidence(Y: Array, source: Model, target: Model, release: Release, form: Form) -> Array:
    """Nats (N,) by which the readings behind outputs (T, d, N) have a form: float32, or a decimal step."""
    raw = disguise(Y, target, source)
    shift = np.array([release.cell(Y[:, c], c) for c in range(Y.shape[1])]).swapaxes(0, 1)
    there = np.isfinite(raw)
    raw = np.where(there & (raw != 0.0), raw, 1.0)
    step = form.spacing(raw)
    error = (shift + 64.0 * np.spacing(np.abs(raw))) / step
    far = (raw - form.nearest(raw)) / step
    return np.asarray(np.where(there, near(far, error), 0.0).sum(axis=(0, 1)))


def near(far: Array, width: Array) -> Array:
    """Nats for a distance from a lattice, in its steps, against a uniform one; 0 where it is not known well enough.

    >>> near(np.array([0.0, 0.4, 0.4]), np.array([1e-3, 1e-3, 0.5])).round(1).tolist()
    [6.2, -3.9, 0.0]
    """
    w = np.minimum(width, _ROUGH)
    density = np.exp(-np.abs(far) / w) / (2.0 * w * -np.expm1(-0.5 / w))
    return np.asarray(np.where(width < _ROUGH, np.log((1.0 - _STRAY) * density + _STRAY), 0.0))


# What is learned -------------------------------------------------------------------------------------


def _form(cases: Cases, attack: BitsAttack, logs: Array) -> Form:
    """The form that the readings of training cases have, when their outputs are undone; doubles if nothing shows."""
    known, best = attack.known, (_CLEARLY, DOUBLE)
    Y, truth = whole_rows(cases.outputs), cases.truth
    K = min(cases.T, 8) if not all(gauss_markov(m) is not None for m in (*known.sources, *known.targets)) else cases.T
    played = logs.argmax(axis=0)
    for form in FORMS:
        total = 0.0
        for i, j in {
            (i, j) for i, j in zip(truth[:_SOUGHT].tolist(), played[:_SOUGHT].tolist(), strict=True) if i >= 0
        }:
            at = np.flatnonzero((truth[:_SOUGHT] == i) & (played[:_SOUGHT] == j))
            try:
                part = np.ascontiguousarray(Y[:K, :, at])
                total += float(form_evidence(part, known.sources[i], known.targets[j], attack.release, form).sum())
            except UnderstudyError:
                continue
        if total > best[0]:
            best = total, form
    return best[1]


def _worth(attack: BitsAttack, logs: Array, evidence: Evidence, cases: Cases) -> tuple[float, float, float]:
    """The weights of all kinds of evidence: those of theory, unless training cases clearly speak for others."""

    def loss(weights: tuple[float, float, float]) -> float:
        return log_loss(replace(attack, weights=weights).posterior(logs, evidence), cases.truth)

    grid = [(a, b, c) for a in _WEIGHTS for b in _WEIGHTS for c in _WEIGHTS]
    losses = [loss(weights) for weights in grid]
    best = int(np.argmin(losses))
    return grid[best] if (loss(attack.weights) - losses[best]) * cases.guesses > _CLEARLY else attack.weights


def _machines(known: Knowledge, T: int) -> dict[tuple[int, int], Machine]:
    sources, targets = known.sources, known.targets
    return {(i, j): Machine(sources[i], targets[j], T) for i, j in np.argwhere(known.kernel > 0.0).tolist()}
