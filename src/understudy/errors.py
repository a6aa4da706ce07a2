"""The exception tree.

::

    UnderstudyError
    ├── ConfigurationError (ValueError)    what the user set up is wrong: names the value and the rule
    │   ├── LawError                       parameters of a law
    │   ├── ModelError                     parameters of a model
    │   ├── FamilyError                    values, prior or members of a family
    │   ├── DesignError                    costs, budget or choices of a design
    │   │   ├── InfeasibleError            no randomizer meets the demand
    │   │   └── HorizonMissingError        there is no limit for long sequences: say for how many readings
    │   └── StoredFileError                a stored file that is not what it should be
    ├── ReadingError (ValueError)          a reading is unusable: names position, type and rule, never the value
    │   └── MissingReadingError            a missing reading, and the model has no exact law across it
    ├── StateError (ValueError)            a filter state that does not belong to this filter
    │   └── SnapshotError                  a snapshot that is damaged, of another design or of a newer version
    ├── LedgerError (RuntimeError)         the ledger cannot be used or written; nothing was released
    │   ├── LedgerBusyError                another process has it
    │   ├── LedgerDamagedError             its file is not what it should be
    │   ├── RollbackError                  it, or a snapshot, is older than what was released
    │   └── BudgetError                    the leakage that was allowed is spent
    ├── NumericalError (ArithmeticError)   the arithmetic left the range of float64
    ├── CheckError (AssertionError)        a model or a transformation fails `understudy.checks`
    └── MissingExtraError (ImportError)    an optional package is not installed: says how to install it

    UnderstudyWarning (UserWarning)
    └── IncompleteReadingWarning           vectors with some channels missing were counted as missing whole

Configuration errors may show the offending value, because a configuration is not secret. Errors
raised while readings flow never do: a reading, a score or a parameter must not reach a log.
"""

from __future__ import annotations


class UnderstudyError(Exception):
    """Base of every error that this package raises on purpose."""


class ConfigurationError(UnderstudyError, ValueError):
    """Something the user set up breaks a rule; the message names the value and the rule."""


class LawError(ConfigurationError):
    """The parameters of a law break a rule."""


class ModelError(ConfigurationError):
    """The parameters of a model break a rule."""


class FamilyError(ConfigurationError):
    """The values, the prior or the members of a family break a rule."""


class DesignError(ConfigurationError):
    """The costs, the budget or a choice of a design breaks a rule."""


class InfeasibleError(DesignError):
    """No randomizer meets the demand; the message says by how much it fails."""


class HorizonMissingError(DesignError):
    """The distortion or the leakage has no limit for long sequences; a horizon must say for how many readings."""


class StoredFileError(ConfigurationError):
    """A stored file is damaged, of another kind or of another version, or does not fit what it is used with."""


class ReadingError(UnderstudyError, ValueError):
    """A reading cannot be used; the message names its position, its type and the rule, never its value."""


class MissingReadingError(ReadingError):
    """A reading is missing and the model has no exact law for what follows."""


class StateError(UnderstudyError, ValueError):
    """A state does not belong to the filter it was given to."""


class SnapshotError(StateError):
    """A snapshot is damaged, belongs to another design or comes from a newer version."""


class LedgerError(UnderstudyError, RuntimeError):
    """The ledger cannot be used or written; what was not recorded was not released."""


class LedgerBusyError(LedgerError):
    """Another process has the ledger."""


class LedgerDamagedError(LedgerError):
    """The file of the ledger is not what it should be."""


class RollbackError(LedgerError):
    """The ledger or the snapshot is older than what was released: to go on from it would leak."""


class BudgetError(LedgerError):
    """The leakage that was allowed is spent.

    `released` holds the outputs of the readings of the call before that, where there are any; they are recorded.
    """

    def __init__(self, message: str = "", released: object = None) -> None:
        super().__init__(message)
        self.released = released


class NumericalError(UnderstudyError, ArithmeticError):
    """The arithmetic left the range of double precision; `row` is where, if it is about one row of several.

    >>> error = NumericalError("the reading is too far out", row=3)
    >>> error.row, str(error)
    (3, 'row 3: the reading is too far out')
    """

    def __init__(self, message: str = "", row: int | None = None) -> None:
        super().__init__(message if row is None else f"row {row}: {message}")
        self.message, self.row = message, row


class CheckError(UnderstudyError, AssertionError):
    """A model or a transformation does not satisfy `understudy.checks`."""


class MissingExtraError(UnderstudyError, ImportError):
    """An optional package is needed; the message says how to install it."""


class UnderstudyWarning(UserWarning):
    """Base of every warning that this package gives."""


class IncompleteReadingWarning(UnderstudyWarning):
    """Readings with some channels missing were counted as missing whole."""
