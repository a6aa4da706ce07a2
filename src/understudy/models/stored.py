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

What holds a function or a class of the user's (a callable parameter, `Markov`, a distribution that
scipy.stats does not have under a name) is refused: to bring it back, the file would have to name
code. The way out is in the message: save without models, and give the family when loading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from understudy.errors import ModelError, StoredFileError
from understudy.laws.base import Array
from understudy.laws.gaussian import Gaussian
from understudy.laws.independent import Independent
from understudy.laws.scalar import Scalar
from understudy.laws.shifted import Shifted
from understudy.models.autoregressive import AutoRegressive
from understudy.models.base import Model
from understudy.models.family import Family, _key
from understudy.models.gauss_markov import GaussMarkov
from understudy.models.iid import IID
from understudy.models.keys import value_from_plain, value_to_plain
from understudy.models.markov import Markov
from understudy.models.matrices import PerStep

_WAY_OUT = "save without models, and re-attach them with load_design(path, family=...)"
# The axes of each parameter of a Gauss-Markov model.
_AXES = {"A": 2, "b": 1, "Q": 2, "C": 2, "d": 1, "R": 2}
# Laws inside laws; the bound keeps a hostile file from exhausting the stack.
_DEEPEST = 8

Plain = dict[str, Any]


def to_plain(model: Model) -> Plain:
    """The model as JSON can hold it; refuses a model that holds functions or classes of its own.

    >>> import understudy as us
    >>> to_plain(us.IID(us.Gaussian(5.0, 4.0)))
    {'kind': 'IID', 'law': {'kind': 'Gaussian', 'mean': 5.0, 'cov': 4.0}}
    """
    # the very types: a subclass may do anything, and would come back without it
    if type(model) is GaussMarkov:
        return _plain_gauss_markov(model)
    if type(model) is IID:
        return {"kind": "IID", "law": _plain_law(model.law, "law", 0)}
    if type(model) is AutoRegressive:
        return {
            "kind": "AutoRegressive",
            "coefficients": model.coefficients.tolist(),
            "intercept": model.intercept.tolist(),
            "noise": _plain_law(model.noise, "noise", 0),
            "past": model.past.tolist(),
            "allow_unstable": model.allow_unstable,
        }
    if type(model) is Markov:
        raise ModelError(f"transition of the Markov model is a function, which cannot be stored; {_WAY_OUT}")
    raise ModelError(
        f"the model is of type {type(model).__name__}; "
        f"only GaussMarkov, AutoRegressive and IID models can be stored: {_WAY_OUT}"
    )


