"""A family: what each value of the private parameter does to the law of the readings; and parameters that move.

`Family` is the map from a value to a model, with the prior of the values.

`along` is the model of y when theta follows a path (paper, first remark). theta_k enters the step into x_k, the law
of Y_k given the past; the predictor's state continues through the switches. Members of the path must therefore share
the kind and the size of their state. Gauss-Markov members make one Gauss-Markov model, whose matrices change with the
step, and rounded ones with one grid the same model behind that grid. Hidden Markov members with as many hidden states
make a `HiddenPath`, any others a `Path`. A `HiddenMarkov` model moves its probabilities when a reading has been seen;
along a path that move is the next member's, so the state kept there is the filtered one, moved when the next reading
is asked for. Models that are approximate and models with an `emit` of their own are refused: what such a path gives
away is not known, and could not be charged.

`Controlled` is a system that is acted on: a fan, a valve, the weather. The model of step k depends on an input u_k
that is known before reading k and not earlier, because somebody chose it in the light of the readings before. Given
the inputs the readings are Gauss-Markov, whatever chose them::

    X_k = A(u_k) X_{k-1} + b(u_k) + W_k      Y_k = C(u_k) X_k + d(u_k) + V_k

so an input that multiplies the state (air exchange does) is as exact as one that is added to it. The private
parameter, if it moves, is a part of the *setting* of a step as well: room(theta_k, u_k). What may enter which side of
a transformation is a matter of privacy, not of filtering. The source may be steered by anything that is known before
the reading. The target may be steered by the pseudo parameter, by the disguised past, and by what is public and
independent of the parameter and of the readings: clock, weather, fresh random numbers. A target that is steered by an
input which reacted to raw readings gives the parameter away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._html import fragment, table
from understudy._types import Array, Frozen, Json, Numbers, Plain, Value
from understudy.errors import FamilyError, MissingReadingError, ModelError, StateError, StoredFileError
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law
from understudy.laws.multivariate import reweight
from understudy.models.gauss_markov import Filtered, GaussMarkov, PerStep
from understudy.models.hidden_markov import HiddenMarkov, HiddenState
from understudy.models.model import Model, is_model
from understudy.models.quantised import Quantised
from understudy.serialize import (
    construct,
    entries,
    fields,
    from_plain,
    kind_of,
    stored_array,
    to_plain,
    value_from_plain,
    value_to_plain,
)
from understudy.text import FAMILY_CAPTION, FAMILY_HEAD

# A parameter that moves -------------------------------------------------------------------------------


class Path(Frozen):
    """The model whose step k is that of ``members[k - 1]``; any model with the four methods.

    A missing reading is skipped by the member of its step. A member that only counts what is missing
    and gives the law across the whole gap afterwards (`Markov`, which says so by `defers_gaps`) knows
    nothing of the others, so with such members a gap across a switch is refused.
    """

    __slots__ = ("dim", "members", "steps")

    def __init__(self, members: Sequence[Model]) -> None:
        self.members = tuple(members)
        self.dim = self.members[0].dim
        self.steps = len(self.members)

    def __repr__(self) -> str:
        return f"Path(steps={len(self.members)}, dim={self.dim})"

    @property
    def atoms(self) -> bool:
        """Whether a member has atoms, so that scores need auxiliary uniforms."""
        return any(getattr(member, "atoms", False) for member in self.members)

    # The state: readings so far, how many of the last are missing, the state of the members.

    def start(self) -> tuple[int, int, Any]:
        """Where the first member starts."""
        return 0, 0, self.members[0].start()

    def predict(self, state: tuple[int, int, Any]) -> Law:
        """Law under the member of this step."""
        return self._member(state).predict(state[2])

    def update(self, state: tuple[int, int, Any], y: Numbers) -> tuple[int, int, Any]:
        """Update under the member of this step."""
        return state[0] + 1, 0, self._member(state).update(state[2], y)

    def skip(self, state: tuple[int, int, Any]) -> tuple[int, int, Any]:
        """Skip under the member of this step."""
        return state[0] + 1, state[1] + 1, self._member(state).skip(state[2])

    def _member(self, state: tuple[int, int, Any]) -> Model:
        k, missing, _ = state
        if k >= len(self.members):
            raise ModelError(f"the path has {len(self.members)} steps; there is no step {k + 1}")
        member = self.members[k]
        gap = self.members[k - missing : k]
        if getattr(member, "defers_gaps", False) and any(other is not member for other in gap):
            raise MissingReadingError(
                f"readings before number {k + 1} are missing across a switch of the path, and no exact law is known"
            )
        return member


def along(members: Sequence[Model]) -> Model:
    """One model out of one member per step; see the module for which."""
    distinct = list({id(m): m for m in members}.values())
    first = distinct[0]
    for other in distinct[1:]:
        if type(other) is not type(first) or not same_state(first, other):
            raise FamilyError(
                f"the path switches between a {type(first).__name__} of {first.dim} channels and a "
                f"{type(other).__name__} of {other.dim}; members of a path must share type, channels and the "
                "dimension of their state (of a General model, the memory)"
            )
    if type(first) is Quantised:
        return _behind_grid([member for member in members if isinstance(member, Quantised)])
    for attribute, why in (("residual", "are approximate"), ("emit", "feed back something else than they release")):
        if hasattr(first, attribute):
            raise FamilyError(
                f"the path is of {type(first).__name__} models, which {why}; members of a path must be exact models "
                "that go on from what they have read, or Quantised models with one grid"
            )
    if isinstance(first, HiddenMarkov):
        return HiddenPath(members)  # type: ignore[arg-type]  # all of one type
    linear = {id(m): m if isinstance(m, GaussMarkov) else getattr(m, "gauss_markov", None) for m in distinct}
    if all(isinstance(m, GaussMarkov) for m in linear.values()):
        return _switch([linear[id(m)] for m in members])  # type: ignore[misc]  # the line above says so
    return Path(members)


def _switch(members: Sequence[GaussMarkov]) -> GaussMarkov:
    systems = [m.at(k) for k, m in enumerate(members, start=1)]
    A, b, Q, C, d, R = (PerStep(matrices) for matrices in zip(*systems, strict=True))
    return GaussMarkov(A, C, Q, R, b, d, members[0].mean0, members[0].cov0)


def _behind_grid(members: Sequence[Quantised]) -> Model:
    """The switched model behind the grid that all members, of one type, share."""
    first = members[0]
    if any(
        m.grid.channels != first.grid.channels or m.arguments["method"] != first.arguments["method"] for m in members
    ):
        raise FamilyError("the path is of Quantised models with several grids or methods; members must share both")
    behind = _switch([m.linear for m in members])
    return type(first)(behind, **first.grid.arguments, method=first.arguments["method"])


def same_state(one: Model, other: Model) -> bool:
    """Whether one model can go on from the state of the other."""
    # a past that is cut to the memory of one member is too short for another
    memory = getattr(one, "memory", None) == getattr(other, "memory", None)
    return memory and one.dim == other.dim and same_kind(one.start(), other.start())


def same_kind(one: Any, other: Any) -> bool:
    """Whether two states agree in types, lengths and shapes; their values do not count.

    >>> same_kind((0, (0.5, 0.5)), (7, (0.1, 0.9))), same_kind((), (0,))
    (True, False)
    """
    return bool(_shape(one) == _shape(other))


def _shape(state: Any) -> Any:
    """What must agree for a state to continue: types and shapes, not values."""
    if isinstance(state, (tuple, list)):
        return type(state), tuple(_shape(part) for part in state)
    return type(state), np.shape(state) if isinstance(state, np.ndarray) else None


# A family ---------------------------------------------------------------------------------------------


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
        prior: ArrayLike | None = None,
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

    def to_dict(self, pseudo: Iterable[Value] = ()) -> Plain:
        """The family as JSON can hold it: values, prior, and one model for each value, pseudo values included.

        A family made from a function becomes one that knows these values alone.

        >>> import understudy as us
        >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
        >>> stored = family.to_dict(pseudo=[0.0, 0.5, 1.0])
        >>> stored["values"], stored["others"], len(stored["models"])
        ([0, 1], [0.5], 3)
        """
        known = {_key(value) for value in self.values}
        others = list({_key(value): value for value in pseudo if _key(value) not in known}.values())
        about = {} if self.about is None else {"about": self.about}
        return about | {
            "kind": "Family",
            "values": [value_to_plain(value) for value in self.values],
            "prior": self.prior.tolist(),
            "others": [value_to_plain(value) for value in others],
            "models": [to_plain(self.model(value)) for value in (*self.values, *others)],
        }

    @classmethod
    def from_dict(cls, plain: Json) -> Family:
        """The family that `to_dict` wrote, for the values that it was given with.

        >>> import understudy as us
        >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
        >>> loaded = us.Family.from_dict(family.to_dict(pseudo=[0.5]))
        >>> loaded.values, loaded.model(0.5)
        ((0, 1), IID(dim=1))
        """
        kind_of("family", plain, ("Family",))
        parts: Plain = dict(plain) if isinstance(plain, dict) else {}
        about = parts.pop("about", None)
        given = fields("Family", parts, "values", "prior", "others", "models")
        for name in ("values", "others", "models"):
            entries(f"Family.{name}", given[name])
        values = tuple(value_from_plain(value) for value in given["values"])
        others = tuple(value_from_plain(value) for value in given["others"])
        if len(given["models"]) != len(values) + len(others):
            raise StoredFileError("Family.models must hold one model for each of values and others")
        prior = stored_array("Family.prior", given["prior"], 1)
        models = [from_plain(model) for model in given["models"]]
        members = _StoredModels(zip(values + others, models, strict=True))
        if len(members) != len(models):
            raise StoredFileError("a value appears twice in Family.values and Family.others; each must appear once")
        return construct("Family", cls, members, values, prior, about)

    def __repr__(self) -> str:
        return f"Family({len(self.values)} values, dim={self.dim})"

    def _repr_html_(self) -> str:
        pairs = zip(self.values, self.prior.tolist(), strict=True)
        rows = [(str(value), f"{p:.3g}", repr(self.model(value))) for value, p in pairs]
        return fragment("Family", table(FAMILY_CAPTION, FAMILY_HEAD, rows, [1]))

    @property
    def members(self) -> tuple[Any, ...]:
        """The values that models are there for: of a stored family, pseudo values too; of a function, its own."""
        return tuple(self._models) if isinstance(self._models, Mapping) else self.values

    def model(self, value: Value) -> Model:
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


class _StoredModels(Mapping[Any, Model]):
    """The models of a stored family, by parameter value; an array is as good a value as a number."""

    __slots__ = ("_members",)

    def __init__(self, members: Iterable[tuple[Value, Model]]) -> None:
        self._members = {_key(value): (value, model) for value, model in members}

    def __getitem__(self, value: Value) -> Model:
        return self._members[_key(value)][1]

    def __iter__(self) -> Iterator[Any]:
        return (value for value, _ in self._members.values())

    def __len__(self) -> int:
        return len(self._members)


def as_about(about: Mapping[str, Any]) -> dict[str, Any]:
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


def _own(value: Value) -> Value:
    """A value that the user cannot change afterwards."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    return value


