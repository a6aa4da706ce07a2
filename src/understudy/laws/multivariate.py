"""Laws of several channels: independent ones, a copula, and mixtures, taken apart channel by channel.

`Independent` channels have a law of one number each. A `GaussianCopula` adds a Gaussian dependence: with s_i
the score of channel i under its own law, s is N(0, R) for a correlation matrix R = L L'; so the scores of the vector
are z = L^-1 s, and its density is that of s times the slopes ds_i/dy_i.

A mixture of laws of several channels is triangular as soon as its components are. Given the channels before, each
component has a law for the next channel, and the mixture of these laws, with the weights that the channels before have
left, is the law of the next channel (`mixture` does the rest). Three laws use this:

- `GaussianMixture`: with S_k = L_k L_k' and e_k = L_k^-1 (y - mean_k), whose first l - 1 entries need no more than
  the channels before, channel l is normal under component k, with the mean mean_k,l + sum_{j<l} L_k,lj e_k,j and
  the standard deviation L_k,ll.
- `ShiftedMixture`: the law of a reading whose hidden state is a cloud of points. If the state is at x_i with
  weight w_i and the reading is read(x_i) plus noise, the law of the reading is that of the noise, moved to each
  read(x_i). All components share one law of noise, so a thousand of them are worked on as one array.
- `ChannelMixture`: any components that can be taken apart: `Independent` channels, `Gaussian` vectors and mixtures of
  them, copulas, and any of these `Shifted`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Numbers, Plain
from understudy.errors import LawError, NumericalError, ReadingError
from understudy.laws.atoms import Atoms
from understudy.laws.gaussian import Gaussian, cholesky, multiply_lower, solve_lower
from understudy.laws.law import (
    Law,
    channels,
    check_inside,
    check_reached,
    dimension,
    has_atoms,
    is_law,
    numbers,
    to_shape,
    until_missing,
)
from understudy.laws.mixture import (
    Components,
    Mixture,
    Moved,
    Noise,
    Normals,
    blocks,
    check_weights,
    log_sum,
    mixture_score,
    mixture_value,
)
from understudy.laws.scalar import Scalar, Shifted
from understudy.serialize import Place, construct, fields, laws_from_plain, laws_to_plain, stored_array

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)

# Independent channels ---------------------------------------------------------------------------------


class Independent:
    """The joint law of independent channels: one law of one number for each.

    >>> from understudy.laws.gaussian import Gaussian, cholesky, multiply_lower, solve_lower
    >>> import scipy.stats
    >>> from understudy.laws.scalar import Scalar
    >>> law = Independent(Gaussian(20.0, 4.0), Scalar(scipy.stats.laplace()))
    >>> law
    Independent(dim=2)
    >>> law.score([24.0, 0.0]).tolist()
    [2.0, 0.0]
    >>> law.value([2.0, 0.0]).tolist()
    [24.0, 0.0]
    """

    __slots__ = ("_laws", "dim")

    dim: int

    def __init__(self, *laws: Law) -> None:
        if not laws:
            raise LawError("no law given; a vector needs one law for each channel")
        for i, law in enumerate(laws):
            if not is_law(law):
                raise LawError(f"channel {i} is of type {type(law).__name__}; it must be a law")
            dim = dimension(law)
            if dim != 1:
                raise LawError(f"channel {i} has dim = {dim}; each channel must be a law of one number")
        self._laws = laws
        self.dim = len(laws)

    @property
    def laws(self) -> tuple[Law, ...]:
        """The laws of the channels."""
        return self._laws

    @property
    def atoms(self) -> bool:
        """Whether a channel has atoms, so that scores need auxiliary uniforms."""
        return any(has_atoms(law) for law in self._laws)

    def to_dict(self, place: Place) -> Plain:
        """The laws of the channels; see `understudy.serialize`."""
        return {"laws": laws_to_plain(self._laws, place / "laws")}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> Independent:
        """The law again."""
        laws = laws_from_plain(fields(place, plain, "laws")["laws"], place / "laws")
        return construct(place, cls, *laws)

    def __repr__(self) -> str:
        return f"Independent(dim={self.dim})"

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Array:
        """The scores of the channels, each by its own law; `v` has the shape of `y`."""
        aux: Sequence[Numbers | None] = [None] * self.dim if v is None else self._rows(v)
        return np.array([law.score(row, u) for law, row, u in zip(self._laws, self._rows(y), aux, strict=True)])

    def value(self, z: ArrayLike) -> Array:
        """The reading that has these scores."""
        return np.array([law.value(row) for law, row in zip(self._laws, self._rows(z), strict=True)])

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Log-density: the sum over the channels."""
        total: Numbers = 0.0
        for law, row in zip(self._laws, self._rows(y), strict=True):
            total = total + law.logpdf(row)
        return total

    def _rows(self, y: ArrayLike) -> Sequence[Numbers]:
        array = vectors(y, self.dim)
        return array.tolist() if array.ndim == 1 else list(array)


