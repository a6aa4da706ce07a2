"""`us.fit`, and `us.Identifier`, the scikit-learn shaped class under it.

The class follows scikit-learn's conventions without needing it: the constructor only keeps what it is given, `fit`
learns and returns self, what was learned ends in an underscore.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from understudy.errors import ConfigurationError
from understudy.identify.columns import Table
from understudy.identify.history import History
from understudy.identify.identifying import Settings, awake, identified
from understudy.identify.intake import intake
from understudy.models.family import Family

Names = str | Iterable[str]


def fit(
    frame: Any,
    *,
    reading: Names,
    private: str,
    time: str | None = None,
    segment: Names | None = None,
    period: Any = None,
    bins: Any = None,
    public: Names = (),
    actuators: Names = (),
    model: Any = "auto",
    grid: Any = "auto",
    order: Any = (1, 2),
    holdout: float | None = 0.25,
    random_state: Any = 0,
    progress: Callable[[float], None] | None = None,
) -> Family:
    """A family from labelled history: readings in a dataframe, with the private parameter beside them.

    `reading`, `private`, `time`, `segment` and `public` name columns; see `understudy.identify.intake.intake` for what
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
    table_: Any
    chain_: Any
    gate_: Any
    notes_: tuple[str, ...]

    def __init__(
        self,
        *,
        reading: Names | None = None,
        private: str = "label",
        time: str | None = None,
        segment: Names | None = None,
        period: Any = None,
        bins: Any = None,
        public: Names = (),
        actuators: Names = (),
        model: Any = "auto",
        grid: Any = "auto",
        order: Any = (1, 2),
        holdout: float | None = 0.25,
        random_state: Any = 0,
        progress: Callable[[float], None] | None = None,
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

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        # times need not be numbers, and readings may be missing
        inputs = InputTags(allow_nan=True, string=True, categorical=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=inputs)

    def fit(self, X: Any, y: Any = None) -> Identifier:
        """Learn from a frame with labels in it, or from a frame or an array of readings with labels in `y`."""
        table = _with_labels(X, y, self.private, self.reading)
        readings = self._readings(table)

        def read(period: Any, last: bool) -> History:
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

        history, resampling = awake(read, self.period, self.time is not None)
        settings = Settings(self.model, self.grid, self.order, self.holdout, self.random_state, self.progress)
        segment = self.segment if self.segment is None or isinstance(self.segment, str) else list(self.segment)
        found = identified(history, settings, segment, resampling)
        self.family_, self.params_ = found.family, dict(found.candidate.parameters)
        self.table_, self.chain_, self.gate_, self.notes_ = found.choice, found.chain, found.gate, found.notes
        return self

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of the readings of another frame under the fitted family, in nats a reading."""
        from understudy.identify.predicting import log_densities

        if not hasattr(self, "family_"):
            raise ConfigurationError("the identifier is not fitted yet; call fit first")
        history = self.read(X, y)
        models = {value: self.family_.model(value) for value in self.family_.values}
        found = np.concatenate(log_densities(models, history))
        return float(np.nanmean(found))

    def read(self, X: Any, y: Any = None) -> History:
        """Another frame as a history, treated as the one that was fitted: period, bins, grid and public offset."""
        from understudy.identify.again import reread

        if not hasattr(self, "family_"):
            raise ConfigurationError("the identifier is not fitted yet; call fit first")
        return reread(_with_labels(X, y, self.private, self.reading), self.family_)

    def _readings(self, table: Table) -> tuple[str, ...]:
        if self.reading is not None:
            return (self.reading,) if isinstance(self.reading, str) else tuple(self.reading)
        others = {self.private, self.time}
        for names in (self.segment or (), self.public):
            others |= {names} if isinstance(names, str) else set(names)
        return tuple(name for name in table.names if name not in others)


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(np.all(one == other)))


def _with_labels(X: Any, y: Any, private: str, reading: Any) -> Table:
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


def _tuple(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
