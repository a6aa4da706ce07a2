"""The entries of a configuration with their designs: what the rooms of each share.

An entry is one room, or many under a wildcard. Entries of one fleet share its terms, for good.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy._types import Value
from understudy.apply.binding import family_of, forms_of
from understudy.errors import ConfigurationError, UnderstudyError
from understudy.gateway.config import Located, Place, Rooms
from understudy.gateway.formats import UNITS
from understudy.gateway.link import Subscription
from understudy.gateway.messages import Reader, Writer, private_value, reader_of
from understudy.gateway.plant import Output, Terms
from understudy.gateway.terms import UNKNOWN, Preparation, terms_of
from understudy.gateway.window import PrivateValues, Timetable
from understudy.randomizer.design import load_design
from understudy.stream.cadence import Cadence
from understudy.stream.ledger_file import check_name
from understudy.stream.randomness import MasterKey


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of `rooms` with its design: what all its rooms share."""

    name: str
    config: Rooms
    terms: Terms
    preparation: Preparation
    cadence: Cadence
    readers: tuple[Reader, ...]
    theta: Reader
    writer: Writer

    @property
    def fleet(self) -> str:
        """The name of the fleet in the ledger."""
        return self.terms.name

    def write(self, output: Output) -> bytes:
        """The message of an output."""
        if self.preparation.changes:
            Y = self.preparation.outputs(np.array([output.values]), np.array([output.key]))
            output = output._replace(values=tuple(Y[0].tolist()))
        return self.writer(output)

    def private_value(self, said: Any) -> Value | None:
        """The private value of the design that a message stands for; None if it stands for none."""
        value = self.preparation.theta(private_value(self.config.theta, said))
        return None if value is UNKNOWN else value

    def values(self) -> PrivateValues | Timetable:
        """Where the private values of a room are looked up."""
        theta = self.config.theta
        if theta.schedule is not None:
            return Timetable(theta.schedule, self.preparation.theta)
        return PrivateValues(round((theta.valid_for or 0.0) * UNITS["s"]))

    def room(self, topic: str, pattern: str) -> str:
        """The room that a topic names under the + of its pattern, or that of the entry."""
        parts = pattern.split("/")
        return topic.split("/")[parts.index("+")] if "+" in parts else self.name

    def subscriptions(self) -> list[Subscription]:
        """Topics of readings, without retained ones, and of private values."""
        place: Place = ("rooms", self.name)
        found = [Subscription(s.topic, False, (*place, "sensors", i)) for i, s in enumerate(self.config.sensors)]
        theta = self.config.theta
        return found + ([] if theta.topic is None else [Subscription(theta.topic, True, (*place, "theta", "topic"))])


def entries_of(located: Located) -> list[Entry]:
    """The entries of a configuration, with their designs; refuses what does not fit together."""
    found: list[Entry] = []
    for name, rooms in located.config.rooms.items():
        entry = _entry(located, name, rooms)
        for other in found:
            if other.fleet == entry.fleet and _shared(other) != _shared(entry):
                raise located.error(
                    ("rooms", name),
                    f"its rooms are in the fleet {entry.fleet!r} with those of {other.name!r}, and must have its "
                    "design, period, tolerance, epoch and budget; or name another fleet, for good",
                )
            if other.fleet == entry.fleet and other.config.release != rooms.release:
                raise located.error(("rooms", name, "release"), f"it must be that of {other.name!r}, of the same fleet")
        found.append(entry)
    return found


def master_key(located: Located) -> MasterKey:
    """The master key that a configuration names."""
    named = located.config.key
    try:
        return MasterKey.read(named if ":" in named else located.file(named))
    except ConfigurationError as error:
        raise located.error(("key",), str(error)) from None


def _shared(entry: Entry) -> tuple[Any, ...]:
    terms = entry.terms
    return (terms.design.fingerprint, *(getattr(terms, name) for name in terms.__slots__ if name != "design"))


def _entry(located: Located, name: str, rooms: Rooms) -> Entry:
    place: Place = ("rooms", name)
    try:
        check_name("name", name)
        design = load_design(located.file(rooms.design))
        dim = family_of(design).dim
    except (UnderstudyError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise located.error((*place, "design"), f"{rooms.design}: {why}") from None
    if len(rooms.sensors) != dim:
        rule = f"the design is of {dim} channel{'s' * (dim != 1)}; it needs as many sensors, in this order"
        raise located.error((*place, "sensors"), rule)
    about = family_of(design).about or {}
    known = list(about.get("readings") or (["value"] if dim == 1 else [f"channel {i}" for i in range(dim)]))
    names = tuple(sensor.name or known[i] for i, sensor in enumerate(rooms.sensors))
    if len(set(names) | {"time", "sequence", "disguised", "design"}) < dim + 4:
        raise located.error((*place, "sensors"), "names of channels must differ, and not be those of the mark")
    if located.config.output.payload == "number" and dim > 1:
        raise located.error(("out", "payload"), f"an output of {name} is of {dim} channels; it needs json")
    budget = rooms.budget
    try:
        terms = terms_of(
            design,
            rooms.fleet or located.file(rooms.design).stem,
            readings=names,
            period=rooms.period,
            epoch=None if rooms.epoch is None else dt.timedelta(seconds=rooms.epoch),
            accept_misfit=rooms.accept_misfit,
            tolerance=rooms.tolerance,
            total=budget.total,
            amount=budget.amount,
            per=None if budget.per is None else dt.timedelta(seconds=budget.per),
            when_spent=budget.when_spent,
        )
        cadence = Cadence.checked(terms.period or 0, terms.tolerance, 0)
        preparation = Preparation(design, names)
    except UnderstudyError as error:
        key = next((key for key in ("period", "tolerance", "epoch") if str(error).startswith(key)), None)
        key = "accept_misfit" if "accept_misfit" in str(error) else key
        raise located.error(place if key is None else (*place, key), str(error)) from None
    writer = Writer(
        located.config.output.topic,
        located.config.output.payload == "json",
        names,
        forms_of(design),
        cadence.period,
        design.fingerprint,
    )
    entry = Entry(
        name,
        rooms,
        terms,
        preparation,
        cadence,
        tuple(reader_of(sensor) for sensor in rooms.sensors),
        reader_of(rooms.theta, number=False),
        writer,
    )
    _check_values(located, entry)
    return entry


def _check_values(located: Located, entry: Entry) -> None:
    """Refuse private values in the configuration that the design does not have."""
    theta, place = entry.config.theta, ("rooms", entry.name, "theta")
    given: list[tuple[Place, Value]] = []
    if theta.values is not None:
        given += [((*place, "values", key), value) for key, value in theta.values.items()]
    if theta.schedule is not None:
        given.append(((*place, "schedule", "otherwise"), theta.schedule.otherwise))
        given += [((*place, "schedule", "week", i, "value"), s.value) for i, s in enumerate(theta.schedule.week)]
    for where, value in given:
        if entry.preparation.theta(value) in (None, UNKNOWN):
            raise located.error(where, f"{value!r} is none of the design's private values")