def vectors(y: ArrayLike, d: int) -> Array:
    """Readings of d channels, (d,) or (d, N), as floats.

    >>> vectors([1, 2], 2).tolist()
    [1.0, 2.0]
    """
    array = numbers(y)
    if array.ndim not in (1, 2) or array.shape[0] != d:
        raise ReadingError(f"a reading of shape {array.shape}; {d} channels need ({d},) or ({d}, N)")
    return array


# A Gaussian dependence between channels ---------------------------------------------------------------


class GaussianCopula(Frozen):
    """Channels with laws of their own whose scores are correlated normals.

    >>> import scipy.stats
    >>> from understudy.laws.scalar import Scalar
    >>> law = GaussianCopula([[1.0, 0.6], [0.6, 1.0]], [Gaussian(20.0, 4.0), Scalar(scipy.stats.expon())])
    >>> law
    GaussianCopula(dim=2)
    >>> law.value([1.0, 0.0]).round(6).tolist()  # the second is the quantile of the score 0.6
    [22.0, 1.293704]
    """

    __slots__ = ("_core", "_correlation", "_marginals", "dim")

    dim: int

    def __init__(self, correlation: ArrayLike, laws: Sequence[Law]) -> None:
        try:
            self._marginals = Independent(*laws)
        except TypeError:
            raise LawError(f"laws is of type {type(laws).__name__}; it must be a list of laws of one number") from None
        for i, law in enumerate(self._marginals.laws):
            if has_atoms(law):
                raise LawError(f"law {i} has atoms; with them the scores of the channels are not Gaussian")
        self.dim = self._marginals.dim
        self._correlation = _check_correlation(correlation, self.dim)
        self._core = Gaussian(np.zeros(self.dim), self._correlation)

    @property
    def laws(self) -> tuple[Law, ...]:
        """The laws of the channels."""
        return self._marginals.laws

    @property
    def correlation(self) -> Array:
        """The correlations of the scores, (d, d)."""
        return self._correlation

    @property
    def root(self) -> Array:
        """The lower Cholesky factor of the correlation, (d, d)."""
        return self._core.root

    def __reduce__(self) -> tuple[type[GaussianCopula], tuple[Array, tuple[Law, ...]]]:
        return GaussianCopula, (self._correlation, self.laws)

    def to_dict(self, place: Place) -> Plain:
        """The correlation and the laws; see `understudy.serialize`."""
        return {"correlation": self._correlation.tolist(), "laws": laws_to_plain(self.laws, place / "laws")}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> GaussianCopula:
        """The law again."""
        given = fields(place, plain, "correlation", "laws")
        correlation = stored_array(place / "correlation", given["correlation"], 2)
        return construct(place, cls, correlation, laws_from_plain(given["laws"], place / "laws"))

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"GaussianCopula(dim={self.dim})"

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Numbers:
        """Z = L^-1 s, with s the scores of the channels under their own laws."""
        if self.dim == 1:
            return self.laws[0].score(numbers(y)[()])
        channels(y, self.dim, "reading")
        return self._core.score(self._marginals.score(y))

    def value(self, z: ArrayLike) -> Numbers:
        """The reading with these scores: s = L z, and each channel by its own law."""
        if self.dim == 1:
            return self.laws[0].value(numbers(z)[()])
        channels(z, self.dim, "score")
        return self._marginals.value(self._core.value(np.asarray(z, dtype=float)))

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Log-density: those of the channels, plus log phi_R(s) - sum_i log phi(s_i)."""
        if self.dim == 1:
            return self.laws[0].logpdf(numbers(y)[()])
        readings = channels(y, self.dim, "reading").reshape(np.shape(y))
        height = np.asarray(self._marginals.logpdf(readings), dtype=float)
        inside = height > -np.inf
        # outside a support there is no score, and no density either
        columns = readings.reshape(self.dim, -1)
        s = self._marginals.score(columns[:, inside.reshape(-1)])
        both = self._core.logpdf(s) - Gaussian(np.zeros(self.dim), np.eye(self.dim)).logpdf(s)
        out = height.copy().reshape(-1)
        out[inside.reshape(-1)] += both
        return float(out.item()) if height.shape == () else out.reshape(height.shape)


def _check_correlation(correlation: ArrayLike, dim: int) -> Array:
    try:
        R = np.array(correlation, dtype=float)
    except (TypeError, ValueError) as error:
        raise LawError(f"correlation must be a matrix of numbers: {error}") from None
    if R.shape != (dim, dim):
        raise LawError(f"correlation has shape {R.shape}; {dim} laws need ({dim}, {dim})")
    if not np.isfinite(R).all():
        raise LawError("correlation has entries that are not finite; every entry must be")
    for i, entry in enumerate(np.diag(R).tolist()):
        if abs(entry - 1.0) > 1e-9:
            raise LawError(f"correlation[{i}, {i}] = {entry!r}; the diagonal must be 1")
    if float(np.abs(R - R.T).max()) > 1e-9:
        raise LawError("correlation is not symmetric; it must be")
    smallest = float(np.linalg.eigvalsh(R)[0])
    if not smallest > 0.0:
        raise LawError(f"correlation has the eigenvalue {smallest:.6g}; it must be positive definite")
    R.flags.writeable = False
    return R


# Mixtures, channel by channel -------------------------------------------------------------------------


class _TriangularMixture(Frozen):
    """A mixture whose next channel, given the channels before, is a mixture of laws of one number.

    `_log_w` are the log-weights (K, 1) of the components before any channel is known.
    """

    __slots__ = ("_log_w", "dim")

    dim: int
    _log_w: Array

    def _components(self, i: int, log_w: Array, before: Array) -> Components:
        """The components of channel i, given the channels before it, (i, N)."""
        raise NotImplementedError  # each subclass has its own

    def _whiten(self, y: Array) -> Array:
        """Readings (d, N) in the coordinates that are worked on."""
        return y

    def _colour(self, e: Array) -> Array:
        """The inverse of `_whiten`."""
        return e

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Numbers:
        """The scores of the channels, each given those before it; NaN from the first missing one on."""
        readings = channels(y, self.dim, "reading")
        z = self._blockwise(lambda rows: self._walk(self._whiten(rows), mixture_score), readings)
        check_inside(z, np.shape(y))
        check_reached(z, until_missing(readings), np.shape(y), "reading")
        return to_shape(z, np.shape(y))

    def value(self, z: ArrayLike) -> Numbers:
        """The reading with these scores, channel after channel."""
        scores = channels(z, self.dim, "score")
        y = self._blockwise(lambda rows: self._colour(self._walk(rows, mixture_value)), scores)
        check_reached(y, until_missing(scores), np.shape(z), "score")
        return to_shape(y, np.shape(z))

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Log-density of all channels together."""
        rows = channels(y, self.dim, "reading")
        height = self._blockwise(lambda rows: log_sum(self._log_w + self._heights(rows)), rows)
        return to_shape(height, np.shape(y) if self.dim == 1 else np.shape(y)[1:])

    def _walk(self, rows: Array, function: Callable[[Array, Components], Array]) -> Array:
        """Scores of readings (`mixture_score`), or readings of scores (`mixture_value`), channel after channel."""
        out, log_w = np.empty(rows.shape), self._log_w
        readings = rows if function is mixture_score else out
        for i, row in enumerate(rows):
            parts = self._components(i, log_w, readings[:i])
            out[i] = function(row, parts)
            if i + 1 < self.dim:
                log_w = log_w + parts.logpdf(readings[i])
                log_w = log_w - log_sum(log_w)
        return out

    def _heights(self, rows: Array) -> Array:
        """Log-densities (K, N) of readings (d, N) under each component."""
        e = self._whiten(rows)
        total = self._components(0, self._log_w, e[:0]).logpdf(e[0])
        for i in range(1, self.dim):
            total += self._components(i, self._log_w, e[:i]).logpdf(e[i])
        return total

    def _blockwise(self, function: Callable[[Array], Array], rows: Array) -> Array:
        """A function of columns (d, n), for as many at a time as are worked on as one array."""
        with np.errstate(all="ignore"):
            parts = [function(rows[:, block]) for block in blocks(rows.shape[1], len(self._log_w))]
        return np.concatenate(parts, axis=-1)


