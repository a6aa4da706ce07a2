"""What there is to say about a design, as plain data: the page, the terminal and programs take it from here.

A design that was made from files knows its columns, its period and what its leakage is per; one that was made from
models alone knows less. What is not known is None, and is left out by whoever shows it.
"""

from __future__ import annotations

import math
from typing import Any

from understudy.models.family import Family
from understudy.randomizer import card
from understudy.randomizer.causal.card import CausalCard, causal_card
from understudy.randomizer.causal.making import CausalDesign
from understudy.randomizer.constrained.stored import constraints_to_plain
from understudy.randomizer.guarantee import Guarantee
from understudy.randomizer.result import Design

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
    plain = constraints_to_plain(design.constraints)
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
    names = ", ".join(card.label(value) for value in untested)
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
    return value if isinstance(value, (bool, int, float, str)) else card.label(value)
