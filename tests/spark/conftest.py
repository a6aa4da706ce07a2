"""A session for the tests of this folder, which are collected by `make test-spark` alone."""

from __future__ import annotations

import pytest
import spark_cases as cases

import understudy as us


@pytest.fixture(scope="session")
def spark():
    made = cases.session()
    yield made
    made.stop()


class Place:
    """A key and marks, and `disguise` with them."""

    def __init__(self, folder):
        self.folder, self.marks = folder, str(folder / "marks")
        self.key, self.key_path = cases.new_key(folder)

    def disguise(self, frame, design=None, **options):
        given = {"key": self.key_path, "room": "room", "time": "time", "reading": "co2", "private": "people"}
        names = us.spark.Options.__dataclass_fields__
        chosen = {"period": 60, "buckets": 4, **{name: options.pop(name) for name in list(options) if name in names}}
        given |= {"marks": self.marks, **options}
        made = cases.design() if design is None else design
        return us.spark.disguise(frame, made, options=us.spark.Options(**chosen), **given)

    def last(self):
        return us.spark.runs(self.marks)[-1]

    def spent(self):
        return cases.spent_by_group(self.marks)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)
