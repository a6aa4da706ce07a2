"""A reading whose channels are independent, each with a law of its own.

Any laws for the channels, and a Gaussian dependence between them.

With s_i the score of channel i under its own law, s is N(0, R) for a correlation matrix R = L L'; so the
scores of the vector are z = L^-1 s, and its density is that of s times the slopes ds_i/dy_i.

Mixtures of Gaussian vectors: triangular, because the conditional laws are mixtures again.

Given channels 1..l-1, component k has the weight w_k times its density there, and channel l is normal
under it. With S_k = L_k L_k' and e_k = L_k^-1 (y - mean_k), whose first l - 1 entries need no more
than those channels,

    mean of channel l under k = mean_k,l + sum_{j<l} L_k,lj e_k,j,    standard deviation = L_k,ll.

A mixture of laws of several channels, taken apart channel by channel.

Given the channels before, each component has a law for the next channel, and the mixture of these laws,
with the weights that the channels before have left, is the law of the next channel. So a mixture is
triangular as soon as its components are. Components that can be taken apart are laws of one number,
`Independent` channels, `Gaussian` vectors and mixtures of them, copulas, and any of these `Shifted`.

Noise moved to one of many places: the law of a reading whose hidden state is a cloud of points.

If the state is at x_i with weight w_i and the reading is read(x_i) plus noise, the law of the reading is
the noise law moved to each read(x_i), weighted by w_i: a mixture whose c.d.f. and density are sums over
the cloud. All parts have one noise law, so a thousand of them are worked on as one array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy._types import Array, Frozen, Index, Plain
from understudy.errors import LawError, NumericalError, ReadingError
from understudy.laws._quadrature import Look, invert
from understudy.laws.atoms import Atoms
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law, channels, check_inside, check_reached, is_law, shaped, vectors
from understudy.laws.mixture import (
    Mixture,
    Parts,
    assess,
    blended_score,
    checked_weights,
    gaussian_mixture_score,
    gaussian_mixture_value,
    log_sum,
)
from understudy.laws.scalar import Shifted
from understudy.serialize import Place, construct, fields, laws_from_plain, laws_to_plain, stored_array

# A reading whose channels are independent, each with a law of its own --------------------------------


class Independent:
    """The joint law of independent channels: one law of one number for each.

    >>> from understudy.laws.gaussian import Gaussian
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
            dim = getattr(law, "dim", 1)
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
        return any(getattr(law, "atoms", False) for law in self._laws)

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

    def score(self, y: Any, v: Any = None) -> Array:
        """The scores of the channels, each by its own law; `v` has the shape of `y`."""
        rows = self._rows(y)
        aux = [None] * self.dim if v is None else self._rows(v)
        return np.stack([law.score(row, u) for law, row, u in zip(self._laws, rows, aux, strict=True)])

    def value(self, z: Any) -> Array:
        """The reading that has these scores."""
        return np.stack([law.value(row) for law, row in zip(self._laws, self._rows(z), strict=True)])

    def logpdf(self, y: Any) -> Any:
        """Log-density: the sum over the channels."""
        return sum(law.logpdf(row) for law, row in zip(self._laws, self._rows(y), strict=True))

    def _rows(self, y: Any) -> list[Any]:
        array = vectors(y, self.dim)
        return array.tolist() if array.ndim == 1 else list(array)


# Any laws for the channels, and a Gaussian dependence between them -----------------------------------


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

    def __init__(self, correlation: Any, laws: Sequence[Law]) -> None:
        try:
            self._marginals = Independent(*laws)
        except TypeError:
            raise LawError(f"laws is of type {type(laws).__name__}; it must be a list of laws of one number") from None
        for i, law in enumerate(self._marginals.laws):
            if getattr(law, "atoms", False):
                raise LawError(f"law {i} has atoms; with them the scores of the channels are not Gaussian")
        self.dim = self._marginals.dim
        self._correlation = _checked(correlation, self.dim)
        self._core = Gaussian(np.zeros(self.dim), self._correlation)

    @property
    def laws(self) -> tuple[Law, ...]:
        """The laws of the channels."""
        return self._marginals.laws

    @property
    def correlation(self) -> Array:
        """The correlations of the scores, (d, d)."""
        return self._correlation

    def __reduce__(self) -> tuple[Any, ...]:
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

    def score(self, y: Any, v: Any = None) -> Any:
        """Z = L^-1 s, with s the scores of the channels under their own laws."""
        if self.dim == 1:
            return self.laws[0].score(y)
        channels(y, self.dim, "reading")
        return self._core.score(self._marginals.score(y))

    def value(self, z: Any) -> Any:
        """The reading with these scores: s = L z, and each channel by its own law."""
        if self.dim == 1:
            return self.laws[0].value(z)
        channels(z, self.dim, "score")
        return self._marginals.value(self._core.value(np.asarray(z, dtype=float)))

    def logpdf(self, y: Any) -> Any:
        """Log-density: those of the channels, plus log phi_R(s) - sum_i log phi(s_i)."""
        if self.dim == 1:
            return self.laws[0].logpdf(y)
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


