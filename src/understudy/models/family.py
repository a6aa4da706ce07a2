"""A family: what each value of the private parameter does to the law of the readings."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from understudy.errors import FamilyError
from understudy.laws.base import Array, Frozen
from understudy.models.base import Model, is_model
from understudy.models.path import along


class Family(Frozen):
    """Parameter value -> model, the values that the private parameter takes, and their prior.

    The models come from a function of the value, or from a mapping. A function can also be asked for
    values that the private parameter itself never takes, which is how pseudo parameters are made.
    Without a prior the values are equally likely. `about` says where the family comes from, in what JSON can hold:
    columns, period, grid and fit, as `us.fit` writes them; it is kept with the designs that are made of the family.

    >>> import understudy as us
    >>> def room(occupants):
    ...     return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * occupants, mean0=100.0, cov0=1.0)
    >>> family = us.Family(room, values=[0, 1], prior=[0.5, 0.5])
    >>> family.model(0.6)
    GaussMarkov(states=1, dim=1, constant)
    """

    __slots__ = ("_cache", "_models", "about", "dim", "prior", "values")

    def __init__(
        self,
        models: Callable[[Any], Model] | Mapping[Any, Model],
        values: Iterable[Any] | None = None,
        prior: Any = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.about: dict[str, Any] | None = None if about is None else as_about(about)
        if not callable(models) and not isinstance(models, Mapping):
            raise FamilyError(f"models is of type {type(models).__name__}; it must be a function or a mapping")
        if values is None:
            if not isinstance(models, Mapping):
                raise FamilyError("values is missing; a family made from a function needs the values of its parameter")
            values = models.keys()
        self.values: tuple[Any, ...] = tuple(_own(value) for value in values)
        if not self.values:
            raise FamilyError("values is empty; a family needs at least one value")
        keys = [_key(value) for value in self.values]
        for i, key in enumerate(keys):
            if key in keys[:i]:
                raise FamilyError(f"the value {self.values[i]!r} appears twice; values must be distinct")
        self._models = models
        self._cache: dict[Any, Model] = {}
        self.prior: Array = _probabilities(prior, len(self.values))
        self.dim: int = self.model(self.values[0]).dim
        for value in self.values:
            if self.model(value).dim != self.dim:
                raise FamilyError(
                    f"the model of {value!r} has {self.model(value).dim} channels and that of "
                    f"{self.values[0]!r} has {self.dim}; all members must agree"
                )

    def __repr__(self) -> str:
        return f"Family({len(self.values)} values, dim={self.dim})"

    def model(self, value: Any) -> Model:
        """The model of one value, which need not be among `values` if the family is a function."""
        key = _key(value)
        if key in self._cache:
            return self._cache[key]
        if isinstance(self._models, Mapping):
            if value not in self._models:
                raise FamilyError(f"the family has no model for {value!r}; it has {list(self._models)!r}")
            model = self._models[value]
        else:
            model = self._models(value)
        if not is_model(model):
            raise FamilyError(
                f"the family gives a {type(model).__name__} for {value!r}; "
                "a model has dim, start, predict, update, skip"
            )
        self._cache[key] = model  # one object a value, so that its gain table is computed once
        return model

    def along(self, path: Iterable[Any]) -> Model:
        """The model of y when theta follows `path`, one value for each reading.

        The value of step k governs the law of reading k given the past; the state of the predictor
        continues through the switches.

        >>> import understudy as us
        >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
        >>> family.along([0, 0, 1, 1])
        GaussMarkov(states=1, dim=1, per step)
        """
        members = [self.model(value) for value in path]
        if not members:
            raise FamilyError("path is empty; it must hold one value for each reading")
        return along(members)


def as_about(about: Any) -> dict[str, Any]:
    """A copy of what is said about a family, if JSON can hold it.

    >>> as_about({"period": 60.0, "readings": ("co2",)})
    {'period': 60.0, 'readings': ['co2']}
    """
    try:
        copy = json.loads(json.dumps(about, allow_nan=False))
    except (TypeError, ValueError):
        raise FamilyError("about holds what JSON cannot; it must be names, numbers, lists and dicts") from None
    if type(copy) is not dict:
        raise FamilyError(f"about is of type {type(about).__name__}; it must be a dict")
    return copy


def _own(value: Any) -> Any:
    """A value that the user cannot change afterwards."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    return value


def _key(value: Any) -> Hashable:
    """What stands for a value in a dictionary; an array is as good a value as a tuple."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if not isinstance(value, Hashable):
        raise FamilyError(
            f"the value {value!r} is a {type(value).__name__}; a value is a number, a name, a tuple or an array"
        )
    return value


def _probabilities(given: Any, size: int) -> Array:
    if given is None:
        given = np.full(size, 1.0 / size)
    try:
        array = np.asarray(given)
    except ValueError:
        raise FamilyError("prior is ragged; it must hold one probability for each value") from None
    if array.dtype.kind not in "fiu" or array.shape != (size,):
        raise FamilyError(f"prior is {given!r}; it must hold one probability for each of the {size} values")
    p = np.array(array, dtype=float)
    if not np.isfinite(p).all() or (p < 0.0).any():
        raise FamilyError(f"prior is {given!r}; probabilities must be finite and not negative")
    total = float(p.sum())
    if abs(total - 1.0) > 1e-9:
        raise FamilyError(f"prior sums to {total:.12g}; probabilities must sum to 1")
    if abs(total - 1.0) > size * float(np.finfo(float).eps):
        p /= total  # else kept to the bit, so that a prior that was stored comes back as it was
    p.flags.writeable = False
    return p
