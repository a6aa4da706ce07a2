"""A causal design as a file: what it rests on, as numbers, never code.

Kernels are not kept, for they follow from the belief; the slope and the costs they follow from are. The long
run is worked out again on loading, and a file that claims another is refused; where it was simulated it must
agree within its errors, and the claim is kept.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from understudy.errors import StoredFileError
from understudy.models.family import Family
from understudy.models.fingerprint import probe
from understudy.models.keys import value_from_plain, value_to_plain
from understudy.models.stored import family_to_plain
from understudy.randomizer import document
from understudy.randomizer.causal.beliefs import Beliefs
from understudy.randomizer.causal.limit import LongRun, long_run
from understudy.randomizer.causal.making import CausalDesign
from understudy.randomizer.problem import as_cost
from understudy.randomizer.storage import (
    VERSIONS,
    _costs,
    _family,
    _list,
    _matrix,
    _number,
    _plain,
    _plain_costs,
    holding_together,
    plain_release,
    terms_of,
    with_release,
)

KIND, VERSION = "causal design", 2

_FIELDS = {
    "values", "pseudo", "prior", "transitions", "cost", "slope", "decision_every", "demand", "estimated", "given",
    "long_run", "costs", "family", "probes", "release",
}  # fmt: skip
_RUN = ("rate", "distortion", "rate_error", "distortion_error")
_SIX = 6.0  # standard errors by which a simulation may be off: less than once in 10^8


def save(design: CausalDesign, path: str | os.PathLike[str], models: bool = True) -> str:
    """Write a causal design; see `CausalDesign.save`."""
    beliefs, settled = design.beliefs, design.long_run
    distortion, weights = design._given or (None, None)
    given = None
    if isinstance(distortion, str):
        given = [distortion, None if weights is None else np.asarray(weights, dtype=float).tolist()]
    members = (*design.values, *design.pseudo)
    content: dict[str, Any] = {
        "values": [value_to_plain(value) for value in design.values],
        "pseudo": [value_to_plain(value) for value in design.pseudo],
        "prior": beliefs.prior.tolist(),
        "transitions": beliefs.transitions.tolist(),
        "cost": [[_plain(x) for x in row] for row in beliefs.cost.tolist()],
        "slope": _plain(beliefs.slope),
        "decision_every": design.decision_every,
        "demand": [design.demand[0], _plain(float(design.demand[1]))],
        "estimated": design.estimated,
        "given": given,
        "long_run": {name: getattr(settled, name) for name in (*_RUN, "how", "places")},
        "costs": None if design.costs is None else _plain_costs(design.costs),
        "family": family_to_plain(design.family, design.pseudo) if models else None,
        "probes": [probe(design.family.model(value)) for value in members],
        "release": plain_release(design),
    }
    return document.write(path, content, KIND, VERSION)


def load_causal(path: str | os.PathLike[str], family: Family | None = None) -> CausalDesign:
    """Read a causal design that `CausalDesign.save` wrote, and check it; `us.load_design` does so for both kinds."""
    content = with_release(document.load(path, KIND, VERSIONS))
    if content.keys() != _FIELDS:
        raise StoredFileError(f"{os.fspath(path)!s}: the fields are not those of a causal design")
    with holding_together(path):
        return _design(content, family)


def _design(content: dict[str, Any], family: Family | None) -> CausalDesign:
    values = [value_from_plain(value) for value in _list("values", content["values"])]
    pseudo = [value_from_plain(value) for value in _list("pseudo", content["pseudo"])]
    m, n = len(values), len(pseudo)
    cost = as_cost(_matrix("cost", content["cost"], (m, n)))
    attached = _family(content, values, pseudo, family)
    if attached is None:
        raise StoredFileError("the file holds no models; give the family that the design was made for")
    prior = _matrix("prior", content["prior"], (m,))
    if not np.array_equal(attached.prior, prior):
        raise StoredFileError("the family has another prior than the design was made for")
    count = len(_list("transitions", content["transitions"]))
    transitions = _matrix("transitions", content["transitions"], (count, m, m))
    beliefs = Beliefs(prior, transitions, cost, _number("slope", content["slope"]))
    every, estimated, given = content["decision_every"], content["estimated"], content["given"]
    if type(every) is not int or every < 1 or type(estimated) is not bool:
        raise StoredFileError("decision_every must be a whole number, and estimated true or false")
    name, value = content["demand"]
    if name not in ("rate", "slope"):
        raise StoredFileError("demand must be of rate or slope")
    if given is not None:
        distortion, weights = given
        if type(distortion) is not str:
            raise StoredFileError("given must name a distortion")
        given = distortion, None if weights is None else np.array(weights, dtype=float)
    choices = {
        "costs": None if content["costs"] is None else _costs(content["costs"], cost, values, pseudo),
        "decision_every": every,
        "demand": (name, _number("demand", value)),
        "estimated": estimated,
        "given": given,
        "terms": terms_of(content, attached),
    }
    return CausalDesign(attached, beliefs, pseudo, _settled(content["long_run"], beliefs), choices)


def _settled(plain: dict[str, Any], beliefs: Beliefs) -> LongRun:
    """The long run as the file has it, if it is that of the beliefs."""
    rate, distortion, *errors = (_number(name, plain[name]) for name in _RUN)
    claim = LongRun(rate, distortion, errors[0], errors[1], plain["how"], plain["places"])
    truth = long_run(beliefs)
    for name in ("rate", "distortion"):
        stated, found = getattr(claim, name), getattr(truth, name)
        error = math.hypot(getattr(claim, name + "_error"), getattr(truth, name + "_error"))
        if not math.isclose(stated, found, rel_tol=1e-6, abs_tol=1e-12 + _SIX * error):
            raise StoredFileError(f"{name} is not what the costs, the slope and the transitions give")
    if claim.how != truth.how:
        raise StoredFileError("the long run was not found in the way that the file says")
    return claim
