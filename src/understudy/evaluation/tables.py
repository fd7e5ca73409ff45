"""Fidelity of tables: marginals, dependence, queries, validity, and telling real from synthetic.

The functions at the top are pure statistics of two integer-coded tables (see `Layout`) or of two numeric
arrays. `table_fidelity` gathers them into measures, with real reference rows as ceiling and a uniform table
as floor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import EvaluationError
from understudy.evaluation.intervals import Progress, jackknife, wilson
from understudy.evaluation.result import Better, Correlations, Group, Marginal, Measure, fidelity_measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd

    from understudy.evaluation.layout import Layout

__all__ = [
    "category_coverage",
    "correlation_difference",
    "correlation_matrix",
    "marginals",
    "mutual_information_difference",
    "one_way_error",
    "table_correlations",
    "table_fidelity",
    "three_way_error",
    "total_variation",
    "two_way_error",
    "validity",
    "wasserstein",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating[Any]]
MOST_PAIRS = 300
MOST_TRIPLES = 100
ROWS_PER_CELL = 5


def total_variation(first: Floats, second: Floats) -> float:
    """Half the sum of the absolute differences of two distributions: 0 if equal, 1 if disjoint."""
    return float(0.5 * np.abs(first - second).sum())


def one_way_error(real: Ints, synthetic: Ints, sizes: Sequence[int]) -> float:
    """Mean over columns of the total variation between the two one-way marginals."""
    return _marginal_error(real, synthetic, sizes, 1, len(sizes))


def two_way_error(real: Ints, synthetic: Ints, sizes: Sequence[int]) -> float:
    """Mean over pairs of columns, at most 300 of them, of the total variation between the joint marginals."""
    return _marginal_error(real, synthetic, sizes, 2, MOST_PAIRS)


def three_way_error(real: Ints, synthetic: Ints, sizes: Sequence[int]) -> float:
    """Mean over random triples of columns, at most 100, of the total variation between the joint marginals."""
    return _marginal_error(real, synthetic, sizes, 3, MOST_TRIPLES)


def mutual_information_difference(real: Ints, synthetic: Ints, sizes: Sequence[int]) -> float:
    """Root mean square over pairs of columns of the difference of their mutual information, in nats.

    Few rows make independent columns look dependent, and noise does not cancel in a mean of absolute values. So columns
    are cut to so few groups of values that a cell has some rows, the bias of independent columns (Miller and Madow)
    is taken off every mutual information, and what sampling adds to the mean square is taken off that.
    """
    groups = int(np.clip(math.sqrt(min(len(real), len(synthetic)) / (2 * ROWS_PER_CELL)), 2, 10))
    sides = _merged(real, synthetic, sizes, groups)
    squares = []
    for i, j in _groups(len(sizes), 2, MOST_PAIRS):
        (first, noise), (second, more) = (
            _information(side[:, i] * groups + side[:, j], groups) for side in sides
        )
        squares.append((first - second) ** 2 - noise - more)
    return math.sqrt(max(0.0, float(np.mean(squares))))


def category_coverage(real: Ints, synthetic: Ints) -> float:
    """Mean over columns of the share of the values seen in real rows that synthetic rows have too."""
    found = [np.isin(np.unique(real[:, j]), np.unique(synthetic[:, j])).mean() for j in range(real.shape[1])]
    return float(np.mean(found))


def wasserstein(real: Floats, synthetic: Floats) -> float:
    """Earth mover's distance between two samples of one number; missing values are left out."""
    from scipy import stats

    kept = [values[~np.isnan(values)] for values in (real, synthetic)]
    if not all(len(values) for values in kept):
        return float("nan") if not any(len(values) for values in kept) else 1.0
    return float(stats.wasserstein_distance(*kept))


def correlation_matrix(numbers: Floats) -> npt.NDArray[np.float64]:
    """Pearson correlations; missing values count as their column's mean, constants correlate with nothing."""
    centred = numbers - np.nanmean(np.where(np.isfinite(numbers), numbers, np.nan), axis=0)
    centred = np.nan_to_num(centred)
    spread = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(spread > 1e-12 * max(1, len(numbers)), spread, np.inf)
    matrix = scaled.T @ scaled
    np.fill_diagonal(matrix, 1.0)
    return np.asarray(np.clip(matrix, -1, 1), dtype=np.float64)


def correlation_difference(real: Floats, synthetic: Floats) -> float:
    """Mean absolute difference of the correlations of all pairs of numeric columns."""
    if real.shape[1] < 2:
        raise EvaluationError("correlations need at least two numeric columns.")
    above = np.triu_indices(real.shape[1], 1)
    return float(np.abs(correlation_matrix(real) - correlation_matrix(synthetic))[above].mean())


