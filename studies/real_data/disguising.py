"""Disguises of a whole recording: pseudo paths for many designs at once, and readings coloured along them.

The way is that of `us.disguise` with ``family.along(theta)`` and ``family.along(pseudo)``, which goes reading by
reading in plain Python. The study makes some hundred disguises of each recording, so autoregressions (all families
here) are coloured for all of them together; a test holds the two ways together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import understudy as us
from studies.real_data.hidden_paths import hidden, is_hidden
from understudy._types import Array
from understudy.identify.history import History
from understudy.laws.atoms import Rounded
from understudy.models.autoregressive import AutoRegressive
from understudy.models.family import Family
from understudy.models.quantised import OnGrid

Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to draw pseudo values: by a causal design, or anew in every epoch by one kernel."""

    kind: str
    """"causal" or "epoch"."""
    every: int
    """Readings of a decision, or of an epoch."""
    nats: float
    """Leakage of a decision in the long run, by the theorem, or of an epoch."""
    design: Any
    kernel: Array
    """(m, n): for a causal design the long-run average of Pr(pseudo given theta), as an adversary knows it."""
    asked: float = math.nan
    """The budget as it was asked for: nats a day, or an epoch."""

    def pseudo(self, theta: Positions, rng: np.random.Generator) -> tuple[Positions, float]:
        """The path of pseudo values for a path of private ones, both as positions, and the nats that were charged."""
        path, charged = np.empty(len(theta), dtype=np.intp), 0.0
        state = self.design.start() if self.kind == "causal" else None
        for start in range(0, len(theta), self.every):
            if self.kind == "causal":
                state, j, charge = self.design.beliefs.draw(state, int(theta[start]), rng)
            else:
                row = self.kernel[int(theta[start])]
                j, charge = int(np.searchsorted(np.cumsum(row)[:-1], rng.random(), side="right")), self.nats
            path[start : start + self.every] = j
            charged += charge
        return path, charged


def transition(family: Family) -> Array:
    """The transition matrix of theta from one reading to the next, as it was fitted."""
    about: Any = family.about
    return np.array(about["chain"]["transition"])


def causal(family: Family, cost: Array, every: int, rate: float, rng: np.random.Generator) -> Plan:
    """A causal design at a rate in nats a decision: 0 tells nothing, infinity plays the true value."""
    T = np.linalg.matrix_power(transition(family), every)
    T = T / T.sum(axis=1, keepdims=True)
    demand: dict[str, Any] = {"slope": rate} if rate in (0.0, math.inf) else {"rate": rate}
    made = us.design_causal(family, T, **demand, decision_every=every, distortion=cost)
    return Plan("causal", every, float(made.rate), made, average_kernel(made, rng))


def average_kernel(design: Any, rng: np.random.Generator, decisions: int = 4000) -> Array:
    """Pr(pseudo given theta) of a causal design in the long run, by a simulated path."""
    m, n = design.beliefs.cost.shape
    counts = np.full((m, n), 1e-3)
    theta, state = int(rng.choice(m, p=design.beliefs.prior)), design.start()
    T = design.beliefs.transitions[0]
    for _ in range(decisions):
        state, j, _ = design.beliefs.draw(state, theta, rng)
        counts[theta, j] += 1.0
        theta = int(rng.choice(m, p=T[theta]))
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def epochs(family: Family, cost: Array, every: int, leakage: float) -> Plan:
    """A design for a constant value, drawn anew at every epoch and charged each time."""
    made = us.solve(cost, prior=family.prior, leakage=leakage)
    return Plan("epoch", every, float(made.leakage), made, np.array(made.randomizer.kernel))


def costs(family: Family, horizon: int, weights: Array) -> Array:
    """The surrogate distortion of every pair of values: mean absolute difference, channels weighted.

    By `us.costs`, to 5 percent. For hidden Markov families that takes minutes; they are simulated here in the same way
    (one sequence of scores under all values) with 60 sequences, which is as precise for two values.
    """
    if isinstance(_inside(family.model(family.values[0])), AutoRegressive):
        given = {"weights": weights.tolist()} if family.dim > 1 else {}
        matrix = np.array(us.costs(family, horizon=horizon, distortion="mae", accuracy=0.05, **given).matrix)
    else:
        z, m = np.random.default_rng(1).standard_normal((horizon, family.dim, 60)), len(family.values)
        Y = [coloured(z, family, np.full((horizon, 60), i)) for i in range(m)]
        apart = [[np.abs(Y[i] - Y[j]).mean(axis=(0, 2)) @ weights for j in range(m)] for i in range(m)]
        matrix = np.array(apart)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def _inside(model: Any) -> Any:
    return model.model if type(model) is OnGrid else model


def scores(family: Family, history: History, rng: Any, theta: Sequence[Positions] | None = None) -> list[Array]:
    """Scores (T, d) of every segment along its labels, or along other paths."""
    found = []
    for k, segment in enumerate(history.segments):
        path = segment.theta if theta is None else theta[k]
        source = family.along([family.values[i] for i in path])
        Y = segment.Y if family.dim > 1 else segment.Y[:, 0]
        z = us.whiten(Y, source, rng=rng)
        found.append(z.reshape(segment.Y.shape))
    return found


def mixed(z: Array, share: float, rng: np.random.Generator) -> Array:
    """Scores with fresh ones mixed in: standard normal again if they were, and further from where they came from."""
    return np.asarray(math.sqrt(1.0 - share * share) * z + share * rng.standard_normal(z.shape))


