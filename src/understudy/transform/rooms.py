"""Filters of many rooms side by side, in columns: each room between two values of its own, to the bits of one by one.

A stream has a filter, a chain of links with a state each. A fleet has a table: column r of the array (F, N) holds the
states of all links of room r. One reading of each of R rooms then goes through the links together. A link of many rooms
is a `Link`: it stands for the links of all values, and takes from each room which value it is at.

==================  ==================================================================================================
link                entries of a column
==================  ==================================================================================================
`PairLink`          place in the gain tables, both means, both covariances (recursions, and rounded processes going out)
`EachLink`          the number of readings, where scores need uniforms; otherwise nothing
`ShareLink`         the number of readings
`GridLink`          the number of readings on the way in, and a column of `understudy.transform.on_grid.Rows`
`HiddenLink`        the number of readings where laws have atoms, and the probabilities of the hidden states
`CellLink`          two numbers of readings, mean and covariance (rounded processes coming in, by matched moments)
`AdaptiveLink`      the number of readings on a grid, and all that the models have learned (some hundred numbers)
==================  ==================================================================================================

`RoomFilters.of` joins them as `transformation` and `restarting_map` join the links of a stream; it is None for models
that have no such form. What a link cannot do for a room (a reading that is refused, or too far out for its loop) it
leaves undone, and says so: the room stays where it was, and runs by its own filter, which knows what to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from understudy._types import Array, Ints, Mask
from understudy.errors import UnderstudyError
from understudy.models.model import restart
from understudy.models.quantised_residual import CellState, freeze
from understudy.transform.adaptive import AdaptiveGridScore, AdaptiveScore, members_of
from understudy.transform.core import Chain, FreshShare, NothingMissing, ScoreEach, ValueEach, clip_scores
from understudy.transform.gaps import RestartingMap
from understudy.transform.hidden_markov import HiddenAtoms, HiddenScores, HiddenValues
from understudy.transform.kalman_pair import Pair, RoomPairs, RoomReadings, RoomState, white
from understudy.transform.on_grid import GridEmit, GridScore, Rows
from understudy.transform.quantised import Colouring, Whitening
from understudy.transform.readings import CausalMap, State, Transformation

ALONE = -1
"""In place of the kernels' OK: the room must run by its own filter, and has not been touched."""
Random: TypeAlias = Callable[[str, Ints, Ints], Array]
"""Keyed uniforms (R, d) of one domain, by rooms and numbers of readings."""
_FEW_ROOMS = 4  # which have so many readings in a call that they are quicker by themselves
_FEW_SLOTS = 64  # that stayed empty: up to then all rooms walk through them side by side


class Step(NamedTuple):
    """One reading, or score, of each of R rooms."""

    given: Array
    """(R, d), NaN in all channels where it is missing."""
    value: Ints
    """(R,) by position."""
    former: Ints
    """(R,) the value of the step before."""
    change: Ints
    """(R,) 1 where the state is handed over to another filter."""
    random: Callable[[str], Array]
    """Uniforms (R, d) of a domain."""

    def groups(self) -> Iterator[tuple[int, Ints]]:
        """Values, and the rooms that are at each."""
        first = int(self.value[0])
        if (self.value == first).all():
            yield first, np.arange(len(self.value))
            return
        for value in np.unique(self.value).tolist():
            yield value, np.flatnonzero(self.value == value)


Made: TypeAlias = tuple[Array, Array, Mask]
"""States (F, R) after a step, what came out (R, d), and which rooms must run by themselves."""


class Link:
    """The links of all values, for many rooms; `starts` (F, values) are their states before the first reading."""

    counts = False
    """Whether the first entry of a column is the number of readings."""

    def __init__(self, links: Sequence[Any]) -> None:
        self.links = links
        self.starts = np.array([self.column(link.start()) for link in links], dtype=float).reshape(len(links), -1).T
        self.size = len(self.starts)

    def column(self, state: State) -> list[float]:
        """A state as a column."""
        return []

    def state(self, column: list[float]) -> State:
        """A column as a state."""
        return ()

    def run(self, S: Array, step: Step) -> Made:
        """One step."""
        raise NotImplementedError  # each subclass has its own

    def feed(self, S: Array, step: Step) -> Made:
        """One step of which no score is wanted: on a past that is not theirs there may be none."""
        return self.run(S, step)

    def anew(self, S: Array, value: Ints) -> Array:
        """After a missing reading, at the beginning again; numbers of readings go on."""
        after = self.starts[:, value]
        if self.counts:
            after[0] = S[0] + 1.0
        return after


