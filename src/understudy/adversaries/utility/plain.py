"""Utility as JSON can hold it, and back; and in plain sentences."""

from __future__ import annotations

import math
from typing import Any

from understudy.adversaries.audited import Figure
from understudy.adversaries.utility.measuring import Alarm, Band, Channel, Spectrum, Utility


def plain(utility: Utility) -> dict[str, Any]:
    """Names, numbers, lists and dicts; what is not a number is None.

    >>> from understudy.adversaries.utility.measuring import measure
    >>> found = measure([[400.0], [410.0]], [[401.0], [412.0]])
    >>> from_plain(plain(found)) == found or plain(from_plain(plain(found))) == plain(found)
    True
    """
    return {
        "channels": [_channel(channel) for channel in utility.channels],
        "own": {name: _list(figure) for name, figure in utility.own.items()},
        "readings": utility.readings,
        "copies": utility.copies,
        "blocks": utility.blocks,
        "confidence": utility.confidence,
    }


def from_plain(told: Any) -> Utility:
    """What `plain` wrote; a KeyError, TypeError or ValueError where it did not."""
    return Utility(
        tuple(_read_channel(channel) for channel in told["channels"]),
        {str(name): _figure(figure) for name, figure in told["own"].items()},
        int(told["readings"]),
        int(told["copies"]),
        int(told["blocks"]),
        float(told["confidence"]),
    )


def lines(utility: Utility, unit: str = "") -> list[str]:
    """The figures in sentences, a few for each channel.

    >>> from understudy.adversaries.utility.measuring import measure
    >>> lines(measure([[400.0], [410.0]], [[401.0], [412.0]]), " ppm")[0]
    'channel 1: a released reading is off by 1.5 ppm on average, 0.37 percent of the mean reading.'
    """
    found = []
    for c in utility.channels:
        if math.isnan(c.mean_absolute.value):
            found.append(f"{c.name}: no reading has an output beside it.")
            continue
        share = "" if math.isnan(c.relative.value) else f", {100.0 * c.relative.value:.2g} percent of the mean reading"
        found.append(f"{c.name}: a released reading is off by {c.mean_absolute.value:.3g}{unit} on average{share}.")
        if c.daily is not None:
            found.append(f"{c.name}: a daily mean is off by {c.daily.value:.3g}{unit} on average ({_many(c.days)}).")
        if c.alarm is not None:
            found.append(f"{c.name}: {_alarm_words(c.alarm, unit)}")
        if c.spectrum is not None:
            found.append(
                f"{c.name}: the spectrum of the output is {c.spectrum.distance.value:.2g} dB from that of the readings."
            )
    return found + [f"{name}: {figure.value:.4g}." for name, figure in utility.own.items()]


def _alarm_words(alarm: Alarm, unit: str) -> str:
    above = f"above {alarm.threshold:g}{unit}"
    if not alarm.episodes:
        return f"readings are never {above}; the output is, {_share(alarm.false)} of the time."
    return (
        f"of the time {above}, {_share(alarm.reported)} is reported; of the other time, {_share(alarm.false)} is "
        f"reported as such by mistake; {_share(alarm.missed)} of {alarm.episodes} episodes are missed whole."
    )


def _share(figure: Figure) -> str:
    return "-" if math.isnan(figure.value) else f"{100.0 * figure.value:.3g} percent"


def _many(days: int) -> str:
    return f"{days} day{'s' * (days != 1)}"


def _channel(channel: Channel) -> dict[str, Any]:
    return {
        "name": channel.name,
        **{name: _list(getattr(channel, name)) for name in ("mean_absolute", "root_mean_square", "relative", "daily")},
        "days": channel.days,
        "alarm": None if channel.alarm is None else _alarm(channel.alarm),
        "spectrum": None if channel.spectrum is None else _spectrum(channel.spectrum),
    }


def _alarm(alarm: Alarm) -> dict[str, Any]:
    figures = {name: _list(getattr(alarm, name)) for name in ("reported", "false", "missed")}
    return {"threshold": alarm.threshold, **figures, "episodes": alarm.episodes, "time": _finite(alarm.time)}


def _spectrum(found: Spectrum) -> dict[str, Any]:
    bands = [{"name": b.name, "distance": _finite(b.distance), "level": _finite(b.level)} for b in found.bands]
    return {"distance": _list(found.distance), "bands": bands, "windows": found.windows, "window": found.window}


def _read_channel(told: Any) -> Channel:
    return Channel(
        name=str(told["name"]),
        mean_absolute=_figure(told["mean_absolute"]),
        root_mean_square=_figure(told["root_mean_square"]),
        relative=_figure(told["relative"]),
        daily=None if told["daily"] is None else _figure(told["daily"]),
        days=int(told["days"]),
        alarm=None if told["alarm"] is None else _read_alarm(told["alarm"]),
        spectrum=None if told["spectrum"] is None else _read_spectrum(told["spectrum"]),
    )


def _read_alarm(told: Any) -> Alarm:
    reported, false, missed = (_figure(told[name]) for name in ("reported", "false", "missed"))
    return Alarm(float(told["threshold"]), reported, false, missed, int(told["episodes"]), _number(told["time"]))


def _read_spectrum(told: Any) -> Spectrum:
    bands = tuple(Band(str(b["name"]), _number(b["distance"]), _number(b["level"])) for b in told["bands"])
    return Spectrum(_figure(told["distance"]), bands, int(told["windows"]), int(told["window"]))


def _list(figure: Figure | None) -> list[float | None] | None:
    return None if figure is None else [_finite(part) for part in figure]


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def _number(x: Any) -> float:
    return math.nan if x is None else float(x)


def _figure(told: Any) -> Figure:
    return Figure(*(_number(part) for part in told))
