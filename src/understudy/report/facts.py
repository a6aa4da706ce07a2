"""What is true of a design, as plain data: pages, the terminal and programs take it from here.

A design that was made from files knows its columns, its period and what its leakage is per; one that was made from
models alone knows less. What is not known is None, and is left out by whoever shows it.

Designs are found with the distortion of values that stay, over a stated number of readings. Where people come and go,
readings change by another amount, often a larger one: `moving_facts` simulates days with the chain that was seen in
the data. `tradeoff` gives the designs that other leakages would have given, with the costs that are at hand.
"""

from __future__ import annotations

import math
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from understudy import text
from understudy._types import Array, Json, Plain, Value
from understudy.adversaries.results import Audit, blind_accuracy, clock_reference, price_lines, sort_rows, strongest
from understudy.adversaries.statistics import Figure
from understudy.distortion.costs import EXACT, costs
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.causal_guarantee import Beliefs, CausalCard, as_transitions, causal_card, long_run, play
from understudy.randomizer.coin import CoinCard, CoinDesign
from understudy.randomizer.design import Design, solve_demand, total
from understudy.randomizer.frontier import Frontier
from understudy.randomizer.guarantee import Guarantee
from understudy.randomizer.solver import minimise
from understudy.transform.core import colour

DrawDesign = Design | CausalDesign
"""A design that draws pseudo values."""
AnyDesign = DrawDesign | CoinDesign

_DAY = 86_400.0
_NEVER = 1e-9  # a share of wrong guesses that is none


def about(design: AnyDesign) -> Plain:
    """What the family says of the data that it was fitted to; empty if it was not fitted."""
    return {} if design.family is None or design.family.about is None else design.family.about


def readings_of(known: Plain) -> list[str]:
    """The columns that are filtered; empty where they are not known."""
    return [str(name) for name in known.get("readings") or ()]


def facts(design: AnyDesign) -> Plain:
    """Everything on the first page, as plain data for JSON.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
    >>> found = facts(us.design(family, leakage=0.3, distortion="mae"))
    >>> found["kind"], found["per"], round(found["leakage"]["nats"], 9), found["distortion"]["measure"]
    ('one draw', 'run', 0.3, 'mae')
    """
    if isinstance(design, CoinDesign):
        return _coin_facts(design)
    known = about(design)
    causal = isinstance(design, CausalDesign)
    return {
        "kind": "causal" if causal else "one draw",
        "private": known.get("private"),
        "values": [_plain(value) for value in design.values],
        "odds": prior_of(design),
        "pseudo": [_plain(value) for value in design.pseudo],
        "readings": readings_of(known) or None,
        "time": known.get("time"),
        "period_seconds": known.get("period"),
        "per": known.get("per") or ("decision" if causal else "run"),
        **({"clock": True} if isinstance(design, CausalDesign) and design.clock is not None else {}),
        "leakage": _causal_leakage(design) if isinstance(design, CausalDesign) else _leakage(design),
        "wrong_guesses": _guesses(design),
        "distortion": _distortion(design),
        "fresh": design.fresh,
        "status": None if isinstance(design, CausalDesign) else design.status,
        "output": design.output,
        "constraints": [] if isinstance(design, CausalDesign) else _constraints(design),
        "model": (known.get("model") or {}).get("name"),
        "gate": _gate(known),
        "warnings": warnings(design),
        "notes": [str(note) for note in known.get("notes") or ()],
        "fingerprint": fingerprint(design),
    }


def _coin_facts(design: CoinDesign) -> Plain:
    known = about(design)
    return {
        "kind": "coin",
        "values": [_plain(value) for value in design.values],
        "readings": readings_of(known) or None,
        "time": known.get("time"),
        "period_seconds": known.get("period"),
        "per": "epoch",
        "epoch": design.epoch_words,
        "leakage": {"nats": design.leakage, "bits": design.leakage / math.log(2.0), "entropy_nats": design.entropy},
        "hidden_share": design.q,
        "hide": design.hide,
        "right_guesses_at_most": design.guarantee.to_dict()["right_guesses_at_most"],
        "distortion": None
        if design.distortion is None
        else {"measure": "mae", "value": design.distortion[0], "share_of_mean_reading": design.distortion[1]},
        "warnings": warnings(design),
        "fingerprint": design.fingerprint,
    }


def _constraints(design: Design) -> list[Plain]:
    """What the randomizer keeps beside its demand: kind, limits, and the sentence on the card."""
    plain = [one.to_dict() for one in design.constraints]
    return [{**told, "words": one.words} for told, one in zip(plain, design.constraints, strict=True)]


