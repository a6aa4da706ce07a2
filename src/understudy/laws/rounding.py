"""The grid of a sensor that reports rounded readings, channel by channel.

A channel with a step reports clip(offset + step round((y - offset) / step), low, high). The values of y that
are reported as one number form a *cell*: half a step to either side, and at `low` and `high` everything beyond.
A channel without a step reports y itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from understudy.errors import ModelError, ReadingError
from understudy.laws.base import Array, Frozen

TOLERANCE = 1e-9
"""How far from a grid point a reading may be, in steps (and four roundings of the reading): 0.1 is no float."""

_ULPS = 4.0 * float(np.finfo(float).eps)


class Cells(NamedTuple):
    """The cells of some readings: grid points, ends, and half the width (inf where an end is)."""

    at: Any
    lower: Any
    upper: Any
    half: Any


class Channel(NamedTuple):
    """The grid of one channel; a step of 0 means none."""

    step: float
    offset: float
    low: float
    high: float

    def rounded(self, y: Any) -> Any:
        """What is reported for y, a number or an array."""
        step, offset, low, high = self
        if not step:
            return y
        point = offset + step * np.rint((y - offset) / step)
        if isinstance(y, float):
            return min(max(float(point), low), high)
        return np.clip(point, low, high)

    def cells(self, y: Any, channel: int) -> Cells:
        """The cells of readings, which must lie on the grid."""
        step, offset, low, high = self
        if isinstance(y, float):
            index = (y - offset) / step
            point = offset + step * round(index) if math.isfinite(index) else math.inf
            if not (abs(y - point) <= TOLERANCE * step + _ULPS * abs(y) and low <= point <= high):
                raise _off_the_grid(channel)
            lower = -math.inf if point <= low else point - 0.5 * step
            upper = math.inf if point >= high else point + 0.5 * step
            return Cells(point, lower, upper, 0.5 * step if lower > -math.inf and upper < math.inf else math.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            points = offset + step * np.rint((y - offset) / step)
            near = np.abs(y - points) <= TOLERANCE * step + _ULPS * np.abs(y)
        if not np.all(near & (low <= points) & (points <= high)):
            raise _off_the_grid(channel)
        first, last = points <= low, points >= high
        ends = np.where(first, -np.inf, points - 0.5 * step), np.where(last, np.inf, points + 0.5 * step)
        return Cells(points, *ends, np.where(first | last, np.inf, 0.5 * step))

    def between(self, y: float, z: float) -> Array:
        """All values that are reported between y and z."""
        step, offset, _, _ = self
        first, last = (round((self.rounded(end) - offset) / step) for end in (y, z))
        return np.clip(offset + step * np.arange(first, last + 1, dtype=float), self.low, self.high)


class Rounding(Frozen):
    """Steps, offsets and ends of all channels, checked.

    >>> grid = Rounding(2, step=[5.0, 0.1], low=[0.0, None])
    >>> [channel.rounded(y) for channel, y in zip(grid.channels, (-7.0, 21.37))]
    [0.0, 21.400000000000002]
    >>> grid.channels[0].cells(0.0, 0)
    Cells(at=0.0, lower=-inf, upper=2.5, half=inf)
    """

    __slots__ = ("channels", "dim", "given")

    def __init__(self, dim: int, step: Any, offset: Any = 0.0, low: Any = None, high: Any = None) -> None:
        self.dim = dim
        steps = _each("step", step, dim)
        self.channels: tuple[Channel, ...] = tuple(
            _channel(*row)
            for row in zip(
                range(dim),
                steps,
                _each("offset", offset, dim),
                _each("low", low, dim, steps),
                _each("high", high, dim, steps),
                strict=True,
            )
        )
        if not any(channel.step for channel in self.channels):
            raise ModelError(f"step = {step!r}; at least one channel must be rounded, by a positive step")
        self.given: dict[str, Any] = {"step": step, "offset": offset, "low": low, "high": high}

    def __repr__(self) -> str:
        return f"Rounding(dim={self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.dim, self.given)

    @property
    def everywhere(self) -> bool:
        """Whether every channel is rounded."""
        return all(channel.step for channel in self.channels)

    def rounded(self, y: Array) -> Array:
        """What is reported for readings with the channel on the last axis."""
        return np.stack([channel.rounded(y[..., i]) for i, channel in enumerate(self.channels)], axis=-1)


def _off_the_grid(channel: int) -> ReadingError:
    return ReadingError(
        f"channel {channel} is not on its grid; a reading is offset + step times a whole number, "
        f"to {TOLERANCE:g} of a step, and not beyond low or high"
    )


def _remade(dim: int, given: dict[str, Any]) -> Rounding:
    return Rounding(dim, **given)


def _each(name: str, given: Any, dim: int, steps: list[Any] | None = None) -> list[Any]:
    """One entry a channel; a single one serves all, but ends only those that are rounded."""
    if given is None or np.ndim(given) == 0:
        return [given if steps is None or steps[i] else None for i in range(dim)]
    if not isinstance(given, (Sequence, np.ndarray)) or len(given) != dim:
        raise ModelError(f"{name} = {given!r}; it must be a number, or one for each of {dim} channels")
    return list(given)


def _channel(i: int, step: Any, offset: Any, low: Any, high: Any) -> Channel:
    step = 0.0 if step is None else _number("step", step, i)
    offset = _number("offset", offset, i)
    if step < 0.0:
        raise ModelError(f"step of channel {i} = {step!r}; a step is positive (0 or None: this channel is not rounded)")
    if step and _ULPS * abs(offset) > TOLERANCE * step:
        raise ModelError(
            f"offset of channel {i} = {offset!r} with the step {step!r}; double precision cannot hold such a grid "
            "(an offset can be less than a step)"
        )
    ends = []
    for name, given, none in (("low", low, -math.inf), ("high", high, math.inf)):
        if given is None or (isinstance(given, (int, float)) and given == none):
            ends.append(none)
            continue
        end = _number(name, given, i)
        if not step:
            raise ModelError(f"{name} of channel {i} = {end!r}; a channel that is not rounded has no {name}")
        point = offset + step * round((end - offset) / step)
        if abs(end - point) > TOLERANCE * step + _ULPS * abs(end):
            raise ModelError(
                f"{name} of channel {i} = {end!r}; it must be a grid point, offset + step times a whole number"
            )
        ends.append(point)
    if ends[0] > ends[1]:
        raise ModelError(f"low of channel {i} = {ends[0]!r} is above high = {ends[1]!r}")
    return Channel(step, offset, ends[0], ends[1])


def _number(name: str, given: Any, i: int) -> float:
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, float, np.integer, np.floating)):
        raise ModelError(f"{name} of channel {i} = {given!r}; it must be a number")
    if not math.isfinite(given):
        raise ModelError(f"{name} of channel {i} = {given!r}; it must be finite")
    return float(given)
