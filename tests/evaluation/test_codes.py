"""Code-vector measures: hand-made values, and the right direction from real rows to empty ones."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from understudy.errors import TooFewRows
from understudy.evaluation import codes
from understudy.evaluation.result import Measure


def patients(rows: int, seed: int) -> np.ndarray:
    """Binary rows with ten codes; codes 0 to 4 tend to come together."""
    generator = np.random.default_rng(seed)
    ill = generator.random((rows, 1)) < 0.4
    chance = np.where(ill, [[0.7] * 5 + [0.1] * 5], [[0.05] * 5 + [0.3] * 5])
    return (generator.random((rows, 10)) < chance).astype(np.uint8)


def measured(made: np.ndarray, test: np.ndarray, reference: np.ndarray | None = None) -> dict[str, Measure]:
    """Every measure by its name; what the rows do not define is left out."""
    found = {}
    for name, compute in codes.code_measures(made, test, reference=reference):
        with contextlib.suppress(TooFewRows):
            found[name] = compute()
    return found


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
    with pytest.raises(TooFewRows, match="together"):
        codes.cooccurrence_error(np.eye(3), real)


def test_count_error_by_hand() -> None:
    """Two codes per row against none is a distance of two codes."""
    assert codes.count_error(np.ones((4, 2)), np.zeros((3, 2))) == 2.0


def test_dimension_wise_prediction_uses_the_other_codes() -> None:
    """Codes that come together are predicted from each other, and a missing target gives a flat score."""
    train, test = patients(800, 0), patients(800, 1)
    prediction = measured(train, test, patients(800, 2))["dimension-wise prediction"]
    assert prediction.ceiling is not None
    assert prediction.value > 0.7
    assert abs(prediction.value - prediction.ceiling) < 0.05
    assert measured(np.zeros_like(train), test)["dimension-wise prediction"].value == 0.5


def test_independent_codes_have_the_prevalence_but_not_the_pairs() -> None:
    """Shuffling each column keeps the prevalence error and raises the co-occurrence error."""
    train, test = patients(2000, 0), patients(2000, 1)
    generator = np.random.default_rng(0)
    shuffled = np.stack([generator.permutation(column) for column in train.T], axis=1)
    good, bad = ({name: m.value for name, m in measured(made, test).items()} for made in (train, shuffled))
    assert bad["prevalence error"] == pytest.approx(good["prevalence error"])
    assert bad["co-occurrence error"] > 3 * good["co-occurrence error"]
    assert bad["triples of codes error"] > 3 * good["triples of codes error"]
    assert bad["codes per row, total variation"] > 3 * good["codes per row, total variation"]
    assert bad["dimension-wise prediction"] < good["dimension-wise prediction"]
    assert bad["codes per row error"] > good["codes per row error"]


def test_marginal_for_the_chart_lists_the_most_frequent_codes_first() -> None:
    """The chart starts with the most frequent real code and names it."""
    real = np.array([[0, 1, 1], [0, 1, 0]])
    chart, lengths = codes.code_charts(real, real, ("a", "b", "c"), most=2)
    assert chart.labels == ("b", "c")
    assert chart.real == (1.0, 0.5)
    assert (lengths.labels, lengths.real) == (("0", "1", "2"), (0.0, 0.5, 0.5))


def test_triples_by_hand() -> None:
    """Of four codes, three that meet in half of the rows: never meeting is distance 1, meeting twice as often too."""
    real = np.array([[1, 1, 1, 0], [0, 0, 0, 1]])
    assert codes.triple_error(real, real[::-1]) == 0.0
    assert codes.triple_error(real, np.eye(4)) == pytest.approx(1.0)
    assert codes.triple_error(real, np.array([[1, 1, 1, 0]])) == pytest.approx(1.0)
    every = np.random.default_rng(0).integers(0, 2, (50, 5))
    means = [every[:, [i, j, k]].all(axis=1).mean() for i in range(5) for j in range(i) for k in range(j)]
    assert np.sort(codes._triples(every)) == pytest.approx(np.sort(means))
    with pytest.raises(TooFewRows, match="three codes"):
        codes.triple_error(np.eye(4), real)


def test_repeated_records_and_invented_codes_are_seen() -> None:
    """One record given out again and again, and mentions of codes that nobody has, show as what they are."""
    real = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    made = np.array([[1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 0, 0]])
    assert codes.distinct_records(real, made) == 0.5
    assert codes.phantom_codes(real, made) == pytest.approx(3 / 7)
    found = measured(made, real, np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 1, 1]]))["phantom codes"]
    assert (found.value, found.ceiling, found.floor) == (0.0, 0.0, 0.0)
    alone = measured(made, real)["phantom codes"]
    assert (alone.value, alone.floor) == (pytest.approx(3 / 7), 0.5)


def test_one_length_for_all_is_no_distribution() -> None:
    """Every record with the mean number of codes: the earth mover's distance is small, the variation is whole."""
    real = np.array([[1, 0, 0], [1, 1, 1]] * 20)
    assert codes.count_variation(real, np.array([[1, 1, 0]] * 40)) == 1.0
    assert codes.count_variation(real, real[::-1]) == 0.0
