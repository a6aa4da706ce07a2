"""How well models predict a history, and the choice of the model class: the one that predicts held-out blocks best.

Reading k has the law of the model of theta_k given the readings before it: the model that `Family.along` makes of the
labels. `log_densities` and `scores` go through a history so. That model goes through any path step by step; the common
kinds have quick ways to the same numbers (a test holds the two together): Gauss-Markov models the compiled loop,
autoregressive models and independent readings all readings of one value at once, hidden Markov models with one
transition matrix the compiled forward recursion. A reading that is missing, incomplete or without a label is NaN in the
result; so is one whose predecessors are not all there, under an autoregressive model whose noise is not Gaussian.

Each class is fitted on all but one block of time. Its score is the log-density of each reading of the held-out block
given the readings before it. Every block is held out once. All classes are compared on the same readings: a reading
for which some class has no law, such as the first of a segment, counts for none. The standard error over blocks is
rough, since blocks are few and long.

Classes have names: those of the table ("grey-box", "AR(2), Student-t"), or those of a kind, which stand for all classes
of it: "grey-box", "autoregressive", "independent", "hidden", and "free", an autoregression whose noise has no assumed
shape. "auto" stands for all.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from understudy import text
from understudy._types import Array, Index, Progress, Seed
from understudy.errors import ConfigurationError, FamilyError, LawError, UnderstudyError
from understudy.identify.candidates import Candidate, fill_labels, kalman_filter, mask_readings
from understudy.laws.atoms import cell_scores
from understudy.laws.mixture import blend_scores
from understudy.laws.multivariate import impossible
from understudy.laws.uniforms import uniforms_from
from understudy.models.autoregressive import AutoRegressive
from understudy.models.family import Family, same_state
from understudy.models.gauss_markov import GaussMarkov, gauss_markov
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.iid_markov import IID
from understudy.models.model import Model
from understudy.models.quantised import OnGrid, score_on_grid
from understudy.transform.adaptive import members_of, score_path
from understudy.transform.backend import kernels_hidden, view
from understudy.transform.core import broken_law, whiten
from understudy.transform.hidden_markov import bank, is_known
from understudy.transform.readings import finite_or_missing

if TYPE_CHECKING:
    from understudy.identify.history import History


# How well models predict a history -----------------------------------------------------------------


_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
# What a quick way gives for one segment: log-densities (T,) and scores (T, d).
Result = tuple[Array, Array]
Way = Callable[[Array, Index], Result]


def log_densities(models: Mapping[Any, Model], history: History) -> list[Array]:
    """For each segment the log-density of each reading given those before it, in nats; NaN where there is none.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> models = {0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 1.0))}
    >>> segment = Segment("1", None, np.array([[0.0], [3.0], [np.nan]]), np.array([0, 1, 1]))
    >>> history = History(("y",), "theta", None, (), (0, 1), None, (segment,), ())
    >>> log_densities(models, history)[0].round(3).tolist()
    [-0.919, -0.919, nan]
    """
    members = _members(models, history)
    way = _quick(members) or _stepwise(members)
    return [way(mask_readings(s.Y, s.theta), fill_labels(s.theta))[0] for s in history.segments]


def scores(models: Mapping[Any, Model], history: History, rng: Seed = None) -> list[Array]:
    """For each segment the scores (T, d): independent standard normals if the models are right; NaN as above.

    `rng` (a key, a seed, a Generator) makes the auxiliary uniforms of models with atoms, such as rounded ones.

    >>> import understudy as us
    >>> from understudy.identify.history import History, Segment
    >>> models = {0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 4.0))}
    >>> segment = Segment("1", None, np.array([[1.0], [7.0]]), np.array([0, 1]))
    >>> scores(models, History(("y",), "theta", None, (), (0, 1), None, (segment,), ()))[0].ravel().tolist()
    [1.0, 2.0]
    """
    members = _members(models, history)
    segments = [(mask_readings(s.Y, s.theta), fill_labels(s.theta)) for s in history.segments]
    way = _quick(members)
    if way is not None:
        return [way(Y, theta)[1] for Y, theta in segments]
    uniforms = uniforms_from(rng)
    rounded = [member for member in members if type(member) is OnGrid]
    if len(rounded) == len(members):
        blocks = [uniforms.sensor(j).block(0, len(Y), history.dim) for j, (Y, _) in enumerate(segments)]
        if members_of(members) is not None:
            return [score_path(members, Y, theta, v)[1] for (Y, theta), v in zip(segments, blocks, strict=True)]
        linear = [gauss_markov(member.model) for member in rounded]
        constant = [model for model in linear if model is not None and model.constant]
        if history.dim == 1 and len(constant) == len(members):
            return [_in_cells(Y, theta, constant, rounded, v) for (Y, theta), v in zip(segments, blocks, strict=True)]
        found = [score_on_grid(Y, theta, rounded, v) for (Y, theta), v in zip(segments, blocks, strict=True)]
        known = [z for z in found if z is not None]
        if len(known) == len(found):
            return known
    return [
        whiten(Y, _along(members, theta), uniforms.sensor(j)) if len(Y) else np.empty((0, history.dim))
        for j, (Y, theta) in enumerate(segments)
    ]


def _in_cells(Y: Array, theta: Index, linear: list[GaussMarkov], members: list[OnGrid], v: Array) -> Array:
    """Scores of one channel on a grid with Gauss-Markov models: the filter first, then the cells of all readings."""
    density, z = kalman_filter(linear, Y, theta)
    # log density = -ln sd - z^2 / 2 - ln(2 pi) / 2, and z = (y - yhat) / sd
    sd = np.exp(-density - 0.5 * np.square(z[:, 0]) - _HALF_LOG_2PI)
    found, there = np.full(Y.shape, np.nan), ~np.isnan(z[:, 0])
    y, at = Y[there, 0], sd[there]
    cell = members[0].grid.channels[0].cells(y, 0)
    lower, upper = (z[there, 0] + (end - y) / at for end in (cell.lower, cell.upper))
    found[there, 0] = cell_scores(lower, upper, v[there, 0])
    return found


def _members(models: Mapping[Any, Model], history: History) -> list[Model]:
    for value in history.values:
        if value not in models:
            raise FamilyError(f"there is no model for the value {value!r} of the history; each value needs one")
    members = [models[value] for value in history.values]
    for value, member in zip(history.values, members, strict=True):
        if member.dim != history.dim:
            raise FamilyError(
                f"the model of {value!r} has {member.dim} channels and the history has {history.dim}; they must agree"
            )
    return members


def _quick(members: list[Model]) -> Way | None:
    """The quick way for these models, if there is one."""
    first = members[0]
    if any(type(m) is not type(first) or not same_state(m, first) for m in members):
        return None
    linear = [m for m in map(gauss_markov, members) if m is not None and m.constant]
    if len(linear) == len(members):
        return lambda Y, theta: kalman_filter(linear, Y, theta)
    if any(getattr(m, "atoms", False) for m in members):
        return None
    if members_of(members) is not None:
        return lambda Y, theta: score_path(members, Y, theta)
    rest: list[Any] = members
    if type(first) in (IID, AutoRegressive):
        return lambda Y, theta: _from_residuals(rest, Y, theta)
    return _hidden_markov(rest) if type(first) is HiddenMarkov else None


def _from_residuals(members: list[Any], Y: Array, theta: Index) -> Result:
    """Autoregressions, and independent readings as those of order 0: each residual under the law of its value."""
    # e_k = y_k - intercept - sum_i Phi_i y_{k-i}, with the parameters of theta_k; NaN spreads to the p after a gap
    finite_or_missing(Y)
    E, laws = Y, [m.law if type(m) is IID else m.noise for m in members]
    if type(members[0]) is AutoRegressive:
        p = members[0].order
        E = np.full(Y.shape, np.nan)
        if len(Y) > p:
            Phi = np.stack([m.coefficients for m in members])[theta[p:]]
            E[p:] = Y[p:] - np.stack([m.intercept for m in members])[theta[p:]]
            for lag in range(1, p + 1):
                E[p:] -= np.einsum("kij,kj->ki", Phi[:, lag - 1], Y[p - lag : len(Y) - lag])
    T, d = E.shape
    there = ~np.isnan(E).any(axis=1)
    density, z = np.full(T, np.nan), np.full((T, d), np.nan)
    for i, law in enumerate(laws):
        at = np.flatnonzero(there & (theta == i))
        if at.size:
            rows = E[at, 0] if d == 1 else E[at].T
            density[at] = law.logpdf(rows)
            z[at] = np.reshape(law.score(rows), (d, -1)).T
    return density, z


def _hidden_markov(members: list[HiddenMarkov]) -> Way | None:
    first = members[0]
    if any(not np.array_equal(m.transition, first.transition) for m in members):
        return None
    if not all(is_known(law, first.dim) for m in members for law in m.emissions):
        return None
    banks = [bank(m.emissions) for m in members]
    d, S = first.dim, first.states

    def way(Y: Array, theta: Index) -> Result:
        T = len(Y)
        density, z = np.full(T, np.nan), np.full((T, d), np.nan)
        if T == 0:
            return density, z
        there = ~finite_or_missing(Y)
        Z, G, W = np.full((3, T, d, S), np.nan)
        for i, laws in enumerate(banks):
            at = np.flatnonzero(there & (theta == i))
            if at.size:
                Z[at], G[at] = laws.under(Y[at])
        pi = members[theta[0]].initial.copy()
        arrays = (view(G.reshape(-1)), T, d, S, view(first.transition.reshape(-1)), view(pi), view(W.reshape(-1)))
        done = kernels_hidden.forward(*arrays, view(np.empty(2 * S)))
        if done < T:
            raise impossible(done)
        with np.errstate(divide="ignore"):
            log_w = np.log(W)
        density[there] = np.logaddexp.reduce(log_w[there, 0] + G[there].sum(axis=1), axis=1)
        for i in range(d):
            z[there, i] = blend_scores(Z[there, i].T, log_w[there, i].T)
        return density, z

    return way


def _along(members: list[Model], theta: Index) -> Model:
    return Family(dict(enumerate(members))).along(theta.tolist())


def _stepwise(members: list[Model]) -> Way:
    """Log-densities by the four methods, for any models that can follow each other; no scores."""

    def way(Y: Array, theta: Index) -> Result:
        density = np.full(len(Y), np.nan)
        if len(Y) == 0:
            return density, np.empty(Y.shape)
        model, missing = _along(members, theta), finite_or_missing(Y)
        state = model.start()
        for k, row in enumerate(Y.ravel().tolist() if model.dim == 1 else Y):
            if missing[k]:
                state = model.skip(state)
                continue
            try:
                density[k] = float(model.predict(state).logpdf(row))
                state = model.update(state, row)
            except LawError:
                raise broken_law(k) from None
        return density, np.empty(Y.shape)

    return way


# Comparison on held-out blocks --------------------------------------------------------------------


BLOCKS = 4
_NOTHING = 0.002  # nats a reading: a thousand readings give a likelihood ratio of seven to one between such classes
Maker = Callable[["History"], Candidate]


@dataclass(frozen=True, slots=True)
class Row:
    """One model class in the table. The figures are nats for each held-out reading."""

    name: str
    score: float | None
    """Mean log-density of held-out readings; None if it could not be fitted, or gives some reading no chance."""
    error: float | None
    """Standard error of the mean, over blocks."""
    behind: float | None
    """How much less than the best, on the same readings."""
    behind_error: float | None
    """Standard error of that, over blocks."""
    count: int | None
    """Free parameters."""
    seconds: float
    """Time that one fit took, on average."""
    usable: bool
    note: str | None

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {name: getattr(self, name) for name in Row.__slots__}


@dataclass(frozen=True, slots=True, repr=False)
class Choice:
    """The table, best first, and what was chosen. Its text is the table."""

    rows: tuple[Row, ...]
    chosen: str
    key: str
    """The name under which what fits it was given."""
    readings: int
    blocks: int
    reason: str
    fits: Mapping[str, Sequence[tuple[Candidate, History]]]
    """By key: each class fitted without a block, and that block."""

    def __repr__(self) -> str:
        return f"Choice({self.chosen!r} of {len(self.rows)} models, {self.readings} held-out readings)"

    def __str__(self) -> str:
        head = ("model", "nats a reading", "behind", "parameters", "s")
        lines = [head, *(_cells(row, row.name == self.chosen) for row in self.rows)]
        first, *others = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = []
        for line, note in zip(lines, (None, *(row.note for row in self.rows)), strict=True):
            cells = [line[0].ljust(first), *(x.rjust(w) for x, w in zip(line[1:], others, strict=True)), note or ""]
            shown.append("  ".join(cells).rstrip())
        return "\n".join([*shown, self.reason])

    def to_plain(self) -> list[dict[str, Any]]:
        """As JSON can hold it: the rows."""
        return [row.to_plain() for row in self.rows]


def _cells(row: Row, chosen: bool) -> tuple[str, ...]:
    figures = [(row.score, row.error), (row.behind, row.behind_error)]
    score, behind = ("-" if x is None or e is None else f"{x:.3f} ± {e:.3f}" for x, e in figures)
    count = "-" if row.count is None else str(row.count)
    return ("* " if chosen else "  ") + row.name, score, behind, count, f"{row.seconds:.1f}"


def choose(
    history: History,
    makers: Mapping[str, Maker],
    *,
    blocks: int = BLOCKS,
    unusable: Callable[[Candidate], str | None] = lambda _: None,
    wanted: str | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Compare model classes on held-out blocks, and choose the best; `wanted` overrides by name.

    `unusable` says of a candidate why it cannot be used, such as a law that the grid of the readings does not have; it
    stands in the table and is not chosen.
    """
    if not makers:
        raise ConfigurationError("no model class is given; there is nothing to choose from")
    pairs = history.blocks(blocks)
    tried = []
    for at, (key, maker) in enumerate(makers.items()):
        tried.append(_Trial(key))
        for number, (rest, held) in enumerate(pairs):
            tried[-1].run(maker, rest, held)
            if progress is not None:
                progress((at + (number + 1) / len(pairs)) / len(makers))
    good = [trial for trial in tried if trial.failure is None]
    if not good:
        each = dict.fromkeys(str(trial.failure) for trial in tried)
        why = each if len(each) == 1 else [f"{trial.name}: {trial.failure}" for trial in tried]
        raise ConfigurationError(
            "no model class could be fitted: " + "; ".join(why).removeprefix("could not be fitted: ")
        )
    common = [~np.any([np.isnan(trial.densities[b]) for trial in good], axis=0) for b in range(len(pairs))]
    sizes = np.array([mask.sum() for mask in common], dtype=float)
    if not sizes.sum():
        raise ConfigurationError("no held-out reading has a law under every model class; the history is too short")
    there = np.flatnonzero(sizes)
    for trial in good:
        trial.means = np.array([float(trial.densities[b][common[b]].mean()) for b in there])
        trial.obstacle = None if trial.candidate is None else unusable(trial.candidate)
    rows = _rows(tried, sizes[there])
    chosen, reason = _pick(rows, {t.key: t.name for t in tried}, wanted)
    key = next(trial.key for trial in tried if trial.name == chosen)
    return Choice(rows, chosen, key, int(sizes.sum()), len(pairs), reason, {t.key: t.fits for t in good})


