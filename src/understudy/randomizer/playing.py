"""A design at work: what a stream asks of it, and the making of streams."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import ConfigurationError, DesignError, ModelError, UnderstudyWarning
from understudy.models.base import Model
from understudy.models.family import Family
from understudy.models.fingerprint import fingerprint
from understudy.models.keys import value_to_plain
from understudy.models.stored import to_plain
from understudy.randomizer.charge import Charge
from understudy.randomizer.measures import capacity, mutual_information
from understudy.randomizer.problem import as_prior
from understudy.stream.cadence import Cadence
from understudy.stream.catalogue import check_name
from understudy.stream.charges import Clock
from understudy.stream.ledger import Ledger
from understudy.stream.policy import DESIGN_ODDS
from understudy.stream.release import Release, Terms, floating_point, release_of
from understudy.stream.rows import StreamRow
from understudy.stream.setup import REFUSE, WITHHOLD
from understudy.stream.stream import Stream, new_secret, period_of
from understudy.transform.restarting import refill_of
from understudy.transform.roundoff import Roundoff

if TYPE_CHECKING:
    from understudy.randomizer.result import Design

MOST_FLOATING = 0.01
"""Nats that floating point may leave over the horizon of a design, or over 1000 readings."""
MANY_DECIMALS = 9
"""So many decimals, which is as far as a fit counts, or more: the readings have all digits."""


def release_for(family: Family, values: Iterable[Any], pseudo: Iterable[Any], terms: Terms) -> Release:
    """The lattice on which readings of a family leave, and what may come in."""
    about = family.about or {}
    known = about.get("decimals") or [None] * family.dim
    decimals = [None if places is None or places >= MANY_DECIMALS else int(places) for places in known]
    sources, targets = ([family.model(value) for value in those] for those in (values, pseudo))
    if terms.readings is None and any(about.get("form") or ()):
        terms = terms._replace(readings=list(about["form"]))
    return release_of(sources, targets, terms, decimals)


def floating_for(family: Family, values: Iterable[Any], pseudo: Iterable[Any], release: Release) -> Roundoff | None:
    """What floating point leaves of the private value in the outputs of a family."""
    sources, targets = ([family.model(value) for value in those] for those in (values, pseudo))
    return floating_point(sources, targets, release)


def fingerprint_of(design: Design, former: bool = False) -> str:
    """What tells one design from another: kernel, values, odds, models, charge, release; nothing of who is played.

    A model that holds a function is told by its kind alone. The `former` one is that of version 0.1, without the
    release.
    """
    told: dict[str, Any] = {
        "values": [value_to_plain(value) for value in design.values],
        "pseudo": [value_to_plain(value) for value in design.pseudo],
        "kernel": design.randomizer.counts.tolist(),
        "prior": design.prior.tolist(),
        "models": [_told(model_of(design, value)) for value in (*design.values, *design.pseudo)],
    }
    if design.charge is not None:
        told["charge"] = [[repr(nats) for nats in design.charge.charged], design.charge.horizon]
    if not former:
        told["release"] = design.release.to_plain()
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


@dataclass(frozen=True, slots=True)
class Choices:
    """What a stream is begun with, besides design, private value and ledger; None where nothing was said."""

    name: str | None = None
    room: str | None = None
    share: str | None = None
    epoch: Any = None
    rng: Any = None
    gaps: str | None = None
    period: Any = None
    tolerance: Any = None
    origin: int | None = None
    fill: bool | None = None


def stream(design: Design, theta: Any, ledger: Any, choices: Choices) -> Stream:
    """Begin a stream, or go on with the one that the ledger has under this name; see `Design.stream`."""
    options = {**Clock.checked(choices.epoch), "randomizer": _draws_of(design)}
    return begun_or_opened(design, theta, ledger, choices, options)


def begun_or_opened(design: Any, theta: Any, ledger: Any, choices: Choices, options: dict[str, Any]) -> Stream:
    """A new stream with these options; or the one of this name, whose terms must be those that are given, if any."""
    name, room = choices.name, choices.room
    title = "stream" if name is None else name
    if not isinstance(title, str) or not title or not (room is None or (isinstance(room, str) and room)):
        raise ConfigurationError(f"name = {name!r}, room = {room!r}; both must be texts")
    if choices.fill not in (None, True, False):
        raise ConfigurationError(f"fill = {choices.fill!r}; it must be True or False")
    if choices.gaps not in (None, REFUSE, WITHHOLD):
        raise ConfigurationError(f"gaps = {choices.gaps!r}; it must be 'refuse' or 'withhold'")
    generator = None if choices.rng is None else np.random.default_rng(choices.rng)
    if ledger is not None and not isinstance(ledger, Ledger):
        opened = Ledger(ledger)
        try:
            return begun_or_opened(design, theta, opened, replace(choices, rng=generator), options)
        except BaseException:
            opened.close()  # or its lock would outlive the call
            raise
    known = None if ledger is None else ledger.stream(title)
    if known is not None:
        _same(known, choices)
        return Stream.open(ledger, design, title, theta=theta, period=choices.period)
    check_name("name", title)
    check_name("room", title if room is None else room)
    _check_floating(design)
    options = options | _cadence(design, choices) | {"resolution": list(design.release.lattice.steps)}
    gaps = choices.gaps
    if gaps is None and "cadence" in options and _refill(design):
        gaps = WITHHOLD  # a slot that stays empty is no error
    if gaps == WITHHOLD:
        _check_refill(design)
        options = options | {"gaps": WITHHOLD}
    group = title if room is None else room
    if ledger is not None:
        options = options | _company(options, ledger, group, choices.share)
    row = StreamRow(0, title, group, design.fingerprint, new_secret(generator), generator is not None, options)
    return Stream.begin(design, theta, ledger, row)


def _check_floating(design: Any) -> None:
    """Refuse a lattice on which floating point would leave more than a hundredth of a nat over the horizon."""
    floating = design.floating
    costs = getattr(design, "costs", None)
    T = (None if costs is None else costs.horizon) or 1000
    nats = 0.0 if floating is None else floating.nats(T)
    if not nats <= MOST_FLOATING:
        raise ConfigurationError(
            f"floating point would leave {nats:.3g} nats of the private value in the first {T} readings "
            f"({floating.how}), more than {MOST_FLOATING:g}; give the design a coarser resolution= than "
            f"{design.release.lattice.words}, or a narrower range valid="
        )


def _cadence(design: Any, choices: Choices) -> dict[str, Any]:
    """The cadence and what happens to empty slots, as they are stored."""
    period = period_of(design) if choices.period is None else choices.period
    if period is None:
        if choices.tolerance is not None:
            raise ConfigurationError("tolerance = is for readings with times; give period= too")
        return {"fill": True} if choices.fill else {}
    cadence = Cadence.checked(period, choices.tolerance, choices.origin)
    return {"cadence": list(cadence), **({"fill": True} if choices.fill else {})}


def _refill(design: Any) -> bool:
    """Whether the models need readings in a row after a gap, all of them as many."""
    if getattr(design, "family", None) is None:
        return False
    try:
        return refill_of(design.family.model(value) for value in (*design.values, *design.pseudo)) is not None
    except ModelError:
        return False


def _check_refill(design: Any) -> None:
    """Refuse, before anything is drawn, models that do not need as many readings after a gap as each other."""
    if getattr(design, "family", None) is not None:
        refill_of(design.family.model(value) for value in (*design.values, *design.pseudo))


def _same(known: StreamRow, choices: Choices) -> None:
    """Refuse to go on with a stream under other terms than it was begun with."""
    stored = {key: value for key, value in known.options.items() if key in ("epoch", "timed")}
    if choices.epoch is not None and Clock.checked(choices.epoch) != stored:
        raise ConfigurationError(f"the stream {known.name!r} has epochs of another length, fixed when it was begun")
    if choices.room is not None and choices.room != known.room:
        raise ConfigurationError(
            f"the stream {known.name!r} belongs to the room {known.room!r}, not to {choices.room!r}"
        )
    others = (("gaps", choices.gaps, REFUSE), ("fill", choices.fill, False))
    for option, given, usual in others:
        if given is not None and given != known.options.get(option, usual):
            raise ConfigurationError(
                f"{option} = {given!r}; the stream {known.name!r} was begun with another choice, for good"
            )
    if choices.tolerance is not None:
        found = Cadence.stored(known.options)
        if found is None or Cadence.checked(found.period / 1e9, choices.tolerance).tolerance != found.tolerance:
            raise ConfigurationError(
                f"tolerance = {choices.tolerance!r}; the stream {known.name!r} was begun with another one, for good"
            )


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
