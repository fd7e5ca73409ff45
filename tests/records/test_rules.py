"""Declared rules: broken ones are found, and mended rows keep all of them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from understudy.errors import SchemaError
from understudy.records.rules import broken, keeping_rules
from understudy.schema import (
    Categorical,
    Combinations,
    Continuous,
    Datetime,
    Forbidden,
    Implied,
    Inequality,
    Integer,
    MissingTogether,
    Rule,
    Sum,
    TableSchema,
    schema_from_toml,
    schema_to_toml,
)

RULES: tuple[Rule, ...] = (
    Inequality("admitted", "left"),
    Inequality("low", "high", strict=True),
    Combinations(("town", "land"), (("bern", "ch"), ("basel", "ch"), ("bonn", "de"))),
    Forbidden(("sex", "pregnant"), (("m", "yes"),)),
    MissingTogether(("systolic", "diastolic")),
    Sum("total", ("low", "high")),
    Implied("smokes", "0", "years", "0"),
)


YEAR = (dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31))
SCHEMA = TableSchema(
    (
        Datetime("admitted", *YEAR),
        Datetime("left", *YEAR),
        Integer("low", 0, 50),
        Integer("high", 0, 50),
        Integer("total", 0, 100),
        Categorical("town", ("bern", "basel", "bonn")),
        Categorical("land", ("ch", "de")),
        Categorical("sex", ("f", "m")),
        Categorical("pregnant", ("no", "yes")),
        Continuous("systolic", 50, 200, missing=True),
        Continuous("diastolic", 50, 200, missing=True),
        Categorical("smokes", ("0", "1")),
        Integer("years", 0, 40),
    ),
    rules=RULES,
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
    mended, left = keeping_rules(frame, SCHEMA, np.random.default_rng(1))
    assert not left.any()
    assert not any(broken(mended, rule).any() for rule in RULES)
    assert (mended.dtypes == frame.dtypes).all()
    assert len(mended) == len(frame)


def test_rows_that_keep_the_rules_are_left_alone() -> None:
    """Mending a second time changes nothing."""
    mended, _ = keeping_rules(patients(1000), SCHEMA, np.random.default_rng(1))
    pd.testing.assert_frame_equal(mended, keeping_rules(mended, SCHEMA, np.random.default_rng(2))[0])


def test_a_functional_dependence_keeps_what_decides() -> None:
    """A land that does not fit its town is replaced, the town stays."""
    rule = RULES[2]
    frame = patients(500)
    mended, _ = keeping_rules(frame, replace(SCHEMA, rules=(rule,)), np.random.default_rng(1))
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


def test_rows_that_nobody_can_mend_are_told() -> None:
    """Where no row keeps the rules, all are named, so that they are drawn again."""
    frame = pd.DataFrame({"a": [30, 40], "b": [1, 2]})
    schema = TableSchema((Integer("a", 0, 50), Integer("b", 0, 50)), rules=(Inequality("a", "b"),))
    assert keeping_rules(frame, schema, np.random.default_rng(0))[1].tolist() == [True, True]


@pytest.mark.parametrize(
    "rule", [Forbidden(("sex", "pregnant"), (("m", "yes"),)), Implied("pregnant", "yes", "sex", "f")]
)
def test_the_label_of_a_row_never_changes(rule: Rule) -> None:
    """A class that was asked for stands: what contradicts it is taken from a row of the same class."""
    schema = replace(SCHEMA, label="sex", rules=(rule,))
    frame = patients(500)
    mended, left = keeping_rules(frame, schema, np.random.default_rng(1))
    assert (mended["sex"] == frame["sex"]).all()
    assert not broken(mended, rule).any()
    assert not left.any()


def test_a_sum_beyond_the_bounds_of_its_total_takes_another_row() -> None:
    """Totals stay within their bounds; where the parts do not allow it, the row is replaced."""
    columns = (Integer("a", 0, 50), Integer("b", 0, 50), Integer("c", 0, 60))
    schema = TableSchema(columns, rules=(Sum("c", ("a", "b")),))
    source = np.random.default_rng(0)
    frame = pd.DataFrame({name: source.integers(0, 51, 400) for name in "abc"})
    mended, left = keeping_rules(frame, schema, source)
    assert not left.any()
    assert (mended["a"] + mended["b"] == mended["c"]).all()
    assert mended["c"].max() <= 60


def test_rules_come_back_from_their_file() -> None:
    """A schema with every kind of rule is the same after a round through TOML."""
    assert schema_from_toml(schema_to_toml(SCHEMA)) == SCHEMA
    assert [str(rule) for rule in RULES[:2]] == ["admitted <= left", "low < high"]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (Inequality("low", "ward"), "is about 'ward', which is not one of the columns"),
        (Inequality("low", "admitted"), "needs two numbers or two moments"),
        (Sum("total", ("low", "town")), "needs columns of numbers"),
        (
            MissingTogether(("systolic", "low")),
            "missing values of 'low', which allows none; set missing = true",
        ),
        (Implied("smokes", "2", "years", "0"), "names '2', which 'smokes' cannot hold"),
        (Implied("smokes", "0", "years", "-1"), "names '-1', which 'years' cannot hold"),
        (Implied("smokes", "0", "years", "some"), "names 'some', which 'years' cannot hold"),
        (Combinations(("town", "admitted"), (("bern", "2019-01-01"),)), "'admitted' cannot hold"),
    ],
)
def test_rules_that_no_row_could_keep_are_refused(rule: Rule, why: str) -> None:
    """A rule names columns that are there, of kinds that it can compare, and values that they can hold."""
    with pytest.raises(SchemaError, match=why):
        replace(SCHEMA, rules=(rule,))


def test_rules_without_sense_are_refused() -> None:
    """A rule on one column, without combinations, or with ragged ones, is refused with its values."""
    with pytest.raises(SchemaError, match="two or more"):
        MissingTogether(("a",))
    with pytest.raises(SchemaError, match="lists no combination"):
        Combinations(("a", "b"), ())
    with pytest.raises(SchemaError, match="has 1 values, not 2"):
        Forbidden(("a", "b"), (("x",),))
