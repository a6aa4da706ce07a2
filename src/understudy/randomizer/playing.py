"""A design at work: what a stream asks of it, and the making of streams."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import ConfigurationError, DesignError, ModelError, UnderstudyWarning
from understudy.models.base import Model
from understudy.models.fingerprint import fingerprint
from understudy.models.keys import value_to_plain
from understudy.models.stored import to_plain
from understudy.randomizer.measures import capacity, mutual_information
from understudy.randomizer.problem import as_prior
from understudy.stream.charges import Clock
from understudy.stream.ledger import Ledger, StreamRow
from understudy.stream.stream import DESIGN_ODDS, Stream, new_secret

if TYPE_CHECKING:
    from understudy.randomizer.result import Design


def fingerprint_of(design: Design) -> str:
    """What tells one design from another: kernel, values, odds and models, and nothing of who is played.

    A model that holds a function is told by its kind alone.
    """
    return fingerprint(
        {
            "values": [value_to_plain(value) for value in design.values],
            "pseudo": [value_to_plain(value) for value in design.pseudo],
            "kernel": design.randomizer.counts.tolist(),
            "prior": design.prior.tolist(),
            "models": [_told(model_of(design, value)) for value in (*design.values, *design.pseudo)],
        }
    )


def _told(model: Model) -> dict[str, Any]:
    try:
        return to_plain(model)
    except ModelError:
        return {"kind": type(model).__name__, "dim": int(model.dim), "functions": True}


def model_of(design: Design, value: Any) -> Model:
    """The model of a value; a design without a family has none."""
    if design.family is None:
        raise DesignError("the design has no models (us.solve makes none); a stream needs one from us.design")
    return design.family.model(value)


def leakage_of_draw(design: Design, marginal: Any) -> float:
    """Nats that one draw gives away: at the odds of the design, at given ones, or at the worst."""
    if marginal is None:
        return capacity(design.randomizer.kernel, design.prior).upper
    if isinstance(marginal, str):
        if marginal != DESIGN_ODDS:
            raise ConfigurationError(f"marginal = {marginal!r}; it must be 'design', odds, or None if they are unknown")
        return design.leakage
    return mutual_information(as_prior(marginal, len(design.values)), design.randomizer.kernel)


def stream(
    design: Design,
    theta: Any,
    ledger: Any,
    name: str | None,
    room: str | None,
    share: str | None,
    epoch: Any,
    rng: Any,
) -> Stream:
    """Begin a stream, or go on with the one that the ledger has under this name; see `Design.stream`."""
    if ledger is not None and not isinstance(ledger, Ledger):
        ledger = Ledger(ledger)
    title = "stream" if name is None else name
    if not isinstance(title, str) or not title:
        raise ConfigurationError(f"name = {name!r}; it must be a text")
    if ledger is not None and ledger.stream(title) is not None:
        found = Stream.open(ledger, design, title)
        found.becomes(theta)
        return found
    group = title if room is None else room
    options = {**Clock.checked(epoch), "randomizer": _draws_of(design)}
    if ledger is not None:
        options |= _company(design, ledger, group, share)
    generator = None if rng is None else np.random.default_rng(rng)
    row = StreamRow(0, title, group, design.fingerprint, new_secret(generator), generator is not None, options)
    return Stream.begin(design, theta, ledger, row, generator)


def _company(design: Design, ledger: Ledger, room: str, share: str | None) -> dict[str, Any]:
    """Whether another stream of the room is played by the same draw; refuses where nobody has said."""
    others = ledger.room(room)
    if not others:
        return {}
    if share == "separate":
        warnings.warn(
            f"the streams of {room!r} have separate draws: each gives away its own leakage, and all are charged",
            UnderstudyWarning,
            stacklevel=4,
        )
        return {}
    if share == "independent":
        first = others[0]
        if first.options.get("randomizer") != _draws_of(design):
            raise ConfigurationError(
                f"the stream {first.name!r} of {room!r} has another randomizer; a draw is shared by designs of one"
            )
        return {"draw_of": first.name}
    raise ConfigurationError(
        f"{room!r} has the stream {others[0].name!r} already. Sensors of one room belong into one joint model "
        "(channels of one stream). If they are independent given the parameter, say share='independent' (one draw for "
        "all); share='separate' draws again and charges for it"
    )


def _draws_of(design: Design) -> str:
    """What streams must have in common to share a draw: the kernel, and what its rows and columns stand for."""
    names = [value_to_plain(value) for value in (*design.values, *design.pseudo)]
    return fingerprint({"kernel": design.randomizer.counts.tolist(), "names": names})