class GaussianMixture(_TriangularMixture):
    """A vector from one of several Gaussian laws, with the given probabilities.

    Parameters
    ----------
    weights : array_like, shape (K,)
        Probabilities of the components.
    means : array_like, shape (K, d)
        Their means; (K,) for one channel.
    covs : array_like, shape (K, d, d)
        Their covariances; variances (K,) for one channel.

    Raises
    ------
    LawError
        If the shapes do not agree, or a covariance is not positive definite.

    Examples
    --------
    >>> law = GaussianMixture([0.5, 0.5], [[-3.0, 0.0], [3.0, 0.0]], [np.eye(2), 4.0 * np.eye(2)])
    >>> law
    GaussianMixture(2 laws, dim=2)
    >>> law.value(law.score([3.0, 4.0])).round(9).tolist()
    [3.0, 4.0]

    """

    __slots__ = ("_given", "_means", "_roots", "_weights")

    def __init__(self, weights: ArrayLike, means: ArrayLike, covs: ArrayLike) -> None:
        m, S = _check_moments(means, covs)
        self._weights = check_weights(weights, len(m), "means")
        self._given = tuple(np.asarray(weights, dtype=float).tolist()), m, S
        self.dim = m.shape[1]
        keep = self._weights > 0.0
        self._log_w = np.log(self._weights[keep])[:, None]
        # (d, K, 1) and (d, d, K, 1): channel, component, reading
        self._means = m[keep].T[:, :, None]
        self._roots = np.moveaxis(_roots(S)[keep], 0, 2)[:, :, :, None]

    @property
    def weights(self) -> Array:
        """The probabilities of the components, summing to 1."""
        return self._weights

    @property
    def means(self) -> Array:
        """The means of the components, (K, d)."""
        return self._given[1]

    @property
    def covs(self) -> Array:
        """The covariances of the components, (K, d, d)."""
        return self._given[2]

    def __reduce__(self) -> tuple[type[GaussianMixture], tuple[tuple[float, ...], Array, Array]]:
        return GaussianMixture, self._given

    def to_dict(self, place: Place) -> Plain:
        """Weights as they were given, means and covariances; see `understudy.serialize`."""
        weights, means, covs = self._given
        return {"weights": list(weights), "means": means.tolist(), "covs": covs.tolist()}

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> GaussianMixture:
        """The law again."""
        axes = {"weights": 1, "means": 2, "covs": 3}
        given = fields(place, plain, *axes)
        return construct(place, cls, *(stored_array(place / name, given[name], axes[name]) for name in axes))

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"GaussianMixture({self._weights.size} laws, dim={self.dim})"

    def _components(self, i: int, log_w: Array, before: Array) -> Normals:
        errors: list[Array] = []
        for y in before:
            j = len(errors)
            errors.append((y - self._mean(j, errors)) / self._roots[j, j])
        return Normals(log_w, self._mean(i, errors), self._roots[i, i])

    def _mean(self, i: int, errors: list[Array]) -> Array:
        # sums written out: a matrix product may round one reading and many readings differently
        mean: Array = self._means[i]
        for j, e in enumerate(errors):
            mean = mean + self._roots[i, j] * e
        return mean


