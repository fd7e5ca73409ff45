"""Evaluations and audits for the pages under test; releases come from the shared fixtures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.auditing.verdict import Audit, Outcome, Reading, judge
from understudy.evaluation import Better, Evaluation, Group, Measure
from understudy.evaluation.result import Correlations, Marginal, Pictures
from understudy.planning import plan
from understudy.release.release import Release
from understudy.schema import CodeSchema

SECRET = 0.123456789
"""The value of an internal measure, searched for in public pages."""


@pytest.fixture
def audit_result() -> Audit:
    """An audit that passed."""
    reading = Reading("noise", Outcome.PASS, 1.01, 0.98, 1.04, 1.0, "the noise is as wide as claimed.", 0.4)
    return Audit("the running step", 2.0, 1e-5, 0.9999, 100, 10, (reading,), judge([reading]))


@pytest.fixture
def whole_evaluation() -> Evaluation:
    """An evaluation with every kind of number and chart."""
    learners = ("logistic regression", "MLP", "gradient boosting")
    utility = [
        Measure(
            f"{learner}: {score}", value, Better.HIGHER, Group.UTILITY, value - 0.1, value + 0.1, 0.95, 0.3
        )
        for score in ("accuracy", "macro AuROC")
        for learner, value in zip(learners, (0.7, 0.8, 0.6), strict=True)
    ]
    others = [
        Measure(
            "secret measure", SECRET, Better.LOWER, Group.FIDELITY, 0.1, 0.2, 0.05, 0.9, explanation="Secret."
        ),
        Measure("Wasserstein distance: age", 0.04, Better.LOWER, Group.FIDELITY, 0.03, 0.05, 0.01, 0.4),
        Measure("validity", 1.0, Better.HIGHER, Group.FIDELITY, 0.99, 1.0, 1.0, 0.0, internal=False),
        Measure("membership AuROC", 0.51, Better.LOWER, Group.CLOSENESS, 0.48, 0.54, 0.5, 1.0),
    ]
    pixels = tuple(tuple(int(v) for v in row) for row in np.random.default_rng(0).integers(0, 255, (4, 64)))
    return Evaluation(
        (*utility, *others),
        1000,
        500,
        0,
        marginals=(
            Marginal(
                "age",
                tuple(f"{k} to {k + 1}" for k in range(20)),
                (0.05,) * 20,
                (0.02, 0.08) * 10,
                ordered=True,
            ),
            Marginal(
                "town",
                tuple(f"a rather long town name {k}" for k in range(30)),
                (1 / 30,) * 30,
                (1 / 30,) * 30,
            ),
        ),
        correlations=Correlations(("a", "b"), ((1.0, -0.5), (-0.5, 1.0)), ((1.0, 0.2), (0.2, 1.0))),
        pictures=Pictures(8, 8, 1, pixels, pixels),
        notes=("A note about the seeds.",),
    )


@pytest.fixture(scope="session")
def code_release() -> Release:
    """A private release of code vectors."""
    from understudy.run.fit import fit

    schema = CodeSchema(tuple(f"{250 + k}.0" for k in range(12)))
    rows = (np.random.default_rng(0).random((64, 12)) < 0.3).astype(int)
    frame = pd.DataFrame(rows, columns=list(schema.codes))
    return fit(frame, plan(schema, epsilon=2.0, delta=1e-3, rows=64, recipe="dp-cgan", batch=8, steps=3))
