"""A design as a file: versioned JSON with a fingerprint, parameters only, never code.

The kernel is kept in whole numbers of 2^-53, as it is drawn. Models are kept as their parameters, and
beside each a probe, numbers that the model gives again; so a family that is attached later, because its
models hold functions, can be told from another. Whatever a file claims is worked out again on loading:
the leakage and the distortion of its kernel, and that the budget is kept.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from understudy.distortion.cost import Costs
from understudy.errors import ConfigurationError, StoredFileError
from understudy.laws.base import Array
from understudy.models.family import Family
from understudy.models.fingerprint import probe, same_probe
from understudy.models.keys import value_from_plain, value_to_plain
from understudy.models.stored import family_from_plain, family_to_plain
from understudy.randomizer import document
from understudy.randomizer.interior import information
from understudy.randomizer.result import Design
from understudy.randomizer.sampler import BITS, Randomizer

KIND, VERSION = "design", 1

_NUMBERS = ("distortion", "lower_bound", "gap", "leakage", "budget", "slope", "distortion_error")
_FIELDS = {"values", "pseudo", "kernel", "prior", "cost", "numbers", "demand", "status", "iterations"}
_WORDS = {"infinite": math.inf, "undefined": math.nan}


def save(design: Design, path: str | os.PathLike[str], models: bool = True) -> str:
    """Write a design; see `Design.save`."""
    name, value = design.demand
    content = {
        "values": [value_to_plain(value) for value in design.values],
        "pseudo": [value_to_plain(value) for value in design.pseudo],
        "kernel": design.randomizer.counts.tolist(),
        "prior": design.prior.tolist(),
        "cost": [[_plain(x) for x in row] for row in design.cost.tolist()],
        "numbers": {name: _plain(getattr(design, name)) for name in _NUMBERS},
        "demand": [name, value if isinstance(value, str) else _plain(float(value))],
        "status": design.status,
        "iterations": design.iterations,
        "costs": None if design.costs is None else _plain_costs(design.costs),
        "family": None,
        "probes": None,
    }
    if design.family is not None:
        members = (*design.values, *design.pseudo)
        content["probes"] = [probe(design.family.model(value)) for value in members]
        if models:
            content["family"] = family_to_plain(design.family, design.pseudo)
    return document.write(path, content, KIND, VERSION)


def load_design(path: str | os.PathLike[str], family: Family | None = None) -> Design:
    """Read a design that `Design.save` wrote, and check it.

    A `family` is wanted where the file holds no models, and takes their place where it does; it must be the one
    that the design was made for.

    >>> import os, tempfile
    >>> import understudy as us
    >>> family = us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 1.0))})
    >>> made = us.design(family, leakage=0.3, distortion="mae")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = made.save(os.path.join(folder, "room.json"))
    ...     loaded = us.load_design(os.path.join(folder, "room.json"))
    >>> loaded
    Design(2 x 2, distortion=0.400758, leakage=0.3, optimal)
    >>> bool((loaded.randomizer.kernel == made.randomizer.kernel).all())
    True
    """
    content = document.read(path, KIND, [VERSION])
    missing = sorted((_FIELDS | {"costs", "family", "probes"}) - content.keys())
    if missing:
        raise StoredFileError(f"{os.fspath(path)!s}: the design has no field {missing[0]!r}; the file is incomplete")
    try:
        return _design(content, family)
    except StoredFileError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, ConfigurationError) as error:
        # never the content: only which kind of thing was wrong
        raise StoredFileError(
            f"{os.fspath(path)!s}: the design does not hold together ({type(error).__name__}); "
            "it was not written by this program, or by another version of it"
        ) from None


def _design(content: dict[str, Any], family: Family | None) -> Design:
    values = [value_from_plain(value) for value in content["values"]]
    pseudo = [value_from_plain(value) for value in content["pseudo"]]
    prior = _matrix("prior", content["prior"], (len(values),))
    cost = _matrix("cost", content["cost"], (len(values), len(pseudo)))
    kernel = _kernel(content["kernel"], cost.shape)
    numbers = {name: _number(name, content["numbers"][name]) for name in _NUMBERS}
    _check_claims(kernel, prior, cost, numbers)
    name, value = content["demand"]
    attached = _family(content, values, pseudo, family)
    if attached is not None and not np.array_equal(attached.prior, prior):
        raise StoredFileError("the family has another prior than the design was made for")
    for array in (prior, cost):
        array.flags.writeable = False
    status, iterations = content["status"], content["iterations"]
    if status not in ("optimal", "inexact") or type(iterations) is not int or type(name) is not str:
        raise StoredFileError("status, iterations or demand is not what a design holds")
    return Design(
        Randomizer(kernel, values, pseudo),
        prior=prior,
        cost=cost,
        demand=(name, value if type(value) is str and value not in _WORDS else _number("demand", value)),
        status=status,
        iterations=iterations,
        family=attached,
        costs=None if content["costs"] is None else _costs(content["costs"], cost, values, pseudo),
        **numbers,
    )


def _kernel(counts: Any, shape: tuple[int, ...]) -> Array:
    rows = [[x if type(x) is int else -1 for x in row] for row in counts]
    if any(min(row, default=-1) < 0 or sum(row) != 1 << BITS for row in rows):
        raise StoredFileError("kernel must hold whole numbers that sum to 2^53 in each row")
    return _matrix("kernel", [[x / (1 << BITS) for x in row] for row in rows], shape)


def _check_claims(kernel: Array, prior: Array, cost: Array, numbers: dict[str, Any]) -> None:
    leakage = information(prior, np.ascontiguousarray(kernel).reshape(-1))
    used = kernel > 0.0
    distortion = float((prior[:, None] * kernel)[used] @ cost[used])
    if not math.isclose(leakage, numbers["leakage"], rel_tol=1e-9, abs_tol=1e-30):
        raise StoredFileError("leakage is not that of the kernel; the file was not written by this program")
    if not math.isclose(distortion, numbers["distortion"], rel_tol=1e-9, abs_tol=1e-300):
        raise StoredFileError("distortion is not that of the kernel and the costs")
    if numbers["budget"] is not None and leakage > numbers["budget"] * (1.0 + 1e-14):
        raise StoredFileError("the kernel gives away more than its budget")
    if not numbers["lower_bound"] <= numbers["distortion"]:
        raise StoredFileError("lower_bound is above distortion")


def _family(content: dict[str, Any], values: list[Any], pseudo: list[Any], family: Family | None) -> Family | None:
    probes = content["probes"]
    if probes is None:
        if family is not None:
            raise StoredFileError("the design was made from bare costs; there is no family to attach")
        return None
    if family is None:
        if content["family"] is None:
            raise StoredFileError(
                "the design was saved without its models; give the family that it was made for: "
                "load_design(path, family=...)"
            )
        family = family_from_plain(content["family"])
    if len(family.values) != len(values) or not all(map(_same, family.values, values)):
        raise StoredFileError("the family has other values than the design was made for")
    members = [*values, *pseudo]
    if len(probes) != len(members):
        raise StoredFileError("probes must hold one entry for each value and pseudo value")
    for position, (value, expected) in enumerate(zip(members, probes, strict=True)):
        if not same_probe(probe(family.model(value)), expected):
            where = f"value {position}" if position < len(values) else f"pseudo value {position - len(values)}"
            raise StoredFileError(f"the model of {where} is not the one that the design was made for")
    return family


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(np.array_equal(a, b))


def _plain_costs(costs: Costs) -> dict[str, Any]:
    groups = costs._groups
    return {
        "error": [[_plain(x) for x in row] for row in costs.error.tolist()],
        "method": costs.method.tolist(),
        "groups": None if groups is None else [[[_plain(x) for x in row] for row in g] for g in groups.tolist()],
        "mean_reading": _plain(float(costs.mean_reading)),
        "mean_reading_error": _plain(float(costs.mean_reading_error)),
        "horizon": costs.horizon,
        "distortion": costs.distortion,
        "replications": costs.replications,
    }


def _costs(plain: dict[str, Any], matrix: Array, values: list[Any], pseudo: list[Any]) -> Costs:
    groups = plain["groups"]
    choices = {"horizon": plain["horizon"], "distortion": plain["distortion"], "replications": plain["replications"]}
    return Costs(
        matrix,
        _matrix("costs.error", plain["error"], matrix.shape),
        np.array(plain["method"], dtype=str),
        None if groups is None else _matrix("costs.groups", groups, (len(groups), *matrix.shape)),
        (_number("mean_reading", plain["mean_reading"]), _number("mean_reading", plain["mean_reading_error"])),
        choices | {"values": tuple(values), "pseudo": tuple(pseudo)},
    )


def _plain(x: float | None) -> float | str | None:
    if x is None or math.isfinite(x):
        return x
    return "undefined" if math.isnan(x) else "infinite"


def _number(name: str, x: Any) -> Any:
    if type(x) is str and x in _WORDS:
        return _WORDS[x]
    if x is None and name == "budget":
        return None
    if type(x) not in (int, float):
        raise StoredFileError(f"{name} must be a number")
    return float(x)


def _matrix(name: str, rows: Any, shape: tuple[int, ...]) -> Array:
    def inner(part: Any) -> Any:
        return [inner(x) for x in part] if type(part) is list else _number(name, part)

    try:
        array = np.array(inner(rows), dtype=float)
    except ValueError:
        raise StoredFileError(f"{name} is ragged; it must have the shape {shape}") from None
    if array.shape != tuple(shape):
        raise StoredFileError(f"{name} has the shape {array.shape}; it must be {shape}")
    return array
