"""Readings of a system that is acted on: the matrices of a step become known one step ahead.

A fan, a valve, the weather: the model of step k depends on an input u_k that is known before reading k and not
earlier, because somebody chose it in the light of the readings before. Given the inputs the readings are
Gauss-Markov, whatever chose them::

    X_k = A(u_k) X_{k-1} + b(u_k) + W_k      Y_k = C(u_k) X_k + d(u_k) + V_k

so an input that multiplies the state (air exchange does) is as exact as one that is added to it. The private
parameter, if it moves, is a part of the *setting* of a step as well: room(theta_k, u_k).

What may enter which side of a transformation is a matter of privacy, not of filtering. The source may be steered by
anything that is known before the reading. The target may be steered by the pseudo parameter, by the disguised past,
and by what is public and independent of the parameter and of the readings: clock, weather, fresh coins. A target
that is steered by an input which reacted to raw readings gives the parameter away.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np

from understudy._types import Frozen
from understudy.errors import ModelError, StateError
from understudy.laws.gaussian import Gaussian
from understudy.models.family import along
from understudy.models.gauss_markov import Filtered, GaussMarkov

# Models of settings that are kept at a time: a damper has a hundred positions or so.
_KEPT = 4096
_FIRST = "the first setting"


class Steered(NamedTuple):
    """Law of X_k given the first k readings, and the setting of the next step; it shows neither."""

    filtered: Filtered
    setting: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"Steered(readings={self.filtered.k})"


class Controlled(Frozen):
    """A Gauss-Markov model whose setting is given step by step.

    `models(*setting)` is the model of one step; a setting is one or several numbers or names. `first` is the setting of
    reading 1. A setting holds until `steered` gives another, which it does before the reading that it is for. All
    models must have the same numbers of states and channels, and speak of the same state.

    It is a model like any other: `us.Transform`, `us.whiten` and the checks take it.

    >>> import understudy as us
    >>> def room(people, flow):
    ...     stays = 0.95 - 0.3 * flow
    ...     return us.GaussMarkov(stays, 1.0, 0.1, 0.1, b=10.0 * people, mean0=100.0, cov0=1.0)
    >>> model = Controlled(room, 1, 0.0)
    >>> transform = us.Transform(source=model, target=model)
    >>> source, target = transform.start()
    >>> state = model.steered(source, 1, 0.5), model.steered(target, 0.6, 0.5)
    >>> state, y_out = transform.step(state, 90.0)
    >>> round(y_out, 9)
    86.0
    """

    __slots__ = ("_kept", "_models", "atoms", "dim", "first", "states")

    def __init__(self, models: Callable[..., GaussMarkov], *first: Any) -> None:
        if not callable(models):
            raise ModelError(
                f"models is of type {type(models).__name__}; it must be a function of the setting of a step"
            )
        self._models = models
        self._kept: dict[Hashable, GaussMarkov] = {}
        self.atoms: bool = False
        made = _made(models, first, _FIRST)
        self.dim: int = made.dim
        self.states: int = made.states
        self.first: tuple[Any, ...] = first
        self._kept[_key(first)] = made

    def __repr__(self) -> str:
        return f"Controlled(states={self.states}, dim={self.dim})"

    def model(self, *setting: Any) -> GaussMarkov:
        """The model of a step with this setting."""
        key = _key(setting)
        found = self._kept.get(key)
        if found is None:
            found = _made(self._models, setting, "a setting")
            if (found.states, found.dim) != (self.states, self.dim):
                raise ModelError(
                    f"a setting gives {found.states} states and {found.dim} channels, the first {self.states} and "
                    f"{self.dim}; they must agree"
                )
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found

    def along(self, settings: Iterable[tuple[Any, ...]]) -> GaussMarkov:
        """The same model for settings that are known from the start: one tuple for each reading.

        >>> import understudy as us
        >>> model = Controlled(lambda flow: us.GaussMarkov(0.9 - flow, 1.0, 0.1, 0.1, mean0=0.0, cov0=1.0), 0.0)
        >>> model.along([(0.0,), (0.2,), (0.1,)])
        GaussMarkov(states=1, dim=1, per step)
        """
        if not isinstance(settings, Iterable):
            raise ModelError(f"settings is of type {type(settings).__name__}; it must hold one tuple for each reading")
        members = []
        for k, setting in enumerate(settings):
            if not (isinstance(setting, (tuple, list)) or (isinstance(setting, np.ndarray) and setting.ndim)):
                raise ModelError(
                    f"setting {k} is of type {type(setting).__name__}; it must be a tuple, which holds all that the "
                    "model of a step depends on"
                )
            members.append(self._known(tuple(setting), k + 1))
        if not members:
            raise ModelError("settings is empty; it must hold one setting for each reading")
        return along(members)  # type: ignore[return-value]  # Gauss-Markov members make a Gauss-Markov model

    # The recursion --------------------------------------------------------------------------------

    def start(self) -> Steered:
        """Law of X_0 by the first setting, which holds until another is given."""
        return Steered(self.model(*self.first).start(), self.first)

    def steered(self, state: Steered, *setting: Any) -> Steered:
        """The state with the setting of the next step. Before reading 1 the law of X_0 is that of its setting."""
        k = _checked(state).filtered.k
        made = self._known(setting, k + 1)
        return Steered(made.start() if k == 0 else state.filtered, setting)

    def predict(self, state: Steered) -> Gaussian:
        """Law of the next reading under its setting."""
        return self._of(state).predict(state.filtered)

    def update(self, state: Steered, y: Any) -> Steered:
        """State after a reading; the setting holds."""
        return Steered(self._of(state).update(state.filtered, y), state.setting)

    def skip(self, state: Steered) -> Steered:
        """State after a missing reading; the setting holds."""
        return Steered(self._of(state).skip(state.filtered), state.setting)

    def _of(self, state: Any) -> GaussMarkov:
        return self._known(_checked(state).setting, state.filtered.k + 1)

    def _known(self, setting: tuple[Any, ...], reading: int) -> GaussMarkov:
        """The model of a setting at run time, where a matrix may tell the parameter: errors name no number of it."""
        try:
            return self.model(*setting)
        except _NoModelError as error:
            raise ModelError(f"the setting of reading {reading}: {error}") from None
        except ModelError:
            raise ModelError(
                f"the setting of reading {reading} gives a model that breaks a rule, or of another size"
            ) from None


class _NoModelError(ModelError):
    """The function of the setting gave no model; the message shows nothing of the setting."""


def _made(models: Callable[..., GaussMarkov], setting: tuple[Any, ...], which: str) -> GaussMarkov:
    try:
        made = models(*setting)
    except ModelError:
        raise
    except Exception as error:
        # what the function says may quote the setting, of which the private parameter is a part; the first setting is
        # configuration, and there it may
        kinds = ", ".join(type(part).__name__ for part in setting)
        raise _NoModelError(
            f"the function of the setting raised {type(error).__name__} for {which} of types ({kinds}); it must "
            "take as many numbers or names as are given, and return the model of a step"
        ) from (error if which == _FIRST else None)
    if not isinstance(made, GaussMarkov):
        # other models move their state when a reading has come, and so before the next setting is known
        raise _NoModelError(f"{which} gives a {type(made).__name__}; the model of a step must be a GaussMarkov")
    return made


def _key(setting: tuple[Any, ...]) -> Hashable:
    try:
        hash(setting)
    except TypeError:
        kinds = ", ".join(type(part).__name__ for part in setting)
        raise _NoModelError(
            f"a setting is of types ({kinds}); it must hold numbers, names or tuples of these"
        ) from None
    return setting


def _checked(state: Any) -> Steered:
    if not isinstance(state, Steered):
        raise StateError(
            f"a state of this model is of type {type(state).__name__}; it must come from start() or a step"
        )
    return state
