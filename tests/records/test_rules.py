"""Declared rules: broken ones are found, and mended rows keep all of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from understudy.errors import DataError, SchemaError
from understudy.records.rules import broken, keeping_rules
from understudy.schema.rules import Combinations, Forbidden, Implied, Inequality, MissingTogether, Rule, Sum

RULES: tuple[Rule, ...] = (
    Inequality("admitted", "left"),
    Inequality("low", "high", strict=True),
    Combinations(("town", "land"), (("bern", "ch"), ("basel", "ch"), ("bonn", "de"))),
    Forbidden(("sex", "pregnant"), (("m", "yes"),)),
    MissingTogether(("systolic", "diastolic")),
    Sum("total", ("low", "high")),
    Implied("smokes", "0", "years", "0"),
)


def patients(rows: int) -> pd.DataFrame:
    """Rows of independent columns, which break every rule."""
    source = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(source.integers(0, 300, (2, rows)).ravel(), unit="D")
    pressure = source.integers(60, 180, (2, rows)).astype(float)
    pressure[source.random((2, rows)) < 0.2] = np.nan
    return pd.DataFrame(
        {
            "admitted": days[:rows],
            "left": days[rows:],
            "low": source.integers(0, 50, rows),
            "high": source.integers(0, 50, rows),
            "total": source.integers(0, 100, rows),
            "town": source.choice(["bern", "basel", "bonn"], rows),
            "land": source.choice(["ch", "de"], rows),
            "sex": source.choice(["f", "m"], rows),
            "pregnant": source.choice(["no", "yes"], rows),
            "systolic": pressure[0],
            "diastolic": pressure[1],
            "smokes": source.choice(["0", "1"], rows),
            "years": source.integers(0, 40, rows),
        }
    )


def test_mended_rows_keep_every_rule_and_their_types() -> None:
    """Rows that break all rules before break none afterwards, and columns keep their types."""
    frame = patients(5000)
    assert all(broken(frame, rule).any() for rule in RULES)
    mended = keeping_rules(frame, RULES, np.random.default_rng(1))
    assert not any(broken(mended, rule).any() for rule in RULES)
    assert (mended.dtypes == frame.dtypes).all()
    assert len(mended) == len(frame)


def test_rows_that_keep_the_rules_are_left_alone() -> None:
    """Mending a second time changes nothing."""
    mended = keeping_rules(patients(1000), RULES, np.random.default_rng(1))
    pd.testing.assert_frame_equal(mended, keeping_rules(mended, RULES, np.random.default_rng(2)))


def test_a_functional_dependence_keeps_what_decides() -> None:
    """A land that does not fit its town is replaced, the town stays."""
    rule = RULES[2]
    frame = patients(500)
    mended = keeping_rules(frame, [rule], np.random.default_rng(1))
    assert (mended["town"] == frame["town"]).all()
    assert not broken(mended, rule).any()


def test_missing_and_equal_values_by_hand() -> None:
    """Missing values break no inequality; equal ones only a strict one; sums are missing with their parts."""
    frame = pd.DataFrame(
        {"a": [1.0, 2.0, np.nan, 3.0], "b": [1.0, 1.0, 1.0, np.nan], "c": [2.0, 9.0, 5.0, np.nan]}
    )
    assert broken(frame, Inequality("a", "b")).tolist() == [False, True, False, False]
    assert broken(frame, Inequality("a", "b", strict=True)).tolist() == [True, True, False, False]
    assert broken(frame, Sum("c", ("a", "b"))).tolist() == [False, True, True, False]
    assert broken(frame, Implied("a", "", "c", "5")).tolist() == [False] * 4


def test_rules_that_cannot_be_kept_are_refused() -> None:
    """When no row keeps the rules, the error says so instead of returning broken rows."""
    frame = pd.DataFrame({"a": [3, 4], "b": [1, 2]})
    with pytest.raises(DataError, match="no synthetic row"):
        keeping_rules(frame, [Inequality("a", "b")], np.random.default_rng(0))


def test_rules_without_sense_are_refused() -> None:
    """A rule on one column, without combinations, or with ragged ones, is refused with its values."""
    with pytest.raises(SchemaError, match="two or more"):
        MissingTogether(("a",))
    with pytest.raises(SchemaError, match="lists no combination"):
        Combinations(("a", "b"), ())
    with pytest.raises(SchemaError, match="has 1 values, not 2"):
        Forbidden(("a", "b"), (("x",),))