class _Trial:
    """What came out of one model class on the blocks."""

    def __init__(self, key: str) -> None:
        self.key = self.name = key
        self.candidate: Candidate | None = None
        self.densities: list[Array] = []
        self.means: Array | None = None
        self.failure: str | None = None
        self.obstacle: str | None = None
        self.seconds: list[float] = []
        self.fits: list[tuple[Candidate, History]] = []

    def run(self, maker: Maker, rest: History, held: History) -> None:
        if self.failure is not None:
            return
        start, doing = time.perf_counter(), "could not be fitted"
        try:
            self.candidate = maker(rest)
            self.name, doing = self.candidate.name, "has no law for a held-out reading"
            self.densities.append(np.concatenate(log_densities(self.candidate.models, held)))
            self.fits.append((self.candidate, held))
        except (UnderstudyError, np.linalg.LinAlgError, FloatingPointError) as error:
            self.failure = f"{doing}: {error}"
        self.seconds.append(time.perf_counter() - start)


def _rows(tried: list[_Trial], sizes: Array) -> tuple[Row, ...]:
    """The table, best first; the best is one that can be used, if there is one."""
    w = sizes / sizes.sum()
    total = {t.key: float(w @ t.means) if t.means is not None else -math.inf for t in tried}
    order = sorted(tried, key=lambda t: -total[t.key])
    best = next((t for t in order if t.means is not None and t.obstacle is None), order[0])
    rows = []
    for t in order:
        score = error = behind = behind_error = None
        note = t.failure or t.obstacle
        if t.means is not None and best.means is not None:
            if math.isfinite(total[t.key]):
                score, error = total[t.key], _error(t.means, w)
                behind, behind_error = float(w @ (best.means - t.means)), _error(best.means - t.means, w)
            else:
                note = text.fit_note("no chance")
        count = None if t.candidate is None else t.candidate.count
        usable = score is not None and t.obstacle is None
        rows.append(Row(t.name, score, error, behind, behind_error, count, float(np.mean(t.seconds)), usable, note))
    return tuple(rows)


