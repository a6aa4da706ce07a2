"""CSV files mean the same with and without pyarrow, and every row knows its line."""

import csv
import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import ReadingError
from understudy.tables import columns as arrow
from understudy.tables import delimited as lines
from understudy.tables.columns import ArrowColumn, batches
from understudy.tables.delimited import CsvReader
from understudy.tables.table import Source


def all_rows(raw, wanted=("a", "b"), size=None, quick=True, batch=4, delimiter=","):
    """Lines, texts and faults of a file, read in small blocks."""
    with pytest.MonkeyPatch.context() as patch:
        if not quick:
            patch.setattr(arrow, "find_pyarrow", lambda: None)
        if size is not None:
            patch.setattr(lines.blocks, "__defaults__", (b"", size))
        reader = CsvReader(io.BytesIO(raw), "x.csv", delimiter)
        found = list(batches(reader.rows(wanted), batch))
    at, faults = 0, {}
    for rows in found:
        faults |= {at + i: rule for i, rule in rows.faults.items()}
        at += len(rows)
    texts = [[text for rows in found for text in rows.columns[name].texts()] for name in wanted]
    assert all(len(rows) == batch for rows in found[:-1])
    return np.concatenate([rows.lines for rows in found] or [[]]).tolist(), texts, faults


CASES = {
    "plain": b"a,b\n1,2\n3,4\n",
    "no end": b"a,b\n1,2\n3,4",
    "crlf": b"a,b\r\n1,2\r\n3,4\r\n",
    "mark": b"\xef\xbb\xbfa,b\n1,2\n",
    "blank lines": b"\n\na,b\n1,2\n\n\n3,4\n",
    "quotes": b'a,b\n"1","2"\n"x, y","say ""so"""\n',
    "line break in quotes": b'a,b\n"one\ntwo",2\n3,4\n"five\r\nsix",7\n8,9\n',
    "short and long rows": b"a,b\n1\n2,3\n4,5,6\n7,8\n",
    "more columns": b"z,a,y,b\n0,1,0,2\n0,3,0,4\n",
    "quote inside": b'a,b\n5" pipe,1\n6" pipe,2\n',
    "accents": "a,b\né,ü\n\u2028,x\n".encode(),
    "old line ends": b"a,b\r1,2\r3,4\r",
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [None, 1, 7])
def test_both_ways_read_the_same(name, size):
    """Rows, lines and faults are those of the csv module, whatever the size of blocks."""
    slow = all_rows(CASES[name], quick=False)
    assert all_rows(CASES[name], size=size) == slow
    assert all_rows(CASES[name], size=size, quick=False) == slow
    if not slow[2]:
        text = io.StringIO(CASES[name].decode("utf-8-sig"), newline="")
        header, *rows = [row for row in csv.reader(text) if row]
        assert slow[1] == [[row[header.index(column)] for row in rows] for column in "ab"]


def test_lines_are_those_of_the_file():
    """Blank lines and breaks within quotes count as lines; a row has the line on which it begins."""
    assert all_rows(CASES["blank lines"])[0] == [4, 7]
    assert all_rows(CASES["line break in quotes"])[0] == [2, 4, 5, 7]
    found = all_rows(CASES["short and long rows"])
    assert found[2] == {0: "the row has 1 fields and the header has 2", 2: "the row has 3 fields and the header has 2"}
    assert found[1] == [["", "2", "", "7"], ["", "3", "", "8"]]


@pytest.mark.parametrize("quick", [True, False])
def test_names_of_rows_as_r_writes_them(quick):
    """A header that is one name short stands above columns of which the first has the names of rows."""
    raw = b'"a","b"\n"1",5,6\n"2",7,8\n'
    assert all_rows(raw, quick=quick) == ([2, 3], [["5", "7"], ["6", "8"]], {})
    assert all_rows(raw, size=1, quick=quick) == ([2, 3], [["5", "7"], ["6", "8"]], {})


TEXTS = st.text(alphabet='ab1.,"\n\r é;', max_size=5)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=8), st.integers(1, 64), st.sampled_from(",;\t"))
def test_whatever_csv_writes_is_read_back(table, size, delimiter):
    """Any texts that the csv module writes come back, with and without pyarrow, in blocks of any size."""
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(
        [("a", "b", "c"), *table]
    )
    raw = file.getvalue().encode()
    for quick in (True, False):
        found = all_rows(raw, ("a", "c"), size, quick, delimiter=delimiter)
        assert found[1] == [[row[0] for row in table], [row[2] for row in table]]
        assert found[2] == {}


def test_plain_blocks_go_through_pyarrow():
    """A block in which nothing unusual happens is read by pyarrow, and one with a bad row is not."""
    (plain,) = CsvReader(io.BytesIO(b"a,b\n1,2\n"), "x").rows(["a"])
    assert isinstance(plain.columns["a"], ArrowColumn)
    (odd,) = CsvReader(io.BytesIO(b"a,b\n1\n"), "x").rows(["a"])
    assert not isinstance(odd.columns["a"], ArrowColumn)


def test_what_cannot_be_read_is_told_by_its_line():
    """Bytes that are no text, a quote that never ends, an empty file: the line is named, the text is not."""
    with pytest.raises(ReadingError, match=r"x\.csv, line 3: the text is not UTF-8"):
        all_rows(b"a,b\n1,2\n\xff\xfe,4\n")
    with pytest.raises(ReadingError, match="empty"):
        all_rows(b"\n\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "LONGEST", 1000)
        with pytest.raises(ReadingError, match=r"x\.csv, line 2: .* does not end"):
            all_rows(b'a,b\n"secret' + b"x\n" * 2000, size=16)


def test_gzip_is_the_same_file(tmp_path):
    """A packed file is read as the plain one; a torn one is refused."""
    raw = b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(3000))
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(raw))
    with Source(path, "csv.gz") as source:
        found = [text for rows in source.reader.rows(["b"]) for text in rows.columns["b"].texts()]
    assert found == [str(i * i) for i in range(3000)]
    path.write_bytes(gzip.compress(raw)[:-2000])
    with pytest.raises(ReadingError, match="whole gzip"), Source(path, "csv.gz") as source:
        list(source.reader.rows(["b"]))
    path.write_bytes(raw)
    with pytest.raises(ReadingError, match="whole gzip"):
        Source(path, "csv.gz")
