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

Checks of plain JSON values: what a stored file must hold before a constructor sees it.

A file may come from anywhere, so nothing in it is believed: types are the very ones that JSON gives, fields
are exactly those that are asked for, numbers are finite. What is wrong is named by its place; what stands in
the file is not repeated.

Laws as plain JSON values, and back: parameters under the names of the constructor, never code.

Laws stand inside laws (a mixture of mixtures), to a depth of eight: the bound keeps a hostile file from
exhausting the stack. What is stored is what the constructor was given or made of it, such that it makes
the same numbers of it again, bit for bit.

Values of a parameter as plain JSON values, and back.

The values theta of a family are what a stored design is asked with later, so each comes back as
the kind of value it was: 1 stays a whole number, 1.0 a float, a tuple a tuple. Numbers, strings,
truth values and None stand for themselves. What JSON has no form for is tagged::

    (0, "door")            {"tuple": [0, "door"]}
    np.array([0.5, 1.0])   {"array": [0.5, 1.0], "dtype": "float64", "shape": [2]}

A numpy number becomes a Python one: they are equal, and a family takes one for the other. Anything
else is refused, because to bring it back would need code, and a file never names code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from understudy._types import Array
from understudy.errors import FamilyError, ModelError, StoredFileError
from understudy.laws.atoms import Atoms
from understudy.laws.gaussian import Gaussian
from understudy.laws.mixture import Mixture
from understudy.laws.multivariate import GaussianCopula, GaussianMixture, Independent
from understudy.laws.scalar import Scalar, Shifted
from understudy.models.autoregressive import AutoRegressive
from understudy.models.family import Family, _key
from understudy.models.gauss_markov import GaussMarkov, PerStep
from understudy.models.general import General
from understudy.models.hidden_markov import HiddenMarkov
from understudy.models.iid_markov import IID, Markov
from understudy.models.model import Model
from understudy.models.nonlinear import Nonlinear
from understudy.models.on_grid import OnGrid
from understudy.models.quantised import METHODS, Quantised

# Checks of plain JSON values: what a stored file must hold before a constructor sees it --------------


_T = TypeVar("_T")

Plain = dict[str, Any]


def kind_of(where: str, plain: Any, kinds: Iterable[str]) -> str:
    """The kind of a mapping, if it is one of these.

    >>> kind_of("law", {"kind": "Atoms"}, ("Atoms", "Gaussian"))
    'Atoms'
    """
    kind = plain.get("kind") if type(plain) is dict else None
    if type(kind) is not str or kind not in kinds:
        raise StoredFileError(f"{where} must be a mapping whose kind is one of {', '.join(kinds)}")
    return kind


def fields(where: str, plain: Any, *names: str, kind: bool = True) -> Plain:
    """The mapping, if it has exactly these fields (and, unless said otherwise, a kind)."""
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


def entries(where: str, given: Any) -> list[Any]:
    """A list, of anything."""
    if type(given) is not list:
        raise StoredFileError(f"{where} must be a list")
    return given


def array(where: str, given: Any, axes: int) -> Array:
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


def numbers(where: str, given: Any) -> Any:
    """A number, or a vector of numbers."""
    return array(where, given, 1 if type(given) is list else 0)[()]


def truth(where: str, given: Any) -> bool:
    """True or False."""
    if type(given) is not bool:
        raise StoredFileError(f"{where} must be true or false")
    return given


def made(where: str, make: Callable[..., _T], *given: Any, **named: Any) -> _T:
    """What the constructor makes; what it refuses is a fault of the file."""
    try:
        return make(*given, **named)
    except (ValueError, ArithmeticError) as error:  # ours are ValueErrors; numpy has some for numbers out of range
        raise StoredFileError(f"{where} breaks a rule: {error}") from None


# Laws as plain JSON values, and back: parameters under the names of the constructor, never code ------


WAY_OUT = "save without models, and re-attach them with load_design(path, family=...)"
"""What to do with a model that cannot be stored."""

DEEPEST = 8
"""Laws inside laws."""


