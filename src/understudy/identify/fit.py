"""Identification: from a labelled history to a family of models, `us.fit`.

`identify` goes from a `History` to a `Family` in these steps:

1. The grid of each channel is detected, and readings are moved to it (`identify.grid`).
2. The last part of the time is held out (`History.split`).
3. The offset by public inputs is fitted and taken off (`identify.public_inputs`).
4. The model classes are compared on held-out blocks, and the best is chosen (`identify.selection`).
5. The class is fitted to all of the training data, and its models are put on the grid.
6. The gate tests the scores of the held-out data (`identify.gate`). If it fails under ``model="auto"``, an
   autoregression whose noise has no assumed shape is tried in its place.

Before that, readings of a sample-and-hold sensor are resampled to its true period (`resample_held_readings`).

`Identifier` has the form of a scikit-learn estimator and does not need scikit-learn: the constructor stores its
arguments, `fit` learns and returns self, and the names of what was learned end in an underscore. `save_family` and
`load_family` store a family as parameters, never as code. `read_again` reads other data of the same sensor as the
history of the family was read, for tests on held-out files.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from understudy import serialize
from understudy._types import Period, Plain, Progress, Seed
from understudy.errors import ConfigurationError, MissingReadingError, StoredFileError, UnderstudyError
from understudy.identify.grid import (
    Cells,
    Channels,
    Steps,
    channels,
    coarsen,
    decimals,
    form,
    hold_period,
    obstacle,
    plain,
    put_on_grid,
    snap_to_grid,
)
from understudy.identify.history import Bins, BinsLike, Chain, History, chain_of, describe_chain
from understudy.identify.public_inputs import CLOCK, Offset, clock_names, fit_offset, without_offset
from understudy.identify.resample import intake
from understudy.identify.selection import Choice, choose, makers
from understudy.models.family import Family
from understudy.tables.table import Table

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from understudy.identify.candidates import Candidate
    from understudy.identify.gate import Gate
    from understudy.models.model import Model
    from understudy.tables.table import Frame
    from understudy.tables.times import Entry

    Data: TypeAlias = Frame | Table | NDArray[np.generic]
    Column: TypeAlias = Sequence[Entry] | NDArray[np.generic]

Names: TypeAlias = str | Iterable[str]
"""One name, or several: of columns, or of model classes."""
Orders: TypeAlias = int | Iterable[int]
T = TypeVar("T")


# From a history to a family -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settings:
    """What a fit is asked to do, apart from the columns."""

    model: Names = "auto"
    grid: Steps = "auto"
    order: Orders = (1, 2)
    holdout: float | None = 0.25
    random_state: Seed = 0
    progress: Progress | None = None

    def tell(self, share: float) -> None:
        """How much is done."""
        if self.progress is not None:
            self.progress(share)


@dataclass(frozen=True, slots=True, repr=False)
class Identification:
    """What a fit found."""

    family: Family
    candidate: Candidate
    choice: Choice
    chain: Chain
    gate: Gate | None
    notes: tuple[str, ...]


class Reader(Protocol):
    """Makes the history, for a period and a choice between mean and last reading."""

    def __call__(self, period: Period | None, last: bool) -> History:
        """The history on this period."""
        ...


def resample_held_readings(read: Reader, period: Period | None, has_time: bool) -> tuple[History, Plain | None]:
    """The history, resampled to the true period of sample-and-hold sensors where that is regular.

    The second result says how rows were resampled; None if they were not.
    """
    history = read(period=period, last=False)
    if history.resampled:
        return history, {"period": history.period, "how": "mean"}
    if history.dim == 0:
        return history, None
    true, notes = hold_period(history)
    if true is None or period is not None or not has_time:
        return history.having(history.segments, *notes), None
    history = read(period=true, last=True)
    return replace(history, notes=(*notes, *history.notes)), {"period": history.period, "how": "last"}


def identify(
    history: History, settings: Settings, segment: str | list[str] | None = None, resampling: Plain | None = None
) -> Identification:
    """Fit, choose and test on a history."""
    settings.tell(0.02)
    public = bool(history.public)
    cells, found = channels(history, settings.grid, ends=not public)
    places = [decimals(column) for column in history.stacked()[0].T]
    forms = [form(column) for column in history.stacked()[0].T]
    if settings.grid == "auto":
        cells, coarsened = coarsen(history, cells, forms)
        found = (*found, *coarsened)
    history, moved = snap_to_grid(history, cells)
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
    candidate = put_on_grid(classes[choice.key](train), cells)
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
    notes += [*describe_chain(chain), choice.reason, *offered, *candidate.notes]
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
        "gate": None if verdict is None else verdict.to_plain(),
        "notes": notes,
    }
    family = Family(dict(candidate.models), values=history.values, prior=chain.prior, about=about)
    return Identification(family, candidate, choice, chain, verdict, tuple(notes))


def _split(history: History, holdout: float | None) -> tuple[History, History | None]:
    if holdout is None or holdout == 0.0:
        return history, None
    if isinstance(holdout, bool) or not isinstance(holdout, (int, float)) or not 0.0 < holdout <= 0.9:
        raise ConfigurationError(f"holdout = {holdout!r}; it is a share of the time, from 0 to 0.9")
    return history.split(float(holdout))


def _gate(candidate: Candidate, held: History, random_state: Seed) -> Gate:
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
    classes = makers(train, "free", settings.order, settings.random_state)
    if choice.key in classes:
        return None
    (maker,) = classes.values()
    try:
        found = maker(train)
    except UnderstudyError:  # too few readings, say: then there is nothing to offer
        return None
    return None if obstacle(found, cells) else put_on_grid(found, cells)


def _offer(candidate: Candidate, verdict: Gate, other: Candidate, second: Gate) -> str:
    failed = f"{len(verdict.failed)} of {len(verdict.verdicts)} tests of {candidate.name} fail on held-out time"
    if second.passed:
        return f"{failed}; {other.name} passes all, and was taken instead"
    return f"{failed}; {other.name} was tried instead, and {len(second.failed)} of its tests fail too"


def _about(
    history: History,
    offset: Offset | None,
    cells: Channels,
    places: list[int | None],
    segment: str | list[str] | None,
    resampling: Plain | None,
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


# `us.fit`, and `us.Identifier`, the scikit-learn shaped class under it -------------------------------


def fit(
    frame: Frame | Table,
    *,
    reading: Names,
    private: str,
    time: str | None = None,
    segment: Names | None = None,
    period: Period | None = None,
    bins: BinsLike | None = None,
    public: Names = (),
    actuators: Names = (),
    model: Names = "auto",
    grid: Steps = "auto",
    order: Orders = (1, 2),
    holdout: float | None = 0.25,
    random_state: Seed = 0,
    progress: Progress | None = None,
) -> Family:
    """A family from labelled history: readings in a dataframe, with the private parameter beside them.

    `reading`, `private`, `time`, `segment` and `public` name columns; see `identify.resample.intake` for what
    they may hold, and for `period`, `bins` and `actuators`. `model` is "auto", the name of a model class, or several;
    the best on held-out blocks of time is taken. `grid` is "auto", None, or the step of each channel. `order` gives the
    orders of autoregression to try, `holdout` the last share of the time, on which the fit is tested. The family's
    `about` says what was found and done.

    >>> import numpy as np
    >>> import understudy as us
    >>> def room(people):
    ...     return us.GaussMarkov(A=0.9, C=1.0, Q=4.0, R=1.0, b=40.0 + 10.0 * people, mean0=400.0, cov0=9.0)
    >>> people = np.repeat([0, 1, 0, 1, 0, 1, 0, 1], 150)
    >>> co2 = us.sample(us.Family(room, [0, 1]).along(people.tolist()), people.size, rng=1)
    >>> family = fit({"co2": co2, "people": people}, reading="co2", private="people", period=60, model="grey-box")
    >>> family, family.values
    (Family(2 values, dim=1), (0, 1))
    >>> family.about["model"]["name"], family.about["period"]
    ('grey-box', 60.0)
    """
    made = Identifier(
        reading=reading,
        private=private,
        time=time,
        segment=segment,
        period=period,
        bins=bins,
        public=public,
        actuators=actuators,
        model=model,
        grid=grid,
        order=order,
        holdout=holdout,
        random_state=random_state,
        progress=progress,
    )
    return made.fit(frame).family_


class Identifier:
    """Identification with the manners of a scikit-learn estimator; the parameters are those of `fit`.

    `reading=None` takes every column that has no other part. `fit(X, y)` takes labels from `y` where it is given; X may
    then be an array (T, d) of readings.

    After `fit`: `family_`, `params_` (parameters of the model), `table_` (the comparison of model classes), `chain_`,
    `gate_` (the test on held-out time, None without one), `notes_`.

    >>> Identifier(reading="co2", private="people").get_params()["holdout"]
    0.25
    """

    family_: Family
    params_: dict[str, Any]
    table_: Choice
    chain_: Chain
    gate_: Gate | None
    notes_: tuple[str, ...]

    def __init__(
        self,
        *,
        reading: Names | None = None,
        private: str = "label",
        time: str | None = None,
        segment: Names | None = None,
        period: Period | None = None,
        bins: BinsLike | None = None,
        public: Names = (),
        actuators: Names = (),
        model: Names = "auto",
        grid: Steps = "auto",
        order: Orders = (1, 2),
        holdout: float | None = 0.25,
        random_state: Seed = 0,
        progress: Progress | None = None,
    ) -> None:
        self.reading = reading
        self.private = private
        self.time = time
        self.segment = segment
        self.period = period
        self.bins = bins
        self.public = public
        self.actuators = actuators
        self.model = model
        self.grid = grid
        self.order = order
        self.holdout = holdout
        self.random_state = random_state
        self.progress = progress

    def __repr__(self) -> str:
        fresh = type(self)().get_params()
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if k != "progress" and not _same(v, fresh[k])]
        return f"{type(self).__name__}({', '.join(changed)})"

    @classmethod
    def _names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; `deep` is there for scikit-learn."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Identifier:
        """Change parameters; returns self."""
        for name, value in params.items():
            if name not in self._names():
                raise ConfigurationError(f"{name!r} is no parameter of {type(self).__name__}; it has {self._names()!r}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import InputTags, Tags, TargetTags

        # times need not be numbers, and readings may be missing
        inputs = InputTags(allow_nan=True, string=True, categorical=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=inputs)

    def fit(self, X: Data, y: Column | None = None) -> Identifier:
        """Learn from a frame with labels in it, or from a frame or an array of readings with labels in `y`."""
        table = _with_labels(X, y, self.private, self.reading)
        readings = self._readings(table)

        def read(period: Period | None, last: bool) -> History:
            return intake(
                table,
                reading=readings,
                private=self.private,
                time=self.time,
                segment=self.segment,
                period=period,
                bins=self.bins,
                public=self.public,
                actuators=self.actuators,
                last=last,
            )

        history, resampling = resample_held_readings(read, self.period, self.time is not None)
        settings = Settings(self.model, self.grid, self.order, self.holdout, self.random_state, self.progress)
        segment = self.segment if self.segment is None or isinstance(self.segment, str) else list(self.segment)
        found = identify(history, settings, segment, resampling)
        self.family_, self.params_ = found.family, dict(found.candidate.parameters)
        self.table_, self.chain_, self.gate_, self.notes_ = found.choice, found.chain, found.gate, found.notes
        return self

    def score(self, X: Data, y: Column | None = None) -> float:
        """Mean log-density of the readings of another frame under the fitted family, in nats a reading."""
        from understudy.identify.selection import log_densities

        if not hasattr(self, "family_"):
            raise ConfigurationError("the identifier is not fitted yet; call fit first")
        history = self.read(X, y)
        models = {value: self.family_.model(value) for value in self.family_.values}
        found = np.concatenate(log_densities(models, history))
        return float(np.nanmean(found))

    def read(self, X: Data, y: Column | None = None) -> History:
        """Another frame as a history, treated as the one that was fitted: period, bins, grid and public offset."""
        if not hasattr(self, "family_"):
            raise ConfigurationError("the identifier is not fitted yet; call fit first")
        return read_again(_with_labels(X, y, self.private, self.reading), self.family_)

    def _readings(self, table: Table) -> tuple[str, ...]:
        if self.reading is not None:
            return (self.reading,) if isinstance(self.reading, str) else tuple(self.reading)
        others = {self.private, self.time}
        for names in (self.segment or (), self.public):
            others |= {names} if isinstance(names, str) else set(names)
        return tuple(name for name in table.names if name not in others)


def _same(one: T, other: T) -> bool:
    return one is other or (type(one) is type(other) and bool(np.all(one == other)))


def _with_labels(X: Data, y: Column | None, private: str, reading: Names | None) -> Table:
    if isinstance(X, Table):
        return X
    if isinstance(X, np.ndarray):
        array = X[:, None] if X.ndim == 1 else X
        if array.ndim != 2:
            raise ConfigurationError(f"X has shape {X.shape}; an array of readings is (T,) or (T, d)")
        names = [f"y{k}" for k in range(array.shape[1])] if reading is None else _tuple(reading)
        if len(names) != array.shape[1]:
            raise ConfigurationError(f"reading names {len(names)} columns and X has {array.shape[1]}; they must agree")
        X = dict(zip(names, array.T, strict=True))
    table = Table(X)
    return table if y is None else table.having(private, y)


def _tuple(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


# A fitted family as a file ------------------------------------------------------------------------


KIND, VERSION = "family", 1


def save_family(family: Family, path: str | os.PathLike[str]) -> str:
    """Write a family with all that is known about it, whole or not at all; returns the fingerprint of the file.

    >>> import os, tempfile
    >>> import understudy as us
    >>> family = us.Family({0: us.IID(us.Gaussian(0.0, 1.0)), 1: us.IID(us.Gaussian(3.0, 1.0))}, about={"period": 60.0})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_family(family, os.path.join(folder, "family.json"))
    ...     loaded = load_family(os.path.join(folder, "family.json"))
    >>> loaded, loaded.about
    (Family(2 values, dim=1), {'period': 60.0})
    """
    if not isinstance(family, Family):
        raise ConfigurationError(f"family is of type {type(family).__name__}; it must be a Family")
    return serialize.write(path, {"family": family.to_dict()}, KIND, VERSION)


def load_family(path: str | os.PathLike[str]) -> Family:
    """Read a family that `save_family` wrote, and check it."""
    content = serialize.read(path, KIND, [VERSION]).content
    if content.keys() != {"family"}:
        raise StoredFileError(f"{os.fspath(path)!s}: the fields are not those of a family")
    try:
        return Family.from_dict(content["family"])
    except StoredFileError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, ConfigurationError) as error:
        # never the content: only which kind of thing was wrong
        raise StoredFileError(
            f"{os.fspath(path)!s}: the family does not hold together ({type(error).__name__}); "
            "it was not written by this program, or by another version of it"
        ) from None


# Other data of the same sensor --------------------------------------------------------------------


def read_again(frame: Frame | Table, family: Family) -> History:
    """A frame as a history for this family: its columns, period, bins and grid, the public offset taken off.

    What differs is refused: columns that are missing, labels that the family does not have, rows of a coarser period.
    """
    about = family.about
    if about is None or "readings" not in about:
        raise ConfigurationError("the family does not say which columns it was made of; only one from us.fit does")
    table = frame if isinstance(frame, Table) else Table(frame)
    resampling = about["resampling"] or {}
    public = () if about["public"] is None else tuple(about["public"]["columns"])
    history = intake(
        table,
        reading=about["readings"],
        private=about["private"],
        time=about["time"],
        segment=about["segment"],
        period=about["period"],
        bins=None if about["bins"] is None else Bins.from_plain(about["bins"]),
        public=tuple(dict.fromkeys(CLOCK if name in clock_names() else name for name in public)),
        last=resampling.get("how") == "last",
        values=family.values,
    )
    if about["grid"] is not None:
        cells = tuple(None if cell is None else Cells(**cell) for cell in about["grid"])
        history, moved = snap_to_grid(history, cells)
        history = history.having(history.segments, *moved)
    return history if not public else without_offset(history, Offset.from_plain(about["public"]))
