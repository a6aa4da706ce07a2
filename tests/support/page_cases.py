"""What tests of pages share: a reader that sees whether HTML is sound, and what is written on it."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "img", "hr", "input", "link"}


class Sound(HTMLParser):
    """Every element is closed in its turn; keeps what is asked of it."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.starts = [], [], []

    def handle_starttag(self, tag, attributes):
        self.starts.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.starts.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title"):
            self.text.append(data)


def parsed(page):
    """The page, read once; fails where an element is not closed."""
    found = Sound()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


def words(page):
    """What is written on it."""
    return " ".join(" ".join(parsed(page).text).split())
