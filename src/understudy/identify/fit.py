"""Identification: from a labelled history to a family of models, `us.fit`.

A fit goes from a `History` to a `Family` in these steps:

1. The grid of each channel is detected, and readings are moved to it (`identify.grid`).
2. The last part of the time is held out (`History.split`).
3. The offset by public inputs is fitted and taken off (`identify.public_inputs`).
4. The model classes are compared on held-out blocks, and the best is chosen (`identify.selection`).
5. The class is fitted to all of the training data, and its models are put on the grid.
6. The gate attacks the scores of readings that took no part in a fit (`identify.gate`). If they tell the private value
   and the model is "auto", an autoregression whose noise has no assumed shape is tried in its place.

Before that, readings of a sample-and-hold sensor are resampled to its true period (`resample_held_readings`).

`Identifier` has the form of a scikit-learn estimator and does not need scikit-learn: the constructor stores its
arguments, `fit` learns and returns self, and the names of what was learned end in an underscore. `save_family` and
`load_family` store a family as parameters, never as code. `read_again` reads other data of the same sensor as the
history of the family was read, for tests on held-out files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from understudy import serialize, text
from understudy._types import Array, Period, Plain, Progress, Seed, Value
from understudy.errors import ConfigurationError, MissingReadingError, StoredFileError, UnderstudyError
from understudy.identify.gate import Gate, gate
from understudy.identify.grid import (
    Cells,
    Channels,
    ManyLimits,
    Steps,
    channels,
    coarsen,
    decimals,
    form,
    hold_period,
    obstacle,
    plain,
    possible_ranges,
    put_on_grid,
    snap_to_grid,
)
from understudy.identify.history import Bins, BinsLike, Chain, History, chain_of
from understudy.identify.public_inputs import CLOCK, Offset, clock_names, fit_offset, without_offset
from understudy.identify.resample import Columns, Names, intake, names_of
from understudy.identify.selection import Choice, MixedValue, choose, log_densities, makers, mixed_values
from understudy.models.family import Family
from understudy.tables.columns import time_names
from understudy.tables.table import Table

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from understudy.identify.candidates import Candidate
    from understudy.models.model import Model
    from understudy.tables.table import Frame
    from understudy.tables.times import Entry

    Data: TypeAlias = Frame | Table | NDArray[np.generic]
    Column: TypeAlias = Sequence[Entry] | NDArray[np.generic]

Orders: TypeAlias = int | Iterable[int]
T = TypeVar("T")


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
    limits: ManyLimits | None = None,
    day_first: bool = False,
) -> Family:
    """A family from labelled history: readings in a dataframe, with the private parameter beside them.

    `reading`, `private`, `time`, `segment` and `public` name columns; see `identify.resample.Columns` for what
    they may hold, and for `period`, `bins` and `actuators`. `model` is "auto", the name of a model class, or several;
    the best on held-out blocks of time is taken. `grid` is "auto", None, or the step of each channel; `limits` are the
    public ends (low, high) of the sensor, None for no end, or one pair for each channel: outputs leave within them, and
    without them within the range of the readings and a margin. `order` gives the orders of autoregression to try,
    `holdout` the last share of the time, on which the fit is tested. The family's `about` says what was found and done.

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
        limits=limits,
        day_first=day_first,
    )
    return made.fit(frame).family_


