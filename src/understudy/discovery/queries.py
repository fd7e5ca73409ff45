"""PRIVATE: the counts from which bounds are chosen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.discovery.bins import Bins
    from understudy.door.query import Batch

__all__ = ["BinCounts"]


class BinCounts:
    """How many rows lie in each group of each level of a column's bins.

    Args:
        column: of the records; it holds a number, or NaN.
        bins: the intervals and their groups.
    """

    rows_at_once: ClassVar[int] = 2**16

    def __init__(self, column: int, bins: Bins) -> None:
        self._column, self._bins = column, bins

    @property
    def sensitivity(self) -> float:
        """The root of the number of levels: a row lies in one group of each."""
        return math.sqrt(len(self._bins.levels))

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(size, dtype=torch.float64) for size in self._bins.sizes]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: count a batch; a record without a number counts nowhere."""
        intervals = self._bins.of(batch.x[:, self._column].double().numpy())
        intervals = intervals[intervals >= 0]
        for counts, groups in zip(sums, self._bins.levels, strict=True):
            counts.add_(torch.from_numpy(np.bincount(groups[intervals], minlength=len(counts))))
