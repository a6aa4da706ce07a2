"""A design as a transformer of scikit-learn: `Disguiser` (extra `sklearn`, with pyarrow).

A pipeline calls `transform` on the same rows again and again, and two outputs for one row leak. So the transformer
stands on a ledger: rows that were disguised before get the outputs of then, at no charge, and other rows continue the
sequence under the same draw. It cannot be pickled once it is fitted, since a copy would go on with the same key on
other rows.

Each clone is another transformer with another draw: a cross-validation of ten folds draws ten times, and nobody counts
that unless they share a `ledger`, one after the other.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.apply.apply_file import apply_frame
from understudy.apply.binding import FileDesign, bind, family_of
from understudy.errors import ConfigurationError, MissingExtraError
from understudy.stream.ledger import Ledger
from understudy.tables.columns import require_pyarrow

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtraError(
        'us.sklearn needs scikit-learn, 1.6 or newer (the extra `sklearn`): pip install "understudy[sklearn,arrow]"'
    ) from None


class Disguiser(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Disguises readings as a step of a pipeline.

    The readings of a row and its private value are columns of X; what leaves is the disguised readings alone. Rows
    stand in the order of time. The draw is made with the first rows that are transformed, once. Rows that come again
    get the outputs that they had.

    Parameters
    ----------
    design : Design or CausalDesign
        What the rows are disguised by.
    private : str or int
        The column of the private value, by name or by position; by default that of the family.
    reading : str, int or sequence of them, optional
        The columns of the readings; by default those of the family, or all others.
    ledger : path, optional
        Where draws and outputs are recorded. Without it they are kept in a private folder as long as the transformer.
    accept_misfit : bool
        Whether a family that did not pass its gate is accepted.

    Attributes
    ----------
    ``n_features_in_`` : int
        Columns of X, readings and private value together.
    ``feature_names_in_`` : array of str
        Their names, where X had names.

    Examples
    --------
    >>> import numpy as np
    >>> import understudy as us
    >>> family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.1, 0.1, b=v), values=[0, 1])
    >>> design = us.design(family, leakage=0.1, horizon=50, distortion="mae")
    >>> X = np.column_stack([us.sample(family.model(1), 100, rng=1), np.ones(100)])
    >>> disguiser = Disguiser(design, private=1).fit(X)
    >>> first = disguiser.transform(X)
    >>> first.shape, bool((disguiser.transform(X) == first).all())
    ((100, 1), True)

    """

    def __init__(
        self,
        design: FileDesign,
        *,
        private: str | int | None = None,
        reading: str | int | Sequence[str | int] | None = None,
        ledger: str | os.PathLike[str] | None = None,
        accept_misfit: bool = False,
    ) -> None:
        self.design, self.private, self.reading, self.ledger = design, private, reading, ledger
        self.accept_misfit = accept_misfit

    def fit(self, X: Any, y: Any = None) -> Disguiser:
        """Find the columns; nothing is drawn yet, and nothing is learned from the rows.

        Parameters
        ----------
        X : array or dataframe of shape (n, columns)
            Readings and private values.
        y : ignored
            There for pipelines.

        Returns
        -------
        Disguiser
            Itself.

        Raises
        ------
        ConfigurationError
            If a column is not there.

        """
        validate_data(self, X, reset=True, **_AS_IT_IS)
        names = self._names()
        if len(names) < 2:
            raise ConfigurationError(f"X has n_features = {len(names)}; a row has readings and a private value")
        about = family_of(self.design).about or {}
        private = self._name(names, "private", about.get("private") if self.private is None else self.private)
        others = [name for name in names if name != private]
        given = (about.get("readings") or others) if self.reading is None else self.reading
        several = [given] if isinstance(given, (str, int)) else list(given)
        self._readings = [self._name(names, "reading", each) for each in several]
        self._private = private
        bind(self.design, self._readings, private, "", "")  # refuses what is no binding, before anything is drawn
        if not hasattr(self, "_kept"):
            self._kept = self._open()
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Disguise rows, or find the outputs that they had.

        Parameters
        ----------
        X : array or dataframe of shape (n, columns)
            Rows in the order of time, those of one recording in one call.

        Returns
        -------
        array of shape (n, channels)
            Disguised readings; NaN where a reading is missing.

        """
        check_is_fitted(self)
        found = validate_data(self, X, reset=False, **_AS_IT_IS)
        pa = require_pyarrow("us.sklearn")
        wanted = [*self._readings, self._private]
        places = [self._names().index(name) for name in wanted]
        frame = pa.table({name: pa.array(found[:, at].tolist()) for name, at in zip(wanted, places, strict=True)})
        made = apply_frame(
            self.design, frame, reading=self._readings, private=self._private, time="", segment="",
            ledger=self._kept, accept_misfit=self.accept_misfit,
        )  # fmt: skip
        return np.column_stack([np.asarray(made[name], dtype=float) for name in self._readings])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the readings."""
        check_is_fitted(self)
        return np.array(self._readings, dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "_kept"):
            raise TypeError(
                "a Disguiser that was fitted cannot be pickled or copied: the copy would have its key, and would play "
                "the same draw on other rows; give ledger=, and make it anew from the design"
            )
        state: dict[str, Any] = super().__getstate__()
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_readings")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic, tags.input_tags.allow_nan, tags.input_tags.string = True, True, True
        return tags

    def _names(self) -> list[str]:
        """Columns by their names, those of an array by numbers."""
        named: Sequence[str] | None = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if named is None else list(named)

    @staticmethod
    def _name(names: list[str], role: str, given: str | int | None) -> str:
        if isinstance(given, int) and -len(names) <= given < len(names):
            return names[given]
        if given not in names:
            raise ConfigurationError(f"{role} = {given!r}; X has {len(names)} columns, and none of them is that")
        return str(given)

    def _open(self) -> Ledger:
        """The ledger of the user, or one in a private folder; it is closed with the transformer."""
        folder = None if self.ledger is not None else tempfile.TemporaryDirectory(prefix="understudy-")
        if folder is None:
            kept = Ledger(os.fspath(self.ledger or ""))
        else:
            kept = Ledger(os.path.join(folder.name, "disguiser.ledger"), rollback_guard=False)
        weakref.finalize(self, _close, kept, folder)
        return kept


_AS_IT_IS: dict[str, Any] = {"dtype": None, "ensure_all_finite": "allow-nan"}


def _close(ledger: Ledger, folder: tempfile.TemporaryDirectory[str] | None) -> None:
    ledger.close()
    if folder is not None:
        folder.cleanup()


__all__ = ["Disguiser"]
