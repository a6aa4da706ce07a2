"""A guarantee on paper: numbers rounded to the safe side, and the card as text or HTML.

What is claimed must still be true after rounding. An error rate that cannot be undercut is rounded
down, a leakage that cannot be exceeded is rounded up. The arithmetic behind the numbers is good to
some 15 digits, and to 13 at least; so a number that agrees with a shown one in its first 13 digits
counts as that one, and 0.1336 is shown as 13.36 percent whether it came out as 0.1336 or as
0.13359999999999997.
"""

from __future__ import annotations

import html as _html
import math
import textwrap
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING, Any

from understudy.content_policy import with_policy

if TYPE_CHECKING:
    from understudy.randomizer.guarantee import Guarantee, Released
    from understudy.randomizer.sentences import Measure

_WIDTH = 92
_SHOWN_VALUES = 12
_SIDES = {"up": ROUND_CEILING, "down": ROUND_FLOOR, "near": ROUND_HALF_EVEN}
# The digits that count; with exponents such that exponentials of leakages of a few hundred nats do not overflow.
_RELIABLE = Context(prec=13, rounding=ROUND_HALF_EVEN, Emax=999_999, Emin=-999_999)


def number(x: float, side: str) -> str:
    """Four digits, rounded ``"up"``, ``"down"`` or ``"near"``.

    >>> number(0.29995, "up"), number(0.29995, "down"), number(2e-17, "up"), number(float("inf"), "up")
    ('0.3', '0.2999', '2e-17', 'infinite')
    """
    return _words(x) or _plain(_rounded(Decimal(repr(float(x))), side))


def percent(x: float, side: str) -> str:
    """A share in percent, two decimals.

    >>> percent(0.133586, "down"), percent(0.133586, "up"), percent(0.5, "up"), percent(1e-9, "up")
    ('13.35 percent', '13.36 percent', '50 percent', '0.01 percent')
    """
    share = _words(x) or _plain(
        (100 * _RELIABLE.create_decimal(repr(float(x)))).quantize(Decimal("0.01"), _SIDES[side])
    )
    return f"{share} percent"


def factor(nats: float) -> str:
    """The exponential of a leakage, rounded up.

    >>> factor(0.0), factor(1.0), factor(1000.0)
    ('1', '2.719', '1.971e+434')
    """
    return _words(nats) or _plain(_rounded(_RELIABLE.exp(Decimal(repr(float(nats)))), "up"))


def label(value: Any) -> str:
    r"""A value's name on the card: one line, printable, not too long.

    >>> label("meeting\nroom"), label("x" * 60)[-4:]
    ('meeting room', 'xxx…')
    """
    name = "".join(c if c.isprintable() else "?" for c in " ".join(str(value).split()))
    return name if len(name) <= 40 else name[:39] + "…"


def _words(x: float) -> str:
    """What is no number in words, else nothing."""
    return "not defined" if math.isnan(x) else "" if math.isfinite(x) else "infinite" if x > 0.0 else "minus infinite"


def _rounded(x: Decimal, side: str) -> Decimal:
    return Context(prec=4, rounding=_SIDES[side], Emax=999_999, Emin=-999_999).plus(_RELIABLE.plus(x))


def _plain(x: Decimal) -> str:
    """No zeros at the end; powers of ten only where they help."""
    if x == 0:
        return "0"
    if Decimal("1e-3") <= abs(x) < Decimal("1e5"):
        return format(x, "f").rstrip("0").rstrip(".") if "." in format(x, "f") else format(x, "f")
    return _RELIABLE.plus(x).normalize().__format__("e").replace("E", "e")


def odds(guarantee: Guarantee) -> str:
    """The stated odds in one line, the first few of them if there are many."""
    shown = [
        f"{label(value)}: {percent(p, 'near')}"
        for value, p in zip(guarantee.values[:_SHOWN_VALUES], guarantee.prior.tolist(), strict=False)
    ]
    more = len(guarantee.values) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more > 0 else "")


