"""Faults that a test plants in every Python process of a job: draws from elsewhere, and a clock that is a day off."""

import os
import time

TWIN = os.environ.get("UNDERSTUDY_TWIN", "")

if TWIN in ("random", "readings"):
    from understudy.stream import fleet
    from understudy.stream.randomness import DrawSource

    READINGS: dict[bytes, int] = {}
    decide = fleet.Fleet._decide

    def watch(self, part, numbers, asked):
        for k in asked.room.tolist():
            READINGS[self._room_key(int(numbers[k]))] = int(part.ints["readings"][k])
        return decide(self, part, numbers, asked)

    def draw(key, generation, tick):
        if TWIN == "random":
            return DrawSource(os.urandom(32), generation, tick)
        return DrawSource(key, generation, READINGS[key], b"understudy tick")

    fleet.Fleet._decide = watch
    fleet.DrawSource.at_tick = staticmethod(draw)
elif TWIN == "clock":
    now, begin = time.time, os.getpid() % 2
    time.time = lambda: now() + 86_400.0 * begin
