"""The link to a broker: one connection after the other, for months.

A link makes a new client of MQTT for each connection, with a number: the *generation*. Message ids belong to a
connection, and an acknowledgement that comes after a reconnect would hit somebody else's message; so a `Receipt` names
its generation, and `Link.acknowledge` drops those of others. The broker sends their messages again.

Nothing here has a thread of its own. Whoever owns the link waits for its socket, calls `read` and `write`, and `tick`
once a second. A socket that is not read is the whole of the back-pressure.

What a broker refuses for good (a password, a certificate, a version of the protocol) is an error at the start. Later it
is tried again, after 1 second, 2, 4 and so on up to 60.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import stat
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from understudy.errors import ConfigurationError
from understudy.gateway.config import Broker, Located, Place

SLOWEST = 60.0
"""Seconds between attempts, at most."""
_PATIENCE = 10.0  # seconds for the answer to a connection
_BATCH = 256  # packets that are read before anything else has its turn
_REFUSED = {
    0x84: ("version", "the broker does not speak this version of MQTT"),
    0x85: ("client_id", "the broker does not accept this client id"),
    0x86: ("user", "the broker does not accept this user and password"),
    0x87: ("user", "the broker does not let this user in"),
    0x8C: ("user", "the broker wants another way of authentication"),
}


class Receipt(NamedTuple):
    """What acknowledges a message: the connection on which it came, and its number there."""

    generation: int
    mid: int


class Will(NamedTuple):
    """What a broker publishes, retained, when the link is lost; and what the link publishes while it is there."""

    topic: str
    present: bytes
    absent: bytes


class Subscription(NamedTuple):
    """A topic filter, whether retained messages are wanted, and the key of the configuration that it stands at."""

    topic: str
    retained: bool
    place: Place


class _Packed(Properties):
    """User properties that are bytes already: to build them anew for each message takes longer than all else."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        *constant, last = pairs
        body = _pairs_of_all(tuple(constant)) + _pair(*last)
        size = len(body)
        length = bytes((size,)) if size < 128 else bytes((size & 127 | 128, size >> 7))  # below 2 ** 14
        self.__dict__["packed"] = length + body

    def pack(self) -> bytes:
        """As it stands in a packet."""
        packed: bytes = self.__dict__["packed"]
        return packed

    def __str__(self) -> str:
        return "[user properties]"


def _pair(name: str, value: str) -> bytes:
    texts = name.encode(), value.encode()
    return b"\x26%b%b%b%b" % (len(texts[0]).to_bytes(2, "big"), texts[0], len(texts[1]).to_bytes(2, "big"), texts[1])


@lru_cache(256)
def _pairs_of_all(pairs: tuple[tuple[str, str], ...]) -> bytes:
    """Properties that all messages of a design share."""
    return b"".join(_pair(*pair) for pair in pairs)