def _attempt(work: Callable[[Ints], Array | None], rows: Ints, out: Array, bad: Mask) -> None:
    """Outputs of some rows; where they are refused together, those of either half."""
    try:
        found = work(rows)
    except (UnderstudyError, ArithmeticError, ValueError):
        found = None
    if found is not None:
        out[rows] = found
    elif len(rows) == 1:
        bad[rows] = True
    else:
        for half in np.array_split(rows, 2):
            _attempt(work, half, out, bad)


class ChainLink(Link):
    """One link after the other."""

    def __init__(self, links: Sequence[Chain], parts: list[Link]) -> None:
        self.parts = parts
        self._ends = np.cumsum([part.size for part in parts]).tolist()
        super().__init__(links)

    def _split(self, S: Any) -> Iterator[tuple[Link, Any]]:
        for part, end in zip(self.parts, self._ends, strict=True):
            yield part, S[end - part.size : end]

    def column(self, state: State) -> list[float]:
        """Those of all parts."""
        return [number for part, inner in zip(self.parts, state, strict=True) for number in part.column(inner)]

    def state(self, column: list[float]) -> State:
        """Those of all parts."""
        return tuple(part.state(inner) for part, inner in self._split(column))

    def run(self, S: Array, step: Step) -> Made:
        """Through all parts."""
        return self._through(S, step, lambda part: part.run)

    def feed(self, S: Array, step: Step) -> Made:
        """Through all parts."""
        return self._through(S, step, lambda part: part.feed)

    def _through(self, S: Array, step: Step, how: Callable[[Link], Callable[[Array, Step], Made]]) -> Made:
        after, out, bad = [], step.given, np.zeros(len(step.given), dtype=bool)
        for part, inner in self._split(S):
            inner, out, lost = how(part)(inner, step._replace(given=out))
            after.append(inner)
            bad |= lost
        return np.concatenate(after), out, bad

    def anew(self, S: Array, value: Ints) -> Array:
        """Each part."""
        return np.concatenate([part.anew(inner, value) for part, inner in self._split(S)])


class CompleteLink(Link):
    """Nothing may be missing."""

    def run(self, S: Array, step: Step) -> Made:
        """As it came."""
        return S, step.given, np.asarray(np.isnan(step.given).any(axis=1))


class PairLink(Link):
    """Two Kalman filters of which one side is white, so that the other is what the room's value says."""

    def __init__(self, links: Sequence[Pair], pairs: RoomPairs, inwards: bool) -> None:
        self._pairs, self._inwards = pairs, inwards
        super().__init__(links)

    @classmethod
    def of(cls, links: Sequence[Pair]) -> PairLink | None:
        """Where each pair has a white side, the same for all, and gains that settle."""
        blank = white(links[0].dim)
        inwards = all(link.target.model is blank for link in links)
        if not inwards and not all(link.source.model is blank for link in links):
            return None
        models = [(link.source if inwards else link.target).model for link in links]
        pairs = RoomPairs.of(models, [blank]) if inwards else RoomPairs.of([blank], models)
        return None if pairs is None else cls(links, pairs, inwards)

    def column(self, state: State) -> list[float]:
        """The place, or -1 - place off the tables, and the numbers."""
        on = len(state) == 1 + self._pairs.n + self._pairs.m
        return [state[0] if on else -1 - state[0], *state[1:], *[0.0] * (1 + self._pairs.rows - len(state))]

    def state(self, column: list[float]) -> State:
        """The tuple of a `Pair`."""
        place, numbers = int(column[0]), column[1:]
        return (place, *numbers[: self._pairs.n + self._pairs.m]) if place >= 0 else (-1 - place, *numbers)

    def run(self, S: Array, step: Step) -> Made:
        """All rooms in one compiled loop."""
        R = len(step.given)
        none, one = np.zeros(R, dtype=np.int64), np.ones(R, dtype=np.int64)
        now, before = ((step.value, none), (step.former, none))
        if not self._inwards:
            now, before = now[::-1], before[::-1]
        readings = RoomReadings(step.given, np.arange(R), one, *now, step.change)
        filters = np.ascontiguousarray(S[1:])
        filters = filters.copy() if np.may_share_memory(filters, S) else filters
        state = RoomState(S[0].astype(np.int64), filters, before[0].copy(), before[1].copy(), one, none, none.copy())
        out, why = self._pairs.run(readings, state)
        return np.concatenate([state.place[None, :].astype(float), filters]), out, why != 0


