"""Noisy counts of codes: the private statistic of code vectors, published in up to four vectors.

Most records have few codes, so their influence is bounded by that and not by how many codes exist:

1. Lengths: a record lies in one cell, that of its class and of how many different codes it has. Sensitivity 1.
2. Codes: a record adds 1 to at most m codes of its class. Sensitivity √m.
3. Pairs: a record adds 1 to at most m(m − 1)/2 pairs of codes. Sensitivity √(m(m − 1)/2).
4. Repeats: how often codes occur beyond the first time, a vector shortened to length R. Sensitivity R.

A record with more than m codes takes part with m of them. m comes from the published lengths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.door.noise import Noise

    Present = NDArray[np.bool_]
    Ints = NDArray[np.int64]

__all__ = [
    "Bounded",
    "code_counts",
    "length_counts",
    "noisy",
    "pair_counts",
    "present_codes",
    "repeat_sums",
    "shortened",
]

_ROWS_AT_ONCE = 8192

_CIRCLE_SEED = 20_261_116
"""Public: in which order codes are passed when a record has too many."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """PRIVATE: an exact sum over records.

    Args:
        sums: in float64.
        sensitivity: by how much one record more or less moves it, at most, in L2.
    """

    sums: Tensor
    sensitivity: float


def noisy(exact: Bounded, noise_multiplier: float, noise: Noise) -> Tensor:
    """The sum with Gaussian noise of standard deviation σ times its sensitivity.

    Args:
        exact: PRIVATE.
        noise_multiplier: σ as charged; zero only in a baseline.
        noise: where the noise comes from.
    """
    sums = exact.sums.clone()
    noise.perturb([sums], noise_multiplier * exact.sensitivity, 1.0)
    return sums


def present_codes(x: NDArray[np.float32]) -> Present:
    """PRIVATE: which codes each encoded record has; what is not a number counts as absent."""
    found: Present = x > 0
    return found


def shortened(present: Present, kept: int) -> Present:
    """PRIVATE: the same records with at most `kept` codes each; longer ones keep the first of a shuffled circle.

    Codes stand in a circle in a public random order. Where a record begins to count depends on its own codes and on
    nothing else, so adding a record does not change what others keep, and no code is preferred.
    """
    long = np.flatnonzero(present.sum(axis=1) > kept)
    cut = present.copy() if len(long) else present
    size = present.shape[1]
    circle = np.random.default_rng(_CIRCLE_SEED).permutation(size)
    for some in _in_parts(long):
        rows = long[some]
        begin = (present[rows] @ np.square(circle + 1)) % size
        distance = np.where(present[rows], (circle - begin[:, None]) % size, size)
        nearest = np.argpartition(distance, kept - 1, axis=1)[:, :kept]
        part = np.zeros_like(present[rows])
        np.put_along_axis(part, nearest, values=True, axis=1)
        cut[rows] = part
    return cut


def length_counts(present: Present, labels: Ints, classes: int, longest: int) -> Bounded:
    """How many records of each class have each number of codes; more than `longest` count as `longest`."""
    lengths = np.minimum(present.sum(axis=1), longest)
    cells = np.bincount(labels * (longest + 1) + lengths, minlength=classes * (longest + 1))
    return Bounded(torch.from_numpy(cells.astype(np.float64)).reshape(classes, longest + 1), 1.0)


def code_counts(present: Present, labels: Ints, classes: int, kept: int) -> Bounded:
    """How many records of each class have each code; `present` must be shortened to `kept` codes."""
    counts = np.stack([present[labels == one].sum(axis=0, dtype=np.float64) for one in range(classes)])
    return Bounded(torch.from_numpy(counts), math.sqrt(kept))


def pair_counts(present: Present, codes: Ints, kept: int) -> Bounded:
    """How many records have each two of the chosen codes, in the order of `torch.triu_indices`.

    `present` must be shortened to `kept` codes.
    """
    together = torch.zeros(len(codes), len(codes), dtype=torch.float64)
    for rows in _in_parts(present):
        chosen = torch.from_numpy(present[rows][:, codes].astype(np.float32))
        together += chosen.T @ chosen
    one, other = torch.triu_indices(len(codes), len(codes), offset=1)
    return Bounded(together[one, other], math.sqrt(math.comb(kept, 2)))


def repeat_sums(x: NDArray[np.float32], present: Present, most: int, bound: float) -> Bounded:
    """How often each code occurs beyond the first time in a record, summed over records.

    Args:
        x: PRIVATE encoded records: counts over `most`.
        present: PRIVATE; codes that are not present here are left out.
        most: the largest count.
        bound: R, the length to which one record's vector is shortened.
    """
    sums = torch.zeros(x.shape[1], dtype=torch.float64)
    for rows in _in_parts(x):
        counted = np.rint(np.clip(np.nan_to_num(x[rows].astype(np.float64)), 0, 1) * most)
        extra = np.where(present[rows], np.maximum(counted - 1, 0), 0)
        length = np.sqrt(np.square(extra).sum(axis=1, keepdims=True))
        sums += torch.from_numpy((extra * np.minimum(1, bound / np.maximum(length, 1e-9))).sum(axis=0))
    return Bounded(sums, bound)


def _in_parts(array: NDArray[np.generic]) -> Iterator[slice]:
    for start in range(0, len(array), _ROWS_AT_ONCE):
        yield slice(start, start + _ROWS_AT_ONCE)
