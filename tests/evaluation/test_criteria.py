"""Acceptance criteria: hand-made answers, bounds by brute force, charges first, and a verdict in one sentence."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from understudy.data import known
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.source import Rows
from understudy.errors import EvaluationError
from understudy.evaluation import Evaluation, evaluate, judging
from understudy.evaluation.criteria import (
    Classifier,
    Criteria,
    CrossTab,
    Means,
    Regression,
    Score,
    load_criteria,
)
from understudy.evaluation.judging import Questions, judge_criteria
from understudy.evaluation.learners import Learner
from understudy.evaluation.queries import CriteriaSums
from understudy.evaluation.released import evaluation_charge, publish_criteria
from understudy.evaluation.result import Better, Judged
from understudy.privacy.budget import Budget
from understudy.records.encode import encode
from understudy.schema import Binary, Categorical, CodeSchema, Continuous, TableSchema

SCHEMA = TableSchema(
    (
        Continuous("age", 0, 100),
        Continuous("stay", 0, 50, missing=True),
        Categorical("ward", ("a", "b", "c")),
        Binary("ill"),
    ),
    label="ill",
)
CRITERIA = Criteria(
    (
        CrossTab("planning of wards", ("ward", "ill"), 0.05),
        Means("length of stay", "stay", "ward", 1.0),
        Regression("what drives a stay", "stay", ("age", "ward"), 0.1),
        Classifier("triage", 0.75),
        Classifier("ranking", 0.75, score=Score.AUROC),
        Classifier("triage of both", 0.7, score=Score.BALANCED_ACCURACY),
    )
)


@pytest.fixture(autouse=True)
def few_synthetic_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer synthetic rows than in earnest, for speed."""
    monkeypatch.setattr(judging, "SYNTHETIC_ROWS", 4_000)


def people(rows: int, seed: int, *, wrong: bool = False) -> pd.DataFrame:
    """Age and ward drive the stay and the illness; in the wrong ones the ward's effect is turned around."""
    generator = np.random.default_rng(seed)
    age, ward = generator.uniform(20, 90, rows), generator.choice(list("abc"), rows, p=[0.5, 0.3, 0.2])
    effect = np.where(ward == "a", -6.0, 6.0) * (-1 if wrong else 1)
    stay = np.clip(10 + 0.2 * age + effect + generator.normal(0, 2, rows), 0, 50)
    stay[generator.random(rows) < 0.05] = np.nan
    ill = (age + generator.normal(0, 10, rows) > 55).astype(int).astype(str)
    return pd.DataFrame({"age": age, "stay": stay, "ward": ward, "ill": ill})


def test_a_good_release_passes_and_a_wrong_one_fails_where_it_is_wrong(pool_release: Any) -> None:
    """Reversed effects of the ward fail the means and the regression, and nothing else."""
    test = encode(people(3_000, 1), SCHEMA)
    good = judge_criteria(
        CRITERIA, pool_release(SCHEMA, people(3_000, 0)), test, encode(people(3_000, 2), SCHEMA)
    )
    assert [one.passed for one in good] == [True] * 6, good
    assert all(one.ceiling is not None and one.ceiling <= one.limit for one in good[:3])
    bad = judge_criteria(CRITERIA, pool_release(SCHEMA, people(3_000, 0, wrong=True)), test)
    assert [one.passed for one in bad] == [True, False, False, True, True, True], bad
    assert bad[1].value == pytest.approx(12, abs=1.0)
    assert all(one.internal for one in (*good, *bad))


def test_standardised_coefficients_agree_with_sklearn(pool_release: Any) -> None:
    """The coefficients from sums of products are those of a least-squares fit to standardised columns."""
    frame = people(2_000, 0)
    asked = Questions(Criteria((CRITERIA.criteria[2],)), pool_release(SCHEMA, frame))
    found = asked.asked[0]._coefficients(asked.sum(encode(frame, SCHEMA)) * asked.asked[0].bound)  # type: ignore[attr-defined]
    whole = frame.dropna()
    x = np.column_stack([whole["age"], whole["ward"] == "b", whole["ward"] == "c"]).astype(float)
    x, y = (x - x.mean(0)) / x.std(0), (whole["stay"] - whole["stay"].mean()) / whole["stay"].std(ddof=0)
    assert found == pytest.approx(LinearRegression().fit(x, y).coef_, abs=1e-3)


