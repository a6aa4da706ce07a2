"""Whole lines of a file of texts, a few megabytes at a time, with the number of the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple

from understudy.errors import ReadingError

BLOCK = 1 << 22
LONGEST = 1 << 26
"""Bytes that a line, or a quoted field, may have."""


class Block(NamedTuple):
    """Whole lines, and the number of the first of them, from 1."""

    raw: bytes
    line: int

    def __repr__(self) -> str:
        return f"Block({len(self.raw)} bytes)"

    def text(self, name: str) -> str:
        """The lines as text; refuses what is not UTF-8."""
        try:
            return self.raw.decode("utf-8")
        except UnicodeDecodeError as error:
            line = self.line + self.raw.count(b"\n", 0, error.start)
            raise ReadingError(f"{name}, line {line}: the text is not UTF-8") from None


def blocks(file: IO[bytes], name: str, quote: bytes = b"", size: int = BLOCK) -> Iterator[Block]:
    r"""The file in blocks that end with a line; with a `quote`, where no quoted field is open.

    >>> import io
    >>> [block.line for block in blocks(io.BytesIO(b"a\nb\nc"), "x", size=3)]
    [1, 2, 3]
    """
    rest, line = b"", 1
    while True:
        more = file.read(size)
        whole = rest + more
        if not more:
            if whole:
                yield Block(whole, line)
            return
        end = whole.rfind(b"\n") + 1
        # within an open quote a line does not end the row: wait for the rest of it
        while end and quote and whole.count(quote, 0, end) % 2:
            end = whole.rfind(b"\n", 0, end - 1) + 1
        if not end:
            if len(whole) > LONGEST:
                raise ReadingError(f"{name}, line {line}: the line or a quoted field in it does not end")
            rest = whole
            continue
        yield Block(whole[:end], line)
        line += whole.count(b"\n", 0, end)
        rest = whole[end:]