@dataclass(kw_only=True, repr=False, eq=False)
class Identifier:
    """Identification with the manners of a scikit-learn estimator; the parameters are those of `fit`.

    `reading=None` takes every column that has no other part. `fit(X, y)` takes labels from `y` where it is given; X may
    then be an array (T, d) of readings.

    After `fit`: `family_`, `params_` (parameters of the model), `table_` (the comparison of model classes), `chain_`,
    `gate_` (the test on held-out time, None without one), `notes_`.

    >>> Identifier(reading="co2", private="people").get_params()["holdout"]
    0.25
    """

    reading: Names | None = None
    private: str = "label"
    time: str | None = None
    segment: Names | None = None
    period: Period | None = None
    bins: BinsLike | None = None
    public: Names = ()
    actuators: Names = ()
    model: Names = "auto"
    grid: Steps = "auto"
    order: Orders = (1, 2)
    holdout: float | None = 0.25
    random_state: Seed = 0
    progress: Progress | None = None
    limits: ManyLimits | None = None
    day_first: bool = False
    family_: Family = field(init=False)
    params_: dict[str, Any] = field(init=False)
    table_: Choice = field(init=False)
    chain_: Chain = field(init=False)
    gate_: Gate | None = field(init=False)
    notes_: tuple[str, ...] = field(init=False)

    def __repr__(self) -> str:
        fresh = type(self)().get_params()
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if k != "progress" and not _same(v, fresh[k])]
        return f"{type(self).__name__}({', '.join(changed)})"

    @classmethod
    def _names(cls) -> list[str]:
        return sorted(each.name for each in fields(cls) if each.init)

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
        columns = Columns(
            self._readings(table), self.private, self.time, self.segment, self.period, self.bins, self.public,
            self.actuators, self.day_first,
        )  # fmt: skip
        history, resampling = resample_held_readings(table, columns)
        return self.fit_history(history, resampling, lambda: _columns_beside(table, columns, history, resampling))

    def fit_history(self, history: History, resampling: Plain | None = None, others: Others = dict) -> Identifier:
        """Fit, choose and test on a history; `resampling` says how its rows were put together.

        `others` gives numeric columns beside its rows, by which a value that stands for several may be told.
        """
        tell = self.progress or (lambda _: None)
        tell(0.02)
        columns = history.stack().T
        places, forms = [decimals(column) for column in columns], [form(column) for column in columns]
        notes = text.Notes(history.notes)
        possible = possible_ranges(history, self.limits)
        cells = channels(history, self.grid, notes, ends=not history.public, limits=self.limits)
        if isinstance(self.grid, str) and self.grid == "auto":
            cells = coarsen(history, cells, forms, notes)
        history = snap_to_grid(history, cells, notes)
        train, held = _split(history, self.holdout)
        offset: Offset | None = None
        if history.public:
            offset = fit_offset(train, notes)
            offset = replace(offset, steps=tuple(None if cell is None else cell.step for cell in cells))
            train, held = without_offset(train, offset), None if held is None else without_offset(held, offset)
        chain = chain_of(history)
        tell(0.05)
        classes = makers(train, self.model, self.order, self.random_state)
        choice = choose(
            train,
            classes,
            unusable=lambda candidate: obstacle(candidate, cells),
            wanted=next(iter(classes)) if len(classes) == 1 else None,
            progress=lambda share: tell(0.05 + 0.75 * share),
        )
        candidate = put_on_grid(classes[choice.key](train), cells)
        tell(0.85)
        verdict = None if held is None else self._gate(candidate, choice.key, choice, cells, held)
        tell(0.92)
        notes += text.chain_notes(
            chain.values, chain.prior.tolist(), chain.durations.tolist(), chain.period is not None
        )
        notes.append(choice.reason)
        if held is not None and verdict is not None and verdict.outcome == "leak" and self.model == "auto":
            key, other = self._free_noise(choice, train, cells)
            if other is not None:
                second = self._gate(other, key, choice, cells, held, verdict)
                notes.append(text.free_noise_offered(candidate.name, other.name, second.passed))
                if second.passed:
                    candidate, verdict = other, second
        tell(1.0)
        notes += candidate.notes
        if verdict is not None and verdict.warning is not None:
            notes.append(verdict.warning.rstrip("."))
        mixed, untested = mixed_values(candidate.models, train, others, self.random_state)
        for each in mixed:
            notes.add("mixed value", **_mixed_words(each, history))
        for value in _wide_bins(history, untested, others):
            notes.add("wide value", private=history.private, value=repr(value), factor=_WIDE)
        across = all(_crosses_gaps(model) for model in candidate.models.values())
        if not across:
            notes.add("no law across gaps", name=candidate.name)
        about = {
            "readings": list(history.readings),
            "private": history.private,
            "time": history.time,
            "day_first": history.day_first,
            "zone": history.zone,
            "segment": _plain(self.segment),
            "period": history.period,
            "resampling": resampling,
            "public": None if offset is None else offset.to_plain(),
            "grid": plain(cells),
            "decimals": places,
            "possible": [list(ends) for ends in possible],
            **({} if self.limits is None else {"limits": [list(ends) for ends in possible]}),
            "units": None,
            "bins": None if history.bins is None else history.bins.to_plain(),
            "form": forms,
            "chain": chain.to_plain(),
            "model": {
                "name": candidate.name,
                "parameters": _plain(candidate.parameters),
                "count": candidate.count,
                "table": choice.to_plain(),
                "reason": choice.reason,
                "across_gaps": across,
            },
            "gate": None if verdict is None else verdict.to_plain(),
            "notes": list(notes),
        }
        self.family_ = Family(dict(candidate.models), values=history.values, prior=chain.prior, about=about)
        self.params_, self.notes_ = dict(candidate.parameters), tuple(notes)
        self.table_, self.chain_, self.gate_ = choice, chain, verdict
        return self

    def _gate(
        self, candidate: Candidate, key: str, choice: Choice, cells: Channels, held: History, like: Gate | None = None
    ) -> Gate:
        """The gate of a class: as fitted on the held-out time, and fitted without each block on that block."""
        blocks = [(put_on_grid(fitted, cells).models, block) for fitted, block in choice.fits.get(key, ())]
        return gate(candidate.models, held, blocks=blocks, random_state=self.random_state, like=like)

    def _free_noise(self, choice: Choice, train: History, cells: Channels) -> tuple[str, Candidate | None]:
        """The class whose noise has no assumed shape, fitted, unless it was chosen anyway or cannot be used."""
        ((key, maker),) = makers(train, "free", self.order, self.random_state).items()
        if choice.key == key:
            return key, None
        try:
            found = maker(train)
        except UnderstudyError:  # too few readings, say: then there is nothing to offer
            return key, None
        return key, None if obstacle(found, cells) else put_on_grid(found, cells)

    def score(self, X: Data, y: Column | None = None) -> float:
        """Mean log-density of the readings of another frame under the fitted family, in nats a reading."""
        history = self.read(X, y)
        models = {value: self.family_.model(value) for value in self.family_.values}
        return float(np.nanmean(np.concatenate(log_densities(models, history))))

    def read(self, X: Data, y: Column | None = None) -> History:
        """Another frame as a history, treated as the one that was fitted: period, bins, grid and public offset."""
        if not hasattr(self, "family_"):
            raise ConfigurationError("the identifier is not fitted yet; call fit first")
        return read_again(_with_labels(X, y, self.private, self.reading), self.family_)

    def _readings(self, table: Table) -> tuple[str, ...]:
        if self.reading is not None:
            return names_of(self.reading)
        others = {
            self.private,
            *time_names(self.time, table.names),
            *names_of(self.segment or ()),
            *names_of(self.public),
        }
        return tuple(name for name in table.names if name not in others)


