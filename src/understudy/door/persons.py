"""PRIVATE: whose rows are whose, and how the rows of one person together move a sum by no more than one row would.

A query bounds what one row adds: a vector of norm at most s, its sensitivity. The r rows of a person that take part get
the weight 1/r each. Then the person adds the mean of r vectors of norm at most s, whose norm is at most s again: the
sensitivity holds for whole persons, whatever the query and whatever the rows hold, and the noise need not grow with
the number of rows. Everybody counts once: a count of rows becomes a count of persons, and what is learned is the
distribution of a row of a person. Counting every row in full would need k times the noise, k being the most rows that
a person may have.

A query that bounds whole persons itself (`PersonQuery`), such as one that clips a person's gradient, is handed whole
persons instead. No batch ever splits a person.

At most k rows of a person take part. Which ones depends on the content of this person's rows alone: neither on other
persons nor on the order of rows in a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from understudy.door.query import Batch, PersonQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.door.query import Chance, Query

    Words = NDArray[np.uint64]
    Array = NDArray[Any] | Tensor

__all__ = ["Persons", "add_persons"]

_STEPS = 2**20
"""Weights are multiples of 1 / this, rounded down: sums of counts up to 2³³ with such weights are exact in float64."""

_HASHED_AT_ONCE = 4096
_HASH_SEED = 20_261_117
"""Public: by what the contents of rows are hashed."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Persons:
    """The rows of each person that take part.

    Args:
        rows: their indices, those of one person together.
        starts: where in `rows` each person begins, and at last how many rows there are.
        most: how many rows a person may have; public.
    """

    rows: Tensor
    starts: Tensor
    most: int

    @classmethod
    def of(cls, numbers: NDArray[np.integer] | Tensor, most: int, x: Array, labels: Array | None) -> Persons:
        """Group rows by the numbers of their persons, and leave out what is above `most` rows of a person.

        Args:
            numbers: for each row the number of its person.
            most: k.
            x: the content of the rows, by which they are chosen.
            labels: belongs to the content.
        """
        known = np.asarray(numbers)
        order = np.argsort(known, kind="stable")
        sizes = np.unique(known, return_counts=True)[1]
        if len(sizes) and sizes.max() > most:
            order = _chosen(order, sizes, most, x, labels)
        starts = np.concatenate([[0], np.cumsum(np.minimum(sizes, most))]).astype(np.int64)
        return cls(torch.from_numpy(order.astype(np.int64)), torch.from_numpy(starts), most)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __repr__(self) -> str:
        return "Persons(<private>)"

    def rows_of(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of the chosen persons, and for each of them the place of its person among the chosen."""
        first, sizes = self.starts[chosen], self.starts[chosen + 1] - self.starts[chosen]
        owners = torch.repeat_interleave(torch.arange(len(chosen)), sizes)
        before = torch.cumsum(sizes, 0) - sizes
        return self.rows[(first - before)[owners] + torch.arange(len(owners))], owners

    def by_size(self, chosen: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The chosen persons, apart by how many rows they have."""
        sizes = self.starts[chosen + 1] - self.starts[chosen]
        for size in torch.bincount(sizes).nonzero().flatten().tolist():
            yield size, chosen[sizes == size]


def add_persons(
    query: Query,
    sums: list[Tensor],
    persons: Persons,
    chosen: Tensor,
    take: Callable[[Tensor], tuple[Tensor, Tensor | None]],
    at_once: int,
    chance: Chance,
) -> None:
    """PRIVATE: add what the chosen persons contribute, each within the sensitivity of the query.

    Args:
        query: what to sum.
        sums: changed in place.
        persons: whose rows are whose.
        chosen: some persons, each once.
        take: gives the rows of some indices, and their labels.
        at_once: how many rows are handed to the query at a time, but never a part of a person.
        chance: coins.
    """
    if isinstance(query, PersonQuery):
        for part in torch.split(chosen, max(1, at_once // persons.most)):
            rows, owners = persons.rows_of(part)
            query.add_persons(sums, Batch(*take(rows), chance, owners))
        return
    if not len(chosen):
        query.add(sums, Batch(*take(chosen), chance))  # an empty batch is one like any other
    for size, alike in persons.by_size(chosen):
        own, share = query.zero(), _share(size)
        for part in torch.split(alike, max(1, at_once // size)):
            query.add(own, Batch(*take(persons.rows_of(part)[0]), chance))
        for place, one in enumerate(own):
            sums[place] = (share * one).add_(sums[place])


def _share(rows: int) -> float:
    """The weight of each row of a person who has so many: all of them together weigh at most one."""
    return (_STEPS // rows) / _STEPS


# ------------------------------------------------------------------------------ which rows take part


def _chosen(
    order: NDArray[np.int64], sizes: NDArray[np.int64], most: int, x: Array, labels: Array | None
) -> NDArray[np.int64]:
    """The rows, those of one person together, without what is above `most` of a person.

    Each person's rows are shuffled by a key that is made of the row's content and of what all rows of the person hold
    together, and the first ones stay. No content is preferred: another person may well keep what this one does not.

    Args:
        order: all rows, those of one person together.
        sizes: how many each person has.
        most: how many stay.
        x: content of all rows.
        labels: belongs to it.
    """
    owners = np.repeat(np.arange(len(sizes)), sizes)
    crowded = sizes[owners] > most
    rows, owner = order[crowded], owners[crowded]
    content = _hashed(rows, x, labels)
    ordered = np.lexsort((content, owner))
    rows, content = rows[ordered], content[ordered]
    position, first = np.arange(len(rows)), np.diff(owner, prepend=-1) != 0
    person = np.cumsum(first) - 1
    place = position - np.flatnonzero(first)[person]
    equal = position - np.maximum.accumulate(np.where(first | _changes(content), position, 0))
    whole = _mixed(np.add.reduceat(content, np.flatnonzero(first)))[person]
    key = _mixed(content ^ (whole + equal.astype(np.uint64) * _ODD))
    kept = np.lexsort((key, owner))[place < most]
    everyone = np.concatenate([owners[~crowded], owner[kept]])
    taken: NDArray[np.int64] = np.concatenate([order[~crowded], rows[kept]])
    return taken[np.argsort(everyone, kind="stable")]


def _changes(values: Words) -> NDArray[np.bool_]:
    """Where a value differs from the one before."""
    return np.concatenate([[True], values[1:] != values[:-1]])


def _hashed(rows: NDArray[np.int64], x: Array, labels: Array | None) -> Words:
    """A word for the content of each row, equal for equal rows."""
    width = int(np.prod(x.shape[1:]))
    factors = np.random.default_rng(_HASH_SEED).integers(0, 2**63, width, dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    words = []
    for start in range(0, len(rows), _HASHED_AT_ONCE):
        part = rows[start : start + _HASHED_AT_ONCE]
        flat = np.asarray(x[part], dtype=np.float32).reshape(len(part), -1) + np.float32(0)  # -0 becomes 0
        found = flat.view(np.uint32).astype(np.uint64) @ factors
        words.append(found if labels is None else found + np.asarray(labels[part]).astype(np.uint64) * _ODD)
    return _mixed(np.concatenate(words))


def _mixed(words: Words) -> Words:
    """The finaliser of SplitMix64: every bit of a word changes about half of the bits."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
