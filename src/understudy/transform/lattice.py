"""The public lattice on which readings leave: one step for each channel, the same for every parameter.

A double of larger magnitude lies on a coarser lattice. A reading y and its prediction under the source are multiples of
ulp(y), so their difference is one too; the transformation carries it into outputs of smaller magnitude, whose ulp is
finer, and whoever runs the target's public filter over the outputs sees the coarse lattice of the source. So what
leaves is rounded to a lattice that belongs to the design. The rounding happens to an output *after* the filter, whose
predictor goes on with its own unrounded value: what is released is a function of the output, and tells no more.

Which lattice a design has by default is decided in `understudy.stream.release`.

>>> lattice = Lattice([0.25, 0.01])
>>> lattice.rounded(np.array([[100.3, 0.12345], [-0.01, 7.0]])).tolist()
[[100.25, 0.12], [0.0, 7.0]]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from understudy._types import Array, Frozen
from understudy.errors import ConfigurationError
from understudy.transform.backend import kernels, view

Resolution: TypeAlias = "float | Sequence[float | None] | Array | Lattice | None"
"""A step, or one for each channel; None or 0 leaves a channel as it is."""
MOST = 2.0**52
"""Outputs are at most so many steps; what lies beyond is clamped."""

_SHIFT = 1.5 * 2.0**52
_MOST_DECIMALS = 12
LARGEST_DECIMAL = 1e12
"""Decimal steps are at most so large, and powers of two between 2^-900 and 2^900: 2^52 steps are then finite."""
_SMALLEST, _LARGEST = 2.0**-900, 2.0**900


class Lattice(Frozen):
    """Whole multiples of a step, by channel; a step of 0 leaves the channel as it is.

    A step is a power of two, or a decimal such as 0.05. A value of the lattice is computed as (k n) / m, with whole
    k, n and m, so that equal values have equal bits; there is no -0.0.

    >>> Lattice([2.0**-12])
    Lattice(2^-12)
    >>> Lattice([0.05]).one(-0.01), Lattice([0.1]).one(0.30000000000000004)
    (0.0, 0.3)
    """

    __slots__ = ("_ratios", "dim", "one", "steps")

    def __init__(self, steps: Sequence[float]) -> None:
        self.steps: tuple[float, ...] = tuple(map(float, steps))
        self.dim = len(self.steps)
        self._ratios = tuple(_ratio(step) for step in self.steps)
        self.one = _rounder(self._ratios[0])
        """One output of one channel, a float or NaN."""

    def __repr__(self) -> str:
        return f"Lattice({self.words})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.steps,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lattice) and self.steps == other.steps

    def __hash__(self) -> int:
        return hash(self.steps)

    @property
    def words(self) -> str:
        """The steps, for a person to read."""
        shown = [step_words(step) for step in self.steps]
        return shown[0] if len(set(shown)) == 1 else ", ".join(shown)

    @property
    def shift(self) -> float:
        """What rounds to the step of the first channel when it is put on and taken off again; 0 where nothing does."""
        return _shift(self._ratios[0])

    @property
    def decimals(self) -> tuple[int | None, ...]:
        """Decimals that tell all values of the lattice apart, by channel; None where the channel has no step."""
        return tuple(_decimals(ratio) for ratio in self._ratios)

    def rounded(self, Y: Array, out: Array | None = None) -> Array:
        """Readings with the channel on the second axis, (T, d) or (T, d, N), rounded; NaN stays missing."""
        if out is None:
            out = np.empty(Y.shape)
        if out is not Y:
            out[...] = Y
        for channel, ratio in enumerate(self._ratios):
            part = out if self.dim == 1 else out[:, channel]
            if ratio is not None:
                _round_into(part, ratio)
            else:
                part += 0.0  # no -0.0
        return out


def as_lattice(resolution: Resolution, dim: int) -> Lattice:
    """The lattice that a user asks for: a step, or one for each channel (None or 0 leaves a channel as it is).

    >>> as_lattice(0.5, 2)
    Lattice(2^-1)
    >>> as_lattice(0.3, 1)
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: resolution = 0.3; a step is a power of two, or 1, 2 or 5 times a power of ten
    """
    if isinstance(resolution, Lattice):
        resolution = resolution.steps
    several = isinstance(resolution, Sequence) or (isinstance(resolution, np.ndarray) and resolution.ndim > 0)
    given: list[Any] = list(resolution) if several else [resolution] * dim  # type: ignore[arg-type]  # by the line above
    if isinstance(resolution, (str, bytes)) or len(given) != dim:
        raise ConfigurationError(f"resolution = {resolution!r}; it must be a step, or one for each of {dim} channels")
    steps = []
    for step in given:
        if step is None:
            steps.append(0.0)
            continue
        number = isinstance(step, (int, float, np.integer, np.floating)) and not isinstance(step, bool)
        number = number and not (isinstance(step, int) and step.bit_length() > 1023)  # which no double holds
        if not number or not 0.0 <= step < math.inf or not _is_step(float(step)):
            raise ConfigurationError(
                f"resolution = {resolution!r}; a step is a power of two, or 1, 2 or 5 times a power of ten"
            )
        if not _in_range(float(step)):
            raise ConfigurationError(
                f"resolution = {resolution!r}; a power of two is from 2^-900 to 2^900, and a decimal step at most 1e12"
            )
        steps.append(float(step))
    return Lattice(steps)


def step_words(step: float) -> str:
    """A step for a person to read.

    >>> step_words(2.0**-12), step_words(0.01), step_words(0.0)
    ('2^-12', '0.01', 'the grid of the models')
    """
    if step == 0.0:
        return "the grid of the models"
    mantissa, exponent = math.frexp(step)
    return f"2^{exponent - 1}" if mantissa == 0.5 and step < 1.0 else f"{step:g}"


# Arithmetic -----------------------------------------------------------------------------------------


def _is_step(step: float) -> bool:
    if step == 0.0 or math.frexp(step)[0] == 0.5:
        return True
    exact = Fraction(repr(step))
    digits = str(exact.numerator * 10**_MOST_DECIMALS // exact.denominator).rstrip("0")
    return 10**_MOST_DECIMALS % exact.denominator == 0 and digits in ("1", "2", "5")


def _in_range(step: float) -> bool:
    """Whether 2^52 steps are finite, and whole numbers of a decimal step exact."""
    if step == 0.0:
        return True
    return _SMALLEST <= step <= _LARGEST if math.frexp(step)[0] == 0.5 else step <= LARGEST_DECIMAL


def _ratio(step: float) -> tuple[float, float] | None:
    """The step as n / m, both whole and exact in double precision; None where there is no step."""
    if step == 0.0:
        return None
    exact = Fraction(step) if math.frexp(step)[0] == 0.5 else Fraction(repr(step))
    return float(exact.numerator), float(exact.denominator)


def _decimals(ratio: tuple[float, float] | None) -> int | None:
    if ratio is None:
        return None
    step = Fraction(int(ratio[0]), int(ratio[1]))
    return max(0, math.ceil(-math.log10(step) - 1e-12))


def _shift(ratio: tuple[float, float] | None) -> float:
    """1.5 * 2^52 steps, where the step is a power of two: one operation on and one off round to it."""
    step = 0.0 if ratio is None else ratio[0] / ratio[1]
    return _SHIFT * step if step and math.frexp(step)[0] == 0.5 else 0.0


def _most(ratio: tuple[float, float]) -> float:
    """How many steps may be counted, so that each is a number of its own."""
    return MOST if _shift(ratio) else float(MOST // ratio[0])


def _rounder(ratio: tuple[float, float] | None) -> Callable[[float], float]:
    """The function that rounds one float, to the bits that the kernels give."""
    if ratio is None:
        return _as_it_is
    n, m = ratio
    scale, most, shift, half = m / n, _most(ratio), _shift(ratio), _shift(ratio) / 3.0

    def rounded(y: float) -> float:
        if -half < y < half:
            return (y + shift) - shift
        if y != y:
            return y
        k = ((y + shift) - shift) * scale
        return (float(round(k)) if -most < k < most else math.copysign(most, k)) * n / m + 0.0

    return rounded


def _as_it_is(y: float) -> float:
    return y + 0.0


def _round_into(Y: Array, ratio: tuple[float, float]) -> None:
    """Round an array in place."""
    n, m = ratio
    if Y.flags.c_contiguous:
        kernels.round_to_lattice(view(Y.reshape(-1)), m / n, n, m, _most(ratio), _shift(ratio))
        return
    part = np.ascontiguousarray(Y)
    kernels.round_to_lattice(view(part.reshape(-1)), m / n, n, m, _most(ratio), _shift(ratio))
    Y[...] = part
