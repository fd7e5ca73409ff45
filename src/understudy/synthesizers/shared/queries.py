"""PRIVATE: how many records there are, in all and in each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.door.query import Batch

__all__ = ["LabelCounts", "RowCount", "of_known_class"]

_MANY = 2**16


def of_known_class(labels: Tensor, classes: int) -> Tensor:
    """PRIVATE: which records have a label from 0 to classes − 1; by every query, any other counts nowhere."""
    return (labels >= 0) & (labels < classes)


class RowCount:
    """The number of records: one record adds one."""

    rows_at_once: ClassVar[int] = _MANY
    sensitivity: ClassVar[float] = 1.0

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(1, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: count a batch."""
        sums[0] += len(batch)


class LabelCounts:
    """The number of records of each class: one record adds one to one count.

    Args:
        classes: how many.
    """

    rows_at_once: ClassVar[int] = _MANY
    sensitivity: ClassVar[float] = 1.0

    def __init__(self, classes: int) -> None:
        self._classes = classes

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(self._classes, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: count the labels of a batch."""
        assert batch.labels is not None
        known = batch.labels[of_known_class(batch.labels, self._classes)]
        sums[0] += torch.bincount(known, minlength=self._classes)
