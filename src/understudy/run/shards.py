"""PRIVATE: which records are whose, where several processes run together: every record belongs to exactly one."""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from understudy.errors import PartsError, RanksError

if TYPE_CHECKING:
    from understudy.door.ranks import Ranks
    from understudy.door.source import Rows
    from understudy.records.encode import Encoded

__all__ = [
    "Shard",
    "Shards",
    "dealt",
    "ends_of",
    "fingerprint",
    "own_part",
    "refuse_differences",
    "refuse_same_shard",
    "refuse_split_persons",
]

_COMPARED = 4096
"""Rows at each end of a shard by which it is told from another."""


class Shards(enum.Enum):
    """What the data that every process is given is."""

    DEALT = "dealt"
    """All processes are given the same data, and each takes its part."""

    OWN = "own"
    """Each process is given a shard of its own; together they are the data."""


@dataclass(frozen=True)
class Shard:
    """Which part of the records is meant: that of number `rank` of `size`, counted from 0."""

    rank: int
    size: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise PartsError(f"shards are numbered from 1 to {self.size}, got {self}.")

    def __str__(self) -> str:
        return f"{self.rank + 1}/{self.size}"

    @classmethod
    def of(cls, text: str) -> Shard:
        """The shard that a text such as 3/8 names.

        Raises:
            PartsError: it names none.
        """
        number, _, size = text.partition("/")
        if not (number.isdecimal() and size.isdecimal()):
            raise PartsError(f"--shard takes a number and how many there are, such as 3/8, got {text!r}.")
        return cls(int(number) - 1, int(size))


def own_part(encoded: Encoded, ranks: Ranks | Shard, shards: Shards) -> Encoded:
    """The records of this process, among those that it was given.

    Raises:
        RanksError: processes have shards of their own, and a person may have records in several.
    """
    if shards is Shards.DEALT:
        return dealt(encoded, ranks)
    if encoded.persons is not None:
        refuse_split_persons(ranks)
    return encoded


def refuse_split_persons(ranks: Ranks | Shard) -> None:
    """Refuse shards of their own where a person may have records in several.

    Raises:
        RanksError: there are several shards.
    """
    if ranks.size > 1:
        raise RanksError(
            "a person with records in two shards would count twice, and nobody can see that there is none. Give all "
            "processes the whole data, of which each takes its persons: leave --own-shards out."
        )


def dealt(encoded: Encoded, ranks: Ranks | Shard) -> Encoded:
    """The part of this process: every record, and every person with all records, belongs to exactly one process.

    All processes number persons alike, since all were given the same records; a part without any is fine.
    """
    if ranks.size == 1:
        return encoded
    numbers = np.arange(len(encoded)) if encoded.persons is None else encoded.persons
    own = numbers % ranks.size == ranks.rank
    labels = None if encoded.labels is None else encoded.labels[own]
    persons = None if encoded.persons is None else encoded.persons[own]
    return replace(encoded, x=encoded.x[own], labels=labels, persons=persons)


def fingerprint(encoded: Encoded, key: bytes) -> str:
    """A hash of all records, in their order, under a key that is drawn for one comparison."""
    code = hmac.new(key, digestmod=hashlib.sha256)
    for part in (encoded.x, encoded.labels, encoded.persons):
        code.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return code.hexdigest()


def refuse_differences(said: str, ranks: Ranks) -> None:
    """Refuse to deal out data that processes read differently, such as a query's answer in another order.

    Each would take its part of another whole: a record could belong to two processes, and count twice.

    Args:
        said: the fingerprint of what this process read.
        ranks: the processes.

    Raises:
        RanksError: the fingerprints differ.
    """
    if len(set(ranks.told(said))) > 1:
        raise RanksError(
            "the processes did not read the same data in the same order, so that a record could belong to two of them. "
            "Give all of them the same files; a query needs an `order by` that leaves no two rows equal. Nothing was "
            "charged."
        )


def ends_of(rows: Rows, ranks: Ranks | Shard, key: bytes) -> str:
    """A hash of the first and last rows of a shard, under a key; all empty shards differ."""
    code = hmac.new(key, digestmod=hashlib.sha256)
    for part in (rows.x[:_COMPARED], rows.x[-_COMPARED:]):
        code.update(np.ascontiguousarray(np.asarray(part)).tobytes())
    return code.hexdigest() if len(rows) else f"shard {ranks.rank} has no records"


def refuse_same_shard(rows: Rows, ranks: Ranks) -> None:
    """Refuse to go on if two processes hold the same shard, told by its first and last rows.

    What is compared are hashes under a key that the first process draws for this one comparison: they tell that two
    shards are equal and nothing else, and leave no process.

    Raises:
        RanksError: with the numbers of two processes.
    """
    key = ranks.shared_bytes(secrets.token_bytes(32))
    said = ranks.told(ends_of(rows, ranks, key))
    first: dict[str, int] = {}
    for number, one in enumerate(said):
        if first.setdefault(one, number) != number:
            raise RanksError(
                f"processes {first[one]} and {number} were given the same shard. Give each its own: name it with "
                "{rank}, as in visits-{rank}.parquet. Nothing was charged."
            )
