"""Going on under other models: what becomes of a filter's state when a parameter has changed.

The process behind the readings does not start anew because the parameter moved, so its predictors must
not either (design, 4.8: theta_k enters the step into x_k). Gauss-Markov filters, rounded or not, hand over filtered
means and covariances; others hand over the state of the model, where old and new model have the same kind of it.

A state that the old model has already moved on must not be handed to a model that moves otherwise: a hidden Markov
chain is moved when a reading has been seen, and a gap of a `Markov` model is bridged after its end. Such a change is
refused, where `Family.along`, which keeps what is needed, goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.errors import ModelError
from understudy.models.path import same_kind, same_state
from understudy.transform.maps import CausalMap, Chain
from understudy.transform.pair import Pair
from understudy.transform.restarting import Restarting
from understudy.transform.rounded import Colouring


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
    elif isinstance(old, Restarting) and isinstance(new, Restarting):
        if old.refill == new.refill:
            return _restarted(old, new, state)
    elif isinstance(old, Colouring) and isinstance(new, Colouring):
        return continued(old.unrounded, new.unrounded, state)
    elif type(old) is type(new) and same_kind(old.start(), new.start()):
        one, other = getattr(old, "model", None), getattr(new, "model", None)
        if one is None or other is None:
            return state  # one law for every reading: at most a count is handed over
        if type(one) is type(other) and same_state(one, other):
            _check_not_moved(one, other, state)
            return state
    raise ModelError(
        "the state of this filter cannot go on under the models of another value: they must be of one type and have "
        "states of one kind and size"
    )


def _restarted(old: Restarting, new: Restarting, state: Any) -> Any:
    """A colouring that has not begun has no state to hand over; whether it could is asked nevertheless.

    Else a change would be refused or not by the moment at which it comes.
    """
    left, source, target, *due = state
    coloured = continued(old.target, new.target, old.target.start() if target is None else target)
    return (left, continued(old.source, new.source, source), None if target is None else coloured, *due)


def _check_not_moved(one: Any, other: Any, state: Any) -> None:
    """Refuse a state in which `one` has done already what is for `other` to do."""
    if one is other:
        return
    moves = getattr(one, "transition", None)
    if isinstance(moves, np.ndarray) and not np.array_equal(moves, other.transition):
        raise ModelError(
            "the hidden state was moved by the transition of the old value already, and the new value has another one; "
            "hidden Markov models between which a stream switches must share their transition"
        )
    if getattr(one, "defers_gaps", False) and _missing(state) and not _bridged_alike(one, other):
        raise ModelError(
            "the last readings are missing, and no exact law across a gap is known where the value changes in it; "
            "switch after the next reading"
        )


def _bridged_alike(one: Any, other: Any) -> bool:
    """Whether two `Markov` models have the same law across a gap."""
    return one.gap is other.gap


def _missing(state: Any) -> int:
    """How many of the last readings a `Markov` model has left to bridge."""
    inner = state[1] if len(state) == 2 else state  # with atoms, after the number of readings
    return int(inner[2])
