"""What a design asks of readings that come one by one: the rules of `understudy apply`, for fleets that run for months.

A family that was fitted remembers its period, the grid of its sensors, a public offset by the clock and the bins of
the private value. `terms_of` turns that into the terms of a fleet, and refuses what a fleet cannot do. A `Preparation`
brings readings into the form in which the family was fitted and outputs back from it, and finds the private value in
what was said.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from understudy._types import Array, Ints, Period, Value
from understudy.apply import segments
from understudy.apply.apply_file import check_gate
from understudy.apply.binding import Binding, FileDesign, bind, family_of
from understudy.errors import ConfigurationError
from understudy.gateway.plant import Terms
from understudy.identify.history import Bins, known_positions
from understudy.stream.engine import WITHHOLD
from understudy.tables.table import Table

_SAID = 4096  # private values, as they were said, that are remembered


class _Unknown:
    """A private value that no design has."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
"""Stands for a private value that was said, and that the design does not have."""


def terms_of(
    design: FileDesign,
    name: str,
    *,
    readings: Sequence[str] | None = None,
    period: Period | None = None,
    paced: bool = True,
    epoch: dt.timedelta | int | None = None,
    accept_misfit: bool = False,
    **budget: Any,
) -> Terms:
    """The terms of a fleet of a design.

    Parameters
    ----------
    design : Design or CausalDesign
        What the rooms share.
    name : str
        The name of the fleet in the ledger.
    readings : sequence of str, optional
        Names of the channels, for errors.
    period : float, timedelta or str, optional
        The time from reading to reading, where the family does not know it.
    paced : bool
        False for readings that follow one another whatever their times are.
    epoch : timedelta or int, optional
        How often rooms draw again; of a design that decides by a clock it is known.
    accept_misfit : bool
        Go on though the family did not pass its gate.
    **budget
        ``total``, ``amount``, ``per`` and ``when_spent`` of `us.Fleet`.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> terms_of(us.design(family, leakage=0.1, distortion="mae"), "office", period="1 min").period
    datetime.timedelta(seconds=60)

    """
    check_gate(design, accept_misfit)
    bound = _bound(design, readings, period, paced)
    if bound.resampling is not None:
        raise ConfigurationError(
            f"the family is of the {bound.resampling} of the readings in each period; here each reading leaves by "
            "itself. Fit one to the readings themselves, or say period= of readings that come already so"
        )
    if bound.inputs:
        raise ConfigurationError(
            f"the family has the public inputs {list(bound.inputs)!r}; readings that come one by one have the "
            "clock alone"
        )
    rules = segments.Terms(design, bound, None, name, None, epoch, None, False, None, segments.LONGEST_GAP)
    return Terms(
        name=name,
        design=design,
        period=None if bound.time is None else dt.timedelta(microseconds=(bound.period or 0) / 1000),
        epoch=rules.clock,
        gaps=None if rules.refill is None else WITHHOLD,
        **budget,
    )


def _bound(design: FileDesign, readings: Sequence[str] | None, period: Period | None, paced: bool) -> Binding:
    about = family_of(design).about or {}
    names = readings or about.get("readings") or [f"channel {i}" for i in range(family_of(design).dim)]
    if paced and period is None and about.get("period") is None:
        raise ConfigurationError(
            "period is missing: the design does not know how far apart readings are, so that gaps would not be noticed"
        )
    private = about.get("private") or "private"
    return bind(design, names, private, "time" if paced else "", (), (), period if paced else None)


class Preparation:
    """Readings as the family was fitted, outputs as they leave, and private values as they are said.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> preparation = Preparation(us.design(family, leakage=0.1, distortion="mae"))
    >>> preparation.changes, preparation.theta("1"), preparation.theta(None), preparation.theta("many")
    (False, 1, None, UNKNOWN)
    """

    def __init__(self, design: FileDesign, readings: Sequence[str] | None = None) -> None:
        bound = _bound(design, readings, 1.0, True)
        self._release, self._values = design.release, design.values
        self._grid, self._offset, self._zone = bound.grid, bound.offset, bound.zone
        bins = (family_of(design).about or {}).get("bins")
        self._bins = None if bins is None else Bins.from_plain(bins)
        self._said: dict[Any, Any] = {}
        self.changes = self._offset is not None or any(cell is not None for cell in self._grid)
        """Whether readings and outputs are changed at all."""

    def __repr__(self) -> str:
        return f"Preparation(changes={self.changes})"

    def readings(self, Y: Array, ns: Ints) -> Array:
        """Readings (R, d) at times, on the grid of the family and without its offset."""
        if any(cell is not None for cell in self._grid):
            Y = Y.copy()
            for channel, cell in enumerate(self._grid):
                if cell is not None:
                    Y[:, channel] = cell.snap(Y[:, channel])
        return Y if self._offset is None else Y - self._offset.of({}, ns, self._zone)

    def outputs(self, Y: Array, ns: Ints) -> Array:
        """Outputs (R, d) at the times of their slots, with the offset, on the lattice of the design."""
        if self._offset is None:
            return Y
        return self._release.within(self._release.rounded(Y + self._offset.of({}, ns, self._zone)))

    def theta(self, said: Any) -> Any:
        """The value of the design that was said: None where none was, `UNKNOWN` where the design has no such value."""
        if said is None:
            return None
        if not isinstance(said, (str, int, float)):
            return UNKNOWN
        key = (type(said), said)
        try:
            return self._said[key]
        except KeyError:
            place = int(known_positions(Table({"private": [said]}).entries("private"), self._values, self._bins)[0])
            found: Value | _Unknown | None = None if place == -1 else UNKNOWN if place < 0 else self._values[place]
            if len(self._said) < _SAID:
                self._said[key] = found
            return found
