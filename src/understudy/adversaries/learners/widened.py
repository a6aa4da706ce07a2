"""The models that outputs follow: the pseudo models, and where noise was added to raw readings, these with the noise.

Gauss-Markov models take more variance into the noise of their readings, exactly. Others are taken for normal first:
an autoregression keeps its recursion, and its noise the mean and the spread that a law tells by its scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.adversaries.known import Known
from understudy.laws.base import Array
from understudy.laws.gaussian import Gaussian
from understudy.models.autoregressive import AutoRegressive
from understudy.models.base import Model
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.iid import IID
from understudy.models.on_grid import OnGrid
from understudy.models.quantised import Quantised
from understudy.transform.maps import gauss_markov


def output_models(known: Known) -> list[Model]:
    """One model for each pseudo value."""
    if known.noise is None or not np.any(known.noise):
        return known.targets
    variance = np.square(np.atleast_1d(np.asarray(known.noise, dtype=float)))
    return [widened(model, variance) for model in known.targets]


def widened(model: Any, variance: Array) -> Model:
    """The model of readings to which independent noise of this variance (d,) was added; as it is if none is known.

    >>> import understudy as us
    >>> wide = widened(us.AutoRegressive(0.5, noise=us.Gaussian(1.0, 3.0)), np.array([4.0]))
    >>> wide.R.item(), round(wide.Q.item(), 9), wide.b.item()
    (4.0, 3.0, 1.0)
    """
    extra = np.diag(variance)
    if type(model) is OnGrid:
        steps = np.array([channel.step for channel in model.grid.channels])
        return widened(model.model, variance + steps**2 / 12.0)
    if type(model) is Quantised:
        steps = np.array([channel.step for channel in model.grid.channels])
        return widened(model.linear, variance + steps**2 / 12.0)
    if type(model) is IID:
        return IID(_wide(model.law, model.dim, extra))
    if type(model) is HiddenMarkov:
        return HiddenMarkov(model.transition, model.initial, [_wide(law, model.dim, extra) for law in model.laws])
    if type(model) is AutoRegressive and model.gauss_markov is None:
        model = AutoRegressive(
            model.coefficients, model.intercept, _wide(model.noise, model.dim, 0.0 * extra), model.past,
            allow_unstable=True,
        )  # fmt: skip
    linear = gauss_markov(model)
    if linear is None:
        made: Model = model
        return made
    R = linear.R + extra if linear.constant else (lambda k: linear.at(k).R + extra)
    return GaussMarkov(**{**linear.given, "R": R, "allow_unstable": True})


def _wide(law: Any, dim: int, extra: Array) -> Gaussian:
    """The normal law with the centre and the spread of another, and more variance."""
    if isinstance(law, Gaussian):
        mean, cov = law.given
        return Gaussian(mean, np.asarray(cov) + (extra.item() if dim == 1 and np.ndim(cov) == 0 else extra))
    if dim == 1:
        low, middle, high = (float(law.value(z)) for z in (-1.0, 0.0, 1.0))
        return Gaussian(middle, (0.5 * (high - low)) ** 2 + extra.item())
    centre = np.asarray(law.value(np.zeros(dim)), dtype=float)
    # columns of a factor: how far each score moves the reading
    ends = [[np.asarray(law.value(s * np.eye(dim)[c]), dtype=float) for s in (-1.0, 1.0)] for c in range(dim)]
    L = np.stack([0.5 * (high - low) for low, high in ends], axis=1)
    return Gaussian(centre, L @ L.T + extra)
