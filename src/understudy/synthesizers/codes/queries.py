"""PRIVATE: counts of code sets, asked in up to four vectors.

Most records have few codes, so their influence is bounded by that and not by how many codes exist:

1. Lengths: a record lies in one cell, that of its class and of how many different codes it has. Sensitivity 1.
2. Codes: a record adds its weight to each of its codes. Sensitivity √m.
3. Pairs: a record adds its weight to each pair of its chosen codes. Sensitivity √q.
4. Repeats: how often codes occur beyond the first time, a vector shortened to length R. Sensitivity R.

The weight is 1 as long as a record adds to at most m codes or q pairs, and else what brings its vector to the length √m
or √q. It depends on the record alone. m and q come from published numbers.
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

__all__ = ["CodeCounts", "LengthCounts", "PairCounts", "RepeatSums", "weights"]

_ROWS_AT_ONCE = 2048

_SLACK = 1 + 1e-9
"""Shortened vectors stay this much below their bound, which covers rounding in float64."""


def _present(batch: Batch) -> Present:
    """PRIVATE: which codes each encoded record has; what is not a number counts as absent."""
    found: Present = batch.x.numpy() > 0
    return found


def _labels(batch: Batch) -> Ints:
    return np.zeros(len(batch), dtype=np.int64) if batch.labels is None else batch.labels.numpy()


def weights(entries: Ints, full: int) -> NDArray[np.float64]:
    """PRIVATE: for each record the weight with which it adds to so many entries: 1 up to `full` of them, then less.

    A vector of N entries of weight √(full / N) has the length √full.
    """
    return np.where(entries <= full, 1.0, np.sqrt(full / np.maximum(entries, 1)) / _SLACK)


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
    """How many records of each class have each code; those with more than `full` codes weigh less."""

    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE

    def __init__(self, classes: int, codes: int, full: int) -> None:
        self._classes, self._codes, self._full = classes, codes, full
        self.sensitivity = math.sqrt(full)

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(self._classes, self._codes, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: each record's weight in the cells of its codes and class."""
        present, labels = _present(batch), _labels(batch)
        each = weights(present.sum(axis=1), self._full)
        rows, codes = np.nonzero(present)
        known = of_known_class(torch.from_numpy(labels[rows]), self._classes).numpy()
        cells = (labels[rows] * self._codes + codes)[known]
        counts = np.bincount(cells, each[rows][known], minlength=self._classes * self._codes)
        sums[0] += torch.from_numpy(counts).reshape(self._classes, self._codes)


class PairCounts:
    """How many records have each two items, in the order of `torch.triu_indices`; more than `full` pairs weigh less.

    Args:
        places: for each code the item that it is or belongs to, or -1.
        items: how many.
        full: the most pairs of a record that weighs 1.
    """

    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE

    def __init__(self, places: Ints, items: int, full: int) -> None:
        self._places, self._items, self._full = places, items, full
        self.sensitivity = math.sqrt(full)

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(math.comb(self._items, 2), dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: each record's weight in the cells of its pairs."""
        rows, codes = np.nonzero(_present(batch))
        places = self._places[codes]
        present = np.zeros((len(batch), self._items))
        present[rows[places >= 0], places[places >= 0]] = 1.0
        number = present.sum(axis=1).astype(np.int64)
        each = weights(number * (number - 1) // 2, self._full)
        together = torch.from_numpy((present * each[:, None]).T @ present)
        one, other = torch.triu_indices(self._items, self._items, offset=1)
        sums[0] += together[one, other]


class RepeatSums:
    """How often each code occurs beyond the first time in a record.

    Args:
        codes: how many.
        most: the largest count.
        bound: R, the length to which one record's vector is shortened.
    """

    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE

    def __init__(self, codes: int, most: int, bound: float) -> None:
        self._codes, self._most = codes, most
        self.sensitivity = bound

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(self._codes, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: each record's vector, shortened to the bound."""
        rows, codes = np.nonzero(_present(batch))
        share = np.clip(batch.x.numpy()[rows, codes].astype(np.float64), 0, 1)
        extra = np.maximum(np.rint(share * self._most) - 1, 0)
        length = np.sqrt(np.bincount(rows, np.square(extra), minlength=len(batch)))
        shrink = np.minimum(1, self.sensitivity / np.maximum(length * _SLACK, 1e-9))
        sums[0] += torch.from_numpy(np.bincount(codes, extra * shrink[rows], minlength=self._codes))
