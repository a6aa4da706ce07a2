"""Any laws for the channels, and a Gaussian dependence between them.

With s_i the score of channel i under its own law, s is N(0, R) for a correlation matrix R = L L'; so the
scores of the vector are z = L^-1 s, and its density is that of s times the slopes ds_i/dy_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.errors import LawError
from understudy.laws.base import Array, Frozen, Law
from understudy.laws.gaussian import Gaussian
from understudy.laws.independent import Independent
from understudy.laws.shapes import channels


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
