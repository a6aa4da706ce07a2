"""Any joint density (paper, Section III): the user writes it down, everything else is computed.

The law of reading k given the past is a density in y_k. `General` takes it as a function, or takes the
joint density of the sequence and conditions it itself; `laws.numeric` does the integrals.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Numbers
from understudy.errors import LawError, MissingReadingError, ModelError, NumericalError, ReadingError
from understudy.laws.law import Law
from understudy.laws.numeric import MOST, FromDensity, LogDensity, check_accuracy, check_size, supports_of
from understudy.models.iid_markov import law_dim, takes_k

Hint: TypeAlias = "ArrayLike | Callable[[Array], ArrayLike] | None"
"""A centre or a scale, or a function of the past that gives it."""


class Past(NamedTuple):
    """How many readings there were, and those that count: (m,) or (m, d), the last one last."""

    k: int
    readings: Array


class General(Frozen):
    """The model of a density that the user writes down: exactly one of `conditional` and `joint`.

    ``conditional(y, past)`` is log p(y_k = y | past). `y` are many candidates at once, ``(N,)`` or
    ``(dim, N)``; `past` are the readings before, ``(k - 1,)`` or ``(k - 1, dim)``, read-only; the result is
    ``(N,)``. With a third argument it receives k. Noise with the density exp(-e^4 / 4), for example:

    >>> import math
    >>> import numpy as np
    >>> import understudy as us
    >>> log_c = math.log(math.sqrt(2.0) * math.gamma(0.25) / 2.0)
    >>> def noise(y, past):
    ...     last = past[-1] if past.size else 0.0
    ...     return -((y - 0.5 * last) ** 4) / 4 - log_c
    >>> model = General(conditional=noise, memory=1)
    >>> us.whiten([1.0, 1.5], model).round(6).tolist()
    [1.135127, 1.135127]

    Or two modes, where the last reading says how likely each is:

    >>> def two(y, past):
    ...     p = 1.0 / (1.0 + np.exp(-past[-1]))
    ...     up, down = -0.5 * (y - 3.0) ** 2, -0.5 * (y + 3.0) ** 2
    ...     return np.logaddexp(np.log(p) + up, np.log1p(-p) + down) - 0.5 * math.log(2 * math.pi)
    >>> model = General(conditional=two, initial=us.Gaussian(0.0, 1.0), memory=1)
    >>> us.disguise([0.5, 2.0], source=model, target=us.IID(us.Gaussian(0.0, 1.0))).round(6).tolist()
    [0.5, -0.05945]

    ``joint(Y)`` is log p(y_1, ..., y_k) of sequences of any length k, an array ``(k, N)`` or ``(k, dim, N)``,
    and gives ``(N,)``. Each reading is conditioned on the past, and the joint densities of k and of k - 1
    readings are seen to agree; with ``normalise=True`` they need not.

    >>> def chain(Y):
    ...     e = Y - 0.5 * np.concatenate([np.zeros_like(Y[:1]), Y[:-1]])
    ...     return (-0.5 * e**2 - 0.5 * math.log(2 * math.pi)).sum(axis=0)
    >>> us.whiten([1.0, 1.5, -0.25], General(joint=chain)).round(9).tolist()
    [1.0, 1.0, -1.0]

    With ``steps=T`` the joint density takes exactly T readings, ``(T, N)`` or ``(T, dim, N)``, and those that
    are still to come are integrated out; this is feasible for T dim up to 4 (and takes seconds at 4).

    `initial` is the law of y_1, where the function needs a past. With ``memory=p`` only the last p readings are
    passed on (to `joint`, in front of the candidate): a long stream then costs the same at every
    step. `support`, `accuracy` (of a score), `normalise`, `centre` and `scale` are as in `FromDensity`; the
    last two may be functions of the past.

    A missing reading is refused: no exact law across a gap is known.
    """

    __slots__ = (
        "_first",
        "_steady",
        "_takes_k",
        "accuracy",
        "centre",
        "conditional",
        "dim",
        "initial",
        "joint",
        "memory",
        "normalise",
        "scale",
        "steps",
        "support",
    )

    score_tolerance = 1e-9
    """How far a score may be from the exact one: laws are integrated numerically."""

    def __init__(
        self,
        conditional: Callable[..., Any] | None = None,
        *,
        joint: Callable[[Array], Any] | None = None,
        dim: int = 1,
        support: ArrayLike | None = None,
        initial: Law | None = None,
        memory: int | None = None,
        steps: int | None = None,
        normalise: bool = False,
        accuracy: float = 1e-9,
        centre: Hint = None,
        scale: Hint = None,
    ) -> None:
        _check_functions(conditional, joint)
        _check_counts(memory, steps, joint)
        try:
            self.accuracy = check_accuracy(accuracy)
            check_size(dim, 0)
            self.support = supports_of(support, dim)
        except LawError as error:
            raise ModelError(str(error)) from None
        if steps is not None and steps * dim > MOST:
            raise ModelError(
                f"steps = {steps} with dim = {dim}: {steps * dim} numbers would be integrated, one inside the other, "
                f"and {MOST} at most are feasible; give joint= for every length (without steps=), or conditional="
            )
        if initial is not None and law_dim(initial, "initial") != dim:
            raise ModelError(f"initial has {law_dim(initial, 'initial')} channels and dim = {dim}; they must agree")
        self.conditional, self.joint, self.initial = conditional, joint, initial
        self.dim, self.memory, self.steps = dim, memory, steps
        self.normalise, self.centre, self.scale = normalise, centre, scale
        self._takes_k = conditional is not None and takes_k(conditional, 2, "conditional")
        try:
            self._first: Law = self._checked_first() if initial is None else initial
            steady: Law | None = None
            if memory == 0 and not self._takes_k:
                steady = self._first if initial is None else self._law(2, self.start().readings)
            self._steady = steady
            if initial is not None:
                self._probe(2, self.update(self.start(), initial.value(0.0 if dim == 1 else np.zeros(dim))).readings)
        except NumericalError as error:
            raise ModelError(str(error)) from None  # no reading has been seen yet, so it is the configuration

    def __repr__(self) -> str:
        return f"General(dim={self.dim})"

    def __reduce__(self) -> tuple[Callable[[], General], tuple[()]]:
        return partial(General, **{name: getattr(self, name) for name in inspect.signature(General).parameters}), ()

    def __copy__(self) -> General:
        return self  # a value, and its first law may have taken seconds

    def __deepcopy__(self, memo: dict[int, Any]) -> General:
        return self

    def start(self) -> Past:
        """No reading yet."""
        return Past(0, _freeze(np.empty((0, self.dim) if self.dim > 1 else 0)))

    def predict(self, state: Past) -> Law:
        """The law of the next reading; its integrals are done when it is first asked."""
        k, past = state
        if self.steps is not None and k >= self.steps:
            raise ModelError(f"the joint density is one of {self.steps} readings; there is no reading {k + 1}")
        if k == 0:
            return self._first
        return self._steady if self._steady is not None else self._law(k + 1, past)

    def update(self, state: Past, y: Numbers) -> Past:
        """The past with one more reading."""
        k, past = state
        reading = np.asarray(y, dtype=float)
        if reading.size != self.dim or not np.isfinite(reading).all():
            raise ReadingError(f"reading number {k + 1} must have {self.dim} channels, all of them finite numbers")
        kept = np.concatenate([past, reading.reshape(1, *past.shape[1:])])
        if self.memory is not None:
            kept = kept[max(len(kept) - self.memory, 0) :].copy()
        return Past(k + 1, _freeze(kept))

    def skip(self, state: Past) -> Past:
        """Refused."""
        raise MissingReadingError(
            f"reading number {state.k + 1} is missing, and a model given by its density has no law across a gap; "
            "fill the gap before"
        )

    def _law(self, k: int, past: Array, normalise: bool = False) -> FromDensity:
        function, log_total = self._density(k, past)
        ahead = 0 if self.steps is None else (self.steps - k) * self.dim
        tiles = 1 + ahead // self.dim
        try:
            return FromDensity(
                function,
                self.dim,
                support=self.support * tiles,
                centre=_hint("centre", self.centre, k, past, tiles),
                scale=_hint("scale", self.scale, k, past, tiles),
                near=past[-2:] if tiles == 1 else [np.tile(row, tiles) for row in past[-2:]],
                integrate=ahead,
                log_total=log_total,
                # What a whole-length density integrates to was looked at before the first reading.
                normalise=normalise or self.normalise or self.steps is not None,
                accuracy=self.accuracy,
                name=self._name(k),
            )
        except LawError as error:
            raise NumericalError(f"reading number {k}: {error}") from None

    def _name(self, k: int) -> str:
        return f"reading number {k}: the log-density {'conditional' if self.joint is None else 'joint'}"

    def _density(self, k: int, past: Array) -> tuple[Callable[[Array], Any], float]:
        """The log-density of candidates (numbers, N) or (N,), and the logarithm of what it must integrate to."""
        conditional, joint, row = self.conditional, self.joint, past.shape[1:]
        if conditional is not None:
            clock = (k,) if self._takes_k else ()
            return lambda y: conditional(y, past, *clock), 0.0
        if joint is None:
            raise TypeError("a model has a conditional or a joint density")

        def whole(y: Array) -> Any:
            N = y.shape[-1]
            before = np.broadcast_to(past[..., None], (*past.shape, N))
            return joint(_freeze(np.concatenate([before, y.reshape(-1, *row, N)])))

        if self.normalise or self.steps is not None or not past.size:
            return whole, 0.0
        before = _freeze(np.ascontiguousarray(past[..., None]))
        log_total = float(LogDensity(lambda _: joint(before), self._name(k))(np.zeros(1))[0])
        if math.isinf(log_total):
            raise NumericalError(f"{self._name(k)} is -inf for the readings before it; the model does not allow them")
        return whole, log_total

    def _checked_first(self) -> FromDensity:
        """The law of y_1: it depends on no reading, so that what is wrong with it may be told in full."""
        past = self.start().readings
        self._probe(1, past)
        law = self._law(1, past, normalise=True)
        mass, error = law.mass, law.error
        if not self.normalise and not abs(mass - 1.0) <= self.accuracy + error:
            found = f"{mass:.9g}" if abs(mass - 1.0) > 1e-6 else f"1 {mass - 1.0:+.2g}"
            raise ModelError(
                f"{self._name(1)}: the density integrates to {found}, not 1; normalise=True divides by what was found, "
                "and centre= and scale= help where part of it was not found"
            )
        return law

    def _probe(self, k: int, past: Array) -> None:
        """Calls the function before any reading has come, so that a mistake in it is told in its own words."""
        function, _ = self._density(k, past)
        numbers = self.dim if self.steps is None else (self.steps - k + 1) * self.dim
        rows = [support.x(np.array([-0.5, 0.0, 0.5])) for support in self.support] * (numbers // self.dim)
        candidates = _freeze(rows[0] if numbers == 1 else np.stack(rows))
        try:
            with np.errstate(all="ignore"):
                function(candidates)
        except Exception as error:
            hint = "; past is empty there: treat that, or give initial=, the law of y_1" if k == 1 else ""
            raise ModelError(f"{self._name(k)} raised {type(error).__name__} ({error}){hint}") from None
        LogDensity(function, self._name(k)).search(candidates)


def _check_functions(conditional: Callable[..., Any] | None, joint: Callable[..., Any] | None) -> None:
    if (conditional is None) == (joint is None):
        raise ModelError("exactly one of conditional= and joint= must be given: a model has one density")
    for name, function in (("conditional", conditional), ("joint", joint)):
        if function is not None and not callable(function):
            raise ModelError(f"{name} is of type {type(function).__name__}; it must be a function")


def _check_counts(memory: int | None, steps: int | None, joint: Callable[..., Any] | None) -> None:
    for name, count, least in (("memory", memory, 0), ("steps", steps, 1)):
        whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
        if count is not None and not (whole and count >= least):
            raise ModelError(f"{name} = {count!r}; it must be a whole number of at least {least}")
    if steps is not None and (joint is None or memory is not None):
        raise ModelError("steps= says how many readings joint= takes; it goes with joint=, and without memory=")


def _hint(name: str, given: Hint, k: int, past: Array, tiles: int) -> Array | None:
    """A centre or a scale, for each number that the density takes."""
    if given is None:
        return None
    try:
        value = np.asarray(given(past) if callable(given) else given, dtype=float)
        return np.tile(np.broadcast_to(value, past.shape[1:] or (1,)), tiles)
    except Exception as error:
        raise NumericalError(f"reading number {k}: {name} raised {type(error).__name__}") from None


def _freeze(array: Array) -> Array:
    array.flags.writeable = False
    return array
