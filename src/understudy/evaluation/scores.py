"""Scores of predicted probabilities: accuracy, balanced accuracy, one-vs-rest AuROC, average precision.

All take probabilities, never hard labels: a micro AuROC of hard labels on unbalanced classes is high for a
predictor that knows nothing. Rank statistics are computed in a form fast enough to be bootstrapped and are
held against scikit-learn by the tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "accuracy",
    "auroc",
    "auroc_from_histograms",
    "average_precision",
    "balanced_accuracy",
    "macro_auroc",
    "micro_auroc",
    "rare_class_precision",
    "rare_classes",
]

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]


def accuracy(labels: Ints, probabilities: Floats) -> float:
    """Share of rows whose most probable class is right."""
    return float(np.mean(probabilities.argmax(axis=1) == labels))


def balanced_accuracy(labels: Ints, probabilities: Floats) -> float:
    """Mean over the classes that occur of the share of their rows that are right."""
    right = probabilities.argmax(axis=1) == labels
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


def auroc(positive: npt.NDArray[np.bool_], score: Floats) -> float:
    """Area under the ROC curve: the chance that a positive row scores above a negative one, ties half.

    Raises:
        EvaluationError: if all rows have the same class.
    """
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if positives == 0 or negatives == 0:
        raise EvaluationError(
            f"AuROC needs rows of both classes, got {positives} positive and {negatives} negative ones. "
            "Use more test rows."
        )
    order = np.argsort(score, kind="stable")
    ordered = score[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counts = np.diff(np.r_[starts, len(ordered)])
    mid_ranks = np.repeat(starts + (counts + 1) / 2, counts)
    rank_sum = float(mid_ranks[positive[order]].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def auroc_from_histograms(members: Floats, others: Floats) -> float:
    """AuROC of scores known by bins only, ties within a bin counted half; negative counts are taken as zero."""
    members, others = np.maximum(members, 0), np.maximum(others, 0)
    pairs = members.sum() * others.sum()
    if pairs <= 0:
        return 0.5
    below = np.concatenate([[0.0], np.cumsum(others)[:-1]])
    return float((members * (below + others / 2)).sum() / pairs)


def macro_auroc(labels: Ints, probabilities: Floats) -> float:
    """Unweighted mean of the one-vs-rest AuROC of the classes that occur in the labels."""
    present = np.unique(labels)
    return float(np.mean([auroc(labels == label, probabilities[:, label]) for label in present]))


def micro_auroc(labels: Ints, probabilities: Floats) -> float:
    """AuROC over all (row, class) pairs at once, each pair positive if the class is the row's."""
    indicator = labels[:, None] == np.arange(probabilities.shape[1])[None, :]
    return auroc(indicator.ravel(), probabilities.ravel())


def average_precision(positive: npt.NDArray[np.bool_], score: Floats) -> float:
    """Area under the precision-recall curve as a step function (scikit-learn's definition).

    Raises:
        EvaluationError: if no row is positive.
    """
    if not positive.any():
        raise EvaluationError("average precision needs at least one positive row, got none.")
    order = np.argsort(-score, kind="stable")
    ordered, hits = score[order], positive[order]
    last_of_tie = np.flatnonzero(np.r_[ordered[1:] != ordered[:-1], True])
    found = np.cumsum(hits)[last_of_tie]
    precision = found / (last_of_tie + 1)
    recall_gain = np.diff(np.r_[0, found]) / hits.sum()
    return float((precision * recall_gain).sum())


def rare_class_precision(labels: Ints, probabilities: Floats, classes: Sequence[int]) -> float:
    """Mean average precision of the given classes, all of which occur in the labels."""
    return float(np.mean([average_precision(labels == c, probabilities[:, c]) for c in classes]))


def rare_classes(labels: Ints) -> list[int]:
    """The classes that occur with less than half of an equal share of the rows; often there is none."""
    present, counts = np.unique(labels, return_counts=True)
    return [int(label) for label in present[counts < 0.5 * len(labels) / len(present)]]
