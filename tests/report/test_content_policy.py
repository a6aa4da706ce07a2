"""Every page has a content security policy that forbids all it does not need, and needs nothing that it forbids."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

import understudy as us
from understudy._html import with_policy
from understudy.adversaries.results import Audit, Row
from understudy.adversaries.statistics import Figure, ScoreRow, Scores
from understudy.paper.run import page as paper_page
from understudy.paper.setting import Outcome, Settings, Table
from understudy.report.pages import audit_html, audit_report, privacy_report

VOID = {"meta", "img", "br", "hr", "input", "link", "base"}
LOADS = {"src", "href", "xlink:href", "srcset", "action", "formaction", "data", "poster", "background", "ping", "cite"}
FORBIDDEN = {"script", "iframe", "frame", "object", "embed", "base", "link", "form", "applet", "portal"}


class Reader(HTMLParser):
    """What of a page a policy is about."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.policies, self.styles, self.faults, self._inside = [], [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag in FORBIDDEN:
            self.faults.append(f"<{tag}>")
        if tag == "meta" and found.get("http-equiv"):
            if found["http-equiv"].lower() != "content-security-policy":
                self.faults.append(f"http-equiv {found['http-equiv']}")
            elif self._inside != ["html", "head"] or self.styles:
                self.faults.append("the policy comes too late")
            else:
                self.policies.append(found["content"])
        for name, value in found.items():
            if name.startswith("on"):
                self.faults.append(f"an event handler {name}")
            if name == "style":
                self.faults.append("a style attribute")
            if name in LOADS and not (value or "").startswith(("#", "data:image/")):
                self.faults.append(f"{name} leads elsewhere")
            if name in LOADS and (value or "").startswith("data:") and tag != "img":
                self.faults.append(f"data in a <{tag}>")
        if tag == "style":
            self.styles.append("")
        if tag not in VOID:
            self._inside.append(tag)

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data):
        if self._inside and self._inside[-1] == "style":
            self.styles[-1] += data


