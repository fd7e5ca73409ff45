"""Published counts as tables with names: what a cell counts, in words. Nothing here is private.

A cell of a number is told by its first and its last value. A value inside that has a cell of its own is not counted in
the cell around it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from understudy.schema import Datetime, stand_in
from understudy.synthesizers.marginals.published import NAMES, group_sizes
from understudy.synthesizers.marginals.recipe import (
    COLUMNS,
    LABEL_PAIRS,
    PAIRS,
    PILES,
    PURPOSES,
    TRIPLES,
)
from understudy.synthesizers.model import CountTable
from understudy.synthesizers.shared.parts import LABELS, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from understudy.schema import Column, TableSchema
    from understudy.synthesizers.marginals.columns import KnownColumn
    from understudy.synthesizers.marginals.grid import Grid
    from understudy.synthesizers.marginals.published import PublishedCounts

    Ints = NDArray[np.int64]

__all__ = ["count_tables"]

_MISSING = "missing"
_MOST_NAMED = 6
"""Values of a group that are named."""


def count_tables(
    published: PublishedCounts, known: Sequence[KnownColumn], schema: TableSchema
) -> Iterator[CountTable]:
    """Every published table, in the order in which they were asked for."""
    naming = _Naming(known, schema)
    label = () if schema.label is None else (schema.label,)
    words = [tuple(map(str, schema.label_classes or ()))] if label else []
    for purpose, noise in zip(PURPOSES, published.noises.tolist(), strict=True):
        counts = getattr(published, NAMES[purpose]).astype(np.float64)
        if not len(counts):
            continue
        tables = _tables(purpose, published, naming, label, words)
        start = 0
        for columns, axes in tables:
            cells = list(itertools.product(*axes))
            yield CountTable(purpose, columns, cells, counts[start : start + len(cells)], noise)
            start += len(cells)


def _tables(
    purpose: str,
    published: PublishedCounts,
    naming: _Naming,
    label: tuple[str, ...],
    words: list[tuple[str, ...]],
) -> Iterator[tuple[tuple[str, ...], list[Sequence[str]]]]:
    """Columns and the names of their cells, of each table of a purpose."""
    names = [one.column.name for one in naming.known]
    if purpose == ROWS:
        yield (), []
    elif purpose == LABELS:
        yield label, [*words]
    elif purpose == COLUMNS:
        for place, name in enumerate(names):
            for axis in naming.marginals(place):
                yield (name,), [axis]
    elif purpose == PILES:
        for place, size in published.looked_sizes([one.column for one in naming.known]).items():
            cells = published.looked[published.looked[:, 0] == place, 1]
            yield (names[place],), [naming.single(place, cells)[:size]]
    elif purpose == LABEL_PAIRS:
        for place, name in enumerate(names):
            yield (*label, name), [*words, naming.outcomes(place)]
    else:
        together, groups = (
            (published.paired, published.pair_groups)
            if purpose == PAIRS
            else (published.tripled, published.triple_groups)
        )
        assert purpose in (PAIRS, TRIPLES)
        axes = naming.groups(groups)
        for one in together.tolist():
            yield (*label, *(names[i] for i in one)), [*words, *(axes[i] for i in one)]


class _Naming:
    """What the cells, outcomes and groups of each column are called."""

    def __init__(self, known: Sequence[KnownColumn], schema: TableSchema) -> None:
        self.known = known
        self._schema: list[Column] = [stand_in(column) for column in schema.features]

    def marginals(self, place: int) -> Iterator[list[str]]:
        """The cells of each marginal of a column alone."""
        column = self.known[place].column
        grid = column.number
        if grid is None:
            yield self.outcomes(place)
            return
        for level in range(grid.counted):
            first = np.arange(grid.cells(level)) * grid.width(level)
            last = np.minimum(first + grid.width(level), grid.size) - 1
            yield _ranges(grid, first, last) + [_MISSING] * (column.missing and level == 0)
        if grid.deep:
            kinds = [
                "no round value",
                *(f"multiples of {stride * grid.unit:.10g}" for stride in grid.strides),
            ]
            yield kinds + [f"exactly {name}" for name in _values(grid, grid.special)]

    def single(self, place: int, cells: Ints) -> list[str]:
        """The values in some cells of the finest counted level."""
        grid = self.known[place].column.number
        assert grid is not None
        width = grid.width(grid.counted - 1)
        index = (cells[:, None] * width + np.arange(width)).ravel()
        names = _values(grid, np.minimum(index, grid.size - 1))
        return [name if i < grid.size else "no value" for i, name in zip(index, names, strict=True)]

    def outcomes(self, place: int) -> list[str]:
        """The outcomes of a column."""
        known = self.known[place]
        missing = [_MISSING] * known.column.missing
        if known.outcomes is None:
            grid = known.column.grid
            values = getattr(self._schema[place], "values", ())
            return (
                _values(grid, np.arange(grid.size)) if grid is not None else [*map(str, values)]
            ) + missing
        assert known.column.grid is not None
        first, last = self._ends(known)
        return _ranges(known.column.grid, first, last) + missing

    def groups(self, groups: Ints) -> list[list[str]]:
        """The groups of every column."""
        widths = [one.width for one in self.known]
        found, start = [], 0
        for place, (width, size) in enumerate(zip(widths, group_sizes(groups, widths), strict=True)):
            group = groups[start : start + width]
            names = self.outcomes(place) if size else []
            found.append([self._group(place, names, np.flatnonzero(group == i)) for i in range(size)])
            start += width
        return found

    def _group(self, place: int, names: list[str], members: Ints) -> str:
        known = self.known[place]
        if len(members) == 1 or known.outcomes is None:
            more = f"|… ({len(members)} values)" if len(members) > _MOST_NAMED else ""
            return "|".join(names[i] for i in members[:_MOST_NAMED]) + more
        assert known.column.grid is not None
        first, last = self._ends(known)
        return _ranges(known.column.grid, first[members].min()[None], last[members].max()[None])[0]

    @staticmethod
    def _ends(known: KnownColumn) -> tuple[Ints, Ints]:
        """The first and the last value of each outcome of a number."""
        assert known.outcomes is not None
        stretches, which = known.outcomes.stretches, known.outcomes.which
        size = int(which.max()) + 1
        first, last = np.full(size, stretches.size), np.zeros(size, dtype=np.int64)
        np.minimum.at(first, which, stretches.starts)
        np.maximum.at(last, which, stretches.starts + stretches.lengths - 1)
        return first, last


def _ranges(grid: Grid, first: Ints, last: Ints) -> list[str]:
    low, high = _values(grid, first), _values(grid, last)
    return [one if one == other else f"{one} … {other}" for one, other in zip(low, high, strict=True)]


def _values(grid: Grid, index: Ints) -> list[str]:
    values = grid.values(index)
    if isinstance(grid.column, Datetime):
        begin = np.datetime64(grid.column.lower, "s")
        moments = begin + (values * grid.column.unit.seconds).astype("m8[s]")
        return [str(one).removesuffix("T00:00:00") for one in moments]
    return [f"{value:.10g}" for value in values]
