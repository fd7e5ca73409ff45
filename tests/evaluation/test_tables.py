"""Table fidelity: every statistic against a hand-made value or an independent implementation."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import mutual_info_score

from understudy.errors import EvaluationError
from understudy.evaluation import tables
from understudy.evaluation.layout import Layout
from understudy.evaluation.propensity import pmse, propensity_scores
from understudy.evaluation.result import Better
from understudy.records.encode import decode, encode
from understudy.schema import Binary, Categorical, CellType, Datetime, TableSchema

LAYOUT = Layout(
    {"age": (0.0, 100.0), "pay": (0.0, 1.0)},
    {"sex": ("f", "m"), "job": ("a", "b", "c")},
    nullable=frozenset({"job", "pay"}),
    bins=10,
)


def people(rows: int, seed: int) -> pd.DataFrame:
    """A small table with dependence between columns and some missing values."""
    generator = np.random.default_rng(seed)
    age = generator.uniform(18, 90, rows)
    pay = np.clip(age / 100 + generator.normal(0, 0.1, rows), 0, 1)
    sex = np.where(generator.random(rows) < 0.4, "f", "m")
    job = np.where(age > 60, "a", np.where(sex == "f", "b", "c")).astype(object)
    job[generator.random(rows) < 0.05] = None
    return pd.DataFrame({"age": age, "pay": pay, "sex": sex, "job": job})


def test_total_variation_by_hand() -> None:
    """Moving 30 % of the mass is a distance of 0.3."""
    assert tables.total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.5, 0.3])) == pytest.approx(0.3)


def test_one_and_two_way_errors_by_hand() -> None:
    """Equal marginals with opposite dependence: one-way error 0, two-way error 1."""
    real = np.array([[0, 0], [1, 1]] * 10)
    crossed = np.array([[0, 1], [1, 0]] * 10)
    assert tables.one_way_error(real, crossed, [2, 2]) == 0.0
    assert tables.two_way_error(real, crossed, [2, 2]) == 1.0
    assert tables.two_way_error(real, real[::-1], [2, 2]) == 0.0


def test_mutual_information_agrees_with_sklearn() -> None:
    """With many rows the difference of mutual information equals that of scikit-learn's numbers, in nats."""
    generator = np.random.default_rng(0)
    first = generator.integers(0, 3, 20_000)
    real = np.stack([first, (first + generator.integers(0, 2, 20_000)) % 3], axis=1)
    shuffled = np.stack([first, generator.permutation(real[:, 1])], axis=1)
    expected = abs(mutual_info_score(*real.T) - mutual_info_score(*shuffled.T))
    assert tables.mutual_information_difference(real, shuffled, [3, 3]) == pytest.approx(expected, rel=0.02)


def test_few_rows_do_not_feign_mutual_information() -> None:
    """On 154 test rows, 614 others of the same weak dependence must look better than independent columns do."""
    ceilings, floors, nothing = [], [], []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        numbers = 0.7 * generator.normal(size=(768, 1)) + generator.normal(size=(768, 8))
        codes = np.stack([np.digitize(x, np.quantile(x, np.arange(1, 10) / 10)) for x in numbers.T], axis=1)
        test, other, sizes = codes[:154], codes[154:], [10] * 8
        free = generator.integers(0, 10, other.shape)
        ceilings.append(tables.mutual_information_difference(test, other, sizes))
        floors.append(tables.mutual_information_difference(test, free, sizes))
        nothing.append(tables.mutual_information_difference(free[:154], free[154:], sizes))
    assert np.mean(ceilings) < 0.5 * np.mean(floors)
    assert max(nothing) < 0.02


def test_three_way_error_sees_what_pairs_do_not() -> None:
    """The parity of three columns: every pair is independent, every triple is not."""
    generator = np.random.default_rng(0)
    coins = generator.integers(0, 2, (4_000, 2))
    parity = np.column_stack([coins, coins.sum(axis=1) % 2])
    free = generator.integers(0, 2, (4_000, 3))
    assert tables.two_way_error(parity, free, [2] * 3) < 0.05
    assert tables.three_way_error(parity, free, [2] * 3) > 0.45
    assert tables.three_way_error(parity, parity[::-1], [2] * 3) == 0.0
    wide = [5_000] * 3  # too many cells to lay out: the same number by those that occur
    assert tables.three_way_error(parity, free, wide) == pytest.approx(
        tables.three_way_error(parity, free, [2] * 3)
    )


