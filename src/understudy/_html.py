"""Pieces of pages: templates, tables that a screen reader can follow, boxes, cards, and the content security policy.

A page loads nothing from elsewhere, and a browser runs nothing in it: its policy forbids all but its own styles, which
it names by their digests (`with_policy`). Frames and styles are files in ``report/templates``; what stands in them is
escaped here, but for pieces that are `Safe` already. Colours are variables, with a light and a dark set; on paper the
light one is used. No meaning is carried by colour alone.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from understudy.text import MEASURE_HEAD, SCOPE_HEAD, Card, Measure, percent, right_guesses

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_CHARSET = '<meta charset="utf-8">'


class Safe(str):
    """HTML that is not to be escaped again."""

    __slots__ = ()


def with_policy(page: str) -> str:
    """The page with its policy, in its head: no script, nothing from elsewhere, and styles by their digests.

    >>> page = '<html><head><meta charset="utf-8"><style>p{color:red}</style></head><body><p>0.3 nats</p></body></html>'
    >>> with_policy(page).split('content="')[1].split('">')[0].split("; ")[0::3]
    ["default-src 'none'", "style-src 'sha256-p0bF+un5yUb9MBO6xRb8kPHlY2BdpHVtLiFkDrZPF64='"]
    """
    styles = dict.fromkeys(_STYLE.findall(page))
    rules = ["default-src 'none'", "base-uri 'none'", "form-action 'none'"]
    if styles:
        rules.append("style-src " + " ".join(f"'sha256-{_digest(style)}'" for style in styles))
    if '<img alt="' in page:
        rules.append("img-src data:")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">'
    return page.replace(_CHARSET, _CHARSET + policy, 1)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@cache
def template(name: str) -> str:
    """A file of ``report/templates``."""
    return files("understudy").joinpath("report", "templates", name).read_text(encoding="utf-8")


def fill(name: str, **parts: str) -> Safe:
    """A template with its parts, each escaped unless it is `Safe`.

    >>> fill("report.html", title="a < b", made="", contents=Safe("<li></li>"), sections="")[:28]
    '<header><h1>a &lt; b</h1><p '
    """
    return Safe(Template(template(name)).substitute({key: _escape(part) for key, part in parts.items()}))


@cache
def page_words() -> dict[str, Any]:
    """The text that stands on pages alone, by name: ``report/templates/words.toml``."""
    return tomllib.loads(template("words.toml"))


def page_text(name: str, /, **facts: Any) -> str:
    """A sentence of a page with its facts.

    >>> page_text("time_column", name="date")
    'The column date leaves as it is: when readings come, and which are missing, is seen.'
    """
    return _fill(page_words()[name], facts)


def page_entry(table: str, name: str, other: str = "") -> str:
    """An entry of a table of words; where there is none, the entry `other`, or else the name itself."""
    known = page_words()[table]
    return " ".join(known.get(name, known.get(other, name)).split())


def page_list(name: str, /, **facts: Any) -> list[str]:
    """Several sentences of a page with their facts."""
    return [_fill(words, facts) for words in page_words()[name]]


def _fill(words: str, facts: dict[str, Any]) -> str:
    return " ".join(words.format(**facts).split())


def page_table(name: str, rows: Iterable[Sequence[str]], /, **facts: Any) -> str:
    """A table of a page: caption, heads and columns of numbers by its name."""
    known = page_words()["table"][name]
    return table(_fill(known["caption"], facts), known["head"], rows, known.get("numbers", ()))


def document(title: str, body: str, *styles: str) -> str:
    """A whole page: `body` is HTML, `styles` are names of style sheets."""
    style = "".join(template(name) for name in styles)
    return with_policy(
        fill("document.html", title=title, body=Safe(body), style=Safe(f"<style>{style}</style>" if style else ""))
    )


def report(title: str, made: str, sections: Iterable[tuple[str, str, str]]) -> str:
    """A page of sections (id, heading, HTML) with a table of contents; sections without content are left out."""
    kept = [each for each in sections if each[2]]
    contents = "".join(f'<li><a href="#{name}">{escape(words)}</a></li>' for name, words, _ in kept)
    body = "".join(f'<section id="{name}"><h2>{escape(words)}</h2>{content}</section>' for name, words, content in kept)
    main = fill("report.html", title=title, made=made, contents=Safe(contents), sections=Safe(body))
    return document(title, main, "page.css", "pictures.css")


def card_html(card: Card, page: bool = False) -> str:
    """A card as a fragment for a notebook or a report, or as a page of its own."""
    measures = [(m.title, m.shown, m.prior, _in_words(card, m)) for m in card.measures]
    scopes = table("What holds, and how it is known", SCOPE_HEAD, card.scopes) if card.scopes else ""
    sections = "".join(f"<h3>{escape(title)}</h3>{bullets(items)}" for title, items in card.sections)
    found = fill(
        "card.html",
        kind="" if card.holds else " void",
        holds=str(card.holds).lower(),
        style=Safe(template("card.css")),
        title=card.title,
        claim=card.claim,
        bars=Safe("" if card.right_guesses is None else _bars(*card.right_guesses)),
        facts=Safe(pairs("What is hidden", card.facts)),
        heading=card.heading,
        measures=Safe(table(card.lead, MEASURE_HEAD, measures, names=[m.name for m in card.measures])),
        scopes=Safe(f"<h3>Of a sequence, a day, a decision</h3>{scopes}" if scopes else ""),
        sections=Safe(sections),
    )
    return document(card.title, found) if page else found


def fragment(title: str, *parts: str) -> str:
    """Pieces below a heading, in the style of a card: what a notebook shows of a value.

    >>> fragment("a < b", "<p>0.3 nats</p>").endswith("<h2>a &lt; b</h2><p>0.3 nats</p></section>")
    True
    """
    name = escape(title)
    lead = f'<section class="understudy-card" aria-label="{name}"><style>{template("card.css")}</style><h2>{name}</h2>'
    return f"{lead}{''.join(parts)}</section>"


def _in_words(card: Card, measure: Measure) -> Safe:
    note = f'<span class="note">{escape(measure.note)}</span>' if measure.note else ""
    return Safe(f"{escape(card.in_words(measure))}{note}")


def _bars(before: float, after: float) -> str:
    """Right guesses before and after, drawn."""
    bars = "".join(
        f'<text x="0" y="{y + 15}" font-size="13" fill="#1b1f24">{name}</text>'
        f'<rect x="190" y="{y}" width="330" height="20" fill="#e6eaef"/>'
        f'<rect x="190" y="{y}" width="{330 * share:.1f}" height="20" fill="{colour}"/>'
        f'<text x="530" y="{y + 15}" font-size="13" fill="#1b1f24">{shown}</text>'
        for y, name, share, colour, shown in (
            (2, "Right guesses before", before, "#8a94a0", percent(before, "down")),
            (30, "and after, at most", after, "#1a5fb4", percent(after, "up")),
        )
    )
    words = escape(f"Right guesses: {right_guesses(before, after)}.")
    return f'<svg viewBox="0 0 660 54" role="img" aria-label="{words}">{bars}</svg>'


# Pieces ---------------------------------------------------------------------------------------------------------------


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Iterable[int] = (),
    named: bool = True,
    names: Sequence[str] = (),
) -> str:
    """A table with a caption and headed columns; the first cell of a row names it, if `named`.

    Words are escaped unless they are `Safe`; `numbers` are the columns that are set to the right. A cell that is
    "passed" or "failed" has a mark of its own. `names` are names of the rows for programs, in ``data-name``.

    >>> '<th scope="row">a &lt; b</th>' in table("Sizes", ["what", "mm"], [["a < b", "3"]], numbers=[1])
    True
    """
    right = set(numbers)
    heads = "".join(f'<th scope="col"{_right(k in right)}>{_escape(word)}</th>' for k, word in enumerate(head))
    lines = []
    for i, row in enumerate(rows):
        cells = [_cell(word, k in right, named and k == 0) for k, word in enumerate(row)]
        name = f' data-name="{escape(names[i])}"' if names else ""
        lines.append(f"<tr{name}>{''.join(cells)}</tr>")
    return (
        f'<div class="wide"><table><caption>{_escape(caption)}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def pairs(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table of facts, a name and what it is in each row.

    >>> pairs("Facts", [("Period", "1 min")]).count("<tr>")
    1
    """
    lines = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(fact)}</td></tr>' for name, fact in rows)
    head = f"<caption>{escape(caption)}</caption>"
    return f'<div class="wide"><table class="facts">{head}<tbody>{lines}</tbody></table></div>'