def fingerprint(design: AnyDesign) -> str | None:
    """Tells this design from another; None without models, for then no stream can be made of it."""
    return None if design.family is None else design.fingerprint


def warnings(design: AnyDesign) -> list[str]:
    """What must stand wherever the design is shown; empty if there is nothing to warn of."""
    if isinstance(design, CoinDesign):
        return [text.NOTHING_HIDDEN] if design.q == 0.0 else []
    return [*nothing_hidden(design), *(doubts(about(design)) if about(design) else [text.UNTESTED])]


def nothing_hidden(design: DrawDesign) -> list[str]:
    """That a design hides nothing, if the best guess with it need never be wrong.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
    >>> [len(nothing_hidden(us.design(family, leakage=x, distortion="mae"))) for x in ("100%", 0.3)]
    [1, 0]
    """
    return [text.NOTHING_HIDDEN] if _guesses(design)["at_least"] <= _NEVER else []


def fits(known: Plain) -> bool | None:
    """Whether the models passed their gate, from what a family says of itself; None where they were not tested.

    A family of an earlier version has no outcome: there a gate that failed no test and passed nothing tested nothing.

    >>> fits({"gate": {"passed": True}}), fits({"gate": {"passed": False}}), fits({"gate": None})
    (True, False, None)
    >>> fits({"gate": {"passed": False, "outcome": "untested"}})
    """
    gate = known.get("gate")
    if gate is None:
        return None
    tests = gate.get("verdicts") or [{}]
    untested = bool(gate.get("untested")) and all(v.get("passed") for v in tests)
    return None if gate.get("outcome", "untested" if untested else "") == "untested" else bool(gate.get("passed"))


def refused(known: Plain) -> bool:
    """Whether the gate found a leak or could test nothing, and nothing was measured in its place.

    Files are then disguised only if that is accepted.
    """
    return known.get("tuning") is None and not (known.get("gate") or {}).get("passed", True)


def bounds_hold(design: AnyDesign) -> bool:
    """Whether bounds may stand as promises: models that passed their test, none that were fitted, or none needed."""
    known = about(design)
    return isinstance(design, CoinDesign) or not known or design.fresh == 1.0 or trusted(known)


class Advice(StrEnum):
    """The verdict on a design, for somebody who decides whether its output is released."""

    RELEASE = "release"
    """The models passed a test that would have seen a leak: the guarantee holds as far as anybody can tell."""
    MEASURED = "measured"
    """The models are wrong or hardly tested; what adversaries learn was measured on held-out days."""
    WITHHOLD = "withhold"
    """Neither."""


SEEN = 0.25
"""A test of the models that would have missed a leak of this size, in balanced accuracy, shows too little."""


def smallest_leak_seen(known: Plain) -> float | None:
    """The smallest leak that the gate would have found in each window; None where nothing was tested."""
    windows = ((known.get("gate") or {}).get("attack") or {}).get("windows") or []
    sizes = [math.inf if window.get("seen") is None else float(window["seen"]) for window in windows]
    return max(sizes, default=None)


def trusted(known: Plain) -> bool:
    """Whether the models passed their gate, and the gate would have seen a leak of `SEEN`.

    >>> trusted({"gate": {"passed": True, "attack": {"windows": [{"seen": 0.1}, {"seen": 0.2}]}}})
    True
    >>> trusted({"gate": {"passed": True, "attack": {"windows": [{"seen": 0.1}, {"seen": 0.5}]}}})
    False
    """
    seen = smallest_leak_seen(known)
    return bool(fits(known)) and not untested_values(known) and seen is not None and seen <= SEEN