class Link:
    """A link to a broker, as the configuration describes it under `section`.

    `on_message` gets topic, payload, whether it is retained, and the receipt, which is None for QoS 0. `on_confirm`
    gets the number of a message that the broker has taken, or has refused. A `probe` leaves no session behind.
    """

    def __init__(
        self,
        located: Located,
        section: str,
        *,
        subscriptions: Sequence[Subscription] = (),
        will: Will | None = None,
        on_message: Callable[[str, bytes, bool, Receipt | None], None] | None = None,
        on_confirm: Callable[[int, bool], None] | None = None,
        on_state: Callable[[bool], None] | None = None,
        probe: bool = False,
    ) -> None:
        self._located, self._section = located, section
        self._fresh = probe or section == "out"  # no session is to be kept
        self.broker: Broker = located.config.input if section == "in" else located.config.output
        self._password = _password(located, section, self.broker)
        self._subscriptions, self._will = list(subscriptions), will
        self._on_message, self._on_confirm, self._on_state = on_message, on_confirm, on_state
        self.generation = 0
        self.up = False
        """Whether the broker has let us in, and all subscriptions stand."""
        self.attempts = 0
        self.refusal: ConfigurationError | None = None
        """Why the broker does not let us in, for good."""
        self.window = located.config.output.window
        self._client: mqtt.Client | None = None
        self._due, self._since = 0.0, 0.0
        self._packets = 0
        self.unanswered = 0
        """Connections that the broker closed without an answer."""
        self._reached = self._answered = False
        self._context = _tls_context(located, section, self.broker)
        self._asked: dict[int, list[Subscription]] = {}

    def __repr__(self) -> str:
        return f"Link({self._section!r}, {'up' if self.up else 'down'})"

    # The connection ------------------------------------------------------------------------------------

    @property
    def socket(self) -> Any:
        """The socket of the connection; None without one."""
        return None if self._client is None else self._client.socket()

    @property
    def wants_write(self) -> bool:
        """Whether something waits to be written."""
        return self._client is not None and self._client.want_write()

    @property
    def buffered(self) -> bool:
        """Whether something was read from the socket, by TLS, that nobody has looked at."""
        pending = getattr(self.socket, "pending", None)
        return pending is not None and pending() > 0

    def tick(self, now: float) -> None:
        """Connect if it is time to, and keep the connection alive."""
        if self._client is None:
            if now >= self._due:
                self._connect(now)
            return
        self._client.loop_misc()
        if self._client.socket() is None or (not self.up and now - self._since > _PATIENCE):
            self._lose(now)

    def read(self) -> None:
        """What the socket has, up to a few hundred packets."""
        for _ in range(_BATCH):
            client, before = self._client, self._packets
            if client is None:
                return
            code = client.loop_read()
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
                self._lose(time.monotonic())
            if self._packets == before:
                return

    def write(self) -> None:
        """What waits to be written."""
        if self._client is not None and self._client.loop_write() != MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._lose(time.monotonic())

    def close(self) -> None:
        """Say goodbye; the broker keeps the session."""
        client, self._client = self._client, None
        self.up = False
        if client is not None and client.socket() is not None:
            with contextlib.suppress(OSError, ValueError):
                if self._will is not None:
                    client.publish(self._will.topic, self._will.absent, qos=0, retain=True)
                client.disconnect()
                deadline = time.monotonic() + 1.0
                while client.want_write() and time.monotonic() < deadline:
                    client.loop_write()

    def _connect(self, now: float) -> None:
        self.attempts += 1
        self.generation += 1
        self._since, self._reached, self._answered = now, False, False
        broker, config = self.broker, self._located.config
        try:
            client = self._new_client()
            properties = None
            if broker.newest:
                properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has none
                if self._section == "in":
                    properties.SessionExpiryInterval = min(int(config.input.session_expiry), 2**32 - 2)
                    properties.ReceiveMaximum = config.input.group
            self._client = client
            keepalive = max(1, min(int(broker.keepalive), 65_535))
            if broker.newest:
                client.connect(broker.host, broker.port, keepalive, clean_start=self._fresh, properties=properties)
            else:
                client.connect(broker.host, broker.port, keepalive)
            self._reached = True
        except ssl.SSLCertVerificationError:
            self._refuse("ca", "the broker's certificate is not signed by these, or is of another host")
        except ssl.SSLError:
            self._refuse("server", "there is no TLS as we speak it")
        except (OSError, ValueError):
            pass
        if self._client is None or self._client.socket() is None:
            self._lose(now)

    def _new_client(self) -> mqtt.Client:
        broker = self.broker
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            broker.client_id,
            clean_session=None if broker.newest else self._fresh,
            protocol=mqtt.MQTTv5 if broker.newest else mqtt.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = 3.0
        client.max_inflight_messages = 0  # the window is ours
        if broker.user is not None:
            client.username_pw_set(broker.user, self._password)
        if self._context is not None:
            client.tls_set_context(self._context)
        if self._will is not None:
            client.will_set(self._will.topic, self._will.absent, qos=1, retain=True)
        generation = self.generation
        client.on_connect = self._connected
        client.on_subscribe = self._subscribed
        client.on_publish = self._confirmed
        client.on_message = lambda _client, _data, message: self._came(generation, message)
        client.on_socket_register_write = lambda *_: None  # what is published waits for `write`
        return client

    def _lose(self, now: float) -> None:
        """The connection is gone: nothing of it is acknowledged any more, and another one is tried in a while."""
        client, self._client = self._client, None
        if client is not None:
            sock = client.socket()
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.close()
            if self._reached and not self._answered:
                self.unanswered += 1
        self._asked.clear()
        if self.up:
            self.attempts = 0
        self.up = False
        self._due = now + (min(SLOWEST, 2.0 ** min(self.attempts - 1, 6)) if self.attempts else 0.2)
        if self._on_state is not None:
            self._on_state(False)

    def _refuse(self, key: str, rule: str) -> None:
        self.refusal = self._located.error((self._section, key), rule)

    # What the client calls ------------------------------------------------------------------------------

    def _connected(self, client: mqtt.Client, data: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        self._packets += 1
        self._answered = True
        if reason.is_failure:
            key, rule = _REFUSED.get(reason.value, ("", ""))
            if key:
                self._refuse(key, rule)
            return
        most = getattr(properties, "ReceiveMaximum", None)
        self.window = min(self._located.config.output.window, most or 65_535)
        if not self._subscriptions:
            self._stands()
            return
        for subscription in self._subscriptions:
            if self.broker.newest:
                handling = 1 if subscription.retained else 2
                options = SubscribeOptions(qos=1, retainAsPublished=True, retainHandling=handling)
                _, mid = client.subscribe(subscription.topic, options=options)
            else:
                _, mid = client.subscribe(subscription.topic, qos=1)
            self._asked.setdefault(mid or 0, []).append(subscription)

    def _subscribed(self, client: mqtt.Client, data: Any, mid: int, reasons: list[ReasonCode], properties: Any) -> None:
        self._packets += 1
        asked = self._asked.pop(mid, [])
        for subscription, reason in zip(asked, reasons, strict=False):
            if reason.is_failure:
                rule = f"the broker does not let this user read {subscription.topic}"
                self.refusal = self._located.error(subscription.place, rule)
                return
        if not self._asked and self.refusal is None:
            self._stands()

    def _stands(self) -> None:
        self.up, self.attempts, self.refusal = True, 0, None
        if self._will is not None:
            self.announce(self._will.topic, self._will.present)
        if self._on_state is not None:
            self._on_state(True)

    def _came(self, generation: int, message: mqtt.MQTTMessage) -> None:
        self._packets += 1
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        receipt = Receipt(generation, message.mid) if message.qos else None
        if self._on_message is not None:
            self._on_message(topic, bytes(message.payload), bool(message.retain), receipt)

    def _confirmed(self, client: mqtt.Client, data: Any, mid: int, reason: ReasonCode, properties: Any) -> None:
        self._packets += 1
        if self._on_confirm is not None:
            self._on_confirm(mid, not reason.is_failure)

    # What leaves ----------------------------------------------------------------------------------------

    def acknowledge(self, receipts: Sequence[Receipt]) -> int:
        """Acknowledge messages of this connection; how many there were. Those of others come again."""
        client, count = self._client, 0
        if client is None:
            return 0
        for generation, mid in receipts:
            if generation == self.generation:
                client.ack(mid, 1)
                count += 1
        return count

    def publish(self, topic: bytes, payload: bytes, retain: bool, mark: Sequence[tuple[str, str]]) -> int | None:
        """Send a message with QoS 1; its number, under which it is confirmed, or None if there is no connection."""
        if self._client is None or not self.up:
            return None
        properties = _Packed(mark) if self.broker.newest else None
        info = self._client.publish(topic.decode(), payload, qos=1, retain=retain, properties=properties)
        return info.mid if info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS else None

    def announce(self, topic: str, payload: bytes) -> None:
        """Publish something that is retained and that nobody waits for."""
        if self._client is not None:
            self._client.publish(topic, payload, qos=0, retain=True)


def _tls_context(located: Located, section: str, broker: Broker) -> ssl.SSLContext | None:
    """Certificates, if the connection is encrypted."""
    if not broker.tls:
        return None
    try:
        ca = None if broker.ca is None else str(located.file(broker.ca))
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:  # ssl.SSLError is one
        raise located.error((section, "ca"), f"it cannot be read as certificates ({_why(error)})") from None
    if broker.cert is not None and broker.key is not None:
        try:
            context.load_cert_chain(located.file(broker.cert), located.file(broker.key))
        except OSError as error:
            raise located.error((section, "cert"), f"it and its key cannot be read ({_why(error)})") from None
    return context


def _why(error: OSError) -> str:
    return type(error).__name__ if isinstance(error, ssl.SSLError) else str(error.strerror)


def _password(located: Located, section: str, broker: Broker) -> str | None:
    """The password of a broker, from its file or from the environment."""
    if broker.password_file is None:
        return None if broker.password is None else broker.password.get_secret_value()
    path = located.file(broker.password_file)
    place = (section, "password_file")
    try:
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            raise located.error(place, "the file can be read by others: chmod 600 it first")
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise located.error(place, f"the file cannot be read: {why}") from None
