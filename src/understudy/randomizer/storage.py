"""A design as a file: versioned JSON with a fingerprint, parameters only, never code.

The kernel is kept in whole numbers of 2^-53, as it is drawn. Models are kept as their parameters, and
beside each a probe, numbers that the model gives again; so a family that is attached later, because its
models hold functions, can be told from another (as far as a probe sees: `models.probe`).

Of what a file says, the kernel, the prior, the costs and the demand are taken; the certificate is worked out
again on loading, by solving the problem anew, and a file that claims anything else is refused. The costs
are taken as they stand: that they are those of the models is not checked. So is what approximate models are
charged with, which takes long to find; but models that need a charge and a file without one do not go together.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy._types import Array
from understudy.distortion.costs import EXACT, MONTE_CARLO, QUADRATURE, Costs
from understudy.errors import ConfigurationError, StoredFileError
from understudy.models.family import Family
from understudy.models.probe import probe, same_probe
from understudy.randomizer.constrained_design import (
    Asked,
    constraints_from_plain,
    constraints_to_plain,
    solved_with,
    with_stored_kernel,
)
from understudy.randomizer.design import Design, solved, total, with_terms
from understudy.randomizer.measures import bayes_error
from understudy.randomizer.randomizer import BITS, Randomizer
from understudy.randomizer.residual import Charge, is_approximate, rounded_up
from understudy.randomizer.solver import as_cost, as_prior, information
from understudy.serialize import Document, kind_of_file, read, value_from_plain, value_to_plain, write
from understudy.stream.release import Terms

if TYPE_CHECKING:
    from understudy.randomizer.causal import CausalDesign


# A design as a file: versioned JSON with a fingerprint, parameters only, never code ------------------


KIND, VERSION = "design", 2
VERSIONS = (1, 2)
"""That are read; version 1, of understudy 0.1, says nothing about the release: the default serves."""

_NUMBERS = (
    "distortion", "lower_bound", "gap", "leakage", "leakage_lower_bound", "budget", "slope", "distortion_error",
)  # fmt: skip
_FIELDS = {
    "values", "pseudo", "kernel", "prior", "cost", "numbers", "demand", "status", "iterations",
    "costs", "family", "probes", "release",
}  # fmt: skip
# only where there is one, so that files of exact models are what they always were
_OPTIONAL = {"charge", "constraints"}
_CHARGE = {"charged", "total", "variation", "horizon", "how"}
_LONGEST = 500
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
            content["family"] = design.family.to_dict(design.pseudo)
    if design.charge is not None:
        content["charge"] = _plain_charge(design.charge)
    if design.constraints:
        content["constraints"] = constraints_to_plain(design.constraints)
    content["release"] = plain_release(design)
    return write(path, content, KIND, VERSION)


def load_design(path: str | os.PathLike[str], family: Family | None = None) -> Design | CausalDesign:
    """Read a design that `Design.save` or `CausalDesign.save` wrote, and check it.

    Where the file holds no models, `family` attaches them, and without it the design has none: its randomizer and its
    guarantee are there, its streams are not. Where the file holds models, a family takes their place. It must be the
    one that the design was made for, which is checked as far as a probe of its models can.

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
    kind = kind_of_file(path)
    if kind == "causal design":
        from understudy.randomizer.causal import load_causal

        return load_causal(path, family)
    if kind == "robust design":
        from understudy.randomizer.robust import load_robust

        return load_robust(path, family)
    content = with_release(read(path, KIND, VERSIONS))
    if content.keys() - _OPTIONAL != _FIELDS:
        raise StoredFileError(f"{os.fspath(path)!s}: the fields are not those of a design")
    with holding_together(path):
        return _design(content, family)


@contextmanager
def holding_together(path: str | os.PathLike[str]) -> Iterator[None]:
    """Refuse a file whose parts do not fit: which kind of thing was wrong is told, never the content."""
    try:
        yield
    except StoredFileError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, ConfigurationError) as error:
        raise StoredFileError(
            f"{os.fspath(path)!s}: the design does not hold together ({type(error).__name__}); "
            "it was not written by this program, or by another version of it"
        ) from None


