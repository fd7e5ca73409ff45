"""Code-vector measures: hand-made values, and the right direction from real rows to empty ones."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.errors import EvaluationError
from understudy.evaluation import codes


def patients(rows: int, seed: int) -> np.ndarray:
    """Binary rows with ten codes; codes 0 to 4 tend to come together."""
    generator = np.random.default_rng(seed)
    ill = generator.random((rows, 1)) < 0.4
    chance = np.where(ill, [[0.7] * 5 + [0.1] * 5], [[0.05] * 5 + [0.3] * 5])
    return (generator.random((rows, 10)) < chance).astype(np.uint8)


def test_prevalence_by_hand() -> None:
    """Prevalences (1/2, 1) against (0, 1) differ by 1/4 on average and correlate fully."""
    real, synthetic = np.array([[1, 1], [0, 1]]), np.array([[0, 1], [0, 1]])
    assert codes.prevalence_error(real, synthetic) == 0.25
    assert codes.prevalence_correlation(real, synthetic) == pytest.approx(1.0)
    assert codes.prevalence_correlation(real, np.zeros((2, 2))) == 0.0


def test_cooccurrence_by_hand() -> None:
    """Rows without pairs are at relative distance 1; half as many pairs at distance 1/2."""
    real = np.array([[1, 1, 0], [1, 1, 0]])
    assert codes.cooccurrence_error(real, np.eye(3)) == pytest.approx(1.0)
    assert codes.cooccurrence_error(real, np.array([[1, 1, 0], [1, 0, 0]])) == pytest.approx(0.5)
    with pytest.raises(EvaluationError, match="together"):
        codes.cooccurrence_error(np.eye(3), real)


def test_count_error_by_hand() -> None:
    """Two codes per row against none is a distance of two codes."""
    assert codes.count_error(np.ones((4, 2)), np.zeros((3, 2))) == 2.0


def test_dimension_wise_prediction_uses_the_other_codes() -> None:
    """Codes that come together are predicted from each other, and a missing target gives a flat score."""
    train, test = patients(800, 0), patients(800, 1)
    measures = {m.name: m for m in codes.code_fidelity(train, test, reference=patients(800, 2))}
    prediction = measures["dimension-wise prediction"]
    assert prediction.ceiling is not None
    assert prediction.value > 0.7
    assert abs(prediction.value - prediction.ceiling) < 0.05
    empty = codes.code_fidelity(np.zeros_like(train), test)
    assert empty[-1].value == 0.5


def test_independent_codes_have_the_prevalence_but_not_the_pairs() -> None:
    """Shuffling each column keeps the prevalence error and raises the co-occurrence error."""
    train, test = patients(2000, 0), patients(2000, 1)
    generator = np.random.default_rng(0)
    shuffled = np.stack([generator.permutation(column) for column in train.T], axis=1)
    good = {m.name: m.value for m in codes.code_fidelity(train, test)}
    bad = {m.name: m.value for m in codes.code_fidelity(shuffled, test)}
    assert bad["prevalence error"] == pytest.approx(good["prevalence error"])
    assert bad["co-occurrence error"] > 3 * good["co-occurrence error"]
    assert bad["dimension-wise prediction"] < good["dimension-wise prediction"]
    assert bad["codes per row error"] > good["codes per row error"]


def test_marginal_for_the_chart_lists_the_most_frequent_codes_first() -> None:
    """The chart starts with the most frequent real code and names it."""
    real = np.array([[0, 1, 1], [0, 1, 0]])
    chart = codes.code_marginals(real, real, ("a", "b", "c"), most=2)
    assert chart.labels == ("b", "c")
    assert chart.real == (1.0, 0.5)
