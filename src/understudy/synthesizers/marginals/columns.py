"""Columns after their first release: bins, groups for pairs, and which to compare; all of it post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.synthesizers.marginals.bins import (
    bin_edges,
    equal_groups,
    knots_of,
    large_groups,
    on_simplex,
    spread_of,
)
from understudy.synthesizers.marginals.cells import Scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from understudy.synthesizers.marginals.cells import Axis
    from understudy.synthesizers.marginals.recipe import MarginalsRecipe

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["BinnedColumn", "Compared", "affordable", "binned", "chosen_pairs"]

_MOST_GROUPS = 64
"""Groups of one column that take part in pairs, at most."""


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """One column after the first release: its axis, its bins, and the noisy mass of every outcome."""

    axis: Axis
    slots: int
    edges: Ints | None
    knots: Floats | None
    masses: Floats

    @property
    def bins(self) -> int:
        """Outcomes that exist."""
        return len(self.masses)

    @property
    def places(self) -> Ints:
        """The slot of every outcome: bins from the left, what is missing in the last one."""
        places = np.arange(self.bins)
        if self.axis.missing:
            places[-1] = self.slots - 1
        return places

    def outcome(self, x: NDArray[np.float32]) -> Ints:
        """PRIVATE: the outcome of every row."""
        cells = self.axis.cells(x)
        if self.edges is None:
            return cells
        bins = np.searchsorted(self.edges, cells, side="right") - 1
        return np.where(cells == self.axis.size, len(self.edges) - 1, bins)


def affordable(rows: float, noise: float, support: float, most: int, dimensions: int) -> int:
    """How many bins a column may have so that a cell is expected to stand `support` deviations above the noise."""
    if noise == 0:
        return most
    return int(np.clip((max(rows, 0.0) / (support * noise)) ** (1 / dimensions), 2, most))


def binned(
    axis: Axis, part: MarginalsRecipe, levels: Sequence[Floats], bins: int, noise: float, count: float
) -> BinnedColumn:
    """A column with at most `bins` bins, from the noisy counts on the levels of its axis.

    Args:
        axis: its cells.
        part: slots and tails.
        levels: noisy counts, coarsest level first.
        bins: the most bins of a number.
        noise: the standard deviation of the counts.
        count: the public or noisy number of rows.
    """
    slots = axis.slots(part.slots)
    if axis.scale is not Scale.NUMBER:
        return BinnedColumn(axis, slots, None, None, on_simplex(levels[0], count))
    spread = spread_of(axis, levels, noise, count)
    edges = bin_edges(axis, spread, bins, part.tails)
    masses = np.diff(spread.below(edges))
    if axis.missing:
        masses = np.append(masses, spread.missing)
    return BinnedColumn(axis, slots, edges, knots_of(axis, spread, edges), masses)


@dataclass(frozen=True, eq=False)
class Compared:
    """Which columns are compared in pairs, and how their outcomes are grouped for that."""

    columns: tuple[int, ...]
    groups: tuple[Ints, ...]
    by_class: bool


def chosen_pairs(
    part: MarginalsRecipe,
    columns: Sequence[BinnedColumn],
    by_label: Sequence[Floats],
    classes: int,
    sigma: float,
    count: float,
) -> Compared:
    """The columns that tell most about the label (or vary most), in groups as fine as the noise allows."""
    scores = [_information(one, classes) for one in by_label] or [_entropy(one.masses) for one in columns]
    best = sorted(np.argsort(-np.array(scores), kind="stable")[: part.columns])
    deviation = sigma * math.sqrt(math.comb(len(best), 2))
    by_class = part.by_class and bool(by_label)
    rows = count / classes if by_class else count
    most = affordable(rows, deviation, part.support, part.bins, 2)
    least = part.support * deviation
    return Compared(
        tuple(int(i) for i in best), tuple(_groups(columns[i], most, least) for i in best), by_class
    )


def _groups(column: BinnedColumn, most: int, least: float) -> Ints:
    """Numbers in groups of equal mass, categories in their own if they are frequent; missing apart."""
    if column.edges is None:
        return large_groups(column.masses, least, _MOST_GROUPS)
    numbers = column.masses[: len(column.edges) - 1]
    groups = equal_groups(numbers, most)
    return np.append(groups, groups.max() + 1) if column.axis.missing else groups


def _entropy(masses: Floats) -> float:
    shares = masses[masses > 0] / max(float(masses.sum()), 1e-9)
    return float(-(shares * np.log(shares)).sum())


def _information(counts: Floats, classes: int) -> float:
    """The mutual information of label and column that noisy counts suggest."""
    joint = np.maximum(counts.reshape(classes, -1), 0)
    return _entropy(joint.sum(axis=0)) + _entropy(joint.sum(axis=1)) - _entropy(joint.ravel())
