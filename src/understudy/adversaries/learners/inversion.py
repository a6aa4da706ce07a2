"""Running the recursion backwards: what a theta that was estimated from the readings gives away.

The filter is public, and the theorem grants an adversary the pseudo path. Then the scores z are known: they are the
output, whitened along that path. Missing is the path of theta along which the raw readings were whitened. If theta came
from outside, z tells nothing about it. If it was *estimated* from the readings, it is a function of what is sought,
and that is enough to go on step by step. With the past recovered, each value i has one candidate reading, the one
whose scores under i are z_k; the estimator, run on past and candidate, must say i again. Candidates that contradict
themselves are dropped.

Often one is left, and then the reading is known exactly, as if it had been sent in the clear. Where several
are, paths fork. They are weighed by the probability of what they say: with b- and b+ the belief of the estimator in i
before and after the reading, the density of the scores under a fork is that of a normal times b-_i / b+_i, and a
draw of the randomizer adds the logarithm of its probability under i.

What decides is how much the value that is taken owes to the *past*. A value that is kept until the next decision owes
it nearly all, and everything is recovered. Values so far apart that one reading settles which it is owe it nothing:
then every candidate is consistent with itself, nothing is recovered, and the guarantee holds but for the chance of a
wrong estimate (`understudy.randomizer.causal.card`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.errors import ConfigurationError
from understudy.laws.base import Array
from understudy.randomizer.causal.beliefs import Beliefs, BeliefState
from understudy.randomizer.causal.making import CausalDesign
from understudy.randomizer.estimating import Estimator, EstimatorState
from understudy.transform.maps import has_atoms
from understudy.transform.readings import as_readings
from understudy.transform.scores import whiten

_CONTRADICTION = -14.0  # log-weight of a step that no value explains: once in a million, for what we do not know
_FAINT = -35.0  # branches that are less likely than the best one by this much are dropped


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Inversion:
    """What was recovered from an output. Its repr tells counts only, for the rest is secret.

    `rows` are the positions of the values along which the readings were whitened and `readings` the raw readings, both
    of the likeliest path; `share` is the probability of that path among those that were kept to the end. `belief`
    (T, m) is what a Bayes filter makes of the recovered readings, averaged over the paths. `forks` counts the
    readings at which the likeliest path left more than one value open, `contradictions` those at which none was.
    """

    rows: NDArray[np.int64]
    readings: Array
    belief: Array
    share: float
    forks: int
    contradictions: int

    def __repr__(self) -> str:
        return f"Inversion({len(self.rows)} readings, {self.forks} forks, {self.contradictions} contradictions)"

    @property
    def guess(self) -> NDArray[np.int64]:
        """The likeliest position of theta at each reading."""
        return np.asarray(self.belief.argmax(axis=1), dtype=np.int64)


class _Node(NamedTuple):
    """A step of a path, linked to the one before."""

    before: Any
    row: int
    y: Any
    belief: tuple[float, ...]
    fork: int
    contradiction: int


class _Branch(NamedTuple):
    weight: float
    state: EstimatorState
    node: _Node | None


def invert(design: CausalDesign, Y_out: Any, pseudo: Sequence[Any], *, hold: bool = False, beam: int = 64) -> Inversion:
    """Recover the raw readings, and the path of theta that was estimated from them, from an output (T,) or (T, d).

    `pseudo` is the pseudo path, one value for each decision. `hold` says whether the edge keeps the value that it takes
    at the first reading of a decision, as in `Estimator`. At most `beam` paths are followed at a time.

    Here the values cannot be told apart by one reading, nor by a few, and nothing at all was to be told: the rate
    is zero, so the same pseudo value is played for ever. All is recovered.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 0.5], prior=[0.9, 0.1])
    >>> stay = [[0.9, 0.1], [0.1, 0.9]]
    >>> design = us.design_causal(family, stay, rate=0.0, decision_every=40, distortion=[[0, 1], [1, 0]])
    >>> theta = [0] * 80 + [0.5] * 80
    >>> Y = us.sample(family.along(theta), 160, rng=1)
    >>> rows = Estimator(family, stay, 40, hold=True).rows(Y)
    >>> Y_out = us.disguise(Y, family.along([family.values[i] for i in rows]), family.along([0] * 160))
    >>> found = invert(design, Y_out, [0, 0, 0, 0], hold=True)
    >>> bool(abs(found.readings - Y).max() < 1e-9), found.rows.tolist() == rows
    (True, True)
    """
    estimator = Estimator(design.family, design.beliefs.transitions, design.decision_every, hold=hold)
    if any(has_atoms(design.family.model(value)) for value in (*design.values, *design.pseudo)):
        raise ConfigurationError("readings with atoms are not recovered from their scores; this attack needs densities")
    if isinstance(beam, bool) or not isinstance(beam, (int, np.integer)) or beam < 1:
        raise ConfigurationError(f"beam = {beam!r}; it must be a whole number of paths, 1 or more")
    out = as_readings(Y_out, design.family.dim)
    if out.ndim == 3:
        raise ConfigurationError(
            f"the output has shape {out.shape}; one sequence is attacked at a time, (T,) or (T, d)"
        )
    T, every = len(out), design.decision_every
    if len(pseudo) != -(-T // every):
        raise ConfigurationError(
            f"the pseudo path has {len(pseudo)} decisions; {T} readings with {every} a decision have {-(-T // every)}"
        )
    z = whiten(out, design.family.along([pseudo[k // every] for k in range(T)]))
    drawn = _log_likelihoods(design, pseudo)
    branches = [_Branch(0.0, estimator.start(), None)]
    for k in range(T):
        told = drawn[k // every] if k % every == 0 else None
        branches = _step(estimator, branches, z[k] if len(z[k]) > 1 else float(z[k, 0]), told, int(beam))
    return _collected(branches, z[:, 0] if np.ndim(Y_out) == 1 else z)


def _step(
    estimator: Estimator, branches: list[_Branch], z: Any, told: Sequence[float] | None, beam: int
) -> list[_Branch]:
    """All branches one reading further, the likeliest first."""
    missing = bool(np.isnan(z).any())
    found = [after for branch in branches for after in _candidates(estimator, branch, z, told, missing)]
    if not found:
        found = [after for branch in branches for after in _contradicted(estimator, branch, z, told)]
    found.sort(key=lambda branch: -branch.weight)
    faint = found[0].weight + _FAINT
    return [branch for branch in found[:beam] if branch.weight >= faint]


def _candidates(
    estimator: Estimator, branch: _Branch, z: Any, told: Sequence[float] | None, missing: bool
) -> list[_Branch]:
    """What a branch goes on to: every value whose candidate reading is taken for that value again."""
    state = branch.state
    if missing:
        after, row = estimator.step(state, None)
        weight = branch.weight + (0.0 if told is None else told[row])
        return [_Branch(weight, after, _Node(branch.node, row, None, after.belief, 0, 0))] if weight > -math.inf else []
    before = estimator.moved(state)
    kept = estimator.hold and told is None  # no decision begins: the value is known
    found = []
    for i in (state.row,) if kept else range(len(before)):
        if not before[i] > -math.inf or (told is not None and not told[i] > -math.inf):
            continue
        y = estimator.value(state, i, z)
        after, row = estimator.step(state, y)
        if row == i:
            weight = branch.weight + before[i] - after.belief[i] + (0.0 if told is None else told[i])
            found.append((weight, after, row, y))
    fork = int(len(found) > 1)
    return [_Branch(w, after, _Node(branch.node, row, y, after.belief, fork, 0)) for w, after, row, y in found]


def _contradicted(estimator: Estimator, branch: _Branch, z: Any, told: Sequence[float] | None) -> list[_Branch]:
    """The same where no value explains the reading: theta was not estimated in this way, or not from this past."""
    state, found = branch.state, []
    if bool(np.isnan(z).any()):
        after, row = estimator.step(state, None)
        return [_Branch(branch.weight + _CONTRADICTION, after, _Node(branch.node, row, None, after.belief, 0, 1))]
    before = estimator.moved(state)
    for i, b in enumerate(before):
        if b > -math.inf:
            y = estimator.value(state, i, z)
            after, row = estimator.forced(state, y, i)
            weight = branch.weight + b - after.belief[i] + _CONTRADICTION
            if told is not None:
                weight += max(told[i], _CONTRADICTION)
            found.append(_Branch(weight, after, _Node(branch.node, row, y, after.belief, 0, 1)))
    return found


def _log_likelihoods(design: CausalDesign, pseudo: Sequence[Any]) -> list[list[float]]:
    """For each decision the logarithm of the probability of its draw, by value: the kernels follow from the draws."""
    beliefs: Beliefs = design.beliefs
    state: BeliefState = beliefs.start()
    found = []
    for value in pseudo:
        j = _column(design, value)
        kernel = beliefs.kernel(state.belief)
        found.append([math.log(p) if p > 0.0 else -math.inf for p in kernel[:, j].tolist()])
        possible = float(np.asarray(state.belief) @ kernel[:, j]) > 0.0
        state = beliefs.after(state, kernel if possible else None, j)
    return found


def _column(design: CausalDesign, value: Any) -> int:
    for j, known in enumerate(design.pseudo):
        if np.array_equal(known, value):
            return j
    raise ConfigurationError(f"the pseudo path holds a {type(value).__name__} that is none of the pseudo values")


def _collected(branches: list[_Branch], z: Array) -> Inversion:
    weights = np.array([branch.weight for branch in branches])
    shares = np.exp(weights - weights.max())
    shares /= shares.sum()
    T, m = len(z), len(branches[0].state.belief)
    belief = np.zeros((T, m))
    for share, branch in zip(shares.tolist(), branches, strict=True):
        belief += share * np.exp([node.belief for node in _nodes(branch)])
    path = _nodes(branches[0])
    readings = np.full(z.shape, np.nan)
    for k, node in enumerate(path):
        if node.y is not None:
            readings[k] = node.y
    rows = np.array([node.row for node in path], dtype=np.int64)
    for array in (rows, readings, belief):
        array.flags.writeable = False
    return Inversion(
        rows, readings, belief, float(shares[0]),
        sum(node.fork for node in path), sum(node.contradiction for node in path),
    )  # fmt: skip


def _nodes(branch: _Branch) -> list[_Node]:
    found, node = [], branch.node
    while node is not None:
        found.append(node)
        node = node.before
    return found[::-1]
