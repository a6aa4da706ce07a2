"""The clock on the wall: hour of the day and weekday of times in nanoseconds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.identify.clock import DAY, hours
from understudy.laws.base import Array


def hours_and_days(ns: NDArray[np.int64], zone: str | None) -> tuple[Array, NDArray[np.int64]]:
    """Hour of the day in [0, 24), and weekday from 0 (Monday), of times since 1970.

    >>> hours_and_days(np.array([0, 90 * 60 * 10**9]), "+02:00")
    (array([2. , 3.5]), array([3, 3]))
    """
    ns = np.asarray(ns, dtype=np.int64)
    whole = DAY // 24
    # what the zone adds, to the whole hour, from -12 to 14; the rest of an hour is that of UTC
    shift = (hours(ns, zone) - hours(ns, None) + 12) % 24 - 12
    local = ns + shift.astype(np.int64) * whole
    day = (local // DAY + 3) % 7  # 1970 began on a Thursday
    return np.asarray((local % DAY) / whole), day.astype(np.int64)
