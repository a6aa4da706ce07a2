"""What a gateway would do, in plain words: the configuration is read, its designs are loaded, both brokers are asked.

Nothing is published and nothing is recorded. The brokers see another client id than that of the service, and keep no
session; so a gateway that is running is not disturbed.
"""

from __future__ import annotations

import datetime as dt
import os
import select
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from understudy._types import Plain
from understudy.gateway.config import Located, read_config
from understudy.gateway.entries import Entry, entries_of, master_key
from understudy.gateway.link import Link, Subscription
from understudy.randomizer.causal import CausalDesign
from understudy.stream import inspection
from understudy.stream.randomness import MasterKey
from understudy.text import bits_and_nats

_PATIENCE = 10.0  # seconds for both brokers
_ATTEMPTS = 2  # to connect


class Checked(NamedTuple):
    """What was found, for people and for programs."""

    sentences: list[str]
    facts: dict[str, Any]


def check(path: str, offline: bool = False) -> Checked:
    """Check a configuration; an error names the line and the key."""
    located = read_config(path)
    entries = entries_of(located)
    config = located.config
    key = master_key(located)
    sentences = list(_ledger_words(located, entries, key))
    rooms: dict[str, Plain] = {}
    for entry in entries:
        sentences += _entry_words(located, entry)
        rooms[entry.name] = {
            "fleet": entry.fleet,
            "design": entry.terms.design.fingerprint,
            "topics": list(entry.config.topics),
            "period_seconds": entry.cadence.period / 1e9,
        }
    facts: dict[str, Any] = {"config": located.path.name, "rooms": rooms, "brokers": {}}
    if offline:
        sentences.append("The brokers were not asked.")
    else:
        _ask_brokers(located, entries)
        sentences.append(f"{config.input.server} and {config.output.server} let the gateway in, and it may subscribe.")
        facts["brokers"] = {"in": True, "out": True}
    sentences.append("Nothing was published or recorded.")
    return Checked(sentences, facts)


def _ledger_words(located: Located, entries: list[Entry], key: MasterKey) -> Iterator[str]:
    path = located.file(located.config.ledger)
    if not path.exists():
        yield f"The ledger {path.name} will be made; draws follow from the master key {key.id}."
        return
    if os.stat(path).st_mode & 0o077:
        raise located.error(("ledger",), "it can be read by others; it holds secrets: chmod 600 it first")
    known = {fleet["name"]: fleet for fleet in inspection.summary(path).get("fleets", [])}
    for entry in entries:
        fleet = known.get(entry.fleet)
        if fleet is None:
            continue
        if fleet["design"] != entry.terms.design.fingerprint:
            rule = f"the fleet {entry.fleet!r} of the ledger belongs to another design"
            raise located.error(("rooms", entry.name, "design"), rule)
        if fleet["key"] != key.id:
            raise located.error(("key",), f"the fleet {entry.fleet!r} was begun under the master key {fleet['key']}")
        yield f"The ledger {path.name} has the fleet {entry.fleet!r}: {fleet['rooms']} rooms, {fleet['draws']} draws."


def _entry_words(located: Located, entry: Entry) -> Iterator[str]:
    rooms, terms = entry.config, entry.terms
    who = f"{entry.name}:"
    if rooms.many:
        limit = f"the rooms {', '.join(rooms.names)}" if rooms.names else f"up to {rooms.admit} rooms, as they appear"
        who = f"{entry.name}, {limit}:"
    yield f"{who} readings from {', '.join(rooms.topics)}, one every {entry.cadence.period / 1e9:g} s."
    again = "once" if terms.epoch is None else f"every {_words(terms.epoch)}"
    if isinstance(terms.design, CausalDesign):
        yield f"  Each room decides anew {again}."
    else:
        yield f"  Each room draws {again}; a draw gives away {bits_and_nats(terms.design.leakage)} at most."
    if terms.total is not None:
        lasts = ""
        if (
            isinstance(terms.epoch, dt.timedelta)
            and not isinstance(terms.design, CausalDesign)
            and terms.design.leakage
        ):
            epochs = int(terms.total / terms.design.leakage + 1e-9)
            lasts = f", enough for {epochs} draws or {_words(epochs * terms.epoch)}"
        yield f"  Its budget is {bits_and_nats(terms.total)}{lasts}; then it {_spent(terms.when_spent)}."
    if terms.amount is not None:
        then = _spent(terms.when_spent)
        yield f"  In each {_words(terms.per)} it may give away {bits_and_nats(terms.amount)}; then it {then}."
    theta = rooms.theta
    if theta.topic is not None:
        yield (
            f"  The private value comes from {theta.topic}, and holds for {theta.valid_for:g} s. A reading waits "
            f"{rooms.lateness:g} s for that of its time, and is missing without one."
        )
    else:
        yield "  The private value comes from the schedule."
    where = located.config.output.topic.replace("{room}", "<room>" if rooms.many else entry.name)
    yield f"  Disguised readings go to {where}, {'retained' if located.config.output.retain else 'not retained'}."
    if rooms.accept_misfit:
        yield "  The models did not pass their gate, which was accepted: the theorem does not hold for them."


def _words(span: object) -> str:
    """A length of time; or a number of readings.

    >>> _words(dt.timedelta(days=1)), _words(dt.timedelta(minutes=90)), _words(96)
    ('1 d', '1 h 30 min', '96 readings')
    """
    if not isinstance(span, dt.timedelta):
        return f"{span} readings"
    left, parts = round(span.total_seconds()), []
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        parts += [f"{count} {unit}"] if count else []
    return " ".join(parts[:2]) or "0 s"


def _spent(when: str) -> str:
    return "gives nothing more" if when == "stop" else "keeps its last draw"


def _ask_brokers(located: Located, entries: list[Entry]) -> None:
    """Connect and subscribe under other client ids, and leave."""
    config = located.config
    probe = config.model_copy(
        update={
            "input": config.input.model_copy(
                update={"client_id": f"{config.input.client_id}-check", "session_expiry": 0.0, "group": 1}
            ),
            "output": config.output.model_copy(update={"client_id": f"{config.output.client_id}-check"}),
        }
    )
    asked = located.with_config(probe)
    topics = {s.topic: Subscription(s.topic, False, s.place) for entry in entries for s in entry.subscriptions()}
    links = {
        "in": Link(asked, "in", subscriptions=list(topics.values()), probe=True),
        "out": Link(asked, "out", probe=True),
    }
    deadline = time.monotonic() + _PATIENCE
    try:
        while not all(link.up for link in links.values()):
            now = time.monotonic()
            poll = select.poll()
            by_number = {}
            for link in links.values():
                link.tick(now)
                if link.wants_write:
                    link.write()
                if link.socket is not None:
                    poll.register(link.socket, select.POLLIN)
                    by_number[link.socket.fileno()] = link
            for number, _ in poll.poll(100):
                by_number[number].read()
            for side, link in links.items():
                if link.refusal is not None:
                    raise link.refusal
                if not link.up and (now > deadline or link.unanswered > 1 or link.attempts > _ATTEMPTS):
                    raise located.error((side, "server"), _silence(link))
    finally:
        for link in links.values():
            link.close()


def _silence(link: Link) -> str:
    if link.unanswered:
        return "what is there closes the connection: it is no broker of MQTT, or wants TLS"
    return "nothing answers there"
