"""Our own recipe of tables: every vector of counts is bounded, and what is made keeps what the rows show.

What every synthesizer promises (charges, leaks, checkpoints, releases) is in `tests/synthesizers/test_contract.py`.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tiny import TINY_IMAGES, TINY_TABLE, tiny_frame
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.query import Batch, Published, Query
from understudy.door.source import Rows
from understudy.errors import PlanError, RecipeError
from understudy.ledger.ledger import Ledger
from understudy.planning import plan
from understudy.records.encode import encode
from understudy.run.checkpoint import Checkpoints
from understudy.run.fit import fit
from understudy.schema import (
    Binary,
    Categorical,
    CodeSchema,
    Continuous,
    Datetime,
    ImageSchema,
    Integer,
    Ordinal,
    Schema,
    TableSchema,
)
from understudy.synthesizers.marginals.columns import KnownColumn, table_columns
from understudy.synthesizers.marginals.queries import (
    CellCounts,
    ColumnCounts,
    GroupCounts,
    LabelPairCounts,
    PileCounts,
    TripleProducts,
)
from understudy.synthesizers.marginals.recipe import (
    COLUMNS,
    LABEL_PAIRS,
    PAIRS,
    PILES,
    SCORES,
    TRIPLES,
    UNDERSTUDY_TABLES,
)
from understudy.synthesizers.registry import (
    UNDERSTUDY,
    default_recipe,
    find_recipe,
    recipe_from_toml,
    recipe_to_toml,
)
from understudy.synthesizers.shared.parts import LABELS
from understudy.synthesizers.shared.queries import LabelCounts

EVERY_KIND = TableSchema(
    (
        Continuous("dose", -1.0, 3.0, missing=True),
        Integer("visits", 0, 9),
        Integer("income", 0, 100_000, missing=True),
        Categorical("town", ("north", "south", "west"), missing=True),
        Binary("smoker", ("no", "yes"), missing=True),
        Ordinal("grade", ("low", "middle", "high")),
        Datetime("seen", dt.datetime(2020, 1, 1), dt.datetime(2024, 1, 1)),
        Categorical("outcome", ("well", "ill", "gone")),
    ),
    label="outcome",
)
RECIPE = replace(UNDERSTUDY_TABLES, components=20, steps=3)


def frame_of_every_kind(rows: int = 64, seed: int = 0) -> pd.DataFrame:
    """Rows that fit EVERY_KIND."""
    source = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(source.integers(0, 1400, rows), unit="D")
    frame = pd.DataFrame(
        {
            "dose": source.normal(0, 0.3, rows).round(3),
            "visits": source.integers(0, 10, rows),
            "income": source.lognormal(8, 1, rows).astype(int),
            "town": source.choice(["north", "south", "west"], rows),
            "smoker": source.choice(["no", "yes"], rows),
            "grade": source.choice(["low", "middle", "high"], rows),
            "seen": days,
            "outcome": source.choice(["well", "ill", "gone"], rows, p=[0.7, 0.2, 0.1]),
        }
    ).astype({"income": "Int64", "town": object, "smoker": object})
    for column in ("dose", "income", "town", "smoker"):
        frame.loc[source.random(rows) < 0.1, column] = None
    return frame


@cache
def rows_of(rows: int = 64, seed: int = 0) -> Rows:
    encoded = encode(frame_of_every_kind(rows, seed), EVERY_KIND)
    assert encoded.labels is not None
    return Rows(encoded.x, encoded.labels)


# --- sensitivity --------------------------------------------------------------------------------------------


def summed(query: Query, x: np.ndarray, labels: np.ndarray | None) -> torch.Tensor:
    """All exact sums of a query as one vector."""
    sums = query.zero()
    held = None if labels is None else torch.from_numpy(labels)
    query.add(sums, Batch(torch.from_numpy(x), held, SeededNoise(0)))
    return torch.cat([one.flatten() for one in sums])


class Overheard(Door):
    """A door without noise that keeps what it is asked."""

    asked: ClassVar[list[Query]] = []

    def publish(self, purpose: str, query: Query) -> Published:
        self.asked.append(query)
        return super().publish(purpose, query)


@cache
def some_queries() -> tuple[Query, ...]:
    """All that a fit asks, with outcomes from counts without noise: for the sensitivity any fixed ones will do."""
    Overheard.asked.clear()
    fitter = replace(RECIPE, steps=1).fitter(EVERY_KIND, seed=0, device=torch.device("cpu"))
    door = Overheard(rows_of(), [], SeededNoise(0), private=False, rows=64)
    fitter.begin(door, None, lambda: None)
    fitter.advance(door, None)
    return tuple(Overheard.asked)


def test_everything_that_is_declared_was_overheard() -> None:
    """The tests of bounds look at every query of the recipe."""
    declared = RECIPE.releases(EVERY_KIND, 64)
    kinds = (LabelCounts, ColumnCounts, PileCounts, LabelPairCounts, GroupCounts, TripleProducts, GroupCounts)
    assert len(declared) == len(kinds)
    assert tuple(type(one) for one in some_queries()) == kinds


HOSTILE = st.lists(
    st.one_of(st.floats(width=32), st.sampled_from([-1.0, 0.0, 1.0, math.nan, math.inf, -math.inf, 1e30])),
    min_size=sum(column.width for column in table_columns(EVERY_KIND)),
    max_size=sum(column.width for column in table_columns(EVERY_KIND)),
)


def excesses(record: list[float], label: int, kind: type = object) -> list[float]:
    """By how much one more record moves each vector of a kind beyond its claimed sensitivity."""
    before = rows_of()
    x, labels = np.asarray(before.x), np.asarray(before.labels)
    more = np.vstack([x, np.array([record], dtype=np.float32)])
    return [
        float((summed(query, more, np.append(labels, label)) - summed(query, x, labels)).norm())
        - query.sensitivity
        for query in some_queries()
        if isinstance(query, kind)
    ]


def some_columns() -> tuple[KnownColumn, ...]:
    """The columns as the products know them."""
    (query,) = (one for one in some_queries() if isinstance(one, TripleProducts))
    return tuple(query._columns)


PILED = np.asarray(encode(frame_of_every_kind(64).dropna().iloc[:3], EVERY_KIND).x)
"""Records whose values are looked into, since they are those that were counted."""


@settings(max_examples=30, deadline=None)
@given(record=HOSTILE, label=st.integers(0, 2))
def test_one_record_moves_every_vector_by_at_most_its_sensitivity(record: list[float], label: int) -> None:
    """Whatever a record holds, it adds at most one to each marginal and sum, and the noise is scaled for all."""
    assert max(excesses(record, label)) <= 1e-9


def test_the_sensitivity_is_reached() -> None:
    """The bound is tight: an ordinary record without missing values adds one to every marginal."""
    x = np.asarray(rows_of(1, seed=3).x)[0].tolist()
    reached = dict(zip((type(one) for one in some_queries()), excesses(x, 0), strict=True))
    assert min(reached[kind] for kind in (ColumnCounts, LabelPairCounts, GroupCounts)) > -1e-9


@pytest.mark.parametrize(
    ("kind", "claimed"),
    [
        (CellCounts, lambda _: 1.0),
        (CellCounts, lambda query: math.sqrt(len(query._sizes) - 1)),
        (PileCounts, lambda query: math.sqrt(len(query._sizes)) - 0.5),
        (TripleProducts, lambda _: 1.0),
    ],
)
def test_noise_for_less_is_caught(kind: type, claimed: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bugs 'k marginals with sensitivity 1', '√(k − 1)', and products noised like one of them."""
    monkeypatch.setattr(kind, "sensitivity", property(claimed))  # type: ignore[arg-type]
    assert max(max(excesses(one.tolist(), 0, kind)) for one in PILED) > 0