def _key(value: Value) -> Hashable:
    """What stands for a value in a dictionary; an array is as good a value as a tuple."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if not isinstance(value, Hashable):
        raise FamilyError(
            f"the value {value!r} is a {type(value).__name__}; a value is a number, a name, a tuple or an array"
        )
    return value


def _probabilities(given: ArrayLike | None, size: int) -> Array:
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


# Hidden Markov models along a path --------------------------------------------------------------------


class HiddenPath(Frozen):
    """Hidden Markov models along a path: member k moves the hidden state into reading k, and reads it.

    Only the first member's `initial` is used, for the hidden state at the first reading.

    >>> import understudy as us
    >>> laws = [us.Gaussian(0.0, 1.0), us.Gaussian(5.0, 1.0)]
    >>> still, moving = (HiddenMarkov([[1.0 - p, p], [p, 1.0 - p]], [1.0, 0.0], laws) for p in (0.0, 0.5))
    >>> path = HiddenPath([still, still, moving])
    >>> us.whiten([0.0, 1.0, 2.5], path).round(9).tolist()
    [0.0, 1.0, 0.0]
    """

    __slots__ = ("atoms", "dim", "members", "steps")

    def __init__(self, members: Sequence[HiddenMarkov]) -> None:
        self.members = tuple(members)
        self.dim = self.members[0].dim
        self.steps = len(self.members)
        self.atoms = any(member.atoms for member in self.members)

    def __repr__(self) -> str:
        return f"HiddenPath(states={self.members[0].states}, steps={self.steps}, dim={self.dim})"

    def __reduce__(self) -> tuple[type[HiddenPath], tuple[tuple[HiddenMarkov, ...]]]:
        return HiddenPath, (self.members,)

    # The state: readings so far, and the probabilities of the hidden state at the last of them, given all of them.

    def start(self) -> tuple[int, HiddenState]:
        """Probabilities at the first reading, which nothing moves into."""
        return 0, self.members[0].start()

    def predict(self, state: tuple[int, HiddenState]) -> Law:
        """The mixture of the laws of this step's member."""
        return self._member(state).predict(self._move(state))

    def update(self, state: tuple[int, HiddenState], y: Numbers) -> tuple[int, HiddenState]:
        """Bayes' rule under this step's member."""
        laws = self._member(state).emissions
        return state[0] + 1, tuple(reweight(self._move(state), [float(law.logpdf(y)) for law in laws]))

    def skip(self, state: tuple[int, HiddenState]) -> tuple[int, HiddenState]:
        """The move alone."""
        return state[0] + 1, self._move(state)

    def _move(self, state: tuple[int, HiddenState]) -> HiddenState:
        k, p = state
        return p if k == 0 else self._member(state).skip(p)

    def _member(self, state: tuple[int, HiddenState]) -> HiddenMarkov:
        if state[0] >= self.steps:
            raise ModelError(f"the path has {self.steps} steps; there is no step {state[0] + 1}")
        return self.members[state[0]]


