"""The card of a causal design on paper: as text, and as HTML in the style of the card of a constant parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.content_policy import with_policy
from understudy.randomizer.card import _STYLE, _WIDTH, _e, _filled, _row
from understudy.randomizer.causal.words import facts

if TYPE_CHECKING:
    from understudy.randomizer.causal.card import CausalCard


def text(c: CausalCard) -> str:
    """The card as plain text, at most 92 columns wide."""
    lines = ["PRIVACY CARD OF A MOVING PARAMETER", "=" * _WIDTH, *_filled(c.headline), ""]
    for name, content in facts(c):
        lines += _filled(content, f"{name:<17}")
    for k, m in enumerate(c.measures, start=1):
        lines += ["", *_filled(f"{m.title}: {m.shown}", f"{k}. ")]
        lines += _filled(f"{m.sentence} {m.note}".rstrip(), "   ")
    lines += ["", "Guaranteed of"]
    for scope in c.scopes:
        lines += _filled(f"{scope.of}: {scope.holds} ({scope.known}).", "  - ")
    for title, items in _sections(c):
        lines += ["", title]
        for item in items:
            lines += _filled(item, "  - ")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def html(c: CausalCard, page: bool = False) -> str:
    """The card as HTML: a fragment, or a whole page. Nothing is loaded from elsewhere."""
    about = "".join(f'<tr><th scope="row">{_e(name)}</th><td>{_e(content)}</td></tr>' for name, content in facts(c))
    rows = "".join(_row(m) for m in c.measures)
    of = "".join(
        f'<tr><th scope="row">{_e(s.of)}</th><td>{_e(s.holds)}</td><td>{_e(s.known)}</td></tr>' for s in c.scopes
    )
    rest = "".join(
        f"<h3>{_e(title)}</h3><ul>{''.join(f'<li>{_e(item)}</li>' for item in items)}</ul>"
        for title, items in _sections(c)
    )
    title, caption = "What is guaranteed", "Each figure with its meaning; every one needs the conditions below"
    if not c.holds:
        title, caption = "What is not guaranteed", "Figures of a parameter that is known; this one is estimated"
        if c.wrong_path is not None:
            title = "What holds if the path is nearly always right, and what does not hold"
            caption = "Figures that say 'if known' are of a parameter that is known; this one is estimated"
    body = (
        f'<section class="understudy-card{"" if c.holds else " void"}" aria-label="Privacy card">'
        f"<style>{_STYLE}</style><h2>Privacy card of a moving parameter</h2>"
        f'<p class="claim">{_e(c.headline)}</p>'
        f'<table class="facts"><caption>What is hidden</caption><tbody>{about}</tbody></table>'
        f"<h3>{_e(title)}</h3><table><caption>{_e(caption)}</caption>"
        '<thead><tr><th scope="col">Measure</th><th scope="col">Figure</th><th scope="col">Odds</th>'
        f'<th scope="col">In words</th></tr></thead><tbody>{rows}</tbody></table>'
        "<h3>Of a sequence, a day, a decision</h3><table><caption>What holds, and how it is known</caption>"
        '<thead><tr><th scope="col">Of</th><th scope="col">Holds</th><th scope="col">Known by</th></tr></thead>'
        f"<tbody>{of}</tbody></table>{rest}</section>"
    )
    if not page:
        return body
    return with_policy(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Privacy card</title></head>'
        f"<body>{body}</body></html>\n"
    )


def _sections(c: CausalCard) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("Holds under these conditions", c.conditions),
        ("Against whom", (c.against,)),
        ("What is not protected", c.not_protected),
    ]