def _error(x: Array, w: Array) -> float:
    """Standard error of the weighted mean of blocks."""
    if x.size < 2:
        return 0.0
    rest = w * (x - w @ x)
    return math.sqrt(float(rest @ rest) * x.size / (x.size - 1))


def _pick(rows: tuple[Row, ...], names: Mapping[str, str], wanted: str | None) -> tuple[str, str]:
    """The name of the best class, or of the one that is wanted, and the reason."""
    if wanted is not None:
        name = names.get(wanted, wanted)
        row = next((row for row in rows if row.name == name), None)
        if row is None:
            raise ConfigurationError(f"model = {wanted!r}; it is none of {[row.name for row in rows]!r}")
        if not row.usable:
            raise ConfigurationError(f"model = {wanted!r} cannot be used: {row.note}")
        return row.name, text.fit_note("model as asked for", name=row.name)
    usable = [row for row in rows if row.usable]
    if not usable:
        raise ConfigurationError("no model class can be used: " + "; ".join(f"{r.name}: {r.note}" for r in rows))
    best, runner = usable[0], usable[1] if len(usable) > 1 else None
    if runner is None or runner.behind is None or runner.behind_error is None:
        return best.name, text.best_model(best.name, len(rows) == 1, best is not rows[0])
    margin = "none" if runner.behind < _NOTHING else "clear" if runner.behind > 2.0 * runner.behind_error else "unclear"
    return best.name, text.best_model(best.name, False, best is not rows[0], (runner.name, margin))


