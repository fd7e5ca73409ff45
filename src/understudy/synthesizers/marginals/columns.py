"""The columns of a table: how they lie in the encoded record (public), and their outcomes once counts are published.

A category, a level or one of at most sixteen values is a *cell*, and an outcome. Other numbers have the cells of their
exact grid, far too many to tell apart, and get outcomes from noisy counts. What is missing is the last cell and the
last outcome where the schema allows it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.schema import Binary, Categorical, Ordinal, stand_in
from understudy.synthesizers.marginals.grid import BRANCHES, grid_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from understudy.schema import Column, TableSchema
    from understudy.synthesizers.marginals.grid import Grid
    from understudy.synthesizers.marginals.outcomes import Outcomes

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["KnownColumn", "Scale", "TableColumn", "table_columns"]


class Scale(enum.Enum):
    """How a column is laid out in the encoded record."""

    CATEGORY = "category"
    """One-hot, with one more slot for missing values."""

    LEVEL = "level"
    """Few values on [-1, 1], in an order."""

    NUMBER = "number"
    """Many values on [-1, 1]."""


@dataclass(frozen=True)
class TableColumn:
    """The cells of one column: a public function of the schema.

    Args:
        name: of the column.
        start: its first position in the encoded record.
        scale: its layout there.
        size: how many cells values have, the one of missing values not counted.
        missing: whether values may be missing; their cell is the last one.
        grid: the values of a number; None for categories and named levels.
    """

    name: str
    start: int
    scale: Scale
    size: int
    missing: bool
    grid: Grid | None = None

    @property
    def width(self) -> int:
        """How many positions of the encoded record the column fills."""
        return self.size + self.missing if self.scale is Scale.CATEGORY else 1 + self.missing

    @property
    def number(self) -> Grid | None:
        """The grid of a column whose values are too many to be outcomes."""
        return self.grid if self.scale is Scale.NUMBER else None

    @property
    def deep(self) -> bool:
        """Whether piles have to be looked for below the counted levels."""
        return self.number is not None and self.number.deep

    def cells(self, x: NDArray[Any]) -> Ints:
        """The cell of every encoded record; always a valid one, whatever the record holds."""
        if self.scale is Scale.CATEGORY:
            found: Ints = x[:, self.start : self.start + self.width].argmax(axis=1)
            return found
        values = x[:, self.start]
        if self.grid is not None:
            cells = self.grid.index(values)
        else:
            share = (np.clip(np.nan_to_num(values.astype(np.float64)), -1, 1) + 1) / 2
            cells = np.rint(share * (self.size - 1)).astype(np.int64)
        return np.where(x[:, self.start + 1] > 0.5, self.size, cells) if self.missing else cells

    def encoded(self, cells: Ints) -> Floats:
        """The place on [-1, 1] of cells that are no categories and not missing."""
        return 2 * cells / (self.size - 1) - 1 if self.grid is None else self.grid.encoded(cells)

    @property
    def marginal_sizes(self) -> list[int]:
        """The number of cells of each marginal that is counted of this column alone."""
        grid = self.number
        if grid is None:
            return [self.size + self.missing]
        levels = [grid.cells(level) for level in range(grid.counted)]
        return [levels[0] + self.missing, *levels[1:], *([grid.traits] if grid.deep else [])]

    def marginals(self, x: NDArray[Any]) -> Iterator[Ints]:
        """PRIVATE: for each of these marginals the cell of every record, -1 for none."""
        cells, grid = self.cells(x), self.number
        if grid is None:
            yield cells
            return
        gone = cells == self.size
        for level in range(grid.counted):
            yield np.where(gone, grid.cells(0) if level == 0 else -1, cells // grid.width(level))
        if grid.deep:
            yield np.where(gone, -1, grid.trait(cells))


def table_columns(schema: TableSchema) -> tuple[TableColumn, ...]:
    """All columns beside the label, in the order of the encoded record.

    Columns about which something is still to be discovered are as large as they may become.
    """
    found: list[TableColumn] = []
    for column in schema.features:
        start = found[-1].start + found[-1].width if found else 0
        found.append(_table_column(stand_in(column), start))
    return tuple(found)


def _table_column(column: Column, start: int) -> TableColumn:
    match column:
        case Categorical():
            return TableColumn(column.name, start, Scale.CATEGORY, len(column.categories), column.missing)
        case Binary() | Ordinal():
            return TableColumn(column.name, start, Scale.LEVEL, len(column.values), column.missing)
    grid = grid_of(column)
    scale = Scale.LEVEL if grid.size <= BRANCHES else Scale.NUMBER
    return TableColumn(column.name, start, scale, grid.size, column.missing, grid)


@dataclass(frozen=True, eq=False)
class KnownColumn:
    """A column whose outcomes are known from published counts.

    Args:
        column: its layout.
        width: how many outcomes it has, that of missing values included.
        outcomes: of a number; None where cells are outcomes.
        round_shares: of a number, how many values outside of piles are multiples of each stride.
    """

    column: TableColumn
    width: int
    outcomes: Outcomes | None = None
    round_shares: Floats | None = None

    @property
    def ordered(self) -> bool:
        """Whether neighbouring outcomes are alike."""
        return self.column.scale is Scale.NUMBER

    @property
    def gone(self) -> int | None:
        """The outcome of missing values."""
        return self.width - 1 if self.column.missing else None

    def outcome(self, x: NDArray[Any]) -> Ints:
        """The outcome of every encoded record."""
        cells = self.column.cells(x)
        if self.outcomes is None:
            return cells
        gone = cells == self.column.size
        return np.where(gone, self.width - 1, self.outcomes.of(np.where(gone, 0, cells)))

    def drawn(self, outcome: Ints, uniform: Floats) -> Ints:
        """A cell within each of these outcomes, none of them missing; `uniform` has the shape (3, rows)."""
        if self.outcomes is None:
            return outcome
        assert self.column.grid is not None
        assert self.round_shares is not None
        return self.outcomes.drawn(outcome, self.column.grid, self.round_shares, uniform)
