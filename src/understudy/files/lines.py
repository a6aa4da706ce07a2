"""Whole lines of a file of texts, a few megabytes at a time, with the number of the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from understudy.errors import ReadingError

BLOCK = 1 << 22
LONGEST = 1 << 24
"""Bytes that a line, or a quoted field, may have."""
EMPTIEST = 1 << 24
"""Bytes of line ends that a file may have beyond its other bytes; a packed file of a megabyte can hold a gigabyte."""


def _outside(raw: bytes, quote: bytes) -> int:
    r"""The end of the last line that ends outside of quotes; all at once, for there may be millions inside.

    >>> _outside(b'1\n"2\n",3\n"', b'"')
    9
    """
    letters = np.frombuffer(raw, dtype=np.uint8)
    inside = np.logical_xor.accumulate(letters == quote[0])
    ends = np.flatnonzero((letters == ord("\n")) & ~inside)
    return int(ends[-1]) + 1 if ends.size else 0


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


def blocks(
    file: IO[bytes], name: str, quote: bytes = b"", size: int = BLOCK, *, blank: bytes = b"\r\n"
) -> Iterator[Block]:
    r"""The file in blocks that end with a line; with a `quote`, where no quoted field is open.

    Blocks of nothing but `blank` characters are left out, and a file that has hardly anything else is refused.

    >>> import io
    >>> [block.line for block in blocks(io.BytesIO(b"a\nb\nc"), "x", size=3)]
    [1, 2, 3]
    """
    rest, line, empty, held = b"", 1, 0, 0
    while True:
        more = file.read(size)
        whole = rest + more
        ends = more.count(b"\n")
        dense = 4 * ends > len(more) or not more.strip(blank)  # others are not counted in full, which takes time
        filled = len(more.translate(None, blank)) if dense else len(more)
        empty += len(more) - 2 * filled
        if empty > EMPTIEST:
            raise ReadingError(f"{name}, after line {line}: the file is blank over more than {EMPTIEST >> 20} MiB")
        if not more:
            if whole.strip(blank):
                yield Block(whole, line)
            return
        end = whole.rfind(b"\n") + 1
        if quote and whole.count(quote, 0, end) % 2:
            # within an open quote a line does not end the row: wait for the rest of it
            end = _outside(whole, quote)
        held += ends  # ends of lines that are not counted yet
        if not end:
            if len(whole) > LONGEST:
                raise ReadingError(f"{name}, line {line}: the line or a quoted field in it does not end")
            rest = whole
            continue
        if filled or whole[:end].strip(blank):
            yield Block(whole[:end], line)
        left = whole.count(b"\n", end)
        line, held, rest = line + held - left, left, whole[end:]