def _design(content: dict[str, Any], family: Family | None) -> Design:
    values = [value_from_plain(value) for value in _list("values", content["values"])]
    pseudo = [value_from_plain(value) for value in _list("pseudo", content["pseudo"])]
    cost = as_cost(_matrix("cost", content["cost"], (len(values), len(pseudo))))
    prior = as_prior(_matrix("prior", content["prior"], (len(values),)), len(values))
    kernel = _kernel(content["kernel"], cost.shape)
    attached = _family(content, values, pseudo, family)
    if attached is not None and not np.array_equal(attached.prior, prior):
        raise StoredFileError("the family has another prior than the design was made for")
    found = None if content["costs"] is None else _costs(content["costs"], cost, values, pseudo)
    leak = _charge(content.get("charge"), prior, attached, found)
    demand, stored = _demand(content["demand"]), Randomizer(kernel, values, pseudo)
    if "constraints" in content:
        beside = constraints_from_plain(content["constraints"])
        asked = Asked(demand, beside, leak)
        made = with_stored_kernel(solved_with(cost, prior, asked, attached, found), stored)
    else:
        made = _with_kernel(solved(cost, prior, demand, attached, found, leak), stored)
    for name in _NUMBERS:
        claim, truth = _number(name, content["numbers"][name]), getattr(made, name)
        scale = made.distortion - made.lower_bound if name == "gap" else 0.0
        if made.constraints and name == "slope":
            continue  # known to fewer digits than the rest, and no part of a proof
        if not _agree(claim, truth, scale):
            raise StoredFileError(f"{name} is not what the kernel, the prior and the costs give")
    if content["status"] != made.status or type(content["iterations"]) is not int:
        raise StoredFileError("status or iterations is not what the kernel, the prior and the costs give")
    return with_terms(made, terms_of(content, attached))


def plain_release(design: Any) -> dict[str, Any] | None:
    """The release of a design as a file keeps it; None where there are no models to release anything."""
    return None if design.family is None else design.release.to_plain()


def with_release(found: Document) -> dict[str, Any]:
    """The content of a file; one of version 1 has nothing about the release."""
    return {"release": None, **found.content} if found.version == 1 else found.content


def terms_of(content: dict[str, Any], family: Family | None) -> Terms:
    """What a file says about the readings that leave and come in."""
    plain = content["release"]
    if plain is None or family is None:
        return Terms()
    if plain.keys() != {"resolution", "readings", "valid"}:
        raise StoredFileError("release must say resolution, readings and valid")
    return Terms(plain["resolution"], plain["readings"], tuple(plain["valid"]))


def _demand(given: Any) -> tuple[str, Any]:
    name, value = given
    if name not in ("leakage", "error_at_least", "distortion_at_most"):
        raise StoredFileError("demand must be of leakage, error_at_least or distortion_at_most")
    return name, value if type(value) is str and value not in _WORDS else _number("demand", value)


def _with_kernel(fresh: Design, stored: Randomizer) -> Design:
    """The design with the stored kernel, which another machine may have rounded otherwise, if it keeps the demand."""
    if np.array_equal(fresh.randomizer.kernel, stored.kernel):
        return replace(fresh, randomizer=stored)
    used = (stored.kernel > 0.0) & (fresh.prior[:, None] > 0.0)
    distortion = float((fresh.prior[:, None] * stored.kernel)[used] @ fresh.cost[used])
    leakage = information(fresh.prior, np.ascontiguousarray(stored.kernel).reshape(-1))
    spent = total(leakage, fresh.charge)
    budget = spent if fresh.demand[0] == "distortion_at_most" else fresh.budget
    name, wanted = fresh.demand
    error = 0.0
    if name == "error_at_least":
        moved = 0.0 if fresh.charge is None else fresh.charge.variation
        error = rounded_up(Fraction(wanted) + Fraction(moved))
    if (
        not math.isclose(distortion, fresh.distortion, rel_tol=1e-8, abs_tol=1e-300)
        or (budget is not None and spent > budget)
        or (name == "distortion_at_most" and distortion > wanted * (1.0 + 1e-15))
        or (name == "error_at_least" and bayes_error(fresh.prior, stored.kernel) < error * (1.0 - 1e-15))
    ):
        raise StoredFileError("the kernel is not a solution for the prior, the costs and the demand")
    gap = max(distortion - fresh.lower_bound, 0.0)
    return replace(fresh, randomizer=stored, distortion=distortion, leakage=leakage, budget=budget, gap=gap)


