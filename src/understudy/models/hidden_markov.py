"""The hidden Markov model: a hidden state that moves among finitely many, and a law of the reading for each.

The law of the next reading given the past is a mixture of the laws of the states, with the
probabilities of the states given the past as weights: exact, missing readings included. With pi_k the
probabilities before reading k (row vectors) and p_s the density of the reading under state s,

    p(y_k | past) = sum_s pi_k(s) p_s(y_k),    pi_{k+1} = (pi_k p(y_k) / sum) A.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Frozen, Numbers, Plain
from understudy.errors import ModelError
from understudy.laws.atoms import Atoms, positions
from understudy.laws.gaussian import Gaussian
from understudy.laws.law import Law, has_atoms
from understudy.laws.multivariate import (
    ChannelMixture,
    GaussianMixture,
    Independent,
    can_be_taken_apart,
    mix,
    reweight,
)
from understudy.models.iid_markov import law_dim
from understudy.models.model import repeat
from understudy.serialize import Place, construct, fields, laws_from_plain, laws_to_plain, stored_array

HiddenState = tuple[float, ...]


class HiddenMarkov(Frozen):
    """A hidden Markov chain with one law of the reading for each of its S states.

    `transition` (S, S) has the rows Pr(next state given this one), each summing to 1. `initial` (S,)
    is the law of the hidden state at the FIRST reading: no transition comes before it. `laws` holds
    one law for each state, all of the same dimension: any law of one number; for several channels
    `Gaussian`, `Independent`, `GaussianMixture` and `GaussianCopula`, as you like. In each channel
    either every state has `Atoms` (on the same or on different values) or none has.

    The state is the tuple of predicted probabilities of the hidden states; those below 1e-308 are zero.

    >>> import understudy as us
    >>> laws = [us.Gaussian(400.0, 100.0), us.Gaussian(800.0, 400.0)]
    >>> model = HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [1.0, 0.0], laws)
    >>> model
    HiddenMarkov(states=2, dim=1)
    >>> [round(p, 6) for p in model.update(model.start(), 405.0)]
    [0.9, 0.1]
    >>> us.whiten([405.0, 800.0], model).round(3).tolist()
    [0.5, 1.645]
    """

    __slots__ = ("atoms", "dim", "emissions", "initial", "laws", "states", "transition")

    def __init__(self, transition: ArrayLike, initial: ArrayLike, laws: Sequence[Law]) -> None:
        self.laws: tuple[Law, ...] = _laws(laws)
        self.states = S = len(self.laws)
        self.dim = law_dim(self.laws[0], "the law of state 0")
        A = _numbers("transition", transition, (S, S))
        for i in range(S):
            A[i] = _probabilities(f"row {i} of transition", A[i])
        self.transition: Array = A
        self.initial: Array = _probabilities("initial", _numbers("initial", initial, (S,)))
        for array in (self.transition, self.initial):
            array.flags.writeable = False
        self.emissions: tuple[Law, ...] = _emissions(self.laws, self.dim)
        self.atoms = any(has_atoms(law) for law in self.emissions)

    def to_dict(self, place: Place) -> Plain:
        """The chain and the laws of its states; see `understudy.serialize`."""
        return {
            "transition": self.transition.tolist(),
            "initial": self.initial.tolist(),
            "laws": laws_to_plain(self.laws, place / "laws"),
        }

    @classmethod
    def from_dict(cls, plain: Plain, place: Place) -> HiddenMarkov:
        """The model again."""
        given = fields(place, plain, "transition", "initial", "laws")
        transition = stored_array(place / "transition", given["transition"], 2)
        initial = stored_array(place / "initial", given["initial"], 1)
        return construct(place, cls, transition, initial, laws_from_plain(given["laws"], place / "laws"))

    def __repr__(self) -> str:
        return f"HiddenMarkov(states={self.states}, dim={self.dim})"

    def __reduce__(self) -> tuple[type[HiddenMarkov], tuple[Array, Array, tuple[Law, ...]]]:
        return HiddenMarkov, (self.transition, self.initial, self.laws)

    def start(self) -> HiddenState:
        """Probabilities of the hidden state at the first reading."""
        return tuple(self.initial.tolist())

    def predict(self, state: HiddenState) -> Law:
        """The mixture of the laws of the states."""
        if self.dim == 1:
            return mix(state, self.emissions)
        if all(type(law) is Gaussian for law in self.emissions):
            given = [law.arguments for law in self.emissions if isinstance(law, Gaussian)]
            return GaussianMixture(state, [mean for mean, _ in given], [cov for _, cov in given])
        return ChannelMixture(state, self.emissions)

    def update(self, state: HiddenState, y: Numbers) -> HiddenState:
        """Bayes' rule, then one step of the chain."""
        return self._move(reweight(state, [float(law.logpdf(y)) for law in self.emissions]))

    def skip(self, state: HiddenState) -> HiddenState:
        """One step of the chain."""
        return self._move(state)

    def skip_many(self, state: HiddenState, count: int) -> HiddenState:
        """So many steps of the chain, which forgets where it was."""
        return repeat(self.skip, state, count, lambda state: np.array(state).tobytes())

    def _move(self, p: Sequence[float]) -> HiddenState:
        # pi_{k+1} = p A, added up in a fixed order, and normalised so that long gaps do not drift
        pi = (np.reshape(p, (-1, 1)) * self.transition).sum(axis=0)
        return tuple((pi / pi.sum()).tolist())


