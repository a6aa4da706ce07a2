"""A plain relay between two brokers, with the client of the gateway: what a message costs by itself.

    python benchmarks/peers/mqtt_relay.py IN_PORT OUT_PORT

QoS 1 on both sides, in one thread: a message is acknowledged when the other broker has taken it, and not before.
Nothing is parsed, nothing is recorded. Prints `ready` when both connections stand, and ends with SIGTERM.
"""

from __future__ import annotations

import select
import signal
import sys
import time
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

WINDOW = 1000
BATCH = 256  # packets of one side before the other has its turn


class Relay:
    """Two connections, and which message of the one waits for which of the other."""

    def __init__(self, inner: int, outer: int) -> None:
        self.source = self._client("relay-in", inner, clean=False)
        self.target = self._client("relay-out", outer, clean=True)
        self.waiting: dict[int, int] = {}
        self.packets = self.standing = 0
        self.source.on_connect = lambda *_: self.source.subscribe("raw/+/co2", qos=1)
        self.source.on_subscribe = self.target.on_connect = self._stands
        self.source.on_message = self._came
        self.target.on_publish = self._confirmed

    def _client(self, name: str, port: int, clean: bool) -> mqtt.Client:
        client = mqtt.Client(CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5, manual_ack=True)
        client.max_inflight_messages = 0
        client.on_socket_register_write = lambda *_: None  # it is written when its turn comes
        properties = Properties(PacketTypes.CONNECT)
        properties.ReceiveMaximum, properties.SessionExpiryInterval = WINDOW, 3600
        client.connect("127.0.0.1", port, 30, clean_start=clean, properties=properties)
        return client

    def _stands(self, *_: Any) -> None:
        self.standing += 1
        if self.standing == 2:
            print("ready", flush=True)

    def _came(self, client: mqtt.Client, data: Any, message: mqtt.MQTTMessage) -> None:
        self.packets += 1
        topic = "disguised/" + message.topic.split("/", 1)[1]
        self.waiting[self.target.publish(topic, message.payload, qos=1).mid] = message.mid

    def _confirmed(self, client: mqtt.Client, data: Any, mid: int, *_: Any) -> None:
        self.packets += 1
        self.source.ack(self.waiting.pop(mid), 1)

    def _read(self, client: mqtt.Client) -> None:
        for _ in range(BATCH):
            before = self.packets
            client.loop_read()
            if self.packets == before:
                return

    def turn(self) -> None:
        """Wait for either side, read what is there, write what waits."""
        both = (self.source, self.target)
        writers = [client.socket() for client in both if client.want_write()]
        readable, _, _ = select.select([client.socket() for client in both], writers, [], 1.0)
        for client in both:
            if client.socket() in readable:
                self._read(client)
        for client in both:
            if client.want_write():
                client.loop_write()


def main() -> None:
    """Relay until SIGTERM."""
    relay = Relay(int(sys.argv[1]), int(sys.argv[2]))
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    tick = time.monotonic()
    while not ended:
        relay.turn()
        if time.monotonic() - tick > 1.0:
            tick = time.monotonic()
            relay.source.loop_misc()
            relay.target.loop_misc()


if __name__ == "__main__":
    main()
