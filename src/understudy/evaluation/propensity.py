"""Can a classifier tell synthetic rows from real ones? Propensity score (pMSE) and two-sample AuROC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import TooFewRows
from understudy.evaluation.intervals import Estimate, from_seeds
from understudy.evaluation.result import Better, Group, Measure
from understudy.evaluation.scores import auroc

if TYPE_CHECKING:
    import pandas as pd

    from understudy.evaluation.layout import Layout

__all__ = ["pmse", "propensity", "propensity_scores"]

Floats = npt.NDArray[np.floating[Any]]
MOST_ROWS = 20_000
LEAST_ROWS = 100
"""With fewer of each, the classifier's trees have no room for a split, and one half would say nothing."""


def pmse(scores: Floats, share: float) -> float:
    """Mean squared distance of the scores from the share of synthetic rows: 0 if indistinguishable."""
    return float(np.mean((scores - share) ** 2))


def propensity_scores(
    real: Floats, synthetic: Floats, *, seed: int = 0
) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Out-of-fold probabilities of being synthetic, by gradient boosting with two folds.

    Both sides are cut to the same number of rows (at most 20,000), so the share of synthetic rows is one
    half.

    Returns:
        For each row whether it is synthetic, and its score.

    Raises:
        TooFewRows: there are fewer than 100 rows of a kind.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rows = min(len(real), len(synthetic), MOST_ROWS)
    if rows < LEAST_ROWS:
        raise TooFewRows(f"it takes {LEAST_ROWS} real and as many synthetic rows, there are {rows}.")
    generator = np.random.default_rng(seed)
    sides = [side[generator.choice(len(side), rows, replace=False)] for side in (real, synthetic)]
    label = np.repeat([False, True], rows)
    model = HistGradientBoostingClassifier(max_iter=60, early_stopping=False, random_state=seed)
    folds = StratifiedKFold(2, shuffle=True, random_state=seed)
    scores = cross_val_predict(model, np.concatenate(sides), label, cv=folds, method="predict_proba")[:, 1]
    return label, scores


def propensity(
    synthetic: pd.DataFrame, test: pd.DataFrame, layout: Layout, reference: pd.DataFrame | None = None
) -> tuple[Measure, Measure]:
    """The two-sample AuROC and pMSE of tables; the floor is what disjoint tables get.

    Raises:
        TooFewRows: there are too few rows to tell anything.
    """
    real = _features(test, layout)
    label, scores = propensity_scores(real, _features(synthetic, layout))
    enough = reference is not None and len(reference) >= LEAST_ROWS
    best = propensity_scores(real, _features(reference, layout)) if reference is not None and enough else None
    return _two_sample(label, scores, best), _pmse(scores, best)


def _features(frame: pd.DataFrame, layout: Layout) -> Floats:
    categorical = layout.codes(frame)[:, len(layout.numeric) :]
    return np.concatenate([layout.numbers(frame), categorical], axis=1)


def _two_sample(
    label: npt.NDArray[np.bool_], scores: Floats, best: tuple[npt.NDArray[np.bool_], Floats] | None
) -> Measure:
    estimate = from_seeds(
        lambda rows: [auroc(label[rows], scores[rows])], len(label), strata=label, replicates=30
    )
    return Measure(
        "two-sample AuROC",
        estimate.value,
        Better.LOWER,
        Group.FIDELITY,
        estimate.low,
        estimate.high,
        ceiling=None if best is None else auroc(*best),
        floor=1.0,
        explanation=(
            "How well gradient boosting tells synthetic rows from real ones: 0.5 not at all, 1 always."
        ),
    )


def _pmse(scores: Floats, best: tuple[npt.NDArray[np.bool_], Floats] | None) -> Measure:
    estimate: Estimate = from_seeds(
        lambda rows: [pmse(scores[rows], 0.5)], len(scores), replicates=30, high=0.25
    )
    return Measure(
        "propensity (pMSE)",
        estimate.value,
        Better.LOWER,
        Group.FIDELITY,
        estimate.low,
        estimate.high,
        ceiling=None if best is None else pmse(best[1], 0.5),
        floor=0.25,
        explanation=(
            "Mean squared distance of the propensity score from one half: 0 is indistinguishable, 0.25 plain."
        ),
    )