def test_many_columns_are_thinned_to_different_triples() -> None:
    """Of 161,700 triples 100 are looked at, always the same ones and each once."""
    chosen = tables._groups(100, 3, 100)
    assert len({tuple(one) for one in chosen}) == len(chosen) == 100
    assert chosen == tables._groups(100, 3, 100)


def test_wasserstein_agrees_with_scipy_and_leaves_missing_out() -> None:
    """The distance is SciPy's on the values that are present."""
    first, second = np.array([0.0, 1.0, math.nan]), np.array([0.5, 0.5, 1.5])
    expected = stats.wasserstein_distance([0.0, 1.0], [0.5, 0.5, 1.5])
    assert tables.wasserstein(first, second) == pytest.approx(expected)
    assert tables.wasserstein(np.array([math.nan]), second) == 1.0


def test_correlations_agree_with_numpy_and_constants_with_nothing() -> None:
    """Complete columns give numpy's Pearson matrix; a constant column has correlation zero."""
    numbers = np.random.default_rng(0).normal(size=(200, 3))
    numbers[:, 1] += numbers[:, 0]
    assert tables.correlation_matrix(numbers) == pytest.approx(np.corrcoef(numbers, rowvar=False))
    numbers[:, 2] = 5.0
    assert tables.correlation_matrix(numbers)[0, 2] == 0.0
    assert tables.correlation_difference(numbers, -numbers) == pytest.approx(0.0)


def test_category_coverage_by_hand() -> None:
    """Two of three seen values and one of one make (2/3 + 1)/2."""
    real, synthetic = np.array([[0, 5], [1, 5], [2, 5]]), np.array([[0, 5], [1, 5]])
    assert tables.category_coverage(real, synthetic) == pytest.approx((2 / 3 + 1) / 2)


def test_layout_codes_by_hand() -> None:
    """Bounds, unknown categories and missing values land in their own codes."""
    frame = pd.DataFrame(
        {
            "age": [0, 100, -5, 55.0],
            "pay": [0.05, None, 2, 0.5],
            "sex": ["f", "m", "x", "f"],
            "job": [*list("ab"), None, "z"],
        }
    )
    assert LAYOUT.codes(frame).tolist() == [[0, 0, 0, 0], [9, 11, 1, 1], [0, 9, 2, 4], [5, 5, 0, 3]]
    assert LAYOUT.valid(frame).tolist() == [True, True, False, False]
    with pytest.raises(EvaluationError, match="lacks the columns"):
        LAYOUT.codes(frame.drop(columns="sex"))


def test_bins_of_equal_mass_tell_a_pile_from_its_neighbours() -> None:
    """A skewed column that looks perfect in equal bins does not when its pile at 7 was spread to 6 and 8."""
    layout = Layout({"pay": (0.0, 1e6)}, {})
    values = np.concatenate([np.full(500, 7.0), np.arange(500) % 97 / 10])
    real = pd.DataFrame({"pay": values})
    spread = pd.DataFrame({"pay": np.where(values == 7.0, 6 + 2 * (np.arange(1000) % 2), values)})
    cut = layout.by_mass(real)
    equal, by_mass = (
        tables.one_way_error(one.codes(real), one.codes(spread), one.sizes) for one in (layout, cut)
    )
    assert equal == 0.0
    assert by_mass == pytest.approx(0.5, abs=0.02)
    shares = np.bincount(cut.codes(real)[:, 0]) / len(real)
    assert np.sort(shares)[-2] < 0.12, "only the pile may hold more than about a tenth"
    assert tables.one_way_error(cut.codes(real), cut.codes(real + 1e-4), cut.sizes) == 0.0


