"""The way from a history to a family, step by step: held readings, grid, public offset, choice, fit, gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import ConfigurationError, MissingReadingError, UnderstudyError
from understudy.identify.catalogue import FREE, makers
from understudy.identify.chain import Chain, chain_of, described
from understudy.identify.choice import Choice, choose
from understudy.identify.history import History
from understudy.identify.public import Offset, fit_offset, without_offset
from understudy.identify.rounding import (
    Channels,
    behind,
    channels,
    coarser,
    decimals,
    form,
    held_for,
    obstacle,
    plain,
    snapped,
)
from understudy.models.family import Family
from understudy._types import Progress

if TYPE_CHECKING:
    from understudy.identify.candidate import Candidate
    from understudy.models.base import Model



@dataclass(frozen=True, slots=True)
class Settings:
    """What a fit is asked to do, apart from the columns."""

    model: Any = "auto"
    grid: Any = "auto"
    order: Any = (1, 2)
    holdout: float | None = 0.25
    random_state: Any = 0
    progress: Progress | None = None

    def tell(self, share: float) -> None:
        """How much is done."""
        if self.progress is not None:
            self.progress(share)


@dataclass(frozen=True, slots=True, repr=False)
class Identified:
    """What a fit found."""

    family: Family
    candidate: Candidate
    choice: Choice
    chain: Chain
    gate: Any
    notes: tuple[str, ...]


def awake(read: Callable[..., History], period: Any, has_time: bool) -> tuple[History, dict[str, Any] | None]:
    """The history, resampled to the true period of sensors that hold their readings where that is regular.

    `read` makes the history, for a period and a choice between mean and last reading. The second result says how rows
    were resampled, if they were.
    """
    history = read(period=period, last=False)
    coarse = any("were resampled to" in note for note in history.notes)
    how = {"period": history.period, "how": "mean"} if coarse else None
    if coarse or history.dim == 0:
        return history, how
    true, notes = held_for(history)
    if true is None or period is not None or not has_time:
        return history.having(history.segments, *notes), None
    history = read(period=true, last=True)
    return replace(history, notes=(*notes, *history.notes)), {"period": history.period, "how": "last"}


def identified(history: History, settings: Settings, segment: Any = None, resampling: Any = None) -> Identified:
    """Fit, choose and test on a history."""
    settings.tell(0.02)
    public = bool(history.public)
    cells, found = channels(history, settings.grid, ends=not public)
    places = [decimals(column) for column in history.stacked()[0].T]
    forms = [form(column) for column in history.stacked()[0].T]
    if settings.grid == "auto":
        cells, coarsened = coarser(history, cells, forms)
        found = (*found, *coarsened)
    history, moved = snapped(history, cells)
    notes = [*history.notes, *found, *moved]
    train, held = _split(history, settings.holdout)
    offset: Offset | None = None
    if public:
        offset, told = fit_offset(train)
        offset = replace(offset, steps=tuple(None if cell is None else cell.step for cell in cells))
        notes += told
        train, held = without_offset(train, offset), None if held is None else without_offset(held, offset)
    chain = chain_of(history)
    settings.tell(0.05)
    classes = makers(train, settings.model, settings.order, settings.random_state)
    choice = choose(
        train,
        classes,
        unusable=lambda candidate: obstacle(candidate, cells),
        wanted=next(iter(classes)) if len(classes) == 1 else None,
        progress=lambda share: settings.tell(0.05 + 0.75 * share),
    )
    candidate = behind(classes[choice.key](train), cells)
    settings.tell(0.85)
    verdict = None if held is None else _gate(candidate, held, settings.random_state)
    settings.tell(0.92)
    offered: list[str] = []
    if held is not None and verdict is not None and not verdict.passed and settings.model == "auto":
        other = _free(choice, train, cells, settings)
        if other is not None:
            second = _gate(other, held, settings.random_state)
            offered = [_offer(candidate, verdict, other, second)]
            if second.passed:
                candidate, verdict = other, second
    settings.tell(1.0)
    notes += [*described(chain), choice.reason, *offered, *candidate.notes]
    notes += [] if verdict is None or verdict.warning is None else [verdict.warning]
    across = all(_crosses_gaps(model) for model in candidate.models.values())
    if not across:
        notes.append(
            f"{candidate.name} has no exact law across a missing reading: a stream stops there, or withholds the next "
            "readings until it has one again (gaps='withhold', which files do by themselves)"
        )
    notes = [note.rstrip(".") for note in notes]
    about = {**_about(history, offset, cells, places, segment, resampling), "form": forms}
    about |= {
        "chain": chain.to_plain(),
        "model": {
            "name": candidate.name,
            "parameters": _jsonable(candidate.parameters),
            "count": candidate.count,
            "table": choice.to_plain(),
            "reason": choice.reason,
            "across_gaps": across,
        },
        "gate": _plain_gate(verdict),
        "notes": notes,
    }
    family = Family(dict(candidate.models), values=history.values, prior=chain.prior, about=about)
    return Identified(family, candidate, choice, chain, verdict, tuple(notes))


def _split(history: History, holdout: float | None) -> tuple[History, History | None]:
    if holdout is None or holdout == 0.0:
        return history, None
    if isinstance(holdout, bool) or not isinstance(holdout, (int, float)) or not 0.0 < holdout <= 0.9:
        raise ConfigurationError(f"holdout = {holdout!r}; it is a share of the time, from 0 to 0.9")
    return history.split(float(holdout))


def _gate(candidate: Candidate, held: History, random_state: Any) -> Any:
    """The test of the scores on held-out time."""
    from understudy.identify.gate import gate

    return gate(candidate.models, held, random_state=random_state)


def _crosses_gaps(model: Model) -> bool:
    """Whether the model has a law for what follows a missing reading."""
    try:
        model.skip(model.start())
    except MissingReadingError:
        return False
    return True


def _free(choice: Choice, train: History, cells: Channels, settings: Settings) -> Candidate | None:
    """The class whose noise has no assumed shape, fitted, unless it was chosen anyway or cannot be used."""
    if FREE in choice.chosen:
        return None
    (maker,) = makers(train, "free", settings.order, settings.random_state).values()
    try:
        found = maker(train)
    except UnderstudyError:  # too few readings, say: then there is nothing to offer
        return None
    return None if obstacle(found, cells) else behind(found, cells)


def _offer(candidate: Candidate, verdict: Any, other: Candidate, second: Any) -> str:
    failed = f"{len(verdict.failed)} of {len(verdict.verdicts)} tests of {candidate.name} fail on held-out time"
    if second.passed:
        return f"{failed}; {other.name} passes all, and was taken instead"
    return f"{failed}; {other.name} was tried instead, and {len(second.failed)} of its tests fail too"


def _plain_gate(verdict: Any) -> dict[str, Any] | None:
    return None if verdict is None else dict(verdict.to_plain())


def _about(
    history: History, offset: Offset | None, cells: Channels, places: list[int | None], segment: Any, resampling: Any
) -> dict[str, Any]:
    return {
        "readings": list(history.readings),
        "private": history.private,
        "time": history.time,
        "zone": history.zone,
        "segment": segment,
        "period": history.period,
        "resampling": resampling,
        "public": None if offset is None else offset.to_plain(),
        "grid": plain(cells),
        "decimals": places,
        "units": None,
        "bins": None if history.bins is None else history.bins.to_plain(),
    }


def _jsonable(x: Any) -> Any:
    """Plain numbers and lists; what is not finite becomes None."""
    if isinstance(x, dict):
        return {str(key): _jsonable(value) for key, value in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [_jsonable(value) for value in x]
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, float) and not np.isfinite(x):
        return None
    return x if isinstance(x, (int, float, str, bool)) or x is None else str(x)
