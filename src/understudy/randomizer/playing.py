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
from understudy.randomizer.charge import Charge
from understudy.randomizer.measures import capacity, mutual_information
from understudy.randomizer.problem import as_prior
from understudy.stream.charges import Clock
from understudy.stream.ledger import Ledger
from understudy.stream.policy import DESIGN_ODDS
from understudy.stream.rows import StreamRow
from understudy.stream.setup import REFUSE, WITHHOLD
from understudy.stream.stream import Stream, new_secret
from understudy.transform.restarting import refill_of

if TYPE_CHECKING:
    from understudy.randomizer.result import Design


def fingerprint_of(design: Design) -> str:
    """What tells one design from another: kernel, values, odds, models and their charge; nothing of who is played.

    A model that holds a function is told by its kind alone.
    """
    told = {
        "values": [value_to_plain(value) for value in design.values],
        "pseudo": [value_to_plain(value) for value in design.pseudo],
        "kernel": design.randomizer.counts.tolist(),
        "prior": design.prior.tolist(),
        "models": [_told(model_of(design, value)) for value in (*design.values, *design.pseudo)],
    }
    if design.charge is not None:
        told["charge"] = [[repr(nats) for nats in design.charge.charged], design.charge.horizon]
    return fingerprint(told)


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


def residual_of_block(design: Design, marginal: Any) -> tuple[float, int] | None:
    """Nats that the models give away over a block of readings; None where all are exact.

    At the odds of the design, at given ones, or at the worst if None.
    """
    charge = design.charge
    if charge is None:
        return None
    if isinstance(marginal, str) and marginal == DESIGN_ODDS:
        return charge.total, charge.horizon
    if marginal is None:
        return max(nats for nats, p in zip(charge.charged, design.prior, strict=True) if p > 0.0), charge.horizon
    odds = as_prior(marginal, len(design.values))
    return Charge.of(odds, charge.charged, charge.horizon, charge.how).total, charge.horizon


def stream(
    design: Design,
    theta: Any,
    ledger: Any,
    name: str | None,
    room: str | None,
    share: str | None,
    epoch: Any,
    rng: Any,
    gaps: str | None = None,
) -> Stream:
    """Begin a stream, or go on with the one that the ledger has under this name; see `Design.stream`."""
    options = {**Clock.checked(epoch), "randomizer": _draws_of(design)}
    return begun_or_opened(design, theta, ledger, name, room, share, epoch, options, rng, gaps)


def begun_or_opened(
    design: Any,
    theta: Any,
    ledger: Any,
    name: str | None,
    room: str | None,
    share: str | None,
    epoch: Any,
    options: dict[str, Any],
    rng: Any,
    gaps: str | None = None,
) -> Stream:
    """A new stream with these options; or the one of this name, whose terms must be those that are given, if any."""
    title = "stream" if name is None else name
    if not isinstance(title, str) or not title or not (room is None or (isinstance(room, str) and room)):
        raise ConfigurationError(f"name = {name!r}, room = {room!r}; both must be texts")
    if gaps not in (None, REFUSE, WITHHOLD):
        raise ConfigurationError(f"gaps = {gaps!r}; it must be 'refuse' or 'withhold'")
    generator = None if rng is None else np.random.default_rng(rng)
    if ledger is not None and not isinstance(ledger, Ledger):
        opened = Ledger(ledger)
        try:
            return begun_or_opened(design, theta, opened, name, room, share, epoch, options, generator, gaps)
        except BaseException:
            opened.close()  # or its lock would outlive the call
            raise
    known = None if ledger is None else ledger.stream(title)
    if known is not None:
        _same(known, epoch, room, gaps)
        return Stream.open(ledger, design, title, theta=theta)
    if gaps == WITHHOLD:
        _check_refill(design)
        options = options | {"gaps": WITHHOLD}
    group = title if room is None else room
    if ledger is not None:
        options = options | _company(options, ledger, group, share)
    row = StreamRow(0, title, group, design.fingerprint, new_secret(generator), generator is not None, options)
    return Stream.begin(design, theta, ledger, row)


def _check_refill(design: Any) -> None:
    """Refuse, before anything is drawn, models that do not need as many readings after a gap as each other."""
    if getattr(design, "family", None) is not None:
        refill_of(design.family.model(value) for value in (*design.values, *design.pseudo))


def _same(known: StreamRow, epoch: Any, room: str | None, gaps: str | None) -> None:
    """Refuse to go on with a stream under other terms than it was begun with."""
    stored = {key: value for key, value in known.options.items() if key in ("epoch", "timed")}
    if epoch is not None and Clock.checked(epoch) != stored:
        raise ConfigurationError(f"the stream {known.name!r} has epochs of another length, fixed when it was begun")
    if room is not None and room != known.room:
        raise ConfigurationError(f"the stream {known.name!r} belongs to the room {known.room!r}, not to {room!r}")
    if gaps is not None and gaps != known.options.get("gaps", REFUSE):
        raise ConfigurationError(f"gaps = {gaps!r}; the stream {known.name!r} was begun with another choice, for good")


def _company(options: dict[str, Any], ledger: Ledger, room: str, share: str | None) -> dict[str, Any]:
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
        if first.options.get("randomizer") != options.get("randomizer"):
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
