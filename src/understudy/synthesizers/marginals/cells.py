"""How the values of each column fall into cells: a public function of the schema that learns nothing from rows.

A category, a level or a small whole number has a cell of its own. Numbers with many values get up to 4,096 cells in a
tree: sixteen cells, each of sixteen, each of sixteen. The first cell is the lower bound itself, the last one the upper
bound, because real columns pile up there (amounts of zero, ages that are cut off); those between are equally wide. What
is missing has a cell of its own where the schema allows it.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.schema import Binary, Categorical, Datetime, Integer, Ordinal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from understudy.schema import Column, TableSchema

__all__ = ["BRANCHES", "Axis", "Scale", "axes_of"]

BRANCHES = 16
_FINEST = BRANCHES**3


class Scale(enum.Enum):
    """How a column is laid out in the encoded record."""

    CATEGORY = "category"
    """One-hot, with one more slot for missing values."""

    LEVEL = "level"
    """Few equally spaced values on [-1, 1]."""

    NUMBER = "number"
    """Many values on [-1, 1]."""


@dataclass(frozen=True)
class Axis:
    """The cells of one column.

    Args:
        name: of the column.
        start: its first position in the encoded record.
        scale: its layout there.
        size: how many cells values have, the one of missing values not counted.
        missing: whether values may be missing; their cell is the last one.
        spaced: whether each cell of a number is a single value, rather than an interval.
    """

    name: str
    start: int
    scale: Scale
    size: int
    missing: bool
    spaced: bool = True

    @property
    def width(self) -> int:
        """How many positions of the encoded record the column fills."""
        return self.size + self.missing if self.scale is Scale.CATEGORY else 1 + self.missing

    @property
    def depth(self) -> int:
        """The levels of the tree of cells; one for everything but numbers."""
        if self.scale is not Scale.NUMBER:
            return 1
        depth = 1
        while BRANCHES**depth < self.size:
            depth += 1
        return depth

    def slots(self, bins: int) -> int:
        """How many outcomes a generator has for the column: cells, or bins of a number, and missing."""
        return (bins if self.scale is Scale.NUMBER else self.size) + self.missing

    def cells(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """The cell of every encoded record; always a valid one, whatever the record holds."""
        if self.scale is Scale.CATEGORY:
            found: NDArray[np.int64] = x[:, self.start : self.start + self.width].argmax(axis=1)
            return found
        share = (np.clip(np.nan_to_num(x[:, self.start].astype(np.float64)), -1, 1) + 1) / 2
        if self.spaced:
            cells = np.rint(share * (self.size - 1)).astype(np.int64)
        else:
            inner = 1 + np.minimum((share * (self.size - 2)).astype(np.int64), self.size - 3)
            cells = np.where(share <= 0, 0, np.where(share >= 1, self.size - 1, inner))
        return np.where(x[:, self.start + 1] > 0.5, self.size, cells) if self.missing else cells

    def encoded(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Positions on the line of cells, from 0 to `size`, as encoded numbers."""
        first, cells = (0.5, max(1, self.size - 1)) if self.spaced else (1.0, self.size - 2)
        share = (positions - first) / cells
        return 2 * np.clip(share, 0, 1) - 1


def axes_of(schema: TableSchema) -> tuple[Axis, ...]:
    """The axes of all columns beside the label, in the order of the encoded record."""
    found: list[Axis] = []
    for column in schema.features:
        start = found[-1].start + found[-1].width if found else 0
        found.append(_axis(column, start))
    return tuple(found)


def _axis(column: Column, start: int) -> Axis:
    match column:
        case Categorical():
            return Axis(column.name, start, Scale.CATEGORY, len(column.categories), column.missing)
        case Binary() | Ordinal():
            return Axis(column.name, start, Scale.LEVEL, len(column.values), column.missing)
        case Integer():
            values: float = column.upper - column.lower + 1
        case Datetime():
            values = column.steps + 1
        case _:
            values = math.inf
    if values <= BRANCHES:
        return Axis(column.name, start, Scale.LEVEL, int(values), column.missing)
    spaced = values <= _FINEST
    size = int(values) if spaced else _FINEST
    return Axis(column.name, start, Scale.NUMBER, size, column.missing, spaced)