def advise(design: AnyDesign, audit: Audit | None = None) -> tuple[Advice, list[str]] | None:
    """The verdict on a fitted design and its reasons; None where no history is known that it could rest on."""
    known = about(design)
    if isinstance(design, CoinDesign) or not known:
        return None
    measured, paid = known.get("tuning"), [] if audit is None else price_lines(audit)
    best = None if audit is None else strongest(audit, "disguised", False)
    if measured is not None:
        rivals = text.rivals_words(measured["final"])
        said = [*text.tuning_sentences(measured)[1:3], *([rivals] if rivals else []), *paid]
        if best is not None and measured["over"] == "chance" and best.balanced.low > measured["at_most"]:
            return Advice.WITHHOLD, [text.beyond_promise(best.balanced.value), *said, text.OTHER_WAYS]
        return Advice.MEASURED, [*text.constant_words(measured), *said]
    more = best is not None and best.found and best.error.high < _guesses(design)["at_least"]
    if audit is not None and (audit.broken or more):
        return Advice.WITHHOLD, [text.beyond_promise(best.balanced.value if best else None), *paid, text.OTHER_WAYS]
    if nothing_hidden(design):
        return Advice.WITHHOLD, [text.NOTHING_HIDDEN]
    if trusted(known):
        price_words = price(design).words
        found = [] if best is None else [text.best_adversary_words(best.balanced.value)]
        return Advice.RELEASE, [card_of(design).headline, *found, *paid, price_words]
    if fits(known):
        return Advice.WITHHOLD, [text.more_days(smallest_leak_seen(known)), *paid, text.OTHER_WAYS]
    return Advice.WITHHOLD, [*misfit(known), *paid, text.OTHER_WAYS]


def untested_values(known: Plain) -> list[Value]:
    """The values that the gate could not test."""
    return list((known.get("gate") or {}).get("untested") or ())


def doubts(known: Plain) -> list[str]:
    """All that speaks against the fit: the gate's warning, and the values that it could not test.

    >>> len(doubts({"gate": {"passed": True, "untested": ["3+"]}})), len(doubts({"gate": None}))
    (1, 1)
    """
    values, found = untested_values(known), misfit(known)
    said = [text.untested_values(values)] if values else []
    return found if said and any(said[0] in words for words in found) else [*found, *said]


def misfit(known: Plain) -> list[str]:
    """What was measured in place of a fit; otherwise the warning of the gate, or that there was none."""
    measured = known.get("tuning")
    if measured is not None:
        return [text.tuning_sentences(measured)[1]]
    warning = (known.get("gate") or {}).get("warning")
    return [] if fits(known) else [str(warning or (text.UNTESTED if fits(known) is None else text.MISFIT))]


def card_of(design: AnyDesign) -> Guarantee | CausalCard | CoinCard:
    """The card of a design: of one draw, of draws that remember, or of a coin."""
    if isinstance(design, (Design, CoinDesign)):
        return design.guarantee
    return causal_card(design, decisions_per_day=day(design), estimated=design.estimated)


def day(design: CausalDesign) -> float | None:
    """How many decisions a day has, if the period is known."""
    period = about(design).get("period")
    return _DAY / (float(period) * design.decision_every) if period else None


def unit(known: Plain) -> str:
    """The unit of the readings with a space before it, if there is one for all; otherwise empty."""
    units = {u for u in known.get("units") or () if u}
    return f" {units.pop()}" if len(units) == 1 else ""


def prior_of(design: DrawDesign) -> list[float]:
    """The prior, at the first decision of a causal design."""
    prior: Array = design.beliefs.prior if isinstance(design, CausalDesign) else design.prior
    return [float(p) for p in prior]


def price(design: DrawDesign) -> text.Price:
    """The distortion as it is shown, channel by channel where there are several."""
    known, stated, causal = about(design), design.costs, isinstance(design, CausalDesign)
    measure, horizon = (None, None) if stated is None else (stated.distortion, stated.horizon)
    matrix = (known.get("chain") or {}).get("transition")
    moving = causal or (matrix is not None and min(row[i] for i, row in enumerate(matrix)) < 1.0)
    return text.Price(
        measure, design.distortion, design.distortion_error, relative_distortion(design), unit(known), horizon, moving,
        design.family is not None and design.family.dim > 1, channel_distortions(design),
    )  # fmt: skip


def channel_distortions(design: DrawDesign) -> tuple[text.ChannelSize, ...]:
    """The distortion of each of several channels in its own unit; empty where that would have to be simulated.

    >>> import understudy as us
    >>> room = {v: us.GaussMarkov(0.5, [[1.0], [0.1]], 1.0, [[1.0, 0.0], [0.0, 0.01]], b=5.0 * v) for v in (0, 1)}
    >>> family = us.Family(room, about={"readings": ["co2", "warmth"], "units": ["ppm", "degC"]})
    >>> design = us.design(family, leakage=0.1, distortion="mae", horizon=20)
    >>> sizes = [size for _, size, _ in channel_distortions(design)]
    >>> round(sizes[0] / sizes[1], 6), bool(abs(sum(sizes) / 2.0 - design.distortion) < 1e-9)
    (10.0, True)
    """
    family, stated = design.family, design.costs
    if family is None or family.dim == 1 or stated is None or not isinstance(design, Design):
        return ()
    if design.outputs is not None or stated.distortion not in ("mae", "mse") or (stated.method != EXACT).any():
        return ()
    d, known, joint = family.dim, about(design), design.prior[:, None] * design.randomizer.kernel
    names, units = (known.get(key) if len(known.get(key) or ()) == d else None for key in ("readings", "units"))
    found = []
    for c, weights in enumerate(np.eye(d)):
        of = costs(family, design.pseudo, stated.horizon, stated.distortion, weights, fresh=design.fresh)
        unit_ = f" {units[c]}" if units and units[c] else ""
        found.append((str(names[c]) if names else f"channel {c + 1}", of.expected(joint)[0], unit_))
    return tuple(found)


