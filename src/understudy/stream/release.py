"""The one place where readings leave: rounded to the public lattice of the design, and to nothing finer.

A `Release` belongs to a design and is the same for every value of its parameter. It says five things.

*The lattice* on which outputs leave (`understudy.transform.readings`). By default it is the coarsest one that costs
nothing: in each channel the power of two at or below a thousandth of the smallest conditional standard deviation of
any target. Where the family knows how many decimals the sensor prints, the step is a power of ten, at least that of the
last decimal. A channel whose targets live on a grid of their own leaves on that grid.

*The form of the readings* that come in. A model of continuous readings takes full doubles. Readings of single precision
or of a few digits lie on a grid of their own, which the models do not know and the outputs would show. Such a form is
declared, and is good only for models that live on a coarser grid: readings are then moved to it before anything else. A
stream of full doubles that meets 64 readings in a row with at most six decimals, or of single precision, stops.

*The valid range* of readings. A glitch of 1e17 would ruin what follows. Outside the range the source skips the
reading, and the output is coloured from a fresh score: to leave it out would tell that it was out of range.

*The possible range* of outputs. A law with tails reaches a negative concentration now and then. Outputs beyond the
range leave as its nearest end; the state goes on with what was drawn. So this is a function of the output, and costs
nothing.

*What floating point leaves over*: a bound on the leakage of the rounded outputs (`understudy.transform.roundoff`).

Every function that hands out disguised readings hands out what `Release.rounded` or `Release.one` returned.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Ints, Mask
from understudy.errors import ConfigurationError, ReadingError, UnderstudyError
from understudy.laws.atoms import Channel
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law, dimension
from understudy.models.gauss_markov import GaussMarkov, System, gauss_markov, innovations
from understudy.models.iid_markov import IID
from understudy.models.model import Model
from understudy.models.quantised import OnGrid, colour_on_grid
from understudy.transform.core import colour, has_atoms
from understudy.transform.kalman_pair import gains
from understudy.transform.readings import LARGEST_DECIMAL, Lattice, as_lattice
from understudy.transform.roundoff import STATED, Roundoff, roundoff, stated_error

SHARE = 1e-3
"""The default step, as a share of the smallest conditional standard deviation of a target."""

DOUBLE, FLOAT32, DIGITS, GRID = "double", "float32", "digits", "grid"
COARSE = 64.0
"""The grid of the models is at least so many units of the last place of a declared form."""
ROW = 64
"""So many readings in a row on a coarse grid, and a stream of full doubles stops."""

_PATH = 256  # readings of the simulated path on which models without closed form are looked at
_WIDE = 38.0  # standard deviations; a normal law is beyond them once in 1e315 readings
_FAR = 1e6  # spreads, for laws that may have heavy tails
_NEEDED, _NEAR = 8.0, 1.0  # standard deviations and spreads that a range must have at least
_STEPS = 4096  # readings of a system that are looked at one by one
_FINEST = 2.0**-900
_SHIFT = 1.5 * 2.0**52
_SPLIT = 2.0**29 + 1.0
_WHOLE = 2.0**50  # from here on a double has hardly a fraction left, and none to judge by
_FOR_EVER = 2**40
_TOLERANCE = 2.0**-44  # of scores of laws in closed form
_SLOPE = 34.0  # of the logarithm of a density, in conditional standard deviations, where the law is not normal


class Form(NamedTuple):
    """How the readings of a channel are written: "double", "float32", so many significant "digits", or on the "grid".

    >>> as_form("6 digits"), as_form(None)
    (Form(kind='digits', digits=6), Form(kind='double', digits=0))
    """

    kind: str
    digits: int = 0

    @property
    def words(self) -> str:
        """For a person to read."""
        return {DOUBLE: "full doubles", FLOAT32: "single precision", GRID: "the grid of the models"}.get(
            self.kind, f"{self.digits} significant digits"
        )

    def fits(self, y: Array) -> Mask:
        """Which readings, none of them missing, are written so."""
        if self.kind == FLOAT32:
            with np.errstate(over="ignore"):
                return np.asarray(y == y.astype(np.float32).astype(float))
        if self.kind == DIGITS:
            return np.array([value == float(f"{value:.{self.digits}g}") for value in y.tolist()], dtype=bool)
        return np.ones(y.shape, dtype=bool)

    def unit(self, largest: float) -> float:
        """The unit of the last place of readings up to this size."""
        if self.kind == FLOAT32:
            return float(np.spacing(np.float32(largest)))
        return 10.0 ** (math.ceil(math.log10(largest)) - self.digits) if self.kind == DIGITS and largest > 0.0 else 0.0


def as_form(given: str | Form | None) -> Form:
    """The form that a user declares for a channel."""
    if given is None:
        return Form(DOUBLE)
    if isinstance(given, Form):
        return given
    if isinstance(given, str) and given in (DOUBLE, FLOAT32, GRID):
        return Form(given)
    if isinstance(given, str):
        number, _, word = given.partition(" ")
        if word in ("digit", "digits") and number.isdecimal() and 1 <= int(number) <= 15:
            return Form(DIGITS, int(number))
    raise ConfigurationError(
        f"readings = {given!r}; it must be 'double', 'float32' or '6 digits' (significant ones). Readings on a grid, "
        "such as whole ppm or hundredths, need models that live on it: us.Quantised(model, step=1.0)"
    )


class Outputs(Protocol):
    """Outputs of a design's own, in place of readings with the law of another value."""

    @property
    def targets(self) -> tuple[Model, ...]:
        """The models to colour with, one for each pseudo value."""

    def to_plain(self) -> dict[str, Any]:
        """What files and fingerprints hold."""


