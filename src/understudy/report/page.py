"""The report of a design: one page, for those who decide first and for those who check below. It opens offline.

>>> import understudy as us
>>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
>>> page = privacy_report(us.design(family, leakage=0.3, distortion="mae"))
>>> page.startswith("<!DOCTYPE html>"), "What is not protected" in page, "<svg" in page
(True, True, True)
"""

from __future__ import annotations

from html import escape

from understudy.content_policy import with_policy
from understudy.report import page_engineer as engineer
from understudy.report import page_officer as officer
from understudy.report import page_parts as parts
from understudy.report import page_pictures as pictures
from understudy.report.page_facts import AnyDesign, fingerprint
from understudy.version import __version__

_NO_AUDIT = (
    "No audit has been made of this design. A theorem says what cannot be learned if its conditions hold; an audit "
    "says what adversaries did learn from real readings. They stand apart, and one does not replace the other."
)


def privacy_report(design: AnyDesign, audit: str = "") -> str:
    """The page of a design, or of a causal one, as HTML that loads nothing from elsewhere.

    `audit` is the HTML of an audit, which takes the place that is kept for it.
    """
    title = officer.title(design)
    sections = [
        ("summary", "In short", officer.summary(design), ""),
        ("guarantee", "What is guaranteed", officer.guarantee(design), ""),
        ("open", "What is not protected here", officer.not_protected(design), ""),
        ("randomizer", "The randomizer", engineer.randomizer(design), "engineer"),
        ("frontier", "The trade-off", engineer.frontier(design), ""),
        ("costs", "What each pair costs", engineer.distortions(design), ""),
        ("models", "The models", engineer.models(design), ""),
        ("gate", "Do the models fit?", engineer.gate(design), ""),
        ("data", "The data", engineer.data(design), ""),
        ("audit", "Audit", audit or parts.paragraphs(_NO_AUDIT), ""),
    ]
    mark = fingerprint(design)
    made = f"understudy {__version__}" + ("" if mark is None else f", design {mark[:23]}…")
    kept = [each for each in sections if each[2]]
    contents = "".join(f'<li><a href="#{name}">{escape(words)}</a></li>' for name, words, _, _ in kept)
    body = "".join(parts.section(*each) for each in kept)
    return with_policy(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{parts.STYLE}{pictures.STYLE}</style></head><body>"
        f"<header><h1>{escape(title)}</h1>"
        f'<p class="made">{escape(made)}</p></header>'
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav><main>{body}</main></body></html>\n'
    )
