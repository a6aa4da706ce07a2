"""Any continuous law of one number, as `scipy.stats` gives it: heavy tails, skewness, bounds.

`Scalar` takes the distribution apart into location, scale and a standard law, because the standard
law keeps its digits next to the end of its support, where ``y`` itself would have lost them. The
arithmetic of the tails is in `tails`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from understudy.errors import LawError
from understudy.laws.base import Array
from understudy.laws.closed import closed_form
from understudy.laws.shapes import channels, check_inside, check_reached, shaped
from understudy.laws.tails import TRUSTED, Density, Function, quantiles, scores

_RULE = "a law of one number is a frozen continuous scipy.stats distribution, such as scipy.stats.t(3, loc=1)"
_NOTHING = -1e6  # a log-density below which the rest of a tail is nothing, whatever its length in float64


class Scalar:
    """The law of a frozen continuous scipy.stats distribution.

    Scores come from the logarithm of the smaller tail, so they are right far beyond the point
    (about 8) where a distribution function has become 0 or 1.

    >>> import scipy.stats
    >>> law = Scalar(scipy.stats.t(3, loc=20.0))
    >>> law
    Scalar(t, dim=1)
    >>> law.score(20.0)
    0.0
    >>> round(law.score(law.value(30.0)), 9)
    30.0

    Parameters of shape ``(d,)`` give d independent channels, on the first axis of a reading.

    >>> pair = Scalar(scipy.stats.expon(scale=[1.0, 10.0]))
    >>> pair.score(pair.value([-1.0, 2.0])).round(9).tolist()
    [-1.0, 2.0]
    """

    __slots__ = ("_channels", "_dist", "_family", "dim")

    dim: int

    def __init__(self, dist: Any) -> None:
        self._dist = dist
        self._family, self._channels = _channels(dist)
        self.dim = len(self._channels)

    @property
    def dist(self) -> Any:
        """The distribution that was given."""
        return self._dist

    def __reduce__(self) -> tuple[Any, ...]:
        return Scalar, (self._dist,)

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"Scalar({self._family}, dim={self.dim})"

    def score(self, y: Any, v: Any = None) -> Any:
        """Z = Phi^-1(F(y)), channel by channel; NaN stays NaN."""
        readings = channels(y, self.dim, "reading")
        z = self._scores(readings)
        check_inside(z, np.shape(y))
        check_reached(z, readings, np.shape(y), "reading")
        return shaped(z, np.shape(y))

    def score_or_end(self, y: Any) -> Any:
        """The score, or -inf below the support and inf above, where `score` refuses: what a mixture needs.

        Far out where the density is below exp(-1e6) and its tail cannot be integrated, an infinity too.
        """
        readings = channels(y, self.dim, "reading")
        z = self._scores(readings)
        lost = np.isnan(z) & ~np.isnan(readings)
        if lost.any():
            for i, channel in enumerate(self._channels):
                at = np.flatnonzero(lost[i])
                z[i, at] = channel.end(readings[i, at])
            lost = np.isnan(z)
            check_reached(np.where(lost, z, 0.0), readings, np.shape(y), "reading")
        return shaped(z, np.shape(y))

    def _scores(self, readings: Array) -> Array:
        return np.stack([channel.score(row) for channel, row in zip(self._channels, readings, strict=True)])

    def value(self, z: Any) -> Any:
        """Y = F^-1(Phi(z)), the inverse of `score`, rounded to a float inside the support.

        It is within one rounding unit of the quantile (of y, or of loc where that is larger): next to
        the end of a support, the last float inside. A quantile beyond the largest float is an error.
        """
        wanted = channels(z, self.dim, "score")
        y = np.stack([channel.value(row) for channel, row in zip(self._channels, wanted, strict=True)])
        check_reached(y, wanted, np.shape(z), "score")
        return shaped(y, np.shape(z))

    def logpdf(self, y: Any) -> Any:
        """Log-density, summed over the channels."""
        readings = channels(y, self.dim, "reading")
        rows = [channel.logpdf(row) for channel, row in zip(self._channels, readings, strict=True)]
        shape = np.shape(y) if self.dim == 1 else np.shape(y)[1:]
        return shaped(np.sum(rows, axis=0), shape)


class _Channel:
    """y = loc + scale x, with x from a standard law."""

    __slots__ = ("_law", "_loc", "_scale")

    def __init__(self, law: Density, loc: float, scale: float) -> None:
        self._law, self._loc, self._scale = law, loc, scale

    def score(self, y: Array) -> Array:
        law, loc, scale = self._law, self._loc, self._scale
        with np.errstate(over="ignore"):
            x = (y - loc) / scale
        if math.isinf(law.lower) and math.isinf(law.upper):
            return scores(law, x)
        # Inside or outside is decided for y, so that rounding in x never throws a reading out.
        x = law.within(x)
        x[y <= loc + scale * law.lower], x[y >= loc + scale * law.upper] = -np.inf, np.inf
        return scores(law, x)

    def end(self, y: Array) -> Array:
        """-inf or inf where the density is as good as zero, NaN elsewhere."""
        nothing = self.logpdf(y) < _NOTHING
        median = self._loc + self._scale * self._law.middle[0]
        return np.where(nothing, np.where(y < median, -np.inf, np.inf), np.nan)

    def value(self, z: Array) -> Array:
        law, loc, scale = self._law, self._loc, self._scale
        with np.errstate(over="ignore"):
            return law.within(loc + scale * quantiles(law, z), loc, scale)

    def logpdf(self, y: Array) -> Array:
        law = self._law
        with np.errstate(all="ignore"):
            x = (y - self._loc) / self._scale
            height = np.asarray(law.logpdf(np.clip(x, law.lower, law.upper)), dtype=float) - math.log(self._scale)
            return np.where((x < law.lower) | (x > law.upper), -np.inf, height)


def _channels(dist: Any) -> tuple[str, list[_Channel]]:
    import scipy.stats

    if isinstance(getattr(dist, "dist", None), scipy.stats.rv_continuous) and hasattr(dist, "args"):
        return _from_frozen(dist)
    if all(hasattr(dist, name) for name in ("logpdf", "ccdf", "icdf", "iccdf", "support")):
        return _from_variable(dist)
    raise LawError(f"{_shown(dist)} is not a law; {_RULE}")


def _from_frozen(dist: Any) -> tuple[str, list[_Channel]]:
    """The channels of ``scipy.stats.name(*args, **kwds)``."""
    family = dist.dist
    names = [*(family.shapes.replace(",", " ").split() if family.shapes else []), "loc", "scale"]
    given = {"loc": 0.0, "scale": 1.0, **dict(zip(names, dist.args, strict=False)), **dist.kwds}
    name = str(family.name)
    try:
        arrays = np.broadcast_arrays(*[np.asarray(given[key], dtype=float) for key in names])
    except (KeyError, TypeError, ValueError):
        raise LawError(f"the parameters of {name} must be numbers, or vectors of one length") from None
    shape = arrays[0].shape
    if arrays[0].size == 0 or (len(shape) > 1 and arrays[0].size > 1):
        raise LawError(f"the parameters of {name} have shape {shape}; they must be numbers or vectors (d,)")
    rows = np.stack([array.ravel() for array in arrays], axis=1).tolist()
    return name, [_standard(family, name, dict(zip(names, row, strict=True))) for row in rows]


def _standard(family: Any, name: str, given: dict[str, float]) -> _Channel:
    import scipy.stats

    loc, scale = given.pop("loc"), given.pop("scale")
    if not math.isfinite(loc):
        raise LawError(f"loc = {loc!r}; the location of {name} must be finite")
    if not 0.0 < scale < math.inf:
        raise LawError(f"scale = {scale!r}; the scale of {name} must be positive and finite")
    with np.errstate(all="ignore"):
        lower, upper = (float(end) for end in family.support(**given))
    if not lower < upper:
        shapes = ", ".join(f"{key} = {number!r}" for key, number in given.items())
        raise LawError(f"{shapes}: not valid parameters of scipy.stats.{name}")
    cdf, sf, ppf, isf = (_function(family, key, given) for key in ("cdf", "sf", "ppf", "isf"))
    logpdf, power = _log_density(family, given)
    # scipy's generic inverse is a slow search, whose end is not certain far out
    reach = 1e-12 if type(family)._ppf is not scipy.stats.rv_continuous._ppf else TRUSTED
    closed = closed_form(family, given)
    return _Channel(Density(logpdf, cdf, sf, ppf, isf, lower, upper, power, reach, closed), loc, scale)


def _function(family: Any, name: str, given: dict[str, float]) -> Function:
    """One function of the standard law, for arguments inside the support (probabilities inside (0, 1)).

    scipy's checks of arguments take ten times as long as the formula of a typical family, so the
    formula is called, which every family defines under the underscored name.
    """
    from scipy.stats import rv_continuous

    if getattr(type(family), name) is not getattr(rv_continuous, name):  # levy_stable does more than check
        return partial(getattr(family, name), **given)
    formula, shapes = getattr(family, "_" + name), list(given.values())

    def function(x: Array) -> Any:
        flat = np.ravel(np.asarray(x, dtype=float))
        if not flat.size:
            return np.empty(np.shape(x))
        # a formula may pick entries of its parameters by a mask over x
        return np.reshape(formula(flat, *[np.full(flat.shape, shape) for shape in shapes]), np.shape(x))

    return function


def _from_variable(dist: Any) -> tuple[str, list[_Channel]]:
    """The channel of a distribution of scipy's newer kind, such as ``scipy.stats.Normal()``."""
    name = type(dist).__name__
    with np.errstate(all="ignore"):
        lower, upper = (np.asarray(end, dtype=float) for end in dist.support())
        if lower.size != 1 or upper.size != 1:
            raise LawError(f"the parameters of {name} are arrays; join one law a channel by Independent")
        height = float(np.asarray(dist.logpdf(dist.icdf(0.5))).item())
    if not (lower < upper and math.isfinite(height)):
        raise LawError(f"{name} has no finite density at its median (discrete, or bad parameters); {_RULE}")
    law = Density(dist.logpdf, dist.cdf, dist.ccdf, dist.icdf, dist.iccdf, lower.item(), upper.item())
    return name, [_Channel(law, 0.0, 1.0)]