def test_leans_beyond_one_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leans that some other rule would make ten times as large move the sums no further than is claimed."""
    query = TripleProducts(
        some_columns(), {i: np.full(one.width, 10.0) for i, one in enumerate(some_columns())}, None
    )
    x = np.asarray(rows_of(1, seed=3).x)
    assert float(summed(query, x, None).norm()) <= query.sensitivity + 1e-9
    monkeypatch.setattr(np, "clip", lambda values, *_: values)
    loud = TripleProducts(
        some_columns(), {i: np.full(one.width, 10.0) for i, one in enumerate(some_columns())}, None
    )
    monkeypatch.undo()
    assert float(summed(loud, x, None).norm()) > loud.sensitivity


# --- the plan -----------------------------------------------------------------------------------------------


def test_the_charges_fit_the_schema() -> None:
    """No label, no deep grid, fewer than three columns or only one: each leaves charges out; all cost the budget."""
    labelled = plan(TINY_TABLE, epsilon=1.0, rows=10_000, recipe="understudy")
    assert [one.purpose for one in labelled.charges] == [
        LABELS, COLUMNS, PILES, LABEL_PAIRS, PAIRS, SCORES, TRIPLES
    ]  # fmt: skip
    assert labelled.spent is not None
    assert 0.99 < labelled.spent.epsilon <= 1.0
    plain = plan(replace(TINY_TABLE, label=None), epsilon=1.0, rows=10_000, recipe="understudy")
    assert [one.purpose for one in plain.charges] == [COLUMNS, PILES, PAIRS, SCORES, TRIPLES]
    two = plan(TableSchema((Binary("a"), Binary("b"))), epsilon=1.0, rows=10_000, recipe="understudy")
    assert [one.purpose for one in two.charges] == [COLUMNS, PAIRS]
    single = plan(TableSchema((Binary("a"),)), epsilon=1.0, rows=10_000, recipe="understudy")
    assert [one.purpose for one in single.charges] == [COLUMNS]


@pytest.mark.parametrize(
    ("schema", "name", "text"),
    [
        (TINY_TABLE, "understudy-tables", None),
        (replace(TINY_TABLE, label=None), "understudy-tables", None),
        (ImageSchema(28, 28, 1, classes=("a", "b")), "understudy-images", None),
        (None, "understudy-images", None),
        (ImageSchema(28, 28, 1), "understudy-images", None),
        (ImageSchema(4, 28, 1), "small-images", "at least 8×8"),
        (ImageSchema(4, 28, 1, classes=("a", "b")), "dp-cgan", "at least 8×8"),
        (CodeSchema(("a", "b")), "understudy-codes", None),
        (CodeSchema(("a", "b"), label=Binary("c")), "understudy-codes", None),
    ],
)
def test_the_default_recipe_serves_the_data_or_says_why_not(
    schema: Schema | None, name: str, text: str | None
) -> None:
    """Without a name our own recipe is taken where it serves, else one of the papers', with a reason."""
    default = default_recipe(schema)
    assert default.recipe.name == name
    assert (default.why is None) == (text is None)
    assert text is None or text in str(default.why)
    made = plan(schema, epsilon=4.0, rows=10_000)
    assert made.recipe.name == name
    assert text is not None or find_recipe(UNDERSTUDY, schema).name == name


