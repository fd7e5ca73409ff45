"""The exact grid of a column of numbers: every value that it may hold, as a whole number; and the tree above it.

Whole numbers, moments and numbers with a declared step or declared decimals have the grid of their schema. Other
numbers get the finest grid of a power of ten that float32 can tell apart, so that round values (0, 0.5, 1200) lie on
it. Declared special values that lie between two values of the grid are put between them. The grid is the bottom of a
tree: `branches` cells, each of as many, and so on, down to single values. All of it is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.records.line import from_line, to_line
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
    """The values of one column, numbered from 0 in their order.

    Args:
        column: whose values they are.
        unit: the distance of neighbours; for moments 1, in units of the column.
        first: the first value in units from zero, so that multiples of ten units and the like can be told.
        ordinary: how many values there are beside the special ones that lie between them.
        strides: numbers of units of which round values are multiples, each a multiple of the one before.
    """

    column: Continuous | Integer | Datetime
    unit: float
    first: int
    ordinary: int
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.ordinary + len(self._between)

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

    @property
    def deep(self) -> bool:
        """Whether the counted levels end above single values."""
        return self.depth > self.counted

    def index(self, encoded: NDArray[Any]) -> Ints:
        """The number of the value nearest to each encoded one; always a valid one."""
        line = np.clip(np.nan_to_num(encoded.astype(np.float64)), -1, 1)
        if isinstance(self.column, Datetime):
            return np.rint((line + 1) / 2 * self.column.steps).astype(np.int64)
        values = from_line(line, self.column)
        nearest = np.clip(np.rint(values / self.unit) - self.first, 0, self.ordinary - 1).astype(np.int64)
        index = self._numbered(nearest)
        for place, special in zip(self._places, self._between, strict=True):
            index[values == special] = place
        return index

    def values(self, index: Ints) -> Floats:
        """The value of each number, in the column's own unit (moments: units since the lower bound)."""
        if isinstance(self.column, Datetime):
            return index.astype(np.float64)
        found = (self.first + self._ordinary(index)) * self.unit
        for place, special in zip(self._places, self._between, strict=True):
            found[index == place] = special
        return np.clip(found, float(self.column.lower), float(self.column.upper))

    def encoded(self, index: Ints) -> Floats:
        """The encoded value of each number."""
        values = self.values(index)
        if isinstance(self.column, Datetime):
            return 2 * values / self.column.steps - 1
        return to_line(values, self.column)

    @cached_property
    def special(self) -> Ints:
        """The numbers of the declared special values."""
        if isinstance(self.column, Datetime):
            return np.zeros(0, dtype=np.int64)
        return self.index(to_line(np.array(self.column.special, dtype=np.float64), self.column))

    def roundness(self, index: Ints) -> Ints:
        """How many of the strides each value is a multiple of: 0 for none, `len(strides)` for all."""
        found = np.zeros(len(index), dtype=np.int64)
        from_zero = self.first + self._ordinary(index)
        for rank, stride in enumerate(self.strides, 1):
            found[from_zero % stride == 0] = rank
        found[np.isin(index, self._places)] = 0
        return found

    @property
    def traits(self) -> int:
        """How many kinds of values `trait` tells apart."""
        return len(self.strides) + 1 + len(self.special)

    def trait(self, index: Ints) -> Ints:
        """How round each value is, or, after those, which special value it is."""
        found = self.roundness(index)
        for place, special in enumerate(self.special):
            found[index == special] = len(self.strides) + 1 + place
        return found

    def rounded(self, index: Ints, stride: int, low: Ints, high: Ints) -> Ints:
        """The nearest multiple of `stride` units in [low, high); the value itself where there is none."""
        plain = self._ordinary(index)
        below = (self.first + plain) // stride * stride - self.first
        down, up = self._numbered(below), self._numbered(below + stride)
        nearer = np.where((up - index < index - down) & (up < high), up, down)
        nearer = np.where(nearer < low, up, nearer)
        return np.where((nearer >= low) & (nearer < high), nearer, index)

    def made_round(self, index: Ints, stride: int) -> Ints:
        """The nearest multiple of `stride` units, less than a stride away; keeps the order of values."""
        low, high = np.maximum(index - stride, 0), np.minimum(index + stride, self.size)
        return self.rounded(index, stride, low, high)

    @cached_property
    def _between(self) -> tuple[float, ...]:
        """The special values that are not multiples of the unit."""
        if isinstance(self.column, Datetime):
            return ()
        found = (float(one) for one in self.column.special)
        return tuple(sorted(one for one in found if abs(one / self.unit - round(one / self.unit)) > 1e-6))

    @cached_property
    def _after(self) -> Ints:
        """How many ordinary values lie below each special value between them."""
        below = [math.floor(one / self.unit) - self.first + 1 for one in self._between]
        return np.clip(np.array(below, dtype=np.int64), 0, self.ordinary)

    @cached_property
    def _places(self) -> Ints:
        """The numbers of special values between ordinary ones."""
        return self._after + np.arange(len(self._after))

    def _numbered(self, ordinary: Ints) -> Ints:
        """The numbers of ordinary values, which are counted without the special ones between them."""
        return (
            ordinary + np.searchsorted(self._after, ordinary, side="right") if len(self._after) else ordinary
        )

    def _ordinary(self, index: Ints) -> Ints:
        """Numbers as counted without the special values between ordinary ones."""
        return index - np.searchsorted(self._places, index, side="left") if len(self._places) else index


def grid_of(column: Continuous | Integer | Datetime) -> Grid:
    """The grid of a column of numbers or moments."""
    if isinstance(column, Datetime):
        since = int(np.datetime64(column.lower, "s").astype(np.int64)) // column.unit.seconds
        # Weeks begin on a Monday; 1970 began on a Thursday.
        shift = {TimeUnit.DAY: 3, TimeUnit.HOUR: 72}.get(column.unit, 0)
        return Grid(column, 1, since + shift, column.steps + 1, _MOMENT_STRIDES[column.unit])
    if column.step is not None or isinstance(column, Integer):
        unit = column.step or 1
        first, last = math.ceil(column.lower / unit), math.floor(column.upper / unit)
    else:
        unit = _unit(column)
        first, last = math.floor(column.lower / unit + 1e-9), math.ceil(column.upper / unit - 1e-9)
    return Grid(column, unit, first, last - first + 1, _strides(last - first))


def _unit(column: Continuous) -> float:
    """The declared decimals, or the finest power of ten that float32 can tell apart."""
    extent = column.upper - column.lower
    if column.decimals is not None and extent * 10.0**column.decimals <= GRID_LIMIT:
        return 10.0**-column.decimals
    power = math.floor(math.log10(extent / _PLAIN))
    while extent / 10.0**power > _PLAIN:
        power += 1
    return 10.0**power


def _strides(steps: int) -> tuple[int, ...]:
    """5, 10, 50, 100 and so on, as far as several multiples fit."""
    found = [stride for power in range(8) for stride in (5 * 10**power, 10 ** (power + 1))]
    return tuple(stride for stride in found if stride * 4 <= steps)
