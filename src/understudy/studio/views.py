"""Values of the library as plain data for the page; each view names the call that its numbers come from.

Sentences are those of `understudy.text` and of the reports. Nothing here computes: what is shown is what a design, a
family or an audit says of itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import understudy as us
from understudy import text
from understudy._types import Plain
from understudy.adversaries.results import (
    Audit,
    basis,
    mark,
    price_lines,
    rival_lines,
    rival_sentences,
    sort_rows,
    strongest,
    verdict,
)
from understudy.report.facts import (
    HEAD,
    Advice,
    AnyDesign,
    about,
    advise,
    candidates,
    card_of,
    doubts,
    facts,
    fits,
    frontier_of,
    remarks,
    smallest_leak_seen,
    trusted,
    warnings,
)
from understudy.text import MEASURE_HEAD, Card

RED, AMBER, GREEN = "red", "amber", "green"


def standing(known: Plain) -> Plain:
    """Whether the models may be trusted: red if they are wrong or untested, amber if hardly tested or measured."""
    if not known:
        return {"colour": AMBER, "title": "", "sentences": [text.UNTESTED]}
    measured = known.get("tuning")
    if measured is not None:
        return {"colour": AMBER, "title": text.ADVICE[Advice.MEASURED], "sentences": doubts(known)}
    if not fits(known) or doubts(known):
        return {"colour": RED, "title": text.ADVICE[Advice.WITHHOLD], "sentences": doubts(known)}
    if not trusted(known):
        words = text.more_days(smallest_leak_seen(known))
        return {"colour": AMBER, "title": text.ADVICE[Advice.WITHHOLD], "sentences": [words]}
    return {"colour": GREEN, "title": "", "sentences": []}


# Fit ------------------------------------------------------------------------------------------------------------------


def fit_view(family: us.Family, scores: list[Plain] | None, fingerprint: str | None) -> Plain:
    """Candidates, the gate, what scores tell of the private value, and aggregates of the scores."""
    known = family.about or {}
    model, gate = known.get("model") or {}, known.get("gate") or {}
    return {
        "call": "us.fit(history, ...)",
        "private": known.get("private"),
        "readings": [str(name) for name in known.get("readings") or ()],
        "values": [text.label(value) for value in family.values],
        "prior": [float(p) for p in family.prior],
        "model": model.get("name") or type(family.model(family.values[0])).__name__,
        "reason": model.get("reason"),
        "period": known.get("period"),
        "period_words": text.span(known["period"]) if known.get("period") else None,
        "candidates": {"head": list(HEAD), "rows": [list(row) for row in candidates(model)], "notes": remarks(model)},
        "scores_line": [_line(each) for each in model.get("table") or () if isinstance(each, dict)],
        "gate": {
            "fits": fits(known),
            "outcome": gate.get("outcome"),
            "sentence": gate.get("sentence"),
            "head": list(text.GATE_HEAD),
            "rows": [list(row) for row in text.gate_rows(gate)],
            "method": text.gate_method(gate) if text.gate_rows(gate) else "",
            "windows": (gate.get("attack") or {}).get("windows") or [],
            "verdicts": [
                {
                    "name": v.get("name"),
                    "value": None if v.get("class") is None else text.label(v["class"]),
                    "passed": bool(v.get("passed")),
                    "sentence": str(v.get("sentence") or v.get("value")),
                }
                for v in gate.get("verdicts") or ()
            ],
        },
        "notes": [str(note) for note in known.get("notes") or ()],
        "scores": None if scores is None else [_quantiles(row) for row in scores],
        "standing": standing(known),
        "fingerprint": fingerprint,
    }


def _line(row: Plain) -> Plain:
    return {key: row.get(key) for key in ("name", "score", "behind", "behind_error", "usable")}


_EDGE = 4.0


def _quantiles(row: Plain) -> Plain:
    """A normal QQ line from the histogram of scores: at each edge of a bar the quantile that a right model has."""
    from scipy.special import ndtri

    shares = np.array(row["shares"], dtype=float)
    edges = np.linspace(-_EDGE, _EDGE, len(shares) + 1)[1:-1]
    below = np.cumsum(shares)[:-1] + 0.5 * float(row["beyond"])
    inside = (below > 0.5 / row["count"]) & (below < 1.0 - 0.5 / row["count"])
    return {
        **{key: row[key] for key in ("value", "channel", "count", "mean", "spread", "memory")},
        "normal": ndtri(below[inside]).tolist(),
        "found": edges[inside].tolist(),
        "band": 2.58 / math.sqrt(row["count"]),
    }


# Designs --------------------------------------------------------------------------------------------------------------


def quick_view(design: us.Design) -> Plain:
    """What changes with each step of the slider."""
    card = design.guarantee
    nats = design.total_leakage
    return {
        "distortion": design.distortion,
        "error": design.distortion_error,
        "lower_bound": design.lower_bound,
        "gap": design.gap,
        "status": design.status,
        "nats": nats,
        "bits": nats / math.log(2.0),
        "share": card.share if math.isfinite(card.share) else None,
        "relative": design.relative_distortion,
        "wrong_before": card.prior_error,
        "wrong_after": card.bayes_error,
        "headline": card.headline,
        "kernel": design.randomizer.kernel.tolist(),
        "measures": [_measure(each) for each in card.measures],
    }


def _measure(each: text.Measure) -> Plain:
    value = each.value if math.isfinite(each.value) else None
    return {
        "name": each.name, "title": each.title, "value": value, "shown": each.shown, "bound": each.bound,
        "prior": each.prior, "sentence": each.sentence, "note": each.note,
    }  # fmt: skip


def base_view(design: us.Design) -> Plain:
    """What all designs with the same costs share: the trade-off with its proven bound, the costs, the entropy."""
    found = frontier_of(design)
    costs = design.costs
    return {
        "call": "us.frontier(family, ...)",
        "values": [text.label(value) for value in design.values],
        "pseudo": [text.label(value) for value in design.pseudo],
        "entropy": design.guarantee.entropy,
        "saturation": found.saturation,
        "unit": _unit(about(design)),
        "measure": None if costs is None else costs.distortion,
        "horizon": None if costs is None else costs.horizon,
        "cost": np.asarray(design.cost).tolist(),
        "how": [] if costs is None else sorted(set(costs.method.ravel().tolist())),
        "frontier": {
            "nats": found.leakages.tolist(),
            "distortion": found.distortions.tolist(),
            "lower": found.lower_bounds.tolist(),
            "errors": found.errors.tolist(),
        },
        "error": design.costs.error.max().item() if design.costs is not None else 0.0,
    }


def _unit(known: Plain) -> str:
    units = {u for u in known.get("units") or () if u}
    return units.pop() if len(units) == 1 else ""


def card_view(card: Card) -> Plain:
    """A card with every measure and condition."""
    return {
        "title": card.title,
        "claim": card.claim,
        "holds": card.holds,
        "facts": [list(pair) for pair in card.facts],
        "heading": card.heading,
        "caption": card.caption,
        "head": list(MEASURE_HEAD),
        "measures": [_measure(each) for each in card.measures],
        "scopes": [list(scope) for scope in card.scopes],
        "sections": [[title, list(items)] for title, items in card.sections],
    }


def design_view(design: AnyDesign, call: str, audit: Audit | None = None) -> Plain:
    """The whole of one design: its facts, its card, and the verdict on it."""
    advice = advise(design, audit)
    found = facts(design)
    kernel = None
    if isinstance(design, us.Design):
        kernel = design.randomizer.kernel.tolist()
    elif isinstance(design, us.CausalDesign):
        kernel = design.kernel(design.prior.tolist()).tolist()
    return {
        "call": call,
        "facts": found,
        "values": [text.label(value) for value in design.values],
        "pseudo": [text.label(value) for value in design.pseudo],
        "kernel": kernel,
        "card": card_view(card_of(design).card),
        "advice": None if advice is None else {"verdict": advice[0].value, "title": text.ADVICE[advice[0]],
                                               "reasons": list(dict.fromkeys(advice[1]))},
        "warnings": warnings(design),
        "standing": standing(about(design)) if not design.blind else {"colour": GREEN, "title": "", "sentences": []},
        "words": str(design) if isinstance(design, us.Design) else card_of(design).headline,
    }  # fmt: skip


def pin_view(design: AnyDesign, label: str) -> Plain:
    """A design in the few figures by which two are compared."""
    found = facts(design)
    leakage, size = found["leakage"], found.get("distortion") or {}
    guesses = found.get("wrong_guesses") or {}
    bits = leakage.get("bits", leakage.get("bits_a_day", leakage.get("bits_a_decision")))
    least = guesses.get("at_least")
    if least is None and "right_guesses_at_most" in found:
        least = 1.0 - float(found["right_guesses_at_most"])
    return {
        "label": label, "kind": found["kind"], "per": found["per"], "bits": bits, "wrong_at_least": least,
        "distortion": size.get("value"), "relative": size.get("share_of_mean_reading"),
        "fresh": found.get("fresh"), "pseudo": [str(v) for v in found.get("pseudo") or ()],
        "status": found.get("status"), "fingerprint": found["fingerprint"],
    }  # fmt: skip


# Audits ---------------------------------------------------------------------------------------------------------------

AUDIT_HEAD = ("adversary", "balanced accuracy", "interval", "wrong", "verdict")


def audit_view(audit: Audit) -> Plain:
    """The outcome, the adversaries by strength, what they are compared with, rivals and the limit."""
    rows = []
    for clock in (False, True):
        for row in sort_rows(each for each in audit.of() if each.clock == clock):
            rows.append(
                {
                    "name": row.label,
                    "clock": clock,
                    "value": row.balanced.value,
                    "low": row.balanced.low,
                    "high": row.balanced.high,
                    "wrong": row.error.value,
                    "verdict": mark(audit, row),
                }
            )
    found = {data: strongest(audit, data, False) for data in ("disguised", "raw", "noise", "offset")}
    best = [
        {"data": text.DATA[data], "name": one.label, "value": one.balanced.value}
        for data, one in found.items()
        if one is not None
    ]
    rivals = None
    if audit.rivals is not None:
        rivals = {
            "head": list(text.RIVAL_COLUMNS),
            "rows": [list(line) for line in rival_lines(audit.rivals)],
            "sentences": rival_sentences(audit.rivals),
            "points": [
                {"name": text.RIVALS[row.name], "key": row.name, "price": row.price, "accuracy": row.balanced.value}
                for row in audit.rivals.rows
            ],
            "limit": {
                "accuracies": list(audit.rivals.limit.accuracies),
                "percent": [list(line) for line in audit.rivals.limit.percent],
            },
            "chance": audit.rivals.chance,
        }
    return {
        "call": "us.audit(design, ...)",
        "how": audit.how,
        "verdict": verdict(audit),
        "price": price_lines(audit),
        "basis": basis(audit),
        "bound": audit.bound,
        "confidence": audit.confidence,
        "prior_error": audit.prior_error,
        "rows": rows,
        "best": best,
        "rivals": rivals,
        "notes": list(audit.notes),
        "skipped": dict(audit.skipped),
    }


def tuning_view(told: Plain, sentences: list[str]) -> Plain:
    """Every step of a search, and what came of it."""
    return {
        "call": "us.tune(history, ...)",
        "sentences": sentences,
        "outcome": told["outcome"],
        "steps": [
            {
                "setting": text.setting_words(step["setting"]), "distortion": step["distortion"],
                "accuracy": step["accuracy"], "upper": step["upper"], "passed": step["passed"],
                "adversary": step["adversary"],
            }
            for step in told["steps"]
        ],
        "at_most": told["at_most"],
        "final": told["final"],
        "notes": told["notes"],
    }  # fmt: skip


def call_of(name: str, given: dict[str, Any]) -> str:
    """A call as somebody would write it."""
    return f"us.{name}(family, " + ", ".join(f"{key}={value!r}" for key, value in given.items()) + ")"
