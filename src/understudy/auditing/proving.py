"""A door that proves bounds: every query is tried on records that nobody would expect, before it is answered.

What a query claims of its sensitivity is held against what single records really move it by, features of a derived door
included. All records here are stand-ins; nothing private is read.
"""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING

import torch

from understudy.auditing.listening import ListeningDoor
from understudy.auditing.people import only_person, with_person
from understudy.door.persons import Persons, add_persons
from understudy.door.query import Batch
from understudy.door.source import Rows
from understudy.records.encode import encoded_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from torch import Tensor

    from understudy.auditing.listening import Ear
    from understudy.door.door import Door
    from understudy.door.query import Published, Query
    from understudy.schema import Schema

__all__ = ["ProvingDoor", "hostile_rows", "proving"]

_SIZES = (1, 7)
"""Batches into which the records are cut, beside all at once."""
_RECORDS = 8
"""The most records of a hostile person, beside one that has more than may take part."""
_EXACT = 1e-6
"""How far above its claim a sum may move, in parts of the claim: rounding in float64."""
_ROUNDING = 1e-5
"""How far sums over differently cut batches may differ, in parts of their length: rounding in float32."""


class ProvingDoor(ListeningDoor):
    """A door to stand-in records that notes which queries do not keep what they claim."""

    probes: Rows
    broken: dict[str, str]

    def publish(self, purpose: str, query: Query) -> Published:
        """As `Door.publish`, after trying the query on all probes."""
        self._try(purpose, query, self._records, self.probes, (*_SIZES, len(self._records) + 1))
        return self._noised(purpose, query, super().publish(purpose, query))

    def step(self, purpose: str, query: Query, like: Tensor) -> Published:
        """As `Door.step`, after trying the query on all probes; a batch of a step is never cut."""
        records, probes = (
            Rows(*rows.take(torch.arange(len(rows)), like), rows.persons)
            for rows in (self._records, self.probes)
        )
        self._try(purpose, query, records, probes, (len(records) + 1,))
        return self._noised(purpose, query, super().step(purpose, query, like))

    def derived(self, transform: Callable[[Batch], Tensor]) -> Self:
        """As `Door.derived`, for the probes as well."""
        behind = copy.copy(self)
        behind._records = self.probes
        other = super().derived(transform)
        other.probes = super(ProvingDoor, behind).derived(transform)._records
        return other

    def _noised(self, purpose: str, query: Query, seen: Published) -> Published:
        """Note a release whose noise is not what the plan charges for this purpose."""
        charged = getattr(self._charges.get(purpose), "noise_multiplier", 0.0) * query.sensitivity
        if self.ear.draws[-1].scale != charged:
            drawn = self.ear.draws[-1].scale
            self.broken.setdefault(
                purpose, f"{purpose}: it was drawn with noise of {drawn:.6g}, and {charged:.6g} is charged."
            )
        return seen

    def _try(self, purpose: str, query: Query, records: Rows, probes: Rows, sizes: Sequence[int]) -> None:
        asked = self.used.get(purpose, 0) + 1
        if asked & (asked - 1):
            return  # the first, second, fourth, eighth … of many alike are enough
        problem = next(_problems(query, records, probes, sizes), None)
        if problem is not None:
            self.broken.setdefault(purpose, f"{purpose}: {problem}")


def _problems(query: Query, records: Rows, probes: Rows, sizes: Sequence[int]) -> Iterator[str]:
    """What a query does not keep, as ends of sentences."""
    claimed = query.sensitivity
    if any(one.dtype != torch.float64 or one.any() for one in query.zero()):
        yield "the sum over no records must be zeros in float64."
    whole = _summed(query, records, sizes[-1])
    for size in sizes[:-1]:
        apart = float((_summed(query, records, size) - whole).norm())
        if not apart <= _ROUNDING * (float(whole.norm()) + claimed):
            yield f"in batches of {size} the sums differ by {apart:.4g} from those over all records at once."
    for place in range(probes.people):
        other = with_person(records, only_person(probes, place))
        try:
            moved = float((_summed(query, other, sizes[-1]) - whole).norm())
        except Exception as problem:  # noqa: BLE001 - whatever is raised tells about the record
            yield f"a record makes it fail with {type(problem).__name__}: {problem}"
            return
        if not moved <= claimed * (1 + _EXACT):
            one = "record" if records.persons is None else "person"
            yield f"one {one} moves the sums by {moved:.6g}, more than the claimed sensitivity {claimed:.6g}."
    if query.sensitivity != claimed:
        yield f"the claimed sensitivity changed from {claimed:.6g} to {query.sensitivity:.6g} with the records."


def _summed(query: Query, rows: Rows, size: int) -> Tensor:
    """All sums of a query as one vector, over batches of this size."""
    sums = query.zero()
    if rows.persons is None:
        for x, labels in rows.batches(size):
            query.add(sums, Batch(x, labels, _SameForAll()))
    else:
        add_persons(query, sums, rows.persons, torch.arange(rows.people), rows.pick, size, _SameForAll())
    return torch.cat([one.flatten() for one in sums])


class _SameForAll:
    """Coins that fall alike for every record, so that sums can be compared however records are cut into batches."""

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Always the same number."""
        return torch.full(tuple(shape), 0.37, dtype=torch.float64)

    def integers(self, high: int, count: int) -> Tensor:
        """Always the first."""
        del high
        return torch.zeros(count, dtype=torch.int64)


def hostile_rows(schema: Schema) -> Rows:
    """Records that encoding never makes, and extreme ones that it does, each with at least two classes if there are.

    Where the schema names persons, each has as many such records as may take part, all the same; and at last there are
    persons with different ones and with more than may.
    """
    shape = encoded_shape(schema)
    source = torch.Generator().manual_seed(0)
    ends = torch.rand(2, *shape, generator=source).round() * 2 - 1
    constant = (0.0, 1.0, -1.0, torch.nan, torch.inf, -torch.inf, 1e30, -1e30, 3e38)
    spoilt = ends[0].clone()
    spoilt.view(-1)[0] = torch.nan
    kinds = [*(torch.full(shape, value) for value in constant), *ends, ends[0].clamp(min=0), spoilt]
    classes = len(schema.label_classes or ())
    count = max(2 * len(kinds), classes)
    x = torch.stack(list(itertools.islice(itertools.cycle(kinds), count)))
    labels = torch.arange(count) % classes if classes else None
    if not schema.person_columns:
        return Rows(x, labels)
    each = min(schema.max_rows_per_person or 1, _RECORDS)
    mixed = torch.randint(0, count, (2 * each + 5,), generator=source)
    picked = torch.cat([torch.arange(count).repeat_interleave(each), mixed])
    sizes = torch.tensor([*[each] * count, each, each + 5])
    owners = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    x, labels = x[picked], None if labels is None else labels[picked]
    return Rows(x, labels, Persons.of(owners, each + 5, x, labels))


def proving(ear: Ear, schema: Schema, broken: dict[str, str]) -> Callable[..., Door]:
    """Makes doors that prove bounds and that an ear listens at.

    Args:
        ear: hears what is released.
        schema: what records look like.
        broken: gets a sentence for each purpose whose query does not keep its claim.
    """

    def make(*arguments: object, **options: object) -> Door:
        door = ProvingDoor(*arguments, **options)  # type: ignore[arg-type]
        door.ear, door.broken, door.probes = ear, broken, hostile_rows(schema)
        return door

    return make
