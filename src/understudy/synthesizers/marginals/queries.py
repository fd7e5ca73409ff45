"""PRIVATE: counts of tables, and sums by which questions are chosen.

A *marginal* is a table of counts in which every record lies in at most one cell. A vector of k marginals changes by at
most 1 in each of them when a record is added or removed, so its L2 sensitivity is √k. `CellCounts` counts the marginals
it is given and says √k itself: nobody types a sensitivity.

1. Columns: the cells of each column; a number has one marginal for every counted level of its tree, and one of traits
   (how round, which special value) where its grid is deeper.
2. Piles: of each number with a deeper grid, the single values of some cells.
3. Label pairs: each column's outcomes by class.
4. Groups: two or three columns, in groups of outcomes, by class where there are classes.
5. Products: for each of m candidates, two or three columns, a function of a record that lies in [-1, 1], so that the
   vector of their sums moves by at most √m.

Cells to look into, outcomes, groups and leans come from what was published before.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from understudy.synthesizers.marginals.piles import looked_up
from understudy.synthesizers.marginals.questions import sums_of_products, upper
from understudy.synthesizers.shared.queries import of_known_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.door.query import Batch
    from understudy.synthesizers.marginals.columns import KnownColumn, TableColumn

    Cells = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = [
    "CellCounts",
    "ColumnCounts",
    "GroupCounts",
    "LabelPairCounts",
    "PairProducts",
    "PileCounts",
    "TripleProducts",
]


class CellCounts(ABC):
    """Counts of k marginals.

    Args:
        sizes: the number of cells of each marginal.
    """

    rows_at_once: ClassVar[int] = 2**13

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
            if len(cells) and (cells.min() < 0 or cells.max() >= size):
                cells = cells[(cells >= 0) & (cells < size)]  # noqa: PLW2901
            sums[place] += torch.from_numpy(np.bincount(cells, minlength=size))

    @abstractmethod
    def _cells(self, x: NDArray[np.float32], labels: Cells | None) -> Iterator[Cells]:
        """PRIVATE: for each marginal the cell of every record, -1 for none; made one at a time."""


class ColumnCounts(CellCounts):
    """Every marginal of every column alone."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        super().__init__([size for column in columns for size in column.marginal_sizes])
        self._columns = columns

    def _cells(self, x: NDArray[np.float32], labels: Cells | None) -> Iterator[Cells]:
        del labels
        for column in self._columns:
            yield from column.marginals(x)


class PileCounts(CellCounts):
    """Single values of some cells of numbers whose grid is deeper than their counted levels.

    Args:
        looked: for each such column the cells that are looked into.
    """

    def __init__(self, looked: Sequence[tuple[TableColumn, Cells]]) -> None:
        sizes = []
        for column, cells in looked:
            assert column.grid is not None
            sizes.append(len(cells) * column.grid.width(column.grid.counted - 1))
        super().__init__(sizes)
        self._looked = looked

    def _cells(self, x: NDArray[np.float32], labels: Cells | None) -> Iterator[Cells]:
        del labels
        for column, cells in self._looked:
            assert column.grid is not None
            index = column.cells(x)
            gone = index == column.size
            yield np.where(gone, -1, looked_up(column.grid, cells, np.where(gone, 0, index)))


class LabelPairCounts(CellCounts):
    """Each column by class: cell = class · outcomes + outcome."""

    def __init__(self, columns: Sequence[KnownColumn], classes: int) -> None:
        super().__init__([classes * column.width for column in columns])
        self._columns = columns

    def _cells(self, x: NDArray[np.float32], labels: Cells | None) -> Iterator[Cells]:
        assert labels is not None
        for column in self._columns:
            yield labels * column.width + column.outcome(x)


class GroupCounts(CellCounts):
    """Sets of columns in groups of outcomes, by class: cell = (class · size + group) · size + group, and so on.

    Args:
        columns: all of the table.
        groups: for each column that takes part, the group of each of its outcomes.
        together: which columns are counted together.
        classes: how many; 1 without a label.
    """

    rows_at_once: ClassVar[int] = 2**14

    def __init__(
        self,
        columns: Sequence[KnownColumn],
        groups: Mapping[int, Cells],
        together: Sequence[tuple[int, ...]],
        classes: int,
    ) -> None:
        self._group_sizes = {i: int(group.max()) + 1 for i, group in groups.items()}
        super().__init__([classes * math.prod(self._group_sizes[i] for i in one) for one in together])
        self._columns, self._groups, self._together = columns, groups, together

    def _cells(self, x: NDArray[np.float32], labels: Cells | None) -> Iterator[Cells]:
        found = {i: group[self._columns[i].outcome(x)] for i, group in self._groups.items()}
        first = np.zeros(len(x), dtype=np.int64) if labels is None else labels
        for one in self._together:
            cells = first
            for i in one:
                cells = cells * self._group_sizes[i] + found[i]
            yield cells


class LeanSums(ABC):
    """For each of m candidates the sum over records of a product of leans.

    Args:
        columns: all of the table.
        leaning: for each column that takes part, the lean of each of its outcomes; cut to [-1, 1], which is what bounds
            a record's influence.
        of_class: the lean of each class, cut likewise; None without a label.
    """

    rows_at_once: ClassVar[int] = 2**13

    def __init__(
        self, columns: Sequence[KnownColumn], leaning: Mapping[int, Floats], of_class: Floats | None = None
    ) -> None:
        self._columns = columns
        self._leaning = {i: np.clip(lean, -1, 1) for i, lean in leaning.items()}
        self._of_class = None if of_class is None else torch.from_numpy(np.clip(of_class, -1, 1))

    @property
    @abstractmethod
    def _shape(self) -> tuple[int, ...]:
        """How many candidates there are."""

    @property
    def sensitivity(self) -> float:
        """√m: a record adds at most 1 to each of m sums."""
        return math.sqrt(math.prod(self._shape))

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(self._shape, dtype=torch.float64)]

    @abstractmethod
    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add the products of a batch; every lean lies in [-1, 1], and so does every product."""

    def _leans(self, batch: Batch) -> Tensor:
        """PRIVATE: the lean of every record in every column that takes part."""
        x = batch.x.numpy()
        found = [lean[self._columns[i].outcome(x)] for i, lean in self._leaning.items()]
        return torch.from_numpy(np.stack(found, axis=1))


class PairProducts(LeanSums):
    """Every two columns, in the order of `itertools.combinations`."""

    @property
    def _shape(self) -> tuple[int, ...]:
        return (math.comb(len(self._leaning), 2),)

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add the products of a batch; every lean lies in [-1, 1], and so does every product."""
        leans = self._leans(batch)
        sums[0] += upper(leans.T @ leans)


class TripleProducts(LeanSums):
    """Every three columns, without and, if there is one, with the label."""

    @property
    def _shape(self) -> tuple[int, ...]:
        return (1 if self._of_class is None else 2, math.comb(len(self._leaning), 3))

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add the products of a batch; every lean lies in [-1, 1], and so does every product."""
        leans = self._leans(batch)
        if self._of_class is None:
            sums[0][0] += sums_of_products(leans)
            return
        assert batch.labels is not None
        known = of_known_class(batch.labels, len(self._of_class))
        classes = torch.where(known, batch.labels, len(self._of_class))
        for one in torch.unique(classes).tolist():  # so that no product is computed twice
            part = sums_of_products(leans[classes == one])
            sums[0][0] += part
            if one < len(self._of_class):
                sums[0][1] += self._of_class[one] * part