def _check_moments(means: ArrayLike, covs: ArrayLike) -> tuple[Array, Array]:
    try:
        m, S = np.array(means, dtype=float), np.array(covs, dtype=float)
    except (TypeError, ValueError) as error:
        raise LawError(f"means and covs must be arrays of numbers: {error}") from None
    if m.ndim == 1 and S.ndim == 1:
        m, S = m[:, None], S[:, None, None]
    if m.ndim != 2 or m.size == 0 or S.shape != (*m.shape, m.shape[1]):
        raise LawError(
            f"means have shape {m.shape} and covs have shape {S.shape}; K laws of d channels need means (K, d) "
            "and covariances (K, d, d)"
        )
    for name, array in (("means", m), ("covs", S)):
        if not np.isfinite(array).all():
            raise LawError(f"{name} have entries that are not finite; every entry must be")
    m.flags.writeable = S.flags.writeable = False
    return m, S


def _roots(covs: Array) -> Array:
    """The lower Cholesky factors."""
    return np.array([cholesky(S, f"covariance {k}") for k, S in enumerate(covs)])


# Any components that can be taken apart ---------------------------------------------------------------


_KNOWN = (Gaussian, Independent, GaussianMixture, GaussianCopula)


def can_be_taken_apart(law: Law) -> bool:
    """Whether `next_channel` knows a law of several channels."""
    return can_be_taken_apart(law.law) if isinstance(law, Shifted) else isinstance(law, _KNOWN)


