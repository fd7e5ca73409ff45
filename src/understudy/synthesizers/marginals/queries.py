"""Noisy counts: the private statistic of tables, published in three vectors.

A *marginal* is a table of counts in which every record lies in at most one cell. A vector of k marginals changes by at
most 1 in each of them when a record is added or removed, so its L2 sensitivity is √k. `noisy_counts` counts the
marginals it is given and scales the noise by √k itself: nobody types a sensitivity.

1. Columns: the cells of each column; a number has one marginal for every level of its tree.
2. Label pairs: each column's bins by class.
3. Pairs: the groups of two columns, or of two columns by class.

Bins and groups come from what was published before.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.synthesizers.marginals.cells import BRANCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.door.noise import Noise
    from understudy.synthesizers.marginals.cells import Axis

    Cells = NDArray[np.int64]
    Marginal = tuple[Cells, int]
    """PRIVATE: the cell of every row, -1 for none, and the number of cells."""

__all__ = ["column_marginals", "label_marginals", "level_sizes", "noisy_counts", "pair_marginals"]


def noisy_counts(marginals: Iterable[Marginal], noise_multiplier: float, noise: Noise) -> list[Tensor]:
    """The counts of k marginals with Gaussian noise of standard deviation σ·√k, in float64.

    Args:
        marginals: PRIVATE; made one at a time, so that all of them need not fit in memory.
        noise_multiplier: σ as charged; zero only in a baseline.
        noise: where the noise comes from.
    """
    counts = [_counted(cells, size) for cells, size in marginals]
    noise.perturb(counts, noise_multiplier * math.sqrt(len(counts)), 1.0)
    return counts


def _counted(cells: Cells, size: int) -> Tensor:
    """PRIVATE: how many rows lie in each cell; a row outside of all cells counts nowhere."""
    inside = cells[(cells >= 0) & (cells < size)]
    return torch.from_numpy(np.bincount(inside, minlength=size).astype(np.float64))


def level_sizes(axis: Axis) -> list[int]:
    """The number of cells on each level of an axis, coarsest first; missing values are on the coarsest."""
    sizes = [math.ceil(axis.size / BRANCHES**finer) for finer in reversed(range(axis.depth))]
    return [sizes[0] + axis.missing, *sizes[1:]]


def column_marginals(axes: Sequence[Axis], x: NDArray[np.float32]) -> Iterator[Marginal]:
    """Every level of every column."""
    for axis in axes:
        cells = axis.cells(x)
        for level, size in enumerate(level_sizes(axis)):
            coarse = cells // BRANCHES ** (axis.depth - 1 - level)
            gone = size - 1 if level == 0 else -1
            yield np.where(cells == axis.size, gone, coarse) if axis.missing else coarse, size


def label_marginals(bins: Sequence[Marginal], labels: Cells, classes: int) -> Iterator[Marginal]:
    """Each column by class: cell = class · size + bin."""
    for cells, size in bins:
        yield labels * size + cells, classes * size


def pair_marginals(groups: Sequence[Marginal], labels: Cells | None, classes: int) -> Iterator[Marginal]:
    """Every two columns, by class if labels are given: cell = (class · first size + first) · second size + second."""
    for (one, first), (other, second) in itertools.combinations(groups, 2):
        upper = one if labels is None else labels * first + one
        yield upper * second + other, first * second * (1 if labels is None else classes)
