"""What a release must be good enough for, said before anybody looks at it.

A criterion is an analysis that somebody means to make with synthetic rows, and how far its answer may lie from that of
real rows. A file holds a list of them:

    [[criteria]]
    kind = "cross-tab"
    name = "planning of wards"
    columns = ["ward", "outcome"]
    tolerance = 0.05

`judging` compares the answers.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from understudy import codec, files
from understudy.errors import EvaluationError
from understudy.evaluation.learners import Learner

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Classifier", "Criteria", "Criterion", "CrossTab", "Means", "Regression", "Score", "load_criteria"]


class Score(enum.Enum):
    """How a classifier is scored on real rows."""

    ACCURACY = "accuracy"
    BALANCED_ACCURACY = "balanced accuracy"
    AUROC = "macro AuROC"


@dataclass(frozen=True)
class CrossTab:
    """The shares of a contingency table.

    Args:
        name: what it is needed for.
        columns: one to three columns; numbers are cut into ten bins that hold equally many synthetic rows.
        tolerance: the largest total variation, from 0 (equal) to 1 (disjoint).
    """

    kind: ClassVar[str] = "cross-tab"
    name: str
    columns: tuple[str, ...]
    tolerance: float

    def __post_init__(self) -> None:
        _check(self.name, self.tolerance, self.columns)
        if len(self.columns) > 3:
            raise EvaluationError(f"a cross-tab has one to three columns, got {len(self.columns)}.")


@dataclass(frozen=True)
class Means:
    """The mean of a number in each group.

    Args:
        name: what it is needed for.
        of: a numeric column.
        by: the column that makes the groups; those with less than 1 % of the synthetic rows are not compared.
        tolerance: the largest difference of a group's means, in the unit of the column (seconds for moments).
    """

    kind: ClassVar[str] = "means"
    name: str
    of: str
    by: str
    tolerance: float

    def __post_init__(self) -> None:
        _check(self.name, self.tolerance, (self.of, self.by))


@dataclass(frozen=True)
class Regression:
    """The coefficients of a linear regression.

    Args:
        name: what it is needed for.
        of: a numeric column, or one of two categories, of which the second counts as 1.
        on: what explains it; categories stand against the first one.
        tolerance: the largest difference of a standardised coefficient: how many of its deviations the explained
            column moves when an explaining one moves by one of its own.
    """

    kind: ClassVar[str] = "regression"
    name: str
    of: str
    on: tuple[str, ...]
    tolerance: float

    def __post_init__(self) -> None:
        _check(self.name, self.tolerance, (self.of, *self.on))
        if not self.on:
            raise EvaluationError(f"criterion {self.name!r}: a regression needs a column to regress on.")


@dataclass(frozen=True)
class Classifier:
    """What a classifier trained on synthetic rows reaches on real ones.

    Args:
        name: what it is needed for.
        at_least: the least score that will do.
        learner: the kind of classifier.
        score: how it is scored.
    """

    kind: ClassVar[str] = "classifier"
    name: str
    at_least: float
    learner: Learner = Learner.LOGISTIC_REGRESSION
    score: Score = Score.ACCURACY

    def __post_init__(self) -> None:
        _check(self.name, self.at_least, ())


Criterion = CrossTab | Means | Regression | Classifier


@dataclass(frozen=True)
class Criteria:
    """Everything that a release must be good enough for."""

    criteria: tuple[Criterion, ...]

    def __post_init__(self) -> None:
        if not self.criteria:
            raise EvaluationError("a file of criteria needs at least one [[criteria]] table.")
        repeated = [name for name, count in Counter(one.name for one in self.criteria).items() if count > 1]
        if repeated:
            raise EvaluationError(f"criteria need names of their own; {repeated[0]!r} occurs more than once.")


def load_criteria(path: Path) -> Criteria:
    """Read a TOML file of criteria.

    Raises:
        EvaluationError: the file cannot be read or does not hold criteria.
    """
    return codec.from_toml(Criteria, files.read_text(path, error=EvaluationError), error=EvaluationError)


def _check(name: str, limit: float, columns: tuple[str, ...]) -> None:
    if not name.strip():
        raise EvaluationError("a criterion needs a name: what the data is needed for.")
    if not (math.isfinite(limit) and limit > 0):
        raise EvaluationError(f"criterion {name!r}: the limit must be a positive number, got {limit}.")
    if len(set(columns)) < len(columns):
        raise EvaluationError(f"criterion {name!r} names a column twice: {', '.join(columns)}.")