def next_channel(law: Law, before: Sequence[float]) -> Law:
    """The law of the channel that follows the channels `before`.

    >>> law = next_channel(Gaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]]), [2.0])
    >>> round(law.mean, 12), round(law.cov, 12)
    (1.6, 0.36)
    """
    n = len(before)
    if dimension(law) == 1:
        return law
    if isinstance(law, Independent):
        return law.laws[n]
    if isinstance(law, Shifted):
        shift = np.broadcast_to(law.shift, law.dim).tolist()
        return Shifted(next_channel(law.law, [y - move for y, move in zip(before, shift, strict=False)]), shift[n])
    if isinstance(law, GaussianMixture):
        return ChannelMixture(law.weights.tolist(), [*map(Gaussian, law.means, law.covs)]).next(before)
    if isinstance(law, GaussianCopula):
        scores = [float(channel.score(y)) for channel, y in zip(law.laws, before, strict=False)]
        return Warped(law.laws[n], next_channel(Gaussian(np.zeros(law.dim), law.correlation), scores))
    if not isinstance(law, Gaussian):
        raise LawError(f"a law of type {type(law).__name__} cannot be taken apart channel by channel")
    mean, L = law.mean, law.root
    z: list[float] = []
    for i, y in enumerate(before):
        # z = L^-1 (y - mean)
        z.append((y - mean[i] - sum(L[i, j] * z[j] for j in range(i))) / L[i, i])
    return Gaussian(float(mean[n] + sum(L[n, j] * z[j] for j in range(n))), float(L[n, n] ** 2))


class Warped(Frozen):
    """A reading whose score under `marginal` has the law `score_law`: one channel of a copula, given others."""

    __slots__ = ("dim", "marginal", "score_law")

    def __init__(self, marginal: Law, score_law: Law) -> None:
        self.dim, self.marginal, self.score_law = 1, marginal, score_law

    def __repr__(self) -> str:
        return "Warped(dim=1)"

    def score(self, y: Numbers, v: Numbers | None = None) -> Numbers:
        """Score of the score."""
        return self.score_law.score(self.marginal.score(y))

    def value(self, z: Numbers) -> Numbers:
        """The reading with this score."""
        return self.marginal.value(self.score_law.value(z))

    def logpdf(self, y: Numbers) -> Numbers:
        """f(y) g(s) / phi(s), with g the density of the score s; -inf outside the support of the marginal."""
        height = np.asarray(self.marginal.logpdf(y), dtype=float)
        s = np.asarray(self.marginal.score(np.where(height > -np.inf, y, self.marginal.value(0.0))), dtype=float)
        out = np.where(height > -np.inf, height + self.score_law.logpdf(s) + 0.5 * s * s + _HALF_LOG_2PI, -np.inf)
        return float(out) if out.ndim == 0 else out