def coloured(z: Array, family: Family, which: Positions) -> Array:
    """Scores (T, d, N) to readings along N paths (T, N) of positions among the family's values."""
    members = [family.model(value) for value in family.values]
    inside = [_inside(m) for m in members]
    if is_hidden(inside):
        return hidden(z, inside, [getattr(m, "grid", None) for m in members], which)
    if not all(type(m) is AutoRegressive and m.order == inside[0].order for m in inside):
        columns = [
            us.colour(
                z[:, :, s] if family.dim > 1 else z[:, 0, s], family.along([family.values[i] for i in which[:, s]])
            )
            for s in range(z.shape[2])
        ]
        return np.stack([column.reshape(z.shape[:2]) for column in columns], axis=2)
    T, d, N = z.shape
    Y = np.empty((T, d, N))
    past = np.stack([inside[i].past for i in which[0]], axis=2)
    laws = [_reported(whole, within) for whole, within in zip(members, inside, strict=True)]
    for k in range(T):
        for i, model in enumerate(inside):
            at = np.flatnonzero(which[k] == i)
            if at.size:
                # yhat_k = intercept + sum_i Phi_i y_{k-i}
                mean = model.intercept[:, None] + np.einsum("pij,pjn->in", model.coefficients, past[:, :, at])
                Y[k][:, at] = laws[i](z[k][:, at], mean)
        past = np.concatenate([Y[k][None], past[:-1]])
    return Y


def _reported(member: Any, model: AutoRegressive) -> Callable[[Array, Array], Array]:
    """What a model reports of scores (d, N) and predictions (d, N)."""
    d = model.dim

    def on_grid(z: Array, mean: Array) -> Array:
        law = Rounded(model.noise, member.grid, mean[0] if d == 1 else mean)
        return np.reshape(law.value(z[0] if d == 1 else z), (d, -1))

    def anywhere(z: Array, mean: Array) -> Array:
        return mean + np.reshape(model.noise.value(z[0] if d == 1 else z), (d, -1))

    return on_grid if type(member) is OnGrid else anywhere


@dataclass(frozen=True, slots=True)
class Disguised:
    """All disguises of one recording by one plan: for each segment outputs (T, d, R) and pseudo paths (T, R)."""

    outputs: list[Array]
    pseudo: list[Positions]
    nats: float
    """Charged, a day (or a whole recording without a period), on average over replicates."""


def limits(history: History) -> tuple[Array, Array]:
    """The range that outputs are kept to: that of the training readings, half as wide again on either side.

    A limit that does not depend on what is disguised takes nothing from privacy. It matters where a heavy tail was
    fitted: a score that the source thinks nearly impossible then becomes an absurd reading of the target.
    """
    Y = history.stack()
    low, high = Y.min(axis=0), Y.max(axis=0)
    return low - 0.5 * (high - low), high + 0.5 * (high - low)


def disguised(
    family: Family,
    history: History,
    z: Sequence[Sequence[Array]],
    plans: Sequence[Plan],
    rng: np.random.Generator,
    within: tuple[Array, Array],
) -> list[Disguised]:
    """Disguises by every plan: replicate r of it has the scores z[r] and draws of its own."""
    R = len(z)
    low, high = (end[None, :, None] for end in within)
    outputs: list[list[Array]] = [[] for _ in plans]
    paths: list[list[Positions]] = [[] for _ in plans]
    charged = np.zeros(len(plans))
    for k, segment in enumerate(history.segments):
        scores_of = np.stack([z[r][k] for r in range(R)] * len(plans), axis=2)
        drawn = [[plan.pseudo(segment.theta, rng) for _ in range(R)] for plan in plans]
        which = np.stack([path for row in drawn for path, _ in row], axis=1)
        made = np.clip(coloured(scores_of, family, which), low, high)
        for p, row in enumerate(drawn):
            outputs[p].append(made[:, :, p * R : (p + 1) * R])
            paths[p].append(which[:, p * R : (p + 1) * R])
            charged[p] += sum(charge for _, charge in row) / R
    days = history.rows * history.period / 86_400.0 if history.period else 1.0
    return [Disguised(*parts) for parts in zip(outputs, paths, (charged / days).tolist(), strict=True)]


def distortion(history: History, outputs: Sequence[Array]) -> Array:
    """Mean absolute difference from the readings, by channel (d,)."""
    total = sum(
        np.abs(out - s.Y[:, :, None]).sum(axis=(0, 2)) for s, out in zip(history.segments, outputs, strict=True)
    )
    count = sum(out.shape[0] * out.shape[2] for out in outputs)
    return np.asarray(total / count)


def noisy(history: History, size: Array, slow: float, replicates: int, rng: np.random.Generator) -> list[Array]:
    """Readings with normal noise whose mean absolute value is `size` (d,); white, or AR(1) with the coefficient `slow`.

    White noise averages out over time. Noise as slow as the room itself does not, and is the better rival.
    """
    sd = np.asarray(size) * math.sqrt(math.pi / 2.0)
    found = []
    for segment in history.segments:
        e = rng.standard_normal((*segment.Y.shape, replicates))
        if slow:
            for k in range(1, len(e)):
                e[k] = slow * e[k - 1] + math.sqrt(1.0 - slow * slow) * e[k]
        found.append(segment.Y[:, :, None] + sd[None, :, None] * e)
    return found