class RoundedLink(PairLink):
    """A rounded process on its way out."""

    def __init__(self, links: Sequence[Colouring], inside: PairLink) -> None:
        self._roundings = links
        super().__init__([link.unrounded for link in links], inside._pairs, False)

    def run(self, S: Array, step: Step) -> Made:
        """The unrounded process, rounded when it leaves."""
        after, out, bad = super().run(S, step)
        for value, rows in step.groups():
            part = np.ascontiguousarray(out[rows])
            self._roundings[value].round_all(part)
            out[rows] = part
        return after, out, bad


class EachLink(Link):
    """One law for every reading."""

    def __init__(self, links: Sequence[ScoreEach | ValueEach]) -> None:
        self.counts = isinstance(links[0], ScoreEach) and links[0].uniforms is not None
        super().__init__(links)

    def column(self, state: State) -> list[float]:
        """The number of readings, if it counts."""
        return list(state)

    def state(self, column: list[float]) -> State:
        """The number of readings, if it counts."""
        return tuple(map(int, column))

    def run(self, S: Array, step: Step) -> Made:
        """All readings under one law together."""
        out, bad = np.empty(step.given.shape), np.zeros(len(step.given), dtype=bool)
        V = step.random("") if self.counts else None
        for value, rows in step.groups():

            def work(at: Ints, link: Any = self.links[value]) -> Array | None:
                found: Array = link.each(step.given[at], None if V is None else V[at])
                return found

            _attempt(work, rows, out, bad)
        return S + 1.0 if self.counts else S, out, bad

    def feed(self, S: Array, step: Step) -> Made:
        """The number alone."""
        return S + 1.0 if self.counts else S, step.given, np.zeros(len(step.given), dtype=bool)


class ShareLink(Link):
    """Scores mixed with fresh chance."""

    counts = True
    column, state = EachLink.column, EachLink.state

    def run(self, S: Array, step: Step) -> Made:
        """Z -> sqrt(1 - s^2) z + s w."""
        from scipy.special import ndtri

        v = step.random("fresh share")
        return S + 1.0, self.links[0].mixed(step.given, ndtri(v)), np.zeros(len(v), dtype=bool)


