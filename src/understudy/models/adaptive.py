"""Adaptive readings: a mixture of Bayesian regressions of the increment, which learn as they go.

Real rooms drift: coefficients that were fitted last month are wrong today, and what is wrong with them tells the
private parameter. So each value of it has a few experts. Expert k predicts the increment from regressors x_t::

    y_t - y_{t-1} = unit (beta_t' x_t + e_t),    e_t ~ N(0, sigma_t^2)
    x_t = 1, level, last p increments, mean of the last six, exp(-s/tau_1), exp(-s/tau_2)

with s the time since the private parameter changed. With the normal-inverse-gamma prior of the value (beta given
sigma^2 is N(m_0, sigma^2 P_0), and sigma^2 has nu/2 and nu s_0/2), the predictive law is Student's t::

    y_t ~ y_{t-1} + unit (m'x + sqrt(s (1 + x'P x)) t_nu)

and the update is in closed form, with forgetting towards the prior before the next reading of that value::

    K = P x / (1 + x'P x)      m <- m_0 + phi (m + K e - m_0)      P <- phi^2 (P - K x'P) + (1 - phi^2) P_0
    s <- (1 - 1.4/nu) s + (0.4/nu) s_0 + (1/nu) e^2 / (1 + x'P x)

Here beta is an autoregression around m_0 whose stationary covariance is sigma^2 P_0, so that nothing grows without
bound where regressors stand still; regressors are clipped at 8 units, and s at 100 s_0. Noise forgets at the rate
that keeps its degrees of freedom at nu; nu is even, so that tails and densities need no function but the square root,
and have the same bits on every machine.

Experts differ in phi and nu. Their weights follow Bayes' rule with a fixed share (Herbster and Warmuth 1998): a part
`share` of all weight is spread anew at each step. The mixture is itself an exact predictive law. A *second stage* may
correct it: the law of u = F(y) given the size and the drift of the last scores and the time since the change, one
histogram for each of 18 cells, with Dirichlet counts that go on counting. F_2(F(y)) is again a predictive law.

The state holds what every value has learned and passes from the model of one value to that of another: posteriors go
on through switches, and a model that finds the label of another value in the state counts the time from there. There is
no exact law across a gap. After one, and at the start, p + 1 readings fill the memory again (`refill`); nothing is
learned from them. What was learned before stays.

An adaptive model must not learn from its own output: where it would be the target of a design, a fixed autoregression
stands in for it (`as_target`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from understudy import serialize
from understudy._compiled import load_kernels
from understudy._types import Array, Frozen, Index, Numbers, Plain
from understudy.errors import MissingReadingError, ModelError, StateError
from understudy.laws.law import check_reached, numbers, to_shape
from understudy.models.autoregressive import AutoRegressive
from understudy.models.model import Model
from understudy.serialize import Place, construct, from_plain, stored_array, to_plain

compiled, (kernels,) = load_kernels("understudy.models", os.path.dirname(__file__), ["_kernels_adaptive"])
_plain_view: Any = memoryview  # typed for bytes; here of numbers
view: Callable[[Array | Index], Any] = np.asarray if compiled else _plain_view

CELLS = 18
"""Cells of the second stage: three sizes of the last scores, three drifts, soon or long after a change."""
WINDOW = 6
"""Increments whose mean is a regressor."""
EXPERTS = ((0.95, 2), (0.95, 4), (0.99, 20))
"""Factor phi of the coefficients and degrees of freedom nu of the noise, of each expert."""
MOST_EXPERTS = 12
_HEAD, _RUN, _LABEL, _FORGOTTEN = 15, 0, 1, (2, 3, *range(5, 15))  # the head of a state: see the kernels
_EDGES = (1.7, 2.3, -0.5, 0.5, 0.3)  # between the cells: sum of four |2u - 1|, sum of three 2u - 1, exp(-s/tau_2)
_COUNTED = 400.0  # observations of a cell beyond which old ones fade


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AdaptivePrior:
    """What adaptive models of all values of a parameter know beforehand: m values, n = p + 5 regressors.

    Parameters
    ----------
    mean : array of shape (m, n)
        Coefficients beforehand, in the units of the regressors.
    cov : array of shape (m, n, n)
        Their covariance, against the variance of the noise.
    variance : array of shape (m,)
        Variance of the noise beforehand, in squared units of the increments.
    centre, spread : float
        The level enters as (y - centre) / spread.
    unit : float
        Unit of the increments.
    rates : pair of floats
        exp(-period / tau) of the two exponentials of the time since a change.
    start : pair of floats
        Location and scale of the first reading, whatever comes before it.
    experts : sequence of pairs
        phi and nu of each expert, 12 at most; nu is even.
    share : float
        Part of the weight that is spread anew at each step.
    floor : float
        Variance that is added to every squared residual, such as that of rounding, in squared units.
    cell : float
        Width of the cells on which readings lie; 0 where they are continuous.
    counts : array of shape (m, 18, B), optional
        Dirichlet counts of the second stage.
    targets : sequence of AutoRegressive
        What stands in for the model of each value where it is the target of a design.

    """

    mean: Array
    cov: Array
    variance: Array
    centre: float = 0.0
    spread: float = 1.0
    unit: float = 1.0
    rates: tuple[float, float] = (0.0, 0.0)
    start: tuple[float, float] = (0.0, 1.0)
    experts: tuple[tuple[float, int], ...] = EXPERTS
    share: float = 0.02
    floor: float = 0.0
    cell: float = 0.0
    counts: Array | None = None
    targets: tuple[AutoRegressive, ...] = ()
    tables: tuple[Any, ...] = field(init=False)
    """Constants, experts and priors, as the kernels read them."""
    initial: Array = field(init=False)
    """The state before the first reading."""

    def __post_init__(self) -> None:
        m, n = self._check_shapes()
        self._check_numbers()
        K, p = len(self.experts), n - 5
        half = 0.5 * self.cell
        constants = [
            self.centre, self.spread, self.unit, *self.rates, self.share, self.floor, half, *self.start, p, 1.0,
            p + 1.0, _COUNTED, *_EDGES,
        ]  # fmt: skip
        experts = [(phi, nu // 2, _height(nu), 1.0 / K) for phi, nu in self.experts]
        blocks = [np.concatenate([self.mean[i], self.cov[i].ravel(), self.variance[i : i + 1]]) for i in range(m)]
        head = np.zeros(_HEAD)
        head[_LABEL] = -1.0
        posteriors = [part for block in blocks for part in (np.full(K, 1.0 / K), np.tile(block, K))]
        counts = [] if self.counts is None else [self.counts.ravel()]
        tables = np.array(constants), np.array(experts).ravel(), np.concatenate(blocks)
        object.__setattr__(self, "tables", tuple(view(_lock(table)) for table in tables))
        object.__setattr__(self, "initial", _lock(np.concatenate([head, *posteriors, *counts])))

    def __reduce__(self) -> tuple[Callable[..., AdaptivePrior], tuple[dict[str, Any]]]:
        return _prior, ({each.name: getattr(self, each.name) for each in fields(self) if each.init},)

    def _check_shapes(self) -> tuple[int, int]:
        for name, axes in (("mean", 2), ("cov", 3), ("variance", 1), ("counts", 3)):
            given = getattr(self, name)
            if given is None and name == "counts":
                continue
            array = np.array(given, dtype=float)
            if array.ndim != axes or not np.isfinite(array).all():
                raise ModelError(f"{name} must be an array of {axes} axes whose entries are finite")
            object.__setattr__(self, name, _lock(array))
        m, n = self.mean.shape
        if m < 1 or not 6 <= n <= 5 + WINDOW:
            raise ModelError(f"mean has shape {self.mean.shape}; it must be (values, 5 + p), with p from 1 to {WINDOW}")
        if self.cov.shape != (m, n, n) or self.variance.shape != (m,):
            raise ModelError(
                f"cov and variance have shapes {self.cov.shape} and {self.variance.shape}; mean has {m, n}"
            )
        if self.counts is not None and (self.counts.shape[:2] != (m, CELLS) or not 2 <= self.counts.shape[2] <= 64):
            raise ModelError(f"counts has shape {self.counts.shape}; it must be ({m}, {CELLS}, 2 to 64)")
        return m, n

    def _check_numbers(self) -> None:
        for name in ("rates", "start"):
            object.__setattr__(self, name, tuple(float(x) for x in getattr(self, name)))
        for name in ("centre", "spread", "unit", "share", "floor", "cell"):
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "experts", tuple((float(phi), int(nu)) for phi, nu in self.experts))
        object.__setattr__(self, "targets", tuple(self.targets))
        singles = (self.centre, self.spread, self.unit, self.share, self.floor, self.cell, *self.start)
        rules = {
            "cov must be symmetric and positive semidefinite for each value": all(map(_is_covariance, self.cov)),
            "variance, spread, unit and the scale of the start must be positive": (self.variance > 0.0).all()
            and min(self.spread, self.unit, self.start[-1]) > 0.0,
            "numbers must be finite": all(map(math.isfinite, singles)),
            "rates must be two numbers from 0 to below 1": len(self.rates) == 2
            and all(0.0 <= rate < 1.0 for rate in self.rates),
            "start must be a location and a scale": len(self.start) == 2,
            "share must lie from 0 to below 1, floor and cell must not be negative": 0.0 <= self.share < 1.0
            and min(self.floor, self.cell) >= 0.0,
            f"experts must be 1 to {MOST_EXPERTS}, phi in (0, 1] and nu an even number from 2 to 60": 1
            <= len(self.experts)
            <= MOST_EXPERTS
            and all(0.0 < phi <= 1.0 and nu % 2 == 0 and 2 <= nu <= 60 for phi, nu in self.experts),
            "counts must be positive": self.counts is None or bool((self.counts > 0.0).all()),
            "targets must be autoregressions of one channel and of order p + 1, one for each value": not self.targets
            or (
                len(self.targets) == len(self.mean)
                and all(isinstance(t, AutoRegressive) and (t.dim, t.order) == (1, self.order + 1) for t in self.targets)
            ),
        }
        for rule, holds in rules.items():
            if not holds:
                raise ModelError(rule)

    @property
    def order(self) -> int:
        """Increments that are regressors one by one."""
        return int(self.mean.shape[1]) - 5

    @property
    def bins(self) -> int:
        """Bins of the second stage; 0 without one."""
        return 0 if self.counts is None else int(self.counts.shape[2])

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Regressors, experts, values, bins: what the kernels are told about a state."""
        return int(self.mean.shape[1]), len(self.experts), len(self.mean), self.bins

    def workspace(self) -> Any:
        """Room for the kernels."""
        n, K, _, _ = self.sizes
        return view(np.empty(2 * n + 4 * K + 2))

    def to_plain(self, place: Place) -> Plain:
        """As JSON can hold it."""
        plain: Plain = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        for name in ("mean", "cov", "variance", "counts"):
            plain[name] = None if plain[name] is None else plain[name].tolist()
        plain |= {name: list(plain[name]) for name in ("rates", "start")}
        plain["experts"] = [list(pair) for pair in self.experts]
        plain["targets"] = [to_plain(target, place=place / "targets" / i) for i, target in enumerate(self.targets)]
        return plain

    @classmethod
    def from_plain(cls, plain: Any, place: Place) -> AdaptivePrior:
        """The prior again."""
        names = [each.name for each in fields(cls) if each.init]
        given = serialize.fields(place, plain, *names, kind=False)
        axes = {"mean": 2, "cov": 3, "variance": 1, "counts": 3, "rates": 1, "start": 1, "experts": 2}
        found: Plain = {
            name: None
            if name == "counts" and given[name] is None
            else stored_array(place / name, given[name], axes.get(name, 0)).tolist()
            for name in names
            if name != "targets"
        }
        models = serialize.entries(place / "targets", given["targets"])
        found["targets"] = [
            from_plain(model, "model", place / "targets" / i, among=("AutoRegressive",))
            for i, model in enumerate(models)
        ]
        return construct(place, cls, **found)