Others = Callable[[], Mapping[str, Sequence[Array]]]
"""Gives numeric columns by name, (T,) a segment."""


def _columns_beside(
    table: Table, columns: Columns, history: History, resampling: Plain | None
) -> dict[str, list[Array]]:
    """Numeric columns that have no part, and counts that were put in bins, on the rows of the history."""
    used = {
        *columns.readings,
        columns.private,
        *time_names(columns.time, table.names),
        *names_of(columns.segment or ()),
        *names_of(columns.public),
    }
    names = [name for name in table.names if name not in used and _is_numeric(table, name)]
    if history.bins is not None and _is_numeric(table, columns.private):
        table = table.add_column(_COUNTS, table.numbers(columns.private))
        names.append(_COUNTS)
    if not names:
        return {}
    period = columns.period if resampling is None else history.period
    wanted = replace(columns, reading=tuple(names), period=period, public=(), actuators=())
    try:
        other = intake(table, wanted, last=(resampling or {}).get("how") == "last", values=history.values)
    except UnderstudyError:  # rows that cannot be put beside the readings say nothing
        return {}
    if [len(s) for s in other.segments] != [len(s) for s in history.segments]:
        return {}
    return {name: [s.Y[:, k] for s in other.segments] for k, name in enumerate(names)}


_COUNTS = "the private column itself"
_WIDE = 4  # between the counts of a bin, the tenth and the ninetieth percentile


def _wide_bins(history: History, untested: Iterable[int], others: Others) -> list[Value]:
    """Bins of very different counts that could not be tested for being one value."""
    places = sorted(set(untested)) if history.bins is not None else []
    counts = others().get(_COUNTS) if places else None
    found = []
    for place in places if counts is not None else ():
        parts = zip(counts or (), history.segments, strict=True)
        own = np.concatenate([part[segment.theta == place] for part, segment in parts])
        own = own[np.isfinite(own)]
        if own.size and np.quantile(own, 0.9) >= _WIDE * max(1.0, float(np.quantile(own, 0.1))):
            found.append(history.values[place])
    return found


def _is_numeric(table: Table, name: str) -> bool:
    try:
        return bool(np.isfinite(table.numbers(name)).any())
    except UnderstudyError:
        return False


def _mixed_words(mixed: MixedValue, history: History) -> Plain:
    """What a note says of a value that stands for several, and which column or bins would help."""
    value, advice = history.values[mixed.value], "; no numeric column of the table goes with them"
    if mixed.column == _COUNTS and history.bins is not None and str(value)[:1].isdigit():
        advice = f"; finer bins would tell them apart, such as bins={_finer(history.bins, mixed)!r}"
    elif mixed.column is not None:
        cuts = " and ".join(f"{cut:g}" for cut in mixed.cuts)
        advice = (
            f"; the column {mixed.column!r} goes with them: private={mixed.column!r}, in bins that are cut at {cuts}"
        )
    return {
        "private": history.private, "value": repr(value), "correlation": mixed.correlation, "blocks": mixed.blocks,
        "advice": advice,
    }  # fmt: skip