def facts(guarantee: Guarantee) -> list[tuple[str, str]]:
    """What stands at the head of the card: name and content."""
    g = guarantee
    lines = [
        ("Hidden", f"one of {len(g.values)} values; {number(g.entropy, 'near')} nats are there to be known"),
        ("Odds beforehand", f"{odds(g)}. The adversary is taken to know them."),
        ("Drawn instead", f"one of {g.draws} pseudo values, once an epoch"),
    ]
    if g.holds:
        after = percent(g.guess_after, "up")
        lines.append(("Right guesses", f"{percent(g.guess_before, 'down')} before the readings, at most {after} after"))
    if g.budget is not None:
        verdict = "kept" if g.within_budget else "NOT KEPT"
        by = "the draw" if g.charge is None else "the draw and the residual"
        lines.append(("Leakage budget", f"{number(g.budget, 'down')} nats on average, {verdict} by {by}"))
    of_draw = "" if g.charge is None else "Of the draw: "
    lines += [("Also kept", f"{of_draw}{words}") for words in g.constraints]
    if g.charge is not None:
        lines.append(
            (
                "Residual",
                f"{number(g.charge.total, 'up')} nats over {g.charge.readings} ({g.charge.how}), which the models "
                "themselves give away. It is in the bounds.",
            )
        )
    if g.release is not None:
        lines += released(g.release)
    return lines


def released(r: Released) -> list[tuple[str, str]]:
    """How readings leave, what may come in, and what floating point adds: name and content."""
    spans = ", ".join(f"{low:.6g} to {high:.6g}" for low, high in zip(r.low, r.high, strict=True))
    lattice = "on the grid of the models" if not any(r.steps) else f"rounded to multiples of {r.lattice}"
    lines = [("Readings leave", f"{lattice}, and in no other form"), ("Readings come", f"as {r.form}, from {spans}")]
    if r.how:
        # the total variation counts for every bound on a guess
        lines.append(
            (
                "Floating point",
                f"adds at most {number(r.nats, 'up')} nats over the first {r.readings} readings, and moves no "
                f"probability by more than {number(r.variation, 'up')}; a millionth of a nat after {r.within} readings "
                f"({r.how}; without missing readings). Streams charge it. It is not in the bounds below.",
            )
        )
    return lines


def text(guarantee: Guarantee) -> str:
    """The card as plain text, at most 92 columns wide."""
    g = guarantee
    lines = ["PRIVACY CARD", "=" * _WIDTH, *_filled(g.headline), ""]
    for name, content in facts(g):
        lines += _filled(content, f"{name:<17}")
    measures = g.measures
    columns = [("Measure", *(m.title for m in measures)), ("Bound", *(m.shown for m in measures))]
    wide = [max(map(len, column)) for column in columns]
    lines += ["", f"{'Measure':<{wide[0]}}  {'Bound':<{wide[1]}}  Odds", "  ".join("-" * w for w in (*wide, 6))]
    lines += [f"{m.title:<{wide[0]}}  {m.shown:<{wide[1]}}  {m.odds}" for m in measures]
    lines += ["", "In words"]
    for k, m in enumerate(measures, start=1):
        lines += _filled(f"{m.title}. {m.sentence} {m.note}".rstrip(), f"{k:>2}. ")
    for title, items in sections(g):
        lines += ["", title]
        for item in items:
            lines += _filled(item, "  - ")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def sections(guarantee: Guarantee) -> list[tuple[str, tuple[str, ...]]]:
    """What follows the numbers, title by title."""
    return [
        ("Holds under these conditions", guarantee.conditions),
        ("Against whom", (guarantee.against,)),
        ("What is not protected", guarantee.not_protected),
    ]


def _filled(paragraph: str, lead: str = "") -> list[str]:
    return textwrap.wrap(
        paragraph, _WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
    )