def law_to_plain(law: Any, where: str, depth: int = 0) -> Plain:
    """The law as JSON can hold it; `where` is its place in the model, for the message of a refusal.

    >>> law_to_plain(Atoms([400.0, 405.0], [0.25, 0.75]), "law")
    {'kind': 'Atoms', 'values': [400.0, 405.0], 'probabilities': [0.25, 0.75]}
    """
    if depth >= DEEPEST:
        raise ModelError(f"{where}: laws are nested more than {DEEPEST} deep; {WAY_OUT}")
    # the very type: a subclass may do anything, and would come back without it
    plain = _TO_stored_laws.get(type(law))
    if plain is None:
        *kinds, last = (kind.__name__ for kind in _TO_stored_laws)
        raise ModelError(
            f"{where} is of type {type(law).__name__}; only {', '.join(kinds)} and {last} laws can be stored: {WAY_OUT}"
        )
    return {"kind": type(law).__name__, **plain(law, where, depth + 1)}


def law_from_plain(plain: Any, where: str, depth: int = 0) -> Any:
    """The law that `law_to_plain` was given, made anew by its constructor.

    >>> law_from_plain({"kind": "Gaussian", "mean": 5.0, "cov": 4.0}, "law").score(9.0)
    2.0
    """
    if depth >= DEEPEST:
        raise StoredFileError(f"{where}: laws are nested more than {DEEPEST} deep; they must not be")
    return _FROM_stored_laws[kind_of(where, plain, _FROM_stored_laws)](plain, where, depth + 1)


def laws_to_plain(laws: Any, where: str, depth: int = 0) -> list[Plain]:
    """Several laws, each named by its position."""
    return [law_to_plain(law, f"{where}[{i}]", depth) for i, law in enumerate(laws)]


def laws_from_plain(plain: Any, where: str, depth: int = 0) -> list[Any]:
    """The laws that `laws_to_plain` was given."""
    return [law_from_plain(law, f"{where}[{i}]", depth) for i, law in enumerate(entries(where, plain))]


# To plain values ---------------------------------------------------------------------------------------


def _plain_gaussian(law: Gaussian, where: str, depth: int) -> Plain:
    mean, cov = law.given
    return {"mean": np.asarray(mean).tolist(), "cov": np.asarray(cov).tolist()}


def _plain_scalar(law: Scalar, where: str, depth: int) -> Plain:
    dist = law.dist
    family: Any = getattr(dist, "dist", None)
    name = getattr(family, "name", None)
    named = _distribution(name)
    # a class of the user's, one of scipy's with another support, or one with a switch outside its parameters
    own = named is None or type(family) is not type(named) or (family.a, family.b) != (named.a, named.b)
    if own or hasattr(named, "parameterization"):
        shown = name if named is not None else type(dist).__name__
        raise ModelError(
            f"{where} is a distribution ({shown}) that its name and its parameters do not tell; "
            f"of a Scalar law, only a frozen distribution that scipy.stats has under a name can be stored: {WAY_OUT}"
        )
    names = _parameter_names(named)
    given = {"loc": 0.0, "scale": 1.0, **dict(zip(names, dist.args, strict=False)), **dist.kwds}
    return {"distribution": name, "parameters": {key: _parameter(f"{where}.{key}", given[key]) for key in names}}


def _plain_shifted(law: Shifted, where: str, depth: int) -> Plain:
    return {"law": law_to_plain(law.law, f"{where}.law", depth), "shift": _parameter(f"{where}.shift", law.shift)}


def _plain_independent(law: Independent, where: str, depth: int) -> Plain:
    return {"laws": laws_to_plain(law.laws, f"{where}.laws", depth)}


def _plain_atoms(law: Atoms, where: str, depth: int) -> Plain:
    return {"values": law.values.tolist(), "probabilities": law.probabilities.tolist()}


def _plain_mixture(law: Mixture, where: str, depth: int) -> Plain:
    weights, laws = _given(law)
    return {"weights": list(weights), "laws": laws_to_plain(laws, f"{where}.laws", depth)}


def _plain_gaussian_mixture(law: GaussianMixture, where: str, depth: int) -> Plain:
    weights, means, covs = _given(law)
    return {"weights": list(weights), "means": means.tolist(), "covs": covs.tolist()}


def _plain_copula(law: GaussianCopula, where: str, depth: int) -> Plain:
    return {"correlation": law.correlation.tolist(), "laws": laws_to_plain(law.laws, f"{where}.laws", depth)}


def _given(law: Any) -> Any:
    """The arguments that make the same law again, bit for bit: weights before they are divided by their sum."""
    return law.__reduce__()[1]


_TO_stored_laws: dict[type, Callable[[Any, str, int], Plain]] = {
    Gaussian: _plain_gaussian,
    Scalar: _plain_scalar,
    Independent: _plain_independent,
    Shifted: _plain_shifted,
    Atoms: _plain_atoms,
    Mixture: _plain_mixture,
    GaussianMixture: _plain_gaussian_mixture,
    GaussianCopula: _plain_copula,
}


