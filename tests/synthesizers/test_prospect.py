"""What a budget buys: told before it is spent, from public facts, and true of the noise that is then drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tiny import TINY_IMAGES, TINY_TABLE
from understudy.auditing.listening import Ear, listening
from understudy.door.noise import SeededNoise
from understudy.planning import plan
from understudy.run.fit import fit, rehearse
from understudy.run.stand_ins import stand_in_rows
from understudy.schema import (
    Binary,
    Categorical,
    CodeSchema,
    CodeTree,
    Continuous,
    Integer,
    Schema,
    TableSchema,
)
from understudy.schema.discover import DISCOVER
from understudy.synthesizers.prospect import Prospect, Reach, reach_of

WIDE = TableSchema(
    (
        *(Continuous(f"x{number}", 0, 1, missing=number % 2 == 0) for number in range(9)),
        Categorical("ward", tuple(f"w{number}" for number in range(40))),
        Binary("sex", ("f", "m")),
        Categorical("outcome", tuple("abcde")),
    ),
    label="outcome",
)


def prospect(schema: Schema, rows: int | None, epsilon: float = 1.0) -> Prospect:
    """What ε buys at δ = 1e-7."""
    found = plan(schema, epsilon=epsilon, delta=1e-7, rows=rows).prospect
    assert found is not None
    return found


@pytest.mark.parametrize("schema", [TINY_TABLE, WIDE, replace(WIDE, label=None), TINY_IMAGES], ids=str)
def test_the_noise_that_is_told_is_the_noise_that_is_drawn(schema: Schema) -> None:
    """Every ± of a prospect is the deviation with which the door answers that purpose; nobody types it twice."""
    made = plan(schema, epsilon=1.0, delta=1e-4, rows=400)
    assert made.prospect is not None
    ear = Ear()
    short = replace(made, recipe=made.recipe.rehearsed())
    list(rehearse(short, stand_in_rows(schema, 50, 0), noise=SeededNoise(1), door=listening(ear)))
    drawn = {draw.purpose: draw.scale for draw in ear.draws}
    for answer in made.prospect.answers:
        size = 1.0 if answer.each != "embedding of a class" else math.sqrt(_features(ear))
        assert answer.noise == pytest.approx(size * drawn[answer.purpose], rel=1e-3), answer.purpose


def _features(ear: Ear) -> int:
    """How many numbers the embedding of a class has."""
    (released,) = next(draw.released for draw in ear.draws if draw.purpose == "mean embedding")
    return released.shape[1]


def test_few_rows_in_many_columns_are_told_what_they_cannot_have() -> None:
    """242 rows in 5 classes: pairs will not be learned, and what would help is named."""
    found = prospect(WIDE, 242)
    text = str(found)
    assert "242 rows in 5 classes, about 48 each" in text
    assert "column pairs" in found.out_of_reach
    assert "rows per cell of pairs (about 12 each): will not be learned" in text
    assert any("columns instead of 11" in one for one in found.advice) or "coarser facts" in text
    assert "'ward' (40)" in text


def test_many_rows_reach_everything() -> None:
    """A large table at a usual budget needs no advice."""
    found = prospect(WIDE, 1_000_000)
    assert {one.reach for one in found.answers} == {Reach.CLEAR}
    assert (found.advice, found.useless, found.out_of_reach) == ((), None, ())


def test_a_private_number_of_rows_decides_nothing() -> None:
    """Where the number of rows is private, the noise is told and nothing is called lost or useless."""
    found = prospect(TINY_TABLE, None, 0.5)
    assert {one.reach for one in found.answers} == {Reach.UNKNOWN}
    assert found.useless is None
    assert "the number of rows is private" in str(found)


def test_critics_are_told_when_records_are_few() -> None:
    """A plan with private steps says what a step sees; with few records that a critic may learn little from them."""
    few, many = (
        plan(TINY_IMAGES, epsilon=10.0, delta=1e-7, rows=rows, recipe="dp-cgan", steps=100).prospect
        for rows in (8_000, 60_000)
    )
    assert few is not None
    assert many is not None
    assert "in every direction" in str(few)
    assert "8,000" in few.advice[0]
    assert many.advice == ()
    assert few.useless is None


def test_registries_are_told_what_is_too_few_and_too_many() -> None:
    """With few records the plan says that no pairs are learned and how many it takes; a tree is asked for if codes
    are many, and declared it is not."""
    codes = tuple(f"{number:03d}" for number in range(1, 900))
    few = prospect(CodeSchema(codes), 300)
    assert any("no pairs are asked for" in one for one in few.advice)
    assert any("fewer codes" in one for one in few.advice)
    assert any("tree" in one for one in few.advice)
    assert prospect(CodeSchema(codes, tree=CodeTree.ICD_9), 1_000_000).advice == ()


def test_reach_follows_the_noise() -> None:
    """Four deviations are clear, one is the least that can be seen at all."""
    assert [reach_of(held, 10.0) for held in (40, 39, 11, 10, None)] == [
        Reach.CLEAR,
        Reach.FAINT,
        Reach.FAINT,
        Reach.LOST,
        Reach.UNKNOWN,
    ]


@pytest.mark.parametrize("schema", [TINY_TABLE, TINY_IMAGES, CodeSchema(tuple("abcdefgh"))], ids=str)
def test_useless_begins_where_noise_is_as_large_as_everything(schema: Schema) -> None:
    """Every kind of data has a budget that buys nothing and one that buys something."""
    assert prospect(schema, 100, 0.01).useless is not None
    assert prospect(schema, 100, 5.0).useless is None


def test_what_is_called_useless_is_not_nearer_than_chance() -> None:
    """Columns of a release just beyond the line are as far from skewed data as evenly drawn values are; a larger
    budget brings them much nearer."""
    source = np.random.default_rng(0)
    schema = TableSchema((Integer("visits", 0, 15), Categorical("town", tuple("abcd"))))
    frame = pd.DataFrame(
        {
            "visits": np.minimum(source.poisson(2, 200), 15),
            "town": source.choice(list("abcd"), 200, p=[0.7, 0.1, 0.1, 0.1]),
        }
    )

    def error(epsilon: float) -> float:
        made = plan(schema, epsilon=epsilon, delta=1e-4, rows=200, steps=60)
        rows = [fit(frame, made, insecure_seed=seed).sample(2000, seed=0) for seed in range(6)]
        return float(np.mean([_distance(frame, one) for one in rows]))

    evenly = pd.DataFrame({"visits": np.arange(16).repeat(4), "town": list("abcd") * 16})
    line = next(e for e in (0.5, 0.2, 0.1, 0.05, 0.02) if prospect(schema, 200, e).useless)
    assert error(line) > 0.7 * _distance(frame, evenly)
    assert error(20 * line) < 0.5 * _distance(frame, evenly)


def _distance(one: pd.DataFrame, other: object) -> float:
    """The summed difference of shares, averaged over the columns."""
    assert isinstance(other, pd.DataFrame)
    found = []
    for name in one.columns:
        shares = [frame[name].value_counts(normalize=True) for frame in (one, other)]
        found.append(float(shares[0].sub(shares[1], fill_value=0).abs().sum()))
    return float(np.mean(found))


def test_absurd_budgets_get_a_sentence() -> None:
    """ε = 500 is certified, and said to promise nothing; usual budgets are not commented on."""
    usual = plan(TINY_TABLE, epsilon=10, rows=1000, delta=1e-4)
    assert usual.spent is not None
    assert usual.remark is None
    weak = replace(usual, spent=replace(usual.spent, epsilon=500.0))
    assert weak.remark is not None
    assert "ε = 500 promises next to nothing" in weak.remark


def test_facts_to_be_discovered_have_a_prospect_and_a_page() -> None:
    """A plan with open bounds and categories says what it buys, and its schema shows what is to be found out."""
    open_one = TableSchema(
        (
            Integer("visits", 0, DISCOVER),
            Continuous("cost", DISCOVER, DISCOVER),
            Categorical("ward", DISCOVER),
            Binary("outcome", ("well", "ill")),
        ),
        label="outcome",
    )
    made = plan(open_one, epsilon=2, delta=1e-4, rows=5000)
    assert made.prospect is not None
    assert "5,000 rows in 2 classes" in str(made.prospect)
    page = open_one._repr_html_()
    assert "0 to discovered" in page
    assert "discovered to discovered" in page
    assert "DISCOVER" not in page + made._repr_html_()
