"""Exact grids of numbers, and the piles found on them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from understudy.records.line import to_line
from understudy.schema import Continuous, Datetime, Integer, NumberScale, TimeUnit
from understudy.synthesizers.marginals.grid import BRANCHES, Grid, grid_of
from understudy.synthesizers.marginals.outcomes import grouped, number_outcomes
from understudy.synthesizers.marginals.piles import (
    Stretches,
    cells_to_look_into,
    looked_up,
    round_shares,
    stretches_of,
    with_piles,
    with_special,
)

COLUMNS = [
    Integer("a", 0, 99_999),
    Integer("b", -5, 20),
    Continuous("c", -1e6, 1e6),
    Continuous("d", 4800, 5400, decimals=1),
    Continuous("e", 0.0, 0.6),
    Continuous("f", 0.33, 7.1),
    Datetime("g", dt.datetime(2020, 1, 1), dt.datetime(2024, 1, 1), TimeUnit.MINUTE),
    Integer("h", 0, 1_000_000, step=10_000),
    Integer("i", -3, 1_000_000, step=500, special=(-3, -1, 250, 999_999)),
    Continuous("j", 0, 1e6, step=0.25, special=(0.1,)),
    Continuous("k", 0, 50_000, decimals=1, scale=NumberScale.LOG),
    Integer("l", 0, 100_000, scale=NumberScale.LOG, special=(99_999,)),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_every_value_of_the_grid_comes_back(column: Continuous | Integer | Datetime) -> None:
    """Encoding a value of the grid in single precision and finding it again gives the same value."""
    grid = grid_of(column)
    index = np.unique(np.linspace(0, grid.size - 1, 5000).astype(np.int64))
    assert (grid.index(grid.encoded(index).astype(np.float32)) == index).all()


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_levels_of_the_tree_are_nested_and_small(column: Continuous | Integer | Datetime) -> None:
    """The last level has single values, no cell has more than sixteen children, the first level covers everything."""
    grid = grid_of(column)
    assert grid.width(grid.depth - 1) == 1
    assert 2 <= grid.branches <= BRANCHES
    assert grid.cells(0) <= BRANCHES
    assert grid.width(0) * grid.cells(0) >= grid.size


def test_hostile_values_have_a_place() -> None:
    """Whatever an encoded record holds, its value lies on the grid."""
    grid = grid_of(Integer("a", 0, 99_999))
    found = grid.index(np.array([np.nan, np.inf, -np.inf, 7.0, -7.0]))
    assert ((found >= 0) & (found < grid.size)).all()


def test_round_amounts_lie_on_the_grid_of_plain_numbers() -> None:
    """Zero and round amounts of a number without declared decimals are single values of its grid."""
    column = Continuous("c", -1e6, 1e6)
    grid = grid_of(column)
    amounts = np.array([0.0, 100.0, -2500.0, 730_000.0])
    encoded = 2 * (amounts + 1e6) / 2e6 - 1
    assert np.allclose(grid.encoded(grid.index(encoded)), encoded, atol=1e-12)
    assert (grid.roundness(grid.index(encoded)) >= 2).all()


def test_declared_steps_and_special_values_are_the_whole_grid() -> None:
    """A step leaves its multiples, special values between them stand in their order, and nothing else exists."""
    grid = grid_of(Integer("a", -3, 30, step=10, special=(-3, -1, 25, 20)))
    assert grid.values(np.arange(grid.size)).tolist() == [-3, -1, 0, 10, 20, 25, 30]
    assert grid.values(grid.special).tolist() == [-3, -1, 25, 20]
    found = grid.index(to_line(np.array([-3.0, -1, 4, 6, 25, 24]), grid.column))  # type: ignore[arg-type]
    assert grid.values(found).tolist() == [-3, -1, 0, 10, 25, 20]


def test_special_values_are_piles_whatever_they_hold() -> None:
    """A declared value gets a stretch with its own count, taken from the stretch around it; the total stays."""
    grid = grid_of(Integer("a", 0, 999_999, special=(77, 500_000)))
    flat = Stretches(np.array([0, 1000]), np.array([100.0, 900.0]), grid.size)
    found = with_special(grid, flat, np.array([60.0, -5.0]))
    alone = found.lengths == 1
    assert found.starts[alone].tolist() == [77, 500_000]
    assert found.masses[alone].tolist() == [60.0, 0.0]
    assert found.masses.sum() == pytest.approx(1000)
    assert grid.trait(np.array([77, 500_000])).tolist() == [grid.traits - 2, grid.traits - 1]


def test_rounding_stays_within_its_limits() -> None:
    """A value goes to the nearest multiple within limits, and stays where there is none."""
    grid = grid_of(Integer("a", 3, 1003))
    index = np.array([4, 9, 500])  # values 7, 12, 503
    low, high = np.array([0, 0, 499]), np.array([1000, 1000, 503])
    assert (grid.rounded(index, 10, low, high) + 3).tolist() == [10, 10, 503]


def counts_of(grid: Grid, index: np.ndarray, noise: float, seed: int = 0) -> list[np.ndarray]:
    """Noisy counts of the counted levels."""
    source = np.random.default_rng(seed)
    levels = [np.bincount(index // grid.width(k), minlength=grid.cells(k)) for k in range(grid.counted)]
    return [level + noise * source.standard_normal(len(level)) for level in levels]


def found_piles(values: np.ndarray, column: Integer, noise: float) -> tuple[Grid, Stretches]:
    """The distribution that two noisy releases tell."""
    grid, index = grid_of(column), values - column.lower
    stretches = stretches_of(grid, counts_of(grid, index, noise), noise, len(values), missing=False)
    cells = cells_to_look_into(grid, stretches, noise, 2**18)
    width = grid.width(grid.counted - 1)
    place = looked_up(grid, cells, index)
    counts = np.bincount(place[place >= 0], minlength=len(cells) * width).astype(np.float64)
    counts += noise * np.random.default_rng(1).standard_normal(len(counts))
    return grid, with_piles(grid, stretches, cells, counts.reshape(len(cells), width), noise)


def test_piles_come_back_exactly_and_the_rest_is_kept() -> None:
    """Zero, 15024 and 99999 are stretches of one value with nearly all of their mass; nothing else stands out."""
    source = np.random.default_rng(0)
    values = np.concatenate(
        [np.zeros(6000), np.full(900, 15_024), np.full(400, 99_999), source.integers(1, 99_999, 2700)]
    ).astype(np.int64)
    _, stretches = found_piles(values, Integer("gain", 0, 99_999), noise=8.0)
    alone = stretches.lengths == 1
    assert stretches.starts[alone].tolist() == [0, 15_024, 99_999]
    assert stretches.masses[alone] == pytest.approx([6000, 900, 400], abs=60)
    assert stretches.masses.sum() == pytest.approx(len(values))
    assert (stretches.masses >= 0).all()


def test_noise_alone_makes_no_pile() -> None:
    """Evenly spread values have no piles, whatever the noise."""
    values = np.random.default_rng(0).integers(0, 1_000_000, 20_000)
    for noise in (1.0, 10.0, 100.0):
        _, stretches = found_piles(values, Integer("a", 0, 1_000_000), noise)
        assert not (stretches.lengths == 1).any()


def test_a_grid_too_fine_for_piles_is_told_by_its_roundness() -> None:
    """Ten thousand different multiples of a hundred: no piles, but everything is known to be such a multiple."""
    values = np.random.default_rng(0).integers(0, 10_000, 20_000) * 100
    grid, stretches = found_piles(values, Integer("a", 0, 1_000_000), noise=10.0)
    counts = np.bincount(grid.roundness(values), minlength=len(grid.strides) + 1).astype(np.float64)
    shares = round_shares(grid, stretches, counts, 10.0)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[grid.strides.index(100) + 1 :].sum() == pytest.approx(1.0)


def test_a_column_without_heavy_cells_is_looked_into_all_the_same() -> None:
    """What is asked hangs on no noisy count: there is always a cell, and what noise puts beyond the end is no value."""
    grid = grid_of(Integer("a", 0, 999_999))
    flat = Stretches(np.array([0, 999_000]), np.array([1.0, 2.0]), grid.size)
    cells = cells_to_look_into(grid, flat, 100.0, 2**18)
    assert len(cells) == 1
    last = np.array([(grid.size - 1) // grid.width(grid.counted - 1)])
    beyond = np.full((1, grid.width(grid.counted - 1)), 1e6)
    found = with_piles(grid, flat, last, beyond, 1.0)
    assert int(found.starts[-1]) < grid.size
    assert found.masses.sum() == pytest.approx(3.0)


def test_outcomes_partition_the_grid_and_keep_its_mass() -> None:
    """Every value has one outcome, heavy values one of their own, and masses add up."""
    source = np.random.default_rng(0)
    values = np.concatenate([np.full(500, 77), source.integers(0, 5000, 4500)])
    grid, stretches = found_piles(values, Integer("a", 0, 4999), noise=2.0)
    outcomes = number_outcomes(stretches, bins=10, tails=2, most=8, least=300)
    found = outcomes.of(np.arange(grid.size))
    assert set(found) == set(range(len(outcomes.masses)))
    assert np.flatnonzero(found == found[77]).tolist() == [77]
    assert outcomes.masses.sum() == pytest.approx(len(values))
    assert outcomes.masses[found[77]] == pytest.approx(500, abs=20)


@pytest.mark.parametrize("ordered", [True, False])
def test_groups_are_consecutive_numbers_and_large_outcomes_are_alone(ordered: bool) -> None:
    """Groups are numbered from 0 without gaps; an outcome with a group's mass shares with none; so does missing."""
    masses = np.array([500.0, 3, 4, 3, 2, 400, 1, 20])
    groups = grouped(masses, 4, ordered=ordered, missing=True, least=100)
    assert set(groups) == set(range(groups.max() + 1))
    for alone in (0, 5, 7):
        assert (groups == groups[alone]).sum() == 1


def test_values_are_drawn_from_their_outcome_with_piles_in_place() -> None:
    """Drawn values lie in their outcome; a pile too light for one keeps its share; the rest is round where told."""
    values = np.concatenate([np.full(500, 770), np.full(100, 1234), np.arange(4400) % 500 * 10])
    grid, stretches = found_piles(values, Integer("a", 0, 4999), noise=1.0)
    outcomes = number_outcomes(stretches, bins=5, tails=0, most=8, least=300)
    source = np.random.default_rng(0)
    outcome = source.choice(len(outcomes.masses), 50_000, p=outcomes.masses / outcomes.masses.sum())
    shares = np.eye(len(grid.strides) + 1)[grid.strides.index(10) + 1]
    index = outcomes.drawn(outcome, grid, shares, source.random((3, len(outcome))))
    plain = outcomes.drawn(outcome, grid, np.eye(len(shares))[0], source.random((3, len(outcome))))
    assert (outcomes.of(plain) == outcome).all()
    assert (index[outcome == outcomes.of(np.array([770]))[0]] == 770).all()
    assert (index == 1234).mean() == pytest.approx(100 / 5000, abs=0.004)
    assert (index[index != 1234] % 10 == 0).mean() > 0.98  # all but stretches that noise made one value long
