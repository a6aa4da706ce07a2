"""Autoregressive readings of any order, with any noise law.

::

    y_k = intercept + Phi_1 y_{k-1} + ... + Phi_p y_{k-p} + e_k,    e_k i.i.d. from `noise`

The values before the first reading are known: `past`. With Gaussian noise the model is a
Gauss-Markov one in companion form and inherits everything, missing readings included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Numbers, Plain
from understudy.errors import MissingReadingError, ModelError
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.laws.scalar import Shifted
from understudy.models.gauss_markov import Filtered, GaussMarkov, as_array, as_float, spectral_radius
from understudy.models.iid_markov import law_dim
from understudy.serialize import Place, construct, fields, from_plain, stored_array, to_plain, truth


class AutoRegressive(Frozen):
    """AR(p), scalar or vector.

    `coefficients` is a number or a sequence of p numbers for a scalar model, an array (p, d, d) for
    one of d channels. `past` holds the p readings before the first, the latest first; by default
    the level at which a stable model rests (a noise
    law that does not tell its mean counts as having mean zero). Across a missing reading only Gaussian noise has an
    exact law; with any other noise law a missing reading is refused.

    >>> import understudy as us
    >>> model = us.AutoRegressive([0.5, 0.2], intercept=3.0, noise=us.Gaussian(0.0, 4.0))
    >>> us.whiten([12.0, 10.0], model).round(12).tolist()
    [1.0, -0.5]
    """

    __slots__ = (
        "allow_unstable",
        "coefficients",
        "dim",
        "gauss_markov",
        "innovations",
        "intercept",
        "noise",
        "order",
        "past",
    )

    def __init__(
        self,
        coefficients: ArrayLike,
        intercept: ArrayLike = 0.0,
        noise: Law | None = None,
        past: ArrayLike | None = None,
        *,
        allow_unstable: bool = False,
    ) -> None:
        if noise is None:
            raise ModelError("noise is missing; give the law of the innovations, such as us.Gaussian(0.0, 1.0)")
        self.dim = d = law_dim(noise, "noise")
        self.noise = noise
        self.allow_unstable = bool(allow_unstable)
        self.coefficients = Phi = _coefficients(coefficients, d)
        self.order = p = Phi.shape[0]
        self.intercept = _vector("intercept", intercept, (d,))
        radius = spectral_radius(self.companion())
        if radius > 1.0 + 1e-7 and not allow_unstable:
            raise ModelError(
                f"the coefficients have a root of modulus {radius:.6g}; above 1 the readings grow without bound "
                "(allow_unstable=True if that is meant)"
            )
        if past is None:
            if radius >= 1.0 - 1e-7:
                raise ModelError("past must be given: a model with a root of modulus 1 or more has no level to rest at")
            level = np.linalg.solve(np.eye(d) - Phi.sum(axis=0), self.intercept + getattr(noise, "mean", 0.0))
            past = np.tile(level, (p, 1))
        elif d == 1 and as_float("past", past).ndim < 2:
            past = np.reshape(past, (-1, 1))
        self.past = _vector("past", past, (p, d))
        gaussian = isinstance(noise, Gaussian)
        # with other noise, the same recursion with standard normal noise: its scores are our innovations
        recursion = self._as_gauss_markov(noise if isinstance(noise, Gaussian) else Gaussian(np.zeros(d), np.eye(d)))
        self.gauss_markov: GaussMarkov | None = recursion if gaussian else None
        self.innovations: tuple[GaussMarkov, Law] | None = None if gaussian else (recursion, noise)

    def to_dict(self, place: Place) -> Plain:
        """Coefficients, noise and the past; see `understudy.serialize`."""
        return {
            "coefficients": self.coefficients.tolist(),
            "intercept": self.intercept.tolist(),
            "noise": to_plain(self.noise, "law", place / "noise"),
            "past": self.past.tolist(),
            "allow_unstable": self.allow_unstable,
        }

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> AutoRegressive:
        """The model again."""
        given = fields(place, plain, "coefficients", "intercept", "noise", "past", "allow_unstable")
        return construct(
            place,
            cls,
            stored_array(place / "coefficients", given["coefficients"], 3),
            stored_array(place / "intercept", given["intercept"], 1),
            from_plain(given["noise"], "law", place / "noise"),
            stored_array(place / "past", given["past"], 2),
            allow_unstable=truth(place / "allow_unstable", given["allow_unstable"]),
        )

    def __repr__(self) -> str:
        return f"AutoRegressive(order={self.order}, dim={self.dim})"

    def __reduce__(self) -> tuple[Callable[..., AutoRegressive], tuple[Array, Array, Law, Array]]:
        make = partial(AutoRegressive, allow_unstable=self.allow_unstable)
        return make, (self.coefficients, self.intercept, self.noise, self.past)

    @property
    def atoms(self) -> bool:
        """Whether the noise has atoms, so that scores need auxiliary uniforms."""
        return bool(getattr(self.noise, "atoms", False))

    @property
    def refill(self) -> int | None:
        """How many readings in a row make the law of the next exact after a gap; None where it is exact across."""
        return None if self.gauss_markov is not None else self.order

    def companion(self) -> Array:
        """The matrix that moves (y_{k-1}, ..., y_{k-p}) one step on, without intercept and noise."""
        p, d = self.order, self.dim
        A = np.zeros((p * d, p * d))
        A[:d] = self.coefficients.transpose(1, 0, 2).reshape(d, p * d)
        A[d:, : (p - 1) * d] = np.eye((p - 1) * d)
        return A

    def _as_gauss_markov(self, noise: Gaussian) -> GaussMarkov:
        A, p, d = self.companion(), self.order, self.dim
        n = p * d
        b, Q, C = np.zeros(n), np.zeros((n, n)), np.eye(d, n)
        b[:d] = self.intercept + noise.mean
        Q[:d, :d] = noise.cov
        return GaussMarkov(A, C, Q, np.zeros((d, d)), b, 0.0, self.past.ravel(), np.zeros((n, n)), allow_unstable=True)

    # The state is that of the Gauss-Markov model, or the last p readings, the latest first.

    def start(self) -> Filtered | Array:
        """The past."""
        return self.past if self.gauss_markov is None else self.gauss_markov.start()

    def predict(self, state: Filtered | Array) -> Law:
        """Noise, moved to the prediction."""
        if self.gauss_markov is not None and isinstance(state, Filtered):
            return self.gauss_markov.predict(state)
        # yhat_k = intercept + sum_i Phi_i y_{k-i}
        mean = self.intercept + np.einsum("pij,pj->i", self.coefficients, np.asarray(state))
        return Shifted(self.noise, mean.item() if self.dim == 1 else mean)

    def update(self, state: Filtered | Array, y: Numbers) -> Filtered | Array:
        """The new reading comes first, the oldest is dropped."""
        if self.gauss_markov is not None and isinstance(state, Filtered):
            return self.gauss_markov.update(state, y)
        return np.concatenate([np.reshape(y, (1, self.dim)), state[:-1]])

    def skip(self, state: Filtered | Array) -> Filtered | Array:
        """Exact for Gaussian noise; refused for any other."""
        if self.gauss_markov is not None and isinstance(state, Filtered):
            return self.gauss_markov.skip(state)
        raise MissingReadingError(
            "a reading is missing, and an AutoRegressive model has an exact law across a gap for Gaussian noise only; "
            "fill the gap before, or start again after it"
        )


def _coefficients(coefficients: ArrayLike, d: int) -> Array:
    given = as_float("coefficients", coefficients)
    shape = given.shape
    if len(shape) < 2:
        Phi = as_array("coefficients", np.atleast_1d(given), 1)
        if d != 1:
            raise ModelError(
                f"coefficients has shape {shape} and noise has {d} channels; a vector model needs (p, {d}, {d})"
            )
        return _vector("coefficients", Phi.reshape(-1, 1, 1), (Phi.size, 1, 1))
    if len(shape) != 3:
        raise ModelError(
            f"coefficients has shape {shape}; it must be a number, p numbers, or an array (p, d, d) "
            "(one matrix Phi is [Phi])"
        )
    return _vector("coefficients", given, (shape[0], d, d))


def _vector(name: str, given: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = as_float(name, given)
    if array.ndim == 0 and (array == 0.0 or int(np.prod(shape)) == 1):
        array = np.full(shape, array.item())
    if array.shape != shape or array.size == 0:
        raise ModelError(f"{name} has shape {array.shape}; it must be {shape}")
    if not np.isfinite(array).all():
        raise ModelError(f"{name} has an entry that is not finite; every one must be")
    array.flags.writeable = False
    return array
