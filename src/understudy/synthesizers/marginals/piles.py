"""From noisy counts of a number's tree to stretches of its grid, with piles apart. All of it is post-processing.

The tree is walked from the top: a cell whose noisy count stands well above the noise is split into its children, all
others stay as they are. Where the counted levels end above single values, the heaviest cells are looked into once more
(`cells_to_look_into`), value by value, and what stands out there is a pile: a stretch of its own, one value long. What
is not in a pile is spread evenly over the rest of its cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.synthesizers.shared.simplex import on_simplex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from understudy.synthesizers.marginals.grid import Grid

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = [
    "Stretches",
    "cells_to_look_into",
    "looked_up",
    "round_shares",
    "stretches_of",
    "with_piles",
    "with_special",
]

_SPLIT = 4.0
"""A cell is split if its noisy count exceeds this many standard deviations of the noise."""
_MOST_PILES = 2**14
"""The most piles of one column."""
_STANDS_OUT = 4.0
"""A pile holds at least this many times what its neighbours hold on average."""


@dataclass(frozen=True, eq=False)
class Stretches:
    """A noisy distribution on a grid: consecutive stretches of values, each with its mass spread evenly.

    Args:
        starts: the first value of each stretch; the first stretch starts at 0.
        masses: not negative.
        size: of the grid.
        missing: the mass of missing values.
    """

    starts: Ints
    masses: Floats
    size: int
    missing: float = 0.0

    @property
    def lengths(self) -> Ints:
        """How many values each stretch has."""
        return np.diff(np.append(self.starts, self.size))

    def below(self, positions: Ints) -> Floats:
        """The mass of values below these positions."""
        ends = np.append(self.starts, self.size)
        found: Floats = np.interp(positions, ends, np.concatenate([[0.0], np.cumsum(self.masses)]))
        return found

    def cut(self, positions: Ints) -> Stretches:
        """The same distribution, with stretches cut at these positions too."""
        starts = np.unique(
            np.concatenate([self.starts, positions[(positions > 0) & (positions < self.size)]])
        )
        masses = np.diff(self.below(np.append(starts, self.size)))
        return Stretches(starts, np.maximum(masses, 0.0), self.size, self.missing)


def stretches_of(
    grid: Grid, levels: Sequence[Floats], noise: float, total: float, *, missing: bool
) -> Stretches:
    """What the noisy counts of the counted levels tell.

    Args:
        grid: of the column.
        levels: noisy counts, coarsest first; on the coarsest the last cell is that of missing values, if any.
        noise: their standard deviation.
        total: the public or noisy number of rows.
        missing: whether values may be missing.
    """
    top = on_simplex(levels[0], total)
    starts: list[int] = []
    masses: list[float] = []

    def walk(level: int, index: int, mass: float) -> None:
        if level + 1 == grid.counted or mass <= _SPLIT * noise:
            starts.append(index * grid.width(level))
            masses.append(mass)
            return
        first = index * grid.branches
        for child, part in enumerate(on_simplex(levels[level + 1][first : first + grid.branches], mass)):
            walk(level + 1, first + child, float(part))

    for index, mass in enumerate(top[: grid.cells(0)]):
        walk(0, index, float(mass))
    return Stretches(
        np.array(starts, dtype=np.int64),
        np.array(masses),
        grid.size,
        float(top[-1]) if missing else 0.0,
    )


def cells_to_look_into(grid: Grid, stretches: Stretches, noise: float, most: int) -> Ints:
    """Cells of the finest counted level that hold enough to look for piles in them, heaviest first; at least one.

    Args:
        grid: of the column, deeper than its counted levels.
        stretches: what these told.
        noise: the standard deviation of their counts.
        most: how many values may be looked at.
    """
    width = grid.width(grid.counted - 1)
    whole = np.flatnonzero((stretches.lengths <= width) & (stretches.masses > _SPLIT * noise))
    heaviest = whole[np.argsort(-stretches.masses[whole], kind="stable")][: max(1, most // width)]
    if not len(heaviest):
        heaviest = np.array([np.argmax(stretches.masses)])
    return stretches.starts[heaviest] // width


def looked_up(grid: Grid, cells: Ints, index: Ints) -> Ints:
    """For each value of the grid its place in the counts of the cells that are looked into; -1 for none."""
    width = grid.width(grid.counted - 1)
    order = np.argsort(cells)
    where = np.minimum(np.searchsorted(cells[order], index // width), len(cells) - 1)
    found = order[where]
    return np.where(cells[found] == index // width, found * width + index % width, -1)


def with_piles(grid: Grid, stretches: Stretches, cells: Ints, counts: Floats, noise: float) -> Stretches:
    """The same distribution with a stretch for every value that stands out.

    Args:
        grid: of the column.
        stretches: what the counted levels told.
        cells: the cells that were looked into.
        counts: the noisy counts of their values, of shape (cells, values).
        noise: their standard deviation.
    """
    width = grid.width(grid.counted - 1)
    threshold = noise * (math.sqrt(2 * math.log(counts.size)) + 1)
    piles: list[Ints] = []
    shares: list[Floats] = []
    for cell, row in zip(cells, counts, strict=True):
        mass = _mass_in(stretches, int(cell) * width, width)
        values = min(width, grid.size - int(cell) * width)
        found = np.flatnonzero(row[:values] > max(threshold, _STANDS_OUT * mass / values, 0.5))
        piles.append(cell * width + found)
        held = row[found]
        shares.append(held * min(1.0, mass / max(float(held.sum()), 1e-9)))
    place, held = np.concatenate(piles), np.concatenate(shares)
    heaviest = np.sort(np.argsort(-held, kind="stable")[:_MOST_PILES])
    return _apart(stretches, place[heaviest], held[heaviest])


def with_special(grid: Grid, stretches: Stretches, counts: Floats) -> Stretches:
    """The same distribution with a stretch for every declared special value; those that have one keep it.

    Args:
        grid: of the column.
        stretches: with piles apart.
        counts: the noisy counts of special values.
    """
    within = np.searchsorted(stretches.starts, grid.special, side="right") - 1
    new = stretches.lengths[within] > 1
    found, held, within = grid.special[new], np.maximum(counts[new], 0.0), within[new]
    wanted = np.bincount(within, weights=held, minlength=len(stretches.masses))
    possible = np.minimum(1.0, stretches.masses / np.maximum(wanted, 1e-9))
    return _apart(stretches, found, held * possible[within])


def _mass_in(stretches: Stretches, start: int, width: int) -> float:
    """The mass of the values from `start` on."""
    low, high = stretches.below(np.array([start, min(start + width, stretches.size)]))
    return float(high - low)


def _apart(stretches: Stretches, piles: Ints, held: Floats) -> Stretches:
    """Stretches with these values taken out, each with what it holds."""
    within = np.searchsorted(stretches.starts, piles, side="right") - 1
    taken = np.bincount(within, weights=held, minlength=len(stretches.masses))
    alone = np.bincount(within, minlength=len(stretches.masses))
    rest = np.maximum(stretches.masses - taken, 0.0)
    per_value = rest / np.maximum(stretches.lengths - alone, 1)
    starts = np.unique(np.concatenate([stretches.starts, piles, piles + 1]))
    starts = starts[starts < stretches.size]
    parent = np.searchsorted(stretches.starts, starts, side="right") - 1
    lengths = np.diff(np.append(starts, stretches.size))
    masses = per_value[parent] * lengths
    masses[np.searchsorted(starts, piles)] = held
    return Stretches(starts, masses, stretches.size, stretches.missing)


def round_shares(grid: Grid, stretches: Stretches, counts: Floats, noise: float) -> Floats:
    """How many of the values that are not piles are multiples of each stride, as shares.

    Args:
        grid: of the column.
        stretches: with piles apart.
        counts: noisy counts of values by roundness, special ones left out.
        noise: their standard deviation.
    """
    single = (stretches.lengths == 1) & ~np.isin(stretches.starts, grid.special)
    roundness = grid.roundness(stretches.starts[single])
    known = np.bincount(roundness, weights=stretches.masses[single], minlength=len(counts))
    rest = float(stretches.masses[stretches.lengths > 1].sum())
    left = counts - known
    left[left < _SPLIT * noise] = 0.0
    if rest <= _SPLIT * noise or left.sum() <= 0:
        left = np.eye(len(counts))[0]
    shares: Floats = left / left.sum()
    return shares