# The model classes that are tried, by name -----------------------------------------------------------


KINDS = ("grey-box", "autoregressive", "free", "independent", "hidden", "adaptive")
_LONG = 20_000  # readings above which "auto" leaves out free noise, which takes long; it is tried where the gate fails
_OTHER_NAMES = {
    "greybox": "grey-box", "grey box": "grey-box", "gauss-markov": "grey-box",
    "ar": "autoregressive", "var": "autoregressive", "autoregression": "autoregressive",
    "iid": "independent", "i.i.d.": "independent",
    "hmm": "hidden", "hidden markov": "hidden",
    "semiparametric": "free", "semi-parametric": "free", "free noise": "free",
}  # fmt: skip


def makers(
    history: History, model: str | Iterable[str] = "auto", order: int | Iterable[int] = (1, 2), random_state: Seed = 0
) -> dict[str, Maker]:
    """Name -> what fits it, for the classes that `model` names."""
    wanted = [model] if isinstance(model, str) else list(model) if isinstance(model, Iterable) else [model]
    classes = _classes(history.dim, orders(order), random_state)
    found: dict[str, Maker] = {}
    for name in wanted:
        if not isinstance(name, str):
            raise ConfigurationError(f"model = {model!r}; it is 'auto', a name or a list of names")
        found |= _by_name(name, classes, history)
    return found


