"""A robust design as a file: an ordinary one's content, and the priors of the hull.

On loading the problem is solved anew. The stored kernel, which another machine may have rounded otherwise, is kept if
it keeps the budget over the hull and costs what the file says; a file that claims anything else is refused.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import Any

import numpy as np

from understudy.errors import StoredFileError
from understudy.models.family import Family
from understudy.models.fingerprint import probe
from understudy.models.keys import value_from_plain, value_to_plain
from understudy.models.stored import family_to_plain
from understudy.randomizer import document
from understudy.randomizer.making import with_terms
from understudy.randomizer.priors.hull import worst
from understudy.randomizer.priors.robust import _charge_at, _designed
from understudy.randomizer.priors.robust_result import RobustDesign, is_near
from understudy.randomizer.priors.robust_solver import robust
from understudy.randomizer.problem import as_cost, as_prior
from understudy.randomizer.sampler import Randomizer
from understudy.randomizer.storage import (
    VERSIONS,
    _charge,
    _costs,
    _family,
    _kernel,
    _list,
    _matrix,
    _number,
    _plain,
    _plain_charge,
    _plain_costs,
    holding_together,
    plain_release,
    terms_of,
    with_release,
)

KIND, VERSION = "robust design", 2

_NUMBERS = ("distortion", "lower_bound", "leakage", "budget", "distortion_error")
_FIELDS = {
    "values", "pseudo", "kernel", "prior", "priors", "weighed", "cost", "numbers", "demand", "status", "iterations",
    "costs", "family", "probes", "charge", "release",
}  # fmt: skip


def save(design: RobustDesign, path: str | os.PathLike[str], models: bool = True) -> str:
    """Write a robust design; see `RobustDesign.save`."""
    demand = design.demand[1]
    content: dict[str, Any] = {
        "values": [value_to_plain(value) for value in design.values],
        "pseudo": [value_to_plain(value) for value in design.pseudo],
        "kernel": design.randomizer.counts.tolist(),
        "prior": design.prior.tolist(),
        "priors": design.priors.tolist(),
        "weighed": design.weighed,
        "cost": [[_plain(x) for x in row] for row in design.cost.tolist()],
        "numbers": {name: _plain(getattr(design, name)) for name in _NUMBERS},
        "demand": demand if isinstance(demand, str) else _plain(float(demand)),
        "status": design.status,
        "iterations": design.iterations,
        "costs": None if design.costs is None else _plain_costs(design.costs),
        "family": None,
        "probes": None,
        "charge": None if design.charge is None else _plain_charge(design.charge),
        "release": plain_release(design),
    }
    if design.family is not None:
        content["probes"] = [probe(design.family.model(value)) for value in (*design.values, *design.pseudo)]
        if models:
            content["family"] = family_to_plain(design.family, design.pseudo)
    return document.write(path, content, KIND, VERSION)


def load_robust(path: str | os.PathLike[str], family: Family | None = None) -> RobustDesign:
    """Read a design that `RobustDesign.save` wrote, and check it; `family` is as in `us.load_design`.

    >>> import os, tempfile
    >>> from understudy.randomizer.priors.robust import solve_robust
    >>> made = solve_robust([[0, 1], [1, 0]], [[0.9, 0.1], [0.1, 0.9]], leakage=0.2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = made.save(os.path.join(folder, "room.json"))
    ...     load_robust(os.path.join(folder, "room.json"))
    RobustDesign(2 x 2, 2 priors, distortion=0.194827, leakage<=0.2, optimal)
    """
    content = with_release(document.load(path, KIND, VERSIONS))
    if content.keys() != _FIELDS:
        raise StoredFileError(f"{os.fspath(path)!s}: the fields are not those of a robust design")
    with holding_together(path):
        return _design(content, family)


def _design(content: dict[str, Any], family: Family | None) -> RobustDesign:
    values = [value_from_plain(value) for value in _list("values", content["values"])]
    pseudo = [value_from_plain(value) for value in _list("pseudo", content["pseudo"])]
    m = len(values)
    cost = as_cost(_matrix("cost", content["cost"], (m, len(pseudo))))
    prior = as_prior(_matrix("prior", content["prior"], (m,)), m)
    corners = _matrix("priors", content["priors"], (len(content["priors"]), m))
    B = np.stack([as_prior(corner, m) for corner in corners], axis=1)
    if content["weighed"] not in ("stated", "worst"):
        raise StoredFileError("weighed must be stated or worst")
    C = B if content["weighed"] == "worst" else prior[:, None]
    attached = _family(content, values, pseudo, _at(family, prior))
    found = None if content["costs"] is None else _costs(content["costs"], cost, values, pseudo)
    leak = _charge(content["charge"], prior, attached, found)
    budget = _number("budget", content["numbers"]["budget"])
    demand = content["demand"] if type(content["demand"]) is str else _number("demand", content["demand"])
    left = budget if leak is None else min(_charge_at(leak, p).left_for_the_draw(budget) for p in B.T)
    fresh = _designed(robust(cost, B, C, left), cost, B, C, (demand, budget), attached, found, leak)
    made = _with_kernel(fresh, Randomizer(_kernel(content["kernel"], cost.shape), values, pseudo), left, C)
    for name in _NUMBERS:
        if not is_near(_number(name, content["numbers"][name]), getattr(made, name)):
            raise StoredFileError(f"{name} is not what the kernel, the priors and the costs give")
    if content["status"] != made.status or type(content["iterations"]) is not int:
        raise StoredFileError("status or iterations is not what the kernel, the priors and the costs give")
    return with_terms(made, terms_of(content, attached))


def _at(family: Family | None, prior: Any) -> Family | None:
    if family is None or np.array_equal(family.prior, prior):
        return family
    return Family(family.model, family.values, prior, family.about)


def _with_kernel(fresh: RobustDesign, stored: Randomizer, budget: float, C: Any) -> RobustDesign:
    if np.array_equal(fresh.randomizer.kernel, stored.kernel):
        return replace(fresh, randomizer=stored)
    told = worst(stored.kernel, np.ascontiguousarray(fresh.priors.T))
    drawn = stored.kernel > 0.0
    distortion = float((C.T @ (stored.kernel * np.where(drawn, fresh.cost, 0.0)).sum(axis=1)).max())
    if told.upper > budget or not math.isclose(distortion, fresh.distortion, rel_tol=1e-8, abs_tol=1e-300):
        raise StoredFileError("the kernel is not a solution for the priors, the costs and the budget")
    return replace(fresh, randomizer=stored, distortion=distortion, leakage=told.upper, worst_prior=told.prior)
