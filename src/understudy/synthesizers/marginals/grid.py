"""The exact grid of a column of numbers: every value that it may hold, as a whole number; and the tree above it.

Whole numbers, moments and numbers with declared decimals have the grid of their schema. Other numbers get the finest
grid of a power of ten that float32 can tell apart, so that round values (0, 0.5, 1200) lie on it. The grid is the
bottom of a tree: `branches` cells, each of as many, and so on, down to single values. All of it is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.schema import GRID_LIMIT, Continuous, Datetime, Integer, TimeUnit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["BRANCHES", "COUNTED_LEVELS", "Grid", "grid_of"]

BRANCHES = 16
"""The most children of a cell."""
COUNTED_LEVELS = 3
"""Levels of the tree that are counted for every column; those below only where values pile up."""
_PLAIN = 2**22
"""The most steps of the grid of a number without declared decimals: float32 holds 2^24, rounding takes some."""
_MOMENT_STRIDES = {
    TimeUnit.DAY: (7,),
    TimeUnit.HOUR: (24, 168),
    TimeUnit.MINUTE: (5, 60, 1440),
    TimeUnit.SECOND: (60, 3600, 86_400),
}


@dataclass(frozen=True)
class Grid:
    """The values of one column, numbered from 0.

    Args:
        size: how many values there are.
        spacing: their distance, as a share of the distance between the bounds.
        offset: the position of the first value from the lower bound, in steps; not positive, more than -1.
        first: the first value in steps from zero, so that multiples of ten steps and the like can be told.
        strides: numbers of steps of which round values are multiples, each a multiple of the one before.
    """

    size: int
    spacing: float
    offset: float
    first: int
    strides: tuple[int, ...]

    @property
    def depth(self) -> int:
        """The levels of the tree, down to single values."""
        return max(1, math.ceil(math.log(self.size, BRANCHES) - 1e-9))

    @property
    def branches(self) -> int:
        """The children of a cell."""
        branches: int = math.ceil(self.size ** (1 / self.depth) - 1e-9)
        return branches if branches**self.depth >= self.size else branches + 1

    def width(self, level: int) -> int:
        """How many values a cell has on a level, the coarsest being level 0."""
        return int(self.branches ** (self.depth - 1 - level))

    def cells(self, level: int) -> int:
        """How many cells a level has."""
        return -(-self.size // self.width(level))

    @property
    def counted(self) -> int:
        """How many levels are counted for every column."""
        return min(self.depth, COUNTED_LEVELS)

    def index(self, encoded: NDArray[Any]) -> Ints:
        """The number of the value nearest to each encoded one; always a valid one."""
        share = (np.clip(np.nan_to_num(encoded.astype(np.float64)), -1, 1) + 1) / 2
        nearest = np.rint(share / self.spacing - self.offset).astype(np.int64)
        return np.clip(nearest, 0, self.size - 1)

    def encoded(self, index: Ints) -> Floats:
        """The encoded value of each number."""
        share: Floats = np.clip((index + self.offset) * self.spacing, 0, 1)
        return 2 * share - 1

    def roundness(self, index: Ints) -> Ints:
        """How many of the strides each value is a multiple of: 0 for none, `len(strides)` for all."""
        found = np.zeros(len(index), dtype=np.int64)
        for place, stride in enumerate(self.strides, 1):
            found[(self.first + index) % stride == 0] = place
        return found

    def rounded(self, index: Ints, stride: int, low: Ints, high: Ints) -> Ints:
        """The nearest multiple of `stride` steps in [low, high); the value itself where there is none."""
        down = (self.first + index) // stride * stride - self.first
        up = down + stride
        nearer = np.where((up - index < index - down) & (up < high), up, down)
        nearer = np.where(nearer < low, up, nearer)
        return np.where((nearer >= low) & (nearer < high), nearer, index)


def grid_of(column: Continuous | Integer | Datetime) -> Grid:
    """The grid of a column of numbers or moments."""
    if isinstance(column, Datetime):
        since = int(np.datetime64(column.lower, "s").astype(np.int64)) // column.unit.seconds
        # Weeks begin on a Monday; 1970 began on a Thursday.
        first = since + 3 if column.unit is TimeUnit.DAY else since
        first = since + 72 if column.unit is TimeUnit.HOUR else first
        return Grid(column.steps + 1, 1 / column.steps, 0.0, first, _MOMENT_STRIDES[column.unit])
    extent = float(column.upper) - float(column.lower)
    if isinstance(column, Integer):
        return Grid(int(extent) + 1, 1 / extent, 0.0, column.lower, _strides(int(extent)))
    step, most = 10.0 ** -(column.decimals or 0), GRID_LIMIT
    if column.decimals is None or extent / step > GRID_LIMIT:
        step, most = 10.0 ** math.floor(math.log10(extent / _PLAIN)), _PLAIN
        while extent / step > most:
            step *= 10
    first = math.floor(column.lower / step + 1e-9)
    last = math.ceil(column.upper / step - 1e-9)
    offset = min(0.0, first - column.lower / step)
    return Grid(last - first + 1, step / extent, offset, first, _strides(last - first))


def _strides(steps: int) -> tuple[int, ...]:
    """5, 10, 50, 100 and so on, as far as several multiples fit."""
    found = [stride for power in range(8) for stride in (5 * 10**power, 10 ** (power + 1))]
    return tuple(stride for stride in found if stride * 4 <= steps)
