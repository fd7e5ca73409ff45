"""Persons at the door: whose rows take part, that batches hold whole persons, and that rows share one vote."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.door import door as doors
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.persons import Persons
from understudy.door.source import Rows
from understudy.errors import DataError
from understudy.privacy.mechanisms import Charge, GaussianRelease, SubsampledGaussian
from understudy.records.encode import Encoded, encode
from understudy.schema import Continuous, TableSchema
from understudy.synthesizers.shared.queries import LabelCounts, RowCount

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from understudy.door.query import Batch

STEPS = Charge("steps", SubsampledGaussian(0.5, 1.0, 2**40))
COUNT = Charge("count", GaussianRelease(1.0, 2**40))


def rows_of(contents: list[tuple[int, float]], most: int) -> Rows:
    """Rows from (person, value) pairs."""
    x = torch.tensor([[value] for _, value in contents], dtype=torch.float32).reshape(-1, 1)
    owners = torch.tensor([person for person, _ in contents], dtype=torch.int64)
    return Rows(x, None, Persons.of(owners, most, x, None))


def taken(rows: Rows) -> dict[int, Counter[float]]:
    """The values of each person that take part."""
    assert rows.persons is not None
    found = {}
    for person in range(rows.people):
        own, _ = rows.persons.rows_of(torch.tensor([person]))
        found[person] = Counter(rows.pick(own)[0].flatten().tolist())
    return found


people = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([-0.0, 0.0, 0.25, 0.5, 0.75, 1.0])), min_size=1, max_size=40
)


@settings(deadline=None)
@given(people, st.integers(1, 5), st.randoms(use_true_random=False))
def test_who_takes_part_depends_on_a_persons_own_rows_alone(
    contents: list[tuple[int, float]], most: int, source: object
) -> None:
    """Another order of rows, other numbers and other people leave the rows that take part as they are."""
    kept = [one for one in contents if one[0] == contents[0][0]]
    alone = next(iter(taken(rows_of(kept, most)).values()))
    shuffled = list(contents)
    source.shuffle(shuffled)  # type: ignore[attr-defined]
    among = taken(rows_of([(person * 7 + 3, value) for person, value in shuffled], most))
    assert alone in among.values()
    assert alone.total() == min(most, len(kept))
    assert not alone - Counter(value for _, value in kept)


def test_no_content_is_preferred() -> None:
    """People with one row of each of six values keep different ones, all values about equally often."""
    source = np.random.default_rng(0)
    values = np.tile(np.arange(6) / 8, 400) + np.repeat(source.integers(0, 2**12, 400) * 8.0, 6)
    rows = rows_of(list(zip(np.repeat(np.arange(400), 6).tolist(), values.tolist(), strict=True)), 2)
    counted = Counter(value % 1 for kept in taken(rows).values() for value in kept.elements())
    assert sum(counted.values()) == 800
    assert min(counted.values()) > 800 / 6 * 0.6


class Seen:
    """Remembers what it is handed, and sums nothing."""

    rows_at_once: ClassVar[int] = 3
    sensitivity: ClassVar[float] = 1.0

    def __init__(self) -> None:
        self.batches: list[list[float]] = []

    def zero(self) -> list[Tensor]:
        """Nothing."""
        return [torch.zeros(1, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """Remember the rows."""
        del sums
        self.batches.append(batch.x.flatten().tolist())


class SeenWhole(Seen):
    """The same, asked for whole persons."""

    def add_persons(self, sums: list[Tensor], batch: Batch) -> None:
        """Remember the rows, which are of persons that ascend."""
        assert batch.persons is not None
        assert batch.persons.tolist() == sorted(batch.persons.tolist())
        self.add(sums, batch)


def crowd() -> Rows:
    """Thirty persons with one to four rows; the whole part of a value is its person."""
    source = np.random.default_rng(1)
    contents = [
        (person, person + row / 8) for person in range(30) for row in range(int(source.integers(1, 5)))
    ]
    return rows_of(contents, 4)


def split_persons(batches: list[list[float]], everyone: Rows) -> set[float]:
    """Persons of whom a batch holds some rows and lacks others."""
    sizes = Counter(float(value) for value in torch.as_tensor(everyone.x).flatten().floor())
    return {
        person
        for batch in batches
        for person, count in Counter(float(np.floor(value)) for value in batch).items()
        if count != sizes[person]
    }


def sampled(everyone: Rows, query: Seen) -> list[set[float]]:
    """The rows of each of forty Poisson batches."""
    door, found = Door(everyone, (STEPS,), SeededNoise(0), insecure=True), []
    for _ in range(40):
        query.batches.clear()
        door.step("steps", query, torch.zeros(1))
        found.append({value for batch in query.batches for value in batch})
    return found


@pytest.mark.parametrize("made", [Seen, SeenWhole])
def test_no_batch_splits_a_person(made: Callable[[], Seen]) -> None:
    """Neither a walk over all rows, however few fit at once, nor a Poisson batch holds a part of a person."""
    query, everyone = made(), crowd()
    Door(everyone, (COUNT,), SeededNoise(0), insecure=True).publish("count", query)
    assert not split_persons(query.batches, everyone)
    assert sorted(value for batch in query.batches for value in batch) == sorted(
        everyone.x.flatten().tolist()
    )
    assert not split_persons([list(batch) for batch in sampled(everyone, query)], everyone)


def test_persons_are_drawn_at_the_rate_of_the_plan() -> None:
    """Each person joins about half of the batches, with all rows or none."""
    counted = Counter(
        np.floor(value) for batch in sampled(crowd(), Seen()) for value in {np.floor(v) for v in batch}
    )
    assert len(counted) == 30
    assert all(6 <= count <= 34 for count in counted.values())


def test_sampling_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: Poisson sampling draws rows, so that a person joins in part and more often than accounted."""

    def by_row(query: Seen, sums: list[Tensor], persons: Persons, chosen: Tensor, *rest: object) -> None:
        every = torch.arange(int(persons.starts[-1]))
        own = Persons(persons.rows, torch.cat([every, persons.starts[-1:]]), 1)
        doors_add(query, sums, own, chosen, *rest)  # type: ignore[arg-type]

    doors_add = doors.add_persons
    monkeypatch.setattr(doors, "add_persons", by_row)
    monkeypatch.setattr(Rows, "people", property(len))
    everyone = crowd()
    assert split_persons([list(batch) for batch in sampled(everyone, Seen())], everyone)


