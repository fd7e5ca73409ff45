"""From noisy counts to bins: post-processing, so nothing here is private.

The tree of a number is walked from the top: a cell whose noisy count stands well above the noise is split into its
sixteen children, all others stay as they are. So a skewed column gets fine cells where its values are, wherever
that is between the bounds. Cells are then merged into bins of about equal mass, with finer bins in both tails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.synthesizers.marginals.cells import BRANCHES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from understudy.synthesizers.marginals.cells import Axis

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = [
    "KNOTS",
    "Spread",
    "bin_edges",
    "equal_groups",
    "knots_of",
    "large_groups",
    "on_simplex",
    "spread_of",
]

KNOTS = 17
"""Points of the distribution within one bin that a generator keeps."""
_SPLIT = 4.0
"""A cell is split if its noisy count exceeds this many standard deviations of the noise."""


@dataclass(frozen=True, eq=False)
class Spread:
    """The noisy distribution of a number along its line of cells, uniform between positions.

    Args:
        positions: from 0 to the number of cells, increasing.
        cumulative: the mass below each position, not decreasing.
        missing: the mass of missing values.
    """

    positions: Floats
    cumulative: Floats
    missing: float

    def below(self, positions: Ints) -> Floats:
        """The mass below these positions."""
        return np.interp(positions, self.positions, self.cumulative)

    def quantile(self, mass: Floats) -> Floats:
        """Positions below which these masses lie."""
        rising = self.cumulative + np.arange(len(self.cumulative)) * 1e-9
        return np.interp(mass, rising, self.positions)


def on_simplex(values: Floats, total: float) -> Floats:
    """The nearest numbers that are not negative and have this sum (Duchi et al., 2008)."""
    if total <= 0:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    shift = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling > shift)[-1]
    nearest: Floats = np.maximum(values - shift[last], 0)
    return nearest


def spread_of(axis: Axis, levels: Sequence[Floats], noise: float, total: float) -> Spread:
    """The distribution that the noisy counts of a number's tree tell.

    Args:
        axis: of a number.
        levels: noisy counts, coarsest first; on the coarsest the last cell is that of missing values, if any.
        noise: their standard deviation.
        total: the public or noisy number of rows.
    """
    top = on_simplex(levels[0], total)
    leaves: list[tuple[int, float]] = []

    def walk(level: int, index: int, mass: float) -> None:
        if level + 1 == axis.depth or mass <= _SPLIT * noise:
            leaves.append((index * BRANCHES ** (axis.depth - 1 - level), mass))
            return
        children = levels[level + 1][index * BRANCHES : (index + 1) * BRANCHES]
        for child, part in enumerate(on_simplex(children, mass)):
            walk(level + 1, index * BRANCHES + child, float(part))

    for index, mass in enumerate(top[: len(top) - axis.missing]):
        walk(0, index, float(mass))
    starts = [float(start) for start, _ in leaves]
    masses = [mass for _, mass in leaves]
    return Spread(
        np.array([*starts, float(axis.size)]),
        np.concatenate([[0.0], np.cumsum(masses)]),
        float(top[-1]) if axis.missing else 0.0,
    )


def bin_edges(axis: Axis, spread: Spread, bins: int, tails: int) -> Ints:
    """Edges, in cells, of `bins` bins of about equal mass, the first and the last halved `tails` times.

    A value that carries much of the mass has a bin for itself, so there may be fewer.
    """
    halves = 0.5 ** np.arange(1, tails + 1) / bins
    shares = np.sort(np.concatenate([np.arange(1, bins) / bins, halves, 1 - halves]))
    inner = np.rint(spread.quantile(shares * spread.cumulative[-1]))
    return np.unique(np.concatenate([[0], inner, [axis.size]])).astype(np.int64)


def knots_of(axis: Axis, spread: Spread, edges: Ints) -> Floats:
    """Encoded values at equal steps of mass within each bin, of shape (bins, KNOTS)."""
    mass = spread.below(edges)
    steps = np.linspace(0, 1, KNOTS)
    inside = spread.quantile(mass[:-1, None] + steps * np.diff(mass)[:, None])
    plain = edges[:-1, None] + steps * np.diff(edges)[:, None]
    empty = (np.diff(mass) < 1e-6)[:, None]
    positions = np.where(empty, plain, np.clip(inside, edges[:-1, None], edges[1:, None]))
    return axis.encoded(positions)


def equal_groups(masses: Floats, most: int) -> Ints:
    """The group of each bin: at most `most` groups of neighbours with about equal mass."""
    middle = (np.cumsum(masses) - masses / 2) / max(float(masses.sum()), 1e-9)
    groups = np.minimum((middle * most).astype(np.int64), most - 1)
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def large_groups(masses: Floats, least: float, most: int) -> Ints:
    """The group of each category: its own if its mass is above `least`, else one that all others share."""
    own = [int(i) for i in np.argsort(-masses, kind="stable")[: most - 1] if masses[i] > least]
    if len(own) >= len(masses) - 1:
        return np.arange(len(masses), dtype=np.int64)
    groups = np.full(len(masses), len(own), dtype=np.int64)
    groups[sorted(own)] = np.arange(len(own))
    return groups