def _prior(given: dict[str, Any]) -> AdaptivePrior:
    return AdaptivePrior(**given)


def _lock(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _is_covariance(P: Array) -> bool:
    return np.allclose(P, P.T, rtol=1e-9) and float(np.linalg.eigvalsh(P)[0]) >= -1e-9 * float(np.abs(P).max())


def _height(nu: int) -> float:
    """Density of Student's t at zero, by the product that Gamma(nu/2 + 1/2) / Gamma(nu/2) is for even nu."""
    ratio = math.sqrt(math.pi) / 2.0  # Gamma(3/2) / Gamma(1)
    for j in range(1, nu // 2):
        ratio *= (j + 0.5) / j
    return ratio / math.sqrt(nu * math.pi)


class Adaptive(Frozen):
    """Readings of one channel under one value of a parameter, by regressions that learn as they go.

    Parameters
    ----------
    prior : AdaptivePrior
        What is known beforehand, about all values.
    value : int
        Position of the value of this model.

    Examples
    --------
    >>> import understudy as us
    >>> prior = AdaptivePrior(mean=np.zeros((2, 7)), cov=np.stack([np.eye(7)] * 2) / 50, variance=[1.0, 4.0])
    >>> empty, full = (us.Adaptive(prior, value) for value in (0, 1))
    >>> empty
    Adaptive(value 0 of 2, experts=3, order=2)
    >>> us.whiten([0.0, 1.0, 0.5, 0.6], empty).round(3).tolist()
    [0.0, 0.879, -0.445, 0.091]

    """

    __slots__ = ("prior", "value")

    dim = 1
    atoms = False

    def __init__(self, prior: AdaptivePrior, value: int) -> None:
        if not isinstance(prior, AdaptivePrior):
            raise ModelError(f"prior is of type {type(prior).__name__}; it must be an AdaptivePrior")
        m = len(prior.mean)
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not 0 <= value < m:
            raise ModelError(f"value = {value!r}; it must be the position of a value, from 0 to {m - 1}")
        self.prior = prior
        self.value = int(value)

    def to_dict(self, place: Place) -> Plain:
        """The prior and the position of the value; see `understudy.serialize`."""
        return {"prior": self.prior.to_plain(place / "prior"), "value": self.value}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> Adaptive:
        """The model again."""
        given = serialize.fields(place, plain, "prior", "value")
        return construct(place, cls, AdaptivePrior.from_plain(given["prior"], place / "prior"), given["value"])

    def __repr__(self) -> str:
        _, K, m, _ = self.prior.sizes
        return f"Adaptive(value {self.value} of {m}, experts={K}, order={self.prior.order})"

    def __reduce__(self) -> tuple[type[Adaptive], tuple[AdaptivePrior, int]]:
        return Adaptive, (self.prior, self.value)

    @property
    def refill(self) -> int:
        """How many readings in a row fill the memory at the start and after a gap."""
        return self.prior.order + 1

    def as_target(self) -> Model:
        """The fixed autoregression that stands in for the model where it is a target."""
        if not self.prior.targets:
            raise ModelError("this adaptive model has no targets; give AdaptivePrior(..., targets=[...])")
        return self.prior.targets[self.value]

    def start(self) -> Array:
        """What is known beforehand."""
        return self.prior.initial

    def predict(self, state: Array) -> AdaptiveLaw:
        """The mixture of the experts of this value, after the second stage."""
        n, K, m, B = self.prior.sizes
        constants, experts, prior = self.prior.tables
        state, x, law = view(self.checked(state)), view(np.zeros(n)), np.empty(3 * K)
        kernels.prepare(state, self.value, n, K, constants, experts, prior, x, view(law))
        at = kernels.find_cell(state, self.value, n, K, m, B, constants, x)
        return AdaptiveLaw(experts, law, np.empty(0) if at < 0 else np.array(state[at : at + B]))

    def update(self, state: Array, y: Numbers) -> Array:
        """What is known after one more reading."""
        after, work = np.array(self.checked(state)), self.prior.workspace()
        n, K, m, B = self.prior.sizes
        x, law = view(np.zeros(n)), view(np.empty(3 * K))
        kernels.prepare(view(after), self.value, n, K, *self.prior.tables, x, law)
        kernels.learn(view(after), float(y), self.value, n, K, m, B, *self.prior.tables, x, law, work)
        return _lock(after)

    def skip(self, state: Array) -> Array:
        """Refused."""
        raise MissingReadingError(
            "a reading is missing, and an Adaptive model has no exact law across a gap; fill the gap before, or start "
            "again after it"
        )

    def restart(self, state: Array) -> Array:
        """What is known after a gap: all that was learned, but no reading to go on from."""
        after = np.array(self.checked(state))
        after[list(_FORGOTTEN)] = 0.0
        after[_RUN], after[_LABEL] = 0.0, -1.0
        return _lock(after)

    def checked(self, state: Any) -> Array:
        """The state, if it is one of this model; it may have been through a file."""
        if not isinstance(state, np.ndarray) or state.shape != self.prior.initial.shape or state.dtype != np.float64:
            raise StateError(f"a state of this model is an array of {self.prior.initial.size} numbers")
        return np.ascontiguousarray(state)


class AdaptiveLaw:
    """A mixture of Student-t laws, and the histogram of its second stage (if it has one)."""

    __slots__ = ("_counts", "_experts", "_law")

    dim = 1

    def __init__(self, experts: Any, law: Array, counts: Array) -> None:
        self._experts, self._law, self._counts = experts, law, counts

    def __repr__(self) -> str:
        return f"AdaptiveLaw(experts={self._law.size // 3})"

    def _run(self, y: ArrayLike) -> tuple[Array, Array, tuple[int, ...]]:
        array = numbers(y)
        flat, K, B = np.array(array).ravel(), self._law.size // 3, self._counts.size
        tails, density = np.empty(flat.size), np.empty(flat.size)
        kernels.law_tails(
            view(flat), flat.size, K, B, self._experts, view(self._law), view(self._counts), view(tails), view(density),
            view(np.empty(2)),
        )  # fmt: skip
        return tails, density, array.shape

    def score(self, y: Numbers, v: Numbers | None = None) -> Numbers:
        """Phi^-1 of the smaller tail."""
        tails, _, shape = self._run(y)
        z = scores_of_tails(tails)
        check_reached(z, np.ravel(np.asarray(y, dtype=float)), shape, "reading")
        return to_shape(z, shape)

    def value(self, z: Numbers) -> Numbers:
        """The quantile, by bracketing and Newton's method."""
        array = numbers(z, "score")
        q, upper = tails_of_scores(array.ravel())
        out, K, B = np.empty(q.size), self._law.size // 3, self._counts.size
        kernels.law_values(
            view(q), view(upper), q.size, K, B, self._experts, view(self._law), view(self._counts), view(out)
        )
        check_reached(out, array.ravel(), array.shape, "score")
        return to_shape(out, array.shape)

    def logpdf(self, y: Numbers) -> Numbers:
        """Logarithm of the density, in nats."""
        _, density, shape = self._run(y)
        with np.errstate(divide="ignore"):
            return to_shape(np.log(density), shape)


def scores_of_tails(tails: Array) -> Array:
    """Scores from signed tails: the lower ones positive, the upper ones negative; NaN where a tail is lost."""
    from scipy.special import ndtri

    size = np.abs(tails)
    z = np.asarray(ndtri(np.where(size > 0.0, size, np.nan)))
    return np.where(np.signbit(tails), -z, z)


def tails_of_scores(z: Array) -> tuple[Array, Array]:
    """The smaller tail of each score, and 1 where it is the upper one."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-np.abs(z))), (z > 0.0).astype(float)
