"""A law given by its log-density and nothing else; c.d.f.s and their inverses are computed.

For one number the bulk is searched (`numeric.bulk`), the density integrated in panels (`numeric.panels`),
and the tails beyond them from the log-density outward (`numeric.line`). For several, the channels come
one after the other, and those that follow are integrated out (`numeric.nested`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from understudy.errors import LawError, NumericalError
from understudy.laws.base import Array, Frozen
from understudy.laws.numeric.asked import Asked
from understudy.laws.numeric.bulk import Hint
from understudy.laws.numeric.line import Line
from understudy.laws.numeric.nested import MOST, Nest
from understudy.laws.shapes import channels, check_inside, check_reached, shaped

_FINEST, _COARSEST = 1e-12, 1e-3


class FromDensity(Frozen):
    """The law with the log-density `logpdf`, a function of many candidates at once.

    `logpdf` takes an array ``(N,)`` and gives ``(N,)``; for a law of `dim` channels (up to 3) it takes
    ``(dim, N)``. Scores are right to `accuracy`, and to what one rounding unit of the reading is worth;
    `error` tells the estimate. In the tails beyond |z| = 8 the same holds as long as the log-density does.

    >>> import numpy as np
    >>> law = FromDensity(lambda y: -(y**4) / 4, normalise=True)
    >>> z = law.score([-1.0, 0.0, 6.0])
    >>> (z.round(6) + 0.0).tolist()
    [-1.135127, 0.0, 25.540489]
    >>> law.value(z).round(9).tolist()
    [-1.0, 0.0, 6.0]

    The mass is searched for at all scales from 1e-20 to 1e20. `support` = (low, high) says where it ends
    (one pair for each channel if they differ); `centre` and `scale` help where it is a needle in a
    haystack, `near` are readings that may be close to it. A density that does not integrate to 1 within the
    accuracy is refused, because some of its mass may not have been found; with ``normalise=True`` it is
    divided by what was found, and nothing tells of a needle that was not.

    For several channels the joint density should be smooth, and its support a product of intervals; a law of
    two takes about 20 ms, one of three half a second, and one second where two channels have kinks or modes
    far apart.

    With ``integrate=m`` the function takes ``(dim + m, N)``, and the last m numbers are integrated out;
    together they may be 4. `log_total` is the logarithm of what the density must integrate to, where that is
    not 1. `name` is what messages call the function.
    """

    __slots__ = (
        "_ask",
        "_built",
        "_given",
        "_hints",
        "_supports",
        "accuracy",
        "dim",
        "log_total",
        "normalise",
    )

    _built: tuple[Line, Nest | None]

    def __init__(
        self,
        logpdf: Callable[[Array], Any],
        dim: int = 1,
        *,
        support: Any = None,
        centre: Any = None,
        scale: Any = None,
        near: Any = (),
        integrate: int = 0,
        log_total: float = 0.0,
        normalise: bool = False,
        accuracy: float = 1e-9,
        name: str = "the log-density",
    ) -> None:
        if not callable(logpdf):
            raise LawError(f"logpdf is of type {type(logpdf).__name__}; it must be a function of candidate readings")
        self.dim, self.normalise, self.log_total = dim, normalise, log_total
        self.accuracy = check_accuracy(accuracy)
        size = check_size(dim, integrate)
        self._supports = supports_of(support, size)
        self._hints = _hints(centre, scale, near, size)
        self._ask = Asked(logpdf, name)
        self._given = (logpdf, dim, support, centre, scale, near, integrate, log_total, normalise, accuracy, name)

    def __repr__(self) -> str:
        # The function of a conditional law holds the past readings, so nothing of it is shown.
        return f"FromDensity(dim={self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, self._given

    def __copy__(self) -> FromDensity:
        return self  # a value, and what it has computed is worth keeping

    def __deepcopy__(self, memo: Any) -> FromDensity:
        return self

    @property
    def error(self) -> float:
        """Estimated error of a score, to |z| = 8 (of the first channel, where there are several)."""
        return self._line.error

    @property
    def mass(self) -> float:
        """What the density integrates to, as a multiple of what it must (of 1, if nothing else was said)."""
        return math.exp(min(self._line.log_mass - self.log_total, 700.0))

    def score(self, y: Any, v: Any = None) -> Any:
        """Z = Phi^-1(F(y)), channel by channel given those before it; NaN stays NaN."""
        readings = channels(y, self.dim, "reading")
        z = np.full(readings.shape, np.nan)
        z[0] = self._line.scores(readings[0])
        check_inside(z, np.shape(y))
        for j in range(readings.shape[1] if self.dim > 1 else 0):
            for i in range(1, self.dim):
                if not np.isnan(readings[: i + 1, j]).any():
                    z[i, j] = self._conditional(readings[:i, j]).scores(readings[i : i + 1, j])[0]
        check_inside(z, np.shape(y))
        check_reached(z, _until_missing(readings), np.shape(y), "reading")
        return shaped(z, np.shape(y))

    def value(self, z: Any) -> Any:
        """The reading that has these scores, the inverse of `score`."""
        wanted = channels(z, self.dim, "score")
        y = np.full(wanted.shape, np.nan)
        y[0] = self._line.quantiles(wanted[0])
        for j in range(wanted.shape[1] if self.dim > 1 else 0):
            for i in range(1, self.dim):
                if np.isfinite(y[:i, j]).all() and not np.isnan(wanted[i, j]):
                    y[i, j] = self._conditional(y[:i, j]).quantiles(wanted[i : i + 1, j])[0]
        check_reached(y, _until_missing(wanted), np.shape(z), "score")
        return shaped(y, np.shape(z))

    def logpdf(self, y: Any) -> Any:
        """Log-density of the channels together, normalised."""
        readings, (first, nest) = channels(y, self.dim, "reading"), self._parts
        out = first.logpdf(readings[0]) if nest is None else nest.logpdf(readings) - first.log_mass
        return shaped(out, np.shape(y) if self.dim == 1 else np.shape(y)[1:])

    @property
    def _line(self) -> Line:
        """The law of the first channel."""
        return self._parts[0]

    @property
    def _parts(self) -> tuple[Line, Nest | None]:
        """The law of the first channel, and the nest of all where there are several; computed once."""
        if not hasattr(self, "_built"):
            built = None
            try:
                built = self._build(careful=False)
            except NumericalError:
                # Mass may be missing, or several numbers be less smooth than the quick way wants them.
                if len(self._hints) > 2:
                    raise
            object.__setattr__(self, "_built", built or self._build(careful=True))
        return self._built

    def _build(self, careful: bool) -> tuple[Line, Nest | None]:
        nest, hints = None, self._hints
        if len(hints) == 1:
            first = Line(self._ask, self._supports[0], hints[0]._replace(thorough=careful), self.accuracy)
        else:
            nest = Nest(self._ask, self._supports, hints, self.accuracy, careful)
            first = nest.line(np.empty(0))
        off = abs(first.log_mass - self.log_total)
        if not (self.normalise or off <= self.accuracy or off <= first.error + 1e-14 * abs(self.log_total)):
            raise NumericalError(
                f"{self._ask.name}: the density does not integrate to 1 within {self.accuracy:g}; it is not "
                "normalised (normalise=True accepts that), or part of it was not found (centre= and scale= help)"
            )
        return first, nest

    def _conditional(self, y: Array) -> Line:
        """The law of the channel that follows the first ones (l,)."""
        _, nest = self._parts
        if nest is None:
            raise TypeError("a law of one number has no later channels")
        line, log_mass = nest.conditional(y)
        if not abs(line.log_mass - log_mass) <= 10.0 * self.accuracy + line.error:
            raise NumericalError(
                f"{self._ask.name} gives two different masses to channel {y.size + 1}: part of it was not found "
                "(centre= and scale= help)"
            )
        return line


def check_accuracy(accuracy: Any) -> float:
    """The accuracy, if it is one that can be promised."""
    if not isinstance(accuracy, (int, float)) or not _FINEST <= accuracy <= _COARSEST:
        raise LawError(f"accuracy = {accuracy!r}; it must be a number from {_FINEST:g} to {_COARSEST:g}")
    return float(accuracy)


def check_size(dim: Any, integrate: Any) -> int:
    """How many numbers a log-density takes, if they are few enough."""
    for name, value, least in (("dim", dim, 1), ("integrate", integrate, 0)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise LawError(f"{name} = {value!r}; it must be a whole number of at least {least}")
    if dim > 3:
        raise LawError(
            f"dim = {dim}; channels are integrated out one inside the other, feasible for 3 at most; for more, "
            "use a law whose conditionals are known (us.Gaussian, us.Independent), or a class of your own"
        )
    if dim + integrate > MOST:
        raise LawError(
            f"{dim + integrate} numbers are to be integrated, one inside the other; {MOST} at most are feasible"
        )
    return int(dim + integrate)


def supports_of(support: Any, size: int) -> list[tuple[float, float]]:
    """One pair (low, high) for each number."""
    if support is None:
        return [(-math.inf, math.inf)] * size
    try:
        pairs = np.broadcast_to(np.asarray(support, dtype=float), (size, 2)).tolist()
    except (TypeError, ValueError):
        raise LawError(f"support = {support!r}; it must be (low, high), or one such pair for each channel") from None
    for low, high in pairs:
        if not low < high or low == math.inf or high == -math.inf:
            raise LawError(f"support = ({low!r}, {high!r}); low must be below high")
    return [(low, high) for low, high in pairs]


def _hints(centre: Any, scale: Any, near: Any, size: int) -> list[Hint]:
    given: dict[str, list[float | None]] = {}
    for name, value in (("centre", centre), ("scale", scale)):
        if value is None:
            given[name] = [None] * size
            continue
        try:
            numbers = np.broadcast_to(np.asarray(value, dtype=float), (size,))
        except (TypeError, ValueError):
            raise LawError(f"{name} is of type {type(value).__name__}; it must be a number, or one a channel") from None
        if not np.isfinite(numbers).all() or (name == "scale" and (numbers <= 0).any()):
            rule = "positive and finite" if name == "scale" else "finite"
            raise LawError(f"{name} has an entry that breaks the rule; each must be {rule}")
        given[name] = numbers.tolist()
    if size == 1:
        seeds = np.asarray(near, dtype=float).reshape(-1, 1)
    else:
        seeds = np.array([np.broadcast_to(np.asarray(x, dtype=float), (size,)) for x in near]).reshape(-1, size)
    return [
        Hint(c, s, tuple(column))
        for c, s, column in zip(given["centre"], given["scale"], seeds.T.tolist(), strict=True)
    ]


def _until_missing(rows: Array) -> Array:
    """NaN from the first NaN of each column on: a channel after a missing one has no score."""
    return np.where(np.logical_or.accumulate(np.isnan(rows), axis=0), np.nan, rows)


def _again(*given: Any) -> FromDensity:
    logpdf, dim, support, centre, scale, near, integrate, log_total, normalise, accuracy, name = given
    return FromDensity(
        logpdf,
        dim,
        support=support,
        centre=centre,
        scale=scale,
        near=near,
        integrate=integrate,
        log_total=log_total,
        normalise=normalise,
        accuracy=accuracy,
        name=name,
    )