def _checked(correlation: Any, dim: int) -> Array:
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


# Mixtures of Gaussian vectors: triangular, because the conditional laws are mixtures again -----------


_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class GaussianMixture(Frozen):
    """A vector from one of several Gaussian laws, with the given probabilities.

    `means` is (K, d) and `covs` (K, d, d); for one channel both may be (K,), with variances.

    >>> law = GaussianMixture([0.5, 0.5], [[-3.0, 0.0], [3.0, 0.0]], [np.eye(2), 4.0 * np.eye(2)])
    >>> law
    GaussianMixture(2 laws, dim=2)
    >>> law.value(law.score([3.0, 4.0])).round(9).tolist()
    [3.0, 4.0]
    """

    __slots__ = ("_given", "_log_w", "_means", "_roots", "_weights", "dim")

    dim: int

    def __init__(self, weights: Any, means: Any, covs: Any) -> None:
        m, S = _checked_gaussian_mixture(means, covs)
        self._weights = checked_weights(weights, len(m), "means")
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

    def __reduce__(self) -> tuple[Any, ...]:
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

    def score(self, y: Any, v: Any = None) -> Any:
        """The scores of the channels, each given those before it; NaN from the first missing one on."""
        readings = channels(y, self.dim, "reading")
        z = np.empty(readings.shape)
        past = _Past(self, readings.shape[1])
        with np.errstate(all="ignore"):
            for i, row in enumerate(readings):
                z[i] = gaussian_mixture_score(row, *past.predict(i), log_weights=True)
                past.update(i, row)
        check_inside(z, np.shape(y))
        check_reached(z, _known(readings), np.shape(y), "reading")
        return shaped(z, np.shape(y))

    def value(self, z: Any) -> Any:
        """The reading with these scores, channel after channel."""
        wanted = channels(z, self.dim, "score")
        y = np.empty(wanted.shape)
        past = _Past(self, wanted.shape[1])
        with np.errstate(all="ignore"):
            for i, row in enumerate(wanted):
                y[i] = gaussian_mixture_value(row, *past.predict(i), log_weights=True)
                past.update(i, y[i])
        check_reached(y, _known(wanted), np.shape(z), "score")
        return shaped(y, np.shape(z))

    def logpdf(self, y: Any) -> Any:
        """Log-density of all channels together."""
        readings = channels(y, self.dim, "reading")
        past = _Past(self, readings.shape[1])
        with np.errstate(all="ignore"):
            for i, row in enumerate(readings):
                past.update(i, row)
            height = log_sum(past.log_w) - self.dim * _HALF_LOG_2PI
        return shaped(height, np.shape(y) if self.dim == 1 else np.shape(y)[1:])


class _Past:
    """What the channels seen so far say about the components."""

    def __init__(self, law: GaussianMixture, count: int) -> None:
        self._means, self._roots = law._means, law._roots
        self._errors: list[Array] = []
        self.log_w = np.repeat(law._log_w, count, axis=1) if law.dim > 1 else law._log_w

    def _mean(self, i: int) -> Array:
        # sums written out: a matrix product may round one reading and many readings differently
        mean = self._means[i]
        for j, e in enumerate(self._errors):
            mean = mean + self._roots[i, j] * e
        return np.asarray(mean)

    def predict(self, i: int) -> tuple[Array, Array, Array]:
        """Log-weights, means and scales of channel i, (N, K) or (1, K)."""
        log_w = self.log_w - log_sum(self.log_w) if self._errors else self.log_w
        return log_w.T, self._mean(i).T, self._roots[i, i].T

    def update(self, i: int, y: Array) -> None:
        """Takes channel i into account."""
        scale = self._roots[i, i]
        e = (y - self._mean(i)) / scale
        self.log_w = self.log_w - 0.5 * e * e - np.log(scale)
        self._errors.append(e)


