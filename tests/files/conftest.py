"""What the tests of files share: a room, its design, rows of it, and what they must become."""

import csv
import json

import numpy as np
import pytest

import understudy as us

VALUES = ("empty", "full")


def room(value):
    """A room by the name of what is in it; pseudo values are numbers of people."""
    people = {"empty": 0.0, "full": 1.0}.get(value, value)
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=2.0 * people, mean0=400.0, cov0=1.0)


class Room:
    """A design and rows of readings for it, with an oracle."""

    def __init__(self, about=None):
        self.family = us.Family(room, values=VALUES, about=about)
        self.design = us.design(self.family, pseudo=[0.0, 0.5, 1.0], leakage=0.3, horizon=50, distortion="mae")

    def rows(self, count, seed=3, stay=40):
        """Times, readings and labels; the parameter moves now and then."""
        rng = np.random.default_rng(seed)
        codes = np.repeat(rng.integers(0, 2, count // stay + 1), stay)[:count]
        labels = [VALUES[code] for code in codes]
        Y = us.sample(self._along(labels), count, rng=seed)
        times = np.datetime64("2026-03-01T00:00:00") + np.arange(count) * np.timedelta64(60, "s")
        return [str(t) for t in times], np.asarray(Y).ravel(), labels

    def _along(self, labels):
        return self.family.model(labels[0]) if len(set(labels)) == 1 else self.family.along(labels)

    def candidates(self, Y, labels):
        """What the rows become under each of the understudies, as files have it: 2^-11 is told by four decimals."""
        assert self.design.resolution == (2.0**-11,)
        return [np.round(out, 4) for out in self.exact(Y, labels)]

    def exact(self, Y, labels):
        """The same on the lattice of the design."""
        source, step = self._along(labels), self.design.resolution
        made = [us.disguise(np.asarray(Y), source, self.family.model(v), resolution=step) for v in self.design.pseudo]
        return [np.ravel(out) for out in made]

    def played(self, out, Y, labels, within=1e-9):
        """The understudies that explain an output, by position."""
        found = self.candidates(Y, labels)
        out = np.asarray(out, dtype=float)
        return [j for j, wanted in enumerate(found) if np.allclose(out, wanted, rtol=0.0, atol=within, equal_nan=True)]


@pytest.fixture(scope="session")
def lab():
    """A room whose columns are named in each call."""
    return Room()


def write_csv(path, header, *columns):
    """A CSV file of texts."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(zip(*columns, strict=True))
    return path


def read_csv(path):
    """Columns of texts, by name."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}


def read_jsonl(path):
    """Objects, a line each."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def floats(texts):
    """Numbers of texts, NaN where there is none."""
    return np.array([float(text) if text else np.nan for text in texts])


class Tools:
    """Helpers for tests, which have no package to import them from."""

    write_csv = staticmethod(write_csv)
    read_csv = staticmethod(read_csv)
    read_jsonl = staticmethod(read_jsonl)
    floats = staticmethod(floats)
    Room = Room
    room = staticmethod(room)
    NAMES = {"reading": "co2", "private": "people", "time": "time", "period": 60}  # noqa: RUF012  # never changed


@pytest.fixture(scope="session")
def tools():
    """Readers and writers of small files, by the standard library."""
    return Tools
