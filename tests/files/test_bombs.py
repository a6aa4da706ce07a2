"""Small files that are large when they are read: refused after a bounded number of bytes, in bounded memory."""

import gzip
import io
import json

import pytest
from helpers import count_calls

import understudy as us
from understudy import serialize as document
from understudy.apply.apply_file import apply_file
from understudy.errors import ReadingError, StoredFileError
from understudy.tables.delimited import BLOCK, EMPTIEST, LONGEST, WIDEST, CsvReader, JsonLinesReader, blocks


class Endless:
    """A file that has a beginning and goes on for ever; how much of it was read is counted."""

    def __init__(self, begin, more):
        self._begin, self._more, self.read_bytes = begin, more, 0

    def read(self, size):
        found = (self._begin + self._more * (size // len(self._more) + 1))[:size]
        self._begin = self._begin[size:]
        self.read_bytes += size
        return found


@pytest.mark.sample(default=3, seconds=2, reason="files that never end")
@pytest.mark.parametrize("begin", [b"", b"time,co2\n1,400.0\n"])
@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b"\n\r\n"])
def test_blank_lines_without_end_are_refused(begin, blank):
    """Before and after the header; what is read stays within a few blocks."""
    file = Endless(begin, blank)
    with pytest.raises(ReadingError, match=r"x, after line \d+: the file is blank over more than 16 MiB"):
        for _ in CsvReader(file, "x").rows(["co2"]):
            pass
    assert file.read_bytes <= EMPTIEST + 3 * BLOCK


@pytest.mark.parametrize("begin", [b"", b'{"co2": 400.0}\n'])
@pytest.mark.parametrize("blank", [b"\n", b" \t\n", b"\r\n"])
def test_blank_lines_of_json_are_refused(begin, blank):
    """A line of blanks is blank in JSON lines."""
    file = Endless(begin, blank)
    with pytest.raises(ReadingError, match="the file is blank"):
        for _ in JsonLinesReader(file, "x").rows(["co2"]):
            pass
    assert file.read_bytes <= EMPTIEST + 3 * BLOCK


def read_whole(file):
    """All rows, up to the first bad one."""
    for rows in CsvReader(file, "x").rows(["co2"]):
        if rows.faults:
            raise ReadingError("a bad row")


@pytest.mark.sample(default=3, seconds=3, reason="files that never end")
@pytest.mark.parametrize("more", [b" ", b"\0", b"1,", b'"', b'""', b'"\n', b"\n1"])
def test_a_line_or_a_field_without_end_is_refused(more):
    """With and without quotes: by the length of a line, or since the rows cannot be read."""
    file = Endless(b"co2,people\n1,0\n" + (b'"' if more == b"\n1" else b""), more)
    with pytest.raises(ReadingError):
        read_whole(file)
    assert file.read_bytes <= LONGEST + 3 * BLOCK


def test_double_spaced_files_are_read():
    """As many blank lines as others are what some programs write."""
    rows = b"400.0,0\n\n" * 400_000
    assert sum(len(block.raw) for block in blocks(io.BytesIO(rows), "x")) == len(rows)


def test_an_open_quote_over_many_lines_takes_no_longer_than_they_are():
    """The end of the last whole row is found at once, in as many calls as in a short block, not line by line."""
    for inside in (b"\n", b'\n","'):
        costs = []
        for lines in (1 << 10, 1 << 20):
            file, found = io.BytesIO(b'a\n"' + inside * lines), []
            costs.append(
                count_calls(lambda file=file, found=found: found.extend(blocks(file, "x", b'"', size=1 << 20)))
            )
            assert [block.line for block in found] == [1, 2]
        assert costs[1] < costs[0] + 1000  # for a million lines


def test_a_header_of_very_many_columns_is_refused():
    """A few megabytes of commas would be millions of names."""
    with pytest.raises(ReadingError, match=f"the header has {WIDEST + 2} fields"):
        CsvReader(io.BytesIO(b"," * (WIDEST + 1) + b"\n1\n"), "x")


def test_a_packed_file_of_blank_lines_is_refused_by_apply(lab, tools, tmp_path):
    """128 MiB of blank lines in some hundred kilobytes; nothing is written."""
    head = b"time,co2,people\n2026-03-01T00:00:00,400.0,empty\n"
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(head + b"\n" * (1 << 27), 1))
    with pytest.raises(ReadingError, match=r"in\.csv\.gz, after line \d+: the file is blank"):
        apply_file(lab.design, tmp_path / "in.csv.gz", tmp_path / "out.csv", **tools.NAMES)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv.gz"]


# Documents -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["[],", '{"a":0},', "0,", '"",'])
def test_a_design_of_very_many_parts_is_refused_before_it_is_parsed(tmp_path, monkeypatch, part):
    """A few megabytes of brackets are a gigabyte of objects."""
    path = tmp_path / "design.json"
    count = document.MOST + 1
    path.write_text('{"format": "understudy design", "content": [' + part * count + "0]}")
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("parsed"))
    with pytest.raises(StoredFileError, match="has too many parts"):
        us.load_design(path)


def test_a_design_that_is_too_large_is_not_even_read(tmp_path):
    """180 MiB, all of them holes."""
    path = tmp_path / "design.json"
    with path.open("wb") as file:
        file.truncate(180 << 20)
    with pytest.raises(StoredFileError, match=f"is too large; a document has at most {64 << 20} bytes"):
        us.load_design(path)


def test_what_is_written_can_be_read(tmp_path, monkeypatch):
    """A document with too many parts is refused when it is written, too."""
    monkeypatch.setattr(document, "MOST", 10)
    with pytest.raises(StoredFileError, match="it must have at most 10"):
        document.write(tmp_path / "x.json", {"a": list(range(20))}, "design", 1)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' * 100_000, "NaN", '{"a": 1, "a": 2}', "1" * 10_000, "\ud800"])
def test_an_audit_is_read_with_the_same_suspicion(tmp_path, text):
    """Nesting, keys that repeat, numbers without end."""
    from understudy.adversaries.results import load_audit

    path = tmp_path / "audit.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(StoredFileError):
        load_audit(path)