class GridLink(Link):
    """A process that lives on a grid, coming in or going out."""

    def __init__(self, links: Sequence[GridScore | GridEmit], rows: list[Rows]) -> None:
        self._rows, self.counts = rows, isinstance(links[0], GridScore)
        super().__init__(links)

    def column(self, state: State) -> list[float]:
        """The number of readings on the way in, and the state of the model."""
        head, inner = ([state[0]], state[1]) if self.counts else ([], state)
        return [*head, *self._rows[0].column(inner).tolist()]

    def state(self, column: list[float]) -> State:
        """The same again."""
        inner = self._rows[0].state(np.array(column[1:] if self.counts else column))
        return (int(column[0]), inner) if self.counts else inner

    def run(self, S: Array, step: Step) -> Made:
        """By the rows of the model."""
        out, bad = np.empty(step.given.shape), np.zeros(len(step.given), dtype=bool)
        V, after = step.random("") if self.counts else None, self._moved(S)
        for value, at in step.groups():
            rows, inner = self._rows[value], S[self.counts :]
            if not rows.skips:
                bad[at] = np.isnan(step.given[at]).any(axis=1)
                at = at[~bad[at]]
            if not len(at):
                continue

            def work(at: Ints, rows: Rows = rows, inner: Array = inner) -> Array | None:
                given, S = np.ascontiguousarray(step.given[at].T), np.ascontiguousarray(inner[:, at])
                made = rows.value(S, given) if V is None else rows.score(S, given, np.ascontiguousarray(V[at].T))
                return None if made is None else made.T

            _attempt(work, at, out, bad)
            at = at[~bad[at]]
            if len(at):
                read = step.given if self.counts else out  # what the model goes on from
                after[self.counts :, at] = rows.move(inner[:, at], np.ascontiguousarray(read[at].T))
        return after, out, bad

    def feed(self, S: Array, step: Step) -> Made:
        """On from the readings, if they are on the grid."""
        bad, after = np.zeros(len(step.given), dtype=bool), self._moved(S)
        for value, at in step.groups():
            rows = self._rows[value]

            def work(at: Ints, rows: Rows = rows) -> Array:
                for i, channel in enumerate(rows.grid.channels):
                    channel.cells(step.given[at, i], i)
                after[self.counts :, at] = rows.move(S[self.counts :, at], np.ascontiguousarray(step.given[at].T))
                return step.given[at]

            _attempt(work, at, np.empty(step.given.shape), bad)
        return after, step.given, bad

    def _moved(self, S: Array) -> Array:
        after = S.copy()
        after[: self.counts] += 1.0
        return after


class HiddenLink(Link):
    """A hidden Markov model, coming in or going out."""

    def __init__(self, links: Sequence[HiddenScores | HiddenValues | HiddenAtoms]) -> None:
        self.counts = isinstance(links[0], HiddenScores) and links[0].uniforms is not None
        super().__init__(links)

    def column(self, state: State) -> list[float]:
        """The number of readings where it counts, and probabilities."""
        return [state[0], *state[1]] if self.counts else list(state)

    def state(self, column: list[float]) -> State:
        """The same again."""
        return (int(column[0]), tuple(column[1:])) if self.counts else tuple(column)

    def run(self, S: Array, step: Step) -> Made:
        """By a compiled loop over rooms."""
        out, bad, after = np.empty(step.given.shape), np.zeros(len(step.given), dtype=bool), S.copy()
        V = step.random("") if self.counts else None
        after[: self.counts] += 1.0
        for value, at in step.groups():
            link, given = self.links[value], np.ascontiguousarray(step.given[at])
            P = np.ascontiguousarray(S[self.counts :, at].T)
            if isinstance(link, HiddenScores):
                out[at], bad[at] = link.rooms(P, given, None if V is None else V[at])
            else:
                out[at], bad[at] = link.rooms(P, given)
            after[self.counts :, at] = P.T
        return after, out, bad


class CellLink(Link):
    """A rounded process coming in, by matched moments."""

    counts = True

    def column(self, state: State) -> list[float]:
        """Both numbers of readings, mean and covariance."""
        k, known = state
        return [k, known[0], *np.ravel(known[1]).tolist(), *np.ravel(known[2]).tolist()]

    def state(self, column: list[float]) -> State:
        """The same again."""
        n = self.links[0].states
        mean, cov = np.array(column[2 : 2 + n]), np.array(column[2 + n :]).reshape(n, n)
        return int(column[0]), CellState(int(column[1]), freeze(mean), freeze(cov))

    def run(self, S: Array, step: Step) -> Made:
        """By a compiled loop over rooms."""
        out, bad, after, V = (
            np.empty(step.given.shape),
            np.zeros(len(step.given), dtype=bool),
            S.copy(),
            step.random(""),
        )
        after[:2] += 1.0
        n = self.links[0].states
        for value, at in step.groups():
            x, P = np.ascontiguousarray(S[2 : 2 + n, at].T), np.ascontiguousarray(S[2 + n :, at].T)
            given = np.ascontiguousarray(step.given[at])
            out[at], bad[at] = self.links[value].rooms(x, P, given, np.ascontiguousarray(V[at]))
            bad[at] |= ~(np.isfinite(x).all(axis=1) & np.isfinite(P).all(axis=1))
            after[2 : 2 + n, at], after[2 + n :, at] = x.T, P.T
        return after, out, bad