def test_a_recipe_for_other_data_is_refused_by_name() -> None:
    """Who passes the recipe of tables with codes, or noise to a recipe without a critic, is told what to take."""
    with pytest.raises(
        PlanError, match=r"makes tables, not codes\. The recipe understudy chooses by the data"
    ):
        plan(CodeSchema(("a", "b")), epsilon=1.0, rows=1000, recipe=UNDERSTUDY_TABLES)
    with pytest.raises(PlanError, match="--recipe dp-cgan"):
        plan(TINY_TABLE, epsilon=1.0, rows=1000, noise_multiplier=1.0)


def test_numbers_that_mean_nothing_are_refused() -> None:
    """Too few bins or columns, and shares beyond the whole, are errors."""
    for wrong in ({"bins": 1}, {"support": 0.0}, {"columns": 1}, {"pair_share": 2.0}, {"components": 0}):
        with pytest.raises(RecipeError):
            replace(UNDERSTUDY_TABLES, **wrong)  # type: ignore[arg-type]


# --- the release --------------------------------------------------------------------------------------------


def test_missing_values_stay_as_frequent_as_they_were() -> None:
    """What is missing in a tenth of the rows is missing in about a tenth of the records, in every kind of column."""
    made = plan(EVERY_KIND, epsilon=None, rows=2000, recipe=replace(RECIPE, steps=60))
    drawn = fit(frame_of_every_kind(2000), made, insecure_seed=1).sample(2000, seed=1)
    assert isinstance(drawn, pd.DataFrame)
    for column in ("dose", "income", "town", "smoker"):
        assert 0.06 < drawn[column].isna().mean() < 0.14
    assert drawn["income"].median() == pytest.approx(frame_of_every_kind(2000)["income"].median(), rel=0.2)


