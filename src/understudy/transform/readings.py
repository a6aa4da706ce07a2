"""Readings: how they come in, the maps that act on them, and the public lattice on which they leave.

Time comes first: ``(T,)`` for a scalar model, ``(T, d)``, or ``(T, d, N)`` = time, channel, sensor. A missing reading
is NaN, or None where one reading is given. Shapes, types and missing values are checked at the door; errors name
position, type and rule, never a value.

A `CausalMap` takes readings in and gives readings out, one at a time or in chunks. It holds no state: the state before
the first reading comes from `start`, and every call returns the next one.

A `Lattice` has one step for each channel, the same for every parameter. It is needed because doubles are a lattice too,
the coarser the larger they are. A reading y and its prediction under the source are multiples of ulp(y), so their
difference is one; the transformation carries it into outputs of smaller magnitude, whose ulp is finer, and whoever runs
the target's public filter over the outputs sees the coarse lattice of the source. So what leaves is rounded to a
lattice of the design, *after* the filter, which goes on with its own unrounded value: what is released is a function of
the output, and tells no more. Which lattice a design has by default is decided in `understudy.stream.release`.

>>> lattice = Lattice([0.25, 0.01])
>>> lattice.rounded(np.array([[100.3, 0.12345], [-0.01, 7.0]])).tolist()
[[100.25, 0.12], [0.0, 7.0]]
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Mask, Numbers
from understudy.errors import ConfigurationError, IncompleteReadingWarning, ReadingError
from understudy.transform.backend import kernels, view

State: TypeAlias = tuple[Any, ...]
"""What a map carries from reading to reading: a tuple of numbers, arrays and further tuples, which a file can hold; or
what a model of one's own carries."""
Reading: TypeAlias = float | Array | None
"""One reading: a number, an array (d,), or None where it is missing."""


class CausalMap:
    """state, input -> state, output; `step` and `apply` agree bit for bit."""

    dim: int

    def start(self) -> State:
        """State before the first reading."""
        raise NotImplementedError  # each subclass has its own

    def apply(self, state: State, Y: Array, out: Array | None = None) -> tuple[State, Array]:
        """A chunk (T, d); the output is in `out` if that is given, which may be Y."""
        raise NotImplementedError  # each subclass has its own

    def step(self, state: State, y: Reading) -> tuple[State, Numbers]:
        """One reading; None or NaN is missing and stays so."""
        state, out = self.apply(state, one_reading(y, self.dim))
        return state, float(out[0, 0]) if self.dim == 1 else np.asarray(out[0])

    def leap(self, state: State, count: int) -> State | None:
        """The state after so many missing readings, in less than one step for each; None where that is not known."""
        return None

    def sensor(self, j: int) -> CausalMap:
        """The map for sensor j of several: the same, unless it needs auxiliary uniforms of its own."""
        return self


class Transformation(CausalMap):
    """A causal map from readings to readings, with a source that can skip while its target goes on."""

    def fresh(self, state: State, z: Array) -> tuple[State, Array]:
        """Steps in which the source skips readings and the target is given the scores z (T, d)."""
        raise NotImplementedError  # each subclass has its own


def same_runs(mask: Mask) -> Iterator[tuple[int, int]]:
    """First and end of the rows over which the mask does not change.

    >>> list(same_runs(np.array([True, True, False, True])))
    [(0, 2), (2, 3), (3, 4)]
    """
    cuts = [0, *(np.flatnonzero(mask[1:] != mask[:-1]) + 1).tolist(), len(mask)]
    return pairwise(cuts if len(mask) else [])


def deliver(made: Array, out: Array | None) -> Array:
    """`made`, or `out` with what was made in it."""
    if out is None or made is out:
        return made
    out[...] = made
    return out


def as_readings(Y: ArrayLike, dim: int, name: str = "Y") -> Array:
    """An array (T, d) or (T, d, N) of floats, NaN where a reading is missing."""
    array = _floats(Y, name)
    if array.ndim == 0 or array.size == 0:
        raise ReadingError(f"{name} has shape {array.shape}; it must hold at least one reading, time first")
    if array.ndim == 1:
        if dim != 1:
            raise ReadingError(
                f"{name} has shape {array.shape}; a model of {dim} channels needs (T, {dim}) or (T, {dim}, N)"
            )
        return np.ascontiguousarray(array)[:, None]
    if array.ndim > 3 or array.shape[1] != dim:
        hint = f"; for {array.shape[1]} sensors write {name}[:, None, :]" if dim == 1 and array.ndim == 2 else ""
        shapes = "(T,), (T, 1) or (T, 1, N)" if dim == 1 else f"(T, {dim}) or (T, {dim}, N)"
        raise ReadingError(f"{name} has shape {array.shape}; this model needs {shapes}{hint}")
    return np.ascontiguousarray(array)


def one_reading(y: ArrayLike | None, dim: int) -> Array:
    """One reading as an array (1, d); None is missing."""
    if y is None:
        return np.full((1, dim), np.nan)
    array = _floats(y, "the reading")
    if array.size != dim or array.ndim > 1:
        raise ReadingError(f"the reading has shape {array.shape}; it must have {dim} channel{'s' if dim > 1 else ''}")
    return np.ascontiguousarray(array).reshape(1, dim)


def finite_or_missing(Y: Array) -> Mask:
    """Which rows (T, N or nothing) are missing, after refusing infinities."""
    bad = np.isinf(Y)
    if bad.any():
        raise infinite(int(np.argwhere(bad)[0][0]))
    return np.asarray(np.isnan(Y).any(axis=1))