_STYLE = """
.understudy-card{max-width:60rem;margin:1rem 0;padding:1.25rem 1.5rem;border:1px solid #c9d1d9;border-radius:8px;
background:#fff;color:#1b1f24;font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;text-align:left}
.understudy-card h2{margin:0 0 .5rem;font-size:1.25rem}
.understudy-card h3{margin:1.25rem 0 .35rem;font-size:1.02rem}
.understudy-card .claim{margin:0 0 1rem;padding:.7rem .9rem;border-left:4px solid #1a5fb4;background:#eef4fb;
font-size:1.06rem}
.understudy-card.void .claim{border-left-color:#a51d2d;background:#fdecee}
.understudy-card table{width:100%;border-collapse:collapse;background:#fff;color:inherit;font-size:.93rem}
.understudy-card caption{caption-side:top;text-align:left;font-weight:600;padding:.2rem 0 .35rem;color:inherit}
.understudy-card th,.understudy-card td{padding:.42rem .6rem;text-align:left;vertical-align:top;
border-bottom:1px solid #d8dee4;background:#fff}
.understudy-card thead th{border-bottom:2px solid #57606a}
.understudy-card tbody th{font-weight:600;width:24%}
.understudy-card td.bound{font-variant-numeric:tabular-nums;width:20%}
.understudy-card .facts th{width:10rem}
.understudy-card .note{display:block;color:#57606a}
.understudy-card ul{margin:.2rem 0;padding-left:1.3rem}
.understudy-card svg{display:block;width:100%;max-width:40rem;height:auto;margin:.2rem 0 .8rem}
@media (max-width:640px){.understudy-card thead{position:absolute;left:-9999px}.understudy-card tr{display:block;
padding:.3rem 0;border-bottom:1px solid #d8dee4}.understudy-card tbody th,.understudy-card .facts th,.understudy-card
td,.understudy-card td.bound{display:block;width:auto;padding:.1rem .2rem;border:0}
.understudy-card td.odds::after{content:" odds"}}
@media print{.understudy-card{border:0;padding:0;max-width:none;font-size:10pt;print-color-adjust:exact;
-webkit-print-color-adjust:exact}.understudy-card tr,.understudy-card li{break-inside:avoid}
.understudy-card h3{break-after:avoid}}
"""


def html(guarantee: Guarantee, page: bool = False) -> str:
    """The card as HTML: a fragment for a notebook or a report, or a whole page. Nothing is loaded from elsewhere."""
    g = guarantee
    rows = "".join(_row(m) for m in g.measures)
    about = "".join(f'<tr><th scope="row">{_e(name)}</th><td>{_e(content)}</td></tr>' for name, content in facts(g))
    rest = "".join(
        f"<h3>{_e(title)}</h3><ul>{''.join(f'<li>{_e(item)}</li>' for item in items)}</ul>"
        for title, items in sections(g)
    )
    title, caption = "What is guaranteed", "Each bound with its meaning; every one needs the conditions below"
    if not g.holds:
        title, caption = "The draw alone", "Not guaranteed of the readings"
    card = (
        f'<section class="understudy-card{"" if g.holds else " void"}" aria-label="Privacy card">'
        f"<style>{_STYLE}</style><h2>Privacy card</h2>"
        f'<p class="claim">{_e(g.headline)}</p>{_bars(g)}'
        f'<table class="facts"><caption>What is hidden</caption><tbody>{about}</tbody></table>'
        f"<h3>{_e(title)}</h3><table><caption>{_e(caption)}</caption>"
        '<thead><tr><th scope="col">Measure</th><th scope="col">Bound</th><th scope="col">Odds</th>'
        f'<th scope="col">In words</th></tr></thead><tbody>{rows}</tbody></table>{rest}</section>'
    )
    if not page:
        return card
    return with_policy(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Privacy card</title></head>'
        f"<body>{card}</body></html>\n"
    )


def _row(measure: Measure) -> str:
    m = measure
    note = f'<span class="note">{_e(m.note)}</span>' if m.note else ""
    return (
        f'<tr><th scope="row">{_e(m.title)}</th><td class="bound">{_e(m.shown)}</td><td class="odds">{_e(m.odds)}</td>'
        f"<td>{_e(m.sentence)}{note}</td></tr>"
    )


def _bars(guarantee: Guarantee) -> str:
    """Right guesses before and after, drawn."""
    g = guarantee
    before, after = percent(g.guess_before, "down"), percent(g.guess_after, "up")
    bars = "".join(
        f'<text x="0" y="{y + 15}" font-size="13" fill="#1b1f24">{name}</text>'
        f'<rect x="190" y="{y}" width="330" height="20" fill="#e6eaef"/>'
        f'<rect x="190" y="{y}" width="{330 * share:.1f}" height="20" fill="{colour}"/>'
        f'<text x="530" y="{y + 15}" font-size="13" fill="#1b1f24">{shown}</text>'
        for y, name, share, colour, shown in (
            (2, "Right guesses before", g.guess_before, "#8a94a0", before),
            (30, "and after, at most", g.guess_after, "#1a5fb4", after),
        )
    )
    words = f"Right guesses: {before} before the readings, at most {after} after."
    return f'<svg viewBox="0 0 660 54" role="img" aria-label="{_e(words)}">{bars}</svg>' if g.holds else ""


def _e(words: str) -> str:
    return _html.escape(words, quote=True)
