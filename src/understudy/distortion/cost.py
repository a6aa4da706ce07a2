"""The cost matrix of a design: L(theta_i, ~theta_j), the distortion of playing one part for another.

::

    L(theta_i, ~theta_j) = mean over k = 1..T of E d(Y_k, ~Y_k)

where ~Y is the disguise of Y, from the model of theta_i to the model of ~theta_j. Each entry is found
by the best method that there is for it:

- "exact": both models are Gauss-Markov (or autoregressive, or independent, with Gaussian noise) and the
  measure has a name. Also any pair of linear models that differ in their offsets alone, whatever their
  noise: it cancels; and independent readings with finitely many values (`us.Atoms`), by enumeration.
- "quadrature": readings that do not depend on each other (or one reading only), and the squared error
  of autoregressions with any noise: integrals over one score, to a relative error of 1e-9. A function of
  your own is looked at in some 50,000 places; where it is not smooth enough to be integrated, it is simulated.
- "Monte Carlo": everything else, with a standard error, or a bound for what was not seen. A source that
  rounds (`us.Quantised`) does not tell its scores: they come from the rounded reading and a fresh uniform, as they
  do when it is disguised, so that even a model that plays itself changes the readings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.distortion.measure import Function, Measure
from understudy.distortion.methods import EXACT, MONTE_CARLO, QUADRATURE, Progress, Work
from understudy.errors import DesignError
from understudy.laws.base import Array, Frozen
from understudy.models.base import Model
from understudy.models.family import Family
from understudy.transform.maps import gauss_markov

_SEED = 20230202  # a design that is computed twice is the same design


class Costs(Frozen):
    """A cost matrix with what is known about its entries; `costs` makes one.

    `matrix`, `error` and `method` are (m, n). `error` is a standard error for Monte Carlo, an estimate of
    the error of quadrature, and 0 where an entry is exact; a distortion that does not exist is infinite.
    An entry that came out as zero, or from a handful of events, has no standard error that means anything: its
    error is the bound that `costs` describes.
    `mean_reading` is the mean of E Y_k over prior, horizon and channels (NaN where a mean does not
    exist), for distortions relative to the level of the readings; `mean_reading_error` its standard error.
    """

    __slots__ = (
        "_groups", "distortion", "error", "horizon", "matrix", "mean_reading", "mean_reading_error", "method",
        "pseudo", "replications", "values",
    )  # fmt: skip

    def __init__(
        self,
        matrix: Array,
        error: Array,
        method: NDArray[np.str_],
        groups: Array | None,
        mean_reading: tuple[float, float],
        choices: dict[str, Any],
    ) -> None:
        self.matrix, self.error, self.method = matrix, error, method
        self._groups = groups
        self.mean_reading, self.mean_reading_error = mean_reading
        self.horizon: int | None = choices["horizon"]
        self.distortion: str = choices["distortion"]
        self.values: tuple[Any, ...] = choices["values"]
        self.pseudo: tuple[Any, ...] = choices["pseudo"]
        self.replications: int = choices["replications"]
        for array in (matrix, error, method, groups):
            if array is not None:
                array.flags.writeable = False

    def __repr__(self) -> str:
        m, n = self.matrix.shape
        methods = [name for name in (EXACT, QUADRATURE, MONTE_CARLO) if (self.method == name).any()]
        time = "stationary" if self.horizon is None else f"horizon={self.horizon}"
        return f"Costs({m} x {n}, {self.distortion}, {time}, {' and '.join(methods)})"

    def expected(self, weights: Any) -> tuple[float, float]:
        """The weighted sum of the entries, such as sum p_i P_ij L_ij, and its standard error.

        Entries from one simulation share their random numbers, so their errors go together; the standard error
        here takes account of that. It has the precision of 64 groups of replications, about a tenth of itself.
        Bounds on what was not seen are added to it.

        >>> import understudy as us
        >>> from understudy.distortion.cost import costs
        >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 3])
        >>> costs(family, distortion="mae").expected([[0.4, 0.1], [0.1, 0.4]])
        (0.6000000000000001, 0.0)
        """
        w = np.asarray(weights, dtype=float)
        if w.shape != self.matrix.shape or not np.isfinite(w).all():
            raise DesignError(f"weights has shape {w.shape}; it must be {self.matrix.shape}, of finite numbers")
        used = w != 0.0
        value = float((w[used] * self.matrix[used]).sum())
        simulated = used & (self.method == MONTE_CARLO)
        # estimates of quadrature errors are not independent draws: they add up
        rest = float((np.abs(w) * self.error)[used & ~simulated].sum())
        if self._groups is None or not simulated.any():
            return value, rest
        # an error that the groups do not show is a bound on what was not seen: it adds up too
        shown = self._groups.std(axis=0, ddof=1) / math.sqrt(len(self._groups))
        rest += float((np.abs(w) * self.error)[simulated & (self.error > 2.0 * shown)].sum())
        sums = self._groups[:, simulated] @ w[simulated]
        return value, math.hypot(float(sums.std(ddof=1)) / math.sqrt(len(sums)), rest)


def costs(
    family: Family,
    pseudo: Iterable[Any] | None = None,
    horizon: int | None = None,
    distortion: str | Function = "mse",
    weights: Any = None,
    accuracy: float = 0.01,
    rng: Any = None,
    progress: Progress | None = None,
) -> Costs:
    """The distortion of every value of a family under every pseudo value.

    `pseudo` are the values whose models play the parts, by default the family's own. `horizon` is the
    number of readings T that the distortion is averaged over; None is the limit of long sequences,
    which constant, stable models have.

    `distortion` is "mse" or "mae" (on vectors the mean over the channels; `weights` (d,) take the place of 1/d, and
    a matrix (d, d) makes the squared error a quadratic form), or a function ``d(y, y_out)`` of arrays
    (N,), or (d, N) for vectors, that returns N finite numbers, none negative.

    Where simulation is needed, it goes on until each standard error is at most `accuracy` times the mean of the
    simulated entries, or, with a warning, to 200,000 replications. `rng` is a numpy Generator or a seed; the seed
    is fixed by default, so that a design can be repeated. (Costs hold nothing secret.) ``progress(fraction)`` is called
    as the work goes on. A simulation does not see that a distortion is infinite; the other methods do,
    and an infinite entry forbids its pair.

    An entry that is zero every time is simulated far longer: up to 200,000 replications, fewer of slow models or
    long sequences. If nothing shows, there is a warning, and its error is 3 / N times the largest distortion of one
    reading that was met anywhere, or 3 / N if there was none. That is the rule of three: after N replications
    without an event, nothing is known of events rarer than 3 / N, nor whether one of them costs more than what
    was met. The error is at least 3 / N times the largest value also for a mean that rests on fewer than 16
    replications, or that is the same in all of them; and a function that is zero in all of 262,144 places of a
    quadrature has the error of so many replications. Only a model that plays itself is zero without a doubt
    (unless it rounds), under a function that is seen to be zero for equal readings and not for others.

    >>> import understudy as us
    >>> def room(occupants):
    ...     return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)
    >>> family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    >>> found = costs(family, pseudo=[0, 0.5, 1], horizon=50, distortion="mae")
    >>> found
    Costs(2 x 3, mae, horizon=50, exact)
    >>> found.matrix.round(3).tolist()
    [[0.0, 64.924, 129.848], [129.848, 64.924, 0.0]]
    >>> round(found.mean_reading, 6)
    100.0
    """
    if not isinstance(family, Family):
        raise DesignError(f"family is of type {type(family).__name__}; it must be a us.Family")
    values = family.values if pseudo is None else _several(pseudo)
    horizon = _horizon(horizon)
    if not (isinstance(accuracy, (int, float)) and 0.0 < accuracy < math.inf):
        raise DesignError(f"accuracy = {accuracy!r}; it must be a positive number")
    sources = [family.model(value) for value in family.values]
    targets = [family.model(value) for value in values]
    _check_models([*sources, *targets], [*family.values, *values], horizon)
    work = Work(sources, targets, Measure(distortion, family.dim, weights), horizon, progress)
    work.exact()
    work.enumeration()
    work.quadrature()
    work.linear()
    simulated = work.simulation(float(accuracy), np.random.default_rng(_SEED if rng is None else rng))
    work.warn()
    mean = work.mean_reading(family.prior, simulated)
    if progress is not None:
        progress(1.0)
    chosen = {"horizon": horizon, "distortion": work.measure.name, "values": family.values, "pseudo": tuple(values)}
    chosen["replications"] = 0 if simulated is None else simulated.replications
    groups = None if simulated is None else simulated.groups
    return Costs(work.matrix, work.error, work.method, groups, mean, chosen)


def _several(pseudo: Any) -> tuple[Any, ...]:
    if isinstance(pseudo, (str, bytes)):
        raise DesignError(f"pseudo = {pseudo!r}; it must be several values of the parameter")
    try:
        values = tuple(pseudo)
    except TypeError:
        raise DesignError(f"pseudo = {pseudo!r}; it must be several values of the parameter") from None
    if not values:
        raise DesignError("pseudo is empty; there must be at least one value")
    return values


def _horizon(horizon: Any) -> int | None:
    if horizon is None:
        return None
    if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or horizon < 1:
        raise DesignError(f"horizon = {horizon!r}; it must be a whole number of at least 1, or None for the limit")
    return int(horizon)


def _check_models(models: list[Model], values: list[Any], horizon: int | None) -> None:
    for model, value in zip(models, values, strict=True):
        if model.dim != models[0].dim:
            raise DesignError(
                f"the model of {value!r} has {model.dim} channels and that of {values[0]!r} has {models[0].dim}; "
                "all must agree"
            )
        steps = getattr(gauss_markov(model) or model, "steps", None)
        if steps is not None and horizon is not None and horizon > steps:
            raise DesignError(f"horizon = {horizon}, and the model of {value!r} is given for {steps} steps only")
        if steps is not None and horizon is None:
            raise DesignError(f"horizon is missing: the model of {value!r} changes with time, and has no limit")
