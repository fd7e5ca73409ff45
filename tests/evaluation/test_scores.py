"""Scores of probabilities, held against scikit-learn and against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from understudy.errors import EvaluationError
from understudy.evaluation import scores

FORTY_TWO = 42


def some_predictions(seed: int, rows: int = 400, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Labels and coarse probabilities, so that ties occur."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, rows)
    raw = np.round(generator.dirichlet(np.ones(classes), rows) + 0.3 * np.eye(classes)[labels], 1) + 1e-3
    return labels, raw / raw.sum(axis=1, keepdims=True)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_rank_scores_agree_with_sklearn(seed: int) -> None:
    """The fast AuROC and average precision equal scikit-learn's, ties included."""
    labels, probabilities = some_predictions(seed, rows=60)
    positive = labels == 1
    assert scores.auroc(positive, probabilities[:, 1]) == pytest.approx(
        metrics.roc_auc_score(positive, probabilities[:, 1])
    )
    assert scores.average_precision(positive, probabilities[:, 1]) == pytest.approx(
        metrics.average_precision_score(positive, probabilities[:, 1])
    )


def test_averages_agree_with_sklearn() -> None:
    """Macro and micro AuROC, accuracy and balanced accuracy equal scikit-learn's."""
    labels, probabilities = some_predictions(FORTY_TWO)
    hot = np.eye(4)[labels]
    guess = probabilities.argmax(axis=1)
    assert scores.macro_auroc(labels, probabilities) == pytest.approx(
        metrics.roc_auc_score(labels, probabilities, multi_class="ovr", average="macro")
    )
    assert scores.micro_auroc(labels, probabilities) == pytest.approx(
        metrics.roc_auc_score(hot, probabilities, average="micro")
    )
    assert scores.accuracy(labels, probabilities) == metrics.accuracy_score(labels, guess)
    assert scores.balanced_accuracy(labels, probabilities) == pytest.approx(
        metrics.balanced_accuracy_score(labels, guess)
    )


def test_auroc_by_hand() -> None:
    """Three of four pairs in order and one tie give 0.875."""
    positive = np.array([True, True, False, False])
    assert scores.auroc(positive, np.array([0.9, 0.5, 0.5, 0.1])) == 0.875


def test_undefined_scores_are_refused() -> None:
    """A score that needs both classes says so instead of returning a number."""
    with pytest.raises(EvaluationError, match="both classes"):
        scores.auroc(np.array([True, True]), np.array([0.1, 0.2]))
    with pytest.raises(EvaluationError, match="positive"):
        scores.average_precision(np.array([False, False]), np.array([0.1, 0.2]))


def test_rare_classes_are_those_below_half_of_an_equal_share() -> None:
    """93/191/3488 rows make the first two of three classes rare; nearly equal classes are none."""
    labels = np.repeat([0, 1, 2], [93, 191, 3488])
    assert scores.rare_classes(labels) == [0, 1]
    assert scores.rare_classes(np.array([0, 0, 1, 1, 1])) == []


def test_rare_class_precision_is_the_mean_of_sklearns() -> None:
    """Rare-class average precision averages scikit-learn's over the given classes."""
    labels, probabilities = some_predictions(7)
    expected = np.mean([metrics.average_precision_score(labels == c, probabilities[:, c]) for c in (0, 2)])
    assert scores.rare_class_precision(labels, probabilities, [0, 2]) == pytest.approx(expected)