def _right(right: bool) -> str:
    return ' class="number"' if right else ""


def _cell(word: str, right: bool, named: bool) -> str:
    if named:
        return f'<th scope="row"{_right(right)}>{_escape(word)}</th>'
    if word in ("passed", "failed"):
        mark = "✓" if word == "passed" else "✗"
        return f'<td><span class="{word}">{mark} {word}</span></td>'
    return f"<td{_right(right)}>{_escape(word)}</td>"


def _escape(words: str) -> str:
    return words if isinstance(words, Safe) else escape(words)


def paragraphs(*words: str) -> str:
    """Text, a paragraph each; empty ones are left out."""
    return "".join(f"<p>{escape(word)}</p>" for word in words if word)


def bullets(items: Iterable[str]) -> str:
    """A list; nothing if there is nothing in it."""
    lines = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{lines}</ul>" if lines else ""


def box(words: Iterable[str], warning: bool = False, lead: str = "") -> str:
    """A box that is seen first; one that warns says so in words too."""
    first = f"<p><strong>{escape(lead)}</strong></p>" if lead else ""
    role = ' role="alert"' if warning else ""
    return f'<div class="box{" warn" if warning else ""}"{role}>{first}{paragraphs(*words)}</div>'


def details(summary: str, content: str) -> str:
    """What is shown on request."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def figure(picture: str, caption: str) -> str:
    """A picture with what it shows below it."""
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"