def _parameter(where: str, given: Any) -> Any:
    """A number or a vector of numbers, as the constructor will read it again."""
    try:
        found = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{where} is of type {type(given).__name__}; it must be a number or a vector") from None
    if found.ndim > 1 and found.size != 1:
        raise ModelError(f"{where} has shape {found.shape}; it must be a number or a vector")
    if not np.isfinite(found).all():
        raise ModelError(f"{where} has an entry that is not finite; every number that is stored must be")
    return found.item() if found.size == 1 else found.tolist()


def _distribution(name: Any) -> Any:
    """The continuous distribution that scipy.stats has under this name, or None: a list, not an import."""
    import scipy.stats

    found = vars(scipy.stats).get(name) if type(name) is str else None
    return found if isinstance(found, scipy.stats.rv_continuous) and found.name == name else None


def _parameter_names(family: Any) -> list[str]:
    return [*(family.shapes.replace(",", " ").split() if family.shapes else []), "loc", "scale"]


# From plain values -------------------------------------------------------------------------------------


def _gaussian(plain: Plain, where: str, depth: int) -> Any:
    given = fields(where, plain, "mean", "cov")
    axes = 1 if type(given["mean"]) is list else 0
    mean, cov = array(f"{where}.mean", given["mean"], axes), array(f"{where}.cov", given["cov"], 2 * axes)
    return made(where, Gaussian, mean, cov)


def _scalar(plain: Plain, where: str, depth: int) -> Any:
    given = fields(where, plain, "distribution", "parameters")
    family = _distribution(given["distribution"])
    if family is None or hasattr(family, "parameterization"):
        import scipy

        raise StoredFileError(
            f"{where}.distribution must be the name of a continuous distribution of scipy.stats; "
            f"scipy {scipy.__version__} has none of this name that can be stored"
        )
    names = _parameter_names(family)
    parameters = fields(f"{where}.parameters", given["parameters"], *names, kind=False)
    values = {name: numbers(f"{where}.parameters.{name}", parameters[name]) for name in names}
    return made(where, lambda: Scalar(family(**values)))


def _independent(plain: Plain, where: str, depth: int) -> Any:
    laws = laws_from_plain(fields(where, plain, "laws")["laws"], f"{where}.laws", depth)
    return made(where, Independent, *laws)


def _shifted(plain: Plain, where: str, depth: int) -> Any:
    given = fields(where, plain, "law", "shift")
    law = law_from_plain(given["law"], f"{where}.law", depth)
    shift = numbers(f"{where}.shift", given["shift"])
    if np.ndim(shift) and np.shape(shift) != (law.dim,):
        raise StoredFileError(f"{where}.shift must be a number, or one number for each of the {law.dim} channels")
    return made(where, Shifted, law, shift)


def _atoms(plain: Plain, where: str, depth: int) -> Any:
    given = fields(where, plain, "values", "probabilities")
    return made(where, Atoms, *(array(f"{where}.{name}", given[name], 1) for name in ("values", "probabilities")))


def _mixture(plain: Plain, where: str, depth: int) -> Any:
    given = fields(where, plain, "weights", "laws")
    weights = array(f"{where}.weights", given["weights"], 1)
    return made(where, Mixture, weights, laws_from_plain(given["laws"], f"{where}.laws", depth))


def _gaussian_mixture(plain: Plain, where: str, depth: int) -> Any:
    axes = {"weights": 1, "means": 2, "covs": 3}
    given = fields(where, plain, *axes)
    return made(where, GaussianMixture, *(array(f"{where}.{name}", given[name], axes[name]) for name in axes))


def _copula(plain: Plain, where: str, depth: int) -> Any:
    given = fields(where, plain, "correlation", "laws")
    correlation = array(f"{where}.correlation", given["correlation"], 2)
    return made(where, GaussianCopula, correlation, laws_from_plain(given["laws"], f"{where}.laws", depth))


_FROM_stored_laws: dict[str, Callable[[Plain, str, int], Any]] = {
    "Gaussian": _gaussian,
    "Scalar": _scalar,
    "Independent": _independent,
    "Shifted": _shifted,
    "Atoms": _atoms,
    "Mixture": _mixture,
    "GaussianMixture": _gaussian_mixture,
    "GaussianCopula": _copula,
}


# Values of a parameter as plain JSON values, and back ------------------------------------------------