def test_bins_of_equal_mass_of_a_constant_or_empty_column() -> None:
    """A column that never varies or is always missing is one bin, and missing keeps its own code."""
    layout = Layout({"a": (0.0, 1.0), "b": (0.0, 1.0)}, {})
    frame = pd.DataFrame({"a": [0.5, 0.5], "b": [np.nan, np.nan]})
    cut = layout.by_mass(frame)
    assert cut.sizes == (3, 3)
    assert cut.codes(frame).tolist() == [[0, 2], [0, 2]]


def test_pmse_and_two_sample_score() -> None:
    """Rows of one distribution cannot be told apart, rows of two can; pMSE of a sure classifier is 1/4."""
    generator = np.random.default_rng(0)
    same = propensity_scores(generator.normal(size=(800, 3)), generator.normal(size=(800, 3)))
    apart = propensity_scores(generator.normal(size=(400, 3)), generator.normal(3, 1, size=(400, 3)))
    assert 0.4 < tables_auroc(*same) < 0.6
    assert tables_auroc(*apart) > 0.95
    assert pmse(np.array([0.0, 1.0]), 0.5) == 0.25


def tables_auroc(label: np.ndarray, scores: np.ndarray) -> float:
    """AuROC by scikit-learn."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(label, scores))


def test_ceiling_and_floor_enclose_a_good_table() -> None:
    """Another real sample lies near the ceiling and far from the floor; intervals hold the value."""
    measures = tables.table_fidelity(people(1500, 1), people(1500, 2), LAYOUT, reference=people(1500, 3))
    named = {measure.name: measure for measure in measures}
    error = named["two-way marginal error"]
    assert error.ceiling is not None
    assert error.floor is not None
    assert error.value < 0.5 * error.floor
    assert abs(error.value - error.ceiling) < 0.05
    assert all(m.low is not None and m.high is not None and m.low <= m.value <= m.high for m in measures)
    assert all(m.internal for m in measures)
    assert named["category coverage"].better is Better.HIGHER


def test_validity_is_the_share_of_rows_that_the_schema_allows() -> None:
    """A row with one value that is not allowed is not valid; no real row is read, so the measure is public."""
    rows = people(100, 1)
    rows.iloc[:25, 0] = 1e9
    found = tables.validity(rows, LAYOUT)
    assert (found.value, found.internal) == (0.75, False)


def test_chart_data_are_distributions() -> None:
    """Marginals for charts sum to one on both sides and leave out codes that never occur."""
    charts = tables.marginals(people(300, 1), people(300, 2), LAYOUT)
    assert [chart.column for chart in charts] == ["age", "pay", "sex", "job"]
    for chart in charts:
        assert sum(chart.real) == pytest.approx(1)
        assert sum(chart.synthetic) == pytest.approx(1)
    assert charts[2].labels == ("f", "m")
    assert charts[3].labels == ("a", "b", "c", "(missing)")
    correlations = tables.table_correlations(people(300, 1), people(300, 2), LAYOUT)
    assert correlations is not None
    assert correlations.columns == ("age", "pay")


def test_typed_cells_have_the_codes_of_their_texts() -> None:
    """Truth values, numbers, categories and moments with a zone are told apart like the texts they stand for."""
    schema = TableSchema(
        (
            Binary("b", ("no", "yes"), missing=True, stored_as=CellType.BOOL),
            Categorical("c", ("1", "2"), stored_as=CellType.FLOAT64),
            Categorical("k", ("x", "y"), stored_as=CellType.CATEGORY),
            Datetime("d", dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 3), timezone="Asia/Tokyo"),
        )
    )
    plain = pd.DataFrame(
        {
            "b": ["yes", None],
            "c": ["2", "1"],
            "k": ["x", "y"],
            "d": pd.to_datetime(["2020-01-01", "2020-01-03"]),
        }
    )
    typed = decode(encode(plain, schema).x, None, schema)
    layout = Layout.of(schema)
    assert isinstance(typed, pd.DataFrame)
    assert layout.codes(typed).tolist() == layout.codes(plain).tolist()
    assert layout.valid(typed).all()
