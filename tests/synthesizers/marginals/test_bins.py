"""From noisy counts to bins: pure functions, held against what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.source import Rows
from understudy.privacy.mechanisms import Charge, GaussianRelease
from understudy.schema import Continuous, Integer, TableSchema
from understudy.synthesizers.marginals.bins import (
    bin_edges,
    equal_groups,
    knots_of,
    large_groups,
    on_simplex,
    spread_of,
)
from understudy.synthesizers.marginals.cells import Axis, Scale, axes_of
from understudy.synthesizers.marginals.queries import ColumnCounts, level_sizes
from understudy.synthesizers.marginals.statistics import _shrunk

LINE = Axis("x", 0, Scale.NUMBER, 4096, missing=False, spaced=False)


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats(-50, 50), min_size=1, max_size=12), total=st.floats(0.1, 100))
def test_the_simplex_is_reached_by_the_shortest_way(values: list[float], total: float) -> None:
    """Not negative, the right sum, and optimal: positive entries moved equally, zeros would have gone below."""
    before = np.array(values)
    after = on_simplex(before, total)
    assert after.min() >= 0
    assert after.sum() == pytest.approx(total)
    shift = (before - after)[after > 0]
    assert np.allclose(shift, shift[0], atol=1e-6)
    assert (before[after == 0] <= shift[0] + 1e-6).all()
    assert on_simplex(before, 0.0).sum() == 0


def tree(values: np.ndarray, sigma: float, seed: int = 0) -> list[np.ndarray]:
    """Noisy counts on the levels of LINE for values in [-1, 1]."""
    return counted(LINE, values, sigma, seed)


def counted(axis: Axis, values: np.ndarray, sigma: float, seed: int = 0) -> list[np.ndarray]:
    """Noisy counts on the levels of an axis."""
    rows = Rows(values.reshape(-1, 1).astype(np.float32))
    door = Door(rows, [Charge("columns", GaussianRelease(sigma))], SeededNoise(seed), insecure=True)
    return [counts.numpy() for counts in door.publish("columns", ColumnCounts([axis])).values]


def test_a_skewed_column_gets_fine_bins_where_its_values_are() -> None:
    """Nine tenths of the values within a hundredth of the range are told apart in spite of the noise."""
    source = np.random.default_rng(0)
    share = np.where(source.random(4000) < 0.9, source.uniform(0, 0.01, 4000), source.uniform(0, 1, 4000))
    levels = tree(2 * share - 1, 8.0)
    spread = spread_of(LINE, levels, 8.0 * np.sqrt(3), 4000.0)
    edges = bin_edges(LINE, spread, 10, 2)
    held = np.diff(np.searchsorted(np.sort(share), edges / 4096)) / 4000
    assert held.max() < 0.2
    assert (edges < 0.011 * 4096).sum() >= 8
    plain = np.diff(np.searchsorted(np.sort(share), np.linspace(0, 1, 15))) / 4000
    assert plain.max() > 0.8  # equally wide bins would not do


def test_knots_lie_within_their_bins_and_in_order() -> None:
    """A value drawn from a bin lies in it, and half of the mass below the middle knot."""
    share = np.random.default_rng(1).beta(2, 9, 20_000)
    spread = spread_of(LINE, tree(2 * share - 1, 1.0), 1.8, 20_000.0)
    edges = bin_edges(LINE, spread, 6, 1)
    knots = (knots_of(LINE, spread, edges) + 1) / 2 * 4094 + 1
    assert (np.diff(knots, axis=1) >= 0).all()
    assert (knots[:, 0] >= np.maximum(1, edges[:-1]) - 1e-6).all()
    assert (knots[:, -1] <= edges[1:] + 1e-6).all()
    for low, high, middle in zip(edges[:-1], edges[1:], knots[:, 8], strict=True):
        places = share * 4094 + 1
        inside = places[(places >= low) & (places < high)]
        assert (inside < middle).mean() == pytest.approx(0.5, abs=0.06)


def test_every_value_of_a_whole_number_comes_back() -> None:
    """Cells of whole numbers are single values, and positions within a cell decode to that value."""
    (axis,) = axes_of(TableSchema((Integer("n", 5, 40),)))
    values = np.arange(5, 41)
    x = (2 * (values - 5) / 35 - 1).reshape(-1, 1).astype(np.float32)
    assert axis.cells(x).tolist() == list(range(36))
    for inside in (0.1, 0.5, 0.9):
        back = np.rint((axis.encoded(np.arange(36) + inside) + 1) / 2 * 35) + 5
        assert back.tolist() == values.tolist()


@pytest.mark.parametrize(("upper", "depth"), [(16, 2), (255, 2), (256, 3), (4095, 3), (10**6, 3)])
def test_the_tree_is_as_deep_as_needed(upper: int, depth: int) -> None:
    """Levels multiply by sixteen until every cell has its place, and never go beyond 4,096."""
    (axis,) = axes_of(TableSchema((Integer("n", 0, upper, missing=True),)))
    assert axis.depth == depth
    sizes = level_sizes(axis)
    assert len(sizes) == depth
    assert sizes[-1] == min(upper + 1, 4096)
    assert sizes[0] <= 17


def test_groups_are_neighbours_of_equal_mass_or_large_categories() -> None:
    """Numbers group in order; rare categories share one group, and a single rare one stays apart."""
    assert equal_groups(np.ones(8), 4).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert equal_groups(np.array([100.0, 1, 1]), 2).tolist() == [0, 1, 1]
    assert large_groups(np.array([50.0, 2, 40, 1]), 10, 64).tolist() == [0, 2, 1, 2]
    assert large_groups(np.array([50.0, 2, 40]), 10, 64).tolist() == [0, 1, 2]
    assert large_groups(np.arange(100.0), 0.5, 8).max() == 7


def test_pairs_without_a_message_shrink_to_independence() -> None:
    """Pure noise shrinks to almost nothing, a clear dependence stays, and without noise nothing changes."""
    source = np.random.default_rng(0)
    alone = np.full((1, 20, 20), 0.01)
    noise = source.normal(0, 0.002, (1, 20, 20))
    quiet = _shrunk(alone + noise, alone, [10, 10], 0.002)
    block = (0, slice(0, 10), slice(10, 20))
    assert np.abs(quiet[block] - 0.01).max() < 0.4 * np.abs(noise[block]).max()
    loud = alone.copy()
    loud[block] += 0.05 * np.eye(10)
    kept = _shrunk(loud + noise, alone, [10, 10], 0.002)
    assert np.abs(kept[block] - loud[block]).max() < 0.01
    assert np.allclose(_shrunk(loud, alone, [10, 10], 0.0)[block], loud[block])


def test_continuous_bounds_are_cells_too() -> None:
    """The least and the greatest value, and what is not a number, have valid cells."""
    (axis,) = axes_of(TableSchema((Continuous("x", 0, 1),)))
    x = np.array([[-1.0], [1.0], [np.nan], [np.inf], [-7.0]], dtype=np.float32)
    assert axis.cells(x).tolist() == [0, 4095, 2048, 4095, 0]


def test_values_that_pile_up_at_a_bound_stay_there() -> None:
    """Amounts that are mostly zero and cut off at the top come back as exactly that, not as small and large numbers."""
    (axis,) = axes_of(TableSchema((Integer("amount", 0, 99_999),)))
    source = np.random.default_rng(0)
    draws = source.random(20_000)
    amount = np.where(draws < 0.9, 0, np.where(draws > 0.98, 99_999, source.integers(1, 9_000, 20_000)))
    levels = counted(axis, 2 * amount / 99_999 - 1, 4.0)
    spread = spread_of(axis, levels, 4.0 * np.sqrt(3), 20_000.0)
    edges = bin_edges(axis, spread, 12, 2)
    knots = knots_of(axis, spread, edges)
    masses = np.diff(spread.below(edges)) / 20_000

    def drawn(value: int) -> float:
        """The share of draws that give exactly this value: from steps of mass with both ends there."""
        held = (knots[:, :-1] == value) & (knots[:, 1:] == value)
        return float((masses * held.mean(axis=1)).sum())

    assert drawn(-1) == pytest.approx(0.9, abs=0.01)
    assert drawn(1) == pytest.approx(0.02, abs=0.005)
    assert axis.cells(np.array([[2 / 99_999 - 1]], dtype=np.float32)).tolist() == [1]
