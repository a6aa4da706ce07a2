"""What a design says about a file, and what the user says: which column is what, and how outputs are written.

A family that was fitted remembers its columns (`Family.about`); what is named here comes before that. Nothing is
guessed from the contents of a file.

The form of an output is a function of the design alone: as many decimals as tell the values of its lattice apart, zeros
at the end included, in every row of every file. It is never learned from the rows that are being disguised: a sensor
that prints six significant digits names the parameter by the decimals of its readings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from understudy._types import Period
from understudy.errors import ConfigurationError, DesignError
from understudy.identify.grid import Cells
from understudy.identify.public_inputs import Offset, clock_names
from understudy.models.family import Family
from understudy.randomizer.causal import CausalDesign
from understudy.randomizer.coin import CoinDesign
from understudy.randomizer.design import Design
from understudy.tables.columns import NumberFormat, time_names
from understudy.tables.table import check_names
from understudy.tables.times import SECOND, seconds

FileDesign: TypeAlias = Design | CausalDesign | CoinDesign
"""A design that a file can be disguised by: one draw an epoch, decisions by a clock, or a coin by epoch."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Names of columns, the period in nanoseconds, and the public offset."""

    readings: tuple[str, ...]
    private: str | None
    time: str | None
    segment: tuple[str, ...]
    keep: tuple[str, ...]
    period: int | None
    offset: Offset | None
    zone: str | None
    resampling: str | None  # "mean" or "last" of the rows of a period
    grid: tuple[Cells | None, ...]
    day_first: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of public inputs; the clock needs none."""
        return () if self.offset is None else tuple(c for c in self.offset.columns if c not in clock_names())

    def wanted(self, names: Sequence[str]) -> tuple[str, ...]:
        """All columns that are read of a file with these, each once."""
        some = (*time_names(self.time, names), self.private, *self.segment, *self.readings, *self.inputs, *self.keep)
        return tuple(dict.fromkeys(name for name in some if name is not None))

    def leaving(self, names: Sequence[str]) -> tuple[str, ...]:
        """Columns that leave, in the order of the file."""
        leave = {*time_names(self.time, names), *self.readings, *self.keep}
        return tuple(name for name in names if name in leave)

    def check(self, names: Sequence[str], file: str) -> None:
        """Refuse a file that lacks a column, or has one twice."""
        check_names(self.wanted(names), names, file)


def family_of(design: FileDesign) -> Family:
    """The family that a design was made for."""
    family = getattr(design, "family", None)  # what us.solve makes has none
    if not isinstance(family, Family):
        raise DesignError("the design has no models (us.solve makes none); a file needs one from us.design")
    return family


def bind(
    design: FileDesign,
    reading: str | Sequence[str] | None = None,
    private: str | None = None,
    time: str | None = None,
    segment: str | Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    period: Period | None = None,
    day_first: bool = False,
) -> Binding:
    """Which column is what. ``time=""`` and ``segment=""`` say that there is none, whatever the family was fitted to.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> bound = bind(us.design(family, leakage=0.1, distortion="mae"), reading="co2", private="people")
    >>> bound.wanted(["time", "co2", "people"]), bound.leaving(["time", "co2", "people"])
    (('people', 'co2'), ('co2',))
    """
    family = family_of(design)
    about = family.about or {}
    readings = _names(reading) or tuple(about.get("readings") or ())
    if len(readings) != family.dim:
        raise ConfigurationError(
            f"reading = {list(readings)!r}; the design has {family.dim} channel{'s' * (family.dim != 1)}, and each "
            "needs a column"
        )
    unasked = design.estimated or design.blind
    private = private or about.get("private")
    if private is None and not unasked:
        raise ConfigurationError(
            "private is missing: the column with the private parameter. Without the true value there is no guarantee "
            "(us.design_causal(..., accept_estimated_theta=True) makes a design that estimates it, and says what is "
            "lost)"
        )
    every = period if period is not None else about.get("period")
    plain = about.get("public")
    found = Binding(
        readings=readings,
        private=None if unasked else private,
        time=_chosen(time, about.get("time")),
        segment=_names(about.get("segment") if segment is None else segment or None),
        keep=_names(keep),
        period=None if every is None else round(seconds(every) * SECOND),
        offset=None if plain is None else Offset.from_plain(plain),
        zone=about.get("zone"),
        resampling=(about.get("resampling") or {}).get("how") if period is None else None,
        grid=tuple(None if cell is None else Cells(**cell) for cell in about.get("grid") or ()),
        day_first=day_first or bool(about.get("day_first")),
    )
    _check(found, private)
    return found


def _check(bound: Binding, private: str | None) -> None:
    if len(set(bound.readings)) < len(bound.readings):
        raise ConfigurationError(f"reading = {list(bound.readings)!r}; each channel needs a column of its own")
    if private is not None and private in bound.keep:
        raise ConfigurationError(f"keep = {list(bound.keep)!r}; the private column {private!r} never leaves")
    both = [name for name in bound.keep if name in bound.readings]
    if both:
        raise ConfigurationError(f"keep = {list(bound.keep)!r}; {both[0]!r} is a reading, and leaves disguised only")
    times = {bound.time, *time_names(bound.time, ())}  # the file is not known yet: neither may be a reading
    roles = (private, "private"), *((name, "time") for name in times), *((name, "segment") for name in bound.segment)
    for name, what in roles:
        if name is not None and name in bound.readings:
            raise ConfigurationError(f"{what} = {name!r}; that is a reading")
    if private is not None and private in bound.segment:
        raise ConfigurationError(
            f"segment = {private!r}; that is the private column, and where a segment begins is seen from its draw"
        )
    if private is not None and private in times:
        raise ConfigurationError(f"time = {bound.time!r}; that is the private column, which never leaves")
    if bound.time is not None and bound.period is None:
        raise ConfigurationError(
            f"period is missing: rows have times (column {bound.time!r}), and the family does not know how far apart "
            "they are, so that gaps between them would not be noticed. Say so, period='1 min', or time='' "
            "for rows that stand one after the other whatever their times"
        )
    if bound.resampling is not None and bound.time is None:
        raise ConfigurationError("time is missing: this family is of readings that are taken together over a period")
    if bound.offset is not None and bound.offset.needs_clock and bound.time is None:
        raise ConfigurationError("time is missing: the public offset of this family needs the time of day")


def _chosen(given: str | None, known: str | None) -> str | None:
    """The name that is given, or that the family knows; an empty one is none at all."""
    return known if given is None else given or None


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))


# How the numbers of an output are written -----------------------------------------------------------


MOST_DECIMALS = 15
_ENDLESS = 9


def forms_of(design: FileDesign, decimals: int | None = None) -> tuple[NumberFormat, ...]:
    """The form of the outputs of each channel, as the design has it, or with so many decimals.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> forms_of(us.design(family, leakage=0.1, distortion="mae"))[0].texts([0.5])
    ['0.5000']
    """
    dim = family_of(design).dim
    if decimals is not None:
        if isinstance(decimals, bool) or not isinstance(decimals, int) or not 0 <= decimals <= MOST_DECIMALS:
            raise ConfigurationError(
                f"decimals = {decimals!r}; it must be a whole number of at most {MOST_DECIMALS}, 0 or more"
            )
        return (NumberFormat(decimals),) * dim
    places = design.release.lattice.decimals
    return tuple(NumberFormat(_grid_decimals(design, i) if known is None else known) for i, known in enumerate(places))


def _grid_decimals(design: FileDesign, channel: int) -> int:
    """Decimals of a grid that the models live on."""
    found = 0
    for model in design.targets:
        grid = getattr(model, "grid", None)
        if grid is None and design.outputs is not None:  # a constant
            level = np.ravel(model.predict(model.start()).value(np.zeros(model.dim)))[channel]
            found = max(found, _decimals(float(level)))
            continue
        if grid is None:
            raise ConfigurationError(
                "decimals is missing: the models have atoms and no grid, so that the design does not know how many "
                "decimals an output has. Say how many, decimals=2"
            )
        cell = grid.channels[channel]
        for number in (cell.step, cell.offset):
            found = max(found, _decimals(number))
    return found


def _decimals(number: float) -> int:
    """Decimals of a number as it is written; of one such as 1/15, which has no end, nine or a few more.

    >>> [_decimals(number) for number in (5.0, 0.25, 1 / 15, 1e-10 / 3)]
    [0, 2, 9, 14]
    """
    exact = Fraction(repr(float(number)))
    for places in range(MOST_DECIMALS):
        if (exact * 10**places).denominator == 1:
            return places
    return min(MOST_DECIMALS, max(_ENDLESS, math.ceil(3.0 - math.log10(abs(number)))))
