"""The page of an audit: for those who decide first, for those who check below. It opens offline.

>>> from understudy.adversaries.audited import Audit, Figure, Row
>>> half = Figure(0.5, 0.45, 0.55)
>>> row = Row("disguised", "windowed", False, False, half, half, half, half, 0.4, False, False, 100, 10, 0.1)
>>> audit = Audit((row,), 0.4, 0.5, 0.99, 0.01, 100, 100, "simulated", 2, False)
>>> page = audit_report(audit)
>>> page.startswith("<!DOCTYPE html>"), "What is not protected" in page, "<svg" in page
(True, True, True)
"""

from __future__ import annotations

from html import escape

from understudy.adversaries.audited import Audit
from understudy.adversaries.judging.scored import Scores
from understudy.content_policy import with_policy
from understudy.report import audit_engineer as engineer
from understudy.report import audit_officer as officer
from understudy.report import page_parts as parts
from understudy.report import page_pictures as pictures
from understudy.report.page_facts import AnyDesign, about, fingerprint
from understudy.version import __version__


def audit_report(audit: Audit, design: AnyDesign | None = None, scores: Scores | None = None) -> str:
    """The page of an audit as HTML that loads nothing from elsewhere; with the design, its card and trade-off too.

    `scores` are those of the raw readings under the models, where the audit does not hold them itself.
    """
    title = _title(design)
    sections = [
        ("summary", "In short", officer.summary(audit, design) + officer.at_a_glance(audit, design), ""),
        ("tried", "What was tried", officer.tried(audit), ""),
        ("apart", "Theorem and experiment", officer.apart(audit, design), ""),
        ("open", "What is not protected", officer.not_protected(audit, design), ""),
        ("adversaries", "Adversaries", engineer.adversaries(audit), "engineer"),
        ("fit", "Do the readings have the law of the models?", engineer.fit(audit, scores), ""),
        ("frontier", "The trade-off", engineer.frontier(design), ""),
        ("utility", "What is left for honest use", engineer.utility(audit), ""),
        ("method", "How the figures were made", engineer.method(audit), ""),
    ]
    mark = None if design is None else fingerprint(design)
    made = f"understudy {__version__}" + ("" if mark is None else f", design {mark[:23]}…")
    kept = [each for each in sections if each[2]]
    contents = "".join(f'<li><a href="#{name}">{escape(words)}</a></li>' for name, words, _, _ in kept)
    body = "".join(parts.section(*each) for each in kept)
    return with_policy(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{parts.STYLE}{pictures.STYLE}</style></head><body>"
        f'<header><h1>{escape(title)}</h1><p class="made">{escape(made)}</p></header>'
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav><main>{body}</main></body></html>\n'
    )


def audit_html(audit: Audit, scores: Scores | None = None) -> str:
    """The audit as a part of another page: what `privacy_report(design, audit=...)` takes.

    The card, the trade-off and what is not protected stand on that page already.
    """
    return "".join(
        f"<h3>{escape(title)}</h3>{content}" if title else content
        for title, content in (
            ("", officer.summary(audit)),
            ("What was tried", officer.tried(audit)),
            ("Theorem and experiment", officer.apart(audit)),
            ("Adversaries", engineer.adversaries(audit)),
            ("Do the readings have the law of the models?", engineer.fit(audit, scores)),
            ("What is left for honest use", engineer.utility(audit)),
            ("How the figures were made", engineer.method(audit)),
        )
    )


def _title(design: AnyDesign | None) -> str:
    from understudy.randomizer.card import label

    known = {} if design is None else about(design)
    if not known.get("private"):
        return "Audit of a disguise"
    names = ", ".join(label(name) for name in known.get("readings") or ["the readings"])
    return f"Audit: {label(known['private'])} behind {names}"