class AdaptiveLink(Link):
    """Adaptive models coming in: what they learn is learned for all values, so that any of them goes on from it."""

    def __init__(self, links: Sequence[AdaptiveScore | AdaptiveGridScore]) -> None:
        self.counts = isinstance(links[0], AdaptiveGridScore)
        super().__init__(links)

    def column(self, state: State) -> list[float]:
        """The number of readings where it counts, and the numbers of the state."""
        known: Any = state
        return [known[0], *known[1].tolist()] if self.counts else list(known.tolist())

    def state(self, column: list[float]) -> State:
        """The same again."""
        inner: Any = freeze(np.array(column[self.counts :]))
        return (int(column[0]), inner) if self.counts else inner

    def run(self, S: Array, step: Step) -> Made:
        """One compiled step for each room; their scores together."""
        out, after, bad = np.full(step.given.shape, np.nan), S.copy(), np.asarray(np.isnan(step.given).any(axis=1))
        V = step.random("")[:, 0] if self.counts else None
        after[: self.counts] += 1.0
        for value, at in step.groups():

            def work(at: Ints, link: Any = self.links[value]) -> Array:
                known = np.ascontiguousarray(S[self.counts :, at].T)
                z: Array = link.rooms(known, np.ascontiguousarray(step.given[at, 0]), None if V is None else V[at])
                after[self.counts :, at] = known.T
                return z[:, None]

            there = at[~bad[at]]
            if len(there):
                _attempt(work, there, out, bad)
        return after, out, bad | np.isnan(out[:, 0])

    def feed(self, S: Array, step: Step) -> Made:
        """What is learned alone."""
        bad, after = np.zeros(len(step.given), dtype=bool), S.copy()
        after[: self.counts] += 1.0
        for value, at in step.groups():
            model = self.links[value].model

            def work(at: Ints, model: Any = model) -> Array:
                for r in at.tolist():
                    known = freeze(S[self.counts :, r].copy())
                    after[self.counts :, r] = model.update(known, float(step.given[r, 0]))
                return step.given[at]

            _attempt(work, at, np.empty(step.given.shape), bad)
        return after, step.given, bad

    def anew(self, S: Array, value: Ints) -> Array:
        """All that was learned stays, but no reading to go on from."""
        after = S.copy()
        after[: self.counts] += 1.0
        for r, at in enumerate(value.tolist()):
            after[self.counts :, r] = restart(self.links[at].model, freeze(S[self.counts :, r].copy()))
        return after


def link_of(links: Sequence[CausalMap]) -> Link | None:
    """The links of all values as one; None where they have no such form."""
    one: Any = links[0]
    if any(type(link) is not type(one) for link in links):
        return None
    many: Any = links
    if isinstance(one, Chain):
        if len({len(link.maps) for link in many}) > 1:
            return None
        parts = [link_of([link.maps[i] for link in many]) for i in range(len(one.maps))]
        known = [part for part in parts if part is not None]
        return ChainLink(many, known) if len(known) == len(parts) else None
    if isinstance(one, NothingMissing):
        return CompleteLink(many)
    if isinstance(one, Pair):
        return PairLink.of(many)
    if isinstance(one, Colouring):
        inside = PairLink.of([link.unrounded for link in many])
        return None if inside is None else RoundedLink(many, inside)
    if isinstance(one, FreshShare):
        return ShareLink(many)
    try:
        if isinstance(one, (ScoreEach, ValueEach)):
            return EachLink(many) if all(link.is_elementwise for link in many) else None
        if isinstance(one, (GridScore, GridEmit)):
            rows = [link.rows for link in many if link.rows is not None]
            same = len(rows) == len(many) and len({(type(row), row.size) for row in rows}) == 1
            return GridLink(many, rows) if same else None
        if isinstance(one, (HiddenScores, HiddenValues, HiddenAtoms)):
            return HiddenLink(many)
        if isinstance(one, (AdaptiveScore, AdaptiveGridScore)):
            return AdaptiveLink(many) if members_of([link.model for link in many]) is not None else None
        if isinstance(one, Whitening) and all(link.has_rooms for link in many):
            return CellLink(many)
    except ValueError:  # states of different sizes
        return None
    return None


