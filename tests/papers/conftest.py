"""A scale so small that whole studies run in a test, on data that comes with scikit-learn."""

from __future__ import annotations

import pytest

from understudy.papers.scale import Scale


@pytest.fixture
def tiny() -> Scale:
    return Scale(
        "tiny",
        images="digits",
        unlabelled=("digits",),
        table="iris",
        codes=None,
        code_counts=None,
        rows=300,
        dense_steps=3,
        wide_steps=3,
        strategy_updates=1,
        conv_steps=2,
        table_steps=3,
        long_steps=4,
        curve_updates=1,
        printed_steps=3,
        warm_steps=2,
        drawn=300,
        classified=200,
        judge_rows=300,
        points=1,
        task_steps=4,
        capacities=(2, 4),
        public=100,
    )