def orders(given: int | Iterable[int]) -> tuple[int, ...]:
    """Orders of autoregression, from a number or a sequence of them.

    >>> orders(2), orders([1, 3])
    ((2,), (1, 3))
    """
    found = (given,) if isinstance(given, int) else tuple(given) if isinstance(given, Iterable) else ()
    if not found or any(not isinstance(p, int) or isinstance(p, bool) or not 1 <= p <= 100 for p in found):
        raise ConfigurationError(f"order = {given!r}; it must be a whole number of at least 1, or several")
    return found


def _by_name(name: str, classes: dict[str, tuple[str, Maker]], history: History) -> dict[str, Maker]:
    low = name.lower()
    kind = _OTHER_NAMES.get(low, low)
    if kind == "auto":
        long = history.rows * history.dim > _LONG
        return {key: maker for key, (kind, maker) in classes.items() if not (long and kind == "free")}
    if kind in KINDS:
        return {key: maker for key, (of, maker) in classes.items() if of == kind}
    for key, (_, maker) in classes.items():
        if key.lower() == low:
            return {key: maker}
    match = re.fullmatch(r"V?AR\((\d+)\), (normal|Student-t)( by class)?", name, re.IGNORECASE)
    if match is None:
        raise ConfigurationError(
            f"model = {name!r}; it is 'auto', one of {', '.join(KINDS)}, or one of {list(classes)!r}"
        )
    from understudy.identify.candidates.autoregressive import fit_autoregression

    student = match[2].lower() != "normal"
    return {name: partial(fit_autoregression, order=int(match[1]), student=student, by_class=bool(match[3]))}


