"""Poisson batches: each record (or person with all records) joins independently with the public probability q.

The draw is made in two parts that have together the same distribution: how many records join,
Binomial(N, q), and which ones, a uniform subset of that size. The cost grows with the batch and not with N,
so 60 million memory-mapped rows cost what 60 thousand do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import bdtr, bdtrik

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.door.noise import Noise

__all__ = ["poisson_indices"]


def poisson_indices(rows: int, rate: float, noise: Noise, cap: int | None = None) -> Tensor:
    """The sorted indices of one Poisson batch out of `rows` records.

    Args:
        rows: N, how many records there are.
        rate: q, the probability with which each joins.
        noise: where the randomness comes from.
        cap: the largest batch; a larger draw is cut to a uniform subset of this size, as the truncated event
            of `SubsampledGaussian` expects.
    """
    count = rows if rows == 0 or rate >= 1.0 else _binomial(noise.uniform((1,)).item(), rows, rate)
    if cap is not None:
        count = min(count, cap)
    return _uniform_subset(rows, count, noise)


def _binomial(level: float, rows: int, rate: float) -> int:
    """The least count whose Binomial(rows, rate) distribution function reaches `level`."""
    count = max(0, min(rows, math.ceil(bdtrik(level, rows, rate))))
    while count > 0 and bdtr(count - 1, rows, rate) >= level:
        count -= 1
    while count < rows and bdtr(count, rows, rate) < level:
        count += 1
    return count


def _uniform_subset(rows: int, count: int, noise: Noise) -> Tensor:
    """A uniform subset of {0 … rows − 1} of the given size, sorted."""
    if 2 * count > rows:
        left_out = _uniform_subset(rows, rows - count, noise)
        keep = torch.ones(rows, dtype=torch.bool)
        keep[left_out] = False
        return keep.nonzero().squeeze(1)
    chosen = np.empty(0, dtype=np.int64)
    while len(chosen) < count:
        # Drawing one by one and passing over repetitions gives a uniform subset; this does many at once.
        drawn = np.concatenate([chosen, noise.integers(rows, count - len(chosen) + 8).numpy()])
        _, first = np.unique(drawn, return_index=True)
        chosen = drawn[np.sort(first)[:count]]
    return torch.from_numpy(np.sort(chosen))
