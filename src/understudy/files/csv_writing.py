"""CSV files written: the texts of time and kept columns as they came, readings in the form that the design gives them.

A line of comment would break most readers of CSV, so the mark that the readings are disguised stands in a file
beside it, ``<file>.meta.json``.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from io import StringIO
from typing import IO, Any, Literal

import numpy as np

from understudy.files.columns import Column
from understudy.files.layout import Layout
from understudy.laws.base import Array


class CsvWriter:
    r"""A header, and rows.

    >>> import io
    >>> from understudy.files.columns import Texts
    >>> from understudy.files.numbers import NumberFormat
    >>> file = io.BytesIO()
    >>> writer = CsvWriter(file, Layout(("time", "co2"), ("co2",), (NumberFormat(1),)))
    >>> writer.write({"time": Texts(["1", "2"])}, np.array([[431.04], [np.nan]]))
    >>> file.getvalue()
    b'time,co2\n1,431.0\n2,\n'
    """

    def __init__(self, file: IO[bytes], layout: Layout, delimiter: str = ",") -> None:
        self._file, self._layout, self._delimiter = file, layout, delimiter
        self._write([layout.names])

    def write(self, columns: Mapping[str, Column], Y: Array) -> None:
        """Some rows; a reading that is missing is empty."""
        self._write(zip(*[self._texts(name, columns, Y) for name in self._layout.names], strict=True))

    def _texts(self, name: str, columns: Mapping[str, Column], Y: Array) -> list[str]:
        channel = self._layout.channel(name)
        if channel is None:
            return columns[name].texts()
        form, y = self._layout.forms[channel], Y[:, channel]
        there = ~np.isnan(y)
        if there.all():
            return form.texts(y)
        texts = iter(form.texts(y[there]))
        return [next(texts) if known else "" for known in there.tolist()]

    def close(self) -> None:
        """Nothing is held back."""

    def _write(self, rows: Any) -> None:
        table = list(rows)
        text = self._plain(table)
        if text is None:
            text = self._quoted(table, csv.QUOTE_MINIMAL)
        if "\r" in text:  # which the csv module leaves without quotes, although its reader ends a line there
            text = self._quoted(table, csv.QUOTE_ALL)
        self._file.write(text.encode("utf-8"))

    def _plain(self, table: list[Any]) -> str | None:
        """The lines where no field needs quotes, which is much the quicker way; None where one does."""
        width = len(self._layout.names)
        text = "\n".join(map(self._delimiter.join, table)) + "\n"
        fields = text.count(self._delimiter) == len(table) * (width - 1)
        # an empty field that is alone would be a blank line
        return text if width > 1 and fields and '"' not in text and text.count("\n") == len(table) else None

    def _quoted(self, table: list[Any], quoting: Literal[0, 1]) -> str:
        file = StringIO()
        csv.writer(file, delimiter=self._delimiter, lineterminator="\n", quoting=quoting).writerows(table)
        return file.getvalue()