def mix(weights: Sequence[float], laws: Sequence[Law]) -> Law:
    """The mixture of laws of one number; atoms must be laws on the same values.

    >>> a, b = Atoms([0.0, 1.0], [0.5, 0.5]), Atoms([0.0, 1.0], [0.1, 0.9])
    >>> mix([0.5, 0.5], [a, b]).probabilities.round(12).tolist()
    [0.3, 0.7]
    """
    kept = [i for i, weight in enumerate(weights) if weight > 0.0]
    if len(kept) == 1:
        return laws[kept[0]]
    atoms = [law for law in laws if isinstance(law, Atoms)]
    if atoms:
        return Atoms.from_sorted(atoms[0].values, mix_probabilities(weights, [law.probabilities for law in atoms]))
    return Mixture([weights[i] for i in kept], [laws[i] for i in kept])


def mix_probabilities(weights: Sequence[float] | Array, probabilities: Sequence[Array]) -> Array:
    """sum_i w_i p_i, added up in a fixed order; weights (K,), or (K, N, 1) for N mixtures."""
    total = weights[0] * probabilities[0]
    for weight, p in zip(weights[1:], probabilities[1:], strict=True):
        total = total + weight * p
    return total


def reweight(weights: Sequence[float], logs: Sequence[float]) -> list[float]:
    """w_i exp(log_i), normalised in logarithms: an unlikely reading leaves the least unlikely component.

    >>> reweight([0.5, 0.5], [-2000.0, -2000.0])
    [0.5, 0.5]
    """
    if any(math.isnan(log) for log in logs):
        raise NumericalError("a law gave a log-density that is not a number")
    terms = [math.log(w) + log if w > 0.0 else -math.inf for w, log in zip(weights, logs, strict=True)]
    top = max(terms)
    if not math.isfinite(top):
        raise impossible()
    likelihood = [math.exp(term - top) for term in terms]
    total = sum(likelihood)
    return [x / total for x in likelihood]


def impossible(row: int | None = None) -> ReadingError:
    """The error for a reading that no component allows."""
    where = "the reading" if row is None else f"the reading in row {row}"
    return ReadingError(f"{where} is impossible (of density zero or not finite) under every law that may hold here")


