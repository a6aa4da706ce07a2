"""Many sequences at once: scores (T, d, N) to readings, with arrays over the N sequences.

A simulation colours thousands of sequences of one model. Gauss-Markov models have compiled loops for that. Where
the noise has one law, that law is asked for all readings together. A rounded model rounds what the model behind it
gives. A hidden Markov model with laws of any kind is taken step by step, each step for all sequences:
every sequence has weights of its own, which the inverse of a mixture allows for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.laws.atoms import Atoms, intervals
from understudy.laws.base import Array
from understudy.laws.channels import impossible
from understudy.laws.independent import Independent
from understudy.laws.mixture import mixture_value
from understudy.models.autoregressive import AutoRegressive
from understudy.models.base import Model
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.on_grid import OnGrid, coloured
from understudy.models.quantised import Quantised
from understudy.transform.maps import Emit, colouring, gauss_markov, innovations
from understudy.transform.scores import colour


def colour_all(z: Array, model: Model) -> Array:
    """Scores (T, d, N) to readings.

    >>> import understudy as us
    >>> colour_all(np.zeros((2, 1, 3)), us.IID(us.Gaussian(5.0, 1.0)))[:, 0].tolist()
    [[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]
    """
    if gauss_markov(model) is not None:
        return colour(z, model)
    parts = innovations(model)
    if parts is not None:
        recursion, law = parts
        e = _each(law, z)
        return e if recursion is None else colour(e, recursion)
    if type(model) is Quantised:
        Y = colour(z, model.linear)
        return np.ascontiguousarray(np.moveaxis(model.grid.rounded(np.moveaxis(Y, 1, 2)), 2, 1))
    if type(model) is OnGrid:
        together = coloured(z, model)
        return colour(z, model) if together is None else together
    channels = _channels(model)
    return colour(z, model) if channels is None else _hidden(z, model, channels)  # type: ignore[arg-type]  # has channels


def quick(model: Model) -> bool:
    """Whether there is something better than to ask the model reading by reading."""
    if type(model) is OnGrid:
        return type(model.model) in (AutoRegressive, GaussMarkov)
    return type(model) is Quantised or _channels(model) is not None or not isinstance(colouring(model), Emit)


def _each(law: Any, z: Array) -> Array:
    """One law for all readings."""
    T, d, N = z.shape
    flat = z.transpose(1, 0, 2).reshape(d, T * N)
    e = np.reshape(law.value(flat[0] if d == 1 else flat), (d, T, N)).transpose(1, 0, 2)
    return np.ascontiguousarray(e)


def _channels(model: Model) -> list[list[Any]] | None:
    """For each channel the laws of the hidden states, where channels are independent and nothing quicker is known."""
    if type(model) is not HiddenMarkov or not isinstance(colouring(model), Emit):
        return None
    if model.dim == 1:
        return [list(model.emissions)]
    if not all(isinstance(law, Independent) for law in model.emissions):
        return None
    return [list(channel) for channel in zip(*(law.laws for law in model.emissions), strict=True)]  # type: ignore[attr-defined]  # all are Independent


def _hidden(z: Array, model: HiddenMarkov, channels: list[list[Any]]) -> Array:
    """The recursion of the model, channel by channel, with probabilities (N, S)."""
    Y, N = np.empty(z.shape), z.shape[2]
    pi = np.tile(model.initial, (N, 1))
    for k in range(len(z)):
        for i, laws in enumerate(channels):
            Y[k, i] = (
                _atom_values(z[k, i], pi, laws) if isinstance(laws[0], Atoms) else mixture_value(z[k, i], pi, laws)
            )
            logs = np.stack([np.asarray(law.logpdf(Y[k, i]), dtype=float) for law in laws], axis=1)
            with np.errstate(divide="ignore"):
                logs += np.log(pi)
            top = logs.max(axis=1, keepdims=True)
            if not np.isfinite(top).all():
                raise impossible()
            pi = np.exp(logs - top)
            pi /= pi.sum(axis=1, keepdims=True)
        pi = pi @ model.transition
        pi /= pi.sum(axis=1, keepdims=True)
    return Y


def _atom_values(z: Array, pi: Array, laws: list[Atoms]) -> Array:
    """The values of N mixtures of atoms on the same values."""
    p = pi @ np.stack([law.probabilities for law in laws])
    edges = intervals(p)[2][:, 1:-1]
    at = np.maximum((edges < z[:, None]).sum(axis=1), np.argmax(p > 0.0, axis=1))
    return np.asarray(laws[0].values[at])
