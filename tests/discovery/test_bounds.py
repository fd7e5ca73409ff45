"""Bounds that nobody knew: round, wide enough for nearly all rows, and always such that the column can be used."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from understudy.auditing.proving import _problems
from understudy.discovery.asking import can_find, discovery_charges, purpose_of
from understudy.discovery.bins import bins_of
from understudy.discovery.bounds import Range, found_range, with_bounds
from understudy.discovery.discover import discovered, undescribed_rows
from understudy.discovery.queries import BinCounts
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.persons import Persons
from understudy.door.source import Rows
from understudy.privacy.budget import Budget
from understudy.privacy.mechanisms import Charge, GaussianRelease
from understudy.schema import (
    DISCOVER,
    CellType,
    Column,
    Continuous,
    Datetime,
    Integer,
    NumberScale,
    TableSchema,
    TimeUnit,
    stand_in,
)

ROWS = 8000
SOURCE = np.random.default_rng(7)
DAYS = pd.Timestamp("2015-03-01") + pd.to_timedelta(SOURCE.integers(0, 1500, ROWS), "D")
MADE_UP: list[tuple[Column, Any]] = [
    (Continuous("income", DISCOVER, DISCOVER), SOURCE.lognormal(10, 1, ROWS)),
    (Continuous("change", DISCOVER, DISCOVER), SOURCE.normal(0, 1, ROWS)),
    (Continuous("debt", DISCOVER, DISCOVER), -SOURCE.lognormal(5, 0.5, ROWS)),
    (Continuous("share", DISCOVER, DISCOVER), SOURCE.uniform(0, 1e-3, ROWS)),
    (Continuous("heat", DISCOVER, DISCOVER, decimals=1), SOURCE.normal(37, 0.5, ROWS)),
    (Continuous("price", 0, DISCOVER, step=0.05), SOURCE.uniform(0, 80, ROWS)),
    (Integer("age", DISCOVER, DISCOVER), SOURCE.integers(18, 95, ROWS)),
    (Integer("year", DISCOVER, DISCOVER), SOURCE.integers(1950, 2021, ROWS)),
    (Integer("children", 0, DISCOVER), SOURCE.poisson(1.0, ROWS)),
    (Datetime("seen", DISCOVER, DISCOVER), DAYS),
    (Datetime("told", DISCOVER, DISCOVER, TimeUnit.MINUTE), DAYS),
]


def found_in(column: Column, values: Any, epsilon: float = 2.0, seed: int = 0) -> Column:
    """What a door with the noise of a plan publishes about a column."""
    schema = TableSchema((column, Integer("other", 0, 1)))
    charges = discovery_charges(schema, Budget(epsilon, 1e-5))
    frame = pd.DataFrame({column.name: values, "other": 0})
    found = discovered(
        Door(undescribed_rows(frame, schema), charges, SeededNoise(seed), insecure=True), schema
    )
    assert found.unseen == ()
    return found.schema.columns[0]  # type: ignore[union-attr]


@pytest.mark.parametrize(("column", "values"), MADE_UP, ids=lambda part: getattr(part, "name", ""))
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_nearly_all_rows_and_not_much_besides(column: Column, values: Any, seed: int) -> None:
    """At least 95 % of the rows lie within, and the range is at most a few times that of the middle 98 %."""
    found: Any = found_in(column, values, seed=seed)
    inside = (values >= found.lower) & (values <= found.upper)
    assert inside.mean() >= 0.95
    if not isinstance(column, Datetime) and column.name != "year":
        low, high = np.quantile(values, [0.01, 0.99])
        assert found.upper - found.lower <= 3 * (high - min(low, 0) if low > 0 else high - low)


def test_bounds_are_round() -> None:
    """They have two digits, or are whole years: public numbers, none of the data."""
    income: Any = found_in(*MADE_UP[0])
    assert all(float(f"{bound:.2g}") == bound for bound in (income.lower, income.upper))
    seen: Any = found_in(*MADE_UP[9])
    assert (seen.lower.month, seen.lower.day, seen.upper.month, seen.upper.day) == (1, 1, 12, 31)


def test_one_far_row_does_not_move_a_bound() -> None:
    """A billionaire shows nowhere."""
    column, values = MADE_UP[0]
    richer: Any = found_in(column, np.append(values, 1e14))
    assert richer.upper < 1e7


def test_a_declared_bound_stays_and_what_lies_beyond_is_not_looked_at() -> None:
    """With lower = 50 the mass below it does not matter."""
    found: Any = found_in(Continuous("x", 50.0, DISCOVER), SOURCE.uniform(0, 100, ROWS))
    assert (found.lower, 90 <= found.upper <= 110) == (50.0, True)


def test_noise_alone_finds_no_magnitude() -> None:
    """Of a hundred columns without rows, none has anything that rises above the noise, and all get bounds."""
    column = Continuous("x", DISCOVER, DISCOVER)
    bins = bins_of(column)
    for seed in range(100):
        door = Door(
            Rows(np.zeros((0, 1))), (Charge("b", GaussianRelease(20.0)),), SeededNoise(seed), insecure=True
        )
        published = door.publish("b", BinCounts(0, bins))
        where = found_range([one.numpy() for one in published.values], bins, published.deviation)
        assert not where.seen
        with_bounds(column, where)


OPEN: list[Column] = [
    Continuous("a", DISCOVER, DISCOVER),
    Continuous("a", DISCOVER, 5.0, step=0.1),
    Continuous("a", -3.0, DISCOVER, step=0.1, special=(7.77,)),
    Continuous("a", DISCOVER, DISCOVER, decimals=12, scale=NumberScale.LOG),
    Continuous("a", DISCOVER, DISCOVER, step=1e-12),
    Integer("a", DISCOVER, DISCOVER),
    Integer("a", DISCOVER, DISCOVER, stored_as=CellType.INT8, special=(-1,)),
    Integer("a", DISCOVER, DISCOVER, stored_as=CellType.UINT8, step=10),
    Integer("a", 2**52, DISCOVER),
    Integer("a", DISCOVER, -4),
    Datetime("a", DISCOVER, DISCOVER),
    Datetime("a", DISCOVER, DISCOVER, TimeUnit.MINUTE),
    Datetime("a", dt.datetime(2199, 12, 30), DISCOVER, TimeUnit.HOUR),
    Datetime("a", DISCOVER, dt.datetime(1800, 1, 2)),
]


@pytest.mark.parametrize("column", OPEN, ids=str)
def test_whatever_noise_says_the_column_is_complete(column: Any) -> None:
    """No published counts lead to bounds that a schema refuses: a failure would come after the budget is spent."""
    bins = bins_of(column)
    edges = bins.edges
    source = np.random.default_rng(1)
    for _ in range(60):
        first, last = sorted(source.choice(len(edges), 2, replace=False))
        found = with_bounds(column, Range(float(edges[first]), float(edges[last]), seen=True))
        assert type(found) is type(column)
        noise = [source.normal(0, 1, size) for size in bins.sizes]
        with_bounds(column, found_range(noise, bins, 1.0))
    assert DISCOVER not in (found.lower, found.upper)  # type: ignore[attr-defined]


@pytest.mark.parametrize("column", OPEN, ids=str)
def test_edges_ascend_and_groups_follow_each_other(column: Any) -> None:
    """Every number lies in exactly one interval, and every interval in one group."""
    bins = bins_of(column)
    assert (np.diff(bins.edges) > 0).all()
    for level, groups in enumerate(bins.levels):
        assert len(groups) == len(bins.edges) - 1
        assert set(np.diff(groups)) <= {0, 1}
        assert groups[0] == 0
        finer = bins.levels[min(level + 1, len(bins.levels) - 1)]
        assert set(np.diff(groups)[np.diff(finer) == 0]) <= {0}  # a group is made of whole parts
    assert bins.sizes[-1] == len(bins.edges) - 1
    middles = (bins.edges[1:] + bins.edges[:-1]) / 2
    assert (bins.of(middles) == np.arange(len(middles))).all()
    assert bins.of(np.array([math.nan, -math.inf, math.inf])).tolist() == [-1, 0, len(middles) - 1]


def hostile() -> Rows:
    values = [0.0, -0.0, 1e300, -1e300, math.inf, -math.inf, math.nan, 5e-324, 1.0]
    return Rows(torch.tensor(values, dtype=torch.float64)[:, None])


class CountsTheZeroTwice(BinCounts):
    """Zero counts as a negative number, too."""

    def add(self, sums: Any, batch: Any) -> None:
        super().add(sums, batch)
        sums[0][0] += float((batch.x[:, 0] == 0).sum())


class OneMarginalOnly(BinCounts):
    """The sensitivity knows of one level and forgets the others."""

    sensitivity = 1.0  # type: ignore[assignment]


def test_one_record_moves_the_counts_by_no_more_than_claimed() -> None:
    """However it is: checked as the contract checks queries; the planted bugs are found."""
    bins, records = bins_of(OPEN[0]), Rows(torch.randn(30, 1, dtype=torch.float64))  # type: ignore[arg-type]
    assert list(_problems(BinCounts(0, bins), records, hostile(), (1, 7, 31))) == []
    for mutant in (CountsTheZeroTwice, OneMarginalOnly):
        assert list(_problems(mutant(0, bins), records, hostile(), (31,)))
    alike = torch.full((3, 1), 2.0, dtype=torch.float64)
    person = Rows(alike, None, Persons.of(np.zeros(3, dtype=np.int64), 3, alike, None))
    for rows, holds in ((person, True), (Rows(alike), False)):  # a person's rows share one vote
        door = Door(rows, (), SeededNoise(0), private=False)
        moved = torch.cat([one.flatten() for one in door.publish("", BinCounts(0, bins)).values]).norm()
        assert (float(moved) <= math.sqrt(3) * (1 + 1e-9)) is holds


def test_the_plan_says_what_it_costs_and_finds() -> None:
    """Fewer columns or more ε need fewer rows; the sentence is there for every open column and for no other charge."""
    schema = TableSchema((OPEN[0], replace(OPEN[5], name="b"), Integer("c", 0, 1)))
    charges = discovery_charges(schema, Budget(1.0, 1e-5))
    assert [one.purpose for one in charges] == [purpose_of(column) for column in schema.columns[:2]]
    told = [can_find(one, schema) for one in charges]
    assert all(text is not None and "5 % of the budget; a magnitude needs about" in text for text in told)
    assert can_find(Charge("column counts", GaussianRelease(1.0)), schema) is None
    assert discovery_charges(TableSchema((Integer("c", 0, 1),)), Budget(1.0, 1e-5)) == ()
    assert stand_in(schema.columns[2]) == schema.columns[2]