def from_plain(plain: Any) -> Model:
    """The model that `to_plain` was given, made anew by its constructor.

    >>> import understudy as us
    >>> from_plain(to_plain(us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0)))
    GaussMarkov(states=1, dim=1, constant)
    """
    kinds: dict[str, Callable[[Plain], Model]] = {
        "GaussMarkov": _gauss_markov,
        "IID": lambda given: _made("IID", IID, _law(_fields("IID", given, "law")["law"], "IID.law", 0)),
        "AutoRegressive": _autoregressive,
    }
    return kinds[_kind("model", plain, kinds)](plain)


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
    return {
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
    _kind("family", plain, ("Family",))
    given = _fields("Family", plain, "values", "prior", "others", "models")
    for name in ("values", "others", "models"):
        if type(given[name]) is not list:
            raise StoredFileError(f"Family.{name} must be a list")
    values = tuple(value_from_plain(value) for value in given["values"])
    others = tuple(value_from_plain(value) for value in given["others"])
    if len(given["models"]) != len(values) + len(others):
        raise StoredFileError("Family.models must hold one model for each of values and others")
    prior = _array("Family.prior", given["prior"], 1)
    models = [from_plain(model) for model in given["models"]]
    members = StoredModels(zip(values + others, models, strict=True))
    if len(members) != len(models):
        raise StoredFileError("a value appears twice in Family.values and Family.others; each must appear once")
    return _made("Family", Family, members, values, prior)  # type: ignore[no-any-return]  # what the constructor makes


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


# Models and laws to plain values ---------------------------------------------------------------------


def _plain_gauss_markov(model: GaussMarkov) -> Plain:
    plain: Plain = {"kind": "GaussMarkov"}
    for name, given in model.given.items():
        if callable(given):
            raise ModelError(
                f"{name} is a function of the step, which cannot be stored; give it as us.PerStep, or {_WAY_OUT}"
            )
        if isinstance(given, PerStep):
            plain[name] = {"per_step": [array.tolist() for array in given]}
        else:
            plain[name] = given.tolist() if isinstance(given, np.ndarray) else given
    return plain


def _plain_law(law: Any, where: str, depth: int) -> Plain:
    if depth >= _DEEPEST:
        raise ModelError(f"{where}: laws are nested more than {_DEEPEST} deep; {_WAY_OUT}")
    if type(law) is Gaussian:
        mean, cov = law.given
        return {"kind": "Gaussian", "mean": np.asarray(mean).tolist(), "cov": np.asarray(cov).tolist()}
    if type(law) is Scalar:
        return _plain_scalar(law.dist, where)
    if type(law) is Independent:
        laws = [_plain_law(inner, f"{where}.laws[{i}]", depth + 1) for i, inner in enumerate(law.laws)]
        return {"kind": "Independent", "laws": laws}
    if type(law) is Shifted:
        shift = _parameter(f"{where}.shift", law.shift)
        return {"kind": "Shifted", "law": _plain_law(law.law, f"{where}.law", depth + 1), "shift": shift}
    raise ModelError(
        f"{where} is of type {type(law).__name__}; "
        f"only Gaussian, Scalar, Independent and Shifted laws can be stored: {_WAY_OUT}"
    )


def _plain_scalar(dist: Any, where: str) -> Plain:
    family: Any = getattr(dist, "dist", None)
    name = getattr(family, "name", None)
    named = _distribution(name)
    # a class of the user's, one of scipy's with another support, or one with a switch outside its parameters
    own = named is None or type(family) is not type(named) or (family.a, family.b) != (named.a, named.b)
    if own or hasattr(named, "parameterization"):
        shown = name if named is not None else type(dist).__name__
        raise ModelError(
            f"{where} is a distribution ({shown}) that its name and its parameters do not tell; "
            f"of a Scalar law, only a frozen distribution that scipy.stats has under a name can be stored: {_WAY_OUT}"
        )
    names = _parameter_names(named)
    given = {"loc": 0.0, "scale": 1.0, **dict(zip(names, dist.args, strict=False)), **dist.kwds}
    parameters = {key: _parameter(f"{where}.{key}", given[key]) for key in names}
    return {"kind": "Scalar", "distribution": name, "parameters": parameters}


def _parameter(where: str, given: Any) -> Any:
    """A number or a vector of numbers, as the constructor will read it again."""
    try:
        array = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{where} is of type {type(given).__name__}; it must be a number or a vector") from None
    if array.ndim > 1 and array.size != 1:
        raise ModelError(f"{where} has shape {array.shape}; it must be a number or a vector")
    if not np.isfinite(array).all():
        raise ModelError(f"{where} has an entry that is not finite; every number that is stored must be")
    return array.item() if array.size == 1 else array.tolist()


def _distribution(name: Any) -> Any:
    """The continuous distribution that scipy.stats has under this name, or None: a list, not an import."""
    import scipy.stats

    found = vars(scipy.stats).get(name) if type(name) is str else None
    return found if isinstance(found, scipy.stats.rv_continuous) and found.name == name else None


def _parameter_names(family: Any) -> list[str]:
    return [*(family.shapes.replace(",", " ").split() if family.shapes else []), "loc", "scale"]


# Plain values to models and laws ---------------------------------------------------------------------


def _gauss_markov(plain: Plain) -> Model:
    given = _fields("GaussMarkov", plain, *_AXES, "mean0", "cov0", "allow_unstable")
    arguments: dict[str, Any] = {}
    for name, axes in _AXES.items():
        where = f"GaussMarkov.{name}"
        if type(given[name]) is dict:
            steps = _fields(where, given[name], "per_step", kind=False)["per_step"]
            if type(steps) is not list:
                raise StoredFileError(f"{where}.per_step must be a list")
            arguments[name] = _made(where, PerStep, [_array(where, step, axes) for step in steps])
        else:
            arguments[name] = _array(where, given[name], axes)
    arguments["mean0"] = _array("GaussMarkov.mean0", given["mean0"], 1)
    arguments["cov0"] = _array("GaussMarkov.cov0", given["cov0"], 2)
    arguments["allow_unstable"] = _truth("GaussMarkov.allow_unstable", given["allow_unstable"])
    model: GaussMarkov = _made("GaussMarkov", GaussMarkov, **arguments)
    for name, array in model.given.items():
        # the constructor takes a vector of the wrong length for a number per step where it wants one number
        if isinstance(array, PerStep) and type(given[name]) is not dict:
            raise StoredFileError(f"GaussMarkov.{name} has {len(array)} entries; it must have one")
    return model


def _autoregressive(plain: Plain) -> Model:
    where = "AutoRegressive"
    given = _fields(where, plain, "coefficients", "intercept", "noise", "past", "allow_unstable")
    return _made(  # type: ignore[no-any-return]  # what the constructor makes
        where,
        AutoRegressive,
        _array(f"{where}.coefficients", given["coefficients"], 3),
        _array(f"{where}.intercept", given["intercept"], 1),
        _law(given["noise"], f"{where}.noise", 0),
        _array(f"{where}.past", given["past"], 2),
        allow_unstable=_truth(f"{where}.allow_unstable", given["allow_unstable"]),
    )


def _law(plain: Any, where: str, depth: int) -> Any:
    if depth >= _DEEPEST:
        raise StoredFileError(f"{where}: laws are nested more than {_DEEPEST} deep; they must not be")
    kind = _kind(where, plain, ("Gaussian", "Scalar", "Independent", "Shifted"))
    if kind == "Gaussian":
        given = _fields(where, plain, "mean", "cov")
        axes = 1 if type(given["mean"]) is list else 0
        mean, cov = _array(f"{where}.mean", given["mean"], axes), _array(f"{where}.cov", given["cov"], 2 * axes)
        return _made(where, Gaussian, mean, cov)
    if kind == "Scalar":
        return _scalar(_fields(where, plain, "distribution", "parameters"), where)
    if kind == "Independent":
        laws = _fields(where, plain, "laws")["laws"]
        if type(laws) is not list:
            raise StoredFileError(f"{where}.laws must be a list")
        return _made(where, Independent, *(_law(law, f"{where}.laws[{i}]", depth + 1) for i, law in enumerate(laws)))
    given = _fields(where, plain, "law", "shift")
    law = _law(given["law"], f"{where}.law", depth + 1)
    shift = _numbers(f"{where}.shift", given["shift"])
    if np.ndim(shift) and np.shape(shift) != (law.dim,):
        raise StoredFileError(f"{where}.shift must be a number, or one number for each of the {law.dim} channels")
    return _made(where, Shifted, law, shift)


def _scalar(given: Plain, where: str) -> Any:
    family = _distribution(given["distribution"])
    if family is None or hasattr(family, "parameterization"):
        import scipy

        raise StoredFileError(
            f"{where}.distribution must be the name of a continuous distribution of scipy.stats; "
            f"scipy {scipy.__version__} has none of this name that can be stored"
        )
    names = _parameter_names(family)
    parameters = _fields(f"{where}.parameters", given["parameters"], *names, kind=False)
    numbers = {name: _numbers(f"{where}.parameters.{name}", parameters[name]) for name in names}
    return _made(where, lambda: Scalar(family(**numbers)))


# Checks of plain values ------------------------------------------------------------------------------


def _kind(where: str, plain: Any, kinds: Iterable[str]) -> str:
    kind = plain.get("kind") if type(plain) is dict else None
    if type(kind) is not str or kind not in kinds:
        raise StoredFileError(f"{where} must be a mapping whose kind is one of {', '.join(kinds)}")
    return kind


def _fields(where: str, plain: Any, *names: str, kind: bool = True) -> Plain:
    """The mapping, if it has exactly these fields."""
    if type(plain) is not dict:
        raise StoredFileError(f"{where} must be a mapping with the fields {', '.join(names)}")
    wanted = {*names, "kind"} if kind else {*names}
    missing = sorted(wanted - plain.keys())
    if missing:
        raise StoredFileError(f"{where} lacks the field {missing[0]!r}; it must have {', '.join(names)}")
    extra = plain.keys() - wanted
    if extra:
        # a short name is a slip to be shown; anything else in a file is not repeated
        shown = sorted(repr(key) for key in extra if type(key) is str and key.isidentifier() and len(key) <= 32)
        raise StoredFileError(
            f"{where} has a field too many{': ' + shown[0] if shown else ''}; it must have {', '.join(names)} only"
        )
    return plain


def _array(where: str, given: Any, axes: int) -> Array:
    """Finite numbers, nested `axes` deep."""
    _check_numbers(where, given, axes)
    try:
        return np.array(given, dtype=float)
    except (ValueError, OverflowError):
        raise StoredFileError(f"{where} is ragged, or has a number beyond double precision") from None


def _check_numbers(where: str, given: Any, axes: int) -> None:
    if axes:
        if type(given) is not list:
            raise StoredFileError(f"{where} must be a list, nested one deeper for each of its axes")
        for part in given:
            _check_numbers(where, part, axes - 1)
    elif type(given) not in (int, float) or (type(given) is float and not math.isfinite(given)):
        raise StoredFileError(f"{where} has an entry of type {type(given).__name__}; each must be a finite number")


def _numbers(where: str, given: Any) -> Any:
    """A number, or a vector of numbers."""
    return _array(where, given, 1 if type(given) is list else 0)[()]


def _truth(where: str, given: Any) -> bool:
    if type(given) is not bool:
        raise StoredFileError(f"{where} must be true or false")
    return given


def _made(where: str, make: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What the constructor makes; what it refuses is a fault of the file."""
    try:
        return make(*given, **named)
    except (ValueError, ArithmeticError) as error:  # ours are ValueErrors; numpy has some for numbers out of range
        raise StoredFileError(f"{where} breaks a rule: {error}") from None
