"""What every result of the paper is made with: the room of Section V, and the form that a result comes in.

::

    X_{k+1} = 0.95 X_k + 10 Theta + W_k,   Y_k = X_k + V_k,   variances 0.1,   X_0 ~ N(100, 1)

Theta is 0 or 1 with equal probability, ~Theta one of 0, 0.2, .., 1, and T = 50.

A result is an `Outcome`: numbers under flat names, tables, pictures that are drawn on demand, and paragraphs. The words
of all results stand in ``results.toml``, with the places of the numbers in braces; `tell` puts the two together.

>>> fill("{bound_at_0.3:.2f%} percent, p = {p:p}", {"bound_at_0.3": 0.13359, "p": 0.0})
'13.36 percent, p = < 1e-300'
"""

from __future__ import annotations

import string
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import Any

import numpy as np

import understudy as us
from understudy._types import Array, Progress

# The form of a result -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """How a result is computed: the seed, whether quickly, and whom to tell how far it is.

    ``quick`` takes fewer points and sequences, for a first look; the figures have wider bands.
    """

    seed: int = 0
    quick: bool = False
    progress: Progress = field(default=lambda fraction: None, compare=False)

    def rng(self, name: str) -> np.random.Generator:
        """The random numbers of one result, the same whichever others are computed.

        >>> Settings(seed=1).rng("frontier").integers(1000) == Settings(seed=1).rng("frontier").integers(1000)
        np.True_
        """
        return np.random.default_rng([self.seed, *name.encode()])


@dataclass(frozen=True)
class Table:
    """A small table for the report: a caption, the heads of its columns, and rows of text."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Pictures = Mapping[str, Callable[[], Any]]


@dataclass(frozen=True)
class Outcome:
    """One result: its numbers by name, and how it is told.

    ``pictures`` are drawn when they are wanted: each function makes a matplotlib figure. ``numbers`` are floats (or
    whole numbers) under flat names: what ``results.json`` and ``results.csv`` hold and golden values are held to.
    """

    name: str
    title: str
    paragraphs: tuple[str, ...]
    numbers: Mapping[str, float]
    tables: tuple[Table, ...] = ()
    pictures: Pictures = field(default_factory=dict)


def tell(
    name: str, numbers: Mapping[str, float], tables: Sequence[Table], pictures: Pictures | None = None, **facts: Any
) -> Outcome:
    """The result with its title and its paragraphs; `facts` are what the paragraphs say beside the numbers."""
    paragraphs = tuple(fill(part, {**numbers, **facts}) for part in words()[name]["text"].split("\n\n"))
    return Outcome(name, words()[name]["title"], paragraphs, numbers, tuple(tables), pictures or {})


@cache
def words() -> dict[str, Any]:
    """The words of all results, by the name of the result."""
    return tomllib.loads(files("understudy").joinpath("paper", "results.toml").read_text(encoding="utf-8"))


def fill(template: str, facts: Mapping[str, Any]) -> str:
    """A paragraph with its numbers, on one line."""
    return " ".join(_Numbers().vformat(template, (), facts).split())


class _Numbers(string.Formatter):
    """Names of numbers have dots; percent signs multiply by 100, and p-values and shares have their own form."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in ("p", "share"):
            return p_text(value) if format_spec == "p" else share_text(value)
        return format(100.0 * value, format_spec[:-1]) if format_spec.endswith("%") else format(value, format_spec)


def p_text(p: float) -> str:
    """A p-value to read: two digits, and no more zeros than can be counted.

    >>> p_text(0.4321), p_text(3.21e-5), p_text(0.0)
    ('0.43', '3.2e-05', '< 1e-300')
    """
    return "< 1e-300" if p < 1e-300 else f"{p:.2g}"


def share_text(share: float, least: str = "less than ") -> str:
    """A share in percent with three digits.

    >>> share_text(0.13359), share_text(2.6e-8), share_text(1e-30, "<")
    ('13.4%', '2.6e-06%', '<1e-10%')
    """
    return f"{100.0 * share:.3g}%" if share > 1e-12 else f"{least}1e-10%"


# The room of Section V ------------------------------------------------------------------------------------------------

A, B, VARIANCE, START = 0.95, 10.0, 0.1, 100.0
VALUES = (0, 1)
PSEUDO = (0, 0.2, 0.4, 0.6, 0.8, 1)
HORIZON = 50
FALSE_ALARM = 1e-6


def room(
    occupants: float,
    a: float = A,
    b: float = B,
    start: float = START,
    level: float = 0.0,
    variance: float = VARIANCE,
    noise: float = 0.0,
) -> us.GaussMarkov:
    """CO2 in a room with this many people.

    `start` is the mean of X_0, `level` is added to the readings, `variance` is that of both noises, and `noise` is the
    variance of Gaussian noise that is added to each reading.
    """
    R = variance + noise
    return us.GaussMarkov(A=a, C=1.0, Q=variance, R=R, b=b * occupants, d=level, mean0=start, cov0=1.0)


def family(values: tuple[float, ...] = VALUES) -> us.Family:
    """The room with these occupancies, equally likely."""
    return us.Family(room, values=values)


def make_design(
    leakage: float | str = 0.3, horizon: int | None = HORIZON, distortion: str = "mae", **changes: float
) -> us.Design:
    """The paper's design; `changes` are arguments of `room` that are not as the paper prints them."""
    rooms = us.Family(partial(room, **changes), VALUES)
    return us.design(rooms, PSEUDO, leakage=leakage, horizon=horizon, distortion=distortion)


def guess(estimate: Array, values: Sequence[float] = VALUES) -> Array:
    """The value nearest to an estimate."""
    nearest = np.abs(np.asarray(estimate)[..., None] - np.asarray(values)).argmin(axis=-1)
    return np.asarray(np.asarray(values)[nearest])