def _finer(bins: Bins, mixed: MixedValue) -> str:
    """The bins with one of them cut."""
    names = list(bins.names)
    first, _, last = names[mixed.value].replace("+", "-").partition("-")
    cuts = [int(cut) for cut in mixed.cuts if cut > int(first)]
    parts = [f"{a}-{b - 1}" if b - 1 > a else f"{a}" for a, b in pairwise([int(first), *cuts])]
    end = [int(first), *cuts][-1]
    parts.append(f"{end}+" if not last else f"{end}-{last}" if int(last) > end else last)
    return ",".join([*names[: mixed.value], *parts, *names[mixed.value + 1 :]])


def _split(history: History, holdout: float | None) -> tuple[History, History | None]:
    if holdout is None or holdout == 0.0:
        return history, None
    if isinstance(holdout, bool) or not isinstance(holdout, (int, float)) or not 0.0 < holdout <= 0.9:
        raise ConfigurationError(f"holdout = {holdout!r}; it is a share of the time, from 0 to 0.9")
    return history.split(float(holdout))


def _crosses_gaps(model: Model) -> bool:
    """Whether the model has a law for what follows a missing reading."""
    try:
        model.skip(model.start())
    except MissingReadingError:
        return False
    return True


def _plain(x: Any) -> Any:
    """Plain numbers and lists; what is not finite becomes None."""
    if isinstance(x, dict):
        return {str(key): _plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [_plain(value) for value in x]
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, float) and not np.isfinite(x):
        return None
    return x if isinstance(x, (int, float, str, bool)) or x is None else str(x)


def resample_held_readings(table: Table, columns: Columns) -> tuple[History, Plain | None]:
    """The history, resampled to the true period of sample-and-hold sensors where that is regular.

    The second result says how rows were resampled; None if they were not.
    """
    history = intake(table, columns)
    if history.resampled:
        return history, {"period": history.period, "how": "mean"}
    notes = text.Notes()
    true = hold_period(history, notes)
    if true is None or columns.period is not None or columns.time is None:
        return history.add_notes(notes), None
    history = intake(table, replace(columns, period=true), last=True)
    return replace(history, notes=(*notes, *history.notes)), {"period": history.period, "how": "last"}


def _same(one: T, other: T) -> bool:
    return one is other or (type(one) is type(other) and bool(np.all(one == other)))


def _with_labels(X: Data, y: Column | None, private: str, reading: Names | None) -> Table:
    if isinstance(X, Table):
        return X
    if isinstance(X, np.ndarray):
        array = X[:, None] if X.ndim == 1 else X
        if array.ndim != 2:
            raise ConfigurationError(f"X has shape {X.shape}; an array of readings is (T,) or (T, d)")
        names = [f"y{k}" for k in range(array.shape[1])] if reading is None else names_of(reading)
        if len(names) != array.shape[1]:
            raise ConfigurationError(f"reading names {len(names)} columns and X has {array.shape[1]}; they must agree")
        X = dict(zip(names, array.T, strict=True))
    table = Table(X)
    return table if y is None else table.add_column(private, y)


# A fitted family as a file ------------------------------------------------------------------------


KIND, VERSION = "family", 1


def save_family(family: Family, path: str | os.PathLike[str], pseudo: Iterable[Value] = ()) -> str:
    """Write a family with all that is known about it, whole or not at all; returns the fingerprint of the file.

    Models of `pseudo` values, which the private parameter itself never takes, are kept with it.

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
    return serialize.write(path, {"family": family.to_dict(pseudo)}, KIND, VERSION)


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
    columns = columns_of(family)
    table = frame if isinstance(frame, Table) else Table(frame)
    resampling = (family.about or {}).get("resampling") or {}
    history = intake(table, columns, last=resampling.get("how") == "last", values=family.values)
    return align(history, family)


def columns_of(family: Family) -> Columns:
    """The columns that a family was fitted to; only one from `us.fit` has them."""
    about = family.about
    if about is None or "readings" not in about:
        raise ConfigurationError("the family does not say which columns it was made of; only one from us.fit does")
    public, bins = about.get("public"), about.get("bins")
    return Columns(
        reading=about["readings"],
        private=about["private"],
        time=about.get("time"),
        segment=about.get("segment"),
        period=about.get("period"),
        bins=None if bins is None else Bins.from_plain(bins),
        public=tuple(
            dict.fromkeys(CLOCK if name in clock_names() else name for name in (public or {"columns": ()})["columns"])
        ),
        day_first=bool(about.get("day_first")),
    )


def align(history: History, family: Family) -> History:
    """A history as the models of a fitted family take it: on their grid, the public offset taken off."""
    about = family.about or {}
    if about.get("grid") is not None:
        notes = text.Notes()
        cells = tuple(None if cell is None else Cells(**cell) for cell in about["grid"])
        history = snap_to_grid(history, cells, notes).add_notes(notes)
    return history if about.get("public") is None else without_offset(history, Offset.from_plain(about["public"]))