def related(rows: int, seed: int, *, shuffled: bool = False) -> pd.DataFrame:
    """A skewed number decides the outcome, and a second one follows the first."""
    source = np.random.default_rng(seed)
    first = source.lognormal(-3.5, 0.8, rows).clip(0, 2)
    frame = pd.DataFrame(
        {
            "first": first,
            "second": (first * 3 + source.normal(0, 0.03, rows)).clip(-1, 6),
            "outcome": np.where(first > 0.05, "ill", "well"),
        }
    )
    if shuffled:
        frame["outcome"] = source.permutation(frame["outcome"])
    return frame


RELATED = TableSchema(
    (Continuous("first", 0, 2), Continuous("second", -1, 6), Categorical("outcome", ("well", "ill"))),
    label="outcome",
)


def learned(*, shuffled: bool) -> tuple[float, float]:
    """Accuracy of the rule that made the data on synthetic rows, and the rank correlation of the two numbers."""
    made = plan(RELATED, epsilon=2.0, rows=3000, recipe="understudy", steps=80)
    drawn = fit(related(3000, 1, shuffled=shuffled), made, insecure_seed=3).sample(3000, seed=2)
    assert isinstance(drawn, pd.DataFrame)
    right = ((drawn["first"] > 0.05) == (drawn["outcome"] == "ill")).mean()
    return float(right), float(stats.spearmanr(drawn["first"], drawn["second"]).statistic)


def test_synthetic_rows_keep_what_the_real_ones_show() -> None:
    """The rule and the correlation survive at ε = 2; a table whose labels mean nothing shows that this can fail."""
    accuracy, correlation = learned(shuffled=False)
    assert accuracy > 0.85
    assert correlation > 0.5
    assert learned(shuffled=True)[0] < 0.65


@pytest.mark.parametrize("schema", [TINY_TABLE, TINY_IMAGES])
def test_the_recipe_of_a_plan_can_be_written_down(schema: Schema) -> None:
    """A report prints the recipe that was planned, so it must be sayable in TOML and come back equal."""
    made = plan(schema, epsilon=4.0, rows=10_000).recipe
    assert recipe_from_toml(recipe_to_toml(made)) == made


def test_a_run_killed_after_its_triples_goes_on_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was drawn and lost is spent: the resumed run draws nothing twice, and ends."""
    from understudy.run.run import Run

    made = plan(TINY_TABLE, epsilon=2.0, delta=1e-3, rows=64, steps=6)
    kept, saves = Run._save, []

    def dies_once(self: Run) -> None:
        saves.append(1)
        if len(saves) == 2:
            raise KeyboardInterrupt
        kept(self)

    options: dict[str, Any] = {"out": tmp_path / "release"}
    monkeypatch.setattr(Run, "_save", dies_once)
    with pytest.raises(KeyboardInterrupt):
        fit(tiny_frame(), made, checkpoints=Checkpoints(tmp_path / "run"), **options)
    monkeypatch.setattr(Run, "_save", kept)
    fit(tiny_frame(), made, checkpoints=Checkpoints(tmp_path / "run", resume=True), **options)
    with Ledger(tmp_path / "release.ledger") as book:
        (entry,) = book.statement("this data set").entries
    assert set(entry.draws.values()) == {1}
