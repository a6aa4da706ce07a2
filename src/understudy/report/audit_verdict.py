"""The outcome of an audit in plain words, and whether a strict reader would refuse.

Nothing found and nothing to be found are told apart: where no p value could have been small enough, nothing counts as
found whatever the output gives away, and that is no good news.
"""

from __future__ import annotations

import math

from understudy.adversaries.audited import Audit, Row
from understudy.adversaries.written import ESTIMATED, as_clock, clock_only, rate, unchanged

_NO_PROOF = "That is no proof that nothing is there: it says what these adversaries could see in so many readings."
_UNCHANGED = (
    "The output equals the readings, in all that was judged: nothing was disguised, or the truth was drawn throughout."
)


def verdict(audit: Audit) -> tuple[str, bool]:
    """The outcome in a few sentences, and whether it is a warning."""
    outcome, warning = _outcome(audit)
    lead = [ESTIMATED] if audit.estimated else []
    if audit.how == "released" and unchanged(audit):
        lead.append(_UNCHANGED)
    return " ".join([*lead, outcome]), warning or bool(lead)


def _outcome(audit: Audit) -> tuple[str, bool]:
    if audit.best is None:
        return "No adversary could be run on the disguised output: nothing is known from this audit.", True
    if audit.broken:
        names = ", ".join(row.shown for row in audit.of() if row.beats)
        return (
            f"An adversary does better than the theorem allows ({names}). So one of the theorem's conditions does not "
            "hold for these readings. Do not rely on the bound.",
            True,
        )
    if audit.found:
        return _found(audit)
    if not audit.testable:
        return _untestable(audit), True
    if clock_only(audit):
        return (
            "Adversaries found out something about the private value, but no more than the time of day tells: beyond "
            f"the clock they found nothing (false-alarm rate {audit.level:g} for all together). {_NO_PROOF}",
            False,
        )
    if audit.found_alone:
        return (
            "Adversaries found out something about the private value without the clock, and were not tried with it: "
            "whether it is more than the time of day tells is not known.",
            True,
        )
    return f"No adversary found out anything (false-alarm rate {audit.level:g} for all together). {_NO_PROOF}", False


def _found(audit: Audit) -> tuple[str, bool]:
    beyond = " beyond what the time of day tells" if any(row.clock for row in audit.of()) else ""
    if audit.how == "released":
        return f"Adversaries found out something about the private value from what was released{beyond}.", True
    if audit.bound is not None:
        return f"Adversaries found out something{beyond}, as they may: none did better than the theorem allows.", False
    found = f"Adversaries found out something about the private value{beyond}"
    if audit.estimated:
        return f"{found}.", False
    left = rate(audit) or "No theorem bounds it for this use: the figures are all that is known."
    return f"{found}, as a design that lets something out allows. {left}", False


def _untestable(audit: Audit) -> str:
    rows = audit.of()
    rows = tuple(row for row in rows if row.clock) or rows
    if all(math.isnan(row.p) for row in rows):
        return (
            "Cannot be told from so few stretches of time: the private value hardly varies in them, or not beyond what "
            "the time of day tells. That nothing counts as found says nothing about the output."
        )
    return (
        "Cannot be told from so few stretches of time: even an adversary that is always right would not count as one "
        f"that finds something (false-alarm rate {audit.level:g} for all together). That nothing counts as found says "
        "nothing about the output. A longer recording is needed."
    )


def failed(audit: Audit) -> bool:
    """Whether a strict reader would refuse.

    The bound is beaten, or nothing can be told; of a release also, that something is found in it, beyond the clock
    where that is known, or that it equals the readings.
    """
    if audit.broken or not audit.testable:
        return True
    untold = audit.found_alone and not clock_only(audit)
    return audit.how == "released" and (audit.found or untold or unchanged(audit))


def mark(audit: Audit, row: Row) -> str:
    """The verdict on an adversary, in a few words."""
    if row.reference:
        return "for comparison"
    if row.beats:
        return "beats the bound"
    if not row.found and not row.testable:
        return "not testable"
    if as_clock(audit, row):
        return "finds no more than the clock tells"
    told = "something" if row.found else "nothing"
    return f"finds {told} beyond the clock" if row.clock else f"finds {told}"
