"""What a search for pseudo values sees: a set to choose from, what every place in it costs, and the slopes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.distortion.cost import _SEED
from understudy.distortion.gradient import gradients
from understudy.distortion.measure import Measure
from understudy.distortion.methods import EXACT, MONTE_CARLO, Work
from understudy.errors import DesignError, UnderstudyWarning
from understudy.laws.base import Array
from understudy.models.family import Family

# looked at on a line where costs are quick, take an integral, or a simulation; in more dimensions a power of two
_PLACES = (201, 81, 41)
_MOST_PLACES = (3201, 161, 41)  # on a line where costs change faster than these places show
_SHOWN = 0.01  # of the range of a cost: how far off a place may be from what those around it say
_BETWEEN = 16  # places between, for what changes faster than any of them shows
_STEP = 1e-3  # of the width, to both sides, for differences of costs

Costs = Callable[[Array], Array]
Slopes = Callable[[Array], Array | None]


@dataclass(frozen=True, slots=True, eq=False)
class Landscape:
    """A box, the private values' odds, the budget, and what places cost.

    ``costs(X)`` is (m, N) for places X (N, k), ``slopes(X)`` its derivatives (m, N, k), or None where there are none.
    `scan` are places all over the box, the private values among them, and `scanned` what they cost; `own` are the
    private values that are places of the box. `sloped` and `exact` say whether there are slopes, and whether they are
    exact; `effort` is 0 for costs that are quick, 1 for integrals, 2 for simulations.
    """

    p: Array
    budget: float
    low: Array
    high: Array
    costs: Costs
    slopes: Slopes
    scan: Array
    scanned: Array
    own: Array
    sloped: bool = False
    exact: bool = False
    effort: int = 0

    @property
    def width(self) -> Array:
        """The sides of the box."""
        return self.high - self.low

    @property
    def spacing(self) -> float:
        """How far places of the scan are apart, as a share of the sides."""
        return float(2.0 / len(self.scan) ** (1.0 / self.low.size))


def as_box(bounds: Any, values: Sequence[Any]) -> tuple[Array, Array, bool]:
    """Lowest and highest of the set, and whether it is a line; by default that of the private values.

    >>> as_box((0, 4), [])
    (array([0.]), array([4.]), True)
    >>> as_box([(0, 1), (-1, 1)], [])[2]
    False
    """
    if bounds is None:
        try:
            table = np.array([np.asarray(value, dtype=float) for value in values])
        except (TypeError, ValueError):
            raise DesignError(
                "bounds is missing: the private values are no numbers that a set could be made of"
            ) from None
        table = table.reshape(len(values), -1)
        return table.min(axis=0), table.max(axis=0), np.ndim(values[0]) == 0
    try:
        given = np.asarray(bounds, dtype=float)
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.shape != (2,) and (given.ndim != 2 or given.shape[1] != 2):
        raise DesignError(f"bounds = {bounds!r}; it must be (low, high), or a pair for each coordinate of a box")
    low, high = given.reshape(-1, 2).T
    if not (np.isfinite(given).all() and (low < high).all()):
        raise DesignError(f"bounds = {bounds!r}; they must be finite, each low below its high")
    return low.copy(), high.copy(), given.ndim == 1


def places(low: Array, high: Array, more: Array, count: int = _PLACES[0]) -> Array:
    """Places all over a box, and those of `more`."""
    k = low.size
    if k == 1:
        unit = np.linspace(0.0, 1.0, count)[:, None]
    else:
        from scipy.stats import qmc

        size = 1 + math.ceil(math.log2(max(2, count)))
        corners = np.array(np.meshgrid(*([[0.0, 1.0]] * k))).reshape(k, -1).T
        unit = np.concatenate((qmc.Sobol(k, scramble=False).random_base2(size), corners))
    return np.unique(np.concatenate((low + unit * (high - low), more)), axis=0)


def scanned(costs: Costs, low: Array, high: Array, own: Array, effort: int) -> tuple[Array, Array]:
    """Places all over a box and what they cost; on a line as many as it takes for them to show how costs change."""
    if low.size > 1 or not low[0] < high[0]:
        scan = places(low, high, own, _PLACES[effort])
        return scan, costs(scan)
    X = np.linspace(low[0], high[0], _PLACES[effort])
    L = costs(X[:, None])
    # between places, at no regular distance
    share = (np.arange(1, _BETWEEN + 1) * 0.6180339887498949) % 1.0
    between = low[0] + share * (high[0] - low[0])
    beside = costs(between[:, None])
    while 2 * len(X) - 1 <= _MOST_PLACES[effort] and not _is_shown(X, L, between, beside):
        middles = 0.5 * (X[1:] + X[:-1])
        X, L = np.insert(X, range(1, len(X)), middles), np.insert(L, range(1, len(X)), costs(middles[:, None]), axis=1)
    scan, first = np.unique(np.concatenate((X, own[:, 0])), return_index=True)
    return scan[:, None], np.concatenate((L, costs(own)), axis=1)[:, first]


def _is_shown(X: Array, L: Array, between: Array, beside: Array) -> bool:
    """Whether cubics through every other place tell the places left out, and those between, well enough."""
    finite = np.isfinite(L).all() and np.isfinite(beside).all()
    if not finite:
        return True  # nothing is told by a finer look at what is forbidden
    a, b, c, d = L[:, :-6:2], L[:, 2:-4:2], L[:, 4:-2:2], L[:, 6::2]
    off = np.abs((9.0 * (b + c) - a - d) / 16.0 - L[:, 3:-3:2]).max(axis=1)
    at = np.clip(np.searchsorted(X, between) - 1, 1, len(X) - 3)
    x = (between - X[at]) / (X[1] - X[0])
    weights = (
        -x * (x - 1.0) * (x - 2.0) / 6.0, (x + 1.0) * (x - 1.0) * (x - 2.0) / 2.0,
        -(x + 1.0) * x * (x - 2.0) / 2.0, (x + 1.0) * x * (x - 1.0) / 6.0,
    )  # fmt: skip
    told = sum(w * L[:, at + k - 1] for k, w in enumerate(weights))
    off = np.maximum(off, np.abs(told - beside).max(axis=1))
    return bool((off <= _SHOWN * (L.max(axis=1) - L.min(axis=1))).all())


def of_function(
    cost: Callable[[Any, Any], Any],
    values: Sequence[Any],
    p: Array,
    budget: float,
    box: tuple[Array, Array, bool],
    gradient: Callable[[Any, Any], Any] | None,
) -> Landscape:
    """The landscape of a cost function of a private value and a place."""
    low, high, line = box

    def costs(X: Array) -> Array:
        table = [[_number(_given(cost, value, as_place(x, line), "cost"), "cost") for x in X] for value in values]
        return np.array(table).reshape(len(values), len(X))

    def slopes(X: Array) -> Array | None:
        if gradient is None:
            return None
        table = [
            [np.asarray(_given(gradient, value, as_place(x, line), "gradient"), dtype=float).reshape(-1) for x in X]
            for value in values
        ]
        found = np.array(table)
        if found.shape != (len(values), *X.shape):
            raise DesignError(f"gradient must give {low.size} numbers, one for each coordinate of a place")
        return found

    own = _private(values, low, high)
    scan, found = scanned(costs, low, high, own, 0)
    there = gradient is not None
    return Landscape(p, budget, low, high, costs, slopes, scan, found, own, there, there)


def of_family(
    family: Family,
    p: Array,
    budget: float,
    box: tuple[Array, Array, bool],
    how: tuple[int | None, Any, Any, float, Any],
) -> Landscape:
    """The landscape of a family that is a function of its parameter; `how` as in `us.costs`."""
    models = family._models
    if isinstance(models, Mapping):
        raise DesignError("the family is a mapping and has no models between its values; make it from a function")
    low, high, line = box
    horizon, distortion, weights, accuracy, given = how
    measure = Measure(distortion, family.dim, weights)
    sources = [family.model(value) for value in family.values]
    seed = _SEED if given is None else given

    def made(x: Array) -> Any:
        place = as_place(x, line)
        try:
            return models(place)  # not through the family, which would remember every place
        except Exception as error:
            raise DesignError(
                f"the family has no model at {place!r}, which is within the bounds: {_said(error)}; "
                "the bounds must leave out what has none"
            ) from error

    def work(X: Array) -> Work:
        found = Work(sources, [made(x) for x in X], measure, horizon)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # the design that is made in the end says it
            found.exact()
            found.enumeration()
            found.quadrature()
            found.linear()
            # the same random numbers everywhere, so that places are compared and not their luck
            found.simulation(accuracy, np.random.default_rng(seed))
        return found

    def differences(X: Array) -> Array:
        """Slopes by differences of the costs, which quadrature knows well enough for that."""
        h = _STEP * (high - low)
        steps = [(x, i) for x in X for i in range(x.size)]
        up = np.array([np.minimum(x + h * (np.arange(x.size) == i), high) for x, i in steps])
        down = np.array([np.maximum(x - h * (np.arange(x.size) == i), low) for x, i in steps])
        both = work(np.concatenate((up, down))).matrix
        apart = np.array([up[k, i] - down[k, i] for k, (_, i) in enumerate(steps)])
        found = (both[:, : len(steps)] - both[:, len(steps) :]) / np.where(apart > 0.0, apart, 1.0)
        return np.asarray(found.reshape(len(sources), *X.shape))

    def slopes(X: Array) -> Array | None:
        return gradients(sources, made, X, (low, high), measure, horizon)

    middle = 0.5 * (low + high)[None, :]
    exact, methods = slopes(middle) is not None, work(middle).method
    simulated = bool((methods == MONTE_CARLO).any())
    effort = 2 if simulated else 0 if (methods == EXACT).all() else 1
    own = _private(family.values, low, high)

    def costs(X: Array) -> Array:
        return work(X).matrix if len(X) else np.empty((len(sources), 0))

    scan, found = scanned(costs, low, high, own, effort)
    return Landscape(
        p, budget, low, high, costs, slopes if exact else differences, scan, found, own, not simulated, exact, effort
    )


def as_place(x: Array, line: bool) -> float | tuple[float, ...]:
    """A place as users see it: a number on a line, a tuple in a box."""
    return float(x[0]) if line else tuple(x.tolist())


def _private(values: Sequence[Any], low: Array, high: Array) -> Array:
    """Private values that are places of the box, (N, k)."""
    found = []
    for value in values:
        try:
            x = np.atleast_1d(np.asarray(value, dtype=float))
        except (TypeError, ValueError):
            continue
        if x.shape == low.shape and (x >= low).all() and (x <= high).all():
            found.append(x)
    return np.array(found).reshape(-1, low.size)


def _given(f: Callable[[Any, Any], Any], value: Any, place: Any, what: str) -> Any:
    """What a function of the user's gives; one that fails is told where."""
    try:
        return f(value, place)
    except Exception as error:
        raise DesignError(f"{what}({value!r}, {place!r}) fails, within the bounds: {_said(error)}") from error


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _number(given: Any, what: str) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        raise DesignError(f"{what} gives a {type(given).__name__}; it must be a number") from None
    if not value >= 0.0:
        raise DesignError(f"{what} gives {value!r}; it must be 0 or more")
    return value