def _classes(d: int, order: tuple[int, ...], random_state: Seed) -> dict[str, tuple[str, Maker]]:
    """Kind and maker of each class, for readings of d channels."""
    from understudy.identify.candidates import autoregressive as ar
    from understudy.identify.candidates.adaptive import fit_adaptive
    from understudy.identify.candidates.grey_box import fit_greybox
    from understudy.identify.candidates.hidden_markov import fit_hidden
    from understudy.identify.candidates.independent import fit_independent

    last = max(order)
    shared: dict[int, tuple[History, Candidate]] = {}

    def fit_base(history: History) -> Candidate:
        """The autoregression that free noise starts from, fitted once to each history."""
        if id(history) not in shared:
            shared[id(history)] = history, ar.fit_autoregression(history, order=last, student=True, by_class=True)
        return shared[id(history)][1]

    found: dict[str, tuple[str, Maker]] = {"grey-box": ("grey-box", fit_greybox)}
    for p in order:
        for student in (False, True):
            for by_class in (False, True) if p == last else (False,):
                maker = partial(ar.fit_autoregression, order=p, student=student, by_class=by_class)
                name = ar.autoregression_name(p, d, "Student-t" if student else "normal", by_class)
                found[name] = "autoregressive", fit_base if student and by_class else maker
    free = ar.autoregression_name(last, d, "free noise", True)
    found[free] = "free", lambda history: ar.fit_semiparametric(history, order=last, base=fit_base(history))
    found["independent, normal"] = "independent", fit_independent
    found["independent, Student-t"] = "independent", partial(fit_independent, law="student")
    found["independent, kernel"] = "independent", partial(fit_independent, law="kernel", random_state=random_state)
    found["hidden Markov"] = "hidden", partial(fit_hidden, random_state=random_state)
    if d == 1:
        found["adaptive"] = "adaptive", fit_adaptive
    return found


