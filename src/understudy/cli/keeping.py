"""Constraints as typed after ``understudy design``: other measures, a floor, pairs and groups, multiples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from understudy.cli.typed import budget
from understudy.errors import ConfigurationError, DesignError
from understudy.randomizer.budget import nats
from understudy.randomizer.constrained import constraints as kinds
from understudy.randomizer.constrained.base import Constraint


@dataclass(frozen=True, slots=True)
class Kept:
    """What was typed; None where nothing was."""

    local_dp: float | None = None
    maximal_leakage: str | None = None
    pointwise_leakage: str | None = None
    total_variation: float | None = None
    floor: float | None = None
    multiples: int | None = None
    forbid: Sequence[str] | None = None
    same: Sequence[str] | None = None

    @property
    def options(self) -> list[str]:
        """The options that were given."""
        return ["--" + name.replace("_", "-") for name in self.__slots__ if getattr(self, name) is not None]


NOTHING = Kept()


def kept(typed: Kept, values: Any, pseudo: Any) -> tuple[Constraint, ...]:
    """The constraints; values and pseudo values are known by their names.

    >>> kept(Kept(local_dp=1.0, forbid=["1:0.2"], same=["0,1"]), (0, 1), (0, 0.2, 1))
    (LocalDP(epsilon=1.0), Forbidden(pairs=((1, 0.2),), positions=False), Same(groups=((0, 1),), positions=False))
    """
    found: list[Constraint] = []
    if typed.local_dp is not None:
        found.append(_made("--local-dp", kinds.LocalDP, typed.local_dp))
    if typed.maximal_leakage is not None:
        amount = _nats("--maximal-leakage", typed.maximal_leakage)
        found.append(_made("--maximal-leakage", kinds.MaximalLeakage, amount))
    if typed.pointwise_leakage is not None:
        amount = _nats("--pointwise-leakage", typed.pointwise_leakage)
        found.append(_made("--pointwise-leakage", kinds.PointwiseLeakage, amount))
    if typed.total_variation is not None:
        found.append(_made("--total-variation", kinds.TotalVariation, typed.total_variation))
    if typed.floor is not None:
        found.append(_made("--floor", kinds.Floor, typed.floor))
    if typed.forbid is not None:
        pairs = [pair for text in typed.forbid for pair in _pairs(text, values, pseudo)]
        found.append(kinds.Forbidden(tuple(dict.fromkeys(pairs))))
    if typed.same is not None:
        groups = [group for text in typed.same for group in text.split(";")]
        found.append(
            kinds.Same(tuple(tuple(_named("--same", x, values) for x in group.split(",")) for group in groups))
        )
    if typed.multiples is not None:
        found.append(_made("--multiples", kinds.Multiples, typed.multiples))
    return tuple(found)


def _made(option: str, kind: Any, value: Any) -> Constraint:
    try:
        made: Constraint = kind(value)
    except DesignError as error:
        rule = str(error).partition("; ")[2]
        raise ConfigurationError(f"{option} {value}: {rule}") from None
    return made


def _nats(option: str, text: str) -> float:
    if "%" in text or "percent" in text:
        raise ConfigurationError(f"{option} {text}: nats or bits are wanted, as in 0.3 or '0.4 bit'")
    try:
        return nats(budget(text), 0.0)
    except DesignError:
        raise ConfigurationError(f"{option} {text}: nats or bits are wanted, as in 0.3 or '0.4 bit'") from None


def _pairs(text: str, values: Any, pseudo: Any) -> tuple[tuple[Any, Any], ...]:
    found = []
    for part in text.split(","):
        value, colon, drawn = part.rpartition(":")
        if not colon:
            raise ConfigurationError(f"--forbid {text}: pairs are wanted, true value and played one, as in 0:1,2:0")
        found.append((_named("--forbid", value, values), _named("--forbid", drawn, pseudo)))
    return tuple(found)


def _named(option: str, name: str, known: Any) -> Any:
    name = name.strip()
    for value in known:
        if str(value) == name or (isinstance(value, (int, float)) and _number(name) == value):
            return value
    raise ConfigurationError(f"{option}: {name!r} is none of {', '.join(map(str, known))}")


def _number(name: str) -> float | None:
    try:
        return float(name)
    except ValueError:
        return None