def _laws(given: Sequence[Law]) -> tuple[Law, ...]:
    try:
        laws = tuple(given)
    except TypeError:
        raise ModelError(
            f"laws is of type {type(given).__name__}; it must hold one law for each hidden state"
        ) from None
    if not laws:
        raise ModelError("laws is empty; it must hold one law for each hidden state")
    dims = [law_dim(law, f"the law of state {s}") for s, law in enumerate(laws)]
    for s, dim in enumerate(dims):
        if dim != dims[0]:
            raise ModelError(f"the law of state 0 has dim = {dims[0]} and that of state {s} has {dim}; all must agree")
    return laws


def _numbers(name: str, given: ArrayLike, shape: tuple[int, ...]) -> Array:
    try:
        array = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{name} must be an array of numbers of shape {shape}") from None
    if array.shape != shape:
        raise ModelError(f"{name} has shape {array.shape}; with {shape[0]} laws it must be {shape}")
    return array


def _probabilities(name: str, p: Array) -> Array:
    for entry in p.tolist():
        if not 0.0 <= entry <= 1.0 + 1e-9:
            raise ModelError(f"{name} holds {entry!r}; probabilities lie between 0 and 1")
    total = float(p.sum())
    if abs(total - 1.0) > 1e-9:
        raise ModelError(f"{name} sums to {total:.12g}; it must sum to 1")
    # kept to the bit where rounding is all there is, so that a model that was stored comes back as it was
    return p if abs(total - 1.0) <= p.size * float(np.finfo(float).eps) else p / total


def _emissions(laws: tuple[Law, ...], d: int) -> tuple[Law, ...]:
    """The laws in the form that is computed with: in each channel, atoms on the same values in every state."""
    if d == 1:
        return tuple(_common([law.laws[0] if isinstance(law, Independent) else law for law in laws], "the reading"))
    for s, law in enumerate(laws):
        if not can_be_taken_apart(law):
            raise ModelError(
                f"the law of state {s} is of type {type(law).__name__} and dim {d}, which cannot be taken apart "
                "channel by channel; Gaussian, Independent, GaussianMixture and GaussianCopula can"
            )
    if not any(has_atoms(law) for law in laws):
        return laws
    independent = [law for law in laws if isinstance(law, Independent)]
    for s, law in enumerate(laws):
        if not isinstance(law, Independent):
            raise ModelError(f"the law of state {s} has no atoms and others have; write it as Independent channels")
    columns = [_common([law.laws[i] for law in independent], f"channel {i}") for i in range(d)]
    return tuple(Independent(*row) for row in zip(*columns, strict=True))


def _common(laws: list[Law], where: str) -> list[Law]:
    """Atoms on the values of all of them; what has no atoms stays as it is."""
    kinds = [has_atoms(law) for law in laws]
    if not any(kinds):
        return laws
    atoms = [law for law in laws if isinstance(law, Atoms)]
    for s, law in enumerate(laws):
        if not isinstance(law, Atoms):
            raise ModelError(
                f"{where} has Atoms in state {kinds.index(True)} and a law of type {type(law).__name__} in state {s}; "
                "all states must have Atoms there, or none"
            )
    values = np.unique(np.concatenate([law.values for law in atoms]))
    values.flags.writeable = False
    spread: list[Law] = []
    for law in atoms:
        p = np.zeros(values.size)
        p[positions(values, law.values)] = law.probabilities
        spread.append(Atoms.from_sorted(values, p))
    return spread
