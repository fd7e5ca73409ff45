"""What may be asked at the door, and what comes back.

A query is a sum over records of something with a bounded norm, and carries its own proof of the bound: `add` enforces
it for every record, and `sensitivity` says it. Everything private that ever leaves the package is such a sum with
noise. Where a person has several records, the door sees to it that they move a sum by no more than one would
(`persons`), unless the query bounds whole persons itself (`PersonQuery`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["Batch", "Chance", "PersonQuery", "Published", "Query", "TextCounts"]


class Chance(Protocol):
    """Coins for single records, such as which fake a record is paired with; never noise."""

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Independent numbers, uniform on (0, 1), in float64."""
        ...

    def integers(self, high: int, count: int) -> Tensor:
        """Independent integers, uniform on 0 … high − 1."""
        ...


@dataclass(frozen=True, eq=False)
class Batch:
    """PRIVATE: some records of this process.

    Args:
        x: encoded records (or features of them, behind a derived door); the first axis counts them.
        labels: one class index per record, in int64, or None.
        chance: coins that are tossed for each record independently of the others.
        persons: for `PersonQuery` only: for each record the number of its person in this batch, in ascending order.
    """

    x: Tensor
    labels: Tensor | None
    chance: Chance
    persons: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return "Batch(<private>)"


class Query(Protocol):
    """A bounded sum over records."""

    @property
    def rows_at_once(self) -> int:
        """How many records `add` takes at a time at most: a bound on memory that depends on no data."""
        ...

    def zero(self) -> list[Tensor]:
        """The sum over no records: tensors in float64, which `add` changes in place."""
        ...

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add what the records of a batch contribute, each within its bound whatever it holds."""
        ...

    @property
    def sensitivity(self) -> float:
        """How far all sums together move in the L2 norm, at most, when one record comes or goes.

        Where persons have several records, it holds for all records of one person together.
        """
        ...


@runtime_checkable
class PersonQuery(Query, Protocol):
    """A query that bounds what all records of a person add together, which can be better than bounding each."""

    def add_persons(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add what the persons of a batch contribute, each within the sensitivity whatever it holds."""
        ...


class TextCounts:
    """How many rows have each of the texts of a column; for `Door.select`, since their number is private.

    Args:
        column: of the records; it holds the number of a text, or NaN.
        texts: how many there are.
    """

    rows_at_once: ClassVar[int] = 2**16
    sensitivity: ClassVar[float] = 1.0

    def __init__(self, column: int, texts: int) -> None:
        self._column, self._texts = column, texts

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(self._texts, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: count a batch; a record without a text counts nowhere."""
        numbers = batch.x[:, self._column]
        known = numbers[(numbers >= 0) & (numbers < self._texts)].to(torch.int64)
        sums[0] += torch.bincount(known, minlength=self._texts)


@dataclass(frozen=True, eq=False)
class Published:
    """Noisy sums: free to use, to keep and to publish.

    Args:
        values: float64 tensors of the shapes of `Query.zero`, on a public grid far below their noise.
        deviation: the standard deviation of the noise in every entry; 0 only in a baseline that is NOT PRIVATE.
    """

    values: tuple[Tensor, ...]
    deviation: float

    @property
    def value(self) -> Tensor:
        """The one tensor of a query that has only one."""
        (only,) = self.values
        return only