def _leakage(design: Design) -> Plain:
    nats = design.total_leakage
    share = design.guarantee.share
    return {
        "nats": nats,
        "bits": nats / math.log(2.0),
        "share_of_entropy": share if math.isfinite(share) else None,
        "residual_nats": design.residual,
        "budget_nats": design.budget,
    }


def _causal_leakage(design: CausalDesign) -> Plain:
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


def _guesses(design: DrawDesign) -> Plain:
    """Of the best adversary; of a moving parameter at the time, and afterwards with all draws seen."""
    found: Plain = card_of(design).to_dict()["wrong_guesses"]
    if isinstance(design, Design):
        return {"blind": found["before"], "at_least": found["after_at_least"]}
    return {
        "blind": found["blind"],
        "at_least": found["at_the_time_at_least"],
        "afterwards_at_least": found["afterwards_at_least"],
    }


def _distortion(design: DrawDesign) -> Plain:
    shown = price(design)
    each = [{"channel": name, "value": size, "unit": unit_.strip() or None} for name, size, unit_ in shown.channels]
    return {
        "measure": shown.measure,
        "value": shown.value,
        "standard_error": shown.error,
        "share_of_mean_reading": shown.relative,
        "horizon": shown.horizon,
        "unit": shown.unit.strip() or None,
        "channels": each or None,
    }


def relative_distortion(design: DrawDesign) -> float | None:
    """Distortion over the mean reading; the root of a squared one."""
    if isinstance(design, Design):
        return design.relative_distortion
    if design.costs is None or not abs(design.costs.mean_reading) > 0.0:
        return None
    size = math.sqrt(design.distortion) if design.costs.distortion == "mse" else design.distortion
    return size / abs(design.costs.mean_reading)


def _gate(known: Plain) -> Plain | None:
    gate = known.get("gate")
    if gate is None:
        return None
    kept = {key: gate.get(key) for key in ("outcome", "warning", "attack") if key in gate}
    return {"passed": bool(gate.get("passed")), "warning": None, **kept}


def _plain(value: Value) -> Json:
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str)) else text.label(value)


# Values that move -----------------------------------------------------------------------------------------------------


_LONGEST, _SEQUENCES, _SEED = 1440, 8, 20230206


class Moving(NamedTuple):
    """The mean distortion of a reading along simulated paths, its standard error, and how long and many they were."""

    distortion: float
    error: float
    readings: int
    sequences: int


def moving_facts(design: DrawDesign, sequences: int = _SEQUENCES) -> Moving | None:
    """The distortion along paths of a day, or of 1440 readings; None where the chain or the measure is not known.

    >>> import understudy as us
    >>> room = {v: us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=float(v)) for v in (0, 1)}
    >>> family = us.Family(room, about={"period": 600.0, "chain": {"transition": [[0.9, 0.1], [0.1, 0.9]]}})
    >>> found = moving_facts(us.design(family, leakage=0.1, distortion="mae"))
    >>> found.readings, bool(0.0 < found.error < found.distortion)
    (144, True)
    """
    known = about(design)
    matrix = (known.get("chain") or {}).get("transition")
    measure = None if design.costs is None else design.costs.distortion
    if matrix is None or design.family is None or design.outputs is not None or measure not in ("mae", "mse"):
        return None
    T = as_transitions(matrix, len(design.values))[0]
    period = known.get("period")
    count = min(_LONGEST, max(2, round(_DAY / float(period)))) if period else _LONGEST
    rng = np.random.default_rng(_SEED)
    each = np.empty(sequences)
    for s in range(sequences):
        theta, pseudo = _paths(design, T, count, rng)
        z = rng.standard_normal((count, design.family.dim))
        one = np.asarray(colour(z, design.family.along(theta))).reshape(count, -1)
        if design.fresh:
            z = math.sqrt(1.0 - design.fresh**2) * z + design.fresh * rng.standard_normal(z.shape)
        apart = one - np.asarray(colour(z, design.target_along(pseudo))).reshape(count, -1)
        each[s] = float(np.abs(apart).mean() if measure == "mae" else (apart**2).mean())
    return Moving(float(each.mean()), float(each.std(ddof=1) / math.sqrt(sequences)), count, sequences)


