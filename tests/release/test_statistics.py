"""Statistics of a release: those of its generator, with intervals that include the noise."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from understudy.cli import app
from understudy.errors import ReleaseError
from understudy.planning import plan
from understudy.privacy.mechanisms import GaussianRelease
from understudy.release.readme import model_card
from understudy.release.release import Release
from understudy.release.statistics import published_counts, statistics
from understudy.release.weights import weights_from_bytes, weights_to_bytes
from understudy.run.fit import fit
from understudy.schema import Categorical, Integer, TableSchema

SCHEMA = TableSchema(
    (
        Categorical("sex", ("f", "m")),
        Integer("age", 0, 110),
        Categorical("ward", ("a", "b"), missing=True),
        Categorical("outcome", ("well", "ill")),
    ),
    label="outcome",
)
ROWS = 4000


def people() -> pd.DataFrame:
    """Rows in which ward a is for the old and ill."""
    source = np.random.default_rng(0)
    age = source.integers(20, 91, ROWS)
    ward = np.where(age > 60, "a", source.choice(["b", None], ROWS))
    ill = source.random(ROWS) < np.where(age > 60, 0.8, 0.2)
    sex = source.choice(["f", "m"], ROWS)
    return pd.DataFrame({"sex": sex, "age": age, "ward": ward, "outcome": np.where(ill, "ill", "well")})


@cache
def release() -> Release:
    return fit(people(), plan(SCHEMA, epsilon=5.0, rows=ROWS, steps=150), insecure_seed=1)


def test_answers_are_those_of_many_drawn_rows() -> None:
    """Rates and means equal those of 200,000 synthetic rows up to their chance."""
    rows = release().sample(200_000, seed=1)
    assert isinstance(rows, pd.DataFrame)
    rates = statistics(release(), "outcome by ward")
    for _, one in rates.iterrows():
        there = rows[rows["ward"].isna() if one["ward"] is None else rows["ward"] == one["ward"]]
        assert (there["outcome"] == one["outcome"]).mean() == pytest.approx(one["estimate"], abs=0.01)
    means = statistics(release(), "mean age by ward")
    for _, one in means.iterrows():
        there = rows[rows["ward"].isna() if one["ward"] is None else rows["ward"] == one["ward"]]
        assert there["age"].mean() == pytest.approx(one["mean age"], abs=0.5)


def test_intervals_hold_the_truth_and_the_noise() -> None:
    """They hold the rows' own rates, and are as wide as noise and chance together, computed by hand."""
    table = statistics(release(), "outcome").set_index("outcome")
    charges = {one.purpose: one.mechanism for one in release().card.plan.charges}
    labels = charges["label histogram"]
    assert isinstance(labels, GaussianRelease)
    one = table.loc["ill"]
    assert one["noise"] == pytest.approx(labels.noise_multiplier / ROWS)
    chance = math.sqrt(one["estimate"] * (1 - one["estimate"]) / ROWS)
    assert one["high"] - one["estimate"] == pytest.approx(1.959964 * math.hypot(one["noise"], chance))
    truth = (people()["outcome"] == "ill").mean()
    assert one["low"] < truth < one["high"]
    pairs = charges["label pairs"]
    assert isinstance(pairs, GaussianRelease)
    by_sex = statistics(release(), "outcome by sex")
    assert (by_sex["noise"] > pairs.noise_multiplier * math.sqrt(3) / ROWS).all()
    assert statistics(release(), "sex by outcome")["estimate"].sum() == pytest.approx(2)


@pytest.mark.parametrize(
    "query", ["", "colour", "age", "mean sex", "sex by age", "sex by sex", "mean age by colour", "sex by"]
)
def test_queries_that_mean_nothing_are_refused(query: str) -> None:
    """In a sentence that says what can be asked."""
    with pytest.raises(ReleaseError, match=r"a query is|ask for|listed values"):
        statistics(release(), query)


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    """Tables to look at, CSV for one query, JSON for any number."""
    folder = release().save(tmp_path / "release")
    asked = ["statistics", str(folder), "--query", "outcome by ward"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "missing" in done.output
    assert CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "a.csv")]).exit_code == 0
    assert list(pd.read_csv(tmp_path / "a.csv").columns) == [
        "ward",
        "outcome",
        "estimate",
        "noise",
        "low",
        "high",
    ]
    done = CliRunner().invoke(app, ["statistics", str(folder), "--out", str(tmp_path / "a.json")])
    assert done.exit_code == 0, done.output
    assert set(json.loads((tmp_path / "a.json").read_text())["answers"]) == {
        "sex",
        "ward",
        "outcome",
        "mean age",
    }


def test_every_published_count_is_told_with_its_noise() -> None:
    """Class counts, columns, pairs and triples are all there, and the true counts lie in 95 % of the intervals."""
    told = published_counts(release())
    purposes = {one.purpose for one in release().card.plan.charges} - {"scores of triples"}
    assert set(told["table"]) == purposes
    rows = people()
    classes = told[told["table"] == "label histogram"]
    assert classes["values"].tolist() == ["well", "ill"]
    pairs = told[told["columns"] == "outcome × sex × ward"]
    held = 0
    for _, one in pairs.iterrows():
        outcome, sex, ward = one["values"].split(" × ")
        there = rows["ward"].isna() if ward == "missing" else rows["ward"] == ward
        true = int((there & (rows["outcome"] == outcome) & (rows["sex"] == sex)).sum())
        held += one["low"] <= true <= one["high"]
    assert held >= 0.8 * len(pairs) >= 8
    ages = told[(told["columns"] == "age") & told["values"].str.contains("…")]
    assert ages["count"].sum() == pytest.approx(ROWS, abs=2000)


def test_counts_are_written_by_the_command_and_hold_no_more_than_the_file(tmp_path: Path) -> None:
    """`--counts` writes all of them; a baseline without noise keeps none, since they would be those of real rows."""
    release().save(tmp_path / "release")
    out = tmp_path / "counts.csv"
    done = CliRunner().invoke(app, ["statistics", str(tmp_path / "release"), "--counts", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert len(pd.read_csv(out)) == len(published_counts(release()))
    assert published_counts(tmp_path / "release").equals(published_counts(release()))
    sound = replace(release().card, warnings=())
    assert ("--counts" in model_card(sound)) == sound.private
    refused = ["statistics", str(tmp_path / "release"), "--counts", "--query", "sex"]
    assert CliRunner().invoke(app, refused).exit_code != 0
    baseline = fit(people(), plan(SCHEMA, epsilon=None, rows=ROWS, steps=2), insecure_seed=1)
    with pytest.raises(ReleaseError, match="keeps no counts"):
        published_counts(baseline)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("pair_counts", np.zeros(3, np.float32)),
        ("paired", np.array([[0, 9]])),
        ("pair_groups", np.array([5])),
        ("noises", np.full(7, -1.0)),
        ("looked", np.zeros(2, np.int64)),
    ],
)
def test_counts_that_do_not_fit_the_table_are_refused(name: str, broken: np.ndarray) -> None:
    """A file whose counts belong to another table is not read."""
    blob = weights_to_bytes({**release().weights, name: broken})
    with pytest.raises(ReleaseError, match="do not belong to the generator"):
        weights_from_bytes(blob, release().card.plan.recipe, SCHEMA)