# Values that stand for several --------------------------------------------------------------------


_SHORTEST_BLOCK, _FEWEST_BLOCKS = 12, 10
_MIXED = 1e-3  # chance of a note about values that each are one
_PARTS = 3  # into which a value is cut


class MixedValue(NamedTuple):
    """A value whose scores differ from block to block, as if it stood for several."""

    value: int
    """Its position."""
    channel: int
    blocks: int
    correlation: float
    """Rank correlation of the mean scores of the two halves of a block, over blocks."""
    column: str | None
    """The numeric column that goes with the mean scores, if there is one."""
    cuts: tuple[float, ...]
    """Where that column would be cut within the value."""


def mixed_values(
    models: Mapping[Any, Model], history: History, others: Callable[[], Mapping[str, Sequence[Array]]], rng: Seed = None
) -> tuple[list[MixedValue], list[int]]:
    """Values whose blocks of time have scores of different means, tested against what one value gives.

    A block is a run of one value. If the value is one, the scores of the first half of a block tell nothing about those
    of the second, whatever the models miss from one reading to the next; a piece in the middle is left out. If it
    stands for several, such as 1 to 67 people, both halves lean the same way. The rank correlation over blocks is
    tested, with a probability of `_MIXED` for a false alarm over all values and channels. `others` gives
    numeric columns beside the readings, (T,) a segment; the one that goes best with the mean scores is named.
    The second result are values with too few blocks to tell.
    """
    from scipy.stats import spearmanr

    z = scores(models, history, rng)
    runs = [(k, *run) for k, s in enumerate(history.segments) for run in _runs(s.theta)]
    limit, found = _MIXED / (len(history.values) * history.dim), []
    untested: list[int] = []
    for value, channel in product(range(len(history.values)), range(history.dim)):
        mine = [
            (k, start, stop)
            for k, start, stop in runs
            if history.segments[k].theta[start] == value
            and np.isfinite(z[k][start:stop, channel]).sum() >= _SHORTEST_BLOCK
        ]
        if len(mine) < _FEWEST_BLOCKS:
            untested.append(value)
            continue
        halves = np.array([_halves(z[k][start:stop, channel]) for k, start, stop in mine])
        correlation, p = spearmanr(halves[:, 0], halves[:, 1], alternative="greater")
        if not p <= limit:
            continue
        columns = others()
        best: tuple[float, str | None, tuple[float, ...]] = (1e-3 / max(1, len(columns)), None, ())
        means = halves.mean(axis=1)
        for name, parts in columns.items():
            blocks = [parts[k][start:stop] for k, start, stop in mine]
            beside = np.array(
                [block[np.isfinite(block)].mean() if np.isfinite(block).any() else 0.0 for block in blocks]
            )
            if np.ptp(beside) > 0.0:
                chance = float(spearmanr(beside, means).pvalue)
                if chance < best[0]:
                    cuts = np.quantile(beside, [part / _PARTS for part in range(1, _PARTS)])
                    best = chance, name, tuple(sorted({float(np.ceil(cut)) for cut in cuts}))
        found.append(MixedValue(value, channel, len(mine), float(correlation), *best[1:]))
    return found, untested


def _runs(theta: Index) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(theta, prepend=theta[:1] - 1, append=-2 if len(theta) else 0))
    return pairwise([int(edge) for edge in edges])


def _halves(z: Array) -> tuple[float, float]:
    """Means of the halves of a block, without a piece in the middle."""
    there = z[np.isfinite(z)]
    gap = max(1, len(there) // 10)
    middle = len(there) // 2
    return float(there[: middle - gap].mean()), float(there[middle + gap :].mean())
