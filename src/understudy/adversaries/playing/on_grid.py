"""The filters of autoregressions on a grid, many readings at a time: the same numbers as reading by reading.

These are the models that a fit gives for most sensors, and asking their laws reading by reading takes a millisecond.
The scores of all readings of one value are found together, since the past of each is known. Noise is found for all
scores together, where channels are independent given the past; what is left is a recursion of plain numbers. Where
channels depend on each other, their laws are tabulated first (`tabulated`), which is good to a millionth of a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.adversaries.playing.tabulated import tabulated
from understudy.laws.base import Array
from understudy.laws.independent import Independent
from understudy.laws.rounded import Rounded
from understudy.laws.uniforms import uniforms_from
from understudy.models.autoregressive import AutoRegressive
from understudy.models.base import Model
from understudy.models.on_grid import OnGrid, coloured, scored
from understudy._types import Ints



def suited(models: Sequence[Model]) -> bool:
    """Whether all models are autoregressions of one order on a grid."""
    inside = [model.model if type(model) is OnGrid else None for model in models]
    return all(type(m) is AutoRegressive and m.order == inside[0].order for m in inside)  # type: ignore[union-attr]  # all are of that type


def restarted(
    Y: Array, theta: Ints, pseudo: Ints, sources: Sequence[Any], targets: Sequence[Any], secret: bytes
) -> Array:
    """An output (T, d) along both paths, with readings withheld at the beginning and after gaps, as `Restarting` does.

    >>> import understudy as us, scipy.stats
    >>> noise = us.Scalar(scipy.stats.t(3.0, 0.0, 2.0))
    >>> low, high = (OnGrid(us.AutoRegressive(0.5, level, noise, past=[level]), step=1.0) for level in (5.0, 9.0))
    >>> Y = np.array([[10.0], [11.0], [np.nan], [9.0], [10.0]])
    >>> here, there = np.zeros(5, dtype=int), np.zeros(5, dtype=int)
    >>> np.isnan(restarted(Y, here, there, [low], [high], bytes(32)))[:, 0].tolist()
    [True, False, True, True, False]
    """
    v = uniforms_from(secret).block(0, *Y.shape)
    z = scored(Y, theta, sources, v)
    output = np.full(Y.shape, np.nan)
    rows = np.array([], dtype=np.int64) if z is None else np.flatnonzero(~np.isnan(z).any(axis=1))
    if z is not None and rows.size:
        output[rows] = coloured_path(z[rows], pseudo[rows], targets)
    return output


def disguised(Y: Array, source: OnGrid, target: OnGrid, rng: np.random.Generator) -> Array:
    """Many sequences (T, d, N) of one value disguised as another; none is missing, and the past is the model's."""
    T, d, N = Y.shape
    inside: Any = source.model
    past = np.concatenate([np.repeat(inside.past[::-1, :, None], N, axis=2), Y])  # the earliest first
    p = inside.order
    # yhat_k = intercept + sum_i Phi_i y_{k-i}
    mean = inside.intercept[:, None] + sum(
        np.einsum("ij,tjn->tin", inside.coefficients[i], past[p - 1 - i : p - 1 - i + T]) for i in range(p)
    )
    flat, at = (x.transpose(1, 0, 2).reshape(d, T * N) for x in (Y, mean))
    v = rng.random((d, T * N)) * (1.0 - 2.0**-52) + 2.0**-53
    law = Rounded(inside.noise, source.grid, at[0] if d == 1 else at)
    z = np.reshape(law.score(flat[0], v[0]) if d == 1 else law.score(flat, v), (d, T, N)).transpose(1, 0, 2)
    found = coloured(np.ascontiguousarray(z), target)
    return Y if found is None else found


def coloured_path(z: Array, pseudo: Ints, targets: Sequence[Any]) -> Array:
    """Scores (T, d) to readings along a pseudo path."""
    T, d = z.shape
    laws = [target.model.noise for target in targets]
    used = sorted(set(pseudo.tolist()))
    separate = d == 1 or all(isinstance(laws[j], Independent) for j in used)
    noise = np.empty(z.shape)
    if separate:
        for j in used:
            at = pseudo == j
            noise[at] = np.reshape(laws[j].value(z[at, 0]), (-1, 1)) if d == 1 else np.asarray(laws[j].value(z[at].T)).T
    if d == 1:
        return _line(noise[:, 0], pseudo, targets)[:, None]
    dependent = None if separate else [tabulated(law) if j in used else None for j, law in enumerate(laws)]
    out = np.empty(z.shape)
    past = np.array(targets[int(pseudo[0])].model.past)
    for k in range(T):
        j = int(pseudo[k])
        model, grid = targets[j].model, targets[j].grid
        mean = model.intercept + np.tensordot(model.coefficients, past, axes=((0, 2), (0, 1)))
        table = None if dependent is None else dependent[j]
        if separate:
            out[k] = [c.rounded(y) for c, y in zip(grid.channels, (noise[k] + mean).tolist(), strict=True)]
        elif table is not None:
            out[k] = table.reported(z[k].tolist(), mean.tolist(), grid.channels)
        else:
            out[k] = Rounded(model.noise, grid, mean).value(z[k])
        past = np.concatenate([out[k][None], past[:-1]])
    return out


def _line(noise: Array, pseudo: Ints, targets: Sequence[Any]) -> Array:
    """One channel: y_k = round(intercept + sum of phi_i y_{k-i} + e_k)."""
    parts = [(t.model.coefficients[:, 0, 0].tolist(), float(t.model.intercept[0]), t.grid.channels[0]) for t in targets]
    past = targets[int(pseudo[0])].model.past[:, 0].tolist()
    out = np.empty(len(noise))
    for k, (e, j) in enumerate(zip(noise.tolist(), pseudo.tolist(), strict=True)):
        phi, intercept, channel = parts[j]
        y = channel.rounded(e + (intercept + sum(a * b for a, b in zip(phi, past, strict=True))))
        out[k] = y
        past = [y, *past[:-1]]
    return out