def test_no_row_moves_the_sums_by_more_than_the_stated_sensitivity(pool_release: Any) -> None:
    """Whatever a row holds, also values out of bounds and missing ones, each criterion's part moves by one at most."""
    asked = Questions(CRITERIA, pool_release(SCHEMA, people(500, 0)))
    assert asked.sensitivity == pytest.approx(math.sqrt(6))
    extremes = pd.DataFrame(
        [
            {"age": age, "stay": stay, "ward": ward, "ill": ill}
            for age in (-1e9, 0, 100, 1e9)
            for stay in (0.0, 50.0, math.nan)
            for ward in ("a", "c", "z")
            for ill in ("0", "1")
        ]
    )
    extremes["ward"] = extremes["ward"].replace("z", "b")
    moved = []
    for row in range(len(extremes)):
        one = asked.sum(encode(extremes.iloc[[row]], SCHEMA))
        ends = np.cumsum([0, *(part.size for part in asked.asked)])
        norms = [float(np.linalg.norm(one[a:b])) for a, b in itertools.pairwise(ends)]
        assert max(norms) <= 1 + 1e-9, (extremes.iloc[row].to_dict(), norms)
        moved.append(float(np.linalg.norm(one)))
    assert max(moved) <= asked.sensitivity + 1e-9
    assert max(moved) > 0.9 * asked.sensitivity, "the bound is so wide that the test would miss an error"


def test_the_door_adds_what_the_rows_add(pool_release: Any) -> None:
    """Behind a door without noise the sums are those of all rows, whatever the size of its batches."""
    asked = Questions(CRITERIA, pool_release(SCHEMA, people(500, 0)))
    rows = encode(people(300, 1), SCHEMA)
    query = CriteriaSums(asked)
    query.rows_at_once = 70  # type: ignore[misc]
    door = Door(Rows(rows.x, rows.labels), (), SeededNoise(0), private=False)
    assert door.publish("x", query).value.numpy() == pytest.approx(asked.sum(rows))


def test_published_verdicts_are_charged_first_and_noise_never_flatters(pool_release: Any) -> None:
    """The charge comes before a row is read; with little noise the verdicts stand, with much of it nothing passes."""
    release, events = pool_release(SCHEMA, people(3_000, 0)), []

    class Watched:
        @property
        def content(self) -> pd.DataFrame:
            events.append("read")
            return people(3_000, 1)

    found = publish_criteria(
        release,
        Watched(),
        CRITERIA,
        evaluation_charge(Budget(50, 1e-6)),
        reserve=lambda _: events.append("charge"),
    )
    assert events[0] == "charge"
    assert events.count("charge") == 1
    assert [one.passed for one in found.criteria] == [True] * 6, found.criteria
    assert not any(one.internal for one in found.criteria)
    assert all(one.low is not None and one.low <= one.value <= (one.high or 0) for one in found.criteria)
    assert found.sensitivity == pytest.approx(math.sqrt(6))
    drowned = publish_criteria(release, people(3_000, 1), CRITERIA, evaluation_charge(Budget(0.002, 1e-6)))
    assert not any(one.passed for one in drowned.criteria)


def test_what_cannot_be_asked_is_refused_before_the_charge(pool_release: Any) -> None:
    """A column that is not there, a mean of categories, codes instead of a table: named, and nothing is charged."""
    release, charged = pool_release(SCHEMA, people(200, 0)), []
    for wrong, words in (
        (CrossTab("x", ("ward", "town"), 0.1), "no column 'town'"),
        (Means("x", "ward", "ill", 0.1), "not a number"),
        (Regression("x", "ward", ("age",), 0.1), "one of two categories"),
    ):
        with pytest.raises(EvaluationError, match=words):
            publish_criteria(
                release,
                people(9, 1),
                Criteria((wrong,)),
                evaluation_charge(Budget(1, 1e-6)),
                reserve=charged.append,
            )
    codes = CodeSchema(("a", "b"))
    frame = pd.DataFrame({"a": [1, 0], "b": [1, 1]})
    with pytest.raises(EvaluationError, match="needs a table"):
        Questions(Criteria((CrossTab("x", ("a",), 0.1),)), pool_release(codes, frame))
    assert not charged


