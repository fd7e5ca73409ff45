"""Scores that readers know from elsewhere, beside ours: SDNist's k-marginal score, and those of SDMetrics.

The k-marginal score is our own implementation of its definition; SDMetrics is an optional package.
"""

from __future__ import annotations

import importlib.util
import warnings
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from understudy.errors import EvaluationError
from understudy.evaluation.result import Better, Group, Measure

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from understudy.evaluation.layout import Layout

__all__ = ["k_marginal_measure", "k_marginal_score", "sdmetrics_installed", "sdmetrics_scores"]

MOST_PAIRS = 60
MOST_ROWS = 20_000
MARGINALS = 100


def k_marginal_score(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    layout: Layout,
    *,
    group: str | None = None,
    marginals: int = MARGINALS,
    seed: int = 0,
) -> float:
    """SDNist's k-marginal score: 1000 if the densities of random pairs of columns agree, 0 if they are disjoint.

    1000 · (1 − mean total variation) over `marginals` random pairs, drawn as SDNist draws them (a column may meet
    itself). With a group, such as SDNist's PUMA, the densities are those within each group, and the score is the mean
    over the groups of both tables: the marginals are then of three columns. Numbers are binned by the layout, and
    SDNist's own bins and pairs are not ours, so scores agree up to that choice.

    Args:
        real: the target rows.
        synthetic: the rows that are scored.
        layout: the columns and their bins.
        group: a column whose values the rows are grouped by.
        marginals: how many pairs.
        seed: of the choice of pairs.
    """
    sizes, sides = layout.sizes, [layout.codes(frame) for frame in (real, synthetic)]
    by = None if group is None else layout.columns.index(group)
    columns = [j for j in range(len(sizes)) if j != by]
    if not columns:
        raise EvaluationError("the k-marginal score needs a column beside the one that rows are grouped by.")
    chance = np.random.default_rng(seed)
    total = np.zeros(1 if by is None else sizes[by])
    for i, j in chance.choice(columns, (marginals, 2)):
        total += _distances_by_group(sides, int(i), int(j), by, sizes)
    met = np.ones(1, bool) if by is None else np.isin(np.arange(sizes[by]), np.concatenate(sides)[:, by])
    return float(1000 - 500 * total[met].mean() / marginals)


def _distances_by_group(
    sides: list[npt.NDArray[np.int64]], i: int, j: int, by: int | None, sizes: tuple[int, ...]
) -> npt.NDArray[np.float64]:
    """For each group, the summed absolute difference of the densities of two columns; one group if there is none."""
    groups, cells = (1 if by is None else sizes[by]), sizes[i] * sizes[j]
    densities = []
    for codes in sides:
        place = codes[:, i] * sizes[j] + codes[:, j] + (0 if by is None else codes[:, by] * cells)
        counts = np.bincount(place, minlength=groups * cells).reshape(groups, cells)
        densities.append(counts / np.maximum(1, counts.sum(axis=1, keepdims=True)))
    return np.asarray(np.abs(densities[0] - densities[1]).sum(axis=1))


def k_marginal_measure(
    synthetic: pd.DataFrame, test: pd.DataFrame, layout: Layout, reference: pd.DataFrame | None = None
) -> tuple[Measure, ...]:
    """The k-marginal score without groups; none for a table of one column, which has no pairs."""
    if len(layout.columns) < 2:
        return ()
    uniform, layout = layout.uniform(len(synthetic), 0), layout.by_mass(test)
    words = "SDNist's score on its own scale, for random pairs of columns: 1000 is best."
    return (
        Measure(
            "k-marginal score",
            k_marginal_score(test, synthetic, layout),
            Better.HIGHER,
            Group.FIDELITY,
            ceiling=None if reference is None else k_marginal_score(test, reference, layout),
            floor=k_marginal_score(test, uniform, layout),
            explanation=words,
        ),
    )


def sdmetrics_installed() -> bool:
    """Whether the optional package is there."""
    return importlib.util.find_spec("sdmetrics") is not None


def sdmetrics_scores(
    synthetic: pd.DataFrame, test: pd.DataFrame, layout: Layout, reference: pd.DataFrame | None = None
) -> tuple[Measure, ...]:
    """Column Shapes and Column Pair Trends, from 0 to 1, as SDMetrics computes them.

    Raises:
        EvaluationError: sdmetrics is not installed.
    """
    if not sdmetrics_installed():
        raise EvaluationError(
            "sdmetrics is not installed; `pip install sdmetrics` to see its scores beside ours."
        )
    measures = [_measure("SDMetrics column shapes", _shapes, synthetic, test, layout, reference)]
    if len(layout.columns) > 1:
        measures.append(_measure("SDMetrics column pair trends", _trends, synthetic, test, layout, reference))
    return tuple(measures)


def _shapes(real: pd.DataFrame, synthetic: pd.DataFrame, layout: Layout) -> float:
    from sdmetrics.single_column import KSComplement, TVComplement

    scores = [
        (KSComplement if name in layout.numeric else TVComplement).compute(real[name], synthetic[name])
        for name in layout.columns
    ]
    return float(np.nanmean(scores))


def _trends(real: pd.DataFrame, synthetic: pd.DataFrame, layout: Layout) -> float:
    from sdmetrics.column_pairs import ContingencySimilarity, CorrelationSimilarity

    pairs = [
        pair
        for pair in combinations(layout.columns, 2)
        if (pair[0] in layout.numeric) == (pair[1] in layout.numeric)
    ][:MOST_PAIRS]
    scores = [
        (CorrelationSimilarity if pair[0] in layout.numeric else ContingencySimilarity).compute(
            real[list(pair)], synthetic[list(pair)]
        )
        for pair in pairs
    ]
    return float(np.nanmean(scores)) if scores else float("nan")


def _measure(
    name: str,
    score: object,
    synthetic: pd.DataFrame,
    test: pd.DataFrame,
    layout: Layout,
    reference: pd.DataFrame | None,
) -> Measure:
    assert callable(score)
    with warnings.catch_warnings():
        # Constant columns have no correlation; SDMetrics warns and returns NaN, which the mean leaves out.
        warnings.simplefilter("ignore")
        value = score(test[:MOST_ROWS], synthetic[:MOST_ROWS], layout)
        best = None if reference is None else score(test[:MOST_ROWS], reference[:MOST_ROWS], layout)
        worst = score(test[:MOST_ROWS], layout.uniform(min(len(test), MOST_ROWS), 0), layout)
    words = "The score of the same name in SDMetrics: 1 is best. No interval: SDMetrics gives none."
    return Measure(name, value, Better.HIGHER, Group.FIDELITY, ceiling=best, floor=worst, explanation=words)
