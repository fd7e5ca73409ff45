"""Stand-in data sets that differ by one person: by one record, or by all records of one where persons have several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.door.persons import Persons
from understudy.door.source import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["only_person", "with_person", "without_first"]


def with_person(rows: Rows, person: Rows) -> Rows:
    """The rows, and after them all rows of one person more, of which so many take part as may."""
    before = _kept(rows, range(rows.people))
    x = torch.cat([torch.as_tensor(before.x), torch.as_tensor(person.x)])
    labels = None
    if before.labels is not None and person.labels is not None:
        labels = torch.cat([torch.as_tensor(before.labels), torch.as_tensor(person.labels)])
    if before.persons is None:
        return Rows(x, labels)
    sizes = torch.cat([before.persons.starts.diff(), torch.tensor([len(person)])])
    owners = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    return Rows(x, labels, Persons.of(owners, before.persons.most, x, labels))


def only_person(rows: Rows, place: int) -> Rows:
    """The rows of the person at that place, whole."""
    return _kept(rows, [place])


def without_first(rows: Rows) -> Rows:
    """The rows without those of the first person."""
    return _kept(rows, range(1, rows.people))


def _kept(rows: Rows, people: Iterable[int]) -> Rows:
    chosen = torch.tensor(list(people), dtype=torch.int64)
    if rows.persons is None:
        return Rows(*rows.pick(chosen))
    taken, owners = rows.persons.rows_of(chosen)
    x, labels = rows.pick(taken)
    return Rows(x, labels, Persons.of(owners, rows.persons.most, x, labels))