def _known(given: Array) -> Array:
    """NaN from the first missing channel on."""
    return np.where(np.logical_or.accumulate(np.isnan(given), axis=0), np.nan, given)


def _checked_gaussian_mixture(means: Any, covs: Any) -> tuple[Array, Array]:
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
    roots = np.empty(covs.shape)
    for k, S in enumerate(covs):
        if float(np.abs(S - S.T).max()) > 1e-9 * float(np.abs(S).max()):
            raise LawError(f"covariance {k} is not symmetric; it must be")
        try:
            roots[k] = np.linalg.cholesky(S)
        except np.linalg.LinAlgError:
            smallest = float(np.linalg.eigvalsh(S)[0])
            raise LawError(f"covariance {k} has the eigenvalue {smallest:.6g}; it must be positive definite") from None
    return roots


# A mixture of laws of several channels, taken apart channel by channel -------------------------------


_KNOWN = (Gaussian, Independent, GaussianMixture, GaussianCopula)


def can_be_taken_apart(law: Any) -> bool:
    """Whether `next_channel` knows a law of several channels."""
    return can_be_taken_apart(law.law) if isinstance(law, Shifted) else isinstance(law, _KNOWN)


def next_channel(law: Any, before: Sequence[float]) -> Law:
    """The law of the channel that follows the channels `before`.

    >>> law = next_channel(Gaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]]), [2.0])
    >>> round(law.mean, 12), round(law.cov, 12)
    (1.6, 0.36)
    """
    n = len(before)
    if getattr(law, "dim", 1) == 1:
        return law  # type: ignore[no-any-return]  # a law, by what it is used for
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
    mean, L = gaussian_parts(law)
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

    def score(self, y: Any, v: Any = None) -> Any:
        """Score of the score."""
        return self.score_law.score(self.marginal.score(y))

    def value(self, z: Any) -> Any:
        """The reading with this score."""
        return self.marginal.value(self.score_law.value(z))

    def logpdf(self, y: Any) -> Any:
        """f(y) g(s) / phi(s), with g the density of the score s; -inf outside the support of the marginal."""
        height = np.asarray(self.marginal.logpdf(y), dtype=float)
        s = np.asarray(self.marginal.score(np.where(height > -np.inf, y, self.marginal.value(0.0))), dtype=float)
        out = np.where(height > -np.inf, height + self.score_law.logpdf(s) + 0.5 * s * s + _HALF_LOG_2PI, -np.inf)
        return float(out) if out.ndim == 0 else out


def gaussian_parts(law: Gaussian) -> tuple[Array, Array]:
    """Mean (d,) and lower Cholesky factor (d, d) of a normal law."""
    mean, cov = law.given
    if law.dim == 1:
        return np.array([mean]), np.array([[math.sqrt(cov)]])
    return np.asarray(mean), np.linalg.cholesky(cov)


def mixed(weights: Sequence[float], laws: Sequence[Any]) -> Law:
    """The mixture of laws of one number; atoms must be laws on the same values.

    >>> a, b = Atoms([0.0, 1.0], [0.5, 0.5]), Atoms([0.0, 1.0], [0.1, 0.9])
    >>> mixed([0.5, 0.5], [a, b]).probabilities.round(12).tolist()
    [0.3, 0.7]
    """
    kept = [i for i, weight in enumerate(weights) if weight > 0.0]
    if len(kept) == 1:
        return laws[kept[0]]  # type: ignore[no-any-return]  # a law, by what it is used for
    if isinstance(laws[0], Atoms):
        return Atoms.trusted(laws[0].values, mixed_probabilities(weights, [law.probabilities for law in laws]))
    return Mixture([weights[i] for i in kept], [laws[i] for i in kept])


def mixed_probabilities(weights: Any, probabilities: Sequence[Array]) -> Any:
    """sum_i w_i p_i, added up in a fixed order; weights (K,), or (K, N, 1) for N mixtures."""
    total = weights[0] * probabilities[0]
    for weight, p in zip(weights[1:], probabilities[1:], strict=True):
        total = total + weight * p
    return total