@dataclass(frozen=True)
class _Coded:
    """A table in the two forms that the statistics need; indexing picks rows."""

    codes: Ints
    numbers: npt.NDArray[np.float64]

    @classmethod
    def of(cls, frame: pd.DataFrame, layout: Layout) -> _Coded:
        return cls(layout.codes(frame), layout.numbers(frame))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: npt.NDArray[np.intp]) -> _Coded:
        return _Coded(self.codes[rows], self.numbers[rows])


@dataclass(frozen=True)
class _Statistic:
    name: str
    compute: Callable[[_Coded, _Coded], float]
    explanation: str
    better: Better = Better.LOWER
    high: float = 1.0


def table_fidelity(
    synthetic: pd.DataFrame,
    test: pd.DataFrame,
    layout: Layout,
    *,
    reference: pd.DataFrame | None = None,
    on_progress: Progress | None = None,
) -> tuple[Measure, ...]:
    """The fidelity measures of a synthetic table against real test rows; all of them are internal.

    Args:
        synthetic: rows drawn from the release.
        test: real rows.
        layout: the columns.
        reference: other real rows, whose measures against the test rows are the ceiling.
        on_progress: called as measures finish.
    """
    uniform = layout.uniform(len(synthetic), seed=0)
    layout = layout.by_mass(test)
    drawn, real, trivial = (_Coded.of(frame, layout) for frame in (synthetic, test, uniform))
    other = None if reference is None else _Coded.of(reference, layout)
    measures: list[Measure] = []
    statistics = list(_statistics(layout))
    for done, statistic in enumerate(statistics, 1):
        measures.append(_measure(statistic, real, drawn, other, trivial))
        if on_progress:
            on_progress(statistic.name, done / len(statistics))
    return tuple(measures)


def marginals(synthetic: pd.DataFrame, test: pd.DataFrame, layout: Layout) -> tuple[Marginal, ...]:
    """The one-way marginals of both tables, for charts; unknown and missing are shown only if they occur."""
    drawn, real = layout.codes(synthetic), layout.codes(test)
    found = []
    for j, (column, size) in enumerate(zip(layout.columns, layout.sizes, strict=True)):
        of_real, of_drawn = _shares(real[:, j], size), _shares(drawn[:, j], size)
        keep = (np.arange(size) < size - 2) | (of_real + of_drawn > 0)
        labels = tuple(label for label, kept in zip(layout.labels(column), keep, strict=True) if kept)
        first, second = (tuple(side[keep].tolist()) for side in (of_real, of_drawn))
        found.append(Marginal(column, labels, first, second, ordered=column in layout.numeric))
    return tuple(found)


def table_correlations(synthetic: pd.DataFrame, test: pd.DataFrame, layout: Layout) -> Correlations | None:
    """The correlation matrices of both tables, for charts; None with fewer than two numeric columns."""
    if len(layout.numeric) < 2:
        return None
    real, drawn = (
        tuple(tuple(row) for row in correlation_matrix(layout.numbers(frame)).tolist())
        for frame in (test, synthetic)
    )
    return Correlations(tuple(layout.numeric), real, drawn)


def _statistics(layout: Layout) -> Iterator[_Statistic]:
    sizes = layout.sizes
    yield _Statistic(
        "one-way marginal error",
        lambda real, drawn: one_way_error(real.codes, drawn.codes, sizes),
        "Mean over columns of the total variation between real and synthetic distributions.",
    )
    if len(sizes) > 1:
        yield _Statistic(
            "two-way marginal error",
            lambda real, drawn: two_way_error(real.codes, drawn.codes, sizes),
            "Mean over pairs of columns of the total variation between joint distributions.",
        )
        yield _Statistic(
            "mutual information difference",
            lambda real, drawn: mutual_information_difference(real.codes, drawn.codes, sizes),
            "Root mean square difference of the pairs' mutual information, in nats, free of what few rows feign.",
            high=np.inf,
        )
    if len(sizes) > 2:
        yield _Statistic(
            "three-way marginal error",
            lambda real, drawn: three_way_error(real.codes, drawn.codes, sizes),
            "Mean over random triples of columns of the total variation between joint distributions.",
        )
    if layout.categorical:
        first = len(layout.numeric)
        yield _Statistic(
            "category coverage",
            lambda real, drawn: category_coverage(real.codes[:, first:], drawn.codes[:, first:]),
            "Share of the categories seen in real rows that synthetic rows contain.",
            Better.HIGHER,
        )
    if len(layout.numeric) > 1:
        yield _Statistic(
            "correlation difference",
            lambda real, drawn: correlation_difference(real.numbers, drawn.numbers),
            "Mean absolute difference of the Pearson correlations of numeric columns.",
            high=2.0,
        )
    for j, column in enumerate(layout.numeric):
        yield _Statistic(
            f"Wasserstein distance: {column}",
            lambda real, drawn, j=j: wasserstein(real.numbers[:, j], drawn.numbers[:, j]),  # type: ignore[misc]
            f"Earth mover's distance of {column}, as a share of its declared range.",
            high=np.inf,
        )


