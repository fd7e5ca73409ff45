"""Can a classifier tell synthetic rows from real ones? Propensity score (pMSE) and two-sample AuROC."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import EvaluationError
from understudy.evaluation.intervals import Estimate, from_seeds
from understudy.evaluation.result import Better, Group, Measure
from understudy.evaluation.scores import auroc

__all__ = ["pmse", "propensity", "propensity_scores"]

Floats = npt.NDArray[np.floating[Any]]
Table = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
MOST_ROWS = 20_000


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
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rows = min(len(real), len(synthetic), MOST_ROWS)
    if rows < 4:
        raise EvaluationError(f"telling real from synthetic needs at least 4 rows of each, got {rows}.")
    generator = np.random.default_rng(seed)
    sides = [side[generator.choice(len(side), rows, replace=False)] for side in (real, synthetic)]
    label = np.repeat([False, True], rows)
    model = HistGradientBoostingClassifier(max_iter=60, early_stopping=False, random_state=seed)
    folds = StratifiedKFold(2, shuffle=True, random_state=seed)
    scores = cross_val_predict(model, np.concatenate(sides), label, cv=folds, method="predict_proba")[:, 1]
    return label, scores


def propensity(real: Table, synthetic: Table, reference: Table | None) -> tuple[Measure, Measure]:
    """The two-sample AuROC and pMSE of coded tables; the floor is what disjoint tables get."""
    label, scores = propensity_scores(_features(real), _features(synthetic))
    best = None if reference is None else propensity_scores(_features(real), _features(reference))
    return _two_sample(label, scores, best), _pmse(scores, best)


def _features(table: Table) -> Floats:
    codes, numbers = table
    categorical = codes[:, numbers.shape[1] :]
    return np.concatenate([numbers, categorical], axis=1)


def _two_sample(
    label: npt.NDArray[np.bool_], scores: Floats, best: tuple[npt.NDArray[np.bool_], Floats] | None
) -> Measure:
    estimate = from_seeds(lambda rows: [auroc(label[rows], scores[rows])], len(label), replicates=30)
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
