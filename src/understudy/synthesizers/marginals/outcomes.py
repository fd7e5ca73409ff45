"""The outcomes of a column: what a generator tells apart in it, as fine as the noise allows. All post-processing.

A category or a level is an outcome. Of a number, values that carry much mass are outcomes of their own; what lies
between them is cut into bins of about equal mass, with finer bins in both tails. Within an outcome, values are drawn
from the noisy stretches that it holds, so that piles too light for an outcome come back exactly, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from understudy.synthesizers.marginals.grid import Grid
    from understudy.synthesizers.marginals.piles import Stretches

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_LISTED = 2**20
"""The outcomes of all values of a grid are listed up to this size."""
_LEAST = 1e-12
"""The mass of one value in an outcome that noise left without any."""

__all__ = ["Outcomes", "affordable", "grouped", "number_outcomes"]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of a number.

    Args:
        stretches: of its grid.
        which: the outcome of each stretch.
    """

    stretches: Stretches
    which: Ints

    @cached_property
    def masses(self) -> Floats:
        """The noisy mass of each outcome."""
        return np.bincount(self.which, weights=self.stretches.masses).astype(np.float64)

    @cached_property
    def _in_order(self) -> tuple[Ints, Ints, Floats]:
        """Stretches by outcome, where each outcome begins, and the mass up to each of them."""
        order = np.argsort(self.which, kind="stable")
        first = np.searchsorted(self.which[order], np.arange(len(self.masses) + 1))
        return order, first, np.concatenate([[0.0], np.cumsum(self.least_masses[order])])

    @property
    def least_masses(self) -> Floats:
        """The mass of each stretch, with a little where noise left none."""
        least: Floats = np.maximum(self.stretches.masses, _LEAST * self.stretches.lengths)
        return least

    def of(self, index: Ints) -> Ints:
        """The outcome of each value of the grid."""
        if self.stretches.size <= _LISTED:
            return self._listed[index].astype(np.int64)
        return self.which[np.searchsorted(self.stretches.starts, index, side="right") - 1]

    @cached_property
    def _listed(self) -> NDArray[np.unsignedinteger]:
        """The outcome of every value, which is faster to look up than its stretch is to find."""
        small = np.min_scalar_type(int(self.which.max()))
        return np.repeat(self.which.astype(small), self.stretches.lengths)

    def drawn(self, outcome: Ints, grid: Grid, round_shares: Floats, uniform: Floats) -> Ints:
        """A value of the grid within each of these outcomes.

        Args:
            outcome: none of them missing.
            grid: of the column.
            round_shares: how many values outside of piles are multiples of each stride, none of them first.
            uniform: random numbers in [0, 1), of shape (3, rows).
        """
        lengths = self.stretches.lengths
        order, first, below = self._in_order
        low, high = first[outcome], first[outcome + 1]
        mass = below[low] + uniform[0] * (below[high] - below[low])
        stretch = order[np.clip(np.searchsorted(below, mass, side="right") - 1, low, high - 1)]
        index: Ints = self.stretches.starts[stretch] + (uniform[1] * lengths[stretch]).astype(np.int64)
        roundness = np.searchsorted(np.cumsum(round_shares), uniform[2], side="right")
        for rank, stride in enumerate(grid.strides, 1):
            at = (roundness == rank) & (lengths[stretch] > 1)
            index[at] = grid.made_round(index[at], stride)
        return index


def affordable(rows: float, noise: float, support: float, most: int, dimensions: int) -> int:
    """How many outcomes a column may have so that a cell is expected to stand `support` deviations above the noise."""
    if noise == 0:
        return most
    return int(np.clip((max(rows, 0.0) / (support * noise)) ** (1 / dimensions), 2, most))


def number_outcomes(stretches: Stretches, bins: int, tails: int, most: int, least: float) -> Outcomes:
    """Outcomes of a number.

    Args:
        stretches: its noisy distribution.
        bins: how many bins of equal mass the noise allows.
        tails: how often the first and the last bin are halved.
        most: how many values may be outcomes of their own.
        least: the mass that a value needs for that.
    """
    total = float(stretches.masses.sum())
    heavy = (stretches.lengths == 1) & (stretches.masses >= least) & (stretches.masses > 0)
    alone = np.flatnonzero(heavy)
    alone = np.sort(alone[np.argsort(-stretches.masses[alone], kind="stable")][:most])
    own = stretches.starts[alone]
    between = stretches.masses.copy()
    between[alone] = 0.0
    rest = float(between.sum())
    cuts = np.zeros(0, dtype=np.int64)
    if rest > 0:
        parts = max(1, round(bins * rest / total))
        halves = 0.5 ** np.arange(1, tails + 1) / parts
        shares = np.unique(np.concatenate([np.arange(1, parts) / parts, halves, 1 - halves]))
        ends = np.append(stretches.starts, stretches.size)
        rising = np.concatenate([[0.0], np.cumsum(between)]) + np.arange(len(ends)) * 1e-9
        cuts = np.unique(np.rint(np.interp(shares * rest, rising, ends)).astype(np.int64))
    finer = stretches.cut(cuts)
    which = np.searchsorted(cuts, finer.starts, side="right")
    place = np.searchsorted(own, finer.starts)
    is_own = np.isin(finer.starts, own)
    # Bins and values in the order of their first value: bin k, and the values inside it, after it.
    key = np.where(is_own, -1 - place, which)
    names, first = np.unique(key, return_index=True)
    rank = np.argsort(np.argsort(first))
    return _merged(Outcomes(finer, rank[np.searchsorted(names, key)]))


def _merged(outcomes: Outcomes) -> Outcomes:
    """The same with neighbouring stretches of one outcome that hold nothing made one, which keeps files small."""
    stretches, which = outcomes.stretches, outcomes.which
    empty = stretches.masses == 0
    again = empty[1:] & empty[:-1] & (which[1:] == which[:-1])
    kept = np.concatenate([[True], ~again])
    merged = replace(stretches, starts=stretches.starts[kept], masses=stretches.masses[kept])
    return Outcomes(merged, which[kept])


def grouped(masses: Floats, most: int, *, ordered: bool, missing: bool, least: float = 0.0) -> Ints:
    """The group of each outcome for comparisons: large ones alone, others together.

    Args:
        masses: of outcomes.
        most: how many groups of equal mass are affordable.
        ordered: whether neighbours belong together; else all small ones share a group.
        missing: whether the last outcome is that of missing values, which is a group of its own.
        least: without order, the mass above which an outcome is alone.
    """
    values = masses[:-1] if missing else masses
    total = max(float(values.sum()), 1e-9)
    if len(values) <= (most if ordered else 2):
        groups = np.arange(len(values), dtype=np.int64)
    elif ordered:
        alone = values >= total / most
        parts = max(1, round(most * float(values[~alone].sum()) / total))
        others = np.where(alone, 0.0, values)
        middle = (np.cumsum(others) - others / 2) / max(float(others.sum()), 1e-9)
        bins = np.minimum((middle * parts).astype(np.int64), parts - 1)
        key = np.where(alone, parts + np.arange(len(values)), bins)
        groups = np.unique(key, return_inverse=True)[1].astype(np.int64)
    else:
        alone = values > least
        key = np.where(alone | (np.sum(~alone) < 2), np.arange(len(values)), len(values))
        groups = np.unique(key, return_inverse=True)[1].astype(np.int64)
    return np.append(groups, groups.max() + 1) if missing else groups