class ChannelMixture(Frozen):
    """The mixture of laws of d channels, with these weights.

    >>> a = Independent(Gaussian(0.0, 1.0), Gaussian(0.0, 1.0))
    >>> b = Independent(Gaussian(9.0, 1.0), Gaussian(9.0, 1.0))
    >>> law = ChannelMixture([0.5, 0.5], [a, b])
    >>> law
    ChannelMixture(2 laws, dim=2)
    >>> law.score([9.0, 10.0]).round(6).tolist()
    [0.67449, 1.0]
    >>> law.value(law.score([9.0, 10.0])).round(9).tolist()
    [9.0, 10.0]
    """

    __slots__ = ("atoms", "dim", "laws", "weights")

    def __init__(self, weights: Sequence[float], laws: Sequence[Law]) -> None:
        if len(weights) != len(laws) or not laws:
            raise LawError(f"there are {len(weights)} weights and {len(laws)} laws; each law needs one weight")
        self.weights, self.laws = tuple(weights), tuple(laws)
        self.dim = dimension(laws[0])
        self.atoms = any(has_atoms(law) for law in laws)

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"ChannelMixture({len(self.laws)} laws, dim={self.dim})"

    def score(self, y: ArrayLike, v: ArrayLike | None = None) -> Array:
        """The scores of the channels, each given the channels before it; `v` has the shape of `y`."""
        readings = self._columns(y)
        uniforms = None if v is None else self._columns(v)
        if uniforms is not None and uniforms.shape != readings.shape:
            raise ReadingError(
                f"auxiliary uniforms of shape {uniforms.T.shape}; readings of shape {readings.T.shape} need the same"
            )
        out = np.empty(readings.shape)
        for k, column in enumerate(readings.tolist()):
            before: list[float] = []
            for i, number in enumerate(column):
                law = self.next(before)
                out[k, i] = law.score(number) if uniforms is None else law.score(number, float(uniforms[k, i]))
                before.append(number)
        return out.T.reshape(np.shape(y))

    def value(self, z: ArrayLike) -> Array:
        """The reading that has these scores."""
        scores = self._columns(z)
        out = np.empty(scores.shape)
        for k, column in enumerate(scores.tolist()):
            before: list[float] = []
            for number in column:
                before.append(float(self.next(before).value(number)))
            out[k] = before
        return out.T.reshape(np.shape(z))

    def logpdf(self, y: ArrayLike) -> Numbers:
        """Log-density: the logarithm of the weighted sum."""
        readings = vectors(y, self.dim)
        logs = np.stack([np.asarray(law.logpdf(readings), dtype=float) for law in self.laws])
        with np.errstate(divide="ignore"):
            terms = (np.log(self.weights) + logs.T).T
        total = np.logaddexp.reduce(terms, axis=0)
        return float(total) if total.ndim == 0 else total

    def next(self, before: Sequence[float]) -> Law:
        """The law of the next channel; all channels before it are weighed at once, so that none underflows."""
        weights = (
            reweight(self.weights, [self._log(i, before) for i in range(len(self.laws))]) if before else self.weights
        )
        # a law that the channels before have excluded has no law of the next one
        kept = [i for i, weight in enumerate(weights) if weight > 0.0]
        return mix([weights[i] for i in kept], [next_channel(self.laws[i], before) for i in kept])

    def _log(self, i: int, before: Sequence[float]) -> float:
        """Log-density of the channels seen so far under law i."""
        total = 0.0 if self.weights[i] > 0.0 else -math.inf
        for n, number in enumerate(before):
            if total == -math.inf:
                break
            total += float(next_channel(self.laws[i], before[:n]).logpdf(number))
        return total

    def _columns(self, y: ArrayLike) -> Array:
        """One row a reading, (N, d)."""
        return vectors(y, self.dim).reshape(self.dim, -1).T


# Noise moved to one of many places --------------------------------------------------------------------


class ReadingNoise(Frozen):
    """Noise of a reading as independent channels behind a triangular matrix: v = mean + L e.

    A Gaussian has standard normal channels. Other laws have L = I: one number, or `Independent` ones.
    """

    __slots__ = ("_channels", "_law", "_mean", "_root", "dim", "log_det")

    def __init__(self, law: Law) -> None:
        self.dim = d = dimension(law)
        self._law = law
        if isinstance(law, Gaussian):
            self._channels: tuple[Noise, ...] = ()
            self._mean, self._root = np.reshape(law.mean, (d, 1)), law.root
        elif d == 1 or isinstance(law, Independent):
            self._channels = tuple(Noise(part) for part in (law.laws if isinstance(law, Independent) else (law,)))
            self._mean, self._root = np.zeros((d, 1)), np.eye(d)
        else:
            raise LawError(
                f"reading_noise is a {type(law).__name__} of {d} channels; noise of several channels must be "
                "Gaussian or Independent"
            )

        self.log_det: float = float(np.log(np.diag(self._root)).sum())

    def __repr__(self) -> str:
        return f"ReadingNoise(dim={self.dim})"

    def __reduce__(self) -> tuple[type[ReadingNoise], tuple[Law]]:
        return ReadingNoise, (self._law,)

    @property
    def law(self) -> Law:
        """The law that was given."""
        return self._law

    @property
    def scales(self) -> Array:
        """The scales of the channels of e, (d,)."""
        return np.array([channel.scale for channel in self._channels]) if self._channels else np.ones(self.dim)

    def components(self, i: int, log_w: Array, place: Array) -> Components:
        """Channel i of e, moved to the places (K, 1)."""
        return Moved(log_w, place, self._channels[i]) if self._channels else Normals(log_w, place, np.ones((1, 1)))

    def places(self, shifts: Array) -> Array:
        """L^-1 (shifts + mean): where the channels of e are moved to."""
        return self.solve(shifts + self._mean)

    def solve(self, y: Array) -> Array:
        """L^-1 y, for (d, N)."""
        return y if self._channels else solve_lower(self._root, y)

    def multiply(self, e: Array) -> Array:
        """L e, for (d, N)."""
        return e if self._channels else multiply_lower(self._root, e)


