"""Choice of the model class: the one that predicts held-out blocks of time best.

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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy._types import Array, Mask, Progress, Seed
from understudy.errors import ConfigurationError, UnderstudyError
from understudy.identify.history import History

if TYPE_CHECKING:
    from understudy.identify.candidates import Candidate


# Comparison on held-out blocks --------------------------------------------------------------------


BLOCKS = 4
_NOTHING = 0.002  # nats a reading: a thousand readings give a likelihood ratio of seven to one between such classes
Maker = Callable[[History], "Candidate"]


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

    def __repr__(self) -> str:
        return f"Choice({self.chosen!r} of {len(self.rows)} models, {self.readings} held-out readings)"

    def __str__(self) -> str:
        head = ("model", "nats a reading", "behind", "parameters", "s")
        lines = [head, *(_cells(row, row.name == self.chosen) for row in self.rows)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
        texts = [
            "  ".join([line[0].ljust(widths[0]), *(x.rjust(w) for x, w in zip(line[1:], widths[1:], strict=True))])
            for line in lines
        ]
        texts = [
            f"{text}  {row.note}" if row is not None and row.note else text
            for text, row in zip(texts, (None, *self.rows), strict=True)
        ]
        return "\n".join([*(text.rstrip() for text in texts), self.reason])

    def to_plain(self) -> list[dict[str, Any]]:
        """As JSON can hold it: the rows."""
        return [row.to_plain() for row in self.rows]


def _cells(row: Row, chosen: bool) -> tuple[str, ...]:
    score = "-" if row.score is None or row.error is None else f"{row.score:.3f} ± {row.error:.3f}"
    behind = "-" if row.behind is None or row.behind_error is None else f"{row.behind:.3f} ± {row.behind_error:.3f}"
    count = "-" if row.count is None else str(row.count)
    return ("* " if chosen else "  ") + row.name, score, behind, count, f"{row.seconds:.1f}"


def choose(
    history: History,
    makers: Mapping[str, Maker],
    *,
    blocks: int = BLOCKS,
    unusable: Callable[[Candidate], str | None] | None = None,
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
        raise ConfigurationError(
            "no model class could be fitted: " + "; ".join(f"{t.name}: {t.failure}" for t in tried)
        )
    common = [~np.any([np.isnan(trial.densities[b]) for trial in good], axis=0) for b in range(len(pairs))]
    sizes = np.array([mask.sum() for mask in common], dtype=float)
    if not sizes.sum():
        raise ConfigurationError("no held-out reading has a law under every model class; the history is too short")
    means = {t.key: _means(t.densities, common) for t in good}
    for trial in good:
        if unusable is not None and trial.candidate is not None:
            trial.reason = unusable(trial.candidate)
    rows = _rows(tried, means, sizes)
    chosen, reason = _pick(rows, {t.key: t.name for t in tried}, wanted)
    key = next(trial.key for trial in tried if trial.name == chosen)
    return Choice(rows, chosen, key, int(sizes.sum()), len(pairs), reason)


class _Trial:
    """What came out of one model class on the blocks."""

    def __init__(self, key: str) -> None:
        self.key = self.name = key
        self.candidate: Candidate | None = None
        self.densities: list[Array] = []
        self.failure: str | None = None
        self.reason: str | None = None
        self.seconds = 0.0
        self.runs = 0

    def run(self, maker: Maker, rest: History, held: History) -> None:
        from understudy.identify.prediction import log_densities

        if self.failure is not None:
            return
        start, doing = time.perf_counter(), "could not be fitted"
        try:
            self.candidate = maker(rest)
            self.name, doing = self.candidate.name, "has no law for a held-out reading"
            self.densities.append(np.concatenate(log_densities(self.candidate.models, held)))
        except (UnderstudyError, np.linalg.LinAlgError, FloatingPointError) as error:
            self.failure = f"{doing}: {error}"
        self.seconds += time.perf_counter() - start
        self.runs += 1


def _means(densities: list[Array], common: list[Mask]) -> Array:
    """Mean of each block; NaN of a block without readings."""
    return np.array(
        [float(x[mask].mean()) if mask.any() else np.nan for x, mask in zip(densities, common, strict=True)]
    )


def _rows(tried: list[_Trial], means: dict[str, Array], sizes: Array) -> tuple[Row, ...]:
    total = {key: _average(mean, sizes) for key, mean in means.items()}
    open_to = {t.key for t in tried if t.key in total and t.reason is None}
    best = max(open_to or total.keys(), key=lambda key: total[key])
    rows = []
    for t in sorted(tried, key=lambda t: -total.get(t.key, -math.inf)):
        score, note, finite = total.get(t.key), t.failure or t.reason, False
        error = behind = behind_error = None
        if score is not None:
            finite = math.isfinite(score)
            note = note if finite else "gives some held-out reading no chance at all"
            if finite:
                error = _error(means[t.key], sizes)
                difference = means[best] - means[t.key]
                behind, behind_error = _average(difference, sizes), _error(difference, sizes)
        count = None if t.candidate is None else t.candidate.count
        usable = finite and t.failure is None and t.reason is None
        score = score if finite else None
        rows.append(Row(t.name, score, error, behind, behind_error, count, t.seconds / max(t.runs, 1), usable, note))
    return tuple(rows)


def _average(x: Array, sizes: Array) -> float:
    there = sizes > 0
    return float(x[there] @ sizes[there] / sizes.sum())


def _error(x: Array, sizes: Array) -> float:
    """Standard error of the weighted mean of blocks."""
    there = sizes > 0
    if there.sum() < 2:
        return 0.0
    w = sizes[there] / sizes.sum()
    rest = x[there] - w @ x[there]
    return math.sqrt(float((w * rest) @ (w * rest)) * there.sum() / (there.sum() - 1))


def _pick(rows: tuple[Row, ...], names: Mapping[str, str], wanted: str | None) -> tuple[str, str]:
    if wanted is not None:
        name = names.get(wanted, wanted)
        row = next((row for row in rows if row.name == name), None)
        if row is None:
            raise ConfigurationError(f"model = {wanted!r}; it is none of {[row.name for row in rows]!r}")
        if row.score is None or not row.usable:
            raise ConfigurationError(f"model = {wanted!r} cannot be used: {row.note}")
        return row.name, f"{row.name}, as asked for"
    usable = [row for row in rows if row.usable]
    if not usable:
        raise ConfigurationError("no model class can be used: " + "; ".join(f"{r.name}: {r.note}" for r in rows))
    best = usable[0]
    if len(rows) == 1:
        return best.name, f"{best.name}, the only one that was tried"
    reason = f"{best.name} predicts held-out readings best"
    if best is not rows[0] and rows[0].score is not None:
        reason += " of those that can be used"
    runner = next((row for row in usable[1:] if row.behind is not None), None)
    if runner is not None and runner.behind is not None and runner.behind_error is not None:
        if runner.behind < _NOTHING:
            return best.name, f"{reason}, by next to nothing: {runner.name} does as well"
        sure = "clearly" if runner.behind > 2.0 * runner.behind_error else "not clearly"
        reason += f", {sure} better than {runner.name}"
    return best.name, reason


# The model classes that are tried, by name -----------------------------------------------------------


KINDS = ("grey-box", "autoregressive", "free", "independent", "hidden")
FREE = "free noise"
"""What the names of classes have in them whose noise has no assumed shape."""
_LONG = 20_000  # readings above which "auto" leaves out free noise, which takes long; it is tried where the gate fails
_OTHER_NAMES = {
    "greybox": "grey-box",
    "grey box": "grey-box",
    "gauss-markov": "grey-box",
    "ar": "autoregressive",
    "var": "autoregressive",
    "autoregression": "autoregressive",
    "iid": "independent",
    "i.i.d.": "independent",
    "hmm": "hidden",
    "semiparametric": "free",
    "semi-parametric": "free",
    "free noise": "free",
    "hidden markov": "hidden",
}


def makers(
    history: History, model: str | Iterable[str] = "auto", order: int | Iterable[int] = (1, 2), random_state: Seed = 0
) -> dict[str, Maker]:
    """Name -> what fits it, for the classes that `model` names."""
    wanted = [model] if isinstance(model, str) else list(model) if isinstance(model, Iterable) else [model]
    found: dict[str, Maker] = {}
    everything = {kind: _of_kind(kind, history, orders(order), random_state) for kind in KINDS}
    for name in wanted:
        if not isinstance(name, str):
            raise ConfigurationError(f"model = {model!r}; it is 'auto', a name or a list of names")
        found |= _by_name(name, everything, history)
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


def _by_name(name: str, everything: dict[str, dict[str, Maker]], history: History) -> dict[str, Maker]:
    low = name.lower()
    kind = _OTHER_NAMES.get(low, low)
    if kind == "auto":
        long = history.rows * history.dim > _LONG
        return {
            key: maker
            for kind, makers_of in everything.items()
            for key, maker in makers_of.items()
            if not (long and kind == "free")
        }
    if kind in everything and name not in everything[kind]:
        return everything[kind]
    for makers_of in everything.values():
        for key, maker in makers_of.items():
            if key.lower() == low:
                return {key: maker}
    made = _autoregression(name, history)
    if made is None:
        known = [key for makers_of in everything.values() for key in makers_of]
        raise ConfigurationError(f"model = {name!r}; it is 'auto', one of {', '.join(KINDS)}, or one of {known!r}")
    return {name: made}


def _autoregression(name: str, history: History) -> Maker | None:
    """An autoregression of any order by its name."""
    match = re.fullmatch(r"V?AR\((\d+)\), (normal|Student-t)( by class)?", name, re.IGNORECASE)
    if match is None:
        return None
    from understudy.identify.candidates.autoregressive import fit_autoregression

    noise = "normal" if match[2].lower() == "normal" else "student"
    return partial(fit_autoregression, order=int(match[1]), noise=noise, by_class=bool(match[3]))


def _of_kind(kind: str, history: History, order: tuple[int, ...], random_state: Seed) -> dict[str, Maker]:
    if kind == "grey-box":
        from understudy.identify.candidates.grey_box import fit_greybox

        return {"grey-box": fit_greybox}
    if kind == "autoregressive":
        from understudy.identify.candidates.autoregressive import fit_autoregression

        letters = "AR" if history.dim == 1 else "VAR"
        return {
            f"{letters}({p}), {words}{' by class' if by_class else ''}": partial(
                fit_autoregression, order=p, noise=noise, by_class=by_class
            )
            for p in order
            for noise, words in (("normal", "normal"), ("student", "Student-t"))
            for by_class in ((False, True) if p == max(order) else (False,))
        }
    if kind == "independent":
        from understudy.identify.candidates.independent import fit_independent

        return {
            "independent, normal": fit_independent,
            "independent, Student-t": partial(fit_independent, law="student"),
            "independent, kernel": partial(fit_independent, law="kernel", random_state=random_state),
        }
    if kind == "free":
        from understudy.identify.candidates.autoregressive import fit_semiparametric

        name = f"{'AR' if history.dim == 1 else 'VAR'}({max(order)}), {FREE} by class"
        return {name: partial(fit_semiparametric, order=max(order))}
    from understudy.identify.candidates.hidden_markov import fit_hidden

    return {"hidden Markov": partial(fit_hidden, random_state=random_state)}
