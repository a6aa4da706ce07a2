"""Whiten, colour, sample, log-likelihood: all of them from the same four methods of a model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from understudy.errors import ConfigurationError, LawError
from understudy.laws.base import Array
from understudy.laws.uniforms import uniforms_from
from understudy.models.base import Model
from understudy.models.gauss_markov import GaussMarkov
from understudy.transform.filter import check_model_type, run
from understudy.transform.maps import broken_law, colouring, gauss_markov, innovations, keyed, residuals, whitening
from understudy.transform.pair import Pair, white
from understudy.transform.readings import as_readings, finite_or_missing, warn_incomplete
from understudy.transform.sensors import start_sensors


def whiten(Y: Any, model: Model, rng: Any = None, *, partial: bool = False, out: Any = None) -> Array:
    """Readings to scores: independent standard normals if the model is right.

    Where readings have atoms (a grid), scores need auxiliary uniforms: from the operating system if `rng`
    is None, or from a key (bytes), a seed or a Generator. `out` is an array to write into, as in `disguise`.

    >>> import understudy as us
    >>> us.whiten([1.0, 1.5], us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0))).tolist()
    [1.0, 1.0]
    """
    _check(model, partial)
    secret = None if rng is None else uniforms_from(rng)
    return run(whitening(keyed(model, secret), secret, partial), Y, partial=partial, out=out)


def colour(z: Any, model: Model, *, partial: bool = False, out: Any = None) -> Array:
    """Scores to readings: the inverse of `whiten`. `out` is an array to write into, as in `disguise`.

    >>> import understudy as us
    >>> us.colour([1.0, 1.0], us.AutoRegressive(0.5, noise=us.Gaussian(0.0, 1.0))).tolist()
    [1.0, 1.5]
    """
    _check(model, partial)
    return run(colouring(model, partial), z, "z", partial=partial, out=out)


def sample(model: Model, T: int, n: int = 1, rng: Any = None) -> Array:
    """Draw n sequences of T readings: (T,) or (T, d) for n = 1, else (T, d, n).

    `rng` is a numpy Generator or a seed.

    >>> import understudy as us
    >>> us.sample(us.IID(us.Gaussian(0.0, 1.0)), T=3, n=5, rng=1).shape
    (3, 1, 5)
    """
    check_model_type("model", model)
    for name, count in (("T", T), ("n", n)):
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or count < 1:
            raise ConfigurationError(f"{name} = {count!r}; it must be a whole number of at least 1")
    z = np.random.default_rng(rng).standard_normal((T, model.dim, n))
    if n > 1:
        return colour(z, model)
    return colour(z[:, 0, 0] if model.dim == 1 else z[:, :, 0], model)


def loglik(Y: Any, model: Model, *, partial: bool = False) -> Any:
    """Log-likelihood of the readings that are there, in nats: a number, or one for each sensor.

    >>> import understudy as us
    >>> us.loglik([0.0, 0.0], us.IID(us.Gaussian(0.0, 1.0)))
    -1.8378770664093453
    """
    _check(model, partial)
    readings = as_readings(Y, model.dim)
    warn_incomplete(readings, partial, stacklevel=3)
    linear = gauss_markov(model)
    if readings.ndim == 2:
        return _one(readings, model, linear, partial)
    pair = None if linear is None else Pair(linear, white(linear.dim), partial)
    table = None if pair is None else pair.source.gains
    if pair is not None and table is not None and table.frozen and np.isfinite(readings).all():
        z = start_sensors(pair, readings)
        return _gaussian(np.square(z).sum(axis=(0, 1)), readings[:, :, 0].size) + table.log_scale(len(z))
    return np.array(
        [_one(np.ascontiguousarray(readings[:, :, j]), model, linear, partial) for j in range(readings.shape[2])]
    )


def _one(Y: Array, model: Model, linear: GaussMarkov | None, partial: bool) -> float:
    if linear is not None:
        z, scale = Pair(linear, white(linear.dim), partial).jacobians(Y)
        there = ~np.isnan(z)
        return float(_gaussian(np.square(z[there]).sum(), int(there.sum())) + np.log(scale).sum())
    parts = innovations(model)
    if parts is not None:
        E = residuals(model, parts[0], Y)
        rows = E[~finite_or_missing(E)]
        return float(np.sum(parts[1].logpdf(rows[:, 0] if model.dim == 1 else rows.T)))
    missing = finite_or_missing(Y)
    state, total = model.start(), 0.0
    for k, row in enumerate(Y.ravel().tolist() if model.dim == 1 else Y):
        if missing[k]:
            state = model.skip(state)
        else:
            try:
                total += float(model.predict(state).logpdf(row))
                state = model.update(state, row)
            except LawError:
                raise broken_law(k) from None
    return total


def _gaussian(squares: Any, count: int) -> Any:
    """Log-density of `count` standard normals whose squares sum to `squares`."""
    return -0.5 * squares - 0.5 * count * math.log(2.0 * math.pi)


def _check(model: Any, partial: bool) -> None:
    check_model_type("model", model)
    if partial and gauss_markov(model) is None:
        raise ConfigurationError("partial=True needs a Gauss-Markov model")
