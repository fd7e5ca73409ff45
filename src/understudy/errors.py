"""Every exception that Understudy raises on purpose, as one tree.

UnderstudyError
├── SchemaError          the public description of the data is wrong or incomplete
├── DataError            private or public records do not fit the schema, or cannot be read
├── MissingDataset       a known public data set is not on this machine
├── BudgetError          a privacy budget is impossible, unsafe, or already spent
│   └── LedgerError      the record of what was spent was damaged, rolled back or is held by another
├── PlanError            the settings of a run contradict each other
├── RecipeError          a recipe file does not describe a recipe
├── UnsupportedModel     a critic holds a layer whose private gradient is not defined
├── ReleaseError         a release folder is damaged, foreign, or unsafe to load
│   └── NoSuchRecords    a generator was asked for records that it never makes
├── CheckpointError      a checkpoint cannot be written or resumed
├── CallError            a function was called with arguments that it does not take
├── OutOfMemory          a private step does not fit in memory, however it is cut
├── RanksError           the processes of one run disagree, or one of them is lost
├── PartsError           parts of a fit are missing, doubled, or not those of its round
├── ContractError        a synthesizer does not keep what every synthesizer promises
├── Interrupted          a run was asked to stop, and stopped in order
├── StudioError          a page of the studio was asked for something that it does not do
└── EvaluationError      a measure was asked of data it is not defined for
    └── TooFewRows       there are too few rows for a measure to say anything

One warning, `CuratorWarning`, tells the person who holds the data what nobody else may see.

Messages say what was wrong, the value that was seen unless it is private, and what to do. The command line prints
them without a traceback and exits with code 1 (2 for wrong usage, which typer itself reports).
"""

from __future__ import annotations

__all__ = [
    "BudgetError",
    "CallError",
    "CheckpointError",
    "ContractError",
    "CuratorWarning",
    "DataError",
    "EvaluationError",
    "FileError",
    "Interrupted",
    "LedgerError",
    "MissingDataset",
    "OutOfMemory",
    "PartsError",
    "PlanError",
    "RanksError",
    "RecipeError",
    "ReleaseError",
    "SchemaError",
    "StudioError",
    "TooFewRows",
    "UnderstudyError",
    "UnsupportedModel",
]


class UnderstudyError(Exception):
    """Base class of every error that is meant to be read by a person."""


class SchemaError(UnderstudyError):
    """The public description of the data is wrong or incomplete."""


class DataError(UnderstudyError):
    """Records do not fit the schema, or cannot be read.

    The message names files, columns and row numbers, never a cell or a count, so it may stand on a screen that
    others see. What the rows hold is kept apart.

    Args:
        message: what was wrong and what to do.
        private_detail: PRIVATE: the cells behind it. Only `understudy schema check` shows them.
    """

    def __init__(self, message: str, private_detail: str | None = None) -> None:
        super().__init__(message)
        self.private_detail = private_detail


class MissingDataset(UnderstudyError):  # noqa: N818 - reads as what it is
    """A known public data set is not on this machine."""


class BudgetError(UnderstudyError):
    """A privacy budget is impossible, unsafe, or already spent."""


class LedgerError(BudgetError):
    """The record of what was spent was damaged, rolled back, or is held by another process."""


class PlanError(UnderstudyError):
    """The settings of a run contradict each other."""


class RecipeError(UnderstudyError):
    """A recipe file does not describe a recipe."""


class UnsupportedModel(UnderstudyError):  # noqa: N818 - reads as what it is
    """A critic holds a layer whose per-record gradient is not defined."""


class ReleaseError(UnderstudyError):
    """A release folder is damaged, foreign, or unsafe to load."""


class NoSuchRecords(ReleaseError):  # noqa: N818 - says what it is
    """A generator was asked for records that it never makes."""


class CallError(UnderstudyError, TypeError):
    """A function of the library was called with arguments that it does not take."""


class CheckpointError(UnderstudyError):
    """A checkpoint cannot be written or resumed."""


class RanksError(UnderstudyError):
    """The processes of one run disagree, or one of them is lost."""


class PartsError(UnderstudyError):
    """Parts that were counted apart are missing, doubled, or not those of this round of a fit."""


class ContractError(UnderstudyError):
    """A synthesizer does not keep what every synthesizer promises."""


class FileError(UnderstudyError):
    """A file cannot be written, or is not one that is read."""


class OutOfMemory(UnderstudyError):  # noqa: N818 - reads as what it is
    """A private step does not fit in memory, however it is cut."""


class Interrupted(UnderstudyError):  # noqa: N818 - reads as what it is
    """A run was asked to stop, and stopped in order."""


class CuratorWarning(UserWarning):
    """Something about PRIVATE records, for the eyes of whoever holds them: in no log, no ledger and no release."""


class StudioError(UnderstudyError):
    """A page of the studio was asked for something that it does not do."""


class EvaluationError(UnderstudyError):
    """A measure was asked of data it is not defined for."""


class TooFewRows(EvaluationError):  # noqa: N818 - reads as what it is
    """There are too few rows for a measure to say anything."""
