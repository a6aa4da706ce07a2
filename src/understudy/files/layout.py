"""Which columns leave, in which order, and how their numbers are written."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.files.numbers import NumberFormat


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of the columns that leave, in the order of the source; those that are readings have a channel and a form.

    >>> layout = Layout(("time", "co2"), ("co2",), (NumberFormat(1, 1),))
    >>> layout.kept, layout.channel("co2"), layout.channel("time")
    (('time',), 0, None)
    """

    names: tuple[str, ...]
    readings: tuple[str, ...]
    forms: tuple[NumberFormat, ...]

    @property
    def kept(self) -> tuple[str, ...]:
        """Columns that leave as they are."""
        return tuple(name for name in self.names if name not in self.readings)

    def channel(self, name: str) -> int | None:
        """The channel of a reading; None for a column that leaves as it is."""
        return self.readings.index(name) if name in self.readings else None