def test_everybody_counts_once() -> None:
    """A count of rows is a count of persons, and of classes as the rows of each say; nobody adds more than one."""
    x, labels = torch.zeros(8, 1), torch.tensor([0, 0, 1, 1, 1, 0, 1, 2])
    rows = Rows(x, labels, Persons.of(torch.tensor([0, 1, 1, 2, 2, 2, 2, 3]), 4, x, labels))
    door = Door(rows, (), SeededNoise(0), private=False)
    assert door.publish("rows", RowCount()).value.item() == 4.0
    assert door.publish("labels", LabelCounts(3)).value.tolist() == [1.0 + 0.5 + 0.25, 0.5 + 0.75, 1.0]


@given(st.integers(1, 5000))
def test_shares_never_add_up_to_more_than_one(rows: int) -> None:
    """A third is rounded down, so that sums of counts stay exact and a person never weighs more than one."""
    from understudy.door.persons import _share

    assert 0.99 < rows * _share(rows) <= 1.0
    assert (_share(rows) * 2**20).is_integer()


def test_a_person_of_one_row_each_is_as_without_persons() -> None:
    """Where every person has one row, sums and batches are those of rows, bit by bit."""
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    plain, persons = Rows(x), Rows(x, None, Persons.of(torch.arange(50), 8, x, None))
    for query in (RowCount, Seen):
        one, other = query(), query()
        for rows, asked in ((plain, one), (persons, other)):
            door = Door(rows, (STEPS, COUNT), SeededNoise(0), insecure=True)
            heard = (door.publish("count", asked).value, door.step("steps", asked, x).value)
            if rows is plain:
                expected = heard
        assert all(torch.equal(*pair) for pair in zip(expected, heard, strict=True))
        assert getattr(one, "batches", None) == getattr(other, "batches", None)


def test_records_without_persons_are_refused() -> None:
    """A schema that names a person is not served by records that tell none, nor by cells that are empty."""
    schema = TableSchema((Continuous("dose", 0.0, 1.0),), person=("house", "member"))
    with pytest.raises(DataError, match="'house' and 'member' tells persons apart"):
        Rows.of(Encoded(np.zeros((2, 1), np.float32), None), schema)
    import pandas as pd

    frame = pd.DataFrame({"dose": [0.0, 0.5, 1.0], "house": [1, 1, 2], "member": ["a", " a", None]})
    with pytest.raises(DataError, match="column 'member', row 3: the cell is empty"):
        encode(frame, schema)
    held = Rows.of(encode(frame[:2], schema), schema)
    assert held.people == 1
    assert "private" in repr(held.persons)
