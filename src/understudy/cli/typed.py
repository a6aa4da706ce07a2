"""What was typed, as what it means: lists, quantities with a unit, durations. Errors name the option and the rule."""

from __future__ import annotations

import re
from typing import Any

from understudy.errors import ConfigurationError

_QUANTITY = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([^\s0-9].*?)?\s*")
_SQUARED = re.compile(r"(\^2|²|2)$")


def budget(leakage: str | None) -> str | float | None:
    """A leakage as typed: a bare number is one of nats."""
    try:
        return None if leakage is None else float(leakage)
    except ValueError:
        return leakage


_NAMES = (
    "leakage|rate|error_at_least|distortion_at_most|distortion|pseudo|horizon|decision_every|reading|private|time|segment|"
    "period|bins|public|actuators|grid|model|keep|epoch|format|delimiter|on_error|name|ledger|prior|values|resolution|"
    "readings|valid|decimals"
)
_NAMED = re.compile(rf"(?<![\w.'\"-])({_NAMES}) ?= ?(?=\S)")
_LEFT = re.compile(r"(?<![\w.'\"-])(format)= says|(accept_misfit)=True")


def in_options(words: str) -> str:
    """An error of the library in the words of the command line: options for the names of arguments.

    >>> in_options("error_at_least = 1.4; it must be between 0 and 0.5")
    '--error-at-least 1.4; it must be between 0 and 0.5'
    >>> in_options("it has no ending, or format= says which (csv); accept_misfit=True goes on")
    'it has no ending, or --format says which (csv); --accept-misfit goes on'
    """
    words = _LEFT.sub(lambda m: "--format says" if m[1] else "--accept-misfit", words)
    return _NAMED.sub(lambda m: f"--{m[1].replace('_', '-')} ".replace("actuators", "actuator"), words)


def numbers(option: str, text: str) -> list[float | int]:
    """Numbers with commas between them; whole ones stay whole.

    >>> numbers("--pseudo", "0, .5,1")
    [0, 0.5, 1]
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(
            f"{option} {text}: numbers with commas between them are wanted, as in 0,.5,1"
        ) from None
    return [int(x) if x.is_integer() else x for x in found]


def quantity(option: str, text: str, units: Any = None) -> tuple[float, str]:
    """A number with or without a unit, which must be that of the readings if that is known.

    >>> quantity("--distortion-at-most", "25ppm"), quantity("--distortion-at-most", "25")
    ((25.0, 'ppm'), (25.0, ''))
    >>> quantity("--distortion-at-most", "25 ppm", units=["degC"])
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: --distortion-at-most 25 ppm: the readings are in degC, not in ppm
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{option} {text}: a number is wanted, with its unit or without, as in 25ppm or 25")
    unit = match[2] or ""
    if unit == "%":
        raise ConfigurationError(f"{option} {text}: a share is not accepted here; give it in the unit of the readings")
    known = {str(u) for u in units or () if u}
    if unit and known and unit not in known and _SQUARED.sub("", unit) not in known:
        raise ConfigurationError(f"{option} {text}: the readings are in {' and '.join(sorted(known))}, not in {unit}")
    return float(match[1]), unit


def chosen(option: str, text: str, values: tuple[Any, ...]) -> list[Any]:
    """Values of a family by their names, with commas between them.

    >>> chosen("--pseudo", "0, 3+", (0, "1-2", "3+"))
    [0, '3+']
    """
    names = {str(value): value for value in values}
    found = []
    for part in (part.strip() for part in text.split(",")):
        if part not in names:
            known = ", ".join(names)
            raise ConfigurationError(f"{option} {text}: the family has no model for {part!r}; it has {known}")
        found.append(names[part])
    return found


def readings(option: str, text: str, period: float | None) -> int:
    """A number of readings: as it is, or as a time that the period goes into.

    >>> readings("--decision-every", "15min", 60.0), readings("--decision-every", "4", 900.0)
    (15, 4)
    >>> readings("--every", "90s", 60.0)
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: --every 90s: it must be a whole number of readings, one comes every 60 s
    """
    if re.fullmatch(r"\s*[0-9]+\s*", text):
        count = float(text)
    else:
        from understudy.identify.clock import seconds

        try:
            time = seconds(text)
        except ConfigurationError:
            raise ConfigurationError(
                f"{option} {text}: a number of readings or a time is wanted, as in 15 or 15min"
            ) from None
        if not period:
            raise ConfigurationError(
                f"{option} {text}: the family does not say how often a reading comes; give a number of readings"
            )
        count = time / period
        if abs(count - round(count)) > 1e-6:
            raise ConfigurationError(
                f"{option} {text}: it must be a whole number of readings, one comes every {period:g} s"
            )
    if round(count) < 1:
        raise ConfigurationError(f"{option} {text}: it must be at least one reading")
    return round(count)