class ShiftedMixture(_TriangularMixture):
    """The law of a reading whose noise is moved to one of N places, with given probabilities.

    `shifts` is (N,) for one channel or (d, N). With L the root of a Gaussian noise's covariance, L^-1 y
    is a mixture with independent channels in each part, so its conditional laws, channel by channel, are
    mixtures with the same places and changed weights; and L is triangular, so these are the scores of y.

    >>> law = ShiftedMixture(np.array([-3.0, 3.0]), np.log([0.5, 0.5]), ReadingNoise(Gaussian(0.0, 1.0)))
    >>> law
    ShiftedMixture(2 points, dim=1)
    >>> round(law.value(0.0), 9) + 0.0
    0.0
    >>> round(law.score(law.value(2.5)), 9)
    2.5
    """

    __slots__ = ("_noise", "_places", "_shifts")

    def __init__(self, shifts: ArrayLike, log_weights: ArrayLike, noise: ReadingNoise) -> None:
        self.dim = noise.dim
        self._noise = noise
        self._shifts = np.reshape(np.asarray(shifts, dtype=float), (noise.dim, -1))
        # components come first: (d, N, 1) and (N, 1)
        self._places = noise.places(self._shifts)[:, :, None]
        self._log_w = np.asarray(log_weights, dtype=float)[:, None]

    @property
    def log_weights(self) -> Array:
        """Logarithms of the probabilities (N,)."""
        return self._log_w[:, 0]

    @property
    def noise(self) -> ReadingNoise:
        """The noise that is moved."""
        return self._noise

    @property
    def shifts(self) -> Array:
        """Where it is moved to: (d, N)."""
        return self._shifts

    def __repr__(self) -> str:
        return f"ShiftedMixture({self._log_w.size} points, dim={self.dim})"

    @property
    def steps(self) -> Array:
        """How far each place is from the one before it (N - 1,), in scales of the noise; the farthest channel."""
        distance = np.abs(np.diff(self._places[:, :, 0], axis=1))
        return np.asarray((distance / self._noise.scales[:, None]).max(axis=0))

    def likelihoods(self, y: ArrayLike) -> Array:
        """Log-density of one reading for each place (N,): what the weights are updated by."""
        return self._heights(channels(y, self.dim, "reading")[:, :1])[:, 0]

    def _components(self, i: int, log_w: Array, before: Array) -> Components:
        return self._noise.components(i, log_w, self._places[i])

    def _whiten(self, y: Array) -> Array:
        return self._noise.solve(y)

    def _colour(self, e: Array) -> Array:
        return self._noise.multiply(e)

    def _heights(self, rows: Array) -> Array:
        heights = super()._heights(rows)
        heights -= self._noise.log_det
        return heights


# Many readings, to the bits of one --------------------------------------------------------------------


def elementwise(law: Law) -> Law | None:
    """The law, of which an array gives each reading the bits that it has in an array of one; None for a law not known.

    Streams take readings one by one, in chunks, or from many rooms at once, and must give the same outputs.

    >>> import scipy.stats
    >>> law = elementwise(Scalar(scipy.stats.t(4.0)))
    >>> y = np.linspace(-60.0, 60.0, 50)
    >>> bool((law.score(y) == [law.score(y[i : i + 1])[0] for i in range(50)]).all())
    True
    """
    if type(law) in (Gaussian, GaussianMixture, Atoms):
        return law
    if type(law) is Scalar:
        return law.alone
    if type(law) is Mixture and law.normals:
        return law
    if not isinstance(law, (Mixture, Independent, GaussianCopula)):
        return None
    inside = [part for part in map(elementwise, law.laws) if part is not None]
    if len(inside) < len(law.laws):
        return None
    if isinstance(law, Independent):
        return Independent(*inside)
    return Mixture(law.weights, inside) if isinstance(law, Mixture) else GaussianCopula(law.correlation, inside)
