"""The content security policy of pages: a browser runs nothing, loads nothing and applies only their own styles.

Pieces of a page: tables that a screen reader can follow, boxes, and the style. Nothing is loaded from elsewhere.

Colours are variables, with a light and a dark set; on paper the light one is used. No meaning is told by colour alone.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from html import escape

# The content security policy of pages: a browser runs nothing, loads nothing and applies only their o ---


_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_CHARSET = '<meta charset="utf-8">'


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


# Pieces of a page: tables that a screen reader can follow, boxes, and the style. Nothing is loaded fr ---


STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--faint:#57606a;--ground:#fff;--raised:#f5f7fa;--line:#d5dbe1;
--accent:#1a5fb4;--soft:#eaf2fb;--warn:#8a1c2b;--warnground:#fdecee;--good:#1a6b33;--second:#b0495b}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6e9ed;--faint:#a3acb6;--ground:#15181c;--raised:#1e2329;
--line:#3a424b;--accent:#7db2f0;--soft:#1b2a3c;--warn:#ff9aa5;--warnground:#3a1a20;--good:#7fd096;--second:#f0929f}}
*{box-sizing:border-box}
body{font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--ground);
margin:2.2rem auto;max-width:66rem;padding:0 1.2rem}
h1{font-size:1.75rem;line-height:1.25;margin:0 0 .2rem}
h2{font-size:1.3rem;margin:2.4rem 0 .6rem;border-top:1px solid var(--line);padding-top:1.1rem}
h3{font-size:1.05rem;margin:1.4rem 0 .4rem}
p,li{max-width:48rem}a{color:var(--accent)}.made,figcaption,.note{color:var(--faint);font-size:.9rem}
nav ol{columns:2 20rem;padding-left:1.3rem}nav li{break-inside:avoid}
.box{border-left:4px solid var(--accent);background:var(--soft);padding:.7rem 1rem;margin:1rem 0;max-width:52rem}
.box p{margin:.3rem 0}.box.warn{border-left-color:var(--warn);background:var(--warnground)}
.box.warn strong{color:var(--warn)}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.9rem 0;min-width:min(30rem,100%);
font-size:.93rem;line-height:1.4}
caption{text-align:left;font-weight:600;padding-bottom:.3rem}
th,td{text-align:left;vertical-align:top;padding:.35rem 1.1rem .35rem 0;border-bottom:1px solid var(--line)}
thead th{vertical-align:bottom;border-bottom:2px solid var(--faint)}tbody th{font-weight:600}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.passed{color:var(--good);font-weight:600;white-space:nowrap}.failed{color:var(--warn);font-weight:600;white-space:nowrap}
figure{margin:1rem 0}svg{display:block;max-width:100%;height:auto}svg text{fill:var(--ink);font-size:13px}
details{margin:.6rem 0}summary{cursor:pointer;color:var(--accent)}
code,pre{font:.88rem/1.45 ui-monospace,Menlo,Consolas,monospace;background:var(--raised)}
pre{padding:.7rem .9rem;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}
main .understudy-card{border:0;padding:0;margin:0;max-width:none;background:transparent;color:inherit;font:inherit}
main .understudy-card table,main .understudy-card th,main .understudy-card td{background:transparent;
border-color:var(--line)}
main .understudy-card .claim{background:var(--soft);border-left-color:var(--accent)}
main .understudy-card.void .claim{background:var(--warnground);border-left-color:var(--warn)}
main .understudy-card h2{border:0;padding:0;margin-top:0}
main .understudy-card .note{color:var(--faint)}main .understudy-card svg text{fill:var(--ink)}
main .understudy-card svg rect:nth-of-type(odd){fill:var(--line)}
main .understudy-card svg rect:nth-of-type(2){fill:var(--faint)}
main .understudy-card svg rect:nth-of-type(4){fill:var(--accent)}
@media print{@page{margin:16mm}body{margin:0;padding:0;max-width:none;font-size:10pt;print-color-adjust:exact;
-webkit-print-color-adjust:exact}nav{display:none}.wide{overflow:visible}table{font-size:8.5pt}
h2,h3,caption{break-after:avoid}figure,tr,li,.box{break-inside:avoid}thead{display:table-header-group}
.engineer{break-before:page}}
"""


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = (), named: bool = True
) -> str:
    """A table with a caption and headed columns; the first cell of a row names it, if `named`.

    Cells are text, and are escaped; `numbers` are the columns that are set to the right. A cell that is "passed" or
    "failed" has a mark of its own.

    >>> '<th scope="row">a &lt; b</th>' in table("Sizes", ["what", "mm"], [["a < b", "3"]], numbers=[1])
    True
    """
    right = set(numbers)
    heads = "".join(f'<th scope="col"{_right(k in right)}>{escape(word)}</th>' for k, word in enumerate(head))
    lines = []
    for row in rows:
        cells = [_cell(word, k in right, named and k == 0) for k, word in enumerate(row)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide"><table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def pairs(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table of facts, a name and what it is in each row.

    >>> pairs("Facts", [("Period", "1 min")]).count("<tr>")
    1
    """
    lines = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(fact)}</td></tr>' for name, fact in rows)
    return f'<div class="wide"><table><caption>{escape(caption)}</caption><tbody>{lines}</tbody></table></div>'


def _right(right: bool) -> str:
    return ' class="number"' if right else ""


def _cell(word: str, right: bool, named: bool) -> str:
    if named:
        return f'<th scope="row"{_right(right)}>{escape(word)}</th>'
    if word in ("passed", "failed"):
        mark = "✓" if word == "passed" else "✗"
        return f'<td><span class="{word}">{mark} {word}</span></td>'
    return f"<td{_right(right)}>{escape(word)}</td>"


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


def section(name: str, title: str, content: str, kind: str = "") -> str:
    """A part of the page with a heading, to which the contents lead; nothing without content."""
    if not content:
        return ""
    extra = f' class="{kind}"' if kind else ""
    return f'<section id="{name}"{extra}><h2>{escape(title)}</h2>{content}</section>'
