"""Scores known from elsewhere: SDNist's by its definition, SDMetrics' where the definitions agree."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.errors import EvaluationError
from understudy.evaluation import familiar
from understudy.evaluation.layout import Layout
from understudy.evaluation.tables import one_way_error

LAYOUT = Layout({"age": (0.0, 100.0)}, {"town": ("a", "b", "c")})


def rows(count: int, seed: int, third: float) -> pd.DataFrame:
    """Rows with a chosen share of town c."""
    generator = np.random.default_rng(seed)
    town = generator.choice(list("abc"), count, p=[(1 - third) / 2, (1 - third) / 2, third])
    return pd.DataFrame({"age": generator.uniform(0, 100, count), "town": town})


def test_total_variation_agrees_with_sdmetrics() -> None:
    """For categorical columns SDMetrics' TVComplement is one minus our one-way error."""
    metrics = pytest.importorskip("sdmetrics.single_column", reason="sdmetrics is not installed")
    only = Layout({}, {"town": ("a", "b", "c")})
    real, drawn = rows(500, 0, 0.2), rows(400, 1, 0.6)
    ours = one_way_error(only.codes(real), only.codes(drawn), only.sizes)
    assert metrics.TVComplement.compute(real["town"], drawn["town"]) == pytest.approx(1 - ours)


def test_scores_fall_with_worse_data() -> None:
    """Both scores lie near their ceiling for a real split and fall for other shares."""
    pytest.importorskip("sdmetrics", reason="sdmetrics is not installed")
    good = familiar.sdmetrics_scores(rows(500, 0, 0.2), rows(500, 1, 0.2), LAYOUT, rows(500, 2, 0.2))
    bad = familiar.sdmetrics_scores(rows(500, 0, 0.9), rows(500, 1, 0.2), LAYOUT)
    assert good[0].ceiling is not None
    assert abs(good[0].value - good[0].ceiling) < 0.05
    assert bad[0].value < good[0].value - 0.2


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sdmetrics the error says what to install."""
    monkeypatch.setattr(familiar, "sdmetrics_installed", lambda: False)
    with pytest.raises(EvaluationError, match="pip install sdmetrics"):
        familiar.sdmetrics_scores(rows(5, 0, 0.2), rows(5, 1, 0.2), LAYOUT)


def grouped_density(frame: pd.DataFrame, columns: list[str], groups: list[str]) -> pd.Series:
    """Shares of each group's rows, as SDNist defines a marginal: a count over the size of its group."""
    counts = frame.groupby(groups + columns).size()
    return counts / counts.groupby(groups).transform("sum") if groups else counts / len(frame)


@pytest.mark.parametrize("group", [None, "town"])
def test_k_marginal_score_is_sdnists_definition(group: str | None) -> None:
    """500 · (2 − Σ|difference of densities|), a mean over marginals and groups, worked out by groupby."""
    layout = Layout({}, {"town": ("a", "b", "c"), "sex": ("f", "m"), "job": ("x", "y")})
    generator = np.random.default_rng(0)
    real, drawn = (
        pd.DataFrame({name: generator.choice(values, 300) for name, values in layout.categorical.items()})
        for _ in range(2)
    )
    drawn = drawn[drawn["town"] != "c"]  # a group that only one table has
    columns = [name for name in layout.columns if name != group]
    pairs = np.random.default_rng(3).choice([layout.columns.index(name) for name in columns], (20, 2))
    scores = []
    for i, j in pairs:
        chosen = list(dict.fromkeys([layout.columns[i], layout.columns[j]]))
        groups = [] if group is None else [group]
        gap = grouped_density(real, chosen, groups).subtract(
            grouped_density(drawn, chosen, groups), fill_value=0
        )
        apart = gap.abs().groupby(groups).sum() if groups else gap.abs().sum()
        scores.append(float(np.mean((2 - apart) * 500)))
    ours = familiar.k_marginal_score(real, drawn, layout, group=group, marginals=20, seed=3)
    assert ours == pytest.approx(np.mean(scores))


def test_k_marginal_score_ends() -> None:
    """Equal tables have 1000, disjoint ones 0, and a single column has no such measure."""
    one, other = (
        pd.DataFrame({"town": [town] * 5, "age": [age] * 5}) for town, age in (("a", 1.0), ("b", 99.0))
    )
    assert familiar.k_marginal_score(one, one, LAYOUT) == 1000
    assert familiar.k_marginal_score(one, other, LAYOUT) == 0
    assert familiar.k_marginal_measure(one[["town"]], one[["town"]], Layout({}, {"town": ("a",)})) == ()
