"""PRIVATE: counts of tables, asked in three vectors.

A *marginal* is a table of counts in which every record lies in at most one cell. A vector of k marginals changes by at
most 1 in each of them when a record is added or removed, so its L2 sensitivity is √k. `CellCounts` counts the marginals
it is given and says √k itself: nobody types a sensitivity.

1. Columns: the cells of each column; a number has one marginal for every level of its tree.
2. Label pairs: each column's bins by class.
3. Pairs: the groups of two columns, or of two columns by class.

Bins and groups come from what was published before.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from understudy.synthesizers.marginals.cells import BRANCHES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.door.query import Batch
    from understudy.synthesizers.marginals.cells import Axis
    from understudy.synthesizers.marginals.columns import BinnedColumn, Compared

    Cells = NDArray[np.int64]

__all__ = ["CellCounts", "ColumnCounts", "LabelPairCounts", "PairCounts", "level_sizes"]


class CellCounts(ABC):
    """Counts of k marginals.

    Args:
        sizes: the number of cells of each marginal.
    """

    rows_at_once: ClassVar[int] = 2**16

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = list(sizes)

    @property
    def sensitivity(self) -> float:
        """√k: a record lies in at most one cell of each marginal."""
        return math.sqrt(len(self._sizes))

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(size, dtype=torch.float64) for size in self._sizes]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: count a batch; a record outside of all cells of a marginal counts nowhere in it."""
        x = batch.x.numpy()
        labels = None if batch.labels is None else batch.labels.numpy()
        for place, cells in enumerate(self._cells(x, labels)):
            size = self._sizes[place]
            inside = cells[(cells >= 0) & (cells < size)]
            sums[place] += torch.from_numpy(np.bincount(inside, minlength=size))

    @abstractmethod
    def _cells(self, x: NDArray[np.float32], labels: Cells | None) -> Iterator[Cells]:
        """PRIVATE: for each marginal the cell of every record, -1 for none; made one at a time."""


def level_sizes(axis: Axis) -> list[int]:
    """The number of cells on each level of an axis, coarsest first; missing values are on the coarsest."""
    sizes = [math.ceil(axis.size / BRANCHES**finer) for finer in reversed(range(axis.depth))]
    return [sizes[0] + axis.missing, *sizes[1:]]


class ColumnCounts(CellCounts):
    """Every level of every column."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        super().__init__([size for axis in axes for size in level_sizes(axis)])
        self._axes = axes

    def _cells(self, x: NDArray[np.float32], labels: Cells | None) -> Iterator[Cells]:
        del labels
        for axis in self._axes:
            cells = axis.cells(x)
            for level, size in enumerate(level_sizes(axis)):
                coarse = cells // BRANCHES ** (axis.depth - 1 - level)
                gone = size - 1 if level == 0 else -1
                yield np.where(cells == axis.size, gone, coarse) if axis.missing else coarse


class LabelPairCounts(CellCounts):
    """Each column by class: cell = class · bins + bin."""

    def __init__(self, columns: Sequence[BinnedColumn], classes: int) -> None:
        super().__init__([classes * column.bins for column in columns])
        self._columns = columns

    def _cells(self, x: NDArray[np.float32], labels: Cells | None) -> Iterator[Cells]:
        assert labels is not None
        for column in self._columns:
            yield labels * column.bins + column.outcome(x)


class PairCounts(CellCounts):
    """Every two columns, by class where pairs are: cell = (class · first size + first) · second size + second."""

    def __init__(self, columns: Sequence[BinnedColumn], chosen: Compared, classes: int) -> None:
        sizes = [int(group.max()) + 1 for group in chosen.groups]
        each = classes if chosen.by_class else 1
        super().__init__([each * one * other for one, other in itertools.combinations(sizes, 2)])
        self._columns, self._chosen, self._group_sizes = columns, chosen, sizes

    def _cells(self, x: NDArray[np.float32], labels: Cells | None) -> Iterator[Cells]:
        chosen = self._chosen
        groups = [
            (group[self._columns[i].outcome(x)], size)
            for i, group, size in zip(chosen.columns, chosen.groups, self._group_sizes, strict=True)
        ]
        for (one, first), (other, second) in itertools.combinations(groups, 2):
            upper = one if labels is None or not chosen.by_class else labels * first + one
            yield upper * second + other
