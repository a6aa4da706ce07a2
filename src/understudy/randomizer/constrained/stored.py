"""Constraints in a stored design: plain values and back, and whether a stored kernel keeps them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from understudy.errors import StoredFileError
from understudy.models.keys import value_from_plain, value_to_plain
from understudy.randomizer.constrained.base import Constraint, Exact
from understudy.randomizer.constrained.constraints import KINDS, Multiples
from understudy.randomizer.constrained.designing import Asked, effective
from understudy.randomizer.interior import information
from understudy.randomizer.result import Design, total
from understudy.randomizer.sampler import Randomizer

_NESTED = ("pairs", "groups")  # fields that hold values of a family, in tuples of tuples
# How much a stored kernel may cost above one that is found anew: rounding, and what a search leaves to chance.
_DEARER, _DEARER_IN_MULTIPLES = 1e-6, 1e-2


def constraints_to_plain(constraints: Sequence[Constraint]) -> list[dict[str, Any]]:
    """Constraints as JSON can hold them.

    >>> from understudy.randomizer.constrained.constraints import Forbidden, LocalDP
    >>> constraints_to_plain([LocalDP(1.0), Forbidden([(0, "door")])])
    [{'kind': 'local_dp', 'epsilon': 1.0}, {'kind': 'forbidden', 'pairs': [[0, 'door']], 'positions': False}]
    """

    def plain(name: str, value: Any) -> Any:
        return [[value_to_plain(x) for x in group] for group in value] if name in _NESTED else value

    return [
        {"kind": one.name, **{f.name: plain(f.name, getattr(one, f.name)) for f in fields(one)}} for one in constraints
    ]


def constraints_from_plain(plain: Any) -> tuple[Constraint, ...]:
    """The constraints that `constraints_to_plain` was given.

    >>> constraints_from_plain([{"kind": "local_dp", "epsilon": 1.0}])
    (LocalDP(epsilon=1.0),)
    """
    if type(plain) is not list:
        raise StoredFileError("constraints must be a list")
    found = []
    for entry in plain:
        kind = KINDS.get(str(entry.get("kind"))) if type(entry) is dict else None
        if kind is None or entry.keys() - {"kind"} != {f.name for f in fields(kind)}:
            raise StoredFileError("constraints holds one that is not known; a newer understudy may have written it")
        given = {
            name: tuple(tuple(value_from_plain(x) for x in group) for group in value) if name in _NESTED else value
            for name, value in entry.items()
            if name != "kind"
        }
        if type(given.get("positions", False)) is not bool:
            raise StoredFileError("positions must be true or false")
        found.append(kind(**given))
    return tuple(found)


def with_stored_kernel(fresh: Design, stored: Randomizer) -> Design:
    """A design with constraints and the stored kernel, if that one keeps them all, exactly, and costs no more."""
    asked = Asked(fresh.demand, fresh.constraints, fresh.charge)
    exact = Exact(fresh.prior, stored.kernel)
    kept = effective(asked, fresh.prior, stored.values, stored.pseudo)
    drawn = (stored.kernel > 0.0) & (fresh.prior[:, None] > 0.0)
    distortion = math.fsum(((fresh.prior[:, None] * stored.kernel)[drawn] * fresh.cost[drawn]).tolist())
    leakage = information(fresh.prior, stored.kernel.reshape(-1))
    spent = total(leakage, fresh.charge)
    name, wanted = fresh.demand
    inverse = name == "distortion_at_most"
    dearer = _DEARER_IN_MULTIPLES if any(isinstance(one, Multiples) for one in fresh.constraints) else _DEARER
    if (
        not all(one.kept(exact) for one in kept)
        or (fresh.budget is not None and not inverse and spent > fresh.budget)
        or (inverse and (distortion > wanted * (1.0 + 1e-15) or leakage > fresh.leakage * (1.0 + dearer) + 1e-12))
        or (not inverse and distortion > fresh.distortion * (1.0 + dearer))
        or distortion < fresh.lower_bound * (1.0 - 1e-12)
    ):
        raise StoredFileError("the kernel is not a solution for the prior, the costs, the demand and the constraints")
    if (fresh.randomizer.kernel == stored.kernel).all():
        return replace(fresh, randomizer=stored)
    gap = max(distortion - fresh.lower_bound, 0.0)
    budget = spent if inverse else fresh.budget
    return replace(fresh, randomizer=stored, distortion=distortion, leakage=leakage, budget=budget, gap=gap)