class Terms(NamedTuple):
    """What was asked for when the design was made: None where the default serves."""

    resolution: Any = None
    readings: Any = None
    valid: Any = None
    fresh: float = 0.0
    """The fresh share."""
    outputs: Outputs | None = None
    """Outputs that were fitted to training readings."""


DEFAULT_TERMS = Terms()


class Release(Frozen):
    """What leaves, on which lattice, and what may come in; `Design.release` is one.

    >>> import understudy as us
    >>> def room(occupants):
    ...     return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)
    >>> release = us.design(us.Family(room, values=[0, 1]), leakage=0.3, horizon=50, distortion="mae").release
    >>> release
    Release(on multiples of 2^-11, of readings in full doubles from -40.32 to 240.3)
    >>> release.one(100.0002)
    100.0
    """

    __slots__ = ("dim", "forms", "grids", "high", "lattice", "low", "offset", "one", "possible", "single", "watched")

    def __init__(
        self,
        lattice: Lattice,
        forms: Sequence[Form],
        low: Sequence[float],
        high: Sequence[float],
        grids: Sequence[Channel | None],
        possible: Sequence[Ends] = (),
        offset: bool = False,
    ) -> None:
        self.lattice, self.dim = lattice, lattice.dim
        self.forms = tuple(forms)
        self.low, self.high = tuple(map(float, low)), tuple(map(float, high))
        self.grids = tuple(grids)  # the grid of the models in each channel, or None
        self.watched = tuple(i for i, form in enumerate(self.forms) if form.kind == DOUBLE)
        self.possible = tuple(
            _inwards(ends, lattice.steps[i], self.grids[i]) for i, ends in enumerate(possible or [NO_ENDS] * self.dim)
        )
        # the range is one of readings; where a public offset is added later it holds for the sum (`within`)
        self.offset = offset or self.possible == (NO_ENDS,) * self.dim
        self.one = lattice.one if self.offset else _clipped(lattice.one, *self.possible[0])
        # (low, high) where a reading of one channel needs no other check than its range
        self.single = (self.low[0], self.high[0]) if self.dim == 1 and self.forms[0].kind in (DOUBLE, GRID) else None

    def __repr__(self) -> str:
        forms = " and ".join(dict.fromkeys(form.words for form in self.forms))
        spans = ", ".join(f"from {a:.4g} to {b:.4g}" for a, b in dict.fromkeys(zip(self.low, self.high, strict=True)))
        where = f"multiples of {self.lattice.words}" if any(self.lattice.steps) else self.lattice.words
        return f"Release(on {where}, of readings in {forms} {spans})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.lattice, self.forms, self.low, self.high, self.grids, self.possible, self.offset)

    def rounded(self, Y: Array, out: Array | None = None) -> Array:
        """Outputs (T, d) as they leave."""
        found = self.lattice.rounded(Y, out)
        return found if self.offset else self.within(found)

    def within(self, Y: Array) -> Array:
        """Outputs (T, d), those beyond the possible range at its ends, in place; missing ones stay."""
        for i, (low, high) in enumerate(self.possible):
            if low > -math.inf or high < math.inf:
                np.clip(Y[:, i], low, high, out=Y[:, i])
        return Y

    def outside(self, Y: Array) -> Mask:
        """Which readings (T, d) are out of the valid range, (T,); a vector of which a part is missing is missing."""
        if self.dim == 1:
            beyond = (Y[:, 0] < self.low[0]) | (Y[:, 0] > self.high[0])
        else:
            beyond = np.asarray(((self.low > Y) | (self.high < Y)).any(axis=1))
        return beyond & ~np.isnan(Y).any(axis=1) if beyond.any() else beyond

    def admitted(self, Y: Array, positions: Ints) -> Array:
        """Readings (T, d), missing ones and those out of range aside, in the declared form and on the models' grid.

        `positions` number them in an error.
        """
        for i, (form, grid) in enumerate(zip(self.forms, self.grids, strict=True)):
            if form.kind in (DOUBLE, GRID):
                continue
            there = np.flatnonzero(~np.isnan(Y[:, i]) & (Y[:, i] >= self.low[i]) & (Y[:, i] <= self.high[i]))
            wrong = there[~form.fits(Y[there, i])]
            if wrong.size:
                raise ReadingError(
                    f"reading {int(positions[wrong[0]])} is not of the form that the design declares: {form.words}"
                )
            if grid is not None:
                Y = Y.copy() if Y.flags.writeable is False or there.size else Y
                Y[there, i] = grid.round(Y[there, i])
        return Y

    def to_plain(self) -> dict[str, Any]:
        """What a file keeps."""
        return {
            "resolution": list(self.lattice.steps),
            "readings": [form.kind if form.kind != DIGITS else f"{form.digits} digits" for form in self.forms],
            "valid": [list(self.low), list(self.high)],
        } | ({} if self.possible == (NO_ENDS,) * self.dim else {"possible": [list(ends) for ends in self.ends]})

    @property
    def ends(self) -> tuple[tuple[float | None, float | None], ...]:
        """The possible range of each channel, None where it has no end."""
        return tuple((None if math.isinf(a) else a, None if math.isinf(b) else b) for a, b in self.possible)