def _agree(claim: Any, truth: Any, scale: float) -> bool:
    if claim is None or truth is None:
        return claim is truth
    if math.isnan(claim) or math.isnan(truth):
        return math.isnan(claim) and math.isnan(truth)
    return math.isclose(claim, truth, rel_tol=1e-6, abs_tol=1e-12 * abs(truth) + abs(scale) + 1e-30)


def _list(name: str, given: Any) -> list[Any]:
    if type(given) is not list:
        raise StoredFileError(f"{name} must be a list")
    return given


def _kernel(counts: Any, shape: tuple[int, ...]) -> Array:
    rows = [[x if type(x) is int else -1 for x in _list("kernel", row)] for row in _list("kernel", counts)]
    if any(min(row, default=-1) < 0 or sum(row) != 1 << BITS for row in rows):
        raise StoredFileError("kernel must hold whole numbers that sum to 2^53 in each row")
    return _matrix("kernel", [[x / (1 << BITS) for x in row] for row in rows], shape)


def _family(content: dict[str, Any], values: list[Any], pseudo: list[Any], family: Family | None) -> Family | None:
    probes = content["probes"]
    if probes is None:
        if family is not None:
            raise StoredFileError("the design was made from bare costs; there is no family to attach")
        return None
    if family is None:
        if content["family"] is None:
            return None
        family = Family.from_dict(content["family"])
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
    method = np.array(plain["method"], dtype=str)
    horizon, replications = plain["horizon"], plain["replications"]
    if (
        method.shape != matrix.shape
        or not np.isin(method, (EXACT, QUADRATURE, MONTE_CARLO)).all()
        or not (horizon is None or (type(horizon) is int and horizon > 0))
        or not (type(replications) is int and replications >= 0 and type(plain["distortion"]) is str)
    ):
        raise StoredFileError("costs does not say how the costs were found")
    choices = {"horizon": plain["horizon"], "distortion": plain["distortion"], "replications": plain["replications"]}
    return Costs(
        matrix,
        _matrix("costs.error", plain["error"], matrix.shape),
        method,
        None if groups is None else _matrix("costs.groups", groups, (len(groups), *matrix.shape)),
        (_number("mean_reading", plain["mean_reading"]), _number("mean_reading", plain["mean_reading_error"])),
        choices | {"values": tuple(values), "pseudo": tuple(pseudo)},
    )


def _plain_charge(charge: Charge) -> dict[str, Any]:
    return {
        "charged": [_plain(x) for x in charge.charged],
        "total": charge.total,
        "variation": charge.variation,
        "horizon": charge.horizon,
        "how": charge.how,
    }


def _charge(plain: Any, prior: Array, family: Family | None, found: Costs | None) -> Charge | None:
    """What the models are charged with, if the file says so and they are what it says."""
    there = (prior > 0.0).tolist()
    models = [] if family is None else [family.model(value) for value in family.values]
    approximate = [is_approximate(model) for model in models]
    if plain is None:
        if any(a and b for a, b in zip(approximate, there, strict=bool(models))):
            raise StoredFileError(
                "the models are approximate, and the design was made without a charge for what they give away; "
                "make it again"
            )
        return None
    if type(plain) is not dict or plain.keys() != _CHARGE or found is None:
        raise StoredFileError("charge must say what the models give away, in a design that was made from models")
    charged = _matrix("charge.charged", plain["charged"], prior.shape).tolist()
    horizon, how = plain["horizon"], plain["how"]
    if type(horizon) is not int or horizon != found.horizon:
        raise StoredFileError("charge.horizon must be the horizon of the design")
    if type(how) is not str or len(how) > _LONGEST or not how.isprintable():
        raise StoredFileError(f"charge.how must be a few words, at most {_LONGEST} characters")
    made = Charge.of(prior, charged, horizon, how)
    if made.total != plain["total"] or made.variation != plain["variation"]:
        raise StoredFileError("charge is not what its residuals and the prior give")
    exact_but_charged = [x > 0.0 and not a for x, a in zip(charged, approximate, strict=bool(models))]
    if models and (any(exact_but_charged) or not any(approximate)):
        raise StoredFileError("charge is for models that are approximate, and those of the family are not")
    return made


def _plain(x: float | None) -> float | str | None:
    if x is None or math.isfinite(x):
        return None if x is None else float(x)
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
