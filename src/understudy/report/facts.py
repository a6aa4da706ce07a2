"""What there is to say about a design, as plain data: the page, the terminal and programs take it from here.

A design that was made from files knows its columns, its period and what its leakage is per; one that was made from
models alone knows less. What is not known is None, and is left out by whoever shows it.

What a design costs where the private value moves: days simulated with the chain that was seen in the data.

Designs are found with the distortion of values that stay, over a stated number of readings. People come and go,
and then readings change by another amount, often a larger one. Here both paths are played: the private one by its
chain, the pseudo one by the design, and the same scores are coloured along each, which is what the filter does.

The trade-off of a design that is at hand: other leakages, the same costs, nothing simulated again.

The classes of models that were compared, as a table for a page or a terminal.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from understudy import text
from understudy._types import Array
from understudy.models.family import Family
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.causal_belief import Beliefs, as_transitions, long_run, play
from understudy.randomizer.causal_guarantee import CausalCard, causal_card
from understudy.randomizer.design import Design, solved, total
from understudy.randomizer.frontier import Frontier
from understudy.randomizer.guarantee import Guarantee
from understudy.randomizer.solver import minimise
from understudy.transform.core import colour

# What there is to say about a design, as plain data: the page, the terminal and programs take it from ---


AnyDesign = Design | CausalDesign

_DAY = 86_400.0
UNTESTED = (
    "Whether the models fit the sensor was not tested. Every bound is for readings that have the law of the models; "
    "where they have not, more leaks."
)
_MISFIT = (
    "The models do not fit the data that was held out. Every bound is for readings that have the law of the models, "
    "and these have not."
)
NOTHING = (
    "This design hides nothing: the best guess of the private value need never be wrong. Ask for less leakage, or for "
    "wrong guesses."
)
_NEVER = 1e-9  # a share of wrong guesses that is none
_MEASURES = {"mae": "mean absolute error", "mse": "mean squared error"}


def about(design: AnyDesign) -> dict[str, Any]:
    """What the family says of the data that it was fitted to; empty if it was not fitted."""
    family: Family | None = design.family
    found = getattr(family, "about", None)
    return found if isinstance(found, dict) else {}


def facts(design: AnyDesign) -> dict[str, Any]:
    """Everything on the first page, as plain data for JSON.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
    >>> found = facts(us.design(family, leakage=0.3, distortion="mae"))
    >>> found["kind"], found["per"], round(found["leakage"]["nats"], 9), found["distortion"]["measure"]
    ('one draw', 'run', 0.3, 'mae')
    """
    known = about(design)
    causal = isinstance(design, CausalDesign)
    return {
        "kind": "causal" if causal else "one draw",
        "private": known.get("private"),
        "values": [_plain(value) for value in design.values],
        "odds": [float(p) for p in _prior(design)],
        "pseudo": [_plain(value) for value in design.pseudo],
        "readings": list(known.get("readings") or []) or None,
        "time": known.get("time"),
        "period_seconds": known.get("period"),
        "per": known.get("per") or ("decision" if causal else "run"),
        "leakage": _causal_leakage(design) if isinstance(design, CausalDesign) else _leakage(design),
        "wrong_guesses": _guesses(design),
        "distortion": _distortion(design),
        "status": None if isinstance(design, CausalDesign) else design.status,
        "constraints": [] if isinstance(design, CausalDesign) else _constraints(design),
        "model": (known.get("model") or {}).get("name"),
        "gate": _gate(known),
        "warnings": warnings(design),
        "notes": [str(note) for note in known.get("notes") or ()],
        "fingerprint": fingerprint(design),
    }


def _constraints(design: Design) -> list[dict[str, Any]]:
    """What the randomizer keeps beside its demand: kind, limits, and the sentence on the card."""
    plain = [one.to_dict() for one in design.constraints]
    return [{**told, "words": one.words} for told, one in zip(plain, design.constraints, strict=True)]


def fingerprint(design: AnyDesign) -> str | None:
    """Tells this design from another; None without models, for then no stream can be made of it."""
    return None if design.family is None else design.fingerprint


def warnings(design: AnyDesign) -> list[str]:
    """What must stand wherever the design is shown, in plain words; empty if there is nothing to warn of."""
    return [*nothing_hidden(design), *(doubts(about(design)) if about(design) else [UNTESTED])]


def nothing_hidden(design: AnyDesign) -> list[str]:
    """That a design hides nothing, if the best guess with it need never be wrong.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
    >>> [len(nothing_hidden(us.design(family, leakage=x, distortion="mae"))) for x in ("100%", 0.3)]
    [1, 0]
    """
    return [NOTHING] if _guesses(design)["at_least"] <= _NEVER else []


def doubts(known: dict[str, Any]) -> list[str]:
    """All that speaks against the fit: the gate's warning, and the values that it could not test.

    >>> doubts({"gate": {"passed": True, "warning": None, "untested": ["3+"]}})
    ['Of 3+ too few readings were held out: whether their models fit was not tested.']
    """
    untested = (known.get("gate") or {}).get("untested") or ()
    names = ", ".join(text.label(value) for value in untested)
    few = f"Of {names} too few readings were held out: whether their models fit was not tested."
    return [*misfit(known), *([few] if names else [])]


def misfit(known: dict[str, Any]) -> list[str]:
    """The warning of the gate, in plain words, from what a family says of itself.

    >>> misfit({"gate": {"passed": True, "warning": None}}), len(misfit({"gate": None}))
    ([], 1)
    """
    gate = known.get("gate")
    if gate is None:
        return [UNTESTED]
    if gate.get("passed"):
        return []
    return [str(gate.get("warning") or _MISFIT)]


def card_of(design: AnyDesign) -> Guarantee | CausalCard:
    """The card of a design: of one draw, or of draws that remember."""
    if isinstance(design, Design):
        return design.guarantee
    return causal_card(design, decisions_per_day=day(design), estimated=design.estimated)


def day(design: CausalDesign) -> float | None:
    """How many decisions a day has, if the period is known."""
    period = about(design).get("period")
    return _DAY / (float(period) * design.decision_every) if period else None


def span(seconds: float | None) -> str:
    """A duration in words.

    >>> span(60.0), span(900.0), span(86400.0), span(90.0), span(0.5), span(None)
    ('1 min', '15 min', '1 day', '90 s', '0.5 s', 'unknown')
    """
    if seconds is None:
        return "unknown"
    for size, name in ((_DAY, "day"), (3600.0, "h"), (60.0, "min")):
        count = seconds / size
        if count >= 1.0 and abs(count - round(count)) < 1e-9:
            return f"{round(count)} {name}" + ("s" if name == "day" and round(count) > 1 else "")
    return f"{seconds:g} s"


def unit(known: dict[str, Any]) -> str:
    """The unit of the readings with a space before it, if there is one for all; else nothing."""
    units = {u for u in known.get("units") or () if u}
    return f" {units.pop()}" if len(units) == 1 else ""


def measure_name(name: str | None) -> str:
    """What a distortion is called in a sentence.

    >>> measure_name("mae"), measure_name("tolerant"), measure_name(None)
    ('mean absolute error', 'distortion (tolerant)', 'distortion')
    """
    return "distortion" if name is None else _MEASURES.get(name, f"distortion ({name})")


def _prior(design: AnyDesign) -> Any:
    return design.beliefs.prior if isinstance(design, CausalDesign) else design.prior


def _leakage(design: Design) -> dict[str, Any]:
    nats = design.total_leakage
    share = design.guarantee.share
    return {
        "nats": nats,
        "bits": nats / math.log(2.0),
        "share_of_entropy": share if math.isfinite(share) else None,
        "residual_nats": design.residual,
        "budget_nats": design.budget,
    }


def _causal_leakage(design: CausalDesign) -> dict[str, Any]:
    count = day(design)
    return {
        "nats_a_decision": design.rate,
        "bits_a_decision": design.rate / math.log(2.0),
        "standard_error": design.rate_error,
        "nats_for_the_first_decision": design.first_charge,
        "decision_every_readings": design.decision_every,
        "decisions_a_day": count,
        "nats_a_day": None if count is None else design.rate * count,
        "bits_a_day": None if count is None else design.rate * count / math.log(2.0),
    }


def _guesses(design: AnyDesign) -> dict[str, Any]:
    """Of the best adversary; of a moving parameter at the time, and afterwards with all draws seen."""
    found: dict[str, Any] = card_of(design).to_dict()["wrong_guesses"]
    if isinstance(design, Design):
        return {"blind": found["before"], "at_least": found["after_at_least"]}
    return {
        "blind": found["blind"],
        "at_least": found["at_the_time_at_least"],
        "afterwards_at_least": found["afterwards_at_least"],
    }


def _distortion(design: AnyDesign) -> dict[str, Any]:
    costs = design.costs
    relative = relative_distortion(design)
    return {
        "measure": None if costs is None else costs.distortion,
        "value": design.distortion,
        "standard_error": design.distortion_error,
        "share_of_mean_reading": relative,
        "horizon": None if costs is None else costs.horizon,
        "unit": unit(about(design)).strip() or None,
    }


def relative_distortion(design: AnyDesign) -> float | None:
    """Distortion over the mean reading; the root of a squared one."""
    if isinstance(design, Design):
        return design.relative_distortion
    if design.costs is None or not abs(design.costs.mean_reading) > 0.0:
        return None
    size = math.sqrt(design.distortion) if design.costs.distortion == "mse" else design.distortion
    return size / abs(design.costs.mean_reading)


def _gate(known: dict[str, Any]) -> dict[str, Any] | None:
    gate = known.get("gate")
    return None if gate is None else {"passed": bool(gate.get("passed")), "warning": gate.get("warning")}


def _plain(value: Any) -> Any:
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    return value if isinstance(value, (bool, int, float, str)) else text.label(value)


# What a design costs where the private value moves: days simulated with the chain that was seen in th ---


_DAY_page_paths, _LONGEST, _SEQUENCES, _SEED = 86_400.0, 1440, 8, 20230206


class Moving(NamedTuple):
    """The mean distortion of a reading along simulated paths, its standard error, and how long and many they were."""

    distortion: float
    error: float
    readings: int
    sequences: int


def moving(design: AnyDesign, sequences: int = _SEQUENCES) -> Moving | None:
    """The distortion along paths of a day, or of 1440 readings; None where the chain or the measure is not known.

    >>> import understudy as us
    >>> room = {v: us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=float(v)) for v in (0, 1)}
    >>> family = us.Family(room, about={"period": 600.0, "chain": {"transition": [[0.9, 0.1], [0.1, 0.9]]}})
    >>> found = moving(us.design(family, leakage=0.1, distortion="mae"))
    >>> found.readings, bool(0.0 < found.error < found.distortion)
    (144, True)
    """
    known = about(design)
    matrix = (known.get("chain") or {}).get("transition")
    measure = None if design.costs is None else design.costs.distortion
    if matrix is None or design.family is None or measure not in ("mae", "mse"):
        return None
    T = as_transitions(matrix, len(design.values))[0]
    period = known.get("period")
    count = min(_LONGEST, max(2, round(_DAY_page_paths / float(period)))) if period else _LONGEST
    rng = np.random.default_rng(_SEED)
    each = np.empty(sequences)
    for s in range(sequences):
        theta, pseudo = _paths(design, T, count, rng)
        z = rng.standard_normal((count, design.family.dim))
        one, other = (np.asarray(colour(z, design.family.along(path))).reshape(count, -1) for path in (theta, pseudo))
        apart = one - other
        each[s] = float(np.abs(apart).mean() if measure == "mae" else (apart**2).mean())
    return Moving(float(each.mean()), float(each.std(ddof=1) / math.sqrt(sequences)), count, sequences)


def _paths(design: AnyDesign, T: Array, count: int, rng: np.random.Generator) -> tuple[list[object], list[object]]:
    """A private path, and the pseudo path that the design plays for it."""
    values, pseudo = design.values, design.pseudo
    if isinstance(design, CausalDesign):
        every = design.decision_every
        played = play(design.beliefs, -(-count // every), 1, rng)
        # within a decision the value is taken to stay, as the decision does
        rows, columns = (np.repeat(path[:, 0], every)[:count] for path in (played.theta, played.pseudo))
        return [values[i] for i in rows], [pseudo[j] for j in columns]
    now = int(rng.choice(len(values), p=design.prior))
    drawn = pseudo[design.randomizer.draw_index(now, rng)]
    path = []
    ends = np.cumsum(T, axis=1)
    for u in rng.random(count).tolist():
        path.append(values[now])
        now = min(int(np.searchsorted(ends[now], u, side="right")), len(values) - 1)
    return path, [drawn] * count


# The trade-off of a design that is at hand: other leakages, the same costs, nothing simulated again ---


_POINTS = 25
_SLOPES = (0.05, 0.5, 2.0, 5.0, 50.0)  # over the scale of the costs; more are put where the curve has gaps
_MORE, _MORE_SIMULATED = 16, 5
_SEED_page_frontier = 20230205


class Tradeoff(NamedTuple):
    """Leakages in nats, what each costs, and the share of guesses that are wrong at least, if there is such a bound."""

    leakages: list[float]
    distortions: list[float]
    errors: list[float] | None


def tradeoff(design: Design | CausalDesign) -> Tradeoff:
    """The least distortion at leakages from nothing to where more is of no use.

    >>> import understudy as us
    >>> found = tradeoff(us.solve([[0, 1], [1, 0]], leakage=0.2))
    >>> round(found.distortions[0], 6), round(found.distortions[-1], 6), round(found.errors[0], 6)
    (0.5, 0.0, 0.5)
    """
    return _of_draws(design) if isinstance(design, Design) else _of_chain(design)


def frontier_of(design: Design) -> Frontier:
    """The designs that other budgets would have given, with the costs of this one.

    >>> import understudy as us
    >>> frontier_of(us.solve([[0, 1], [1, 0]], leakage=0.2))
    Frontier(25 designs, saturation=0.693147 nats)
    """
    matrix, prior = np.ascontiguousarray(design.cost), np.array(design.prior)
    saturation = minimise(matrix, prior, math.inf).leakage
    # closer together at the ends, where the curve bends
    ends = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, _POINTS))
    budgets = [total(x, design.charge) for x in (ends * saturation * (1.0 + 1e-12)).tolist()]
    if not np.isfinite(matrix[prior > 0.0]).all(axis=0).any():
        budgets = budgets[1:]  # forbidden pairs: something must be told
    made = [
        solved(matrix.copy(), prior.copy(), ("leakage", b), design.family, design.costs, design.charge) for b in budgets
    ]
    return Frontier(made, total(saturation, design.charge))


def _of_draws(design: Design) -> Tradeoff:
    made = frontier_of(design)
    return Tradeoff(made.leakages.tolist(), made.distortions.tolist(), made.errors.tolist())


def _of_chain(design: CausalDesign) -> Tradeoff:
    b = design.beliefs

    def at(slope: float) -> tuple[float, float]:
        settled = long_run(Beliefs(b.prior, b.transitions, b.cost, slope), _SEED_page_frontier)
        return settled.rate, settled.distortion

    found = {slope: at(slope) for slope in (s / b.scale for s in _SLOPES)}
    for _ in range(_MORE_SIMULATED if design.rate_error > 0.0 else _MORE):
        slopes = sorted(found)
        gaps = [found[high][0] - found[low][0] for low, high in pairwise(slopes)]
        k = int(np.argmax(gaps))
        slope = math.sqrt(slopes[k] * slopes[k + 1])
        found[slope] = at(slope)
    points = sorted([at(math.inf), (design.rate, design.distortion), *found.values()])
    return Tradeoff([rate for rate, _ in points], [d for _, d in points], None)


# The classes of models that were compared, as a table for a page or a terminal -----------------------


HEAD = ("model", "log-likelihood", "behind", "± (1 s.e.)", "parameters", "verdict")


def candidates(model: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each candidate, best first; the last cell says which was chosen and which cannot be used.

    >>> found = candidates({"name": "grey-box", "table": [{"name": "grey-box", "score": -2.8, "behind": 0.0}]})
    >>> found
    [('grey-box', '-2.8000', '0.0000', '-', '-', 'chosen')]
    """
    rows = []
    for each in model.get("table") or ():
        if not isinstance(each, dict):
            continue
        name = str(each.get("name"))
        state = "chosen" if name == model.get("name") else "" if each.get("usable", True) else "cannot be used"
        numbers = (_number(each.get(key)) for key in ("score", "behind", "behind_error"))
        count = each.get("count")
        rows.append((name, *numbers, "-" if count is None else str(count), state))
    return rows


def remarks(model: dict[str, Any]) -> list[str]:
    """Why candidates cannot be used, each reason once with those it is about.

    >>> remarks({"table": [{"name": "a", "note": "is slow"}, {"name": "b", "note": "is slow"}]})
    ['a; b: is slow']
    """
    found: dict[str, list[str]] = {}
    for each in model.get("table") or ():
        if isinstance(each, dict) and each.get("note"):
            found.setdefault(str(each["note"]), []).append(str(each.get("name")))
    return [f"{'; '.join(names)}: {note}" for note, names in found.items()]


def _number(x: Any) -> str:
    return f"{x:.4f}" if isinstance(x, (int, float)) else "-"
