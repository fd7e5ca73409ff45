"""PRIVATE: counts of code sets, asked in up to four vectors.

Most records have few codes, so their influence is bounded by that and not by how many codes exist:

1. Lengths: a record lies in one cell, that of its class and of how many different codes it has. Sensitivity 1.
2. Codes: a record adds 1 to at most m codes of its class. Sensitivity √m.
3. Pairs: a record adds 1 to at most m(m − 1)/2 pairs of codes. Sensitivity √(m(m − 1)/2).
4. Repeats: how often codes occur beyond the first time, a vector shortened to length R. Sensitivity R.

A record with more than m codes takes part with m of them, in every batch: shortening is part of `add`. m comes from the
published lengths.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from understudy.synthesizers.shared.queries import of_known_class

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.door.query import Batch

    Present = NDArray[np.bool_]
    Ints = NDArray[np.int64]

__all__ = ["CodeCounts", "LengthCounts", "PairCounts", "RepeatSums", "shortened"]

_ROWS_AT_ONCE = 8192

_CIRCLE_SEED = 20_261_116
"""Public: in which order codes are passed when a record has too many."""

_SLACK = 1 + 1e-9
"""Shortened vectors of repetitions stay this much below their bound, which covers rounding in float64."""


def _present(batch: Batch) -> Present:
    """PRIVATE: which codes each encoded record has; what is not a number counts as absent."""
    found: Present = batch.x.numpy() > 0
    return found


def _labels(batch: Batch) -> Ints:
    return np.zeros(len(batch), dtype=np.int64) if batch.labels is None else batch.labels.numpy()


def shortened(present: Present, kept: int) -> Present:
    """PRIVATE: the same records with at most `kept` codes each; longer ones keep the first of a shuffled circle.

    Codes stand in a circle in a public random order. Where a record begins to count depends on its own codes and on
    nothing else, so adding a record does not change what others keep, and no code is preferred.
    """
    long = np.flatnonzero(present.sum(axis=1) > kept)
    if not len(long):
        return present
    cut, size = present.copy(), present.shape[1]
    circle = np.random.default_rng(_CIRCLE_SEED).permutation(size)
    begin = (present[long] @ np.square(circle + 1)) % size
    distance = np.where(present[long], (circle - begin[:, None]) % size, size)
    nearest = np.argpartition(distance, kept - 1, axis=1)[:, :kept]
    part = np.zeros_like(present[long])
    np.put_along_axis(part, nearest, values=True, axis=1)
    cut[long] = part
    return cut


class LengthCounts:
    """How many records of each class have each number of codes; more than `longest` count as `longest`."""

    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE
    sensitivity: ClassVar[float] = 1.0

    def __init__(self, classes: int, longest: int) -> None:
        self._classes, self._longest = classes, longest

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(self._classes, self._longest + 1, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: each record in one cell."""
        width = self._longest + 1
        lengths = np.minimum(_present(batch).sum(axis=1), self._longest)
        labels = _labels(batch)
        known = of_known_class(torch.from_numpy(labels), self._classes).numpy()
        cells = np.bincount((labels * width + lengths)[known], minlength=self._classes * width)
        sums[0] += torch.from_numpy(cells).reshape(self._classes, width)


class CodeCounts:
    """How many records of each class have each code, counting at most `kept` codes of a record."""

    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE

    def __init__(self, classes: int, codes: int, kept: int) -> None:
        self._classes, self._codes, self._kept = classes, codes, kept
        self.sensitivity = math.sqrt(kept)

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(self._classes, self._codes, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: each record in at most `kept` cells of its class."""
        present, labels = shortened(_present(batch), self._kept), _labels(batch)
        for one in range(self._classes):
            sums[0][one] += torch.from_numpy(present[labels == one].sum(axis=0, dtype=np.float64))


class PairCounts:
    """How many records have each two of the chosen codes, in the order of `torch.triu_indices`."""

    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE

    def __init__(self, chosen: Ints, kept: int) -> None:
        self._chosen, self._kept = chosen, kept
        self.sensitivity = math.sqrt(math.comb(kept, 2))

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(math.comb(len(self._chosen), 2), dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: each record in at most `kept` (`kept` − 1) / 2 cells; counts of a batch are exact in float32."""
        present = shortened(_present(batch), self._kept)
        chosen = torch.from_numpy(present[:, self._chosen].astype(np.float32))
        one, other = torch.triu_indices(len(self._chosen), len(self._chosen), offset=1)
        sums[0] += (chosen.T @ chosen)[one, other]


class RepeatSums:
    """How often each code occurs beyond the first time in a record.

    Args:
        codes: how many.
        most: the largest count.
        kept: codes of a record that count.
        bound: R, the length to which one record's vector is shortened.
    """

    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE

    def __init__(self, codes: int, most: int, kept: int, bound: float) -> None:
        self._codes, self._most, self._kept = codes, most, kept
        self.sensitivity = bound

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(self._codes, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: each record's vector, shortened to the bound."""
        present = shortened(_present(batch), self._kept)
        share = np.clip(np.nan_to_num(batch.x.numpy().astype(np.float64)), 0, 1)
        extra = np.where(present, np.maximum(np.rint(share * self._most) - 1, 0), 0)
        length = np.sqrt(np.square(extra).sum(axis=1, keepdims=True))
        shrink = np.minimum(1, self.sensitivity / np.maximum(length * _SLACK, 1e-9))
        sums[0] += torch.from_numpy((extra * shrink).sum(axis=0))