def _measure(
    statistic: _Statistic, real: _Coded, drawn: _Coded, other: _Coded | None, trivial: _Coded
) -> Measure:
    estimate = jackknife(statistic.compute, real, drawn, low=0.0, high=statistic.high)
    return fidelity_measure(
        statistic.name,
        estimate,
        statistic.better,
        None if other is None else statistic.compute(real, other),
        statistic.compute(real, trivial),
        statistic.explanation,
    )


def validity(synthetic: pd.DataFrame, layout: Layout) -> Measure:
    """The share of rows that the schema allows; public if their number is, which the interval tells exactly."""
    good = layout.valid(synthetic)
    estimate = wilson(int(good.sum()), len(good))
    return Measure(
        "validity",
        estimate.value,
        Better.HIGHER,
        Group.FIDELITY,
        estimate.low,
        estimate.high,
        ceiling=1.0,
        floor=0.0,
        internal=False,
        explanation=(
            "Share of synthetic rows in which every value is allowed by the schema; reads no real row."
        ),
    )


def _shares(codes: Ints, size: int) -> npt.NDArray[np.float64]:
    return np.bincount(codes, minlength=size) / max(1, len(codes))


def _marginal_error(real: Ints, synthetic: Ints, sizes: Sequence[int], ways: int, most: int) -> float:
    errors = []
    for columns in _groups(len(sizes), ways, most):
        shape = [sizes[j] for j in columns]
        first, second = (np.ravel_multi_index(tuple(side[:, columns].T), shape) for side in (real, synthetic))
        cells = math.prod(shape)
        if cells > 4 * (len(real) + len(synthetic)):  # most cells are empty: count the others only
            _, both = np.unique(np.concatenate([first, second]), return_inverse=True)
            first, second, cells = both[: len(real)], both[len(real) :], int(both.max()) + 1
        errors.append(total_variation(_shares(first, cells), _shares(second, cells)))
    return float(np.mean(errors))


def _merged(real: Ints, synthetic: Ints, sizes: Sequence[int], groups: int) -> list[Ints]:
    """Codes merged, in their order, into groups that hold about equally many real rows."""
    merged = [np.empty_like(side) for side in (real, synthetic)]
    for j, size in enumerate(sizes):
        shares = _shares(real[:, j], size)
        group = np.minimum((np.cumsum(shares) - shares / 2) * groups, groups - 1).astype(np.int64)
        for side, codes in zip(merged, (real, synthetic), strict=True):
            side[:, j] = group[codes[:, j]]
    return merged


def _information(cells: Ints, groups: int) -> tuple[float, float]:
    """Mutual information of two columns of so many groups, less its bias if they were independent; its variance."""
    joint = _shares(cells, groups * groups).reshape(groups, groups)
    first, second = joint.sum(axis=1, keepdims=True), joint.sum(axis=0, keepdims=True)
    kept, rows = joint > 0, max(1, len(cells))
    logs = np.log(joint[kept] / (first * second)[kept])
    found, square = float((joint[kept] * logs).sum()), float((joint[kept] * logs**2).sum())
    bias = float(kept.sum() - (first > 0).sum() - (second > 0).sum() + 1) / (2 * rows)
    return found - bias, (square - found**2) / rows + (groups - 1) ** 2 / (2 * rows**2)


def _groups(columns: int, ways: int, most: int) -> list[list[int]]:
    """All sets of so many columns, thinned by a fixed random choice."""
    count = math.comb(columns, ways)
    if count <= most:
        return [list(group) for group in combinations(range(columns), ways)]
    chance, found = np.random.default_rng(0), set[tuple[int, ...]]()
    while len(found) < most:
        found.add(tuple(sorted(chance.choice(columns, ways, replace=False).tolist())))
    return [list(group) for group in sorted(found)]