def _log_density(family: Any, given: dict[str, float]) -> tuple[Function, tuple[float, float] | None]:
    """The log-density, and the power of its tail: ours where scipy's is log(density) or squares x.

    Those underflow or overflow well inside the range that scores must reach.
    """
    from scipy import stats

    if type(family) in (type(stats.t), type(stats.cauchy)) and given.get("df", 1.0) < math.inf:
        df = given.get("df", 1.0)
        return _student(df), (df, 1e9 * math.sqrt(df))
    if type(family) is type(stats.halfcauchy):
        student = _student(1.0)
        return lambda x: np.where(x < 0, -np.inf, math.log(2.0) + student(x)), (1.0, 1e9)
    if type(family) is type(stats.laplace):
        return lambda x: -math.log(2.0) - np.abs(x), None
    if type(family) is type(stats.pareto):
        b = given["b"]
        return lambda x: np.where(x < 1, -np.inf, math.log(b) - (b + 1.0) * np.log(x)), (b, 1.0)
    if type(family) is type(stats.levy):
        half = 0.5 * math.log(2.0 * math.pi)
        return lambda x: -half - 1.5 * np.log(x) - 0.5 / x, (0.5, 1e17)
    return _function(family, "logpdf", given), None


def _student(df: float) -> Function:
    import scipy.stats

    peak = float(scipy.stats.t.logpdf(0.0, df))

    def logpdf(x: Array) -> Any:
        r = np.abs(x) / math.sqrt(df)
        # log(1 + r^2), without squaring a large r
        far = 2.0 * np.log(np.abs(x)) - math.log(df) + np.log1p(np.maximum(r, 1.0) ** -2.0)
        log1p = np.where(r < 1.0, np.log1p(np.minimum(r, 1.0) ** 2), far)
        return peak - 0.5 * (df + 1.0) * log1p

    return logpdf


def _shown(dist: Any) -> str:
    plain = isinstance(dist, str | int | float | type(None))
    return repr(dist) if plain else f"an object of type {type(dist).__name__}"