def test_verdict_in_one_sentence() -> None:
    """What passed and what failed, in words; a criterion judged twice must pass twice; public ones alone on request."""

    def one(name: str, passed: bool, internal: bool = True) -> Judged:
        return Judged(name, "cross-tab", 0.1, 0.2, Better.LOWER, passed, internal=internal)

    whole = Evaluation(
        (), None, None, 0, criteria=(one("beds", True), one("ICU stays", False), one("age", True))
    )
    assert whole.verdict == "Good enough for beds and age, not for ICU stays."
    assert replace(whole, criteria=(one("beds", True),)).verdict == "Good enough for beds."
    assert (
        replace(whole, criteria=(one("a", False), one("b", False))).verdict == "Not good enough for a and b."
    )
    twice = replace(whole, criteria=(one("beds", True), one("beds", False, internal=False)))
    assert twice.verdict == "Not good enough for beds."
    assert len(twice.public().criteria) == 1
    assert replace(whole, criteria=()).verdict is None
    assert Evaluation.from_json(whole.to_json()) == whole


def test_criteria_are_part_of_an_evaluation(pool_release: Any) -> None:
    """`evaluate` judges beside its measures, and the page is headed by the verdict."""
    small = Criteria((CrossTab("wards", ("ward",), 0.1), Means("stays", "stay", "ward", 1e-6)))
    found = evaluate(
        pool_release(SCHEMA, people(300, 0)),
        people(300, 1),
        learners=[Learner.LOGISTIC_REGRESSION],
        seeds=(0,),
        criteria=small,
    )
    assert found.verdict == "Good enough for wards, not for stays."
    assert found.public().verdict is None


def test_a_file_of_criteria_is_read_and_mistakes_are_named(tmp_path: Path) -> None:
    """Kinds, defaults and refusals of the TOML file."""
    path = tmp_path / "criteria.toml"
    path.write_text(
        '[[criteria]]\nkind = "classifier"\nname = "triage"\nat_least = 0.8\nscore = "macro AuROC"\n'
        '[[criteria]]\nkind = "cross-tab"\nname = "wards"\ncolumns = ["ward", "ill"]\ntolerance = 0.05\n'
    )
    assert load_criteria(path).criteria == (
        Classifier("triage", 0.8, score=Score.AUROC),
        CrossTab("wards", ("ward", "ill"), 0.05),
    )
    for text, words in (
        ("", "criteria: this key is missing"),
        ("criteria = []", "at least one"),
        ('[[criteria]]\nkind = "magic"\nname = "x"', "expected one of 'cross-tab'"),
        ('[[criteria]]\nkind = "cross-tab"\nname = "x"\ncolumns = ["a"]\ntolerance = 0', "positive number"),
        ('[[criteria]]\nkind = "cross-tab"\nname = "x"\ncolumns = ["a", "a"]\ntolerance = 1', "twice"),
    ):
        path.write_text(text)
        with pytest.raises(EvaluationError, match=words):
            load_criteria(path)


def test_the_example_of_the_page_is_judged(pool_release: Any, tmp_path: Path) -> None:
    """The criteria that docs/evaluation.md prints are valid, fit their data, and real rows pass all of them."""
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    text = next(
        block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[[criteria]]" in block
    )
    (tmp_path / "criteria.toml").write_text(text)
    asked = load_criteria(tmp_path / "criteria.toml")
    assert [one.kind for one in asked.criteria] == ["cross-tab", "means", "regression", "classifier"]
    cancer = known("breast-cancer")
    release = pool_release(cancer.schema, cancer.train.frame)
    judged = judge_criteria(asked, release, encode(cancer.train, cancer.schema))
    assert all(one.passed for one in judged), judged


def test_a_bound_that_is_too_small_is_seen(pool_release: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the products of a regression scaled by one column too few break the stated sensitivity."""
    begin = judging._Products.__init__

    def less(self: Any, criterion: Any, layout: Any) -> None:
        begin(self, criterion, layout)
        self.bound -= 1.0

    monkeypatch.setattr(judging._Products, "__init__", less)
    with pytest.raises(AssertionError):
        test_no_row_moves_the_sums_by_more_than_the_stated_sensitivity(pool_release)
