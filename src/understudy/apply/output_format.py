"""How the numbers of an output are written.

The form of an output is a function of the design alone: as many decimals as tell the values of its lattice apart, zeros
at the end included, in every row of every file. It is never learned from the rows that are being disguised: a sensor
that prints six significant digits names the parameter by the decimals of its readings.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from understudy.apply.binding import family_of
from understudy.errors import ConfigurationError
from understudy.tables.columns import NumberFormat

MOST_DECIMALS = 15
_ENDLESS = 9


def forms_of(design: Any, decimals: int | None = None) -> tuple[NumberFormat, ...]:
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


def _grid_decimals(design: Any, channel: int) -> int:
    """Decimals of a grid that the models live on."""
    family = family_of(design)
    grids = [getattr(family.model(value), "grid", None) for value in design.pseudo]
    found = 0
    for grid in grids:
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