class RoomFilters:
    """Filters from every source to every target; a column holds the states of both, or of a `RestartingMap`."""

    def __init__(self, source: Link, target: Link, limit: float | None, refill: int | None) -> None:
        self.source, self.target, self._limit, self._refill = source, target, limit, refill
        self._head = 0 if refill is None else 3  # readings to withhold, outputs that are due, whether colouring began
        self.rows = self._head + source.size + target.size
        self.switches = True
        """Whether a room may go on under other values."""

    @classmethod
    def of(cls, sources: Sequence[Transformation], targets: Sequence[Transformation]) -> RoomFilters | None:
        """From the maps of all private values to one pseudo value, and those of one to all pseudo values."""
        maps = [*sources, *targets]
        kind = RestartingMap if isinstance(maps[0], RestartingMap) else Chain
        if not all(type(made) is kind for made in maps):
            return None
        if isinstance(sources[0], RestartingMap):
            ends = [[made.source for made in sources], [made.target for made in targets]]  # type: ignore[attr-defined]  # by kind
            refill = sources[0].refill
        else:
            ends = [[made.maps[0] for made in sources], [made.maps[1] for made in targets]]  # type: ignore[attr-defined]  # by kind
            refill = None
            if any(len(made.maps) != 2 for made in maps):  # type: ignore[attr-defined]  # by kind
                return None
        source, target = map(link_of, ends)
        if source is None or target is None:
            return None
        return cls(source, target, sources[0].limit, refill)  # type: ignore[attr-defined]  # by kind

    def column(self, state: State) -> list[float]:
        """A state as a column."""
        if self._refill is None:
            return [*self.source.column(state[0]), *self.target.column(state[1])]
        left, source, target, *due = state
        out = [0.0] * self.target.size if target is None else self.target.column(target)
        return [left, due[0] if due else left, target is not None, *self.source.column(source), *out]

    def state(self, column: list[float]) -> State:
        """A column as a state."""
        head, middle = self._head, self._head + self.source.size
        source = self.source.state(column[head:middle])
        if self._refill is None:
            return source, self.target.state(column[middle:])
        left, due, begun = map(int, column[:3])
        target = self.target.state(column[middle:]) if begun else None
        return (left, source, target) if left == due else (left, source, target, due)

    def run(
        self, readings: RoomReadings, state: RoomState, random: Random, coarse: Mask, most: int
    ) -> tuple[Array, Ints]:
        """Outputs (R, d), and for each reading 0, or `ALONE` where its room must run by itself; `state` goes on.

        `coarse` are readings on a coarse grid; a room that has `most` of them in a row runs by itself too.
        """
        room, many = readings.room, len(state.place)
        out, alone = np.full(readings.Y.shape, np.nan), np.zeros(many, dtype=bool)
        copies: list[Any] = [part.copy() for part in state]
        work = RoomState(*copies)
        first = np.ones(len(room), dtype=bool)
        np.not_equal(room[1:], room[:-1], out=first[1:])
        alone[room[readings.steps > _FEW_SLOTS + 1]] = True
        if first.all():
            ranks = [np.arange(len(room))]
        else:
            place = np.arange(len(room))
            rank = place - np.maximum.accumulate(np.where(first, place, 0))
            counts = np.sort(np.bincount(room, minlength=many))
            longest = int(counts[-min(_FEW_ROOMS, many)])
            alone[np.bincount(room, minlength=many) > longest] = True
            ranks = [np.flatnonzero(rank == n) for n in range(longest)]
        for rows in ranks:
            rows = rows[~alone[room[rows]]] if alone.any() else rows
            if not len(rows):
                continue
            empty = np.where(work.readings[room[rows]] > 0, readings.steps[rows] - 1, 0)
            for gone in range(int(empty.max())):
                at = room[rows[empty > gone]]
                at = at[~alone[at]]
                nothing = np.full((len(at), readings.Y.shape[1]), np.nan)
                if len(at):
                    self._step(work, at, nothing, (work.source[at], work.draw[at], 0), random, alone)
            rows = rows[~alone[room[rows]]] if alone.any() else rows
            at = room[rows]
            if len(rows):
                there = ~np.isnan(readings.Y[rows]).any(axis=1)
                work.watch[at] = np.where(there, np.where(coarse[rows], work.watch[at] + 1, 0), work.watch[at])
                alone[at[work.watch[at] >= most]] = True
                now = readings.source[rows], readings.draw[rows], readings.change[rows]
                out[rows] = self._step(work, at, readings.Y[rows], now, random, alone)
        whole: Any = ~alone if alone.any() else True
        for part, found in zip(state, work, strict=True):
            np.copyto(part, found, where=whole)
        return out, np.where(alone[room], ALONE, 0)

    def _step(
        self, work: RoomState, room: Ints, Y: Array, now: tuple[Ints, Ints, Any], random: Random, alone: Mask
    ) -> Array:
        """One reading of each of some rooms; those that must run by themselves are marked in `alone`."""
        source, draw, change = now
        new = work.readings[room] == 0
        former, formerly = (
            np.where(new, value, old[room]) for value, old in ((source, work.source), (draw, work.draw))
        )
        changed = ((source != former) | (draw != formerly) | (np.asarray(change) == 1)) & ~new
        bad = changed & (not self.switches)
        gone = np.asarray(np.isnan(Y).any(axis=1))
        if gone.any() and Y.shape[1] > 1:
            Y = np.where(gone[:, None], np.nan, Y)
        S, count = work.filters[:, room], work.readings[room]
        head, middle = self._head, self._head + self.source.size
        if new.any():
            S[head:middle, new], S[middle:, new] = self.source.starts[:, source[new]], self.target.starts[:, draw[new]]
            S[:head, new] = np.array([[self._refill], [self._refill], [0.0]]) if head else 0.0

        def step(given: Array, value: Ints, before: Ints, rows: Any = slice(None)) -> Step:
            cache: dict[str, Array] = {}

            def uniforms(domain: str) -> Array:
                if domain not in cache:
                    cache[domain] = random(domain, room[rows], count[rows])
                return cache[domain]

            return Step(given, value, before, changed[rows].astype(np.int64), uniforms)

        out = np.full(Y.shape, np.nan)
        if not head:
            S[:middle], z, lost = self.source.run(S[:middle], step(Y, source, former))
            z = np.asarray(clip_scores(z, self._limit))
            S[middle:], out, lost_too = self.target.run(S[middle:], step(z, draw, formerly))
            bad |= lost | lost_too
        else:
            left, due, begun = S[:3].copy()
            # outputs due after a reading out of range, or a change that a colouring must be told of although it waits
            bad |= (left != due) | (changed & (gone | (left > 0)))
            # readings that are missing, that fill a predictor, and that have an output
            fill, give = np.flatnonzero(~gone & (left > 0)), np.flatnonzero(~gone & (left == 0))
            inner, miss = S[head:middle].copy(), np.flatnonzero(gone)
            S[0] = np.where(gone, float(self._refill or 0), np.maximum(left - 1.0, 0.0))
            S[1] = S[0]
            if len(miss):
                S[head:middle, miss] = self.source.anew(inner[:, miss], source[miss])
            if len(fill):
                S[head:middle, fill], _, lost = self.source.feed(
                    inner[:, fill], step(Y[fill], source[fill], former[fill], fill)
                )
                bad[fill] |= lost
            if len(give):
                fresh = give[begun[give] == 0.0]
                S[middle:, fresh] = self.target.starts[:, draw[fresh]]
                S[head:middle, give], z, lost = self.source.run(
                    inner[:, give], step(Y[give], source[give], former[give], give)
                )
                z = np.asarray(clip_scores(z, self._limit))
                S[middle:, give], out[give], lost_too = self.target.run(
                    S[middle:, give], step(z, draw[give], formerly[give], give)
                )
                bad[give] |= lost | lost_too
                S[2, give] = 1.0
        there = ~np.isnan(out).any(axis=1)
        bad |= there != (~gone if not head else ~gone & (left == 0))
        alone[room[bad]] = True
        work.filters[:, room] = S
        work.source[room], work.draw[room] = source, draw
        work.readings[room] += 1
        work.released[room] += there
        return out
