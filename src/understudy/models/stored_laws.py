"""Laws as plain JSON values, and back: parameters under the names of the constructor, never code.

Laws stand inside laws (a mixture of mixtures), to a depth of eight: the bound keeps a hostile file from
exhausting the stack. What is stored is what the constructor was given or made of it, such that it makes
the same numbers of it again, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from understudy.errors import ModelError, StoredFileError
from understudy.laws.atoms import Atoms
from understudy.laws.copula import GaussianCopula
from understudy.laws.gaussian import Gaussian
from understudy.laws.gaussian_mixture import GaussianMixture
from understudy.laws.independent import Independent
from understudy.laws.mixture import Mixture
from understudy.laws.scalar import Scalar
from understudy.laws.shifted import Shifted
from understudy.models.plain import Plain, array, entries, fields, kind_of, made, numbers

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
    plain = _TO.get(type(law))
    if plain is None:
        *kinds, last = (kind.__name__ for kind in _TO)
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
    return _FROM[kind_of(where, plain, _FROM)](plain, where, depth + 1)


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


_TO: dict[type, Callable[[Any, str, int], Plain]] = {
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


_FROM: dict[str, Callable[[Plain, str, int], Any]] = {
    "Gaussian": _gaussian,
    "Scalar": _scalar,
    "Independent": _independent,
    "Shifted": _shifted,
    "Atoms": _atoms,
    "Mixture": _mixture,
    "GaussianMixture": _gaussian_mixture,
    "GaussianCopula": _copula,
}