_RULE = "a value that is stored is a number, a string, True, False, None, a tuple of these, or an array of numbers"
_DTYPES = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)
# Deep enough for any parameter; the bound keeps a hostile file from exhausting the stack.
_DEEPEST = 8
_LARGEST = 2**64
_MOST_AXES = 32


def value_to_plain(value: Any) -> Any:
    """The parameter value as JSON can hold it.

    >>> import numpy as np
    >>> value_to_plain((1, 1.0, "door"))
    {'tuple': [1, 1.0, 'door']}
    >>> value_to_plain(np.float64(0.5))
    0.5
    """
    return _plain(value, 0)


def value_from_plain(plain: Any) -> Any:
    """The parameter value that `value_to_plain` was given; an array is read-only.

    >>> value_from_plain({"tuple": [1, 1.0, "door"]})
    (1, 1.0, 'door')
    """
    return _value(plain, 0)


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, np.generic):
        if value.dtype.name not in _DTYPES and value.dtype.kind != "U":
            raise _refused(value)
        value = value.item()
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        if abs(value) >= _LARGEST:
            raise FamilyError("a value is a whole number of more than 64 bits; such a number cannot be stored")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise FamilyError(f"the value {value!r} cannot be stored; a number must be finite")
        return value
    if type(value) is tuple and depth < _DEEPEST:
        return {"tuple": [_plain(part, depth + 1) for part in value]}
    if type(value) is np.ndarray and depth == 0:  # a tuple with an array inside has no hash
        return _plain_array(value)
    raise _refused(value)


def _plain_array(array: Any) -> dict[str, Any]:
    if array.dtype.name not in _DTYPES:
        raise FamilyError(f"a value is an array of {array.dtype}; {_RULE}")
    if not np.isfinite(array).all():
        raise FamilyError("a value is an array with an entry that is not finite; every entry must be, to be stored")
    return {"array": array.ravel().tolist(), "dtype": array.dtype.name, "shape": list(array.shape)}


def _refused(value: Any) -> FamilyError:
    deep = f" nested more than {_DEEPEST} deep" if type(value) is tuple else ""
    return FamilyError(f"a value is of type {type(value).__name__}{deep}; {_RULE}")


def _value(plain: Any, depth: int) -> Any:
    if plain is None or type(plain) in (bool, str):
        return plain
    if type(plain) is int and abs(plain) < _LARGEST:
        return plain
    if type(plain) is float and math.isfinite(plain):
        return plain
    if type(plain) is dict and depth < _DEEPEST and plain.keys() == {"tuple"} and type(plain["tuple"]) is list:
        return tuple(_value(part, depth + 1) for part in plain["tuple"])
    if type(plain) is dict and depth == 0 and plain.keys() == {"array", "dtype", "shape"}:
        return _array(plain["array"], plain["dtype"], plain["shape"])
    raise StoredFileError(f"the stored file holds a {type(plain).__name__} in the place of a value; {_RULE}")


def _array(entries: Any, dtype: Any, shape: Any) -> Any:
    if type(dtype) is not str or dtype not in _DTYPES:
        raise StoredFileError(f"dtype of a stored array must be one of {', '.join(sorted(_DTYPES))}")
    if type(shape) is not list or len(shape) > _MOST_AXES or not all(type(n) is int and n >= 0 for n in shape):
        raise StoredFileError(
            f"shape of a stored array must be a list of at most {_MOST_AXES} whole numbers, 0 or more"
        )
    wanted = {"b": bool, "i": int, "u": int, "f": float}[np.dtype(dtype).kind]
    if type(entries) is not list or not all(type(entry) is wanted for entry in entries):
        raise StoredFileError(f"array must be a list with entries of type {wanted.__name__}, as its dtype says")
    if math.prod(shape) != len(entries):
        raise StoredFileError(f"a stored array has {len(entries)} entries, which do not fill its shape")
    try:
        with np.errstate(over="ignore"):
            array = np.array(entries, dtype=dtype).reshape(shape)
    except (OverflowError, ValueError):
        raise StoredFileError(f"a stored array has an entry or a shape that does not fit its dtype {dtype}") from None
    if not np.isfinite(array).all() or array.ravel().tolist() != entries:
        raise StoredFileError(
            f"a stored array has an entry that {dtype} cannot hold; every entry must be finite and exact"
        )
    array.flags.writeable = False
    return array


# Models and families as plain JSON values, and back --------------------------------------------------


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
