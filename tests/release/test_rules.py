"""Declared rules hold in every synthetic row, whatever recipe made the release."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from understudy.errors import ReleaseError
from understudy.planning import plan
from understudy.records.rules import broken
from understudy.release.release import Release
from understudy.release.sampling import sample_chunks
from understudy.run.fit import fit
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
    Sum,
    TableSchema,
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
        Continuous("systolic", 50, 200, missing=True, decimals=1),
        Continuous("diastolic", 50, 200, missing=True, decimals=1),
        Categorical("smokes", ("0", "1")),
        Integer("years", 0, 40),
        Categorical("sex", ("f", "m")),
    ),
    label="sex",
    rules=(
        Inequality("admitted", "left"),
        Inequality("low", "high"),
        Sum("total", ("low", "high")),
        Combinations(("town", "land"), (("bern", "ch"), ("basel", "ch"), ("bonn", "de"))),
        MissingTogether(("systolic", "diastolic")),
        Implied("smokes", "0", "years", "0"),
        Forbidden(("sex", "town"), (("m", "bonn"),)),
    ),
)


def patients(rows: int, seed: int = 0) -> pd.DataFrame:
    """Rows that keep every rule."""
    source = np.random.default_rng(seed)
    days = np.sort(source.integers(0, 365, (rows, 2)), axis=1)
    small = np.sort(source.integers(0, 50, (rows, 2)), axis=1)
    sex = source.choice(["f", "m"], rows)
    town = np.where(
        sex == "m", source.choice(["bern", "basel"], rows), source.choice(["bern", "basel", "bonn"], rows)
    )
    smokes = source.choice(["0", "1"], rows)
    pressure = source.normal(120, 10, (rows, 2)).round(1)
    pressure[source.random(rows) < 0.2] = np.nan
    return pd.DataFrame(
        {
            "admitted": pd.Timestamp(YEAR[0]) + pd.to_timedelta(days[:, 0], unit="D"),
            "left": pd.Timestamp(YEAR[0]) + pd.to_timedelta(days[:, 1], unit="D"),
            "low": small[:, 0],
            "high": small[:, 1],
            "total": small.sum(axis=1),
            "town": town,
            "land": np.where(town == "bonn", "de", "ch"),
            "systolic": pressure[:, 0],
            "diastolic": pressure[:, 1],
            "smokes": smokes,
            "years": np.where(smokes == "0", 0, source.integers(1, 40, rows)),
            "sex": sex,
        }
    )


@cache
def release(recipe: str = "understudy") -> Release:
    few = {"batch": 8, "noise_multiplier": 5.0} if recipe != "understudy" else {}
    made = plan(SCHEMA, epsilon=3.0, rows=2000, recipe=recipe, steps=4, **few)  # type: ignore[arg-type]
    return fit(patients(2000), made, insecure_seed=1)


def assert_kept(frame: pd.DataFrame) -> None:
    for rule in SCHEMA.rules:
        assert not broken(frame, rule).any(), rule


@pytest.mark.parametrize("recipe", ["understudy", "dp-cgan"])
def test_every_row_keeps_every_rule(recipe: str) -> None:
    """20,000 rows of our recipe and of a paper's critic: no rule is broken, and the classes are as they were drawn."""
    drawn = release(recipe).sample(20_000, seed=1)
    assert isinstance(drawn, pd.DataFrame)
    assert len(drawn) == 20_000
    assert_kept(drawn)
    assert (drawn.dtypes == release(recipe).sample(10, seed=2).dtypes).all()  # type: ignore[union-attr]


@pytest.mark.parametrize("rows", [1, 3])
def test_a_few_rows_of_a_class_keep_the_rules_and_the_class(rows: int) -> None:
    """Rows that take values of others need not be many, nor of any class."""
    drawn = release().sample(rows, label="m", seed=rows)
    assert isinstance(drawn, pd.DataFrame)
    assert drawn["sex"].tolist() == ["m"] * rows
    assert_kept(drawn)


def test_rules_that_contradict_each_other_are_told() -> None:
    """Where no draw helps, the error names the rules instead of giving rows that break them."""
    never = tuple((sex, town) for sex in ("f", "m") for town in ("bern", "basel", "bonn"))
    card = release().card
    schema = replace(SCHEMA, rules=(Forbidden(("sex", "town"), never),))
    wrong = replace(release(), card=replace(card, plan=replace(card.plan, schema=schema)))
    with pytest.raises(ReleaseError, match="never 6 combinations of sex, town"):
        wrong.sample(10, seed=1)


@pytest.mark.slow
def test_rules_hold_in_a_million_rows() -> None:
    """In chunks, as files are written."""
    torch.set_num_threads(1)
    seen = 0
    for chunk in sample_chunks(release(), 1_000_000, seed=1):
        assert isinstance(chunk, pd.DataFrame)
        assert_kept(chunk)
        seen += len(chunk)
    assert seen == 1_000_000