Ends = tuple[float, float]
NO_ENDS = (-math.inf, math.inf)


def _inwards(ends: Ends, step: float, grid: Channel | None) -> Ends:
    """Ends as values that outputs can have, moved inwards; none where the grid of the outputs is not known."""
    origin, width = (0.0, step) if step else (0.0, 0.0) if grid is None else (grid.offset, grid.step)
    if not width:
        return NO_ENDS
    one = Lattice([step]).one if step else _as_float
    low, high = (
        end if math.isinf(end) else one(origin + width * whole((end - origin) / width))
        for end, whole in zip(ends, (math.ceil, math.floor), strict=True)
    )
    return (low, high) if low < high else NO_ENDS


def _as_float(y: float) -> float:
    return float(y)


def _clipped(one: Callable[[float], float], low: float, high: float) -> Callable[[float], float]:
    def clipped(y: float) -> float:
        found = one(y)
        return low if found < low else high if found > high else found  # NaN stays

    return clipped


class Watch:
    """Counts readings in a row that lie on a coarse grid, where full doubles were declared.

    A double of six decimals or 24 bits is one of millions. Whatever the parameter is, readings of full doubles
    are next to never taken for others, and others are stopped at the 64th.
    """

    __slots__ = ("_channels", "count")

    def __init__(self, release: Release) -> None:
        self._channels, self.count = release.watched, 0

    def one(self, y: float) -> None:
        """Another reading of one channel."""
        t, c = y * 1e6, y * _SPLIT
        # 1.5 * 2^52 put on and taken off rounds to a whole number; Veltkamp's splitting leaves the upper 24 bits
        if (-_WHOLE < t < _WHOLE and -1e-7 < t - ((t + _SHIFT) - _SHIFT) < 1e-7) or c - (c - y) == y:
            self.count += 1
            if self.count >= ROW:
                raise self.stop()
        else:
            self.count = 0

    def many(self, Y: Array) -> None:
        """Further readings (T, d)."""
        y = Y if len(self._channels) == Y.shape[1] else Y[:, self._channels]
        if len(y) > ROW and not self.count:
            # a row of 64 holds two neighbours of every 32nd reading; most often there are none, and all is said
            some = np.asarray(is_coarse(y[:: ROW // 2]).any(axis=1))
            if not (some[1:] & some[:-1]).any() and not some[-1] and not is_coarse(y[-1:]).any():
                return
        y = y[~np.isnan(y).any(axis=1)]
        coarse = np.concatenate((np.ones(self.count, dtype=bool), is_coarse(y).any(axis=1)))
        rows = np.diff(np.flatnonzero(~coarse), prepend=-1, append=len(coarse)) - 1
        if rows.max() >= ROW:
            raise self.stop()
        self.count = int(rows[-1])

    def stop(self) -> ReadingError:
        """The error for readings that are no full doubles."""
        return ReadingError(
            f"{ROW} readings in a row have at most six decimals, or single precision, where the design declares full "
            "doubles; a grid that the models do not know gives the parameter away. Fit the family to such readings, "
            "use us.Quantised, or declare their form with readings="
        )


def is_coarse(y: Array) -> Mask:
    """Which readings have at most six decimals, or 24 bits, up to rounding; missing ones count as such."""
    with np.errstate(over="ignore", invalid="ignore"):
        t, c = y * 1e6, y * _SPLIT
        decimal = ~(np.abs(t - ((t + _SHIFT) - _SHIFT)) >= 1e-7) & ~(np.abs(t) >= _WHOLE)
        return np.asarray(decimal | (c - (c - y) == y))


# What floating point leaves over ---------------------------------------------------------------------

LARGEST_SCORE = 6.0
"""Scores of models that are not Gauss-Markov are clipped here: once in 5e8 readings, and for every value alike."""
FORGIVEN = 1e-9
"""Nats that the ledger does not count: it counts in millionths, and this is a thousandth of one."""


def floating_point(
    sources: Sequence[Model], targets: Sequence[Model], release: Release, fresh: float = 0.0
) -> Roundoff | None:
    """What rounding leaves of the source in outputs on the lattice; None where all channels have a grid of their own.

    None too where all is fresh: then no reading enters.

    Proved for Gauss-Markov models without missing readings. For others, and where nothing can be proved, it rests on a
    stated accuracy of the scores (2^-44, or what the model says in `score_tolerance`), and says so. Scores of such
    models are clipped at `LARGEST_SCORE`, which bounds how far an error of a score can move an output.
    """
    steps = release.lattice.steps
    if fresh == 1.0:
        return None
    if not all(steps):
        if not any(steps):
            return None
        steps = tuple(step or _coarsest(release, i) for i, step in enumerate(steps))
    linear = [[_linear(model) for model in models] for models in (sources, targets)]
    if all(model is not None for models in linear for model in models):
        largest = np.maximum(np.abs(release.low), np.abs(release.high))
        pairs = [(a, b) for a in linear[0] for b in linear[1] if a is not None and b is not None]
        found = roundoff(pairs, steps, largest, fresh=fresh)
        if found.errors and math.isfinite(found.nats(1)):
            return found
    worst = max(getattr(model, "score_tolerance", _TOLERANCE) for model in (*sources, *targets))
    errors = np.max([stated_error(model, worst, score=LARGEST_SCORE) for model in targets], axis=0)
    scales = np.min([_path_of(model)[0] for model in targets], axis=0)
    return Roundoff(((_FOR_EVER, tuple(errors.tolist())),), steps, tuple((_SLOPE / scales).tolist()), STATED)


def _coarsest(release: Release, channel: int) -> float:
    """The step of a channel that leaves on the grid of the models."""
    grid = release.grids[channel]
    return 1.0 if grid is None else float(grid.step)


# The release of a design ----------------------------------------------------------------------------


def release_of(
    sources: Sequence[Model],
    targets: Sequence[Model],
    terms: Terms,
    decimals: Sequence[int | None] | None = None,
    possible: Sequence[Sequence[float | None]] | None = None,
    offset: bool = False,
) -> Release:
    """The release for models of private and pseudo values; `decimals` and `possible` are what the family knows.

    `offset` says that the family is one of readings less a public offset; the possible range is one of readings.
    """
    dim = sources[0].dim
    lattice = default_lattice(targets, decimals) if terms.resolution is None else as_lattice(terms.resolution, dim)
    _check_lattice(lattice, targets, terms)
    grids = [_grid(sources, i) for i in range(dim)]
    own = [bool(np.array([_own_grid(model)[i] for model in sources]).all()) for i in range(dim)]
    low, high = default_range(sources) if terms.valid is None else _as_range(terms.valid, sources)
    asked = terms.readings
    each = list(asked) if isinstance(asked, (list, tuple)) and not isinstance(asked, Form) else [asked] * dim
    if len(each) != dim:
        raise ConfigurationError(f"readings = {asked!r}; it must be one form, or one for each of {dim} channels")
    forms = []
    for i, given in enumerate(each):
        form = as_form(given)
        form = Form(GRID) if own[i] and form.kind == DOUBLE else form
        largest = max(abs(low[i]), abs(high[i]))
        if form.kind in (FLOAT32, DIGITS):
            _check_form(form, grids[i], largest)
        elif form.kind == GRID and not own[i]:
            raise ConfigurationError("readings = 'grid'; the models do not live on one")
        forms.append(form)
    ends = [(-math.inf if a is None else a, math.inf if b is None else b) for a, b in possible or [(None, None)] * dim]
    return Release(lattice, forms, low, high, grids, ends, offset)


def _check_lattice(lattice: Lattice, targets: Sequence[Model], terms: Terms) -> None:
    """Refuse a channel that would leave in full doubles."""
    for i, step in enumerate(lattice.steps):
        if step == 0.0 and not all(bool(_own_grid(model)[i]) for model in targets):
            raise ConfigurationError(
                f"resolution = {terms.resolution!r}; channel {i} needs a step: not all models live on a grid of their "
                "own"
            )


def _check_form(form: Form, grid: Channel | None, largest: float) -> None:
    """Refuse a declared form without an exact law: one that no coarser grid of the models hides."""
    unit = form.unit(largest)
    step = 2.0 ** math.ceil(math.log2(COARSE * unit))
    if grid is None or grid.step < COARSE * unit:
        raise ConfigurationError(
            f"readings = {form.words!r}; such readings lie on a grid of their own, finer here than {unit:.3g}, that no "
            f"model has a law for. Let the models round more coarsely, us.Quantised(model, step={step!r}) or more; "
            "readings are then moved to that grid first"
        )


def default_lattice(targets: Iterable[Model], decimals: Sequence[int | None] | None = None) -> Lattice:
    """The coarsest lattice that costs nothing for these targets; `decimals` are those that the sensor prints, if known.

    >>> import understudy as us
    >>> room = us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, mean0=100.0, cov0=1.0)
    >>> default_lattice([room]), default_lattice([room], decimals=[2])
    (Lattice(2^-11), Lattice(0.01))
    >>> default_lattice([us.Quantised(room, step=5.0)])
    Lattice(the grid of the models)
    """
    models = list(targets)
    dim = models[0].dim
    free = np.asarray(
        np.array([_own_grid(model) for model in models]).all(axis=0)
    )  # channels whose targets all have a grid
    scales = np.full(dim, math.inf)
    for model in models:
        if not _own_grid(model).all():
            scales = np.minimum(scales, conditional_scales(model))
    known = [None] * dim if decimals is None else list(decimals)
    return Lattice([0.0 if free[i] else _step(float(scales[i]), known[i]) for i in range(dim)])


def conditional_scales(model: Model) -> Array:
    """The smallest standard deviation (d,) of each channel given the past and the channels before it.

    For Gauss-Markov models they are the diagonal of the Cholesky factor of the innovation covariance, over all steps;
    for others half the distance between the scores -1 and 1, along a simulated path.

    >>> import understudy as us
    >>> conditional_scales(us.IID(us.Gaussian(0.0, 2.0))).round(12).tolist()
    [1.414213562373]
    """
    linear = _linear(model)
    if linear is not None and linear.constant:
        table = gains(linear)
        stop = table.width - table.states**2
        # 1 / diag L stands before the covariance of each row
        r = table.flat.reshape(table.rows, table.width)[:, stop - table.dim : stop]
        return np.asarray(1.0 / r.max(axis=0))
    return _path_of(model)[0]


def default_range(
    sources: Sequence[Model], deviations: float = _WIDE, spreads: float = _FAR
) -> tuple[list[float], list[float]]:
    """The valid range (low, high) of each channel: what no model of a private value leaves.

    Normal models stay within 38 standard `deviations` of their means at all times; others within a million `spreads` of
    a simulated path. A random walk has no such range; it is given the one that it keeps for a million readings.

    >>> import understudy as us
    >>> default_range([us.IID(us.Gaussian(0.0, 4.0))])
    ([-76.0], [76.0])
    """
    linear = [_linear(_behind(model)) for model in sources]
    spans = [
        _simulated_range(model, spreads) if known is None else _linear_range(known, deviations)
        for model, known in zip(sources, linear, strict=True)
    ]
    low = np.min([span[0] for span in spans], axis=0)
    high = np.max([span[1] for span in spans], axis=0)
    return [float(x) for x in low], [float(x) for x in high]


def _linear_range(linear: GaussMarkov, deviations: float) -> tuple[Array, Array]:
    """Means of Y_k with so many standard deviations: the first readings one by one, later ones bounded."""
    m, P = linear.mean0, linear.cov0
    low, high = np.full(linear.dim, math.inf), np.full(linear.dim, -math.inf)
    steps = linear.steps if linear.steps is not None and not linear.constant else _STEPS
    for k in range(1, steps + 1):
        system = linear.at(k)
        m, P = system.A @ m + system.b, system.A @ P @ system.A.T + system.Q
        mean = system.C @ m + system.d
        spread = deviations * np.sqrt(np.maximum(np.diag(system.C @ P @ system.C.T + system.R), 0.0))
        if not np.isfinite(mean).all() or not np.isfinite(spread).all():
            return low, high
        low, high = np.minimum(low, mean - spread), np.maximum(high, mean + spread)
        if linear.constant and k % 64 == 0 and _is_settled(system, m, P):
            return low, high
    return _later_range(linear, m, P, (low, high), deviations) if linear.constant else (low, high)


def _is_settled(system: System, m: Array, P: Array) -> bool:
    """Whether a step moves mean and covariance of a state no more than rounding does."""
    scale = np.sqrt(np.maximum(np.diag(P), 0.0)) + 1e-300
    mean = np.abs(system.A @ m + system.b - m) <= 1e-9 * (np.abs(m) + scale)
    cov = np.abs(system.A @ P @ system.A.T + system.Q - P) <= 1e-9 * np.outer(scale, scale)
    return bool(mean.all() and cov.all())


def _later_range(
    linear: GaussMarkov, m: Array, P: Array, span: tuple[Array, Array], deviations: float
) -> tuple[Array, Array]:
    """The range of a constant system from here on, together with the one so far.

    With eigenvectors V of A, a later mean differs from the stationary one by sum_i |(C V)_i| |(V^-1 (m - m_inf))_i| at
    most, and a covariance likewise. Where a root is on the circle, strides that double lead to 2^20 readings.
    """
    system = linear.at(1)
    A, b, Q, C = system.A, system.b, system.Q, system.C
    roots, V = np.linalg.eig(A)
    with np.errstate(over="ignore", invalid="ignore"):
        if np.abs(roots).max() < 1.0 - 1e-9 and np.linalg.cond(V) < 1e8:
            rest = np.linalg.solve(np.eye(len(A)) - A, b)
            stationary, F = Q, A
            for _ in range(64):  # sum_j A^j Q A^j', doubled
                stationary, F = stationary + F @ stationary @ F.T, F @ F
            W, gain = np.linalg.inv(V), np.abs(C @ V)
            off = gain @ np.abs(W @ (m - rest))
            root = np.linalg.cholesky(P + (1e-12 * np.trace(P) + 1e-300) * np.eye(len(P)))
            spare = ((gain @ np.abs(W @ root)) ** 2).sum(axis=1)
            wide = off + deviations * np.sqrt(np.diag(C @ stationary @ C.T + system.R) + spare)
            mean = C @ rest + system.d
            return np.minimum(span[0], mean - wide), np.maximum(span[1], mean + wide)
        low, high = span
        for _ in range(8):
            A, b, Q = A @ A, A @ b + b, A @ Q @ A.T + Q
        for _ in range(_STEPS):  # of 256 readings each
            m, P = A @ m + b, A @ P @ A.T + Q
            mean = C @ m + system.d
            spread = deviations * np.sqrt(np.maximum(np.diag(C @ P @ C.T + system.R), 0.0))
            if not np.isfinite(mean).all() or not np.isfinite(spread).all():
                break
            low, high = np.minimum(low, mean - spread), np.maximum(high, mean + spread)
    return low, high


def _simulated_range(model: Model, spreads: float) -> tuple[Array, Array]:
    path = None
    if type(model) is OnGrid:
        path = colour_on_grid(_path_scores(model.dim)[:, :, None], model)
    path = _path_of(model)[1] if path is None else path[:, :, 0]
    middle = np.median(path, axis=0)
    spread = np.maximum(np.ptp(path, axis=0), 1e-12 * np.abs(middle))
    return middle - spreads * spread, middle + spreads * spread


def _path_scores(dim: int) -> Array:
    return np.random.default_rng(20230203).standard_normal((_PATH, dim))


def _path_of(model: Model) -> tuple[Array, Array]:
    """Smallest conditional scales (d,) of a model along a simulated path, and the path (T, d)."""
    dim = model.dim
    parts = innovations(model)
    if parts is not None and not getattr(parts[1], "atoms", False):
        with contextlib.suppress(UnderstudyError):
            return _path_of_innovations(*parts)
    state, least, path = model.start(), np.full(dim, math.inf), []
    emit = getattr(model, "emit", None)
    for z in _path_scores(dim):
        try:
            law = model.predict(state)
            for i in range(dim):
                ends = []
                for score in (-1.0, 1.0):
                    scores = z.copy()
                    scores[i] = score
                    ends.append(np.reshape(law.value(scores.item() if dim == 1 else scores), dim)[i])
                least[i] = min(least[i], 0.5 * float(ends[1] - ends[0]))
            score = z.item() if dim == 1 else z
            y = law.value(score)
            state = model.update(state, y) if emit is None else emit(state, score)[0]
        except (UnderstudyError, IndexError):  # a model that is given for fewer readings
            break
        path.append(np.reshape(y, dim))
    if not path:
        raise ConfigurationError("a model gives no law for its first reading; resolution= and valid= cannot be chosen")
    return least, np.array(path, dtype=float)


def _path_of_innovations(recursion: GaussMarkov | None, law: Law) -> tuple[Array, Array]:
    """The same for independent innovations, which do not depend on the past: all of them at once."""
    dim = dimension(law)
    z = _path_scores(dim)

    def values(z: Array) -> Array:
        return np.reshape(law.value(z[:, 0] if dim == 1 else z.T), (dim, len(z))).T

    least = np.empty(dim)
    for i in range(dim):
        low, high = z.copy(), z.copy()
        low[:, i], high[:, i] = -1.0, 1.0
        least[i] = 0.5 * float((values(high) - values(low))[:, i].min())
    return least, values(z) if recursion is None else np.reshape(colour(values(z), recursion), z.shape)


def _linear(model: Model) -> GaussMarkov | None:
    """The Gauss-Markov form of a model, or of independent normal readings."""
    found = gauss_markov(model)
    if found is None and type(model) is IID and isinstance(model.law, Gaussian):
        law = model.law
        nothing = np.zeros((law.dim, 1))
        mean, cov = law.arguments
        R = np.reshape(cov, (law.dim, law.dim))
        return GaussMarkov(0.0, nothing, 0.0, R, d=np.ravel(mean), mean0=0.0, cov0=0.0)
    return found


def _behind(model: Model) -> Model:
    """The model of unrounded readings behind one that lives on a grid."""
    inside = getattr(model, "linear", None) or (getattr(model, "model", None) if hasattr(model, "grid") else None)
    return model if inside is None else inside


def _own_grid(model: Model) -> Mask:
    """Which channels (d,) of a model live on a grid of their own."""
    channels = getattr(getattr(model, "grid", None), "channels", None)
    if channels is not None:
        return np.array([channel.step > 0.0 for channel in channels])
    return np.full(model.dim, not isinstance(model, GaussMarkov) and has_atoms(model))


def _grid(models: Sequence[Model], channel: int) -> Channel | None:
    """The grid that all models have in a channel, if it is one and the same."""
    found = [getattr(getattr(model, "grid", None), "channels", None) for model in models]
    grids = [None if channels is None else channels[channel] for channels in found]
    first = grids[0]
    return first if first is not None and first.step > 0.0 and all(grid == first for grid in grids) else None


def _step(scale: float, decimals: int | None) -> float:
    """The step for a channel of this conditional standard deviation."""
    if not _FINEST < SHARE * scale < 1.0 / _FINEST:
        raise ConfigurationError(
            "no resolution can be chosen: the conditional standard deviation of a target is 0, not finite or unknown; "
            "give resolution="
        )
    if decimals is not None:
        return min(float(f"1e{max(-decimals, math.floor(math.log10(SHARE * scale)))}"), LARGEST_DECIMAL)
    return float(2.0 ** math.floor(math.log2(SHARE * scale)))


def _as_range(valid: tuple[ArrayLike, ArrayLike], sources: Sequence[Model]) -> tuple[list[float], list[float]]:
    """The range that a user gives, if the models hardly ever leave it: what they leave it by would be their leak."""
    dim = sources[0].dim
    rule = f"it must be (low, high), each a number or one for each of {dim} channels, low below high"
    try:
        if isinstance(valid, (str, bytes, dict, set)):
            raise TypeError
        low, high = (np.broadcast_to(np.asarray(end, dtype=float), (dim,)).tolist() for end in valid)
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(f"valid = {valid!r}; {rule}") from None
    if not all(math.isfinite(a) and math.isfinite(b) and a < b for a, b in zip(low, high, strict=True)):
        raise ConfigurationError(f"valid = {valid!r}; {rule}")
    needed = default_range(sources, _NEEDED, _NEAR)
    for i, (a, b, least, most) in enumerate(zip(low, high, *needed, strict=True)):
        if a > least or b < most:
            raise ConfigurationError(
                f"valid = {valid!r}; the models leave that range, and readings beyond it are not taken for any, which "
                f"would tell of the parameter: channel {i} needs {least:.6g} to {most:.6g} at least"
            )
    return low, high
