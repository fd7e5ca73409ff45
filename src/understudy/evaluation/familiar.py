"""Scores of SDMetrics beside ours, for readers who know them; needs the optional package sdmetrics."""

from __future__ import annotations

import importlib.util
import warnings
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from understudy.errors import EvaluationError
from understudy.evaluation.result import Better, Group, Measure

if TYPE_CHECKING:
    import pandas as pd

    from understudy.evaluation.layout import Layout

__all__ = ["sdmetrics_installed", "sdmetrics_scores"]

MOST_PAIRS = 60
MOST_ROWS = 20_000


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