def violations(page):
    """What is missing in the policy of a page, and what in the page violates it."""
    reader = Reader()
    reader.feed(page)
    found = list(reader.faults)
    if len(reader.policies) != 1:
        return [*found, f"{len(reader.policies)} policies"]
    rules = {}
    for part in reader.policies[0].split(";"):
        name, *sources = part.split()
        rules[name] = sources
    for name in ("default-src", "base-uri", "form-action"):
        if rules.get(name) != ["'none'"]:
            found.append(f"{name} is not 'none'")
    if set(rules) - {"default-src", "base-uri", "form-action", "style-src", "img-src"}:
        found.append("the policy allows more than styles and pictures")
    if rules.get("img-src", ["data:"]) != ["data:"] or ("<img" in page) != ("img-src" in rules):
        found.append("pictures are not those of the page")
    allowed = rules.get("style-src", [])
    if any(not re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", source) for source in allowed):
        found.append("styles are allowed otherwise than by their digest")
    for style in reader.styles:
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        if f"'sha256-{digest}'" not in allowed:
            found.append("a style that is not allowed")
        if re.search(r"url\(|@import|expression\(|image-set|src\(", style, re.IGNORECASE):
            found.append("a style that loads")
    return found


def design(**more):
    values = {"<b>": 0.0, 'a" onload="x': 3.0}
    family = us.Family({v: us.IID(us.Gaussian(x, 1.0)) for v, x in values.items()}, about=more or None)
    return us.design(family, leakage=0.3, distortion="mae")


def causal(**more):
    family = us.Family({v: us.IID(us.Gaussian(v, 1.0)) for v in (0, 3)})
    return us.design_causal(family, [[0.9, 0.1], [0.1, 0.9]], rate=0.05, distortion="mae", **more)


def audit():
    half = Figure(0.5, 0.45, 0.55)
    rows = [
        Row(kind, "windowed", False, False, half, half, half, half, 0.4, False, False, 100, 10, 0.1)
        for kind in ("disguised", "noise", "offset", "raw")
    ]
    return Audit(tuple(rows), 0.4, 0.5, 0.99, 0.01, 100, 100, "simulated", 2, False)


def scores():
    row = ScoreRow("0", "co2", 100, 0.0, 1.0, (1 / 32,) * 32, 0.0, (0.5, -0.1) * 10)
    return Scores((row,))


def paper(folder):
    (folder / "one.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" style="fill:red"/>')
    outcome = Outcome("one", "A <result>", ("Words.",), {}, (Table("T", ("a",), (("1",),)),), {"one": None})
    return paper_page(folder, Settings(quick=True), [outcome])


PAGES = {
    "report": lambda _: privacy_report(design(readings=["<img src=x>"], private="<script>")),
    "report with an audit": lambda _: privacy_report(design(), audit_html(audit(), scores())),
    "report of a causal design": lambda _: privacy_report(causal()),
    "audit": lambda _: audit_report(audit()),
    "audit of a design": lambda _: audit_report(audit(), design(), scores()),
    "card": lambda _: design().guarantee.html(page=True),
    "card of a causal design": lambda _: causal().guarantee.html(page=True),
    "card without a guarantee": lambda _: causal(accept_estimated_theta=True).guarantee.html(page=True),
    "paper": paper,
}


@pytest.mark.parametrize("kind", PAGES)
def test_every_page_has_a_policy_and_keeps_to_it(kind, tmp_path):
    """Nothing runs, nothing is loaded, and styles are allowed by their digests alone."""
    assert violations(PAGES[kind](tmp_path)) == []


def test_pages_of_the_source_are_all_here():
    """Whatever function begins a page ends it with its policy: a new one must be added above."""
    import pathlib

    source = pathlib.Path(us.__file__).parent
    begun = {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8").lower().count("<!doctype html>")
        for path in source.rglob("*.html")
    }
    begun |= {
        path.relative_to(source).as_posix(): len(
            re.findall(r"<!doctype html>\n|'<!doctype html>", path.read_text().lower())
        )
        for path in source.rglob("*.py")
    }
    served = {
        "studio/page/index.html": 1
    }  # its policy is a header, which tests/studio/test_security.py holds to the letter
    whole = {"report/templates/document.html": 1}
    assert {name: count for name, count in begun.items() if count} == whole | served


def test_the_page_of_a_card_with_warnings_keeps_to_its_policy():
    """The command line adds what speaks against the card, as text."""
    from understudy.cli.design_commands import with_warnings as warned

    page = warned(design().guarantee.html(page=True), ['<script>"x"</script>'])
    assert "&lt;script&gt;" in page
    assert violations(page) == []


# Twins: what the reader above must find ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("<body>", '<body onload="x()">', "an event handler onload"),
        ("<body>", "<body><script>x()</script>", "<script>"),
        ("<body>", '<body><img src="https://example.org/x.png">', "src leads elsewhere"),
        ("<body>", '<body><p style="color:red">', "a style attribute"),
        ("</style>", "p{color:red}</style>", "a style that is not allowed"),
        ("'none'; base", "'self'; base", "default-src is not 'none'"),
        ("style-src ", "style-src 'unsafe-inline' ", "styles are allowed otherwise than by their digest"),
        ("form-action 'none'", "script-src 'self'", "form-action is not 'none'"),
        ('http-equiv="Content-Security-Policy"', 'name="other"', "0 policies"),
    ],
)
def test_a_page_that_violates_its_policy_is_found(old, new, fault):
    """The same page with one thing planted."""
    page = design().guarantee.html(page=True)
    assert old in page
    assert fault in violations(page.replace(old, new, 1))


def test_a_style_that_loads_is_found():
    """With its digest in the policy, too."""
    page = '<html><head><meta charset="utf-8"><style>p{background:url(https://example.org)}</style></head></html>'
    assert violations(with_policy(page)) == ["a style that loads"]
