"""A fitted model class: one model for each value of the private parameter, and what was found on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from understudy._types import Value
from understudy.errors import FamilyError
from understudy.models.family import Family
from understudy.models.model import Model, is_model
from understudy.serialize import to_plain


@dataclass(frozen=True, slots=True, repr=False)
class Candidate:
    """One model class, fitted. Its text shows counts, no parameter and no reading.

    >>> import understudy as us
    >>> models = {0: us.IID(us.Gaussian(400.0, 9.0)), 1: us.IID(us.Gaussian(600.0, 25.0))}
    >>> candidate = Candidate("independent, normal", models, {"mean": [400.0, 600.0], "variance": [9.0, 25.0]}, 4)
    >>> candidate
    Candidate('independent, normal', 2 values, 4 free parameters)
    >>> candidate.family(prior=[0.9, 0.1])
    Family(2 values, dim=1)
    """

    name: str
    """What it is, in words; the table of candidates has it in its first column."""
    models: dict[Value, Model]
    """The model of each value, in the order of the values."""
    parameters: dict[str, Any]
    """Plain numbers and lists, for people and for JSON."""
    count: int
    """Number of free parameters."""
    notes: tuple[str, ...] = ()
    """What was done and what gave way, one plain sentence each."""

    def __post_init__(self) -> None:
        if not self.models:
            raise FamilyError("models is empty; a candidate has one for each value of the private parameter")
        for value, model in self.models.items():
            if not is_model(model):
                raise FamilyError(f"the candidate has a {type(model).__name__} for {value!r}; it must be a model")

    def __repr__(self) -> str:
        count, values = len(self.models), "value" if len(self.models) == 1 else "values"
        return f"Candidate({self.name!r}, {count} {values}, {self.count} free parameters)"

    def family(self, prior: ArrayLike | None = None) -> Family:
        """The models as a family; without a prior, the values are equally likely."""
        return Family(self.models, prior=prior)

    def plain(self) -> dict[str, Any]:
        """What JSON can hold: name, parameters, count, notes and the stored models in the order of the values."""
        return {
            "name": self.name,
            "parameters": self.parameters,
            "count": self.count,
            "notes": list(self.notes),
            "models": [to_plain(model) for model in self.models.values()],
        }