def infinite(row: int) -> ReadingError:
    """The error for a reading that is not a finite number."""
    return ReadingError(f"the reading in row {row} is infinite; a reading is a finite number, or NaN if missing")


def warn_incomplete(Y: Array, partial: bool, stacklevel: int = 4) -> None:
    """Say how many vectors had some channels missing and were therefore counted as missing whole."""
    if partial or Y.shape[1] == 1:
        return
    gone = np.isnan(Y).sum(axis=1)
    count = int(((gone > 0) & (gone < Y.shape[1])).sum())
    if count:
        warnings.warn(
            f"{count} readings have some channels missing and count as missing whole "
            "(partial=True uses what is there, for Gauss-Markov models)",
            IncompleteReadingWarning,
            stacklevel=stacklevel,
        )


def as_output(out: Array, Y: ArrayLike, name: str = "Y") -> Array:
    """The array `out`, if results for `Y` can be written into it: what numpy calls `out`.

    >>> import numpy as np
    >>> as_output(np.empty(3), [1.0, 2.0, 3.0]).shape
    (3,)
    >>> as_output(np.empty(2), [1.0, 2.0, 3.0])
    Traceback (most recent call last):
    understudy.errors.ConfigurationError: out has shape (2,); it must have that of Y, (3,)
    """
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise ConfigurationError(f"out is of type {type(out).__name__}; it must be a numpy array")
    if out.shape != np.shape(Y):
        raise ConfigurationError(f"out has shape {out.shape}; it must have that of {name}, {np.shape(Y)}")
    if out.dtype != np.float64:
        raise ConfigurationError(f"out is of type {out.dtype}; it must be float64, in the machine's byte order")
    if not out.flags.c_contiguous:
        raise ConfigurationError("out is not contiguous; it must be an array in C order, such as numpy.empty gives")
    if not out.flags.writeable:
        raise ConfigurationError("out is read-only; it must be an array that can be written to")
    if isinstance(Y, np.ndarray) and np.may_share_memory(out, Y):
        same = Y.dtype == out.dtype and Y.flags.c_contiguous and Y.ctypes.data == out.ctypes.data
        if not same:
            raise ConfigurationError(
                f"out shares a part of its memory with {name}; it must be all of {name} or none of it"
            )
    return out


def _floats(Y: ArrayLike, name: str) -> Array:
    if isinstance(Y, np.ma.MaskedArray):
        data, mask = np.ma.getdata(Y).copy(), np.ma.getmaskarray(Y)
        if data.dtype.kind == "O":
            data[mask] = None
        return np.where(mask, np.nan, _floats(data, name))
    try:
        array = np.asarray(Y)
    except ValueError:
        raise ReadingError(f"{name} is ragged; every reading must have the same channels") from None
    kind = array.dtype.kind
    if kind == "O":  # numbers mixed with None
        for position, value in np.ndenumerate(array):
            if value is not None and (not isinstance(value, numbers.Real) or isinstance(value, bool)):
                raise ReadingError(
                    f"{name} holds a {type(value).__name__} at {position}; a reading is a number, or None if missing"
                )
        try:
            return array.astype(float)
        except (TypeError, ValueError, OverflowError):
            raise ReadingError(f"{name} holds a number that double precision cannot hold") from None
    if kind not in "fiu":
        raise ReadingError(f"{name} is of type {array.dtype}; readings are numbers")
    return array if array.dtype == np.float64 else array.astype(float)


# The public lattice on which readings leave --------------------------------------------------------------


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
        return 0.0 if self._ratios[0] is None else self._ratios[0].shift

    @property
    def decimals(self) -> tuple[int | None, ...]:
        """Decimals that tell all values of the lattice apart, by channel; None where the channel has no step."""
        return tuple(None if ratio is None else ratio.decimals for ratio in self._ratios)

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


class _Ratio(NamedTuple):
    """A step as n / m, both whole and exact in double precision."""

    n: float
    m: float
    shift: float
    """1.5 * 2^52 steps, where the step is a power of two: one operation on and one off round to it; otherwise 0."""
    most: float
    """How many steps may be counted, so that each is a number of its own."""

    @property
    def decimals(self) -> int:
        """Decimals that tell all multiples of the step apart."""
        return max(0, math.ceil(-math.log10(Fraction(int(self.n), int(self.m))) - 1e-12))


def _ratio(step: float) -> _Ratio | None:
    if step == 0.0:
        return None
    binary = math.frexp(step)[0] == 0.5
    exact = Fraction(step) if binary else Fraction(repr(step))
    n = float(exact.numerator)
    return _Ratio(n, float(exact.denominator), _SHIFT * step if binary else 0.0, MOST if binary else float(MOST // n))


def _rounder(ratio: _Ratio | None) -> Callable[[float], float]:
    """The function that rounds one float, to the bits that the kernels give."""
    if ratio is None:
        return _as_it_is
    n, m, shift, most = ratio
    scale, half = m / n, shift / 3.0

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


def _round_into(Y: Array, ratio: _Ratio) -> None:
    """Round an array in place."""
    n, m, shift, most = ratio
    part = np.ascontiguousarray(Y)
    kernels.round_to_lattice(view(part.reshape(-1)), m / n, n, m, most, shift)
    if part is not Y:
        Y[...] = part