def reweighted(weights: Sequence[float], logs: Sequence[float]) -> list[float]:
    """w_i exp(log_i), normalised in logarithms: an unlikely reading leaves the least unlikely component.

    >>> reweighted([0.5, 0.5], [-2000.0, -2000.0])
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

    def __init__(self, weights: Sequence[float], laws: Sequence[Any]) -> None:
        if len(weights) != len(laws) or not laws:
            raise LawError(f"there are {len(weights)} weights and {len(laws)} laws; each law needs one weight")
        self.weights, self.laws = tuple(weights), tuple(laws)
        self.dim = int(laws[0].dim)
        self.atoms = any(getattr(law, "atoms", False) for law in laws)

    def __repr__(self) -> str:
        # The parameters of a conditional law hold the past readings, so they are not shown.
        return f"ChannelMixture({len(self.laws)} laws, dim={self.dim})"

    def score(self, y: Any, v: Any = None) -> Array:
        """The scores of the channels, each given the channels before it; `v` has the shape of `y`."""
        readings = self._columns(y)
        uniforms = None if v is None else self._columns(v)
        if uniforms is not None and uniforms.shape != readings.shape:
            raise ReadingError(
                f"auxiliary uniforms of shape {np.shape(v)}; readings of shape {np.shape(y)} need the same"
            )
        out = np.empty(readings.shape)
        for k, column in enumerate(readings.tolist()):
            before: list[float] = []
            for i, number in enumerate(column):
                law = self.next(before)
                out[k, i] = law.score(number) if uniforms is None else law.score(number, float(uniforms[k, i]))
                before.append(number)
        return out.T.reshape(np.shape(y))

    def value(self, z: Any) -> Array:
        """The reading that has these scores."""
        scores = self._columns(z)
        out = np.empty(scores.shape)
        for k, column in enumerate(scores.tolist()):
            before: list[float] = []
            for number in column:
                before.append(float(self.next(before).value(number)))
            out[k] = before
        return out.T.reshape(np.shape(z))

    def logpdf(self, y: Any) -> Any:
        """Log-density: the logarithm of the weighted sum."""
        self._columns(y)
        logs = np.stack([np.asarray(law.logpdf(y), dtype=float) for law in self.laws])
        with np.errstate(divide="ignore"):
            terms = (np.log(self.weights) + logs.T).T
        total = np.logaddexp.reduce(terms, axis=0)
        return float(total) if total.ndim == 0 else total

    def next(self, before: Sequence[float]) -> Law:
        """The law of the next channel; all channels before it are weighed at once, so that none underflows."""
        weights = (
            reweighted(self.weights, [self._log(i, before) for i in range(len(self.laws))]) if before else self.weights
        )
        # a law that the channels before have excluded has no law of the next one
        kept = [i for i, weight in enumerate(weights) if weight > 0.0]
        return mixed([weights[i] for i in kept], [next_channel(self.laws[i], before) for i in kept])

    def _log(self, i: int, before: Sequence[float]) -> float:
        """Log-density of the channels seen so far under law i."""
        total = 0.0 if self.weights[i] > 0.0 else -math.inf
        for n, number in enumerate(before):
            if total == -math.inf:
                break
            total += float(next_channel(self.laws[i], before[:n]).logpdf(number))
        return total

    def _columns(self, y: Any) -> Array:
        """One row a reading, (N, d)."""
        return vectors(y, self.dim).reshape(self.dim, -1).T


# Noise moved to one of many places: the law of a reading whose hidden state is a cloud of points -----


_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_BLOCK = 1 << 16  # entries of a table places x readings worked on at a time
_SMALL, _SMALL_HALLEY = 1e-8, 1e-5  # Newton's error is of second order, Halley's of third
_FAR = 37.0  # a score beyond which nothing is left of a tail


class _Normal:
    """A standard normal channel."""

    middle, scale = 0.0, 1.0

    def scores(self, e: Array) -> Array:
        return e

    def logpdf(self, e: Array) -> Array:
        out = e * e
        out *= -0.5
        out -= _LOG_SQRT_2PI
        return np.asarray(out)

    def values(self, z: Array) -> Array:
        return z


class _Channel:
    """A channel with any law of one number; outside its support scores are infinite."""

    def __init__(self, law: Law) -> None:
        self._law = law
        self._ends = self._end(-_FAR, -math.inf), self._end(_FAR, math.inf)
        low, self.middle, high = (float(law.value(z)) for z in (-0.5, 0.0, 0.5))
        self.scale = high - low

    def _end(self, z: float, otherwise: float) -> float:
        try:
            return float(self._law.value(z))
        except ArithmeticError:  # a heavy tail that leaves float64 before the score does
            return otherwise

    def scores(self, e: Array) -> Array:
        low, high = self._ends
        beyond = (e < low) | (e > high)
        if not beyond.any():
            return np.asarray(self._law.score(e), dtype=float)
        beyond[beyond] = self.logpdf(e[beyond]) == -np.inf
        z = np.where(e < self.middle, -np.inf, np.inf)
        if not beyond.all():
            z[~beyond] = self._law.score(e[~beyond])
        return z

    def logpdf(self, e: Array) -> Array:
        return np.asarray(self._law.logpdf(e), dtype=float)

    def values(self, z: Array) -> Array:
        return np.asarray(self._law.value(z), dtype=float)


class ReadingNoise(Frozen):
    """Noise of a reading as independent channels behind a triangular matrix: v = mean + L e.

    A Gaussian has standard normal channels. Other laws have L = I: one number, or `Independent` ones.
    """

    __slots__ = ("_channels", "_law", "_log_det", "_mean", "_root", "dim")

    def __init__(self, law: Law) -> None:
        d = int(getattr(law, "dim", 1))
        self.dim: int = d
        self._law = law
        self._channels: Sequence[Any]
        if isinstance(law, Gaussian):
            self._mean = np.reshape(law.mean, (d, 1))
            self._root: Array | None = np.linalg.cholesky(np.reshape(law.cov, (d, d)))
            self._channels = (_Normal(),) * d
        elif d == 1 or isinstance(law, Independent):
            self._mean, self._root = np.zeros((d, 1)), None
            self._channels = tuple(_Channel(part) for part in (law.laws if isinstance(law, Independent) else (law,)))
        else:
            raise LawError(
                f"reading_noise is a {type(law).__name__} of {d} channels; noise of several channels must be "
                "Gaussian or Independent"
            )
        self._log_det = 0.0 if self._root is None else float(np.log(np.diag(self._root)).sum())

    def __repr__(self) -> str:
        return f"ReadingNoise(dim={self.dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadingNoise, (self._law,)

    @property
    def law(self) -> Law:
        """The law that was given."""
        return self._law

    @property
    def channels(self) -> Sequence[Any]:
        """The laws of e, one a channel."""
        return self._channels

    @property
    def log_det(self) -> float:
        """Log det L."""
        return self._log_det

    def places(self, shifts: Array) -> Array:
        """L^-1 (shifts + mean): where the channels of e are moved to."""
        return self.solve(shifts + self._mean)

    def solve(self, y: Array) -> Array:
        """L^-1 y, for (d, N)."""
        if self._root is None:
            return y
        L, e = self._root, np.empty_like(y)
        for i in range(self.dim):
            t = y[i]
            for j in range(i):
                t = t - L[i, j] * e[j]
            e[i] = t / L[i, i]
        return e

    def multiply(self, e: Array) -> Array:
        """L e, for (d, N)."""
        if self._root is None:
            return e
        L, y = self._root, np.empty_like(e)
        for i in range(self.dim):
            y[i] = L[i, 0] * e[0]
            for j in range(1, i + 1):
                y[i] = y[i] + L[i, j] * e[j]
        return y


class ShiftedMixture(Frozen):
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

    __slots__ = ("_log_w", "_noise", "_places", "_shifts", "dim")

    def __init__(self, shifts: Any, log_weights: Any, noise: ReadingNoise) -> None:
        self.dim: int = noise.dim
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
        scales = np.array([channel.scale for channel in self._noise.channels])[:, None]
        return np.asarray((np.abs(np.diff(self._places[:, :, 0], axis=1)) / scales).max(axis=0))

    def likelihoods(self, y: Any) -> Array:
        """Log-density of one reading for each place (N,): what the weights are updated by."""
        return self._parts(channels(y, self.dim, "reading")[:, :1])[:, 0]

    def logpdf(self, y: Any) -> Any:
        """Log-density of the joint law of the channels."""
        rows = channels(y, self.dim, "reading")
        out = [_log_sum(np.add(parts := self._parts(block), self._log_w, out=parts)) for block in self._blocks(rows)]
        return shaped(np.concatenate(out), np.shape(y) if self.dim == 1 else np.shape(y)[1:])

    def score(self, y: Any, v: Any = None) -> Any:
        """Scores of the channels, each given those before it."""
        rows = channels(y, self.dim, "reading")
        with np.errstate(all="ignore"):
            z = np.concatenate([self._scores(block) for block in self._blocks(rows)], axis=1)
        check_inside(z, np.shape(y))
        return shaped(z, np.shape(y))

    def value(self, z: Any) -> Any:
        """The reading with these scores, channel after channel."""
        rows = channels(z, self.dim, "score")
        with np.errstate(all="ignore"):
            y = np.concatenate([self._values(block) for block in self._blocks(rows)], axis=1)
        check_reached(y, rows, np.shape(z), "score")
        return shaped(y, np.shape(z))

    def _blocks(self, rows: Array) -> list[Array]:
        size = max(1, _BLOCK // self._log_w.size)
        return [rows[:, first : first + size] for first in range(0, max(1, rows.shape[1]), size)]

    def _parts(self, rows: Array) -> Array:
        """Log-density (N, M) of the readings (d, M) for each place."""
        e = self._noise.solve(rows)
        first, *others = zip(self._noise.channels, self._places, e, strict=True)
        total: Array = first[0].logpdf(first[2] - first[1])
        for channel, place, row in others:
            total += channel.logpdf(row - place)
        total -= self._noise.log_det
        return total

    def _scores(self, rows: Array) -> Array:
        e = self._noise.solve(rows)
        z, log_w = np.empty(rows.shape), self._log_w
        for i, (channel, place) in enumerate(zip(self._noise.channels, self._places, strict=True)):
            z[i] = blended_score(channel.scores(e[i] - place), log_w)
            if i + 1 < self.dim:
                log_w = _given(log_w + channel.logpdf(e[i] - place))
        return z

    def _values(self, rows: Array) -> Array:
        e, log_w = np.empty(rows.shape), self._log_w
        for i, (channel, place) in enumerate(zip(self._noise.channels, self._places, strict=True)):
            e[i] = _quantiles(channel, place, log_w, rows[i])
            if i + 1 < self.dim:
                log_w = _given(log_w + channel.logpdf(e[i] - place))
        return self._noise.multiply(e)


def _given(log_w: Array) -> Array:
    return np.asarray(log_w - _log_sum(log_w.copy()))


def _log_sum(terms: Array) -> Array:
    """Log of the sum of exponentials over the places; the terms are overwritten."""
    top = terms.max(axis=0)
    top = np.where(np.isinf(top), 0.0, top)
    terms -= top
    np.exp(terms, out=terms)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(terms.sum(axis=0)))


def _quantiles(channel: Any, place: Array, log_w: Array, z: Array) -> Array:
    """Where the mixture of one channel has the scores z: between the outermost quantiles of its parts."""
    side, goal = np.where(z < 0.0, -1.0, 1.0), np.abs(z)
    quantile = channel.values(z)
    weighs = log_w > -np.inf
    low = np.where(weighs, place, np.inf).min(axis=0) + quantile
    high = np.where(weighs, place, -np.inf).max(axis=0) + quantile
    w = np.exp(log_w)
    mean = (w * place).sum(axis=0)
    spread = np.sqrt((w * (place - mean) ** 2).sum(axis=0)) / channel.scale
    start = mean + channel.middle + (quantile - channel.middle) * np.hypot(1.0, spread)
    normal = isinstance(channel, _Normal)

    def look(which: Index, y: Array) -> Look:
        e = y - place
        x = channel.scores(e)
        # dz/dy = f / phi(z)
        pace = (
            np.ones_like(x)
            if normal
            else np.where(np.isinf(x), 0.0, np.exp(channel.logpdf(e) + 0.5 * x * x + _LOG_SQRT_2PI))
        )
        weights = log_w if log_w.shape[1] == 1 else log_w[:, which]
        return assess(
            Parts(side[which] * x, pace, weights),
            goal[which],
            side[which],
            _SMALL_HALLEY if normal else _SMALL,
            halley=normal,
        )

    answer, _ = invert(look, low + 0.0 * z, high + 0.0 * z, start)
    return np.where(np.isnan(z), np.nan, answer)
