"""Models and families as plain JSON values, and back.

A stored model is parameters, never code: a kind, and under each name what the constructor was
given. To load is to call that constructor, so everything is checked again::

    us.IID(us.Gaussian(5.0, 4.0))
    {"kind": "IID", "law": {"kind": "Gaussian", "mean": 5.0, "cov": 4.0}}

Arrays are nested lists, a parameter given per step is ``{"per_step": [...]}``, and floats keep
every bit (Python writes the shortest digits that read back as the same number). The loaded model
whitens to the same bits as the one that was saved. What the constructor worked out, such as the
stationary start of a Gauss-Markov model, is stored and not worked out again, since another
machine may round it otherwise.

What holds a function or a class of the user's (a callable parameter, `Markov`, `General`, `Nonlinear`, a
distribution that scipy.stats does not have under a name) is refused: to bring it back, the file would have
to name code. The way out is in the message: save without models, and give the family when loading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from understudy.errors import ModelError, StoredFileError
from understudy.models.autoregressive import AutoRegressive
from understudy.models.base import Model
from understudy.models.family import Family, _key
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.general import General
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.iid import IID
from understudy.models.keys import value_from_plain, value_to_plain
from understudy.models.markov import Markov
from understudy.models.matrices import PerStep
from understudy.models.nonlinear import Nonlinear
from understudy.models.on_grid import OnGrid
from understudy.models.plain import Plain, array, entries, fields, kind_of, made, truth
from understudy.models.quantised import METHODS, Quantised
from understudy.models.stored_laws import WAY_OUT, law_from_plain, law_to_plain, laws_from_plain, laws_to_plain

# The axes of each parameter of a Gauss-Markov model.
_AXES = {"A": 2, "b": 1, "Q": 2, "C": 2, "d": 1, "R": 2}
# What makes the grid of a rounded model, one entry for each channel.
_GRID = ("step", "offset", "low", "high")


def to_plain(model: Model) -> Plain:
    """The model as JSON can hold it; refuses a model that holds functions or classes of its own.

    >>> import understudy as us
    >>> to_plain(us.IID(us.Gaussian(5.0, 4.0)))
    {'kind': 'IID', 'law': {'kind': 'Gaussian', 'mean': 5.0, 'cov': 4.0}}
    """
    # the very types: a subclass may do anything, and would come back without it
    plain = _TO.get(type(model))
    if plain is not None:
        return {"kind": type(model).__name__, **plain(model)}
    if type(model) in _FUNCTIONS:
        raise ModelError(f"{_FUNCTIONS[type(model)]}, which cannot be stored; {WAY_OUT}")
    *kinds, last = (kind.__name__ for kind in _TO)
    raise ModelError(
        f"the model is of type {type(model).__name__}; "
        f"only {', '.join(kinds)} and {last} models can be stored: {WAY_OUT}"
    )


def from_plain(plain: Any) -> Model:
    """The model that `to_plain` was given, made anew by its constructor.

    >>> import understudy as us
    >>> from_plain(to_plain(us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0)))
    GaussMarkov(states=1, dim=1, constant)
    """
    kind = kind_of("model", plain, _FROM)
    return _FROM[kind](plain, kind)


def family_to_plain(family: Family, pseudo: Iterable[Any] = ()) -> Plain:
    """The family as JSON can hold it: values, prior, and one model for each value, pseudo values included.

    A family made from a function becomes one that knows these values alone.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> stored = family_to_plain(family, pseudo=[0.0, 0.5, 1.0])
    >>> stored["values"], stored["others"], len(stored["models"])
    ([0, 1], [0.5], 3)
    """
    known = {_key(value) for value in family.values}
    others = list({_key(value): value for value in pseudo if _key(value) not in known}.values())
    about = {} if family.about is None else {"about": family.about}
    return about | {
        "kind": "Family",
        "values": [value_to_plain(value) for value in family.values],
        "prior": family.prior.tolist(),
        "others": [value_to_plain(value) for value in others],
        "models": [to_plain(family.model(value)) for value in (*family.values, *others)],
    }


def family_from_plain(plain: Any) -> Family:
    """The family that `family_to_plain` was given, for the values that it was given with.

    >>> import understudy as us
    >>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1])
    >>> loaded = family_from_plain(family_to_plain(family, pseudo=[0.5]))
    >>> loaded.values, loaded.model(0.5)
    ((0, 1), IID(dim=1))
    """
    kind_of("family", plain, ("Family",))
    about = plain.get("about")
    told = {name: part for name, part in plain.items() if name != "about"}
    given = fields("Family", told, "values", "prior", "others", "models")
    for name in ("values", "others", "models"):
        entries(f"Family.{name}", given[name])
    values = tuple(value_from_plain(value) for value in given["values"])
    others = tuple(value_from_plain(value) for value in given["others"])
    if len(given["models"]) != len(values) + len(others):
        raise StoredFileError("Family.models must hold one model for each of values and others")
    prior = array("Family.prior", given["prior"], 1)
    models = [from_plain(model) for model in given["models"]]
    members = StoredModels(zip(values + others, models, strict=True))
    if len(members) != len(models):
        raise StoredFileError("a value appears twice in Family.values and Family.others; each must appear once")
    return made("Family", Family, members, values, prior, about)


class StoredModels(Mapping[Any, Model]):
    """The models of a stored family, by parameter value; an array is as good a value as a number.

    >>> import understudy as us
    >>> list(StoredModels([(0, us.IID(us.Gaussian(0.0, 1.0)))]))
    [0]
    """

    __slots__ = ("_members",)

    def __init__(self, members: Iterable[tuple[Any, Model]]) -> None:
        self._members = {_key(value): (value, model) for value, model in members}

    def __getitem__(self, value: Any) -> Model:
        return self._members[_key(value)][1]

    def __iter__(self) -> Iterator[Any]:
        return (value for value, _ in self._members.values())

    def __len__(self) -> int:
        return len(self._members)


# To plain values ---------------------------------------------------------------------------------------


def _plain_gauss_markov(model: GaussMarkov) -> Plain:
    plain: Plain = {}
    for name, given in model.given.items():
        if callable(given):
            raise ModelError(
                f"{name} is a function of the step, which cannot be stored; give it as us.PerStep, or {WAY_OUT}"
            )
        if isinstance(given, PerStep):
            plain[name] = {"per_step": [matrix.tolist() for matrix in given]}
        else:
            plain[name] = given.tolist() if isinstance(given, np.ndarray) else given
    return plain


def _plain_iid(model: IID) -> Plain:
    return {"law": law_to_plain(model.law, "law")}


def _plain_autoregressive(model: AutoRegressive) -> Plain:
    return {
        "coefficients": model.coefficients.tolist(),
        "intercept": model.intercept.tolist(),
        "noise": law_to_plain(model.noise, "noise"),
        "past": model.past.tolist(),
        "allow_unstable": model.allow_unstable,
    }


def _plain_hidden_markov(model: HiddenMarkov) -> Plain:
    return {
        "transition": model.transition.tolist(),
        "initial": model.initial.tolist(),
        "laws": laws_to_plain(model.laws, "laws"),
    }


def _plain_quantised(model: Quantised) -> Plain:
    # the filter that was chosen, not how it was asked for: another machine might choose otherwise
    return {**_plain_on_grid(model), "method": model.method}


def _plain_on_grid(model: Quantised | OnGrid) -> Plain:
    grid = {
        name: [None if math.isinf(end) else end for end in each]
        for name, each in zip(_GRID, zip(*model.grid.channels, strict=True), strict=True)
    }
    return {"model": to_plain(model.model), **grid}


_TO: dict[type, Callable[[Any], Plain]] = {
    GaussMarkov: _plain_gauss_markov,
    AutoRegressive: _plain_autoregressive,
    IID: _plain_iid,
    HiddenMarkov: _plain_hidden_markov,
    Quantised: _plain_quantised,
    OnGrid: _plain_on_grid,
}

# Models that are made of functions.
_FUNCTIONS: dict[type, str] = {
    Markov: "transition of the Markov model is a function",
    General: "the density of the General model is a function",
    Nonlinear: "move and read of the Nonlinear model are functions",
}


# From plain values -------------------------------------------------------------------------------------


def _gauss_markov(plain: Plain, where: str) -> Model:
    given = fields(where, plain, *_AXES, "mean0", "cov0", "allow_unstable")
    arguments: dict[str, Any] = {}
    for name, axes in _AXES.items():
        here = f"{where}.{name}"
        if type(given[name]) is dict:
            steps = entries(f"{here}.per_step", fields(here, given[name], "per_step", kind=False)["per_step"])
            arguments[name] = made(here, PerStep, [array(here, step, axes) for step in steps])
        else:
            arguments[name] = array(here, given[name], axes)
    arguments["mean0"] = array(f"{where}.mean0", given["mean0"], 1)
    arguments["cov0"] = array(f"{where}.cov0", given["cov0"], 2)
    arguments["allow_unstable"] = truth(f"{where}.allow_unstable", given["allow_unstable"])
    model: GaussMarkov = made(where, GaussMarkov, **arguments)
    for name, found in model.given.items():
        # the constructor takes a vector of the wrong length for a number per step where it wants one number
        if isinstance(found, PerStep) and type(given[name]) is not dict:
            raise StoredFileError(f"{where}.{name} has {len(found)} entries; it must have one")
    return model


def _iid(plain: Plain, where: str) -> Model:
    law = law_from_plain(fields(where, plain, "law")["law"], f"{where}.law")
    return made(where, IID, law)


def _autoregressive(plain: Plain, where: str) -> Model:
    given = fields(where, plain, "coefficients", "intercept", "noise", "past", "allow_unstable")
    return made(
        where,
        AutoRegressive,
        array(f"{where}.coefficients", given["coefficients"], 3),
        array(f"{where}.intercept", given["intercept"], 1),
        law_from_plain(given["noise"], f"{where}.noise"),
        array(f"{where}.past", given["past"], 2),
        allow_unstable=truth(f"{where}.allow_unstable", given["allow_unstable"]),
    )


def _hidden_markov(plain: Plain, where: str) -> Model:
    given = fields(where, plain, "transition", "initial", "laws")
    return made(
        where,
        HiddenMarkov,
        array(f"{where}.transition", given["transition"], 2),
        array(f"{where}.initial", given["initial"], 1),
        laws_from_plain(given["laws"], f"{where}.laws"),
    )


def _quantised(plain: Plain, where: str) -> Model:
    given = fields(where, plain, "model", *_GRID, "method")
    kind = kind_of(f"{where}.model", given["model"], ("GaussMarkov", "AutoRegressive"))
    model = _FROM[kind](given["model"], f"{where}.model")
    grid = _grid(given, where)
    if type(given["method"]) is not str or given["method"] not in METHODS:
        raise StoredFileError(f"{where}.method must be one of {', '.join(METHODS)}")
    return made(where, Quantised, model, **grid, method=given["method"])


def _on_grid(plain: Plain, where: str) -> Model:
    given = fields(where, plain, "model", *_GRID)
    kind = kind_of(f"{where}.model", given["model"], ("GaussMarkov", "AutoRegressive", "IID", "HiddenMarkov"))
    return made(where, OnGrid, _FROM[kind](given["model"], f"{where}.model"), **_grid(given, where))


def _grid(given: Plain, where: str) -> dict[str, Any]:
    grid = {name: entries(f"{where}.{name}", given[name]) for name in _GRID}
    for name, each in grid.items():
        for entry in each:
            if not (entry is None and name in ("low", "high")):
                array(f"{where}.{name}", entry, 0)
    return grid


_FROM: dict[str, Callable[[Plain, str], Model]] = {
    "GaussMarkov": _gauss_markov,
    "AutoRegressive": _autoregressive,
    "IID": _iid,
    "HiddenMarkov": _hidden_markov,
    "Quantised": _quantised,
    "OnGrid": _on_grid,
}
