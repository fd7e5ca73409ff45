"""Poisson batches: each record (or person with all records) joins independently with the public probability q.

The draw is made in two parts that have together the same distribution: how many records join,
Binomial(N, q), and which ones, a uniform subset of that size. The cost grows with the batch and not with N,
so 60 million memory-mapped rows cost what 60 thousand do.

Each process of a run draws among its own records, from its own entropy; together that is one Poisson batch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import bdtr, bdtrik

from understudy.door.ranks import ALONE

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.door.query import Chance
    from understudy.door.ranks import Ranks

__all__ = ["poisson_indices"]


def poisson_indices(
    rows: int, rate: float, chance: Chance, cap: int | None = None, ranks: Ranks = ALONE
) -> Tensor:
    """The sorted indices of one Poisson batch out of `rows` records, those of this process.

    Args:
        rows: how many records this process has.
        rate: q, the probability with which each joins.
        chance: where the randomness comes from.
        cap: the largest batch of all processes together; a larger draw is cut to a uniform subset of this
            size, as the truncated event of `SubsampledGaussian` expects.
        ranks: the processes that draw one batch together.
    """
    count = rows if rows == 0 or rate >= 1.0 else _binomial(chance.uniform((1,)).item(), rows, rate)
    if cap is not None:
        count = _within(cap, count, chance, ranks)
    return _uniform_subset(rows, count, chance)


def _binomial(level: float, rows: int, rate: float) -> int:
    """The least count whose Binomial(rows, rate) distribution function reaches `level`."""
    count = max(0, min(rows, math.ceil(bdtrik(level, rows, rate))))
    while count > 0 and bdtr(count - 1, rows, rate) >= level:
        count -= 1
    while count < rows and bdtr(count, rows, rate) < level:
        count += 1
    return count


def _within(cap: int, count: int, chance: Chance, ranks: Ranks) -> int:
    """How many of the `count` records of this process stay, so that all have `cap` together: a hypergeometric deal."""
    if ranks.size == 1:
        return min(cap, count)
    counts = torch.zeros(ranks.size, dtype=torch.int64)
    counts[ranks.rank] = count
    (counts,) = ranks.added([counts])
    if ranks.first and int(counts.sum()) > cap:
        stays = _uniform_subset(int(counts.sum()), cap, chance)  # the records of all processes in a row
        owner = torch.searchsorted(counts.cumsum(0), stays, right=True)
        counts = torch.bincount(owner, minlength=ranks.size)
    (counts,) = ranks.shared([counts])
    return int(counts[ranks.rank])


def _uniform_subset(rows: int, count: int, chance: Chance) -> Tensor:
    """A uniform subset of {0 … rows − 1} of the given size, sorted."""
    if 2 * count > rows:
        left_out = _uniform_subset(rows, rows - count, chance)
        keep = torch.ones(rows, dtype=torch.bool)
        keep[left_out] = False
        return keep.nonzero().squeeze(1)
    chosen = np.empty(0, dtype=np.int64)
    while len(chosen) < count:
        # Drawing one by one and passing over repetitions gives a uniform subset; this does many at once.
        drawn = np.concatenate([chosen, chance.integers(rows, count - len(chosen) + 8).numpy()])
        _, first = np.unique(drawn, return_index=True)
        chosen = drawn[np.sort(first)[:count]]
    return torch.from_numpy(np.sort(chosen))
