"""Where a density of one number has its mass, found from its logarithm alone.

Nothing is known beforehand: the scale may be 1e-12 or 1e12, and there may be several modes. A
log-density tells the way, though: even a thousand standard deviations off it has a slope. So the
search looks at readings of all magnitudes, closes in on every peak that it sees (a parabola through
three points finds a Gaussian one at once), looks around each at all scales for others, and stops when
no peak is left that has not been looked at. What is so narrow that no look ever fell on its slopes stays
unseen; the mass that is then missing is noticed by whoever integrates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from understudy.errors import NumericalError
from understudy.laws.base import Array
from understudy.laws.inverse import middle_float
from understudy.laws.numeric.asked import not_a_number
from understudy.laws.numeric.coordinate import LARGEST, REACH, Coordinate, Stretch, log_cosh

Ask = Callable[[Array], Array]

DROP = 64.0
"""Where the density (in w) is less than e^-DROP of its peak there is nothing to integrate: 1.6e-28."""

_PEAKS = 24  # modes that are followed
_ROUNDS = 80
_DENSE = 60_000  # looks of a thorough search inside the bulk
_SHARP = 8.0  # a peak is resolved when the log-density falls by no more than this to a neighbour
_AROUND = 10.0 ** np.concatenate([np.arange(-2.0, 0.3, 0.25), np.arange(0.3, 2.0, 0.1), np.arange(2.0, 40.1, 0.5)])
_EVERYWHERE = 10.0 ** np.arange(-20.0, 20.1, 0.25)
_EVERYWHERE = np.concatenate([-_EVERYWHERE[::-1], [0.0], _EVERYWHERE])
_EDGES = np.concatenate([np.arange(0.5, 3.6, 0.5), 3.5 * 1.35 ** np.arange(1.0, 19.0)])  # in w, to 700
_EDGES = np.concatenate([-_EDGES[::-1], [0.0], _EDGES])
_FARTHEST = 10.0 ** np.arange(20.0, 300.0, 4.0)
_DIED = 24.0  # by how much the log-density must have fallen where floats end


class NowhereError(NumericalError):
    """No reading of positive density was found."""


class Hint(NamedTuple):
    """What is known of the place: a centre, a scale, readings that may be near, and how many scales to look away.

    A `thorough` search also goes through the bulk and all magnitudes in small steps, for needles.
    """

    centre: float | None = None
    scale: float | None = None
    seeds: tuple[float, ...] = ()
    reach: float = 1e20
    thorough: bool = False


class Bulk(NamedTuple):
    """A coordinate that fits the density, the edges in w of the panels to begin with, and the true support."""

    coordinate: Coordinate
    edges: Array
    support: Stretch


class _Samples:
    """Where the log-density was looked at, in order; `h` is that of u, NaN counted as -inf."""

    def __init__(self, ask: Ask, stretch: Stretch, limits: tuple[float, float]) -> None:
        self.ask, self.stretch, self.limits = ask, stretch, limits
        self.u = self.h = np.empty(0)
        self.nan = np.empty(0, dtype=bool)
        self._peaks: list[int] | None = None
        self._widths: dict[int, float] = {}

    def add(self, u: Array) -> None:
        """Looks at some more."""
        u = u[(u >= self.limits[0]) & (u <= self.limits[1])]
        if not u.size:
            return
        f = self.ask(self.stretch.x(u)) + self.stretch.log_slope(u)
        together, heights = np.concatenate([self.u, u]), np.concatenate([self.h, f])
        order = np.argsort(together, kind="stable")
        order = order[np.concatenate([[True], np.diff(together[order]) > 0.0])]
        self.u, heights = together[order], heights[order]
        self.nan = np.isnan(heights) | np.concatenate([self.nan, np.zeros(u.size, dtype=bool)])[order]
        self.h = np.where(self.nan, -np.inf, heights)
        self._peaks, self._widths = None, {}

    def peaks(self) -> list[int]:
        """Indices of the maxima that rise by more than noise above the valleys beside them, highest first."""
        if self._peaks is not None:
            return self._peaks
        h = self.h
        around = np.concatenate([[-np.inf], h, [-np.inf]])
        tops = np.flatnonzero((h > around[:-2]) & (h >= around[2:])).tolist()
        kept, valley = tops[:1], math.inf
        valleys: list[float] = []
        for before, top in pairwise(tops):
            valley = min(valley, float(h[before:top].min()))
            noise = 1.0 + 1e-9 * abs(valley)
            while kept and h[kept[-1]] - valley < noise and h[kept[-1]] <= h[top]:
                kept.pop()
                valley = min(valley, valleys.pop()) if kept else valley
            if kept and h[top] - valley < noise:
                continue  # a bump on the slope of the last
            if kept:
                valleys.append(valley)
            kept.append(top)
            valley = math.inf
        self._peaks = sorted(kept, key=lambda i: -float(h[i]))[:_PEAKS]
        return self._peaks

    def width(self, i: int) -> float:
        """The scale of the peak at index i: what it would be for a Gaussian one."""
        if i in self._widths:
            return self._widths[i]
        u, h = self.u, self.h
        smooth, cut = [], []
        for part in (slice(i, None, -1), slice(i, None)):
            fallen = np.flatnonzero((h[part] <= h[i] - 0.5) & (h[part] < h[i]))
            if fallen.size:
                distance = abs(float(u[part][fallen[0]] - u[i]))
                drop = float(h[i] - h[part][fallen[0]])
                if math.isfinite(drop):
                    smooth.append(distance / math.sqrt(2.0 * drop))
                else:
                    cut.append(distance)
        self._widths[i] = min(smooth) if smooth else max(cut, default=float(u[-1] - u[0]))
        return self._widths[i]

    def main(self) -> int:
        """The narrowest of the peaks that matter, were all of them Gaussian: its coordinate keeps the digits of all."""
        mass = {i: float(self.h[i]) + math.log(self.width(i)) for i in self.peaks()}
        return min((i for i in mass if mass[i] >= max(mass.values()) - DROP), key=self.width)

    def around(self, i: int) -> Array:
        """More places to look at around the peak at index i, at all scales."""
        distance = self.width(i) * _AROUND
        return np.concatenate([self.u[i] - distance, self.u[i] + distance])

    def sharp(self, i: int) -> bool:
        """Whether the peak at index i lies between two neighbours that are far below, yet not next to it."""
        if not 0 < i < self.u.size - 1:
            return False
        before, here, after = self.u[i - 1 : i + 2].tolist()
        drop = self.h[i] - max(self.h[i - 1], self.h[i + 1])
        return bool(drop > _SHARP) and after - before > 64.0 * math.ulp(here)

    def closer(self, i: int) -> Array:
        """Places between the neighbours of a sharp peak: evenly, and by a parabola through the three."""
        a, m, b = self.u[i - 1 : i + 2].tolist()
        fa, fm, fb = self.h[i - 1 : i + 2].tolist()
        even = np.arange(1.0, 8.0) / 8.0
        places = [a + (m - a) * even, m + (b - m) * even]
        # h = fm + p t - q t^2 with t = u - m
        left, right = (fa - fm) / (a - m), (fb - fm) / (b - m)
        q = (left - right) / (b - a)
        p = left + q * (a - m)
        if math.isfinite(q) and q > 0.0:
            top, sd = m + 0.5 * p / q, math.sqrt(0.5 / q)
            places.append(top + sd * np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
        together = np.concatenate(places)
        return np.asarray(together[(together > a) & (together < b)])


def find_bulk(ask: Ask, support: tuple[float, float], hint: Hint, name: str) -> Bulk:
    """Searches the support; `ask` gives the log-density, NaN where it has none.

    >>> bulk = find_bulk(lambda x: -0.5 * ((x - 3e5) / 1e-3) ** 2, (-math.inf, math.inf), Hint(), "it")
    >>> round(bulk.coordinate.centre, 6), round(bulk.coordinate.scale, 9)
    (300000.0, 0.001)
    """
    stretch = Stretch(*support)
    with np.errstate(all="ignore"):
        for _ in range(3):
            samples = _search(ask, stretch, hint, name)
            found = _settled(samples, name)
            if isinstance(found, Bulk):
                return found
            stretch = found  # the density ends inside the support
    raise NumericalError(f"the ends of the support of {name} were not found; give support=(low, high)")


def _search(ask: Ask, stretch: Stretch, hint: Hint, name: str) -> _Samples:
    samples = _Samples(ask, stretch, _limits(stretch, hint))
    samples.add(_first_looks(stretch, hint))
    if not np.isfinite(samples.h).any():
        raise NowhereError(f"{name} is -inf wherever it was looked at; give support=, centre= and scale=")
    _follow(samples)
    if hint.thorough:
        fit = _Fit(samples, samples.main())
        first, last = max(int(fit.alive[0]) - 1, 0), min(int(fit.alive[-1]) + 1, fit.w.size - 1)
        inside, outside = np.linspace(fit.w[first], fit.w[last], _DENSE), np.linspace(0.0, 46.0, _DENSE // 3)
        dense = np.sinh(np.concatenate([inside, -outside, outside]))
        samples.add(fit.coordinate.centre + fit.coordinate.scale * dense)
        _follow(samples)
    return samples


def _follow(samples: _Samples) -> None:
    """Closes in on every peak, and looks around it for others, until there is none left."""
    seen: list[float] = []
    enough = samples.u.size + 20_000
    for _ in range(_ROUNDS):
        peaks = samples.peaks()
        more = [samples.closer(i) for i in peaks if samples.sharp(i)]
        if not more:
            new = [i for i in peaks if not any(abs(samples.u[i] - u) <= 2.0 * samples.width(i) for u in seen)]
            more = [samples.around(i) for i in new]
            seen += samples.u[new].tolist()
        if not more or samples.u.size > enough:
            break
        samples.add(np.concatenate(more))


def _limits(stretch: Stretch, hint: Hint) -> tuple[float, float]:
    if stretch.line and hint.centre is not None and hint.scale is not None and hint.reach < 1e20:
        return hint.centre - hint.scale * hint.reach, hint.centre + hint.scale * hint.reach
    return (-LARGEST, LARGEST) if stretch.line else (-REACH, REACH)


def _first_looks(stretch: Stretch, hint: Hint) -> Array:
    """Readings of all magnitudes on both sides of the centre, or in proportion to the distance from an end."""
    centre, scale = hint.centre, hint.scale
    inside = [s for s in (*hint.seeds, *([] if centre is None else [centre])) if stretch.low < s < stretch.high]
    near = stretch.u(np.array(inside))
    if not stretch.line:
        even = np.arange(-46.0, 46.25, 0.5) + (0.0 if scale is None else math.log(scale))
        return np.concatenate([near, even, [-REACH, REACH]])
    if scale is None:
        return np.concatenate([near, _EVERYWHERE + (centre or 0.0)])
    size = scale * 10.0 ** np.arange(-3.0, math.log10(hint.reach) + 0.1, 0.25)
    return np.concatenate([near, np.array([0.0, *-size, *size]) + (centre or 0.0)])


def _settled(samples: _Samples, name: str) -> Bulk | Stretch:
    """The coordinate and its panels; or a narrower support, where the density ends inside the given one."""
    fit = _Fit(samples, samples.main())
    if samples.stretch.line:
        far = fit.coordinate.scale * _FARTHEST
        sides = [side for side, i in ((-1.0, 0), (1.0, samples.u.size - 1)) if i in fit.alive[[0, -1]]]
        if sides:
            samples.add(np.concatenate([fit.coordinate.centre + side * far for side in sides]))
            fit = _Fit(samples, samples.main())
    elif samples.width(fit.main) < 0.01:
        fit = _plain(samples, fit.main) or fit
    support, samples, coordinate, w = samples.stretch, fit.samples, fit.coordinate, fit.w
    first, last = int(fit.alive[0]), int(fit.alive[-1])
    if samples.nan[max(first - 1, 0) : last + 2].any():
        raise not_a_number(name)
    if (fit.g[[0, -1]] > fit.floor + DROP - _DIED).any():
        raise NumericalError(
            f"{name} does not die out as far as floats go, so it is not that of a density (a mistake of sign, perhaps)"
        )
    ends, limits = list(support), [float(w[max(first - 1, 0)]), float(w[min(last + 1, w.size - 1)])]
    gone = np.flatnonzero(np.isneginf(samples.h) & ~samples.nan)
    for side, inside, outside in ((0, first, gone[gone < first][-1:]), (1, last, gone[gone > last][:1])):
        if outside.size:
            x_in, x_out, real = fit.end(inside, int(outside[0]), name)
            ends[side] = x_out if real else ends[side]
            if abs(int(outside[0]) - inside) == 1:
                limits[side] = float(coordinate.w(np.array([x_in]))[0])
    if tuple(ends) != tuple(support):
        return Stretch(*ends)
    others = [(samples.u[i], samples.width(i)) for i in samples.peaks() if i != fit.main and first <= i <= last]
    marks = np.array([u + k * s for u, s in others for k in (-12.0, -3.0, 0.0, 3.0, 12.0)])
    edges = panel_edges(limits[0], limits[1], (marks - coordinate.centre) / coordinate.scale)
    return Bulk(coordinate, edges, support)


class _Fit:
    """The coordinate that belongs to one peak, the samples in it, and those that are not negligible."""

    def __init__(self, samples: _Samples, main: int) -> None:
        self.samples, self.main = samples, main
        self.coordinate = Coordinate(samples.stretch, float(samples.u[main]), samples.width(main))
        self.w = np.arcsinh((samples.u - self.coordinate.centre) / self.coordinate.scale)
        self.g = samples.h + log_cosh(self.w)
        self.floor = float(self.g.max()) - DROP
        self.alive = np.flatnonzero(self.g >= self.floor)

    def end(self, inside: int, outside: int, name: str) -> tuple[float, float, bool]:
        """Neighbouring floats between which the density ends, and True; or a place before where it is negligible.

        An end that is far from there is an underflow, such as that of log(exp(-x^2)).
        """
        stretch, coordinate = self.samples.stretch, self.coordinate
        x = stretch.x(self.samples.u[[inside, outside]])
        while True:
            between = _floats_between(x)
            if between.size == 2:
                return float(x[0]), float(x[1]), True
            f = self.samples.ask(between[1:-1])
            last = int(np.argmax(np.append(~np.isfinite(f), True)))  # how many from the inside are finite
            if last < f.size and np.isnan(f[last]):
                raise not_a_number(name)
            x = between[last : last + 2]
            u = stretch.u(between[1 : last + 2])
            w = np.arcsinh((u - coordinate.centre) / coordinate.scale)
            g = f[:last] + stretch.log_slope(u[:last]) + log_cosh(w[:last])
            dead = int(np.argmin(np.append(g >= self.floor, False)))
            if dead < last and abs(w[-1] - w[dead]) > 0.01:
                return float(between[dead + 1]), float(x[1]), False


def _floats_between(x: Array) -> Array:
    """The two, and up to 63 between them that are evenly spaced when floats are counted."""
    for _ in range(6):
        low, high = np.minimum(x[:-1], x[1:]), np.maximum(x[:-1], x[1:])
        woven = np.empty(2 * x.size - 1)
        woven[::2], woven[1::2] = x, middle_float(low, high)
        x = woven[np.concatenate([[True], np.diff(woven) != 0.0])]
    return x


def _plain(samples: _Samples, main: int) -> _Fit | None:
    """The fit of a narrow bulk on the plain line, if it is far from the ends: log(x - low) has lost digits there."""
    plain = _Samples(samples.ask, Stretch(), (-LARGEST, LARGEST))
    plain.u, distinct = np.unique(samples.stretch.x(samples.u), return_index=True)
    plain.h = np.where(np.isneginf(samples.h), -np.inf, samples.h - samples.stretch.log_slope(samples.u))[distinct]
    plain.nan = samples.nan[distinct]
    fit = _Fit(plain, int(np.searchsorted(plain.u, samples.stretch.x(samples.u[[main]])[0])))
    return fit if fit.alive[0] > 0 and fit.alive[-1] < plain.u.size - 1 else None


def panel_edges(low: float, high: float, marks: Array) -> Array:
    """Edges in w from low to high: even in the middle, wider and wider in the tails; and marks (sinh w)."""
    together = np.unique(np.concatenate([_EDGES, np.arcsinh(marks)])) if marks.size else _EDGES
    return np.concatenate([[low], together[(together > low) & (together < high)], [high]])
