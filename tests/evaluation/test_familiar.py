"""SDMetrics beside ours: agreement where the definitions agree, and a clear word without the package."""

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