# A setting that becomes known one step ahead ----------------------------------------------------------


# Models of settings that are kept at a time: a damper has a hundred positions or so.
_KEPT = 4096
_FIRST = "the first setting"


class Steered(NamedTuple):
    """Law of X_k given the first k readings, and the setting of the next step; it shows neither."""

    filtered: Filtered
    setting: tuple[Hashable, ...]

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

    def __init__(self, models: Callable[..., GaussMarkov], *first: Hashable) -> None:
        if not callable(models):
            raise ModelError(
                f"models is of type {type(models).__name__}; it must be a function of the setting of a step"
            )
        self._models = models
        self._kept: dict[Hashable, GaussMarkov] = {}
        self.atoms: bool = False
        made = _make(models, first, _FIRST)
        self.dim: int = made.dim
        self.states: int = made.states
        self.first: tuple[Any, ...] = first
        self._kept[_setting_key(first)] = made

    def __repr__(self) -> str:
        return f"Controlled(states={self.states}, dim={self.dim})"

    def model(self, *setting: Hashable) -> GaussMarkov:
        """The model of a step with this setting."""
        key = _setting_key(setting)
        found = self._kept.get(key)
        if found is None:
            found = _make(self._models, setting, "a setting")
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
            members.append(self._look_up(tuple(setting), k + 1))
        if not members:
            raise ModelError("settings is empty; it must hold one setting for each reading")
        return along(members)  # type: ignore[return-value]  # Gauss-Markov members make a Gauss-Markov model

    # The recursion --------------------------------------------------------------------------------

    def start(self) -> Steered:
        """Law of X_0 by the first setting, which holds until another is given."""
        return Steered(self.model(*self.first).start(), self.first)

    def steered(self, state: Steered, *setting: Hashable) -> Steered:
        """The state with the setting of the next step. Before reading 1 the law of X_0 is that of its setting."""
        k = _check_state(state).filtered.k
        made = self._look_up(setting, k + 1)
        return Steered(made.start() if k == 0 else state.filtered, setting)

    def predict(self, state: Steered) -> Gaussian:
        """Law of the next reading under its setting."""
        return self._of(state).predict(state.filtered)

    def update(self, state: Steered, y: Numbers) -> Steered:
        """State after a reading; the setting holds."""
        return Steered(self._of(state).update(state.filtered, y), state.setting)

    def skip(self, state: Steered) -> Steered:
        """State after a missing reading; the setting holds."""
        return Steered(self._of(state).skip(state.filtered), state.setting)

    def _of(self, state: Steered) -> GaussMarkov:
        return self._look_up(_check_state(state).setting, state.filtered.k + 1)

    def _look_up(self, setting: tuple[Any, ...], reading: int) -> GaussMarkov:
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


def _make(models: Callable[..., GaussMarkov], setting: tuple[Any, ...], which: str) -> GaussMarkov:
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


def _setting_key(setting: tuple[Any, ...]) -> Hashable:
    try:
        hash(setting)
    except TypeError:
        kinds = ", ".join(type(part).__name__ for part in setting)
        raise _NoModelError(
            f"a setting is of types ({kinds}); it must hold numbers, names or tuples of these"
        ) from None
    return setting


def _check_state(state: Steered) -> Steered:
    if not isinstance(state, Steered):
        raise StateError(
            f"a state of this model is of type {type(state).__name__}; it must come from start() or a step"
        )
    return state
