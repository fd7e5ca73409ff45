"""PRIVATE: what an evaluation asks of real test rows, as bounded sums.

`MeasureCounts` is one vector of counts. One row adds one to each of:

| count | how many entries a row touches |
|---|---|
| the number of rows | 1 |
| rows that the classifier gets right, and wrong | 1 |
| for each class, a histogram of its score over 20 bins, apart for members and others | number of classes |
| for tables, the one-way marginal of each column | number of columns |

so adding or removing a row moves the vector by √(2 + classes + columns) in the L2 norm. `RightAnswers` is one count.
`CriteriaSums` has one part for each of m criteria, scaled so that a row moves it by one at most: √m in all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from understudy.evaluation.sources import labelled
from understudy.records.encode import Encoded, decode

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    import pandas as pd
    from torch import Tensor

    from understudy.door.query import Batch
    from understudy.evaluation.judging import Questions
    from understudy.evaluation.layout import Layout
    from understudy.schema import Schema

    Floats = npt.NDArray[np.floating[Any]]

__all__ = ["BINS", "CriteriaSums", "MeasureCounts", "RightAnswers", "column_counts"]

BINS = 20
_ROWS_AT_ONCE = 20_000


class MeasureCounts:
    """The counts from which published measures are computed.

    Args:
        schema: of the rows.
        classes: how many the label has.
        layout: the cells of a table's columns, or None.
        predictor: probabilities of classes; trained on synthetic rows only.
    """

    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE

    def __init__(
        self, schema: Schema, classes: int, layout: Layout | None, predictor: Callable[[Floats], Floats]
    ) -> None:
        self._schema, self._classes, self._layout, self._predictor = schema, classes, layout, predictor
        self._columns = () if layout is None else layout.sizes
        self.sensitivity = math.sqrt(2 + classes + len(self._columns))

    def zero(self) -> list[Tensor]:
        """No rows."""
        return [torch.zeros(3 + self._classes * 2 * BINS + sum(self._columns), dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: each row in one cell of every part."""
        assert batch.labels is not None
        encoded = Encoded(batch.x.numpy(), batch.labels.numpy())
        real = labelled(encoded, self._schema)
        probabilities = self._predictor(real.features)
        right = int((probabilities.argmax(axis=1) == real.labels).sum())
        bins = np.clip((probabilities * BINS).astype(int), 0, BINS - 1)
        parts = [np.array([len(real), right, len(real) - right], dtype=float)]
        for label in range(self._classes):
            for member in (False, True):
                chosen = bins[(real.labels == label) == member, label]
                parts.append(np.bincount(chosen, minlength=BINS).astype(float))
        if self._layout is not None:
            frame = decode(encoded.x, encoded.labels, self._schema)
            parts += column_counts(frame, self._layout)  # type: ignore[arg-type]
        sums[0] += torch.from_numpy(np.concatenate(parts))


def column_counts(frame: pd.DataFrame, layout: Layout) -> list[npt.NDArray[np.float64]]:
    """How many rows of a table lie in each cell of each column."""
    codes = layout.codes(frame)
    return [np.bincount(codes[:, j], minlength=size).astype(float) for j, size in enumerate(layout.sizes)]


class RightAnswers:
    """How many rows a classifier gets right, behind a door to their features: one row moves it by one."""

    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE
    sensitivity: ClassVar[float] = 1.0

    def __init__(self, predictor: Callable[[Floats], Floats]) -> None:
        self._predictor = predictor

    def zero(self) -> list[Tensor]:
        """No rows."""
        return [torch.zeros(1, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: count a batch."""
        assert batch.labels is not None
        guesses = self._predictor(batch.x.numpy()).argmax(axis=1)
        sums[0] += int((guesses == batch.labels.numpy()).sum())


class CriteriaSums:
    """The sums from which all criteria are judged.

    Args:
        questions: made from the release alone.
    """

    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE

    def __init__(self, questions: Questions) -> None:
        self._questions, self.sensitivity = questions, questions.sensitivity

    def zero(self) -> list[Tensor]:
        """No rows."""
        return [torch.zeros(self._questions.size, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add the answers of a batch."""
        labels = None if batch.labels is None else batch.labels.numpy()
        sums[0] += torch.from_numpy(self._questions.sum(Encoded(batch.x.numpy(), labels)))
