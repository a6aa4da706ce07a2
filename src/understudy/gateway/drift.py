"""Drift: whether the scores of a room have come to depend on its private value, tested while it runs.

Under a right model the scores of readings are independent standard normals whatever the private value is. Rooms change:
a door is opened for the summer, a sensor ages, and the model is right no more. A misfit that is the same for all
private values costs no privacy; one that tells them apart leaks, at any budget (see `understudy.identify.gate`).

So the test is against *any* normal law that all private values share. For each room it compares two likelihoods of the
scores so far: each score under the mean and the spread of the earlier scores of its own private value; and all scores
under the one mean and the one spread that fit them best. The first divided by the second is an e-value at every moment
(Wasserman, Ramdas and Balakrishnan, "Universal inference", PNAS 117(29), 2020): with a right model the probability
that it *ever* reaches 1/alpha is at most alpha. So the test may look after each reading, for months.

Scores that depend on each other, as those of a misfit that all values share may, can make it trip too early, never too
late. What it does not see are differences beyond mean and spread.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from understudy._paths import write_whole
from understudy._types import Array, Ints
from understudy.apply.binding import FileDesign, family_of
from understudy.errors import ConfigurationError, UnderstudyError
from understudy.models.gauss_markov import GaussMarkov, gauss_markov
from understudy.models.model import Model
from understudy.stream.engine import as_policy
from understudy.transform.kalman_pair import RoomPairs, RoomReadings, RoomState

ALARM = 1e-6
"""The probability that the test of a room ever trips with a right model."""
_LIMIT = math.log(1 / ALARM)
_START = 10  # readings at the start of a room, which begins where no process begins
_LONGEST = 1000  # empty slots that are passed one by one; after more a room starts again
_LEAST = 1e-12
_2PI = math.log(2 * math.pi)

# Scores ---------------------------------------------------------------------------------------------


class Scores:
    """The scores of readings of many rooms, each room along its own filter: no output depends on them.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 2.0)), values=[0, 1])
    >>> scores = Scores(us.design(family, leakage=0.1, distortion="mae"))
    >>> scores.of(np.array([0, 1]), np.array([[1.0], [1.0]]), np.array([0, 1]), np.array([1, 1])).round(3).tolist()
    [[0.707], [0.0]]
    """

    def __init__(self, design: FileDesign) -> None:
        policy = as_policy(design)[0]
        self.models: list[Model] = [policy.source(i) for i in range(len(policy.values))]
        self.dim = family_of(design).dim
        # outputs under a standard normal law are the scores themselves
        white = GaussMarkov(
            np.zeros((self.dim, self.dim)),
            np.eye(self.dim),
            0.5 * np.eye(self.dim),
            0.5 * np.eye(self.dim),
            cov0=np.zeros((self.dim, self.dim)),
        )
        self._pairs = RoomPairs.of([gauss_markov(model) for model in self.models], [gauss_markov(white)])
        self._state = self._blank(0)
        self._slots = np.zeros(0, dtype=np.int64)
        self._alone: dict[int, tuple[int, object]] = {}
        self._rng = np.random.default_rng()

    def _blank(self, count: int) -> RoomState:
        rows = 0 if self._pairs is None else self._pairs.rows
        ints = [np.zeros(count, dtype=np.int64) for _ in range(6)]
        return RoomState(ints[0], np.zeros((rows, count)), *ints[1:])

    def _grow(self, count: int) -> None:
        have = len(self._slots)
        if count > have:
            more = self._blank(max(count, 2 * have) - have)
            old = self._state
            joined = {name: (getattr(old, name), getattr(more, name)) for name in RoomState._fields}
            self._state = RoomState(**{name: np.concatenate(pair, axis=-1) for name, pair in joined.items()})
            self._slots = np.concatenate((self._slots, np.zeros(len(more.place), dtype=np.int64)))

    def of(self, room: Ints, Y: Array, source: Ints, slot: Ints) -> Array:
        """Scores (R, d) of readings (R, d), those of a room in a row and in their order; NaN where there are none."""
        if not len(room):
            return np.empty((0, self.dim))
        self._grow(int(room.max()) + 1)
        first = np.ones(len(room), dtype=bool)
        first[1:] = room[1:] != room[:-1]
        before = np.where(first, self._slots[room], np.concatenate(([0], slot[:-1])))
        new = first & (self._state.readings[room] == 0)
        steps = np.where(new, 1, np.minimum(np.maximum(slot - before, 1), _LONGEST))
        self._slots[room] = slot  # of several the last one stays
        if self._pairs is None:
            return self._one_by_one(room, Y, source, steps)
        given = RoomReadings(Y, room, steps, source, np.zeros_like(room), new.astype(np.int64))
        z, why = self._pairs.run(given, self._state)
        z[why != 0] = np.nan
        return z

    def _one_by_one(self, room: Ints, Y: Array, source: Ints, steps: Ints) -> Array:
        """The same for models of any kind, reading by reading; after a change of the value a filter starts again."""
        z = np.full(Y.shape, np.nan)
        for i, (k, y, who, many) in enumerate(zip(room.tolist(), Y, source.tolist(), steps.tolist(), strict=True)):
            model = self.models[who]
            known = self._alone.get(k)
            self._state.readings[k] += 1
            try:
                state = known[1] if known is not None and known[0] == who else model.start()
                for _ in range(many - 1):
                    state = model.skip(state)
                given = y if self.dim > 1 else float(y[0])
                z[i] = model.predict(state).score(given, self._rng.random(self.dim))
                self._alone[k] = who, model.update(state, given)
            except (UnderstudyError, ValueError, ArithmeticError):
                self._alone.pop(k, None)
        return z


# The test -------------------------------------------------------------------------------------------


class RoomTest:
    """The e-value of a room: its logarithm, and the sums that it follows from.

    >>> rng = np.random.default_rng(1)
    >>> same, apart = RoomTest(2, 1), RoomTest(2, 1)
    >>> for k in range(2000):
    ...     z = rng.normal(0.3, 1.2)
    ...     same.add(k % 2, [z])
    ...     apart.add(k % 2, [z + 0.5 * (k % 2)])
    >>> same.tripped, apart.tripped
    (False, True)
    """

    __slots__ = ("_all", "_each", "_own", "count", "log_e")

    def __init__(self, values: int, channels: int) -> None:
        self.count, self.log_e = 0, 0.0
        self._own = 0.0  # log likelihood of each score under the earlier ones of its value
        self._each = [[(0, 0.0, 0.0)] * channels for _ in range(values)]
        self._all = [(0, 0.0, 0.0)] * channels

    def __repr__(self) -> str:
        return f"RoomTest({self.count} scores)"

    def add(self, value: int, z: Sequence[float]) -> None:
        """The scores of a reading under a private value, by position."""
        self.count += 1
        if self.count <= _START or any(not math.isfinite(each) for each in z):
            return
        shared = 0.0
        for channel, each in enumerate(z):
            n, total, squares = self._each[value][channel]
            # one reading of a standard normal is added to those before, so that there always is a spread
            mean = total / (n + 1)
            spread = (1.0 + squares - total * mean) / (n + 1)
            self._own -= 0.5 * (_2PI + math.log(spread) + (each - mean) ** 2 / spread)
            self._each[value][channel] = n + 1, total + each, squares + each * each
            n, total, squares = self._all[channel]
            n, total, squares = self._all[channel] = n + 1, total + each, squares + each * each
            best = max(squares / n - (total / n) ** 2, _LEAST)
            shared -= 0.5 * n * (_2PI + math.log(best) + 1.0)
        self.log_e = self._own - shared

    @property
    def tripped(self) -> bool:
        """Whether the scores tell the private value."""
        return self.log_e >= _LIMIT

    @property
    def settled(self) -> bool:
        """Whether so little is left of a trip that a room on hold may go on."""
        return self.log_e < 0.5 * _LIMIT


class Drift:
    """The tests of the rooms of an entry.

    Parameters
    ----------
    design : Design or CausalDesign
        What the rooms share.
    policy : {"stop", "hold", "pass"}
        What becomes of a room whose test has tripped: nothing leaves until a person says so; nothing leaves until the
        scores have come together again; or it is counted alone.

    """

    def __init__(self, design: FileDesign, policy: str) -> None:
        self.policy, self._scores = policy, Scores(design)
        self.tests: dict[str, RoomTest] = {}
        self._numbers: dict[str, int] = {}
        self.tripped: set[str] = set()
        """Rooms whose test has tripped, and that have not come together again."""

    def __repr__(self) -> str:
        return f"Drift({self.policy!r}, {len(self.tests)} rooms)"

    def judge(self, rooms: Sequence[str], Y: Array, source: Ints, slot: Ints) -> list[str]:
        """Score readings, those of a room in their order; returns rooms whose test trips now for the first time."""
        for room in rooms:
            if room not in self._numbers:
                self._numbers[room] = len(self._numbers)
                self.tests[room] = RoomTest(len(self._scores.models), self._scores.dim)
        numbers = np.array([self._numbers[room] for room in rooms], dtype=np.int64)
        order = np.argsort(numbers, kind="stable")
        z: Array = np.empty(Y.shape)
        z[order] = self._scores.of(numbers[order], np.ascontiguousarray(Y[order]), source[order], slot[order])
        new = []
        for i, room in enumerate(rooms):
            test = self.tests[room]
            test.add(int(source[i]), z[i].tolist())
            if test.tripped and room not in self.tripped:
                self.tripped.add(room)
                new.append(room)
            elif self.policy != "stop" and room in self.tripped and test.settled:
                self.tripped.discard(room)
        return new

    def withholds(self, room: str) -> bool:
        """Whether nothing of a room leaves."""
        return self.policy != "pass" and room in self.tripped


# Rooms that have stopped, on disk -------------------------------------------------------------------


def read_stopped(path: Path) -> dict[str, list[str]]:
    """The rooms that have stopped, by fleet; none if there is no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(fleet): [str(room) for room in rooms] for fleet, rooms in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError):
        raise ConfigurationError(f"{path.name} cannot be read: it lists the rooms that have stopped, as JSON") from None


def write_stopped(path: Path, stopped: Mapping[str, Sequence[str]]) -> None:
    """Write which rooms have stopped, whole or not at all: whoever takes one out of the file lets it go on."""
    write_whole(str(path), json.dumps({fleet: sorted(rooms) for fleet, rooms in stopped.items()}, indent=1) + "\n")
