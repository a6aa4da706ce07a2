"""Going on under other models: what becomes of a filter's state when a parameter has changed.

The process behind the readings does not start anew because the parameter moved, so its predictors must
not either (design, 4.8: theta_k enters the step into x_k). Gauss-Markov filters hand over filtered means
and covariances; others hand over the state of the model, where old and new model have the same kind of it.
"""

from __future__ import annotations

from typing import Any

from understudy.errors import ModelError
from understudy.models.path import same_state
from understudy.transform.maps import CausalMap, Chain
from understudy.transform.pair import Pair


def continued(old: CausalMap, new: CausalMap, state: Any) -> Any:
    """The state of `old`, as one that `new` goes on from; refuses where there is no such thing.

    >>> import understudy as us
    >>> from understudy.transform.filter import transformation
    >>> a, b = (us.GaussMarkov(0.9, 1.0, 1.0, 1.0, b=v) for v in (0.0, 1.0))
    >>> old, new = transformation(a, b, False, None), transformation(b, a, False, None)
    >>> len(continued(old, new, old.start()))
    5
    """
    if isinstance(old, Pair) and isinstance(new, Pair):
        if (old.n, old.m, old.dim) == (new.n, new.m, new.dim):
            return old.carried(state)
    elif isinstance(old, Chain) and isinstance(new, Chain):
        if len(old.maps) == len(new.maps):
            return tuple(continued(a, b, part) for a, b, part in zip(old.maps, new.maps, state, strict=True))
    elif type(old) is type(new):
        one, other = getattr(old, "model", None), getattr(new, "model", None)
        if one is None or other is None:
            return state  # one law for every reading: at most a count is handed over
        if type(one) is type(other) and same_state(one, other):
            return state
    raise ModelError(
        "the state of this filter cannot go on under the models of another value: they must be of one type and have "
        "states of one kind and size"
    )
