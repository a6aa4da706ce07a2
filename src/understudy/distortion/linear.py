"""Models as linear filters of independent noise: what colouring is for most models.

Colouring turns scores z into readings. Where a model is Gauss-Markov, or an autoregression, or has
readings that do not depend on each other, that is a linear recursion driven by noise e_k::

    y_k = H x_{k-1} + g + L e_k,      x_k = A x_{k-1} + b + M e_k

with e_k = z_k, or with e_k = law.value(z_k) component by component where the noise is not Gaussian.
The matrices are those of the gain rows of the Kalman predictor (`transform/_kernels.py`), so L L' is
the innovation covariance and M = K L. A `Filters` holds several models at once, the model on the
last axis, padded with zeros to a common number of states: a state that is zero for ever changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from understudy.errors import DesignError
from understudy.laws.base import Array, Law
from understudy.laws.gaussian import Gaussian
from understudy.laws.independent import Independent
from understudy.laws.scalar import Scalar
from understudy.models.base import Model
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.matrices import spectral_radius
from understudy.transform.gains import gains
from understudy.transform.maps import gauss_markov, innovations
from understudy.transform.pair import Side, white

# The same distance from a unit root as in the models.
_UNIT_ROOT = 1e-7
_BLOCK = 32  # steps laid out at a time


class Linear(NamedTuple):
    """A recursion driven by standard normal noise, and the law that the noise has instead (None: just that)."""

    recursion: GaussMarkov
    law: Law | None


def linear_form(model: Model) -> Linear | None:
    """The linear form of a model whose noise has independent channels, if it has one.

    >>> import understudy as us
    >>> linear_form(us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0)))
    Linear(recursion=GaussMarkov(states=1, dim=1, constant), law=None)
    >>> linear_form(us.Markov(us.Gaussian(0.0, 1.0), lambda y: us.Gaussian(0.5 * y, 1.0 + y * y))) is None
    True
    """
    recursion = gauss_markov(model)
    if recursion is not None:
        return Linear(recursion, None)
    parts = innovations(model)
    if parts is None:
        return None
    given, law = parts
    if given is None and isinstance(law, Gaussian):
        d = law.dim
        cov = np.reshape(law.cov, (d, d))
        return Linear(GaussMarkov(0.0, np.zeros((d, 1)), 0.0, cov, 0.0, np.reshape(law.mean, d), 0.0, 0.0), None)
    if not (separate(law) and continuous(law)):
        return None
    return Linear(white(model.dim) if given is None else given, law)


def separate(law: Law) -> bool:
    """Whether channel l of a reading depends on score l alone."""
    return getattr(law, "dim", 1) == 1 or isinstance(law, (Independent, Scalar))


def continuous(law: Law) -> bool:
    """Whether a reading is a continuous function of its scores: what quadrature takes for granted."""
    return not getattr(law, "atoms", False)


class Coefficients(NamedTuple):
    """The matrices of one step, the model last; or of many steps, with time before everything."""

    A: Array  # (n, n, models)
    b: Array  # (n, 1, models)
    M: Array  # (n, d, models)
    H: Array  # (c, n, models)
    g: Array  # (c, 1, models)
    L: Array  # (c, d, models)


class Filters:
    """Several linear models, step by step; `read` turns d channels into the c that are looked at.

    `level` and `scale` (models, d) are the means and standard deviations of the noise, which is
    reckoned in units of its own: e = level + scale eps, with eps of mean 0 and variance 1.
    """

    def __init__(self, models: list[Linear], level: Array, scale: Array, read: Array | None = None) -> None:
        self.models = [model.recursion for model in models]
        self.level, self.scale = level, scale
        self.dim = self.models[0].dim
        self.read = np.eye(self.dim) if read is None else read
        self.states = max(model.states for model in self.models)
        self._sides = [Side(model, None) for model in self.models]
        # the step, counted from 0, from which on the rows do not change any more; None if there is no such step
        ends = [None if side.gains is None or not side.gains.frozen else side.gains.rows - 1 for side in self._sides]
        self.settled = None if None in ends else max(end for end in ends if end is not None)

    def __len__(self) -> int:
        return len(self.models)

    def start(self) -> Array:
        """The means before the first step, (n, 1, models)."""
        x = np.zeros((self.states, 1, len(self)))
        for i, model in enumerate(self.models):
            x[: model.states, 0, i] = model.mean0
        return x

    def steps(self, count: int) -> Iterator[Coefficients]:
        """The first steps, one after the other."""
        self._covariances = self._first_covariances()
        for first in range(0, count, _BLOCK):
            stop = min(first + _BLOCK, count)
            block = self._cut([self._rows(i, first, stop) for i in range(len(self))])
            for index in range(stop - first):
                yield Coefficients(*(part[index] for part in block))

    def steady(self) -> Coefficients:
        """The step that constant, stable models settle to."""
        rows = []
        for model in self.models:
            if not model.constant or spectral_radius(model.A) >= 1.0 - _UNIT_ROOT:
                raise DesignError(
                    "horizon is missing: a model that changes with time or has a root of modulus 1 or more "
                    "has no stationary limit, and the mean distortion may grow for ever"
                )
            table = gains(model)
            row = table.flat[-table.width :] if table.frozen else _settled_row(model)
            rows.append(row[None, :])
        return Coefficients(*(part[0] for part in self._cut(rows)))

    def _first_covariances(self) -> list[Array]:
        """Filtered covariances where the gain tables end, or where there is none, at the start."""
        return [
            np.array(model.cov0.ravel() if side.gains is None else side.gains.covariance(side.gains.rows))
            for model, side in zip(self.models, self._sides, strict=True)
        ]

    def _rows(self, i: int, first: int, stop: int) -> Array:
        """Gain rows (steps, width) of model i."""
        table = self._sides[i].gains
        if table is None:
            return self._carried(i, first, stop)
        rows = table.flat.reshape(table.rows, table.width)
        if table.frozen and stop > table.rows:
            return rows[np.minimum(np.arange(first, stop), table.rows - 1)]
        known = rows[first : min(stop, table.rows)]
        if stop <= table.rows:
            return known
        return np.concatenate((known, self._carried(i, max(first, table.rows), stop)))

    def _carried(self, i: int, first: int, stop: int) -> Array:
        rows = self._sides[i].table(first, stop, self._covariances[i])
        return rows.reshape(stop - first, -1)

    def _cut(self, tables: list[Array]) -> Coefficients:
        """Gain rows (steps, width) of all models as matrices: [G K] | H | [A M] | g | h | b | L | .. (see kernels)."""
        steps, N, d, G = len(tables[0]), self.states, self.dim, self.read
        shapes = [(N, N), (N, 1), (N, d), (len(G), N), (len(G), 1), (len(G), d)]
        out = Coefficients(*(np.zeros((steps, *shape, len(self))) for shape in shapes))
        sizes = np.array([model.states for model in self.models])
        for n in np.unique(sizes):  # models of n states together
            of = np.flatnonzero(sizes == n)
            at = np.cumsum([0, n * (n + d), d * n, n * (n + d), d, n, n, d * d])
            rows = np.stack([tables[i][:, : at[-1]] for i in of])
            H = rows[..., at[1] : at[2]].reshape(*rows.shape[:2], d, n)
            moved = rows[..., at[2] : at[3]].reshape(*rows.shape[:2], n, n + d)
            A, M = moved[..., :n], moved[..., n:]
            g, b = rows[..., at[3] : at[4], None], rows[..., at[5] : at[6], None]
            L = np.tril(rows[..., at[6] : at[7]].reshape(*rows.shape[:2], d, d))
            # e = level + scale eps
            level, scale = self.level[of][:, None, :, None], self.scale[of][:, None, None, :]
            found = (A, b + M @ level, M * scale, G @ H, G @ (g + L @ level), G @ (L * scale))
            for whole, part in zip(out, found, strict=True):
                whole[:, : part.shape[2], : part.shape[3], of] = np.moveaxis(part, 0, -1)
        return out


def _settled_row(model: GaussMarkov) -> Array:
    """The gain row at the end of a Riccati recursion that is too slow to be followed."""
    from scipy.linalg import solve_discrete_are

    A, b, Q, C, d, R = model.at(1)
    n, channels = model.states, model.dim
    unit = float(max(np.abs(Q).max(), np.abs(R).max()))  # the solver's accuracy depends on units
    try:
        S = unit * solve_discrete_are(A.T, C.T, Q / unit, R / unit)
        L = np.linalg.cholesky(C @ S @ C.T + R)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise DesignError(f"horizon is missing: the gains of a model do not settle ({error})") from None
    # M = K L = Sigma C' L^-T
    M = np.linalg.solve(L, C @ S).T
    moved, unused = np.concatenate((A, M), axis=1), np.zeros(n * (n + channels))
    return np.concatenate([unused, (C @ A).ravel(), moved.ravel(), C @ b + d, np.zeros(n), b, L.ravel()])