def _paths(design: DrawDesign, T: Array, count: int, rng: np.random.Generator) -> tuple[list[Value], list[Value]]:
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


# The trade-off --------------------------------------------------------------------------------------------------------


_POINTS = 25
_SLOPES = (0.05, 0.5, 2.0, 5.0, 50.0)  # over the scale of the costs; more are put where the curve has gaps
_MORE, _MORE_SIMULATED = 16, 5


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
    if isinstance(design, CausalDesign):
        return _of_chain(design)
    made = frontier_of(design)
    return Tradeoff(made.leakages.tolist(), made.distortions.tolist(), made.errors.tolist())


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
        budgets = budgets[1:]  # forbidden pairs: something must leak
    made = [
        solve_demand(matrix.copy(), prior.copy(), ("leakage", b), design.family, design.costs, design.charge)
        for b in budgets
    ]
    return Frontier(made, total(saturation, design.charge))


def _of_chain(design: CausalDesign) -> Tradeoff:
    b = design.beliefs

    def at(slope: float) -> tuple[float, float]:
        settled = long_run(Beliefs(b.prior, b.transitions, b.cost, slope), _SEED)
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


# Candidates of a fit --------------------------------------------------------------------------------------------------


HEAD = ("model", "log-likelihood", "behind", "± (1 s.e.)", "parameters", "verdict")


def candidates(model: Plain) -> list[tuple[str, ...]]:
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


def remarks(model: Plain) -> list[str]:
    """Why candidates cannot be used, each reason once with those it is about.

    >>> remarks({"table": [{"name": "a", "note": "is slow"}, {"name": "b", "note": "is slow"}]})
    ['a; b: is slow']
    """
    found: dict[str, list[str]] = {}
    for each in model.get("table") or ():
        if isinstance(each, dict) and each.get("note"):
            found.setdefault(str(each["note"]), []).append(str(each.get("name")))
    return [f"{'; '.join(names)}: {note}" for note, names in found.items()]


def _number(x: Json) -> str:
    return f"{x:.4f}" if isinstance(x, (int, float)) else "-"


# Adversaries of an audit ----------------------------------------------------------------------------------------------


class AuditLine(NamedTuple):
    """An adversary: its name, and a figure for each kind of data that it was tried on."""

    name: str
    figures: dict[str, Figure]


class Guide(NamedTuple):
    """A line across all adversaries, such as chance."""

    at: float
    name: str


def audit_lines(audit: Audit, figure: str, clock: bool) -> list[AuditLine]:
    """Adversaries in the order of their strength on the disguised output, without references.

    `figure` is "balanced", "error" or "nats"; with the clock or without it.
    """
    rows = {data: {row.adversary: row for row in audit.of(data) if row.clock == clock} for data in text.DATA}
    order = [row.adversary for row in sort_rows(rows["disguised"].values())]
    found = []
    for key in dict.fromkeys([*order, *(key for data in rows for key in rows[data])]):
        mine = {data: rows[data][key] for data in rows if key in rows[data]}
        first = next(iter(mine.values()))
        figures = {data: getattr(row, figure) for data, row in mine.items()}
        found.append(AuditLine(first.title or first.adversary, figures))
    return found


def audit_guides(audit: Audit, figure: str, clock: bool) -> list[Guide]:
    """What is known without the output, and the design's bound."""
    if figure == "nats":
        return [Guide(0.0, "nothing")]
    if figure == "error":
        found = [Guide(audit.prior_error, "without the output")]
        return found if audit.bound is None else [*found, Guide(audit.bound, "the design's bound")]
    alone, oracle = clock_reference(audit), audit.row("oracle")
    if clock and alone is not None:
        return [Guide(alone.balanced.value, "the clock alone")]
    known = not clock and oracle is not None and math.isfinite(oracle.balanced.value)
    best = [Guide(oracle.balanced.value, "oracle")] if known and oracle else []
    return [Guide(blind_accuracy(audit), "blind"), *best]
